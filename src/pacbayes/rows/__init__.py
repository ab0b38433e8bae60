"""Rows that may be more than the memory holds: Parquet files, mapped arrays, Zarr arrays, dask collections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacbayes.rows._arrays import ArraySource, MemmapSource, ZarrSource, is_mapped
from pacbayes.rows._base import Labels, Source, sort_labels
from pacbayes.rows._code_book import CodeBook, is_table, is_text, learn_code_book, to_days
from pacbayes.rows._dask import DaskArraySource, DaskTableSource, is_dask
from pacbayes.rows._hashing import TEXT_BITS, TEXT_COLUMNS
from pacbayes.rows._parquet import (
    ANY_SIZE,
    MOST_GROWTH,
    ParquetSource,
    feature_names,
    find_files,
    is_readable,
    open_parquet,
)
from pacbayes.rows._ranges import ColumnRanges, describe_gaps
from pacbayes.rows._recognition import RowSummary, Sums, TrainingRows, add_sums, shift_for, sum_rows

__all__ = [
    "ANY_SIZE",
    "MOST_GROWTH",
    "TEXT_BITS",
    "TEXT_COLUMNS",
    "ArraySource",
    "CodeBook",
    "ColumnRanges",
    "Labels",
    "MemmapSource",
    "ParquetSource",
    "RowSummary",
    "Source",
    "Sums",
    "TrainingRows",
    "ZarrSource",
    "add_sums",
    "describe_gaps",
    "feature_names",
    "find_files",
    "find_source",
    "is_dask",
    "is_readable",
    "is_table",
    "is_text",
    "learn_code_book",
    "open_parquet",
    "open_source",
    "shift_for",
    "sort_labels",
    "sum_rows",
    "to_days",
]

# Smaller arrays that are mapped from a file are read at once: joblib maps what it sends to other processes.
_MAPPED_BYTES = 1 << 28


def open_source(X: Any, y: Any = None, *, columns: Sequence[str] | None = None) -> Source:
    """Open rows that `fit`, `predict` and `certify` read in blocks.

    Parameters
    ----------
    X : str, path-like, memmap, array, Zarr array, dask array or dask data frame
        Rows: a Parquet file, a folder or glob of them, or their address on a file system that fsspec knows; an array.
    y : str or array-like, optional
        Column of the labels where there are columns, the labels otherwise.
    columns : sequence of str, optional
        Features of a table, in this order; all columns but `y` by default.

    Returns
    -------
    Source
        Names and sizes: no rows are read yet.

    Examples
    --------
    >>> source = open_source(np.arange(12.0).reshape(6, 2), y=[0, 1, 0, 1, 1, 1])
    >>> source.shape, source.take(np.array([1, 4])).tolist()
    ((6, 2), [[2.0, 3.0], [8.0, 9.0]])
    """
    source = find_source(X, y, columns=columns)
    if source is None:
        return MemmapSource(X, y) if is_mapped(X) and X.ndim == 2 else ArraySource(np.asarray(X), y)
    return source


def find_source(X: Any, y: Any = None, *, columns: Sequence[str] | None = None) -> Source | None:
    """Return what `open_source` does for everything but arrays and data frames in memory; None for these."""
    if isinstance(X, Source):
        return X
    columns = None if columns is None else [str(name) for name in columns]
    if isinstance(X, (str, os.PathLike)):
        if not (y is None or isinstance(y, str)):
            raise ValueError(f"y must be the name of a column where X is a path, got {type(y).__name__}")
        return open_parquet(os.fspath(X), y, columns)
    if is_dask(X):
        return DaskTableSource(X, y, columns) if hasattr(X, "columns") else DaskArraySource(X, y)
    if is_mapped(X) and X.ndim == 2 and X.nbytes >= _MAPPED_BYTES:
        return MemmapSource(X, y)
    if type(X).__module__.split(".")[0] == "zarr":
        return ZarrSource(X, y)
    return None
