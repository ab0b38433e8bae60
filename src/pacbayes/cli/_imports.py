"""Keep out what other packages import and a command does not need: most of the time that a short command takes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Postponed(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def postpone_statistics() -> None:
    """Import `scipy.stats` when it is first used: scikit-learn imports it for a function that no command calls."""
    name = "scipy.stats"
    if name not in sys.modules:
        sys.modules[name] = module = _Postponed(name)
        module.__spec__ = ModuleSpec(name, None)


def import_functions_first() -> None:
    """Import `scipy.special` before other packages: skops looks for its functions in all modules, in order of import.

    For commands that save a model.
    """
    import scipy.special  # noqa: F401


@contextmanager
def without_list_of_estimators() -> Iterator[None]:
    """Let skops be imported without its list of all estimators, for which it imports the whole of scikit-learn.

    Model files are examined by a table of our own, and skops trusts the types that this admits.
    """
    import sklearn.utils

    listed = sklearn.utils.all_estimators
    sklearn.utils.all_estimators = list
    try:
        yield
    finally:
        sklearn.utils.all_estimators = listed
