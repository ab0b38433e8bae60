"""The session of docs/cli.md: what is typed, and what is printed.

``python tests/recorded_session.py`` carries it out in an empty folder and writes down again what is printed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```console\n\$ (.*)\n((?:.*\n)*?)```")


def commands(page):
    """Commands of a page, and what it shows under them."""
    return [(block[1], block[2]) for block in BLOCK.finditer(page)]


def carry_out(command, folder):
    """What a command prints in a folder that begins with the session's files."""
    for path in (DOCS / "session").iterdir():
        if not (folder / path.name).exists():
            shutil.copy(path, folder)
    command = re.sub(r"^pacbayes", f'"{sys.executable}" -m pacbayes', command)
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


if __name__ == "__main__":
    page = DOCS / "cli.md"
    with tempfile.TemporaryDirectory() as folder:

        def again(block):
            return f"```console\n$ {block[1]}\n{carry_out(block[1], Path(folder))}```"

        page.write_text(BLOCK.sub(again, page.read_text(encoding="utf-8")), encoding="utf-8")
