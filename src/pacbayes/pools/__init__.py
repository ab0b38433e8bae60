"""Hypothesis spaces: how hypotheses are trained, validated and asked to vote."""

from pacbayes.pools._base import Constant, HypothesisError, Pool
from pacbayes.pools._estimator import EstimatorPool, PrefitPool
from pacbayes.pools._rbf_svm import GAMMA_GRID, RBFSVM, RBFSVMPool, jaakkola_gamma

__all__ = [
    "GAMMA_GRID",
    "RBFSVM",
    "Constant",
    "EstimatorPool",
    "HypothesisError",
    "Pool",
    "PrefitPool",
    "RBFSVMPool",
    "jaakkola_gamma",
]
