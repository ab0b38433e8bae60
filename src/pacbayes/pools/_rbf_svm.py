"""The hypothesis space of the paper: small RBF-kernel SVMs, thousands of them at once.

A loop over `SVC` spends most of its time predicting. Here the squared distances between validation points and
training points are computed once for all hypotheses, by blocks of rows, and each hypothesis exponentiates those of
its own support vectors, or shares the exponentials with others of the same width. Training is LIBSVM's, on kernel
matrices that fit the cache. The compiled part is in `engine/`; threads drive it, since it releases the interpreter's
lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, vstack

from pacbayes._validation import Array
from pacbayes.losses import Loss
from pacbayes.pools import _engine
from pacbayes.pools._base import Codes, HypothesisError, Pool
from pacbayes.sampling import LEARNER, Subsamples, draw_positions

# gamma is drawn from gamma_J times these (Section "Experimental Results").
GAMMA_GRID = 10.0 ** np.array([-4, -2, 0, 2, 4])

# LIBSVM's stopping rule, as in SVC.
_TOLERANCE = 1e-3
_MAX_ITERATIONS = 100_000_000

# Sparse data of so few features, or so dense, are faster as dense ones. Results are the same, to the bit.
_NARROW = 256
_DENSE = 0.05

Scaling = Literal["minmax", "standard"]


@dataclass(frozen=True, slots=True, eq=False)
class RBFSVM:
    """A trained RBF-kernel SVM, in the layout of `SVC`; of one class only, a constant. Made by `SVMs`.

    Attributes
    ----------
    classes : ndarray of shape (k,)
        Codes of the classes that its subsample holds.
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

    classes: NDArray[np.int32]
    n_support: NDArray[np.int32]
    support: NDArray[np.int32]
    dual_coef: Array
    intercept: Array
    gamma: float
    C: float
    scale: Array | csr_array | None
    failed: bool


class SVMs(Sequence[RBFSVM]):
    """Trained SVMs, read as a sequence of `RBFSVM` and stored as a few arrays, in the engine's layout.

    Parameters
    ----------
    n_classes, classes, n_support, support, dual_coef, intercept, gamma : ndarray
        The attributes of `RBFSVM`, flattened, of all of them one after another; k of each is in `n_classes`.
    C, failed : ndarray of shape (m,)
        As in `RBFSVM`.
    scale : ndarray or csr_array of shape (m, d), or None
        As in `RBFSVM`.
    """

    def __init__(
        self,
        n_classes: NDArray[np.int32],
        classes: NDArray[np.int32],
        n_support: NDArray[np.int32],
        support: NDArray[np.int32],
        dual_coef: Array,
        intercept: Array,
        gamma: Array,
        C: Array,
        scale: Array | csr_array | None,
        failed: NDArray[np.bool_],
    ) -> None:
        self.n_classes = n_classes
        self.classes = classes
        self.n_support = n_support
        self.support = support
        self.dual_coef = dual_coef
        self.intercept = intercept
        self.gamma = gamma
        self.C = C
        self.scale = scale
        self.failed = failed
        # Where the parts of each begin; one more entry for the end of the last.
        k = n_classes.astype(np.intp)
        self._classes_at = _starts(k)
        s = np.add.reduceat(n_support, self._classes_at[:-1], dtype=np.intp) if k.size else k
        self._support_at = _starts(s)
        self._dual_coef_at = _starts((k - 1) * s)
        self._intercept_at = _starts(k * (k - 1) // 2)

    @classmethod
    def join(cls, parts: Sequence[SVMs]) -> SVMs:
        """One sequence after another."""
        if len({part.scale is None for part in parts}) > 1:
            raise ValueError("SVMs with and without a scaling of their own cannot be joined")
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in (
                "n_classes",
                "classes",
                "n_support",
                "support",
                "dual_coef",
                "intercept",
                "gamma",
                "C",
                "failed",
            )
        }
        scales: list[Any] = [part.scale for part in parts]
        if scales[0] is None:
            scale = None
        else:
            scale = vstack(scales, format="csr") if issparse(scales[0]) else np.concatenate(scales)
        return cls(**joined, scale=scale)

    def __len__(self) -> int:
        return self.n_classes.size

    def __getitem__(self, h: Any) -> Any:
        if isinstance(h, slice):
            return self.take(np.arange(len(self))[h])
        h = range(len(self))[h]
        of_classes = slice(self._classes_at[h], self._classes_at[h + 1])
        of_support = slice(self._support_at[h], self._support_at[h + 1])
        dual_coef = self.dual_coef[self._dual_coef_at[h] : self._dual_coef_at[h + 1]]
        return RBFSVM(
            self.classes[of_classes],
            self.n_support[of_classes],
            self.support[of_support],
            dual_coef.reshape(int(self.n_classes[h]) - 1, of_support.stop - of_support.start),
            self.intercept[self._intercept_at[h] : self._intercept_at[h + 1]],
            float(self.gamma[h]),
            float(self.C[h]),
            None if self.scale is None else self.scale[h : h + 1] if issparse(self.scale) else self.scale[h],
            bool(self.failed[h]),
        )

    def take(self, chosen: NDArray[np.intp]) -> SVMs:
        """Some of them, in the order given."""
        of_classes = _segments(self._classes_at, chosen)
        return SVMs(
            self.n_classes[chosen],
            self.classes[of_classes],
            self.n_support[of_classes],
            self.support[_segments(self._support_at, chosen)],
            self.dual_coef[_segments(self._dual_coef_at, chosen)],
            self.intercept[_segments(self._intercept_at, chosen)],
            self.gamma[chosen],
            self.C[chosen],
            None if self.scale is None else self.scale[chosen],
            self.failed[chosen],
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "ensemble"}

    @cached_property
    def ensemble(self) -> tuple[_engine.Ensemble, NDArray[np.int32]]:
        """What the engine asks, and the rows of the training sample that it needs, rising."""
        rows, support = np.unique(self.support, return_inverse=True)
        arrays = (
            self.n_classes,
            self.classes,
            self.n_support,
            support.astype(np.int32),
            self.dual_coef,
            self.intercept,
            self.gamma,
            _csr(self.scale) if issparse(self.scale) else self.scale,
        )
        return _engine.Ensemble(*arrays), rows


