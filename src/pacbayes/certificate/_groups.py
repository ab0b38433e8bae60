"""Errors by group: how often the predictor errs on points of each declared group, and bounds that hold all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pacbayes._json_fields import Length
from pacbayes.certificate._rates import Rate, bound_rates
from pacbayes.certificate._statements import MAX_TEXT, NonNegative, Unit, Whole, expect, expect_at_least, require

# A certificate keeps no more groups than this.
MOST_GROUPS = 1000


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
