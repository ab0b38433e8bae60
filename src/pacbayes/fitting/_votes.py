"""Weighted pools of hypotheses, each tested on rows that were held out, and what a fit of several of them comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.fitting._training import Trained
from pacbayes.pools import Hypotheses, Pool, as_pool
from pacbayes.rows import CodeBook, ColumnRanges, TrainingRows
from pacbayes.sampling import Split, Subsamples
from pacbayes.tasks import Task


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What a fit is asked to do: parameters of `PACBayesClassifier` by their names.

    `n_candidates` classifiers with different settings, decided on beforehand, share `delta`.
    """

    estimator: Any = None
    n_hypotheses: Any = "auto"
    subsample_size: Any = "auto"
    subsamples: Any = None
    delta: float = 0.05
    objective: Any = "auto"
    voting: Any = "majority"
    holdout: Any = "auto"
    prior: Any = None
    loss: Any = "zero_one"
    racing: Any = True
    checkpoint: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    n_candidates: int = 1


@dataclass(frozen=True, eq=False)
class Vote:
    """Trained hypotheses with their weights, and what is proved about the predictor that they make.

    Attributes
    ----------
    task : Task
        What they predict.
    hypotheses : Hypotheses
        The trained hypotheses.
    subsamples : Subsamples
        Their training sets, as numbers of the rows that make this vote.
    totals, seen : ndarray of shape (m,)
        Sums of their validation losses, and over how many points: all, or fewer if a hypothesis was dropped.
    posterior : ndarray of shape (m,)
        Their weights.
    prior : array-like or None
        Their prior; None if it is uniform.
    certificate : Certificate
        What is proved.
    split : Split
        Rows that make the vote, and rows that test it.
    """

    task: Task
    hypotheses: Hypotheses
    subsamples: Subsamples
    totals: Array
    seen: NDArray[np.intp]
    posterior: Array
    prior: Any
    certificate: Certificate
    split: Split

    @property
    def trained(self) -> Trained:
        """The hypotheses with their losses so far."""
        return Trained(self.hypotheses, self.subsamples, self.totals, self.seen)

    @property
    def losses(self) -> Array:
        """Validation losses of the hypotheses; NaN for those that were dropped."""
        return self.trained.losses

    @property
    def bound(self) -> float:
        """Bound on what the vote predicts."""
        return self.certificate.bound

    @property
    def n_held_out(self) -> int:
        """Number of rows that tested it."""
        return 0 if self.split.held_out is None else self.split.held_out.size

    def __repr__(self) -> str:
        return f"<Vote of {len(self.hypotheses)} hypotheses, {self.n_held_out} rows held out, bound {self.bound:.4f}>"

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict by the weighted majority of this vote."""
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must have two dimensions, points and features, got shape {X.shape}")
        predicted, _ = self.task.predict(self.hypotheses, self.posterior, X)
        return self.task.decode(predicted)


@dataclass(frozen=True, eq=False)
class FittedVotes:
    """The result of a fit: the votes that competed, and all that prediction, files and verification need.

    Attributes
    ----------
    votes : tuple of Vote
        The votes that competed.
    winner : int
        The one with the smallest bound, which predicts.
    entropy : int
        Seed of all that was random.
    task : Task
        What is predicted.
    settings : FitSettings
        The settings of the fit, copies.
    training_rows : TrainingRows
        What recognises rows of the sample.
    code_book : CodeBook or None
        How the columns of a table become features.
    n_features : int
        Number of features, or columns.
    feature_names : ndarray or None
        Their names, if they have some.
    row_digest, target_digest : str
        What tells the rows of the sample, in their order, and its target from others.
    ranges : ColumnRanges or None
        What the columns of a table held; None for arrays, and for rows that were read in blocks.
    """

    votes: tuple[Vote, ...]
    winner: int
    entropy: int
    task: Task
    settings: FitSettings
    training_rows: TrainingRows
    code_book: CodeBook | None
    n_features: int
    feature_names: NDArray[Any] | None
    row_digest: str = ""
    target_digest: str = ""
    ranges: ColumnRanges | None = None

    @property
    def best(self) -> Vote:
        """The vote that predicts."""
        return self.votes[self.winner]

    @property
    def pool(self) -> Pool:
        """The hypothesis space, without families that the sample is nothing for."""
        return as_pool(self.settings.estimator).restrict(self.best.subsamples.families)

    @property
    def loss(self) -> Loss:
        """The loss that the certificate is about."""
        return self.task.resolve_loss(self.settings.loss).recall(self.best.certificate.loss)

    @property
    def n_votes(self) -> int:
        """Number of votes that share delta, those of other candidates included."""
        return len(self.votes) * self.settings.n_candidates

    def with_certificates(self, certificates: Sequence[Certificate]) -> FittedVotes:
        """Return the same votes with other certificates."""
        votes = (replace(vote, certificate=one) for vote, one in zip(self.votes, certificates, strict=True))
        return replace(self, votes=tuple(votes))

    def add_assumption(self, assumption: str) -> FittedVotes:
        """Return the same votes with one more assumption, a code or in words, in all certificates."""
        return self.with_certificates([vote.certificate.with_assumption(assumption) for vote in self.votes])
