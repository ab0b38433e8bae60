"""Rows of dask arrays and data frames: their chunks are computed where the tasks run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._formatting import format_names
from pacbayes.exceptions import SourceError
from pacbayes.rows._arrays import check_shape, given_labels, number_type
from pacbayes.rows._base import Labels, Source, encode_labels, split_at
from pacbayes.rows._extras import require

__all__ = ["DaskSource", "is_dask"]


def is_dask(X: Any) -> bool:
    """Return whether this is a dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


class DaskSource(Source):
    """Rows of a dask array or data frame.

    `y` may be the name of a column. `columns` are the features of a data frame, in this order; all but the target by
    default.
    """

    def __init__(self, X: Any, y: Any = None, columns: Any = None) -> None:
        dask = require("dask", "dask")
        self.target = y if isinstance(y, str) else None
        if hasattr(X, "columns"):
            names = [str(name) for name in X.columns]
            for name in [*(columns or ()), *([] if self.target is None else [self.target])]:
                if name not in names:
                    raise SourceError(f"X has no column {name!r}, only {format_names(names)}")
            self.columns = tuple(columns or [name for name in names if name != self.target])
            kinds = [X.dtypes[name] for name in self.columns]
            for name, kind in zip(self.columns, kinds, strict=True):
                if not (isinstance(kind, np.dtype) and kind.kind in "biuf"):
                    raise SourceError(f"column {name!r} holds {kind} values: a source takes numbers and booleans only")
            self.dtype = number_type(np.result_type(*kinds))
            self.n_columns = len(self.columns)
            lengths = dask.compute(*X.map_partitions(len).to_delayed())
            pieces = X[list(self.columns)].to_delayed()
        else:
            if np.isnan(X.shape[0]):
                X = X.compute_chunk_sizes()
            self.n_rows, self.n_columns = check_shape(X)
            self.dtype = number_type(X.dtype)
            X = X.rechunk({1: -1})
            lengths = X.chunks[0]
            pieces = [row[0] for row in X.to_delayed()]
        self._starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self.n_rows = int(self._starts[-1])
        if self.n_rows == 0:
            raise SourceError("there are no rows in X")
        self._pieces: Any = list(pieces)
        self._label_pieces: Any = None if self.target is None else X[self.target].to_delayed()
        self._y = None if self.target is not None else y
        self.fingerprint = str(dask.base.tokenize(X))

    def boundaries(self) -> NDArray[np.int64]:
        return np.unique(self._starts)

    def blocks(self) -> list[range]:
        return split_at(self.boundaries(), 1)

    def piece(self, block: range) -> Any:
        lengths = np.diff(self._starts)
        position = int(np.flatnonzero((self._starts[:-1] == block.start) & (lengths > 0))[0])
        return self._pieces[position]

    def batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        dask = require("dask", "dask")
        for block in self.blocks():
            if block.start < stop and block.stop > start:
                rows = self.to_rows(dask.compute(self.piece(block))[0], block)
                low, high = max(start, block.start), min(stop, block.stop)
                for first in range(low, high, size):
                    yield first, rows[first - block.start : min(first + size, high) - block.start]

    def labels(self) -> Labels:
        dask = require("dask", "dask")
        if self._label_pieces is not None:
            encode = dask.delayed(_encode)
            parts = dask.compute(*(encode(piece, self.target) for piece in self._label_pieces))
            return encode_labels(iter(parts), self.n_rows)
        if self._y is None:
            return super().labels()
        y = self._y
        return given_labels(np.asarray(dask.compute(y)[0] if is_dask(y) else y), self.n_rows)

    def __getstate__(self) -> dict[str, Any]:
        # A task is sent its chunk: the graph stays where the fit is.
        return {**self.__dict__, "_pieces": None, "_label_pieces": None, "_y": None}


def _encode(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if column.isna().any():
        raise SourceError(f"column {name!r} must hold a label in every row, got null")
    values = np.asarray(column)
    if values.dtype.kind == "O":
        values = np.array(values.tolist())
    return np.unique(values, return_inverse=True)
