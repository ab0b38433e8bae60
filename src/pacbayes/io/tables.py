"""Read tables from CSV, Parquet and LIBSVM files, with errors that name the file, the line or row, and the column.

A column holds numbers or text; true and false count as text. Values may be missing.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.exceptions import TableError
from pacbayes.formatting import format_names
from pacbayes.io._columns import infer_column, parse_labels, parse_text
from pacbayes.io._csv import find_line, read_cells, scan_text
from pacbayes.io._libsvm import LABEL, read_libsvm
from pacbayes.io._limits import Budget
from pacbayes.io._parquet import read_parquet
from pacbayes.io.schema import Column, Schema, Source, count_missing, split_rows, with_text_names

__all__ = ["MAX_TABLE_BYTES", "Table", "read_losses", "read_table"]

Format = Literal["csv", "parquet", "libsvm"]

# Default limit on the memory that the cells of a table may take.
MAX_TABLE_BYTES = 2**33

_EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}

# Cells of a CSV file that stand for a missing value: those of pandas.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)


@dataclass(frozen=True)
class Table:
    """Rows to train a classifier on, or to apply it to.

    Attributes
    ----------
    X : DataFrame
        Features: columns of float64, NaN where missing, and columns of categories named by text.
    y : ndarray or None
        Class labels, integers or text; None if the table has no target.
    schema : Schema
        Names and kinds of the columns, the target and the classes.

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

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, target: str | None = None, *, text: Collection[str] = (), source: Source | None = None
    ) -> Table:
        """Take columns for numbers or text, whichever they hold.

        Parameters
        ----------
        frame : DataFrame
            Columns of numbers, text, categories, or true and false. Text that can be read as numbers throughout is
            taken for numbers.
        target : str, optional
            Column of the classes.
        text : collection of str, optional
            Columns to take for text although they hold numbers.
        source : Source, optional
            Where the rows come from.

        Returns
        -------
        Table
            Features, labels and schema.
        """
        frame = with_text_names(frame)
        _check_roles(list(frame.columns), target, text)
        y = None if target is None else parse_labels(frame[target])
        features = [name for name in frame.columns if name != target]
        parsed = {name: (parse_text if name in text else infer_column)(frame[name]) for name in features}
        X = pd.DataFrame(parsed, index=frame.index)
        classes, counts = ((), ()) if y is None else _count_classes(str(target), y)
        schema = Schema(
            columns=tuple(Column(name, "number" if c.dtype.kind == "f" else "text") for name, c in parsed.items()),
            target=target,
            classes=classes,
            class_counts=counts,
            complete=not X.isna().to_numpy().any(),
            source=source,
        )
        return cls(X, y, schema)

    @property
    def missing(self) -> dict[str, int]:
        """Number of missing values of each column that has some."""
        return count_missing(self.X)

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Return some of the rows, with the schema of all of them."""
        return Table(self.X.iloc[rows], None if self.y is None else self.y[rows], self.schema)

    def split(self, test_size: float, seed: int) -> tuple[Table, Table]:
        """Hold out rows, drawn without looking at them.

        Parameters
        ----------
        test_size : float
            Fraction of the rows to hold out, in (0, 1).
        seed : int
            Seed.

        Returns
        -------
        train, test : Table
            The rows to train on, whose schema says how to draw the others again, and the others.
        """
        train, test = (self.take(rows) for rows in split_rows(len(self.X), test_size, seed))
        if train.y is None:
            raise TableError("a table without a target cannot be split for a test")
        return replace(train, schema=self.schema.with_split(train.y, test_size, seed)), test


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    schema: Schema | None = None,
    allow_extra: bool = False,
    format: str | None = None,
    separator: str | None = None,
    missing: Sequence[str] = (),
    text: Collection[str] = (),
    max_bytes: int = MAX_TABLE_BYTES,
) -> Table:
    r"""Read a table from a CSV, Parquet or LIBSVM file.

    Parameters
    ----------
    path : path-like
        The file.
    target : str, optional
        Column of the classes; of LIBSVM text, by default ``"label"``, the first number of each line. Without a target,
        the labels of the table are None.
    schema : Schema, optional
        Read the columns as those of this schema, which a model was trained on, instead of inferring what they hold. A
        column of classes is then not needed, and is ignored unless `target` names it.
    allow_extra : bool, default=False
        With `schema`, whether to leave out columns that it does not know, instead of refusing them.
    format : {"csv", "parquet", "libsvm"}, optional
        Format of the file, by default what its extension says.
    separator : str, optional
        Character between the cells of a CSV file: by default a comma, or a tab if the name ends in ``.tsv``.
    missing : sequence of str, optional
        Words that stand for missing values in a CSV file, besides the empty cell, NA, NaN, null and the like. Those of
        `schema` are added.
    text : collection of str, optional
        Columns to take for text although they hold numbers.
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
    path = Path(path)
    with _errors_of(path):
        kind = _format_of(path, format)
        if kind == "csv" and separator is None:
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
        if schema is not None and schema.source is not None:
            missing = [*missing, *schema.source.missing]
        n_features = len(schema.columns) if schema is not None and kind == "libsvm" else None
        frame, digest = _read_frame(path, kind, separator, missing, n_features, Budget(max_bytes, TableError))
        source = Source(path.name, digest, len(frame), kind, separator, tuple(missing))
        if schema is None:
            target = LABEL if target is None and kind == "libsvm" else target
            return Table.from_frame(frame, target, text=text, source=source)
        y = None if target is None else schema.labels(frame, target)
        features = frame.drop(columns=target) if target is not None else frame
        return Table(schema.apply(features, allow_extra=allow_extra), y, replace(schema, source=source))


