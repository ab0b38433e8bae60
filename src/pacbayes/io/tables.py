"""Read tables from files of CSV, Parquet, LIBSVM or Excel; errors name the file, the line or row, and the column.

A column holds numbers, dates or text; true and false count as text. Values may be missing. Files may be compressed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacbayes._formatting import format_names
from pacbayes._validation import Array
from pacbayes.exceptions import TableError
from pacbayes.io._columns import TargetGuess, infer_column, parse_cells, parse_target, parse_text
from pacbayes.io._csv import find_line
from pacbayes.io._files import ReadOptions, TableFile, is_workbook, open_file
from pacbayes.io._limits import Budget
from pacbayes.io.schema import (
    Column,
    Kind,
    Provenance,
    Schema,
    TaskName,
    missing_by_column,
    split_last_rows,
    split_rows,
    with_text_names,
)

# Default limit on the memory that the cells of a table may take.
MAX_TABLE_BYTES = 2**33


@dataclass(frozen=True)
class Table:
    """Rows to train a model on, or to apply it to.

    Attributes
    ----------
    X : DataFrame
        Features: columns of float64, NaN where missing, and columns of categories named by text.
    y : ndarray or None
        Class labels, integers or text, or numbers to predict; None if the table has no target.
    schema : Schema
        Names and kinds of the columns, the target and the classes.
    carried : DataFrame or None
        Columns as they are stored in the file, where `read_table` was asked to carry some.

    Examples
    --------
    >>> frame = pd.DataFrame({"size": [1.5, 2.5, None], "city": ["Oslo", "Rome", "Oslo"], "kind": ["a", "b", "a"]})
    >>> table = Table.from_frame(frame, target="kind")
    >>> table.X.shape, table.y.tolist(), table.missing
    ((3, 2), ['a', 'b', 'a'], {'size': 1})
    """

    X: pd.DataFrame
    y: NDArray[Any] | None
    schema: Schema
    carried: pd.DataFrame | None = None

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        target: str | None = None,
        *,
        text: Collection[str] = (),
        drop: Collection[str] = (),
        task: TaskName | Literal["auto"] = "classification",
        source: Provenance | None = None,
    ) -> Table:
        """Take columns for numbers, dates or text, whichever they hold.

        Parameters
        ----------
        frame : DataFrame
            Columns of numbers, dates, text, categories, or true and false. Text that can be read as numbers throughout
            is taken for numbers, and text that can be read as dates such as 2024-01-31 throughout for dates.
        target, text, drop, task
            As in `read_table`.
        source : Provenance, optional
            Where the rows come from. Its decimal mark is that of numbers that are stored as text.
        """
        frame = with_text_names(frame)
        Roles(target, text, drop, task).check(list(frame.columns))
        decimal = (None if source is None else source.decimal) or "."
        if task == "auto" and target is not None:
            guess = TargetGuess()
            guess.add(frame[target], decimal)
            task = guess.task
        chosen: TaskName = "regression" if target is not None and task == "regression" else "classification"
        y = None if target is None else parse_target(frame[target], decimal, task=chosen)
        features = [name for name in frame.columns if name != target and name not in drop]
        columns: dict[str, tuple[Kind, pd.Series[Any]]] = {
            name: ("text", parse_text(frame[name])) if name in text else infer_column(frame[name], decimal)
            for name in features
        }
        X = pd.DataFrame({name: values for name, (_, values) in columns.items()}, index=frame.index)
        classes, counts = np.unique([] if y is None else y, return_counts=True)
        if y is not None:
            check_target(str(target), classes, y.size, chosen)
        kinds = tuple(Column(name, kind) for name, (kind, _) in columns.items())
        schema = Schema(kinds, target, complete=not X.isna().to_numpy().any(), source=source, task=chosen)
        return cls(X, y, schema.with_classes(classes, counts))

    @property
    def missing(self) -> dict[str, int]:
        """Number of missing values of each column that has some."""
        return missing_by_column(self.X)

    def column(self, name: str) -> pd.Series[Any]:
        """Return one of the features."""
        return self.X[name]

    def stored_column(self, name: str) -> pd.Series[Any]:
        """Return a feature or, where columns were carried, another column of the file, as numbers, dates or text."""
        stored = self.X if self.carried is None else self.carried
        if name not in stored.columns:
            raise TableError(f"there is no column {name!r}, only {format_names(stored.columns)}")
        return self.X[name] if name in self.X.columns else infer_column(stored[name], self.schema.decimal)[1]

    def label_codes(self) -> NDArray[Any] | None:
        """Return the labels as numbers; None without classes."""
        if self.y is None or self.schema.task == "regression":
            return None
        return np.asarray(pd.factorize(self.y)[0])

    def numbers(self) -> Array | None:
        """Return the numbers to predict; None if there are none."""
        return self.y if self.schema.task == "regression" else None

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Return some of the rows, with the schema of all of them."""
        y = None if self.y is None else self.y[rows]
        return Table(self.X.iloc[rows], y, self.schema, None if self.carried is None else self.carried.iloc[rows])

    def without(self, names: Collection[str]) -> Table:
        """Return the table without some of its features."""
        schema = self.schema.without(names)
        X = self.X[schema.names]
        return replace(self, X=X, schema=replace(schema, complete=not X.isna().to_numpy().any()))

    def split(self, test_size: float, seed: int, time: str | None = None) -> tuple[Table, Table]:
        """Hold out rows, drawn without looking at them, or the last ones.

        Parameters
        ----------
        test_size : float
            Fraction of the rows to hold out, in (0, 1).
        seed : int
            Seed.
        time : str, optional
            A feature, of dates or numbers: the rows where it is largest are held out.

        Returns
        -------
        train, test : Table
            The rows to train on, whose schema says how to draw the others again, and the others.
        """
        train, test = (self.take(rows) for rows in choose_rows(self, test_size, seed, time))
        if train.y is None:
            raise TableError("a table without a target cannot be split for a test")
        classes, counts = np.unique(train.y, return_counts=True)
        how: dict[str, Any] = {"test_size": test_size, "seed": seed, "time": time}
        return replace(train, schema=self.schema.with_classes(classes, counts, **how)), test


