"""The README, the examples and the docstrings do what they say."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from itertools import product
from operator import attrgetter
from pathlib import Path

import prose
import pytest
import recorded_session
from report.browsing import opened

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


def says_nearly(shown, printed):
    """Whether text is the same to the letter, and numbers nearly.

    Trained models may differ in a validation error or two between machines.
    """
    number = r"\d+\.\d+"
    values = [[float(x) for x in re.findall(number, text)] for text in (printed, shown)]
    same = re.sub(number, "#", printed) == re.sub(number, "#", shown)
    return same and values[0] == pytest.approx(values[1], rel=0.1, abs=0.005)


class NearlyChecker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(want, got, optionflags) or says_nearly(want, got)


def test_numbers_that_differ_much_are_found():
    assert says_nearly("at most 0.570 of 20", "at most 0.571 of 20")
    assert not says_nearly("at most 0.570 of 20", "at most 0.640 of 20")
    assert not says_nearly("at most 0.570 of 20", "at most 0.570 of 21")


def block(marker, language):
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```{language}\n(.*?)```", README, re.DOTALL)
    assert found, marker
    return found.group(1)


def test_links_of_the_readme_work_on_other_pages_as_well():
    """The package index shows the README, and has none of its neighbours."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    for link in links:
        page = re.fullmatch(r"https://pacbayes\.readthedocs\.io/en/stable/(.*)\.html(?:#(.*))?", link)
        if page and page[1].startswith("auto_examples"):
            assert (ROOT / "docs" / page[1].replace("auto_examples", "gallery")).with_suffix(".py").exists(), link
        elif page:
            text = (ROOT / "docs" / f"{page[1]}.md").read_text(encoding="utf-8")
            titles = [re.sub(r"[^\w]+", "-", title.lower()).strip("-") for title in re.findall(r"^#+ (.*)", text, re.M)]
            assert page[2] is None or page[2] in titles, link
        elif link.startswith("https://github.com/pacbayes/pacbayes/blob/main/"):
            assert (ROOT / link.partition("/blob/main/")[2]).exists(), link


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_readme_shows_the_examples_and_what_they_print(path):
    assert block(f"examples/{path.name}", "python") == path.read_text(encoding="utf-8")
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    shown = block(f"output of examples/{path.name}", "text")
    assert says_nearly(shown, run.stdout)


def test_the_theory_page_maps_the_paper_to_every_public_function():
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    table = set(re.findall(r"`~pacbayes\.(bounds|posterior|quasiconvexity)\.(\w+)`", page))
    for module in (pacbayes.bounds, pacbayes.posterior, pacbayes.quasiconvexity):
        room = module.__name__.removeprefix("pacbayes.")
        functions = {(room, name) for name in module.__all__ if not isinstance(getattr(module, name), type)}
        assert functions == {entry for entry in table if entry[0] == room}


def pages():
    """Every page of the documentation; tutorials, which go over the ground of the other pages at length, are slow."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        marks = [pytest.mark.slow] if page.name.startswith("tutorial_") else []
        yield pytest.param(page, id=page.name, marks=marks)


@pytest.mark.parametrize("page", [*pages()])
def test_pages_do_what_they_say(page, monkeypatch):
    monkeypatch.chdir(ROOT / "docs" / "session")  # the files that pages speak of
    examples = doctest.DocTestParser().get_doctest(page.read_text(encoding="utf-8"), {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(NearlyChecker()).run(examples).failed == 0


CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")


def test_the_newcomers_walk_names_what_exists():
    walk = CONTRIBUTING.partition("## A newcomer's walk")[2].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. ", walk, re.MULTILINE)
    assert steps == [str(k + 1) for k in range(len(steps))]
    assert 8 <= len(steps) <= 12
    names = re.findall(r"`([\w/]+\.py): ([\w.]+)`", walk)
    assert len(names) >= len(steps)
    for file, name in names:
        module = importlib.import_module(f"pacbayes.{file.removesuffix('.py').replace('/', '.')}")
        found = attrgetter(name)(module)
        assert callable(found), f"{file}: {name}"
        assert getattr(module, name.partition(".")[0]).__module__ == module.__name__, f"{name} is not defined in {file}"


def test_the_layers_are_those_that_are_checked():
    described = re.search(r"## The layers.*?```text\n(.*?)```", CONTRIBUTING, re.DOTALL)[1]
    layers = [set(re.split(r" {2,}", line)[0].split(" | ")) for line in described.splitlines()]
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    checked = [set(layer.split(" | ")) for layer in pyproject["tool"]["importlinter"]["contracts"][0]["layers"]]
    public = [{room for room in layer if not room.startswith("_")} for layer in checked]
    assert layers == [layer for layer in public if layer]


@pytest.mark.slow
@pytest.mark.parametrize("page", recorded_session.PAGES)
def test_the_recorded_session_is_what_happens(page, tmp_path):
    assert len(recorded_session.commands(page)) >= 3
    assert recorded_session.differences(page, tmp_path) == []


@pytest.mark.slow
def test_the_newcomers_report_in_a_browser(browser, tmp_path):
    """The page of a table with text and gaps, at the widths of a laptop and of a phone, with and without a network."""
    for command, _ in recorded_session.commands("tutorial_practitioner.md")[:2]:
        recorded_session.carry_out(command, tmp_path)
    for width, offline in product((1280, 390), (False, True)):
        with opened(browser, tmp_path / "report.html", width, offline=offline) as page:
            assert page.get_by_role("heading", level=1).is_visible()
            assert page.get_by_text("errs on at most").first.is_visible()


def test_the_prose_has_no_phrase_of_the_list():
    assert prose.check_files() == []


def test_phrases_are_found_across_lines():
    assert prose.find_phrases("A pipeline\nbelongs\n  into the pool.") == [
        (2, "belongs into", prose.PHRASES["belongs? into"])
    ]
    assert prose.find_phrases("There is no file, and it belongs in the pool.") == []


def test_the_recipe_of_conda_has_the_versions_of_the_project():
    """Dependencies, and those of the command line, which conda's package has as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cli"], *extras["report"], *extras["plots"]]
    named = {"matplotlib": "matplotlib-base", "pyarrow": "pyarrow-core"}
    pairs = [requirement.split(">=") for requirement in wanted if not requirement.startswith("pacbayes")]
    lines = {f"{named.get(name, name)} >={version}" for name, version in pairs}
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("  run_constraints:")[0]
    assert set(re.findall(r"- (\S+ >=[\d.]+)\n", run)) == lines
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe


def test_versions_agree():
    assert f"\nversion: {pacbayes.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]


def test_imports_are_light():
    """In one process, from small to large: what each of them must not have loaded when it is there."""
    heavy = {
        # Nothing beyond numpy and the special functions of scipy.
        "pacbayes": "matplotlib|pandas|sklearn|joblib|mpmath|scipy.optimize|scipy.stats",
        "pacbayes.datasets": "pooch|requests|sklearn|pandas",
        "pacbayes.display": "matplotlib|sklearn",
        "pacbayes.paper.figures": "matplotlib|jinja2",
        "pacbayes.report": "matplotlib|jinja2",
        "pacbayes.classifier": "dask|distributed|zarr|fsspec",
    }
    code = "import importlib, re, sys\n"
    code += f"for name, heavy in {heavy!r}.items():\n"
    code += "    importlib.import_module(name)\n    print(name, [m for m in sys.modules if re.fullmatch(heavy, m)])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"{name} []" for name in heavy]
