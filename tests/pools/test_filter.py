"""The filter in single precision against the exact engine: it may leave points undecided, but never decide wrongly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes.pools import _engine


def random_ensemble(rng, d, *, scaled, log_gamma, log_weight, n_machines=6, n_support=17):
    """Machines of two classes that share some of their support vectors."""
    n_points, positive = 40 + n_support, n_support // 2
    points = rng.normal(size=(n_points, d))
    support = np.concatenate([rng.choice(n_points, n_support, replace=False) for _ in range(n_machines)])
    counts = np.tile([positive, n_support - positive], n_machines)
    signs = np.repeat([1, -1], [positive, n_support - positive])
    coefficients = rng.uniform(0, 1, n_machines * n_support) * np.tile(signs, n_machines)
    arrays = (
        np.full(n_machines, 2, dtype=np.int32),
        np.tile([0, 1], n_machines).astype(np.int32),
        counts.astype(np.int32),
        support.astype(np.int32),
        coefficients * 10.0**log_weight,
        rng.normal(size=n_machines) * 10.0**log_weight / 10,
        10.0 ** (log_gamma + rng.uniform(-1, 1, n_machines)) / d,
    )
    factors = rng.uniform(0.1, 10, (n_machines, d)) if scaled else None
    return points, arrays, factors


def evaluate(X, points, arrays, factors):
    """Exact decision values and margins, and the filter's values and bounds."""
    ensemble = _engine.Ensemble(*arrays, factors)
    shape = (arrays[0].size, X.shape[0])
    exact, margins = np.empty(shape), np.empty(shape[0])
    for h in range(shape[0]):  # one machine at a time
        parts = [np.split(array, shape[0])[h].copy() for array in arrays]
        alone = _engine.Ensemble(*parts, None if factors is None else factors[[h]])
        _engine.decide(X, points, alone, exact[h : h + 1])
    _engine.margins(ensemble, X.shape[1], margins)
    values, errors = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
    _engine.filter(X, points, ensemble, values, errors)
    return ensemble, exact, margins[:, None], values, errors


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 15, 16, 17, 40, 70, 130]),
    n_support=st.sampled_from([2, 15, 16, 17, 32, 33, 300]),
    scaled=st.booleans(),
    log_gamma=st.floats(-12, 6),
    log_weight=st.floats(-20, 20),
    log_size=st.floats(-15, 15),
    log_offset=st.floats(-5, 12),
    n=st.integers(1, 200),
)
def test_the_filter_never_decides_what_the_exact_engine_does_not(
    seed, d, n_support, scaled, log_gamma, log_weight, log_size, log_offset, n
):
    rng = np.random.default_rng(seed)
    kind = {"scaled": scaled, "log_gamma": log_gamma, "log_weight": log_weight, "n_support": n_support}
    points, arrays, factors = random_ensemble(rng, d, **kind)
    offset = rng.normal(size=d) * 10.0**log_offset
    queries = rng.normal(size=(n, d)) * 10.0 ** rng.choice([0, 0, 0, 3], (n, 1))
    queries[rng.random(n) < 0.2] = points[0]  # on a support vector
    X, points = (queries + offset) * 10.0**log_size, (points + offset) * 10.0**log_size
    arrays = (*arrays[:-1], arrays[-1] * 10.0 ** (-2 * log_size))
    ensemble, exact, margins, values, errors = evaluate(X, points, arrays, factors)
    known = np.abs(values) > errors
    assert np.all(np.sign(values[known]) == np.sign(exact[known]))
    assert np.all((np.abs(exact) > margins)[known])
    finite = np.isfinite(errors)
    assert np.all(np.abs(values[finite].astype(np.float64) - exact[finite]) <= errors[finite])
    # The votes are those of the exact engine, whether distances are shared (much memory) or not.
    for memory in (2**28, 0):
        votes, certain = np.empty(exact.shape, dtype=np.uint16), np.empty(exact.shape, dtype=np.uint8)
        _engine.vote(X, points, ensemble, memory, votes, certain)
        assert np.array_equal(votes, (exact <= 0).astype(np.uint16))
        assert np.array_equal(certain.astype(bool), np.abs(exact) > margins)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_numbers=st.integers(0, 20),
    n_categories=st.integers(0, 6),
    log_gamma=st.floats(-6, 2),
    log_size=st.floats(-10, 10),
    log_offset=st.floats(-3, 9),
    n_codes=st.sampled_from([2, 5, 300, 2**25]),
)
def test_tables_are_filtered_as_the_exact_engine_votes(
    seed, n_numbers, n_categories, log_gamma, log_size, log_offset, n_codes
):
    rng = np.random.default_rng(seed)
    d, n, n_machines = n_numbers + 1 + n_categories, 150, 6
    _, arrays, _ = random_ensemble(rng, d, scaled=False, log_gamma=log_gamma, log_weight=1.0, n_machines=n_machines)

    def rows(count):
        numbers = (rng.normal(size=(count, n_numbers)) + 10.0**log_offset) * 10.0**log_size
        numbers[rng.random(numbers.shape) < 0.1] = np.nan
        indicator = rng.integers(0, 2, (count, 1)).astype(float)
        return np.hstack([numbers, indicator, rng.integers(0, n_codes, (count, n_categories)).astype(float)])

    X, points = rows(n), rows(57)
    factors = np.ones((n_machines, d))
    factors[:, :n_numbers] = rng.uniform(0.1, 10, (n_machines, n_numbers)) * 10.0**-log_size
    fill = (rng.normal(size=(n_machines, n_numbers)) + 10.0**log_offset) * 10.0**log_size
    ensemble = _engine.Ensemble(*arrays, factors, fill, n_categories)
    exact, margins = np.empty((n_machines, n)), np.empty(n_machines)
    for h in range(n_machines):
        parts = [np.split(array, n_machines)[h].copy() for array in arrays]
        alone = _engine.Ensemble(*parts, factors[[h]], fill[[h]], n_categories)
        _engine.decide(X, points, alone, exact[h : h + 1])
    _engine.margins(ensemble, d, margins)
    votes, certain = np.empty(exact.shape, dtype=np.uint16), np.empty(exact.shape, dtype=np.uint8)
    _engine.vote(X, points, ensemble, 2**28, votes, certain)
    assert np.array_equal(votes, (exact <= 0).astype(np.uint16))
    assert np.array_equal(certain.astype(bool), np.abs(exact) > margins[:, None])
    values, errors = np.empty(exact.shape, dtype=np.float32), np.empty(exact.shape, dtype=np.float32)
    _engine.filter(X, points, ensemble, values, errors)
    finite = np.isfinite(errors)
    assert np.all(np.abs(values[finite].astype(np.float64) - exact[finite]) <= errors[finite])