def _starts(sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where parts of these sizes begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes)))


def _segments(starts: NDArray[np.intp], chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    """All positions of the chosen parts, one part after another."""
    sizes = starts[chosen + 1] - starts[chosen]
    return np.repeat(starts[chosen] - _starts(sizes)[:-1], sizes) + np.arange(sizes.sum())


def jaakkola_gamma(X: Any, y: NDArray[Any]) -> float:
    r"""Seed :math:`\gamma_J = 1 / (2\, \text{median}(G)^2)` of the kernel width [1]_.

    G holds, for every point, the distance to the nearest point of another class. Points that coincide with one
    of another class are left out of the median if it would be zero.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.
    y : ndarray of shape (n,)
        Labels, of at least two classes.

    Returns
    -------
    float
        The seed, positive and finite.

    References
    ----------
    .. [1] T. Jaakkola, M. Diekhans, D. Haussler. Using the Fisher kernel method to detect remote protein
       homologies. ISMB, 1999.

    Examples
    --------
    >>> jaakkola_gamma(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 1]))
    0.5
    """
    codes = np.unique(y, return_inverse=True)[1].astype(np.int32)
    squared = np.empty(len(codes))
    _engine.nearest_of_another_class(_csr(X) if _is_wide(X) else _contiguous(X), codes, squared)
    distances = np.sqrt(squared)
    median = float(np.median(distances))
    if median == 0:
        apart = distances[distances > 0]
        median = float(np.median(apart)) if apart.size else 1.0
    with np.errstate(over="ignore", divide="ignore"):
        gamma = 1 / (2 * np.float64(median) ** 2)
    return float(np.clip(gamma, 1e-100, 1e100))


def feature_scale(X: Any, kind: Scaling) -> Array:
    """What features have to be multiplied by to be scaled as `MinMaxScaler((-1, 1))` or `StandardScaler` would.

    The offsets of those do not matter to an RBF kernel. The factor of a constant feature is 1, as is that of one whose
    spread is too small or too large to divide by.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (r, d)
        Points.
    kind : {"minmax", "standard"}
        To the range [-1, 1], or to unit variance.

    Returns
    -------
    ndarray of shape (d,)
        The factors.

    Examples
    --------
    >>> feature_scale(np.array([[0.0, 1.0], [4.0, 1.0]]), "minmax")
    array([0.5, 1. ])
    """
    factors = np.empty(X.shape[1])
    _engine.feature_scale(_csr(X) if _is_wide(X) else _contiguous(X), kind, factors)
    return factors


class RBFSVMPool(Pool):
    """RBF-SVMs with a kernel width drawn from a grid around Jaakkola's seed, and a soft margin drawn from a list.

    Parameters
    ----------
    classes : ndarray
        All class labels, sorted.
    entropy : int
        Seed of the hypotheses' streams.
    C : array_like of float
        Soft-margin parameters to draw from.
    scaler : {None, "minmax", "standard"}
        Scaling of the features before the kernel.
    reference : tuple of (X, codes), optional
        Points that the seed and the scaler are computed on: reserved points or, as in the paper, the whole sample.
        By default each hypothesis computes its own, from its subsample alone.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose optimisation does not end.
    working_memory : float, default=512
        MiB that votes and distances may take, on top of the data and the model, in each thread.
    """

    shares_rows = True

    def __init__(
        self,
        classes: NDArray[Any],
        entropy: int,
        C: ArrayLike,
        scaler: Scaling | None = None,
        reference: tuple[Any, Codes] | None = None,
        on_error: Literal["raise", "drop"] = "raise",
        working_memory: float = 512,
    ) -> None:
        super().__init__(classes)
        if len(classes) > 2**16:
            raise ValueError(f"the default SVMs take at most {2**16} classes, got {len(classes)}: give an `estimator`")
        self.entropy = entropy
        self.C = np.asarray(C, dtype=np.float64)
        self.scaler = scaler
        self.on_error = on_error
        self.working_memory = working_memory
        # NaN: each hypothesis computes its own, from its subsample.
        self.seed = np.nan
        self.scale: Array | None = None
        # What `remember` keeps: support vectors, and their rows in the training sample.
        self.rows: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.points: Any = None
        if reference is not None:
            X, codes = reference
            self.scale = None if scaler is None else feature_scale(X, scaler)
            # Points of one class have no neighbour of another: any width will do, in the unit of the features.
            one_class = (codes == codes[0]).all()
            self.seed = 1 / X.shape[1] if one_class else jaakkola_gamma(self._scaled(X), codes)

    # -----------------------------------------------------------------------------------------------
    # Training
    # -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, codes: Codes, subsamples: Subsamples, hypotheses: range) -> SVMs:
        drawn = draw_positions(self.entropy, hypotheses, LEARNER, [GAMMA_GRID.size, self.C.size])
        multipliers, softness = GAMMA_GRID[drawn[:, 0]], self.C[drawn[:, 1]]
        sizes = subsamples.sizes[hypotheses.start : hypotheses.stop]
        rows = subsamples.together(hypotheses)
        trained = self._train(X, codes, rows, sizes, multipliers, softness)
        if self.on_error == "raise" and trained.failed.any():
            h = int(np.argmax(trained.failed))
            raise HypothesisError(
                f"hypothesis {hypotheses[h]} (seed {self.entropy}) did not reach the tolerance in {_MAX_ITERATIONS} "
                f"steps on its {sizes[h]} points, with C = {trained.C[h]:g} and gamma = {trained.gamma[h]:g}: a "
                "smaller C would help, or on_error='drop', which counts its loss as 1"
            )
        return trained

    def _train(
        self, X: Any, codes: Codes, rows: NDArray[np.int32], sizes: Codes, multipliers: Array, softness: Array
    ) -> SVMs:
        wide = _is_wide(X)
        if self.scale is None and isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype.kind == "f":
            used = None  # as it is
        else:
            # The points of these subsamples only: they may be few, and converting takes time.
            used, positions = np.unique(rows, return_inverse=True)
            X, codes, rows = self._scaled(X[used]), codes[used], positions.astype(np.int32)
        own_scaler = self.scaler if self.scale is None else None
        result = _engine.train(
            _csr(X) if wide else _contiguous(X),
            codes.astype(np.int32),
            rows,
            sizes.astype(np.int64),
            self.seed,
            multipliers,
            softness,
            own_scaler,
            _TOLERANCE,
            _MAX_ITERATIONS,
        )
        if used is not None:
            result["support"] = used[result["support"]]
        scale: Any = None
        if own_scaler is not None:
            shape = (sizes.size, X.shape[1])
            factors, columns, starts = result["scale"], result["scale_indices"], result["scale_indptr"]
            scale = csr_array((factors, columns, starts), shape=shape) if wide else factors.reshape(shape)
        return _trained(result, softness, scale)

    def _scaled(self, X: Any) -> Any:
        """Points in the scaling that all hypotheses share, if there is one."""
        if self.scale is None:
            return X
        return csr_array(X.multiply(self.scale)) if issparse(X) else X * self.scale

    def check_loss(self, loss: Loss) -> None:
        if loss.on_probabilities:
            raise HypothesisError(
                f"loss {loss.name!r} needs a base learner with predict_proba, and SVMs have none: give an `estimator`"
            )

    def join(self, parts: Sequence[SVMs]) -> SVMs:
        return SVMs.join(parts)

    def take(self, trained: SVMs, chosen: NDArray[np.intp]) -> SVMs:
        return trained.take(chosen)

    def remember(self, X: Any, trained: SVMs) -> None:
        self.rows = np.unique(trained.support)
        self.points = self._points(X, self.rows)

    def _remembered(self, rows: NDArray[np.int32]) -> Any:
        """The points that were these rows of the training sample."""
        return self.points[np.searchsorted(self.rows, rows)]

    def _points(self, X: Any, rows: NDArray[np.int32]) -> Any:
        """Support vectors, ready for the engine."""
        points = self._scaled(X[rows])
        return points if _is_wide(X) else np.ascontiguousarray(_dense(points), dtype=np.float64)

    # -----------------------------------------------------------------------------------------------
    # Validation and prediction
    # -----------------------------------------------------------------------------------------------

    def loss_totals(
        self,
        trained: SVMs,
        X: Any,
        codes: Codes,
        subsamples: Subsamples,
        hypotheses: range,
        rows: range,
        loss: Loss,
    ) -> Array:
        ensemble, used = trained.ensemble
        points = self._points(X, used)
        inside = subsamples.together(hypotheses)
        sizes = subsamples.sizes[hypotheses.start : hypotheses.stop].astype(np.int64)
        if loss.is_zero_one:
            mistakes = np.empty(len(trained), dtype=np.int64)
            block, truth = X[rows.start : rows.stop], codes[rows.start : rows.stop].astype(np.int32)
            _engine.count_mistakes(
                self._queries(block, points),
                truth,
                rows.start,
                _support(points),
                ensemble,
                inside,
                sizes,
                self._memory(),
                mistakes,
            )
            totals = mistakes.astype(np.float64)
        else:
            totals = np.zeros(len(trained))
            parts = np.split(inside, np.cumsum(sizes)[:-1])
            for block in self._blocks(rows, len(trained), points):
                votes = self._vote(ensemble, points, X[block.start : block.stop], len(trained))
                for h, part in enumerate(parts):
                    validating = np.setdiff1d(np.arange(block.start, block.stop), part, assume_unique=True)
                    response = votes[h, validating - block.start].astype(np.intp)
                    totals[h] += loss.total(codes[validating], response)
        if trained.failed.any():
            trains = (inside >= rows.start) & (inside < rows.stop)
            inside_rows = np.bincount(np.repeat(np.arange(len(trained)), sizes)[trains], minlength=len(trained))
            totals[trained.failed] = (len(rows) - inside_rows)[trained.failed]
        return totals

    def votes(self, trained: SVMs, X: Any) -> NDArray[Any]:
        ensemble, used = trained.ensemble
        points = self._remembered(used)
        votes = np.empty((len(trained), X.shape[0]), dtype=np.uint16)
        for block in self._blocks(range(X.shape[0]), len(trained), points):
            part = slice(block.start, block.stop)
            votes[:, part] = self._vote(ensemble, points, X[part], len(trained))
        return votes

    def predict(self, hypothesis: RBFSVM, X: Any) -> Codes:
        return np.asarray(self.votes(_alone(hypothesis), X)[0], dtype=np.intp)

    def predict_proba(self, hypothesis: RBFSVM, X: Any) -> Array:
        raise HypothesisError("SVMs have no predict_proba")

    def decision_function(self, hypothesis: RBFSVM, X: Any) -> Array:
        """Decision values of the pairs of classes: positive ones are votes for the first of the two.

        Parameters
        ----------
        hypothesis : RBFSVM
            A trained hypothesis.
        X : ndarray of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, k (k - 1) / 2)
            Values for the pairs (0, 1), (0, 2), ..., (1, 2), ... of the classes that the hypothesis knows.
        """
        ensemble, used = _alone(hypothesis).ensemble
        values = np.empty((hypothesis.intercept.size, X.shape[0]))
        points = self._remembered(used)
        _engine.decide(self._queries(X, points), _support(points), ensemble, values)
        return np.asarray(values.T)

    def _vote(self, ensemble: _engine.Ensemble, points: Any, X: Any, m: int) -> NDArray[np.uint16]:
        """Codes that all m machines vote for at a block of rows."""
        votes = np.empty((m, X.shape[0]), dtype=np.uint16)
        _engine.vote(self._queries(X, points), _support(points), ensemble, self._memory(), votes)
        return votes

    def _queries(self, X: Any, points: Any) -> Any:
        """Rows to be voted on, as the engine reads them: sparse if and only if the support vectors are."""
        X = self._scaled(X)
        return _csr(X) if issparse(points) else _contiguous(X)

    def _memory(self) -> int:
        """Working memory in bytes."""
        return int(self.working_memory * 2**20)

    def _blocks(self, rows: range, m: int, points: Any) -> Iterator[range]:
        """Rows in blocks that fit the memory: votes and dense copies."""
        tile = _engine.tile_rows
        per_row = 2 * m + (0 if issparse(points) else 8 * points.shape[1])
        size = max(tile, self._memory() // per_row // tile * tile)
        return (rows[i : i + size] for i in range(0, len(rows), size))


def _trained(result: dict[str, NDArray[Any]], softness: Array, scale: Array | csr_array | None) -> SVMs:
    """SVMs out of the engine's arrays."""
    return SVMs(
        result["n_classes"],
        result["classes"],
        result["counts"],
        result["support"],
        result["coefficients"],
        result["intercepts"],
        result["gamma"],
        softness,
        scale,
        result["converged"] == 0,
    )


def _alone(svm: RBFSVM) -> SVMs:
    """A sequence of one."""
    return SVMs(
        np.array([svm.classes.size], dtype=np.int32),
        svm.classes,
        svm.n_support,
        svm.support,
        svm.dual_coef.ravel(),
        svm.intercept,
        np.array([svm.gamma]),
        np.array([svm.C]),
        svm.scale if svm.scale is None or issparse(svm.scale) else svm.scale[np.newaxis],
        np.array([svm.failed]),
    )


def _is_wide(X: Any) -> bool:
    """Whether points are better left sparse."""
    return bool(issparse(X) and X.shape[1] > _NARROW and X.nnz < _DENSE * X.shape[0] * X.shape[1])


def _canonical(X: Any) -> Any:
    """Sparse rows with sorted columns and without duplicates."""
    X = csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _dense(X: Any) -> Any:
    return _canonical(X).toarray() if issparse(X) else X


def _contiguous(X: Any) -> NDArray[Any]:
    """Points as the engine reads them: dense, in rows; float32 stays as it is, all else becomes float64."""
    X = np.asarray(_dense(X))
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype == np.float32 else np.float64)


def _csr(X: Any) -> _engine.CSR:
    """Points as the engine reads them, sparse."""
    X = _canonical(X)
    data = X.data if X.dtype == np.float32 else X.data.astype(np.float64, copy=False)
    return _engine.CSR(data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64, copy=False), X.shape[1])


def _support(points: Any) -> Any:
    """Support vectors as the engine reads them."""
    return _csr(points) if issparse(points) else points
