"""Figures heatmap_kernel and appheatmap: test loss of the weighted vote over numbers m and sizes r of subsamples."""

from __future__ import annotations

from typing import Any

from pacbayes.paper.aggregation import Aggregation, grid
from pacbayes.paper.splits import Split


def run(split: Split, n_jobs: int | None, values: int) -> dict[str, Any]:
    """Compute the loss for up to `values` values of m in [1, n] and of r in [2, d + 1]."""
    ms, rs = grid(1, split.n, values), grid(2, split.subsample_size, values)
    losses = []
    for r in rs:
        pool = Aggregation(split, split.n, r, n_jobs)
        losses.append([pool.vote_loss(pool.posterior(m).rho) for m in ms])
    return {"m": ms, "r": rs, "loss": losses}
