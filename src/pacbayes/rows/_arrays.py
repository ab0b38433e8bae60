"""Rows of arrays: in memory, mapped from a file, or in Zarr's chunks."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._fingerprint import digest
from pacbayes.rows._base import FileState, Labels, Source, encode_labels, number_type, sort_labels

# Labels encoded at a time.
_LABEL_ROWS = 1 << 20


def given_labels(y: ArrayLike, n_rows: int) -> Labels:
    """Encode labels that are given as an array, or as anything that is cut like one."""
    shape = np.shape(y)
    if shape != (n_rows,):
        raise ValueError(f"y must hold one label for each of the {n_rows} rows of X, got shape {shape}")
    values: Any = y if hasattr(y, "shape") and not hasattr(y, "iloc") else np.asarray(y)

    def parts() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for start in range(0, n_rows, _LABEL_ROWS):
            part = np.asarray(values[start : start + _LABEL_ROWS])
            if part.dtype.kind == "f" and np.isnan(part).any():
                raise ValueError("y must hold a label for every row, got NaN")
            if part.dtype.kind == "O" and any(one is None or one != one for one in part.tolist()):
                raise ValueError("y must hold a label for every row, got None or NaN")
            yield sort_labels(part)

    return encode_labels(parts(), n_rows)


class _CutSource(Source):
    """Rows of something that is cut like an array."""

    def __init__(self, X: Any, y: Any = None) -> None:
        self.n_rows, self.n_columns = check_shape(X)
        self.dtype = number_type(X.dtype)
        self.X, self.y = X, y

    def check_unchanged(self) -> None:
        """Raise SourceError if the rows are no longer those that the source was opened with."""

    def batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        self.check_unchanged()
        rows = self._rows()
        for first in range(start, stop, size):
            yield first, np.ascontiguousarray(rows[first : min(first + size, stop)], dtype=self.dtype)
        self.check_unchanged()

    def _rows(self) -> Any:
        """Return what is cut."""
        return self.X

    def labels(self) -> Labels:
        return super().labels() if self.y is None else given_labels(self.y, self.n_rows)

    def __getstate__(self) -> dict[str, Any]:
        # Labels stay where the fit is.
        return {**self.__dict__, "y": None}


def check_shape(X: Any) -> tuple[int, int]:
    if len(X.shape) != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X must have two dimensions, rows and features, neither of them empty, got shape {X.shape}")
    if np.dtype(X.dtype).kind not in "biuf":
        raise ValueError(f"X must hold numbers, got {X.dtype}")
    return int(X.shape[0]), int(X.shape[1])


class ArraySource(_CutSource):
    """Rows of an array in memory."""

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Digest of the rows."""
        return digest(self.X)


class MemmapSource(_CutSource):
    """Rows of a file that is mapped to memory, opened anew by each process."""

    def __init__(self, X: np.memmap[Any, Any], y: Any = None) -> None:
        super().__init__(X, y)
        self.X = None
        self.path = os.path.abspath(str(X.filename))
        self.stored, self.strides, self.offset = X.dtype, X.strides, _offset(X)
        self._state = FileState.of(self.path, [self.path])
        self.fingerprint = digest([self.path, self._state.content, str(X.dtype), X.shape, X.strides, self.offset])

    def check_unchanged(self) -> None:
        self._state.check(FileState.of(self.path, [self.path]), self.path)

    def _rows(self) -> Any:
        mapped = np.memmap(self.path, dtype=np.uint8, mode="r")
        return np.ndarray(self.shape, self.stored, buffer=mapped, offset=self.offset, strides=self.strides)


def is_mapped(X: Any) -> bool:
    """Return whether an array is a view of a file that can be mapped again."""
    return isinstance(X, np.memmap) and X.filename is not None and isinstance(X._mmap, mmap.mmap)  # type: ignore[attr-defined]


def _offset(X: Any) -> int:
    """Return where a mapped array begins in its file. Its `offset` is that of the array that it was cut from."""
    start = np.frombuffer(X._mmap, dtype=np.uint8).__array_interface__["data"][0]
    mapped = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    return int(X.__array_interface__["data"][0] - start + mapped)


class ZarrSource(_CutSource):
    """Rows of a Zarr array; many labels should be in one as well."""

    def __init__(self, X: Any, y: Any = None) -> None:
        super().__init__(X, y)
        self._starts = np.arange(0, self.n_rows, X.chunks[0])
        root = getattr(X.store, "root", None)
        self.root = None if root is None else os.path.join(str(root), X.path)
        self._state = self._find_state()
        self.fingerprint = digest(list(self._state.content))

    def _find_state(self) -> FileState:
        """Return the state of the array, and of its files, if they are local."""
        files = FileState(())
        if self.root is not None:
            paths = (os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names)
            files = FileState.of(self.root, paths)
        content = (str(self.X.store), self.X.path, str(self.X.metadata.to_dict()), files.content)
        return FileState(content, files.place)

    def check_unchanged(self) -> None:
        self._state.check(self._find_state(), str(self.root))
