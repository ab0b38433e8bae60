"""Extremely randomised trees: what defines them, and their errors beside scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier

from pacbayes.pools import TreeArrays, TreeEnsembles, _tree_training

SETTINGS = {"n_estimators": 5, "max_features": "sqrt", "min_samples_leaf": 1, "max_leaf_nodes": None}


def train(X, codes, seed=0, **changes):
    n_classes = int(codes.max()) + 1
    models = TreeArrays.train_extra(X, codes, np.arange(n_classes), None, {**SETTINGS, **changes}, seed)
    return TreeEnsembles(np.arange(n_classes), models, np.arange(1))


def leaves_of(models, X):
    """Lead points through the trees, one by one: the leaf of each in each tree, and the path to it."""
    feature, threshold, missing_left = models.feature, models.threshold, models.missing_left
    reached, begin, split, leaf = [], 0, 0, 0
    for size in models.tree_sizes.tolist():
        tree = feature[begin : begin + size]
        inner, ends = np.cumsum(tree >= 0) - 1 + split, np.cumsum(tree < 0) - 1 + leaf

        def end_of(node, tree=tree):
            to_come = 1
            while to_come:
                to_come += 1 if tree[node] >= 0 else -1
                node += 1
            return node

        for x in X:
            node = 0
            while tree[node] >= 0:
                value = x[tree[node]]
                left = missing_left[inner[node]] if np.isnan(value) else value <= threshold[inner[node]]
                node = node + 1 if left else end_of(node + 1)
            reached.append(ends[node])
        begin, split, leaf = begin + size, split + int((tree >= 0).sum()), leaf + int((tree < 0).sum())
    return np.array(reached).reshape(models.tree_sizes.size, len(X))


@given(
    st.integers(2, 4), st.sampled_from([0.0, 0.3]), st.integers(1, 4), st.sampled_from([None, 9]), st.integers(0, 20)
)
@settings(max_examples=15, deadline=None)
def test_leaves_hold_the_shares_of_their_points(n_classes, missing, min_leaf, max_leaves, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(60, 3)), 1).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    codes = np.append(np.arange(n_classes), rng.integers(n_classes, size=60 - n_classes))
    hypotheses = train(X, codes, seed, min_samples_leaf=min_leaf, max_leaf_nodes=max_leaves, max_features=0.7)
    assert max_leaves is None or hypotheses.models.tree_sizes.max() <= 2 * max_leaves - 1
    expected = np.zeros((60, n_classes))
    for reached in leaves_of(hypotheses.models, X):
        sizes = np.bincount(reached)
        assert sizes[sizes > 0].min() >= min_leaf
        for k in range(n_classes):
            expected[:, k] += np.bincount(reached[codes == k], minlength=sizes.size)[reached] / sizes[reached]
    np.testing.assert_allclose(hypotheses[0].predict_proba(X), expected / 5, rtol=0, atol=1e-12)


def test_trees_end_in_pure_leaves():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(100, 4)).astype(np.float32), rng.integers(3, size=100)
    hypotheses = train(X, codes)
    np.testing.assert_array_equal(hypotheses[0].predict_proba(X), np.eye(3)[codes])
    assert hypotheses.models.values.size == 9  # no other shares than those of single classes
    same, other = train(X, codes), train(X, codes, seed=1)
    np.testing.assert_array_equal(same.models.threshold, hypotheses.models.threshold)
    assert not np.array_equal(other.models.threshold, hypotheses.models.threshold)
    assert set(hypotheses.models.feature) == {-1, 0, 1, 2, 3}


def test_points_that_cannot_be_split():
    X = np.column_stack([np.full(10, np.nan), np.ones(10)]).astype(np.float32)
    codes = np.arange(10) % 2
    assert train(X, codes)[0].predict_proba(X) == pytest.approx(0.5)
    X[:, 0] = np.where(codes, np.nan, 3.0)  # what is missing tells the classes
    np.testing.assert_array_equal(train(X, codes)[0].predict(X), codes)
    neighbours = np.repeat(np.float32([16.0, 16.0 + 2**-19]), 5)[:, np.newaxis]
    labels = np.repeat([0, 1], 5)
    np.testing.assert_array_equal(train(neighbours, labels)[0].predict(neighbours), labels)


@pytest.mark.parametrize("max_leaves", [None, 30])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_errors_are_those_of_scikit_learn(n_classes, max_leaves):
    X, codes = make_classification(3000, 10, n_informative=6, n_classes=n_classes, random_state=0)
    X = X.astype(np.float32)
    errors = []
    for seed in range(3):
        ours = train(X[:800], codes[:800], seed, n_estimators=40, max_features=0.5, max_leaf_nodes=max_leaves)[0]
        theirs = ExtraTreesClassifier(40, max_features=0.5, max_leaf_nodes=max_leaves, random_state=seed)
        theirs.fit(X[:800], codes[:800])
        errors.append([np.mean(model.predict(X[800:]) != codes[800:]) for model in (ours, theirs)])
    ours, theirs = np.mean(errors, axis=0)
    assert ours == pytest.approx(theirs, abs=0.015)


@pytest.mark.parametrize(
    "changes", [{"n_candidates": 0}, {"n_candidates": 3}, {"targets": np.full(4, 2, dtype=np.int32)}, {"min_leaf": 0}]
)
def test_what_makes_no_sense_is_refused(changes):
    arguments = {"X": np.zeros((4, 2), dtype=np.float32), "targets": np.zeros(4, dtype=np.int32), "n_classes": 2}
    arguments |= {"n_trees": 1, "min_leaf": 1, "max_leaves": 4, "n_candidates": 2, "seed": 0}
    _tree_training.randomise(**arguments)
    with pytest.raises(ValueError, match="must"):
        _tree_training.randomise(**{**arguments, **changes})
