"""A monitor: what it proves, in exact arithmetic and in streams, what it refuses, and what survives restarts."""

import importlib.util
import json
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes import Certificate, Monitor, PACBayesClassifier, certify
from pacbayes._json_fields import checksum
from pacbayes.bounds import clopper_pearson
from pacbayes.bounds.sequences import _BETS, LOG_STAKES
from pacbayes.certificate import with_test
from pacbayes.exceptions import MonitorError
from pacbayes.pools import RBFSVMPool

mp.mp.dps = 60


def load_benchmark():
    """Load benchmarks/monitor.py, under a name that no module has."""
    path = Path(__file__).parents[1] / "benchmarks" / "monitor.py"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("monitor_simulation", path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(path.parent))
    return module


SIMULATION = load_benchmark()


def certified(errors=25, n=500, *, labels=(), **settings):
    """A certificate from held-out points."""
    certificate, _ = certify([0.1, 0.2], n=100, **settings)
    certificate = certificate.revise(labels=labels, label_counts=(n,) * len(labels))
    return with_test(certificate, errors, n)


def feed(monitor, *batches):
    """Count batches of (errors, points)."""
    for errors, n in batches:
        monitor.update(np.zeros(n, dtype=int), np.arange(n) < errors)
    return monitor


def counted(*batches, certificate=None, **settings):
    return feed(Monitor(certified() if certificate is None else certificate, **settings), *batches)


# ---------------------------------------------------------------------------------------------------
# What it proves
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_votes", [1, 2])
@pytest.mark.parametrize("delta", [None, 0.01, 0.3])
def test_the_reference_is_the_certificate_at_half_of_delta(n_votes, delta):
    certificate = certified(n_votes=n_votes, delta=0.1)
    monitor = Monitor(certificate, 0.05, delta)
    level = (delta or 0.1) / 2 / n_votes
    assert monitor.reference == pytest.approx(clopper_pearson(25, 500, level), rel=1e-9)
    assert monitor.reference >= clopper_pearson(25, 500, level)
    assert 0 < monitor.threshold - monitor.reference - 0.05 < 1e-15
    assert monitor.delta == (delta or 0.1)


def exact_capital(threshold, batches):
    """What the bets have won after each batch, with stakes as they are in floats."""
    theta = mp.mpf(threshold)
    capital = [mp.mpf(0)] * _BETS.size
    for i, (errors, n) in enumerate(batches, start=1):
        stake = mp.mpf(0.5) if i == 1 else mp.mpf(1) / (2 * i * (i - 1))
        bets = [mp.mpf(bet) for bet in _BETS.tolist()]
        capital = [
            (won + stake) * (1 + c) ** errors / (1 + c * theta) ** n for won, c in zip(capital, bets, strict=True)
        ]
        yield mp.fsum(mp.exp(mp.mpf(s)) * won for s, won in zip(LOG_STAKES.tolist(), capital, strict=True))


BATCHES = st.lists(
    st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=8
)


@settings(max_examples=20, deadline=None)
@given(BATCHES, st.sampled_from([0.001, 0.05, 0.3, 0.9]))
def test_the_alarm_is_that_of_exact_arithmetic(batches, delta):
    monitor = counted(*batches, tolerance=0.05, delta=delta)
    won = list(exact_capital(monitor.threshold, batches))
    first = next((i for i, capital in enumerate(won) if capital >= 2 / mp.mpf(delta) * mp.mpf(1 + 1e-9)), None)
    expected = None if first is None else sum(n for _, n in batches[: first + 1])
    assert monitor.alarm_at == expected
    assert monitor.alarm == (expected is not None)


@settings(max_examples=15, deadline=None)
@given(BATCHES)
def test_invariants(batches):
    monitor = counted(*batches)
    lower, upper = monitor.interval
    errors, n = np.sum(batches, axis=0)
    assert (monitor.errors, monitor.n) == (errors, n)
    assert 0 <= lower <= errors / n <= upper <= 1
    if lower > monitor.threshold * (1 + 1e-9):  # the first stake alone has won enough
        assert monitor.alarm
    # What is tolerated is no alarm, and an alarm stays.
    assert not counted(*batches, tolerance=0.92).alarm
    assert feed(counted(*batches), (0, 1000)).alarm_at == monitor.alarm_at or not monitor.alarm
    assert str(counted(*batches)) == str(monitor)


