"""Read a sheet of an Excel workbook as the CSV file that it would be saved as."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, BinaryIO

from pacbayes._extras import require
from pacbayes._formatting import format_names
from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget, explain_damage, undamaged
from pacbayes.io._source import copied

_DAMAGED = "not an Excel workbook (.xlsx) that can be read, but damaged, encrypted or something else"

# What separates cells in the text that a sheet becomes.
SEPARATOR = ","

# As many rows as Excel has. A damaged file may claim to have any number.
_MOST_ROWS = 2**20
_ROWS_AT_A_TIME = 1000


@contextmanager
def sheet_as_csv(file: BinaryIO, sheet: str | None, decimal: str, budget: Budget) -> Iterator[BinaryIO]:
    """Yield the cells of a sheet, by default the first, as CSV text in UTF-8, with the values of formulas.

    Numbers have this decimal mark. Rows without any value are left out, as empty lines of a CSV file are.
    """
    size = file.seek(0, io.SEEK_END)
    with explain_damage(_DAMAGED), zipfile.ZipFile(file) as archive:
        budget.check_growth(sum(one.file_size for one in archive.infolist()), size)
    chunks = undamaged(_to_text(partial(_open_sheet, file, sheet), decimal), _DAMAGED)
    with copied(chunks, budget.check) as text:
        yield text


def _open_sheet(file: BinaryIO, name: str | None, *, computed: bool) -> Any:
    openpyxl = require("openpyxl", "excel", "an Excel workbook needs", ", or save the sheet as CSV")
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and forms, which do not matter here
        # Links to other workbooks, and what is formatted, are not read.
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=computed, keep_links=False)
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    if not sheets:
        raise TableError("the workbook has no sheet of cells")
    if name is not None and name not in sheets:
        raise TableError(f"there is no sheet {name!r}, only {format_names(sheets)}")
    return next(iter(sheets.values())) if name is None else sheets[name]


def _to_text(open_sheet: Callable[..., Any], decimal: str) -> Iterator[bytes]:
    """Yield CSV text with a cell in each row for every cell of the first one that has values, the header."""
    values, text = open_sheet(computed=True), io.StringIO()
    writer, width, gaps = csv.writer(text, delimiter=SEPARATOR, lineterminator="\n"), 0, False
    where = f"sheet {values.title!r}, row"
    for number, cells in _numbered(values):
        last = max((j for j, cell in enumerate(cells, start=1) if cell is not None), default=0)
        width = width or last
        if last > width:
            raise TableError(
                f"{where} {number}: {last} cells, and the first row with values has {width}: the header must come "
                "first, with a name for each column"
            )
        if last:
            row = cells[:width] + (None,) * (width - len(cells))
            writer.writerow([_format(cell, decimal) for cell in row])
            gaps = gaps or None in row
        if number % _ROWS_AT_A_TIME == 0:
            yield text.getvalue().encode("utf-8", errors="replace")
            text.seek(0)
            text.truncate()
    if not width:
        raise TableError(f"the sheet {values.title!r} is empty")
    yield text.getvalue().encode("utf-8", errors="replace")
    if gaps:
        _check_computed(values, open_sheet(computed=False), where)


def _check_computed(values: Any, formulas: Any, where: str) -> None:
    """Raise for a formula whose value was not saved, which would be a gap: some programs write formulas alone."""
    for (number, cells), (_, written) in zip(_numbered(values), _numbered(formulas), strict=True):
        for cell, formula in zip(cells, written, strict=True):
            if cell is None and formula is not None:
                raise TableError(
                    f"{where} {number}: the value of the formula {str(formula)!r} is not in the file: open the "
                    "workbook in a spreadsheet program, and save it"
                )


def _numbered(sheet: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    sheet.reset_dimensions()  # what a file says about its own size need not be true
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > _MOST_ROWS:
            raise TableError(f"the sheet {sheet.title!r} has more than {_MOST_ROWS} rows")
        yield number, cells


def _format(cell: Any, decimal: str) -> str:
    """Return a cell as text from which `read_table` infers what it is."""
    if cell is None:
        return ""
    if isinstance(cell, timedelta):
        cell = cell / timedelta(days=1)  # as durations of Parquet files
    if isinstance(cell, float):
        # Excel has no whole numbers: 1 and 1.0 are the same cell.
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell).replace(".", decimal)
    if isinstance(cell, datetime):
        return cell.isoformat(" ") if cell.time() != datetime.min.time() else cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, date) else str(cell)
