"""Calibrated probabilities, what held-out points prove about them, and errors that are declared beforehand."""

import json
import math
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.datasets import make_moons
from sklearn.metrics import brier_score_loss, log_loss

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._json_fields import checksum
from pacbayes.certificate import (
    Calibration,
    plan_thresholds,
    tabulate_probabilities,
    tabulate_thresholds,
    with_shares,
    with_test,
)
from pacbayes.certificate._probabilities import BIN_EDGES, LOSS_LEVELS
from pacbayes.certificate._thresholds import THRESHOLDS
from pacbayes.display import ReliabilityDisplay
from pacbayes.pools import RBFSVMPool
from pacbayes.tasks import calibrate

mpl.use("Agg")

X, Y = make_moons(600, noise=0.3, random_state=0)
LABELS = np.where(Y == 1, "yes", "no")
NEW_X, NEW_Y = make_moons(2000, noise=0.3, random_state=1)


def small(**parameters):
    given = {"estimator": RBFSVMPool(), "n_hypotheses": 20, "subsample_size": [8, 30], "random_state": 0}
    return PACBayesClassifier(**{**given, **parameters})


@pytest.fixture(scope="module")
def moons():
    return small(voting="uniform").fit(X, LABELS, max_error=0.12)


@st.composite
def votes(draw):
    """Labels, predictions, which of them are in doubt, shares and by how much they are in doubt; and a calibration."""
    n, classes, seed = draw(st.integers(1, 40)), draw(st.integers(2, 4)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 4, (n, classes)) + 0.1 if draw(st.booleans()) else rng.exponential(size=(n, classes)) ** 4
    shares /= shares.sum(axis=1, keepdims=True)
    doubt = 0.02 * rng.random(n) * (rng.random(n) < draw(st.sampled_from([0, 0.5])))
    calibration = Calibration(draw(st.sampled_from([0.3, 1.0, 4.0])), draw(st.sampled_from([0.0, 0.1])), 100)
    return (rng.integers(0, classes + 1, n), shares.argmax(axis=1), rng.random(n) < 0.1, shares, doubt), calibration


def certified(drawn, calibration=None, delta=0.05, n_votes=2, declared=None):
    counts = tabulate_thresholds(*drawn)
    certificate, _ = certify([0.1, 0.2], 100, delta=delta, n_votes=n_votes)
    tested = with_test(certificate, int(counts.answered[0, 0]), drawn[0].size)
    return with_shares(tested, counts, tabulate_probabilities(*drawn, calibration), declared)


# ---------------------------------------------------------------------------------------------------
# Calibration
# ---------------------------------------------------------------------------------------------------


@given(votes(), st.integers(0, 10**6))
def test_limits_hold_the_probabilities_of_any_engine(drawn, seed):
    (_, predicted, _, shares, doubt), calibration = drawn
    low, high = calibration.limits(shares, doubt + 1e-9)
    rng = np.random.default_rng(seed)
    points = np.arange(len(shares))
    for _ in range(5):
        moved = np.clip(shares + doubt[:, np.newaxis] * rng.uniform(-1, 1, shares.shape), 0, 1)
        found = calibration.apply(moved)
        assert (low - 1e-12 <= found).all()
        assert (found <= high + 1e-12).all()
        # So is the winner's probability, whoever wins there.
        winner = found.max(axis=1)
        assert (low[points, predicted] - 1e-12 <= winner).all()
        assert (winner <= high[points, predicted] + 1e-12).all()


@given(votes())
def test_probabilities_sum_to_one_and_keep_the_order(drawn):
    (_, predicted, _, shares, _), calibration = drawn
    found = calibration.apply(shares)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert np.array_equal(np.take_along_axis(found, np.argsort(shares, axis=1), axis=1), np.sort(found, axis=1))
    assert (found[np.arange(len(found)), predicted] == found.max(axis=1)).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_calibration_that_made_the_labels_is_found(power):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.7, 0.7, 0.7], 4000)
    truth = Calibration(power, 0.1, 0).apply(shares)
    codes = (rng.random((4000, 1)) > np.cumsum(truth, axis=1)).sum(axis=1)
    tallies = shares * rng.uniform(0.2, 1, (4000, 1))  # of voters that were not trained on a row
    found = calibrate(tallies, codes)
    assert found.power == pytest.approx(power, rel=0.2)
    assert found.mixing == pytest.approx(0.1, abs=0.07)
    assert found.n == 4000
    # The same for rows in another order, with shares of another rounding.
    assert calibrate(tallies[::-1] * (1 + 1e-14), codes[::-1]) == found


