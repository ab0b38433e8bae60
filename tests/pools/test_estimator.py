import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pacbayes.losses import resolve_loss
from pacbayes.pools import Constant, EstimatorPool, HypothesisError, PrefitPool
from pacbayes.sampling import GivenSubsamples, NoSubsamples, RandomSubsamples

X, CODES = load_iris(return_X_y=True)
CLASSES = np.array(["setosa", "versicolor", "virginica"])
Y = CLASSES[CODES]
SUBSAMPLES = RandomSubsamples(150, [20, 40], 6, entropy=0)


def test_totals_are_errors_on_the_points_that_did_not_train():
    pool = EstimatorPool(CLASSES, DecisionTreeClassifier(max_depth=2), entropy=0)
    trained = pool.fit(X, CODES, SUBSAMPLES, range(6))
    totals = pool.loss_totals(trained, X, CODES, SUBSAMPLES, range(6), range(150), resolve_loss("zero_one", CLASSES))
    for h, (tree, total) in enumerate(zip(trained, totals, strict=True)):
        rest = np.setdiff1d(np.arange(150), SUBSAMPLES[h])
        assert total == np.count_nonzero(tree.predict(X[rest]) != Y[rest])


@pytest.mark.parametrize("loss", ["zero_one", "brier", "absolute"])
def test_totals_add_up_over_blocks_and_ranges(loss):
    pool = EstimatorPool(CLASSES, DecisionTreeClassifier(max_depth=2), entropy=0)
    resolved = resolve_loss(loss, CLASSES)
    trained = pool.fit(X, CODES, SUBSAMPLES, range(6))
    whole = pool.loss_totals(trained, X, CODES, SUBSAMPLES, range(6), range(150), resolved)
    blocks = [range(0, 1), range(1, 64), range(64, 150)]
    parts = [pool.loss_totals(trained[2:5], X, CODES, SUBSAMPLES, range(2, 5), b, resolved) for b in blocks]
    np.testing.assert_array_equal(sum(parts), whole[2:5])


def test_a_range_of_hypotheses_is_the_same_whoever_trains_it():
    pool = EstimatorPool(CLASSES, DecisionTreeClassifier(splitter="random"), entropy=3)
    whole, part = pool.fit(X, CODES, SUBSAMPLES, range(6)), pool.fit(X, CODES, SUBSAMPLES, range(4, 6))
    for one, other in zip(whole[4:], part, strict=True):
        assert one.random_state == other.random_state
        np.testing.assert_array_equal(one.tree_.threshold, other.tree_.threshold)
    assert len({tree.random_state for tree in whole}) == 6


def test_parameters_are_drawn_per_hypothesis():
    distributions = {
        "logisticregression__C": stats.loguniform(1e-3, 1e3),
        "standardscaler": [StandardScaler(), "passthrough"],
    }
    estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000))
    pool = EstimatorPool(CLASSES, estimator, 0, distributions)
    trained = pool.fit(X, CODES, SUBSAMPLES, range(6))
    assert len({pipeline[-1].C for pipeline in trained}) == 6
    assert {pipeline[0] == "passthrough" for pipeline in trained} == {True, False}
    again = EstimatorPool(CLASSES, estimator, 0, distributions).fit(X, CODES, SUBSAMPLES, range(6))
    assert [p[-1].C for p in again] == [p[-1].C for p in trained]


def test_one_class_only_gives_the_constant_hypothesis():
    pool = EstimatorPool(CLASSES, LogisticRegression(), entropy=0)
    (hypothesis,) = pool.fit(X, CODES, GivenSubsamples(150, [range(60, 70)]), range(1))
    assert isinstance(hypothesis, Constant)
    assert hypothesis.label == "versicolor"
    assert np.all(pool.predict(hypothesis, X) == 1)
    np.testing.assert_array_equal(pool.predict_proba(hypothesis, X[:2]), [[0, 1, 0], [0, 1, 0]])


def test_probabilities_of_classes_that_a_hypothesis_has_not_seen_are_zero():
    pool = EstimatorPool(CLASSES, DecisionTreeClassifier(), entropy=0)
    (hypothesis,) = pool.fit(X, CODES, GivenSubsamples(150, [[0, 1, 120, 121]]), range(1))
    probabilities = pool.predict_proba(hypothesis, X)
    assert probabilities.shape == (150, 3)
    assert np.all(probabilities[:, 1] == 0)
    assert set(pool.predict(hypothesis, X)) <= {0, 2}


class Fussy(DummyClassifier):
    """Refuses subsamples whose first point is to the left."""

    def fit(self, X, y):
        if X[0, 0] < 5:
            raise RuntimeError("too far left")
        return super().fit(X, y)


def test_a_failing_learner_is_named_or_dropped():
    with pytest.raises(HypothesisError, match=r"hypothesis \d .* \(seed 7\): RuntimeError: too far left") as error:
        EstimatorPool(CLASSES, Fussy(), entropy=7).fit(X, CODES, SUBSAMPLES, range(6))
    assert isinstance(error.value.__cause__, RuntimeError)
    pool = EstimatorPool(CLASSES, Fussy(), entropy=7, on_error="drop")
    trained = pool.fit(X, CODES, SUBSAMPLES, range(6))
    failed = [isinstance(h, Constant) for h in trained]
    assert any(failed)
    assert not all(failed)
    totals = pool.loss_totals(trained, X, CODES, SUBSAMPLES, range(6), range(150), resolve_loss("zero_one", CLASSES))
    np.testing.assert_array_equal(totals[failed], SUBSAMPLES.n_validation[failed])
    assert np.all(totals[~np.array(failed)] < SUBSAMPLES.n_validation[~np.array(failed)])


def test_prefit_classifiers_are_used_as_they_are():
    trees = [DecisionTreeClassifier(max_depth=d, random_state=0).fit(X[::2], Y[::2]) for d in (1, 2, 3)]
    pool = PrefitPool(CLASSES, trees)
    trained = pool.fit(X[1::2], Y[1::2], NoSubsamples(75, 3), range(3))
    assert all(one is other for one, other in zip(trained, trees, strict=True))
    with pytest.raises(ValueError, match="prefit estimator 0 predicts 'virginica'"):
        PrefitPool(CLASSES[:2], trees)
