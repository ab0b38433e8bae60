import direct_oracle as oracle
import mpmath as mp
import numpy as np
import pytest

from pacbayes.bounds._binomial import log_binomial_tail


def beta_fraction(k, n, p):
    """P(X <= k) over P(X = k) by the classical continued fraction, which is for p above the mean."""
    a, b, x = n - k, k + 1, 1 - p
    c, d = mp.mpf(1), 1 / (1 - (a + b) * x / (a + 1))
    h = d
    for m in range(1, 10**5):
        even = m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m))
        for part in (even, odd):
            d, c = 1 / (1 + part * d), 1 + part / c
            h *= d * c
        if abs(d * c - 1) < mp.mpf("1e-40"):
            return p * h
    raise AssertionError("no convergence")


@pytest.mark.parametrize("n", [1, 2, 5, 50, 3000, 10**5, 10**9, 10**12])
def test_tails_are_as_accurate_as_granted(n):
    """For few and for many errors, below and above the mean, down to exp(-5000) and less."""
    rng = np.random.default_rng(n)
    for _ in range(12):
        few = rng.uniform() < 0.6
        k = int(rng.integers(0, min(n, 60))) if few else int(n * rng.uniform(0, 0.9))
        distance = rng.uniform(-3 if k < 60 else 1.5, 60)
        p = k / n + distance * np.sqrt(max(k, 1) * (1 - k / n)) / n + distance**2 / n / 3
        p = float(np.clip(p, 1e-3 / n, 1 - 1e-9))
        log_tail, log_pmf, error = (float(x[0]) for x in log_binomial_tail(*(np.array([float(x)]) for x in (k, n, p))))
        if k < 3000:
            exact, pmf = oracle.log_tail(k, n, p)
        else:
            pmf = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
            pmf += k * mp.log(p) + (n - k) * mp.log(1 - mp.mpf(p))
            exact = pmf + mp.log(beta_fraction(mp.mpf(k), mp.mpf(n), mp.mpf(p)))
        assert abs(log_tail - exact) <= error / 2
        assert abs(log_pmf - pmf) <= 1e-9 * (1 + abs(pmf))


def test_certain_events():
    log_tail, _, _ = log_binomial_tail(np.array([0.0, 3.0]), np.array([5.0, 5.0]), np.array([1e-300, 1e-300]))
    assert log_tail == pytest.approx([0.0, 0.0], abs=1e-15)
