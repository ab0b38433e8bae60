import math
from decimal import Decimal
from fractions import Fraction

import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from pacbayes import bounds
from pacbayes.posterior import optimal_lambda

EPS = np.finfo(float).eps
unit = st.floats(0, 1)
divergence = st.floats(0, 50)
sample_size = st.integers(1, 10**12)
confidence = st.floats(1e-12, 0.999)


def kl_cases(count=24_000):
    """Pairs (p, c): spread evenly, over all orders of magnitude, and at the edges."""
    rng = np.random.default_rng(0)
    size = count * 11 // 48
    special = [0.0, 1.0, 1e-300, 1 - 1e-16, np.nextafter(1, 0), 5e-324, 0.5, np.nextafter(0.5, 0), 1e-18]
    p = np.concatenate(
        [
            rng.random(size),
            10.0 ** rng.uniform(-300, 0, size),
            1 - 10.0 ** rng.uniform(-16, 0, size),
            rng.choice(special, size),
            rng.integers(0, 2001, count // 12) / 2000,
        ]
    )
    c = 10.0 ** rng.uniform(-18, math.log10(50), p.size)
    edge = rng.random(p.size) < 0.1
    c[edge] = rng.choice([1e-18, 1e-16, 1.0, 50.0], edge.sum())
    return p, c


def tolerance(q):
    """1e-12 relative to min(q, 1 - q), or 4 ulp of q, whichever is larger."""
    q = mp.mpf(q)
    return max(mp.mpf("1e-12") * min(q, 1 - q), 4 * mp.mpf(float(np.spacing(float(q)))))


FEW_OR_MANY = pytest.mark.parametrize("count", [2400, pytest.param(24_000, marks=pytest.mark.slow)])


class TestKl:
    @pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.slow)])
    def test_against_mpmath(self, count):
        rng = np.random.default_rng(1)
        p = np.concatenate(
            [rng.random(count), 10.0 ** rng.uniform(-300, 0, count), 1 - 2.0 ** -rng.integers(1, 53, count // 3)]
        )
        # From far apart to differing in the last places.
        q = np.clip(p * (1 + rng.choice([-1, 1], p.size) * 10.0 ** rng.uniform(-15, 2, p.size)), 1e-320, 1)
        computed = bounds.kl(p, q)
        with mp.workdps(700):
            for p_i, q_i, value in zip(p, q, computed, strict=True):
                exact = mp_oracle.kl(float(p_i), float(q_i)) if p_i != q_i else mp.mpf(0)
                if mp.isinf(exact):
                    assert value == math.inf
                elif exact > 1e-290:
                    # The inverses rely on 16 eps, and on 4 eps where one logarithm dominates.
                    far = abs(math.log(q_i / p_i)) > 16
                    assert abs(mp.mpf(float(value)) / exact - 1) < (4 if far else 8) * EPS

    @pytest.mark.parametrize(
        ("p", "q", "expected"),
        [
            (0, 0, 0),
            (1, 1, 0),
            (0.3, 0.3, 0),
            (0, 1, math.inf),
            (1, 0, math.inf),
            (0.5, 0, math.inf),
            (0, 0.5, math.log(2)),
        ],
    )
    def test_edges(self, p, q, expected):
        assert bounds.kl(p, q) == pytest.approx(expected, rel=1e-15)

    @given(unit, unit)
    def test_non_negative_and_zero_only_at_equality(self, p, q):
        value = bounds.kl(p, q)
        assert value >= 0
        if abs(p - q) > 1e-100:
            assert value > 0

    @given(st.integers(0, 2**53), st.integers(0, 2**53))
    def test_symmetry(self, i, j):
        p, q = i / 2**53, j / 2**53  # 1 - p and 1 - q are exact
        assert bounds.kl(p, q) == pytest.approx(bounds.kl(1 - p, 1 - q), rel=1e-14)


class TestKlInverses:
    @FEW_OR_MANY
    def test_upper_against_mpmath(self, count):
        p, c = kl_cases(count)
        assert p.size == count
        for p_i, c_i, q in zip(p.tolist(), c.tolist(), bounds.kl_inverse_upper(p, c).tolist(), strict=True):
            # kl(p || .) rises from p to 1: q is not below the root, and q - tolerance not above it.
            assert q == 1 or mp_oracle.kl(p_i, q) >= c_i
            below = mp.mpf(q) - tolerance(q)
            assert below <= p_i or mp_oracle.kl(p_i, below) <= c_i

    @FEW_OR_MANY
    def test_lower_against_mpmath(self, count):
        p, c = kl_cases(count)
        for p_i, c_i, q in zip(p.tolist(), c.tolist(), bounds.kl_inverse_lower(p, c).tolist(), strict=True):
            assert q == 0 or mp_oracle.kl(p_i, q) >= c_i
            above = mp.mpf(q) + tolerance(q)
            assert above >= p_i or mp_oracle.kl(p_i, above) <= c_i

    @pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.5, 1 - 1e-9])
    @pytest.mark.parametrize("c", [1e-18, 1e-6, 0.1, 3.0])
    def test_upper_against_bisection(self, p, c):
        exact = mp_oracle.kl_inverse_upper(p, mp.mpf(c))
        assert 0 <= bounds.kl_inverse_upper(p, c) - exact <= tolerance(exact)

    @given(st.floats(0, 700))
    def test_closed_forms(self, c):
        assert bounds.kl_inverse_upper(0.0, c) == pytest.approx(-math.expm1(-c), rel=1e-12)
        assert bounds.kl_inverse_lower(1.0, c) == pytest.approx(math.exp(-c), rel=1e-11)

    @given(unit, st.floats(0, math.inf), st.floats(0, math.inf))
    def test_monotone_and_around_p(self, p, c1, c2):
        small, large = sorted((c1, c2))
        lower = bounds.kl_inverse_lower(p, [large, small])
        upper = bounds.kl_inverse_upper(p, [small, large])
        assert 0 <= lower[0] <= lower[1] * (1 + 1e-9) <= p * (1 + 1e-9)
        assert p <= upper[0] <= upper[1] * (1 + 1e-12) <= 1 + 1e-12

    @pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
    def test_no_budget_and_no_limit(self, p):
        assert bounds.kl_inverse_upper(p, 0) == p == bounds.kl_inverse_lower(p, 0)
        assert bounds.kl_inverse_upper(p, math.inf) == 1
        assert bounds.kl_inverse_lower(p, math.inf) == 0

    def test_subnormal_budget_still_moves_outward(self):
        assert bounds.kl_inverse_upper(0.5, 5e-324) > 0.5
        assert bounds.kl_inverse_lower(0.5, 5e-324) < 0.5


