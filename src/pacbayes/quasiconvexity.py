r"""Check whether the local minimum of alternating minimisation is the global one, by the paper's conditions.

F(lambda) is strongly quasiconvex on (0, 1] if all its stationary points are strict local minima: then there
is only one, and alternating minimisation finds it (Theorem global-min). The paper gives conditions on the
losses that imply it (Theorem var, with a uniform prior, and its relaxations in the appendix). The
conditions of Theorem global-min itself are on the variance of the Gibbs posterior, for any prior and all lambda.
`check_quasiconvexity` checks them all, and one more that follows from the proof of Theorem global-min.

Two places are stricter than the paper:

- The proof of Theorem global-min bounds stationary points by lambda >= sqrt(ln(2 sqrt(n) / delta) / n) for
  n >= 7, which needs n >= 4 ln(2 sqrt(n) / delta). For smaller n the conditions that rest on it are not
  claimed, and Theorem global-min's are checked from the smallest lambda that can be stationary.
- Comparisons allow for rounding: a condition that holds with equality is not claimed.

Rounding is accounted for in two parts. The moments of Gibbs posteriors come with bounds on their own errors
(`pacbayes.posterior.gibbs`), which grow with the exponents t x - ln(pi) and hence with extreme log-priors and large n;
every comparison uses the moments at the unfavourable end of these bounds. What is left are the operations of the
comparisons themselves: fewer than a hundred, on positive terms, each with a relative error of an ulp at most, in total
1e-14 where the margin is 1e-10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pacbayes._validation import Array
from pacbayes.bounds.prior import SLACK
from pacbayes.posterior.gibbs import GibbsCurve, GibbsMoments, GibbsProblem, optimal_lambda_of, split_interval

__all__ = ["Condition", "QuasiconvexityReport", "check_quasiconvexity"]

# Names of the conditions that follow from Theorem var, and of all conditions, from the simplest to the most general.
_MEDIOCRE = tuple(f"few mediocre losses{kind}" for kind in ("", ", tuned", ", refined b", ", tuned, refined b"))
THEOREM_VAR_CONDITIONS = ("few hypotheses", *_MEDIOCRE)
CONDITIONS = (*THEOREM_VAR_CONDITIONS, "small variance", "small variance where F' = 0")

# Relative margin for the rounding errors of the comparisons; those of the moments are accounted for separately.
_MARGIN = 1e-10

# Upper bound on the variance due to weights that underflow.
_UNDERFLOW = 1e-290


@dataclass(frozen=True)
class Condition:
    """One sufficient condition for strong quasiconvexity of F(lambda).

    Attributes
    ----------
    holds : bool
        Whether it is proved.
    figures : dict
        The numbers it depends on, by their names in the paper, and ``"reason"`` where it does not apply
        or could not be decided.
    """

    holds: bool
    figures: dict[str, Any]


@dataclass(frozen=True)
class QuasiconvexityReport:
    """What is proved about the shape of F(lambda).

    Attributes
    ----------
    guaranteed : bool
        Whether F(lambda) is proved strongly quasiconvex on (0, 1], so that alternating minimisation converges to the
        global minimum from any start. The conditions are sufficient, not necessary.
    condition : str or None
        Name of the first condition that holds, one of `CONDITIONS`.
    details : dict of str to Condition
        All conditions by name, from the simplest to the most general.
    """

    guaranteed: bool
    condition: str | None
    details: dict[str, Condition]

    def __str__(self) -> str:
        lines = ["F(lambda) is not proved quasiconvex: the alternating minimum may be local"]
        if self.guaranteed:
            lines = [f"F(lambda) is strongly quasiconvex and its alternating minimum is global: {self.condition}"]
        for name, condition in self.details.items():
            shown = {key: f"{x:.6g}" if isinstance(x, float) else x for key, x in condition.figures.items()}
            figures = ", ".join(f"{key} = {value}" for key, value in shown.items())
            lines.append(f"  {'holds' if condition.holds else 'no   '}  {name}: {figures}")
        return "\n".join(lines)


def check_quasiconvexity(
    losses: ArrayLike, n: int, *, delta: float = 0.05, prior: ArrayLike | None = None, n_max: int | None = None
) -> QuasiconvexityReport:
    r"""Check whether F(lambda) is guaranteed to be strongly quasiconvex.

    The conditions, by name, in the order of the report:

    "few hypotheses"
        m <= K(0, 0) + 1 with a uniform prior (eq. Kab), whatever the losses.
    "few mediocre losses"
        Theorem var: at most K hypotheses with excess loss in (a, b), uniform prior.
    "few mediocre losses, tuned"
        The same with tuned a(alpha), b(beta), K(alpha, beta) (eq. Kab), at the best pair (alpha, beta).
    "few mediocre losses, refined b"
        The same with the refined b of the appendix, under its side conditions.
    "few mediocre losses, tuned, refined b"
        Both relaxations combined.
    "small variance"
        Theorem global-min: eq. KL-cond or eq. E-cond proved at every lambda, any prior.
    "small variance where F' = 0"
        The same at every lambda at which F' is not proved to be non-zero, which is where its proof needs it.

    Parameters
    ----------
    losses, n, delta, prior, n_max
        As in `pacbayes.posterior.minimize_lambda_bound`.

    Returns
    -------
    QuasiconvexityReport
        `guaranteed`, the first `condition` that holds, and `details` of all.

    Examples
    --------
    >>> report = check_quasiconvexity([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> report.guaranteed, report.condition
    (True, 'few hypotheses')
    """
    details = dict(_check_in_order(GibbsProblem.validated(losses, n, delta, prior, n_max)))
    first = next((name for name, condition in details.items() if condition.holds), None)
    return QuasiconvexityReport(first is not None, first, details)


def first_condition(
    losses: ArrayLike, n: int, delta: float, prior: ArrayLike | None = None, n_max: int | None = None
) -> str | None:
    """Return the name of the first condition that holds, as `check_quasiconvexity` would, without checking others."""
    conditions = _check_in_order(GibbsProblem.validated(losses, n, delta, prior, n_max))
    return next((name for name, condition in conditions if condition.holds), None)


def conditions_hold(
    losses: ArrayLike, lam: Array, n: int, delta: float, prior: ArrayLike | None, n_max: int | None
) -> NDArray[np.bool_]:
    """Return whether eq. KL-cond or eq. E-cond of Theorem global-min, which is about lambda up to 1, holds at each."""
    problem = GibbsProblem.validated(losses, n, delta, prior, n_max)
    points = problem.curve.at(problem.n * lam)
    return _Intervals(points, points, problem).conditions_hold() & (lam <= 1)


def _check_in_order(problem: GibbsProblem) -> Iterator[tuple[str, Condition]]:
    """Yield all conditions by name, from the simplest to the most general, each checked when it is asked for."""
    yield from _check_theorem_var(problem).items()
    # Where F' = 0, lambda is optimal for its own posterior (eq. lambda), whose loss is at most 1, and at most the
    # prior's: the loss of Gibbs posteriors decreases with lambda.
    losses_at_most = np.append(1.0, problem.curve.at(0.0).loss_up)
    lam_any, lam_prior = optimal_lambda_of(losses_at_most, np.zeros(2), problem.n, problem.confidence) * (1 - SLACK)
    start = min(float(lam_any), float(np.sqrt(problem.confidence / problem.n)) * (1 - SLACK))
    yield CONDITIONS[-2], _check_all_lambda(problem, start, only_stationary=False)
    yield CONDITIONS[-1], _check_all_lambda(problem, float(lam_prior), only_stationary=True)


# -- Theorem var and its relaxations: bounds on the number of hypotheses with a mediocre loss ---------


def _check_theorem_var(problem: GibbsProblem) -> dict[str, Condition]:
    """Check Theorem var and its relaxations."""
    curve, n, confidence = problem.curve, problem.n, problem.confidence
    if not curve.is_uniform:
        reason = Condition(False, {"reason": "the prior is not uniform"})
        return dict.fromkeys(THEOREM_VAR_CONDITIONS, reason)
    m, ln_4n_delta2 = curve.m, 2 * confidence  # ln(4 n / delta^2)
    scale = float(np.sqrt(n * confidence))  # n lambda at the smallest lambda; b is measured in 1 / scale
    k00 = math.e**2 / 4 * ln_4n_delta2
    few = Condition(bool(m - 1 <= k00 * (1 - _MARGIN)), {"m": m, "K(0,0) + 1": k00 + 1})

    # "Bad" hypotheses contribute little variance because lambda >= sqrt(confidence / n) where F' vanishes; see the
    # module's docstring for when the proof of that holds.
    bad_allowed = n >= 4 * confidence * (1 + _MARGIN)
    needs = {"reason": "needs n >= 4 ln(2 sqrt(n) / delta)", "n": n, "ln(2 sqrt(n)/delta)": confidence}

    a, k = float(np.sqrt(ln_4n_delta2 / 3) / n), k00 / 3
    b = float((np.log(3 * m) + 2 * np.log(n)) / scale)
    ln_3mn = float(np.log(3 * m) + np.log(n))
    ln_refined = float(np.log(4) + ln_3mn + 2 * np.log(ln_3mn) - np.log(confidence * ln_4n_delta2))
    var = refined = Condition(False, needs)
    if bad_allowed:
        var = _count_mediocre(curve, a, b, k)
        refined = _count_mediocre(curve, a, ln_refined / scale, k)
        if ln_refined < 2 * (1 + _MARGIN):
            refined = Condition(False, {"reason": "needs ln(...) >= 2 in b", "ln(...)": ln_refined})

    # Smallest beta with b(beta) <= x, for each x > 0 as the smallest bad loss; inf where there is none. The exponents
    # that matter, those with a beta that is neither above 1 nor 0, are below 1000: `_MARGIN` covers their errors.
    x = curve.x
    with np.errstate(over="ignore"):
        beta = np.exp(np.log(m) + 2 * np.log(n) - x * scale) * (1 + _MARGIN)
        # Combined: ln y + 2 ln ln y = x scale - ln(4 / (confidence ln(4n/delta^2))) with y = m n / beta, solved by
        # the Wright omega function: z + 2 ln z = R at z = 2 omega(R / 2 - ln 2).
        right = x * scale - np.log(4 / (confidence * ln_4n_delta2))
        ln_y = 2 * special.wrightomega(right / 2 - np.log(2))
        beta_refined = np.exp(np.log(m) + np.log(n) - ln_y) * (1 + _MARGIN)
    may_be_bad = bad_allowed & (x * scale >= 2 * (1 + _MARGIN))
    tuned, tuned_refined = (
        _tune_interval(curve, n, ln_4n_delta2, np.where(may_be_bad & (smallest <= 1), smallest, np.inf))
        for smallest in (beta, beta_refined)
    )
    return dict(zip(THEOREM_VAR_CONDITIONS, (few, var, tuned, refined, tuned_refined), strict=True))


def _count_mediocre(curve: GibbsCurve, a: float, b: float, k: float) -> Condition:
    """Check that at most K hypotheses are mediocre, with excess loss in (a, b)."""
    mediocre = (curve.x > a * (1 - _MARGIN)) & (curve.x < b * (1 + _MARGIN)) & (curve.x > 0)
    count = int(curve.counts[mediocre].sum())
    return Condition(bool(count <= k * (1 - _MARGIN)), {"a": a, "b": b, "K": float(k), "mediocre": count})


def _tune_interval(curve: GibbsCurve, n: float, ln_4n_delta2: float, beta: Array) -> Condition:
    """Search (alpha, beta) for the interval with the largest difference of K(alpha, beta) and its count.

    `beta[j]` is the smallest beta that makes the j-th distinct loss bad. K decreases continuously in alpha and beta,
    and the count decreases only where a loss leaves the interval. It therefore suffices to try alpha_i, the smallest
    alpha that makes the i-th loss good, with beta_j, j > i, or without bad losses (beta = 0, b = inf).
    The count is #(x < x_j) - #(x <= x_i), so that i and j can be optimised separately but for j > i.
    """
    kappa = math.e**2 / 4 * ln_4n_delta2
    with np.errstate(over="ignore"):
        alpha = (curve.x * n) ** 2 / ln_4n_delta2 * (1 + _MARGIN)
    up_to = np.cumsum(curve.counts).astype(np.float64)
    below = np.concatenate((up_to - curve.counts, [float(curve.m)]))
    x, beta = np.append(curve.x, np.inf), np.append(beta, 0.0)
    cost = beta * kappa + below  # of the smallest bad loss
    gain = np.where(alpha <= 1, up_to - kappa * alpha, -np.inf)  # of the largest good loss
    # The smallest cost at j > i for every i, from the right.
    cheapest = np.minimum.accumulate(cost[::-1])[::-1][1:]
    i = int(np.argmax(gain - cheapest))
    j = i + 1 + int(np.argmin(cost[i + 1 :]))
    k, count = kappa * (1 - float(alpha[i]) - float(beta[j])), int(below[j] - up_to[i])
    figures = {"alpha": alpha[i], "beta": beta[j], "a": x[i], "b": x[j], "K": k}
    holds = bool(k >= 0 and count <= k * (1 - _MARGIN))
    return Condition(holds, {name: float(value) for name, value in figures.items()} | {"mediocre": count})


# -- Theorem global-min: conditions for all lambda, proved on finitely many intervals -----------------


@dataclass(frozen=True)
class _Intervals:
    """Intervals [left, right] of lambda, and inequalities that hold on the whole of each.

    Along the Gibbs curve E decreases and KL increases with lambda. Two more quantities decrease, which bound the
    variance by the moments at the ends of an interval: E[x^2], because x^2 increases with x >= 0, and
    Var * E_pi[exp(-n lambda x)], because d Var / dt = -E[(x - E[x])^3] <= E[x] Var for x >= 0.
    """

    left: GibbsMoments
    right: GibbsMoments
    problem: GibbsProblem

    @property
    def largest_variance(self) -> Array:
        """Upper bound on the variance in each interval."""
        left, right = self.left, self.right
        var = left.var + left.var_error + _UNDERFLOW
        growth = right.minus_log_z - left.minus_log_z + right.log_error + left.log_error
        with np.errstate(over="ignore"):
            by_partition = var * np.exp(growth)
        # E[x^2] at the left minus E[x]^2 at the right, in a form that does not cancel.
        error = left.mean_error + right.mean_error
        by_moments = var + (left.mean_x - right.mean_x + error) * (left.mean_x + right.mean_x + error)
        return np.minimum(by_partition, by_moments) * (1 + _MARGIN)

    def _complement(self, t: Array) -> Array:
        """Return 1 - lambda at t = n lambda. The difference n - t is exact where it is small."""
        return (self.problem.n - t) / self.problem.n

    def conditions_hold(self) -> NDArray[np.bool_]:
        """Return whether eq. KL-cond holds on the whole interval, or eq. E-cond does."""
        var = self.largest_variance
        with np.errstate(over="ignore"):
            kl_cond = 2 * (self.left.kl_div_down + self.problem.confidence) * (1 - _MARGIN) > self.right.t**2 * var
        e_cond = self.right.loss_down * (1 - _MARGIN) > self._complement(self.left.t) * self.problem.n * var
        return np.asarray(kl_cond | e_cond)

    # The sign of F' is that of lambda^2 n E - 2 (1 - lambda)(KL + ln(2 sqrt(n) / delta)).

    def increasing(self) -> NDArray[np.bool_]:
        """Return whether F' > 0 on the whole interval."""
        least = self.left.t / self.problem.n * self.left.t * self.right.loss_down * (1 - _MARGIN)
        return np.asarray(least > 2 * self._complement(self.left.t) * (self.right.kl_div_up + self.problem.confidence))

    def decreasing(self) -> NDArray[np.bool_]:
        """Return whether F' < 0 on the whole interval."""
        most = self.right.t / self.problem.n * self.right.t * self.left.loss_up
        least = 2 * self._complement(self.right.t) * (self.left.kl_div_down + self.problem.confidence)
        return np.asarray(most < least * (1 - _MARGIN))


def _check_all_lambda(problem: GibbsProblem, start: float, *, only_stationary: bool) -> Condition:
    """Prove eq. KL-cond or eq. E-cond for all lambda in [start, 1], or for all that may be stationary, by splitting."""
    curve, n = problem.curve, problem.n

    figures: dict[str, Any] = {"lambda from": start, "lambda to": 1.0}

    def refuse(reason: str, t: float) -> Condition:
        return Condition(False, figures | {"reason": reason, "at lambda": float(t / n)})

    seen = new = curve.at(n * np.geomspace(start, 1.0, 17))
    left, right = new[:-1], new[1:]
    while True:
        if only_stationary:
            # If F' changes from positive to negative, there is a local maximum, and F is not quasiconvex.
            seen = seen[np.argsort(seen.t)]
            points = _Intervals(seen, seen, problem)
            decreases_again = np.logical_or.accumulate(points.increasing()) & points.decreasing()
            if decreases_again.any():
                return refuse("F increases and decreases again", seen.t[decreases_again][0])
        else:
            fails = ~_Intervals(new, new, problem).conditions_hold()
            if fails.any():
                return refuse("both conditions fail", new.t[fails][0])
        intervals = _Intervals(left, right, problem)
        proved = intervals.conditions_hold()
        if only_stationary:
            proved |= intervals.increasing() | intervals.decreasing()
        left, right = left[~proved], right[~proved]
        if left.t.size == 0:
            return Condition(True, figures)
        middle = split_interval(left, right)
        no_float_between = (middle <= left.t) | (middle >= right.t)
        if seen.t.size + middle.size > curve.max_evaluations or no_float_between.any():
            return refuse("undecided", left.t[0])
        new = curve.at(middle)
        seen = seen.concatenate(new)
        left, right = left.concatenate(new), new.concatenate(right)
