"""Format bounds and names for people: what is printed never says more than what is proved.

Upper bounds are rounded up, lower bounds down, and what was measured to the nearest. Text that comes from files is
stripped of terminal commands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "NaN"
    # Adding zero turns -0.0 into 0.0.
    return str(Decimal(value + 0.0).quantize(Decimal(1).scaleb(-digits), rounding) + 0)


def format_upper(value: float, digits: int = 4) -> str:
    """Format an upper bound with a number of decimals, rounded up."""
    return _rounded(value, digits, ROUND_CEILING)


def format_lower(value: float, digits: int = 4) -> str:
    """Format a lower bound with a number of decimals, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def format_nearest(value: float) -> str:
    """Format a measured value with four decimals, rounded to the nearest."""
    return _rounded(value, 4, ROUND_HALF_EVEN)


def format_number(value: float, rounding: Literal["up", "down", "nearest"] = "nearest") -> str:
    """Format a number of any size with four significant digits."""
    if value == 0 or not math.isfinite(value):
        return _rounded(value, 3, ROUND_HALF_EVEN)
    digits = 3 - Decimal(value).adjusted()
    how = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}[rounding]
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-digits), how)
    return f"{rounded:f}" if abs(rounded.adjusted()) < 7 else f"{rounded:.3e}"


def format_percent(value: float) -> str:
    """Format a measured share as a percentage, rounded to the nearest."""
    return f"{Decimal(format_nearest(value)).scaleb(2)}%"


def format_percent_upper(value: float) -> str:
    """Format an upper bound on a share as a percentage, rounded up."""
    # The decimal point moves after rounding: as a float, 100 times the value might fall below it.
    return f"{Decimal(format_upper(value)).scaleb(2)}%"


def format_percent_lower(value: float) -> str:
    """Format a lower bound on a share as a percentage, rounded down."""
    return f"{Decimal(format_lower(value)).scaleb(2)}%"


def format_confidence(delta: float) -> str:
    """Format 1 - delta without rounding, as far as that is readable."""
    digits = str(1 - Decimal(str(delta)))
    return digits if delta >= 1e-12 and len(digits) <= 14 else f"1 - {delta}"


def format_count(count: int, noun: str) -> str:
    """Format a number of things, with the plural of their name where there is not one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_names(names: Iterable[object], most: int = 12) -> str:
    """List names in quotes for a message, and say how many more there are."""
    return join_names([repr(str(name)) for name in names], most)


def join_names(names: Sequence[str], most: int = 12) -> str:
    """List names for a message as they are, and say how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def format_counts(counts: Mapping[str, int]) -> str:
    """List names in quotes with how often each was counted, for a message."""
    return join_names([f"{name!r} ({count})" for name, count in counts.items()])


def escape_control(text: str) -> str:
    """Replace characters that a terminal could take for a command by their escape sequences."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
