"""The hypothesis space of the paper: small RBF-kernel SVMs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances_chunked
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from pacbayes.pools._estimator import EstimatorPool
from pacbayes.sampling import LEARNER, stream

# gamma is drawn from gamma_J times these (Section "Experimental Results").
GAMMA_GRID = 10.0 ** np.array([-4, -2, 0, 2, 4])

_SCALERS = {"minmax": lambda: MinMaxScaler((-1, 1)), "standard": StandardScaler}


def jaakkola_gamma(X: Any, y: NDArray[Any]) -> float:
    r"""Seed :math:`\gamma_J = 1 / (2\, \text{median}(G)^2)` of the kernel width [1]_.

    G holds, for every point, the distance to the nearest point of another class. Points that coincide with one
    of another class are left out of the median if it would be zero.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.
    y : ndarray of shape (n,)
        Labels, of at least two classes.

    Returns
    -------
    float
        The seed, positive and finite.

    References
    ----------
    .. [1] T. Jaakkola, M. Diekhans, D. Haussler. Using the Fisher kernel method to detect remote protein
       homologies. ISMB, 1999.

    Examples
    --------
    >>> jaakkola_gamma(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 1]))
    0.5
    """

    def nearest_of_another_class(block: Any, start: int) -> Any:
        block[y[start : start + block.shape[0], np.newaxis] == y] = np.inf
        return block.min(axis=1)

    distances = np.concatenate(list(pairwise_distances_chunked(X, reduce_func=nearest_of_another_class)))
    median = float(np.median(distances))
    if median == 0:
        apart = distances[distances > 0]
        median = float(np.median(apart)) if apart.size else 1.0
    with np.errstate(over="ignore", divide="ignore"):
        gamma = 1 / (2 * np.float64(median) ** 2)
    return float(np.clip(gamma, 1e-100, 1e100))


class RBFSVMPool(EstimatorPool):
    """RBF-SVMs with a kernel width drawn from a grid around Jaakkola's seed, and a soft margin drawn from a list.

    Parameters
    ----------
    classes : ndarray
        All class labels, sorted.
    entropy : int
        Seed of the hypotheses' streams.
    C : array_like of float
        Soft-margin parameters to draw from.
    scaler : {None, "minmax", "standard"}
        Scaling of the features before the kernel.
    reference : tuple of (X, y), optional
        Points that the seed and the scaler are computed on: reserved points or, as in the paper, the whole sample.
        By default each hypothesis computes its own, from its subsample alone.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails.
    """

    def __init__(
        self,
        classes: NDArray[Any],
        entropy: int,
        C: ArrayLike,
        scaler: Literal["minmax", "standard"] | None = None,
        reference: tuple[Any, NDArray[Any]] | None = None,
        on_error: Literal["raise", "drop"] = "raise",
    ) -> None:
        super().__init__(classes, SVC(), entropy, on_error=on_error)
        self.C = np.asarray(C, dtype=np.float64)
        self.scaler = scaler
        self.shared = None if reference is None else self._prepare(*reference)

    def _prepare(self, X: Any, y: NDArray[Any]) -> tuple[Any, float]:
        """A fitted scaler and the seed of the kernel width, from the same points."""
        scaler = FunctionTransformer() if self.scaler is None else _SCALERS[self.scaler]()
        scaled = scaler.fit(X).transform(X)
        # Points of one class have no neighbour of another: any width will do, in the unit of the features.
        one_class = (y == y[0]).all()
        return scaler, 1 / scaled.shape[1] if one_class else jaakkola_gamma(scaled, y)

    def _learner(self, h: int, X_h: Any, y_h: NDArray[Any]) -> Any:
        scaler, gamma_j = self._prepare(X_h, y_h) if self.shared is None else self.shared
        rng = stream(self.entropy, h, LEARNER)
        svm = SVC(gamma=gamma_j * rng.choice(GAMMA_GRID), C=rng.choice(self.C)).fit(scaler.transform(X_h), y_h)
        return svm if self.scaler is None else make_pipeline(scaler, svm)
