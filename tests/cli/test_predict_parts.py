"""Predictions for tables that are read, predicted and written in parts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from small_session import ENVIRONMENT, QUICK

from pacbayes.io import _csv, _parquet


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 40)
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2000)


@pytest.fixture
def fitted(invoke, mixed):
    mixed.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    mixed.to_csv("new.csv", index=False)
    mixed.to_parquet("new.parquet")
    assert invoke("predict", "model.skops", "new.csv", "-o", "whole.csv", "--id", "size").exit_code == 0
    return pd.read_csv("whole.csv")


@pytest.mark.parametrize(
    ("data", "output"),
    [
        ("new.csv", "out.parquet"),
        ("new.parquet", "out.csv"),
        ("several", "out.parquet"),
        ("several/*.pq", "out.csv"),
    ],
)
def test_parts_join_to_the_whole(invoke, mixed, fitted, data, output):
    Path("several").mkdir()
    for k in range(3):
        mixed[k * 50 : (k + 1) * 50].to_parquet(f"several/{k}.pq")
    result = invoke("predict", "model.skops", data, "-o", output, "--id", "size", "--stream")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"150 predictions  {output}\n"
    written = pd.read_csv(output) if output.endswith("csv") else pd.read_parquet(output)
    pd.testing.assert_frame_equal(written.astype({"size": float}), fitted, check_dtype=False)
    assert sorted(path.name for path in Path().glob("*out*")) == [output]


def test_there_are_several_parts(invoke, fitted, monkeypatch):
    monkeypatch.setattr("pacbayes.cli._predict_parts.PartWriter._join", lambda self, parts: None)
    for data in ("new.csv", "new.parquet"):
        assert invoke("predict", "model.skops", data, "-o", f"{data}.csv", "--stream").exit_code == 0
        assert len(os.listdir(f"{data}.csv.parts")) > 3


def test_what_was_stopped_goes_on(invoke, fitted, monkeypatch):
    from pacbayes import PACBayesClassifier

    predict, calls = PACBayesClassifier.predict, []

    def stop(self, X):
        calls.append(len(X))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(self, X)

    arguments = ("predict", "model.skops", "new.parquet", "-o", "out.csv", "--id", "size", "--stream")
    with monkeypatch.context() as patch:
        patch.setattr(PACBayesClassifier, "predict", stop)
        assert invoke(*arguments).exit_code == 130
    assert not Path("out.csv").exists()
    assert len(list(Path("out.csv.parts").glob("*.csv"))) == 2
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(PACBayesClassifier, "predict", lambda self, X: (calls.append(len(X)), predict(self, X))[1])
        result = invoke(*arguments)
    assert "goes on after 2 parts" in result.stderr
    assert sum(calls) == 150 - 80
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), fitted)


def test_parts_of_another_table_are_refused(invoke, refuses, mixed, fitted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pacbayes.cli._predict_parts.PartWriter._join", lambda self, parts: None)
        invoke("predict", "model.skops", "new.parquet", "-o", "out.csv", "--stream")
    mixed[:100].to_parquet("new.parquet")
    message = refuses("predict", "model.skops", "new.parquet", "-o", "out.csv", "--stream")
    assert "holds parts of other predictions, or of another table: delete the folder" in message


def test_what_cannot_be_done_in_parts(refuses, fitted):
    need = "predictions in parts need a file to read and --output, and take no --held-out"
    assert refuses("predict", "model.skops", "new.csv", "--stream") == need
    for options in ((), ("--stream",), ("--held-out",), ("--stream", "-o", "out.csv")):
        assert refuses("predict", "model.skops", "missing.csv", *options) == "there is no file 'missing.csv'"
    assert refuses("predict", "model.skops", "new.csv", "--stream", "-o", "out.csv", "--held-out") == need
    assert "there is no file 'none.csv'" in refuses("predict", "model.skops", "none.csv", "-o", "out.csv")


def test_words_in_a_column_of_numbers(refuses, mixed, fitted, invoke):
    sizes = mixed["size"].astype(object)
    sizes[120] = "small"
    mixed.assign(size=sizes).to_csv("new.csv", index=False)
    result = invoke("predict", "model.skops", "new.csv", "-o", "out.csv", "--stream")
    assert result.exit_code == 2
    assert "'new.csv': counting rows from" in result.stderr
    assert "'small' is no number" in result.stderr
    assert not Path("out.csv").exists()


def test_formulas_are_found_in_every_part(invoke, mixed, fitted):
    mixed.assign(note=["plain"] * 149 + ["=1+1"]).to_parquet("new.parquet")
    arguments = ("predict", "model.skops", "new.parquet", "--id", "note", "--stream", "-o")
    assert "would take '=1+1' for a formula" in invoke(*arguments, "a.csv").stderr
    assert invoke(*arguments, "b.csv", "--escape-formulas").exit_code == 0
    assert pd.read_csv("b.csv")["note"].tolist()[-1] == "'=1+1"
    assert pd.read_csv("a.csv")["note"].tolist()[-1] == "=1+1"


def test_as_json(invoke, fitted):
    result = invoke("predict", "model.skops", "new.parquet", "-o", "out.parquet", "--json")
    assert json.loads(result.stdout) == {"rows": 150, "classes": ["dry", "wet"], "output": "out.parquet"}


def test_a_full_disk(invoke, fitted):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, hard))
    try:
        result = invoke("predict", "model.skops", "new.parquet", "-o", "out.csv", "--stream")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 2
    assert result.stderr.strip().endswith("File too large")
    assert not Path("out.csv").exists()
    assert not [path for path in Path().rglob("*") if path.name.endswith(".partial")]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_killed_and_called_again(invoke, mixed, fitted, tmp_path):
    pd.concat([mixed] * 2000).to_parquet("large.parquet")
    arguments = [
        sys.executable,
        "-m",
        "pacbayes",
        "predict",
        "model.skops",
        "large.parquet",
        "-o",
        "out.csv",
        "--stream",
    ]
    process = subprocess.Popen(arguments, env=ENVIRONMENT)
    while process.poll() is None and len(list(Path().glob("out.csv.parts/*.csv"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not Path("out.csv").exists()
    assert subprocess.run(arguments, env=ENVIRONMENT, check=False).returncode == 0
    assert pd.read_csv("out.csv")["prediction"].tolist() == fitted["prediction"].tolist() * 2000
