"""Tables with text, booleans, dates and gaps that are read in blocks: the bits of a data frame in memory."""

import datetime
import decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier
from stored_rows import assert_same, make
from sweeps import sweep

from pacbayes.exceptions import SourceError
from pacbayes.io import load_model, save_model
from pacbayes.pools import RBFSVMPool
from pacbayes.rows import CodeBook, learn_code_book, open_source

N = 2400
_rng = np.random.default_rng(0)
_DAYS = [datetime.date(2023, 1, 1) + datetime.timedelta(days=int(day)) for day in _rng.integers(0, 900, N)]
_MOMENTS = (np.datetime64("2023-01-01T00:00:00") + _rng.integers(0, 10**8, N)).astype(object)


def _some(values, share=0.1, seed=1):
    """Return values of which some are missing."""
    missing = np.random.default_rng(seed).random(N) < share
    return [None if gap else value for gap, value in zip(missing, values, strict=True)]


def _choose(names, seed=2):
    return np.random.default_rng(seed).choice(names, N).tolist()


AGE = _rng.normal(40, 10, N)
CITY = _choose(["Bonn", "Oslo", "Rome", "Überlingen"])
KINDS = {
    "numbers": pa.array(_some(AGE)),
    "NaN": pa.array(np.where(_rng.random(N) < 0.1, np.nan, AGE)),
    "gaps that come late": pa.array([*AGE[:-5], *[None] * 5]),
    "whole numbers": pa.array(_some(_rng.integers(0, 9, N).tolist()), pa.int32()),
    "large whole numbers": pa.array(_some((2**60 + _rng.integers(0, 9**9, N)).tolist()), pa.int64()),
    "single precision": pa.array(_some(AGE), pa.float32()),
    "text": pa.array(_some(CITY)),
    "large text": pa.array(CITY, pa.large_string()),
    "text that comes late": pa.array([None] * (N - 300) + CITY[-300:]),
    "categories that come late": pa.array([*CITY[:-3], "Aix", "Zug", None]),
    "dictionary": pa.array(_some(CITY)).dictionary_encode(),
    "dictionary of numbers": pa.array(_some(_choose([3, 1, 20]))).dictionary_encode(),
    "booleans": pa.array(_rng.random(N) < 0.4),
    "booleans and gaps": pa.array(_some((_rng.random(N) < 0.4).tolist())),
    "days": pa.array(_some(_DAYS)),
    "moments": pa.array(_some(_MOMENTS), pa.timestamp("us")),
    "milliseconds": pa.array(_MOMENTS, pa.timestamp("ms")),
    "nanoseconds": pa.array(_some((_rng.integers(-(10**18), 10**18, N)).tolist()), pa.timestamp("ns")),
    "zone": pa.array(_some((_rng.integers(-(10**18), 10**18, N)).tolist()), pa.timestamp("ns", "Europe/Oslo")),
    "durations": pa.array(_some(_rng.integers(0, 10**12, N).tolist()), pa.duration("us")),
    "decimals": pa.array(_some([decimal.Decimal(k) / 1000 for k in _rng.integers(0, 10**9, N).tolist()])),
}
LABELS = (AGE + 15 * (np.array(CITY) == "Rome") + _rng.normal(0, 4, N) > 45).astype(np.int64)


def write(folder, columns, labels=LABELS, parts=3):
    """Write a table in several files of several row groups, and return their pattern and what pandas reads."""
    table = pa.table({**columns, "label": labels})
    folder.mkdir(exist_ok=True)
    bounds = np.linspace(0, table.num_rows, parts + 1).astype(int)
    for k, (start, stop) in enumerate(pairwise(bounds)):
        pq.write_table(table.slice(start, stop - start), folder / f"{k}.parquet", row_group_size=170)
    frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)
    # Categories of files that differ come together as text.
    return str(folder / "*.parquet"), frame.drop(columns="label"), frame["label"].to_numpy()


QUICK_KINDS = {"numbers", "categories that come late", "dictionary of numbers", "booleans and gaps", "zone"}


# All kinds together are quick, in the next test.
@pytest.mark.parametrize("kind", sweep(KINDS, quick=[k for k, kind in enumerate(KINDS) if kind in QUICK_KINDS]))
def test_every_kind_of_column_gives_the_bits_of_a_data_frame(kind, tmp_path):
    rows, frame, labels = write(tmp_path / "rows", {"x": KINDS[kind], "age": AGE})
    model, reference = make(n_hypotheses=10).fit(rows, "label"), make(n_hypotheses=10).fit(frame, labels)
    assert reference.fitted_votes_.code_book is not None
    assert model.fitted_votes_.code_book == reference.fitted_votes_.code_book
    assert_same(model, reference)
    assert model.feature_names_in_.tolist() == ["x", "age"]
    np.testing.assert_array_equal(model.predict(rows), reference.predict(frame))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return write(tmp_path_factory.mktemp("all") / "rows", KINDS)


