"""What benchmarks share: options, times, and tables.

Tables are printed row by row and, with ``--record``, written to their section of RESULTS.md. ``--help`` says what a
script takes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("RESULTS.md")
# New sections go before this heading; what follows it was written by hand.
EARLIER = "# Earlier measurements"
PACKAGES = ("numpy", "scipy", "scikit-learn")
# What else the machine did when the script began: times of a busy machine are no times to quote.
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def make_parser(
    description: str, *, folder: bool = False, splits: int | None = None, only: Iterable[str] | None = None
) -> argparse.ArgumentParser:
    """Return a parser of --record, and of those arguments that many scripts have for which something is given."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--record", action="store_true", help="write each table to its section of RESULTS.md")
    if folder:
        parser.add_argument(
            "folder", metavar="FOLDER", type=Path, help="with the paper's datasets, one NAME.csv.gz each"
        )
    if splits is not None:
        parser.add_argument("--splits", type=int, default=splits, help="of each dataset")
    if only is not None:
        parser.add_argument("--only", nargs="+", metavar="NAME", default=list(only), help="these alone")
    return parser


class Clock:
    """Processor and wall seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.process_time() - self.start[0], time.perf_counter() - self.start[1]


def best(task: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Shortest times of several runs, of the processor and by the wall clock, and what the last gave."""
    times = []
    for _ in range(repeats):
        clock = Clock()
        result = task()
        times.append(clock.read())
    cpu, wall = map(min, zip(*times, strict=True))
    return cpu, wall, result


def in_fresh_process(script: str, call: str) -> Any:
    """What a call of a function of a script returns, as JSON holds it, in a process of its own."""
    program = f"import sys; sys.path.insert(0, {str(RESULTS.parent)!r}); import json, {script}; "
    command = [sys.executable, "-c", f"{program}print(json.dumps({script}.{call}))"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def with_mean(rows: Iterable[tuple[str, Sequence[float]]]) -> Iterator[tuple[str, ...]]:
    """Yield rows of a name and figures as they are measured, and the means of all figures."""
    measured = []
    for name, figures in rows:
        measured.append(figures)
        yield name, *(f"{value:.4f}" for value in figures)
    yield "mean", *(f"{sum(values) / len(measured):.4f}" for values in zip(*measured, strict=True))


def show(section: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Print a table while its rows are measured, and record it if ``--record`` was given."""
    print(f"\n**{title}**\n\n{_line(columns)}\n{_rule(columns)}", flush=True)
    done = []
    for row in rows:
        print(_line(row), flush=True)
        done.append(row)
    if note:
        print(f"\n{note}")
    if "--record" in sys.argv:
        record(section, title, columns, done, note)


def record(
    section: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    note: str = "",
    *,
    path: Path | None = None,
) -> None:
    """Write a table with date, machine and command to its section of a file; all other sections stay as they are.

    The section of a name lies between two comments with that name. It is replaced where it is; a new one goes to the
    end of what the benchmarks have written.
    """
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    parts = [
        begin,
        f"## {title}",
        f"{describe_command()}\n{describe_machine()}",
        "\n".join([_line(columns), _rule(columns), *map(_line, rows)]),
        *([note] if note else []),
        end,
    ]
    written = "\n\n".join(parts)
    path = path or RESULTS
    text = path.read_text(encoding="utf-8")
    owned = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if owned.search(text):
        text = owned.sub(lambda _: written, text, count=1)
    else:
        before, heading, after = text.partition(f"\n{EARLIER}\n")
        text = f"{before.rstrip()}\n\n{written}\n{heading}{after}"
    path.write_text(text, encoding="utf-8")


def describe_command() -> str:
    """Return the command of this process, with a word for folders: where they lie is nobody's business."""
    script, *arguments = sys.argv
    words = ["FOLDER" if os.path.isdir(word) else word for word in arguments if word != "--record"]
    return f"`{shlex.join(['python', f'benchmarks/{Path(script).name}', *words])}`"


def describe_machine() -> str:
    """Return the date, the machine, and the versions of what computes."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    cores = f"{os.cpu_count()} cores (load before: {LOAD:.1f})"
    return ", ".join([f"{date.today()}", _processor(), cores, f"Python {platform.python_version()}", *versions])


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return f"{platform.machine()} ({named[1]})" if named else platform.machine()


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _rule(columns: Sequence[str]) -> str:
    return "|---|" + "---:|" * (len(columns) - 1)
