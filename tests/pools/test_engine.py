"""The compiled engine, called directly: sparse rows beside dense ones, arguments that are refused, extremes."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool, _engine, jaakkola_gamma

TRAINED = ["n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma", "converged"]
SCALERS = {"minmax": MinMaxScaler((-1, 1)), "standard": StandardScaler()}


def csr(X):
    """The engine's view of a dense or sparse array, zeros left out."""
    X = sparse.csr_array(X)
    X.sum_duplicates()
    return _engine.CSR(X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), X.shape[1])


def random_rows(rng, n, d, density, dtype=np.float64):
    """Rows with zeros and with features of different magnitudes; some coincide."""
    X = np.round(rng.normal(size=(n, d)), 1) * 10.0 ** rng.integers(-3, 4, size=d)
    X[rng.random((n, d)) >= density] = 0.0
    return X.astype(dtype)


def train(X, codes, subsamples, *, seed=np.nan, multipliers=1.0, C=10.0, scaler=None, tolerance=1e-3, steps=10**7):
    m = len(subsamples)
    rows = np.concatenate(subsamples).astype(np.int32)
    sizes = np.array([len(subsample) for subsample in subsamples], dtype=np.int64)
    grids = (np.broadcast_to(np.asarray(x, dtype=float), m).copy() for x in (multipliers, C))
    return _engine.train(X, np.asarray(codes, dtype=np.int32), rows, sizes, seed, *grids, scaler, tolerance, steps)


def dense_scale(result, m, d):
    return result["scale"].reshape(m, d)


def sparse_scale(result, d):
    return _engine.CSR(result["scale"], result["scale_indices"], result["scale_indptr"], d)


def ensemble_of(result, scale=None):
    return _engine.Ensemble(*(result[name] for name in TRAINED[:-1]), scale)


def vote(X, n, points, ensemble, m, memory=2**28):
    votes = np.full((m, n), 60_000, dtype=np.uint16)
    _engine.vote(X, points, ensemble, memory, votes)
    return votes


def certain_votes(X, n, points, ensemble, m):
    certain = np.full((m, n), 2, dtype=np.uint8)
    _engine.vote(X, points, ensemble, 2**28, np.empty((m, n), dtype=np.uint16), certain)
    assert set(np.unique(certain)) <= {0, 1}
    return certain == 1


def one_machine(**changes):
    """An SVM with two support vectors, rows 0 and 1, of classes 0 and 1."""
    arrays = {
        "n_classes": np.array([2], dtype=np.int32),
        "classes": np.array([0, 1], dtype=np.int32),
        "counts": np.array([1, 1], dtype=np.int32),
        "support": np.array([0, 1], dtype=np.int32),
        "coefficients": np.array([1.0, -1.0]),
        "intercepts": np.array([0.0]),
        "gamma": np.array([1.0]),
        "scale": None,
    }
    arrays.update(changes)
    if sparse.issparse(arrays["scale"]):
        arrays["scale"] = csr(arrays["scale"])
    return _engine.Ensemble(**arrays)


# ---------------------------------------------------------------------------------------------------
# Sparse rows have the bits of dense ones
# ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(3, 150),
    d=st.integers(1, 60),
    density=st.floats(0, 1),
    n_classes=st.integers(1, 4),
    dtype=st.sampled_from([np.float64, np.float32]),
    scaler=st.sampled_from([None, "minmax", "standard"]),
    memory=st.sampled_from([0, 2**28]),
    seed=st.integers(0, 2**32 - 1),
)
def test_sparse_and_dense_rows_have_the_same_bits(n, d, density, n_classes, dtype, scaler, memory, seed):
    rng = np.random.default_rng(seed)
    X, codes = random_rows(rng, n, d, density, dtype), rng.integers(0, n_classes, n).astype(np.int32)
    m = int(rng.integers(1, 6))
    subsamples = [np.sort(rng.permutation(n)[: rng.integers(1, n + 1)]) for _ in range(m)]
    multipliers = 10.0 ** rng.integers(-4, 5, m)
    dense, thin = (train(rows, codes, subsamples, multipliers=multipliers, scaler=scaler) for rows in (X, csr(X)))
    for name in TRAINED:
        np.testing.assert_array_equal(thin[name], dense[name], err_msg=name)

    scales = (None, None)
    if scaler is not None:
        factors = sparse.csr_array((thin["scale"], thin["scale_indices"], thin["scale_indptr"]), shape=(m, d))
        stored = sparse.csr_array((np.ones_like(factors.data), factors.indices, factors.indptr), shape=(m, d))
        filled = np.where(stored.toarray() == 1, factors.toarray(), 1.0)
        np.testing.assert_array_equal(filled, dense_scale(dense, m, d))
        scales = (dense_scale(dense, m, d), sparse_scale(thin, d))
    ensembles = [ensemble_of(result, scale) for result, scale in zip((dense, thin), scales, strict=True)]
    queries = np.concatenate([X, random_rows(rng, int(rng.integers(1, 70)), d, density, dtype)])
    points = X.astype(np.float64)
    votes = vote(queries, len(queries), points, ensembles[0], m, memory)
    np.testing.assert_array_equal(vote(csr(queries), len(queries), csr(X), ensembles[1], m, memory), votes)

    sizes = np.array([len(subsample) for subsample in subsamples], dtype=np.int64)
    inside = np.concatenate(subsamples).astype(np.int32)
    certain = certain_votes(X, n, points, ensembles[0], m)
    wrong = (votes[:, :n] != codes) | ~certain
    expected = [np.count_nonzero(wrong[h] & ~np.isin(np.arange(n), subsamples[h])) for h in range(m)]
    for rows, support, ensemble in ((X, points, ensembles[0]), (csr(X), csr(X), ensembles[1])):
        mistakes = np.empty(m, dtype=np.int64)
        _engine.count_mistakes(rows, codes, 0, support, ensemble, inside, sizes, memory, mistakes)
        np.testing.assert_array_equal(mistakes, expected)

    nearest = np.empty((2, n))
    _engine.nearest_of_another_class(X, codes, nearest[0])
    _engine.nearest_of_another_class(csr(X), codes, nearest[1])
    np.testing.assert_array_equal(nearest[1], nearest[0])


