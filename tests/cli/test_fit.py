import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from small_session import QUICK, table

from pacbayes import Certificate, PACBayesClassifier
from pacbayes.io import Column, load_model, split_rows
from pacbayes.pools import DEFAULT_FAMILIES, RBFSVMPool


@pytest.mark.slow
def test_fit_and_everything_after_it(run, tmp_path, mixed):
    # A user's whole session, with the real program.
    mixed.to_csv(tmp_path / "data.csv", index=False)
    new = table(60, seed=1)
    new.to_csv(tmp_path / "fresh.csv", index=False)
    new.drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)

    fitted = run("fit", "data.csv", "--target", "kind", *QUICK)
    assert fitted.returncode == 0, fitted.stderr
    assert "150 rows; 2 columns of numbers and 2 of text, as read from the file; 2 classes in 'kind'" in fitted.stdout
    assert "missing values in 'size' (9), 'city' (7)" in fitted.stdout
    assert "the majority vote errs on at most" in fitted.stdout
    assert "over the draw of the sample (delta = 0.05), the majority vote errs on at most" in fitted.stdout
    assert "was read from the file" in fitted.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "data.csv",
        "fresh.csv",
        "new.csv",
        "model.skops",
        "model.certificate.json",
    }

    predicted = run("predict", "model.skops", "new.csv", "-o", "out.csv")
    assert predicted.returncode == 0, predicted.stderr
    with (tmp_path / "out.csv").open() as file:
        written = pd.DataFrame(list(csv.DictReader(file))).astype({"share_dry": float, "share_wet": float})
    model, schema = load_model(tmp_path / "model.skops")
    assert schema.target == "kind"
    X = new.drop(columns="kind").assign(open=new["open"].map(str))
    assert written["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(written[["share_dry", "share_wet"]].to_numpy(), model.predict_shares(X).round(4))
    assert np.mean(written["prediction"] == new["kind"]) > 0.8

    tested = run("certify", "--model", "model.skops", "fresh.csv", "--target", "kind")
    assert tested.returncode == 0, tested.stderr
    assert "held-out test-set bound for a single classifier (Clopper-Pearson, exact)" in tested.stdout

    verified = run("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert verified.returncode == 0, verified.stderr
    assert "Verified: arithmetic, model and data." in verified.stdout


def test_weights_by_the_vote_itself_can_be_asked_for_and_are_verified(invoke, numeric):
    numeric.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--seed", 7, "--objective", "stacking", *QUICK)
    assert result.exit_code == 0, result.output
    model, _ = load_model("model.skops")
    by_hand = PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, objective="stacking", random_state=7).fit(
        numeric.drop(columns="kind"), numeric["kind"].to_numpy(dtype=object)
    )
    assert model.certificate_.objective == by_hand.certificate_.objective == "stacking"
    np.testing.assert_array_equal(model.posterior_, by_hand.posterior_)
    verified = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert verified.exit_code == 0, verified.output
    assert "Verified: arithmetic, model and data." in verified.output


def test_numbers_train_the_default_svms(invoke, numeric):
    numeric.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--seed", 7, "--delta", 0.1, "--objective", "kl", *QUICK)
    assert result.exit_code == 0, result.output
    model, _ = load_model("model.skops")
    assert isinstance(model.estimator, RBFSVMPool)
    by_hand = PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, delta=0.1, objective="kl", random_state=7).fit(
        numeric.drop(columns="kind"), numeric["kind"].to_numpy(dtype=object)
    )
    np.testing.assert_array_equal(model.losses_, by_hand.losses_)
    certificate = Certificate.from_json(Path("model.certificate.json").read_text())
    assert certificate == model.certificate_
    assert certificate.gibbs_bound == by_hand.certificate_.gibbs_bound
    assert certificate.strict
    assert certificate.assumptions[:-1] == by_hand.certificate_.assumptions
    assert model.verbose == 0


