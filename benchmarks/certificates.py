"""Certificates beside a rival's: bound, test loss, probabilities and seconds on several groups of datasets.

FOLDER holds the paper's datasets, one NAME.csv.gz each. The rival is the best of six kinds of models by
cross-validation on half of the rows, with the Clopper-Pearson bound on the other half (`rivals.py`); all methods get
the same rows. Results are lines of MODELS.jsonl, one for each label, settings, dataset and split, and what is there is
not computed again: a label names a version of the library. ``--report`` computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _comparison import Comparison, Result, Values
from _results import Clock
from problems import Problem, groups, load
from rivals import DELTA, scores

from pacbayes import PACBayesClassifier
from pacbayes.pools import DEFAULT_FAMILIES, RBFSVMPool, make_union

# The settings of `PACBayesClassifier` to compare, by what the tables call them.
SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "default": dict,
    "RBFSVMPool()": lambda: {"estimator": RBFSVMPool()},
    "with CatBoost": lambda: {"estimator": make_union((*DEFAULT_FAMILIES, "catboost"))},
}


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


def cells(method: dict[str, Values], half: dict[str, Values], whole: dict[str, Values]) -> list[str]:
    """Cells of a method beside the rival on half of the rows, and its choice on all."""
    bound, loss = method.get("bound"), method["loss"]
    return [
        *(mean(bound), *against(bound, half["bound"])),
        *(mean(loss), *against(loss, half["loss"]), *against(loss, whole["loss"])),
        *(mean(method.get("log_loss")), mean(method.get("brier")), mean(method["seconds"], 1)),
    ]


NOTE = """\
Means over datasets, with standard errors over splits; ratios of these means, with standard errors over datasets
(jackknife); wins and losses by dataset. Log-loss (shares of at least 1e-6) and Brier score (summed over classes): SVMs
of the rival are calibrated for them. Seconds: the rival's search on half; one fit of the others."""

COMPARISON = Comparison(
    "Certificates",
    groups(),
    load,
    SETTINGS,
    fit,
    of_half={"bound": "bound", "loss": "loss_half", "seconds": "search_cpu"},
    of_all={"loss": "loss_all", "log_loss": "log_loss", "brier": "brier", "seconds": "all_cpu"},
    of_model={"bound": "bound", "loss": "loss", "log_loss": "log_loss", "brier": "brier", "seconds": "cpu"},
    columns=(
        *("", "bound", "/ rival's", "wins : losses"),
        *("test loss", "/ rival's", "wins : losses", "/ on all rows", "wins : losses"),
        *("log-loss", "Brier score", "processor seconds"),
    ),
    cells=cells,
    by_dataset={"bound": 4, "loss": 4, "seconds": 1},
    write=lambda values, digits: mean([values], digits),
    note=NOTE,
)

if __name__ == "__main__":
    COMPARISON.run(__doc__, folder=True)
