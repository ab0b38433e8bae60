"""PAC-Bayesian bounds of the paper, and those that it is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import Array, arrays, float_or_array, largest_size, nonnegative, open_interval, whole_number
from pacbayes.bounds._kl import ROUND_UP, kl_inverse_upper

_SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)


def confidence_term(n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None) -> Any:
    r"""Compute the confidence term :math:`\ln\frac{2 \sqrt n}{\delta}` of the paper's bounds.

    It bounds the logarithm of :math:`E[e^{n\, kl(\hat L \| L)}] / \delta` [1]_.

    Parameters
    ----------
    n, delta, n_max : array_like
        As in `pac_bayes_kl`.

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
    n_array, delta_array = arrays(n=n, delta=delta)
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


def _loss_and_complexity(
    loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike, n_max: ArrayLike | None
) -> tuple[Array, Array]:
    """Validate the arguments of a bound; return the loss and the right hand side of eq. PBkl, rounded up."""
    loss_array, divergence, n_array = arrays(loss=loss, kl_div=kl_div, n=n)
    return loss_array, complexity_of(divergence, n_array, confidence_term(n, delta, n_max=n_max))


def complexity_of(kl_div: Array, n: float | Array, confidence: float | Array) -> Array:
    """Compute the right hand side of eq. PBkl, (KL + ln(2 sqrt(n) / delta)) / n, from valid arguments, rounded up.

    With validation sets of n to n_max points, E_rho[n_h kl(L_hat_h || L_h)] <= KL + ln(2 sqrt(n_max) / delta), and
    by convexity of kl, kl(E_rho[L_hat] || E_rho[L]) <= (KL + ln(2 sqrt(n_max) / delta)) / n.
    """
    with np.errstate(over="ignore"):  # to inf, which proves nothing
        return np.asarray((kl_div + confidence) / n * ROUND_UP)


def pac_bayes_kl(
    loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, n_max: ArrayLike | None = None
) -> Any:
    r"""Compute the PAC-Bayes-kl bound on the expected loss of the randomised classifier (Theorem PBkl).

    With probability at least 1 - delta, for all posteriors rho simultaneously [1]_,

    .. math::
        kl\left(E_\rho[\hat L(h, S)] \,\middle\|\, E_\rho[L(h)]\right)
        \le \frac{KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}}{n},

    where the prior pi does not depend on the sample: inverted, an upper bound on :math:`E_\rho[L(h)]`. The tightest
    of the paper's bounds.

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
    .. [1] M. Seeger. PAC-Bayesian generalization error bounds for Gaussian process classification. JMLR, 2002.

    Examples
    --------
    >>> round(pac_bayes_kl(loss=0.1, kl_div=2.0, n=1000), 6)
    0.145371
    """
    return kl_inverse_upper(*_loss_and_complexity(loss, kl_div, n, delta, n_max))


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

    With probability at least 1 - delta, for all posteriors rho and all lambda in (0, 2) simultaneously,

    .. math::
        E_\rho[L(h)] \le \frac{E_\rho[\hat L(h, S)]}{1 - \lambda / 2}
        + \frac{KL(\rho \| \pi) + \ln \frac{2 \sqrt n}{\delta}}{\lambda (1 - \lambda / 2) n}.

    Convex in rho for fixed lambda and in lambda for fixed rho. A relaxation of `pac_bayes_kl`.

    Parameters
    ----------
    loss, kl_div, n, delta, n_max : array_like
        As in `pac_bayes_kl`.
    lam : array_like
        Trade-off lambda, in (0, 2). It may be chosen after seeing the data.

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
    loss_array, complexity = _loss_and_complexity(loss, kl_div, n, delta, n_max)
    # Dividing by a subnormal lam overflows to inf, a vacuous bound.
    with np.errstate(over="ignore"):
        numerator = loss_array + complexity / trade_off
        return float_or_array(numerator / (1 - trade_off / 2) * ROUND_UP)


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
    return float_or_array(sqrt_bound_of(*_loss_and_complexity(loss, kl_div, n, delta, n_max)))


def sqrt_bound_of(loss: Array, complexity: Array) -> Array:
    """Compute `pac_bayes_sqrt` from valid losses and complexities, rounded up."""
    c = complexity
    with np.errstate(over="ignore"):
        return np.asarray((loss + c + np.sqrt(c) * np.sqrt(c + 2 * loss)) * ROUND_UP)


