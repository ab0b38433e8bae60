"""Kernel widths and scaling of RBF-SVMs, from the points that a hypothesis may see."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _engine
from pacbayes.pools._layout import is_wide, to_engine

# gamma is drawn from gamma_J times these (Section "Experimental Results").
GAMMA_GRID = 10.0 ** np.array([-4, -2, 0, 2, 4])

Scaling = Literal["minmax", "standard"]


def jaakkola_gamma(X: Any, y: NDArray[Any]) -> float:
    r"""Return the seed :math:`\gamma_J = 1 / (2\, \text{median}(G)^2)` of the kernel width [1]_.

    G holds, for every point, the distance to the nearest point of another class. Points that coincide with one
    of another class are left out of the median if it would be zero.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.
    y : ndarray of shape (n,)
        Labels, of at least two classes.

    References
    ----------
    .. [1] T. Jaakkola, M. Diekhans, D. Haussler. Using the Fisher kernel method to detect remote protein
       homologies. ISMB, 1999.

    Examples
    --------
    >>> jaakkola_gamma(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 1]))
    0.5
    """
    codes = np.unique(y, return_inverse=True)[1].astype(np.int32)
    squared = np.empty(len(codes))
    _engine.nearest_of_another_class(to_engine(X, sparse=is_wide(X)), codes, squared)
    distances = np.sqrt(squared)
    median = float(np.median(distances))
    if median == 0:
        apart = distances[distances > 0]
        median = float(np.median(apart)) if apart.size else 1.0
    with np.errstate(over="ignore", divide="ignore"):
        gamma = 1 / (2 * np.float64(median) ** 2)
    return float(np.clip(gamma, 1e-100, 1e100))


def feature_scale(X: Any, kind: Scaling) -> Array:
    """Return factors that scale the features as `MinMaxScaler((-1, 1))` or `StandardScaler` would.

    The offsets of those do not matter to an RBF kernel. The factor of a constant feature is 1, as is that of one whose
    spread is too small or too large to divide by.
    """
    factors = np.empty(X.shape[1])
    _engine.feature_scale(to_engine(X, sparse=is_wide(X)), kind, factors)
    return factors
