"""Read tables that may be larger than the memory, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pacbayes.exceptions import TableError
from pacbayes.io._files import ReadOptions, open_file
from pacbayes.io._limits import Budget
from pacbayes.io.schema import Schema
from pacbayes.io.tables import MAX_TABLE_BYTES, Table

__all__ = ["UNLIMITED", "read_batches", "rows_from"]

# Text of any size may be unpacked to a temporary file.
UNLIMITED = Budget(2**62, TableError)


def read_batches(
    paths: Sequence[Path], schema: Schema, *, max_bytes: int = MAX_TABLE_BYTES, **how: Any
) -> Iterator[Table]:
    """Yield the rows of CSV or Parquet files, some thousand at a time, with the columns that a model was trained on.

    `max_bytes` limits the memory that the cells of the rows that are read at a time may take; `how` are format,
    separator, decimal, encoding and missing, as in `read_table`. Tables have no labels, and no features that the schema
    does not know; `carried` are all columns as they are stored.
    """
    options = ReadOptions(**how).for_schema(schema)
    for path in paths:
        with open_file(path, options, UNLIMITED) as file:
            for first, frame in file.frames(max_bytes):
                with rows_from(first):
                    mark = options.decimal_for(schema, frame, file.source.separator)
                    X = schema.apply(frame, allow_extra=True, decimal=mark)
                yield Table(X, None, schema, frame)


@contextmanager
def rows_from(first: int) -> Iterator[None]:
    """Say where a batch begins in whose rows something is wrong."""
    try:
        yield
    except TableError as error:
        raise (TableError(f"counting rows from {first}: {error}") if first > 1 else error) from error
