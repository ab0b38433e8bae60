"""The settings of a fit, as values that nobody else can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What a fit is asked to do: parameters of `PACBayesClassifier` by their names.

    `n_candidates` classifiers with different settings, decided on beforehand, share `delta`.
    """

    estimator: Any = None
    n_hypotheses: Any = "auto"
    subsample_size: Any = "auto"
    subsamples: Any = None
    delta: float = 0.05
    objective: Any = "auto"
    voting: Any = "majority"
    holdout: Any = "auto"
    prior: Any = None
    loss: Any = "zero_one"
    racing: Any = True
    checkpoint: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    n_candidates: int = 1
