"""Rows of tables in the compiled SVMs: categories, gaps and dates, beside a loop over SVC on one-hot columns."""

import datetime
import json
import os
import pickle
import subprocess
import sys
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.exceptions import CertificateError
from pacbayes.io import load_model, save_model
from pacbayes.pools import CodeBook, RBFSVMPool, _engine, jaakkola_gamma

SCALERS = {"minmax": MinMaxScaler((-1, 1)), "standard": StandardScaler(), "None": None}
NUMBERS = ["age", "income", "since"]
CATEGORIES = ["city", "plan", "vip"]


def make_table(n=240, seed=0, gaps=0.1):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "city": rng.choice(["Bonn", "Oslo", "Rome"], n),
            "income": np.exp(rng.normal(8, 1, n)),
            "vip": (rng.random(n) < 0.3).astype(object),
            "since": rng.normal(10_000, 500, n),
            "plan": rng.choice(["a", "b"], n),
        }
    )
    score = (table["age"] > 40).astype(int) + (table["city"] == "Rome") + table["vip"].astype(int)
    labels = (score + rng.normal(0, 0.4, n) > 1).astype(int).to_numpy()
    return table.mask(rng.random(table.shape) < gaps).astype({"vip": object}), labels


def one_hot(table, rows, scaler):
    """The rows of a table as an explicit pipeline has them that is fitted to some: filled, scaled, one-hot."""
    known = table[NUMBERS].astype(float)
    numbers = known.fillna(known.iloc[rows].mean())
    if scaler is not None:
        varies = numbers.iloc[rows].nunique() > 1  # what does not vary is not scaled
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns without a value
            scaler = clone(scaler).fit(numbers.iloc[rows])
        numbers = pd.DataFrame(scaler.transform(numbers), columns=NUMBERS).where(
            np.broadcast_to(varies, numbers.shape), numbers
        )
    numbers.loc[:, known.iloc[rows].isna().all()] = 0.0  # nothing is known about them
    indicators = known.isna().astype(float)
    hot = [(table[name].astype(object).where(table[name].notna(), "?")).astype(str) for name in CATEGORIES]
    return np.column_stack([numbers, indicators, *(pd.get_dummies(column).to_numpy(dtype=float) for column in hot)])


def fit(table, labels, **settings):
    pool = settings.pop("estimator", RBFSVMPool())
    return PACBayesClassifier(pool, random_state=0, holdout=None, **settings).fit(table, labels)


def scaler_of(model, h):
    return SCALERS[list(model.hypotheses_.groups)[model.hypotheses_.kind[h]]]


def decision_values(svm, points, X):
    """Return what a machine must decide at points: a sum over its support vectors, which are rows of X."""
    squared = np.square(points[:, None] - X[svm.support][None]).sum(axis=2)
    return np.exp(-svm.gamma * squared) @ svm.dual_coef[0] + svm.intercept


def tolerance_of(svm):
    return 1e-9 * (1 + np.abs(svm.dual_coef).sum())


# ---------------------------------------------------------------------------------------------------
# The engine beside scikit-learn
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [15, pytest.param(45, marks=pytest.mark.slow)])
def test_hypotheses_are_those_of_svc_on_one_hot_columns(m):
    table, labels = make_table()
    model = fit(table, labels, n_hypotheses=m, subsample_size=60)
    compared = 0
    for h, rows in enumerate(model.subsamples_):
        svm = model.hypotheses_[h]
        X = one_hot(table, rows, scaler_of(model, h))
        seed = jaakkola_gamma(X[rows], labels[rows])
        multiplier = min(RBFSVMPool().gamma_grid, key=lambda g: abs(np.log(svm.gamma / (seed * g))))
        np.testing.assert_allclose(svm.gamma, seed * multiplier, rtol=1e-5)  # distances in single precision
        expected = SVC(C=svm.C, gamma=svm.gamma, tol=1e-6).fit(X[rows], labels[rows])
        values = expected.decision_function(X)
        np.testing.assert_allclose(-svm.decision_function(table)[:, 0], values, atol=2e-2)
        sure = np.abs(values) > 1e-3
        np.testing.assert_array_equal(svm.predict(table)[sure], expected.predict(X)[sure])
        compared += np.count_nonzero(sure)
    assert compared > 0.95 * m * len(table)


