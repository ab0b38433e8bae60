"""Read CSV files as text cells, with structural errors reported by line."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget, format_bytes

# A row, or a quoted cell that spans lines, may not be longer than this, or a quarter of the memory that is allowed.
_BLOCK_SIZE, _LEAST_BLOCK = 2**26, 2**20
# What is looked at to find out which character separates cells.
_SAMPLE_SIZE, _SAMPLE_ROWS = 2**18, 200
_SEPARATORS = (",", ";", "\t", "|")


def read_cells(file: BinaryIO, separator: str, budget: Budget, *, whole: bool) -> Iterator[Any]:
    """Yield the cells of a CSV file in UTF-8, without spaces around them: those of the `whole` file, or 64 MiB of them.

    The pyarrow tables have a column of strings for each cell of the first row, which is the header, if there is one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    tables, batch = [], None
    for batch in _read_batches(file, separator, budget):
        budget.count(batch.nbytes, kept=whole)
        tables.append(pa.table([pc.utf8_trim_whitespace(column) for column in batch.columns], batch.schema.names))
        if not whole:
            yield tables.pop()
    if batch is not None:
        _check_closed(file, batch)
    if tables:
        yield pa.concat_tables(tables)


def _read_batches(file: BinaryIO, separator: str, budget: Budget) -> Iterator[Any]:
    """Yield record batches of text cells, or raise TableError naming the line that is wrong."""
    import pyarrow as pa
    import pyarrow.csv

    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise TableError(f"the separator must be a single character, got {separator!r}")
    _, first = next(_numbered_rows(file, separator), (0, []))
    if not first:
        raise TableError("nothing but empty lines")
    budget.admit_columns(len(first))
    names = [str(j) for j in range(len(first))]
    block_size = min(_BLOCK_SIZE, max(_LEAST_BLOCK, budget.max_bytes // 4))
    try:
        file.seek(0)
        yield from pyarrow.csv.open_csv(
            _native(file),
            # One thread: the order of errors is that of the file. And no handler of invalid rows: see `_native`.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=block_size, column_names=names),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        if "straddl" in str(error):
            longest = format_bytes(block_size)
            raise TableError(f"a row or quoted cell is longer than {longest}: is a quote not closed?") from error
        for line, row in _numbered_rows(file, separator):
            if len(row) != len(first):
                found = f"line {line}: {len(row)} cells, and the first row has {len(first)}"
                raise TableError(found) from error
        raise TableError(f"not a CSV file: {error}") from error


def _native(file: Any) -> Any:
    """Return a file as pyarrow opens it itself, if it has a path.

    pyarrow reads ahead and parses in threads of its own, which go on when an error was raised. With an object of
    Python's, a file or a function, they would need the interpreter to let go of it, and abort the process if that is
    about to end.
    """
    import pyarrow as pa

    return pa.OSFile(file.name) if os.name == "posix" and isinstance(file.name, str) else file


def guess_separator(file: BinaryIO, default: str) -> str:
    """Return the character that splits the first rows into equally many cells, two or more; `default` if none is."""
    file.seek(0)
    sample = file.read(_SAMPLE_SIZE)
    if len(sample) == _SAMPLE_SIZE:
        sample = sample[: max(sample.rfind(b"\n"), sample.rfind(b"\r")) + 1]
    text = sample.decode("utf-8-sig", errors="replace")
    for separator in (default, *_SEPARATORS):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        try:
            widths = {len(row) for row in islice((row for row in reader if row), _SAMPLE_ROWS)}
        except csv.Error:
            continue
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    return default


def _check_closed(file: BinaryIO, batch: Any) -> None:
    """Raise if the last quoted cell is not closed. The parser takes the rest of the file for its content."""
    last = batch.column(batch.num_columns - 1)[-1].as_py()
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
