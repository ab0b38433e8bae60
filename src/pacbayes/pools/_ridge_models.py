"""Trained kernel ridge regressions: one of them, and thousands stored as a few arrays in the engine's layout.

A regression predicts f(x) = b + sum_p c_p exp(-gamma |x - x_p|^2), where an SVM of two classes votes by the sign of it.
The engine computes it in double precision, and a prediction depends on its row only: it has the same bits in any block,
by any worker, and on all processors with fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes._validation import Array
from pacbayes.pools import _engine
from pacbayes.pools._base import TrainedModel, ValidationBlock
from pacbayes.pools._kernel_models import KernelModels, remember
from pacbayes.pools._layout import starts
from pacbayes.rows import CodeBook


@dataclass(frozen=True, eq=False, repr=False)
class RBFRidge(TrainedModel):
    """A trained kernel ridge regression with an RBF kernel. An element of `RBFRidges`."""

    support: NDArray[np.int32]  # rows of the training sample; none if all of their targets are equal
    dual_coef: Array  # their coefficients
    intercept: float  # mean of their targets
    gamma: float
    ridge: float  # what was added to the diagonal of the kernel matrix
    # (d,), csr_array of shape (1, d) or None: what features are multiplied by; those not stored in a sparse array by 1.
    scale: Any

    def __str__(self) -> str:
        if self.failed:
            return "could not be trained: its loss counts as 1"
        return self._describe() if self.support.size else f"constant: always {self.intercept:g}"

    def _describe(self) -> str:
        return f"RBF ridge regression, gamma = {self.gamma:.3g}, ridge = {self.ridge:g}, {self.support.size} points"


@dataclass(frozen=True, eq=False, repr=False)
class RBFRidges(KernelModels):
    """Trained regressions, read as a sequence of `RBFRidge` and stored as a few arrays: its attributes."""

    classes: NDArray[Any]  # none
    n_support: NDArray[np.int32]  # points of each
    support: NDArray[np.int32]
    dual_coef: Array
    intercept: Array
    gamma: Array
    ridge: Array
    scale: Any  # ndarray or csr_array of shape (m, d), or None
    failed: NDArray[np.bool_]
    working_memory: int
    rows: NDArray[np.int32]
    points: Any = None
    fill: Array | None = None
    code_book: CodeBook | None = None

    shared_scale = None
    _ENTRIES = ("n_support", "intercept", "gamma", "ridge", "failed")

    @property
    @remember
    def _parts(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        sizes = self.n_support.astype(np.int64)
        return dict.fromkeys(("support", "dual_coef"), (starts(sizes)[:-1], sizes))

    def __len__(self) -> int:
        return self.n_support.size

    def get_one(self, h: int) -> RBFRidge:
        alone = self.take(np.array([h]))
        return RBFRidge(
            self.classes,
            bool(alone.failed[0]),
            alone,
            alone.support,
            alone.dual_coef,
            float(alone.intercept[0]),
            float(alone.gamma[0]),
            float(alone.ridge[0]),
            alone.scale if alone.scale is None or issparse(alone.scale) else alone.scale[0],
        )

    @property
    def _arrays(self) -> Any:
        # Machines of two classes, the first of which has all points.
        m = len(self)
        classes = (np.full(m, 2, dtype=np.int32), np.tile(np.array([0, 1], dtype=np.int32), m))
        counts = np.stack((self.n_support, np.zeros_like(self.n_support)), axis=1).ravel()
        return *classes, counts, self._used[1], self.dual_coef, self.intercept, self.gamma

    # -- validation and prediction -------------------------------------------------------------------

    def votes_and_uncertain(self, X: Any) -> tuple[Array, NDArray[np.bool_]]:
        X = self._encoded(X)
        numbers = np.empty((len(self), X.shape[0]))
        for part, predicted in self._predict_blocks(lambda part: X[part], X.shape[0], self._own_points()):
            numbers[:, part] = predicted
        return numbers, np.zeros(numbers.shape, dtype=bool)

    def _predict_blocks(self, rows_at: Callable[[slice], Any], n: int, points: Any) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of n rows that fit the memory, and what all hypotheses predict there."""
        for part in self._row_blocks(n, points, 8 * len(self)):
            predicted = np.empty((len(self), part.stop - part.start))
            queries = self._queries(rows_at(part), points)
            _engine.decide(*queries, self._ensemble[0], predicted, self.working_memory)
            yield part, predicted

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        X, rows, codes, points = block.sample.X, block.rows, block.codes, self._own_points(block.sample)
        totals, (inside, counts), n = np.zeros(len(self)), block.locate(), rows.size
        # Positions that rise over all hypotheses, so that those in a part of the rows are found at once.
        first = np.arange(len(self), dtype=np.int64) * n
        positions = np.repeat(first, counts) + inside
        for part, predicted in self._predict_blocks(lambda part: X[rows[part]], n, points):
            begins, ends = (np.searchsorted(positions, first + at) for at in (part.start, part.stop))
            here = [inside[i:j] - part.start for i, j in zip(begins, ends, strict=True)]
            totals += block.loss.totals_outside(codes[part], predicted, here, len(block.sample))
        totals[self.failed] = (n - counts)[self.failed]
        return lambda: totals
