"""Packages that only some sources need."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(module: str, extra: str) -> Any:
    """Import a module, or raise ImportError naming the extra of this package that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise ImportError(f'this needs {package}: python -m pip install "pacbayes[{extra}]"', name=package) from error
