import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from binomial_oracle import binomial_upper
from hypothesis import given
from hypothesis import strategies as st

from pacbayes import Certificate, CertificateError, bounds, certify
from pacbayes._json_fields import checksum
from pacbayes.certificate import (
    OBJECTIVES,
    VOTINGS,
    Event,
    Objective,
    Section,
    Voting,
    choose_voters,
    with_test,
    with_unlabelled,
)
from pacbayes.certificate._statements import bound_count, least_conjugate, least_direct_bound
from pacbayes.posterior import dual_bound, minimize_direct_bound, minimize_lambda_bound

LOSSES = np.array([30, 33, 40, 41, 60, 100, 180]) / 400
WAYS = [
    {},
    {"objective": "kl"},
    {"objective": "dual"},
    {"objective": "direct"},
    {"n_votes": 3},
    {"n_votes": 2, "voting": "best"},
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
    return json.dumps({**content, "checksum": checksum(content)})


def test_figures_are_those_of_the_minimiser():
    certificate, rho = certify(LOSSES, 400, delta=0.1)
    result = minimize_lambda_bound(LOSSES, 400, delta=0.1, method="global")
    np.testing.assert_array_equal(rho, result.rho)
    assert certificate.lam == result.lam
    assert certificate.gibbs_bound == pytest.approx(bounds.direct_bound(rho, LOSSES, 400, delta=0.1), rel=1e-12)
    assert certificate.gibbs_bound < bounds.pac_bayes_kl(result.loss, result.kl_div, 400, 0.1)
    assert certificate.global_minimum
    assert certificate.minimum_lower_bound == result.lower
    assert certificate.quasiconvex is not None
    assert certificate.strict
    assert certificate.n_hypotheses == 7


def test_the_direct_objective_is_never_worse():
    certificate, _ = certify(LOSSES, 400, objective="direct")
    assert certificate.gibbs_bound == pytest.approx(minimize_direct_bound(LOSSES, 400).fun, rel=1e-12)
    assert certificate.global_minimum
    for objective in ("lambda", "kl", "dual"):
        assert certificate.gibbs_bound < certified(objective=objective).gibbs_bound


def test_what_was_stated_before_the_direct_bound_is_verified():
    """Of losses, sizes and a prior in every combination that was stated otherwise, by that version."""
    lines = (Path(__file__).parent / "verified_before.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 23
    for case in map(json.loads, lines):
        certificate = Certificate.from_json(json.dumps(case["certificate"]))
        assert "pac-bayes-direct" not in [statement.method for statement in certificate.statements]
        certificate.verify(case["losses"], case["prior"], case["n"])
        # What is stated now is not larger, but for rounding.
        again, _ = certify(
            case["losses"],
            case["n"],
            prior=case["prior"],
            objective=certificate.objective,
            voting=certificate.voting,
            n_votes=certificate.n_votes,
            loss=certificate.loss,
        )
        assert again.gibbs_bound <= certificate.gibbs_bound * (1 + 1e-12)


@pytest.mark.parametrize("figures", [{"adjusted_loss": 0.0}, {"log_nu": -50.0}, {"adjusted_loss": -1e3, "log_nu": 3.0}])
def test_a_direct_bound_has_a_smallest_value(figures):
    """Whatever is claimed of its parts, that losses within their noise are possible is known."""
    certificate = certified(objective="direct")
    gibbs = certificate.statements[1]
    assert gibbs.method == "pac-bayes-direct"
    least = least_direct_bound(certificate.empirical_loss, 400, 0.05)
    assert certificate.empirical_loss < least < gibbs.bound
    edited = replace(gibbs, figures={**gibbs.figures, **figures}, bound=least * (1 - 1e-6))
    with pytest.raises(CertificateError, match=r"statements\[1\].bound (must be at least|is stated as)"):
        replace(certificate, statements=(certificate.statements[0], edited)).check()


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([40, 160])), min_size=1, max_size=5), st.integers(0, 99))
def test_no_direct_bound_is_below_its_smallest_value(counts, seed):
    losses, n = np.array([k / 40 for k, _ in counts]), np.array([n for _, n in counts])
    rho = np.random.default_rng(seed).dirichlet(np.ones(losses.size))
    for delta in (0.05, 0.9):
        assert bounds.direct_bound(rho, losses, n, delta=delta) >= least_direct_bound(rho @ losses, n.max(), delta)


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
    assert certificate.bound == pytest.approx(binomial_upper(30, 400, 0.05 / 7), rel=1e-9)
    assert certificate.vote_bound == certificate.gibbs_bound == certificate.bound
    assert certificate.lam is None
    _, rho = certify(LOSSES, 400, voting="best", prior=[0, 0, 0.5, 0.5, 0, 0, 0])
    assert np.argmax(rho) == 2


