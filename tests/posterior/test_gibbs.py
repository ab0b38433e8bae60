import math

import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.posterior.gibbs import GibbsCurve


@st.composite
def curves(draw):
    """Losses of up to 12 hypotheses with a prior over hundreds of orders of magnitude, zeros included."""
    m = draw(st.integers(1, 12))
    n = draw(st.sampled_from([1, 7, 100, 2000]))
    if draw(st.booleans()):
        losses = np.array(draw(st.lists(st.integers(0, n), min_size=m, max_size=m))) / n
    else:
        losses = np.array(draw(st.lists(st.floats(0, 1), min_size=m, max_size=m)))
    weights = np.array(draw(st.lists(st.floats(-600, 0), min_size=m, max_size=m)))
    weights[draw(st.lists(st.booleans(), min_size=m, max_size=m))] = -np.inf
    weights[draw(st.integers(0, m - 1))] = 0.0
    return losses, n, weights - np.logaddexp.reduce(weights)


@given(curves(), st.floats(0, 5000))
def test_figures_against_mpmath(case, t):
    losses, n, log_prior = case
    point = GibbsCurve(losses, n, log_prior).at(t)
    mp.mp.dps = 700  # priors of 1e-260 and their squares count
    prior = [mp.exp(mp.mpf(x)) for x in log_prior]
    prior = [p / mp.fsum(prior) for p in prior]
    least = min(x for x, p in zip(losses.tolist(), prior, strict=True) if p > 0)
    x = [mp.mpf(value) - mp.mpf(least) for value in losses.tolist()]
    weight = [p * mp.exp(-mp.mpf(t) * x_i) for p, x_i in zip(prior, x, strict=True)]
    z = mp.fsum(weight)
    mean = mp.fsum(w * x_i for w, x_i in zip(weight, x, strict=True)) / z
    var = mp.fsum(w * (x_i - mean) ** 2 for w, x_i in zip(weight, x, strict=True)) / z
    divergence = max(mp.mpf(0), -mp.log(z) - mp.mpf(t) * mean)  # the last digits cancel at t = 0
    assert point.minus_log_z[0] == pytest.approx(float(-mp.log(z)), rel=1e-12, abs=1e-14)
    # Subnormal means are below anything that the bounds can tell from zero.
    assert point.loss_down[0] - 1e-300 <= least + mean <= point.loss_up[0] + 1e-300
    assert point.loss_up[0] - point.loss_down[0] <= 1e-11
    assert point.var[0] == pytest.approx(float(var), rel=1e-10, abs=1e-290)
    assert point.kl_div_down[0] <= divergence <= point.kl_div_up[0] + 1e-15
    assert point.kl_div_up[0] - point.kl_div_down[0] <= 1e-9


def test_margins_for_rounding_are_small_at_ordinary_sizes():
    losses = np.random.default_rng(0).binomial(2000, 0.3, 2000) / 2000
    point = GibbsCurve(losses, 2000).at(np.geomspace(1, 2000, 50))
    assert np.all(point.loss_up - point.loss_down < 1e-12 * point.loss)
    assert np.all(point.kl_div_up - point.kl_div_down < 1e-11)


@given(curves(), st.floats(0, 5000))
def test_posterior_against_mpmath(case, t):
    losses, n, log_prior = case
    rho = GibbsCurve(losses, n, log_prior).rho(t)
    weight = [mp.exp(mp.mpf(p) - mp.mpf(t) * mp.mpf(x)) for p, x in zip(log_prior, losses.tolist(), strict=True)]
    for value, w in zip(rho.tolist(), weight, strict=True):
        assert value == pytest.approx(float(w / mp.fsum(weight)), rel=1e-10, abs=1e-300)


@given(curves(), st.lists(st.floats(0, 5000), min_size=2, max_size=2))
def test_what_falls_and_grows_along_the_curve(case, temperatures):
    """What the certified searches rest on: figures at the ends of an interval bound those within."""
    losses, n, log_prior = case
    point = GibbsCurve(losses, n, log_prior).at(sorted(temperatures))
    for falls in (point.loss, point.var + point.mean_x**2, point.var * np.exp(-point.minus_log_z)):
        assert falls[1] <= falls[0] * (1 + 1e-9) + 1e-290
    for grows in (point.kl_div, point.minus_log_z):
        assert grows[1] >= grows[0] * (1 - 1e-12) - 1e-12


