"""The RBF-SVM engine on a CUDA device: training, counts of mistakes and votes, with the bits of the compiled engine.

The source is in `cuda/`, compiled at run time by CuPy. Decision values are those of the compiled engine, in double
precision and in the same order of operations; a filter in TF32 with a proved error bound spares most of them. CuPy is
imported when a device is asked for, not before.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.exceptions import DeviceError

__all__ = [
    "DeviceMachines",
    "DeviceRows",
    "explain_absence",
    "is_on_device",
    "is_worthwhile",
    "release",
    "to_host",
    "train",
    "train_at",
]

# Source files of the filter, in order.
_FILTER = ("exact", "instructions", "filter")

# Limits of exact.cu.
MAX_CLASSES = 16
# Each number of features has a kernel of its own, with loops that are unrolled.
MAX_FEATURES = 1024
_GROUP, _ROWS, _THREADS = 8, 64, 128

# Kernel values from which on a device is worth its start: about ten seconds of one core.
_WORTHWHILE = 1e10

# Blocks that are launched at most: enough for many waves on the largest devices.
_BLOCKS = 1 << 15

_SCALERS = {None: 0, "minmax": 1, "standard": 2}

_ROWS_STRUCT = np.dtype([("values", "u8"), ("d", "i4"), ("is_float", "i4")], align=True)
_MACHINE_ARRAYS = (
    "n_classes",
    "class_at",
    "classes",
    "counts",
    "support_at",
    "support",
    "coefficient_at",
    "coefficients",
    "intercept_at",
    "intercepts",
    "gamma",
    "scale",
)
_MACHINES_STRUCT = np.dtype([(name, "u8") for name in _MACHINE_ARRAYS])
_SUBSAMPLES_STRUCT = np.dtype([("at", "u8"), ("rows", "u8")])
_SETTINGS_STRUCT = np.dtype(
    [
        ("seed", "f8"),
        ("multipliers", "u8"),
        ("C", "u8"),
        ("scaler", "i4"),
        ("max_classes", "i4"),
        ("tolerance", "f8"),
        ("max_iterations", "i8"),
    ],
    align=True,
)
_TRAINED_ARRAYS = ("n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma", "scale")
_TRAINED_STRUCT = np.dtype([(name, "u8") for name in (*_TRAINED_ARRAYS, "converged")])
_SINK_STRUCT = np.dtype([("errors", "u8"), ("sign", "i4"), ("votes", "u8"), ("certain", "u8")], align=True)
_FILTERED_BYTES = 48
_MASKED, _ALL, _TRAINING = 0, 1, 2

# One caller at a time: threads would only wait for each other on the device.
_LOCK = threading.RLock()


# ---------------------------------------------------------------------------------------------------
# The device
# ---------------------------------------------------------------------------------------------------


@cache
def explain_absence() -> str | None:
    """Return why there is no device to compute on, None if there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a CuPy that finds no CUDA
            cupy = import_module("cupy")
    except ImportError as error:
        return f"CuPy cannot be imported ({error}): pip install 'pacbayes[cuda12]', or cuda13 for CUDA 13"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "CuPy finds no CUDA device"
    except Exception as error:
        return f"CuPy finds no CUDA device ({error})"
    return None


def _cupy() -> Any:
    """Return CuPy, or raise DeviceError if there is no device."""
    reason = explain_absence()
    if reason is not None:
        raise DeviceError(f"engine='cuda' needs a CUDA device: {reason}. engine='auto' computes on the CPU instead")
    return import_module("cupy")


def source(*names: str) -> str:
    """Return the CUDA source in some files of the package, one after another."""
    folder = Path(__file__).parent / "cuda"
    return "\n".join((folder / f"{name}.cu").read_text() for name in names)


def options(**definitions: int) -> tuple[str, ...]:
    """Return the options to compile the source with: products are fused with additions only where it says so."""
    return ("--fmad=false", "-std=c++17", *(f"-D{name}={value}" for name, value in definitions.items()))


