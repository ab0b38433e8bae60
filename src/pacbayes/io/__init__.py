"""Tables and models in files: what the command line does to a file, in Python.

`read_table` reads a CSV, Parquet, LIBSVM or Excel file; its `Table` holds features, labels and a `Schema`.
`inspect_table` finds columns that are ids, constant or copies of the target. `save_model` and
`load_model` keep a model, with the schema of its table, in a file that runs no code when it is loaded. These need
pandas, pyarrow and skops: ``pip install "pacbayes[cli]"``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes._atomic import check_writable, write_atomic
    from pacbayes.io.encoder import ColumnEncoder
    from pacbayes.io.inspection import Finding, find_time_order, inspect_table
    from pacbayes.io.models import dumps_model, load_model, save_model, try_loading
    from pacbayes.io.schema import Column, HeldOutErrors, HeldOutTest, Provenance, Schema, split_last_rows, split_rows
    from pacbayes.io.streams import StreamedTable, open_table, read_batches
    from pacbayes.io.tables import MAX_TABLE_BYTES, Table, read_losses, read_table

# Where names come from. They are loaded when they are first used: writing a file does not need pandas.
_NAMES = {
    "pacbayes._atomic": ("check_writable", "write_atomic"),
    "pacbayes.io.encoder": ("ColumnEncoder",),
    "pacbayes.io.inspection": ("Finding", "find_time_order", "inspect_table"),
    "pacbayes.io.models": ("dumps_model", "load_model", "save_model", "try_loading"),
    "pacbayes.io.schema": (
        *("Column", "HeldOutErrors", "HeldOutTest", "Provenance", "Schema", "split_last_rows", "split_rows"),
    ),
    "pacbayes.io.streams": ("StreamedTable", "open_table", "read_batches"),
    "pacbayes.io.tables": ("MAX_TABLE_BYTES", "Table", "read_losses", "read_table"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
