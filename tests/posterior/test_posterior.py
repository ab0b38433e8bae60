import math

import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from pacbayes import bounds
from pacbayes.posterior import (
    gibbs_posterior,
    lambda_bound,
    lambda_bound_derivatives,
    minimize_kl_bound,
    minimize_lambda_bound,
    optimal_lambda,
)
from pacbayes.posterior.gibbs import GibbsCurve

SIZES = [1, 2, 7, 50, 165, 2000, 10**6, 10**9, 10**12]
FEW_SIZES = [n if n in (1, 165, 10**12) else pytest.param(n, marks=pytest.mark.slow) for n in SIZES]


@st.composite
def problems(draw, max_m=40):
    """Losses and a prior with which F often has several local minima: few levels, prior masses far apart."""
    n = draw(st.sampled_from(SIZES))
    m = draw(st.integers(1, max_m))
    levels = draw(st.lists(st.floats(0, 1), min_size=1, max_size=4))
    losses = np.array(draw(st.lists(st.sampled_from(levels), min_size=m, max_size=m)))
    delta = draw(st.sampled_from([0.01, 0.05, 0.25, 0.9]))
    log_prior = None
    if draw(st.booleans()):
        log_prior = np.array(draw(st.lists(st.floats(-60, 0), min_size=m, max_size=m)))
        log_prior -= np.logaddexp.reduce(log_prior)
    return losses, n, delta, log_prior


def bottleneck(log_mass=49.9181616184):
    """Two hypotheses, tuned so that F nearly has a saddle point: each step there is tiny."""
    return {"losses": [0.02, 0.3], "n": 200, "prior": [-log_mass, np.log1p(-np.exp(-log_mass))]}


def two_minima():
    """The paper's artificial example: F has two local minima."""
    m = round(math.exp(0.74 * 200 * 0.1)) + 1
    losses = np.full(m, 0.1)
    losses[0] = 0.0
    return losses


class TestGibbsPosterior:
    @given(problems(), st.floats(0.001, 1.999))
    def test_minimises_the_bound_at_fixed_lambda(self, problem, lam):
        """No mixture of rho with another posterior has a smaller PAC-Bayes-lambda bound."""
        losses, n, delta, log_prior = problem
        rho = gibbs_posterior(losses, lam, n, log_prior)
        assert rho.sum() == pytest.approx(1, rel=1e-12)
        prior = np.full(losses.size, 1 / losses.size) if log_prior is None else np.exp(log_prior)

        def bound(posterior):
            on = posterior > 0
            kl_div = max(0.0, np.sum(posterior[on] * np.log(posterior[on] / prior[on])))
            loss = min(1.0, posterior @ losses)
            return bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta)

        best = bound(rho)
        assert lambda_bound(losses, lam, n, delta, log_prior) == pytest.approx(best, rel=1e-9)
        other = np.random.default_rng(0).dirichlet(np.ones(losses.size))
        for share in (1e-3, 0.1, 1.0):
            assert bound((1 - share) * rho + share * other) >= best * (1 - 1e-9)

    def test_length_m_also_for_many(self):
        losses = two_minima()
        rho = gibbs_posterior(losses, 0.5, 200)
        assert rho.shape == losses.shape
        assert rho.sum() == pytest.approx(1, rel=1e-12)
        assert rho[0] / rho[1] == pytest.approx(math.exp(0.5 * 200 * 0.1), rel=1e-12)


class TestOptimalLambda:
    @given(st.floats(0, 1), st.floats(0, 100), st.integers(1, 10**9), st.floats(1e-9, 0.99))
    def test_against_a_numerical_minimiser(self, loss, kl_div, n, delta):
        lam = optimal_lambda(loss, kl_div, n, delta)
        assert 0 < lam <= 1
        found = optimize.minimize_scalar(
            lambda x: bounds.pac_bayes_lambda(loss, kl_div, n, x, delta), bounds=(1e-9, 1.9), method="bounded"
        )
        assert bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta) <= found.fun * (1 + 1e-12)

    def test_broadcasts(self):
        assert optimal_lambda([0.1, 0.2], np.zeros((3, 1)), 100).shape == (3, 2)
        assert optimal_lambda(0.0, 3.0, 100) == 1.0


