r"""PAC-Bayesian bounds for unequal validation sets, without Jensen's inequality.

Let hypothesis h have empirical loss :math:`\hat L_h` on :math:`n_h` points that did not shape it, and let
:math:`D_h` be a comparator (`pacbayes.bounds.comparators`): convex in the true loss, with
:math:`E[e^{D_h(L_h)}] \le 1`. With probability at least 1 - delta, for all posteriors rho simultaneously,

.. math:: E_\rho[D_h(L_h)] \le KL(\rho \| \pi) + \ln\frac1\delta.

`pacbayes.posterior.minimize_dual_bound` says what follows for :math:`E_\rho[L]` and every :math:`\mu > 0`. For a given
mu the best posterior is proportional to :math:`\pi_h e^{-\psi_h(\mu) / \mu}`, and what it attains is

.. math:: F(\mu) = \mu \left[\ln\frac1\delta - \ln \sum_h \pi_h e^{-\psi_h(\mu) / \mu}\right].

Proofs are in the documentation, on the page "Unequal validation sets". Internally :math:`\beta = 1 / \mu` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import EPS, Array
from pacbayes.bounds.comparators import ComparatorName, ConjugateComparator, log_sum_exp
from pacbayes.bounds.grouping import GroupedProblem
from pacbayes.bounds.prior import SLACK, posterior_weights

# Values of beta that are evaluated; the bounds are vacuous beyond.
BETA_RANGE = (1e-290, 1e290)

# Numbers held at once when many values of mu are evaluated over many hypotheses: 16 MiB of floats.
_BLOCK = 1 << 21

# Groups with less than exp(this) of the posterior, or of a constraint, are evaluated roughly, on the safe side.
LOG_NEGLIGIBLE = -60.0


class Step(NamedTuple):
    """A bound F at some beta, with the first and second derivative of beta F."""

    beta: float
    value: float
    mean: float
    curvature: float


class Nodes(NamedTuple):
    """F at several values of beta, with lower bounds on all conjugates that are linear in beta."""

    beta: Array
    value: Array  # rounded up
    mean: Array  # of the maximisers under the best posterior: the derivative of beta F
    curvature: Array  # second derivative of beta F
    maximizer: Array
    deviation: Array


class DualProblem(GroupedProblem):
    """F as a function of beta, for m hypotheses that are grouped by loss and number of points."""

    comparator: ConjugateComparator
    _COMPARATORS = ComparatorName

    @property
    def rows(self) -> int:
        """How many values of beta to evaluate at once."""
        return max(1, _BLOCK // (self.n.size * self.comparator.width))

    @property
    def largest_beta(self) -> float:
        """Where a search for the best beta ends."""
        return min(1e14 * float(self.n.max()), BETA_RANGE[1])

    def at(self, beta: Array) -> Nodes:
        """F and its parts."""
        conjugate = self.comparator.conjugate(beta, self._is_relevant)
        exponent = self.log_mass - self.mass_error - conjugate.upper
        log_sum, weight = log_sum_exp(exponent)
        with np.errstate(over="ignore"):
            value = (self.log_inverse_up - log_sum + SLACK) / beta * (1 + 8 * EPS)
        mean = (weight * conjugate.maximizer).sum(axis=1)
        spread = (conjugate.maximizer - mean[:, np.newaxis]) ** 2
        curvature = (weight * (conjugate.curvature - spread)).sum(axis=1)
        return Nodes(beta, value, mean, curvature, conjugate.maximizer, conjugate.deviation)

    def step(self, beta: float) -> Step:
        """F at one beta."""
        return Step(beta, *(float(figure[0]) for figure in self.at(np.array([beta]))[1:4]))

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        """Whether groups have a share in the best posterior that can be seen, by lower bounds on their conjugates."""
        exponent = self.log_mass - conjugate
        return np.asarray(exponent >= exponent.max(axis=1, keepdims=True) + LOG_NEGLIGIBLE)

    def above(self, nodes: Nodes, beta: Array, level: float) -> tuple[Array, Array]:
        """How far beta F(beta) lies above level * beta at least, by the lines of each node, and the slope of that.

        One beta for each node. Rounded down, and concave in beta: it is minus the logarithm of a sum of exponentials of
        linear functions, minus a linear one.
        """
        line = beta[:, np.newaxis] * nodes.maximizer - nodes.deviation
        log_sum, weight = log_sum_exp(self.log_mass + self.mass_error - line)
        distance = self.log_inverse_down - log_sum - SLACK - level * beta * (1 + 8 * EPS)
        return distance, (weight * nodes.maximizer).sum(axis=1) - level

    def value_at_zero(self) -> float:
        """beta F(beta) at beta = 0, rounded down."""
        log_sum, _ = log_sum_exp((self.log_mass + self.mass_error - self.comparator.minimum)[np.newaxis])
        # The conjugates are not negative, hence neither is minus the logarithm.
        return max(float(self.log_inverse_down - log_sum[0]) * (1 - 8 * EPS) - SLACK, self.log_inverse_down)

    def last(self, level: float) -> float:
        """Return a beta from which on all maximisers are at least `level`: D' is at most n / (1 - L)."""
        return float(np.clip(self.n.max() / (1 - level) * (1 + 1e-9), *BETA_RANGE))

    def rho(self, beta: float) -> Array:
        """The best posterior for a given beta."""
        conjugate = self.comparator.conjugate(np.array([beta]), self._is_relevant).upper[0]
        exponent = self.log_prior[self.support] - conjugate[self.slot]
        weight = np.exp(exponent - exponent.max())
        rho = np.zeros(self.losses.size)
        rho[self.support] = weight / weight.sum()
        return rho


