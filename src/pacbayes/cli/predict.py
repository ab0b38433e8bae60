"""``pacbayes predict``: labels and vote shares for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes.cli._console import print_error, print_json, print_lines, print_text
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, load_with_schema
from pacbayes.cli._options import JSON, Format, MaxBytes, Missing, ModelPath, Separator
from pacbayes.formatting import format_names

# What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def predict(
    model: ModelPath,
    data: Annotated[
        Path, typer.Argument(help="Table with the columns that the model was trained on.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write.", show_default="standard output")
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas", help="Write an apostrophe before labels that a spreadsheet would take for formulas."
        ),
    ] = False,
    missing: Missing = None,
    separator: Separator = None,
    format: Format = None,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Predict the classes of new rows, with each class's share of the vote.

    Shares are posterior weights, not calibrated probabilities. A column of the target is ignored if there is one.
    """
    from pacbayes.io import check_writable, write_atomic

    with user_errors():
        if output is not None:
            if output.resolve() in (model.resolve(), data.resolve()):
                raise usage_error("the predictions must go to a file of their own")
            check_writable(output)
        classifier, schema = load_with_schema(model, max_bytes)
        table = TableOptions(format, separator, missing, max_bytes).read(data, schema=schema)
        labels = classifier.predict(table.X)
        shares = classifier.predict_proba(table.X)
        formulas = [name for name in classifier.classes_.tolist() if _is_formula(name)]
        content = _format_csv(labels, shares, classifier.classes_.tolist(), formulas if escape_formulas else ())
        if output is not None:
            write_atomic({output: content.encode()})
    if json:
        values: dict[str, Any] = {"rows": len(labels), "classes": classifier.classes_.tolist()}
        if output is None:
            print_json(values | {"predictions": labels.tolist(), "shares": shares.tolist()})
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
        print_lines(f"{len(labels)} predictions  {output}")


def _is_formula(label: Any) -> bool:
    """Return whether a spreadsheet would compute a label. A sign alone, or before a number, is harmless."""
    if not (isinstance(label, str) and len(label) > 1 and label.startswith(_FORMULA)):
        return False
    try:
        float(label)
    except ValueError:
        return True
    return False


def _format_csv(labels: Any, shares: Any, classes: Sequence[Any], escaped: Sequence[str]) -> str:
    """Return a column of labels, and one with the share of each class. Shares read back as the same numbers."""
    import pandas as pd

    written = pd.Series(labels).map({name: f"'{name}" if name in escaped else name for name in classes})
    columns = {"prediction": written} | {f"share_{name}": shares[:, k] for k, name in enumerate(classes)}
    return pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
