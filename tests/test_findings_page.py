"""What `docs/findings.md` says about the paper, by mpmath and without the library's own formulas."""

import math

import mp_oracle
import mpmath as mp
import numpy as np
import pytest

from pacbayes.posterior import lambda_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import CONDITIONS, check_quasiconvexity


class TwoLosses:
    """F(lambda) for one hypothesis with prior 1 / m and the smaller loss, and prior 1 - 1 / m on the larger loss."""

    def __init__(self, losses, n, delta, log_m):
        self.losses = [mp.mpf(x) for x in losses]
        self.n, self.log_m = n, mp.mpf(log_m)
        self.confidence = mp_oracle.confidence_term(n, mp.mpf(delta))
        self.prior = [mp.exp(-self.log_m), 1 - mp.exp(-self.log_m)]

    def weights(self, lam):
        weights = [p * mp.exp(-self.n * lam * x) for p, x in zip(self.prior, self.losses, strict=True)]
        return weights, mp.fsum(weights)

    def f(self, lam):
        return (-mp.log(self.weights(lam)[1]) + self.confidence) / (self.n * lam * (1 - lam / 2))

    def slope(self, lam):
        return mp.diff(self.f, lam)

    def moments(self, lam):
        """E, Var and KL of the Gibbs posterior."""
        weights, z = self.weights(lam)
        mean = mp.fsum(w * x for w, x in zip(weights, self.losses, strict=True)) / z
        var = weights[0] * weights[1] / z**2 * (self.losses[1] - self.losses[0]) ** 2
        return mean, var, -mp.log(z) - self.n * lam * mean

    def stationary_points(self, low, high, steps):
        grid = mp.linspace(low, high, steps)
        signs = [mp.sign(self.slope(lam)) for lam in grid]
        ends = [(grid[i], grid[i + 1]) for i in range(steps - 1) if signs[i] != signs[i + 1]]
        return [mp.findroot(self.slope, end, solver="anderson") for end in ends]


@pytest.fixture
def global_min_example():
    return TwoLosses(["0.0839", "0.7607"], 197, "2.5e-74", "114.68")


@pytest.fixture
def var_example():
    return TwoLosses(["0.08", "0.76"], 400, "1e-150", 230)


def assert_two_minima_and_a_maximum(example, at, values):
    points = example.stationary_points(mp.mpf("0.5"), mp.mpf("0.999"), 200)
    assert [float(x) for x in points] == pytest.approx(at, abs=5e-5)
    assert [float(example.f(x)) for x in points] == pytest.approx(values, abs=5e-5)
    assert [mp.sign(mp.diff(example.f, x, 2)) for x in points] == [1, -1, 1]
    return points


def test_theorem_global_min_is_false_for_tiny_delta(global_min_example):
    """Its conditions hold on its interval, n >= 7, and yet F has a local maximum."""
    example = global_min_example
    points = assert_two_minima_and_a_maximum(example, [0.7537, 0.8594, 0.9728], [3.0884, 3.1170, 3.0842])
    start = mp.sqrt(example.confidence / example.n)
    assert float(start) == pytest.approx(0.9366, abs=5e-5)
    for lam in mp.linspace(start, 1, 300):
        mean, var, kl_div = example.moments(lam)
        assert 2 * (kl_div + example.confidence) > 100 * lam**2 * example.n**2 * var  # eq. KL-cond, by far
        assert mean > 100 * (1 - lam) * example.n * var  # eq. E-cond, by far
    # The maximum lies below the interval, where neither condition holds, and n is too small for the proof.
    mean, var, kl_div = example.moments(points[1])
    assert 2 * (kl_div + example.confidence) < 0.14 * points[1] ** 2 * example.n**2 * var
    assert example.n < 4 * example.confidence


def test_theorem_var_is_false_for_tiny_delta(var_example):
    """No loss is mediocre, and yet F has a local maximum: e^230 hypotheses, uniform prior."""
    example = var_example
    assert_two_minima_and_a_maximum(example, [0.7531, 0.8442, 0.9738], [3.0777, 3.1012, 3.0533])
    excess = example.losses[1] - example.losses[0]
    b = (mp.log(3) + example.log_m + 2 * mp.log(example.n)) / mp.sqrt(example.n * example.confidence)
    assert float(b) == pytest.approx(0.6505, abs=5e-5)
    assert excess > b
    assert example.n < 4 * example.confidence


def test_what_the_theorem_overlooks_is_vacuous(global_min_example, var_example):
    """At a stationary point F = E / (1 - lambda) = 2 (KL + confidence) / (n lambda^2): above 2 below the interval."""
    for example in (global_min_example, var_example):
        for lam in example.stationary_points(mp.mpf("0.5"), mp.mpf("0.999"), 200):
            mean, _, kl_div = example.moments(lam)
            value = example.f(lam)
            assert mp.almosteq(value, mean / (1 - lam), 1e-12)
            assert mp.almosteq(value, 2 * (kl_div + example.confidence) / (example.n * lam**2), 1e-12)
            assert value > 2 or lam > mp.sqrt(example.confidence / example.n)