@given(seed=st.integers(0, 10_000), gaps=st.floats(0, 0.95), size=st.integers(2, 40))
@settings(max_examples=25, deadline=None)
def test_decision_values_are_sums_over_one_hot_distances(seed, gaps, size):
    """To rounding: the coefficients are the engine's own, the kernel that of the explicit columns."""
    table, labels = make_table(60, seed, gaps)
    table.iloc[0] = [1.0, "Oslo", 1.0, True, 1.0, "a"]  # no column is missing altogether
    model = fit(table, labels, n_hypotheses=4, subsample_size=size)
    for h, rows in enumerate(model.subsamples_):
        svm = model.hypotheses_[h]
        if svm.classes.size == 1:
            continue
        X = one_hot(table, rows, scaler_of(model, h))
        expected = decision_values(svm, X, X)
        np.testing.assert_allclose(svm.decision_function(table)[:, 0], expected, rtol=0, atol=tolerance_of(svm))
        # Votes have a way of their own through the engine.
        values = svm.decision_function(table)[:, 0]
        np.testing.assert_array_equal(svm.predict(table), np.where(values > 0, *svm.classes))


def test_new_categories_and_new_gaps_differ_from_all_that_is_known():
    """A category that no row has is far from all of them by 2, a gap where there was none by 1."""
    table, labels = make_table(gaps=0.0)
    model = fit(table, labels, n_hypotheses=9, subsample_size=60)
    probe = table.iloc[:40].copy()
    probe.loc[:9, "city"] = "Lima"
    probe.loc[10:19, "city"] = None
    probe.loc[20:29, ["age", "since"]] = np.nan
    both = pd.concat([table, probe], ignore_index=True)
    for h, rows in enumerate(model.subsamples_):
        svm = model.hypotheses_[h]
        X = one_hot(both, rows, scaler_of(model, h))
        expected = decision_values(svm, X[240:], X)
        np.testing.assert_allclose(svm.decision_function(probe)[:, 0], expected, rtol=0, atol=tolerance_of(svm))


def test_columns_in_which_a_subsample_knows_nothing_are_ignored():
    table, labels = make_table(gaps=0.0)
    table["age"] = np.nan
    table.loc[:2, "age"] = [1.0, 2.0, 3.0]
    model = fit(table, labels, n_hypotheses=9, subsample_size=20)
    blind = [h for h, rows in enumerate(model.subsamples_) if rows.min() > 2]
    changed = table.copy()
    changed.loc[:2, "age"] = 1e100
    assert blind
    for h in blind:
        svm = model.hypotheses_[h]
        np.testing.assert_array_equal(svm.decision_function(table), svm.decision_function(changed))


# ---------------------------------------------------------------------------------------------------
# Strictness
# ---------------------------------------------------------------------------------------------------


