r"""PAC-Bayesian bounds for unequal validation sets, without Jensen's inequality.

Let hypothesis h have empirical loss :math:`\hat L_h` on :math:`n_h` points that did not shape it, and let
:math:`D_h` be a comparator (`pacbayes.bounds.comparators`): convex in the true loss, with
:math:`E[e^{D_h(L_h)}] \le 1`. With probability at least 1 - delta, for all posteriors rho simultaneously,

.. math:: E_\rho[D_h(L_h)] \le KL(\rho \| \pi) + \ln\frac1\delta,

and therefore, for all :math:`\mu > 0` as well,

.. math:: E_\rho[L_h] \le E_\rho[\psi_h(\mu)] + \mu \left(KL(\rho \| \pi) + \ln\frac1\delta\right), \qquad
    \psi_h(\mu) = \max_{0 \le L \le 1} \{L - \mu D_h(L)\}.

For a given mu the best posterior is proportional to :math:`\pi_h e^{-\psi_h(\mu) / \mu}`, and what it attains is

.. math:: F(\mu) = \mu \left[\ln\frac1\delta - \ln \sum_h \pi_h e^{-\psi_h(\mu) / \mu}\right].

Proofs are in the documentation, on the page "Unequal validation sets". Internally :math:`\beta = 1 / \mu` is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import Array, as_real_array, loss_vector, open_interval, scalar, whole_number
from pacbayes.bounds._covering import BETA_RANGE, Nodes, Proof, Step, descend, prove
from pacbayes.bounds.comparators import ComparatorName, make_comparator
from pacbayes.bounds.prior import SLACK, normalise_log_prior

__all__ = ["DualResult", "dual_bound", "minimize_dual_bound", "pac_bayes_dual"]

_EPS = float(np.finfo(np.float64).eps)

# Positive losses below this are replaced by it, since the arithmetic on subnormal numbers loses digits.
_SMALLEST_LOSS = 1e-280

# Numbers of points beyond this are replaced by it. A comparator for fewer points is valid: an average is the mean of
# the averages over all subsets of its points, and exp(D) is convex in the empirical loss.
_LARGEST_N = 1e18

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


class _Problem:
    """Losses, numbers of points and prior of m hypotheses, grouped by loss and number of points."""

    def __init__(
        self,
        losses: ArrayLike,
        n: ArrayLike,
        delta: float,
        prior: ArrayLike | None,
        comparator: ComparatorName,
        grid_delta: float | None = None,
    ) -> None:
        self.losses = loss_vector("losses", losses)
        m = self.losses.size
        sizes = _points_per_hypothesis(n, m)
        self.delta = scalar("delta", open_interval("delta", delta, 0, 1))
        self.log_prior = np.full(m, -np.log(m)) if prior is None else normalise_log_prior(prior, m)
        self.support = np.flatnonzero(self.log_prior > -np.inf)
        loss, self.n, self.slot = _group(self.losses[self.support], sizes[self.support])
        self.loss = np.where(loss > 0, np.maximum(loss, _SMALLEST_LOSS), 0.0)
        fixed = (
            self.delta if grid_delta is None else scalar("grid_delta", open_interval("grid_delta", grid_delta, 0, 1))
        )
        self.comparator = make_comparator(comparator, self.loss, self.n, fixed)
        self.log_mass = _log_sums(self.log_prior[self.support], self.slot, self.n.size)
        # More than rounding can have moved the logarithms of the prior, their sums, and what is added to them.
        self._mass_error = SLACK * (1 - self.log_mass) + _EPS * np.bincount(self.slot)
        self.rows = max(1, _BLOCK // (self.n.size * self.comparator.width))
        log_inverse = -float(np.log(self.delta))
        self.log_inverse_down, self.log_inverse_up = log_inverse * (1 - 2 * _EPS), log_inverse * (1 + 2 * _EPS)

    def at(self, beta: Array) -> Nodes:
        """F and its parts."""
        conjugate = self.comparator.conjugate(beta, self._is_relevant)
        exponent = self.log_mass - self._mass_error - conjugate.upper
        log_sum, weight = _log_sum_exp(exponent)
        with np.errstate(over="ignore"):
            value = (self.log_inverse_up - log_sum + SLACK) / beta * (1 + 8 * _EPS)
        mean = (weight * conjugate.maximizer).sum(axis=1)
        spread = (conjugate.maximizer - mean[:, np.newaxis]) ** 2
        curvature = (weight * (conjugate.curvature - spread)).sum(axis=1)
        return Nodes(beta, value, mean, curvature, conjugate.maximizer, conjugate.deviation)

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        """Whether groups have a share in the best posterior that can be seen, by lower bounds on their conjugates."""
        exponent = self.log_mass - conjugate
        return np.asarray(exponent >= exponent.max(axis=1, keepdims=True) + _LOG_NEGLIGIBLE)

    def above(self, nodes: Nodes, beta: Array, level: float) -> tuple[Array, Array]:
        """How far beta F(beta) lies above level * beta at least, and the slope of that, as `Curve` asks for.

        Concave in beta, since it is minus the logarithm of a sum of exponentials of linear functions.
        """
        line = beta[:, np.newaxis] * nodes.maximizer - nodes.deviation
        log_sum, weight = _log_sum_exp(self.log_mass + self._mass_error - line)
        distance = self.log_inverse_down - log_sum - SLACK - level * beta * (1 + 8 * _EPS)
        return distance, (weight * nodes.maximizer).sum(axis=1) - level

    def value_at_zero(self) -> float:
        """beta F(beta) at beta = 0, rounded down."""
        log_sum, _ = _log_sum_exp((self.log_mass + self._mass_error - self.comparator.minimum)[np.newaxis])
        # The conjugates are not negative, hence neither is minus the logarithm.
        return max(float(self.log_inverse_down - log_sum[0]) * (1 - 8 * _EPS) - SLACK, self.log_inverse_down)

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


def _points_per_hypothesis(n: ArrayLike, m: int) -> Array:
    sizes = whole_number("n", n)
    if sizes.ndim != 0 and sizes.shape != (m,):
        raise ValueError(
            f"n must be a single number or have one entry per hypothesis: there are {m} losses, got shape {sizes.shape}"
        )
    return np.broadcast_to(np.minimum(sizes, _LARGEST_N), (m,))


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
    [0.160029, 0.253578]
    """
    mu_array = open_interval("mu", mu, 0, np.inf)
    problem = _Problem(losses, n, delta, prior, comparator)
    with np.errstate(over="ignore"):
        beta = np.minimum(1 / mu_array.ravel(), BETA_RANGE[1])
    blocks = [problem.at(beta[i : i + problem.rows]).value for i in range(0, beta.size, problem.rows)]
    values = np.concatenate(blocks) if blocks else beta
    return values.reshape(mu_array.shape) if mu_array.ndim else float(values[0])


