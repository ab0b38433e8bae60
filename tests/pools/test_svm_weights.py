"""Weights in the compiled SVMs: each point has a C of its own, as in scikit-learn's SVC."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool, Sample, _engine
from pacbayes.pools._rbf_svm import weigh_rows
from pacbayes.sampling import GivenSubsamples

ARRAYS = ["n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma"]


def train(X, codes, rows, sizes, C, gamma, weights=None, scaler=None):
    settings = (np.full(sizes.size, gamma), np.full(sizes.size, C), scaler, 1e-6, 10**8)
    return _engine.train(X, codes.astype(np.int32), rows, sizes, 1.0, *settings, weights=weights)


def decide(result, X, queries):
    ensemble = _engine.Ensemble(*(result[name] for name in ARRAYS), None)
    values = np.empty((result["intercepts"].size, len(queries)))
    _engine.decide(np.ascontiguousarray(queries), X, ensemble, values)
    return values


def compare_with_svc(X, codes, weights, C, gamma, queries, **svc):
    """Decision values of all pairs of classes to 1e-4, and rounding: see test_rbf_svm."""
    n = len(X)
    result = train(X, codes, np.arange(n, dtype=np.int32), np.array([n]), C, gamma, weights)
    assert result["converged"].all()
    given = {} if svc else {"sample_weight": weights}
    expected = SVC(C=C, gamma=gamma, tol=1e-6, decision_function_shape="ovo", **svc).fit(X, codes, **given)
    theirs = np.atleast_2d(expected.decision_function(queries).T)
    theirs = -theirs if result["intercepts"].size == 1 else theirs
    rounding = 2.0**-21 * np.linalg.norm(expected.dual_coef_)
    values = decide(result, X, queries)
    np.testing.assert_allclose(values, theirs, atol=1e-4 + rounding)
    sure = np.abs(theirs) > 1e-3 + rounding
    np.testing.assert_array_equal(values[sure] > 0, theirs[sure] > 0)
    # No coefficient beyond its bound.
    limit = np.repeat(C * weights[result["support"]][np.newaxis], result["n_classes"][0] - 1, axis=0).ravel()
    assert (np.abs(result["coefficients"]) <= limit).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 90), st.integers(2, 4), st.floats(-2, 2), st.floats(-3, 1), st.integers(0, 2**32 - 1))
def test_weights_of_points(n, n_classes, log_C, log_gamma, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n)])
    X = rng.normal(size=(codes.size, 4)) + 0.7 * codes[:, np.newaxis]
    weights = rng.exponential(size=codes.size) + 0.01
    compare_with_svc(X, codes, weights, 10.0**log_C, 10.0**log_gamma, rng.normal(size=(70, 4)) + 1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_balanced_classes(n_classes, C):
    rng = np.random.default_rng(n_classes)
    codes = rng.choice(n_classes, 200, p=[0.9, 0.1] if n_classes == 2 else [0.8, 0.15, 0.05])
    X = rng.normal(size=(200, 5)) + codes[:, np.newaxis]
    rows, sizes = np.arange(200, dtype=np.int32), np.array([200])
    kept, _, weights = weigh_rows(codes.astype(np.int32), None, rows, sizes, balanced=True)
    np.testing.assert_array_equal(kept, rows)
    np.testing.assert_allclose(weights, 200 / n_classes / np.bincount(codes)[codes])
    compare_with_svc(X, codes, weights, C, 0.2, rng.normal(size=(90, 5)), class_weight="balanced")


def test_equal_weights_have_the_bits_of_none():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(120, 3)), rng.integers(0, 3, 120)
    rows = np.concatenate([rng.permutation(120)[:50] for _ in range(6)]).astype(np.int32)
    plain, weighted = (
        train(X, codes, rows, np.full(6, 50), 3.0, 0.5, weights, scaler="standard") for weights in (None, np.ones(300))
    )
    assert plain.keys() == weighted.keys()
    for name, values in plain.items():
        np.testing.assert_array_equal(weighted[name], values, err_msg=name)


def test_weights_are_relative_and_of_the_subsample_alone():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, 40).astype(np.int32)
    rows, sizes = np.concatenate([np.arange(20), np.arange(10, 40)]).astype(np.int32), np.array([20, 30])
    given = rng.exponential(size=40)
    for balanced in (False, True):
        kept, left, weights = weigh_rows(codes, given, rows, sizes, balanced=balanced)
        np.testing.assert_array_equal(kept, rows)
        np.testing.assert_array_equal(left, sizes)
        first, second = np.split(weights, [20])
        np.testing.assert_allclose([first.mean(), second.mean()], 1)
        totals = np.bincount(codes[:20], first)
        assert (abs(totals[0] - totals[1]) < 1e-9) == balanced
        # In another unit, and with other weights elsewhere.
        changed = np.where(np.arange(40) < 20, 1e-30 * given, 1e200)
        np.testing.assert_allclose(weigh_rows(codes, changed, rows[:20], sizes[:1], balanced=balanced)[2], first)
    # Rows without weight are left out; if there are no others, all count alike.
    given[:5], given[20:] = 0.0, 0.0
    kept, left, weights = weigh_rows(codes, given, rows[:40], np.array([20, 20]), balanced=False)
    assert left.tolist() == [15, 10]
    assert (given[kept] > 0).all()
    kept, left, weights = weigh_rows(codes, given, np.arange(20, 40, dtype=np.int32), np.array([20]), balanced=False)
    assert (left.tolist(), weights) == ([20], None)


def test_hypotheses_of_a_pool_are_those_of_svc():
    rng = np.random.default_rng(2)
    codes = (rng.random(150) < 0.15).astype(int)
    X, given = rng.normal(size=(150, 3)) + 1.5 * codes[:, np.newaxis], rng.integers(0, 3, 150).astype(float)
    # With very wide kernels all points are at their bounds, and rounding decides which intercept LIBSVM takes.
    pool = RBFSVMPool(C=2.0, scaler=None, gamma_grid=(1.0, 3.0), class_weight="balanced")
    subsamples = GivenSubsamples(150, [np.arange(100), np.arange(30, 150)])
    sample = Sample(X, codes, np.array([0, 1]), None, given)
    trained = pool.train(sample, subsamples, range(2), 0, pool.prepare(sample, 0)[1]).keep_training_points(sample)
    queries = rng.normal(size=(300, 3)) + 0.5
    for h, rows in enumerate(subsamples):
        svm, own = trained[h], rows[given[rows] > 0]
        total = np.bincount(codes[own], given[own])
        weights = given[own] / total[codes[own]] * own.size / 2
        svc = SVC(C=2.0, gamma=svm.gamma).fit(X[own], codes[own], sample_weight=weights)
        sure = np.abs(svc.decision_function(queries)) > 0.01
        np.testing.assert_array_equal(svm.predict(queries[sure]), svc.predict(queries[sure]))


def test_balanced_svms_miss_fewer_points_of_a_rare_class():
    rng = np.random.default_rng(3)
    y = (rng.random(1200) < 0.06).astype(int)
    X = rng.normal(size=(1200, 3)) + 0.9 * y[:, np.newaxis]
    missed = []
    for weight in (None, "balanced"):
        pool = RBFSVMPool(C=1.0, scaler="standard", gamma_grid=(0.1,), class_weight=weight)
        model = PACBayesClassifier(pool, n_hypotheses=8, subsample_size=200, random_state=0).fit(X, y)
        missed.append(model.certificate_.class_rates()[1].misses.measured)
        assert model.certificate_.strict
        assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"
    assert missed[0] > 0.7 > 0.6 > missed[1]
    with pytest.raises(ValueError, match="class_weight must be None or 'balanced', got 'even'"):
        PACBayesClassifier(RBFSVMPool(class_weight="even")).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), "weights must have one entry per entry of subsamples"),
        (np.r_[np.ones(9), 0.0], "C times weights must be finite and positive for a weight, got 0"),
        (np.r_[np.ones(9), np.nan], "C times weights must be finite and positive for a weight, got nan"),
        (np.r_[np.ones(9), -1.0], "C times weights must be finite and positive for a weight, got -1"),
        (np.r_[np.ones(9), 1e308], "C times weights must be finite and positive for a weight, got 1e"),
    ],
)
def test_weights_that_the_engine_refuses(weights, message):
    with pytest.raises(ValueError, match=message):
        train(np.eye(10), np.arange(10) % 2, np.arange(10, dtype=np.int32), np.array([10]), 10.0, 1.0, weights)
