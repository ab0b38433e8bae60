import hashlib
import io
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from pacbayes import PACBayesClassifier
from pacbayes.exceptions import TableError
from pacbayes.io import Column, Provenance, Table, read_losses, read_table
from pacbayes.io import _files as files_module
from pacbayes.io._encoding import _CHUNK_SIZE, decoded
from pacbayes.io._limits import Budget
from pacbayes.pools import RBFSVMPool

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": rng.normal(size=60),
        "count": rng.integers(0, 9, 60),
        "city": rng.choice(["Oslo", "Rome", 'the "old" town, by the sea'], 60),
        "kind": rng.choice(["a", "b"], 60),
    }
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(path, match, *arguments, **options):
    with pytest.raises(TableError, match=match) as caught:
        read_table(path, *arguments, **options)
    assert str(caught.value).startswith(f"'{path}': ")


def test_two_lines_from_a_file_to_a_classifier(write):
    table = read_table(write(FRAME.drop(columns="city").to_csv(index=False)), target="kind")
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, random_state=0).fit(table.X, table.y)
    assert model.certificate_.n_hypotheses == 5


def test_csv_holds_what_was_written(write):
    path = write(FRAME.to_csv(index=False))
    table = read_table(path, "kind")
    assert table.schema.columns == (Column("size", "number"), Column("count", "number"), Column("city", "text"))
    np.testing.assert_array_equal(table.X[["size", "count"]], FRAME[["size", "count"]])
    assert table.X["city"].tolist() == FRAME["city"].tolist()
    assert table.y.tolist() == FRAME["kind"].tolist()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert table.schema.source == Provenance("data.csv", digest, 60, "csv", ",", ".", "utf-8")


def test_formats_agree(tmp_path, write):
    numbers = FRAME[["size", "count"]].assign(kind=(FRAME["kind"] == "a").astype(int))
    numbers.to_parquet(tmp_path / "data.parquet")
    dump_svmlight_file(
        numbers[["size", "count"]].to_numpy(), numbers["kind"], str(tmp_path / "data.svm"), zero_based=False
    )
    tables = [
        read_table(write(numbers.to_csv(index=False)), "kind"),
        read_table(write(numbers.to_csv(index=False, sep="\t"), "data.tsv"), "kind"),
        read_table(write(numbers.to_csv(index=False, sep=";"), "semicolons.csv"), "kind", separator=";"),
        read_table(tmp_path / "data.parquet", "kind"),
        read_table(tmp_path / "data.svm"),
    ]
    for table in tables[1:]:
        np.testing.assert_allclose(table.X.to_numpy(), tables[0].X.to_numpy(), rtol=1e-12)
        np.testing.assert_array_equal(table.y, tables[0].y)


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1).filter(
                lambda text: text not in files_module._MISSING and not text.isdigit()
            ),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_cells_are_read_as_pandas_reads_them(rows):
    frame = pd.DataFrame(rows, columns=["number", "text"])
    buffer = io.BytesIO()
    frame.to_csv(buffer, index=False)
    path = Path(f"{__file__}.{np.random.default_rng().integers(2**60)}.csv")
    try:
        path.write_bytes(buffer.getvalue())
        table = read_table(path, text=["text"])
    finally:
        path.unlink()
    np.testing.assert_array_equal(table.X["number"], frame["number"])
    assert table.X["text"].tolist() == frame["text"].tolist()


def test_spaces_around_cells_and_missing_values(write):
    table = read_table(write('x , y,kind\n 1,?, a\nNA, 2 ,"b "\n,3,a\n'), "kind", missing=["?"])
    np.testing.assert_array_equal(table.X, [[1, np.nan], [np.nan, 2], [np.nan, 3]])
    assert table.y.tolist() == ["a", "b", "a"]
    assert table.missing == {"x": 2, "y": 1}
    assert not table.schema.complete


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_marks_and_empty_lines(write, newline):
    lines = ["", "x,kind", "", '"1",a', '2,"b"', ""]
    path = write(b"\xef\xbb\xbf" + newline.join(lines).encode())
    assert read_table(path, "kind").X["x"].tolist() == [1, 2]
    path.write_bytes(path.read_bytes() + newline.encode() + b"3")
    refused(path, "line 7: 1 cells, and the first row has 2")


