"""Bounds from unlabelled points, against finite worlds in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from finite_world import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pacbayes import bounds, votes
from pacbayes.votes import _unlabelled

GAMMAS = [Fraction(1), Fraction(3, 4), Fraction(1, 2), Fraction(1, 5), Fraction(1, 20)]


def two_largest(world):
    """Shares of winner and runner-up at every input."""
    ranked = [sorted(world.shares(x), reverse=True) for x in world.inputs]
    return [r[0] for r in ranked], [r[1] for r in ranked]


def exact_margin_values(world, gamma):
    first, second = two_largest(world)
    return [max(Fraction(0), 1 - (s1 - s2) / gamma) - (1 - s1) / gamma for s1, s2 in zip(first, second, strict=True)]


@given(worlds(), st.sampled_from(GAMMAS))
def test_margins_bound_the_vote_in_every_finite_world(world, gamma):
    values = exact_margin_values(world, gamma)
    population = world.wrong_weight_moment(1) / gamma + world.mean(values)
    assert world.error(world.vote()) <= population
    assert max(values) <= max(Fraction(0), 1 - 1 / (2 * gamma))
    first, second = (np.array(share, dtype=float) for share in two_largest(world))
    assert _unlabelled._margin_values(first, second, float(gamma)) == pytest.approx(
        np.array(values, dtype=float), abs=1e-12
    )


@settings(max_examples=50)
@given(worlds(), st.floats(0.01, 0.9))
def test_margin_bound_of_a_sample_that_is_the_distribution(world, delta):
    """With every input as often as its probability says, the mean is exact and its limit above it."""
    first, second = (np.array(share, dtype=float) for share in two_largest(world))
    denominator = np.lcm.reduce([world.probability(x).denominator for x in world.inputs])
    times = [int(world.probability(x) * denominator) for x in world.inputs]
    gibbs = np.nextafter(float(world.wrong_weight_moment(1)), 1)
    first, second = np.repeat(first, times), np.repeat(second, times)
    bound = votes.margin_bound(gibbs, first, second, delta)
    assert bound >= world.error(world.vote())
    assert bound <= votes.first_order(gibbs)
    choice = votes.choose_margin(gibbs, first, second, n_points=first.size, delta=delta)
    assert votes.margin_bound(gibbs, first, second, delta, gamma=choice.gamma, bet=choice.bet) >= world.error(
        world.vote()
    )


def test_margin_bound_is_an_equality_where_errors_cost_the_least_margin():
    """3 of 5 voters err at a fifth of the points, none elsewhere: G = 0.12, the vote errs with probability 0.2."""
    u = 10**6
    first = np.repeat([1.0, 0.6], [4 * u // 5, u // 5])
    assert votes.margin_bound(0.12, first, 1 - first, 0.01, gamma=0.2) == pytest.approx(0.2, abs=0.01)
    assert votes.first_order(0.12) == 0.24


def test_a_margin_chosen_elsewhere_beats_the_grid():
    rng = np.random.default_rng(0)
    first = 1 - rng.beta(0.3, 3, 4000) / 2
    choice = votes.choose_margin(0.12, first[:2000], 1 - first[:2000], n_points=2000, delta=0.01)
    chosen = votes.margin_bound(0.12, first[2000:], 1 - first[2000:], 0.01, gamma=choice.gamma, bet=choice.bet)
    assert chosen < votes.margin_bound(0.12, first[2000:], 1 - first[2000:], 0.01)
    assert chosen == pytest.approx(choice.expected, abs=0.02)


def test_rounded_shares_are_accepted():
    above_one = np.array([1.0 + 4e-16, 0.5])
    assert votes.margin_bound(0.1, above_one, [0.0, 0.5 + 1e-16], 0.1) == pytest.approx(0.2)


@given(worlds(), st.data())
def test_disagreement_bounds_any_classifier_in_every_finite_world(world, data):
    label = st.integers(0, len(world.classes) - 1)
    classifier = data.draw(st.lists(label, min_size=len(world.inputs), max_size=len(world.inputs)))
    for table in world.voters:
        apart = world.mean([Fraction(int(table[x] != classifier[x])) for x in world.inputs])
        assert world.error(classifier) <= world.error(table) + apart


@given(st.floats(0, 1), st.integers(1, 200), st.data(), st.floats(1e-4, 0.9))
def test_disagreement_bound_is_a_sum(bound, u, data, delta):
    k = data.draw(st.integers(0, u))
    exact = bound + (stats.beta.ppf(1 - delta, k + 1, u - k) if k < u else 1.0)
    assert votes.disagreement_bound(bound, k, u, delta) == pytest.approx(min(1.0, exact), rel=1e-7)
    assert votes.disagreement_bound(bound, k, u, delta) >= min(1.0, bound + bounds.clopper_pearson(k, u, delta))


def test_choose_voter_weighs_bound_and_disagreement():
    assert votes.choose_voter([0.1, 0.11], [0.05, 0.0], n_points=1000) == 1
    assert votes.choose_voter([0.1, 0.3], [0.05, 0.0], n_points=1000) == 0


@given(st.floats(1e-6, 0.999), st.integers(1, 10**9), st.integers(1, 10**9))
def test_split_delta_spends_no_more_than_delta(delta, n, u):
    labelled, unlabelled = votes.split_delta(delta, n, u)
    assert labelled > 0
    assert unlabelled > 0
    assert Fraction(labelled) + Fraction(unlabelled) <= Fraction(delta)
    assert labelled + unlabelled == pytest.approx(delta)
    assert votes.split_delta(delta, n, 4 * u)[1] < unlabelled


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: votes.margin_bound(0.1, [0.4], [0.6]), "runner_up_share must be at most winner_share"),
        (lambda: votes.margin_bound(0.1, [0.9], [0.6]), "must sum to at most 1"),
        (lambda: votes.margin_bound(0.1, [1.2], [0.0]), r"winner_share must be in \[0, 1\], got 1.2"),
        (lambda: votes.margin_bound(0.1, [], []), "must be one-dimensional with one entry per point"),
        (lambda: votes.margin_bound(0.1, [0.9, 0.8], [0.1]), r"got shapes \(2,\) and \(1,\)"),
        (lambda: votes.margin_bound(np.nan, [0.9], [0.1]), "gibbs_bound must be non-negative and finite, got nan"),
        (lambda: votes.margin_bound(0.1, [0.9], [0.1], gamma=0.0), r"gamma must be in \(0, 1\], got 0.0"),
        (lambda: votes.margin_bound(0.1, [0.9], [0.1], gamma=[]), "gamma must be a number or a non-empty sequence"),
        (lambda: votes.margin_bound(0.1, [0.9], [0.1], delta=0.0), r"delta must be in \(0, 1\), got 0.0"),
        (lambda: votes.choose_margin(0.1, [0.9], [0.1], 0), "n_points must be a whole number, at least 1, got 0"),
        (lambda: votes.choose_margin(0.1, [0.9], [0.1], 9, gammas=[]), "gammas must be a number or a non-empty"),
        (lambda: votes.disagreement_bound(0.1, 5, 4), "n_disagreements must be at most n_points, got 5 of 4"),
        (lambda: votes.disagreement_bound(-0.1, 1, 4), "voter_bound must be non-negative and finite, got -0.1"),
        (lambda: votes.disagreement_bound(0.1, 0, 0), "n_points must be a whole number, at least 1, got 0"),
        (lambda: votes.choose_voter([0.1], [0.1, 0.2], 5), r"got shapes \(1,\) and \(2,\)"),
        (lambda: votes.split_delta(0.05, 10, 0), "n_unlabelled must be a whole number, at least 1, got 0"),
        (lambda: votes.split_delta(1.0, 10, 10), r"delta must be in \(0, 1\), got 1.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_margins_are_numbers():
    with pytest.raises(ValueError, match="gamma must be a number or a non-empty sequence of numbers, got shape"):
        votes.margin_bound(0.05, [0.9], [0.1], gamma=[])
