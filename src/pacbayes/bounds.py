r"""Compute the binary kl divergence, its inverses, and PAC-Bayesian and test-set bounds.

All functions broadcast over arrays and return a float for scalars. Labels such as ``eq. PBkl`` are
those of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017).

Upper bounds are rounded up and lower bounds down: no bound is on the wrong side of its exact value.
A bound of 1 or more proves nothing, and is returned unchanged.

Common arguments
----------------
loss : the empirical loss :math:`E_\rho[\hat L(h, S)]`, in [0, 1].
kl_div : :math:`KL(\rho \| \pi)`, the divergence of the posterior from the prior.
n : the number of points each hypothesis was validated on; the smallest, if they differ.
n_max : the largest such number, if they differ.
delta : the probability with which the bound may fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pacbayes._validation import (
    Array,
    finite_nonnegative,
    float_or_array,
    half_open_interval,
    largest_size,
    nonnegative,
    open_interval,
    unit_interval,
    whole_number,
)

__all__ = [
    "catoni",
    "clopper_pearson",
    "confidence_term",
    "empirical_bernstein",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "majority_vote",
    "pac_bayes_kl",
    "pac_bayes_lambda",
    "pac_bayes_sqrt",
    "single_hypothesis_kl",
    "xi",
]

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).smallest_subnormal)
_SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)

# Relative error granted to `_kl`: its terms are positive and accurate to a few ulp each, more accurate where a large
# logarithm dominates (tests/test_bounds.py measures both against mpmath).
_KL_ERROR = 16 * _EPS
_KL_ERROR_FAR = 4 * _EPS
_FAR = 16.0

# Closed forms are sums and products of a few positive terms: this factor exceeds their accumulated rounding error.
_ROUND_UP = 1 + 16 * _EPS

# f(x) = x - log1p(x) = x s - 2 s^3 (1/3 + s^2/5 + s^4/7 + ...), s = x / (2 + x). For |x| <= 1/2 we have
# s^2 <= 1/9, and 17 terms leave less than 1e-17 of the sum.
_SERIES = 1.0 / np.arange(3, 3 + 2 * 17, 2)

# Relative error granted to the incomplete beta function of SciPy (tests/test_bounds.py measures it).
_BETA_ERROR = 1e-9

# Beyond this c both inverses are 0 or 1 to double precision: exp(-800) underflows.
_LARGEST_C = 800.0


# ---------------------------------------------------------------------------------------------------
# The binary kl divergence and its inverses
# ---------------------------------------------------------------------------------------------------


def _scaled_f(mass: Array, gain: Array, total: Array) -> Array:
    """Return mass * f(gain / mass) with f(x) = x - log1p(x) >= 0, where total = mass + gain.

    `total` is passed because near gain = -mass the sum would cancel.
    """
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


def _kl(p: Array, q: Array) -> Array:
    """Compute the binary kl as a sum of two non-negative terms, so that nothing cancels near p = q."""
    with np.errstate(all="ignore"):
        # Both terms at once: for small arrays the number of NumPy calls is what takes time.
        terms = _scaled_f(np.stack((p, 1 - p)), np.stack((q - p, p - q)), np.stack((q, 1 - q)))
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
    return float_or_array(_kl(*np.broadcast_arrays(unit_interval("p", p), unit_interval("q", q))))


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
        gained, lost = _scaled_f(masses, np.stack((d, -d)), np.stack((grows + d, left)))
        excess = gained + np.where(w > 1, shrinks * w - d, lost) - c
        step = np.where(d > 0, excess / d * (grows + d), 0.0)
        # Entries that have converged are left unchanged, so that a result does not depend on the rest of the array.
        # NaN, from p = 0 or 1, counts as converged; the caller replaces it.
        moving = np.abs(step) > 4 * _EPS * w
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
    # The first move compensates for the error of `_kl`. Later ones begin at a quarter of it, or at one ulp.
    q = np.clip(q + sign * move, 0.0, 1.0)
    move = np.maximum(move / 4, np.spacing(q))
    while True:
        short = (_kl(p, q) < target) & (q != toward)
        if not short.any():
            return q
        q = np.where(short, np.clip(q + sign * move, 0.0, 1.0), q)
        move = 1.5 * move


def _kl_inverse(p: ArrayLike, c: ArrayLike, toward: float) -> Any:
    """Find the q between p and `toward` (0 or 1) with kl(p || q) = c, rounded towards `toward`."""
    p_array, c_array = np.broadcast_arrays(unit_interval("p", p), nonnegative("c", c))
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
    p : array_like
        Bias of the first Bernoulli distribution, in [0, 1].
    c : array_like
        Bound on the divergence, in [0, inf].

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


# ---------------------------------------------------------------------------------------------------
# PAC-Bayesian bounds of the paper
# ---------------------------------------------------------------------------------------------------


def confidence_term(n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None) -> Any:
    r"""Compute the confidence term :math:`\ln\frac{2 \sqrt n}{\delta}` of the paper's bounds.

    It bounds the logarithm of :math:`E[e^{n\, kl(\hat L \| L)}] / \delta` [1]_.

    Parameters
    ----------
    n : array_like
        Number of points each hypothesis was validated on; the smallest, if they differ.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    n_max : array_like, optional
        Largest validation set, if they differ: the term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    float or ndarray
        The term, accurate to a few units in the last place.

    References
    ----------
    .. [1] A. Maurer. A note on the PAC-Bayesian theorem. 2004.

    Examples
    --------
    >>> round(confidence_term(100, 0.05), 6)
    5.991465
    """
    n_array, delta_array = whole_number("n", n), open_interval("delta", delta, 0, 1)
    largest = largest_size(n_array, n_max)
    # With delta' = delta sqrt(n / n_max), the term is ln(2 sqrt(n) / delta'). Where delta' loses digits, its logarithm
    # is the sum of two.
    scaled = delta_array * np.sqrt(n_array / largest)
    log_delta = np.where(
        scaled >= _SMALLEST_NORMAL,
        np.log(np.maximum(scaled, _SMALLEST_NORMAL)),
        np.log(delta_array) + 0.5 * (np.log(n_array) - np.log(largest)),
    )
    return float_or_array(np.log(2.0) - log_delta + 0.5 * np.log(n_array))


def _complexity(kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike, n_max: ArrayLike | None) -> Array:
    """Compute the right hand side of eq. PBkl, (KL + ln(2 sqrt(n) / delta)) / n, rounded up.

    With validation sets of n to n_max points, E_rho[n_h kl(L_hat_h || L_h)] <= KL + ln(2 sqrt(n_max) / delta), and
    by convexity of kl, kl(E_rho[L_hat] || E_rho[L]) <= (KL + ln(2 sqrt(n_max) / delta)) / n.
    """
    confidence = confidence_term(n, delta, n_max=n_max)
    return complexity_of(nonnegative("kl_div", kl_div), np.asarray(n, dtype=np.float64), confidence)


def complexity_of(kl_div: Array, n: float | Array, confidence: float | Array) -> Array:
    """Compute the right hand side of eq. PBkl from valid arguments and their confidence term, rounded up."""
    with np.errstate(over="ignore"):  # to inf, which proves nothing
        return np.asarray((kl_div + confidence) / n * _ROUND_UP)


def pac_bayes_kl(
    loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None
) -> Any:
    r"""Compute the PAC-Bayes-kl bound on the expected loss of the randomised classifier (Theorem PBkl).

    With probability at least 1 - delta over the draw of the sample, for all posteriors rho
    simultaneously,

    .. math::
        kl\left(E_\rho[\hat L(h, S)] \,\middle\|\, E_\rho[L(h)]\right)
        \le \frac{KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}}{n},

    where the prior pi does not depend on the sample. Inverted with respect to its second argument
    this bounds :math:`E_\rho[L(h)]` from above. The tightest of the paper's bounds.

    Parameters
    ----------
    loss : array_like
        Empirical loss :math:`E_\rho[\hat L(h, S)]`, in [0, 1].
    kl_div : array_like
        :math:`KL(\rho \| \pi)`, non-negative.
    n : array_like
        Number of points each hypothesis was validated on (n - r in Theorem PBaggregation); the smallest, if they
        differ.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    n_max : array_like, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    float or ndarray
        Upper bound on :math:`E_\rho[L(h)]`, at most 1; 1 means that nothing is proved.

    References
    ----------
    .. [1] M. Seeger. PAC-Bayesian generalization error bounds for Gaussian process classification.
       JMLR, 2002.

    Examples
    --------
    >>> round(pac_bayes_kl(loss=0.1, kl_div=2.0, n=1000), 6)
    0.145371
    """
    return kl_inverse_upper(unit_interval("loss", loss), _complexity(kl_div, n, delta, n_max))


def pac_bayes_lambda(
    loss: ArrayLike,
    kl_div: ArrayLike,
    n: ArrayLike,
    lam: ArrayLike,
    delta: ArrayLike = 0.05,
    *,
    n_max: ArrayLike | None = None,
) -> Any:
    r"""Compute the PAC-Bayes-lambda bound on the expected loss of the randomised classifier (Theorem PBlambda).

    With probability at least 1 - delta over the draw of the sample, for all posteriors rho and all
    lambda in (0, 2) simultaneously,

    .. math::
        E_\rho[L(h)] \le \frac{E_\rho[\hat L(h, S)]}{1 - \lambda / 2}
        + \frac{KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}}{\lambda (1 - \lambda / 2) n}.

    Convex in rho for fixed lambda and in lambda for fixed rho. A relaxation of `pac_bayes_kl`.

    Parameters
    ----------
    loss : array_like
        Empirical loss :math:`E_\rho[\hat L(h, S)]`, in [0, 1].
    kl_div : array_like
        :math:`KL(\rho \| \pi)`, non-negative.
    n : array_like
        Number of points each hypothesis was validated on (n - r in Theorem PBaggregation); the smallest, if they
        differ.
    lam : array_like
        Trade-off lambda, in (0, 2). It may be chosen after seeing the data.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    n_max : array_like, optional
        Largest validation set, if they differ: the confidence term is then :math:`\ln\frac{2 \sqrt{n_{max}}}{\delta}`.

    Returns
    -------
    float or ndarray
        Upper bound on :math:`E_\rho[L(h)]`; 1 or more means that nothing is proved.

    Examples
    --------
    >>> round(pac_bayes_lambda(loss=0.1, kl_div=2.0, n=1000, lam=0.4), 6)
    0.153571
    """
    trade_off = open_interval("lam", lam, 0, 2)
    loss_array = unit_interval("loss", loss)
    # Dividing by a subnormal lam overflows to inf, a vacuous bound.
    with np.errstate(over="ignore"):
        numerator = loss_array + _complexity(kl_div, n, delta, n_max) / trade_off
        return float_or_array(numerator / (1 - trade_off / 2) * _ROUND_UP)


def pac_bayes_sqrt(
    loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None
) -> Any:
    r"""Compute the square-root relaxation of PAC-Bayes-kl (eq. PBsqrt), solved for the expected loss.

    With probability at least 1 - delta, for all posteriors rho simultaneously,
    :math:`E_\rho[L] - E_\rho[\hat L] \le \sqrt{2 E_\rho[L]\, c}` with
    :math:`c = (KL(\rho \| \pi) + \ln\frac{2 \sqrt n}{\delta}) / n` [1]_. Solving the quadratic gives

    .. math:: E_\rho[L] \le E_\rho[\hat L] + c + \sqrt{c^2 + 2 c\, E_\rho[\hat L]},

    which is `pac_bayes_lambda` at its best lambda (eq. lambda).

    Parameters
    ----------
    loss, kl_div, n, delta, n_max
        As in `pac_bayes_kl`.

    Returns
    -------
    float or ndarray
        Upper bound on :math:`E_\rho[L(h)]`; 1 or more means that nothing is proved.

    References
    ----------
    .. [1] D. McAllester. PAC-Bayesian stochastic model selection. Machine Learning, 2003.

    Examples
    --------
    >>> round(pac_bayes_sqrt(loss=0.1, kl_div=2.0, n=1000), 6)
    0.152871
    """
    return float_or_array(sqrt_bound_of(unit_interval("loss", loss), _complexity(kl_div, n, delta, n_max)))


def sqrt_bound_of(loss: Array, complexity: Array) -> Array:
    """Compute `pac_bayes_sqrt` from valid losses and complexities, rounded up."""
    c = complexity
    with np.errstate(over="ignore"):
        return np.asarray((loss + c + np.sqrt(c) * np.sqrt(c + 2 * loss)) * _ROUND_UP)


def majority_vote(gibbs_bound: ArrayLike) -> Any:
    r"""Bound the rho-weighted majority vote by twice the bound of the randomised classifier (first order).

    Where the vote errs, at least half of the posterior mass errs, so by Markov's inequality
    :math:`L(\text{vote}) \le 2 E_\rho[L(h)]`. It holds whenever `gibbs_bound` does, at no cost in delta.

    Parameters
    ----------
    gibbs_bound : array_like
        Upper bound on :math:`E_\rho[L(h)]`, for instance from `pac_bayes_kl`. Zero-one loss.

    Returns
    -------
    float or ndarray
        :math:`\min(1, 2 \cdot \text{gibbs\_bound})`; 1 means that nothing is proved.

    Examples
    --------
    >>> majority_vote(0.08)
    0.16
    """
    return float_or_array(2 * np.minimum(0.5, nonnegative("gibbs_bound", gibbs_bound)))


# ---------------------------------------------------------------------------------------------------
# Other bounds that the paper cites
# ---------------------------------------------------------------------------------------------------


def catoni(loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, lam: ArrayLike, delta: ArrayLike = 0.05) -> Any:
    r"""Compute Catoni's bound [1]_, for a trade-off that is fixed before the sample is seen.

    With probability at least 1 - delta, for all posteriors rho simultaneously but for the one given
    lambda,

    .. math::
        E_\rho[L(h)] \le \frac{1 - \exp\left(-\lambda E_\rho[\hat L(h, S)]
        - \frac{KL(\rho \| \pi) + \ln\frac1\delta}{n}\right)}{1 - e^{-\lambda}}.

    For fixed lambda its minimiser is the Gibbs posterior of eq. rho. Taking the best of several lambda
    needs delta divided among them; `pac_bayes_lambda` does not.

    Parameters
    ----------
    loss, kl_div, n, delta
        As in `pac_bayes_kl`.
    lam : array_like
        Trade-off lambda, positive, chosen independently of the sample.

    Returns
    -------
    float or ndarray
        Upper bound on :math:`E_\rho[L(h)]`; 1 or more means that nothing is proved.

    References
    ----------
    .. [1] O. Catoni. PAC-Bayesian supervised classification: the thermodynamics of statistical
       learning. IMS Lecture Notes Monograph Series 56, 2007.

    Examples
    --------
    >>> round(catoni(loss=0.1, kl_div=2.0, n=1000, lam=0.4), 6)
    0.133458
    """
    trade_off = open_interval("lam", lam, 0, np.inf)
    loss_array, divergence = unit_interval("loss", loss), nonnegative("kl_div", kl_div)
    n_array, delta_array = whole_number("n", n), open_interval("delta", delta, 0, 1)
    # Dividing by a subnormal lam overflows to inf, a vacuous bound.
    with np.errstate(over="ignore"):
        exponent = trade_off * loss_array + (divergence - np.log(delta_array)) / n_array
        return float_or_array(np.expm1(-exponent * _ROUND_UP) / np.expm1(-trade_off) * _ROUND_UP)


def empirical_bernstein(
    loss: ArrayLike,
    variance: ArrayLike,
    kl_div: ArrayLike,
    n: ArrayLike,
    delta: ArrayLike = 0.05,
    *,
    c1: ArrayLike = 1.15,
    c2: ArrayLike = 1.15,
) -> Any:
    r"""Compute the PAC-Bayes-Empirical-Bernstein bound for losses in [0, 1] (Theorems 3 and 4 of [1]_).

    With probability at least 1 - delta, for all posteriors rho simultaneously, with
    :math:`\delta_1 = \delta_2 = \delta / 2` and :math:`K_i = KL(\rho \| \pi) + \ln(\nu_i / \delta_i)`,

    .. math::
        \bar V &= \min\left(\tfrac14,\; E_\rho[\hat V] + (1 + c_1)
            \sqrt{\frac{E_\rho[\hat V] K_1}{2 (n - 1)}} + \frac{2 c_1 K_1}{n - 1}\right), \\
        E_\rho[L] &\le E_\rho[\hat L] + (1 + c_2) \sqrt{\frac{(e - 2) \bar V K_2}{n}}
            \quad\text{if } K_2 \le (e - 2) \bar V n, \\
        E_\rho[L] &\le E_\rho[\hat L] + \frac{2 K_2}{n} \quad\text{otherwise.}

    Tighter than `pac_bayes_kl` where the empirical variance is far below the empirical loss.

    Parameters
    ----------
    loss, kl_div, delta
        As in `pac_bayes_kl`.
    variance : array_like
        :math:`E_\rho[\hat V(h)]`, the posterior mean of each hypothesis's sample variance of its loss,
        with divisor n - 1; at most n / (4 (n - 1)).
    n : array_like
        Number of points each hypothesis was validated on, at least 2.
    c1, c2 : array_like, default=1.15
        Ratios of the geometric grids over the trade-off parameters of both theorems, above 1, chosen
        independently of the sample.

    Returns
    -------
    float or ndarray
        Upper bound on :math:`E_\rho[L(h)]`; 1 or more means that nothing is proved.

    References
    ----------
    .. [1] I. Tolstikhin, Y. Seldin. PAC-Bayes-Empirical-Bernstein inequality. NIPS, 2013.

    Examples
    --------
    >>> round(empirical_bernstein(loss=0.1, variance=0.001, kl_div=2.0, n=1000), 6)
    0.126242
    """
    loss_array, divergence = unit_interval("loss", loss), nonnegative("kl_div", kl_div)
    n_array = whole_number("n", n, minimum=2)
    log_inverse = np.log(2) - np.log(open_interval("delta", delta, 0, 1))  # ln(1 / delta_i), delta_i = delta / 2
    ratio1, ratio2 = open_interval("c1", c1, 1, np.inf), open_interval("c2", c2, 1, np.inf)
    v_hat = finite_nonnegative("variance", variance)
    # 4 n may overflow: divide first.
    largest = n_array / (n_array - 1) / 4
    too_large = v_hat > largest * _ROUND_UP
    if too_large.any():
        offender = np.broadcast_to(v_hat, too_large.shape)[too_large].flat[0]
        raise ValueError(
            f"variance must be at most n / (4 (n - 1)), as the sample variance of a loss in [0, 1] is, got {offender!s}"
        )
    # nu_1 and nu_2 are the numbers of grid points that cover every trade-off that can be optimal.
    reach1 = np.sqrt((n_array - 1) / log_inverse + 1) / 2 + 0.5
    reach2 = np.sqrt((np.e - 2) * n_array / (4 * log_inverse))
    nu1 = np.maximum(1.0, np.ceil(np.log(reach1) / np.log(ratio1) * _ROUND_UP))
    nu2 = np.maximum(1.0, np.ceil(np.log(reach2) / np.log(ratio2) * _ROUND_UP))
    k1 = divergence + np.log(nu1) + log_inverse
    k2 = divergence + np.log(nu2) + log_inverse
    # With an infinite divergence v_bar is its largest value, 1/4, and the bound is vacuous.
    with np.errstate(invalid="ignore"):
        v_bar = v_hat + (1 + ratio1) * np.sqrt(v_hat) * np.sqrt(k1 / (2 * (n_array - 1)))
        v_bar = np.fmin(0.25, (v_bar + 2 * ratio1 * k1 / (n_array - 1)) * _ROUND_UP)
    bernstein = (1 + ratio2) * np.sqrt((np.e - 2) * v_bar * (k2 / n_array))
    linear = 2 * k2 / n_array
    excess = np.where(k2 <= (np.e - 2) * v_bar * n_array, bernstein, linear)
    return float_or_array((loss_array + excess) * _ROUND_UP)


# ---------------------------------------------------------------------------------------------------
# Bounds for single hypotheses
# ---------------------------------------------------------------------------------------------------


def single_hypothesis_kl(loss: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, prior_mass: ArrayLike = 1.0) -> Any:
    r"""Compute the Chernoff bound in kl form for single hypotheses (test-set and Occam's razor bound).

    With probability at least 1 - delta, for all hypotheses h of a countable set simultaneously,
    :math:`kl(\hat L(h) \| L(h)) \le \ln\frac{1}{\pi(h) \delta} / n` where :math:`\hat L(h) < L(h)` [1]_.
    With `prior_mass` 1 it holds for the one hypothesis that was fixed before its n points were seen:
    the test-set bound. With the prior mass of the hypothesis selected from a set, say 1/m, it is the
    Occam's razor bound. Losses in [0, 1].

    Parameters
    ----------
    loss : array_like
        Empirical loss of the hypothesis on n points that it was not trained on, in [0, 1].
    n : array_like
        Number of those points.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior_mass : array_like, default=1.0
        Prior probability of the hypothesis, in (0, 1].

    Returns
    -------
    float or ndarray
        Upper bound on L(h), at most 1.

    References
    ----------
    .. [1] J. Langford. Tutorial on practical prediction theory for classification. JMLR, 2005.

    Examples
    --------
    >>> round(single_hypothesis_kl(loss=0.1, n=1000), 6)
    0.124808
    """
    loss_array, n_array = unit_interval("loss", loss), whole_number("n", n)
    delta_array = open_interval("delta", delta, 0, 1)
    mass = half_open_interval("prior_mass", prior_mass, 0, 1)
    complexity = -(np.log(delta_array) + np.log(mass)) / n_array * _ROUND_UP
    return kl_inverse_upper(loss_array, complexity)


def clopper_pearson(errors: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, prior_mass: ArrayLike = 1.0) -> Any:
    r"""Compute the exact binomial (Clopper-Pearson) upper bound for single hypotheses and the zero-one loss.

    The largest q at which `errors` or fewer mistakes on n points still have probability
    :math:`\pi(h) \delta`. With probability at least 1 - delta it bounds L(h) for all hypotheses of a
    countable set simultaneously; with `prior_mass` 1 it is the test-set bound, the tightest there is
    for a hypothesis fixed before its n points were seen [1]_. Never above `single_hypothesis_kl`.

    Parameters
    ----------
    errors : array_like
        Number of mistakes on n points the hypothesis was not trained on, 0 to n.
    n : array_like
        Number of those points.
    delta : array_like, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior_mass : array_like, default=1.0
        Prior probability of the hypothesis, in (0, 1].

    Returns
    -------
    float or ndarray
        Upper bound on L(h), at most 1.

    References
    ----------
    .. [1] J. Langford. Tutorial on practical prediction theory for classification. JMLR, 2005.

    Examples
    --------
    >>> round(clopper_pearson(errors=100, n=1000), 6)
    0.116992
    """
    k, n_array = np.broadcast_arrays(whole_number("errors", errors, 0), whole_number("n", n))
    if np.any(k > n_array):
        raise ValueError(f"errors must be at most n, got {k[k > n_array].flat[0]!s}")
    level = open_interval("delta", delta, 0, 1) * half_open_interval("prior_mass", prior_mass, 0, 1)
    proved = np.asarray(single_hypothesis_kl(k / n_array, n_array, delta, prior_mass=prior_mass))
    # Bisect between 0, which is no bound, and Chernoff's bound, which is one, on the binomial tail probability itself
    # (SciPy's inverse loses digits at large n). Its error is granted `_BETA_ERROR`, which costs less than 1e-8 of the
    # result. Where the level is too small for it, Chernoff's bound is returned.
    short = np.zeros_like(proved)
    below_n = np.minimum(k, n_array - 1)
    usable = (k < n_array) & (level > 1e-306)
    granted = level * (1 - _BETA_ERROR)
    for _ in range(96):
        middle = short + (proved - short) / 2
        if ((middle <= short) | (middle >= proved)).all():  # no float lies between
            break
        holds = usable & (special.betaincc(below_n + 1, n_array - below_n, middle) <= granted)
        short, proved = np.where(holds, short, middle), np.where(holds, middle, proved)
    return float_or_array(proved)


# ---------------------------------------------------------------------------------------------------
# The exact constant of the kl inequality
# ---------------------------------------------------------------------------------------------------

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
    .. [2] P. Flajolet, P. Grabner, P. Kirschenhofer, H. Prodinger. On Ramanujan's Q-function. Journal of
       Computational and Applied Mathematics, 1995.

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
    """1 + Q(n) by Horner's rule, for n in rising order."""
    if n.size == 0:
        return n
    # Q(n) = 1 + (1 - 1/n) (1 + (1 - 2/n) (1 + ...)). What follows after j factors is at most the geometric series
    # n / j, and by then it is multiplied by less than exp(-j^2 / (2 n)) < 1e-21.
    terms = int(10 * np.sqrt(n[-1])) + 1
    q = n / terms
    for j in range(terms, 0, -1):
        q = 1.0 + np.maximum(n - j, 0.0) / n * q
    # Each step loses at most 3/2 eps, and the mean number of steps that a term has gone through is below sqrt(n).
    return np.asarray((1 + q) * (1 + 2 * _EPS * (1 + np.sqrt(n))))


def _xi_closed_form(n: Array) -> Array:
    """Ramanujan's upper bound on 1 + Q(n), with Stirling's series cut off after a positive term."""
    # Divided first: multiples of n may overflow.
    inverse = 1 / n
    stirling = inverse / 12 - inverse**3 / 360 + inverse**5 / 1260
    root = np.sqrt(np.pi / 2) * np.sqrt(n) * np.exp(stirling)
    return np.asarray((2 / 3 - 4 / 135 / (n + 8 / 45) + root) * _ROUND_UP)
