"""Dates as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array

# Periods that dates are placed in: the year, the week and the day, in days.
_PERIODS = (365.2425, 7.0, 1.0)

# Features of a date: the days since 1970, and two for its place in each period.
N_DATE_FEATURES = 1 + 2 * len(_PERIODS)


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
