"""A CUDA device: whether there is one, what is compiled for it, its memory, and rows of features in it.

CuPy is imported when a device is asked for, not before.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pacbayes.exceptions import DeviceError
from pacbayes.pools._layout import is_wide

# Threads of a block, of all kernels but those that train.
THREADS = 128

# Limits of exact.cu.
MAX_CLASSES = 16
MAX_FEATURES = 4096

# Streams that work is given to in turn.
_STREAMS = 16

# Kernel values from which on a device is worth its start: about ten seconds of one core.
_WORTHWHILE = 1e10

_ROWS_STRUCT = np.dtype([("values", "u8"), ("d", "i4"), ("is_float", "i4")], align=True)

_Result = TypeVar("_Result")

# One caller at a time: threads would only wait for each other on the device.
_LOCK = threading.RLock()


@cache
def explain_absence() -> str | None:
    """Return why there is no device to compute on, None if there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a CuPy that finds no CUDA
            count = import_module("cupy").cuda.runtime.getDeviceCount()
    except ImportError as error:
        return f"CuPy cannot be imported ({error}): pip install 'pacbayes[cuda12]', or cuda13 for CUDA 13"
    except Exception as error:
        return f"CuPy finds no CUDA device ({error})"
    return None if count else "CuPy finds no CUDA device"


def find_cupy() -> Any:
    """Return CuPy, or raise DeviceError if there is no device."""
    reason = explain_absence()
    if reason is not None:
        raise DeviceError(f"engine='cuda' needs a CUDA device: {reason}. engine='auto' computes on the CPU instead")
    return import_module("cupy")


def source(name: str) -> str:
    """Return CUDA source with what it includes, as one text, which CuPy recognises in its cache of what it compiled."""
    included = set()

    def expand(path: Path) -> str:
        if path in included:
            return ""
        included.add(path)
        text = path.read_text().replace("#pragma once\n", "")
        return re.sub(r'^#include "(.+)"$', lambda found: expand((path.parent / found[1]).resolve()), text, flags=re.M)

    return expand((Path(__file__).parent / "cuda" / f"{name}.cu").resolve())


def options(**definitions: int) -> tuple[str, ...]:
    """Return the options to compile the source with: products are fused with additions only where it says so."""
    return ("--fmad=false", "-std=c++17", *(f"-D{name}={value}" for name, value in definitions.items()))


@cache
def _module(device: int, name: str, features: int) -> Any:
    compiled = find_cupy().RawModule(
        code=source(name), options=options(FEATURES=features, THREADS=THREADS), backend="nvrtc"
    )
    compiled.compile()
    return compiled


def launch(file: str, name: str, grid: tuple[int, ...], *arguments: Any, threads: int = THREADS, d: int = 0) -> None:
    """Launch a kernel, compiled for d features. Rows and machines become structures, None becomes a null pointer."""
    kernel = _module(find_cupy().cuda.Device().id, file, d).get_function(name)
    structures = (value.struct() if hasattr(value, "struct") else value for value in arguments)
    kernel(grid, (threads,), tuple(np.uint64(0) if value is None else value for value in structures))


@cache
def _streams(device: int) -> Iterator[Any]:
    stream = find_cupy().cuda.Stream
    return cycle([stream(non_blocking=True) for _ in range(_STREAMS)])


@contextmanager
def fork() -> Iterator[Any]:
    """Give what follows to another stream, which the device works on beside others, after what was asked for so far.

    Memory that is allocated meanwhile must not be freed before what reads it has ended.
    """
    cuda = find_cupy().cuda
    stream = next(_streams(cuda.Device().id))
    stream.wait_event(cuda.get_current_stream().record())
    with stream:
        yield stream


def release() -> None:
    """Give memory that this process holds on the device without use back to it, if it has computed there."""
    if _module.cache_info().currsize:
        find_cupy().get_default_memory_pool().free_all_blocks()


def keep_device() -> Callable[[], None]:
    """Return what another thread has to call to compute on the device of this one."""
    return find_cupy().cuda.Device().use  # type: ignore[no-any-return]


def is_on_device(X: Any) -> bool:
    """Return whether an array is in the memory of a CUDA device: of CuPy, PyTorch, or another library."""
    return hasattr(X, "__cuda_array_interface__")


def to_host(X: Any) -> Any:
    """Return an array in the memory of a device as a NumPy array, and anything else as it is."""
    return find_cupy().asnumpy(find_cupy().asarray(X)) if is_on_device(X) else X


