"""Does the certificate hold as often as it says? Data sets drawn from distributions whose true risks are known.

    python tests/coverage_simulation.py [REPETITIONS]

Points fall into a few cells, with a known probability of each cell and of each label in it: the true risk of any
classifier is a finite sum. For every data set a classifier is fitted, and its certificate compared with the true risk
of the randomised classifier and of the majority vote. The fraction of failures must not exceed delta.

In the last scenario subsamples are redrawn until they are balanced, which takes a look at the labels: validation sets
are then short of the rare class, and the certificate fails far more often than delta allows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin

from pacbayes import PACBayesClassifier, certify

DELTAS = (0.05, 0.3)


class Lookup(ClassifierMixin, BaseEstimator):
    """The majority label of each cell, and of the subsample for cells that it has not seen."""

    def __init__(self, cells=8):
        self.cells = cells

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        cell = X[:, 0].astype(int)
        ones = np.bincount(cell, weights=y, minlength=self.cells)
        count = np.bincount(cell, minlength=self.cells)
        self.table_ = np.where(count > 0, 2 * ones > count, 2 * y.sum() > y.size).astype(int)
        return self

    def predict(self, X):
        return self.table_[X[:, 0].astype(int)]


class AlwaysZero(Lookup):
    """The hypothesis whose risk is the probability of label 1."""

    def fit(self, X, y):
        super().fit(X, y)
        self.table_ = np.zeros(self.cells, dtype=int)
        return self


def balanced_after_redrawing(rng, y, size):
    """Redraw a subsample until half of it, or as much as there is, has label 1: what the theorem forbids."""
    ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    k = min(size // 2, ones.size)
    return np.concatenate((rng.choice(ones, k, replace=False), rng.choice(zeros, size - k, replace=False)))


@dataclass(frozen=True)
class Scenario:
    """A distribution over cells and labels, and a way to fit."""

    name: str
    cell_probability: np.ndarray
    label_probability: np.ndarray
    n: int
    model: Callable[[int], PACBayesClassifier]
    redraw: bool = False

    def draw(self, rng):
        cell = rng.choice(self.cell_probability.size, self.n, p=self.cell_probability)
        return cell[:, np.newaxis].astype(float), (rng.random(self.n) < self.label_probability[cell]).astype(int)

    def risk(self, predicted):
        """True risk of predictions for all cells."""
        errs = np.where(predicted == 1, 1 - self.label_probability, self.label_probability)
        return errs @ self.cell_probability


def mixed(**parameters):
    def model(seed):
        settings = {"n_hypotheses": 15, "subsample_size": [4, 8, 16], "objective": "lambda", **parameters}
        return PACBayesClassifier(Lookup(), holdout=None, random_state=seed, **settings)

    return model


def single(seed):
    settings = {"n_hypotheses": 1, "subsample_size": 10, "objective": "lambda"}
    return PACBayesClassifier(AlwaysZero(), holdout=None, random_state=seed, **settings)


UNIFORM = np.full(8, 1 / 8)
SIGNAL = np.array([0.05, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 0.95])
SCENARIOS = [
    Scenario("signal, mixed sizes", UNIFORM, SIGNAL, 40, mixed()),
    Scenario("signal, kl objective", UNIFORM, SIGNAL, 40, mixed(objective="kl")),
    Scenario("signal, best hypothesis", UNIFORM, SIGNAL, 40, mixed(voting="best")),
    Scenario("labels are noise", UNIFORM, np.full(8, 0.5), 40, mixed()),
    Scenario("rare class, label-blind", UNIFORM, np.full(8, 0.27), 20, single),
]
BROKEN = Scenario("rare class, redrawn until balanced", UNIFORM, np.full(8, 0.27), 20, single, redraw=True)


def failures(scenario: Scenario, repetitions: int, seed: int = 0) -> dict[tuple[str, float], float]:
    """Fraction of data sets on which the certificate is below the true risk, by rule and delta."""
    rng = np.random.default_rng(seed)
    failed = dict.fromkeys([(rule, delta) for rule in ("randomised", "vote") for delta in DELTAS], 0)
    all_cells = np.arange(scenario.cell_probability.size, dtype=float)[:, np.newaxis]
    for repetition in range(repetitions):
        X, y = scenario.draw(rng)
        while y.min() == y.max():  # a sample of one class is refused, whatever the method
            X, y = scenario.draw(rng)
        model = scenario.model(repetition)
        if scenario.redraw:
            model.set_params(
                subsamples=[balanced_after_redrawing(rng, y, 10)], n_hypotheses="auto", subsample_size="auto"
            )
        for delta in DELTAS:
            model.set_params(delta=delta)
            if delta == DELTAS[0]:
                model.fit(X, y)
                certificate, posterior = model.certificate_, model.posterior_
            else:
                settings = {"objective": model.objective, "voting": model.voting, "prior": model.prior_}
                certificate, posterior = certify(model.losses_, model.n_validation_, delta=delta, **settings)
            risks = [scenario.risk(h.predict(all_cells)) for h in model.hypotheses_]
            failed["randomised", delta] += np.dot(posterior, risks) > certificate.gibbs_bound
            failed["vote", delta] += scenario.risk(model.predict(all_cells)) > certificate.vote_bound
    return {key: count / repetitions for key, count in failed.items()}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{repetitions} data sets per scenario; fraction of certificates below the true risk\n")
    print(f"{'':38}{'randomised':>20}{'majority vote':>20}")
    print(f"{'delta':38}" + "".join(f"{delta:10}" for _ in range(2) for delta in DELTAS))
    scenarios = [*SCENARIOS, BROKEN]
    results = Parallel(n_jobs=-1, return_as="generator")(
        delayed(_numbered)(i, repetitions) for i in range(len(scenarios))
    )
    for scenario, fractions in zip(scenarios, results, strict=True):
        print(f"{scenario.name:38}" + "".join(f"{fraction:10.4f}" for fraction in fractions.values()), flush=True)


def _numbered(i: int, repetitions: int) -> dict[tuple[str, float], float]:
    """Run a scenario by its number, which travels to other processes more easily than its functions."""
    return failures([*SCENARIOS, BROKEN][i], repetitions)


if __name__ == "__main__":
    main()