@pytest.mark.parametrize("scaled", [False, True])
def test_the_filter_decides_nearly_all_of_ordinary_points(scaled):
    rng = np.random.default_rng(0)
    points, arrays, factors = random_ensemble(rng, 20, scaled=scaled, log_gamma=-1.0, log_weight=1.0)
    _, _, _, values, errors = evaluate(rng.normal(size=(500, 20)), points, arrays, factors)
    assert np.mean(np.abs(values) > errors) > 0.99


@pytest.mark.parametrize("scaled", [False, True])
def test_bounds_do_not_grow_with_the_number_of_support_vectors(scaled):
    """Sums are computed in runs, and runs are added up with what rounding takes away."""
    rng = np.random.default_rng(0)
    relative = []
    for n_support in (16, 1600):
        kind = {"scaled": scaled, "log_gamma": -2.0, "log_weight": 2.0, "n_support": n_support, "n_machines": 1}
        points, arrays, factors = random_ensemble(rng, 20, **kind)
        X = rng.normal(size=(100, 20))
        _, _, _, _, errors = evaluate(X, points, arrays, factors)
        scale = 1.0 if factors is None else factors[0]
        squared = np.square(X[:, None] * scale - points[arrays[3]] * scale).sum(axis=2)
        total = np.exp(-arrays[6] * squared) @ np.abs(arrays[4]) + np.abs(arrays[5])
        relative.append(np.median(errors / total))
    assert relative[1] < 2 * relative[0]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e300, 1e20])
def test_rows_beyond_single_precision_are_left_to_the_exact_engine(bad):
    rng = np.random.default_rng(1)
    points, arrays, _ = random_ensemble(rng, 3, scaled=False, log_gamma=-1.0, log_weight=0.0)
    X = rng.normal(size=(70, 3))
    X[5, 1] = bad
    ensemble, exact, margins, values, errors = evaluate(X, points, arrays, None)
    assert not np.any(np.abs(values[:, 5]) > errors[:, 5])
    for memory in (2**28, 0):
        votes, certain = np.empty(exact.shape, dtype=np.uint16), np.empty(exact.shape, dtype=np.uint8)
        _engine.vote(X, points, ensemble, memory, votes, certain)
        assert np.array_equal(votes, ~(exact > 0))
        assert np.array_equal(certain.astype(bool), np.abs(exact) > margins)
