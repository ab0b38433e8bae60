"""Certificates beside a rival's: bound, test loss, probabilities and seconds on several groups of datasets.

    python benchmarks/rivals.py FOLDER RIVAL.jsonl
    python benchmarks/certificates.py FOLDER RIVAL.jsonl MODELS.jsonl [--label NAME] [--settings default ...]
        [--groups paper others keel text large] [--splits 3] [--only NAME ...] [--report] [--each] [--record]

FOLDER holds the paper's datasets, one NAME.csv.gz each. The rival is the best of six kinds of models by
cross-validation on half of the rows, with the Clopper-Pearson bound on the other half (`rivals.py`); all methods get
the same rows. Results are lines of MODELS.jsonl, one for each label, settings, dataset and split, and what is there is
not computed again: a label names a version of the library. ``--report`` computes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import add_record_option, show
from numpy.typing import NDArray
from problems import Problem, groups, load
from rivals import DELTA, MODEL_KEY, Clock, jobs, read_comparison, read_results, scores, table_by_dataset

from pacbayes import PACBayesClassifier
from pacbayes.pools import DEFAULT_FAMILIES, RBFSVMPool, make_union

# The settings of `PACBayesClassifier` to compare, by what the tables call them.
SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "default": dict,
    "RBFSVMPool()": lambda: {"estimator": RBFSVMPool()},
    "with CatBoost": lambda: {"estimator": make_union((*DEFAULT_FAMILIES, "catboost"))},
}

Key = tuple[Any, ...]
Result = dict[str, Any]
Results = dict[Key, Result]


def fit(problem: Problem, seed: int, settings: dict[str, Any]) -> Result:
    """Fit one model on one split."""
    (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(seed))
    clock = Clock()
    model = PACBayesClassifier(delta=DELTA, random_state=seed, n_jobs=1, **settings).fit(X, y)
    cpu, wall = clock.read()
    return {
        "bound": model.certificate_.bound,
        "loss": float(np.mean(model.predict(X_test) != y_test)),
        **scores(model.predict_proba(X_test), model.classes_, y_test),
        "cpu": cpu,
        "wall": wall,
    }


def run(todo: Iterable[tuple[str, str, int]], arguments: argparse.Namespace) -> None:
    """Fit what is not there yet."""
    for group, name, split in todo:
        problem = load(name, arguments.folder)
        for settings in arguments.settings:
            key = (arguments.label, settings, group, name, split, problem.n)
            if key in read_results(arguments.models, MODEL_KEY):
                continue
            result = dict(zip(MODEL_KEY, key, strict=True)) | fit(problem, split, SETTINGS[settings]())
            with open(arguments.models, "a") as file:
                file.write(json.dumps(result) + "\n")
            print(*key[1:], f"{result['bound']:.4f} {result['loss']:.4f} {result['cpu']:.1f} s", flush=True)


# ---------------------------------------------------------------------------------------------------
# Figures: for each method and dataset, values over splits
# ---------------------------------------------------------------------------------------------------

# What a method's figures are called in the results: the rival on half of the rows, its choice on all, and a model.
HALF = {"bound": "bound", "loss": "loss_half", "seconds": "search_cpu"}
ALL = {"loss": "loss_all", "log_loss": "log_loss", "brier": "brier", "seconds": "all_cpu"}
MODEL = {"bound": "bound", "loss": "loss", "log_loss": "log_loss", "brier": "brier", "seconds": "cpu"}

Values = list[NDArray[np.float64]]


def gather(keys: list[list[Key]], rival: Results, models: dict[str, Results]) -> dict[str, dict[str, Values]]:
    """Figures of all methods, the rival's two first, on these keys of each dataset."""

    def value(key: Key, results: Results, column: str) -> float:
        # Probabilities are compared where the rival's choice has them.
        return np.nan if column in ("log_loss", "brier") and column not in rival[key] else float(results[key][column])

    methods = {"rival, on half": (rival, HALF), "rival's choice, on all rows": (rival, ALL)}
    methods |= {name: (results, MODEL) for name, results in models.items()}
    return {
        name: {
            figure: [np.array([value(key, results, column) for key in some]) for some in keys]
            for figure, column in columns.items()
        }
        for name, (results, columns) in methods.items()
    }


