"""Samples of which some rows are in memory, and blocks of rows that a task reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.exceptions import SourceError
from pacbayes.pools import Sample
from pacbayes.rows import CodeBook, Source, Sums, add_sums, sum_rows
from pacbayes.sampling import Subsamples, validation_order

__all__ = ["Block", "GatheredRows", "SourceSample", "partial_sample"]

# Rows that are kept for the first rounds of validation take at most so many bytes, for each vote.
_EARLY_BYTES = 1 << 25


class GatheredRows:
    """Some of `n_rows` rows, looked up by their numbers (rising) like those of an array."""

    # There is no copy of all rows that a device could hold.
    nbytes = float("inf")

    def __init__(self, numbers: NDArray[Any], values: NDArray[Any], n_rows: int) -> None:
        self.numbers = numbers
        self.values = values
        self.shape = (n_rows, *values.shape[1:])
        self.dtype = values.dtype
        self.ndim = values.ndim
        self.size = int(np.prod(self.shape))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __sizeof__(self) -> int:
        return self.numbers.nbytes + self.values.nbytes

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if isinstance(rows, tuple):  # scikit-learn asks for all of the other dimensions
            rows = rows[0]
        if rows is self.numbers:
            return self.values
        positions = np.minimum(np.searchsorted(self.numbers, rows), self.numbers.size - 1)
        if not np.array_equal(self.numbers[positions], rows):
            raise SourceError("rows were asked for that are not in memory")
        return np.asarray(self.values[positions])


def partial_sample(
    numbers: NDArray[Any],
    X: NDArray[Any],
    codes: NDArray[Any],
    n_rows: int,
    classes: Any,
    code_book: CodeBook | None = None,
) -> Sample:
    """Return a sample of which some rows are known."""
    known: Any = GatheredRows(numbers, codes, n_rows)
    return Sample(GatheredRows(numbers, X, n_rows), known, classes, code_book)


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceSample(Sample):
    """Labelled rows of a source, all or some: what of them is in memory is in `X`."""

    source: Source
    kept: NDArray[np.bool_] | None = None  # mask over the rows of the source; None for all
    rank: NDArray[np.int32] | None = None  # place of each row in the order of validation
    n_early: int = 0  # so many of the first of that order are in memory
    # What the first reading found, by the first row of each block; empty before.
    sums: Mapping[int, Sums] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source, codes: NDArray[Any], classes: NDArray[Any]) -> SourceSample:
        """Return all rows of a source, none of them in memory."""
        nothing = np.empty((0, source.n_columns), dtype=source.dtype)
        rows = GatheredRows(np.empty(0, dtype=np.int64), nothing, source.n_rows)
        return cls(rows, codes, classes, source.code_book, source=source)

    def take(self, rows: NDArray[Any]) -> SourceSample:
        """Return some of the rows, by their numbers, rising. None of them is read."""
        kept = np.zeros(self.source.n_rows, dtype=bool)
        kept[rows if self.kept is None else np.flatnonzero(self.kept)[rows]] = True
        nothing = GatheredRows(np.empty(0, dtype=np.int64), self.X.values[:0], len(rows))
        return replace(self, X=nothing, codes=self.codes[rows], kept=kept)

    def gather(self, rows: NDArray[Any]) -> Sample:
        numbers = rows if self.kept is None else np.flatnonzero(self.kept)[rows]
        return Sample(self.source.take(numbers), self.codes[rows], self.classes, self.code_book)

    def plan(self, subsamples: Subsamples, entropy: int) -> tuple[SourceSample, NDArray[Any]]:
        """Return the sample with an order of validation, and the rows that have to be in memory, rising."""
        n = len(self)
        order = validation_order(n, entropy)
        row_bytes = self.source.n_columns * np.dtype(self.source.dtype).itemsize
        # Rows that workers hold need not come back, and be sent again.
        n_early = 0 if self.source.is_sent else min(n, max(1, _EARLY_BYTES // row_bytes))
        rank = np.empty(n, dtype=np.int32)
        rank[order] = np.arange(n, dtype=np.int32)
        numbers = np.unique(np.concatenate([subsamples.concatenated(range(len(subsamples))), order[:n_early]]))
        return replace(self, rank=rank, n_early=n_early), numbers

    @cached_property
    def block_starts(self) -> list[tuple[range, int]]:
        """The blocks of the source, each with the number of kept rows before it."""
        blocks = self.source.blocks()
        if self.kept is None:
            return [(block, block.start) for block in blocks]
        counts = [int(np.count_nonzero(self.kept[block.start : block.stop])) for block in blocks]
        starts = np.concatenate(([0], np.cumsum(counts)))
        return [(block, int(start)) for block, start in zip(blocks, starts, strict=False)]

    def positions(self, block: range, first: int, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return where some rows, by their numbers, are in a block of the source, those of them that are."""
        if self.kept is None:
            low, high = np.searchsorted(numbers, [block.start, block.stop])
            return np.asarray(numbers[low:high] - block.start, dtype=np.int64)
        here = np.flatnonzero(self.kept[block.start : block.stop])
        low, high = np.searchsorted(numbers, [first, first + here.size])
        return np.asarray(here[numbers[low:high] - first])

    def validation_blocks(self, start: int, end: int, size: int, dtype: Any) -> list[Block]:
        """Return blocks of the source with those rows whose rank is in a range."""
        assert self.rank is not None
        blocks = []
        for block, first in self.block_starts:
            kept = None if self.kept is None else self.kept[block.start : block.stop]
            count = len(block) if kept is None else int(np.count_nonzero(kept))
            rank = self.rank[first : first + count]
            chosen = (rank >= start) & (rank < end)
            if chosen.any():
                codes = self.codes[first : first + count][chosen]
                sums = self.sums.get(block.start)
                blocks.append(Block.of(self.source, block, kept, chosen, first, codes, size, dtype, sums))
        return blocks


