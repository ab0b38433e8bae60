"""Boosted trees, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn_trees import from_boosting

from pacbayes.pools import TreeArrays, TreeEnsembles, _tree_training
from pacbayes.pools._table_encoding import TableEncoding

SETTINGS = {"learning_rate": 0.1, "max_iter": 12, "max_leaf_nodes": 15, "min_samples_leaf": 5, "l2_regularization": 0.0}


def train(X, codes, encoding=None, seed=0, **changes):
    settings = {**SETTINGS, "max_features": 1.0, "loss": "squared", **changes}
    n_classes = int(codes.max()) + 1
    models = TreeArrays.train_boosting(X, codes, np.arange(n_classes), encoding, settings, seed)
    return TreeEnsembles(np.arange(n_classes), models, np.arange(1))


def oracle(X, codes, sets=None, **changes):
    settings = {**SETTINGS, **changes}
    return HistGradientBoostingClassifier(**settings, early_stopping=False, categorical_features=sets).fit(X, codes)


def make_points(n, n_classes, missing, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 5)), 1)
    score = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("changes", [{}, {"min_samples_leaf": 1, "l2_regularization": 10.0}, {"max_leaf_nodes": 4}])
def test_the_loss_is_that_of_scikit_learn(n_classes, missing, changes):
    """Trees differ where two splits are as good, which rounding decides: then, both are."""
    X, codes = make_points(500, n_classes, missing, seed=n_classes)
    ours, theirs = train(X, codes, **changes)[0].predict_proba(X), oracle(X, codes, **changes).predict_proba(X)
    losses = [-np.log(p[np.arange(500), codes]).mean() for p in (ours, theirs)]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert np.mean(np.abs(ours - theirs).max(axis=1) < 1e-9) > 0.5 or np.abs(ours - theirs).mean() < 0.02


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_tree_is_that_of_scikit_learn(n_classes):
    X, codes = make_points(400, n_classes, 0.0, seed=1)
    model = oracle(X, codes, max_iter=1)
    expected, found = from_boosting(model, np.arange(n_classes)), train(X, codes, max_iter=1).models
    for name in ("tree_sizes", "feature", "missing_left"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("baseline", "threshold"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.values[found.leaf], expected.values[expected.leaf], rtol=1e-9, atol=1e-12)


def test_splits_by_sets_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 40, 3000), rng.integers(0, 7, 3000), np.round(rng.normal(size=3000), 1)])
    codes = (np.sin(X[:, 0]) + X[:, 2] > 0).astype(int)
    tables = np.concatenate([[np.nan], np.arange(40), [np.nan], np.arange(7)])
    encoding = TableEncoding(np.arange(3), np.array([41, 8, 0]), tables, n_sets=2)
    found, model = train(X, codes, encoding), oracle(X, codes, sets=[0, 1])
    expected = from_boosting(model, [0, 1], encoding)
    np.testing.assert_array_equal(found.models.sets, expected.sets)
    np.testing.assert_allclose(found[0].predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-9)
    unknown = X.copy()
    unknown[:, 0] = -1
    model_unknown = np.where(unknown < 0, np.nan, unknown)
    model_unknown[:, 2] = X[:, 2]
    np.testing.assert_allclose(found[0].predict_proba(unknown), model.predict_proba(model_unknown), rtol=0, atol=1e-9)


def test_more_values_than_bins():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    X[:, 2] = np.where(rng.random(4000) < 0.5, 0.0, X[:, 2])  # half of them in one bin
    codes = (X[:, 0] + X[:, 2] > 0).astype(int)
    new = rng.normal(size=(2000, 3))
    truth = (new[:, 0] + new[:, 2] > 0).astype(int)
    errors = [
        np.mean(model.predict(new) != truth)
        for model in (train(X, codes, max_iter=60)[0], oracle(X, codes, max_iter=60))
    ]
    assert errors[0] < errors[1] + 0.01 < 0.06


def test_features_are_drawn_from_the_seed():
    X, codes = make_points(300, 2, 0.1, seed=3)
    same, again, other = (train(X, codes, max_features=0.4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(same.models.feature, again.models.feature)
    assert not np.array_equal(same[0].predict_proba(X), other[0].predict_proba(X))
    every = train(X, codes, max_features=0.4, max_iter=40).models.feature
    assert set(every[every >= 0]) == set(range(5))


def test_leaves_whose_sums_overflow_are_refused():
    X, codes = make_points(60, 3, 0.0, seed=0)
    assert np.isfinite(train(X, codes, learning_rate=1e290)[0].predict_proba(X)).all()
    with pytest.raises(ValueError, match="learning_rate must be smaller, got 1e\\+308"):
        train(X, codes, learning_rate=1e308)


def test_points_that_cannot_be_split():
    X = np.column_stack([np.full(20, np.nan), np.ones(20)])
    codes = np.arange(20) % 2
    assert train(X, codes)[0].predict_proba(X) == pytest.approx(0.5)
    X[:, 0] = np.where(codes, np.nan, 3.0)  # what is missing tells the classes
    np.testing.assert_array_equal(train(X, codes, min_samples_leaf=1)[0].predict(X), codes)
    neighbours = np.repeat([1.0, np.nextafter(1.0, 2.0)], 10)[:, np.newaxis]
    labels = np.repeat([0, 1], 10)
    np.testing.assert_array_equal(train(neighbours, labels)[0].predict(neighbours), labels)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_sets": 3},
        {"n_candidates": 0},
        {"n_candidates": 3},
        {"targets": np.zeros(3, dtype=np.int32)},
        {"min_leaf": 0},
    ],
)
def test_what_makes_no_sense_is_refused(changes):
    arguments = {"X": np.zeros((4, 2)), "n_sets": 0, "targets": np.zeros(4, dtype=np.int32), "baseline": np.zeros(1)}
    arguments |= {"learning_rate": 0.1, "n_rounds": 1, "max_leaves": 4, "min_leaf": 1, "n_candidates": 2, "l2": 0.0}
    _tree_training.boost(**arguments, seed=0)
    with pytest.raises(ValueError, match="must"):
        _tree_training.boost(**{**arguments, **changes}, seed=0)
    with pytest.raises(ValueError, match="from 0 to 254"):
        _tree_training.boost(**{**arguments, "X": np.full((4, 2), 255.0), "n_sets": 1}, seed=0)
