"""Options that several commands share, and what commands do with tables and models besides what the library does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pacbayes
from pacbayes import io
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import describe_test
from pacbayes.cli._imports import postpone_statistics, without_list_of_estimators

Objective = StrEnum("Objective", ["auto", "lambda", "kl", "dual", "direct"])
# The last two bound nothing by themselves: held-out rows test the vote.
FitObjective = StrEnum("FitObjective", ["auto", "lambda", "kl", "dual", "direct", "relative", "stacking"])
TableFormat = StrEnum("TableFormat", ["csv", "parquet", "libsvm", "xlsx"])
MaxBytes = Annotated[int | None, typer.Option(min=1)]
if TYPE_CHECKING:
    Model = pacbayes.PACBayesClassifier | pacbayes.PACBayesRegressor


@dataclass(frozen=True)
class TableOptions:
    """How files are read: options of the commands that read a table, as the functions of `pacbayes.io` take them.

    Attributes
    ----------
    missing
        A word that stands for a missing value, besides the empty cell, NA, NaN, null. May be repeated.
    separator
        Character between the cells of a CSV file. [default: comma, semicolon, tab or |, by the first rows]
    decimal
        Decimal mark of a CSV file, . or , [default: by what the columns hold]
    encoding
        Encoding of a CSV file. [default: UTF-8, otherwise Windows-1252]
    format
        Format of the table. [default: by extension: .csv .tsv .txt .parquet .pq .libsvm .svm .xlsx]
    sheet
        Sheet of an Excel workbook. [default: the first]
    """

    missing: list[str] | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    format: TableFormat | None = None
    sheet: str | None = None
    max_bytes: MaxBytes = None

    def arguments(self) -> dict[str, Any]:
        """Return the options that were given, as arguments of functions that read a table."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def limit(self) -> dict[str, Any]:
        """Return the option that functions take that read something else."""
        return {} if self.max_bytes is None else {"max_bytes": self.max_bytes}

    def load(self, path: Path) -> tuple[Any, io.Schema | None]:
        """Load a classifier or regressor."""
        postpone_statistics()
        with without_list_of_estimators():
            return io.load_model(path, **self.limit())

    def load_with_schema(self, path: Path) -> tuple[Any, io.Schema]:
        """Load a classifier or regressor that knows what tables it can be applied to."""
        model, schema = self.load(path)
        if schema is None:
            raise usage_error(f"{str(path)!r} does not say what its columns are: it was saved without a schema")
        return model, schema

    def _read_as_in_training(self, path: Path, target: str | None, schema: io.Schema, **settings: Any) -> io.Table:
        """Read a table in the way in which the one that a model was made from was read."""
        names = ("missing", "separator", "decimal", "encoding", "format", "sheet")
        form = {} if schema.source is None else {name: getattr(schema.source, name) for name in names}
        options = replace(self, **form).arguments()
        options["skip_missing_target"] = schema.source is not None and schema.source.skipped > 0
        return io.read_table(path, target, schema=schema, allow_extra=True, **options, **settings)

    def read_training_table(self, path: Path, schema: io.Schema) -> io.Table:
        """Read the rows that a model was trained on from the table that it was made from."""
        source = schema.source
        if source is None or schema.target is None:
            raise usage_error("the model does not say which rows it was trained on")
        table = self._read_as_in_training(path, schema.target, schema, carry=True)
        if len(table.X) != source.n_rows:
            raise usage_error(
                f"{str(path)!r} has {len(table.X)} rows, and the model was made from {source.n_rows}: it is a "
                "different table"
            )
        return table.take(split_as_trained(table, source)[0])

    def read(
        self, path: Path, schema: io.Schema, held_out: bool, target: str | None = None, **settings: Any
    ) -> io.Table:
        """Read the rows of a table for a model, or those only that `fit --test-size` held out of it."""
        if not held_out:
            return io.read_table(path, target, schema=schema, allow_extra=True, **self.arguments(), **settings)
        table = self._read_as_in_training(path, target, schema, **settings)
        source = schema.source
        if source is None or source.test_size is None:
            raise usage_error("the model was trained on all rows: `fit --test-size` would have held some out")
        if source.sha256 is None or not is_source(table, schema):
            raise usage_error(
                f"{str(path)!r} is not the file that the model was made from: --held-out needs {source.name!r}"
            )
        return table.take(split_as_trained(table, source)[1])


