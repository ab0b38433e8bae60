"""Attempts to get a certificate that says more than what was proved. Each of them succeeded once."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from crafting import forge
from fuzz_certificates import fuzz, reseal
from scipy import sparse
from sklearn.datasets import make_classification, make_moons
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sweeps import sweep

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._fingerprint import digest
from pacbayes._losses import ZERO_ONE
from pacbayes.certificate import FIT_ASSUMPTIONS
from pacbayes.fitting._fit import FitContext, digest_vote, weigh
from pacbayes.pools import RBFSVMPool

X, Y = make_moons(300, noise=0.15, random_state=0)


def small(**parameters):
    settings = {"n_hypotheses": 12, "subsample_size": [8, 30], "holdout": None, "random_state": 0}
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), **settings, **parameters})


# ---------------------------------------------------------------------------------------------------
# Without tampering
# ---------------------------------------------------------------------------------------------------


def test_a_loss_that_is_called_zero_one_does_not_bound_the_vote():
    def zero_one(true, predicted):
        return 0.01 * (true != predicted)

    certificate = small(loss=zero_one).fit(X, Y).certificate_
    assert certificate.loss != "zero_one"
    assert certificate.vote_bound == certificate.bound == 1
    assert "errs on at most" not in certificate.summary()


def test_what_was_done_before_the_fit_is_asked_of_the_reader():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(120, 2000)), rng.integers(0, 2, 120)
    piped = make_pipeline(SelectKBest(k=30), small()).fit(points, labels)[-1].certificate_
    searched = GridSearchCV(small(), {"random_state": [0, 1], "delta": [0.05, 0.1]}, cv=2).fit(X, Y)
    for certificate in (piped, searched.best_estimator_.certificate_):
        assert set(FIT_ASSUMPTIONS) <= set(certificate.assumption_codes)
        assert "features were not computed from this sample" in str(certificate)
        assert "settings were not chosen by looking at this sample" in str(certificate)


def test_only_what_the_library_draws_is_by_construction():
    folds = PredefinedSplit(np.where(Y[::-1] == Y, 0, -1))  # made from the labels
    certificate = PACBayesClassifier(DecisionTreeClassifier(), subsamples=folds, holdout=None).fit(X, Y).certificate_
    assert not any("by construction" in line for line in certificate.assumptions)
    assert any(line.startswith("the caller made the splitter") for line in certificate.assumptions)


def redefined(factor):
    def loss(true, predicted):
        return factor * (true != predicted)

    return loss


@pytest.mark.parametrize(
    "setting",
    [
        {"loss": redefined(1.0)},
        {"estimator": make_pipeline(FunctionTransformer(lambda X: X), DecisionTreeClassifier())},
    ],
)
def test_hypotheses_are_not_added_with_settings_that_cannot_be_compared(setting):
    model = small(racing=False, **setting).fit(X, Y)
    with pytest.raises(ValueError, match=r"hypotheses cannot be added with this .*cannot compare the function"):
        model.add_hypotheses(X, Y, 30)


def test_a_log_prior_stays_a_logarithm():
    """The divergence of a point mass is minus the logarithm of its prior, also where the prior itself underflows."""
    certificate, rho = certify([0.5, 0.0], n=100_000, prior=[-1e-300, -745.0], voting="best")
    assert rho.tolist() == [0, 1]
    assert certificate.kl_div >= 745


def test_a_delta_that_underflows_when_multiplied():
    certificate, _ = certify([0.1, 0.2], 300, n_max=400, delta=5e-324)
    complexity = (certificate.kl_div + math.log(2 * math.sqrt(400)) - math.log(5e-324)) / 300
    loss, bound = certificate.empirical_loss, certificate.gibbs_bound
    divergence = loss * math.log(loss / bound) + (1 - loss) * math.log((1 - loss) / (1 - bound))
    assert divergence >= complexity * (1 - 1e-12)


def test_complex_losses_are_refused():
    with pytest.raises(ValueError, match="losses must be"):
        certify(np.array([0.1 + 0.2j, 0.3]), 100)


def test_a_prior_that_slows_alternating_minimisation_is_bounded_in_work():
    from pacbayes.posterior import minimize_lambda_bound

    losses = np.linspace(0, 1, 20_000)
    prior = -40.0 * (1 - losses)
    prior -= np.logaddexp.reduce(prior)
    result = minimize_lambda_bound(losses, 1000, prior=prior)
    assert result.nfev <= 20_000
    assert result.message


# ---------------------------------------------------------------------------------------------------
# Sparse rows
# ---------------------------------------------------------------------------------------------------


def test_density_outside_a_subsample_does_not_shape_a_hypothesis():
    """Which arithmetic computes distances must not depend on the rows outside of S_h."""
    rng = np.random.default_rng(0)
    points = np.where(rng.random((80, 600)) < 0.02, 1e8 + rng.normal(size=(80, 600)), 0.0)
    labels = rng.integers(0, 2, 80)
    model = small(n_hypotheses=4, subsample_size=20).fit(sparse.csr_array(points), labels)
    for h in range(4):
        changed = points.copy()
        outside = np.setdiff1d(np.arange(80), model.subsamples_[h])
        changed[outside] = rng.normal(size=(outside.size, 600))
        other = small(n_hypotheses=4, subsample_size=20).fit(sparse.csr_array(changed), labels)
        queries = sparse.csr_array(points)
        np.testing.assert_array_equal(model.hypotheses_[h].predict(queries), other.hypotheses_[h].predict(queries))
        np.testing.assert_array_equal(model.hypotheses_[h].dual_coef, other.hypotheses_[h].dual_coef)


def test_sparse_and_dense_rows_give_the_same_bits():
    rng = np.random.default_rng(1)
    points = np.where(rng.random((90, 700)) < 0.03, rng.normal(size=(90, 700)), 0.0)
    labels = rng.integers(0, 2, 90)
    for scaler in (None, "standard"):
        pool = RBFSVMPool(scaler=scaler)
        dense = small(estimator=pool).fit(points, labels)
        rows = small(estimator=pool).fit(sparse.csr_array(points), labels)
        np.testing.assert_array_equal(rows.losses_, dense.losses_)
        np.testing.assert_array_equal(rows.predict_proba(sparse.csr_array(points)), dense.predict_proba(points))


def test_sparse_rows_without_support_vectors():
    labels = np.zeros(40)
    labels[3] = 1
    model = small().fit(sparse.csr_array(sparse.eye(40, 400)), labels)
    assert set(model.predict(sparse.csr_array((5, 400)))) <= {0, 1}


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_values_whose_squares_overflow_are_refused(container):
    points = np.zeros((60, 3))
    points[::2, 0] = 1e160
    with pytest.raises(ValueError, match="X must"):
        small().fit(container(points), np.arange(60) % 2)


# ---------------------------------------------------------------------------------------------------
# Edited certificates
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return small().fit(X, Y)


def edited(certificate, **changes):
    return Certificate.from_json(reseal(json.loads(certificate.to_json()) | changes))


def test_a_certificate_of_another_loss():
    brier = small(estimator=DecisionTreeClassifier(max_depth=2), loss="brier").fit(X, Y)
    forged, _ = certify(
        brier.losses_, brier.n_validation_, prior=brier.prior_, assumptions=brier.certificate_.assumption_codes
    )
    forged = replace(forged, digests=brier.certificate_.digests)
    with pytest.raises(CertificateError, match=r"loss is stated as 'zero_one'"):
        brier.verify_certificate(forged)


def test_a_certificate_of_another_predictor(model):
    forged = small(voting="best").fit(X, Y).certificate_
    assert forged.bound < model.certificate_.bound
    with pytest.raises(CertificateError, match="voting is stated as 'best'"):
        model.verify_certificate(forged)


def test_other_weights_than_the_certified_ones(model):
    forged = forge(model, posterior=(np.arange(12) == np.argmax(model.losses_)).astype(float))
    with pytest.raises(CertificateError, match=r"digests\['posterior'\]"):
        forged.verify_certificate(model.certificate_)
    with pytest.raises(CertificateError, match="digests must say what the certificate is about"):
        forged.verify_certificate(replace(model.certificate_, digests={}))
    rebound = dict(model.certificate_.digests, posterior=digest(forged.posterior_))
    with pytest.raises(CertificateError, match="the weights of the classifier are not those"):
        forged.verify_certificate(replace(model.certificate_, digests=rebound))


def test_other_hypotheses_than_the_certified_ones(model):
    forged = forge(model, hypotheses=small(random_state=1).fit(X, Y).hypotheses_)
    with pytest.raises(CertificateError, match=r"digests\['hypotheses'\]"):
        forged.verify_certificate(model.certificate_)


def test_other_losses_are_found_by_the_data(model):
    """Who edits the model and its certificate alike is found out by the data."""
    fitted, vote = model.fitted_votes_, model.votes_[0]
    lower = vote.trained._replace(totals=np.maximum(vote.totals - 1, 0))
    with pytest.raises(CertificateError):
        forge(model, totals=lower.totals).verify_certificate(model.certificate_)
    fit = FitContext(RBFSVMPool(), fitted.task, ZERO_ONE, fitted.settings, 1, continued=False)
    certificate, posterior = weigh(fit, lower, vote.prior, fit.loss, tested=vote.split.held_out is not None)
    digests = digest_vote(fit, lower)
    forged = forge(model, totals=lower.totals, posterior=posterior)
    counted = ("labels", "label_counts", "confusion", "calibration")
    by_class = {name: getattr(model.certificate_, name) for name in counted}
    certificate = replace(certificate, **by_class, digests={**certificate.digests, **digests})
    assert forged.verify_certificate(certificate) == "arithmetic and model"
    with pytest.raises(CertificateError, match=r"losses\[\d+\] is stated as"):
        forged.verify_certificate(certificate, X, Y)
    with pytest.raises(CertificateError, match=r"losses\[\d+\] is stated as"):
        model.verify_certificate(model.certificate_, X, np.where(np.arange(300) == 7, 1 - Y, Y))
    with pytest.raises(CertificateError, match="the sample leaves 299 rows"):
        model.verify_certificate(model.certificate_, X[1:], Y[1:])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"estimator": RBFSVMPool(gamma_source="reserved", scaler="standard")},
        {"estimator": DecisionTreeClassifier(max_depth=3)},
        {"estimator": DecisionTreeClassifier(max_depth=3), "loss": "brier"},
        {"loss": redefined(0.5)},
        {"voting": "uniform"},
        {"voting": "best", "objective": "kl"},
        {"holdout": "auto"},
        {"prior": np.arange(1, 13) / 78},
        {"racing": False},
    ],
)
def test_an_honest_certificate_verifies_at_all_levels(parameters):
    verify_at_all_levels(small(**parameters).fit(X, Y), X, Y)


def test_an_honest_certificate_of_a_candidate_verifies_at_all_levels():
    verify_at_all_levels(small().fit_candidate(X, Y, n_candidates=3), X, Y)


def verify_at_all_levels(model, points, labels):
    certificate = Certificate.from_json(model.certificate_.to_json())
    certificate.verify(model.losses_, model.prior_, model.n_validation_)
    assert model.verify_certificate(certificate) == "arithmetic and model"
    assert model.verify_certificate(certificate, points, labels) == "arithmetic, model and data"


@pytest.mark.parametrize(
    "parameters",
    sweep(
        [
            {},
            {"objective": "kl"},
            {"objective": "dual"},
            {"voting": "gibbs"},
            {"voting": "best"},
            {"holdout": "auto"},
            {"estimator": DecisionTreeClassifier(max_depth=3)},
            {"estimator": DecisionTreeClassifier(max_depth=3), "loss": "brier"},
            {"loss": redefined(0.5)},
            {"prior": np.arange(1, 25) / 300},
            {"racing": "training"},
        ],
        quick=[2, 4, 5, 7, 10],
    ),
)
def test_an_honest_certificate_of_a_race_verifies_at_all_levels(parameters):
    points, labels = make_moons(6000, noise=0.1, random_state=0)
    model = small(n_hypotheses=24, subsample_size=[2, 12, 60], **parameters).fit(points, labels)
    assert model.certificate_.n_dropped > 0
    verify_at_all_levels(model, points, labels)
    everyone = copy.deepcopy(model.certificate_)
    for changes in ({"n_dropped": 1}, {"dropped_loss": 1.0}, {"minimum_over": model.certificate_.n_hypotheses - 1}):
        with pytest.raises(CertificateError):
            model.verify_certificate(replace(everyone, **changes))


@pytest.mark.parametrize("n", [100, 10**14])
@pytest.mark.parametrize("factor", [0.0, 1 - 9.9e-7, 1 - 1e-12, 1 - 2**-52])
def test_a_bound_below_the_recomputed_one_is_refused_at_all(n, factor):
    certificate, _ = certify([0.0, 0.5], n)
    statements = json.loads(certificate.to_json())["statements"]
    for i in range(2):
        forged = copy.deepcopy(statements)
        forged[i]["bound"] *= factor
        with pytest.raises(CertificateError, match=r"statements\[\d\]"):
            edited(certificate, statements=forged)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_validation_max": 100}, "n_validation_max must be at least n_validation"),
        ({"strict": "no"}, "strict must be true or false, got 'no'"),
        ({"strict": 1}, "strict must be true or false, got 1"),
        ({"delta": 10**400}, r"delta must be a number in \(0, 1\)"),
        ({"delta": True}, r"delta must be a number in \(0, 1\), got True"),
        ({"assumptions": []}, "assumptions must be a list of 1 or more entries"),
        ({"assumptions": ["stated:trust me"]}, "assumptions must state"),
        ({"assumptions": ["trust me"]}, r"assumptions\[0\] must be a code"),
        ({"assumptions": "none"}, "assumptions must be a list"),
        ({"loss": ""}, "loss must be text"),
        ({"lam": "Infinite"}, "lam must be a number"),
        ({"digests": {"losses": "0"}}, "digests.losses must be 64 hexadecimal digits"),
        ({"statements": []}, "statements must be a list of 1 or more entries"),
        ({"voting": "gibbs"}, "statements"),
        ({"surprise": 1}, "missing or unknown: 'surprise'"),
    ],
)
def test_fields_of_the_wrong_type_or_range(model, changes, message):
    with pytest.raises(CertificateError, match=message):
        edited(model.certificate_, **changes)


def test_strictness_cannot_be_had_by_leaving_out_a_line():
    certificate = small(estimator=RBFSVMPool(gamma_source="sample")).fit(X, Y).certificate_
    codes = [code for code in certificate.assumption_codes if not code.endswith("-from-sample")]
    with pytest.raises(CertificateError, match="strict is stated as True"):
        edited(certificate, strict=True)
    with pytest.raises(CertificateError, match="event is stated as"):
        edited(certificate, strict=True, assumptions=codes)


def test_random_edits():
    counts = fuzz(2000, seed=0)
    assert sum(counts.values()) == 2000
    assert counts["refused"] > 1000


def test_classes_that_a_forged_sample_does_not_have():
    points, labels = make_classification(100, random_state=0)
    model = small().fit(points, labels)
    with pytest.raises(CertificateError, match="y holds the label 5, in row 0, which the classifier does not know"):
        model.verify_certificate(model.certificate_, points, labels + 5)
