"""``pacbayes predict``: labels and vote shares for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes._formatting import format_count, format_names
from pacbayes._progress import show_progress
from pacbayes.cli._console import print_error, print_json, print_lines, print_text
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, check_output, load_with_schema, take_held_out
from pacbayes.cli._options import JSON, Decimal, Encoding, Format, HeldOut, MaxBytes, Missing, ModelPath, Separator
from pacbayes.cli._predict_parts import PartWriter, find_tables, is_parquet
from pacbayes.cli._predictions import (
    RowChecks,
    find_formulas,
    format_csv,
    join_predictions,
    json_columns,
    print_ignored,
    select_columns,
)

_OWN_FILE = "the predictions must go to a file of their own"


def predict(
    model: ModelPath,
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with the columns that the model was trained on: a file, a folder or pattern of several; - for "
            "standard input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default="standard output"),
    ] = None,
    id: Annotated[
        list[str] | None, typer.Option(help="A column of the table to write before the predictions. May be repeated.")
    ] = None,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="Write all columns of the table before the predictions.")
    ] = False,
    held_out: HeldOut = False,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas", help="Write an apostrophe before text that a spreadsheet would take for formulas."
        ),
    ] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read, predict and write in parts: for tables larger than the memory. Stopped, it goes on when it is "
            "called again. Always so for folders, patterns and Parquet output.",
        ),
    ] = False,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    format: Format = None,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Predict the classes of new rows, with each class's share of the vote.

    Shares are posterior weights, not calibrated probabilities: four decimals in CSV, and all digits in JSON. Columns
    that the model does not know are ignored, and so is the target if it is there.
    """
    with user_errors():
        from pacbayes.io import MAX_TABLE_BYTES, write_atomic

        if output is not None:
            check_output(output, [model, data], _OWN_FILE)
        classifier, schema = load_with_schema(model, max_bytes)
        options = TableOptions(format, separator, decimal, encoding, missing, max_bytes)
        several = data.is_dir() or not (data.exists() or str(data) == "-")
        if output is not None and not held_out and data.is_file():
            stream = stream or data.stat().st_size > (max_bytes or MAX_TABLE_BYTES)
        if stream or several or (output is not None and is_parquet(output)):
            # A file that is not there is said, whatever else was forgotten.
            tables = [] if str(data) == "-" else find_tables(data, output)
            if output is None or held_out or not tables:
                raise usage_error("predictions in parts need a file to read and --output, and take no --held-out")
            check_output(output, tables, _OWN_FILE)
            writer = PartWriter(model, output, tables, id or (), all_columns, escape_formulas)
            n_rows, formulas, checks = writer.write(classifier, schema, options)
            checks.print()
            _print_written(n_rows, classifier.classes_.tolist(), output, json)
            _warn_of_formulas([] if escape_formulas or is_parquet(output) else formulas)
            return
        if held_out and schema.source is not None:
            options = TableOptions.of_training(schema.source, max_bytes)
        table = options.read(data, schema=schema, allow_extra=True, carry=True)
        if held_out:
            table = take_held_out(table, schema, data)
        classes = classifier.classes_.tolist()
        carried = select_columns(
            table.carried, id or (), all_columns, ["prediction", *(f"share_{name}" for name in classes)]
        )
        checks = RowChecks(classifier)
        with show_progress(f"predicting {len(table.X)} rows"):
            labels = classifier.predict(table.X)
            shares = classifier.predict_proba(table.X)
            checks.add(table.X)
        written = join_predictions(carried, labels, shares, classes)
        formulas = find_formulas(written, classes)
        content = format_csv(written, formulas if escape_formulas else ())
        if output is not None:
            write_atomic({output: content.encode()})
    print_ignored(table.carried, carried, schema)
    checks.print()
    if json:
        values: dict[str, Any] = {"rows": len(labels), "classes": classes}
        if output is None:
            ids = {} if carried.empty else {"columns": json_columns(carried)}
            print_json(values | ids | {"predictions": labels.tolist(), "shares": shares.tolist()})
        else:
            print_json(values | {"output": str(output)})
        return
    _warn_of_formulas([] if escape_formulas else formulas)
    if output is None:
        print_text(content)
    else:
        print_lines(f"{format_count(len(labels), 'prediction')}  {output}")


def _warn_of_formulas(formulas: list[str]) -> None:
    if formulas:
        print_error(
            f"warning: a spreadsheet would take {format_names(formulas)} for a formula: --escape-formulas writes an "
            "apostrophe before it"
        )


def _print_written(n_rows: int, classes: list[Any], output: Path, json: bool) -> None:
    if json:
        print_json({"rows": n_rows, "classes": classes, "output": str(output)})
    else:
        print_lines(f"{format_count(n_rows, 'prediction')}  {output}")
