"""What estimators have in common that vote on classes: shares of the vote, and what is proved by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._estimator import CertifiedEstimator
from pacbayes._validation import Array
from pacbayes.fitting import SampleRows


class VotingEstimator(CertifiedEstimator):
    """An estimator whose answers are shares of a vote."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of the classes: shares of the vote, calibrated on training rows.

        Where the vote is weighted by training rows that its hypotheses were not trained on, these rows also say how
        much a share is worth: `certificate_.calibration`. The class with the largest share has the largest probability.
        With held-out rows, `certificate_.probabilities` has a bound on the Brier score, and limits of how often
        predictions of some probability are right. The randomised classifier and a single hypothesis have shares alone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, summing to one.
        """
        return np.concatenate(list(self.predict_batches(X, "predict_proba")))

    def predict_shares(self, X: Any) -> Array:
        """Return shares of the vote: the mean of the answers of all hypotheses, weighted by the posterior.

        The answer of a hypothesis that votes by probabilities are these, that of one that votes by labels is 1 for the
        class that it predicts. Of hypotheses that vote by labels alone, a share of 0.9 says that those with 90% of the
        weight agree: no calibrated probability. The lightest hypotheses, of a total weight of at most 1e-12, are not
        asked: a share is off by at most 1e-12.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Shares, summing to one.
        """
        return np.concatenate(list(self.predict_batches(X, "predict_shares")))

    def predict_selective(self, X: Any, max_error: float | None = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Predict labels, and say which of them are answers whose error is proved to be small.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        max_error : float, optional
            Largest error among answered points, chosen at any time: the rows of `certificate_.abstention` hold all at
            once, and the smallest threshold on the winner's share that proves it is taken. By default the error that
            was declared at the fit, ``fit(X, y, max_error=...)``, whose test is more powerful.

        Returns
        -------
        labels : ndarray of shape (n,)
            Predicted labels, as by `predict`.
        answered : ndarray of bool of shape (n,)
            Which of them are answers. About the others nothing is proved.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from pacbayes import PACBayesClassifier
        >>> X, y = make_moons(1000, noise=0.3, random_state=0)
        >>> model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(X, y)
        >>> labels, answered = model.predict_selective(X, max_error=0.1)
        """
        rows = self.open_rows(X)
        threshold = self.certificate_.choose_abstention(max_error).threshold
        labels, winners, shares = self._predict_with_shares(rows)
        return labels, shares[np.arange(winners.size), winners] >= threshold

    def predict_set(self, X: Any, coverage: float = 0.95) -> NDArray[np.bool_]:
        """Predict sets of classes, of which a share of at least `coverage` is proved to hold the true class.

        With probability 1 - delta over the draw of the sample, at least this share of new points has its class in its
        set. A set holds the class that `predict` returns, and those with a large enough share of the vote: it is never
        empty. `certificate_.choose_sets(coverage)` has the mean size of the sets of held-out points.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        coverage : float, default=0.95
            Share of sets that hold the true class, in (0, 1), declared before a look at the sets. Each level that is
            asked for holds with probability 1 - delta, and not all of them at once.

        Returns
        -------
        ndarray of bool of shape (n, n_classes)
            Which classes are in the set of each point.
        """
        rows = self.open_rows(X)
        threshold = self.certificate_.choose_sets(coverage).threshold
        _, winners, shares = self._predict_with_shares(rows)
        sets = np.asarray(shares >= threshold)
        sets[np.arange(winners.size), winners] = True
        return sets

    def _predict_with_shares(self, rows: SampleRows) -> tuple[NDArray[Any], NDArray[np.intp], Array]:
        """Return labels, their codes, and the shares of all classes."""
        labels = self.predict(rows)
        return labels, self.fitted_votes_.task.encode(labels), self.predict_shares(rows)

    def predict_batches(self, X: Any, method: str = "predict") -> Iterator[NDArray[Any]]:
        """Predict rows that may be more than the memory holds, and yield the results block by block, in order.

        Parameters
        ----------
        X : str, path-like, dask collection, Source or array-like
            Points, as in `fit`. Columns of a table are found by their names, and others ignored.
        method : {"predict", "predict_proba", "predict_shares"}, default="predict"
            What to yield: labels, probabilities or shares of the vote.

        Returns
        -------
        iterator of ndarray
            What `method` would return for the rows of each block. Arguments are checked at once, and rows read when
            they are asked for.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from pacbayes import PACBayesClassifier
        >>> X, y = make_moons(500, noise=0.1, random_state=0)
        >>> model = PACBayesClassifier(n_hypotheses=8, random_state=0).fit(X, y)
        >>> sum(labels.size for labels in model.predict_batches(X))
        500
        """
        if method not in ("predict", "predict_proba", "predict_shares"):
            raise ValueError(f"method must be 'predict', 'predict_proba' or 'predict_shares', got {method!r}")
        rows = self.open_rows(X)
        found, calibration = self._predict(rows, aggregated=method != "predict"), self.certificate_.calibration
        return found if method != "predict_proba" or calibration is None else map(calibration.apply, found)

    def decision_function(self, X: Any) -> Array:
        """Return the margin of the vote: share of the second class minus that of the first; for more classes, shares.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            Margins in [-1, 1], or shares of all classes.
        """
        shares = self.predict_shares(X)
        return np.asarray(shares[:, 1] - shares[:, 0]) if shares.shape[1] == 2 else shares
