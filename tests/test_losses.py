import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from pacbayes import _losses
from pacbayes._losses import Loss, resolve_loss

CLASSES = np.array(["a", "b", "c"])
CODES = np.array([0, 1, 2, 2])
PREDICTED = np.array([0, 2, 2, 1])
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25]])


def test_zero_one_counts_errors():
    loss = resolve_loss("zero_one", CLASSES)
    assert loss.is_zero_one
    assert loss.total(CODES, PREDICTED) == 2


@pytest.mark.parametrize("loss", ["zero_one", [[0, 1, 2], [3, 0, 1], [1, 1, 0]]])
def test_totals_leave_out_the_points_at_some_positions(loss):
    rng = np.random.default_rng(0)
    resolved = resolve_loss(loss, np.arange(3))
    codes, predicted = rng.integers(0, 3, (2, 50))
    for size in (0, 1, 20, 50):
        inside = rng.choice(50, size, replace=False)
        expected = resolved.total(np.delete(codes, inside), np.delete(predicted, inside))
        assert resolved.total_outside(codes, predicted, inside) == expected


@pytest.mark.parametrize("elementwise", [False, True])
@pytest.mark.parametrize("together", [1, 2**16])
def test_totals_of_several_hypotheses(monkeypatch, elementwise, together):
    """One by one, or together where the function takes a row of responses for each: to the bit."""
    monkeypatch.setattr(_losses, "_TOGETHER", together)
    rng = np.random.default_rng(0)
    loss = Loss("capped", lambda y, f: np.minimum(np.abs(y - f), 1.0), is_elementwise=elementwise)
    targets, predicted = rng.normal(size=50), rng.normal(size=(4, 50))
    inside = [rng.choice(50, size, replace=False) for size in (0, 1, 20, 50)]
    expected = [loss.total_outside(targets, row, own, 100) for row, own in zip(predicted, inside, strict=True)]
    np.testing.assert_array_equal(loss.totals_outside(targets, predicted, inside, 100), expected)
    with pytest.raises(ValueError, match=r"loss 'capped' must be in \[0, 1\], got nan"):
        loss.totals_outside(targets, predicted * np.nan, inside[:1] * 4, 100)


def test_elementwise_losses_that_are_none():
    loss = Loss("mean", lambda y, f: np.abs(y - f).mean(axis=-1), is_elementwise=True)
    with pytest.raises(ValueError, match=r"loss 'mean' must give one value per point, got shape \(2,\) for 3 points"):
        loss.totals_outside(np.zeros(3), np.zeros((2, 3)), [np.empty(0, dtype=int)] * 2)


def test_absolute_is_the_missing_probability():
    loss = resolve_loss("absolute", CLASSES)
    assert loss.on_probabilities
    assert loss.total(CODES, PROBABILITIES) == pytest.approx(0.3 + 0.9 + 0.0 + 0.75, abs=1e-8)


def test_brier_against_scikit_learn():
    loss = resolve_loss("brier", CLASSES[:2])
    positive = np.array([0.1, 0.8, 0.4, 0.5])
    codes = np.array([0, 1, 1, 0])
    total = loss.total(codes, np.column_stack((1 - positive, positive)))
    assert total / 4 == pytest.approx(brier_score_loss(codes, positive), abs=1e-8)


def test_cost_matrix_is_scaled_to_its_largest_cost():
    loss = resolve_loss([[0, 1, 2], [4, 0, 1], [1, 3, 0]], CLASSES)
    assert loss.total(CODES, PREDICTED) == 0 + 1 / 4 + 0 + 3 / 4
    assert not loss.is_zero_one


def test_functions_get_labels():
    def vowels_count(true, predicted):
        return np.where(true == "a", 0.25, 0.5) * (true != predicted)

    loss = resolve_loss(vowels_count, CLASSES)
    assert loss.name == "function:vowels_count"
    assert loss.total(CODES, PREDICTED) == 1.0


def test_a_loss_of_ones_own_is_taken_as_it_is():
    loss = Loss("mine", np.not_equal)
    assert resolve_loss(loss, CLASSES) is loss


@pytest.mark.parametrize("loss", ["brier", "absolute"])
def test_totals_round_up_and_do_not_depend_on_the_order(loss):
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), 5000)
    codes = rng.integers(0, 3, 5000)
    resolved = resolve_loss(loss, CLASSES)
    total = resolved.total(codes, probabilities)
    exact = np.asarray(resolved.function(codes, probabilities)).sum()
    assert exact <= total <= exact + 5000 * 2.0**-30
    order = rng.permutation(5000)
    parts = [resolved.total(codes[part], probabilities[part]) for part in np.array_split(order, 17)]
    assert sum(parts) == total


@pytest.mark.parametrize("loss", ["brier", [[0, 1, 2], [4, 0, 1], [1, 3, 0]], np.less])
def test_losses_travel_to_other_processes(loss):
    resolved = resolve_loss(loss, CLASSES)
    assert pickle.loads(pickle.dumps(resolved)).name == resolved.name


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("hinge", r"loss must be one of \['absolute', 'brier', 'zero_one'\]"),
        ([[0, 1], [1, 0]], r"one row and one column per class, 3 of them, got shape \(2, 2\)"),
        (np.zeros((3, 3)), "not all zero"),
        (-np.eye(3), "non-negative costs"),
        (np.full((3, 3), np.nan), "finite"),
    ],
)
def test_bad_losses_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        resolve_loss(loss, CLASSES)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda true, predicted: np.full(true.size, 1.5), r"must be in \[0, 1\], got 1.5"),
        (lambda true, predicted: np.full(true.size, -0.5), r"must be in \[0, 1\], got -0.5"),
        (lambda true, predicted: np.full(true.size, np.nan), r"must be in \[0, 1\], got nan"),
        (lambda true, predicted: 0.5, "one value per point"),
    ],
)
def test_a_function_that_leaves_the_unit_interval_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        resolve_loss(function, CLASSES).total(CODES, PREDICTED)


@pytest.mark.parametrize("total", ["total", "total_with_uncertain", "total_outside"])
def test_sums_over_blocks_are_exact_however_many_rows_there_are(total):
    """Each of 2^30 losses of a third has 30 bits before the point, and at most 23 after it."""
    loss = resolve_loss([[0, 1], [3, 0]], np.arange(2))
    codes, predicted = np.zeros(2**12, dtype=np.intp), np.ones(2**12, dtype=np.intp)
    more = {
        "total_with_uncertain": (np.zeros(2**12, dtype=bool),),
        "total_outside": (np.arange(0),),
    }
    block = getattr(loss, total)(codes, predicted, *more.get(total, ()), 2**30)
    one = Fraction(block) / 2**12
    assert 0 <= one - Fraction(1, 3) < Fraction(1, 2**22)
    large = float(one * (2**30 - 2**12))
    assert Fraction(large) == one * (2**30 - 2**12)
    assert Fraction(large + block) == one * 2**30
    # As ever, where there are few.
    assert loss.total(codes, predicted) == 2**12 * np.ceil(2**30 / 3) / 2**30
    assert loss.total(codes, predicted, 2**23) == loss.total(codes, predicted)
