"""Turn the columns of a table into numbers, categories and class labels. Rows are counted from 1, without header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.exceptions import TableError
from pacbayes.io.schema import Kind, TaskName
from pacbayes.rows import to_days

# More whole numbers than this are amounts rather than names of classes; so are fewer, where most rows have one of their
# own, unless they are too few rows to tell.
_MOST_NUMBERED, _FEWEST_ROWS = 50, 20

# Dates that have one meaning: 2024-01-31, with or without a time and a time zone.
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"

# With a decimal comma, points can only group thousands.
_GROUPED = r"[1-9]\d{0,2}(?:\.\d{3})+"
_MARKED = rf"[+-]?(?:{_GROUPED}|(?:(?:\d+|{_GROUPED}),\d*|,\d+)(?:[eE][+-]?\d+)?)"


def parse_numbers(column: pd.Series[Any], decimal: str = ".") -> pd.Series[Any]:
    """Return a column as float64, NaN where it is missing, or raise TableError for a cell that is not a number."""
    numbers, invalid = _parse(column, decimal)
    if invalid.any():
        count = np.count_nonzero(invalid) - 1
        raise TableError(_first_invalid(column, invalid, decimal) + (f", nor are {count} others" if count else ""))
    return _finite(column, numbers)


def parse_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as categories whose names are text without blanks around it, sorted."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("category")
    # Each category is converted once, however many rows have it.
    column = column.cat.remove_unused_categories()
    names = np.array([str(name).strip() for name in column.cat.categories], dtype=object)
    names, codes = np.unique(names, return_inverse=True)
    renamed = np.append(codes, -1)[column.cat.codes.to_numpy()]
    return pd.Series(pd.Categorical.from_codes(renamed, pd.Index(names)), index=column.index, name=column.name)


def parse_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of dates in universal time, or raise TableError for the first cell that is not a date."""
    if not _is_date_type(column):
        text = column.astype("string").str.strip()
        column = pd.to_datetime(text.where(text.str.fullmatch(_ISO_DATE)), format="ISO8601", errors="coerce", utc=True)
        invalid = (text.notna() & column.isna()).to_numpy()
        if invalid.any():
            row = int(np.argmax(invalid))
            raise TableError(
                f"column {text.name!r}, row {row + 1}: {text.iloc[row]!r} is not a date such as 2024-01-31"
            )
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert(None)
    return column


@dataclass
class ColumnGuess:
    """What a column holds, whose parts are added one after the other: numbers, dates or text."""

    decimal: str = "."
    types: set[Kind] = field(default_factory=set)  # as which parts are stored
    present: int = 0
    words: int = 0  # cells that are no numbers, whichever the decimal mark
    invalid: str | None = None  # what is wrong with the first cell that is not a number
    dates: bool = True  # whether all cells are dates that have one meaning and exist

    def add(self, column: pd.Series[Any], first: int = 1) -> Array | None:
        """Add a part, and return its numbers, if it could be one of a column of numbers."""
        if _is_boolean(column) or _is_date_type(column):
            self.types.add("date" if _is_date_type(column) else "text")
            return None
        numbers, invalid = _parse(column, self.decimal)
        self.present += int(column.notna().sum())
        if invalid.any():
            words = invalid if self.decimal == "." else invalid & _parse(column, ".")[1]
            self.words += int(np.count_nonzero(words))
            self.invalid = self.invalid or _first_invalid(column, invalid, self.decimal, first)
        self.dates = self.dates and _holds_iso_dates(column)
        return numbers

    @property
    def kind(self) -> Kind:
        """What the column holds.

        One that holds numbers except for a few words, or with the other decimal mark, is refused: it is likely a
        mistake.
        """
        if self.types:
            return "date" if self.types == {"date"} else "text"
        if self.invalid is None:
            return "number"
        if self.present - self.words > self.words:
            raise TableError(
                f"{self.invalid}, and most of the column are; correct it, or declare it as missing (missing=, "
                "--missing), or the column as text (text=, --text), or leave it out (drop=, --drop)"
            )
        return "date" if self.dates else "text"


