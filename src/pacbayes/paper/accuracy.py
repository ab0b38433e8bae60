"""Figures heatmap_kernel and appheatmap: test loss of the weighted vote over numbers m and sizes r of subsamples."""

from __future__ import annotations

from typing import Any

from pacbayes.paper.aggregation import Aggregation, grid
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import subsample_size


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Loss for up to `values` values of m in [1, n] and of r in [2, d + 1]."""
    n, d = split.X.shape
    ms, rs = grid(1, n, values), grid(2, subsample_size(n, d), values)
    losses = []
    for r in rs:
        pool = Aggregation(split, n, r, n_jobs)
        losses.append([pool.vote_loss(pool.posterior(m).rho) for m in ms])
    return {"m": ms, "r": rs, "loss": losses}
