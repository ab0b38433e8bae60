"""Figures runtime_kernel and appruntime: loss, bound and training time as functions of m."""

from __future__ import annotations

import time
from typing import Any

from pacbayes.paper.aggregation import grid, paper_classifier
from pacbayes.paper.splits import Split


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Train a new pool for up to `values` values of m in [1, n]; the time is that of the whole fit."""
    r = split.subsample_size
    ms = grid(1, split.n, values)
    votes, bounds, seconds = [], [], []
    for m in ms:
        model = paper_classifier(m, r, split.seed, n_jobs)
        start = time.perf_counter()
        model.fit(split.X, split.y)
        seconds.append(time.perf_counter() - start)
        votes.append(1 - float(model.score(split.X_test, split.y_test)))
        bounds.append(float(model.certificate_.gibbs_bound))
    return {"r": r, "m": ms, "vote": votes, "bound": bounds, "seconds": seconds}
