"""The rival: what a careful practitioner does without this library, recorded for `certificates.py`.

    python benchmarks/rivals.py FOLDER RIVAL.jsonl [--groups paper others keel text large] [--splits 3]
        [--only NAME ...]

It tries CatBoost, LightGBM, extra trees, a random forest, logistic regression and three SVMs by 3-fold cross-validation
on half of the training rows, trains the most accurate one on that half and takes the Clopper-Pearson bound on the other
half. The same choice is also trained on all training rows, where nothing is proved.

Each result is a line of RIVAL.jsonl, and what is there is not computed again. Every learner gets one thread, so that
processor seconds can be compared. FOLDER holds the paper's datasets; `problems.py` has the others.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
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


class Boosting:
    """A boosting library with categories and missing values of its own: `make` gets the names of the text columns."""

    def __init__(self, make: Callable[[list[str]], Any], missing: str | None):
        self.make = make
        self.missing = missing  # what stands for a missing text, or None if the library wants pandas' categories

    def fit(self, X: pd.DataFrame, y: Labels) -> Boosting:
        self.levels = {name: pd.CategoricalDtype(np.unique(X[name].dropna().astype(str))) for name in _text(X)}
        self.model = self.make(list(self.levels)).fit(self._prepared(X), y)
        return self

    @property
    def classes_(self) -> Labels:
        return np.asarray(self.model.classes_)

    def _prepared(self, X: pd.DataFrame) -> pd.DataFrame:
        if self.missing is None:
            return X.astype(self.levels)
        return X.assign(**{name: X[name].fillna(self.missing).astype(str).astype(object) for name in self.levels})

    def predict(self, X: pd.DataFrame) -> Labels:
        return np.ravel(self.model.predict(self._prepared(X)))

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(self._prepared(X)))


class Encoded:
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

    @property
    def classes_(self) -> Labels:
        return np.asarray(self.model.classes_)

    def predict(self, X: pd.DataFrame) -> Labels:
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(X))


class ScaledSVC(SVC):
    """An SVM with a width in units of scikit-learn's "scale"."""

    def __init__(self, C: float, factor: float):
        super().__init__(C=C, cache_size=1000)
        self.factor = factor

    def fit(self, X: NDArray[np.float64], y: Labels) -> ScaledSVC:
        self.gamma = self.factor / (X.shape[1] * X.var())
        return super().fit(X, y)


def learners(n: int, n_classes: int, seed: int) -> dict[str, Boosting | Encoded]:
    """Return what a practitioner tries on `n` rows."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier

    def catboost(text: list[str]) -> CatBoostClassifier:
        # Statistics of combined categories take minutes a fit where there are many of them or several classes.
        simple = {"one_hot_max_size": 10, "max_ctr_complexity": 1} if n_classes > 2 or len(text) > 20 else {}
        return CatBoostClassifier(
            iterations=1000,
            cat_features=text,
            thread_count=1,
            random_seed=seed,
            verbose=0,
            allow_writing_files=False,
            **simple,
        )

    def lightgbm(text: list[str]) -> LGBMClassifier:
        return LGBMClassifier(n_estimators=300, learning_rate=0.05, n_jobs=1, random_state=seed, verbose=-1)

    trees = {"n_estimators": 300, "n_jobs": 1, "random_state": seed}
    chosen: dict[str, Boosting | Encoded] = {
        "catboost": Boosting(catboost, missing=""),
        "lightgbm": Boosting(lightgbm, missing=None),
        "extra trees": Encoded(lambda: ExtraTreesClassifier(**trees), seed),
        "random forest": Encoded(lambda: RandomForestClassifier(**trees), seed),
        "logistic regression": Encoded(lambda: LogisticRegression(max_iter=1000), seed),
    }
    if n <= MOST_SVM:
        for C, factor in ((10.0, 0.2), (3.0, 1.0), (10.0, 4.0)):
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
    model: Boosting | Encoded, table: pd.DataFrame, y: NDArray[np.str_], train: Rows, test: Rows
) -> dict[str, float]:
    """Scores on the test rows of a model fitted on the training rows; an SVM is calibrated for it (Platt)."""
    if isinstance(model, Encoded) and isinstance(model.model[-1], SVC):
        if np.unique(y[train], return_counts=True)[1].min() < FOLDS:
            return {}
        svm = model.make
        calibrated = Encoded(lambda: CalibratedClassifierCV(svm(), cv=FOLDS, ensemble=False), model.seed)
        model = calibrated.fit(table.iloc[train], y[train])
    return scores(model.predict_proba(table.iloc[test]), model.classes_, y[test])


class Clock:
    """Processor and wall seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.process_time() - self.start[0], time.perf_counter() - self.start[1]


def search(X: pd.DataFrame, y: NDArray[np.str_], n_classes: int, seed: int) -> tuple[str, dict[str, list[float]]]:
    """Cross-validate all learners: the most accurate one, and accuracy and processor seconds of each."""
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y))
    found = {}
    for name, learner in learners(y.size, n_classes, seed).items():
        clock, right = Clock(), 0
        for train, test in folds:
            right += int(np.sum(learner.fit(X.iloc[train], y[train]).predict(X.iloc[test]) == y[test]))
        found[name] = [right / y.size, clock.read()[0]]
    return max(found, key=lambda name: found[name][0]), found