def test_the_order_within_a_batch_does_not_matter():
    y = np.zeros(60, dtype=int)
    wrong = np.arange(60) < 20
    first = Monitor(certified()).update(y, wrong)
    assert first.update(y, wrong[::-1]).to_json() == counted((20, 60), (20, 60)).to_json()


def test_a_rise_after_a_long_good_time_is_found_soon():
    """After 20 good batches the mean of all points is far below the threshold; the last batches are far above."""
    monitor = counted(*[(5, 100)] * 20, tolerance=0.05)
    assert not monitor.alarm
    feed(monitor, *[(30, 100)] * 3)
    assert monitor.alarm
    assert monitor.alarm_at <= 2300
    assert monitor.interval[1] < monitor.threshold


def test_nothing_is_known_at_the_beginning():
    monitor = Monitor(certified())
    assert (monitor.alarm, monitor.interval, monitor.n, monitor.batches) == (False, (0.0, 1.0), 0, ())


# ---------------------------------------------------------------------------------------------------
# Streams: false alarms, and the broken control
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("n_reference", [500, 20_000])
def test_false_alarms(delta, n_reference):
    """A monitor that peeks at an interval for one look fails clearly where the reference is known well."""
    ours, peeked = SIMULATION.false_alarms(300, 400, n_reference, delta, seed=1)
    assert ours <= delta
    if n_reference > 500:
        assert peeked > 1.5 * delta


def test_the_simulation_is_what_monitors_do():
    rng = np.random.default_rng(0)
    points = rng.random((4, 150)) < 0.3
    threshold = SIMULATION.thresholds(np.array([20, 25, 25, 30]), 500, 0.05)
    for batch in (1, 40):
        found = SIMULATION.first_alarms(threshold, points, 0.05, batch=batch)
        for k, row, at in zip((20, 25, 25, 30), points, found, strict=True):
            monitor = Monitor(certified(k), 0.05)
            for begin in range(0, 150, batch):
                part = row[begin : begin + batch]
                monitor.update(np.zeros(part.size, dtype=int), part)
            assert monitor.alarm_at == (at if np.isfinite(at) else None)


def test_errors_that_come_and_go_within_what_is_allowed():
    """Points need not err with one probability: it may follow the past, as long as it is never too large."""
    rng = np.random.default_rng(0)
    threshold = np.full(300, 0.1)
    points = np.zeros((300, 500), dtype=bool)
    for t in range(500):
        recent = points[:, max(0, t - 20) : t].sum(axis=1)
        points[:, t] = rng.random(300) < np.where(recent > 2, 0.1, 0.02)
    assert np.isfinite(SIMULATION.first_alarms(threshold, points, 0.3)).mean() <= 0.15


def test_an_alarm_comes_soon_after_a_rise():
    """Fewer than a quarter of the 246 labels that MAPIE needs for an error of 0.3."""
    points = np.random.default_rng(0).random((200, 200)) < 0.3
    threshold = SIMULATION.thresholds(np.full(200, 25), 500, 0.05)
    assert np.median(SIMULATION.first_alarms(threshold, points, 0.05)) < 61


# ---------------------------------------------------------------------------------------------------
# States
# ---------------------------------------------------------------------------------------------------


def reseal(values):
    """JSON text of edited values with a checksum that fits: what a careful forger would write."""
    content = {name: value for name, value in values.items() if name != "checksum"}
    return json.dumps({**content, "checksum": checksum(content)})


@settings(max_examples=8, deadline=None)
@given(BATCHES, st.integers(0, 8))
def test_a_state_goes_on_as_if_nothing_had_happened(batches, stop):
    certificate = certified(labels=("0", "1"))
    through = counted(*batches, certificate=certificate, tolerance=0.02)
    monitor = counted(*batches[:stop], certificate=certificate, tolerance=0.02)
    again = feed(Monitor.from_json(monitor.to_json(), certificate), *batches[stop:])
    assert again.to_json() == through.to_json()
    assert (again.alarm_at, again.interval, str(again)) == (through.alarm_at, through.interval, str(through))


