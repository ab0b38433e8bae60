"""Numbers with decimal commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# With a decimal comma, points can only group thousands.
_GROUPED = r"[1-9]\d{0,2}(?:\.\d{3})+"
_MARKED = rf"[+-]?(?:{_GROUPED}|(?:(?:\d+|{_GROUPED}),\d*|,\d+)(?:[eE][+-]?\d+)?)"


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
        for name in frame.columns:
            counts[name] = counts.get(name, 0) + _count_numbers(frame[name])
    return any(with_comma and numbers * 2 > present for with_comma, numbers, present in counts.values())


def _count_numbers(cells: pd.Series[Any]) -> NDArray[np.int64]:
    """Return how many cells are numbers with a decimal comma, are numbers where commas are decimal, and are there."""
    numbers = pd.to_numeric(to_points(cells), errors="coerce").notna()
    with_comma = numbers & cells.str.contains(",", regex=False).fillna(False).astype(bool)
    return np.array([with_comma.sum(), numbers.sum(), cells.notna().sum()])
