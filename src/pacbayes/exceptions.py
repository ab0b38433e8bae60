"""All exceptions that the library raises on purpose, in one module that imports nothing.

Each derives from `PACBayesError` and from the built-in exception that a caller would expect.
"""

from __future__ import annotations

__all__ = [
    "CertificateError",
    "ClusterError",
    "DatasetError",
    "DeviceError",
    "HypothesisError",
    "ModelFileError",
    "MonitorError",
    "PACBayesError",
    "PaperError",
    "SourceError",
    "TableError",
]


class PACBayesError(Exception):
    """Base class of the exceptions of this library."""


class CertificateError(PACBayesError, ValueError):
    """A certificate that does not follow from its own figures, or from the model or losses it is checked against."""


class MonitorError(PACBayesError, ValueError):
    """A state of a monitor that was changed after it was written, or watches another certificate."""


class HypothesisError(PACBayesError, RuntimeError):
    """A hypothesis that could not be trained or asked for a prediction: which one, and why."""


class DeviceError(PACBayesError, RuntimeError):
    """A device that was asked for and is missing, or whose memory is too small even for the smallest parts."""


class ClusterError(PACBayesError, RuntimeError):
    """A cluster that is missing, lacks this package, loses its scheduler, or the workers of a task again and again."""


class TableError(PACBayesError, ValueError):
    """A file that is not the table it should be: which file, what is wrong, and where."""


class ModelFileError(PACBayesError, ValueError):
    """A file that is not a model, or holds types that are not trusted."""


class SourceError(PACBayesError, ValueError):
    """Rows that cannot be read from where they are, or changed while they were read: where, and what is wrong."""


class DatasetError(PACBayesError, ValueError):
    """A dataset that is unknown, or whose files are missing or altered."""


class PaperError(PACBayesError, ValueError):
    """A run of the paper's experiments that cannot be started or continued."""
