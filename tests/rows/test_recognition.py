import math
import struct

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse
from sklearn.datasets import load_iris

from pacbayes.rows import _recognition as recognition
from pacbayes.rows._recognition import TrainingRows, hash_rows

RNG = np.random.default_rng(0)
X = np.where(RNG.random((200, 7)) < 0.5, RNG.normal(size=(200, 7)), 0.0).astype(np.float32)


@pytest.mark.parametrize(
    "container",
    [
        lambda X: X.astype(np.float64),
        np.asfortranarray,
        sparse.csr_array,
        sparse.csc_matrix,
        pd.DataFrame,
        lambda X: pl.DataFrame(X, schema=[str(k) for k in range(7)]),
        lambda X: X.astype(object).astype(np.float32),
        lambda X: np.where(X == 0, -0.0, X),
    ],
)
def test_the_same_rows_in_any_container(container):
    np.testing.assert_array_equal(hash_rows(container(X)), hash_rows(X))
    np.testing.assert_array_equal(hash_rows(container(X), exact=True), hash_rows(X))


def test_exact_hashes_of_whole_numbers():
    """Those beyond 2^53 are told apart, and those that double precision holds have the hashes that these have."""
    numbers = np.array([[2**53, 1], [2**53 + 1, 1], [2**62, 0], [2**62 + 1, 0], [-(2**63), 5], [2**63 - 1, 5]])
    hashes = hash_rows(numbers, exact=True)
    assert np.unique(hashes).size == 6
    as_doubles = hash_rows(numbers.astype(np.float64), exact=True)
    np.testing.assert_array_equal(hashes == as_doubles, [True, False, True, False, True, False])
    for container in (pd.DataFrame, sparse.csr_array, np.asfortranarray):
        np.testing.assert_array_equal(hash_rows(container(numbers), exact=True), hashes)
    assert np.unique(hash_rows(numbers)).size == 4


def test_exact_hashes_are_kept_where_they_tell_more():
    assert TrainingRows(X).exact is None
    assert TrainingRows(RNG.normal(size=(500, 2))).exact is None
    assert TrainingRows(RNG.integers(0, 8, size=(500, 1)).astype(float)).exact is None
    close = 1e5 + 1e-3 * RNG.normal(size=(500, 2))
    assert TrainingRows(close).exact.hashes.size == 500
    # Few distinct rows, in single precision one: the sample is known by its order.
    few = 1e5 + 1e-3 * RNG.integers(0, 4, size=(500, 1))
    assert TrainingRows(few).count_seen(few) == 500
    assert TrainingRows(few).count_seen(few[::-1]) == 0


def test_exact_hashes_of_a_sample_that_is_not_kept_as_a_whole(monkeypatch):
    monkeypatch.setattr(recognition, "_MOST_KEPT", 1000)
    close = 1e5 + 1e-3 * RNG.normal(size=(8000, 2))
    rows = TrainingRows(close[:4000])
    assert rows.shift == rows.exact.shift == 2
    assert 800 < rows.count_seen(close[1:4000]) < 1200
    assert rows.count_seen(close[4000:]) == 0
    assert TrainingRows(RNG.normal(size=(4000, 2))).exact is None


def test_rows_of_zeros_do_not_hide_the_others_of_a_large_sample(monkeypatch):
    monkeypatch.setattr(recognition, "_MOST_KEPT", 1000)
    sample = np.where(RNG.random((32000, 1)) < 0.2, 0.0, RNG.normal(size=(32000, 3)))
    rows = TrainingRows(sample)
    assert rows.shift == 5
    assert rows.count_seen(sample[::-1]) > 500
    assert rows.count_seen(np.where(RNG.random((32000, 1)) < 0.2, 0.0, RNG.normal(size=(32000, 3)))) == 0


def spelled_out(value, column, exact=False):
    """The hash of a number in its column, in whole numbers of Python."""
    if value == 0:
        return 0
    bits = 0x7FF8 << 48 if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]
    kept, dropped = divmod(bits, 2**29)  # 24 significant bits
    kept += dropped > 2**28 or (dropped == 2**28 and kept % 2 == 1)
    z = ((bits if exact else kept * 2**29) + 0x9E3779B97F4A7C15 * (column + 1)) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)), st.booleans(), st.booleans())
