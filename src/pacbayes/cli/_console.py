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

from pacbayes._formatting import escape_control, format_count, format_percent, format_percent_upper

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate, Section
    from pacbayes.io import HeldOutTest


# Classes up to which the confusion matrix is part of the table.
_MOST_PREDICTED = 6


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


def print_answers(certificate: Certificate) -> None:
    """Print what is proved about the predictions, with what it compares with, and errors by class."""
    print_certificate(certificate, in_full=False)


def print_certificate(certificate: Certificate, test: HeldOutTest | None = None, *, in_full: bool = True) -> None:
    """Print what is proved about the predictions and what a test found, how it is proved, and what was assumed."""
    from pacbayes.certificate import ClassTable

    proved, *others = certificate.sections(most_predicted=_MOST_PREDICTED)
    _print_section(proved)
    if test is not None:
        print_lines(f"held-out test: {describe_test(test)}")
    for section in others:
        if in_full or isinstance(section, ClassTable):
            _print_section(section)


def _print_section(section: Section) -> None:
    """Print the title, the warnings, the table and the notes of a section."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(_safe(section.title), soft_wrap=True, style="bold")
    for line in section.warnings:
        console.print(_safe(line), soft_wrap=True, style="bold")
    table = Table(show_header=bool(section.header))
    for k, number in enumerate(section.numeric):
        table.add_column(_safe(section.header[k]) if section.header else "", justify="right" if number else "left")
    for row in section.rows:
        table.add_row(*map(_safe, row))
    if section.rows:
        console.print(table)
    for note in section.notes:
        console.print(f"  - {_safe(note)}", soft_wrap=True)


def _safe(text: str) -> str:
    """Return text without commands to the terminal or to rich."""
    from rich.markup import escape

    return escape(escape_control(text))


def describe_test(test: HeldOutTest) -> str:
    """Say what a test found and proves."""
    return (
        f"{format_count(test.errors, 'error')} in {format_count(test.n_rows, 'row')} ({format_percent(test.error)}), "
        f"which alone prove an error of at most {format_percent_upper(test.bound)} (Clopper-Pearson, delta "
        f"{test.delta:g})"
    )


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
