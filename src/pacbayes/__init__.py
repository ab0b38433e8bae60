"""Classifiers that come with a proof of how well they will do.

`PACBayesClassifier` trains many weak classifiers on small subsamples, weights them by minimising a PAC-Bayesian bound
and carries a `Certificate`. `certify` does the last step for losses that are known already. The theory under them,
Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017), is there as plain
functions: `pacbayes.bounds`, `pacbayes.posterior` and `pacbayes.quasiconvexity` need losses only.
"""

from typing import TYPE_CHECKING, Any

from pacbayes import bounds, posterior, quasiconvexity
from pacbayes.certificate import Certificate, CertificateError, certify

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CertificateError",
    "PACBayesClassifier",
    "__version__",
    "bounds",
    "certify",
    "posterior",
    "quasiconvexity",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes longer to import than everything else: it is loaded with the estimator.
    if name == "PACBayesClassifier":
        from pacbayes.classifier import PACBayesClassifier

        return PACBayesClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
