"""``pacbayes monitor``: count the errors of a model on labelled rows, and tell when its error has risen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import pacbayes
from pacbayes import io
from pacbayes._atomic import locked_folder
from pacbayes._formatting import format_count
from pacbayes._progress import show_progress
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_error, print_lines, print_result
from pacbayes.cli._tables import TableOptions, check_output, draw, is_source

# Exit code on an alarm: 1 and 2 are errors.
_ALARM = 3

# What scripts are told about a monitor.
_VALUES = ("alarm", "alarm_at", "n", "errors", "interval", "reference", "threshold", "tolerance", "delta")


def monitor(
    model: Path,
    data: Path,
    state: Annotated[Path, typer.Option()],
    target: str | None = None,
    tolerance: float | None = None,
    delta: float | None = None,
    count_unknown: bool = False,
    plot: Path | None = None,
    *,
    options: TableOptions,
    json: bool = False,
) -> None:
    """Count the errors of a model on new labelled rows, and exit with code 3 once its error has risen.

    For a job that runs whenever labels have arrived, in any number: the alarm is false with probability at most delta,
    for all runs together. It stays until a new state is begun. The state is written at the end, complete or not at all.
    Rows that were counted already, the same in the same order, are recognised, and not counted again; rows that the
    model was trained on are refused.

    Parameters
    ----------
    data
        Table of the new rows with their classes, each row once. - for standard input.
    state
        File that keeps what was counted. The first run makes it.
    target
        Column of the classes. [default: as in training]
    tolerance
        By how much the error may rise above what is certified. First run only. [default: 0]
    delta
        Probability of a false alarm, ever, in (0, 1). First run only. [default: that of the certificate]
    count_unknown
        Count classes that the model does not know as errors, rather than refuse the rows.
    plot
        File for a plot of all runs: .png, .svg or .pdf.
    """
    for output in (state, *([] if plot is None else [plot])):
        check_output(output, [model, data], "state and plot must go to files of their own")
    classifier, schema = options.load_with_schema(model)
    if schema.task == "regression":
        raise usage_error(f"{str(model)!r} predicts numbers: a monitor counts errors, which only classes have")
    table = io.read_table(data, target or schema.target, schema=schema, allow_extra=True, **options.arguments())
    if table.y is None:
        raise usage_error("the model does not say which column holds the classes: give --target")
    if is_source(table, schema):
        raise usage_error(f"{str(data)!r} is the file that the model was trained on: new rows are needed")
    from pacbayes._fingerprint import digest

    # Of two jobs at a time, one would lose what the other one counted.
    with locked_folder(state.with_name(f"{state.name}.lock")):
        watched = _open_state(state, classifier.certificate_, tolerance, delta)
        before = watched.errors
        name = digest([table.X, table.y])  # rows by what they hold
        is_new = not watched.has_counted(name)
        if is_new:
            with show_progress(f"predicting {len(table.X)} rows"):
                classifier.check_unseen(table.X)
                predicted = classifier.predict(table.X)
            watched.update(table.y, predicted, batch=name, unknown="error" if count_unknown else "refuse")
        contents = {}
        if plot is not None:
            from pacbayes.display import MonitorDisplay

            form = plot.suffix.removeprefix(".") or "png"
            contents[plot] = draw(lambda ax: MonitorDisplay.from_monitor(watched, ax=ax), form)
        io.write_atomic(contents | ({state: watched.to_json().encode()} if is_new else {}))
    rows = {"rows": len(table.X) if is_new else 0, "new_errors": watched.errors - before}
    if is_new:
        found = f"{format_count(rows['new_errors'], 'error')} in {format_count(rows['rows'], 'row')} of {str(data)!r}"
    else:
        found = f"the rows of {str(data)!r} were counted before: nothing was counted again"
        print_error(found)
    values = rows | {name: getattr(watched, name) for name in _VALUES}
    print_result(json, values, *([found] if is_new else []), *str(watched).splitlines())
    if not json:
        print_lines(f"state  {state}")
    if watched.alarm:
        raise typer.Exit(_ALARM)


def _open_state(
    path: Path, certificate: pacbayes.Certificate, tolerance: float | None, delta: float | None
) -> pacbayes.Monitor:
    """Go on from a state, or begin one. What was chosen at its beginning cannot be changed."""
    if not path.exists():
        return pacbayes.Monitor(certificate, 0.0 if tolerance is None else tolerance, delta)
    try:
        watched = pacbayes.Monitor.from_json(path.read_text(encoding="utf-8"), certificate)
    except (pacbayes.exceptions.MonitorError, UnicodeDecodeError) as error:
        wrong = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise usage_error(f"{str(path)!r}: {wrong}") from None
    for name, given in (("tolerance", tolerance), ("delta", delta)):
        if given is not None and given != getattr(watched, name):
            raise usage_error(f"--{name}: {str(path)!r} was begun with {getattr(watched, name):g}, which stays")
    return watched