@pytest.mark.parametrize("scaler", [None, "minmax", "standard"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_values_of_sparse_and_dense_rows_have_the_same_bits(scaler, n_classes):
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 90, 40, 0.2), np.arange(90) % n_classes
    queries = random_rows(rng, 130, 40, 0.1)
    dense, thin = (train(rows, codes, [np.arange(90)], multipliers=0.01, scaler=scaler) for rows in (X, csr(X)))
    values = np.empty((2, n_classes * (n_classes - 1) // 2, 130))
    scales = (None, None) if scaler is None else (dense_scale(dense, 1, 40), sparse_scale(thin, 40))
    _engine.decide(queries, X, ensemble_of(dense, scales[0]), values[0])
    _engine.decide(csr(queries), csr(X), ensemble_of(thin, scales[1]), values[1])
    assert np.unique(values[0]).size > 50
    np.testing.assert_array_equal(values[1], values[0])


@pytest.mark.parametrize("density", [0.002, 0.05, 0.5])
def test_more_columns_than_fit_into_a_slice(density):
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 70, 9000, density), (np.arange(70) % 2).astype(np.int32)
    squared = np.empty((2, 70))
    _engine.nearest_of_another_class(X, codes, squared[0])
    _engine.nearest_of_another_class(csr(X), codes, squared[1])
    np.testing.assert_array_equal(squared[1], squared[0])
    exact = cdist(X, X, "sqeuclidean")
    exact[codes[:, np.newaxis] == codes] = np.inf
    np.testing.assert_allclose(squared[1], exact.min(axis=1), rtol=1e-12)


def test_a_million_features():
    """Memory grows with what is stored: a dense tile of this width would take 512 MiB."""
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(10**6, 30, replace=False)) for _ in range(100)]
    X = sparse.csr_array((rng.normal(size=3000), np.concatenate(rows), np.arange(0, 3001, 30)), shape=(100, 10**6))
    codes = np.arange(100) % 2
    used = np.unique(X.indices)
    narrow = np.ascontiguousarray(X[:, used].toarray())
    wide, dense = (train(x, codes, [np.arange(60)], scaler="standard") for x in (csr(X), narrow))
    for name in TRAINED:
        np.testing.assert_array_equal(wide[name], dense[name], err_msg=name)
    votes = vote(csr(X), 100, csr(X), ensemble_of(wide, sparse_scale(wide, 10**6)), 1)
    expected = vote(narrow, 100, narrow, ensemble_of(dense, dense_scale(dense, 1, used.size)), 1)
    np.testing.assert_array_equal(votes, expected)


def test_stored_zeros_do_not_matter():
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 40, 12, 0.3), np.arange(40) % 2
    full = _engine.CSR(
        np.where(X == 0, -0.0, X).ravel(),
        np.tile(np.arange(12, dtype=np.int32), 40),
        np.arange(0, 481, 12, dtype=np.int64),
        12,
    )
    for scaler in (None, "minmax", "standard"):
        plain, stored = (train(x, codes, [np.arange(40)], scaler=scaler) for x in (csr(X), full))
        for name in TRAINED:
            np.testing.assert_array_equal(stored[name], plain[name], err_msg=name)
        factors = np.empty((2, 12))
        if scaler is not None:
            _engine.feature_scale(csr(X), scaler, factors[0])
            _engine.feature_scale(full, scaler, factors[1])
            np.testing.assert_array_equal(factors[1], factors[0])