def infer_column(column: pd.Series[Any], decimal: str = ".") -> tuple[Kind, pd.Series[Any]]:
    """Return what a column holds, and the column as numbers, dates or text."""
    guess = ColumnGuess(decimal)
    numbers = guess.add(column)
    kind = guess.kind
    if kind == "number" and numbers is not None:
        return kind, _finite(column, numbers)
    return kind, parse_dates(column) if kind == "date" else parse_text(column)


def _is_date_type(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype))


def _holds_iso_dates(column: pd.Series[Any]) -> bool:
    """Return whether all values of a column of text are dates that have one meaning and exist."""
    values = column.cat.categories.to_series() if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna()
    if not values.iloc[:1].astype("string").str.strip().str.fullmatch(_ISO_DATE).all():
        return False
    try:
        parse_dates(values)
    except TableError:
        return False
    return True


@dataclass
class TargetGuess:
    """What a target is, whose parts are added one after the other: classes, or numbers to predict.

    Text, true and false are classes. So are whole numbers unless there are many of them, or most rows have one of their
    own; numbers with decimals are no names of anything.
    """

    text: bool = False
    whole: bool = True
    distinct: set[float] = field(default_factory=set)  # no more than it takes to tell that they are many
    n_rows: int = 0

    def add(self, column: pd.Series[Any], decimal: str = ".") -> None:
        """Add a part."""
        self.n_rows += len(column)
        if self.text or _is_boolean(column) or _is_date_type(column):
            self.text = True
            return
        numbers, invalid = _parse(column.dropna(), decimal)
        self.text = bool(invalid.any())
        if not self.text:
            self.whole = self.whole and bool((numbers == np.floor(numbers)).all())
            self.distinct.update(np.unique(numbers)[: _MOST_NUMBERED + 1].tolist())

    @property
    def task(self) -> TaskName:
        """What a model has to do."""
        if self.text or len(self.distinct) <= 2:
            return "classification"
        is_own = self.n_rows >= _FEWEST_ROWS and 2 * len(self.distinct) > self.n_rows
        many = not self.whole or is_own or len(self.distinct) > _MOST_NUMBERED
        return "regression" if many else "classification"


def parse_target(
    column: pd.Series[Any], decimal: str = ".", *, task: TaskName, text: bool | None = None
) -> NDArray[Any]:
    """Return the target of a task: class labels, or finite numbers.

    Labels are integers if all are whole numbers, otherwise text: by default if one is not a number. `decimal` is the
    mark of numbers that are stored as text.
    """
    absent = column.isna().to_numpy()
    if absent.any():
        raise TableError(
            f"the target {column.name!r} is missing in {np.count_nonzero(absent)} of {absent.size} rows, first in row "
            f"{int(np.argmax(absent)) + 1}: remove these rows (fit leaves them out with skip_missing_target=True, "
            "--skip-missing-target)"
        )
    if task == "classification":
        return _parse_labels(column, decimal, text)
    if _is_boolean(column) or _is_date_type(column):
        raise TableError(
            f"the target {column.name!r} must hold numbers to predict, and row 1 holds {column.iloc[0]!s}: for classes "
            "there is task='classification' (--task classification)"
        )
    return parse_numbers(column, decimal).to_numpy()


def _parse_labels(column: pd.Series[Any], decimal: str, text: bool | None) -> NDArray[Any]:
    if text is None:
        text = _is_boolean(column) or bool(_parse(column, decimal)[1].any())
    if text:
        return parse_text(column).astype(object).to_numpy()
    values = parse_numbers(column, decimal).to_numpy()
    # From 2^53 on neighbouring integers are the same float64.
    wrong = (values != np.floor(values)) | (np.abs(values) >= 2**53)
    if wrong.any():
        raise TableError(
            f"the target {column.name!r} must hold classes, and row {int(np.argmax(wrong)) + 1} holds "
            f"{values[wrong][0]:g}: whole numbers below 2^53 or text would be right, or task='regression' (--task "
            "regression) to predict numbers"
        )
    return values.astype(np.int64)