def test_no_leak_validation_points_do_not_shape_a_hypothesis():
    """Replace every row outside S_h, with other categories and gaps: h predicts the same."""
    table, labels = make_table(120)
    rng = np.random.default_rng(1)
    settings = {"n_hypotheses": 9, "subsample_size": 30}
    model = fit(table, labels, **settings)
    for h in range(9):
        outside = np.setdiff1d(np.arange(120), model.subsamples_[h])
        changed, other = table.copy(), labels.copy()
        for name in NUMBERS:
            changed.loc[outside, name] = rng.normal(size=outside.size) * 1e6
        changed.loc[outside, CATEGORIES] = rng.choice(["Aix", "Oslo", "zz", "b"], (outside.size, 3))
        changed.loc[rng.choice(outside, 20), "age"] = np.nan
        changed["vip"] = changed["vip"].map(lambda value: None if pd.isna(value) else str(value))
        other[outside] = rng.integers(0, 2, outside.size)
        again = fit(changed, other, **settings)
        probe = make_table(50, seed=5)[0]
        values = model.hypotheses_[h].decision_function(probe)
        np.testing.assert_allclose(again.hypotheses_[h].decision_function(probe), values, rtol=1e-9, atol=1e-9)
        assert again.hypotheses_[h].gamma == model.hypotheses_[h].gamma
        different = [
            np.ptp(other.decision_function(probe) - mine.decision_function(probe)) > 1e-6
            for mine, other in zip(model.hypotheses_, again.hypotheses_, strict=True)
            if mine.intercept.size == other.intercept.size
        ]
        assert any(different)


def test_the_certificate_says_so_and_is_strict():
    table, labels = make_table()
    model = fit(table, labels, n_hypotheses=9)
    assert model.certificate_.strict
    assert sum("equality" in line for line in model.certificate_.assumptions) == 1
    assert model.verify_certificate(model.certificate_, table, labels) == "arithmetic, model and data"
    plain = fit(table[["age"]].fillna(0.0), labels, n_hypotheses=9)
    assert not any("equality" in line for line in plain.certificate_.assumptions)


def test_choices_by_other_points_than_the_subsample_are_refused():
    table, labels = make_table()
    with pytest.raises(ValueError, match="gamma_source must be 'subsample' for tables"):
        fit(table, labels, estimator=RBFSVMPool(gamma_source="sample"))


# ---------------------------------------------------------------------------------------------------
# Data frames
# ---------------------------------------------------------------------------------------------------


def test_competing_votes_predict_data_frames():
    table, labels = make_table(400)
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=45, random_state=0, racing=False).fit(
        table[:300], labels[:300]
    )
    new = table[300:]
    np.testing.assert_array_equal(model.votes_[model.fitted_votes_.winner].predict(new), model.predict(new))
    assert model.score(new, labels[300:]) > 0.7
    assert model.certify(new, labels[300:]).bound < 1
    with pytest.raises(ValueError, match="rows of the training sample"):
        model.check_unseen(table[:300].sample(frac=0.5, random_state=0))
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="X must be a data frame"):
        model.predict(np.zeros((2, 6)))
    assert len(model.add_hypotheses(table[:300], labels[:300], 90).hypotheses_) == 90


def test_numbers_without_gaps_are_taken_as_arrays_are():
    table, labels = make_table(gaps=0.0)
    numbers = table[NUMBERS]
    of_frame, of_array = (fit(X, labels, n_hypotheses=9) for X in (numbers, numbers.to_numpy()))
    np.testing.assert_array_equal(of_frame.losses_, of_array.losses_)
    assert of_frame.fitted_votes_.code_book is None


