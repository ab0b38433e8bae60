"""Prediction sets beside split conformal prediction (MAPIE) on the same vote and the same held-out rows.

In each repetition a vote of logistic regressions is fitted to a sample of Waveform's three classes, and tested on the
half of the rows that it holds out. MAPIE calibrates the shares of the same vote on the same rows. The coverage of both
is measured on 10,000 further points. Needs MAPIE 1.x.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from _results import make_parser, show
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pacbayes import PACBayesClassifier
from pacbayes.datasets import waveform
from pacbayes.pools import LinearPool

LEVELS = (0.9, 0.95)
POINTS = 10_000


class Shares(ClassifierMixin, BaseEstimator):
    """A fitted vote whose shares MAPIE takes for probabilities."""

    def __init__(self, model: PACBayesClassifier):
        self.model = model
        self.classes_ = model.classes_

    def fit(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> Shares:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(X))


def sets_of(method: str, model: PACBayesClassifier, level: float, held_out: tuple, X: NDArray) -> NDArray[np.bool_]:
    """Return the sets of a method for points."""
    if method == "predict_set":
        return model.predict_set(X, level)
    from mapie.classification import SplitConformalClassifier

    conformal = SplitConformalClassifier(Shares(model), confidence_level=level, prefit=True, conformity_score="lac")
    return np.asarray(conformal.conformalize(*held_out).predict_set(X)[1])[:, :, 0]


def rows(repetitions: int, n: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each level and method."""
    new = waveform(POINTS, random_state=10**6, classes=(0, 1, 2))
    test, target = np.asarray(new.X), np.unique(new.y, return_inverse=True)[1]
    found: dict[tuple[float, str], list[tuple[float, float, float]]] = {}
    for seed in range(repetitions):
        sample = waveform(n, random_state=seed, classes=(0, 1, 2))
        X, y = np.asarray(sample.X), np.unique(sample.y, return_inverse=True)[1]
        model = PACBayesClassifier(LinearPool(n_hypotheses=4), holdout=0.5, random_state=seed).fit(X, y)
        rows = model.votes_[0].split.held_out
        for level in LEVELS:
            for method in ("predict_set", "MAPIE, lac"):
                sets = sets_of(method, model, level, (X[rows], y[rows]), test)
                held, sizes = sets[np.arange(POINTS), target].mean(), sets.sum(axis=1)
                found.setdefault((level, method), []).append((held, sizes.mean(), np.mean(sizes == 0)))
    for (level, method), values in found.items():
        held, size, empty = np.array(values).T
        yield (
            method,
            f"{level:.0%}",
            f"{held.mean():.4f}",
            f"{np.mean(held < level):.3f}",
            f"{size.mean():.3f}",
            f"{empty.mean():.4f}",
        )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--rows", type=int, default=600)
    arguments = parser.parse_args()
    columns = ("sets", "level", "mean coverage", "samples with less", "mean size", "empty sets")
    table = rows(arguments.repetitions, arguments.rows)
    title = "Prediction sets beside split conformal prediction, same vote and held-out rows"
    show("prediction sets", title, columns, table)


if __name__ == "__main__":
    main()
