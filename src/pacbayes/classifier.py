"""PACBayesClassifier: scikit-learn's face of a certified vote of classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, is_regressor

from pacbayes._estimator import CertifiedEstimator
from pacbayes._losses import ZERO_ONE
from pacbayes._validation import Array
from pacbayes.certificate import Certificate, Objective, Voting, choose_voters, with_unlabelled
from pacbayes.fitting import SampleRows, evaluate_on_rows
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.rows import Labels
from pacbayes.tasks import Classification

__all__ = ["PACBayesClassifier"]


class PACBayesClassifier(ClassifierMixin, CertifiedEstimator):
    """Many classifiers of several families, weighted by minimising a PAC-Bayesian bound, with a certificate.

    Each of m hypotheses is trained on a subsample that is chosen without looking at the data, and validated on the
    other points. The posterior over hypotheses minimises a PAC-Bayesian bound (Theorem PBaggregation): there is
    nothing to cross-validate, and the certificate bounds the true error.

    Parameters
    ----------
    estimator : Pool, classifier, list of fitted classifiers or None, default=None
        The hypothesis space. None takes RBF-kernel SVMs, boosted trees, forests and logistic regressions together
        (`pacbayes.pools.make_union()`), for numbers and for tables with text and gaps; families that cannot take the
        rows, such as trees a sparse matrix, are left out. `RBFSVMPool()` takes the paper's SVMs alone. Any scikit-learn
        classifier, pipelines included, is trained on each subsample (`EstimatorPool`). A list of classifiers that were
        trained on other data is validated and weighted as it is (`PrefitPool`). Several of these share one vote in a
        `UnionPool`. Settings of the hypotheses are settings of the pool: ``RBFSVMPool(C=..., scaler=...)``,
        ``EstimatorPool(tree, param_distributions=...)``.
    n_hypotheses : int or "auto", default="auto"
        Number m of hypotheses. "auto" is up to the pool: 45 SVMs for each subsample size, a few larger models of the
        other families. A number is divided among families in proportion to these.
    subsample_size : int, float, "auto", "paper" or sequence of int and float, default="auto"
        Number r of training points of a hypothesis: a number of points, a fraction of the sample, or several
        of them, taken in turn, by every family. "paper" is d + 1, or sqrt(n) where d <= 3. "auto" is up to the pool:
        for SVMs a ladder of 1/8, 1/4, 1/2, 0.65 and 0.8 of the sample, or of 2500 points where there are more, among
        whose rungs the posterior chooses; for trees and logistic regressions most of the rows, however many.
    subsamples : splitter, sequence of index arrays or None, default=None
        Training sets instead of random ones: the training folds of a scikit-learn splitter (not a stratified one:
        they must be chosen without labels), or row numbers. `n_hypotheses` and `subsample_size` must be "auto" then.
    delta : float, default=0.05
        Probability with which the certificate may fail, in (0, 1).
    objective : {"auto", "lambda", "kl", "dual", "direct", "relative", "stacking"}, default="auto"
        The bound that the posterior minimises: the paper's PAC-Bayes-lambda, PAC-Bayes-kl itself, or the dual or direct
        bound, which take every hypothesis by its own number of validation points. "auto" is "direct" for the randomised
        classifier, whose bound it makes smallest, and "lambda" otherwise, whose weights vote better. The others bound
        nothing, and are for votes that are tested: "relative" is the mean loss in units of the smallest one, "stacking"
        the Brier score of the vote itself on rows outside of subsamples, not for "gibbs".
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        What `predict` does: the weighted majority vote; a hypothesis drawn from the posterior for every point, anew
        in every call; the hypothesis with the smallest bound; the unweighted vote (weighted by the prior).
    holdout : float, int, sequence of these, splitter, "auto" or None, default="auto"
        Share or number of rows that are reserved for nothing but the certificate of what `predict` does: it is then the
        exact bound of a test set (Clopper-Pearson). With several shares, as many votes are made, each from its own
        draw of the other rows, and compete under one delta: the one with the smallest bound predicts. A splitter gives
        the rows of each vote by its test folds, such as `sampling.Partition`, whose parts have no row in common. "auto"
        is up to the pool: three parts of the sample for families (a half and two quarters; thirds of fewer than 400
        rows), (0.5, 0.35) for SVMs alone; but None for the best hypothesis, whose bound is smaller without, and where
        subsamples are given as row numbers or the loss is one of probabilities. None is the paper: one vote, all rows,
        PAC-Bayesian bounds.
    prior : array-like of shape (m,), optional
        Prior over the hypotheses of a vote, as probabilities or log-probabilities, chosen without looking at the data.
        Uniform by default, in a union within the share of each family; without held-out rows, proportional to the
        number of validation points, unless voting is "uniform".
    loss : {"zero_one", "absolute", "brier"}, callable or array-like, default="zero_one"
        What the certificate bounds: a loss in [0, 1] of the predicted label, of the predicted probabilities, a
        function of (true, predicted) labels, or a matrix of costs by true and predicted class, which is divided by the
        largest cost. Weights and certificate are about it; with costs, a vote that is tested on held-out rows predicts
        the class of the smallest expected cost by its shares. Without them, votes are bounded for "zero_one" only.
    racing : bool or "training", default=True
        Whether to drop hypotheses before they are validated on all points, once they will hardly get weight any more:
        wherever that was measured, less than 1e-9 of the posterior's mass. "training" also trains from small
        subsamples to large ones, and leaves out those whose kind (kernel width, C, scaler) lost on smaller ones: about
        twice as fast on the paper's datasets, but what is left out would have had 39% to 91% of the mass. The
        certificate is as true as without: what is dropped has weight 0, and keeps its share of the prior. False trains
        and validates every one in full. Without effect for ``voting="uniform"``, which gives weight to all.
    n_jobs : int, optional
        Workers for training and validation, by joblib: threads for the default's families, which release the
        interpreter's lock, and its current backend for other base learners. Threads also predict with SVMs, where there
        are many points.
    checkpoint : path-like or None, default=None
        Folder in which finished parts of a fit are kept: a fit that was stopped goes on where it was. A folder belongs
        to one fit, of the same data with the same settings, and can be deleted when it is done. Base learners of an
        `EstimatorPool` are trained again; what is kept of them are their validation losses.
    random_state : int, RandomState instance or None, default=None
        Seed of subsamples, hypotheses and randomised prediction.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved about the classifier.
    fitted_votes_ : FittedVotes
        All of it, as a value that nothing changes.
    votes_ : list of Vote
        The votes that competed, each with its `bound`, `certificate`, `hypotheses`, `posterior` and `predict`. The
        attributes below are those of the winner.
    prior_ : ndarray of shape (m,) or None
        Prior of the hypotheses; None if it is uniform.
    posterior_ : ndarray of shape (m,)
        Weights rho of the hypotheses.
    losses_ : ndarray of shape (m,)
        Their validation losses; NaN for hypotheses that were dropped.
    lambda_ : float or None
        Trade-off lambda of the posterior.
    n_validation_ : ndarray of shape (m,)
        Number of points each hypothesis was validated on: all outside its subsample, or fewer if it was dropped.
    hypotheses_ : Hypotheses
        The trained hypotheses, a sequence: ``hypotheses_[h].predict(X)`` returns labels.
    subsamples_ : Subsamples
        Their training sets: ``subsamples_[h]`` is drawn again from the seed. `subsamples_.families` says which
        hypotheses are of which family.
    classes_ : ndarray
        The class labels.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Where rows are held out, the posterior has nothing to do but to weight: so hypotheses are trained on most of the
    other rows. Several votes, each trained on its own draw of rows, smooth the luck of one split for a share of delta.
    Trees and logistic regressions divide their weight in the vote by their probabilities, SVMs give theirs to a label.
    Without held-out rows all vote by labels, which is what PAC-Bayesian bounds on a vote are about, and so are
    validation losses in any case. Figures are in `benchmarks/RESULTS.md`.

    References
    ----------
    .. [1] N. Thiemann, C. Igel, O. Wintenberger, Y. Seldin. A strongly quasiconvex PAC-Bayesian bound. ALT, 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=40, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98, model.certificate_.bound < 0.05
    (True, True)
    >>> list(model.subsamples_.families)
    ['boosting', 'forest', 'linear', 'svm']
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        subsamples: Any = None,
        delta: float = 0.05,
        objective: Objective | Literal["auto"] = "auto",
        voting: Voting = "majority",
        holdout: Any = "auto",
        prior: ArrayLike | None = None,
        loss: Any = "zero_one",
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
        self.racing = racing
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels."""
        return self.hypotheses_.classes  # type: ignore[no-any-return]

    def _check_settings(self) -> None:
        super()._check_settings()
        learner = getattr(self.estimator, "estimator", None) or self.estimator  # of a pool
        if hasattr(learner, "predict") and is_regressor(learner):
            raise ValueError(f"estimator must be a classifier, got the regressor {type(learner).__name__}")
        if (self.objective, self.voting) == ("stacking", "gibbs"):
            raise ValueError(
                "objective must not be 'stacking' for voting='gibbs', which draws hypotheses: it is about their vote"
            )

    def _learn_task(self, target: NDArray[Any] | Labels) -> tuple[Classification, NDArray[np.intp]]:
        return Classification.learn(target)

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, of shape (n, n_classes): shares of the vote, calibrated on training rows.

        Training rows that hypotheses were not trained on say how much a share is worth: `certificate_.calibration`. The
        class with the largest share has the largest probability. With held-out rows, `certificate_.probabilities` has a
        bound on the Brier score, and limits of how often predictions of some probability are right. The randomised
        classifier and a single hypothesis have shares alone.
        """
        return np.concatenate(list(self.predict_batches(X, "predict_proba")))

    def predict_shares(self, X: Any) -> Array:
        """Return shares of the vote, of shape (n, n_classes): the weighted mean of the answers of all hypotheses.

        The answer of a hypothesis that votes by probabilities are these, that of one that votes by labels is 1 for the
        class that it predicts. Of hypotheses that vote by labels alone, a share of 0.9 says that those with 90% of the
        weight agree: no calibrated probability. The lightest hypotheses, of a total weight of at most 1e-12, are not
        asked: a share is off by at most 1e-12.
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
        labels, is_winner, shares = self._predict_with_shares(rows)
        return labels, shares[is_winner] >= threshold

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
        _, is_winner, shares = self._predict_with_shares(rows)
        return np.asarray(is_winner | (shares >= threshold))

    def _predict_with_shares(self, rows: SampleRows) -> tuple[NDArray[Any], NDArray[np.bool_], Array]:
        labels = self.predict(rows)
        return labels, labels[:, np.newaxis] == self.classes_, self.predict_shares(rows)

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
            What `method` would return for the rows of each block, which are read when they are asked for.

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
        """Return the margin of the vote: share of the second class minus that of the first; of more classes, shares."""
        shares = self.predict_shares(X)
        return np.asarray(shares[:, 1] - shares[:, 0]) if shares.shape[1] == 2 else shares

    def predict_hypotheses(self, X: Any) -> NDArray[Any]:
        """Predict labels with every hypothesis alone, of shape (m, n)."""
        votes = [self.hypotheses_.votes(points) for points in self.open_rows(X).batches()]
        return np.asarray(self.classes_[np.concatenate(votes, axis=1)])

    def count_errors(self, X: Any, y: ArrayLike) -> int:
        """Count the errors of what `predict` does: predictions that rounding could change on another engine are errors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : array-like of shape (n,)
            Their labels. A label that the classifier does not know counts as an error.
        """
        rows = self._open_labelled(X, y)
        return int(evaluate_on_rows(self.fitted_votes_.best, rows, ZERO_ONE, self._prediction_stream).total)

    def _certify_unlabelled(self, certificate: Certificate, rows: SampleRows) -> Certificate:
        if certificate.voting == "gibbs":
            raise ValueError("y must be given for voting='gibbs': without labels only a vote can be certified")
        vote = self.fitted_votes_.best
        kl_divs = GibbsCurve(np.zeros(vote.losses.size), 1.0, vote.prior).point_mass_kls()
        validated = np.flatnonzero(~np.isnan(vote.losses))
        rho, losses, n, kls = (array[validated] for array in (vote.posterior, vote.losses, vote.seen, kl_divs))
        voters = validated[choose_voters(rho, losses, n, kls, certificate.delta)]  # type: ignore[arg-type]
        asked, disagreements = vote.hypotheses.take(voters), np.zeros(voters.size, dtype=np.intp)
        for points in rows.batches():
            decided, uncertain = vote.task.predict(vote.hypotheses, vote.posterior, points)
            votes, others = asked.votes_and_uncertain(points)
            disagreements += np.count_nonzero((votes != decided) | others | uncertain, axis=1)
        return with_unlabelled(
            certificate, vote.losses[voters], vote.seen[voters], kl_divs[voters], disagreements, len(rows)
        )