@pytest.mark.parametrize(
    "settings",
    sweep(
        [
            {},
            {"holdout": None},
            {"holdout": 0.3, "voting": "gibbs"},
            {"racing": "training", "holdout": None},
            {"n_jobs": 2, "rows": 150},
            {"estimator": RBFSVMPool(scaler=None), "racing": False},
        ],
        quick=[0, 3, 4],
    ),
    ids=str,
)
def test_all_kinds_together(settings, stored, set_block_rows):
    rows, frame, labels = stored
    settings = {"n_hypotheses": 10, **settings}
    set_block_rows(settings.pop("rows", 65536))
    model, reference = make(**settings).fit(rows, "label"), make(**settings).fit(frame, labels)
    assert_same(model, reference)
    np.testing.assert_array_equal(model.predict(rows), reference.predict(frame))
    assert model.verify_certificate(model.certificate_, rows, "label") == "arithmetic, model and data"
    assert reference.verify_certificate(reference.certificate_, rows, "label") == "arithmetic, model and data"


@pytest.mark.filterwarnings("ignore:there are missing values in columns that had none")
def test_new_categories_and_gaps_at_prediction(tmp_path):
    columns = {"age": pa.array(AGE), "city": pa.array(CITY), "vip": pa.array(AGE > 50)}
    rows, frame, labels = write(tmp_path / "rows", columns)
    model, reference = make().fit(rows, "label"), make().fit(frame, labels)
    new = {"vip": pa.array(_some((AGE > 30).tolist())), "id": np.arange(N), "age": pa.array(_some(AGE - 1))}
    others, probe, _ = write(tmp_path / "new", {**new, "city": pa.array(_some(_choose(["Oslo", "Lima", "Bonn"])))})
    probe = probe[["age", "city", "vip"]]
    np.testing.assert_array_equal(model.predict(others), reference.predict(probe))
    np.testing.assert_array_equal(model.predict_proba(others), reference.predict_proba(probe))
    np.testing.assert_array_equal(np.concatenate(list(model.predict_batches(others))), reference.predict(probe))
    assert model.certify(others, "label") == reference.certify(probe, LABELS)
    assert model.certify(others) == reference.certify(probe)
    assert model.count_errors(others, "label") == reference.count_errors(probe, LABELS)


def test_rows_of_the_sample_are_recognised_wherever_they_are_read_from(stored, tmp_path):
    rows, frame, labels = stored
    model, reference = make(n_hypotheses=10).fit(rows, "label"), make(n_hypotheses=10).fit(frame, labels)
    half, taken, _ = write(
        tmp_path / "half", {name: column[700:1500] for name, column in KINDS.items()}, LABELS[700:1500]
    )
    assert reference.count_seen(half) == model.count_seen(taken) == 800
    for one in (model, reference):
        with pytest.raises(ValueError, match="800 of 800 rows are rows of the training sample"):
            one.certify(half, "label")


def test_models_are_saved_and_fits_go_on(stored, tmp_path):
    rows, frame, _ = stored
    model = make().fit(rows, "label")
    save_model(model, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(rows), model.predict(frame))
    assert_same(make(checkpoint=tmp_path / "parts").fit(rows, "label"), model)
    assert_same(make(checkpoint=tmp_path / "parts").fit(rows, "label"), model)


@pytest.mark.parametrize("dictionary", [False, True])
def test_labels_that_are_text(dictionary, tmp_path):
    words = pa.array(np.array(["no", "yes"])[LABELS])
    columns = {"age": AGE, "city": KINDS["text"]}
    rows, frame, labels = write(tmp_path / "rows", columns, words.dictionary_encode() if dictionary else words)
    assert_same(make(n_hypotheses=10).fit(rows, "label"), make(n_hypotheses=10).fit(frame, np.asarray(labels)))


def test_numbers_without_gaps_are_taken_as_arrays_are(tmp_path):
    rows, frame, labels = write(tmp_path / "rows", {"age": AGE, "k": _rng.integers(0, 9, N)})
    model = make(n_hypotheses=10).fit(rows, "label")
    assert model.fitted_votes_.code_book is None
    assert_same(model, make(n_hypotheses=10).fit(frame.to_numpy(), labels))


def test_columns_that_only_a_later_file_shows_to_be_of_no_use(tmp_path):
    for k, column in enumerate((pa.nulls(5), pa.array([[1]] * 5))):
        pq.write_table(pa.table({"x": column, "label": LABELS[:5]}), tmp_path / f"{k}.parquet")
    with pytest.raises(SourceError, match=r"column 'x' holds list<.*> values: numbers, text"):
        open_source(tmp_path, "label")


