"""Racing against validating everyone: the same losses, bounds and labels; and certificates that stay true."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, PACBayesClassifier
from pacbayes.bounds import direct_bound, pac_bayes_dual
from pacbayes.bounds.prior import restrict_prior
from pacbayes.certificate import certify
from pacbayes.certificate._statements import least_direct_bound
from pacbayes.datasets import waveform
from pacbayes.exceptions import CertificateError, HypothesisError
from pacbayes.fitting._racing import DropRule, round_ends
from pacbayes.pools import EstimatorPool, RBFSVMPool
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.sampling import GivenSubsamples, RandomSubsamples, validation_order

TREES = EstimatorPool(DecisionTreeClassifier(), param_distributions={"max_depth": [1, 2, 3, 8]})
SVMS = RBFSVMPool(scaler=None)


@pytest.fixture(scope="module")
def waves():
    data = waveform(4000, random_state=0)
    return data.X / 4, data.y


def fit(X, y, pool=SVMS, **parameters):
    defaults = {"n_hypotheses": 60, "subsample_size": 41, "holdout": None, "random_state": 0}
    return PACBayesClassifier(pool, **{**defaults, **parameters}).fit(X, y)


@pytest.fixture(scope="module")
def pair(waves):
    return fit(*waves), fit(*waves, racing=False)


# ---------------------------------------------------------------------------------------------------
# Racing against not racing
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["lambda", "kl", "dual", "direct"])
@pytest.mark.parametrize("voting", ["majority", "gibbs", "best"])
def test_racing_changes_neither_bounds_nor_weights(waves, objective, voting):
    raced = fit(*waves, objective=objective, voting=voting)
    everyone = fit(*waves, objective=objective, voting=voting, racing=False)
    dropped = np.isnan(raced.losses_)
    assert 0 < dropped.sum() < dropped.size
    np.testing.assert_array_equal(raced.losses_[~dropped], everyone.losses_[~dropped])
    assert everyone.posterior_[dropped].sum() < 1e-9
    assert not raced.posterior_[dropped].any()
    # Of the direct bound's constraint, those that were dropped may leave a fiftieth of their prior mass.
    close = {"rtol": 1e-3} if objective == "direct" else {"atol": 1e-8}
    np.testing.assert_allclose(raced.posterior_, everyone.posterior_, **{"atol": 1e-6, **close})
    for mine, other in zip(raced.certificate_.statements, everyone.certificate_.statements, strict=True):
        assert mine.bound == pytest.approx(other.bound, abs=1e-6)
    if voting != "gibbs":
        np.testing.assert_array_equal(raced.predict(waves[0]), everyone.predict(waves[0]))


def test_losses_of_probabilities_race_too(waves):
    X, y = waves
    raced, everyone = (fit(X, y, TREES, loss="brier", racing=racing) for racing in (True, False))
    dropped = np.isnan(raced.losses_)
    np.testing.assert_array_equal(raced.losses_[~dropped], everyone.losses_[~dropped])
    assert raced.certificate_.gibbs_bound == pytest.approx(everyone.certificate_.gibbs_bound, abs=1e-6)


def test_estimators_race(waves):
    raced, everyone = (fit(*waves, TREES, subsample_size=[3, 300], racing=racing) for racing in (True, False))
    dropped = np.isnan(raced.losses_)
    assert dropped.any()
    assert everyone.posterior_[dropped].sum() < 1e-9
    np.testing.assert_array_equal(raced.predict(waves[0]), everyone.predict(waves[0]))


@pytest.mark.parametrize("parameters", [{"n_jobs": 2}, {"rows": 100}, {"rows": 1000, "n_jobs": 2}])
@pytest.mark.parametrize(("pool", "racing"), [(SVMS, True), (SVMS, "training"), (TREES, True)])
def test_the_race_does_not_depend_on_workers_or_blocks(waves, parameters, pool, racing, set_block_rows):
    X, y = waves[0][:1500], waves[1][:1500]
    sizes = {"subsample_size": [20, 60, 200], "n_hypotheses": 45, "racing": racing}
    first = fit(X, y, pool, **sizes)
    set_block_rows(parameters.get("rows", 65536))
    second = fit(X, y, pool, **sizes, n_jobs=parameters.get("n_jobs"))
    np.testing.assert_array_equal(first.losses_, second.losses_)
    np.testing.assert_array_equal(first.n_validation_, second.n_validation_)
    np.testing.assert_array_equal(first.posterior_, second.posterior_)
    assert first.certificate_ == second.certificate_


def test_dropped_hypotheses_say_on_how_many_points_they_were_seen(pair):
    raced, everyone = pair
    dropped = np.isnan(raced.losses_)
    full = raced.subsamples_.n_validation
    np.testing.assert_array_equal(everyone.n_validation_, full)
    np.testing.assert_array_equal(raced.n_validation_[~dropped], full[~dropped])
    assert (raced.n_validation_[dropped] < full[dropped]).all()
    # Counted by brute force: the rows of the rounds that are not in the subsample.
    order = validation_order(raced.subsamples_.n, 0)
    possible = [order[:end] for end in round_ends(order.size, 60 * 41)]
    for h in np.flatnonzero(dropped):
        assert raced.n_validation_[h] in [np.setdiff1d(rows, raced.subsamples_[h]).size for rows in possible]


def test_the_certificate_says_who_was_dropped(pair):
    raced, everyone = pair
    certificate = raced.certificate_
    assert certificate.n_dropped == np.isnan(raced.losses_).sum()
    assert f"{certificate.n_dropped} hypotheses, which have no weight" in str(certificate)
    assert "Dropped" not in str(everyone.certificate_)
    if certificate.minimum_over < certificate.n_hypotheses:
        assert f"over the {certificate.minimum_over} hypotheses validated in full" in str(certificate)
    assert Certificate.from_json(certificate.to_json()) == certificate


# ---------------------------------------------------------------------------------------------------
# Kinds that are not trained
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ladder(waves):
    X, y = waves[0][:600], waves[1][:600]
    sizes = {"n_hypotheses": 135, "subsample_size": [30, 60, 240]}
    return X, y, fit(X, y, RBFSVMPool(), **sizes, racing="training")


def test_kinds_that_lose_are_not_trained_on_larger_subsamples(ladder):
    X, y, model = ladder
    untrained = model.n_validation_ == 0
    assert untrained.any()
    assert not untrained[model.subsamples_.sizes == 30].any()
    h = int(np.flatnonzero(untrained)[0])
    assert "not trained" in model.hypotheses_.describe(h)
    with pytest.raises(HypothesisError, match="racing=False"):
        model.hypotheses_[h].predict(X)
    with pytest.raises(HypothesisError, match="racing=False"):
        model.predict_hypotheses(X)
    trained = np.flatnonzero(~untrained)
    assert model.hypotheses_.take(trained).votes(X).shape == (trained.size, y.size)
    assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"
    assert model.score(X, y) > 0.8


def test_all_kinds_are_trained_unless_asked_otherwise(ladder):
    X, y, _ = ladder
    model = fit(X, y, RBFSVMPool(), n_hypotheses=135, subsample_size=[30, 60, 240])
    assert (model.n_validation_ > 0).all()
    everyone = fit(X, y, RBFSVMPool(), n_hypotheses=135, subsample_size=[30, 60, 240], racing=False)
    assert everyone.posterior_[np.isnan(model.losses_)].sum() < 1e-9
    assert model.certificate_.bound == pytest.approx(everyone.certificate_.bound, abs=1e-9)


@pytest.mark.parametrize("racing", ["validation", None, 1, "train"])
def test_racing_is_checked(waves, racing):
    with pytest.raises(ValueError, match="racing must be True, False or 'training', got"):
        fit(*waves, racing=racing)


def test_hypotheses_that_are_trained_are_those_of_a_fit_without_racing(ladder):
    X, y, model = ladder
    everyone = fit(X, y, RBFSVMPool(), n_hypotheses=135, subsample_size=[30, 60, 240], racing=False)
    for h in np.flatnonzero(model.n_validation_ > 0)[::7]:
        values = [m.hypotheses_[h].decision_function(X[:20]) for m in (model, everyone)]
        np.testing.assert_array_equal(*values)


# ---------------------------------------------------------------------------------------------------
# Where racing does nothing
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{"voting": "uniform"}, {"racing": False}])
def test_everyone_is_validated(waves, parameters):
    model = fit(*waves, n_hypotheses=30, **parameters)
    assert not np.isnan(model.losses_).any()
    assert model.certificate_.n_dropped == 0


def test_one_hypothesis_or_few_points():
    X, y = make_moons(300, noise=0.1, random_state=0)
    for m, n in ((1, 300), (20, 40), (20, 8)):
        model = fit(X[:n], y[:n], n_hypotheses=m, subsample_size=4)
        assert not np.isnan(model.losses_).any()


def test_ties_and_constant_labels_in_the_first_block():
    """All hypotheses are equal, and the first rounds see one class only."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), np.zeros(2000, dtype=int)
    y[validation_order(2000, 0)[-3:]] = 1
    model = fit(X, y, subsample_size=10)
    everyone = fit(X, y, subsample_size=10, racing=False)
    kept = ~np.isnan(model.losses_)
    np.testing.assert_array_equal(model.losses_[kept], everyone.losses_[kept])
    assert model.certificate_.gibbs_bound == pytest.approx(everyone.certificate_.gibbs_bound, abs=1e-9)


