"""Do the bounds on the vote hold as often as they say? Data sets drawn from distributions with known risks.

    python tests/vote_simulation.py [REPETITIONS]

Points fall into a few cells with known probabilities of cell and label, and voters are tables of labels: the true
error of any vote is a finite sum. For every data set the voters are weighted by their errors on n labelled points, the
vote is certified by every bound of `pacbayes.votes` with u unlabelled points, and the bounds are compared with its true
error. The fraction of failures must not exceed delta.

The last column takes the plain mean over the unlabelled points in place of its upper limit, and fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from pacbayes import bounds, votes

DELTAS = (0.05, 0.3)
BROKEN = "plain mean"


@dataclass(frozen=True)
class Scenario:
    """Cells with their probabilities and P(label = 1), voters, and how they are weighted."""

    name: str
    cell_probability: list[float]
    label_probability: list[float]
    voters: list[list[int]]
    n: int
    u: int
    temperature: float = 0.0  # weights are the prior times exp(-temperature * errors)
    prior: list[float] = field(default_factory=list)

    def joint(self):
        """P(cell, label)."""
        ones = np.array(self.label_probability)
        return np.array(self.cell_probability)[:, np.newaxis] * np.stack((1 - ones, ones), axis=1)


RARE = [0.95, 0.05]
SCENARIOS = [
    # Two of three voters err together in a rare cell, and the third is always right: all that disagree are right.
    Scenario("vote errs where one disagrees", RARE, [0, 1], [[0, 1], [0, 0], [0, 0]], 400, 40),
    Scenario("few unlabelled points", RARE, [0, 1], [[0, 1], [0, 0], [0, 0]], 10_000, 8),
    # Errors cost the least margin that they can: the margin bound is an equality for gamma = 0.2.
    Scenario("vote errs at small margins", [0.8, 0.2], [0, 1], [[0, 0]] * 3 + [[0, 1]] * 2, 10_000, 30),
    # Half of the weight errs in the rare cell, and ties go to the first class.
    Scenario("tie", RARE, [0, 1], [[0, 0], [0, 0], [0, 1], [0, 1]], 60, 30),
    Scenario(
        "near a tie",
        [0.5, 0.2, 0.2, 0.1],
        [0.1, 0.8, 0.6, 0.5],
        [[0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]],
        50,
        25,
        temperature=0.05,
    ),
    Scenario("one heavy voter", RARE, [0.1, 0.9], [[0, 0], [1, 1], [0, 1]], 60, 30, prior=[0.8, 0.1, 0.1]),
    Scenario(
        "strongly correlated voters",
        [0.6, 0.3, 0.04, 0.03, 0.03],
        [0.05, 0.95, 0.9, 0.9, 0.9],
        [[0, 1, 0, 1, 1]] * 4 + [[0, 1, 1, 0, 1]] * 4 + [[0, 1, 1, 1, 0]] * 4,
        80,
        50,
        temperature=1.0,
    ),
    Scenario("labels are noise", [0.25] * 4, [0.5] * 4, [[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]], 40, 40, 2.0),
    Scenario("one voter", [1.0], [0.27], [[0]], 20, 10),
]


def certify(scenario: Scenario, counts, points, rho, kl_div, delta) -> dict[str, float]:
    """Every bound on the vote: from labelled points, as counts by cell and label, and unlabelled ones, as cells."""
    table = np.array(scenario.voters)
    m, n, u = table.shape[0], scenario.n, points.size
    prior = np.array(scenario.prior) if scenario.prior else np.full(m, 1 / m)
    wrong = np.stack((table == 1, table == 0), axis=2).reshape(m, -1).astype(float)
    errors = wrong @ counts.ravel()
    by_cell = rho @ table
    winner = np.maximum(by_cell, 1 - by_cell)
    apart = table != vote_of(scenario, rho)
    seen = np.repeat(np.arange(len(scenario.cell_probability)), counts.sum(axis=1))
    both = float(rho @ (wrong * counts.ravel() @ wrong.T) @ rho) / n
    loss = float(rho @ errors) / n

    gibbs = bounds.pac_bayes_kl(loss, kl_div, n, delta)
    delta_labelled, delta_points = votes.split_delta(delta, n, u)
    shared = bounds.pac_bayes_kl(loss, kl_div, n, delta_labelled)
    voter_bounds = bounds.clopper_pearson(errors, n, delta_labelled, prior_mass=prior)
    margin = votes.choose_margin(shared, winner[seen], 1 - winner[seen], u, delta_points, gammas=(1.0, 0.5, 0.2))
    weights = votes.optimize_voter_weights(voter_bounds, apart[:, seen], n_points=u, delta=delta_points)
    best = votes.choose_voter(voter_bounds, apart[:, seen].mean(axis=1), u, delta_points)
    disagreements = int(apart[best, points].sum())
    disagreement = votes.disagreement_bound(voter_bounds[best], disagreements, u, delta_points)
    heavy = votes.heavy_voter(rho)
    return {
        "first order": votes.first_order(gibbs),
        "subset sum": votes.subset_sum_bound(gibbs, rho),
        "disagreement": disagreement,
        "recipe": min(votes.subset_sum_bound(rho @ voter_bounds, rho), disagreement)
        if heavy is None
        else voter_bounds[heavy],
        "margin": votes.margin_bound(
            shared, winner[points], 1 - winner[points], delta_points, gamma=margin.gamma, bet=margin.bet
        ),
        "margin grid": votes.margin_bound(shared, winner[points], 1 - winner[points], delta_points),
        "voters": votes.voters_bound(voter_bounds, apart[:, points], weights.w, delta_points, bet=weights.bet),
        "flat voters": votes.voters_bound(voter_bounds, apart[:, points], np.full(m, 2 / m), delta_points),
        "tandem": votes.tandem(both, kl_div, n, delta),
        "C-bound": votes.c_bound(loss, 2 * (loss - both), kl_div, n, delta),
        "Cantelli": votes.chebyshev_cantelli(loss, both, kl_div, n, delta),
        "split-kl": votes.split_kl(both, 2 * (loss - both), kl_div, n, delta),
        BROKEN: voter_bounds[best] + disagreements / u,
    }


def vote_of(scenario: Scenario, rho) -> np.ndarray:
    """Label of the vote in every cell; a tie goes to the first class."""
    return (rho @ np.array(scenario.voters) > 0.5 + 1e-12).astype(int)


def failures(scenario: Scenario, repetitions: int, seed: int = 0) -> dict[tuple[str, float], float]:
    """Fraction of data sets on which each bound is below the true error of the vote."""
    rng = np.random.default_rng(seed)
    joint = scenario.joint()
    table = np.array(scenario.voters)
    m = table.shape[0]
    prior = np.array(scenario.prior) if scenario.prior else np.full(m, 1 / m)
    draws: Counter[tuple[bytes, bytes]] = Counter()
    for _ in range(repetitions):
        counts = rng.multinomial(scenario.n, joint.ravel())
        points = rng.multinomial(scenario.u, scenario.cell_probability)
        draws[counts.tobytes(), points.tobytes()] += 1
    failed: Counter[tuple[str, float]] = Counter()
    # With few cells the same data set comes many times.
    for (count_bytes, point_bytes), times in draws.items():
        counts = np.frombuffer(count_bytes, dtype=np.int64).reshape(joint.shape)
        points = np.repeat(np.arange(joint.shape[0]), np.frombuffer(point_bytes, dtype=np.int64))
        errors = np.where(table == 1, counts[:, 0], counts[:, 1]).sum(axis=1)
        rho = prior * np.exp(-scenario.temperature * (errors - errors.min()))
        rho /= rho.sum()
        kl_div = max(0.0, float(np.sum(rho * np.log(np.where(rho > 0, rho / prior, 1.0)))))
        predicted = vote_of(scenario, rho)
        risk = joint[np.arange(predicted.size), 1 - predicted].sum()
        for delta in DELTAS:
            for name, bound in certify(scenario, counts, points, rho, kl_div, delta).items():
                failed[name, delta] += times * int(bound < risk - 1e-12)
    return {key: count / repetitions for key, count in failed.items()}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{repetitions} data sets per scenario; fraction of bounds below the true error of the vote\n")
    for i, scenario in enumerate(SCENARIOS):
        fractions = failures(scenario, repetitions)
        if i == 0:
            print(f"{'':40}" + "".join(f"{name:>14}" for name, delta in fractions if delta == DELTAS[0]))
        for delta in DELTAS:
            row = [fraction for (_, level), fraction in fractions.items() if level == delta]
            print(f"{scenario.name:32}{delta:8}" + "".join(f"{fraction:14.4f}" for fraction in row), flush=True)


if __name__ == "__main__":
    main()