def test_a_row_is_the_same_in_every_kind_of_data_frame():
    pl = pytest.importorskip("polars")
    dates = [datetime.date(2024, 1, 31), None, datetime.date(2024, 2, 1)]
    plain = pd.DataFrame({"n": [1.0, np.nan, 3.0], "b": [True, None, False], "t": ["x", None, "y"]})
    plain["b"] = plain["b"].astype(object)
    plain["d"] = pd.to_datetime(pd.Series(dates))
    frames = [
        plain,
        plain.astype({"n": "Int64", "b": "boolean", "t": "string"}),
        plain.astype({"t": "category", "b": "category"}),
        plain.assign(n=[1, None, 3], d=dates).astype({"n": object, "t": object, "d": object}),
        plain.assign(n=[Decimal(1), None, Decimal(3)]),
        plain.assign(d=plain["d"].dt.tz_localize("UTC")),
        pl.DataFrame({"n": [1, None, 3], "b": [True, None, False], "t": ["x", None, "y"], "d": dates}),
        pl.DataFrame({"n": [1.0, None, 3.0], "b": [True, None, False], "t": ["x", None, "y"], "d": dates}).with_columns(
            pl.col("t").cast(pl.Categorical), pl.col("d").cast(pl.Datetime)
        ),
    ]
    expected = [
        [1.0, 19753.0, *places(19753), 0, 0, 2, 1],
        [np.nan, np.nan, *[np.nan] * 6, 1, 1, 0, 0],
        [3.0, 19754.0, *places(19754), 0, 0, 1, 2],
    ]
    for frame in frames:
        np.testing.assert_allclose(CodeBook.learn(frame).encode(frame), expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(CodeBook.learn(frame).encode(frame), CodeBook.learn(plain).encode(frame))


def places(day):
    """Where a day is in the year, the week and the day: how near to its beginning, and to three quarters of it."""
    for period in (Fraction(3652425, 10000), 7, 1):
        for turn in (Fraction(0), Fraction(1, 4)):
            part = (Fraction(day) / period + turn) % 1
            yield float(1 - 4 * min(part, 1 - part))


@given(day=st.integers(-(10**6), 10**6), minute=st.integers(0, 1439), weeks=st.integers(-1000, 1000))
def test_dates_know_their_places(day, minute, weeks):
    start = np.datetime64("1970-01-01T00:00") + np.timedelta64(day, "D") + np.timedelta64(minute, "m")
    dates = pd.DataFrame({"d": np.array([start, start + np.timedelta64(7 * weeks, "D")])})
    rows = CodeBook.learn(dates).encode(dates)
    at = Fraction(day) + Fraction(minute, 1440)
    np.testing.assert_allclose(rows[0, 1:7], list(places(at)), rtol=0, atol=1e-8)
    # The same weekday and time, as near as days that far from 1970 can be told apart.
    np.testing.assert_allclose(rows[0, 3:7], rows[1, 3:7], rtol=0, atol=1e-8)


@given(microseconds=st.integers(-(10**15), 10**15))
def test_dates_are_the_same_in_every_unit(microseconds):
    dates = np.array([microseconds], dtype="datetime64[us]")
    frames = [pd.DataFrame({"d": dates.astype(f"datetime64[{unit}]")}) for unit in ("us", "ns")]
    rows = [CodeBook.learn(frame).encode(frame) for frame in frames]
    np.testing.assert_array_equal(*rows)


def test_weekdays_and_seasons_can_be_learned():
    rng = np.random.default_rng(0)
    day = np.datetime64("2021-01-01") + rng.integers(0, 1400, 1200).astype("timedelta64[D]")
    table = pd.DataFrame({"day": day})
    weekend = pd.Series(day).dt.day_of_week.to_numpy() >= 5
    winter = np.isin(pd.Series(day).dt.month, [12, 1, 2])
    for labels, most in ((weekend, 0.02), (winter, 0.04)):
        model = PACBayesClassifier(RBFSVMPool(), random_state=0).fit(table[:600], labels[:600])
        assert np.mean(model.predict(table[600:]) != labels[600:]) < most


def test_dates_and_numbers_are_not_taken_for_each_other():
    table, labels = make_table()
    table["since"] = pd.to_datetime(table["since"], unit="D")
    model = fit(table, labels, n_hypotheses=9)
    with pytest.raises(ValueError, match="column 'since' of X must hold dates, as in the sample, got"):
        model.predict(table.assign(since=3.0))
    with pytest.raises(ValueError, match="column 'age' of X must hold numbers, as in the sample, got dates"):
        model.predict(table.assign(age=table["since"]))
    assert len(model.predict(table.assign(since=None))) == len(table)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([None] * 4, "column 'x' of X is missing in every row: leave it out"),
        ([np.nan] * 4, "column 'x' of X is missing in every row: leave it out"),
        ([{"a": 1}, {}, {}, {}], "column 'x' of X holds values of type dict: numbers, text,"),
        ([[1], [2], [3], [4]], "column 'x' of X holds values of type list: numbers, text,"),
        ([1j, 2j, 3j, 4j], "column 'x' of X is of type complex128: numbers, text,"),
        ([1, "a", 2, None], "column 'x' of X mixes numbers and text: make it one"),
        ([1.0, np.inf, 2.0, None], "column 'x' of X holds infinite values"),
        ([1e200, 1.0, 2.0, None], "X must hold numbers up to 1e"),
    ],
)
def test_columns_that_cannot_be_used_are_named(column, message):
    table = pd.DataFrame({"x": pd.Series(column), "t": ["a", "b", "a", "b"]})
    with pytest.raises(ValueError, match=message):
        PACBayesClassifier(RBFSVMPool()).fit(table, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"vip": [0, 1]}, "column 'vip' of X must hold categories such as 'False' or 'True'.*got the number 0"),
        ({"vip": [0.0, np.nan]}, "column 'vip' .* got the number 0"),
        ({"city": [1.5, 2.5]}, "column 'city' of X must hold categories such as 'Oslo' or 'Rome'.*got the number 1.5"),
        ({"city": pd.to_datetime(["2020-01-01", None])}, "column 'city' .* got dates"),
    ],
)
def test_values_that_no_category_can_be_equal_to_are_named(column, message):
    book = CodeBook.learn(pd.DataFrame({"vip": [True, False], "city": ["Oslo", "Rome"]}))
    table = pd.DataFrame({"vip": [True, None], "city": ["Oslo", "Paris"]}, dtype=object)
    assert book.encode(table).tolist() == [[2, 1], [0, -1]]
    assert (book.encode(table.assign(vip=np.nan, city=pd.NaT)) == 0).all()
    with pytest.raises(ValueError, match=message):
        book.encode(table.assign(**column))


