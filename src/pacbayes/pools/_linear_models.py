"""Logistic and ridge regressions of standardised numbers and of categories: trained, and kept as plain arrays.

Scaling is folded into the coefficients, a gap is worth the mean of the subsample, and a category what a table says: a
row is scored as it comes. Training is in compiled code, with sums in one order: BLAS would round differently on another
number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _scores
from pacbayes.pools._layout import count_outputs
from pacbayes.pools._score_models import ModelArrays, Parts, ScoreModels
from pacbayes.pools._table_encoding import (
    N_TEXT_PARTS,
    TEXT,
    Targets,
    compiled_targets,
    entry_counts,
    target_statistics,
)
from pacbayes.rows import TEXT_COLUMNS, CodeBook

# Categories of a column that have a coefficient each; those of fewer points than this share one.
_MOST_COLUMNS = 50
_FEW_POINTS = 5

# Knots of splines, and how many splines they make; of so many columns, and bytes of features in training, at most.
_N_KNOTS = 5
_N_BASIS = _N_KNOTS + 2
_MOST_SPLINES = 100
_MOST_BYTES = 2**28

# Deviations up to this are taken for none.
_LEAST_SCALE = 1e-100

# When the optimisation ends: at three times the tolerance of LogisticRegression, but after more steps at most. Models
# of texts are as accurate at ten times that, in half of the time.
_TOLERANCE, _TEXT_TOLERANCE = 3e-4, 3e-3
_MOST_STEPS = 1000


@dataclass(frozen=True, eq=False)
class LinearArrays(ModelArrays):
    """Linear models, in arrays that hold the parts of one after another."""

    C: Annotated[Array, Parts("models", "double nan")]  # inverse strengths of the penalty
    intercept: Annotated[Array, Parts("outputs", "double rows")]  # scores at the center, without categories
    center: Annotated[Array, Parts("numbers", "double rows")]  # means in each subsample, which fill gaps
    # For models of splines, where the first knot of each number is, and how far it is to the next.
    low: Annotated[Array, Parts("knots", "double rows")]
    step: Annotated[Array, Parts("knots", "double >0 rows")]
    # For each number, what a unit of it, or each of its splines, adds to outputs.
    coef: Annotated[Array, Parts("coefficients", "double rows")]
    # For each column of categories, the number of entries in its table, and what each entry adds to the outputs: the
    # first is that of unknown categories, the second that of gaps. After them, TEXT for each text, and what its parts
    # add.
    table_sizes: Annotated[NDArray[Any], Parts("categories", "int >=-1")]
    tables: Annotated[Array, Parts("entries", "double rows")]

    _BEGINNING = "intercept"
    _ADDED = ("coef", "tables")

    @classmethod
    def of(cls, class_codes: Any, *, C: float = np.nan, failed: bool = False, **parts: Any) -> LinearArrays:
        """Return one model; a constant if it has no other parts."""
        kept = {"intercept": np.zeros(int(count_outputs(len(class_codes)))), **parts}
        return cls.of_one(class_codes, failed=failed, kept=kept, C=float(C))

    @classmethod
    def train(cls, encoding: LinearEncoding, targets: Targets, class_codes: NDArray[Any], C: float) -> LinearArrays:
        """Train a logistic regression on classes numbered from 0; if there are none, a ridge regression on numbers."""
        weights = np.zeros((encoding.n_weights, int(count_outputs(len(class_codes)))))
        arrays = (encoding.features, encoding.positions, encoding.texts, compiled_targets(targets))
        tolerance = _TEXT_TOLERANCE if TEXT in encoding.table_sizes else _TOLERANCE
        _scores.train_linear(*arrays, 1 / (C * targets.size), tolerance, _MOST_STEPS, weights)
        coef, tables = encoding.fold(weights)
        return cls.of(
            class_codes,
            C=C,
            intercept=weights[-1],
            center=encoding.center[: encoding.n_numbers],
            low=encoding.low[: encoding.n_numbers],
            step=encoding.step[: encoding.n_numbers],
            coef=coef.ravel(),
            table_sizes=np.array(encoding.table_sizes, dtype=np.int64),
            tables=np.concatenate([table.ravel() for table in tables]) if tables else np.empty(0),
        )

    def scores(self, j: int, X: NDArray[Any]) -> Array:
        intercept = self.part("intercept", j)
        scores = np.empty((X.shape[0], intercept.size))
        coef, tables = (self.part(name, j).reshape(-1, intercept.size) for name in ("coef", "tables"))
        table_sizes = self.part("table_sizes", j).astype(np.int64)
        center, low, step = (self.part(name, j) for name in ("center", "low", "step"))
        _scores.linear_scores(X, center, low, step, coef, table_sizes, tables, intercept, scores)
        return scores

    def describe(self, j: int) -> str:
        n_inputs = int(self.size("numbers")[j] + self.size("categories")[j])
        what = "splines of " if self.size("knots")[j] else ""
        kind = "logistic" if self.size("classes")[j] else "ridge"
        return f"{kind} regression of {what}{n_inputs} features, C = {self.C[j]:g}"


class LinearModels(ScoreModels):
    """Trained linear models, read as a sequence and stored as a few arrays."""

    models: LinearArrays


@dataclass(frozen=True, eq=False)
class LinearEncoding:
    """A subsample as its regression reads it, and what turns the weights into those of rows as they come.

    Numbers are standardised, or expanded in splines; so are target statistics, which follow them.
    """

    features: Array  # (n, p): what is multiplied by weights
    positions: NDArray[np.int32]  # (n, c): of columns of categories that have weights of their own, that of each point
    texts: Array  # (n, t): of texts, whose parts have the last weights before the intercept, what holds the parts
    n_weights: int  # the intercept included
    n_numbers: int
    # Of the numbers and the target statistics, means and deviations, the latter empty for splines; for splines, where
    # the first knot is and how far it is to the next.
    center: Array
    scale: Array
    low: Array
    step: Array
    table_sizes: list[int]  # number of entries in the table of each column of categories
    # By column of categories, or text, the weight of the first entry, and which entry takes part in the place of each;
    # or the target statistics.
    begins: dict[int, tuple[int, NDArray[np.intp]]]
    statistics: dict[int, Array]

    @classmethod
    def learn(
        cls, X: Array, targets: Targets, book: CodeBook | None, *, splines: bool, rng: np.random.Generator
    ) -> LinearEncoding:
        """Encode a subsample, whose targets are numbers, or classes numbered from 0, from nothing but itself."""
        n_numbers, first_text = (X.shape[1],) * 2 if book is None else (book.first_category, book.first_text)
        table_sizes = [] if book is None else entry_counts(book)
        entries = X[:, n_numbers:first_text].astype(np.intp) + 1
        numbers, statistics, represented = [X[:, :n_numbers]], {}, {}
        for c, size in enumerate(table_sizes):
            counts = np.bincount(entries[:, c], minlength=size)
            if np.count_nonzero(counts) <= _MOST_COLUMNS:
                # Those of few points share the first entry with unknown ones.
                represented[c] = np.where(counts < _FEW_POINTS, 0, np.arange(size))
            else:
                statistics[c], features = target_statistics(np.ascontiguousarray(entries[:, c]), targets, size, rng)
                numbers.append(features)
        values = np.column_stack(numbers)
        splines &= 0 < values.shape[1] <= _MOST_SPLINES and values.size * _N_BASIS * 8 <= _MOST_BYTES
        center, low, step = _means(values), np.empty(0), np.empty(0)
        if splines:
            filled, scale = np.where(np.isnan(values), center, values), np.empty(0)
            low = filled.min(axis=0)
            step = (filled.max(axis=0) - low) / (_N_KNOTS - 1)
            step[step <= 0] = 1.0
            features = spline_basis(filled, low, step).reshape(len(X), -1)
        else:
            distance = np.where(np.isnan(values), 0.0, values - center)
            scale = np.sqrt((distance**2).sum(axis=0) / np.maximum((~np.isnan(values)).sum(axis=0), 1))
            # Rounding of the mean alone is no variation; nor is what makes coefficients times large numbers overflow.
            scale[scale <= np.maximum(1e-12 * np.abs(center), _LEAST_SCALE)] = 1.0
            features = distance / scale
        begins, at, positions = {}, features.shape[1], []
        for c, representative in represented.items():
            begins[c] = (at, representative)
            positions.append(at + representative[entries[:, c]])
            at += table_sizes[c]
        for _ in range(first_text, X.shape[1], TEXT_COLUMNS):
            begins[len(table_sizes)] = (at, np.arange(N_TEXT_PARTS))
            table_sizes.append(TEXT)
            at += N_TEXT_PARTS
        together = np.column_stack(positions) if positions else np.empty((len(X), 0))
        return cls(
            features=np.ascontiguousarray(features),
            positions=np.ascontiguousarray(together, dtype=np.int32),
            texts=np.ascontiguousarray(X[:, first_text:]),
            n_weights=at + 1,
            n_numbers=n_numbers,
            center=center,
            scale=scale,
            low=low,
            step=step,
            table_sizes=table_sizes,
            begins=begins,
            statistics=statistics,
        )

    def take(self, rows: Any) -> LinearEncoding:
        """Return some of the points, in any order and number, encoded as they are."""
        return replace(self, features=self.features[rows], positions=self.positions[rows], texts=self.texts[rows])

    def fold(self, weights: Array) -> tuple[Array, list[Array]]:
        """Return what numbers, or their splines, are multiplied by, and the tables of the columns of categories."""
        n_outputs = weights.shape[1]
        n_numbers, n_features = self.center.size, self.features.shape[1]
        own = weights[:n_features].reshape(n_numbers, n_features // max(1, n_numbers), n_outputs)
        coef = own if self.low.size else own / self.scale[:, np.newaxis, np.newaxis]
        tables, at = [], self.n_numbers
        for c, size in enumerate(self.table_sizes):
            if c in self.begins:
                begin, representative = self.begins[c]
                tables.append(weights[begin + representative])
                continue
            table = np.zeros((size, n_outputs))
            # One after another, not as a product of matrices, which BLAS would compute.
            for k, statistic in enumerate(self.statistics[c].T, at):
                if self.low.size:
                    basis = spline_basis(statistic[:, np.newaxis], self.low[[k]], self.step[[k]])[:, 0]
                else:
                    basis = (statistic - self.center[k])[:, np.newaxis]
                for b in range(basis.shape[1]):
                    table += np.multiply.outer(basis[:, b], coef[k, b])
            tables.append(table)
            at += self.statistics[c].shape[1]
        return coef[: self.n_numbers], tables


def _means(X: Array) -> Array:
    """Return the means of known numbers; 0 where all are missing."""
    known = ~np.isnan(X)
    return np.asarray(np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def spline_basis(X: Array, low: Array, step: Array) -> Array:
    """Return values of the cubic B-splines of equidistant knots at numbers, (n, d, 7), as compiled code does."""
    place = np.clip((X - low) / step, 0.0, _N_KNOTS - 1.0)
    interval = np.minimum(place.astype(np.intp), _N_KNOTS - 2)
    t = place - interval
    pieces = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    basis = np.zeros((*X.shape, _N_BASIS))
    rows, columns = np.ogrid[: X.shape[0], : X.shape[1]]
    for k, piece in enumerate(pieces):
        basis[rows, columns, interval + k] = piece / 6
    return basis
