"""The experiments of the paper: one function each, of a split, the workers and the number of values on a grid.

The baseline is an RBF-SVM tuned by cross-validation: five folds, log10 C from -3 to 3, and five kernel widths around
Jaakkola's seed; the best pair is then trained on the whole training set. Its training time includes all of this.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pacbayes.bounds import majority_vote, pac_bayes_kl
from pacbayes.paper.aggregation import Aggregation, grid, paper_classifier
from pacbayes.paper.splits import ExperimentSplit
from pacbayes.paper.tables import DELTA
from pacbayes.pools import GAMMA_GRID, jaakkola_gamma
from pacbayes.posterior import (
    gibbs_posterior,
    lambda_bound,
    lambda_bound_derivatives,
    minimize_direct_bound,
    minimize_lambda_bound,
)
from pacbayes.quasiconvexity import THEOREM_VAR_CONDITIONS, check_quasiconvexity
from pacbayes.votes import count_half_mass

__all__ = ["EXPERIMENTS", "Experiment", "cross_validated_svm"]

Result = dict[str, Any]

# Steps of m until a condition of quasiconvexity fails, and values of lambda: of F, and to choose from by validation.
_STEP = 10
_LAMBDAS = np.linspace(0.02, 1.0, 99)
_CANDIDATES = np.linspace(0.05, 1.9, 9)


def cross_validated_svm(X: Any, y: Any, n_jobs: int | None = None, svc: Any = SVC) -> GridSearchCV:
    """Fit the baseline with scikit-learn's SVC, or with another class of the same interface."""
    grid = {"C": 10.0 ** np.arange(-3, 4), "gamma": jaakkola_gamma(X, y) * GAMMA_GRID}
    return GridSearchCV(svc(), grid, cv=5, n_jobs=n_jobs).fit(X, y)