def test_the_library_does_not_claim_the_false_theorem(global_min_example):
    losses, prior = [0.0839, 0.7607], [-114.68, np.log1p(-np.exp(-114.68))]
    report = check_quasiconvexity(losses, 197, delta=2.5e-74, prior=prior)
    assert not report.guaranteed
    assert report.details[CONDITIONS[-1]].figures["reason"] == "F increases and decreases again"
    best = minimize_lambda_bound(losses, 197, delta=2.5e-74, prior=prior, method="global")
    local = minimize_lambda_bound(losses, 197, delta=2.5e-74, prior=prior, lam0=0.5)
    assert (best.lam, local.lam) == pytest.approx((0.972797, 0.753695), abs=1e-6)
    assert local.fun > best.fun
    for lam in (0.5, 0.859419, 0.95):
        assert lambda_bound(losses, lam, 197, 2.5e-74, prior) == pytest.approx(float(global_min_example.f(lam)))


@pytest.mark.parametrize(("delta", "n"), [(0.25, 14), (0.05, 21), (0.01, 28), (0.001, 38), (1e-6, 67)])
def test_smallest_samples_for_the_proof(delta, n):
    """n >= 4 ln(2 sqrt(n) / delta) from this n on: the difference grows with n."""
    assert n >= 4 * math.log(2 * math.sqrt(n) / delta)
    assert n - 1 < 4 * math.log(2 * math.sqrt(n - 1) / delta)


@pytest.mark.parametrize("ratio", [0.1, 0.2499, 0.25, 0.2501, 0.8, 3.0])
def test_the_smallest_stationary_lambda(ratio):
    """2 / (sqrt(2 n / c + 1) + 1) >= sqrt(c / n) if and only if n >= 4 c, for a confidence term c = ratio n."""
    smallest = 2 / (mp.sqrt(2 / mp.mpf(ratio) + 1) + 1)
    assert (smallest >= mp.sqrt(ratio) * (1 - mp.mpf("1e-50"))) == (ratio <= 0.25)


def test_the_papers_non_convex_example_is_convex():
    """u^3 F'' > 0 with u = lambda (1 - lambda / 2), proved on all of [0, 2] by interval arithmetic."""
    n = 100
    iv = mp.iv
    confidence = iv.log(2 * iv.sqrt(n) / (iv.mpf(1) / 100))

    def scaled_curvature(lam):
        worse = 1 / (1 + iv.exp(n * lam / 2))  # weight of the hypothesis with loss 1/2
        mean, var = worse / 2, worse * (1 - worse) / 4
        f = (confidence - iv.log((1 + iv.exp(-n * lam / 2)) / 2)) / n
        u = lam * (1 - lam / 2)
        # F'' = f'' g + 2 f' g' + f g'', times u^3, with f' = E, f'' = -n Var, g = 1 / u.
        return -n * var * u**2 + 2 * mean * (lam - 1) * u + f * (3 * (lam - 1) ** 2 + 1) / 2

    pending = [(mp.mpf(0), mp.mpf(2))]
    while pending:
        low, high = pending.pop()
        if not scaled_curvature(iv.mpf([low, high])).a > 0:
            assert high - low > 1e-4
            middle = (low + high) / 2
            pending += [(low, middle), (middle, high)]
    # The formula is that of F'', whose smallest value is at lambda = 1 up to e^-50.
    example = TwoLosses([0, "0.5"], n, "0.01", mp.log(2))
    for lam in ("0.05", "0.4", "1", "1.7"):
        u = mp.mpf(lam) * (1 - mp.mpf(lam) / 2)
        assert mp.almosteq(mp.mpf(scaled_curvature(iv.mpf(lam)).mid), u**3 * mp.diff(example.f, mp.mpf(lam), 2), 1e-12)
    curvature = {lam: mp.diff(example.f, mp.mpf(lam), 2) for lam in ("0.9", "0.99", "1", "1.01", "1.1")}
    assert min(curvature, key=curvature.get) == "1"
    assert float(curvature["1"]) == pytest.approx(0.3318, abs=5e-5)


def test_the_papers_example_with_two_minima():
    example = TwoLosses([0, "0.1"], 200, "0.25", mp.log(2_676_446))
    points = example.stationary_points(mp.mpf("0.3"), mp.mpf("0.9999"), 150)
    assert [float(x) for x in points] == pytest.approx([0.49419, 0.73148, 0.99702], abs=5e-6)
    assert [float(example.f(x)) for x in points] == pytest.approx([0.1962639, 0.2020335, 0.1952294], abs=5e-8)
    assert [mp.sign(mp.diff(example.f, x, 2)) for x in points] == [1, -1, 1]
