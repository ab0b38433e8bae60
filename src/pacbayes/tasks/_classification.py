"""Classification: targets are classes, hypotheses vote, and a vote is judged by losses of labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from pacbayes._losses import Loss, resolve_loss
from pacbayes._validation import Array
from pacbayes.certificate import MOST_CLASSES, MOST_LABELS, label_names, tabulate_predictions
from pacbayes.pools import Hypotheses
from pacbayes.rows import Labels, sort_labels
from pacbayes.tasks._stacking import stack
from pacbayes.tasks._task import Predicted, Task
from pacbayes.tasks._voting import find_shares, predict_drawn, tally_votes, vote, vote_out_of_bag


@dataclass(frozen=True, eq=False)
class Classification(Task):
    """Predict one of several classes, known from the sample."""

    # The class labels, sorted. A target is encoded as positions in them, and labels that are not there as their number.
    classes: NDArray[Any]
    # (k, k): costs in [0, 1] by true and predicted class: a vote predicts the class of the smallest expected cost by
    # its shares. None for the class with the largest share.
    costs: Array | None = None
    estimator = "PACBayesClassifier"
    attributes: ClassVar[dict[str, str]] = {"classes": "label rising: k", "costs": "double? >=0 <=1: k k"}

    @classmethod
    def learn(cls, labels: NDArray[Any] | Labels) -> tuple[Classification, NDArray[np.intp]]:
        """Return the task of the classes in a sample, and its encoded target."""
        if isinstance(labels, Labels):  # read in parts, and encoded already
            classes, codes = labels.classes, labels.codes
            kind = type_of_target(classes) if classes.size > 1 else "binary"
            if kind not in ("binary", "multiclass"):
                raise ValueError(f"Unknown label type: {kind}. y must hold classes, not a quantity")
        else:
            classes, codes = sort_labels(labels)
            check_classification_targets(labels)
        if classes.size < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {classes.tolist()[0]!r}")
        return cls(classes), codes

    @property
    def width(self) -> int:
        return int(self.classes.size)

    def encode(self, target: NDArray[Any] | Labels) -> NDArray[np.intp]:
        labels, inverse = (target.classes, target.codes) if isinstance(target, Labels) else (target, None)
        positions = {label: k for k, label in enumerate(self.classes.tolist())}
        codes = np.array([positions.get(label, self.classes.size) for label in labels.tolist()], dtype=np.intp)
        return codes if inverse is None else codes[inverse]

    def decode(self, predicted: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.classes[predicted])

    def is_known(self, encoded: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(encoded < self.classes.size)

    def resolve_loss(self, loss: Any) -> Loss:
        return resolve_loss(loss, self.classes)

    def deciding_by(self, loss: Loss) -> Classification:
        return replace(self, costs=loss.costs)

    @property
    def decision(self) -> Array | None:
        return self.costs

    def assumptions(self) -> list[str]:
        return [] if self.costs is None else ["expected-costs"]

    def describe_target(self, encoded: NDArray[Any]) -> dict[str, Any]:
        if self.classes.size > MOST_LABELS:
            return {}
        counts = np.bincount(encoded, minlength=self.classes.size)[: self.classes.size]
        return {"labels": label_names(self.classes), "label_counts": tuple(counts.tolist())}

    def predict(self, hypotheses: Hypotheses, weights: Array, X: Any, drawn: NDArray[Any] | None = None) -> Predicted:
        return vote(hypotheses, weights, X, self.costs) if drawn is None else predict_drawn(hypotheses, drawn, X)

    def aggregate(self, hypotheses: Hypotheses, weights: Array, X: Any, doubt: Array | None = None) -> Array:
        """Return the share of the vote of each class."""
        tallies = tally_votes(hypotheses, weights, X, stop_early=False, uncertain_weight=doubt)
        tallies /= tallies.sum(axis=1, keepdims=True)
        return tallies

    predict_out_of_bag = staticmethod(vote_out_of_bag)
    answer = staticmethod(find_shares)

    def stack(self, answers: Array, outside: NDArray[np.bool_], target: NDArray[Any], start: Array) -> Array:
        """Make the Brier score of the vote's shares small."""
        residuals = answers - (target[:, np.newaxis] == np.arange(answers.shape[2]))
        return stack(residuals, outside, start, rate=1.0, steps=40, is_robust=False)

    def tabulate(
        self, encoded: NDArray[Any], predicted: NDArray[Any], uncertain: NDArray[np.bool_]
    ) -> NDArray[np.intp] | None:
        n_classes = self.classes.size
        return None if n_classes > MOST_CLASSES else tabulate_predictions(encoded, predicted, uncertain, n_classes)
