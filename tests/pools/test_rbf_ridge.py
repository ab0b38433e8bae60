"""Kernel ridge regressions in the engine, beside scikit-learn's KernelRidge and sums in 60 digits."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import pairwise_distances

from pacbayes._fingerprint import digest
from pacbayes._losses import Loss, resolve_loss
from pacbayes.exceptions import HypothesisError, ModelFileError
from pacbayes.io._fitted import check_objects
from pacbayes.pools import RBFRidgePool, RBFSVMPool, Sample, _engine
from pacbayes.sampling import GivenSubsamples, RandomSubsamples

X, Y = make_friedman1(200, n_features=6, noise=0.5, random_state=0)
NUMBERS = np.empty(0)
SUBSAMPLES = RandomSubsamples(200, [10, 33, 70], 30, entropy=0)


def capped(cap=5.0, **settings):
    """The absolute error, capped, in units of the cap."""
    return Loss("capped", lambda target, predicted: np.minimum(np.abs(target - predicted) / cap, 1.0), **settings)


def train(pool, points=X, targets=Y, subsamples=SUBSAMPLES, hypotheses=None, book=None):
    """Hypotheses of a pool, and the sample that they belong to."""
    sample, shared = pool.prepare(Sample(points, np.asarray(targets, dtype=float), NUMBERS, book), 0)
    chosen = range(len(subsamples)) if hypotheses is None else hypotheses
    return pool.train(sample, subsamples, chosen, 0, shared), sample


def fit(pool, *arguments, **settings):
    """Hypotheses that know their points."""
    trained, sample = train(pool, *arguments, **settings)
    return trained.keep_training_points(sample)


def one(points, targets, **settings):
    """One hypothesis, trained on all points."""
    points = np.asarray(points, dtype=float).reshape(len(targets), -1)
    everyone = GivenSubsamples(len(targets) + 1, [np.arange(len(targets))])  # one row is left to validate on
    padded = np.vstack((points, points[:1])), np.append(targets, targets[0])
    pool = RBFRidgePool(**{"gamma_grid": 1.0, "ridge": 0.1, "scaler": None, **settings})
    return fit(pool, *padded, everyone)[0]


def typical(squared):
    """The middle of the powers of two between which the median of squared distances lies."""
    median = np.median(squared)
    return 2.0 ** np.floor(np.log2(median)) * np.sqrt(2)


# ---------------------------------------------------------------------------------------------------
# What a regression is
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "minmax", "standard"])
@pytest.mark.parametrize("size", [2, 3, 31, 32, 33, 63, 64, 65, 130])
def test_regressions_are_those_of_kernel_ridge(size, scaler):
    subsamples = RandomSubsamples(200, [size], 6, entropy=size)
    pool = RBFRidgePool(ridge=(0.01, 1.0), gamma_grid=(0.1, 1.0, 10.0), scaler=scaler)
    trained = fit(pool, subsamples=subsamples)
    assert len({(one.gamma, one.ridge) for one in trained}) == 6
    for h, rows in enumerate(subsamples):
        model = trained[h]
        spread = {None: 1.0, "minmax": np.ptp(X[rows], axis=0) / 2, "standard": X[rows].std(axis=0)}[scaler]
        points, mean = X / spread, Y[rows].mean()
        multiple = model.gamma * 2 * typical(pairs(points[rows]))
        assert min(abs(np.log(multiple / g)) for g in (0.1, 1.0, 10.0)) < 1e-9
        expected = KernelRidge(alpha=model.ridge, kernel="rbf", gamma=model.gamma).fit(points[rows], Y[rows] - mean)
        np.testing.assert_allclose(model.predict(X), expected.predict(points) + mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), trained.votes(X)[h])


def pairs(points):
    """Squared distances of all pairs of points."""
    return pairwise_distances(points, metric="sqeuclidean")[np.triu_indices(len(points), 1)]


@given(st.integers(2, 90), st.integers(1, 5), st.floats(-3, 0), st.floats(-2, 1), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_linear_systems_are_solved_to_rounding(size, d, log_ridge, log_gamma, seed):
    """The residual of the engine's coefficients is as small as a backward stable solution makes it."""
    rng = np.random.default_rng(seed)
    points, targets = rng.normal(size=(size, d)), rng.normal(size=size)
    model = one(points, targets, ridge=10**log_ridge, gamma_grid=10**log_gamma)
    kernel = np.exp(-model.gamma * pairwise_distances(points, metric="sqeuclidean"))
    residual = (kernel + model.ridge * np.eye(size)) @ model.dual_coef - (targets - targets.mean())
    assert np.abs(residual).max() <= 1e-14 * size * np.abs(model.dual_coef).sum()


