"""Hypothesis spaces: how hypotheses are trained, validated and asked to vote."""

from typing import Any

from pacbayes.pools._base import Constant, Hypotheses, HypothesisList, Numbers, Pool, Sample, ValidationBlock
from pacbayes.pools._categories import CategoricalPool
from pacbayes.pools._device import keep_device, release, to_host
from pacbayes.pools._estimator import EstimatorPool, PrefitPool
from pacbayes.pools._families import DEFAULT_FAMILIES, DEFAULT_NUMERIC_FAMILIES, FAMILIES, NUMERIC_FAMILIES, make_union
from pacbayes.pools._groups import HypothesisGroups, NotTrained, Untrained, join_families, with_untrained
from pacbayes.pools._learners import BoostingPool, ForestPool, LearnerPool, LinearPool
from pacbayes.pools._linear_models import LinearArrays, LinearModels
from pacbayes.pools._probe import probe_hypotheses
from pacbayes.pools._rbf_ridge import RBFRidge, RBFRidgePool, RBFRidges
from pacbayes.pools._rbf_svm import GAMMA_GRID, RBFSVM, RBFSVMPool, RBFSVMs, jaakkola_gamma
from pacbayes.pools._score_models import ScoreModel, ScoreModels
from pacbayes.pools._tabpfn import TabPFNPool
from pacbayes.pools._tree_ensembles import TreeArrays, TreeEnsembles
from pacbayes.pools._union import UnionPool
from pacbayes.rows import CodeBook

__all__ = [
    "DEFAULT_FAMILIES",
    "DEFAULT_NUMERIC_FAMILIES",
    "FAMILIES",
    "GAMMA_GRID",
    "NUMERIC_FAMILIES",
    "RBFSVM",
    "BoostingPool",
    "CategoricalPool",
    "CodeBook",
    "Constant",
    "EstimatorPool",
    "ForestPool",
    "Hypotheses",
    "HypothesisGroups",
    "HypothesisList",
    "LearnerPool",
    "LinearArrays",
    "LinearModels",
    "LinearPool",
    "NotTrained",
    "Numbers",
    "Pool",
    "PrefitPool",
    "RBFRidge",
    "RBFRidgePool",
    "RBFRidges",
    "RBFSVMPool",
    "RBFSVMs",
    "Sample",
    "ScoreModel",
    "ScoreModels",
    "TabPFNPool",
    "TreeArrays",
    "TreeEnsembles",
    "UnionPool",
    "Untrained",
    "ValidationBlock",
    "as_pool",
    "jaakkola_gamma",
    "join_families",
    "keep_device",
    "make_union",
    "probe_hypotheses",
    "release",
    "to_host",
    "with_untrained",
]


def as_pool(estimator: Any) -> Pool:
    """Return the pool that the `estimator` parameter of `PACBayesClassifier` stands for.

    A pool is returned as it is; a classifier becomes an `EstimatorPool`, a list or tuple of fitted ones a `PrefitPool`,
    and None the union of `DEFAULT_FAMILIES`.
    """
    if estimator is None:
        return make_union()
    if isinstance(estimator, Pool):
        return estimator
    if isinstance(estimator, (list, tuple)):
        return PrefitPool(estimator)
    return EstimatorPool(estimator)