def is_worthwhile(engine: str, X: Any, n_classes: int, kernel_values: float) -> bool:
    """Return whether to compute on a device, by the setting `engine`, the problem, and whether there is one."""
    if engine == "cpu" or n_classes > MAX_CLASSES or X.shape[1] > MAX_FEATURES or is_wide(X):
        return False
    return (engine == "cuda" or kernel_values >= _WORTHWHILE) and explain_absence() is None


def free_bytes() -> int:
    """Return how much memory of the device can be had."""
    cupy = find_cupy()
    return int(cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes())


def struct_of(dtype: np.dtype[Any], values: Mapping[str, Any]) -> NDArray[Any]:
    """Return a structure to be passed to a kernel by value; arrays become pointers, what is missing a null pointer."""
    record = np.zeros(1, dtype=dtype)
    for name in dtype.names or ():
        value = values.get(name)
        record[name] = 0 if value is None else value.data.ptr if is_on_device(value) else value
    return record


def with_less_memory(compute: Callable[[int], _Result]) -> _Result:
    """Compute with less and less memory of the device until it suffices, or raise DeviceError."""
    cupy = find_cupy()
    with _LOCK:
        for shrink in (1, 4, 16, 64):
            try:
                return compute(shrink)
            except cupy.cuda.memory.OutOfMemoryError as error:
                reason = error.with_traceback(None)  # whose frames would keep what was allocated
                release()
    raise DeviceError(
        f"the device has too little memory left, {free_bytes() / 2**20:.0f} MiB, even for small parts ({reason}): free "
        "some of it, or choose engine='cpu'"
    ) from reason


class DeviceRows:
    """Dense rows in the memory of the device, and what is computed from them once."""

    def __init__(self, values: Any) -> None:
        self.values = values  # (n, d) cupy.ndarray, float32 or float64
        self._block: tuple[Any, Any, Any] = (None, None, None)  # the last one that was asked for

    @classmethod
    def of(cls, X: Any) -> DeviceRows:
        """Return rows of a NumPy array, copied to the device, or those of an array that is there, without a copy.

        An array of another library, such as PyTorch, is taken by its `__cuda_array_interface__`; one that is not
        float32 or float64 in rows is converted.
        """
        if isinstance(X, DeviceRows):
            return X
        cupy = find_cupy()
        values = cupy.asarray(X)
        dtype = values.dtype if values.dtype == np.float32 else np.float64
        values = cupy.ascontiguousarray(values, dtype=dtype)
        # Kernels read 16 bytes at a time.
        return cls(values if values.data.ptr % 16 == 0 else values.copy())

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.values.shape[1])

    def take(self, rows: Any) -> DeviceRows:
        """Return some of the rows, by their numbers."""
        taken = DeviceRows(self.values[find_cupy().asarray(rows)])
        taken.centre, taken.largest = self.centre, self.largest  # good enough for some of them
        return taken

    def block(self, rows: NDArray[np.intp], numbers: Any) -> tuple[DeviceRows, Any]:
        """Return some of the rows, and the positions of row numbers among them, on the device; -1 where there is none.

        The block is kept until another one is asked for: several groups of machines are asked about the same rows.
        """
        cupy = find_cupy()
        of, taken, position = self._block
        if of is not rows:
            taken = self.take(rows)
            position = cupy.full(len(self), -1, dtype=np.int32)
            position[cupy.asarray(rows)] = cupy.arange(len(rows), dtype=np.int32)
            self._block = (rows, taken, position)
        return taken, position[cupy.asarray(numbers)]

    def struct(self) -> NDArray[Any]:
        """Return what kernels read."""
        is_float = int(self.values.dtype == np.float32)
        return struct_of(_ROWS_STRUCT, {"values": self.values, "d": self.d, "is_float": is_float})

    @cached_property
    def centre(self) -> Any:
        """A point in the middle of the rows. It has an effect on the time only."""
        return self.values[: 1 << 16].mean(axis=0, dtype=np.float64)

    @cached_property
    def largest(self) -> Any:
        """The largest absolute value of each feature, or a larger number; zeros if there are no rows."""
        cupy = find_cupy()
        if len(self) == 0:
            return cupy.zeros(self.d)
        return cupy.maximum(-self.values.min(axis=0), self.values.max(axis=0)).astype(np.float64)