def test_json_is_all_there_is_on_standard_output(run, tmp_path, mixed):
    mixed.to_csv(tmp_path / "data.csv", index=False)
    result = run("fit", "data.csv", "--target", "kind", "--test-size", 0.2, "--progress", "--json", *QUICK)
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["certificate"] == json.loads((tmp_path / "model.certificate.json").read_text())
    assert values["missing"] == {"size": 9, "city": 7}
    assert values["classes"] == ["dry", "wet"]
    assert values["rows"] == 120
    assert values["test"]["rows"] == 30
    assert values["test"]["bound"] > values["test"]["error"]
    assert "training" in result.stderr


@pytest.mark.parametrize("estimator", ["svm", "tree", "logistic"])
def test_base_learners(invoke, mixed, estimator):
    mixed.to_csv("data.csv", index=False)
    result = invoke(
        "fit", "data.csv", "--target", "kind", *QUICK, "--estimator", estimator, "--scaler", "minmax", "-o", "m.skops",
        "--certificate", "c.json", "--test-size", "0.2",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "held-out test:" in result.stdout
    model, _ = load_model("m.skops")
    assert Certificate.from_json(Path("c.json").read_text()) == model.certificate_
    assert model.certificate_.empirical_loss < 0.4


def test_families_share_the_vote(invoke, mixed):
    mixed.to_csv("data.csv", index=False)
    options = ("--n-hypotheses", 8, "--jobs", 1, "--scaler", "standard")
    result = invoke("fit", "data.csv", "--target", "kind", "--families", "svm, linear", *options)
    assert result.exit_code == 0, result.output
    assert (
        "missing numbers become the mean of each subsample (trees take them as missing), missing text" in result.output
    )
    model, _ = load_model("model.skops")
    assert list(model.subsamples_.families) == ["svm", "linear"]
    assert model.get_params()["estimator__svm__scaler"] == "standard"
    assert model.certificate_.describe_weights() in result.stdout
    for name in ("SVMs", "linear models"):
        assert name in result.stdout.split("Weight by family")[1]
    verify = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert "Verified: arithmetic, model and data" in verify.stdout


def test_all_families_are_the_default(invoke, mixed):
    mixed.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--n-hypotheses", 8, "--jobs", 1, "--json")
    families = json.loads(result.stdout)["certificate"]["families"]
    assert [family["name"] for family in families] == list(DEFAULT_FAMILIES)
    assert sum(family["weight"] for family in families) == pytest.approx(1)
    predicted = json.loads(invoke("predict", "model.skops", "data.csv", "--json").stdout)["predictions"]
    assert np.mean(predicted == mixed["kind"].to_numpy()) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--families", "trees"), "must be some of boosting, forest, linear, svm, with commas, got 'trees'"),
        (("--families", "svm;boosting"), "got 'svm;boosting'"),
        (("--families", ""), "got ''"),
        (("--families", "svm,svm"), "--families must be different, got 'svm' twice"),
        (("--families", "svm,catboost"), "model files hold no catboost models, which PACBayesClassifier trains"),
        (("--families", "svm,tabpfn"), "model files hold no tabpfn models, which PACBayesClassifier trains in Python"),
        (("--families", "svm", "--estimator", "tree"), "leave out --estimator tree, or these"),
        (("--families", "boosting", "--scaler", "minmax"), "--scaler minmax is for the SVMs: add svm to --families"),
    ],
)
def test_families_that_cannot_be(refuses, mixed, options, message):
    mixed.to_csv("data.csv", index=False)
    assert message in refuses("fit", "data.csv", "--target", "kind", *options)


