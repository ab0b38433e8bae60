"""Logistic regressions of standardised numbers and of categories: trained, and kept as plain arrays.

Scaling is folded into the coefficients, a gap is worth the mean of the subsample, and a category what a table says: a
row is scored as it comes. Training is in compiled code, with sums in one order: BLAS would round differently on another
number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _scores
from pacbayes.pools._layout import contiguous
from pacbayes.pools._score_models import ModelArrays, ScoreModels, count_outputs
from pacbayes.pools._table_encoding import entry_counts, target_statistics
from pacbayes.rows import CodeBook

# When the optimisation ends: as in LogisticRegression, but that it may take more steps.
_TOLERANCE = 1e-4
_MOST_STEPS = 1000


@dataclass(frozen=True, eq=False)
class LinearArrays(ModelArrays):
    """Linear models, in arrays that hold the parts of one after another.

    Attributes
    ----------
    C : ndarray of shape (m,)
        Inverse strengths of the penalty.
    intercept : ndarray
        Scores of a point at the center, without categories.
    center : ndarray
        Means of the numbers in each subsample, which gaps are filled with.
    coef : ndarray
        For each number, what a unit of it adds to the outputs.
    table_sizes, tables : ndarray
        For each column of categories, the number of entries in its table, and what each entry adds to the outputs: the
        first is that of unknown categories, the second that of gaps.
    """

    C: Array
    intercept: Array
    center: Array
    coef: Array
    table_sizes: NDArray[Any]
    tables: Array

    SIZES = ("classes", "outputs", "numbers", "coefficients", "categories", "entries")
    PARTS: ClassVar[dict[str, str]] = {
        "class_codes": "classes",
        "intercept": "outputs",
        "center": "numbers",
        "coef": "coefficients",
        "table_sizes": "categories",
        "tables": "entries",
    }
    ENTRIES = ("failed", "C")

    @classmethod
    def of(cls, class_codes: Any, *, C: float = np.nan, failed: bool = False, **parts: Any) -> LinearArrays:
        """Return one model; a constant if it has no other parts."""
        codes = np.asarray(class_codes)
        known: dict[str, Any] = {
            "class_codes": codes,
            "intercept": np.zeros(int(count_outputs(codes.size))),
            **dict.fromkeys(("center", "coef", "tables"), np.empty(0)),
            "table_sizes": np.empty(0, dtype=np.int64),
            **parts,
        }
        counts = {sort: known[name].shape[0] for name, sort in cls.PARTS.items()}
        sizes = np.array([[counts[sort] for sort in cls.SIZES]], dtype=np.int64)
        return cls(sizes=sizes, failed=np.array([failed]), C=np.array([float(C)]), **known).narrowed()

    @classmethod
    def train(
        cls,
        X: Array,
        codes: NDArray[np.intp],
        class_codes: NDArray[Any],
        book: CodeBook | None,
        C: float,
        most_columns: int,
        rng: np.random.Generator,
    ) -> LinearArrays:
        """Train a logistic regression on a subsample, whose classes are numbered from 0.

        Columns of at most `most_columns` categories have a coefficient for each of them, others target statistics.
        """
        n_numbers = X.shape[1] if book is None else book.n_features - book.n_categories
        counts = [] if book is None else entry_counts(book)
        all_entries = X[:, n_numbers:].astype(np.intp) + 1
        numbers, plain, statistics = [X[:, :n_numbers]], [], {}
        for c, n_entries in enumerate(counts):
            entries = np.ascontiguousarray(all_entries[:, c])
            if np.count_nonzero(np.bincount(entries)) <= most_columns:
                plain.append(c)
            else:
                statistics[c], features = target_statistics(entries, codes, n_entries, rng)
                numbers.append(features)
        standardised, center, scale = _standardise(np.column_stack(numbers))
        # The weights of the categories of each column follow those of the numbers.
        begins = dict(zip(plain, center.size + np.cumsum([0, *(counts[c] for c in plain)]), strict=False))
        n_weights = center.size + sum(counts[c] for c in plain) + 1
        positions = [all_entries[:, c] + begins[c] for c in plain]
        categories = np.column_stack(positions) if plain else np.empty((codes.size, 0))
        weights = _minimise(standardised, categories.astype(np.int32), codes.astype(np.int32), n_weights, C)
        coef = weights[: center.size] / scale[:, np.newaxis]
        tables, at = [], n_numbers
        for c, n_entries in enumerate(counts):
            if c in begins:
                tables.append(weights[begins[c] : begins[c] + n_entries])
                continue
            width = statistics[c].shape[1]
            own = slice(at, at + width)
            # Entry after entry, not as a product of matrices, which BLAS would compute.
            tables.append(
                sum(np.multiply.outer(statistics[c][:, k] - center[own][k], coef[own][k]) for k in range(width))
            )
            at += width
        return cls.of(
            class_codes,
            C=C,
            intercept=weights[-1],
            center=center[:n_numbers],
            coef=coef[:n_numbers].ravel(),
            table_sizes=np.array(counts, dtype=np.int64),
            tables=np.concatenate([table.ravel() for table in tables]) if tables else np.empty(0),
        )

    def convert(self, X: Any) -> NDArray[Any]:
        return contiguous(X)

    def scores(self, j: int, X: NDArray[Any]) -> Array:
        intercept = self.part("intercept", j)
        scores = np.empty((X.shape[0], intercept.size))
        coef, tables = (self.part(name, j).reshape(-1, intercept.size) for name in ("coef", "tables"))
        table_sizes = self.part("table_sizes", j).astype(np.int64)
        _scores.linear_scores(X, self.part("center", j), coef, table_sizes, tables, intercept, scores)
        return scores

    def to_probabilities(self, j: int, scores: Array) -> Array:
        _scores.probabilities(scores)
        return scores

    def describe(self, j: int) -> str:
        n_inputs = int(self.size("numbers")[j] + self.size("categories")[j])
        return f"logistic regression of {n_inputs} features, C = {self.C[j]:g}"


class LinearModels(ScoreModels):
    """Trained logistic regressions, read as a sequence of `ScoreModel` and stored as a few arrays."""

    models: LinearArrays


def _standardise(X: Array) -> tuple[Array, Array, Array]:
    """Return numbers without their means, in units of their deviations, 0 where they are missing; and these two.

    A number that is missing everywhere has mean 0, and one that does not vary is in its own unit.
    """
    known = ~np.isnan(X)
    count = np.maximum(known.sum(axis=0), 1)
    center = np.where(known, X, 0.0).sum(axis=0) / count
    distance = np.where(known, X - center, 0.0)
    scale = np.sqrt((distance**2).sum(axis=0) / count)
    # Rounding of the mean alone is no variation.
    scale[scale <= 1e-12 * np.abs(center)] = 1.0
    scale[scale == 0] = 1.0
    return np.ascontiguousarray(distance / scale), center, scale


def _minimise(
    numbers: Array, categories: NDArray[np.int32], codes: NDArray[np.int32], n_weights: int, C: float
) -> Array:
    """Return the weights that minimise the mean logistic loss plus the penalty of LogisticRegression."""
    weights = np.zeros((n_weights, int(count_outputs(int(codes.max()) + 1))))
    penalty = 1 / (C * codes.size)
    _scores.train_logistic(numbers, np.ascontiguousarray(categories), codes, penalty, _TOLERANCE, _MOST_STEPS, weights)
    return weights
