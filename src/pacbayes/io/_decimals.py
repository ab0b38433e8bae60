"""Numbers with decimal commas."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pacbayes.exceptions import TableError

if TYPE_CHECKING:
    import pandas as pd

# With a decimal comma, points can only group thousands.
_WHOLE = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)"
_WITH_COMMA = rf"(?:{_WHOLE},\d*|[+-]?,\d+)(?:[eE][+-]?\d+)?"


def use_decimal_points(frame: pd.DataFrame, decimal: str | None, text: Collection[str]) -> tuple[pd.DataFrame, str]:
    """Replace decimal commas by points, in columns of text cells that mostly hold numbers with a comma or without.

    Parameters
    ----------
    frame : DataFrame
        Columns of text cells, NA where missing.
    decimal : {".", ","} or None
        The decimal mark; None for a point.
    text : collection of str
        Columns to leave as they are.

    Returns
    -------
    frame : DataFrame
        The columns, with points.
    decimal : {".", ","}
        The mark that was found.
    """
    if decimal not in (None, ".", ","):
        raise TableError(f"the decimal mark must be a point or a comma, got {decimal!r}")
    if decimal != ",":
        return frame, "."
    frame, found = frame.copy(deep=False), "."
    for name in frame.columns:
        if name in text:
            continue
        cells = frame[name]
        with_comma = cells.str.fullmatch(_WITH_COMMA).fillna(False).astype(bool)
        numbers = with_comma | cells.str.fullmatch(_WHOLE).fillna(False).astype(bool)
        if not with_comma.any() or numbers.sum() * 2 <= cells.notna().sum():
            continue
        _check_points(cells[~numbers])
        written = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        frame[name], found = cells.where(~numbers, written), ","
    return frame, found


def _check_points(cells: pd.Series[str]) -> None:
    """Raise if a column of numbers with decimal commas holds one with a decimal point as well."""
    points = cells.str.fullmatch(r"[+-]?(?:\d+\.\d*|\.\d+)").fillna(False).astype(bool)
    if points.any():
        row = cells.index[points.to_numpy()][0]
        raise TableError(
            f"column {cells.name!r}, row {row + 1}: {cells[row]!r} has a decimal point, and other rows have decimal "
            "commas (decimal=, --decimal)"
        )
