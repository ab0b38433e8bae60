"""Attempts to bind a certificate, or the hypotheses that a warm start keeps, to something else than they are about."""

import functools
import json
import operator

import numpy as np
import pandas as pd
import pytest
from fuzz_certificates import reseal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._fingerprint import IncomparableError, digest
from pacbayes.pools import Pool, PrefitPool, RBFSVMPool
from pacbayes.rows._recognition import TrainingRows, hash_rows
from pacbayes.sampling import NoSubsamples

X, Y = make_moons(200, noise=0.3, random_state=0)
TREE = DecisionTreeClassifier(max_depth=2)


def small(estimator=None, **parameters):
    return PACBayesClassifier(
        RBFSVMPool() if estimator is None else estimator, **{"n_hypotheses": 10, "random_state": 0, **parameters}
    )


def noise(n=600):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


class Sign(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose state pickle does not see."""

    def __init__(self):
        self.sign_ = 1

    def __getstate__(self):
        return {}

    def __deepcopy__(self, memo):
        copied = type(self)()
        copied.__dict__.update(self.__dict__)
        return copied

    def predict(self, X):
        return (self.sign_ * (X[:, 1] - 0.25) < 0).astype(int)


class Bag(list, ClassifierMixin, BaseEstimator):
    """A list with an attribute that decides what it predicts."""

    sign = 1

    def predict(self, X):
        return (self.sign * (X[:, 1] - 0.25) < 0).astype(int)


# ---------------------------------------------------------------------------------------------------
# Added hypotheses that mix losses
# ---------------------------------------------------------------------------------------------------


def test_hypotheses_are_not_added_with_a_callable_class_as_loss():
    def define(cost):
        class Cost:
            def __call__(self, true, predicted):
                return cost * (true != predicted)

        return Cost()

    with pytest.raises(ValueError, match="hypotheses cannot be added with this loss"):
        small(loss=define(0.01), racing=False).fit(X, Y).add_hypotheses(X, Y, 30)


def test_hypotheses_are_not_added_with_an_estimator_class_that_may_be_redefined():
    def define(flip):
        class Tree(DecisionTreeClassifier):
            def predict(self, X):
                labels = super().predict(X)
                return 1 - labels if flip else labels

        return Tree(max_depth=2)

    with pytest.raises(ValueError, match="hypotheses cannot be added with this estimator"):
        small(define(False), racing=False).fit(X, Y).add_hypotheses(X, Y, 30)


def test_hypotheses_are_not_added_to_those_of_a_splitter():
    class Splitter:
        calls = 0

        def split(self, X, y=None):
            type(self).calls += 1
            size = 150 if Splitter.calls == 1 else 20
            for k in range(10):
                order = np.random.default_rng(k).permutation(len(X))
                yield order[:size], order[size:]

    model = PACBayesClassifier(TREE, subsamples=Splitter(), racing=False, holdout=None, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="subsamples must be None for a fit that hypotheses are added to"):
        model.add_hypotheses(X, Y, 30)


# ---------------------------------------------------------------------------------------------------
# Digests that coincide
# ---------------------------------------------------------------------------------------------------


def different_values():
    @functools.cache
    def cached(x):
        return x

    first = cached

    @functools.cache
    def cached(x):
        return -x

    frame = pd.DataFrame({"c": pd.Categorical(["u", "v"], categories=["u", "v"])})
    bag, other_bag = Bag(), Bag()
    other_bag.sign = -1
    return {
        "methodcaller": (operator.methodcaller("clip", min=0, max=1), operator.methodcaller("clip", min=0, max=9)),
        "cached function": (first, cached),
        "ufunc": (np.frompyfunc(lambda a: a, 1, 1), np.frompyfunc(lambda a: -a, 1, 1)),
        "masked array": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 1])),
        "list subclass": (bag, other_bag),
        "categories": (frame, frame.assign(c=frame["c"].cat.reorder_categories(["v", "u"]))),
    }


@pytest.mark.parametrize("kind", list(different_values()))
def test_values_that_differ_have_different_digests_or_none(kind):
    digests = set()
    for value in different_values()[kind]:
        try:
            digests.add(digest(value))
        except IncomparableError:
            return
    assert len(digests) == 2


@pytest.mark.parametrize("kind", [Sign, Bag])
def test_a_hypothesis_that_predicts_otherwise_does_not_verify(kind):
    model = PACBayesClassifier(PrefitPool([kind()])).fit(X, Y)
    setattr(model.hypotheses_[0], "sign_" if kind is Sign else "sign", -1)
    with pytest.raises(CertificateError):
        model.verify_certificate(model.certificate_)


def test_prediction_does_not_invalidate_an_honest_certificate():
    model = small(KNeighborsClassifier(algorithm="kd_tree")).fit(X, Y)
    model.predict(X)
    assert model.verify_certificate(model.certificate_) == "arithmetic and model"


# ---------------------------------------------------------------------------------------------------
# Certificates of other predictors
# ---------------------------------------------------------------------------------------------------


def test_a_certificate_without_digests_does_not_verify_with_a_model():
    model = small(TREE).fit(X, Y)
    values = json.loads(model.certificate_.to_json())
    values["digests"] = {}
    certificate = Certificate.from_json(reseal(values))
    model.hypotheses_.members[:] = [DecisionTreeClassifier(max_depth=2).fit(X, 1 - Y)] * 10
    with pytest.raises(CertificateError):
        model.verify_certificate(certificate)


def test_a_certificate_of_the_randomised_classifier_does_not_verify_with_a_model_that_votes():
    randomised = small(TREE, voting="gibbs").fit(X, Y).certificate_
    model = small(TREE).fit(X, Y).set_params(voting="gibbs")  # predict still takes the vote
    with pytest.raises(CertificateError, match="settings of the estimator were changed"):
        model.verify_certificate(randomised, X, Y)


def test_assumptions_that_the_classifier_does_not_state_do_not_verify():
    model = small().fit(X, Y)
    values = json.loads(model.certificate_.to_json())
    values["assumptions"].insert(0, "stated:an auditor has checked the lines below: nothing is assumed")
    with pytest.raises(CertificateError, match="assumptions"):
        model.verify_certificate(Certificate.from_json(reseal(values)))


@pytest.mark.parametrize("voting", ["best", "gibbs"])
def test_bound_is_about_what_predict_does_for_losses_of_probabilities(voting):
    points, labels = noise(4000)
    model = small(LogisticRegression(C=0.01), subsample_size=400, loss="brier", voting=voting).fit(points, labels)
    # Labels that are right half of the time have Brier loss 1/2; the hypotheses' probabilities have 1/4.
    assert model.certificate_.bound >= 0.5


# ---------------------------------------------------------------------------------------------------
# Hypotheses that were not trained on their subsamples, or do not answer as they should
# ---------------------------------------------------------------------------------------------------


def test_an_estimator_that_cloning_does_not_reset_is_refused():
    points, labels = noise()
    trained = FrozenEstimator(DecisionTreeClassifier().fit(points, labels))
    with pytest.raises(ValueError, match="PrefitPool"):
        small(trained).fit(points, labels)


def test_a_pool_that_trains_one_object_again_and_again_is_refused():
    class Reusing(Pool):
        def __init__(self, learner):
            self.learner = learner

        def train_one(self, X, y, rng):
            return self.learner.fit(X, y)

    with pytest.raises((ValueError, RuntimeError), match="same object"):
        small(Reusing(DecisionTreeClassifier()), n_hypotheses=200, subsample_size=0.5).fit(*noise())


def test_a_pool_whose_subsamples_are_of_another_sample_size_is_refused():
    class Inflating(PrefitPool):
        def draw_subsamples(self, plan, n, d):
            return NoSubsamples(50 * n, len(self.estimators))

    with pytest.raises(ValueError, match="200"):
        PACBayesClassifier(Inflating([DecisionTreeClassifier(max_depth=2).fit(X, Y)]), holdout=None).fit(X, 1 - Y)


def test_probabilities_that_do_not_sum_to_one_are_refused():
    class Sure(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

        def predict_proba(self, X):
            return np.ones((len(X), 1))

    with pytest.raises((ValueError, RuntimeError), match="probabilities"):
        small(Sure(), loss="absolute").fit(X, Y)


@pytest.mark.parametrize("shape", [(-1, 1, 1), (1,)])
def test_predictions_of_another_shape_are_refused(shape):
    class Column(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X) if -1 in shape else 1, dtype=int).reshape(shape)

    with pytest.raises((ValueError, RuntimeError), match="shape"):
        small(Column()).fit(X, Y)


@pytest.mark.parametrize("loss", [np.array([[0, 1 + 5j], [0.5, 0]]), np.ma.array([[0, 1], [1, 0]], mask=np.eye(2))])
def test_cost_matrices_that_are_not_real_are_refused(loss):
    with pytest.raises(ValueError, match="loss"):
        small(loss=loss).fit(X, Y)


# ---------------------------------------------------------------------------------------------------
# Failures that leave something behind, or are no clear error
# ---------------------------------------------------------------------------------------------------


def test_a_failed_fit_leaves_the_features_as_they_were():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = small().fit(frame, Y)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(frame[["b", "a"]], 0 * Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])


def test_a_number_beyond_floats_is_refused_as_a_certificate():
    text = certify([0.1, 0.2], 300)[0].to_json().replace('"delta": 0.05', '"delta": 1e999')
    with pytest.raises(CertificateError):
        Certificate.from_json(text)


def test_a_loss_that_refers_to_itself_or_to_a_module_can_be_certified():
    import numpy

    def loss(true, predicted):
        return numpy.where(true != predicted, 0.5, 0.0) if loss is not None else None

    assert small(loss=loss).fit(X, Y).certificate_.gibbs_bound < 1


def test_training_rows_are_recognised_in_any_sparse_layout():
    rows = sparse.random(50, 300, density=0.05, format="csr", random_state=0)
    halves = sparse.csr_array(
        (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=rows.shape
    )
    assert TrainingRows(rows).contains(hash_rows(halves)).all()
