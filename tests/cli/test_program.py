import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from small_session import ENVIRONMENT

from pacbayes import Certificate, __version__
from pacbayes.cli import app
from pacbayes.cli._tables import TableOptions
from pacbayes.exceptions import HypothesisError
from pacbayes.io import load_model


def test_version(run):
    assert run("--version").stdout == f"pacbayes {__version__}\n"


def test_help_imports_nothing_heavy(run, tmp_path):
    (tmp_path / "look.py").write_text(
        "import sys\nimport pacbayes.cli\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pandas', 'pyarrow', 'skops', 'matplotlib', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    command = [sys.executable, "look.py"]
    looked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert looked.stdout == "[]\n"
    result = run("--help")
    assert result.returncode == 0
    for command in ("demo", "fit", "predict", "certify", "verify", "bound", "report", "paper"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ["fit", "predict", "certify", "verify", "demo"])
def test_help_of_commands(invoke, command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_every_option_says_what_it_is_for():
    program = typer.main.get_command(app)
    commands = [*program.commands.values(), *program.commands["bound"].commands.values()]
    options = [option for command in commands for option in command.params if option.name != "help"]
    assert len(options) > 100
    assert [option.name for option in options if not option.help] == []
    # What comes from a docstring ends where the parameters begin.
    assert not [command.name for command in commands if "---" in command.help]


def test_options_that_commands_share_are_declared_once():
    shared = [field.name for field in fields(TableOptions)]
    for name in ("fit", "predict", "certify"):
        options = [option.name for option in typer.main.get_command(app).commands[name].params]
        assert set(shared) <= set(options), name


def test_no_command_is_asked_for_help(invoke):
    result = invoke()
    assert result.exit_code == 2
    assert "Usage" in result.output


def test_completion(run, tmp_path):
    script = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert script.returncode == 0, script.stderr
    assert "complete" in script.stdout
    # What the shell then asks, of the program by its own name.
    code = "import sys; sys.argv = ['pacbayes']; from pacbayes.__main__ import main; main()"
    asked = {"_PACBAYES_COMPLETE": "complete_bash", "COMP_WORDS": "pacbayes pre", "COMP_CWORD": "1"}
    completed = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT | asked, capture_output=True, text=True, check=False
    )
    assert completed.stdout.split() == ["predict"]


def test_options_that_are_wrong(refuses):
    assert refuses("fit") == "Missing argument 'data'."
    assert "No such option: --colour" in refuses("fit", "x.csv", "--colour")
    assert "Invalid value for '--seed'" in refuses("fit", "x.csv", "--target", "y", "--seed", "quick")
    assert "'forest'" in refuses("fit", "x.csv", "--target", "y", "--estimator", "forest")


def test_names_cannot_command_the_terminal(refuses):
    assert refuses("predict", "\x1b[31mred.skops", "x.csv") == (
        "'\\x1b[31mred.skops' is not a model that can be loaded: there is no such file"
    )


def test_an_unexpected_error_is_not_hidden(invoke, monkeypatch):
    monkeypatch.setattr("pacbayes.bounds.kl", lambda p, q: 1 / 0)
    result = invoke("bound", "kl", "--p", 0.1, "--q", 0.2)
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_stopping(invoke, monkeypatch):
    def stop(p, q):
        raise KeyboardInterrupt

    monkeypatch.setattr("pacbayes.bounds.kl", stop)
    result = invoke("bound", "kl", "--p", 0.1, "--q", 0.2)
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr


@pytest.mark.slow
def test_demo(run, tmp_path):
    result = run("demo", "--output", "demo")
    assert result.returncode == 0, result.stderr
    assert "the majority vote errs on at most" in result.stdout
    assert "error on the 171 test rows" in result.stdout
    assert (tmp_path / "demo" / "certificate.png").read_bytes().startswith(b"\x89PNG")
    model, _ = load_model(tmp_path / "demo" / "model.skops")
    assert Certificate.from_json((tmp_path / "demo" / "model.certificate.json").read_text()) == model.certificate_


def test_demo_in_a_place_that_cannot_be(refuses):
    Path("taken").write_text("a file")
    assert "File exists" in refuses("demo", "-o", "taken")


def test_a_reader_that_leaves_is_no_mistake(invoke, monkeypatch):
    def leave(p, q):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("pacbayes.bounds.kl", leave)
    result = invoke("bound", "kl", "--p", 0.1, "--q", 0.2)
    assert (result.exit_code, result.stderr) == (1, "")


def test_a_package_that_is_not_installed(refuses, monkeypatch):
    Path("data.csv").write_text("x,kind\n1,a\n2,b\n")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    Path("data.parquet").write_text("PAR1")
    assert "pacbayes[cli]" in refuses("fit", "data.parquet", "--target", "kind")


def test_training_that_fails_says_so(refuses, monkeypatch):
    def fail(*arguments, **options):
        raise HypothesisError("hypothesis 3 could not be trained")

    Path("data.csv").write_text("x,kind\n" + "1,a\n2,b\n2,a\n" * 20)
    monkeypatch.setattr("pacbayes.PACBayesClassifier.fit", fail)
    assert refuses("fit", "data.csv", "--target", "kind") == "hypothesis 3 could not be trained"


def test_demo_for_scripts(invoke, tmp_path, no_pictures):
    values = json.loads(invoke("demo", "--json").stdout)
    assert values["test"]["error"] < 0.1
    page = (tmp_path / values["files"]["report"]).read_text()
    assert "Breast cancer: benign or malignant" in page
    assert "malignant" in page
