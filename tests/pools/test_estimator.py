import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes._fingerprint import digest
from pacbayes._losses import resolve_loss
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import Constant, EstimatorPool, PrefitPool, Sample
from pacbayes.sampling import GivenSubsamples, NoSubsamples, RandomSubsamples

X, CODES = load_iris(return_X_y=True)
CLASSES = np.array(["setosa", "versicolor", "virginica"])
Y = CLASSES[CODES]
SUBSAMPLES = RandomSubsamples(150, [20, 40], 6, entropy=0)
SAMPLE = Sample(X, CODES, CLASSES)
ZERO_ONE = resolve_loss("zero_one", CLASSES)


def fit(pool, subsamples=SUBSAMPLES, hypotheses=range(6), entropy=0):
    return pool.train(SAMPLE, subsamples, hypotheses, entropy, None)


def test_totals_are_errors_on_the_points_that_did_not_train():
    trained = fit(EstimatorPool(DecisionTreeClassifier(max_depth=2)))
    totals = trained.loss_totals(SAMPLE, SUBSAMPLES, range(6), range(150), ZERO_ONE)
    for h, (tree, total) in enumerate(zip(trained, totals, strict=True)):
        rest = np.setdiff1d(np.arange(150), SUBSAMPLES[h])
        assert total == np.count_nonzero(tree.predict(X[rest]) != Y[rest])


@pytest.mark.parametrize("loss", ["zero_one", "brier", "absolute"])
def test_totals_add_up_over_blocks_and_ranges(loss):
    resolved = resolve_loss(loss, CLASSES)
    trained = fit(EstimatorPool(DecisionTreeClassifier(max_depth=2)))
    whole = trained.loss_totals(SAMPLE, SUBSAMPLES, range(6), range(150), resolved)
    blocks = [range(0, 1), range(1, 64), range(64, 150)]
    parts = [trained[2:5].loss_totals(SAMPLE, SUBSAMPLES, range(2, 5), b, resolved) for b in blocks]
    np.testing.assert_array_equal(sum(parts), whole[2:5])


def test_a_range_of_hypotheses_is_the_same_whoever_trains_it():
    pool = EstimatorPool(DecisionTreeClassifier(splitter="random"))
    whole, part = fit(pool, entropy=3), fit(pool, hypotheses=range(4, 6), entropy=3)
    for one, other in zip(whole[4:], part, strict=True):
        assert one.random_state == other.random_state
        np.testing.assert_array_equal(one.tree_.threshold, other.tree_.threshold)
    assert len({tree.random_state for tree in whole}) == 6


NEIGHBOURS = {"n_neighbors": [1, 3, 5]}
GRID_OF_TREES = {"tree": [make_pipeline(StandardScaler(), ExtraTreeClassifier()), ExtraTreeClassifier()]}


@pytest.mark.parametrize(
    "learner",
    [
        GridSearchCV(KNeighborsClassifier(), NEIGHBOURS, cv=ShuffleSplit(2)),
        GridSearchCV(KNeighborsClassifier(), NEIGHBOURS, cv=RepeatedKFold(n_splits=3, n_repeats=1)),
        CalibratedClassifierCV(GaussianNB(), cv=KFold(2, shuffle=True)),
        GridSearchCV(Pipeline([("tree", ExtraTreeClassifier())]), GRID_OF_TREES, cv=KFold(2)),
    ],
    ids=["search", "repeated", "calibrated", "grid of trees"],
)
def test_whatever_is_random_inside_a_learner_comes_from_its_stream(learner):
    before = repr(learner)
    first, again = (fit(EstimatorPool(learner), entropy=3) for _ in range(2))
    assert digest(first.fingerprint()) == digest(again.fingerprint())
    assert digest(first.fingerprint()) != digest(fit(EstimatorPool(learner), entropy=4).fingerprint())
    assert repr(learner) == before


def test_seeds_inside_a_learner_are_left_alone():
    for cv in (ShuffleSplit(2, random_state=5), KFold(2)):
        search = GridSearchCV(KNeighborsClassifier(), NEIGHBOURS, cv=cv)
        assert {one.cv.random_state for one in fit(EstimatorPool(search))} == {cv.random_state}


def test_parameters_are_drawn_per_hypothesis():
    distributions = {
        "logisticregression__C": stats.loguniform(1e-3, 1e3),
        "standardscaler": [StandardScaler(), "passthrough"],
    }
    estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000))
    trained = fit(EstimatorPool(estimator, param_distributions=distributions))
    assert len({pipeline[-1].C for pipeline in trained}) == 6
    assert {pipeline[0] == "passthrough" for pipeline in trained} == {True, False}
    again = fit(EstimatorPool(estimator, param_distributions=distributions))
    assert [p[-1].C for p in again] == [p[-1].C for p in trained]


