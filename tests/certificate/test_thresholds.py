"""What held-out points prove at thresholds on shares of the vote: counts, bounds, promises, checks and predictions."""

import json
import math
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from heldout_simulation import DELTAS, STATEMENTS, WORLDS, simulate, simulate_broken
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._json_fields import checksum
from pacbayes.certificate import (
    ThresholdCounts,
    tabulate_thresholds,
    with_shares,
    with_test,
)
from pacbayes.certificate._thresholds import SET_THRESHOLDS, THRESHOLDS
from pacbayes.display import AbstentionDisplay
from pacbayes.pools import RBFSVMPool

mpl.use("Agg")

X, Y = make_moons(400, noise=0.3, random_state=0)
NEW_X, NEW_Y = make_moons(600, noise=0.3, random_state=1)


def small(**parameters):
    return PACBayesClassifier(
        **{"estimator": RBFSVMPool(), "n_hypotheses": 20, "subsample_size": [8, 30], "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def moons():
    return small().fit(X, np.where(Y == 1, "yes", "no"))


def upper(errors, n, level):
    """Clopper-Pearson's bound by SciPy's quantiles."""
    return 1.0 if errors >= n else float(beta.ppf(1 - level, errors + 1, n - errors))


@st.composite
def votes(draw):
    """Labels, predictions, which of them are in doubt, shares and by how much they are in doubt."""
    n, classes, seed = draw(st.integers(1, 40)), draw(st.integers(2, 4)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    # Few values, so that many shares are equal, or many.
    shares = rng.integers(0, 4, (n, classes)) + 0.1 if draw(st.booleans()) else rng.exponential(size=(n, classes)) ** 4
    shares /= shares.sum(axis=1, keepdims=True)
    doubt = 0.02 * rng.random(n) * (rng.random(n) < draw(st.sampled_from([0, 0.5])))
    return rng.integers(0, classes + 1, n), shares.argmax(axis=1), rng.random(n) < 0.1, shares, doubt


def certified(counts, delta=0.05, n_votes=2):
    certificate, _ = certify([0.1, 0.2], 100, delta=delta, n_votes=n_votes)
    errors, n = int(counts.answered[0, 0]), int(counts.answered[0, 3])
    return with_shares(with_test(certificate, errors, n), counts)


# ---------------------------------------------------------------------------------------------------
# Counts and bounds
# ---------------------------------------------------------------------------------------------------


@given(votes())
def test_counts_are_those_of_a_loop_that_takes_the_worse_in_doubt(drawn):
    codes, predicted, doubtful, shares, doubt = drawn
    counts = tabulate_thresholds(*drawn)
    n = codes.size
    for k in [0, *np.random.default_rng(0).integers(1, THRESHOLDS.size, 10)]:
        errors = right = surely = maybe = 0
        for i in range(n):
            share, margin = shares[i, predicted[i]], doubt[i] + 1e-9
            wrong = predicted[i] != codes[i] or doubtful[i]
            surely += THRESHOLDS[k] == 0 or share - margin >= THRESHOLDS[k]
            maybe += share + margin >= THRESHOLDS[k]
            errors += wrong and share + margin >= THRESHOLDS[k]
            right += not wrong and (THRESHOLDS[k] == 0 or share - margin >= THRESHOLDS[k])
        assert counts.answered[k].tolist() == [errors, right, surely, maybe]
    for k in [0, *np.random.default_rng(1).integers(1, SET_THRESHOLDS.size, 10)]:
        misses = size = 0
        for i in range(n):
            has = {c for c in range(shares.shape[1]) if shares[i, c] >= SET_THRESHOLDS[k]} | {predicted[i]}
            size += len(has)
            surely = codes[i] < shares.shape[1] and shares[i, codes[i]] - doubt[i] - 1e-9 >= SET_THRESHOLDS[k]
            misses += not surely and (predicted[i] != codes[i] or doubtful[i])
        assert counts.sets[k].tolist() == [misses, size]


@given(votes(), st.integers(1, 40))
def test_counts_add_up_over_blocks(drawn, cut):
    parts = [tabulate_thresholds(*(array[part] for array in drawn)) for part in (slice(cut), slice(cut, None))]
    whole = tabulate_thresholds(*drawn)
    assert np.array_equal(parts[0].answered + parts[1].answered, whole.answered)
    assert np.array_equal(parts[0].sets + parts[1].sets, whole.sets)


@given(votes(), st.sampled_from([1, 3]), st.floats(0.001, 0.5))
def test_bounds_are_those_of_the_binomial_with_delta_divided(drawn, n_votes, delta):
    certificate = certified(tabulate_thresholds(*drawn), delta, n_votes)
    n = drawn[0].size
    for row in certificate.abstention:
        assert row.bound == pytest.approx(upper(row.errors, row.n, delta / (8 * n_votes)), rel=1e-9)
        assert row.bound >= upper(row.errors, row.n, delta / (8 * n_votes)) * (1 - 1e-9)
        deviation = math.sqrt(math.log(2 * n_votes / delta) / (2 * n)) if row.threshold else 0.0
        assert row.share[0] == pytest.approx(max(0, row.answered[0] / n - deviation), abs=1e-12)
        assert row.share[1] == pytest.approx(min(1, row.answered[1] / n + deviation), abs=1e-12)
    assert Certificate.from_json(certificate.to_json()) == certificate


@settings(max_examples=15)
@given(votes())
def test_thresholds_are_found_from_below(drawn):
    """What is answered has no say in where a threshold is: neither the labels nor the scores above it."""
    codes, predicted, doubtful, shares, doubt = drawn
    rows = certified(tabulate_thresholds(*drawn)).abstention
    relabelled = certified(tabulate_thresholds((codes + 1) % 2, predicted, doubtful, shares, doubt)).abstention
    assert [row.threshold for row in rows] == [row.threshold for row in relabelled]
    winner = shares[np.arange(codes.size), predicted]
    for row in rows:
        raised = shares.copy()
        above = np.flatnonzero(winner + doubt + 1e-9 >= row.threshold)
        raised[above] = np.eye(shares.shape[1])[predicted[above]]
        again = certified(tabulate_thresholds(codes, predicted, doubtful, raised, doubt)).abstention
        assert row.threshold in [one.threshold for one in again]


def test_as_many_points_are_answered_as_thresholds_are_made_for():
    rng = np.random.default_rng(0)
    winner = rng.uniform(0.5, 1, 1000)
    shares = np.stack([winner, 1 - winner], axis=1)
    zeros = np.zeros(1000, dtype=np.intp)
    rows = certified(tabulate_thresholds(zeros, zeros, zeros.astype(bool), shares, np.zeros(1000))).abstention
    assert [row.n / 1000 for row in rows] == pytest.approx([1, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3], abs=0.005)
    sure = tabulate_thresholds(zeros, zeros, zeros.astype(bool), np.eye(2)[zeros], np.zeros(1000))
    assert [row.threshold for row in certified(sure).abstention] == [0.0]  # no threshold leaves some out


@given(votes(), st.floats(0.3, 0.99))
def test_sets_have_the_largest_threshold_that_proves_the_coverage(drawn, coverage):
    counts = tabulate_thresholds(*drawn)
    certificate, n = certified(counts), drawn[0].size
    proved = [upper(int(misses), n, 0.025) for misses in counts.sets[:, 0]]
    enough = [k for k, bound in enumerate(proved) if bound <= 1 - coverage]
    if not enough:
        with pytest.raises(ValueError, match=r"^coverage (must|of) "):
            certificate.choose_sets(coverage)
        return
    found = certificate.choose_sets(coverage)
    assert found.threshold == SET_THRESHOLDS[enough[0]]
    assert (found.misses, found.n) == (counts.sets[enough[0], 0], n)
    assert found.mean_size == counts.sets[enough[0], 1] / n


# ---------------------------------------------------------------------------------------------------
# The promise
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "n_votes", "repetitions"),
    [
        *[(world, 2, 10) for world in WORLDS[::2]],
        *[pytest.param(world, k, 120, marks=pytest.mark.slow) for world in WORLDS for k in (1, 2)],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_statements_fail_at_most_as_often_as_delta(world, n_votes, repetitions):
    """The long version is `python tests/heldout_simulation.py 10000`."""
    for delta in DELTAS:
        failures = simulate(world, n_votes, delta, repetitions)
        for name in STATEMENTS:
            assert failures[name] <= binom.ppf(0.999, repetitions, delta), name


def test_the_simulation_sees_what_is_not_proved():
    """None of the broken controls keeps the promise."""
    found = simulate_broken(WORLDS[0], 0.3, 50)
    for name in ("error", "bins", "declared"):
        assert found[name] > binom.ppf(0.999, 50, 0.3)
    found = simulate_broken(WORLDS[1], 0.05, 50)
    for name in ("sets", "brier"):
        assert found[name] > binom.ppf(0.999, 50, 0.05)


# ---------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------


def edited(certificate, change):
    """The JSON of a certificate after a change, with the right checksum."""
    values = json.loads(certificate.to_json())
    del values["checksum"]
    change(values)
    return json.dumps({**values, "checksum": checksum(values)})


FORGERIES = {
    "a smaller bound": lambda v: v["abstention"][1].update(bound=v["abstention"][1]["bound"] * 0.99),
    "a larger share": lambda v: v["abstention"][1].update(share=[0.99, 1.0]),
    "fewer errors": lambda v: v["abstention"][0].update(errors=v["abstention"][0]["errors"] - 1),
    "a price that was not paid": lambda v: v["abstention"][1].update(kl_div=0.0),
    "another order": lambda v: v["abstention"].reverse(),
    "more points than before": lambda v: v["abstention"][2].update(n=10**6, answered=[10**6, 10**6]),
    "more points than are answered": lambda v: v["abstention"][1].update(n=v["abstention"][1]["answered"][1] + 1),
    "without all points": lambda v: v["abstention"].pop(0),
    "without sets": lambda v: v.pop("prediction_sets"),
    "without rows": lambda v: v.pop("abstention"),
    "misses that do not fall": lambda v: v["prediction_sets"][1].update(misses=v["prediction_sets"][0]["misses"]),
    "other winners": lambda v: v["prediction_sets"][0].update(misses=0),
    "a negative count": lambda v: v["prediction_sets"][0].update(size=-1),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_does_not_follow_is_refused(moons, forgery):
    text = edited(moons.certificate_, FORGERIES[forgery])
    with pytest.raises(CertificateError, match=r"abstention|prediction_sets"):
        Certificate.from_json(text)


def test_certificates_without_thresholds_are_read_and_said(moons):
    before = moons.certificate_.without_test()
    text = before.to_json()
    assert "abstention" not in json.loads(text)
    assert Certificate.from_json(text) == before
    with pytest.raises(CertificateError, match="confusion is stated"):
        moons.verify_certificate(before)
    with pytest.raises(ValueError, match="rest on held-out points and a vote"):
        before.choose_abstention(0.5)


def test_verification_recomputes_thresholds(moons):
    certificate, labels = moons.certificate_, np.where(Y == 1, "yes", "no")
    assert moons.verify_certificate(certificate, X, labels) == "arithmetic, model and data"
    # A looser bound follows from its counts, and is not what the fit states.
    looser = replace(certificate.abstention[1], bound=1.0)
    other = certificate.revise(abstention=(certificate.abstention[0], looser, *certificate.abstention[2:]))
    with pytest.raises(CertificateError, match="abstention is stated"):
        moons.verify_certificate(other)


def test_bounds_of_a_fit_do_not_depend_on_thresholds(moons):
    """Recorded certificates change by the added part alone."""
    certificate = moons.certificate_
    values, earlier = (
        json.loads(one.to_json()) for one in (certificate, replace(certificate, abstention=(), prediction_sets=()))
    )
    assert {name for name in values if name not in earlier} == {"abstention", "prediction_sets"}
    assert all(values[name] == earlier[name] for name in earlier if name != "checksum")


# ---------------------------------------------------------------------------------------------------
# Predictions
# ---------------------------------------------------------------------------------------------------


def test_answers_are_those_with_a_large_share(moons):
    rows = moons.certificate_.abstention
    row = next(row for row in rows[1:] if row.bound < rows[0].bound)
    labels, answered = moons.predict_selective(NEW_X, row.bound)
    assert np.array_equal(labels, moons.predict(NEW_X))
    first = next(one for one in rows if one.bound <= row.bound)
    assert np.array_equal(answered, moons.predict_shares(NEW_X).max(axis=1) >= first.threshold)
    assert moons.predict_selective(NEW_X, 0.99)[1].all()
    wrong = labels != np.where(NEW_Y == 1, "yes", "no")
    assert wrong[answered].mean() <= row.bound


def test_sets_hold_the_winner_and_large_shares():
    X, y = load_iris(return_X_y=True)
    model = small().fit(X, y)
    for coverage in (0.5, 0.8):
        sets, shares = model.predict_set(X, coverage), model.predict_shares(X)
        threshold = model.certificate_.choose_sets(coverage).threshold
        assert np.array_equal(sets, (shares >= threshold) | (np.eye(3)[model.predict(X)] == 1))
    with pytest.raises(
        ValueError, match=r"^coverage of 0.999 needs at least \d+ held-out points .* and there are \d+$"
    ):
        model.predict_set(X, 0.999)


def test_levels_that_are_not_proved_are_refused(moons):
    best = min(row.bound for row in moons.certificate_.abstention)
    with pytest.raises(ValueError, match=f"^max_error must be at least {re.escape(repr(best))}"):
        moons.predict_selective(NEW_X, best / 2)
    for bad in (0, 1, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"^max_error must be in \(0, 1\)"):
            moons.predict_selective(NEW_X, bad)
        with pytest.raises(ValueError, match=r"^coverage must be in \(0, 1\)"):
            moons.predict_set(NEW_X, bad)
    with pytest.raises(NotFittedError):
        small().predict_selective(NEW_X, 0.1)
    missed = moons.certify(NEW_X, np.full(len(NEW_X), 7))  # a class that no set can hold
    for level in (0.5, 1e-17):
        with pytest.raises(ValueError, match=r"^coverage must be at most 0\.0000, which is what"):
            missed.choose_sets(level)
    some = moons.certify(NEW_X, np.where(np.arange(len(NEW_X)) % 3 == 0, "other", np.where(NEW_Y == 1, "yes", "no")))
    with pytest.raises(ValueError, match="coverage must be at most") as refused:
        some.choose_sets(0.9)
    most = float(re.search(r"at most ([\d.]+),", str(refused.value))[1])
    assert some.choose_sets(most).coverage == most  # rounded down, it is proved


@pytest.mark.parametrize(
    "parameters", [{"holdout": None}, {"voting": "gibbs"}, {"voting": "best", "holdout": 0.5}], ids=str
)
def test_without_a_tested_vote_nothing_is_answered(parameters):
    model = small(**parameters).fit(X, Y)
    assert model.certificate_.abstention == model.certificate_.prediction_sets == ()
    for predict in (lambda: model.predict_selective(X, 0.1), lambda: model.predict_set(X)):
        with pytest.raises(ValueError, match="rest on held-out points and a vote"):
            predict()
    if parameters == {"holdout": None}:  # new points test the vote
        assert model.certify(NEW_X, NEW_Y).abstention[0].n == 600


def test_new_points_prove_the_same_kind_of_table(moons):
    labels = np.where(NEW_Y == 1, "yes", "no")
    labels[:5] = "unknown"
    certificate = moons.certify(NEW_X, labels)
    first = certificate.abstention[0]
    assert (first.n, first.errors) == (600, np.count_nonzero(moons.predict(NEW_X) != labels))
    assert first.bound == pytest.approx(upper(first.errors, 600, 0.05 / 8))
    # Whatever the set, it does not hold a class that the vote does not know.
    assert certificate.prediction_sets[-1].misses >= 5
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert moons.certify(NEW_X).abstention == ()


def test_text_and_plot_show_what_is_proved(moons):
    certificate = moons.certificate_
    table = certificate.abstention_table()
    assert f"\n{table.title}\n" in str(certificate)
    assert [row[-1] for row in table.rows] == [
        f"{math.ceil(row.bound * 1e4) / 100:.2f}%" for row in certificate.abstention
    ]
    assert certificate.set_table().title in certificate._repr_html_()
    display = AbstentionDisplay.from_certificate(certificate)
    assert display.proved_.get_ydata().tolist() == [row.bound for row in certificate.abstention]
    with pytest.raises(ValueError, match="must have `abstention`"):
        AbstentionDisplay.from_certificate(certificate.without_test())
    with pytest.raises(TypeError, match="must be a Certificate"):
        AbstentionDisplay.from_certificate(moons)


def test_counts_of_another_shape_are_not_taken():
    counts = ThresholdCounts(np.zeros((THRESHOLDS.size, 4), dtype=np.int64), np.zeros((97, 2), dtype=np.int64))
    certificate = with_test(certify([0.1], 100)[0], 3, 50)
    with pytest.raises(CertificateError, match=r"abstention\[0\] must be about all 50 held-out points"):
        with_shares(certificate, counts)
