"""Classifiers that come with a proof of how well they will do.

The theory of Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017), as
plain functions: `pacbayes.bounds`, `pacbayes.posterior` and `pacbayes.quasiconvexity` need losses only.
"""

from pacbayes import bounds, posterior, quasiconvexity

__version__ = "0.1.0"

__all__ = ["__version__", "bounds", "posterior", "quasiconvexity"]
