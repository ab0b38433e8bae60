"""Bounds from several voters, against finite worlds in exact arithmetic and the full linear programme."""

from fractions import Fraction

import numpy as np
import pytest
from finite_world import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pacbayes import bounds, votes
from pacbayes.votes import _unlabelled, _voters

weights_of = st.lists(st.fractions(0, 3, max_denominator=8), min_size=5, max_size=5)


@given(worlds(), weights_of, st.data())
def test_voters_bound_any_classifier_in_every_finite_world(world, weights, data):
    """With the exact losses for bounds, and any classifier in place of the vote."""
    label = st.integers(0, len(world.classes) - 1)
    classifier = data.draw(st.lists(label, min_size=len(world.inputs), max_size=len(world.inputs)))
    w = weights[: len(world.voters)]
    plain, tight, runner_up = [], [], []
    for x in world.inputs:
        weight = [
            sum((v for v, table in zip(w, world.voters, strict=True) if table[x] == c), Fraction(0))
            for c in world.classes
        ]
        against = sum(w, Fraction(0)) - weight[classifier[x]]
        rival = max(v for c, v in enumerate(weight) if c != classifier[x])
        plain.append(max(Fraction(0), 1 - sum(w, Fraction(0)) + 2 * against) - against)
        tight.append(max(-against, 1 - sum(w, Fraction(0)) + rival))
        runner_up.append(rival)
    labelled = sum((v * world.error(table) for v, table in zip(w, world.voters, strict=True)), Fraction(0))
    assert world.error(classifier) <= labelled + world.mean(tight) <= labelled + world.mean(plain)
    assert max(plain) <= 1
    # The same values in floats.
    apart = np.array(world.voters) != classifier
    w_float = np.array(w, dtype=float)
    assert _voters._voter_values(w_float, apart, None) == pytest.approx(np.array(plain, dtype=float), abs=1e-12)
    rivals = np.array(runner_up, dtype=float)
    assert _voters._voter_values(w_float, apart, rivals) == pytest.approx(np.array(tight, dtype=float), abs=1e-12)


@settings(max_examples=50)
@given(worlds(), weights_of, st.floats(0.01, 0.4))
def test_bound_of_a_sample_that_is_the_distribution(world, weights, delta):
    """With every input as often as its probability says, the mean is exact and its limit above it.

    For large delta the limit of a confidence of less than one half may be below the mean, as it should.
    """
    vote = world.vote()
    denominator = np.lcm.reduce([world.probability(x).denominator for x in world.inputs])
    times = [int(world.probability(x) * denominator) for x in world.inputs]
    apart = np.repeat(np.array(world.voters) != vote, times, axis=1)
    losses = np.array([np.nextafter(float(world.error(table)), 1) for table in world.voters])
    w = np.array(weights[: losses.size], dtype=float)
    assert votes.voters_bound(losses, apart, w, delta) >= world.error(vote)
    assert votes.voters_bound(losses, apart.astype(float), w, delta) >= world.error(vote)
    chosen = votes.optimize_voter_weights(losses, apart, n_points=apart.shape[1], delta=delta)
    assert votes.voters_bound(losses, apart, chosen.w, delta, bet=chosen.bet) >= world.error(vote)


def full_programme(voter_bounds, apart):
    """The linear programme with all voters and one slack variable for every point."""
    n = apart.shape[1]
    cost = np.concatenate((voter_bounds - apart.mean(axis=1), np.full(n, 1 / n)))
    columns = np.hstack((-(1.0 - 2.0 * apart.T), -np.eye(n)))
    result = linprog(cost, A_ub=columns, b_ub=-np.ones(n), method="highs-ipm")
    assert result.success
    return result.fun


