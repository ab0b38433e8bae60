r"""The direct bound: the largest loss of a posterior that the true losses of its hypotheses can have.

Let :math:`D_h` be comparators (`pacbayes.bounds.comparators`): convex in the true loss, :math:`E[e^{D_h(L_h)}] \le 1`.
By Markov's inequality, with probability at least 1 - delta the true losses are in the convex set

.. math:: C = \left\{L \in [0, 1]^m : \sum_h \pi_h e^{D_h(L_h)} \le \frac1\delta\right\},

and then, for all posteriors rho at once, :math:`E_\rho[L_h] \le \max_{L \in C} \sum_h \rho_h L_h`. Change of measure
would only enlarge the set. By Lagrange duality the maximum is

.. math:: \min_{\nu > 0} \left\{\frac\nu\delta + \sum_h \max_L [\rho_h L - \nu \pi_h e^{D_h(L)}]\right\},

and every :math:`\nu` bounds it from above. Proofs are in the documentation, on the page "The direct bound".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import EPS, Array
from pacbayes.bounds.comparators import Curve, DirectComparatorName
from pacbayes.bounds.dual import LOG_NEGLIGIBLE, starting_beta
from pacbayes.bounds.grouping import GroupedProblem
from pacbayes.bounds.prior import SLACK

# Relative error granted to the slope of a comparator.
_SLOPE_ERROR = 1e-9

# The smallest and the largest true loss, other than 0 and 1, at which comparators are evaluated.
_SMALLEST_LOSS = 1e-300
LARGEST_LOSS = 1 - EPS / 2

# Residuals at which the searches for multiplier and maximisers stop: what they leave is of second order.
_STATIONARY = 1e-12

# Most steps of a search. It ends long before, and a bound is valid wherever it ends.
MAX_STEPS = 200


class DirectProblem(GroupedProblem):
    """The constraint on the true losses of m hypotheses, which are grouped as in `GroupedProblem`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.count = np.bincount(self.slot)
        # A hypothesis alone complies with the constraint up to about here.
        self.complexity = self.log_inverse_up - self.log_mass + 2
        if self.is_uniform:  # then nothing is lost in sums over groups
            self.log_mass = np.log(self.count / self.losses.size)
            self.mass_error = SLACK * (1 - self.log_mass)


class Maximum(NamedTuple):
    """The bound of a posterior, and the logarithm of the multiplier that it is the value at."""

    value: float
    log_nu: float