def test_rows_without_a_voter_do_not_count_and_few_rows_calibrate_nothing():
    rng = np.random.default_rng(0)
    tallies, codes = rng.dirichlet([1, 1], 500), rng.integers(0, 2, 500)
    alone = calibrate(tallies[:250], codes[:250])
    tallies[250:] = 0.0
    assert calibrate(tallies, codes) == alone
    assert calibrate(tallies[:19], codes[:19]) is None
    tallies[1:] *= 1e-9  # one row has all the weight
    assert calibrate(tallies, codes) is None


def test_probabilities_are_better_than_shares_and_predict_is_the_same(moons):
    shares, found = moons.predict_shares(NEW_X), moons.predict_proba(NEW_X)
    assert np.array_equal(moons.classes_[found.argmax(axis=1)], moons.predict(NEW_X))
    assert moons.certificate_.calibration.power != 1
    np.testing.assert_array_equal(found, moons.certificate_.calibration.apply(shares))
    assert log_loss(NEW_Y, found[:, 1]) < log_loss(NEW_Y, np.clip(shares[:, 1], 1e-6, 1 - 1e-6))
    assert brier_score_loss(NEW_Y, found[:, 1]) < brier_score_loss(NEW_Y, shares[:, 1])
    for method, expected in (("predict_proba", found), ("predict_shares", shares)):
        np.testing.assert_array_equal(np.concatenate(list(moons.predict_batches(NEW_X, method))), expected)


def test_without_held_out_rows_nothing_is_proved_about_calibrated_probabilities():
    model = small(holdout=None).fit(X, LABELS)
    certificate = model.certificate_
    assert certificate.calibration is not None
    assert certificate.probabilities is None
    assert model.verify_certificate(certificate, X, LABELS) == "arithmetic, model and data"
    tested = model.certify(NEW_X, np.where(NEW_Y == 1, "yes", "no"))
    assert tested.calibration == certificate.calibration
    assert brier_score_loss(NEW_Y, model.predict_proba(NEW_X)[:, 1]) <= tested.probabilities.measured + 1e-12


@pytest.mark.parametrize("voting", ["gibbs", "best"])
def test_only_a_vote_is_calibrated(voting):
    model = small(voting=voting).fit(X, LABELS)
    assert model.certificate_.calibration is None
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_shares(X))


# ---------------------------------------------------------------------------------------------------
# Counts and bounds
# ---------------------------------------------------------------------------------------------------


@given(votes())
def test_counts_are_those_of_a_loop_that_takes_the_worse_in_doubt(drawn):
    (codes, predicted, doubtful, shares, doubt), calibration = drawn
    counts = tabulate_probabilities(*drawn[0], calibration)
    low, high = calibration.limits(shares, doubt + 1e-9)
    found = calibration.apply(shares)
    losses, bins = np.zeros(257, dtype=int), np.zeros((8, 6), dtype=int)
    ends = [*BIN_EDGES[:-1], np.inf]
    for i, code in enumerate(codes):
        loss = sum(max(abs(low[i, c] - (c == code)), abs(high[i, c] - (c == code))) ** 2 for c in range(len(low[i])))
        loss = min(1.0, (loss + (code >= shares.shape[1])) / 2)
        losses[next(k for k in range(257) if LOSS_LEVELS[k] >= loss)] += 1
        wrong = doubtful[i] or predicted[i] != code
        may_be_right = not wrong or (
            code < shares.shape[1] and shares[i, code] >= shares[i].max() - 2 * (doubt[i] + 1e-9)
        )
        for k in range(8):
            inside = ends[k] <= found[i, predicted[i]] < ends[k + 1]
            surely = ends[k] <= low[i, predicted[i]] and high[i, predicted[i]] < ends[k + 1]
            maybe = low[i, predicted[i]] < ends[k + 1] and high[i, predicted[i]] >= ends[k]
            bins[k] += [
                inside,
                inside * round(found[i, predicted[i]] * 1e6),
                surely and not wrong,
                maybe and may_be_right,
                surely and not may_be_right,
                maybe and wrong,
            ]
    assert np.array_equal(counts.losses, losses)
    assert np.array_equal(counts.bins, bins)


