"""The dual bound of the best posterior as a function of its multiplier, and its minimiser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import EPS, Array, float_or_array, numbers, open_interval
from pacbayes.bounds.comparators import ComparatorName
from pacbayes.bounds.dual import BETA_RANGE, DualProblem, FixedPosterior, Nodes, Step, descend, starting_beta
from pacbayes.posterior._minimizers import MinimizerResult, is_proved


@dataclass(frozen=True, kw_only=True)
class DualResult(MinimizerResult):
    r"""A posterior, and the dual bound that it minimises: all of `PosteriorResult`, and its multiplier.

    Attributes
    ----------
    rho : ndarray of shape (m,)
        The posterior, proportional to :math:`\pi_h e^{-\psi_h(\mu) / \mu}`. `fun` is valid for it as it is, rounding
        included.
    mu : float
        The multiplier; 0 if nothing is proved.
    status, message : int and str
        0 if `lower` is as close to `fun` as asked, 1 if `max_iter` ended the search before.
    history, mu_history : ndarray of shape (nit,)
        The smallest bound so far, up to rounding, and the multiplier at every step of the descents.
    """

    mu: float
    mu_history: Array = field(repr=False)


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
    losses, n, delta, prior, comparator
        As in `minimize_dual_bound`.
    mu : array_like
        Multipliers, positive.

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
    problem = DualProblem(losses, n, delta, prior, comparator)
    with np.errstate(over="ignore"):
        beta = np.minimum(1 / mu_array.ravel(), BETA_RANGE[1])
    blocks = [problem.at(beta[i : i + problem.rows]).value for i in range(0, beta.size, problem.rows)]
    values = np.concatenate(blocks) if blocks else beta
    return float_or_array(values.reshape(mu_array.shape))


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
    that it gets. For equal numbers and the comparator "kl" the bound is never above that of `minimize_kl_bound`.
    The function of mu that remains is minimised by Newton's method, and a covering of all mu by lower bounds proves
    that the minimum is global.

    Parameters
    ----------
    losses, delta, prior
        As in `minimize_lambda_bound`.
    n : int or array_like of shape (m,)
        Number of points each loss was measured on, chosen independently of those points.
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
        The posterior `rho`, its `mu`, the bound `fun`, and a proved `lower` bound on it.

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
    problem = DualProblem(losses, n, delta, prior, comparator, grid_delta)
    tolerance, most = numbers(rtol=rtol, max_iter=max_iter)
    beta: float | None = starting_beta(problem.loss, problem.n, problem.log_inverse_up - problem.log_mass + 2)
    steps: list[Step] = []
    nfev = 0
    while beta is not None:
        # Below its value at zero, beta F makes the bound larger than one.
        new = descend(problem.step, beta, problem.value_at_zero(), problem.largest_beta, max(int(most) - nfev, 1))
        steps += new
        best = min(steps, key=lambda step: step.value)
        proof = _prove(problem, min(best.value, 1.0) * (1 - tolerance), int(most) - nfev - len(new))
        nfev += len(new) + proof.nfev
        beta = proof.better
    # Evaluate the bound once more, of the posterior as it is after rounding.
    rho, mu = problem.rho(best.beta), 1 / best.beta
    posterior = FixedPosterior(problem, rho)
    fun = posterior.at(best.beta).value
    if not fun < 1:
        # As mu tends to 0 the bound tends to 1 for every posterior.
        rho, mu, fun = np.exp(problem.log_prior), 0.0, 1.0
        rho /= rho.sum()
        posterior = FixedPosterior(problem, rho)
    lower = min(proof.lower, fun)
    status, message = 0, "The minimum is proved to the tolerance asked for."
    if not is_proved(fun, lower, tolerance):
        status, message = 1, "The search ended before the minimum was proved to the tolerance asked for: see `lower`."
    return DualResult(
        rho=rho,
        mu=mu,
        fun=fun,
        loss=posterior.loss,
        kl_div=posterior.kl_div,
        lower=lower,
        nit=len(steps),
        nfev=nfev,
        status=status,
        message=message,
        history=np.minimum(np.minimum.accumulate([step.value for step in steps]), 1.0),
        mu_history=np.array([1 / step.beta for step in steps]),
    )


# -- the proof that the minimum over the multiplier is global ----------------------------------------

# The bound is F(beta) = G(beta) / beta for beta > 0, where G does not decrease. At any beta G has a lower bound for all
# other beta that touches it and is concave (`DualProblem.above`). Concave minus linear is concave: what such a bound
# proves at two values of beta, it proves between them. The proof covers all beta by such intervals.


def _reach(problem: DualProblem, nodes: Nodes, limit: Array, level: float) -> Array:
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


def _prove(problem: DualProblem, level: float, max_iter: int) -> _Proof:
    """Show that the bound is at least `level` for every beta, or find a beta where it is not."""
    # G does not decrease, so F >= level up to G(0) / level. From `last` on the lines rise at least as fast as
    # level * beta: a node there reaches to infinity.
    last = problem.last(level)
    first = problem.value_at_zero() / level * (1 - 2 * EPS)
    gaps = [(min(first, last), last, last)]  # left end, right end, where to evaluate
    nfev = 0
    while gaps:
        taken, gaps = gaps[: problem.rows], gaps[problem.rows :]
        if nfev + len(taken) > max_iter:
            # G is at least level * beta at the left end of a gap, and does not decrease.
            ratio = min(left / right for left, right, _ in taken + gaps)
            return _Proof(level * ratio * (1 - 4 * EPS), None, nfev)
        left, right, beta = np.array(taken).T
        nodes = problem.at(beta)
        nfev += beta.size
        if nodes.value.min() < level:
            return _Proof(0.0, float(beta[nodes.value.argmin()]), nfev)
        # Where rounding hides that the bound is above the level, the level gives way.
        shortfall = float((problem.above(nodes, beta, level)[0] / beta).min())
        if nfev == 1:
            level = min(level, float(nodes.maximizer.min()))
        if shortfall < 0:
            level = (level + 2 * shortfall) * (1 - 4 * EPS)
            if level <= 0:
                return _Proof(0.0, None, nfev)
        lefts, rights = _reach(problem, nodes, left, level), _reach(problem, nodes, right, level)
        for low, high in [*zip(left, lefts, strict=True), *zip(rights, right, strict=True)]:
            middle = np.sqrt(low) * np.sqrt(high)
            if low < middle < high:
                gaps.append((float(low), float(high), float(middle)))
            elif low < high:  # no float lies inside
                level *= low / high * (1 - 4 * EPS)
    return _Proof(level, None, nfev)
