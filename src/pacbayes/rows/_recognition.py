"""Recognise rows of a training sample among others, in any order, by hashes that are kept with the model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import xlog1py

from pacbayes.rows import _hashing
from pacbayes.rows._code_book import to_days

Hashes = NDArray[np.uint64]

# Values converted at a time.
_BLOCK = 1 << 16

# Probability with which new rows that coincide with rows of the sample may be taken for these.
_FALSE_ALARM = 0.005

# The same, also in view of how many rows of a small sample repeat: less, and a few rows of it would not be noticed.
_FALSE_ALARM_IF_SMALL = 0.025

# Hashes that are kept with a model: 32 MiB, and as many exact ones where single precision cannot tell rows apart.
_MOST_KEPT = 1 << 22

# Exact hashes are kept if the share of rows that repeat is smaller by so much: where hashes are a sample, it varies.
_LEAST_GAIN = 0.001

# Words that columns of some kinds have for what others have as numbers.
_SPELLED = {"None": "nan", "<NA>": "nan", "NaT": "nan", "True": "1", "False": "0"}


def hash_rows(X: Any, *, exact: bool = False) -> Hashes:
    """Return a 64-bit hash of each row: the same for the same numbers, sparse or dense, of single or double precision.

    Numbers are rounded to single precision before, and words that spell numbers are taken for these: rows that were
    saved in another way are recognised. With `exact`, numbers are hashed as they are, for rows that rounding would make
    equal; numbers of single precision have the same hashes either way.
    """
    if issparse(X):
        return _hash_sparse(X.tocsr(), exact)
    if hasattr(X, "columns"):
        return _hash_columns([np.asarray(X[name]) for name in X.columns], X.shape[0], exact)
    array = np.asarray(X)
    if array.dtype.kind not in "biuf" or (exact and _rounds(array)):
        return _hash_columns(list(array.T), array.shape[0], exact)
    hashes = np.empty(array.shape[0], dtype=np.uint64)
    as_it_is = array.dtype == np.float64 and array.flags.c_contiguous
    rows = max(1, array.shape[0] if as_it_is else _BLOCK // max(1, array.shape[1]))
    for i in range(0, array.shape[0], rows):
        block = np.ascontiguousarray(array[i : i + rows], dtype=np.float64)
        _hashing.hash_rows(block, hashes[i : i + rows], exact)
    return hashes


def _hash_sparse(X: Any, exact: bool) -> Hashes:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    hashes = np.zeros(X.shape[0], dtype=np.uint64)
    values = _hash_values(X.data, X.indices, exact)
    filled = np.flatnonzero(np.diff(X.indptr))
    if filled.size:
        hashes[filled] = np.add.reduceat(values, X.indptr[filled])
    return hashes


def _hash_columns(columns: Sequence[NDArray[Any]], n_rows: int, exact: bool) -> Hashes:
    return sum((_hash_column(column, k, exact) for k, column in enumerate(columns)), np.zeros(n_rows, dtype=np.uint64))


def _hash_column(column: NDArray[Any], k: int, exact: bool) -> Hashes:
    if column.dtype.kind in "Mm":  # the same in every unit
        column = to_days(column)
    if column.dtype.kind in "biuf":
        return _hash_values(column, np.array([k]), exact)
    words, positions = np.unique(column.astype(str), return_inverse=True)
    return np.asarray(np.array([_hash_word(word, k, exact) for word in words], dtype=np.uint64)[positions])


def _hash_word(word: str, k: int, exact: bool) -> int:
    try:
        number = float(_SPELLED.get(word, word))
        return int(_hash_values(np.array([number]), np.array([k]), exact)[0])
    except ValueError:
        return int.from_bytes(hashlib.blake2b(f"{k}:{word}".encode(), digest_size=8).digest())


def _hash_values(values: NDArray[Any], columns: NDArray[Any], exact: bool) -> Hashes:
    """Return the hash of each value in its column, 0 for 0."""
    numbers, hashes = values.astype(np.float64), np.empty(values.size, dtype=np.uint64)
    columns = np.broadcast_to(columns, values.shape).astype(np.int64)
    _hashing.hash_values(numbers, columns, hashes, exact)
    if exact and _rounds(values):
        with np.errstate(invalid="ignore"):  # the largest whole numbers round to one too many
            rest = (values - numbers.astype(values.dtype)).astype(np.float64)
        hashes += _mix(_hash_values(rest, columns, exact))  # 0 for 0
    return hashes


def _rounds(values: NDArray[Any]) -> bool:
    """Return whether double precision cannot hold some of these numbers: whole ones beyond 2^53."""
    large = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size
    return bool(large and max(-int(values.min()), int(values.max())) > 2**53)


def _mix(words: Hashes) -> Hashes:
    """Return the mixing function of SplitMix64 of each word, which it replaces."""
    _hashing.mix_words(words)
    return words


Sums = tuple[int, int]


def sum_rows(X: Any, first: int) -> Sums:
    """Return two sums, which add up over parts, that tell rows from number `first` on from others and other orders."""
    return _sum_hashes(hash_rows(X, exact=True), first)


def _sum_hashes(hashes: Hashes, first: int) -> Sums:
    numbers = np.arange(first, first + hashes.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = _mix(hashes ^ _mix(numbers))
    return int(words.sum(dtype=np.uint64)), int(_mix(~words).sum(dtype=np.uint64))


def add_sums(parts: Iterable[Sums]) -> Sums:
    """Add up what `sum_rows` returned for parts."""
    first, second = zip((0, 0), *parts, strict=True)
    return sum(first) % 2**64, sum(second) % 2**64


@dataclass(frozen=True)
class RowSummary:
    """What is kept of the hashes of some rows. Summaries of parts add up to that of the whole."""

    shift: int  # only hashes with so many leading zero bits are kept: one in 2^shift
    kept: Hashes  # in any order
    sums: Sums  # what tells these rows, in this order, from all others
    exact: RowSummary | None = None  # None for rows of single precision, whose hashes are exact

    @classmethod
    def of(cls, X: Any, first: int, shift: int) -> RowSummary:
        """Summarise rows, the first of which is row number `first`."""
        rounded = cls._of_hashes(hash_rows(X), first, shift)
        if getattr(X, "dtype", None) == np.float32:
            return rounded
        return replace(rounded, exact=cls._of_hashes(hash_rows(X, exact=True), first, shift))

    @classmethod
    def _of_hashes(cls, hashes: Hashes, first: int, shift: int) -> RowSummary:
        # Of many rows, none of zeros alone: their hash is 0, and all of them would be kept among few of the others.
        kept = hashes if shift == 0 else hashes[(hashes >> np.uint64(64 - shift) == 0) & (hashes != 0)]
        return cls(shift, kept, _sum_hashes(hashes, first))

    @classmethod
    def join(cls, parts: Sequence[RowSummary]) -> RowSummary:
        """Add up the summaries of parts."""
        kept = np.concatenate([part.kept for part in parts])
        exact = [part.exact for part in parts if part.exact is not None]
        joined = cls.join(exact) if exact else None
        return cls(parts[0].shift, kept, add_sums([part.sums for part in parts]), joined)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the summary as arrays by name."""
        arrays = {} if self.exact is None else {f"exact {name}": a for name, a in self.exact.to_arrays().items()}
        return arrays | {"hashes": self.kept, "sums": np.array([self.shift, *self.sums], dtype=np.uint64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RowSummary:
        """Return the summary that `to_arrays` made these from."""
        shift, *sums = (int(number) for number in arrays["sums"])
        exact = {name.removeprefix("exact "): a for name, a in arrays.items() if name.startswith("exact ")}
        return cls(shift, arrays["hashes"], (sums[0], sums[1]), cls.from_arrays(exact) if exact else None)

    @property
    def digest(self) -> str:
        """The sums as text."""
        return "".join(f"{value:016x}" for value in self.sums)

    @property
    def exact_digest(self) -> str:
        """The sums of exact hashes as text: of rows that rounding makes equal, those of others."""
        return (self.exact or self).digest


def shift_for(n_rows: int) -> int:
    """Return how many leading bits of a hash must be zero, so that not too many of so many rows are kept.

    >>> shift_for(1000), shift_for(2**22 + 1), shift_for(10**9)
    (0, 1, 8)
    """
    return max(0, math.ceil(math.log2(max(1, n_rows) / _MOST_KEPT)))


class TrainingRows:
    """The rows of a training sample, or their summary, as hashes: all of them, or a sample of more than four million.

    Rounded hashes find rows that were saved in another precision. They cannot tell the rows of a sample apart that are
    equal in single precision, such as those of one minute by their Unix time, or recognise them: for these, exact
    hashes are kept besides, in `exact`, if fewer of them repeat.

    `hashes` are distinct and sorted; `shift` of their leading bits are zero. `repeated` is the share of rows that the
    sample holds more than once, and half a row more: that there are none does not prove that there never are. New rows
    from the same distribution coincide with rows of the sample about as often. `whole`, a digest of all rows in their
    order, tells the sample itself from new rows where rows repeat so often that nothing else does.
    """

    def __init__(self, X: Any) -> None:
        summary = X if isinstance(X, RowSummary) else RowSummary.of(X, 0, shift_for(X.shape[0]))
        self.whole = summary.digest
        self.shift = summary.shift
        self.hashes, counts = np.unique(summary.kept, return_counts=True)
        repeats = summary.kept.size - np.count_nonzero(counts == 1)
        self.repeated = min(1.0, float((repeats + 0.5) / max(1, summary.kept.size)))
        self.exact: TrainingRows | None = None
        if summary.exact is not None:
            exact = TrainingRows(summary.exact)
            # Otherwise, what exact hashes recognise, rounded ones do.
            if exact.repeated < self.repeated - _LEAST_GAIN or exact.hashes.size > self.hashes.size == 1:
                self.exact = exact

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which hashes are those of rows of the sample; if not all of these are kept, of some of them."""
        if self.hashes.size == 0:
            return np.zeros(hashes.size, dtype=bool)
        positions = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.asarray(self.hashes[positions] == hashes)

    def count_seen(self, X: Any) -> int:
        """Return how many of the rows occur in the sample, 0 if they are no more than new rows would by chance.

        X are rows, or their summary with the shift of these: of rows that were summarised, those whose hashes are kept.
        """
        return self._count(X)[0]

    def check_unseen(self, X: Any) -> None:
        """Raise ValueError if more of the rows, or of summarised ones, occur in the sample than new ones by chance."""
        count, n = self._count(X)
        if count:
            looked_at = "" if self.shift == 0 else " that were looked at"
            raise ValueError(
                f"X must hold rows that were not used in training: {count} of {n} rows{looked_at} are rows of the "
                "training sample"
            )

    def _count(self, X: Any) -> tuple[int, int]:
        """Return how many rows occur in the sample, 0 if by chance, and how many were looked at."""
        summary = X if isinstance(X, RowSummary) else RowSummary.of(X, 0, self.shift)
        count, n = int(np.count_nonzero(self.contains(summary.kept))), summary.kept.size
        if self.hashes.size > 1 and summary.digest == self.whole:
            return n, n
        by_chance = not count or self._occur_by_chance(count, n)
        if by_chance and self.exact is not None:
            return self.exact._count(summary.exact or summary)
        return 0 if by_chance else count, n

    def _occur_by_chance(self, count: int, n: int) -> bool:
        """Return whether so many of n new rows may well occur in the sample."""
        from scipy.stats import binom, poisson  # half of what the import of this library takes

        # Twice as often: rows that repeat come in clusters, and their share varies more than that of independent ones.
        if binom.sf(count - 1, n, min(1.0, 2 * self.repeated)) >= _FALSE_ALARM:
            return True
        # That few rows of a small sample repeat may be chance as well. For any share of new rows that occur in it: so
        # many pairs are expected in a sample that is drawn from as many rows, equally probable, as have this share.
        size, share = self.hashes.size, np.geomspace(min(0.5, self.repeated), 1.0, 256)
        pairs = (size - 1) * (share + xlog1py(1 - share, -share)) / share
        both = poisson.cdf(self.repeated * size / 2, pairs) * binom.sf(count - 1, n, share)
        return bool(both.max() >= _FALSE_ALARM_IF_SMALL)
