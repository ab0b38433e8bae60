"""Packages that only some parts of the library need."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, needs: str = "this needs", otherwise: str = "") -> Any:
    """Import a module, or raise ImportError that says what installs it, what `needs` it, and what else would do."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        message = f'{needs} {package}: python -m pip install "pacbayes[{extra}]"{otherwise}'
        raise ImportError(message, name=package) from error
