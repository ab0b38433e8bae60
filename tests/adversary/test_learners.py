"""Learners whose predictions depend on more than a row, that overwrite rows, or that come out otherwise every time."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler, scale
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import EstimatorPool, HypothesisList, Pool, PrefitPool, UnionPool

_rng = np.random.default_rng(0)
X = _rng.normal(loc=50, size=(600, 2))
Y = np.where(X[:, 0] + 0.3 * _rng.normal(size=600) > 50, "above", "below")


def make(learner, **settings):
    return PACBayesClassifier(learner, **{"n_hypotheses": 5, "subsample_size": 50, "random_state": 0, **settings})


# ---------------------------------------------------------------------------------------------------
# A prediction is a function of its row
# ---------------------------------------------------------------------------------------------------


class Threshold(ClassifierMixin, BaseEstimator):
    """Divides points by their first feature at a place that it learns."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.place_ = (X[y == "above", 0].mean() + X[y == "below", 0].mean()) / 2
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.place_, "above", "below")

    def predict_proba(self, X):
        above = 1 / (1 + np.exp(self.place_ - X[:, 0]))
        return np.stack([above, 1 - above], axis=1)


class ByBatch(Threshold):
    def predict(self, X):
        return np.where(X[:, 0] > X[:, 0].mean(), "above", "below")


class ByManyRows(Threshold):
    """Needs no company to be right, and is wrong in a lot of it."""

    def predict(self, X):
        labels = super().predict(X)
        return labels if len(X) <= 128 else np.where(labels == "above", "below", "above")


class ByOrder(Threshold):
    def predict(self, X):
        return np.where(np.convolve(X[:, 0], [0.6, 0.4])[: len(X)] > self.place_, "above", "below")


class ByCall(Threshold):
    """Goes on learning from what it predicts."""

    def predict(self, X):
        self.place_ = 0.5 * self.place_ + 0.5 * X[:, 0].max()
        return super().predict(X)


class AtRandom(Threshold):
    def predict(self, X):
        return np.where(_rng.uniform(size=len(X)) < 0.1, "above", super().predict(X))


class NeverAlone(Threshold):
    def predict(self, X):
        if len(X) < 2:
            raise ValueError("two rows at least")
        return super().predict(X)


class ByBatchInProbability(Threshold):
    """Its labels are those of single rows, its probabilities are not."""

    def predict_proba(self, X):
        above = 1 / (1 + np.exp((self.place_ - X[:, 0]) / X.std()))
        return np.stack([above, 1 - above], axis=1)


class OwnHypotheses(HypothesisList):
    """Hypotheses that a pool of one's own holds in its own way."""

    def responses(self, X, loss):
        return np.stack([(X[:, 0] <= X[:, 0].mean()).astype(np.intp) for _ in self.members])

    def take(self, chosen):
        return OwnHypotheses(super().take(chosen).members, self.classes)


class OwnPool(Pool):
    def train(self, sample, subsamples, hypotheses, entropy, shared):
        labels = sample.classes[sample.codes]
        return OwnHypotheses([Threshold().fit(sample.X, labels) for _ in hypotheses], sample.classes)


SCALE = make_pipeline(FunctionTransformer(scale), SVC())
DEPENDENT = {
    "scale": (SCALE, r"the step 'functiontransformer' of a pipeline, FunctionTransformer\(.*\) gives other answers"),
    "pool": (EstimatorPool(SCALE), "the step 'functiontransformer' of a pipeline"),
    "batch": (ByBatch(), r"ByBatch\(\) gives other answers for .* than for [0-9]+ rows together"),
    "many": (ByManyRows(), r"ByManyRows\(\) gives other answers for one row alone"),
    "order": (ByOrder(), r"ByOrder\(\) gives other answers for"),
    "call": (ByCall(), r"ByCall\(\) gives other answers for"),
    "random": (AtRandom(), r"AtRandom\(\) gives other answers for"),
    "alone": (NeverAlone(), r"NeverAlone\(\) answers for [0-9]+ rows together and fails for one row alone, ValueError"),
    "prefit": (PrefitPool([Threshold().fit(X, Y), ByBatch().fit(X, Y)]), r"ByBatch\(\) gives other answers"),
    "own": (OwnPool(), "gives other answers for"),
}


@pytest.mark.parametrize("holdout", [None, 0.4])
@pytest.mark.parametrize("name", DEPENDENT)
def test_predictions_that_depend_on_more_than_their_row_get_no_certificate(name, holdout):
    learner, message = DEPENDENT[name]
    settings = {"holdout": holdout, "racing": False, "voting": "uniform"}  # so that each has weight
    if name == "prefit":
        settings |= {"n_hypotheses": "auto", "subsample_size": "auto"}
    with pytest.raises(HypothesisError, match=f"a prediction must be a function of its row, .*, but .*{message}"):
        make(learner, **settings).fit(X, Y)