def majority_vote(gibbs_bound: ArrayLike) -> Any:
    r"""Bound the rho-weighted majority vote by twice the bound of the randomised classifier (first order) [1]_.

    Where the vote errs, at least half of the posterior mass errs, for any number of classes and however ties are
    broken. By Markov's inequality :math:`L(\text{vote}) \le 2 E_\rho[L(h)]`, at no cost in delta.

    Parameters
    ----------
    gibbs_bound : array_like
        Upper bound on :math:`E_\rho[L(h)]`, for instance from `pac_bayes_kl`. Zero-one loss.

    Returns
    -------
    float or ndarray
        :math:`\min(1, 2 \cdot \text{gibbs\_bound})`; 1 means that nothing is proved.

    References
    ----------
    .. [1] J. Langford, J. Shawe-Taylor. PAC-Bayes & margins. NIPS, 2002.

    Examples
    --------
    >>> majority_vote(0.08)
    0.16
    """
    return float_or_array(2 * np.minimum(0.5, nonnegative("gibbs_bound", gibbs_bound)))


# -- other bounds that the paper cites ---------------------------------------------------------------


def catoni(loss: ArrayLike, kl_div: ArrayLike, n: ArrayLike, lam: ArrayLike, delta: ArrayLike = 0.05) -> Any:
    r"""Compute Catoni's bound [1]_, for a trade-off that is fixed before the sample is seen.

    With probability at least 1 - delta, for all posteriors rho simultaneously but for the one given lambda,

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
    .. [1] O. Catoni. PAC-Bayesian supervised classification: the thermodynamics of statistical learning. IMS, 2007.

    Examples
    --------
    >>> round(catoni(loss=0.1, kl_div=2.0, n=1000, lam=0.4), 6)
    0.133458
    """
    trade_off = open_interval("lam", lam, 0, np.inf)
    loss_array, divergence, n_array, delta_array = arrays(loss=loss, kl_div=kl_div, n=n, delta=delta)
    # Dividing by a subnormal lam overflows to inf, a vacuous bound.
    with np.errstate(over="ignore"):
        exponent = trade_off * loss_array + (divergence - np.log(delta_array)) / n_array
        return float_or_array(np.expm1(-exponent * ROUND_UP) / np.expm1(-trade_off) * ROUND_UP)


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
        Ratios of the grids over the trade-offs of both theorems, above 1, chosen independently of the sample.

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
    loss_array, v_hat, divergence = arrays(loss=loss, variance=variance, kl_div=kl_div)
    delta_array, ratio1, ratio2 = arrays(delta=delta, c1=c1, c2=c2)
    n_array = whole_number("n", n, minimum=2)
    log_inverse = np.log(2) - np.log(delta_array)  # ln(1 / delta_i), delta_i = delta / 2
    # 4 n may overflow: divide first.
    largest = n_array / (n_array - 1) / 4
    too_large = v_hat > largest * ROUND_UP
    if too_large.any():
        offender = np.broadcast_to(v_hat, too_large.shape)[too_large].flat[0]
        raise ValueError(
            f"variance must be at most n / (4 (n - 1)), as the sample variance of a loss in [0, 1] is, got {offender!s}"
        )
    # nu_1 and nu_2 are the numbers of grid points that cover every trade-off that can be optimal.
    reach1 = np.sqrt((n_array - 1) / log_inverse + 1) / 2 + 0.5
    reach2 = np.sqrt((np.e - 2) * n_array / (4 * log_inverse))
    k1, k2 = (
        divergence + np.log(np.maximum(1.0, np.ceil(np.log(reach) / np.log(ratio) * ROUND_UP))) + log_inverse
        for reach, ratio in ((reach1, ratio1), (reach2, ratio2))
    )
    # With an infinite divergence v_bar is its largest value, 1/4, and the bound is vacuous.
    with np.errstate(invalid="ignore"):
        v_bar = v_hat + (1 + ratio1) * np.sqrt(v_hat) * np.sqrt(k1 / (2 * (n_array - 1)))
        v_bar = np.fmin(0.25, (v_bar + 2 * ratio1 * k1 / (n_array - 1)) * ROUND_UP)
    bernstein = (1 + ratio2) * np.sqrt((np.e - 2) * v_bar * (k2 / n_array))
    linear = 2 * k2 / n_array
    excess = np.where(k2 <= (np.e - 2) * v_bar * n_array, bernstein, linear)
    return float_or_array((loss_array + excess) * ROUND_UP)
