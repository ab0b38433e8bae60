"""Columns of a table as numbers: the part of a base learner that deals with text, missing values and scales.

It belongs to the base learner, so that each hypothesis learns its own medians, scales and categories from its own
subsample and the certificate stays strict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from pacbayes._validation import Array

__all__ = ["ColumnEncoder"]


class ColumnEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers with gaps filled and scaled, and a column of zeros and ones for each category.

    Does what a `ColumnTransformer` of `SimpleImputer`, `StandardScaler` and `OneHotEncoder` does, faster and with a
    small part of their state, which counts: there is one for each hypothesis, and all of them are saved.

    Parameters
    ----------
    numeric : sequence of str, default=()
        Columns of numbers. Missing ones become the median of the rows it is fitted on.
    text : sequence of str, default=()
        Columns of categories. A category that was not seen in fitting is encoded as zeros. Missing is a category.
    scaler : {"standard", "minmax"} or None, default=None
        Scaling of the numbers: to mean 0 and variance 1, or to the range [-1, 1].

    Attributes
    ----------
    fill_, center_, scale_ : ndarray of shape (len(numeric),)
        What missing numbers become, and what is then subtracted from numbers and divided by.
    categories_ : list of ndarray
        Categories of each text column.
    missing_ : ndarray of shape (len(text),)
        Whether missing was seen in it.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Oslo", "Rome", None]})
    >>> ColumnEncoder(["age"], ["city"]).fit_transform(table)
    array([[20.,  1.,  0.,  0.],
           [30.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.]])
    """

    def __init__(
        self,
        numeric: Sequence[str] = (),
        text: Sequence[str] = (),
        scaler: Literal["standard", "minmax"] | None = None,
    ) -> None:
        self.numeric = numeric
        self.text = text
        self.scaler = scaler

    def fit(self, X: pd.DataFrame, y: Any = None) -> ColumnEncoder:
        """Learn medians, scales and categories from the rows of a data frame, and from nothing else."""
        numbers = self._numbers(X)
        absent = np.isnan(numbers)
        # A column of which nothing is known in these rows becomes zeros.
        known = np.where(absent.all(axis=0), 0.0, numbers)
        self.fill_ = np.nanmedian(known, axis=0)
        filled = np.where(np.isnan(known), self.fill_, known)
        self.center_, self.scale_ = self._scaling(filled)
        coded = [_coded(X[name]) for name in self.text]
        self.categories_ = [names[np.unique(codes[codes >= 0])] for codes, names in coded]
        self.missing_ = np.array([(codes < 0).any() for codes, _ in coded], dtype=bool)
        return self

    def transform(self, X: pd.DataFrame) -> Array:
        """Encode the rows of a data frame: the numbers first, then the categories."""
        numbers = self._numbers(X)
        numbers = (np.where(np.isnan(numbers), self.fill_, numbers) - self.center_) / self.scale_
        parts = [numbers]
        for name, categories, missing in zip(self.text, self.categories_, self.missing_, strict=True):
            codes, names = _coded(X[name])
            # Row c of this encodes code c; the last one is missing, which codes call -1.
            rows = np.zeros((names.size + 1, categories.size + int(missing)))
            rows[:-1, : categories.size] = names[:, np.newaxis] == categories
            rows[-1, categories.size :] = 1.0
            parts.append(rows[codes])
        return np.concatenate(parts, axis=1)

    def _numbers(self, X: pd.DataFrame) -> Array:
        return X[list(self.numeric)].to_numpy(dtype=np.float64, na_value=np.nan)

    def _scaling(self, numbers: Array) -> tuple[Array, Array]:
        """What to subtract from each column and to divide it by. Constant columns keep their unit."""
        low, high = numbers.min(axis=0), numbers.max(axis=0)
        if self.scaler is None:
            return np.zeros_like(low), np.ones_like(low)
        if self.scaler == "minmax":
            center, scale = (low + high) / 2, (high - low) / 2
        else:
            center, scale = numbers.mean(axis=0), numbers.std(axis=0)
        return center, np.where((high > low) & (scale > 0), scale, 1.0)


def _coded(column: pd.Series[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Categories of the rows as positions in a list of names, -1 for missing, and the list."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("category")
    # Text of a fixed width is stored as one array.
    names = np.asarray(column.cat.categories.astype(str), dtype=str)
    return column.cat.codes.to_numpy(), names
