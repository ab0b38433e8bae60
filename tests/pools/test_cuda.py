"""The CUDA engine: on a device where there is one, and by an emulation of CuPy on the CPU everywhere."""

import pickle
import shutil
import sys
import threading
import weakref

import emulated_cupy
import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sweeps import sweep

from pacbayes import PACBayesClassifier
from pacbayes.exceptions import DeviceError
from pacbayes.fitting import _racing as racing_rule
from pacbayes.fitting import _training as training
from pacbayes.io import load_model, save_model
from pacbayes.pools import RBFSVMPool, Sample, _cuda, _device, _engine, _rbf_svm

ARRAYS = ("n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma")
NO_DEVICE = _device.explain_absence()


def forget():
    """Forget what is known of devices, and what was compiled for them."""
    _device.explain_absence.cache_clear()
    _device._module.cache_clear()
    _device._streams.cache_clear()


@pytest.fixture(params=["emulated", "device"])
def cupy(request):
    """CuPy, or a stand-in that runs the CUDA source on the CPU."""
    if request.param == "device":
        if NO_DEVICE is not None:
            pytest.skip(f"needs a CUDA device: {NO_DEVICE}")
        import cupy

        forget()
        return cupy
    return request.getfixturevalue("emulated")


@pytest.fixture
def emulated(monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("the emulation needs g++")
    monkeypatch.setitem(sys.modules, "cupy", emulated_cupy)
    monkeypatch.setattr(emulated_cupy, "memory", type(emulated_cupy.memory)(**vars(emulated_cupy.memory)))
    forget()
    yield emulated_cupy
    forget()


def problem(seed, n, d, m, r, n_classes=2, dtype=np.float64, offset=0.0):
    """Rows on different scales, noisy classes, subsamples, widths and soft margins."""
    rng = np.random.default_rng(seed)
    X = np.ascontiguousarray(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d) + offset, dtype=dtype)
    noisy = (X - X.mean(axis=0)).sum(axis=1) + rng.normal(size=n)
    codes = np.searchsorted(np.quantile(noisy, np.arange(1, n_classes) / n_classes), noisy).astype(np.int32)
    parts = [np.sort(rng.choice(n, int(rng.integers(1, r + 1)), replace=False)) for _ in range(m)]
    rows, sizes = np.concatenate(parts).astype(np.int32), np.array([part.size for part in parts], dtype=np.int64)
    return X, codes, rows, sizes, rng.choice([0.001, 0.1, 1.0, 10.0, 1e4], m), rng.choice([1.0, 1000.0], m)


def trained_by_both(X, codes, rows, sizes, multipliers, C, scaler, n_classes):
    arguments = (codes, rows, sizes, np.nan, multipliers, C, scaler, 1e-3, 10**6)
    machines = _cuda.train(_device.DeviceRows.of(X), *arguments, n_classes)
    return _engine.train(X, *arguments), machines


def votes_of(host, X, points, scale):
    ensemble = _engine.Ensemble(*(host[name] for name in ARRAYS), scale)
    votes = np.empty((len(host["gamma"]), len(X)), dtype=np.uint16)
    certain = np.empty(votes.shape, dtype=np.uint8)
    _engine.vote(X, points, ensemble, 2**28, votes, certain)
    return votes, certain == 0


# ---------------------------------------------------------------------------------------------------
# The same bits on both engines
# ---------------------------------------------------------------------------------------------------

CASES = {
    "plain": (0, 200, 10, 6, 20, 2, np.float64, 0.0, None),
    "scaled": (1, 150, 9, 5, 20, 2, np.float32, 0.0, "standard"),
    "far from zero": (2, 130, 3, 5, 15, 2, np.float64, 1e7, "minmax"),
    "single precision for some": (5, 130, 6, 8, 20, 2, np.float64, 30.0, None),
    "many features": (3, 70, 60, 3, 12, 2, np.float32, 0.0, None),
    "more features than are kept": (5, 70, 70, 2, 30, 2, np.float64, 0.0, "minmax"),
    "three classes": (4, 100, 5, 4, 20, 3, np.float64, 0.0, "standard"),
    "larger than a warp's": (10, 210, 4, 1, 200, 2, np.float64, 0.0, None),
}