class TestLambdaBound:
    @given(problems(max_m=8), st.floats(0.001, 1.999))
    def test_against_mpmath_and_rounded_up(self, problem, lam):
        losses, n, delta, log_prior = problem
        prior = [mp.mpf(1) / losses.size] * losses.size
        if log_prior is not None:
            prior = [mp.exp(mp.mpf(x)) for x in log_prior]
            prior = [p / mp.fsum(prior) for p in prior]
        exact = mp_oracle.lambda_bound(losses.tolist(), lam, n, delta, prior)
        assert exact <= lambda_bound(losses, lam, n, delta, log_prior) <= exact * (1 + mp.mpf("1e-12"))

    def test_derivatives_against_mpmath(self):
        losses, n, delta = [0.05, 0.1, 0.1, 0.3, 0.9], 150, 0.05
        prior = [0.1, 0.2, 0.3, 0.15, 0.25]
        lam = np.array([0.02, 0.2, 0.5, 0.9, 1.0, 1.5, 1.9])
        first, second = lambda_bound_derivatives(losses, lam, n, delta, prior)
        for i, lam_i in enumerate(lam.tolist()):
            for order, value in ((1, first[i]), (2, second[i])):
                exact = mp.diff(lambda x: mp_oracle.lambda_bound(losses, x, n, delta, prior), lam_i, order)
                assert value == pytest.approx(float(exact), rel=1e-11, abs=1e-12)

    def test_shapes_follow_lambda(self):
        assert type(lambda_bound([0.1], 0.5, 10)) is float
        assert lambda_bound([0.1], np.full((2, 3), 0.5), 10).shape == (2, 3)
        assert lambda_bound([0.1], [], 10).shape == (0,)
        first, second = lambda_bound_derivatives([0.1], np.full((2, 3), 0.5), 10)
        assert first.shape == second.shape == (2, 3)
        assert all(type(value) is float for value in lambda_bound_derivatives([0.1], 0.5, 10))

    def test_the_papers_example_of_a_non_convex_bound(self):
        """Two hypotheses. With the paper's figures F is convex, by mpmath too; both methods minimise it."""
        losses, n, delta = [0.0, 0.5], 100, 0.01
        lam = np.linspace(0.02, 1.98, 99)
        _, second = lambda_bound_derivatives(losses, lam, n, delta)
        assert second.min() > 0.3
        for lam_i, value in zip(lam.tolist(), second.tolist(), strict=True):
            exact = mp.diff(lambda x: mp_oracle.lambda_bound(losses, x, n, delta, [0.5, 0.5]), lam_i, 2)
            assert value == pytest.approx(float(exact), rel=1e-11)
        grid = lambda_bound(losses, np.linspace(0.001, 1.999, 20_001), n, delta)
        for method in ("alternating", "global"):
            result = minimize_lambda_bound(losses, n, delta=delta, method=method)
            assert result.fun <= grid.min() <= result.fun * (1 + 1e-9)

    def test_a_bound_that_is_not_convex(self):
        _, second = lambda_bound_derivatives(two_minima(), np.linspace(0.5, 1, 101), 200, 0.25)
        assert second.min() < -0.5


