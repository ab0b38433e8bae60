"""Predictions for tables that are read, predicted and written in parts."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from small_session import ENVIRONMENT

from pacbayes.cli.predict import Predictions
from pacbayes.io import _csv, _parquet, load_model


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 40)
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2000)


@pytest.fixture
def whole(invoke, fitted, mixed):
    """Predictions of all rows in one go, and the rows in two formats."""
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
def test_parts_join_to_the_whole(invoke, mixed, whole, data, output):
    Path("several").mkdir()
    for k in range(3):
        mixed[k * 50 : (k + 1) * 50].to_parquet(f"several/{k}.pq")
    result = invoke("predict", "model.skops", data, "-o", output, "--id", "size", "--stream")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"150 predictions  {output}\n"
    written = pd.read_csv(output) if output.endswith("csv") else pd.read_parquet(output)
    pd.testing.assert_frame_equal(written.astype({"size": float}), whole, check_dtype=False)
    assert sorted(path.name for path in Path().glob("*out*")) == [output]


def test_there_are_several_parts(invoke, whole, monkeypatch):
    monkeypatch.setattr("pacbayes.cli.predict.join_parts", lambda parts, output: None)
    for data in ("new.csv", "new.parquet"):
        assert invoke("predict", "model.skops", data, "-o", f"{data}.csv", "--stream").exit_code == 0
        assert len(os.listdir(f"{data}.csv.parts")) > 3


def stop_after(parts, monkeypatch, invoke, *arguments):
    """Run a command that is interrupted after some parts."""
    predict, calls = Predictions._predict, []

    def stop(self, carried, rows):
        calls.append(len(rows))
        if len(calls) > parts:
            raise KeyboardInterrupt
        return predict(self, carried, rows)

    with monkeypatch.context() as patch:
        patch.setattr(Predictions, "_predict", stop)
        assert invoke(*arguments).exit_code == 130


def test_what_was_stopped_goes_on(invoke, whole, monkeypatch):
    arguments = ("predict", "model.skops", "new.parquet", "-o", "out.csv", "--id", "size", "--stream")
    stop_after(2, monkeypatch, invoke, *arguments)
    assert not Path("out.csv").exists()
    assert len(list(Path("out.csv.parts").glob("*.csv"))) == 2
    predict, calls = Predictions._predict, []
    with monkeypatch.context() as patch:
        patch.setattr(
            Predictions,
            "_predict",
            lambda self, carried, rows: (calls.append(len(rows)), predict(self, carried, rows))[1],
        )
        result = invoke(*arguments)
    assert "resumes after 2 parts" in result.stderr
    assert sum(calls) == 150 - 80
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), whole)


def test_parts_of_another_table_are_refused(invoke, refuses, mixed, whole, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pacbayes.cli.predict.join_parts", lambda parts, output: None)
        invoke("predict", "model.skops", "new.parquet", "-o", "out.csv", "--stream")
    mixed[:100].to_parquet("new.parquet")
    message = refuses("predict", "model.skops", "new.parquet", "-o", "out.csv", "--stream")
    assert "holds parts of other predictions, or of another table: delete the folder" in message


def test_what_cannot_be_done_in_parts(refuses, whole):
    need = "predictions in parts need a file to read and --output, and take no --held-out"
    assert refuses("predict", "model.skops", "new.csv", "--stream") == need
    for options in ((), ("--stream",), ("--held-out",), ("--stream", "-o", "out.csv")):
        assert refuses("predict", "model.skops", "missing.csv", *options) == "there is no file 'missing.csv'"
    assert refuses("predict", "model.skops", "new.csv", "--stream", "-o", "out.csv", "--held-out") == need
    assert "there is no file 'none.csv'" in refuses("predict", "model.skops", "none.csv", "-o", "out.csv")


def test_words_in_a_column_of_numbers(refuses, mixed, whole, invoke):
    sizes = mixed["size"].astype(object)
    sizes[120] = "small"
    mixed.assign(size=sizes).to_csv("new.csv", index=False)
    result = invoke("predict", "model.skops", "new.csv", "-o", "out.csv", "--stream")
    assert result.exit_code == 2
    assert "'new.csv': counting rows from" in result.stderr
    assert "'small' is not a number" in result.stderr
    assert not Path("out.csv").exists()


def test_formulas_are_found_in_every_part(invoke, mixed, whole):
    mixed.assign(note=["plain"] * 149 + ["=1+1"]).to_parquet("new.parquet")
    arguments = ("predict", "model.skops", "new.parquet", "--id", "note", "--stream", "-o")
    assert "would take '=1+1' for a formula" in invoke(*arguments, "a.csv").stderr
    assert invoke(*arguments, "b.csv", "--escape-formulas").exit_code == 0
    assert pd.read_csv("b.csv")["note"].tolist()[-1] == "'=1+1"
    assert pd.read_csv("a.csv")["note"].tolist()[-1] == "=1+1"


STREAM = ("predict", "model.skops", "new.parquet", "--stream")


@pytest.mark.parametrize("name", ["two\nlines", 'a "quoted"\nname', "a\rreturn", "no,comma"])
def test_names_that_need_quotes(invoke, mixed, whole, name):
    mixed.assign(**{name: ["plain", "a\rb", "c\nd"] * 50}).to_parquet("new.parquet")
    assert invoke("predict", "model.skops", "new.parquet", "--id", name, "-o", "whole.csv").exit_code == 0
    assert invoke(*STREAM, "--id", name, "-o", "out.csv").exit_code == 0
    with open("whole.csv", newline="") as whole, open("out.csv", newline="") as joined:
        rows = list(csv.reader(joined))
        assert rows == list(csv.reader(whole))
    assert [row[0] for row in rows] == [name, *["plain", "a\rb", "c\nd"] * 50]
    assert len(pd.read_csv("out.csv")) == 150


def test_columns_without_values_in_the_first_part(invoke, mixed, whole):
    ids = pd.array([2**53 + 1] * 149 + [None], dtype="Int64")
    nothing = [None] * 149
    mixed.assign(note=[*nothing, "late"], flag=[*nothing, True], id=ids, none=None).to_parquet("new.parquet")
    names = [word for name in ("note", "flag", "id", "none") for word in ("--id", name)]
    assert invoke(*STREAM, *names, "-o", "out.parquet").exit_code == 0
    written = pq.read_table("out.parquet")
    kinds = [str(kind).removeprefix("large_") for kind in written.schema.types[:4]]  # large from pandas 3 on
    assert kinds == ["string", "bool", "int64", "null"]
    assert written.column("note").to_pylist() == [*nothing, "late"]
    assert written.column("flag").to_pylist() == [*nothing, True]
    assert written.column("id").to_pylist() == [2**53 + 1] * 149 + [None]
    # As CSV, they are as exact.
    assert invoke(*STREAM, *names, "-o", "out.csv").exit_code == 0
    assert Path("out.csv").read_text().splitlines()[1].startswith(f",,{2**53 + 1},,")


def test_columns_of_other_types_in_other_files(invoke, mixed, whole):
    Path("new").mkdir()
    mixed.assign(a=2**53 + 1, b="x", c=np.int32(1)).to_parquet("new/0.parquet")
    mixed.assign(a=0.5, b=7, c=2**40).to_parquet("new/1.parquet")
    # A folder whose name looks like the value of a column is none.
    Path("a=1").mkdir()
    names = [word for name in "abc" for word in ("--id", name)]
    assert invoke("predict", "model.skops", "new", *names, "-o", "a=1/out.parquet").exit_code == 0
    written = pd.read_parquet("a=1/out.parquet")
    assert [set(written[name]) for name in "abc"] == [{"9007199254740993", "0.5"}, {"x", "7"}, {1, 2**40}]


def test_formulas_in_parts_that_were_written_before(invoke, mixed, whole, monkeypatch):
    mixed.assign(note=["=1+1"] + ["plain"] * 149).to_parquet("new.parquet")
    arguments = (*STREAM, "--id", "note", "-o", "out.csv")
    stop_after(2, monkeypatch, invoke, *arguments)
    warned = invoke(*arguments).stderr
    assert "resumes after 2 parts" in warned
    assert "would take '=1+1' for a formula" in warned


def test_warnings_are_those_of_one_go(invoke, mixed, whole, monkeypatch):
    cities = {city: f"{city}, Europe" for city in mixed["city"].dropna().unique()}
    for data in (mixed, mixed.assign(city=mixed["city"].map(cities)), mixed.assign(**{"<b>noise</b>": 0.25})):
        data.to_parquet("new.parquet")
        whole = invoke("predict", "model.skops", "new.parquet", "-o", "whole.csv").stderr
        assert invoke(*STREAM, "-o", "out.csv").stderr == whole
    assert whole == ""
    # Of all parts together, though some were written before.
    data = mixed.assign(city=mixed["city"].map(cities))
    data.to_parquet("new.parquet")
    stop_after(2, monkeypatch, invoke, *STREAM, "-o", "out.csv")
    assert "the model knows no value of 'city'" in invoke(*STREAM, "-o", "out.csv").stderr
    data.assign(city=[*data["city"][:149], mixed["city"][149]]).to_parquet("new.parquet")
    assert "city" not in invoke(*STREAM, "-o", "out.csv").stderr
    pd.concat([mixed, mixed]).to_parquet("new.parquet")
    assert "300 of 300 rows are rows that the model was trained on" in invoke(*STREAM, "-o", "out.csv").stderr


@pytest.mark.parametrize("data", ["new.csv", "new.parquet"])
def test_parts_that_take_more_memory_than_the_limit(refuses, invoke, mixed, whole, monkeypatch, data):
    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 2**16)
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2**26)
    table = pd.concat([mixed] * 20, ignore_index=True)
    table = table.assign(note=[f"{i}" * 1300 for i in range(1000, 4000)])
    table.to_csv(data, index=False) if data.endswith("csv") else table.to_parquet(data)
    arguments = ("predict", "model.skops", data, "--stream", "-o", "out.csv", "--max-bytes")
    if data.endswith("parquet"):  # of CSV files, parts are smaller where less is allowed
        assert (
            f"'{data}': it takes more than 11.4 MiB of memory, the limit that max_bytes (--max-bytes) sets"
            in refuses(*arguments, 12_000_000)
        )
    assert invoke(*arguments, 40_000_000 if data.endswith("parquet") else 12_000_000).exit_code == 0


def test_a_folder_that_another_one_writes_to(invoke, whole, monkeypatch):
    predict, inner = Predictions._predict, []

    def twice(self, carried, rows):
        if not inner:
            inner.append(None)
            inner[0] = invoke(*STREAM, "-o", "out.csv")
        return predict(self, carried, rows)

    monkeypatch.setattr(Predictions, "_predict", twice)
    assert invoke(*STREAM, "-o", "out.csv").exit_code == 0
    assert (inner[0].exit_code, inner[0].stdout) == (2, "")
    assert inner[0].stderr == "pacbayes: another process is writing to 'out.csv.parts'\n"
    assert len(pd.read_csv("out.csv")) == 150
    assert sorted(path.name for path in Path().glob("*out*")) == ["out.csv"]


def test_what_a_killed_run_leaves(invoke, whole, monkeypatch):
    arguments = (*STREAM, "--id", "size", "-o", "out.csv")
    stop_after(2, monkeypatch, invoke, *arguments)
    for name in ("out.csv.parts/.000002.csv.4711.partial", ".out.csv.4711.partial", "out.csv.parts/lock"):
        Path(name).write_text("half")
    assert "resumes after 2 parts" in invoke(*arguments).stderr
    assert sorted(path.name for path in Path().glob("*out*")) == ["out.csv"]
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), whole)
    # Before there was a manifest, too.
    Path("out.csv.parts").mkdir()
    assert invoke(*arguments).exit_code == 0


@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
def test_rows_without_a_label_are_counted_in_parts_that_were_written_before(invoke, whole, monkeypatch, output):
    model, _ = load_model("model.skops")
    level = model.certificate_.abstention[-1].bound
    arguments = (*STREAM, "--id", "size", "--max-error", level, "-o", output)
    whole = invoke(*arguments)
    said = next(line for line in whole.stderr.splitlines() if "have no label" in line)
    assert " of 150 rows have no label" in said
    stop_after(2, monkeypatch, invoke, *arguments)
    resumed = invoke(*arguments)
    assert "resumes after 2 parts" in resumed.stderr
    assert said in resumed.stderr.splitlines()


@pytest.mark.parametrize(("data", "output"), [("g/*.csv", "g/a.csv"), ("g", "g/a.csv"), ("g", "b.csv"), ("g", "c.csv")])
def test_files_of_a_pattern_are_not_overwritten(refuses, mixed, whole, data, output):
    Path("g").mkdir()
    for name in "ab":
        mixed.to_csv(f"g/{name}.csv", index=False)
    os.link("g/b.csv", "b.csv")
    Path("c.csv").symlink_to("g/b.csv")
    assert refuses("predict", "model.skops", data, "-o", output) == "the predictions must go to a file of their own"


def test_predictions_in_the_folder_of_the_table(invoke, mixed, whole, monkeypatch, refuses):
    Path("g").mkdir()
    mixed.to_parquet("g/a.parquet")
    arguments = ("predict", "model.skops", "g", "--id", "size", "-o", "g/out.parquet")
    stop_after(2, monkeypatch, invoke, *arguments)
    assert "resumes after 2 parts" in invoke(*arguments).stderr
    assert len(pd.read_parquet("g/out.parquet")) == 150
    assert "a file of their own" in refuses(*arguments)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are files of POSIX")
@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_pipes_devices_links_and_modes(invoke, whole, stream):
    def predict(output):
        assert invoke("predict", "model.skops", "new.csv", "--id", "size", "-o", output, *stream).exit_code == 0

    Path("null").symlink_to(os.devnull)
    predict("null")
    assert Path("null").is_char_device()
    os.mkfifo("pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    predict("pipe")
    assert Path("pipe").is_fifo()
    reader.join(timeout=30)
    assert read == [Path("whole.csv").read_bytes()]
    Path("private.csv").touch(mode=0o600)
    Path("link.csv").symlink_to("private.csv")
    predict("link.csv")
    assert Path("link.csv").is_symlink()
    assert Path("private.csv").read_bytes() == read[0]
    assert Path("private.csv").stat().st_mode & 0o777 == 0o600


def test_as_json(invoke, whole):
    result = invoke("predict", "model.skops", "new.parquet", "-o", "out.parquet", "--json")
    assert json.loads(result.stdout) == {"rows": 150, "classes": ["dry", "wet"], "output": "out.parquet"}


def test_a_full_disk(invoke, whole):
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
def test_killed_and_called_again(invoke, mixed, whole, tmp_path):
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
    assert pd.read_csv("out.csv")["prediction"].tolist() == whole["prediction"].tolist() * 2000