def test_states_that_were_edited():
    monitor = counted((30, 100), (5, 100))
    values = json.loads(monitor.to_json())
    edited = json.loads(monitor.to_json())
    edited["batches"][0]["errors"] = 3
    with pytest.raises(MonitorError, match="checksum does not match: the state of a monitor was changed"):
        Monitor.from_json(json.dumps(edited))
    edits = {
        "delta must be a number": {"delta": 1.5},
        "must be an object with the fields": {"alarm": False},
        r"batches\[0\].n must be a whole number": {"batches": [{"name": None, "n": 0, "errors": 0}]},
        "more errors than points": {"batches": [{"name": None, "n": 3, "errors": 4}]},
        "a batch is there twice": {"batches": [{"name": "a", "n": 3, "errors": 1}] * 2},
        "allow any error": {"tolerance": 1.0},
        "checksum does not match: the certificate was changed": {
            "certificate": {**values["certificate"], "delta": 0.2}
        },
    }
    for message, changes in edits.items():
        with pytest.raises(MonitorError, match=message) as caught:
            Monitor.from_json(reseal({**values, **changes}))
        assert "\n" not in str(caught.value)
    for text in ("", "[]", "{}", "null", '{"pacbayes_monitor": 2}', monitor.to_json()[:-40], certified().to_json()):
        with pytest.raises(MonitorError, match="not a state of a monitor"):
            Monitor.from_json(text)


def test_the_state_of_another_certificate():
    state = counted((3, 100)).to_json()
    assert Monitor.from_json(state, certified()).n == Monitor.from_json(state).n == 100
    with pytest.raises(MonitorError, match="the state belongs to another certificate"):
        Monitor.from_json(state, certified(24))


# ---------------------------------------------------------------------------------------------------
# What is refused: nothing is counted then
# ---------------------------------------------------------------------------------------------------

NAMED = ("cat", "dog")


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        (["cat", "cow"], ["cat", "dog"], "y_true must hold labels of the certificate, 'cat', 'dog', got 'cow'"),
        (["cat", "dog"], ["cat", "cow"], "y_pred must hold labels of the certificate, 'cat', 'dog', got 'cow'"),
        ([0, 1], [0, 1], "y_pred must hold labels of the certificate, 'cat', 'dog', got '0', '1'"),
        ([], [], "y_true must hold at least one label, got none"),
        (["cat"], ["cat", "dog"], "y_true and y_pred must be of one length, got 1 and 2"),
        ([], ["cat"], "y_true and y_pred must be of one length, got 0 and 1"),
        (["cat", None], ["cat", "dog"], "y_true must hold no missing labels, got 1 of 2"),
        (["cat", "dog"], [np.nan, np.nan], "y_pred must hold no missing labels, got 2 of 2"),
        (pd.Series(["cat", pd.NA], dtype="string"), ["cat", "dog"], "y_true must hold no missing labels, got 1 of 2"),
        (np.ma.array([0, 1], mask=[0, 1]), ["cat", "dog"], "y_true must hold no missing labels"),
        ([["cat", "dog"]], [["cat", "dog"]], "y_true must be one-dimensional"),
        ("cat", "dog", "y_true must be one-dimensional"),
    ],
)
def test_wrong_batches(y_true, y_pred, message):
    monitor = Monitor(certified(labels=NAMED)).update(["cat", "dog"], ["dog", "dog"], batch="first")
    before = monitor.to_json()
    with pytest.raises(ValueError, match=message) as caught:
        monitor.update(y_true, y_pred)
    assert "\n" not in str(caught.value)
    assert monitor.to_json() == before


