"""PACBayesClassifier: the wiring of sampling, pools, posterior and certificate."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, Literal

import joblib
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pacbayes._compat import take_rows
from pacbayes._validation import Array
from pacbayes.certificate import Objective, Voting, certify, checked_settings
from pacbayes.gibbs import GibbsCurve
from pacbayes.losses import Loss, resolve_loss
from pacbayes.pools import EstimatorPool, Pool, PrefitPool, RBFSVMPool
from pacbayes.sampling import (
    FoldSubsamples,
    GivenSubsamples,
    NoSubsamples,
    RandomSubsamples,
    Subsamples,
    reserve,
)

__all__ = ["PACBayesClassifier"]

# Measured on the paper's datasets (benchmarks/RESULTS.md): more hypotheses, or a ladder that ends elsewhere than at
# half of the sample, gain little or lose.
_HYPOTHESES_PER_SIZE = 100
_LARGEST_SHARE = 0.5
# A hypothesis on r points needs its r x r kernel matrix: beyond this it is no weak classifier any more.
_LARGEST_SIZE = 2000

# Parameters that hypotheses and their validation losses come from: a warm start cannot change them.
_SHAPING = (
    "estimator",
    "subsample_size",
    "subsamples",
    "param_distributions",
    "loss",
    "gamma_source",
    "scaler",
    "C",
    "reserved_size",
    "on_error",
)

# What a kernel value takes in validation, roughly.
_SECONDS_PER_KERNEL_VALUE = 1e-9

# Voters asked together when the vote is not decided yet: few at first, since a handful usually decides.
_FIRST_VOTERS, _MOST_VOTERS = 4, 256


class PACBayesClassifier(ClassifierMixin, BaseEstimator):
    """Many weak classifiers, weighted by minimising a PAC-Bayesian bound, with a certificate.

    Each of m hypotheses is trained on a small subsample that is chosen without looking at the data, and validated
    on the other points. The posterior over hypotheses minimises a PAC-Bayesian bound (Theorem PBaggregation): there is
    nothing to cross-validate, and the certificate bounds the true error.

    Parameters
    ----------
    estimator : classifier, list of fitted classifiers or None, default=None
        What is trained on each subsample: any scikit-learn classifier, pipelines included. None takes the paper's
        RBF-kernel SVMs. A list of classifiers that were trained on other data is validated and weighted as it
        is, see `from_prefit`.
    n_hypotheses : int or "auto", default="auto"
        Number m of hypotheses. "auto" takes 100 for each subsample size.
    subsample_size : int, float, "auto", "paper" or sequence of int and float, default="auto"
        Number r of training points of a hypothesis: a number of points, a fraction of the sample, or several
        of them, taken in turn. "paper" is d + 1, or sqrt(n) where d <= 3. "auto" is a ladder that doubles
        from there up to half of the sample, or 2000 points: the posterior chooses among its rungs.
    subsamples : splitter, sequence of index arrays or None, default=None
        Training sets instead of random ones: the training folds of a scikit-learn splitter (not a stratified one:
        they must be chosen without labels), or row numbers. Overrides `n_hypotheses` and `subsample_size`.
    delta : float, default=0.05
        Probability with which the certificate may fail, in (0, 1).
    objective : {"lambda", "kl"}, default="lambda"
        The bound that the posterior minimises: the paper's PAC-Bayes-lambda, or PAC-Bayes-kl itself.
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        What `predict` does: the weighted majority vote; a hypothesis drawn from the posterior for every point; the
        hypothesis with the smallest validation loss; the unweighted vote (weighted by the prior).
    prior : array-like of shape (m,), optional
        Prior as probabilities or log-probabilities, chosen without looking at the data; uniform by default.
    param_distributions : dict, optional
        Parameters of `estimator` to draw at random for each hypothesis, as in `ParameterSampler`.
    loss : {"zero_one", "absolute", "brier"}, callable or array-like, default="zero_one"
        What the certificate bounds: a loss in [0, 1] of the predicted label, of the predicted probabilities, a
        function of (true, predicted) labels, or a cost matrix. The vote is bounded for "zero_one" only.
    gamma_source : {"subsample", "reserved", "sample"}, default="subsample"
        Where the default SVMs take the seed of their kernel width and their scaling from: each from its own
        subsample; from reserved points, used for nothing else; or, as in the paper, from the whole sample,
        validation points included, for which the theorem is not proved and the certificate not strict.
    scaler : {"minmax", "standard"} or None, default=None
        Scaling of the features for the default SVMs.
    C : float or sequence of float, default=(10.0, 100.0, 1000.0)
        Soft-margin parameter of the default SVMs, or several to draw from at random. All of these separate a
        small subsample, which is all the paper asks for; at the upper rungs of the ladder they begin to differ.
    reserved_size : int or float, default=0.1
        Number or fraction of points set aside for ``gamma_source="reserved"``.
    on_error : {"raise", "drop"}, default="raise"
        What to do if a hypothesis cannot be trained: raise, or count its loss as 1 so that the bound stays true.
    warm_start : bool, default=False
        Whether `fit` keeps the hypotheses of the last call, on the same data, and trains only the missing ones. To add
        until the bound looks good is to choose the prior by the data: decide on `n_hypotheses` beforehand.
    block_size : int, default=65536
        Rows that are validated or predicted at a time.
    working_memory : float, default=512
        MiB that the default SVMs may take for the votes of a block of rows, in training and in prediction; blocks are
        made smaller to fit. The kernel matrix of a subsample of r points, 12 r^2 bytes per worker, comes on top.
    n_jobs : int, optional
        Workers for training and validation, by joblib: threads for the default SVMs, which release the interpreter's
        lock, and its current backend for other base learners.
    random_state : int, RandomState instance or None, default=None
        Seed of subsamples, hypotheses and randomised prediction.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved about the classifier.
    posterior_ : ndarray of shape (m,)
        Weights rho of the hypotheses.
    losses_ : ndarray of shape (m,)
        Their validation losses.
    lambda_ : float or None
        Trade-off lambda of the posterior.
    n_validation_ : ndarray of shape (m,)
        Number of points each hypothesis was validated on.
    hypotheses_ : sequence
        The trained hypotheses: a list of estimators or, for the default SVMs, a sequence of
        `pacbayes.pools.RBFSVM`.
    subsamples_ : Subsamples
        Their training sets: ``subsamples_[h]`` is drawn again from the seed.
    classes_ : ndarray
        The class labels.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The ladder of "auto" begins where the paper's experiments end, at r = d + 1, and lets the posterior choose. With
    validation sets of n - r points, the bound is governed by the smallest of them, (KL + ln(2 sqrt(n_max) / delta)) /
    n_min, so longer ladders help the classifiers and hurt the bound. On the paper's eight datasets a ladder up to n / 2
    has the smallest test loss: up to n / 3 it is worse where only one rung remains, up to 2 n / 3 it gains nothing and
    the bound grows. Beyond some 200 hypotheses in all, more of them change little. The figures are in
    `benchmarks/RESULTS.md`.

    References
    ----------
    .. [1] N. Thiemann, C. Igel, O. Wintenberger, Y. Seldin. A strongly quasiconvex PAC-Bayesian bound. ALT, 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=100, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98, model.certificate_.gibbs_bound < 0.05
    (True, True)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        subsamples: Any = None,
        delta: float = 0.05,
        objective: Objective = "lambda",
        voting: Voting = "majority",
        prior: ArrayLike | None = None,
        param_distributions: dict[str, Any] | None = None,
        loss: Any = "zero_one",
        gamma_source: Literal["subsample", "reserved", "sample"] = "subsample",
        scaler: Literal["minmax", "standard"] | None = None,
        C: float | Sequence[float] = (10.0, 100.0, 1000.0),
        reserved_size: int | float = 0.1,
        on_error: Literal["raise", "drop"] = "raise",
        warm_start: bool = False,
        block_size: int = 65536,
        working_memory: float = 512.0,
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
        self.prior = prior
        self.param_distributions = param_distributions
        self.loss = loss
        self.gamma_source = gamma_source
        self.scaler = scaler
        self.C = C
        self.reserved_size = reserved_size
        self.on_error = on_error
        self.warm_start = warm_start
        self.block_size = block_size
        self.working_memory = working_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_prefit(cls, estimators: Iterable[Any], X: Any, y: ArrayLike, **parameters: Any) -> PACBayesClassifier:
        """Aggregate classifiers that were trained elsewhere, by their losses on a validation set.

        Parameters
        ----------
        estimators : iterable of fitted classifiers
            The hypotheses, none of which has seen the validation points.
        X, y : array-like
            Validation points and labels.
        **parameters
            Parameters of the classifier, such as `delta`, `objective`, `prior` or `voting`.

        Returns
        -------
        PACBayesClassifier
            The certified ensemble.
        """
        return cls([FrozenEstimator(estimator) for estimator in estimators], **parameters).fit(X, y)

    # -----------------------------------------------------------------------------------------------
    # Training
    # -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> PACBayesClassifier:
        """Train the hypotheses, validate them, and weight them by minimising the bound.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training points.
        y : array-like of shape (n,)
            Labels.
        **fit_params
            None are accepted. `sample_weight` in particular is refused: the theorem is about the average loss of
            identically distributed points, and weights would change whose error is bounded.

        Returns
        -------
        PACBayesClassifier
            The fitted classifier.
        """
        if "sample_weight" in fit_params:
            raise ValueError(
                "sample_weight is not supported: the certificate bounds the expected loss of points drawn like the "
                "sample, and a weighted average of losses is not what the theorem is about. Resample the data "
                "to the distribution of interest beforehand, or put the weights into `loss` as a cost matrix."
            )
        if fit_params:
            raise TypeError(f"fit takes no parameters besides X and y, got {sorted(fit_params)}")
        self._check_parameters()
        X, labels = self._checked_data(X, y)
        classes, codes = np.unique(labels, return_inverse=True)
        if classes.size < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {classes.tolist()[0]!r}")
        loss = resolve_loss(self.loss, classes)
        made_of = self._made_of(X, codes)
        entropy, totals_kept, trained_kept = self._continued(made_of)
        reference, rest = self._set_aside(labels.size, entropy)
        pool = self._pool(classes, entropy, None if reference is None else (take_rows(X, reference), codes[reference]))
        if rest is not None:
            X, codes = take_rows(X, rest), codes[rest]
        pool.check_loss(loss)
        subsamples = self._subsamples(X, entropy)
        if len(subsamples) < len(trained_kept):
            raise ValueError(
                f"n_hypotheses must be at least the {len(trained_kept)} that warm_start keeps, got {len(subsamples)}"
            )
        if self.prior is not None:
            GibbsCurve(np.zeros(len(subsamples)), 1.0, self.prior)  # says what is wrong with a prior
        trained, totals = self._train(pool, X, codes, subsamples, loss, range(len(trained_kept), len(subsamples)))
        trained = pool.join([part for part in (trained_kept, trained) if len(part)])
        totals = np.concatenate((totals_kept, totals))
        pool.remember(X, trained)
        n_validation = subsamples.n_validation
        losses = totals / n_validation
        certificate, rho = certify(
            losses,
            int(n_validation.min()),
            n_max=int(n_validation.max()),
            delta=self.delta,
            prior=self.prior,
            objective=self.objective,
            voting=self.voting,
            loss=loss.name,
            strict=self._strict(),
            assumptions=self._assumptions(),
        )
        # Nothing is set before everything has succeeded: no half-fitted state.
        self.classes_ = classes
        self.hypotheses_ = trained
        self.subsamples_ = subsamples
        self.losses_ = losses
        self.n_validation_ = n_validation
        self.posterior_ = rho
        self.certificate_ = certificate
        self.lambda_ = certificate.lam
        self._totals = totals
        self._pool_ = pool
        self._entropy = entropy
        self._made_of_ = made_of
        return self

    def _check_parameters(self) -> None:
        """Refuse what no data could make right, before anything is trained; the rest is checked where it is used."""
        checked_settings(self.delta, self.objective, self.voting)
        choices = {
            "gamma_source": ("subsample", "reserved", "sample"),
            "scaler": (None, "minmax", "standard"),
            "on_error": ("raise", "drop"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {value!r}")
        if self.n_hypotheses != "auto":
            _check_whole("n_hypotheses", self.n_hypotheses, "a whole number, at least 1, or 'auto'")
        _check_whole("block_size", self.block_size, "a whole number, at least 1")
        if not (isinstance(self.working_memory, Real) and 0 < float(self.working_memory) < math.inf):
            raise ValueError(f"working_memory must be a positive number of MiB, got {self.working_memory!r}")
        self._softness()

    def _checked_data(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        X, y = validate_data(self, X, y, **self._checks(X))
        labels = np.asarray(y)
        if labels.shape != (X.shape[0],):
            raise ValueError(f"y must hold one label for each of the {X.shape[0]} rows of X, got shape {labels.shape}")
        check_classification_targets(labels)
        return X, labels

    def _checks(self, X: Any) -> dict[str, Any]:
        """What `validate_data` is to check in X, in training and in prediction."""
        if self.estimator is None:
            # The default SVMs take numbers, sparse unless they are to be scaled.
            sparse = "csr" if self.scaler is None else False
            return {"accept_sparse": sparse, "accept_large_sparse": False, "dtype": [np.float64, np.float32]}
        if hasattr(X, "columns") or hasattr(X, "schema"):
            # What a data frame holds is the business of the base learner.
            return {"skip_check_array": True}
        tags = get_tags(self)
        return {
            "accept_sparse": "csr",
            "accept_large_sparse": False,
            "ensure_all_finite": not tags.input_tags.allow_nan,
            "dtype": None if tags.input_tags.string or tags.input_tags.categorical else "numeric",
        }

    def _softness(self) -> Array:
        """The soft-margin parameters to draw from."""
        softness = np.atleast_1d(np.asarray(self.C, dtype=np.float64))
        if not (softness.ndim == 1 and softness.size and np.all((softness > 0) & (softness < np.inf))):
            raise ValueError(f"C must be one or several positive, finite numbers, got {self.C!r}")
        return softness

    def _made_of(self, X: Any, codes: NDArray[np.intp]) -> dict[str, str] | None:
        """Fingerprints of what hypotheses and their losses come from, if a later fit may continue this one."""
        if not self.warm_start:
            return None
        shaping = {name: getattr(self, name) for name in _SHAPING}
        return {name: joblib.hash(value) for name, value in {"X": X, "y": codes, **shaping}.items()}

    def _continued(self, made_of: dict[str, str] | None) -> tuple[int, Array, Any]:
        """The seed of all streams, and the totals and hypotheses that a warm start keeps."""
        if made_of is not None and hasattr(self, "hypotheses_"):
            if self._made_of_ is None:
                raise ValueError("warm_start continues a fit that had warm_start=True too: set it before the first fit")
            changed = [name for name in made_of if made_of[name] != self._made_of_[name]]
            if changed:
                raise ValueError(
                    f"warm_start continues on the same data with the same settings, but {', '.join(changed)} changed "
                    "since the last fit: the losses of the hypotheses it keeps would be wrong"
                )
            return self._entropy, self._totals, self.hypotheses_
        if self.random_state is None:
            entropy = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        elif isinstance(self.random_state, Integral):
            entropy = int(self.random_state)
        else:
            entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
        return entropy, np.zeros(0), []

    def _set_aside(self, n: int, entropy: int) -> tuple[NDArray[np.intp] | slice | None, NDArray[np.intp] | None]:
        """Rows that all hypotheses take their kernel widths and scaling from, and the rows left for them."""
        if self.estimator is None and self.gamma_source == "sample":
            return slice(None), None
        if self.estimator is None and self.gamma_source == "reserved":
            return reserve(n, _resolve_size("reserved_size", self.reserved_size, n), entropy)
        return None, None

    def _pool(self, classes: NDArray[Any], entropy: int, reference: tuple[Any, NDArray[np.intp]] | None) -> Pool:
        """The hypothesis space."""
        if self.estimator is None:
            # Workers share the memory between them.
            memory = float(self.working_memory) / _threads(self.n_jobs)[0]
            return RBFSVMPool(classes, entropy, self._softness(), self.scaler, reference, self.on_error, memory)
        if self._is_prefit():
            return PrefitPool(classes, self.estimator)
        return EstimatorPool(classes, self.estimator, entropy, self.param_distributions, self.on_error)

    def _subsamples(self, X: Any, entropy: int) -> Subsamples:
        n, d = X.shape
        if self._is_prefit():
            return NoSubsamples(n, len(self.estimator))
        if hasattr(self.subsamples, "split"):
            return FoldSubsamples(n, self.subsamples)
        if self.subsamples is not None:
            return GivenSubsamples(n, list(self.subsamples))
        sizes = subsample_sizes(self.subsample_size, n, d)
        m = _HYPOTHESES_PER_SIZE * len(sizes) if self.n_hypotheses == "auto" else int(self.n_hypotheses)
        return RandomSubsamples(n, sizes, m, entropy)

    def _train(
        self,
        pool: Pool,
        X: Any,
        codes: NDArray[np.intp],
        subsamples: Subsamples,
        loss: Loss,
        hypotheses: range,
    ) -> tuple[Any, Array]:
        """Train and validate a range of hypotheses, in parts that any worker may take."""
        workers = _threads(self.n_jobs)[0] if pool.shares_rows else effective_n_jobs(self.n_jobs)
        chunks = _parts(hypotheses, max(20, 4 * workers))
        if not pool.shares_rows:
            whole = [(pool, X, codes, subsamples, loss, chunk, self.block_size) for chunk in chunks]
            results = list(self._run(_train_chunk, whole, "hypotheses"))
            totals = [part for _, part in results]
            return pool.join([part for part, _ in results]), np.concatenate([np.zeros(0), *totals])
        parts = list(self._run(pool.fit, [(X, codes, subsamples, chunk) for chunk in chunks], "training", threads=True))
        if not parts:
            return [], np.zeros(0)
        trained = pool.join(parts)
        # Two parts per worker, and more where they would take long: half a second each, so that interrupts are heard.
        long = math.ceil(subsamples.sizes.sum() * codes.size * _SECONDS_PER_KERNEL_VALUE / 0.5)
        count = max(2 * workers, math.ceil(codes.size / self.block_size), long)
        # As many for each worker: the last should not work alone.
        blocks = _parts(range(codes.size), math.ceil(count / workers) * workers)
        tasks = [(trained, X, codes, subsamples, hypotheses, rows, loss) for rows in blocks]
        return trained, sum(self._run(pool.loss_totals, tasks, "validation", threads=True), np.zeros(len(hypotheses)))

    def _run(
        self, function: Callable[..., Any], tasks: list[tuple[Any, ...]], what: str, threads: bool = False
    ) -> Iterable[Any]:
        """Results of the tasks, in their order, by as many workers as asked for."""
        workers, shared_memory = _threads(self.n_jobs)
        if threads and workers > 1 and shared_memory:
            # Plain threads: joblib waits for its own in steps of 10 ms, which is a tenth of a fit.
            with ThreadPoolExecutor(workers) as executor:
                yield from _progress(executor.map(lambda task: function(*task), tasks), len(tasks), self.verbose, what)
            return
        backend, _ = get_active_backend()
        as_they_come = getattr(backend, "supports_return_generator", False)
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator" if as_they_come else "list")
        results = parallel(delayed(function)(*task) for task in tasks)
        yield from _progress(results, len(tasks), self.verbose, what)

    def _is_prefit(self) -> bool:
        return isinstance(self.estimator, (list, tuple))

    def _strict(self) -> bool:
        return not (self.estimator is None and self.gamma_source == "sample")

    def _assumptions(self) -> list[str]:
        """What has to be true for the certificate to hold."""
        assumptions = [
            "the sample is independent and identically distributed, and so are the points to predict",
        ]
        if self._is_prefit():
            assumptions.append("the classifiers were trained without the validation points")
        elif self.subsamples is not None and not hasattr(self.subsamples, "split"):
            assumptions.append("the caller chose the subsamples without looking at features or labels")
        else:
            assumptions.append("subsamples were chosen without looking at features or labels (by construction)")
        if self.estimator is None:
            what = "kernel widths" if self.scaler is None else "kernel widths and scaling"
            assumptions.append(
                {
                    "subsample": f"{what} came from each subsample alone (by construction)",
                    "reserved": f"{what} came from reserved points, used in no validation set (by construction)",
                    "sample": f"{what} came from the whole sample, validation points included, as in the paper: "
                    "the theorem does not cover this",
                }[self.gamma_source]
            )
        elif not self._is_prefit():
            assumptions.append("the base learner was configured without looking at the sample")
        if self.prior is not None:
            assumptions.append("the prior was chosen without looking at the sample")
        if self.warm_start:
            assumptions.append("the number of hypotheses was not chosen by looking at the bound")
        return assumptions

    # -----------------------------------------------------------------------------------------------
    # Prediction
    # -----------------------------------------------------------------------------------------------

    def _checked_points(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **self._checks(X))

    def _blocks(self, X: Any) -> Iterable[Any]:
        for start in range(0, X.shape[0], self.block_size):
            yield take_rows(X, np.arange(start, min(start + self.block_size, X.shape[0])))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, in the way that `voting` says.

        The vote asks hypotheses in order of falling weight, and stops for each point once the remaining weight
        cannot change its label: the result is that of asking all of them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels.
        """
        X = self._checked_points(X)
        if self.voting == "gibbs":
            rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
            codes = [self._draw(block, rng) for block in self._blocks(X)]
        else:
            codes = [np.argmax(self._tally(block, stop_early=True), axis=1) for block in self._blocks(X)]
        return np.asarray(self.classes_[np.concatenate(codes)])

    def predict_proba(self, X: Any) -> Array:
        """Shares of the vote: the posterior weight of the hypotheses that predict each class.

        Not calibrated probabilities: a share of 0.9 says that hypotheses with 90% of the weight agree.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Shares, summing to one.
        """
        X = self._checked_points(X)
        tallies = np.concatenate([self._tally(block, stop_early=False) for block in self._blocks(X)])
        return np.asarray(tallies / tallies.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Margin of the vote: share of the second class minus share of the first, or shares if there are more.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            Margins in [-1, 1], or shares of all classes.
        """
        shares = self.predict_proba(X)
        return np.asarray(shares[:, 1] - shares[:, 0]) if self.classes_.size == 2 else shares

    def predict_hypotheses(self, X: Any) -> NDArray[Any]:
        """Predict labels with every hypothesis alone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (m, n)
            Labels that hypothesis h predicts, in row h.
        """
        X = self._checked_points(X)
        votes = [self._pool_.votes(self.hypotheses_, block) for block in self._blocks(X)]
        return np.asarray(self.classes_[np.concatenate(votes, axis=1)])

    def _draw(self, X: Any, rng: np.random.Generator) -> NDArray[np.intp]:
        """A hypothesis drawn from the posterior for every point."""
        drawn = rng.choice(self.posterior_.size, size=X.shape[0], p=self.posterior_ / self.posterior_.sum())
        codes = np.empty(X.shape[0], dtype=np.intp)
        for h in np.unique(drawn):
            rows = np.flatnonzero(drawn == h)
            codes[rows] = self._pool_.predict(self.hypotheses_[h], take_rows(X, rows))
        return codes

    def _tally(self, X: Any, *, stop_early: bool) -> Array:
        """Weight behind each class at each point; if `stop_early`, only as far as it takes to name the winner."""
        tallies = np.zeros((X.shape[0], self.classes_.size))
        order = np.argsort(-self.posterior_, kind="stable")
        order = order[self.posterior_[order] > 0]
        weights = self.posterior_[order]
        # Weight that is still to come after the first k voters.
        remaining = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        open_rows = np.arange(X.shape[0])
        done, width = 0, _FIRST_VOTERS
        while done < order.size and open_rows.size:
            voters = order[done : done + width]
            rows = X if open_rows.size == X.shape[0] else take_rows(X, open_rows)
            votes = self._pool_.votes(self._pool_.take(self.hypotheses_, voters), rows)
            for vote, weight in zip(votes, weights[done : done + width], strict=True):
                tallies[open_rows, vote] += weight
            done, width = done + voters.size, min(2 * width, _MOST_VOTERS)
            if stop_early and done < order.size:
                ranked = np.partition(tallies[open_rows], -2, axis=1)
                # Strictly more than what is to come, and than rounding of the sums.
                decided = ranked[:, -1] - ranked[:, -2] > remaining[done] * (1 + 1e-9) + 1e-12
                open_rows = open_rows[~decided]
        return tallies

    # -----------------------------------------------------------------------------------------------
    # What a notebook shows: scikit-learn's diagram, and the certificate below it
    # -----------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._certificate_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._certificate_html()
        return bundle

    def _certificate_html(self) -> str:
        return self.certificate_._repr_html_() if hasattr(self, "certificate_") else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.voting == "gibbs"
        tags.input_tags.sparse = self.scaler is None
        if self.estimator is not None and not self._is_prefit():
            base_tags = get_tags(self.estimator).input_tags
            for name in ("sparse", "allow_nan", "string", "categorical", "positive_only"):
                setattr(tags.input_tags, name, getattr(base_tags, name))
        return tags


def _threads(n_jobs: int | None) -> tuple[int, bool]:
    """Workers of joblib's backend for code that releases the lock, and whether they share this process's memory."""
    backend, default = get_active_backend(prefer="threads")
    workers = backend.effective_n_jobs(default if n_jobs is None else n_jobs)
    return workers, getattr(backend, "supports_sharedmem", False)


def _parts(numbers: range, count: int) -> list[range]:
    """A range in `count` parts of the same size, or fewer if it is short."""
    size = max(1, math.ceil(len(numbers) / count))
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


def _train_chunk(
    pool: Pool,
    X: Any,
    codes: NDArray[np.intp],
    subsamples: Subsamples,
    loss: Loss,
    hypotheses: range,
    block_size: int,
) -> tuple[Any, Array]:
    """Train a chunk of hypotheses and add up their losses over blocks of rows."""
    trained = pool.fit(X, codes, subsamples, hypotheses)
    totals = np.zeros(len(hypotheses))
    for start in range(0, codes.size, block_size):
        rows = range(start, min(start + block_size, codes.size))
        totals += pool.loss_totals(trained, X, codes, subsamples, hypotheses, rows, loss)
    return trained, totals


def _progress(results: Iterable[Any], total: int, verbose: int, what: str) -> Iterable[Any]:
    """Results as they come, with a bar on standard error if asked."""
    if not verbose:
        return results
    try:
        from tqdm.auto import tqdm
    except ImportError:
        print("training; install tqdm for a progress bar", file=sys.stderr)
        return results
    return tqdm(results, total=total, desc=what, unit="chunk")  # type: ignore[no-any-return]


def _check_whole(name: str, value: Any, expected: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def _resolve_size(name: str, size: Any, n: int) -> int:
    """A number of points, from a number or a fraction of n."""
    if isinstance(size, Integral) and not isinstance(size, bool):
        points = int(size)
    elif isinstance(size, Real) and 0 < float(size) < 1:
        points = max(1, round(float(size) * n))
    else:
        raise ValueError(f"{name} must be a number of points or a fraction in (0, 1), got {size!r}")
    if not 1 <= points < n:
        raise ValueError(f"{name} must be at least 1 and leave points to validate on: below n = {n}, got {size!r}")
    return points


def subsample_sizes(subsample_size: Any, n: int, d: int) -> list[int]:
    """Sizes r that the hypotheses take in turn.

    Parameters
    ----------
    subsample_size : int, float, "auto", "paper" or sequence of int and float
        As in `PACBayesClassifier`.
    n, d : int
        Number of points and of features.

    Returns
    -------
    list of int
        The sizes.

    Examples
    --------
    >>> subsample_sizes("auto", n=2000, d=40)
    [41, 82, 164, 328, 656]
    >>> subsample_sizes("paper", n=2000, d=3)
    [45]
    """
    if isinstance(subsample_size, str):
        smallest = d + 1 if d > 3 else round(math.sqrt(n))
        if subsample_size == "paper":
            if smallest >= n:
                raise ValueError(
                    f"subsample_size='paper' takes {smallest} points and leaves none of n = {n} to validate on: "
                    "give a smaller number"
                )
            return [smallest]
        if subsample_size == "auto":
            largest = max(1, min(int(_LARGEST_SHARE * n), _LARGEST_SIZE))
            rungs = [smallest * 2**k for k in range(64) if smallest * 2**k <= largest]
            return rungs or [largest]
        raise ValueError(f"subsample_size must be 'auto', 'paper' or sizes, got {subsample_size!r}")
    if isinstance(subsample_size, (Sequence, np.ndarray)):
        if len(subsample_size) == 0:
            raise ValueError("subsample_size must name at least one size, got an empty sequence")
        return [_resolve_size("subsample_size", size, n) for size in subsample_size]
    return [_resolve_size("subsample_size", subsample_size, n)]
