from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int32]
Trained = dict[str, NDArray[Any]]

instructions: str
tile_rows: int

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
        scale: Array | None,
    ) -> None: ...

def train(
    X: NDArray[Any],
    codes: Integers,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    seed: float,
    multipliers: Array,
    C: Array,
    scale: Array | None,
    tolerance: float,
    max_iterations: int,
) -> Trained: ...
def train_by_distances(
    squared: Array,
    codes: Integers,
    seed: float,
    multiplier: float,
    C: float,
    tolerance: float,
    max_iterations: int,
) -> Trained: ...
def vote(X: NDArray[Any], points: Array, ensemble: Ensemble, memory: int, votes: NDArray[np.uint16]) -> None: ...
def vote_by_distances(squared: Array, ensemble: Ensemble, votes: NDArray[np.uint16]) -> None: ...
def count_mistakes(
    X: NDArray[Any],
    codes: Integers,
    first: int,
    points: Array,
    ensemble: Ensemble,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    memory: int,
    mistakes: NDArray[np.int64],
) -> None: ...
def nearest_of_another_class(X: NDArray[Any], codes: Integers, squared: Array) -> None: ...
def decide(X: NDArray[Any], points: Array, ensemble: Ensemble, values: Array) -> None: ...
def kernel(squared: Array, gamma: float, out: Array) -> None: ...
