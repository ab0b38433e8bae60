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

import pacbayes
from pacbayes import io
from pacbayes._formatting import escape_control, format_count, format_number, format_percent, format_percent_upper

if TYPE_CHECKING:
    from pacbayes.certificate import Section

# Classes up to which the confusion matrix is part of the table.
_MOST_PREDICTED = 6

# Letters of a name that a line of a table shows at least, before it is broken.
_NAME = 10


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
        is_test = isinstance(value, (io.HeldOutTest, io.HeldOutErrors))
        return test_values(value) if is_test else json.loads(value.to_json())

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


def print_certificate(
    certificate: pacbayes.Certificate,
    test: io.HeldOutTest | io.HeldOutErrors | None = None,
    time: str | None = None,
    *,
    in_full: bool = True,
) -> None:
    """Print what is proved about the predictions, with errors by class and group; in full, also how and why."""
    from pacbayes.certificate import ClassTable, RateTable

    sections = certificate.sections(most_predicted=_MOST_PREDICTED)
    if any(isinstance(one, ClassTable) and _least_width(one) > _console().width for one in sections):
        sections = certificate.sections(most_predicted=0)  # without the confusion matrix
    proved, *others = sections
    _print_section(proved)
    if test is not None:
        _print_wrapped(f"held-out test: {describe_test(test, time)}")
    for section in others:
        if in_full or isinstance(section, RateTable):
            _print_section(section)


def _console() -> Any:
    """Return rich's console, for text that is no markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_wrapped(text: str, *, bold: bool = False) -> None:
    _console().print(escape_control(text), soft_wrap=True, style="bold" if bold else None)


def _print_section(section: Section) -> None:
    """Print the title, the warnings, the table and the notes of a section."""
    from rich.table import Table

    for line in (section.title, *section.warnings):
        _print_wrapped(line, bold=True)
    table, console = Table(show_header=bool(section.header)), _console()
    for k, (number, width) in enumerate(zip(section.numeric, _least_widths(section), strict=True)):
        name = escape_control(section.header[k]) if section.header else ""
        table.add_column(name, justify="right" if number else "left", min_width=width, overflow="fold")
    for row in section.rows:
        table.add_row(*map(escape_control, row))
    if section.rows:
        if console.measure(table, options=console.options.update(width=10**6)).maximum > console.width:
            for column, number in zip(table.columns, section.numeric, strict=True):
                column.width = column.min_width if number else None  # what is left is for text
        # Where a terminal is narrower than that, it breaks lines, and cuts no number.
        console.width = max(console.width, _least_width(section))
        console.print(table)
    for note in section.notes:
        _print_wrapped(f"  - {note}")


def _least_widths(section: Section) -> list[int]:
    """Return the widths that columns need: numbers and the words of titles are not broken, other text is."""
    columns = [[escape_control(cell) for cell in column] for column in zip(*section.rows, strict=True)]
    titles = [escape_control(name) for name in section.header] or [""] * len(columns)
    return [
        max([len(word) for word in title.split()] + [len(cell) if number else min(len(cell), _NAME) for cell in column])
        for number, title, column in zip(section.numeric, titles, columns, strict=True)
    ]


def _least_width(section: Section) -> int:
    """Return the width that a table needs with its borders."""
    widths = _least_widths(section)
    return sum(widths) + 3 * len(widths) + 1


def describe_test(test: io.HeldOutTest | io.HeldOutErrors, time: str | None = None) -> str:
    """Say what a test found and proves: nothing, if it was on the last rows by their time."""
    rows = format_count(test.n_rows, "row")
    if isinstance(test, io.HeldOutErrors):
        absolute, squared = (format_number(e) for e in (test.mean_absolute_error, test.root_mean_squared_error))
        found = f"mean absolute error {absolute}, root mean squared error {squared} in {rows}"
        proved = "nothing"
        if test.bound is not None:
            bound = format_number(test.bound, "up")
            proved = f"a {test.name} of at most {bound}, capped (betting, delta {test.delta:g})"
    else:
        found = f"{format_count(test.errors, 'error')} in {rows} ({format_percent(test.error)})"
        proved = f"an error of at most {format_percent_upper(test.bound)} (Clopper-Pearson, delta {test.delta:g})"
    if time is not None:
        return f"{found}, the last ones by {time!r}: measured, and no bound on those that come after them"
    return f"{found}, which alone prove {proved}"


def test_values(test: io.HeldOutTest | io.HeldOutErrors) -> dict[str, Any]:
    """Return a test as JSON holds it."""
    measured = ("errors", "error")
    if isinstance(test, io.HeldOutErrors):
        measured = ("mean_absolute_error", "root_mean_squared_error")
    return {"rows": test.n_rows} | {name: getattr(test, name) for name in (*measured, "bound", "delta")}


def format_significant(value: float, *, upwards: bool | None) -> str:
    """Format a number with ten significant digits, rounded up or down, or to the nearest for None."""
    if not math.isfinite(value):
        return str(value)
    rounding = {True: ROUND_CEILING, False: ROUND_FLOOR, None: ROUND_HALF_EVEN}[upwards]
    return f"{Context(prec=10, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"
