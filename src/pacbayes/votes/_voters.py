"""Bound on the vote from the bounds of several voters at once, and the linear programme for its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pacbayes._validation import EPS, Array, as_real_array, finite_nonnegative, numbers, unit_interval, vector
from pacbayes.bounds import clopper_pearson
from pacbayes.votes._means import choose_bet, mean_upper_bound
from pacbayes.votes._weights import check_voters_by_points

# The programme takes voters in batches, as long as one outside of it would lower its value by more than the tolerance.
_BATCH = 24
_ROUNDS = 6
_GAIN = 1e-7
# Points that the programme looks at: more would take seconds, and any weights are valid.
_MOST_POINTS = 4000
# Where disagreements contradict the bounds, as they may at points seen in training, the weights would grow for ever.
_LARGEST_TOTAL = 16.0
# Multiples of its solution that are compared when the deviation term counts.
_SCALES = 6


@dataclass(frozen=True)
class VoterWeights:
    """Weights for `voters_bound`.

    Attributes
    ----------
    w : ndarray of shape (m,)
        Weights of the voters, non-negative; their sum is at least 1 unless nothing can be proved.
    bet : float or None
        The bet for `mean_upper_bound`; None for a single voter, which needs none.
    expected : float
        What the bound would be on points with the same disagreements.
    """

    w: Array
    bet: float | None
    expected: float


def voters_bound(
    voter_bounds: ArrayLike,
    disagreement: ArrayLike,
    w: ArrayLike,
    delta: float = 0.05,
    *,
    runner_up: ArrayLike | None = None,
    bet: float | None = None,
) -> float:
    r"""Bound any classifier by the bounds of several voters and where it disagrees with them.

    Let :math:`L(h) \le b_h` for all voters h simultaneously, and :math:`d_h(x) = 1\{h(x) \ne V(x)\}`. Where the
    vote V is right, the voters that disagree err; where it errs, at least those err that agree. So for all
    weights w >= 0

    .. math::
        L(V) \le \sum_h w_h b_h + E_x\left[\left(1 - \sum_h w_h (1 - 2 d_h(x))\right)_+
        - \sum_h w_h d_h(x)\right].

    The weights w are those of the proof, not of the vote, and V may be any classifier. The second term needs
    inputs only: a mean of independent values that are at most 1, bounded by `mean_upper_bound`; if a single
    voter has weight, by Clopper-Pearson. With w = rho / gamma for the vote's own weights it is `margin_bound`.

    Parameters
    ----------
    voter_bounds : array_like of shape (m,)
        Simultaneous upper bounds on the zero-one losses of the voters, such as
        ``clopper_pearson(errors, n, delta, prior_mass=prior)``.
    disagreement : array_like of shape (m, u)
        Whether voter h and the vote predict different classes at each unlabelled point, as booleans. Numbers
        in [0, 1] are for randomised voters: the probability of a different class.
    w : array_like of shape (m,)
        Weights, non-negative and chosen without looking at these points, for instance by
        `optimize_voter_weights` on the training inputs.
    delta : float, default=0.05
        Probability with which the mean over the points may fail, on top of that of `voter_bounds`.
    runner_up : array_like of shape (u,), optional
        With more than two classes, the largest sum of w over the voters for one class other than V(x): where V
        errs, no more than these can be right. By default all that disagree.
    bet : float, optional
        As in `mean_upper_bound`.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    Examples
    --------
    >>> disagreement = np.repeat(np.eye(3, 4, dtype=bool), [30, 30, 30, 910], axis=1)
    >>> round(voters_bound([0.05, 0.05, 0.05], disagreement, [1, 0, 0], delta=0.01), 4)
    0.0951
    >>> round(voters_bound([0.05, 0.05, 0.05], disagreement, [0.6, 0.6, 0.6], delta=0.01), 4)
    0.0795
    """
    bounds_, apart = _checked_voters(voter_bounds, disagreement)
    weights = finite_nonnegative("w", w)
    if weights.shape != bounds_.shape:
        raise ValueError(f"w must have one weight for each of the {bounds_.size} voters, got shape {weights.shape}")
    (level,) = numbers(delta=delta)
    n_points = apart.shape[1]
    rival = None if runner_up is None else finite_nonnegative("runner_up", runner_up)
    if rival is not None and rival.shape != (n_points,):
        raise ValueError(f"runner_up must have one entry for each of the {n_points} points, got shape {rival.shape}")
    used = np.flatnonzero(weights)
    if used.size == 0:
        return 1.0
    if used.size == 1 and apart.dtype == np.bool_:
        # The variable has two values, (1 - w)_+ and 1.
        low = max(0.0, 1 - float(weights[used[0]]))
        mean = (low + (1 - low) * float(clopper_pearson(apart[used[0]].sum(), n_points, level))) * (1 + 4 * EPS)
    else:
        mean = mean_upper_bound(_voter_values(weights[used], apart[used], rival), level, bet=bet)
    # Below zero the bounds contradict each other, which happens with probability at most delta.
    return min(1.0, max(0.0, _total(bounds_, weights, mean)))


def optimize_voter_weights(
    voter_bounds: ArrayLike, disagreement: ArrayLike, *, n_points: int | None = None, delta: float = 0.05
) -> VoterWeights:
    r"""Choose weights for `voters_bound` by a linear programme.

    The bound without its deviation term is convex and piecewise linear in w: with one slack variable for each
    pattern of disagreements it is a linear programme. With `n_points` the solution and some of its multiples are
    compared with the best single voter, deviation terms included.

    Parameters
    ----------
    voter_bounds, delta
        As in `voters_bound`.
    disagreement : array_like of shape (m, n)
        As in `voters_bound`, at other points than those that it will be given: the training inputs, or a part
        of the unlabelled points. Beyond 4000 points, a part of them is used.
    n_points : int, optional
        Number of unlabelled points that `voters_bound` will be given. None means infinitely many.

    Returns
    -------
    VoterWeights
        The weights and the bet for `voters_bound`.

    Examples
    --------
    >>> disagreement = np.repeat(np.eye(3, 4, dtype=bool), [30, 30, 30, 910], axis=1)
    >>> optimize_voter_weights([0.05, 0.05, 0.05], disagreement, n_points=1000).w.round(3)
    array([0.6, 0.6, 0.6])
    >>> optimize_voter_weights([0.05, 0.2, 0.2], disagreement, n_points=1000).w
    array([1., 0., 0.])
    """
    bounds_, apart = _checked_voters(voter_bounds, disagreement)
    (level,) = numbers(delta=delta)
    points = None if n_points is None else int(*numbers(n_points=n_points))
    share = apart.mean(axis=1)
    singles = bounds_ + share
    if points is not None and apart.dtype == np.bool_:
        singles = bounds_ + np.asarray(clopper_pearson(np.rint(share * points), points, level))
    best = int(np.argmin(singles))
    choice = VoterWeights(np.eye(1, bounds_.size, best)[0], None, float(singles[best]))
    solution = _solve(bounds_, apart[:, :: -(-apart.shape[1] // _MOST_POINTS)], singles)
    # Smaller weights have a smaller variance; below a sum of 1 they are no better than a single voter.
    scales = [1.0] if points is None else np.linspace(1.0, 1 / max(float(solution.sum()), 1.0), _SCALES)
    for scale in scales:
        several = solution * scale
        values = _voter_values(several, apart, None)
        bet, mean = (None, float(values.mean())) if points is None else choose_bet(values, points, level, 1.0)
        expected = _total(bounds_, several, mean)
        # A tie goes to the single voter, whose bound needs no bet.
        if expected < choice.expected * (1 - 1e-9):
            choice = VoterWeights(several, bet, expected)
    return choice


def _checked_voters(voter_bounds: ArrayLike, disagreement: ArrayLike) -> tuple[Array, NDArray[np.bool_] | Array]:
    """One bound and one row of disagreements for each voter."""
    bounds_ = vector("voter_bounds", finite_nonnegative("voter_bounds", voter_bounds), "one bound per voter")
    apart = np.asarray(disagreement)
    if apart.dtype != np.bool_:
        real = as_real_array("disagreement", disagreement, "booleans or numbers in [0, 1]")
        apart = unit_interval("disagreement", real)
    check_voters_by_points("disagreement", apart, bounds_.size)
    return bounds_, apart


def _voter_values(w: Array, apart: NDArray[np.bool_] | Array, runner_up: Array | None) -> Array:
    """The variable whose mean `voters_bound` takes: the larger of its values for a right and a wrong vote."""
    against = w @ apart
    rival = against if runner_up is None else np.minimum(runner_up, against)
    # Sums over voters are rounded: by less than this, to the safe side.
    error = 4 * (w.size + 4) * EPS * (1 + w.sum())
    return np.asarray(np.minimum(np.maximum(-against, 1 - w.sum() + rival) + error, 1.0))


def _total(voter_bounds: Array, w: Array, mean: float) -> float:
    """The bound, rounded up."""
    labelled = float(w @ voter_bounds)
    return (labelled + mean) + 2 * (w.size + 4) * EPS * (labelled + abs(mean))


def _solve(voter_bounds: Array, apart: NDArray[np.bool_] | Array, singles: Array) -> Array:
    """Minimise the bound without its deviation term over w, by column generation: small single bounds enter first."""
    from scipy.optimize import linprog

    margins = 1.0 - 2.0 * apart
    share = apart.mean(axis=1)
    order = np.argsort(singles, kind="stable")
    inside = order[:_BATCH]
    w = np.zeros(voter_bounds.size)
    for _ in range(_ROUNDS):
        # Points with the same pattern among the voters inside share a slack variable.
        patterns, pattern_of, counts = np.unique(margins[inside], axis=1, return_inverse=True, return_counts=True)
        mass = counts / apart.shape[1]
        rows = sparse.hstack([sparse.csr_array(-patterns.T), -sparse.eye_array(mass.size)])
        total = np.concatenate((np.ones(inside.size), np.zeros(mass.size)))
        result = linprog(
            np.concatenate((voter_bounds[inside] - share[inside], mass)),
            A_ub=sparse.vstack([rows, sparse.csr_array(total[np.newaxis])]).tocsr(),
            b_ub=np.append(-np.ones(mass.size), _LARGEST_TOTAL),
            method="highs",
        )
        if result.x is None:
            break
        w = np.zeros(voter_bounds.size)
        w[inside] = np.where(result.x[: inside.size] > 1e-9, result.x[: inside.size], 0.0)
        # The dual variable of a pattern is spread evenly over its points.
        dual = -result.ineqlin.marginals
        reduced = voter_bounds - share + dual[-1] - margins @ (dual[:-1] / counts)[pattern_of.ravel()]
        reduced[inside] = 0.0
        entering = np.argsort(reduced, kind="stable")[:_BATCH]
        entering = entering[reduced[entering] < -_GAIN]
        if entering.size == 0:
            break
        inside = np.concatenate((inside, entering))
    return w
