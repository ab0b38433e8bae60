"""Argument checks: each names the argument, the offending value and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def numbers(name: str, value: ArrayLike, expected: str) -> Array:
    """Return `value` as a float64 array: real numbers only, not text or complex numbers that would convert."""
    try:
        given = np.asarray(value)
        if given.size and given.dtype.kind not in "biuf":
            # Lists of mixed or very large integers arrive as objects, and may be fine.
            if given.dtype.kind != "O":
                raise TypeError
            given = np.array([float(entry) for entry in given.ravel()]).reshape(given.shape)
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {expected}, got {value!r}") from None


def float_or_array(value: Any) -> Any:
    """Float in, float out: a float where all inputs were scalars."""
    return float(value) if np.ndim(value) == 0 else value


def _checked(name: str, value: ArrayLike, is_right: Callable[[Array], NDArray[np.bool_]], expected: str) -> Array:
    """Return `value` as a float64 array, or say which of its entries is not what is `expected`."""
    array = numbers(name, value, expected)
    right = is_right(array)
    if not right.all():
        raise ValueError(f"{name} must be {expected}, got {array[~right].flat[0]!s}")
    return array


def unit_interval(name: str, value: ArrayLike) -> Array:
    """Entries in [0, 1]. A comparison with NaN is false, so NaN is refused here and below."""
    return _checked(name, value, lambda a: (a >= 0) & (a <= 1), "in [0, 1]")


def open_interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Entries strictly between `low` and `high`."""
    return _checked(name, value, lambda a: (a > low) & (a < high), f"in ({low:g}, {high:g})")


def half_open_interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Entries above `low` and at most `high`."""
    return _checked(name, value, lambda a: (a > low) & (a <= high), f"in ({low:g}, {high:g}]")


def nonnegative(name: str, value: ArrayLike) -> Array:
    """Entries in [0, inf]."""
    return _checked(name, value, lambda a: a >= 0, "non-negative")


def finite_nonnegative(name: str, value: ArrayLike) -> Array:
    """Entries in [0, inf)."""
    return _checked(name, value, lambda a: (a >= 0) & (a < np.inf), "non-negative and finite")


def whole_number(name: str, value: ArrayLike, minimum: int = 1) -> Array:
    """Entries that are whole numbers, as int or float (1e9 is welcome), at least `minimum`."""
    return _checked(
        name,
        value,
        lambda a: (a >= minimum) & (a < np.inf) & (a == np.floor(a)),
        f"a whole number, at least {minimum}",
    )


def scalar(name: str, array: Array) -> float:
    """The one number in `array`: for functions that take one n or one delta, not many."""
    if array.ndim != 0:
        raise ValueError(f"{name} must be a single number, got an array of shape {array.shape}")
    return float(array)


def n_and_delta(n: ArrayLike, delta: ArrayLike) -> tuple[float, float]:
    """One sample size, and one probability of failure."""
    return scalar("n", whole_number("n", n)), scalar("delta", open_interval("delta", delta, 0, 1))


def loss_vector(name: str, value: ArrayLike) -> Array:
    """One loss in [0, 1] for each hypothesis, at least one."""
    losses = unit_interval(name, value)
    if losses.ndim != 1 or losses.size == 0:
        raise ValueError(
            f"{name} must be a one-dimensional, non-empty array with one loss per hypothesis, got shape {losses.shape}"
        )
    return losses
