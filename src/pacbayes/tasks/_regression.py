"""Regression: targets are numbers, hypotheses predict numbers, and their weighted mean is judged by its errors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import POWERS, Loss, NumberLoss
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.pools import Hypotheses
from pacbayes.rows import Labels
from pacbayes.sampling import ChosenSubsamples, Subsamples
from pacbayes.tasks._stacking import stack
from pacbayes.tasks._task import Predicted, Task, find_outside

# Coverage of the intervals by whose width means compete.
_COVERAGE = 0.9

# Numbers whose squares, and sums of these, do not overflow.
_LARGEST = 1e150

# Hypotheses that are asked together.
_MOST_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Regression(Task):
    """Predict a number."""

    limits: Array  # (2,): the declared range of the target, to which predictions are clipped; empty if there is none
    # How means compete: by the mean "width" of intervals that hold 90% of new points, or by bounds of their "error".
    compete_by: str = "width"
    estimator = "PACBayesRegressor"
    numeric = True
    attributes: ClassVar[dict[str, Any]] = {"limits": "double rising: limits", "compete_by": {"width", "error"}}

    classes: ClassVar[Array] = np.empty(0)  # type: ignore[misc]

    @classmethod
    def learn(
        cls, target: NDArray[Any] | Labels, y_range: Any = None, compete_by: str = "width"
    ) -> tuple[Regression, Array]:
        """Return the task of numbers in a declared range, if there is one, and the target of a sample."""
        task = cls(np.empty(0) if y_range is None else _read_range(y_range), compete_by)
        numbers = task.encode(target)
        if numbers.size == 1:
            raise ValueError("y must hold more than one number, got n_samples = 1")
        if not task.limits.size and (numbers == numbers[0]).all():
            raise ValueError(f"y must hold different numbers, got {numbers[0]} in all rows: nothing is to be learned")
        return task, numbers

    @property
    def y_range(self) -> tuple[float, float] | None:
        """The declared range of the target; None if there is none."""
        return (float(self.limits[0]), float(self.limits[1])) if self.limits.size else None

    @property
    def width(self) -> int:
        return 2

    def encode(self, target: NDArray[Any] | Labels) -> Array:
        if isinstance(target, Labels):  # read in parts
            numbers = np.asarray(read_numbers(target.classes)[target.codes])
        else:
            numbers = read_numbers(target)
        if self.limits.size:
            # Intervals end there: one that is found to hold a target beyond would not.
            low, high = self.limits.tolist()
            outside = np.flatnonzero((numbers < low) | (numbers > high))
            if outside.size:
                row = int(outside[0])
                raise ValueError(
                    f"y must be in the declared range, y_range=({low!r}, {high!r}), got {numbers[row]} in row {row}, "
                    f"and {outside.size - 1} more outside"
                )
        return numbers

    def decode(self, predicted: NDArray[Any]) -> Array:
        return predicted

    def resolve_loss(self, loss: Any) -> Loss:
        if not (isinstance(loss, str) and loss in POWERS):
            raise ValueError(f"loss must be {' or '.join(map(repr, POWERS))}, got {loss!r}")
        return NumberLoss.of(loss, 1.0 if self.y_range is None else float(np.ptp(self.limits)), self.y_range)

    def parameters(self) -> dict[str, Any]:
        return {"y_range": self.y_range, "compete_by": self.compete_by}

    def assumptions(self) -> list[str]:
        return [] if self.y_range is None else ["range-declared:{!r} to {!r}".format(*self.y_range)]

    def rank(self, certificate: Certificate) -> tuple[float, ...]:
        width = np.inf
        if self.compete_by == "width" and certificate.numbers is not None:
            with suppress(ValueError):  # too few points to prove it
                width = certificate.choose_interval(_COVERAGE).mean_width
        return width, certificate.error_bound

    def predict(self, hypotheses: Hypotheses, weights: Array, X: Any, drawn: NDArray[Any] | None = None) -> Predicted:
        mean = self.aggregate(hypotheses, weights, X)[:, 0]
        return mean, np.zeros(mean.shape, dtype=bool)

    def aggregate(self, hypotheses: Hypotheses, weights: Array, X: Any, doubt: Array | None = None) -> Array:
        """Return the weighted mean of what hypotheses predict, and their spread: the deviation from it.

        Sums are added up in the order of the hypotheses, row by row: they are the same in blocks of any size.
        """
        # The heaviest comes first, which is not far from the mean: of distances from one that is, with next to no
        # weight, rounding errors would be left.
        heaviest = int(np.argmax(weights))
        voters = np.concatenate(([heaviest], np.setdiff1d(np.flatnonzero(weights > 0), [heaviest])))
        share, first = weights / weights[np.sort(voters)].sum(), None
        mean, square = np.zeros(X.shape[0]), np.zeros(X.shape[0])  # of distances from what the first one predicts
        for i in range(0, voters.size, _MOST_TOGETHER):
            part = voters[i : i + _MOST_TOGETHER]
            for weight, numbers in zip(share[part], self._clip(hypotheses.take(part).votes(X)), strict=True):
                first = numbers.copy() if first is None else first
                distance = numbers - first
                mean += weight * distance
                square += weight * distance * distance
        spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
        return np.column_stack((mean if first is None else first + mean, spread))

    def _clip(self, numbers: Array) -> Array:
        """Return numbers in the declared range or, without one, no farther out than targets may be."""
        return np.clip(numbers, *(self.limits if self.limits.size else (-_LARGEST, _LARGEST)))

    def predict_out_of_bag(
        self, hypotheses: Hypotheses, weights: Array, subsamples: Subsamples, X: Any, rows: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the weighted mean of hypotheses that were not trained on a row."""
        voters = np.flatnonzero(weights > 0)
        outside = find_outside(ChosenSubsamples(subsamples, voters), rows)
        weight = weights[voters][:, np.newaxis] * outside
        total = weight.sum(axis=0)
        asked = total > 0
        answers = self.answer(hypotheses.take(voters), X)[:, :, 0]
        mean = (weight * answers).sum(axis=0) / np.where(asked, total, 1.0)
        return mean, np.zeros(rows.size, dtype=bool), asked

    def answer(self, hypotheses: Hypotheses, X: Any) -> Array:
        return self._clip(hypotheses.votes(X))[:, :, np.newaxis]

    def stack(self, answers: Array, outside: NDArray[np.bool_], target: NDArray[Any], start: Array) -> Array:
        """Make Huber's loss of the weighted mean small. From half to twice as many steps do as well."""
        return stack(answers - target[:, np.newaxis], outside, start, rate=3.0, steps=100, is_robust=True)


