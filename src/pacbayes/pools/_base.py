"""The protocol of a hypothesis space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
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

    # Whether hypotheses share work on a block of rows, so that many should validate on it together. Such a pool
    # is driven by threads: it releases the interpreter's lock.
    shares_rows = False

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    @abstractmethod
    def fit(self, X: Any, codes: Codes, subsamples: Subsamples, hypotheses: range) -> Any:
        """Train a range of hypotheses, each on its own subsample: a sequence of them."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Trained hypotheses of several ranges, as one sequence."""
        return list(chain.from_iterable(parts))

    def take(self, trained: Any, chosen: Codes) -> Any:
        """Some of a sequence of trained hypotheses."""
        return [trained[h] for h in chosen]

    def check_loss(self, loss: Loss) -> None:  # noqa: B027
        """Refuse a loss that these hypotheses cannot be validated by, before any is trained."""

    def remember(self, X: Any, trained: Any) -> None:  # noqa: B027
        """Keep what trained hypotheses need of the training sample when they predict, if they do not hold it."""

    @abstractmethod
    def predict(self, hypothesis: Any, X: Any) -> Codes:
        """Class codes that one trained hypothesis predicts."""

    @abstractmethod
    def predict_proba(self, hypothesis: Any, X: Any) -> Array:
        """Probabilities of all classes that one trained hypothesis gives."""

    @abstractmethod
    def loss_totals(
        self,
        trained: Any,
        X: Any,
        codes: Codes,
        subsamples: Subsamples,
        hypotheses: range,
        rows: range,
        loss: Loss,
    ) -> Array:
        """Total validation loss of a range of hypotheses over a block of rows, without their training points."""

    def votes(self, trained: Any, X: Any) -> NDArray[Any]:
        """Class codes that trained hypotheses predict, one row of the result per hypothesis."""
        return np.stack([self.predict(hypothesis, X) for hypothesis in trained])
