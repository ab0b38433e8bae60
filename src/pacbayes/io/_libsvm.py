"""Read LIBSVM text: a class, then ``index:value`` for the features that are not zero, counted from one."""

from __future__ import annotations

from array import array
from typing import BinaryIO

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget

# What the first number of each line is called.
LABEL = "label"

# Memory that a column of a table takes besides its numbers.
_PER_COLUMN = 4096


def read_libsvm(file: BinaryIO, n_features: int | None, budget: Budget) -> pd.DataFrame:
    """Read LIBSVM text as a dense table with columns ``"1"``, ``"2"``, ... and ``"label"``.

    There are `n_features` features, by default as many as the largest that occurs.
    """
    targets, values, columns, ends = array("d"), array("d"), array("q"), array("q", [0])
    for number, line in enumerate(file, start=1):
        cells = line.split(b"#", 1)[0].split()
        if not cells:
            continue
        try:
            targets.append(float(cells[0]))
            _append_features(cells[1:], columns, values)
        except (ValueError, OverflowError) as error:
            raise TableError(
                f"line {number}: not LIBSVM text, which is a number for the class and then index:value with rising "
                "indices from 1"
            ) from error
        ends.append(len(values))
    if not targets:
        raise TableError("nothing but empty lines")
    d = _number_of_features(max(columns, default=-1) + 1, n_features)
    budget.check_growth((8 * len(targets) + _PER_COLUMN) * d, file.tell())
    dense = csr_array((np.asarray(values), np.asarray(columns), np.asarray(ends)), shape=(len(targets), d)).toarray()
    table = pd.DataFrame(dense, columns=[str(j) for j in range(1, d + 1)])
    table[LABEL] = np.asarray(targets)
    return table


def _append_features(cells: list[bytes], columns: array[int], values: array[float]) -> None:
    last = 0
    for cell in cells:
        index, _, value = cell.partition(b":")
        if index == b"qid":
            continue
        last, before = int(index), last
        if last <= before:
            raise ValueError
        columns.append(last - 1)
        values.append(float(value))


def _number_of_features(largest: int, n_features: int | None) -> int:
    if n_features is None:
        n_features = largest
    if n_features == 0:
        raise TableError("there are no features")
    if largest > n_features:
        raise TableError(f"there is a feature {largest}, and the model knows {n_features}")
    return n_features
