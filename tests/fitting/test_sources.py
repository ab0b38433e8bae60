"""Sources by themselves: blocks, rows, labels and fingerprints."""

import os
import pickle
import platform
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from stored_rows import NAMES, D, N, X, Y, table, write

from pacbayes.exceptions import SourceError
from pacbayes.rows import ArraySource, MemmapSource, ParquetSource, ZarrSource, find_source, open_source
from pacbayes.rows._base import encode_labels, split_at


def _zarr(folder):
    array = zarr.create_array(str(folder / "rows.zarr"), shape=X.shape, chunks=(170, 3), dtype=X.dtype)
    array[:] = X
    return array


@pytest.fixture(params=["array", "parquet", "files", "memmap", "slice", "fortran", "zarr", "url"])
def source(request, tmp_path, parquet, mapped):
    kind = request.param
    if kind == "array":
        return ArraySource(X, Y)
    if kind == "parquet":
        return open_source(parquet, "label")
    if kind == "files":
        for k in range(3):
            write(tmp_path / f"part-{k}.parquet", table(X[k * 1000 : (k + 1) * 1000], Y[k * 1000 : (k + 1) * 1000]))
        return open_source(tmp_path, "label")
    if kind == "url":
        return open_source(f"file://{parquet}", "label")
    if kind == "memmap":
        return open_source(np.load(mapped, mmap_mode="r"), Y)
    if kind == "slice":
        np.save(tmp_path / "more.npy", np.vstack([X[:7], X]))
        return open_source(np.load(tmp_path / "more.npy", mmap_mode="r")[7:], Y)
    if kind == "fortran":
        np.save(tmp_path / "columns.npy", np.asfortranarray(X))
        return open_source(np.load(tmp_path / "columns.npy", mmap_mode="r"), Y)
    return open_source(_zarr(tmp_path), Y)


def test_every_source_reads_the_same_rows(source):
    assert source.shape == (N, D)
    np.testing.assert_array_equal(source.read(0, N), X)
    np.testing.assert_array_equal(source.read(123, 777), X[123:777])
    some = np.array([0, 5, 99, 100, 101, 1700, N - 1])
    np.testing.assert_array_equal(source.take(some), X[some])
    labels = source.labels()
    np.testing.assert_array_equal(labels.classes[labels.codes], Y)
    assert labels.codes.dtype == np.uint8


def sum_test_lossess_cover_all_rows_once_and_batches_follow(source):
    blocks = source.blocks()
    assert blocks[0].start == 0
    assert blocks[-1].stop == N
    assert [block.start for block in blocks[1:]] == [block.stop for block in blocks[:-1]]
    for block in blocks[:2]:
        batches = list(source.batches(block.start, block.stop, 64))
        assert max(len(rows) for _, rows in batches) <= 64
        assert batches[0][0] == block.start
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in batches]), X[block.start : block.stop])


def test_sources_are_light_and_work_after_a_journey(source):
    sent = pickle.dumps(source)
    if not isinstance(source, ArraySource):
        assert len(sent) < 5000
    again = pickle.loads(sent)
    np.testing.assert_array_equal(again.read(10, 300), X[10:300])
    assert again.fingerprint == source.fingerprint


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 60))
def test_ranges_end_at_boundaries(sizes, target):
    boundaries = np.concatenate(([0], np.cumsum(sizes)))
    ranges = split_at(boundaries, target)
    assert sum(len(one) for one in ranges) == boundaries[-1]
    assert all(one.stop in boundaries for one in ranges)
    assert all(len(one) >= target for one in ranges[:-1])


@given(st.lists(st.lists(st.integers(-3, 400), min_size=1, max_size=20), min_size=1, max_size=40))
def test_labels_are_encoded_as_by_unique(parts):
    arrays = [np.array(part) for part in parts]
    labels = encode_labels((np.unique(part, return_inverse=True) for part in arrays), sum(map(len, parts)))
    classes, codes = np.unique(np.concatenate(arrays), return_inverse=True)
    np.testing.assert_array_equal(labels.classes, classes)
    np.testing.assert_array_equal(labels.codes, codes)


def test_many_classes_need_more_bytes():
    values = np.arange(70_000)
    labels = encode_labels(iter([(values[:10], np.arange(10)), (values, values)]), 70_010)
    np.testing.assert_array_equal(labels.codes, np.concatenate([np.arange(10), values]))


@pytest.mark.parametrize("values", [["b", "a", "c"], [True, False, True], [2.0, 1.0, 2.0], [-1, 1, -1]])
def test_labels_of_any_kind(tmp_path, values):
    path = write(tmp_path / "t.parquet", pa.table({"x": [1.0, 2.0, 3.0], "label": values}), row_group_size=2)
    labels = open_source(path, "label").labels()
    np.testing.assert_array_equal(labels.classes, np.unique(values))
    assert labels.classes.dtype.kind == np.asarray(values).dtype.kind.replace("U", "O")
    assert labels.classes[labels.codes].tolist() == values