class TestPacBayesKl:
    @pytest.mark.parametrize(
        ("loss", "n", "kl_div", "expected"),
        [
            (0, 165, 0, "0.037122813221313143"),
            (1e-9, 10**9, 0, "1.7937400156463541e-8"),
            (0.1, 165, math.log(200), "0.24682996121200285"),
            (0.5, 1, 0, "0.99984372557830512"),
        ],
    )
    def test_known_values(self, loss, n, kl_div, expected):
        value = bounds.pac_bayes_kl(loss, kl_div, n)
        assert value == pytest.approx(float(expected), rel=1e-12)
        assert value >= mp_oracle.kl_inverse_upper(loss, (mp.mpf(kl_div) + mp_oracle.confidence_term(n, 0.05)) / n)

    @given(unit, divergence, sample_size, confidence)
    def test_never_below_the_exact_value(self, loss, kl_div, n, delta):
        value = bounds.pac_bayes_kl(loss, kl_div, n, delta)
        c = (mp.mpf(kl_div) + mp_oracle.confidence_term(n, delta)) / n
        assert value == 1 or mp_oracle.kl(loss, value) >= c

    def test_moment_that_the_theorem_rests_on(self):
        """E[exp(n kl(L_hat || L))] <= 2 sqrt(n), summed exactly over all outcomes."""
        for n in (1, 2, 3, 5, 8, 20, 100):
            k = np.arange(n + 1)
            for bias in (0.01, 0.1, 0.37, 0.5, 0.9):
                moment = np.sum(stats.binom.pmf(k, n, bias) * np.exp(n * bounds.kl(k / n, bias)))
                assert moment <= 2 * math.sqrt(n) * (1 + 1e-12)