# ---------------------------------------------------------------------------------------------------
# Nothing depends on the block, the batch or the memory
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "minmax"])
@pytest.mark.parametrize("container", [np.asarray, csr])
def test_blocks_batches_and_memory_do_not_matter(container, scaler):
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 150, 30, 0.2), (np.arange(150) % 3).astype(np.int32)
    subsamples = [np.sort(rng.permutation(150)[:40]) for _ in range(8)]
    result = train(container(X), codes, subsamples, seed=1e-3, scaler=scaler)
    scale = None
    if scaler is not None:
        scale = sparse_scale(result, 30) if container is csr else dense_scale(result, 8, 30)
    ensemble, points = ensemble_of(result, scale), container(X)
    together = vote(container(X), 150, points, ensemble, 8)
    assert np.unique(together).size > 1
    np.testing.assert_array_equal(vote(container(X), 150, points, ensemble, 8, memory=0), together)
    for start, stop in ((0, 1), (1, 63), (63, 127), (127, 150)):
        part = vote(container(X[start:stop]), stop - start, points, ensemble, 8)
        np.testing.assert_array_equal(part, together[:, start:stop])
    order = rng.permutation(150)
    np.testing.assert_array_equal(vote(container(X[order]), 150, points, ensemble, 8), together[:, order])

    arguments = (np.concatenate(subsamples).astype(np.int32), np.full(8, 40, dtype=np.int64), 2**28)
    totals = []
    for blocks in ([(0, 150)], [(0, 70), (70, 71), (71, 150)]):
        total = np.zeros(8, dtype=np.int64)
        for start, stop in blocks:
            mistakes = np.empty(8, dtype=np.int64)
            block, truth = container(X[start:stop]), codes[start:stop]
            _engine.count_mistakes(block, truth, start, points, ensemble, *arguments, mistakes)
            total += mistakes
        totals.append(total)
    np.testing.assert_array_equal(*totals)


@pytest.mark.parametrize("container", [np.asarray, csr])
@pytest.mark.parametrize("huge", [1e155, 1e200, 1.7e308])
def test_values_whose_squares_overflow(container, huge):
    """Their distances count as the largest number, so that the kernel is 0, in any batch; no row affects another."""
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 70, 10, 0.5), np.arange(70) % 2
    X[::7, 3] = huge
    X[3::7, 3] = -huge
    result = train(container(X), codes, [np.arange(70)], seed=1e-6)
    assert result["converged"].tolist() == [1]
    ensemble = ensemble_of(result)
    together = vote(container(X), 70, container(X), ensemble, 1)
    alone = [vote(container(X[i : i + 1]), 1, container(X), ensemble, 1)[0, 0] for i in range(70)]
    np.testing.assert_array_equal(together[0], alone)
    values = np.empty((1, 70))
    _engine.decide(container(X), container(X), ensemble, values)
    assert np.isfinite(values).all()
    constant = train(container(X), codes, [np.arange(70)], seed=0.0)
    _engine.decide(container(X), container(X), ensemble_of(constant), values)
    assert np.ptp(values) == 0  # exp(-0 * infinity) would not be a number


@pytest.mark.parametrize("container", [np.asarray, csr])
def test_rows_that_are_not_numbers_do_not_affect_others(container):
    rng = np.random.default_rng(0)
    X, codes = random_rows(rng, 64, 10, 0.5), np.arange(64) % 2
    ensemble = ensemble_of(train(container(X), codes, [np.arange(64)]))
    expected = vote(container(X), 64, container(X), ensemble, 1)
    spoiled = X.copy()
    spoiled[[0, 20, 63], 4] = [np.nan, np.inf, -np.inf]
    votes = vote(container(spoiled), 64, container(X), ensemble, 1)
    rest = np.setdiff1d(np.arange(64), [0, 20, 63])
    np.testing.assert_array_equal(votes[:, rest], expected[:, rest])
    assert train(container(spoiled), codes, [np.arange(64)])["converged"].tolist() == [0]


# ---------------------------------------------------------------------------------------------------
# Against other implementations
# ---------------------------------------------------------------------------------------------------


def dual_objective(coefficients, points, gamma):
    kernel = np.exp(-gamma * cdist(points, points, "sqeuclidean"))
    return np.abs(coefficients).sum() - coefficients @ kernel @ coefficients / 2


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 80),
    st.integers(1, 400),
    st.floats(0.005, 0.5),
    st.floats(-2, 3),
    st.floats(-3, 3),
    st.integers(0, 2**32 - 1),
)
def test_sparse_machines_are_those_of_svc(r, d, density, log_C, log_gamma, seed):
    rng = np.random.default_rng(seed)
    points, codes = random_rows(rng, r, d, density) / 100, np.arange(r) % 2
    queries, C, gamma = random_rows(rng, 50, d, density) / 100, 10.0**log_C, 10.0**log_gamma
    result = train(csr(points), codes, [np.arange(r)], seed=gamma, C=C, tolerance=1e-6)
    expected = SVC(C=C, gamma=gamma, tol=1e-6).fit(points, codes)
    values = np.empty((1, 50))
    _engine.decide(csr(queries), csr(points), ensemble_of(result), values)
    theirs = -expected.decision_function(queries)
    # Errors of the kernel matrices, in single precision both, are multiplied by the coefficients.
    rounding = 2.0**-21 * np.linalg.norm(expected.dual_coef_)
    np.testing.assert_allclose(values[0], theirs, atol=1e-4 * max(1, np.abs(theirs).max()) + rounding)
    np.testing.assert_allclose(
        dual_objective(result["coefficients"], points[result["support"]], gamma),
        dual_objective(expected.dual_coef_[0], expected.support_vectors_, gamma),
        rtol=1e-6,
    )


