"""Tables and models in files: what the command line does to a file, in Python.

`read_table` reads a CSV, Parquet or LIBSVM file; its `Table` holds features, labels and a `Schema`. `inspect_table`
finds columns that are ids, constant or copies of the target. `save_model` and
`load_model` keep a classifier, with the schema of its table, in a file that runs no code when it is loaded. These need
pandas, pyarrow and skops: ``pip install "pacbayes[cli]"``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes._atomic import check_writable, write_atomic
    from pacbayes.io.encoder import ColumnEncoder
    from pacbayes.io.inspection import Finding, inspect_table
    from pacbayes.io.models import dumps_model, load_model, save_model
    from pacbayes.io.schema import Column, HeldOutTest, Schema, Source, split_rows
    from pacbayes.io.streams import StreamedTable, open_table, read_batches
    from pacbayes.io.tables import MAX_TABLE_BYTES, Table, read_losses, read_table

# Where names come from. They are loaded when they are first used: writing a file does not need pandas.
_MODULES = {
    "Column": "pacbayes.io.schema",
    "ColumnEncoder": "pacbayes.io.encoder",
    "Finding": "pacbayes.io.inspection",
    "HeldOutTest": "pacbayes.io.schema",
    "MAX_TABLE_BYTES": "pacbayes.io.tables",
    "Schema": "pacbayes.io.schema",
    "Source": "pacbayes.io.schema",
    "StreamedTable": "pacbayes.io.streams",
    "Table": "pacbayes.io.tables",
    "check_writable": "pacbayes._atomic",
    "dumps_model": "pacbayes.io.models",
    "inspect_table": "pacbayes.io.inspection",
    "load_model": "pacbayes.io.models",
    "open_table": "pacbayes.io.streams",
    "read_batches": "pacbayes.io.streams",
    "read_losses": "pacbayes.io.tables",
    "read_table": "pacbayes.io.tables",
    "save_model": "pacbayes.io.models",
    "split_rows": "pacbayes.io.schema",
    "write_atomic": "pacbayes._atomic",
}

__all__ = [
    "MAX_TABLE_BYTES",
    "Column",
    "ColumnEncoder",
    "Finding",
    "HeldOutTest",
    "Schema",
    "Source",
    "StreamedTable",
    "Table",
    "check_writable",
    "dumps_model",
    "inspect_table",
    "load_model",
    "open_table",
    "read_batches",
    "read_losses",
    "read_table",
    "save_model",
    "split_rows",
    "write_atomic",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
