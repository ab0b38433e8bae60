import os
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from svc_loop import SVCLoopPool
from sweeps import sweep

from pacbayes._losses import resolve_loss
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import (
    GAMMA_GRID,
    RBFSVMPool,
    RBFSVMs,
    Sample,
    _engine,
    _kernel_pool,
    _layout,
    _rbf_svm,
    jaakkola_gamma,
)
from pacbayes.pools._rbf_svm import feature_scale
from pacbayes.sampling import GivenSubsamples, RandomSubsamples

X, Y = make_moons(200, noise=0.2, random_state=0)
CLASSES = np.array([0, 1])
SUBSAMPLES = RandomSubsamples(200, [15], 40, entropy=0)
ZERO_ONE = resolve_loss("zero_one", CLASSES)


# ---------------------------------------------------------------------------------------------------
# Jaakkola's seed and the scaling
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_jaakkola_against_all_distances(n_classes):
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), rng.integers(0, n_classes, 60)
    distances = pairwise_distances(points)
    nearest = [distances[i][labels != labels[i]].min() for i in range(60)]
    assert jaakkola_gamma(points, labels) == pytest.approx(1 / (2 * np.median(nearest) ** 2), rel=1e-12)


EXTREME_SEEDS = [
    ([[0.0], [0.0], [2.0]], [0, 1, 1], 1 / 8),  # coinciding points of two classes are left out
    ([[0.0], [0.0]], [0, 1], 0.5),  # nothing else is left
    ([[0.0], [1e-140]], [0, 1], 1e100),
    ([[0.0], [1e60]], [0, 1], 1e-100),
]


@pytest.mark.parametrize(("points", "labels", "expected"), EXTREME_SEEDS)
def test_jaakkola_stays_positive_and_finite(points, labels, expected):
    assert jaakkola_gamma(np.array(points), np.array(labels)) == pytest.approx(expected, rel=1e-12)


def train(points, codes, *, C=1.0, gamma=None, multiplier=1.0, tolerance=1e-3, max_iterations=10**7, scale=None):
    """One SVM on all points."""
    points = np.ascontiguousarray(points, dtype=np.float64)
    n = len(points)
    arguments = (np.array([multiplier]), np.array([float(C)]), scale, tolerance, max_iterations)
    seed = np.nan if gamma is None else gamma
    rows, sizes = np.arange(n, dtype=np.int32), np.array([n])
    result = _engine.train(points, np.asarray(codes, dtype=np.int32), rows, sizes, seed, *arguments)
    sample = Sample(points, np.asarray(codes), np.arange(max(codes) + 1))
    own = {"n_classes": result["n_classes"], "class_codes": result["classes"], "shared_scale": None}
    return RBFSVMPool()._collect(result, sample, np.array([float(C)]), scale, **own)


@pytest.mark.parametrize(("points", "labels", "expected"), EXTREME_SEEDS)
def test_the_engines_seed_at_extremes(points, labels, expected):
    assert train(points, labels)[0].gamma == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_engines_seed_is_jaakkolas(n_classes):
    rng = np.random.default_rng(1)
    for size in (7, 30, 61, 64, 65, 200):
        points, labels = rng.normal(size=(size, 4)), np.arange(size) % n_classes
        # Squared distances are in single precision.
        assert train(points, labels)[0].gamma == pytest.approx(jaakkola_gamma(points, labels), rel=1e-6)


@pytest.mark.parametrize(("kind", "scaler"), [("minmax", MinMaxScaler((-1, 1))), ("standard", StandardScaler())])
def test_feature_scale_is_scikit_learns(kind, scaler):
    points = np.random.default_rng(0).normal(size=(20, 5)) * 10.0 ** np.arange(-2, 3)
    scaled = scaler.fit(points).transform(points)
    np.testing.assert_allclose(np.diff(points * feature_scale(points, kind), axis=0), np.diff(scaled, axis=0))
    points[:, 2] = 7.0
    assert feature_scale(points, kind)[2] == 1.0


# ---------------------------------------------------------------------------------------------------
# The exponential
# ---------------------------------------------------------------------------------------------------


def test_kernel_values_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([10.0 ** rng.uniform(-20, 2.85, 64 * 3000), rng.uniform(0, 708, 64 * 3000), np.zeros(64)])
    x = np.minimum(x, 708.0)
    values = np.empty_like(x)
    _engine.kernel(x, 1.0, values)
    exact = np.exp(-x.astype(np.longdouble))
    assert np.max(np.abs(values - exact) / np.spacing(exact.astype(np.float64))) < 2
    assert np.all(values[-64:] == 1.0)