# ---------------------------------------------------------------------------------------------------
# Kernel matrices in single precision
# ---------------------------------------------------------------------------------------------------

UNIT = 2.0**-24


def kernel_error(points, gamma):
    """Bound on the error of a kernel value in single precision: train.cpp."""
    norm = np.linalg.norm(points, axis=1).max()
    return UNIT * (0.37 * (points.shape[1] + 12) + 1.72 * norm * np.sqrt(gamma))


def optimality_gap(result, points, codes, C):
    """How far the machine is from optimal for the exact kernel: the largest ascent direction of its dual."""
    beta, y = np.zeros(len(points)), np.where(np.asarray(codes) == 0, 1.0, -1.0)
    beta[result["support"]] = result["coefficients"]
    squared = cdist(points, points, "sqeuclidean")
    gradient = y - np.exp(-result["gamma"][0] * squared) @ beta
    grows, shrinks = beta < np.where(y > 0, C, 0.0), beta > np.where(y > 0, 0.0, -C)
    return gradient[grows].max() - gradient[shrinks].min()


@settings(max_examples=60, deadline=None)
@given(
    r=st.integers(2, 150),
    d=st.integers(1, 60),
    log_C=st.floats(-2, 3),
    log_gamma=st.floats(-6, 3),
    log_offset=st.floats(-1, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_machines_are_optimal_for_the_exact_kernel(r, d, log_C, log_gamma, log_offset, seed):
    """To the tolerance and the error of the kernel matrix: as bounded in single precision, or rounded at the end."""
    rng = np.random.default_rng(seed)
    points, codes, C = rng.normal(size=(r, d)) + 10.0**log_offset * rng.normal(size=d), np.arange(r) % 2, 10.0**log_C
    result = train(points, codes, [np.arange(r)], seed=10.0**log_gamma, C=C, tolerance=1e-6)
    error = kernel_error(points, 10.0**log_gamma)
    if error > 2.0**-15:
        error = UNIT
    slack = 2 * (error + UNIT / 2) * np.abs(result["coefficients"]).sum()
    assert optimality_gap(result, points, codes, C) < 1e-6 + slack


@pytest.mark.parametrize("container", [np.asarray, csr])
@pytest.mark.parametrize(
    ("scale", "offset", "gamma"),
    [
        (1.0, 1e6, None),
        (1.0, 1e6, 0.1),
        (1.0, 1e8, None),
        (1e19, 0.0, 1e-39),  # squares overflow
        (1e19, 0.0, None),
        (1e-23, 0.0, 1e45),  # squares underflow
        (1e-23, 0.0, None),
        (1.0, 0.0, 1e-40),
        (1.0, 0.0, 0.0),
        (1.0, 0.0, 1e6),
    ],
)
def test_double_precision_where_single_is_not_enough(scale, offset, gamma, container):
    rng = np.random.default_rng(0)
    points, codes = (rng.normal(size=(90, 4)) + offset) * scale, np.arange(90) % 2
    seed = np.nan if gamma is None else gamma
    result = train(container(points), codes, [np.arange(90)], seed=seed, C=10.0, tolerance=1e-6)
    assert result["converged"].tolist() == [1]
    expected = jaakkola_gamma(points, codes) if gamma is None else gamma
    np.testing.assert_allclose(result["gamma"], expected, rtol=1e-7)
    # Kernel values that are off by half a unit in the last place; in single precision they would be off by more.
    rounding = UNIT * np.abs(result["coefficients"]).sum()
    assert optimality_gap(result, points, codes, 10.0) < 1.1e-6 + rounding


@pytest.mark.parametrize(
    ("offset", "d", "single"), [(0.0, 4, True), (30.0, 4, True), (0.0, 1300, True), (0.0, 1500, False), (1e6, 4, False)]
)
def test_which_precision_is_used(offset, d, single):
    """The heuristic kernel width has the rounding of the distances that it is computed from."""
    rng = np.random.default_rng(0)
    points, codes = rng.normal(size=(60, d)) + offset, np.arange(60) % 2
    (gamma,) = train(points, codes, [np.arange(60)])["gamma"]
    difference = abs(gamma / jaakkola_gamma(points, codes) - 1)
    assert 1e-12 < difference < 1e-4 if single else difference < 1e-12


def test_points_that_only_single_precision_cannot_tell_apart():
    """Most of the nearest points of another class are 1e-9 away: the kernel width is theirs."""
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(20, 3)), 2, axis=0)
    points[1::2] += 1e-9
    codes = np.arange(40) % 2
    result = train(points, codes, [np.arange(40)])
    np.testing.assert_allclose(result["gamma"], jaakkola_gamma(points, codes), rtol=1e-6)
    assert result["gamma"][0] > 1e15