def test_a_tiny_case_in_sixty_digits():
    points, targets, query = [0.0, 1.0, 2.5], [1.0, -2.0, 4.0], 0.75
    model = one(points, targets, ridge=0.25, gamma_grid=0.5)
    with mp.workdps(60):
        # The squared distances are 1, 2.25 and 6.25: the median lies between 2 and 4.
        gamma = mp.mpf(0.5) / (2 * mp.sqrt(2) * 2)
        kernel = mp.matrix(3, 3)
        for i in range(3):
            for j in range(3):
                kernel[i, j] = mp.exp(-gamma * (mp.mpf(points[i]) - points[j]) ** 2) + (0.25 if i == j else 0)
        coefficients = mp.lu_solve(kernel, mp.matrix([t - mp.mpf(1) for t in targets]))
        terms = [coefficients[i] * mp.exp(-gamma * (mp.mpf(query) - points[i]) ** 2) for i in range(3)]
        expected = float(mp.fsum(terms) + 1)
        assert model.gamma == pytest.approx(float(gamma), rel=1e-15)
        np.testing.assert_allclose(model.dual_coef, [float(c) for c in coefficients], rtol=1e-13)
    assert model.intercept == 1.0
    np.testing.assert_allclose(model.predict([[query]]), [expected], rtol=1e-13)


@pytest.mark.parametrize(
    ("points", "width"),
    [
        ([0.0, 1.0], 1.0),
        ([0.0, 1.99], 2.0),  # 3.96 lies between 2 and 4
        ([0.0, 2.0], 4.0),
        ([0.0, 0.0, 0.0, 3.0], 8.0),  # as many pairs coincide as not: those that do not count
        ([5.0, 5.0, 5.0, 5.0], None),
        ([0.0, 1e-90], 0),
        ([0.0, 1e100], np.inf),
    ],
)
def test_widths(points, width):
    gamma = {None: 1.0, 0: 1e100, np.inf: 1e-100}.get(width) or 1 / (2 * np.sqrt(2) * width)
    assert one(points, np.arange(len(points))).gamma == pytest.approx(gamma, rel=1e-15)


@pytest.mark.parametrize("exponent", [-900, 0, 900])
def test_the_unit_of_the_target_does_not_matter(exponent):
    """To the bit: targets near the limits of double precision neither overflow nor underflow."""
    plain, scaled = (fit(RBFRidgePool(), targets=np.ldexp(Y, e)).votes(X) for e in (0, exponent))
    np.testing.assert_array_equal(scaled, np.ldexp(plain, exponent))


@pytest.mark.parametrize("exponent", [-100, 100])
def test_the_unit_of_the_features_does_not_matter(exponent):
    pool = RBFRidgePool(scaler=None)
    np.testing.assert_array_equal(fit(pool, np.ldexp(X, exponent)).votes(np.ldexp(X, exponent)), fit(pool).votes(X))


def test_a_constant_target_is_predicted_exactly():
    model = one(X[:7], np.full(7, 0.1))
    assert (model.predict(X) == 0.1).all()
    assert model.support.size == 0
    assert str(model) == "constant: always 0.1"


def test_points_that_coincide_share_the_mean_of_their_targets():
    model = one([1.0] * 6, np.arange(6.0), ridge=1e-4)
    np.testing.assert_allclose(model.predict([[1.0]]), [2.5], rtol=1e-10)


