from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pacbayes.votes import count_half_mass, tally, weighted_vote

weights_and_votes = st.integers(1, 12).flatmap(
    lambda m: st.tuples(
        st.lists(st.integers(0, 6), min_size=m, max_size=m).filter(any),
        arrays(np.intp, st.tuples(st.just(m), st.integers(0, 7)), elements=st.integers(0, 3)),
    )
)


@given(weights_and_votes)
def test_tally_by_brute_force(drawn):
    """Weights that are small whole numbers over 64 are added without rounding."""
    counts, votes = drawn
    sums = tally(votes, np.array(counts) / 64, 4)
    for point in range(votes.shape[1]):
        for code in range(4):
            assert sums[point, code] * 64 == sum(
                count for count, vote in zip(counts, votes[:, point], strict=True) if vote == code
            )


@given(weights_and_votes)
def test_vote_by_brute_force(drawn):
    counts, votes = drawn
    winners = weighted_vote(votes, np.array(counts) / 64, 4)
    for point, winner in enumerate(winners):
        sums = [sum(c for c, vote in zip(counts, votes[:, point], strict=True) if vote == code) for code in range(4)]
        assert sums[winner] == max(sums)
        assert winner == sums.index(max(sums))


@pytest.mark.parametrize("split", [0, 1, 17, 40])
def test_tally_in_parts_is_the_same_to_the_bit(split):
    """One sum for each cell, one weight after the other, however the hypotheses are divided."""
    rng = np.random.default_rng(0)
    votes, weights = rng.integers(3, size=(40, 23)), rng.random(40) ** 9
    first = tally(votes[:split], weights[:split], 3)
    before = first.copy()
    np.testing.assert_array_equal(tally(votes[split:], weights[split:], 3, initial=first), tally(votes, weights, 3))
    np.testing.assert_array_equal(first, before)


def test_ties_are_exact_and_go_to_the_first_class():
    """A third, added three times in any order, on either side."""
    rng = np.random.default_rng(1)
    votes = np.array([rng.permutation([0, 1] * 15) for _ in range(200)]).T
    assert not weighted_vote(votes, np.full(30, 1 / 30), 2).any()


def test_tally_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"one row for each of the weights, of shape \(2,\), got shape \(3, 4\)"):
        tally(np.zeros((3, 4), dtype=np.intp), [0.5, 0.5], 2)
    with pytest.raises(ValueError, match=r"weights must be non-negative and finite, got nan"):
        tally(np.zeros((2, 4), dtype=np.intp), [0.5, np.nan], 2)
    with pytest.raises(ValueError, match=r"votes must be class codes from 0 to 1, got 0 to 2"):
        tally(np.array([[0, 2], [1, 1]]), [0.5, 0.5], 2)


def brute_force_half(weights):
    """Fewest hypotheses that hold half of the mass, in exact arithmetic."""
    ordered = sorted(weights, reverse=True)
    return next(count for count in range(1, len(ordered) + 1) if 2 * sum(ordered[:count]) >= sum(ordered))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60).filter(any))
def test_half_mass_by_brute_force(counts):
    """Of weights that are fractions, rounded to floats: as of the fractions themselves."""
    weights = np.array(counts) / sum(counts)
    assert count_half_mass(weights) == brute_force_half([Fraction(count, sum(counts)) for count in counts])


def test_half_mass_of_equal_weights():
    for m in [*range(1, 400), 99_998, 99_999, 3_000_001]:
        assert count_half_mass(np.full(m, 1 / m)) == (m + 1) // 2


def test_half_mass_needs_mass():
    for wrong in ([], [0.0, 0.0], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="weights must be a one-dimensional array with a positive sum"):
            count_half_mass(wrong)