class TestUnequalValidationSets:
    """The term ln(2 sqrt(n_max) / delta), over n."""

    sizes = st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)).map(sorted)
    deltas = st.one_of(confidence, st.sampled_from([5e-324, 1e-323, 3e-310, 2.3e-308, 1e-300]))

    @given(sizes, deltas)
    def test_confidence_term_against_mpmath(self, sizes, delta):
        n, n_max = sizes
        exact = mp_oracle.confidence_term(n_max, delta)
        assert bounds.confidence_term(n, delta, n_max=n_max) == pytest.approx(float(exact), rel=4 * EPS)

    @given(unit, divergence, sizes, deltas, st.floats(1e-6, 1.999999))
    def test_never_below_the_exact_value(self, loss, kl_div, sizes, delta, lam):
        n, n_max = sizes
        c = (mp.mpf(kl_div) + mp_oracle.confidence_term(n_max, delta)) / n
        value = bounds.pac_bayes_kl(loss, kl_div, n, delta, n_max=n_max)
        assert value == 1 or mp_oracle.kl(loss, value) >= c
        loss_ = mp.mpf(loss)
        for value, exact in [
            (
                bounds.pac_bayes_sqrt(loss, kl_div, n, delta, n_max=n_max),
                loss_ + c + mp.sqrt(c * c + 2 * c * loss_),
            ),
            (
                bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta, n_max=n_max),
                (loss_ + c / mp.mpf(lam)) / (1 - mp.mpf(lam) / 2),
            ),
        ]:
            assert exact <= value <= exact * (1 + mp.mpf("1e-13"))

    def test_smallest_delta_is_not_rounded(self):
        """delta sqrt(n / n_max) is no float here: the next one is larger by a sixth."""
        value = bounds.pac_bayes_kl(0.1, 0.5, 300, 5e-324, n_max=400)
        exact = (mp.mpf(0.5) + mp_oracle.confidence_term(400, 5e-324)) / 300
        assert mp_oracle.kl(0.1, value) >= exact

    def test_equal_sets_are_the_default(self):
        for function in (bounds.pac_bayes_kl, bounds.pac_bayes_sqrt):
            assert function(0.1, 2.0, 100) == function(0.1, 2.0, 100, n_max=100) < function(0.1, 2.0, 100, n_max=200)

    def test_smaller_than_the_smallest_is_refused(self):
        with pytest.raises(ValueError, match=r"^n_max must be at least n, got 99\.0$"):
            bounds.pac_bayes_kl(0.1, 2.0, [50, 100], n_max=99)


