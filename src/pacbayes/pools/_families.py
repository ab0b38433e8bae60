"""Families of hypotheses by name, and the union of them that is fitted by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pacbayes.pools._base import Pool, VoteBy
from pacbayes.pools._categories import N_HYPOTHESES, SHARE, CategoricalPool
from pacbayes.pools._learners import BoostingPool, ForestPool, LinearPool
from pacbayes.pools._rbf_ridge import RBFRidgePool
from pacbayes.pools._rbf_svm import RBFSVMPool
from pacbayes.pools._tabpfn import TabPFNPool
from pacbayes.pools._union import UnionPool

# Share of the rows that regressions are trained on.
_NUMERIC_SHARE = 0.8


def _lightgbm(numeric: bool = False) -> Pool:
    from lightgbm import LGBMClassifier, LGBMRegressor

    fixed: dict[str, Any] = {"n_estimators": 200, "learning_rate": 0.05, "num_leaves": 15, "n_jobs": 1, "verbose": -1}
    drawn = {"num_leaves": [7, 15, 31], "learning_rate": [0.05, 0.1], "colsample_bytree": [0.5, 1.0]}
    return _library_pool((LGBMRegressor if numeric else LGBMClassifier)(**fixed), drawn, numeric)


def _catboost(numeric: bool = False) -> Pool:
    from catboost import CatBoostClassifier, CatBoostRegressor

    # It knows those parameters alone that it is given.
    drawn = {"depth": [4, 6], "learning_rate": [0.05, 0.1]}
    fixed = {"iterations": 300, "thread_count": 1, "verbose": 0, "allow_writing_files": False, "random_state": 0}
    learner = (CatBoostRegressor if numeric else CatBoostClassifier)(**fixed, depth=6, learning_rate=0.05)
    return _library_pool(learner, drawn, numeric)


def _tabpfn(numeric: bool = False) -> Pool:
    import torch
    from tabpfn import TabPFNClassifier, TabPFNRegressor

    # What a row's company rounds differently must not change its prediction: mixed precision has three digits, and of
    # the fingerprint, a hash that TabPFN adds to the features, rounding changes every digit.
    fixed: dict[str, Any] = {"inference_precision": torch.float32, "inference_config": {"FINGERPRINT_FEATURE": False}}
    vote_by: VoteBy = "labels" if numeric else "probabilities"
    return TabPFNPool((TabPFNRegressor if numeric else TabPFNClassifier)(**fixed), vote_by=vote_by)


def _library_pool(learner: Any, drawn: Mapping[str, Any], numeric: bool) -> CategoricalPool:
    sampling: dict[str, Any] = {"n_hypotheses": N_HYPOTHESES, "subsample_size": SHARE}
    vote_by: VoteBy = "labels" if numeric else "probabilities"
    return CategoricalPool(learner, param_distributions=drawn, vote_by=vote_by, **sampling)


# What makes the pool of a family that predicts classes.
FAMILIES: dict[str, Callable[[], Pool]] = {
    "svm": RBFSVMPool,
    "boosting": BoostingPool,
    "forest": ForestPool,
    "linear": LinearPool,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "tabpfn": _tabpfn,
}

# In the order in which they are trained: the race drops SVMs, the many, that lose to others.
DEFAULT_FAMILIES = ("boosting", "forest", "linear", "svm")

# What makes the pool of a family that predicts numbers, and those that are in the union by default. Settings that
# hypotheses take in turn were measured on 31 regression problems: each is the best on some of them. More rows are left
# outside subsamples than for classes, since weights tell regressions apart by their losses there, and two hypotheses of
# a setting are better than one; boosted trees have more settings instead.
NUMERIC_FAMILIES: dict[str, Callable[[], Pool]] = {
    "boosting": partial(
        BoostingPool,
        kind="leafwise",
        max_samples=1.0,
        random_strength=0.0,
        learning_rate=(0.1, 0.05, 0.05, 0.05, 0.05, 0.1),
        max_iter=(500, 800, 800, 800, 1000, 120),
        max_leaf_nodes=(15, 15, 15, 7, 31, 15),
        min_samples_leaf=1,
        max_features=(0.5, 0.5, 0.5, 1.0, 0.5, 1.0),
        l2_regularization=(3.0, 10.0, 10.0, 10.0, 10.0, 1.0),
        loss=("squared", "squared", "huber", "squared", "squared", "squared"),
        n_hypotheses=6,
        subsample_size=_NUMERIC_SHARE,
    ),
    "forest": partial(
        ForestPool,
        n_estimators=60,
        max_features=1.0,
        min_samples_leaf=(1, 3),
        n_hypotheses=4,
        subsample_size=_NUMERIC_SHARE,
    ),
    "linear": partial(
        LinearPool,
        C=(1.0, 10.0, 1.0, 10.0),
        splines=(False, False, True, True),
        n_hypotheses=8,
        subsample_size=_NUMERIC_SHARE,
    ),
    "ridge": partial(
        RBFRidgePool,
        ridge=(1e-5, 3e-4, 0.01, 0.1),
        gamma_grid=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        on_error="drop",
        n_hypotheses=24,
    ),
    "lightgbm": partial(_lightgbm, numeric=True),
    "catboost": partial(_catboost, numeric=True),
    "tabpfn": partial(_tabpfn, numeric=True),
}
DEFAULT_NUMERIC_FAMILIES = ("boosting", "forest", "linear", "ridge")


# Those of which classes may weigh the same.
BALANCED_FAMILIES = ("boosting", "forest", "linear", "svm")


def make_union(
    names: Sequence[str] | None = None, *, class_weight: Literal["balanced"] | None = None, numeric: bool = False
) -> UnionPool:
    """Return the union of families with their default settings; those that cannot take a sample are left out.

    Parameters
    ----------
    names : sequence of str, optional
        Keys of `FAMILIES`, or of `NUMERIC_FAMILIES`; `DEFAULT_FAMILIES` or `DEFAULT_NUMERIC_FAMILIES` by default.
    class_weight : {"balanced"} or None, default=None
        As in `BoostingPool` and `RBFSVMPool`; with "balanced", no families of other packages.
    numeric : bool, default=False
        Whether numbers are predicted, rather than classes.

    Returns
    -------
    UnionPool
        The union.

    Examples
    --------
    >>> [name for name, _ in make_union().families]
    ['boosting', 'forest', 'linear', 'svm']
    """
    families = NUMERIC_FAMILIES if numeric else FAMILIES
    if names is None:
        names = DEFAULT_NUMERIC_FAMILIES if numeric else DEFAULT_FAMILIES
    unknown = [name for name in names if name not in families]
    if unknown:
        raise ValueError(f"families must be some of {', '.join(map(repr, families))}, got {unknown[0]!r}")
    unbalanced = [name for name in names if class_weight is not None and name not in BALANCED_FAMILIES]
    if unbalanced:
        can = ", ".join(map(repr, BALANCED_FAMILIES))
        raise ValueError(f"families must be some of {can} with class_weight={class_weight!r}, got {unbalanced[0]!r}")
    pools: list[tuple[str, Pool]] = []
    for name in names:
        try:
            pools.append((name, families[name]()))
        except ImportError as error:
            raise ImportError(f"the family {name!r} needs another package: pip install {name}") from error
        if class_weight is not None:
            pools[-1][1].set_params(class_weight=class_weight)
    return UnionPool(pools, weights=[2.0 if name == "svm" else 1.0 for name in names], unusable="drop")
