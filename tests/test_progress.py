import io
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from pacbayes import _progress as progress
from pacbayes._progress import show_progress


@pytest.fixture
def clock(monkeypatch):
    """Stop the clock that lines are printed by."""
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def often(monkeypatch):
    """Print a line every hundredth of a second."""
    monkeypatch.setattr(progress, "_FIRST_LINE", 0.01)
    monkeypatch.setattr(progress, "_LINES", 0.01)


def wait_for(capsys, text):
    shown = ""
    deadline = time.monotonic() + 60
    while text not in shown and time.monotonic() < deadline:
        time.sleep(0.005)
        shown += capsys.readouterr().err
    return shown


def test_short_work_says_nothing_where_there_is_no_terminal(capsys):
    with show_progress("counting", 2) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""


def test_a_line_at_the_end_if_asked(capsys, clock):
    with show_progress("counting", 2, announce=True) as bar:
        bar.advance()
        bar.advance()
    assert capsys.readouterr().err == "counting: 100% after 0 s\n"


def test_a_line_now_and_then(capsys, often):
    # Also while a single step goes on, and none when it is over.
    with show_progress("counting", 4) as bar:
        assert "counting: 0% after " in wait_for(capsys, "counting: 0%")
        bar.advance(2, "adding")
        assert "adding: 50% after " in wait_for(capsys, "adding: 50%")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_work_of_unknown_size(capsys, often):
    with show_progress("thinking"):
        assert "thinking: after " in wait_for(capsys, "thinking")


def test_nothing_at_all(capsys, often):
    with show_progress("counting", 2, enabled=False, announce=True) as bar:
        bar.advance()
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_errors_end_it(capsys, often):
    with pytest.raises(ValueError, match="wrong"), show_progress("counting", 2, announce=True):
        raise ValueError("wrong")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(progress, "_terminal", lambda: console)
    with show_progress("[red]counting", 4) as bar:
        bar.advance(1, "[red]adding")
        bar.advance(1)
    # Names are no markup.
    assert "[red]adding" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_lines_without_rich(capsys, monkeypatch, clock):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with show_progress("counting", 1, announce=True) as bar:
        bar.advance()
    assert capsys.readouterr().err == "counting: 100% after 0 s\n"
