"""``--groups`` of fit, certify and verify, and ``--weights`` of certify."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_session import QUICK, table

from pacbayes import Certificate
from pacbayes.io import load_model


@pytest.fixture
def data(invoke):
    rows = table(120)
    rows["site"] = np.arange(120) % 3
    rows.to_csv("data.csv", index=False)
    return rows


def read(path="model.certificate.json"):
    return Certificate.from_json(Path(path).read_text())


@pytest.mark.parametrize("drop", [(), ("--drop", "site")])
def test_groups_of_a_table(invoke, refuses, data, drop):
    """The groups need not be features: whether sites differ is asked of a model that does not know them."""
    result = invoke("fit", "data.csv", "--target", "kind", "--groups", "site", *drop, "--test-size", 0.2, *QUICK)
    assert result.exit_code == 0, result.output
    groups = read().groups
    assert (groups.name, groups.labels) == ("site", ("0", "1", "2"))
    assert f"the worst of 3 groups, {groups.worst.label!r}" in result.stdout
    assert "By 'site', on" in result.stdout
    model, schema = load_model("model.skops")
    assert model.certificate_.groups == groups
    assert ("site" in schema.names) == (not drop)
    verify = ("verify", "model.certificate.json", "--model", "model.skops", "--data")
    assert invoke(*verify, "data.csv").exit_code == 0
    data.assign(site=(data["site"] + 1) % 3).to_csv("other.csv", index=False)
    assert invoke(*verify, "other.csv").exit_code == 2
    if drop:  # otherwise the site is a feature, and losses differ first
        assert refuses(*verify, "other.csv").startswith("groups.counts of '0' is stated as")
        data.drop(columns="site").to_csv("without.csv", index=False)
        assert "there is no column 'site'" in refuses(*verify, "without.csv")


def test_groups_of_rows_in_time_with_some_targets_missing(invoke, data):
    dated = data.assign(day=np.datetime64("2024-01-01") + np.arange(120))
    dated.loc[[3, 50], "kind"] = None
    dated.to_csv("dated.csv", index=False)
    options = ("--groups", "site", "--skip-missing-target", "--time", "day")
    result = invoke("fit", "dated.csv", "--target", "kind", *options, *QUICK)
    assert result.exit_code == 0, result.output
    certificate = read()
    assert certificate.groups.labels == ("0", "1", "2")
    assert not certificate.strict
    assert not certificate.is_covered
    verify = ("verify", "model.certificate.json", "--model", "model.skops", "--data", "dated.csv")
    assert invoke(*verify).exit_code == 0


def test_fresh_rows_by_group_and_by_weight(invoke, refuses, data):
    assert invoke("fit", "data.csv", "--target", "kind", "--drop", "site", *QUICK).exit_code == 0
    fresh = table(120, seed=3).assign(site=np.repeat(["a", "b", "c"], 40), weight=np.tile([0.5, 2.0], 60))
    fresh.to_csv("fresh.csv", index=False)
    certify = ("certify", "fresh.csv", "--model", "model.skops")
    values = json.loads(invoke(*certify, "--groups", "site", "--json").stdout)
    assert values["certificate"]["groups"]["labels"] == ["a", "b", "c"]
    weighted = (*certify, "--groups", "site", "--weights", "weight", "--max-weight", 2)
    shown = invoke(*weighted, "-o", "shifted.json").stdout
    shift = read("shifted.json").shift
    assert (shift.n, shift.max_weight) == (120, 2.0)
    assert 60 < shift.n_kept < 120
    assert "from the shifted distribution that the weights describe" in shown
    assert "and so are the points to predict" not in shown
    assert "the weights are known, and not estimated" in shown
    estimated = invoke(*weighted, "--weights-estimated").stdout
    assert "NOT STRICT: the weights were estimated" in estimated
    assert "the weights were estimated, and stand for a ratio" in estimated
    for options, message in {
        ("--groups", "town"): "there is no column 'town', only ",
        ("--weights", "weight"): "max_weight must be given with weights",
        ("--weights", "weight", "--max-weight", 1): "got 2.0 in row 1: a clipped weight",
        ("--weights", "city", "--max-weight", 1): "weights must be a number for each of the 120 rows",
        ("--max-weight", 1): "weights must be given where max_weight",
    }.items():
        assert message in refuses(*certify, *options)


def test_columns_that_are_no_groups(refuses, data):
    fit = ("fit", "data.csv", "--target", "kind", "--json", *QUICK, "--groups")
    assert "--groups must be another column than the target 'kind'" in refuses(*fit, "kind")
    assert "--groups: there is no column 'town', only 'size'" in refuses(*fit, "town")
    data.loc[7, "site"] = np.nan
    data.to_csv("data.csv", index=False)
    assert "groups must hold a label for every row, got none for 1 of 120 rows, first row 7" in refuses(*fit, "site")
    Path("losses.csv").write_text("0.1")
    assert "--groups, --weights, --max-weight and --weights-estimated belong to --model" in refuses(
        "certify", "losses.csv", "--n", 50, "--groups", "site"
    )


def test_groups_without_a_column_are_verified_in_python(invoke, refuses, data):
    from pacbayes.io import dumps_model

    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    model, schema = load_model("model.skops")
    rows = data.drop(columns="kind").assign(open=data["open"].map(str))
    model.fit(rows, data["kind"].to_numpy(), groups=data["site"].to_numpy())
    Path("model.skops").write_bytes(dumps_model(model, schema))
    Path("own.json").write_text(model.certificate_.to_json())
    assert "groups that have no column: verify it in Python" in refuses(
        "verify", "own.json", "--model", "model.skops", "--data", "data.csv"
    )
