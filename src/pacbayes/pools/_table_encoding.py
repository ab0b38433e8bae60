"""Columns of categories as numbers, from the points of one subsample alone.

Trees either split a column by sets of its categories, or read the shares of the classes among the points of a category,
or the mean of their numbers: target statistics; and, of many categories, how many points these are. Those of a training
point must not know its own target: they are computed from other parts of the subsample (D. Micci-Barreca, A
preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explorations 3, 2001; cross-fitted as by
scikit-learn's TargetEncoder). So are the scores of texts, those of a linear model of their words and sequences of
letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _scores
from pacbayes.pools._layout import count_outputs
from pacbayes.rows import TEXT_BITS, TEXT_COLUMNS, CodeBook

# Targets of a subsample: classes numbered from 0, all of which appear, or numbers.
Targets = NDArray[np.intp] | NDArray[np.float64]

# Parts of a subsample, each of which is encoded by the others.
_FOLDS = 5

# Categories of a column whose points are not counted.
_FEW_CATEGORIES = 30

# What stands for the size of a table of the parts of a text, and how many entries it has.
TEXT, N_TEXT_PARTS = -1, TEXT_COLUMNS * TEXT_BITS

# Inverse strength of the penalty of the linear models that score texts, and when their training ends.
_SCORE_C, _SCORE_TOLERANCE, _SCORE_STEPS = 0.5, 1e-2, 100


class _Feature(NamedTuple):
    """A feature that a subsample determines."""

    column: int  # the first of those that it is made from
    table_size: int
    table: Array
    points: Array  # what it is for training points


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """How coded rows of a table become features."""

    columns: NDArray[Any]  # (p,): the column of each feature
    # (p,): number of entries in the table of each feature, 0 for numbers. The first is for unknown categories, the
    # others for those numbered 0, 1, ... Where it is TEXT, they are for parts of the text that begins in the column.
    table_sizes: NDArray[Any]
    tables: Array  # one after another
    n_sets: int = 0  # number of features, the first ones, that trees split by sets of categories

    @classmethod
    def learn(
        cls, X: Array, targets: Targets, book: CodeBook, most_in_sets: int, rng: np.random.Generator
    ) -> tuple[TableEncoding, Array]:
        """Return the encoding that a subsample determines, and its features for training.

        Categories are numbered for trees to split by sets of them where a column has at most so many. Indicators of
        gaps are left out: trees know what is missing.
        """
        sets, statistics, texts = [], [], []
        for column, n_entries in enumerate(entry_counts(book), book.first_category):
            entries = X[:, column].astype(np.intp) + 1
            seen, numbers = np.unique(entries, return_inverse=True)
            if seen.size <= most_in_sets:
                table = np.full(n_entries, np.nan)
                table[seen] = np.arange(seen.size)
                sets.append(_Feature(column, table.size, table, numbers.astype(np.float64)))
            else:
                tables, features = target_statistics(entries, targets, n_entries, rng)
                statistics += [_Feature(column, n_entries, *pair) for pair in zip(tables.T, features.T, strict=True)]
                if seen.size > _FEW_CATEGORIES:  # how far a statistic can be trusted; and what is frequent may be alike
                    counts = np.bincount(entries, minlength=n_entries).astype(np.float64)
                    statistics.append(_Feature(column, n_entries, counts, counts[entries]))
        plain = [_Feature(column, 0, np.empty(0), X[:, column]) for column in range(book.n_numbers)]
        for column in range(book.first_text, book.n_features, TEXT_COLUMNS):
            tables, features = text_scores(X[:, column : column + TEXT_COLUMNS], targets, rng)
            texts += [_Feature(column, TEXT, *pair) for pair in zip(tables.T, features.T, strict=True)]
        everything = [*sets, *plain, *statistics, *texts]
        encoding = cls(
            np.array([feature.column for feature in everything]),
            np.array([feature.table_size for feature in everything]),
            np.concatenate([feature.table for feature in everything]),
            len(sets),
        )
        return encoding, np.column_stack([feature.points for feature in everything])

    def encode(self, X: Array, dtype: Any) -> NDArray[Any]:
        """Return the features of coded rows."""
        features = np.empty((X.shape[0], self.columns.size), dtype=dtype)
        rows = X.astype(np.float64, copy=False)
        _scores.encode(rows, self.columns.astype(np.int32), self.table_sizes.astype(np.int64), self.tables, features)
        return features


def compiled_targets(targets: Targets) -> NDArray[np.int32] | NDArray[np.float64]:
    """Return targets in the types that compiled code takes."""
    return targets.astype(np.float64, copy=False) if targets.dtype.kind == "f" else targets.astype(np.int32)


def entry_counts(book: CodeBook) -> list[int]:
    """Return how many entries a table of each column of categories has: for unknown ones, gaps and known ones."""
    return [len(labels) + 2 for labels in book.categories if labels is not None]


def target_statistics(
    entries: NDArray[np.intp], targets: Targets, n_entries: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return shares of classes, or means, by category, and those of training points by the other parts of a subsample.

    Of two classes, the share of the second is enough. Categories of few points are drawn towards the shares, or the
    mean, in the whole subsample, as TargetEncoder's smooth="auto" does.
    """
    fold = rng.permutation(targets.size) % _FOLDS
    places = fold * n_entries + entries

    def add_up(values: NDArray[Any] | None, chosen: Any = slice(None)) -> NDArray[Any]:
        """Return sums of values, or numbers of points, by part and category."""
        return np.bincount(places[chosen], values, _FOLDS * n_entries).reshape(_FOLDS, n_entries)

    counts, tables, features = add_up(None), [], []
    outputs: list[tuple[NDArray[Any], ...]]
    if targets.dtype.kind == "f":
        outputs = [(add_up(targets), counts, add_up(targets**2))]
    else:
        n_classes = int(targets.max()) + 1
        outputs = [(add_up(None, targets == k), counts) for k in range(1 if n_classes == 2 else 0, n_classes)]
    for parts in outputs:
        whole = [part.sum(axis=0) for part in parts]
        # However the categories are numbered; and of all points, in every part. Means of the others would tell a point
        # whose category nobody else has the opposite of its own target.
        mean = math.fsum(whole[0]) / max(1, targets.size)
        tables.append(_smoothed(mean, *whole))
        others = [_smoothed(mean, *(np.delete(part, k, axis=0).sum(axis=0) for part in parts)) for k in range(_FOLDS)]
        features.append(np.stack(others)[fold, entries])
    return np.column_stack(tables), np.column_stack(features)


