"""Figure direct_vs_validate: lambda by minimising the bound against lambda chosen on a validation set."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbayes.paper.aggregation import Aggregation
from pacbayes.paper.splits import Split
from pacbayes.posterior import gibbs_posterior

_GRID = np.linspace(0.05, 1.9, 9)


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """Compute the test losses of both choices. The second one uses a validation set that the first does not need."""
    pool = Aggregation(split, split.n, split.subsample_size, n_jobs)
    direct = pool.posterior(split.n)
    votes = pool.model.predict_hypotheses(split.X_validation)
    weights = [gibbs_posterior(pool.losses, lam, pool.n_validation) for lam in _GRID]
    losses = [pool.vote_loss(rho, votes, split.y_validation) for rho in weights]
    chosen = int(np.argmin(losses))
    return {
        "direct": pool.vote_loss(direct.rho),
        "validate": pool.vote_loss(weights[chosen]),
        "lam_direct": float(direct.lam),
        "lam_validate": float(_GRID[chosen]),
    }
