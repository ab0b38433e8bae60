"""Pools of boosted trees, forests and linear models: settings, subsamples, workers, sources and checkpoints."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacbayes import PACBayesClassifier
from pacbayes._fingerprint import digest
from pacbayes._losses import ZERO_ONE
from pacbayes.exceptions import HypothesisError
from pacbayes.fitting._checkpoint import from_arrays, to_arrays
from pacbayes.pools import BoostingPool, ForestPool, LinearPool, Sample, _learners, make_union
from pacbayes.rows import CodeBook
from pacbayes.sampling import LEARNER, GivenSubsamples, RandomSubsamples, stream

POOLS = {
    "boosting": BoostingPool(learning_rate=(0.1, 0.3), max_iter=4, max_leaf_nodes=(3, 5)),
    "forest": ForestPool(kind=("extra", "random"), n_estimators=4, max_leaf_nodes=(None, 20)),
    "linear": LinearPool(C=(0.1, 1.0, 1.0), splines=(False, True)),
}
SETTINGS = {"n_hypotheses": 6, "subsample_size": (0.65, 0.8), "random_state": 0}


def make_table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D")
    texts = [f"t{i}" for i in rng.integers(0, 60, n)]
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["u", "v", "w"], n), "c": texts, "d": days})
    y = np.where((table["a"] > 0) ^ (table["b"] == "u"), "yes", "no")
    return table.mask(rng.random(table.shape) < 0.1), y


def make_array(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])


def sample_of(X, y):
    classes, codes = np.unique(y, return_inverse=True)
    if isinstance(X, np.ndarray):
        return Sample(X, codes, classes)
    book = CodeBook.learn(X)
    return Sample(book.encode(X), codes, classes, book)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("make", [make_array, make_table])
def test_a_fit_is_the_same_whatever_the_workers(name, make):
    X, y = make()
    fits = [PACBayesClassifier(POOLS[name], **SETTINGS, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    one, two = (digest([vote.hypotheses.fingerprint() for vote in fit.fitted_votes_.votes]) for fit in fits)
    assert one == two
    assert fits[0].certificate_ == fits[1].certificate_
    assert fits[0].certificate_.strict
    assert "learned-from-subsample" in fits[0].certificate_.assumption_codes
    assert ("table-columns-known" in fits[0].certificate_.assumption_codes) == (make is make_table)
    assert fits[0].score(X, y) > 0.5


@pytest.mark.parametrize("name", POOLS)
def test_a_hypothesis_is_a_function_of_its_subsample(name):
    """Neither other rows, nor which other hypotheses are trained with it, nor other categories change it."""
    table, y = make_table()
    subsamples = RandomSubsamples(200, [120, 150], 4, entropy=1)
    whole = POOLS[name].train(sample_of(table, y), subsamples, range(4), 1, None)
    rows, outside = subsamples[2], np.setdiff1d(np.arange(200), subsamples[2])
    other, labels = table.copy(), y.copy()
    other.loc[outside, "a"] *= 1000
    other.loc[outside, "c"] = [f"other {i}" for i in range(outside.size)]
    labels[outside] = "yes"
    alone = POOLS[name].train(sample_of(other, labels), subsamples, [2], 1, None)
    expected = whole[2].predict_proba(table.iloc[rows])
    np.testing.assert_array_equal(alone[0].predict_proba(other.iloc[rows]), expected)


@pytest.mark.parametrize("name", POOLS)
def test_parquet_and_checkpoints_change_nothing(tmp_path, name):
    X, y = make_array(600)
    y = (y > 0).astype(int)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "label": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=150)
    in_memory = PACBayesClassifier(POOLS[name], **SETTINGS).fit(X, y)
    kept = PACBayesClassifier(POOLS[name], **SETTINGS, checkpoint=tmp_path / "kept")
    source = kept.fit(str(tmp_path / "rows.parquet"), "label")
    np.testing.assert_array_equal(source.losses_, in_memory.losses_)
    assert source.certificate_.bound == in_memory.certificate_.bound
    assert any("train" in path.name for path in (tmp_path / "kept").iterdir())
    again = clone(kept).fit(str(tmp_path / "rows.parquet"), "label")
    assert again.certificate_ == source.certificate_


@pytest.mark.parametrize("name", POOLS)
def test_a_table_in_a_parquet_file(tmp_path, name):
    table, y = make_table(400)
    table.assign(label=y).to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    source = PACBayesClassifier(POOLS[name], **SETTINGS).fit(str(tmp_path / "rows.parquet"), "label")
    in_memory = PACBayesClassifier(POOLS[name], **SETTINGS).fit(table, y)
    np.testing.assert_array_equal(source.losses_, in_memory.losses_)


@pytest.mark.parametrize("name", POOLS)
def test_arrays_of_a_checkpoint(name):
    table, y = make_table()
    sample, subsamples = sample_of(table, y), RandomSubsamples(200, [150], 3, entropy=0)
    trained = POOLS[name].train(sample, subsamples, range(3), 0, None)
    again = from_arrays(to_arrays(trained.by_labels()), sample)
    assert digest(again.fingerprint()) == digest(trained.by_labels().fingerprint())
    assert digest(again.fingerprint()) != digest(trained.fingerprint())
    np.testing.assert_array_equal(again.votes(table), trained.votes(table))


def test_random_forests_are_those_of_scikit_learn():
    X, y = make_array()
    subsample = np.arange(0, 200, 2)
    pool = ForestPool(kind="random", n_estimators=7, max_features=0.5, min_samples_leaf=2)
    trained = pool.train(Sample(X, y, np.arange(3)), GivenSubsamples(200, [subsample]), [0], 5, None)
    seed = int(stream(5, 0, LEARNER).integers(2**31))
    model = RandomForestClassifier(7, max_features=0.5, min_samples_leaf=2, random_state=seed)
    expected = model.fit(X[subsample], y[subsample]).predict_proba(X)
    np.testing.assert_allclose(trained[0].predict_proba(X), expected, rtol=0, atol=1e-12)


def test_settings_are_taken_in_turn():
    pool, subsamples = POOLS["linear"], RandomSubsamples(50, [30], 8, entropy=3)
    X, y = make_array(50)
    trained = pool.train(Sample(X, y, np.arange(3)), subsamples, range(1, 8), 3, None)
    np.testing.assert_array_equal(trained.models.C, [1.0, 1.0, 0.1, 1.0, 1.0, 0.1, 1.0])
    np.testing.assert_array_equal(trained.models.size("knots") > 0, [True, False, True, False, True, False, True])
    np.testing.assert_array_equal(pool.kinds(subsamples, np.arange(8), 3), [0, 1, 2, 3, 4, 5, 0, 1])


def test_default_settings_follow_the_number_of_rows():
    pool = LinearPool()
    assert pool.default_sampling(3000, 5) == ([2700], 6)
    assert pool.default_sampling(4999, 5) == ([4999 - 350], 6)
    assert pool.default_sampling(5000, 5) == ([5000 - 350], 2)
    assert pool.default_sampling(7000, 5) == ([7000 - 350], 2)
    assert pool.default_sampling(20_000, 5) == ([19_000], 2)
    assert pool.default_sampling(5000, 5, tested=False) == ([2500], 2)
    X, y = make_array(5000)
    sample, small = Sample(X, y, np.arange(3)), RandomSubsamples(5000, [100], 4, entropy=0)
    np.testing.assert_array_equal(pool.train(sample, small, range(4), 0, None).models.C, [0.1, 1.0, 0.1, 1.0])
    boosted = BoostingPool(max_iter=2).train(sample, RandomSubsamples(5000, [3000], 1, 0), [0], 0, None).models
    assert boosted.tree_sizes.max() == 2 * 31 - 1
    few = sample.take(np.arange(400)), RandomSubsamples(400, [360], 1, 0), [0], 0, None
    symmetric = {"kind": "symmetric", "max_leaf_nodes": 64, "max_samples": 0.8, "random_strength": 1.0}
    given = BoostingPool(max_iter=2, l2_regularization=3.0, **symmetric).train(*few).models
    np.testing.assert_array_equal(BoostingPool(max_iter=2).train(*few).models.values, given.values)


@pytest.mark.parametrize("name", POOLS)
def test_subsamples_of_one_class_or_two_of_three(name):
    X, y = make_array()
    sample = Sample(X, y, np.arange(3))
    subsets = [np.flatnonzero(y == 1), np.flatnonzero(y != 1), np.array([0])]
    trained = POOLS[name].train(sample, GivenSubsamples(200, subsets), range(3), 0, None)
    assert str(trained[0]) == "constant: always 1"
    assert set(trained[1].predict(X)) <= {0, 2}
    assert trained[1].classes.tolist() == [0, 2]
    np.testing.assert_array_equal(trained[1].predict_proba(X)[:, 1], 0)
    np.testing.assert_array_equal(trained[2].predict(X), np.full(200, y[0]))


@pytest.mark.parametrize("name", POOLS)
def test_learners_that_fail(name, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no way")

    X, y = make_array()
    pool, sample, subsamples = clone(POOLS[name]), Sample(X, y, np.arange(3)), RandomSubsamples(200, [150], 2, 0)
    monkeypatch.setattr(type(pool), "_fit", fail)
    with pytest.raises(
        HypothesisError, match=r"hypothesis 0 could not be trained on its 150 points .seed 0.: RuntimeError: no way"
    ):
        pool.train(sample, subsamples, range(2), 0, None)
    trained = pool.set_params(on_error="drop").train(sample, subsamples, range(2), 0, None)
    assert trained.models.failed.all()
    assert "could not be trained" in str(trained[1])


@pytest.mark.parametrize("name", POOLS)
def test_odd_points(name):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(120, np.nan), np.ones(120), rng.normal(size=120) * 1e140, rng.integers(0, 2, 120)])
    X[::3, 2] = np.nan
    y = (np.nan_to_num(X[:, 2]) > 0).astype(int)
    model = PACBayesClassifier(POOLS[name], **SETTINGS).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(ValueError, match="numbers up to 1e"):
        PACBayesClassifier(POOLS[name], **SETTINGS).fit(X * 1e20, y)
    assert (PACBayesClassifier(POOLS[name], **SETTINGS).fit(X[:, :2], y).predict(X[:, :2]) >= 0).all()


@pytest.mark.parametrize("name", POOLS)
def test_unknown_categories_and_gaps_are_answered(name):
    table, y = make_table()
    model = PACBayesClassifier(POOLS[name], **SETTINGS).fit(table, y)
    new = table.assign(b="new", c=None, a=np.nan)
    assert set(model.predict(new)) <= {"yes", "no"}
    np.testing.assert_allclose(model.hypotheses_[0].predict_proba(new).sum(axis=1), 1)


@pytest.mark.slow
@parametrize_with_checks([PACBayesClassifier(pool, **SETTINGS) for pool in POOLS.values()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_many_categories_are_encoded_by_target_statistics(monkeypatch):
    table, y = make_table(300)
    sample, subsamples = sample_of(table, y), RandomSubsamples(300, [200], 1, entropy=0)
    before = BoostingPool(max_iter=3).train(sample, subsamples, [0], 0, None)
    assert before.models.n_set_features.tolist() == [1]
    monkeypatch.setattr(_learners, "_MOST_IN_SETS", 100)
    after = BoostingPool(max_iter=3).train(sample, subsamples, [0], 0, None)
    assert after.models.n_set_features.tolist() == [2]
    assert ForestPool(n_estimators=2).train(sample, subsamples, [0], 0, None).models.n_set_features.tolist() == [0]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (BoostingPool(learning_rate=0.0), "learning_rate must be 'auto', or in"),
        (BoostingPool(learning_rate=()), "learning_rate must be 'auto', or in"),
        (BoostingPool(max_iter=(10, 0)), "max_iter must be 'auto', or a whole number, at least 1, or several of these"),
        (BoostingPool(max_features=1.5), "max_features must be 'auto', or in"),
        (BoostingPool(l2_regularization=-1.0), "l2_regularization must be 'auto', or a number, at least 0"),
        (BoostingPool(loss="absolute"), "loss must be 'auto', or 'squared' or 'huber'"),
        (ForestPool(kind="both"), "kind must be 'auto', or 'extra' or 'random'"),
        (ForestPool(max_features="log2"), "max_features must be 'auto', or 'sqrt'"),
        (LinearPool(C=(1.0, np.inf)), "C must be 'auto', or in"),
        (LinearPool(splines=1), "splines must be 'auto', or True or False"),
        (LinearPool(on_error="ignore"), "on_error must be"),
        (LinearPool(n_hypotheses=0), "n_hypotheses must be"),
        (LinearPool(subsample_size="large"), "subsample_size must be"),
    ],
)
def test_settings_that_make_no_sense(pool, message):
    with pytest.raises(ValueError, match=message):
        pool.check_settings()


@pytest.mark.parametrize("name", POOLS)
def test_what_a_pool_takes(name):
    X, y = make_array()
    pool = POOLS[name]
    sample = Sample(X, np.zeros(len(y), dtype=np.intp), np.unique(y))
    assert pool.find_obstacle(sample, ZERO_ONE) is None
    assert "no sparse matrices" in pool.find_obstacle(replace(sample, X=sp.csr_matrix(X)), ZERO_ONE)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        PACBayesClassifier(pool, **SETTINGS).fit(sp.csr_matrix(X), y)
    sizes, m = pool.default_sampling(1000, 10)
    assert m >= 1
    assert all(0 < size < 1000 for size in sizes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_tables_of_categories_alone(n_classes):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(list("xyz"), 300), "b": rng.choice(list("pq"), 300)})
    y = (table["a"] == "x").to_numpy() * (n_classes - 1)
    y[:30] = rng.integers(0, n_classes, 30)
    for pool in POOLS.values():
        model = PACBayesClassifier(pool, random_state=0).fit(table, y)
        assert model.score(table, y) > 0.9
    default = PACBayesClassifier(random_state=0).fit(table, y)
    assert default.score(table, y) > 0.9


def test_classes_that_weigh_the_same():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [45, 15])
    X = rng.normal(size=(60, 2)) + codes[:, np.newaxis]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    again = np.concatenate([np.arange(60), *[np.arange(45, 60)] * 2])
    # One training set, and points to validate on.
    points, labels, settings = np.vstack([X, X]), np.tile(codes, 2), {"subsamples": [np.arange(60)], "holdout": None}
    pool = LinearPool(C=1.0, splines=False, class_weight="balanced")
    model = PACBayesClassifier(pool, **settings, random_state=0).fit(points, labels)
    expected = LogisticRegression(C=1.0, tol=1e-8).fit(X[again], codes[again]).predict_proba(X)
    np.testing.assert_allclose(model.hypotheses_[0].predict_proba(X), expected, atol=2e-3)
    for kind in (BoostingPool(max_iter=3), ForestPool(n_estimators=20, min_samples_leaf=9, kind="random")):
        plain, balanced = (
            PACBayesClassifier(clone(kind).set_params(class_weight=weight), **settings, random_state=0)
            .fit(points, labels)
            .hypotheses_[0]
            .predict_proba(X)[:, 1]
            .mean()
            for weight in (None, "balanced")
        )
        assert balanced > plain + 0.05
    with pytest.raises(ValueError, match="class_weight must be None or 'balanced', got 'even'"):
        PACBayesClassifier(LinearPool(class_weight="even")).fit(X, codes)
    with pytest.raises(ValueError, match=r"families must be some of .* with class_weight='balanced', got 'lightgbm'"):
        make_union(["svm", "lightgbm"], class_weight="balanced")
    assert [one.class_weight for _, one in make_union(class_weight="balanced").families] == ["balanced"] * 4
