"""The baseline: an RBF-SVM tuned by cross-validation.

Five folds, log10 C from -3 to 3, and five kernel widths around Jaakkola's seed; the best pair is then trained on the
whole training set. The training time includes all of this.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pacbayes.paper.splits import Split
from pacbayes.pools import GAMMA_GRID, jaakkola_gamma


def cross_validated_svm(X: Any, y: Any, n_jobs: int | None = None, svc: Any = SVC) -> GridSearchCV:
    """Fit the baseline with scikit-learn's SVC, or with another class of the same interface."""
    grid = {"C": 10.0 ** np.arange(-3, 4), "gamma": jaakkola_gamma(X, y) * GAMMA_GRID}
    return GridSearchCV(svc(), grid, cv=5, n_jobs=n_jobs).fit(X, y)


def run(split: Split, n_jobs: int | None) -> dict[str, Any]:
    """Compute test loss, selected parameters and training time of the baseline."""
    start = time.perf_counter()
    search = cross_validated_svm(split.X, split.y, n_jobs)
    seconds = time.perf_counter() - start
    return {
        "loss": 1 - float(search.score(split.X_test, split.y_test)),
        "C": float(search.best_params_["C"]),
        "gamma": float(search.best_params_["gamma"]),
        "seconds": seconds,
    }
