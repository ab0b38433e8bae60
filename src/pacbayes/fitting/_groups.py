"""Groups of rows that a caller declares: who is in which, and how many errors fall on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pacbayes._validation import find_missing
from pacbayes.certificate import MOST_GROUPS, GroupCounts, label_names
from pacbayes.rows import sort_labels

# What can be given.
_EXPECTED = (
    "groups must be one label for each of the {n} rows, or masks of True and False by the names of the groups (a dict "
    "or a data frame)"
)


@dataclass(frozen=True, eq=False)
class Groups:
    """Declared groups of rows."""

    name: str  # what the rows are grouped by, such as the name of a column; empty if it has no name
    labels: tuple[str, ...]
    members: csr_array  # (n, groups): ones where a row is in a group
    overlapping: bool  # whether they were given as masks; labels put every row into one group

    @classmethod
    def of(cls, groups: Any, n: int, X: Any = None) -> Groups:
        """Return the groups of n rows, from labels or masks, or the name of a column of X; raise ValueError for others.

        The groups that labels declare are those that occur, and bounds on them hold given the labels of all rows. Those
        that masks declare are all of these: given the masks of other groups, errors in a group need not be binomial.
        """
        if isinstance(groups, str):
            groups = _take_column(groups, X)
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            keys = list(getattr(groups, "columns", groups))
            labels = _name_groups(np.array(keys, dtype=object))
            masks = [_read_mask(key, groups[key], n) for key in keys]
            return cls("", labels, csr_array(np.stack(masks, axis=1).astype(np.int64)), overlapping=True)
        given = np.asarray(groups)
        if given.shape != (n,):
            raise ValueError(f"{_EXPECTED.format(n=n)}, got shape {given.shape}")
        missing = find_missing(groups)
        if missing.any():
            raise ValueError(
                f"groups must hold a label for every row, got none for {np.count_nonzero(missing)} of {n} rows, first "
                f"row {int(np.argmax(missing))}: give these rows a group of their own"
            )
        if given.dtype.kind == "f" and np.all(given == np.floor(given)) and np.all(np.abs(given) < 2**53):
            given = given.astype(np.int64)  # named without a decimal point
        found, codes = sort_labels(given, "groups")
        members = csr_array((np.ones(n, dtype=np.int64), codes, np.arange(n + 1)), shape=(n, found.size))
        name = getattr(groups, "name", None)
        return cls("" if name is None else str(name)[:200], _name_groups(found), members, overlapping=False)

    def __len__(self) -> int:
        return int(self.members.shape[0])

    def take(self, rows: NDArray[Any]) -> Groups:
        """Return the same groups of some of the rows, by their numbers or by a mask."""
        return replace(self, members=self.members[rows])

    def count(self, wrong: NDArray[np.bool_]) -> GroupCounts:
        """Count errors and rows of each group, given on which rows the predictor errs."""
        points, errors = self.members.sum(axis=0), self.members.T @ wrong.astype(np.int64)
        counts = zip(errors.tolist(), points.tolist(), strict=True)
        return GroupCounts(self.name, self.overlapping, self.labels, tuple(counts))


def _take_column(name: str, X: Any) -> Any:
    """Return a column of a data frame in memory."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "iloc"):
        raise ValueError(
            f"groups must be an array unless X is a data frame in memory, got the name of a column, {name!r}"
        )
    if name not in columns:
        raise ValueError(f"groups must be the name of a column of X or an array, and there is no column {name!r}")
    return X[name]


def _read_mask(key: Any, mask: Any, n: int) -> NDArray[np.bool_]:
    given = np.asarray(mask)
    if given.dtype != bool or given.shape != (n,) or np.ma.is_masked(mask):
        got = "masked ones" if np.ma.is_masked(mask) else f"{given.dtype} of shape {given.shape}"
        raise ValueError(f"groups[{key!r}] must be True or False for each of the {n} rows, got {got}")
    return given


def _name_groups(labels: NDArray[Any]) -> tuple[str, ...]:
    """Return groups as a certificate names them."""
    names = label_names(labels)
    if not names:
        raise ValueError("groups must declare at least one group, got none")
    if len(names) > MOST_GROUPS:
        raise ValueError(
            f"groups must be at most {MOST_GROUPS}, got {len(names)}: each has its share of delta, and few rows"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"groups must have different names in their first 200 characters, got {twice!r} twice")
    return names
