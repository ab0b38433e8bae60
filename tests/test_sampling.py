import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold

from pacbayes.sampling import (
    DEAL,
    LEARNER,
    ChosenSubsamples,
    FoldSubsamples,
    GivenSubsamples,
    NoSubsamples,
    RandomSubsamples,
    _streams,
    draw_positions,
    permutations,
    split_reserved,
    stream,
)
from pacbayes.sampling._subsamples import SUBSAMPLE


def test_random_subsamples_are_sets_of_the_right_sizes():
    subsamples = RandomSubsamples(50, [3, 10], 7, entropy=1)
    assert len(subsamples) == 7
    assert subsamples.sizes.tolist() == [3, 10, 3, 10, 3, 10, 3]
    assert subsamples.n_validation.tolist() == [47, 40, 47, 40, 47, 40, 47]
    for s, size in zip(subsamples, subsamples.sizes, strict=True):
        assert np.unique(s).size == size
        assert np.all((s >= 0) & (s < 50))
        assert np.all(np.diff(s) > 0)


def test_a_subsample_depends_on_its_number_and_the_seed_only():
    few, many = RandomSubsamples(50, [3, 10], 2, entropy=1), RandomSubsamples(50, [3, 10], 500, entropy=1)
    for h in range(2):
        np.testing.assert_array_equal(few[h], many[h])
    assert not np.array_equal(RandomSubsamples(50, [10], 1, entropy=2)[0], RandomSubsamples(50, [10], 1, entropy=3)[0])


def test_every_point_is_as_likely():
    """Counts over 4000 subsamples of 5 from 20 are within five standard deviations of their mean."""
    subsamples = RandomSubsamples(20, [5], 4000, entropy=0)
    counts = np.bincount(np.concatenate(list(subsamples)), minlength=20)
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75))


@pytest.mark.parametrize(
    "splitter",
    [KFold(5), KFold(3, shuffle=True, random_state=0), RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)],
)
def test_training_folds_of_a_splitter(splitter):
    subsamples = FoldSubsamples(23, splitter)
    expected = [train for train, _ in splitter.split(np.zeros(23))]
    assert len(subsamples) == len(expected)
    for s, train in zip(subsamples, expected, strict=True):
        np.testing.assert_array_equal(s, np.sort(train))


def test_shuffle_split_may_leave_points_out():
    assert FoldSubsamples(100, ShuffleSplit(6, train_size=10, test_size=20, random_state=0)).sizes.tolist() == [10] * 6


def test_a_splitter_that_looks_at_labels_is_refused():
    with pytest.raises(ValueError, match="without seeing labels or groups"):
        FoldSubsamples(20, StratifiedKFold(2))


def test_no_subsamples_leave_every_point_to_validation():
    subsamples = NoSubsamples(10, 3)
    assert subsamples.n_validation.tolist() == [10, 10, 10]
    assert subsamples[2].size == 0


@pytest.mark.parametrize(
    ("index_sets", "message"),
    [
        ([[0, 1], [2, 2]], "index set 1 must not repeat a row number"),
        ([[0, 5]], "index set 0 must hold row numbers from 0 to 4, got 5"),
        ([[-1]], "index set 0 must hold row numbers from 0 to 4, got -1"),
        ([[0.5]], "index set 0 must be a one-dimensional array of whole numbers, got float64"),
        ([[[0]]], "index set 0 must be a one-dimensional array"),
        ([[0], np.array([], dtype=int)], "at least 1 point, got a size of 0"),
        ([range(5)], "sizes must be below n = 5, got 5"),
        ([], "at least one subsample, got none"),
    ],
)
def test_bad_index_sets_are_refused(index_sets, message):
    with pytest.raises(ValueError, match=message):
        GivenSubsamples(5, index_sets)


def test_reserved_points_and_the_rest_partition_the_sample():
    reserved, rest = split_reserved(30, 7, entropy=5)
    assert reserved.size == 7
    np.testing.assert_array_equal(np.sort(np.concatenate((reserved, rest))), np.arange(30))
    np.testing.assert_array_equal(reserved, split_reserved(30, 7, entropy=5)[0])


