r"""Which points train each hypothesis: index sets, label-blind by construction.

Theorem PBaggregation holds because the training set S_h of each hypothesis is selected independently of the
composition of S: nothing here is ever given data, only its size n. A subsample may turn out to hold one class only;
redrawing it would make the selection depend on labels and break the theorem.

Hypothesis h has random streams of its own, spawned from one seed: its subsample does not depend on how many other
hypotheses there are, nor on which worker draws it, and is drawn again when it is needed rather than stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FoldSubsamples",
    "GivenSubsamples",
    "NoSubsamples",
    "RandomSubsamples",
    "Subsamples",
    "reserve",
    "stream",
]

# What a hypothesis's streams are for, by spawn key.
SUBSAMPLE, LEARNER = 0, 1

# Spawn key of the stream that belongs to no hypothesis.
RESERVE = 0


def stream(entropy: int, hypothesis: int, purpose: int) -> np.random.Generator:
    """Return the random stream of one hypothesis for one purpose."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(hypothesis, purpose)))


class Subsamples(ABC):
    """Training sets S_0, S_1, ... of the hypotheses, as sorted arrays of row numbers below n.

    Attributes
    ----------
    n : int
        Sample size.
    sizes : ndarray of shape (m,)
        Number r of training points of each hypothesis; it is validated on the other n - r.
    """

    n: int
    sizes: NDArray[np.intp]

    def __len__(self) -> int:
        return self.sizes.size

    @abstractmethod
    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        """Return the training set of one hypothesis."""

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        return (self[h] for h in range(len(self)))

    @property
    def n_validation(self) -> NDArray[np.intp]:
        """Number n - r of validation points of each hypothesis."""
        return self.n - self.sizes

    def _check_validation(self) -> None:
        """Refuse subsamples that train on nothing or leave nothing to validate on."""
        if self.sizes.size == 0:
            raise ValueError("there must be at least one subsample, got none")
        if self.sizes.min() < 1:
            raise ValueError(f"subsamples must hold at least 1 point, got a size of {self.sizes.min()}")
        if self.sizes.max() >= self.n:
            raise ValueError(
                f"subsamples must leave points to validate on: sizes must be below n = {self.n}, got {self.sizes.max()}"
            )


class RandomSubsamples(Subsamples):
    """Subsamples drawn uniformly without replacement, the paper's construction.

    Parameters
    ----------
    n : int
        Sample size.
    sizes : sequence of int
        Sizes that the hypotheses take in turn: hypothesis h has ``sizes[h % len(sizes)]`` points.
    m : int
        Number of hypotheses.
    entropy : int
        Seed of all streams.

    Examples
    --------
    >>> subsamples = RandomSubsamples(n=10, sizes=[2, 4], m=3, entropy=0)
    >>> [s.tolist() for s in subsamples]
    [[0, 5], [3, 4, 7, 8], [0, 2]]
    >>> RandomSubsamples(n=10, sizes=[2, 4], m=1000, entropy=0)[2].tolist()
    [0, 2]
    """

    def __init__(self, n: int, sizes: Sequence[int], m: int, entropy: int) -> None:
        self.n = n
        self.entropy = entropy
        self.sizes = np.resize(np.asarray(sizes, dtype=np.intp), m)
        self._check_validation()

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        rng = stream(self.entropy, hypothesis, SUBSAMPLE)
        drawn = rng.choice(self.n, size=self.sizes[hypothesis], replace=False, shuffle=False)
        return np.sort(drawn).astype(np.intp)


class NoSubsamples(Subsamples):
    """Hypotheses that were trained elsewhere: every point validates.

    Parameters
    ----------
    n : int
        Sample size.
    m : int
        Number of hypotheses.
    """

    def __init__(self, n: int, m: int) -> None:
        self.n = n
        self.sizes = np.zeros(m, dtype=np.intp)

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        return np.empty(0, dtype=np.intp)


class GivenSubsamples(Subsamples):
    """Index sets chosen by the caller, who vouches that no label or feature was looked at.

    Parameters
    ----------
    n : int
        Sample size.
    index_sets : iterable of array_like of int
        Row numbers of each hypothesis's training set, without repetition.

    Examples
    --------
    >>> GivenSubsamples(5, [[3, 0], [4]])[0].tolist()
    [0, 3]
    """

    def __init__(self, n: int, index_sets: Sequence[ArrayLike]) -> None:
        self.n = n
        self._index_sets = [self._checked(h, index_set) for h, index_set in enumerate(index_sets)]
        self.sizes = np.array([s.size for s in self._index_sets], dtype=np.intp)
        self._check_validation()

    def _checked(self, hypothesis: int, index_set: ArrayLike) -> NDArray[np.intp]:
        indices = np.asarray(index_set)
        if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                f"index set {hypothesis} must be a one-dimensional array of whole numbers, "
                f"got {indices.dtype} of shape {indices.shape}"
            )
        outside = (indices < 0) | (indices >= self.n)
        if outside.any():
            raise ValueError(
                f"index set {hypothesis} must hold row numbers from 0 to {self.n - 1}, got {indices[outside][0]}"
            )
        ordered = np.unique(indices).astype(np.intp)
        if ordered.size < indices.size:
            raise ValueError(f"index set {hypothesis} must not repeat a row number")
        return ordered

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        return self._index_sets[hypothesis]


class FoldSubsamples(GivenSubsamples):
    """Training folds of a scikit-learn splitter: the models of a cross-validation, aggregated.

    The splitter is shown n rows of zeros and no labels, so a stratified or grouped one cannot be used.

    Parameters
    ----------
    n : int
        Sample size.
    splitter : scikit-learn splitter
        `KFold`, `RepeatedKFold`, `ShuffleSplit` or any other whose `split` needs no labels.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> [s.tolist() for s in FoldSubsamples(4, KFold(2))]
    [[2, 3], [0, 1]]
    """

    def __init__(self, n: int, splitter: Any) -> None:
        try:
            folds = [train for train, _ in splitter.split(np.zeros((n, 1)))]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{splitter!r} cannot split {n} rows without seeing labels or groups, and subsamples must be "
                f"chosen without them: {error}"
            ) from error
        super().__init__(n, folds)


def reserve(n: int, size: int, entropy: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Set points aside for choices that shape all hypotheses: their rows, and the rows that are left.

    Examples
    --------
    >>> reserved, rest = reserve(n=10, size=2, entropy=0)
    >>> reserved.size, rest.size, np.intersect1d(reserved, rest).size
    (2, 8, 0)
    """
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(RESERVE,)))
    order = rng.permutation(n)
    return np.sort(order[:size]), np.sort(order[size:])
