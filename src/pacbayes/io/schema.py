"""What a model must know about the table it was trained on: columns, target, classes, and where the rows came from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes._formatting import format_counts, format_names
from pacbayes._json_fields import Pattern, Range, parse_object, raising, read_object
from pacbayes._settings import Constraint
from pacbayes.bounds import clopper_pearson
from pacbayes.exceptions import TableError

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "text", "date"]
TaskName = Literal["classification", "regression"]
Rows = NDArray[np.intp]

# A schema may come with a model that somebody else made: annotations say what its fields may be in a file.
_Count = Annotated[int, Range(0, 2**63, open_high=True)]
_Fraction = Annotated[float, Range(0, 1, open_low=True, open_high=True)]
_LONGEST = 2**30


def _are_labels(labels: Any) -> bool:
    """Return whether all of them are text, or all of them integers that arrays can hold."""
    kinds = {type(label) for label in labels}
    return kinds <= {str} or (kinds == {int} and all(abs(label) < 2**63 for label in labels))


@dataclass(frozen=True)
class Column:
    """Name and kind of a column of features.

    Attributes
    ----------
    name : str
        The name.
    kind : {"number", "text", "date"}
        Whether it holds numbers, categories named by text, or dates.
    """

    name: str
    kind: Kind


@dataclass(frozen=True)
class Provenance:
    """Where the rows of a table came from, and which of them trained a model.

    Attributes
    ----------
    name : str
        Name of the file or dataset.
    sha256 : str or None
        Digest of the file.
    n_rows : int
        Number of rows, held-out ones included.
    format : str or None
        Format of the file: "csv", "parquet", "libsvm" or "xlsx".
    separator : str or None
        Character between the cells of a CSV file.
    decimal : str or None
        Decimal mark of its numbers.
    encoding : str or None
        Encoding of its text.
    missing : tuple of str
        Words that stood for missing values besides the usual ones.
    test_size : float or None
        Fraction of the rows that was held out.
    seed : int or None
        Seed that they were drawn with.
    skipped : int
        Number of rows without a target that were left out. They are none of `n_rows`.
    time : str or None
        Column of dates or numbers by which the last rows were held out, if they were not drawn.
    sheet : str or None
        Sheet of an Excel workbook, if it was named.
    """

    name: str
    sha256: str | None
    n_rows: _Count
    format: Annotated[str, Pattern("csv|parquet|libsvm|xlsx", "csv, parquet, libsvm or xlsx")] | None = None
    separator: str | None = None
    decimal: Annotated[str, Pattern("[.,]", "'.' or ','")] | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    test_size: _Fraction | None = None
    seed: _Count | None = None
    skipped: _Count = 0
    time: str | None = None
    sheet: str | None = None

    def split(self, times: Any = None) -> tuple[Rows, Rows]:
        """Return the rows that were trained on and those that were held out, see `split_rows` and `split_last_rows`.

        `times` is the column `time`, where the last rows were held out.
        """
        if self.test_size is None:
            return np.arange(self.n_rows), np.arange(0)
        if self.time is not None:
            return split_last_rows(times, self.test_size)
        return split_rows(self.n_rows, self.test_size, self.seed or 0)


@dataclass(frozen=True)
class HeldOutTest:
    """Errors of a model on rows that it has not seen.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    errors : int
        Number of rows that the model predicts wrongly.
    delta : float
        Probability with which the bound that they prove may fail.
    """

    # Beyond this, counts are not exact as float64, in which bounds are calculated.
    n_rows: Annotated[int, Range(1, 2**53)]
    errors: _Count
    delta: _Fraction

    @property
    def error(self) -> float:
        """Share of the rows that the model predicts wrongly."""
        return self.errors / self.n_rows

    @property
    def bound(self) -> float:
        """Bound on the error that these rows alone prove (Clopper-Pearson)."""
        return float(clopper_pearson(self.errors, self.n_rows, self.delta))


@dataclass(frozen=True)
class HeldOutErrors:
    """Errors of predicted numbers on rows that the model has not seen, in the unit of the target.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    mean_absolute_error, root_mean_squared_error : float
        Measured, without a cap.
    name : {"mean absolute error", "root mean squared error"}
        What `bound` is about.
    bound : float or None
        Bound that these rows alone prove, with the cap of the model's certificate; None if nothing is proved.
    delta : float
        Probability with which it may fail.
    """

    n_rows: Annotated[int, Range(1, 2**53)]
    mean_absolute_error: Annotated[float, Range(0)]
    root_mean_squared_error: Annotated[float, Range(0)]
    name: Literal["mean absolute error", "root mean squared error"]
    bound: Annotated[float, Range(0)] | None
    delta: _Fraction


@dataclass(frozen=True)
class Schema:
    """Columns, target and classes of the table that a model was trained on.

    Attributes
    ----------
    columns : tuple of Column
        The features, in the order of training.
    target : str or None
        Name of the column of the classes.
    classes : tuple of str or int
        The class labels, sorted; none where numbers are predicted.
    class_counts : tuple of int
        Number of rows of each class.
    complete : bool
        Whether features must not be missing: true for a table where none is. `save_model` sets it to False for models
        that fill gaps although they were trained without any.
    source : Provenance or None
        Where the rows came from.
    test : HeldOutTest or None
        How the model did on the rows that were held out, if some were, and if it predicts classes.
    task : {"classification", "regression"}
        Whether the target is a class or a number.
    number_test : HeldOutErrors or None
        As `test`, of a model that predicts numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from pacbayes.io import Table
    >>> table = Table.from_frame(pd.DataFrame({"size": ["1", "2", "4"], "kind": ["a", "b", "b"]}), target="kind")
    >>> table.schema.columns, table.schema.classes
    ((Column(name='size', kind='number'),), ('a', 'b'))
    >>> Schema.from_json(table.schema.to_json()) == table.schema
    True
    >>> table.schema.apply(pd.DataFrame({"size": ["3", "small"]}))
    Traceback (most recent call last):
    pacbayes.exceptions.TableError: column 'size', row 2: 'small' is not a number
    """

    columns: tuple[Column, ...]
    target: str | None = None
    classes: Annotated[tuple[Any, ...], Constraint("{} of text or of integers", _are_labels)] = ()
    class_counts: tuple[_Count, ...] = ()
    complete: bool = True
    source: Provenance | None = None
    test: HeldOutTest | None = None
    task: TaskName = "classification"
    number_test: HeldOutErrors | None = None

    @property
    def names(self) -> list[str]:
        """Names of the features, in the order of training."""
        return [column.name for column in self.columns]

    @property
    def decimal(self) -> str:
        """Decimal mark of numbers that are stored as text: that of the table of training, or a point."""
        return (None if self.source is None else self.source.decimal) or "."

    def names_of(self, *kinds: Kind) -> list[str]:
        """Return the names of the features of some kinds."""
        return [column.name for column in self.columns if column.kind in kinds]

    def apply(self, table: pd.DataFrame, *, allow_extra: bool = False, decimal: str | None = None) -> pd.DataFrame:
        """Return the features of a table as the model was trained on them.

        Parameters
        ----------
        table : DataFrame
            Rows with the columns of this schema, in any order: as they come from a file, or converted already. The
            target is left out.
        allow_extra : bool, default=False
            Whether to leave out columns that the schema does not know, instead of refusing them.
        decimal : {".", ","}, optional
            Decimal mark of numbers that are stored as text, by default `Schema.decimal`. A number with the other mark
            is refused.

        Returns
        -------
        DataFrame
            Columns of float64, NaN where missing, of dates in universal time, and of categories.

        Raises
        ------
        TableError
            If columns are missing or unknown, if a cell is not of its column's kind, or if a value is missing and the
            model was trained on complete rows.
        """
        import pandas as pd

        from pacbayes.io._columns import parse_dates, parse_numbers, parse_text

        table = with_text_names(table)
        self._check_names(list(table.columns), allow_extra)
        parsers: dict[Kind, Callable[[pd.Series[Any]], pd.Series[Any]]] = {
            "number": partial(parse_numbers, decimal=decimal or self.decimal),
            "text": parse_text,
            "date": parse_dates,
        }
        features = {column.name: parsers[column.kind](table[column.name]) for column in self.columns}
        X = pd.DataFrame(features, index=table.index)
        gaps = missing_by_column(X)
        if gaps and self.complete:
            raise TableError(
                f"there are missing values in {format_counts(gaps)}, and the model was trained on data without any: "
                "fill them, or train on rows that have some"
            )
        return X

    def labels(self, table: pd.DataFrame, target: str | None = None, *, decimal: str | None = None) -> NDArray[Any]:
        """Return the targets of a table, as in training: class labels as text or integers, or numbers.

        Parameters
        ----------
        table : DataFrame
            Rows with a column of targets.
        target : str, optional
            Name of that column, by default the one of training.
        decimal : {".", ","}, optional
            As in `apply`.

        Returns
        -------
        ndarray
            Labels, whether or not the model knows them; or finite numbers.
        """
        from pacbayes.io._columns import parse_target

        name = target or self.target
        if name is None or name not in table.columns:
            what = "numbers to predict" if self.task == "regression" else "classes"
            raise TableError(f"there is no column {name!r} with the {what}: name it (target=, --target)")
        text = any(isinstance(label, str) for label in self.classes)
        return parse_target(table[name], decimal or self.decimal, task=self.task, text=text)

    def _check_names(self, given: Sequence[str], allow_extra: bool) -> None:
        known, present = set(self.names), set(given)
        lacking = [name for name in self.names if name not in present]
        extra = [name for name in given if name not in known and name != self.target]
        problems = [f"lacks {format_names(lacking)}"] if lacking else []
        # Where one is lacking, another may be that one by another name.
        if extra and (lacking or not allow_extra):
            problems.append(f"has {format_names(extra)}, which the model does not know")
        if problems:
            raise TableError(f"the table {' and '.join(problems)}")

    def to_json(self) -> str:
        """Return the schema as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Read a schema from what `to_json` returned, or raise TableError for a field that is wrong."""
        with raising(TableError, "the schema is not valid: "):
            # As in files that were written before numbers were predicted.
            values = {"task": "classification", "number_test": None, **parse_object(text, longest=_LONGEST)}
            if isinstance(values.get("source"), dict):
                # As in files that were written before rows were skipped, held out by time or read from a sheet.
                values["source"] = {"skipped": 0, "time": None, "sheet": None, **values["source"]}
            schema: Schema = read_object(cls, values)
        names, classes, test = schema.names, schema.classes, schema.test
        if len(set(names)) < len(names):
            raise TableError("the schema names a column twice")
        if len(schema.class_counts) != len(classes) or len(set(classes)) != len(classes):
            raise TableError("the schema must have one count for each of its classes, and each class once")
        if test is not None and test.errors > test.n_rows:
            raise TableError(f"the test of the schema has {test.errors} errors in {test.n_rows} rows")
        of_classes = schema.task == "classification"
        if schema.number_test if of_classes else classes or test:
            raise TableError(f"the schema is of {schema.task}, and has what only other tasks have")
        return schema

    def with_classes(self, classes: NDArray[Any], counts: NDArray[np.intp], **split: Any) -> Schema:
        """Return the schema of rows with these classes, so often each; `split` says how others were held out."""
        source = None if self.source is None else replace(self.source, **split)
        if self.task == "regression":
            return replace(self, source=source)
        known = np.flatnonzero(counts)  # a rare class may be held out altogether
        names, numbers = (tuple(values[known].tolist()) for values in (classes, counts))
        return replace(self, classes=names, class_counts=numbers, source=source)

    def without(self, names: Collection[str]) -> Schema:
        """Return the schema without some of the features."""
        columns = tuple(column for column in self.columns if column.name not in names)
        if not columns:
            raise TableError(f"no column is left to learn from without {format_names(names)}")
        return replace(self, columns=columns)


def split_rows(n_rows: int, test_size: float, seed: int) -> tuple[Rows, Rows]:
    """Draw rows to hold out, without looking at them.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    test_size : float
        Fraction to hold out, in (0, 1).
    seed : int
        Seed.

    Returns
    -------
    train, test : ndarray of int
        Row numbers, sorted.

    Examples
    --------
    >>> train, test = split_rows(10, test_size=0.3, seed=0)
    >>> test
    array([2, 4, 6])
    """
    held_out = _count_held_out(n_rows, test_size)
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def split_last_rows(times: Any, test_size: float) -> tuple[Rows, Rows]:
    """Hold out the last rows by their time: a fraction of them, and all others of the time at which these begin.

    Parameters
    ----------
    times : array-like of shape (n,)
        Dates or numbers, none of them missing.
    test_size : float
        Fraction to hold out, in (0, 1).

    Returns
    -------
    train, test : ndarray of int
        Row numbers, sorted.

    Examples
    --------
    >>> split_last_rows(np.array([3, 1, 2, 5, 4]), test_size=0.4)[1]
    array([3, 4])
    """
    values = np.asarray(times)
    is_last = values >= np.sort(values)[values.size - _count_held_out(values.size, test_size)]
    if is_last.all():
        raise TableError("the times must differ: all rows are of the last one")
    return np.flatnonzero(~is_last), np.flatnonzero(is_last)


def _count_held_out(n_rows: int, test_size: float) -> int:
    held_out = round(test_size * n_rows) if 0 < test_size < 1 else 0
    if not 0 < held_out < n_rows:
        raise TableError(f"test_size must be a fraction in (0, 1) that leaves rows on both sides, got {test_size:g}")
    return held_out


def with_text_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame whose columns are named by text, each differently."""
    names = [str(name) for name in table.columns]
    refuse_repeated(names)
    return table.set_axis(names, axis=1)


def refuse_repeated(names: Sequence[str]) -> None:
    """Raise TableError if columns have the same name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"more than one column is named {format_names(repeated)}")


def missing_by_column(X: pd.DataFrame) -> dict[str, int]:
    """Return the number of missing values of each column that has some."""
    return {str(name): int(count) for name, count in X.isna().sum().items() if count}
