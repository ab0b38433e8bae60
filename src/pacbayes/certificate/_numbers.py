"""What held-out points prove about predicted numbers: how far they are off on average, how often, and intervals.

Nothing is assumed about the target. Errors are capped for their mean, which no finite sample bounds otherwise; what is
proved about their distribution and about intervals is not. Theorems and proofs are in docs/regression.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from pacbayes._formatting import format_lower
from pacbayes._json_fields import Length, Range
from pacbayes._losses import POWERS, find_cap
from pacbayes._validation import Array
from pacbayes.certificate._rates import bound_mean, bound_rate, choose_row, count_points_needed, divide_price
from pacbayes.certificate._statements import (
    BEST,
    MEAN,
    ROUND_UP,
    Count,
    Event,
    NonNegative,
    Statement,
    Unit,
    Whole,
    expect,
    method,
    require,
)

# Errors are rounded up to these, in units of the cap; what is larger than all of them is counted by itself.
_N_LEVELS = 512
LEVELS = (np.arange(_N_LEVELS + 1) / _N_LEVELS) ** 2

# Every so many levels, the share of errors below is bounded, all at once.
_STEP = 16

# Numbers of held-out points outside of intervals that thresholds are kept for: all small ones, then in proportion.
_FEW_MISSES, _STEP_OF_MISSES = 64, 0.03
MOST_THRESHOLDS = 2000

# More than arithmetic on another machine changes in an error, relative to the numbers that it is the difference of.
_ROUNDING = 2.0**-40

# Bounds by betting are rounded up to multiples of its inverse, which are the same on any machine.
_GRID = 2.0**27

_Counts = Annotated[tuple[Whole, ...], Length(LEVELS.size + 1, LEVELS.size + 1)]


class NumberTest(NamedTuple):
    """What was predicted for held-out points."""

    target: Array
    predicted: Array
    scale: Array  # by which widths of intervals are multiplied

    @property
    def errors(self) -> Array:
        """Absolute errors, as large as they are on any machine."""
        numbers = np.abs(self.target) + np.abs(self.predicted)
        return np.asarray(np.abs(self.target - self.predicted) + _ROUNDING * numbers)


@dataclass(frozen=True)
class IntervalCounts:
    """What held-out points say about intervals of half the width `threshold` times the scale of a point.

    Intervals grow with the threshold, so that misses fall. The smallest threshold whose misses prove a coverage
    therefore has it with probability 1 - delta, without a price for having been chosen.

    Attributes
    ----------
    threshold, misses : float and int
        Half the width of an interval, in units of its point's scale, and number of held-out points outside of theirs.
    """

    threshold: NonNegative
    misses: Whole


@dataclass(frozen=True)
class NumberErrors:
    """What held-out points say about predicted numbers, besides their mean error.

    Attributes
    ----------
    median, median_loss : float
        Median of the targets of the held-out points, and the loss of always predicting it, at these points: in units
        of the cap, as all losses.
    mean_scale : float
        Mean of the scales of the held-out points, by which half the widths of intervals are multiplied.
    intervals : tuple of IntervalCounts
        Counts from which `choose_interval` proves a coverage, by falling threshold.
    """

    median: Annotated[float, Range(-1e308, 1e308)]
    median_loss: Unit
    mean_scale: NonNegative
    intervals: Annotated[tuple[IntervalCounts, ...], Length(1, MOST_THRESHOLDS)]


@dataclass(frozen=True)
class IntervalCoverage:
    """A proved coverage of intervals.

    Attributes
    ----------
    coverage : float
        With probability 1 - delta, at least this share of new points has its target in its interval.
    threshold, misses : float and int
        As in `IntervalCounts`.
    n, mean_width : int and float
        Number of held-out points, and mean width of their intervals, measured.
    """

    coverage: float
    threshold: float
    misses: int
    n: int
    mean_width: float


class ErrorShare(NamedTuple):
    """Share of points that are off by no more than an error.

    Attributes
    ----------
    error, measured, share : float
        The error, in units of the target, the share of the held-out points, and a lower bound on that of new points.
        Those of a curve hold all at once.
    """

    error: float
    measured: float
    share: float


def _check_counts(name: str, statement: Statement, certificate: object) -> None:
    """Check that levels are counted of all points, and that they make the loss that is stated."""
    figures = statement.figures
    counts, power = np.array(figures["counts"], dtype=np.float64), figures["power"]
    code, _ = find_cap(statement.loss)
    expect(f"{name}.figures['power']", power, POWERS[code])
    expect(f"the number of points in {name}.figures['counts']", int(counts.sum()), figures["n"])
    least, most = _limit_mean(counts, power)
    fits = least * (1 - 1e-9) <= figures["loss"] <= most * (1 + 1e-9)
    require(fits, f"{name}.figures['loss'] must be from {least!r} to {most!r}, got {figures['loss']!r}")


def _values(power: int) -> Array:
    """Return the losses of errors that are rounded up to levels; the last are those beyond the cap."""
    return np.append(LEVELS**power, 1.0)


def _limit_mean(counts: Array, power: int) -> tuple[float, float]:
    """Return the least and the largest mean loss of points that are rounded up to levels."""
    values, n = _values(power), counts.sum()
    return float(counts @ np.concatenate(([0.0], values[:-1]))) / n, float(counts @ values) / n


@method("test-set-betting", "betting on held-out points", (MEAN, BEST), Event.TEST_SET, check=_check_counts)
def bound_mean_error(
    delta: float, loss: Unit, counts: _Counts, power: Annotated[int, Range(1, 2)], n: Count, kl_div: NonNegative
) -> float:
    """Bound a mean loss by the numbers of points at each level, at the level delta exp(-kl_div)."""
    bound = bound_mean(delta, _values(power), counts, kl_div)
    return min(1.0, math.ceil(bound * ROUND_UP * _GRID) / _GRID)


def test_figures(test: NumberTest, loss: str, total: float, kl_div: float) -> dict[str, object]:
    """Return the figures of a statement about a mean loss, whose total over the points is known."""
    code, cap = find_cap(loss)
    n = test.target.size
    # How many errors are rounded up to each level, and at last how many are beyond the cap.
    places = np.searchsorted(LEVELS, test.errors / cap, side="left")
    counts = tuple(np.bincount(places, minlength=LEVELS.size + 1).tolist())
    least, most = _limit_mean(np.array(counts, dtype=np.float64), POWERS[code])
    # Far from zero, errors are counted by more than they are (`NumberTest.errors`).
    mean = min(1.0, max(float(total) / n, least), most)
    return {"loss": mean, "counts": counts, "power": POWERS[code], "n": n, "kl_div": kl_div}


def error_curve(statement: Statement) -> list[ErrorShare]:
    """Return lower bounds on the share of errors up to several levels, all at once."""
    counts, n, kl_div = (statement.figures[name] for name in ("counts", "n", "kl_div"))
    _, cap = find_cap(statement.loss)
    chosen = range(_STEP, LEVELS.size, _STEP)
    price = divide_price(kl_div, len(chosen))
    below = np.cumsum(counts)
    outside = (bound_rate(statement.delta, int(n - below[j]), n, price) for j in chosen)
    return [
        ErrorShare(float(LEVELS[j] * cap), float(below[j] / n), max(0.0, 1.0 - rate * ROUND_UP))
        for j, rate in zip(chosen, outside, strict=True)
    ]


def state_numbers(test: NumberTest, median_loss: float) -> NumberErrors:
    """Return what held-out points say about predicted numbers, besides their mean error."""
    scores = np.sort(test.errors / test.scale)[::-1] * (1 + _ROUNDING)
    kept, number = list(range(min(_FEW_MISSES, scores.size))), float(_FEW_MISSES)
    while number < scores.size:
        kept.append(int(number))
        number = max(number + 1, number * (1 + _STEP_OF_MISSES))
    thresholds, first = np.unique(-scores[kept], return_index=True)
    # All scores before the first that is not larger are outside.
    misses = np.searchsorted(-scores, thresholds, side="left")
    rows = tuple(map(IntervalCounts, scores[kept][first].tolist(), misses.tolist()))
    return NumberErrors(float(np.median(test.target)), min(1.0, median_loss), float(test.scale.mean()), rows)


def choose_interval(numbers: NumberErrors, n: int, kl_div: float, delta: float, coverage: float) -> IntervalCoverage:
    """Return the smallest threshold at which a coverage is proved, by counts of n points."""
    row = choose_row(numbers.intervals, n, kl_div, delta, coverage)
    if row is not None:
        return IntervalCoverage(coverage, row.threshold, row.misses, n, 2 * row.threshold * numbers.mean_scale)
    needed = count_points_needed(coverage, kl_div, delta)
    most = 1 - bound_rate(delta, numbers.intervals[0].misses, n, kl_div)
    raise ValueError(
        f"coverage of {coverage!r} needs at least {needed} held-out points to be proved at this delta, and there are "
        f"{n}, which prove {format_lower(most)}"
    )


def check_numbers(numbers: NumberErrors, n: int) -> None:
    """Raise CertificateError if counts cannot be those of shrinking intervals for n held-out points."""
    first = numbers.intervals[0]
    require(first.misses == 0, "numbers.intervals[0] must hold all held-out points")
    for i, (row, later) in enumerate(pairwise(numbers.intervals), 1):
        shrinks = row.threshold > later.threshold and row.misses < later.misses < n
        require(shrinks, f"numbers.intervals[{i}] must have a smaller threshold and more misses, fewer than {n}")
