"""``pacbayes fit`` and ``predict`` on tables that take more memory than is allowed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_session import QUICK
from sweeps import sweep

from pacbayes.io import _csv, _parquet

LIMIT = ("--max-bytes", 200_000)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 300)
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2**13)


@pytest.fixture
def table(invoke):  # which goes to a folder of its own
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": np.arange(2000),
            "age": rng.normal(40, 10, 2000).round(2),
            "city": rng.choice(["Bonn", "Oslo", "Rome"], 2000),
            "joined": (np.datetime64("2020-01-01") + rng.integers(0, 900, 2000)).astype(str),
            "vip": rng.random(2000) < 0.4,
            "unit": "cm",
        }
    ).mask(rng.random((2000, 6)) < [0, 0.1, 0.1, 0.1, 0, 0])
    frame["kind"] = np.where(frame["age"].fillna(40) + 10 * frame["vip"].astype(int) > 44, "yes", "no")
    frame.to_csv("data.csv", index=False)
    frame.to_csv("data.csv.gz", index=False)
    frame.to_parquet("data.parquet")
    return frame


@pytest.mark.parametrize("data", sweep(["data.csv", "data.parquet", "data.csv.gz"], quick=[0, 1]))
def test_a_fit_in_parts_is_the_fit_in_memory(table, invoke, data):
    arguments = ("fit", data, "--target", "kind", "--test-size", 0.2, "--groups", "vip", *QUICK)
    memory = invoke(*arguments)
    assert memory.exit_code == 0, memory.output
    certificate = Path("model.certificate.json").read_bytes()
    streamed = invoke(*arguments, "-o", "streamed.skops", *LIMIT)
    assert streamed.exit_code == 0, streamed.output
    assert Path("streamed.certificate.json").read_bytes() == certificate
    assert streamed.output.replace("streamed", "model") == memory.output
    assert "By 'vip', on" in streamed.output
    assert "'unit' (holds one value only, 'cm')" in streamed.output
    assert "'id' (numbers the rows)" in streamed.output
    for model in ("model", "streamed"):
        assert invoke("predict", f"{model}.skops", data, "-o", f"{model}.csv").exit_code == 0
    assert Path("model.csv").read_bytes() == Path("streamed.csv").read_bytes()
    level = json.loads(
        invoke("verify", "streamed.certificate.json", "--model", "streamed.skops", "--data", data, "--json").output
    )
    assert level["level"] == "arithmetic, model and data"


def test_a_union_is_fitted_in_parts(table, invoke):
    arguments = ("fit", "data.csv", "--target", "kind", "--n-hypotheses", 6, "--jobs", 1)
    assert invoke(*arguments).exit_code == 0
    streamed = invoke(*arguments, "-o", "streamed.skops", *LIMIT)
    assert streamed.exit_code == 0, streamed.output
    assert Path("streamed.certificate.json").read_bytes() == Path("model.certificate.json").read_bytes()
    level = invoke("verify", "streamed.certificate.json", "--model", "streamed.skops", "--data", "data.csv", "--json")
    assert json.loads(level.output)["level"] == "arithmetic, model and data"


def test_predictions_in_parts_where_the_table_is_too_large(table, invoke, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2**22)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    table.assign(note="x" * 9000).to_csv("new.csv", index=False)
    limit = ("--max-bytes", 12_000_000)
    assert Path("new.csv").stat().st_size > limit[1]
    assert invoke("predict", "model.skops", "new.csv", "-o", "memory.csv").exit_code == 0
    assert invoke("predict", "model.skops", "new.csv", "-o", "parts.csv", *limit).exit_code == 0
    assert Path("parts.csv").read_bytes() == Path("memory.csv").read_bytes()
    refused = invoke("predict", "model.skops", "new.csv", *limit)
    assert refused.exit_code == 2
    assert "'new.csv': it takes more than 11.4 MiB of memory" in refused.stderr


def test_other_learners_need_the_memory(table, refuses):
    message = refuses("fit", "data.csv", "--target", "kind", "--estimator", "tree", *LIMIT)
    assert (
        message
        == "--estimator tree needs all rows in memory, and they take more than --max-bytes: auto and svm would do"
    )
