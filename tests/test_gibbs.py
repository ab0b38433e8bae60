import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.gibbs import GibbsCurve


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


def test_blocks_of_temperatures_do_not_matter(monkeypatch):
    curve = GibbsCurve(np.linspace(0, 1, 101), 100)
    t = np.geomspace(0.1, 1e4, 57)
    whole = curve.at(t)
    monkeypatch.setattr("pacbayes.gibbs._BLOCK", 250)
    blocked = curve.at(t)
    for name in ("minus_log_z", "mean_x", "var", "kl_div"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(blocked, name))


def test_probabilities_and_log_probabilities_agree():
    losses, prior = [0.1, 0.4, 0.2, 0.2], np.array([0.1, 0.0, 0.5, 0.4])
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    np.testing.assert_array_equal(GibbsCurve(losses, 10, prior).rho(5.0), GibbsCurve(losses, 10, log_prior).rho(5.0))
    assert GibbsCurve([0.5], 10, [0.0]).rho(1.0).tolist() == [1.0]  # ln 1 = 0


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
