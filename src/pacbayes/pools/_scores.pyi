from typing import Any

import numpy as np
from numpy.typing import NDArray

class Trees:
    def __init__(
        self,
        n_features: int,
        n_set_features: int,
        n_outputs: int,
        one_output_each: bool,
        tree_sizes: NDArray[np.int64],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        missing_left: NDArray[np.bool_],
        sets: NDArray[np.uint64],
        leaf: NDArray[np.int32],
        values: NDArray[np.float64],
    ) -> None: ...
    def add_scores(self, X: NDArray[Any], out: NDArray[np.float64]) -> None: ...

def encode(
    X: NDArray[np.float64],
    columns: NDArray[np.int32],
    table_sizes: NDArray[np.int64],
    tables: NDArray[np.float64],
    out: NDArray[Any],
) -> None: ...
def linear_scores(
    X: NDArray[Any],
    center: NDArray[np.float64],
    low: NDArray[np.float64],
    step: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    table_sizes: NDArray[np.int64],
    tables: NDArray[np.float64],
    intercepts: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def probabilities(scores: NDArray[np.float64]) -> None: ...
def train_linear(
    numbers: NDArray[np.float64],
    categories: NDArray[np.int32],
    texts: NDArray[np.float64],
    targets: NDArray[np.int32] | NDArray[np.float64],
    penalty: float,
    tolerance: float,
    most_steps: int,
    weights: NDArray[np.float64],
) -> None: ...
