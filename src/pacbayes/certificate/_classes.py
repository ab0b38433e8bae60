"""Errors by class: a confusion matrix, and bounds on misses and false alarms that hold all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._json_fields import Length
from pacbayes.certificate._rates import Rate, bound_rates
from pacbayes.certificate._statements import NonNegative, Unit, Whole, expect_at_least, require

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