def test_hashes_are_sums_of_splitmix(rows, fortran, exact):
    expected = [sum(spelled_out(value, k, exact) for k, value in enumerate(row)) % 2**64 for row in rows.tolist()]
    assert hash_rows(np.asfortranarray(rows) if fortran else rows, exact=exact).tolist() == expected
    if not np.isnan(rows).any():
        assert hash_rows(sparse.csr_array(rows), exact=exact).tolist() == expected


def test_rows_that_differ_have_different_hashes():
    rows = np.vstack([np.eye(50), 2 * np.eye(50), -np.eye(50), np.eye(50) + np.eye(50)[::-1], np.zeros((1, 50))])
    assert np.unique(hash_rows(rows)).size == np.unique(rows, axis=0).shape[0]
    text = np.array([["a", "b"], ["b", "a"], ["a", "a"]], dtype=object)
    assert np.unique(hash_rows(text)).size == 3
    gaps = pd.DataFrame({"a": [1.0, None], "b": ["x", None]})
    assert np.unique(hash_rows(gaps)).size == 2


def test_rows_are_recognised_in_part_and_in_any_order():
    rows = TrainingRows(X)
    new = RNG.normal(size=(100, 7)).astype(np.float32)
    rows.check_unseen(new)
    mixed = np.vstack([new, X[30:40]])
    assert rows.contains(hash_rows(mixed)).tolist() == [False] * 100 + [True] * 10
    for seen in (X, X[::-1], X[40:60], mixed):
        with pytest.raises(ValueError, match="rows of the training sample"):
            rows.check_unseen(seen)


def test_samples_that_repeat_themselves():
    """Few distinct rows: new ones coincide by chance, and are not refused for it; all of them are."""
    coarse = RNG.integers(0, 8, size=(1000, 3)).astype(float)
    rows = TrainingRows(coarse[:500])
    rows.check_unseen(coarse[500:])
    iris = load_iris().data
    rows = TrainingRows(iris[:100])
    rows.check_unseen(iris[100:])
    with pytest.raises(ValueError, match="rows of the training sample"):
        rows.check_unseen(iris[:100])


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.integers(0, 50, size=(n, 1)).astype(float),
        lambda rng, n: (rng.random((n, 30)) < 0.1).astype(float),
        lambda rng, n: np.round(rng.normal(size=(n, 3)), 1),
    ],
)
@pytest.mark.parametrize("n", [10, 30, 400])
def test_new_rows_are_seldom_taken_for_rows_of_a_small_sample(draw, n):
    """A small sample may have no rows in common with itself, although new ones have many."""
    rng = np.random.default_rng(0)
    alarms = sum(TrainingRows(draw(rng, n)).count_seen(draw(rng, 2000)) > 0 for _ in range(100))
    assert alarms <= 6


def test_rows_of_the_sample_are_counted():
    rows = TrainingRows(np.random.default_rng(0).normal(size=(100, 3)))
    rng = np.random.default_rng(0)
    sample, new = rng.normal(size=(100, 3)), rng.normal(size=(50, 3))
    assert rows.count_seen(sample[::-2]) == 50
    assert rows.count_seen(np.concatenate([new, sample[:20]])) == 20
    assert rows.count_seen(new) == 0


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_dates_are_recognised_in_every_unit(unit):
    days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=9, freq="36h").as_unit("us")})
    assert TrainingRows(days).count_seen(days.astype(f"datetime64[{unit}]")) == 9


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: frame.astype({"word": "string"}),
        lambda frame: frame.astype({"word": "category", "flag": object}),
        lambda frame: frame.convert_dtypes(),
        pl.from_pandas,
    ],
)
def test_gaps_and_flags_are_recognised_in_columns_of_every_kind(convert):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50), "word": ["a", None] * 25, "flag": rng.random(50) < 0.5})
    np.testing.assert_array_equal(hash_rows(convert(frame)), hash_rows(frame))
