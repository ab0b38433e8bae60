"""Figures runtime_kernel and appruntime: loss, bound and training time as functions of m."""

from __future__ import annotations

import time
from typing import Any

from pacbayes.paper.aggregation import grid, paper_classifier
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import subsample_size


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Train anew for up to `values` values of m in [1, n], timing training, validation, posterior and certificate."""
    n, d = split.X.shape
    r = subsample_size(n, d)
    ms = grid(1, n, values)
    votes, bounds, seconds = [], [], []
    for m in ms:
        model = paper_classifier(m, r, split.seed, n_jobs)
        start = time.perf_counter()
        model.fit(split.X, split.y)
        seconds.append(time.perf_counter() - start)
        votes.append(1 - float(model.score(split.X_test, split.y_test)))
        bounds.append(float(model.certificate_.gibbs_bound))
    return {"r": r, "m": ms, "vote": votes, "bound": bounds, "seconds": seconds}
