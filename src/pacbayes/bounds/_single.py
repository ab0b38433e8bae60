"""Bounds for single hypotheses: test sets, and Occam's razor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pacbayes._validation import Array, arrays, error_counts, float_or_array
from pacbayes.bounds._kl import ROUND_UP, kl_inverse_upper

# Relative error granted to the incomplete beta function of SciPy (tests/bounds/test_bounds.py measures it).
_BETA_ERROR = 1e-9


def single_hypothesis_kl(loss: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, prior_mass: ArrayLike = 1.0) -> Any:
    r"""Compute the Chernoff bound in kl form for single hypotheses (test-set and Occam's razor bound).

    With probability at least 1 - delta, for all hypotheses h of a countable set simultaneously,
    :math:`kl(\hat L(h) \| L(h)) \le \ln\frac{1}{\pi(h) \delta} / n` where :math:`\hat L(h) < L(h)` [1]_.
    With `prior_mass` 1 it is the test-set bound of the one hypothesis that was fixed before its n points were seen;
    with the prior mass of a hypothesis selected from a set, say 1/m, the Occam's razor bound.

    Parameters
    ----------
    loss, n : array_like
        Empirical loss of the hypothesis, in [0, 1], on n points that it was not trained on.
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
    loss_array, n_array, delta_array, mass = arrays(loss=loss, n=n, delta=delta, prior_mass=prior_mass)
    complexity = -(np.log(delta_array) + np.log(mass)) / n_array * ROUND_UP
    return kl_inverse_upper(loss_array, complexity)


def clopper_pearson(
    errors: ArrayLike, n: ArrayLike, delta: ArrayLike = 0.05, *, prior_mass: ArrayLike = 1.0, u: ArrayLike = 1.0
) -> Any:
    r"""Compute the exact binomial (Clopper-Pearson) upper bound for single hypotheses and the zero-one loss.

    The largest q at which `errors` or fewer mistakes on n points still have probability :math:`\pi(h) \delta`. It
    holds as `single_hypothesis_kl` does, and is never above it; with `prior_mass` 1 it is the tightest bound there
    is for a hypothesis fixed before its n points were seen [1]_, unless chance may help: numbers of errors are whole,
    so that it fails less often than delta. With `u` drawn from the uniform distribution on (0, 1] before the points are
    seen, :math:`P(X < k) + u P(X = k) = \pi(h) \delta` has a smaller root, which fails exactly that often [2]_.

    Parameters
    ----------
    errors : array_like
        Number of mistakes on n points the hypothesis was not trained on, 0 to n.
    n, delta, prior_mass : array_like
        As in `single_hypothesis_kl`.
    u : array_like, default=1.0
        Share of the probability of `errors` itself, in (0, 1]: 1, or a random number that was drawn beforehand.

    Returns
    -------
    float or ndarray
        Upper bound on L(h), at most 1.

    References
    ----------
    .. [1] J. Langford. Tutorial on practical prediction theory for classification. JMLR, 2005.
    .. [2] W. L. Stevens. Fiducial limits of the parameter of a discontinuous distribution. Biometrika, 1950.

    Examples
    --------
    >>> round(clopper_pearson(errors=100, n=1000), 6)
    0.116992
    >>> round(clopper_pearson(errors=100, n=1000, u=0.5), 6)
    0.11648
    """
    k, n_array = error_counts(errors, n)
    delta_array, mass, share = arrays(delta=delta, prior_mass=prior_mass, u=u)
    level = delta_array * mass
    proved = np.asarray(single_hypothesis_kl(k / n_array, n_array, delta, prior_mass=prior_mass))
    proved = np.broadcast_to(proved, np.broadcast_shapes(proved.shape, share.shape))
    # Bisect between 0, which is no bound, and Chernoff's bound, which is one, on the binomial tail probability itself
    # (SciPy's inverse loses digits at large n). Its error is granted `_BETA_ERROR`, which costs less than 1e-8 of the
    # result. Where the level is too small for it, Chernoff's bound is returned.
    short = np.zeros_like(proved)
    below_n = np.minimum(k, n_array - 1)
    usable = (k < n_array) & (level > 1e-306)
    granted = level * (1 - _BETA_ERROR)

    def tail(errors: Array, q: Array) -> Array:
        return np.asarray(special.betaincc(errors + 1, n_array - errors, q))

    for _ in range(96):
        middle = short + (proved - short) / 2
        if ((middle <= short) | (middle >= proved)).all():  # no float lies between
            break
        probability = tail(below_n, middle)
        if np.any(share < 1):
            fewer = np.where(k > 0, tail(np.maximum(below_n - 1, 0), middle), 0.0)
            probability = share * probability + (1 - share) * fewer
        holds = usable & (probability <= granted)
        short, proved = np.where(holds, short, middle), np.where(holds, middle, proved)
    return float_or_array(proved)
