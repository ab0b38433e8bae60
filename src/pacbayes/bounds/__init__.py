"""Compute the binary kl divergence, its inverses, and PAC-Bayesian and test-set bounds.

All functions broadcast over arrays and return a float for scalars. Labels such as ``eq. PBkl`` are
those of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017).

Upper bounds are rounded up and lower bounds down: no bound is on the wrong side of its exact value.
A bound of 1 or more proves nothing, and is returned unchanged.
Arguments of one name mean the same everywhere; `pac_bayes_kl` describes them.
"""

from pacbayes.bounds._kl import kl, kl_inverse_lower, kl_inverse_upper, xi
from pacbayes.bounds._single import clopper_pearson, single_hypothesis_kl
from pacbayes.bounds.direct import direct_bound
from pacbayes.bounds.dual import pac_bayes_dual
from pacbayes.bounds.pac_bayes import (
    catoni,
    confidence_term,
    empirical_bernstein,
    majority_vote,
    pac_bayes_kl,
    pac_bayes_lambda,
    pac_bayes_sqrt,
)
from pacbayes.bounds.sequences import anytime_lower, anytime_upper

__all__ = [
    "anytime_lower",
    "anytime_upper",
    "catoni",
    "clopper_pearson",
    "confidence_term",
    "direct_bound",
    "empirical_bernstein",
    "kl",
    "kl_inverse_lower",
    "kl_inverse_upper",
    "majority_vote",
    "pac_bayes_dual",
    "pac_bayes_kl",
    "pac_bayes_lambda",
    "pac_bayes_sqrt",
    "single_hypothesis_kl",
    "xi",
]
