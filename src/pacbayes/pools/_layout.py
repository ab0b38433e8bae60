"""The layouts in which the engine reads points: rows of a dense array, or sorted rows of a sparse one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from pacbayes.pools import _engine

__all__ = ["contiguous", "is_wide", "to_csr", "to_dense", "to_engine"]

# Sparse data of so few features, or so dense, are faster as dense ones. Results are the same, to the bit.
_NARROW = 256
_DENSE = 0.05

# Squares of larger numbers, and their sums, may overflow.
LARGEST_VALUE = 1e150


def is_wide(X: Any) -> bool:
    """Return whether points are better left sparse."""
    return bool(issparse(X) and X.shape[1] > _NARROW and X.nnz < _DENSE * X.shape[0] * X.shape[1])


def to_dense(X: Any) -> Any:
    """Return points as a dense array."""
    return X.toarray() if issparse(X) else X


def contiguous(X: Any) -> NDArray[Any]:
    """Return points as a dense array in rows; float32 stays as it is, all else becomes float64."""
    X = np.asarray(to_dense(X))
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype == np.float32 else np.float64)


def to_csr(X: Any) -> csr_array:
    """Return points as sparse rows with sorted columns, each once; float32 stays as it is, all else becomes float64."""
    X = csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def to_engine(X: Any, *, sparse: bool) -> Any:
    """Return points as the engine reads them."""
    if not sparse:
        return contiguous(X)
    X = to_csr(X)
    return _engine.CSR(X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), X.shape[1])