def text_scores(X: Array, targets: Targets, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return what parts of a text add to scores of classes, or to numbers, and the scores of training points.

    A linear model is trained on which parts texts have; the score of a training point is by one of the other parts of
    the subsample. Of two classes, one score is enough.
    """
    n_outputs = int(count_outputs(0 if targets.dtype.kind == "f" else int(targets.max()) + 1))
    columns, sizes = np.zeros(n_outputs, dtype=np.int32), np.full(n_outputs, TEXT, dtype=np.int64)

    def train(chosen: NDArray[np.bool_]) -> Array:
        weights, n = np.zeros((N_TEXT_PARTS + 1, n_outputs)), int(np.count_nonzero(chosen))
        nothing = np.empty((n, 0)), np.empty((n, 0), dtype=np.int32)
        arrays = (*nothing, np.ascontiguousarray(X[chosen]), compiled_targets(targets[chosen]))
        _scores.train_linear(*arrays, 1 / (_SCORE_C * n), _SCORE_TOLERANCE, _SCORE_STEPS, weights)
        return weights[:-1]

    fold = rng.permutation(targets.size) % _FOLDS
    features = np.zeros((targets.size, n_outputs))
    for k in range(_FOLDS):
        own = fold == k
        if own.any() and not own.all():
            scores = np.empty((np.count_nonzero(own), n_outputs))
            _scores.encode(np.ascontiguousarray(X[own]), columns, sizes, train(~own).T.ravel(), scores)
            features[own] = scores
    return train(np.ones(targets.size, dtype=bool)), features


def _smoothed(mean: float, sums: NDArray[Any], counts: NDArray[Any], squares: NDArray[Any] | None = None) -> Array:
    """Return means by category, drawn towards that of all points; without sums of squares, points are 0 or 1."""
    own = sums / np.maximum(counts, 1)
    if squares is None:
        variance, within = mean * (1 - mean), own * (1 - own)
    else:
        variance = max(0.0, math.fsum(squares) / max(1, int(counts.sum())) - mean**2)
        within = np.maximum(0.0, squares / np.maximum(counts, 1) - own**2)
    between = variance * counts
    trust = between / np.maximum(between + within, np.finfo(np.float64).tiny)
    return np.asarray(trust * own + (1 - trust) * mean)
