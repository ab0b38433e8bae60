"""Rows of Parquet files: local ones, or on any file system that fsspec knows."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._extras import require
from pacbayes._formatting import format_names
from pacbayes.exceptions import SourceError
from pacbayes.rows._base import FileState, Labels, TableSource, encode_labels, label_array
from pacbayes.rows._code_book import EXPECTED, is_text

# Honest tables do not grow by more than this when they are unpacked: values that repeat are stored once in the first
# place. A string of gigabytes in a file of a kilobyte does. Any file may hold so many bytes besides.
MOST_GROWTH, ANY_SIZE = 1000, 2**27

# What a fit keeps of each row, at least: its label, its hash, and its place in the order of validation and in splits.
_ROW_BYTES = 32

# Rows decoded at a time where only labels are read.
_LABEL_ROWS = 1 << 18


@dataclass(frozen=True)
class _File:
    """A file as it was when the source was opened."""

    path: str  # or an address for fsspec
    state: FileState
    groups: tuple[int, ...]  # rows of each row group

    def check_unchanged(self) -> None:
        """Raise SourceError if the file is no longer the one that was opened."""
        self.state.check(_state_of(self.path), self.path)


class ParquetSource(TableSource):
    """Rows of Parquet files, in the order of their names. `types` are the Arrow types of features and target."""

    def __init__(self, files: list[_File], columns: Sequence[str], target: str | None, types: dict[str, Any]) -> None:
        self.files = files
        self.target = target
        numbers = {name: np.dtype(types[name].to_pandas_dtype()) for name in columns if _is_number(types[name])}
        self._set_columns(columns, types, numbers)
        sizes = np.array([size for file in files for size in file.groups], dtype=np.int64)
        self._starts = np.concatenate(([0], np.cumsum(sizes)))
        self.n_rows = int(self._starts[-1])
        layout = str(sorted(types.items()))
        content = "\n".join([layout, *(f"{file.path} {file.state.content} {file.groups}" for file in files)])
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()

    def tables(self, start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        for first, batch in self._record_batches(start, stop, size, self.columns):
            yield first, batch.select(self.columns)  # in this order

    def to_array(self, table: Any) -> NDArray[Any]:
        rows = np.empty((table.num_rows, self.n_columns), dtype=self.dtype)
        for j, column in enumerate(table.columns):
            # Neither true and false nor nothing but gaps are numbers that may be missing.
            plain = column.cast("float64") if str(column.type) in ("bool", "null") else column
            rows[:, j] = plain.to_numpy(zero_copy_only=False)
        return rows

    def labels(self) -> Labels:
        if self.target is None:
            raise SourceError("y must be the name of the column of labels, got None")
        return encode_labels(self._label_parts(self.target), self.n_rows)

    def _label_parts(self, target: str) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for first, batch in self._record_batches(0, self.n_rows, _LABEL_ROWS, [target]):
            column = batch.column(target)
            if column.null_count:
                row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise SourceError(f"column {target!r} must hold a label in every row, got null in row {row}")
            # A dictionary that is stored may hold labels that no row has.
            encoded = (column.dictionary_decode() if hasattr(column, "dictionary") else column).dictionary_encode()
            values = label_array(encoded.dictionary.to_pylist())
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise SourceError(f"column {target!r} must hold a label in every row, got NaN")
            yield values, encoded.indices.to_numpy(zero_copy_only=False)

    def _record_batches(self, start: int, stop: int, size: int, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield record batches of the row groups that hold a range of rows, cut to the range."""
        before = 0
        for file in self.files:
            begins = before + np.concatenate(([0], np.cumsum(file.groups, dtype=np.int64)))
            before = int(begins[-1])
            wanted = np.flatnonzero((begins[:-1] < stop) & (begins[1:] > start) & (np.diff(begins) > 0))
            if wanted.size == 0:
                continue
            first = int(begins[wanted[0]])
            with _reading(file), _open(file.path) as reader:
                for batch in reader.iter_batches(size, row_groups=wanted.tolist(), columns=list(names)):
                    low, high = max(start - first, 0), min(stop - first, batch.num_rows)
                    if low < high:
                        yield first + low, batch.slice(low, high - low)
                    first += batch.num_rows
                file.check_unchanged()


@contextmanager
def _reading(file: _File) -> Iterator[None]:
    """Raise SourceError if a file is gone, damaged, or not the one that was opened."""
    import pyarrow as pa

    try:
        file.check_unchanged()
        yield
    except (pa.ArrowException, OSError) as error:
        file.check_unchanged()  # which explains more
        raise SourceError(f"{file.path!r} cannot be read: {error}") from error


def _is_remote(path: str) -> bool:
    return "://" in path


def _state_of(path: str) -> FileState:
    if not _is_remote(path):
        return FileState.of(path, [path])
    system, name = require("fsspec", "sources").core.url_to_fs(path)
    system.invalidate_cache()
    try:
        info = system.info(name)
    except FileNotFoundError as error:
        raise SourceError(f"{path!r} disappeared while it was being read") from error
    marks = [str(info[key]) for key in ("ETag", "etag", "LastModified", "mtime", "created") if key in info]
    return FileState((1, info["size"], *marks))


@contextmanager
def _open(path: str) -> Iterator[Any]:
    pq = require("pyarrow.parquet", "sources")
    if _is_remote(path):
        with require("fsspec", "sources").open(path, "rb") as file:
            yield pq.ParquetFile(file)
    else:
        with pq.ParquetFile(path) as reader:
            yield reader


