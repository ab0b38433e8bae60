"""Make the objects of a model file that was examined, where they are this library's, arrays and containers.

skops would make the same objects of the same nodes. But it imports a large part of scikit-learn, which takes longer
than all else that a short prediction does, so that it is left to files that hold something else.
"""

from __future__ import annotations

import builtins
import io
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from pacbayes.io._archive import PLAIN_TYPES, Archive, Node

# Where the types are whose names begin so.
_MODULES: dict[str, ModuleType] = {"builtins": builtins, "numpy": np}


def can_build(archive: Archive, types: Mapping[str, type]) -> bool:
    """Return whether all objects of a file are of `types`, arrays, or plain values and containers.

    Those of containers that the caller trusts by their names are not.
    """
    return all(
        loader == "JsonNode" or (name in types if loader == "ObjectNode" else _is_plain(loader, name))
        for loader, name in archive.kinds
    )


def _is_plain(loader: str, name: str) -> bool:
    return loader in _MAKERS and name in PLAIN_TYPES[loader].split() and name.partition(".")[0] in _MODULES


def build(archive: Archive, types: Mapping[str, type]) -> Any:
    """Return the object that a file holds, for which `can_build` is true."""
    return _Builder(archive.members, types).make(archive.schema)


class _Builder:
    """What makes objects of nodes: one for each identity."""

    def __init__(self, members: Mapping[str, bytes], types: Mapping[str, type]) -> None:
        self.members, self.types = members, types
        self._made: dict[Any, Any] = {}

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
