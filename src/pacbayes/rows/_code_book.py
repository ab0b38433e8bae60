"""Rows of a table as the engine reads them: numbers with gaps, and categories that are compared for equality.

Nothing here is learned from the values of numbers: filling and scaling is left to each hypothesis and its own
subsample. That categories are numbered by the whole sample changes no hypothesis, since a distance depends on whether
two categories are equal, and not on their numbers.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes._json_fields import parse_object, read_object
from pacbayes._validation import Array
from pacbayes.rows._hashing import TEXT_COLUMNS, hash_texts

# Numbers of categories: of a gap, of one that the code book does not know, and of the first one that it knows. No point
# of the sample has an unknown category, so that an unknown one differs from all that it is compared with.
GAP, _UNKNOWN, _FIRST = 0, -1, 1

# More characters than that are no code book.
_LONGEST_JSON = 2**30

# What columns may hold.
EXPECTED = "numbers, text, booleans, categories or dates would be right"

Kind = Literal["number", "date", "category"]

# What columns are, by what they hold.
_KINDS: dict[str, Kind] = {
    "numbers": "number",
    "dates": "date",
    "text": "category",
    "booleans": "category",
    "categories": "category",
}


# Periods that dates are placed in: the year, the week and the day, in days.
_PERIODS = (365.2425, 7.0, 1.0)

# Features of a date: the days since 1970, and two for its place in each period.
N_DATE_FEATURES = 1 + 2 * len(_PERIODS)

# Categories are read as texts, too, if there are more, and more than a share of the rows: new rows have other ones.
_FEW_TEXTS, _REPEATED_SHARE = 50, 0.05


def to_days(values: NDArray[Any]) -> Array:
    """Return dates as days since 1970, or durations as days, whatever their unit and range; NaN where one is missing.

    >>> to_days(np.array(["1970-01-02T12", "NaT"], dtype="datetime64[s]"))
    array([1.5, nan])
    """
    if np.datetime_data(values.dtype)[0] == "ns":
        # Microseconds are exact as float64, so that a date is the same number in every file that has it.
        values = values.astype(np.dtype(f"{values.dtype.kind}8[us]"))
    unit, step = np.datetime_data(values.dtype)
    per_day: Any = np.timedelta64(1, "D") / np.ones(1, f"timedelta64[{step}{unit}]")
    return np.where(np.isnat(values), np.nan, values.view(np.int64) / per_day)


def expand_days(days: Array) -> Array:
    """Return days since 1970, and where they stand in the year, the week and the day, as columns.

    A place in a period is a point on the way round a square: two triangle waves, a quarter of a period apart. Unlike
    sine and cosine, they have the same bits on every machine.
    """
    phases = [days / period + shift for period in _PERIODS for shift in (0.0, 0.25)]
    # 1 at whole numbers, -1 half way between them, and linear between these.
    return np.column_stack([days, *(4 * np.abs(phase - np.floor(phase) - 0.5) - 1 for phase in phases)])


def to_parts(labels: Sequence[str]) -> Array:
    """Return which parts texts have, their words and all sequences of three letters: bits of numbers below 2^52.

    Two of the 2080 parts may be one, since parts are hashed: nothing is learned from the texts.

    >>> [sum(int(held).bit_count() for held in row) for row in to_parts(["", "a", "A.", "civic"])]
    [0, 2, 2, 6]
    """
    encoded = [label.encode("utf-8", "surrogatepass") for label in labels]
    parts = np.empty((len(encoded), TEXT_COLUMNS))
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    hash_texts(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends, parts)
    return parts


@dataclass(frozen=True)
class CodeBook:
    """Which column of the engine's rows each column of a table becomes, and which number each category.

    The rows consist of the numbers, NaN where they are missing; of an indicator, 0 or 1, for every column of numbers
    with gaps; of the numbers of categories; and of the parts of those that are texts. A gap in a column of numbers that
    had none in the sample is indicated as well, in a column for all of these: it holds the root of their number, so
    that each adds 1 to a squared distance.
    A date becomes seven numbers: the days since 1970, and two for its place in the year, the week and the day.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Oslo", "Rome", None]})
    >>> CodeBook.learn(table).encode(table)
    array([[20.,  0.,  1.],
           [nan,  1.,  2.],
           [40.,  0.,  0.]])
    """

    names: tuple[str, ...]  # of the columns of the table
    categories: tuple[tuple[str, ...] | None, ...]  # of each column; None for one of numbers or dates
    dates: tuple[bool, ...]  # whether each column holds dates
    gaps: tuple[bool, ...]  # whether each column had gaps in the sample
    texts: tuple[bool, ...] = ()  # whether the categories of each column are read as texts; empty if none are

    @classmethod
    def learn(cls, table: Any) -> CodeBook:
        """Return the code book of all rows of a sample, a data frame."""
        return cls.of(summarize_columns(table))

    @classmethod
    def of(cls, columns: Sequence[ColumnSummary]) -> CodeBook:
        """Return the code book of columns that were summarised."""
        texts = tuple(column.holds_texts for column in columns)
        return cls(
            names=tuple(column.name for column in columns),
            categories=tuple(tuple(sorted(one.labels)) if one.kind == "category" else None for one in columns),
            dates=tuple(column.kind == "date" for column in columns),
            gaps=tuple(column.gaps for column in columns),
            texts=texts if any(texts) else (),
        )

    @cached_property
    def _codes(self) -> list[dict[str, int]]:
        """The numbers of the categories of each column; empty for one of numbers or dates."""
        return [{label: i for i, label in enumerate(labels or (), _FIRST)} for labels in self.categories]

    @property
    def _texts(self) -> tuple[bool, ...]:
        """Whether the categories of each column are read as texts."""
        return self.texts or (False,) * len(self.names)

    @property
    def n_numbers(self) -> int:
        """Number of features that are numbers, those of dates included: the first ones of a row."""
        return len(self.names) - self.n_categories + (N_DATE_FEATURES - 1) * sum(self.dates)

    @property
    def n_categories(self) -> int:
        """Number of columns of categories."""
        return sum(labels is not None for labels in self.categories)

    @property
    def first_category(self) -> int:
        """Where a row has the number of the first category: after numbers and indicators of gaps."""
        gaps = [gap for gap, labels in zip(self.gaps, self.categories, strict=True) if labels is None]
        return self.n_numbers + sum(gaps) + (not all(gaps))

    @property
    def first_text(self) -> int:
        """Where a row has the parts of the first text: after all that distances compare."""
        return self.first_category + self.n_categories

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.first_text + TEXT_COLUMNS * sum(self.texts)

    def places(self) -> NDArray[np.intp]:
        """Return which feature each column is: of a date, the days since 1970."""
        is_category = np.array([labels is not None for labels in self.categories])
        sizes = np.where(is_category, 0, np.where(self.dates, N_DATE_FEATURES, 1))
        numbers = np.cumsum(sizes) - sizes
        categories = self.first_category + np.cumsum(is_category) - 1
        return np.where(is_category, categories, numbers)

    def find_strange_columns(self, table: Any) -> list[str]:
        """Return the columns of categories, not texts, none of which the sample had: of 0 and 1 for no and yes."""
        compared = [None if is_text else known for known, is_text in zip(self.categories, self._texts, strict=True)]
        pairs = zip(_named_columns(table), compared, strict=True)
        found = {name: (_Column(name, column, "category").labels, known) for (name, column), known in pairs if known}
        return [name for name, (labels, known) in found.items() if labels and not {*labels} & {*known}]

    def encode(self, table: Any) -> Array:
        """Return the rows of a data frame with the columns of the sample as the engine reads them."""
        if not (is_table(table) or _is_arrow(table)):
            raise ValueError(f"X must be a data frame with the {len(self.names)} columns that the sample has")
        columns = _named_columns(table)
        if len(columns) != len(self.names):
            raise ValueError(f"X must have the {len(self.names)} columns that the sample has, got {len(columns)}")
        for k, (expected, (name, _)) in enumerate(zip(self.names, columns, strict=True)):
            if name != expected:
                raise ValueError(f"column {k} of X must be {expected!r}, as in the sample, got {name!r}")
        rows, unexpected = np.zeros((table.shape[0], self.n_features)), np.zeros(table.shape[0])
        indicator, text = self.n_numbers, self.first_text
        known = zip(self.places(), self.categories, self._codes, self.dates, self.gaps, self._texts, strict=True)
        for (name, given), (place, labels, codes, is_date, had_gaps, is_text) in zip(columns, known, strict=True):
            if labels is not None:
                column = _Column(name, given, "category")
                column.check_comparable(labels)
                code_of = np.array([*(codes.get(label, _UNKNOWN) for label in column.labels), GAP])
                rows[:, place] = code_of[column.positions]
                if is_text:
                    rows[:, text : text + TEXT_COLUMNS] = to_parts([*column.labels, ""])[column.positions]
                    text += TEXT_COLUMNS
                continue
            column = _Column(name, given, "date" if is_date else "number")
            if np.isinf(column.numbers).any():
                raise ValueError(f"column {name!r} of X holds infinite values: they have no distances")
            features = expand_days(column.numbers) if is_date else column.numbers[:, np.newaxis]
            rows[:, place : place + features.shape[1]] = features
            if had_gaps:
                rows[:, indicator] = column.missing
                indicator += 1
            else:
                unexpected += column.missing
        if indicator < self.first_category:
            rows[:, indicator] = np.sqrt(unexpected)
        return rows

    def to_json(self) -> str:
        """Return the code book as JSON."""
        return json.dumps(self.__getstate__())

    @classmethod
    def from_json(cls, text: str) -> CodeBook:
        """Read a code book from what `to_json` returned."""
        book: CodeBook = read_object(cls, {"texts": [], **parse_object(text, longest=_LONGEST_JSON)})
        return book

    def __getstate__(self) -> dict[str, Any]:
        texts = ("texts",) if self.texts else ()
        return {name: self.__dict__[name] for name in ("names", "categories", "dates", "gaps", *texts)}


@dataclass
class ColumnSummary:
    """What a column holds in some rows of a table. Summaries of parts add up to that of the whole."""

    name: str
    held: set[str]  # empty if every value is missing
    labels: set[str]  # of categories
    n_known: int  # number of rows in which it is not missing
    gaps: bool
    is_array: bool  # whether it is stored as numbers, which an array can hold

    @classmethod
    def of(cls, name: str, column: Any) -> ColumnSummary:
        """Summarise a column of a data frame, or of an Arrow record batch."""
        read = _Column(name, column)
        missing = read.missing
        held = set() if read.held is None or missing.all() else {read.held}
        n_known = int(np.count_nonzero(~missing))
        return cls(name, held, set(read.labels), n_known, n_known < missing.size, read.is_array)

    def add(self, other: ColumnSummary) -> None:
        """Add what the column holds in other rows."""
        self.held |= other.held
        self.labels |= other.labels
        self.n_known += other.n_known
        self.gaps |= other.gaps
        self.is_array &= other.is_array

    @property
    def kind(self) -> Kind:
        """What the column is, if it is one thing in all rows."""
        kinds = {_KINDS[held] for held in self.held}
        if not kinds:
            raise ValueError(f"column {self.name!r} of X is missing in every row: leave it out")
        if len(kinds) > 1 or {"booleans", "text"} <= self.held:
            raise ValueError(f"column {self.name!r} of X mixes {' and '.join(sorted(self.held))}: make it one")
        return kinds.pop()

    @property
    def holds_texts(self) -> bool:
        """Whether its categories are many for its rows, so that what they consist of says more than which they are."""
        return len(self.labels) > max(_FEW_TEXTS, _REPEATED_SHARE * self.n_known)


def summarize_columns(table: Any) -> list[ColumnSummary]:
    """Summarise the columns of a data frame, or of an Arrow record batch."""
    return [ColumnSummary.of(name, column) for name, column in _named_columns(table)]


def join_summaries(parts: Iterable[list[ColumnSummary]]) -> list[ColumnSummary]:
    """Add up the summaries of the columns of parts of a table, of which there is one at least."""
    remaining = iter(parts)
    joined = next(remaining)
    for part in remaining:
        for column, more in zip(joined, part, strict=True):
            column.add(more)
    return joined


def learn_code_book(X: Any) -> CodeBook | None:
    """Return the code book of a data frame or a source of tables; None for arrays, and for numbers without gaps."""
    if is_table(X):
        columns = summarize_columns(X)
    elif hasattr(X, "summarize_columns"):
        columns = X.summarize_columns()
    else:
        return None
    return None if all(one.is_array and not one.gaps for one in columns) else CodeBook.of(columns)


def is_table(X: Any) -> bool:
    """Return whether X is a data frame, of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and len(getattr(X, "shape", ())) == 2


