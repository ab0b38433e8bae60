"""The program: ``pacbayes``, or ``python -m pacbayes``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    # A command makes many objects by importing and few cycles: looking for these often takes a tenth of its time.
    gc.set_threshold(500_000, 20, 20)
    try:
        from pacbayes.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f'pacbayes: the command line needs {error.name}: python -m pip install "pacbayes[cli]"')
    app()


if __name__ == "__main__":
    main()