class TestRelaxations:
    @given(unit, divergence, sample_size, confidence, st.floats(0.001, 1.999))
    def test_order(self, loss, kl_div, n, delta, lam):
        by_kl = bounds.pac_bayes_kl(loss, kl_div, n, delta)
        by_sqrt = bounds.pac_bayes_sqrt(loss, kl_div, n, delta)
        by_lambda = bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta)
        assert by_kl <= by_sqrt * (1 + 1e-13)
        assert by_sqrt <= by_lambda * (1 + 1e-13)

    @given(unit, divergence, sample_size, confidence)
    def test_sqrt_is_lambda_at_its_best(self, loss, kl_div, n, delta):
        lam = optimal_lambda(loss, kl_div, n, delta)
        best = bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta)
        assert bounds.pac_bayes_sqrt(loss, kl_div, n, delta) == pytest.approx(best, rel=1e-12)

    @given(unit, divergence, sample_size, confidence, st.floats(1e-6, 1.999999))
    def test_closed_forms_round_up(self, loss, kl_div, n, delta, lam):
        loss_, c = mp.mpf(loss), (mp.mpf(kl_div) + mp_oracle.confidence_term(n, delta)) / n
        exact_sqrt = loss_ + c + mp.sqrt(c * c + 2 * c * loss_)
        exact_lambda = loss_ / (1 - mp.mpf(lam) / 2) + c / (mp.mpf(lam) * (1 - mp.mpf(lam) / 2))
        for value, exact in [
            (bounds.pac_bayes_sqrt(loss, kl_div, n, delta), exact_sqrt),
            (bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta), exact_lambda),
        ]:
            assert exact <= value <= exact * (1 + mp.mpf("1e-13"))

    def test_solves_eq_pbsqrt(self):
        c = (1.3 + bounds.confidence_term(400, 0.1)) / 400
        root = optimize.brentq(lambda x: x - 0.2 - math.sqrt(2 * x * c), 0.2, 5, xtol=1e-15)
        assert bounds.pac_bayes_sqrt(0.2, 1.3, 400, 0.1) == pytest.approx(root, rel=1e-12)

    @pytest.mark.parametrize(("gibbs", "expected"), [(0, 0), (0.2, 0.4), (0.5, 1), (0.7, 1), (3, 1)])
    def test_majority_vote(self, gibbs, expected):
        assert bounds.majority_vote(gibbs) == expected


class TestRivals:
    @given(unit, divergence, st.integers(1, 10**9), confidence, st.floats(1e-3, 20))
    def test_catoni_against_mpmath(self, loss, kl_div, n, delta, lam):
        exponent = mp.mpf(lam) * mp.mpf(loss) + (mp.mpf(kl_div) - mp.log(mp.mpf(delta))) / n
        exact = (1 - mp.exp(-exponent)) / (1 - mp.exp(-mp.mpf(lam)))
        assert exact <= bounds.catoni(loss, kl_div, n, lam, delta) <= exact * (1 + mp.mpf("1e-13"))

    def test_catoni_at_its_best_is_kl_without_the_price_of_all_lambda(self):
        """inf over lambda of Catoni's bound inverts kl <= (KL + ln(1 / delta)) / n."""
        lam = np.geomspace(1e-3, 10, 20_001)
        best = bounds.catoni(0.1, 2.0, 500, lam, 0.05).min()
        inverse = bounds.kl_inverse_upper(0.1, (2.0 + math.log(1 / 0.05)) / 500)
        assert best == pytest.approx(inverse, rel=1e-6)
        assert best >= inverse

    @given(unit, unit, divergence, st.integers(2, 10**9), confidence, st.floats(1.01, 3), st.floats(1.01, 3))
    def test_empirical_bernstein_follows_from_its_grids(self, loss, share, kl_div, n, delta, c1, c2):
        """The theorems of Tolstikhin and Seldin, from the fixed-parameter inequalities under them.

        V (1 - t) <= V_hat + K1 / (2 (n - 1) t) for each t of a grid below 1/2, and
        L <= L_hat + (e - 2) lam V + K2 / (lam n) for each lam of a grid below 1, each grid at the price
        of the logarithm of its size: the closed forms must not be below the best of either grid.
        """
        variance = share * n / (4 * (n - 1))
        half = delta / 2
        size1 = math.ceil(math.log(math.sqrt((n - 1) / math.log(1 / half) + 1) / 2 + 0.5) / math.log(c1))
        k1 = kl_div + math.log(max(size1, 1) / half)
        t = 0.5 / c1 ** np.arange(max(size1, 1))
        v_grid = np.min((variance + k1 / (2 * (n - 1) * t)) / (1 - t))
        size2 = math.ceil(math.log(math.sqrt((math.e - 2) * n / (4 * math.log(1 / half)))) / math.log(c2))
        k2 = kl_div + math.log(max(size2, 1) / half)
        lam = 1 / c2 ** np.arange(max(size2, 1))
        grid = loss + np.min((math.e - 2) * lam * min(v_grid, 0.25) + k2 / (lam * n))
        value = bounds.empirical_bernstein(loss, variance, kl_div, n, delta, c1=c1, c2=c2)
        assert value >= grid * (1 - 1e-13)

    def test_fixed_parameter_inequalities_behind_empirical_bernstein(self):
        """Both moments are at most 1, summed exactly over all outcomes of n Bernoulli losses."""
        for n in (2, 3, 10, 50):
            k = np.arange(n + 1)
            v_hat = k * (n - k) / (n * (n - 1))
            for bias in (0.02, 0.2, 0.5, 0.8):
                pmf, var = stats.binom.pmf(k, n, bias), bias * (1 - bias)
                for lam in (0.05, 0.3, 1.0):
                    first = np.exp(lam * (n * bias - k) - (math.e - 2) * lam**2 * n * var)
                    assert np.sum(pmf * first) <= 1 + 1e-12
                    second = np.exp(lam * n * (var - v_hat) - lam**2 * n**2 / (2 * (n - 1)) * var)
                    assert np.sum(pmf * second) <= 1 + 1e-12

    def test_empirical_bernstein_beats_kl_at_small_variance(self):
        args = {"kl_div": 2.0, "n": 10_000}
        assert bounds.empirical_bernstein(0.4, 1e-4, **args) < bounds.pac_bayes_kl(0.4, **args)