def test_a_singular_system():
    points, targets = np.ones((60, 2)), np.arange(60.0)
    with pytest.raises(
        HypothesisError, match=r"hypothesis 0 \(seed 0\) could not be trained on its 60 points with ridg"
    ):
        one(points, targets, ridge=1e-300)
    model = one(points, targets, ridge=1e-300, on_error="drop")
    assert model.failed
    assert str(model) == "could not be trained: its loss counts as 1"
    subsamples = GivenSubsamples(60, [np.arange(40), np.arange(5, 50)])
    trained, sample = train(RBFRidgePool(ridge=1e-300, on_error="drop"), points, targets, subsamples)
    np.testing.assert_array_equal(trained.loss_totals(sample, subsamples, range(2), range(60), capped()), [20, 15])


@pytest.mark.parametrize("targets", [[1.7e308, -1.7e308, 0.0], [0.0, 1.0, np.inf]])
def test_targets_that_overflow_are_no_regression(targets):
    with pytest.raises(HypothesisError, match="or its coefficients overflow"):
        one([0.0, 1.0, 2.0], targets, ridge=1e-3)


def test_what_a_hypothesis_says():
    trained = fit(RBFRidgePool(ridge=0.5, gamma_grid=1.0, scaler=None))
    assert str(trained[0]).startswith("RBF ridge regression, gamma = ")
    assert str(trained[0]).endswith(", ridge = 0.5, 10 points")
    assert trained[0].scale is None
    assert trained[0].intercept == pytest.approx(Y[SUBSAMPLES[0]].mean())
    np.testing.assert_array_equal(trained[0].support, SUBSAMPLES[0])


# ---------------------------------------------------------------------------------------------------
# The same bits
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "standard", (None, "minmax")])
def test_blocks_workers_and_memory_do_not_matter(scaler):
    pool = RBFRidgePool(scaler=scaler)
    whole, small = fit(pool), fit(clone(pool).set_params(working_memory=1e-3))
    expected = whole.votes(X)
    np.testing.assert_array_equal(small.votes(X), expected)
    halves = [train(pool, hypotheses=part)[0] for part in (range(0, 13), range(13, 30))]
    together = halves[0].concatenate(halves).keep_training_points(Sample(X, Y, NUMBERS))
    np.testing.assert_array_equal(together.votes(X), expected)
    np.testing.assert_array_equal(together[4:5].votes(X[7:9]), expected[4:5, 7:9])
    with ThreadPoolExecutor(2) as threads:
        parts = threads.map(lambda i: whole.votes(X[i : i + 7]), range(0, 200, 7))
        np.testing.assert_array_equal(np.concatenate(list(parts), axis=1), expected)
    assert not whole.votes_and_uncertain(X)[1].any()


@pytest.mark.parametrize("loss", [capped(), capped(is_elementwise=True)])
@pytest.mark.parametrize("scaler", [None, "standard"])
def test_losses_add_up_over_blocks(loss, scaler):
    pool = RBFRidgePool(scaler=scaler)
    trained, sample = train(pool)
    expected = [
        loss.total_outside(Y, numbers, rows, 200) for numbers, rows in zip(fit(pool).votes(X), SUBSAMPLES, strict=True)
    ]
    whole = trained.loss_totals(sample, SUBSAMPLES, range(30), range(200), loss)
    np.testing.assert_array_equal(whole, expected)
    for memory in (256, 1e-3):
        parts = train(clone(pool).set_params(working_memory=memory))[0]
        blocks = [
            parts.loss_totals(sample, SUBSAMPLES, range(30), range(i, min(200, i + 60)), loss)
            for i in (0, 60, 120, 180)
        ]
        np.testing.assert_array_equal(sum(blocks), expected)
    some = train(pool, hypotheses=range(7, 19))[0]
    np.testing.assert_array_equal(some.loss_totals(sample, SUBSAMPLES, range(7, 19), range(200), loss), whole[7:19])


