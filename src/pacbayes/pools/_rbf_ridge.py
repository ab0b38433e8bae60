"""Kernel ridge regressions on subsamples, many at once, in the engine of the RBF-SVMs.

A regression predicts f(x) = b + sum_p c_p exp(-gamma |x - x_p|^2), where an SVM of two classes votes by the sign of it.
The engine computes it in double precision, and a prediction depends on its row only: it has the same bits in any block,
by any worker, and on all processors with fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._settings import Constraint
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import _engine
from pacbayes.pools._base import Sample, TrainedModel, ValidationBlock
from pacbayes.pools._kernel_models import KernelModels, remember
from pacbayes.pools._kernel_pool import POSITIVE, Combination, KernelPool, Scaling, gather_points
from pacbayes.pools._layout import is_wide, starts, to_engine
from pacbayes.sampling import ChosenSubsamples

# Share of the rows that train a hypothesis, where held-out rows test the vote and where not; and the most rows, since
# the time for a linear system grows with their cube.
_SHARE_TRAINED, _SHARE_UNTESTED, _MOST_POINTS = 0.8, 0.5, 1500

# Hypotheses where there are few rows and many, and from how many on.
_N_HYPOTHESES, _MANY_ROWS = (20, 10), 5000


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


class RBFRidgePool(KernelPool):
    """Kernel ridge regressions with RBF kernels, whose widths are drawn from a grid around the median distance.

    A regression on r points solves ``(K + ridge I) c = (y - mean(y)) / std(y)``, where ``K = exp(-gamma D)`` and D
    holds the squared distances of the points. It predicts ``mean(y) + std(y) sum_p c_p exp(-gamma |x - x_p|^2)``.
    Mean, deviation, kernel width and scaling come from its subsample alone.

    Parameters
    ----------
    ridge : float or sequence of float, default=(1e-5, 3e-4, 0.01, 0.3)
        What is added to the diagonal of the kernel matrix, or several to draw from: the penalty of `KernelRidge`.
    gamma_grid : sequence of float, default=(0.03, 0.1, 0.3, 1.0, 3.0)
        Multiples of ``1 / (2 D)`` to draw the kernel width from, where D is the median squared distance of two points
        of the subsample, once scaled; or rather the middle of the powers of two between which it lies, so that
        hypotheses without scaling share kernel values.
    scaler : {"minmax", "standard"}, None or sequence of these, default="standard"
        Scaling of the features, or several to draw from.
    assignment : {"dealt", "drawn"}, default="dealt"
        How hypotheses get their kernel width, ridge and scaler: every combination equally often among the hypotheses of
        one subsample size, in random order; or drawn independently.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose linear system is singular in double precision, since its ridge is too small:
        raise, or count its loss as 1.
    working_memory : float, default=256
        MiB that each worker may take for the predictions of a block of rows. The kernel matrix of a subsample of r
        points, 8 r^2 bytes, comes on top.
    n_hypotheses, subsample_size : default="auto"
        As in `PACBayesClassifier`, for this pool alone: as one of several families, for example. By default 20
        hypotheses, or 10 of many rows, on 80% of the rows, 1500 of them at most: unlike a vote of classes, a mean of
        numbers is hardly better than its members, and a regression on few points is a weak one.

    Notes
    -----
    Tables with text, booleans, dates and gaps are read as by `RBFSVMPool`. Predictions have the same bits for any
    number of workers and blocks of rows, and on all processors with fused multiply-adds.

    Examples
    --------
    >>> import numpy as np
    >>> from pacbayes.pools import RBFRidgePool, Sample
    >>> from pacbayes.sampling import RandomSubsamples
    >>> X = np.linspace(0, 3, 300)[:, None]
    >>> sample = Sample(X, np.sin(X[:, 0]), classes=np.empty(0))
    >>> pool = RBFRidgePool(ridge=1e-4)
    >>> prepared, shared = pool.prepare(sample, entropy=0)
    >>> trained = pool.train(prepared, RandomSubsamples(300, [100], 8, entropy=0), range(8), 0, shared)
    >>> numbers = trained.keep_training_points(prepared).votes(X)
    >>> numbers.shape, bool(np.abs(numbers - np.sin(X[:, 0])).mean() < 0.01)
    ((8, 300), True)
    """

    _PENALTY, _MODELS = "ridge", RBFRidges
    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {"ridge": POSITIVE, **KernelPool._CONSTRAINTS}

    def __init__(
        self,
        *,
        ridge: float | Sequence[float] = (1e-5, 3e-4, 0.01, 0.3),
        gamma_grid: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0),
        scaler: Scaling | Sequence[Scaling | None] | None = "standard",
        assignment: Literal["dealt", "drawn"] = "dealt",
        on_error: Literal["raise", "drop"] = "raise",
        working_memory: float = 256.0,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
    ) -> None:
        self.ridge = ridge
        self.gamma_grid = gamma_grid
        self.scaler = scaler
        self.assignment = assignment
        self.on_error = on_error
        self.working_memory = working_memory
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size

    @property
    def predicts(self) -> tuple[str, ...]:
        return ("numbers",)

    def assumptions(self) -> list[str]:
        return ["widths-from-subsample" if self._scalers() == [None] else "widths-and-scaling-from-subsample"]

    def check_loss(self, loss: Loss) -> None:
        if loss.on_probabilities:
            raise HypothesisError(f"loss {loss.name!r} is one of probabilities, and regressions predict numbers")

    def default_sampling(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        share = _SHARE_TRAINED if tested else _SHARE_UNTESTED
        return [max(1, min(int(share * n), _MOST_POINTS))], _N_HYPOTHESES[n >= _MANY_ROWS]

    def _start_group(
        self, sample: Sample, subsamples: ChosenSubsamples, chosen: list[Combination], shared: None, entropy: int
    ) -> Callable[[], RBFRidges]:
        def finish() -> RBFRidges:
            X, targets, rows, used = gather_points(sample, subsamples, None)
            multipliers, ridge = (np.array([combination[i] for combination in chosen]) for i in (0, 1))
            sizes, scaler, book = subsamples.sizes.astype(np.int64), chosen[0][2], sample.code_book
            kinds = () if book is None else (book.n_numbers, book.n_categories)
            problem = (targets.astype(np.float64), rows, sizes, multipliers, ridge, scaler)
            result = _engine.train_ridges(to_engine(X, sparse=is_wide(sample.X)), *problem, *kinds)
            trained: RBFRidges = self._collect(result, sample, ridge, scaler, used)
            if self.on_error == "raise" and trained.failed.any():
                h = int(np.argmax(trained.failed))
                raise HypothesisError(
                    f"hypothesis {subsamples.chosen[h]} (seed {entropy}) could not be trained on its {sizes[h]} points "
                    f"with ridge = {ridge[h]:g} and gamma = {trained.gamma[h]:g}: its linear system is singular, or "
                    "its coefficients overflow. A larger ridge would help, or on_error='drop', which counts its loss "
                    "as 1"
                )
            return trained

        return finish
