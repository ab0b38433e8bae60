"""Trained RBF-SVMs: one of them, and thousands stored as a few arrays in the engine's layout.

A loop over `SVC.predict` computes the distances between points and support vectors for every hypothesis. Here they are
computed once for all hypotheses, by blocks of rows, and each hypothesis exponentiates those of its own support
vectors, or shares the exponentials with others of the same width.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.pools import _cuda, _engine
from pacbayes.pools._base import Codes, Hypotheses, Numbers, Sample
from pacbayes.pools._device import is_worthwhile
from pacbayes.pools._layout import contiguous, is_wide, to_csr, to_engine
from pacbayes.rows import CodeBook, is_table
from pacbayes.sampling import Subsamples


@dataclass(frozen=True, eq=False)
class RBFSVM:
    """A trained RBF-kernel SVM, in the layout of `SVC`; of one class only, a constant. An element of `RBFSVMs`.

    Attributes
    ----------
    classes : ndarray of shape (k,)
        Labels of the classes that its subsample holds.
    n_support : ndarray of shape (k,)
        Number of support vectors of each class.
    support : ndarray of shape (s,)
        Rows of the training sample that are its support vectors, grouped by class.
    dual_coef : ndarray of shape (k - 1, s)
        Coefficients y alpha of the support vectors in the k - 1 problems that each takes part in.
    intercept : ndarray of shape (k (k - 1) / 2,)
        Intercepts of the pairs of classes (0, 1), (0, 2), ..., (1, 2), ...
    gamma, C : float
        Kernel width and soft-margin parameter.
    scale : ndarray of shape (d,), csr_array of shape (1, d) or None
        What features are multiplied by, if the hypothesis has a scaling of its own. Features that are not stored in a
        sparse array are multiplied by 1.
    failed : bool
        Whether the optimisation gave up; its loss then counts as 1 at every point.
    """

    classes: NDArray[Any]
    n_support: NDArray[np.int32]
    support: NDArray[np.int32]
    dual_coef: Array
    intercept: Array
    gamma: float
    C: float
    scale: Any
    failed: bool
    _alone: RBFSVMs

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        X = X if issparse(X) or self._alone.code_book is not None else np.asarray(X)
        return np.asarray(self._alone.classes[self._alone.votes(X)[0]])

    def decision_function(self, X: Any) -> Array:
        """Return decision values of the pairs of classes: positive ones are votes for the first of the two.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, k (k - 1) / 2)
            Values for the pairs (0, 1), (0, 2), ..., (1, 2), ... of the classes that the hypothesis knows.
        """
        return self._alone.decide(X)


@dataclass(frozen=True, eq=False)
class RBFSVMs(Hypotheses):
    """Trained SVMs, read as a sequence of `RBFSVM` and stored as a few arrays.

    Attributes
    ----------
    classes : ndarray
        All class labels, sorted.
    n_classes, class_codes, n_support, support, dual_coef, intercept, gamma : ndarray
        The attributes of `RBFSVM`, flattened and concatenated; the number of classes k of each is in `n_classes`, and
        `class_codes` are positions in `classes`.
    C, failed : ndarray of shape (m,)
        As in `RBFSVM`.
    scale : ndarray or csr_array of shape (m, d), or None
        As in `RBFSVM`.
    shared_scale : ndarray of shape (d,) or None
        What features are multiplied by for all of them.
    working_memory : int
        Bytes that votes and distances may take, on top of the data and the model.
    rows : ndarray
        Rows of the training sample that are support vectors of any of them, rising; empty as long as they belong
        to a sample.
    points : ndarray, sparse matrix or None
        Those support vectors.
    engine : {"auto", "cpu", "cuda"}
        Where to compute, if there is a device; results are the same.
    fill : ndarray of shape (m, n_numbers) or None
        For rows of a table, what missing numbers are replaced by, before they are scaled.
    code_book : CodeBook or None
        What columns of a table the features are.
    """

    classes: NDArray[Any]
    n_classes: NDArray[np.int32]
    class_codes: NDArray[np.int32]
    n_support: NDArray[np.int32]
    support: NDArray[np.int32]
    dual_coef: Array
    intercept: Array
    gamma: Array
    C: Array
    scale: Any
    failed: NDArray[np.bool_]
    shared_scale: Array | None
    working_memory: int
    rows: NDArray[np.int32]
    points: Any = None
    engine: str = "auto"
    fill: Array | None = None
    code_book: CodeBook | None = None

    # -- a sequence ----------------------------------------------------------------------------------

    @cached_property
    def _offsets(self) -> dict[str, NDArray[np.intp]]:
        """Where the parts of each hypothesis begin in the flattened arrays; one more entry for the end of the last."""
        k = self.n_classes.astype(np.intp)
        classes = _starts(k)
        s = np.add.reduceat(self.n_support, classes[:-1], dtype=np.intp) if k.size else k
        return {
            "class_codes": classes,
            "n_support": classes,
            "support": _starts(s),
            "dual_coef": _starts((k - 1) * s),
            "intercept": _starts(k * (k - 1) // 2),
        }

    @classmethod
    def concatenate(cls, parts: Sequence[RBFSVMs]) -> RBFSVMs:
        names = ("n_classes", "class_codes", "n_support", "support", "dual_coef", "intercept", "gamma", "C", "failed")
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        scales = [part.scale for part in parts]
        if scales[0] is not None:
            joined["scale"] = vstack(scales, format="csr") if issparse(scales[0]) else np.concatenate(scales)
        if parts[0].fill is not None:
            joined["fill"] = np.concatenate([part.fill for part in parts])
        # Support vectors that were kept belong to a part: the whole keeps them anew.
        return replace(parts[0], **joined, rows=np.empty(0, dtype=np.int32), points=None)

    def __len__(self) -> int:
        return self.n_classes.size

    def __getitem__(self, h: Any) -> Any:
        if isinstance(h, slice):
            return self.take(np.arange(len(self))[h])
        alone = self.take(np.array([range(len(self))[h]]))
        return RBFSVM(
            self.classes[alone.class_codes],
            alone.n_support,
            alone.support,
            alone.dual_coef.reshape(int(alone.n_classes[0]) - 1, alone.support.size),
            alone.intercept,
            float(alone.gamma[0]),
            float(alone.C[0]),
            alone.scale if alone.scale is None or issparse(alone.scale) else alone.scale[0],
            bool(alone.failed[0]),
            alone,
        )

    def take(self, chosen: Codes) -> RBFSVMs:
        parts: dict[str, Any] = {
            name: getattr(self, name)[_segments(starts, chosen)] for name, starts in self._offsets.items()
        }
        for name in ("n_classes", "gamma", "C", "failed"):
            parts[name] = getattr(self, name)[chosen]
        for name in ("scale", "fill"):
            parts[name] = None if getattr(self, name) is None else getattr(self, name)[chosen]
        taken = replace(self, **parts)
        if "_device" in self.__dict__:
            machines, numbers = self.__dict__["_device"]
            taken.__dict__["_device"] = (machines, numbers[chosen])
        return taken

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _CACHED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def _used(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rows of the training sample that are support vectors, rising; and the position of each vector in them."""
        last = int(self.support.max(initial=-1))
        if last > _SPARSE_SUPPORT * self.support.size:
            rows, positions = np.unique(self.support, return_inverse=True)
            return rows, positions.astype(np.int32)
        position = np.zeros(last + 1, dtype=np.int32)
        position[self.support] = 1
        rows = np.flatnonzero(position).astype(np.int32)
        position[rows] = np.arange(rows.size, dtype=np.int32)
        return rows, position[self.support]

    @cached_property
    def _ensemble(self) -> tuple[_engine.Ensemble, NDArray[np.int32]]:
        """The engine's view of the arrays, and the rows of the training sample that it needs, rising."""
        rows, support = self._used
        arrays = (
            self.n_classes,
            self.class_codes,
            self.n_support,
            support,
            self.dual_coef,
            self.intercept,
            self.gamma,
        )
        if issparse(self.scale):
            return _engine.Ensemble(*arrays, to_engine(self.scale, sparse=True)), rows
        n_categories = 0 if self.code_book is None else self.code_book.n_categories
        return _engine.Ensemble(*arrays, self.scale, self.fill, n_categories), rows

    def keep_on_device(self, machines: _cuda.DeviceMachines | None) -> RBFSVMs:
        """Return these hypotheses, with their copy in the memory of the device that trained them, if one did."""
        if machines is not None:
            self.__dict__["_device"] = (machines, np.arange(len(self), dtype=np.int32))
        return self

    def _on_device(self, points: Callable[[], Any]) -> tuple[_cuda.DeviceMachines, NDArray[np.int32]]:
        """Return machines in the memory of the device, and which of them these hypotheses are."""
        if "_device" not in self.__dict__:
            arrays = (self.n_classes, self.class_codes, self.n_support, self._used[1], self.dual_coef, self.intercept)
            self.keep_on_device(_cuda.DeviceMachines.of(*arrays, self.gamma, self.scale, points()))
        kept: tuple[_cuda.DeviceMachines, NDArray[np.int32]] = self.__dict__["_device"]
        return kept

    def _computes_on_device(self, X: Any, n: int) -> bool:
        """Return whether votes at n rows are to be computed on a device."""
        if is_wide(X) or issparse(self.points) or issparse(self.scale) or self.code_book is not None:
            return False
        work = float(self.support.size) * n
        return is_worthwhile(self.engine, X.shape[1], int(self.n_classes.max(initial=1)), work)

    def keep_training_points(self, sample: Sample) -> RBFSVMs:
        rows = self._used[0]
        kept = replace(self, rows=rows, points=self._support_vectors(sample.X, rows))
        if "_device" in self.__dict__:
            kept.__dict__["_device"] = self.__dict__["_device"]
        return kept

    @property
    def predict_by_row(self) -> bool:
        return True

    def leave_device(self) -> None:
        self.__dict__.pop("_device", None)

    def assumptions(self) -> list[str]:
        return [] if self.code_book is None else ["columns-known"]

    def describe(self, h: int) -> str:
        svm = self[h]
        if svm.failed:
            return "could not be trained: its loss counts as 1"
        if svm.classes.size == 1:
            return f"constant: always {svm.classes[0]}"
        return f"RBF-SVM, gamma = {svm.gamma:.3g}, C = {svm.C:g}, {svm.support.size} support vectors"

    def fingerprint(self) -> Any:
        state = self.__getstate__()
        # The rows name the points in the sample that they were trained on; memory and engine change no prediction.
        return {name: value for name, value in state.items() if name not in ("working_memory", "engine")}

    # -- validation and prediction -------------------------------------------------------------------

    def votes(self, X: Any) -> NDArray[Any]:
        return self.votes_and_doubts(X)[0]

    def votes_and_doubts(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        X = self._encoded(X)
        if self._computes_on_device(X, X.shape[0]):
            machines, chosen = self._on_device(lambda: self._kept(self._used[0]))
            return machines.vote_at(to_engine(scaled(X, self.shared_scale), sparse=False), chosen)
        ensemble, used = self._ensemble
        points = self._kept(used)
        votes = np.empty((len(self), X.shape[0]), dtype=np.uint16)
        doubts = np.empty(votes.shape, dtype=bool)
        for block in self._blocks(range(X.shape[0]), points):
            part = slice(block.start, block.stop)
            votes[:, part], doubts[:, part] = self._vote(ensemble, points, X[part])
        return votes, doubts

    def decide(self, X: Any) -> Array:
        """Return decision values of a single hypothesis, a column for each pair of its classes."""
        X = self._encoded(X)
        ensemble, used = self._ensemble
        points = self._kept(used)
        values = np.empty((self.intercept.size, X.shape[0]))
        _engine.decide(self._queries(X, points), _support(points), ensemble, values)
        return np.asarray(values.T)

    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        return self.start_loss_totals(sample, subsamples, hypotheses, rows, loss)()

    def start_loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Callable[[], Array]:
        rows = np.asarray(rows)
        counting = None
        if loss.is_zero_one and self._computes_on_device(sample.X, rows.size):
            counting = self._count_on_device(sample, rows, subsamples, hypotheses)

        def finish() -> Array:
            if counting is not None:
                totals = counting().astype(np.float64)
            else:
                totals = self._totals_at(sample, rows, *subsamples.locate(hypotheses, rows), loss)
            if self.failed.any():
                totals[self.failed] = (rows.size - subsamples.locate(hypotheses, rows)[1])[self.failed]
            return totals

        return finish

    def _totals_at(
        self, sample: Sample, rows: NDArray[np.intp], inside: NDArray[np.int32], counts: NDArray[np.int64], loss: Loss
    ) -> Array:
        """Return total losses at a block of rows; `inside` are positions in the block that train."""
        ensemble, used = self._ensemble
        points = self._own_points(sample, used)
        if loss.is_zero_one:
            mistakes = np.empty(len(self), dtype=np.int64)
            _engine.count_mistakes(
                self._queries(sample.X[rows], points),
                sample.codes[rows].astype(np.int32),
                0,
                _support(points),
                ensemble,
                inside,
                counts,
                self.working_memory,
                mistakes,
            )
            totals = mistakes.astype(np.float64)
        else:
            totals = np.zeros(len(self))
            parts = np.split(inside, np.cumsum(counts)[:-1])
            for block in self._blocks(range(rows.size), points):
                votes, doubts = self._vote(ensemble, points, sample.X[rows[block.start : block.stop]])
                for h, part in enumerate(parts):
                    validating = np.setdiff1d(np.arange(block.start, block.stop), part, assume_unique=True)
                    response = votes[h, validating - block.start].astype(np.intp)
                    doubtful = doubts[h, validating - block.start]
                    codes = sample.codes[rows[validating]]
                    totals[h] += loss.total_with_doubts(codes, response, doubtful, len(sample))
        return totals

    def _count_on_device(
        self, sample: Sample, rows: NDArray[np.intp], subsamples: Subsamples, hypotheses: range
    ) -> Callable[[], NDArray[np.int64]]:
        """Begin to count mistakes at a block of rows on the device; return what gives the counts."""
        as_it_is = self.shared_scale is None and isinstance(sample.X, np.ndarray)
        X: Any = sample.on_device if as_it_is else None
        inside: Any
        if X is None:
            X = to_engine(scaled(sample.X[rows], self.shared_scale), sparse=False)
            inside, sizes = subsamples.locate(hypotheses, rows)
        else:
            inside = subsamples.concatenated(hypotheses)
            sizes = subsamples.sizes[hypotheses.start : hypotheses.stop].astype(np.int64)
            if rows.size < len(sample):
                X, inside = X.block(rows, inside)
        machines, chosen = self._on_device(lambda: self._own_points(sample, self._used[0]))
        return machines.start_counting(X, sample.codes[rows].astype(np.int32), inside, sizes, chosen)

    def _encoded(self, X: Any) -> Any:
        """Return rows of a table as features; others are features already."""
        return self.code_book.encode(X) if self.code_book is not None and is_table(X) else X

    def _own_points(self, sample: Sample, rows: NDArray[np.int32]) -> Any:
        """Return support vectors by their rows of the training sample: those that were kept, or from the sample."""
        if self.points is not None:
            return self._kept(rows)
        with _GATHERING:  # once for all blocks of rows, which threads share
            gathered_from, points = self.__dict__.get("_gathered", (None, None))
            if gathered_from is not sample.X:
                points = self._support_vectors(sample.X, rows)
                self.__dict__["_gathered"] = (sample.X, points)
        return points

    def _kept(self, rows: NDArray[np.int32]) -> Any:
        """Return the support vectors that were these rows of the training sample."""
        return self.points[np.searchsorted(self.rows, rows)]

    def _support_vectors(self, X: Any, rows: NDArray[np.int32]) -> Any:
        """Return rows of the training sample, ready for the engine."""
        points = scaled(X[rows], self.shared_scale)
        return to_csr(points) if is_wide(X) else np.ascontiguousarray(contiguous(points), dtype=np.float64)

    def _queries(self, X: Any, points: Any) -> Any:
        """Return rows to vote on as the engine reads them: sparse if and only if the support vectors are."""
        return to_engine(scaled(X, self.shared_scale), sparse=issparse(points))

    def _vote(self, ensemble: _engine.Ensemble, points: Any, X: Any) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Return the codes that all of them vote for at a block of rows, and which ones rounding could change."""
        votes = np.empty((len(self), X.shape[0]), dtype=np.uint16)
        certain = np.empty(votes.shape, dtype=np.uint8)
        _engine.vote(self._queries(X, points), _support(points), ensemble, self.working_memory, votes, certain)
        return votes, certain == 0

    def _blocks(self, rows: range, points: Any) -> Iterator[range]:
        """Split rows into blocks that fit the memory: votes and dense copies."""
        tile = _engine.tile_rows
        per_row = 3 * len(self) + (0 if issparse(points) else 8 * points.shape[1])
        size = max(tile, self.working_memory // per_row // tile * tile)
        return (rows[i : i + size] for i in range(0, len(rows), size))


# Held while support vectors are gathered: NumPy would not do it in parallel.
_GATHERING = threading.Lock()

# What is computed from the other attributes, and not stored.
_CACHED = ("_used", "_ensemble", "_gathered", "_offsets", "_device")

# Rows of the sample for each support vector, up to which a table of all rows is faster than sorting.
_SPARSE_SUPPORT = 32


def scaled(X: Any, factors: Array | None) -> Any:
    """Return points with their features multiplied by factors, if there are any."""
    if factors is None:
        return X
    return csr_array(X.multiply(factors)) if issparse(X) else X * factors


def _support(points: Any) -> Any:
    return to_engine(points, sparse=True) if issparse(points) else points


def _starts(sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes)))


def _segments(starts: NDArray[np.intp], chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return all positions of the chosen parts, one part after another."""
    sizes = starts[chosen + 1] - starts[chosen]
    return np.repeat(starts[chosen] - _starts(sizes)[:-1], sizes) + np.arange(sizes.sum())