# Emulated, each takes seconds.
SLOW_CASES = set(CASES) - {"three classes"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(CASES[name], id=name, marks=[pytest.mark.slow] * (name in SLOW_CASES)) for name in CASES],
)
def test_both_engines_give_the_same_bits(cupy, case):
    *numbers, scaler = case
    X, codes, rows, sizes, multipliers, C = problem(*numbers)
    n, d, m, n_classes = numbers[1], numbers[2], numbers[3], numbers[5]
    host, machines = trained_by_both(X, codes, rows, sizes, multipliers, C, scaler, n_classes)
    result = machines.to_host()
    for name in (*ARRAYS, "converged", *(["scale"] if scaler else [])):
        np.testing.assert_array_equal(result[name], host[name], err_msg=name)

    scale = host["scale"].reshape(m, d) if scaler else None
    points = X.astype(np.float64)
    votes, uncertain = votes_of(host, X, points, scale)
    copied = _cuda.DeviceMachines.of(*(host[name] for name in ARRAYS), scale, points)
    for found, expected in zip(copied.vote(X), (votes, uncertain), strict=True):
        np.testing.assert_array_equal(found, expected)

    mistakes = np.empty(m, dtype=np.int64)
    ensemble = _engine.Ensemble(*(host[name] for name in ARRAYS), scale)
    _engine.count_mistakes(X, codes, 0, points, ensemble, rows, sizes, 2**28, mistakes)
    np.testing.assert_array_equal(copied.start_counting(X, codes, rows, sizes)(), mistakes)
    device, truth, inside = _device.DeviceRows.of(X), cupy.asarray(codes), cupy.asarray(rows)
    at = cupy.asarray(np.concatenate(([0], np.cumsum(sizes))))
    blocks = [machines.count_mistakes(device, truth, at, inside, first=a, stop=b) for a, b in ((0, 40), (40, n))]
    np.testing.assert_array_equal(sum(block.get() for block in blocks), mistakes)
    unfiltered = machines.count_mistakes(device, truth, at, inside, use_filter=False)
    np.testing.assert_array_equal(unfiltered.get(), mistakes)
    some = np.array([m - 1, 0], dtype=np.int32)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    counted = machines.start_counting(X, codes, np.concatenate([parts[h] for h in some]), sizes[some], some)()
    np.testing.assert_array_equal(counted, mistakes[some])


def test_ties_are_broken_alike(cupy):
    # On a grid, and with kernels so narrow that all points are alike, many working sets are equally good.
    rng = np.random.default_rng(0)
    X, codes = rng.integers(0, 3, (90, 3)).astype(float), rng.integers(0, 2, 90, dtype=np.int32)
    sizes = np.array([25, 70])  # points of a thread are 32 apart
    rows = np.concatenate([np.sort(rng.choice(90, size, replace=False)) for size in sizes]).astype(np.int32)
    host, machines = trained_by_both(X, codes, rows, sizes, np.array([1.0, 1e8]), np.full(2, 10.0), None, 2)
    result = machines.to_host()
    for name in (*ARRAYS, "converged"):
        np.testing.assert_array_equal(result[name], host[name], err_msg=name)


