"""Upper confidence limits on the mean of a variable that is bounded from above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import (
    Array,
    as_real_array,
    half_open_interval,
    numbers,
    open_interval,
    scalar,
    vector,
    whole_number,
)
from pacbayes.bounds.sequences import largest_refuted

# Bets that the capital is spread over, for every size of sample and variance.
_BETS = np.concatenate((np.geomspace(1e-4, 0.5, 12), 1 - np.geomspace(0.3, 1e-3, 6)))
LARGEST_BET = float(_BETS[-1])

# Candidates among which a bet is chosen in advance.
_CANDIDATES = np.concatenate((np.geomspace(1e-4, 0.5, 40), 1 - np.geomspace(0.49, 1e-3, 24)))

# Values are rounded (to the safe side) to as many levels at most.
_LEVELS = 1 << 14

# What the logarithm of one factor of the capital may lose to rounding: the factor is at least 1 - LARGEST_BET = 1e-3.
_LOG_ERROR = 1e-12


def mean_upper_bound(
    values: ArrayLike,
    delta: float = 0.05,
    *,
    high: float = 1.0,
    bet: float | None = None,
    counts: ArrayLike | None = None,
) -> float:
    r"""Bound the mean of a variable from above by independent values of it, none above `high`.

    For the mean m of X and any c in (0, 1), :math:`1 - c + c (\text{high} - X) / (\text{high} - m)` is
    non-negative with expectation 1. So is the product over independent values, the capital of a gambler who bets c
    in every round, and its average over several c: by Markov's inequality it is below 1 / delta with probability at
    least 1 - delta. It grows with m, and the bound is where it reaches 1 / delta [1]_ [2]_.

    No lower end of the values need be known, nor their order: the capital is the same in any. It adapts to the variance
    as empirical Bernstein inequalities do, and comes close to the kl inequality for values 0 and 1.

    Parameters
    ----------
    values : array_like of shape (u,)
        Independent values with a common mean.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    high : float, default=1.0
        Largest possible value.
    bet : float, optional
        A bet c in (0, 0.999] that is expected to be good, chosen without looking at the values: it gets
        half of the capital. The default spreads the capital over a fixed grid.
    counts : array_like of shape (u,), optional
        How often each of the values was found, whole numbers; once by default.

    Returns
    -------
    float
        Upper bound on the mean, at most `high`, rounded up.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting. JRSS B, 2023.
    .. [2] F. Orabona, K.-S. Jun. Tight concentrations and confidence sequences from the regret of universal portfolio.
       IEEE Transactions on Information Theory, 2024.

    Examples
    --------
    >>> round(mean_upper_bound([0.1, 0.2, 0.1, 0.3, 0.2] * 20), 4)
    0.2174
    >>> round(mean_upper_bound([0.1, 0.2, 0.3], counts=[40, 40, 20]), 4)
    0.2174
    """
    sample = vector("values", as_real_array("values", values, "an array of numbers"), "one value per point")
    top = scalar("high", open_interval("high", high, -np.inf, np.inf))
    possible_values = (sample > -np.inf) & (sample <= top)
    if not possible_values.all():
        raise ValueError(f"values must be finite and at most high = {top:g}, got {sample[~possible_values][0]!s}")
    (level,) = numbers(delta=delta)
    bets, log_shares = _BETS, np.full(_BETS.size, -np.log(_BETS.size))
    if bet is not None:
        bets = np.append(scalar("bet", half_open_interval("bet", bet, 0, LARGEST_BET)), bets)
        log_shares = np.append(0.0, log_shares) + np.log(0.5)
    if counts is None:
        gaps, times = _levels(top - sample)
    else:
        found = np.broadcast_to(whole_number("counts", counts, 0), sample.shape).astype(np.int64)
        if not found.any():
            raise ValueError("counts must hold at least one value that was found, got none")
        gaps, times = (top - sample)[found > 0], found[found > 0]
    needed = -np.log(level) * (1 + 1e-12) + _LOG_ERROR * (int(times.sum()) + 100)

    def is_refuted(gap: Array) -> NDArray[np.bool_]:
        return np.asarray(np.logaddexp.reduce(_log_capital(gaps, times, gap, bets) + log_shares) >= needed)

    refuted = float(largest_refuted(is_refuted, np.array(gaps.max()), 44))
    return float(np.nextafter(top - refuted, np.inf)) if refuted > 0 else top


def choose_bet(values: Array, n_points: int, delta: float, high: float) -> tuple[float, float]:
    """Return the bet, and its bound, that would be best for `n_points` values distributed as `values` are."""
    gaps, counts = _levels(high - values)
    if gaps[-1] == 0:
        return LARGEST_BET, high

    def is_refuted(gap: Array) -> NDArray[np.bool_]:
        return np.asarray(n_points * _log_capital(gaps, counts / counts.sum(), gap, _CANDIDATES) >= -np.log(delta))

    refuted = largest_refuted(is_refuted, np.full(_CANDIDATES.size, gaps[-1]), 24)
    best = int(np.argmax(refuted))
    return float(_CANDIDATES[best]), float(high - refuted[best])


def _log_capital(gaps: Array, counts: Array | NDArray[np.intp], mean_gap: float | Array, bets: Array) -> Array:
    """Logarithm of the capital of each bet if the mean of the gaps were `mean_gap`."""
    stake = bets / np.maximum(mean_gap, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        return np.asarray(np.log1p(np.multiply.outer(stake, gaps) - bets[:, np.newaxis]) @ counts)


def _levels(gaps: Array) -> tuple[Array, NDArray[np.intp]]:
    """Distinct gaps in rising order and how often each occurs; many are rounded down to a grid."""
    if gaps.size > _LEVELS:
        step = float(gaps.max()) / _LEVELS
        if step > 0:
            # A smaller gap is a larger value: the bound can only grow.
            gaps = np.minimum(np.floor(gaps / step) * step * (1 - 1e-15), gaps)
    return np.unique(gaps, return_counts=True)
