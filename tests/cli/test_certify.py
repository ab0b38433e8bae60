import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_session import QUICK, table

from pacbayes import Certificate, certify
from pacbayes._formatting import format_percent, format_percent_upper, format_upper
from pacbayes._json_fields import checksum
from pacbayes.bounds import clopper_pearson

LOSSES = [0.1, 0.12, 0.15, 0.3, 0.45]


@pytest.fixture
def losses(invoke):
    Path("losses.csv").write_text("\n".join(map(str, LOSSES)) + "\n")


@pytest.mark.slow
def test_losses_with_the_real_program(run, tmp_path):
    (tmp_path / "losses.csv").write_text("\n".join(map(str, LOSSES)))
    result = run("certify", "losses.csv", "--n", 500, "-o", "certificate.json")
    assert result.returncode == 0, result.stderr
    assert format_upper(certify(LOSSES, 500)[0].gibbs_bound) in result.stdout
    assert result.stdout.endswith("certificate  certificate.json\n")
    assert run("verify", "certificate.json", "--losses", "losses.csv").returncode == 0


def test_losses_as_json(invoke, losses):
    result = invoke("certify", "losses.csv", "--n", 500, "--n-max", 600, "--delta", 0.01, "--objective", "kl", "--json")
    values = json.loads(result.stdout)
    certificate, rho = certify(LOSSES, 500, n_max=600, delta=0.01, objective="kl")
    assert Certificate.from_json(json.dumps(values["certificate"])) == certificate
    assert values["posterior"] == rho.tolist()


def test_a_column_of_losses(invoke, refuses):
    pd.DataFrame({"name": list("abcde"), "loss": LOSSES}).to_csv("table.csv", index=False)
    pd.DataFrame({"loss": LOSSES}).to_csv("one.csv", index=False)
    named = invoke("certify", "table.csv", "--n", 500, "--column", "loss", "--json")
    alone = invoke("certify", "one.csv", "--n", 500, "--json")
    assert named.exit_code == alone.exit_code == 0
    assert named.stdout == alone.stdout
    assert "there are 2 columns, 'name', 'loss': name the one" in refuses("certify", "table.csv", "--n", 500)
    assert "there is no column 'x', only 'name', 'loss'" in refuses("certify", "table.csv", "--n", 5, "--column", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0.1\n1.5\n", "line 2: a loss must be a number in [0, 1], got '1.5'"),
        ("loss\n0.1\nlow\n", "line 3: a loss must be a number in [0, 1], got 'low'"),
        ("0.1\n0.2,0.3\n", "line 2: 2 cells, and the first row has 1"),
        ("loss\n", "there is a header and there are no losses"),
        ("", "is empty"),
        ("\n\n", "nothing but empty lines"),
        ("0.1\n\n0.2\nnan\n", "line 4: a loss must be a number in [0, 1], got 'nan'"),
    ],
)
def test_losses_that_are_none(refuses, content, message):
    Path("losses.csv").write_text(content)
    assert message in refuses("certify", "losses.csv", "--n", 500)


def test_numbers_that_cannot_be(refuses, losses):
    assert "--n is needed" in refuses("certify", "losses.csv")
    assert "n must be a whole number, at least 1" in refuses("certify", "losses.csv", "--n", 0)
    assert "delta must be in (0, 1), got 2.0" in refuses("certify", "losses.csv", "--n", 10, "--delta", 2)
    assert "'none.csv': there is no such file" in refuses("certify", "none.csv", "--n", 10)
    assert "there is no folder" in refuses("certify", "losses.csv", "--n", 10, "-o", "nowhere/c.json")


def test_a_model_on_fresh_rows(invoke, fitted):
    fresh = table(80, seed=3).assign(remark="extra columns are fine here")
    fresh.to_csv("fresh.csv", index=False)
    values = json.loads(invoke("certify", "--model", "model.skops", "fresh.csv", "--delta", 0.1, "--json").stdout)
    X = fresh[["size", "<b>noise</b>", "city", "open"]].assign(open=fresh["open"].map(str))
    errors = int(np.sum(fitted.predict(X) != fresh["kind"].to_numpy()))
    assert values["kind"] == "held-out test bound (Clopper-Pearson) on the vote"
    assert (values["rows"], values["errors"]) == (80, errors)
    assert values["bound"] == clopper_pearson(errors, 80, 0.1)
    certificate = Certificate.from_json(json.dumps(values["certificate"]))
    assert certificate.confusion.errors == errors
    shown = invoke("certify", "--model", "model.skops", "fresh.csv", "--delta", 0.1, "-o", "fresh.json")
    assert Certificate.from_json(Path("fresh.json").read_text()) == certificate
    assert shown.stdout.startswith(certificate.summary())
    label, error = certificate.commonest_class
    assert f"always predicting {label!r} errs on" in shown.stdout
    assert format_percent(error) in shown.stdout
    for rates in certificate.class_rates():
        assert format_percent_upper(rates.misses.bound) in shown.stdout
        assert format_percent_upper(rates.false_alarms.bound) in shown.stdout
    assert "certificate  fresh.json" in shown.stdout


def test_a_model_and_the_wrong_rows(refuses, fitted, mixed):
    assert "is the file that the model was trained on" in refuses("certify", "--model", "model.skops", "data.csv")
    mixed.drop(columns="kind").to_csv("new.csv", index=False)
    assert "'new.csv': there is no column 'kind' with the classes" in refuses(
        "certify", "--model", "model.skops", "new.csv"
    )
    assert "belong to a file of losses" in refuses("certify", "--model", "model.skops", "new.csv", "--n", 5)