@pytest.mark.parametrize(
    ("enough", "turns"),
    sweep([(1, 1), (1, 32), (20, 2), (1 << 20, 1)], quick=[1]),
)
def test_any_division_of_the_work_gives_the_same_counts(cupy, monkeypatch, enough, turns):
    X, codes, rows, sizes, multipliers, C = problem(11, 1300, 6, 3, 90)
    host, machines = trained_by_both(X, codes, rows, sizes, multipliers, C, None, 2)
    mistakes = np.empty(3, dtype=np.int64)
    ensemble = _engine.Ensemble(*(host[name] for name in ARRAYS), None)
    _engine.count_mistakes(X, codes, 0, X, ensemble, rows, sizes, 2**28, mistakes)
    monkeypatch.setattr(_cuda, "_ENOUGH", enough)
    monkeypatch.setattr(_cuda, "_TURNS", turns)
    device, truth, inside = _device.DeviceRows.of(X), cupy.asarray(codes), cupy.asarray(rows)
    at = cupy.asarray(np.concatenate(([0], np.cumsum(sizes))))
    for use_filter in (True, False):
        counted = machines.count_mistakes(device, truth, at, inside, use_filter=use_filter)
        np.testing.assert_array_equal(counted.get(), mistakes)


def test_the_filter_decides_most_rows_and_never_wrongly(cupy):
    X, codes, rows, sizes, multipliers, C = problem(7, 320, 12, 8, 25)
    multipliers[:] = np.array([0.001, 0.1, 1.0, 1.0] * 2)
    host, machines = trained_by_both(X, codes, rows, sizes, multipliers, C, None, 2)
    device, everyone = _device.DeviceRows.of(X), np.arange(8, dtype=np.int32)
    ((_, _, packed),) = machines._parts(device, None, range(320), everyone, True)
    votes, certain = cupy.empty((8, 320), dtype=np.uint16), cupy.empty((8, 320), dtype=np.uint8)
    sink = {"votes": votes, "certain": certain}
    masks = packed.filter_rows(sink).get()
    rows_of_bits = np.arange(32) % 4 * 16 + np.arange(32) // 4
    marked = np.zeros((8, 320), dtype=bool)
    for word in range(masks.shape[1]):
        at = 64 * (word // 2) + 8 * (word % 2) + rows_of_bits
        marked[:, at] = (masks[:, word, np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1
    expected, uncertain = votes_of(host, X, X, None)
    sure = ~marked
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(votes.get()[sure], expected[sure])
    assert not uncertain[sure].any()


def test_without_tensor_cores_everything_is_in_double_precision(emulated):
    emulated.memory.capability = "70"
    X, codes, rows, sizes, multipliers, C = problem(8, 100, 5, 3, 15)
    host, machines = trained_by_both(X, codes, rows, sizes, multipliers, C, None, 2)
    np.testing.assert_array_equal(machines.vote(X)[0], votes_of(host, X, X, None)[0])
    assert "filter" not in compiled_modules()


def compiled_modules():
    """Source files of what was compiled: the cache knows how many, and asking again must add none."""
    before = _device._module.cache_info().currsize
    asked = ["exact", "train"]
    for name in asked:
        _device._module(0, name, 0)
    assert _device._module.cache_info().currsize == before
    return asked


@pytest.mark.parametrize("gamma_source", ["subsample", pytest.param("reserved", marks=pytest.mark.slow)])
def test_the_classifier_is_the_same_on_both_engines(emulated, monkeypatch, gamma_source):
    monkeypatch.setattr(training, "_DEVICE_ROWS", 30)  # several blocks
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=90) > 0, "a", "b")
    fits = {}
    for engine, points in (("cpu", X), ("cuda", emulated.asarray(X))):
        pool = RBFSVMPool(engine=engine, scaler=(None, "standard"), C=10.0, gamma_source=gamma_source)
        fits[engine] = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=8, random_state=0).fit(points, y)
    cpu, cuda = fits["cpu"], fits["cuda"]
    np.testing.assert_array_equal(cuda.losses_, cpu.losses_)
    np.testing.assert_array_equal(cuda.posterior_, cpu.posterior_)
    assert cuda.certificate_.bound == cpu.certificate_.bound
    np.testing.assert_array_equal(cuda.predict(emulated.asarray(X)), cpu.predict(X))
    assert cuda.verify_certificate(cuda.certificate_, X, y) == "arithmetic, model and data"
    assert cuda.hypotheses_.fingerprint() is not None


