"""Boosted trees, forests and linear models that predict numbers, against scikit-learn's."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeRegressor
from sklearn_trees import from_boosting

from pacbayes._fingerprint import digest
from pacbayes._losses import Loss
from pacbayes.exceptions import HypothesisError
from pacbayes.fitting._checkpoint import from_arrays, to_arrays
from pacbayes.pools import (
    BoostingPool,
    EstimatorPool,
    ForestPool,
    LinearPool,
    Sample,
    UnionPool,
    _scores,
    _tree_training,
    make_union,
)
from pacbayes.pools._learners import _standardise
from pacbayes.pools._table_encoding import target_statistics
from pacbayes.rows import CodeBook
from pacbayes.sampling import LEARNER, GivenSubsamples, RandomSubsamples, stream

NUMBERS = np.empty(0)
POOLS = {
    "boosting": BoostingPool(learning_rate=(0.1, 0.3), max_iter=8, max_leaf_nodes=(3, 5)),
    "forest": ForestPool(kind=("extra", "random"), n_estimators=4, max_leaf_nodes=(None, 20)),
    "linear": LinearPool(C=(0.1, 1.0, 1.0), splines=(False, True)),
}
CAPPED = Loss("capped", lambda y, predicted: np.minimum(np.abs(y - predicted), 1.0))


def make_array(n=200, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, 100 + 7 * y


def make_table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D")
    texts = [f"t{i}" for i in rng.integers(0, 60, n)]
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["u", "v", "w"], n), "c": texts, "d": days})
    y = 5 * table["a"] + 20 * (table["b"] == "u") + rng.normal(size=n)
    return table.mask(rng.random(table.shape) < 0.1), y.to_numpy()


def sample_of(X, y):
    if isinstance(X, np.ndarray):
        return Sample(X, y, NUMBERS)
    book = CodeBook.learn(X)
    return Sample(book.encode(X), y, NUMBERS, book)


def train_one(pool, X, y, book=None, entropy=0):
    """Return the hypothesis that a pool trains on all points but the last, which is not looked at."""
    sample, subsamples = Sample(X, y, NUMBERS, book), GivenSubsamples(len(y), [np.arange(len(y) - 1)])
    return pool.train(sample, subsamples, [0], entropy, None)


@pytest.mark.parametrize("name", ["boosting", "linear"])
def test_numbers_have_settings_that_were_found_on_numbers(name):
    """What "auto" stands for was found on classes, and may change with them."""
    pool = dict(make_union(numeric=True).families)[name]
    assert "auto" not in [getattr(pool, setting) for setting in pool._SETTINGS]


# What makes boosted trees those of scikit-learn.
LEAFWISE = {"kind": "leafwise", "max_samples": 1.0, "random_strength": 0.0}


# -- against scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "changes", [{}, {"min_samples_leaf": 1, "l2_regularization": 10.0}, {"max_leaf_nodes": 4, "learning_rate": 0.5}]
)
def test_boosted_trees_are_those_of_scikit_learn(missing, changes):
    X, y = make_array(500, missing=missing)
    settings = {"learning_rate": 0.1, "max_iter": 12, "max_leaf_nodes": 15, "min_samples_leaf": 5, **changes}
    settings = {"l2_regularization": 0.0, **settings}
    ours = train_one(BoostingPool(**LEAFWISE, **settings), X, y)[0].predict(X)
    theirs = HistGradientBoostingRegressor(**settings, early_stopping=False).fit(X[:-1], y[:-1]).predict(X)
    # Where two splits are as good, rounding decides.
    assert np.mean(np.abs(ours - theirs) < 1e-5) > 0.5
    assert np.abs(ours - y).mean() == pytest.approx(np.abs(theirs - y).mean(), rel=0.01)


def test_a_tree_is_that_of_scikit_learn():
    X, y = make_array(401)
    model = HistGradientBoostingRegressor(max_iter=1, early_stopping=False).fit(X[:-1], y[:-1])
    settings = {"max_leaf_nodes": 31, "min_samples_leaf": 20, "l2_regularization": 0.0}
    pool = BoostingPool(max_iter=1, learning_rate=0.1, **settings, **LEAFWISE)
    expected, found = from_boosting(model, []), train_one(pool, X, y).models
    for name in ("tree_sizes", "feature", "missing_left"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("baseline", "threshold"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.values[found.leaf], expected.values[expected.leaf], rtol=1e-5, atol=1e-6)


def test_hubers_loss_weighs_large_errors_less():
    """A step on points that one split divides: towards means with weights by which large errors are absolute."""
    rng = np.random.default_rng(0)
    is_left = np.arange(101) < 40
    y = rng.standard_t(1.5, size=101) + np.where(is_left, 0.0, 3.0)
    settings = {"learning_rate": 0.5, "n_rounds": 1, "max_leaves": 4, "min_leaf": 1, "n_candidates": 1, "l2": 2.0}
    arguments = (np.where(is_left, 0.0, 1.0)[:, np.newaxis], 0, y, np.array([0.3]))
    for share in (1.0, 0.7, 0.5):
        errors = np.abs(y - 0.3)
        weights = np.minimum(1, np.sort(errors)[int(np.ceil(share * 101)) - 1] / errors)
        trees = _tree_training.boost(*arguments, **settings, seed=0, squared_share=share)
        expected = [0.5 * (weights[i] @ (y[i] - 0.3)) / (weights[i].sum() + 2) for i in (is_left, ~is_left)]
        np.testing.assert_allclose(trees["values"][trees["leaf"]], expected, rtol=1e-5)
    for share in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="squared_share must be in"):
            _tree_training.boost(*arguments, **settings, seed=0, squared_share=share)


def test_hubers_loss_is_better_where_errors_have_heavy_tails():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(801, 3))
    truth = 2 * np.tanh(X[:, 0]) + X[:, 1]
    y = truth + 0.5 * rng.standard_t(1.5, size=801)
    squared, huber = (
        np.abs(train_one(BoostingPool(loss=loss), X, y)[0].predict(X) - truth).mean() for loss in ("squared", "huber")
    )
    assert huber < 0.8 * squared


def test_splits_by_sets_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 3000), rng.integers(0, 7, 3000)]).astype(float)
    y = 10 * np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=3000)
    table = pd.DataFrame({"a": [f"{x:02.0f}" for x in X[:, 0]], "b": [f"{x:.0f}" for x in X[:, 1]]})
    book = CodeBook.learn(table)
    settings = {"max_iter": 20, "max_leaf_nodes": 15, "min_samples_leaf": 5, "l2_regularization": 1.0}
    found = train_one(BoostingPool(learning_rate=0.1, **settings, **LEAFWISE), book.encode(table), y, book)
    model = HistGradientBoostingRegressor(**settings, categorical_features=[0, 1], early_stopping=False)
    assert found.models.sets.any()
    np.testing.assert_allclose(found[0].predict(table), model.fit(X[:-1], y[:-1]).predict(X), rtol=0, atol=1e-4)


def test_random_forests_are_those_of_scikit_learn():
    X, y = make_friedman1(200, 6, noise=1.0, random_state=0)
    pool = ForestPool(kind="random", n_estimators=7, max_features=0.5, min_samples_leaf=2)
    found = train_one(pool, X, y, entropy=5)
    seed = int(stream(5, 0, LEARNER).integers(2**31))
    model = RandomForestRegressor(7, max_features=0.5, min_samples_leaf=2, random_state=seed)
    center, scale, standardised = _standardise(y[:-1])  # of which rounding decides between splits as good
    assert (center, scale) == (pytest.approx(y[:-1].mean()), pytest.approx(y[:-1].std()))
    expected = center + scale * model.fit(X[:-1], standardised).predict(X)
    np.testing.assert_allclose(found[0].predict(X), expected, rtol=1e-12)


@pytest.mark.parametrize("changes", [{}, {"min_samples_leaf": 3}, {"max_leaf_nodes": 30}])
def test_extra_trees_have_the_errors_of_scikit_learn(changes):
    X, y = make_friedman1(2000, noise=1.0, random_state=0)
    errors = []
    for seed in range(2):
        settings = {"n_estimators": 50, "max_features": 0.5, "min_samples_leaf": 1, "max_leaf_nodes": None, **changes}
        ours = train_one(ForestPool(**settings), X[:601], y[:601], entropy=seed)[0]
        theirs = ExtraTreesRegressor(**settings, random_state=seed).fit(X[:600], y[:600])
        errors.append([np.abs(model.predict(X[601:]) - y[601:]).mean() for model in (ours, theirs)])
    ours, theirs = np.mean(errors, axis=0)
    assert ours == pytest.approx(theirs, rel=0.03)


def test_extra_trees_split_where_the_variance_falls_most():
    """With one candidate of two values, thresholds are no choice: the best feature is the one that explains more."""
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]], dtype=np.float32)
    y = np.array([1.0, 2.0, 11.0, 12.0, 1.0, 12.0])
    arguments = {"n_classes": 0, "n_trees": 1, "min_leaf": 1, "max_leaves": 2, "n_candidates": 2, "seed": 3}
    tree = _tree_training.randomise(X, y, **arguments)
    assert tree["feature"].tolist() == [0, -1, -1]
    np.testing.assert_allclose(tree["values"][tree["leaf"]], [4 / 3, 35 / 3])
    X[:, 0] = np.where(X[:, 0] == 1, np.nan, 0)  # what is missing tells as much
    tree = _tree_training.randomise(X, y, **arguments)
    np.testing.assert_allclose(np.sort(tree["values"]), [4 / 3, 35 / 3])
    whole = train_one(ForestPool(n_estimators=3, min_samples_leaf=1), *make_array())[0]
    X, y = make_array()
    different = np.unique(X[:-1], axis=0, return_index=True)[1]
    assert np.abs(whole.predict(X[different]) - y[different]).max() < 7  # leaves of equal points alone


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_ridge_regressions_are_those_of_scikit_learn(C, monkeypatch):
    X, y = make_array()
    X[:, 3] = 0.3  # does not vary
    found = train_one(LinearPool(C=C, splines=False), X, y)
    scaler = StandardScaler().fit(X[:-1])
    expected = Ridge(1 / C).fit(scaler.transform(X[:-1]), y[:-1]).predict(scaler.transform(X))
    np.testing.assert_allclose(found[0].predict(X), expected, rtol=1e-10)
    assert str(found[0]) == f"ridge regression of 4 features, C = {C:g}"


def test_ridge_regressions_of_splines_are_those_of_scikit_learn():
    X, y = make_array(300)
    found = train_one(LinearPool(C=2.0, splines=True), X, y)
    expander = SplineTransformer(5, extrapolation="constant").fit(X[:-1])
    new = np.vstack([X, 3 * X])
    expected = Ridge(0.5).fit(expander.transform(X[:-1]), y[:-1]).predict(expander.transform(new))
    np.testing.assert_allclose(found[0].predict(new), expected, rtol=1e-9)


def test_ridge_regressions_of_categories_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=301), "b": rng.choice(["u", "v", "w"], 301)})
    y = table["a"].to_numpy() + 3 * (table["b"] == "v").to_numpy() + 0.1 * rng.normal(size=301)
    book = CodeBook.learn(table)
    found = train_one(LinearPool(C=1.0, splines=False), book.encode(table), y, book)
    encode = OneHotEncoder(sparse_output=False).fit(table[["b"]]).transform
    number = (table["a"] - table["a"][:-1].mean()) / table["a"][:-1].std(ddof=0)
    points = np.column_stack([number, encode(table[["b"]])])
    np.testing.assert_allclose(found[0].predict(table), Ridge(1.0).fit(points[:-1], y[:-1]).predict(points), rtol=1e-9)


@pytest.mark.parametrize("duplicated", [False, True])
def test_many_weights_are_found_step_by_step(duplicated):
    """More than can be factorised; and columns that make each other up, without a penalty to speak of."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) if duplicated else rng.normal(size=(60, 1600))
    X = np.hstack([X, X]) if duplicated else X
    y, weights = X[:, 0] - X[:, 1], np.zeros((X.shape[1] + 1, 1))
    alpha = 1e-18 if duplicated else 30.0
    none = np.empty((60, 0), dtype=np.int32)
    _scores.train_linear(X, none, np.empty((60, 0)), y, alpha / 60, 1e-9, 1000, weights)
    fitted = X @ weights[:-1, 0] + weights[-1, 0]
    np.testing.assert_allclose(fitted, Ridge(alpha, solver="svd").fit(X, y).predict(X), rtol=0, atol=1e-6)