@cache
def _module(device: int, names: tuple[str, ...], features: int) -> Any:
    compiled = _cupy().RawModule(
        code=source(*names), options=options(FEATURES=features, THREADS=_THREADS), backend="nvrtc"
    )
    compiled.compile()
    return compiled


def _kernel(name: str, *names: str, features: int = 0) -> Callable[..., None]:
    function: Callable[..., None] = _module(_cupy().cuda.Device().id, names, features).get_function(name)
    return function


def _has_tensor_cores() -> bool:
    """Return whether the device multiplies in TF32."""
    return int(_cupy().cuda.Device().compute_capability) >= 80


def release() -> None:
    """Give the memory that this process keeps on the device back to it."""
    if explain_absence() is None:
        _cupy().get_default_memory_pool().free_all_blocks()


def is_on_device(X: Any) -> bool:
    """Return whether an array is in the memory of a CUDA device: of CuPy, PyTorch, or another library."""
    return hasattr(X, "__cuda_array_interface__")


def to_host(X: Any) -> Any:
    """Return an array in the memory of a device as a NumPy array, and anything else as it is."""
    return _cupy().asnumpy(_cupy().asarray(X)) if is_on_device(X) else X


def is_worthwhile(engine: str, n_features: int, n_classes: int, kernel_values: float) -> bool:
    """Return whether to compute on a device, by the setting `engine`, the problem, and whether there is one."""
    if engine == "cpu" or n_classes > MAX_CLASSES or n_features > MAX_FEATURES:
        return False
    return (engine == "cuda" or kernel_values >= _WORTHWHILE) and explain_absence() is None


def check_engine(engine: str) -> None:
    """Raise DeviceError if an engine is asked for that this machine does not have."""
    if engine == "cuda":
        _cupy()


