from typing import Any

import numpy as np
from numpy.typing import NDArray

def boost(
    X: NDArray[np.float64],
    n_sets: int,
    targets: NDArray[np.int32] | NDArray[np.float64],
    baseline: NDArray[np.float64],
    learning_rate: float,
    n_rounds: int,
    max_leaves: int,
    min_leaf: int,
    n_candidates: int,
    l2: float,
    seed: int,
    squared_share: float = 1.0,
    max_samples: float = 1.0,
    random_strength: float = 0.0,
    is_symmetric: bool = False,
) -> dict[str, NDArray[Any]]: ...
def randomise(
    X: NDArray[np.float32],
    targets: NDArray[np.int32] | NDArray[np.float64],
    n_classes: int,
    n_trees: int,
    min_leaf: int,
    max_leaves: int,
    n_candidates: int,
    seed: int,
) -> dict[str, NDArray[Any]]: ...