def test_categories_that_are_numbers_are_the_same_as_text():
    book = CodeBook.learn(pd.DataFrame({"grade": ["1", "2", "x"]}))
    assert book.encode(pd.DataFrame({"grade": [2.0, 1.0, 3.5]})).ravel().tolist() == [2, 1, -1]


@pytest.mark.parametrize("names", [["a", "b"], [0, 1]])
def test_columns_in_another_order_are_refused(names):
    table = pd.DataFrame([["x", "u"], ["y", "v"]] * 30, columns=names)
    labels = (table[names[0]] == "x").to_numpy().astype(int)
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=4, random_state=0).fit(table, labels)
    swapped = table[names[::-1]]
    for predict in (model.predict, model.hypotheses_[0].predict):
        with pytest.raises(ValueError, match=r"column 0 of X must be|should match those that were passed"):
            predict(swapped)


def test_missing_labels_are_named():
    table, labels = make_table(60)
    with pytest.raises(ValueError, match="y must hold labels of one type, none of them missing, got NoneType and str"):
        PACBayesClassifier(RBFSVMPool(), n_hypotheses=4).fit(
            table, ["yes", None, *np.where(labels == 1, "yes", "no")[2:].tolist()]
        )


def test_text_in_a_column_of_numbers_is_named():
    table, labels = make_table()
    model = fit(table, labels, n_hypotheses=9)
    with pytest.raises(ValueError, match="column 'age' of X must hold numbers, as in the sample, got 'old'"):
        model.predict(table.assign(age="old"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"age": "years"}))


