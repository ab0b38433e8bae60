"""Forge models, and rewrite model files: the archive of a model, its schema, and the arrays it refers to."""

import copy
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import skops.io


def forge(model, **changes):
    """Return a copy of a fitted model whose winning vote has other parts."""
    forged = copy.deepcopy(model)
    fitted = forged.fitted_votes_
    votes = [replace(vote, **changes) if k == fitted.winner else vote for k, vote in enumerate(fitted.votes)]
    forged.fitted_votes_ = replace(fitted, votes=tuple(votes))
    return forged


def save_format_6(model, path):
    """Write a model as its file was when every group of hypotheses had the code book."""
    fitted = model.fitted_votes_
    certificates = [vote.certificate.to_json() for vote in fitted.votes]
    votes = fitted.with_certificates([None] * len(fitted.votes))
    skops.io.dump({"pacbayes_model": 6, "certificates": certificates, "schema": None, "fitted": votes}, path)


def unpack(path):
    """Return the schema of a model file, and its other members by name."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("schema.json")), members


def pack(path, schema, members):
    """Write a model file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("schema.json", schema if isinstance(schema, str | bytes) else json.dumps(schema))


def rewrite(path, change):
    """Change the schema and the members of a model file in place."""
    schema, members = unpack(path)
    change(schema, members)
    pack(path, schema, members)


def nodes(value):
    """Yield all nodes of a schema."""
    if isinstance(value, dict):
        if "__loader__" in value:
            yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def fitted_nodes(schema, kind, attribute):
    """Yield the attributes of all objects of a kind that have a certain one, as nodes by name."""
    for node in nodes(schema):
        content = node.get("content")
        if node["__class__"] == kind and isinstance(content, dict) and attribute in content.get("content", {}):
            yield content["content"]


def npy(array):
    """Return an array as the content of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def array_node(file):
    return {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": file}


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def a_tuple(*content):
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": list(content)}


def a_list(*content):
    return {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": list(content)}


def a_dict(**content):
    key = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    return {
        "__class__": "dict",
        "__module__": "builtins",
        "__loader__": "DictNode",
        "content": content,
        "key_types": a_list(*[key] * len(content)),
    }


def add_attribute(schema, name, node):
    """Give the votes of a model another attribute."""
    state = schema["content"]["fitted"]["content"]
    state["content"][name] = node
    state["key_types"]["content"].append({"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"})
