"""What commands do with models and tables, besides what the library does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.cli._errors import usage_error

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import Schema, Table


@dataclass(frozen=True)
class TableOptions:
    """Options of the commands that read a table, as `pacbayes.io.read_table` takes them."""

    format: str | None
    separator: str | None
    missing: list[str] | None
    max_bytes: int | None

    def read(self, path: Path, target: str | None = None, **settings: Any) -> Table:
        """Read a table with these options."""
        from pacbayes.io import read_table

        return read_table(
            path,
            target,
            format=self.format,
            separator=self.separator,
            missing=self.missing or (),
            **limit(self.max_bytes),
            **settings,
        )


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


def train(model: PACBayesClassifier, table: Table) -> None:
    """Fit a model to a table, without warnings that do not matter here."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A hypothesis that was not trained to convergence is validated as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        y: Any = table.y
        model.fit(table.X, y)
    model.set_params(verbose=0)


def test_model(model: PACBayesClassifier, table: Table, delta: float) -> dict[str, Any]:
    """Return the errors of a model on rows that it has not seen, and the exact bound that they prove."""
    from pacbayes.bounds import clopper_pearson

    n = len(table.X)
    errors = int((model.predict(table.X) != table.y).sum())
    bound = float(clopper_pearson(errors, n, delta))
    return {"rows": n, "errors": errors, "error": errors / n, "bound": bound, "delta": delta}


def describe_data(schema: Schema | None) -> dict[str, Any]:
    """Return what a page can say about the data of a model, as arguments of `fit_page`."""
    if schema is None:
        return {}
    facts = {"Target": schema.target}
    if schema.source is not None:
        facts = {"File": schema.source.name, "SHA-256": schema.source.sha256, **facts}
    return {
        "data": {name: value for name, value in facts.items() if value is not None},
        "class_counts": dict(zip(schema.classes, schema.class_counts, strict=True)),
    }