def test_prior_of_zero_and_of_many_magnitudes(waves):
    X, y = waves
    prior = 10.0 ** -np.linspace(0, 250, 60)
    prior[::7] = 0
    prior /= prior.sum()
    raced, everyone = (fit(X, y, prior=prior, racing=racing) for racing in (True, False))
    dropped = np.isnan(raced.losses_)
    assert everyone.posterior_[dropped].sum() < 1e-9
    assert raced.certificate_.gibbs_bound == pytest.approx(everyone.certificate_.gibbs_bound, abs=1e-9)


@pytest.mark.parametrize("racing", [True, "training"])
def test_the_largest_prior_is_never_dropped(waves, racing):
    """Otherwise those that are left could have next to no prior, and no certificate."""
    X, y = waves[0][:1500], waves[1][:1500]
    sizes = {"subsample_size": [20, 60, 200], "n_hypotheses": 135, "pool": RBFSVMPool()}
    everyone = fit(X, y, **sizes, racing=False)
    worst = int(np.argmax(everyone.losses_))
    prior = np.full(135, -800.0)
    prior[worst] = np.log1p(-134 * math.exp(-800))
    model = fit(X, y, **sizes, prior=prior, racing=racing)
    assert model.posterior_[worst] > 0
    assert model.certificate_.bound == pytest.approx(fit(X, y, **sizes, prior=prior, racing=False).certificate_.bound)


