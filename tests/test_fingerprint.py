"""Digests of estimators, of one version of a package and of the next."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier, io, pools, sampling
from pacbayes._fingerprint import digest

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
y = (X[:, 0] > 0).astype(int)
SETTINGS = {"n_hypotheses": 4, "subsample_size": 20, "random_state": 0}

NEAREST_MEAN = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class NearestMean(ClassifierMixin, BaseEstimator):
    def __init__(self, {signature}):
        {assignments}

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        distances = ((X[:, np.newaxis] - self.means_) ** 2).sum(axis=2) ** self.power
        return self.classes_[distances.argmin(axis=1)]
"""


@pytest.fixture
def install(monkeypatch):
    """Install a version of a package, in place of the one before: the class of its learner."""

    def install(**parameters):
        module = types.ModuleType("nearest_mean")
        signature = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        assignments = "; ".join(f"self.{name} = {name}" for name in parameters)
        exec(NEAREST_MEAN.format(signature=signature, assignments=assignments), vars(module))
        module.NearestMean.__module__ = "nearest_mean"
        monkeypatch.setitem(sys.modules, "nearest_mean", module)
        return module.NearestMean

    return install


def test_a_learner_that_gains_a_parameter_has_the_same_certificate(install):
    old = PACBayesClassifier(install(power=1.0)(), **SETTINGS).fit(X, y)
    new = PACBayesClassifier(install(power=1.0, weighted=False)(), **SETTINGS).fit(X, y)
    assert new.certificate_.digests == old.certificate_.digests
    assert new.verify_certificate(old.certificate_, X, y) == "arithmetic, model and data"
    # But not with another value of the new one, or of an old one.
    for settings in ({"weighted": True}, {"power": 2.0}):
        learner = install(power=1.0, weighted=False)(**settings)
        other = PACBayesClassifier(learner, **SETTINGS).fit(X, y)
        assert other.certificate_.digests["settings"] != old.certificate_.digests["settings"]
        assert other.certificate_.digests["hypotheses"] != old.certificate_.digests["hypotheses"]


def test_a_model_file_from_before_a_parameter_was_added(install, tmp_path):
    model = PACBayesClassifier(install(power=1.0)(power=2.0), **SETTINGS).fit(X, y)
    io.save_model(model, tmp_path / "model.skops")
    newer = install(power=1.0, weighted=False)
    again, _ = io.load_model(tmp_path / "model.skops", trusted=["nearest_mean.NearestMean"])
    assert type(again.estimator) is newer
    assert again.estimator.get_params() == {"power": 2.0, "weighted": False}
    assert again.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"


def test_a_default_that_changes_is_noticed_in_a_model_that_was_kept(install):
    """The model has the old value, which is no default any more."""
    model = PACBayesClassifier(install(power=1.0)(), **SETTINGS).fit(X, y)
    kept = digest(model.estimator, code=True)
    model.estimator.__class__ = install(power=2.0)
    assert digest(model.estimator, code=True) != kept


def test_settings_that_differ_from_defaults_count():
    assert digest(SVC()) == digest(SVC(C=1.0))
    assert digest(SVC()) != digest(SVC(C=2.0))
    assert digest(SVC()) != digest(SVC(gamma=0.0))
    assert digest(LogisticRegression(C=0.0)) != digest(LogisticRegression(C=-0.0))
    nested = [make_pipeline(StandardScaler(with_mean=mean), SVC()) for mean in (True, False)]
    assert digest(nested[0]) != digest(nested[1])
    # Of the same attributes, but not of the same class.
    assert digest(SVC()) != digest(StandardScaler())


TABLE = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Oslo", "Rome", None]})

# What certificates name, and its digests as they were written before modules of this library were moved.
RECORDED = [
    (sampling.RandomSubsamples(10, [2, 4], 3, 0), "cad65b9efcf980670dfb0d1485259e98528f7e656c13be1b8e7ece00b990ab1c"),
    (sampling.GivenSubsamples(5, [[3, 0], [4]]), "de3c1959b8f2213b682e71539afbe64e98dbdcc99d6df63b933a5a0d5e5329b2"),
    (sampling.FoldSubsamples(4, KFold(2)), "27e60d7faac18b048d9c91e41c4df91fc9efbabef0efd1ade54c9fc49e54c056"),
    (sampling.NoSubsamples(4, 2), "94426c7099afc0971de292d0792567babf8d1a02ccafcfb718ef679a156269fc"),
    (pools.CodeBook.learn(TABLE), "d6758132201af6f45af3e6fb8cbc6adc2de8bebeb13ef0d73b03c26a01c9d7ce"),
    (pools.Constant("a"), "62b8b0a3496f87deed2b22d25f0a0cd99c60b0e322a772200491fb0e5179515f"),
    (pools.RBFSVMPool(), "d4af72449db552aa1fa596a3846daab2ee5d2d9f4d275feef6dd0b16b968aa4c"),
    (pools.EstimatorPool(SVC()), "d449893f55d3f6b920334699d33e3c1e2ce7aca016b017b70b23ba5e7f3397a2"),
    (pools.PrefitPool([SVC()]), "bfeccca6574b61e63869222d0fcd5adceb66dda797a45aaa3c856c961eb430ab"),
]


@pytest.mark.skipif(np.intp(0).itemsize != 8, reason="digests were recorded on a machine of 64 bits")
@pytest.mark.parametrize(("value", "expected"), RECORDED, ids=lambda part: type(part).__name__)
def test_a_class_that_was_moved_has_the_digest_that_it_had(value, expected):
    """Otherwise no certificate that was written before would pass its verification."""
    assert digest(value) == expected


def test_where_to_work_does_not_count():
    assert digest(RandomForestClassifier(2)) == digest(RandomForestClassifier(2, n_jobs=3))
    assert digest(make_pipeline(SVC())) == digest(make_pipeline(SVC(), memory="cache"))
    fitted = [KNeighborsClassifier(n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2)]
    assert digest(fitted[0]) == digest(fitted[1])


def test_a_random_state_is_what_it_draws():
    """How it was seeded is lost in a file."""
    seeded, restored = np.random.RandomState(0), np.random.RandomState()
    restored.set_state(seeded.get_state())
    assert digest(restored) == digest(seeded)
    assert digest(restored) != digest(np.random.RandomState(1))
    restored.random_sample()
    assert digest(restored) != digest(seeded)