def test_threads_of_the_reader_hold_nothing_of_python(write, monkeypatch):
    # They go on when an error was raised. To let go of an object they would need the interpreter, and abort the process
    # if that is about to end.
    given = []

    def open_csv(file, parse_options, **options):
        given.append((type(file), parse_options.invalid_row_handler))
        return original(file, parse_options=parse_options, **options)

    original = pyarrow.csv.open_csv
    monkeypatch.setattr(pyarrow.csv, "open_csv", open_csv)
    with pytest.raises(TableError, match="line 5: 3 cells, and the first row has 2"):
        read_table(write('x,kind\n1,"a\nb"\n\n2,b,3\n4,b\n5\n'), "kind")
    assert given == [(pa.OSFile if os.name == "posix" else io.BufferedReader, None)]


def test_a_file_as_standard_input(write, monkeypatch):
    path = write(FRAME.to_csv(index=False))
    with path.open() as file:
        file.buffer.raw.name = "<stdin>"  # as that of a program is called
        monkeypatch.setattr(sys, "stdin", file)
        table = read_table("-", "kind")
    pd.testing.assert_frame_equal(table.X, read_table(path, "kind").X)


def test_line_breaks_inside_cells(write):
    path = write('x,note,kind\n1,"two\nlines",a\n2,"three\n\nlines",b\n')
    assert read_table(path, "kind").X["note"].tolist() == ["two\nlines", "three\n\nlines"]
    refused(write('x,note\n1,"two\nlines"\n2\n'), "line 4: 1 cells, and the first row has 2")


def test_true_and_false_are_text(write):
    table = read_table(write("open,kind\nTrue,0\nFalse,1\n"), "kind")
    assert table.schema.columns == (Column("open", "text"),)
    assert table.y.tolist() == [0, 1]


def test_text_by_request(write):
    table = read_table(write("code,kind\n01,a\n02,b\n"), "kind", text=["code"])
    assert table.X["code"].tolist() == ["01", "02"]
    refused(write("code,kind\n01,a\n02,b\n"), "there is no column 'x', only 'code', 'kind'", text=["x"])
    refused(write("code,kind\n01,a\n02,b\n"), "'kind' is the target", "kind", text=["kind"])


def test_without_a_target(write):
    table = read_table(write("x\n1\n2\n"))
    assert table.y is None
    assert (table.schema.target, table.schema.classes) == (None, ())


def test_with_the_schema_of_a_model(write):
    schema = read_table(write(FRAME.to_csv(index=False)), "kind").schema
    new = FRAME.assign(kind="", extra=1, count="3")[["extra", "kind", "city", "count", "size"]]
    path = write(new.to_csv(index=False), "new.csv")
    refused(path, "has 'extra', which the model does not know", schema=schema)
    table = read_table(path, schema=schema, allow_extra=True)
    assert table.X.columns.tolist() == ["size", "count", "city"]
    assert table.y is None
    assert table.schema.classes == ("a", "b")
    assert table.schema.source.name == "new.csv"
    refused(path, "the target 'kind' is missing in 60 of 60 rows", "kind", schema=schema, allow_extra=True)
    labelled = read_table(write(FRAME.to_csv(index=False)), "kind", schema=schema)
    assert labelled.y.tolist() == FRAME["kind"].tolist()


def test_the_file_is_opened_once(write, monkeypatch):
    path = write(FRAME.to_csv(index=False))
    opened = []
    original = Path.open

    def count(self, *arguments, **options):
        opened.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", count)
    monkeypatch.setattr("builtins.open", None)
    read_table(path, "kind")
    assert opened == [path]


def test_limits(write, tmp_path):
    refused(
        write(FRAME.to_csv(index=False)), "more than 1000 bytes of memory, the limit that max_bytes", max_bytes=1000
    )
    # Each cell of a byte takes four bytes at least.
    refused(write("x\n" + "1\n" * 10_000), "more than 39.1 KiB of memory", max_bytes=40_000)
    refused(write("1 1000000:1\n", "data.svm"), "a file of 12 bytes cannot hold a table of 3.82 GiB")
    refused(write("1 20000:1\n", "data.svm"), "more than 70 MiB of memory", max_bytes=70 * 2**20)
    pd.DataFrame({"x": np.zeros(100_000)}).to_parquet(tmp_path / "data.parquet")
    assert (tmp_path / "data.parquet").stat().st_size < 10_000
    refused(tmp_path / "data.parquet", "more than 97.7 KiB of memory", max_bytes=100_000)
    with pytest.raises(TableError, match="memory"):
        read_losses(write("0.5\n" * 1000), max_bytes=100)


