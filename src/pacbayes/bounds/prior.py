"""Priors as log-probabilities, over any number of orders of magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pacbayes._validation import EPS, Array, as_real_array

# Relative error granted to an exponential, to the last operation on its exponent and to a pairwise sum.
SLACK = 32 * EPS

# The sum of a prior may differ from one by this much, by the precision in which it is given.
_PRIOR_TOLERANCE = {"float32": 1e-5, "float16": 1e-2}
_PRIOR_TOLERANCE_DOUBLE = 1e-8

# Less than this share of the prior is refused as a prior of its own: products with delta would underflow.
_SMALLEST_LOG_MASS = -460.0


def one_per_hypothesis(name: str, value: ArrayLike, m: int) -> Array:
    """Validate an array of m numbers."""
    given = as_real_array(name, value, "an array of numbers")
    if given.shape != (m,):
        raise ValueError(f"{name} must have one entry per hypothesis: there are {m} losses, got shape {given.shape}")
    return given


def posterior_weights(rho: ArrayLike, m: int, tolerance: float = 1e-8, name: str = "rho") -> Array:
    """Validate m posterior weights; their sum may miss one by a tolerance before that is more than rounding."""
    weights = one_per_hypothesis(name, rho, m)
    if not (weights >= 0).all():
        raise ValueError(f"{name} must be non-negative, got {weights[~(weights >= 0)][0]!s}")
    if not abs(weights.sum() - 1) <= tolerance:
        raise ValueError(f"{name} must sum to one, got a sum of {weights.sum()!s}")
    return weights


def normalise_log_prior(prior: ArrayLike, m: int) -> Array:
    """Return normalised log-probabilities, from probabilities or log-probabilities."""
    given = one_per_hypothesis("prior", prior, m)
    if np.isnan(given).any() or (given == np.inf).any():
        raise ValueError(f"prior must not contain NaN or inf, got {given[~(given < np.inf)][0]!s}")
    if (given > 0).any():
        if (given < 0).any():
            raise ValueError(f"prior must be non-negative, got {given[given < 0][0]!s}")
        total = float(given.sum())
        reading = ""
        with np.errstate(divide="ignore"):
            log_prior = np.log(given)
    else:
        log_prior = given
        with np.errstate(over="ignore"):
            total = float(np.exp(special.logsumexp(given)))
        reading = ", read as log-probabilities because no entry is above zero"
    tolerance = _PRIOR_TOLERANCE.get(str(getattr(prior, "dtype", "")), _PRIOR_TOLERANCE_DOUBLE)
    if not abs(total - 1) <= tolerance:
        raise ValueError(f"prior must sum to one, got a sum of {total!s}{reading}")
    normalised: Array = log_prior - special.logsumexp(log_prior)
    return normalised


def restrict_prior(prior: ArrayLike | None, chosen: NDArray[np.bool_]) -> tuple[Array | None, float]:
    r"""Return the prior given the chosen hypotheses, None if it is uniform, and the logarithm of their prior mass.

    A posterior on chosen hypotheses S has :math:`KL(\rho \| \pi) = KL(\rho \| \pi(\cdot | S)) - \ln \pi(S)`: to leave
    hypotheses out costs as much as delta that is multiplied by their prior mass. Probabilities are returned as
    logarithms; the mass is rounded down, 0 if all are chosen.
    """
    if prior is None:
        log_mass = float(np.log(np.count_nonzero(chosen) / chosen.size))
        return None, log_mass - (SLACK * (1 - log_mass) if log_mass < 0 else 0.0)
    log_prior = normalise_log_prior(prior, chosen.size)[chosen]
    if chosen.all():
        return log_prior, 0.0
    total = float(special.logsumexp(log_prior))
    if total < _SMALLEST_LOG_MASS:
        raise ValueError(f"the hypotheses with losses must have a prior mass of at least 1e-200, got exp({total:.6g})")
    log_mass = min(total, 0.0)
    return log_prior - total, log_mass - SLACK * (1 - log_mass)
