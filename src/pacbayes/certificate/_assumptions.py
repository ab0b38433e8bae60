"""What a certificate rests on, in the sentences that it prints."""

from __future__ import annotations

from collections.abc import Sequence

from pacbayes.sampling import FoldSubsamples, GivenSubsamples, NoSubsamples, RandomSubsamples

__all__ = ["FIT_ASSUMPTIONS", "LOSS_ASSUMPTIONS", "NOT_COVERED", "missing_assumptions", "says_not_covered"]

# What has to be true of every fit. The classifier sees the sample only: it cannot know what was done before.
FIT_ASSUMPTIONS = (
    "the sample is independent and identically distributed, and so are the points to predict",
    "features were not computed from this sample: no scaler, imputer, selector or other pipeline step saw its rows",
    "settings were not chosen by looking at this sample: no grid search, no best of several seeds, bounds or scores",
)

# What has to be true of losses that are given.
LOSS_ASSUMPTIONS = (
    "each loss was measured on independent, identically distributed points that did not shape its hypothesis",
    "the prior and the settings were chosen without looking at those points",
)

# How an assumption ends that the theorem does not allow. A certificate with such a line is not strict.
NOT_COVERED = "the theorem does not cover this"

_SUBSAMPLES = tuple(kind.assumption for kind in (RandomSubsamples, FoldSubsamples, GivenSubsamples, NoSubsamples))


def says_not_covered(assumptions: Sequence[str]) -> bool:
    """Return whether one of the assumptions departs from the theorem."""
    return any(line.endswith(NOT_COVERED) for line in assumptions)


def missing_assumptions(assumptions: Sequence[str], *, of_fit: bool) -> list[str]:
    """Return the assumptions that a certificate has to state and does not.

    Parameters
    ----------
    assumptions : sequence of str
        What it states.
    of_fit : bool
        Whether it is the certificate of a fit, or of losses.
    """
    required = FIT_ASSUMPTIONS if of_fit else LOSS_ASSUMPTIONS
    missing = [line for line in required if line not in assumptions]
    if of_fit and not any(line in assumptions for line in _SUBSAMPLES):
        missing.append("how the subsamples were chosen")
    return missing
