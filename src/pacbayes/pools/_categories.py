"""The hypothesis space of learners that know categories and gaps themselves, such as CatBoost and LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._compat import take_rows
from pacbayes.pools._base import Codes, Sample
from pacbayes.pools._estimator import EstimatorPool
from pacbayes.rows import CodeBook, is_table

# Of a learner of another library, a family by name has as many hypotheses, on as large a share of the rows, as of
# boosted trees.
N_HYPOTHESES, SHARE = 2, 0.9


class CategoricalPool(EstimatorPool):
    """An `EstimatorPool` whose learner takes data frames with columns of categories and gaps.

    Tables with text are handed to it as data frames of pandas: numbers with NaN for gaps, and categories as such.
    CatBoost is told which columns these are.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor
        A learner with native categories, such as `LGBMClassifier` or `CatBoostRegressor`.
    param_distributions, on_error, vote_by, n_hypotheses, subsample_size
        As in `EstimatorPool`.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from pacbayes.pools import CategoricalPool
    >>> pool = CategoricalPool(HistGradientBoostingClassifier(categorical_features="from_dtype"))
    >>> pool.takes_code_books
    True
    """

    takes_code_books = True

    def _train_on(self, sample: Sample, subsample: Codes, h: int, rng: np.random.Generator) -> Any:
        if sample.code_book is None:
            return super()._train_on(sample, subsample, h, rng)
        X, codes = to_frame(take_rows(sample.X, subsample), sample.code_book), sample.codes[subsample]
        y = codes if sample.is_numeric else sample.classes[codes]
        return CodedClassifier(self.train_one(X, y, rng, **sample.weights_of(subsample)), sample.code_book)

    def _fit_learner(self, learner: Any, X: Any, y: NDArray[Any], **how: Any) -> Any:
        categories = [name for name in X.columns if X[name].dtype == "category"] if hasattr(X, "columns") else []
        named = {"cat_features": categories} if categories and hasattr(learner, "get_cat_feature_indices") else {}
        return learner.fit(X, y, **named, **how)


@dataclass(frozen=True, eq=False)
class CodedClassifier:
    """A trained classifier or regressor of data frames, asked about rows of a table that a code book has encoded."""

    model: Any
    code_book: CodeBook

    def __str__(self) -> str:
        return str(self.model)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the learner."""
        return np.asarray(self.model.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels, or numbers, of coded rows."""
        return np.asarray(self.model.predict(to_frame(X, self.code_book))).reshape(X.shape[0])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return probabilities of coded rows."""
        return np.asarray(self.model.predict_proba(to_frame(X, self.code_book)))


def to_frame(X: Any, book: CodeBook) -> Any:
    """Return rows as a data frame: numbers, and categories as such, each column the same in every block."""
    import pandas as pd

    X = book.encode(X) if is_table(X) else X  # a hypothesis of its own is asked about tables as they are
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(book.n_numbers)}
    known = [labels for labels in book.categories if labels is not None]
    for j, labels in enumerate(known):
        # Unknown categories and gaps, -1 and 0, are categories of their own.
        kinds = pd.CategoricalDtype([str(code) for code in range(-1, len(labels) + 1)])
        codes = X[:, book.first_category + j].astype(int) + 1
        columns[f"c{j}"] = pd.Categorical.from_codes(codes, dtype=kinds)
    return pd.DataFrame(columns)