def test_statistics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    entries, y = rng.integers(1, 30, 400), rng.normal(size=400)
    y += np.sin(entries)
    y = (y - y.mean()) / y.std()
    table, features = target_statistics(entries, y, 31, np.random.default_rng(0))
    encoder = TargetEncoder(target_type="continuous").fit(entries[:, np.newaxis], y)
    seen = np.unique(entries)
    np.testing.assert_allclose(table[seen, 0], encoder.transform(seen[:, np.newaxis])[:, 0], rtol=1e-9)
    assert table[0, 0] == pytest.approx(0)  # that of all points, for unknown categories
    # A point's own target takes part in the mean of all points alone, which it has in common with another category.
    fold = np.random.default_rng(0).permutation(400) % 5  # in one part, so that the variance of the others stays
    other = int(np.flatnonzero((entries != entries[-1]) & (fold == fold[-1]))[0])
    y[[other, -1]] = y[[-1, other]]
    again = target_statistics(entries, y, 31, np.random.default_rng(0))[1]
    assert again[-1, 0] == pytest.approx(features[-1, 0], rel=1e-12)


# -- as hypotheses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("make", [make_array, make_table])
def test_hypotheses_of_numbers(name, make):
    X, y = make()
    pool, sample, subsamples = POOLS[name], sample_of(X, y), RandomSubsamples(200, [120, 150], 4, entropy=1)
    trained = pool.train(sample, subsamples, range(4), 1, None)
    assert trained.is_numeric
    assert trained.vote_by == "labels"
    votes, uncertain = trained.votes_and_uncertain(X)
    assert votes.dtype == np.float64
    assert not uncertain.any()
    np.testing.assert_array_equal(votes[2], trained[2].predict(X))
    assert not hasattr(trained[2], "predict_proba")
    assert np.abs(votes.mean(axis=0) - y).mean() < 0.8 * np.abs(y - np.median(y)).mean()
    # One by one, in other blocks, from arrays of a checkpoint and from a pickle: the same bits.
    alone = pool.train(sample, subsamples, [2], 1, None)
    np.testing.assert_array_equal(alone.votes(X)[0], votes[2])
    np.testing.assert_array_equal(trained.votes(X[150:]), votes[:, 150:])
    again = from_arrays(to_arrays(trained), sample)
    assert digest(again.fingerprint()) == digest(trained.fingerprint())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(trained.take(np.array([3, 1])))).votes(X), votes[[3, 1]])
    block = np.arange(20, 170)
    totals = trained.loss_totals(sample, subsamples, range(4), block, CAPPED)
    for h in range(4):
        outside = np.setdiff1d(block, subsamples[h])
        assert totals[h] == CAPPED.total(y[outside], votes[h, outside], 200)