class TestSingleHypothesis:
    def test_failure_probability_by_enumeration(self):
        """P(bound < L) over all outcomes, at true losses on a grid, is at most delta."""
        for n in (1, 7, 50, 200):
            k = np.arange(n + 1)
            for delta in (0.05, 0.3):
                by_kl = bounds.single_hypothesis_kl(k / n, n, delta)
                exact = bounds.clopper_pearson(k, n, delta)
                assert np.all(exact <= by_kl)
                for bias in np.linspace(0.01, 0.99, 33):
                    pmf = stats.binom.pmf(k, n, bias)
                    assert pmf[by_kl < bias].sum() <= delta
                    assert pmf[exact < bias].sum() <= delta * (1 + 1e-12)

    @pytest.mark.parametrize("n", [1, 2, 30, 2000, 10**6, 10**9, 10**12])
    @pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6, 1e-100, 1e-300])
    def test_clopper_pearson_against_mpmath(self, n, delta):
        for errors in (e for e in (0, 1, 2, 7, 25) if e < n):
            q = bounds.clopper_pearson(errors, n, delta)

            def at_most(q, errors=errors):
                q = mp.mpf(q)
                terms = (mp.binomial(n, i) * q**i * (1 - q) ** (n - i) for i in range(errors + 1))
                return mp.fsum(terms)

            assert q == 1 or at_most(q) <= delta
            slightly_below = q * (1 - 1e-7) if q < 0.5 else q - 1e-7 * (1 - q) - 4e-16
            assert at_most(slightly_below) >= delta

    @pytest.mark.parametrize("n", [10**4, 10**6, 10**9])
    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.97])
    @pytest.mark.parametrize("delta", [0.3, 0.05, 1e-9, 1e-200])
    def test_clopper_pearson_of_many_errors(self, n, share, delta):
        """P(X <= k) as P(X = k), in mpmath, times the sum of ratios of successive probabilities."""
        k = round(share * n)
        q = bounds.clopper_pearson(k, n, delta)
        log_at_k = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
        log_at_k += k * mp.log(mp.mpf(q)) + (n - k) * mp.log1p(-mp.mpf(q))
        i = np.arange(min(k, 2_000_000))
        ratios = np.cumprod((k - i) / (n - k + 1 + i) * ((1 - q) / q))
        assert ratios[-1] < 1e-15 or i.size == k
        at_most_k = mp.exp(log_at_k) * (1 + float(ratios.sum()))
        assert 1 - 1e-8 <= at_most_k / mp.mpf(delta) <= 1

    @pytest.mark.parametrize("n", [40, 1000])
    def test_clopper_pearson_against_scipy(self, n):
        errors = np.arange(n + 1)
        expected = np.append(stats.beta.ppf(0.95, errors[:-1] + 1, n - errors[:-1]), 1.0)
        np.testing.assert_allclose(bounds.clopper_pearson(errors, n, 0.05), expected, rtol=1e-7)

    @pytest.mark.parametrize("delta", [0.05, 0.3])
    def test_the_randomised_tail_fails_exactly_as_often_as_delta(self, delta):
        """P(bound < L) over all outcomes and u, of which a share of (delta - P(X < k)) / P(X = k) fails at one k."""
        u = (np.arange(100) + 0.5) / 100
        for n, biases in ((7, [0.4]), (40, [0.1, 0.83])):
            k = np.arange(n + 1)[:, np.newaxis]
            upper = bounds.clopper_pearson(k, n, delta, u=u)
            for bias in biases:
                pmf = stats.binom.pmf(k, n, bias)
                fails = upper < bias
                assert np.sum(pmf * fails.mean(axis=1, keepdims=True)) == pytest.approx(delta, abs=pmf.max() / 100)
                # Chosen after the points, it fails more often.
                assert np.sum(pmf * fails.any(axis=1, keepdims=True)) > 1.1 * delta

    @pytest.mark.parametrize(("n", "delta"), [(30, 0.05), (2000, 1e-6), (10**9, 0.3)])
    def test_the_randomised_tail_against_mpmath(self, n, delta):
        for errors in (0, 1, 7):
            for u in (1e-3, 0.5, 0.999):
                q = bounds.clopper_pearson(errors, n, delta, u=u)

                def tail(q, errors=errors, u=u):
                    shares = [mp.mpf(1)] * errors + [mp.mpf(u)]
                    terms = (mp.binomial(n, i) * mp.mpf(q) ** i * (1 - mp.mpf(q)) ** (n - i) for i in range(errors + 1))
                    return mp.fsum(share * term for share, term in zip(shares, terms, strict=True))

                assert tail(q) <= delta
                assert tail(q * (1 - 1e-7)) >= delta or q < 1e-20
                assert q <= bounds.clopper_pearson(errors, n, delta)

    def test_prior_mass_divides_delta(self):
        assert bounds.clopper_pearson(3, 50, 0.05, prior_mass=0.1) == bounds.clopper_pearson(3, 50, 0.05 * 0.1)
        assert bounds.single_hypothesis_kl(0.06, 50, 0.05, prior_mass=0.1) == pytest.approx(
            bounds.single_hypothesis_kl(0.06, 50, 0.005), rel=1e-14
        )


