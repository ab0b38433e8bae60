"""The RBF-SVM engine on a CUDA device: training, counts of mistakes and votes, with the bits of the compiled engine.

The source is in `cuda/`, compiled at run time by CuPy. Decision values are those of the compiled engine, in double
precision and in the same order of operations; a filter in TF32 with a proved error bound spares most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.exceptions import DeviceError
from pacbayes.pools._device import THREADS, DeviceRows, find_cupy, fork, free_bytes, launch, struct_of, with_less_memory
from pacbayes.pools._layout import part_sizes, segments, starts

_GROUP, _ROWS = 8, 64  # of support vectors, and of rows of a warp

# Blocks that are launched at most: enough for many waves on the largest devices.
_BLOCKS = 1 << 15

# Words of masks that a block reads at a time at most (exact.cu), and how often: few rows are marked.
_WORDS, _TURNS = 32, 32

# Blocks that keep a device busy.
_ENOUGH = 1 << 12

_SCALERS = {None: 0, "minmax": 1, "standard": 2}

# The arrays of `_engine.Ensemble`, where the parts of each machine begin in some of them, and the kernels' structures.
_ARRAYS = ("n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma", "scale")
_PARTS = ("n_classes", "classes_at", "classes", "counts", "support_at", "support", "coefficients_at", "coefficients")
_MACHINES_STRUCT = np.dtype([(name, "u8") for name in (*_PARTS, "intercepts_at", "intercepts", "gamma", "scale")])
_TRAINED_STRUCT = np.dtype([(name, "u8") for name in (*_ARRAYS, "converged")])
_SUBSAMPLES_STRUCT = np.dtype([("at", "u8"), ("rows", "u8")])
_SETTINGS = {"seed": "f8", "multipliers": "u8", "C": "u8", "scaler": "i4", "max_classes": "i4", "tolerance": "f8"}
_SETTINGS_STRUCT = np.dtype([*_SETTINGS.items(), ("max_iterations", "i8")], align=True)
_SINK_STRUCT = np.dtype([("errors", "u8"), ("sign", "i4"), ("votes", "u8"), ("certain", "u8")], align=True)
FILTERED_BYTES = 48
_MASKED, _ALL, _TRAINING = 0, 1, 2

Integers = NDArray[np.int32]
Votes = tuple[NDArray[np.uint16], NDArray[np.bool_]]  # codes, and which of them are uncertain


# -- machines ----------------------------------------------------------------------------------------


class DeviceMachines:
    """Trained machines in the memory of the device, in the layout of the compiled engine."""

    def __init__(self, arrays: dict[str, Any], points: DeviceRows, trained: Any = None) -> None:
        # Those of `_engine.Ensemble`, without a scale if there is none, where the parts of each machine begin in them,
        # as "support_at", and "converged" if they were trained there.
        self.arrays = arrays
        self.points = points  # what the support vectors are rows of
        self.trained = trained  # event to wait for before the arrays are read, if they are being trained

    @classmethod
    def of(cls, *arrays_and_points: Any) -> DeviceMachines:
        """Copy machines to the device, given the arrays of `_engine.Ensemble`, and then the points."""
        *arrays, points = arrays_and_points
        host = dict(zip(_ARRAYS, arrays, strict=True))
        sizes = part_sizes(host["n_classes"], host["counts"])
        host |= {f"{name}_at": starts(size)[:-1] for name, size in sizes.items()}
        known = {name: np.ascontiguousarray(array) for name, array in host.items() if array is not None}
        return cls({name: find_cupy().asarray(array) for name, array in known.items()}, DeviceRows.of(points))

    def __len__(self) -> int:
        return int(self.arrays["gamma"].size)

    @cached_property
    def sizes(self) -> dict[str, NDArray[np.int64]]:
        """Sizes of the parts of each machine in the arrays, when it is trained."""
        if self.trained is not None:
            self.trained.synchronize()
        return part_sizes(*(self.arrays[name].get() for name in ("n_classes", "counts", "counts_at")))

    def struct(self) -> NDArray[Any]:
        """Return what kernels read."""
        return struct_of(_MACHINES_STRUCT, self.arrays)

    def to_host(self) -> dict[str, NDArray[Any]]:
        """Return machines that `train` made as `_engine.train` returns them."""
        sizes = self.sizes
        host: dict[str, Any] = {name: array.get().ravel() for name, array in self.arrays.items()}
        return host | {name: host[name][segments(host[f"{name}_at"], size)] for name, size in sizes.items()}

    # -- votes and mistakes --------------------------------------------------------------------------

    def start_counting(
        self, X: Any, codes: Integers, inside: Any, sizes: NDArray[np.int64], chosen: Integers | None = None
    ) -> Callable[[], NDArray[np.int64]]:
        """Begin to count mistakes beside what the device does already; return what gives the counts.

        At rows of a NumPy array, as many at a time as fit the memory, all is done when the counts are asked for.
        `inside` holds the rows of X that each chosen machine was trained on, one machine after another, and `sizes` how
        many; if X is on the device, numbers below zero are left out.
        """
        cupy = find_cupy()

        def count(shrink: int) -> Any:
            at, training, truth = (cupy.asarray(part) for part in (starts(sizes), inside, codes))
            counts = [
                self.count_mistakes(rows, truth[i : i + len(rows)], at, training - i, chosen=chosen, shrink=shrink)
                for i, rows in _copy_blocks(X, shrink)
            ]
            return sum(counts[1:], counts[0])

        def start(shrink: int) -> tuple[Any, Any]:
            with fork() as stream:
                return count(shrink), stream.record()

        if not isinstance(X, DeviceRows):
            return lambda: np.asarray(with_less_memory(count).get())
        # All that several streams read is computed before they begin.
        _ = self.sizes, X.centre, X.largest, self.points.centre, self.points.largest
        totals, end = with_less_memory(start)
        return partial(_wait_for, totals, end, (X, inside))

    def vote(self, X: Any, chosen: Integers | None = None) -> Votes:
        """Return the codes that chosen machines vote for at `DeviceRows` or an array, and which votes are uncertain."""
        cupy = find_cupy()
        numbers = np.arange(len(self), dtype=np.int32) if chosen is None else chosen

        def compute(shrink: int) -> Votes:
            codes = np.empty((numbers.size, len(X)), dtype=np.uint16)
            uncertain = np.empty(codes.shape, dtype=bool)
            for begin, block in _copy_blocks(X, shrink):
                for rows, part, packed in self._parts(block, None, range(len(block)), numbers, True, shrink):
                    shape = (part.stop - part.start, len(rows))
                    votes, certain = cupy.empty(shape, dtype=np.uint16), cupy.empty(shape, dtype=np.uint8)
                    packed.decide({"votes": votes, "certain": certain})
                    here = slice(begin + rows.start, begin + rows.stop)
                    codes[part, here] = votes.get()
                    uncertain[part, here] = certain.get() == 0
            return codes, uncertain

        return with_less_memory(compute)

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
        memory that this may take. An uncertain vote, which rounding could change, counts as a mistake.
        """
        cupy = find_cupy()
        numbers = np.arange(len(self), dtype=np.int32) if chosen is None else cupy.asnumpy(chosen)
        totals = cupy.zeros(numbers.size, dtype=np.int64)
        typical = -(-training.size // numbers.size)
        rows = range(first, len(X) if stop is None else stop)
        for _, part, packed in self._parts(X, codes, rows, numbers, use_filter, shrink):
            errors = cupy.zeros(part.stop - part.start, dtype=np.int32)
            packed.decide({"errors": errors, "sign": 1})
            own = (training_at[:-1][part], training_at[1:][part], training)
            packed.decide_rows(_TRAINING, typical, {"errors": errors, "sign": -1}, training=own)
            totals[part] += errors
        return totals

    def _parts(
        self, X: DeviceRows, codes: Any, rows: range, chosen: Integers, use_filter: bool, shrink: int = 1
    ) -> Iterator[tuple[range, slice, _Packed]]:
        """Yield blocks of rows and of machines that fit the memory of the device, packed for the kernels."""
        cupy = find_cupy()
        use_filter = use_filter and int(cupy.cuda.Device().compute_capability) >= 80  # which multiplies in TF32
        groups = -(-self.sizes["support"][chosen] // _GROUP)
        steps = -(-X.d // 8)
        per_machine = groups * (_GROUP * 8 * X.d + steps * 256 + 64) + steps * 32 + FILTERED_BYTES
        budget = free_bytes() // 8 // shrink
        tile = max(_ROWS, min(1 << 18, budget // (steps * 32 + 16) // _ROWS * _ROWS))
        for begin in range(0, len(rows), tile):
            block = rows[begin : begin + tile]
            cost = np.cumsum(per_machine + 3 * len(block))
            start = 0
            while start < chosen.size:
                spent = cost[start - 1] if start else 0
                last = max(start + 1, int(np.searchsorted(cost, spent + budget, side="right")))
                part = slice(start, min(last, start + 32768, chosen.size))
                numbers = cupy.asarray(chosen[part])
                yield block, part, _Packed(self, numbers, groups[part], X, codes, block, use_filter)
                start = part.stop


def _wait_for(result: Any, end: Any, _reads: Any) -> NDArray[Any]:
    """Return an array that a stream computes. What it reads must be kept until then, if it is of another stream."""
    end.synchronize()
    return np.asarray(result.get())


def _copy_blocks(X: Any, shrink: int) -> Iterator[tuple[int, DeviceRows]]:
    """Yield where blocks of rows begin, and the blocks in a share of the memory of the device; at least one block."""
    if isinstance(X, DeviceRows):
        yield 0, X
        return
    size = max(_ROWS, min(len(X), free_bytes() // 4 // (X.shape[1] * X.itemsize) // shrink))
    for begin in range(0, max(len(X), 1), size):
        yield begin, DeviceRows.of(X[begin : begin + size])


class _Packed:
    """Chosen machines in the order in which kernels read them, and the rows to evaluate them at."""

    def __init__(
        self,
        machines: DeviceMachines,
        chosen: Any,
        groups: NDArray[np.int64],
        X: DeviceRows,
        codes: Any,
        rows: range,
        use_filter: bool,
    ) -> None:
        cupy = find_cupy()
        self.machines, self.chosen, self.count, self.use_filter = machines, chosen, groups.size, use_filter
        self.X, self.codes, self.rows = X, codes, rows
        d, total, points = X.d, max(int(groups.sum()), 1), machines.points
        self.group_at = cupy.asarray(starts(groups)[:-1])
        self.support = cupy.empty(total * d * _GROUP)
        self.margins = cupy.empty(max(machines.arrays["intercepts"].size, 1))
        slices = min(-(-_ENOUGH // self.count), -(-int(groups.max(initial=1)) * d * _GROUP // THREADS))
        packed = (self.group_at, self.support, self.margins)
        launch("exact", "pack_support", (self.count, slices), machines, points, chosen, *packed)
        if use_filter:
            steps = -(-d // 8)
            self.filtered = cupy.empty(self.count * FILTERED_BYTES, dtype=np.uint8)
            self.vectors = cupy.empty((total * steps * 32, 2), dtype=np.float32)
            self.columns = cupy.empty((total * 8, 2), dtype=np.float32)
            is_scaled = "scale" in machines.arrays
            self.weights = cupy.empty(self.count * steps * 8, dtype=np.float32) if is_scaled else None
            bounds = (self.margins, X.centre, cupy.maximum(X.largest, points.largest))
            outputs = (self.filtered, self.vectors, self.columns, self.weights)
            inputs = (machines, points, chosen, self.group_at, *bounds)
            launch("filter", "pack_machines", (self.count,), *inputs, *outputs, d=d)

    def decide(self, sink: dict[str, Any]) -> None:
        """Evaluate the machines: by the filter where it can, in double precision where it must."""
        if self.use_filter:
            masks = self.filter_rows(sink)
            self.decide_rows(_MASKED, masks.shape[1], sink, masks=masks)
        else:
            self.decide_rows(_ALL, len(self.rows), sink)

    def filter_rows(self, sink: dict[str, Any]) -> Any:
        """Decide what the filter can; return the masks of what it cannot."""
        cupy, X, begin, end = find_cupy(), self.X, self.rows.start, self.rows.stop
        count, steps = end - begin, -(-X.d // 8)
        warps = -(-count // _ROWS)
        rows = cupy.empty(warps * _ROWS * steps * 8, dtype=np.float32)
        norms = cupy.empty(warps * _ROWS, dtype=np.float32)
        packed = (np.int64(begin), np.int64(count), X.centre, rows, norms)
        launch("filter", "pack_rows", (-(-warps * 4 * 32 // 128),), X, *packed, threads=128, d=X.d)
        masks = cupy.empty((self.count, 2 * warps), dtype=np.uint32)
        row_blocks = -(-warps * 32 // THREADS)
        per_block = -(-self.count // max(1, min(self.count, _BLOCKS // row_blocks)))
        block = (rows, norms, None if self.codes is None else self.codes[begin:end], np.int64(count))
        machines = (self.filtered, np.int32(self.count), np.int32(per_block), self.vectors, self.columns, self.weights)
        outputs = (masks, np.int64(2 * warps), *(sink.get(name) for name in ("errors", "votes", "certain")))
        launch("filter", "filter_rows", (row_blocks, -(-self.count // per_block)), *block, *machines, *outputs, d=X.d)
        return masks

    def decide_rows(
        self, mode: int, things: int, sink: dict[str, Any], masks: Any = None, training: Any = (None, None, None)
    ) -> None:
        """Evaluate the machines in double precision, each at about as many things: words of masks, or rows."""
        fewest, most, turns = (1, _WORDS, _TURNS) if mode == _MASKED else (32, THREADS, 1)
        # As many blocks as keep the device busy, each with as much as it can take at a time, and some more if it must.
        enough = -(-_ENOUGH // self.count)
        per_turn = min(most, max(fewest, -(-things // enough)))
        blocks = max(1, -(-things // (per_turn * turns)), min(-(-things // per_turn), enough))
        machines = (self.machines, self.X, self.codes, self.chosen, self.group_at, self.support, self.margins)
        place = (np.int64(self.rows.start), np.int64(len(self.rows)), np.int32(mode), np.int32(per_turn))
        words = np.int64(0 if masks is None else masks.shape[1])
        marked = (masks, words, *training, struct_of(_SINK_STRUCT, sink))
        launch("exact", "decide_rows", (blocks, self.count), *machines, *place, *marked)


# -- training ----------------------------------------------------------------------------------------


def train(
    X: Any,
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
) -> DeviceMachines:
    """Begin to train machines on the device, as `_engine.train` does, beside what it does already.

    X is a NumPy array or `DeviceRows`; `subsamples` (int32, as `codes`) holds the rows of all subsamples, each rising.
    There are at most `MAX_CLASSES` classes.
    """
    cupy = find_cupy()
    m, most, total = sizes.size, max(n_classes, 2), int(sizes.sum())
    pairs = most * (most - 1) // 2

    def compute(shrink: int) -> DeviceMachines:
        points = DeviceRows.of(X)
        with fork() as stream:
            at = cupy.asarray(starts(sizes))
            arrays = {
                "n_classes": cupy.empty(m, dtype=np.int32),
                "classes_at": cupy.arange(m, dtype=np.int64) * most,
                "counts_at": cupy.arange(m, dtype=np.int64) * most,
                "classes": cupy.zeros(m * most, dtype=np.int32),
                "counts": cupy.zeros(m * most, dtype=np.int32),
                "support_at": at[:-1],
                "support": cupy.empty(total, dtype=np.int32),
                "coefficients_at": at[:-1] * (most - 1),
                "coefficients": cupy.empty(total * (most - 1)),
                "intercepts_at": cupy.arange(m, dtype=np.int64) * pairs,
                "intercepts": cupy.empty(m * pairs),
                "gamma": cupy.empty(m),
                "converged": cupy.empty(m, dtype=np.uint8),
            }
            if scaler is not None:
                arrays["scale"] = cupy.empty((m, points.d))
            rows, truth = (cupy.asarray(part, dtype=np.int32) for part in (subsamples, codes))
            grids = [cupy.asarray(np.ascontiguousarray(grid, dtype=np.float64)) for grid in (multipliers, C)]
            numbers = (seed, *grids, _SCALERS[scaler], most, tolerance, max_iterations)
            settings = struct_of(_SETTINGS_STRUCT, dict(zip(_SETTINGS_STRUCT.names or (), numbers, strict=True)))
            own = struct_of(_SUBSAMPLES_STRUCT, {"at": at, "rows": rows})
            problem = (points, truth, own, settings, struct_of(_TRAINED_STRUCT, arrays))
            _launch_training(problem, sizes, most, shrink)
            return DeviceMachines(arrays, points, stream.record())

    return with_less_memory(compute)


def _launch_training(problem: tuple[Any, ...], sizes: NDArray[np.int64], max_classes: int, shrink: int) -> None:
    """Launch what trains machines, given all arguments of the kernel but the scratch space, side by side by size."""
    cupy = find_cupy()
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
                widths = ((largest, "f8"), (largest, "f4"), (max_classes + 2, "f8"), (2, "i4"))
                scratch = (cupy.empty(blocks * largest * width, dtype=np.dtype(kind)) for width, kind in widths)
                launch("train", "train", (blocks,), *problem, *chosen, *scratch, threads=threads)
                ends.append(side.record())
    finally:  # what is freed now must not be used again before all of them have ended
        for end in ends:
            cupy.cuda.get_current_stream().wait_event(end)
