"""Trained kernel ridge regressions: one of them, and thousands stored as a few arrays in the engine's layout.

A regression predicts f(x) = b + sum_p c_p exp(-gamma |x - x_p|^2), where an SVM of two classes votes by the sign of it.
The engine computes it in double precision, and a prediction depends on its row only: it has the same bits in any block,
by any worker, and on all processors with fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _engine
from pacbayes.pools._base import TrainedModel, ValidationBlock
from pacbayes.pools._kernel_models import KernelModels, remember
from pacbayes.pools._layout import starts


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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RBFRidges(KernelModels):
    """Trained regressions, read as a sequence of `RBFRidge` and stored as a few arrays: its attributes."""

    ridge: Array

    _ENTRIES = ("n_support", "intercept", "gamma", "ridge", "failed")
    _ONE = RBFRidge
    _ANSWER = (np.float64, 8)

    @property
    @remember
    def _parts(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        sizes = self.n_support.astype(np.int64)
        return dict.fromkeys(("support", "dual_coef"), (starts(sizes)[:-1], sizes))

    @property
    def _arrays(self) -> Any:
        # Machines of two classes, the first of which has all points.
        m = len(self)
        classes = (np.full(m, 2, dtype=np.int32), np.tile(np.array([0, 1], dtype=np.int32), m))
        counts = np.stack((self.n_support, np.zeros_like(self.n_support)), axis=1).ravel()
        return *classes, counts, self._used[1], self.dual_coef, self.intercept, self.gamma

    def _answer(self, queries: tuple[Any, Any], n: int) -> tuple[Array, bool]:
        predicted = np.empty((len(self), n))
        _engine.decide(*queries, self._ensemble[0], predicted, self.working_memory)
        return predicted, False

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        X, rows, codes, points = block.sample.X, block.rows, block.codes, self._own_points(block.sample)
        totals, (inside, counts), n = np.zeros(len(self)), block.locate(), rows.size
        # Positions that rise over all hypotheses, so that those in a part of the rows are found at once.
        first = np.arange(len(self), dtype=np.int64) * n
        positions = np.repeat(first, counts) + inside
        for part, predicted, _ in self._answer_blocks(lambda part: X[rows[part]], n, points):
            begins, ends = (np.searchsorted(positions, first + at) for at in (part.start, part.stop))
            here = [inside[i:j] - part.start for i, j in zip(begins, ends, strict=True)]
            totals += block.loss.totals_outside(codes[part], predicted, here, len(block.sample))
        totals[self.failed] = (n - counts)[self.failed]
        return lambda: totals