@pytest.mark.parametrize("scaler", [None, "standard", "minmax"])
def test_sparse_and_single_precision_rows_have_the_bits_of_dense_ones(scaler):
    rng = np.random.default_rng(0)
    wide = np.where(rng.random((200, 600)) < 0.02, rng.normal(size=(200, 600)), 0.0).astype(np.float32)
    pool = RBFRidgePool(scaler=scaler)
    expected = fit(pool, wide.astype(np.float64)).votes(wide.astype(np.float64))
    np.testing.assert_array_equal(fit(pool, wide).votes(wide), expected)
    rows = sparse.csr_array(wide)
    np.testing.assert_array_equal(fit(pool, rows).votes(rows), expected)
    np.testing.assert_array_equal(fit(pool, rows)[3].predict(rows[:5]), expected[3, :5])


def test_a_pickle_and_its_fingerprint():
    trained = fit(RBFRidgePool())
    again = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(again.votes(X), trained.votes(X))
    assert digest(again.fingerprint()) == digest(trained.fingerprint())
    assert digest(replace(trained, working_memory=1).fingerprint()) == digest(trained.fingerprint())
    assert digest(replace(trained, intercept=trained.intercept + 1).fingerprint()) != digest(trained.fingerprint())


def test_rows_outside_the_subsample_do_not_shape_a_hypothesis():
    points, targets, inside = X.copy(), Y.copy(), SUBSAMPLES[4]
    outside = np.setdiff1d(np.arange(200), inside)
    points[outside], targets[outside] = 1e6, -1e6
    for scaler in (None, "standard", "minmax"):
        pool = RBFRidgePool(scaler=scaler)
        ours, theirs = fit(pool)[4], fit(pool, points, targets)[4]
        np.testing.assert_array_equal(theirs.predict(X), ours.predict(X))


# ---------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_tables_are_compared_as_their_one_hot_columns(scaler):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"size": rng.normal(5, 2, 120), "city": rng.choice(["Bonn", "Oslo", "Rome"], 120)})
    targets = table["size"] + (table["city"] == "Rome") + rng.normal(0, 0.1, 120)
    table = table.mask(rng.random(table.shape) < 0.1)
    pool = RBFRidgePool(ridge=0.1, gamma_grid=1.0, scaler=scaler)
    book, subsamples = pool.make_code_book(table), RandomSubsamples(120, [30], 4, entropy=0)
    trained = fit(pool, book.encode(table), targets.to_numpy(), subsamples, book=book)
    for h, rows in enumerate(subsamples):
        known = table["size"].iloc[rows]
        size = table["size"].fillna(known.mean())
        factor = 1.0 if scaler is None else 1 / size.iloc[rows].std(ddof=0)
        columns = [factor * size, table["size"].isna(), *pd.get_dummies(table["city"].fillna("?")).to_numpy().T]
        points = np.column_stack(columns).astype(float)
        model, mean = trained[h], targets.iloc[rows].mean()
        expected = KernelRidge(alpha=0.1, kernel="rbf", gamma=model.gamma).fit(points[rows], targets.iloc[rows] - mean)
        np.testing.assert_allclose(model.predict(table), expected.predict(points) + mean, rtol=1e-9)
    assert trained.assumptions() == ["columns-known"]


# ---------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "right"),
    [
        ("ridge", 0.0, "one or several positive, finite numbers"),
        ("ridge", (0.1, np.inf), "one or several positive, finite numbers"),
        ("gamma_grid", -1.0, "one or several positive, finite numbers"),
        ("scaler", "robust", "None, 'minmax' or 'standard'"),
        ("assignment", "chosen", "'dealt' or 'drawn'"),
        ("on_error", "ignore", "'raise' or 'drop'"),
        ("working_memory", 0, "in (0, inf)"),
    ],
)
def test_settings_that_cannot_be_right(setting, value, right):
    with pytest.raises(ValueError, match=f"{setting} must be") as error:
        RBFRidgePool(**{setting: value}).check_settings()
    assert right in str(error.value)


