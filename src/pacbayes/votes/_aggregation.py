"""Weighted votes of many hypotheses, counted in one way everywhere, so that ties fall the same way everywhere."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import Array, finite_nonnegative


def tally(votes: NDArray[np.intp], weights: ArrayLike, n_classes: int, initial: Array | None = None) -> Array:
    """Sum the weights of the hypotheses that vote for each class, at each point.

    Weights are added in the order of the hypotheses. Equal weights therefore give equal sums, whichever hypotheses
    they belong to, and ties between classes are exact.

    Parameters
    ----------
    votes : ndarray of int of shape (m, n)
        Codes, from 0 to ``n_classes - 1``, of the classes that hypothesis h predicts, in row h.
    weights : array_like of shape (m,)
        Weights of the hypotheses, non-negative.
    n_classes : int
        Number of classes.
    initial : ndarray of shape (n, n_classes), optional
        Sums to start from; zeros by default. The result is the same, to the bit, as that of one call with all
        hypotheses.

    Returns
    -------
    ndarray of shape (n, n_classes)
        The sums.

    Examples
    --------
    >>> tally(np.array([[0, 1, 2], [0, 0, 2]]), [0.75, 0.25], n_classes=3)
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.75, 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    mass = finite_nonnegative("weights", weights)
    if votes.ndim != 2 or mass.shape != votes.shape[:1]:
        raise ValueError(
            f"votes must have one row for each of the weights, of shape {mass.shape}, got shape {votes.shape}"
        )
    if votes.size and not 0 <= votes.min() <= votes.max() < n_classes:
        raise ValueError(f"votes must be class codes from 0 to {n_classes - 1}, got {votes.min()} to {votes.max()}")
    sums = np.zeros((votes.shape[1], n_classes)) if initial is None else initial.astype(np.float64)
    points = np.arange(votes.shape[1])
    for vote, weight in zip(votes, mass, strict=True):
        sums[points, vote] += weight
    return sums


def weighted_vote(votes: NDArray[np.intp], weights: ArrayLike, n_classes: int) -> NDArray[np.intp]:
    """Return the class with the largest weight behind it, at each point; of several, the first.

    Weights are added from the largest to the smallest, which is the order in which the classifier asks its hypotheses.

    Parameters
    ----------
    votes, weights, n_classes
        As in `tally`.

    Returns
    -------
    ndarray of int of shape (n,)
        Class codes.

    Examples
    --------
    >>> weighted_vote(np.array([[0, 1], [0, 0], [1, 0]]), [0.25, 0.25, 0.5], n_classes=2)
    array([0, 0])
    """
    mass = finite_nonnegative("weights", weights)
    order = np.argsort(-mass, kind="stable")[: np.count_nonzero(mass)]
    return np.asarray(np.argmax(tally(votes[order], mass[order], n_classes), axis=1))


def count_half_mass(weights: ArrayLike) -> int:
    """Count the fewest hypotheses that together hold at least half of the mass.

    Parameters
    ----------
    weights : array_like of shape (m,)
        Weights of the hypotheses, non-negative. They need not sum to one.

    Returns
    -------
    int
        Their number, at least 1. Sums that miss half of the mass by less than their rounding errors count as half.

    Examples
    --------
    >>> count_half_mass([0.1, 0.45, 0.45]), count_half_mass([1 / 12] * 12)
    (2, 6)
    """
    mass = finite_nonnegative("weights", weights)
    if mass.ndim != 1 or not mass.any():
        raise ValueError(f"weights must be a one-dimensional array with a positive sum, got {weights!r}")
    heaviest = np.sort(mass)[::-1]
    half = heaviest.sum() / 2 * (1 - 1e-12)
    # NumPy sums in pairs, with errors of a few units in the last place; those of a running sum grow with m.
    return 1 + bisect_left(range(1, mass.size + 1), half, key=lambda count: heaviest[:count].sum())
