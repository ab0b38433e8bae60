r"""Losses in [0, 1] of a prediction: what the certificate is about.

The zero-one loss is the default for classes, the absolute error, capped and in units of the cap, for numbers. The
bounds hold for any loss bounded in [0, 1]; the first-order bound on the majority vote holds for the zero-one loss only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array, as_real_array

# Losses are rounded up to multiples of this before they are summed, or of a larger power of two where there are more
# than 2^23: so that sums are exact, and do not depend on the order or the blocks in which they are added. Rounding up
# keeps the bound a bound.
_QUANTUM = 2.0**-30

# Losses that are computed together: few enough to stay in the cache.
_TOGETHER = 2**16

# Losses without a name of their own, in words, by the code that their names begin with; after a colon follows the
# largest cost, the name of the function, or that of the loss. Files hold the codes, which programs compare.
_WORDS = {
    "cost": "cost in units of the largest, {}",
    "function": "function {!r}",
    "probabilities": "{} of probabilities",
    "absolute_error": "absolute error in units of {}, at which it is capped",
    "squared_error": "squared error in units of the square of {}, at which errors are capped",
}

# Losses of numbers by their codes, and which power of the error they are.
POWERS = {"absolute_error": 1, "squared_error": 2}

# What their means are called in the unit of the target.
MEANS = {"absolute_error": "mean absolute error", "squared_error": "root mean squared error"}

# Which share of the targets is no further from their median than the largest error that is told apart.
_WITHIN_CAP = 0.99


@dataclass(frozen=True)
class Loss:
    """A loss of predictions, per point.

    ``function(codes, response)`` takes the true classes as positions in `classes_`, and the response of the hypothesis:
    codes of the predicted classes or, with `on_probabilities`, an array of shape (points, classes). `name` is a
    certificate's code for it; only the zero-one loss of this module is called "zero_one".
    """

    name: str
    function: Callable[[NDArray[np.intp], Any], Any]
    on_probabilities: bool = False
    is_zero_one: bool = False  # whether the bound on the majority vote applies
    # Whether the function takes responses of several hypotheses together, a row for each, and gives as many losses.
    is_elementwise: bool = False

    @property
    def costs(self) -> Array | None:
        """Costs in [0, 1] by true and predicted class, if the loss is a cost matrix."""
        return self.function.args[0] if isinstance(self.function, partial) and self.function.func is _cost else None

    def total(self, codes: NDArray[np.intp], response: Any, n_rows: int = 0) -> float:
        """Return the sum of the losses over points, each checked to be in [0, 1] and rounded up.

        If the points are some of `n_rows`, their sum and those of the others can be added exactly.
        """
        if self.is_zero_one:
            if np.shape(response) != codes.shape:
                raise ValueError(f"predictions must be one label per point, got shape {np.shape(response)}")
            return float(np.count_nonzero(codes != response))
        losses, quantum = self._rounded(codes, response, n_rows)
        return float(losses.sum() * quantum)

    def _rounded(self, codes: NDArray[Any], response: Any, n_rows: int) -> tuple[Array, float]:
        """Return the losses of points, each checked and rounded up, as multiples of a number, and this number."""
        losses = np.asarray(self.function(codes, response))
        if losses.dtype.kind not in "biuf":
            raise ValueError(f"loss {self.name!r} must give real numbers, got {losses.dtype}")
        losses = losses.astype(np.float64)
        if losses.shape != (np.shape(response) if self.is_elementwise else codes.shape):
            raise ValueError(
                f"loss {self.name!r} must give one value per point, got shape {losses.shape} for {codes.size} points"
            )
        # Probabilities that sum to one only to rounding may leave [0, 1] by as much.
        wrong = ~((losses >= -1e-12) & (losses <= 1 + 1e-12))
        if wrong.any():
            raise ValueError(f"loss {self.name!r} must be in [0, 1], got {losses[wrong][0]!s}")
        # No sum of so many is more than 2^53 times this.
        quantum = max(_QUANTUM, 2.0 ** (max(1, n_rows, codes.size) - 1).bit_length() * 2.0**-53)
        return np.ceil(np.clip(losses, 0.0, 1.0) / quantum), quantum

    def total_outside(self, codes: NDArray[np.intp], response: Any, inside: NDArray[Any], n_rows: int = 0) -> float:
        """Return the sum of the losses, as `total`, over all points but those at some positions, distinct ones."""
        if self.is_zero_one:
            wrong = codes != response
            return float(np.count_nonzero(wrong) - np.count_nonzero(wrong[inside]))
        outside = np.ones(codes.size, dtype=bool)
        outside[inside] = False
        return self.total(codes[outside], response[outside], max(n_rows, codes.size))

    def totals_outside(
        self, codes: NDArray[Any], responses: NDArray[Any], inside: Sequence[NDArray[Any]], n_rows: int = 0
    ) -> Array:
        """Return `total_outside` of several hypotheses, given a row of responses and some positions for each."""
        if not self.is_elementwise:
            each = zip(responses, inside, strict=True)
            return np.array([self.total_outside(codes, response, own, n_rows) for response, own in each])
        totals, step = np.zeros(len(inside)), max(1, _TOGETHER // max(1, codes.size))
        for first in range(0, len(inside), step):
            losses, quantum = self._rounded(codes, responses[first : first + step], n_rows)
            for h, own in enumerate(inside[first : first + step]):
                losses[h, own] = 0.0
            totals[first : first + step] = losses.sum(axis=1) * quantum
        return totals

    def total_with_uncertain(
        self, codes: NDArray[np.intp], predicted: NDArray[np.intp], uncertain: NDArray[np.bool_], n_rows: int = 0
    ) -> float:
        """Return the sum of the losses of predicted codes; a code that could differ on another engine has loss 1."""
        certain = self.total(codes[~uncertain], predicted[~uncertain], max(n_rows, codes.size))
        return certain + float(np.count_nonzero(uncertain))

    @property
    def needs_test(self) -> bool:
        """Whether validation losses prove nothing, so that rows must be held out."""
        return False

    @property
    def unit(self) -> float:
        """What difference of two predictions changes a loss by one, if they are no labels."""
        return 1.0

    def adapt(self, target: NDArray[Any]) -> Loss:
        """Return the loss by which hypotheses are weighted that are trained on rows with this target."""
        return self

    def recall(self, name: str) -> Loss:
        """Return what `adapt` once returned, by its name in a certificate."""
        return self


@dataclass(frozen=True)
class NumberLoss(Loss):
    """A power of the error of predicted numbers, capped, in units of the cap.

    The cap is the width of the declared `limits` of the target, to which predictions are clipped: then no error is
    larger. Without, it comes from the rows that hypotheses are trained on (`adapt`).
    """

    is_elementwise: bool = True
    power: int = 1
    limits: tuple[float, float] | None = None

    @classmethod
    def of(cls, code: str, cap: float, limits: tuple[float, float] | None) -> NumberLoss:
        """Return the loss of a code in `POWERS`, with a cap."""
        power = POWERS[code]
        return cls(f"{code}:{cap!r}", partial(_capped, cap, power, limits), power=power, limits=limits)

    @property
    def needs_test(self) -> bool:
        return self.limits is None  # the cap comes from the rows that validate

    @property
    def unit(self) -> float:
        return find_cap(self.name)[1]

    def adapt(self, target: NDArray[Any]) -> NumberLoss:
        if self.limits is not None:
            return self
        far = np.abs(target - np.median(target))
        # Where nearly all targets are the same, the largest distance of all.
        cap = float(np.quantile(far, _WITHIN_CAP)) or float(far.max())
        return NumberLoss.of(self.name.partition(":")[0], cap or 1.0, None)

    def recall(self, name: str) -> NumberLoss:
        code, cap = find_cap(name)
        return NumberLoss.of(code, cap, self.limits)


def _capped(cap: float, power: int, limits: tuple[float, float] | None, target: Array, predicted: Array) -> Array:
    if limits is not None:
        predicted = np.clip(predicted, *limits)
    return np.asarray(np.minimum(np.abs(target - predicted) / cap, 1.0) ** power)


def to_error(name: str, loss: float) -> float:
    """Return a mean loss of numbers in the unit of the target, given the name of the loss; roots are rounded up."""
    code, cap = find_cap(name)
    return loss * cap if POWERS[code] == 1 else float(loss**0.5) * cap * (1 + 1e-15)


def is_of_numbers(name: str) -> bool:
    """Return whether a loss of this name is one of predicted numbers."""
    return name.partition(":")[0] in POWERS


def find_cap(name: str) -> tuple[str, float]:
    """Return the code of a loss of numbers and its cap, by its name; raise ValueError for another loss."""
    code, _, cap = name.partition(":")
    value = float(cap) if code in POWERS else np.nan
    if not 0 < value < np.inf:
        raise ValueError(f"{name!r} is no loss of numbers")
    return code, value


def _absolute(codes: NDArray[np.intp], probabilities: Array) -> Array:
    """Return 1 - probability of the true class: half the L1 distance to its indicator."""
    return np.asarray(1 - probabilities[np.arange(codes.size), codes])


def _brier(codes: NDArray[np.intp], probabilities: Array) -> Array:
    """Return half the squared distance to the indicator of the true class."""
    indicator = np.zeros_like(probabilities)
    indicator[np.arange(codes.size), codes] = 1
    return np.asarray(((probabilities - indicator) ** 2).sum(axis=1) / 2)


ZERO_ONE = Loss("zero_one", np.not_equal, is_zero_one=True)
_NAMED = {
    "zero_one": ZERO_ONE,
    "absolute": Loss("absolute", _absolute, on_probabilities=True),
    "brier": Loss("brier", _brier, on_probabilities=True),
}


def _of_labels(function: Callable[..., Any], classes: NDArray[Any], codes: Any, predicted: Any) -> Any:
    return function(classes[codes], classes[predicted])


def _cost(costs: Array, codes: Any, predicted: Any) -> Any:
    return costs[codes, predicted]


def _split(name: str) -> tuple[str, str] | None:
    """Return the code that a name begins with and what follows it, None for a name without."""
    code, colon, detail = name.partition(":")
    return (code, detail) if colon and code in _WORDS else None


def describe_loss(name: str) -> str:
    """Return the name of a loss in words.

    >>> describe_loss("brier"), describe_loss("cost:20"), describe_loss("function:asymmetric")
    ('brier', 'cost in units of the largest, 20', "function 'asymmetric'")
    """
    coded = _split(name)
    return name if coded is None else _WORDS[coded[0]].format(coded[1])


def largest_cost(name: str) -> str | None:
    """Return the unit of a loss of this name, if it is a cost matrix: its largest cost, as text; None otherwise."""
    coded = _split(name)
    return coded[1] if coded is not None and coded[0] == "cost" else None


def is_of_probabilities(name: str) -> bool:
    """Return whether a loss of this name is one of predicted probabilities, rather than of labels."""
    coded = _split(name)
    if coded is not None:
        return coded[0] == "probabilities"
    return name in _NAMED and _NAMED[name].on_probabilities


def resolve_loss(loss: Any, classes: NDArray[Any]) -> Loss:
    """Turn the `loss` parameter of the estimator into a `Loss`; `classes` are the class labels, in order.

    It is a name, a function of (true labels, predicted labels), a `Loss`, or a cost matrix with the cost of predicting
    class j for class i in row i, scaled here to [0, 1].
    """
    if isinstance(loss, Loss):
        if loss.is_zero_one:
            return ZERO_ONE  # `total` counts errors, whatever the function
        named = _NAMED.get(loss.name)
        if (named is not None and named != loss) or _split(loss.name) is not None:
            raise ValueError(f"loss must not be called {loss.name!r}, the name of another loss: give it one of its own")
        coded = f"probabilities:{loss.name}"
        return replace(loss, name=coded) if loss.on_probabilities and named is None else loss
    if isinstance(loss, str):
        if loss not in _NAMED:
            raise ValueError(f"loss must be one of {sorted(_NAMED)}, a function or a cost matrix, got {loss!r}")
        return _NAMED[loss]
    if callable(loss):
        name = getattr(loss, "__name__", type(loss).__name__)
        # The name alone would let a function called zero_one pass for the zero-one loss.
        return Loss(f"function:{name}", partial(_of_labels, loss, classes))
    costs = as_real_array("loss", loss, "a name, a function or a matrix of real costs")
    if costs.shape != (classes.size, classes.size):
        raise ValueError(
            f"loss as a cost matrix must have one row and one column per class, {classes.size} of them, "
            f"got shape {costs.shape}"
        )
    if not (np.isfinite(costs).all() and costs.min() >= 0 and costs.max() > 0):
        raise ValueError("loss as a cost matrix must hold finite, non-negative costs, not all zero")
    if np.array_equal(costs / costs.max(), 1.0 - np.eye(classes.size)):
        return ZERO_ONE  # all errors cost the same
    return Loss(f"cost:{costs.max():.15g}", partial(_cost, costs / costs.max()))