def test_one_class_only_gives_the_constant_hypothesis():
    trained = fit(EstimatorPool(LogisticRegression()), GivenSubsamples(150, [range(60, 70)]), range(1))
    (hypothesis,) = trained
    assert isinstance(hypothesis, Constant)
    assert hypothesis.label == "versicolor"
    assert np.all(hypothesis.predict(X) == "versicolor")
    assert np.all(trained.votes(X) == 1)
    np.testing.assert_array_equal(trained.responses(X[:2], resolve_loss("brier", CLASSES))[0], [[0, 1, 0]] * 2)


def test_probabilities_of_classes_that_a_hypothesis_has_not_seen_are_zero():
    trained = fit(EstimatorPool(DecisionTreeClassifier()), GivenSubsamples(150, [[0, 1, 120, 121]]), range(1))
    probabilities = trained.responses(X, resolve_loss("brier", CLASSES))[0]
    assert probabilities.shape == (150, 3)
    assert np.all(probabilities[:, 1] == 0)
    assert set(trained.votes(X)[0]) <= {0, 2}


class Fussy(DummyClassifier):
    """Refuses subsamples whose first point is to the left."""

    def fit(self, X, y):
        if X[0, 0] < 5:
            raise RuntimeError("too far left")
        return super().fit(X, y)


def test_a_failing_learner_is_named_or_dropped():
    with pytest.raises(HypothesisError, match=r"hypothesis \d .* \(seed 7\): RuntimeError: too far left") as error:
        fit(EstimatorPool(Fussy()), entropy=7)
    assert isinstance(error.value.__cause__, RuntimeError)
    trained = fit(EstimatorPool(Fussy(), on_error="drop"), entropy=7)
    failed = [isinstance(h, Constant) for h in trained]
    assert any(failed)
    assert not all(failed)
    totals = trained.loss_totals(SAMPLE, SUBSAMPLES, range(6), range(150), ZERO_ONE)
    np.testing.assert_array_equal(totals[failed], SUBSAMPLES.n_validation[failed])
    assert np.all(totals[~np.array(failed)] < SUBSAMPLES.n_validation[~np.array(failed)])


def test_prefit_classifiers_are_used_as_they_are():
    trees = [DecisionTreeClassifier(max_depth=d, random_state=0).fit(X[::2], Y[::2]) for d in (1, 2, 3)]
    trained = fit(PrefitPool(trees), NoSubsamples(150, 3), range(3))
    assert all(one is other for one, other in zip(trained, trees, strict=True))
    assert all(one is other for one, other in zip(clone(PrefitPool(trees)).estimators, trees, strict=True))
    with pytest.raises(ValueError, match="prefit estimator 0 predicts 'virginica'"):
        PrefitPool(trees).check_classes(CLASSES[:2])


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (EstimatorPool(DecisionTreeClassifier(), param_distributions={"depth": [1]}), "parameters of .*got 'depth'"),
        (EstimatorPool("tree"), "must be a classifier or regressor with fit and predict, got 'tree'"),
        (
            EstimatorPool(DecisionTreeClassifier(), on_error="ignore"),
            "on_error must be 'raise' or 'drop', got 'ignore'",
        ),
        (PrefitPool([]), "at least one fitted classifier, got none"),
    ],
)
def test_settings_that_cannot_be_right(pool, message):
    with pytest.raises(ValueError, match=message):
        pool.check_settings()


def test_a_label_that_is_no_class_is_told():
    tree = DecisionTreeClassifier().fit(X, np.where(CODES == 0, "rose", Y))
    with pytest.raises(HypothesisError, match="predicts 'rose', which is none of the classes"):
        fit(PrefitPool([tree]), NoSubsamples(150, 1), range(1)).votes(X)


def test_hypotheses_are_described():
    trained = fit(
        EstimatorPool(DecisionTreeClassifier(max_depth=2)), GivenSubsamples(150, [range(5), range(0, 150, 9)]), range(2)
    )
    assert trained.describe(0) == "constant: always setosa"
    assert trained.describe(1).startswith("DecisionTreeClassifier(max_depth=2")


def test_a_classifier_that_has_predict_once_it_is_fitted():
    stack = StackingClassifier([("tree", DecisionTreeClassifier(max_depth=2)), ("bayes", GaussianNB())], cv=2)
    assert not hasattr(stack, "predict")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = PACBayesClassifier(stack, n_hypotheses=2, subsample_size=50, random_state=0).fit(X, X[:, 0] > 0)
    assert model.score(X, X[:, 0] > 0) > 0.8