ALL = {
    bounds.kl: {"p": 0.1, "q": 0.2},
    bounds.kl_inverse_upper: {"p": 0.1, "c": 0.2},
    bounds.kl_inverse_lower: {"p": 0.1, "c": 0.2},
    bounds.confidence_term: {"n": 10, "delta": 0.05, "n_max": 120},
    bounds.pac_bayes_kl: {"loss": 0.1, "kl_div": 1.0, "n": 100, "delta": 0.05, "n_max": 120},
    bounds.pac_bayes_lambda: {"loss": 0.1, "kl_div": 1.0, "n": 100, "lam": 0.5, "delta": 0.05, "n_max": 120},
    bounds.pac_bayes_sqrt: {"loss": 0.1, "kl_div": 1.0, "n": 100, "delta": 0.05, "n_max": 120},
    bounds.catoni: {"loss": 0.1, "kl_div": 1.0, "n": 100, "lam": 0.5, "delta": 0.05},
    bounds.empirical_bernstein: {
        "loss": 0.1,
        "variance": 0.1,
        "kl_div": 1.0,
        "n": 100,
        "delta": 0.05,
        "c1": 1.1,
        "c2": 1.1,
    },
    bounds.single_hypothesis_kl: {"loss": 0.1, "n": 100, "delta": 0.05, "prior_mass": 0.5},
    bounds.clopper_pearson: {"errors": 3, "n": 100, "delta": 0.05, "prior_mass": 0.5, "u": 0.5},
    bounds.majority_vote: {"gibbs_bound": 0.2},
}
WRONG = {
    "p": [-0.1, 1.5, math.nan],
    "q": [-0.1, 1.5, math.nan],
    "c": [-1e-9, math.nan],
    "loss": [-0.1, 1.0000001, math.nan, "a"],
    "kl_div": [-1.0, math.nan],
    "n": [0, -5, 2.5, math.inf, math.nan],
    "n_max": [0, 9, 2.5, math.inf, math.nan],
    "delta": [0, 1, 1.5, -0.1, math.nan],
    "lam": [0, -1, math.nan],
    "variance": [-0.1, 0.3, math.inf, math.nan],
    "c1": [1.0, math.nan],
    "c2": [0.5, math.nan],
    "errors": [-1, 0.5, 101, math.nan],
    "prior_mass": [0, 1.1, math.nan],
    "u": [0, 1.1, math.nan],
    "gibbs_bound": [-0.1, math.nan],
}


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
class TestEveryFunction:
    def test_float_in_float_out(self, function):
        assert type(function(**ALL[function])) is float

    def test_broadcasts_elementwise(self, function):
        arguments = ALL[function]
        first = next(iter(arguments))
        column = np.full((3, 1), arguments[first], dtype=float)
        others = {name: np.full(4, value, dtype=float) for name, value in arguments.items() if name != first}
        result = function(**{first: column}, **others)
        assert result.shape == ((3, 4) if others else (3, 1))
        np.testing.assert_allclose(result, function(**arguments), rtol=1e-12)

    def test_bad_input_names_argument_and_value(self, function):
        for name in ALL[function]:
            for wrong in WRONG[name]:
                with pytest.raises(ValueError, match=rf"^{name} must be .*got ") as error:
                    function(**{**ALL[function], name: wrong})
                assert str(wrong) in str(error.value)


