import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes import Certificate, CertificateError, bounds, certify
from pacbayes.posterior import minimize_kl_bound, minimize_lambda_bound

LOSSES = np.array([30, 33, 40, 41, 60, 100, 180]) / 400
WAYS = [
    {},
    {"objective": "kl"},
    {"voting": "gibbs"},
    {"voting": "best"},
    {"voting": "uniform"},
    {"n_max": 450},
    {"loss": "brier"},
    {"prior": [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]},
]


def certified(**way):
    return certify(LOSSES, 400, **way)[0]


def test_figures_are_those_of_the_minimiser():
    certificate, rho = certify(LOSSES, 400, delta=0.1)
    result = minimize_lambda_bound(LOSSES, 400, delta=0.1, method="global")
    np.testing.assert_array_equal(rho, result.rho)
    assert certificate.lam == result.lam
    assert certificate.gibbs_bound == bounds.pac_bayes_kl(result.loss, result.kl_div, 400, 0.1)
    assert certificate.vote_bound == 2 * certificate.gibbs_bound
    assert certificate.global_minimum
    assert certificate.minimum_lower_bound == result.lower
    assert certificate.quasiconvex == "few hypotheses"
    assert certificate.strict
    assert certificate.n_hypotheses == 7


def test_kl_objective_is_never_worse():
    certificate, _ = certify(LOSSES, 400, objective="kl")
    assert certificate.gibbs_bound == pytest.approx(minimize_kl_bound(LOSSES, 400).fun, rel=1e-12)
    assert certificate.gibbs_bound <= certified().gibbs_bound


def test_unequal_validation_sets():
    """kl <= (KL + ln(2 sqrt(n_max) / delta)) / n_min, by hand."""
    certificate = certified(n_max=450)
    c = (certificate.kl_div + math.log(2 * math.sqrt(450) / 0.05)) / 400
    assert certificate.gibbs_bound == pytest.approx(bounds.kl_inverse_upper(certificate.empirical_loss, c), rel=1e-12)
    assert certificate.gibbs_bound > certified().gibbs_bound
    assert (certificate.n_validation, certificate.n_validation_max) == (400, 450)


def test_best_hypothesis_pays_its_prior():
    certificate, rho = certify(LOSSES, 400, voting="best")
    assert rho.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert certificate.gibbs_bound == pytest.approx(bounds.pac_bayes_kl(LOSSES[0], math.log(7), 400), rel=1e-11)
    assert certificate.vote_bound == certificate.gibbs_bound
    assert certificate.lam is None
    _, rho = certify(LOSSES, 400, voting="best", prior=[0, 0, 0.5, 0.5, 0, 0, 0])
    assert np.argmax(rho) == 2


def test_uniform_pays_nothing():
    certificate, rho = certify(LOSSES, 400, voting="uniform")
    np.testing.assert_allclose(rho, 1 / 7)
    assert certificate.kl_div == 0
    assert certificate.gibbs_bound == pytest.approx(bounds.pac_bayes_kl(LOSSES.mean(), 0, 400), rel=1e-11)


def test_the_vote_is_bounded_for_the_zero_one_loss_only():
    assert certified(loss="brier").vote_bound == 1


@pytest.mark.parametrize("way", WAYS)
def test_json_and_back(way):
    certificate = certified(**way)
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.to_json() == certificate.to_json()


def test_infinite_lambda_survives_json():
    certificate, _ = certify([0.0, 1.0], 20, objective="kl", prior=[1e-8, 1 - 1e-8])
    assert Certificate.from_json(replace(certificate, lam=math.inf).to_json()).lam == math.inf


@pytest.mark.parametrize("way", WAYS)
def test_verify_recomputes_everything(way):
    certificate = certified(**way)
    prior = way.get("prior")
    certificate.verify(LOSSES, prior)
    with pytest.raises(CertificateError, match="is stated as"):
        certificate.verify(LOSSES + 0.01, prior)
    with pytest.raises(CertificateError, match=r"n_hypotheses|is stated as"):
        certificate.verify(LOSSES[:-1], None if prior is None else [0.4, 0.2, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gibbs_bound", 0.01),
        ("vote_bound", 0.01),
        ("empirical_loss", 0.01),
        ("kl_div", 0.0),
        ("n_validation", 4000),
        ("delta", 0.5),
        ("voting", "best"),
    ],
)
def test_a_certificate_edited_by_hand_is_refused(field, value):
    values = json.loads(certified().to_json())
    values[field] = value
    with pytest.raises(CertificateError, match=r"is stated as|must be"):
        Certificate.from_json(json.dumps(values))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not a certificate: not JSON"),
        ("[1, 2]", "not a certificate: no"),
        ('{"pacbayes_certificate": 1}', "fields missing or unknown"),
        ('{"pacbayes_certificate": 2}', "not a certificate: no"),
    ],
)
def test_what_is_not_a_certificate_is_refused(text, message):
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(text)


def test_odd_values_are_refused():
    values = json.loads(certified().to_json())
    values["n_validation"] = "many"
    with pytest.raises(CertificateError, match="not a certificate"):
        Certificate.from_json(json.dumps(values))


def test_text_says_what_is_proved_and_what_is_assumed():
    text = str(certified())
    assert "With probability 0.95" in text
    assert "global minimum of the lambda bound, proved" in text
    assert "strict, assuming:" in text
    assert "independent, identically distributed" in text
    text = str(certified(strict=False, n_max=500, voting="best"))
    assert "NOT STRICT" in text
    assert "400 to 500 validation points" in text
    assert "not minimised: best" in text
    assert "nothing is proved" in str(certify([1.0], 10)[0])
    assert "its minimum is at least" in str(replace(certified(), global_minimum=False))


def test_comparison_with_a_held_out_set():
    certificate = certified()
    comparison = certificate.comparison()
    held_out = bounds.single_hypothesis_kl(certificate.empirical_loss, 400, 0.05)
    assert certificate.held_out_bound() == comparison["single classifier, held-out set"] == held_out
    assert certificate.held_out_bound(0.2) == bounds.single_hypothesis_kl(0.2, 400, 0.05)
    assert held_out < comparison["PAC-Bayes-kl"] < comparison["PAC-Bayes-lambda at its best"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 5000), st.floats(0.001, 0.9))
def test_bounds_are_in_order(losses, n, delta):
    certificate, rho = certify(losses, n, delta=delta)
    assert rho.sum() == pytest.approx(1)
    assert min(losses) <= certificate.empirical_loss * (1 + 1e-12)
    assert certificate.empirical_loss <= certificate.gibbs_bound <= certificate.vote_bound <= 1
    Certificate.from_json(certificate.to_json()).verify(losses)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "hinge"}, "objective must be 'lambda' or 'kl', got 'hinge'"),
        ({"voting": "loud"}, "voting must be 'majority', 'gibbs', 'best' or 'uniform', got 'loud'"),
        ({"delta": 2}, r"delta must be in \(0, 1\), got 2"),
        ({"n_max": 100}, "n_max must be a whole number, at least 400, got 100"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(LOSSES, 400, **arguments)
