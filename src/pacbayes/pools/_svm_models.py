"""Trained RBF-SVMs: one of them, and thousands stored as a few arrays in the engine's layout.

A loop over `SVC.predict` computes the distances between points and support vectors for every hypothesis. Here they are
computed once for all hypotheses, by blocks of rows, and each hypothesis exponentiates those of its own support
vectors, or shares the exponentials with others of the same width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes._validation import Array
from pacbayes.pools import _cuda, _engine
from pacbayes.pools._base import Codes, Sample, TrainedModel, ValidationBlock
from pacbayes.pools._device import is_worthwhile
from pacbayes.pools._kernel_models import KernelModels, remember
from pacbayes.pools._layout import part_sizes, scaled, starts, to_engine

# Arrays that hold parts of one hypothesis after another, by what the engine calls them; and arrays of one entry each.
PARTS = {
    "class_codes": "classes",
    "n_support": "counts",
    "support": "support",
    "dual_coef": "coefficients",
    "intercept": "intercepts",
}


@dataclass(frozen=True, eq=False, repr=False)
class RBFSVM(TrainedModel):
    """A trained RBF-kernel SVM, in the layout of `SVC`; of one class only, a constant. An element of `RBFSVMs`."""

    n_support: NDArray[np.int32]  # (k,): support vectors of each class
    support: NDArray[np.int32]  # (s,): rows of the training sample, grouped by class
    dual_coef: Array  # (k - 1, s): coefficients y alpha in the k - 1 problems that each takes part in
    intercept: Array  # of the pairs of classes (0, 1), (0, 2), ..., (1, 2), ...
    gamma: float
    C: float
    # (d,), csr_array of shape (1, d) or None: what features are multiplied by, if it has a scaling of its own; those
    # not stored in a sparse array by 1.
    scale: Any

    def _describe(self) -> str:
        return f"RBF-SVM, gamma = {self.gamma:.3g}, C = {self.C:g}, {self.support.size} support vectors"

    def decision_function(self, X: Any) -> Array:
        """Return decision values, a column for each pair (0, 1), (0, 2), ..., (1, 2), ... of the classes that it knows.

        Positive ones are votes for the first of the two.
        """
        return np.asarray(self._alone.decide(X))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RBFSVMs(KernelModels):
    """Trained SVMs, read as a sequence of `RBFSVM` and stored as a few arrays: its attributes, one after another."""

    n_classes: NDArray[np.int32]  # that each knows
    class_codes: NDArray[np.int32]  # positions in `classes`
    C: Array
    shared_scale: Array | None  # type: ignore[assignment]
    engine: str = "auto"  # where to compute, if there is a device; results are the same

    _ENTRIES = ("n_classes", "gamma", "C", "failed")
    _ONE = RBFSVM
    _ANSWER = (np.uint16, 3)

    @property
    @remember
    def _parts(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Where the parts of each hypothesis begin in the arrays that hold them, and their sizes."""
        sizes = part_sizes(self.n_classes, self.n_support)
        return {name: (starts(sizes[called])[:-1], sizes[called]) for name, called in PARTS.items()}

    def get_one(self, h: int) -> RBFSVM:
        one: RBFSVM = super().get_one(h)
        known = self.classes[one._alone.class_codes]
        return replace(one, classes=known, dual_coef=one.dual_coef.reshape(known.size - 1, one.support.size))

    def take(self, chosen: Codes) -> RBFSVMs:
        return self._share_device(super().take(chosen), chosen)

    def keep_training_points(self, sample: Sample) -> RBFSVMs:
        return self._share_device(super().keep_training_points(sample), slice(None))

    def keep_on_device(self, machines: _cuda.DeviceMachines | None) -> RBFSVMs:
        """Return these hypotheses, known to be machines in the memory of the device that trained them, if one did."""
        if machines is not None:
            _ON_DEVICE[self] = (machines, np.arange(len(self), dtype=np.int32))
        return self

    def _share_device(self, others: RBFSVMs, chosen: Any) -> RBFSVMs:
        """Return others, which are some of these, known to be those in the memory of the device."""
        if self in _ON_DEVICE:
            machines, numbers = _ON_DEVICE[self]
            _ON_DEVICE[others] = (machines, numbers[chosen])
        return others

    def _on_device(self, sample: Sample | None = None) -> tuple[_cuda.DeviceMachines, NDArray[np.int32]]:
        """Return machines in the memory of the device, and which of them these hypotheses are."""
        if self not in _ON_DEVICE:
            self.keep_on_device(_cuda.DeviceMachines.of(*self._arrays, self.scale, self._own_points(sample)))
        return _ON_DEVICE[self]

    def leave_device(self) -> None:
        _ON_DEVICE.pop(self, None)

    def _computes_on_device(self, X: Any, n: int) -> bool:
        """Return whether votes at n rows are to be computed on a device."""
        if issparse(self.points) or issparse(self.scale) or self.code_book is not None:
            return False
        return is_worthwhile(self.engine, X, int(self.n_classes.max(initial=1)), float(self.support.size) * n)

    @property
    def _arrays(self) -> Any:
        machines = (self.n_classes, self.class_codes, self.n_support, self._used[1])
        return *machines, self.dual_coef, self.intercept, self.gamma

    def votes_and_uncertain(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        X = self._encoded(X)
        if self._computes_on_device(X, X.shape[0]):
            machines, chosen = self._on_device()
            return machines.vote(to_engine(scaled(X, self.shared_scale), sparse=False), chosen)
        return super().votes_and_uncertain(X)

    def _answer(self, queries: tuple[Any, Any], n: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        votes, certain = np.empty((len(self), n), dtype=np.uint16), np.empty((len(self), n), dtype=np.uint8)
        _engine.vote(*queries, self._ensemble[0], self.working_memory, votes, certain)
        return votes, certain == 0

    def decide(self, X: Any) -> Array:
        """Return decision values of a single hypothesis, a column for each pair of its classes."""
        X = self._encoded(X)
        values = np.empty((self.intercept.size, X.shape[0]))
        _engine.decide(*self._queries(X, self._own_points()), self._ensemble[0], values)
        return np.asarray(values.T)

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        n = block.rows.size
        on_device = block.loss.is_zero_one and self._computes_on_device(block.sample.X, n)
        compute = self._count_on_device(block) if on_device else lambda: self._totals(block)

        def finish() -> Array:
            totals = compute().astype(np.float64)
            if self.failed.any():
                totals[self.failed] = (n - block.locate()[1])[self.failed]
            return totals

        return finish

    def _totals(self, block: ValidationBlock) -> NDArray[Any]:
        """Return total losses at a block of rows."""
        X, rows, codes, points = block.sample.X, block.rows, block.codes, self._own_points(block.sample)
        if block.loss.is_zero_one:
            inside, counts = block.locate()
            mistakes = np.empty(len(self), dtype=np.int64)
            queries, support = self._queries(X[rows], points)
            sample = (queries, codes.astype(np.int32), 0, support)
            _engine.count_mistakes(*sample, self._ensemble[0], inside, counts, self.working_memory, mistakes)
            return mistakes
        totals = np.zeros(len(self))
        inside_each = block.training_positions()
        for part, votes, uncertain in self._answer_blocks(lambda part: X[rows[part]], rows.size, points):
            for h, own in enumerate(inside_each):
                validating = np.setdiff1d(np.arange(part.start, part.stop), own, assume_unique=True)
                here = validating - part.start
                response = (codes[validating], votes[h, here].astype(np.intp), uncertain[h, here])
                totals[h] += block.loss.total_with_uncertain(*response, len(block.sample))
        return totals

    def _count_on_device(self, block: ValidationBlock) -> Callable[[], NDArray[np.int64]]:
        """Begin to count mistakes at a block of rows on the device; return what gives the counts."""
        sample, rows, hypotheses = block.sample, block.rows, block.hypotheses
        as_it_is = self.shared_scale is None and isinstance(sample.X, np.ndarray)
        X: Any = sample.on_device if as_it_is else None
        inside: Any
        if X is None:
            X = to_engine(scaled(sample.X[rows], self.shared_scale), sparse=False)
            inside, sizes = block.locate()
        else:
            inside = block.subsamples.concatenated(hypotheses)
            sizes = block.subsamples.sizes[hypotheses.start : hypotheses.stop].astype(np.int64)
            if rows.size < len(sample):
                X, inside = X.block(rows, inside)
        machines, chosen = self._on_device(sample)
        return machines.start_counting(X, block.codes.astype(np.int32), inside, sizes, chosen)


# Machines in the memory of a device, and which of them hypotheses are, as long as these live, which do not change.
_ON_DEVICE: WeakKeyDictionary[RBFSVMs, tuple[_cuda.DeviceMachines, NDArray[np.int32]]] = WeakKeyDictionary()