def mean(values: Values | None, digits: int = 4) -> str:
    """Mean over datasets with its standard error over splits."""
    values = [kept for some in values or [] if (kept := some[np.isfinite(some)]).size]
    if not values:
        return ""
    written = f"{np.mean([some.mean() for some in values]):.{digits}f}"
    if min(some.size for some in values) == 1:
        return written
    variance = sum(some.var(ddof=1) / some.size for some in values) / len(values) ** 2
    return f"{written} ({np.sqrt(variance):.{digits}f})"


def against(mine: Values | None, other: Values) -> list[str]:
    """Ratio of means over datasets with its standard error over datasets (jackknife), and wins and losses."""
    if mine is None or mine is other:
        return ["", ""]
    a, b = (np.array([some.mean() for some in values]) for values in (mine, other))
    ratio = f"{a.sum() / b.sum():.3f}"
    if a.size > 1:
        without = (a.sum() - a) / (b.sum() - b)
        ratio += f" ({np.sqrt((a.size - 1) * without.var()):.3f})"
    return [ratio, f"{np.sum(a < b)} : {np.sum(a > b)}"]


# ---------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------

COLUMNS = (
    *("", "bound", "/ rival's", "wins : losses"),
    *("test loss", "/ rival's", "wins : losses", "/ on all rows", "wins : losses"),
    *("log-loss", "Brier score", "processor seconds"),
)
# Figures of the table by dataset, and their digits.
BY_DATASET = {"bound": 4, "loss": 4, "seconds": 1}
NOTE = """\
Means over datasets, with standard errors over splits; ratios of these means, with standard errors over datasets
(jackknife); wins and losses by dataset. Log-loss (shares of at least 1e-6) and Brier score (summed over classes): SVMs
of the rival are calibrated for them. Seconds: the rival's search on half; one fit of the others."""


def rows_of(methods: dict[str, dict[str, Values]]) -> Iterator[list[str]]:
    """Rows of a group's table."""
    half, whole = list(methods.values())[:2]
    for name, method in methods.items():
        bound, loss = method.get("bound"), method["loss"]
        cells = [mean(bound), *against(bound, half["bound"])]
        cells += [mean(loss), *against(loss, half["loss"]), *against(loss, whole["loss"])]
        yield [name, *cells, mean(method.get("log_loss")), mean(method.get("brier")), mean(method["seconds"], 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rival", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--label", default="", help="version of the library that the results are kept under")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--groups", nargs="+", choices=list(groups()), default=list(groups()))
    parser.add_argument("--splits", type=int, default=3, help="of each dataset; the paper's have two more")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    parser.add_argument("--report", action="store_true", help="compute nothing: tables of what is there")
    parser.add_argument("--each", action="store_true", help="tables by dataset too")
    add_record_option(parser)
    arguments = parser.parse_args()
    todo = [job for job in jobs(arguments.groups, arguments.splits) if job[1] in (arguments.only or [job[1]])]
    if not arguments.report:
        run(todo, arguments)

    rival, models, datasets = read_comparison(arguments, todo)
    sections = {group: [keys for name, keys in datasets.items() if name[0] == group] for group in arguments.groups}
    if len(sections.keys() - {"large"}) > 1:
        sections["all but large"] = [keys for name, keys in datasets.items() if name[0] != "large"]
    for section, keys in sections.items():
        if keys:
            splits = min(map(len, keys))
            title = f"Certificates, {section}: {len(keys)} datasets, {splits} splits"
            rows = rows_of(gather(keys, rival, models))
            show(f"certificates, {section}", title, COLUMNS, rows, recording=arguments.record, note=NOTE)
            if arguments.each and section in groups():
                columns, *by_dataset = table_by_dataset(
                    keys, rival, gather(keys, rival, models), BY_DATASET, lambda values, n: mean([values], n)
                )
                title = f"Certificates, {section}, by dataset"
                show(title.lower(), title, columns, by_dataset, recording=arguments.record)


if __name__ == "__main__":
    main()
