"""Compute Gibbs posteriors and F(lambda), and minimise the bounds over posteriors.

Labels such as ``eq. rho`` are those of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex
PAC-Bayesian Bound" (ALT 2017). The functions take losses, not data: for the hypothesis space of Theorem PBaggregation,
pass validation losses and the number of validation points n - r as `n`.

Arguments of one name mean the same everywhere; `minimize_lambda_bound` describes them.
"""

from pacbayes.posterior._direct import DirectResult, minimize_direct_bound
from pacbayes.posterior._dual import DualResult, dual_bound, minimize_dual_bound
from pacbayes.posterior._minimizers import (
    PosteriorResult,
    gibbs_posterior,
    lambda_bound,
    lambda_bound_derivatives,
    minimize_kl_bound,
    minimize_lambda_bound,
    optimal_lambda,
)

__all__ = [
    "DirectResult",
    "DualResult",
    "PosteriorResult",
    "dual_bound",
    "gibbs_posterior",
    "lambda_bound",
    "lambda_bound_derivatives",
    "minimize_direct_bound",
    "minimize_dual_bound",
    "minimize_kl_bound",
    "minimize_lambda_bound",
    "optimal_lambda",
]