@pytest.mark.parametrize("offset", [0.0, 30.0, 1e6])
def test_rows_of_a_table_have_the_bits_of_dense_ones(offset):
    rng = np.random.default_rng(0)
    points, codes = rng.normal(size=(150, 7)) + offset, (np.arange(150) % 2).astype(np.int32)
    rows, sizes, ones = np.arange(150, dtype=np.int32), np.array([150]), np.ones(1)
    arguments = (codes, rows, sizes, np.nan, ones, ones, None, 1e-3, 10**6)
    plain, table = _engine.train(points, *arguments), _engine.train(points, *arguments, 7, 0)
    for name in TRAINED:
        np.testing.assert_array_equal(table[name], plain[name], err_msg=name)


@pytest.mark.parametrize("instructions", ["baseline", pytest.param("avx2", marks=pytest.mark.slow)])
def test_every_instruction_set_trains_the_same_machines(instructions):
    """To the bit where multiplications are fused with additions, else to the error of the kernel matrix.

    So do regressions, and they predict the same.
    """
    program = """
import numpy as np
from pacbayes.pools import _engine
rng = np.random.default_rng(0)
X, codes = rng.normal(size=(300, 21)), (np.arange(300) % 3).astype(np.int32)
parts = [np.sort(rng.choice(300, size, replace=False)) for size in (10, 40, 63, 64, 65, 130, 300)]
sizes = np.array([part.size for part in parts])
rows, ones = np.concatenate(parts).astype(np.int32), np.ones(7)
result = _engine.train(X, codes, rows, sizes, np.nan, ones, 3 * ones, "standard", 1e-6, 10**6)
ridges = _engine.train_ridges(X, X[:, 0] * X[:, 1], rows, sizes, ones, 0.01 * ones, "standard")
pairs = np.stack((ridges["counts"], 0 * ridges["counts"]), axis=1).ravel()
classes = (np.full(7, 2, np.int32), np.tile(np.array([0, 1], np.int32), 7), pairs)
arrays = [ridges[name] for name in ("support", "coefficients", "intercepts", "gamma")]
values = np.empty((7, 300))
_engine.decide(X, X, _engine.Ensemble(*classes, *arrays, ridges["scale"].reshape(7, 21)), values)
unfused = _engine.instructions == "baseline"
numbers = (result["gamma"], result["intercepts"], ridges["coefficients"], ridges["gamma"], values.ravel())
machines = np.concatenate([[unfused], *numbers])
"""
    here = {}
    exec(program, here)
    best = here["machines"]
    environment = {**os.environ, "PACBAYES_INSTRUCTIONS": instructions}
    command = [sys.executable, "-c", f"{program}\nimport sys\nnp.save(sys.stdout.buffer, machines)"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    limited = np.load(io.BytesIO(done.stdout))
    tolerance = 0 if best[0] == limited[0] else 1e-5
    np.testing.assert_allclose(limited[1:], best[1:], rtol=tolerance, atol=tolerance)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(2, 40),
    st.floats(0, 1),
    st.sampled_from(["minmax", "standard"]),
    st.integers(0, 2**32 - 1),
)
def test_factors_are_those_of_scikit_learn(n, d, density, scaler, seed):
    X = random_rows(np.random.default_rng(seed), n, d, density)
    factors = np.empty((2, d))
    _engine.feature_scale(X, scaler, factors[0])
    _engine.feature_scale(csr(X), scaler, factors[1])
    np.testing.assert_array_equal(factors[1], factors[0])
    scaled = SCALERS[scaler].fit(X).transform(X)
    np.testing.assert_allclose(np.diff(X * factors[0], axis=0), np.diff(scaled, axis=0), rtol=1e-9, atol=1e-9)
    # The standard deviations are NumPy's, to the bit.
    low, high = X.min(axis=0), X.max(axis=0)
    spread = (high - low) / 2 if scaler == "minmax" else X.std(axis=0)
    np.testing.assert_array_equal(factors[0], 1 / np.where(high > low, spread, 1.0))


@pytest.mark.parametrize("container", [np.asarray, csr])
@pytest.mark.parametrize("column", [[0.0, 1e-310], [-1.7e308, 1.7e308], [7.0, 7.0], [0.0, 0.0]])
def test_a_spread_that_cannot_be_divided_by_leaves_the_feature_as_it_is(container, column):
    factors = np.empty(2)
    for scaler in ("minmax", "standard"):
        _engine.feature_scale(container(np.column_stack([column, [0.0, 4.0]])), scaler, factors)
        np.testing.assert_array_equal(factors, [1.0, 0.5])


