"""Train scikit-learn's decision trees, and predict by them, without checking the same points once per tree.

A tree reads points as float32 numbers. `fit` and `predict` check and convert them in every call, which takes many times
as long as a small tree itself. Here, points are converted once for all trees. Whatever scikit-learn might refuse, warn
of or treat in its own way is left to its own methods, so that trees, predictions and errors are always theirs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import get_tags

from pacbayes._compat import take_rows

# What in the attributes of a trained tree changes what `predict` does: names of columns make it warn.
_SPECIAL = {"feature_names_in_", "predict"}


def is_tree(estimator: Any) -> bool:
    """Return whether an estimator is one of scikit-learn's tree classifiers; a subclass, which may differ, is not."""
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    return type(estimator) in (DecisionTreeClassifier, ExtraTreeClassifier)


@dataclass(frozen=True)
class TreePoints:
    """Points as trees read them."""

    values: NDArray[np.float32]  # (n, d), in C order, without infinite values
    has_nan: bool  # whether some values are missing

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
        """Return what a tree predicts as positions in all classes, sorted; None if only its `predict` can tell."""
        trained = vars(tree)
        if (
            trained.get("n_outputs_") != 1
            or tree.tree_.n_outputs != 1
            or trained.get("n_features_in_") != self.values.shape[1]
            or not _SPECIAL.isdisjoint(trained)
            # Some versions of scikit-learn refuse missing values together with monotonicity constraints.
            or (self.has_nan and not (get_tags(tree).input_tags.allow_nan and tree.monotonic_cst is None))
        ):
            return None
        known = np.minimum(np.searchsorted(classes, tree.classes_), classes.size - 1)
        if np.any(classes[known] != tree.classes_):
            return None
        code_of_node = known[tree.tree_.value[:, 0].argmax(axis=1)]
        return np.asarray(code_of_node[tree.tree_.apply(self.values)], dtype=np.intp)


class RowBlock:
    """Rows of X, by rising numbers or all, taken and converted once for many hypotheses, when the first needs it."""

    def __init__(self, X: Any, rows: NDArray[np.intp] | None = None) -> None:
        self._X = X
        self._rows = rows

    @cached_property
    def points(self) -> Any:
        """The rows, for any hypothesis."""
        return self._X if self._rows is None else take_rows(self._X, self._rows)

    @cached_property
    def _tree_points(self) -> TreePoints | None:
        rows = self._rows
        if rows is not None and rows[-1] - rows[0] + 1 == rows.size and isinstance(self._X, np.ndarray):
            return TreePoints.convert(self._X[rows[0] : rows[-1] + 1])  # without a copy before the conversion
        return TreePoints.convert(self.points)

    def is_read_by(self, hypothesis: Any) -> bool:
        """Return whether a hypothesis is a tree that reads the converted rows."""
        return is_tree(hypothesis) and self._tree_points is not None

    def predict_by_tree(self, hypothesis: Any, classes: NDArray[Any]) -> NDArray[np.intp] | None:
        """Return the class codes that a tree predicts; None if a hypothesis must be asked for labels by `predict`."""
        points = self._tree_points if is_tree(hypothesis) else None
        return None if points is None else points.predict_codes(hypothesis, classes)


def validate_parameters_once(tree: Any) -> AbstractContextManager[None]:
    """Return a context to train clones of a tree in, which differ in `random_state` only.

    scikit-learn validates the same parameters in every `fit`. Here they are validated by training on two points, and
    not again within the context if they are valid. If training fails, for whatever reason, the context does nothing:
    the same or another error is raised where the clones are trained.
    """
    try:
        one = clone(tree)
        one.random_state = 0  # None would draw from NumPy's global generator, which is not ours
        one.fit([[0.0], [1.0]], [0, 1])
    except Exception:
        return nullcontext()
    return config_context(skip_parameter_validation=True)  # type: ignore[no-any-return]


def fit_tree(tree: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Train a tree as its method `fit` does, without checks of points and labels that are known to pass them."""
    # Labels that are text or finite numbers.
    is_plain = type(y) is np.ndarray and (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and np.isfinite(y).all()))
    points = TreePoints.convert(X) if is_plain else None
    if points is None or points.has_nan or y.shape != (X.shape[0],):
        return tree.fit(X, y, sample_weight=sample_weight)
    return tree.fit(points.values, y, sample_weight=sample_weight, check_input=False)