@pytest.mark.parametrize("prior", [None, [0.2, 0.3, 0.5]])
def test_ends_of_the_curve(prior):
    curve = GibbsCurve([0.3, 0.1, 0.1], 10, prior)
    expected = np.array([1, 1, 1]) / 3 if prior is None else np.array(prior)
    np.testing.assert_allclose(curve.rho(0.0), expected, rtol=1e-15)
    expected[0] = 0
    np.testing.assert_allclose(curve.rho(np.inf), expected / expected.sum(), rtol=1e-15)
    end = curve.at(np.inf)
    assert (end.mean_x[0], end.var[0]) == (0, 0)
    assert end.kl_div[0] == pytest.approx(-np.log(expected.sum()), rel=1e-14)


@pytest.mark.parametrize("n", [3, 2000, 10**12])
def test_grouping_gives_back_every_hypothesis(n):
    """Counting (losses that are counts over n) and sorting (any others) group alike."""
    rng = np.random.default_rng(0)
    losses = rng.integers(0, min(n, 50) + 1, 500) / n
    counted, by_value = GibbsCurve(losses, n), GibbsCurve(losses, n + 0.5)
    np.testing.assert_array_equal(counted.counts, by_value.counts)
    np.testing.assert_array_equal(counted.x, by_value.x)
    np.testing.assert_array_equal(counted.rho(3.0), by_value.rho(3.0))
    assert counted.counts.sum() == counted.m == 500


def test_prior_mass_of_large_groups_is_summed_accurately():
    rng = np.random.default_rng(0)
    losses, weights = rng.integers(0, 5, 10**5) / 10, rng.random(10**5) ** 20
    curve = GibbsCurve(losses, 10, weights / weights.sum())
    total = math.fsum(weights)
    exact = [math.log(math.fsum(weights[losses == value]) / total) for value in np.unique(losses)]
    np.testing.assert_allclose(curve.log_mass, exact, rtol=0, atol=2e-15)


def test_blocks_of_temperatures_do_not_matter(monkeypatch):
    curve = GibbsCurve(np.linspace(0, 1, 101), 100)
    t = np.geomspace(0.1, 1e4, 57)
    whole = curve.at(t)
    monkeypatch.setattr("pacbayes.posterior.gibbs._BLOCK", 250)
    blocked = curve.at(t)
    for name in ("minus_log_z", "mean_x", "var", "kl_div"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(blocked, name))


def test_probabilities_and_log_probabilities_agree():
    losses, prior = [0.1, 0.4, 0.2, 0.2], np.array([0.1, 0.0, 0.5, 0.4])
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    np.testing.assert_array_equal(GibbsCurve(losses, 10, prior).rho(5.0), GibbsCurve(losses, 10, log_prior).rho(5.0))
    assert GibbsCurve([0.5], 10, [0.0]).rho(1.0).tolist() == [1.0]  # ln 1 = 0