@pytest.mark.parametrize("m", [1, 5, 40, 120])
@pytest.mark.parametrize("seed", range(3))
def test_weights_solve_the_full_programme(m, seed):
    """Diverse voters, so that several have weight; more of them than enter at first."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.02, 0.2, m)
    apart = rng.random((m, 300)) < rates[:, np.newaxis]
    voter_bounds = apart.mean(axis=1) + rng.uniform(0, 0.05, m)
    chosen = votes.optimize_voter_weights(voter_bounds, apart)
    assert chosen.expected == pytest.approx(full_programme(voter_bounds, apart), abs=1e-6)
    value = voter_bounds @ chosen.w + np.mean(
        np.maximum(0, 1 - chosen.w @ (1.0 - 2.0 * apart)) - chosen.w @ apart.astype(float)
    )
    assert value == pytest.approx(chosen.expected, abs=1e-9)


def test_weights_stay_bounded_where_disagreements_contradict_the_bounds():
    apart = np.zeros((3, 300), dtype=bool)
    apart[0, :100] = apart[1, 100:200] = apart[2, 200:] = True
    chosen = votes.optimize_voter_weights([0.1, 0.1, 0.1], apart, n_points=100)
    assert chosen.w.sum() <= 16
    assert 0 <= votes.voters_bound([0.1, 0.1, 0.1], apart, chosen.w, bet=chosen.bet) <= 1


def test_several_diverse_voters_beat_each_single_one():
    rng = np.random.default_rng(0)
    apart = rng.random((20, 40_000)) < 0.1
    voter_bounds = np.full(20, 0.12)
    chosen = votes.optimize_voter_weights(voter_bounds, apart[:, :20_000], n_points=20_000, delta=0.01)
    several = votes.voters_bound(voter_bounds, apart[:, 20_000:], chosen.w, 0.01, bet=chosen.bet)
    single = min(votes.voters_bound(voter_bounds, apart[:, 20_000:], row, 0.01) for row in np.eye(20))
    assert np.count_nonzero(chosen.w) > 1
    assert several < 0.8 * single
    assert several == pytest.approx(chosen.expected, abs=0.02)


def test_a_single_voter_has_an_exact_limit():
    apart = np.zeros((2, 100), dtype=bool)
    apart[0, :3] = True
    expected = votes.disagreement_bound(0.1, 3, 100, 0.02)
    assert votes.voters_bound([0.1, 0.3], apart, [1, 0], 0.02) == pytest.approx(expected, rel=1e-12)
    # With less weight, it is mixed with the trivial bound 1.
    assert votes.voters_bound([0.1, 0.3], apart, [0.5, 0], 0.02) == pytest.approx(0.5 + expected / 2, rel=1e-12)
    assert votes.voters_bound([0.1, 0.3], apart, [0, 0], 0.02) == 1.0
    # Numbers in [0, 1] may be of a randomised voter, for which the binomial tail does not hold.
    assert votes.voters_bound([0.1, 0.3], apart.astype(float), [1, 0], 0.02) > expected


def test_weights_for_few_points_are_no_worse_than_the_best_single_voter():
    rng = np.random.default_rng(0)
    apart = rng.random((6, 500)) < 0.05
    chosen = votes.optimize_voter_weights(np.full(6, 0.1), apart, n_points=20, delta=0.05)
    singles = 0.1 + bounds.clopper_pearson(np.rint(apart.mean(axis=1) * 20), 20, 0.05)
    assert chosen.expected <= singles.min()


def test_equals_the_margin_bound_for_the_weights_of_the_vote():
    rng = np.random.default_rng(0)
    rho = np.array([0.4, 0.35, 0.25])
    codes = (rng.random((3, 400)) < 0.15).astype(int)
    share = rho @ codes
    winner = np.maximum(share, 1 - share)
    apart = codes != (share > 0.5)
    values = _voters._voter_values(rho / 0.5, apart, None)
    assert values == pytest.approx(_unlabelled._margin_values(winner, 1 - winner, 0.5), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: votes.voters_bound([], np.zeros((0, 3)), []), "voter_bounds must be a one-dimensional, non-empty"),
        (lambda: votes.voters_bound([0.1], np.zeros((2, 3)), [1]), "disagreement must have a row for each of the 1 "),
        (lambda: votes.voters_bound([0.1], np.zeros((1, 0)), [1]), "a column for each point, got shape"),
        (lambda: votes.voters_bound([0.1], [[0.5, 2.0]], [1]), r"disagreement must be in \[0, 1\], got 2.0"),
        (lambda: votes.voters_bound([0.1], [["x"]], [1]), "disagreement must be booleans or numbers"),
        (lambda: votes.voters_bound([np.nan], [[True]], [1]), "voter_bounds must be non-negative and finite, got nan"),
        (lambda: votes.voters_bound([0.1], [[True]], [1, 2]), "w must have one weight for each of the 1 voters"),
        (lambda: votes.voters_bound([0.1], [[True]], [-1]), "w must be non-negative and finite, got -1.0"),
        (lambda: votes.voters_bound([0.1, 0.1], np.ones((2, 2)), [1, 1], runner_up=[1]), "runner_up must have one"),
        (lambda: votes.voters_bound([0.1], [[True]], [1], 2.0), r"delta must be in \(0, 1\), got 2.0"),
        (lambda: votes.optimize_voter_weights([0.1], [[True]], n_points=0), "n_points must be a whole number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
