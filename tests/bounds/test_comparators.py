import math
from itertools import product

import dual_oracle as oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes.bounds.comparators import CatoniMixture, KlComparator, make_comparator

SIZES = [1, 2, 7, 50, 1000, 10**6, 10**12]
LOSSES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-3, 1e-9, 1e-280, 1 - 1e-12]), st.floats(1e-280, 1))


def everything(conjugate):
    return np.ones(conjugate.shape, dtype=bool)


def nothing(conjugate):
    return np.zeros(conjugate.shape, dtype=bool)


def check(comparator, d, beta, tightness, lower_tightness=None):
    """Upper and lower bounds are on their sides for all beta, and close at the one where they were taken."""
    found = comparator.conjugate(np.array([beta]), everything)
    upper, loss = mp.mpf(float(found.upper[0, 0])), mp.mpf(float(found.maximizer[0, 0]))
    deviation = mp.mpf(float(found.deviation[0, 0]))
    exact = oracle.conjugate(d, beta)
    # The size of what is added up: beta L, and the comparator's constant.
    size = beta * oracle.maximizer(d, beta) + abs(exact) + 1
    assert exact <= upper <= exact + tightness * size
    assert exact - (lower_tightness or tightness) * size <= beta * loss - deviation <= exact
    for other in (beta / 7, beta * 1.001, beta * 50):
        assert other * loss - deviation <= oracle.conjugate(d, other)
    return exact


class TestKlComparator:
    @given(LOSSES, st.sampled_from(SIZES), st.floats(-12, 12))
    def test_against_mpmath(self, p, n, log_ratio):
        comparator = KlComparator(np.array([p]), np.array([float(n)]))
        # `xi` exceeds the constant by up to 1e-12.
        check(comparator, oracle.Kl(p, n), n * math.exp(log_ratio), 4e-13, 2e-12)

    @given(st.sampled_from(SIZES), st.sampled_from([0.0, 1e-9, 1e-4]), st.floats(-1e-3, 1e-3))
    def test_next_to_the_branch_point_of_small_losses(self, n, p, shift):
        """At p = 0 and n = beta the maximiser begins to leave 0."""
        comparator = KlComparator(np.array([p]), np.array([float(n)]))
        check(comparator, oracle.Kl(p, n), n * (1 + shift), 4e-13, 2e-12)

    def test_at_extreme_beta(self):
        p = np.array([0.0, 1e-280, 0.3, 1.0])
        comparator = KlComparator(p, np.full(4, 100.0))
        found = comparator.conjugate(np.array([5e-324, 1e-200, 1e200, 1e290]), everything)
        for values in (found.maximizer, found.deviation, found.upper, found.curvature):
            assert not np.isnan(values).any()
        assert (found.maximizer >= 0).all()
        assert (found.maximizer <= 1).all()

    @pytest.mark.parametrize("n", [1, 2, 5, 20, 100])
    def test_the_exponential_moment_is_at_most_one(self, n):
        """E[exp(D(L))] = 1 for zero-one losses, whatever L: the one thing that the theorem needs."""
        for true_loss in (mp.mpf("0.001"), mp.mpf("0.2"), mp.mpf("0.5"), mp.mpf("0.97")):
            moment = mp.fsum(
                mp.binomial(n, k)
                * true_loss**k
                * (1 - true_loss) ** (n - k)
                * mp.exp(oracle.Kl(mp.mpf(k) / n, n).value(true_loss))
                for k in range(n + 1)
            )
            assert abs(moment - 1) < mp.mpf(10) ** -30

    def test_curvature_against_differences(self):
        comparator = KlComparator(np.array([0.0, 0.05, 0.4]), np.array([50.0, 200.0, 1000.0]))
        beta = np.array([60.0, 200.0])
        slopes = [comparator.conjugate(beta * (1 + h), everything).maximizer for h in (-1e-6, 1e-6)]
        numerical = (slopes[1] - slopes[0]) / (2e-6 * beta[:, np.newaxis])
        assert comparator.conjugate(beta, everything).curvature == pytest.approx(numerical, rel=1e-6)