def _is_boolean(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    if column.dtype != object or not column.notna().any():
        return False
    return all(isinstance(entry, (bool, np.bool_)) for entry in column.dropna())


def _parse(column: pd.Series[Any], decimal: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return the numbers of a column, NaN where there is none, and a mask of the cells that hold something else."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Each category is parsed once, however many rows have it.
        numbers, invalid = _parse(pd.Series(column.cat.categories, name=column.name), decimal)
        codes = column.cat.codes.to_numpy()
        return np.append(numbers, np.nan)[codes], np.append(invalid, False)[codes]
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif pd.api.types.is_timedelta64_dtype(column.dtype):
        numbers = to_days(column.to_numpy())
    elif isinstance(column.dtype, pd.StringDtype) or pd.api.types.infer_dtype(column) in ("string", "empty"):
        numbers = parse_cells(column if decimal == "." else to_points(column))
    else:
        raise TableError(f"column {column.name!r} holds {column.dtype} values: give numbers or text")
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def parse_cells(cells: pd.Series[Any]) -> Array:
    """Return text cells as numbers, NaN where one is missing or no number."""
    import pyarrow as pa

    try:
        # Much faster, and the same numbers. It refuses some that pandas takes, such as +1, and all that are none.
        return np.array(pa.array(cells, pa.string()).cast(pa.float64()), dtype=np.float64)
    except (pa.ArrowException, ValueError):
        codes, distinct = pd.factorize(cells)
        numbers = pd.to_numeric(pd.Series(distinct), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.append(numbers, np.nan)[codes]


def to_points(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Return text cells with decimal points for commas, NA where a point or a comma is no part of such a number."""
    written = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return written.where(~has_mark(cells) | cells.str.fullmatch(_MARKED).fillna(False).astype(bool))


def has_mark(cells: pd.Series[Any]) -> pd.Series[bool]:
    """Return which text cells have a point or a comma: they are other numbers with the other decimal mark."""
    return cells.str.contains("[.,]").fillna(False).astype(bool)


def uses_commas(frames: Iterable[pd.DataFrame]) -> bool:
    """Return whether a column of text cells, in all parts of a table, mostly holds numbers, and one with a comma."""
    counts: dict[str, Any] = {}
    for frame in frames:
        for name, cells in frame.items():
            numbers = pd.to_numeric(to_points(cells), errors="coerce").notna()
            with_comma = numbers & cells.str.contains(",", regex=False).fillna(False).astype(bool)
            found = np.array([with_comma.sum(), numbers.sum(), cells.notna().sum()])
            counts[str(name)] = counts.get(str(name), 0) + found
    return any(with_comma and numbers * 2 > present for with_comma, numbers, present in counts.values())


def _first_invalid(column: pd.Series[Any], invalid: NDArray[np.bool_], decimal: str, first: int = 1) -> str:
    row = int(np.argmax(invalid))
    cell, mark = column.iloc[row], {".": "point", ",": "comma"}[decimal]
    how = f" with a decimal {mark} (decimal=, --decimal)" if re.search(r"\d[.,]|[.,]\d", str(cell)) else ""
    return f"column {column.name!r}, row {row + first}: {cell!r} is not a number{how}"


def _finite(column: pd.Series[Any], numbers: Array) -> pd.Series[Any]:
    infinite = np.isinf(numbers)
    if infinite.any():
        raise TableError(f"column {column.name!r}, row {int(np.argmax(infinite)) + 1}: infinite values cannot be used")
    return pd.Series(numbers, index=column.index, name=column.name)
