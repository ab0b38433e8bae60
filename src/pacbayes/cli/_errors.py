"""Report errors that a user can put right: one line on standard error, and exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pacbayes.cli._console import print_error
from pacbayes.exceptions import PACBayesError


def usage_error(message: object) -> typer.Exit:
    """Print what is wrong with what was asked for, and return the exception that ends the program."""
    print_error(" ".join(str(message).split()))
    return typer.Exit(2)


@contextmanager
def user_errors(extra: str = "cli") -> Iterator[None]:
    """Report what the library and the system say about arguments and files, without a traceback.

    The library raises its own exceptions and ValueError for what a caller can put right. `extra` is the extra of the
    package that installs what the command needs.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has closed it: typer ends quietly
    except OSError as error:
        raise usage_error(f"{error.filename}: {error.strerror}" if error.filename else error) from error
    except (PACBayesError, ValueError) as error:
        raise usage_error(error) from error
    except ImportError as error:
        # The library says itself what to install where it needs a package; where Python does, only its name is known.
        install = f'this needs {error.name}: python -m pip install "pacbayes[{extra}]"'
        raise usage_error(install if isinstance(error, ModuleNotFoundError) else error) from error
    except MemoryError as error:
        raise usage_error("the memory is not sufficient: take fewer rows or columns, or a larger machine") from error
    except KeyboardInterrupt:
        print_error("stopped, and nothing was written")
        raise typer.Exit(130) from None
