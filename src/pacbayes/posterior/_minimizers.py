"""The Gibbs posterior, F(lambda), and the minimisers of PAC-Bayes-lambda and PAC-Bayes-kl."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import (
    Array,
    finite_nonnegative,
    float_or_array,
    n_delta_and_largest,
    open_interval,
    scalar,
    unit_interval,
    whole_number,
)
from pacbayes.bounds import confidence_term, kl_inverse_upper
from pacbayes.bounds.pac_bayes import complexity_of, sqrt_bound_of
from pacbayes.bounds.prior import SLACK
from pacbayes.posterior.gibbs import GibbsCurve, GibbsMoments, split_interval

# Relative change of lambda below which a descent has converged. It has to be this small: where F is almost flat without
# being stationary, lambda moves slowly while the bound decreases by less than its rounding error.
_STEP_RTOL = 1e-12

# Iterations of a descent, unless the user asks for more.
_MAX_ITER = 10_000

# Factor that undoes the rounding up of a bound, and more, where it serves as a lower bound.
_ROUND_DOWN = 1 - 4 * SLACK


# ---------------------------------------------------------------------------------------------------
# The two update rules and F(lambda)
# ---------------------------------------------------------------------------------------------------


def gibbs_posterior(losses: ArrayLike, lam: float, n: int, prior: ArrayLike | None = None) -> Array:
    r"""Compute the Gibbs posterior, the minimiser of the PAC-Bayes-lambda bound for fixed lambda (eq. rho).

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


def optimal_lambda(
    loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None
) -> Any:
    r"""Compute the lambda that minimises the PAC-Bayes-lambda bound for a fixed posterior (eq. lambda).

    .. math:: \lambda = \frac{2}{\sqrt{\frac{2 n E_\rho[\hat L(h, S)]}
        {KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}} + 1} + 1}

    Parameters
    ----------
    loss : array_like
        Empirical loss of the posterior, in [0, 1].
    kl_div : array_like
        :math:`KL(\rho \| \pi)`, non-negative and finite.
    n : array_like
        Number of points each loss was measured on; the smallest, if they differ.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    n_max : array_like, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    float or ndarray
        The optimal lambda, in (0, 1].

    Examples
    --------
    >>> round(optimal_lambda(loss=0.1, kl_div=2.0, n=1000), 6)
    0.345853
    """
    loss_array, divergence = unit_interval("loss", loss), finite_nonnegative("kl_div", kl_div)
    confidence = confidence_term(n, delta, n_max=n_max)
    return float_or_array(_optimal_lambda(loss_array, divergence, np.asarray(n, dtype=np.float64), confidence))


def _optimal_lambda(loss: Array, kl_div: Array, n: float | Array, confidence: float | Array) -> Array:
    """Compute `optimal_lambda` from valid arguments and their confidence term."""
    ratio = loss / (kl_div + confidence) * n
    return np.asarray(2 / (np.sqrt(2 * ratio + 1) + 1))


@dataclass(frozen=True)
class _Factors:
    """The factors of F = f g and their derivatives in lambda (appendix derivatives).

    `moments` are those of the Gibbs posteriors at t = n lambda, and `confidence` is the confidence term.
    """

    moments: GibbsMoments
    lam: Array
    n: float
    confidence: float

    @property
    def f(self) -> Array:
        # -ln E_pi[exp(-n lam L)] is n lam times the smallest loss plus `minus_log_z`.
        rest = (self.moments.minus_log_z + self.confidence) / self.n
        return np.asarray(self.lam * self.moments.min_loss + rest)

    @property
    def df(self) -> Array:
        return self.moments.loss

    @property
    def d2f(self) -> Array:
        return -self.n * self.moments.var

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
        """Compute F, rounded up. All terms are positive."""
        with np.errstate(over="ignore", divide="ignore"):
            return self.f * self.g * (1 + SLACK)


def _factors(
    losses: ArrayLike, lam: ArrayLike, n: ArrayLike, delta: ArrayLike, prior: ArrayLike | None, n_max: ArrayLike | None
) -> tuple[_Factors, tuple[int, ...]]:
    """Evaluate the factors at each lambda, flattened, and return them with the shape of `lam`."""
    n_points, delta_value, n_largest = n_delta_and_largest(n, delta, n_max)
    lam_array = open_interval("lam", lam, 0, 2)
    flat = lam_array.ravel()
    moments = GibbsCurve(losses, n_points, prior).at(flat * n_points)
    confidence = float(confidence_term(n_points, delta_value, n_max=n_largest))
    return _Factors(moments, flat, n_points, confidence), lam_array.shape


