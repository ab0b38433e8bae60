"""The rival in regression: a careful practitioner's choice with an exact interval, recorded for `regression.py`.

It tries CatBoost, LightGBM, extra trees, ridge regression and three support vector regressions by 3-fold
cross-validation (mean absolute error) on half of the training rows and trains the best one on that half. On the other
half, an order statistic of the absolute errors gives the interval: with probability 1 - delta, it holds at least 90% of
new points. The same choice is also trained on all training rows, where nothing is proved.

Each result is a line of RIVAL.jsonl, and what is there is not computed again. Every learner gets one thread, so that
processor seconds can be compared.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, ClassVar

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
from _comparison import record_rival
from _results import make_parser
from numpy.typing import NDArray
from problems import Problem
from regression_problems import groups, load
from rivals import DELTA, SVMS, Encoded, Learner, ScaledWidth, libraries, practise
from scipy.stats import binom
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

COVERAGE = 0.9

Values = NDArray[np.float64]


class ScaledSVR(ScaledWidth, SVR):
    """A regression."""

    fixed: ClassVar = {"epsilon": 0.05}


def learners(seed: int) -> dict[str, Learner]:
    """Return what a practitioner tries."""
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor

    def svr(C: float, factor: float) -> TransformedTargetRegressor:
        return TransformedTargetRegressor(ScaledSVR(C, factor), transformer=StandardScaler())

    encoded = partial(Encoded, seed=seed, target_type="continuous")
    return {
        **libraries(CatBoostRegressor, LGBMRegressor, seed),
        "extra trees": encoded(lambda: ExtraTreesRegressor(n_estimators=300, n_jobs=1, random_state=seed)),
        "ridge": encoded(lambda: RidgeCV(np.logspace(-3, 4, 15))),
        **{f"svr C={C:g} gamma={factor:g}": encoded(partial(svr, C, factor)) for C, factor in SVMS},
    }


def exact_quantile(scores: Values, coverage: float = COVERAGE, delta: float = DELTA) -> float:
    """Return the order statistic that at least the share `coverage` of new scores does not exceed.

    This holds with probability 1 - delta, for any distribution: the k-th smallest of n scores is too small if at least
    k of them lie below the quantile, so k = min{k : P(Bin(n, coverage) >= k) <= delta} (Wilks). Infinite where n is too
    small for any k.
    """
    n = scores.size
    ranks = np.arange(1, n + 1)
    enough = np.flatnonzero(binom.sf(ranks - 1, n, coverage) <= delta)
    return float(np.sort(scores)[enough[0]]) if enough.size else np.inf


def rival(problem: Problem, seed: int) -> dict[str, Any]:
    """Return all figures of the rival on one split."""
    (train, test), y = problem.split(seed), problem.y
    rest = train[train.size // 2 :]
    table, on_half, on_all, figures = practise(
        problem, seed, lambda: learners(seed), KFold, lambda predicted, truth: np.abs(predicted - truth).sum()
    )
    radius = exact_quantile(np.abs(y[rest] - on_half.predict(table.iloc[rest])))
    errors, errors_all = (np.abs(y[test] - model.predict(table.iloc[test])) for model in (on_half, on_all))
    return figures | {
        "width": 2 * radius,
        "coverage": float(np.mean(errors <= radius)),
        "mae": float(errors.mean()),
        "mae_all": float(errors_all.mean()),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "rmse_all": float(np.sqrt(np.mean(errors_all**2))),
        "mae_median": float(np.abs(y[test] - np.median(y[train])).mean()),
        "n_rest": rest.size,
    }


if __name__ == "__main__":
    record_rival(make_parser(__doc__), groups(), load, rival)
