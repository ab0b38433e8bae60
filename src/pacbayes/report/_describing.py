"""Estimators, their parameters and trained hypotheses in a few words."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

from pacbayes.pools import RBFSVM, Constant

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxother = 160


def short(value: Any) -> str:
    """Any object on one line, cut in the middle if it is long.

    Examples
    --------
    >>> short(0.05), short(list(range(9)))
    ('0.05', '[0, 1, 2, 3, 4, 5, ...]')
    """
    return " ".join(_SHORT.repr(value).split())


def parameters(estimator: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters of an estimator that were changed, and those that were left as they are by default.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> changed, left = parameters(DecisionTreeClassifier(max_depth=3))
    >>> changed, left["min_samples_leaf"]
    ({'max_depth': '3'}, '1')
    """
    expected = inspect.signature(type(estimator).__init__).parameters
    changed: dict[str, str] = {}
    left: dict[str, str] = {}
    for name, value in estimator.get_params(deep=False).items():
        # Their words are compared, not the values: an array would not say whether it equals None.
        same = name in expected and short(value) == short(expected[name].default)
        (left if same else changed)[name] = short(value)
    return changed, left


def describe(hypothesis: Any, classes: Any, drawn: list[str]) -> str:
    """What a trained hypothesis is.

    Parameters
    ----------
    hypothesis : object
        One of the `hypotheses_` of a classifier.
    classes : ndarray
        The class labels.
    drawn : list of str
        Names of the parameters that were drawn at random for it.

    Returns
    -------
    str
        Its kind, and what tells it apart from the others.
    """
    if getattr(hypothesis, "failed", False):
        return "could not be trained: its loss counts as 1"
    if isinstance(hypothesis, Constant):
        return f"constant: always {hypothesis.label}"
    if isinstance(hypothesis, RBFSVM):
        if hypothesis.classes.size == 1:
            return f"constant: always {classes[hypothesis.classes[0]]}"
        support = hypothesis.support.size
        return f"RBF-SVM, gamma = {hypothesis.gamma:.3g}, C = {hypothesis.C:g}, {support} support vectors"
    from sklearn.frozen import FrozenEstimator

    if isinstance(hypothesis, FrozenEstimator):
        # Trained elsewhere: all that is known of it is how it was set up.
        hypothesis = hypothesis.estimator
        known = parameters(hypothesis)[0] if hasattr(hypothesis, "get_params") else {}
        known.pop("steps", None)
    else:
        values = hypothesis.get_params() if drawn else {}
        known = {name: short(values[name]) for name in drawn if name in values}
    return ", ".join([_kind(hypothesis), *(f"{name} = {value}" for name, value in known.items())])


def _kind(estimator: Any) -> str:
    """The class of an estimator, or those of the steps of a pipeline."""
    steps = [step for _, step in getattr(estimator, "steps", [])]
    return " → ".join(_kind(step) for step in steps) if steps else _class_of(estimator)


def _class_of(estimator: Any) -> str:
    return estimator if isinstance(estimator, str) else type(estimator).__name__
