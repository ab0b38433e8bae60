"""What held-out points prove about probabilities: a bound on their Brier score, and how often events of a class happen.

Both rest on counts, from which they can be computed again. A point whose probabilities could differ on another engine
is counted against the statement. Theorems and proofs are in docs/heldout.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._json_fields import Length, Range
from pacbayes._validation import Array
from pacbayes.certificate._rates import bound_mean, bound_rate, divide_price
from pacbayes.certificate._statements import Unit, Whole, expect, expect_at_least, require
from pacbayes.certificate._thresholds import TOLERANCE

# Brier scores of points are rounded up to these: small ones, which are most, more finely.
LOSS_LEVELS = (np.arange(257) / 256) ** 2

# Ends of the bins of the winner's probability, the same for all data.
BIN_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)

# Probabilities are added up in units of this, so that sums do not depend on the order.
_UNIT = 1e-6

# More than machines may differ in a bound by betting.
_SLACK = 1 + 1e-9


class ProbabilityCounts(NamedTuple):
    """Counts of points by what was predicted with which probability, which add up over blocks of points."""

    losses: NDArray[np.int64]  # (257,): points by their Brier score, rounded up to `LOSS_LEVELS`
    # (8, 6), by the winner's probability: points, sum of these probabilities in millionths, and the least and the
    # largest number of right and of wrong predictions, on any engine.
    bins: NDArray[np.int64]


@dataclass(frozen=True)
class Calibration:
    """How shares of the vote become the probabilities of `predict_proba`.

    A probability is proportional to a power of the share, and mixed with 1 / number of classes: it rises with the
    share, so that the winner stays the winner.

    Attributes
    ----------
    power, mixing : float
        Exponent of the shares, above 1 where the vote is surer than its shares say, and below 1 where it is less sure;
        and share of the uniform distribution.
    n : int
        Number of training rows that both were chosen on, by hypotheses that were not trained on them.
    """

    power: Annotated[float, Range(0, 100, open_low=True)]
    mixing: Annotated[float, Range(0, 1, open_high=True)]
    n: Whole

    def apply(self, shares: Array) -> Array:
        """Return the probabilities of all classes, of shape (n, n_classes), for as many shares of the vote."""
        raised = shares**self.power
        raised /= raised.sum(axis=1, keepdims=True)
        return np.asarray((1 - self.mixing) * raised + self.mixing / shares.shape[1])

    def limits(self, shares: Array, margin: Array) -> tuple[Array, Array]:
        """Return the smallest and the largest probabilities for shares that may differ by a margin, at each point."""
        low = np.maximum(shares - margin[:, np.newaxis], 0.0) ** self.power
        high = np.minimum(shares + margin[:, np.newaxis], 1.0) ** self.power
        others_low = np.maximum(low.sum(axis=1, keepdims=True) - low, 0.0)
        others_high = high.sum(axis=1, keepdims=True) - high
        least, most = low / (low + others_high), high / (high + others_low)
        uniform = self.mixing / shares.shape[1]
        return (1 - self.mixing) * least + uniform, (1 - self.mixing) * most + uniform


# Shares as they are.
SHARES = Calibration(1.0, 0.0, 0)


@dataclass(frozen=True)
class ReliabilityBin:
    """How often predictions are right whose probability is in a range.

    Given how many held-out points are in a bin, whose ends do not depend on the data, its right predictions are
    binomial: Clopper-Pearson's limits to both sides, each at delta / (2 J K) for J bins and K competing votes, hold
    for all bins at once with probability 1 - delta.

    Attributes
    ----------
    low, high : float
        The winner's probability is at least `low` and below `high`; 1 is in the last bin.
    n, mean : int and float
        Number of held-out points, and mean of the winner's probability at these; 0 if there are none.
    right, wrong : tuple of int
        The least and the largest number of right and of wrong predictions, on any engine.
    limits : tuple of float
        Limits of the share of predictions in this bin that are right.
    """

    low: Unit
    high: Unit
    n: Whole
    mean: Unit
    right: tuple[Whole, Whole]
    wrong: tuple[Whole, Whole]
    limits: tuple[Unit, Unit]

    @property
    def measured(self) -> float | None:
        """Share of the held-out points in this bin at which the prediction is right; None if there are none."""
        return self.right[0] / self.n if self.n else None


@dataclass(frozen=True)
class Probabilities:
    """What held-out points prove about the probabilities of `predict_proba`.

    Attributes
    ----------
    losses : tuple of int
        Number of held-out points by their Brier score, half the squared distance of the probabilities from the
        indicator of the class, rounded up to the squares of 0, 1/256, ..., 1.
    bound : float
        Upper bound on the expected Brier score, by betting, rounded up; it holds with probability 1 - delta.
    bins : tuple of ReliabilityBin
        How often predictions are right, by their probability; all limits hold at once, with probability 1 - delta.
    """

    losses: Annotated[tuple[Whole, ...], Length(LOSS_LEVELS.size, LOSS_LEVELS.size)]
    bound: Unit
    bins: Annotated[tuple[ReliabilityBin, ...], Length(len(BIN_EDGES) - 1, len(BIN_EDGES) - 1)]

    @property
    def n(self) -> int:
        """Number of held-out points."""
        return sum(self.losses)

    @property
    def measured(self) -> float:
        """Mean Brier score of the held-out points, with those of single points rounded up."""
        return float(LOSS_LEVELS @ np.array(self.losses, dtype=np.float64)) / self.n

    def check(self, n: int, kl_div: float, delta: float) -> None:
        """Raise CertificateError if bounds and limits do not follow from counts of n held-out points."""
        expect("the number of points in probabilities.losses", self.n, n)
        expect_at_least("probabilities.bound", self.bound, _bound_losses(self.losses, kl_div, delta))
        expect("the number of points in probabilities.bins", sum(one.n for one in self.bins), n)
        for i, (one, ends) in enumerate(zip(self.bins, pairwise(BIN_EDGES), strict=True)):
            name = f"probabilities.bins[{i}]"
            expect(f"the ends of {name}", (one.low, one.high), ends)
            inside = one.low <= one.mean <= one.high if one.n else one.mean == 0
            counts = (one.right, one.wrong)
            least, most = (sum(side[k] for side in counts) for k in (0, 1))
            # A point whose bin or label is in doubt is counted several times.
            fits = inside and all(low <= high <= n for low, high in counts) and least <= one.n <= most
            require(fits, f"{name} counts {one.right} right and {one.wrong} wrong predictions of {one.n}: impossible")
            low, high = _limit_rate(one.right, one.wrong, kl_div, delta)
            contains = one.limits[0] <= low and one.limits[1] >= high
            require(contains, f"{name}.limits are stated as {one.limits!r} but come out as {(low, high)!r}")


def tabulate_probabilities(
    codes: NDArray[np.intp],
    predicted: NDArray[np.intp],
    wrong: NDArray[np.bool_],
    shares: Array,
    doubt: Array,
    calibration: Calibration | None = None,
) -> ProbabilityCounts:
    """Count points by their Brier scores, and by bins of the winner's probability; arguments as `tabulate_thresholds`.

    The largest share is the winner's on any engine, within the doubt: so is its probability within its limits.
    """
    calibration = SHARES if calibration is None else calibration
    points, margin = np.arange(codes.size), doubt + TOLERANCE
    least, most = calibration.limits(shares, margin)
    is_known = codes < shares.shape[1]
    of_class, squares = np.where(is_known, codes, 0), most**2
    squares[is_known, codes[is_known]] = (1 - least[is_known, codes[is_known]]) ** 2
    # Of a class that the vote does not know, the probability is 0.
    losses = (squares.sum(axis=1) + ~is_known) / 2
    levels = np.searchsorted(LOSS_LEVELS, np.minimum(losses, 1.0), side="left")
    by_level = np.bincount(levels, minlength=LOSS_LEVELS.size)
    winner = np.minimum(calibration.apply(shares)[points, predicted], 1.0)
    ends = (least[points, predicted], most[points, predicted], winner)
    first, last, nominal = (np.searchsorted(BIN_EDGES[1:-1], some, side="right") for some in ends)
    wrong = wrong | (predicted != codes)
    own = np.where(is_known, shares[points, of_class], -np.inf)
    may_be_right = ~wrong | (own >= shares[points, predicted] - 2 * margin)
    millionths = np.rint(winner / _UNIT).astype(np.int64)
    rows = []
    for k in range(len(BIN_EDGES) - 1):
        here, surely, maybe = nominal == k, (first == k) & (last == k), (first <= k) & (k <= last)
        counted = (here, surely & ~wrong, maybe & may_be_right, surely & ~may_be_right, maybe & wrong)
        n, *sides = (np.count_nonzero(some) for some in counted)
        rows.append([n, millionths[here].sum(), *sides])
    return ProbabilityCounts(by_level.astype(np.int64), np.array(rows, dtype=np.int64))


def state_probabilities(counts: ProbabilityCounts, kl_div: float, delta: float) -> Probabilities:
    """State what counts of held-out points prove; `kl_div` is the price of having chosen the vote."""
    losses, bins = tuple(counts.losses.tolist()), []
    for ends, (n, total, *sides) in zip(pairwise(BIN_EDGES), counts.bins.tolist(), strict=True):
        right, wrong = tuple(sides[:2]), tuple(sides[2:])
        mean = min(max(total * _UNIT / n, ends[0]), ends[1]) if n else 0.0
        bins.append(ReliabilityBin(*ends, n, mean, right, wrong, _limit_rate(right, wrong, kl_div, delta)))
    return Probabilities(losses, min(1.0, _bound_losses(losses, kl_div, delta) * _SLACK), tuple(bins))


# What is stated is checked soon after.
@lru_cache(maxsize=256)
def _bound_losses(losses: tuple[int, ...], kl_div: float, delta: float) -> float:
    """Bound the mean of Brier scores by the numbers of points at each level."""
    return bound_mean(delta, LOSS_LEVELS, losses, kl_div)


def _limit_rate(right: tuple[int, ...], wrong: tuple[int, ...], kl_div: float, delta: float) -> tuple[float, float]:
    """Return limits of the share of right predictions, whichever numbers of right and wrong ones an engine finds.

    Clopper-Pearson's limits rise with the number of right predictions and fall with that of wrong ones. Both limits of
    all bins hold at once.
    """
    price = divide_price(kl_div, 2 * (len(BIN_EDGES) - 1))
    low = 1 - bound_rate(delta, wrong[1], right[0] + wrong[1], price)
    return max(0.0, float(np.nextafter(low, 0.0))), bound_rate(delta, right[1], right[1] + wrong[0], price)