# ---------------------------------------------------------------------------------------------------
# Racing, files and devices
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("racing", [True, "training"])
def test_tables_race(racing, tmp_path):
    table, labels = make_table(3100)
    settings = {"n_hypotheses": 90, "subsample_size": [5, 20, 80], "random_state": 0, "holdout": None}
    raced = PACBayesClassifier(RBFSVMPool(), racing=racing, **settings).fit(table[:3000], labels[:3000])
    everyone = PACBayesClassifier(RBFSVMPool(), racing=False, **settings).fit(table[:3000], labels[:3000])
    kept = ~np.isnan(raced.losses_)
    assert 0 < kept.sum() < kept.size
    assert (raced.n_validation_ == 0).any() == (racing == "training")
    np.testing.assert_array_equal(raced.losses_[kept], everyone.losses_[kept])
    if racing is True:
        assert raced.certificate_.bound == pytest.approx(everyone.certificate_.bound, abs=1e-5)
        np.testing.assert_array_equal(raced.predict(table), everyone.predict(table))
    assert raced.verify_certificate(raced.certificate_, table[:3000], labels[:3000]) == "arithmetic, model and data"
    assert raced.certify(table[3000:], labels[3000:]).bound < 1
    save_model(raced, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(table), raced.predict(table))
    assert again.verify_certificate(raced.certificate_, table[:3000], labels[:3000]) == "arithmetic, model and data"
    with pytest.raises(CertificateError):
        again.verify_certificate(raced.certificate_, table[:3000].assign(age=0.0), labels[:3000])


def test_a_table_without_rows_has_predictions_without_rows():
    table, labels = make_table()
    model = fit(table, labels, n_hypotheses=9)
    assert model.predict(table[:0]).shape == (0,)
    assert model.predict_proba(table[:0]).shape == (0, 2)
    assert [labels.shape for labels in model.predict_batches(table[:0])] == [(0,)]
    assert model.count_errors(table[:0], labels[:0]) == 0


def test_added_hypotheses_notice_another_category():
    table, labels = make_table()
    model = fit(table, labels, n_hypotheses=9, racing=False)
    more = clone(model).set_params(n_hypotheses=18).fit(table, labels)
    np.testing.assert_array_equal(model.add_hypotheses(table, labels, 18).losses_, more.losses_)
    with pytest.raises(ValueError, match="but X differ"):
        model.add_hypotheses(table.replace({"city": {"Rome": "Roma"}}), labels, 27)


# ---------------------------------------------------------------------------------------------------
# The bindings
# ---------------------------------------------------------------------------------------------------


def train_engine(X, n_numbers, n_categories, scaler="standard"):
    n = len(X)
    codes, rows = (np.arange(n) % 2).astype(np.int32), np.arange(n, dtype=np.int32)
    settings = (float("nan"), np.ones(1), np.ones(1), scaler, 1e-3, 10**6)
    return _engine.train(X, codes, rows, np.array([n]), *settings, n_numbers, n_categories)


def test_fill_and_scale_are_those_of_an_imputer_and_a_scaler():
    X = np.array(
        [[1.0, np.nan, 0.0, 3.0], [np.nan, np.nan, 1.0, 1.0], [4.0, np.nan, 0.0, 1.0], [5.0, np.nan, 0.0, 2.0]]
    )
    trained = train_engine(X, 2, 1)
    filled = SimpleImputer().fit_transform(X[:, :1])
    assert trained["fill"].tolist() == [filled[1, 0], 0.0]
    np.testing.assert_allclose(trained["scale"], [1 / StandardScaler().fit(filled).scale_[0], 0, 1, 1], rtol=1e-15)
    np.testing.assert_allclose(train_engine(X, 2, 1, "minmax")["scale"], [0.5, 0, 1, 1])
    np.testing.assert_allclose(train_engine(X, 2, 1, None)["scale"], [1, 0, 1, 1])
    assert trained["converged"].all()


@pytest.mark.parametrize(("n_numbers", "n_categories"), [(5, 0), (2, 3), (None, 1), (0, 5)])
def test_more_columns_than_there_are_cannot_be_asked_for(n_numbers, n_categories):
    with pytest.raises(ValueError, match="n_numbers"):
        train_engine(np.zeros((4, 4)), n_numbers, n_categories)


