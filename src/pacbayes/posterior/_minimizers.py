"""The Gibbs posterior, F(lambda), and the minimisers of PAC-Bayes-lambda and PAC-Bayes-kl."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import Array, arrays, finite_nonnegative, float_or_array, numbers, open_interval
from pacbayes.bounds import confidence_term, kl_inverse_upper
from pacbayes.bounds.pac_bayes import complexity_of, sqrt_bound_of
from pacbayes.bounds.prior import SLACK
from pacbayes.posterior.gibbs import GibbsCurve, GibbsMoments, GibbsProblem, optimal_lambda_of, split_interval

# Relative change of lambda below which a descent has converged. It has to be this small: where F is almost flat without
# being stationary, lambda moves slowly while the bound decreases by less than its rounding error.
_STEP_RTOL = 1e-12

# Iterations of a descent, unless the user asks for more.
_MAX_ITER = 10_000

_OUT_OF_ITERATIONS = "The largest number of iterations, {}, was reached."

# What rounding may take from `lower` beyond the tolerance that was asked for, relative to the bound.
_GAP_SLACK = 1e-12

# Factor that undoes the rounding up of a bound, and more, where it serves as a lower bound.
_ROUND_DOWN = 1 - 4 * SLACK


# -- the two update rules and F(lambda) --------------------------------------------------------------


def gibbs_posterior(losses: ArrayLike, lam: float, n: int, prior: ArrayLike | None = None) -> Array:
    r"""Compute the Gibbs posterior, the minimiser of the PAC-Bayes-lambda bound for fixed lambda (eq. rho).

    .. math:: \rho_\lambda(h) = \frac{\pi(h) e^{-\lambda n \hat L(h, S)}}
        {E_\pi\left[e^{-\lambda n \hat L(h', S)}\right]}

    Parameters
    ----------
    losses, n, prior
        As in `minimize_lambda_bound`.
    lam : float
        Trade-off lambda, in (0, 2).

    Returns
    -------
    ndarray of shape (m,)
        Posterior weights.

    Examples
    --------
    >>> gibbs_posterior([0.1, 0.2, 0.2], lam=0.5, n=20).round(4).tolist()
    [0.5761, 0.2119, 0.2119]
    """
    n_points, trade_off = numbers(n=n, lam=lam)
    return GibbsCurve(losses, n_points, prior).rho(trade_off * n_points)


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
    n, delta, n_max : array_like
        As in `pacbayes.bounds.pac_bayes_kl`.

    Returns
    -------
    float or ndarray
        The optimal lambda, in (0, 1].

    Examples
    --------
    >>> round(optimal_lambda(loss=0.1, kl_div=2.0, n=1000), 6)
    0.345853
    """
    loss_array, n_array = arrays(loss=loss, n=n)
    divergence, confidence = finite_nonnegative("kl_div", kl_div), confidence_term(n, delta, n_max=n_max)
    return float_or_array(optimal_lambda_of(loss_array, divergence, n_array, confidence))


def _lambda_curve(moments: GibbsMoments, lam: Array, problem: GibbsProblem) -> tuple[Array, Array, Array]:
    """Compute F = f g, rounded up, F' and F'' at each lambda = t / n (appendix derivatives)."""
    # -ln E_pi[exp(-n lam L)] is n lam times the smallest loss plus `minus_log_z`.
    f = lam * moments.min_loss + (moments.minus_log_z + problem.confidence) / problem.n
    df, d2f = moments.loss, -problem.n * moments.var
    u = lam * (1 - lam / 2)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        g, dg, d2g = 1 / u, (lam - 1) / u**2, (3 * (lam - 1) ** 2 + 1) / (2 * u**3)
        second = d2f * g + 2 * df * dg + f * d2g
        # Where lambda^3 underflows, the last term overflows and dominates the others.
        return f * g * (1 + SLACK), df * g + f * dg, np.where(np.isnan(second), np.inf, second)


def _evaluate_curve(
    losses: ArrayLike, lam: ArrayLike, n: int, delta: float, prior: ArrayLike | None, n_max: int | None
) -> list[Any]:
    """Evaluate F, F' and F'' at each lambda, in the shape of `lam`."""
    problem = GibbsProblem.validated(losses, n, delta, prior, n_max)
    lam_array = open_interval("lam", lam, 0, 2)
    flat = lam_array.ravel()
    values = _lambda_curve(problem.curve.at(flat * problem.n), flat, problem)
    return [float_or_array(value.reshape(lam_array.shape)) for value in values]


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
    losses, n, delta, prior, n_max
        As in `minimize_lambda_bound`.
    lam : array_like
        Trade-offs lambda, in (0, 2).

    Returns
    -------
    float or ndarray
        F at each lambda.

    Examples
    --------
    >>> lambda_bound([0.1, 0.2, 0.2], lam=[0.2, 0.6], n=1000).round(6).tolist()
    [0.156896, 0.162479]
    """
    return _evaluate_curve(losses, lam, n, delta, prior, n_max)[0]


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
    _, first, second = _evaluate_curve(losses, lam, n, delta, prior, n_max)
    return first, second


# -- minimisers --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MinimizerResult:
    """What every minimiser returns; `PosteriorResult` says what the fields are."""

    rho: Array = field(repr=False)
    fun: float
    loss: float
    kl_div: float
    lower: float | None
    nit: int
    nfev: int
    status: int
    message: str
    history: Array = field(repr=False)
    lam: float | None = None

    @property
    def success(self) -> bool:
        """Whether `status` is 0."""
        return self.status == 0

    converged = success


def is_proved(fun: float, lower: float, rtol: float) -> bool:
    """Whether `lower` is as close to `fun` as asked."""
    return fun - lower <= (rtol + _GAP_SLACK) * fun


@dataclass(frozen=True, kw_only=True)
class PosteriorResult(MinimizerResult):
    r"""A posterior and the bound that it minimises, in the style of `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior: a Gibbs posterior, :math:`\rho \propto \pi e^{-\lambda n \hat L}`.
    lam : float
        Its lambda. For the kl bound, the inverse temperature of rho divided by n; inf if rho is the prior
        restricted to the smallest loss. None for the dual and the direct bound, whose posteriors are no Gibbs
        posteriors of the empirical losses.
    fun : float
        The bound on :math:`E_\rho[L]`, rounded up.
    loss, kl_div : float
        Empirical loss :math:`E_\rho[\hat L]` and :math:`KL(\rho \| \pi)`, rounded up.
    nit, nfev : int
        Number of iterations of the descent that ended at rho, and of posteriors that were evaluated in all.
    success : bool
        Whether alternating minimisation converged, or the global search proved that `fun` is the minimum to within
        the requested tolerance; also called `converged`.
    status, message : int and str
        0: success. 1: the largest number of iterations was reached. 2: the largest number of evaluations was reached.
        3: `lower` cannot be improved in double precision.
    lower : float or None
        A proved lower bound on the minimum over all posteriors (and all lambda), rounded down. None for
        alternating minimisation, which proves none.
    history, lam_history : ndarray of shape (nit + 1,)
        The bound, which does not increase, and lambda at every iteration of the descent.
    """

    lam: float
    lam_history: Array = field(repr=False)


@dataclass(frozen=True)
class _Objective(ABC):
    """A bound B(E, KL), increasing in both arguments, whose sublevel sets are {KL <= convex function of E}."""

    problem: GibbsProblem
    t_max: float  # the best posterior's temperature is at most this

    # B, rounded up, from the loss and the right hand side of eq. PBkl.
    _bound: ClassVar[Any]

    @abstractmethod
    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        """Return a temperature whose Gibbs posterior has a bound of at most `value`, that of `moments`."""

    def bound(self, loss: Array, kl_div: Array) -> Array:
        """Compute B, rounded up."""
        return np.asarray(self._bound(loss, complexity_of(kl_div, self.problem.n, self.problem.confidence)))

    def at(self, moments: GibbsMoments) -> Array:
        """Compute what is minimised along the Gibbs curve: at least B, and equal to it at a minimum."""
        return self.bound(moments.loss_up, moments.kl_div_up)


class _LambdaObjective(_Objective):
    """F(lambda), t = n lambda. At its optimal lambda the bound of a posterior is eq. PBsqrt."""

    _bound = staticmethod(sqrt_bound_of)

    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        n = self.problem.n
        return n * optimal_lambda_of(moments.loss, moments.kl_div, n, self.problem.confidence)

    def at(self, moments: GibbsMoments) -> Array:
        return _lambda_curve(moments, moments.t / self.problem.n, self.problem)[0]


class _KlObjective(_Objective):
    """Theorem PBkl, inverted."""

    _bound = staticmethod(kl_inverse_upper)

    def next_temperature(self, moments: GibbsMoments, value: Array) -> Array:
        # kl(E || b) is convex in E. Replacing it by its tangent at this posterior's E, with b its bound, gives a lower
        # bound on the kl of every posterior. The Gibbs posterior at minus n times the tangent's slope,
        # ln(E (1 - b) / (b (1 - E))), minimises KL minus n times the tangent.
        loss, b = moments.loss, value
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(b) - np.log(loss) + np.log1p(-loss) - np.log1p(-b)
        # If the bound is vacuous (loss and bound are 1), no posterior is better.
        return np.where(loss < b, self.problem.n * slope, moments.t)


class _Descent(NamedTuple):
    """Temperatures and bounds of a descent, the moments of its last posterior, and whether it converged."""

    ts: Array
    values: Array
    moments: GibbsMoments
    converged: bool

    @property
    def fun(self) -> float:
        return float(self.values[-1])


def _descend(objective: _Objective, t: float, max_iter: int) -> _Descent:
    """Iterate `next_temperature` until it changes by less than `_STEP_RTOL`, at most `max_iter` times."""
    curve = objective.problem.curve
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


def _branch_and_bound(
    objective: _Objective, best: float, rtol: float, max_evaluations: int
) -> tuple[float, GibbsMoments | None, int, bool]:
    """Return a lower bound over all temperatures, a posterior below `best`, evaluations, and whether they ran out."""
    curve, t_max, better = objective.problem.curve, objective.t_max, None
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
            return proved, better, nfev, exhausted
        new = curve.at(middle[~settled])
        nfev += new.t.size
        left, right = left[~settled].concatenate(new), new.concatenate(right[~settled])


def _minimize_globally(objective: _Objective, rtol: float, max_iter: int | None) -> PosteriorResult:
    """Descend from lambda = 1, then search for anything better by branch and bound, and descend from there."""
    budget = objective.problem.curve.max_evaluations
    descent = _descend(objective, objective.problem.n, _most_iterations(max_iter, budget // 2))
    nfev = descent.ts.size
    most = max(budget - nfev, budget // 2)
    lower, better, searched, exhausted = _branch_and_bound(objective, descent.fun, rtol, most)
    nfev += searched
    if better is not None:
        value = objective.bound(better.loss_up, better.kl_div_up)
        start = float(objective.next_temperature(better, value)[0])
        other = _descend(objective, start, _most_iterations(max_iter, max(budget - nfev, 1)))
        nfev += other.ts.size
        if other.fun < descent.fun:
            descent = other
    lower = min(lower, descent.fun)
    if is_proved(descent.fun, lower, rtol):
        status, message = 0, f"The minimum is proved to a relative gap of {rtol:g}."
    elif exhausted:
        status, message = 2, f"The largest number of evaluations, {nfev}, was reached."
    elif not descent.converged:
        status, message = 1, _OUT_OF_ITERATIONS.format(descent.ts.size - 1)
    else:
        status, message = 3, "The lower bound cannot be improved in double precision."
    return _posterior_result(objective.problem, descent, nfev, status, message, lower)


def _posterior_result(
    problem: GibbsProblem, descent: _Descent, nfev: int, status: int, message: str, lower: float | None
) -> PosteriorResult:
    t = float(descent.ts[-1])
    return PosteriorResult(
        rho=problem.curve.rho(t),
        lam=t / problem.n,
        fun=descent.fun,
        loss=float(descent.moments.loss_up[0]),
        kl_div=float(descent.moments.kl_div_up[0]),
        nit=descent.ts.size - 1,
        nfev=nfev,
        status=status,
        message=message,
        lower=lower,
        history=descent.values,
        lam_history=descent.ts / problem.n,
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

    ``method="alternating"`` applies eq. rho and eq. lambda in turn until lambda stops changing. It finds the global
    minimum where F(lambda) is quasiconvex (`pacbayes.quasiconvexity` can guarantee it), and a local one elsewhere.
    ``method="global"`` finds the global minimum in all cases, by branch and bound over the Gibbs posteriors, and
    proves it. Where either needs too many evaluations, it ends early, with a valid bound and `success` false.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : int
        Number of points each loss was measured on (n - r in Theorem PBaggregation); the smallest, if they differ.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Probabilities, or log-probabilities (an array with no entry above zero is read as such), summing to one. Zeros
        are allowed. Uniform by default.
    method : {"alternating", "global"}, default="alternating"
        How to minimise.
    lam0 : float, default=1.0
        Where alternating minimisation starts, in (0, 2).
    rtol : float, default=1e-8
        Relative gap between `fun` and `lower` at which the global method stops.
    max_iter : int, optional
        Largest number of iterations of a descent. By default 10,000, or fewer where there are more than 10,000
        distinct losses (200 to 10,000, so that they take about ten seconds for a million distinct losses).
    n_max : int, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    PosteriorResult
        The posterior `rho`, its `lam`, the bound `fun`, and how they were found.

    Examples
    --------
    >>> result = minimize_lambda_bound([0.10, 0.12, 0.15, 0.30, 0.45], n=500, method="global")
    >>> round(result.fun, 6), round(result.lam, 4), result.converged
    (0.177108, 0.4339, True)
    >>> 0 <= result.fun - result.lower <= 1e-8
    True
    """
    problem = GibbsProblem.validated(losses, n, delta, prior, n_max)
    start, tolerance = numbers(lam0=lam0, rtol=rtol)
    if method not in ("alternating", "global"):
        raise ValueError(f"method must be 'alternating' or 'global', got {method!r}")
    # The optimal lambda is at most 1 (eq. lambda).
    objective = _LambdaObjective(problem, t_max=problem.n)
    if method == "global":
        return _minimize_globally(objective, tolerance, max_iter)
    most = _most_iterations(max_iter, problem.curve.max_evaluations - 1)
    descent = _descend(objective, start * problem.n, most)
    status, message = 0, f"Lambda changed by less than a relative {_STEP_RTOL:g}."
    if not descent.converged:
        status, message = 1, _OUT_OF_ITERATIONS.format(descent.ts.size - 1)
    return _posterior_result(problem, descent, descent.ts.size, status, message, None)


def _most_iterations(max_iter: int | None, budget: int) -> int:
    return min(_MAX_ITER, budget) if max_iter is None else int(*numbers(max_iter=max_iter))


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
    above the kl bound of the posterior that `minimize_lambda_bound` finds. Where the search needs too many
    evaluations, it ends early, with a valid bound and `success` false.

    Parameters
    ----------
    losses, n, delta, prior, rtol, max_iter, n_max
        As in `minimize_lambda_bound`.

    Returns
    -------
    PosteriorResult
        The posterior `rho`, its `lam`, the bound `fun`, and how they were found.

    Examples
    --------
    >>> result = minimize_kl_bound([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> round(result.fun, 6), round(result.lam, 4), result.converged
    (0.163752, 0.5659, True)
    """
    problem = GibbsProblem.validated(losses, n, delta, prior, n_max)
    (tolerance,) = numbers(rtol=rtol)
    return _minimize_globally(_KlObjective(problem, np.inf), tolerance, max_iter)