def test_files_may_store_text_differently_and_lack_it(tmp_path):
    text = pa.array(_some(CITY))
    folder = tmp_path / "rows"
    folder.mkdir()
    parts = [text[:800].dictionary_encode(), pa.nulls(800), text[1600:].cast(pa.large_string())]
    for k, part in enumerate(parts):
        table = pa.table({"city": part, "age": AGE[k * 800 : k * 800 + 800], "label": LABELS[k * 800 : k * 800 + 800]})
        pq.write_table(table, folder / f"{k}.parquet")
    expected = pd.DataFrame({"city": [*text[:800].to_pylist(), *[None] * 800, *text[1600:].to_pylist()], "age": AGE})
    assert_same(make(n_hypotheses=10).fit(folder, "label"), make(n_hypotheses=10).fit(expected, LABELS))


# ---------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(), [DecisionTreeClassifier().fit([[0], [1]], [0, 1])]])
def test_hypotheses_that_take_numbers_only(estimator, tmp_path):
    rows, _, _ = write(tmp_path / "rows", {"city": KINDS["text"], "age": AGE})
    message = r"column 'city' holds string values, and these hypotheses take numbers and booleans only.*RBFSVMPool\(\)"
    with pytest.raises(SourceError, match=message):
        make(estimator=estimator, n_hypotheses="auto", subsample_size="auto").fit(rows, "label")
    with pytest.raises(SourceError, match="column 'city' holds string values"):
        open_source(rows, "label").read(0, 5)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.nulls(N), "column 'x' of X is missing in every row: leave it out"),
        (pa.nulls(N, pa.string()), "column 'x' of X is missing in every row: leave it out"),
        (pa.array([*_some(AGE)[:-1], np.inf]), "column 'x' of X holds infinite values"),
        (pa.array([[1]] * N), "column 'x' holds list<.*> values: numbers, text, booleans, categories or dates"),
        (pa.array([b"1"] * N), "column 'x' holds binary values: numbers, text, booleans, categories or dates"),
        (pa.array([datetime.time(12)] * N), "column 'x' of X holds values of type time: numbers, text,"),
    ],
)
def test_columns_that_cannot_be_used_are_named(column, message, tmp_path):
    pq.write_table(pa.table({"x": column, "label": LABELS}), tmp_path / "rows.parquet", row_group_size=500)
    model = make()
    with pytest.raises(ValueError, match=message):
        model.fit(tmp_path / "rows.parquet", "label")
    assert not hasattr(model, "n_features_in_")


def test_columns_of_another_kind_at_prediction(tmp_path):
    rows, _, _ = write(tmp_path / "rows", {"city": KINDS["text"], "age": pa.array(_some(AGE))})
    model = make(n_hypotheses=10).fit(rows, "label")
    others, _, _ = write(tmp_path / "others", {"city": KINDS["text"], "age": KINDS["text"]})
    with pytest.raises(ValueError, match="column 'age' of X must hold numbers, as in the sample, got '"):
        model.predict(others)
    others, _, _ = write(tmp_path / "dates", {"city": KINDS["days"], "age": AGE})
    with pytest.raises(ValueError, match=r"column 'city' of X must hold categories such as .* got dates"):
        model.predict(others)
    with pytest.raises(ValueError, match="gamma_source must be 'subsample' for tables with text"):
        make(estimator=RBFSVMPool(gamma_source="reserved")).fit(rows, "label")


# ---------------------------------------------------------------------------------------------------
# Code books
# ---------------------------------------------------------------------------------------------------

VALUES = {
    pa.string(): st.text("abü ,1", max_size=3),
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-9, 9),
    pa.float64(): st.floats(allow_infinity=False),
    pa.timestamp("s"): st.integers(-(10**10), 10**10),
    pa.date32(): st.integers(-(10**5), 10**5),
}


@given(st.data(), st.sampled_from(list(VALUES)), st.booleans(), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_code_book_of_parts_is_that_of_the_whole(tmp_path_factory, data, kind, dictionary, group):
    cells = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=12))
    column = pa.array(cells, kind)
    if dictionary and kind in (pa.string(), pa.int16()):
        column = column.dictionary_encode()
    path = tmp_path_factory.mktemp("book") / "rows.parquet"
    pq.write_table(pa.table({"x": column, "one": [1.0] * len(cells)}), path, row_group_size=group)
    frame, source = pd.read_parquet(path), open_source(path)
    try:
        expected = CodeBook.learn(frame)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            learn_code_book(source)
        return
    book = learn_code_book(source)
    if book is None:
        assert frame["x"].notna().all()
        assert frame["x"].dtype.kind in "if"
        return
    assert book == expected
    np.testing.assert_array_equal(source.encoded(book).read(0, len(cells)), expected.encode(frame))
