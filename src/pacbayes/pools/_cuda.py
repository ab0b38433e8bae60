"""The RBF-SVM engine on a CUDA device: training, counts of mistakes and votes, with the bits of the compiled engine.

The source is in `cuda/`, compiled at run time by CuPy. Decision values are those of the compiled engine, in double
precision and in the same order of operations; a filter in TF32 with a proved error bound spares most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.exceptions import DeviceError
from pacbayes.pools._device import (
    THREADS,
    DeviceRows,
    find_cupy,
    fork,
    free_bytes,
    has_tensor_cores,
    kernel,
    struct_of,
    with_less_memory,
)

__all__ = ["DeviceMachines", "train", "train_at"]

_GROUP, _ROWS = 8, 64  # of support vectors, and of rows of a warp

# Blocks that are launched at most: enough for many waves on the largest devices.
_BLOCKS = 1 << 15

# Words of masks that a block reads at a time at most (exact.cu), and how often: few rows are marked.
_WORDS, _TURNS = 32, 32

# Blocks that keep a device busy.
_ENOUGH = 1 << 12

_SCALERS = {None: 0, "minmax": 1, "standard": 2}

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
FILTERED_BYTES = 48
_MASKED, _ALL, _TRAINING = 0, 1, 2


# ---------------------------------------------------------------------------------------------------
# Machines
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DeviceMachines:
    """Trained machines in the memory of the device, in the layout of the compiled engine."""

    arrays: dict[str, Any]  # those of `Machines` in `exact.cu`, and "converged" if they were trained there
    points: DeviceRows  # what the support vectors are rows of
    trained: Any = None  # event to wait for before the arrays are read, if they are being trained

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
        cupy = find_cupy()
        k = n_classes.astype(np.int64)
        class_at = _starts(k)[:-1]
        n_support = _count_support(counts, class_at)
        host = {
            "n_classes": n_classes,
            "class_at": class_at,
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
        return cls(arrays, points if isinstance(points, DeviceRows) else DeviceRows.of(points))

    def __len__(self) -> int:
        return int(self.arrays["gamma"].size)

    @cached_property
    def n_support(self) -> NDArray[np.int64]:
        """Number of support vectors of each."""
        self.wait()
        return _count_support(self.arrays["counts"].get(), self.arrays["class_at"].get())

    def wait(self) -> None:
        """Wait until the machines are trained."""
        if self.trained is not None:
            self.trained.synchronize()

    def struct(self) -> NDArray[Any]:
        """Return what kernels read."""
        return struct_of(_MACHINES_STRUCT, **{name: self.arrays[name] for name in _MACHINE_ARRAYS})

    def to_host(self) -> dict[str, NDArray[Any]]:
        """Return machines that `train` made as `_engine.train` returns them."""
        self.wait()
        host: dict[str, Any] = {name: None if array is None else array.get() for name, array in self.arrays.items()}
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

    def start_counting(
        self,
        X: Any,
        codes: NDArray[np.int32],
        inside: Any,
        sizes: NDArray[np.int64],
        chosen: NDArray[np.int32] | None = None,
    ) -> Callable[[], NDArray[np.int64]]:
        """Begin to count mistakes beside what the device does already; return what gives the counts.

        At rows of a NumPy array, as many at a time as fit the memory, all is done when the counts are asked for.
        `inside` holds the rows of X that each chosen machine was trained on, one machine after another, and `sizes` how
        many; if X is on the device, numbers below zero are left out.
        """
        cupy = find_cupy()
        numbers = np.arange(len(self), dtype=np.int32) if chosen is None else chosen
        if not isinstance(X, DeviceRows):
            return partial(with_less_memory, partial(self._count_in_blocks, X, codes, inside, sizes, numbers))
        self.wait()
        X.measure()
        self.points.measure()

        def count(shrink: int) -> tuple[Any, Any]:
            with fork() as stream:
                training = (cupy.asarray(_starts(sizes)), cupy.asarray(inside))
                totals = self.count_mistakes(X, cupy.asarray(codes), *training, chosen=numbers, shrink=shrink)
                return totals, stream.record()

        totals, end = with_less_memory(count)
        return partial(_wait_for, totals, end, (X, inside))

    def _count_in_blocks(
        self,
        X: NDArray[Any],
        codes: NDArray[np.int32],
        inside: NDArray[np.int32],
        sizes: NDArray[np.int64],
        numbers: NDArray[np.int32],
        shrink: int,
    ) -> NDArray[np.int64]:
        """Count mistakes at rows of a NumPy array, with a share of the memory."""
        cupy = find_cupy()
        at, training, truth = cupy.asarray(_starts(sizes)), cupy.asarray(inside), cupy.asarray(codes)
        totals = np.zeros(numbers.size, dtype=np.int64)
        size = max(_ROWS, min(len(X), free_bytes() // 4 // (X.shape[1] * X.itemsize) // shrink))
        for begin in range(0, len(X), size):
            rows = DeviceRows.of(X[begin : begin + size])
            block = (rows, truth[begin : begin + size], at, training - begin)
            totals += self.count_mistakes(*block, chosen=numbers, shrink=shrink).get()
        return totals

    def vote_at(self, X: Any, chosen: NDArray[np.int32] | None = None) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Return votes and doubts of chosen machines at rows of a NumPy array, as many at a time as fit the memory."""

        def vote(shrink: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
            size = max(_ROWS, min(len(X), free_bytes() // 4 // (X.shape[1] * X.itemsize) // shrink))
            starts = range(0, max(len(X), 1), size)
            parts = [self.vote(DeviceRows.of(X[i : i + size]), chosen, shrink=shrink) for i in starts]
            return np.concatenate([votes for votes, _ in parts], axis=1), np.concatenate(
                [doubts for _, doubts in parts], axis=1
            )

        votes_and_doubts: tuple[NDArray[np.uint16], NDArray[np.bool_]] = with_less_memory(vote)
        return votes_and_doubts

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
        """Count mistakes of the chosen machines at rows `first` to `stop`, without those that a machine was trained on.

        `training` (int32, as `codes` and `chosen`) holds the training rows of each chosen machine, `training_at`
        (int64, one entry more) where those of each begin. `use_filter` changes the time only. `shrink` divides the
        memory that this may take. A vote that rounding could change counts as a mistake.
        """
        cupy = find_cupy()
        stop = len(X) if stop is None else stop
        numbers = np.arange(len(self), dtype=np.int32) if chosen is None else cupy.asnumpy(chosen)
        totals = cupy.zeros(numbers.size, dtype=np.int64)
        for begin, end, part, packed in self._parts(X, first, stop, numbers, use_filter, shrink):
            errors = cupy.zeros(part.stop - part.start, dtype=np.int32)
            sink = {"errors": errors, "sign": 1, "votes": None, "certain": None}
            self._decide(X, codes, begin, end, packed, sink)
            sink["sign"] = -1
            own = (training_at[:-1][part], training_at[1:][part], training)
            typical = -(-training.size // numbers.size)
            packed.decide_rows(X, codes, begin, end - begin, _TRAINING, sink, training=own, n_training=typical)
            totals[part] += errors
        return totals

    def vote(
        self, X: DeviceRows, chosen: NDArray[np.int32] | None = None, *, shrink: int = 1
    ) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Return the codes that chosen machines vote for at all rows, and which ones rounding could change."""
        cupy = find_cupy()
        asked = np.arange(len(self), dtype=np.int32) if chosen is None else chosen
        codes = np.empty((asked.size, len(X)), dtype=np.uint16)
        doubts = np.empty(codes.shape, dtype=bool)
        for begin, end, part, packed in self._parts(X, 0, len(X), asked, True, shrink):
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
        self, X: DeviceRows, first: int, stop: int, chosen: NDArray[np.int32], use_filter: bool, shrink: int = 1
    ) -> Iterator[tuple[int, int, slice, _Packed]]:
        """Yield blocks of rows and of machines that fit the memory of the device, and the machines packed."""
        cupy = find_cupy()
        use_filter = use_filter and has_tensor_cores()
        groups = -(-self.n_support[chosen] // _GROUP)
        steps = -(-X.d // 8)
        per_machine = groups * (_GROUP * 8 * X.d + steps * 256 + 64) + steps * 32 + FILTERED_BYTES
        budget = free_bytes() // 8 // shrink
        tile = max(_ROWS, min(1 << 18, budget // (steps * 32 + 16) // _ROWS * _ROWS))
        for begin in range(first, stop, tile):
            end = min(begin + tile, stop)
            cost = np.cumsum(per_machine + 3 * (end - begin))
            start = 0
            while start < chosen.size:
                spent = cost[start - 1] if start else 0
                last = max(start + 1, int(np.searchsorted(cost, spent + budget, side="right")))
                last = min(last, start + 32768, chosen.size)
                part = slice(start, last)
                yield begin, end, part, _Packed(self, X, cupy.asarray(chosen[part]), groups[part], use_filter)
                start = last


class _Packed:
    """Chosen machines in the order in which kernels read them."""

    def __init__(
        self, machines: DeviceMachines, X: DeviceRows, chosen: Any, groups: NDArray[np.int64], use_filter: bool
    ) -> None:
        cupy = find_cupy()
        self.machines, self.chosen, self.count = machines, chosen, groups.size
        d, total = X.d, int(groups.sum())
        self.group_at = cupy.asarray(_starts(groups)[:-1])
        self.support = cupy.empty(max(total, 1) * d * _GROUP)
        self.margins = cupy.empty(max(machines.arrays["intercepts"].size, 1))
        points = machines.points
        self._structs = (machines.struct(), points.struct())
        slices = min(-(-_ENOUGH // self.count), -(-int(groups.max(initial=1)) * d * _GROUP // THREADS))
        kernel("pack_support", "exact")(
            (self.count, slices), (THREADS,), (*self._structs, chosen, self.group_at, self.support, self.margins)
        )
        self.filtered = None
        if use_filter:
            steps = -(-d // 8)
            self.filtered = cupy.empty(self.count * FILTERED_BYTES, dtype=np.uint8)
            self.vectors = cupy.empty((max(total, 1) * steps * 32, 2), dtype=np.float32)
            self.columns = cupy.empty((max(total, 1) * 8, 2), dtype=np.float32)
            scaled = machines.arrays["scale"] is not None
            self.weights = cupy.empty(self.count * steps * 8, dtype=np.float32) if scaled else None
            largest = cupy.maximum(X.largest, points.largest)
            kernel("pack_machines", "filter", d)(
                (self.count,),
                (THREADS,),
                (
                    *self._structs,
                    chosen,
                    self.group_at,
                    self.margins,
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
        cupy = find_cupy()
        count, steps = end - begin, -(-X.d // 8)
        warps = -(-count // _ROWS)
        rows = cupy.empty(warps * _ROWS * steps * 8, dtype=np.float32)
        norms = cupy.empty(warps * _ROWS, dtype=np.float32)
        kernel("pack_rows", "filter", X.d)(
            (-(-warps * 4 * 32 // 128),),
            (128,),
            (X.struct(), np.int64(begin), np.int64(count), X.centre, rows, norms),
        )
        masks = cupy.empty((self.count, 2 * warps), dtype=np.uint32)
        row_blocks = -(-warps * 32 // THREADS)
        chunks = max(1, min(self.count, _BLOCKS // row_blocks))
        per_block = -(-self.count // chunks)
        kernel("filter_rows", "filter", X.d)(
            (row_blocks, -(-self.count // per_block)),
            (THREADS,),
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
        training: tuple[Any, Any, Any] = (None, None, None),
        n_training: int = 0,
    ) -> None:
        """Evaluate the machines in double precision; `n_training` is about how many points trained one."""
        words = 0 if masks is None else masks.shape[1]
        things, fewest, most, turns = {
            _MASKED: (words, 1, _WORDS, _TURNS),
            _ALL: (count, 32, THREADS, 1),
            _TRAINING: (n_training, 32, THREADS, 1),
        }[mode]
        # As many blocks as keep the device busy, each with as much as it can take at a time, and some more if it must.
        enough = -(-_ENOUGH // self.count)
        per_turn = min(most, max(fewest, -(-things // enough)))
        blocks = max(1, -(-things // (per_turn * turns)), min(-(-things // per_turn), enough))
        kernel("decide_rows", "exact")(
            (blocks, self.count),
            (THREADS,),
            (
                self._structs[0],
                X.struct(),
                _pointer(codes),
                self.chosen,
                self.group_at,
                self.support,
                self.margins,
                np.int64(begin),
                np.int64(count),
                np.int32(mode),
                np.int32(per_turn),
                _pointer(masks),
                np.int64(words),
                *(_pointer(array) for array in training),
                struct_of(_SINK_STRUCT, **sink),
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
    *,
    shrink: int = 1,
) -> DeviceMachines:
    """Begin to train machines on the device, as `_engine.train` does, beside what it does already.

    `subsamples` (int32, as `codes`) holds the rows of all subsamples, each rising. There are at most `MAX_CLASSES`
    classes. `shrink` divides the memory that this may take. The machines are trained when `wait` returns.
    """
    cupy = find_cupy()
    m, most = sizes.size, max(n_classes, 2)
    pairs = most * (most - 1) // 2
    starts = _starts(sizes)
    total = int(starts[-1])
    with fork() as stream:
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
        settings = struct_of(
            _SETTINGS_STRUCT,
            seed=seed,
            multipliers=grids[0],
            C=grids[1],
            scaler=_SCALERS[scaler],
            max_classes=most,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
        problem = (
            X.struct(),
            cupy.asarray(codes, dtype=np.int32),
            struct_of(_SUBSAMPLES_STRUCT, at=at, rows=rows),
            settings,
            struct_of(_TRAINED_STRUCT, **{name: arrays[name] for name in (*_TRAINED_ARRAYS, "converged")}),
        )
        _launch_training(problem, sizes, most, shrink)
        return DeviceMachines(arrays, X, stream.record())


def _launch_training(problem: tuple[Any, ...], sizes: NDArray[np.int64], max_classes: int, shrink: int) -> None:
    """Launch what trains machines, given all arguments of the kernel but the scratch space, side by side by size."""
    cupy = find_cupy()
    launch = kernel("train", "train")
    # Machines of similar size share their scratch space.
    rung = np.ceil(np.log2(np.maximum(sizes, 32))).astype(np.int64)
    ends = []
    try:
        for k in np.unique(rung)[::-1]:  # the largest, which take longest, first
            order = np.flatnonzero(rung == k).astype(np.int32)
            largest = int(sizes[order].max() + 1) // 2 * 2  # even, so that what begins after it is aligned
            threads = 32 if largest <= 192 else 128 if largest <= 1024 else 512
            per_block = 12 * largest * largest + 8 * (max_classes + 2) * largest + 8 * largest
            blocks = min(order.size, 1 << 12, free_bytes() // 2 // shrink // per_block)
            if blocks == 0:
                raise DeviceError(
                    f"a subsample of {largest} points needs {per_block / 2**20:.0f} MiB of the device's memory, which "
                    f"has {free_bytes() / 2**20:.0f} MiB left: a smaller subsample_size would help, or engine='cpu'"
                )
            with fork() as side:
                chosen = (cupy.asarray(order), np.int32(order.size), np.int32(largest))
                launch((blocks,), (threads,), (*problem, *chosen, *_scratch(blocks, largest, max_classes)))
                ends.append(side.record())
    finally:  # what is freed now must not be used again before all of them have ended
        for end in ends:
            cupy.cuda.get_current_stream().wait_event(end)


def _scratch(blocks: int, largest: int, max_classes: int) -> tuple[Any, ...]:
    """Return memory for blocks that train on up to `largest` points each."""
    cupy = find_cupy()
    return (
        cupy.empty(blocks * largest * largest),
        cupy.empty(blocks * largest * largest, dtype=np.float32),
        cupy.empty(blocks * (max_classes + 2) * largest),
        cupy.empty(blocks * 2 * largest, dtype=np.int32),
    )


def train_at(X: Any, *arguments: Any) -> DeviceMachines:
    """Train machines on rows of a NumPy array or `DeviceRows`, with as much memory of the device as there is."""

    def compute(shrink: int) -> DeviceMachines:
        return train(X if isinstance(X, DeviceRows) else DeviceRows.of(X), *arguments, shrink=shrink)

    machines: DeviceMachines = with_less_memory(compute)
    return machines


def _count_support(counts: NDArray[np.int32], class_at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of support vectors of machines whose classes begin at `class_at`."""
    return np.add.reduceat(counts, class_at, dtype=np.int64) if class_at.size else class_at


def _wait_for(result: Any, end: Any, _reads: Any) -> NDArray[Any]:
    """Return an array that a stream computes. What it reads must be kept until then, if it is of another stream."""
    end.synchronize()
    return np.asarray(result.get())


def _pointer(array: Any) -> Any:
    return np.uint64(0) if array is None else array


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _segments(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all positions of parts that begin at `starts`, one part after another."""
    return np.repeat(starts - _starts(sizes)[:-1], sizes) + np.arange(sizes.sum())
