"""Trained hypotheses that are sums of RBF kernels: thousands of them, stored as a few arrays in the engine's layout."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from pacbayes._validation import Array
from pacbayes.pools import _engine
from pacbayes.pools._base import Codes, Hypotheses, Sample, TrainedModel
from pacbayes.pools._layout import contiguous, is_wide, scaled, segments, to_csr, to_engine
from pacbayes.rows import CodeBook, is_table

# Held while support vectors are gathered: NumPy would not do it in parallel.
_GATHERING = threading.Lock()

# Rows of the sample for each support vector, up to which a table of all rows is faster than sorting.
_SPARSE_SUPPORT = 32

_Owner = TypeVar("_Owner")
_Result = TypeVar("_Result")


def remember(compute: Callable[[_Owner], _Result]) -> Callable[[_Owner], _Result]:
    """Compute a function of an object once, and keep the result as long as the object lives, which does not change."""
    results: WeakKeyDictionary[Any, _Result] = WeakKeyDictionary()

    def get(owner: _Owner) -> _Result:
        if owner not in results:
            results[owner] = compute(owner)
        return results[owner]

    return get


def compared(X: Any, book: CodeBook | None) -> Any:
    """Return the columns of features that distances compare: all but those of texts."""
    return X if book is None or not book.texts else X[:, : book.first_text]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelModels(Hypotheses):
    """Trained sums of RBF kernels, stored as a few arrays.

    Support vectors are rows of the training sample, until `keep_training_points` stores them.
    """

    classes: NDArray[Any]
    n_support: NDArray[np.int32]
    support: NDArray[np.int32]  # rows of the training sample, those of one hypothesis after another
    dual_coef: Array
    intercept: Array
    gamma: Array
    scale: Any  # ndarray or csr_array of shape (m, d), or None
    failed: NDArray[np.bool_]
    working_memory: int  # bytes that votes and distances may take, on top of the data and the model
    # Rows of the training sample that are support vectors of any of them, rising; empty as long as they belong to a
    # sample. And those support vectors.
    rows: NDArray[np.int32]
    points: Any = None
    fill: Array | None = None  # (m, n_numbers): what missing numbers are replaced by, before they are scaled
    code_book: CodeBook | None = None  # what columns of a table the features are

    predict_by_row = True
    shared_scale = None  # (d,): what features are multiplied by for all of them

    # Names of the arrays with one entry for each hypothesis, the type of one, and that of an answer of it, with the
    # bytes that the engine takes for one.
    _ENTRIES: ClassVar[tuple[str, ...]]
    _ONE: ClassVar[type[TrainedModel]]
    _ANSWER: ClassVar[tuple[Any, int]]

    @property
    @abstractmethod
    def _parts(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Where the parts of each hypothesis begin in the arrays that hold them, and their sizes."""

    def __len__(self) -> int:
        return self.gamma.size

    def get_one(self, h: int) -> Any:
        alone = self.take(np.array([h]))
        parts = {field.name: getattr(alone, field.name) for field in fields(self._ONE) if field.name != "_alone"}
        parts |= {name: parts[name][0].item() for name in self._ENTRIES if name in parts}
        if isinstance(parts["scale"], np.ndarray):
            parts["scale"] = parts["scale"][0]
        return self._ONE(_alone=alone, **parts)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        first = parts[0]
        scaling = [name for name in ("scale", "fill") if getattr(first, name) is not None]
        arrays = {name: [getattr(part, name) for part in parts] for name in [*first._parts, *cls._ENTRIES, *scaling]}
        joined: dict[str, Any] = {
            name: vstack(values, format="csr") if issparse(values[0]) else np.concatenate(values)
            for name, values in arrays.items()
        }
        # Support vectors that are stored belong to a part: the whole stores them anew.
        return replace(first, **joined, rows=np.empty(0, dtype=np.int32), points=None)

    def take(self, chosen: Codes) -> Self:
        taken: dict[str, Any] = {
            name: getattr(self, name)[segments(begins[chosen], sizes[chosen])]
            for name, (begins, sizes) in self._parts.items()
        }
        for name in (*self._ENTRIES, "scale", "fill"):
            taken[name] = None if getattr(self, name) is None else getattr(self, name)[chosen]
        return replace(self, **taken)

    def keep_training_points(self, sample: Sample) -> Self:
        rows = self._used[0]
        return replace(self, rows=rows, points=self._support_vectors(sample.X, rows))

    def assumptions(self) -> list[str]:
        return [] if self.code_book is None else ["columns-known"]

    def fingerprint(self) -> Any:
        # The rows name the points in the sample that they were trained on; memory and engine change no prediction.
        return {name: value for name, value in vars(self).items() if name not in ("working_memory", "engine")}

    @property
    @remember
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

    @property
    @abstractmethod
    def _arrays(self) -> Any:
        """The engine's arrays, in its order, without the scale."""

    @property
    @remember
    def _ensemble(self) -> tuple[_engine.Ensemble, NDArray[np.int32]]:
        """The engine's view of the arrays, and the rows of the training sample that it needs, rising."""
        scale = to_engine(self.scale, sparse=True) if issparse(self.scale) else self.scale
        table: Any = () if self.code_book is None else (self.fill, self.code_book.n_categories)
        return _engine.Ensemble(*(*self._arrays, scale, *table)), self._used[0]

    def _own_points(self, sample: Sample | None = None) -> Any:
        """Return the support vectors: those that are stored, or rows of the training sample."""
        rows = self._used[0]
        if self.points is not None:
            return self.points[np.searchsorted(self.rows, rows)]
        assert sample is not None, "hypotheses that have not stored their support vectors need the training sample"
        with _GATHERING:  # once for all blocks of rows, which threads share
            gathered_from, points = _GATHERED.get(self, (None, None))
            if gathered_from is not sample.X:
                points = self._support_vectors(sample.X, rows)
                _GATHERED[self] = (sample.X, points)
        return points

    def _support_vectors(self, X: Any, rows: NDArray[np.int32]) -> Any:
        """Return rows of the training sample, ready for the engine."""
        points = scaled(compared(X[rows], self.code_book), self.shared_scale)
        return to_csr(points) if is_wide(X) else np.ascontiguousarray(contiguous(points), dtype=np.float64)

    def _queries(self, X: Any, points: Any) -> tuple[Any, Any]:
        """Return rows to predict, and support vectors, as the engine reads them: both sparse, or both dense."""
        queries = to_engine(scaled(compared(X, self.code_book), self.shared_scale), sparse=issparse(points))
        return queries, to_engine(points, sparse=True) if issparse(points) else points

    def _encoded(self, X: Any) -> Any:
        """Return rows of a table as features; others are features already."""
        return self.code_book.encode(X) if self.code_book is not None and is_table(X) else X

    def votes_and_uncertain(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        X = self._encoded(X)
        answers = np.empty((len(self), X.shape[0]), dtype=self._ANSWER[0])
        uncertain = np.empty(answers.shape, dtype=bool)
        for part, *answered in self._answer_blocks(lambda part: X[part], X.shape[0], self._own_points()):
            answers[:, part], uncertain[:, part] = answered
        return answers, uncertain

    def _answer_blocks(
        self, rows_at: Callable[[slice], Any], n: int, points: Any
    ) -> Iterator[tuple[slice, NDArray[Any], Any]]:
        """Yield blocks of n rows that fit the memory, what all hypotheses answer there, and which are uncertain."""
        per_row = self._ANSWER[1] * len(self) + (0 if issparse(points) else 8 * points.shape[1])  # of a dense copy
        tile = _engine.tile_rows
        size = max(tile, self.working_memory // per_row // tile * tile)
        for begin in range(0, n, size):
            part = slice(begin, min(begin + size, n))
            yield part, *self._answer(self._queries(rows_at(part), points), part.stop - begin)

    @abstractmethod
    def _answer(self, queries: tuple[Any, Any], n: int) -> tuple[NDArray[Any], Any]:
        """Return what all hypotheses answer at n rows, and which answers are uncertain."""


# The rows that support vectors were gathered from, with these, as long as hypotheses live, which do not change.
_GATHERED: WeakKeyDictionary[KernelModels, tuple[Any, Any]] = WeakKeyDictionary()
