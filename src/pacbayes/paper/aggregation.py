"""PAC-Bayesian aggregation of weak SVMs as in the paper's experiments: the first m hypotheses of one pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacbayes import PACBayesClassifier
from pacbayes._validation import Array
from pacbayes.bounds import pac_bayes_kl
from pacbayes.paper.splits import ExperimentSplit
from pacbayes.paper.tables import DELTA, C
from pacbayes.pools import GAMMA_GRID, RBFSVMPool
from pacbayes.posterior import PosteriorResult, minimize_lambda_bound
from pacbayes.votes import weighted_vote


def paper_classifier(m: int, r: int, seed: int, n_jobs: int | None) -> PACBayesClassifier:
    """Make a classifier with the paper's settings: m SVMs on r points each, kernel widths from the whole sample."""
    pool = RBFSVMPool(C=C, gamma_source="sample", gamma_grid=tuple(GAMMA_GRID), scaler=None, assignment="drawn")
    # All losses are wanted: no hypothesis is dropped.
    return PACBayesClassifier(
        pool,
        n_hypotheses=m,
        subsample_size=r,
        delta=DELTA,
        holdout=None,
        racing=False,
        n_jobs=n_jobs,
        random_state=seed,
    )


class Aggregation:
    """A pool of m weak SVMs, trained on r points each and validated on one split, with its votes on the test set.

    Hypothesis h does not depend on the number of the others, so the first m of a large pool are a pool of m.
    """

    def __init__(self, split: ExperimentSplit, m: int, r: int, n_jobs: int | None) -> None:
        self.split = split
        self.model = paper_classifier(m, r, split.seed, n_jobs).fit(split.X, split.y)
        self.losses = self.model.losses_
        self.n_validation = split.y.size - r
        self.votes = self.model.predict_hypotheses(split.X_test)

    def posterior(self, m: int) -> PosteriorResult:
        """Weight the first m hypotheses by alternating minimisation of the bound (Theorem PBaggregation)."""
        return minimize_lambda_bound(self.losses[:m], self.n_validation, delta=DELTA)

    def vote_loss(self, rho: Array, votes: NDArray[np.intp] | None = None, y: NDArray[np.intp] | None = None) -> float:
        """Compute the loss of the rho-weighted vote of the first hypotheses, by default on the test set."""
        votes = self.votes if votes is None else votes
        y = self.split.y_test if y is None else y
        return float(np.mean(weighted_vote(votes[: rho.size], rho, 2) != y))

    def evaluate(self, m: int) -> dict[str, float]:
        """Weight the first m hypotheses, and return their losses on the test set and the PAC-Bayes-kl bound."""
        posterior = self.posterior(m)
        losses = np.mean(self.votes[:m] != self.split.y_test, axis=1)
        return {
            "vote": self.vote_loss(posterior.rho),
            "uniform": self.vote_loss(np.full(m, 1 / m)),
            "best": float(losses[np.argmin(self.losses[:m])]),
            "randomised": float(posterior.rho @ losses),  # which the bound is on
            "bound": float(pac_bayes_kl(posterior.loss, posterior.kl_div, self.n_validation, DELTA)),
        }


def grid(first: int, last: int, count: int) -> list[int]:
    """Return up to `count` evenly spaced whole numbers from `first` to `last`."""
    return sorted({round(number) for number in np.linspace(first, last, count).tolist()})
