"""Packages that are not installed: each command says which extra of the package installs what it needs."""

import os
import sys

import pytest
from small_session import ENVIRONMENT, QUICK


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("pandas", ("fit", "data.csv", "--target", "kind")),
        pytest.param("skops.io", ("demo",), marks=pytest.mark.slow),
        pytest.param("jinja2", ("demo",), marks=pytest.mark.slow),
        pytest.param("matplotlib", ("report", "model.skops"), marks=pytest.mark.slow),
    ],
)
def test_commands_without_a_package(run, tmp_path, module, command):
    # A module of this name that cannot be imported comes before the real one.
    blocked = tmp_path / "blocked" / module.split(".")[0]
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text(
        f"raise ModuleNotFoundError('No module named {module}', name='{module.split('.')[0]}')\n"
    )
    (tmp_path / "data.csv").write_text("x,kind\n" + "1,a\n2,b\n2,a\n" * 20)
    if command[0] == "report":
        assert run("fit", "data.csv", "--target", "kind", *QUICK).returncode == 0
    path = os.pathsep.join([str(tmp_path / "blocked"), ENVIRONMENT["PYTHONPATH"]])
    result = run(*command, PYTHONPATH=path)
    assert result.returncode == 2, result.stderr
    assert result.stderr.endswith(
        f'pacbayes: this needs {module.split(".")[0]}: python -m pip install "pacbayes[cli]"\n'
    )


def test_the_paper_without_pooch(invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("PACBAYES_DATA_DIR", raising=False)
    result = invoke("paper", "--only", "f_lambda", "--datasets", "haberman", "--output", "out")
    assert result.exit_code == 2
    assert "pacbayes: haberman.data must be downloaded, which needs pooch: python -m pip install" in result.stderr
