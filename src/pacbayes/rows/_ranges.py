"""What the columns of a training table held: between which numbers, and whether values were missing.

Hypotheses are not made from this, nor is the certificate: it is about rows like those of training. It says how far
other rows are from that, and fills gaps that training had none of, each by a number of its column alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pacbayes._formatting import format_counts
from pacbayes._validation import Array
from pacbayes.rows._code_book import GAP, CodeBook

# Rows that medians are taken of: evenly spaced ones.
_MEDIAN_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """The smallest and the largest number of each column of a table, their median, and which columns had gaps.

    >>> ranges = ColumnRanges.of(np.array([[1.0, 5.0], [2.0, 7.0], [4.0, 6.0]]), ["a", "b"], None)
    >>> rows = np.array([[0.5, 5.0], [np.nan, 6.0], [9.0, 7.0]])
    >>> ranges.count_gaps(rows), ranges.count_outside(rows)
    ({'a': 1}, {'a': 2})
    >>> ranges.fill(rows)[1]
    array([2., 6.])
    """

    names: tuple[str, ...]
    places: NDArray[np.intp]  # which feature a column is: of a date, the days since 1970
    low: Array  # as the next two, of numbers and dates; NaN for categories
    high: Array
    median: Array
    gaps: NDArray[np.bool_]  # whether values were missing

    @classmethod
    def of(cls, X: Array, names: Sequence[str], code_book: CodeBook | None) -> ColumnRanges:
        """Return the ranges of the rows of a table, as `code_book` encodes them, or of numbers without gaps."""
        d = len(names)
        is_number, gaps, places = np.ones(d, dtype=bool), np.zeros(d, dtype=bool), np.arange(d)
        if code_book is not None:
            is_number = np.array([labels is None for labels in code_book.categories])
            gaps, places = np.array(code_book.gaps), code_book.places()
        low, high, median = (np.full(d, np.nan) for _ in range(3))
        step = max(1, len(X) // _MEDIAN_ROWS)
        for k in np.flatnonzero(is_number).tolist():
            known = X[:, places[k]][~np.isnan(X[:, places[k]])]  # no column is missing throughout
            low[k], high[k], median[k] = known.min(), known.max(), np.median(known[::step])
        return cls(tuple(map(str, names)), places, low, high, median, gaps)

    def count_gaps(self, X: Array) -> dict[str, int]:
        """Return the number of missing values of each column that had none in training, and has some now."""
        columns = zip(self.places.tolist(), np.isnan(self.low).tolist(), strict=True)
        missing = [X[:, j] == GAP if is_category else np.isnan(X[:, j]) for j, is_category in columns]
        return self.select_new({name: int(one.sum()) for name, one in zip(self.names, missing, strict=True)})

    def select_new(self, gaps: Mapping[str, int]) -> dict[str, int]:
        """Return those of the columns with so many missing values that had none in training."""
        had_none = {name for name, had_some in zip(self.names, self.gaps.tolist(), strict=True) if not had_some}
        return {name: count for name, count in gaps.items() if count and name in had_none}

    def count_outside(self, X: Array) -> dict[str, int]:
        """Return the number of values of each column that are smaller or larger than all of training."""
        ranges = zip(self.names, self.places, self.low, self.high, strict=True)  # a comparison with NaN is false
        counts = {name: int(((X[:, j] < low) | (X[:, j] > high)).sum()) for name, j, low, high in ranges}
        return {name: count for name, count in counts.items() if count}

    def fill(self, X: Array) -> Array:
        """Return rows of numbers alone with the medians of training in the place of gaps."""
        return np.where(np.isnan(X), self.median.astype(X.dtype), X)


def describe_gaps(gaps: Mapping[str, int]) -> str:
    """Say what is done about gaps, so many in each column, in columns that had none in training."""
    return (
        f"there are missing values in columns that had none in training, {format_counts(gaps)}: they are filled, by "
        "what is usual in training, and the certificate of the fit, which is about rows without such gaps, does not "
        "cover these rows"
    )
