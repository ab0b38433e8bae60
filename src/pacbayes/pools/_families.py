"""Families of hypotheses by name, and the union of them that is fitted by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pacbayes.pools._base import Pool
from pacbayes.pools._learners import BoostingPool, ForestPool, LinearPool
from pacbayes.pools._rbf_svm import RBFSVMPool
from pacbayes.pools._union import UnionPool

# What makes the pool of a family.
FAMILIES: dict[str, Callable[[], Pool]] = {
    "svm": RBFSVMPool,
    "boosting": BoostingPool,
    "forest": ForestPool,
    "linear": LinearPool,
}

DEFAULT_FAMILIES = ("svm", "boosting", "forest", "linear")


def make_union(names: Sequence[str] = DEFAULT_FAMILIES) -> UnionPool:
    """Return the union of families with their default settings; those that cannot take a sample are left out.

    Parameters
    ----------
    names : sequence of str
        Keys of `FAMILIES`.

    Returns
    -------
    UnionPool
        The union.

    Examples
    --------
    >>> [name for name, _ in make_union().families]
    ['svm', 'boosting', 'forest', 'linear']
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise ValueError(f"families must be some of {', '.join(map(repr, FAMILIES))}, got {unknown[0]!r}")
    return UnionPool([(name, FAMILIES[name]()) for name in names], unusable="drop")
