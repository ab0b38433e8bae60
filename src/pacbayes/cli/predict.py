"""``pacbayes predict``: labels and vote shares for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.cli._console import print_error, print_json, print_lines, print_text
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, load_with_schema, take_held_out
from pacbayes.cli._options import JSON, Decimal, Encoding, Format, HeldOut, MaxBytes, Missing, ModelPath, Separator
from pacbayes.formatting import format_count, format_names
from pacbayes.progress import show_progress

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.io import Schema

# Decimals of the shares of the vote in a CSV file.
_DIGITS = 4

# What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def predict(
    model: ModelPath,
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with the columns that the model was trained on; - for standard input.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write.", show_default="standard output")
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
        from pacbayes.io import check_writable, write_atomic

        if output is not None:
            if output.resolve() in (model.resolve(), data.resolve()):
                raise usage_error("the predictions must go to a file of their own")
            check_writable(output)
        classifier, schema = load_with_schema(model, max_bytes)
        options = TableOptions(format, separator, decimal, encoding, missing, max_bytes)
        if held_out and schema.source is not None:
            options = TableOptions.of_training(schema.source, max_bytes)
        table = options.read(data, schema=schema, allow_extra=True, carry=True)
        if held_out:
            table = take_held_out(table, schema, data)
        classes = classifier.classes_.tolist()
        carried = _select(table.carried, id or (), all_columns, ["prediction", *(f"share_{name}" for name in classes)])
        with show_progress(f"predicting {len(table.X)} rows"):
            labels = classifier.predict(table.X)
            shares = classifier.predict_proba(table.X)
            seen = classifier.count_seen(table.X)
        written = _join(carried, labels, shares, classes)
        formulas = _find_formulas(written, classes)
        content = _format_csv(written, formulas if escape_formulas else ())
        if output is not None:
            write_atomic({output: content.encode()})
    _print_ignored(table.carried, carried, schema)
    if seen:
        print_error(
            f"{seen} of {len(labels)} rows are rows that the model was trained on: the certificate is about new rows"
        )
    if json:
        values: dict[str, Any] = {"rows": len(labels), "classes": classes}
        if output is None:
            ids = {} if carried.empty else {"columns": _json_columns(carried)}
            print_json(values | ids | {"predictions": labels.tolist(), "shares": shares.tolist()})
        else:
            print_json(values | {"output": str(output)})
        return
    if formulas and not escape_formulas:
        print_error(
            f"warning: a spreadsheet would take {format_names(formulas)} for a formula: --escape-formulas writes an "
            "apostrophe before it"
        )
    if output is None:
        print_text(content)
    else:
        print_lines(f"{format_count(len(labels), 'prediction')}  {output}")


def _select(columns: Any, names: Sequence[str], all_columns: bool, reserved: Sequence[str]) -> pd.DataFrame:
    """Return the columns of the table that are written, as they are stored."""
    if all_columns:
        names = list(columns.columns)
    for name in names:
        if name not in columns.columns:
            raise usage_error(f"--id: there is no column {name!r}, only {format_names(columns.columns)}")
        if name in reserved:
            raise usage_error(f"the table has a column {name!r} as the predictions have: name others by --id")
    selected: pd.DataFrame = columns[list(dict.fromkeys(names))]
    return selected


def _print_ignored(columns: Any, carried: pd.DataFrame, schema: Schema) -> None:
    known = {*schema.names, schema.target, *carried.columns}
    ignored = [name for name in columns.columns if name not in known]
    if ignored:
        print_error(f"columns that the model does not use: {format_names(ignored)}")


def _join(carried: pd.DataFrame, labels: Any, shares: Any, classes: Sequence[Any]) -> pd.DataFrame:
    """Return the columns of the table, one of labels, and one with the share of each class."""
    import pandas as pd

    columns = {"prediction": labels} | {f"share_{name}": shares[:, k].round(_DIGITS) for k, name in enumerate(classes)}
    return pd.concat([carried.reset_index(drop=True), pd.DataFrame(columns)], axis=1)


def _json_columns(columns: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns as JSON holds them: numbers as they are, all else as text, null where missing."""
    import pandas as pd

    def convert(column: pd.Series[Any]) -> list[Any]:
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        return [None if pd.isna(value) else value if numeric else str(value) for value in column.tolist()]

    return {str(name): convert(columns[name]) for name in columns.columns}


def _find_formulas(written: pd.DataFrame, classes: Sequence[Any]) -> list[str]:
    """Return the text that a spreadsheet would compute, classes first."""
    texts = [
        value
        for name in written.columns
        if written[name].dtype.kind not in "biufMm"
        for value in written[name].dropna().unique().tolist()
    ]
    return list(dict.fromkeys(text for text in (*classes, *texts) if _is_formula(text)))


def _is_formula(text: Any) -> bool:
    """Return whether a spreadsheet would compute a text. A sign alone, or before a number, is harmless."""
    if not (isinstance(text, str) and len(text) > 1 and text.startswith(_FORMULA)):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _format_csv(written: pd.DataFrame, escaped: Sequence[str]) -> str:
    """Return columns as CSV, with an apostrophe before some texts."""
    replaced = {text: f"'{text}" for text in escaped}
    if replaced:
        texts = [name for name in written.columns if written[name].dtype.kind not in "biufMm"]
        written = written.assign(**{name: written[name].map(lambda text: replaced.get(text, text)) for name in texts})
    return str(written.to_csv(index=False, lineterminator="\n"))
