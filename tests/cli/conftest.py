"""A small table with text and gaps, and two ways to run the program."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_session import ENVIRONMENT, QUICK, table
from typer.testing import CliRunner

from pacbayes import _progress as progress
from pacbayes.cli import app
from pacbayes.io import load_model


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    """Whether a command takes long enough to say how long depends on the machine."""
    monkeypatch.setattr(progress, "_FIRST_LINE", 3600.0)


@pytest.fixture
def run(tmp_path):
    """Run the real program, in a folder of its own."""

    def run(*arguments, **environment):
        command = [sys.executable, "-m", "pacbayes", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env={**ENVIRONMENT, **environment}, check=False
        )

    return run


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Run a command in this process, which is faster."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def refuses(invoke):
    """Run a command that is to fail as a user's mistake does: one line, exit code 2, and no new file."""

    def refuses(*arguments):
        before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        result = invoke(*arguments)
        assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
        assert result.stderr.startswith("pacbayes: ")
        assert result.stderr.count("\n") == 1
        assert "Traceback" not in result.output
        assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
        return result.stderr.removeprefix("pacbayes: ").rstrip("\n")

    return refuses


def _mixed_rows():
    data = table(150)
    data.loc[::17, "size"] = np.nan
    data.loc[::23, "city"] = None
    return data


@pytest.fixture
def mixed():
    """Rows with text, true and false, and missing values."""
    return _mixed_rows()


@pytest.fixture(scope="session")
def _fitted_once(tmp_path_factory):
    """A folder with the rows of `mixed` in a file, and what `pacbayes fit` made of it."""
    folder = tmp_path_factory.mktemp("fitted")
    _mixed_rows().to_csv(folder / "data.csv", index=False)
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, ["fit", "data.csv", "--target", "kind", *QUICK])
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def fitted(invoke, _fitted_once):
    """The model of `mixed`, whose files are in the folder of the test, with the data."""
    shutil.copytree(_fitted_once, ".", dirs_exist_ok=True)
    return load_model("model.skops")[0]


@pytest.fixture
def numeric():
    """Rows of numbers, none missing."""
    return table(150)[["size", "<b>noise</b>", "kind"]]
