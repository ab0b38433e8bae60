"""Numbers with decimal commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

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


def uses_commas(columns: Iterable[pd.Series[Any]]) -> bool:
    """Return whether one of several columns of text cells mostly holds numbers, and one with a decimal comma."""
    for cells in columns:
        commas = cells.str.contains(",", regex=False).fillna(False).astype(bool)
        if commas.any():
            numbers = pd.to_numeric(to_points(cells), errors="coerce").notna()
            if (numbers & commas).any() and numbers.sum() * 2 > cells.notna().sum():
                return True
    return False