def test_formats_agree(invoke, numeric):
    y = (numeric["kind"] == "wet").astype(int)
    X = numeric.drop(columns="kind")
    X.assign(kind=y).to_csv("data.csv", index=False)
    X.assign(kind=y).to_csv("data.tsv", index=False, sep="\t")
    X.assign(kind=y).to_csv("semicolons.csv", index=False, sep=";")
    X.assign(kind=y).to_parquet("data.parquet")
    dump_svmlight_file(X.to_numpy(), y, "data.svm", zero_based=False)
    bounds = []
    for name, *options in (
        ("data.csv", "--target", "kind"),
        ("data.tsv", "--target", "kind"),
        ("semicolons.csv", "--target", "kind", "--separator", ";"),
        ("data.parquet", "--target", "kind"),
        ("data.svm",),
    ):
        result = invoke("fit", name, *options, "--json", *QUICK)
        assert result.exit_code == 0, result.output
        bounds.append(json.loads(result.stdout)["certificate"]["statements"][0]["bound"])
    assert len(set(bounds)) == 1


def test_libsvm_rows_without_the_last_features(invoke, numeric):
    y = np.where(numeric["kind"] == "wet", 1, -1)
    dump_svmlight_file(numeric.drop(columns="kind").to_numpy(), y, "data.svm", zero_based=False)
    assert invoke("fit", "data.svm", *QUICK).exit_code == 0
    Path("new.svm").write_text("1 1:0.5\n-1 1:-2\n")
    result = invoke("predict", "model.skops", "new.svm", "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["predictions"]) <= {-1, 1}


def test_the_same_command_gives_the_same_certificate(invoke, mixed):
    mixed.to_csv("data.csv", index=False)
    for name, jobs in (("a.skops", 1), ("b.skops", 2)):
        assert invoke("fit", "data.csv", "--target", "kind", *QUICK, "-o", name, "--jobs", jobs).exit_code == 0
    assert Path("a.certificate.json").read_text() == Path("b.certificate.json").read_text()


def test_options_of_the_table(invoke):
    rows = ["1,01,?,a", "2,02,1.5,b"] * 30
    Path("data.csv").write_text("\n".join(["x,code,y,kind", *rows]) + "\n")
    options = ["--missing", "?", "--text", "code", "--subsample-size", "5,0.2", "--holdout", "none"]
    result = invoke("fit", "data.csv", "--target", "kind", *options, *QUICK)
    assert result.exit_code == 0, result.output
    assert "2 columns of numbers and 1 of text" in result.stdout
    assert "'y' (30)" in result.stdout
    model, schema = load_model("model.skops")
    assert schema.columns == (Column("x", "number"), Column("code", "text"), Column("y", "number"))
    assert schema.source.missing == ("?",)
    assert model.subsamples_.sizes[:4].tolist() == [5, 12, 5, 12]


def test_a_certificate_that_proves_nothing_says_so(invoke):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=12), "kind": ["a", "b"] * 6})
    data.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--delta", "1e-9", "--holdout", "none", *QUICK)
    assert result.exit_code == 0, result.output
    assert "nothing is proved" in result.stdout.lower()


def test_held_out_rows_can_be_recovered(invoke, numeric):
    numeric.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--test-size", 0.3, "--seed", 5, "--json", *QUICK)
    model, schema = load_model("model.skops")
    train, test = schema.source.split()
    np.testing.assert_array_equal(test, split_rows(150, 0.3, 5)[1])
    errors = np.count_nonzero(model.predict(numeric.drop(columns="kind").iloc[test]) != numeric["kind"].iloc[test])
    assert errors == json.loads(result.stdout)["test"]["errors"]
    vote = model.votes_[model.fitted_votes_.winner]
    assert sum(schema.class_counts) == train.size == vote.split.rows.size + vote.n_held_out


@pytest.mark.parametrize(("option", "shares"), [("0.4", [42]), ("0.5,0.2", [52, 21]), ("none", [0]), ("30", [30])])
def test_rows_for_the_certificate(invoke, numeric, option, shares):
    numeric.iloc[:105].to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--holdout", option, *QUICK)
    assert result.exit_code == 0, result.output
    model, _ = load_model("model.skops")
    assert [vote.n_held_out for vote in model.votes_] == shares
    assert ("Held-out points" in result.stdout) == (option != "none")
    refused = invoke("fit", "data.csv", "--target", "kind", "--holdout", "half", *QUICK)
    assert "--holdout must be numbers or auto, got 'half'" in refused.stderr
