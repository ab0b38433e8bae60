"""Figures appprediction and appprediction_max: the weighted vote beside the uniform one and the best hypothesis."""

from __future__ import annotations

from typing import Any

from pacbayes.paper.aggregation import Aggregation, grid
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import subsample_size


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Test losses and bound for up to `values` values of m in [1, n]."""
    n, d = split.X.shape
    r = subsample_size(n, d)
    pool = Aggregation(split, n, r, n_jobs)
    ms = grid(1, n, values)
    of_m = [pool.weighted(m) for m in ms]
    series = {name: [getattr(weighted, name) for weighted in of_m] for name in ("vote", "uniform", "best", "bound")}
    return {"r": r, "m": ms, **series}
