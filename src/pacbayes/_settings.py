"""Constraints on the settings of estimators and pools, one table per class.

Each constraint says what is allowed; `validate_settings` names the setting, its value and what would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Constraint:
    """What a setting may be: in words, and as a function of a value."""

    description: str
    allows: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.description


class Choice(Constraint):
    """One of a few values.

    >>> str(Choice("raise", "drop")), Choice("raise", "drop").allows("ignore")
    ("'raise' or 'drop'", False)
    """

    def __init__(self, *allowed: Any) -> None:
        def allows(value: Any) -> bool:
            value = bool(value) if isinstance(value, np.bool_) else value
            return any(value is option or (isinstance(option, str) and value == option) for option in allowed)

        *first, last = map(repr, allowed)
        super().__init__(f"{', '.join(first)} or {last}" if first else last, allows)


class Whole(Constraint):
    """A whole number, at least `minimum`, or one of the words in `or_else`."""

    def __init__(self, minimum: int = 1, or_else: tuple[str, ...] = ()) -> None:
        def allows(value: Any) -> bool:
            return value in or_else if isinstance(value, str) else is_whole(value) and int(value) >= minimum

        super().__init__(", or ".join([f"a whole number, at least {minimum}", *map(repr, or_else)]), allows)


class Number(Constraint):
    """A number strictly between two others."""

    def __init__(self, low: float, high: float) -> None:
        def allows(value: Any) -> bool:
            return isinstance(value, Real) and not isinstance(value, bool) and low < float(value) < high

        super().__init__(f"in ({low:g}, {high:g})", allows)


class Several(Constraint):
    """One value that a constraint allows, or a sequence of them.

    >>> str(Several(Number(0, 1))), Several(Number(0, 1)).allows((0.5, 2.0))
    ('in (0, 1), or several of these', False)
    """

    def __init__(self, each: Constraint) -> None:
        def allows(value: Any) -> bool:
            return len(value) > 0 and all(map(each.allows, value)) if is_several(value) else each.allows(value)

        super().__init__(f"{each}, or several of these", allows)


def is_several(value: Any) -> bool:
    """Return whether a value is a sequence of values, and not a text."""
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)


def is_auto(value: Any) -> bool:
    """Return whether a setting is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false, of Python or NumPy."""
    return isinstance(value, (bool, np.bool_))


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, and not a flag."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def are_sizes(value: Any) -> bool:
    """Return whether a value is a number or a sequence of numbers, which can be read again and again."""
    several = value.ndim == 1 if isinstance(value, np.ndarray) else isinstance(value, Sequence)
    sizes = list(value) if several else [value]
    return all(isinstance(size, Real) and not isinstance(size, bool) for size in sizes)


# Settings of how many hypotheses there are, and of how many points each is trained on.
SAMPLING: dict[str, Constraint] = {
    "n_hypotheses": Whole(1, ("auto",)),
    "subsample_size": Constraint(
        "'auto', 'paper', a number of points, a share, or a sequence of these",
        lambda value: value in ("auto", "paper") if isinstance(value, str) else are_sizes(value),
    ),
}


def validate_settings(owner: Any, constraints: Mapping[str, Constraint]) -> None:
    """Raise ValueError for the first setting of `owner` that its constraint does not allow."""
    for name, constraint in constraints.items():
        value = getattr(owner, name)
        if not constraint.allows(value):
            raise ValueError(f"{name} must be {constraint}, got {value!r}")