def _read_range(y_range: Any) -> Array:
    """Return a declared range as an array of two numbers, rising."""
    try:
        limits = np.empty(0) if isinstance(y_range, str) else np.array([float(end) for end in y_range])
    except (TypeError, ValueError):
        limits = np.empty(0)
    if limits.shape != (2,) or not (np.abs(limits) <= _LARGEST).all() or limits[0] >= limits[1]:
        raise ValueError(
            f"y_range must be None or two finite numbers (low, high), low below high, got {y_range!r}, "
            f"and none beyond {_LARGEST:g}"
        )
    return limits


def read_numbers(target: NDArray[Any]) -> Array:
    """Return a target as finite numbers, or raise ValueError that names the first row that is none."""
    given = np.asarray(target)
    if given.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y must hold real numbers, got {given[0]}")
    if given.dtype.kind in "mM":
        raise ValueError(f"y must hold numbers, got {given.dtype} such as {given[0]!s}: give y in days, for instance")
    if given.dtype.kind not in "biuf":
        try:
            given = np.array([float(value) for value in given.tolist()])
        except (TypeError, ValueError):
            raise ValueError(
                f"y must hold numbers, got {given.tolist()[0]!r}: for classes there is PACBayesClassifier"
            ) from None
    numbers = given.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"y must hold finite numbers, got {numbers[row]} in row {row}, and {wrong.size - 1} more")
    if numbers.size and np.abs(numbers).max() > _LARGEST:
        row = int(np.argmax(np.abs(numbers)))
        raise ValueError(
            f"y must hold numbers up to {_LARGEST:g}, since squares overflow, got {numbers[row]} in row {row}: scale y"
        )
    return numbers
