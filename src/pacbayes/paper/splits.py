"""Repeated random splits into training, validation and test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import MinMaxScaler

from pacbayes import datasets
from pacbayes._validation import Array
from pacbayes.paper.tables import SIZES, TITLES, VALIDATION_SIZES
from pacbayes.sampling import subsample_sizes

_GENERATED_ROWS = 1200


@dataclass(frozen=True)
class ExperimentSample:
    """A dataset, scaled to [-1, 1]."""

    name: str  # as in `TITLES`
    X: Array
    y: NDArray[np.intp]  # 0 or 1


@dataclass(frozen=True)
class ExperimentSplit:
    """One random split of a sample into the training set S, the validation set V and the test set T."""

    seed: int  # of the experiments on this split
    X: Array
    y: NDArray[np.intp]
    X_validation: Array  # empty except in the choice of lambda by validation
    y_validation: NDArray[np.intp]
    X_test: Array
    y_test: NDArray[np.intp]

    @property
    def n(self) -> int:
        """Number of training points."""
        return int(self.y.size)

    @property
    def subsample_size(self) -> int:
        """Subsample size r of the main experiments: d + 1, or sqrt(n) for the datasets of three features."""
        return subsample_sizes("paper", self.n, self.X.shape[1])[0]


def load_sample(name: str, data_dir: Any = None) -> ExperimentSample:
    """Load a dataset of the paper or of the quick run, and scale every feature to [-1, 1].

    Features are scaled by their range in the whole file, as in LIBSVM's scaled files; the paper does not say how it
    scaled them. The scale depends on test points, but on no label.
    """
    if name == "breast-cancer-sklearn":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        generated = name == "waveform-generated"
        loaded = (
            datasets.waveform(_GENERATED_ROWS, random_state=0) if generated else datasets.load(name, data_dir=data_dir)
        )
        X, y = loaded.X, loaded.y
    return ExperimentSample(name, MinMaxScaler((-1, 1)).fit_transform(X), np.unique(y, return_inverse=True)[1])


def split(sample: ExperimentSample, number: int, *, with_validation: bool = False) -> ExperimentSplit:
    """Draw split number `number` of a sample, with the sizes of table uci_sizes, or of uci_val for a validation set."""
    sizes = (VALIDATION_SIZES if with_validation else SIZES)[sample.name]
    position = list(TITLES).index(sample.name)
    order = np.random.default_rng([number, position, with_validation]).permutation(sample.y.size)
    *parts, _ = np.split(order, np.cumsum([sizes.train, sizes.validation, sizes.test]))
    arrays: list[Any] = [values[rows] for rows in parts for values in (sample.X, sample.y)]
    return ExperimentSplit(1000 * position + number, *arrays)