@given(votes(), st.integers(1, 40))
def test_counts_add_up_over_blocks(drawn, cut):
    arrays, calibration = drawn
    parts = [tabulate_probabilities(*(a[part] for a in arrays), calibration) for part in (slice(cut), slice(cut, None))]
    whole = tabulate_probabilities(*arrays, calibration)
    assert all(np.array_equal(a + b, c) for a, b, c in zip(*parts, whole, strict=True))


def bet(values, level, m):
    """Whether a mixture of constant bets on values below their mean m multiplies its money by 1 / level."""
    bets = np.concatenate((np.geomspace(1e-4, 0.5, 12), 1 - np.geomspace(0.3, 1e-3, 6)))
    capital = [math.exp(sum(math.log(1 - c + c * (1 - x) / (1 - m)) for x in values)) for c in bets]
    return np.mean(capital) >= 1 / level


@settings(max_examples=12)
@given(votes(), st.sampled_from([1, 3]), st.floats(0.001, 0.5))
def test_bounds_are_those_of_betting_and_of_the_binomial(drawn, n_votes, delta):
    certificate = certified(*drawn, delta=delta, n_votes=n_votes)
    proved = certificate.probabilities
    values = np.repeat(LOSS_LEVELS, proved.losses)
    assert proved.measured == pytest.approx(values.mean())
    assert proved.bound == 1 or bet(values, delta / n_votes, proved.bound)
    assert not bet(values, delta / n_votes, proved.bound * (1 - 1e-6))  # no smaller one is refuted
    level = delta / (2 * 8 * n_votes)
    for one in proved.bins:
        right, wrong = one.right[0], one.wrong[1]
        low = 0.0 if right == 0 else beta.ppf(level, right, wrong + 1)
        right, wrong = one.right[1], one.wrong[0]
        high = 1.0 if wrong == 0 else beta.ppf(1 - level, right + 1, wrong)
        assert one.limits == pytest.approx((low, high), abs=1e-9)
    assert Certificate.from_json(certificate.to_json()) == certificate


# ---------------------------------------------------------------------------------------------------
# Declared errors
# ---------------------------------------------------------------------------------------------------


def test_thresholds_come_from_training_rows_in_falling_order():
    rng = np.random.default_rng(0)
    scores, weights = rng.uniform(0.5, 1, 2000), np.ones(2000)
    plan = plan_thresholds(scores, weights)
    thresholds, parts = map(np.array, zip(*plan, strict=True))
    assert (np.diff(thresholds) < 0).all()
    assert thresholds[-1] == 0
    assert np.isin(thresholds, THRESHOLDS).all()
    answered = [(scores >= t).mean() for t in thresholds]
    np.testing.assert_allclose(answered, np.arange(6, 21) / 20, atol=0.01)
    assert parts.sum() == 1
    assert [round(share, 1) for share, part in zip(answered, parts, strict=True) if part] == [0.4, 0.8]
    # A row that counts twice is like two rows.
    assert plan_thresholds(np.repeat(scores, 2), np.ones(4000)) == plan_thresholds(scores, 2 * weights)
    assert plan_thresholds(np.ones(5), np.ones(5)) == ((THRESHOLDS[-1], 1.0), (0.0, 0.0))


