import numpy as np
from numpy.typing import NDArray

def subsamples(
    key: NDArray[np.uint64], purpose: int, first: int, n: int, sizes: NDArray[np.int64], out: NDArray[np.int32]
) -> None: ...
def words(key: NDArray[np.uint64], purpose: int, first: int, out: NDArray[np.uint64]) -> None: ...
