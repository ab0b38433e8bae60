import contextlib
import io
import json
import os
import pickle
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier, _memory, model_file
from pacbayes.columns import ColumnEncoder
from pacbayes.model_file import ModelFileError

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no").astype(object)
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": rng.choice(["u", "v"], 120)})


MODELS = {
    "default": (PACBayesClassifier(n_hypotheses=20, random_state=2**127 + 1, scaler="standard"), X),
    "three classes": (PACBayesClassifier(n_hypotheses=20, random_state=0), X),
    "reserved": (PACBayesClassifier(n_hypotheses=20, random_state=0, gamma_source="reserved", scaler="minmax"), X),
    "no seed": (PACBayesClassifier(n_hypotheses=20), X),
    "tree": (PACBayesClassifier(DecisionTreeClassifier(), n_hypotheses=20, random_state=0), X),
    "tiny subsamples": (PACBayesClassifier(SVC(), n_hypotheses=20, subsample_size=1, random_state=0), X),
    "folds": (PACBayesClassifier(LogisticRegression(), subsamples=KFold(3), random_state=0), X),
    "pipeline": (
        PACBayesClassifier(
            make_pipeline(ColumnEncoder(["a", "b"], ["c"], "standard"), SVC()),
            param_distributions={"svc__C": [1.0, 10.0]},
            n_hypotheses=20,
            random_state=0,
        ),
        TABLE,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(tmp_path, name):
    model, data = MODELS[name]
    labels = np.digitize(X[:, 0], [-0.5, 0.5]) if name == "three classes" else y
    model.fit(data, labels)
    model_file.save(model, tmp_path / "model.skops", columns=["a", 1, None])
    again, metadata = model_file.load(tmp_path / "model.skops")
    assert metadata == {"columns": ["a", 1, None]}
    assert again.certificate_ == model.certificate_
    assert again.random_state == model.random_state
    assert again._entropy == model._entropy
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    np.testing.assert_array_equal(again.predict_proba(data), model.predict_proba(data))
    np.testing.assert_array_equal(again.predict_hypotheses(data), model.predict_hypotheses(data))
    np.testing.assert_array_equal(again.losses_, model.losses_)
    np.testing.assert_array_equal(again.posterior_, model.posterior_)
    for h in range(len(model.hypotheses_)):
        np.testing.assert_array_equal(again.subsamples_[h], model.subsamples_[h])
    again.certificate_.verify(again.losses_)
    assert [path.name for path in tmp_path.iterdir()] == ["model.skops"]


def test_a_prefit_ensemble(tmp_path):
    estimators = [LogisticRegression(C=c).fit(X[:60], y[:60]) for c in (0.1, 1.0, 10.0)]
    model = PACBayesClassifier.from_prefit(estimators, X[60:], y[60:])
    model_file.save(model, tmp_path / "model.skops")
    again, _ = model_file.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.skops"
    model_file.save(PACBayesClassifier(n_hypotheses=5, random_state=0).fit(X, y), path)
    return path


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        model_file.load(path)
    return str(caught.value)


def test_only_fitted_classifiers_are_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        model_file.save(PACBayesClassifier(), tmp_path / "model.skops")
    with pytest.raises(ValueError, match="holds a SVC"):
        model_file.save(SVC(), tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_models(tmp_path, saved):
    refused(tmp_path / "none.skops", "there is no file")
    refused(tmp_path, "is a folder, not a model")
    path = tmp_path / "other.skops"
    path.write_bytes(b"")
    refused(path, "not a model that pacbayes saved")
    path.write_bytes(b"just some text")
    refused(path, "not a model that pacbayes saved")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "dear reader")
    refused(path, "no skops file, or not a complete one")
    skops.io.dump(SVC().fit(X, y), path)
    refused(path, "there is something else in it")
    skops.io.dump({"pacbayes_model": 1, "metadata": "{}", "model": SVC().fit(X, y)}, path)
    refused(path, "holds a SVC, not a PACBayesClassifier")
    skops.io.dump({"pacbayes_model": 1, "metadata": "{}"}, path)
    refused(path, "not a model")


def test_every_truncation_is_refused(saved):
    data = saved.read_bytes()
    for size in np.linspace(0, len(data) - 1, 40).astype(int):
        saved.write_bytes(data[:size])
        refused(saved, "not a model that pacbayes saved")


def test_damage_is_refused_or_harmless(saved):
    data = saved.read_bytes()
    for position in np.linspace(0, len(data) - 1, 60).astype(int):
        saved.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        with contextlib.suppress(ModelFileError):
            model_file.load(saved)


def test_an_archive_that_would_fill_the_memory(saved, monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 1000)
    refused(saved, "unpacks to .* and 1e\\+03 bytes are available")


def test_parts_that_do_not_fit_together(tmp_path):
    model = PACBayesClassifier(n_hypotheses=5, random_state=0).fit(X, y)
    model.losses_ = model.losses_[:3]
    path = tmp_path / "model.skops"
    skops.io.dump({"pacbayes_model": 1, "metadata": "{}", "model": model}, path)
    refused(path, "parts of the classifier do not fit together")


# ---------------------------------------------------------------------------------------------------
# Files made to harm
# ---------------------------------------------------------------------------------------------------


def rewritten(path, change):
    """Change the schema of a saved model, the part of a skops file that names types."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    change(schema, members)
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def a_tuple(*nodes):
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": list(nodes)}


def a_dict(**nodes):
    key = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    keys = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [key] * len(nodes)}
    return {
        "__class__": "dict",
        "__module__": "builtins",
        "__loader__": "DictNode",
        "content": nodes,
        "key_types": keys,
    }


def harmful_nodes(marker):
    command = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    function = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}
    return {
        "os.system": function,
        "builtins.eval": {"__class__": "eval", "__module__": "builtins", "__loader__": "FunctionNode"},
        "functools.partial": {
            "__class__": "partial",
            "__module__": "functools",
            "__loader__": "PartialNode",
            "content": {"func": function, "args": a_tuple(text(command)), "kwds": a_dict(), "namespace": a_dict()},
        },
        "subprocess.Popen": {
            "__class__": "Popen",
            "__module__": "subprocess",
            "__loader__": "ConstructorFromReduceNode",
            "content": a_tuple(text(["touch", str(marker)])),
        },
        "builtins.exec": {
            "__class__": "exec",
            "__module__": "builtins",
            "__loader__": "ConstructorFromReduceNode",
            "content": a_tuple(text(code)),
        },
        "operator.methodcaller": {
            "__class__": "methodcaller",
            "__module__": "operator",
            "__loader__": "OperatorFuncNode",
            "attrs": a_tuple(text("system"), text(command)),
        },
        "harmful.Harm": {
            "__class__": "Harm",
            "__module__": "harmful",
            "__loader__": "ObjectNode",
            "content": a_dict(command=text(command)),
        },
        "harmful.Kind": {"__class__": "Kind", "__module__": "harmful", "__loader__": "TypeNode"},
        "harmful.Words": {"__class__": "Words", "__module__": "harmful", "__loader__": "ListNode", "content": []},
    }


@pytest.mark.parametrize("name", harmful_nodes("marker"))
@pytest.mark.parametrize("place", ["metadata", "inside the model", "instead of the model"])
def test_harmful_types_are_refused_by_name(saved, tmp_path, monkeypatch, name, place):
    marker = tmp_path / "marker"
    # A module that would do its harm when it is imported, within reach.
    (tmp_path / "harmful.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Harm: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    node = harmful_nodes(marker)[name]

    def change(schema, members):
        if place == "metadata":
            schema["content"]["metadata"] = node
        elif place == "inside the model":
            schema["content"]["model"]["content"]["content"]["estimator"] = node
        else:
            schema["content"]["model"] = node

    rewritten(saved, change)
    message = refused(saved, "types that are not trusted, and was not loaded")
    assert name in message
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
    refused(path, "not a model that pacbayes saved")
    assert not marker.exists()


def test_a_pickle_inside_an_array_is_not_run(saved, tmp_path):
    marker = tmp_path / "marker"
    buffer = io.BytesIO()
    np.save(buffer, np.array([Harm(marker)], dtype=object), allow_pickle=True)

    def change(schema, members):
        arrays = [name for name in members if name.endswith(".npy")]
        for name in arrays:
            members[name] = buffer.getvalue()

    rewritten(saved, change)
    refused(saved, "not a model that pacbayes saved")
    assert not marker.exists()


def test_types_that_the_caller_trusts(saved):
    def change(schema, members):
        schema["content"]["model"]["content"]["content"]["estimator_of_mine"] = {
            "__class__": "OrderedDict",
            "__module__": "collections",
            "__loader__": "ObjectNode",
        }
        schema["content"]["model"]["content"]["key_types"]["content"].append(
            {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
        )

    rewritten(saved, change)
    assert "collections.OrderedDict" in refused(saved, "not trusted")
    model, _ = model_file.load(saved, trusted=["collections.OrderedDict"])
    assert isinstance(model, PACBayesClassifier)


@pytest.mark.parametrize("harm", ["child", "cycle", "feature", "features"])
def test_trees_that_would_leave_their_nodes(tmp_path, harm):
    model = PACBayesClassifier(DecisionTreeClassifier(), n_hypotheses=3, random_state=0).fit(X, y)
    victim = next(h for h in model.hypotheses_ if hasattr(h, "tree_") and h.tree_.node_count > 1)
    state = victim.tree_.__getstate__()
    nodes = state["nodes"].copy()
    if harm == "child":
        nodes["left_child"][0] = 10**6
    elif harm == "cycle":
        nodes["right_child"][0] = 0
    elif harm == "feature":
        nodes["feature"][0] = 10**6
    elif harm == "features":
        victim.n_features_in_ = 10**6
    tree = type(victim.tree_)(3, np.array([2], dtype=np.intp), 1)
    tree.__setstate__(state | {"nodes": nodes})
    victim.tree_ = tree
    path = tmp_path / "model.skops"
    skops.io.dump({"pacbayes_model": 1, "metadata": "{}", "model": model}, path)
    refused(path, "not a model")
