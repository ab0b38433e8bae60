import math

import dual_oracle as oracle
import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from pacbayes import bounds, posterior
from pacbayes.bounds import pac_bayes_dual
from pacbayes.bounds.comparators import CatoniMixture
from pacbayes.posterior import dual_bound, minimize_dual_bound

COMPARATORS = ["kl", "mixture"]
SIZES = [1, 2, 7, 50, 165, 2000, 10**6, 10**9, 10**12]

# Two hypotheses of prior masses 0.92 and 0.08, for which F has two local minima.
TWO_MINIMA = {"losses": [0.05, 0.0], "n": [500, 100], "delta": 0.9, "prior": [0.92, 0.08]}


@st.composite
def problems(draw, max_m=30, sizes=SIZES, equal=False):
    """Few distinct losses and numbers of points, prior masses far apart: F often has several local minima."""
    m = draw(st.integers(1, max_m))
    levels = draw(st.lists(st.one_of(st.sampled_from([0.0, 1.0, 1e-9]), st.floats(0, 1)), min_size=1, max_size=4))
    losses = np.array(draw(st.lists(st.sampled_from(levels), min_size=m, max_size=m)))
    rungs = draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=1 if equal else 3))
    n = rungs[0] if equal else np.array(draw(st.lists(st.sampled_from(rungs), min_size=m, max_size=m)))
    delta = draw(st.sampled_from([5e-324, 1e-9, 0.01, 0.05, 0.25, 0.9]))
    log_prior = None
    if draw(st.booleans()):
        log_prior = np.array(draw(st.lists(st.floats(-700, 0), min_size=m, max_size=m)))
        log_prior = np.minimum(log_prior - np.logaddexp.reduce(log_prior), 0.0)
    return losses, n, delta, log_prior


def exact_problem(losses, n, delta, log_prior, comparator):
    """Comparators and prior for the oracle."""
    n = np.broadcast_to(n, losses.shape)
    prior = [mp.mpf(1)] * losses.size if log_prior is None else [mp.exp(mp.mpf(x)) for x in log_prior.tolist()]
    prior = [p / mp.fsum(prior) for p in prior]
    if comparator == "kl":
        return [oracle.Kl(p, size) for p, size in zip(losses.tolist(), n.tolist(), strict=True)], prior
    mixture = CatoniMixture(losses, n.astype(float), delta)
    grids = [a[q > -np.inf].tolist() for a, q in zip(mixture._a, mixture._log_q, strict=True)]
    return [oracle.Mixture(*case) for case in zip(losses.tolist(), n.tolist(), grids, strict=True)], prior


class TestDualBound:
    @settings(max_examples=6)
    @given(problems(max_m=4), st.floats(-6, 3), st.sampled_from(COMPARATORS))
    def test_against_mpmath_and_rounded_up(self, problem, log_ratio, comparator):
        self.check_against_mpmath(problem, log_ratio, comparator)

    @pytest.mark.slow
    @settings(max_examples=60)
    @given(problems(max_m=4), st.floats(-6, 3), st.sampled_from(COMPARATORS))
    def test_against_mpmath_and_rounded_up_at_length(self, problem, log_ratio, comparator):
        self.check_against_mpmath(problem, log_ratio, comparator)

    @staticmethod
    def check_against_mpmath(problem, log_ratio, comparator):
        losses, n, delta, log_prior = problem
        ds, prior = exact_problem(*problem, comparator)
        mu = math.exp(-log_ratio) / float(np.max(n))
        exact = oracle.dual_bound(ds, mu, delta, prior)
        found = dual_bound(losses, mu, n, delta, log_prior, comparator=comparator)
        assert exact <= found <= exact * (1 + mp.mpf("1e-11")) + mp.mpf("1e-13")

    @pytest.mark.parametrize("comparator", COMPARATORS)
    def test_extreme_multipliers(self, comparator):
        """As mu tends to 0 the bound tends to 1; large mu are vacuous."""
        mu = [5e-324, 1e-300, 1e-12, 1.0, 1e300, 1.7e308]
        values = dual_bound([0.1, 0.2], mu, [10, 100], comparator=comparator)
        assert values[:2] == pytest.approx(1, abs=1e-12)
        assert 0.99 < values[2] < 1
        assert (values[3:] > 1).all()

    def test_shapes(self):
        assert type(dual_bound([0.1], 0.01, 100)) is float
        assert dual_bound([0.1, 0.2], np.full((2, 3), 0.01), [100, 200]).shape == (2, 3)
        assert dual_bound([0.1], [], 100).shape == (0,)


