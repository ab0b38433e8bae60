"""Logistic regressions as arrays, against scikit-learn's."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler, TargetEncoder

from pacbayes.pools import CodeBook, LinearArrays, LinearModels, _linear_models
from pacbayes.pools._linear_models import LinearEncoding
from pacbayes.pools._table_encoding import target_statistics


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(_linear_models, "_TOLERANCE", 1e-9)


def train(X, codes, C=1.0, book=None, splines=False):
    k = int(codes.max()) + 1
    encoding = LinearEncoding.learn(X, codes, book, splines=splines, rng=np.random.default_rng(0))
    models = LinearArrays.train(encoding, codes, np.arange(k), C)
    return LinearModels(np.arange(k), models, np.arange(1), book)


def make_points(n, d, n_classes, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.exponential(size=d) + 10 * rng.normal(size=d)
    X[:, -1] = 0.3  # does not vary
    codes = np.digitize(StandardScaler().fit_transform(X)[:, 0] + rng.normal(size=n), np.linspace(-1, 1, n_classes - 1))
    codes[:n_classes] = np.arange(n_classes)
    return X, codes


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_optimum_is_that_of_scikit_learn(precise, n_classes, C):
    X, codes = make_points(200, 6, n_classes, seed=n_classes)
    hypotheses = train(X, codes, C)
    scaler = StandardScaler().fit(X)
    model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(scaler.transform(X), codes)
    expected = model.predict_proba(scaler.transform(X))
    np.testing.assert_allclose(hypotheses[0].predict_proba(X), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(hypotheses[0].predict(X), np.argmax(expected, axis=1))
    assert str(hypotheses[0]) == f"logistic regression of 6 features, C = {C:g}"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_splines_are_those_of_scikit_learn(precise, n_classes):
    X, codes = make_points(200, 4, n_classes, seed=n_classes)
    hypotheses = train(X, codes, splines=True)
    expander = SplineTransformer(5, extrapolation="constant").fit(X[:, :3])
    new = np.vstack([X, X[:20] * 3 - 10])  # outside as well

    def encode(rows):  # the last column, which does not vary, has splines that do not either
        constant = np.tile([1 / 6, 4 / 6, 1 / 6, 0, 0, 0, 0], (len(rows), 1))
        return np.column_stack([expander.transform(rows[:, :3]), constant])

    new[:, 3] = 0.3
    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(encode(X), codes)
    np.testing.assert_allclose(hypotheses[0].predict_proba(new), model.predict_proba(encode(new)), rtol=0, atol=1e-6)
    assert str(hypotheses[0]) == "logistic regression of splines of 4 features, C = 1"


def test_the_tolerance_is_close_enough():
    X, codes = make_points(300, 10, 3, seed=0)
    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(StandardScaler().fit_transform(X), codes)
    expected = model.predict_proba(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(train(X, codes)[0].predict_proba(X), expected, rtol=0, atol=5e-3)


def test_separable_points_end():
    X = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    assert train(X, np.array([0, 0, 1, 1]), C=1e6)[0].predict(X).tolist() == [0, 0, 1, 1]


def make_table(n, n_texts, seed):
    rng = np.random.default_rng(seed)
    text = [f"t{i}" for i in rng.integers(n_texts, size=n)]
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["u", "v", "w"], n), "c": text})
    y = ((table["a"] > 0) ^ (table["b"] == "u")).to_numpy().astype(int)
    return table.mask(rng.random(table.shape) < 0.1), y


def test_categories_and_gaps(precise):
    table, y = make_table(60, 12, seed=0)
    book = CodeBook.learn(table)
    X = book.encode(table)
    hypotheses = train(X, y, book=book)
    numbers = StandardScaler().fit(X[:, :2])  # and the indicator of gaps, whose mean fills none
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5, sparse_output=False).fit(X[:, 2:])

    def encode(rows):
        return np.column_stack([np.nan_to_num(numbers.transform(rows[:, :2])), one_hot.transform(rows[:, 2:])])

    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(encode(X), y)
    new = X[:50].copy()
    new[:20, 2:] = -1  # unknown
    expected = model.predict_proba(encode(new))
    np.testing.assert_allclose(hypotheses[0].predict_proba(new), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(hypotheses[0].predict_proba(table), hypotheses[0].predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("splines", [False, True])
def test_columns_of_many_categories_have_target_statistics(precise, n_classes, splines):
    table, y = make_table(300, 80, seed=1)
    y = y + (np.arange(300) % (n_classes - 1))
    book = replace(CodeBook.learn(table), texts=())
    X = book.encode(table)
    hypotheses = train(X, y, book=book, splines=splines)
    tables, features = target_statistics(
        X[:, 3].astype(int) + 1, y, len(book.categories[2]) + 2, np.random.default_rng(0)
    )
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(X[:, [2]])
    scaler = StandardScaler().fit(np.column_stack([X[:, :2], features]))
    expander = SplineTransformer(5, extrapolation="constant")
    expander.fit(np.nan_to_num(scaler.transform(np.column_stack([X[:, :2], features]))))

    def encode(rows, statistics):
        numbers = np.nan_to_num(scaler.transform(np.column_stack([rows[:, :2], statistics])))
        if splines:
            numbers = expander.transform(numbers)
        return np.column_stack([numbers, one_hot.transform(rows[:, [2]])])

    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(encode(X, features), y)
    expected = model.predict_proba(encode(X, tables[X[:, 3].astype(int) + 1]))
    np.testing.assert_allclose(hypotheses[0].predict_proba(X), expected, rtol=0, atol=1e-6)


@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_target_statistics_are_those_of_scikit_learn(n_classes, n_categories, seed):
    rng = np.random.default_rng(seed)
    entries, codes = rng.integers(n_categories, size=200) + 1, np.arange(200) % n_classes
    tables, features = target_statistics(entries, codes, n_categories + 2, rng)
    encoder = TargetEncoder(random_state=0).fit(entries[:, np.newaxis], codes)
    seen = encoder.categories_[0]
    for k, encoding in enumerate(encoder.encodings_):
        np.testing.assert_allclose(tables[seen, k], encoding, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tables[0], np.ravel(encoder.target_mean_), rtol=0, atol=1e-12)  # unknown
    assert features.shape == (200, tables.shape[1])
    assert ((features >= 0) & (features <= 1)).all()


def test_the_statistics_of_a_training_point_do_not_know_its_label():
    entries, codes = np.arange(100) + 1, np.arange(100) % 2  # every category has one point
    _, features = target_statistics(entries, codes, 102, np.random.default_rng(0))
    # Means of the other parts would tell the opposite of a point's own label.
    np.testing.assert_allclose(features, 0.5, rtol=0, atol=1e-12)
    # To exchange the labels of two points, of different categories, changes those of others only.
    other = codes.copy()
    other[[7, 8]] = other[[8, 7]]
    entries = np.arange(100) % 10 + 1
    before, after = (target_statistics(entries, one, 12, np.random.default_rng(1))[1][7] for one in (codes, other))
    np.testing.assert_array_equal(before, after)


def test_bits_do_not_depend_on_the_rows_predicted_together():
    X, codes = make_points(100, 5, 3, seed=0)
    hypotheses = train(X, codes)
    whole = hypotheses[0].predict_proba(X)
    for n in (1, 7, 8, 9, 99):
        np.testing.assert_array_equal(hypotheses[0].predict_proba(X[-n:]), whole[-n:])


@pytest.mark.parametrize("splines", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_large_numbers_after_small_ones(n_classes, splines):
    X, codes = make_points(60, 3, n_classes, 0)
    X[:, 0] *= 1e-160
    X[:, 1] *= 1e-101
    far = np.array(list(product([-1e150, 1e150], repeat=3)))
    assert np.isfinite(train(X, codes, 1e6, splines=splines).probabilities_of(0, far)).all()


def test_gaps_are_worth_the_mean():
    X, codes = make_points(80, 3, 2, seed=0)
    X[::5, 1] = np.nan
    hypotheses = train(X, codes)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    np.testing.assert_allclose(hypotheses[0].predict_proba(X), hypotheses[0].predict_proba(filled), atol=1e-12)
    X[:, 0] = np.nan  # missing everywhere
    assert np.isfinite(train(X, codes)[0].predict_proba(X)).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {"center": m.center[:-1]},
        lambda m: {"coef": m.coef[:-1]},
        lambda m: {"intercept": m.intercept[:-1]},
        lambda m: {"table_sizes": m.table_sizes + 1},
        lambda m: {"table_sizes": m.table_sizes * 0},
        lambda m: {"tables": m.tables[:-1]},
        lambda m: {"class_codes": m.class_codes[::-1]},
        lambda m: {"sizes": m.sizes + 1},
        lambda m: {"step": np.ones(1)},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change):
    table, y = make_table(60, 5, seed=0)
    book = CodeBook.learn(table)
    models = train(book.encode(table), y, book=book).models
    models.check(2, book.n_features)
    with pytest.raises(ValueError, match=r"must"):
        replace(models, **change(models)).check(2, book.n_features)


def test_sizes_whose_sum_overflows_are_refused():
    X, codes = make_points(60, 3, 2, seed=0)
    models = train(X, codes).models
    several = models.concatenate([models] * 4)
    several.check(2, 3)
    several = replace(several, sizes=several.sizes.copy())
    several.size("knots")[:] = [2**63 - 1, 2**63 - 1, 2, 0]  # which is 0 in 64 bits
    with pytest.raises(ValueError, match="low must hold the parts of 4 models"):
        several.check(2, 3)
