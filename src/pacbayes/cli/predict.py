"""``pacbayes predict``: labels and vote shares, or numbers and intervals, for new rows."""

from __future__ import annotations

import csv
import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes import io
from pacbayes._formatting import format_count, format_counts, format_names
from pacbayes._progress import show_progress
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_error, print_json, print_lines, print_text
from pacbayes.cli._parts import find_tables, is_parquet, join_parts, open_parts
from pacbayes.cli._tables import TableOptions, check_model_exists, check_output

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.fitting import SampleRows
    from pacbayes.rows import RowSummary

# Of the parts of predictions: those that were written in another way are not gone on from.
_FORMAT = 3

# Decimals of the shares of the vote, and of probabilities, in a file.
_DIGITS = 4

# What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

# What spreadsheets save, and this program does not.
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")

_OWN_FILE = "the predictions must go to a file of their own"


def predict(
    model: Path,
    data: Path,
    output: Path | None = None,
    id: list[str] | None = None,
    all_columns: bool = False,
    held_out: bool = False,
    escape_formulas: bool = False,
    stream: bool = False,
    max_error: float | None = None,
    coverage: float | None = None,
    probabilities: bool = False,
    *,
    options: TableOptions,
    json: bool = False,
) -> None:
    """Predict the classes of new rows, with each class's share of the vote, or their numbers, with intervals.

    Shares are posterior weights, not calibrated probabilities, which --probabilities adds: four decimals in files,
    and all digits in JSON. Columns that the model does not know are ignored, and so is the target if it is there.

    Parameters
    ----------
    data
        Table with the columns that the model was trained on: a file, a folder or pattern of several; - for standard
        input.
    output
        CSV or Parquet file to write. [default: standard output]
    id
        A column of the table to write before the predictions. May be repeated.
    all_columns
        Write all columns of the table before the predictions.
    escape_formulas
        Write an apostrophe before text that a spreadsheet would take for formulas.
    stream
        Read, predict and write in parts: for tables larger than the memory. Stopped, it goes on when it is called
        again. Always so for folders, patterns and Parquet output.
    max_error
        Leave the label empty unless the error among the rows that have one is proved to be at most this. For classes.
    coverage
        Add columns of the set of classes for each row, or of the ends of an interval, which hold the true one for at
        least this share, proved.
    probabilities
        Add columns of the probabilities of the classes: shares that were calibrated on training rows. If rows were
        held out, the certificate bounds their Brier score.
    """
    check_model_exists(model)
    if str(output) == "-":
        output = None
    if output is not None:
        check_output(output, [model, data], _OWN_FILE)
        if output.suffix.lower() in _SPREADSHEETS:
            raise usage_error(
                "predictions are written as CSV or Parquet, and spreadsheets open CSV: give -o "
                f"{output.with_suffix('.csv')}"
            )
    fitted, schema = options.load_with_schema(model)
    parquet = output is not None and is_parquet(output)
    columns = None if all_columns else id or ()
    predictions = Predictions(fitted, schema, columns, escape_formulas, parquet, max_error, coverage, probabilities)
    several = data.is_dir() or not (data.exists() or str(data) == "-")
    if output is not None and not held_out and data.is_file():
        stream = stream or data.stat().st_size > (options.max_bytes or io.MAX_TABLE_BYTES)
    if stream or several or parquet:
        # A file that is not there is said, whatever else was forgotten.
        tables = [] if str(data) == "-" else find_tables(data, output)
        if output is None or held_out or not tables:
            raise usage_error("predictions in parts need a file to read and --output, and take no --held-out")
        check_output(output, tables, _OWN_FILE)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        asked = (max_error, coverage, probabilities)
        made_by = (_FORMAT, digest, predictions.columns, escape_formulas, options, *asked)
        with open_parts(output, tables, made_by) as folder, show_progress("predicting") as bar:
            parts = []
            for k, table in enumerate(io.read_batches(tables, schema, **options.arguments())):
                parts.append(folder / f"{k:06d}{output.suffix}")
                # What is said is about all parts, those that were written before as well.
                predict_rows = predictions.add(table)
                if parts[k].exists():
                    predictions.count_written(parts[k], header=k == 0)
                else:
                    io.write_atomic({parts[k]: predictions.encode(predict_rows(), header=k == 0)})
                bar.advance(description=f"predicting, {predictions.n_rows} rows")
            if not parts:
                raise usage_error("there are no rows to predict")
            join_parts(parts, output)
    else:
        table = options.read(data, schema, held_out, carry=True)
        with show_progress(f"predicting {len(table.X)} rows"):
            frame = predictions.add(table)()
        content = predictions.encode(frame)
        if output is not None:
            io.write_atomic({output: content})
    predictions.print_warnings(formulas=not (parquet or escape_formulas or (json and output is None)))
    values: dict[str, Any] = {"rows": predictions.n_rows} | predictions.describe()
    if json and output is None:
        print_json(values | predictions.as_json(frame))
    elif json:
        print_json(values | {"output": str(output)})
    elif output is None:
        print_text(content.decode())
    else:
        print_lines(f"{format_count(predictions.n_rows, 'prediction')}  {output}")


