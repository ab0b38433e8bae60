"""Versions of the software that results depend on."""

from __future__ import annotations

import importlib.metadata
import platform

import pacbayes


def collect_versions() -> dict[str, str]:
    """Return the versions of this library, of Python and of the numerical packages, by name."""
    others = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "joblib")}
    return {"pacbayes": pacbayes.__version__, "python": platform.python_version(), **others}
