from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.bounds import confidence_term, xi


def by_definition(n):
    """The sum itself, in rational numbers."""
    terms = (Fraction(comb(n, k) * k**k * (n - k) ** (n - k), n**n) for k in range(n + 1))
    return sum(terms)


def by_ramanujans_sum(n, bits=128):
    """1 + Q(n) in fixed-point arithmetic, to some 30 digits: all terms are products of whole numbers over n."""
    one = 1 << bits
    term = total = one
    j = 0
    while term:
        term = term * (n - j) // n
        total += term
        j += 1
    return mp.mpf(total) / one


def assert_rounded_up(n, exact):
    value = mp.mpf(float(xi(n)))
    assert exact <= value <= exact * (1 + mp.mpf("1e-12")), n


class TestXi:
    def test_the_two_oracles_agree(self):
        """The identity xi(n) = 1 + Q(n), which the library rests on."""
        for n in [*range(1, 41), 100, 137]:
            exact = by_definition(n)
            oracle = mp.mpf(exact.numerator) / exact.denominator
            assert abs(by_ramanujans_sum(n) - oracle) < mp.mpf(10) ** -30
            assert_rounded_up(n, oracle)

    def test_every_n_up_to_2000(self):
        for n, value in enumerate(xi(np.arange(1, 2001)).tolist(), 1):
            exact = by_ramanujans_sum(n)
            assert exact <= mp.mpf(value) <= exact * (1 + mp.mpf("1e-12")), n

    def test_where_the_closed_form_begins(self):
        for n in range(8180, 8205):
            assert_rounded_up(n, by_ramanujans_sum(n))

    @given(st.integers(2000, 10**6))
    def test_up_to_a_million(self, n):
        assert_rounded_up(n, by_ramanujans_sum(n))

    def test_an_independent_formula(self):
        """The incomplete gamma function: xi(n) = exp(n) n^(-n) Gamma(n + 1, n)."""
        for n in (1, 2, 9, 60, 500, 3000):
            x = mp.mpf(n)
            assert_rounded_up(n, mp.exp(x - x * mp.log(x)) * mp.gammainc(x + 1, x))

    @pytest.mark.parametrize("n", [10**7, 10**8])
    def test_beyond_a_million(self, n):
        assert_rounded_up(n, by_ramanujans_sum(n))

    @pytest.mark.parametrize("n", [10**9, 10**12, 10**15, 10**40, 10**300])
    def test_far_beyond(self, n):
        """Between the bounds that Ramanujan claimed and Flajolet et al. proved."""
        x = mp.mpf(n)
        half = mp.sqrt(mp.pi * x / 2) * mp.exp(1 / (12 * x) - 1 / (360 * x**3))
        lowest = mp.mpf(2) / 3 + half - mp.mpf(4) / (135 * (x + mp.mpf(2) / 21))
        assert lowest <= mp.mpf(float(xi(float(n)))) <= lowest * (1 + mp.mpf("1e-12"))

    def test_rises_and_is_at_most_maurers_constant(self):
        n = np.concatenate((np.arange(1, 20_000), np.geomspace(2e4, 1e12, 500).round()))
        values = xi(n)
        assert (np.diff(values) > 0).all()
        # Equal at n = 1, where both are 2.
        assert (np.log(values) <= confidence_term(n, 0.5) - np.log(2) + 1e-14).all()
        assert (np.abs(values - np.sqrt(np.pi * n / 2) - 2 / 3) <= 0.11 / np.sqrt(n) + 1e-12 * values).all()

    def test_shapes(self):
        assert type(xi(7)) is float
        assert xi([[1, 2, 3], [2, 2, 10**9]]).shape == (2, 3)
        assert xi([]).shape == (0,)
        assert xi([5, 3, 5])[0] == xi([5, 3, 5])[2] == xi(5)

    @pytest.mark.parametrize("n", [0, -3, 2.5, np.nan, np.inf, "many"])
    def test_bad_n(self, n):
        with pytest.raises(ValueError, match=r"^n must be a whole number, at least 1, got "):
            xi(n)