# -- the bound of a given posterior ------------------------------------------------------------------


def descend(evaluate: Callable[[float], Step], beta: float, low: float, high: float, max_iter: int) -> list[Step]:
    """Follow Newton's method in ln(beta) to a stationary point between `low` and `high`."""
    lower, upper = np.log(low), np.log(high)
    u = float(np.clip(np.log(beta), lower, upper))
    steps: list[Step] = []
    while len(steps) < max_iter:
        step = evaluate(float(np.exp(u)))
        steps.append(step)
        slope = step.mean - step.value
        if slope < 0:
            lower = u
        else:
            upper = u
        curvature = step.beta * step.curvature - slope
        # What a step can still gain, slope^2 / (2 curvature), is less than a float can tell.
        if slope == 0 or (curvature > 0 and slope**2 <= EPS / 16 * curvature * step.value):
            break
        following = u - slope / curvature if curvature > 0 else np.nan
        if not lower < following < upper:
            following = (lower + upper) / 2
        if following in (lower, upper, u):
            break
        u = float(following)
    return steps


def rough_bounds(loss: Array, n: Array, complexity: Array) -> Array:
    """The square-root bound (eq. PBsqrt) of each group on its own."""
    c = complexity / n
    return np.asarray(loss + c + np.sqrt(c) * np.sqrt(c + 2 * loss))


def starting_beta(loss: Array, n: Array, complexity: Array) -> float:
    """The best beta for the one group whose bound is smallest, by the square-root bound (eq. PBsqrt)."""
    bound = rough_bounds(loss, n, complexity)
    best = int(np.argmin(bound))
    p, b = float(loss[best]), min(float(bound[best]), 0.9)
    # The conjugate's maximiser is b where n / beta = b (1 - b) / (b - p).
    return float(n[best]) * (b - p) / (b * (1 - b)) if p < b else 10 * float(n[best])


class FixedPosterior:
    """The right-hand side of the bound for one posterior, as a function of beta."""

    def __init__(self, problem: DualProblem, rho: Array) -> None:
        self._problem = problem
        self._rho = rho[problem.support]
        self._total = total = float(rho.sum())
        self.loss, self.kl_div = problem.describe(rho)
        self.complexity = (self.kl_div + problem.log_inverse_up) * (1 + 2 * EPS)
        self._weight = np.bincount(problem.slot, rho[problem.support], minlength=problem.n.size) / total

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        return np.broadcast_to(self._weight > np.exp(LOG_NEGLIGIBLE), conjugate.shape)

    def at(self, beta: float) -> Step:
        conjugate = self._problem.comparator.conjugate(np.array([beta]), self._is_relevant)
        # Over hypotheses rather than groups: NumPy sums arrays pairwise, and so loses next to nothing.
        mean_conjugate = float((self._rho * conjugate.upper[0][self._problem.slot]).sum()) / self._total * (1 + SLACK)
        value = (mean_conjugate + self.complexity) / beta * (1 + 2 * EPS)
        mean = float((self._weight * conjugate.maximizer[0]).sum())
        return Step(beta, value, mean, float((self._weight * conjugate.curvature[0]).sum()))


def pac_bayes_dual(
    rho: ArrayLike,
    losses: ArrayLike,
    n: ArrayLike,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    comparator: ComparatorName = "kl",
) -> float:
    r"""Dual bound on the expected loss of the randomised classifier of a given posterior.

    The smallest value over mu of :math:`E_\rho[\psi_h(\mu)] + \mu (KL(\rho \| \pi) + \ln\frac1\delta)`. It holds with
    probability at least 1 - delta for all posteriors simultaneously.

    Parameters
    ----------
    rho : array_like of shape (m,)
        Posterior weights, summing to one. It may be chosen after seeing the losses.
    losses, n, delta, prior, comparator
        As in `pacbayes.posterior.minimize_dual_bound`.

    Returns
    -------
    float
        Upper bound on :math:`E_\rho[L]`, at most 1, rounded up; 1 means that nothing is proved.

    Examples
    --------
    >>> round(pac_bayes_dual([0.8, 0.2, 0.0], [0.1, 0.12, 0.3], n=[400, 1000, 1000]), 6)
    0.165312
    """
    return dual_bound_of(rho, losses, n, delta=delta, prior=prior, comparator=comparator).fun


class FixedBound(NamedTuple):
    """The dual bound of a given posterior: its value, the multiplier, and the posterior's divergence."""

    fun: float
    mu: float
    kl_div: float


def dual_bound_of(rho: ArrayLike, losses: ArrayLike, n: ArrayLike, **settings: Any) -> FixedBound:
    """Return `pac_bayes_dual` with the multiplier and the divergence; `settings` are those of a problem."""
    problem = DualProblem(losses, n, **settings)
    weights = posterior_weights(rho, problem.losses.size)
    if (problem.log_prior[weights > 0] == -np.inf).any():
        return FixedBound(1.0, 0.0, np.inf)
    posterior = FixedPosterior(problem, weights)
    start = starting_beta(
        np.array([posterior.loss]), problem.n.max(keepdims=True), np.array([posterior.complexity + 2])
    )
    # Below the complexity the bound is above one.
    steps = descend(posterior.at, start, posterior.complexity, problem.largest_beta, 200)
    best = min(steps, key=lambda step: step.value)
    return FixedBound(min(1.0, best.value), 1 / best.beta, posterior.kl_div)
