r"""PAC-Bayesian bounds for unequal validation sets, without Jensen's inequality.

Let hypothesis h have empirical loss :math:`\hat L_h` on :math:`n_h` points that did not shape it, and let
:math:`D_h` be a comparator (`pacbayes.comparators`): convex in the true loss, with :math:`E[e^{D_h(L_h)}] \le 1`. With
probability at least 1 - delta, for all posteriors rho simultaneously,

.. math:: E_\rho[D_h(L_h)] \le KL(\rho \| \pi) + \ln\frac1\delta,

and therefore, for all :math:`\mu > 0` as well,

.. math:: E_\rho[L_h] \le E_\rho[\psi_h(\mu)] + \mu \left(KL(\rho \| \pi) + \ln\frac1\delta\right), \qquad
    \psi_h(\mu) = \max_{0 \le L \le 1} \{L - \mu D_h(L)\}.

For a given mu the best posterior is proportional to :math:`\pi_h e^{-\psi_h(\mu) / \mu}`, and what it attains is

.. math:: F(\mu) = \mu \left[\ln\frac1\delta - \ln \sum_h \pi_h e^{-\psi_h(\mu) / \mu}\right].

Proofs are in the documentation, on the page "Unequal validation sets". Internally :math:`\beta = 1 / \mu` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import Array, as_real_array, loss_vector, open_interval, scalar, whole_number
from pacbayes.comparators import ComparatorName, make_comparator
from pacbayes.gibbs import SLACK, normalise_log_prior

__all__ = ["DualResult", "dual_bound", "minimize_dual_bound", "pac_bayes_dual"]

_EPS = float(np.finfo(np.float64).eps)

# Values of beta outside this range are replaced by its ends: the bound is vacuous there.
_BETA_RANGE = (1e-290, 1e290)

# Positive losses below this are replaced by it, since the arithmetic on subnormal numbers loses digits.
_SMALLEST_LOSS = 1e-280

# A posterior may miss one by this much before it is an error rather than rounding.
_RHO_TOLERANCE = 1e-8

# Numbers held at once when many values of mu are evaluated over many hypotheses: 16 MiB of floats.
_BLOCK = 1 << 21

# Groups with less than exp(this) of the posterior are evaluated roughly, on the safe side.
_LOG_NEGLIGIBLE = -60.0

# What rounding may take from `lower` beyond the tolerance that was asked for, relative to the bound.
_GAP_SLACK = 1e-12


@dataclass(frozen=True)
class DualResult:
    r"""A posterior, and the dual bound that it minimises.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior, proportional to :math:`\pi_h e^{-\psi_h(\mu) / \mu}`.
    mu : float
        The multiplier; 0 if nothing is proved.
    fun : float
        The bound on :math:`E_\rho[L]`, rounded up. It is valid for `rho` as it is, rounding included.
    loss : float
        Empirical loss :math:`E_\rho[\hat L]`, rounded up.
    kl_div : float
        :math:`KL(\rho \| \pi)`, rounded up.
    lower : float
        A proved lower bound on the minimum over all posteriors and all mu, rounded down.
    nit : int
        Number of steps of the descents.
    nfev : int
        Number of values of mu at which the bound was evaluated, those of the proof included.
    status : int
        0 if `lower` is as close to `fun` as asked, 1 if `max_iter` ended the search before.
    message : str
        The status in words.
    converged : bool
        Whether `status` is 0.
    history : ndarray
        The smallest bound so far at every step of the descents; its last entry is `fun` up to rounding.
    mu_history : ndarray
        The multiplier at every step of the descents.
    lam : None
        For symmetry with `PosteriorResult`: the posterior is no Gibbs posterior of the empirical losses.
    """

    rho: Array = field(repr=False)
    mu: float
    fun: float
    loss: float
    kl_div: float
    lower: float
    nit: int
    nfev: int
    status: int
    message: str
    converged: bool
    history: Array = field(repr=False)
    mu_history: Array = field(repr=False)
    lam: None = None


# ---------------------------------------------------------------------------------------------------
# The hypotheses, grouped
# ---------------------------------------------------------------------------------------------------


class _Nodes(NamedTuple):
    """F at several values of beta, each with lower bounds on all conjugates that are linear in beta."""

    beta: Array
    value: Array  # F, rounded up
    mean: Array  # of the maximisers under the best posterior: the derivative of beta F
    curvature: Array  # second derivative of beta F
    maximizer: Array
    deviation: Array


class _Problem:
    """Losses, numbers of points and prior of m hypotheses, grouped by loss and number of points."""

    def __init__(
        self, losses: ArrayLike, n: ArrayLike, delta: float, prior: ArrayLike | None, comparator: ComparatorName
    ) -> None:
        self.losses = loss_vector("losses", losses)
        m = self.losses.size
        sizes = _points_per_hypothesis(n, m)
        self.delta = scalar("delta", open_interval("delta", delta, 0, 1))
        self.log_prior = np.full(m, -np.log(m)) if prior is None else normalise_log_prior(prior, m)
        self.support = np.flatnonzero(self.log_prior > -np.inf)
        loss, self.n, self.slot = _group(self.losses[self.support], sizes[self.support])
        self.loss = np.where(loss > 0, np.maximum(loss, _SMALLEST_LOSS), 0.0)
        self.comparator = make_comparator(comparator, self.loss, self.n, self.delta)
        self.log_mass = _log_sums(self.log_prior[self.support], self.slot, self.n.size)
        # More than rounding can have moved the logarithms of the prior and what is added to them.
        self._mass_error = SLACK * (1 - self.log_mass)
        self.rows = max(1, _BLOCK // (self.n.size * self.comparator.width))
        log_inverse = -np.log(self.delta)
        self.log_inverse_down, self.log_inverse_up = log_inverse * (1 - 2 * _EPS), log_inverse * (1 + 2 * _EPS)

    def at(self, beta: Array) -> _Nodes:
        """F and its parts."""
        conjugate = self.comparator.conjugate(beta, self._is_relevant)
        exponent = self.log_mass - self._mass_error - conjugate.upper
        log_sum, weight = _log_sum_exp(exponent)
        with np.errstate(over="ignore"):
            value = (self.log_inverse_up - log_sum + SLACK) / beta * (1 + 2 * _EPS)
        mean = (weight * conjugate.maximizer).sum(axis=1)
        spread = (conjugate.maximizer - mean[:, np.newaxis]) ** 2
        curvature = (weight * (conjugate.curvature - spread)).sum(axis=1)
        return _Nodes(beta, value, mean, curvature, conjugate.maximizer, conjugate.deviation)

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        """Whether groups have a share in the best posterior that can be seen, by lower bounds on their conjugates."""
        exponent = self.log_mass - conjugate
        return np.asarray(exponent > exponent.max(axis=1, keepdims=True) + _LOG_NEGLIGIBLE)

    def above(self, nodes: _Nodes, beta: Array, level: float) -> tuple[Array, Array]:
        """How far beta F(beta) lies above level * beta at least, by the lines of the nodes, and the slope of that.

        One beta for each node. Concave in beta: minus the logarithm of a sum of exponentials of linear functions.
        """
        line = beta[:, np.newaxis] * nodes.maximizer - nodes.deviation
        log_sum, weight = _log_sum_exp(self.log_mass + self._mass_error - line)
        distance = self.log_inverse_down - log_sum - SLACK - level * beta * (1 + 2 * _EPS)
        return distance, (weight * nodes.maximizer).sum(axis=1) - level

    def value_at_zero(self) -> float:
        """beta F(beta) at beta = 0, rounded down; it does not decrease with beta."""
        log_sum, _ = _log_sum_exp((self.log_mass + self._mass_error - self.comparator.minimum)[np.newaxis])
        # The conjugates are not negative, hence neither is minus the logarithm.
        return max(float(self.log_inverse_down - log_sum[0]) - SLACK, self.log_inverse_down)

    def rho(self, beta: float) -> Array:
        """The best posterior for a given beta."""
        conjugate = self.comparator.conjugate(np.array([beta]), self._is_relevant).upper[0]
        exponent = self.log_prior[self.support] - conjugate[self.slot]
        weight = np.exp(exponent - exponent.max())
        rho = np.zeros(self.losses.size)
        rho[self.support] = weight / weight.sum()
        return rho


def _points_per_hypothesis(n: ArrayLike, m: int) -> Array:
    sizes = whole_number("n", n)
    if sizes.ndim != 0 and sizes.shape != (m,):
        raise ValueError(
            f"n must be a single number or have one entry per hypothesis: there are {m} losses, got shape {sizes.shape}"
        )
    return np.broadcast_to(sizes, (m,))


def _group(losses: Array, n: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Distinct pairs of loss and number of points, and which of them each hypothesis has."""
    distinct_losses, loss_code = np.unique(losses, return_inverse=True)
    distinct_n, n_code = np.unique(n, return_inverse=True)
    pairs, slot = np.unique(loss_code * distinct_n.size + n_code, return_inverse=True)
    return distinct_losses[pairs // distinct_n.size], distinct_n[pairs % distinct_n.size], slot


def _log_sums(log_values: Array, slot: NDArray[np.intp], size: int) -> Array:
    """Logarithm of the sum of exp(log_values) over each slot, of whatever magnitude, at most ln 1."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, slot, log_values)
    sums = np.bincount(slot, np.exp(log_values - top[slot]), minlength=size)
    return np.asarray(np.minimum(top + np.log(sums), 0.0))


def _log_sum_exp(exponent: Array) -> tuple[Array, Array]:
    """Logarithms of the rows' sums of exponentials, and the shares of their terms."""
    top = exponent.max(axis=1)
    weight = np.exp(exponent - top[:, np.newaxis])
    total = weight.sum(axis=1)
    return top + np.log(total), weight / total[:, np.newaxis]


# ---------------------------------------------------------------------------------------------------
# Descent and proof
# ---------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """A bound at some beta, with the first and second derivative of beta times the bound."""

    beta: float
    value: float
    mean: float
    curvature: float


def _descend(evaluate: Callable[[float], _Step], beta: float, low: float, high: float, max_iter: int) -> list[_Step]:
    """Follow Newton's method in ln(beta) to a stationary point between `low` and `high`."""
    lower, upper = np.log(low), np.log(high)
    u = float(np.clip(np.log(beta), lower, upper))
    steps: list[_Step] = []
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
        if slope == 0 or (curvature > 0 and slope**2 <= _EPS / 16 * curvature * step.value):
            break
        following = u - slope / curvature if curvature > 0 else np.nan
        if not lower < following < upper:
            following = (lower + upper) / 2
        if following in (lower, upper, u):
            break
        u = float(following)
    return steps


def _reach(problem: _Problem, nodes: _Nodes, limit: Array, level: float) -> Array:
    """How far from each node towards `limit` the bound is proved to be at least `level`.

    The distance above the level is concave. Outside its zero, Newton's method approaches the zero from outside; the
    chord from there to the node meets zero inside.
    """
    outside = limit.copy()
    at_node, _ = problem.above(nodes, nodes.beta, level)
    distance, slope = problem.above(nodes, outside, level)
    reached = np.where(distance >= 0, limit, nodes.beta)
    open_ = (distance < 0) & (at_node > 0)
    for _ in range(6):
        if not open_.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            chord = nodes.beta + (outside - nodes.beta) * (at_node / (at_node - distance))
            newton = outside - distance / slope
        reached = np.where(open_, chord, reached)
        open_ &= np.abs(newton - chord) > 0.1 * np.abs(newton - nodes.beta)
        between = (newton - outside) * (nodes.beta - newton) > 0
        open_ &= between
        outside = np.where(open_, newton, outside)
        distance, slope = problem.above(nodes, outside, level)
        open_ &= distance < 0
    # In exact arithmetic the chord's zero is inside; what rounding has put outside is given up.
    return np.where(problem.above(nodes, reached, level)[0] >= 0, reached, nodes.beta)


class _Proof(NamedTuple):
    """What a proof came to."""

    lower: float  # on the bound, for every beta
    better: float | None  # a beta with a bound below the level, if there is one
    nfev: int
    complete: bool


def _prove(problem: _Problem, level: float, max_iter: int) -> _Proof:
    """Show that the bound is at least `level` for every beta, or find a beta where it is not."""
    # beta F does not decrease, so F >= level up to its value at zero over the level. From n / (1 - level) on all
    # maximisers are at least the level, and so are the slopes of the lines: a node there reaches to infinity.
    last = float(np.clip(problem.n.max() / (1 - level) * (1 + 1e-9), *_BETA_RANGE))
    first = problem.value_at_zero() / level * (1 - 2 * _EPS)
    gaps = [(min(first, last), last, last)]  # left end, right end, where to evaluate
    nfev = 0
    while gaps:
        taken, gaps = gaps[: problem.rows], gaps[problem.rows :]
        if nfev + len(taken) > max_iter:
            # beta F is at least level * beta at the left end of a gap, and does not decrease.
            ratio = min(left / right for left, right, _ in taken + gaps)
            return _Proof(level * ratio * (1 - 4 * _EPS), None, nfev, False)
        left, right, beta = np.array(taken).T
        nodes = problem.at(beta)
        nfev += beta.size
        if nodes.value.min() < level:
            return _Proof(0.0, float(beta[nodes.value.argmin()]), nfev, False)
        # Where rounding hides that the bound is above the level, the level gives way.
        shortfall = float((problem.above(nodes, beta, level)[0] / beta).min())
        if shortfall < 0:
            level = (level + 2 * shortfall) * (1 - 4 * _EPS)
            if level <= 0:
                return _Proof(0.0, None, nfev, False)
        lefts, rights = _reach(problem, nodes, left, level), _reach(problem, nodes, right, level)
        for low, high in [*zip(left, lefts, strict=True), *zip(rights, right, strict=True)]:
            middle = np.sqrt(low) * np.sqrt(high)
            if low < middle < high:
                gaps.append((float(low), float(high), float(middle)))
            elif low < high:  # no float lies inside
                level *= low / high * (1 - 4 * _EPS)
    return _Proof(level, None, nfev, True)


# ---------------------------------------------------------------------------------------------------
# Bounds
# ---------------------------------------------------------------------------------------------------


def dual_bound(
    losses: ArrayLike,
    mu: ArrayLike,
    n: ArrayLike,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    *,
    comparator: ComparatorName = "kl",
) -> Any:
    r"""Dual bound of the best posterior as a function of the multiplier alone, F(mu), rounded up.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    mu : array_like
        Multipliers, positive.
    n : int or array_like of shape (m,)
        Number of points each loss was measured on, chosen independently of those points.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    comparator : {"kl", "mixture"}, default="kl"
        As in `minimize_dual_bound`.

    Returns
    -------
    float or ndarray
        F at each mu; 1 or more means that nothing is proved.

    Examples
    --------
    >>> dual_bound([0.1, 0.2, 0.2], mu=[0.005, 0.02], n=[500, 1000, 1000]).round(6).tolist()
    [0.155588, 0.253371]
    """
    mu_array = open_interval("mu", mu, 0, np.inf)
    problem = _Problem(losses, n, delta, prior, comparator)
    with np.errstate(over="ignore"):
        beta = np.clip(1 / mu_array.ravel(), *_BETA_RANGE)
    blocks = [problem.at(beta[i : i + problem.rows]).value for i in range(0, beta.size, problem.rows)]
    values = np.concatenate(blocks) if blocks else beta
    return values.reshape(mu_array.shape) if mu_array.ndim else float(values[0])


class _FixedPosterior:
    """The right-hand side of the bound for one posterior, as a function of beta."""

    def __init__(self, problem: _Problem, rho: Array) -> None:
        self._problem = problem
        total = float(rho.sum())
        on = rho > 0
        self.loss = min(1.0, float((rho * problem.losses).sum()) / total * (1 + SLACK))
        log_rho, log_prior = np.log(rho[on]) - np.log(total), problem.log_prior[on]
        # The difference of two logarithms each of which carries a relative error.
        error = 4 * _EPS * float((rho[on] * (np.abs(log_rho) + np.abs(log_prior))).sum())
        kl_div = float((rho[on] * (log_rho - log_prior)).sum())
        is_prior = bool((log_rho == log_prior).all())
        self.kl_div = 0.0 if is_prior else max(kl_div, 0.0) * (1 + SLACK) + error + SLACK
        self.complexity = (self.kl_div + problem.log_inverse_up) * (1 + 2 * _EPS)
        self._weight = np.bincount(problem.slot, rho[problem.support], minlength=problem.n.size) / total

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        return np.broadcast_to(self._weight > np.exp(_LOG_NEGLIGIBLE), conjugate.shape)

    def at(self, beta: float) -> _Step:
        conjugate = self._problem.comparator.conjugate(np.array([beta]), self._is_relevant)
        mean_conjugate = float((self._weight * conjugate.upper[0]).sum()) * (1 + SLACK)
        value = (mean_conjugate + self.complexity) / beta * (1 + 2 * _EPS)
        mean = float((self._weight * conjugate.maximizer[0]).sum())
        return _Step(beta, value, mean, float((self._weight * conjugate.curvature[0]).sum()))


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

    The smallest value over mu of :math:`E_\rho[\psi_h(\mu)] + \mu (KL(\rho \| \pi) + \ln\frac1\delta)`: the largest
    :math:`E_\rho[L]` that :math:`E_\rho[D_h(L_h)] \le KL(\rho \| \pi) + \ln\frac1\delta` allows. It holds with
    probability at least 1 - delta for all posteriors simultaneously.

    Parameters
    ----------
    rho : array_like of shape (m,)
        Posterior weights, summing to one. It may be chosen after seeing the losses.
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int or array_like of shape (m,)
        Number of points each loss was measured on, chosen independently of those points.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    comparator : {"kl", "mixture"}, default="kl"
        As in `minimize_dual_bound`.

    Returns
    -------
    float
        Upper bound on :math:`E_\rho[L]`, at most 1, rounded up; 1 means that nothing is proved.

    Examples
    --------
    >>> round(pac_bayes_dual([0.8, 0.2, 0.0], [0.1, 0.12, 0.3], n=[400, 1000, 1000]), 6)
    0.162744
    """
    return dual_bound_of(rho, losses, n, delta=delta, prior=prior, comparator=comparator).fun


class FixedBound(NamedTuple):
    """The dual bound of a given posterior: its value, the multiplier, and the posterior's loss and divergence."""

    fun: float
    mu: float
    loss: float
    kl_div: float


def dual_bound_of(
    rho: ArrayLike,
    losses: ArrayLike,
    n: ArrayLike,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    comparator: ComparatorName = "kl",
) -> FixedBound:
    """Return `pac_bayes_dual` with the multiplier, and the loss and divergence that it was computed from."""
    problem = _Problem(losses, n, delta, prior, comparator)
    weights = _posterior("rho", rho, problem.losses.size)
    if (problem.log_prior[weights > 0] == -np.inf).any():
        return FixedBound(1.0, 0.0, 1.0, np.inf)
    posterior = _FixedPosterior(problem, weights)
    largest = float(problem.n.max())
    start = _starting_beta(np.array([posterior.loss]), np.array([largest]), np.array([posterior.complexity + 2]))
    # Below the complexity the bound is above one.
    steps = _descend(posterior.at, start, posterior.complexity, 1e14 * largest, 200)
    best = min(steps, key=lambda step: step.value)
    return FixedBound(min(1.0, best.value), 1 / best.beta, posterior.loss, posterior.kl_div)


def _posterior(name: str, value: ArrayLike, m: int) -> Array:
    weights = as_real_array(name, value, "an array of numbers")
    if weights.shape != (m,):
        raise ValueError(f"{name} must have one entry per hypothesis: there are {m} losses, got shape {weights.shape}")
    if not (weights >= 0).all():
        raise ValueError(f"{name} must be non-negative, got {weights[~(weights >= 0)][0]!s}")
    if not abs(weights.sum() - 1) <= _RHO_TOLERANCE:
        raise ValueError(f"{name} must sum to one, got a sum of {weights.sum()!s}")
    return weights


def _starting_beta(loss: Array, n: Array, complexity: Array) -> float:
    """The best beta for the one group whose bound is smallest, by the square-root bound (eq. PBsqrt)."""
    c = complexity / n
    bound = loss + c + np.sqrt(c) * np.sqrt(c + 2 * loss)
    best = int(np.argmin(bound))
    p, b = float(loss[best]), min(float(bound[best]), 0.9)
    # The conjugate's maximiser is b where n / beta = b (1 - b) / (b - p).
    return float(n[best]) * (b - p) / (b * (1 - b)) if p < b else 10 * float(n[best])


def minimize_dual_bound(
    losses: ArrayLike,
    n: ArrayLike,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    comparator: ComparatorName = "kl",
    rtol: float = 1e-8,
    max_iter: int = 10_000,
) -> DualResult:
    r"""Minimise the dual PAC-Bayes bound over all posteriors and multipliers, certified.

    With probability at least 1 - delta, for all posteriors rho and all :math:`\mu > 0` simultaneously,

    .. math:: E_\rho[L] \le E_\rho[\psi_h(\mu)] + \mu \left(KL(\rho \| \pi) + \ln\frac1\delta\right), \qquad
        \psi_h(\mu) = \max_{0 \le L \le 1} \{L - \mu D_h(L)\}.

    Each hypothesis may have its own number of points: a hypothesis with few of them costs in proportion to the weight
    that it gets. For equal numbers the bound is never above PAC-Bayes-kl (`minimize_kl_bound`) with the comparator "kl".
    The one-dimensional function of mu that remains is minimised by Newton's method, and a covering of all mu by lower
    bounds proves that the minimum is global.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int or array_like of shape (m,)
        Number of points each loss was measured on, chosen independently of those points.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    comparator : {"kl", "mixture"}, default="kl"
        What compares true and empirical losses: :math:`D_h(L) = n_h\, kl(\hat L_h \| L) - \ln \xi(n_h)`, or a mixture
        of Catoni's inequalities over a fixed grid of parameters, which is tighter in most cases, though not in
        all. Choose before looking at the losses.
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the search stops.
    max_iter : int, default=10000
        Most values of mu that are evaluated.

    Returns
    -------
    DualResult
        The posterior `rho`, its `mu`, the bound `fun`, the proved `lower` bound on the minimum, and how they were found.

    Examples
    --------
    >>> losses, n = [0.10, 0.12, 0.15, 0.30, 0.45], [300, 500, 500, 500, 500]
    >>> result = minimize_dual_bound(losses, n)
    >>> round(result.fun, 6), round(result.mu, 6), result.converged
    (0.162055, 0.005127, True)
    >>> 0 <= result.fun - result.lower <= 1e-8
    True
    >>> round(minimize_dual_bound(losses, n, comparator="mixture").fun, 6)
    0.155
    """
    problem = _Problem(losses, n, delta, prior, comparator)
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    most = int(scalar("max_iter", whole_number("max_iter", max_iter)))
    largest = float(problem.n.max())

    def evaluate(beta: float) -> _Step:
        nodes = problem.at(np.array([beta]))
        return _Step(beta, float(nodes.value[0]), float(nodes.mean[0]), float(nodes.curvature[0]))

    # Below its value at zero, beta F makes the bound larger than one.
    low, high = problem.value_at_zero(), 1e14 * largest
    complexity = problem.log_inverse_up - problem.log_mass + 2
    beta: float | None = _starting_beta(problem.loss, problem.n, complexity)
    steps: list[_Step] = []
    nfev = 0
    while beta is not None:
        new = _descend(evaluate, beta, low, high, max(most - nfev, 1))
        steps += new
        best = min(steps, key=lambda step: step.value)
        proof = _prove(problem, min(best.value, 1.0) * (1 - tolerance), most - nfev - len(new))
        nfev += len(new) + proof.nfev
        beta = proof.better
    return _dual_result(problem, best, steps, proof, nfev, tolerance)


def _dual_result(
    problem: _Problem, best: _Step, steps: list[_Step], proof: _Proof, nfev: int, rtol: float
) -> DualResult:
    rho, mu = problem.rho(best.beta), 1 / best.beta
    posterior = _FixedPosterior(problem, rho)
    fun = posterior.at(best.beta).value
    if not fun < 1:
        # As mu tends to 0 the bound tends to 1 for every posterior.
        rho, mu, fun = np.exp(problem.log_prior), 0.0, 1.0
        rho /= rho.sum()
        posterior = _FixedPosterior(problem, rho)
    lower = min(proof.lower, fun)
    converged = fun - lower <= (rtol + _GAP_SLACK) * fun
    return DualResult(
        rho=rho,
        mu=mu,
        fun=fun,
        loss=posterior.loss,
        kl_div=posterior.kl_div,
        lower=lower,
        nit=len(steps),
        nfev=nfev,
        status=0 if converged else 1,
        message=(
            "The minimum is proved to the tolerance asked for."
            if converged
            else "The search ended before the minimum was proved to the tolerance asked for: see `lower`."
        ),
        converged=converged,
        history=np.minimum(np.minimum.accumulate([step.value for step in steps]), 1.0),
        mu_history=np.array([1 / step.beta for step in steps]),
    )
