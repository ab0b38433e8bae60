"""Find columns that a model should not learn from, and targets that are not what they seem."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pacbayes._formatting import format_names
from pacbayes._validation import Array
from pacbayes.io.schema import Column
from pacbayes.io.streams import StreamedTable
from pacbayes.io.tables import Table

# With fewer rows, values may differ by chance.
_FEWEST_ROWS = 20
# More whole numbers than this are more likely amounts than classes.
_MOST_CLASSES = 20

# Different texts whose words are counted.
_MOST_TEXTS = 10_000

# Share of rows with a number of their own beyond which whole numbers may be ids: amounts repeat more often.
_IDS, _NAMED_IDS = 0.9, 0.5

_UNNAMED = re.compile(r"Unnamed: \d+")
_ID_NAME = re.compile(r"(?:.*[^a-z])?(?:id|ids|index|key|uuid|guid|nr|no)|.*[a-z](?:Id|ID)", re.ASCII)
_NUMBER_LIKE = r"[\s$€£+-]*\d[\d\s.,']*[\s%$€£]*"
_DATE_LIKE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?"


@dataclass(frozen=True)
class Finding:
    """What is remarkable about a column.

    Attributes
    ----------
    column : str
        The column.
    message : str
        What is remarkable, as the rest of a sentence that begins with the name of the column.
    leave_out : bool
        Whether nothing can be learned from the column: it is empty, constant, numbers the rows, or is text that is
        different in every row, and so are its words.
    """

    column: str
    message: str
    leave_out: bool = False


def inspect_table(table: Table | StreamedTable) -> list[Finding]:
    """Find columns that are ids, unique, constant, empty or copies of the target, and targets that look wrong.

    Parameters
    ----------
    table : Table or StreamedTable
        The table.

    Returns
    -------
    list of Finding
        Those about features first, in the order of the columns, then those about the target.

    Examples
    --------
    >>> frame = pd.DataFrame({"Id": range(1, 41), "size": [1.0, 2.5] * 20, "unit": "cm", "kind": ["yes", "Yes"] * 20})
    >>> for finding in inspect_table(Table.from_frame(frame, target="kind")):
    ...     print(finding.column, finding.message)
    Id numbers the rows
    size determines the class in every row: is it a copy of the target, or known only afterwards?
    unit holds one value only, 'cm'
    kind has labels that differ only in blanks or case: 'Yes', 'yes'
    """
    codes, numbers = table.label_codes(), table.numbers()
    findings: list[Finding] = []
    for column in table.schema.columns:  # one at a time is in memory
        values = table.column(column.name)
        findings += _inspect_feature(values, column, codes)
        if numbers is not None and column.kind == "number" and _is_line(values, numbers):
            message = "is the target, but for a factor and a shift: is it a copy of it, or known only afterwards?"
            findings.append(Finding(column.name, message))
    return [*findings, *_inspect_target(table)]


def find_time_order(table: Table | StreamedTable) -> list[str]:
    """Return the columns of dates in whose order the rows are: such rows are seldom independent.

    Parameters
    ----------
    table : Table or StreamedTable
        The table.

    Returns
    -------
    list of str
        Their names.
    """

    def orders_rows(values: pd.Series[Any]) -> bool:
        is_ordered = values.is_monotonic_increasing or values.is_monotonic_decreasing
        return bool(is_ordered and len(values) >= _FEWEST_ROWS and values.nunique() > 2)

    return [name for name in table.schema.names_of("date") if orders_rows(table.column(name).dropna())]


def _inspect_feature(values: pd.Series[Any], column: Column, codes: Any) -> Iterator[Finding]:
    """Yield what is remarkable about a feature, the most important finding only."""
    name, n_rows = column.name, len(values)
    present, distinct = int(values.notna().sum()), int(values.nunique())
    if present == 0:
        yield Finding(name, "is empty", leave_out=True)
    elif distinct == 1 and present == n_rows > 1:
        only = values.iloc[0]
        is_number = column.kind == "number"
        yield Finding(name, f"is {only:g} throughout" if is_number else f"holds one value only, {str(only)!r}", True)
    elif column.kind == "number" and _numbers_rows(name, values, distinct):
        yield Finding(name, "numbers the rows", leave_out=True)
    elif column.kind == "text":
        yield from _inspect_text(name, values, present, distinct)
    elif column.kind == "number" and present >= _FEWEST_ROWS and _are_whole(values.dropna()):
        yield from _inspect_whole(name, n_rows, present, distinct)
    if codes is not None and 1 < distinct <= n_rows / 4 and _determines(values, codes, distinct):
        yield Finding(name, "determines the class in every row: is it a copy of the target, or known only afterwards?")


def _inspect_whole(name: str, n_rows: int, present: int, distinct: int) -> Iterator[Finding]:
    """Yield a finding if whole numbers tell rows apart: more likely by their name, or if hardly any repeats."""
    is_named = bool(_ID_NAME.fullmatch(name) or _ID_NAME.fullmatch(name.lower()))
    if distinct <= present * (_NAMED_IDS if is_named else _IDS):
        return
    held = "another whole number in every row" if distinct == n_rows else f"{distinct} whole numbers in {present} rows"
    yield Finding(name, f"{'looks like' if is_named else 'may be'} an id: it holds {held}")


def _are_whole(values: pd.Series[Any]) -> bool:
    return bool((values == np.floor(values)).all())


def _numbers_rows(name: str, values: pd.Series[Any], distinct: int) -> bool:
    """Return whether a column holds consecutive whole numbers, in any order, or no name and another value per row."""
    if distinct < len(values):
        return False
    if _UNNAMED.fullmatch(name):
        return True
    consecutive = values.max() - values.min() == len(values) - 1
    return len(values) >= _FEWEST_ROWS and bool(consecutive) and _are_whole(values)


def _repeats_words(texts: pd.Series[Any]) -> bool:
    """Return whether different texts have words in common, as sentences have, and ids have not."""
    words = Counter(word for text in texts[:_MOST_TEXTS] for word in re.findall(r"\w+", text.lower()))
    return 2 * len(words) < words.total()


def _inspect_text(name: str, values: pd.Series[Any], present: int, distinct: int) -> Iterator[Finding]:
    names = pd.Series(values.cat.categories, dtype="string")
    if _UNNAMED.fullmatch(name) and distinct == len(values):
        yield Finding(name, "names the rows", leave_out=True)
    elif names.str.fullmatch(_DATE_LIKE).all():
        yield Finding(
            name,
            f"is read as text, and {names.iloc[0]!r} looks like a date: write dates as 2024-01-31",
            distinct == present,
        )
    elif names.str.fullmatch(_NUMBER_LIKE).all():
        yield Finding(
            name, f"is read as text, and {names.iloc[0]!r} looks like a number: write digits and a point only"
        )
    elif _repeats_words(names):
        return
    elif distinct == present >= _FEWEST_ROWS:
        yield Finding(name, "is text that is different in every row, as names and ids are", leave_out=True)
    elif present >= _FEWEST_ROWS and distinct > present / 2:
        yield Finding(name, f"has {distinct} different values in {present} rows: hardly any can be learned from")


def _determines(values: pd.Series[Any], codes: Any, distinct: int) -> bool:
    """Return whether rows with the same value always have the same class, and no value is missing."""
    if values.isna().any():
        return False
    pairs = pd.DataFrame({"value": pd.factorize(values)[0], "class": codes}).drop_duplicates()
    return len(pairs) == distinct


def _may_be_amounts(classes: tuple[int, ...]) -> bool:
    """Return whether whole numbers may be amounts: they are many, or more than two that do not count from 0 or 1."""
    counted = classes[0] in (0, 1) and classes[-1] - classes[0] == len(classes) - 1
    return len(classes) > (_MOST_CLASSES if counted else 2)


def _is_line(values: pd.Series[Any], numbers: Array) -> bool:
    """Return whether numbers are a linear function of a feature, where it is known."""
    known = values.notna().to_numpy()
    x, y = values.to_numpy()[known], numbers[known]
    if x.size < _FEWEST_ROWS or x.min() == x.max() or y.min() == y.max():
        return False
    return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - 1e-9)


def _inspect_target(table: Table | StreamedTable) -> Iterator[Finding]:
    target, classes = table.schema.target, table.schema.classes
    if target is None:
        return
    alike = defaultdict(list)
    for label in classes:
        alike["".join(str(label).split()).casefold()].append(label)
    for labels in alike.values():
        if len(labels) > 1:
            yield Finding(target, f"has labels that differ only in blanks or case: {format_names(labels)}")
    if classes and not isinstance(classes[0], str) and _may_be_amounts(classes):
        yield Finding(
            target,
            f"holds {len(classes)} different whole numbers, from {classes[0]} to {classes[-1]}, which are taken for "
            "classes: to predict a number instead, task='regression' (--task regression)",
        )
