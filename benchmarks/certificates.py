"""Certificates beside a test set: bound, test loss and seconds of every method on several groups of datasets.

    python benchmarks/certificates.py FOLDER [--splits 5] [--groups paper others keel] [--rows N] [--only NAME ...]
        [--record]

FOLDER holds the paper's datasets, one NAME.csv.gz each. The rival is what a careful user does without this library:
train a cross-validated SVM on half of the sample and take the Clopper-Pearson bound on the other half. All methods get
the same rows. `problems.py` has the datasets and the sizes.

Each method has two rows of figures: its mean over a group, with the standard error over splits, and its difference to
the rival on the same splits.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _results import add_record_option, show
from numpy.typing import NDArray
from problems import Problem, groups, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from pacbayes import PACBayesClassifier
from pacbayes.bounds import clopper_pearson
from pacbayes.paper.experiments import cross_validated_svm

DELTA = 0.05
RIVAL = "cross-validated SVM on one half"
MOST_UNLABELLED = 20_000


@dataclass(frozen=True)
class Outcome:
    """What a method achieves on one split.

    Attributes
    ----------
    bound : float
        Bound on the loss of `predict`, NaN if nothing is proved.
    loss : float
        Test loss of `predict`.
    gibbs_bound, gibbs_loss : float
        The same of the randomised classifier, NaN if there is none.
    seconds : float
        Training time.
    unlabelled_bound : float
        Bound on the vote with the rest of the dataset as unlabelled points, NaN if it was not computed.
    """

    bound: float
    loss: float
    gibbs_bound: float
    gibbs_loss: float
    seconds: float
    unlabelled_bound: float = np.nan


Rows = NDArray[np.intp]
Method = Callable[[Problem, Rows, Rows, int], Outcome]


# ---------------------------------------------------------------------------------------------------
# Methods: problem, training rows, test rows, seed -> outcome
# ---------------------------------------------------------------------------------------------------


def _features(problem: Problem, rows: Rows) -> NDArray[np.float64]:
    """All rows, scaled by what the given rows say if the problem's features need scaling."""
    return StandardScaler().fit(problem.X[rows]).transform(problem.X) if problem.scale else problem.X


def rival_half(problem: Problem, train: Rows, test: Rows, seed: int) -> Outcome:
    """Train a cross-validated SVM on one half, and take Clopper-Pearson on the other."""
    half, rest = train[: train.size // 2], train[train.size // 2 :]
    start = time.perf_counter()
    X = _features(problem, half)
    svm = cross_validated_svm(X[half], problem.y[half], n_jobs=2)
    seconds = time.perf_counter() - start
    errors = int(np.sum(svm.predict(X[rest]) != problem.y[rest]))
    loss = float(np.mean(svm.predict(X[test]) != problem.y[test]))
    return Outcome(float(clopper_pearson(errors, rest.size, DELTA)), loss, np.nan, np.nan, seconds)


def rival_all(problem: Problem, train: Rows, test: Rows, seed: int) -> Outcome:
    """Train a cross-validated SVM on all rows; nothing is proved."""
    start = time.perf_counter()
    X = _features(problem, train)
    svm = cross_validated_svm(X[train], problem.y[train], n_jobs=2)
    seconds = time.perf_counter() - start
    return Outcome(np.nan, float(np.mean(svm.predict(X[test]) != problem.y[test])), np.nan, np.nan, seconds)


def pac_bayes(**settings: Any) -> Method:
    """Return the method that fits `PACBayesClassifier` with these settings to the features as they are."""

    def method(problem: Problem, train: Rows, test: Rows, seed: int) -> Outcome:
        start = time.perf_counter()
        model = PACBayesClassifier(delta=DELTA, random_state=seed, n_jobs=2, **settings)
        model.fit(problem.X[train], problem.y[train])
        seconds = time.perf_counter() - start
        loss = float(np.mean(model.predict(problem.X[test]) != problem.y[test]))
        # Expected loss of the randomised classifier: one minus the share of the true label.
        few = test[:1000]
        shares = model.predict_proba(problem.X[few])
        true_shares = shares[np.arange(few.size), np.searchsorted(model.classes_, problem.y[few])]
        certificate = model.certificate_
        unlabelled = np.nan
        if settings == {"holdout": None}:
            rest = np.setdiff1d(np.arange(problem.y.size), train)[:MOST_UNLABELLED]
            unlabelled = model.certify(problem.X[rest]).bound
        gibbs_loss = float(1 - true_shares.mean())
        return Outcome(certificate.bound, loss, certificate.gibbs_bound, gibbs_loss, seconds, unlabelled)

    return method


# The settings of `PACBayesClassifier` to compare, by what the tables call them.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "holdout=0.5": {"holdout": 0.5},
    "voting='best'": {"voting": "best"},
    "holdout=None": {"holdout": None},
    "holdout=None, voting='gibbs'": {"holdout": None, "voting": "gibbs"},
}


