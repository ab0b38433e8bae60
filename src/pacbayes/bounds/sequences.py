"""Bounds on a rate of errors that hold after every point at once, by betting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import EPS, Array, arrays, error_counts, float_or_array

# Bets c, half an octave apart, and what part of the capital is staked on each: most on those that win fastest where
# the odds of an error have doubled. The shares add up to less than 1.
_OCTAVES = np.arange(-24, 21) / 2
_BETS = 2.0**_OCTAVES
_SHARES = (1 + np.abs(_OCTAVES)) ** -2.0
LOG_STAKES = np.log(_SHARES / _SHARES.sum()) - 1e-12

# More than products and difference of a gain can lose, relative to their sizes.
_ROUNDING = 8 * EPS

# More than adding up capital can lose, of at most 1 / level: in logarithms, those are numbers from -100, below which
# nothing matters, to 800.
_SUM_ERROR = 1e-12


def log_gains(errors: ArrayLike, n: ArrayLike, rate: ArrayLike) -> Array:
    """Return what each bet that points err more often than at a rate gains on n points, rounded down.

    A bet c multiplies its capital by (1 + c) / (1 + c rate) for an error, and by 1 / (1 + c rate) for any other point:
    on average by at most 1, whatever came before, as long as the next point errs with probability at most `rate`.

    The arguments broadcast; the bets are the last axis of the logarithms that are returned.
    """
    k, size, p = (np.asarray(value, dtype=np.float64)[..., np.newaxis] for value in (errors, n, rate))
    won, paid = k * np.log1p(_BETS), size * np.log1p(_BETS * p)
    return np.asarray(won - paid - _ROUNDING * (won + paid))


def stake_anew(log_capital: Array | float, index: int, gains: Array) -> Array:
    """Return the capital of each bet after batch number `index`, from 1, given the capital before it, rounded down.

    Half of the capital is staked on the first batch, and 1 / (2 i (i - 1)) before each later batch i, to find a rate
    that rises after many batches at which bets lost: all of these add up to 1.
    """
    stake = 0.5 if index == 1 else 0.5 / (index * (index - 1))
    return np.asarray(np.logaddexp(log_capital, np.log(stake)) + gains - _SUM_ERROR)


def refutes(log_capital: Array, level: ArrayLike) -> Any:
    """Return whether bets, the last axis, have won together what they ever win with probability at most `level`."""
    together = np.logaddexp.reduce(log_capital + LOG_STAKES, axis=-1)
    return together >= -np.log(level) * (1 + _SUM_ERROR) + 10 * _SUM_ERROR


def anytime_lower(errors: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05) -> Any:
    r"""Bound the rate of errors from below after every point, all at once.

    With probability at least 1 - delta, the rate is above the bound after the first point, the second, and all that
    follow: one may look at any time, and stop whenever one likes. With an `anytime_upper`, each at delta / 2, it makes
    a confidence sequence.

    For c > 0 and independent points that err with probability p, the product over points of :math:`(1 + c x_i) /
    (1 + c p)`, with :math:`x_i` 1 for an error and 0 otherwise, is a martingale that starts at 1, and so is a weighted
    mean over several c. By Ville's inequality it ever reaches 1 / delta with probability at most delta, so a rate at
    which it has is refuted, and all smaller ones with it. For points that err with different probabilities, each given
    what came before, the bound holds for the mean of these, since :math:`\ln(1 + c p)` is concave in p [1]_ [2]_.

    Parameters
    ----------
    errors : array_like
        Number of errors among the first n points, 0 to n.
    n : array_like
        Number of points so far.
    delta : array_like, default=0.05
        Probability with which the bound may ever fail, in (0, 1).

    Returns
    -------
    float or ndarray
        Lower bound, rounded down.

    References
    ----------
    .. [1] H. Robbins. Statistical methods related to the law of the iterated logarithm. Annals of Mathematical
       Statistics, 1970.
    .. [2] I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting. JRSS B, 2023.

    Examples
    --------
    >>> round(anytime_lower(errors=100, n=1000), 6)
    0.072771
    """
    return float_or_array(_largest_rate(*_check_counts(errors, n, delta)))


def anytime_upper(errors: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05) -> Any:
    """Bound the rate of errors from above after every point, all at once.

    With probability at least 1 - delta, the rate is below the bound at all times: labels may still arrive while one
    looks. It is to `clopper_pearson`, which is for a number of points that was decided beforehand, what `anytime_lower`
    is to its lower limit: one minus the lower bound on the rate of points that do not err.

    Parameters
    ----------
    errors, n, delta : array_like
        As in `anytime_lower`.

    Returns
    -------
    float or ndarray
        Upper bound, at most 1, rounded up.

    Examples
    --------
    >>> round(anytime_upper(errors=100, n=1000), 6)
    0.132623
    """
    k, size, level = _check_counts(errors, n, delta)
    others = _largest_rate(size - k, size, level)
    return float_or_array(np.where(others > 0, np.minimum(np.nextafter(1 - others, 2), 1.0), 1.0))


def _check_counts(errors: ArrayLike, n: ArrayLike, delta: ArrayLike) -> list[Array]:
    return list(np.broadcast_arrays(*error_counts(errors, n), *arrays(delta=delta)))


def _largest_rate(k: Array, size: Array, level: Array) -> Array:
    """Return the largest rate that is refuted, 0 if none is. At the share of errors itself no bet has gained."""
    return largest_refuted(lambda rate: refutes(log_gains(k, size, rate), level), k / size, 70)


def largest_refuted(is_refuted: Callable[[Array], NDArray[np.bool_]], largest: Array, steps: int) -> Array:
    """Bisect for the largest values that are refuted, 0 where none is: what bets gain falls as the values grow."""
    refuted, possible = np.zeros_like(largest), largest
    for _ in range(steps):
        middle = refuted + (possible - refuted) / 2
        won = is_refuted(middle)
        refuted, possible = np.where(won, middle, refuted), np.where(won, possible, middle)
    return refuted
