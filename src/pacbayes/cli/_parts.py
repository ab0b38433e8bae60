"""Files that are written in parts, which a later call goes on from when the first one was stopped."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pacbayes._atomic import LOCK_NAME, is_special, locked_folder, open_atomic, remove_leftovers, write_atomic
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_error

# What the parts were made from, as a digest.
_MANIFEST = "parts.sha256"


def is_parquet(path: Path) -> bool:
    """Return whether a file of this name is to be written as Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def find_tables(data: Path, output: Path | None) -> list[Path]:
    """Return the files of a path, folder or pattern, in order, without parts of the output itself."""
    from pacbayes.rows import find_files

    paths = [Path(path) for path in find_files(str(data))]
    own = None if output is None else _parts_folder(output).resolve()
    return [path for path in paths if own not in path.resolve().parents]


def _parts_folder(output: Path) -> Path:
    """Return where the parts of a file are until they are joined."""
    return output.with_name(f"{output.name}.parts")


@contextmanager
def open_parts(output: Path, tables: Sequence[Path], made_by: object) -> Iterator[Path]:
    """Open a folder for the parts of a file: a new one, or one whose parts came from the same tables in the same way.

    Other processes are kept out of it. There is nothing next to a device or a pipe to go on from.
    """
    if is_special(output):
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
        return
    files = [(str(path), _state_of(path)) for path in tables]
    manifest = hashlib.sha256(repr((files, made_by)).encode()).hexdigest().encode()
    folder = _parts_folder(output)
    with locked_folder(folder):
        remove_leftovers(folder)
        stored, parts = folder / _MANIFEST, _find_parts(folder)
        if parts and not (stored.exists() and stored.read_bytes() == manifest):
            raise usage_error(
                f"{str(folder)!r} holds parts of other predictions, or of another table: delete the folder"
            )
        if parts:
            print_error(f"resumes after {len(parts)} parts that were already written")
        write_atomic({stored: manifest})
        try:
            yield folder
        finally:
            if not _find_parts(folder):
                stored.unlink()


def _find_parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in (LOCK_NAME, _MANIFEST)]


def _state_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def join_parts(parts: Sequence[Path], output: Path) -> None:
    """Write one file from all parts, and delete them."""
    with open_atomic(output) as file:
        if is_parquet(output):
            import pyarrow.parquet as pq

            schema = _common_schema([pq.read_schema(part) for part in parts])
            with pq.ParquetWriter(file, schema) as writer:
                for part in parts:
                    with pq.ParquetFile(part) as content:
                        writer.write_table(content.read().cast(schema))
        else:
            for part in parts:
                with part.open("rb") as text:
                    shutil.copyfileobj(text, file)
    for part in parts:
        part.unlink()


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
