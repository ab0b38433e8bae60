"""Figure mjv-vs-rnd and table 50-pcnt: vote, randomised classifier, best hypothesis and bound at m = n."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbayes._validation import Array
from pacbayes.bounds import majority_vote
from pacbayes.paper.aggregation import Aggregation
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import subsample_size


def half_mass(rho: Array) -> int:
    """Number of hypotheses, heaviest first, that hold half of the posterior mass.

    Examples
    --------
    >>> half_mass(np.array([0.1, 0.45, 0.45]))
    2
    """
    cumulative = np.cumsum(np.sort(rho)[::-1])
    return int(np.searchsorted(cumulative, cumulative[-1] / 2)) + 1


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """All of them, for the largest m."""
    n, d = split.X.shape
    r = subsample_size(n, d)
    pool = Aggregation(split, n, r, n_jobs)
    weighted = pool.weighted(n)
    return {
        "r": r,
        "m": n,
        "vote": weighted.vote,
        "randomised": weighted.randomised,
        "best": weighted.best,
        "bound": weighted.bound,
        "vote_bound": float(majority_vote(weighted.bound)),
        "half_mass": half_mass(weighted.posterior.rho),
        "n_validation": pool.n_validation,
    }
