"""Hypotheses as bounds see them: losses, numbers of points, prior and delta, with equal hypotheses taken together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import EPS, Array, loss_vector, numbers, sizes_of
from pacbayes.bounds.comparators import Comparator, DirectComparatorName, make_comparator
from pacbayes.bounds.prior import SLACK, normalise_log_prior, posterior_weights

# Positive losses below this are replaced by it, since the arithmetic on subnormal numbers loses digits.
_SMALLEST_LOSS = 1e-280

# Numbers of points beyond this are replaced by it. A comparator for fewer points is valid: an average is the mean of
# the averages over all subsets of its points, and exp(D) is convex in the empirical loss.
_LARGEST_N = 1e18


class GroupedProblem:
    """What a bound is about, validated: m hypotheses, grouped by loss and number of points.

    With a posterior `rho`, hypotheses of one group also have the same weight and prior.
    """

    comparator: Comparator
    _COMPARATORS: ClassVar[Any] = DirectComparatorName

    def __init__(
        self,
        losses: ArrayLike,
        n: ArrayLike,
        delta: float,
        prior: ArrayLike | None,
        comparator: DirectComparatorName,
        grid_delta: float | None = None,
        rho: ArrayLike | None = None,
    ) -> None:
        self.losses = loss_vector("losses", losses)
        m = self.losses.size
        sizes = np.minimum(sizes_of(n, m), _LARGEST_N)
        level, grid_level = numbers(delta=delta, grid_delta=delta if grid_delta is None else grid_delta)
        self.is_uniform = prior is None
        self.log_prior = np.full(m, -np.log(m)) if prior is None else normalise_log_prior(prior, m)
        self.support = np.flatnonzero(self.log_prior > -np.inf)
        columns = [self.losses, sizes]
        if rho is not None:
            self.posterior = posterior_weights(rho, m)
            columns += [self.posterior, self.log_prior]
        (loss, self.n, *rest), self.slot = _group(*(column[self.support] for column in columns))
        if rho is not None:
            self.weight = rest[0]  # of one hypothesis in each group
        self.loss = np.where(loss > 0, np.maximum(loss, _SMALLEST_LOSS), 0.0)
        self.comparator = make_comparator(comparator, self.loss, self.n, grid_level, self._COMPARATORS)
        self.log_mass = _log_sums(self.log_prior[self.support], self.slot, self.n.size)
        # More than rounding can have moved the logarithms of the prior, their sums, and what is added to them.
        self.mass_error = SLACK * (1 - self.log_mass) + EPS * np.bincount(self.slot)
        log_inverse = -float(np.log(level))
        self.log_inverse_down, self.log_inverse_up = log_inverse * (1 - 2 * EPS), log_inverse * (1 + 2 * EPS)

    def describe(self, rho: Array) -> tuple[float, float]:
        """Return the empirical loss of a posterior and its divergence from the prior, rounded up."""
        return describe_posterior(rho, self.losses, self.log_prior)


def describe_posterior(rho: Array, losses: Array, log_prior: Array) -> tuple[float, float]:
    """Return the empirical loss of a posterior and its divergence from a prior, rounded up."""
    total = float(rho.sum())
    on = rho > 0
    loss = min(1.0, float((rho * losses).sum()) / total * (1 + SLACK))
    log_rho, log_prior = np.log(rho[on]) - np.log(total), log_prior[on]
    # The difference of two logarithms each of which carries a relative error.
    error = 4 * EPS * float((rho[on] * (np.abs(log_rho) + np.abs(log_prior))).sum()) / total
    kl_div = float((rho[on] * (log_rho - log_prior)).sum()) / total
    is_prior = bool((log_rho == log_prior).all())
    return loss, 0.0 if is_prior else max(kl_div, 0.0) * (1 + SLACK) + error + SLACK


def _group(*columns: Array) -> tuple[list[Array], NDArray[np.intp]]:
    """Distinct rows of a table, in order of its columns, and which of them each row is."""
    slot, size = np.zeros(columns[0].size, dtype=np.intp), 1
    for column in columns:
        distinct, code = np.unique(column, return_inverse=True)
        if size == 1:
            slot, size = code, distinct.size
        elif distinct.size > 1:
            pairs, slot = np.unique(slot * distinct.size + code, return_inverse=True)
            size = pairs.size
    first = np.empty(size, dtype=np.intp)
    first[slot] = np.arange(slot.size)
    return [column[first] for column in columns], slot


def _log_sums(log_values: Array, slot: NDArray[np.intp], size: int) -> Array:
    """Logarithm of the sum of exp(log_values) over each slot, of whatever magnitude, at most ln 1."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, slot, log_values)
    sums = np.bincount(slot, np.exp(log_values - top[slot]), minlength=size)
    return np.asarray(np.minimum(top + np.log(sums), 0.0))