# ---------------------------------------------------------------------------------------------------
# Certificates without some of the losses
# ---------------------------------------------------------------------------------------------------


@st.composite
def partial_losses(draw):
    m = draw(st.integers(2, 12))
    n = np.array(draw(st.lists(st.integers(20, 400), min_size=m, max_size=m)))
    errors = [draw(st.integers(0, int(points))) for points in n]
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=m, max_size=m)))
    kept = np.array(draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    kept[draw(st.integers(0, m - 1))] = True
    return np.array(errors) / n, n, weights / weights.sum(), kept


@settings(max_examples=25, deadline=None)
@given(
    partial_losses(),
    st.sampled_from(["lambda", "kl", "dual", "direct"]),
    st.sampled_from(["majority", "gibbs", "best"]),
)
def test_certificates_without_some_losses_are_those_of_their_posteriors(case, objective, voting):
    """By brute force: the divergence from the whole prior, and a bound that is not below what this gives."""
    losses, n, prior, kept = case
    partial = np.where(kept, losses, np.nan)
    certificate, rho = certify(partial, n, prior=prior, objective=objective, voting=voting)
    assert not rho[~kept].any()
    assert rho.sum() == pytest.approx(1)
    support = rho > 0
    divergence = float(np.sum(rho[support] * np.log(rho[support] / prior[support])))
    assert certificate.kl_div >= divergence - 1e-9
    assert certificate.kl_div == pytest.approx(divergence, abs=1e-6)
    # No valid bound from the same losses is below what a test of the posterior alone would give.
    loss = float(rho[kept] @ losses[kept])
    assert certificate.empirical_loss == pytest.approx(loss, abs=1e-9)
    if certificate.gibbs_bound < 1:
        assert certificate.gibbs_bound >= least_direct_bound(loss, n.max(), 0.05) * (1 - 1e-9)
    certificate.verify(partial, prior, n)
    certificate.verify(partial, prior, np.where(kept, n, 1))
    assert Certificate.from_json(certificate.to_json()) == certificate
    whole, _ = certify(losses, n, prior=prior, objective=objective, voting="gibbs")
    if voting == "gibbs" and objective == "direct":
        # The minimum over fewer posteriors is not smaller.
        assert certificate.gibbs_bound >= whole.gibbs_bound * (1 - 1e-7)


def test_the_bound_of_two_hypotheses_by_hand():
    """Those that were not validated keep their prior mass: the others have to comply with the constraint alone."""
    losses, prior = np.array([0.1, np.nan, 0.2, np.nan]), np.array([0.25, 0.25, 0.4, 0.1])
    certificate, _ = certify(losses, 1000, prior=prior, objective="direct", voting="gibbs")
    given = {"n": 1000, "delta": 0.05 * 0.65, "prior": prior[[0, 2]] / 0.65}
    # No posterior on the two is better, by the dual bound neither.
    for weight in np.linspace(0.001, 0.999, 50):
        other = np.array([weight, 1 - weight])
        assert pac_bayes_dual(other, losses[[0, 2]], **given, comparator="mixture") >= certificate.gibbs_bound
    # The whole prior constrains a little more.
    everyone = direct_bound([1.0, 0.0, 0.0, 0.0], [0.1, 1.0, 0.2, 1.0], 1000, prior=prior)
    assert certificate.gibbs_bound == pytest.approx(everyone, rel=1e-3)


def test_the_minimum_over_all_hypotheses_needs_large_losses_of_the_dropped():
    losses = np.array([0.1, 0.11, 0.12, np.nan, np.nan])
    far, _ = certify(losses, 1000, dropped_loss=0.4)
    near, _ = certify(losses, 1000, dropped_loss=0.13)
    nothing, _ = certify(losses, 1000)
    assert (far.minimum_over, near.minimum_over, nothing.minimum_over) == (5, 3, 3)
    assert "over all hypotheses" in str(far)
    assert "over the 3 hypotheses validated in full" in str(near)
    # The claim is true: whatever the losses of the dropped are, from 0.4 on, the minimum is no smaller.
    for loss in (0.4, 0.6, 1.0):
        whole, _ = certify(np.where(np.isnan(losses), loss, losses), 1000)
        assert whole.minimum_lower_bound >= far.minimum_lower_bound * (1 - 1e-7)
    far.verify(losses)
    with pytest.raises(CertificateError, match="minimum_over"):
        replace(near, minimum_over=5).verify(losses)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="NaN only"):
        certify([np.nan, np.nan], 100)
    with pytest.raises(ValueError, match="uniform"):
        certify([0.1, np.nan], 100, voting="uniform")
    with pytest.raises(ValueError, match="prior mass"):
        certify([0.1, np.nan], 100, prior=[-800.0, 0.0])
    with pytest.raises(ValueError, match="dropped_loss must be in"):
        certify([0.1, np.nan], 100, dropped_loss=2.0)


