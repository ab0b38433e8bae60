"""The family of TabPFN: with a stand-in that has its signature, and with the package itself where it is installed."""

import copy
import pickle
import sys
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

from pacbayes import PACBayesClassifier, PACBayesRegressor
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import TabPFNPool, make_union

pd = pytest.importorskip("pandas")

LIMITS = {"MAX_NUMBER_OF_CLASSES": 3, "MAX_NUMBER_OF_FEATURES": 5, "MAX_NUMBER_OF_SAMPLES": 10_000}
WEIGHTS = {"auto": 1.0, "other.ckpt": 2.0}


class Weight(np.ndarray):
    """An array with the methods of a tensor."""

    def cpu(self):
        return self

    def double(self):
        return self

    def numpy(self):
        return np.array(self)


class StandIn(BaseEstimator):
    """The parameters of TabPFN that the family knows, its limits, and a state that changes when it predicts."""

    def __init__(self, *, model_path="auto", inference_precision="auto", inference_config=None, random_state=0):
        self.model_path = model_path
        self.inference_precision = inference_precision
        self.inference_config = inference_config
        self.random_state = random_state

    def get_inference_config(self):
        if self.model_path not in WEIGHTS:
            raise RuntimeError(f"Failed to download model to {self.model_path}!")
        return SimpleNamespace(**LIMITS, MAX_CPU_SAMPLES=100)

    def fit(self, X, y):
        self.get_inference_config()
        weight = np.full(2, WEIGHTS[self.model_path]).view(Weight)
        self.models_ = [SimpleNamespace(state_dict=lambda: {"weight": weight})]
        self.model_ = self.kind(categorical_features="from_dtype", max_iter=10, min_samples_leaf=5).fit(X, y)
        self.n_rows_ = len(y)
        return self

    def predict(self, X):
        self.times_ = time.perf_counter()
        return self.model_.predict(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class StandInClassifier(ClassifierMixin, StandIn):
    kind = HistGradientBoostingClassifier

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X).astype(np.float32)


class StandInRegressor(RegressorMixin, StandIn):
    kind = HistGradientBoostingRegressor


@pytest.fixture
def tabpfn(monkeypatch):
    module, torch = ModuleType("tabpfn"), ModuleType("torch")
    module.TabPFNClassifier, module.TabPFNRegressor = StandInClassifier, StandInRegressor
    torch.float32, torch.Tensor = "float32", type("Tensor", (), {})
    monkeypatch.setitem(sys.modules, "tabpfn", module)
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_what_was_trained_before_is_assumed_not_to_have_seen_the_rows(tabpfn, table):
    X, y = table
    model = PACBayesClassifier(make_union(["tabpfn"]), random_state=0).fit(X, y)
    certificate = model.certificate_
    assert "learner-pretrained" in certificate.assumption_codes
    assert "learner-from-elsewhere" not in certificate.assumption_codes  # "nothing in it was trained before"
    assert "that model has not seen these rows, and the learner" in str(certificate)
    assert model.score(X, y) > 0.9
    # What predicting leaves in the learner is no part of what the certificate is about.
    assert model.verify_certificate(certificate, X, y) == "arithmetic, model and data"
    assert_array_equal(model.hypotheses_[0].predict(X[:20]), model.hypotheses_[0].predict(X)[:20])


def test_it_is_one_of_several_families(tabpfn, table):
    X, y = table
    model = PACBayesClassifier(make_union(["linear", "tabpfn"]), random_state=0).fit(X, y)
    assert [(one.name, one.vote_by) for one in model.certificate_.families][1] == ("tabpfn", "probabilities")
    assert "TabPFN models" in str(model.certificate_)


