"""The hypothesis space of any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterSampler

from pacbayes._compat import take_rows
from pacbayes._validation import Array
from pacbayes.losses import Loss
from pacbayes.pools._base import Codes, Constant, HypothesisError, Pool
from pacbayes.sampling import LEARNER, Subsamples, stream


class EstimatorPool(Pool):
    """Clones of one classifier, each trained on its own subsample, with parameters drawn at random if asked.

    Parameters
    ----------
    classes : ndarray
        All class labels, sorted.
    estimator : scikit-learn classifier
        Cloned for every hypothesis. A pipeline is fine: what it learns, it learns from the subsample.
    entropy : int
        Seed of the hypotheses' streams.
    param_distributions : mapping, optional
        Parameters to draw per hypothesis: names to lists or scipy distributions, as in `ParameterSampler`.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1.
    """

    def __init__(
        self,
        classes: NDArray[Any],
        estimator: Any,
        entropy: int,
        param_distributions: Mapping[str, Any] | None = None,
        on_error: Literal["raise", "drop"] = "raise",
    ) -> None:
        super().__init__(classes)
        self.estimator = estimator
        self.entropy = entropy
        self.param_distributions = param_distributions
        self.on_error = on_error

    def fit(self, X: Any, codes: Codes, subsamples: Subsamples, hypotheses: range) -> list[Any]:
        return [self._fit_one(X, codes, subsamples[h], h) for h in hypotheses]

    def _fit_one(self, X: Any, codes: Codes, subsample: NDArray[np.intp], h: int) -> Any:
        y_h = self.classes[codes[subsample]]
        if (y_h == y_h[0]).all():
            return Constant(y_h[0])
        try:
            return self._learner(h, take_rows(X, subsample), y_h)
        except Exception as error:
            if self.on_error == "drop":
                return Constant(self.classes[0], failed=True)
            raise HypothesisError(
                f"hypothesis {h} could not be trained on its {subsample.size} points (seed {self.entropy}): "
                f"{type(error).__name__}: {error}. on_error='drop' would count its loss as 1."
            ) from error

    def _learner(self, h: int, X_h: Any, y_h: NDArray[Any]) -> Any:
        """A classifier trained on the subsample of hypothesis h, with its own random stream."""
        rng = stream(self.entropy, h, LEARNER)
        learner = clone(self.estimator)
        # Drawn before any parameter is: every hypothesis's draws come from its own stream, in one order.
        seed = int(rng.integers(2**31))
        if self.param_distributions:
            drawn = next(iter(ParameterSampler(self.param_distributions, 1, random_state=seed)))
            learner.set_params(**{name: clone(value, safe=False) for name, value in drawn.items()})
        names = sorted(learner.get_params(deep=True))
        random_states = [name for name in names if name.split("__")[-1] == "random_state"]
        learner.set_params(**{name: int(rng.integers(2**31)) for name in random_states})
        return learner.fit(X_h, y_h)

    def predict(self, hypothesis: Any, X: Any) -> Codes:
        if isinstance(hypothesis, Constant):
            return np.full(X.shape[0], self._code(hypothesis.label), dtype=np.intp)
        return np.asarray(np.searchsorted(self.classes, hypothesis.predict(X)), dtype=np.intp)

    def predict_proba(self, hypothesis: Any, X: Any) -> Array:
        probabilities = np.zeros((X.shape[0], self.classes.size))
        if isinstance(hypothesis, Constant):
            probabilities[:, self._code(hypothesis.label)] = 1.0
        else:
            if not hasattr(hypothesis, "predict_proba"):
                raise HypothesisError(
                    "a loss of probabilities needs a base learner with predict_proba, "
                    f"{type(hypothesis).__name__} has none"
                )
            columns = np.searchsorted(self.classes, hypothesis.classes_)
            probabilities[:, columns] = hypothesis.predict_proba(X)
        return probabilities

    def _code(self, label: Any) -> int:
        return int(np.searchsorted(self.classes, label))

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
        totals = np.zeros(len(hypotheses))
        for i, (hypothesis, h) in enumerate(zip(trained, hypotheses, strict=True)):
            validates = np.ones(len(rows), dtype=bool)
            inside = subsamples[h]
            inside = inside[(inside >= rows.start) & (inside < rows.stop)]
            validates[inside - rows.start] = False
            if not validates.any():
                continue
            if isinstance(hypothesis, Constant) and hypothesis.failed:
                totals[i] = np.count_nonzero(validates)
                continue
            block = np.arange(rows.start, rows.stop)[validates]
            response = self.predict_proba if loss.on_probabilities else self.predict
            totals[i] = loss.total(codes[block], response(hypothesis, take_rows(X, block)))
        return totals


class PrefitPool(EstimatorPool):
    """Classifiers trained elsewhere, on other points than those they are validated on.

    Parameters
    ----------
    classes : ndarray
        All class labels, sorted.
    estimators : sequence of fitted classifiers
        The hypotheses. Their labels must be among `classes`.
    """

    def __init__(self, classes: NDArray[Any], estimators: Any) -> None:
        super().__init__(classes, None, 0)
        self.estimators = list(estimators)
        for h, estimator in enumerate(self.estimators):
            unknown = np.setdiff1d(getattr(estimator, "classes_", []), classes)
            if unknown.size:
                raise ValueError(
                    f"prefit estimator {h} predicts {str(unknown[0])!r}, a label that the validation set does not "
                    "have: add the points that do, or pass `losses` of your own to `certify`"
                )

    def fit(self, X: Any, codes: Codes, subsamples: Subsamples, hypotheses: range) -> list[Any]:
        return [self.estimators[h] for h in hypotheses]
