import json

import numpy as np
import pandas as pd
from small_session import QUICK, table

from pacbayes import PACBayesClassifier
from pacbayes.io import load_model, save_model
from pacbayes.pools import RBFSVMPool
from pacbayes.rows import CodeBook


def test_standard_output(invoke, mixed, fitted):
    mixed.drop(columns="kind").to_csv("new.csv", index=False)
    as_csv = invoke("predict", "model.skops", "new.csv")
    lines = as_csv.stdout.splitlines()
    assert lines[0] == "prediction,share_dry,share_wet"
    assert len(lines) == 151
    values = json.loads(invoke("predict", "model.skops", "new.csv", "--json").stdout)
    assert values["classes"] == ["dry", "wet"]
    assert values["predictions"] == [line.split(",")[0] for line in lines[1:]]
    np.testing.assert_allclose(np.sum(values["shares"], axis=1), 1)


def test_calibrated_probabilities(invoke, refuses, mixed, fitted):
    mixed.drop(columns="kind").to_csv("new.csv", index=False)
    lines = invoke("predict", "model.skops", "new.csv", "--probabilities").stdout.splitlines()
    assert lines[0] == "prediction,share_dry,share_wet,probability_dry,probability_wet"
    values = json.loads(invoke("predict", "model.skops", "new.csv", "--probabilities", "--json").stdout)
    schema = load_model("model.skops")[1]
    X = schema.apply(pd.read_csv("new.csv"))
    expected = fitted.predict_proba(X)
    assert not np.allclose(expected, fitted.predict_shares(X))
    np.testing.assert_array_equal(values["probabilities"], expected)
    np.testing.assert_array_equal([list(map(float, line.split(",")[3:])) for line in lines[1:]], expected.round(4))
    # In parts as well.
    wanted = ("predict", "model.skops", "new.csv", "--probabilities", "--stream", "-o", "out.csv")
    assert invoke(*wanted).exit_code == 0
    np.testing.assert_array_equal(pd.read_csv("out.csv").filter(like="probability_"), expected.round(4))
    # A single hypothesis has no shares to calibrate.
    best = PACBayesClassifier(RBFSVMPool(), voting="best", n_hypotheses=8, random_state=0).fit(X, mixed["kind"])
    save_model(best, "model.skops", schema)
    assert refuses(*wanted).startswith("--probabilities: this model has shares of the vote only")


def test_the_order_of_columns_and_the_target_do_not_matter(invoke, mixed, fitted):
    mixed.to_csv("new.csv", index=False)
    mixed[mixed.columns[::-1]].drop(columns="kind").to_csv("reversed.csv", index=False)
    assert invoke("predict", "model.skops", "new.csv").stdout == invoke("predict", "model.skops", "reversed.csv").stdout


def test_categories_that_are_new(invoke, mixed, fitted):
    mixed.assign(city="Atlantis").to_csv("new.csv", index=False)
    assert invoke("predict", "model.skops", "new.csv", "-o", "out.csv").stdout == "150 predictions  out.csv\n"
    X = mixed.drop(columns="kind").assign(city="Atlantis", open=mixed["open"].map(str))
    assert pd.read_csv("out.csv")["prediction"].tolist() == fitted.predict(X).tolist()


def test_columns_that_do_not_fit(refuses, mixed, fitted):
    mixed.drop(columns=["city", "open"]).assign(town="Oslo").to_csv("new.csv", index=False)
    message = refuses("predict", "model.skops", "new.csv", "-o", "out.csv")
    assert message == "'new.csv': the table lacks 'city', 'open' and has 'town', which the model does not know"


def test_words_in_a_column_of_numbers(refuses, mixed, fitted):
    mixed.assign(size=["small"] + [1.0] * 149).to_csv("new.csv", index=False)
    assert refuses("predict", "model.skops", "new.csv") == "'new.csv': column 'size', row 1: 'small' is not a number"


def test_gaps_that_the_model_has_never_seen(invoke, numeric):
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    numeric.loc[3:5, "size"] = np.nan
    numeric.to_csv("new.csv", index=False)
    result = invoke("predict", "model.skops", "new.csv")
    assert result.exit_code == 0
    assert "there are missing values in columns that had none in training, 'size' (3): they are" in result.stderr


def test_outputs_that_would_destroy_something(refuses, mixed, fitted):
    assert "a file of their own" in refuses("predict", "model.skops", "data.csv", "-o", "data.csv")
    assert "a file of their own" in refuses("predict", "model.skops", "data.csv", "-o", "./model.skops")
    assert "there is no folder 'nowhere'" in refuses("predict", "model.skops", "data.csv", "-o", "nowhere/out.csv")


def test_a_dash_is_standard_output(invoke, mixed, fitted, tmp_path):
    mixed.to_csv("new.csv", index=False)
    assert (
        invoke("predict", "model.skops", "new.csv", "-o", "-").stdout
        == invoke("predict", "model.skops", "new.csv").stdout
    )
    assert not (tmp_path / "-").exists()


def test_a_table_is_validated_once(invoke, mixed, fitted, monkeypatch):
    mixed.to_csv("new.csv", index=False)
    encode, calls = CodeBook.encode, []
    monkeypatch.setattr(CodeBook, "encode", lambda self, X: (calls.append(len(X)), encode(self, X))[1])
    assert invoke("predict", "model.skops", "new.csv").exit_code == 0
    assert calls.count(150) == 1


def test_labels_that_look_like_the_names_of_pictures(invoke, numeric):
    numeric["kind"] = numeric["kind"].map({"wet": ":cat:", "dry": "[red]"})
    numeric.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", *QUICK)
    assert ":cat:" in result.stdout
    assert "always predicting '" in result.stdout


