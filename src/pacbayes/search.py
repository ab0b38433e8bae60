"""A search over settings whose certificate is valid: the candidates share delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pacbayes._estimator import CertifiedEstimator, read_fit_params
from pacbayes._settings import Whole, validate_settings
from pacbayes._validation import Array
from pacbayes.certificate import Certificate

__all__ = ["CertifiedGridSearch"]

# Settings that all candidates must have in common, or their bounds could not be compared.
_COMMON = ("delta", "loss", "y_range", "compete_by")


def _has(name: str) -> Any:
    """Return a decorator for methods that a search has if its estimator has them."""
    return available_if(lambda search: hasattr(search.classifier, name))


class CertifiedGridSearch(MetaEstimatorMixin, BaseEstimator):
    """Fit a classifier or regressor with every setting of a grid, and keep the one with the smallest bound.

    Of regressors, the one with the narrowest intervals, unless they compete by their bounds (`compete_by`).

    A grid search that looks at scores or bounds and then fits once more breaks the proof: the certificate of that fit
    does not know of the search. Here the candidates are declared beforehand and share delta, so all of their bounds
    hold at once, and the smallest is a bound as well. The price is ln(number of candidates) in the exponent.

    Parameters
    ----------
    classifier : PACBayesClassifier or PACBayesRegressor
        The estimator, with the settings that all candidates have in common. Each has a folder of its own in that
        of its `checkpoint`, if it has one.
    param_grid : mapping of str to sequence, or sequence of these
        Settings to try, as in scikit-learn's `GridSearchCV`.
    n_candidates : int, optional
        Number of candidates that share delta, by default those of the grid: more, if the best of several searches will
        be taken, decided beforehand.

    Attributes
    ----------
    best_estimator_ : PACBayesClassifier or PACBayesRegressor
        The candidate with the smallest bound.
    best_params_ : dict
        Its settings.
    certificate_ : Certificate
        What is proved about it, the search included.
    results_ : list of dict
        Settings (`params`) and `bound` of each candidate: on the mean error in the unit of the target, where numbers
        are predicted.
    classes_ : ndarray
        The class labels, of a classifier.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import CertifiedGridSearch, PACBayesClassifier
    >>> from pacbayes.pools import RBFSVMPool
    >>> X, y = make_moons(600, noise=0.2, random_state=0)
    >>> classifier = PACBayesClassifier(RBFSVMPool(), random_state=0)
    >>> search = CertifiedGridSearch(classifier, {"estimator__C": [1.0, 10.0, 100.0]}).fit(X, y)
    >>> len(search.results_), search.certificate_.n_votes
    (3, 6)
    """

    def __init__(
        self,
        classifier: CertifiedEstimator,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
        *,
        n_candidates: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.param_grid = param_grid
        self.n_candidates = n_candidates

    def fit(
        self, X: Any, y: ArrayLike, *, groups: Any = None, max_error: float | None = None, **fit_params: Any
    ) -> CertifiedGridSearch:
        """Fit all candidates.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training points.
        y : array-like of shape (n,)
            Labels, or numbers.
        groups, max_error : optional
            Groups whose errors are to be bounded, and an error that is declared, as in `PACBayesClassifier.fit`.
        **fit_params
            `sample_weight`, and nothing else: how much each row counts in the training of all candidates, as in
            `PACBayesClassifier.fit`.

        Returns
        -------
        CertifiedGridSearch
            The fitted search.
        """
        weights = read_fit_params(**fit_params)
        if not hasattr(self.classifier, "fit_candidate"):
            raise ValueError(f"classifier must be a PACBayesClassifier or PACBayesRegressor, got {self.classifier!r}")
        grid = list(ParameterGrid(self.param_grid))
        if not grid:
            raise ValueError(f"param_grid must hold at least one setting, got {self.param_grid!r}")
        for params in grid:
            common = sorted(set(params) & set(_COMMON))
            if common:
                raise ValueError(
                    f"param_grid must not hold {', '.join(common)}: bounds of candidates can be compared only if they "
                    "have these in common"
                )
        if self.n_candidates is not None:
            validate_settings(self, {"n_candidates": Whole(len(grid))})
        n_candidates = self.n_candidates or len(grid)
        candidates = []
        for k, params in enumerate(grid):
            candidate = clone(self.classifier).set_params(**params)
            if candidate.checkpoint is not None:  # a folder belongs to one fit
                candidate.set_params(checkpoint=Path(candidate.checkpoint) / f"candidate{k}")
            declared = {"n_candidates": n_candidates, "groups": groups, "max_error": max_error}
            candidates.append(candidate.fit_candidate(X, y, **declared, sample_weight=weights))
        # Of numbers, caps of the errors differ between candidates: their bounds compare in the unit of the target.
        bounds = [candidate.certificate_.error_bound for candidate in candidates]
        # As votes of one fit compete.
        ranks = [candidate.fitted_votes_.task.rank(candidate.certificate_) for candidate in candidates]
        best = ranks.index(min(ranks))
        self.results_ = [{"params": params, "bound": bound} for params, bound in zip(grid, bounds, strict=True)]
        self.best_params_ = grid[best]
        self.best_estimator_ = candidates[best]
        self.certificate_: Certificate = self.best_estimator_.certificate_
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels or numbers with the best candidate.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels or numbers.
        """
        return np.asarray(self._best.predict(X))

    @property
    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the best candidate, or the coefficient of determination of predicted numbers.

        Parameters
        ----------
        X, y, sample_weight
            Points, their labels or numbers and, optionally, their weights.

        Returns
        -------
        float
            The score.
        """
        return float(self._best.score(X, y, sample_weight))

    @_has("predict_interval")  # type: ignore[untyped-decorator]
    def predict_interval(self, X: Any, coverage: Any = 0.9) -> Array:
        """Predict intervals with the best candidate, which is a regressor.

        Parameters
        ----------
        X, coverage
            As in `PACBayesRegressor.predict_interval`.

        Returns
        -------
        ndarray of shape (n, 2), or (n, 2, levels) for several levels
            Lower and upper ends.
        """
        return np.asarray(self._best.predict_interval(X, coverage))

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return shares of the vote of the best candidate.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Shares, summing to one.
        """
        return np.asarray(self._best.predict_proba(X))

    @_has("predict_selective")  # type: ignore[untyped-decorator]
    def predict_selective(self, X: Any, max_error: float | None = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Predict labels with the best candidate, and say which of them are answers whose error is proved to be small.

        Parameters
        ----------
        X, max_error
            As in `PACBayesClassifier.predict_selective`.

        Returns
        -------
        labels : ndarray of shape (n,)
            Predicted labels.
        answered : ndarray of bool of shape (n,)
            Which of them are answers.
        """
        labels, answered = self._best.predict_selective(X, max_error)
        return labels, answered

    @_has("predict_set")  # type: ignore[untyped-decorator]
    def predict_set(self, X: Any, coverage: float = 0.95) -> NDArray[np.bool_]:
        """Predict sets of classes with the best candidate.

        Parameters
        ----------
        X, coverage
            As in `PACBayesClassifier.predict_set`.

        Returns
        -------
        ndarray of bool of shape (n, n_classes)
            Which classes are in the set of each point.
        """
        return np.asarray(self._best.predict_set(X, coverage))

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.classifier)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(own, name))
        return tags
