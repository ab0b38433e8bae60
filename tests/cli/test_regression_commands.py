"""Tables whose target is a number: ``fit``, ``predict``, ``certify``, ``verify`` and ``report``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pacbayes
from pacbayes.io import _csv, _parquet

QUICK = ("--families", "linear", "--n-hypotheses", 2, "--jobs", 1)


def make_rows(n, seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"size": rng.normal(100, 20, n).round(1), "city": rng.choice(["Oslo", "Rome"], n)})
    price = 30 * rows["size"] + 500 * (rows["city"] == "Rome") + rng.normal(0, 100, n)
    return rows.assign(age=rng.integers(0, 90, n), price=price.round(2)).mask(
        rng.random((n, 4)) < [0.05, 0.05, 0.0, 0.0]
    )


@pytest.fixture
def homes(invoke):  # which goes to a folder of its own
    make_rows(300, 0).to_csv("homes.csv", index=False)
    make_rows(100, 1).to_csv("new.csv", index=False)


def fit(invoke, *options):
    result = invoke("fit", "homes.csv", "--target", "price", *QUICK, *options)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def test_a_price_is_predicted_certified_and_verified(homes, invoke):
    result = fit(invoke, "--test-size", 0.2)
    line = result.stdout.splitlines()[0]
    assert line.endswith("numbers in 'price', which are predicted (--task classification would take them for classes)")
    assert "the mean absolute error of the weighted mean on new points" in result.stdout
    assert "held-out test: mean absolute error" in result.stdout
    model, schema = pacbayes.io.load_model("model.skops")
    assert isinstance(model, pacbayes.PACBayesRegressor)
    assert (schema.task, schema.classes, schema.number_test.n_rows) == ("regression", (), 60)

    new = pd.read_csv("new.csv")
    assert invoke("predict", "model.skops", "new.csv", "--coverage", 0.8, "-o", "out.csv").exit_code == 0
    out = pd.read_csv("out.csv")
    assert [*out.columns] == ["prediction", "lower", "upper"]
    X = schema.apply(new.drop(columns="price"))
    np.testing.assert_allclose(out["prediction"], model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(out[["lower", "upper"]], model.predict_interval(X, 0.8), rtol=1e-12)
    assert ((out["lower"] <= new["price"]) & (new["price"] <= out["upper"])).mean() > 0.7
    answer = json.loads(invoke("predict", "model.skops", "new.csv", "--coverage", 0.8, "--json").stdout)
    assert (answer["rows"], answer["target"], answer["coverage"]) == (100, "price", 0.8)
    assert np.array(answer["intervals"]).shape == (100, 2)

    certified = json.loads(invoke("certify", "new.csv", "--model", "model.skops", "--json").stdout)
    direct = model.certify(X, new["price"].to_numpy())
    assert (certified["rows"], certified["bound"]) == (100, direct.error_bound)
    said = invoke("certify", "homes.csv", "--model", "model.skops", "--held-out")
    assert "for a single regressor (betting)" in said.stdout
    verified = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "homes.csv", "--json")
    assert json.loads(verified.stdout)["level"] == "arithmetic, model and data"


def test_settings_of_numbers(homes, invoke):
    values = json.loads(fit(invoke, "--loss", "squared_error", "--y-range", -10000, 20000, "--json").stdout)
    assert values["task"] == "regression"
    assert "classes" not in values
    model, _ = pacbayes.io.load_model("model.skops")
    assert (model.loss, model.y_range) == ("squared_error", (-10000.0, 20000.0))
    assert model.certificate_.loss == "squared_error:30000.0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--class-weight", "balanced"),
            "--class-weight is not for numbers, which 'price' is taken for: leave it out, or give --task",
        ),
        (("--max-error", 0.1), "--max-error is not for numbers"),
        (("--cost", "a:b=2"), "--cost is not for numbers"),
        (("--task", "regression", "--many-classes"), "--many-classes is not for numbers"),
        (("--estimator", "svm"), "--estimator svm is not for numbers"),
        (("--scaler", "minmax"), "--scaler minmax is not for numbers"),
        (("--families", "svm"), "--families must be some of boosting, forest, linear, ridge for numbers"),
        (("--task", "classification"), "the target 'price' must hold classes, and row 1 holds"),
        (("--y-range", 0, 10), "y must be in the declared range"),
        (("--y-range", 10, 0), "y_range must be None or two finite numbers"),
        (("--holdout", "none"), "holdout must not be None without y_range"),
    ],
)
def test_options_that_are_not_for_numbers(homes, refuses, options, message):
    assert message in refuses("fit", "homes.csv", "--target", "price", *options)


def test_options_that_are_for_numbers_only(homes, refuses):
    for options in (("--loss", "squared_error"), ("--y-range", 0, 1)):
        message = refuses("fit", "homes.csv", "--target", "city", "--skip-missing-target", *options)
        assert message.startswith(f"{options[0]} is not for classes, which 'city' is taken for")
    arguments = ("fit", "homes.csv", "--target", "city", "--skip-missing-target", "--task", "regression")
    assert "is not a number" in refuses(*arguments)


def test_errors_by_group(homes, invoke):
    result = fit(invoke, "--groups", "age")
    assert "off by more than" in result.stdout
    verified = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "homes.csv", "--json")
    assert json.loads(verified.stdout)["level"] == "arithmetic, model and data"
    values = json.loads(invoke("certify", "new.csv", "--model", "model.skops", "--groups", "age", "--json").stdout)
    assert values["certificate"]["groups"]["name"] == "age"


def test_commands_that_count_errors_refuse_a_model_of_numbers(homes, invoke, refuses):
    fit(invoke)
    assert "--max-error is not for models that predict numbers" in refuses(
        "predict", "model.skops", "new.csv", "--max-error", 0.1
    )
    assert refuses("predict", "model.skops", "new.csv", "--probabilities").startswith(
        "--probabilities is not for models"
    )
    assert "predicts numbers: a monitor counts errors" in refuses(
        "monitor", "model.skops", "new.csv", "--state", "state.json"
    )
    assert "coverage of 0.999 needs at least" in refuses("predict", "model.skops", "new.csv", "--coverage", 0.999)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "c"], "classification"),
        ([True, False], "classification"),
        ([0, 1], "classification"),
        (range(50), "classification"),
        (range(51), "regression"),
        ([0.5, 1.5, 2.5], "regression"),
        (["1,5", "2,5"], "classification"),  # text with a decimal point
    ],
)
def test_what_a_target_is_taken_for(values, task):
    frame = pd.DataFrame(
        {"x": np.arange(300.0), "y": np.resize(np.array([*values], dtype=object), 300)}
    ).infer_objects()
    assert pacbayes.io.Table.from_frame(frame, "y", task="auto").schema.task == task


def test_whole_numbers_of_which_most_rows_have_their_own():
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) % 40})
    assert pacbayes.io.Table.from_frame(frame, "y", task="auto").schema.task == "regression"
    assert pacbayes.io.Table.from_frame(frame, "y").schema.task == "classification"


def test_a_hint_where_whole_numbers_may_be_amounts(invoke):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=120), "quality": rng.integers(3, 9, 120)})
    rows.to_csv("wine.csv", index=False)
    result = invoke("fit", "wine.csv", "--target", "quality", "--families", "linear", "--jobs", 1)
    assert "taken for classes: to predict a number instead, task='regression' (--task regression)" in result.stderr
    rows.assign(quality=rows["quality"] - 3).to_csv("wine.csv", index=False)
    result = invoke("fit", "wine.csv", "--target", "quality", "--families", "linear", "--jobs", 1)
    assert "to predict a number instead" not in result.stderr


def test_a_copy_of_the_target_is_warned_of(homes, invoke):
    rows = pd.read_csv("homes.csv")
    rows.assign(dollars=1.1 * rows["price"] - 7, noisy=rows["price"] + rows["age"]).to_csv("homes.csv", index=False)
    warned = fit(invoke).stderr
    assert "'dollars' is the target, but for a factor and a shift: is it a copy of it" in warned
    assert "'noisy'" not in warned


def test_missing_targets_and_the_last_rows(homes, invoke, refuses):
    rows = pd.read_csv("homes.csv")
    rows.loc[::10, "price"] = np.nan
    rows.to_csv("homes.csv", index=False)
    assert "the target 'price' is missing in 30 of 300 rows" in refuses("fit", "homes.csv", "--target", "price", *QUICK)
    values = json.loads(fit(invoke, "--skip-missing-target", "--time", "age", "--json").stdout)
    assert not values["certificate"]["strict"]
    assert set(values["test"]) == {"rows", "mean_absolute_error", "root_mean_squared_error"}


@pytest.mark.parametrize("data", ["large.csv", "large.parquet"])
def test_a_fit_in_parts_is_the_fit_in_memory(invoke, monkeypatch, data):
    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 900)
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2**14)
    rows = make_rows(3000, 0)
    rows.to_csv("large.csv", index=False)
    rows.to_parquet("large.parquet")
    arguments = ("fit", data, "--target", "price", "--test-size", 0.2, *QUICK)
    memory = invoke(*arguments)
    assert memory.exit_code == 0, memory.output
    streamed = invoke(*arguments, "-o", "streamed.skops", "--max-bytes", 200_000)
    assert streamed.exit_code == 0, streamed.output
    assert Path("streamed.certificate.json").read_bytes() == Path("model.certificate.json").read_bytes()
    assert streamed.stdout.replace("streamed", "model") == memory.stdout


def test_a_schema_that_contradicts_its_model_is_refused(homes, invoke):
    fit(invoke)
    model, schema = pacbayes.io.load_model("model.skops")
    text = schema.to_json()
    with pytest.raises(pacbayes.exceptions.TableError, match="only other tasks have"):
        pacbayes.io.Schema.from_json(
            text.replace('"classes": []', '"classes": ["a"]').replace('"class_counts": []', '"class_counts": [3]')
        )
    forged = pacbayes.io.Schema.from_json(text.replace('"task": "regression"', '"task": "classification"'))
    pacbayes.io.save_model(model, "forged.skops", forged)
    with pytest.raises(pacbayes.exceptions.ModelFileError, match="the schema is of classification"):
        pacbayes.io.load_model("forged.skops")
