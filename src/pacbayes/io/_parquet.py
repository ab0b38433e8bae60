"""Read Parquet files as data frames."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pacbayes._formatting import format_names
from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget
from pacbayes.rows import feature_names, is_readable, is_text

if TYPE_CHECKING:
    import pandas as pd

_BATCH_ROWS = 2**16

# Types of pandas that hold missing values besides whole numbers, and besides true and false.
_NULLABLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "boolean")


def read_parquet(file: BinaryIO, budget: Budget) -> pd.DataFrame:
    """Read the columns of a Parquet file that hold numbers, dates, text, or true and false.

    Columns that were the index of a data frame are left out. Text is kept as a dictionary, so that a string that many
    rows share is stored once.
    """
    batches = [budget.admit_batch(batch) for batch in _read_batches(file, budget, whole=True)]
    if not batches:
        raise TableError("no rows")
    return _to_frame(batches)


def iterate_parquet(file: BinaryIO, budget: Budget) -> Iterator[pd.DataFrame]:
    """Yield what `read_parquet` returns for the rows of a file, some thousand at a time."""
    for batch in _read_batches(file, budget, whole=False):
        yield _to_frame([budget.check_batch(batch)])


def _read_batches(file: BinaryIO, budget: Budget, *, whole: bool) -> Iterator[Any]:
    """Yield record batches, all of which (`whole`), or one at a time, must be within the budget."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.ParquetFile(file).schema_arrow
        names = feature_names(stored)
        _check_columns(stored, names, budget)
        texts = [name for name in names if is_text(stored.field(name).type)]
        reader = pq.ParquetFile(file, read_dictionary=texts if whole else [])
        groups = [reader.metadata.row_group(i).total_byte_size for i in range(reader.metadata.num_row_groups)]
        # As the file states it: batches are counted as they come, but a page is unpacked at once.
        budget.check_growth(sum(groups) if whole else max(groups, default=0), file.seek(0, io.SEEK_END))
        if whole:
            # Numbers that repeat are stored once, and take their room as soon as they are read.
            budget.check(sum(reader.metadata.num_rows * _bits(stored.field(name).type) for name in names) // 8)
        yield from reader.iter_batches(_BATCH_ROWS, columns=names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(f"not a Parquet file: {error}") from error


def _to_frame(batches: list[Any]) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    # What the file says about data frames is not needed, and may be damaged.
    table = pa.Table.from_batches(batches).unify_dictionaries().replace_schema_metadata(None)
    table = pa.table([_simplify(column) for column in table.columns], table.column_names)
    # Whole numbers stay exact, and true and false what they are, whether or not some are missing.
    nullable = {pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name) for name in _NULLABLE}
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, types_mapper=nullable.get)
    return frame


def _check_columns(schema: Any, names: list[str], budget: Budget) -> None:
    budget.admit_columns(len(names))
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"more than one column is named {format_names(repeated)}")
    for name in names:
        if not is_readable(schema.field(name).type):
            raise TableError(f"column {name!r} holds {schema.field(name).type} values: give numbers or text")


def _simplify(column: Any) -> Any:
    """Return a column of a type that pandas has: times in UTC without a zone, times of day as durations.

    Decimals become whole numbers where they are, which may be identifiers of more digits than float64 has.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind):
        # By way of integers: no zone is looked up, and the file may name any.
        return column.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    if types.is_time(kind):
        return (
            column.cast(pa.int32() if types.is_time32(kind) else pa.int64())
            .cast(pa.int64())
            .cast(pa.duration(kind.unit))
        )
    if types.is_decimal(kind):
        if kind.scale == 0:
            with suppress(pa.ArrowInvalid):  # where int64 cannot hold one of them
                return column.cast(pa.int64())
        return column.cast(pa.float64())
    return column


def _bits(kind: Any) -> int:
    """Return the bits that a value takes at least; of text, its place in the dictionary."""
    from pyarrow import types

    return 32 if is_text(kind) else 0 if types.is_null(kind) else int(kind.bit_width)
