"""Rows of a table as the engine reads them: numbers with gaps, and categories that are compared for equality.

Nothing here is learned from the values of numbers: filling and scaling is left to each hypothesis and its own
subsample. That categories are numbered by the whole sample changes no hypothesis, since a distance depends on whether
two categories are equal, and not on their numbers.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.rows._dates import N_DATE_FEATURES, expand_days, to_days

__all__ = ["CodeBook", "is_table", "needs_code_book"]

# Numbers of categories: of a gap, of one that the code book does not know, and of the first one that it knows. No point
# of the sample has an unknown category, so that an unknown one differs from all that it is compared with.
_GAP, _UNKNOWN, _FIRST = 0, -1, 1

_EXPECTED = "numbers, text, booleans, categories or dates would be right"

Kind = Literal["number", "date", "category"]


@dataclass(frozen=True)
class CodeBook:
    """Which column of the engine's rows each column of a table becomes, and which number each category.

    The rows consist of the numbers, NaN where they are missing; of an indicator, 0 or 1, for every column of numbers
    with gaps; and of the numbers of categories. A gap in a column of numbers that had none in the sample is indicated
    as well, in a column for all of these: it holds the root of their number, so that each adds 1 to a squared distance.
    A date becomes seven numbers: the days since 1970, and two for its place in the year, the week and the day.

    Attributes
    ----------
    names : tuple of str
        Names of the columns of the table.
    categories : tuple of (tuple of str or None)
        Categories of each column; None for a column of numbers or dates.
    dates : tuple of bool
        Whether each column holds dates.
    gaps : tuple of bool
        Whether each column had gaps in the sample.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Oslo", "Rome", None]})
    >>> CodeBook.learn(table).encode(table)
    array([[20.,  0.,  1.],
           [nan,  1.,  2.],
           [40.,  0.,  0.]])
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    dates: tuple[bool, ...]
    gaps: tuple[bool, ...]

    @classmethod
    def learn(cls, table: Any) -> CodeBook:
        """Return the code book of a data frame.

        Parameters
        ----------
        table : DataFrame
            All rows of a sample.

        Raises
        ------
        ValueError
            If a column is missing in every row, or holds what is neither numbers nor categories.
        """
        names = tuple(str(name) for name in table.columns)
        categories: list[tuple[str, ...] | None] = []
        dates, gaps = [], []
        for name, column in zip(names, _columns(table), strict=True):
            read = _Column(name, column)
            missing = read.missing
            if missing.all():
                raise ValueError(f"column {name!r} of X is missing in every row: leave it out")
            categories.append(read.labels if read.kind == "category" else None)
            dates.append(read.kind == "date")
            gaps.append(bool(missing.any()))
        return cls(names, tuple(categories), tuple(dates), tuple(gaps))

    @cached_property
    def _numbers(self) -> list[int]:
        return [k for k, labels in enumerate(self.categories) if labels is None]

    @cached_property
    def _codes(self) -> list[dict[str, int]]:
        """The numbers of the categories of each column of categories."""
        known = [labels for labels in self.categories if labels is not None]
        return [{label: i for i, label in enumerate(labels, _FIRST)} for labels in known]

    @property
    def n_numbers(self) -> int:
        """Number of features that are numbers, those of dates included: the first ones of a row."""
        return sum(N_DATE_FEATURES if self.dates[k] else 1 for k in self._numbers)

    @property
    def n_categories(self) -> int:
        """Number of columns of categories: the last ones of a row."""
        return len(self.names) - len(self._numbers)

    @property
    def n_features(self) -> int:
        """Length of a row."""
        indicators = sum(self.gaps[k] for k in self._numbers)
        return self.n_numbers + indicators + (indicators < len(self._numbers)) + self.n_categories

    def find_strange_columns(self, table: Any) -> list[str]:
        """Return the columns of categories of which the sample had none, though there are some: 0 and 1 for no and yes.

        Parameters
        ----------
        table : DataFrame
            Rows with the columns of the sample.
        """
        others = [k for k, labels in enumerate(self.categories) if labels is not None]
        read = [_Column(self.names[k], _columns(table)[k], "category") for k in others]
        return [
            column.name
            for column, codes in zip(read, self._codes, strict=True)
            if column.labels and not any(label in codes for label in column.labels)
        ]

    def encode(self, table: Any) -> Array:
        """Return rows as the engine reads them.

        Parameters
        ----------
        table : DataFrame
            Rows with the columns of the sample.

        Returns
        -------
        ndarray of shape (n, n_features)
            The rows.
        """
        if not is_table(table):
            raise ValueError(f"X must be a data frame with the {len(self.names)} columns that the sample has")
        columns = _columns(table)
        if len(columns) != len(self.names):
            raise ValueError(f"X must have the {len(self.names)} columns that the sample has, got {len(columns)}")
        for k, (expected, name) in enumerate(zip(self.names, map(str, table.columns), strict=True)):
            if name != expected:
                raise ValueError(f"column {k} of X must be {expected!r}, as in the sample, got {name!r}")
        rows = np.zeros((table.shape[0], self.n_features))
        indicator, category = self.n_numbers, self.n_features - self.n_categories
        unexpected = np.zeros(table.shape[0])
        position = 0
        for k in self._numbers:
            numbers = _Column(self.names[k], columns[k], "date" if self.dates[k] else "number").numbers
            features = expand_days(numbers) if self.dates[k] else numbers[:, np.newaxis]
            rows[:, position : position + features.shape[1]] = features
            position += features.shape[1]
            missing = np.isnan(numbers)
            if self.gaps[k]:
                rows[:, indicator] = missing
                indicator += 1
            else:
                unexpected += missing
        if indicator < category:
            rows[:, indicator] = np.sqrt(unexpected)
        others = [k for k, labels in enumerate(self.categories) if labels is not None]
        for position, (k, codes) in enumerate(zip(others, self._codes, strict=True), category):
            column = _Column(self.names[k], columns[k], "category")
            column.check_comparable(codes)
            code_of = np.array([*(codes.get(label, _UNKNOWN) for label in column.labels), _GAP])
            rows[:, position] = code_of[column.positions]
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("names", "categories", "dates", "gaps")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def is_table(X: Any) -> bool:
    """Return whether X is a data frame, of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and len(getattr(X, "shape", ())) == 2


def needs_code_book(table: Any) -> bool:
    """Return whether a data frame holds more than numbers without gaps."""
    for column in _columns(table):
        values = _to_numpy(column)
        if values.dtype.kind not in "iuf" or (values.dtype.kind == "f" and np.isnan(values).any()):
            return True
    return False


def _columns(table: Any) -> list[Any]:
    if hasattr(table, "get_columns"):  # polars
        return list(table.get_columns())
    return [table.iloc[:, k] for k in range(table.shape[1])]  # by position: names may be repeated


def _to_numpy(column: Any) -> NDArray[Any]:
    """Return a column as an array, with NaN, NaT or None where it is missing."""
    dtype = column.dtype
    if not hasattr(column, "isna") or isinstance(dtype, np.dtype):
        return np.asarray(column.to_numpy())
    # A type of pandas' own.
    kind = getattr(dtype, "kind", "O")
    if kind in "iuf":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind in "Mm":
        return np.asarray(column.to_numpy(dtype="datetime64[us]" if kind == "M" else "timedelta64[us]"))
    return np.asarray(column.to_numpy(dtype=object, na_value=None))


class _Column:
    """A column of a table, read as numbers, dates or categories: as asked for, or as what it holds."""

    kind: Kind
    _held: Kind  # before it was converted

    def __init__(self, name: str, column: Any, kind: Kind | None = None) -> None:
        self.name = name
        categories = _pandas_categories(column)
        if categories is not None and kind in ("category", None):
            self.kind = self._held = "category"
            self._set_labels(categories, np.asarray(column.cat.codes.to_numpy(), dtype=np.intp))
            return
        held, values = self._plain(_to_numpy(column))
        self.kind, self._held = kind or held, held
        if self.kind != "category":
            self.numbers = self._to_numbers(held, values)
        else:
            # Each category is converted once, however many rows have it.
            distinct: dict[Any, int] = {}
            positions = [-1 if _is_missing(v) else distinct.setdefault(v, len(distinct)) for v in values.tolist()]
            self._set_labels([_label(value) for value in distinct], np.array(positions, dtype=np.intp))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the column is missing."""
        return self.positions < 0 if self.kind == "category" else np.isnan(self.numbers)

    def check_comparable(self, known: Iterable[str]) -> None:
        """Raise ValueError if the values are of a kind that no known category can be equal to.

        Without this, 0 and 1 in the place of booleans, or dates in the place of text, would all be unknown categories.
        """
        if self.labels and (self._held == "date" or (self._held == "number" and not any(map(_spells_number, known)))):
            got = "dates" if self._held == "date" else f"the number {self.labels[0]}"
            expected = " or ".join(repr(label)[:80] for label in list(known)[:2])
            raise ValueError(
                f"column {self.name!r} of X must hold categories such as {expected}, as in the sample, got {got}"
            )

    def _set_labels(self, labels: Sequence[str], positions: NDArray[np.intp]) -> None:
        """Take the labels, each of them once, and where in them the label of each row is; -1 where it is missing."""
        used = np.zeros(len(labels) + 1, dtype=bool)
        used[positions] = True
        names = sorted({label for label, is_used in zip(labels, used[:-1], strict=True) if is_used})
        index = {label: i for i, label in enumerate(names)}
        self.labels = tuple(names)
        self.positions = np.array([*(index.get(label, -1) for label in labels), -1], dtype=np.intp)[positions]

    def _plain(self, values: NDArray[Any]) -> tuple[Kind, NDArray[Any]]:
        """Return what values are, as numbers, days, booleans, or objects that are text, booleans or missing."""
        if values.dtype.kind in "Mm":
            return "date" if values.dtype.kind == "M" else "number", to_days(values)
        if values.dtype.kind in "US":
            return "category", values.astype(str).astype(object)
        if values.dtype.kind in "biuf":
            return "category" if values.dtype.kind == "b" else "number", values
        if values.dtype.kind != "O" or values.ndim != 1:
            raise ValueError(f"column {self.name!r} of X is of type {values.dtype}: {_EXPECTED}")
        present = [value for value in values if not _is_missing(value)]
        kinds = {_kind_of_object(kind): kind for kind in {type(value) for value in present}}
        if None in kinds:
            raise ValueError(f"column {self.name!r} of X holds values of type {kinds[None].__name__}: {_EXPECTED}")
        if len(kinds) > 1:
            raise ValueError(f"column {self.name!r} of X mixes {' and '.join(sorted(map(str, kinds)))}: make it one")
        if "dates" in kinds:
            utc = [None if _is_missing(value) else _to_utc(value) for value in values]
            return "date", to_days(np.array(utc, dtype="datetime64[us]"))
        if "numbers" in kinds or not kinds:
            known = [np.nan if _is_missing(value) else float(value) for value in values]
            return "number", np.array(known, dtype=np.float64)
        return "category", values

    def _to_numbers(self, held: Kind, values: NDArray[Any]) -> Array:
        # True and false are numbers where numbers are expected.
        is_number = self.kind == "number" and held == "category" and values.dtype.kind == "b"
        if held != self.kind and not is_number:
            example = next((value for value in values if not _is_missing(value)), None)
            if example is not None:
                got = "dates" if held == "date" else f"{example!r:.80}"
                raise ValueError(f"column {self.name!r} of X must hold {self.kind}s, as in the sample, got {got}")
        numbers = values.astype(np.float64)
        if np.isinf(numbers).any():
            raise ValueError(f"column {self.name!r} of X holds infinite values: they have no distances")
        return numbers


def _pandas_categories(column: Any) -> list[str] | None:
    """Return the categories of a categorical column of pandas, each converted once; None for another column."""
    if not (hasattr(column, "isna") and hasattr(column, "cat")):
        return None
    categories = np.asarray(column.cat.categories.to_numpy(dtype=object))
    odd = [value for value in categories if _kind_of_object(type(value)) is None]
    if odd:
        raise ValueError(
            f"column {str(column.name)!r} of X has categories of type {type(odd[0]).__name__}: text or numbers would "
            "be right"
        )
    return [_label(value) for value in categories]


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return False
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, Real) and value != value)
    )


def _kind_of_object(kind: type) -> str | None:
    if issubclass(kind, (bool, np.bool_)):
        return "booleans"
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, (Real, Decimal)) and not issubclass(kind, np.timedelta64):
        return "numbers"
    return "dates" if issubclass(kind, (datetime.date, np.datetime64)) else None


def _label(value: Any) -> str:
    """Return the name of a category: 1, 1.0 and "1" are the same, since files do not tell them apart."""
    if isinstance(value, (float, np.floating)) and value.is_integer():
        return str(int(value))
    return str(value)


def _spells_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _to_utc(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value