def test_a_proof_hands_on_its_part_of_delta():
    """Tests as by hand: with the part that begins, and what the test before had if it succeeded."""
    rng = np.random.default_rng(0)
    n = 2000
    winner = rng.uniform(0.5, 1, n)
    wrong = rng.random(n) < (1 - winner) * 0.4
    drawn = (wrong.astype(np.intp), np.zeros(n, dtype=np.intp), np.zeros(n, dtype=bool))
    drawn = (*drawn, np.stack([winner, 1 - winner], axis=1), np.zeros(n))
    plan = ((0.9505, 0.0), (0.9005, 0.5), (0.8005, 0.0), (0.7005, 0.5), (0.6005, 0.0), (0.0, 0.0))
    seen = set()
    for max_error in (0.012, 0.03, 0.05, 0.08, 0.11):
        declared = certified(drawn, declared=(max_error, plan)).declared
        part, expected = 0.0, []
        for threshold, begins in plan:
            part += begins
            if not part:
                continue
            answered = winner >= threshold
            errors = np.count_nonzero(wrong & answered)
            bound = beta.ppf(1 - 0.025 * part, errors + 1, np.count_nonzero(answered) - errors)
            expected.append((threshold, bound))
            part = part if bound <= max_error else 0.0
        assert [row.threshold for row in declared.tests] == [threshold for threshold, _ in expected]
        np.testing.assert_allclose([row.bound for row in declared.tests], [bound for _, bound in expected], rtol=1e-9)
        proved = [threshold for threshold, bound in expected if bound <= max_error]
        assert (declared.proved.threshold if proved else declared.proved) == (proved[-1] if proved else None)
        seen.add(declared.proved and declared.proved.threshold)
    assert len(seen) >= 3


def test_the_declared_error_is_what_is_answered_by_default(moons):
    certificate = moons.certificate_
    assert "max-error-declared" in certificate.assumption_codes
    row = certificate.declared.proved
    # The smaller bound of the threshold that was chosen is not proved, by what it was chosen.
    assert row.bound == certificate.choose_abstention().bound == 0.12
    assert min(one.bound for one in certificate.declared.tests) < 0.12
    labels, answered = moons.predict_selective(NEW_X)
    assert np.array_equal(answered, moons.predict_shares(NEW_X).max(axis=1) >= row.threshold)
    assert np.array_equal(moons.predict_selective(NEW_X, 0.12)[1], answered)
    assert (labels != np.where(NEW_Y == 1, "yes", "no"))[answered].mean() <= 0.12
    assert "12.00% that was declared beforehand is proved" in str(certificate)
    # Another error is that of the table, and new points prove nothing about the declared one.
    assert certificate.choose_abstention(0.3) in certificate.abstention
    again = moons.certify(NEW_X, np.where(NEW_Y == 1, "yes", "no"))
    assert again.declared is None
    assert "max-error-declared" not in again.assumption_codes


def test_declared_errors_that_cannot_be_are_refused_in_one_line():
    for bad in (0, 1, np.nan, "0.1"):
        with pytest.raises(ValueError, match=r"^max_error must be "):
            small().fit(X, Y, max_error=bad)
    for parameters in ({"holdout": None}, {"voting": "gibbs"}, {"voting": "best", "holdout": 0.5}):
        with pytest.raises(ValueError, match=r"^max_error needs held-out rows and a vote"):
            small(**parameters).fit(X, Y, max_error=0.1)
    model = small().fit(X, Y, max_error=0.001)
    with pytest.raises(ValueError, match=r"^an error of at most 0.001 was declared and is not proved: \d+ errors in"):
        model.predict_selective(X)
    assert "is not proved" in str(model.certificate_)
    with pytest.raises(ValueError, match=r"^max_error must be given: none was declared"):
        small().fit(X, Y).predict_selective(X)


# ---------------------------------------------------------------------------------------------------
# Files, verification and pictures
# ---------------------------------------------------------------------------------------------------


def edited(certificate, change):
    values = json.loads(certificate.to_json())
    del values["checksum"]
    change(values)
    return json.dumps({**values, "checksum": checksum(values)})


def bins(values):
    return next(one for one in values["probabilities"]["bins"] if one["n"] > 5)


