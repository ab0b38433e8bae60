"""Excel workbooks: read as the CSV file that a sheet would be saved as, with damage and surprises said in one line."""

import datetime
import gzip
import io
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook
from openpyxl.chart import BarChart

from pacbayes.exceptions import TableError
from pacbayes.io import open_table, read_batches, read_losses, read_table

DATES = pd.date_range("2024-01-30", periods=40, freq="36h")
FRAME = pd.DataFrame(
    {
        "size": [None if k % 7 == 0 else k / 3 for k in range(40)],
        "count": [10**k % 999_983 for k in range(40)],
        "city": [None if k % 9 == 0 else f"city, no. {k % 3}" for k in range(40)],
        "open": [k % 2 == 0 for k in range(40)],
        "day": DATES.normalize(),
        "moment": DATES,
        "kind": ["a", "b"] * 20,
    }
)


@pytest.fixture
def save(tmp_path):
    """Write rows of cells to a workbook."""

    def save(*rows, title="Sheet", name="data.xlsx"):
        workbook = Workbook()
        workbook.active.title = title
        for row in rows:
            workbook.active.append(row)
        workbook.save(tmp_path / name)
        return tmp_path / name

    return save


def refused(path, message, **options):
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    assert str(caught.value).startswith(repr(str(path)) + ": ")
    assert message in str(caught.value)


def check_same(first, second):
    pd.testing.assert_frame_equal(first.X, second.X)
    assert first.y.tolist() == second.y.tolist()
    assert first.y.dtype == second.y.dtype
    assert first.schema.columns == second.schema.columns


def test_a_workbook_is_typed_as_the_same_table_in_csv(tmp_path):
    FRAME.to_excel(tmp_path / "data.xlsx", index=False)
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    table, text = (read_table(tmp_path / name, "kind") for name in ("data.xlsx", "data.csv"))
    check_same(table, text)
    assert [column.kind for column in table.schema.columns] == ["number", "number", "text", "text", "date", "date"]
    assert table.schema.source.format == "xlsx"
    # The same rows for a model of either, in parts as well, and from a compressed file.
    for path, schema in ((tmp_path / "data.xlsx", text.schema), (tmp_path / "data.csv", table.schema)):
        pd.testing.assert_frame_equal(read_table(path, schema=schema).X, text.X)
        (batch,) = read_batches([path], schema)
        pd.testing.assert_frame_equal(batch.X, text.X)
    streamed = open_table(tmp_path / "data.xlsx", "kind", max_bytes=130_000)
    assert streamed.schema.columns == table.schema.columns
    assert streamed.column("day").tolist() == text.X["day"].tolist()
    (tmp_path / "data.xlsx.gz").write_bytes(gzip.compress((tmp_path / "data.xlsx").read_bytes()))
    check_same(read_table(tmp_path / "data.xlsx.gz", "kind"), text)


def test_numbers_have_no_decimal_mark_of_a_text_file(tmp_path):
    frame = pd.DataFrame({"size": [1.5, 2.125, 1e-7, -3.0, 2.5e17] * 4, "kind": ["a", "b"] * 10})
    frame.to_csv(tmp_path / "data.csv", index=False, sep=";", decimal=",")
    frame.to_excel(tmp_path / "data.xlsx", index=False)
    table = read_table(tmp_path / "data.csv", "kind")
    assert table.schema.decimal == ","
    for options in ({}, {"decimal": ","}):
        # 2.125 would be two thousand with the mark of training.
        again = read_table(tmp_path / "data.xlsx", "kind", schema=table.schema, **options)
        pd.testing.assert_frame_equal(again.X, table.X)


def test_cells_of_other_kinds(save):
    times = [datetime.timedelta(hours=36), datetime.time(12, 30), datetime.date(2024, 2, 29)]
    header = ["length", "time", "date", 7]
    table = read_table(save(header, [*times, 1.0], [*times, 2.0], [*times, 2.0]), "7")
    assert table.X["length"].tolist() == [1.5] * 3
    assert table.X["time"].tolist() == ["12:30:00"] * 3
    assert table.X["date"].tolist() == [pd.Timestamp("2024-02-29")] * 3
    assert table.y.tolist() == [1, 2, 2]


