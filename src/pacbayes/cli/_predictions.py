"""Predictions as columns of a table: what is written, and how."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pacbayes._formatting import format_names
from pacbayes.cli._console import print_error
from pacbayes.cli._errors import usage_error

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import Schema
    from pacbayes.rows import RowSummary

# Decimals of the shares of the vote in a CSV file.
_DIGITS = 4

# What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def select_columns(columns: Any, names: Sequence[str], all_columns: bool, reserved: Sequence[str]) -> pd.DataFrame:
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


def print_ignored(columns: Any, carried: pd.DataFrame, schema: Schema) -> None:
    """Say which columns of the table the model does not use."""
    known = {*schema.names, schema.target, *carried.columns}
    ignored = [name for name in columns.columns if name not in known]
    if ignored:
        print_error(f"columns that the model does not use: {format_names(ignored)}")


class RowChecks:
    """Find unknown categories and rows of the training sample among rows that are predicted, in one go or in parts."""

    def __init__(self, model: PACBayesClassifier) -> None:
        self._model = model
        self._n_rows = 0
        self._summaries: list[RowSummary] = []
        self._strange: dict[str, bool] = {}

    def add(self, X: pd.DataFrame) -> None:
        """Look at rows that follow those before."""
        from pacbayes.rows import RowSummary

        book, known = self._model._code_book, self._model._training_rows
        strange = [] if book is None else book.find_strange_columns(X)
        for name in X.columns[X.notna().any()]:
            self._strange[name] = self._strange.get(name, True) and name in strange
        self._summaries.append(RowSummary.of(self._model._validate_points(X), self._n_rows, known.shift))
        self._n_rows += len(X)

    def print(self) -> None:
        """Warn of columns of which the model knows no value, and say how many rows it was trained on."""
        from pacbayes.rows import RowSummary

        strange = [name for name, is_strange in self._strange.items() if is_strange]
        if strange:
            print_error(
                f"warning: the model knows no value of {format_names(strange)}: are they written as in the table it "
                "was trained on?"
            )
        seen = self._model._training_rows.count_seen(RowSummary.join(self._summaries))
        if seen:
            print_error(
                f"{seen} of {self._n_rows} rows are rows that the model was trained on: the certificate is about new "
                "rows"
            )


def join_predictions(carried: pd.DataFrame, labels: Any, shares: Any, classes: Sequence[Any]) -> pd.DataFrame:
    """Return the columns of the table, one of labels, and one with the share of each class."""
    import pandas as pd

    columns = {"prediction": labels} | {f"share_{name}": shares[:, k].round(_DIGITS) for k, name in enumerate(classes)}
    return pd.concat([carried.reset_index(drop=True), pd.DataFrame(columns)], axis=1)


def json_columns(columns: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns as JSON holds them: numbers as they are, all else as text, null where missing."""
    import pandas as pd

    def convert(column: pd.Series[Any]) -> list[Any]:
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        return [None if pd.isna(value) else value if numeric else str(value) for value in column.tolist()]

    return {str(name): convert(columns[name]) for name in columns.columns}


def find_formulas(written: pd.DataFrame, classes: Sequence[Any]) -> list[str]:
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


def format_csv(written: pd.DataFrame, escaped: Sequence[str], *, header: bool = True) -> str:
    """Return columns as CSV, with an apostrophe before some texts."""
    replaced = {text: f"'{text}" for text in escaped}
    if replaced:
        texts = [name for name in written.columns if written[name].dtype.kind not in "biufMm"]
        written = written.assign(**{name: written[name].map(lambda text: replaced.get(text, text)) for name in texts})
    write = partial(written.to_csv, index=False, header=header, lineterminator="\n")
    content = str(write())
    # A carriage return ends a row for those who read it, and is not quoted by itself.
    return content if "\r" not in content else str(write(quoting=csv.QUOTE_NONNUMERIC))