class TestLogPrior:
    """The normalised prior stays in logs."""

    def test_uniform(self):
        curve = GibbsCurve([0.1, 0.2, 0.4], 10)
        np.testing.assert_allclose(curve.log_prior, np.full(3, -math.log(3)), rtol=1e-15)
        assert GibbsCurve([0.1], 10).log_prior.tolist() == [0.0]

    def test_one_entry_per_hypothesis(self):
        curve = GibbsCurve([0.1, 0.2, 0.4, 0.4], 10, [0.5, 0.0, 0.25, 0.25])
        assert curve.log_prior.tolist() == [math.log(0.5), -math.inf, math.log(0.25), math.log(0.25)]
        assert [curve.point_mass_kls()[h] < math.inf for h in range(4)] == [True, False, True, True]

    def test_masses_too_small_for_a_float(self):
        curve = GibbsCurve([0.5, 0.0], 100_000, [-1e-300, -745.0])
        assert curve.log_prior[1] == -745
        assert 745 <= curve.point_mass_kls()[1] < 745 * (1 + 1e-14)
        # -ln(pi) is exp(-745) here: not zero.
        assert 0 < curve.point_mass_kls()[0] < 1e-14

    @pytest.mark.parametrize("scale", [1e-300, 1.0, 700.0, 1e6, 1e15])
    def test_point_masses_against_mpmath(self, scale):
        rng = np.random.default_rng(0)
        for _ in range(20):
            log_prior = -scale * rng.random(5)
            log_prior[rng.integers(5)] = 0.0
            log_prior -= np.logaddexp.reduce(log_prior)
            curve = GibbsCurve(rng.random(5), 100, log_prior)
            with mp.workdps(350):
                top = max(mp.mpf(x) for x in log_prior.tolist())
                norm = top + mp.log(mp.fsum(mp.exp(mp.mpf(x) - top) for x in log_prior.tolist()))
                for h in range(5):
                    exact = norm - mp.mpf(float(log_prior[h]))
                    assert exact <= curve.point_mass_kls()[h] <= exact * (1 + mp.mpf("1e-13")) + mp.mpf("1e-13")

    @pytest.mark.parametrize("m", [2, 1000, 10**6])
    def test_point_masses_of_many(self, m):
        assert math.log(m) < GibbsCurve(np.zeros(m), 10).point_mass_kls()[m - 1] < math.log(m) * (1 + 1e-13)
        weights = np.random.default_rng(0).random(m)
        prior = weights / weights.sum()
        exact = mp.log(mp.mpf(math.fsum(prior))) - mp.log(mp.mpf(float(prior[0])))
        assert exact <= GibbsCurve(np.zeros(m), 10, prior).point_mass_kls()[0] <= exact * (1 + mp.mpf("1e-13"))

    def test_a_single_hypothesis_costs_nothing(self):
        for curve in (GibbsCurve([0.3], 10), GibbsCurve([0.3], 10, [1.0]), GibbsCurve([0.2, 0.3], 10, [0.0, 1.0])):
            kl_div = curve.point_mass_kls()[-1]
            assert (kl_div, math.copysign(1, kl_div)) == (0, 1)


def test_no_divergence_or_loss_is_negative_zero():
    for losses, prior in [([-0.0, 0.0], None), ([0.3], [-0.0]), ([0.5, -0.0], [-0.0, -1e3])]:
        moments = GibbsCurve(losses, 10, prior).at([0.0, 3.0, np.inf])
        for name in ("loss", "loss_up", "loss_down", "kl_div", "kl_div_up", "kl_div_down"):
            assert not np.signbit(getattr(moments, name)).any(), name


# Log-priors and temperatures so large that a unit in the last place of an exponent exceeds any weight.
EXTREME = [
    (
        [0.6999465673764552, 0.8794600586029268, 0.8369862357329253],
        [-1.0093939048552619e17, 0.0, -6471363065879505.0],
        6.893480446399997e17,
    ),
    (
        [0.17777368911376012, 0.17777867728497054, 0.1848445683813193],
        [-9.771377245414578e16, 0.0, -4.768511678265114e16],
        1.9589097553440235e22,
    ),
    ([0.0, 0.3, 1.0], [-1e15, -3e14, 0.0], np.inf),
]


@st.composite
def extreme_curves(draw):
    """Two to four losses, log-priors down to -1e18, and a temperature near one where two of them weigh the same."""
    m = draw(st.integers(2, 4))
    losses = draw(st.lists(st.floats(0, 1, width=32), min_size=m, max_size=m, unique=True))
    scale = 10.0 ** draw(st.floats(0, 18))
    log_prior = [-scale * share for share in draw(st.lists(st.floats(0, 1), min_size=m, max_size=m))]
    log_prior[draw(st.integers(0, m - 1))] = 0.0
    log_prior = np.array(log_prior) - np.logaddexp.reduce(log_prior)
    i, j = draw(st.permutations(range(m)))[:2]
    t = abs(log_prior[i] - log_prior[j]) / abs(losses[i] - losses[j])
    return losses, log_prior, min(t * (1 + draw(st.sampled_from([-1e-9, -1e-16, 0.0, 1e-16, 1e-9]))), 1e300)


