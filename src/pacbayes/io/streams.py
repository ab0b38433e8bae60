"""Tables that are larger than the memory: read in parts to predict, and as sources that a model is fitted to."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pacbayes._validation import Array, prefix_errors
from pacbayes.exceptions import TableError
from pacbayes.io._columns import ColumnGuess, TargetGuess, parse_target, parse_text
from pacbayes.io._files import ReadOptions, TableFile, open_file
from pacbayes.io._limits import Budget
from pacbayes.io.schema import Column, Schema, TaskName, missing_by_column
from pacbayes.io.tables import MAX_TABLE_BYTES, Roles, Table, check_target, choose_rows, drop_unlabelled
from pacbayes.rows import open_parquet

# Text of any size may be unpacked to a temporary file.
_UNLIMITED = Budget(2**62, TableError)

# Rows that are copied at a time.
_BATCH_ROWS = 2**16


def read_batches(
    paths: Sequence[Path], schema: Schema, *, max_bytes: int = MAX_TABLE_BYTES, **how: Any
) -> Iterator[Table]:
    """Yield the rows of CSV, Parquet or Excel files, a few thousand at a time, with the columns of a model's training.

    `max_bytes` limits the memory that the cells of the rows that are read at a time may take; `how` are format,
    separator, decimal, encoding, missing and sheet, as in `read_table`. Tables have no labels, and no features that the
    schema does not know; `carried` are all columns as they are stored.
    """
    options = ReadOptions(**how).for_schema(schema)
    for path in paths:
        with open_file(path, options, _UNLIMITED) as file:
            for first, frame in file.frames(max_bytes):
                with _rows_from(first):
                    mark = file.options.decimal_for(schema, frame, file.source.separator)
                    X = schema.apply(frame, allow_extra=True, decimal=mark)
                yield Table(X, None, schema, frame)


def _rows_from(first: int) -> AbstractContextManager[None]:
    """Say where a batch begins in whose rows something is wrong."""
    return prefix_errors(TableError, f"counting rows from {first}" if first > 1 else "")


class _TooLargeError(TableError):
    """A table that takes more memory than it may."""


class _Folder:
    """A temporary folder that is deleted with the last table whose rows are there."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pacbayes-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class StreamedTable:
    """Rows to train a classifier on that are read in blocks from a temporary file, which is deleted with the table.

    Attributes
    ----------
    X : Source
        Features and labels, for `PACBayesClassifier.fit`.
    y : None
        The labels are those of `X`.
    schema : Schema
        Names and kinds of the columns, the target and the classes.
    missing : dict of str to int
        Number of missing values of each column that has some.
    """

    X: Any
    schema: Schema
    missing: dict[str, int]
    _path: Path
    _folder: _Folder
    y: None = None

    @classmethod
    def _of(cls, path: Path, schema: Schema, missing: dict[str, int], folder: _Folder) -> StreamedTable:
        missing = {name: count for name, count in missing.items() if name in schema.names}
        X = open_parquet(str(path), schema.target, schema.names)
        return cls(X, replace(schema, complete=not missing), missing, path, folder)

    def column(self, name: str) -> pd.Series[Any]:
        """Return one of the features, as the data frame of a `Table` has it."""
        values = pq.read_table(self._path, columns=[name], read_dictionary=[name]).to_pandas()[name]
        return parse_text(values) if name in self.schema.names_of("text") else values

    def label_codes(self) -> NDArray[Any] | None:
        """Return the labels as positions in the classes of the schema; None without classes."""
        is_class = self.schema.target is not None and self.schema.task == "classification"
        return self.X.labels().codes if is_class else None

    def numbers(self) -> Array | None:
        """Return the numbers to predict; None if there are none."""
        if self.schema.task == "classification":
            return None
        labels = self.X.labels()
        return np.asarray(labels.classes[labels.codes], dtype=np.float64)

    def without(self, names: Collection[str]) -> StreamedTable:
        """Return the table without some of its features."""
        return self._of(self._path, self.schema.without(names), self.missing, self._folder)

    def split(self, test_size: float, seed: int, time: str | None = None) -> tuple[StreamedTable, StreamedTable]:
        """Hold out rows: those that `Table.split` holds out."""
        if self.schema.target is None:
            raise TableError("a table without a target cannot be split for a test")
        held_out = np.zeros(len(self.X), dtype=bool)
        held_out[choose_rows(self, test_size, seed, time)[1]] = True
        labels = self.X.labels()
        counts = np.bincount(labels.codes[~held_out], minlength=labels.classes.size)
        schema = self.schema.with_classes(labels.classes, counts, test_size=test_size, seed=seed, time=time)
        paths = [self._folder.path / name for name in ("train.parquet", "test.parquet")]
        with pq.ParquetFile(self._path) as reader:
            writers = [pq.ParquetWriter(path, reader.schema_arrow) for path in paths]
            first = 0
            for batch in reader.iter_batches(_BATCH_ROWS):
                is_test = held_out[first : first + batch.num_rows]
                for writer, chosen in zip(writers, (~is_test, is_test), strict=True):
                    writer.write_batch(batch.filter(pa.array(chosen)))
                first += batch.num_rows
            for writer in writers:
                writer.close()
        train, test = paths
        return (
            self._of(train, schema, self.missing, self._folder),
            self._of(test, self.schema, self.missing, self._folder),
        )