def test_votes_are_trained_ahead_and_certified_in_a_thread_on_the_device_of_the_caller(emulated):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=90) > 0).astype(int)
    pool = RBFSVMPool(engine="cuda", scaler=None, C=10.0)
    model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=8, holdout=[0.2, 0.3, 0.4], random_state=0)
    emulated.cuda.Device(1).use()
    emulated.launches.clear()
    try:
        model.fit(X, y)
    finally:
        emulated.cuda.Device(0).use()
    assert {device for _, device, _ in emulated.launches} == {1}
    assert len({thread for _, _, thread in emulated.launches}) > 1
    assert not any(vote.hypotheses in _rbf_svm._ON_DEVICE for vote in model.votes_)
    # Those of the second and third vote begin before the first and second one are validated.
    names = [name for name, _, thread in emulated.launches if thread == threading.get_ident()]
    steps = [name for name in names if name in ("train", "filter_rows")]
    assert steps[:2] == ["train", "train"]
    assert steps.count("train") == 3
    assert steps.index("filter_rows") < len(steps) - 1 - steps[::-1].index("train") < len(steps) - 1


@pytest.mark.slow  # emulated, each takes ten seconds
@pytest.mark.parametrize("racing", [True, "training"])
def test_the_race_is_the_same_on_both_engines(emulated, monkeypatch, racing):
    monkeypatch.setattr(training, "_DEVICE_ROWS", 100)  # several blocks in a round
    monkeypatch.setattr(racing_rule, "_LEAST_ROWS", 500)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(520, 2))
    y = (X[:, 0] > 0).astype(int)
    sizes = [2, 6, 12] if racing is True else [6, 12, 24]
    fits = {}
    for engine, points in (("cpu", X), ("cuda", emulated.asarray(X))):
        settings = {"n_hypotheses": 18, "subsample_size": sizes, "holdout": None, "racing": racing, "random_state": 0}
        pool = RBFSVMPool(engine=engine, scaler=(None, "standard"), C=10.0, gamma_grid=(0.01, 1.0, 100.0))
        fits[engine] = PACBayesClassifier(pool, **settings).fit(points, y)
    cpu, cuda = fits["cpu"], fits["cuda"]
    assert np.isnan(cuda.losses_).any()
    assert racing is True or not cuda.n_validation_.all()
    np.testing.assert_array_equal(cuda.losses_, cpu.losses_)
    np.testing.assert_array_equal(cuda.n_validation_, cpu.n_validation_)
    np.testing.assert_array_equal(cuda.posterior_, cpu.posterior_)
    np.testing.assert_array_equal(cuda.predict(emulated.asarray(X)), cpu.predict(X))
    assert cuda.verify_certificate(cuda.certificate_, X, y) == "arithmetic, model and data"
    assert cuda.certificate_.bound == cpu.certificate_.bound


def test_a_sample_is_copied_to_the_device_once_and_forgotten_with_its_copy(emulated):
    X, codes, rows = np.arange(12.0).reshape(6, 2), np.zeros(6, dtype=np.intp), np.array([1, 4])
    sample = Sample(X, codes, np.array([0, 1]))
    before = dict(vars(sample))
    copy = sample.on_device
    assert sample.on_device is copy
    assert vars(sample) == before
    some = sample.take(rows)
    np.testing.assert_array_equal(some.on_device.values.get(), X[rows])
    np.testing.assert_array_equal(some.on_device.centre, copy.centre)  # that of all rows, which is good enough
    given = emulated.asarray(X)
    assert Sample(X, codes, np.array([0, 1])).keep_on_device(given).on_device.values.ctypes.data == given.ctypes.data
    alive = weakref.ref(copy)
    del sample, copy
    assert alive() is None


