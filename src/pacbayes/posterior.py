r"""From losses to a posterior: the Gibbs posterior, F(lambda), and the minimisers of the bounds.

Labels such as ``eq. rho`` are those of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex
PAC-Bayesian Bound" (ALT 2017). This module knows losses, never data: to use it with the hypothesis space of
Theorem PBaggregation, pass validation losses and the number of validation points n - r as `n`.

Common arguments: `losses`, empirical losses in [0, 1], one per hypothesis; `n`, the number of points each was measured
on; `delta`, the probability with which the bound may fail; `prior`, probabilities or log-probabilities (an array with
no entry above zero is read as such), summing to one. Zeros are allowed. Uniform by default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import (
    Array,
    finite_nonnegative,
    float_or_array,
    n_and_delta,
    open_interval,
    scalar,
    unit_interval,
    whole_number,
)
from pacbayes.bounds import pac_bayes_kl, pac_bayes_sqrt, tail
from pacbayes.dual import minimize_dual_bound
from pacbayes.gibbs import SLACK, GibbsCurve, Point, between

__all__ = [
    "PosteriorResult",
    "gibbs_posterior",
    "lambda_bound",
    "lambda_bound_derivatives",
    "minimize_dual_bound",
    "minimize_kl_bound",
    "minimize_lambda_bound",
    "optimal_lambda",
]


# Relative steps in lambda at which a descent is at rest. Where F is almost flat without being stationary, steps are
# small long before their end, and the bound falls by less than a float can tell.
_AT_REST = 1e-12

# The bounds are rounded up; where one serves as a lower bound, this takes back more than was added.
_ROUND_DOWN = 1 - 4 * SLACK


# ---------------------------------------------------------------------------------------------------
# The two update rules and F(lambda)
# ---------------------------------------------------------------------------------------------------


def gibbs_posterior(losses: ArrayLike, lam: float, n: int, prior: ArrayLike | None = None) -> Array:
    r"""Gibbs posterior, the minimiser of the PAC-Bayes-lambda bound for fixed lambda (eq. rho).

    .. math:: \rho_\lambda(h) = \frac{\pi(h) e^{-\lambda n \hat L(h, S)}}
        {E_\pi\left[e^{-\lambda n \hat L(h', S)}\right]}

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    lam : float
        Trade-off lambda, in (0, 2).
    n : int
        Number of points each loss was measured on.
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.

    Returns
    -------
    ndarray of shape (m,)
        Posterior weights.

    Examples
    --------
    >>> gibbs_posterior([0.1, 0.2, 0.2], lam=0.5, n=20).round(4).tolist()
    [0.5761, 0.2119, 0.2119]
    """
    n_points = scalar("n", whole_number("n", n))
    t = scalar("lam", open_interval("lam", lam, 0, 2)) * n_points
    return GibbsCurve(losses, n_points, prior).rho(t)


def optimal_lambda(loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05) -> Any:
    r"""Minimiser of the PAC-Bayes-lambda bound for a fixed posterior (eq. lambda).

    .. math:: \lambda = \frac{2}{\sqrt{\frac{2 n E_\rho[\hat L(h, S)]}
        {KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}} + 1} + 1}

    Parameters
    ----------
    loss : array_like
        Empirical loss of the posterior, in [0, 1].
    kl_div : array_like
        :math:`KL(\rho \| \pi)`, non-negative and finite.
    n : array_like
        Number of points each loss was measured on.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).

    Returns
    -------
    float or ndarray
        The best lambda, in (0, 1].

    Examples
    --------
    >>> round(optimal_lambda(loss=0.1, kl_div=2.0, n=1000), 6)
    0.345853
    """
    loss_array, divergence = unit_interval("loss", loss), finite_nonnegative("kl_div", kl_div)
    complexity = divergence + tail(n, delta)
    ratio = loss_array / complexity * np.asarray(n, dtype=np.float64)
    return float_or_array(2 / (np.sqrt(2 * ratio + 1) + 1))


@dataclass(frozen=True)
class _Factors:
    """F = f g and the derivatives of both factors in lambda (appendix derivatives).

    `point` holds the figures of the Gibbs posteriors at t = n lambda.
    """

    point: Point
    lam: Array
    n: float
    delta: float

    @property
    def f(self) -> Array:
        # -ln E_pi[exp(-n lam L)] is n lam times the smallest loss, plus `minus_log_z` for the rest.
        rest = (self.point.minus_log_z + tail(self.n, self.delta)) / self.n
        return np.asarray(self.lam * self.point.min_loss + rest)

    @property
    def df(self) -> Array:
        return self.point.loss

    @property
    def d2f(self) -> Array:
        return -self.n * self.point.var

    @property
    def _u(self) -> Array:
        return self.lam * (1 - self.lam / 2)

    @property
    def g(self) -> Array:
        return 1 / self._u

    @property
    def dg(self) -> Array:
        return (self.lam - 1) / self._u**2

    @property
    def d2g(self) -> Array:
        return (3 * (self.lam - 1) ** 2 + 1) / (2 * self._u**3)

    def product(self) -> Array:
        """F, rounded up: sums and products of positive terms only."""
        with np.errstate(over="ignore", divide="ignore"):
            return self.f * self.g * (1 + SLACK)


def _factors(
    losses: ArrayLike, lam: ArrayLike, n: ArrayLike, delta: ArrayLike, prior: ArrayLike | None
) -> tuple[_Factors, tuple[int, ...]]:
    """The factors at each of the given lambda, flattened, and the shape to give back."""
    n_points, delta_value = n_and_delta(n, delta)
    lam_array = open_interval("lam", lam, 0, 2)
    flat = lam_array.ravel()
    point = GibbsCurve(losses, n_points, prior).at(flat * n_points)
    return _Factors(point, flat, n_points, delta_value), lam_array.shape


def _shaped(values: Array, shape: tuple[int, ...]) -> Any:
    return values.reshape(shape) if shape else float(values[0])


def lambda_bound(
    losses: ArrayLike,
    lam: ArrayLike,
    n: int,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
) -> Any:
    r"""PAC-Bayes-lambda bound of the Gibbs posterior as a function of lambda alone, rounded up.

    .. math:: F(\lambda) = \frac{-\ln E_\pi\left[e^{-n \lambda \hat L(h, S)}\right]
        + \ln\frac{2 \sqrt n}{\delta}}{n \lambda (1 - \lambda / 2)}

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    lam : array_like
        Trade-offs lambda, in (0, 2).
    n : int
        Number of points each loss was measured on.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.

    Returns
    -------
    float or ndarray
        F at each lambda.

    Examples
    --------
    >>> lambda_bound([0.1, 0.2, 0.2], lam=[0.2, 0.6], n=1000).round(6).tolist()
    [0.156896, 0.162479]
    """
    factors, shape = _factors(losses, lam, n, delta, prior)
    return _shaped(factors.product(), shape)


def lambda_bound_derivatives(
    losses: ArrayLike,
    lam: ArrayLike,
    n: int,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
) -> tuple[Any, Any]:
    r"""First and second derivative of `lambda_bound` in lambda (appendix derivatives).

    With :math:`F = f g`: :math:`f' = E_{\rho_\lambda}[\hat L]`,
    :math:`f'' = -n Var_{\rho_\lambda}[\hat L]`, and g depends on lambda only.

    Parameters
    ----------
    losses, lam, n, delta, prior
        As in `lambda_bound`.

    Returns
    -------
    first, second : float or ndarray
        F' and F'' at each lambda.

    Examples
    --------
    >>> first, second = lambda_bound_derivatives([0.1, 0.2, 0.2], lam=0.4, n=1000)
    >>> round(first, 6), round(second, 6)
    (0.029836, 0.359223)
    """
    x, shape = _factors(losses, lam, n, delta, prior)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        first = x.df * x.g + x.f * x.dg
        second = x.d2f * x.g + 2 * x.df * x.dg + x.f * x.d2g
    # Where lambda^3 underflows, the last term is larger than any float, and than the others.
    return _shaped(first, shape), _shaped(np.where(np.isnan(second), np.inf, second), shape)


# ---------------------------------------------------------------------------------------------------
# Minimisers
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorResult:
    r"""A posterior, and the bound that it minimises.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior: a Gibbs posterior, :math:`\rho \propto \pi e^{-\lambda n \hat L}`.
    lam : float
        Its lambda. For the kl bound, the temperature of rho divided by n; inf if rho is the prior
        restricted to the smallest loss.
    fun : float
        The bound on :math:`E_\rho[L]`, rounded up.
    loss : float
        Empirical loss :math:`E_\rho[\hat L]`, rounded up.
    kl_div : float
        :math:`KL(\rho \| \pi)`, rounded up.
    nit : int
        Number of steps; for certified minimisation, of evaluations of the Gibbs posterior.
    converged : bool
        Whether the steps came to rest, or `lower` came as close to `fun` as asked.
    lower : float or None
        A proved lower bound on the minimum over all posteriors (and all lambda), rounded down. None
        for alternating minimisation, which proves nothing.
    history : ndarray
        The bound at every step of the descent, never rising; its last entry is `fun`.
    lam_history : ndarray
        Lambda at every step of the descent.
    """

    rho: Array = field(repr=False)
    lam: float
    fun: float
    loss: float
    kl_div: float
    nit: int
    converged: bool
    lower: float | None
    history: Array = field(repr=False)
    lam_history: Array = field(repr=False)


@dataclass(frozen=True)
class _Objective(ABC):
    """A bound B(E, KL) that grows in both arguments, with {B <= b} = {KL <= a convex function of E}."""

    n: float
    delta: float

    @abstractmethod
    def bound(self, loss: Array, kl_div: Array) -> Array:
        """B itself, rounded up."""

    @abstractmethod
    def at(self, point: Point) -> Array:
        """What is minimised along the Gibbs curve, at least B, and equal to it at a minimum."""

    @abstractmethod
    def next_temperature(self, point: Point, value: Array) -> Array:
        """The t whose Gibbs posterior has a bound no higher than this point's `value`."""


class _LambdaObjective(_Objective):
    """F(lambda), t = n lambda. At its best lambda the bound of a posterior is eq. PBsqrt."""

    def bound(self, loss: Array, kl_div: Array) -> Array:
        return np.asarray(pac_bayes_sqrt(loss, kl_div, self.n, self.delta))

    def at(self, point: Point) -> Array:
        return _Factors(point, point.t / self.n, self.n, self.delta).product()

    def next_temperature(self, point: Point, value: Array) -> Array:
        return self.n * np.asarray(optimal_lambda(point.loss, point.kl_div, self.n, self.delta))


class _KlObjective(_Objective):
    """Theorem PBkl, inverted."""

    def bound(self, loss: Array, kl_div: Array) -> Array:
        return np.asarray(pac_bayes_kl(loss, kl_div, self.n, self.delta))

    def at(self, point: Point) -> Array:
        return self.bound(point.loss_up, point.kl_div_up)

    def next_temperature(self, point: Point, value: Array) -> Array:
        # kl(E || b) is convex in E: replacing it by its tangent at this point's E, with b its bound,
        # bounds every posterior's kl from below, and the Gibbs posterior at minus n times the tangent's
        # slope, ln(E (1 - b) / (b (1 - E))), makes the most of it.
        loss, b = point.loss, value
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(b) - np.log(loss) + np.log1p(-loss) - np.log1p(-b)
        # Where the bound is vacuous (loss and bound are 1) every posterior is as good.
        return np.where(loss < b, self.n * slope, point.t)


def _descend(curve: GibbsCurve, objective: _Objective, t: float, max_iter: int) -> tuple[Array, Array, bool]:
    """Follow `next_temperature` until it stands still: temperatures, bounds, and whether it did."""
    point = curve.at(t)
    value = objective.at(point)
    ts, values = [t], [float(value[0])]
    for _ in range(max_iter):
        previous, t = t, float(objective.next_temperature(point, value)[0])
        if t == previous or abs(t - previous) <= _AT_REST * previous:
            return np.array(ts), np.array(values), True
        point = curve.at(t)
        value = objective.at(point)
        ts.append(t)
        # Each step decreases the bound: where the computed figure does not show it, the last one holds as well.
        values.append(min(float(value[0]), values[-1]))
    return np.array(ts), np.array(values), False


def _corner_bounds(objective: _Objective, left: Point, right: Point) -> Array:
    """Proved lower bounds of the objective on the arcs of the Gibbs curve between two temperatures each.

    In the plane of (E, KL) the curve is convex with slope -t: it lies above its tangents
    KL = minus_log_z - t E at both ends, which meet at a corner. Along a line the objective is quasiconcave
    (its sublevel sets are {KL <= convex function of E}), hence at least its value at the ends of the arc
    or at that corner, whichever is smallest.
    """
    width = right.t - left.t
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean_x = (right.minus_log_z - left.minus_log_z) / width
        slip = (left.log_error + right.log_error) / width
        # The corner, moved to smaller loss and divergence by more than rounding can have moved it, yet
        # never outside the rectangle that the arc spans.
        corner_x = np.clip(mean_x - slip, np.maximum(right.mean_x - right.mean_error, 0.0), left.mean_x)
        most_x = np.minimum(mean_x + slip, left.mean_x + left.mean_error)
        corner_kl = left.minus_log_z - left.log_error - left.t * most_x
    # The tangent at t = inf is the vertical line through the smallest loss.
    corner_x = np.where(np.isinf(right.t), 0.0, corner_x)
    corner_kl = np.where(np.isinf(right.t), left.minus_log_z - left.log_error, corner_kl)
    corner_kl = np.clip(corner_kl, left.kl_div_down, right.kl_div_up)
    at_corner = objective.bound(np.minimum(left.min_loss + corner_x, 1.0), corner_kl)
    at_ends = [objective.bound(end.loss_down, end.kl_div_down) for end in (left, right)]
    return np.minimum(at_corner, np.minimum(*at_ends)) * _ROUND_DOWN


def _branch_and_bound(
    curve: GibbsCurve, objective: _Objective, t_max: float, best: float, rtol: float
) -> tuple[float, Point | None, int]:
    """Look for posteriors better than `best` at all temperatures up to `t_max`.

    Returns a proved lower bound on the minimum, the best posterior seen (None if none is better), and the
    number of posteriors evaluated.
    """
    best_point = None
    # Any division will do to begin with: temperatures that matter lie between 1 / max x and some 1 / min x.
    t_last = min(t_max, 1e3 / max(1e-290, min(curve.x[curve.x > 0], default=1.0)))
    inner = np.geomspace(min(0.5, t_last / 2), t_last, 17)
    new = curve.at(np.unique(np.concatenate(([0.0], inner, [t_max]))))
    left, right = new[:-1], new[1:]
    nit, proved = new.t.size, np.inf
    while True:
        values = objective.bound(new.loss_up, new.kl_div_up)
        if values.min() < best:
            best, best_point = float(values.min()), new[values == values.min()][:1]
        lower = _corner_bounds(objective, left, right)
        middle = between(left, right)
        # An interval is done if it cannot hold anything better, or no float lies inside it.
        done = (lower >= best * (1 - rtol)) | (middle <= left.t) | (middle >= right.t)
        if nit + np.count_nonzero(~done) > curve.affordable:
            done[:] = True
        proved = min(proved, float(lower[done].min(initial=np.inf)))
        if done.all():
            return proved, best_point, nit
        new = curve.at(middle[~done])
        nit += new.t.size
        left, right = left[~done].joined(new), new.joined(right[~done])


def _minimize_globally(
    curve: GibbsCurve, objective: _Objective, n: float, t_max: float, rtol: float, max_iter: int
) -> PosteriorResult:
    """Descend, then prove by branch and bound that nothing is better, or descend from what is."""
    ts, values, _ = _descend(curve, objective, n, max_iter)
    lower, better, evaluations = _branch_and_bound(curve, objective, t_max, float(values[-1]), rtol)
    nit = ts.size + evaluations
    if better is not None:
        value = objective.bound(better.loss_up, better.kl_div_up)
        start = float(objective.next_temperature(better, value)[0])
        other_ts, other_values, _ = _descend(curve, objective, start, max_iter)
        nit += other_ts.size
        if other_values[-1] < values[-1]:
            ts, values = other_ts, other_values
    fun = float(values[-1])
    lower = min(lower, fun)
    return _posterior_result(curve, n, ts, values, nit, fun - lower <= (rtol + 1e-12) * fun, lower)


def _posterior_result(
    curve: GibbsCurve,
    n: float,
    ts: Array,
    values: Array,
    nit: int,
    converged: bool,
    lower: float | None,
) -> PosteriorResult:
    point = curve.at(ts[-1])
    return PosteriorResult(
        rho=curve.rho(float(ts[-1])),
        lam=float(ts[-1] / n),
        fun=float(values[-1]),
        loss=float(point.loss_up[0]),
        kl_div=float(point.kl_div_up[0]),
        nit=nit,
        converged=converged,
        lower=lower,
        history=values,
        lam_history=ts / n,
    )


def minimize_lambda_bound(
    losses: ArrayLike,
    n: int,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    method: Literal["alternating", "global"] = "alternating",
    lam0: float = 1.0,
    rtol: float = 1e-8,
    max_iter: int = 10_000,
) -> PosteriorResult:
    r"""Minimise the PAC-Bayes-lambda bound over all posteriors and all lambda (Theorem PBlambda).

    ``method="alternating"`` applies eq. rho and eq. lambda in turn until the bound stops falling. It
    finds the global minimum where F(lambda) is quasiconvex (`pacbayes.quasiconvexity` can guarantee
    it), and a local one elsewhere. ``method="global"`` finds the global minimum in all cases, by
    branch and bound over the Gibbs posteriors, and proves it: `lower` of the result is a lower bound
    on the minimum.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int
        Number of points each loss was measured on (n - r in Theorem PBaggregation).
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    method : {"alternating", "global"}, default="alternating"
        How to minimise.
    lam0 : float, default=1.0
        Where alternating minimisation starts, in (0, 2).
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the global method stops.
    max_iter : int, default=10000
        Most steps of alternating minimisation.

    Returns
    -------
    PosteriorResult
        The posterior `rho`, its `lam`, the bound `fun`, and how they were found.

    Examples
    --------
    >>> losses = [0.10, 0.12, 0.15, 0.30, 0.45]
    >>> result = minimize_lambda_bound(losses, n=500, method="global")
    >>> round(result.fun, 6), round(result.lam, 4), result.converged
    (0.177108, 0.4339, True)
    >>> 0 <= result.fun - result.lower <= 1e-8
    True
    """
    n_points, delta_value = n_and_delta(n, delta)
    start = scalar("lam0", open_interval("lam0", lam0, 0, 2))
    if method not in ("alternating", "global"):
        raise ValueError(f"method must be 'alternating' or 'global', got {method!r}")
    iterations = int(scalar("max_iter", whole_number("max_iter", max_iter)))
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    curve = GibbsCurve(losses, n_points, prior)
    objective = _LambdaObjective(n_points, delta_value)
    if method == "global":
        # The best lambda is at most 1 (eq. lambda).
        return _minimize_globally(curve, objective, n_points, n_points, tolerance, iterations)
    ts, values, at_rest = _descend(curve, objective, start * n_points, iterations)
    return _posterior_result(curve, n_points, ts, values, ts.size - 1, at_rest, None)


def minimize_kl_bound(
    losses: ArrayLike,
    n: int,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    rtol: float = 1e-8,
    max_iter: int = 10_000,
) -> PosteriorResult:
    r"""Minimise the PAC-Bayes-kl bound over all posteriors (Theorem PBkl), certified.

    The bound grows in :math:`E_\rho[\hat L]` and in :math:`KL(\rho \| \pi)`, so its best posterior is a
    Gibbs posterior: one number, its temperature, is searched by branch and bound. The minimum is never
    above the kl bound of the posterior that `minimize_lambda_bound` finds, and `lower` proves it.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int
        Number of points each loss was measured on (n - r in Theorem PBaggregation).
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the search stops.
    max_iter : int, default=10000
        Most steps of each descent that the search starts from and ends with.

    Returns
    -------
    PosteriorResult
        The posterior `rho`, its `lam`, the bound `fun`, and how they were found.

    Examples
    --------
    >>> losses = [0.10, 0.12, 0.15, 0.30, 0.45]
    >>> result = minimize_kl_bound(losses, n=500)
    >>> round(result.fun, 6), round(result.lam, 4), result.converged
    (0.163752, 0.5659, True)
    """
    n_points, delta_value = n_and_delta(n, delta)
    iterations = int(scalar("max_iter", whole_number("max_iter", max_iter)))
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    curve = GibbsCurve(losses, n_points, prior)
    objective = _KlObjective(n_points, delta_value)
    return _minimize_globally(curve, objective, n_points, np.inf, tolerance, iterations)
