"""The direct bound at its smallest: the root of one increasing function, and the posterior that attains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import EPS, Array
from pacbayes.bounds.comparators import DirectComparatorName
from pacbayes.bounds.direct import LARGEST_LOSS, MAX_STEPS, DirectProblem, PosteriorMaximum
from pacbayes.bounds.dual import LOG_NEGLIGIBLE, rough_bounds
from pacbayes.bounds.prior import SLACK
from pacbayes.posterior._minimizers import MinimizerResult


@dataclass(frozen=True, kw_only=True)
class DirectResult(MinimizerResult):
    r"""A posterior, and the direct bound that it minimises: all of `PosteriorResult`, and its multiplier.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior, proportional to :math:`\pi_h e^{D_h(t)} D_h'(t)`. `fun` is valid for it as it is, rounding
        included.
    nu : float
        The multiplier of the constraint on the true losses; 0 if nothing is proved.
    status, message : int and str
        0, as there is one root and it is always found.
    history : ndarray of shape (nit,)
        The values of t at every step of Newton's method, of which the last is the root up to rounding.
    """

    nu: float


class _Constraint:
    """How far true losses of at least t exceed the constraint: ln sum pi_h exp(D_h(t)) - ln(1 / delta), convex in t."""

    def __init__(self, problem: DirectProblem) -> None:
        self._problem = problem
        self._which = np.arange(problem.n.size)
        self._constant = np.full(2, -np.inf)  # logarithm of what other groups have, rounded down and up
        self.nfev = 0

    def at(self, t: float) -> tuple[float, float, float]:
        """Return the function rounded down and up, and its slope."""
        exponents, slope = self._exponents(t)
        self.nfev += 1
        top = max(float(exponents[1].max(initial=-np.inf)), float(self._constant[1]))
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.exp(exponents - top)
            down, up = top + np.log(terms.sum(axis=1) + np.exp(self._constant - top))
            mean = float((terms[0] * slope).sum() / terms[0].sum()) if top < np.inf else np.inf
        problem = self._problem
        return float(down - SLACK - problem.log_inverse_up), float(up + SLACK - problem.log_inverse_down), mean

    def _exponents(self, t: float) -> tuple[Array, Array]:
        problem, which = self._problem, self._which
        least = problem.comparator.least[which]
        curve = problem.comparator.at(which, np.maximum(t, least))
        error = curve.error + problem.mass_error[which]
        middle = problem.log_mass[which] + curve.value
        return np.stack((middle - error, middle + error)), np.where(t > least, curve.slope, 0.0)

    def restrict(self, t: float) -> None:
        """Keep those groups only whose part changes, and is not negligible, at values below t."""
        # What is negligible above the root is even less at the root.
        exponents, _ = self._exponents(t)
        negligible = exponents[1] < self._problem.log_inverse_down + LOG_NEGLIGIBLE
        still = ~negligible & (self._problem.comparator.least[self._which] >= t)
        self._constant[0] = np.logaddexp.reduce(exponents[0][still], initial=-np.inf) - SLACK
        self._constant[1] = np.logaddexp.reduce(exponents[1][still | negligible], initial=-np.inf) + SLACK
        self._which = self._which[~(still | negligible)]


def minimize_direct_bound(
    losses: ArrayLike,
    n: ArrayLike,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    comparator: DirectComparatorName = "mixture",
    grid_delta: float | None = None,
) -> DirectResult:
    r"""Minimise the direct bound over all posteriors, in closed form, certified.

    With probability at least 1 - delta the true losses satisfy :math:`\sum_h \pi_h e^{D_h(L_h)} \le \frac1\delta`, and
    for all posteriors rho simultaneously :math:`E_\rho[L]` is at most its maximum over such losses. The smallest of
    these maxima is the root t of

    .. math:: \sum_h \pi_h e^{D_h(\max(t, \ell_h))} = \frac1\delta,

    :math:`\ell_h` being where the comparator :math:`D_h` is smallest, and the posterior that attains it is proportional
    to :math:`\pi_h e^{D_h(t)} D_h'(t)` where :math:`\ell_h < t`. The left-hand side does not fall: no search, no
    alternation, and no condition. The bound is never above that of `minimize_dual_bound` with the same comparator.

    Parameters
    ----------
    losses, delta, prior
        As in `minimize_lambda_bound`.
    n : int or array_like of shape (m,)
        Number of points each loss was measured on, chosen independently of those points.
    comparator : {"mixture", "kl", "p-value"}, default="mixture"
        What compares true and empirical losses: a mixture of Catoni's inequalities,
        :math:`D_h(L) = n_h\, kl(\hat L_h \| L) - \ln \xi(n_h)`, or a power of the exact p-value,
        :math:`\ln \kappa - (1 - \kappa) \ln P(Bin(n_h, L) \le n_h \hat L_h)` with :math:`\kappa = 0.1`, which is for
        the zero-one loss only. Choose before looking at the losses.
    grid_delta : float, optional
        As in `minimize_dual_bound`.

    Returns
    -------
    DirectResult
        The posterior `rho`, its bound `fun`, and a `lower` bound on it, which differ by rounding only.

    Examples
    --------
    >>> losses, n = [0.10, 0.12, 0.15, 0.30, 0.45], [300, 500, 500, 500, 500]
    >>> result = minimize_direct_bound(losses, n)
    >>> round(result.fun, 6), result.rho.round(3).tolist()
    (0.167982, [0.744, 0.255, 0.001, 0.0, 0.0])
    >>> 0 <= result.fun - result.lower <= 1e-12
    True
    """
    problem = DirectProblem(losses, n, delta, prior, comparator, grid_delta)
    constraint = _Constraint(problem)
    history, lower = _find_root(problem, constraint)
    rho, fun, log_nu = _best_posterior(problem, history[-1])
    loss, kl_div = problem.describe(rho)
    return DirectResult(
        rho=rho,
        nu=float(np.exp(log_nu)),
        fun=fun,
        loss=loss,
        kl_div=kl_div,
        lower=min(lower, fun),
        nit=len(history),
        nfev=constraint.nfev,
        status=0,
        message="The root was found, to rounding.",
        history=np.array(history),
    )


def _find_root(problem: DirectProblem, constraint: _Constraint) -> tuple[list[float], float]:
    """Solve for t by Newton's method, which decreases to the root from above; the steps, and a t below the root."""
    low, high = 0.0, LARGEST_LOSS
    t = float(min(rough_bounds(problem.loss, problem.n, problem.complexity).min(), high))
    history: list[float] = []
    restricted = False
    while len(history) < MAX_STEPS:
        down, up, slope = constraint.at(t)
        history.append(t)
        excess = down / 2 + up / 2
        if down > 0 and np.isfinite(up) and not restricted:
            constraint.restrict(t)
            restricted = True
        low, high = (low, min(t, high)) if excess > 0 else (max(t, low), high)
        following = t - excess / slope if 0 < slope < np.inf else np.nan
        # Where only rounding is left to gain, the step goes nowhere.
        if down <= 0 <= up or following == t:
            break
        if not low < following < high:
            following = high if following >= high and LARGEST_LOSS not in history else (low + high) / 2
        if following in (low, high) and following in history:
            break
        t = float(following)
    # Down by what the error is worth at this slope, and further if need be.
    step = max((up - down) / slope if 0 < slope < np.inf else 0.0, np.spacing(t))
    lower = t
    while lower > 0 and constraint.at(lower)[1] > 0:
        lower, step = max(lower - step, 0.0), 4 * step
    return history, lower