class TestMinimizeLambdaBound:
    def test_the_papers_example_with_two_local_minima(self):
        losses = two_minima()
        assert losses.size == 2_676_446
        best = minimize_lambda_bound(losses, 200, delta=0.25, method="global")
        assert best.lam == pytest.approx(0.99702, abs=5e-6)
        assert best.fun == pytest.approx(0.1952294, abs=5e-8)
        assert best.converged
        assert best.fun * (1 - 1e-7) <= best.lower <= best.fun
        local = minimize_lambda_bound(losses, 200, delta=0.25, lam0=0.5)
        assert local.lam == pytest.approx(0.49419, abs=5e-6)
        assert local.fun == pytest.approx(0.1962639, abs=5e-8)
        assert local.lower is None

    @given(problems(), st.floats(0.001, 1.999))
    def test_alternating_never_increases_the_bound(self, problem, lam0):
        losses, n, delta, prior = problem
        result = minimize_lambda_bound(losses, n, delta=delta, prior=prior, lam0=lam0)
        assert result.converged
        assert np.all(np.diff(result.history) <= 0)
        assert result.history.size == result.lam_history.size == result.nit + 1
        assert result.history[0] == pytest.approx(lambda_bound(losses, lam0, n, delta, prior), rel=1e-11)
        assert result.history[-1] == result.fun
        assert result.lam_history[-1] == result.lam

    @given(problems())
    def test_every_half_step_of_the_paper_decreases_the_bound(self, problem):
        """The history's steps are eq. lambda followed by eq. rho, each with the bound in between."""
        losses, n, delta, prior = problem
        result = minimize_lambda_bound(losses, n, delta=delta, prior=prior)
        pi = np.full(losses.size, 1 / losses.size) if prior is None else np.exp(prior)
        for i in range(result.nit):
            rho = gibbs_posterior(losses, result.lam_history[i], n, prior)
            on = rho > 0
            kl_div = max(0.0, float(np.sum(rho[on] * np.log(rho[on] / pi[on]))))
            loss = min(1.0, float(rho @ losses))
            lam = optimal_lambda(loss, kl_div, n, delta)
            assert result.lam_history[i + 1] == pytest.approx(lam, rel=1e-6)
            between = bounds.pac_bayes_lambda(loss, kl_div, n, lam, delta)
            assert result.history[i + 1] * (1 - 1e-9) <= between <= result.history[i] * (1 + 1e-9)

    @given(problems(), st.floats(0.01, 1.99))
    def test_global_is_below_alternating_and_grid(self, problem, lam0):
        losses, n, delta, prior = problem
        best = minimize_lambda_bound(losses, n, delta=delta, prior=prior, method="global")
        assert best.fun <= minimize_lambda_bound(losses, n, delta=delta, prior=prior).fun
        local = minimize_lambda_bound(losses, n, delta=delta, prior=prior, lam0=lam0)
        assert best.fun <= local.fun * (1 + 2e-8)
        grid = np.concatenate((np.geomspace(1e-7, 1, 3000), np.linspace(0.001, 1.999, 2000)))
        values = lambda_bound(losses, grid, n, delta, prior)
        assert best.fun <= values.min() * (1 + 2e-8)
        assert best.converged
        assert best.fun * (1 - 3e-8) <= best.lower <= min(best.fun, values.min())

    @pytest.mark.parametrize("log_mass", [49.91817, pytest.param(49.9181616184, marks=pytest.mark.slow)])
    def test_a_bottleneck_is_passed_not_mistaken_for_a_minimum(self, log_mass):
        """F' nearly vanishes half-way: the bound falls by less than a float can tell, yet lambda moves on."""
        best = minimize_lambda_bound(**bottleneck(log_mass), method="global")
        local = minimize_lambda_bound(**bottleneck(log_mass), max_iter=60_000)
        assert local.nit > 1000
        assert local.fun == pytest.approx(best.fun, rel=1e-6)

    def test_lower_bound_is_proved_also_when_stopped_early(self, monkeypatch):
        losses = np.linspace(0.1, 0.9, 200)
        best = minimize_lambda_bound(losses, 1000, method="global")
        monkeypatch.setattr("pacbayes.posterior.gibbs.GibbsCurve.max_evaluations", 19)
        early = minimize_lambda_bound(losses, 1000, method="global")
        assert (early.success, early.status) == (False, 2)
        assert early.message == f"The largest number of evaluations, {early.nfev}, was reached."
        assert 0.2 * best.fun < early.lower < best.lower
        assert minimize_lambda_bound(losses, 1000, method="global", rtol=0.5).converged

    def test_max_iter_is_reported(self):
        losses = np.linspace(0.1, 0.9, 200)
        result = minimize_lambda_bound(losses, 1000, max_iter=2)
        assert (result.nit, result.nfev, result.success, result.status) == (2, 3, False, 1)
        assert result.message == "The largest number of iterations, 2, was reached."

    def test_work_is_bounded(self, monkeypatch):
        """A prior that makes alternating minimisation crawl does not make it run for minutes."""
        monkeypatch.setattr("pacbayes.posterior.gibbs.GibbsCurve.max_evaluations", 300)
        local = minimize_lambda_bound(**bottleneck())
        assert (local.nit, local.nfev, local.status) == (299, 300, 1)
        assert local.fun == local.history[-1] < local.history[0]
        best = minimize_lambda_bound(**bottleneck(), method="global")
        assert best.nfev <= 300
        assert best.success
        # Who asks for more gets it.
        assert minimize_lambda_bound(**bottleneck(), max_iter=1000).nit == 1000

    @pytest.mark.slow
    def test_work_is_bounded_for_a_million_distinct_losses(self):
        m = 10**6
        tuned = bottleneck()
        losses = np.concatenate((tuned["losses"], np.linspace(0.4, 1, m - 2)))
        prior = np.concatenate((tuned["prior"], np.full(m - 2, -800.0)))
        for method in ("alternating", "global"):
            result = minimize_lambda_bound(losses, tuned["n"], prior=prior, method=method)
            assert result.nfev <= 220
            assert result.success == (method == "global")

    @pytest.mark.parametrize("n", [20, 400])
    def test_against_brute_force_over_posteriors(self, n):
        """Two hypotheses: all posteriors and all lambda on a fine grid."""
        losses, prior = np.array([0.1, 0.4]), np.array([0.3, 0.7])
        rho = np.linspace(0, 1, 4001)[:, np.newaxis]
        lam = np.linspace(0.001, 1.2, 1200)
        kl_div = bounds.kl(rho, prior[0])
        values = bounds.pac_bayes_lambda(rho * 0.1 + (1 - rho) * 0.4, kl_div, n, lam)
        result = minimize_lambda_bound(losses, n, prior=prior, method="global")
        assert result.fun * (1 - 1e-12) <= values.min() <= result.fun * (1 + 1e-5)
        assert result.lower <= values.min()