def test_dropped_losses_are_checked_with_the_data(pair, waves):
    model, _ = pair
    assert model.verify_certificate(model.certificate_, *waves) == "arithmetic, model and data"
    with pytest.raises(CertificateError):
        model.verify_certificate(replace(model.certificate_, dropped_loss=0.9))


@pytest.mark.parametrize("prior", [None, [0.5, 0.2, 0.2, 0.1]])
def test_restricted_priors(prior):
    chosen = np.array([True, False, True, True])
    restricted, log_mass = restrict_prior(prior, chosen)
    exact = np.full(4, 0.25) if prior is None else np.array(prior)
    assert math.exp(log_mass) == pytest.approx(exact[chosen].sum())
    assert math.exp(log_mass) <= exact[chosen].sum()
    expected = exact[chosen] / exact[chosen].sum()
    np.testing.assert_allclose(np.full(3, 1 / 3) if restricted is None else np.exp(restricted), expected)


# ---------------------------------------------------------------------------------------------------
# Certificates hold, whoever is dropped
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wild", "runs"),
    [
        ("at random", 100),
        *(pytest.param(wild, 400, marks=pytest.mark.slow) for wild in ("at random", "the best", "all but one")),
    ],
)
def test_certificates_hold_for_wild_rules(wild, runs):
    """Coverage with known true losses, for rules that drop at random, or by looking at the losses in the worst way."""
    rng = np.random.default_rng(1)
    m, n, delta, violations = 30, 200, 0.2, 0
    truth = rng.uniform(0.1, 0.5, m)
    for _ in range(runs):
        losses = rng.binomial(n, truth) / n
        if wild == "at random":
            kept = rng.random(m) < 0.3
        elif wild == "the best":
            kept = losses > np.sort(losses)[m // 2]
        else:
            # The one that was luckiest: its empirical loss is furthest below its true one, which no rule could know.
            kept = np.arange(m) == np.argmax(truth - losses)
        kept[rng.integers(m)] |= not kept.any()
        certificate, rho = certify(np.where(kept, losses, np.nan), n, delta=delta, voting="gibbs")
        violations += bool(rho @ truth > certificate.gibbs_bound)
    assert violations <= delta * runs


def test_a_prior_that_is_renormalised_would_lie():
    """The same rule that picks the luckiest, with the prior over survivors: the bound fails far too often."""
    rng = np.random.default_rng(1)
    m, n, delta = 200, 200, 0.2
    truth = np.full(m, 0.3)
    lies = truths = 0
    for _ in range(200):
        losses = rng.binomial(n, truth) / n
        best = int(np.argmin(losses))
        lies += certify(losses[[best]], n, delta=delta, voting="best")[0].bound < 0.3
        partial = np.full(m, np.nan)
        partial[best] = losses[best]
        truths += certify(partial, n, delta=delta, voting="best")[0].bound < 0.3
    assert lies > 2 * delta * 200
    assert truths <= delta * 200


# ---------------------------------------------------------------------------------------------------
# The rule
# ---------------------------------------------------------------------------------------------------


def rule(m, n, delta=0.05):
    return DropRule(GibbsCurve(np.zeros(m), 1.0).log_prior, np.full(m, n), delta)


def test_the_rule_keeps_the_best_and_drops_the_hopeless():
    seen = np.full(4, 4096)
    totals = np.array([0.05, 0.051, 0.3, 0.5]) * seen
    stays = rule(4, 100_000).survivors(np.arange(4), totals, seen)
    np.testing.assert_array_equal(stays, [True, True, False, False])


def test_the_rule_drops_nothing_by_few_points():
    seen = np.full(3, 10)
    assert rule(3, 100_000).survivors(np.arange(3), np.array([0.0, 2.0, 3.0]), seen).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 128), min_size=1, max_size=20))
