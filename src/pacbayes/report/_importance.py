"""Which features matter: how much more the predictor errs once a feature is shuffled."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.inspection import permutation_importance

from pacbayes._compat import take_rows
from pacbayes._formatting import format_number, format_percent
from pacbayes.report._html import PageTable

# Features that are shown.
_MOST_SHOWN = 10

# Rows that are predicted for each feature, and how often it is shuffled at most.
_MOST_ROWS, _MOST_REPEATS = 1000, 5

# Rows below which nothing is worth measuring.
_LEAST_ROWS = 50

# Seconds that all features may take together, about.
_SECONDS = 10.0


class JudgedRows(NamedTuple):
    """Rows that had no part in making a predictor, with their targets."""

    X: Any
    y: NDArray[Any]
    where: str  # they come from


def choose_judged_rows(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> JudgedRows | None:
    """Return some held-out rows of the sample X, y; test rows if none were held out; None without any, or if sparse."""
    held_out = model.fitted_votes_.best.split.held_out
    if X is not None and held_out is not None:
        rows, labels, which, where = X, np.asarray(y), held_out, "held-out rows"
    elif X_test is not None:
        rows, labels, where = X_test, np.asarray(y_test), "test rows"
        which = np.arange(labels.size)
    else:
        return None
    if issparse(rows) or which.size < _LEAST_ROWS:
        return None
    # Rows come in no order that matters to the predictor, but files may be sorted.
    which = which[np.random.default_rng(0).permutation(which.size)[:_MOST_ROWS]]
    return JudgedRows(take_rows(rows if hasattr(rows, "iloc") else np.asarray(rows), which), labels[which], where)


def tabulate_importances(model: Any, judged: JudgedRows) -> PageTable | None:
    """Measure how much the error grows when a feature is shuffled; return None if it would take too long."""
    rows, labels, where = judged
    numeric = model.fitted_votes_.task.numeric
    start = perf_counter()
    _score(model, rows, labels)
    seconds = (perf_counter() - start) * model.n_features_in_
    if seconds > _SECONDS:  # fewer rows, in proportion
        size = int(labels.size * _SECONDS / seconds)
        if size < _LEAST_ROWS:
            return None
        rows, labels, seconds = take_rows(rows, np.arange(size)), labels[:size], _SECONDS
    repeats = int(np.clip(_SECONDS / max(seconds, 1e-9), 1, _MOST_REPEATS))
    found = permutation_importance(model, rows, labels, scoring=_score, n_repeats=repeats, random_state=0)
    names = getattr(model, "feature_names_in_", [f"feature {k}" for k in range(model.n_features_in_)])
    order = np.argsort(-found.importances_mean, kind="stable")
    show = format_number if numeric else format_percent
    cells = [[str(names[k]), show(float(found.importances_mean[k]))] for k in order[:_MOST_SHOWN]]
    grows = (
        "how much further off predictions are on average" if numeric else "how many more of them are predicted wrongly"
    )
    first = f"The first {_MOST_SHOWN} of {len(names)} columns. " if len(names) > _MOST_SHOWN else ""
    note = (
        f"{first}Measured on {labels.size} {where}: {grows} once a column is shuffled"
        f"{f' (mean of {repeats} times)' if repeats > 1 else ''}. Columns with the same information stand in "
        "for each other: each then seems to matter less than they do together. Not part of the certificate."
    )
    grown = "Mean absolute error grows by" if numeric else "Error grows by"
    return PageTable("columns", "Which columns matter", ["Column", grown], cells, note)


def _score(model: Any, rows: Any, labels: Any) -> float:
    """Return the share predicted right, in expectation if drawn at random; of numbers, minus the mean error."""
    if model.fitted_votes_.task.numeric:
        return -float(np.abs(model.predict(rows) - labels).mean())
    if model.certificate_.voting != "gibbs":
        return float(model.score(rows, labels))
    # Drawn anew for every shuffle, its predictions would differ by more than a column matters.
    return float(model.predict_shares(rows)[labels[:, np.newaxis] == model.classes_].sum() / labels.size)
