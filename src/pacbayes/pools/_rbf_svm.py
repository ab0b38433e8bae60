"""The hypothesis space of the paper: small RBF-kernel SVMs, thousands of them at once.

Training is LIBSVM's, on kernel matrices that fit the cache. The compiled part is in `engine/`; threads drive it, since
it releases the interpreter's lock. A loop over `SVC.predict` would compute the distances between points and support
vectors for every hypothesis: here, this is done once for all of them, by blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes import sampling
from pacbayes._losses import Loss
from pacbayes._settings import Choice, Constraint, validate_settings
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import _cuda, _engine
from pacbayes.pools._base import Codes, Hypotheses, Sample, TrainedModel, ValidationBlock
from pacbayes.pools._device import find_cupy, is_worthwhile
from pacbayes.pools._kernel_models import KernelModels, remember
from pacbayes.pools._kernel_pool import POSITIVE, Combination, KernelPool, Scaling, gather_points
from pacbayes.pools._layout import contiguous, is_wide, part_sizes, scaled, starts, to_engine
from pacbayes.sampling import ChosenSubsamples, Subsamples

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


# LIBSVM's stopping rule, as in SVC.
_TOLERANCE = 1e-3
_MAX_ITERATIONS = 100_000_000

_RESERVED_SHARE = 0.1

# gamma is drawn from gamma_J times these (Section "Experimental Results").
GAMMA_GRID = 10.0 ** np.array([-4, -2, 0, 2, 4])

# Weights that are smaller than the largest by this factor count as none: C times them would not be a normal number.
_NEGLIGIBLE = 1e-100


@dataclass(frozen=True)
class _Shared:
    """What all hypotheses have in common."""

    seed: float = float("nan")  # of the kernel width; NaN if each hypothesis computes its own, from its subsample
    scale: Array | None = None  # (d,); None if there is no scaling, or each hypothesis has its own


# Rows from which on a union has fewer SVMs.
_MANY_ROWS = 5000


class RBFSVMPool(KernelPool):
    """RBF-SVMs with a kernel width drawn from a grid around Jaakkola's seed, and a soft margin drawn from a list.

    Parameters
    ----------
    C : float or sequence of float, default=(10.0, 100.0, 1000.0)
        Soft-margin parameter, or several to draw from at random. All of these separate a small subsample, which is all
        the paper asks for; on larger subsamples they begin to differ.
    scaler : {"minmax", "standard"}, None or sequence of these, default=(None, "minmax", "standard")
        Scaling of the features, or several to draw from: features on different scales are the normal case, yet some
        data are better as they are, and the posterior finds out.
    gamma_grid : sequence of float, default=(0.001, 0.01, 0.1, 1.0, 10.0)
        Multiples of Jaakkola's seed to draw the kernel width from. The paper's are `GAMMA_GRID`.
    assignment : {"dealt", "drawn"}, default="dealt"
        How hypotheses get their kernel width, C and scaler: every combination equally often among the hypotheses of one
        subsample size, in random order; or drawn independently, as in the paper.
    gamma_source : {"subsample", "reserved", "sample"}, default="subsample"
        Where hypotheses take the seed of their kernel width and their scaling from: each from its own subsample;
        from reserved points, used for nothing else; or, as in the paper, from the whole sample, validation points
        included, for which the theorem is not proved and the certificate not strict.
    reserved_size : int or float, optional
        Number or fraction of points to reserve, for ``gamma_source="reserved"`` only; a tenth by default.
    engine : {"auto", "cpu", "cuda"}, default="auto"
        Where to compute: on the CPU, on a CUDA device, or on a device if there is one and the problem is large enough
        for it to pay. A device needs CuPy (``pip install 'pacbayes[cuda12]'`` or ``cuda13``) and dense data; sparse
        data of many features, tables with text or gaps, and hypotheses of more than 16 classes, are left to the CPU in
        any case, and so is training by weights. The certificate holds for predictions on either.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose optimisation does not end: raise, or count its loss as 1.
    working_memory : float, default=256
        MiB that each worker may take for the votes of a block of rows, in training and in prediction. The kernel
        matrix of a subsample of r points, 12 r^2 bytes, comes on top.
    n_hypotheses, subsample_size : default="auto"
        As in `PACBayesClassifier`, for this pool alone: as one of several families, for example.
    class_weight : {"balanced"} or None, default=None
        With "balanced", every class of a subsample weighs the same in training, as in scikit-learn's SVC: C is
        multiplied by the weight of a point's class. Fewer points of rare classes are then missed, for more errors
        altogether, which certificates are about as before.

    Notes
    -----
    Data frames (pandas, polars) may hold text, booleans, categories, dates and gaps. Categories are compared for
    equality: two that differ add 2 to a squared distance, as their one-hot columns would, and so does a category that
    is new in prediction. A gap in a column of categories is a category of its own. Dates become seven numbers: the days
    since 1970, and two for the place in the year, the week and the day, which go round a square once in each of them.
    Missing numbers become the mean of the known ones in a hypothesis's subsample, before scaling, and add 1 to the
    squared distance from points where the number is known, as an indicator column would. A column of numbers that is
    missing in the whole subsample is ignored by the hypothesis. Only numbers are scaled.

    Weights of rows, the `sample_weight` of `fit`, multiply C. They are relative: within a subsample their mean is 1, so
    that twice the weights make the same hypotheses. A row without weight is as good as absent from its subsample.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import RBFSVMPool
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> pool = RBFSVMPool(C=100.0, scaler="standard")
    >>> model = PACBayesClassifier(pool, n_hypotheses=50, random_state=0).fit(X, y)
    >>> model.hypotheses_[0].C, model.hypotheses_[0].predict(X).shape
    (100.0, (500,))
    """

    takes_weights = True

    _PENALTY, _MODELS = "C", RBFSVMs
    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "C": POSITIVE,
        "gamma_source": Choice("subsample", "reserved", "sample"),
        "engine": Choice("auto", "cpu", "cuda"),
        "class_weight": Choice(None, "balanced"),
        **KernelPool._CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        C: float | Sequence[float] = (10.0, 100.0, 1000.0),
        scaler: Scaling | Sequence[Scaling | None] | None = (None, "minmax", "standard"),
        gamma_grid: Sequence[float] = (0.001, 0.01, 0.1, 1.0, 10.0),
        assignment: Literal["dealt", "drawn"] = "dealt",
        gamma_source: Literal["subsample", "reserved", "sample"] = "subsample",
        reserved_size: int | float | None = None,
        engine: Literal["auto", "cpu", "cuda"] = "auto",
        on_error: Literal["raise", "drop"] = "raise",
        working_memory: float = 256.0,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        class_weight: Literal["balanced"] | None = None,
    ) -> None:
        self.C = C
        self.scaler = scaler
        self.gamma_grid = gamma_grid
        self.assignment = assignment
        self.gamma_source = gamma_source
        self.reserved_size = reserved_size
        self.engine = engine
        self.on_error = on_error
        self.working_memory = working_memory
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.class_weight = class_weight

    def check_settings(self) -> None:
        validate_settings(self, self._CONSTRAINTS)
        if self.reserved_size is not None and self.gamma_source != "reserved":
            raise ValueError(
                f"reserved_size must be None unless gamma_source is 'reserved', got {self.reserved_size!r} with "
                f"gamma_source={self.gamma_source!r}"
            )

    @property
    def is_strict(self) -> bool:
        return self.gamma_source != "sample"

    @property
    def needs_all_rows(self) -> bool:
        return self.gamma_source == "sample"

    def assumptions(self) -> list[str]:
        what = "widths" if self._scalers() == [None] else "widths-and-scaling"
        return [f"{what}-from-{self.gamma_source}"]

    def check_loss(self, loss: Loss) -> None:
        if loss.on_probabilities:
            raise HypothesisError(
                f"loss {loss.name!r} needs a base learner with predict_proba, and SVMs have none: give an `estimator`"
            )

    def check_classes(self, classes: NDArray[Any]) -> None:
        super().check_classes(classes)
        if len(classes) > 2**16:
            raise ValueError(f"RBFSVMPool takes at most {2**16} classes, got {len(classes)}: give an `estimator`")

    def check_tables(self) -> None:
        if self.gamma_source != "subsample":
            raise ValueError(
                "gamma_source must be 'subsample' for tables with text, booleans, dates or gaps, got "
                f"{self.gamma_source!r}"
            )

    def sampling_in_union(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        sizes, number = self.default_sampling(n, d, tested=tested)
        # Where trees have many rows, SVMs of a few seldom win; of few rows, those on small subsamples do not either.
        if n >= _MANY_ROWS:
            return sizes, number // 5
        return [sizes[len(sizes) // 2], sizes[-1]], 2 * number // 5

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, dict[Scaling | None, _Shared]]:
        if self.gamma_source == "sample":
            return sample, self._shared_by(sample)
        if self.gamma_source == "reserved":
            share = _RESERVED_SHARE if self.reserved_size is None else self.reserved_size
            size = sampling.resolve_size("reserved_size", share, len(sample))
            reserved, rest = sampling.split_reserved(len(sample), size, entropy)
            return sample.take(rest), self._shared_by(sample.gather(reserved))
        return sample, dict.fromkeys(self._scalers(), _Shared())

    def _shared_by(self, reference: Sample) -> dict[Scaling | None, _Shared]:
        """Compute the seed and the scaling of all hypotheses with the same scaler from some points."""
        shared: dict[Scaling | None, _Shared] = {}
        one_class = (reference.codes == reference.codes[0]).all()
        for scaler in self._scalers():
            scale = None if scaler is None else feature_scale(reference.X, scaler)
            # Points of one class have no neighbour of another: any width will do, in the unit of the features.
            seed = 1 / reference.X.shape[1]
            if not one_class:
                seed = jaakkola_gamma(scaled(reference.X, scale), reference.codes)
            shared[scaler] = _Shared(seed, scale)
        return shared

    def start_training(self, *arguments: Any) -> Callable[[], Hypotheses]:
        trains_as_here = type(self).train is RBFSVMPool.train  # a subclass may do it in its own way
        return self._start(*arguments) if trains_as_here else super().start_training(*arguments)

    def _start(self, *arguments: Any) -> Callable[[], Hypotheses]:
        if self.engine == "cuda":  # not before: a model that a device trained is loaded and verified without one
            find_cupy()
        return super()._start(*arguments)

    def _start_group(
        self, sample: Sample, subsamples: ChosenSubsamples, chosen: list[Combination], shared: _Shared, entropy: int
    ) -> Callable[[], RBFSVMs]:
        on_device, book = self._trains_on_device(sample, subsamples.sizes), sample.code_book
        copy = on_device and sample.on_device is None
        X, codes, rows, used = gather_points(sample, subsamples, shared.scale, copy=copy)
        sizes = subsamples.sizes.astype(np.int64)
        multipliers, C = (np.array([combination[i] for combination in chosen]) for i in (0, 1))
        scaler = chosen[0][2] if shared.scale is None else None
        settings = (shared.seed, multipliers, C, scaler, _TOLERANCE, _MAX_ITERATIONS)
        codes, weights = codes.astype(np.int32), None
        if self._weighs(sample):
            of_rows = None if sample.weights is None else sample.weights if used is None else sample.weights[used]
            rows, sizes, weights = weigh_rows(codes, of_rows, rows, sizes, balanced=self.class_weight is not None)
        problem = (codes, rows, sizes, *settings)
        machines = None
        if on_device:
            points = sample.on_device if used is None else contiguous(X)
            machines = _cuda.train(points, *problem, sample.classes.size)

        def finish() -> RBFSVMs:
            if machines is not None:
                result = machines.to_host()
            else:
                how: dict[str, Any] = {"weights": weights}
                if book is not None:
                    how |= {"n_numbers": book.n_numbers, "n_categories": book.n_categories}
                result = _engine.train(to_engine(X, sparse=is_wide(sample.X)), *problem, **how)
            own = {"n_classes": result["n_classes"], "class_codes": result["classes"], "engine": self.engine}
            collected: RBFSVMs = self._collect(result, sample, C, scaler, used, shared_scale=shared.scale, **own)
            trained = collected.keep_on_device(machines)
            if self.on_error == "raise" and trained.failed.any():
                h = int(np.argmax(trained.failed))
                raise HypothesisError(
                    f"hypothesis {subsamples.chosen[h]} (seed {entropy}) did not reach the tolerance in "
                    f"{_MAX_ITERATIONS} steps on its {sizes[h]} points, with C = {trained.C[h]:g} and gamma = "
                    f"{trained.gamma[h]:g}: a smaller C would help, or on_error='drop', which counts its loss as 1"
                )
            return trained

        return finish

    def computes_on_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        return self._pays(sample, float(subsamples.sizes.sum()) * len(sample))

    def uses_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        return self.computes_on_device(sample, subsamples) or self._trains_on_device(sample, subsamples.sizes)

    def _trains_on_device(self, sample: Sample, sizes: Codes) -> bool:
        # Kernel matrices, each value of which is used in many steps.
        kernel_values = 100.0 * float(np.sum(np.square(sizes, dtype=np.float64)))
        return not self._weighs(sample) and self._pays(sample, kernel_values)

    def _weighs(self, sample: Sample) -> bool:
        return sample.weights is not None or self.class_weight is not None

    def _pays(self, sample: Sample, kernel_values: float) -> bool:
        n_classes = sample.classes.size
        return sample.code_book is None and is_worthwhile(self.engine, sample.X, n_classes, kernel_values)


def jaakkola_gamma(X: Any, y: NDArray[Any]) -> float:
    r"""Return the seed :math:`\gamma_J = 1 / (2\, \text{median}(G)^2)` of the kernel width [1]_.

    G holds, for every point, the distance to the nearest point of another class. Points that coincide with one
    of another class are left out of the median if it would be zero.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.
    y : ndarray of shape (n,)
        Labels, of at least two classes.

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
    _engine.nearest_of_another_class(to_engine(X, sparse=is_wide(X)), codes, squared)
    distances = np.sqrt(squared)
    median = float(np.median(distances))
    if median == 0:
        apart = distances[distances > 0]
        median = float(np.median(apart)) if apart.size else 1.0
    with np.errstate(over="ignore", divide="ignore"):
        gamma = 1 / (2 * np.float64(median) ** 2)
    return float(np.clip(gamma, 1e-100, 1e100))


