"""Which rows make a vote, and which are held out to test it: drawn without looking at the sample."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from pacbayes._settings import is_several
from pacbayes._validation import as_real_array
from pacbayes.sampling._subsamples import HOLDOUT, derive_entropy, resolve_size, seed_nested, split_blindly, stream


class Partition(BaseEstimator):  # type: ignore[misc]
    """Held-out rows of competing votes that have no row in common: parts of the sample, divided at random.

    Votes whose held-out rows are drawn each on their own have many in common, and good or bad luck with it. The
    smallest of their bounds is larger on average than that of votes that are tested on different rows.

    Parameters
    ----------
    shares : sequence of float, default=(0.5, 0.25, 0.25)
        The share of the rows that each vote holds out; at most 1 together.
    random_state : int or None, default=None
        Seed; None draws it from that of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> [held_out.tolist() for _, held_out in Partition((0.5, 0.3), random_state=0).split(np.zeros((10, 1)))]
    [[2, 8, 4, 9, 1], [6, 7, 3]]
    """

    def __init__(self, shares: Sequence[float] = (0.5, 0.25, 0.25), *, random_state: int | None = None) -> None:
        self.shares = shares
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of parts."""
        return len(self.shares)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each part, the numbers of the rows outside and of those inside; only that of all rows is used."""
        expected = "positive and at most 1 together"
        shares = as_real_array("shares", self.shares, expected)
        if not (shares.ndim == 1 and shares.size and np.all(shares > 0) and shares.sum() <= 1 + 1e-9):
            raise ValueError(f"shares must be {expected}, got {self.shares!r}")
        n = len(X)
        order = check_random_state(self.random_state).permutation(_numbers(n))
        # No less than a row each; thirds that add up to less than one are thirds.
        ends = np.cumsum(np.maximum(1, np.floor(shares * n + 1e-9).astype(np.intp)))
        if ends[-1] > n:
            raise ValueError(f"{n} rows cannot be divided into {shares.size} parts")
        for part in np.split(order, ends)[:-1]:
            yield np.setdiff1d(order, part), part


@dataclass(frozen=True)
class Split:
    """Rows that make a vote, and rows that test it."""

    rows: NDArray[Any] | None  # hypotheses are trained and weighted on these; None for all
    held_out: NDArray[Any] | None  # used for nothing but the test
    entropy: int  # seed of all that is random in making the vote

    def take_rows(self, sample: Any) -> Any:
        """Return the rows of a sample that make the vote."""
        return sample if self.rows is None else sample.take(self.rows)


def split_holdouts(holdout: Any, n: int, entropy: int) -> list[Split]:
    """Draw the held-out rows of each competing vote, without looking at the sample."""
    if holdout is None:
        return [Split(None, None, entropy)]
    if hasattr(holdout, "split"):
        splitter = copy.deepcopy(holdout)
        seed_nested(splitter, stream(entropy, 0, HOLDOUT))
        folds = [np.asarray(held_out) for _, held_out in split_blindly("holdout", splitter, n)]
        if not folds:
            raise ValueError(f"holdout must hold out at least one fold, got none of {holdout!r}")
        for fold in folds:
            if fold.size and not (fold.dtype.kind in "iu" and fold.min() >= 0 and fold.max() < n):
                raise ValueError(f"holdout must give row numbers from 0 to {n - 1}, got {fold!r} of {splitter!r}")
        return [_split(fold.astype(np.intp), n, derive_entropy(entropy, k)) for k, fold in enumerate(folds)]
    shares = list(holdout) if is_several(holdout) else [holdout]
    if not shares:
        raise ValueError("holdout must name at least one share, got none: give None for no held-out rows")
    splits = []
    for k, share in enumerate(shares):
        size = resolve_size("holdout", share, n)
        drawn = stream(entropy, k, HOLDOUT).permutation(_numbers(n))[:size]
        splits.append(_split(drawn, n, derive_entropy(entropy, k)))
    return splits


def _numbers(n: int) -> NDArray[Any]:
    # In four bytes each: they are kept with the vote, and there may be many.
    return np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)


def _split(held_out: NDArray[Any], n: int, entropy: int) -> Split:
    numbers, is_held_out = _numbers(n), np.zeros(n, dtype=bool)
    is_held_out[held_out] = True
    size = int(np.count_nonzero(is_held_out))
    if size < 1 or n - size < 2:
        wanted = f"leave at least 2 of the {n} rows to train and validate on" if size else "hold out at least one row"
        raise ValueError(f"holdout must {wanted}, got {size}")
    return Split(numbers[~is_held_out], numbers[is_held_out], entropy)