def test_numbers_as_classes(invoke, numeric):
    numeric["kind"] = (numeric["kind"] == "wet").astype(int)
    numeric.iloc[1::2].to_csv("data.csv", index=False)
    numeric.iloc[::2].to_csv("half.csv", index=False)
    numeric.iloc[::-1].to_csv("both.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    values = json.loads(invoke("certify", "--model", "model.skops", "half.csv", "--json").stdout)
    assert values["error"] < 0.3
    # Rows of the training sample are recognised among others, in any order.
    refused = invoke("certify", "--model", "model.skops", "both.csv")
    assert refused.exit_code == 2
    assert "75 of 150 rows are rows of the training sample" in refused.stderr


def edited(**changes):
    """Edit a certificate, by somebody who knows how its checksum is made."""
    values = json.loads(Path("model.certificate.json").read_text()) | changes
    values["checksum"] = checksum({name: value for name, value in values.items() if name != "checksum"})
    Path("edited.json").write_text(json.dumps(values))
    return "edited.json"


def test_levels_of_verification(invoke, fitted):
    levels = {
        "arithmetic": (),
        "arithmetic and model": ("--model", "model.skops"),
        "arithmetic, model and data": ("--model", "model.skops", "--data", "data.csv"),
    }
    for level, options in levels.items():
        values = json.loads(invoke("verify", "model.certificate.json", *options, "--json").stdout)
        assert values["verified"]
        assert values["level"] == level
        first, second = invoke("verify", "model.certificate.json", *options).stdout.splitlines()
        assert first == f"Verified: {level}. This shows that {values['proves']}."
        assert second == fitted.certificate_.summary()


def test_verify_with_the_model(invoke, refuses, fitted):
    by_model = ("--model", "model.skops")
    certificate = fitted.certificate_
    statements = json.loads(certificate.to_json())["statements"]
    statements[0]["bound"] = 0.01
    assert refuses("verify", edited(statements=statements)).startswith("statements[0].bound is stated as 0.01 but")
    assert refuses("verify", edited(assumptions=list(certificate.assumption_codes[1:]))).startswith(
        "assumptions must state"
    )
    assert "settings" in refuses("verify", edited(digests={**certificate.digests, "settings": "0" * 64}), *by_model)
    assert refuses("verify", edited(lam=0.1), *by_model).startswith("lam is stated as 0.1")
    # A certificate for more points than there were follows from its own figures, and is found out all the same.
    more, _ = certify(fitted.losses_, 10**6, assumptions=certificate.assumption_codes, digests=certificate.digests)
    Path("edited.json").write_text(more.to_json())
    assert invoke("verify", "edited.json").exit_code == 0
    assert refuses("verify", "edited.json", *by_model).startswith("statements[0].bound is stated as")


def test_verify_on_data(invoke, refuses, mixed):
    # The rows that were held out are drawn again, and words for missing values and separators are remembered.
    mixed.to_csv("data.csv", index=False, na_rep="?", sep=";")
    fit = ("fit", "data.csv", "--target", "kind", "--separator", ";", "--missing", "?", "--test-size", 0.3, "--seed", 4)
    assert invoke(*fit, *QUICK).exit_code == 0
    verify = ("verify", "model.certificate.json", "--model", "model.skops", "--data")
    assert invoke(*verify, "data.csv").exit_code == 0
    mixed["kind"] = mixed["kind"].map({"wet": "dry", "dry": "wet"})
    mixed.to_csv("flipped.csv", index=False, na_rep="?", sep=";")
    assert refuses(*verify, "flipped.csv").startswith("losses[0] is stated as")
    mixed.iloc[1:].to_csv("shorter.csv", index=False, na_rep="?", sep=";")
    assert refuses(*verify, "shorter.csv").startswith("'shorter.csv' has 149 rows, and the model was made from 150")
    assert "--data needs --model" in refuses("verify", "model.certificate.json", "--data", "data.csv")


def test_verify_with_losses(invoke, refuses, losses):
    assert invoke("certify", "losses.csv", "--n", 500, "-o", "model.certificate.json").exit_code == 0
    assert "Verified: arithmetic." in invoke("verify", "model.certificate.json").stdout
    result = invoke("verify", "model.certificate.json", "--losses", "losses.csv")
    assert "Verified: arithmetic and losses." in result.stdout
    message = refuses("verify", edited(n_hypotheses=9, minimum_over=9), "--losses", "losses.csv")
    assert message.startswith("n_hypotheses is stated as 9")
    Path("other.csv").write_text("0.2\n0.2\n0.2\n0.2\n0.2\n")
    assert "is stated as" in refuses("verify", "model.certificate.json", "--losses", "other.csv")
    assert "not both" in refuses("verify", "model.certificate.json", "--losses", "other.csv", "--model", "x")
    stacked, _ = certify([0.1, 0.2], 100, objective="stacking", posterior=[0.5, 0.5])
    Path("stacked.json").write_text(stacked.to_json(), encoding="utf-8")
    message = refuses("verify", "stacked.json", "--losses", "losses.csv")
    assert message == "weights by the objective 'stacking' do not follow from --losses: give --model, and its --data"


def test_verify_what_is_no_certificate(refuses):
    Path("a.json").write_text("{}")
    Path("b.json").write_text("no json")
    Path("c.json").write_bytes(b"\xff\xfe")
    assert "not a certificate" in refuses("verify", "a.json")
    assert "not a certificate" in refuses("verify", "b.json")
    assert "not a certificate" in refuses("verify", "c.json")
    assert "there is no file" in refuses("verify", "d.json")
    assert "is a folder" in refuses("verify", ".")
