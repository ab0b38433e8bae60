"""The sessions of the documentation: what is typed, and what is printed.

``python tests/recorded_session.py`` carries them out in empty folders and writes down again what is printed;
``python tests/recorded_session.py check`` compares instead, and needs nothing but the command line.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("cli.md", "tutorial_practitioner.md")
BLOCK = re.compile(r"```console\n\$ (.*)\n((?:.*\n)*?)```")
# The program without the lines that it prints if it takes long, so that a slow machine prints the same.
PROGRAM = "from pacbayes import __main__, _progress; _progress._FIRST_LINE = 1e6; __main__.main()"


def commands(page):
    """Commands of a page, and what it shows under them."""
    return [(block[1], block[2]) for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))]


def carry_out(command, folder):
    """What a command prints in a folder that begins with the session's files."""
    for path in (DOCS / "session").iterdir():
        if not (folder / path.name).exists():
            shutil.copy(path, folder)
    command = re.sub(r"^pacbayes", f'"{sys.executable}" -c "{PROGRAM}"', command)
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def differences(page, folder):
    """Carry out the session of a page; return the commands that print something else, numbers and rules apart."""
    different = []
    for command, shown in commands(page):
        printed = carry_out(command, folder)
        if _words(printed) != _words(shown):
            different.append(f"$ {command}\n{printed}")
    return different


def _words(text):
    # Trained models may differ in a validation error or two between machines, and so may the widths of columns.
    numbers = re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", text)
    return re.sub(r"[─ ]+", " ", numbers)


def _record(page):
    path = DOCS / page
    with tempfile.TemporaryDirectory() as folder:

        def again(block):
            return f"```console\n$ {block[1]}\n{carry_out(block[1], Path(folder))}```"

        path.write_text(BLOCK.sub(again, path.read_text(encoding="utf-8")), encoding="utf-8")


def _check(page):
    with tempfile.TemporaryDirectory() as folder:
        different = differences(page, Path(folder))
        if not (Path(folder) / "report.html").exists():
            different.append("there is no report")
    if different:
        sys.exit(f"{page} shows something else than\n" + "\n".join(different))


if __name__ == "__main__":
    for page in PAGES:
        (_check if sys.argv[1:] == ["check"] else _record)(page)
