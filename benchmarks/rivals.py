"""The rival: what a careful practitioner does without this library, recorded for `certificates.py`.

It tries CatBoost, LightGBM, extra trees, a random forest, logistic regression and three SVMs by 3-fold cross-validation
on half of the training rows, trains the most accurate one on that half and takes the Clopper-Pearson bound on the other
half. The same choice is also trained on all training rows, where nothing is proved.

Each result is a line of RIVAL.jsonl, and what is there is not computed again. Every learner gets one thread, so that
processor seconds can be compared. FOLDER holds the paper's datasets; `problems.py` has the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
from _comparison import record_rival
from _results import Clock, make_parser
from numpy.typing import NDArray
from problems import Problem, groups, load
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.svm import SVC

from pacbayes.bounds import clopper_pearson

DELTA = 0.05
FOLDS = 3
# Columns with more texts than this are encoded by target statistics where a learner has no categories of its own.
MOST_ONE_HOT = 50
# SVMs are tried up to this number of rows.
MOST_SVM = 10_000

Labels = NDArray[Any]
Rows = NDArray[np.intp]


# ---------------------------------------------------------------------------------------------------
# Learners: number of rows and classes, seed -> an estimator for data frames
# ---------------------------------------------------------------------------------------------------


def _text(X: pd.DataFrame) -> list[str]:
    return [name for name, dtype in X.dtypes.items() if dtype.kind not in "ifb"]


class Learner:
    """What predicts for data frames, once its `fit` has set `model`."""

    model: Any

    def prepared(self, X: pd.DataFrame) -> pd.DataFrame:
        return X

    @property
    def classes_(self) -> Labels:
        return np.asarray(self.model.classes_)

    def predict(self, X: pd.DataFrame) -> Labels:
        return np.ravel(self.model.predict(self.prepared(X)))

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(self.prepared(X)))


class Boosting(Learner):
    """A boosting library with categories and missing values of its own: `make` gets the names of the text columns."""

    def __init__(self, make: Callable[[list[str]], Any], missing: str | None):
        self.make = make
        self.missing = missing  # what stands for a missing text, or None if the library wants pandas' categories

    def fit(self, X: pd.DataFrame, y: Labels) -> Boosting:
        self.levels = {name: pd.CategoricalDtype(np.unique(X[name].dropna().astype(str))) for name in _text(X)}
        self.model = self.make(list(self.levels)).fit(self.prepared(X), y)
        return self

    def prepared(self, X: pd.DataFrame) -> pd.DataFrame:
        if self.missing is None:
            return X.astype(self.levels)
        return X.assign(**{name: X[name].fillna(self.missing).astype(str).astype(object) for name in self.levels})


class Encoded(Learner):
    """An estimator for numbers: gaps imputed and marked, numbers scaled, text one-hot or by target statistics."""

    def __init__(self, make: Callable[[], Any], seed: int, target_type: str = "auto"):
        self.make = make
        self.seed = seed
        self.target_type = target_type  # "continuous" where numbers are predicted, even if they are whole

    def fit(self, X: pd.DataFrame, y: Labels) -> Encoded:
        text = _text(X)
        few = [name for name in text if X[name].nunique() <= MOST_ONE_HOT]
        filled = FunctionTransformer(lambda table: table.fillna("").astype(str).astype(object))
        numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        one_hot = make_pipeline(filled, OneHotEncoder(handle_unknown="ignore", sparse_output=False))
        encoder = TargetEncoder(target_type=self.target_type, random_state=self.seed)
        statistics = make_pipeline(filled, encoder, StandardScaler())
        parts = {
            numbers: [name for name in X if name not in text],
            one_hot: few,
            statistics: [name for name in text if name not in few],
        }
        transformer = make_column_transformer(*((part, names) for part, names in parts.items() if names))
        self.model = make_pipeline(transformer, self.make()).fit(X, y)
        return self


class ScaledWidth:
    """A support vector machine with a width in units of scikit-learn's "scale"."""

    fixed: ClassVar[dict[str, Any]] = {}

    def __init__(self, C: float, factor: float):
        super().__init__(C=C, cache_size=1000, **self.fixed)
        self.factor = factor

    def fit(self, X: NDArray[np.float64], y: Labels) -> Any:
        self.gamma = self.factor / (X.shape[1] * X.var())
        return super().fit(X, y)


class ScaledSVC(ScaledWidth, SVC):
    """A classifier."""


# C, and the width, of the SVMs that are tried.
SVMS = ((10.0, 0.2), (3.0, 1.0), (10.0, 4.0))


def libraries(catboost: type, lightgbm: type, seed: int, *, simple: bool = False) -> dict[str, Learner]:
    """Return CatBoost and LightGBM; with `simple`, without statistics of combined categories."""

    def make_catboost(text: list[str]) -> Any:
        # Statistics of combined categories take minutes a fit where there are many of them or several classes.
        few = {"one_hot_max_size": 10, "max_ctr_complexity": 1} if simple or len(text) > 20 else {}
        quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        return catboost(iterations=1000, cat_features=text, random_seed=seed, **quiet, **few)

    def make_lightgbm(text: list[str]) -> Any:
        return lightgbm(n_estimators=300, learning_rate=0.05, n_jobs=1, random_state=seed, verbose=-1)

    return {"catboost": Boosting(make_catboost, missing=""), "lightgbm": Boosting(make_lightgbm, missing=None)}