def _reshape(values: Array, shape: tuple[int, ...]) -> Any:
    return values.reshape(shape) if shape else float(values[0])


def lambda_bound(
    losses: ArrayLike,
    lam: ArrayLike,
    n: int,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    *,
    n_max: int | None = None,
) -> Any:
    r"""Compute F(lambda), the PAC-Bayes-lambda bound of the Gibbs posterior, rounded up.

    .. math:: F(\lambda) = \frac{-\ln E_\pi\left[e^{-n \lambda \hat L(h, S)}\right]
        + \ln\frac{2 \sqrt n}{\delta}}{n \lambda (1 - \lambda / 2)}

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    lam : array_like
        Trade-offs lambda, in (0, 2).
    n : int
        Number of points each loss was measured on; the smallest, if they differ.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    n_max : int, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    float or ndarray
        F at each lambda.

    Examples
    --------
    >>> lambda_bound([0.1, 0.2, 0.2], lam=[0.2, 0.6], n=1000).round(6).tolist()
    [0.156896, 0.162479]
    """
    factors, shape = _factors(losses, lam, n, delta, prior, n_max)
    return _reshape(factors.product(), shape)


def lambda_bound_derivatives(
    losses: ArrayLike,
    lam: ArrayLike,
    n: int,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    *,
    n_max: int | None = None,
) -> tuple[Any, Any]:
    r"""Compute the first and second derivative of `lambda_bound` in lambda (appendix derivatives).

    With :math:`F = f g`: :math:`f' = E_{\rho_\lambda}[\hat L]`,
    :math:`f'' = -n Var_{\rho_\lambda}[\hat L]`, and g depends on lambda only.

    Parameters
    ----------
    losses, lam, n, delta, prior, n_max
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
    x, shape = _factors(losses, lam, n, delta, prior, n_max)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        first = x.df * x.g + x.f * x.dg
        second = x.d2f * x.g + 2 * x.df * x.dg + x.f * x.d2g
    # Where lambda^3 underflows, the last term overflows and dominates the others.
    return _reshape(first, shape), _reshape(np.where(np.isnan(second), np.inf, second), shape)


# ---------------------------------------------------------------------------------------------------
# Minimisers
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorResult:
    r"""A posterior and the bound that it minimises, in the style of `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior: a Gibbs posterior, :math:`\rho \propto \pi e^{-\lambda n \hat L}`.
    lam : float
        Its lambda. For the kl bound, the inverse temperature of rho divided by n; inf if rho is the prior
        restricted to the smallest loss.
    fun : float
        The bound on :math:`E_\rho[L]`, rounded up.
    loss : float
        Empirical loss :math:`E_\rho[\hat L]`, rounded up.
    kl_div : float
        :math:`KL(\rho \| \pi)`, rounded up.
    nit : int
        Number of iterations of the descent that ended at rho.
    nfev : int
        Number of evaluations of the Gibbs posterior, in all descents and in branch and bound.
    success : bool
        Whether alternating minimisation converged, or the global search proved that `fun` is the minimum to within
        the requested tolerance.
    status : int
        0: success. 1: the largest number of iterations was reached. 2: the largest number of evaluations was reached.
        3: `lower` cannot be improved in double precision.
    message : str
        Description of `status`.
    lower : float or None
        A proved lower bound on the minimum over all posteriors (and all lambda), rounded down. None for
        alternating minimisation, which proves none.
    history : ndarray of shape (nit + 1,)
        The bound at every iteration of the descent, non-increasing; its last entry is `fun`.
    lam_history : ndarray of shape (nit + 1,)
        Lambda at every iteration of the descent.
    """

    rho: Array = field(repr=False)
    lam: float
    fun: float
    loss: float
    kl_div: float
    nit: int
    nfev: int
    success: bool
    status: int
    message: str
    lower: float | None
    history: Array = field(repr=False)
    lam_history: Array = field(repr=False)

    @property
    def converged(self) -> bool:
        """Alias of `success`."""
        return self.success


@dataclass(frozen=True)
class _Objective(ABC):
    """A bound B(E, KL), increasing in both arguments, whose sublevel sets are {KL <= convex function of E}."""

    n: float
    delta: float
    n_max: float

    @cached_property
    def confidence(self) -> float:
        """The confidence term."""
        return float(confidence_term(self.n, self.delta, n_max=self.n_max))

    @abstractmethod
    def bound(self, loss: Array, kl_div: Array) -> Array:
        """Compute B, rounded up."""

    @abstractmethod
    def at(self, moments: GibbsMoments) -> Array:
        """Compute what is minimised along the Gibbs curve: at least B, and equal to it at a minimum."""

    @abstractmethod
    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        """Return a temperature whose Gibbs posterior has a bound of at most `value`, that of `moments`."""


class _LambdaObjective(_Objective):
    """F(lambda), t = n lambda. At its optimal lambda the bound of a posterior is eq. PBsqrt."""

    def bound(self, loss: Array, kl_div: Array) -> Array:
        return sqrt_bound_of(loss, complexity_of(kl_div, self.n, self.confidence))

    def at(self, moments: GibbsMoments) -> Array:
        return _Factors(moments, moments.t / self.n, self.n, self.confidence).product()

    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        return self.n * _optimal_lambda(moments.loss, moments.kl_div, self.n, self.confidence)


class _KlObjective(_Objective):
    """Theorem PBkl, inverted."""

    def bound(self, loss: Array, kl_div: Array) -> Array:
        return np.asarray(kl_inverse_upper(loss, complexity_of(kl_div, self.n, self.confidence)))

    def at(self, moments: GibbsMoments) -> Array:
        return self.bound(moments.loss_up, moments.kl_div_up)

    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        # kl(E || b) is convex in E. Replacing it by its tangent at this posterior's E, with b its bound, gives a lower
        # bound on the kl of every posterior. The Gibbs posterior at minus n times the tangent's slope,
        # ln(E (1 - b) / (b (1 - E))), minimises KL minus n times the tangent.
        loss, b = moments.loss, value
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(b) - np.log(loss) + np.log1p(-loss) - np.log1p(-b)
        # If the bound is vacuous (loss and bound are 1), no posterior is better.
        return np.where(loss < b, self.n * slope, moments.t)


class _Descent(NamedTuple):
    """Temperatures and bounds of a descent, the moments of its last posterior, and whether it converged."""

    ts: Array
    values: Array
    moments: GibbsMoments
    converged: bool

    @property
    def fun(self) -> float:
        return float(self.values[-1])


def _descend(curve: GibbsCurve, objective: _Objective, t: float, max_iter: int) -> _Descent:
    """Iterate `next_temperature` until it changes by less than `_STEP_RTOL`, at most `max_iter` times."""
    moments = curve.at(t)
    value = objective.at(moments)
    ts, values = [t], [float(value[0])]
    converged = False
    for _ in range(max_iter):
        previous, t = t, float(objective.next_temperature(moments, value)[0])
        converged = t == previous or abs(t - previous) <= _STEP_RTOL * previous
        if converged:
            break
        moments = curve.at(t)
        value = objective.at(moments)
        ts.append(t)
        # Each step decreases the exact bound. Where rounding hides this, the previous value bounds this one too.
        values.append(min(float(value[0]), values[-1]))
    return _Descent(np.array(ts), np.array(values), moments, converged)


def _corner_bounds(objective: _Objective, left: GibbsMoments, right: GibbsMoments) -> Array:
    """Compute lower bounds of the objective on the arcs of the Gibbs curve from `left` to `right`.

    In the plane of (E, KL) the curve is convex with slope -t: it lies above its tangents
    KL = minus_log_z - t E at both ends, which meet at a corner. Along a line the objective is quasiconcave
    (its sublevel sets are {KL <= convex function of E}). Hence it is at least the smallest of its values at the ends
    of the arc and at that corner.
    """
    width = right.t - left.t
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean_x = (right.minus_log_z - left.minus_log_z) / width
        slip = (left.log_error + right.log_error) / width
        # The corner, moved to smaller loss and divergence by more than its rounding error, but not out of the
        # rectangle that contains the arc.
        corner_x = np.clip(mean_x - slip, np.maximum(right.mean_x - right.mean_error, 0.0), left.mean_x)
        most_x = np.minimum(mean_x + slip, left.mean_x + left.mean_error)
        corner_kl = left.minus_log_z - left.log_error - left.t * most_x
    # The tangent at t = inf is the vertical line through the smallest loss.
    corner_x = np.where(np.isinf(right.t), 0.0, corner_x)
    corner_kl = np.where(np.isinf(right.t), left.minus_log_z - left.log_error, corner_kl)
    corner_kl = np.clip(corner_kl, left.kl_div_down, right.kl_div_up)
    corner_loss = np.minimum(left.min_loss + corner_x, 1.0)
    loss = np.stack((corner_loss, left.loss_down, right.loss_down))
    kl_div = np.stack((corner_kl, left.kl_div_down, right.kl_div_down))
    return np.asarray(objective.bound(loss, kl_div).min(axis=0) * _ROUND_DOWN)


class _Search(NamedTuple):
    """Result of branch and bound."""

    lower: float  # a proved lower bound on the minimum
    better: GibbsMoments | None  # the best posterior found, if it is better than the one given
    nfev: int
    exhausted: bool  # whether `max_evaluations` ended the search


def _branch_and_bound(
    curve: GibbsCurve, objective: _Objective, t_max: float, best: float, rtol: float, max_evaluations: int
) -> _Search:
    """Bound the minimum over temperatures up to `t_max` from below, and search for posteriors better than `best`."""
    better = None
    # Any first partition will do. Temperatures at which the posterior changes lie between 1 / max x and some 1 / min x.
    t_last = min(t_max, 1e3 / max(1e-290, min(curve.x[curve.x > 0], default=1.0)))
    inner = np.geomspace(min(0.5, t_last / 2), t_last, 17)
    new = curve.at(np.unique(np.concatenate(([0.0], inner, [t_max]))))
    left, right = new[:-1], new[1:]
    nfev, proved, exhausted = new.t.size, np.inf, False
    while True:
        values = objective.bound(new.loss_up, new.kl_div_up)
        if values.min() < best:
            best, better = float(values.min()), new[values == values.min()][:1]
        lower = _corner_bounds(objective, left, right)
        middle = split_interval(left, right)
        # An interval is settled if it contains nothing better, or no further float.
        settled = (lower >= best * (1 - rtol)) | (middle <= left.t) | (middle >= right.t)
        if nfev + np.count_nonzero(~settled) > max_evaluations:
            exhausted = not settled.all()
            settled[:] = True
        proved = min(proved, float(lower[settled].min(initial=np.inf)))
        if settled.all():
            return _Search(proved, better, nfev, exhausted)
        new = curve.at(middle[~settled])
        nfev += new.t.size
        left, right = left[~settled].concatenate(new), new.concatenate(right[~settled])


def _minimize_globally(
    curve: GibbsCurve, objective: _Objective, t_max: float, rtol: float, max_iter: int | None
) -> PosteriorResult:
    """Descend from lambda = 1, then search for anything better by branch and bound, and descend from there."""
    budget = curve.max_evaluations
    descent = _descend(curve, objective, objective.n, max_iter or min(_MAX_ITER, budget // 2))
    nfev = descent.ts.size
    search = _branch_and_bound(curve, objective, t_max, descent.fun, rtol, max(budget - nfev, budget // 2))
    nfev += search.nfev
    if search.better is not None:
        value = objective.bound(search.better.loss_up, search.better.kl_div_up)
        start = float(objective.next_temperature(search.better, value)[0])
        other = _descend(curve, objective, start, max_iter or min(_MAX_ITER, max(budget - nfev, 1)))
        nfev += other.ts.size
        if other.fun < descent.fun:
            descent = other
    lower = min(search.lower, descent.fun)
    if descent.fun - lower <= (rtol + 1e-12) * descent.fun:
        status, message = 0, f"The minimum is proved to a relative gap of {rtol:g}."
    elif search.exhausted:
        status, message = 2, f"The largest number of evaluations, {nfev}, was reached."
    elif not descent.converged:
        status, message = 1, f"The largest number of iterations, {descent.ts.size - 1}, was reached."
    else:
        status, message = 3, "The lower bound cannot be improved in double precision."
    return _posterior_result(curve, objective.n, descent, nfev, status, message, lower)


def _minimize_alternately(
    curve: GibbsCurve, objective: _Objective, lam0: float, max_iter: int | None
) -> PosteriorResult:
    """Descend from `lam0`."""
    descent = _descend(curve, objective, lam0 * objective.n, max_iter or min(_MAX_ITER, curve.max_evaluations - 1))
    if descent.converged:
        status, message = 0, f"Lambda changed by less than a relative {_STEP_RTOL:g}."
    else:
        status, message = 1, f"The largest number of iterations, {descent.ts.size - 1}, was reached."
    return _posterior_result(curve, objective.n, descent, descent.ts.size, status, message, None)


def _posterior_result(
    curve: GibbsCurve, n: float, descent: _Descent, nfev: int, status: int, message: str, lower: float | None
) -> PosteriorResult:
    t = float(descent.ts[-1])
    return PosteriorResult(
        rho=curve.rho(t),
        lam=t / n,
        fun=descent.fun,
        loss=float(descent.moments.loss_up[0]),
        kl_div=float(descent.moments.kl_div_up[0]),
        nit=descent.ts.size - 1,
        nfev=nfev,
        success=status == 0,
        status=status,
        message=message,
        lower=lower,
        history=descent.values,
        lam_history=descent.ts / n,
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
    max_iter: int | None = None,
    n_max: int | None = None,
) -> PosteriorResult:
    r"""Minimise the PAC-Bayes-lambda bound over all posteriors and all lambda (Theorem PBlambda).

    ``method="alternating"`` applies eq. rho and eq. lambda in turn until lambda stops changing. It
    finds the global minimum where F(lambda) is quasiconvex (`pacbayes.quasiconvexity` can guarantee
    it), and a local one elsewhere. ``method="global"`` finds the global minimum in all cases, by
    branch and bound over the Gibbs posteriors, and proves it: `lower` of the result is a lower bound
    on the minimum. Where either needs too many evaluations, it ends early, with a valid bound and `success` false.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int
        Number of points each loss was measured on (n - r in Theorem PBaggregation); the smallest, if they differ.
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
    max_iter : int, optional
        Largest number of iterations of a descent. By default 10,000, or fewer where there are more than 10,000
        distinct losses (200 to 10,000, so that they take some ten seconds for a million distinct losses).
    n_max : int, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

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
    n_points, delta_value, n_largest = n_delta_and_largest(n, delta, n_max)
    start = scalar("lam0", open_interval("lam0", lam0, 0, 2))
    if method not in ("alternating", "global"):
        raise ValueError(f"method must be 'alternating' or 'global', got {method!r}")
    iterations = _validate_max_iter(max_iter)
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    curve = GibbsCurve(losses, n_points, prior)
    objective = _LambdaObjective(n_points, delta_value, n_largest)
    if method == "global":
        # The optimal lambda is at most 1 (eq. lambda).
        return _minimize_globally(curve, objective, n_points, tolerance, iterations)
    return _minimize_alternately(curve, objective, start, iterations)


def _validate_max_iter(max_iter: int | None) -> int | None:
    return None if max_iter is None else int(scalar("max_iter", whole_number("max_iter", max_iter)))


def minimize_kl_bound(
    losses: ArrayLike,
    n: int,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    rtol: float = 1e-8,
    max_iter: int | None = None,
    n_max: int | None = None,
) -> PosteriorResult:
    r"""Minimise the PAC-Bayes-kl bound over all posteriors (Theorem PBkl), certified.

    The bound grows in :math:`E_\rho[\hat L]` and in :math:`KL(\rho \| \pi)`, so its best posterior is a
    Gibbs posterior, and the search is over one number, its temperature, by branch and bound. The minimum is never
    above the kl bound of the posterior that `minimize_lambda_bound` finds, and `lower` is a lower bound on it.
    Where the search needs too many evaluations, it ends early, with a valid bound and `success` false.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int
        Number of points each loss was measured on (n - r in Theorem PBaggregation); the smallest, if they differ.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities; uniform by default.
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the search stops.
    max_iter : int, optional
        Largest number of iterations of a descent. By default 10,000, or fewer where there are more than 10,000
        distinct losses (200 to 10,000, so that they take some ten seconds for a million distinct losses).
    n_max : int, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

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
    n_points, delta_value, n_largest = n_delta_and_largest(n, delta, n_max)
    iterations = _validate_max_iter(max_iter)
    tolerance = scalar("rtol", open_interval("rtol", rtol, 0, 1))
    curve = GibbsCurve(losses, n_points, prior)
    objective = _KlObjective(n_points, delta_value, n_largest)
    return _minimize_globally(curve, objective, np.inf, tolerance, iterations)
