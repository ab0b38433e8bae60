"""What held-out points prove at thresholds on shares of the vote: errors where it answers, and sets of classes.

Both rest on counts. A point whose share comes closer to a threshold than engines may differ is counted against the
statement, so that it holds for what any engine does. Theorems and proofs are in docs/heldout.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._formatting import format_lower
from pacbayes._json_fields import Length
from pacbayes._validation import Array
from pacbayes.certificate._rates import bound_rate, choose_row, count_points_needed, divide_price
from pacbayes.certificate._statements import ROUND_UP, Level, NonNegative, Unit, Whole, expect_at_least, require

# Shares of the held-out points to be answered besides all of them, which the thresholds on the winner's share follow.
_ANSWERED = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)

# Shares of the training rows to be answered at thresholds that are tested in turn, for a declared error, and at which
# of these tests begin: each has an equal part of delta.
_TESTED = tuple(k / 20 for k in range(6, 21))
_STARTS = (0.4, 0.8)

# Thresholds that a file may hold.
MOST_THRESHOLDS = 20

# Thresholds on the shares of other classes than the winner, falling: a geometric series, and 1, which none of them has.
_SMALL = [round(0.5 * 2 ** (-(j + 0.5) / 8), 7) for j in range(96)]
SET_THRESHOLDS = np.array([1.0, *_SMALL])

# Thresholds on the winner's share, rising: 0, a step for every thousandth, halfway between shares that votes by labels
# are likely to have, and smaller steps near 1.
THRESHOLDS = np.unique([0.0, *((k - 0.5) / 1000 for k in range(1, 1001)), *(1 - share for share in _SMALL)])

# More than the order of additions changes in a share.
TOLERANCE = 1e-9


class ThresholdCounts(NamedTuple):
    """Counts of points at thresholds, which add up over blocks of points."""

    # (len(THRESHOLDS), 4): errors, right answers, points that are answered on any engine, and that may be answered.
    answered: NDArray[np.int64]
    # (len(SET_THRESHOLDS), 2): points whose class may not be in its set, and sizes of all sets.
    sets: NDArray[np.int64]


@dataclass(frozen=True)
class Abstention:
    """What is proved if only those points are answered at which the winner's share of the vote reaches a threshold.

    The threshold is the first of a fixed grid at which so many held-out points are not answered: given how many are,
    their errors are binomial. The bounds at all J thresholds, each Clopper-Pearson's at delta / (J K) for K competing
    votes, hold at once with probability 1 - delta. So do, as a statement of their own, the limits of the shares that
    are answered, by Massart's bound on the distribution function of the winner's share.

    Attributes
    ----------
    threshold : float
        The smallest share of the vote with which the winner is answered; 0 answers all points.
    errors, n : int
        Errors among the held-out points that are answered, and the number of these. If rounding could change on another
        engine whether a point is answered, or its answer, it counts if it is an error.
    answered : tuple of int
        The least and the largest number of held-out points that are answered, on any engine.
    bound : float
        Upper bound on the error among points that are answered, rounded up; 1 means that nothing is proved.
    share : tuple of float
        Limits of the share of points that are answered.
    kl_div : float
        Price of the bound: the logarithm of J K, the number of statements that share delta.
    """

    threshold: Unit
    errors: Whole
    n: Whole
    answered: tuple[Whole, Whole]
    bound: Unit
    share: tuple[Unit, Unit]
    kl_div: NonNegative

    @property
    def measured_error(self) -> float | None:
        """Share of errors among the held-out points that are answered; None if there are none."""
        return self.errors / self.n if self.n else None


@dataclass(frozen=True)
class DeclaredError:
    """An error among answered points that was declared before the fit, and at which thresholds it is proved.

    The thresholds come from training rows, and are tested in falling order. Of delta / K, for K competing votes, the
    tests that begin a sequence have equal parts. A test that proves the error hands on its part to the next one; the
    others test nothing. There is no price for the number of thresholds: the fallback procedure.

    Attributes
    ----------
    max_error : float
        The error that was declared.
    tests : tuple of Abstention
        The thresholds that were tested, in turn; the part of delta of each is that of `kl_div`. A `bound` of at most
        `max_error` proves `max_error`, and no less.
    """

    max_error: Level
    tests: Annotated[tuple[Abstention, ...], Length(1, MOST_THRESHOLDS)]

    @property
    def proved(self) -> Abstention | None:
        """The smallest threshold that is proved, with the declared error for its bound; None if none is.

        That the bound of its own test is smaller is not proved: by it and others, this threshold was chosen.
        """
        passed = [row for row in self.tests if row.bound <= self.max_error]
        return replace(passed[-1], bound=self.max_error) if passed else None

    def require(self) -> Abstention:
        """Return the smallest threshold that is proved; raise ValueError if none is."""
        if self.proved is None:
            row = min(self.tests, key=lambda row: row.bound)
            raise ValueError(
                f"an error of at most {self.max_error!r} was declared and is not proved: {row.errors} errors in "
                f"{row.n} held-out points that are answered prove {row.bound!r}"
            )
        return self.proved


@dataclass(frozen=True)
class SetCounts:
    """What held-out points say about sets of the winner and all classes whose share of the vote reaches a threshold.

    The sets grow as the threshold falls, so that misses fall. The largest threshold whose misses prove a coverage
    therefore has it with probability 1 - delta, without a price for having been chosen: risk-controlling prediction
    sets.

    Attributes
    ----------
    threshold : float
        The smallest share of a class in a set; the winner is in it in any case.
    misses, size : int
        Number of held-out points whose class is not in their set, or may not be on another engine, and of the classes
        in all sets together.
    """

    threshold: Unit
    misses: Whole
    size: Whole


@dataclass(frozen=True)
class Coverage:
    """A proved coverage of prediction sets.

    Attributes
    ----------
    coverage : float
        With probability 1 - delta, at least this share of new points has its class in its set.
    threshold, misses : float and int
        As in `SetCounts`.
    n, mean_size : int and float
        Number of held-out points, and mean number of classes in their sets, measured.
    """

    coverage: float
    threshold: float
    misses: int
    n: int
    mean_size: float


def tabulate_thresholds(
    codes: NDArray[np.intp], predicted: NDArray[np.intp], wrong: NDArray[np.bool_], shares: Array, doubt: Array
) -> ThresholdCounts:
    """Count points by true class, prediction and shares of the vote at thresholds on these.

    `wrong` are predictions that are, or could be on another engine, and shares could differ at each point by `doubt`.
    Codes beyond the columns of `shares` are those of classes that the vote does not know.
    """
    points, margin = np.arange(codes.size), doubt + TOLERANCE
    wrong = wrong | (predicted != codes)
    winner = shares[points, predicted]
    # The largest and the smallest score on any engine; all points reach 0.
    largest, smallest = winner + margin, np.maximum(winner - margin, 0.0)
    counted = (largest[wrong], smallest[~wrong], smallest, largest)
    answered = [some.size - np.searchsorted(np.sort(some), THRESHOLDS, side="left") for some in counted]
    known = np.flatnonzero(wrong & (codes < shares.shape[1]))
    # A share that a set may lack on another engine is taken for the smallest that it can be.
    found = np.sort(shares[known, codes[known]] - margin[known])
    n_unknown = np.count_nonzero(wrong) - known.size
    misses = n_unknown + np.searchsorted(found, SET_THRESHOLDS, side="left")
    others = shares.copy()
    others[points, predicted] = -1.0
    sizes = codes.size + others.size - np.searchsorted(np.sort(others, axis=None), SET_THRESHOLDS, side="left")
    return ThresholdCounts(*(np.stack(some, axis=1).astype(np.int64) for some in (answered, [misses, sizes])))


def state_abstention(answered: NDArray[np.int64], n: int, kl_div: float, delta: float) -> tuple[Abstention, ...]:
    """Bound the errors among points that are answered, and the share of these, at several thresholds at once.

    `answered` are counts of n points, and `kl_div` is the price of having chosen the vote. The thresholds are found
    from below, by the points that no engine answers, so that nothing else is known about those above.
    """
    unanswered = n - answered[:, 3]
    least = [math.ceil((1 - Fraction(str(share))) * n) for share in _ANSWERED]
    found = np.unique([0, *np.searchsorted(unanswered, least, side="left")])
    price = divide_price(kl_div, 1 + len(_ANSWERED))
    return tuple(_state_row(k, answered, n, price, kl_div, delta) for k in found[found < THRESHOLDS.size].tolist())


def plan_thresholds(scores: Array, weights: Array) -> tuple[tuple[float, float], ...]:
    """Return thresholds to be tested one after another on held-out points, in falling order, by training rows alone.

    `scores` are the winner's shares there, and `weights` say how much each row counts. Each threshold comes with the
    part of delta that begins with it.
    """
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    plan: dict[float, float] = {}
    for share in _TESTED:
        # The largest threshold of the grid that so many reach; all points reach 0.
        k = 0 if share == 1 else int(np.searchsorted(below, (1 - share) * below[-1], side="right"))
        reached = 0.0 if share == 1 else scores[order[min(k, order.size - 1)]]
        threshold = float(THRESHOLDS[np.searchsorted(THRESHOLDS, reached, side="right") - 1])
        plan[threshold] = plan.get(threshold, 0.0) + (share in _STARTS) / len(_STARTS)
    return tuple(sorted(plan.items(), reverse=True))


def state_declared(
    max_error: float,
    plan: Sequence[tuple[float, float]],
    answered: NDArray[np.int64],
    n: int,
    kl_div: float,
    delta: float,
) -> DeclaredError:
    """Test thresholds in turn: what one that proves the error had of delta, the next one has as well."""
    tests: list[Abstention] = []
    part = 0.0
    for threshold, begins in plan:
        part += begins
        if part == 0:
            continue
        k, price = int(np.searchsorted(THRESHOLDS, threshold)), divide_price(kl_div, 1 / part)
        tests.append(_state_row(k, answered, n, price, kl_div, delta))
        part = part if tests[-1].bound <= max_error else 0.0
    return DeclaredError(max_error, tuple(tests))


def _state_row(k: int, answered: NDArray[np.int64], n: int, price: float, kl_div: float, delta: float) -> Abstention:
    """State what was counted at a threshold, by its number, and what it proves."""
    errors, right, surely, maybe = answered[k].tolist()
    counted = Abstention(float(THRESHOLDS[k]), errors, errors + right, (surely, maybe), 1.0, (0.0, 1.0), price)
    return _prove(counted, n, kl_div, delta)


def _prove(row: Abstention, n: int, kl_div: float, delta: float) -> Abstention:
    """Return a row with the bound and the limits of the share that its counts, of n points, prove."""
    bound = bound_rate(delta, row.errors, row.n, row.kl_div)
    if row.threshold == 0:
        return replace(row, bound=bound, share=(1.0, 1.0))
    # P(sup_t F(t) - F_n(t) > e) <= exp(-2 n e^2), in both directions [Massart 1990].
    deviation = math.sqrt((divide_price(kl_div, 2) - math.log(delta)) / (2 * n)) * ROUND_UP
    low, high = row.answered[0] / n - deviation, row.answered[1] / n + deviation
    return replace(row, bound=bound, share=(max(0.0, low * (2 - ROUND_UP)), min(1.0, high * ROUND_UP)))


def state_sets(sets: NDArray[np.int64]) -> tuple[SetCounts, ...]:
    """Return counts at thresholds on the shares of classes, of each number of misses that at the largest threshold."""
    is_first = np.diff(sets[:, 0], prepend=-1) != 0
    rows = zip(SET_THRESHOLDS[is_first].tolist(), *sets[is_first].T.tolist(), strict=True)
    return tuple(SetCounts(*row) for row in rows)


def choose_abstention(rows: Sequence[Abstention], max_error: float) -> Abstention:
    """Return the smallest threshold at which the error among points that are answered is proved to be small enough."""
    for row in rows:
        if row.bound <= max_error:
            return row
    best = min(rows, key=lambda row: row.bound)
    raise ValueError(
        f"max_error must be at least {best.bound!r}, the smallest error that is proved, got {max_error!r}: "
        f"{best.errors} errors in {best.n} held-out points that are answered prove no less"
    )


def choose_sets(counts: Sequence[SetCounts], n: int, kl_div: float, delta: float, coverage: float) -> Coverage:
    """Return the largest threshold at which a coverage is proved, by counts of n points at falling thresholds."""
    row = choose_row(counts, n, kl_div, delta, coverage)
    if row is not None:
        return Coverage(coverage, row.threshold, row.misses, n, row.size / n)
    needed = count_points_needed(coverage, kl_div, delta)
    if needed > n:
        raise ValueError(
            f"coverage of {coverage!r} needs at least {needed} held-out points to be proved at this delta, and there "
            f"are {n}"
        )
    most = 1 - bound_rate(delta, counts[-1].misses, n, kl_div)
    raise ValueError(
        f"coverage must be at most {format_lower(most)}, which is what {n} held-out points prove, got {coverage!r}: "
        f"{counts[-1].misses} of them have a class with next to no share of the vote"
    )


def check_abstention(rows: Sequence[Abstention], n: int, kl_div: float, delta: float) -> None:
    """Raise CertificateError if rows do not follow from their counts, of n held-out points in all."""
    first = rows[0]
    all_points = first.threshold == 0 and first.answered == (n, n) and first.n == n
    require(all_points, f"abstention[0] must be about all {n} held-out points, at the threshold 0")
    _check_rows("abstention", rows, n, divide_price(kl_div, len(rows)), kl_div, delta)


def check_declared(declared: DeclaredError, n: int, kl_div: float, delta: float) -> None:
    """Raise CertificateError if tests of a declared error do not follow from counts, or have too much of delta."""
    _check_rows("declared.tests", declared.tests[::-1], n, kl_div, kl_div, delta)
    begun = handed_on = 0.0
    for row in declared.tests:
        part = math.exp(kl_div - row.kl_div)
        begun += max(0.0, part - handed_on)
        handed_on = part if row.bound <= declared.max_error else 0.0
    require(begun <= 1 + 1e-9, f"declared.tests begin with {begun!r} of delta together, and must have at most 1")


def _check_rows(name: str, rows: Sequence[Abstention], n: int, least_price: float, kl_div: float, delta: float) -> None:
    """Check rows of rising thresholds."""
    for i, row in enumerate(rows):
        here, (least, most) = f"{name}[{i}]", row.answered
        right = row.n - row.errors
        paid = f"{here}.kl_div is less than what {len(rows)} statements cost"
        require(row.kl_div >= least_price, paid)
        # All that are answered on any engine are counted, and none that is answered on no engine.
        fits = 0 <= right <= least <= row.n <= most <= n
        require(fits, f"{here} counts {row.errors} errors in {row.n} points, of {least} to {most} that are answered")
        proved = _prove(row, n, kl_div, delta)
        expect_at_least(f"{here}.bound", row.bound, proved.bound)
        contains = row.share[0] <= proved.share[0] and row.share[1] >= proved.share[1]
        require(contains, f"{here}.share is stated as {row.share!r} but comes out as {proved.share!r}")
    for i, (row, later) in enumerate(pairwise(rows), 1):
        require(row.threshold < later.threshold, f"{name}[{i}].threshold must be above {row.threshold!r}")
        before, after = ((one.errors, one.n - one.errors, *one.answered) for one in (row, later))
        falls = all(a >= b for a, b in zip(before, after, strict=True))
        require(falls, f"{name}[{i}] must not count more points than at a smaller threshold")


def check_sets(counts: Sequence[SetCounts], n: int, n_errors: int) -> None:
    """Raise CertificateError if counts cannot be those of growing sets for n held-out points."""
    first = counts[0]
    alone = first.threshold == 1 and first.size >= n and first.misses == n_errors
    require(alone, f"prediction_sets[0] must be about the winners of {n} held-out points, at the threshold 1")
    for i, (row, later) in enumerate(pairwise(counts), 1):
        grows = row.threshold > later.threshold and row.misses > later.misses and row.size <= later.size
        require(grows, f"prediction_sets[{i}] must have a smaller threshold, fewer misses and no smaller sets")
