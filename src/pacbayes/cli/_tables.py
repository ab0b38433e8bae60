"""Options that several commands share, and what commands do with tables and models besides what the library does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.cli._command import usage_error
from pacbayes.cli._console import describe_test

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import HeldOutTest, Schema, Table

Objective = StrEnum("Objective", ["auto", "lambda", "kl", "dual"])
TableFormat = StrEnum("TableFormat", ["csv", "parquet", "libsvm"])
MaxBytes = Annotated[int | None, typer.Option(min=1)]


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
        Format of the table. [default: by extension: .csv .tsv .txt .parquet .pq .libsvm .svm]
    """

    missing: list[str] | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    format: TableFormat | None = None
    max_bytes: MaxBytes = None

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def _limit(self) -> dict[str, Any]:
        return {} if self.max_bytes is None else {"max_bytes": self.max_bytes}

    def read(self, path: Path, target: str | None = None, **settings: Any) -> Table:
        """Read a table."""
        from pacbayes.io import read_table

        return read_table(path, target, **self._given(), **settings)

    def read_batches(self, paths: Sequence[Path], schema: Schema) -> Iterator[Table]:
        """Read tables that may be larger than the memory, some rows at a time."""
        from pacbayes.io import read_batches

        return read_batches(paths, schema, **self._given())

    def read_losses(self, path: Path, column: str | None) -> Any:
        """Read a file of losses."""
        from pacbayes.io import read_losses

        return read_losses(path, column, **self._limit())

    def load_model(self, path: Path) -> tuple[PACBayesClassifier, Schema | None]:
        """Load a model."""
        from pacbayes.io import load_model

        return load_model(path, **self._limit())

    def load_with_schema(self, path: Path) -> tuple[PACBayesClassifier, Schema]:
        """Load a model that knows what tables it can be applied to."""
        model, schema = self.load_model(path)
        if schema is None:
            raise usage_error(f"{str(path)!r} does not say what its columns are: it was saved without a schema")
        return model, schema

    def as_in_training(self, schema: Schema) -> TableOptions:
        """Return the options that read a table as it was for training."""
        source = schema.source
        if source is None:
            return self
        form: Any = source.format
        return TableOptions(
            list(source.missing), source.separator, source.decimal, source.encoding, form, self.max_bytes
        )

    def read_training_table(self, path: Path, schema: Schema) -> Table:
        """Read the rows that a model was trained on from the table that it was made from."""
        source = schema.source
        if source is None or schema.target is None:
            raise usage_error("the model does not say which rows it was trained on")
        table = self.as_in_training(schema).read(path, schema.target, schema=schema, allow_extra=True)
        if len(table.X) != source.n_rows:
            raise usage_error(
                f"{str(path)!r} has {len(table.X)} rows, and the model was made from {source.n_rows}: it is another "
                "table"
            )
        return table.take(source.split()[0])

    def read_held_out(self, path: Path, schema: Schema, target: str | None = None, **settings: Any) -> Table:
        """Read the rows of a table that `fit --test-size` held out of it."""
        table = self.as_in_training(schema).read(path, target, schema=schema, allow_extra=True, **settings)
        source = schema.source
        if source is None or source.test_size is None:
            raise usage_error("the model was trained on all rows: `fit --test-size` would have held some out")
        if source.sha256 is None or not is_source(table, schema):
            raise usage_error(
                f"{str(path)!r} is not the file that the model was made from: --held-out needs {source.name!r}"
            )
        return table.take(source.split()[1])


def is_source(table: Table, schema: Schema) -> bool:
    """Return whether a table was read from the file that a model was made from."""
    source, given = schema.source, table.schema.source
    return source is not None and given is not None and source.sha256 == given.sha256


def check_output(output: Path, inputs: Iterable[Path], message: str) -> None:
    """Refuse an output that is one of the inputs, by whatever name, or that cannot be written."""
    from pacbayes.io import check_writable

    if str(output) == "-":
        raise usage_error("- is no file: only predictions can be written to standard output")
    if any(_is_same_file(output, path) for path in inputs):
        raise usage_error(message)
    check_writable(output)


def _is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths lead to one file, which may have several names."""
    with suppress(OSError):  # where one of them does not exist
        return os.path.samefile(first, second)
    return first.resolve() == second.resolve()


def train(model: PACBayesClassifier, table: Table) -> None:
    """Fit a model to a table, without warnings that do not matter here."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A hypothesis that was not trained to convergence is validated as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.X, table.y)
    model.set_params(verbose=0)


def test_model(model: PACBayesClassifier, table: Table, delta: float) -> HeldOutTest:
    """Count the errors of a model on rows that it has not seen."""
    from pacbayes.io import HeldOutTest

    assert table.y is not None  # tables without classes are refused where they are read
    return HeldOutTest(len(table.X), model.count_errors(table.X, table.y), delta)


def describe_data(schema: Schema | None) -> dict[str, Any]:
    """Return what a page can say about the data of a model, as arguments of `fit_page`."""
    if schema is None:
        return {}
    source, test = schema.source, schema.test
    facts = {
        "File": None if source is None else source.name,
        "SHA-256": None if source is None else source.sha256,
        "Target": schema.target,
        "Held-out test": None if test is None else describe_test(test),
    }
    return {
        "data": {name: value for name, value in facts.items() if value is not None},
        "class_counts": dict(zip(schema.classes, schema.class_counts, strict=True)),
        "test": None if test is None else (test.errors, test.n_rows),
    }
