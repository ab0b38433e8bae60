"""Boosted trees, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn_trees import from_boosting

from pacbayes.pools import TreeArrays, TreeEnsembles, _tree_training
from pacbayes.pools._table_encoding import TableEncoding

SETTINGS = {"learning_rate": 0.1, "max_iter": 12, "max_leaf_nodes": 15, "min_samples_leaf": 5, "l2_regularization": 0.0}
LEAFWISE = {"kind": "leafwise", "max_features": 1.0, "max_samples": 1.0, "random_strength": 0.0, "loss": "squared"}


def train(X, codes, encoding=None, seed=0, **changes):
    settings = {**SETTINGS, **LEAFWISE, **changes}
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


# -- symmetric trees, by brute force -----------------------------------------------------------------------


def reduction(points, gradient, hessian, l2):
    return gradient[points].sum() ** 2 / (hessian[points].sum() + l2)


def sides(column, is_set, gradient, hessian):
    """Yield which points may be on the left: up to a threshold; or categories, gaps among them, of small gradients."""
    is_missing = np.isnan(column)
    if is_set:
        support, parts = column.size / hessian.sum(), []
        for inside in [*(column == category for category in np.unique(column[~is_missing])), is_missing]:
            if hessian[inside].sum() * support >= 10:
                parts.append((gradient[inside].sum() / (hessian[inside].sum() + 10), len(parts), inside))
        yield from np.logical_or.accumulate([inside for *_, inside in sorted(parts)])
        return
    values = np.unique(column[~is_missing])
    for threshold in [*(values[:-1] + values[1:]) / 2, np.inf]:
        for missing_left in (False, True) if is_missing.any() else (False,):
            yield np.where(is_missing, missing_left, column <= threshold)


def grow_symmetric(X, n_sets, gradient, hessian, n_levels, min_leaf, l2):
    """Return leaves of a tree in which each level is divided by what reduces the loss of all its leaves most.

    The sides of missing numbers are tried for a level as a whole; where no number of a leaf is missing, they follow the
    majority.
    """
    leaves = [np.arange(len(X))]
    for _ in range(n_levels):
        best, best_sides = 1e-9, None
        for feature, column in enumerate(X.T):
            for is_left in sides(column, feature < n_sets, gradient, hessian):
                gain = 0.0
                for points in leaves:
                    parts = points[is_left[points]], points[~is_left[points]]
                    if min(map(len, parts)) >= min_leaf:
                        gain += sum(reduction(part, gradient, hessian, l2) for part in parts)
                        gain -= reduction(points, gradient, hessian, l2)
                if gain > best + 1e-9:
                    best, best_sides = gain, is_left
        if best_sides is None:
            break
        divided = [(points[best_sides[points]], points[~best_sides[points]]) for points in leaves]
        leaves = [
            part
            for points, parts in zip(leaves, divided, strict=True)
            for part in (parts if min(map(len, parts)) >= min_leaf else [points])
        ]
    return leaves


def boost_by_brute_force(X, codes, n_sets, baseline, settings):
    """Return the scores of points by trees of all points."""
    scores, n_levels = np.tile(baseline, (len(X), 1)), int(np.log2(settings["max_leaf_nodes"]))
    l2, is_class = settings["l2_regularization"], codes[:, np.newaxis] == np.arange(codes.max() + 1)
    for _ in range(settings["max_iter"]):
        of_all = np.column_stack([np.zeros(len(X)), scores]) if baseline.size == 1 else scores
        p = np.exp(of_all - of_all.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient, hessian = (values.astype(np.float32).astype(float) for values in (p - is_class, p * (1 - p)))
        for k in range(baseline.size):
            own = gradient[:, k - baseline.size], hessian[:, k - baseline.size]
            for points in grow_symmetric(X, n_sets, *own, n_levels, settings["min_samples_leaf"], l2):
                scores[points, k] -= settings["learning_rate"] * own[0][points].sum() / (own[1][points].sum() + l2)
    return scores


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_sets", [0, 1])
@pytest.mark.parametrize("changes", [{}, {"min_samples_leaf": 1, "max_leaf_nodes": 15}, {"l2_regularization": 30.0}])
def test_symmetric_trees_are_those_of_brute_force(missing, n_classes, n_sets, changes):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    score = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=80)
    codes = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    X[:, :n_sets] = np.floor(2.5 + 1.2 * X[:, :n_sets]).clip(0, 4)
    X[rng.random(X.shape) < missing] = np.nan
    settings = {**SETTINGS, "max_iter": 4, "max_leaf_nodes": 8, "l2_regularization": 2.0, **changes}
    tables = np.concatenate([[np.nan], np.arange(5)] * n_sets) if n_sets else np.empty(0)
    encoding = TableEncoding(np.arange(3), np.array([6, 0, 0]), tables, n_sets) if n_sets else None
    models = train(X, codes, encoding, kind="symmetric", **settings).models
    expected = boost_by_brute_force(X, codes, n_sets, models.baseline, settings)
    found = models.baseline + np.zeros_like(expected)
    models.compiled(0).add_scores(X, found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert models.tree_sizes.max() <= 15  # 8 leaves, and 15 leave no room for more


def test_symmetric_trees_find_what_no_single_split_shows():
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.uniform(-1, 1, size=(n, 8))
        return X, (np.prod(X[:, :3], axis=1) > 0).astype(int)

    (X, codes), (new, truth) = draw(1000), draw(2000)
    settings = {"max_iter": 100, "l2_regularization": 3.0, "min_samples_leaf": 1}
    models = train(X, codes, kind="symmetric", max_leaf_nodes=64, **settings), train(X, codes, **settings)
    symmetric, leafwise = (np.mean(model[0].predict(new) != truth) for model in models)
    assert symmetric < 0.6 * leafwise


def test_symmetric_trees_divide_categories_by_sets():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 12, 2000), rng.normal(size=2000)])
    is_odd = X[:, 0] % 2 == 1
    codes = (is_odd ^ (rng.random(2000) < 0.05)).astype(int)
    encoding = TableEncoding(np.arange(2), np.array([13, 0]), np.concatenate([[np.nan], np.arange(12)]), n_sets=1)
    model = train(X, codes, encoding, kind="symmetric", max_leaf_nodes=2, max_iter=1)
    assert model.models.feature.tolist() == [0, -1, -1]
    odd = sum(1 << category for category in range(1, 12, 2))
    assert int(model.models.sets[0, 0]) in (odd, 2**12 - 1 - odd)
    np.testing.assert_array_equal(model[0].predict(X), is_odd)
    X[:300, 0], codes[:300] = np.nan, 1  # a gap is a category of its own
    model = train(X, codes, encoding, kind="symmetric", max_leaf_nodes=2, max_iter=1)
    np.testing.assert_array_equal(model[0].predict(np.nan_to_num(X, nan=-1))[:300], 1)


# -- what is drawn at random -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["leafwise", "symmetric"])
def test_leaves_have_the_values_of_all_points(kind):
    """A tree of some points: each leaf is worth what all points in it say, those that it was not grown on included."""
    X, codes = make_points(300, 2, 0.2, seed=4)
    settings = {"kind": kind, "max_iter": 1, "max_leaf_nodes": 8, "max_samples": 0.3, "l2_regularization": 1.0}
    some, same, other = (train(X, codes, seed=seed, **settings) for seed in (0, 0, 1))
    np.testing.assert_array_equal(some.models.threshold, same.models.threshold)
    assert not np.array_equal(some.models.threshold, other.models.threshold)
    p = some[0].predict_proba(X)[:, 1]
    scores, share = np.log(p / (1 - p)), codes.mean()
    steps = scores - np.log(share / (1 - share))
    for step in np.unique(np.round(steps, 9)):
        inside = np.abs(steps - step) < 1e-8
        expected = 0.1 * (codes[inside] - share).sum() / (inside.sum() * share * (1 - share) + 1)
        assert step == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", ["leafwise", "symmetric"])
def test_random_gains_choose_features_that_are_nearly_as_good(kind):
    rng = np.random.default_rng(0)
    signal = rng.normal(size=400)
    codes = (signal + 0.5 * rng.normal(size=400) > 0).astype(int)
    X = np.column_stack([signal, signal + 0.05 * rng.normal(size=400), rng.normal(size=400)])

    def first_features(strength):
        settings = {"kind": kind, "max_iter": 1, "max_leaf_nodes": 2, "random_strength": strength}
        return [train(X, codes, seed=seed, **settings).models.feature[0] for seed in range(60)]

    assert set(first_features(0.0)) in ({0}, {1})
    assert set(first_features(1.0)) == {0, 1}  # never noise, whose gain is far smaller
    assert set(first_features(1e6)) == {0, 1, 2}
    later = {"kind": kind, "learning_rate": 10.0, "max_iter": 30, "random_strength": 1.0, "l2_regularization": 1e6}
    drawn, exact = (train(X, codes, **{**later, "random_strength": r}).models.feature[-3:] for r in (1.0, 0.0))
    np.testing.assert_array_equal(drawn, exact)  # chance fades when the rounds add up


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


@pytest.mark.parametrize("symmetric", [False, True])
def test_settings_may_be_as_large_as_numbers_are(symmetric):
    X, codes = 2.0 ** -np.arange(300)[:, np.newaxis], (np.arange(300) % 2).astype(np.int32)
    arguments = {
        "learning_rate": 0.1,
        "n_rounds": 1,
        "n_candidates": 1,
        "l2": 0.0,
        "seed": 0,
        "is_symmetric": symmetric,
    }

    def largest_tree(max_leaves, min_leaf):
        sizes = {"max_leaves": max_leaves, "min_leaf": min_leaf}
        return _tree_training.boost(X, 0, codes, np.zeros(1), **arguments, **sizes)["tree_sizes"].max()

    # A level of a symmetric tree divides one leaf here, and 62 of them may make 2 ** 62 leaves.
    assert largest_tree(2**63 - 1, 1) == 125 if symmetric else largest_tree(2**63 - 1, 1) > 125
    assert largest_tree(2**63 - 1, 2**63 - 1) == 1


@pytest.mark.parametrize("symmetric", [False, True])
def test_derivatives_that_overflow_order_no_categories(symmetric):
    rng = np.random.default_rng(0)
    X, targets = rng.integers(0, 200, size=(4000, 1)).astype(float), rng.normal(size=4000)
    sizes = {"n_rounds": 3, "max_leaves": 8, "min_leaf": 1, "n_candidates": 1}
    trees = _tree_training.boost(
        X, 1, targets, np.zeros(1), **sizes, learning_rate=1e200, l2=0.0, seed=0, is_symmetric=symmetric
    )
    assert trees["tree_sizes"][0] > 1
    assert trees["tree_sizes"][1:].tolist() == [1, 1]
    assert np.isfinite(trees["values"]).all()


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
        {"max_samples": 0.0},
        {"max_samples": 1.5},
        {"random_strength": -1.0},
        {"random_strength": np.inf},
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
