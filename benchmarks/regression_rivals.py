"""The rival in regression: a careful practitioner's choice with an exact interval, recorded for `regression.py`.

    python benchmarks/regression_rivals.py RIVAL.jsonl [--groups generated numbers text] [--splits 3] [--only NAME ...]

It tries CatBoost, LightGBM, extra trees, ridge regression and three support vector regressions by 3-fold
cross-validation (mean absolute error) on half of the training rows and trains the best one on that half. On the other
half, an order statistic of the absolute errors gives the interval: with probability 1 - delta, it holds at least 90% of
new points. The same choice is also trained on all training rows, where nothing is proved.

Each result is a line of RIVAL.jsonl, and what is there is not computed again. Every learner gets one thread, so that
processor seconds can be compared.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from problems import Problem
from regression_problems import groups, load
from rivals import DELTA, FOLDS, Boosting, Clock, Encoded, keep_results
from scipy.stats import binom
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

COVERAGE = 0.9

Values = NDArray[np.float64]


class ScaledSVR(SVR):
    """A support vector regression with a width in units of scikit-learn's "scale"."""

    def __init__(self, C: float, factor: float):
        super().__init__(C=C, epsilon=0.05, cache_size=1000)
        self.factor = factor

    def fit(self, X: Values, y: Values) -> ScaledSVR:
        self.gamma = self.factor / (X.shape[1] * X.var())
        return super().fit(X, y)


def learners(seed: int) -> dict[str, Boosting | Encoded]:
    """Return what a practitioner tries."""
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor

    def catboost(text: list[str]) -> CatBoostRegressor:
        # Statistics of combined categories take minutes a fit where there are many of them.
        simple = {"one_hot_max_size": 10, "max_ctr_complexity": 1} if len(text) > 20 else {}
        return CatBoostRegressor(
            iterations=1000,
            cat_features=text,
            thread_count=1,
            random_seed=seed,
            verbose=0,
            allow_writing_files=False,
            **simple,
        )

    def lightgbm(text: list[str]) -> LGBMRegressor:
        return LGBMRegressor(n_estimators=300, learning_rate=0.05, n_jobs=1, random_state=seed, verbose=-1)

    def svr(C: float, factor: float) -> TransformedTargetRegressor:
        return TransformedTargetRegressor(ScaledSVR(C, factor), transformer=StandardScaler())

    encoded = partial(Encoded, seed=seed, target_type="continuous")
    chosen: dict[str, Boosting | Encoded] = {
        "catboost": Boosting(catboost, missing=""),
        "lightgbm": Boosting(lightgbm, missing=None),
        "extra trees": encoded(lambda: ExtraTreesRegressor(n_estimators=300, n_jobs=1, random_state=seed)),
        "ridge": encoded(lambda: RidgeCV(np.logspace(-3, 4, 15))),
    }
    for C, factor in ((10.0, 0.2), (3.0, 1.0), (10.0, 4.0)):
        chosen[f"svr C={C:g} gamma={factor:g}"] = encoded(partial(svr, C, factor))
    return chosen


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


def search(X: pd.DataFrame, y: Values, seed: int) -> tuple[str, dict[str, list[float]]]:
    """Cross-validate all learners: the best one, and mean absolute error and processor seconds of each."""
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    found = {}
    for name, learner in learners(seed).items():
        clock, total = Clock(), 0.0
        for train, test in folds:
            total += float(np.abs(learner.fit(X.iloc[train], y[train]).predict(X.iloc[test]) - y[test]).sum())
        found[name] = [total / y.size, clock.read()[0]]
    return min(found, key=lambda name: found[name][0]), found


def rival(problem: Problem, seed: int) -> dict[str, Any]:
    """Return all figures of the rival on one split."""
    train, test = problem.split(seed)
    y = problem.y
    table = problem.X if isinstance(problem.X, pd.DataFrame) else pd.DataFrame(problem.X).add_prefix("f")
    half, rest = train[: train.size // 2], train[train.size // 2 :]

    clock = Clock()
    choice, found = search(table.iloc[half], y[half], seed)
    model = learners(seed)[choice].fit(table.iloc[half], y[half])
    radius = exact_quantile(np.abs(y[rest] - model.predict(table.iloc[rest])))
    search_cpu, search_wall = clock.read()
    errors = np.abs(y[test] - model.predict(table.iloc[test]))

    clock = Clock()
    model = learners(seed)[choice].fit(table.iloc[train], y[train])
    all_cpu, _ = clock.read()
    errors_all = np.abs(y[test] - model.predict(table.iloc[test]))
    return {
        "choice": choice,
        "width": 2 * radius,
        "coverage": float(np.mean(errors <= radius)),
        "mae": float(errors.mean()),
        "mae_all": float(errors_all.mean()),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "rmse_all": float(np.sqrt(np.mean(errors_all**2))),
        "mae_median": float(np.abs(y[test] - np.median(y[train])).mean()),
        "n_rest": rest.size,
        "search_cpu": search_cpu,
        "search_wall": search_wall,
        "all_cpu": all_cpu,
        "cross_validation": found,
    }


def jobs(chosen: list[str], splits: int) -> Iterator[tuple[str, str, int]]:
    """Group, problem and split: split by split."""
    for split in range(splits):
        yield from ((group, name, split) for group in chosen for name in groups()[group])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--groups", nargs="+", choices=list(groups()), default=list(groups()))
    parser.add_argument("--splits", type=int, default=3, help="of each dataset")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_results(jobs(arguments.groups, arguments.splits), arguments, load, rival, ("width", "mae", "mae_all"))


if __name__ == "__main__":
    main()
