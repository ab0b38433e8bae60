"""Which rows make a vote, and which are held out to test it: drawn without looking at the sample."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.sampling._subsamples import HOLDOUT, derive_entropy, resolve_size, seed_nested, stream

__all__ = ["Split", "split_holdouts"]


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
    if isinstance(holdout, np.ndarray):
        holdout = holdout.tolist()
    if hasattr(holdout, "split"):
        splitter = copy.deepcopy(holdout)
        seed_nested(splitter, stream(entropy, 0, HOLDOUT))
        return [_split(fold, n, derive_entropy(entropy, k)) for k, fold in enumerate(_test_folds(splitter, n))]
    shares: Sequence[Any]
    if isinstance(holdout, Real):
        shares = [holdout]
    elif isinstance(holdout, Sequence) and not isinstance(holdout, str):
        shares = list(holdout)
    else:
        raise ValueError(f"holdout must be None, a share, several, or a splitter, got {holdout!r}")
    if not shares:
        raise ValueError("holdout must name at least one share, got none: give None for no held-out rows")
    splits = []
    for k, share in enumerate(shares):
        size = resolve_size("holdout", share, n)
        drawn = stream(entropy, k, HOLDOUT).permutation(_numbers(n))[:size]
        splits.append(_split(drawn, n, derive_entropy(entropy, k)))
    return splits


def _test_folds(splitter: Any, n: int) -> list[NDArray[Any]]:
    """Return the test folds of a splitter, which is shown no data."""
    try:
        return [test for _, test in splitter.split(np.zeros((n, 1)))]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"holdout cannot be {splitter!r}, which cannot split {n} rows without seeing labels or groups: {error}"
        ) from error


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