@dataclass
class Predictions:
    """Predictions for rows that come in one batch or in several, and what there is to say about all of them."""

    model: Any
    schema: io.Schema
    columns: Sequence[str] | None  # of the table, to write before the predictions; None for all
    escape_formulas: bool
    parquet: bool
    max_error: float | None
    coverage: float | None
    probabilities: bool = False

    def __post_init__(self) -> None:
        self.n_rows = 0
        self._classes: list[Any] = self.model.fitted_votes_.task.classes.tolist()
        # What is predicted besides, as JSON calls it: its columns, and what computes them.
        self._answers: dict[str, tuple[list[str], Callable[[SampleRows], Any]]] = {}
        if self.schema.task == "regression":
            self._add_intervals()
        else:
            self._add_classes()
        self._predicted = ["prediction", *(name for names, _ in self._answers.values() for name in names)]
        self._n_predicted = self._n_unanswered = 0
        self._formulas = dict.fromkeys(filter(_is_formula, self._classes))
        self._unknown: dict[str, bool] = {}
        self._gaps: Counter[str] = Counter()
        self._outside: Counter[str] = Counter()
        self._summaries: list[RowSummary] = []

    def _add_intervals(self) -> None:
        for option, is_given in (("--max-error", self.max_error is not None), ("--probabilities", self.probabilities)):
            if is_given:
                raise usage_error(f"{option} is not for models that predict numbers: --coverage adds intervals")
        if self.coverage is not None:
            self.model.certificate_.choose_interval(self.coverage)  # says what is not proved before rows are read
            interval = partial(self.model.predict_interval, coverage=self.coverage)
            self._answers["intervals"] = ["lower", "upper"], interval

    def _add_classes(self) -> None:
        def add(key: str, word: str, compute: Callable[[SampleRows], Any]) -> None:
            self._answers[key] = [f"{word}_{name}" for name in self._classes], compute

        certificate = self.model.certificate_
        if self.probabilities and certificate.calibration is None:
            raise usage_error(
                "--probabilities: this model has shares of the vote only, since no rows of its training calibrated them"
            )
        if self.max_error is not None:
            certificate.choose_abstention(self.max_error)
        add("shares", "share", self.model.predict_shares)
        if self.probabilities:
            add("probabilities", "probability", self.model.predict_proba)
        if self.coverage is not None:
            certificate.choose_sets(self.coverage)
            add("sets", "set", partial(self.model.predict_set, coverage=self.coverage))

    def describe(self) -> dict[str, Any]:
        """Return what is predicted, as JSON holds it."""
        if self.schema.task == "classification":
            return {"classes": self._classes}
        return {"target": self.schema.target} | ({} if self.coverage is None else {"coverage": self.coverage})

    def add(self, table: io.Table) -> Callable[[], pd.DataFrame]:
        """Look at a batch, and return what predicts it: columns of the table, labels and shares."""
        from pacbayes.rows import RowSummary

        carried = self._select(table.carried)
        fitted = self.model.fitted_votes_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of gaps, which are counted over all batches
            rows = self.model.open_rows(table.X)
        if fitted.ranges is not None:
            self._gaps.update(fitted.ranges.select_new(table.missing))
            self._outside.update(fitted.ranges.count_outside(rows.sample.X))
        unknown = [] if fitted.code_book is None else fitted.code_book.find_strange_columns(table.X)
        for name in table.X.columns[table.X.notna().any()]:
            self._unknown[name] = self._unknown.get(name, True) and name in unknown
        texts = (value for name in _text_columns(carried) for value in carried[name].dropna().unique().tolist())
        self._formulas |= dict.fromkeys(filter(_is_formula, texts))
        self._summaries.append(RowSummary.of(rows.sample.X, self.n_rows, fitted.training_rows.shift))
        self.n_rows += len(table.X)
        return partial(self._predict, carried, rows)

    def _predict(self, carried: pd.DataFrame, rows: SampleRows) -> pd.DataFrame:
        import pandas as pd

        labels: Any
        if self.max_error is None:
            labels = self.model.predict(rows)
        else:
            predicted, answered = self.model.predict_selective(rows, self.max_error)
            labels = pd.Series(predicted, dtype=object).where(answered, None)
            self._n_predicted += answered.size
            self._n_unanswered += answered.size - int(answered.sum())
        columns = {"prediction": labels}
        for names, compute in self._answers.values():
            columns |= dict(zip(names, compute(rows).T, strict=True))
        return pd.concat([carried.reset_index(drop=True), pd.DataFrame(columns)], axis=1)

    def count_written(self, part: Path, *, header: bool) -> None:
        """Count the rows of a part that an earlier call wrote, and those without a label."""
        import pandas as pd

        if self.max_error is None:
            return
        if self.parquet:
            labels = pd.read_parquet(part, columns=["prediction"])["prediction"]
        else:
            place = self._n_carried
            # Nothing is missing but what is empty: a label may be NA.
            how: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_values": [""]}
            labels = pd.read_csv(part, header=None, skiprows=int(header), usecols=[place], **how)[place]
        self._n_predicted += labels.size
        self._n_unanswered += int(labels.isna().sum())

    def _select(self, stored: Any) -> pd.DataFrame:
        """Return the columns of the table that are written, as they are stored."""
        names = list(stored.columns if self.columns is None else dict.fromkeys(self.columns))
        for name in names:
            if name not in stored.columns:
                raise usage_error(f"--id: there is no column {name!r}, only {format_names(stored.columns)}")
            if name in self._predicted:
                raise usage_error(f"the table has a column {name!r} as the predictions have: name others by --id")
        self._n_carried = len(names)
        known = {*self.schema.names, self.schema.target, *names}
        ignored = [name for name in stored.columns if name not in known]
        if ignored and not self.n_rows:
            print_error(f"columns that the model does not use: {format_names(ignored)}")
        selected: pd.DataFrame = stored[names]
        return selected

    def encode(self, frame: pd.DataFrame, *, header: bool = True) -> bytes:
        """Return predictions as a CSV or Parquet file."""
        if self.schema.task == "classification":
            frame = frame.round(dict.fromkeys(self._predicted[1:], _DIGITS))
        if self.parquet:
            return frame.to_parquet(index=False, engine="pyarrow")
        if self.escape_formulas and self._formulas:
            escaped = {text: f"'{text}" for text in self._formulas}
            texts = {name: frame[name].map(lambda text: escaped.get(text, text)) for name in _text_columns(frame)}
            frame = frame.assign(**texts)
        write = partial(frame.to_csv, index=False, header=header, lineterminator="\n")
        content = str(write())
        # A carriage return ends a row for those who read it, and is not quoted by itself.
        return (content if "\r" not in content else str(write(quoting=csv.QUOTE_NONNUMERIC))).encode()

    def as_json(self, frame: pd.DataFrame) -> dict[str, Any]:
        """Return predictions as JSON holds them: numbers as they are, all else as text, null where missing."""
        import pandas as pd

        def values(column: pd.Series[Any]) -> list[Any]:
            numeric = pd.api.types.is_numeric_dtype(column.dtype)
            return [None if pd.isna(value) else value if numeric else str(value) for value in column.tolist()]

        carried = {str(name): values(frame[name]) for name in frame if name not in self._predicted}
        answers = {key: frame[names].to_numpy().tolist() for key, (names, _) in self._answers.items()}
        return ({"columns": carried} if carried else {}) | {"predictions": frame["prediction"].tolist()} | answers

    def print_warnings(self, *, formulas: bool) -> None:
        """Say how many rows have no label, and warn of what differs from training, of its rows, and of formulas."""
        from pacbayes.rows import RowSummary, describe_gaps

        is_proved = self.model.certificate_.is_covered
        if self.max_error is not None:
            is_said = "is proved to be" if is_proved else "would be"
            print_error(
                f"{self._n_unanswered} of {format_count(self._n_predicted, 'row')} have no label: the error among the "
                f"others {is_said} at most {self.max_error:g}"
            )
        if not is_proved and (self.max_error, self.coverage) != (None, None):
            print_error(f"warning: {' '.join(self.model.certificate_.sections()[0].warnings)}")
        if self._gaps:
            print_error(f"warning: {describe_gaps(self._gaps)}")
        if self._outside:
            print_error(
                f"warning: values smaller or larger than all of training in {format_counts(self._outside)} of "
                f"{self.n_rows} rows: the certificate is about rows like those of training"
            )
        unknown = [name for name, is_unknown in self._unknown.items() if is_unknown]
        if unknown:
            print_error(
                f"warning: the model knows no value of {format_names(unknown)}: are they written as in the table it "
                "was trained on?"
            )
        seen = self.model.fitted_votes_.training_rows.count_seen(RowSummary.join(self._summaries))
        if seen:
            print_error(
                f"{seen} of {self.n_rows} rows are rows that the model was trained on: the certificate is about new "
                "rows"
            )
        if formulas and self._formulas:
            print_error(
                f"warning: a spreadsheet would take {format_names(self._formulas)} for a formula: --escape-formulas "
                "writes an apostrophe before it"
            )


def _text_columns(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame.columns if frame[name].dtype.kind not in "biufMm"]


def _is_formula(text: Any) -> bool:
    """Return whether a spreadsheet would compute a text. A sign alone, or before a number, is harmless."""
    if not (isinstance(text, str) and len(text) > 1 and text.startswith(_FORMULA)):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