# ---------------------------------------------------------------------------------------------------
# Degenerate input
# ---------------------------------------------------------------------------------------------------


def test_machines_without_support_vectors():
    result = train(csr(np.eye(5)), [2] * 5, [np.arange(5)])
    assert result["support"].size == 0
    votes = vote(csr(np.eye(70, 5)), 70, csr(np.empty((0, 5))), ensemble_of(result), 1)
    assert np.all(votes == 2)


def test_rows_without_values():
    X = np.zeros((6, 300))
    X[3, 200] = 1.0
    codes = [0, 1, 0, 1, 0, 1]
    dense, thin = (train(rows, codes, [np.arange(6)], seed=1.0) for rows in (X, csr(X)))
    np.testing.assert_array_equal(thin["coefficients"], dense["coefficients"])
    empty = csr(np.zeros((66, 300)))
    np.testing.assert_array_equal(
        vote(empty, 66, csr(X), ensemble_of(thin), 1), vote(np.zeros((66, 300)), 66, X, ensemble_of(dense), 1)
    )


@pytest.mark.parametrize("scaler", ["minmax", "standard"])
def test_rows_that_are_all_the_same_have_nothing_to_scale(scaler):
    X, codes = np.tile([0.0, 3.0, 0.0], (6, 1)), [0, 1, 0, 1, 0, 1]
    result = train(csr(X), codes, [np.arange(6)], scaler=scaler)
    assert result["scale"].size == 0
    ensemble = ensemble_of(result, sparse_scale(result, 3))
    dense = train(X, codes, [np.arange(6)], scaler=scaler)
    expected = vote(X, 6, X, ensemble_of(dense, dense_scale(dense, 1, 3)), 1)
    np.testing.assert_array_equal(vote(csr(X), 6, csr(X), ensemble, 1), expected)


@pytest.mark.parametrize("container", [np.asarray, csr])
def test_no_rows_and_no_features(container):
    ensemble = one_machine()
    assert vote(container(np.empty((0, 3))), 0, container(np.eye(2, 3)), ensemble, 1).shape == (1, 0)
    mistakes = np.full(1, 7, dtype=np.int64)
    nothing = np.empty(0, dtype=np.int32)
    sizes = np.zeros(1, dtype=np.int64)
    arguments = (container(np.eye(2, 3)), ensemble, nothing, sizes, 2**20, mistakes)
    _engine.count_mistakes(container(np.empty((0, 3))), nothing, 0, *arguments)
    assert mistakes.tolist() == [0]
    assert vote(container(np.empty((65, 0))), 65, container(np.empty((2, 0))), ensemble, 1).tolist() == [[1] * 65]


# ---------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------

X, CODES = np.random.default_rng(0).normal(size=(20, 3)), (np.arange(20) % 2).astype(np.int32)
ALL = [np.arange(20)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1.0}, "seed must be finite and not negative, or NaN, got -1"),
        ({"seed": np.inf}, "seed must be finite and not negative, or NaN, got inf"),
        ({"multipliers": -1.0}, "multipliers must be finite and not negative, got -1"),
        ({"multipliers": np.nan}, "multipliers must be finite and not negative, got nan"),
        ({"multipliers": 1e300}, "seed times multipliers must be finite"),
        ({"seed": 1e300, "multipliers": 1e10}, "seed times multipliers must be finite"),
        ({"C": 0.0}, "C must be finite and positive, got 0"),
        ({"C": -1.0}, "C must be finite and positive, got -1"),
        ({"C": np.nan}, "C must be finite and positive, got nan"),
        ({"C": np.inf}, "C must be finite and positive, got inf"),
        ({"tolerance": 0.0}, "tolerance must be finite and positive, got 0"),
        ({"tolerance": np.nan}, "tolerance must be finite and positive, got nan"),
        ({"steps": -1}, "max_iterations must not be negative, got -1"),
        ({"scaler": "robust"}, "scaler must be 'minmax', 'standard' or None, got 'robust'"),
        ({"codes": CODES - 1}, "codes must be from 0 to 65535, got -1"),
        ({"codes": CODES + 65535}, "codes must be from 0 to 65535, got 65536"),
        ({"codes": CODES[:-1]}, "codes must have one entry per row of X"),
        ({"subsamples": [[0, 20]]}, "subsamples must be row numbers of X, got 20"),
        ({"subsamples": [[-1, 2]]}, "subsamples must be row numbers of X, got -1"),
        ({"subsamples": [[0, 1], []]}, "subsamples must not be empty"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, csr])
def test_training_refuses(arguments, message, container):
    with pytest.raises(ValueError, match=message):
        train(container(X), **{"codes": CODES, "subsamples": ALL, **arguments})