def run_baseline(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute test loss, selected parameters and training time of the baseline."""
    start = time.perf_counter()
    search = cross_validated_svm(split.X, split.y, n_jobs)
    seconds = time.perf_counter() - start
    return {
        "loss": 1 - float(search.score(split.X_test, split.y_test)),
        "C": float(search.best_params_["C"]),
        "gamma": float(search.best_params_["gamma"]),
        "seconds": seconds,
    }


def run_accuracy(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute the test loss of the weighted vote for up to `values` values of m in [1, n] and of r in [2, d + 1]."""
    ms, rs = grid(1, split.n, values), grid(2, split.subsample_size, values)
    pools = (Aggregation(split, split.n, r, n_jobs) for r in rs)
    losses = [[pool.vote_loss(pool.posterior(m).rho) for m in ms] for pool in pools]
    return {"m": ms, "r": rs, "loss": losses}


def run_runtime(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Train a new pool for up to `values` values of m in [1, n]; the time is that of the whole fit."""
    r = split.subsample_size
    ms = grid(1, split.n, values)
    votes, bounds, seconds = [], [], []
    for m in ms:
        model = paper_classifier(m, r, split.seed, n_jobs)
        start = time.perf_counter()
        model.fit(split.X, split.y)
        seconds.append(time.perf_counter() - start)
        votes.append(1 - float(model.score(split.X_test, split.y_test)))
        certificate = model.certificate_
        # The paper's bound, which is not the smallest that the certificate states.
        figures = (certificate.empirical_loss, certificate.kl_div, certificate.n_validation)
        bounds.append(float(pac_bayes_kl(*figures, certificate.delta)))
    return {"r": r, "m": ms, "vote": votes, "bound": bounds, "seconds": seconds}


def run_weighting(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute test losses and bound of the first m hypotheses, for up to `values` values of m in [1, n]."""
    pool, ms = Aggregation(split, split.n, split.subsample_size, n_jobs), grid(1, split.n, values)
    metrics = [pool.evaluate(m) for m in ms]
    series = {name: [of_m[name] for of_m in metrics] for name in ("vote", "uniform", "best", "bound")}
    return {"r": split.subsample_size, "m": ms, **series}


def run_quasiconvexity(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Find the largest m, up to n, before the first failure of Theorem var and of all conditions.

    Theorem var is taken with tuned intervals and the refined b. Theorem global-min for all lambda is one of all
    conditions.
    """
    n = split.n
    pool = Aggregation(split, n, split.subsample_size, n_jobs)
    # F is quasiconvex for m <= K(0,0) + 1 whatever the losses, and the paper reports no less.
    floor = math.floor(math.e**2 / 4 * math.log(4 * pool.n_validation / DELTA**2)) + 1
    theorem_var = stronger = floor
    by_theorem_var = True
    for m in range(_STEP, n + 1, _STEP):
        report = check_quasiconvexity(pool.losses[:m], pool.n_validation, delta=DELTA)
        if not report.guaranteed:
            break
        stronger = max(m, floor)
        by_theorem_var = by_theorem_var and any(report.details[name].holds for name in THEOREM_VAR_CONDITIONS)
        if by_theorem_var:
            theorem_var = max(m, floor)
    return {"theorem_var": theorem_var, "stronger": stronger, "floor": floor, "largest": n}


def run_f_lambda(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute F on a grid and both minima, and check whether F is convex and quasiconvex on the grid."""
    pool = Aggregation(split, split.n, split.subsample_size, n_jobs)
    losses, n_validation = pool.losses, pool.n_validation
    slope, curvature = lambda_bound_derivatives(losses, _LAMBDAS, n_validation, DELTA)
    alternating = pool.posterior(split.n)
    best = minimize_lambda_bound(losses, n_validation, delta=DELTA, method="global")
    report = check_quasiconvexity(losses, n_validation, delta=DELTA)
    return {
        "lam": _LAMBDAS.tolist(),
        "F": lambda_bound(losses, _LAMBDAS, n_validation, DELTA).tolist(),
        "lam_alternating": float(alternating.lam),
        "F_alternating": float(alternating.fun),
        "lam_global": float(best.lam),
        "F_global": float(best.fun),
        "convex": bool(np.all(curvature > 0)),
        # Once F rises it does not fall again.
        "quasiconvex": bool(np.all(np.diff(np.sign(slope)) >= 0)),
        "guaranteed": bool(report.guaranteed),
        "condition": report.condition,
    }


def run_validation(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute the test losses of lambda by the bound, and by a validation set, which the bound does not need."""
    pool = Aggregation(split, split.n, split.subsample_size, n_jobs)
    direct = pool.posterior(split.n)
    votes = pool.model.predict_hypotheses(split.X_validation)
    weights = [gibbs_posterior(pool.losses, lam, pool.n_validation) for lam in _CANDIDATES]
    chosen = int(np.argmin([pool.vote_loss(rho, votes, split.y_validation) for rho in weights]))
    return {
        "direct": pool.vote_loss(direct.rho),
        "validate": pool.vote_loss(weights[chosen]),
        "lam_direct": float(direct.lam),
        "lam_validate": float(_CANDIDATES[chosen]),
    }


def run_comparison(split: ExperimentSplit, n_jobs: int | None, values: int) -> Result:
    """Compute test losses, bounds and the number of hypotheses that hold half of the posterior mass, at m = n."""
    pool = Aggregation(split, split.n, split.subsample_size, n_jobs)
    metrics = pool.evaluate(split.n)
    return {
        "r": split.subsample_size,
        "m": split.n,
        **{name: metrics[name] for name in ("vote", "randomised", "best", "bound")},
        "vote_bound": float(majority_vote(metrics["bound"])),
        "direct_bound": minimize_direct_bound(pool.losses, pool.n_validation, delta=DELTA).fun,
        "half_mass": count_half_mass(pool.posterior(split.n).rho),
        "n_validation": pool.n_validation,
    }


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    title: str  # its subject, for a progress bar
    shown_in: str  # where the paper shows it
    run: Callable[[ExperimentSplit, int | None, int], Result]  # ``run(split, n_jobs, values)``
    cost: float = 1.0  # time of a unit, as a multiple of that of training one pool of n hypotheses
    more_splits: bool = False  # whether the paper repeats it 10 times instead of 5
    with_validation: bool = False  # whether its splits have a validation set (table uci_val)


EXPERIMENTS = {
    "baseline": Experiment(
        "cross-validated SVM", "the cross-validated SVM that everything is compared with", run_baseline, cost=20
    ),
    "accuracy": Experiment("loss of the vote over m and r", "figures 1 and 4", run_accuracy, cost=12),
    "runtime": Experiment("loss, bound and time over m", "figures 2 and 5", run_runtime, cost=11),
    "weighting": Experiment("weighted and uniform vote over m", "figures 6 and 7", run_weighting),
    "quasiconvexity": Experiment(
        "largest m with guaranteed quasiconvexity", "table 2", run_quasiconvexity, cost=4, more_splits=True
    ),
    "f_lambda": Experiment("shape of F(lambda)", "figure 3", run_f_lambda),
    "validation": Experiment("lambda by the bound or by validation", "figure 8", run_validation, with_validation=True),
    "comparison": Experiment("vote, randomised classifier, best hypothesis", "figure 9 and table 4", run_comparison),
}
