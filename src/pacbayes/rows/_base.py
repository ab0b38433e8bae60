"""The protocol of a source: rows that are read in blocks, and read again wherever they are needed."""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes.exceptions import SourceError
from pacbayes.rows._code_book import CodeBook, ColumnSummary, join_summaries, summarize_columns

# Rows of a block: what one task reads. Fewer of a small source, so that there is work for all.
_MOST_ROWS, _LEAST_ROWS, _BLOCKS = 1 << 18, 1 << 12, 64

# Rows that are summarised, or looked through, at a time.
_ROWS_AT_A_TIME = 1 << 16


class Source(ABC):
    """Rows that may be more than the memory holds.

    A source is light: it holds names and sizes, no rows and no open files. It can be sent to any process, which reads
    the rows that it needs, and reads them again if it has to.

    Attributes
    ----------
    n_rows, n_columns : int
        Shape of the features.
    columns : tuple of str or None
        Names of the features, if they have some.
    dtype : dtype
        Type of the features, of all columns together.
    fingerprint : str
        What tells this source from another, and from itself after a change.
    """

    n_rows: int
    n_columns: int
    columns: tuple[str, ...] | None = None
    dtype: np.dtype[Any]
    fingerprint: str
    # Whether the workers of a cluster hold the rows.
    is_sent = False
    # How columns of a table became the features, if they did.
    code_book: CodeBook | None = None
    # Where the parts begin in which the rows are stored, if they are stored in parts.
    _starts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return self.n_rows, self.n_columns

    @abstractmethod
    def batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the rows of a range, in order, as arrays of at most `size` rows, each with the number of its first.

        Raises SourceError if the rows are no longer those that the source was opened with.
        """

    def labels(self) -> Labels:
        """Return the labels of all rows."""
        raise SourceError("y must be given: there is no column of labels in these rows")

    def boundaries(self) -> NDArray[np.int64]:
        """Return row numbers at which reading may begin without reading what comes before, rising from 0 to n."""
        starts = np.arange(0, self.n_rows, self._block_rows()) if self._starts is None else self._starts
        return np.unique(np.append(starts, self.n_rows))

    def _block_rows(self) -> int:
        """Return the number of rows of a block: it depends on nothing but the number of rows."""
        return int(np.clip(self.n_rows // _BLOCKS, _LEAST_ROWS, _MOST_ROWS))

    def blocks(self) -> list[range]:
        """Return ranges of rows, each to be read by one task, which cover all rows."""
        return split_at(self.boundaries(), self._block_rows())

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows of a range."""
        parts = [rows for _, rows in self.batches(start, stop, max(1, stop - start))]
        return np.concatenate([np.empty((0, self.n_columns), dtype=self.dtype), *parts])

    def piece(self, block: range) -> Any:
        """Return a dask object that is computed where the rows of a block are needed; None if a task reads them."""
        return None

    def to_rows(self, piece: Any, block: range) -> NDArray[Any]:
        """Return the piece of a block, once it is computed, as an array."""
        rows = np.ascontiguousarray(piece, dtype=self.dtype)
        if rows.shape != (len(block), self.n_columns):
            raise SourceError(f"a chunk has shape {rows.shape}, and should have {(len(block), self.n_columns)}")
        return rows

    def encoded(self, code_book: CodeBook | None) -> Source:
        """Return the rows of a table as a code book encodes them; without one, the rows as they are, if numbers."""
        if code_book is not None:
            raise ValueError(
                "X must be a table with the columns of the sample, which had text or gaps: it has no columns"
            )
        return self

    def take(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return some rows, by their numbers, rising. Only blocks that hold some of them are read."""
        taken = np.empty((rows.size, self.n_columns), dtype=self.dtype)
        for block in self.blocks():
            if np.searchsorted(rows, block.start) == np.searchsorted(rows, block.stop):
                continue
            for first, batch in self.batches(block.start, block.stop, _ROWS_AT_A_TIME):
                begin, end = np.searchsorted(rows, [first, first + len(batch)])
                taken[begin:end] = batch[rows[begin:end] - first]
        return taken


class TableSource(Source):
    """Rows of a table: of numbers and booleans, which are read as arrays, or as its code book encodes them."""

    columns: tuple[str, ...]
    not_numbers: Mapping[str, str]  # types of the columns that are neither numbers nor booleans

    def _set_columns(
        self, columns: Sequence[str], types: Mapping[str, Any], numbers: Mapping[str, np.dtype[Any]]
    ) -> None:
        """Take the names of the features, their types, and NumPy's types of those that are numbers or booleans."""
        self.columns, self.n_columns = tuple(columns), len(columns)
        self.not_numbers = {name: str(types[name]) for name in columns if name not in numbers}
        self.dtype = number_type(np.result_type(*numbers.values()) if numbers else np.float64)

    @abstractmethod
    def tables(self, start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        """Do what `batches` does, for data frames or Arrow record batches of the features."""

    def to_array(self, table: Any) -> NDArray[Any]:
        """Return rows of numbers and booleans as an array."""
        return np.ascontiguousarray(table, dtype=self.dtype)

    def _encode(self, table: Any) -> NDArray[Any]:
        return self.to_array(table) if self.code_book is None else self.code_book.encode(table)

    def batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        if self.code_book is None:
            self.encoded(None)  # if all columns are numbers
        return ((first, self._encode(table)) for first, table in self.tables(start, stop, size))

    def to_rows(self, piece: Any, block: range) -> NDArray[Any]:
        return super().to_rows(self._encode(piece), block)

    def summarize_columns(self) -> list[ColumnSummary]:
        """Read all rows once, and return what the columns hold."""
        return join_summaries(summarize_columns(table) for _, table in self.tables(0, self.n_rows, _ROWS_AT_A_TIME))

    def encoded(self, code_book: CodeBook | None) -> Source:
        if code_book is not None:
            # Not by `copy`, which would take what is sent to other processes.
            encoded = object.__new__(type(self))
            changed = {"n_columns": code_book.n_features, "dtype": np.dtype(np.float64)}
            vars(encoded).update(vars(self), code_book=code_book, **changed)
            return encoded
        for name, kind in self.not_numbers.items():
            raise SourceError(
                f"column {name!r} holds {kind} values, and these hypotheses take numbers and booleans only: name other "
                "columns, encode it before, or use RBFSVMPool()"
            )
        return self


def number_type(dtype: Any) -> np.dtype[Any]:
    """Return the type that features are read as: single precision as it is, all else in double precision."""
    return np.dtype(np.float32) if np.dtype(dtype) == np.float32 else np.dtype(np.float64)


@dataclass(frozen=True)
class FileState:
    """What tells files from others, and from themselves after a change.

    `content` is their number, size and time of the last change, or what a file system says instead: the same for a copy
    on another machine. `place` is this machine, and on it their inodes and the time when these were last changed.
    """

    content: tuple[Any, ...]
    place: tuple[Any, ...] = ()

    @classmethod
    def of(cls, name: str, paths: Iterable[str]) -> FileState:
        """Return the state of local files, or raise SourceError, with their name, if they are not there."""
        try:
            files = [os.stat(path) for path in paths]
        except FileNotFoundError:
            files = []
        if not files:
            raise SourceError(f"{name!r} disappeared while it was being read")
        content = (len(files), sum(file.st_size for file in files), max(file.st_mtime_ns for file in files))
        inodes, changed = sum(file.st_ino for file in files), max(file.st_ctime_ns for file in files)
        return cls(content, (platform.node(), inodes, changed))

    def check(self, now: FileState, name: str) -> None:
        """Raise SourceError if something has changed since, as far as can be told on this machine."""
        moved = self.place[:1] == now.place[:1] and self.place != now.place
        if self.content != now.content or moved:
            raise SourceError(f"{name!r} changed while it was being read")


def split_at(boundaries: NDArray[np.int64], size: int) -> list[range]:
    """Join the parts between boundaries to ranges of about `size` rows."""
    ranges, start = [], 0
    for end in boundaries[1:].tolist():
        if end - start >= size or end == boundaries[-1]:
            ranges.append(range(start, end))
            start = end
    return ranges


class Labels(NamedTuple):
    """Labels of many rows, as codes in few bytes."""

    classes: NDArray[Any]  # the class labels, sorted
    codes: NDArray[Any]  # (n,): position of each label in them, of the smallest unsigned type that holds it


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Return labels of a table as an array: text as objects, which it is in a data frame."""
    array = np.array(labels)
    return array.astype(object) if array.dtype.kind == "U" else array


def sort_labels(labels: NDArray[Any], name: str = "y") -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, sorted, and positions in them."""
    try:
        classes = np.unique(labels)
        return classes, np.searchsorted(classes, labels)  # faster than to ask `unique`, which sorts all labels
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise ValueError(f"{name} must hold labels of one type, none of them missing, got {kinds}") from error


def encode_labels(parts: Iterator[tuple[NDArray[Any], NDArray[Any]]], n_rows: int) -> Labels:
    """Encode labels that come in parts, each as its distinct labels and the position of each row's label among them."""
    known: dict[Any, int] = {}
    dtypes: set[np.dtype[Any]] = set()
    codes: NDArray[Any] = np.empty(n_rows, dtype=np.uint8)
    done = 0
    for values, positions in parts:
        numbers = np.array([known.setdefault(value, len(known)) for value in values.tolist()], dtype=np.uint32)
        if codes.dtype.itemsize < 4 and len(known) > np.iinfo(codes.dtype).max:
            codes = codes.astype(np.uint16 if len(known) <= 2**16 else np.uint32)
        codes[done : done + positions.size] = numbers[positions]
        done += positions.size
        dtypes.add(values.dtype)
    if done != n_rows:
        raise SourceError(f"y must hold one label for each of the {n_rows} rows of X, got {done}")
    classes, position = sort_labels(np.array(list(known), dtype=np.result_type(*dtypes)))
    return Labels(classes, position.astype(codes.dtype)[codes])
