"""Prediction intervals beside MAPIE's: coverage on average over samples, and of the sample in hand.

In each repetition a sample is drawn from a generator, every method makes its 90% intervals from it, and their coverage
is measured on 10,000 further points: what a user gets who has this sample. Methods are

- MAPIE's split conformal prediction, gradient boosting on half of the rows, and the same model and rows with the exact
  order statistic, which covers less than 90% for at most 5% of samples;
- MAPIE's conformalised quantile regression (CQR), gradient boosting of three quantiles on half of the rows;
- MAPIE's jackknife+-after-bootstrap, gradient boosting on 20 resamples of all rows;
- `PACBayesRegressor` with its defaults, and with the same gradient boosting as its only family.

Needs MAPIE 1.x. Anything that has `predict_interval(X, coverage)` can be added to `METHODS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from _results import Clock, make_parser, show
from numpy.typing import NDArray
from regression_problems import friedman, heavy_tails, heteroscedastic, skewed
from regression_rivals import COVERAGE, DELTA, exact_quantile
from sklearn.ensemble import HistGradientBoostingRegressor

Values = NDArray[np.float64]

PROBLEMS = {"friedman": friedman, "heteroscedastic": heteroscedastic, "heavy-tails": heavy_tails, "skewed": skewed}
POINTS = 10_000
RESAMPLES = 20


class Intervals(Protocol):
    """What a method returns."""

    def predict_interval(self, X: Values, coverage: float) -> Values:
        """Return the ends of the intervals of some rows, an array (rows, 2)."""


def boosting(seed: int, **settings: Any) -> HistGradientBoostingRegressor:
    """Return the learner that all methods of MAPIE get."""
    return HistGradientBoostingRegressor(max_iter=100, max_leaf_nodes=8, random_state=seed, **settings)


# ---------------------------------------------------------------------------------------------------
# Methods: X, y, seed -> intervals
# ---------------------------------------------------------------------------------------------------


class OrderStatistic:
    """A model on half of the rows, and the exact order statistic of its errors on the other half."""

    def __init__(self, X: Values, y: Values, seed: int):
        half = y.size // 2
        self.model = boosting(seed).fit(X[:half], y[:half])
        self.errors = np.abs(y[half:] - self.model.predict(X[half:]))

    def predict_interval(self, X: Values, coverage: float) -> Values:
        radius = exact_quantile(self.errors, coverage, DELTA)
        return self.model.predict(X)[:, np.newaxis] + [-radius, radius]


class Mapie:
    """A method of MAPIE, fitted."""

    def __init__(self, method: Any):
        self.method = method

    def predict_interval(self, X: Values, coverage: float) -> Values:
        return np.asarray(self.method.predict_interval(X)[1])[:, :, 0]


def split_conformal(X: Values, y: Values, seed: int) -> Mapie:
    from mapie.regression import SplitConformalRegressor

    half = y.size // 2
    method = SplitConformalRegressor(boosting(seed), confidence_level=COVERAGE, prefit=False)
    return Mapie(method.fit(X[:half], y[:half]).conformalize(X[half:], y[half:]))


def quantile_conformal(X: Values, y: Values, seed: int) -> Mapie:
    from mapie.regression import ConformalizedQuantileRegressor

    half, tail = y.size // 2, (1 - COVERAGE) / 2
    # MAPIE wants the lower, the upper and the middle quantile, in this order.
    quantiles = [boosting(seed, loss="quantile", quantile=level) for level in (tail, 1 - tail, 0.5)]
    models = [model.fit(X[:half], y[:half]) for model in quantiles]
    method = ConformalizedQuantileRegressor(models, confidence_level=COVERAGE, prefit=True)
    return Mapie(method.conformalize(X[half:], y[half:]))


def jackknife(X: Values, y: Values, seed: int) -> Mapie:
    from mapie.regression import JackknifeAfterBootstrapRegressor

    method = JackknifeAfterBootstrapRegressor(
        boosting(seed), confidence_level=COVERAGE, resampling=RESAMPLES, random_state=seed
    )
    return Mapie(method.fit_conformalize(X, y))


def ours(X: Values, y: Values, seed: int) -> Intervals:
    from pacbayes import PACBayesRegressor

    return PACBayesRegressor(delta=DELTA, random_state=seed).fit(X, y)


def ours_boosting(X: Values, y: Values, seed: int) -> Intervals:
    from pacbayes import PACBayesRegressor
    from pacbayes.pools import EstimatorPool

    pool = EstimatorPool(boosting(seed), n_hypotheses=4, subsample_size=0.8)
    return PACBayesRegressor(pool, delta=DELTA, holdout=0.5, random_state=seed).fit(X, y)


METHODS: dict[str, Callable[[Values, Values, int], Intervals]] = {
    "PACBayesRegressor": ours,
    "PACBayesRegressor, boosting alone": ours_boosting,
    "exact order statistic": OrderStatistic,
    "MAPIE, split conformal": split_conformal,
    "MAPIE, CQR": quantile_conformal,
    "MAPIE, jackknife+-after-bootstrap": jackknife,
}

# ---------------------------------------------------------------------------------------------------


def simulate(problem: str, method: str, repetitions: int, n: int) -> NDArray[np.float64]:
    """Return coverage, mean width and processor seconds of a method, a row for each sample."""
    generate, found = PROBLEMS[problem], []
    X_new, y_new = generate(POINTS, np.random.default_rng(10**6))
    for seed in range(repetitions):
        X, y = generate(n, np.random.default_rng(seed))
        clock = Clock()
        intervals = METHODS[method](X, y, seed)
        seconds = clock.read()[0]
        low, high = intervals.predict_interval(X_new, COVERAGE).T
        found.append((np.mean((low <= y_new) & (y_new <= high)), np.mean(high - low), seconds))
    return np.array(found)


def rows(problems: list[str], methods: list[str], repetitions: int, n: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each problem and method."""
    for problem in problems:
        for method in methods:
            held, width, seconds = simulate(problem, method, repetitions, n).T
            error = width.std(ddof=1) / np.sqrt(repetitions)
            yield (
                method,
                problem,
                f"{held.mean():.4f}",
                f"{held.min():.4f}",
                f"{np.mean(held < COVERAGE):.3f}",
                f"{width.mean():.3f} ({error:.3f})",
                f"{seconds.mean():.2f}",
            )


NOTE = f"""\
Intervals for 90%. Coverage on {POINTS:,} new points for each sample; "samples with less": the share of samples whose
intervals hold less than 90% of them. Widths are means over samples, with standard errors. Seconds: processor time of
one fit."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ("intervals", "data", "mean coverage", "least", "samples with less", "mean width", "seconds")
    title = f"Prediction intervals beside MAPIE's: samples of {arguments.rows} rows, {arguments.repetitions} of them"
    table = rows(arguments.problems, arguments.methods, arguments.repetitions, arguments.rows)
    show("prediction intervals", title, columns, table, NOTE)


if __name__ == "__main__":
    main()
