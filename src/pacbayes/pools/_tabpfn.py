"""The hypothesis space of TabPFN: a model that was trained before, on other data, and takes the rows as context."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pacbayes._fingerprint import digest
from pacbayes._losses import Loss
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._base import Pool, Sample
from pacbayes.pools._categories import N_HYPOTHESES, SHARE, CategoricalPool


class TabPFNPool(CategoricalPool):
    """A `CategoricalPool` of TabPFN, whose model was trained before, on other data.

    The certificate assumes that this model has not seen the rows. It is trained on as many of them as it takes on a
    CPU, at most 90%, by default; tables with more columns or classes than its weights were made for are refused.

    Parameters
    ----------
    estimator : TabPFNClassifier or TabPFNRegressor
        The learner. Its `inference_precision` should be `torch.float32`: in mixed precision, the prediction for a row
        depends on the rows that are predicted with it, which is refused.
    param_distributions, on_error, vote_by, n_hypotheses, subsample_size
        As in `EstimatorPool`.
    """

    takes_weights = False

    def assumptions(self) -> list[str]:
        return ["learner-pretrained", "predicts-by-row"]

    def check_settings(self) -> None:
        super().check_settings()
        if not hasattr(self.estimator, "get_inference_config"):
            raise ValueError(f"estimator must be a learner of tabpfn, version 8.2 or newer, got {self.estimator!r}")
        self._read_limits()  # weights that are missing are said before anything is trained

    def usable(self, sample: Sample, loss: Loss) -> Pool:
        pool, limits = super().usable(sample, loss), self._read_limits()
        book = sample.code_book
        n_features = sample.X.shape[1] if book is None else book.n_numbers + book.n_categories  # a date is several
        for what, number, most in (
            ("columns", n_features, limits.MAX_NUMBER_OF_FEATURES),
            ("classes", sample.classes.size, limits.MAX_NUMBER_OF_CLASSES),
        ):
            if number > most:
                raise ValueError(f"the weights of TabPFN are for at most {most} {what}, got {number}")
        return pool

    def default_sampling(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        # The limit of a CPU on all devices, so that the same seed gives the same subsamples.
        limits = self._read_limits()
        most = min(limits.MAX_NUMBER_OF_SAMPLES, limits.MAX_CPU_SAMPLES)
        return [max(1, min(round(SHARE * n), most))], N_HYPOTHESES

    def _fit_learner(self, learner: Any, X: Any, y: NDArray[Any], **how: Any) -> FittedTabPFN:
        return FittedTabPFN(learner, X, y)

    def _read_limits(self) -> Any:
        """Return what TabPFN says of its weights, or raise HypothesisError if it finds none and cannot fetch them."""
        learner = clone(self.estimator)
        try:
            return learner.get_inference_config()
        except Exception as error:
            raise HypothesisError(
                f"the weights of {type(learner).__name__} cannot be loaded. Where they cannot be downloaded, say where "
                "they are: by the environment variable TABPFN_MODEL_CACHE_DIR, or by model_path, which is "
                f"tabpfn__estimator__model_path in a union. {type(error).__name__}: {error}"
            ) from error


class FittedTabPFN:
    """A trained TabPFN, known by what makes it: settings, rows, targets and weights.

    TabPFN keeps times and caches as well, which change when it predicts. They are no part of what a certificate is
    about, and weights need not be in every copy: a copy is trained again, which only reads the rows.
    """

    def __init__(self, learner: Any, X: Any, y: NDArray[Any]) -> None:
        self.learner, self.X, self.y = clone(learner).fit(X, y), X, y
        self.weights = _digest_weights(self.learner)

    def __str__(self) -> str:
        return str(self.learner)

    def __getstate__(self) -> dict[str, Any]:
        return {"learner": clone(self.learner), "X": self.X, "y": self.y, "weights": self.weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = state.pop("weights")
        FittedTabPFN.__init__(self, **state)
        if self.weights != weights:
            raise HypothesisError(f"{self} was trained with other weights of TabPFN than those that are here")

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that it knows."""
        return np.asarray(self.learner.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels, or numbers, of rows."""
        return np.asarray(self.learner.predict(X))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return probabilities of rows."""
        return np.asarray(self.learner.predict_proba(X))


def _digest_weights(learner: Any) -> str:
    """Return what tells the weights of a trained TabPFN from others: of a regressor, its bins as well."""
    bins = getattr(learner, "znorm_space_bardist_", None)
    states = [part.state_dict() for part in (*learner.models_, bins) if part is not None]
    return digest([{name: weight.cpu().double().numpy() for name, weight in state.items()} for state in states])
