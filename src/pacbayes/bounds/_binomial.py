"""The lower tail of the binomial distribution, in logarithms: to full precision however small it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pacbayes._validation import EPS, Array
from pacbayes.bounds._kl import kl_of

# Steps after which a continued fraction is given up: where it is slow, n is large and the tail not small.
_MAX_STEPS = 200

# Fewer probabilities than this are added up.
_FEW = 64

# Relative error granted to the incomplete beta function of SciPy, which grows with n, up to a limit
# (tests/bounds/test_binomial.py measures it).
_BETA_ERROR = 64 * EPS
_BETA_ERROR_PER_POINT = 1e-18
_LARGEST_BETA_ERROR = 1e-6

# ln(k!) - (k + 1/2) ln k + k - ln(2 pi) / 2 for small k, where Stirling's series is of no use; the first is not used.
_STIRLING_ERRORS = np.array([0.0, *(special.gammaln(k + 1) - (k + 0.5) * np.log(k) + k for k in range(1, 16))])
_STIRLING_ERRORS[1:] -= np.log(2 * np.pi) / 2


def _stirling_error(k: Array) -> Array:
    """What Stirling's formula lacks of ln(k!), for k of at least 1."""
    inverse = 1 / np.maximum(k, 16.0)
    square = inverse**2
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    return np.where(k < 16, _STIRLING_ERRORS[np.minimum(k, 15).astype(np.intp)], series)


def log_binomial_tail(k: Array, n: Array, p: Array) -> tuple[Array, Array, Array]:
    """Logarithms of P(X <= k) and P(X = k) for X binomial with k < n, and the error granted to the first, absolute.

    The probability of k itself is exp(-n kl(k / n || p)) times what it is at p = k / n, where Stirling's formula leaves
    next to nothing. The tail is that, times a continued fraction. Below the mean it is times a sum if that is short;
    otherwise, and where the fraction is slow, the incomplete beta function of SciPy is taken.
    """
    share = k / n
    with np.errstate(all="ignore"):
        divergence = n * kl_of(share, p)
        inner = 0.5 * np.log(n / (2 * np.pi * k * (n - k)))
        inner += _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
        log_pmf = np.where(k > 0, inner, 0.0) - divergence
        # k / n is rounded, and the divergence changes with it.
        change = np.where(k > 0, k * np.abs(np.log(p / share) - np.log1p(-p) + np.log1p(-share)), 0.0)
        error = 32 * EPS * (2 + divergence + change)
        tail, rest = special.betaincc(k + 1, n - k, p), special.betainc(k + 1, n - k, p)
        beta_error = np.minimum(_BETA_ERROR + _BETA_ERROR_PER_POINT * n, _LARGEST_BETA_ERROR)
        upper = p * (n + 1) >= k + 1
        few = ~upper & (k < _FEW)
        ratio = np.full(p.shape, np.nan)
        ratio[upper] = _continued_fraction(k[upper], n[upper], p[upper])
        ratio[few] = _sum_down(k[few], n[few], p[few])
        is_known = np.isfinite(ratio)
        log_tail = np.where(is_known, log_pmf + np.log(ratio), np.log(tail))
        error = np.where(is_known, error, beta_error * np.minimum(1.0, rest / tail) + 8 * EPS)
    return np.minimum(log_tail, 0.0), log_pmf, error


def _sum_down(k: Array, n: Array, p: Array) -> Array:
    """Ratio of P(X <= k) to P(X = k), term by term from k down."""
    term = np.ones(p.shape)
    total = np.ones(p.shape)
    for j in range(int(k.max(initial=0))):
        term = term * np.maximum(k - j, 0) * (1 - p) / ((n - k + 1 + j) * p)
        total += term
    return total


def _continued_fraction(k: Array, n: Array, p: Array) -> Array:
    """Ratio of P(X <= k) to P(X = k) for p of at least the mean's (k + 1) / (n + 1); NaN where it converges slowly.

    The continued fraction of DiDonato and Morris (1992) for the incomplete beta function of 1 - p with parameters
    n - k and k + 1, by Lentz's method: none of its terms is a difference of numbers close to each other.
    """
    result = np.full(p.shape, np.nan)
    going: NDArray[np.intp] = np.arange(p.size)
    a, b, x, excess = n - k, k + 1, 1 - p, (n + 1) * p - (k + 1)
    h = a * (excess + 1) / (a + 1)
    c, d = h, np.zeros(p.shape)
    for i in range(1, _MAX_STEPS):
        ratio = i * (b - i) * x / (a + 2 * i - 1)
        numerator = (a + i - 1) * (a + b + i - 1) * x / (a + 2 * i - 1) * ratio
        denominator = i + ratio + (a + i) * (excess + 1 + i * (1 + p)) / (a + 2 * i + 1)
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        h = h * d * c
        done = np.abs(d * c - 1) <= EPS
        result[going[done]] = (a * p / h)[done]
        if done.all():
            break
        going = going[~done]
        a, b, x, p, excess, c, d, h = (array[~done] for array in (a, b, x, p, excess, c, d, h))
    return result