class PosteriorMaximum:
    """The largest loss of a posterior in the constraint set; its weights in a group are in proportion to the prior."""

    def __init__(self, problem: DirectProblem, share: Array) -> None:
        self._problem = problem
        least = problem.comparator.least
        free = (share > 0) & (least + 2 * np.spacing(least) < LARGEST_LOSS)
        self._on = np.flatnonzero(free)
        self._share, self._least = share[free], least[free]
        self._log_mass = problem.log_mass - problem.mass_error
        # Groups without weight have the true loss that leaves most room to the others; those that cannot have less
        # than one have it, too.
        self._ones = float(share[~free].sum())
        off = np.flatnonzero(~free)
        at_least = problem.comparator.at(off, least[off])
        self._rest = float(np.exp(self._log_mass[off] + at_least.value - at_least.error).sum()) * (1 - SLACK)
        self._log_ratio = np.log(self._share) - problem.log_mass[self._on]

    def maximize(self, log_nu: float) -> Maximum:
        """Follow Newton's method in ln(nu) until the constraint is met, and bound the maximum there."""
        problem, target = self._problem, self._problem.log_inverse_up
        if self._on.size == 0:
            return Maximum(1.0, -np.inf)
        loss = np.full(self._on.size, np.nan)
        low, high, best = -np.inf, np.inf, None
        for _ in range(MAX_STEPS):
            loss, curve = self._solve(self._log_ratio - log_nu, loss)
            found = self._bound(log_nu, loss, curve)
            if best is None or found.value < best.value:
                best = found
            exponent = problem.log_mass[self._on] + curve.value
            top = max(float(exponent.max()), -700.0)
            weight = np.exp(exponent - top)
            total = float(weight.sum()) + self._rest * np.exp(-top)
            excess = top + float(np.log(total)) - target
            if abs(excess) <= _STATIONARY:
                break
            low, high = (max(low, log_nu), high) if excess > 0 else (low, min(high, log_nu))
            with np.errstate(all="ignore"):
                slope = -float((weight / (1 + curve.curvature / curve.slope**2)).sum()) / total
                following = log_nu - excess / slope if slope < 0 else np.nan
            if not low < following < high or abs(following - log_nu) > 50:
                # Outside the interval, or where it tells nothing: halve it, or go on to where it may end.
                step = 2.0 if excess > 0 else -2.0
                following = (low + high) / 2 if np.isfinite(low + high) else log_nu + step
            # What is left of the constraint is nothing: all losses may be one.
            if following in (low, high, log_nu) or following < LOG_NEGLIGIBLE - target:
                break
            log_nu = float(following)
        assert best is not None
        return best if best.value < 1 else Maximum(1.0, -np.inf)

    def _solve(self, level: Array, loss: Array) -> tuple[Array, Curve]:
        """Maximise each group's part: where D + ln D' equals the level, by Newton's method in ln(L - least)."""
        problem, least = self._problem, self._least
        floor = least + np.maximum(2 * np.spacing(least), _SMALLEST_LOSS)
        fresh = np.isnan(loss)
        loss = np.where(
            fresh, np.clip(least + (1 - least) / 8, floor, LARGEST_LOSS), np.clip(loss, floor, LARGEST_LOSS)
        )
        curve = problem.comparator.at(self._on, loss)
        low, high = np.log(floor - least), np.log(np.maximum(LARGEST_LOSS - least, floor - least))
        going = np.arange(loss.size)
        before = np.full(loss.size, np.inf)
        for _ in range(MAX_STEPS):
            distance = loss[going] - least[going]
            u = np.log(distance)
            slope, curvature = curve.slope[going], curve.curvature[going]
            with np.errstate(all="ignore"):
                excess = curve.value[going] + np.log(slope) - level[going]
                step = excess / ((slope + curvature / slope) * distance)
            low[going] = np.where(excess < 0, u, low[going])
            high[going] = np.where(excess < 0, high[going], np.minimum(u, high[going]))
            following = u - step
            # Outside the interval, and where a step gained little, halve it.
            inside = (following > low[going]) & (following < high[going]) & (np.abs(excess) < before[going] / 2)
            before[going] = np.abs(excess)
            following = np.where(inside, following, (low[going] + high[going]) / 2)
            after = np.clip(least[going] + np.exp(following), floor[going], LARGEST_LOSS)
            moving = (np.abs(excess) > _STATIONARY) & (after != loss[going]) & (high[going] - low[going] > 4 * EPS)
            if not moving.any():
                break
            going = going[moving]
            loss[going] = after[moving]
            part = problem.comparator.at(self._on[going], loss[going])
            for whole, new in zip(curve, part, strict=True):
                whole[going] = new
        return loss, curve

    def _bound(self, log_nu: float, loss: Array, curve: Curve) -> Maximum:
        """Bound the right-hand side at one multiplier from above, by tangents to the comparators at any true losses.

        A convex D lies above its tangent. With that in its place the maximum over L has a closed form; to the left of
        the point where it touches, the slope is rounded up, and to the right down.
        """
        share, log_mass = self._share, self._log_mass[self._on]
        parts = []
        with np.errstate(all="ignore"):
            for error in (-_SLOPE_ERROR, _SLOPE_ERROR):
                slope = curve.slope * (1 + error)
                touch = log_nu + log_mass + curve.value - curve.error
                at = np.clip(loss - (touch + np.log(slope / share)) / slope, 0.0, 1.0)
                at = np.where(slope > 0, at, 1.0)
                used = np.exp(touch + slope * (at - loss))
                parts.append((share * at - used, at, used))
        larger = parts[0][0] >= parts[1][0]
        at, used = (np.where(larger, *pair) for pair in zip(parts[0][1:], parts[1][1:], strict=True))
        gained = (self._ones + float((share * at).sum())) * (1 + SLACK)
        used_up = (float(used.sum()) + float(np.exp(log_nu)) * self._rest) * (1 - SLACK)
        value = gained - used_up + float(np.exp(log_nu + self._problem.log_inverse_up)) * (1 + SLACK)
        # What the last operations can lose.
        value += 8 * EPS * gained
        return Maximum(value if np.isfinite(value) else 1.0, log_nu)


def direct_bound(
    rho: ArrayLike,
    losses: ArrayLike,
    n: ArrayLike,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    comparator: DirectComparatorName = "mixture",
) -> float:
    r"""Direct bound on the expected loss of the randomised classifier of a given posterior.

    The largest value of :math:`\sum_h \rho_h L_h` over all true losses with
    :math:`\sum_h \pi_h e^{D_h(L_h)} \le 1 / \delta`. It holds with probability at least 1 - delta for all posteriors
    simultaneously, and is never above the bound of `pac_bayes_dual` with the same comparator.

    Parameters
    ----------
    rho : array_like of shape (m,)
        Posterior weights, summing to one. It may be chosen after seeing the losses.
    losses, n, delta, prior, comparator
        As in `pacbayes.posterior.minimize_direct_bound`.

    Returns
    -------
    float
        Upper bound on :math:`E_\rho[L]`, at most 1, rounded up; 1 means that nothing is proved.

    Examples
    --------
    >>> round(direct_bound([0.8, 0.2, 0.0], [0.1, 0.12, 0.3], n=[400, 1000, 1000]), 6)
    0.154406
    """
    return direct_bound_of(rho, losses, n, delta=delta, prior=prior, comparator=comparator).value


def direct_bound_of(rho: ArrayLike, losses: ArrayLike, n: ArrayLike, **settings: Any) -> Maximum:
    """Return `direct_bound` with the multiplier, and what it was computed from; `settings` are those of a problem."""
    problem = DirectProblem(losses, n, rho=rho, **settings)
    if (problem.log_prior[problem.posterior > 0] == -np.inf).any():
        return Maximum(1.0, -np.inf)
    share = problem.weight * problem.count
    share /= share.sum() * (1 - SLACK)
    beta = starting_beta(problem.loss, problem.n, problem.complexity)
    return PosteriorMaximum(problem, share).maximize(-problem.log_inverse_up - float(np.log(beta)))