def test_kernel_values_in_single_precision_to_one_unit_in_the_last_place():
    """Kernel values near 1, on which the curvature of SMO depends, to the nearest number or almost."""
    rng = np.random.default_rng(0)
    x = np.concatenate([10.0 ** rng.uniform(-20, 1.94, 64 * 5000), rng.uniform(0, 87, 64 * 3000), np.zeros(64)])
    x = np.minimum(x, 87.0).astype(np.float32)
    values = np.empty_like(x)
    _engine.kernel(x, 1.0, values)
    exact = np.exp(-x.astype(np.float64))
    error = np.abs(values - exact) / np.spacing(exact.astype(np.float32))
    # Without fused products, these are rounded before they are added.
    assert error.max() < (1.2 if _engine.instructions == "baseline" else 1)
    assert error[x < 1e-3].max() < 0.51
    assert np.all(values[-64:] == 1.0)


@pytest.mark.parametrize(("least", "dtype"), [(708.5, np.float64), (87.01, np.float32)])
def test_kernel_values_that_underflow_are_zero(least, dtype):
    x = np.tile(np.array([least, 800.0, 1e9, np.finfo(dtype).max / 2], dtype=dtype), 16)
    values = np.empty_like(x)
    _engine.kernel(x, 1.0, values)
    assert np.all(values == 0.0)


# ---------------------------------------------------------------------------------------------------
# Against SVC
# ---------------------------------------------------------------------------------------------------


def dual_objective(coefficients, points, gamma):
    kernel = np.exp(-gamma * pairwise_distances(points, metric="sqeuclidean"))
    return np.abs(coefficients).sum() - coefficients @ kernel @ coefficients / 2


def decision_values(trained, points, queries):
    svm = trained[0]
    ensemble, rows = trained._ensemble
    values = np.empty((svm.intercept.size, len(queries)))
    _engine.decide(np.ascontiguousarray(queries), np.ascontiguousarray(points[rows]), ensemble, values)
    return values


def assert_agrees_with_svc(points, codes, queries, C, gamma):
    """The bar: dual objectives to 1e-6, decision values to 1e-4, labels wherever |decision| > 1e-3.

    Both have a kernel matrix in single precision. Its errors, a few units of 2^-24, are multiplied by the coefficients:
    decision values of large coefficients differ by more, from each other and from those of an exact matrix.
    """
    trained = train(points, codes, C=C, gamma=gamma, tolerance=1e-6)
    svm = trained[0]
    expected = SVC(C=C, gamma=gamma, tol=1e-6).fit(points, codes)
    values, theirs = decision_values(trained, points, queries)[0], -expected.decision_function(queries)
    rounding = 2.0**-21 * np.linalg.norm(expected.dual_coef_)
    np.testing.assert_allclose(values, theirs, atol=1e-4 + rounding)
    sure = np.abs(theirs) > 1e-3 + rounding
    np.testing.assert_array_equal(values[sure] > 0, theirs[sure] > 0)
    np.testing.assert_allclose(
        dual_objective(svm.dual_coef[0], points[svm.support], gamma),
        dual_objective(expected.dual_coef_[0], expected.support_vectors_, gamma),
        rtol=1e-6,
    )


@pytest.mark.parametrize("r", [2, 3, 7, 41, 64, 65, 130, 500])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_random_data(r, C):
    rng = np.random.default_rng(r)
    points, codes = rng.normal(size=(r, 6)), np.arange(r) % 2
    points[:, 0] += codes
    queries = rng.normal(size=(150, 6))
    for multiplier in GAMMA_GRID:
        assert_agrees_with_svc(points, codes, queries, C, jaakkola_gamma(points, codes) * multiplier)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 60),
    st.integers(1, 8),
    st.floats(-3, 3),
    st.floats(-4, 4),
    st.floats(0.1, 0.9),
    st.integers(0, 2**32 - 1),
)
def test_any_data(r, d, log_C, log_gamma, share, seed):
    rng = np.random.default_rng(seed)
    points, codes = rng.normal(size=(r, d)), (rng.random(r) < share).astype(int)
    codes[:2] = [0, 1]
    # Coarse points coincide now and then.
    assert_agrees_with_svc(np.round(points, 1), codes, rng.normal(size=(30, d)), 10.0**log_C, 10.0**log_gamma)


