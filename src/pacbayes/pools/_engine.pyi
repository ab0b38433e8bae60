from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int32]
Scaler = Literal["minmax", "standard"]

# The arrays of `Ensemble` by name, "converged" (uint8), and the factors of the scaler, if one was given: for dense rows
# "scale" holds m x d factors, for sparse ones "scale", "scale_indices" and "scale_indptr" are a CSR matrix in which
# entries that are not stored are 1. For rows of a table there is always a scale, and "fill" holds m x n_numbers values.
Trained = dict[str, NDArray[Any]]

# The instruction set in use, and the number of rows that are processed together.
instructions: str
tile_rows: int

# Sparse rows: data is float64 or float32, columns are strictly ascending in each row.
class CSR:
    def __init__(self, data: NDArray[Any], indices: Integers, indptr: NDArray[np.int64], n_features: int) -> None: ...

# Points and rows to vote on are both dense or both sparse; so is the scale. The results are the same, to the bit.
Rows = NDArray[np.float64] | NDArray[np.float32] | CSR
Points = Array | CSR

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
        fill: Array | None = None,  # for rows of a table: what NaN in the first features is replaced by
        n_categories: int = 0,
    ) -> None: ...

def train(
    X: Rows,
    codes: Integers,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    seed: float,  # NaN for Jaakkola's heuristic on each subsample
    multipliers: Array,
    C: Array,
    scaler: Scaler | None,  # fitted on each subsample
    tolerance: float,
    max_iterations: int,
    n_numbers: int | None = None,  # for rows of a table: the first features, which are filled and scaled
    n_categories: int = 0,  # the last features, which are compared for equality
    weights: Array | None = None,  # of the rows of each subsample, which C is multiplied by
) -> Trained: ...

# "counts" is the number of points of each, 0 of those whose targets are all equal; "support", "coefficients" and
# "intercepts" make it a machine of two classes, the first of which has all points, whose decision values it predicts.
def train_ridges(
    X: Rows,
    targets: Array,
    subsamples: Integers,
    sizes: NDArray[np.int64],
    multipliers: Array,  # of 1 / (2 D), where D is the median squared distance of two points, up to a factor of sqrt(2)
    ridges: Array,
    scaler: Scaler | None,  # fitted on each subsample
    n_numbers: int | None = None,
    n_categories: int = 0,
) -> Trained: ...

# The last argument of the following functions is the output. A mistake is a vote for another class, or a vote that
# rounding could change.
def vote(
    X: Rows,
    points: Points,
    ensemble: Ensemble,
    memory: int,
    votes: NDArray[np.uint16],
    certain: NDArray[np.uint8] | None = None,  # whether rounding leaves each vote no choice; an output too
) -> None: ...
def count_mistakes(
    X: Rows,
    codes: Integers,
    first: int,  # row of the sample that X begins at
    points: Points,
    ensemble: Ensemble,
    subsamples: Integers,  # each one strictly ascending
    sizes: NDArray[np.int64],
    memory: int,
    mistakes: NDArray[np.int64],
) -> None: ...
def decide(
    X: Rows,
    points: Points,
    ensemble: Ensemble,
    values: Array,  # the output: pairs of classes of all machines x rows
    memory: int = 0,
) -> None: ...
def nearest_of_another_class(X: Rows, codes: Integers, squared: Array) -> None: ...
def feature_scale(X: Rows, scaler: Scaler, factors: Array) -> None: ...
def margins(ensemble: Ensemble, d: int, out: Array) -> None: ...
def kernel(squared: Array, gamma: float, out: Array) -> None: ...

# Decision values in single precision and bounds on their errors, for tests of the filter.
def filter(
    X: Array, points: Array, ensemble: Ensemble, values: NDArray[np.float32], errors: NDArray[np.float32]
) -> None: ...