@pytest.mark.parametrize(
    ("scale", "fill", "n_categories", "message"),
    [
        (None, None, 1, "scale must be given"),
        (None, np.zeros((1, 2)), 0, "scale must be given"),
        (np.ones((1, 3)), None, 4, "n_categories must be at most"),
        (np.ones((1, 3)), np.zeros((2, 1)), 0, "fill must have one row per machine"),
        (np.ones((1, 3)), np.zeros((1, 3)), 1, "fill must be of features that are no categories"),
        (np.ones((1, 3)), np.full((1, 2), np.nan), 1, "fill must be finite"),
    ],
)
def test_machines_of_tables_are_checked(scale, fill, n_categories, message):
    none, numbers = np.zeros(0, dtype=np.int32), np.zeros(0)
    constant = (np.array([1], dtype=np.int32), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32), none)
    with pytest.raises(ValueError, match=message):
        _engine.Ensemble(*constant, numbers, numbers, np.zeros(1), scale, fill, n_categories)


# The best is what this process has, too, and `test_decision_values_are_sums_over_one_hot_distances` tests.
@pytest.mark.parametrize(
    "instructions", ["baseline", *(pytest.param(name, marks=pytest.mark.slow) for name in ("avx2", "best"))]
)
def test_every_instruction_set_computes_one_hot_distances(instructions, tmp_path):
    """Decision values of machines that were trained here, in a process that is held to an instruction set."""
    table, labels = make_table(100)
    model = fit(table, labels, n_hypotheses=9, subsample_size=30)
    with (tmp_path / "model.pkl").open("wb") as file:
        pickle.dump((model.hypotheses_, table), file)
    code = """
import json, pickle, sys
from pacbayes.pools import _engine
with open(sys.argv[1], "rb") as file:
    hypotheses, table = pickle.load(file)
print(json.dumps([_engine.instructions, [svm.decision_function(table).tolist() for svm in hypotheses]]))
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pkl")],
        env={**os.environ, "PACBAYES_INSTRUCTIONS": instructions},
        capture_output=True,
        text=True,
        check=True,
    )
    used, values = json.loads(result.stdout)
    assert used in {"baseline", instructions} if instructions != "best" else {"baseline", "avx2", "avx512"}
    compared = 0
    for h, rows in enumerate(model.subsamples_):
        svm = model.hypotheses_[h]
        if svm.classes.size == 1:
            continue
        X = one_hot(table, rows, scaler_of(model, h))
        expected = decision_values(svm, X, X)
        np.testing.assert_allclose(np.array(values[h])[:, 0], expected, rtol=0, atol=tolerance_of(svm))
        compared += 1
    assert compared > 5


@pytest.mark.parametrize("kind", ["number", "text", "flag", "date", "whole number"])
@pytest.mark.parametrize("n_columns", [3, 6])
def test_the_size_of_subsamples_does_not_depend_on_gaps(kind, n_columns):
    """The paper's rule counts the columns of a table, whatever they become."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, n_columns - 1))).rename(columns=str)
    table["last"] = {
        "number": rng.normal(size=100),
        "text": np.where(rng.random(100) < 0.5, "a", "b").astype(object),
        "flag": pd.array(rng.random(100) < 0.5, dtype="boolean"),
        "date": pd.date_range("2020-01-01", periods=100),
        "whole number": pd.array(np.arange(100), dtype="Int64"),
    }[kind]
    y = rng.integers(0, 2, 100)
    sizes = set()
    for gap in (None, (5, 0), (5, n_columns - 1)):
        changed = table.copy()
        if gap is not None:
            changed.iloc[gap] = None
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=4, subsample_size="paper", holdout=None, random_state=0)
        sizes |= set(model.fit(changed, y).subsamples_.sizes.tolist())
    assert sizes == {n_columns + 1 if n_columns > 3 else 10}