def parameters(comparator, h=0):
    """The floats a_k of a hypothesis that are in use; the first belongs to the constant."""
    return comparator._a[h][comparator._log_q[h] > -np.inf].tolist()


class TestCatoniMixture:
    @settings(max_examples=12)
    @given(LOSSES, st.sampled_from(SIZES), st.floats(-9, 9), st.sampled_from([1e-300, 0.05, 0.9]))
    def test_against_mpmath(self, p, n, log_ratio, delta):
        comparator = CatoniMixture(np.array([p]), np.array([float(n)]), delta)
        d = oracle.Mixture(p, n, parameters(comparator))
        beta = n * math.exp(log_ratio)
        check(comparator, d, beta, 2e-14)
        rough = comparator.conjugate(np.array([beta]), nothing)
        exact = oracle.conjugate(d, beta)
        assert beta * rough.maximizer[0, 0] - rough.deviation[0, 0] <= exact <= rough.upper[0, 0]

    def test_the_grid(self):
        """From 4 sqrt(ln(1 / delta) / n) to 4, neighbours at most exp(1/2) apart, a function of n and delta alone."""
        n = np.array([1.0, 40.0, 1000.0, 1e9])
        comparator = CatoniMixture(np.array([0.3, 0.0, 1.0, 0.2]), n, 0.05)
        for h, size in enumerate(n.tolist()):
            constant, *c = sorted(-math.log1p(-a) for a in parameters(comparator, h))
            assert constant == 0
            assert c[0] == pytest.approx(min(4, 4 * math.sqrt(math.log(20) / size)))
            assert c[-1] == pytest.approx(4)
            assert np.diff(np.log(c)).max() <= 0.5 + 1e-12
            assert np.exp(comparator._log_q[h]).sum() == pytest.approx(1, abs=1e-15)
            assert np.exp(comparator._log_q[h][0]) == pytest.approx(0.02)

    @pytest.mark.parametrize("n", [1, 2, 5, 20, 100])
    @pytest.mark.parametrize("delta", [0.05, 0.9])
    def test_the_exponential_moment_is_at_most_one(self, n, delta):
        a = parameters(CatoniMixture(np.zeros(1), np.array([float(n)]), delta))
        for true_loss in (mp.mpf("0.001"), mp.mpf("0.2"), mp.mpf("0.5"), mp.mpf("0.97")):
            moment = mp.fsum(
                mp.binomial(n, k)
                * true_loss**k
                * (1 - true_loss) ** (n - k)
                * mp.exp(oracle.Mixture(mp.mpf(k) / n, n, a).value(true_loss))
                for k in range(n + 1)
            )
            assert moment <= 1 + mp.mpf(10) ** -30

    def test_at_extreme_beta(self):
        comparator = CatoniMixture(np.array([0.0, 1e-280, 0.3, 1.0]), np.full(4, 100.0), 0.05)
        found = comparator.conjugate(np.array([5e-324, 1e-200, 1e200, 1e290]), everything)
        for values in (found.maximizer, found.deviation, found.upper, found.curvature):
            assert not np.isnan(values).any()


@pytest.mark.parametrize("name", ["kl", "mixture"])
def test_other_losses_have_a_smaller_moment(name):
    """Losses 0, 1/2 and 1: the exponential moment is at most that of zero-one losses, which is at most one."""
    n, probability = 6, {0.0: mp.mpf("0.5"), 0.5: mp.mpf("0.3"), 1.0: mp.mpf("0.2")}
    a = parameters(CatoniMixture(np.zeros(1), np.array([float(n)]), 0.05))
    true_loss = mp.fsum(loss * p for loss, p in probability.items())
    moment = mp.mpf(0)
    for draws in product(probability, repeat=n):
        mean = mp.fsum(draws) / n
        d = oracle.Kl(mean, n) if name == "kl" else oracle.Mixture(mean, n, a)
        moment += mp.fprod(probability[x] for x in draws) * mp.exp(d.value(true_loss))
    assert moment < 1


def test_unknown_names():
    with pytest.raises(ValueError, match=r"^comparator must be one of 'kl', 'mixture', got 'catoni'$"):
        make_comparator("catoni", np.zeros(1), np.ones(1), 0.05)