class _FixedPosterior:
    """The right-hand side of the bound for one posterior, as a function of beta."""

    def __init__(self, problem: _Problem, rho: Array) -> None:
        self._problem = problem
        self._rho = rho[problem.support]
        self._total = total = float(rho.sum())
        on = rho > 0
        self.loss = min(1.0, float((rho * problem.losses).sum()) / total * (1 + SLACK))
        log_rho, log_prior = np.log(rho[on]) - np.log(total), problem.log_prior[on]
        # The difference of two logarithms each of which carries a relative error.
        error = 4 * _EPS * float((rho[on] * (np.abs(log_rho) + np.abs(log_prior))).sum()) / total
        kl_div = float((rho[on] * (log_rho - log_prior)).sum()) / total
        is_prior = bool((log_rho == log_prior).all())
        self.kl_div = 0.0 if is_prior else max(kl_div, 0.0) * (1 + SLACK) + error + SLACK
        self.complexity = (self.kl_div + problem.log_inverse_up) * (1 + 2 * _EPS)
        self._weight = np.bincount(problem.slot, rho[problem.support], minlength=problem.n.size) / total

    def _is_relevant(self, conjugate: Array) -> NDArray[np.bool_]:
        return np.broadcast_to(self._weight > np.exp(_LOG_NEGLIGIBLE), conjugate.shape)

    def at(self, beta: float) -> Step:
        conjugate = self._problem.comparator.conjugate(np.array([beta]), self._is_relevant)
        # Over hypotheses rather than groups: NumPy sums arrays pairwise, and so loses next to nothing.
        mean_conjugate = float((self._rho * conjugate.upper[0][self._problem.slot]).sum()) / self._total * (1 + SLACK)
        value = (mean_conjugate + self.complexity) / beta * (1 + 2 * _EPS)
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
    0.165312
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
    grid_delta: float | None = None,
) -> FixedBound:
    """Return `pac_bayes_dual` with the multiplier, and the loss and divergence that it was computed from."""
    problem = _Problem(losses, n, delta, prior, comparator, grid_delta)
    weights = _posterior("rho", rho, problem.losses.size)
    if (problem.log_prior[weights > 0] == -np.inf).any():
        return FixedBound(1.0, 0.0, 1.0, np.inf)
    posterior = _FixedPosterior(problem, weights)
    largest = float(problem.n.max())
    start = _starting_beta(np.array([posterior.loss]), np.array([largest]), np.array([posterior.complexity + 2]))
    # Below the complexity the bound is above one.
    steps = descend(posterior.at, start, posterior.complexity, min(1e14 * largest, BETA_RANGE[1]), 200)
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
    grid_delta: float | None = None,
    rtol: float = 1e-8,
    max_iter: int = 10_000,
) -> DualResult:
    r"""Minimise the dual PAC-Bayes bound over all posteriors and multipliers, certified.

    With probability at least 1 - delta, for all posteriors rho and all :math:`\mu > 0` simultaneously,

    .. math:: E_\rho[L] \le E_\rho[\psi_h(\mu)] + \mu \left(KL(\rho \| \pi) + \ln\frac1\delta\right), \qquad
        \psi_h(\mu) = \max_{0 \le L \le 1} \{L - \mu D_h(L)\}.

    Each hypothesis may have its own number of points: a hypothesis with few of them costs in proportion to the weight
    that it gets. For equal numbers and the comparator "kl" the bound is never above PAC-Bayes-kl
    (`pacbayes.posterior.minimize_kl_bound`). The one-dimensional function of mu that remains is minimised by Newton's
    method, and a covering of all mu by lower bounds proves that the minimum is global.

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
    grid_delta : float, optional
        The delta that the grid of the comparator "mixture" is made for; `delta` by default. The grid must not depend on
        the losses: give it where `delta` does, as it does if some hypotheses are left out (`restrict_prior`).
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the search stops.
    max_iter : int, default=10000
        Most values of mu that are evaluated.

    Returns
    -------
    DualResult
        The posterior `rho`, its `mu`, the bound `fun`, the proved `lower` bound on it, and how they were found.

    Examples
    --------
    >>> losses, n = [0.10, 0.12, 0.15, 0.30, 0.45], [300, 500, 500, 500, 500]
    >>> result = minimize_dual_bound(losses, n)
    >>> round(result.fun, 6), round(result.mu, 6), result.converged
    (0.179805, 0.005975, True)
    >>> 0 <= result.fun - result.lower <= 1e-8
    True
    >>> round(minimize_dual_bound(losses, n, comparator="mixture").fun, 6)
    0.168465
    """
    problem = _Problem(losses, n, delta, prior, comparator, grid_delta)
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    most = int(scalar("max_iter", whole_number("max_iter", max_iter)))
    largest = float(problem.n.max())

    def evaluate(beta: float) -> Step:
        nodes = problem.at(np.array([beta]))
        return Step(beta, float(nodes.value[0]), float(nodes.mean[0]), float(nodes.curvature[0]))

    # Below its value at zero, beta F makes the bound larger than one.
    low, high = problem.value_at_zero(), min(1e14 * largest, BETA_RANGE[1])
    complexity = problem.log_inverse_up - problem.log_mass + 2
    beta: float | None = _starting_beta(problem.loss, problem.n, complexity)
    steps: list[Step] = []
    nfev = 0
    while beta is not None:
        new = descend(evaluate, beta, low, high, max(most - nfev, 1))
        steps += new
        best = min(steps, key=lambda step: step.value)
        proof = prove(problem, min(best.value, 1.0) * (1 - tolerance), most - nfev - len(new))
        nfev += len(new) + proof.nfev
        beta = proof.better
    return _dual_result(problem, best, steps, proof, nfev, tolerance)


def _dual_result(problem: _Problem, best: Step, steps: list[Step], proof: Proof, nfev: int, rtol: float) -> DualResult:
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