def test_the_rule_keeps_someone(errors):
    totals = np.array(errors, dtype=float)
    stays = rule(totals.size, 10_000).survivors(np.arange(totals.size), totals, np.full(totals.size, 128))
    assert stays[np.argmin(totals)]


def test_kinds_within_a_standard_error_stay():
    seen, kinds = np.full(10, 100), np.arange(10)
    totals = np.array([5, 6, 7, 8, 9, 40, 41, 42, 43, 44], dtype=float)
    lost = rule(10, 1000).lost_kinds(np.arange(10), kinds, totals, seen)
    np.testing.assert_array_equal(lost, [6, 7, 8, 9])
    assert rule(10, 1000).lost_kinds(np.arange(10), kinds, np.full(10, 5.0), seen).size == 0


@pytest.mark.parametrize("n", [1, 100, 511, 512, 5000, 100_000])
def test_rounds_end_with_all_rows(n):
    for n_points in (1, 10**6):
        ends = round_ends(n, n_points)
        assert ends[-1] == n
        assert ends == sorted(set(ends))


def test_training_points_are_located():
    rng = np.random.default_rng(0)
    subsamples = RandomSubsamples(200, [5, 50], 8, entropy=3)
    rows = np.sort(rng.choice(200, 70, replace=False))
    positions, counts = subsamples.locate(range(2, 7), rows)
    expected = [np.flatnonzero(np.isin(rows, subsamples[h])) for h in range(2, 7)]
    np.testing.assert_array_equal(positions, np.concatenate(expected))
    np.testing.assert_array_equal(counts, [part.size for part in expected])
    none = GivenSubsamples(5, [[0], [1]]).locate(range(2), np.array([3]))
    np.testing.assert_array_equal(none[1], [0, 0])


# ---------------------------------------------------------------------------------------------------
# What else uses losses
# ---------------------------------------------------------------------------------------------------


def test_unlabelled_points_certify_a_raced_classifier(waves, pair):
    raced, everyone = pair
    X = waveform(1000, random_state=5).X / 4
    assert raced.certify(X).bound == pytest.approx(everyone.certify(X).bound, abs=1e-9)


def test_shares_of_the_vote_ignore_almost_no_weight(pair, waves):
    raced, everyone = pair
    X = waves[0][:500]
    votes = np.searchsorted(everyone.classes_, everyone.predict_hypotheses(X))
    exact = np.stack([(everyone.posterior_[:, None] * (votes == c)).sum(axis=0) for c in range(2)], axis=1)
    np.testing.assert_allclose(everyone.predict_shares(X), exact, atol=2e-12)
    np.testing.assert_allclose(raced.predict_shares(X), exact, atol=1e-8)


def test_displays_take_dropped_hypotheses(pair):
    pytest.importorskip("matplotlib").use("Agg")
    from pacbayes.display import BoundDisplay, PoolSizeDisplay, PosteriorDisplay

    raced, everyone = pair
    assert BoundDisplay.from_estimator(raced).minimum == pytest.approx(
        BoundDisplay.from_estimator(everyone).minimum, abs=1e-9
    )
    assert PosteriorDisplay.from_estimator(raced).loss == pytest.approx(
        PosteriorDisplay.from_estimator(everyone).loss, abs=1e-9
    )
    with pytest.raises(ValueError, match="racing=False"):
        PoolSizeDisplay.from_estimator(raced)
