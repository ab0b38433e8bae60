"""Does the certificate hold as often as it says? Data sets drawn from distributions whose true risks are known.

    python tests/coverage_simulation.py [REPETITIONS] [--only WORD] [--jobs N]

Points fall into a few cells, with a known probability of each cell and of each label in it: the true risk of any
classifier is a finite sum. For every data set a classifier is fitted, and its certificate compared with the true risk
of the randomised classifier and of the majority vote. The fraction of failures must not exceed delta.

In the last scenario subsamples are redrawn until they are balanced, which takes a look at the labels: validation sets
are then short of the rare class, and the certificate fails far more often than delta allows.

Then unions of families that vote by labels and by probabilities, some of which overfit, tested on held-out points. In
the last line the family with the smallest bound on these points is chosen, as if it were the only one, and fails.
`--only union` runs these alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin

from pacbayes import PACBayesClassifier, certify
from pacbayes.bounds import clopper_pearson
from pacbayes.pools import BoostingPool, EstimatorPool, ForestPool, LinearPool, RBFSVMPool, UnionPool

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


class SoftLookup(Lookup):
    """The share of label 1 in each cell, drawn towards that of the subsample."""

    def fit(self, X, y):
        super().fit(X, y)
        cell = X[:, 0].astype(int)
        ones, count = np.bincount(cell, weights=y, minlength=self.cells), np.bincount(cell, minlength=self.cells)
        self.share_ = (ones + y.mean()) / (count + 1)
        self.table_ = (self.share_ > 0.5).astype(int)
        return self

    def predict_proba(self, X):
        share = self.share_[X[:, 0].astype(int)]
        return np.column_stack((1 - share, share))


class LastSeen(Lookup):
    """The label of one point of each cell: it overfits."""

    def fit(self, X, y):
        super().fit(X, y)
        self.table_[X[:, 0].astype(int)] = y
        return self


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
    rows_of: Callable[[np.ndarray], object] = lambda cells: cells[:, np.newaxis].astype(float)

    def draw(self, rng):
        cell = rng.choice(self.cell_probability.size, self.n, p=self.cell_probability)
        return self.rows_of(cell), (rng.random(self.n) < self.label_probability[cell]).astype(int)

    def all_rows(self):
        return self.rows_of(np.arange(self.cell_probability.size))

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


FAMILIES = {
    "svm": RBFSVMPool(n_hypotheses=2, subsample_size=0.5),
    "lookup": EstimatorPool(Lookup(), n_hypotheses=2, subsample_size=0.8),
    "soft": EstimatorPool(SoftLookup(), n_hypotheses=2, subsample_size=0.8, vote_by="probabilities"),
    "last": EstimatorPool(LastSeen(), n_hypotheses=2, subsample_size=(0.3, 0.9)),
}


def union(names=tuple(FAMILIES), holdout=(0.5, 0.35), **parameters):
    def model(seed):
        pool = UnionPool([(name, FAMILIES[name]) for name in names])
        return PACBayesClassifier(pool, holdout=holdout, random_state=seed, **parameters)

    return model


def of_trees_and_lines(seed):
    """The families of the default, with fewer and smaller hypotheses, and the rows that it holds out."""
    families = [
        ("boosting", BoostingPool(max_iter=5, n_hypotheses=1)),
        ("forest", ForestPool(n_estimators=5, n_hypotheses=1)),
        ("linear", LinearPool(n_hypotheses=1)),
        ("svm", RBFSVMPool(n_hypotheses=2)),
    ]
    return PACBayesClassifier(UnionPool(families, weights=[1, 1, 1, 2]), random_state=seed)


def write_texts(cells):
    """A table of texts that are all different, with a word that tells one of eight kinds."""
    return pd.DataFrame({"text": [f"kind {'abcdefgh'[cell % 8]} number {cell}" for cell in cells]})


UNIONS = [
    Scenario("union, signal", UNIFORM, SIGNAL, 40, union()),
    Scenario("union, labels are noise", UNIFORM, np.full(8, 0.5), 40, union()),
    Scenario("union, tiny sample", UNIFORM, SIGNAL, 12, union()),
    Scenario("union of the default, noise", UNIFORM, np.full(8, 0.5), 24, of_trees_and_lines),
    Scenario(
        "union of the default, texts",
        np.full(512, 1 / 512),
        np.tile(SIGNAL, 64),
        60,
        of_trees_and_lines,
        rows_of=write_texts,
    ),
]
UNTESTED = Scenario("union, not tested", UNIFORM, SIGNAL, 40, union(holdout=None, objective="lambda"))
CHOSEN_BY_THE_TEST = Scenario("no union: family chosen by its test", UNIFORM, np.full(8, 0.5), 40, union())


def failures_of_tests(scenario: Scenario, repetitions: int, seed: int = 0) -> dict[tuple[str, float], float]:
    """Fraction of data sets on which the vote's bound from held-out points is below its true risk, by delta.

    `CHOSEN_BY_THE_TEST` takes the best of one vote of each family, all tested on the same points.
    """
    rng = np.random.default_rng(seed)
    failed = dict.fromkeys([("vote", delta) for delta in DELTAS], 0)
    all_cells = scenario.all_rows()
    for repetition in range(repetitions):
        X, y = scenario.draw(rng)
        while y.min() == y.max():
            X, y = scenario.draw(rng)
        models = [scenario.model(repetition)]
        if scenario is CHOSEN_BY_THE_TEST:
            models = [union([name], holdout=0.5)(repetition) for name in FAMILIES]
        votes = [vote for model in models for vote in model.fit(X, y).votes_]
        tests = [vote.certificate.statements[0].figures for vote in votes]
        risks = [scenario.risk(vote.predict(all_cells)) for vote in votes]
        for delta in DELTAS:
            level = delta / (1 if scenario is CHOSEN_BY_THE_TEST else len(votes))
            bounds = [clopper_pearson(test["errors"], test["n"], level) for test in tests]
            winner = int(np.argmin(bounds))
            bound, risk = bounds[winner], risks[winner]
            if delta == models[0].delta and scenario is not CHOSEN_BY_THE_TEST:  # what is promised, of what predicts
                bound, risk = models[0].certificate_.bound, scenario.risk(models[0].predict(all_cells))
            failed["vote", delta] += risk > bound
    return {key: count / repetitions for key, count in failed.items()}


def failures(scenario: Scenario, repetitions: int, seed: int = 0) -> dict[tuple[str, float], float]:
    """Fraction of data sets on which the certificate is below the true risk, by rule and delta."""
    rng = np.random.default_rng(seed)
    failed = dict.fromkeys([(rule, delta) for rule in ("randomised", "vote") for delta in DELTAS], 0)
    all_cells = scenario.all_rows()
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
                risks = [scenario.risk(h.predict(all_cells)) for h in model.hypotheses_]
                risk_of_vote = scenario.risk(model.predict(all_cells))
            else:
                settings = {"objective": model.objective, "voting": model.voting, "prior": model.prior_}
                certificate, posterior = certify(model.losses_, model.n_validation_, delta=delta, **settings)
            failed["randomised", delta] += np.dot(posterior, risks) > certificate.gibbs_bound
            failed["vote", delta] += risk_of_vote > certificate.vote_bound
    return {key: count / repetitions for key, count in failed.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Count how often certificates are below the true risk.")
    parser.add_argument("repetitions", type=int, nargs="?", default=10_000, help="data sets per scenario")
    parser.add_argument("--only", default="", help="run the scenarios with this in their names")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; one for each core by default")
    options = parser.parse_args()
    repetitions, chosen = options.repetitions, [i for i, (s, _) in enumerate(_everything()) if options.only in s.name]
    print(f"{repetitions} data sets per scenario; fraction of certificates below the true risk\n")
    print(f"{'':38}{'randomised':>20}{'majority vote':>20}")
    print(f"{'delta':38}" + "".join(f"{delta:10}" for _ in range(2) for delta in DELTAS))
    results = Parallel(n_jobs=options.jobs, return_as="generator")(delayed(_numbered)(i, repetitions) for i in chosen)
    for i, fractions in zip(chosen, results, strict=True):
        scenario, _ = _everything()[i]
        cells = [fractions.get((rule, delta)) for rule in ("randomised", "vote") for delta in DELTAS]
        line = "".join(f"{'':10}" if fraction is None else f"{fraction:10.4f}" for fraction in cells)
        print(f"{scenario.name:38}{line}", flush=True)


def _everything() -> list[tuple[Scenario, Callable[[Scenario, int], dict[tuple[str, float], float]]]]:
    by_losses = [(scenario, failures) for scenario in (*SCENARIOS, BROKEN, UNTESTED)]
    return by_losses + [(scenario, failures_of_tests) for scenario in (*UNIONS, CHOSEN_BY_THE_TEST)]


def _numbered(i: int, repetitions: int) -> dict[tuple[str, float], float]:
    """Run a scenario by its number, which travels to other processes more easily than its functions."""
    scenario, count = _everything()[i]
    return count(scenario, repetitions)


if __name__ == "__main__":
    main()