def assert_moments_within_their_errors(losses, log_prior, t):
    moments = GibbsCurve(losses, 1e15, log_prior).at(t)
    with mp.workdps(120):
        loss, var, kl_div = mp_oracle.gibbs_moments(losses, min(t, 1e300), log_prior)
        tiny = mp.mpf("1e-60")
        assert moments.loss_down[0] - tiny <= loss <= moments.loss_up[0] + tiny
        assert moments.kl_div_down[0] - tiny <= kl_div <= moments.kl_div_up[0] + tiny
        assert abs(moments.var[0] - var) <= moments.var_error[0] + tiny


@given(extreme_curves())
def test_errors_are_bounded_whatever_the_prior(case):
    assert_moments_within_their_errors(*case)


@pytest.mark.parametrize(("losses", "log_prior", "t"), EXTREME)
def test_errors_are_bounded_where_nothing_is_known(losses, log_prior, t):
    assert_moments_within_their_errors(losses, log_prior, t)


def test_extreme_priors_stay_sharp_where_one_loss_dominates():
    moments = GibbsCurve([0.0, 0.3, 1.0], 1e15, [-1e15, -3e14, 0.0]).at([0.0, 1e30, np.inf])
    assert np.all(moments.loss_up - moments.loss_down < 1e-12)


def test_single_precision_priors_are_normalised():
    prior = np.random.default_rng(0).dirichlet(np.ones(1000)).astype(np.float32)
    prior *= np.float32(1 + 3e-7)
    rho = GibbsCurve(np.full(1000, 0.5), 10, prior).rho(0.0)
    np.testing.assert_allclose(rho, prior.astype(float) / prior.astype(float).sum(), rtol=1e-12)
    with pytest.raises(ValueError, match="prior must sum to one"):
        GibbsCurve(np.full(1000, 0.5), 10, prior.astype(float))


def test_uniform_priors_are_recognised():
    losses = [0.1, 0.2, 0.3, 0.3]
    assert GibbsCurve(losses, 10).is_uniform
    assert GibbsCurve(losses, 10, [0.25] * 4).is_uniform
    assert GibbsCurve(losses, 10, [0.5, 0.5, 0, 0]).is_uniform
    assert not GibbsCurve(losses, 10, [0.4, 0.6, 0, 0]).is_uniform


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.6], "prior must sum to one, got a sum of 1.1"),
        ([0.5, 0.4], "prior must sum to one, got a sum of 0.9"),
        ([-0.1, 1.1], "prior must be non-negative, got -0.1"),
        ([-0.5, -0.5], "read as log-probabilities"),
        ([0.0, 0.0], "prior must sum to one, got a sum of 2"),
        ([np.nan, 1.0], "prior must not contain NaN or inf, got nan"),
        ([np.inf, 1.0], "prior must not contain NaN or inf, got inf"),
        ([-np.inf, -np.inf], "prior must sum to one, got a sum of 0"),
        ([1.0], r"one entry per hypothesis: there are 2 losses, got shape \(1,\)"),
        ([[0.5, 0.5]], r"got shape \(1, 2\)"),
        (["a", "b"], "prior must be an array of numbers"),
    ],
)
def test_bad_priors_are_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        GibbsCurve([0.1, 0.2], 10, prior)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([], "losses must be a one-dimensional, non-empty array"),
        ([[0.1, 0.2]], "losses must be a one-dimensional"),
        (0.3, "losses must be a one-dimensional"),
        ([0.1, 1.2], r"losses must be in \[0, 1\], got 1.2"),
        ([0.1, -0.2], r"losses must be in \[0, 1\], got -0.2"),
        ([0.1, np.nan], r"losses must be in \[0, 1\], got nan"),
        (["x"], r"losses must be in \[0, 1\], got \['x'\]"),
    ],
)
def test_bad_losses_are_refused(losses, message):
    with pytest.raises(ValueError, match=message):
        GibbsCurve(losses, 10)


def test_mean_loss_never_leaves_the_unit_interval():
    for low in np.linspace(0, 1, 200):
        point = GibbsCurve([low, 1.0, 1.0, 1.0], 10, [1e-17, 0.3, 0.3, 0.4]).at([0.0, 1e-9, 1e-3])
        assert np.all(point.loss <= 1)
        assert np.all(point.loss_up <= 1)


def test_differences_that_underflow_are_rounded_up():
    """Half of the smallest float is zero in double precision: the mean must not be."""
    assert GibbsCurve([0.0, 5e-324], 1).at(0.0).loss_up[0] > 0
