"""Read tables that may be larger than the memory, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from pacbayes.exceptions import TableError
from pacbayes.io._csv import guess_separator, iterate_cells
from pacbayes.io._encoding import decoded
from pacbayes.io._limits import Budget
from pacbayes.io._parquet import iterate_parquet
from pacbayes.io._source import Content, open_content
from pacbayes.io.schema import Schema
from pacbayes.io.tables import MAX_TABLE_BYTES, ReadOptions, Table, errors_of, format_of, header_of, name_columns

__all__ = ["read_batches"]

# Text of any size may be unpacked to a temporary file.
_NO_LIMIT = 2**62


def read_batches(
    paths: Sequence[Path],
    schema: Schema,
    *,
    format: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = (),
    max_bytes: int = MAX_TABLE_BYTES,
) -> Iterator[Table]:
    """Yield the rows of CSV or Parquet files, some thousand at a time, with the columns that a model was trained on.

    Options are as in `read_table`; `max_bytes` limits the memory that the cells of the rows that are read at a time may
    take. Tables have no labels, and no features that the schema does not know; `carried` are all columns as they are
    stored.
    """
    options = ReadOptions(format, separator, decimal, encoding, tuple(missing)).for_schema(schema)
    for path in paths:
        first = 1
        for frame, separator_used in _frames(path, options, max_bytes):
            with errors_of(path), _rows_from(first):
                X = schema.apply(frame, allow_extra=True, decimal=options.decimal_for(schema, frame, separator_used))
            yield Table(X, None, schema, frame)
            first += len(frame)


@contextmanager
def _rows_from(first: int) -> Iterator[None]:
    """Say where a batch begins in whose rows something is wrong."""
    try:
        yield
    except TableError as error:
        raise (TableError(f"counting rows from {first}: {error}") if first > 1 else error) from error


def _frames(path: Path, options: ReadOptions, max_bytes: int) -> Iterator[tuple[pd.DataFrame, str | None]]:
    """Yield the columns of a file as they are stored, and the separator of a CSV file."""
    budget = Budget(max_bytes, TableError)
    with errors_of(path), open_content(path, Budget(_NO_LIMIT, TableError)) as content:
        kind = format_of(content, options.format)
        if kind == "parquet":
            yield from ((frame, None) for frame in iterate_parquet(str(content.file.name), budget))
        elif kind == "csv":
            yield from _csv_frames(content, options, budget)
        else:
            raise TableError("LIBSVM text cannot be read in parts: convert it to Parquet or CSV")


def _csv_frames(content: Content, options: ReadOptions, budget: Budget) -> Iterator[tuple[pd.DataFrame, str]]:
    with decoded(content.file, options.encoding, Budget(_NO_LIMIT, TableError)) as (file, _):
        default = "\t" if content.name.lower().endswith(".tsv") else ","
        separator = guess_separator(file, default) if options.separator is None else options.separator
        names: list[str] | None = None
        for cells in iterate_cells(file, separator, budget):
            rows = cells
            if names is None:
                names, rows = header_of(cells), cells.slice(1)
            if rows.num_rows:
                yield name_columns(rows, names, options.missing), separator