def test_labels_that_only_the_dictionary_knows_are_none(tmp_path):
    labels = pa.array(["c", "a", "b", "a"]).dictionary_encode()[1:]
    source = open_source(write(tmp_path / "t.parquet", pa.table({"x": [1.0, 2.0, 3.0], "label": labels})), "label")
    assert source.labels().classes.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["float", "float"], np.float32),
        (["float", "double"], np.float64),
        (["int8", "float"], np.float32),
        (["int32", "float"], np.float64),
        (["int64", "bool"], np.float64),
        (["halffloat", "halffloat"], np.float64),
    ],
)
def test_columns_together_have_the_type_of_an_array(tmp_path, types, expected):
    kinds = {"float": pa.float32(), "double": pa.float64(), "halffloat": pa.float16(), "bool": pa.bool_()}
    columns = {
        f"x{j}": pa.array(np.array([0, 1, 1], dtype=np.float16) if name == "halffloat" else [False, True, True]).cast(
            kinds.get(name) or name
        )
        if name != "halffloat"
        else pa.array(np.array([0, 1, 1], dtype=np.float16))
        for j, name in enumerate(types)
    }
    source = open_source(write(tmp_path / "t.parquet", pa.table(columns)))
    assert source.dtype == expected
    np.testing.assert_array_equal(source.read(0, 3), [[0, 0], [1, 1], [1, 1]])


def test_columns_are_chosen_by_name(parquet, tmp_path):
    assert open_source(parquet, "label").columns == tuple(NAMES)
    chosen = open_source(parquet, columns=["x3", "x0"])
    np.testing.assert_array_equal(chosen.read(0, 9), X[:9, [3, 0]])
    # Another order, another type of row groups, and an index of pandas.
    table().select(["label", *NAMES[::-1]]).to_pandas().set_index("label").to_parquet(tmp_path / "t.parquet")
    assert open_source(str(tmp_path / "t.parquet")).columns == tuple(NAMES[::-1])


def test_arrays_in_memory_and_small_mapped_ones_are_no_sources(mapped, monkeypatch):
    assert find_source(X, Y) is None
    assert isinstance(find_source(np.load(mapped, mmap_mode="r"), Y), MemmapSource)
    monkeypatch.setattr("pacbayes.rows._MAPPED_BYTES", 1 << 28)
    assert find_source(np.load(mapped, mmap_mode="r"), Y) is None


def test_a_source_that_changes_is_noticed(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path, row_group_size=100)
    source = open_source(path, "label")
    old = source.fingerprint
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="changed while it was being read"):
        source.read(0, 10)
    assert open_source(path, "label").fingerprint != old
    path.unlink()
    with pytest.raises(SourceError, match="disappeared"):
        source.read(0, 10)


def test_a_file_that_changes_between_two_batches_is_noticed(tmp_path):
    path = tmp_path / "rows.parquet"
    write(path)
    batches = open_source(path).batches(0, N, 500)
    next(batches)
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="changed while it was being read"):
        list(batches)


def test_arrays_that_change_are_noticed(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = open_source(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    stored = open_source(_zarr(tmp_path))
    assert isinstance(mapped, MemmapSource)
    assert isinstance(stored, ZarrSource)
    os.utime(tmp_path / "rows.npy", ns=(1, 1))
    stored.X[0, 0] = 9
    for source in (mapped, stored):
        with pytest.raises(SourceError, match="changed while it was being read"):
            source.read(0, 3)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "memmap", "zarr"])
def test_files_that_are_written_anew_are_noticed_by_more_than_size_and_time(tmp_path, kind, replaced):
    if kind == "parquet":
        path = tmp_path / "rows.parquet"
        source = open_source(write(path), "label")
    elif kind == "memmap":
        path = tmp_path / "rows.npy"
        np.save(path, X)
        source = open_source(np.load(path, mmap_mode="r"))
    else:
        source = open_source(_zarr(tmp_path))
        path = next(one for one in sorted((tmp_path / "rows.zarr").rglob("*")) if one.is_file() and one.name == "0")
    before = os.stat(path)
    content = path.read_bytes()
    if replaced:
        (tmp_path / "other").write_bytes(content)
        os.replace(tmp_path / "other", path)
    else:
        path.write_bytes(content)
    while os.stat(path).st_mtime_ns != before.st_mtime_ns or os.stat(path).st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_size == before.st_size
    with pytest.raises(SourceError, match="changed while it was being read"):
        source.read(0, 3)


def test_copies_of_a_file_on_other_machines_are_the_same(tmp_path, monkeypatch):
    source = open_source(write(tmp_path / "rows.parquet"), "label")
    shutil.copy2(tmp_path / "rows.parquet", tmp_path / "copy")
    os.replace(tmp_path / "copy", tmp_path / "rows.parquet")
    monkeypatch.setattr(platform, "node", lambda: "another")
    np.testing.assert_array_equal(source.read(0, 10), X[:10])
    assert open_source(tmp_path / "rows.parquet", "label").fingerprint == source.fingerprint