def test_a_model_without_columns(refuses, numeric):
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, random_state=0).fit(
        numeric.drop(columns="kind"), numeric["kind"]
    )
    save_model(model, "model.skops")
    numeric.to_csv("new.csv", index=False)
    assert "does not say what its columns are: it was saved without a schema" in refuses(
        "predict", "model.skops", "new.csv"
    )


def test_rows_whose_target_is_not_known_yet(invoke, mixed, fitted):
    mixed.assign(kind=None).to_csv("new.csv", index=False)
    result = invoke("predict", "model.skops", "new.csv")
    assert result.exit_code == 0, result.output


def test_words_for_missing_values_are_remembered(invoke, refuses, mixed):
    mixed.to_csv("data.csv", index=False, na_rep="unknown")
    assert invoke("fit", "data.csv", "--target", "kind", "--missing", "unknown", *QUICK).exit_code == 0
    assert invoke("predict", "model.skops", "data.csv").exit_code == 0


def test_labels_that_a_spreadsheet_would_compute(invoke, numeric):
    numeric["kind"] = numeric["kind"].map({"wet": "=1+1", "dry": "-"})
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    plain = invoke("predict", "model.skops", "data.csv")
    # The labels as they are, unless asked otherwise: predictions are to be compared with labels.
    assert {line.split(",")[0] for line in plain.stdout.splitlines()[1:]} == {"=1+1", "-"}
    assert "a spreadsheet would take '=1+1' for a formula: --escape-formulas" in plain.stderr
    escaped = invoke("predict", "model.skops", "data.csv", "--escape-formulas")
    assert {line.split(",")[0] for line in escaped.stdout.splitlines()[1:]} == {"'=1+1", "-"}
    assert "formula" not in escaped.stderr


def test_numbers_below_zero_are_no_formulas(invoke, numeric):
    numeric["kind"] = numeric["kind"].map({"wet": 1, "dry": -1})
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    assert "formula" not in invoke("predict", "model.skops", "data.csv").stderr


def test_rows_that_the_model_was_trained_on_are_named(invoke, mixed, fitted):
    mixed.iloc[::-3].drop(columns="kind").to_csv("part.csv", index=False)
    told = invoke("predict", "model.skops", "part.csv", "-o", "out.csv")
    assert told.exit_code == 0
    assert "50 of 50 rows are rows that the model was trained on: the certificate is about new rows" in told.stderr
    table(50, seed=3).drop(columns="kind").to_csv("new.csv", index=False)
    assert "trained on" not in invoke("predict", "model.skops", "new.csv", "-o", "out.csv").stderr


def test_labels_are_left_empty_where_nothing_is_proved(invoke, refuses, mixed, fitted):
    mixed.drop(columns="kind").to_csv("new.csv", index=False)
    rows = fitted.certificate_.abstention
    level = min(row.bound for row in rows)
    result = invoke("predict", "model.skops", "new.csv", "-o", "out.csv", "--max-error", str(level))
    labels, answered = fitted.predict_selective(
        mixed.drop(columns="kind").assign(open=mixed["open"].map(str)), max_error=level
    )
    assert result.exit_code == 0
    assert f"{np.count_nonzero(~answered)} of 150 rows have no label: the error among the others" in result.stderr
    written = pd.read_csv("out.csv")["prediction"]
    assert written.isna().tolist() == (~answered).tolist()
    assert written[answered].tolist() == labels[answered].tolist()
    values = json.loads(invoke("predict", "model.skops", "new.csv", "--max-error", str(level), "--json").stdout)
    assert [label is None for label in values["predictions"]] == (~answered).tolist()
    message = refuses("predict", "model.skops", "new.csv", "--max-error", "0.0001")
    assert message.startswith("max_error must be at least ")


def test_a_declared_error_is_tested_by_the_fit_and_answered_by(invoke, refuses, mixed):
    table(400).to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--max-error", 0.4, *QUICK)
    assert result.exit_code == 0, result.output
    assert "The error of at most 40.00% that was declared beforehand is proved" in result.stdout
    model = load_model("model.skops")[0]
    threshold = model.certificate_.declared.proved.threshold
    table(100, seed=5).drop(columns="kind").to_csv("new.csv", index=False)
    assert invoke("predict", "model.skops", "new.csv", "-o", "out.csv", "--max-error", 0.4).exit_code == 0
    written = pd.read_csv("out.csv")
    shares = written.filter(regex="^share_").max(axis=1)
    assert written["prediction"][shares > threshold + 1e-3].notna().all()
    assert written["prediction"][shares < threshold - 1e-3].isna().all()
    verify = ("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert invoke(*verify).exit_code == 0
    message = refuses("fit", "data.csv", "--target", "kind", "--max-error", 1.5, *QUICK)
    assert message.startswith("max_error must be in (0, 1)")


def test_sets_of_classes_are_columns(invoke, refuses, mixed, fitted):
    mixed.drop(columns="kind").to_csv("new.csv", index=False)
    assert invoke("predict", "model.skops", "new.csv", "-o", "out.csv", "--coverage", "0.6").exit_code == 0
    sets = pd.read_csv("out.csv")[["set_dry", "set_wet"]].to_numpy()
    X = mixed.drop(columns="kind").assign(open=mixed["open"].map(str))
    assert np.array_equal(sets, fitted.predict_set(X, coverage=0.6))
    message = refuses("predict", "model.skops", "new.csv", "--coverage", "0.9999")
    assert message.startswith("coverage of 0.9999 needs at least ")
