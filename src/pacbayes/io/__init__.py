"""Tables and models in files: what the command line does to a file, in Python.

`read_table` reads a CSV, Parquet, LIBSVM or Excel file; its `Table` holds features, labels and a `Schema`.
`inspect_table` finds columns that are ids, constant or copies of the target. `save_model` and
`load_model` keep a model, with the schema of its table, in a file that runs no code when it is loaded. These need
pandas, pyarrow and skops: ``pip install "pacbayes[cli]"``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes._atomic import check_writable as check_writable
    from pacbayes._atomic import write_atomic as write_atomic
    from pacbayes.io.encoder import ColumnEncoder as ColumnEncoder
    from pacbayes.io.inspection import Finding as Finding
    from pacbayes.io.inspection import find_time_order as find_time_order
    from pacbayes.io.inspection import inspect_table as inspect_table
    from pacbayes.io.models import dumps_model as dumps_model
    from pacbayes.io.models import load_model as load_model
    from pacbayes.io.models import save_model as save_model
    from pacbayes.io.models import try_loading as try_loading
    from pacbayes.io.schema import Column as Column
    from pacbayes.io.schema import HeldOutErrors as HeldOutErrors
    from pacbayes.io.schema import HeldOutTest as HeldOutTest
    from pacbayes.io.schema import Provenance as Provenance
    from pacbayes.io.schema import Schema as Schema
    from pacbayes.io.schema import split_last_rows as split_last_rows
    from pacbayes.io.schema import split_rows as split_rows
    from pacbayes.io.streams import StreamedTable as StreamedTable
    from pacbayes.io.streams import open_table as open_table
    from pacbayes.io.streams import read_batches as read_batches
    from pacbayes.io.tables import MAX_TABLE_BYTES as MAX_TABLE_BYTES
    from pacbayes.io.tables import Table as Table
    from pacbayes.io.tables import read_losses as read_losses
    from pacbayes.io.tables import read_table as read_table

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
