"""Kernel ridge regressions of the engine beside a loop over scikit-learn's, and how accurate their means are.

A regression is trained on its subsample and validated on all other rows by its capped absolute error. The loop has the
same subsamples, kernel widths and ridges. Every row is measured in this process, side by side, best of three, in
seconds of one processor: set OMP_NUM_THREADS=1 and the like for the libraries that scikit-learn computes with.

"sizes" weights regressions on subsamples of different sizes as a fit does, by the lambda bound, and compares the errors
of their means at 4000 new points (the other half of the rows for diabetes).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _results import best, make_parser, show
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler

from pacbayes._losses import Loss
from pacbayes.pools import Hypotheses, RBFRidgePool, Sample
from pacbayes.posterior import minimize_lambda_bound
from pacbayes.sampling import RandomSubsamples

NUMBERS = np.empty(0)  # in the place of classes

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


def friedman(n: int, seed: int = 0) -> Rows:
    """Friedman's first function, with 35 useless columns."""
    return datasets.make_friedman1(n, n_features=40, noise=1.0, random_state=seed)


def capped_error(cap: float) -> Loss:
    def function(target: Any, predicted: Any) -> Any:
        return np.minimum(np.abs(target - predicted) / cap, 1.0)

    return Loss("capped", function, is_elementwise=True)


def cap_of(y: NDArray[np.float64]) -> float:
    return float(np.quantile(np.abs(y - np.median(y)), 0.99))


def train_and_validate(pool: RBFRidgePool, rows: Rows, subsamples: RandomSubsamples) -> Any:
    """Return losses of all hypotheses, and the hypotheses."""
    sample, shared = pool.prepare(Sample(*rows, NUMBERS), 0)
    everyone, loss = range(len(subsamples)), capped_error(cap_of(rows[1]))
    trained = pool.train(sample, subsamples, everyone, 0, shared)
    totals = trained.loss_totals(sample, subsamples, everyone, np.arange(len(sample)), loss)
    return totals / subsamples.n_validation, trained


def loop(rows: Rows, subsamples: RandomSubsamples, trained: Hypotheses) -> NDArray[np.float64]:
    """The plain loop: fit on r points, predict the others, m times; widths, ridges and scaling as in `trained`."""
    X, y = rows
    losses, cap, everyone = [], cap_of(y), np.arange(y.size)
    for h, subsample in enumerate(subsamples):
        rest = np.setdiff1d(everyone, subsample, assume_unique=True)
        inside, outside, mean = X[subsample], X[rest], y[subsample].mean()
        if trained.scale is not None:
            scaler = StandardScaler().fit(inside)
            inside, outside = scaler.transform(inside), scaler.transform(outside)
        model = KernelRidge(alpha=trained.ridge[h], kernel="rbf", gamma=trained.gamma[h]).fit(
            inside, y[subsample] - mean
        )
        errors = np.abs(model.predict(outside) + mean - y[rest])
        losses.append(np.minimum(errors / cap, 1.0).mean())
    return np.array(losses)


def compare(section: str, n: int, m: int, r: int, repeats: int) -> None:
    rows, subsamples = friedman(n), RandomSubsamples(n, [r], m, entropy=0)

    def measure() -> Iterator[tuple[str, str, str]]:
        for scaler in (None, "standard"):
            pool = RBFRidgePool(scaler=scaler, ridge=(1e-3, 0.1))
            name = "unscaled" if scaler is None else "each scaled by its subsample"
            ours, _, (losses, trained) = best(lambda pool=pool: train_and_validate(pool, rows, subsamples), repeats)
            theirs, _, expected = best(lambda trained=trained: loop(rows, subsamples, trained), repeats)
            np.testing.assert_allclose(losses, expected, atol=1e-8)
            yield f"KernelRidge loop, {name}", f"{theirs:.3f}", "1"
            yield f"pacbayes, {name}", f"{ours:.3f}", f"{theirs / ours:.1f}"

    title = f"{m} kernel ridge regressions on {r} of {n} rows, d = 40, trained and validated on all others"
    show(f"ridge, {section}", title, ("", "seconds", "times faster"), measure())


def _waves(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1]) + rng.normal(0, 0.1, n)


def _smooth(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    return X, np.sin(3 * X[:, 0]) + X[:, 2] * X[:, 3] + np.exp(1.5 * X[:, 1]) / 3 * rng.normal(size=n)


# What makes n rows, by name, and how many train.
PROBLEMS: dict[str, tuple[Callable[[int, int], Rows], int]] = {
    "friedman1": (lambda n, seed: datasets.make_friedman1(n, noise=1.0, random_state=seed), 650),
    "friedman2": (lambda n, seed: datasets.make_friedman2(n, noise=100.0, random_state=seed), 325),
    "friedman3": (lambda n, seed: datasets.make_friedman3(n, noise=0.1, random_state=seed), 650),
    "d = 40": (friedman, 1300),
    "waves": (_waves, 260),
    "smooth": (_smooth, 650),
    "diabetes": (lambda n, seed: datasets.load_diabetes(return_X_y=True), 221),
}


def mean_error(name: str, size: float, m: int, seed: int) -> float:
    """The error of the weighted mean of m regressions at new points, in units of that of the median."""
    make, n = PROBLEMS[name]
    X, y = make(n + 4000, seed)
    order = np.random.default_rng(seed).permutation(y.size)
    rows, test = (X[order[:n]], y[order[:n]]), order[n:]
    subsamples = RandomSubsamples(n, [size if size > 1 else int(size * n)], m, entropy=seed)
    losses, trained = train_and_validate(RBFRidgePool(), rows, subsamples)
    rho = minimize_lambda_bound(losses, int(subsamples.n_validation[0])).rho
    predicted = rho @ trained.keep_training_points(Sample(*rows, NUMBERS)).votes(X[test])
    return float(np.abs(predicted - y[test]).mean() / np.abs(np.median(rows[1]) - y[test]).mean())


def sizes(repeats: int) -> None:
    settings = [("200 of 41 rows", 41, 200), ("40 of 30%", 0.3, 40), ("20 of 50%", 0.5, 20), ("20 of 65%", 0.65, 20)]
    settings += [("8 of 80%", 0.8, 8), ("20 of 80% (default)", 0.8, 20), ("40 of 80%", 0.8, 40), ("20 of 90%", 0.9, 20)]

    def measure() -> Iterator[tuple[str, ...]]:
        for title, size, m in settings:
            errors = [np.mean([mean_error(name, size, m, seed) for seed in range(repeats)]) for name in PROBLEMS]
            yield title, *(f"{error:.3f}" for error in errors), f"{np.exp(np.mean(np.log(errors))):.4f}"

    title = f"Errors of weighted means of kernel ridge regressions, that of the median is 1, means of {repeats} samples"
    show("ridge, sizes", title, ("", *PROBLEMS, "geometric mean"), measure())


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("part", nargs="?", choices=("speed", "large", "sizes"))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of KernelRidge, on matrices that it takes for singular
    if options.part in (None, "speed"):
        compare("speed", 2000, 2000, 41, options.repeats)
    if options.part in (None, "large"):
        compare("large", 1300, 20, 1040, options.repeats)
    if options.part in (None, "sizes"):
        sizes(options.repeats)


if __name__ == "__main__":
    main()
