"""Repeated random splits into training, validation and test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes import datasets
from pacbayes._validation import Array
from pacbayes.paper.tables import SIZES, TITLES, VALIDATION_SIZES, Sizes

_GENERATED_ROWS = 1200


@dataclass(frozen=True)
class Sample:
    """A dataset, scaled to [-1, 1].

    Attributes
    ----------
    name : str
        Its name in `TITLES`.
    X : ndarray of shape (rows, d)
        Features.
    y : ndarray of shape (rows,)
        Labels, 0 or 1.
    """

    name: str
    X: Array
    y: NDArray[np.intp]

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


@dataclass(frozen=True)
class Split:
    """One random split of a sample.

    Attributes
    ----------
    X, y : ndarray
        The training set S.
    X_test, y_test : ndarray
        The test set T.
    X_validation, y_validation : ndarray
        The validation set V, empty but for the choice of lambda by validation.
    seed : int
        Seed for all that is random in the experiments on it.
    """

    X: Array
    y: NDArray[np.intp]
    X_test: Array
    y_test: NDArray[np.intp]
    X_validation: Array
    y_validation: NDArray[np.intp]
    seed: int


def load_sample(name: str, data_dir: Any = None) -> Sample:
    """One of the paper's datasets, or a stand-in of the quick run, with every feature scaled to [-1, 1].

    Scaling is by the range in the whole file, as in LIBSVM's scaled files. The paper does not say how it scaled. It
    looks at test points, but at no label.
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
    return Sample(name, datasets.scale_to_unit_range(X), np.unique(y, return_inverse=True)[1])


def split(sample: Sample, number: int, *, with_validation: bool = False) -> Split:
    """Split number `number` of a sample, at the sizes of table uci_sizes, or of uci_val with a validation set."""
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
