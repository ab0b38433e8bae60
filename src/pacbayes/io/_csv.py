"""Read CSV files as text cells, with structural errors reported by line."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget

# A row, or a quoted cell that spans lines, may not be longer than this.
_BLOCK_SIZE = 2**26
_CHUNK_SIZE = 2**20


def read_cells(file: BinaryIO, separator: str, budget: Budget) -> Any:
    """Read all cells of a CSV file as text, without spaces around them.

    Parameters
    ----------
    file : binary file
        The file, at its beginning, after `scan_text`.
    separator : str
        Character between cells.
    budget : Budget
        Limit on the memory that the cells may take.

    Returns
    -------
    pyarrow.Table
        One column of strings for each cell of the first row; the first row is the header, if there is one.
    """
    import pyarrow as pa
    import pyarrow.csv

    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise TableError(f"the separator must be a single character, got {separator!r}")
    _, first = next(_numbered_rows(file, separator), (0, []))
    if not first:
        raise TableError("nothing but empty lines")
    names = [str(j) for j in range(len(first))]
    invalid: list[Any] = []

    def stop(row: Any) -> str:
        invalid.append(row)
        return "error"

    try:
        file.seek(0)
        reader = pyarrow.csv.open_csv(
            file,
            # One thread: rows are numbered, and the order of errors is that of the file.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_SIZE, column_names=names),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=stop
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        batches = [budget.admit_batch(batch) for batch in reader]
    except pa.ArrowInvalid as error:
        if invalid:
            line = find_line(file, separator, invalid[0].number)
            found, expected = invalid[0].actual_columns, invalid[0].expected_columns
            raise TableError(f"line {line}: {found} cells, and the first row has {expected}") from error
        if "straddl" in str(error):
            raise TableError("a row or quoted cell is longer than 64 MiB: is a quote not closed?") from error
        raise TableError(f"not a CSV file: {error}") from error
    table = pa.Table.from_batches(batches, reader.schema)
    _check_closed(file, table)
    return pa.table([_trim(column) for column in table.columns], names)


def _trim(column: Any) -> Any:
    import pyarrow.compute

    return pyarrow.compute.utf8_trim_whitespace(column)


def _check_closed(file: BinaryIO, table: Any) -> None:
    """Raise if the last quoted cell is not closed. The parser takes the rest of the file for its content."""
    last = table.column(table.num_columns - 1)[-1].as_py()
    if last is None or not ("\n" in last or "\r" in last):
        return
    file.seek(-1, io.SEEK_END)
    if last.endswith(("\n", "\r")) or file.read(1) not in b'"\r\n':
        raise TableError("the last cell opens a quote that is never closed")


def find_line(file: BinaryIO, separator: str, row: int) -> int:
    """Return the line on which a row ends; rows are counted from 1, empty lines left out."""
    return max((line for line, _ in islice(_numbered_rows(file, separator), row)), default=0)


def _numbered_rows(file: BinaryIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not empty, each with the line that it ends on."""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=separator)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise TableError(f"line {reader.line_num}: {error}") from error
    finally:
        text.detach()  # the file stays open


def scan_text(file: BinaryIO) -> str:
    """Return the SHA-256 of a file, or raise TableError where it is not UTF-8 text. Leave the file at its beginning."""
    digest, line = hashlib.sha256(), 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    while chunk := file.read(_CHUNK_SIZE):
        digest.update(chunk)
        zero = chunk.find(b"\0")
        try:
            decoder.decode(chunk if zero < 0 else chunk[:zero])
        except UnicodeDecodeError as error:
            raise TableError(_not_utf8(error, line)) from error
        if zero >= 0:
            raise TableError(f"line {line + _count_lines(chunk[:zero])}: a zero byte, so this is not a text file")
        line += _count_lines(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise TableError(_not_utf8(error, line)) from error
    file.seek(0)
    return digest.hexdigest()


def _not_utf8(error: UnicodeDecodeError, line: int) -> str:
    line += _count_lines(error.object[: error.start])
    return f"line {line}: not UTF-8 text (byte 0x{error.object[error.start]:02x}); save the file as UTF-8"


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
