"""Validate arguments: every error names the argument, the offending value and what would be right."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# The distance from 1 to the next float, which rounding errors are multiples of.
EPS = float(np.finfo(np.float64).eps)

# Abbreviates what an error message quotes.
_REPR = reprlib.Repr()
_REPR.maxlong, _REPR.maxstring, _REPR.maxother = 60, 80, 120


def as_real_array(name: str, value: ArrayLike, expected: str) -> Array:
    """Return `value` as a float64 array without negative zeros, or raise if it does not hold real numbers only.

    Text, complex numbers, dates, durations and masked entries are refused, also where NumPy would convert them.
    """
    try:
        given = np.asarray(value)
        if np.ma.is_masked(value):
            raise TypeError
        if given.size and given.dtype.kind not in "biuf":
            # Lists of mixed or very large integers arrive as objects, and are fine if each entry is a real number.
            if given.dtype.kind != "O" or not all(map(_is_real, given.ravel())):
                raise TypeError
            given = np.array([float(entry) for entry in given.ravel()]).reshape(given.shape)
        return np.asarray(given.astype(np.float64) + 0.0)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {expected}, got {_abbreviate(value)}") from None


def _is_real(entry: object) -> bool:
    # NumPy's durations count as integers, its booleans not as numbers.
    return isinstance(entry, Real | Decimal | np.bool_) and not isinstance(entry, np.timedelta64)


def _abbreviate(value: object) -> str:
    try:
        return _REPR.repr(value)
    except ValueError:  # integers with thousands of digits
        return f"an object of type {type(value).__name__}"


@contextmanager
def prefix_errors(kind: type[Exception], prefix: str) -> Iterator[None]:
    """Put a prefix, unless it is empty, before what errors of a kind say that come up in a ``with`` block."""
    try:
        yield
    except kind as error:
        if not prefix:
            raise
        raise type(error)(f"{prefix}: {error}") from error


def count_missing(X: Any) -> int:
    """Return the number of missing values in an array, sparse matrix or data frame."""
    return int(np.count_nonzero(find_missing(X)))


def find_missing(values: Any) -> NDArray[np.bool_]:
    """Return where an array, sparse matrix or data frame holds None, NaN, NaT, pandas' own gaps, or masked entries."""
    if np.ma.is_masked(values):
        return np.ma.getmaskarray(values)
    if hasattr(values, "isna"):  # pandas
        return np.asarray(values.isna())
    given = np.asarray(values.data if hasattr(values, "tocsr") else values)
    if given.dtype.kind == "O":
        return np.array([_is_missing(entry) for entry in given.flat], dtype=bool).reshape(given.shape)
    return np.asarray(given != given)


def _is_missing(entry: Any) -> bool:
    try:
        return entry is None or bool(entry != entry)
    except TypeError:  # pandas' missing value says neither yes nor no
        return True


def float_or_array(value: Any) -> Any:
    """Return a float if `value` is a scalar or zero-dimensional, and `value` itself otherwise."""
    return float(value) if np.ndim(value) == 0 else value


def _validate(name: str, value: ArrayLike, is_valid: Callable[[Array], NDArray[np.bool_]], expected: str) -> Array:
    """Return `value` as a float64 array, or raise with its first entry that is not valid."""
    array = as_real_array(name, value, expected)
    valid = is_valid(array)
    if not valid.all():
        raise ValueError(f"{name} must be {expected}, got {array[~valid].flat[0]!s}")
    return array


def unit_interval(name: str, value: ArrayLike) -> Array:
    """Validate entries in [0, 1]. A comparison with NaN is false, so NaN is refused here and below."""
    return _validate(name, value, lambda a: (a >= 0) & (a <= 1), "in [0, 1]")


def open_interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Validate entries strictly between `low` and `high`."""
    return _validate(name, value, lambda a: (a > low) & (a < high), f"in ({low:g}, {high:g})")


def half_open_interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Validate entries above `low` and at most `high`."""
    return _validate(name, value, lambda a: (a > low) & (a <= high), f"in ({low:g}, {high:g}]")


def nonnegative(name: str, value: ArrayLike) -> Array:
    """Validate entries in [0, inf]."""
    return _validate(name, value, lambda a: a >= 0, "non-negative")


def finite_nonnegative(name: str, value: ArrayLike) -> Array:
    """Validate entries in [0, inf)."""
    return _validate(name, value, lambda a: (a >= 0) & (a < np.inf), "non-negative and finite")