@pytest.mark.parametrize("sizes", [[19], [21], [2**62, 2**62], [10, 2**63 - 1]])
def test_training_refuses_sizes_that_do_not_sum_to_the_number_of_rows(sizes):
    ones = np.ones(len(sizes))
    sizes = np.array(sizes, dtype=np.int64)
    with pytest.raises(ValueError, match="sizes must sum to the length of subsamples"):
        _engine.train(X, CODES, np.arange(20, dtype=np.int32), sizes, np.nan, ones, ones, None, 1e-3, 10)


def integers(*numbers):
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": np.array([-1.0])}, "gamma must be finite and not negative, got -1"),
        ({"gamma": np.array([np.nan])}, "gamma must be finite and not negative, got nan"),
        ({"gamma": np.array([np.inf])}, "gamma must be finite and not negative, got inf"),
        ({"gamma": np.ones(2)}, "gamma must have one entry per machine"),
        ({"n_classes": integers(0)}, "machines must have 1 to 65536 classes, got 0"),
        ({"n_classes": integers(2**31 - 1)}, "machines must have 1 to 65536 classes"),
        ({"n_classes": integers(1)}, "do not fit together"),
        ({"n_classes": integers(3)}, "do not fit together"),
        ({"classes": integers(0, 65536)}, "codes must be from 0 to 65535, got 65536"),
        ({"classes": integers(1, 0)}, "the classes of a machine must be ascending"),
        ({"counts": integers(2, -1)}, "counts must not be negative, got -1"),
        ({"counts": integers(2**31 - 1, 2**31 - 1)}, "do not fit together"),
        ({"counts": integers(1)}, "counts must have one entry per class"),
        ({"support": integers(0, -1)}, "support must hold row numbers of points, got -1"),
        ({"support": integers(0, 1, 1)}, "do not fit together"),
        ({"coefficients": np.ones(3)}, "do not fit together"),
        ({"intercepts": np.ones(2)}, "do not fit together"),
        ({"scale": np.full((1, 3), -1.0)}, "scale must be finite and not negative, got -1"),
        ({"scale": np.full((1, 3), np.nan)}, "scale must be finite and not negative, got nan"),
        ({"scale": np.ones((2, 3))}, "scale must have one row per machine"),
        ({"scale": sparse.csr_array([[1.0, np.inf, 1.0]])}, "scale must be finite and not negative, got inf"),
        ({"scale": sparse.csr_array(np.ones((2, 3)))}, "scale must have one row per machine"),
        ({"scale": sparse.csr_array(np.ones((1, 3), dtype=np.float32))}, "scale must be float64"),
    ],
)
def test_ensembles_refuse(changes, message):
    with pytest.raises(ValueError, match=message):
        one_machine(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subsamples": integers(3, 1)}, "each subsample must be sorted and without duplicates"),
        ({"subsamples": integers(3, 3)}, "each subsample must be sorted and without duplicates"),
        ({"subsamples": integers(-1, 3)}, "subsamples must be row numbers"),
        ({"subsamples": integers(1, 2, 3)}, "sizes must sum to the length of subsamples"),
        ({"subsamples": integers(1)}, "sizes must sum to the length of subsamples"),
        ({"sizes": np.array([-1])}, "sizes must sum to the length of subsamples"),
        ({"sizes": np.array([1, 1])}, "sizes and mistakes must have one entry per machine"),
        ({"first": -1}, "first must be a row number, got -1"),
        ({"first": 2**63 - 1}, "first must be a row number, got 9223372036854775807"),
        ({"codes": CODES - 1}, "codes must be from 0 to 65535, got -1"),
        ({"codes": CODES[1:]}, "codes must have one entry per row of X"),
        ({"points": X[:1]}, "support must hold row numbers of points"),
        ({"points": np.ascontiguousarray(X[:, :2])}, "X and points must have the same features"),
        ({"scale": np.ones((1, 2))}, "scale must be as wide as X"),
        ({"scale": sparse.csr_array(np.ones((1, 3)))}, "scale must be as wide as X, and sparse"),
    ],
)
def test_counting_mistakes_refuses(changes, message):
    arguments = {
        "X": X,
        "codes": CODES,
        "first": 0,
        "points": X,
        "ensemble": one_machine(),
        "subsamples": integers(1, 3),
        "sizes": np.array([2]),
        "memory": 2**20,
        "mistakes": np.empty(1, dtype=np.int64),
    }
    _engine.count_mistakes(**arguments)
    if "scale" in changes:
        changes = {"ensemble": one_machine(**changes)}
    with pytest.raises(ValueError, match=message):
        _engine.count_mistakes(**{**arguments, **changes})