def find_files(path: str) -> list[str]:
    """Return the Parquet files of a path, folder, glob or fsspec address, sorted by name."""
    if _is_remote(path):
        system, name = require("fsspec", "sources").core.url_to_fs(path)
        found = system.find(name) if system.isdir(name) else system.glob(name)
        paths = [system.unstrip_protocol(one) for one in found if not system.isdir(one)]
    elif Path(path).is_dir():
        paths = [str(one) for one in Path(path).rglob("*") if one.is_file()]
    else:
        paths = [path] if Path(path).exists() else glob.glob(path, recursive=True)
    folder = len(paths) > 1 or not paths or paths[0] != path
    if folder:
        paths = [one for one in paths if not Path(one).name.startswith((".", "_"))]
    if _is_remote(path) or Path(path).is_dir():
        paths = [one for one in paths if one.endswith((".parquet", ".pq"))] or paths
    if not paths:
        raise SourceError(f"there is no file {path!r}")
    return sorted(paths)


def open_parquet(path: str, target: str | None, columns: Sequence[str] | None = None) -> ParquetSource:
    """Open Parquet files (a file, a folder, a glob or an address that fsspec knows), and compare their schemas.

    `columns` are the features, in this order; all but the target by default.
    """
    pa = require("pyarrow", "sources")
    names = find_files(path)
    files: list[_File] = []
    fields: dict[str, Any] = {}
    known: set[str] | None = None  # where features are named, files may hold other columns as well
    features: list[str] = []
    for name in names:
        try:
            state = _state_of(name)
            with _open(name) as reader:
                metadata = reader.metadata
                row_groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
                schema = reader.schema_arrow
        except (pa.ArrowException, OSError) as error:
            empty = "the file is empty" if not _is_remote(name) and Path(name).stat().st_size == 0 else str(error)
            raise SourceError(f"{name!r} is not a Parquet file: {empty}") from error
        groups = tuple(group.num_rows for group in row_groups)
        _check_growth(name, state.content[1], sum(groups), max((one.total_byte_size for one in row_groups), default=0))
        if not files:
            features = _choose_features(name, schema, target, columns)
            known = set(schema.names) if columns is None else None
        _check_schema(name, schema, _used(features, target), fields, names[0])
        extra = [] if known is None else sorted(set(schema.names) - known)
        if extra:
            raise SourceError(f"{name!r} has columns that {names[0]!r} has not: {format_names(extra)}")
        files.append(_File(name if _is_remote(name) else os.path.abspath(name), state, groups))
    for column in features:
        if not is_readable(fields[column]):
            raise SourceError(f"{path!r}: column {column!r} holds {fields[column]} values: {EXPECTED}")
    source = ParquetSource(files, features, target, fields)
    if source.n_rows == 0:
        raise SourceError(f"there are no rows in {path!r}")
    return source


def _check_growth(name: str, size: int, n_rows: int, group_bytes: int) -> None:
    """Raise SourceError if a file of this size cannot hold so many rows, or a row group of so many bytes."""
    most = ANY_SIZE + MOST_GROWTH * size
    if n_rows * _ROW_BYTES > most or group_bytes > most:
        what = f"{n_rows:,} rows" if n_rows * _ROW_BYTES > most else f"a row group of {group_bytes:,} bytes"
        raise SourceError(f"{name!r}: a file of {size:,} bytes cannot hold {what}")


def _used(columns: Sequence[str], target: str | None) -> list[str]:
    return [*columns, *([] if target is None else [target])]


def _choose_features(name: str, schema: Any, target: str | None, columns: Sequence[str] | None) -> list[str]:
    repeated = [column for column, count in Counter(schema.names).items() if count > 1]
    if repeated:
        raise SourceError(f"{name!r}: more than one column is named {format_names(repeated)}")
    for column in _used(columns or (), target):
        if column not in schema.names:
            raise SourceError(f"{name!r} has no column {column!r}, only {format_names(schema.names)}")
    features = columns or [one for one in feature_names(schema) if one != target]
    if not features:
        raise SourceError(f"{name!r} has no columns besides {target!r}")
    return list(features)


def feature_names(schema: Any) -> list[str]:
    """Return the columns of a Parquet file without those that were the index of a data frame."""
    try:
        index = list((schema.pandas_metadata or {}).get("index_columns", []))
    except (ValueError, AttributeError, TypeError):  # what the file says about data frames may be damaged
        index = []
    return [name for name in schema.names if name not in index]


def _check_schema(name: str, schema: Any, columns: Sequence[str], types: dict[str, Any], first: str) -> None:
    """Check that columns have the types of other files, and add those that are not known yet."""
    for column in columns:
        if column not in schema.names:
            raise SourceError(f"{name!r} has no column {column!r}, which {first!r} has")
        actual = schema.field(column).type
        known = types.setdefault(column, actual)
        if str(known) == "null":  # of a file in which the column is missing in every row
            types[column] = actual
        elif actual != known and str(actual) != "null" and not (_holds_text(actual) and _holds_text(known)):
            raise SourceError(f"{name!r}: column {column!r} holds {actual} values, and {known} in {first!r}")


def _holds_text(kind: Any) -> bool:
    return is_text(getattr(kind, "value_type", kind))


def is_readable(kind: Any) -> bool:
    """Return whether columns of an Arrow type can be features: numbers, text, booleans, dates, categories of these."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    plain = types.is_primitive(kind) and not types.is_interval(kind)  # numbers, booleans, dates, times
    return bool(plain or types.is_null(kind) or types.is_decimal(kind) or is_text(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
