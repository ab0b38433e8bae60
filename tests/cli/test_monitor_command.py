"""`pacbayes monitor`: a job that runs whenever labels have arrived."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_session import QUICK, table
from typer.testing import CliRunner

from pacbayes import Monitor
from pacbayes._atomic import locked_folder
from pacbayes.cli import app
from pacbayes.io import load_model

MONITOR = ("monitor", "model.pacbayes", "new.csv", "--state", "state.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table and two models of it."""
    folder = tmp_path_factory.mktemp("made")
    table(300).to_csv(folder / "data.csv", index=False)
    for seed, name in enumerate(("model.pacbayes", "other.pacbayes")):
        arguments = ("fit", folder / "data.csv", "--target", "kind", "-o", folder / name, *QUICK, "--seed", seed)
        assert CliRunner().invoke(app, [str(argument) for argument in arguments]).exit_code == 0
    return folder


@pytest.fixture
def fitted(invoke, made):
    """Models in this folder, and rows that they have not seen."""
    shutil.copytree(made, ".", dirs_exist_ok=True)
    write_rows("new.csv", 200, seed=1)


def write_rows(path, n, seed, *, swapped=False, **columns):
    rows = table(n, seed).assign(**columns)
    if swapped:
        rows["kind"] = np.where(rows["kind"] == "wet", "dry", "wet")
    rows.to_csv(path, index=False)


def test_from_the_first_run_to_the_alarm(invoke, fitted):
    first = invoke(*MONITOR, "--target", "kind", "--tolerance", 0.05)
    assert first.exit_code == 0, first.output
    model, _ = load_model("model.pacbayes")
    state = Monitor.from_json(Path("state.json").read_text(), model.certificate_)
    assert (state.n, state.tolerance, state.delta) == (200, 0.05, 0.05)
    assert f"{state.errors} errors in 200 rows of 'new.csv'\n" in first.stdout.replace("1 error ", "1 errors ")
    assert str(state) in first.stdout
    assert first.stdout.endswith("state  state.json\n")
    write_rows("new.csv", 100, seed=2, swapped=True)
    second = invoke(*MONITOR, "--plot", "errors.svg")
    assert second.exit_code == 3
    assert "ALARM, after 300 points: the error has risen above" in second.stdout
    assert Path("errors.svg").read_text().count("<svg") == 1
    # An alarm stays.
    write_rows("new.csv", 100, seed=3)
    assert invoke(*MONITOR).exit_code == 3
    assert {path.name for path in Path().iterdir() if "state" in path.name} == {"state.json"}


def test_as_json(invoke, fitted):
    result = invoke(*MONITOR, "--delta", 0.1, "--json")
    assert result.exit_code == 0
    values = json.loads(result.stdout)
    monitor = Monitor.from_json(Path("state.json").read_text())
    assert values["rows"] == values["n"] == 200
    assert values["new_errors"] == values["errors"] == monitor.errors
    assert (values["alarm"], values["alarm_at"], values["delta"]) == (False, None, 0.1)
    assert tuple(values["interval"]) == monitor.interval


def test_the_same_rows_twice_are_counted_once(invoke, fitted):
    invoke(*MONITOR)
    before = Path("state.json").read_bytes()
    Path("new.csv").rename("renamed.csv")
    again = invoke("monitor", "model.pacbayes", "renamed.csv", "--state", "state.json", "--json")
    assert again.exit_code == 0
    assert again.stderr == "pacbayes: the rows of 'renamed.csv' were counted before: nothing was counted again\n"
    assert json.loads(again.stdout)["rows"] == 0
    assert Path("state.json").read_bytes() == before
    pd.read_csv("renamed.csv").iloc[::-1].to_csv("new.csv", index=False)  # others, for all that the command knows
    assert invoke(*MONITOR).exit_code == 0
    assert Path("state.json").read_bytes() != before


def test_what_is_refused_changes_nothing(invoke, refuses, fitted):
    assert "is the file that the model was trained on" in refuses("monitor", "model.pacbayes", "data.csv", *MONITOR[3:])
    pd.read_csv("data.csv").iloc[:60].to_csv("part.csv", index=False)
    assert "rows of the training sample" in refuses("monitor", "model.pacbayes", "part.csv", *MONITOR[3:])
    write_rows("cows.csv", 30, seed=4, kind=["cow"] + ["wet"] * 29)
    unknown = refuses("monitor", "model.pacbayes", "cows.csv", *MONITOR[3:])
    assert unknown == "y_true must hold labels of the certificate, 'dry', 'wet', got 'cow'"
    pd.read_csv("cows.csv").iloc[:0].to_csv("empty.csv", index=False)
    assert "empty.csv" in refuses("monitor", "model.pacbayes", "empty.csv", *MONITOR[3:])
    write_rows("gaps.csv", 30, seed=4, kind=[None] + ["wet"] * 29)
    assert "kind" in refuses("monitor", "model.pacbayes", "gaps.csv", *MONITOR[3:])
    assert "there is no column 'sort'" in refuses(*MONITOR, "--target", "sort")
    assert "files of their own" in refuses("monitor", "model.pacbayes", "new.csv", "--state", "new.csv")
    assert "no folder" in refuses("monitor", "model.pacbayes", "new.csv", "--state", "nowhere/state.json")
    assert "Format 'xyz' is not supported" in refuses(*MONITOR, "--plot", "plot.xyz")
    assert "tolerance must be in [0, 1], got 2.0" in refuses(*MONITOR, "--tolerance", 2)
    assert "delta must be in (0, 1)" in refuses(*MONITOR, "--delta", 0)
    assert "--state" in refuses("monitor", "model.pacbayes", "new.csv")
    counted = invoke("monitor", "model.pacbayes", "cows.csv", *MONITOR[3:], "--count-unknown")
    assert counted.exit_code in (0, 3)
    assert Monitor.from_json(Path("state.json").read_text()).n == 30


def test_states_that_are_refused(invoke, refuses, fitted):
    assert invoke(*MONITOR, "--tolerance", 0.05).exit_code == 0
    assert "--tolerance: 'state.json' was begun with 0.05, which stays" in refuses(*MONITOR, "--tolerance", 0.1)
    assert "--delta: 'state.json' was begun with 0.05, which stays" in refuses(*MONITOR, "--delta", 0.1)
    state = Path("state.json").read_text()
    write_rows("new.csv", 50, seed=5)
    Path("state.json").write_text(state.replace('"tolerance": 0.05', '"tolerance": 0.5'))
    assert "'state.json': checksum does not match: the state of a monitor was changed" in refuses(*MONITOR)
    Path("state.json").write_bytes(b"\xff\xfe")
    assert "'state.json': not UTF-8 text" in refuses(*MONITOR)
    Path("state.json").write_text(state[: len(state) // 2])
    assert "'state.json': not a state of a monitor: not JSON" in refuses(*MONITOR)
    Path("state.json").write_text(state)
    other = refuses("monitor", "other.pacbayes", *MONITOR[2:])
    assert other == "'state.json': the state belongs to another certificate: a new one needs a new state"


def test_two_jobs_at_a_time(invoke, refuses, fitted):
    with locked_folder(Path("state.json.lock")):
        assert "another process is writing to 'state.json.lock'" in refuses(*MONITOR)
    assert invoke(*MONITOR).exit_code == 0
