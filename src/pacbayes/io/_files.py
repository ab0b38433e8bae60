"""Open files of tables in any format, and read their columns as they are stored: all rows, or some at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import numpy as np
import pandas as pd

from pacbayes._validation import prefix_errors
from pacbayes.exceptions import TableError
from pacbayes.io._columns import has_mark, uses_commas
from pacbayes.io._csv import guess_separator, read_cells
from pacbayes.io._encoding import decoded
from pacbayes.io._excel import SEPARATOR, sheet_as_csv
from pacbayes.io._limits import Budget
from pacbayes.io._parquet import read_parquet
from pacbayes.io._source import Content, is_standard_input, name_of, open_content
from pacbayes.io.schema import Provenance, Schema, with_text_names

Format = Literal["csv", "parquet", "libsvm", "xlsx"]

_EXTENSIONS: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".libsvm", ".svm", ".svmlight"), "libsvm"),
    **dict.fromkeys((".xlsx", ".xlsm"), "xlsx"),
}

# Formats that other programs convert.
_SPREADSHEETS = (".xls", ".xlsb", ".ods")

# Cells of a CSV file that stand for a missing value: those of pandas.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)

# What the first number of each line of LIBSVM text is called.
_LABEL = "label"

# Memory that a column of a table takes besides its numbers.
_LIBSVM_COLUMN = 4096


@dataclass(frozen=True)
class ReadOptions:
    """Arguments of `read_table` that say how a file is written; None where that is to be found out."""

    format: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    sheet: str | None = None
    n_features: int | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise TableError(f"the decimal mark must be a point or a comma, got {self.decimal!r}")

    def for_schema(self, schema: Schema) -> ReadOptions:
        """Return the options for a table with the columns of a schema, whose words for missing values are kept."""
        missing = self.missing if schema.source is None else (*self.missing, *schema.source.missing)
        return replace(self, missing=missing, n_features=len(schema.columns))

    def decimal_for(self, schema: Schema, frame: pd.DataFrame, separator: str | None) -> str:
        """Return the decimal mark of a table with the columns of a schema: the one that is given, or that of training.

        Where cells are separated by commas, and were not in training, decimal commas are unlikely: what is another
        number with a point is refused.
        """
        trained = schema.source
        if self.decimal is None and trained is not None and trained.decimal == separator == "," != trained.separator:
            for name in frame.columns.intersection(schema.names_of("number")):
                marked = has_mark(frame[name])
                if marked.any():
                    row = int(np.argmax(marked))
                    raise TableError(
                        f"column {name!r}, row {row + 1}: is {frame[name].iloc[row]!r} a number with a decimal comma, "
                        "as in training, though commas separate the cells? Give the mark (decimal=, --decimal)"
                    )
        return self.decimal or schema.decimal


@dataclass(frozen=True)
class TableFile:
    """A file of a table: text is in UTF-8. Frames hold its columns as they are stored."""

    file: BinaryIO
    source: Provenance  # without the number of rows
    options: ReadOptions

    @property
    def label(self) -> str | None:
        """Name of the target, if the format has one."""
        return _LABEL if self.source.format == "libsvm" else None

    @property
    def size(self) -> int:
        """Number of bytes."""
        size = self.file.seek(0, io.SEEK_END)
        self.file.seek(0)
        return size

    def read(self, budget: Budget) -> pd.DataFrame:
        """Return all rows."""
        for frame in self._frames(budget, whole=True):
            return frame
        raise TableError("there is a header and there are no rows")

    def frames(self, max_bytes: int) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield rows, some at a time, and the number of the first of them, from 1. May be called more than once."""
        first = 1
        for frame in self._frames(Budget(max_bytes, TableError), whole=False):
            yield first, frame
            first += len(frame)

    def _frames(self, budget: Budget, *, whole: bool) -> Iterator[pd.DataFrame]:
        if self.source.format == "parquet":
            yield from read_parquet(self.file, budget, whole=whole)
        elif self.is_text:
            names: list[str] | None = None
            for cells in self.read_cells(budget, whole=whole):
                rows = cells
                if names is None:
                    # As pandas names columns without a name.
                    header = [str(column[0].as_py()) for column in cells.columns]
                    names, rows = [name or f"Unnamed: {j}" for j, name in enumerate(header)], cells.slice(1)
                if rows.num_rows:
                    yield _name_columns(rows, names, self.options.missing)
        elif whole:
            yield _read_libsvm(self.file, self.options.n_features, budget)
        else:
            raise TableError("LIBSVM text cannot be read in parts: convert it to Parquet or CSV")

    @property
    def is_text(self) -> bool:
        """Whether its cells are text: those of a CSV file, or of a sheet that was made one."""
        return self.source.format in ("csv", "xlsx")

    def read_cells(self, budget: Budget, *, whole: bool) -> Iterator[Any]:
        """Yield cells that are text as pyarrow tables, the header among them."""
        separator = SEPARATOR if self.source.separator is None else self.source.separator
        return read_cells(self.file, separator, budget, whole=whole)

    def find_decimal(self, frames: Iterable[pd.DataFrame]) -> str | None:
        """Return the decimal mark of the numbers of a CSV file: what was given, or what columns of it show."""
        if self.options.decimal is not None or self.source.format != "csv":
            return self.options.decimal
        # In a file that is separated by commas, a quoted 1,234 may be a thousand.
        return "," if self.source.separator != "," and uses_commas(frames) else "."


