"""Repeated random splits into training, validation and test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler

from pacbayes import datasets
from pacbayes._validation import Array
from pacbayes.paper.tables import SIZES, TITLES, VALIDATION_SIZES, Sizes
from pacbayes.sampling import subsample_sizes

_GENERATED_ROWS = 1200


@dataclass(frozen=True)
class Sample:
    """A dataset, scaled to [-1, 1]."""

    name: str  # as in `TITLES`
    X: Array
    y: NDArray[np.intp]  # 0 or 1


@dataclass(frozen=True)
class Split:
    """One random split of a sample into the training set S, the test set T and the validation set V."""

    X: Array
    y: NDArray[np.intp]
    X_test: Array
    y_test: NDArray[np.intp]
    X_validation: Array  # empty except in the choice of lambda by validation
    y_validation: NDArray[np.intp]
    seed: int  # of the experiments on this split

    @property
    def n(self) -> int:
        """Number of training points."""
        return int(self.y.size)

    @property
    def subsample_size(self) -> int:
        """Subsample size r of the main experiments: d + 1, or sqrt(n) for the datasets of three features."""
        return subsample_sizes("paper", self.n, self.X.shape[1])[0]


def load_sample(name: str, data_dir: Any = None) -> Sample:
    """Load a dataset of the paper or of the quick run, and scale every feature to [-1, 1].

    Features are scaled by their range in the whole file, as in LIBSVM's scaled files; the paper does not say how it
    scaled them. The scale depends on test points, but on no label.
    """
    if name == "waveform-generated":
        generated = datasets.waveform(_GENERATED_ROWS, random_state=0)
        X, y = generated.X, generated.y
    elif name == "breast-cancer-sklearn":
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
    else:
        loaded = datasets.load(name, data_dir=data_dir)
        X, y = loaded.X, loaded.y
    return Sample(name, MinMaxScaler((-1, 1)).fit_transform(X), np.unique(y, return_inverse=True)[1])


def split(sample: Sample, number: int, *, with_validation: bool = False) -> Split:
    """Draw split number `number` of a sample, with the sizes of table uci_sizes, or of uci_val for a validation set."""
    sizes: Sizes = (VALIDATION_SIZES if with_validation else SIZES)[sample.name]
    position = list(TITLES).index(sample.name)
    order = np.random.default_rng([number, position, with_validation]).permutation(sample.y.size)
    train, validation, test, _ = np.split(order, np.cumsum([sizes.train, sizes.validation, sizes.test]))
    return Split(
        sample.X[train],
        sample.y[train],
        sample.X[test],
        sample.y[test],
        sample.X[validation],
        sample.y[validation],
        seed=1000 * position + number,
    )