def test_what_is_predicted():
    pool, loss = RBFRidgePool(), resolve_loss("brier", np.array([0, 1]))
    sample = Sample(X, np.arange(200) % 2, np.array([0, 1]))
    assert pool.find_obstacle(sample, capped()) == "RBFRidgePool predicts numbers, not classes"
    assert RBFSVMPool().find_obstacle(Sample(X, Y, NUMBERS), capped()) == "RBFSVMPool predicts classes, not numbers"
    with pytest.raises(HypothesisError, match="loss 'brier' is one of probabilities, and regressions predict numbers"):
        pool.check_loss(loss)
    assert pool.find_obstacle(Sample(X, Y, NUMBERS), capped()) is None
    assert pool.assumptions() == ["widths-and-scaling-from-subsample"]
    assert RBFRidgePool(scaler=None).assumptions() == ["widths-from-subsample"]
    assert pool.is_strict


@pytest.mark.parametrize(("n", "sampling"), [(2, ([1], 20)), (1000, ([800], 20)), (10**6, ([1500], 10))])
def test_default_sampling(n, sampling):
    assert RBFRidgePool().default_sampling(n, 5) == sampling
    assert RBFRidgePool().default_sampling(1000, 5, tested=False) == ([500], 20)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": Y[1:]}, "targets must have one entry per row of X"),
        ({"ridges": np.zeros(1)}, "ridges must be finite and positive, got 0"),
        ({"ridges": np.ones(2)}, "multipliers and ridges must have one entry per subsample"),
        ({"multipliers": np.array([-1.0])}, "multipliers must be finite and not negative, got -1"),
        ({"multipliers": np.array([1e300])}, "seed times multipliers must be finite"),
        ({"subsamples": np.array([0, 200], dtype=np.int32)}, "subsamples must be row numbers of X, got 200"),
        ({"sizes": np.array([3])}, "sizes must sum to the length of subsamples"),
        ({"scaler": "robust"}, "scaler must be 'minmax', 'standard' or None"),
        ({"n_numbers": 7}, "n_numbers and n_categories must be at most the number of features"),
    ],
)
def test_the_engine_refuses(changes, message):
    rows, ones = np.array([0, 1], dtype=np.int32), np.ones(1)
    arguments = {"targets": Y, "subsamples": rows, "sizes": np.array([2]), "multipliers": ones, "ridges": ones}
    with pytest.raises(ValueError, match=message):
        _engine.train_ridges(X, **{**arguments, "scaler": None, **changes})


EDITS = {
    "classes": [lambda a: np.array([0.0, 1.0]), lambda a: np.empty(0, dtype=int)],
    "n_support": [
        lambda a: a + 1,
        lambda a: -a,
        lambda a: a * 0 + 2**30,
        lambda a: a.astype(np.int64),
        lambda a: a[1:],
    ],
    "support": [lambda a: a + 1000, lambda a: a - 1000, lambda a: a[:-1], lambda a: a.astype(np.int64)],
    "dual_coef": [lambda a: a[:-1], lambda a: a * np.nan, lambda a: a.astype(np.float32), lambda a: np.sign(a) * 1e308],
    "intercept": [lambda a: a[:0], lambda a: a * np.inf],
    "gamma": [lambda a: -a, lambda a: a * np.nan, lambda a: a[:1]],
    "ridge": [lambda a: -a, lambda a: a[:1]],
    "scale": [lambda a: a[:1], lambda a: a[:, :1], lambda a: np.asfortranarray(a), lambda a: a * np.nan],
    "failed": [lambda a: a[:1], lambda a: a.astype(float)],
    "rows": [lambda a: a[::-1].copy(), lambda a: a[:1], lambda a: a * 0],
    "points": [lambda a: a[:1], lambda a: a[:, :1].copy(), lambda a: np.asfortranarray(a), lambda a: a * np.nan],
    "fill": [lambda a: np.zeros((30, 6))],
    "working_memory": [lambda a: -1, lambda a: 1.5],
    "code_book": [lambda a: "book"],
}


@pytest.mark.parametrize(("attribute", "edit"), [(name, edit) for name, edits in EDITS.items() for edit in edits])
def test_edited_arrays_are_refused(attribute, edit):
    trained = fit(RBFRidgePool())
    check_objects(trained, ())
    with pytest.raises(ModelFileError):
        check_objects(replace(trained, **{attribute: edit(getattr(trained, attribute))}), ())
