"""The README, the examples and the docstrings do what they say."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import recorded_session

import pacbayes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = [module.name for module in pkgutil.walk_packages(pacbayes.__path__, "pacbayes.")]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("module", [pacbayes.bounds, pacbayes.posterior, pacbayes.quasiconvexity])
def test_every_public_function_has_an_example_that_runs(module):
    finder = doctest.DocTestFinder(recurse=False)
    for name in module.__all__:
        member = getattr(module, name)
        if not isinstance(member, type):
            assert any(test.examples for test in finder.find(member)), name


def block(marker, language):
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```{language}\n(.*?)```", README, re.DOTALL)
    assert found, marker
    return found.group(1)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_readme_shows_the_examples_and_what_they_print(path):
    assert block(f"examples/{path.name}", "python") == path.read_text(encoding="utf-8")
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    shown = block(f"output of examples/{path.name}", "text")
    # Trained models may differ in a validation error or two between machines: text to the letter, numbers nearly.
    number = r"\d+\.\d+"
    assert re.sub(number, "#", run.stdout) == re.sub(number, "#", shown)
    values = [[float(x) for x in re.findall(number, text)] for text in (run.stdout, shown)]
    assert values[0] == pytest.approx(values[1], rel=0.1, abs=0.005)


def test_the_theory_page_maps_the_paper_to_every_public_function():
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    table = set(re.findall(r"`~pacbayes\.(bounds|posterior|quasiconvexity)\.(\w+)`", page))
    for module in (pacbayes.bounds, pacbayes.posterior, pacbayes.quasiconvexity):
        room = module.__name__.removeprefix("pacbayes.")
        functions = {(room, name) for name in module.__all__ if not isinstance(getattr(module, name), type)}
        assert functions == {entry for entry in table if entry[0] == room}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_pages_do_what_they_say(page):
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0


def test_the_recorded_session_is_what_happens(tmp_path):
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    recorded = recorded_session.commands(page)
    assert len(recorded) >= 6
    for command, shown in recorded:
        printed = recorded_session.carry_out(command, tmp_path)
        number = r"\d+(\.\d+)?(e-\d+)?"
        assert re.sub(number, "#", printed) == re.sub(number, "#", shown), command


def test_versions_agree():
    assert f"\nversion: {pacbayes.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]


def test_import_is_light():
    """Nothing beyond numpy and the special functions of scipy is loaded."""
    heavy = "matplotlib|pandas|sklearn|joblib|mpmath|scipy.optimize|scipy.stats"
    code = f"import pacbayes, re, sys; print([m for m in sys.modules if re.fullmatch({heavy!r}, m)])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
