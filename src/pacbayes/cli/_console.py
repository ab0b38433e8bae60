"""Print for people and for scripts. Text that comes from files is printed without commands to the terminal."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import pacbayes
from pacbayes import io
from pacbayes._formatting import escape_control, format_count, format_percent, format_percent_upper

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
    """Print one JSON object, which may hold certificates and tests. JSON escapes control characters itself."""

    def convert(value: Any) -> Any:
        return test_values(value) if isinstance(value, io.HeldOutTest) else json.loads(value.to_json())

    print(json.dumps(values, indent=2, allow_nan=False, default=convert))


def print_result(as_json: bool, values: dict[str, Any], *lines: object) -> None:
    """Print one JSON object for scripts, or lines for people."""
    if as_json:
        print_json(values)
    else:
        print_lines(*lines)


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


def print_answers(certificate: pacbayes.Certificate, test: io.HeldOutTest | None = None) -> None:
    """Print what is proved about the predictions, what it compares with, and errors by class."""
    _print_wrapped(certificate.summary(), bold=True)
    _print_table([(answer.title, answer.value, answer.remark) for answer in certificate.answers()], bold=0)
    beaten = certificate.compare_with_commonest()
    if beaten is not None:
        _print_wrapped(beaten, bold=True)
    if test is not None:
        _print_wrapped(f"held-out test: {describe_test(test)}")
    by_class = certificate.class_table(_MOST_PREDICTED)
    if by_class is not None:
        _print_table(by_class.rows, by_class.title, by_class.header)
        for note in by_class.notes:
            _print_wrapped(note)


def print_certificate(certificate: pacbayes.Certificate, test: io.HeldOutTest | None = None) -> None:
    """Print what is proved about the predictions and what a test found, how it is proved, and what was assumed."""
    from pacbayes.certificate import format_loss, name_loss

    print_answers(certificate, test)
    rows = [
        (f"{one.predictor}, {name_loss(one.loss)} at most", format_loss(one.loss, one.bound, upper=True, percent=False))
        for one in certificate.statements
    ]
    nothing = None
    if all(statement.predictor != certificate.predictor for statement in certificate.statements):
        nothing = len(rows)
        rows.append((certificate.predictor, "nothing is proved for this loss"))
    rows.append(("each fails with probability at most", f"{certificate.delta:g}"))
    strict = "yes" if certificate.strict else "NO: the theorem does not cover what is listed below"
    figures = [(name, value) for name, value in certificate.figures().items() if name != "Delta"]
    _print_table([*rows, *figures, ("Strict", strict)], "How it is proved", bold=nothing, section_end=len(rows) - 1)
    print_lines("Assuming that:")
    for assumption in certificate.assumptions:
        _print_wrapped(f"  - {assumption}")


def _console() -> Any:
    """Return rich's console, for text that is no markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_wrapped(text: str, *, bold: bool = False) -> None:
    _console().print(escape_control(text), soft_wrap=True, style="bold" if bold else None)


def _print_table(
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    header: Sequence[str] = (),
    *,
    bold: int | None = None,
    section_end: int | None = None,
) -> None:
    """Print a table, with one row bold and a line after another."""
    from rich.table import Table

    title = None if title is None else escape_control(title)
    table = Table(title=title, show_header=bool(header), title_justify="left")
    for k, name in enumerate(header):
        table.add_column(escape_control(name), justify="right" if k else "left")
    for k, row in enumerate(rows):
        cells = map(escape_control, row)
        table.add_row(*cells, style="bold" if k == bold else None, end_section=k == section_end)
    _console().print(table)


def describe_test(test: io.HeldOutTest) -> str:
    """Say what a test found and proves."""
    return (
        f"{format_count(test.errors, 'error')} in {format_count(test.n_rows, 'row')} ({format_percent(test.error)}), "
        f"which alone prove an error of at most {format_percent_upper(test.bound)} (Clopper-Pearson, delta "
        f"{test.delta:g})"
    )


def test_values(test: io.HeldOutTest) -> dict[str, Any]:
    """Return a test as JSON holds it."""
    return {"rows": test.n_rows} | {name: getattr(test, name) for name in ("errors", "error", "bound", "delta")}


def format_significant(value: float, *, upwards: bool | None) -> str:
    """Format a number with ten significant digits, rounded up or down, or to the nearest for None."""
    if not math.isfinite(value):
        return str(value)
    rounding = {True: ROUND_CEILING, False: ROUND_FLOOR, None: ROUND_HALF_EVEN}[upwards]
    return f"{Context(prec=10, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"
