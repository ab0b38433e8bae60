"""Bounds that look at the voters' expected loss and at the weights, at no data and no part of delta."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import EPS, Array, finite_nonnegative, float_or_array, nonnegative, vector
from pacbayes.bounds import majority_vote

# Weights may miss a sum of one by this much before it is an error rather than rounding.
_SUM_TOLERANCE = 1e-6

# Sums that are enumerated for each half of the weights. The larger ones take a few milliseconds to sort, and are
# enumerated where the smaller ones do not show that the result is one half.
_HALVES = (1 << 8, 1 << 16)


# The name of the first-order bound among the vote's other bounds.
first_order = majority_vote


def heavy_voter(rho: ArrayLike) -> int | None:
    """Return the voter with more than half of the weight, or None if there is none.

    That voter is the vote: any bound on its loss is a bound on the vote's.

    Parameters
    ----------
    rho : array_like of shape (m,)
        Weights of the vote, which sum to one.

    Returns
    -------
    int or None
        Index of the voter. None also if its weight is above one half by no more than rounding errors.

    Examples
    --------
    >>> heavy_voter([0.2, 0.7, 0.1])
    1
    >>> heavy_voter([0.5, 0.25, 0.25]) is None
    True
    """
    weights = normalized_weights(rho)
    heaviest = int(np.argmax(weights))
    return heaviest if weights[heaviest] > 0.5 + sum_error(weights) else None


def subset_sum_constant(rho: ArrayLike) -> float:
    r"""Return the smallest weight that voters can have together if it is at least one half.

    Where the vote errs, the voters that err have at least half of the weight, and what they have is the
    sum of a subset of the weights: at least the smallest such sum, c.

    The sums of the largest weights are enumerated; what is left of the weight may be divided in any way. The
    result is exact where all weights can be enumerated (any 32 of them, or equal ones up to about ten
    thousand), and a lower bound on c always.

    Parameters
    ----------
    rho : array_like of shape (m,)
        Weights of the vote, which sum to one.

    Returns
    -------
    float
        Lower bound on c, in [1/2, 1], rounded down. Sums that miss one half by no more than the rounding
        error of the vote's own sums count as one half.

    Examples
    --------
    >>> round(subset_sum_constant([0.7, 0.2, 0.1]), 6)
    0.7
    >>> round(subset_sum_constant([1 / 3, 1 / 3, 1 / 3]), 6)
    0.666667
    >>> subset_sum_constant([0.4, 0.1, 0.3, 0.2])
    0.5
    """
    weights = normalized_weights(rho)
    error = sum_error(weights)
    values, counts = np.unique(weights[weights > 0], return_counts=True)
    # From the heaviest down: the fewer voters matter, the larger c is.
    values, counts = values[::-1], counts[::-1]
    used = _count_enumerable(counts, _HALVES[-1])
    remaining = 0.0 if sum(used) == counts.sum() else 1.0 - float(np.dot(values[: len(used)], used))
    # A sum A of the enumerated weights becomes at least one half with what remains if A >= 1/2 - remaining, and is
    # then at least max(A, 1/2).
    target = 0.5 - error - max(remaining, 0.0)
    for largest_half in _HALVES:
        smallest = _smallest_sum(values, _count_enumerable(counts, largest_half), target)
        if smallest - error <= 0.5:
            return 0.5
    return min(smallest - error, 1.0)


def _count_enumerable(counts: NDArray[np.intp], largest_half: int) -> list[int]:
    """Return how many of the weights of each value can be enumerated by halves, those of the first values first."""
    sizes, used = [1, 1], []
    for count in counts.tolist():
        smaller = int(sizes[1] < sizes[0])
        used.append(min(count, largest_half // sizes[smaller] - 1))
        sizes[smaller] *= used[-1] + 1
        if used[-1] < count:
            break
    return used


def _smallest_sum(values: Array, used: list[int], target: float) -> float:
    """Return the smallest sum of at most so many of each value that is at least the target; inf if there is none."""
    halves = [np.zeros(1), np.zeros(1)]
    for value, count in zip(values, used, strict=False):
        smaller = int(halves[1].size < halves[0].size)
        halves[smaller] = np.add.outer(halves[smaller], value * np.arange(count + 1)).ravel()
    left, right = np.sort(halves[0]), np.sort(halves[1])
    position = np.searchsorted(right, target - left)
    reached = position < right.size
    return float(np.min(left[reached] + right[position[reached]], initial=np.inf))


def subset_sum_bound(gibbs_bound: ArrayLike, rho: ArrayLike) -> Any:
    r"""Bound the vote by the randomised classifier's bound over the subset-sum constant c.

    With c of `subset_sum_constant`, by Markov's inequality :math:`L(\text{vote}) \le E_\rho[L(h)] / c`. It never
    exceeds `first_order` by more than rounding, and is far below it where a few voters have most of the
    weight. Any number of classes.

    Parameters
    ----------
    gibbs_bound : array_like
        Upper bound on :math:`E_\rho[L(h)]`, zero-one loss.
    rho : array_like of shape (m,)
        Weights of the vote, which sum to one.

    Returns
    -------
    float or ndarray
        Upper bound on the loss of the vote, at most 1. It holds whenever `gibbs_bound` does.

    Examples
    --------
    >>> round(subset_sum_bound(0.07, [0.7, 0.2, 0.1]), 6)
    0.1
    """
    bound = nonnegative("gibbs_bound", gibbs_bound)
    constant = subset_sum_constant(rho)
    # The vote's own sums are rounded: where it errs, the exact weight may be below c by their error.
    factor = (1 + 4 * sum_error(np.asarray(rho))) / constant
    return float_or_array(np.minimum(np.minimum(bound, 1.0) * factor, 1.0))


def normalized_weights(rho: ArrayLike) -> Array:
    """Weights of a vote, summing to one exactly up to rounding."""
    weights = vector("rho", finite_nonnegative("rho", rho), "one weight per voter")
    total = float(weights.sum())
    if not abs(total - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"rho must sum to one, got a sum of {total!s}")
    return weights / total


def sum_error(weights: Array) -> float:
    """More than the rounding error of sums over voters, in any order, and of their differences."""
    return 4 * (weights.size + 16) * EPS


def check_voters_by_points(name: str, array: NDArray[Any], n_voters: int, shape: tuple[int, ...] | None = None) -> None:
    """Raise if an array does not have a row for each voter and a column for each point, or not the given shape."""
    if array.ndim != 2 or array.shape[0] != n_voters or array.shape[1] == 0 or array.shape != (shape or array.shape):
        raise ValueError(
            f"{name} must have a row for each of the {n_voters} voters and a column for each point, "
            f"got shape {array.shape}"
        )
