"""Ensembles of trees as arrays, against scikit-learn's own predictions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn_trees import from_boosting

from pacbayes._fingerprint import digest
from pacbayes._losses import resolve_loss
from pacbayes.pools import Sample, TreeArrays, TreeEnsembles, ValidationBlock
from pacbayes.pools._table_encoding import TableEncoding
from pacbayes.sampling import GivenSubsamples

LEARNERS = {
    "boosting": HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=6, min_samples_leaf=3, early_stopping=False),
    "one leaf": HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1000, early_stopping=False),
    "extra": ExtraTreesClassifier(7, random_state=0),
    "random": RandomForestClassifier(7, min_samples_leaf=3, random_state=0),
    "best first": RandomForestClassifier(5, max_leaf_nodes=6, random_state=0),
}


def make_points(n, d, missing, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 2).astype(dtype)
    X[:, -1] = 1.0
    X[rng.random(X.shape) < missing] = np.nan
    return X


def convert(model, class_codes, encoding=None):
    is_boosted = isinstance(model, HistGradientBoostingClassifier)
    return (from_boosting if is_boosted else TreeArrays.of_forest)(model, class_codes, encoding)


def collect(models, n_classes, **parameters):
    together = models[0].concatenate(models)
    return TreeEnsembles(np.arange(n_classes), together, np.arange(len(models)), **parameters)


@pytest.mark.parametrize("name", LEARNERS)
@given(st.integers(2, 10), st.sampled_from([0.0, 0.2]), st.integers(0, 9), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=8, deadline=None)
def test_probabilities_are_those_of_scikit_learn(name, n_classes, missing, seed, dtype):
    X = make_points(150, 4, missing, seed, dtype)
    rng = np.random.default_rng(seed)
    codes = rng.choice(n_classes, size=rng.integers(2, n_classes + 1), replace=False)  # others are not in the subsample
    y = codes[np.digitize(np.nan_to_num(X[:, 0]) + 0.3 * rng.normal(size=150), np.linspace(-1, 1, codes.size - 1))]
    model = LEARNERS[name].fit(X, y)
    hypotheses = collect([convert(model, model.classes_)], n_classes)
    points = make_points(70, 4, missing, seed + 100, dtype)
    expected = np.zeros((70, n_classes))
    expected[:, model.classes_] = model.predict_proba(points)
    np.testing.assert_allclose(hypotheses[0].predict_proba(points), expected, rtol=0, atol=1e-12)
    ranked = np.sort(expected, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-12
    np.testing.assert_array_equal(hypotheses[0].predict(points)[clear], np.argmax(expected, axis=1)[clear])


@pytest.mark.parametrize("n_categories", [5, 60, 255])
def test_splits_by_sets_of_categories(n_categories):
    rng = np.random.default_rng(n_categories)
    n = 30 * n_categories  # those of few points are no candidates for a split
    X = np.column_stack([rng.permutation(np.arange(n) % n_categories), rng.normal(size=n)]).astype(float)
    y = (np.sin(X[:, 0]) + 0.5 * X[:, 1] > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=[0], early_stopping=False).fit(X, y)
    table = np.append(np.nan, np.arange(n_categories))
    encoding = TableEncoding(np.array([0, 1]), np.array([table.size, 0]), table, n_sets=1)
    hypotheses = collect([convert(model, [0, 1], encoding)], 2)
    points = X[:100].copy()
    points[:20, 0] = [-1, n_categories, 1e9, np.nan, -7] * 4  # unknown
    unknown = points.copy()
    unknown[:20, 0] = np.nan
    assert hypotheses.models.sets.any()
    np.testing.assert_allclose(hypotheses[0].predict_proba(points), model.predict_proba(unknown), rtol=0, atol=1e-12)


def test_bits_do_not_depend_on_the_rows_predicted_together():
    X = make_points(300, 5, 0.1, 0)
    y = np.digitize(np.nan_to_num(X[:, 0]), [-0.5, 0.5])
    hypotheses = collect([convert(LEARNERS[name].fit(X, y), [0, 1, 2]) for name in ("boosting", "one leaf")], 3)
    whole = hypotheses[0].predict_proba(X)
    for n in (1, 2, 7, 8, 9, 33, 299):
        np.testing.assert_array_equal(hypotheses[0].predict_proba(X[-n:]), whole[-n:])
    np.testing.assert_array_equal(hypotheses[0].predict_proba(np.asfortranarray(X)), whole)
    assert hypotheses[0].predict(X[:0]).shape == (0,)


@pytest.fixture
def several():
    X, models = make_points(200, 4, 0.1, 1), []
    y = np.digitize(np.nan_to_num(X[:, 0]), [-0.5, 0.5])
    for seed, classes in enumerate([[0, 1, 2], [0, 2], [1], [1, 2]]):
        rows = np.isin(y, classes)
        if len(classes) == 1:
            models.append(TreeArrays.of("forest", classes, 4, None))
        else:
            forest = ExtraTreesClassifier(3 + seed, random_state=seed).fit(X[rows], y[rows])
            models.append(TreeArrays.of_forest(forest, classes))
    return collect([*models, TreeArrays.of("forest", [0], 4, None, failed=True)], 3), X, y


def test_a_sequence(several):
    hypotheses, X, _ = several
    votes, probabilities = hypotheses.votes(X), [one.predict_proba(X) for one in hypotheses]
    taken = hypotheses.take(np.array([3, 0, 3]))
    assert len(taken) == 3
    np.testing.assert_array_equal(taken.votes(X), votes[[3, 0, 3]])
    again = TreeEnsembles.concatenate([taken, hypotheses.take(np.array([2, 4]))])
    np.testing.assert_array_equal(again.votes(X), votes[[3, 0, 3, 2, 4]])
    assert len(again.models) == 5
    in_order = TreeEnsembles.concatenate([hypotheses[:2], hypotheses[2:]])
    assert digest(in_order.fingerprint()) == digest(hypotheses.fingerprint())
    assert digest(hypotheses.take(np.arange(4)).fingerprint()) != digest(hypotheses.fingerprint())
    stored = pickle.loads(pickle.dumps(taken))
    assert len(stored.models) == 3  # of those that are left
    np.testing.assert_array_equal(stored[1].predict_proba(X), probabilities[0])
    assert str(hypotheses[0]).startswith("forest: 3 trees of ")
    assert str(hypotheses[2]) == "constant: always 1"
    assert str(hypotheses[4]) == "could not be trained: its loss counts as 1"
    assert hypotheses.__sizeof__() > hypotheses.models.values.nbytes


def test_votes_by_probabilities_and_by_labels(several):
    hypotheses, X, _ = several
    weights = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    expected = sum(weight * one.predict_proba(X) for weight, one in zip(weights, hypotheses, strict=True))
    tallies, uncertain = np.zeros((200, 3)), np.zeros(200)
    hypotheses.add_votes(X, weights, tallies, uncertain)
    np.testing.assert_allclose(tallies, expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(uncertain, 2.0**-40)
    labels, by_labels = np.zeros((200, 3)), hypotheses.by_labels()
    assert hypotheses.vote_by == "probabilities"
    assert by_labels.vote_by == "labels"
    by_labels.add_votes(X, weights, labels, uncertain)
    for weight, one in zip(weights, hypotheses, strict=True):
        labels[np.arange(200), one.predict(X)] -= weight
    np.testing.assert_allclose(labels, 0, atol=1e-15)
    np.testing.assert_allclose(uncertain, 2.0**-40)  # labels are certain


@pytest.mark.parametrize("loss", ["zero_one", "brier", "absolute", [[0, 1, 3], [1, 0, 1], [2, 2, 0]]])
def test_losses_are_those_of_predictions_outside_the_subsample(several, loss):
    hypotheses, X, y = several
    loss = resolve_loss(loss, np.arange(3))
    rng = np.random.default_rng(0)
    subsets = [np.sort(rng.choice(200, size, replace=False)) for size in (30, 150, 10, 199, 60)]
    subsamples, rows = GivenSubsamples(200, subsets), np.arange(20, 170)
    block = ValidationBlock(Sample(X, y, np.arange(3)), subsamples, range(5), rows, loss)
    totals = hypotheses.start_loss_totals(block)()
    for h, one in enumerate(hypotheses):
        outside = np.setdiff1d(rows, subsets[h])
        if one.failed:
            assert totals[h] == outside.size
            continue
        response = one.predict_proba(X[outside]) if loss.on_probabilities else one.predict(X[outside])
        assert totals[h] == loss.total(y[outside], response, 200)
    np.testing.assert_array_equal(
        hypotheses.responses(X, loss)[0], hypotheses.take(np.array([0])).responses(X, loss)[0]
    )


def test_large_numbers_and_thresholds_between_single_precision():
    X = np.array([[16.0], [16.0 + 2**-19], [1e300], [-1e300]])  # the first two are neighbours in single precision
    forest = RandomForestClassifier(9, bootstrap=False, random_state=0).fit(X[:2], [0, 1])
    hypotheses = collect([convert(forest, [0, 1])], 2)
    assert hypotheses.models.threshold.dtype == np.float32
    assert hypotheses[0].predict(X).tolist() == [0, 1, 1, 0]
    assert hypotheses[0].predict(X[:2].astype(np.float32)).tolist() == [0, 1]


def damage(models, **changes):
    return replace(models, **changes)


def changed(values, at, value):
    values = values.copy()
    values[at] = value
    return values


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {"feature": changed(m.feature, np.argmax(m.feature >= 0), 100)},
        lambda m: {"feature": changed(m.feature, np.argmax(m.feature < 0), 0)},
        lambda m: {"feature": changed(m.feature, 0, -1)},
        lambda m: {"leaf": changed(m.leaf.astype(np.int32), 0, 10_000)},
        lambda m: {"leaf": changed(m.leaf, 0, -1)},
        lambda m: {"tree_sizes": changed(m.tree_sizes, 0, 2)},
        lambda m: {"tree_sizes": changed(m.tree_sizes, 0, 120)},
        lambda m: {"threshold": m.threshold[:-1]},
        lambda m: {"missing_left": m.missing_left[:-1]},
        lambda m: {"values": m.values[:-1]},
        lambda m: {"n_features": m.n_features + 1},
        lambda m: {"n_set_features": m.n_set_features + 1},
        lambda m: {"sets": np.zeros((1, 4), dtype=np.uint64)},
        lambda m: {"class_codes": changed(m.class_codes, 0, 3)},
        lambda m: {"class_codes": changed(m.class_codes, 1, 0)},
        lambda m: {"sizes": changed(m.sizes, (0, 3), -1)},
        lambda m: {"sizes": m.sizes[:, :-1]},
        lambda m: {"sizes": changed(m.sizes, (0, 1), 2)},
        lambda m: {"baseline": m.baseline[:-1]},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(several, change):
    models = several[0].models
    models.check(3, 4)
    with pytest.raises(ValueError, match=r"must"):
        damage(models, **change(models)).check(3, 4)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_random_damage_is_refused_or_harmless(data):
    X = make_points(60, 3, 0.1, 0)
    model = LEARNERS["boosting"].fit(X, (X[:, 0] > 0).astype(int))
    models = from_boosting(model, [0, 1])
    name = data.draw(st.sampled_from(["feature", "leaf", "tree_sizes", "sizes", "n_features", "n_set_features"]))
    values = getattr(models, name).astype(np.int64)
    values.flat[data.draw(st.integers(0, values.size - 1))] = data.draw(st.integers(-2, 200))
    damaged = replace(models, **{name: values})
    try:
        damaged.check(2, 3)
    except ValueError:
        return
    assert np.isfinite(damaged.scores(0, X)).all()
