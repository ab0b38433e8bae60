r"""Compute Gibbs posteriors and F(lambda), and minimise the bounds over posteriors.

Labels such as ``eq. rho`` are those of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex
PAC-Bayesian Bound" (ALT 2017). The functions take losses, not data: for the hypothesis space of Theorem PBaggregation,
pass validation losses and the number of validation points n - r as `n`.

Common arguments: `losses`, empirical losses in [0, 1], one per hypothesis; `n`, the number of points each was measured
on, the smallest if they differ; `n_max`, the largest such number; `delta`, the probability with which the bound may
fail; `prior`, probabilities or log-probabilities (an array with no entry above zero is read as such), summing to one.
Zeros are allowed. Uniform by default.
"""

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
    "DualResult",
    "PosteriorResult",
    "dual_bound",
    "gibbs_posterior",
    "lambda_bound",
    "lambda_bound_derivatives",
    "minimize_dual_bound",
    "minimize_kl_bound",
    "minimize_lambda_bound",
    "optimal_lambda",
]
