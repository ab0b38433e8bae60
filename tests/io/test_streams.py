"""Tables that are read in parts, to fit as to the same rows in memory."""

import gc
import gzip

import numpy as np
import pandas as pd
import pytest
from sweeps import sweep

from pacbayes import PACBayesClassifier
from pacbayes.exceptions import TableError
from pacbayes.io import StreamedTable, Table, inspect_table, open_table, read_table
from pacbayes.pools import RBFSVMPool

N = 3000
_rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr("pacbayes.io._csv._BLOCK_SIZE", 2**14)
    monkeypatch.setattr("pacbayes.io._parquet._BATCH_ROWS", 300)
    monkeypatch.setattr("pacbayes.io.streams._BATCH_ROWS", 700)
    monkeypatch.setattr("pacbayes.rows._base._LEAST_ROWS", 256)


def make_frame():
    size = _rng.normal(3, 2, N).round(3)
    frame = pd.DataFrame(
        {
            "id": np.arange(N),
            "size": size,
            "count": _rng.integers(0, 9, N),
            "city": _rng.choice(["Bonn", "Oslo", "Rome"], N),
            "vip": _rng.random(N) < 0.3,
            "since": (np.datetime64("2020-01-01") + _rng.integers(0, 2000, N)).astype(str),
            "unit": "cm",
            "code": _rng.choice(["01", "A3", "B7"], N),
            "copy": np.where(size > 3, "u", "v"),
            "kind": np.where(size > 3, "yes", "no"),
        }
    )
    frame.loc[_rng.random(N) < 0.1, "size"] = np.nan
    frame.loc[_rng.random(N) < 0.1, "city"] = None
    frame.loc[_rng.random(N) < 0.1, "since"] = None
    frame.loc[N - 2, "city"] = "Überlingen"  # which the first parts do not know
    return frame


FRAME = make_frame()


def write(path, frame=FRAME, **settings):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, **settings)
    return path


def both(path, target="kind", max_bytes=2**18, **settings):
    """Return a table in memory and the same one in parts."""
    memory, streamed = read_table(path, target, **settings), open_table(path, target, max_bytes=max_bytes, **settings)
    assert isinstance(streamed, StreamedTable)
    assert isinstance(open_table(path, target, **settings), Table)
    assert streamed.schema == memory.schema
    assert streamed.missing == memory.missing
    return memory, streamed


def assert_same_fit(memory, streamed):
    models = [
        PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, random_state=0).fit(one.X, one.y)
        for one in (memory, streamed)
    ]
    assert models[0].certificate_.to_json() == models[1].certificate_.to_json()
    np.testing.assert_array_equal(models[0].losses_, models[1].losses_)
    assert models[0].classes_.dtype == models[1].classes_.dtype
    return models


@pytest.mark.parametrize(
    "name", sweep(["rows.csv", "rows.parquet", "commas.csv", "rows.csv.gz", "semicolons.csv"], quick=[0, 1, 2])
)
def test_rows_in_parts_are_those_in_memory(tmp_path, name):
    settings = {"semicolons.csv": {"sep": ";"}, "commas.csv": {"sep": ";", "decimal": ","}}.get(name, {})
    memory, streamed = both(write(tmp_path / name, **settings))
    assert inspect_table(streamed) == inspect_table(memory)
    assert {one.column for one in inspect_table(streamed)} >= {"id", "unit", "copy"}
    for column in memory.schema.names:
        mine, other = streamed.column(column), memory.X[column]
        np.testing.assert_array_equal(mine.isna(), other.isna())
        assert (mine.dropna() == other.dropna()).all()
    left = ["id", "unit", "copy"]
    models = assert_same_fit(memory.without(left), streamed.without(left))
    np.testing.assert_array_equal(
        models[0].predict(memory.without(left).X), models[1].predict(streamed.without(left).X)
    )


def test_numbers_without_gaps_and_labels_that_are_numbers(tmp_path):
    frame = pd.DataFrame({"a": _rng.normal(size=N), "b": _rng.integers(0, 5, N)})
    memory, streamed = both(write(tmp_path / "rows.csv", frame.assign(kind=(frame.a > 0).astype(int))), max_bytes=2**17)
    assert_same_fit(memory, streamed)
    assert streamed.schema.complete


def test_options_are_those_of_tables_in_memory(tmp_path):
    path = write(
        tmp_path / "rows.csv", FRAME.astype({"size": object}).fillna({"size": "?"}), sep="|", encoding="latin-1"
    )
    settings = {"missing": ["?"], "text": ["count"], "drop": ["id", "copy"], "encoding": "latin-1"}
    memory, streamed = both(path, **settings)
    assert_same_fit(memory, streamed)


def test_rows_are_held_out_for_a_test_as_in_memory(tmp_path):
    tables = both(write(tmp_path / "rows.csv", FRAME.drop(columns=["id", "copy"])))
    (memory, test), (streamed, streamed_test) = (table.split(0.25, seed=3) for table in tables)
    assert streamed.schema == memory.schema
    assert len(streamed_test.X) == len(test.X) == N // 4
    models = assert_same_fit(memory, streamed)
    assert models[0].count_errors(test.X, test.y) == models[1].count_errors(streamed_test.X, streamed_test.y)


def test_the_rows_are_deleted_with_the_table(tmp_path):
    table = open_table(write(tmp_path / "rows.csv"), "kind", max_bytes=2**18)
    folder = table._folder.path
    rest = table.without(["id"])
    del table
    gc.collect()
    assert folder.exists()
    del rest
    gc.collect()
    assert not folder.exists()


def late(column, value):
    frame = FRAME.astype({column: object})
    frame.loc[N - 3, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            late("size", "large"),
            r"rows.csv': column 'size', row 2998: 'large' is not a number, and most of the column are",
        ),
        (late("size", "inf"), r"counting rows from \d+: column 'size', row \d+: infinite values cannot be used"),
        (
            late("kind", None),
            r"counting rows from \d+: the target 'kind' is missing in 1 of \d+ rows, first in row \d+",
        ),
        (FRAME.assign(kind="a"), "the target 'kind' holds one value only, 'a'"),
        (FRAME.assign(kind=[f"k{i}" for i in range(N)]), "the target 'kind' is different in each of the 3000 rows"),
        (FRAME.rename(columns={"kind": "class"}), "there is no column 'kind', only"),
    ],
)
def test_what_is_wrong_in_late_rows_is_named(tmp_path, frame, message):
    with pytest.raises(TableError, match=message):
        open_table(write(tmp_path / "rows.csv", frame), "kind", max_bytes=2**18)


def test_text_that_unpacks_to_a_thousand_times_its_size(tmp_path):
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"x,kind\n" + b"1,a\n2,b\n" * 4_000_000))
    with pytest.raises(TableError, match=r"a file of .* cannot hold a table of"):
        open_table(tmp_path / "bomb.csv.gz", "kind", max_bytes=2**18)


def test_libsvm_text_is_read_at_once(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:2\n0 1:3\n" * 300)
    assert open_table(tmp_path / "rows.svm").schema.target == "label"
    with pytest.raises(TableError, match=r"rows\.svm': it takes more than 10 bytes of memory"):
        open_table(tmp_path / "rows.svm", max_bytes=10)
