"""Regressors as scikit-learn's: its own checks, and searches over their settings."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_friedman1, make_moons
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacbayes import CertifiedGridSearch, PACBayesClassifier, PACBayesRegressor
from pacbayes.pools import LinearPool

X, y = make_friedman1(400, noise=1.0, random_state=0)


def checked(estimator, **parameters):
    return PACBayesRegressor(estimator, **{"n_hypotheses": 4, "random_state": 0, **parameters})


@parametrize_with_checks([checked(DecisionTreeRegressor(max_depth=4))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        checked(None, n_hypotheses="auto"),
        checked(Ridge(), voting="best", loss="squared_error", y_range=(-1e6, 1e6)),
    ]
)
def test_scikit_learn_checks_with_other_settings(estimator, check):
    check(estimator)


def test_a_search_takes_the_best_of_candidates_that_share_delta():
    regressor = checked(Ridge())
    grid = {"estimator": [Ridge(), DecisionTreeRegressor(max_depth=1)], "n_hypotheses": [2, 6]}
    search = CertifiedGridSearch(clone(regressor), grid).fit(X, y)
    assert is_regressor(search)
    assert not is_classifier(search)
    assert not hasattr(search, "predict_proba")
    assert not hasattr(search, "classes_")
    certificate = search.certificate_
    assert certificate.n_votes == 4 * len(search.best_estimator_.votes_)
    bounds = [result["bound"] for result in search.results_]
    assert search.best_params_["estimator"].__class__ is Ridge  # the stump is far worse
    assert certificate.error_bound in bounds
    widths = []
    for params in (result["params"] for result in search.results_):
        alone = clone(regressor).set_params(**params).fit_candidate(X, y, n_candidates=4)
        widths.append(alone.certificate_.choose_interval(0.9).mean_width)
    assert certificate.choose_interval(0.9).mean_width == min(widths)
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    np.testing.assert_array_equal(search.predict_interval(X, 0.8), search.best_estimator_.predict_interval(X, 0.8))
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.5


def test_candidates_may_compete_by_their_bounds():
    search = CertifiedGridSearch(checked(Ridge(), compete_by="error"), {"n_hypotheses": [2, 6]}).fit(X, y)
    bounds = [result["bound"] for result in search.results_]
    assert search.certificate_.error_bound == min(bounds)


@pytest.mark.parametrize("name", ["y_range", "compete_by", "loss", "delta"])
def test_settings_that_candidates_have_in_common(name):
    with pytest.raises(ValueError, match=f"param_grid must not hold {name}"):
        CertifiedGridSearch(checked(Ridge()), {name: [None]}).fit(X, y)


def test_a_search_of_classifiers_is_one():
    search = CertifiedGridSearch(PACBayesClassifier(LinearPool(n_hypotheses=2)), {"random_state": [0, 1]})
    assert is_classifier(search)
    search.fit(*make_moons(200, noise=0.2, random_state=0))
    assert not hasattr(search, "predict_interval")
    assert search.classes_.tolist() == [0, 1]
    assert search.predict_proba([[0.0, 0.0]]).shape == (1, 2)


def test_a_pipeline_inside_the_pool():
    model = checked(make_pipeline(StandardScaler(), Ridge())).fit(X, y)
    assert model.certificate_.strict
    assert model.score(X, y) > 0.5