def learners(n: int, n_classes: int, seed: int) -> dict[str, Learner]:
    """Return what a practitioner tries on `n` rows."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier

    trees = {"n_estimators": 300, "n_jobs": 1, "random_state": seed}
    chosen = libraries(CatBoostClassifier, LGBMClassifier, seed, simple=n_classes > 2) | {
        "extra trees": Encoded(lambda: ExtraTreesClassifier(**trees), seed),
        "random forest": Encoded(lambda: RandomForestClassifier(**trees), seed),
        "logistic regression": Encoded(lambda: LogisticRegression(max_iter=1000), seed),
    }
    if n <= MOST_SVM:
        for C, factor in SVMS:
            chosen[f"svm C={C:g} gamma={factor:g}"] = Encoded(partial(ScaledSVC, C, factor), seed)
    return chosen


# ---------------------------------------------------------------------------------------------------
# The choice, and what it achieves
# ---------------------------------------------------------------------------------------------------


def scores(shares: NDArray[np.float64], classes: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """Log-loss, with shares of at least 1e-6, and Brier score, summed over classes."""
    truth = y[:, np.newaxis] == classes
    true_shares = np.where(truth, shares, 0.0).sum(axis=1)
    unknown = ~truth.any(axis=1)  # labels that no training row has
    brier = np.sum((shares - truth) ** 2, axis=1) + unknown
    return {"log_loss": float(-np.log(np.clip(true_shares, 1e-6, 1)).mean()), "brier": float(brier.mean())}


def probability_scores(
    model: Learner, table: pd.DataFrame, y: NDArray[np.str_], train: Rows, test: Rows
) -> dict[str, float]:
    """Scores on the test rows of a model fitted on the training rows; an SVM is calibrated for it (Platt)."""
    if isinstance(model, Encoded) and isinstance(model.model[-1], SVC):
        if np.unique(y[train], return_counts=True)[1].min() < FOLDS:
            return {}
        svm = model.make
        calibrated = Encoded(lambda: CalibratedClassifierCV(svm(), cv=FOLDS, ensemble=False), model.seed)
        model = calibrated.fit(table.iloc[train], y[train])
    return scores(model.predict_proba(table.iloc[test]), model.classes_, y[test])


def practise(
    problem: Problem,
    seed: int,
    learners: Callable[[], dict[str, Learner]],
    make_folds: Callable[..., Any],
    loss: Callable[[Any, Any], float],
) -> tuple[pd.DataFrame, Learner, Learner, dict[str, Any]]:
    """Choose by cross-validation on half of the training rows, and train the choice on that half, and on all.

    Returns the table, both models, and the choice with the seconds that it took. `loss` is summed over rows.
    """
    train, _ = problem.split(seed)
    table = problem.X if isinstance(problem.X, pd.DataFrame) else pd.DataFrame(problem.X).add_prefix("f")
    half = train[: train.size // 2]
    X, y = table.iloc[half], problem.y[half]
    search, found = Clock(), {}
    folds = list(make_folds(FOLDS, shuffle=True, random_state=seed).split(X, y))
    for name, learner in learners().items():
        clock, total = Clock(), 0.0
        for inner, test in folds:
            total += float(loss(learner.fit(X.iloc[inner], y[inner]).predict(X.iloc[test]), y[test]))
        found[name] = [total / y.size, clock.read()[0]]
    choice = min(found, key=lambda name: found[name][0])
    on_half = learners()[choice].fit(X, y)
    search_cpu, search_wall = search.read()
    clock = Clock()
    on_all = learners()[choice].fit(table.iloc[train], problem.y[train])
    seconds = {"search_cpu": search_cpu, "search_wall": search_wall, "all_cpu": clock.read()[0]}
    return table, on_half, on_all, {"choice": choice, **seconds, "cross_validation": found}


def rival(problem: Problem, seed: int) -> dict[str, Any]:
    """Return all figures of the rival on one split."""
    (train, test), y = problem.split(seed), problem.y
    rest, n_classes = train[train.size // 2 :], np.unique(y[train]).size
    table, on_half, on_all, figures = practise(
        problem,
        seed,
        lambda: learners(train.size // 2, n_classes, seed),
        StratifiedKFold,
        lambda predicted, truth: np.sum(predicted != truth),
    )
    errors = int(np.sum(on_half.predict(table.iloc[rest]) != y[rest]))
    losses = [float(np.mean(model.predict(table.iloc[test]) != y[test])) for model in (on_half, on_all)]
    return figures | {
        "bound": float(clopper_pearson(errors, rest.size, DELTA)),
        "errors": errors,
        "n_rest": rest.size,
        "loss_half": losses[0],
        "loss_all": losses[1],
        **probability_scores(on_all, table, y, train, test),
    }


if __name__ == "__main__":
    record_rival(make_parser(__doc__, folder=True), groups(), load, rival)
