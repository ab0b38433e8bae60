"""Second-order bounds: finite worlds in exact arithmetic, brute force over what the limits allow, and mpmath."""

from fractions import Fraction

import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from finite_world import worlds
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pacbayes import bounds, votes
from pacbayes.votes import _second_order

HALF = Fraction(1, 2)
slack = st.floats(0, 0.1)


@given(worlds(), st.fractions(-2, Fraction(49, 100), max_denominator=100))
def test_inequalities_in_every_finite_world(world, mu):
    """For the exact moments G = E[W] and T = E[W^2]."""
    error, g, t = world.error(world.vote()), world.wrong_weight_moment(1), world.wrong_weight_moment(2)
    u = 2 * (g - t)
    assert error <= 4 * t
    assert error * (HALF - mu) ** 2 <= t - 2 * mu * g + mu**2
    assert t - 2 * mu * g + mu**2 == (1 - 2 * mu) * t - mu * u + mu**2
    if g < HALF:
        assert error * (t - g**2 + (HALF - g) ** 2) <= t - g**2


@given(worlds(classes=(2, 2)))
def test_c_bound_in_every_finite_world(world):
    """Two classes: exactly one of two voters errs where they disagree."""
    g, t = world.wrong_weight_moment(1), world.wrong_weight_moment(2)
    disagreement = world.mean([1 - sum(share**2 for share in world.shares(x)) for x in world.inputs])
    assert disagreement == 2 * (g - t)
    error = world.error(world.vote())
    if g < HALF and disagreement < HALF:
        assert error <= 1 - (1 - 2 * g) ** 2 / (1 - 2 * disagreement)
    up, down = np.nextafter(float(g), 1), np.nextafter(float(disagreement), -1)
    assert _second_order._c_bound(up, max(down, 0.0)) >= error
    assert _second_order._c_bound(up + 0.01, max(down - 0.01, 0.0)) >= _second_order._c_bound(up, max(down, 0.0))


@given(worlds(), slack, slack, slack)
def test_limits_on_the_moments_bound_the_vote(world, below, above, more):
    g, t = float(world.wrong_weight_moment(1)), float(world.wrong_weight_moment(2))
    low, high, both = max(0.0, g - below - 1e-15), min(1.0, g + above + 1e-15), min(1.0, t + more + 1e-15)
    assert _second_order._chebyshev_cantelli(low, high, both) >= world.error(world.vote())


@settings(max_examples=100)
@given(st.floats(0, 0.45), st.floats(0, 0.1), st.floats(0, 0.3))
def test_chebyshev_cantelli_is_the_worst_c_bound_that_the_limits_allow(low, width, both):
    """Brute force over the Gibbs loss; the bound grows with the tandem loss."""
    high = low + width
    assume(low < 0.5 and both <= high)
    gibbs = np.linspace(low, min(high, 0.5), 4001)
    gibbs = gibbs[gibbs < 0.5]
    variance = both - gibbs**2
    # Moments of a weight in [0, 1]: E[W]^2 <= E[W^2] <= E[W].
    possible = (variance >= 0) & (gibbs >= both)
    assume(possible.any())
    worst = np.max(variance[possible] / (variance[possible] + (0.5 - gibbs[possible]) ** 2))
    assert _second_order._chebyshev_cantelli(low, high, both) >= min(1.0, worst) - 1e-12
    if high < 0.5 and both <= low and 2 * both <= high:
        assert _second_order._chebyshev_cantelli(low, high, both) == pytest.approx(worst, abs=1e-4)


losses = st.tuples(st.floats(0, 0.5), st.floats(0, 0.4))
arguments = st.tuples(st.floats(0, 20), st.integers(1, 10**6), st.floats(1e-6, 0.9))


def limits(p, voters, kl_div, n, n_max, delta):
    """Lower and upper limit of PAC-Bayes-kl, in mpmath."""
    complexity = (voters * mp.mpf(kl_div) + mp_oracle.confidence_term(n_max, delta)) / n
    return 1 - mp_oracle.kl_inverse_upper(1 - mp.mpf(p), complexity), mp_oracle.kl_inverse_upper(p, complexity)


def minimum_over_mu(low, high, both):
    """The bound at the best of many mu, each with the worst of both limits on the Gibbs loss."""
    mus = [mp.mpf(k) / 400 for k in range(-1200, 200)]
    return min((both - 2 * mu * (high if mu < 0 else low) + mu**2) / (mp.mpf("0.5") - mu) ** 2 for mu in mus)


@settings(max_examples=20)
@given(losses, arguments)
def test_tandem_and_c_bound_against_mpmath(pair, rest):
    (loss, disagreement), (kl_div, n, delta) = pair, rest
    exact = min(mp.mpf(1), 4 * limits(loss, 2, kl_div, n, n, delta)[1])
    assert exact <= votes.tandem(loss, kl_div, n, delta) <= exact * (1 + mp.mpf("1e-9"))
    gibbs = limits(loss, 1, kl_div, n, n, mp.mpf(delta) / 2)[1]
    apart = limits(disagreement, 2, kl_div, n, n, mp.mpf(delta) / 2)[0]
    computed = votes.c_bound(loss, disagreement, kl_div, n, delta)
    if gibbs >= 0.5:
        assert computed == 1
    elif apart <= 2 * gibbs * (1 - gibbs):
        exact = 1 - (1 - 2 * gibbs) ** 2 / (1 - 2 * apart)
        assert computed >= exact
        assert computed == pytest.approx(float(exact), rel=1e-6, abs=1e-9)


