"""Table quasiconvexity: the largest m for which F(lambda) is guaranteed to be quasiconvex.

m grows in steps of ten until a condition fails. Two numbers are found: the m up to which Theorem var, with tuned
intervals and the refined b, guarantees quasiconvexity, and the m up to which any condition of `check_quasiconvexity`
does, Theorem global-min for all lambda included.
"""

from __future__ import annotations

import math
from typing import Any

from pacbayes.paper.aggregation import Aggregation
from pacbayes.paper.splits import Split
from pacbayes.paper.tables import DELTA
from pacbayes.quasiconvexity import THEOREM_VAR_CONDITIONS, check_quasiconvexity

_STEP = 10


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """Find the largest m, up to n, before the first failure of Theorem var and of all conditions."""
    n = split.n
    pool = Aggregation(split, n, split.subsample_size, n_jobs)
    # F is quasiconvex for m <= K(0,0) + 1 whatever the losses, and the paper reports no less.
    floor = math.floor(math.e**2 / 4 * math.log(4 * pool.n_validation / DELTA**2)) + 1
    theorem_var = stronger = floor
    by_theorem_var = True
    for m in range(_STEP, n + 1, _STEP):
        report = check_quasiconvexity(pool.losses[:m], pool.n_validation, delta=DELTA)
        if not report.guaranteed:
            break
        stronger = max(m, floor)
        by_theorem_var = by_theorem_var and any(report.details[name].holds for name in THEOREM_VAR_CONDITIONS)
        if by_theorem_var:
            theorem_var = max(m, floor)
    return {"theorem_var": theorem_var, "stronger": stronger, "floor": floor, "largest": n}
