"""The layouts in which the engine reads points and machines.

Points are rows of a dense array, or sorted rows of a sparse one. Machines are a few arrays, each of which holds the
parts of all machines one after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from pacbayes.pools import _engine

# Sparse data of so few features, or so dense, are faster as dense ones. Results are the same, to the bit.
_NARROW = 256
_DENSE = 0.05

# Squares of larger numbers, and their sums, may overflow.
LARGEST_VALUE = 1e150


def is_wide(X: Any) -> bool:
    """Return whether points are better left sparse."""
    return bool(issparse(X) and X.shape[1] > _NARROW and X.nnz < _DENSE * X.shape[0] * X.shape[1])


def contiguous(X: Any) -> NDArray[Any]:
    """Return points as a dense array in rows; float32 stays as it is, all else becomes float64."""
    X = np.asarray(X.toarray() if issparse(X) else X)
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


def scaled(X: Any, factors: NDArray[np.float64] | None) -> Any:
    """Return points with their features multiplied by factors, if there are any."""
    if factors is None:
        return X
    return csr_array(X.multiply(factors)) if issparse(X) else X * factors


def check_magnitude(X: Any) -> None:
    """Raise ValueError if a number is so large that squares of it, and sums of these, may overflow."""
    values = X.data if issparse(X) else X
    # The smallest and largest values that are not missing.
    extremes = (np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)) if values.size else (0.0, 0.0)
    if max(-float(extremes[0]), float(extremes[1])) > LARGEST_VALUE:
        raise ValueError(f"X must hold numbers up to {LARGEST_VALUE:g}, since squares overflow: scale the features")


def starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def segments(begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all positions of parts that begin at `begins`, one part after another."""
    return np.repeat(begins - starts(sizes)[:-1], sizes) + np.arange(sizes.sum())


def part_sizes(n_classes: NDArray[Any], counts: NDArray[Any], class_at: Any = None) -> dict[str, NDArray[np.int64]]:
    """Return the sizes of the parts of each machine in the engine's arrays.

    `counts` holds the support vectors of each class of each machine; those of a machine begin at `class_at`, by default
    where those of the machine before end.
    """
    k = n_classes.astype(np.int64)
    class_at = starts(k)[:-1] if class_at is None else class_at
    s = np.add.reduceat(counts, class_at, dtype=np.int64) if k.size else k
    return {"classes": k, "counts": k, "support": s, "coefficients": (k - 1) * s, "intercepts": k * (k - 1) // 2}


def count_outputs(n_classes: Any) -> Any:
    """Return how many scores models of so many classes have: none for one, and one for two, or if they are numbers."""
    return np.where(n_classes <= 2, np.abs(n_classes - 1), n_classes)
