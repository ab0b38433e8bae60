"""Importances of features on rows that had no part in training, and scikit-learn's partial dependence."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 1] + 0.3 * RNG.normal(size=400) > 0).astype(int)
TABLE = pd.DataFrame({"noise": X[:, 0], "size": X[:, 1], "city": np.where(X[:, 2] > 0, "Oslo", "Rome")})


def fit(rows=X, estimator=None, **settings):
    pool = DecisionTreeClassifier(max_depth=3) if estimator is None else estimator
    return PACBayesClassifier(pool, n_hypotheses=12, subsample_size=0.4, random_state=0, **settings).fit(rows, Y)


def test_held_out_rows_are_used_of_the_sample():
    model = fit()
    found = model.feature_importances(X, Y, n_repeats=3)
    assert found.importances.shape == (3, 3)
    assert found.importances_mean[1] > 0.2
    assert np.abs(found.importances_mean[[0, 2]]).max() < 0.05
    held_out = np.sort(model.votes_[model.fitted_votes_.winner].split.held_out)
    expected = permutation_importance(model, X[held_out], Y[held_out], n_repeats=3, random_state=0)
    np.testing.assert_allclose(found.importances, expected.importances, atol=1e-12)


def test_without_held_out_rows_each_is_predicted_by_those_not_trained_on_it():
    """The control: trees that know their rows by heart make every feature seem to matter."""
    labels = RNG.integers(0, 2, 400)
    tree = DecisionTreeClassifier()
    model = PACBayesClassifier(tree, n_hypotheses=12, subsample_size=0.6, holdout=None, random_state=0).fit(X, labels)
    fair = model.feature_importances(X, labels).importances_mean
    known = permutation_importance(model, X, labels, random_state=0).importances_mean
    assert np.abs(fair).max() < 0.06
    assert known.min() > 0.1
    learned = fit(holdout=None).feature_importances(X, Y)
    assert learned.importances_mean[1] > 0.2


def test_new_rows_and_tables():
    model = PACBayesClassifier(n_hypotheses=12, random_state=0).fit(TABLE, Y)
    assert model.feature_importances(TABLE, Y).importances_mean.argmax() == 1
    fresh = RNG.normal(size=(200, 3))
    new = pd.DataFrame({"noise": fresh[:, 0], "size": fresh[:, 1], "city": np.where(fresh[:, 2] > 0, "Oslo", "Rome")})
    assert model.feature_importances(new, fresh[:, 1] > 0, max_rows=150).importances_mean.argmax() == 1


@pytest.mark.parametrize("voting", ["gibbs", "best", "uniform"])
@pytest.mark.parametrize("holdout", [0.4, None])
def test_other_voting(voting, holdout):
    model = fit(voting=voting, holdout=holdout)
    found = model.feature_importances(X, Y, n_repeats=2)
    assert found.importances_mean.argmax() == 1
    np.testing.assert_array_equal(model.feature_importances(X, Y, n_repeats=2).importances, found.importances)


def test_rows_that_cannot_be_used():
    model = fit()
    with pytest.raises(ValueError, match="rows of the training sample"):
        model.feature_importances(X[:200], Y[:200])
    with pytest.raises(ValueError, match="max_rows must be a whole number, at least 1, got 0"):
        model.feature_importances(X, Y, max_rows=0)
    reserved = fit(estimator=RBFSVMPool(gamma_source="reserved"), holdout=None)
    with pytest.raises(ValueError, match="X must be new points where points are reserved"):
        reserved.feature_importances(X, Y)


def test_partial_dependence_of_arrays_and_tables():
    mpl.use("agg")
    for rows, features in ((X, [0, 1]), (TABLE, ["size", "city"])):
        model = PACBayesClassifier(n_hypotheses=8, random_state=0).fit(rows, Y)
        named = {"categorical_features": ["city"]} if rows is TABLE else {}
        shown = PartialDependenceDisplay.from_estimator(model, rows, features, grid_resolution=8, **named)
        place = features.index(1 if rows is X else "size")
        curve = shown.pd_results[place]["average"][0]
        assert curve[0] < 0.25
        assert curve[-1] > 0.75
        mpl.pyplot.close("all")