@settings(max_examples=12)
@given(losses, arguments)
def test_chebyshev_cantelli_and_split_kl_against_mpmath(pair, rest):
    (both, one), (kl_div, n, delta) = pair, rest
    loss = min(1.0, both + one / 2)
    half = mp.mpf(delta) / 2
    top = limits(both, 2, kl_div, n, n, half)[1]
    low, high = limits(loss, 1, kl_div, n, n, half)
    computed = votes.chebyshev_cantelli(loss, both, kl_div, n, delta)
    # Never above the best of the grid, which any mu attains, nor above the tandem bound with the same delta.
    assert computed <= min(mp.mpf(1), minimum_over_mu(low, high, top)) * (1 + mp.mpf("1e-9")) + mp.mpf("1e-12")
    assert computed <= min(1.0, 4 * float(top)) * (1 + 1e-9)
    low, high = limits(one, 2, kl_div, n, n, half)
    computed = votes.split_kl(both, one, kl_div, n, delta)
    grid = minimum_over_mu(top + low / 2, top + high / 2, top)
    assert computed <= min(mp.mpf(1), grid) * (1 + mp.mpf("1e-9")) + mp.mpf("1e-12")


def test_unequal_validation_sets_cost_the_smallest_and_the_largest():
    equal = votes.tandem(0.05, 1.0, 500)
    unequal = votes.tandem(0.05, 1.0, 500, n_pair_max=2000)
    assert unequal > equal
    exact = 4 * limits(0.05, 2, 1.0, 500, 2000, 0.05)[1]
    assert unequal == pytest.approx(float(exact), rel=1e-9)
    assert votes.c_bound(0.2, 0.28, 1.0, 900, n_pair=500) > votes.c_bound(0.2, 0.28, 1.0, 900)
    assert votes.chebyshev_cantelli(0.2, 0.06, 1.0, 900, n_max=1000, n_pair=500) > votes.chebyshev_cantelli(
        0.2, 0.06, 1.0, 900
    )
    assert votes.split_kl(0.06, 0.28, 1.0, 900, n_pair_max=1000) > votes.split_kl(0.06, 0.28, 1.0, 900)


def test_diverse_weak_voters_gain_from_the_second_order():
    """Independent errors with probability 0.3: twice the Gibbs loss proves little, the moments much."""
    n, g = 10**6, 0.3
    tandem_loss = g**2 + 0.001
    first = votes.first_order(bounds.pac_bayes_kl(g, 1.0, n))
    assert votes.chebyshev_cantelli(g, tandem_loss, 1.0, n) < votes.tandem(tandem_loss, 1.0, n) < first
    assert votes.split_kl(tandem_loss, 2 * (g - tandem_loss), 1.0, n) < 0.2 < first


def test_correlated_strong_voters_do_not():
    first = votes.first_order(bounds.pac_bayes_kl(0.05, 2.0, 1000))
    assert votes.tandem(0.045, 2.0, 1000) > first


def test_pair_losses_by_counting():
    rng = np.random.default_rng(0)
    errors, validated = rng.random((4, 60)) < 0.3, rng.random((4, 60)) < 0.7
    rho = np.array([0.4, 0.3, 0.2, 0.1])
    both = one = 0.0
    shared = []
    for i in range(4):
        for j in range(4):
            rows = [k for k in range(60) if validated[i, k] and validated[j, k]]
            shared.append(len(rows))
            both += rho[i] * rho[j] * sum(errors[i, k] and errors[j, k] for k in rows) / len(rows)
            one += rho[i] * rho[j] * sum(errors[i, k] != errors[j, k] for k in rows) / len(rows)
    found = votes.pair_losses(errors, rho, validated)
    assert found.tandem == pytest.approx(both)
    assert found.one_errs == pytest.approx(one)
    assert found.gibbs == pytest.approx(sum(r * e[v].mean() for r, e, v in zip(rho, errors, validated, strict=True)))
    assert (found.n_pair, found.n_pair_max) == (min(shared), max(shared))
    assert (found.n, found.n_max) == (min(shared[::5]), max(shared[::5]))
    whole = votes.pair_losses(errors, rho)
    assert whole.one_errs == pytest.approx(2 * (whole.gibbs - whole.tandem))
    assert whole.n_pair == 60


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: votes.tandem(1.5, 1.0, 10), r"tandem_loss must be in \[0, 1\], got 1.5"),
        (lambda: votes.tandem(0.5, -1.0, 10), "kl_div must be non-negative, got -1.0"),
        (lambda: votes.tandem(0.5, 1.0, 0), "n_pair must be a whole number, at least 1, got 0"),
        (lambda: votes.tandem(0.5, 1.0, 10, n_pair_max=5), "n_pair_max must be at least n_pair, got 5"),
        (lambda: votes.tandem([0.5, 0.5], 1.0, 10), "tandem_loss must be a single number"),
        (lambda: votes.tandem(0.5, 1.0, 10, delta=0), r"delta must be in \(0, 1\), got 0.0"),
        (lambda: votes.c_bound(0.1, np.nan, 1.0, 10), r"disagreement must be in \[0, 1\], got nan"),
        (lambda: votes.chebyshev_cantelli(0.1, 2.0, 1.0, 10), r"tandem_loss must be in \[0, 1\], got 2.0"),
        (lambda: votes.split_kl(0.1, -0.1, 1.0, 10), r"one_errs must be in \[0, 1\], got -0.1"),
        (lambda: votes.pair_losses([[1, 0]], [0.5, 0.5]), "errors must have a row for each of the 2 voters"),
        (lambda: votes.pair_losses([[0.5, 0]], [1.0]), "errors must be 0 or 1, got 0.5"),
        (lambda: votes.pair_losses([[1, 0], [0, 1]], [0.5, 0.5], [[1, 0], [0, 1]]), "any two voters share"),
        (lambda: votes.pair_losses([[1, 0]], [1.0], [[1]]), "validated must have a row for each of the 1 voters"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
