"""What benchmarks record: each its own section of RESULTS.md, and nothing else of it."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

BEFORE = "# Results\n\nWritten by scripts.\n\n# Earlier measurements\n\nBy hand.\n"


@pytest.fixture
def results(monkeypatch):
    spec = importlib.util.spec_from_file_location("recorded_results", BENCHMARKS / "_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/engine.py", str(BENCHMARKS), "--only", "fit", "--record"])
    monkeypatch.setattr(module, "describe_machine", lambda: "today, here")
    return module


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "RESULTS.md"
    path.write_text(BEFORE, encoding="utf-8")
    return path


def test_a_new_section_goes_before_what_was_written_by_hand(results, path):
    results.record("engine, fit", "Fits", ("", "seconds"), [("ours", 0.1), ("theirs", 2)], "A note.", path=path)
    section = (
        "<!-- begin engine, fit -->\n\n## Fits\n\n`python benchmarks/engine.py FOLDER --only fit`\ntoday, here\n\n"
        "|  | seconds |\n|---|---:|\n| ours | 0.1 |\n| theirs | 2 |\n\nA note.\n\n<!-- end engine, fit -->\n"
    )
    before, earlier, after = BEFORE.partition("\n# Earlier measurements")
    assert path.read_text(encoding="utf-8") == f"{before}\n{section}{earlier}{after}"


def test_a_section_replaces_itself_alone(results, path):
    results.record("engine, fit", "Fits", ("", "seconds"), [("ours", 0.1)], path=path)
    results.record("engine, fit, large", "Large fits", ("", "seconds"), [("ours", 3)], path=path)
    results.record("dual", "Bounds", ("", "kl"), [("mean", r"\1")], path=path)
    first = path.read_text(encoding="utf-8")
    results.record("engine, fit", "Fits", ("", "seconds"), [("ours", 0.2)], path=path)
    assert path.read_text(encoding="utf-8") == first.replace("| ours | 0.1 |", "| ours | 0.2 |")
    assert first.index("Large fits") < first.index("## Bounds") < first.index(results.EARLIER)


def test_recording_the_same_again_changes_nothing(results, path):
    for name in ("engine, fit", "dual", "engine, fit"):
        results.record(name, name, ("", "seconds"), [("ours", 0.1)], path=path)
    once = path.read_text(encoding="utf-8")
    results.record("dual", "dual", ("", "seconds"), [("ours", 0.1)], path=path)
    assert path.read_text(encoding="utf-8") == once


def test_a_table_is_printed_while_it_is_measured_and_recorded_if_asked_for(results, path, monkeypatch, capsys):
    monkeypatch.setattr(results, "RESULTS", path)

    def rows():
        yield "ours", 0.1
        printed.append(capsys.readouterr().out)
        yield "theirs", 2

    printed = []
    monkeypatch.setattr(sys, "argv", ["benchmarks/engine.py"])
    results.show("engine, fit", "Fits", ("", "seconds"), rows(), note="A note.")
    assert printed == ["\n**Fits**\n\n|  | seconds |\n|---|---:|\n| ours | 0.1 |\n"]
    assert capsys.readouterr().out == "| theirs | 2 |\n\nA note.\n"
    assert path.read_text(encoding="utf-8") == BEFORE
    monkeypatch.setattr(sys, "argv", ["benchmarks/engine.py", "--record"])
    results.show("engine, fit", "Fits", ("", "seconds"), rows())
    assert "| theirs | 2 |" in path.read_text(encoding="utf-8")


def test_the_file_of_results_has_whole_sections():
    text = (BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8")
    begun = [line[len("<!-- begin ") :] for line in text.splitlines() if line.startswith("<!-- begin ")]
    ended = [line[len("<!-- end ") :] for line in text.splitlines() if line.startswith("<!-- end ")]
    assert begun == ended
    assert len(set(begun)) == len(begun)
    assert text.count("\n# Earlier measurements\n") == 1
