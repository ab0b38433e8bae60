"""Known shift: how a sample of another distribution was drawn from the points of a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pacbayes._json_fields import Range
from pacbayes.certificate._statements import Count, require


@dataclass(frozen=True)
class Shift:
    """What the points of a test were thinned by, so that they follow another distribution.

    A point with weight w was kept with probability w / `max_weight`, without looking at its label. Points kept from
    a sample of P are a sample of Q, where dQ/dP is proportional to w (rejection sampling, von Neumann 1951).

    Attributes
    ----------
    max_weight : float
        Bound on the weights of all points, declared beforehand.
    n : int
        Number of points before.
    n_kept : int
        Number of points that were kept.
    seed : int
        Seed of the draws.
    """

    max_weight: Annotated[float, Range(0, open_low=True)]
    n: Count
    n_kept: Count
    seed: Annotated[int, Range(0)]

    def check(self, n: int) -> None:
        """Raise CertificateError if other points were kept than the n of the test."""
        require(self.n_kept <= self.n, f"shift.n_kept must be at most n, {self.n}, got {self.n_kept}")
        require(self.n_kept == n, f"shift.n_kept must be the {n} points of statements[0], got {self.n_kept}")
