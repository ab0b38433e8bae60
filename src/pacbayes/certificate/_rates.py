"""Error rates by class and by group, with bounds that hold all at once, and bounds by counts that others share."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._json_fields import Length
from pacbayes._validation import Array
from pacbayes.certificate._statements import (
    MAX_TEXT,
    NonNegative,
    Unit,
    Whole,
    bound_count,
    expect,
    expect_at_least,
    require,
)
from pacbayes.votes import mean_upper_bound

Points = Literal["held-out", "validation", "out-of-bag"]

# With more classes than this, no confusion matrix is kept: nobody would read it.
MOST_CLASSES = 50

# With more classes than this, the numbers of their labels are not kept.
MOST_LABELS = 1000

# Characters of a label that a certificate keeps.
_LONGEST_LABEL = 200

_Row = Annotated[tuple[Whole, ...], Length(0, MOST_CLASSES + 1)]

# More than adding up bounds can lose.
_ROUND_UP = 1 + 1e-12

# A certificate keeps no more groups than this.
MOST_GROUPS = 1000


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


# -- by class ----------------------------------------------------------------------------------------


def label_names(classes: NDArray[np.generic]) -> tuple[str, ...]:
    """Return class labels as a certificate names them."""
    return tuple(str(label)[:_LONGEST_LABEL] for label in classes.tolist())


def tabulate_predictions(
    codes: NDArray[np.intp], predicted: NDArray[np.intp], doubtful: NDArray[np.bool_], n_classes: int
) -> NDArray[np.intp]:
    """Count points by true class (rows) and predicted class (columns), in an array of shape (K + 1, K + 1).

    Row K holds the points whose labels the classifier does not know, column K the doubtful predictions: those that
    could differ on another engine.
    """
    width = n_classes + 1
    cells = codes * width + np.where(doubtful, n_classes, predicted)
    return np.bincount(cells, minlength=width * width).reshape(width, width)


class ClassRates(NamedTuple):
    """Error rates of one class.

    Attributes
    ----------
    label : str
        The class.
    misses, false_alarms : Rate
        P(another class is predicted | this is the class), 1 - recall, and P(another is the class | this class is
        predicted), 1 - precision.
    """

    label: str
    misses: Rate
    false_alarms: Rate


@dataclass(frozen=True)
class Confusion:
    """What the predictor said about labelled points, by class, and bounds on the error rates of each class.

    Given how many of n independent points are of a class, the misses among them are binomial, and given how many are
    predicted as a class, so are the false alarms among these. Clopper-Pearson's bound at delta / (2 K), for each of the
    2 K rates of K classes, therefore makes all of them hold at once with probability 1 - delta.

    Attributes
    ----------
    points : {"held-out", "validation", "out-of-bag"}
        Which points: those that had no part in making the predictor; those outside the subsample of the best
        hypothesis; or training points, with the vote of those hypotheses at each point that were not trained on it.
    counts : tuple of tuple of int
        Row i, column j: number of points of class i that are predicted as j, in the order of the labels. The last row
        is of labels that the classifier does not know, the last column of predictions that could differ on another
        engine, for rounding: these count as errors.
    kl_div : float or None
        Price of having chosen the predictor: the logarithm of the number of votes that competed, or the divergence of
        the best hypothesis from the prior. None for out-of-bag points: they are a measurement, without bounds.
    bounds : tuple of pairs of float
        Bounds on the misses and the false alarms of each class, rounded up.
    """

    points: Points
    counts: Annotated[tuple[_Row, ...], Length(0, MOST_CLASSES + 1)]
    kl_div: NonNegative | None
    bounds: Annotated[tuple[tuple[Unit, Unit], ...], Length(0, MOST_CLASSES)]

    @classmethod
    def of(cls, points: Points, counts: NDArray[np.intp], kl_div: float | None, delta: float) -> Confusion:
        """Compute the bounds that a confusion matrix proves."""
        table = tuple(tuple(row) for row in counts.tolist())
        return cls(points, table, kl_div, _bound_rates(table, kl_div, delta))

    @property
    def is_certified(self) -> bool:
        """Whether there are bounds, rather than measured rates alone."""
        return self.kl_div is not None

    @property
    def n(self) -> int:
        """Number of points."""
        return sum(map(sum, self.counts))

    @property
    def errors(self) -> int:
        """Number of errors, doubtful predictions included."""
        return self.n - sum(self.counts[i][i] for i in range(len(self.counts) - 1))

    @property
    def n_unknown(self) -> int:
        """Number of points with labels that the classifier does not know."""
        return sum(self.counts[-1])

    @property
    def n_doubtful(self) -> int:
        """Number of predictions that could differ on another engine."""
        return sum(row[-1] for row in self.counts)

    def rates(self, labels: Sequence[str]) -> list[ClassRates]:
        """Return misses and false alarms of each class."""
        bounds = self.bounds or ((None, None),) * len(labels)
        return [
            ClassRates(label, Rate(*misses, bound[0]), Rate(*alarms, bound[1]))
            for label, (misses, alarms), bound in zip(labels, _count_errors(self.counts), bounds, strict=True)
        ]

    @property
    def balanced_error(self) -> float:
        """Bound on the mean of the misses over classes, which holds together with all others; 1 if there is none."""
        if not self.bounds:
            return 1.0
        return min(1.0, math.fsum(misses for misses, _ in self.bounds) / len(self.bounds) * _ROUND_UP)

    def check(self, delta: float, n_classes: int) -> None:
        """Raise CertificateError if the bounds do not follow from the counts."""
        size = n_classes + 1
        square = len(self.counts) == size and all(len(row) == size for row in self.counts)
        require(square, f"confusion.counts must have {size} rows and columns, one for each label")
        require(self.n > 0, "confusion.counts must count at least one point")
        known = self.is_certified != (self.points == "out-of-bag")
        require(known, "confusion.kl_div must be null if and only if the points are out-of-bag")
        recomputed = _bound_rates(self.counts, self.kl_div, delta)
        pairs = f"confusion.bounds must hold {len(recomputed)} pairs, got {len(self.bounds)}"
        require(len(self.bounds) == len(recomputed), pairs)
        for c, (stated, proved) in enumerate(zip(self.bounds, recomputed, strict=True)):
            for kind, claim, bound in zip(("misses", "false alarms"), stated, proved, strict=True):
                expect_at_least(f"confusion.bounds[{c}], {kind},", claim, bound)


def _count_errors(counts: Sequence[Sequence[int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return errors and points of the misses and of the false alarms of each class.

    A doubtful prediction is a miss of its class. It could be any other class: so it is a false alarm of all of these,
    and never a right prediction, which makes the rate as large as any engine can.
    """
    result = []
    for c, row in enumerate(counts[:-1]):
        alarms = sum(other[c] + other[-1] for other in counts) - row[c] - row[-1]
        result.append(((sum(row) - row[c], sum(row)), (alarms, alarms + row[c])))
    return result


