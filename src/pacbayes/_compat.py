"""The one place for what scikit-learn does not export."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing


def take_rows(X: Any, rows: Any) -> Any:
    """Rows of an array, sparse matrix or data frame (pandas, polars), by position."""
    if type(X) is np.ndarray:  # scikit-learn takes longer to find that out than to copy a subsample
        return X[rows]
    return _safe_indexing(X, rows, axis=0)


def boosted_trees(model: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return what the scores of a HistGradientBoostingClassifier begin with, and its trees, in their order.

    Of each tree, the nodes and the sets of categories that go to the left, of eight words of 32 bits.
    """
    members = [member for iteration in model._predictors for member in iteration]
    return model._baseline_prediction.ravel(), [(member.nodes, member.raw_left_cat_bitsets) for member in members]