def test_numbers(tabpfn, table):
    X, _ = table
    y = np.nan_to_num(X["age"].to_numpy())
    model = PACBayesRegressor(make_union(["tabpfn"], numeric=True), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.5
    assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"


def test_subsamples_are_as_large_as_a_cpu_takes(tabpfn):
    pool = dict(make_union(["tabpfn"]).families)["tabpfn"]
    assert pool.default_sampling(50, 3) == ([45], 2)
    assert pool.default_sampling(5000, 3) == ([100], 2)


@pytest.mark.parametrize(("n_columns", "n_classes", "what"), [(6, 2, "5 columns, got 6"), (2, 4, "3 classes, got 4")])
def test_tables_beyond_its_limits_are_left_to_others(tabpfn, n_columns, n_classes, what):
    X = np.random.default_rng(0).normal(size=(240, n_columns))
    y = np.arange(240) % n_classes
    model = PACBayesClassifier(make_union(["linear", "tabpfn"]), random_state=0).fit(X, y)
    assert list(model.subsamples_.families) == ["linear"]
    assert "left-out:tabpfn" in model.certificate_.assumption_codes
    with pytest.raises(ValueError, match=f"the weights of TabPFN are for at most {what}"):
        PACBayesClassifier(make_union(["tabpfn"]), random_state=0).fit(X, y)


def test_missing_weights_are_said_before_anything_is_trained(tabpfn, table):
    pool = make_union(["boosting", "tabpfn"]).set_params(tabpfn__estimator__model_path="nowhere.ckpt")
    with pytest.raises(HypothesisError, match=r"cannot be loaded.*TABPFN_MODEL_CACHE_DIR.*download model to nowhere"):
        PACBayesClassifier(pool, random_state=0).fit(*table)


def test_a_copy_is_trained_again_with_the_same_weights(tabpfn, table, monkeypatch):
    X, y = np.nan_to_num(table[0][["age"]].to_numpy()), table[1]
    trained = TabPFNPool(StandInClassifier()).train_one(X, y, np.random.default_rng(0))
    for again in (copy.deepcopy(trained), pickle.loads(pickle.dumps(trained))):
        assert again.learner is not trained.learner
        assert_array_equal(again.predict_proba(X), trained.predict_proba(X))
    monkeypatch.setitem(WEIGHTS, "auto", 3.0)
    with pytest.raises(HypothesisError, match="was trained with other weights of TabPFN than those that are here"):
        copy.deepcopy(trained)


def test_other_learners_are_refused():
    with pytest.raises(ValueError, match="estimator must be a learner of tabpfn, version 8"):
        TabPFNPool(LogisticRegression()).check_settings()


def test_settings_are_copied_with_the_pool(tabpfn):
    pool = clone(make_union(["tabpfn"]).set_params(tabpfn__estimator__model_path="other.ckpt"))
    learner = pool.get_params()["tabpfn__estimator"]
    assert learner.model_path == "other.ckpt"
    # Mixed precision and the fingerprint would let a prediction depend on other rows.
    assert (learner.inference_precision, learner.inference_config) == ("float32", {"FINGERPRINT_FEATURE": False})


def test_a_package_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "tabpfn", None)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(ImportError, match="the family 'tabpfn' needs another package: pip install tabpfn"):
        make_union(["tabpfn"])


@pytest.fixture
def random_weights(tmp_path):
    """A checkpoint of TabPFN's second version with random weights, for classes."""
    pytest.importorskip("tabpfn")
    import dataclasses

    import torch
    from tabpfn.architectures import tabpfn_v2

    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"emsize": 48, "nlayers": 2, "nhead": 3, "max_num_classes": 10, "num_buckets": 0}
        config, _ = tabpfn_v2.parse_config(sizes)
        model = tabpfn_v2.get_architecture(config)
        for weight in model.parameters():
            if weight.dim() > 1 and not weight.any():  # it begins with layers that do nothing
                torch.nn.init.xavier_uniform_(weight)
    kept = {"state_dict": model.state_dict(), "config": dataclasses.asdict(config), "architecture_name": "tabpfn_v2"}
    torch.save(kept, tmp_path / "weights.ckpt")
    return str(tmp_path / "weights.ckpt")


@pytest.mark.filterwarnings("ignore")  # of TabPFN, which is slow on a CPU
def test_the_package_itself(random_weights, table):
    X, y = table
    settings = {"tabpfn__estimator__model_path": random_weights, "tabpfn__estimator__device": "cpu"}
    pool = make_union(["tabpfn"]).set_params(**settings, tabpfn__estimator__n_estimators=2)
    model = PACBayesClassifier(pool, holdout=0.3, random_state=0).fit(X, y)
    assert "learner-pretrained" in model.certificate_.assumption_codes
    assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
