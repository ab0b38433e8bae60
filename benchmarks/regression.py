"""Regression beside a rival's: interval widths, absolute errors and seconds on several groups of datasets.

    python benchmarks/regression_rivals.py RIVAL.jsonl
    python benchmarks/regression.py RIVAL.jsonl MODELS.jsonl [--label NAME] [--settings default ...]
        [--groups generated numbers text] [--splits 3] [--only NAME ...] [--report] [--each] [--record]

The rival is the best of five kinds of models by cross-validation on half of the rows, with an exact 90% interval from
the other half (`regression_rivals.py`); all methods get the same rows, tables with text as data frames. Results are
lines of MODELS.jsonl, one for each label, settings, dataset and split, and what is there is not computed again: a label
names a version of the library. ``--report`` computes nothing.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import add_record_option, show
from numpy.typing import NDArray
from problems import Problem
from regression_problems import groups, load
from regression_rivals import COVERAGE, DELTA, jobs
from rivals import MODEL_KEY, Clock, read_comparison, read_results, table_by_dataset

# The settings of `PACBayesRegressor` to compare, by what the tables call them.
SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {"default": dict}

Key = tuple[Any, ...]
Result = dict[str, Any]
Results = dict[Key, Result]


def fit(problem: Problem, seed: int, settings: dict[str, Any]) -> Result:
    """Fit one model on one split."""
    from pacbayes import PACBayesRegressor

    (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(seed))
    clock = Clock()
    model = PACBayesRegressor(delta=DELTA, random_state=seed, n_jobs=1, **settings).fit(X, y)
    cpu, wall = clock.read()
    errors = np.abs(y_test - model.predict(X_test))
    low, high = model.predict_interval(X_test, coverage=COVERAGE).T
    return {
        "width": float(np.mean(high - low)),
        "coverage": float(np.mean((low <= y_test) & (y_test <= high))),
        "mae": float(errors.mean()),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "cpu": cpu,
        "wall": wall,
    }


def run(todo: Iterable[tuple[str, str, int]], arguments: argparse.Namespace) -> None:
    """Fit what is not there yet."""
    for group, name, split in todo:
        problem = load(name)
        for settings in arguments.settings:
            key = (arguments.label, settings, group, name, split, problem.n)
            if key in read_results(arguments.models, MODEL_KEY):
                continue
            result = dict(zip(MODEL_KEY, key, strict=True)) | fit(problem, split, SETTINGS[settings]())
            with open(arguments.models, "a") as file:
                file.write(json.dumps(result) + "\n")
            figures = f"{result['width']:.4g} {result['coverage']:.3f} {result['mae']:.4g} {result['cpu']:.1f} s"
            print(*key[1:], figures, flush=True)


# ---------------------------------------------------------------------------------------------------
# Figures: for each method and dataset, values over splits
# ---------------------------------------------------------------------------------------------------

# What a method's figures are called in the results: the rival on half of the rows, its choice on all, and a model.
HALF = {"width": "width", "coverage": "coverage", "mae": "mae", "seconds": "search_cpu"}
ALL = {"mae": "mae_all", "seconds": "all_cpu"}
MODEL = {"width": "width", "coverage": "coverage", "mae": "mae", "seconds": "cpu"}

Values = list[NDArray[np.float64]]


def gather(keys: list[list[Key]], rival: Results, models: dict[str, Results]) -> dict[str, dict[str, Values]]:
    """Figures of all methods, the rival's two first, on these keys of each dataset."""
    methods = {"rival, on half": (rival, HALF), "rival's choice, on all rows": (rival, ALL)}
    methods |= {name: (results, MODEL) for name, results in models.items()}
    return {
        name: {
            figure: [np.array([float(results[key][column]) for key in some]) for some in keys]
            for figure, column in columns.items()
        }
        for name, (results, columns) in methods.items()
    }


def against(mine: Values | None, other: Values) -> list[str]:
    """Geometric mean of ratios over splits and datasets with its standard error over datasets, and wins and losses."""
    if mine is None or mine is other:
        return ["", ""]
    logs = np.array([np.mean(np.log(a) - np.log(b)) for a, b in zip(mine, other, strict=True)])
    ratio = np.exp(logs.mean())
    error = f" ({ratio * logs.std(ddof=1) / np.sqrt(logs.size):.3f})" if logs.size > 1 else ""
    return [f"{ratio:.3f}{error}", f"{np.sum(logs < 0)} : {np.sum(logs > 0)}"]


def mean(values: Values | None, digits: int) -> str:
    """Mean over datasets of the means over splits."""
    return f"{np.mean([some.mean() for some in values]):.{digits}f}" if values else ""


# ---------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------

COLUMNS = (
    *("", "width / rival's", "wins : losses", "coverage"),
    *("absolute error / rival's", "wins : losses", "/ on all rows", "wins : losses", "processor seconds"),
)
# Figures of the table by dataset, and their digits.
BY_DATASET = {"width": 4, "coverage": 3, "mae": 4, "seconds": 3}
NOTE = """\
Intervals for 90%, delta 0.05: mean width and coverage on test rows. Ratios: geometric means over splits and datasets,
with standard errors over datasets; wins and losses by dataset. Seconds: the rival's search on half; one fit of the
others."""


def rows_of(methods: dict[str, dict[str, Values]]) -> Iterator[list[str]]:
    """Rows of a group's table."""
    half, whole = list(methods.values())[:2]
    for name, method in methods.items():
        cells = [*against(method.get("width"), half["width"]), mean(method.get("coverage"), 3)]
        cells += [*against(method["mae"], half["mae"]), *against(method["mae"], whole["mae"])]
        yield [name, *cells, mean(method["seconds"], 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rival", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--label", default="", help="version of the library that the results are kept under")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--groups", nargs="+", choices=list(groups()), default=list(groups()))
    parser.add_argument("--splits", type=int, default=3, help="of each dataset")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    parser.add_argument("--report", action="store_true", help="compute nothing: tables of what is there")
    parser.add_argument("--each", action="store_true", help="tables by dataset too")
    add_record_option(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    todo = [job for job in jobs(arguments.groups, arguments.splits) if job[1] in (arguments.only or [job[1]])]
    if not arguments.report:
        run(todo, arguments)

    rival, models, datasets = read_comparison(arguments, todo)
    sections = {group: [keys for name, keys in datasets.items() if name[0] == group] for group in arguments.groups}
    if len(sections) > 1:
        sections["all"] = list(datasets.values())
    for section, keys in sections.items():
        if keys:
            splits = min(map(len, keys))
            title = f"Regression, {section}: {len(keys)} datasets, {splits} splits"
            rows = rows_of(gather(keys, rival, models))
            show(f"regression, {section}", title, COLUMNS, rows, recording=arguments.record, note=NOTE)
            if arguments.each and section in groups():
                columns, *by_dataset = table_by_dataset(
                    keys, rival, gather(keys, rival, models), BY_DATASET, lambda values, n: f"{values.mean():.{n}g}"
                )
                title = f"Regression, {section}, by dataset"
                show(title.lower(), title, columns, by_dataset, recording=arguments.record)


if __name__ == "__main__":
    main()
