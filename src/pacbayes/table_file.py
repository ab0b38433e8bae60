"""Tables from files: CSV, Parquet and LIBSVM text, with what is wrong told by line, row and column.

A column holds numbers or text; text includes true and false. Cells may be missing. Rows are counted from 1, without the
header; lines as an editor counts them.
"""

from __future__ import annotations

import csv
import math
import os
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacbayes import _memory
from pacbayes._validation import Array

__all__ = [
    "LIBSVM_LABEL",
    "TableError",
    "as_numbers",
    "as_text",
    "features",
    "format_of",
    "labels",
    "read",
    "read_losses",
]

Format = Literal["csv", "parquet", "libsvm"]

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

# What the first number of each line of LIBSVM text is called.
LIBSVM_LABEL = "label"

# A table in memory: its text twice while it is parsed; for each cell, where its text is, and its number three times, as
# it is read, collected and trained on. Rough, and on the high side.
_PER_BYTE, _PER_CELL = 2, 32
_SAMPLED = 2**20


class TableError(ValueError):
    """A file that is not the table it should be: which file, what is wrong, and where."""


def format_of(path: Path, given: str | None = None) -> Format:
    """The format of a file, by its extension unless it is given."""
    if given in get_args(Format):
        return cast(Format, given)
    if given is None and path.suffix.lower() in _EXTENSIONS:
        return _EXTENSIONS[path.suffix.lower()]
    if given is None:
        raise TableError(
            f"{_quoted(path)}: the name does not end in {', '.join(_EXTENSIONS)}: give the format, csv, parquet or "
            "libsvm"
        )
    raise TableError(f"the format must be csv, parquet or libsvm, got {given!r}")


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    separator: str | None = None,
    missing: Sequence[str] = (),
    n_features: int | None = None,
) -> pd.DataFrame:
    """Read a table: from CSV all cells as text, from Parquet as they are stored, from LIBSVM text as numbers.

    Parameters
    ----------
    path : path-like
        The file.
    format : {"csv", "parquet", "libsvm"}, optional
        By default, what the extension says.
    separator : str, optional
        What stands between the cells of a CSV file: by default a comma, or a tab if the name ends in ``.tsv``.
    missing : sequence of str, optional
        Words that stand for missing values in a CSV file, besides the empty cell, NA, NaN, null and the like.
    n_features : int, optional
        Number of features of LIBSVM text, by default the largest that occurs. They are named ``"1"``, ``"2"``, ...

    Returns
    -------
    DataFrame
        Columns to be given to `features`, `labels`, `as_numbers` or `as_text`.
    """
    path = Path(path)
    kind = format_of(path, format)
    _check_file(path)
    if kind == "parquet":
        table = _read_parquet(path)
    elif kind == "libsvm":
        table = _read_libsvm(path, n_features)
    else:
        table = _read_csv(path, separator or ("\t" if path.suffix.lower() == ".tsv" else ","), missing)
    if table.shape[0] == 0:
        raise TableError(f"{_quoted(path)} has a header and no rows")
    return table


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{_quoted(path)} is a folder, not a file")
    if not path.exists():
        raise TableError(f"there is no file {_quoted(path)}")
    try:
        with path.open("rb") as file:
            empty = file.read(1) == b""
    except OSError as error:
        raise TableError(f"cannot read {_quoted(path)}: {error.strerror}") from error
    if empty:
        raise TableError(f"{_quoted(path)} is empty")


def _check_memory(path: Path, needed: float) -> None:
    available = _memory.available()
    if available is not None and needed > available:
        raise TableError(
            f"{_quoted(path)} ({_memory.readable(path.stat().st_size)}) needs about {_memory.readable(needed)} of "
            f"memory, and {_memory.readable(available)} are available: take fewer rows or columns, or a larger machine"
        )


def _quoted(path: Path) -> str:
    return repr(str(path))


# ---------------------------------------------------------------------------------------------------
# CSV
# ---------------------------------------------------------------------------------------------------


def _read_csv(path: Path, separator: str, missing: Sequence[str]) -> pd.DataFrame:
    if len(separator) != 1:
        raise TableError(f"the separator must be a single character, got {separator!r}")
    with path.open("rb") as file:
        sample = file.read(_SAMPLED)
    size = path.stat().st_size
    cells = (sample.count(separator.encode()) + sample.count(b"\n") + 1) / len(sample) * size
    _check_memory(path, _PER_BYTE * size + _PER_CELL * cells)
    header = _checked_csv(path, separator)
    return pd.read_csv(
        path,
        sep=separator,
        header=0,
        names=header,
        index_col=False,
        dtype=str,
        na_values=list(missing),
        skipinitialspace=True,
        encoding="utf-8-sig",
    )


