from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int32]
Trained = dict[str, NDArray[Any]]

instructions: str
tile_rows: int

class CSR:
    def __init__(self, data: NDArray[Any], indices: Integers, indptr: NDArray[np.int64], n_features: int) -> None: ...

class Ensemble:
    def __init__(
        self,
        n_classes: Integers,
        classes: Integers,
        counts: Integers,
        support: Integers,
        coefficients: Array,
        intercepts: Array,
        gamma: Array,
        scale: Array | CSR | None,
    ) -> None: ...

def train(
    X: NDArray[Any] | CSR,
    codes: Integers,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    seed: float,
    multipliers: Array,
    C: Array,
    scaler: Literal["minmax", "standard"] | None,
    tolerance: float,
    max_iterations: int,
) -> Trained: ...
def vote(
    X: NDArray[Any] | CSR, points: Array | CSR, ensemble: Ensemble, memory: int, votes: NDArray[np.uint16]
) -> None: ...
def count_mistakes(
    X: NDArray[Any] | CSR,
    codes: Integers,
    first: int,
    points: Array | CSR,
    ensemble: Ensemble,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    memory: int,
    mistakes: NDArray[np.int64],
) -> None: ...
def decide(X: NDArray[Any] | CSR, points: Array | CSR, ensemble: Ensemble, values: Array) -> None: ...
def nearest_of_another_class(X: NDArray[Any] | CSR, codes: Integers, squared: Array) -> None: ...
def feature_scale(X: NDArray[Any] | CSR, scaler: Literal["minmax", "standard"], factors: Array) -> None: ...
def kernel(squared: Array, gamma: float, out: Array) -> None: ...
