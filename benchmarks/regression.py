"""Regression beside a rival's: interval widths, absolute errors and seconds on several groups of datasets.

The rival is the best of five kinds of models by cross-validation on half of the rows, with an exact 90% interval from
the other half (`regression_rivals.py`); all methods get the same rows, tables with text as data frames. Results are
lines of MODELS.jsonl, one for each label, settings, dataset and split, and what is there is not computed again: a label
names a version of the library. ``--report`` computes nothing.
"""

from __future__ import annotations

import numpy as np
from _comparison import Comparison, Result, Values
from _results import Clock
from problems import Problem
from regression_problems import groups, load
from regression_rivals import COVERAGE, DELTA

from pacbayes import PACBayesRegressor


def fit(problem: Problem, seed: int, settings: dict[str, object]) -> Result:
    """Fit one model on one split."""
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


def cells(method: dict[str, Values], half: dict[str, Values], whole: dict[str, Values]) -> list[str]:
    """Cells of a method beside the rival on half of the rows, and its choice on all."""
    return [
        *(*against(method.get("width"), half["width"]), mean(method.get("coverage"), 3)),
        *(*against(method["mae"], half["mae"]), *against(method["mae"], whole["mae"]), mean(method["seconds"], 1)),
    ]


NOTE = """\
Intervals for 90%, delta 0.05: mean width and coverage on test rows. Ratios: geometric means over splits and datasets,
with standard errors over datasets; wins and losses by dataset. Seconds: the rival's search on half; one fit of the
others."""

COMPARISON = Comparison(
    "Regression",
    groups(),
    load,
    {"default": dict},
    fit,
    of_half={"width": "width", "coverage": "coverage", "mae": "mae", "seconds": "search_cpu"},
    of_all={"mae": "mae_all", "seconds": "all_cpu"},
    of_model={"width": "width", "coverage": "coverage", "mae": "mae", "seconds": "cpu"},
    columns=(
        *("", "width / rival's", "wins : losses", "coverage"),
        *("absolute error / rival's", "wins : losses", "/ on all rows", "wins : losses", "processor seconds"),
    ),
    cells=cells,
    by_dataset={"width": 4, "coverage": 3, "mae": 4, "seconds": 3},
    write=lambda values, digits: f"{values.mean():.{digits}g}",
    note=NOTE,
)

if __name__ == "__main__":
    COMPARISON.run(__doc__, folder=False)
