"""The program: ``pacbayes``, or ``python -m pacbayes``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from pacbayes.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f'pacbayes: the command line needs {error.name}: python -m pip install "pacbayes[cli]"')
    app()


if __name__ == "__main__":
    main()
