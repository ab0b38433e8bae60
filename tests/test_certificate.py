import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes import Certificate, CertificateError, bounds, certify
from pacbayes.certificate import FIT_ASSUMPTIONS, _json
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


def reseal(values):
    """JSON text of edited values with a checksum that fits: what a careful forger would write."""
    content = {name: value for name, value in values.items() if name != "checksum"}
    return json.dumps({**content, "checksum": _json._checksum(content)})


def test_figures_are_those_of_the_minimiser():
    certificate, rho = certify(LOSSES, 400, delta=0.1)
    result = minimize_lambda_bound(LOSSES, 400, delta=0.1, method="global")
    np.testing.assert_array_equal(rho, result.rho)
    assert certificate.lam == result.lam
    assert certificate.gibbs_bound == bounds.pac_bayes_kl(result.loss, result.kl_div, 400, 0.1)
    assert certificate.vote_bound == 2 * certificate.gibbs_bound
    assert certificate.global_minimum
    assert certificate.minimum_lower_bound == result.lower
    assert certificate.quasiconvex is not None
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
    assert [statement.predictor for statement in certified(loss="brier").statements] == ["randomised classifier"]


@pytest.mark.parametrize(
    ("voting", "predictors"),
    [
        ("majority", ["majority vote", "randomised classifier"]),
        ("uniform", ["majority vote", "randomised classifier"]),
        ("gibbs", ["randomised classifier", "majority vote"]),
        ("best", ["best hypothesis"]),
    ],
)
def test_the_first_statement_is_about_what_predict_does(voting, predictors):
    certificate = certified(voting=voting)
    assert [statement.predictor for statement in certificate.statements] == predictors
    assert certificate.predictor == predictors[0]
    assert certificate.bound == certificate.statements[0].bound
    assert len({statement.event for statement in certificate.statements}) == 1
    assert certificate.bound == (
        certificate.vote_bound if voting in ("majority", "uniform") else certificate.gibbs_bound
    )


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
    with pytest.raises(CertificateError, match="is stated as"):
        certificate.verify(LOSSES[:-1], None if prior is None else [0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    swapped = LOSSES[[0, 2, 1, 3, 4, 5, 6]]
    with pytest.raises(CertificateError, match="is stated as"):
        certificate.verify(swapped, prior)


@pytest.mark.parametrize(
    ("field", "value"),
    [
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
    with pytest.raises(CertificateError, match="checksum does not match"):
        Certificate.from_json(json.dumps(values))
    with pytest.raises(CertificateError, match=r"is stated as|must"):
        Certificate.from_json(reseal(values))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not a certificate: not JSON"),
        ("[1, 2]", "not a certificate: no"),
        ('{"pacbayes_certificate": 1}', "fields missing or unknown"),
        ('{"pacbayes_certificate": 2}', "checksum"),
        ('{"pacbayes_certificate": 3}', "not a certificate: no"),
        ('{"pacbayes_certificate": true}', "not a certificate: no"),
        ('{"pacbayes_certificate": 2, "pacbayes_certificate": 2}', "given twice"),
        ('{"delta": NaN}', "NaN is no number"),
        ("[" * 100_000, "not JSON"),
        (" " * 2_000_000, "longer than 1000000 characters"),
        ('{"delta": ' + "9" * 5000 + "}", "not a certificate"),
    ],
)
def test_what_is_not_a_certificate_is_refused(text, message):
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(text)


def test_odd_values_are_refused():
    values = json.loads(certified().to_json())
    values["n_validation"] = "many"
    with pytest.raises(CertificateError, match=r"n_validation must be a whole number in .*got 'many'"):
        Certificate.from_json(reseal(values))


def test_text_says_what_is_proved_and_what_is_assumed():
    text = str(certified())
    assert "With probability 0.95" in text
    assert "global minimum of the lambda bound, proved" in text
    assert "strict, assuming:" in text
    assert "independent, identically distributed" in text
    assert text.index("majority vote") < text.index("randomised classifier")
    text = str(certified(strict=False, n_max=500, voting="best"))
    assert "NOT STRICT" in text
    assert "400 to 500 validation points" in text
    assert "all weight on the hypothesis with the smallest validation loss" in text
    assert "nothing is proved" in str(certify([1.0], 10)[0])
    assert "whose minimum is at least" in str(replace(certified(), global_minimum=False))


def test_a_lower_bound_is_printed_rounded_down():
    text = str(replace(certified(), global_minimum=False, minimum_lower_bound=0.12345699))
    assert "at least 0.123456" in text


def test_text_from_a_file_does_not_command_the_terminal():
    certificate = replace(certified(loss="x\x1b[2K\ry"), assumptions=("a\x1b]0;title\x07", "b\nstrict, assuming:"))
    for shown in (str(certificate), certificate.summary(), certificate._repr_html_()):
        assert "\x1b" not in shown
        assert "\r" not in shown
    assert "\\x1b[2K" in certificate.summary()
    assert len(str(certificate).splitlines()) == len(str(certified(loss="x")).splitlines())


@pytest.mark.parametrize("way", WAYS)
def test_the_summary_and_the_notebook_say_the_same(way):
    certificate = certified(**way)
    assert certificate.summary().replace("<", "&lt;") in certificate._repr_html_().replace("&#x27;", "'")
    for assumption in certificate.assumptions:
        assert assumption in certificate._repr_html_()


def test_rows_hold_every_statement_and_what_to_compare_it_with():
    certificate = certified()
    rows = certificate.rows()
    assert [row.kind for row in rows].count("measured") == 1
    certified_rows = [row for row in rows if row.kind == "certified"]
    assert [row.value for row in certified_rows] == [statement.bound for statement in certificate.statements]
    compared = {row.label: row.value for row in rows if row.kind == "comparison"}
    assert compared["square-root relaxation"] >= certificate.gibbs_bound
    assert compared["Chernoff, if tested on 400 points"] == certificate.held_out_bound()


def test_comparison_with_a_held_out_set():
    certificate = certified()
    held_out = bounds.single_hypothesis_kl(certificate.empirical_loss, 400, 0.05)
    assert certificate.held_out_bound() == held_out < certificate.gibbs_bound
    assert certificate.held_out_bound(0.2) == bounds.single_hypothesis_kl(0.2, 400, 0.05)


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


# ---------------------------------------------------------------------------------------------------
# The first format
# ---------------------------------------------------------------------------------------------------


def first_format(certificate, **changes):
    """A certificate as version 0.1.0 wrote it."""
    values = json.loads(certificate.to_json())
    for name in ("statements", "digests", "checksum"):
        del values[name]
    bounds_stated = {"gibbs_bound": certificate.gibbs_bound, "vote_bound": certificate.vote_bound}
    old = {"assumptions": ["the sample is independent and identically distributed, and so are the points to predict"]}
    return json.dumps(values | bounds_stated | old | changes | {"pacbayes_certificate": 1})


@pytest.mark.parametrize("way", WAYS)
def test_the_first_format_is_read_and_says_what_it_did_not_say(way):
    certificate = certified(**way)
    again = Certificate.from_json(first_format(certificate))
    assert again.statements == certificate.statements
    assert set(FIT_ASSUMPTIONS) <= set(again.assumptions)
    again.verify(LOSSES, way.get("prior"))


@pytest.mark.parametrize("field", ["gibbs_bound", "vote_bound"])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1 - 1e-7, 1 - 1e-15])
def test_lowered_bounds_of_the_first_format_are_refused(field, factor):
    certificate = certified()
    with pytest.raises(CertificateError, match=f"{field} is stated as"):
        Certificate.from_json(first_format(certificate, **{field: getattr(certificate, field) * factor}))