REAL = ["ionosphere", "haberman", "breast-cancer", "mushrooms", "skin", "waveform", "adult", "avsb"]


@pytest.mark.skipif("PACBAYES_CSV" not in os.environ, reason="PACBAYES_CSV does not name the folder of the datasets")
@pytest.mark.parametrize("sizes", [(2, 5, 41, 150), pytest.param((500,), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", sweep(REAL, quick=range(3)))
def test_the_papers_datasets(name, sizes):
    table = np.loadtxt(os.path.join(os.environ["PACBAYES_CSV"], f"{name}.csv.gz"), delimiter=",", skiprows=1, dtype=str)
    rng = np.random.default_rng(0)
    table = table[rng.permutation(len(table))[:1500]]
    points, codes = table[:, :-1].astype(float), np.unique(table[:, -1], return_inverse=True)[1]
    points = MinMaxScaler((-1, 1)).fit_transform(points)[codes < 2]
    codes = codes[codes < 2]
    checked = 0
    for r in sizes:
        for C in (1e-2, 1.0, 1e3):
            for multiplier in GAMMA_GRID:
                rows = rng.permutation(len(points))[: min(r, len(points) // 2)]
                if np.unique(codes[rows]).size == 2:
                    gamma = jaakkola_gamma(points[rows], codes[rows]) * multiplier
                    assert_agrees_with_svc(points[rows], codes[rows], points[:500], C, gamma)
                    checked += 1
    assert checked > 10 * len(sizes)


class TestDegenerate:
    def test_duplicates_with_opposite_labels(self):
        points = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 2.0], [2.0, 2.0], [0.5, 0.0]])
        assert_agrees_with_svc(points, np.array([0, 1, 0, 1, 1]), points, C=1.0, gamma=0.7)

    @pytest.mark.parametrize("C", [1e8, 1e10, 1e12, 1e15])
    def test_a_hard_margin(self, C):
        """Coefficients are far below C, and none is set to its bound for being small in comparison with C."""
        rng = np.random.default_rng(0)
        points, queries = np.unique(np.round(rng.normal(size=(30, 3)) * 2) / 2, axis=0), rng.normal(size=(50, 3))
        codes = rng.permutation(len(points)) % 2
        assert_agrees_with_svc(points, codes, queries, C=C, gamma=2.0)
        coefficients = train(points, codes, C=C, gamma=2.0).dual_coef
        assert abs(coefficients.sum()) <= 1e-9 * np.abs(coefficients).sum()

    def test_identical_rows(self):
        trained = train(np.ones((6, 3)), [0, 0, 1, 1, 1, 1], C=10.0, gamma=1.0)
        expected = SVC(C=10.0, gamma=1.0).fit(np.ones((6, 3)), [0, 0, 1, 1, 1, 1])
        values = decision_values(trained, np.ones((6, 3)), np.zeros((1, 3)))
        np.testing.assert_allclose(values[0], -expected.decision_function(np.zeros((1, 3))), atol=1e-3)

    def test_one_class_is_a_constant(self):
        trained = train(np.random.default_rng(0).normal(size=(5, 2)), [1] * 5)
        assert trained[0].classes.tolist() == [1]
        assert trained[0].support.size == trained[0].dual_coef.size == trained[0].intercept.size == 0
        votes = np.empty((1, 70), dtype=np.uint16)
        _engine.vote(np.zeros((70, 2)), np.zeros((0, 2)), trained._ensemble[0], 2**20, votes)
        assert np.all(votes == 1)

    @pytest.mark.parametrize("gamma", [0.0, 1e-300, 1e300])
    def test_widths_without_information(self, gamma):
        rng = np.random.default_rng(0)
        points, codes = rng.normal(size=(20, 3)), np.arange(20) % 3 // 2  # two to one
        trained = train(points, codes, C=1.0, gamma=gamma)
        expected = SVC(C=1.0, kernel="precomputed").fit(np.eye(20) if gamma > 1 else np.ones((20, 20)), codes)
        queries = rng.normal(size=(10, 3))
        theirs = -expected.decision_function(np.zeros((10, 20)) if gamma > 1 else np.ones((10, 20)))
        np.testing.assert_allclose(decision_values(trained, points, queries)[0], theirs, atol=1e-6)

    def test_a_soft_margin_bounds_all_support_vectors(self):
        trained = train(X, Y, C=1e-3, gamma=1.0)
        np.testing.assert_array_equal(np.abs(trained.dual_coef), 1e-3)
        assert trained.support.size == 200

    def test_rows_whose_features_overflow_when_squared(self):
        points = np.array([[0.0], [1e200], [1.0], [1e200]])
        values = decision_values(train(points, [0, 1, 0, 1], gamma=1.0), points, points)
        assert np.isfinite(values).all()

    def test_what_is_not_a_number_does_not_converge(self):
        points = X.copy()
        points[3, 0] = np.nan
        assert train(points, Y, gamma=1.0).failed.tolist() == [True]

    def test_features_too_small_to_be_scaled(self):
        points = np.column_stack([X, np.where(np.arange(200) % 2, 1e-310, 0.0)])
        for kind in ("minmax", "standard"):
            assert feature_scale(points, kind)[2] == 1.0

    def test_points_that_coincide_far_from_the_origin(self):
        rng = np.random.default_rng(0)
        some, others = rng.normal(size=(30, 5)) + 1e6, rng.normal(size=(40, 5)) + 1e6
        points, codes = np.vstack([some, some, others]), np.repeat([0, 1, 1], [30, 30, 40])
        seed = jaakkola_gamma(points, codes)
        assert seed == pytest.approx(train(points, codes)[0].gamma, rel=1e-9)
        assert seed < 10

    def test_running_out_of_steps_is_said(self):
        assert train(X, Y, C=1e3, gamma=1.0, max_iterations=3).failed.tolist() == [True]


@pytest.mark.parametrize("data", ["iris", "digits"])
def test_several_classes_vote_in_pairs(data):
    points, codes = (load_iris if data == "iris" else load_digits)(return_X_y=True)
    rng = np.random.default_rng(0)
    for r in (20, 60, 120):
        rows = rng.permutation(len(codes))[:r]
        gamma = jaakkola_gamma(points[rows], codes[rows])
        for multiplier in (1e-2, 1.0, 1e2):
            trained = train(points[rows], codes[rows], C=10.0, gamma=gamma * multiplier, tolerance=1e-6)
            expected = SVC(C=10.0, gamma=gamma * multiplier, tol=1e-6, decision_function_shape="ovo")
            expected.fit(points[rows], codes[rows])
            values = decision_values(trained, points[rows], points)
            np.testing.assert_allclose(values.T, expected.decision_function(points), atol=1e-4)
            votes = np.empty((1, len(points)), dtype=np.uint16)
            ensemble, used = trained._ensemble
            _engine.vote(points, np.ascontiguousarray(points[rows][used]), ensemble, 2**20, votes)
            sure = (np.abs(values) > 1e-3).all(axis=0)
            np.testing.assert_array_equal(votes[0][sure], expected.predict(points)[sure])


# ---------------------------------------------------------------------------------------------------
# The pool
# ---------------------------------------------------------------------------------------------------


# The paper's pool: widths and soft margins are drawn for each hypothesis, nothing is scaled.
def one_kind(**settings):
    return RBFSVMPool(**{"gamma_grid": tuple(GAMMA_GRID), "scaler": None, "assignment": "drawn", **settings})


def fit(pool, points, codes, subsamples=SUBSAMPLES, hypotheses=range(40), reference=None):
    """Hypotheses of a pool, which know their support vectors."""
    classes = np.unique(codes)
    sample = Sample(points, codes, classes)
    shared = pool.prepare(sample, 0)[1] if reference is None else pool._shared_by(Sample(*reference, classes))
    return pool.train(sample, subsamples, hypotheses, 0, shared).keep_training_points(sample)


def test_groups_of_one_scaler_copy_their_points_one_after_another(monkeypatch):
    copies, alive = [], []

    def scaled(*arguments):
        copy = _layout.scaled(*arguments)
        copies.append(weakref.ref(copy))
        return copy

    def train(*arguments, **options):
        alive.append(sum(copy() is not None for copy in copies))
        return engine_train(*arguments, **options)

    pool, engine_train = one_kind(C=1.0, gamma_source="sample", scaler=("minmax", "standard")), _engine.train
    sample = Sample(X, Y, CLASSES)
    shared = pool.prepare(sample, 0)[1]
    monkeypatch.setattr(_kernel_pool, "scaled", scaled)
    monkeypatch.setattr(_engine, "train", train)
    pool.train(sample, SUBSAMPLES, range(40), 0, shared)
    assert alive == [1, 1]


def totals_of(trained, points, codes, subsamples=SUBSAMPLES, hypotheses=range(40), rows=range(200), loss=ZERO_ONE):
    sample = Sample(points, codes, np.unique(codes))
    return trained.loss_totals(sample, subsamples, hypotheses, rows, loss)


@pytest.mark.parametrize("data", ["moons", "iris"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"scaler": "minmax"}, {"scaler": "standard"}, {"reference": True}, {"reference": True, "scaler": "standard"}],
)
def test_the_pool_is_a_loop_over_svc(data, settings, monkeypatch):
    monkeypatch.setattr(_rbf_svm, "_TOLERANCE", 1e-6)
    points, codes = (X, Y) if data == "moons" else load_iris(return_X_y=True)
    n = len(codes)
    subsamples = RandomSubsamples(n, [6, 15, 40], 60, entropy=0)
    settings = dict(settings)
    reference = (points[::3], codes[::3]) if settings.pop("reference", False) else None
    pool = one_kind(C=[10.0, 1000.0], **settings)
    trained = fit(pool, points, codes, subsamples, range(60), reference)
    loop = SVCLoopPool([10.0, 1000.0], reference=reference, **settings)
    expected = fit(loop, points, codes, subsamples, range(60))
    totals = totals_of(trained, points, codes, subsamples, range(60), range(n))
    uncertain = trained.votes_and_uncertain(points)[1]
    compared = 0
    for h, svm in enumerate(trained):
        labels = svm.predict(points)
        sure = (np.abs(svm.decision_function(points)) > 1e-3).all(axis=1)
        np.testing.assert_array_equal(labels[sure], expected[h].predict(points)[sure])
        compared += np.count_nonzero(sure)
        assert not (uncertain[h] & sure).any()
        validating = np.setdiff1d(np.arange(n), subsamples[h])
        assert totals[h] == np.count_nonzero(((labels != codes) | uncertain[h])[validating])
    assert compared > 0.8 * 60 * n


def test_soft_margins_are_drawn_from_the_list():
    assert {svm.C for svm in fit(one_kind(C=[1.0, 10.0]), X, Y)} == {1.0, 10.0}


def test_every_combination_is_dealt_once_to_each_size():
    subsamples = RandomSubsamples(200, [10, 30], 180, entropy=0)
    pool = RBFSVMPool()
    assigned = pool.kinds(subsamples, range(180), 0)
    for size in (10, 30):
        own = assigned[subsamples.sizes == size]
        assert sorted(own[:45]) == sorted(own[45:]) == list(range(45))
        assert own[:45].tolist() != own[45:].tolist()
    # Whatever block of hypotheses is asked for.
    np.testing.assert_array_equal(pool.kinds(subsamples, range(50, 120), 0), assigned[50:120])
    assert {(svm.C, svm.gamma) for svm in fit(pool, X, Y, subsamples, range(90))}


def test_every_width_of_the_grid_is_drawn():
    widths = {svm.gamma for svm in fit(one_kind(C=1.0, gamma_source="sample"), X, Y)} - {0.0}
    np.testing.assert_allclose(sorted(widths), jaakkola_gamma(X, Y) * GAMMA_GRID)


def test_reference_points_of_one_class_still_give_a_width():
    trained = fit(one_kind(C=1.0), X, Y, hypotheses=range(5), reference=(X[Y == 0], Y[Y == 0]))
    assert all(0 < svm.gamma < np.inf for svm in trained)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_shared_and_own_kernels_agree_to_the_bit(n):
    """Few hypotheses have distances of their own, many share them; equal widths share exponentials too."""
    trained = fit(one_kind(C=10.0, gamma_source="sample"), X, Y)
    queries = np.random.default_rng(0).normal(size=(n, 2))
    together = trained.votes(queries)
    for h in range(40):
        np.testing.assert_array_equal(trained.take(np.array([h])).votes(queries)[0], together[h])
        np.testing.assert_array_equal(trained[h].predict(queries), together[h])
        if trained[h].classes.size == 2:
            values = trained[h].decision_function(queries)[:, 0]
            np.testing.assert_array_equal(np.where(values > 0, 0, 1), together[h])


def test_single_precision_input():
    single = X.astype(np.float32)
    one, other = (fit(one_kind(C=10.0), points, Y) for points in (single, single.astype(np.float64)))
    np.testing.assert_array_equal(one.dual_coef, other.dual_coef)
    np.testing.assert_array_equal(totals_of(one, single, Y), totals_of(other, single.astype(np.float64), Y))


@pytest.mark.parametrize("loss", ["zero_one", [[0, 1], [0.25, 0]]])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_totals_add_up_over_blocks_and_ranges(loss, container):
    resolved = resolve_loss(loss, CLASSES)
    points = container(X)
    trained = fit(one_kind(C=10.0, working_memory=1e-3), points, Y)
    whole = totals_of(trained, points, Y, loss=resolved)
    blocks = [range(0, 1), range(1, 64), range(64, 200)]
    parts = [totals_of(trained[7:30], points, Y, hypotheses=range(7, 30), rows=b, loss=resolved) for b in blocks]
    np.testing.assert_array_equal(sum(parts), whole[7:30])


def test_wide_sparse_data():
    rng = np.random.default_rng(0)
    points = sparse.csr_matrix(sparse.random(120, 20_000, density=0.002, rng=rng, format="lil"))
    codes = np.arange(120) % 2
    points = sparse.csr_matrix(points + sparse.csr_matrix((codes, (range(120), [0] * 120)), shape=points.shape))
    subsamples = RandomSubsamples(120, [40], 10, entropy=0)
    totals, expected = (
        totals_of(fit(pool, points, codes, subsamples, range(10)), points, codes, subsamples, range(10), range(120))
        for pool in (one_kind(C=10.0), SVCLoopPool([10.0]))
    )
    assert np.abs(totals - expected).max() <= 1


def test_a_hypothesis_that_runs_out_of_steps_is_named_or_dropped(monkeypatch):
    monkeypatch.setattr(_rbf_svm, "_MAX_ITERATIONS", 2)
    with pytest.raises(HypothesisError, match=r"hypothesis \d+ .* did not reach the tolerance in 2 steps .* smaller C"):
        fit(one_kind(C=10.0), X, Y, hypotheses=range(10))
    trained = fit(one_kind(C=10.0, on_error="drop"), X, Y, hypotheses=range(10))
    totals = totals_of(trained, X, Y, hypotheses=range(10), rows=range(100, 200))
    assert trained.failed.any()
    for h in np.flatnonzero(trained.failed):
        assert totals[h] == 100 - np.count_nonzero(SUBSAMPLES[h] >= 100)


def test_svms_are_a_sequence():
    points, codes = load_iris(return_X_y=True)
    subsamples = GivenSubsamples(150, [range(5), range(40, 60), range(0, 150, 7), range(90, 110)])
    svms = fit(one_kind(C=10.0), points, codes, subsamples, range(4))
    assert [svm.classes.tolist() for svm in svms] == [[0], [0, 1], [0, 1, 2], [1, 2]]
    assert [svm.dual_coef.shape[0] for svm in svms] == [0, 1, 2, 1]
    joined = RBFSVMs.concatenate([svms[:1], svms[1:]])
    for one, other, again in zip(svms, joined, pickle.loads(pickle.dumps(svms)), strict=True):
        for name in ("classes", "n_support", "support", "dual_coef", "intercept"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    picked = svms.take(np.array([3, 2, 3]))
    np.testing.assert_array_equal(picked[1].dual_coef, svms[2].dual_coef)
    np.testing.assert_array_equal(picked[2].support, svms[-1].support)
    with pytest.raises(IndexError):
        svms[4]


def test_results_are_not_lost_in_a_converted_copy():
    ensemble, rows = fit(one_kind(C=10.0), X, Y, hypotheses=range(3))._ensemble
    with pytest.raises(TypeError):
        _engine.vote(X, np.ascontiguousarray(X[rows]), ensemble, 2**20, np.empty((3, 200), dtype=np.int32))
    with pytest.raises(TypeError):
        _engine.vote(X, np.ascontiguousarray(X[rows]), ensemble, 2**20, np.empty((200, 3), dtype=np.uint16).T)


def test_arrays_that_do_not_fit_together_are_refused():
    ensemble, rows = fit(one_kind(C=10.0), X, Y, hypotheses=range(3))._ensemble
    votes = np.empty((3, 200), dtype=np.uint16)
    with pytest.raises(ValueError, match="support must hold row numbers"):
        _engine.vote(X, np.ascontiguousarray(X[rows[:-1]]), ensemble, 2**20, votes)
    with pytest.raises(ValueError, match="same features"):
        _engine.vote(np.zeros((200, 3)), np.ascontiguousarray(X[rows]), ensemble, 2**20, votes)
    with pytest.raises(ValueError, match="votes must be machines x rows"):
        _engine.vote(X, np.ascontiguousarray(X[rows]), ensemble, 2**20, votes[:2])


def test_memory_does_not_matter():
    ample, tight = (fit(one_kind(C=10.0, working_memory=mib), X, Y) for mib in (512, 1e-6))
    np.testing.assert_array_equal(totals_of(ample, X, Y), totals_of(tight, X, Y))


@pytest.mark.parametrize(
    "convert", [np.asfortranarray, lambda X: X[::-1][::-1], lambda X: (X * 1000).astype(int), sparse.csr_array]
)
def test_layouts_do_not_matter(convert):
    points = convert(X)
    plain = np.ascontiguousarray(points.toarray() if sparse.issparse(points) else points, dtype=np.float64)
    one, other = (fit(one_kind(C=10.0), p, Y, hypotheses=range(3, 20)) for p in (points, plain))
    np.testing.assert_array_equal(one.support, other.support)
    np.testing.assert_array_equal(one.dual_coef, other.dual_coef)
    totals = [totals_of(one, p, Y, hypotheses=range(3, 20)) for p in (points, plain)]
    np.testing.assert_array_equal(*totals)


def test_too_many_classes_are_refused_before_training():
    with pytest.raises(ValueError, match="at most 65536 classes, got 70000"):
        one_kind().check_classes(np.arange(70_000))


def test_probabilities_are_refused():
    with pytest.raises(HypothesisError, match="needs a base learner with predict_proba, and SVMs have none"):
        one_kind().check_loss(resolve_loss("brier", CLASSES))


@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["baseline", "avx2"])
def test_older_machines_get_the_same_answers(instructions):
    """The routines of every instruction set that this machine has, against the ones it would choose."""
    program = (
        "import numpy as np; from sklearn.datasets import load_digits; from pacbayes import PACBayesClassifier;"
        "from pacbayes.pools import RBFSVMPool, _engine; X, y = load_digits(n_class=4, return_X_y=True);"
        "model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, subsample_size=[30, 200], random_state=0).fit(X, y);"
        "print(_engine.instructions, *(model.losses_ * model.n_validation_).round().astype(int))"
    )

    def mistakes(limit):
        environment = {**os.environ, "PACBAYES_INSTRUCTIONS": limit}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        chosen, *numbers = done.stdout.split()
        return chosen, np.array(numbers, dtype=int)

    best, expected = mistakes("best")
    chosen, found = mistakes(instructions)
    assert chosen in {"baseline", instructions}
    assert best in {"baseline", "avx2", "avx512"}
    # Fused multiplication rounds once where the others round twice: a label on the boundary may differ.
    assert np.abs(found - expected).max() <= 2


def test_hypotheses_do_not_change_when_they_are_used():
    """What is computed once lives beside them, and is forgotten with them."""
    trained = fit(one_kind(C=10.0), X, Y)
    before = dict(vars(trained))
    trained.votes(X)
    totals_of(trained, X, Y)
    assert trained[3].decision_function(X).shape == (200, 1)
    assert vars(trained).keys() == before.keys()
    assert all(vars(trained)[name] is value for name, value in before.items())
    ensemble = trained._ensemble[0]
    assert trained._ensemble[0] is ensemble
    again = pickle.loads(pickle.dumps(trained))
    assert again._ensemble[0] is not ensemble
    np.testing.assert_array_equal(again.votes(X), trained.votes(X))
    alive = weakref.ref(trained)
    del trained
    assert alive() is None


def test_a_subclass_trains_in_its_own_way():
    class Noting(RBFSVMPool):
        def train(self, sample, subsamples, hypotheses, entropy, shared):
            trained.append(len(hypotheses))
            return super().train(sample, subsamples, hypotheses, entropy, shared)

    trained = []
    X = np.random.default_rng(0).normal(size=(30, 2))
    sample, pool = Sample(X, (X[:, 0] > 0).astype(np.intp), np.array([0, 1])), Noting(scaler=None)
    sample, shared = pool.prepare(sample, 0)
    finish = pool.start_training(sample, RandomSubsamples(30, [8], 3, 0), range(3), 0, shared)
    assert trained == []
    assert len(finish()) == 3
    assert trained == [3]
