"""Examine a model file before any object in it is made.

A model file is a zip archive of skops: ``schema.json`` names types and how their objects are put together, and refers
to members that hold arrays. Nothing that the file says about itself is believed: members are unpacked within a limit,
the headers of arrays must agree with their sizes, every reference to an array is counted, and only types that are
trusted may be named. What is then loaded is what was examined.
"""

from __future__ import annotations

import builtins
import io
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np

from pacbayes._formatting import format_names
from pacbayes.exceptions import ModelFileError
from pacbayes.io._limits import Budget

Node = dict[str, Any]
Header = tuple[tuple[int, ...], np.dtype[Any]]

_SCHEMA = "schema.json"
_CHUNK_SIZE = 2**20
_MAX_DEPTH = 100
# Older versions of the format have other rules.
_OLDEST_PROTOCOL = 2

# Memory that JSON may take once it is parsed, for each of its bytes, and that skops takes for each node of the schema.
_PER_JSON_BYTE, _PER_NODE = 25, 4096
# Memory for each entry in the index of an archive, and how an entry begins.
_PER_MEMBER, _ENTRY = 2048, b"PK\x01\x02"
# An array is held twice while it is loaded: as the bytes of the file, and as an array.
_COPIES = 2

# How the names of this library's modules begin.
_PACKAGE, _OWN = "pacbayes", "pacbayes."

# The nodes of scikit-learn's decision trees.
TREE = "sklearn.tree._tree.Tree"

_SCALARS = (
    "numpy.bool numpy.bool_ numpy.int8 numpy.int16 numpy.int32 numpy.int64 numpy.uint8 numpy.uint16 numpy.uint32 "
    "numpy.uint64 numpy.float16 numpy.float32 numpy.float64 numpy.str_"
)

# Types that are made of nothing but their content, by the node that makes them.
PLAIN_TYPES = {
    "DictNode": "builtins.dict",
    "ListNode": "builtins.list",
    "TupleNode": "builtins.tuple",
    "SliceNode": "builtins.slice",
    # With what `RepeatedKFold` repeats.
    "TypeNode": "builtins.bool builtins.float builtins.int builtins.str builtins.NoneType "
    f"sklearn.model_selection._split.KFold {_SCALARS}",
    "NdArrayNode": f"numpy.ndarray {_SCALARS}",
    "DTypeNode": "numpy.dtype",
    "SparseMatrixNode": "scipy.sparse._csr.csr_matrix scipy.sparse._csr.csr_array",
    "RandomStateNode": "numpy.random.mtrand.RandomState",
    "TreeNode": TREE,
}


def require(condition: Any, message: str) -> None:
    """Raise ModelFileError with a message unless a condition holds."""
    if not condition:
        raise ModelFileError(message)


def type_name(kind: type) -> str:
    """Return the name of a type as model files spell it."""
    return f"{kind.__module__}.{kind.__qualname__}"


class Archive(NamedTuple):
    """A model file that was examined."""

    schema: Node
    members: dict[str, bytes]
    kinds: set[tuple[str, str]]  # what makes the nodes of its schema, and the names of their types

    @property
    def names(self) -> list[str]:
        """Names of its types."""
        return sorted({name for _, name in self.kinds})

    def pack(self) -> bytes:
        """Return the file, not compressed."""
        return _pack({**self.members, _SCHEMA: json.dumps(self.schema).encode()})


def examine(
    data: bytes, types_of: Callable[[str], Collection[type]], trusted: Collection[str], budget: Budget
) -> Archive:
    """Return a model file unpacked, if all that it holds is trusted, consistent, and fits the memory.

    Objects of the types that `types_of` gives for their package may be made from their attributes, those of the types
    that are named in `trusted` in any way. `budget` limits the memory that loading may take. The archive that is
    returned names types of this library as they are named now. Raises ModelFileError for a file that is damaged,
    exceeds the limit, or names other types.
    """
    budget.admit(len(data))
    members = _unpack(data, budget)
    require(_SCHEMA in members, "it is no skops file")
    budget.check(_PER_JSON_BYTE * len(members[_SCHEMA]))
    own = {kind.__name__: kind.__module__ for kind in types_of(_PACKAGE) if kind.__module__.startswith(_OWN)}

    def locate(node: Node) -> Node:
        """Look for a type of this library where it is now, wherever it was when the file was written."""
        if str(node.get("__module__")).startswith(_OWN):
            node["__module__"] = own.get(node["__class__"], node["__module__"])
        return node

    schema = json.loads(members[_SCHEMA], object_hook=locate)
    require(isinstance(schema, dict) and isinstance(schema.get("protocol"), int), "it is no skops file")
    require(schema["protocol"] >= _OLDEST_PROTOCOL, "it was saved by a version of skops that is too old")
    audit = _Audit(members, types_of, trusted, budget)
    audit.walk(schema)
    require(not audit.refused, f"it holds types that are not trusted: {', '.join(sorted(audit.refused))}")
    return Archive(schema, members, audit.kinds)


