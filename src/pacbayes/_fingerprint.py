"""Digests of settings, data and trained hypotheses, to recognise what a certificate is about.

Two objects have the same digest if they hold the same values, whichever process or file they come from: numbers, text,
arrays, data frames, containers, and objects by their type and state. Parameters of an estimator that have their default
values are left out, so that a version of its package which adds one changes no digest. What a function does cannot be
told from its value, so functions, and classes that are not of an installed package, are refused, or, where that is said
to be enough, taken by their compiled code and by their names.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import platform
import struct
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

# What scikit-learn adds to the state of its estimators, and is no part of what they predict: its version, and how long
# the parts of a search took.
_IGNORED = {"_sklearn_version", "refit_time_", "mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}

# Packages that every learner may compute with.
_NUMERICAL = {"numpy", "scipy", "sklearn"}

# Parameters that say where to work and on how many processors, by package. They change no result.
_MACHINE = {"sklearn": ("n_jobs", "memory"), "pacbayes": ("n_jobs", "checkpoint")}


# Modules of this library's classes when digests of them were first written, which are part of these digests.
_FIRST_MODULES = {
    "pacbayes.io.encoder": ("ColumnEncoder",),
    "pacbayes.pools._base": ("Constant",),
    "pacbayes.pools._estimator": ("EstimatorPool", "PrefitPool"),
    "pacbayes.pools._rbf_svm": ("RBFSVMPool",),
    "pacbayes.pools._tables": ("CodeBook",),
    "pacbayes.sampling": ("FoldSubsamples", "GivenSubsamples", "NoSubsamples", "RandomSubsamples"),
}
_FIRST_MODULE_OF = {name: module for module, names in _FIRST_MODULES.items() for name in names}


class IncomparableError(ValueError):
    """A value whose equality with another cannot be decided: which one."""


def digest(value: Any, *, code: bool = False) -> str:
    """Return the SHA-256 of a value, in hexadecimal digits.

    With `code`, functions are digested by their compiled code, constants and defaults, rather than refused. What such a
    function reads from elsewhere is not seen.
    """
    walk = _Walk(code)
    walk.add(value)
    return walk.hash.hexdigest()


def package_versions(value: Any) -> dict[str, str]:
    """Return the versions, by import name, of Python, of numerical packages and of those that define a value's classes.

    >>> from sklearn.svm import SVC
    >>> sorted(package_versions(SVC()))
    ['numpy', 'python', 'scipy', 'sklearn']
    """
    walk = _Walk(code=True)
    walk.add(value)
    bases = {str(base.__module__).split(".")[0] for kind in walk.types for base in kind.__mro__}
    versions = {"python": platform.python_version()}
    for name in sorted((bases | _NUMERICAL) - sys.stdlib_module_names):
        try:
            versions[name] = getattr(sys.modules.get(name), "__version__", None) or importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


@functools.lru_cache(maxsize=1024)  # estimators of a kind have the same attributes
def _digest_name(name: str) -> str:
    return digest(name)


@functools.cache
def default_parameters(kind: type) -> Mapping[str, Any]:
    """Return the default values of the parameters of an estimator's class.

    >>> from sklearn.preprocessing import MinMaxScaler
    >>> default_parameters(MinMaxScaler)
    {'feature_range': (0, 1), 'copy': True, 'clip': False}
    """
    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def machine_parameters(kind: type) -> tuple[str, ...]:
    """Return names of parameters of an estimator's class that say where to work, and change no result."""
    return _MACHINE.get(kind.__module__.split(".")[0], ("n_jobs",))


