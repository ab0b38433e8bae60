"""How a user's mistake is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer


def mistake(message: object) -> typer.Exit:
    """One line on standard error, and exit code 2."""
    line = " ".join(str(message).split())
    # A name from a file may hold what a terminal takes for a command.
    print(f"pacbayes: {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in line)}", file=sys.stderr)
    return typer.Exit(2)


@contextmanager
def mistakes_told() -> Iterator[None]:
    """Tell what the library and the system say about wrong arguments and files, without a traceback.

    The library raises ValueError for what a caller can put right, and `HypothesisError` where the data were too hard.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads on: no mistake, and typer ends quietly
    except OSError as error:
        raise mistake(f"{error.filename}: {error.strerror}" if error.filename else error) from error
    except ValueError as error:
        raise mistake(error) from error
    except ModuleNotFoundError as error:
        raise mistake(f'this needs {error.name}: python -m pip install "pacbayes[cli]"') from error
    except RuntimeError as error:
        if type(error).__name__ != "HypothesisError":
            raise
        raise mistake(error) from error
    except KeyboardInterrupt:
        print("\npacbayes: stopped, and nothing was written", file=sys.stderr)
        raise typer.Exit(130) from None
