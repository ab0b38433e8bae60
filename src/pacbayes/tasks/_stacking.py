"""Weights that make the loss of a vote itself small, rather than the mean loss of its hypotheses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array

# The largest change of the logarithm of a weight in one step.
_LARGEST_STEP = 1.0

# Of all weight, what has to be outside of a row.
_LEAST_WEIGHT = 1e-9

# Huber's loss is linear from the standard deviation on that normal residuals of this median would have.
_DEVIATION = 1.48

# Distances that are not told apart, in units of the scale: their sums do not overflow.
_FARTHEST = 1e100


def stack(
    residuals: Array, outside: NDArray[np.bool_], start: Array, *, rate: float, steps: int, is_robust: bool
) -> Array:
    """Return weights by which the mean of residuals is small [Wolpert 1992], by exponentiated gradient.

    `residuals` are differences of what hypotheses answer and the truth, of shape (m, rows, width), and `outside` says
    on which rows a hypothesis was not trained: of each row, the mean of those hypotheses counts that are outside. It is
    small by its square or, if robust, by Huber's loss. `start` are weights to begin with: to stop early keeps the
    others near them. The weights of all steps are averaged, so that steps that go too far cancel [Kivinen, Warmuth
    1997].
    """
    asked = np.flatnonzero((start[:, np.newaxis] * outside).sum(axis=0) > _LEAST_WEIGHT)
    residuals, voting = residuals[:, asked], outside[:, asked].astype(np.float64)

    def average(weights: Array) -> tuple[Array, Array]:
        """Return the mean of hypotheses outside of each row, and their total weight there."""
        weight = weights[:, np.newaxis] * voting
        total = np.maximum(weight.sum(axis=0), _LEAST_WEIGHT)[:, np.newaxis]
        return np.einsum("hr,hrc->rc", weight, residuals) / total, total

    scale = _find_scale(average(start)[0], is_robust)
    if not 0 < scale < np.inf:
        return start
    residuals = np.clip(residuals / scale, -_FARTHEST, _FARTHEST)
    weights, added = start, np.zeros(start.size)
    for _ in range(steps):
        mean, total = average(weights)
        slope = (np.clip(mean, -1, 1) if is_robust else mean) / (total * asked.size)
        gradient = np.einsum("hr,hrc,rc->h", voting, residuals - mean, slope)
        step = np.clip(rate * ((weights * gradient).sum() - gradient), -_LARGEST_STEP, _LARGEST_STEP)
        weights = weights * np.exp(step)
        weights = weights / weights.sum()
        added += weights
    return np.asarray(added / added.sum())


def _find_scale(residuals: Array, is_robust: bool) -> float:
    """Return the unit of residuals in which the loss is measured, and from which on it is linear if it is robust."""
    if residuals.size == 0:
        return 0.0
    if is_robust:
        sizes = np.abs(residuals).max(axis=1)
        return _DEVIATION * float(np.median(sizes)) or float(sizes.mean())
    return float(np.sqrt((residuals**2).sum(axis=1).mean() / 2))
