"""Encode the columns of a table as numbers: the part of a base learner that handles text, gaps and scales.

It belongs to the base learner, so that each hypothesis learns its own medians, scales and categories from its own
subsample and the certificate stays strict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from pacbayes._validation import Array
from pacbayes.rows import to_days


class ColumnEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill and scale columns of numbers, and encode each category as a column of zeros and ones.

    It does what a `ColumnTransformer` of `SimpleImputer`, `StandardScaler` and `OneHotEncoder` does, faster and with a
    small part of their state, which matters: there is one for each hypothesis, and all of them are saved.

    Parameters
    ----------
    numeric : sequence of str, default=()
        Columns of numbers or dates, which become days since 1970. Missing ones become the median of the rows it is
        fitted on.
    text : sequence of str, default=()
        Columns of categories. A category that was not seen in fitting is encoded as zeros. Missing is a category.
    scaler : {"standard", "minmax"} or None, default=None
        Scaling of the numbers: to mean 0 and variance 1, or to the range [-1, 1].

    Attributes
    ----------
    fill_, center_, scale_ : ndarray of shape (len(numeric),)
        Values that replace missing numbers, that are then subtracted, and that are divided by.
    categories_ : list of list of str
        Categories of each text column.
    missing_ : ndarray of shape (len(text),)
        Whether a value was missing in each of them.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Oslo", "Rome", None]})
    >>> ColumnEncoder(["age"], ["city"]).fit_transform(table)
    array([[20.,  1.,  0.,  0.],
           [30.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.]])
    """

    def __init__(
        self, numeric: Sequence[str] = (), text: Sequence[str] = (), scaler: Literal["standard", "minmax"] | None = None
    ) -> None:
        self.numeric = numeric
        self.text = text
        self.scaler = scaler

    def fit(self, X: pd.DataFrame, y: Any = None) -> ColumnEncoder:
        """Learn medians, scales and categories from the rows of a data frame, and from nothing else."""
        numbers = self._numbers(X)
        absent = np.isnan(numbers)
        # A column that is missing in all of these rows becomes zeros.
        known = np.where(absent.all(axis=0), 0.0, numbers)
        self.fill_ = np.nanmedian(known, axis=0)
        filled = np.where(np.isnan(known), self.fill_, known)
        self.center_, self.scale_ = self._scaling(filled)
        coded = [_encode_categories(X[name]) for name in self.text]
        self.categories_ = [[names[code] for code in np.unique(codes[codes >= 0])] for codes, names in coded]
        self.missing_ = np.array([(codes < 0).any() for codes, _ in coded], dtype=bool)
        return self

    def transform(self, X: pd.DataFrame) -> Array:
        """Encode the rows of a data frame: the numbers first, then the categories."""
        numbers = self._numbers(X)
        numbers = (np.where(np.isnan(numbers), self.fill_, numbers) - self.center_) / self.scale_
        parts = [numbers]
        for name, categories, missing in zip(self.text, self.categories_, self.missing_, strict=True):
            codes, names = _encode_categories(X[name])
            position = {category: j for j, category in enumerate(categories)}
            # The last entry is for missing values, which have code -1. Categories without a column are left out.
            columns = [position.get(category, -1) for category in names]
            column = np.array([*columns, len(categories) if missing else -1])[codes]
            encoded = np.zeros((len(X), len(categories) + int(missing)))
            rows = np.flatnonzero(column >= 0)
            encoded[rows, column[rows]] = 1.0
            parts.append(encoded)
        return np.concatenate(parts, axis=1)

    def __getstate__(self) -> dict[str, Any]:
        # As one string for each column, categories take little room in a model file, however long the longest is.
        state = dict(super().__getstate__())
        if "categories_" in state:
            state["categories_"] = [json.dumps(categories) for categories in state["categories_"]]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "categories_" in state:
            state = {**state, "categories_": [json.loads(categories) for categories in state["categories_"]]}
        super().__setstate__(state)

    def _numbers(self, X: pd.DataFrame) -> Array:
        numbers = np.empty((len(X), len(self.numeric)))
        for k, name in enumerate(self.numeric):
            column = X[name]
            is_date = column.dtype.kind == "M"
            numbers[:, k] = to_days(column.to_numpy()) if is_date else column.to_numpy(np.float64, na_value=np.nan)
        return numbers

    def _scaling(self, numbers: Array) -> tuple[Array, Array]:
        """Return what to subtract from each column and what to divide it by. Constant columns keep their unit."""
        low, high = numbers.min(axis=0), numbers.max(axis=0)
        if self.scaler is None:
            return np.zeros_like(low), np.ones_like(low)
        if self.scaler == "minmax":
            center, scale = (low + high) / 2, (high - low) / 2
        else:
            center, scale = numbers.mean(axis=0), numbers.std(axis=0)
        return center, np.where((high > low) & (scale > 0), scale, 1.0)


def _encode_categories(column: pd.Series[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return the categories of the rows as positions in a list of names, -1 for missing, and the list."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("category")
    return column.cat.codes.to_numpy(), [str(name) for name in column.cat.categories]