def feature_scale(X: Any, kind: Scaling) -> Array:
    """Return factors that scale the features as `MinMaxScaler((-1, 1))` or `StandardScaler` would.

    The offsets of those do not matter to an RBF kernel. The factor of a constant feature is 1, as is that of one whose
    spread is too small or too large to divide by.
    """
    factors = np.empty(X.shape[1])
    _engine.feature_scale(to_engine(X, sparse=is_wide(X)), kind, factors)
    return factors


def weigh_rows(
    codes: NDArray[np.int32], given: Array | None, rows: NDArray[np.int32], sizes: NDArray[np.int64], *, balanced: bool
) -> tuple[NDArray[np.int32], NDArray[np.int64], Array | None]:
    """Return the rows of subsamples that have weights, how many there are in each, and the weights.

    `given` are the weights of all rows. The mean weight of a subsample is 1, and if classes are balanced, each has the
    same weight in it. Subsamples without weights have equal ones; if all have, there are none.
    """
    m = sizes.size
    owner = np.repeat(np.arange(m), sizes)
    weights = np.ones(rows.size) if given is None else given[rows]
    starts = np.cumsum(sizes) - sizes
    largest, smallest = np.maximum.reduceat(weights, starts), np.minimum.reduceat(weights, starts)
    weights[(largest == smallest)[owner]] = 1.0
    weights /= np.where(largest == smallest, 1.0, largest)[owner]
    kept = weights > _NEGLIGIBLE
    rows, owner, weights = rows[kept], owner[kept], weights[kept]
    sizes = np.bincount(owner, minlength=m)
    if balanced:
        group = np.unique(owner * (int(codes.max()) + 1) + codes[rows], return_inverse=True)[1]
        weights /= np.bincount(group, weights)[group]
    weights *= (sizes / np.bincount(owner, weights, minlength=m))[owner]
    return rows, sizes.astype(np.int64), None if (weights == 1).all() else weights
