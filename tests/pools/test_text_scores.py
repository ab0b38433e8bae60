"""Hypotheses that read texts by their parts, against scikit-learn's models of these."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from pacbayes import PACBayesClassifier, PACBayesRegressor
from pacbayes.io import load_model, save_model
from pacbayes.pools import LinearPool, RBFSVMPool, _linear_models, _scores, _table_encoding, make_union
from pacbayes.pools._linear_models import LinearArrays, LinearEncoding, LinearModels
from pacbayes.pools._table_encoding import N_TEXT_PARTS, TEXT, TableEncoding, text_scores
from pacbayes.rows import TEXT_BITS, TEXT_COLUMNS, CodeBook
from pacbayes.rows._code_book import to_parts

RNG = np.random.default_rng(0)
COLORS, THINGS = ["red", "dark red", "green", "light green"], ["door", "window", "roof", "car", "house", "boat"]


def make_texts(n, seed=0):
    """Return texts that are nearly all different, and whether they speak of something red."""
    rng = np.random.default_rng(seed)
    colors = rng.choice(COLORS, n)
    texts = [
        f"{a} {b} no. {k}" for a, b, k in zip(colors, rng.choice(THINGS, n), rng.integers(10**6, size=n), strict=True)
    ]
    return texts, np.array(["red" in color for color in colors])


def make_table(n, seed=0):
    texts, is_red = make_texts(n, seed)
    rng = np.random.default_rng(seed + 1)
    return pd.DataFrame({"size": rng.normal(size=n), "text": texts}), np.where(is_red, "red", "green").astype(object)


def one_hot(X):
    """Return which parts rows have, an indicator for each."""
    held = X.astype(np.int64)
    return np.stack([held[:, c] >> b & 1 for c in range(X.shape[1]) for b in range(TEXT_BITS)], axis=1).astype(float)


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(_table_encoding, "_SCORE_TOLERANCE", 1e-10)
    monkeypatch.setattr(_table_encoding, "_SCORE_STEPS", 10_000)
    monkeypatch.setattr(_linear_models, "_TEXT_TOLERANCE", 1e-10)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
def test_scores_are_those_of_a_cross_fitted_linear_model(precise, kind):
    texts, is_red = make_texts(200)
    X, noise = to_parts(texts), np.random.default_rng(2)
    targets = is_red ^ (noise.random(200) < 0.1)
    targets = {"two classes": targets.astype(np.intp), "three classes": targets + noise.integers(2, size=200)}.get(
        kind, targets + noise.normal(size=200)
    )
    table, features = text_scores(X, targets, np.random.default_rng(3))
    fold = np.random.default_rng(3).permutation(200) % 5

    def compare(found, chosen, asked):
        parts, C = one_hot(X), _table_encoding._SCORE_C
        model = Ridge(1 / C) if kind == "numbers" else LogisticRegression(C=C, tol=1e-12, max_iter=100_000)
        expected = parts[asked] @ np.atleast_2d(model.fit(parts[chosen], targets[chosen]).coef_).T
        if kind == "three classes":  # what is added to all of them changes no probability
            found, expected = (scores - scores.mean(axis=1, keepdims=True) for scores in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)

    for k in range(5):
        compare(features[fold == k], fold != k, fold == k)
    compare(one_hot(X) @ table, np.arange(200), np.arange(200))


def test_the_score_of_a_point_does_not_know_its_label():
    texts, is_red = make_texts(100)
    X, codes = to_parts(texts), is_red.astype(np.intp)
    _, before = text_scores(X, codes, np.random.default_rng(0))
    fold = np.random.default_rng(0).permutation(100) % 5
    for k in range(5):
        changed = codes.copy()
        changed[fold == k] = 1 - changed[fold == k]
        _, after = text_scores(X, changed, np.random.default_rng(0))
        np.testing.assert_array_equal(after[fold == k], before[fold == k])
        assert (after[fold != k] != before[fold != k]).any()


@pytest.mark.parametrize("n_points", [2, 3, 6])
def test_few_points_have_scores(n_points):
    table, features = text_scores(to_parts(["a b", "c"] * 3)[:n_points], np.array([0, 1] * 3)[:n_points], RNG)
    assert np.isfinite(table).all()
    assert np.isfinite(features).all()
    assert table.shape == (N_TEXT_PARTS, features.shape[1])


@pytest.mark.parametrize("splines", [False, True])
def test_linear_models_have_a_coefficient_for_each_part(precise, splines):
    table, y = make_table(200)
    book, codes = CodeBook.learn(table), (y == "red").astype(np.intp)
    X = book.encode(table)
    encoding = LinearEncoding.learn(X, codes, replace(book, texts=()), splines=splines, rng=np.random.default_rng(0))
    n_plain = encoding.features.shape[1]
    encoding = LinearEncoding.learn(X, codes, book, splines=splines, rng=np.random.default_rng(0))
    assert encoding.features.shape[1] == n_plain
    models = LinearArrays.train(encoding, codes, np.arange(2), 1.0)
    hypotheses = LinearModels(np.arange(2), models, np.arange(1), book)
    design = np.column_stack([encoding.features, one_hot(X[:, book.first_text :])])
    expected = LogisticRegression(tol=1e-12, max_iter=100_000).fit(design, codes)
    np.testing.assert_allclose(models.tables[-N_TEXT_PARTS:], expected.coef_[0, n_plain:], rtol=0, atol=1e-6)
    new = table.assign(text="a red thing that nobody knows")
    assert hypotheses[0].predict_proba(new)[:, 1].min() > 0.5
    np.testing.assert_array_equal(hypotheses[0].predict_proba(new), hypotheses[0].predict_proba(book.encode(new)))


def test_features_of_trees_are_sums_over_the_parts():
    table, y = make_table(150)
    table["other"] = make_texts(150, 5)[0]
    book = CodeBook.learn(table)
    X = book.encode(table)
    encoding, _ = TableEncoding.learn(X, (y == "red").astype(np.intp), book, 30, np.random.default_rng(0))
    assert (encoding.table_sizes == TEXT).sum() == 2
    encoded = encoding.encode(X, np.float64)
    tables = encoding.tables[-2 * N_TEXT_PARTS :].reshape(2, -1)
    for k in range(2):
        parts = one_hot(X[:, book.first_text + k * TEXT_COLUMNS :][:, :TEXT_COLUMNS])
        np.testing.assert_allclose(encoded[:, k - 2], parts @ tables[k], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_categories", [20, 40])
def test_points_of_many_categories_are_counted(n_categories):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": [f"kind {k}" for k in rng.integers(n_categories, size=900)]})
    table.iloc[:7] = None
    book, codes = CodeBook.learn(table), rng.integers(2, size=900)
    X = book.encode(table)
    encoding, points = TableEncoding.learn(X, codes, book, 0, np.random.default_rng(0))
    n_kinds = table["kind"].nunique() + 1
    assert encoding.columns.size == 1 + (n_kinds > 30)
    if n_kinds > 30:
        expected = table["kind"].fillna("a gap").value_counts()
        np.testing.assert_array_equal(points[:, -1], expected[table["kind"].fillna("a gap")])
        np.testing.assert_array_equal(encoding.encode(X, np.float64)[:, -1], points[:, -1])
        assert encoding.encode(book.encode(pd.DataFrame({"kind": ["unknown"]})), np.float64)[0, -1] == 0


@pytest.mark.parametrize("odd", [np.nan, -1.0, 2.0**52, np.inf, -np.inf, 0.5])
def test_what_is_no_number_of_parts_has_none(odd):
    out = np.empty((1, 1))
    X = np.full((1, TEXT_COLUMNS), odd)
    arrays = (np.zeros(1, dtype=np.int32), np.array([TEXT]), np.ones(N_TEXT_PARTS))
    _scores.encode(X, *arrays, out)
    assert out.item() == 0


@pytest.mark.parametrize(
    ("column", "size", "length", "said"),
    [
        (1, TEXT, N_TEXT_PARTS, "columns must be those of X"),
        (0, TEXT, N_TEXT_PARTS - 1, "table_sizes must add up"),
        (0, TEXT, N_TEXT_PARTS + 1, "table_sizes must add up"),
        (0, -2, N_TEXT_PARTS, "table_sizes must add up"),
    ],
)
def test_tables_of_texts_fit_their_columns(column, size, length, said):
    arrays = (np.array([column], dtype=np.int32), np.array([size]), np.ones(length))
    with pytest.raises(ValueError, match=said):
        _scores.encode(np.zeros((1, TEXT_COLUMNS)), *arrays, np.empty((1, 1)))


@pytest.mark.parametrize(
    ("texts", "n_weights", "said"),
    [
        (np.zeros((2, TEXT_COLUMNS - 1)), N_TEXT_PARTS + 1, "texts must have columns for all their parts"),
        (np.zeros((3, TEXT_COLUMNS)), N_TEXT_PARTS + 1, "arrays must have a row for each point"),
        (np.zeros((2, TEXT_COLUMNS)), N_TEXT_PARTS, "weights must have a row for each"),
        (np.zeros((2, 2 * TEXT_COLUMNS)), N_TEXT_PARTS + 1, "weights must have a row for each"),
    ],
)
def test_parts_have_weights(texts, n_weights, said):
    nothing = np.empty((2, 0)), np.empty((2, 0), dtype=np.int32)
    with pytest.raises(ValueError, match=said):
        _scores.train_linear(*nothing, texts, np.array([0.0, 1.0]), 1.0, 1e-3, 10, np.zeros((n_weights, 1)))


def test_distances_compare_no_parts():
    table, y = make_table(200)
    labelled = RBFSVMPool(n_hypotheses=20)
    model = PACBayesClassifier(labelled, random_state=0).fit(table, y)
    assert model.fitted_votes_.code_book.texts == (False, True)
    # Categories that are too few for texts, and otherwise alike: all are different.
    pool = RBFSVMPool(n_hypotheses=20)
    pool.make_code_book = lambda X: replace(CodeBook.learn(X), texts=())
    plain = PACBayesClassifier(pool, random_state=0).fit(table, y)
    np.testing.assert_array_equal(model.losses_, plain.losses_)
    np.testing.assert_array_equal(model.decision_function(table), plain.decision_function(table))


def test_a_union_learns_from_words(tmp_path):
    table, y = make_table(600)
    model = PACBayesClassifier(random_state=0).fit(table, y)
    new, truth = make_table(300, seed=7)
    assert model.score(new, truth) > 0.95
    without = PACBayesClassifier(random_state=0).fit(table.assign(text=[f"{k}" for k in RNG.permutation(600)]), y)
    assert without.score(new, truth) < 0.7
    model.verify_certificate(model.certificate_, table, y)
    save_model(model, tmp_path / "model.skops")
    loaded, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    loaded.verify_certificate(loaded.certificate_, table, y)


@pytest.mark.parametrize("estimator", [None, LinearPool()], ids=["default", "linear"])
def test_rows_whose_ids_were_in_training_are_predicted_as_well(estimator):
    table, y = make_table(400)
    table["id"] = [f"customer {k}" for k in range(400)]
    y = np.where(np.random.default_rng(2).random(400) < 0.1, np.where(y == "red", "green", "red"), y)
    model = PACBayesClassifier(estimator, random_state=0).fit(table, y)
    new, truth = make_table(400, seed=7)
    assert model.score(new.assign(id="somebody else"), truth) > 0.95
    assert model.score(new.assign(id=table["id"]), truth) > 0.95


def test_a_regressor_learns_from_words():
    table, y = make_table(500)
    target = (y == "red") * 10.0 + RNG.normal(size=500)
    families = make_union(["boosting", "forest", "linear"], numeric=True)
    model = PACBayesRegressor(families, random_state=0).fit(table, target)
    new, truth = make_table(200, seed=7)
    assert np.mean(np.abs(model.predict(new) - (truth == "red") * 10.0)) < 2