class TestMinimizeKlBound:
    @pytest.mark.parametrize("n", [5, 60, 3000])
    def test_against_brute_force_over_posteriors(self, n):
        """Three hypotheses: all posteriors on a fine grid of the simplex."""
        losses, prior = np.array([0.1, 0.15, 0.4]), np.array([0.1, 0.5, 0.4])
        steps = np.arange(301)
        i, j = np.meshgrid(steps, steps)
        grid = np.stack((i, j, 300 - i - j), axis=-1)[i + j <= 300] / 300
        with np.errstate(divide="ignore", invalid="ignore"):
            kl_div = np.where(grid > 0, grid * np.log(grid / prior), 0).sum(axis=1)
        values = bounds.pac_bayes_kl(np.minimum(grid @ losses, 1), np.maximum(kl_div, 0), n)
        result = minimize_kl_bound(losses, n, prior=prior)
        assert result.fun * (1 - 1e-12) <= values.min() <= result.fun * (1 + 1e-4)
        assert result.lower <= values.min()

    @given(problems())
    def test_certified_and_below_the_lambda_minimiser(self, problem):
        losses, n, delta, prior = problem
        result = minimize_kl_bound(losses, n, delta=delta, prior=prior)
        assert result.converged
        assert result.fun * (1 - 3e-8) <= result.lower <= result.fun
        assert np.all(np.diff(result.history) <= 0)
        for method in ("alternating", "global"):
            other = minimize_lambda_bound(losses, n, delta=delta, prior=prior, method=method)
            by_kl = bounds.pac_bayes_kl(other.loss, other.kl_div, n, delta)
            assert result.fun <= by_kl * (1 + 1e-12)
            assert result.lower <= by_kl <= other.fun * (1 + 1e-11)

    def test_only_the_best_hypothesis_may_be_left(self):
        result = minimize_kl_bound([0.0, 1.0], 20, prior=[1e-8, 1 - 1e-8])
        assert result.lam == math.inf or result.lam > 1
        assert result.rho[1] < 1e-12


MINIMISERS = [
    lambda *args, **kwargs: minimize_lambda_bound(*args, **kwargs),
    lambda *args, **kwargs: minimize_lambda_bound(*args, method="global", **kwargs),
    minimize_kl_bound,
]


