"""PACBayesRegressor: scikit-learn's face of a certified mean of regressors."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from pacbayes._estimator import CERTIFIED, CONSTRAINTS, CertifiedEstimator
from pacbayes._losses import POWERS
from pacbayes._settings import Choice, Constraint
from pacbayes._validation import Array
from pacbayes.certificate import Objective
from pacbayes.pools import Pool, as_pool, make_union
from pacbayes.rows import Labels
from pacbayes.tasks import Regression, read_numbers

__all__ = ["PACBayesRegressor"]


class PACBayesRegressor(RegressorMixin, CertifiedEstimator):  # type: ignore[misc]
    """Many regressors of several families, weighted by minimising a PAC-Bayesian bound, with a certificate.

    Each of m hypotheses is trained on a subsample that is chosen without looking at the data, and validated on the
    other points. Their weighted mean is tested on rows that were held out, which prove how far it is off: on average,
    how often, and how wide intervals have to be to hold a share of new points. Nothing is assumed about the target.

    Parameters
    ----------
    estimator : Pool, regressor, list of fitted regressors or None, default=None
        The hypothesis space. None is a union of boosted trees, forests, linear models and kernel ridge regressions.
        Any scikit-learn regressor is cloned for every hypothesis.
    n_hypotheses, subsample_size, subsamples, delta, holdout, prior, racing, checkpoint, n_jobs, random_state, verbose
        As in `PACBayesClassifier`.
    objective : {"auto", "stacking", "relative", "lambda", "kl", "dual", "direct"}, default="auto"
        What the weights make small: the error of the weighted mean itself on rows outside of subsamples ("stacking",
        which "auto" stands for if rows are held out), the mean error of the hypotheses in units of the smallest
        ("relative"), or a bound, as in `PACBayesClassifier` ("auto" without held-out rows is "lambda").
    voting : {"mean", "best"}, default="mean"
        What predicts: the weighted mean, or the hypothesis with the smallest bound.
    loss : {"absolute_error", "squared_error"}, default="absolute_error"
        What the weights make small, and which mean the first statement of the certificate is about. The absolute error
        is the robust choice for targets with heavy tails. Both are capped, at a distance from the median that 99% of
        the targets of the training rows keep to, or at the width of `y_range`.
    y_range : tuple of two numbers or None, default=None
        A range that all targets are known to be in, declared without looking at the sample. Predictions are clipped to
        it, no error is larger than its width, and bounds hold without held-out rows as well: by Jensen's inequality the
        mean errs no more than its hypotheses do on average.

    compete_by : {"width", "error"}, default="width"
        Which of several means predicts that compete, each tested on rows of its own: the one with the narrowest
        intervals for 90% of new points, or with the smallest bound on its mean error.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved about the regressor.
    fitted_votes_ : FittedVotes
        All of it, as a value that nothing changes.
    votes_ : list of Vote
        The means that competed.
    posterior_, prior_, losses_, n_validation_, hypotheses_, subsamples_, lambda_, n_features_in_
        As in `PACBayesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from pacbayes import PACBayesRegressor
    >>> X, y = make_friedman1(500, random_state=0)
    >>> model = PACBayesRegressor(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> lower, upper = model.predict_interval(X, coverage=0.9).T
    >>> bool((lower < upper).all())
    True
    """

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        **CONSTRAINTS,
        "voting": Choice("mean", "best"),
        "loss": Choice(*POWERS),
        "compete_by": Choice("width", "error"),
    }
    _CERTIFIED: ClassVar[tuple[str, ...]] = (*CERTIFIED, "y_range", "compete_by")

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        subsamples: Any = None,
        delta: float = 0.05,
        objective: Objective | Literal["auto"] = "auto",
        voting: Literal["mean", "best"] = "mean",
        holdout: Any = "auto",
        prior: ArrayLike | None = None,
        loss: Literal["absolute_error", "squared_error"] = "absolute_error",
        y_range: tuple[float, float] | None = None,
        compete_by: Literal["width", "error"] = "width",
        racing: bool | Literal["training"] = True,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.subsamples = subsamples
        self.delta = delta
        self.objective = objective
        self.voting = voting
        self.holdout = holdout
        self.prior = prior
        self.loss = loss
        self.y_range = y_range
        self.compete_by = compete_by
        self.racing = racing
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _find_pool(self) -> Pool:
        return make_union(numeric=True) if self.estimator is None else as_pool(self.estimator)

    def _check_target(self, y: Any) -> None:
        read_numbers(y)

    def _learn_task(self, target: NDArray[Any] | Labels) -> tuple[Regression, Array]:
        return Regression.learn(target, self.y_range, self.compete_by)

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> Array:
        """Predict intervals, of which a share of at least `coverage` is proved to hold the target.

        With probability 1 - delta over the draw of the sample, at least this share of new points is in its interval:
        for this regressor, not on average over samples. An interval is wide where the hypotheses disagree.
        `certificate_.choose_interval(coverage)` has the mean width of the intervals of held-out points.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        coverage : float or sequence of float, default=0.9
            Share of intervals that hold the target, in (0, 1), declared before a look at the intervals. Each level that
            is asked for holds with probability 1 - delta, and not all of them at once.

        Returns
        -------
        ndarray of shape (n, 2), or (n, 2, levels) for several levels
            Lower and upper ends.
        """
        rows, certificate = self.open_rows(X), self.certificate_
        levels = np.asarray(coverage, dtype=np.float64)
        if levels.ndim > 1 or levels.size == 0:
            raise ValueError(f"coverage must be a number or a sequence of numbers, got {coverage!r}")
        thresholds = np.array([certificate.choose_interval(level).threshold for level in levels.ravel().tolist()])
        answers = np.concatenate(list(self._predict(rows, aggregated=True)))
        half = np.multiply.outer(answers[:, 1] + certificate.scale_floor, thresholds)
        ends = np.stack((answers[:, :1] - half, answers[:, :1] + half), axis=1)
        limits = self.fitted_votes_.task.parameters()["y_range"]
        if limits is not None:
            ends = np.clip(ends, *limits)
        return np.asarray(ends[:, :, 0] if levels.ndim == 0 else ends)

    def predict_hypotheses(self, X: Any) -> Array:
        """Predict numbers with every hypothesis alone, of shape (m, n), clipped to `y_range` if there is one."""
        numbers = np.concatenate([self.hypotheses_.votes(points) for points in self.open_rows(X).batches()], axis=1)
        limits = self.fitted_votes_.task.parameters()["y_range"]
        return numbers if limits is None else np.clip(numbers, *limits)
