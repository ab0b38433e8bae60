"""Read Parquet files as data frames."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget
from pacbayes.io.schema import refuse_repeated
from pacbayes.rows import feature_names, is_readable, is_text

if TYPE_CHECKING:
    import pandas as pd

_BATCH_ROWS = 2**16

# Types of pandas that hold missing values besides whole numbers, and besides true and false.
_NULLABLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "boolean")


def read_parquet(file: BinaryIO, budget: Budget, *, whole: bool) -> Iterator[pd.DataFrame]:
    """Yield the columns of a Parquet file that hold numbers, dates, text, or true and false.

    These are all rows of the `whole` file, or a few thousand at a time. Columns that were the index of a data frame are
    left out. Text of all rows is kept as a dictionary, so that a string that many rows share is stored once.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = []
    try:
        stored = pq.ParquetFile(file).schema_arrow
        names = feature_names(stored)
        kinds = _check_columns(stored, names, budget)
        texts = [name for name, kind in kinds.items() if is_text(kind)]
        reader = pq.ParquetFile(file, read_dictionary=texts if whole else [])
        groups = [reader.metadata.row_group(i).total_byte_size for i in range(reader.metadata.num_row_groups)]
        # As the file states it: batches are counted as they come, but a page is unpacked at once.
        budget.check_growth(sum(groups) if whole else max(groups, default=0), file.seek(0, io.SEEK_END))
        if whole:
            # Numbers that repeat are stored once, and take their room as soon as they are read. Text takes at least
            # that of its place in the dictionary.
            bits = [32 if is_text(kind) else 0 if pa.types.is_null(kind) else kind.bit_width for kind in kinds.values()]
            budget.check(reader.metadata.num_rows * sum(bits) // 8)
        for batch in reader.iter_batches(_BATCH_ROWS, columns=names):
            budget.count(batch.nbytes, kept=whole)
            batches.append(batch)
            if not whole:
                yield _to_frame([batches.pop()])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(f"not a Parquet file: {error}") from error
    if batches:
        yield _to_frame(batches)


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


def _check_columns(schema: Any, names: list[str], budget: Budget) -> dict[str, Any]:
    """Return the types of columns, if they can be read and their names differ."""
    budget.admit_columns(len(names))
    refuse_repeated(names)
    kinds = {name: schema.field(name).type for name in names}
    for name, kind in kinds.items():
        if not is_readable(kind):
            raise TableError(f"column {name!r} holds {kind} values: give numbers or text")
    return kinds


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