def test_rows_that_are_read_in_blocks_are_probed_as_well(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.raises(HypothesisError, match=r"ByBatch\(\) gives other answers for"):
        make(ByBatch()).fit(mapped, Y)


def test_probabilities_are_probed_where_the_loss_is_about_them():
    assert make(ByBatchInProbability()).fit(X, Y).certificate_.bound < 1
    assert make(Threshold(), loss="brier").fit(X, Y).certificate_.gibbs_bound < 1
    with pytest.raises(HypothesisError, match=r"ByBatchInProbability\(\) gives other answers"):
        make(ByBatchInProbability(), loss="brier").fit(X, Y)


@pytest.mark.parametrize("in_union", [False, True])
def test_probabilities_are_probed_where_the_vote_is_by_them(in_union):
    pools = [EstimatorPool(learner, vote_by="probabilities") for learner in (Threshold(), ByBatchInProbability())]
    good, bad = (UnionPool([("own", pool)]) if in_union else pool for pool in pools)
    assert make(good, holdout=0.4).fit(X, Y).certificate_.bound < 1
    assert make(bad, holdout=None).fit(X, Y).certificate_.bound < 1  # without a test, the vote is by labels
    with pytest.raises(HypothesisError, match=r"ByBatchInProbability\(\) gives other answers"):
        make(bad, holdout=0.4).fit(X, Y)


def test_probabilities_of_classes_that_there_are_not():
    class OfOthers(Threshold):
        def fit(self, X, y):
            super().fit(X, y)
            self.classes_ = np.array(["above", "aside"])
            return self

    with pytest.raises(HypothesisError, match="OfOthers predicts 'aside', which is none of the classes"):
        make(EstimatorPool(OfOthers(), vote_by="probabilities"), holdout=0.4).fit(X, Y)


def test_few_rows_can_be_probed():
    for holdout in (1, 4):
        with pytest.raises(HypothesisError, match=r"ByBatch\(\) gives other answers"):
            make(ByBatch(), subsample_size=12, holdout=holdout).fit(X[:40], Y[:40])
    assert make(Threshold(), subsample_size=12, holdout=1).fit(X[:40], Y[:40]).certificate_ is not None


@pytest.mark.parametrize("learner", [Threshold(), [Threshold().fit(X, Y)]])
def test_the_certificate_says_what_cannot_be_proved_by_probing(learner):
    model = PACBayesClassifier(learner, random_state=0).fit(X, Y)
    assert any("predicts a point from that point alone" in line for line in model.certificate_.assumptions)


# ---------------------------------------------------------------------------------------------------
# Rows belong to the caller
# ---------------------------------------------------------------------------------------------------


class Overwriting(Threshold):
    """Moves the rows that it is given, in place."""

    def predict(self, X):
        X -= self.place_
        return np.where(X[:, 0] > 0, "above", "below")


class Recoding(Threshold):
    def fit(self, X, y):
        return super().fit(np.asarray(X), y)

    def predict(self, X):
        X["a"] = X["a"] - self.place_
        return np.where(X["a"] > 0, "above", "below")


def as_frame(X):
    return pd.DataFrame(X, columns=["a", "b"])


SCALING = make_pipeline(StandardScaler(copy=False), GaussianNB()), make_pipeline(StandardScaler(), GaussianNB())
OVERWRITING = {
    "scaler": (*SCALING, np.array),
    "scaler, float32": (*SCALING, np.float32),
    "scaler, frame": (*SCALING, as_frame),
    "scaler, sparse": (
        make_pipeline(MaxAbsScaler(copy=False), LogisticRegression()),
        make_pipeline(MaxAbsScaler(), LogisticRegression()),
        csr_array,
    ),
    "without check": (Overwriting(), Threshold(), np.array),
    "column of a frame": (Recoding(), None, as_frame),
}


@pytest.mark.parametrize("holdout", [None, 0.4])
@pytest.mark.parametrize(("learner", "harmless", "container"), OVERWRITING.values(), ids=OVERWRITING)
def test_no_learner_overwrites_rows_of_the_caller_or_of_other_hypotheses(learner, harmless, container, holdout):
    rows, copy = container(X.copy()), container(X.copy())

    def assert_unchanged():
        same = (rows != copy).nnz == 0 if isinstance(rows, csr_array) else np.array_equal(rows, copy)
        assert same

    model = make(learner, holdout=holdout).fit(rows, Y)
    assert_unchanged()
    labels = model.predict(rows)
    assert_unchanged()
    for ask in (model.predict, model.predict_proba, model.predict_hypotheses):
        ask(rows)
        assert_unchanged()
    model.verify_certificate(model.certificate_, rows, Y)
    assert_unchanged()
    if harmless is not None:
        expected = make(harmless, holdout=holdout).fit(rows, Y)
        np.testing.assert_array_equal(model.losses_, expected.losses_)
        np.testing.assert_array_equal(labels, expected.predict(rows))


def test_frames_of_polars_are_left_alone_as_well():
    class Adding(Threshold):
        def fit(self, X, y):
            return super().fit(X.to_numpy(), y)

        def predict(self, X):
            X.insert_column(0, pl.Series("moved", X["a"].to_numpy() - self.place_))
            return np.where(X["moved"].to_numpy() > 0, "above", "below")

    rows = pl.DataFrame(X, schema=["a", "b"])
    make(Adding()).fit(rows, Y).predict(rows)
    assert rows.columns == ["a", "b"]


# ---------------------------------------------------------------------------------------------------
# Training that is not repeatable
# ---------------------------------------------------------------------------------------------------


def test_a_resumed_search_is_certified_for_the_hypotheses_that_it_ends_with(tmp_path):
    """A search with random folds chose others when it was trained again, and their certificate was the old one."""
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 15]}, cv=ShuffleSplit(1, test_size=2))
    for seed in range(2):
        settings = {"checkpoint": tmp_path / str(seed), "random_state": seed, "subsample_size": 30, "holdout": 0.5}
        first = make(search, **settings).fit(X[:200], Y[:200])
        again = make(search, **settings).fit(X[:200], Y[:200])
        assert again.verify_certificate(again.certificate_, X[:200], Y[:200]) == "arithmetic, model and data"
        assert again.certificate_ == first.certificate_
