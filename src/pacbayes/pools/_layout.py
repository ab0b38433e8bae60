"""The layout in which the engine reads points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

# Sparse data of so few features, or so dense, are handled as dense ones.
_NARROW = 256
_DENSE = 0.1


def is_wide(X: Any) -> bool:
    """Return whether points are better left sparse."""
    return bool(issparse(X) and X.shape[1] > _NARROW and X.nnz < _DENSE * X.shape[0] * X.shape[1])


def to_dense(X: Any) -> Any:
    """Return points as a dense array."""
    return X.toarray() if issparse(X) else X


def contiguous(X: Any) -> NDArray[Any]:
    """Return points as the engine reads them: dense, in rows; float32 stays as it is, all else becomes float64."""
    X = np.asarray(to_dense(X))
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype == np.float32 else np.float64)