def fits(X: Any) -> bool:
    """Return whether there is room for rows on the device, and as much for work on them."""
    return bool(X.nbytes < free_bytes() // 3)


def free_bytes() -> int:
    """Return how much memory of the device can be had."""
    cupy = _cupy()
    return int(cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes())


def _struct(dtype: np.dtype[Any], **values: Any) -> NDArray[Any]:
    """Return a structure to be passed to a kernel by value; arrays become pointers, None a null pointer."""
    record = np.zeros(1, dtype=dtype)
    for name, value in values.items():
        record[name] = 0 if value is None else value.data.ptr if is_on_device(value) else value
    return record


# ---------------------------------------------------------------------------------------------------
# Rows
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Dense rows in the memory of the device.

    Attributes
    ----------
    values : cupy.ndarray of shape (n, d)
        Features, float32 or float64.
    """

    values: Any

    @classmethod
    def of(cls, X: Any) -> DeviceRows:
        """Return rows of a NumPy array, copied to the device, or those of an array that is there, without a copy.

        An array of another library, such as PyTorch, is taken by its `__cuda_array_interface__`; one that is not
        float32 or float64 in rows is converted.
        """
        cupy = _cupy()
        values = cupy.asarray(X)
        dtype = values.dtype if values.dtype == np.float32 else np.float64
        return cls(cupy.ascontiguousarray(values, dtype=dtype))

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.values.shape[1])

    def take(self, rows: Any) -> DeviceRows:
        """Return some of the rows, by their numbers."""
        return DeviceRows(self.values[_cupy().asarray(rows)])

    def struct(self) -> NDArray[Any]:
        """Return what kernels read."""
        return _struct(_ROWS_STRUCT, values=self.values, d=self.d, is_float=int(self.values.dtype == np.float32))

    @cached_property
    def centre(self) -> Any:
        """A point in the middle of the rows. It has an effect on the time only."""
        return self.values[: 1 << 16].mean(axis=0, dtype=np.float64)

    @cached_property
    def largest(self) -> Any:
        """The largest absolute value of each feature, a row of zeros if there are no rows."""
        cupy = _cupy()
        if len(self) == 0:
            return cupy.zeros(self.d)
        return cupy.maximum(-self.values.min(axis=0), self.values.max(axis=0)).astype(np.float64)


# ---------------------------------------------------------------------------------------------------
# Machines
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DeviceMachines:
    """Trained machines in the memory of the device, in the layout of the compiled engine.

    Attributes
    ----------
    arrays : dict of str to cupy.ndarray
        The arrays of `Machines` in `exact.cu`, and "converged" if they were trained there.
    points : DeviceRows
        What their support vectors are rows of.
    n_support : ndarray of shape (m,)
        Number of support vectors of each.
    """

    arrays: dict[str, Any]
    points: DeviceRows
    n_support: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        n_classes: NDArray[np.int32],
        classes: NDArray[np.int32],
        counts: NDArray[np.int32],
        support: NDArray[np.int32],
        coefficients: Array,
        intercepts: Array,
        gamma: Array,
        scale: Array | None,
        points: Any,
    ) -> DeviceMachines:
        """Copy machines in the arrays of `_engine.Ensemble` to the device."""
        cupy = _cupy()
        k = n_classes.astype(np.int64)
        class_at = _starts(k)
        n_support = np.add.reduceat(counts, class_at[:-1], dtype=np.int64) if k.size else k
        # Constants have no support vectors, and reduceat sums nothing but their one count.
        host = {
            "n_classes": n_classes,
            "class_at": class_at[:-1],
            "classes": classes,
            "counts": counts,
            "support_at": _starts(n_support)[:-1],
            "support": support,
            "coefficient_at": _starts((k - 1) * n_support)[:-1],
            "coefficients": coefficients,
            "intercept_at": _starts(k * (k - 1) // 2)[:-1],
            "intercepts": intercepts,
            "gamma": gamma,
        }
        arrays = {name: cupy.asarray(array) for name, array in host.items()}
        arrays["scale"] = None if scale is None else cupy.asarray(np.ascontiguousarray(scale, dtype=np.float64))
        return cls(arrays, points if isinstance(points, DeviceRows) else DeviceRows.of(points), n_support)

    def __len__(self) -> int:
        return self.n_support.size

    def struct(self) -> NDArray[Any]:
        """Return what kernels read."""
        return _struct(_MACHINES_STRUCT, **{name: self.arrays[name] for name in _MACHINE_ARRAYS})

    def to_host(self) -> dict[str, NDArray[Any]]:
        """Return machines that `train` made as `_engine.train` returns them."""
        host = {name: None if array is None else array.get() for name, array in self.arrays.items()}
        k, s = host["n_classes"].astype(np.int64), self.n_support
        most = host["classes"].shape[0] // k.size
        known = np.arange(most) < k[:, np.newaxis]
        pairs = np.arange(most * (most - 1) // 2) < (k * (k - 1) // 2)[:, np.newaxis]
        result = {
            "n_classes": host["n_classes"],
            "classes": host["classes"].reshape(known.shape)[known],
            "counts": host["counts"].reshape(known.shape)[known],
            "support": host["support"][_segments(host["support_at"], s)],
            "coefficients": host["coefficients"][_segments(host["coefficient_at"], (k - 1) * s)],
            "intercepts": host["intercepts"].reshape(pairs.shape)[pairs],
            "gamma": host["gamma"],
            "converged": host["converged"],
        }
        if host["scale"] is not None:
            result["scale"] = host["scale"].ravel()
        return result

    # -- votes and mistakes --------------------------------------------------------------------------

    def count_mistakes_at(
        self, X: Any, codes: NDArray[np.int32], inside: NDArray[np.int32], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Count mistakes at rows of a NumPy array, as many at a time as fit the memory, or at `DeviceRows`.

        Parameters
        ----------
        X : ndarray of shape (n, d) or DeviceRows
            Rows.
        codes : ndarray of shape (n,)
            Their classes.
        inside, sizes : ndarray
            Rows of X that each machine was trained on, one machine after another and each rising; and how many.
        """
        cupy = _cupy()

        def count(shrink: int) -> NDArray[np.int64]:
            at, training = cupy.asarray(_starts(sizes)), cupy.asarray(inside)
            truth = cupy.asarray(codes)
            if isinstance(X, DeviceRows):
                return np.asarray(self.count_mistakes(X, truth, at, training, shrink=shrink).get())
            totals = np.zeros(len(self), dtype=np.int64)
            size = max(_ROWS, min(len(X), free_bytes() // 4 // (X.shape[1] * X.itemsize) // shrink))
            for begin in range(0, len(X), size):
                rows = DeviceRows.of(X[begin : begin + size])
                block = (rows, truth[begin : begin + size], at, training - begin)
                totals += self.count_mistakes(*block, shrink=shrink).get()
            return totals

        return _with_less_memory(count)

    def vote_at(self, X: Any) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Return votes and doubts at rows of a NumPy array, as many at a time as fit the memory."""

        def vote(shrink: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
            size = max(_ROWS, min(len(X), free_bytes() // 4 // (X.shape[1] * X.itemsize) // shrink))
            parts = [self.vote(DeviceRows.of(X[i : i + size]), shrink=shrink) for i in range(0, max(len(X), 1), size)]
            return np.concatenate([votes for votes, _ in parts], axis=1), np.concatenate(
                [doubts for _, doubts in parts], axis=1
            )

        return _with_less_memory(vote)

    def count_mistakes(
        self,
        X: DeviceRows,
        codes: Any,
        training_at: Any,
        training: Any,
        *,
        first: int = 0,
        stop: int | None = None,
        chosen: Any = None,
        use_filter: bool = True,
        shrink: int = 1,
    ) -> Any:
        """Count mistakes at a block of rows, those that a machine was trained on left out.

        Parameters
        ----------
        X : DeviceRows
            Rows.
        codes : cupy.ndarray of int32 of shape (n,)
            Their classes.
        training_at, training : cupy.ndarray of int64 of shape (m + 1,), and of int32
            Rows of X that each machine was trained on, and where those of each machine begin.
        first, stop : int
            The block; all rows by default.
        chosen : cupy.ndarray of int32, optional
            Machines to count for; all by default.
        use_filter : bool, default=True
            Whether to decide by the filter what it can; if not, the result is the same and takes longer.
        shrink : int, default=1
            What to divide the memory by that this may take.

        Returns
        -------
        cupy.ndarray of int64
            Number of mistakes of each chosen machine. A vote that rounding could change is one.
        """
        cupy = _cupy()
        stop = len(X) if stop is None else stop
        chosen = cupy.arange(len(self), dtype=np.int32) if chosen is None else chosen
        totals = cupy.zeros(chosen.size, dtype=np.int64)
        for begin, end, part, packed in self._parts(X, first, stop, chosen, use_filter, shrink):
            errors = cupy.zeros(part.stop - part.start, dtype=np.int32)
            sink = {"errors": errors, "sign": 1, "votes": None, "certain": None}
            self._decide(X, codes, begin, end, packed, sink)
            sink["sign"] = -1
            packed.decide_rows(X, codes, begin, end - begin, _TRAINING, sink, training=(training_at, training))
            totals[part] += errors
        return totals

    def vote(self, X: DeviceRows, *, shrink: int = 1) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Return the codes that all machines vote for at all rows, and which ones rounding could change."""
        cupy = _cupy()
        codes = np.empty((len(self), len(X)), dtype=np.uint16)
        doubts = np.empty(codes.shape, dtype=bool)
        everyone = cupy.arange(len(self), dtype=np.int32)
        for begin, end, part, packed in self._parts(X, 0, len(X), everyone, True, shrink):
            shape = (part.stop - part.start, end - begin)
            votes, certain = cupy.empty(shape, dtype=np.uint16), cupy.empty(shape, dtype=np.uint8)
            sink = {"errors": None, "sign": 0, "votes": votes, "certain": certain}
            self._decide(X, None, begin, end, packed, sink)
            codes[part, begin:end] = votes.get()
            doubts[part, begin:end] = certain.get() == 0
        return codes, doubts

    def _decide(self, X: DeviceRows, codes: Any, begin: int, end: int, packed: _Packed, sink: dict[str, Any]) -> None:
        """Evaluate packed machines at rows: by the filter where it can, in double precision where it must."""
        if packed.filtered is None:
            packed.decide_rows(X, codes, begin, end - begin, _ALL, sink)
        else:
            masks = packed.filter_rows(X, codes, begin, end, sink)
            packed.decide_rows(X, codes, begin, end - begin, _MASKED, sink, masks=masks)

    def _parts(
        self, X: DeviceRows, first: int, stop: int, chosen: Any, use_filter: bool, shrink: int = 1
    ) -> Iterator[tuple[int, int, slice, _Packed]]:
        """Yield blocks of rows and of machines that fit the memory of the device, and the machines packed."""
        cupy = _cupy()
        use_filter = use_filter and _has_tensor_cores()
        numbers = chosen.get()
        groups = -(-self.n_support[numbers] // _GROUP)
        steps = -(-X.d // 8)
        per_machine = groups * (_GROUP * 8 * X.d + steps * 256 + 64) + steps * 32 + _FILTERED_BYTES
        budget = free_bytes() // 8 // shrink
        tile = max(_ROWS, min(1 << 18, budget // (steps * 32 + 16) // _ROWS * _ROWS))
        for begin in range(first, stop, tile):
            end = min(begin + tile, stop)
            cost = np.cumsum(per_machine + 3 * (end - begin))
            start = 0
            while start < numbers.size:
                spent = cost[start - 1] if start else 0
                last = max(start + 1, int(np.searchsorted(cost, spent + budget, side="right")))
                last = min(last, start + 32768, numbers.size)
                part = slice(start, last)
                yield begin, end, part, _Packed(self, X, cupy.asarray(chosen[part]), groups[part], use_filter)
                start = last


class _Packed:
    """Chosen machines in the order in which kernels read them."""

    def __init__(
        self, machines: DeviceMachines, X: DeviceRows, chosen: Any, groups: NDArray[np.int64], use_filter: bool
    ) -> None:
        cupy = _cupy()
        self.machines, self.chosen, self.count = machines, chosen, groups.size
        d, total = X.d, int(groups.sum())
        self.group_at = cupy.asarray(_starts(groups)[:-1])
        self.support = cupy.empty(max(total, 1) * d * _GROUP)
        points = machines.points
        self._structs = (machines.struct(), points.struct())
        _kernel("pack_support", "exact")((self.count,), (128,), (*self._structs, chosen, self.group_at, self.support))
        self.filtered = None
        if use_filter:
            steps = -(-d // 8)
            self.filtered = cupy.empty(self.count * _FILTERED_BYTES, dtype=np.uint8)
            self.vectors = cupy.empty((max(total, 1) * steps * 32, 2), dtype=np.float32)
            self.columns = cupy.empty((max(total, 1) * 8, 2), dtype=np.float32)
            scaled = machines.arrays["scale"] is not None
            self.weights = cupy.empty(self.count * steps * 8, dtype=np.float32) if scaled else None
            largest = cupy.maximum(X.largest, points.largest)
            _kernel("pack_machines", *_FILTER, features=d)(
                (self.count,),
                (32,),
                (
                    *self._structs,
                    chosen,
                    self.group_at,
                    X.centre,
                    largest,
                    self.filtered,
                    self.vectors,
                    self.columns,
                    _pointer(self.weights),
                ),
            )

    def filter_rows(self, X: DeviceRows, codes: Any, begin: int, end: int, sink: dict[str, Any]) -> Any:
        """Decide what the filter can; return the masks of what it cannot."""
        cupy = _cupy()
        count, steps = end - begin, -(-X.d // 8)
        warps = -(-count // _ROWS)
        rows = cupy.empty(warps * _ROWS * steps * 8, dtype=np.float32)
        norms = cupy.empty(warps * _ROWS, dtype=np.float32)
        features = {"features": X.d}
        _kernel("pack_rows", *_FILTER, **features)(
            (-(-warps * 4 * 32 // 128),),
            (128,),
            (X.struct(), np.int64(begin), np.int64(count), X.centre, rows, norms),
        )
        masks = cupy.empty((self.count, 2 * warps), dtype=np.uint32)
        row_blocks = -(-warps * 32 // _THREADS)
        chunks = max(1, min(self.count, _BLOCKS // row_blocks))
        per_block = -(-self.count // chunks)
        _kernel("filter_rows", *_FILTER, **features)(
            (row_blocks, -(-self.count // per_block)),
            (_THREADS,),
            (
                rows,
                norms,
                np.uint64(0) if codes is None else codes[begin:end],
                np.int64(count),
                self.filtered,
                np.int32(self.count),
                np.int32(per_block),
                self.vectors,
                self.columns,
                _pointer(self.weights),
                masks,
                np.int64(2 * warps),
                _pointer(sink["errors"]),
                _pointer(sink["votes"]),
                _pointer(sink["certain"]),
            ),
        )
        return masks

    def decide_rows(
        self,
        X: DeviceRows,
        codes: Any,
        begin: int,
        count: int,
        mode: int,
        sink: dict[str, Any],
        *,
        masks: Any = None,
        training: tuple[Any, Any] = (None, None),
    ) -> None:
        """Evaluate the machines in double precision."""
        words = 0 if masks is None else masks.shape[1]
        blocks = {_MASKED: -(-words // _THREADS), _ALL: -(-count // _THREADS), _TRAINING: 1}[mode]
        _kernel("decide_rows", "exact")(
            (max(1, min(blocks, 1024)), self.count),
            (_THREADS,),
            (
                self._structs[0],
                X.struct(),
                _pointer(codes),
                self.chosen,
                self.group_at,
                self.support,
                np.int64(begin),
                np.int64(count),
                np.int32(mode),
                _pointer(masks),
                np.int64(words),
                _pointer(training[0]),
                _pointer(training[1]),
                _struct(_SINK_STRUCT, **sink),
            ),
        )


# ---------------------------------------------------------------------------------------------------
# Training
# ---------------------------------------------------------------------------------------------------


def train(
    X: DeviceRows,
    codes: Any,
    subsamples: Any,
    sizes: NDArray[np.int64],
    seed: float,
    multipliers: Array,
    C: Array,
    scaler: str | None,
    tolerance: float,
    max_iterations: int,
    n_classes: int,
    shrink: int = 1,
) -> DeviceMachines:
    """Train machines on the device, as `_engine.train` does.

    Parameters
    ----------
    X : DeviceRows
        Rows.
    codes, subsamples : array of int32
        Classes of the rows, below `n_classes`; and the rows of all subsamples, each rising.
    sizes : ndarray of int64 of shape (m,)
        Sizes of the subsamples.
    seed, multipliers, C, scaler, tolerance, max_iterations
        As in `_engine.train`.
    n_classes : int
        Number of classes, at most `MAX_CLASSES`.
    shrink : int, default=1
        What to divide the memory by that this may take.

    Returns
    -------
    DeviceMachines
        The machines.
    """
    cupy = _cupy()
    m, most = sizes.size, max(n_classes, 2)
    pairs = most * (most - 1) // 2
    starts = _starts(sizes)
    total = int(starts[-1])
    at = cupy.asarray(starts)
    arrays = {
        "n_classes": cupy.empty(m, dtype=np.int32),
        "class_at": cupy.arange(m, dtype=np.int64) * most,
        "classes": cupy.zeros(m * most, dtype=np.int32),
        "counts": cupy.zeros(m * most, dtype=np.int32),
        "support_at": at[:-1],
        "support": cupy.empty(total, dtype=np.int32),
        "coefficient_at": at[:-1] * (most - 1),
        "coefficients": cupy.empty(total * (most - 1)),
        "intercept_at": cupy.arange(m, dtype=np.int64) * pairs,
        "intercepts": cupy.empty(m * pairs),
        "gamma": cupy.empty(m),
        "scale": None if scaler is None else cupy.empty((m, X.d)),
        "converged": cupy.empty(m, dtype=np.uint8),
    }
    rows = cupy.asarray(subsamples, dtype=np.int32)
    grids = [cupy.asarray(np.ascontiguousarray(grid, dtype=np.float64)) for grid in (multipliers, C)]
    settings = _struct(
        _SETTINGS_STRUCT,
        seed=seed,
        multipliers=grids[0],
        C=grids[1],
        scaler=_SCALERS[scaler],
        max_classes=most,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    out = _struct(_TRAINED_STRUCT, **{name: arrays[name] for name in (*_TRAINED_ARRAYS, "converged")})
    kernel = _kernel("train", "exact", "train")
    codes = cupy.asarray(codes, dtype=np.int32)
    # Machines of similar size share their scratch space.
    rung = np.ceil(np.log2(np.maximum(sizes, 32))).astype(np.int64)
    for k in np.unique(rung):
        order = np.flatnonzero(rung == k).astype(np.int32)
        largest = int(sizes[order].max())
        threads = 32 if largest <= 192 else 128 if largest <= 1024 else 512
        square = largest * largest
        per_block = 12 * square + 8 * (most + 2) * largest + 8 * largest
        blocks = min(order.size, 1 << 12, free_bytes() // 2 // shrink // per_block)
        if blocks == 0:
            raise DeviceError(
                f"a subsample of {largest} points needs {per_block / 2**20:.0f} MiB of the device's memory, which has "
                f"{free_bytes() / 2**20:.0f} MiB left: a smaller subsample_size would help, or engine='cpu'"
            )
        kernel(
            (blocks,),
            (threads,),
            (
                X.struct(),
                codes,
                _struct(_SUBSAMPLES_STRUCT, at=at, rows=rows),
                settings,
                out,
                cupy.asarray(order),
                np.int32(order.size),
                np.int32(largest),
                cupy.empty(blocks * square),
                cupy.empty(blocks * square, dtype=np.float32),
                cupy.empty(blocks * (most + 2) * largest),
                cupy.empty(blocks * 2 * largest, dtype=np.int32),
            ),
        )
    n_support = arrays["counts"].reshape(m, most).sum(axis=1).get().astype(np.int64)
    return DeviceMachines(arrays, X, n_support)


def train_at(X: Any, *arguments: Any) -> dict[str, NDArray[Any]]:
    """Train machines on rows of a NumPy array or `DeviceRows`; return them as `_engine.train` does.

    Parameters
    ----------
    X : ndarray of shape (n, d) or DeviceRows
        Rows.
    *arguments
        All other arguments of `train`.
    """

    def compute(shrink: int) -> dict[str, NDArray[Any]]:
        return train(X if isinstance(X, DeviceRows) else DeviceRows.of(X), *arguments, shrink).to_host()

    result: dict[str, NDArray[Any]] = _with_less_memory(compute)
    return result


def _with_less_memory(compute: Callable[[int], Any]) -> Any:
    """Compute with less and less memory of the device until it suffices, or raise DeviceError."""
    cupy = _cupy()
    with _LOCK:
        for shrink in (1, 4, 16, 64):
            try:
                return compute(shrink)
            except cupy.cuda.memory.OutOfMemoryError as error:
                reason = error
                release()
    raise DeviceError(
        f"the device has too little memory left, {free_bytes() / 2**20:.0f} MiB, even for small parts ({reason}): free "
        "some of it, or choose engine='cpu'"
    ) from reason


def _pointer(array: Any) -> Any:
    return np.uint64(0) if array is None else array


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _segments(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all positions of parts that begin at `starts`, one part after another."""
    return np.repeat(starts - _starts(sizes)[:-1], sizes) + np.arange(sizes.sum())
