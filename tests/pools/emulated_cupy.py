"""A stand-in for CuPy that runs the package's CUDA source on the CPU, compiled by g++ with `cuda_emulation.h`.

Arrays are NumPy's. New memory is filled with garbage, so that a result that no kernel wrote is noticed.
"""

import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np

__version__ = "emulated"

KERNELS = ("pack_support", "decide_rows", "train", "pack_rows", "pack_machines", "filter_rows")
_GLUE = """
template <class... A, std::size_t... I>
void call(unsigned* grid, unsigned* block, void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  emulation::launch({grid[0], grid[1], 1}, {block[0], 1, 1}, [=] { kernel(*static_cast<A*>(arguments[I])...); });
}
template <class... A>
void call(unsigned* grid, unsigned* block, void (*kernel)(A...), void** arguments) {
  call(grid, block, kernel, arguments, std::index_sequence_for<A...>());
}
"""
# What one worker of a test run compiled, the others load.
_run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
_folder = (
    Path(tempfile.gettempdir(), f"emulated-cuda-{_run}") if _run else Path(tempfile.mkdtemp(prefix="emulated-cuda-"))
)
_folder.mkdir(mode=0o700, exist_ok=True)
memory = SimpleNamespace(free=1 << 34, capability="90", devices=1)
launches = []  # kernels, devices and threads
_thread = threading.local()


class ndarray(np.ndarray):  # noqa: N801, as in CuPy
    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__

    def get(self):
        return np.array(self)


def asarray(values, dtype=None):
    return np.asarray(values, dtype=dtype).view(ndarray)


def ascontiguousarray(values, dtype=None):
    return np.ascontiguousarray(values, dtype=dtype).view(ndarray)


def asnumpy(values):
    return np.array(values)


def arange(*args, **kwargs):
    return np.arange(*args, **kwargs).view(ndarray)


def zeros(*args, **kwargs):
    return np.zeros(*args, **kwargs).view(ndarray)


def full(*args, **kwargs):
    return np.full(*args, **kwargs).view(ndarray)


def empty(shape, dtype=np.float64):
    array = np.empty(shape, dtype=dtype).view(ndarray)
    if array.nbytes > memory.free:
        raise cuda.memory.OutOfMemoryError(array.nbytes, 0)
    array.view(np.uint8).fill(0xFF)
    return array


maximum, sqrt = np.maximum, np.sqrt


class OutOfMemoryError(MemoryError):
    pass


class _Device:
    """A device, by default that of this thread."""

    def __init__(self, number=None):
        self.id = getattr(_thread, "device", 0) if number is None else number

    @property
    def compute_capability(self):
        return memory.capability

    @property
    def mem_info(self):
        return memory.free, memory.free

    def synchronize(self):
        pass

    def use(self):
        _thread.device = self.id


class _Stream:
    """A stream, or an event of one: all work is done at once."""

    def __init__(self, non_blocking=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def record(self):
        return self

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass


cuda = SimpleNamespace(
    Device=_Device,
    Stream=_Stream,
    get_current_stream=_Stream,
    runtime=SimpleNamespace(getDeviceCount=lambda: memory.devices),
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
)


def get_default_memory_pool():
    return SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)


class RawModule:
    def __init__(self, code, options, backend):
        here = Path(__file__).parent
        found = [name for name in KERNELS if re.search(rf"\b{name}\(", code) and f" {name}(" in code]
        found = [name for name in found if re.search(rf'extern "C" __global__ void[^;{{]*?\b{name}\(', code)]
        launches = "".join(
            f'extern "C" void launch_{name}(unsigned* g, unsigned* b, void** a) {{ call(g, b, {name}, a); }}\n'
            for name in found
        )
        text = f'#include "{here / "cuda_emulation.h"}"\n#include <utility>\n{code}\n{_GLUE}\n{launches}'
        definitions = [option for option in options if option.startswith("-D")]
        self._path = _folder / hashlib.sha256((text + str(definitions)).encode()).hexdigest()
        self._text, self._definitions = text, definitions

    def compile(self):
        library = self._path.with_suffix(".so")
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.exists():
                source = self._path.with_suffix(".cpp")
                source.write_text(self._text)
                # Switches between fibres take most of the time of kernels, and optimising these more than it saves.
                flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-mfma", "-shared", "-fPIC"]
                subprocess.run(["g++", *flags, *self._definitions, str(source), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    def get_function(self, name):
        launch = getattr(self._library, f"launch_{name}")

        def call(grid, block, arguments):
            kept = []
            for argument in arguments:
                if isinstance(argument, ndarray):
                    argument = np.array([argument.ctypes.data], dtype=np.uint64)
                kept.append(np.atleast_1d(np.asarray(argument)))
            pointers = (ctypes.c_void_p * len(kept))(*(value.ctypes.data for value in kept))
            launches.append((name, _Device().id, threading.get_ident()))
            grid = (ctypes.c_uint * 2)(*grid, *([1] * (2 - len(grid))))
            launch(grid, (ctypes.c_uint * 1)(*block), pointers)

        return call
