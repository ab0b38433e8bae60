"""The binary kl divergence, its inverses, and the exact constant of its exponential moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pacbayes._validation import EPS, Array, arrays, float_or_array, whole_number

_TINY = float(np.finfo(np.float64).smallest_subnormal)

# Relative error granted to `kl_of`: its terms are positive and accurate to a few ulp each, more accurate where a large
# logarithm dominates (tests/bounds/test_bounds.py measures both against mpmath).
_KL_ERROR = 16 * EPS
_KL_ERROR_FAR = 4 * EPS
_FAR = 16.0

# Closed forms are sums and products of a few positive terms: this factor exceeds their accumulated rounding error.
ROUND_UP = 1 + 16 * EPS

# f(x) = x - log1p(x) = x s - 2 s^3 (1/3 + s^2/5 + s^4/7 + ...), s = x / (2 + x). For |x| <= 1/2 we have
# s^2 <= 1/9, and 17 terms leave less than 1e-17 of the sum.
_SERIES = 1.0 / np.arange(3, 3 + 2 * 17, 2)

# Beyond this c both inverses are 0 or 1 to double precision: exp(-800) underflows.
_LARGEST_C = 800.0


def scaled_f(mass: Array, gain: Array, total: Array) -> Array:
    """Return mass f(gain / mass), f(x) = x - log1p(x); total = mass + gain, which cancels near gain = -mass."""
    positive = mass > 0
    divisor = np.where(positive, mass, 1.0)
    x = np.where(positive, gain / divisor, np.inf)
    small = np.abs(x) <= 0.5
    x_small = np.where(small, x, 0.0)
    s = x_small / (2.0 + x_small)
    s2 = s * s
    series = np.zeros_like(s)
    for coefficient in _SERIES[::-1]:
        series *= s2
        series += coefficient
    near = mass * (x * s - 2 * s * s2 * series)
    # Away from zero the plain form is stable. Ratios outside the range of floats are computed from two logarithms.
    ratio = total / divisor
    in_range = (ratio > 1e-290) & (ratio < 1e290)
    log_ratio = np.where(in_range, np.log(ratio), np.log(total) - np.log(mass))
    far = gain - np.where(positive, mass * log_ratio, 0.0)
    return np.where(small, near, far)


def kl_of(p: Array, q: Array) -> Array:
    """Compute the binary kl as a sum of two non-negative terms, so that nothing cancels near p = q."""
    with np.errstate(all="ignore"):
        # Both terms at once: for small arrays the number of NumPy calls is what takes time.
        terms = scaled_f(np.stack((p, 1 - p)), np.stack((q - p, p - q)), np.stack((q, 1 - q)))
    return np.asarray(terms[0] + terms[1])


def kl(p: ArrayLike, q: ArrayLike) -> Any:
    r"""Compute the binary kl divergence :math:`kl(p \| q) = p \ln\frac pq + (1 - p) \ln\frac{1-p}{1-q}`.

    The result is accurate to a few units in the last place for all p and q, also where p and q nearly agree.

    Parameters
    ----------
    p, q : array_like
        Biases of two Bernoulli distributions, in [0, 1].

    Returns
    -------
    float or ndarray
        The divergence, in [0, inf].

    Examples
    --------
    >>> round(kl(0.1, 0.2), 6)
    0.03669
    >>> kl(0.5, 1.0)
    inf
    """
    return float_or_array(kl_of(*np.broadcast_arrays(*arrays(p=p, q=q))))


def _solve_displacement(grows: Array, shrinks: Array, c: Array) -> Array:
    """Solve kl = c for the displacement d of q from p, and return w = -ln((shrinks - d) / shrinks).

    `grows` is the probability that q increases by d, p or 1 - p, and `shrinks` the other one. The divergence is convex
    in w with slope d / (grows + d). Newton's method, started above the root, therefore decreases to it monotonically.
    """
    # Three upper bounds on d: eq. kl, Pinsker, and the variance bound where grows >= 1/2.
    d = c + np.sqrt(c) * np.sqrt(c + 2 * grows)
    d = np.minimum(d, np.sqrt(c / 2))
    d = np.where(grows >= 0.5, np.minimum(d, np.sqrt(2 * grows * shrinks) * np.sqrt(c)), d)
    w_from_d = np.where(d < shrinks, -np.log1p(-np.minimum(d / shrinks, 1.0)), np.inf)
    # An upper bound on w: kl >= shrinks * w + grows * ln(grows).
    w: Array = np.minimum(w_from_d, (c - special.xlogy(grows, grows)) / shrinks)
    masses = np.stack((grows, shrinks))
    for _ in range(64):
        d = -shrinks * np.expm1(-w)
        # For large w the remaining mass underflows, but minus its relative logarithm is w.
        left = shrinks * np.exp(-w)
        gained, lost = scaled_f(masses, np.stack((d, -d)), np.stack((grows + d, left)))
        excess = gained + np.where(w > 1, shrinks * w - d, lost) - c
        step = np.where(d > 0, excess / d * (grows + d), 0.0)
        # Entries that have converged are left unchanged, so that a result does not depend on the rest of the array.
        # NaN, from p = 0 or 1, counts as converged; the caller replaces it.
        moving = np.abs(step) > 4 * EPS * w
        if not moving.any():
            break
        w = np.where(moving & (step < w), w - step, w)
    return w


def _round_outward(p: Array, q: Array, c: Array, error: Array, toward: float) -> Array:
    """Move q towards `toward` (0 or 1) until kl(p || q) is at least c for certain."""
    target = c * (1 + error) + 8 * _TINY
    slope = np.abs(q - p) / (q * (1 - q))
    move = np.where(slope > 0, error * c / slope, 0.0)
    move = np.where(np.isfinite(move), move, 0.0)
    sign = 1.0 if toward == 1.0 else -1.0
    # The first move compensates for the error of `kl_of`. Later ones begin at a quarter of it, or at one ulp.
    q = np.clip(q + sign * move, 0.0, 1.0)
    move = np.maximum(move / 4, np.spacing(q))
    while True:
        short = (kl_of(p, q) < target) & (q != toward)
        if not short.any():
            return q
        q = np.where(short, np.clip(q + sign * move, 0.0, 1.0), q)
        move = 1.5 * move


def _kl_inverse(p: ArrayLike, c: ArrayLike, toward: float) -> Any:
    """Find the q between p and `toward` (0 or 1) with kl(p || q) = c, rounded towards `toward`."""
    p_array, c_array = np.broadcast_arrays(*arrays(p=p, c=c))
    with np.errstate(all="ignore"):
        c_solved = np.minimum(c_array, _LARGEST_C)
        if toward == 1.0:
            w = _solve_displacement(p_array, 1 - p_array, c_solved)
            q = np.minimum(p_array - (1 - p_array) * np.expm1(-w), 1.0)
        else:
            w = _solve_displacement(1 - p_array, p_array, c_solved)
            q = p_array * np.exp(-w)
        error = np.where(w > _FAR, _KL_ERROR_FAR, _KL_ERROR)
        # If p = toward or c = 0, the inverse is p itself.
        is_p = (p_array == toward) | (c_array == 0)
        q, c_array = np.where(is_p, toward, q), np.where(is_p, 0.0, c_array)
        q = np.where(is_p, p_array, _round_outward(p_array, q, c_array, error, toward))
    return float_or_array(q)


def kl_inverse_upper(p: ArrayLike, c: ArrayLike) -> Any:
    r"""Return the largest q with :math:`kl(p \| q) \le c`, rounded up.

    Parameters
    ----------
    p : array_like
        Bias of the first Bernoulli distribution, in [0, 1].
    c : array_like
        Bound on the divergence, in [0, inf].

    Returns
    -------
    float or ndarray
        :math:`\sup\{q : kl(p \| q) \le c\}`, never below the exact value.

    Examples
    --------
    >>> round(kl_inverse_upper(0.1, 0.05), 6)
    0.220079
    >>> kl_inverse_upper(0.1, 0.0)
    0.1
    """
    return _kl_inverse(p, c, toward=1.0)


def kl_inverse_lower(p: ArrayLike, c: ArrayLike) -> Any:
    r"""Return the smallest q with :math:`kl(p \| q) \le c`, rounded down.

    Parameters
    ----------
    p, c : array_like
        As in `kl_inverse_upper`.

    Returns
    -------
    float or ndarray
        :math:`\inf\{q : kl(p \| q) \le c\}`, never above the exact value.

    Examples
    --------
    >>> round(kl_inverse_lower(0.1, 0.05), 6)
    0.031278
    """
    return _kl_inverse(p, c, toward=0.0)


# -- the exact constant of the kl inequality ---------------------------------------------------------

# From here on Ramanujan's bounds on xi are less than 1e-12 apart; below, the sum has at most some 900 terms.
_XI_CLOSED_FORM = 8192


def xi(n: ArrayLike) -> Any:
    r"""Largest value that :math:`E[e^{n\, kl(\hat L \| L)}]` can have for a loss in [0, 1], rounded up.

    .. math:: \xi(n) = \sum_{k=0}^n \binom nk \left(\frac kn\right)^k \left(1 - \frac kn\right)^{n-k}

    For the zero-one loss it is the expectation itself, whatever L in (0, 1). It is close to
    :math:`\sqrt{\pi n / 2} + 2/3` and at most the :math:`2 \sqrt n` of `confidence_term` [1]_.

    Parameters
    ----------
    n : array_like
        Number of points that the empirical loss is the average of.

    Returns
    -------
    float or ndarray
        :math:`\xi(n)`, never below the exact value and above it by less than 1e-12 of it.

    Notes
    -----
    By Abel's binomial theorem :math:`\xi(n) = 1 + Q(n)` with Ramanujan's
    :math:`Q(n) = 1 + \frac{n-1}{n} + \frac{(n-1)(n-2)}{n^2} + \dots` It is summed for small n. For large n,
    :math:`2 Q(n) = n!\, e^n n^{-n} - \frac23 - \frac{8}{135 (n + \kappa)}` with
    :math:`\frac2{21} \le \kappa \le \frac8{45}` [2]_.

    References
    ----------
    .. [1] A. Maurer. A note on the PAC-Bayesian theorem. 2004.
    .. [2] P. Flajolet, P. Grabner, P. Kirschenhofer, H. Prodinger. On Ramanujan's Q-function. J. Comput. Appl. Math.,
       1995.

    Examples
    --------
    >>> round(xi(100), 6)
    13.209961
    >>> xi([1, 10, 10**12]).round(3).tolist()
    [2.0, 4.66, 1253314.804]
    """
    sizes = whole_number("n", n)
    distinct, place = np.unique(sizes, return_inverse=True)
    few = distinct < _XI_CLOSED_FORM
    values = np.concatenate((_xi_sum(distinct[few]), _xi_closed_form(distinct[~few])))
    return float_or_array(values[place].reshape(sizes.shape))


def _xi_sum(n: Array) -> Array:
    """1 + Q(n) by Horner's rule."""
    # Q(n) = 1 + (1 - 1/n) (1 + (1 - 2/n) (1 + ...)). What follows after j factors is at most the geometric series
    # n / j, and by then it is multiplied by less than exp(-j^2 / (2 n)) < 1e-21.
    terms = int(10 * np.sqrt(n.max(initial=1.0))) + 1
    q = n / terms
    for j in range(terms, 0, -1):
        q = 1.0 + np.maximum(n - j, 0.0) / n * q
    # Each step loses at most 3/2 eps, and the mean number of steps that a term has gone through is below sqrt(n).
    return np.asarray((1 + q) * (1 + 2 * EPS * (1 + np.sqrt(n))))


def _xi_closed_form(n: Array) -> Array:
    """Ramanujan's upper bound on 1 + Q(n), with Stirling's series cut off after a positive term."""
    # Divided first: multiples of n may overflow.
    inverse = 1 / n
    stirling = inverse / 12 - inverse**3 / 360 + inverse**5 / 1260
    root = np.sqrt(np.pi / 2) * np.sqrt(n) * np.exp(stirling)
    return np.asarray((2 / 3 - 4 / 135 / (n + 8 / 45) + root) * ROUND_UP)
