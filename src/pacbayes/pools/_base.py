"""The protocol of a hypothesis space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.losses import Loss
from pacbayes.sampling import Subsamples

Codes = NDArray[np.intp]


class HypothesisError(RuntimeError):
    """A hypothesis could not be trained or asked: which one, and why."""


class Constant:
    """The hypothesis of a subsample that holds one class only, or of a learner that failed.

    Parameters
    ----------
    label : object
        What it predicts, everywhere.
    failed : bool, default=False
        Whether it stands in for a learner that failed: its loss then counts as 1 at every point.
    """

    def __init__(self, label: Any, failed: bool = False) -> None:
        self.label = label
        self.failed = failed


class Pool(ABC):
    """A hypothesis space over data with labels from `classes`.

    A pool works on a range of hypotheses and a block of rows and returns its result: nothing is written to
    shared state, and totals of losses add up over blocks of rows, so any worker can compute any part.

    Parameters
    ----------
    classes : ndarray
        All class labels, sorted. Predictions are given as positions in it.
    """

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    @abstractmethod
    def fit(self, X: Any, y: NDArray[Any], subsamples: Subsamples, hypotheses: range) -> list[Any]:
        """Train a range of hypotheses, each on its own subsample."""

    @abstractmethod
    def predict(self, hypothesis: Any, X: Any) -> Codes:
        """Class codes that one trained hypothesis predicts."""

    @abstractmethod
    def predict_proba(self, hypothesis: Any, X: Any) -> Array:
        """Probabilities of all classes that one trained hypothesis gives."""

    @abstractmethod
    def loss_totals(
        self,
        trained: list[Any],
        X: Any,
        codes: Codes,
        subsamples: Subsamples,
        hypotheses: range,
        rows: range,
        loss: Loss,
    ) -> Array:
        """Total validation loss of a range of hypotheses over a block of rows, without their training points."""

    def votes(self, trained: list[Any], X: Any) -> Codes:
        """Class codes that trained hypotheses predict, one row of the result per hypothesis."""
        return np.stack([self.predict(hypothesis, X) for hypothesis in trained])
