"""Predictions for tables that may be larger than the memory: written in parts, which a later call goes on from."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.cli._console import print_error
from pacbayes.cli._errors import usage_error
from pacbayes.cli._models import TableOptions
from pacbayes.cli._predictions import find_formulas, format_csv, join_predictions, print_ignored, select_columns
from pacbayes.progress import show_progress

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import Schema

_PARQUET = (".parquet", ".pq")
_MANIFEST = "parts.json"


def is_parquet(path: Path) -> bool:
    """Return whether a file of this name is to be written as Parquet."""
    return path.suffix.lower() in _PARQUET


def find_tables(data: Path) -> list[Path]:
    """Return the files of a path, folder or pattern, in order."""
    from pacbayes.sources import find_files

    return [Path(path) for path in find_files(str(data))]


@dataclass(frozen=True)
class PartWriter:
    """Write the predictions for a table in parts, and join them at the end.

    Attributes
    ----------
    model_path, output : Path
        The model, and the file to write.
    tables : list of Path
        The files of the table.
    ids : sequence of str
        Columns to write before the predictions.
    all_columns, escape_formulas : bool
        Whether to write all of them, and whether to write an apostrophe before formulas.
    """

    model_path: Path
    output: Path
    tables: list[Path]
    ids: Sequence[str]
    all_columns: bool
    escape_formulas: bool

    @property
    def folder(self) -> Path:
        """Where the parts are until they are joined."""
        return self.output.with_name(f"{self.output.name}.parts")

    def write(self, model: PACBayesClassifier, schema: Schema, options: TableOptions) -> tuple[int, list[str]]:
        """Predict all rows; return how many there are, and the texts that a spreadsheet would take for formulas."""
        from pacbayes.io import write_atomic

        self._begin(options)
        classes = model.classes_.tolist()
        rows, parts, formulas = 0, [], dict.fromkeys(find_formulas(_nothing(), classes))
        with show_progress("predicting") as bar:
            for k, table in enumerate(self._read(schema, options)):
                part = self.folder / f"{k:06d}{self.output.suffix}"
                names = ["prediction", *(f"share_{name}" for name in classes)]
                carried = select_columns(table.carried, self.ids, self.all_columns, names)
                if k == 0:
                    print_ignored(table.carried, carried, schema)
                if not part.exists():
                    labels, shares = model.predict(table.X), model.predict_proba(table.X)
                    written = join_predictions(carried, labels, shares, classes)
                    found = find_formulas(written, classes)
                    formulas |= dict.fromkeys(found)
                    write_atomic({part: self._encode(written, found if self.escape_formulas else (), header=k == 0)})
                parts.append(part)
                rows += len(table.X)
                bar.advance(description=f"predicting, {rows} rows")
        if rows == 0:
            raise usage_error("there are no rows to predict")
        self._join(parts)
        return rows, list(formulas)

    def _read(self, schema: Schema, options: TableOptions) -> Iterator[Any]:
        from pacbayes.io import read_batches

        return read_batches(self.tables, schema, **options.as_arguments())

    def _begin(self, options: TableOptions) -> None:
        """Make the folder of parts, or go on with one that belongs to the same model, table and options."""
        from pacbayes.io import write_atomic

        files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in self.tables]
        model = hashlib.sha256(self.model_path.read_bytes()).hexdigest()
        what = [model, files, list(self.ids), self.all_columns, self.escape_formulas, repr(options)]
        manifest = json.dumps({"parts": hashlib.sha256(repr(what).encode()).hexdigest()}).encode()
        stored = self.folder / _MANIFEST
        if self.folder.exists():
            if not stored.exists() or stored.read_bytes() != manifest:
                raise usage_error(
                    f"{str(self.folder)!r} holds parts of other predictions, or of another table: delete the folder"
                )
            done = len(list(self.folder.iterdir())) - 1
            print_error(f"goes on after {done} parts that were written before")
            return
        self.folder.mkdir()
        write_atomic({stored: manifest})

    def _encode(self, written: pd.DataFrame, escaped: Sequence[str], *, header: bool) -> bytes:
        if not is_parquet(self.output):
            content = format_csv(written, escaped)
            return (content if header else content.partition("\n")[2]).encode()
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pandas(written, preserve_index=False), buffer)
        return buffer.getvalue()

    def _join(self, parts: list[Path]) -> None:
        """Write one file from all parts, under a temporary name first, and delete them."""
        partial = self.output.with_name(f".{self.output.name}.partial")
        try:
            if is_parquet(self.output):
                _join_parquet(parts, partial)
            else:
                with partial.open("wb") as file:
                    for part in parts:
                        with part.open("rb") as content:
                            shutil.copyfileobj(content, file)
            partial.replace(self.output)
        finally:
            partial.unlink(missing_ok=True)
        shutil.rmtree(self.folder)


def _join_parquet(parts: list[Path], path: Path) -> None:
    import pyarrow.parquet as pq

    schema = pq.read_schema(parts[0])
    with pq.ParquetWriter(path, schema) as writer:
        for part in parts:
            # A column without values in one part has another type there.
            writer.write_table(pq.read_table(part).cast(schema))


def _nothing() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()
