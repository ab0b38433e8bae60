"""The command line: a thin layer over the library, one module per command.

A command is a function: its parameters are the arguments and options, and its docstring their help. What it needs is
imported when it runs, so that help and completion answer at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import pacbayes
from pacbayes.cli import bound, certify, demo, fit, monitor, paper, predict, report, verify
from pacbayes.cli._command import make_command, show_help_without_command, usage_error
from pacbayes.cli._console import print_lines, printed_warnings
from pacbayes.cli._imports import forget_postponed

# The base class of errors in options. Where it lives depends on the version of typer, so it is found by way of a
# public subclass.
_OPTION_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__base__ is Exception)


class _Program(TyperGroup):
    """The commands. Usage errors in options are reported as all others are: one line, exit code 2."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        try:
            with printed_warnings():
                code = super().main(*arguments, **{**settings, "standalone_mode": False})
        except typer.Abort:
            code = 1
        except _OPTION_ERROR as error:
            code = usage_error(error.format_message()).exit_code
        finally:
            forget_postponed()
        if settings.get("standalone_mode", True):
            sys.exit(code)
        return code


app = typer.Typer(
    name="pacbayes",
    cls=_Program,
    help="Classifiers and regressors that come with a proof of how well they will do.",
    epilog='Needs `pip install "pacbayes[cli]"`, and for the data of `paper` "pacbayes[paper]".',
    invoke_without_command=True,
    rich_markup_mode="markdown",  # flows paragraphs anew
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_lines(f"pacbayes {pacbayes.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Classifiers and regressors that come with a proof of how well they will do."""
    show_help_without_command(context)


for _run in (demo.demo, fit.fit, predict.predict, report.report, certify.certify, verify.verify, monitor.monitor):
    app.command()(make_command(_run))
app.add_typer(bound.app)
app.command()(make_command(paper.paper, extra="paper"))
