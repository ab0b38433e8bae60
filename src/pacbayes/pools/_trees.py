"""Train scikit-learn's decision trees, and predict by them, without checking the same points once per tree.

A tree reads points as float32 numbers. `fit` and `predict` check and convert them in every call, which takes many times
as long as a small tree itself. Here, points are converted once for all trees. Whatever scikit-learn might refuse, warn
of or treat in its own way is left to its own methods, so that trees, predictions and errors are always theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils import get_tags

_TREES = (DecisionTreeClassifier, ExtraTreeClassifier)

# Values of parameters that need no copy.
_PLAIN = (type(None), bool, int, float, str)

# What in the attributes of a trained tree changes what `predict` does: names of columns make it warn.
_SPECIAL = {"feature_names_in_", "predict"}


def is_tree(estimator: Any) -> bool:
    """Return whether an estimator is one of scikit-learn's tree classifiers; a subclass, which may differ, is not."""
    return type(estimator) in _TREES


@dataclass(frozen=True)
class TreePoints:
    """Points as trees read them.

    Attributes
    ----------
    values : ndarray of shape (n, d), float32
        The points, in C order, without infinite values.
    has_nan : bool
        Whether some values are missing.
    """

    values: NDArray[np.float32]
    has_nan: bool

    @classmethod
    def convert(cls, X: Any) -> TreePoints | None:
        """Convert points; None if they are no dense array of numbers, or if trees would refuse them."""
        if type(X) not in (np.ndarray, np.memmap) or X.ndim != 2 or X.size == 0 or X.dtype.kind not in "biuf":
            return None
        with np.errstate(all="ignore"):
            values = np.ascontiguousarray(X, dtype=np.float32)
            # Finite only if all values are.
            total = values.sum()
        if np.isfinite(total):
            return cls(values, has_nan=False)
        return None if np.isinf(values).any() else cls(values, has_nan=bool(np.isnan(values).any()))

    def predict_codes(self, tree: Any, classes: NDArray[Any]) -> NDArray[np.intp] | None:
        """Return what a tree predicts as positions in all classes; None if only its method `predict` can tell.

        Parameters
        ----------
        tree : DecisionTreeClassifier or ExtraTreeClassifier
            The tree.
        classes : ndarray
            All class labels, sorted. The tree may know fewer.
        """
        trained = vars(tree)
        if (
            trained.get("n_outputs_") != 1
            or trained.get("n_features_in_") != self.values.shape[1]
            or not _SPECIAL.isdisjoint(trained)
            or (self.has_nan and not _takes_nan(tree))
        ):
            return None
        known = np.minimum(np.searchsorted(classes, tree.classes_), classes.size - 1)
        if np.any(classes[known] != tree.classes_):
            return None
        code_of_node = known[tree.tree_.value[:, 0].argmax(axis=1)]
        return np.asarray(code_of_node[tree.tree_.apply(self.values)], dtype=np.intp)


def _takes_nan(tree: Any) -> bool:
    # Some versions of scikit-learn refuse missing values together with monotonicity constraints.
    return bool(get_tags(tree).input_tags.allow_nan) and tree.monotonic_cst is None


def clone_tree(tree: Any) -> Any:
    """Return what scikit-learn's `clone` does for a tree, faster where all parameters are plain values."""
    parameters = vars(tree)
    if parameters.keys() == vars(type(tree)()).keys() and all(type(value) in _PLAIN for value in parameters.values()):
        return type(tree)(**parameters)
    return clone(tree)


def fit_tree(tree: Any, X: Any, y: Any) -> Any:
    """Train a tree as its method `fit` does, without checks of points and labels that are known to pass them.

    Parameters
    ----------
    tree : DecisionTreeClassifier or ExtraTreeClassifier
        The tree.
    X : array, sparse matrix or data frame
        Points.
    y : ndarray
        Labels.

    Returns
    -------
    DecisionTreeClassifier or ExtraTreeClassifier
        The tree.
    """
    points = TreePoints.convert(X) if _are_plain_labels(y) else None
    if points is None or points.has_nan or y.shape != (X.shape[0],):
        return tree.fit(X, y)
    return tree.fit(points.values, y, check_input=False)


def _are_plain_labels(y: Any) -> bool:
    """Return whether labels are text or finite numbers."""
    return type(y) is np.ndarray and (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))