def _unpack(data: bytes, budget: Budget) -> dict[str, bytes]:
    """Return the members of a zip archive, those with the same content as one object."""
    # The index is read as a whole: before that, its entries are counted, and their names take what the file takes.
    budget.admit(_PER_MEMBER * data.count(_ENTRY))
    budget.check(_COPIES * len(data))
    members: dict[str, bytes] = {}
    same: dict[bytes, bytes] = {}  # so that many nodes which name two equal arrays are compared at once
    with ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            name, chunks = info.filename, []
            require(name not in members, f"it holds {name!r} twice")
            usual = info.compress_type in (ZIP_STORED, ZIP_DEFLATED) and not info.flag_bits & 1
            require(usual, f"{name!r} is packed in a way that models are not")
            with archive.open(info) as file:
                # In chunks: a single read would unpack all that there is, whatever the size that the archive states.
                while chunk := file.read(_CHUNK_SIZE):
                    budget.admit(len(chunk))
                    chunks.append(chunk)
            content = b"".join(chunks)
            members[name] = same.setdefault(content, content)
    return members


def _pack(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read_array_header(content: bytes) -> Header:
    """Return the shape and dtype of an array in NumPy's format, if its size is what they say."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    require(version in readers, f"an array is in version {version} of its format")
    shape, _, dtype = readers[version](file)
    count, what = math.prod(shape), f"an array of shape {shape} and type {dtype}"
    impossible = dtype.hasobject or any(length < 0 for length in shape) or (dtype.itemsize == 0 and count > 0)
    require(not impossible, f"{what} cannot be part of a model")
    require(len(content) - file.tell() == count * dtype.itemsize, f"{what} does not fit its size")
    return shape, dtype


@dataclass
class _Audit:
    """A walk over the nodes of a schema."""

    _members: dict[str, bytes]
    _types_of: Callable[[str], Collection[type]]
    _trusted: Collection[str]
    _budget: Budget
    kinds: set[tuple[str, str]] = field(default_factory=set)  # of its nodes
    refused: set[str] = field(default_factory=set)  # types that are not trusted
    _known: dict[Any, Node] = field(default_factory=dict)
    _headers: dict[str, Header] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._allowed = cache(self._list_types)

    def walk(self, schema: Any) -> None:
        """Check every node. A node may be nested in any way that JSON has; each has a loader."""
        waiting: list[tuple[Any, int]] = [(schema, 0)]
        while waiting:
            value, depth = waiting.pop()
            require(depth <= _MAX_DEPTH, f"it is nested more than {_MAX_DEPTH} deep")
            if isinstance(value, dict):
                if "__loader__" in value:
                    self._visit(value)
                waiting.extend((child, depth + 1) for child in value.values())
            elif isinstance(value, list):
                waiting.extend((child, depth + 1) for child in value)

    def _visit(self, node: Node) -> None:
        """Check a node, if it is the first with its identity."""
        first = self._known.setdefault(node.get("__id__"), node)
        if first is not node and node.get("__id__") is not None:
            # skops takes the first for both, so they must be the same: the second may be where another was checked.
            # And so must their parts, which have identities of their own.
            require(self._is_same(first, node), "it holds two different objects with one identity")
            return
        self._budget.admit(_PER_NODE)
        self._check(node)

    def _is_same(self, one: Any, other: Any) -> bool:
        """Return whether two parts of the schema describe the same, whatever identities and files they name."""
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(
                key == "__id__"
                or (key == "file" and self._members[one[key]] == self._members[other[key]])
                or self._is_same(one[key], other[key])
                for key in one
            )
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(self._is_same, one, other))
        return type(one) is type(other) and bool(one == other)

    def _check(self, node: Node) -> None:
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        self.kinds.add((loader, name))
        if "file" in node:
            self._check_file(node)
        if loader == "JsonNode":
            require(isinstance(node["content"], str), "it holds JSON that is no text")
            self._budget.admit(_PER_JSON_BYTE * len(node["content"]))
        elif name in self._trusted:
            return
        elif name not in self._allowed(loader, name.partition(".")[0]):
            self.refused.add(name)
        elif loader == "NdArrayNode":
            self._check_array(node, name)
        elif loader == "TreeNode":
            self._check_tree(node)

    def _list_types(self, loader: str, package: str) -> set[str]:
        """Return the names of the types of a package that a node of some loader may make."""
        if loader == "ObjectNode":
            return {type_name(kind) for kind in self._types_of(package)}
        return set(PLAIN_TYPES.get(loader, "").split())

    def _check_file(self, node: Node) -> None:
        """Count a reference to a member, and check that it is what it is to be loaded as."""
        content = self._members[node["file"]]
        if node["__loader__"] == "SparseMatrixNode":
            # An archive within the archive.
            parts = _unpack(content, self._budget)
            for part in parts.values():
                read_array_header(part)
            content = self._members[node["file"]] = _pack(parts)
        elif node["__loader__"] == "NdArrayNode":
            self._headers[node["file"]] = read_array_header(content)
        self._budget.admit(_COPIES * len(content))

    def _check_array(self, node: Node, name: str) -> None:
        if node["type"] == "numpy":
            shape, _ = self._headers[node["file"]]
            require(name == "numpy.ndarray" or shape == (), f"a {name} must be a single value, got shape {shape}")
        elif node["type"] != "json" or name != "numpy.ndarray" or len(_items(node["shape"])) != 1:
            # With several dimensions it would be made of the elements of other arrays, each an object of its own.
            self.refused.add(name)

    def _check_tree(self, node: Node) -> None:
        """Check what a decision tree is made of, whose constructor follows numbers and shapes without looking."""
        n_features, n_classes, n_outputs = arguments = _items(node["__reduce__"]["args"])
        parts = [node["content"]["content"][name] for name in ("nodes", "values")]
        loaders = [part["__loader__"] for part in (*arguments, *parts)]
        expected = ["JsonNode", "NdArrayNode", "JsonNode", "NdArrayNode", "NdArrayNode"]
        require(
            loaders == expected, "a decision tree must have numbers of features, classes, outputs, nodes and values"
        )
        header, nodes, values = (read_array_header(self._members[part["file"]]) for part in (n_classes, *parts))
        require(header == ((1,), np.dtype(np.intp)), "a decision tree must have one number of classes")
        one_output = json.loads(n_outputs["content"]) == 1 and 0 <= json.loads(n_features["content"]) < 2**31
        require(one_output, "a decision tree must have one output, and a number of features")
        as_many = len(nodes[0]) == 1 and len(values[0]) == 3 and values[0][:2] == (nodes[0][0], 1)
        require(as_many, "a decision tree must have as many values as nodes")


def _items(node: Node) -> list[Node]:
    """Return the nodes of a tuple."""
    is_tuple = node["__loader__"] == "TupleNode" and isinstance(node["content"], list)
    require(is_tuple, f"a tuple was expected, not {format_names([node['__loader__']])}")
    return node["content"]  # type: ignore[no-any-return]


# -- building -----------------------------------------------------------------------------------------
# skops would make the same objects of the same nodes. But it imports a large part of scikit-learn, which takes longer
# than all else that a short prediction does, so that it is left to files that hold something else.

# Where the types are whose names begin so.
_MODULES: dict[str, ModuleType] = {"builtins": builtins, "numpy": np}


def can_build(archive: Archive, types: Mapping[str, type]) -> bool:
    """Return whether all objects of a file are of `types`, arrays, or plain values and containers."""

    def is_known(loader: str, name: str) -> bool:
        if loader in ("JsonNode", "ObjectNode"):
            return loader == "JsonNode" or name in types
        return loader in _MAKERS and name in PLAIN_TYPES[loader].split() and name.partition(".")[0] in _MODULES

    return all(is_known(*kind) for kind in archive.kinds)


def build(archive: Archive, types: Mapping[str, type]) -> Any:
    """Return the object that a file holds, for which `can_build` is true."""
    return _Builder(archive.members, types).make(archive.schema)


@dataclass
class _Builder:
    """What makes objects of nodes: one for each identity."""

    members: Mapping[str, bytes]
    types: Mapping[str, type]
    _made: dict[Any, Any] = field(default_factory=dict)

    def make(self, node: Node) -> Any:
        identity = node.get("__id__")
        if identity is None:
            return _MAKERS[node["__loader__"]](self, node)
        if identity not in self._made:
            self._made[identity] = _MAKERS[node["__loader__"]](self, node)
        return self._made[identity]


def _make_dict(builder: _Builder, node: Node) -> dict[Any, Any]:
    entries = zip(builder.make(node["key_types"]), node["content"].items(), strict=False)
    return {kind(key): builder.make(value) for kind, (key, value) in entries}


def _make_array(builder: _Builder, node: Node) -> Any:
    if node["type"] == "json":
        objects = np.empty(len(node["content"]), dtype=object)
        for i, part in enumerate(node["content"]):
            objects[i] = builder.make(part)
        return objects
    array = np.load(io.BytesIO(builder.members[node["file"]]), allow_pickle=False)
    return array if node["__class__"] == "ndarray" else getattr(np, node["__class__"])(array)


def _make_object(builder: _Builder, node: Node) -> Any:
    kind: Any = builder.types[f"{node['__module__']}.{node['__class__']}"]
    made = kind.__new__(kind)
    state = None if node.get("content") is None else builder.make(node["content"])
    if state is not None and hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        made.__dict__.update(state)
    return made


_MAKERS: dict[str, Callable[[_Builder, Node], Any]] = {
    "DictNode": _make_dict,
    "JsonNode": lambda _, node: json.loads(node["content"]),
    "ListNode": lambda builder, node: [builder.make(part) for part in node["content"]],
    "NdArrayNode": _make_array,
    "ObjectNode": _make_object,
    "TupleNode": lambda builder, node: tuple(builder.make(part) for part in node["content"]),
    "TypeNode": lambda _, node: getattr(_MODULES[node["__module__"]], node["__class__"]),
}
