"""Figure mjv-vs-rnd and table 50-pcnt: vote, randomised classifier, best hypothesis and bound at m = n."""

from __future__ import annotations

from typing import Any

from pacbayes.bounds import majority_vote
from pacbayes.paper.aggregation import Aggregation
from pacbayes.paper.splits import Split
from pacbayes.votes import count_half_mass


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """Compute test losses, bounds and the number of hypotheses that hold half of the posterior mass."""
    r = split.subsample_size
    pool = Aggregation(split, split.n, r, n_jobs)
    metrics = pool.evaluate(split.n)
    return {
        "r": r,
        "m": split.n,
        "vote": metrics.vote,
        "randomised": metrics.randomised,
        "best": metrics.best,
        "bound": metrics.bound,
        "vote_bound": float(majority_vote(metrics.bound)),
        "half_mass": count_half_mass(metrics.posterior.rho),
        "n_validation": pool.n_validation,
    }
