"""Read Parquet files as data frames."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pacbayes._formatting import format_names
from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget

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
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.ParquetFile(file).schema_arrow
        names = [name for name in stored.names if name not in _index_names(stored)]
        _check_columns(stored, names, budget)
        texts = [name for name in names if _is_text(stored.field(name).type)]
        reader = pq.ParquetFile(file, read_dictionary=texts)
        # As the file states it: batches are counted as they come, but a page is unpacked at once.
        budget.check_growth(sum(_group_sizes(reader)), file.seek(0, io.SEEK_END))
        # Numbers that repeat are stored once, and take their room as soon as they are read.
        budget.check(sum(reader.metadata.num_rows * _bits(stored.field(name).type) for name in names) // 8)
        batches = [budget.admit_batch(batch) for batch in reader.iter_batches(_BATCH_ROWS, columns=names)]
        if not batches:
            raise TableError("no rows")
        frame = _to_frame(batches)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(f"not a Parquet file: {error}") from error
    return frame


def iterate_parquet(path: str, budget: Budget) -> Iterator[pd.DataFrame]:
    """Yield what `read_parquet` returns for the rows of a file, some thousand at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as reader:
            names = [name for name in reader.schema_arrow.names if name not in _index_names(reader.schema_arrow)]
            _check_columns(reader.schema_arrow, names, budget)
            budget.check_growth(max(_group_sizes(reader), default=0), os.path.getsize(path))
            for batch in reader.iter_batches(_BATCH_ROWS, columns=names):
                yield _to_frame([budget.check_batch(batch)])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(f"not a Parquet file: {error}") from error


def _group_sizes(reader: Any) -> list[int]:
    """Return the bytes that each row group takes once it is unpacked, as the file states it."""
    return [reader.metadata.row_group(i).total_byte_size for i in range(reader.metadata.num_row_groups)]


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


def _index_names(schema: Any) -> set[str]:
    """Return the names of the columns that were the index of the data frame that was written."""
    try:
        names = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _check_columns(schema: Any, names: list[str], budget: Budget) -> None:
    budget.admit_columns(len(names))
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"more than one column is named {format_names(repeated)}")
    for name in names:
        kind = schema.field(name).type
        if not (_is_text(kind) or _is_plain(kind)):
            raise TableError(f"column {name!r} holds {kind} values: give numbers or text")


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

    return 32 if _is_text(kind) else 0 if types.is_null(kind) else int(kind.bit_width)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or types.is_decimal(kind)
        or _is_text(kind)
    )
