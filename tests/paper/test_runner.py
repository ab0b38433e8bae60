"""Runs that are interrupted, resumed, restricted or refused."""

import json
import signal
import subprocess
import sys
import time

import pytest

from pacbayes.exceptions import PaperError
from pacbayes.paper.experiments import EXPERIMENTS
from pacbayes.paper.runner import Plan, Store, Task, run

TINY = Plan(("breast-cancer-sklearn",), ("weighting", "comparison"), splits=2, more_splits=1, values=3, quick=True)


def test_a_finished_run_does_nothing_again(tmp_path):
    store = Store(tmp_path, TINY.settings())
    assert list(run(TINY, store)) == TINY.tasks()
    before = store.path.read_bytes()
    again = Store(tmp_path, TINY.settings())
    assert again.records == store.records
    assert list(run(TINY, again)) == []
    assert store.path.read_bytes() == before


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    store = Store(tmp_path, TINY.settings())
    list(run(TINY, store))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-20])
    again = Store(tmp_path, TINY.settings())
    assert list(run(TINY, again)) == TINY.tasks()[-1:]
    results = [json.loads(line).get("result") for line in whole.splitlines()]
    assert [json.loads(line).get("result") for line in store.path.read_bytes().splitlines()] == results


def test_other_settings_do_not_mix(tmp_path):
    Store(tmp_path, TINY.settings())
    with pytest.raises(PaperError, match="holds results of other settings"):
        Store(tmp_path, Plan().settings())
    (tmp_path / "results.jsonl").write_text("what is this\n")
    with pytest.raises(PaperError, match="not a file of results"):
        Store(tmp_path, TINY.settings())


def test_unknown_names_are_refused():
    with pytest.raises(PaperError, match="no experiment 'heatmap' in this run: it must be one of baseline, accuracy"):
        Plan().restrict(("heatmap",), ())
    with pytest.raises(PaperError, match="no dataset 'iris'"):
        Plan().restrict((), ("iris",))
    plan = Plan().restrict(("runtime",), ("avsb", "skin"))
    assert plan.tasks() == [Task("runtime", name, number) for name in ("skin", "avsb") for number in range(5)]
    assert plan.settings() == Plan().settings()


def test_the_papers_repetitions():
    tasks = Plan().tasks()
    assert len([t for t in tasks if t.experiment == "quasiconvexity"]) == 8 * 10
    assert all(len([t for t in tasks if t.experiment == e]) == 8 * 5 for e in EXPERIMENTS if e != "quasiconvexity")
    assert all(task.cost > 0 for task in tasks)


def wait_for_lines(path, count, process):
    """Wait until a process has written so many lines to a file; fail if it ends before."""
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def results_in(path):
    """Everything but the times."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def kill_and_resume(command, path, lines, resume):
    """Kill a run with SIGKILL after some lines, resume it, and check that nothing was lost or done twice."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for_lines(path, lines, process)
        process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    finished = path.read_bytes()
    resume()
    assert path.read_bytes().startswith(finished[: finished.rfind(b"\n") + 1])


def test_a_killed_run_is_resumed(tmp_path):
    """The same results as those of a run that was not interrupted."""
    program = """
import sys
from pacbayes.paper.runner import Plan, Store, run
plan = Plan(("breast-cancer-sklearn",), ("weighting", "comparison"), splits=2, more_splits=1, values=3, quick=True)
list(run(plan, Store(__import__("pathlib").Path(sys.argv[1]), plan.settings())))
"""
    path = tmp_path / "killed" / "results.jsonl"
    command = [sys.executable, "-c", program, str(path.parent)]
    kill_and_resume(command, path, 2, lambda: list(run(TINY, Store(path.parent, TINY.settings()))))
    alone = Store(tmp_path / "alone", TINY.settings())
    list(run(TINY, alone))
    assert results_in(path) == results_in(alone.path)


@pytest.mark.slow
def test_a_killed_command_is_resumed_and_writes_the_page(tmp_path):
    def command(folder):
        options = ["--quick", "--only", "comparison", "--only", "weighting", "--output", tmp_path / folder]
        return [sys.executable, "-m", "pacbayes", "paper", *options]

    path = tmp_path / "killed" / "results.jsonl"
    kill_and_resume(command("killed"), path, 4, lambda: subprocess.run(command("killed"), check=True))
    subprocess.run(command("alone"), check=True)
    assert results_in(path) == results_in(tmp_path / "alone" / "results.jsonl")
    assert "Of 8 claims of the paper" in (tmp_path / "killed" / "index.html").read_text(encoding="utf-8")
