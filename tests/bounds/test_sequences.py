"""Confidence sequences: 60-digit arithmetic, coverage at all times, and what they cost."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes.bounds import anytime_lower, anytime_upper, clopper_pearson
from pacbayes.bounds.sequences import _BETS, LOG_STAKES, log_gains, refutes, stake_anew

mp.mp.dps = 60


def confidence_sequence(errors, n, delta=0.05):
    level = np.divide(delta, 2)
    return anytime_lower(errors, n, level), anytime_upper(errors, n, level)


def exact_capital(errors, n, rate):
    """What all bets have won together on n points, with stakes as they are in floats."""
    p = mp.mpf(rate)
    return mp.fsum(
        mp.exp(mp.mpf(stake)) * (1 + mp.mpf(bet)) ** errors / (1 + mp.mpf(bet) * p) ** n
        for bet, stake in zip(_BETS.tolist(), LOG_STAKES.tolist(), strict=True)
    )


@st.composite
def counts(draw, most=10**9):
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n)), n


def test_stakes_are_at_most_the_capital():
    assert mp.fsum(mp.exp(mp.mpf(stake)) for stake in LOG_STAKES.tolist()) <= 1
    starts = [0.5, *(0.5 / (i * (i - 1)) for i in range(2, 2000))]
    assert sum(starts) < 1
    first = stake_anew(-np.inf, 1, np.zeros(LOG_STAKES.size))
    assert np.exp(first) == pytest.approx(0.5)
    assert np.exp(stake_anew(first, 2, np.zeros(LOG_STAKES.size))) == pytest.approx(0.75)


@settings(max_examples=40, deadline=None)
@given(counts(), st.floats(1e-9, 1 - 1e-9))
def test_gains_are_rounded_down(count, rate):
    errors, n = count
    for bet, gain in zip(_BETS[::9].tolist(), log_gains(errors, n, rate)[::9].tolist(), strict=True):
        exact = errors * mp.log1p(mp.mpf(bet)) - n * mp.log1p(mp.mpf(bet) * mp.mpf(rate))
        size = errors * mp.log1p(mp.mpf(bet)) + n * mp.log1p(mp.mpf(bet) * mp.mpf(rate))
        assert exact - size * mp.mpf(1e-14) <= gain <= exact


@settings(max_examples=40, deadline=None)
@given(counts(), st.sampled_from([1e-300, 1e-12, 0.01, 0.05, 0.3, 0.999]))
def test_limits_are_those_of_exact_arithmetic_rounded_the_safe_way(count, delta):
    errors, n = count
    lower, upper = confidence_sequence(errors, n, delta)
    for limit, k in ((lower, errors), (1 - mp.mpf(upper), n - errors)):
        if limit == 0:
            continue
        limit = mp.mpf(limit)
        assert exact_capital(k, n, limit) >= 2 / mp.mpf(delta)  # so the limit is refuted
        # And nothing that matters above it is.
        assert exact_capital(k, n, limit * (1 + mp.mpf(1e-9)) + mp.mpf(1e-15) + mp.mpf(1e-7) / n) < 2 / mp.mpf(delta)


@settings(max_examples=50, deadline=None)
@given(counts(10**6), st.floats(1e-6, 0.9))
def test_limits_hold_the_share_of_errors_and_clopper_pearson(count, delta):
    errors, n = count
    lower, upper = confidence_sequence(errors, n, delta)
    assert 0 <= lower <= errors / n <= upper <= 1
    assert upper >= clopper_pearson(errors, n, delta / 2) * (1 - 1e-7)
    mirrored = confidence_sequence(n - errors, n, delta)
    assert (lower, upper) == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1e-12)
    wider = confidence_sequence(errors, n, delta / 2)
    assert wider[0] <= lower
    assert upper <= wider[1]


def test_arrays_are_single_counts():
    errors, n = np.array([[0, 3], [50, 100]]), np.array([100, 1000])
    lower, upper = confidence_sequence(errors, n)
    assert lower.shape == upper.shape == (2, 2)
    assert (lower[1, 0], upper[1, 0]) == confidence_sequence(50, 100)
    assert anytime_upper(3, 10, [0.1, 0.2]).tolist() == [anytime_upper(3, 10, 0.1), anytime_upper(3, 10, 0.2)]
    assert isinstance(anytime_lower(3, 10), float)


def test_the_price_of_any_time():
    """25 errors of 500: a test of a fixed size proves 0.0691, a uniform mixture at any time 0.088."""
    assert clopper_pearson(25, 500) < 0.0692 < anytime_upper(25, 500) < 0.082


def test_intervals_shrink_to_the_rate():
    width = np.subtract(*confidence_sequence([10, 10**3, 10**5, 10**7], [10**2, 10**4, 10**6, 10**8])[::-1])
    assert (width[1:] < 0.15 * width[:-1]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4), "errors must be at most n, got 5"),
        ((-1, 4), "errors must be a whole number, at least 0"),
        ((0, 0), "n must be a whole number, at least 1"),
        ((np.nan, 4), "errors must be a whole number"),
        ((1, 4, 0), r"delta must be in \(0, 1\)"),
    ],
)
def test_wrong_arguments(arguments, message):
    for bound in (anytime_lower, anytime_upper):
        with pytest.raises(ValueError, match=message):
            bound(*arguments)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_the_rate_is_inside_at_all_times(delta, rate):
    """The rate leaves the interval after some point if it is refuted there, as a rate or by the other points."""
    rng = np.random.default_rng(0)
    errors = np.zeros(400)
    left = np.zeros(400, dtype=bool)
    for n in range(1, 201):
        errors += rng.random(400) < rate
        low, high = log_gains(errors, n, rate), log_gains(n - errors, n, 1 - rate)
        left |= refutes(low, delta / 2) | refutes(high, delta / 2)
    assert left.mean() <= delta
    last = anytime_lower(errors, 200, delta / 2) >= rate
    assert not (last & ~left).any()
