"""Upper limits on means: exact coverage by enumeration, and the formula once more in mpmath."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pacbayes import bounds, votes
from pacbayes.votes import _means


def capital(values, mean, high, bet):
    """What the gambler has if the mean is `mean`: more than 1 / delta refutes it."""
    bets = [mp.mpf(float(c)) for c in _means._BETS]
    shares = [mp.mpf(1) / len(bets)] * len(bets)
    if bet is not None:
        bets, shares = [mp.mpf(bet), *bets], [mp.mpf(0.5), *(share / 2 for share in shares)]
    gaps = [(mp.mpf(high) - mp.mpf(value)) / (high - mean) for value in values]
    return mp.fsum(s * mp.fprod(1 - c + c * gap for gap in gaps) for c, s in zip(bets, shares, strict=True))


@settings(max_examples=100)
@given(
    st.lists(st.floats(-3, 1), min_size=1, max_size=12),
    st.floats(1e-6, 0.9),
    st.one_of(st.none(), st.floats(1e-3, 0.999)),
)
def test_the_limit_is_where_the_capital_reaches_one_over_delta(values, delta, bet):
    limit = votes.mean_upper_bound(values, delta, bet=bet)
    # All that is above the limit is refuted, and what is a little below is not.
    if limit < 1:
        assert capital(values, mp.mpf(limit), 1, bet) >= 1 / mp.mpf(delta)
    assert capital(values, mp.mpf(limit) - mp.mpf("1e-8"), 1, bet) <= 1 / mp.mpf(delta)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("u", [5, 40])
def test_coverage_for_zero_and_one_is_exact(u, delta):
    """Over all outcomes of u values 0 or 1."""
    limits = np.array([votes.mean_upper_bound([1.0] * k + [0.0] * (u - k), delta) for k in range(u + 1)])
    for p in np.linspace(0.01, 0.99, 60):
        assert stats.binom.pmf(np.arange(u + 1), u, p)[limits < p].sum() <= delta
    # Close to what the kl inequality gives, and never below the exact tail.
    assert np.all(limits >= bounds.clopper_pearson(np.arange(u + 1), u, delta))


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("support", [(0.0, -0.5, 1.0), (0.0, -2.0, 0.25), (1.0, 0.9, 0.0)])
def test_coverage_for_three_values_is_exact(support, delta):
    """Over all outcomes of 7 values, with negative ones below which no limit is known."""
    u = 7
    counts = [c for c in itertools.product(range(u + 1), repeat=3) if sum(c) == u]
    limits = np.array([votes.mean_upper_bound(np.repeat(support, c), delta) for c in counts])
    for p in ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8), (0.95, 0.04, 0.01), (0.5, 0.3, 0.2), (0.0, 0.9, 0.1)):
        probability = stats.multinomial.pmf(counts, u, p)
        assert probability[limits < np.dot(support, p) - 1e-12].sum() <= delta


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(1e-6, 0.99), st.randoms())
def test_properties(values, delta, random):
    limit = votes.mean_upper_bound(values, delta)
    assert np.mean(values) - 1e-12 <= limit <= 1
    shuffled = random.sample(values, len(values))
    assert votes.mean_upper_bound(shuffled, delta) == pytest.approx(limit, abs=1e-9)
    assert votes.mean_upper_bound(values, delta / 2) >= limit - 1e-9
    moved = votes.mean_upper_bound(3 * np.array(values) - 1, delta, high=2)
    assert moved == pytest.approx(3 * limit - 1, abs=1e-8)


def test_many_values_are_rounded_to_the_safe_side(monkeypatch):
    values = np.random.default_rng(0).beta(1, 20, 30_000)
    rounded = votes.mean_upper_bound(values, 0.01)
    monkeypatch.setattr(_means, "_LEVELS", 10**6)
    assert votes.mean_upper_bound(values, 0.01) <= rounded <= votes.mean_upper_bound(values, 0.01) + 1e-4


def test_adapts_to_the_variance():
    """Below empirical Bernstein (Maurer and Pontil) for a small variance, below kl for values between 0 and 1."""
    rng = np.random.default_rng(0)
    u, delta = 500, 0.01
    values = 0.3 + 0.05 * rng.random(u)
    bernstein = values.mean() + math.sqrt(2 * values.var(ddof=1) * math.log(2 / delta) / u)
    bernstein += 7 * math.log(2 / delta) / (3 * (u - 1))
    assert votes.mean_upper_bound(values, delta) < bernstein
    assert votes.mean_upper_bound(values, delta) < bounds.kl_inverse_upper(values.mean(), math.log(1 / delta) / u)


def test_a_chosen_bet_is_near_what_was_expected():
    rng = np.random.default_rng(1)
    before, after = rng.beta(1, 9, 4000), rng.beta(1, 9, 300)
    bet, expected = _means.choose_bet(before, 300, 0.02, 1.0)
    assert votes.mean_upper_bound(after, 0.02, bet=bet) == pytest.approx(expected, abs=0.02)
    assert votes.mean_upper_bound(after, 0.02, bet=bet) < votes.mean_upper_bound(after, 0.02)


def test_nothing_is_proved_where_all_values_are_largest():
    assert votes.mean_upper_bound([1.0, 1.0], 0.05) == 1.0
    assert _means.choose_bet(np.ones(3), 10, 0.05, 1.0)[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": []}, "values must be a one-dimensional, non-empty array"),
        ({"values": [0.5, 1.5]}, "values must be finite and at most high = 1, got"),
        ({"values": [0.5, np.nan]}, "values must be finite and at most high = 1, got nan"),
        ({"values": [0.5, -np.inf]}, "values must be finite and at most high = 1, got -inf"),
        ({"values": ["a"]}, "values must be an array of numbers"),
        ({"values": [0.5], "delta": 1.0}, r"delta must be in \(0, 1\), got 1.0"),
        ({"values": [0.5], "high": np.inf}, "high must be in"),
        ({"values": [0.5], "bet": 0.9999}, r"bet must be in \(0, 0.999\], got 0.9999"),
        ({"values": [0.5], "bet": 0.0}, r"bet must be in \(0, 0.999\], got 0.0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        votes.mean_upper_bound(**arguments)