@pytest.mark.parametrize("name", POOLS)
def test_a_hypothesis_is_a_function_of_its_subsample(name):
    table, y = make_table()
    subsamples = RandomSubsamples(200, [120, 150], 4, entropy=1)
    expected = POOLS[name].train(sample_of(table, y), subsamples, range(4), 1, None)[2].predict(table)
    rows, outside = subsamples[2], np.setdiff1d(np.arange(200), subsamples[2])
    other, targets = table.copy(), y.copy()
    other.loc[outside, "a"] *= 1000
    other.loc[outside, "c"] = [f"other {i}" for i in range(outside.size)]
    targets[outside] += 1e6
    alone = POOLS[name].train(sample_of(other, targets), subsamples, [2], 1, None)
    np.testing.assert_array_equal(alone[0].predict(other.iloc[rows]), expected[rows])


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(("center", "scale"), [(1e6, 1e-3), (0.0, 1e200), (0.0, 1e-300)])
def test_predictions_follow_the_unit_of_the_target(name, center, scale):
    X, y = make_array()
    y = (y - y.mean()) / y.std()
    predicted = train_one(POOLS[name], X, y)[0].predict(X)
    other = train_one(POOLS[name], X, center + scale * y)[0].predict(X)
    np.testing.assert_allclose((other - center) / scale, predicted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", POOLS)
def test_constants_and_learners_that_fail(name, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no way")

    X, y = make_array()
    y[:50] = 3.5
    sample, subsamples = Sample(X, y, NUMBERS), GivenSubsamples(200, [np.arange(50), np.arange(40, 80), np.array([70])])
    trained = POOLS[name].train(sample, subsamples, range(3), 0, None)
    assert str(trained[0]) == "constant: always 3.5"
    np.testing.assert_array_equal(trained.votes(X)[[0, 2]], np.repeat([[3.5], [y[70]]], 200, axis=1))
    trained.models.check(0, 4)
    pool = clone(POOLS[name])
    monkeypatch.setattr(type(pool), "_fit", fail)
    with pytest.raises(HypothesisError, match=r"hypothesis 1 could not be trained on its 40 points .*no way"):
        pool.train(sample, subsamples, range(3), 0, None)
    trained = pool.set_params(on_error="drop").train(sample, subsamples, range(3), 0, None)
    assert trained.models.failed.tolist() == [False, True, False]
    assert "could not be trained" in str(trained[1])
    totals = trained.loss_totals(sample, subsamples, range(3), np.arange(200), CAPPED)
    assert totals[1] == 160
    trained.models.check(0, 4)


@pytest.mark.parametrize("name", POOLS)
def test_what_cannot_be_trained(name):
    X, y = make_array()
    pool, sample = POOLS[name], Sample(X, y, NUMBERS)
    assert pool.find_obstacle(sample, CAPPED) is None
    assert pool.predicts == ("classes", "numbers")
    assert "no sparse matrices" in pool.find_obstacle(replace(sample, X=sp.csr_matrix(X)), CAPPED)
    balanced = clone(pool).set_params(class_weight="balanced")
    assert "class_weight must be None where numbers" in balanced.find_obstacle(sample, CAPPED)


@pytest.mark.parametrize("name", ["boosting", "forest"])
def test_leaves_whose_sums_overflow_are_refused(name):
    X, _ = make_array()
    with pytest.raises(HypothesisError, match="targets must be smaller"):
        train_one(POOLS[name], X, np.where(X[:, 0] > 0, 1.7e308, -1.7e308))


@pytest.mark.parametrize("name", POOLS)
def test_edited_arrays_are_refused(name):
    X, y = make_array()
    models = POOLS[name].train(Sample(X, y, NUMBERS), RandomSubsamples(200, [150], 2, 0), range(2), 0, None).models
    models.check(0, 4)
    with pytest.raises(ValueError, match="must have an output"):
        models.check(2, 4)  # a file of classes
    beginning = "intercept" if name == "linear" else "baseline"
    changes = [
        {"class_codes": np.zeros(1, dtype=np.int8)},
        {beginning: np.zeros(3)},
        {beginning: np.empty(0)},
        {"sizes": models.sizes * 0},
        {"sizes": models.sizes[:, ::-1]},
        {"coef": models.coef[:-1]} if name == "linear" else {"values": models.values[:1]},
        {"center": models.center[:-1]} if name == "linear" else {"feature": models.feature * 0 + 4},
    ]
    for change in changes:
        with pytest.raises(ValueError, match="must"):
            replace(models, **change).check(0, 4)
    sizes = models.sizes.copy()
    sizes[0, 0] = 1  # a class, of models of numbers
    with pytest.raises(ValueError, match="must have an output"):
        replace(models, sizes=sizes, class_codes=np.zeros(1, dtype=np.int8)).check(0, 4)


def test_compiled_code_refuses_what_makes_no_sense():
    X, y = np.zeros((4, 2)), np.zeros(4)
    boosting = {"learning_rate": 0.1, "n_rounds": 1, "max_leaves": 4, "min_leaf": 1, "n_candidates": 2, "l2": 0.0}
    forest = {"n_trees": 1, "min_leaf": 1, "max_leaves": 4, "n_candidates": 2, "seed": 0}
    with pytest.raises(ValueError, match="numbers must have one output"):
        _tree_training.boost(X, 0, y, np.zeros(2), **boosting, seed=0)
    with pytest.raises(ValueError, match="n_classes must be at least 2, or 0 for numbers"):
        _tree_training.randomise(X.astype(np.float32), y, n_classes=2, **forest)
    with pytest.raises(ValueError, match="targets must be finite"):
        _tree_training.randomise(X.astype(np.float32), y + np.nan, n_classes=0, **forest)
    with pytest.raises(ValueError, match="targets must be finite"):
        _scores.train_linear(
            X, np.empty((4, 0), dtype=np.int32), np.empty((4, 0)), y + np.inf, 1.0, 1e-4, 10, np.zeros((3, 1))
        )


def test_unions_of_numbers():
    union = make_union(numeric=True)
    assert union.predicts == ("classes", "numbers")
    X, y = make_array()
    assert union.usable(Sample(X, y, NUMBERS), CAPPED).families == union.families
    with pytest.raises(ValueError, match=r"families must be some of .*got 'svm'"):
        make_union(["svm"], numeric=True)
    strict = UnionPool([("linear", LinearPool()), ("tree", EstimatorPool(DecisionTreeRegressor()))])
    assert strict.predicts == ("numbers",)
    assert strict.set_params(unusable="drop").predicts == ("classes", "numbers")


def test_learners_of_other_libraries_in_tables():
    pytest.importorskip("lightgbm")
    table, y = make_table(300)
    sample, subsamples = sample_of(table, y), RandomSubsamples(300, [250], 1, 0)
    pool = dict(make_union(["lightgbm"], numeric=True).families)["lightgbm"]
    pool.set_params(estimator__n_estimators=60)
    trained = pool.train(sample, subsamples, [0], 0, None)
    assert np.abs(trained.votes(sample.X)[0] - y).mean() < 0.8 * np.abs(y - np.median(y)).mean()
