"""Check the model and the test set that a display or a report is made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._losses import is_of_probabilities
from pacbayes.certificate import Certificate, Statement


def check_certificate(certificate: Any) -> Certificate:
    """Return the certificate, or raise if it is none."""
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
    return certificate


def check_fitted(estimator: Any) -> Any:
    """Return the estimator, or raise if it is not a fitted one with a certificate and the votes behind it."""
    # Imported here because scikit-learn takes long to import.
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(estimator, "verify_certificate"):
        raise TypeError(
            f"estimator must have a certificate, as a PACBayesClassifier has, got {type(estimator).__name__}; of a "
            "pipeline, give the last step, and test points as they arrive there"
        )
    check_is_fitted(estimator, ["votes_", "certificate_"])
    return estimator


def check_test_labels(X_test: Any, y_test: ArrayLike | None) -> NDArray[Any] | None:
    """Return the labels of the test points as an array, or None if there are no test points."""
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


def state_test(
    model: Any, X_test: Any, y_test: ArrayLike | None, counted: tuple[int, int] | None = None
) -> Statement | None:
    """Return what test points prove about what `predict` does, None without any.

    They are predicted here and nowhere else: the randomised classifier predicts otherwise in every call. `counted` is
    the number of errors and of points of a test that was made before.
    """
    labels = check_test_labels(X_test, y_test)
    certificate = model.certificate_
    if labels is not None and counted is None:
        if not is_of_probabilities(certificate.loss):
            statement: Statement = model.certify(X_test, labels).statements[0]
            return statement
        counted = model.count_errors(X_test, labels), labels.size
    if counted is None:
        return None
    figures = {"errors": counted[0], "n": counted[1], "kl_div": 0.0}
    return Statement.by("test-set", certificate.predictor, "zero_one", certificate.delta, figures)
