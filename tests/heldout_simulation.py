"""Do statements about shares of the vote hold as often as they say? Held-out points of worlds with known truth.

    python tests/heldout_simulation.py [REPETITIONS]

Points fall into cells with a known probability of each cell and of each label in it, and votes have known shares in
each cell: the error among answered points, the share of these, the coverage of sets, the Brier score and how often
predictions of some probability are right are finite sums. In some worlds another engine, on which the model predicts
later, has other shares, within their doubt. Of K votes the one with the smallest bound is taken. An error is declared
that is just below that of all points. For each statement the fraction of failures must not exceed delta.

The controls are broken: answers at the threshold with the smallest bound at full delta, where scores have no meaning;
sets that hold the class of just as many held-out points as they should of new ones; the mean Brier score in place of
its bound; limits at full delta for each bin; and the smallest of all thresholds that proves a declared error at full
delta.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np

from pacbayes import certify
from pacbayes.bounds import clopper_pearson
from pacbayes.certificate import (
    Calibration,
    plan_thresholds,
    tabulate_probabilities,
    tabulate_thresholds,
    with_shares,
    with_test,
)
from pacbayes.certificate._probabilities import BIN_EDGES, LOSS_LEVELS
from pacbayes.certificate._thresholds import SET_THRESHOLDS, THRESHOLDS

DELTAS = (0.05, 0.3)
COVERAGE = 0.9
STATEMENTS = ("error", "share", "sets", "brier", "bins", "declared")
CALIBRATION = Calibration(1.5, 0.02, 1000)


@dataclass(frozen=True)
class World:
    """Cells, labels and votes: arrays of shape (cells,), (cells, classes) and (votes, cells, classes)."""

    name: str
    probability: np.ndarray
    labels: np.ndarray
    shares: np.ndarray
    elsewhere: np.ndarray  # shares on the engine that predicts
    doubt: np.ndarray  # of shape (votes, cells)

    def draw(self, n, rng):
        cells = rng.choice(self.probability.size, n, p=self.probability)
        below = np.cumsum(self.labels, axis=1)[cells]
        return cells, np.minimum((rng.random((n, 1)) > below).sum(axis=1), self.labels.shape[1] - 1)

    def predicted(self, k):
        """What vote k predicts in each cell, and where that is in doubt."""
        ranked = np.sort(self.shares[k], axis=1)
        return self.shares[k].argmax(axis=1), ranked[:, -1] - ranked[:, -2] <= 2 * self.doubt[k]

    def truth_at(self, k, threshold):
        """Error among answered points, and their share, on the engine that predicts."""
        shares = self.elsewhere[k]
        answered = shares.max(axis=1) >= threshold
        mass = self.probability[answered].sum()
        wrong = 1 - self.labels[np.arange(len(shares)), shares.argmax(axis=1)]
        return (self.probability * wrong)[answered].sum() / mass if mass else 0.0, mass

    def coverage_at(self, k, threshold):
        """Share of points with their class in their set, on the engine that predicts."""
        shares = self.elsewhere[k]
        sets = shares >= threshold
        sets[np.arange(len(shares)), shares.argmax(axis=1)] = True
        return self.probability @ (self.labels * sets).sum(axis=1)

    def brier_score(self, k):
        """Expected Brier score, on the engine that predicts."""
        found = CALIBRATION.apply(self.elsewhere[k])
        # Of class c: the sum of squares, less that of c, plus (1 - p_c)^2.
        losses = ((found**2).sum(axis=1, keepdims=True) - 2 * found + 1) / 2
        return self.probability @ (self.labels * losses).sum(axis=1)

    def right_in_bins(self, k):
        """How often predictions are right in each bin of their probability; NaN in bins without points."""
        shares = self.elsewhere[k]
        winner = shares.argmax(axis=1)
        here = np.searchsorted(BIN_EDGES[1:-1], CALIBRATION.apply(shares).max(axis=1), side="right")
        right = self.probability * self.labels[np.arange(len(shares)), winner]
        mass, right = (np.bincount(here, weights=w, minlength=len(BIN_EDGES) - 1) for w in (self.probability, right))
        return np.divide(right, mass, out=np.full(mass.size, np.nan), where=mass > 0)


def normalised(array):
    return array / array.sum(axis=-1, keepdims=True)


def make_world(name, cells, classes, noise, *, sharpness=3.0, doubt=0.0, votes=2, levels=0, seed=0):
    """Draw a world: labels are as probable as shares say, up to `noise`; `levels` makes shares take few values."""
    rng = np.random.default_rng(seed)
    base = normalised(rng.exponential(size=(cells, classes)) ** sharpness)
    shares = normalised(base * np.exp(0.3 * rng.normal(size=(votes, cells, classes))))
    if levels:
        shares[..., 0] = np.round(shares[..., 0] * levels) / levels
        shares[..., 1:] = normalised(shares[..., 1:]) * (1 - shares[..., :1])
    doubts = doubt * (rng.random((votes, cells)) < 0.5)
    moved = doubts[..., np.newaxis] * rng.uniform(-1, 1, size=shares.shape)
    labels = (1 - noise) * base + noise * np.eye(classes)[base.argmax(axis=1)] * 0.8 + noise * 0.2 / classes
    elsewhere = np.maximum(shares + moved, 0.0)
    return World(name, normalised(rng.exponential(size=cells)), normalised(labels), shares, elsewhere, doubts)


def flat_world(name="scores without a meaning", cells=400, error=0.15):
    """Whatever the share of the winner, it errs as often."""
    rng = np.random.default_rng(1)
    winner = rng.uniform(0.5, 1, size=(2, cells))
    shares = np.stack([1 - winner, winner], axis=-1)
    labels = np.tile([error, 1 - error], (cells, 1))
    return World(name, np.full(cells, 1 / cells), labels, shares, shares, np.zeros((2, cells)))


WORLDS = (
    flat_world(),
    make_world("two classes", 300, 2, 0.0),
    make_world("three classes, sure votes", 100, 3, 0.5, sharpness=6.0),
    make_world("equal scores", 6, 3, 0.3, levels=4),
    make_world("another engine", 40, 3, 0.2, doubt=0.03),
)


@cache
def blank(n_votes, delta):
    return certify([0.1, 0.2], 100, delta=delta, n_votes=n_votes)[0]


def count(world, k, cells, labels):
    predicted, doubtful = world.predicted(k)
    here = (labels, predicted[cells], doubtful[cells], world.shares[k][cells], world.doubt[k][cells])
    return tabulate_thresholds(*here), tabulate_probabilities(*here, CALIBRATION)


def declare(world, k, rng, n=300):
    """An error just below that of all points, and thresholds from other points than the held-out ones."""
    scores = world.shares[k].max(axis=1)[world.draw(n, rng)[0]]
    return world.truth_at(k, 0.0)[0] * 0.999, plan_thresholds(scores, rng.uniform(0.1, 1, n))


def certified(world, n_votes, n, delta, rng):
    """The number of the vote that wins, each with held-out points of its own, and its certificate."""
    tested = []
    for k in range(n_votes):
        counts = count(world, k, *world.draw(n, rng))
        tested.append((with_test(blank(n_votes, delta), int(counts[0].answered[0, 0]), n), *counts))
    winner = min(range(n_votes), key=lambda k: tested[k][0].bound)
    return winner, with_shares(*tested[winner], declare(world, winner, rng))


def simulate(world, n_votes, delta, repetitions, *, n=250, seed=0):
    """Count failures of each statement."""
    rng, failures = np.random.default_rng(seed), Counter(dict.fromkeys(STATEMENTS, 0))
    scores, rates = ([one(k) for k in range(n_votes)] for one in (world.brier_score, world.right_in_bins))
    for _ in range(repetitions):
        k, certificate = certified(world, n_votes, n, delta, rng)
        truths = [world.truth_at(k, row.threshold) for row in certificate.abstention]
        rows = list(zip(certificate.abstention, truths, strict=True))
        failures["error"] += any(error > row.bound for row, (error, _) in rows)
        failures["share"] += any(
            not row.share[0] <= mass * (1 + 1e-12) <= row.share[1] * (1 + 2e-12) for row, (_, mass) in rows
        )
        failures["brier"] += scores[k] > certificate.probabilities.bound
        low, high = np.array([one.limits for one in certificate.probabilities.bins]).T
        failures["bins"] += bool(((rates[k] < low - 1e-12) | (rates[k] > high + 1e-12)).any())
        row, most = certificate.declared.proved, certificate.declared.max_error
        failures["declared"] += row is not None and world.truth_at(k, row.threshold)[0] > most
        try:
            threshold = certificate.choose_sets(COVERAGE).threshold
        except ValueError:  # nothing is stated
            continue
        failures["sets"] += world.coverage_at(k, threshold) < COVERAGE - 1e-12
    return failures


def simulate_broken(world, delta, repetitions, *, n=250, seed=0):
    """Count failures of what is not proved: see above."""
    rng, failures = np.random.default_rng(seed), Counter(dict.fromkeys(STATEMENTS, 0))
    score, rates = world.brier_score(0), world.right_in_bins(0)
    declared = world.truth_at(0, 0.0)[0] * 0.999
    for _ in range(repetitions):
        counts, probabilities = count(world, 0, *world.draw(n, rng))
        (errors, right), which = np.unique(counts.answered[:, :2].T, axis=1, return_inverse=True)
        # Where none is answered, one error of one point: the bound is 1.
        some = errors + right > 0
        bounds = clopper_pearson(np.where(some, errors, 1), np.where(some, errors + right, 1), delta)[which]
        j = int(np.argmin(bounds))
        failures["error"] += world.truth_at(0, THRESHOLDS[j])[0] > bounds[j]
        proved = np.flatnonzero(bounds <= declared)
        failures["declared"] += proved.size > 0 and world.truth_at(0, THRESHOLDS[proved[0]])[0] > declared
        enough = np.flatnonzero(counts.sets[:, 0] <= (1 - COVERAGE) * n)
        failures["sets"] += enough.size > 0 and world.coverage_at(0, SET_THRESHOLDS[enough[0]]) < COVERAGE
        failures["brier"] += score > LOSS_LEVELS @ probabilities.losses / n
        _, _, right, _, wrong, _ = probabilities.bins.T
        some = right + wrong > 0
        high = clopper_pearson(np.where(some, right, 1), np.where(some, right + wrong, 1), delta / 2)
        low = 1 - clopper_pearson(np.where(some, wrong, 1), np.where(some, right + wrong, 1), delta / 2)
        failures["bins"] += bool((some & ((rates > high) | (rates < low))).any())
    return failures


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"{'world':28} votes delta  {'  '.join(f'{name:>8}' for name in STATEMENTS)}")
    for world in WORLDS:
        for n_votes in (1, 2):
            for delta in DELTAS:
                found = simulate(world, n_votes, delta, repetitions)
                shown = "  ".join(f"{found[name] / repetitions:8.4f}" for name in STATEMENTS)
                print(f"{world.name:28} {n_votes:5} {delta:5}  {shown}", flush=True)
    for world in WORLDS[:2]:
        for delta in DELTAS:
            found = simulate_broken(world, delta, repetitions)
            shown = "  ".join(f"{found[name] / repetitions:8.4f}" for name in STATEMENTS)
            print(f"{'BROKEN: ' + world.name:28} {1:5} {delta:5}  {shown}", flush=True)


if __name__ == "__main__":
    main()
