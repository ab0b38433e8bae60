"""Models that come with a proof of how well they will do.

`PACBayesClassifier` trains many weak classifiers on small subsamples, weights them by minimising a PAC-Bayesian bound
and carries a `Certificate`. `PACBayesRegressor` does the same for numbers. `certify` does the last step for losses that
are known already. The theory under them, Thiemann, Igel, Wintenberger, Seldin, "A Strongly Quasiconvex PAC-Bayesian
Bound" (ALT 2017), is there as plain functions: `pacbayes.bounds`, `pacbayes.posterior` and `pacbayes.quasiconvexity`
need losses only.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes import bounds, io, posterior, quasiconvexity
    from pacbayes.certificate import Certificate, certify
    from pacbayes.certificate.monitor import Monitor
    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.exceptions import CertificateError
    from pacbayes.regressor import PACBayesRegressor
    from pacbayes.search import CertifiedGridSearch

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CertificateError",
    "CertifiedGridSearch",
    "Monitor",
    "PACBayesClassifier",
    "PACBayesRegressor",
    "__version__",
    "bounds",
    "certify",
    "io",
    "posterior",
    "quasiconvexity",
]

# Where the names come from. They are loaded when they are first used: the command line answers at once, and who needs
# the bounds only does not wait for scikit-learn.
_MODULES = {
    "Certificate": "certificate",
    "CertificateError": "exceptions",
    "CertifiedGridSearch": "search",
    "Monitor": "certificate.monitor",
    "PACBayesClassifier": "classifier",
    "PACBayesRegressor": "regressor",
    "certify": "certificate",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"pacbayes.{_MODULES.get(name, name)}")
    return getattr(module, name) if name in _MODULES else module


def __dir__() -> list[str]:
    return sorted(__all__)