def rival(problem: Problem, seed: int) -> dict[str, Any]:
    """Return all figures of the rival on one split."""
    train, test = problem.split(seed)
    table = problem.X if isinstance(problem.X, pd.DataFrame) else pd.DataFrame(problem.X).add_prefix("f")
    half, rest = train[: train.size // 2], train[train.size // 2 :]
    n_classes = np.unique(problem.y[train]).size

    clock = Clock()
    choice, found = search(table.iloc[half], problem.y[half], n_classes, seed)
    model = learners(half.size, n_classes, seed)[choice].fit(table.iloc[half], problem.y[half])
    search_cpu, search_wall = clock.read()
    errors = int(np.sum(model.predict(table.iloc[rest]) != problem.y[rest]))
    loss_half = float(np.mean(model.predict(table.iloc[test]) != problem.y[test]))

    clock = Clock()
    model = learners(half.size, n_classes, seed)[choice].fit(table.iloc[train], problem.y[train])
    all_cpu, _ = clock.read()
    loss_all = float(np.mean(model.predict(table.iloc[test]) != problem.y[test]))
    return {
        "choice": choice,
        "bound": float(clopper_pearson(errors, rest.size, DELTA)),
        "errors": errors,
        "n_rest": rest.size,
        "loss_half": loss_half,
        "loss_all": loss_all,
        **probability_scores(model, table, problem.y, train, test),
        "search_cpu": search_cpu,
        "search_wall": search_wall,
        "all_cpu": all_cpu,
        "catboost_all_cpu": all_cpu if choice == "catboost" else None,
        "cross_validation": found,
    }


# ---------------------------------------------------------------------------------------------------
# Running
# ---------------------------------------------------------------------------------------------------

KEY = ("group", "problem", "split", "n")
MODEL_KEY = ("label", "settings", *KEY)


def read_results(path: Path, key: tuple[str, ...] = KEY) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Results in a file of JSON lines, by their key."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = map(json.loads, lines)
    return {tuple(result[name] for name in key): result for result in results}


def jobs(chosen: list[str], splits: int = 3) -> Iterator[tuple[str, str, int]]:
    """Group, problem and split: split by split, two more of the paper's; large tables last."""
    small = [(group, name) for group in chosen if group != "large" for name in groups()[group]]
    for split in range(splits):
        yield from ((*job, split) for job in small)
    for split in range(splits, splits + 2):
        yield from ((*job, split) for job in small if job[0] == "paper")
    for split in range(splits):
        yield from (("large", name, split) for name in groups()["large"] if "large" in chosen)


def read_comparison(
    arguments: argparse.Namespace, todo: Collection[tuple[str, str, int]]
) -> tuple[dict[Any, Any], dict[str, dict[Any, Any]], dict[tuple[str, str], list[Any]]]:
    """Return results of the rival, those of each setting of ours, and the splits of each dataset that all have."""
    rival, found = read_results(arguments.rival), read_results(arguments.models, MODEL_KEY)
    models = {
        settings: {key[2:]: result for key, result in found.items() if key[:2] == (arguments.label, settings)}
        for settings in arguments.settings
    }
    datasets: dict[tuple[str, str], list[Any]] = {}
    for key in sorted(set(rival).intersection(*models.values())):
        if key[:3] in todo:
            datasets.setdefault(key[:2], []).append(key)
    return rival, models, datasets


def table_by_dataset(
    keys: Sequence[Sequence[Any]],
    rival: dict[Any, Any],
    methods: dict[str, dict[str, list[NDArray[Any]]]],
    digits: dict[str, int],
    write: Callable[[NDArray[Any], int], str],
) -> list[list[str]]:
    """Return columns and rows of a table by dataset: some figures of its splits, written with so many digits."""
    table = [["", "n", "splits", "rival's choices"]]
    for some in keys:
        choices = sorted({str(rival[key]["choice"]).split(" C=")[0] for key in some})
        table.append([some[0][1], str(some[0][3]), str(len(some)), ", ".join(choices)])
    for figure, count in digits.items():
        for name, method in methods.items():
            if figure in method:
                cells = [f"{figure}: {name}", *(write(values, count) for values in method[figure])]
                table = [[*row, cell] for row, cell in zip(table, cells, strict=True)]
    return table


def keep_results(
    todo: Iterable[tuple[str, str, int]],
    arguments: argparse.Namespace,
    load: Callable[[str], Problem],
    rival: Callable[[Problem, int], dict[str, Any]],
    shown: Sequence[str],
) -> None:
    """Let a rival do what is not in its file of results yet, and show some figures of each."""
    for group, name, split in todo:
        if arguments.only is not None and name not in arguments.only:
            continue
        problem = load(name)
        key = (group, name, split, problem.n)
        if key in read_results(arguments.results):
            continue
        result = dict(zip(KEY, key, strict=True)) | rival(problem, split)
        with open(arguments.results, "a") as file:
            file.write(json.dumps(result) + "\n")
        figures = " ".join(f"{result[figure]:.4g}" for figure in shown)
        print(*key, result["choice"], f"{figures} {result['search_cpu']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--groups", nargs="+", choices=list(groups()), default=list(groups()))
    parser.add_argument("--splits", type=int, default=3, help="of each dataset; the paper's have two more")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    todo = jobs(arguments.groups, arguments.splits)
    keep_results(todo, arguments, lambda name: load(name, arguments.folder), rival, ("bound", "loss_all"))


if __name__ == "__main__":
    main()
