"""Read LIBSVM text: a class, then ``index:value`` for the features that are not zero, counted from one."""

from __future__ import annotations

import io
from typing import BinaryIO

import pandas as pd
from sklearn.datasets import load_svmlight_file

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
    try:
        X, targets = load_svmlight_file(file, zero_based=False)
    except (ValueError, OverflowError) as error:
        file.seek(0)
        line = next(number for number, line in enumerate(file, start=1) if not _is_libsvm(line))
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
    budget.check_growth((8 * targets.size + _PER_COLUMN) * d, file.seek(0, io.SEEK_END))
    X.resize((targets.size, d))
    table = pd.DataFrame(X.toarray(), columns=[str(j) for j in range(1, d + 1)])
    table[LABEL] = targets
    return table


def _is_libsvm(line: bytes) -> bool:
    try:
        load_svmlight_file(io.BytesIO(line), zero_based=False)
    except (ValueError, OverflowError):
        return False
    return True
