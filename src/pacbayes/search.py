"""A search over settings whose certificate is valid: the candidates share delta."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pacbayes._estimator import CertifiedEstimator, read_fit_params
from pacbayes._settings import Whole, validate_settings
from pacbayes.certificate import Certificate
from pacbayes.classifier import PACBayesClassifier
from pacbayes.regressor import PACBayesRegressor

__all__ = ["CertifiedGridSearch"]

# Settings that all candidates must have in common, or their bounds could not be compared.
_COMMON = ("delta", "loss", "y_range", "compete_by")


def _of_the_best(method: Callable[..., Any]) -> Any:
    """Return a method that asks the best candidate, which a search has if its estimator does."""

    @available_if(lambda search: hasattr(search.classifier, method.__name__))  # type: ignore[untyped-decorator]
    @wraps(method)
    def ask(self: CertifiedGridSearch, *arguments: Any, **settings: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, method.__name__)(*arguments, **settings)

    return ask


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

    predict = _of_the_best(PACBayesClassifier.predict)
    predict_interval = _of_the_best(PACBayesRegressor.predict_interval)
    predict_proba = _of_the_best(PACBayesClassifier.predict_proba)
    predict_selective = _of_the_best(PACBayesClassifier.predict_selective)
    predict_set = _of_the_best(PACBayesClassifier.predict_set)

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
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.classifier)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(own, name))
        return tags