def open_table(
    path: str | PathLike[str],
    target: str | None = None,
    *,
    text: Collection[str] = (),
    drop: Collection[str] = (),
    task: TaskName | Literal["auto"] = "classification",
    skip_missing_target: bool = False,
    max_bytes: int = MAX_TABLE_BYTES,
    **how: Any,
) -> Table | StreamedTable:
    """Read a table to train on, also one that is larger than the memory.

    A table whose cells take more than `max_bytes` is read in parts, first to find out what its columns hold, then to
    write them to a temporary file, from which a classifier is fitted as to the same rows in memory.

    Parameters
    ----------
    path, target, text, drop, task, skip_missing_target, max_bytes
        As in `read_table`.
    **how
        Format, separator, decimal, encoding, missing and sheet, as in `read_table`.

    Returns
    -------
    Table or StreamedTable
        A classifier is fitted to either by ``model.fit(table.X, table.y)``.
    """
    roles = Roles(target, text, drop, task)
    with open_file(Path(path), ReadOptions(**how), _UNLIMITED) as file:
        try:
            budget = Budget(max_bytes, _TooLargeError)
            budget.check(file.size)
            frame = file.read(budget)
        except _TooLargeError:
            if file.source.format == "libsvm":
                raise
            return _spool(_Frames(file, max_bytes, target if skip_missing_target else None), roles)
        labelled = drop_unlabelled(frame, target or file.label) if skip_missing_target else frame
        return roles.table_of(file, labelled, skipped=len(frame) - len(labelled))


@dataclass
class _Frames:
    """The rows of a file, some at a time, without those that lack a target, if it is given."""

    file: TableFile
    max_bytes: int
    target: str | None
    skipped: int = 0  # in the last reading

    def __iter__(self) -> Iterator[tuple[int, pd.DataFrame]]:
        self.skipped = 0
        for first, frame in self.file.frames(self.max_bytes):
            labelled = drop_unlabelled(frame, self.target)
            self.skipped += len(frame) - len(labelled)
            if len(labelled):
                yield first, labelled


def _spool(frames: _Frames, roles: Roles) -> StreamedTable:
    """Write the rows of a file, once they are known to be numbers, dates or text, to a temporary file."""
    file, target = frames.file, roles.target
    decimal = file.find_decimal(roles.undecided(frame) for _, frame in frames)
    guesses, of_target, n_rows = _guess(frames, roles, decimal or ".")
    chosen = of_target.task if roles.task == "auto" else roles.task
    has_words = target is not None and (bool(guesses[target].types) or guesses[target].invalid is not None)
    columns = tuple(Column(name, guess.kind) for name, guess in guesses.items() if name != target)
    source = replace(file.source, n_rows=n_rows, decimal=decimal, skipped=frames.skipped)
    schema = Schema(columns, target, complete=False, source=source, task=chosen)
    folder, gaps = _Folder(), dict.fromkeys(schema.names, 0)
    path, writer = folder.path / "rows.parquet", None
    for first, frame in frames:
        with _rows_from(first):
            X = schema.apply(frame, allow_extra=True)
            for name, count in missing_by_column(X).items():
                gaps[name] += count
            if target is not None:
                X[target] = parse_target(frame[target], schema.decimal, task=chosen, text=has_words)
        rows = _to_arrow(X, file.is_text)
        writer = writer or pq.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    assert writer is not None
    writer.close()
    table = StreamedTable._of(path, schema, {name: count for name, count in gaps.items() if count}, folder)
    if target is None:
        return table
    found = table.X.labels()
    check_target(target, found.classes, n_rows, chosen)
    return replace(table, schema=table.schema.with_classes(found.classes, np.bincount(found.codes)))


def _guess(frames: _Frames, roles: Roles, decimal: str) -> tuple[dict[str, ColumnGuess], TargetGuess, int]:
    """Read all rows once; return what the columns hold, what the target is, and the number of rows."""
    guesses: dict[str, ColumnGuess] = {}
    of_target, n_rows = TargetGuess(), 0
    for first, frame in frames:
        if not guesses:
            roles.check(list(frame.columns))
            kept = [name for name in frame.columns if name not in roles.drop]
            guesses = {name: ColumnGuess(decimal, {"text"} if name in roles.text else set()) for name in kept}
        for name, guess in guesses.items():
            if name not in roles.text:
                guess.add(frame[name], first)
        if roles.target is not None:
            of_target.add(frame[roles.target], decimal)
        n_rows += len(frame)
    if not n_rows:
        raise TableError("there is a header and there are no rows")
    return guesses, of_target, n_rows


def _to_arrow(X: pd.DataFrame, is_text: bool) -> pa.Table:
    """Return typed columns as every part of a file stores them."""
    columns: dict[str, pa.Array] = {}
    for name in X.columns:
        values = X[name].to_numpy()
        if X[name].dtype == "category":
            columns[name] = pa.array(X[name], from_pandas=True).cast(pa.string())
        elif values.dtype.kind == "M" and (is_text or np.datetime_data(values.dtype)[0] == "ns"):
            # The unit of dates that were text depends on the rows.
            columns[name] = pa.array(values.astype("datetime64[us]"))
        else:
            columns[name] = pa.array(values, from_pandas=True)
    return pa.table(columns)