def _is_arrow(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pyarrow"


def _named_columns(table: Any) -> list[tuple[str, Any]]:
    if _is_arrow(table):
        return list(zip(table.schema.names, table.columns, strict=True))
    if hasattr(table, "get_columns"):  # polars
        return [(column.name, column) for column in table.get_columns()]
    return [(str(name), table.iloc[:, k]) for k, name in enumerate(table.columns)]  # by position: names may be repeated


def _to_numpy(column: Any) -> NDArray[Any]:
    """Return a column as an array, with NaN, NaT or None where it is missing."""
    if _is_arrow(column):
        return np.asarray(column.to_numpy(zero_copy_only=False))
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
    held: str | None  # before it was converted; None if that cannot be told, since all is missing
    is_array = False
    labels: tuple[str, ...] = ()  # of categories, sorted; `positions` in them are those of the rows

    def __init__(self, name: str, column: Any, kind: Kind | None = None) -> None:
        self.name = name
        coded = _find_categories(name, column) if kind in ("category", None) else None
        if coded is not None:
            self.kind = "category"
            self.held, labels, positions = coded
            self._set_labels(labels, positions)
            return
        values = _to_numpy(column)
        self.is_array = values.dtype.kind in "iuf"
        self.held, values = self._plain(values)
        self.kind = kind or _KINDS[self.held or "numbers"]
        if self.kind != "category":
            self.numbers = self._to_numbers(values)
        else:
            # Each category is converted once, however many rows have it.
            distinct: dict[Any, int] = {}
            codes = [
                -1 if type(v) is not str and _is_missing(v) else distinct.setdefault(v, len(distinct))
                for v in values.tolist()
            ]
            self._set_labels([_label(value) for value in distinct], np.array(codes, dtype=np.intp))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the column is missing."""
        return self.positions < 0 if self.kind == "category" else np.isnan(self.numbers)

    def check_comparable(self, known: Iterable[str]) -> None:
        """Raise ValueError if the values are of a kind that no known category can be equal to.

        Without this, 0 and 1 in the place of booleans, or dates in the place of text, would all be unknown categories.
        """
        is_number = self.held == "numbers" and not any(map(_spells_number, known))
        if self.labels and (self.held == "dates" or is_number):
            got = "dates" if self.held == "dates" else f"the number {self.labels[0]}"
            expected = " or ".join(repr(label)[:80] for label in list(known)[:2])
            raise ValueError(
                f"column {self.name!r} of X must hold categories such as {expected}, as in the sample, got {got}"
            )

    def _set_labels(self, labels: Sequence[str | None], positions: NDArray[np.intp]) -> None:
        """Take the labels, and where in them the label of each row is; -1 and the label None for what is missing."""
        used = {labels[k] for k in np.flatnonzero(np.bincount(positions + 1)[1:]).tolist()}
        self.labels = tuple(sorted(label for label in used if label is not None))
        index: dict[str | None, int] = {label: i for i, label in enumerate(self.labels)}
        self.positions = np.array([*(index.get(label, -1) for label in labels), -1], dtype=np.intp)[positions]

    def _plain(self, values: NDArray[Any]) -> tuple[str | None, NDArray[Any]]:
        """Return what values are, as numbers, days, booleans, or objects that are text, booleans or missing."""
        if values.dtype.kind in "Mm":
            return "dates" if values.dtype.kind == "M" else "numbers", to_days(values)
        if values.dtype.kind in "US":
            return "text", values.astype(str).astype(object)
        if values.dtype.kind in "biuf":
            return "booleans" if values.dtype.kind == "b" else "numbers", values
        if values.dtype.kind != "O" or values.ndim != 1:
            raise ValueError(f"column {self.name!r} of X is of type {values.dtype}: {EXPECTED}")
        # Text, which most columns of objects hold, is not missing: nothing is called for each cell of it.
        present = {type(value) for value in values.tolist() if type(value) is str or not _is_missing(value)}
        kinds = {_kind_of_object(kind): kind for kind in present}
        if None in kinds:
            raise ValueError(f"column {self.name!r} of X holds values of type {kinds[None].__name__}: {EXPECTED}")
        if len(kinds) > 1:
            raise ValueError(f"column {self.name!r} of X mixes {' and '.join(sorted(map(str, kinds)))}: make it one")
        held = next(iter(kinds), None)
        if held == "dates":
            utc = [None if _is_missing(value) else _to_utc(value) for value in values]
            return held, to_days(np.array(utc, dtype="datetime64[us]"))
        if held in ("numbers", None):
            known = [np.nan if _is_missing(value) else float(value) for value in values]
            return held, np.array(known, dtype=np.float64)
        return held, values

    def _to_numbers(self, values: NDArray[Any]) -> Array:
        # True and false are numbers where numbers are expected.
        is_number = self.kind == "number" and values.dtype.kind == "b"
        if self.held is not None and _KINDS[self.held] != self.kind and not is_number:
            example = next((value for value in values if not _is_missing(value)), None)
            if example is not None:
                got = "dates" if self.held == "dates" else f"{example!r:.80}"
                raise ValueError(f"column {self.name!r} of X must hold {self.kind}s, as in the sample, got {got}")
        return values.astype(np.float64, copy=False)


def _find_categories(name: str, column: Any) -> tuple[str, list[str | None], NDArray[np.intp]] | None:
    """Return what a column of pandas' or Arrow's categories holds, their names, each converted once, and their codes.

    Text and booleans of Arrow are taken for categories as well. None for another column, None as the name of a gap.
    """
    held: str = "categories"
    if _is_arrow(column):
        from pyarrow import types

        if types.is_boolean(column.type):
            held, column = "booleans", column.dictionary_encode()
        elif is_text(column.type):
            held, column = "text", column.dictionary_encode()
        elif not types.is_dictionary(column.type):
            return None
        values = column.dictionary.to_pylist()
        codes = column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    elif hasattr(column, "isna") and hasattr(column, "cat"):
        values, codes = column.cat.categories.to_numpy(dtype=object).tolist(), column.cat.codes.to_numpy()
    else:
        return None
    odd = [value for value in values if not _is_missing(value) and _kind_of_object(type(value)) is None]
    if odd:
        raise ValueError(
            f"column {name!r} of X has categories of type {type(odd[0]).__name__}: text or numbers would be right"
        )
    return held, [None if _is_missing(value) else _label(value) for value in values], codes.astype(np.intp)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is one of text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return False
    named = value is None or type(value).__name__ in ("NAType", "NaTType")
    return named or (isinstance(value, Real) and value != value)


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