def _pack(mask: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
    return None if mask is None or mask.all() else np.packbits(mask)


def _unpack(bits: NDArray[np.uint8] | None, n: int) -> NDArray[np.bool_]:
    return np.ones(n, dtype=bool) if bits is None else np.unpackbits(bits, count=n).view(bool)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a range of a source, with their labels: small to send, read where the task runs."""

    source: Source | None  # None if the rows are in `rows` themselves
    place: range  # rows of the source that are read, or the place of the rows in a round
    kept: NDArray[np.uint8] | None  # bits: which rows of the range belong to the sample; None for all
    chosen: NDArray[np.uint8] | None  # bits: which of those belong to the block; None for all
    first: int  # number, in the sample, of the first row that belongs to it
    codes: NDArray[Any]
    size: int  # rows to read at a time
    dtype: Any  # of the features that hypotheses take
    rows: tuple[NDArray[Any], NDArray[Any]] | None = None  # numbers and features of rows that are in memory already
    sums: Sums | None = None  # what the first reading found in the range; None if this is the first

    @classmethod
    def of(
        cls,
        source: Source,
        block: range,
        kept: NDArray[np.bool_] | None,
        chosen: NDArray[np.bool_] | None,
        first: int,
        codes: NDArray[Any],
        size: int,
        dtype: Any,
        sums: Sums | None,
    ) -> Block:
        """Return rows of a range of a source, by masks."""
        return cls(source, block, _pack(kept), _pack(chosen), first, codes, size, dtype, sums=sums)

    @classmethod
    def in_memory(cls, place: range, numbers: NDArray[Any], X: NDArray[Any], codes: NDArray[Any], size: int) -> Block:
        """Return rows that need not be read."""
        return cls(None, place, None, None, 0, codes, size, X.dtype, (numbers, X))

    @property
    def chunk(self) -> Any:
        """What Dask has to compute for the block; None if its task reads the rows, or has them."""
        return None if self.source is None else self.source.piece(self.place)

    def read(self, chunk: Any = None) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield all rows of the range, in batches, each with the number of its first row in the source.

        Raises SourceError at the end if they are not those of the first reading: what was made of them does not count.
        """
        found = []
        for first, rows in self._read(chunk):
            if self.sums is not None:
                found.append(sum_rows(rows, first))
            yield first, rows
        if self.sums is not None and add_sums(found) != self.sums:
            raise SourceError(
                f"rows {self.place.start} to {self.place.stop - 1} of X are not what they were when they were first "
                "read: X must give the same rows, in the same order, each time"
            )

    def _read(self, chunk: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        assert self.source is not None
        if chunk is not None:
            rows = self.source.to_rows(chunk, self.place)
            for start in range(0, len(rows), self.size):
                yield self.place.start + start, rows[start : start + self.size]
        else:
            yield from self.source.batches(self.place.start, self.place.stop, self.size)

    def batches(self, chunk: Any = None) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Yield numbers in the sample, features and labels of the rows of the block, in batches."""
        if self.rows is not None:
            numbers, X = self.rows
            for i in range(0, numbers.size, self.size):
                part = slice(i, i + self.size)
                yield numbers[part], X[part], self.codes[part]
            return
        wanted = _unpack(self.kept, len(self.place))
        among = _unpack(self.chosen, int(np.count_nonzero(wanted)))
        numbers = self.first + np.flatnonzero(among)
        wanted = wanted.copy()
        wanted[wanted] = among
        done = 0
        for first, X in self.read(chunk):
            here = wanted[first - self.place.start : first - self.place.start + len(X)]
            count = int(np.count_nonzero(here))
            part = slice(done, done + count)
            done += count
            if count:
                rows = X if count == len(X) else X[here]
                yield numbers[part], rows.astype(self.dtype, copy=False), self.codes[part]
