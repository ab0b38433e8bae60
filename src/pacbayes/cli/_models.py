"""What commands do with models and tables, besides what the library does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.cli._console import describe_test
from pacbayes.cli._errors import usage_error

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import HeldOutTest, Provenance, Schema, StreamedTable, Table


@dataclass(frozen=True)
class TableOptions:
    """Options of the commands that read a table, as `pacbayes.io.read_table` takes them."""

    format: str | None
    separator: str | None
    decimal: str | None
    encoding: str | None
    missing: list[str] | None
    max_bytes: int | None

    @classmethod
    def of_training(cls, source: Provenance, max_bytes: int | None) -> TableOptions:
        """Return the options that read a table as it was for training."""
        return cls(source.format, source.separator, source.decimal, source.encoding, list(source.missing), max_bytes)

    def read(self, path: Path, target: str | None = None, **settings: Any) -> Table:
        """Read a table with these options."""
        from pacbayes.io import read_table

        return read_table(path, target, **self.as_arguments(), **limit(self.max_bytes), **settings)

    def open(self, path: Path, target: str | None, **settings: Any) -> Table | StreamedTable:
        """Read a table to train on, in parts if it is larger than the memory that is allowed."""
        from pacbayes.io import open_table

        return open_table(path, target, **self.as_arguments(), **limit(self.max_bytes), **settings)

    def as_arguments(self) -> dict[str, Any]:
        """Return how files are written, as arguments of the functions of `pacbayes.io` that read them."""
        return {
            "format": self.format,
            "separator": self.separator,
            "decimal": self.decimal,
            "encoding": self.encoding,
            "missing": self.missing or (),
        }


def check_output(output: Path, inputs: Iterable[Path], message: str) -> None:
    """Refuse an output that is one of the inputs, by whatever name, or that cannot be written."""
    from pacbayes.io import check_writable

    if any(is_same_file(output, path) for path in inputs):
        raise usage_error(message)
    check_writable(output)


def is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths lead to one file, which may have several names."""
    with suppress(OSError):  # where one of them does not exist
        return os.path.samefile(first, second)
    return first.resolve() == second.resolve()


def limit(max_bytes: int | None) -> dict[str, Any]:
    """Return the argument `max_bytes`, if it was given."""
    return {} if max_bytes is None else {"max_bytes": max_bytes}


def load_with_schema(path: Path, max_bytes: int | None = None) -> tuple[PACBayesClassifier, Schema]:
    """Load a model that knows what tables it can be applied to."""
    from pacbayes.io import load_model

    model, schema = load_model(path, **limit(max_bytes))
    if schema is None:
        raise usage_error(f"{str(path)!r} does not say what its columns are: it was saved without a schema")
    return model, schema


def train(model: PACBayesClassifier, table: Table | StreamedTable) -> None:
    """Fit a model to a table, without warnings that do not matter here."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A hypothesis that was not trained to convergence is validated as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        y: Any = table.y
        model.fit(table.X, y)
    model.set_params(verbose=0)


def read_training_table(path: Path, schema: Schema, max_bytes: int | None) -> Table:
    """Read the table that a model was made from, rows that `fit --test-size` held out included."""
    source = schema.source
    if source is None or schema.target is None:
        raise usage_error("the model does not say which rows it was trained on")
    table = TableOptions.of_training(source, max_bytes).read(path, schema.target, schema=schema, allow_extra=True)
    if len(table.X) != source.n_rows:
        raise usage_error(
            f"{str(path)!r} has {len(table.X)} rows, and the model was made from {source.n_rows}: it is another table"
        )
    return table


def take_held_out(table: Table, schema: Schema, path: Path) -> Table:
    """Return the rows of a table that `fit` held out of it for a test."""
    source, given = schema.source, table.schema.source
    if source is None or source.test_size is None:
        raise usage_error("the model was trained on all rows: `fit --test-size` would have held some out")
    if given is None or given.sha256 is None or given.sha256 != source.sha256:
        raise usage_error(
            f"{str(path)!r} is not the file that the model was made from: --held-out needs {source.name!r}"
        )
    return table.take(source.split()[1])


def test_model(model: PACBayesClassifier, table: Table | StreamedTable, delta: float) -> HeldOutTest:
    """Count the errors of a model on rows that it has not seen."""
    from pacbayes.io import HeldOutTest

    y: Any = table.y
    return HeldOutTest(len(table.X), model.count_errors(table.X, y), delta)


def test_values(test: HeldOutTest) -> dict[str, Any]:
    """Return a test as JSON holds it."""
    return {
        "rows": test.n_rows,
        "errors": test.errors,
        "error": test.error,
        "bound": test.bound,
        "delta": test.delta,
    }


def describe_data(schema: Schema | None) -> dict[str, Any]:
    """Return what a page can say about the data of a model, as arguments of `fit_page`."""
    if schema is None:
        return {}
    facts = {"Target": schema.target}
    if schema.source is not None:
        facts = {"File": schema.source.name, "SHA-256": schema.source.sha256, **facts}
    if schema.test is not None:
        facts["Held-out test"] = describe_test(schema.test)
    return {
        "data": {name: value for name, value in facts.items() if value is not None},
        "class_counts": dict(zip(schema.classes, schema.class_counts, strict=True)),
        "test": None if schema.test is None else (schema.test.errors, schema.test.n_rows),
    }
