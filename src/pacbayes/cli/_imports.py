"""Keep out what other packages import and a command does not need: most of the time that a short command takes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
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


def forget_postponed() -> None:
    """Leave modules that were postponed and never used to be imported as others are: in parts, or all names at once.

    For a process that goes on after a command. What took the place of a module still finds it.
    """
    _forget(name for name, module in sys.modules.items() if isinstance(module, _Postponed))


def _forget(names: Iterable[str]) -> None:
    """Let modules be imported again."""
    for name in sorted(names):
        del sys.modules[name]
        package, _, part = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(part, None)


def import_functions_first() -> None:
    """Import `scipy.special` before other packages: skops looks for its functions in all modules, in this order."""
    import scipy.special  # noqa: F401


@contextmanager
def without_list_of_estimators() -> Iterator[None]:
    """Let skops be imported without its list of all estimators, for which it imports the whole of scikit-learn.

    Model files are examined by a table of our own, and skops trusts the types that this admits. What is imported so is
    forgotten, since others would miss the list.
    """
    import sklearn.utils

    listed, known = sklearn.utils.all_estimators, set(sys.modules)
    sklearn.utils.all_estimators = list
    try:
        yield
    finally:
        sklearn.utils.all_estimators = listed
        _forget(name for name in sys.modules.keys() - known if name.partition(".")[0] == "skops")