def _best_posterior(problem: DirectProblem, t: float) -> tuple[Array, float, float]:
    """Return the posterior of a root t, and its bound with the logarithm of the multiplier."""
    least = problem.comparator.least
    curve = problem.comparator.at(np.arange(problem.n.size), np.maximum(t, least))
    rho = np.zeros(problem.losses.size)
    within = problem.log_prior[problem.support] - problem.log_mass[problem.slot]
    with np.errstate(divide="ignore"):
        log_part = problem.log_mass + curve.value + np.log(np.where(t > least, curve.slope, 0.0))
    top = float(log_part.max())
    if t < LARGEST_LOSS and np.isfinite(top):
        share = np.exp(log_part - top)
        log_nu = -top - float(np.log(share.sum()))
        share /= share.sum()
        rho[problem.support] = share[problem.slot] * np.exp(within)
        # Weights within a group are in proportion to the prior, but for the rounding of logarithms; of those that are
        # next to nothing, all of it is added.
        error = np.where(problem.count > 1, 2 * EPS * (8 - problem.log_mass), 0.0)
        several = (problem.count > 1)[problem.slot] & (within > LOG_NEGLIGIBLE)
        np.maximum.at(error, problem.slot[several], 2 * EPS * (8 - problem.log_prior[problem.support][several]))
        error[problem.count > 1] += problem.losses.size * np.exp(LOG_NEGLIGIBLE)
        best = PosteriorMaximum(problem, share * (1 + error) / (float(rho.sum()) * (1 - SLACK))).maximize(log_nu)
        if best.value < 1:
            return rho, best.value, best.log_nu
    rho[problem.support] = np.exp(problem.log_prior[problem.support])
    return rho / rho.sum(), 1.0, -np.inf