def choose_rows(table: Any, test_size: float, seed: int, time: str | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of a table to train on, and those to hold out."""
    if time is None:
        return split_rows(len(table.X), test_size, seed)
    known = table.schema.names_of("date", "number")
    if time not in known:
        raise TableError(f"there is no column {time!r} of dates or numbers to learn from, only {format_names(known)}")
    times = table.column(time)
    if times.isna().any():
        raise TableError(f"the time {time!r} is missing in {int(times.isna().sum())} of {len(times)} rows")
    return split_last_rows(times, test_size)


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    schema: Schema | None = None,
    allow_extra: bool = False,
    format: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = (),
    sheet: str | None = None,
    text: Collection[str] = (),
    drop: Collection[str] = (),
    task: TaskName | Literal["auto"] = "classification",
    skip_missing_target: bool = False,
    carry: bool = False,
    max_bytes: int = MAX_TABLE_BYTES,
) -> Table:
    r"""Read a table from a CSV, Parquet, LIBSVM or Excel file, also one that is compressed.

    Compressed files are unpacked: gzip, bzip2, xz, Zstandard, a zip archive of one file. An Excel workbook (.xlsx) is
    read as the CSV file that its sheet would be saved as, with the values of formulas, and needs openpyxl: ``pip
    install "pacbayes[excel]"``.

    Parameters
    ----------
    path : path-like
        The file; ``"-"`` for standard input.
    target : str, optional
        Column of the classes, or of the numbers to predict; of LIBSVM text, by default ``"label"``, the first number
        of each line. Without a target, the labels of the table are None.
    schema : Schema, optional
        Read the columns as those of this schema, which a model was trained on, instead of inferring what they hold. A
        column of classes is then not needed, and is ignored unless `target` names it.
    allow_extra : bool, default=False
        With `schema`, whether to leave out columns that it does not know, instead of refusing them.
    format : {"csv", "parquet", "libsvm", "xlsx"}, optional
        Format of the file, by default what its extension says. What has no extension is Parquet if its first bytes say
        so, and otherwise CSV.
    separator : str, optional
        Character between the cells of a CSV file. By default a comma, semicolon, tab or vertical bar, whichever splits
        the first rows into the same number of cells.
    decimal : {".", ","}, optional
        Decimal mark of the numbers of a CSV file, all of them. By default that of the table that `schema` is of;
        without `schema`, a comma if a column holds such numbers and cells are not separated by commas as well, and
        otherwise a point. A number with the other mark is refused.
    encoding : str, optional
        Encoding of a CSV file. By default UTF-8, or UTF-16 with a byte order mark; what is neither is read as
        Windows-1252, which Latin-1 is part of, if it is text in that.
    missing : sequence of str, optional
        Words that stand for missing values in a CSV file, besides the empty cell, NA, NaN, null and the like. Those of
        `schema` are added.
    sheet : str, optional
        Sheet of an Excel workbook, by default the first.
    text : collection of str, optional
        Columns to take for text although they hold numbers or dates.
    drop : collection of str, optional
        Columns to leave out.
    task : {"classification", "regression", "auto"}, default="classification"
        Whether the target is a class or a number to predict; that of `schema`, where it is given. "auto" takes a number
        with many different values, or with decimals, for one to predict.
    skip_missing_target : bool, default=False
        Whether to leave out rows whose target is missing, or, with `schema`, that of the table it is of. They are
        counted by ``schema.source.skipped``.
    carry : bool, default=False
        Whether to keep all columns as they are stored, besides, as `Table.carried`.
    max_bytes : int, default=2**33
        Limit on the memory that the cells may take as they are read. Converting them may take as much again.

    Returns
    -------
    Table
        Features, labels and schema.

    Raises
    ------
    TableError
        If the file is not such a table. The message names the file and, where there is one, the line or row and the
        column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pacbayes
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flowers.csv"
    ...     _ = path.write_text("length,width,kind\n" + "1.5,1,rose\n5,2,lily\n" * 50)
    ...     table = pacbayes.io.read_table(path, target="kind")
    >>> model = pacbayes.PACBayesClassifier(n_hypotheses=10, random_state=0).fit(table.X, table.y)
    >>> model.predict(table.X[:2]).tolist()
    ['rose', 'lily']
    >>> table.schema.names, table.schema.classes
    (['length', 'width'], ('lily', 'rose'))
    """
    options = ReadOptions(format, separator, decimal, encoding, missing, sheet)
    if schema is not None:
        options = options.for_schema(schema)
    with open_file(Path(path), options, budget := Budget(max_bytes, TableError)) as file:
        frame = file.read(budget)
        n_rows = len(frame)
        if skip_missing_target:
            frame = drop_unlabelled(frame, target or (file.label if schema is None else schema.target))
        carried = frame if carry else None
        if schema is None:
            table = Roles(target, text, drop, task).table_of(file, frame, skipped=n_rows - len(frame))
            return replace(table, carried=carried)
        decimal = file.options.decimal_for(schema, frame, file.source.separator)
        y = None if target is None else schema.labels(frame, target, decimal=decimal)
        features = frame.drop(columns=target) if target is not None else frame
        X = schema.apply(features, allow_extra=allow_extra, decimal=decimal)
        source = replace(file.source, n_rows=len(frame), decimal=decimal, skipped=n_rows - len(frame))
        return Table(X, y, replace(schema, source=source), carried)


def drop_unlabelled(frame: pd.DataFrame, target: str | None) -> pd.DataFrame:
    """Return those rows whose target is not missing, numbered anew."""
    if target is None or target not in frame.columns:
        return frame
    return frame[frame[target].notna()].reset_index(drop=True)


class Roles(NamedTuple):
    """What columns are for, as `read_table` is told."""

    target: str | None
    text: Collection[str]
    drop: Collection[str]
    task: TaskName | Literal["auto"]

    def table_of(self, file: TableFile, frame: pd.DataFrame, *, skipped: int) -> Table:
        """Return rows of a file, all but those that were skipped, as a table to train on."""
        if not len(frame):
            raise TableError(f"the target {self.target!r} is missing in every row")
        source = replace(file.source, n_rows=len(frame), decimal=file.find_decimal([self.undecided(frame)]))
        roles = self._replace(target=self.target or file.label)._asdict()
        return Table.from_frame(frame, source=replace(source, skipped=skipped), **roles)

    def undecided(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the columns whose content says what they are."""
        return frame.drop(columns=[*self.text, *self.drop], errors="ignore")

    def check(self, names: list[str]) -> None:
        """Check that the columns that are asked for exist, and that there are features besides the target."""
        target, text, drop, _ = self
        for name in (*([] if target is None else [target]), *text, *drop):
            if name not in names:
                hint = "; is there another separator (separator=, --separator)?" if len(names) == 1 else ""
                raise TableError(f"there is no column {name!r}, only {format_names(names)}{hint}")
        for role, others in (("read as text", text), ("left out", drop)):
            if target in others:
                raise TableError(f"{target!r} is the target: only other columns can be {role}")
        if {*names} <= {target, *drop}:
            left = " and those left out" if drop else ""
            raise TableError(f"there is no column besides the target {target!r}{left}")


def check_target(target: str, classes: NDArray[Any], n_rows: int, task: TaskName) -> None:
    """Raise TableError if the distinct values of so many rows cannot be classes, or there is nothing to predict."""
    if classes.size == 1:
        needed = "a classifier needs two classes" if task == "classification" else "there is nothing to predict"
        raise TableError(f"the target {target!r} holds one value only, {classes.tolist()[0]!r}: {needed}")
    if task == "classification" and classes.size == n_rows > 2:
        raise TableError(f"the target {target!r} is different in each of the {n_rows} rows: it is no class")


# -- Losses ------------------------------------------------------------------------------------------


def read_losses(path: str | os.PathLike[str], column: str | None = None, *, max_bytes: int = MAX_TABLE_BYTES) -> Array:
    r"""Read losses from a text file: one number per line, or a column of a CSV file or Excel workbook.

    Parameters
    ----------
    path : path-like
        The file.
    column : str, optional
        The column. Not needed if there is only one, with or without a header.
    max_bytes : int, default=2**33
        Limit on the memory that the cells may take.

    Returns
    -------
    ndarray of shape (m,)
        Numbers in [0, 1].

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "losses.csv"
    ...     _ = path.write_text("model,loss\nfirst,0.25\nsecond,0.5\n")
    ...     read_losses(path, "loss")
    array([0.25, 0.5 ])
    """
    budget = Budget(max_bytes, TableError)
    how = ReadOptions(None if is_workbook(path) else "csv", separator=",")
    with open_file(Path(path), how, budget) as table:
        (cells,) = table.read_cells(budget, whole=True)
        names = [str(cell[0].as_py()) for cell in cells.columns]
        if column is not None and column not in names:
            raise TableError(f"there is no column {column!r}, only {format_names(names)}")
        if column is None and len(names) > 1:
            raise TableError(f"there are {len(names)} columns, {format_names(names)}: name the one to take")
        words = cells.column(0 if column is None else names.index(column)).to_pandas()
        headed = int(column is not None or math.isnan(parse_cells(words[:1])[0]))
        losses = parse_cells(words[headed:])
        if losses.size == 0:
            raise TableError("there is a header and there are no losses")
        valid = (losses >= 0) & (losses <= 1)
        if not valid.all():
            row = int(np.argmin(valid)) + headed
            line = find_line(table.file, ",", row + 1)
            raise TableError(f"line {line}: a loss must be a number in [0, 1], got {words[row]!r}")
    return losses
