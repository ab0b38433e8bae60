"""First-order bounds and subset sums, against all subsets in exact arithmetic."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from finite_world import worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes import bounds, votes
from pacbayes.votes import _weights

EPS = np.finfo(float).eps


def smallest_half(weights, below=Fraction(0)):
    """Smallest sum of a subset of the weights, normalised exactly, that is at least 1/2 - below."""
    exact = [Fraction(weight) for weight in weights]
    # A common denominator, so that all subsets are summed in integers.
    denominator = math.lcm(*(weight.denominator for weight in exact))
    numerators = [int(weight * denominator) for weight in exact]
    sums = {0}
    for numerator in numerators:
        sums |= {s + numerator for s in sums}
    total = sum(numerators)
    threshold = (Fraction(1, 2) - below) * total
    return Fraction(min(s for s in sums if s >= threshold), total)


positive = st.one_of(st.integers(1, 50).map(float), st.floats(1e-6, 1.0), st.sampled_from([1.0, 0.5, 0.25, 1e-9]))


@given(st.lists(positive, min_size=1, max_size=12))
def test_constant_is_the_smallest_subset_sum(weights):
    rho = np.array(weights) / np.sum(weights)
    constant = votes.subset_sum_constant(rho)
    assert 0.5 <= constant <= smallest_half(rho)
    # What the vote's rounding cannot tell from a tie is a tie; else the constant is exact.
    assert constant >= max(0.5, float(smallest_half(rho, below=Fraction(1e-13)))) - 1e-13


@settings(max_examples=50)
@given(st.lists(positive, min_size=10, max_size=16), st.integers(2, 40))
def test_weights_that_are_not_enumerated_only_lower_the_constant(weights, limit):
    rho = np.array(weights) / np.sum(weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_weights, "_HALVES", (limit,))
        constant = votes.subset_sum_constant(rho)
        patch.setattr(_weights, "_HALVES", (2, limit))
        assert votes.subset_sum_constant(rho) == constant  # fewer sums first change nothing
    assert 0.5 <= constant <= smallest_half(rho)


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=7), st.integers(-4, 4))
def test_near_ties_count_as_ties(half, steps):
    """Two equal halves, one of them moved by a few units in the last place."""
    weights = np.array(half + half, dtype=float)
    weights /= weights.sum()
    weights[0] += steps * np.spacing(weights[0])
    assert votes.subset_sum_constant(weights) == 0.5


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0], 1.0),
        ([0.5, 0.5], 0.5),
        ([0.6, 0.4], 0.6),
        ([0.7, 0.2, 0.1], 0.7),
        ([1 / 101] * 101, 51 / 101),
        ([1 / 9999] * 9999, 5000 / 9999),
        ([0.0, 0.0, 1.0], 1.0),
        ([0.4, 0.4, 0.2], 0.6),
    ],
)
def test_constants_known_in_closed_form(weights, expected):
    assert votes.subset_sum_constant(weights) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("m", [10**3, 10**6])
def test_many_voters(m):
    """One voter with 0.4 and many small ones: any sum above one half can be had, up to the smallest weight."""
    rho = np.full(m, 0.6 / (m - 1))
    rho[0] = 0.4
    assert 0.5 <= votes.subset_sum_constant(rho) <= 0.5 + 1.2 / (m - 1)
    rho = np.random.default_rng(0).exponential(size=m)
    assert votes.subset_sum_constant(rho / rho.sum()) == pytest.approx(0.5, abs=1e-6)


@given(worlds())
def test_bounds_hold_in_every_finite_world(world):
    gibbs, error = world.wrong_weight_moment(1), world.error(world.vote())
    assert error <= 2 * gibbs
    assert error * smallest_half(world.rho) <= gibbs
    # Rounded up to a float, as an upper bound is.
    bound = np.nextafter(float(gibbs), 1)
    rho = np.array(world.rho, dtype=float)
    assert votes.first_order(bound) >= error
    assert votes.subset_sum_bound(bound, rho) >= error
    assert votes.subset_sum_bound(bound, rho) <= votes.first_order(bound) * (1 + 1e-12)


@given(worlds())
def test_a_heavy_voter_is_the_vote(world):
    heavy = votes.heavy_voter(np.array(world.rho, dtype=float))
    if heavy is None:
        assert max(world.rho) <= Fraction(1, 2)
    else:
        assert world.rho[heavy] > Fraction(1, 2)
        assert world.voters[heavy] == world.vote()


def test_half_of_the_weight_is_not_a_heavy_voter():
    for weight in (0.5, np.nextafter(0.5, 1), 0.5 + 1e-15):
        assert votes.heavy_voter([weight, 1 - weight]) is None
    assert votes.heavy_voter([0.49, 0.51]) == 1


def test_broadcasts_over_bounds():
    result = votes.subset_sum_bound([0.1, 0.5, 2.0], [0.8, 0.2])
    assert result == pytest.approx([0.125, 0.625, 1.0])
    assert np.array_equal(votes.first_order([0.1, 0.7]), bounds.majority_vote([0.1, 0.7]))


def test_the_worst_wrong_sets_reach_the_constant():
    """The bound is an equality where the voters that err always are the smallest set of at least half the weight."""
    rho = np.array([0.35, 0.3, 0.2, 0.15])
    smallest = min(sum(c) for k in range(5) for c in combinations(rho, k) if sum(c) >= 0.5 - 1e-12)
    assert votes.subset_sum_bound(0.1 * smallest, rho) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: votes.subset_sum_constant([0.5, 0.4]), "rho must sum to one, got a sum of 0.9"),
        (lambda: votes.subset_sum_constant([]), "rho must be a one-dimensional, non-empty array"),
        (lambda: votes.subset_sum_constant([[0.5, 0.5]]), "rho must be a one-dimensional, non-empty array"),
        (lambda: votes.subset_sum_constant([1.5, -0.5]), "rho must be non-negative and finite, got -0.5"),
        (lambda: votes.heavy_voter([np.nan, 1.0]), "rho must be non-negative and finite, got nan"),
        (lambda: votes.subset_sum_bound(-0.1, [1.0]), "gibbs_bound must be non-negative, got -0.1"),
        (lambda: votes.first_order(np.nan), "gibbs_bound must be non-negative, got nan"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()
