"""Progress of long work on standard error: a bar on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

# Seconds to the first line, and between later ones. Short work says nothing.
_FIRST_LINE, _LINES = 10.0, 30.0


class Bar(Protocol):
    """What work reports its progress to."""

    def advance(self, amount: float = 1.0, description: str | None = None) -> None:
        """Add to what is done, and say what comes next."""


@contextmanager
def show_progress(
    description: str, total: float | None = None, *, enabled: bool = True, announce: bool = False
) -> Iterator[Bar]:
    """Show the progress of the work in a ``with`` block, which reports it to the bar that is yielded.

    With `announce`, prints a line at the end where there is no terminal, however short the work was.
    """
    console = _terminal() if enabled else None
    lines = _Lines(description, total)
    if console is not None:
        with _rich_bar(console, description, total) as bar:
            yield bar
    elif not enabled:
        yield lines  # which counts, and prints nothing
    else:
        with lines.printed():
            yield lines
        if announce:
            lines.print_line()


class _Lines:
    """Print a line after some time, by a thread of its own: a single step of the work may take long."""

    def __init__(self, description: str, total: float | None) -> None:
        self._description, self._total, self._done = description, total, 0.0
        self._start = time.monotonic()

    def advance(self, amount: float = 1.0, description: str | None = None) -> None:
        self._done += amount
        self._description = description or self._description

    def print_line(self) -> None:
        share = "" if not self._total else f" {min(self._done / self._total, 1.0):.0%}"
        print(f"{self._description}:{share} after {time.monotonic() - self._start:.0f} s", file=sys.stderr, flush=True)

    @contextmanager
    def printed(self) -> Iterator[None]:
        """Print a line now and then inside a ``with`` block."""
        closed = threading.Event()

        def print_lines() -> None:
            wait = _FIRST_LINE
            while not closed.wait(wait):
                self.print_line()
                wait = _LINES

        thread = threading.Thread(target=print_lines, daemon=True)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()


def _terminal() -> Any:
    """Return rich's console for standard error, if rich is there and this is a terminal or a notebook."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None


@contextmanager
def _rich_bar(console: Any, description: str, total: float | None) -> Iterator[Bar]:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(description, total=total)

        class RichBar:
            def advance(self, amount: float = 1.0, description: str | None = None) -> None:
                shown.update(task, advance=amount, description=description)

        yield RichBar()