def test_names_of_formats(write):
    refused(write("x"), "the format must be csv, parquet, libsvm or xlsx, got 'ods'", format="ods")
    refused(write("x", "data.dat"), "the name does not end in .csv, .tsv, ")
    assert read_table(write("x,kind\n1,a\n2,b\n", "data.gz"), "kind", format="csv").X.shape == (2, 1)


@pytest.mark.parametrize("separator", ["", "::", "§", '"', "\n"])
def test_separators_that_cannot_be(write, separator):
    refused(write("x,y\n1,2\n"), "the separator must be a single character", separator=separator)


def test_positions_of_bytes_that_are_no_text():
    # The second chunk begins within a character.
    def read(data, encoding="utf-8"):
        with decoded(io.BytesIO(data), encoding, Budget(2**30, TableError)) as (file, found):
            return file.read(), found

    text = "a\n" * (_CHUNK_SIZE // 2 - 1) + "xé\n"
    assert read(text.encode()) == (text.encode(), "utf-8")
    for broken, line in ((text.encode() + b"\xff\n", _CHUNK_SIZE // 2 + 1), (text.encode()[:-2], _CHUNK_SIZE // 2)):
        with pytest.raises(TableError, match=f"line {line}: not UTF-8 text"):
            read(broken)
    assert read(text.encode("latin-1"), None) == (text.encode(), "cp1252")
    assert read(text.encode("utf-16"), None) == (text.encode(), "utf-16")
    with pytest.raises(TableError, match="line 3: a zero byte"):
        read(b"a\nb\n\0")
    for guessed in (b"\xe9\x01", b"\xe9\x81"):  # a control character, and a byte that Windows-1252 has no letter for
        with pytest.raises(TableError, match=r"line 1: not UTF-8 text \(byte 0xe9\); give its encoding"):
            read(guessed, None)
    with pytest.raises(TableError, match="there is no encoding 'klingon'"):
        read(b"a", "klingon")
    with pytest.raises(TableError, match="there is no encoding 'base64'"):
        read(b"a", "base64")


# ---------------------------------------------------------------------------------------------------
# Parquet and data frames
# ---------------------------------------------------------------------------------------------------


def test_parquet_columns(tmp_path):
    path = tmp_path / "data.parquet"
    data = pd.DataFrame(
        {
            "name": pd.Categorical(["u", "v"] * 20),
            "code": pd.Categorical([1, 2] * 20),
            "count": pd.array([1, None] * 20, dtype="Int64"),
            "open": pd.Series([True, None] * 20, dtype=object),
            "text": ["p", None] * 20,
            "single": np.arange(40, dtype=np.float32),
            "kind": [True, False] * 20,
        },
        index=pd.Index(range(40), name="id"),
    )
    data.to_parquet(path)
    table = read_table(path, "kind")
    assert table.schema.names_of("number") == ["code", "count", "single"]
    assert table.schema.names_of("text") == ["name", "open", "text"]
    assert table.schema.classes == ("False", "True")
    assert table.missing == {"count": 20, "open": 20, "text": 20}
    assert table.X["open"].cat.categories.tolist() == ["True"]


def test_parquet_decimals_that_are_whole_numbers(tmp_path):
    """Identifiers of databases, of more digits than float64 has."""
    whole = pa.array([2**60 + 1, None, -3], pa.decimal128(38, 0))
    beyond = pa.array([2**100, None, -3], pa.decimal128(38, 0))
    pq.write_table(pa.table({"a": [1, 2, 3], "id": whole, "other": beyond}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", drop=["id"], carry=True)
    assert table.carried["id"].tolist() == [2**60 + 1, pd.NA, -3]
    assert table.X["other"].tolist()[::2] == [2.0**100, -3.0]


def test_parquet_rows_of_many_batches(tmp_path):
    n = 150_000
    data = pd.DataFrame({"text": np.arange(n) % 1000, "kind": np.arange(n) % 2}).astype({"text": str})
    data["text"] = "t" + data["text"]
    data.to_parquet(tmp_path / "data.parquet", row_group_size=20_000)
    table = read_table(tmp_path / "data.parquet", "kind")
    assert table.X["text"].tolist() == data["text"].tolist()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([[1], [2]]), "list<"),
        (pa.array([b"a", b"b"]), "binary"),
        (pa.array([{"a": 1}, {"a": 2}]), "struct<"),
    ],
)
def test_parquet_columns_that_cannot_be_used(tmp_path, column, kind):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": column, "kind": ["a", "b"]}), path)
    refused(path, f"column 'x' holds {kind}", "kind")


def test_parquet_names_and_rows(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    refused(path, "more than one column is named 'x'")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    refused(path, "no rows")
    path.write_bytes(b"PAR1 this is none")
    refused(path, "not a Parquet file")


@pytest.mark.parametrize("column", [[1j, 2, 3, 4], [b"a"] * 4, [[1]] * 4])
def test_frames_that_cannot_be_used(column):
    with pytest.raises(TableError, match=r"column 'x' holds .* values: give numbers or text"):
        Table.from_frame(pd.DataFrame({"x": column}))


def test_categories_are_sorted_text_that_occurs():
    column = pd.Categorical([2, 1, 2, None], categories=[3, 2, 1])
    X = Table.from_frame(pd.DataFrame({"x": column}), text=["x"]).X
    assert X["x"].cat.categories.tolist() == ["1", "2"]
    assert X["x"].tolist()[:3] == ["2", "1", "2"]
    assert X["x"].isna().tolist() == [False] * 3 + [True]


def test_labels_beyond_exact_integers():
    with pytest.raises(TableError, match=r"must hold classes, and row 2 holds 9\.0072"):
        Table.from_frame(pd.DataFrame({"x": [1, 2, 3], "y": [1, 2**53 + 2, 1]}), "y")
    # 2^53 and 2^53 + 1 are one float64.
    for sign in (1, -1):
        labels = [sign * 2**53, sign * (2**53 + 1), 0] * 2
        for column in (labels, [str(label) for label in labels]):
            with pytest.raises(TableError, match=r"row 1 holds -?9\.0072e\+15: whole numbers below 2\^53"):
                Table.from_frame(pd.DataFrame({"x": range(6), "y": column}), "y")
    largest = [2**53 - 1, 2**53 - 2] * 3
    assert Table.from_frame(pd.DataFrame({"x": range(6), "y": largest}), "y").y.tolist() == largest


# ---------------------------------------------------------------------------------------------------
# LIBSVM text and losses
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["1 0:1", "1 2:1 1:1", "1 1:a", "1 1", "x 1:1", "1 99999999999999999999:1", "1 -1:1"])
def test_lines_that_are_no_libsvm_text(write, line):
    refused(write(f"1 1:1\n{line}\n", "data.svm"), "line 2: not LIBSVM text")


def test_libsvm_features_of_a_model(write):
    schema = read_table(write("1 1:1 3:1\n-1 2:1\n", "data.svm")).schema
    assert schema.names == ["1", "2", "3"]
    new = read_table(write("0 2:5 # remark\n", "new.svm"), schema=schema)
    assert new.X.to_numpy().tolist() == [[0, 5, 0]]
    refused(write("0 4:5\n", "new.svm"), "there is a feature 4, and the model knows 3", schema=schema)


def test_losses(write):
    np.testing.assert_array_equal(read_losses(write("0.25\n\n0.5\n1\n")), [0.25, 0.5, 1])
    np.testing.assert_array_equal(read_losses(write("loss\n0.25\n")), [0.25])
    np.testing.assert_array_equal(read_losses(write('a,"b ",c\n1, 0.5,x\n'), "b"), [0.5])
    with pytest.raises(TableError, match=r"line 4: a loss must be a number in \[0, 1\], got '2'"):
        read_losses(write('a,b\n"x\ny",0.5\nz,2\n'), "b")
