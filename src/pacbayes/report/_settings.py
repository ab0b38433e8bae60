"""Settings of an estimator as short texts, those that were changed apart from the defaults."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxother = 160


def shorten(value: Any) -> str:
    """Return the repr of an object on one line, shortened in the middle if it is long.

    Examples
    --------
    >>> shorten(0.05), shorten(list(range(9)))
    ('0.05', '[0, 1, 2, 3, 4, 5, ...]')
    """
    return " ".join(_SHORT.repr(value).split())


def split_settings(estimator: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of an estimator that were changed, and those that have their default values.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> changed, defaults = split_settings(DecisionTreeClassifier(max_depth=3))
    >>> changed, defaults["min_samples_leaf"]
    ({'max_depth': '3'}, '1')
    """
    signature = inspect.signature(type(estimator).__init__).parameters
    changed: dict[str, str] = {}
    defaults: dict[str, str] = {}
    for name, value in estimator.get_params(deep=False).items():
        # The texts are compared, not the values: an array does not compare to None.
        is_default = name in signature and shorten(value) == shorten(signature[name].default)
        (defaults if is_default else changed)[name] = shorten(value)
    return changed, defaults
