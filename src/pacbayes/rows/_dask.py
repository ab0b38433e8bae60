"""Rows of dask arrays and data frames: their chunks are computed where the tasks run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._extras import require
from pacbayes._formatting import format_names
from pacbayes.exceptions import SourceError
from pacbayes.rows._arrays import check_shape, given_labels
from pacbayes.rows._base import (
    Labels,
    Source,
    TableSource,
    encode_labels,
    label_array,
    number_type,
    sort_labels,
    split_at,
)
from pacbayes.rows._code_book import ColumnSummary, join_summaries, summarize_columns


def is_dask(X: Any) -> bool:
    """Return whether this is a dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


class _DaskSource(Source):
    """Rows in chunks, each of which is a delayed object."""

    _y: Any
    _starts: NDArray[np.int64]

    def _set_chunks(self, X: Any, pieces: Sequence[Any], lengths: Sequence[int]) -> None:
        self._pieces: Any = list(pieces)
        self._starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self.n_rows = int(self._starts[-1])
        if self.n_rows == 0:
            raise SourceError("there are no rows in X")
        self.fingerprint = str(_dask().base.tokenize(X))

    def blocks(self) -> list[range]:
        return split_at(self.boundaries(), 1)

    def piece(self, block: range) -> Any:
        lengths = np.diff(self._starts)
        position = int(np.flatnonzero((self._starts[:-1] == block.start) & (lengths > 0))[0])
        return self._pieces[position]

    def chunks(self, start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        """Yield what is computed of the rows of a range, `size` at a time at most, each with its first row's number."""
        for block in self.blocks():
            low, high = max(start, block.start), min(stop, block.stop)
            if low < high:
                (chunk,) = _dask().compute(self.piece(block))
                rows = getattr(chunk, "iloc", chunk)
                for first in range(low, high, size):
                    yield first, rows[first - block.start : min(first + size, high) - block.start]

    def labels(self) -> Labels:
        y = self._y
        if y is None:
            return super().labels()
        return given_labels(np.asarray(_dask().compute(y)[0] if is_dask(y) else y), self.n_rows)

    def __getstate__(self) -> dict[str, Any]:
        # A task is sent its chunk: the graph stays where the fit is.
        return {**self.__dict__, "_pieces": None, "_y": None}


class DaskArraySource(_DaskSource):
    """Rows of a dask array."""

    def __init__(self, X: Any, y: Any = None) -> None:
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        _, self.n_columns = check_shape(X)
        self.dtype, self._y = number_type(X.dtype), y
        X = X.rechunk({1: -1})
        self._set_chunks(X, [row[0] for row in X.to_delayed()], X.chunks[0])

    def batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        for first, rows in self.chunks(start, stop, size):
            yield first, np.ascontiguousarray(rows, dtype=self.dtype)


class DaskTableSource(_DaskSource, TableSource):
    """Rows of a dask data frame, `columns` of it in this order; all but the target by default."""

    def __init__(self, X: Any, y: Any = None, columns: Sequence[str] | None = None) -> None:
        self.target = y if isinstance(y, str) else None
        names = [str(name) for name in X.columns]
        for name in [*(columns or ()), *([] if self.target is None else [self.target])]:
            if name not in names:
                raise SourceError(f"X has no column {name!r}, only {format_names(names)}")
        columns = columns or [name for name in names if name != self.target]
        types = {name: X.dtypes[name] for name in columns}
        numbers = {name: kind for name, kind in types.items() if isinstance(kind, np.dtype) and kind.kind in "biuf"}
        self._set_columns(columns, types, numbers)
        self._y = y if self.target is None else X[self.target].to_delayed()
        lengths = _dask().compute(*X.map_partitions(len).to_delayed())
        self._set_chunks(X, X[list(self.columns)].to_delayed(), lengths)

    def tables(self, start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        return self.chunks(start, stop, size)

    def summarize_columns(self) -> list[ColumnSummary]:
        summarize = _dask().delayed(summarize_columns)
        return join_summaries(_dask().compute(*(summarize(piece) for piece in self._pieces)))

    def labels(self) -> Labels:
        if self.target is None:
            return super().labels()
        encode = _dask().delayed(_encode)
        return encode_labels(iter(_dask().compute(*(encode(piece, self.target) for piece in self._y))), self.n_rows)


def _dask() -> Any:
    return require("dask", "dask")


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if column.isna().any():
        raise SourceError(f"column {name!r} must hold a label in every row, got null")
    return sort_labels(label_array(np.asarray(column).tolist()))
