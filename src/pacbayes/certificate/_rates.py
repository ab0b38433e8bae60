"""Bounds by counts: error rates of parts of the points that hold all at once, and means of values at fixed levels."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from pacbayes._validation import Array
from pacbayes.certificate._statements import bound_count
from pacbayes.votes import mean_upper_bound


class Rate(NamedTuple):
    """An error rate of a class or a group: measured, and bounded.

    Attributes
    ----------
    errors, n : int
        Number of errors among the points that the rate is about, and the number of these points.
    bound : float or None
        Upper bound on the true rate, rounded up; 1 means that nothing is proved. None if none is stated.
    """

    errors: int
    n: int
    bound: float | None

    @property
    def measured(self) -> float | None:
        """Share of the points that are errors; None if there are no points."""
        return self.errors / self.n if self.n else None


def bound_rates(counts: Sequence[tuple[int, int]], kl_div: float, delta: float) -> tuple[float, ...]:
    """Bound rates by their errors among points, all at once: each statement has an equal share of delta exp(-kl_div).

    Given how many of n independent points a rate is about, the errors among them are binomial: Clopper-Pearson's bound
    at this share fails with at most that probability, and by a union bound any of them with at most delta exp(-kl_div).
    """
    price = divide_price(kl_div, len(counts))
    return tuple(bound_rate(delta, errors, n, price) for errors, n in counts)


# What is stated is checked soon after, in files and in verification.
@lru_cache(maxsize=4096)
def bound_rate(delta: float, errors: int, n: int, price: float) -> float:
    """Bound the rate of errors as `bound_count`; by 1 if there are no points."""
    return bound_count(delta, errors, n, price) if n else 1.0


def bound_mean(delta: float, values: Array, counts: Sequence[int], price: float) -> float:
    """Bound the mean of values in [0, 1] by how often each was found, by betting, at the level delta exp(-price)."""
    level = math.exp(math.log(delta) - price) * (1 - 1e-12)
    return mean_upper_bound(values, level, counts=counts) if level > 0 and any(counts) else 1.0


def divide_price(kl_div: float, parts: float) -> float:
    """Return the price of a statement that is one of several with the same share of delta, rounded up."""
    return (kl_div + math.log(parts)) * (1 + 1e-15)


def choose_row(rows: Sequence[Any], n: int, kl_div: float, delta: float, coverage: float) -> Any | None:
    """Return the row with the most `misses` among n points that prove a coverage, None if none does."""
    rising = sorted(rows, key=lambda row: row.misses)
    k = bisect_right(rising, 1 - Fraction(coverage), key=lambda row: Fraction(bound_rate(delta, row.misses, n, kl_div)))
    return rising[k - 1] if k else None


def count_points_needed(coverage: float, kl_div: float, delta: float) -> int:
    """Return how many points prove a coverage if none of them is a miss."""
    # Without misses, the bound on their share is 1 - (delta exp(-kl_div))^(1/n).
    return math.ceil((math.log(delta) - kl_div) / math.log(coverage))