class _Walk:
    """A walk over a value and all that it holds, which feeds a hash."""

    def __init__(self, code: bool) -> None:
        self.hash = hashlib.sha256()
        self.code = code
        # Objects on the way to the present one: a cycle is closed by the distance back.
        self.path: list[int] = []
        self.types: set[type] = set()

    def _mark(self, kind: str, content: bytes = b"") -> None:
        self.hash.update(f"{kind}:{len(content)};".encode())
        self.hash.update(content)

    def add(self, value: Any) -> None:
        """Add a value, by what it holds."""
        if isinstance(value, np.generic) or (type(value) is np.ndarray and value.ndim == 0):
            value = value.item()
        if type(value) in (types.NoneType, bool, int, str, complex):
            self._mark(type(value).__name__, repr(value).encode("utf-8", "replace"))
        elif type(value) is bytes:
            self._mark("bytes", value)
        elif type(value) is float:
            self._mark("float", struct.pack("<d", value))
        elif type(value) is np.ndarray:
            self._add_array(value)
        elif issparse(value):
            # Row numbers, column numbers and values, in the order of the rows.
            rows = value.tocsr().copy()
            rows.sum_duplicates()
            places = [rows.indptr.astype(np.int64), rows.indices.astype(np.int64)]
            self._add_items("sparse", [value.shape, *places, rows.data])
        elif str(type(value).__module__).split(".")[0] in ("pandas", "polars") and hasattr(value, "columns"):
            names = list(value.columns)
            self._add_items("frame", [names, *(_column(value[name]) for name in names)])
        elif isinstance(value, type):
            self._add_type(value)
        elif isinstance(value, np.ufunc) and getattr(np, name := getattr(value, "__name__", ""), None) is value:
            self._mark("ufunc", name.encode())
        elif isinstance(value, types.ModuleType):
            self._mark("module", value.__name__.encode())
        elif id(value) in self.path:
            self._mark("cycle", str(len(self.path) - self.path.index(id(value))).encode())
        else:
            self.path.append(id(value))
            self._add_object(value)
            self.path.pop()

    def _add_type(self, kind: type) -> None:
        """Add a class by its name, which tells what it does only if it is part of an installed package."""
        if not (self.code or _is_installed(kind)):
            raise IncomparableError(f"cannot compare the class {kind.__qualname__!r} with another of this name")
        self.types.add(kind)
        is_own = str(kind.__module__).startswith("pacbayes.")
        module = _FIRST_MODULE_OF.get(kind.__qualname__, kind.__module__) if is_own else kind.__module__
        self._mark("type", f"{module}.{kind.__qualname__}".encode())

    def _add_items(self, kind: str, items: Any) -> None:
        self._mark(kind, str(len(items)).encode())
        for item in items:
            self.add(item)

    def _add_array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.names is not None:
            # By field, since the bytes between fields may hold anything.
            self._add_items("fields", [array.dtype.names, *(array[name] for name in array.dtype.names)])
        elif array.dtype.kind == "O":
            self._add_items("objects", [array.shape, *array.ravel().tolist()])
        else:
            plain = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            self._mark(f"array {plain.dtype.str} {plain.shape}")
            self.hash.update(plain.view(np.uint8).data if plain.size and plain.dtype.itemsize else b"")

    def _add_function(self, function: Any) -> None:
        name = getattr(function, "__qualname__", repr(function))
        if not self.code:
            raise IncomparableError(f"cannot compare the function {name!r} with another")
        if isinstance(function, types.MethodType):
            self._add_items("method", [name, function.__self__])
            function = function.__func__
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self._add_items("function", [name, function.__defaults__, function.__kwdefaults__, cells])
        self._add_code(function.__code__)

    def _add_code(self, code: types.CodeType) -> None:
        self._mark("code", code.co_code)
        self._add_items("names", [code.co_names, code.co_varnames, code.co_freevars])
        for constant in code.co_consts:
            self._add_code(constant) if isinstance(constant, types.CodeType) else self.add(constant)

    def _add_object(self, value: Any) -> None:
        if type(value) is dict:
            # By the digest of the key: the order of insertion does not matter.
            entries = {
                _digest_name(key) if type(key) is str else digest(key, code=self.code): key
                for key in value
                if key not in _IGNORED
            }
            self._add_items("dict", [item for key in sorted(entries) for item in (entries[key], value[entries[key]])])
        elif type(value) in (list, tuple, range):
            self._add_items(type(value).__name__, value)
        elif type(value) in (set, frozenset):
            self._add_items("set", sorted(digest(item, code=self.code) for item in value))
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            self._add_function(value)
        elif type(value) is functools.partial:
            self._add_items("partial", [value.func, value.args, value.keywords])
        elif type(value) is np.random.RandomState:
            # What it draws, and not how it was seeded, which is lost when it is stored.
            self._add_items("random state", [value.get_state(legacy=False)])
        elif hasattr(value, "get_tree_stats") and hasattr(value, "get_arrays"):
            # The search trees of scikit-learn count their calls in their state.
            self._add_items("tree", [type(value), *(np.asarray(array) for array in value.get_arrays())])
        else:
            self._add_state(value)

    def _add_state(self, value: Any) -> None:
        """Add an object by what pickle would keep of it: its type, how it is made, and its state."""
        self.add(type(value))
        try:
            parts = value.__reduce_ex__(2)
        except TypeError as error:
            raise IncomparableError(f"cannot compare {type(value).__name__} objects: {error}") from error
        if isinstance(parts, str):
            self._mark("global", f"{getattr(value, '__module__', None)}.{parts}".encode())
            if hasattr(value, "__wrapped__"):
                self.add(value.__wrapped__)
            return
        constructor = parts[0]
        if isinstance(constructor, (type, types.FunctionType, types.BuiltinFunctionType)):
            self._mark("constructor", f"{constructor.__module__}.{constructor.__qualname__}".encode())
        else:
            self.add(constructor)
        if hasattr(value, "__dict__") and not _is_installed(type(value)):
            self.add(self._without_defaults(value, vars(value)))  # what pickle keeps is up to the class
        # Iterators of items are listed. An object without attributes has an empty state, or none.
        state = [list(part) if hasattr(part, "__next__") else part for part in (*parts[2:5], None, None, None)[:3]]
        self._add_items("state", [list(parts[1]), self._without_defaults(value, state[0]) or None, *state[1:]])

    def _without_defaults(self, value: Any, state: Any) -> Any:
        """Return the state of an estimator without parameters that have their default values, or change no result."""
        if not hasattr(value, "get_params") or type(state) is not dict:
            return state
        kind: Any = type(value)
        defaults, ignored = default_parameters(kind), machine_parameters(kind)

        def is_default(name: str, item: Any) -> bool:
            if name not in defaults or type(item) is not type(defaults[name]):
                return False
            return item is defaults[name] or digest(item, code=self.code) == digest(defaults[name], code=self.code)

        return {name: item for name, item in state.items() if name not in ignored and not is_default(name, item)}


def _column(column: Any) -> list[Any]:
    """Return a column of a data frame as its type, its categories if it has some, and its values."""
    categories = getattr(column.dtype, "categories", None)
    named = None if categories is None or callable(categories) else np.asarray(categories)
    return [str(column.dtype), named, np.asarray(column)]


def _is_installed(kind: type) -> bool:
    """Return whether a class is part of Python or of an installed package, and not one made on the way."""
    # Some compiled classes have no name of a module.
    module = sys.modules.get(str(kind.__module__))
    found: Any = module
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    top = str(kind.__module__).split(".")[0]
    if found is not kind or top == "__main__":
        return False
    installed = any(folder in str(getattr(module, "__file__", "")) for folder in ("site-packages", "dist-packages"))
    return installed or top == "pacbayes" or top in sys.stdlib_module_names