def _read_frame(
    path: Path, kind: Format, separator: str | None, missing: Sequence[str], n_features: int | None, budget: Budget
) -> tuple[pd.DataFrame, str]:
    """Return the columns of a file as they are stored, and the digest of the file."""
    with _open(path, budget) as file:
        if kind == "csv":
            digest = scan_text(file)
            frame = _named(read_cells(file, str(separator), budget), missing)
        else:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            frame = read_parquet(file, budget) if kind == "parquet" else read_libsvm(file, n_features, budget)
    if frame.shape[0] == 0:
        raise TableError("there is a header and there are no rows")
    return frame, digest


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{str(path)!r}: {error}") from error


@contextmanager
def _open(path: Path, budget: Budget) -> Iterator[BufferedReader]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise TableError("there is no such file") from error
    except IsADirectoryError as error:
        raise TableError("this is a folder, not a file") from error
    except OSError as error:
        raise TableError(f"cannot be read: {error.strerror}") from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise TableError("the file is empty")
        budget.check(size)
        yield file


def _format_of(path: Path, given: str | None) -> Format:
    """Return the format of a file, by its extension unless it is given."""
    if given in get_args(Format):
        return cast(Format, given)
    if given is not None:
        raise TableError(f"the format must be csv, parquet or libsvm, got {given!r}")
    if path.suffix.lower() not in _EXTENSIONS:
        raise TableError(f"the name does not end in {', '.join(_EXTENSIONS)}: give the format, csv, parquet or libsvm")
    return _EXTENSIONS[path.suffix.lower()]


def _named(cells: Any, missing: Sequence[str]) -> pd.DataFrame:
    """Name the columns of a CSV file by its first row, and mark what is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [str(column[0].as_py()) for column in cells.columns]
    if "" in names:
        raise TableError(f"column {names.index('') + 1} of {len(names)} has no name")
    words, nothing = pa.array([*_MISSING, *(word.strip() for word in missing)]), pa.scalar(None, pa.string())
    columns = [column.slice(1) for column in cells.columns]
    columns = [pc.if_else(pc.is_in(column, value_set=words), nothing, column) for column in columns]
    text = pd.StringDtype("pyarrow")
    numbered = pa.table(columns, cells.column_names).to_pandas(types_mapper=lambda _: text)
    return with_text_names(numbered.set_axis(names, axis=1))


def _check_roles(names: list[str], target: str | None, text: Collection[str]) -> None:
    """Check that the columns that are asked for exist, and that there are features besides the target."""
    for name in (*([] if target is None else [target]), *text):
        if name not in names:
            hint = "; is there another separator (separator=, --separator)?" if len(names) == 1 else ""
            raise TableError(f"there is no column {name!r}, only {format_names(names)}{hint}")
    if target in text:
        raise TableError(f"{target!r} is the target: only other columns can be taken for text")
    if [*names] == [target]:
        raise TableError(f"there is no column besides the target {target!r}")


def _count_classes(target: str, y: NDArray[Any]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return the class labels and how often each occurs, if these can be classes."""
    classes, counts = np.unique(y, return_counts=True)
    if classes.size == 1:
        raise TableError(
            f"the target {target!r} holds one value only, {classes.tolist()[0]!r}: a classifier needs two classes"
        )
    if classes.size == y.size > 2:
        raise TableError(f"the target {target!r} is different in each of the {y.size} rows: it is no class")
    return tuple(classes.tolist()), tuple(counts.tolist())


# ---------------------------------------------------------------------------------------------------
# Losses
# ---------------------------------------------------------------------------------------------------


def read_losses(path: str | os.PathLike[str], column: str | None = None, *, max_bytes: int = MAX_TABLE_BYTES) -> Array:
    r"""Read losses from a text file: one number per line, or a column of a CSV file.

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
    path = Path(path)
    budget = Budget(max_bytes, TableError)
    with _errors_of(path), _open(path, budget) as file:
        scan_text(file)
        cells = read_cells(file, ",", budget)
        names = [str(cell[0].as_py()) for cell in cells.columns]
        if column is not None and column not in names:
            raise TableError(f"there is no column {column!r}, only {format_names(names)}")
        if column is None and len(names) > 1:
            raise TableError(f"there are {len(names)} columns, {format_names(names)}: name the one to take")
        words = cells.column(0 if column is None else names.index(column)).to_pylist()
        headed = column is not None or math.isnan(_number(words[0]))
        losses = np.array([_number(word) for word in words[headed:]])
        if losses.size == 0:
            raise TableError("there is a header and there are no losses")
        valid = (losses >= 0) & (losses <= 1)
        if not valid.all():
            row = int(np.argmin(valid)) + headed
            line = find_line(file, ",", row + 1)
            raise TableError(f"line {line}: a loss must be a number in [0, 1], got {words[row]!r}")
    return losses


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan
