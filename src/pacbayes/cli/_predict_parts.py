"""Predictions for tables that may be larger than the memory: written in parts, which a later call goes on from."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pacbayes._atomic import LOCK_NAME, is_special, locked_folder, open_atomic, remove_leftovers
from pacbayes._progress import show_progress
from pacbayes.cli._console import print_error
from pacbayes.cli._errors import usage_error
from pacbayes.cli._models import TableOptions, limit
from pacbayes.cli._predictions import (
    RowChecks,
    find_formulas,
    format_csv,
    join_predictions,
    print_ignored,
    select_columns,
)

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import Schema

_PARQUET = (".parquet", ".pq")
_MANIFEST = "parts.json"
# Of the parts: those that were written in another way are not gone on from.
_FORMAT = 2


def is_parquet(path: Path) -> bool:
    """Return whether a file of this name is to be written as Parquet."""
    return path.suffix.lower() in _PARQUET


def find_tables(data: Path, output: Path | None) -> list[Path]:
    """Return the files of a path, folder or pattern, in order, without parts of the predictions themselves."""
    from pacbayes.rows import find_files

    paths = [Path(path) for path in find_files(str(data))]
    own = None if output is None else parts_folder(output).resolve()
    return [path for path in paths if own not in path.resolve().parents]


def parts_folder(output: Path) -> Path:
    """Return where the parts of a file are until they are joined."""
    return output.with_name(f"{output.name}.parts")


@dataclass(frozen=True)
class PartWriter:
    """Write the predictions for a table in parts, and join them at the end."""

    model_path: Path
    output: Path
    tables: list[Path]  # the files of the table
    ids: Sequence[str]  # columns to write before the predictions
    all_columns: bool  # whether to write all columns of the table
    escape_formulas: bool  # whether to write an apostrophe before formulas

    def write(
        self, model: PACBayesClassifier, schema: Schema, options: TableOptions
    ) -> tuple[int, list[str], RowChecks]:
        """Predict all rows; return their number, texts that a spreadsheet would take for formulas, and the checks."""
        from pacbayes.io import write_atomic

        classes = model.classes_.tolist()
        names = ["prediction", *(f"share_{name}" for name in classes)]
        rows, parts, formulas, checks = 0, [], dict.fromkeys(find_formulas(_nothing(), classes)), RowChecks(model)
        with self._open_folder(options) as folder, show_progress("predicting") as bar:
            for k, table in enumerate(self._read(schema, options)):
                part = folder / f"{k:06d}{self.output.suffix}"
                carried = select_columns(table.carried, self.ids, self.all_columns, names)
                if k == 0:
                    print_ignored(table.carried, carried, schema)
                # All of what is said is about all parts, those that were written before as well.
                found = find_formulas(carried, classes)
                formulas |= dict.fromkeys(found)
                checks.add(table.X)
                if not part.exists():
                    written = join_predictions(carried, model.predict(table.X), model.predict_proba(table.X), classes)
                    write_atomic({part: self._encode(written, found if self.escape_formulas else (), header=k == 0)})
                parts.append(part)
                rows += len(table.X)
                bar.advance(description=f"predicting, {rows} rows")
            if rows == 0:
                raise usage_error("there are no rows to predict")
            self._join(parts)
        return rows, list(formulas), checks

    def _read(self, schema: Schema, options: TableOptions) -> Iterator[Any]:
        from pacbayes.io import read_batches

        return read_batches(self.tables, schema, **options.as_arguments(), **limit(options.max_bytes))

    @contextmanager
    def _open_folder(self, options: TableOptions) -> Iterator[Path]:
        """Make a folder for the parts, or go on with one that belongs to the same model, table and options.

        Others are kept out of it. There is nothing beside a device or a pipe to go on from.
        """
        if is_special(self.output):
            with tempfile.TemporaryDirectory() as name:
                yield Path(name)
            return
        folder = parts_folder(self.output)
        with locked_folder(folder):
            self._begin(folder, options)
            try:
                yield folder
            finally:
                if not _find_parts(folder):
                    (folder / _MANIFEST).unlink()

    def _begin(self, folder: Path, options: TableOptions) -> None:
        from pacbayes.io import write_atomic

        remove_leftovers(folder)
        files = [(str(path), *_state_of(path)) for path in self.tables]
        model = hashlib.sha256(self.model_path.read_bytes()).hexdigest()
        what = [_FORMAT, model, files, list(self.ids), self.all_columns, self.escape_formulas, repr(options)]
        manifest = json.dumps({"parts": hashlib.sha256(repr(what).encode()).hexdigest()}).encode()
        stored, parts = folder / _MANIFEST, _find_parts(folder)
        if parts and not (stored.exists() and stored.read_bytes() == manifest):
            raise usage_error(
                f"{str(folder)!r} holds parts of other predictions, or of another table: delete the folder"
            )
        if parts:
            print_error(f"goes on after {len(parts)} parts that were written before")
        write_atomic({stored: manifest})

    def _encode(self, written: pd.DataFrame, escaped: Sequence[str], *, header: bool) -> bytes:
        if not is_parquet(self.output):
            return format_csv(written, escaped, header=header).encode()
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        table = pa.Table.from_pandas(written, preserve_index=False)
        pq.write_table(table.replace_schema_metadata(None), buffer)  # which would tell the types of this part
        return buffer.getvalue()

    def _join(self, parts: list[Path]) -> None:
        """Write one file from all parts, and delete them."""
        with open_atomic(self.output) as file:
            if is_parquet(self.output):
                _join_parquet(parts, file)
            else:
                for part in parts:
                    with part.open("rb") as content:
                        shutil.copyfileobj(content, file)
        for part in parts:
            part.unlink()


def _find_parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in (LOCK_NAME, _MANIFEST)]


def _state_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _join_parquet(parts: list[Path], file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    schema = _common_schema([pq.read_schema(part) for part in parts])
    with pq.ParquetWriter(file, schema) as writer:
        for part in parts:
            with pq.ParquetFile(part) as content:
                writer.write_table(content.read().cast(schema))


def _common_schema(schemas: list[Any]) -> Any:
    """Return columns that hold those of all parts: text, where one is of different types in different files."""
    import pyarrow as pa
    from pyarrow import types

    def common(name: str) -> Any:
        fields = [schema.field(name) for schema in schemas]
        try:
            field = pa.unify_schemas([pa.schema([one]) for one in fields], promote_options="permissive").field(0)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            return pa.field(name, pa.large_string())
        # As a float, not every whole number is what it was.
        mixed = types.is_floating(field.type) and any(types.is_integer(one.type) for one in fields)
        return pa.field(name, pa.large_string()) if mixed else field

    return pa.schema([common(name) for name in schemas[0].names])


def _nothing() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()