def split_as_trained(table: Any, source: io.Provenance) -> Any:
    """Return the rows of a table that a model was trained on, and those that were held out."""
    return source.split(None if source.time is None else table.column(source.time))


def is_source(table: io.Table, schema: io.Schema) -> bool:
    """Return whether a table was read from the file that a model was made from."""
    source, given = schema.source, table.schema.source
    return source is not None and given is not None and source.sha256 == given.sha256


def check_exists(path: Path, what: str = "") -> None:
    """Refuse a file that is not there, before anything is imported that reads it."""
    if str(path) != "-" and not path.exists():
        raise usage_error(f"{str(path)!r}{what}: there is no such file")


def check_model_exists(path: Path) -> None:
    """Refuse a model that is not there, before anything is imported that reads it."""
    check_exists(path, " is not a model that can be loaded")


def check_output(output: Path, inputs: Iterable[Path], message: str) -> None:
    """Refuse an output that is one of the inputs, by whatever name, or that cannot be written."""
    if str(output) == "-":
        raise usage_error("- is not a file: only predictions can be written to standard output")
    if any(_is_same_file(output, path) for path in inputs):
        raise usage_error(message)
    io.check_writable(output)


def _is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths lead to one file, which may have several names."""
    with suppress(OSError):  # where one of them does not exist
        return os.path.samefile(first, second)
    return first.resolve() == second.resolve()


def train(model: Model, table: io.Table | io.StreamedTable, groups: Any = None, max_error: float | None = None) -> None:
    """Fit a model to a table, with groups of its rows and a declared error if any."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A hypothesis that was not trained to convergence is validated as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.X, table.y, groups=groups, max_error=max_error)
    model.set_params(verbose=0)


def test_model(model: Model, schema: io.Schema, table: io.Table | io.StreamedTable, delta: float) -> io.Schema:
    """Return the schema of a model with what it did on rows that it has not seen."""
    from pacbayes._losses import MEANS

    y: Any = table.y  # tables without a target are refused where they are read
    if schema.task == "classification":
        assert isinstance(model, pacbayes.PACBayesClassifier)
        return replace(schema, test=io.HeldOutTest(len(table.X), model.count_errors(table.X, y), delta))
    given: Any = table.X.labels() if isinstance(table, io.StreamedTable) else y
    target = model.fitted_votes_.task.encode(given)
    errors = model.predict(table.X) - target
    tested = model.certify(table.X, y, delta=delta)
    test = io.HeldOutErrors(
        len(table.X),
        float(abs(errors).mean()),
        float((errors**2).mean() ** 0.5),
        MEANS[tested.loss.partition(":")[0]],  # type: ignore[arg-type]
        tested.error_bound if tested.bound < 1 else None,
        delta,
    )
    return replace(schema, number_test=test)


def draw(plot: Callable[[Any], Any], form: str, dpi: float | str = "figure", **settings: Any) -> bytes:
    """Return a plot as the content of a file of some form, given what draws it on axes and settings of its figure."""
    from matplotlib.figure import Figure

    figure, file = Figure(layout="constrained", **settings), BytesIO()
    plot(figure.subplots())
    figure.savefig(file, format=form, dpi=dpi)
    return file.getvalue()


def describe_data(schema: io.Schema | None) -> dict[str, Any]:
    """Return what a page can say about the data of a model, as arguments of `fit_page`."""
    if schema is None:
        return {}
    source, test, counted = schema.source, schema.test or schema.number_test, schema.test
    time = None if source is None else source.time
    facts = {
        "File": None if source is None else source.name,
        "SHA-256": None if source is None else source.sha256,
        "Target": schema.target,
        "Held-out test": None if test is None else describe_test(test, time),
    }
    return {
        "data": {name: value for name, value in facts.items() if value is not None},
        "class_counts": dict(zip(schema.classes, schema.class_counts, strict=True)),
        # The last rows are no draw from the others: nothing follows from them alone.
        "test": None if counted is None or time is not None else (counted.errors, counted.n_rows),
    }