def test_wrong_arguments_of_update():
    monitor = Monitor(certified(labels=NAMED)).update(["cat"], ["dog"], batch="monday")
    before = monitor.to_json()
    with pytest.raises(ValueError, match="the batch 'monday' was counted before: nothing is counted twice"):
        monitor.update(["cat"], ["dog"], batch="monday")
    with pytest.raises(ValueError, match="batch must be text of 1 to 200 characters"):
        monitor.update(["cat"], ["dog"], batch="")
    with pytest.raises(ValueError, match="unknown must be 'refuse' or 'error', got 'drop'"):
        monitor.update(["cat"], ["dog"], unknown="drop")
    with pytest.raises(TypeError, match="sample_weight"):
        monitor.update(["cat"], ["dog"], sample_weight=[2.0])
    assert monitor.to_json() == before
    assert monitor.update(["cow", "cat"], ["cat", "cat"], unknown="error").errors == 2
    with pytest.raises(ValueError, match="y_pred must hold labels"):
        monitor.update(["cow"], ["cow"], unknown="error")


def test_labels_as_files_and_tables_hold_them():
    monitor = Monitor(certified(labels=("0", "1")))
    for labels in ([0, 1], [0.0, 1.0], ["0", "1"], pd.Series([0, 1], dtype="category"), np.array([0, 1], dtype=object)):
        monitor.update(labels, np.array([0, 1]))
    assert (monitor.n, monitor.errors) == (10, 0)
    assert Monitor(certified(labels=("0.0", "1.0"))).update([0, 1], [0.0, 0.0]).errors == 1
    assert Monitor(certified(labels=("1", "1.0"))).update(["1", "1.0"], ["1", "1"]).errors == 1
    for truth in ([True, False], [1, 0], np.array(["True", "False"])):
        assert Monitor(certified(labels=("False", "True"))).update(truth, [True, True]).errors == 1
    assert Monitor(certified()).update([True, False], [1, 1]).errors == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.1,), "certificate must be a Certificate, got float"),
        ((certified(), -0.1), r"tolerance must be in \[0, 1\], got -0.1"),
        ((certified(), np.nan), r"tolerance must be in \[0, 1\], got nan"),
        ((certified(), 0.95), "the certificate's bound of 0.0730 and a tolerance of 0.95 allow any error"),
        ((certified(), 0, 0), r"delta must be in \(0, 1\)"),
        ((certified(500, 500),), "allow any error: there is nothing to watch"),
        ((certify([0.1], 100)[0],), "may fail with probability 0.05, and half of delta is 0.025: give delta=0.1, or"),
        ((certify([0.1], 100, loss="absolute")[0],), "a monitor counts errors, and the certificate is about the loss"),
    ],
)
def test_certificates_that_cannot_be_watched(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        Monitor(*arguments)
    assert "\n" not in str(caught.value)


def test_a_certificate_without_held_out_points_is_taken_as_it_is():
    certificate, _ = certify([0.01, 0.02], 1000)
    monitor = Monitor(certificate, delta=0.1)
    assert monitor.reference == certificate.bound < 1


def test_a_certificate_that_is_not_strict(moons):
    X, y, *_ = moons
    pool = RBFSVMPool(gamma_source="sample")
    model = PACBayesClassifier(pool, n_hypotheses=20, holdout=None, random_state=0).fit(X, y)
    assert not model.certificate_.strict
    with pytest.raises(ValueError, match="the theorem does not cover the certificate, which is not strict"):
        Monitor(model.certificate_, delta=0.2)


@pytest.fixture(scope="module")
def moons():
    from sklearn.datasets import make_moons

    return *make_moons(300, noise=0.2, random_state=0), *make_moons(300, noise=0.2, random_state=1)


def test_a_classifier_from_fit_to_alarm(moons):
    X, y, X_new, y_new = moons
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, random_state=0).fit(X, y)
    monitor = Monitor(model.certificate_, tolerance=0.05)
    assert not monitor.update(y_new, model.predict(X_new)).alarm
    assert monitor.update(1 - y_new, model.predict(X_new)).alarm
    assert Certificate.from_json(json.dumps(json.loads(monitor.to_json())["certificate"])) == model.certificate_
    assert repr(monitor).startswith("Monitor(n=600, errors=")
    assert str(monitor).splitlines()[3].startswith("ALARM, after 600 points: the error has risen above 0.")
