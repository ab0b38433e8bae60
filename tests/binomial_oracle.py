"""The exact tail of the binomial distribution, by root finding: the oracle of Clopper-Pearson bounds."""

from scipy.optimize import brentq
from scipy.stats import binom


def binomial_upper(errors, n, level):
    """Return the largest p with P(Binomial(n, p) <= errors) >= level."""
    return brentq(lambda p: binom.cdf(errors, n, p) - level, errors / n, 1 - 1e-12, xtol=1e-15)