def _bound_rates(
    counts: Sequence[Sequence[int]], kl_div: float | None, delta: float
) -> tuple[tuple[float, float], ...]:
    if kl_div is None:
        return ()
    bounds = iter(bound_rates([rate for rates in _count_errors(counts) for rate in rates], kl_div, delta))
    return tuple(zip(bounds, bounds, strict=True))


# -- by group ----------------------------------------------------------------------------------------


class GroupCounts(NamedTuple):
    """Errors and points of groups, before anything is proved; the fields are those of `GroupErrors`."""

    name: str
    overlapping: bool
    labels: tuple[str, ...]
    counts: tuple[tuple[int, int], ...]


class GroupRate(NamedTuple):
    """The error rate of one group.

    Attributes
    ----------
    label, errors : str and Rate
        The group, and P(the prediction is wrong | the point is in it), by the held-out points of the group.
    """

    label: str
    errors: Rate


@dataclass(frozen=True)
class GroupErrors:
    """Errors on held-out points by group, and bounds on the error of each group.

    Given which of n independent points are in a group, the errors among them are binomial. Clopper-Pearson's bound at
    delta / G, for each of G groups, therefore makes all of them hold at once with probability 1 - delta.

    Attributes
    ----------
    name : str
        What the points are grouped by, such as the name of a column; empty if it has no name.
    overlapping : bool
        Whether the groups were declared as masks, so that a point may be in several groups or in none.
    labels, counts, bounds : tuple of str, of pairs of int, and of float
        Names of the groups, errors and points of each, and bounds on the error, rounded up. A prediction that could
        differ on another engine counts as an error.
    kl_div : float
        Price of having chosen the predictor: the logarithm of the number of votes that competed.
    """

    name: Annotated[str, Length(0, MAX_TEXT)]
    overlapping: bool
    labels: Annotated[tuple[Annotated[str, Length(0, MAX_TEXT)], ...], Length(1, MOST_GROUPS)]
    counts: Annotated[tuple[tuple[Whole, Whole], ...], Length(1, MOST_GROUPS)]
    kl_div: NonNegative
    bounds: Annotated[tuple[Unit, ...], Length(1, MOST_GROUPS)]

    @classmethod
    def of(cls, counted: GroupCounts, kl_div: float, delta: float) -> GroupErrors:
        """Compute the bounds that errors and points of each group prove."""
        return cls(*counted, kl_div, bound_rates(counted.counts, kl_div, delta))

    def rates(self) -> list[GroupRate]:
        """Return the error of each group, measured and bounded, in the order of the groups."""
        rates = (Rate(*count, bound) for count, bound in zip(self.counts, self.bounds, strict=True))
        return [GroupRate(*named) for named in zip(self.labels, rates, strict=True)]

    @property
    def worst(self) -> GroupRate:
        """The group with the largest bound: no group errs more often than this, with probability 1 - delta."""
        return self.rates()[self.bounds.index(max(self.bounds))]

    def find_small(self, delta: float) -> list[GroupRate]:
        """Return the groups with too few points to prove much: without an error, their bounds would be above 1/2."""
        best = bound_rates([(0, n) for _, n in self.counts], self.kl_div, delta)
        return [rate for rate, bound in zip(self.rates(), best, strict=True) if bound > 0.5]

    def check(self, delta: float, n: int, errors: int | None) -> None:
        """Raise CertificateError if bounds do not follow from counts, or these from n points with so many errors."""
        size = len(self.labels)
        for field in ("counts", "bounds"):
            require(len(getattr(self, field)) == size, f"groups.{field} must hold one entry for each of {size} groups")
        require(len(set(self.labels)) == size, "groups.labels must be different")
        for label, (wrong, points) in zip(self.labels, self.counts, strict=True):
            right = wrong <= points <= n and (errors is None or wrong <= errors)
            require(right, f"groups.counts has {wrong} errors on {points} points of {label!r}, which is impossible")
        if not self.overlapping:
            expect("the number of points in groups.counts", sum(points for _, points in self.counts), n)
            if errors is not None:
                expect("the number of errors in groups.counts", sum(wrong for wrong, _ in self.counts), errors)
        for i, proved in enumerate(bound_rates(self.counts, self.kl_div, delta)):
            expect_at_least(f"groups.bounds[{i}]", self.bounds[i], proved)
