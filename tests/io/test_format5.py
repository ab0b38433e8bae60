"""Model files of format 5, which were written before what a fit came to was a value, and before modules were moved."""

import json
import zipfile
from dataclasses import fields
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier, io
from pacbayes.exceptions import ModelFileError
from pacbayes.io import _format5
from pacbayes.pools import RBFSVMPool

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "c": rng.choice(["u", "v"], 120)})
y = np.where(TABLE["a"] + 0.1 * rng.normal(size=120) > 0.3, "yes", "no").astype(object)

# Where types of this library were.
MODULES = {
    "PACBayesClassifier": "pacbayes.classifier",
    "Ensemble": "pacbayes.ensemble",
    "Split": "pacbayes.ensemble",
    "TrainingRows": "pacbayes.recognition",
    "RandomSubsamples": "pacbayes.sampling",
    "CodeBook": "pacbayes.pools._tables",
}


def with_attributes(kind, attributes):
    made = kind()
    vars(made).update(attributes)
    return made


def attributes_of(model):
    """Return the attributes of a classifier as they were."""
    fitted, votes = model.fitted_votes_, []
    for vote in fitted.votes:
        parts = {field.name: getattr(vote, field.name) for field in fields(vote) if field.name != "task"}
        votes.append(with_attributes(_format5.Ensemble, {**parts, "certificate": None}))
    former = {"client": None, "warm_start": False, "n_candidates": 1, "block_size": "auto", "_fingerprints_": None}
    private = {"_winner": fitted.winner, "_entropy": fitted.entropy, "_training_rows": fitted.training_rows}
    public = {name: getattr(model, name) for name in ("classes_", "n_features_in_", "feature_names_in_")}
    return {
        **{**model.get_params(deep=False), **former, **private, **public},
        "votes_": votes,
        "_code_book": fitted.code_book,
    }


def write(path, model, **changes):
    """Write a classifier, with other attributes if there are some, as its file was; return the types that moved."""
    old = with_attributes(_format5.PACBayesClassifier, {**attributes_of(model), **changes})
    certificates = [vote.certificate.to_json() for vote in model.votes_]
    data = skops.io.dumps({"pacbayes_model": 5, "certificates": certificates, "schema": None, "model": old})
    moved = set()

    def move(node):
        if node.get("__class__") in MODULES:
            node["__module__"] = MODULES[node["__class__"]]
            moved.add(node["__class__"])
        return node

    with zipfile.ZipFile(BytesIO(data)) as archive, zipfile.ZipFile(path, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            is_schema = name == "schema.json"
            changed.writestr(name, json.dumps(json.loads(content, object_hook=move)) if is_schema else content)
    return moved


@pytest.fixture(scope="module")
def model():
    return PACBayesClassifier(RBFSVMPool(), n_hypotheses=12, subsample_size=30, random_state=0).fit(TABLE, y)


def test_what_is_read_is_what_was_written(tmp_path, model):
    assert write(tmp_path / "model.skops", model, n_jobs=8000) == set(MODULES)
    again, _ = io.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert str(again.get_params()) == str(model.get_params())
    assert again.verify_certificate(model.certificate_, TABLE, y) == "arithmetic, model and data"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"_winner": 7}, "the winner is none of the votes"),
        ({"_entropy": -1}, "entropy of a FittedVotes is out of range"),
        ({"_code_book": None}, "hypotheses have another code book"),
        ({"classes_": np.array(["a", "b"], dtype=object)}, "hypotheses have other classes"),
        ({"votes_": SVC()}, "TypeError"),
        ({"n_features_in_": 2}, "the code book has other columns|has shape"),
    ],
)
def test_attributes_are_checked_as_those_of_any_file(tmp_path, model, changes, message):
    write(tmp_path / "model.skops", model, **changes)
    with pytest.raises(ModelFileError, match=message):
        io.load_model(tmp_path / "model.skops")