FORGERIES = {
    "a smaller score": lambda v: v["probabilities"].update(bound=v["probabilities"]["bound"] * 0.999),
    "one loss less": lambda v: v["probabilities"]["losses"].__setitem__(0, v["probabilities"]["losses"][0] + 1),
    "too few levels": lambda v: v["probabilities"]["losses"].pop(),
    "narrower limits": lambda v: bins(v).update(limits=[bins(v)["limits"][0] + 1e-6, 1.0]),
    "other ends": lambda v: bins(v).update(low=0.55),
    "more right than points": lambda v: bins(v).update(right=[10**6, 10**6]),
    "a mean outside": lambda v: bins(v).update(mean=0.01),
    "a power of 0": lambda v: v["calibration"].update(power=0),
    "all uniform": lambda v: v["calibration"].update(mixing=1),
    "probabilities without thresholds": lambda v: (v.pop("abstention"), v.pop("prediction_sets")),
    "a part of delta that was not paid": lambda v: v["declared"]["tests"][0].update(kl_div=0.0),
    "a smaller bound": lambda v: v["declared"]["tests"][0].update(bound=1e-4),
    "rising thresholds": lambda v: v["declared"]["tests"].reverse(),
    "not said": lambda v: v["assumptions"].remove("max-error-declared"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_does_not_follow_is_refused(moons, forgery):
    assert len(moons.certificate_.declared.tests) > 1
    with pytest.raises(CertificateError, match=r"probabilities|calibration|declared|abstention"):
        Certificate.from_json(edited(moons.certificate_, FORGERIES[forgery]))


def test_probabilities_of_a_vote_by_expected_costs_are_refused(moons):
    """Bins are by the largest probability, which is not that of its predictions."""
    with pytest.raises(CertificateError, match="probabilities must be null where the vote predicts by expected costs"):
        moons.certificate_.with_assumption("expected-costs")


def test_more_of_delta_than_there_is_is_refused(moons):
    """Each test alone may have all of it, but not several that do not hand it on."""
    declared = moons.certificate_.declared
    all_of_it = moons.certificate_.statements[0].figures["kl_div"]
    failed = [replace(row, bound=1.0, kl_div=all_of_it) for row in declared.tests]
    with pytest.raises(CertificateError, match="of delta together, and must have at most 1"):
        moons.certificate_.revise(declared=replace(declared, tests=tuple(failed)))


def test_verification_recomputes_calibration_losses_and_tests(moons):
    certificate = moons.certificate_
    assert moons.verify_certificate(certificate, X, LABELS) == "arithmetic, model and data"
    loose = tuple(replace(row, bound=1.0) for row in certificate.declared.tests[:1])
    changes = {
        "calibration": replace(certificate.calibration, power=1.0),
        "probabilities": replace(certificate.probabilities, bound=1.0),
        "declared": replace(certificate.declared, tests=loose),
    }
    for name, value in changes.items():
        forged = certificate.revise(**{name: value})
        with pytest.raises(CertificateError, match=f"{name} is stated"):
            moons.verify_certificate(forged)
        # Also if the model says the same, its sample does not.
        votes = moons.fitted_votes_
        certificates = [forged if k == votes.winner else vote.certificate for k, vote in enumerate(votes.votes)]
        other = PACBayesClassifier.from_fitted_votes(votes.with_certificates(certificates))
        with pytest.raises(CertificateError, match=f"{name} is stated"):
            other.verify_certificate(forged, X, LABELS)


def test_certificates_from_before_are_read_and_verified(moons):
    votes = moons.fitted_votes_
    codes = tuple(code for code in moons.certificate_.assumption_codes if code != "max-error-declared")
    earlier = [
        replace(v.certificate, declared=None, calibration=None, probabilities=None, assumption_codes=codes)
        for v in votes.votes
    ]
    model = PACBayesClassifier.from_fitted_votes(votes.with_certificates(earlier))
    text = model.certificate_.to_json()
    assert not {"declared", "calibration", "probabilities"} & set(json.loads(text))
    assert Certificate.from_json(text) == model.certificate_
    assert model.verify_certificate(model.certificate_, X, LABELS) == "arithmetic, model and data"
    np.testing.assert_array_equal(model.predict_proba(X), moons.predict_shares(X))


def test_the_picture_shows_bins_with_points(moons):
    certificate = moons.certificate_
    display = ReliabilityDisplay.from_certificate(Certificate.from_json(certificate.to_json()))
    shown = [one for one in certificate.probabilities.bins if one.n]
    np.testing.assert_array_equal(display.mean, [one.mean for one in shown])
    np.testing.assert_array_equal(display.measured_.get_ydata(), [one.measured for one in shown])
    assert len(display.limits_.get_segments()) == len(shown)
    assert display.bound == certificate.probabilities.bound
    with pytest.raises(ValueError, match="certificate must have `probabilities`"):
        ReliabilityDisplay.from_certificate(certificate.without_test())
    with pytest.raises(TypeError, match="certificate must be a Certificate"):
        ReliabilityDisplay.from_certificate(moons)
