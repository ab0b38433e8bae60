"""Check the classifier and the test set that a display or a report is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier

__all__ = ["check_fitted", "check_test_labels", "count_errors"]


def check_fitted(estimator: Any) -> PACBayesClassifier:
    """Return the estimator, or raise if it is not a fitted `PACBayesClassifier`.

    Parameters
    ----------
    estimator : object
        The estimator.

    Returns
    -------
    PACBayesClassifier
        The same object.
    """
    # Imported here because scikit-learn, which these need, takes long to import.
    from sklearn.utils.validation import check_is_fitted

    from pacbayes.classifier import PACBayesClassifier

    if not isinstance(estimator, PACBayesClassifier):
        raise TypeError(
            f"estimator must be a PACBayesClassifier, got {type(estimator).__name__}; of a pipeline, give the last "
            "step, and test points as they arrive there"
        )
    check_is_fitted(estimator)
    return estimator


def check_test_labels(X_test: Any, y_test: ArrayLike | None) -> NDArray[Any] | None:
    """Return the labels of the test points as an array, or None if there are no test points.

    Parameters
    ----------
    X_test, y_test : array-like or None
        Test points and their labels; both or neither.

    Returns
    -------
    ndarray of shape (n,) or None
        The labels.
    """
    if (X_test is None) != (y_test is None):
        missing = "X_test" if X_test is None else "y_test"
        raise ValueError(f"X_test and y_test must be given together, got no {missing}")
    if y_test is None:
        return None
    labels = np.asarray(y_test)
    n_points = X_test.shape[0] if hasattr(X_test, "shape") else len(X_test)
    if labels.shape != (n_points,) or n_points == 0:
        raise ValueError(
            f"y_test must hold one label for each of the {n_points} rows of X_test, and at least one, "
            f"got shape {labels.shape}"
        )
    return labels


def count_errors(labels: NDArray[Any], predicted: NDArray[Any]) -> int:
    """Count the labels that were predicted wrong.

    Parameters
    ----------
    labels, predicted : ndarray of shape (n,)
        True and predicted labels.

    Returns
    -------
    int
        Number of differences.

    Examples
    --------
    >>> count_errors(np.array(["a", "b", "b"]), np.array(["a", "b", "a"]))
    1
    """
    from sklearn.metrics import accuracy_score

    return labels.size - int(accuracy_score(labels, predicted, normalize=False))
