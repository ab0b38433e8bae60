"""Known shift: which of the points of a test are kept, so that they are a sample of another distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._settings import is_flag
from pacbayes._validation import open_interval, row_numbers, scalar
from pacbayes.certificate import Certificate, Shift
from pacbayes.sampling import THIN, stream


@dataclass(frozen=True, eq=False)
class Weighting:
    """Points that were kept with probability weight / max_weight, without looking at their labels.

    If points are drawn from P and dQ/dP is proportional to the weights, those that are kept are independent draws from
    Q: P(x in A and kept) = E_P[1_A w / W], which is proportional to Q(A).
    """

    kept: NDArray[np.intp]  # numbers of the points that were kept, rising
    shift: Shift  # what a certificate says about it
    estimated: bool  # whether the weights are not known but estimated

    @classmethod
    def of(cls, weights: ArrayLike | None, max_weight: Any, estimated: Any, seed: int, n: int) -> Weighting | None:
        """Draw which of n points are kept; None without weights. Raise ValueError for weights that are none."""
        if weights is None:
            if max_weight is not None or estimated:
                raise ValueError("weights must be given where max_weight or weights_estimated is")
            return None
        if max_weight is None:
            raise ValueError(
                "max_weight must be given with weights: the largest weight that any point can have, known beforehand"
            )
        most = scalar("max_weight", open_interval("max_weight", max_weight, 0, np.inf))
        if not is_flag(estimated):
            raise ValueError(f"weights_estimated must be True or False, got {estimated!r}")
        given = row_numbers("weights", weights, n)
        wrong = ~((given >= 0) & (given <= most))
        if wrong.any():
            row = int(np.argmax(wrong))
            why = ": a clipped weight would stand for another distribution" if given[row] > most else ""
            raise ValueError(f"weights must be in [0, max_weight], [0, {most:g}], got {given[row]!s} in row {row}{why}")
        kept = np.flatnonzero(stream(seed, 0, THIN).random(n) < given / most)
        if not kept.size:
            raise ValueError(f"weights must keep some of the {n} rows, and they keep none: nothing can be proved")
        return cls(kept, Shift(most, n, int(kept.size), seed), bool(estimated))

    def describe(self, certificate: Certificate) -> Certificate:
        """Return a certificate, before its test, that says which distribution it is about."""
        known = "weights-estimated" if self.estimated else "weights-known"
        codes = [*certificate.assumption_codes, f"shifted:{self.shift.max_weight!r}", known]
        strict = certificate.strict and not self.estimated
        return replace(certificate, assumption_codes=tuple(codes), strict=strict, shift=self.shift)