@contextmanager
def open_file(path: Path, options: ReadOptions, budget: Budget) -> Iterator[TableFile]:
    """Open a file, unpack and decode it; errors in the ``with`` block begin with its name."""
    called = name_of(path) if is_standard_input(path) else repr(str(path))
    with prefix_errors(TableError, called), _open_content(path, options, budget) as content:
        kind = _format_of(content, options.format)
        source = Provenance(name_of(path), content.digest, 0, kind, missing=tuple(options.missing))
        if kind == "xlsx":
            options = replace(options, decimal=options.decimal or ".")
            with sheet_as_csv(content.file, options.sheet, str(options.decimal), budget) as file:
                yield TableFile(file, replace(source, sheet=options.sheet), options)
            return
        if options.sheet is not None:
            raise TableError(f"only an Excel workbook has sheets (sheet=, --sheet), and this is a {kind} file")
        if kind != "csv":
            yield TableFile(content.file, source, options)
            return
        with decoded(content.file, options.encoding, budget) as (file, encoding):
            default = "\t" if content.name.lower().endswith(".tsv") else ","
            separator = guess_separator(file, default) if options.separator is None else options.separator
            yield TableFile(file, replace(source, separator=separator, encoding=encoding), options)


def _open_content(path: Path, options: ReadOptions, budget: Budget) -> AbstractContextManager[Content]:
    """Open a file and unpack it, unless it is a spreadsheet, which is a zip archive of something else."""
    extension = path.suffix.lower()
    if extension in _SPREADSHEETS and options.format is None and path.exists():
        raise TableError("this is a spreadsheet: save the sheet as an Excel workbook (.xlsx) or as CSV (UTF-8)")
    packed = options.format == "xlsx" or (options.format is None and is_workbook(path))
    return open_content(path, budget, unpack=not packed)


def is_workbook(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an Excel workbook by its name."""
    return _EXTENSIONS.get(Path(path).suffix.lower()) == "xlsx"


def _format_of(content: Content, given: str | None) -> Format:
    """Return the format of a file, by its extension or, where it has none, its first bytes, unless it is given."""
    if given in get_args(Format):
        return cast(Format, given)
    if given is not None:
        raise TableError(f"the format must be csv, parquet, libsvm or xlsx, got {given!r}")
    extension = Path(content.name).suffix.lower()
    if extension in _EXTENSIONS:
        return _EXTENSIONS[extension]
    if extension:
        known = ", ".join(_EXTENSIONS)
        raise TableError(f"the name does not end in {known}: give the format, csv, parquet, libsvm or xlsx")
    start = content.file.read(4)
    content.file.seek(0)
    return "parquet" if start == b"PAR1" else "csv"


def _name_columns(cells: Any, names: list[str], missing: Sequence[str]) -> pd.DataFrame:
    """Return the cells of a CSV file as named columns, and mark what is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words, nothing = pa.array([*_MISSING, *(word.strip() for word in missing)]), pa.scalar(None, pa.string())
    # Not if_else: before pyarrow 24 it returns invalid text of a slice, and the header was sliced off.
    masks = (pc.make_struct(pc.is_in(column, value_set=words)) for column in cells.columns)
    columns = [pc.case_when(mask, nothing, column) for mask, column in zip(masks, cells.columns, strict=True)]
    text = pd.StringDtype("pyarrow")
    numbered = pa.table(columns, cells.column_names).to_pandas(types_mapper=lambda _: text)
    return with_text_names(numbered.set_axis(names, axis=1))


def _read_libsvm(file: BinaryIO, n_features: int | None, budget: Budget) -> pd.DataFrame:
    """Read LIBSVM text as a dense table with columns "1", "2", ..., by default all that occur, and "label"."""
    from sklearn.datasets import load_svmlight_file

    def is_wrong(line: bytes) -> bool:
        try:
            load_svmlight_file(io.BytesIO(line), zero_based=False)
        except (ValueError, OverflowError):
            return True
        return False

    try:
        X, targets = load_svmlight_file(file, zero_based=False)
    except (ValueError, OverflowError) as error:
        file.seek(0)
        line = next(number for number, line in enumerate(file, start=1) if is_wrong(line))
        raise TableError(
            f"line {line}: not LIBSVM text, which is a number for the class and then index:value with rising indices "
            "from 1"
        ) from error
    if not targets.size:
        raise TableError("nothing but empty lines")
    largest = int(X.indices.max(initial=-1)) + 1
    d = largest if n_features is None else n_features
    if d == 0:
        raise TableError("there are no features")
    if largest > d:
        raise TableError(f"there is a feature {largest}, and the model knows {d}")
    budget.check_growth((8 * targets.size + _LIBSVM_COLUMN) * d, file.seek(0, io.SEEK_END))
    X.resize((targets.size, d))
    table = pd.DataFrame(X.toarray(), columns=[str(j) for j in range(1, d + 1)])
    table[_LABEL] = targets
    return table