def test_rows_and_columns_without_values(save):
    rows = [[None, None], ["x", "kind", None], [1, "a"], [], [2, "b"], [None, "b"], [None, None, None]]
    table = read_table(save(*rows), "kind")
    assert table.X["x"].tolist()[:2] == [1, 2]
    assert np.isnan(table.X["x"][2])
    refused(save(["My table"], ["x", "kind"], [1, "a"]), "sheet 'Sheet', row 2: 2 cells, and the first row with values")


def test_sheets(tmp_path, save):
    with pd.ExcelWriter(tmp_path / "data.xlsx") as writer:
        for name, frame in (("first", FRAME), ("second", FRAME[::-1])):
            frame.to_excel(writer, sheet_name=name, index=False)
    path = tmp_path / "data.xlsx"
    table = read_table(path, "kind", sheet="second")
    assert table.y.tolist() == read_table(path, "kind").y.tolist()[::-1]
    assert table.schema.source.sheet == "second"
    refused(path, "there is no sheet 'third', only 'first', 'second'", sheet="third")
    refused(save(title="Empty"), "the sheet 'Empty' is empty")
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    refused(tmp_path / "data.csv", "only an Excel workbook has sheets (sheet=, --sheet)", sheet="first")
    charts = Workbook()
    charts.create_chartsheet().add_chart(BarChart())
    del charts["Sheet"]
    charts.save(path)
    refused(path, "the workbook has no sheet of cells")


def test_formulas_have_values(save):
    # openpyxl writes formulas without the values that a spreadsheet program computes.
    path = save(["x", "kind"], [1, "a"], ["=A2+1", "b"])
    refused(path, "sheet 'Sheet', row 3: the value of the formula '=A2+1' is not in the file: open the workbook")
    content = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(content, "w") as computed:
        for name in archive.namelist():
            data = archive.read(name)
            computed.writestr(name, data.replace(b"<v />", b"<v>2.5</v>").replace(b"<v></v>", b"<v>2.5</v>"))
    path.write_bytes(content.getvalue())
    assert read_table(path, "kind").X["x"].tolist() == [1, 2.5]


def test_what_is_no_workbook(tmp_path, save, monkeypatch):
    path = tmp_path / "data.xlsx"
    for content in (b"PK\x03\x04 whatever", b"x,kind\n1,a\n", b"\xd0\xcf\x11\xe0 encrypted"):
        path.write_bytes(content)
        refused(path, "not an Excel workbook (.xlsx) that can be read, but damaged, encrypted or something else: ")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * 2**21)
    refused(path, "more than 1 MiB of memory", max_bytes=2**20)
    whole = save(["x", "kind"], [1, "a"], [2, "b"]).read_bytes()
    path.write_bytes(whole)
    refused(path, "more than 100 bytes of memory", max_bytes=100)
    (tmp_path / "data").write_bytes(whole)
    refused(tmp_path / "data", "an Excel workbook has a name that ends in .xlsx, or needs its format")
    assert read_table(tmp_path / "data", "kind", format="xlsx").y.tolist() == ["a", "b"]
    for name in ("data.xls", "data.ods"):
        (tmp_path / name).write_bytes(whole)
        refused(tmp_path / name, "this is a spreadsheet: save the sheet as an Excel workbook (.xlsx) or as CSV (UTF-8)")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r'an Excel workbook needs openpyxl: .*"pacbayes\[excel\]", or save'):
        read_table(path, "kind")


def test_damage_anywhere_is_said(save):
    """Whatever is wrong with the bytes, the table is read or refused with a line of words."""
    path = save(["x", "kind"], *([k, "ab"[k % 2]] for k in range(50)))
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(30):
        content = bytearray(whole)
        for position in rng.integers(len(whole), size=3):
            content[position] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path, "kind")


def test_losses(save):
    path = save(["model", "loss"], ["first", 0.25], ["second", 0.5])
    assert read_losses(path, "loss").tolist() == [0.25, 0.5]
