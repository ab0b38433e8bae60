"""Parts of texts, and which columns are read by them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacbayes.rows import TEXT_BITS, TEXT_COLUMNS, CodeBook
from pacbayes.rows._code_book import to_parts
from pacbayes.rows._hashing import hash_texts

N_PARTS, MASK = TEXT_COLUMNS * TEXT_BITS, 2**64 - 1


def read_parts(row):
    """Return the parts that a row of numbers holds."""
    return {c * TEXT_BITS + b for c, held in enumerate(row) for b in range(TEXT_BITS) if int(held) >> b & 1}


def find_part(sequence, kind):
    h = 0xCBF29CE484222325 + kind
    for byte in sequence:
        h = (h ^ byte) * 0x100000001B3 & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = (h ^ h >> shift) * factor & MASK
    return (h ^ h >> 31) % N_PARTS


def find_parts(text):
    """Return the parts of a text: its words, and three bytes in a row of these, with spaces at both ends."""
    raw = text.encode("utf-8", "surrogatepass").translate(
        bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
    )
    words = bytes(b if b >= 128 or chr(b).isalnum() else 32 for b in raw).split()
    joined = b" " + b" ".join(words) + b" " if words else b""
    triples = [joined[i : i + 3] for i in range(len(joined) - 2)]
    return {find_part(word, 0) for word in words} | {find_part(triple, 1) for triple in triples}


@given(st.lists(st.text(max_size=40), max_size=5))
@example(["", " ", "a", "A b", "ÄÖ é", "x\x00y", "\ud800", "a,,b", "日本語のテキスト"])
def test_parts_are_words_and_sequences_of_three(texts):
    rows = to_parts(texts)
    assert rows.shape == (len(texts), TEXT_COLUMNS)
    assert ((rows >= 0) & (rows < 2**TEXT_BITS) & (rows == np.floor(rows))).all()
    assert [read_parts(row) for row in rows] == [find_parts(text) for text in texts]


def test_a_part_is_any_of_a_thousand():
    rows = to_parts([f"word{k}" for k in range(20_000)])
    assert set().union(*map(read_parts, rows)) == set(range(N_PARTS))


@pytest.mark.parametrize("ends", [[2, 1], [4], [-1]])
def test_texts_end_in_their_bytes(ends):
    with pytest.raises(ValueError, match="ends must rise up to the number of bytes"):
        hash_texts(np.zeros(3, dtype=np.uint8), np.array(ends), np.empty((len(ends), TEXT_COLUMNS)))


def make_table(n_names, n_rows=1200):
    return pd.DataFrame(
        {
            "size": np.arange(n_rows, dtype=float),
            "name": [f"name {k % n_names}" for k in range(n_rows)],
            "kind": ["a", None, "b"] * (n_rows // 3),
        }
    )


@pytest.mark.parametrize(
    ("n_names", "n_rows", "is_text"),
    [
        (50, 1200, False),
        (60, 1200, False),
        (61, 1200, True),
        (50, 60, False),
        (51, 60, True),
        (60, 1203, False),
    ],
)
def test_many_categories_for_the_rows_are_texts(n_names, n_rows, is_text):
    table = make_table(n_names, n_rows)
    book = CodeBook.learn(table)
    assert book.texts == ((False, True, False) if is_text else ())
    rows = book.encode(table)
    assert rows.shape[1] == book.n_features == book.first_text + TEXT_COLUMNS * is_text
    assert CodeBook.from_json(book.to_json()) == book
    assert ("texts" in json.loads(book.to_json())) == is_text


def test_gaps_count_for_no_row():
    table = make_table(61)
    table.loc[:1, "name"] = None
    assert CodeBook.learn(table).texts
    table["name"] = table["name"].where(np.arange(1200) < 1219, None)
    table["other"] = [f"name {k}" if k < 51 else None for k in range(1200)]
    assert CodeBook.learn(table).texts == (False, True, False, True)


def test_a_row_has_the_parts_of_its_texts_known_or_not():
    table = make_table(100).assign(other=[f"{k} b" for k in range(1200)])
    book = CodeBook.learn(table)
    new = pd.DataFrame(
        {"size": [1.0] * 3, "name": ["name 7", "never seen", None], "kind": ["a"] * 3, "other": ["x", None, "3 b"]}
    )
    rows = book.encode(new)
    names, others = (book.categories[k] for k in (1, 3))
    expected = [[1 + names.index("name 7"), 1, -1], [-1, 1, 0], [0, 1, 1 + others.index("3 b")]]
    assert rows[:, book.first_category : book.first_text].tolist() == expected
    first, second = np.split(rows[:, book.first_text :], 2, axis=1)
    np.testing.assert_array_equal(first, to_parts(["name 7", "never seen", ""]))
    np.testing.assert_array_equal(second, to_parts(["x", "", "3 b"]))
    np.testing.assert_array_equal(rows[[1]], book.encode(new.iloc[[1]]))


def test_a_code_book_without_texts_is_read_from_older_files():
    book = CodeBook.learn(make_table(10))
    assert "texts" not in json.loads(book.to_json())
    assert CodeBook.from_json(book.to_json()) == book