def test_tables_are_left_to_the_processor(emulated):
    """A device has no kernels for categories and gaps: fits and predictions are those of the processor."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=90), "city": rng.choice(["Oslo", "Rome"], 90)})
    table.loc[:8, "x"] = np.nan
    y = (table["city"] == "Rome").astype(int)
    settings = {"n_hypotheses": 4, "subsample_size": 8, "random_state": 0}
    cpu, cuda = (PACBayesClassifier(RBFSVMPool(engine=name), **settings).fit(table, y) for name in ("cpu", "cuda"))
    np.testing.assert_array_equal(cuda.losses_, cpu.losses_)
    np.testing.assert_array_equal(cuda.predict(table), cpu.predict(table))
    assert cuda.verify_certificate(cuda.certificate_, table, y) == "arithmetic, model and data"
    assert _device._module.cache_info().currsize == 0
    emulated.memory.devices = 0
    _device.explain_absence.cache_clear()
    with pytest.raises(DeviceError, match="CuPy finds no CUDA device"):
        PACBayesClassifier(RBFSVMPool(engine="cuda"), **settings).fit(table, y)


def test_a_model_of_a_device_predicts_and_is_verified_without_one(emulated, monkeypatch, tmp_path):
    pytest.importorskip("skops")
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = fit("cuda", X)
    expected = model.predict(X)
    hypotheses = model.hypotheses_.votes_and_uncertain(X)[0]
    save_model(model, tmp_path / "model.skops")
    monkeypatch.setitem(sys.modules, "cupy", None)
    forget()
    for again in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.skops")[0]):
        np.testing.assert_array_equal(again.predict(X), expected)
        np.testing.assert_array_equal(again.hypotheses_.votes_and_uncertain(X)[0], hypotheses)
        assert again.verify_certificate(model.certificate_, X, np.arange(60) % 2) == "arithmetic, model and data"


# ---------------------------------------------------------------------------------------------------
# The margin within which decision values may have either sign
# ---------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 30),
    s=st.integers(1, 12),
    spread=st.floats(-6, 6),
    gamma=st.floats(-4, 4),
)
def test_margins_bound_the_error_of_decision_values_in_exact_arithmetic(seed, d, s, spread, gamma):
    rng = np.random.default_rng(seed)
    points, queries = (rng.normal(size=(n, d)) * 10.0**spread for n in (2 * s, 3))
    coefficients = np.concatenate([rng.random(s), -rng.random(s)]) * 10.0 ** rng.uniform(-3, 3)
    intercept, gamma = float(rng.normal()), 10.0 ** (gamma - 2 * spread)
    host = {
        "n_classes": np.array([2], dtype=np.int32),
        "classes": np.array([0, 1], dtype=np.int32),
        "counts": np.array([s, s], dtype=np.int32),
        "support": np.arange(2 * s, dtype=np.int32),
        "coefficients": coefficients,
        "intercepts": np.array([intercept]),
        "gamma": np.array([gamma]),
    }
    ensemble = _engine.Ensemble(*host.values(), None)
    values, margin = np.empty((1, 3)), np.empty(1)
    _engine.decide(queries, points, ensemble, values)
    _engine.margins(ensemble, d, margin)
    with mpmath.workdps(60):
        for query, value in zip(queries, values[0], strict=True):
            exact = mpmath.mpf(intercept)
            for point, coefficient in zip(points, coefficients, strict=True):
                # Differences are rounded by every engine alike.
                squared = sum(mpmath.mpf(float(difference)) ** 2 for difference in point - query)
                exact += mpmath.mpf(float(coefficient)) * mpmath.exp(-mpmath.mpf(gamma) * squared)
            # One engine is at most half of the margin off, and another one as much.
            assert abs(mpmath.mpf(float(value)) - exact) <= margin[0] / 2
    total = abs(intercept) + np.abs(coefficients).sum()
    assert 0 < margin[0] <= 1e-12 * (d + s) * total


def test_a_vote_within_its_margin_is_a_mistake_whatever_the_label():
    """Two support vectors with opposite coefficients: on the line between them the decision value is zero."""
    points = np.array([[-1.0, 0.0], [1.0, 0.0]])
    host = {
        "n_classes": np.array([2], dtype=np.int32),
        "classes": np.array([0, 1], dtype=np.int32),
        "counts": np.array([1, 1], dtype=np.int32),
        "support": np.array([0, 1], dtype=np.int32),
        "coefficients": np.array([1.0, -1.0]),
        "intercepts": np.array([0.0]),
        "gamma": np.array([0.5]),
    }
    X = np.array([[0.0, 3.0], [1e-17, 1.0], [-1e-3, 2.0], [1e-3, 2.0]])
    votes, uncertain = votes_of(host, X, points, None)
    assert uncertain.tolist() == [[True, True, False, False]]
    assert votes[0, 2:].tolist() == [0, 1]
    ensemble = _engine.Ensemble(*host.values(), None)
    for codes, expected in (([0, 0, 0, 1], 2), ([1, 1, 0, 1], 2), ([0, 1, 1, 1], 3)):
        mistakes = np.empty(1, dtype=np.int64)
        arguments = (X, np.array(codes, dtype=np.int32), 0, points, ensemble)
        none, empty = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)
        _engine.count_mistakes(*arguments, empty, none, 2**28, mistakes)
        assert mistakes[0] == expected


def test_of_several_classes_a_vote_is_uncertain_only_if_an_open_pair_could_change_the_winner():
    """Decision values are the intercepts: pairs (0, 1), (0, 2), (1, 2), some of them zero."""
    X = np.zeros((1, 1))
    for intercepts, vote, is_open in (
        ([1.0, 1.0, 0.0], 0, False),  # 0 wins both of its pairs, whoever wins the third
        ([1.0, 0.0, 1.0], 0, False),  # 0 wins twice, or all of them once
        ([-1.0, 0.0, -1.0], 2, True),  # 2 wins twice, or all of them once
        ([-1.0, 0.0, 1.0], 1, False),
        ([0.0, -1.0, -1.0], 2, False),
        ([1.0, -1.0, 1.0], 0, False),  # a tie of all three is broken alike by every engine
    ):
        host = {
            "n_classes": np.array([3], dtype=np.int32),
            "classes": np.array([0, 1, 2], dtype=np.int32),
            "counts": np.array([0, 0, 0], dtype=np.int32),
            "support": np.empty(0, dtype=np.int32),
            "coefficients": np.empty(0),
            "intercepts": np.array(intercepts),
            "gamma": np.array([1.0]),
        }
        votes, uncertain = votes_of(host, X, np.zeros((1, 1)), None)
        assert (votes[0, 0], uncertain[0, 0]) == (vote, is_open), intercepts


def test_uncertain_voters_make_a_vote_uncertain_only_if_they_have_the_weight():
    from pacbayes.pools import Hypotheses
    from pacbayes.tasks._voting import vote

    class Voters(Hypotheses):
        classes = np.array([0, 1])
        get_one = start_loss_totals = concatenate = fingerprint = None

        def __init__(self, votes, uncertain):
            self._votes, self._uncertain = np.array(votes), np.array(uncertain, dtype=bool)

        def __len__(self):
            return len(self._votes)

        def votes_and_uncertain(self, X):
            return self._votes, self._uncertain

        def take(self, chosen):
            return Voters(self._votes[chosen], self._uncertain[chosen])

    votes = [[0, 0, 0, 0], [1, 0, 1, 1], [1, 1, 0, 1]]
    uncertain = [[0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    voters, weights = Voters(votes, uncertain), np.array([0.5, 0.3, 0.2])
    codes, is_uncertain = vote(voters, weights, np.zeros((4, 1)))
    assert codes.tolist() == [0, 0, 0, 0]
    # A tie that the last voter breaks; 0.8 against it; the first voter alone decides; a tie that all engines break
    # alike.
    assert is_uncertain.tolist() == [True, False, True, False]


# ---------------------------------------------------------------------------------------------------
# What a user sees where something is missing
# ---------------------------------------------------------------------------------------------------


def fit(engine, X=None, **kwargs):
    X = np.random.default_rng(0).normal(size=(60, 2)) if X is None else X
    y = np.arange(60) % 2
    pool = RBFSVMPool(engine=engine, C=1.0, scaler=None)
    return PACBayesClassifier(pool, n_hypotheses=3, subsample_size=5, random_state=0, **kwargs).fit(X, y)


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    forget()
    with pytest.raises(
        DeviceError, match=r"engine='cuda' needs a CUDA device: CuPy cannot be imported.*pacbayes\[cuda12\]"
    ):
        fit("cuda")
    assert fit("auto").certificate_.bound <= 1
    forget()


def test_without_a_device(emulated):
    emulated.memory.devices = 0
    with pytest.raises(DeviceError, match="CuPy finds no CUDA device"):
        fit("cuda")
    assert fit("auto").certificate_.bound <= 1


@pytest.mark.slow
def test_with_a_device_too_small_for_the_rows(emulated):
    X, codes, rows, sizes, multipliers, C = problem(9, 4000, 40, 2, 10)
    arguments = (codes, rows, sizes, np.nan, multipliers, C, None, 1e-3, 10**6)
    host = _engine.train(X, *arguments)
    machines = _cuda.DeviceMachines.of(*(host[name] for name in ARRAYS), None, X)
    mistakes = machines.start_counting(X, codes, rows, sizes)()
    # Small parts, then none at all.
    emulated.memory.free = 1 << 18
    np.testing.assert_array_equal(machines.start_counting(X, codes, rows, sizes)(), mistakes)
    emulated.memory.free = 1 << 8
    with pytest.raises(DeviceError, match=r"the device has too little memory left.*engine='cpu'"):
        machines.start_counting(X, codes, rows, sizes)()


def test_what_did_not_fit_is_given_up_before_less_is_asked_for(emulated):
    held, left = [], []

    def compute(shrink):
        left.append(sum(array() is not None for array in held))
        array = emulated.empty(8)
        held.append(weakref.ref(array))
        if shrink < 16:
            raise emulated.cuda.memory.OutOfMemoryError
        return shrink

    assert _device.with_less_memory(compute) == 16
    assert left == [0, 0, 0]


def test_with_a_device_too_small_for_a_subsample(emulated):
    X, codes, rows, sizes, multipliers, C = problem(10, 100, 3, 1, 90)
    emulated.memory.free = 1 << 10
    with pytest.raises(DeviceError, match=r"a subsample of \d+ points needs .* MiB.*subsample_size"):
        trained_by_both(X, codes, rows, sizes, multipliers, C, None, 2)


def test_a_small_problem_stays_on_the_cpu(emulated, monkeypatch):
    monkeypatch.setattr(_cuda, "train", None)  # a call would fail
    assert fit("auto").certificate_.bound <= 1
    X = np.zeros((1, 2))
    assert not _device.is_worthwhile("auto", X, 2, 1e9)
    assert _device.is_worthwhile("auto", X, 2, 1e11)
    assert not _device.is_worthwhile("cuda", X, 17, 1e11)
    assert not _device.is_worthwhile("cpu", X, 2, 1e11)


def test_sparse_rows_of_many_features_stay_on_the_cpu(emulated):
    X = sparse.random_array((60, 400), density=0.02, random_state=0, format="csr")
    on_cpu, asked = fit("cpu", X), fit("cuda", X)
    np.testing.assert_array_equal(on_cpu.losses_, asked.losses_)


def test_the_engine_must_be_known():
    with pytest.raises(ValueError, match="engine must be"):
        fit("gpu")


@pytest.mark.parametrize("features", [1, 40, 48, 300])
def test_the_source_compiles(features):
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="needs CuPy, for its compiler")
    options = (*_device.options(FEATURES=features, THREADS=128), "--gpu-architecture=compute_80")
    for name in ("exact", "train", "filter"):
        program = nvrtc.createProgram(_device.source(name), "source.cu", (), ())
        nvrtc.compileProgram(program, options)
        assert ("mma.sync" in nvrtc.getPTX(program).decode()) == (name == "filter")
        nvrtc.destroyProgram(program)