def test_lambda_beyond_two_is_refused():
    with pytest.raises(ValueError, match=r"lam must be in \(0, 2\), got 2\.5"):
        bounds.pac_bayes_lambda(0.1, 1.0, 100, 2.5)


@pytest.mark.parametrize(
    "wrong",
    [
        "0.1",
        None,
        10**400,
        pytest.param(10**5000, id="huge"),
        0.1 + 1j,
        0.1 + 0j,
        np.array(["0.1"]),
        np.array([0.1 + 0.2j, 0.1]),
        np.array([np.complex128(0.1 + 1j), 0.2], dtype=object),
        np.array(["0.1", 0.2], dtype=object),
        np.array([np.timedelta64(0), 0], dtype=object),
        np.array([0, 1], dtype="m8[s]"),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.array([[0.1], 0.2], dtype=object),
        np.ma.masked_array([0.1, 0.2], [True, False]),
    ],
)
def test_what_is_not_a_real_number_is_refused(wrong):
    with pytest.raises(ValueError, match=r"^loss must be in \[0, 1\], got .+") as error:
        bounds.pac_bayes_kl(wrong, 1.0, 100)
    assert len(str(error.value)) < 200


def test_real_numbers_of_any_type_are_welcome():
    with pytest.raises(ValueError, match="n must be a whole number"):
        bounds.pac_bayes_kl(0.1, 1.0, 10**400)
    mixed = np.array([0.1, 1, True, np.float32(0.25), np.bool_(False), Fraction(1, 4), Decimal("0.1")], dtype=object)
    expected = [bounds.pac_bayes_kl(value, 1.0, 100) for value in (0.1, 1.0, 1.0, 0.25, 0.0, 0.25, 0.1)]
    assert bounds.pac_bayes_kl(mixed, 1.0, 100).tolist() == expected
    unmasked = np.ma.masked_array([0.1, 0.2], [False, False])
    assert bounds.pac_bayes_kl(unmasked, 1.0, 100).shape == (2,)


