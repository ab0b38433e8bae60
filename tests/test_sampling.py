import numpy as np
import pytest
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold

from pacbayes.sampling import FoldSubsamples, GivenSubsamples, NoSubsamples, RandomSubsamples, reserve


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
    reserved, rest = reserve(30, 7, entropy=5)
    assert reserved.size == 7
    np.testing.assert_array_equal(np.sort(np.concatenate((reserved, rest))), np.arange(30))
    np.testing.assert_array_equal(reserved, reserve(30, 7, entropy=5)[0])