@pytest.mark.parametrize(
    ("settings", "what"),
    [({}, "1,000,000 rows"), ({"use_dictionary": False, "compression": "zstd"}, "a row group of [0-9,]{9,} bytes")],
)
def test_a_file_that_unpacks_to_a_thousand_times_its_size(tmp_path, settings, what, monkeypatch):
    monkeypatch.setattr("pacbayes.rows._parquet.ANY_SIZE", 2**20, raising=False)
    monkeypatch.setattr("pacbayes.rows._parquet._ROW_BYTES", 0 if settings else 32, raising=False)
    rows = pa.table({"x": np.zeros(10**6), "label": np.zeros(10**6)})
    with pytest.raises(SourceError, match=f"bomb.parquet': a file of [0-9,]+ bytes cannot hold {what}"):
        open_source(write(tmp_path / "bomb.parquet", rows, **settings), "label")
    open_source(write(tmp_path / "rows.parquet", pa.concat_tables([table()] * 50)), "label")


# ---------------------------------------------------------------------------------------------------
# Tables that are not right
# ---------------------------------------------------------------------------------------------------


def _two(tmp_path, second):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", second)
    return str(tmp_path / "*.parquet")


def test_schemas_must_agree(tmp_path):
    wrong = table().set_column(1, "x1", pa.array(X[:, 1].astype(np.float64)))
    with pytest.raises(SourceError, match=r"b\.parquet': column 'x1' holds double values, and float in .*a\.parquet'"):
        open_source(_two(tmp_path, wrong), "label")
    with pytest.raises(SourceError, match=r"b\.parquet' has no column 'x2', which .*a\.parquet' has"):
        open_source(_two(tmp_path, table().drop_columns(["x2"])), "label")
    with pytest.raises(SourceError, match=r"b\.parquet' has columns that .*a\.parquet' has not: 'new'"):
        open_source(_two(tmp_path, table().append_column("new", pa.array(Y))), "label")


def test_the_order_of_columns_may_differ(tmp_path):
    source = open_source(_two(tmp_path, table().select(["label", *NAMES[::-1]])), "label")
    np.testing.assert_array_equal(source.read(N, 2 * N), X)


@pytest.mark.parametrize(
    ("columns", "target", "message"),
    [
        ({"x": [1.0], "label": [1]}, "y", "has no column 'y', only 'x', 'label'"),
        ({"lists": [[1]], "label": [1]}, "label", "column 'lists' holds list<.*> values: numbers, text, booleans"),
        ({"label": [1]}, "label", "has no columns besides 'label'"),
        ({"x": [], "label": []}, "label", "there are no rows in"),
    ],
)
def test_tables_without_what_is_needed(tmp_path, columns, target, message):
    kinds = {"x": pa.float64(), "label": pa.int64(), "lists": pa.list_(pa.int64())}
    rows = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    with pytest.raises(SourceError, match=message):
        open_source(write(tmp_path / "t.parquet", rows), target)


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("x,label\n1,2\n")
    with pytest.raises(SourceError, match=r"empty\.parquet' is not a Parquet file: the file is empty"):
        open_source(tmp_path / "empty.parquet", "label")
    with pytest.raises(SourceError, match=r"text\.parquet' is not a Parquet file"):
        open_source(tmp_path / "text.parquet", "label")
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "none*.parquet", "label")


@pytest.mark.parametrize("values", [[0, None, 1], [0.0, float("nan"), 1.0], ["a", None, "b"]])
def test_every_row_needs_a_label(tmp_path, values):
    path = write(tmp_path / "t.parquet", pa.table({"x": [1.0, 2.0, 3.0], "label": values}))
    with pytest.raises(SourceError, match="'label' must hold a label in every row, got"):
        open_source(path, "label").labels()


@pytest.mark.parametrize("y", [Y[:5], [[1, 2]] * N, np.where(np.arange(N) == 7, np.nan, 1.0), [None] * N])
def test_given_labels_are_checked(y):
    with pytest.raises(ValueError, match="y must hold"):
        ArraySource(X, y).labels()


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((0, 2)), np.array([["a"]])])
def test_arrays_are_checked(wrong):
    with pytest.raises(ValueError, match="X must"):
        ArraySource(wrong)


def test_missing_packages_are_named(monkeypatch, parquet):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'this needs pyarrow: python -m pip install "pacbayes\[sources\]"'):
        open_source(parquet, "label")


def test_row_groups_of_a_file_are_boundaries(tmp_path):
    source = open_source(write(tmp_path / "t.parquet", row_group_size=700))
    assert isinstance(source, ParquetSource)
    assert source.boundaries().tolist() == [0, 700, 1400, 2100, 2800, 3000]
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 5


def test_labels_of_several_types_are_named():
    labels = np.array([1, "a"] * 20, dtype=object)
    with pytest.raises(ValueError, match="y must hold labels of one type, none of them missing, got int and str"):
        open_source(np.zeros((40, 2)), labels).labels()