def _checked_csv(path: Path, separator: str) -> list[str]:
    """The names in the header, after a look at every line.

    pandas would fill short lines up, rename columns that have the same name, and name no line that is not UTF-8.
    """
    rows = _csv_rows(path, separator)
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    if not names:
        raise TableError(f"{_quoted(path)} holds nothing but empty lines")
    if "" in names:
        raise TableError(f"{_quoted(path)}: column {names.index('') + 1} of {len(names)} has no name")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{_quoted(path)}: more than one column is named {', '.join(map(repr, repeated))}")
    for line, row in rows:
        if len(row) != len(names):
            raise TableError(f"{_quoted(path)}, line {line}: {len(row)} cells, and the header has {len(names)}")
    return names


def _csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the line that it ends on."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_without_nul(file, path), delimiter=separator, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            # The file is decoded ahead of the reader, so the line is found in the bytes.
            raise TableError(
                f"{_quoted(path)}, line {_first_bad_line(path)}: not UTF-8 text (byte "
                f"0x{error.object[error.start]:02x}); save the file as UTF-8"
            ) from error
        except csv.Error as error:
            raise TableError(f"{_quoted(path)}, line {reader.line_num}: {error}") from error


def _without_nul(lines: Iterable[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise TableError(f"{_quoted(path)}, line {number}: a zero byte, so this is not a text file")
        yield line


def _first_bad_line(path: Path) -> int:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return number


# ---------------------------------------------------------------------------------------------------
# Parquet and LIBSVM text
# ---------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            cells = file.metadata.num_rows * file.metadata.num_columns
            _check_memory(path, _PER_BYTE * sum(group.total_byte_size for group in groups) + _PER_CELL * cells)
            table: pd.DataFrame = file.read().to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{_quoted(path)} is not a Parquet file: {error}") from error
    table.columns = [str(name) for name in table.columns]
    repeated = table.columns[table.columns.duplicated()]
    if repeated.size:
        raise TableError(f"{_quoted(path)}: more than one column is named {', '.join(map(repr, repeated))}")
    return table.reset_index(drop=True)


def _read_libsvm(path: Path, n_features: int | None) -> pd.DataFrame:
    """LIBSVM text: a label, then ``index:value`` for the features that are not zero, counted from one."""
    from scipy.sparse import csr_array

    targets, values, columns, ends = array("d"), array("d"), array("q"), array("q", [0])
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            cells = line.split(b"#", 1)[0].split()
            if not cells:
                continue
            try:
                targets.append(float(cells[0]))
                last = 0
                for cell in cells[1:]:
                    index, _, value = cell.partition(b":")
                    if index == b"qid":
                        continue
                    last, before = int(index), last
                    if last <= before:
                        raise ValueError
                    columns.append(last - 1)
                    values.append(float(value))
            except ValueError as error:
                raise TableError(
                    f"{_quoted(path)}, line {number}: not LIBSVM text, which is a number for the class and then "
                    "index:value with rising indices from 1"
                ) from error
            ends.append(len(values))
    if not targets:
        raise TableError(f"{_quoted(path)} holds nothing but empty lines")
    largest = max(columns, default=-1) + 1
    d = largest if n_features is None else n_features
    if d == 0:
        raise TableError(f"{_quoted(path)} has no features")
    if largest > d:
        raise TableError(f"{_quoted(path)} has a feature {largest}, and the model knows {d}")
    _check_memory(path, 16.0 * len(targets) * d + 32.0 * len(values))
    dense = csr_array((np.asarray(values), np.asarray(columns), np.asarray(ends)), shape=(len(targets), d)).toarray()
    table = pd.DataFrame(dense, columns=[str(j) for j in range(1, d + 1)])
    table[LIBSVM_LABEL] = np.asarray(targets)
    return table


# ---------------------------------------------------------------------------------------------------
# Columns
# ---------------------------------------------------------------------------------------------------


def _parsed(column: pd.Series[Any]) -> tuple[Array, NDArray[np.bool_]]:
    """The numbers of a column, NaN where there is none, and where there is something that is no number."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(column.dtype, pd.StringDtype) or pd.api.types.infer_dtype(column) in ("string", "empty"):
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        raise TableError(f"column {column.name!r} holds {column.dtype} values: give numbers or text")
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column as numbers, NaN where they are missing, or an error that names the first row with something else."""
    numbers, wrong = _parsed(column)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(
            f"column {column.name!r}, row {row + 1}: {column.iloc[row]!r} is no number"
            + (f", nor are {np.count_nonzero(wrong) - 1} others" if np.count_nonzero(wrong) > 1 else "")
        )
    infinite = np.isinf(numbers)
    if infinite.any():
        raise TableError(f"column {column.name!r}, row {int(np.argmax(infinite)) + 1}: infinite values cannot be used")
    return pd.Series(numbers, index=column.index, name=column.name)


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column as categories that are text."""
    written = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    return written.astype("category")


def _is_text(column: pd.Series[Any]) -> bool:
    """Whether a column holds text; a column of numbers with a few words in it is refused, as it is likely a slip."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    if column.dtype == object and all(isinstance(entry, (bool, np.bool_)) for entry in column.dropna()):
        return bool(column.notna().any())
    numbers, wrong = _parsed(column)
    if not wrong.any():
        return False
    if np.count_nonzero(~np.isnan(numbers)) > np.count_nonzero(wrong):
        row = int(np.argmax(wrong))
        raise TableError(
            f"column {column.name!r}, row {row + 1}: {column.iloc[row]!r} is no number, and most of the column are; "
            "correct it, or say that it stands for a missing value, or that the column is text (--missing, --text)"
        )
    return True


def features(table: pd.DataFrame, text: Collection[str] = ()) -> pd.DataFrame:
    """Columns as numbers or categories, whichever they hold.

    Parameters
    ----------
    table : DataFrame
        As `read` gives it.
    text : collection of str, optional
        Columns to take as categories even where they hold numbers.

    Returns
    -------
    DataFrame
        Each column of float64, NaN where missing, or of a categorical type with text.
    """
    columns = [table[name] for name in table.columns]
    return pd.DataFrame(
        {str(c.name): as_text(c) if c.name in text or _is_text(c) else as_numbers(c) for c in columns},
        index=table.index,
    )


def labels(column: pd.Series[Any], *, text: bool | None = None) -> NDArray[Any]:
    """Class labels: whole numbers if all are, otherwise text.

    Parameters
    ----------
    column : Series
        As `read` gives it.
    text : bool, optional
        Whether the labels are text; by default, if they are not numbers.
    """
    absent = column.isna().to_numpy()
    if absent.any():
        raise TableError(
            f"the target {column.name!r} is missing in {np.count_nonzero(absent)} of {absent.size} rows, first in row "
            f"{int(np.argmax(absent)) + 1}: remove these rows"
        )
    if text is None:
        is_bool = pd.api.types.is_bool_dtype(column.dtype)
        text = is_bool or bool(_parsed(column)[1].any())
    if text:
        return as_text(column).astype(object).to_numpy()
    numbers = as_numbers(column).to_numpy()
    fractions = numbers != np.floor(numbers)
    if fractions.any():
        raise TableError(
            f"the target {column.name!r} must hold classes, and row {int(np.argmax(fractions)) + 1} holds "
            f"{numbers[fractions][0]:g}: whole numbers or text would be right"
        )
    return numbers.astype(np.int64)


# ---------------------------------------------------------------------------------------------------
# Losses
# ---------------------------------------------------------------------------------------------------


def read_losses(path: str | os.PathLike[str], column: str | None = None) -> Array:
    """Losses from a text file: one number per line, or a column of a CSV file.

    Parameters
    ----------
    path : path-like
        The file.
    column : str, optional
        The column. Not needed if there is one only, with or without a header.

    Returns
    -------
    ndarray of shape (m,)
        Numbers in [0, 1].
    """
    path = Path(path)
    _check_file(path)
    rows = _csv_rows(path, ",")
    line, first = next(rows, (0, []))
    names = [name.strip() for name in first]
    if not names:
        raise TableError(f"{_quoted(path)} holds nothing but empty lines")
    if column is not None and column not in names:
        raise TableError(f"{_quoted(path)} has no column {column!r}; it has {', '.join(map(repr, names))}")
    if column is None and len(names) > 1:
        raise TableError(
            f"{_quoted(path)} has {len(names)} columns, {', '.join(map(repr, names))}: name the one to take"
        )
    position = 0 if column is None else names.index(column)
    losses = []
    if column is None and not math.isnan(_number(names[0])):
        losses.append(_loss(path, line, names[0]))
    for line, row in rows:
        if len(row) != len(names):
            raise TableError(f"{_quoted(path)}, line {line}: {len(row)} cells, and the first line has {len(names)}")
        losses.append(_loss(path, line, row[position].strip()))
    if not losses:
        raise TableError(f"{_quoted(path)} has a header and no losses")
    return np.array(losses)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _loss(path: Path, line: int, word: str) -> float:
    loss = _number(word)
    if not 0 <= loss <= 1:
        raise TableError(f"{_quoted(path)}, line {line}: a loss must be a number in [0, 1], got {word!r}")
    return loss
