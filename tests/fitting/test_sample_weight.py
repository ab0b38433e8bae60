"""Weights of rows in training: what learners see, and that what is proved stays unweighted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pacbayes import CertifiedGridSearch, PACBayesClassifier, PACBayesRegressor
from pacbayes.pools import BoostingPool, EstimatorPool, ForestPool, LinearPool, RBFRidgePool, RBFSVMPool
from pacbayes.pools._learners import repeat_by_weight
from pacbayes.rows import ArraySource

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] + 0.7 * RNG.normal(size=300) > 1).astype(int)
HEAVY = np.where(Y == 1, 5.0, 1.0)
LEARNED = {
    "boosting": BoostingPool(kind="leafwise", learning_rate=0.1, max_iter=10),
    "forest": ForestPool(n_estimators=10),
    "random forest": ForestPool(kind="random", n_estimators=10),
    "linear": LinearPool(C=1.0, splines=False),
    "svm": RBFSVMPool(C=10.0, scaler="standard"),
    "tree": EstimatorPool(DecisionTreeClassifier(max_depth=3)),
    "logistic": EstimatorPool(LogisticRegression()),
}


def fit(pool, weights=None, **settings):
    model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=0.5, random_state=0, **settings)
    return model.fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("name", LEARNED)
def test_weights_change_what_is_learned_and_not_what_is_measured(name):
    plain, weighted = fit(LEARNED[name]), fit(LEARNED[name], HEAVY)
    # Class 1 counts five times: more points are predicted to be of it.
    assert weighted.predict(X).mean() > plain.predict(X).mean()
    # Losses and tests are those of rows as they come.
    h = int(np.argmax(weighted.posterior_))
    vote = weighted.votes_[weighted.fitted_votes_.winner]
    made_by = vote.split.rows
    outside = made_by[np.setdiff1d(np.arange(made_by.size), weighted.subsamples_[h])]
    assert weighted.losses_[h] == np.mean(weighted.hypotheses_[h].predict(X[outside]) != Y[outside])
    held_out = vote.split.held_out
    assert weighted.certificate_.statements[0].figures["errors"] == np.sum(weighted.predict(X[held_out]) != Y[held_out])
    assert "training-weighted" in weighted.certificate_.assumption_codes
    assert weighted.verify_certificate(weighted.certificate_, X, Y) == "arithmetic, model and data"


@pytest.mark.parametrize("name", LEARNED)
def test_equal_weights_are_none(name):
    plain, weighted = fit(LEARNED[name]), fit(LEARNED[name], np.full(300, 3.0))
    if name != "logistic":  # whose penalty is relative to the weights
        np.testing.assert_array_equal(weighted.losses_, plain.losses_)
        np.testing.assert_array_equal(weighted.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("name", LEARNED)
def test_rows_without_weight_are_not_learned_from(name):
    other = Y.copy()
    ignored = np.arange(300) % 3 == 0
    other[ignored] = 1 - other[ignored]
    weights = np.where(ignored, 0.0, RNG.uniform(0.5, 2, size=300))
    for labels in (Y, other):
        model = PACBayesClassifier(LEARNED[name], n_hypotheses=4, subsample_size=0.5, random_state=0, racing=False)
        model.fit(X, labels, sample_weight=weights)
        answers = [hypothesis.predict(X) for hypothesis in model.votes_[0].hypotheses]
        if labels is Y:
            expected = answers
    np.testing.assert_array_equal(answers, expected)


def test_whole_weights_are_repetitions():
    """The oracle: a learner that is given the rows as often as their weights say."""
    weights = RNG.integers(0, 4, 200)
    rows = repeat_by_weight(weights.astype(float), Y[:200], RNG)
    np.testing.assert_array_equal(np.bincount(rows, minlength=200), weights)


def test_other_weights_are_repetitions_in_proportion():
    weights, codes = RNG.exponential(size=500), np.zeros(500, dtype=int)
    counts = np.array([np.bincount(repeat_by_weight(weights, codes, RNG), minlength=500) for _ in range(200)])
    wanted = weights / weights.sum() * 1000
    assert np.all(np.abs(counts - wanted) < 1 + 1e-9)
    np.testing.assert_allclose(counts.mean(axis=0), wanted, atol=0.2)
    assert set(counts.sum(axis=1)) <= {1000, 1001}
    # A class of next to no weight stays one.
    codes[7], weights[7] = 1, 1e-9
    assert 7 in repeat_by_weight(weights, codes, RNG)


@pytest.mark.parametrize("name", ["boosting", "linear"])
def test_numbers(name):
    target = X[:, 1] + np.where(X[:, 0] > 0, 3.0, -3.0)
    weights = np.where(X[:, 0] > 0, 10.0, 1.0)
    settings = {"n_hypotheses": 4, "subsample_size": 0.5, "random_state": 0, "y_range": (-8.0, 8.0)}
    weighted, plain = (
        PACBayesRegressor(LEARNED[name], **settings).fit(X, target, sample_weight=one) for one in (weights, None)
    )
    assert weighted.predict(X).mean() > plain.predict(X).mean() + 0.5
    assert weighted.feature_importances(X, target, n_repeats=2).importances_mean.argmin() == 2


def test_families_that_take_no_weights_are_left_out_or_named():
    default = PACBayesClassifier(random_state=0).fit(X, Y, sample_weight=HEAVY)
    assert list(default.subsamples_.families) == ["boosting", "forest", "linear", "svm"]
    numbers = PACBayesRegressor(n_hypotheses=12, random_state=0).fit(X, X[:, 0] + Y, sample_weight=HEAVY)
    assert list(numbers.subsamples_.families) == ["boosting", "forest", "linear"]
    assert "left-out:ridge" in numbers.certificate_.assumption_codes
    with pytest.raises(ValueError, match="sample_weight must be None: RBFRidgePool takes no weights of rows; Boosting"):
        PACBayesRegressor(RBFRidgePool()).fit(X, X[:, 0], sample_weight=HEAVY)
    for learner in (KNeighborsClassifier(), make_pipeline(StandardScaler(), LogisticRegression())):
        message = f"sample_weight must be None: {type(learner).__name__}.fit takes no sample_weight"
        with pytest.raises(ValueError, match=message):
            fit(EstimatorPool(learner), HEAVY)
    # Text as well.
    table = pd.DataFrame({"x": X[:, 0], "city": np.where(X[:, 1] > 0, "Oslo", "Rome")})
    model = PACBayesClassifier(LEARNED["linear"], n_hypotheses=4, random_state=0)
    assert model.fit(table, Y, sample_weight=HEAVY).predict(table).mean() > Y.mean()


def test_candidates_of_a_search():
    settings = {"n_hypotheses": 4, "subsample_size": 0.5, "random_state": 0}
    search = CertifiedGridSearch(PACBayesClassifier(LEARNED["linear"], **settings), {"estimator__C": [0.1, 1.0]})
    search.fit(X, Y, sample_weight=HEAVY)
    best = PACBayesClassifier(LEARNED["linear"], **settings).set_params(**search.best_params_)
    best.fit_candidate(X, Y, n_candidates=2, sample_weight=HEAVY)
    np.testing.assert_array_equal(search.predict_proba(X), best.predict_proba(X))
    assert search.certificate_ == best.certificate_
    assert "training-weighted" in search.certificate_.assumption_codes
    for others in ({"weights": HEAVY}, {"n_candidates": 1}):
        with pytest.raises(TypeError, match="fit takes no parameters besides X, y"):
            search.fit(X, Y, **others)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(299), "a number for each of the 300 rows, got shape"),
        (-HEAVY, "finite numbers that are not negative, got -1.0 in row 0"),
        (np.full(300, np.nan), "not negative, got nan in row 0"),
        (np.zeros(300), "not negative, got zeros only"),
        (HEAVY * 1e307, "a finite sum, got numbers up to"),
        (["heavy"] * 300, "sample_weight must be"),
    ],
)
def test_weights_that_cannot_be(weights, message):
    with pytest.raises(ValueError, match=message):
        fit(LEARNED["tree"], weights)


def test_where_weights_cannot_be_used(tmp_path):
    with pytest.raises(ValueError, match="sample_weight must be None unless all rows are in memory"):
        PACBayesClassifier(LEARNED["forest"]).fit(ArraySource(X, Y), sample_weight=HEAVY)
    model = fit(LEARNED["tree"], HEAVY, racing=False)
    with pytest.raises(ValueError, match="sample_weight must be None for a fit that hypotheses are added to"):
        model.add_hypotheses(X, Y, 8)
    with pytest.raises(TypeError, match=r"besides X, y, groups, max_error and sample_weight, got \['weights'\]"):
        PACBayesClassifier().fit(X, Y, weights=Y)