class TestPacBayesDual:
    @pytest.mark.parametrize("comparator", COMPARATORS)
    def test_the_largest_loss_that_the_inequality_allows(self, comparator):
        """Maximise E_rho[L] subject to E_rho[D_h(L_h)] <= KL + ln(1 / delta), by a general solver."""
        losses, n, delta = np.array([0.05, 0.1, 0.2]), np.array([60, 200, 1000]), 0.05
        ds, prior = exact_problem(losses, n, delta, None, comparator)
        for rho in ([0.6, 0.3, 0.1], [0.0, 1.0, 0.0], [0.01, 0.01, 0.98]):
            weights = np.array(rho)
            budget = float(mp_oracle.kl_to_prior(rho, prior) - mp.log(mp.mpf(delta)))

            def left_over(true, weights=weights, budget=budget):
                return budget - weights @ [float(d.value(mp.mpf(x))) for d, x in zip(ds, true, strict=True)]

            def gradient(true, weights=weights):
                return -weights * [float(d.slope(mp.mpf(x))) for d, x in zip(ds, true, strict=True)]

            found = optimize.minimize(
                lambda true, weights=weights: -weights @ true,
                losses + 0.02,
                jac=lambda true, weights=weights: -weights,
                method="SLSQP",
                bounds=[(p / 2, 0.95) for p in losses],
                constraints={"type": "ineq", "fun": left_over, "jac": gradient},
                options={"ftol": 1e-10},
            )
            assert abs(left_over(found.x)) < 1e-6
            value = pac_bayes_dual(rho, losses, n, delta=delta, comparator=comparator)
            assert value == pytest.approx(-found.fun, rel=1e-6)

    @pytest.mark.parametrize("n", [1, 20, 500, 10**5, 10**9])
    def test_one_hypothesis_is_the_inverse_of_kl(self, n):
        """Without a posterior to average over, the bound is kl(p || L) <= ln(xi(n) / delta) / n, inverted."""
        for p in (0.0, 1e-6, 0.03, 0.5, 0.99):
            exact = mp_oracle.kl_inverse_upper(p, (oracle.log_xi(mp.mpf(n)) - mp.log(mp.mpf(0.05))) / n)
            value = pac_bayes_dual([1.0], [p], n)
            assert exact <= value <= exact * (1 + mp.mpf("1e-11"))
            assert minimize_dual_bound([p], n).fun == pytest.approx(value, rel=1e-11)

    @pytest.mark.parametrize("comparator", ["kl", pytest.param("mixture", marks=pytest.mark.slow)])
    @pytest.mark.parametrize(
        ("losses", "n", "delta", "rho"),
        [
            ([0.1, 0.2], [50, 2000], 0.05, [0.3, 0.7]),
            ([0.0, 0.03], [100, 100], 1e-9, [0.9, 0.1]),
            ([0.0, 1.0], [7, 165], 0.9, [0.5, 0.5]),
            ([0.4, 1e-9], [10**6, 50], 0.25, [1 - 1e-12, 1e-12]),
        ],
    )
    def test_rounded_up(self, losses, n, delta, rho, comparator):
        """Never below the right-hand side at its best mu."""
        log_prior = np.log([0.75, 0.25])
        ds, prior = exact_problem(np.array(losses), np.array(n), delta, log_prior, comparator)
        exact = oracle.smallest_bound_of(rho, ds, delta, prior)
        value = pac_bayes_dual(rho, losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert exact <= value <= exact * (1 + mp.mpf("1e-11"))

    def test_a_posterior_that_sums_to_nearly_one_is_normalised(self):
        """What is missing from the sum must not be missing from the divergence."""
        rho, losses, n, log_prior = (
            np.array([0.7, 0.3]) * (1 - 9e-9),
            np.array([0.1, 0.2]),
            [500, 300],
            np.log([0.01, 0.99]),
        )
        ds, prior = exact_problem(losses, np.array(n), 0.05, log_prior, "kl")
        exact = oracle.smallest_bound_of(rho.tolist(), ds, 0.05, prior)
        assert exact <= pac_bayes_dual(rho, losses, n, prior=log_prior) <= exact * (1 + mp.mpf("1e-11"))

    def test_weight_without_prior_mass_proves_nothing(self):
        assert pac_bayes_dual([0.5, 0.5], [0.0, 0.0], 1000, prior=[1.0, 0.0]) == 1.0

    @pytest.mark.parametrize(
        ("rho", "message"),
        [
            ([0.5], r"^rho must have one entry per hypothesis: there are 2 losses, got shape \(1,\)$"),
            ([-0.5, 1.5], r"^rho must be non-negative, got -0.5$"),
            ([np.nan, 1.0], r"^rho must be non-negative, got nan$"),
            ([0.5, 0.4], r"^rho must sum to one, got a sum of 0.9$"),
            (["a", "b"], r"^rho must be an array of numbers, got \['a', 'b'\]$"),
        ],
    )
    def test_bad_posteriors(self, rho, message):
        with pytest.raises(ValueError, match=message):
            pac_bayes_dual(rho, [0.1, 0.2], 100)


class TestMinimizeDualBound:
    @settings(max_examples=4)
    @given(problems(max_m=3), st.sampled_from(COMPARATORS))
    def test_fun_and_lower_enclose_the_minimum(self, problem, comparator):
        self.check_enclosure(problem, comparator)

    @pytest.mark.slow
    @settings(max_examples=40)
    @given(problems(max_m=3), st.sampled_from(COMPARATORS))
    def test_fun_and_lower_enclose_the_minimum_at_length(self, problem, comparator):
        self.check_enclosure(problem, comparator)

    @staticmethod
    def check_enclosure(problem, comparator):
        """In 60 digits: `fun` is at least the bound of `rho`, `lower` at most F on a dense grid of multipliers."""
        losses, n, delta, log_prior = problem
        ds, prior = exact_problem(*problem, comparator)
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert result.converged
        if result.mu > 0:
            assert oracle.bound_of(result.rho.tolist(), ds, result.mu, delta, prior) <= result.fun
            grid = [result.mu * 2.0**power for power in (-8, -2, -0.5, -0.05, -1e-3, 0, 1e-3, 0.05, 0.5, 2, 8)]
            smallest = min(oracle.dual_bound(ds, mu, delta, prior) for mu in grid)
            assert result.lower <= smallest <= result.fun
        else:
            assert result.fun == 1.0

    @given(problems(), st.sampled_from(COMPARATORS))
    def test_nothing_on_a_grid_is_better(self, problem, comparator):
        losses, n, delta, log_prior = problem
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert result.converged
        assert result.status == 0
        assert 0 < result.lower <= result.fun <= 1
        assert result.fun - result.lower <= 1.001e-8 * result.fun
        mu = 1 / np.geomspace(1e-3, 1e10 * np.max(n), 300)
        grid = dual_bound(losses, mu, n, delta, log_prior, comparator=comparator)
        assert result.lower <= grid.min()
        assert result.fun <= min(grid.min(), 1.0) * (1 + 1e-8)

    @given(problems(), st.sampled_from(COMPARATORS))
    def test_the_result_is_about_rho(self, problem, comparator):
        losses, n, delta, log_prior = problem
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert result.rho.shape == losses.shape
        assert result.rho.sum() == pytest.approx(1, rel=1e-12)
        own = pac_bayes_dual(result.rho, losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert own == pytest.approx(result.fun, rel=1e-10)
        assert result.loss == pytest.approx(result.rho @ losses, rel=1e-10, abs=1e-300)
        assert result.loss * (1 + 1e-9) + 1e-300 >= losses.min()
        log_weights = np.full(losses.size, -math.log(losses.size)) if log_prior is None else log_prior
        on = result.rho > 0
        kl_div = np.sum(result.rho[on] * (np.log(result.rho[on]) - log_weights[on]))
        assert result.kl_div == pytest.approx(kl_div, rel=1e-9, abs=1e-9)
        assert (np.diff(result.history) <= 0).all()
        assert result.history.size == result.mu_history.size == result.nit <= result.nfev

    @given(problems(max_m=8), st.sampled_from(COMPARATORS), st.integers(0, 2**32 - 1))
    def test_no_other_posterior_is_better(self, problem, comparator, seed):
        losses, n, delta, log_prior = problem
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        other = np.random.default_rng(seed).dirichlet(np.full(losses.size, 0.3))
        for share in (1e-3, 0.2, 1.0):
            mixed = (1 - share) * result.rho + share * other
            value = pac_bayes_dual(mixed, losses, n, delta=delta, prior=log_prior, comparator=comparator)
            assert value >= result.lower * (1 - 1e-12)

    @given(problems(equal=True))
    def test_never_above_the_kl_bound_for_equal_n(self, problem):
        losses, n, delta, log_prior = problem
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior)
        kl = posterior.minimize_kl_bound(losses, n, delta=delta, prior=log_prior)
        assert result.fun <= kl.fun * (1 + 1e-8)
        # Nor is the bound of any one posterior.
        own = pac_bayes_dual(kl.rho, losses, n, delta=delta, prior=log_prior)
        assert own <= bounds.pac_bayes_kl(kl.loss, kl.kl_div, n, delta) * (1 + 1e-9)

    @given(problems(), st.sampled_from(COMPARATORS), st.randoms(use_true_random=False))
    def test_the_order_of_hypotheses_does_not_matter(self, problem, comparator, random):
        losses, n, delta, log_prior = problem
        order = list(range(losses.size))
        random.shuffle(order)
        shuffled = minimize_dual_bound(
            losses[order],
            n[order],
            delta=delta,
            prior=None if log_prior is None else log_prior[order],
            comparator=comparator,
        )
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert shuffled.fun == pytest.approx(result.fun, rel=1e-11)
        if np.ptp(losses) > 0:  # otherwise mu may be anything where the bound is flat
            assert shuffled.rho == pytest.approx(result.rho[order], rel=1e-4, abs=1e-7)

    @given(problems(), st.sampled_from(COMPARATORS))
    def test_splitting_a_hypothesis_changes_nothing(self, problem, comparator):
        losses, n, delta, log_prior = problem
        log_prior = np.full(losses.size, -math.log(losses.size)) if log_prior is None else log_prior
        halves = np.concatenate(([log_prior[0] - math.log(2)] * 2, log_prior[1:]))
        twice = np.concatenate(([0], np.arange(losses.size)))
        split = minimize_dual_bound(losses[twice], n[twice], delta=delta, prior=halves, comparator=comparator)
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        assert split.fun == pytest.approx(result.fun, rel=1e-11)
        assert split.rho[0] == pytest.approx(split.rho[1], rel=1e-9)

    @given(problems(max_m=10), st.sampled_from(COMPARATORS), st.floats(1e-6, 0.9))
    def test_a_useless_hypothesis_costs_its_prior_mass(self, problem, comparator, mass):
        """With loss 1 it gets next to no weight: all that it costs is ln(1 / (1 - mass)), as a smaller delta would."""
        losses, n, delta, log_prior = problem
        log_prior = np.full(losses.size, -math.log(losses.size)) if log_prior is None else log_prior
        result = minimize_dual_bound(losses, n, delta=delta, prior=log_prior, comparator=comparator)
        with_useless = minimize_dual_bound(
            np.append(losses, 1.0),
            np.append(n, n[0]),
            delta=delta,
            prior=np.append(log_prior + math.log1p(-mass), math.log(mass)),
            comparator=comparator,
        )
        assert with_useless.fun >= result.lower
        extra = result.mu * -math.log1p(-mass)
        assert with_useless.fun <= min(1.0, (result.fun + extra) * (1 + 1e-9))

    def test_several_local_minima(self):
        """F is not quasiconvex in general; the search finds the global minimum all the same."""
        mu = np.geomspace(1e-4, 1, 2001)
        grid = dual_bound(TWO_MINIMA["losses"], mu, **{k: v for k, v in TWO_MINIMA.items() if k != "losses"})
        is_minimum = (grid[1:-1] < grid[:-2]) & (grid[1:-1] < grid[2:])
        assert np.count_nonzero(is_minimum) == 2
        result = minimize_dual_bound(**TWO_MINIMA)
        assert result.fun <= grid.min() <= result.fun * (1 + 1e-4)
        assert result.converged

    def test_small_validation_sets_no_longer_rule(self):
        """A hypothesis with few points and no merit leaves the bound of the others almost as it is."""
        losses, n = np.full(99, 0.1), np.full(99, 2000)
        alone = minimize_dual_bound(losses, n).fun
        with_small = minimize_dual_bound(np.append(losses, 0.4), np.append(n, 10)).fun
        assert alone <= with_small <= alone * 1.001
        jensen = posterior.minimize_kl_bound(np.append(losses, 0.4), 10).fun
        assert with_small < 0.3 * jensen

    @pytest.mark.parametrize("comparator", COMPARATORS)
    def test_nothing_is_proved_if_all_err_always(self, comparator):
        result = minimize_dual_bound([1.0, 1.0], [10, 20], prior=[0.25, 0.75], comparator=comparator)
        assert (result.fun, result.mu, result.loss) == (1.0, 0.0, 1.0)
        assert result.kl_div == pytest.approx(0, abs=1e-13)
        assert result.rho == pytest.approx([0.25, 0.75], rel=1e-15)
        assert result.converged

    @pytest.mark.parametrize("comparator", COMPARATORS)
    def test_many_hypotheses_and_priors_over_300_orders_of_magnitude(self, comparator):
        rng = np.random.default_rng(0)
        n = rng.choice([1000, 4000, 16000], 10**5)
        losses = rng.binomial(n, 0.2) / n
        prior = 10.0 ** rng.uniform(-300, 0, n.size)
        prior /= prior.sum()
        for weights in (prior, np.log(prior), None):
            result = minimize_dual_bound(losses, n, prior=weights, comparator=comparator)
            assert result.converged
            assert result.rho.sum() == pytest.approx(1, rel=1e-12)
        as_logs = minimize_dual_bound(losses, n, prior=np.log(prior), comparator=comparator)
        assert as_logs.fun == pytest.approx(
            minimize_dual_bound(losses, n, prior=prior, comparator=comparator).fun, rel=1e-11
        )

    def test_hypotheses_without_prior_mass_are_left_out(self):
        result = minimize_dual_bound([0.0, 0.1, 0.3], [10**6, 500, 900], prior=[0.0, 0.4, 0.6])
        without = minimize_dual_bound([0.1, 0.3], [500, 900], prior=[0.4, 0.6])
        assert result.rho[0] == 0
        assert result.fun == pytest.approx(without.fun, rel=1e-13)

    @pytest.mark.parametrize("max_iter", [1, 3, 8])
    def test_a_search_that_is_cut_short_says_so(self, max_iter):
        """`fun` and `lower` hold nevertheless."""
        complete = minimize_dual_bound(**TWO_MINIMA)
        result = minimize_dual_bound(**TWO_MINIMA, max_iter=max_iter)
        assert (result.status, result.converged) == (1, False)
        assert "before" in result.message
        assert result.nfev <= max_iter
        assert 0 < result.lower <= complete.lower
        assert complete.fun <= result.fun * (1 + 1e-12)

    def test_tolerance(self):
        tight, loose = (minimize_dual_bound([0.1, 0.2], [300, 900], rtol=rtol) for rtol in (1e-11, 1e-3))
        assert tight.fun - tight.lower <= 1.2e-11
        assert loose.nfev < tight.nfev
        assert loose.lower < tight.lower

    def test_is_a_posterior_minimiser(self):
        assert posterior.minimize_dual_bound is minimize_dual_bound

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n": [100, 0]}, r"^n must be a whole number, at least 1, got 0.0$"),
            ({"n": 10.5}, r"^n must be a whole number, at least 1, got 10.5$"),
            ({"n": [100, np.nan]}, r"^n must be a whole number, at least 1, got nan$"),
            (
                {"n": [100, 100, 100]},
                r"^n must be a single number or have one entry per hypothesis: "
                r"there are 2 losses, got shape \(3,\)$",
            ),
            ({"losses": [0.1, 1.1]}, r"^losses must be in \[0, 1\], got 1.1$"),
            ({"losses": []}, r"^losses must be a one-dimensional, non-empty array"),
            ({"delta": 0.0}, r"^delta must be in \(0, 1\), got 0.0$"),
            ({"delta": [0.1, 0.2]}, r"^delta must be a single number, got an array of shape \(2,\)$"),
            ({"prior": [1.0]}, r"^prior must have one entry per hypothesis: there are 2 losses, got shape \(1,\)$"),
            ({"prior": [0.5, 0.4]}, r"^prior must sum to one, got a sum of 0.9$"),
            ({"comparator": "catoni"}, r"^comparator must be one of 'kl', 'mixture', got 'catoni'$"),
            ({"rtol": 0}, r"^rtol must be in \(0, 1\), got 0.0$"),
            ({"max_iter": 0}, r"^max_iter must be a whole number, at least 1, got 0.0$"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            minimize_dual_bound(**{"losses": [0.1, 0.2], "n": 100, **arguments})


@pytest.mark.parametrize("repetitions", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_bound_fails_at_most_as_often_as_delta(comparator, delta, repetitions):
    """Known true losses, unequal validation sets, the posterior that minimises the bound: violations are counted."""
    rng = np.random.default_rng(1)
    true = np.array([0.02, 0.05, 0.1, 0.1, 0.1, 0.3, 0.3, 0.5])
    n = np.array([5, 10, 20, 20, 40, 40, 80, 160])
    failures = 0
    for _ in range(repetitions):
        result = minimize_dual_bound(rng.binomial(n, true) / n, n, delta=delta, comparator=comparator, rtol=1e-3)
        failures += result.rho @ true > result.fun
    assert failures <= delta * repetitions


@pytest.mark.parametrize("comparator", COMPARATORS)
def test_the_simulation_sees_a_bound_that_is_too_small(comparator):
    """With a delta of nearly one, the bound of a single hypothesis does fail now and then."""
    rng = np.random.default_rng(2)
    values = [
        minimize_dual_bound(rng.binomial(30, 0.3, 1) / 30, 30, delta=0.999, comparator=comparator, rtol=1e-3).fun
        for _ in range(150)
    ]
    assert 0 < np.mean(np.array(values) < 0.3) < 0.999
