"""A weighted pool of hypotheses: made from some rows of a sample, and tested on rows that were held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.certificate import (
    MOST_CLASSES,
    MOST_LABELS,
    Certificate,
    label_names,
    tabulate_predictions,
    with_confusion,
    with_test,
)
from pacbayes.fitting._training import Trained
from pacbayes.fitting._voting import VotingBlocks, predict_codes, vote_out_of_bag
from pacbayes.pools import Hypotheses, Sample
from pacbayes.sampling import TEST, Split, Subsamples, stream, validation_order
from pacbayes.tasks import Loss

__all__ = ["Ensemble", "VotePlan", "count_labels", "out_of_bag_rows", "tabulate_classes"]

# Points that a vote without held-out rows is measured on, by class: it takes as long as predicting them.
_MOST_OUT_OF_BAG = 2000


class VotePlan(NamedTuple):
    """What a vote is going to be made from."""

    split: Split
    rest: Any  # the rows that make it, without those that the pool reserved
    shared: Any  # what all its hypotheses share, as `Pool.prepare` computed it
    subsamples: Subsamples


@dataclass(frozen=True)
class Ensemble:
    """Trained hypotheses with their weights, and what is proved about the predictor they make."""

    hypotheses: Hypotheses
    subsamples: Subsamples  # as numbers of the rows that make this ensemble
    totals: Array  # (m,): sums of the validation losses over the points seen
    seen: NDArray[np.intp]  # (m,): numbers of these points: all validation points, or fewer if a hypothesis was dropped
    posterior: Array
    prior: Any  # None if it is uniform
    certificate: Certificate
    split: Split

    @property
    def trained(self) -> Trained:
        """The hypotheses with their losses so far."""
        return Trained(self.hypotheses, self.totals, self.seen)

    @property
    def losses(self) -> Array:
        """Validation losses of the hypotheses; NaN for those that were dropped."""
        return self.trained.losses(self.subsamples)

    @property
    def bound(self) -> float:
        """Bound on what the ensemble predicts."""
        return self.certificate.bound

    @property
    def n_held_out(self) -> int:
        """Number of rows that tested it."""
        return 0 if self.split.held_out is None else self.split.held_out.size

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels by the weighted majority vote of this ensemble."""
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must have two dimensions, points and features, got shape {X.shape}")
        codes, _ = predict_codes(self.hypotheses, self.posterior, "majority", X, np.random.default_rng(0))
        return np.asarray(self.hypotheses.classes[codes])

    def with_points(self, sample: Sample, rest: Sample, loss: Loss, blocks: VotingBlocks) -> Ensemble:
        """Add to the certificate what held-out points, or otherwise validation points, say about the predictor.

        `rest` are those rows of `sample` that train and validate the hypotheses. Where rows are held out, `loss` is one
        of labels. A prediction that could differ on another engine has the largest loss, 1.
        """
        certificate = self.certificate.revise(**count_labels(sample.codes, sample.classes))
        if self.split.held_out is None:
            return replace(self, certificate=self._with_validation(certificate, rest))
        tested = sample.take(self.split.held_out)
        rng = stream(self.split.entropy, 0, TEST)
        codes, doubtful = predict_codes(self.hypotheses, self.posterior, certificate.voting, tested.X, rng, blocks)
        total = loss.total_with_doubts(tested.codes, codes, doubtful)
        counts = tabulate_classes(tested.codes, codes, doubtful, sample.classes.size)
        return replace(self, certificate=with_test(certificate, total, len(tested), counts))

    def _with_validation(self, certificate: Certificate, rest: Sample) -> Certificate:
        """Add the confusion matrix of validation points; none for the randomised classifier.

        For the best hypothesis, of all its validation points. For a vote, of some points that are drawn without looking
        at them: on each, those hypotheses vote that were not trained on it.
        """
        if certificate.voting == "gibbs" or rest.classes.size > MOST_CLASSES:
            return certificate
        most = out_of_bag_rows(certificate, len(rest))
        rows = np.sort(validation_order(len(rest), self.split.entropy)[:most])
        points = rest.take(rows)
        codes, doubtful, voted = vote_out_of_bag(self.hypotheses, self.posterior, self.subsamples, points.X, rows)
        counts = tabulate_predictions(points.codes[voted], codes[voted], doubtful[voted], rest.classes.size)
        return with_confusion(certificate, counts) if voted.any() else certificate


def out_of_bag_rows(certificate: Certificate, n: int) -> int:
    """Return how many of n validation points the confusion matrix is of, where none are held out."""
    return n if certificate.voting == "best" else min(n, _MOST_OUT_OF_BAG)


def count_labels(codes: NDArray[np.intp], classes: NDArray[Any]) -> dict[str, Any]:
    """Return how many points have each label, as fields of a certificate; codes beyond the classes are not counted."""
    if classes.size > MOST_LABELS:
        return {}
    counts = np.bincount(codes, minlength=classes.size)[: classes.size]
    return {"labels": label_names(classes), "label_counts": tuple(counts.tolist())}


def tabulate_classes(
    codes: NDArray[np.intp], predicted: NDArray[np.intp], doubtful: NDArray[np.bool_], n_classes: int
) -> NDArray[np.intp] | None:
    """Count points by true and predicted class, as `tabulate_predictions`; None if there are too many classes."""
    return None if n_classes > MOST_CLASSES else tabulate_predictions(codes, predicted, doubtful, n_classes)