def test_negative_zero_is_zero():
    assert math.copysign(1, bounds.kl_inverse_upper(-0.0, 0.0)) == 1
    assert math.copysign(1, bounds.majority_vote(-0.0)) == 1


def test_levels_that_no_float_can_hold_are_left_to_chernoff():
    tiny = {"delta": 1e-200, "prior_mass": 1e-200}
    assert bounds.clopper_pearson(10, 1000, **tiny) == bounds.single_hypothesis_kl(0.01, 1000, **tiny)


def test_levels_above_one_half():
    """The bound may fall below k / n: P(Bin(100, q) <= 50) = 0.9 at q = 0.44128."""
    q = bounds.clopper_pearson(50, 100, 0.9)
    assert stats.binom.cdf(50, 100, q) == pytest.approx(0.9, rel=1e-7)


def test_results_do_not_depend_on_what_else_is_in_the_array():
    p, c = kl_cases(2400)
    for inverse in (bounds.kl_inverse_upper, bounds.kl_inverse_lower):
        whole = inverse(p, c)
        for i in range(0, p.size, 97):
            assert inverse(p[i], c[i]) == whole[i]


@pytest.mark.parametrize("scale", [1e-250, 1e-217, 1e-160])
def test_inverses_of_tiny_arguments_stay_sharp(scale):
    p, c = 4.48 * scale, 2.24 * scale
    with mp.workdps(700):
        upper, lower = bounds.kl_inverse_upper(p, c), bounds.kl_inverse_lower(p, c)
        assert mp_oracle.kl(p, upper) >= c >= mp_oracle.kl(p, mp.mpf(upper) * (1 - mp.mpf("1e-12")))
        assert mp_oracle.kl(p, lower) >= c >= mp_oracle.kl(p, mp.mpf(lower) * (1 + mp.mpf("1e-12")))


def test_extremes_do_not_warn():
    assert bounds.majority_vote(1e308) == 1
    assert bounds.empirical_bernstein(0.1, 0.1, 1.0, 1000, 5e-324) > 1
    assert bounds.pac_bayes_sqrt(0.1, 1e308, 1) == math.inf
    assert bounds.pac_bayes_kl(0.1, np.finfo(float).max, 1) == 1
    with pytest.raises(ValueError, match=r"variance must be at most .*got 0.3"):
        bounds.empirical_bernstein(0.1, [0.4, 0.3], 1.0, [2, 1000])


def test_whole_floats_are_welcome_as_n():
    assert bounds.pac_bayes_kl(0.1, 1.0, 1e9) == bounds.pac_bayes_kl(0.1, 1.0, 10**9)


@given(unit, st.floats(0, 1e300), st.sampled_from([1, 2, 10**6, 10**12]), st.floats(1e-300, 1 - 1e-16))
def test_extreme_input_stays_finite_and_ordered(loss, kl_div, n, delta):
    assert loss <= bounds.pac_bayes_kl(loss, kl_div, n, delta) <= 1
    assert loss <= bounds.pac_bayes_sqrt(loss, kl_div, n, delta) < math.inf


def test_infinite_divergence_proves_nothing():
    assert bounds.pac_bayes_kl(0.1, math.inf, 100) == 1
    assert bounds.pac_bayes_sqrt(0.1, math.inf, 100) == math.inf
    assert bounds.pac_bayes_lambda(0.1, math.inf, 100, 0.5) == math.inf
    assert bounds.catoni(0.1, math.inf, 100, 0.5) > 1
    assert bounds.empirical_bernstein(0.1, [0.0, 0.1], math.inf, 100).tolist() == [math.inf] * 2
