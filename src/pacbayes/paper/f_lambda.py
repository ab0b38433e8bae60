"""Figure f_lambda_convex: the shape of F(lambda), and the lambda that alternating minimisation finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbayes.paper.aggregation import Aggregation
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import DELTA
from pacbayes.posterior import lambda_bound, lambda_bound_derivatives, minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity

_GRID = np.linspace(0.02, 1.0, 99)


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """Compute F on a grid and both minima, and check whether F is convex and quasiconvex on the grid."""
    pool = Aggregation(split, split.n, split.subsample_size, n_jobs)
    losses, n_validation = pool.losses, pool.n_validation
    slope, curvature = lambda_bound_derivatives(losses, _GRID, n_validation, DELTA)
    alternating = pool.posterior(split.n)
    best = minimize_lambda_bound(losses, n_validation, delta=DELTA, method="global")
    report = check_quasiconvexity(losses, n_validation, delta=DELTA)
    return {
        "lam": _GRID.tolist(),
        "F": lambda_bound(losses, _GRID, n_validation, DELTA).tolist(),
        "lam_alternating": float(alternating.lam),
        "F_alternating": float(alternating.fun),
        "lam_global": float(best.lam),
        "F_global": float(best.fun),
        "convex": bool(np.all(curvature > 0)),
        # Once F rises it does not fall again.
        "quasiconvex": bool(np.all(np.diff(np.sign(slope)) >= 0)),
        "guaranteed": bool(report.guaranteed),
        "condition": report.condition,
    }
