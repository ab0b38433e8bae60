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


def list_column_types() -> list[type]:
    """Return the types of lists of columns that a fitted `ColumnTransformer` holds: one in scikit-learn 1.6 and 1.7."""
    from sklearn.compose import _column_transformer

    kind = getattr(_column_transformer, "_RemainderColsList", None)
    return [] if kind is None else [kind]
