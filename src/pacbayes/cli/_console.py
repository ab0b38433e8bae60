"""Print for people and for scripts. Text that comes from files is printed without commands to the terminal."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any

from pacbayes.formatting import escape_control, format_upper

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate


def print_lines(*lines: object) -> None:
    """Print lines on standard output, with control characters escaped."""
    for line in lines:
        print(escape_control(str(line)))


def print_error(message: object) -> None:
    """Print a line on standard error, with control characters escaped."""
    print(f"pacbayes: {escape_control(str(message))}", file=sys.stderr)


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object on standard output. JSON escapes control characters itself."""
    print(json.dumps(values, indent=2, allow_nan=False))


def print_text(text: str) -> None:
    """Print a text of many lines, as it is for a file or a pipe, and with control characters escaped for a terminal."""
    if _is_terminal():
        print_lines(*text.splitlines())
    else:
        sys.stdout.write(text)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print Python's warnings as lines of their own on standard error, with control characters escaped."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_error(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_certificate(certificate: Certificate) -> None:
    """Print a table of the bounds and figures, what is proved, and what was assumed."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    def safe(text: str) -> str:
        return escape(escape_control(text))

    table = Table(title="Certificate", show_header=False, title_justify="left")
    for statement in certificate.statements:
        what = "error" if certificate.is_zero_one else f"{statement.loss} loss"
        table.add_row(safe(f"{statement.predictor}, {what} at most"), format_upper(statement.bound), style="bold")
    if all(statement.predictor != certificate.predictor for statement in certificate.statements):
        table.add_row(safe(certificate.predictor), "nothing is proved for this loss", style="bold")
    table.add_row("each fails with probability at most", f"{certificate.delta:g}", end_section=True)
    for name, value in certificate.figures().items():
        if name != "Delta":
            table.add_row(safe(name), safe(value))
    table.add_row("Strict", "yes" if certificate.strict else "NO: the theorem does not cover what is listed below")
    console = Console(highlight=False)
    console.print(table)
    console.print(safe(certificate.summary()), soft_wrap=True)
    console.print("Assuming that:")
    for assumption in certificate.assumptions:
        console.print(f"  - {safe(assumption)}", soft_wrap=True)


def certificate_values(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON holds it."""
    values: dict[str, Any] = json.loads(certificate.to_json())
    return values


def format_significant(value: float, *, upwards: bool | None) -> str:
    """Format a number with ten significant digits, rounded up or down, or to the nearest for None."""
    if not math.isfinite(value):
        return str(value)
    rounding = {True: ROUND_CEILING, False: ROUND_FLOOR, None: ROUND_HALF_EVEN}[upwards]
    return f"{Context(prec=10, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"
