"""The protocol of a task: what is to be predicted, and how answers of hypotheses become a prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.pools import Hypotheses
from pacbayes.rows import Labels
from pacbayes.sampling import Subsamples

Predicted = tuple[NDArray[Any], NDArray[np.bool_]]


def find_outside(subsamples: Subsamples, rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of some rows are outside of each subsample."""
    inside, counts = subsamples.locate(range(len(subsamples)), rows)
    outside = np.ones((len(subsamples), rows.size), dtype=bool)
    outside[np.repeat(np.arange(len(subsamples)), counts), inside] = False
    return outside


class Task(ABC):
    """What a target is, how hypotheses' answers are aggregated, and by which losses predictions are judged.

    Fitting, certificates and model files know targets as arrays that the task encodes and decodes, and nothing else.
    """

    # What the estimator for this task is called, in `pacbayes`.
    estimator: ClassVar[str]

    # Whether numbers are predicted, rather than classes.
    numeric: ClassVar[bool] = False

    # What samples and hypotheses have as class labels: none where numbers are predicted.
    classes: NDArray[Any]

    # Kinds and shapes of its attributes, by which a model file is checked (`pacbayes.io`).
    attributes: ClassVar[dict[str, Any]]

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers that an aggregated answer takes for each row."""

    @abstractmethod
    def encode(self, target: NDArray[Any] | Labels) -> NDArray[Any]:
        """Return a target as losses take it, with codes of their own for values that are not known."""

    @abstractmethod
    def decode(self, predicted: NDArray[Any]) -> NDArray[Any]:
        """Return what the user is told for encoded predictions."""

    def is_known(self, encoded: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values of an encoded target occurred in the sample; others have the largest loss."""
        return np.ones(encoded.shape, dtype=bool)

    @abstractmethod
    def resolve_loss(self, loss: Any) -> Loss:
        """Return what the `loss` setting stands for."""

    def deciding_by(self, loss: Loss) -> Task:
        """Return the task with predictions that make a loss small, given the aggregated answers; by default the same.

        For predictors that are tested: bounds that rest on single hypotheses are about their own answers.
        """
        return self

    @property
    def decision(self) -> Any:
        """What turns aggregated answers into predictions, as a value that digests tell apart; None by default."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator that the task knows, by name."""
        return {}

    def assumptions(self) -> list[str]:
        """Return what has to be true of the target, as codes."""
        return []

    def rank(self, certificate: Certificate) -> tuple[float, ...]:
        """Return by what predictors compete: the one with the smallest is taken. All their bounds hold at once."""
        return (certificate.bound,)

    def describe_target(self, encoded: NDArray[Any]) -> dict[str, Any]:
        """Return what a certificate says about the target of a sample, as fields of it."""
        return {}

    @abstractmethod
    def predict(self, hypotheses: Hypotheses, weights: Array, X: Any, drawn: NDArray[Any] | None = None) -> Predicted:
        """Return encoded predictions, and which of them could differ on another engine.

        The weighted hypotheses decide together or, where they are `drawn`, one hypothesis for each row.
        """

    @abstractmethod
    def aggregate(self, hypotheses: Hypotheses, weights: Array, X: Any, doubt: Array | None = None) -> Array:
        """Return the aggregated answers, of shape (rows, width).

        Adds to `doubt`, of shape (rows,), by how much they could differ on another engine.
        """

    @abstractmethod
    def predict_out_of_bag(
        self, hypotheses: Hypotheses, weights: Array, subsamples: Subsamples, X: Any, rows: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what those hypotheses predict that were not trained on a row, which is uncertain, and where any is."""

    @abstractmethod
    def answer(self, hypotheses: Hypotheses, X: Any) -> Array:
        """Return what each hypothesis answers, of shape (m, rows, numbers)."""

    @abstractmethod
    def stack(self, answers: Array, outside: NDArray[np.bool_], target: NDArray[Any], start: Array) -> Array:
        """Return weights by which hypotheses err little together, given their answers and weights to start from."""

    def tabulate(
        self, encoded: NDArray[Any], predicted: NDArray[Any], uncertain: NDArray[np.bool_]
    ) -> NDArray[np.intp] | None:
        """Return counts by target and prediction, which add up over blocks of rows; None if there are none."""
        return None
