"""Files made to harm: each is refused by its name, without a crash, and within the memory."""

import csv
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from functools import cache
from pathlib import Path

import fuzz_files
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import skops.io
from crafting import (
    a_dict,
    a_list,
    a_tuple,
    add_attribute,
    array_node,
    fitted_nodes,
    nodes,
    npy,
    pack,
    rewrite,
    save_format_6,
    text,
    unpack,
)
from objects import assert_same
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import pacbayes
from pacbayes import PACBayesClassifier, PACBayesRegressor
from pacbayes.cli import app
from pacbayes.exceptions import ModelFileError, TableError
from pacbayes.io import _archive, dumps_model, load_model, models, read_losses, read_table, save_model
from pacbayes.io._limits import Budget
from pacbayes.pools import ForestPool, RBFRidgePool, RBFSVMPool

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no").astype(object)
SETTINGS = {"n_hypotheses": 4, "subsample_size": 40, "random_state": 0}

# Uses each file in a process of its own, with two gigabytes of memory and a minute of processor time: loads it,
# predicts, and says what happened. Processes are forked from one that has imported everything, which takes longer.
SERVER = """
import json, os, resource, sys
import numpy as np, pandas, pyarrow.parquet, skops.io, sklearn.ensemble
from pacbayes import PACBayesClassifier, io

def use(path, max_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    try:
        if path.endswith(".skops"):
            model, _ = io.load_model(path, max_bytes=max_bytes)
            for kind in (np.float32, np.float64):  # what trees read, and what others do
                model.predict(np.zeros((2, model.n_features_in_), dtype=kind))
        else:
            io.read_table(path)
        print("used")
    except Exception as error:
        print(f"{type(error).__name__}: {error}"[:300])
    print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        use(*json.loads(line))
        sys.stdout.flush()
        os._exit(0)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def start_server():
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(pacbayes.__file__).parents[1]),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    command = [sys.executable, "-c", SERVER]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture(scope="module", autouse=True)
def _server_ends():
    yield
    if start_server.cache_info().currsize:
        with start_server() as server:
            server.stdin.close()
        start_server.cache_clear()


def in_a_process(path, max_bytes=2**31):
    """Use a file in a process of its own: what it says, and the most memory it took, in MiB."""
    server = start_server()
    print(json.dumps([str(path), max_bytes]), file=server.stdin, flush=True)
    printed = [server.stdout.readline()]
    while not printed[-1].startswith("exit "):
        assert printed[-1], "the server has ended"
        printed.append(server.stdout.readline())
    assert printed[-1] == "exit 0\n", printed
    said, memory, _ = printed
    return said.rstrip("\n"), int(memory)


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"'{path}' is not a model that can be loaded: ")
    return str(caught.value)


# Content of model files, by learner and shape of the data: training takes longer than the attack.
TRAINED = {}


def save(tmp_path, learner=None, data=X):
    key = (repr(learner), data.shape)
    if key not in TRAINED:
        pool = RBFSVMPool() if learner is None else learner
        TRAINED[key] = dumps_model(PACBayesClassifier(pool, **SETTINGS).fit(data, y))
    path = tmp_path / "model.skops"
    path.write_bytes(TRAINED[key])
    return path


@pytest.fixture
def saved(tmp_path):
    return save(tmp_path)


# ---------------------------------------------------------------------------------------------------
# Types that would run code
# ---------------------------------------------------------------------------------------------------


def harmful_nodes(marker):
    command = f"touch {marker}"
    function = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}

    def node(module, name, loader, **content):
        return {"__class__": name, "__module__": module, "__loader__": loader, **content}

    return {
        "os.system": function,
        "builtins.eval": node("builtins", "eval", "FunctionNode"),
        "functools.partial": node(
            "functools",
            "partial",
            "PartialNode",
            content={"func": function, "args": a_tuple(text(command)), "kwds": a_dict(), "namespace": a_dict()},
        ),
        "subprocess.Popen": node(
            "subprocess", "Popen", "ConstructorFromReduceNode", content=a_tuple(text(["touch", str(marker)]))
        ),
        "builtins.exec": node(
            "builtins",
            "exec",
            "ConstructorFromReduceNode",
            content=a_tuple(text(f"open({str(marker)!r}, 'w').close()")),
        ),
        "operator.methodcaller": node(
            "operator", "methodcaller", "OperatorFuncNode", attrs=a_tuple(text("system"), text(command))
        ),
        "harmful.Harm": node("harmful", "Harm", "ObjectNode", content=a_dict(command=text(command))),
        "harmful.Kind": node("harmful", "Kind", "TypeNode"),
        "harmful.Words": node("harmful", "Words", "ListNode", content=[]),
        # Types that are trusted, made in a way that is not theirs.
        "sklearn.svm._classes.SVC": node(
            "sklearn.svm._classes", "SVC", "ConstructorFromReduceNode", content=a_tuple(text(1.0))
        ),
        "builtins.list": node("builtins", "list", "FunctionNode"),
    }


@pytest.mark.parametrize("name", harmful_nodes("marker"))
@pytest.mark.parametrize("place", ["certificate", "inside the model", "instead of the model"])
def test_harmful_types_are_refused_by_name(saved, tmp_path, monkeypatch, name, place):
    marker = tmp_path / "marker"
    # A module that would do its harm when it is imported, within reach.
    (tmp_path / "harmful.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Harm: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    node = harmful_nodes(marker)[name]

    def change(schema, members):
        if place == "certificate":
            schema["content"]["certificate"] = node
        elif place == "inside the model":
            schema["content"]["fitted"]["content"]["content"]["settings"]["content"]["content"]["estimator"] = node
        else:
            schema["content"]["fitted"] = node

    rewrite(saved, change)
    assert name in refused(saved, "holds types that are not trusted")
    assert not marker.exists()
    assert "harmful" not in sys.modules


class Harm:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_is_not_run(tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "model.skops"
    path.write_bytes(pickle.dumps(Harm(marker)))
    refused(path, "not a zip file")
    assert not marker.exists()


def test_a_pickle_inside_an_array_is_not_run(saved, tmp_path):
    marker = tmp_path / "marker"
    content = npy(np.array([Harm(marker)], dtype=object))
    rewrite(saved, lambda schema, members: members.update(dict.fromkeys(members, content)))
    refused(saved, "cannot be part of a model")
    assert not marker.exists()


def test_types_that_the_caller_trusts(saved):
    node = {"__class__": "OrderedDict", "__module__": "collections", "__loader__": "ObjectNode"}
    rewrite(saved, lambda schema, members: add_attribute(schema, "notes", node))
    assert "collections.OrderedDict" in refused(saved, "not trusted")
    model, _ = load_model(saved, trusted=["collections.OrderedDict"])
    assert isinstance(model, PACBayesClassifier)


@pytest.mark.parametrize("loader", ["DictNode", "TypeNode"])
def test_containers_that_the_caller_trusts(saved, loader):
    """skops makes them: the plain container that such a node stands for is of another type."""
    node = {**a_dict(a=text(1)), "__class__": "OrderedDict", "__module__": "collections", "__loader__": loader}
    rewrite(saved, lambda schema, members: add_attribute(schema, "notes", node))
    assert "collections.OrderedDict" in refused(saved, "not trusted")
    trusted = ["collections.OrderedDict"]
    load_model(saved, trusted=trusted)
    archive = _archive.examine(saved.read_bytes(), models._types_of, trusted, Budget(2**31, ModelFileError))
    own = {_archive.type_name(kind): kind for kind in models._types_of("pacbayes")}
    assert not _archive.can_build(archive, own)


def test_an_attribute_in_the_place_of_a_method(saved):
    rewrite(saved, lambda schema, members: add_attribute(schema, "pool", text("nothing")))
    model, _ = load_model(saved)
    assert "pool" not in vars(model.fitted_votes_)
    set_attribute(saved, "TrainingRows", "contains", lambda members: text("nothing"))
    refused(saved, "a TrainingRows cannot have an attribute 'contains' of its own")


# ---------------------------------------------------------------------------------------------------
# Arrays that compiled code would follow out of bounds
# ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_machine_of_twenty_million_support_vectors(tmp_path):
    path = save(tmp_path, SVC())

    def change(schema, members):
        for svc in fitted_nodes(schema, "SVC", "_n_support"):
            members[svc["_n_support"]["file"]] = npy(np.array([10_000_000, 10_000_000], dtype=np.int32))
            members[svc["_dual_coef_"]["file"]] = npy(np.ones((1, 1)))
            members[svc["support_vectors_"]["file"]] = npy(np.empty((0, 3)))

    rewrite(path, change)
    said, _ = in_a_process(path)
    assert said.startswith("ModelFileError: ")
    refused(path, "of a SVC has shape")


# A learner, the type to attack, an attribute, and what it becomes.
ATTACKS = [
    (SVC(), "SVC", "_n_support", lambda a: a + 1),
    (SVC(), "SVC", "_n_support", lambda a: np.array([-5, a.sum() + 5], dtype=a.dtype)),
    (SVC(), "SVC", "_n_support", lambda a: np.append(a, 0).astype(a.dtype)),
    (SVC(), "SVC", "_dual_coef_", lambda a: a[:, :1].copy()),
    (SVC(), "SVC", "_dual_coef_", lambda a: a[:0]),
    (SVC(), "SVC", "_dual_coef_", lambda a: a * np.nan),
    (SVC(), "SVC", "_dual_coef_", lambda a: a.astype(np.float32)[:, :-1]),
    (SVC(), "SVC", "support_", lambda a: a[:1]),
    (SVC(), "SVC", "support_", lambda a: a - 1000),
    (SVC(), "SVC", "support_vectors_", lambda a: a[:, :1].copy()),
    (SVC(), "SVC", "support_vectors_", lambda a: a[:0]),
    (SVC(), "SVC", "_intercept_", lambda a: a[:0]),
    (SVC(), "SVC", "_probA", lambda a: np.zeros(1000)),
    (SVC(), "SVC", "classes_", lambda a: a[::-1]),
    (SVC(), "SVC", "_n_support", lambda a: a.astype(np.int64)),
    (SVC(), "SVC", "_intercept_", lambda a: a.astype(np.float32)),
    (SVC(), "SVC", "support_vectors_", lambda a: a.astype(">f8")),
    (SVC(), "SVC", "support_vectors_", np.asfortranarray),
    (DecisionTreeClassifier(), "DecisionTreeClassifier", "n_classes_", lambda a: np.int64(10**6)),
    (RandomForestClassifier(2), "RandomForestClassifier", "classes_", lambda a: a[:1]),
    (KNeighborsClassifier(1, algorithm="brute"), "KNeighborsClassifier", "_y", lambda a: a + 10**6),
    (KNeighborsClassifier(1, algorithm="brute"), "KNeighborsClassifier", "_y", lambda a: a[:1]),
    (KNeighborsClassifier(1, algorithm="brute"), "KNeighborsClassifier", "_fit_X", lambda a: a[:, :1].copy()),
    (make_pipeline(StandardScaler(), SVC()), "StandardScaler", "scale_", lambda a: a[:1]),
    (make_pipeline(StandardScaler(), SVC()), "StandardScaler", "mean_", lambda a: a * np.inf),
]


def replace_array(path, kind, attribute, change):
    """Change an array of all fitted objects of a kind."""

    def edit(schema, members):
        changed = 0
        for content in fitted_nodes(schema, kind, attribute):
            node = content[attribute]
            if "file" in node:
                # A file of its own: others may refer to the same.
                name = f"changed {changed}.npy"
                array = change(np.load(io.BytesIO(members[node["file"]])))
                members[name], node["file"] = npy(array), name
                changed += 1
                node.pop("__id__", None)
            elif node.get("type") == "json":
                node["content"] = node["content"][::-1] if len(change(np.arange(2))) == 2 else node["content"][:1]
                node.pop("__id__", None)
                changed += 1
        assert changed

    rewrite(path, edit)


@pytest.mark.parametrize(("learner", "kind", "attribute", "change"), ATTACKS)
def test_fitted_arrays_that_do_not_fit_together(tmp_path, learner, kind, attribute, change):
    path = save(tmp_path, learner)
    replace_array(path, kind, attribute, change)
    refused(path, "is not a model")


SVM_ATTACKS = {
    "n_classes": [lambda a: a + 1, lambda a: a * 0, lambda a: a * -1, lambda a: a * 0 + 2**30],
    "class_codes": [lambda a: a + 2, lambda a: a - 1, lambda a: a[::-1].copy(), lambda a: a[:-1], lambda a: a * 0],
    "n_support": [lambda a: a + 1, lambda a: -a, lambda a: a * 0 + 2**30, lambda a: a.astype(np.int64)],
    "support": [lambda a: a + 1000, lambda a: a - 1000, lambda a: a[:-1]],
    "dual_coef": [lambda a: a[:-1], lambda a: a * np.nan, lambda a: a.astype(object).astype("S8")],
    "intercept": [lambda a: a[:0], lambda a: a * np.inf],
    "gamma": [lambda a: -a, lambda a: a * np.nan, lambda a: a[:1]],
    "C": [lambda a: -a, lambda a: a[:1]],
    "failed": [lambda a: a[:1], lambda a: a.astype(float)],
    "rows": [lambda a: a[::-1].copy(), lambda a: a[:1], lambda a: a * 0],
    "points": [lambda a: a[:1], lambda a: a[:, :1].copy(), lambda a: np.asfortranarray(a), lambda a: a * np.nan],
}


@pytest.mark.parametrize(("attribute", "change"), [(n, c) for n, changes in SVM_ATTACKS.items() for c in changes])
def test_arrays_of_the_engine(saved, attribute, change):
    replace_array(saved, "RBFSVMs", attribute, change)
    refused(saved, "is not a model")


@pytest.mark.parametrize(
    ("kind", "attribute", "change"),
    [
        ("RBFRidges", "n_support", lambda a: a + 1),
        ("RBFRidges", "support", lambda a: a + 1000),
        ("RBFRidges", "dual_coef", lambda a: np.sign(a) * 1e308),
        ("RBFRidges", "points", lambda a: a[:1]),
        ("RBFRidges", "classes", lambda a: np.array([0.0, 1.0])),
        ("Untrained", "classes", lambda a: np.array([0.0, 1.0])),
    ],
)
def test_arrays_of_regressions(tmp_path, kind, attribute, change):
    if "ridge" not in TRAINED:
        model = PACBayesRegressor(RBFRidgePool(), **SETTINGS).fit(X, X[:, 0] * X[:, 1])
        TRAINED["ridge"] = dumps_model(model)
    path = tmp_path / "model.skops"
    path.write_bytes(TRAINED["ridge"])
    load_model(path)
    replace_array(path, kind, attribute, change)
    refused(path, "is not a model")


def test_sparse_support_vectors_out_of_bounds(tmp_path):
    path = save(tmp_path, data=sp.hstack([sp.csr_matrix(X), sp.eye(120, 500)], format="csr"))
    load_model(path)

    def change(schema, members):
        name = next(node["file"] for node in nodes(schema) if node["__loader__"] == "SparseMatrixNode")
        matrix = sp.load_npz(io.BytesIO(members[name]))
        matrix.indices[-1] = 10**8
        buffer = io.BytesIO()
        sp.save_npz(buffer, matrix)
        members[name] = buffer.getvalue()

    rewrite(path, change)
    refused(path, "ValueError: ")
    assert in_a_process(path)[0].startswith("ModelFileError")


@pytest.mark.parametrize("harm", ["child", "cycle", "feature", "features", "outputs", "classes", "shape", "values"])
def test_trees_that_would_leave_their_nodes(tmp_path, harm):
    path = save(tmp_path, DecisionTreeClassifier())

    def change(schema, members):
        for node in [node for node in nodes(schema) if node["__loader__"] == "TreeNode"]:
            n_features, n_classes, n_outputs = node["__reduce__"]["args"]["content"]
            name = node["content"]["content"]["nodes"]["file"]
            inner = np.load(io.BytesIO(members[name]))
            if inner["left_child"][0] == -1:
                continue
            if harm == "child":
                inner["left_child"][0] = 10**6
            elif harm == "cycle":
                inner["right_child"][0] = 0
            elif harm == "feature":
                inner["feature"][0] = 10**6
            elif harm == "features":
                n_features.update(text(10**6), __id__=None)
            elif harm == "outputs":
                n_outputs.update(text(10**9), __id__=None)
            elif harm == "classes":
                members["classes"] = npy(np.empty(0, dtype=np.intp))
                n_classes.update(array_node("classes"), __id__=None)
            elif harm == "shape":
                members["scalar"] = npy(np.array(1.0))
                node["content"]["content"]["nodes"].update(array_node("scalar"), __id__=None)
            elif harm == "values":
                node["content"]["content"]["values"].update(array_node(name), __id__=None)
            members[name] = npy(inner)

    rewrite(path, change)
    refused(path, "tree")
    if harm in ("child", "outputs", "shape"):
        assert in_a_process(path)[0].startswith("ModelFileError")


def test_a_one_hot_encoder_that_would_write_beyond_its_columns(tmp_path):
    table = pd.DataFrame({"c": rng.choice(["u", "v", "w"], 120)})
    path = save(tmp_path, make_pipeline(OneHotEncoder(sparse_output=False), SVC()), table)

    def change(schema, members):
        for content in fitted_nodes(schema, "OneHotEncoder", "_n_features_outs"):
            content["_n_features_outs"] = a_list(text(1))

    rewrite(path, change)
    refused(path, "a one-hot encoder has other categories")


def test_features_of_bagged_classifiers_out_of_bounds(tmp_path):
    path = save(tmp_path, BaggingClassifier(n_estimators=2))

    def change(schema, members):
        members["features"] = npy(np.array([0, 1, 10**6]))
        for content in fitted_nodes(schema, "BaggingClassifier", "estimators_features_"):
            content["estimators_features_"] = a_list(array_node("features"), array_node("features"))

    rewrite(path, change)
    refused(path, "features are out of range")


def skops_node(value, members):
    """Return the node that skops writes for a value, and add what it refers to to the members of a file."""
    prefix = f"new {len(members)} "
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(value))) as archive:
        members.update({prefix + name: archive.read(name) for name in archive.namelist() if name != "schema.json"})
        node = json.loads(archive.read("schema.json"))
    for part in nodes(node):
        part.pop("__id__", None)
        if "file" in part:
            part["file"] = prefix + part["file"]
    return node


@pytest.mark.parametrize(
    ("learner", "kind", "attribute", "changes"),
    [
        (AdaBoostClassifier(n_estimators=2), "AdaBoostClassifier", "estimators_", {"feature": 2**40}),
        (AdaBoostClassifier(n_estimators=2), "AdaBoostClassifier", "estimators_", {"left_child": 0, "right_child": 0}),
        (DecisionTreeClassifier(), "HypothesisList", "members", {"left_child": 2**40}),
    ],
)
def test_trees_that_no_decision_tree_owns(tmp_path, learner, kind, attribute, changes):
    path, changes = save(tmp_path, learner), dict(changes)

    def change(schema, members):
        for content in fitted_nodes(schema, kind, attribute):
            node = skops_node(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]).tree_, members)
            name = node["content"]["content"]["nodes"]["file"]
            inner = np.load(io.BytesIO(members[name]))
            for field, number in changes.items():
                inner[field][0] = number
            members[name] = npy(inner)
            content[attribute]["content"] = [node] * len(content[attribute]["content"])

    rewrite(path, change)
    said, _ = in_a_process(path)
    assert "a decision tree has nodes that lead nowhere" in said
    # One that is in order has no owner who checks the number of features.
    changes.clear()
    path = save(tmp_path, learner)
    rewrite(path, change)
    refused(path, "cannot consist of a Tree")


def set_attribute(path, kind, name, make, having=None):
    """Give all objects of a kind that have a certain attribute another, made from the members of the file."""

    def change(schema, members):
        made = [node for node in nodes(schema) if node["__class__"] == kind and node["__loader__"] == "ObjectNode"]
        states = [node["content"] for node in made if having is None or having in node["content"]["content"]]
        assert states
        for state in states:
            if name not in state["content"]:
                key = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
                state["key_types"]["content"].append(key)
            state["content"][name] = make(members)

    rewrite(path, change)


def test_what_is_computed_from_other_attributes_is_computed_anew(tmp_path):
    """Which columns hold numbers, in place of what follows from the columns that were checked."""
    table = pd.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "u", "v")})
    model = PACBayesClassifier(RBFSVMPool(), **SETTINGS).fit(table, y)
    path = tmp_path / "model.skops"
    save_format_6(model, path)
    set_attribute(path, "CodeBook", "_codes", lambda members: a_list(text(10**6)))
    again, _ = load_model(path)
    assert again.verify_certificate(model.certificate_) == "arithmetic and model"
    np.testing.assert_array_equal(again.predict_hypotheses(table), model.predict_hypotheses(table))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize(
    ("learner", "kind", "name", "having"),
    [
        (None, "RBFSVMs", "_offsets", "classes"),
        (None, "RBFSVMs", "_gathered", "classes"),
        (None, "RBFSVMs", "_device", "classes"),
        (SVC(), "SVC", "_impl", "classes_"),
        (SVC(), "RandomSubsamples", "assumptions", "n"),
    ],
)
def test_an_attribute_in_the_place_of_a_constant(tmp_path, learner, kind, name, having):
    path = save(tmp_path, learner)
    set_attribute(path, kind, name, lambda members: text("epsilon_svr"), having)
    refused(path, f"a {kind} cannot have an attribute '{name}' of its own")


NUMBERS = np.tile(np.array([[1.0], [2.0], [5.0]]), (40, 3))


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (np.array([5.0, 2.0, 1.0]), "not sorted"),
        (np.array([1.0, 2.0, 2.0]), "not sorted"),
        (np.array([np.nan, 1.0, 2.0]), "not sorted"),
        (np.array([1.0, 2.0, 5.0])[:, np.newaxis], "categories are missing"),
        (np.array([1.0, 2.0, 5.0], dtype=">f8"), "categories are missing"),
        (np.array([], dtype=float), "categories are missing"),
    ],
)
def test_categories_that_cannot_be_found(tmp_path, categories, message):
    path = save(tmp_path, make_pipeline(OneHotEncoder(sparse_output=False), SVC()), NUMBERS)
    load_model(path)

    def make(members):
        members["categories"] = npy(categories)
        return a_list(*[array_node("categories")] * 3)

    set_attribute(path, "OneHotEncoder", "categories_", make, having="categories_")
    refused(path, message)


def test_categories_are_loaded_in_the_orders_that_encoders_know(tmp_path):
    numbers = np.where(NUMBERS == 5.0, np.nan, NUMBERS)
    texts = pd.DataFrame({"c": np.where(NUMBERS[:, 0] == 2.0, "u", "v").astype(object)})
    encoders = (OneHotEncoder(), numbers), (OneHotEncoder(categories=[["v", "u"]]), texts)
    for encoder, data in encoders:
        path = save(tmp_path, make_pipeline(encoder, DecisionTreeClassifier()), data)
        assert load_model(path)[0].predict(data).size == 120


def test_where_to_work_is_not_taken_from_a_file(tmp_path):
    """Eight thousand threads, and a folder to write to."""
    learner = make_pipeline(StandardScaler(), BaggingClassifier(RandomForestClassifier(2), n_estimators=2))
    path = save(tmp_path, learner)
    for kind in ("RandomForestClassifier", "BaggingClassifier", "FitSettings"):
        set_attribute(path, kind, "n_jobs", lambda members: text(8000))
    set_attribute(path, "Pipeline", "memory", lambda members: text("/tmp/cache"))
    set_attribute(path, "FitSettings", "checkpoint", lambda members: text("/tmp/checkpoint"))
    model, _ = load_model(path)
    hypothesis = next(one for one in model.hypotheses_ if hasattr(one, "steps"))
    found = {**model.get_params(), **{f"fitted__{name}": value for name, value in hypothesis.get_params().items()}}
    found["forest__n_jobs"] = hypothesis[-1].estimators_[0].n_jobs
    names = [name for name in found if name.split("__")[-1] in ("n_jobs", "memory", "checkpoint")]
    assert len(names) >= 9
    assert {name: found[name] for name in names if found[name] is not None} == {}
    # They are no part of what was certified.
    assert model.verify_certificate(model.certificate_) == "arithmetic and model"


@pytest.mark.parametrize("learner", [RandomForestClassifier(2), BaggingClassifier(n_estimators=2)])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_ensembles_with_another_number_of_members(tmp_path, learner, n):
    path = save(tmp_path, learner)

    def change(schema, members):
        for content in fitted_nodes(schema, type(learner).__name__, "estimators_"):
            content["estimators_"]["content"] = (content["estimators_"]["content"] * 2)[:n]

    rewrite(path, change)
    refused(path, "does not have 2 members")


def misfit_pipeline(schema, members):
    steps = next(fitted_nodes(schema, "Pipeline", "steps"))["steps"]
    steps["content"] = [a_tuple(text("a"), text("b"), text("c")), *steps["content"]]


def misfit_features(schema, members):
    for content in fitted_nodes(schema, "SVC", "support_vectors_"):
        vectors = np.load(io.BytesIO(members[content["support_vectors_"]["file"]]))
        members[content["support_vectors_"]["file"]] = npy(np.hstack([vectors, vectors[:, :1]]))
        content["n_features_in_"] = text(4)


def unfitted(schema, members):
    for content in fitted_nodes(schema, "SVC", "support_vectors_"):
        for name in [name for name in content if name.endswith("_") or name.startswith("_")]:
            content[name] = text(None)


@pytest.mark.parametrize("change", [misfit_pipeline, misfit_features, unfitted])
def test_models_that_would_fail_at_every_row(tmp_path, change):
    path = save(tmp_path, make_pipeline(StandardScaler(), SVC()))
    rewrite(path, change)
    refused(path, "is not a model")


def test_a_random_state_out_of_bounds(tmp_path):
    path = tmp_path / "model.skops"
    save_model(PACBayesClassifier(RBFSVMPool(), n_hypotheses=4, random_state=np.random.RandomState(0)).fit(X, y), path)
    load_model(path)

    def change(schema, members):
        for node in nodes(schema):
            if node["__loader__"] == "RandomStateNode":
                node["content"]["content"]["state"]["content"]["pos"] = text(10**6)

    rewrite(path, change)
    refused(path, "a random state is out of range")


def test_two_objects_with_one_identity(saved):
    """The second would be taken for the first, where the first was never checked."""

    def change(schema, members):
        vote = next(fitted_nodes(schema, "Vote", "totals"))
        vote["posterior"]["__id__"] = vote["totals"]["__id__"]

    rewrite(saved, change)
    refused(saved, "two different objects with one identity")


def test_parts_of_two_objects_with_one_identity(saved):
    """skops loads the first of two equal objects, and for a part of it what has the identity of that part."""

    def change(schema, members):
        vote = next(fitted_nodes(schema, "Vote", "totals"))
        first, second = a_list(a_list()), a_list(a_list())
        first["__id__"] = second["__id__"] = "twins"
        first["content"][0]["__id__"], second["content"][0]["__id__"] = vote["totals"]["__id__"], "another"
        vote["seen"] = a_list(first, second)

    rewrite(saved, change)
    refused(saved, "two different objects with one identity")


def test_many_objects_with_one_identity_that_name_two_files(saved):
    """Each is compared with the first: if equal files were not one object, that would take as long as one likes."""

    def change(schema, members):
        members["one"], members["two"] = npy(np.zeros(100)), npy(np.zeros(100))
        add_attribute(schema, "many", a_list(*({**array_node(name), "__id__": "twins"} for name in ("one", "two"))))

    rewrite(saved, change)
    load_model(saved)
    members = _archive.examine(saved.read_bytes(), models._types_of, (), Budget(2**31, ModelFileError)).members
    assert members["one"] is members["two"]


def test_subsamples_that_do_not_fit(tmp_path):
    path = tmp_path / "model.skops"
    save_model(PACBayesClassifier(SVC(), subsamples=[list(range(20)), list(range(30, 70))]).fit(X, y), path)

    def change(schema, members):
        members["rows"] = npy(np.array([5, 4, 10**6]))
        for content in fitted_nodes(schema, "GivenSubsamples", "_index_sets"):
            content["_index_sets"] = a_list(array_node("rows"), array_node("rows"))

    rewrite(path, change)
    refused(path, "index set 0 must hold row numbers from 0 to 119")


# ---------------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------------


def refused_in_little_memory(path, match):
    said, memory = in_a_process(path)
    assert match in said
    assert memory < 1000, f"{memory} MiB"


def test_forty_nodes_that_name_one_array(saved):
    def change(schema, members):
        members["zeros"] = npy(np.zeros(2**27, dtype=np.uint8))
        add_attribute(schema, "many", a_list(*(array_node("zeros") for _ in range(40))))

    rewrite(saved, change)
    assert saved.stat().st_size < 300_000
    refused_in_little_memory(saved, "it takes more than 2 GiB of memory")


def test_a_model_of_more_features_than_memory_has_room_for(tmp_path):
    """Trees read few features of a row, and the row that they are tried on has all of them."""
    path = save(tmp_path, ForestPool(n_estimators=2))

    def change(schema, members):
        for node in nodes(schema):
            node.pop("__id__", None)
        for content in fitted_nodes(schema, "FittedVotes", "n_features"):
            content["n_features"], content["ranges"] = text(2**28), text(None)
        for content in fitted_nodes(schema, "TreeArrays", "n_features"):
            sizes = np.load(io.BytesIO(members[content["n_features"]["file"]]))
            members["wide"], content["n_features"]["file"] = npy(np.full(sizes.shape, 2**28)), "wide"

    rewrite(path, change)
    said, memory = in_a_process(path)
    assert "it takes more than 2 GiB of memory" in said
    assert memory < 450


def test_an_array_whose_header_claims_more_than_there_is(saved):
    def change(schema, members):
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
        content += b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,), }".ljust(117) + b"\n"
        members["claim"] = content
        add_attribute(schema, "many", array_node("claim"))

    rewrite(saved, change)
    refused(saved, "does not fit its size")


def test_an_archive_that_unpacks_to_more_than_the_limit(saved):
    schema, members = unpack(saved)
    add_attribute(schema, "zeros", array_node("zeros"))
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("schema.json", json.dumps(schema))
        with archive.open("zeros", "w", force_zip64=True) as file:
            for _ in range(300):
                file.write(bytes(2**20))
    said, memory = in_a_process(saved, 2**27)
    assert "it takes more than 128 MiB of memory" in said
    # What was unpacked before the limit was reached is all that is ever held.
    assert memory < 500


def test_an_archive_that_lies_about_sizes(saved):
    """A member whose stated size is small, and which a single read would unpack to much more."""
    schema, members = unpack(saved)
    small = npy(np.zeros(4))
    members["zeros"] = small + bytes(2**28)
    add_attribute(schema, "zeros", array_node("zeros"))
    pack(saved, schema, members)
    data = bytearray(saved.read_bytes())
    crc = struct.pack("<L", zlib.crc32(small))
    with zipfile.ZipFile(saved) as archive:
        info = archive.getinfo("zeros")
        old = struct.pack("<LLL", info.CRC, info.compress_size, info.file_size)
    new = crc + old[4:8] + struct.pack("<L", len(small))
    assert bytes(data).count(old) == 2
    saved.write_bytes(bytes(data).replace(old, new))
    said, memory = in_a_process(saved)
    assert memory < 450, (said, memory)


@pytest.mark.slow
def test_an_index_of_many_entries(tmp_path):
    """Empty members take no room but in the index, which is read as a whole, by the largest kind of archive."""
    n, local, index = 1_000_000, [], []
    for i in range(n):
        name = b"%07d" % i
        index.append(struct.pack("<4s4B4H3L5H2L", b"PK\x01\x02", 20, 3, 20, *[0] * 8, 7, *[0] * 5, 37 * i) + name)
        local.append(struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, *[0] * 7, 7, 0) + name)
    path, start, size = tmp_path / "model.skops", 37 * n, 53 * n
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, n, n, size, start)
    end += struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    end += struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    path.write_bytes(b"".join([*local, *index, end]))
    assert len(zipfile.ZipFile(path).infolist()) == n
    said, memory = in_a_process(path)
    assert "it takes more than 2 GiB of memory" in said
    assert memory < 450


def test_an_archive_inside_the_archive(tmp_path):
    path = save(tmp_path, data=sp.hstack([sp.csr_matrix(X), sp.eye(120, 500)], format="csr"))

    def change(schema, members):
        name = next(node["file"] for node in nodes(schema) if node["__loader__"] == "SparseMatrixNode")
        with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
            parts = {part: archive.read(part) for part in archive.namelist()}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in parts.items():
                archive.writestr(part, npy(np.zeros(2**25)) if part == "data.npy" else content)
        members[name] = buffer.getvalue()

    rewrite(path, change)
    said, memory = in_a_process(path, 2**27)
    assert "it takes more than 128 MiB of memory" in said
    assert memory < 500


def test_arrays_that_would_become_objects(saved):
    """Elements of arrays inside an array of objects would each become an object."""

    def change(schema, members):
        members["zeros"] = npy(np.zeros(10**6, dtype=np.uint8))
        node = {**array_node("zeros"), "type": "json", "content": [array_node("zeros")] * 4}
        add_attribute(schema, "many", {**node, "shape": a_tuple(text(4), text(10**6))})

    rewrite(saved, change)
    refused(saved, "holds types that are not trusted: numpy.ndarray")


def test_a_scalar_that_would_allocate_its_value(saved):
    def change(schema, members):
        members["large"] = npy(np.array(10**10))
        add_attribute(schema, "many", {**array_node("large"), "__class__": "void"})

    rewrite(saved, change)
    refused(saved, "holds types that are not trusted: numpy.void")


def test_deep_nesting(saved):
    node = text(1)
    for _ in range(150):
        node = a_list(node)
    rewrite(saved, lambda schema, members: add_attribute(schema, "deep", node))
    refused(saved, "nested more than 100 deep")
    pack(saved, "[" * 100_000, unpack(saved)[1])
    refused(saved, "RecursionError")


@pytest.mark.slow
def test_many_small_nodes(saved):
    node = text(0)
    rewrite(saved, lambda schema, members: add_attribute(schema, "many", a_list(*[node] * 600_000)))
    assert saved.stat().st_size < 2_000_000
    refused_in_little_memory(saved, "it takes more than 2 GiB of memory")


def test_one_string_for_many_rows_of_a_parquet_file(tmp_path):
    # A quarter of a gigabyte in a kilobyte.
    codes = pa.array([0, 0, 0, 0], pa.int32())
    strings = pa.DictionaryArray.from_arrays(codes, pa.array(["a" * 2**28]))
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"s": strings}), path, compression="brotli", write_statistics=False, store_schema=False)
    assert path.stat().st_size < 2000
    del strings
    said, memory = in_a_process(path)
    assert "bytes cannot hold a table of 256 MiB" in said
    assert memory < 400


def test_a_string_that_many_rows_share_is_held_once(tmp_path):
    n = 200_000
    strings = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n), pa.int32()), pa.array(["a" * 20_000]))
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"s": strings}), path, store_schema=False)
    said, memory = in_a_process(path)
    assert said == "used"
    assert memory < 600


# ---------------------------------------------------------------------------------------------------
# Tables and terminals
# ---------------------------------------------------------------------------------------------------


def test_an_index_beyond_all_integers(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 99999999999999999999:1\n")
    with pytest.raises(TableError, match="line 1: not LIBSVM text"):
        read_table(path)


def test_a_plain_file_with_the_name_of_an_archive(tmp_path):
    path = tmp_path / "data.zip"
    path.write_text("x,y\n1,a\n2,b\n")
    assert read_table(path, "y", format="csv").X["x"].tolist() == [1, 2]
    (tmp_path / "losses.zip").write_text("0.5\n")
    assert read_losses(tmp_path / "losses.zip").tolist() == [0.5]


ESCAPE = "\x1b[2K\rAll is well."


@pytest.fixture
def spoken(tmp_path, monkeypatch):
    """Run commands on a table whose names and labels hold commands to the terminal: all that was printed."""
    monkeypatch.chdir(tmp_path)
    # A terminal on standard output.
    monkeypatch.setattr("pacbayes.cli._console._is_terminal", lambda: True)
    frame = pd.DataFrame({f"size{ESCAPE}": X[:, 0], "gaps": X[:, 1], f"kind{ESCAPE}": [f"a{ESCAPE}", "b"] * 60})
    frame.loc[3, "gaps"] = None
    frame.to_csv("data.csv", index=False, quoting=csv.QUOTE_ALL)
    (tmp_path / "broken.csv").write_text(f'x,y\n1,"{ESCAPE}"\n2,3\n4,5\n6,7\n')

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.output

    return run


def test_nothing_from_a_file_commands_the_terminal(spoken):
    target, options = f"kind{ESCAPE}", ("--estimator", "svm", "--n-hypotheses", 5, "--jobs", 1)
    said = [
        spoken("fit", "data.csv", "--target", target, *options, "--test-size", 0.2),
        spoken("predict", "model.skops", "data.csv"),
        spoken("predict", "model.skops", "data.csv", "--json"),
        spoken("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv"),
        spoken("certify", "--model", "model.skops", "data.csv"),
        spoken("predict", "model.skops", "broken.csv"),
        spoken("fit", "broken.csv", "--target", "x"),
        spoken("fit", "data.csv", "--target", "none"),
        spoken("fit", "data.csv"),
        spoken("certify", "broken.csv", "--n", 10, "--column", "y"),
    ]
    assert all(said)
    assert any("All is well" in text for text in said)
    for text_said in said:
        printable = text_said.replace("\n", "")
        assert printable.isprintable(), text_said


def test_warnings_cannot_command_the_terminal(spoken, tmp_path):
    options = ("--estimator", "tree", "--n-hypotheses", 5, "--jobs", 1)
    assert "certificate" in spoken("fit", "data.csv", "--target", f"kind{ESCAPE}", *options)

    def change(schema, members):
        for content in fitted_nodes(schema, "DecisionTreeClassifier", "_sklearn_version"):
            content["_sklearn_version"] = text(f"0.1{ESCAPE}")

    rewrite(tmp_path / "model.skops", change)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = spoken("predict", "model.skops", "data.csv")
    assert "warning: Trying to unpickle estimator DecisionTreeClassifier from version 0.1\\x1b[2K" in said
    assert said.replace("\n", "").isprintable()


# ---------------------------------------------------------------------------------------------------
# At random
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_damaged_files_are_built_as_skops_builds_them(tmp_path, n):
    """Of files that are not refused before an object is made: the same objects, or none."""
    own = {_archive.type_name(kind): kind for kind in models._types_of("pacbayes")}
    paths = []
    for k, pool in enumerate((RBFSVMPool(), ForestPool(n_estimators=2))):
        paths.append(save(tmp_path, pool).rename(tmp_path / f"{k}.skops"))
    built = 0
    for case in range(n):
        chance = random.Random(f"built {case}")
        damage = chance.choice([fuzz_files.damage_model, fuzz_files.damage_attribute])
        damage(chance.choice(paths), tmp_path / "damaged", chance)
        budget = Budget(2**31, ModelFileError)
        try:
            archive = _archive.examine((tmp_path / "damaged").read_bytes(), models._types_of, (), budget)
            made = _archive.build(archive, own) if _archive.can_build(archive, own) else None
        except Exception:
            made = None  # skops may admit more
        if made is not None:
            assert_same(made, skops.io.loads(archive.pack(), trusted=archive.names))
            built += 1
    assert n / 4 < built < n


# Attributes of every type that a file may hold are slow: all of them have to be trained.
@pytest.mark.parametrize(
    ("models", "attributes", "tables"), [(4, 0, 12), pytest.param(120, 120, 300, marks=pytest.mark.slow)]
)
def test_random_damage(tmp_path, models, attributes, tables):
    counts = fuzz_files.run(models=models, attributes=attributes, tables=tables, seed=0, jobs=1, folder=tmp_path)
    assert counts.failures == []
    assert sum(counts.models.values()) == models
    assert sum(counts.attributes.values()) == attributes
    assert sum(counts.tables.values()) == tables
    # Of a few, only that some are refused and some are not.
    least = 40 if attributes else 0
    assert counts.models["refused"] > least
    assert counts.tables["refused"] > least
    assert counts.tables["read"] > least
    if attributes:
        assert counts.attributes["refused"] > 40
        assert counts.attributes["loaded and used"] > 10
    assert counts.memory < 2000