@pytest.mark.parametrize("minimize", MINIMISERS, ids=["alternating", "global", "kl"])
class TestEveryMinimiser:
    @given(problems(max_m=12))
    def test_reports_its_work_as_scipy_does(self, minimize, problem):
        losses, n, delta, log_prior = problem
        evaluated = []
        at = GibbsCurve.at

        def counted(curve, t):
            evaluated.append(np.size(t))
            return at(curve, t)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GibbsCurve, "at", counted)
            result = minimize(losses, n, delta=delta, prior=log_prior)
        assert result.nit + 1 == result.history.size == result.lam_history.size
        # The posterior itself takes one evaluation more than finding it.
        assert result.nit + 1 <= result.nfev == sum(evaluated) - 1
        assert result.success == result.converged == (result.status == 0)
        assert result.message.endswith(".")
        assert math.copysign(1, result.kl_div) == math.copysign(1, result.loss) == 1

    @given(problems(max_m=12), st.sampled_from([1.0, 1.3, 10.0]))
    def test_unequal_validation_sets(self, minimize, problem, ratio):
        """Only the confidence term knows the largest: it is that of a smaller delta."""
        losses, n, delta, log_prior = problem
        n_max = round(n * ratio)
        result = minimize(losses, n, delta=delta, prior=log_prior, n_max=n_max)
        other = minimize(losses, n, delta=delta * math.sqrt(n / n_max), prior=log_prior)
        assert result.fun == pytest.approx(other.fun, rel=1e-9)
        bound = bounds.pac_bayes_kl(result.loss, result.kl_div, n, delta, n_max=n_max)
        assert bound <= result.fun * (1 + 1e-11)
        assert result.fun >= minimize(losses, n, delta=delta, prior=log_prior).fun * (1 - 1e-9)

    def test_deltas_that_no_float_can_hold(self, minimize):
        result = minimize([0.1, 0.2], 300, delta=5e-324, n_max=400)
        c = (mp_oracle.kl_to_prior(result.rho.tolist(), [0.5, 0.5]) + mp_oracle.confidence_term(400, 5e-324)) / 300
        loss = mp_oracle.expected_loss(result.rho.tolist(), [0.1, 0.2])
        if minimize is minimize_kl_bound:
            assert mp_oracle.kl(loss, result.fun) >= c
        else:
            lam = mp.mpf(result.lam)
            assert result.fun >= loss / (1 - lam / 2) + c / (lam * (1 - lam / 2))

    @pytest.mark.parametrize(
        "losses",
        [
            np.array([0.1 + 0.2j, 0.2]),
            np.array([np.complex128(0.1 + 1j), 0.2], dtype=object),
            np.array(["0.1", 0.2], dtype=object),
            np.ma.masked_array([0.1, 0.2], [True, False]),
        ],
    )
    def test_losses_that_are_not_real_numbers(self, minimize, losses):
        with pytest.raises(ValueError, match=r"^losses must be in \[0, 1\], got "):
            minimize(losses, 100)

    @given(problems(max_m=12))
    def test_result_is_consistent_and_never_below_the_exact_bound(self, minimize, problem):
        losses, n, delta, log_prior = problem
        result = minimize(losses, n, delta=delta, prior=log_prior)
        prior = [mp.mpf(1) / losses.size] * losses.size
        if log_prior is not None:
            prior = [mp.exp(mp.mpf(x)) for x in log_prior]
            prior = [p / mp.fsum(prior) for p in prior]
        loss = mp_oracle.expected_loss(result.rho.tolist(), losses.tolist())
        kl_div = mp_oracle.kl_to_prior(result.rho.tolist(), prior)
        assert result.loss >= loss
        assert result.loss == pytest.approx(float(loss), rel=1e-11)
        assert result.kl_div >= kl_div - mp.mpf("1e-16")
        assert result.kl_div == pytest.approx(float(kl_div), rel=1e-9, abs=1e-11)
        c = (kl_div + mp_oracle.confidence_term(n, delta)) / n
        if minimize is minimize_kl_bound:
            assert result.fun == 1 or mp_oracle.kl(loss, result.fun) >= c
        else:
            lam = mp.mpf(result.lam)
            assert result.fun >= loss / (1 - lam / 2) + c / (lam * (1 - lam / 2)) - mp.mpf("1e-15")

    @given(problems(max_m=12), st.randoms(use_true_random=False))
    def test_permuting_and_splitting_change_nothing(self, minimize, problem, random):
        losses, n, delta, log_prior = problem
        m = losses.size
        if log_prior is None:
            log_prior = np.full(m, -math.log(m))
        result = minimize(losses, n, delta=delta, prior=log_prior)
        order = list(range(m))
        random.shuffle(order)
        permuted = minimize(losses[order], n, delta=delta, prior=log_prior[order])
        assert permuted.fun == pytest.approx(result.fun, rel=1e-9)
        np.testing.assert_allclose(permuted.rho, result.rho[order], atol=2e-3)
        twice = np.concatenate((losses, losses[:1]))
        half = np.concatenate(([log_prior[0] - math.log(2)], log_prior[1:], [log_prior[0] - math.log(2)]))
        split = minimize(twice, n, delta=delta, prior=half)
        assert split.fun == pytest.approx(result.fun, rel=1e-9)
        assert split.rho[0] == pytest.approx(split.rho[-1], rel=1e-12)
        assert split.rho[0] + split.rho[-1] == pytest.approx(result.rho[0], abs=2e-3)

    @pytest.mark.parametrize("n", FEW_SIZES)
    @pytest.mark.parametrize("losses", ["zeros", "ones", "equal", "both", "spread", "counts"])
    @pytest.mark.parametrize("prior", ["uniform", "wide", "zeros"])
    def test_no_nan_no_overflow_no_wrong_sign(self, minimize, n, losses, prior):
        rng = np.random.default_rng(0)
        m = 300
        loss = {
            "zeros": np.zeros(m),
            "ones": np.ones(m),
            "equal": np.full(m, 0.37),
            "both": np.arange(m) % 2.0,
            "spread": rng.random(m),
            "counts": rng.binomial(min(n, 10**6), 0.3, m) / min(n, 10**6),
        }[losses]
        pi = {"uniform": None, "wide": 10.0 ** -rng.uniform(0, 300, m), "zeros": np.arange(m) % 3.0}[prior]
        result = minimize(loss, n, prior=None if pi is None else pi / pi.sum())
        assert np.all(np.isfinite(result.rho))
        assert result.rho.min() >= 0
        assert result.rho.sum() == pytest.approx(1, rel=1e-10)
        assert 0 <= result.loss <= 1
        assert 0 <= result.kl_div < math.inf
        assert result.loss <= result.fun * (1 + 1e-11)
        assert 0 < result.fun < math.inf
        assert result.lam > 0
        assert result.converged

    @pytest.mark.parametrize("m", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
    def test_many_hypotheses(self, minimize, m):
        rng = np.random.default_rng(0)
        losses = rng.binomial(2000, 0.3, m) / 2000
        result = minimize(losses, 2000)
        assert result.rho.shape == losses.shape
        assert result.rho.sum() == pytest.approx(1, rel=1e-10)
        assert losses.min() < result.loss < 0.3
        continuous = minimize(rng.random(m), 10**12)
        assert continuous.converged

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n": 0}, "n must be a whole number, at least 1, got 0"),
            ({"n": 10.5}, "n must be a whole number, at least 1, got 10.5"),
            ({"n": [10, 20]}, r"n must be a single number, got an array of shape \(2,\)"),
            ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
            ({"delta": 1.0}, r"delta must be in \(0, 1\), got 1.0"),
            ({"losses": [0.1, 1.1]}, r"losses must be in \[0, 1\], got 1.1"),
            ({"losses": []}, "losses must be a one-dimensional, non-empty array"),
            ({"prior": [0.5]}, "prior must have one entry per hypothesis"),
            ({"prior": [0.5, 0.4]}, "prior must sum to one"),
            ({"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
            ({"rtol": 0.0}, r"rtol must be in \(0, 1\), got 0.0"),
            ({"n_max": 9}, "n_max must be at least n, got 9"),
            ({"n_max": [10, 20]}, r"n_max must be a single number, got an array of shape \(2,\)"),
        ],
    )
    def test_bad_input(self, minimize, change, message):
        arguments = {"losses": [0.1, 0.2], "n": 10, **change}
        with pytest.raises(ValueError, match=message):
            minimize(arguments.pop("losses"), arguments.pop("n"), **arguments)


@given(problems(max_m=6))
def test_lower_is_never_above_the_exact_minimum(problem):
    """The exact bound of any posterior is at least `lower`: here, that of the best one found and of its neighbours."""
    losses, n, delta, log_prior = problem
    if log_prior is None:
        log_prior = np.full(losses.size, -math.log(losses.size))
    confidence = mp_oracle.confidence_term(n, delta)
    by_lambda = minimize_lambda_bound(losses, n, delta=delta, prior=log_prior, method="global", rtol=1e-12)
    by_kl = minimize_kl_bound(losses, n, delta=delta, prior=log_prior, rtol=1e-12)
    for change in (1.0, 1 - 1e-7, 1 + 1e-7, 1 - 1e-3, 1 + 1e-3):
        loss, _, kl_div = mp_oracle.gibbs_moments(losses, by_lambda.lam * n * change, log_prior)
        c = (kl_div + confidence) / n
        assert by_lambda.lower <= loss + c + mp.sqrt(c * c + 2 * c * loss)
        loss, _, kl_div = mp_oracle.gibbs_moments(losses, min(by_kl.lam * n * change, 1e300), log_prior)
        at_lower = mp_oracle.kl(loss, by_kl.lower) if loss < by_kl.lower < 1 else 0
        assert at_lower <= (kl_div + confidence) / n


@given(problems(max_m=8), st.floats(0.001, 1.999), st.sampled_from([1, 2, 50]))
def test_unequal_validation_sets_change_the_confidence_term_only(problem, lam, ratio):
    losses, n, delta, log_prior = problem
    n_max = n * ratio
    more = lambda_bound(losses, lam, n, delta, log_prior, n_max=n_max) - lambda_bound(losses, lam, n, delta, log_prior)
    assert more == pytest.approx(0.5 * math.log(ratio) / (n * lam * (1 - lam / 2)), rel=1e-6, abs=1e-10)
    loss, kl_div = 0.3, 2.0
    optimal = optimal_lambda(loss, kl_div, n, delta, n_max=n_max)
    assert optimal == pytest.approx(optimal_lambda(loss, kl_div + 0.5 * math.log(ratio), n, delta), rel=1e-12)
    slope, _ = lambda_bound_derivatives([loss], optimal_lambda(loss, 0.0, n, delta, n_max=n_max), n, delta, n_max=n_max)
    assert slope == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("n", [19, 10**7, 10**12, 10**15])
@pytest.mark.parametrize("log_prior", [-1e3, -3e5, -1e13, -1e15])
def test_absurd_priors_do_no_harm(n, log_prior):
    """Prior masses that no float can hold: sound, if not always sharp."""
    losses, prior = [0.0, 0.3, 1.0], [log_prior, log_prior / 3, 0.0]
    for result in (
        minimize_lambda_bound(losses, n, prior=prior, method="global"),
        minimize_kl_bound(losses, n, prior=prior),
    ):
        assert result.lower <= result.fun
        assert np.isfinite(result.rho).all()
        assert result.rho.sum() == pytest.approx(1)


def test_tiny_lambda_does_not_warn():
    assert lambda_bound([0.1, 0.2], 1e-200, 100) > 1e190
    assert lambda_bound_derivatives([0.1, 0.2], 1e-200, 100) == (-math.inf, math.inf)


@pytest.mark.parametrize("lam", [0.0, 2.0, -0.5, math.nan])
def test_lambda_outside_its_range_is_refused(lam):
    for call in (
        lambda: gibbs_posterior([0.1], lam, 10),
        lambda: lambda_bound([0.1], lam, 10),
        lambda: lambda_bound_derivatives([0.1], lam, 10),
    ):
        with pytest.raises(ValueError, match=rf"lam must be in \(0, 2\), got {lam}"):
            call()
    with pytest.raises(ValueError, match=r"lam0 must be in \(0, 2\)"):
        minimize_lambda_bound([0.1], 10, lam0=lam)


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be 'alternating' or 'global', got 'newton'"):
        minimize_lambda_bound([0.1], 10, method="newton")
