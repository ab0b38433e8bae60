"""Versions of what results depend on."""

from __future__ import annotations

import importlib.metadata
import platform

import pacbayes


def versions() -> dict[str, str]:
    """Versions by name, as they are here and now."""
    others = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "joblib")}
    return {"pacbayes": pacbayes.__version__, "python": platform.python_version(), **others}
