"""Tables and models in files: what the command line does to a file, in Python.

`read_table` reads a CSV, Parquet or LIBSVM file; its `Table` holds features, labels and a `Schema`. `inspect_table`
finds columns that are ids, constant or copies of the target. `save_model` and
`load_model` keep a classifier, with the schema of its table, in a file that runs no code when it is loaded. These need
pandas, pyarrow and skops: ``pip install "pacbayes[cli]"``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes.io.atomic import check_writable, write_atomic
    from pacbayes.io.encoder import ColumnEncoder
    from pacbayes.io.inspection import Finding, inspect_table
    from pacbayes.io.models import dumps_model, load_model, save_model
    from pacbayes.io.schema import Column, HeldOutTest, Schema, Source, split_rows
    from pacbayes.io.tables import Table, read_losses, read_table

# Names are loaded when they are first used: writing a file does not need pandas.
_MODULES = {
    "Column": "schema",
    "ColumnEncoder": "encoder",
    "Finding": "inspection",
    "HeldOutTest": "schema",
    "Schema": "schema",
    "Source": "schema",
    "Table": "tables",
    "check_writable": "atomic",
    "dumps_model": "models",
    "inspect_table": "inspection",
    "load_model": "models",
    "read_losses": "tables",
    "read_table": "tables",
    "save_model": "models",
    "split_rows": "schema",
    "write_atomic": "atomic",
}

__all__ = [
    "Column",
    "ColumnEncoder",
    "Finding",
    "HeldOutTest",
    "Schema",
    "Source",
    "Table",
    "check_writable",
    "dumps_model",
    "inspect_table",
    "load_model",
    "read_losses",
    "read_table",
    "save_model",
    "split_rows",
    "write_atomic",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"pacbayes.io.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