def test_streams_are_numpys_philox():
    words = np.empty((3, 9), dtype=np.uint64)
    key = np.random.SeedSequence(7).generate_state(2, np.uint64)
    _streams.words(key, 5, 2**40, words)
    for h in range(3):
        expected = np.random.Philox(key=key, counter=[0, 2**40 + h, 5, 0]).random_raw(9)
        np.testing.assert_array_equal(words[h], expected)
        np.testing.assert_array_equal(stream(7, 2**40 + h, 5).bit_generator.random_raw(9), expected)


@pytest.mark.parametrize(("n", "r"), [(50, 20), (9, 8), (64, 1), (65, 1), (1000, 800), (5000, 2)])
def test_subsamples_follow_floyds_method(n, r):
    """The published algorithm, word by word, on the same stream."""
    for h, subsample in enumerate(RandomSubsamples(n, [r], 5, entropy=3)):
        raw = stream(3, h, SUBSAMPLE).bit_generator
        chosen = set()
        for last in range(n - r, n):
            word = int(raw.random_raw())
            while word < 2**64 % (last + 1):
                word = int(raw.random_raw())
            candidate = word % (last + 1)
            chosen.add(last if candidate in chosen else candidate)
        assert subsample.tolist() == sorted(chosen)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [1, 3, 39], list(range(0, 40, 2)), []])
def test_training_points_are_located_among_rows(chosen, share):
    rng = np.random.default_rng(0)
    everyone = RandomSubsamples(700, [1, 300, 20], 40, entropy=5)
    rows = np.sort(rng.permutation(700)[: round(share * 700)])
    subsamples = ChosenSubsamples(everyone, np.array(chosen, dtype=np.intp))
    # Of others that are chosen already, those that were drawn are taken.
    again = ChosenSubsamples(ChosenSubsamples(everyone, np.arange(40)), np.array(chosen, dtype=np.intp))
    expected = [np.flatnonzero(np.isin(rows, everyone[h])) for h in chosen]
    for part in (subsamples, again):
        positions, counts = part.locate(range(len(chosen)), rows)
        assert counts.tolist() == part.count_among(rows).tolist() == [inside.size for inside in expected]
        assert positions.tolist() == [position for inside in expected for position in inside]


def test_all_sets_are_equally_likely():
    drawn = [tuple(s) for s in RandomSubsamples(6, [3], 20_000, entropy=0)]
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert counts.size == 20
    assert stats.chisquare(counts).pvalue > 1e-4


def test_positions_are_uniform_and_each_hypothesis_has_its_own():
    positions = draw_positions(0, range(20_000), LEARNER, [5, 3])
    for column, length in zip(positions.T, (5, 3), strict=True):
        assert stats.chisquare(np.bincount(column, minlength=length)).pvalue > 1e-4
    np.testing.assert_array_equal(draw_positions(0, range(100, 200), LEARNER, [5, 3]), positions[100:200])


def test_all_kinds_of_subsamples_come_together():
    given = GivenSubsamples(6, [[1, 3], [0, 2, 5]])
    assert given.concatenated(range(2)).tolist() == [1, 3, 0, 2, 5]
    assert given.concatenated(range(1, 1)).size == 0
    random = RandomSubsamples(10, [2, 4], 5, entropy=0)
    np.testing.assert_array_equal(random.concatenated(range(1, 4)), np.concatenate([random[1], random[2], random[3]]))


def test_subsamples_are_indexed_like_sequences():
    subsamples = RandomSubsamples(10, [2, 4], 5, entropy=0)
    np.testing.assert_array_equal(subsamples[-1], subsamples[4])
    with pytest.raises(IndexError):
        subsamples[5]


def test_row_numbers_fit_32_bits():
    with pytest.raises(ValueError, match=r"fewer than 2\^31 points"):
        RandomSubsamples(2**31, [2], 1, entropy=0)


@given(st.integers(0, 2**64), st.lists(st.integers(0, 2**63 - 1), max_size=6), st.integers(0, 70))
def test_orders_of_many_streams_are_those_of_numpy(entropy, numbers, count):
    orders = permutations(entropy, np.array(numbers, dtype=np.int64), DEAL, count)
    assert orders.shape == (len(numbers), count)
    for order, number in zip(orders, numbers, strict=True):
        np.testing.assert_array_equal(order, stream(entropy, number, DEAL).permutation(count))
