"""Figures appprediction and appprediction_max: the weighted vote, the uniform vote and the best hypothesis."""

from __future__ import annotations

from typing import Any

from pacbayes.paper.aggregation import Aggregation, grid
from pacbayes.paper.splits import Split


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Compute test losses and bound for up to `values` values of m in [1, n]."""
    r = split.subsample_size
    pool = Aggregation(split, split.n, r, n_jobs)
    ms = grid(1, split.n, values)
    metrics = [pool.evaluate(m) for m in ms]
    series = {name: [getattr(of_m, name) for of_m in metrics] for name in ("vote", "uniform", "best", "bound")}
    return {"r": r, "m": ms, **series}
