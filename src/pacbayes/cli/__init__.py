"""The command line: a thin layer over the library, one module per command.

What a command needs is imported when it runs, so that help and completion answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pacbayes.cli import bound, certify, demo, fit, paper, predict, report, verify
from pacbayes.cli._mistakes import mistake


class _Program(TyperGroup):
    """The commands, with mistakes in options told as all others are: one line, exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            code = 1
        except Exception as error:
            # Which class these are of depends on the version of typer; they know how to say what is wrong.
            if not hasattr(error, "format_message"):
                raise
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # type: ignore[attr-defined]
                code = 2
            else:
                code = mistake(error.format_message()).exit_code
        if standalone_mode:
            sys.exit(code)
        return code


app = typer.Typer(
    name="pacbayes",
    cls=_Program,
    help="Classifiers that come with a proof of how well they will do.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # flows paragraphs anew
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from pacbayes import __version__

        print(f"pacbayes {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Classifiers that come with a proof of how well they will do."""


app.command()(demo.demo)
app.command()(fit.fit)
app.command()(predict.predict)
app.command()(report.report)
app.command()(certify.certify)
app.command()(verify.verify)
app.add_typer(bound.app)
app.command()(paper.paper)