def test_of_hypotheses_with_unequal_validation_sets_the_smallest_bound_is_best():
    losses, n = [1 / 10, 12 / 100], [10, 100]
    certificate, rho = certify(losses, n, voting="best")
    assert rho.tolist() == [0, 1]
    assert certificate.bound == pytest.approx(binomial_upper(12, 100, 0.025), rel=1e-9)
    certificate.verify(losses, n=n)
    with pytest.raises(CertificateError):
        certificate.verify(losses, n=[10, 101])


@given(st.integers(0, 2**32 - 1), st.sampled_from(["uniform", "two", "own"]))
def test_no_hypothesis_has_a_clearly_smaller_bound_than_the_best(seed, kind):
    """Against the bounds of all hypotheses: the smallest loss of those within 3% of the smallest bound."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 40))
    n = rng.choice([60, 100, 200], size=m)
    errors = rng.integers(0, 30, size=m)
    weights = {"uniform": np.ones(m), "two": rng.choice([1.0, 3.0], size=m), "own": rng.random(m) + 0.1}[kind]
    prior = weights / weights.sum()
    _, rho = certify(errors / n, n, voting="best", prior=None if kind == "uniform" else prior)
    best = int(np.argmax(rho))
    exact = np.array(
        [binomial_upper(int(k), int(size), 0.05 * mass) for k, size, mass in zip(errors, n, prior, strict=True)]
    )
    assert exact[best] <= exact.min() * 1.03 * (1 + 1e-6)
    clearly_close = exact <= exact.min() * 1.03 * (1 - 1e-6)
    assert errors[best] / n[best] <= (errors / n)[clearly_close].min()


@given(st.integers(10, 3000), st.floats(0, 0.8), st.sampled_from([0.4, 0.05, 1e-6]), st.floats(0, 20))
def test_counts_are_bounded_by_the_smaller_of_both_bounds(n, share, delta, kl_div):
    errors = int(share * n)
    bound = bound_count(delta, errors, n, kl_div)
    chernoff = bounds.kl_inverse_upper(errors / n, (kl_div - math.log(delta)) / n)
    exact = binomial_upper(errors, n, delta * math.exp(-kl_div))
    assert exact * (1 - 1e-12) <= bound <= min(chernoff, exact) * (1 + 1e-7)


def test_a_loss_that_is_no_share_of_errors_is_bounded_by_chernoff():
    certificate, _ = certify([0.1234, 0.5], 100, voting="best")
    assert certificate.statements[0].method == "chernoff"
    assert certificate.bound == pytest.approx(bounds.kl_inverse_upper(0.1234, math.log(2 / 0.05) / 100), rel=1e-12)


@pytest.mark.parametrize("voting", ["majority", "gibbs", "best", "uniform"])
@pytest.mark.parametrize("objective", ["lambda", "kl", "dual", "direct"])
def test_competing_votes_divide_delta(voting, objective):
    """Statements of one of k votes are those of a vote alone at delta / k."""
    shared = certified(voting=voting, objective=objective, n_votes=4)
    alone = certified(voting=voting, objective=objective, delta=0.05 / 4)
    assert [s.predictor for s in shared.statements] == [s.predictor for s in alone.statements]
    for statement, other in zip(shared.statements, alone.statements, strict=True):
        assert statement.delta == 0.05
        assert statement.bound == pytest.approx(other.bound, rel=1e-9)
        assert statement.bound >= other.bound * (1 - 1e-12)


def test_the_vote_of_a_heavy_voter_is_that_voter():
    losses = [0.01, 0.4, 0.4]
    certificate, rho = certify(losses, 2000)
    vote = certificate.statements[0]
    assert rho[0] > 0.5
    assert vote.method == "heavy-voter"
    # The bound of a point mass, by the same event.
    assert vote.bound == pytest.approx(bounds.direct_bound([1.0, 0.0, 0.0], losses, 2000), rel=1e-9)
    values = json.loads(certificate.to_json())
    values["statements"][0]["figures"]["weight"] = 0.5
    with pytest.raises(CertificateError, match="weight"):
        Certificate.from_json(reseal(values))


@pytest.mark.parametrize("n_votes", [1, 2])
def test_a_dual_bound_that_proves_nothing_is_a_certificate(n_votes):
    certificate, _ = certify([1.0, 1.0], [5, 9], objective="dual", n_votes=n_votes)
    assert certificate.gibbs_bound == certificate.vote_bound == 1
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_the_dual_bound_takes_each_hypothesis_by_its_own_points():
    n = np.array([400, 400, 400, 400, 400, 20, 20])
    dual, _ = certify(LOSSES, n, objective="dual")
    assert dual.statements[1].method == "pac-bayes-direct"
    assert dual.gibbs_bound < bounds.pac_bayes_kl(dual.empirical_loss, dual.kl_div, 20, n_max=400)
    dual.verify(LOSSES, n=n)
    # The weights of another objective are bounded in the same way.
    assert certify(LOSSES, n)[0].statements[1].method == "pac-bayes-direct"


# ---------------------------------------------------------------------------------------------------
# Points that were held out, and points without labels
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["majority", "gibbs", "best", "uniform"])
def test_held_out_points_come_first(voting):
    tested = with_test(certified(voting=voting, n_votes=2), 7, 90)
    first = tested.statements[0]
    assert first.predictor == tested.predictor
    assert first.event == Event.TEST_SET
    assert tested.bound == pytest.approx(binomial_upper(7, 90, 0.025), rel=1e-9)
    assert len({statement.predictor for statement in tested.statements}) == len(tested.statements)
    again = Certificate.from_json(tested.to_json())
    assert again == tested
    again.verify(LOSSES)
    assert "7 errors on 90 points" in str(tested)
    if len(tested.statements) > 1:
        # What does not hold jointly is not said in one sentence.
        assert tested.statements[1].predictor not in tested.summary()


@pytest.mark.parametrize(
    ("figure", "value", "message"), [("errors", 0, "bound"), ("n", 900, "bound"), ("kl_div", 0.0, "competing votes")]
)
def test_edited_results_of_a_test_are_refused(figure, value, message):
    values = json.loads(with_test(certified(n_votes=2), 7, 90).to_json())
    values["statements"][0]["figures"][figure] = value
    edited = values["statements"][0]
    if message == "bound":
        edited["bound"] *= 1 - 1e-15
        edited["figures"][figure] = {"errors": 7, "n": 90}[figure]
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(reseal(values))


def test_another_loss_is_tested_by_chernoff():
    tested = with_test(certified(loss="cost matrix"), 7.5, 90)
    assert tested.bound == pytest.approx(bounds.kl_inverse_upper(7.5 / 90, -math.log(0.05) / 90), rel=1e-12)


def test_unlabelled_points_bound_the_vote_by_the_best_of_some_voters():
    certificate, rho = certify(LOSSES, 400)
    divergences = np.full(7, math.log(7))
    voters = choose_voters(rho, LOSSES, np.full(7, 400), divergences, 0.05)
    assert 0 in voters
    apart = np.arange(voters.size) + 3
    result = with_unlabelled(certificate, LOSSES[voters], np.full(voters.size, 400), divergences[voters], apart, 1000)
    statement = result.statements[0]
    figures = statement.figures
    # The two failures share delta, and so do the voters.
    spent = 7 * math.exp(-figures["kl_div"]) + voters.size * math.exp(-figures["kl_unlabelled"])
    assert spent <= 1 + 1e-12
    voter = binomial_upper(figures["errors"], 400, 0.05 * math.exp(-figures["kl_div"]))
    disagreement = binomial_upper(figures["disagreements"], 1000, 0.05 * math.exp(-figures["kl_unlabelled"]))
    assert statement.bound == pytest.approx(voter + disagreement, rel=1e-9)
    assert Certificate.from_json(result.to_json()) == result


def test_uniform_pays_nothing():
    certificate, rho = certify(LOSSES, 400, voting="uniform")
    np.testing.assert_allclose(rho, 1 / 7)
    assert certificate.kl_div == 0
    assert certificate.gibbs_bound == pytest.approx(bounds.direct_bound(rho, LOSSES, 400), rel=1e-11)


def test_the_vote_is_bounded_for_the_zero_one_loss_only():
    assert certified(loss="brier").vote_bound == 1
    assert "majority vote" not in [statement.predictor for statement in certified(loss="brier").statements]


@pytest.mark.parametrize(
    ("voting", "predictors"),
    [
        ("majority", ["majority vote", "randomised classifier", "best hypothesis"]),
        ("uniform", ["majority vote", "randomised classifier", "best hypothesis"]),
        ("gibbs", ["randomised classifier", "majority vote", "best hypothesis"]),
        ("best", ["best hypothesis"]),
    ],
)
def test_the_first_statement_is_about_what_predict_does(voting, predictors):
    certificate = certified(voting=voting)
    assert [statement.predictor for statement in certificate.statements] == predictors
    assert certificate.predictor == predictors[0]
    assert certificate.bound == certificate.statements[0].bound
    assert len({s.event for s in certificate.statements if s.predictor != "best hypothesis"}) <= 1
    assert certificate.bound == (
        certificate.vote_bound if voting in ("majority", "uniform") else certificate.gibbs_bound
    )


@pytest.mark.parametrize("way", WAYS)
def test_json_and_back(way):
    certificate = certified(**way)
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.to_json() == certificate.to_json()


def test_files_that_were_written_before_are_read_and_written_alike():
    """Of fits and losses, by an earlier version: each line of the file is one certificate."""
    lines = (Path(__file__).parent / "written_before.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 9
    for line in lines:
        certificate = Certificate.from_json(line)
        text = certificate.to_json()
        assert json.dumps(json.loads(text)) == line
        assert Certificate.from_json(text) == certificate


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
        *((f'{{"pacbayes_certificate": {version}}}', "not a certificate: no") for version in (1, 2, 3, 5)),
        ('{"pacbayes_certificate": 4}', "checksum"),
        ('{"pacbayes_certificate": true}', "not a certificate: no"),
        ('{"pacbayes_certificate": 2, "pacbayes_certificate": 2}', "given twice"),
        ('{"delta": NaN}', "NaN is not a number"),
        ("[" * 100_000, "not JSON"),
        (" " * 10_000_001, "longer than 10000000 characters"),
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
    assert text.startswith(certified().summary())
    assert "global minimum of the lambda bound, proved" in text
    assert "\nStrict, assuming that:\n" in text
    assert "independent, identically distributed" in text
    assert text.index("majority vote") < text.index("randomised classifier")
    assert "voting='best'" in text
    assert "not all of them at once" in text
    text = str(certify(LOSSES, [400, 500, 400, 400, 400, 400, 400], strict=False, voting="best")[0])
    assert re.search("Validation points of each +400 to 500", text)
    assert "all weight on the best hypothesis" in text
    assert "nothing is proved" in str(certify([1.0], 10)[0])
    assert "whose minimum is at least" in str(replace(certified(), global_minimum=False))


@pytest.mark.parametrize("tested", [False, True])
def test_what_is_not_strict_is_said_first(tested):
    certificate = certify(LOSSES, 400, strict=False)[0]
    if tested:
        certificate = with_test(certificate, 7, 90)
    first = str(certificate).splitlines()[:2]
    assert "NOT STRICT: the theorem" in first[1]
    assert ("The theorem does not cover this fit" in first[0]) != tested
    assert first[1].strip() in certificate._repr_html_()
    assert "NOT STRICT" not in str(certified())


@pytest.mark.parametrize("way", WAYS)
def test_text_and_notebook_show_the_same_sections(way):
    """One structure: every cell and note of it is in both."""
    certificate = certified(**way)
    text, page = str(certificate), unescape(certificate._repr_html_())
    for section in certificate.sections(most_predicted=12):
        assert len({len(row) for row in section.rows} | ({len(section.header)} if section.header else set())) <= 1
        cells = [cell for row in section.rows for cell in row]
        for words in (section.title, *section.header, *cells, *section.notes, *section.warnings):
            assert words in text
            assert words in page


def test_numbers_are_set_to_the_right():
    rows = [["one", "5", "-"], ["two", "1000", "7.5%"]]
    assert Section("", ["name", "n", "share"], rows).numeric == [False, True, True]
    counts = np.array([[900, 9, 0], [8, 7, 0], [0, 0, 0]])
    labelled = replace(certified(), labels=("a", "b"), label_counts=(909, 15))
    table = str(with_test(labelled, 17, 924, counts)).split("By class")[1].splitlines()[1:4]
    assert len({len(line) for line in table}) == 1
    assert [line.split()[-2:] for line in table[1:]] == [["900", "9"], ["8", "7"]]


def test_what_does_not_hold_jointly_is_said_wherever_bounds_are_shown():
    several, one = certified(), certified(voting="best")
    assert len({statement.event for statement in several.statements}) > 1
    for shown in (str(several), several._repr_html_(), " ".join(several.figures().values())):
        assert "not all of them at once" in shown
    for shown in (str(one), one._repr_html_(), " ".join(one.figures().values())):
        assert "at once" not in shown


def test_a_lower_bound_is_printed_rounded_down():
    text = str(replace(certified(), global_minimum=False, minimum_lower_bound=0.12345699))
    assert "at least 0.123456" in text


def test_text_from_a_file_does_not_command_the_terminal():
    codes = ("stated:a\x1b]0;title\x07", "stated:b\nstrict, assuming:")
    certificate = replace(certified(loss="x\x1b[2K\ry"), assumption_codes=codes)
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
    assert certificate.empirical_loss <= certificate.gibbs_bound <= 1
    assert certificate.vote_bound <= bounds.majority_vote(certificate.gibbs_bound) * (1 + 1e-11)
    Certificate.from_json(certificate.to_json()).verify(losses)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "hinge"}, "objective must be 'direct', 'dual', 'lambda', 'kl', 'relative' or 'stacking'"),
        ({"objective": "dual", "n_max": 500}, "n must hold the number of points of every hypothesis"),
        ({"voting": "best", "n_max": 500}, "n must hold the number of points of every hypothesis"),
        ({"prior": [0.5, 0.5]}, "prior must have one entry per hypothesis"),
        ({"n_votes": 0}, "n_votes must be a whole number, at least 1, got 0"),
        ({"n_votes": 2.5}, "n_votes must be a whole number, at least 1, got 2.5"),
        ({"voting": "loud"}, "voting must be 'majority', 'gibbs', 'best', 'uniform' or 'mean', got 'loud'"),
        ({"delta": 2}, r"delta must be in \(0, 1\), got 2"),
        ({"n_max": 100}, "n_max must be a whole number, at least 400, got 100"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(LOSSES, 400, **arguments)


def test_a_delta_that_cannot_be_divided_is_refused():
    with pytest.raises(ValueError, match=r"delta must be larger, got 5e-324: divided by 2 votes that compete"):
        certify(LOSSES, 400, delta=5e-324, n_votes=2)
    with pytest.raises(ValueError, match=r"delta must be larger, got 5e-324: times the prior mass"):
        certify([0.1, math.nan, math.nan], 400, delta=5e-324)
    assert certify(LOSSES, 400, delta=5e-324, voting="best")[0].bound < 1


def test_every_name_of_an_objective_and_a_voting_has_its_object():
    assert tuple(OBJECTIVES) == get_args(Objective)
    assert tuple(VOTINGS) == get_args(Voting)


# ---------------------------------------------------------------------------------------------------
# Figures at the edge of their range, and beyond
# ---------------------------------------------------------------------------------------------------


def unlabelled():
    figures = np.full(1, 0.1), np.full(1, 400), np.full(1, math.log(7)), np.full(1, 3), 1000
    return with_unlabelled(certified(), *figures)


def edit_figures(certificate, method, **figures):
    """A certificate with other figures of the statement by a method, whose bound is 1 to be on the safe side."""
    values = json.loads(certificate.to_json())
    statement = next(one for one in values["statements"] if one["method"] == method)
    statement["figures"] |= figures
    statement["bound"] = 1.0
    return reseal(values)


@pytest.mark.parametrize(
    ("certificate", "method", "figures"),
    [
        (certified(voting="best"), "clopper-pearson", {"errors": 401}),
        (certified(n_max=450), "pac-bayes-kl", {"n": 451}),
        (with_test(certified(), 7, 90), "test-set", {"errors": 91}),
        (unlabelled(), "disagreement", {"errors": 401}),
        (unlabelled(), "disagreement", {"disagreements": 1001}),
        (certified(voting="best", loss="brier"), "chernoff", {"loss": 1.5}),
        (with_test(certified(loss="brier"), 7.5, 90), "test-set-chernoff", {"n": 0}),
        (certified(n_max=450), "pac-bayes-kl", {"kl_div": -1e-300}),
        (certified(n_max=450), "pac-bayes-kl", {"n": 400.5}),
        (certified(), "pac-bayes-direct", {"loss": True}),
        (certified(), "pac-bayes-direct", {"kl_div": -1e-300}),
        (certified(), "pac-bayes-direct", {"log_nu": 1e16}),
    ],
)
def test_impossible_figures_are_refused_by_name(certificate, method, figures):
    with pytest.raises(CertificateError, match=rf"figures.*{next(iter(figures))}.* must be"):
        Certificate.from_json(edit_figures(certificate, method, **figures))
    statements = [
        replace(one, figures={**one.figures, **figures}, bound=1.0) if one.method == method else one
        for one in certificate.statements
    ]
    with pytest.raises(CertificateError, match=rf"figures.*{next(iter(figures))}.* must be"):
        replace(certificate, statements=tuple(statements)).check()


def test_the_errors_of_the_best_hypothesis_are_its_loss():
    certificate = certified(voting="best")
    first = certificate.statements[0]
    lower = type(first).by("clopper-pearson", first.predictor, "zero_one", 0.05, {**first.figures, "errors": 3})
    with pytest.raises(CertificateError, match=r"figures\['errors'\] / n is stated as"):
        replace(certificate, statements=(lower,)).check()


def dual(mu, adjusted):
    """A dual statement with a multiplier, and what is claimed of E[psi(mu)]; all else as it is."""
    certificate = certified(objective="dual")
    gibbs = certificate.statements[1]
    figures = {"mu": mu, "adjusted_loss": adjusted, "kl_div": gibbs.figures["kl_div"]}
    return certificate, type(gibbs).by("pac-bayes-dual", gibbs.predictor, "zero_one", 0.05, figures)


@pytest.mark.parametrize("mu", [0.0, 5e-324, 1e-12, 1e-6, 1e-4])
def test_a_small_multiplier_does_not_make_the_dual_bound_small(mu):
    """psi(0) = 1: what is saved in mu (KL + ln(1 / delta)) is lost in E[psi(mu)]."""
    certificate, gibbs = dual(mu, certified(objective="dual").empirical_loss)
    statements = (replace(certificate.statements[0], bound=1.0, method="first-order"), gibbs)
    forged = replace(certificate, statements=(replace(statements[0], figures={"gibbs_bound": gibbs.bound}), gibbs))
    if mu == 0:
        assert gibbs.bound == 1
        forged = replace(forged, statements=(forged.statements[0], replace(gibbs, bound=0.08)))
    with pytest.raises(CertificateError, match=r"statements\[1\]"):
        forged.check()


@pytest.mark.parametrize("n", [3, 40, 400, 10**6])
@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-4, 1e-3, 0.02, 1.0])
def test_the_least_conjugate_is_below_that_of_every_posterior(n, mu):
    """Against the dual bound itself: F(mu) - mu ln(1 / delta) is E[psi] + mu KL at the best posterior."""
    rng = np.random.default_rng(0)
    for losses in (np.array([0.0]), np.array([1.0]), np.array([0.3]), rng.integers(0, n + 1, 20) / n):
        for h, loss in enumerate(losses):
            psi = dual_bound(losses[h : h + 1], mu, n, comparator="mixture") + mu * math.log(0.05)
            assert least_conjugate(mu, float(loss), n) <= psi * (1 + 1e-9)
        weights = rng.dirichlet(np.ones(losses.size))
        mean = sum(
            w * (dual_bound([loss], mu, n, comparator="mixture") + mu * math.log(0.05))
            for w, loss in zip(weights, losses, strict=True)
        )
        assert least_conjugate(mu, float(weights @ losses), n) <= mean * (1 + 1e-9)