def methods() -> dict[str, Method]:
    """All methods, the rival first."""
    rivals: dict[str, Method] = {RIVAL: rival_half, "cross-validated SVM on all rows": rival_all}
    return rivals | {name: pac_bayes(**settings) for name, settings in SETTINGS.items()}


# ---------------------------------------------------------------------------------------------------
# Running and reporting
# ---------------------------------------------------------------------------------------------------


def run(problem: Problem, splits: int, chosen: dict[str, Method]) -> dict[str, NDArray[np.float64]]:
    """Outcomes of every method, a row for each split."""
    rows: dict[str, list[list[float]]] = {name: [] for name in chosen}
    for seed in range(splits):
        train, test = problem.split(seed)
        for name, method in chosen.items():
            rows[name].append(list(vars(method(problem, train, test, seed)).values()))
    return {name: np.array(outcomes) for name, outcomes in rows.items()}


def group_mean(outcomes: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over datasets of the means over splits, and its standard error over splits."""
    mean = np.mean([values.mean(axis=0) for values in outcomes], axis=0)
    variances = [values.var(axis=0, ddof=1) / len(values) if len(values) > 1 else np.nan for values in outcomes]
    return mean, np.sqrt(np.sum(variances, axis=0)) / len(outcomes)


COLUMNS = (
    "",
    "bound",
    "test loss",
    "randomised: bound",
    "test loss",
    "seconds",
    "bound by unlabelled points",
    "bound - rival's",
    "test loss - rival's",
)


def rows_of(results: dict[str, dict[str, NDArray[np.float64]]]) -> list[list[str]]:
    """Rows of a group's table: means with standard errors, and paired differences to the rival."""
    rows = []
    for name in next(iter(results.values())):
        mean, error = group_mean([by_method[name] for by_method in results.values()])
        difference, its_error = group_mean([by_method[name] - by_method[RIVAL] for by_method in results.values()])
        figures = [_figure(mean[i], error[i]) for i in range(4)] + [f"{mean[4]:.2f}", _figure(mean[5], error[5])]
        figures += [_figure(difference[i], its_error[i], sign="+") for i in range(2)]
        rows.append([name, *figures])
    return rows


def _figure(value: float, error: float, sign: str = "") -> str:
    return "" if np.isnan(value) else f"{value:{sign}.4f} ({error:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--groups", nargs="+", choices=("paper", "others", "keel"), default=list(groups()))
    parser.add_argument("--rows", type=int, metavar="N", help="train on N rows of each dataset that has twice as many")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    add_record_option(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = methods()
    for group in arguments.groups:
        names = [name for name in groups().get(group, []) if arguments.only is None or name in arguments.only]
        results = {}
        for name in names:
            problem = load(name, arguments.folder)
            if arguments.rows is not None:
                if problem.y.size < 2 * arguments.rows:
                    continue
                problem = replace(problem, n=arguments.rows)
            results[name] = run(problem, arguments.splits, chosen)
            print(f"\n{name}: bound / test loss", file=sys.stderr)
            for method, values in results[name].items():
                bound, loss = values.mean(axis=0)[:2]
                print(f"  {method:34} {bound:.4f} / {loss:.4f}", file=sys.stderr, flush=True)
        if results:
            section = f"certificates, {group}" + (f", {arguments.rows} rows" if arguments.rows else "")
            title = f"Certificates, {group}: {len(results)} datasets, {arguments.splits} splits"
            title += f", {arguments.rows} rows" if arguments.rows else ""
            show(section, title, COLUMNS, rows_of(results), recording=arguments.record)


if __name__ == "__main__":
    main()