def whole_number(name: str, value: ArrayLike, minimum: int = 1) -> Array:
    """Validate whole numbers of at least `minimum`, given as integers or floats such as 1e9."""
    expected = f"a whole number, at least {minimum}"
    return _validate(name, value, lambda a: (a >= minimum) & (a < np.inf) & (a == np.floor(a)), expected)


def scalar(name: str, array: Array) -> float:
    """Return the number in a zero-dimensional array, or raise if there are several."""
    if array.ndim != 0:
        raise ValueError(f"{name} must be a single number, got an array of shape {array.shape}")
    return float(array)


# What an argument of this name must be, in every public function of the theory.
_DOMAINS: dict[str, Callable[[str, ArrayLike], Array]] = {
    **dict.fromkeys(("loss", "p", "q", "gibbs_loss", "tandem_loss", "one_errs", "disagreement"), unit_interval),
    **dict.fromkeys(
        ("delta", "grid_delta", "rtol", "max_error", "coverage"), functools.partial(open_interval, low=0, high=1)
    ),
    **dict.fromkeys(("lam", "lam0"), functools.partial(open_interval, low=0, high=2)),
    **dict.fromkeys(("c1", "c2"), functools.partial(open_interval, low=1, high=np.inf)),
    **dict.fromkeys(("prior_mass", "gamma", "gammas", "u"), functools.partial(half_open_interval, low=0, high=1)),
    **dict.fromkeys(("kl_div", "c"), nonnegative),
    **dict.fromkeys(("variance", "voter_bound", "gibbs_bound"), finite_nonnegative),
    **dict.fromkeys(("n", "n_max", "n_pair", "n_pair_max", "n_points", "n_unlabelled", "max_iter"), whole_number),
    **dict.fromkeys(("errors", "n_disagreements"), functools.partial(whole_number, minimum=0)),
}


def arrays(**values: ArrayLike) -> list[Array]:
    """Validate arguments that may be arrays, each by its name."""
    return [_DOMAINS[name](name, value) for name, value in values.items()]


def error_counts(errors: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Validate numbers of errors among n points each, as arrays of one shape."""
    k, size = np.broadcast_arrays(*arrays(errors=errors, n=n))
    if np.any(k > size):
        raise ValueError(f"errors must be at most n, got {k[k > size].flat[0]!s}")
    return k, size


def numbers(**values: ArrayLike) -> list[float]:
    """Validate arguments that are single numbers, each by its name."""
    return [scalar(name, _DOMAINS[name](name, value)) for name, value in values.items()]


def largest_size(n: float | Array, n_max: ArrayLike | None, name: str = "n") -> Array:
    """Validate the largest number of points `n_max`, at least as large as the smallest, `n`; `n` itself by default."""
    if n_max is None:
        return np.asarray(n)
    largest = whole_number(f"{name}_max", n_max)
    too_small = largest < n
    if too_small.any():
        offender = np.broadcast_to(largest, too_small.shape)[too_small].flat[0]
        raise ValueError(f"{name}_max must be at least {name}, got {offender!s}")
    return largest


def row_numbers(name: str, value: Any, n: int) -> Array:
    """Return one real number for each of n rows, or raise."""
    given = as_real_array(name, value, f"a number for each of the {n} rows")
    if given.shape != (n,):
        raise ValueError(f"{name} must hold a number for each of the {n} rows, got shape {given.shape}")
    return given


def vector(name: str, array: Array, entries: str) -> Array:
    """Return a one-dimensional, non-empty array, or raise and say what its `entries` are."""
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional, non-empty array with {entries}, got shape {array.shape}")
    return array


def sizes_of(n: ArrayLike, m: int) -> Array:
    """Validate the number of points of each of m hypotheses, given for each or as one for all."""
    sizes = whole_number("n", n)
    if sizes.shape not in ((), (m,)):
        raise ValueError(
            f"n must be a single number or have one entry per hypothesis: there are {m} losses, got shape {sizes.shape}"
        )
    return np.broadcast_to(sizes, (m,))


def loss_vector(name: str, value: ArrayLike, *, partial: bool = False) -> Array:
    """Validate one loss in [0, 1] for each hypothesis, at least one; if `partial`, others may be NaN."""
    if not partial:
        return vector(name, unit_interval(name, value), "one loss per hypothesis")
    losses = _validate(name, value, lambda a: (a >= 0) & (a <= 1) | np.isnan(a), "in [0, 1], or NaN")
    if losses.size and np.isnan(losses).all():
        raise ValueError(f"{name} must hold at least one number, got NaN only")
    return vector(name, losses, "one loss per hypothesis")
