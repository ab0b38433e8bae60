"""Tables of the benchmarks: printed row by row and, with ``--record``, written to their section of RESULTS.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
# New sections go before this heading; what follows it was written by hand.
EARLIER = "# Earlier measurements"
PACKAGES = ("numpy", "scipy", "scikit-learn")
# What else the machine did when the script began: times of a busy machine are no times to quote.
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """Give a script the option that makes it write its tables to RESULTS.md."""
    parser.add_argument("--record", action="store_true", help="write each table to its section of RESULTS.md")


def show(
    section: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    recording: bool,
    note: str = "",
) -> None:
    """Print a table while its rows are measured, and record it if asked to."""
    print(f"\n**{title}**\n\n{_line(columns)}\n{_rule(columns)}", flush=True)
    done = []
    for row in rows:
        print(_line(row), flush=True)
        done.append(row)
    if note:
        print(f"\n{note}")
    if recording:
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
