r"""When is the alternating minimum the global one: the paper's conditions, checked.

F(lambda) is strongly quasiconvex on (0, 1] if all its stationary points are strict local minima: then there
is only one, and alternating minimisation finds it (Theorem global-min). The paper gives conditions on the
losses that imply it (Theorem var, with a uniform prior, and the relaxations of appendix thm-var); Theorem
global-min's own conditions are on the variance of the Gibbs posterior, for any prior and all lambda.
`check_quasiconvexity` checks them all, and one more that follows from the proof of Theorem global-min.

Two places are stricter than the paper:

- The proof of Theorem global-min bounds stationary points by lambda >= sqrt(ln(2 sqrt(n) / delta) / n) for
  n >= 7, which needs n >= 4 ln(2 sqrt(n) / delta). For smaller n the conditions that rest on it are not
  claimed, and Theorem global-min's are checked from the smallest lambda that can be stationary.
- Counts and comparisons leave a margin for rounding: a condition that holds with equality is not claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pacbayes._validation import Array, n_and_delta
from pacbayes.bounds import tail
from pacbayes.gibbs import GibbsCurve, Point, between
from pacbayes.posterior import optimal_lambda

__all__ = ["Condition", "QuasiconvexityReport", "check_quasiconvexity"]

# Relative margin for rounding in every comparison.
_MARGIN = 1e-10

# More variance than weights too small for a float can hide.
_UNDERFLOW = 1e-290


@dataclass(frozen=True)
class Condition:
    """One sufficient condition for strong quasiconvexity of F(lambda).

    Attributes
    ----------
    holds : bool
        Whether it is proved.
    figures : dict
        The numbers it rests on, by their names in the paper, and ``"reason"`` where it does not apply
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
        Whether F(lambda) is proved strongly quasiconvex on (0, 1], so that alternating minimisation
        converges to the global minimum from any start. False does not say that it is not: the
        conditions are sufficient, not necessary.
    condition : str or None
        Name of the first condition that holds.
    details : dict of str to Condition
        All conditions by name, from the simplest to the most general.
    """

    guaranteed: bool
    condition: str | None
    details: dict[str, Condition]

    def __str__(self) -> str:
        if self.guaranteed:
            head = f"F(lambda) is strongly quasiconvex ({self.condition}): alternating minimum is global"
        else:
            head = "F(lambda) not proved quasiconvex: alternating minimum may be local"
        lines = [head]
        for name, condition in self.details.items():
            figures = ", ".join(
                f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
                for key, value in condition.figures.items()
            )
            lines.append(f"  {'holds' if condition.holds else 'no   '}  {name}: {figures}")
        return "\n".join(lines)


def check_quasiconvexity(
    losses: ArrayLike,
    n: int,
    *,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
) -> QuasiconvexityReport:
    """Check whether F(lambda) is guaranteed to be strongly quasiconvex.

    The conditions, by name, in the order of the report:

    ``"trivial"``
        m <= K(0, 0) + 1 with a uniform prior (eq. Kab).
    ``"thm-var"``
        Theorem var: at most K hypotheses with excess loss in (a, b), uniform prior.
    ``"thm-var-tune"``
        Tuned intervals a(alpha), b(beta), K(alpha, beta) (appendix thm-var-tune): the best pair, found
        exactly. Only those (alpha, beta) matter at which some hypothesis's loss just falls out of
        the interval.
    ``"thm-var-b"``
        Theorem var with the refined b (appendix thm-var-b), under its side conditions.
    ``"thm-var-tune-b"``
        Both relaxations combined.
    ``"thm-global-min"``
        Theorem global-min: eq. KL-cond or eq. E-cond proved at every lambda, any prior.
    ``"stationary-points"``
        As in the proof of Theorem global-min, its conditions are only needed where F' may vanish:
        proved at every lambda at which F' is not proved to be non-zero, any prior.

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

    Returns
    -------
    QuasiconvexityReport
        `guaranteed`, the first `condition` that holds, and `details` of all.

    Examples
    --------
    >>> report = check_quasiconvexity([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> report.guaranteed, report.condition
    (True, 'trivial')
    """
    n_points, delta_value = n_and_delta(n, delta)
    curve = GibbsCurve(losses, n_points, prior)
    tail_n = float(tail(n_points, delta_value))
    details = _variance_theorems(curve, n_points, tail_n)
    # Where F' = 0, lambda is the best one for its own posterior (eq. lambda), with a loss of at most 1,
    # and at most the prior's: losses of Gibbs posteriors fall with lambda.
    lam_any = optimal_lambda(1.0, 0.0, n_points, delta_value)
    lam_prior = optimal_lambda(curve.at(0.0).loss_up[0], 0.0, n_points, delta_value)
    start = min(lam_any, float(np.sqrt(tail_n / n_points)))
    details["thm-global-min"] = _for_all_lambda(curve, n_points, tail_n, start, only_stationary=False)
    details["stationary-points"] = _for_all_lambda(curve, n_points, tail_n, lam_prior, only_stationary=True)
    first = next((name for name, condition in details.items() if condition.holds), None)
    return QuasiconvexityReport(first is not None, first, details)


# ---------------------------------------------------------------------------------------------------
# Theorem var and its relaxations: how many hypotheses are mediocre
# ---------------------------------------------------------------------------------------------------


def _variance_theorems(curve: GibbsCurve, n: float, tail_n: float) -> dict[str, Condition]:
    names = ("trivial", "thm-var", "thm-var-tune", "thm-var-b", "thm-var-tune-b")
    if not curve.is_uniform:
        reason = Condition(False, {"reason": "the prior is not uniform"})
        return dict.fromkeys(names, reason)
    m, ln_4n_delta2 = curve.m, 2 * tail_n  # ln(4 n / delta^2)
    scale = float(np.sqrt(n * tail_n))  # n lambda at the smallest lambda; b is measured in 1 / scale
    k00 = np.e**2 / 4 * ln_4n_delta2
    trivial = Condition(bool(m - 1 <= k00 * (1 - _MARGIN)), {"m": m, "K(0,0) + 1": k00 + 1})

    # "Bad" hypotheses are harmless because lambda >= sqrt(tail / n) where F' vanishes; see the module's
    # docstring for when the proof of that holds.
    bad_allowed = n >= 4 * tail_n
    needs = {"reason": "needs n >= 4 ln(2 sqrt(n) / delta)", "n": n, "ln(2 sqrt(n)/delta)": tail_n}

    a, k = float(np.sqrt(ln_4n_delta2 / 3) / n), k00 / 3
    b = float((np.log(3 * m) + 2 * np.log(n)) / scale)
    ln_3mn = float(np.log(3 * m) + np.log(n))
    ln_refined = float(np.log(4) + ln_3mn + 2 * np.log(ln_3mn) - np.log(tail_n * ln_4n_delta2))
    thm_var = _mediocre(curve, a, b, k) if bad_allowed else Condition(False, needs)
    thm_var_b = Condition(False, needs)
    if bad_allowed and ln_refined >= 2:
        thm_var_b = _mediocre(curve, a, ln_refined / scale, k)
    elif bad_allowed:
        thm_var_b = Condition(False, {"reason": "needs ln(...) >= 2 in b", "ln(...)": ln_refined})

    # Smallest beta with b(beta) <= x, for each x > 0 as the first bad loss; inf where there is none.
    x = curve.x
    with np.errstate(over="ignore"):
        beta = np.exp(np.log(m) + 2 * np.log(n) - x * scale)
        # Combined: ln y + 2 ln ln y = x scale - ln(4 / (tail ln(4n/delta^2))) with y = m n / beta, solved by
        # the Wright omega function: z + 2 ln z = R at z = 2 omega(R / 2 - ln 2).
        right = x * scale - np.log(4 / (tail_n * ln_4n_delta2))
        beta_refined = np.exp(np.log(m) + np.log(n) - 2 * special.wrightomega(right / 2 - np.log(2)))
    too_small = x * scale < 2 * (1 + _MARGIN)
    beta = np.where(too_small | (beta > 1) | (not bad_allowed), np.inf, beta)
    beta_refined = np.where(too_small | (beta_refined > 1) | (not bad_allowed), np.inf, beta_refined)
    return {
        "trivial": trivial,
        "thm-var": thm_var,
        "thm-var-tune": _tuned(curve, n, ln_4n_delta2, beta),
        "thm-var-b": thm_var_b,
        "thm-var-tune-b": _tuned(curve, n, ln_4n_delta2, beta_refined),
    }


def _mediocre(curve: GibbsCurve, a: float, b: float, k: float) -> Condition:
    """Are at most K hypotheses mediocre, with excess loss in (a, b)?"""
    mediocre = (curve.x > a * (1 - _MARGIN)) & (curve.x < b * (1 + _MARGIN)) & (curve.x > 0)
    count = int(curve.counts[mediocre].sum())
    return Condition(bool(count <= k * (1 - _MARGIN)), {"a": a, "b": b, "K": float(k), "mediocre": count})


def _tuned(curve: GibbsCurve, n: float, ln_4n_delta2: float, beta: Array) -> Condition:
    """Search (alpha, beta) for the interval that leaves K(alpha, beta) most above its count.

    `beta[j]` is the smallest beta that makes the j-th distinct loss bad. Raising alpha or beta costs K
    continuously and gains only where a loss leaves the interval: it suffices to try alpha_i, which
    just makes the i-th loss good, with beta_j, j > i, or no bad loss at all (beta = 0, b = inf).
    The count is #(x < x_j) - #(x <= x_i), so the two choices separate but for j > i.
    """
    kappa = np.e**2 / 4 * ln_4n_delta2
    alpha = (curve.x * n) ** 2 / ln_4n_delta2 * (1 + _MARGIN)
    up_to = np.cumsum(curve.counts).astype(np.float64)
    below = np.concatenate((up_to - curve.counts, [float(curve.m)]))
    cost = np.concatenate((beta * (1 + _MARGIN), [0.0])) * kappa + below  # of the first bad loss
    gain = np.where(alpha <= 1, up_to - kappa * alpha, -np.inf)  # of the last good loss
    # The cheapest j > i for every i, from the right.
    cheapest = np.minimum.accumulate(cost[::-1])[::-1][1:]
    i = int(np.argmax(gain - cheapest))
    j = i + 1 + int(np.argmin(cost[i + 1 :]))
    beta_j = float(beta[j]) if j < curve.x.size else 0.0
    k, count = kappa * (1 - float(alpha[i]) - beta_j), int(below[j] - up_to[i])
    return Condition(
        bool(k >= 0 and count <= k * (1 - _MARGIN)),
        {
            "alpha": float(alpha[i]),
            "beta": beta_j,
            "a": float(curve.x[i]),
            "b": float(curve.x[j]) if j < curve.x.size else np.inf,
            "K": float(k),
            "mediocre": count,
        },
    )


# ---------------------------------------------------------------------------------------------------
# Theorem global-min: conditions for all lambda, proved on finitely many intervals
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Intervals:
    """Intervals [l, r] of lambda, and bounds that hold on all of each.

    Along the Gibbs curve E falls and KL grows with lambda. Two more quantities fall, which bound the
    variance from its figures at the ends of an interval: E[x^2], because x^2 grows with x >= 0, and
    Var * E_pi[exp(-n lambda x)], because d Var / dt = -E[(x - E[x])^3] <= E[x] Var for x >= 0.
    """

    left: Point
    right: Point
    n: float
    tail_n: float  # ln(2 sqrt(n) / delta)

    @property
    def largest_variance(self) -> Array:
        left, right = self.left, self.right
        var = left.var + left.var_error + _UNDERFLOW
        growth = right.minus_log_z - left.minus_log_z + right.log_error + left.log_error
        with np.errstate(over="ignore"):
            by_partition = var * np.exp(growth)
        # E[x^2] at the left minus E[x]^2 at the right, in a form that does not cancel.
        fall = left.mean_x - right.mean_x + left.mean_error + right.mean_error
        by_moments = var + fall * (left.mean_x + right.mean_x)
        return np.minimum(by_partition, by_moments) * (1 + _MARGIN)

    def conditions_hold(self) -> NDArray[np.bool_]:
        """eq. KL-cond or eq. E-cond on the whole interval."""
        var = self.largest_variance
        low, high = self.left.t / self.n, self.right.t / self.n
        kl_cond = 2 * (self.left.kl_div_down + self.tail_n) * (1 - _MARGIN) > (self.n * high) ** 2 * var
        e_cond = self.right.loss_down * (1 - _MARGIN) > (1 - low) * self.n * var
        return np.asarray(kl_cond | e_cond)

    # The sign of F' is that of lambda^2 n E - 2 (1 - lambda)(KL + ln(2 sqrt(n) / delta)).

    def rises(self) -> NDArray[np.bool_]:
        """F' > 0 on the whole interval."""
        low = self.left.t / self.n
        least = low**2 * self.n * self.right.loss_down * (1 - _MARGIN)
        return np.asarray(least > 2 * (1 - low) * (self.right.kl_div_up + self.tail_n))

    def falls(self) -> NDArray[np.bool_]:
        """F' < 0 on the whole interval."""
        high = self.right.t / self.n
        most = high**2 * self.n * self.left.loss_up
        return np.asarray(most < 2 * (1 - high) * (self.left.kl_div_down + self.tail_n) * (1 - _MARGIN))


def _for_all_lambda(curve: GibbsCurve, n: float, tail_n: float, start: float, *, only_stationary: bool) -> Condition:
    """Prove eq. KL-cond or eq. E-cond for all lambda in [start, 1], or for all that may be stationary.

    Intervals are halved until each is proved, a counterexample turns up, or the budget is spent.
    """

    def verdict(reason: str | None, lam: float) -> Condition:
        figures: dict[str, Any] = {"lambda from": start, "lambda to": 1.0}
        if reason is not None:
            figures |= {"reason": reason, "at lambda": lam}
        return Condition(reason is None, figures)

    seen = new = curve.at(n * np.geomspace(start, 1.0, 17))
    left, right = new[:-1], new[1:]
    while True:
        if only_stationary:
            # F' from positive to negative: a local maximum lies between, and F is not quasiconvex.
            order = np.argsort(seen.t)
            points = _Intervals(seen, seen, n, tail_n)
            risen = np.logical_or.accumulate(points.rises()[order])
            falls_again = risen & points.falls()[order]
            if falls_again.any():
                at = float(seen.t[order][falls_again][0] / n)
                return verdict("F rises and falls again", at)
        else:
            fails = ~_Intervals(new, new, n, tail_n).conditions_hold()
            if fails.any():
                return verdict("both conditions fail", float(new.t[fails][0] / n))
        intervals = _Intervals(left, right, n, tail_n)
        proved = intervals.conditions_hold()
        if only_stationary:
            proved |= intervals.rises() | intervals.falls()
        left, right = left[~proved], right[~proved]
        if left.t.size == 0:
            return verdict(None, np.nan)
        middle = between(left, right)
        no_float_between = (middle <= left.t) | (middle >= right.t)
        if seen.t.size + middle.size > curve.affordable or no_float_between.any():
            return verdict("undecided", float(left.t[0] / n))
        new = curve.at(middle)
        seen = seen.joined(new)
        left, right = left.joined(new), new.joined(right)