def test_sparse_scales_belong_to_sparse_rows():
    votes = np.empty((1, 20), dtype=np.uint16)
    _engine.vote(csr(X), csr(X), one_machine(scale=sparse.csr_array(np.ones((1, 3)))), 2**20, votes)
    with pytest.raises(ValueError, match="scale must be as wide as X, and dense"):
        _engine.vote(csr(X), csr(X), one_machine(scale=np.ones((1, 3))), 2**20, votes)
    with pytest.raises(TypeError):
        _engine.vote(csr(X), X, one_machine(), 2**20, votes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": integers(0, 2, 1, 2)}, None),
        ({"indices": integers(2, 0, 1, 2)}, "indices must be sorted and without duplicates in each row"),
        ({"indices": integers(0, 0, 1, 2)}, "indices must be sorted and without duplicates in each row"),
        ({"indices": integers(0, 3, 1, 2)}, "indices must be from 0 to n_features - 1, got 3"),
        ({"indices": integers(-1, 2, 1, 2)}, "indices must be from 0 to n_features - 1, got -1"),
        ({"indices": integers(0, 2, 1)}, "data and indices must have the same length"),
        ({"indptr": np.array([0, 2, 5])}, "indptr must be ascending and end within data"),
        ({"indptr": np.array([0, 2, 1])}, "indptr must be ascending and end within data"),
        ({"indptr": np.array([1, 2, 4])}, "indptr must begin with 0"),
        ({"indptr": np.empty(0, dtype=np.int64)}, "indptr must begin with 0"),
        ({"data": np.arange(4)}, "data must be float64 or float32"),
        ({"n_features": -1}, "n_features must be from 0 to 2\\^31 - 1, got -1"),
        ({"n_features": 2**31}, "n_features must be from 0 to 2\\^31 - 1, got 2147483648"),
    ],
)
def test_sparse_rows_refuse(changes, message):
    arguments = {"data": np.ones(4), "indices": integers(0, 2, 1, 2), "indptr": np.array([0, 2, 4]), "n_features": 3}
    if message is None:
        _engine.CSR(**{**arguments, **changes})
    else:
        with pytest.raises(ValueError, match=message):
            _engine.CSR(**{**arguments, **changes})


def test_integers_are_not_converted():
    with pytest.raises(TypeError):
        _engine.CSR(np.ones(1), np.array([0.5]), np.array([0, 1]), 3)
    with pytest.raises(TypeError):
        _engine.nearest_of_another_class(X, CODES + 0.5, np.empty(20))


def test_kernels_refuse():
    out = np.empty(64)
    for squared, gamma in ((-1.0, 1.0), (np.nan, 1.0), (np.inf, 1.0), (1.0, -1.0), (1.0, np.nan)):
        with pytest.raises(ValueError, match="must be finite and not negative"):
            _engine.kernel(np.full(64, squared), gamma, out)


# ---------------------------------------------------------------------------------------------------
# Through the classifier
# ---------------------------------------------------------------------------------------------------


def test_wide_sparse_data_have_the_certificate_of_dense_ones():
    rng = np.random.default_rng(0)
    points, labels = random_rows(rng, 120, 500, 0.02), np.arange(120) % 2
    points[:, 0] += labels
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=30, random_state=0)
    dense = model.fit(points, labels)
    losses, bound, predicted = dense.losses_, dense.certificate_.gibbs_bound, dense.predict(points)
    thin = model.fit(sparse.csr_array(points), labels)
    np.testing.assert_array_equal(thin.losses_, losses)
    assert thin.certificate_.gibbs_bound == bound
    np.testing.assert_array_equal(thin.predict(sparse.csr_array(points)), predicted)
    np.testing.assert_array_equal(thin.predict(points), predicted)


def test_rows_outside_the_subsample_do_not_shape_a_hypothesis():
    """Whether the other rows are sparse or full, features near 1e8 are compared in the same arithmetic."""
    rng = np.random.default_rng(0)
    points, labels = random_rows(rng, 60, 400, 0.02), np.arange(60) % 2
    points[:, :3] = 1e8 + rng.normal(size=(60, 3)) + labels[:, np.newaxis]
    samples = [
        sparse.csr_array(np.concatenate([points[:30], others])) for others in (points[30:], rng.normal(size=(30, 400)))
    ]
    seen = set()
    for seed in range(8):  # draws the kernel width
        model = PACBayesClassifier(RBFSVMPool(), subsamples=[range(30)], random_state=seed)
        votes = [model.fit(sample, labels).predict(sparse.csr_array(points)) for sample in samples]
        np.testing.assert_array_equal(*votes)
        seen.update(votes[0])
    assert seen == {0, 1}


def test_wide_sparse_data_without_support_vectors():
    labels = np.zeros(40, dtype=int)
    labels[0] = 1
    for seed in range(5):
        thin, dense = (
            PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, random_state=seed).fit(points, labels)
            for points in (sparse.csr_array(sparse.eye(40, 400)), np.eye(40, 400))
        )
        np.testing.assert_array_equal(thin.losses_, dense.losses_)
        np.testing.assert_array_equal(thin.predict(sparse.csr_array(sparse.eye(7, 400))), dense.predict(np.eye(7, 400)))
