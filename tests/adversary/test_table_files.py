"""Tables that would take much more memory than their size suggests, or are damaged: refused with one clear error."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import zipfile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbayes.exceptions import TableError
from pacbayes.io import Column, ColumnEncoder, Schema, read_batches, read_table
from pacbayes.io._limits import Budget

BOMB = b"x,kind\n" + b"1,a\n2,b\n" * 2**22
TABLE = b"x,kind\n" + b"1.5,a\n2,b\n" * 50


def zipped(data, name="data.csv", **settings):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, **settings) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


COMPRESSIONS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    "zip": zipped,
}


@pytest.mark.parametrize(
    "extension", ["gz", *(pytest.param(one, marks=pytest.mark.slow) for one in COMPRESSIONS if one != "gz")]
)
def test_text_that_unpacks_to_a_thousand_times_its_size(tmp_path, extension):
    path = tmp_path / f"data.csv.{extension}"
    path.write_bytes(COMPRESSIONS[extension](BOMB))
    with pytest.raises(TableError, match=r"a file of .* cannot hold a table of"):
        read_table(path, "kind")
    path.write_bytes(COMPRESSIONS[extension](TABLE))
    with pytest.raises(TableError, match="it takes more than 500 bytes of memory"):
        read_table(path, "kind", max_bytes=500)


def test_numbers_that_repeat_are_counted_before_they_are_read(tmp_path, monkeypatch):
    """A million zeros are stored as one zero, and take their room as soon as they are read."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": [0.0] * 10**6, "kind": ["a"] * 10**6}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(Budget, "count", lambda *_, **__: pytest.fail("rows were read"))
    with pytest.raises(
        TableError, match=r"it takes more than 10 MiB of memory, the limit that max_bytes \(--max-bytes\) sets"
    ):
        read_table(path, "kind", max_bytes=10 * 2**20)


@pytest.mark.parametrize("extension", COMPRESSIONS)
def test_compressed_files_that_end_early_or_are_damaged(tmp_path, extension):
    path, data = tmp_path / f"data.csv.{extension}", COMPRESSIONS[extension](TABLE)
    path.write_bytes(data)
    assert read_table(path, "kind").X.shape == (100, 1)
    for broken in (data[: len(data) // 2], data[:20] + b"\xff" * 8 + data[28:]):
        path.write_bytes(broken)
        with pytest.raises(TableError):
            read_table(path, "kind")


def test_several_streams_in_one_file(tmp_path):
    parts = (TABLE[:101], TABLE[101:])
    for extension in ("gz", "bz2", "xz", "zst"):
        path = tmp_path / f"data.csv.{extension}"
        path.write_bytes(b"".join(COMPRESSIONS[extension](part) for part in parts))
        assert read_table(path, "kind").X.shape == (100, 1)


def test_nothing_once_it_is_unpacked(tmp_path):
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(TableError, match="the file is empty, once it is unpacked"):
        read_table(tmp_path / "data.csv.gz")


@pytest.mark.slow
def test_a_dictionary_of_a_gigabyte(tmp_path):
    # The header of the stream asks for it; the data are small.
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]
    (tmp_path / "data.csv.xz").write_bytes(lzma.compress(b"x,kind\n1,a\n2,b\n", filters=filters))
    with pytest.raises(TableError, match=r"the compressed file is damaged: .*[Mm]emory"):
        read_table(tmp_path / "data.csv.xz", "kind")


def test_archives_of_other_things(tmp_path):
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, TABLE)
    with pytest.raises(TableError, match=r"a zip archive of one table is needed, and this one holds 'a.csv', 'b.csv'"):
        read_table(path, "kind")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(2000):
            archive.writestr(f"{number}.csv", b"")
    with pytest.raises(TableError, match="holds many files"):
        read_table(path, "kind")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.csv", TABLE)
    with pytest.raises(TableError, match="compressed in an unusual way"):
        read_table(path, "kind")
    # An archive inside: not unpacked again.
    path.write_bytes(zipped(zipped(TABLE)))
    with pytest.raises(TableError, match=r"zero byte|not UTF-8 text"):
        read_table(path, "kind")


def wide_csv(path, columns, rows=8):
    lines = [",".join(f"c{j}" for j in range(columns)), *([",".join("1" * columns)] * rows)]
    path.write_text("\n".join(lines))


def test_columns_are_counted_before_they_are_read(tmp_path, monkeypatch):
    # A million of them, eight rows each, would take 16 GiB and minutes.
    wide_csv(tmp_path / "data.csv", 10**6, rows=1)
    monkeypatch.setattr("pyarrow.csv.open_csv", lambda *_, **__: pytest.fail("the cells are read"))
    message = "it takes more than 8 GiB of memory, .* sets: each of its 1000000 columns takes 16 KiB"
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "data.csv", "c0")
    with pytest.raises(TableError, match=message):
        next(read_batches([tmp_path / "data.csv"], Schema((Column("c0", "number"),))))


def test_columns_count_as_well_as_cells(tmp_path):
    wide_csv(tmp_path / "data.csv", 200)
    pd.read_csv(tmp_path / "data.csv").to_parquet(tmp_path / "data.parquet")
    for name in ("data.csv", "data.parquet"):
        with pytest.raises(TableError, match="each of its 200 columns takes 16 KiB"):
            read_table(tmp_path / name, "c0", max_bytes=200 * 2**14 - 1)
        with pytest.raises(TableError, match=r"it takes more than 3.13 MiB of memory, the limit that .* sets$"):
            read_table(tmp_path / name, "c0", max_bytes=200 * 2**14 + 1)
        assert read_table(tmp_path / name, max_bytes=2**23).X.shape == (8, 200)


def test_a_zone_that_there_is_not(tmp_path):
    moments = pa.array([10**15, -(2**62), None], pa.timestamp("us", "Nowhere/Atlantis"))
    pq.write_table(pa.table({"at": moments, "kind": ["a", "b", "a"]}), tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet", "kind")
    days = ColumnEncoder(["at"]).fit_transform(table.X)[:2, 0]
    assert days.tolist() == [10**15 / 86_400e6, -(2**62) / 86_400e6]
    assert table.missing == {"at": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are files of POSIX")
def test_pipes_and_devices(tmp_path):
    command = f"{sys.executable} -c \"from pacbayes.io import read_table; print(len(read_table('pipe', 'kind').X))\""
    script = f"mkfifo pipe; cat data.csv > pipe & {command}"
    (tmp_path / "data.csv").write_bytes(TABLE)
    done = subprocess.run(script, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "100\n", done.stderr
    with pytest.raises(TableError, match="this is no regular file"):
        read_table("/dev/zero", "kind")


def test_a_column_by_any_name(tmp_path):
    # Names that are arguments of pandas' functions.
    data = pd.DataFrame({"self": ["1,5", "2,5"] * 30, "index": ["a", "b"] * 30, "kind": ["u", "v", "v"] * 20})
    data.to_csv(tmp_path / "data.csv", sep=";", index=False)
    assert read_table(tmp_path / "data.csv", "kind").X["self"].tolist()[:2] == [1.5, 2.5]
