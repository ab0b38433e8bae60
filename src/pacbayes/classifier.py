"""PACBayesClassifier: the wiring of sampling, pools, posterior and certificate."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pacbayes._compat import take_rows
from pacbayes._fingerprint import IncomparableError, digest
from pacbayes._formatting import format_names
from pacbayes._settings import Choice, Constraint, Number, Rule, Whole, are_sizes, is_flag, is_whole
from pacbayes._settings import validate_settings as validate_constraints
from pacbayes._validation import Array, count_missing
from pacbayes.certificate import (
    FIT_ASSUMPTIONS,
    Certificate,
    Objective,
    Voting,
    certify,
    choose_voters,
    describe_assumption,
    label_names,
    validate_delta,
    with_test,
    with_unlabelled,
)
from pacbayes.exceptions import CertificateError, HypothesisError
from pacbayes.fitting import (
    DropRule,
    Ensemble,
    Stream,
    Trained,
    Trainer,
    VotePlan,
    VotingBlocks,
    beside,
    count_labels,
    count_threads,
    expect,
    expect_classes,
    open_stream,
    predict_codes,
    rows_per_block,
    tabulate_classes,
    tally_votes,
    verify_losses,
    verify_splits,
    verify_test,
)
from pacbayes.pools import (
    CodeBook,
    Pool,
    PrefitPool,
    Sample,
    as_pool,
    keep_device,
    probe_hypotheses,
    release,
    to_host,
)
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.rows import ArraySource, TrainingRows
from pacbayes.sampling import (
    PREDICTION,
    PROBE,
    GivenSubsamples,
    SamplingPlan,
    Split,
    Subsamples,
    split_holdouts,
    stream,
)
from pacbayes.tasks import Loss, resolve_loss

__all__ = ["PACBayesClassifier"]

# What scikit-learn notes of the data.
_FEATURES = ("n_features_in_", "feature_names_in_")

# Settings that a certificate is about. A fitted classifier keeps their values, and certifies nothing while they differ.
_CERTIFIED = (
    *("estimator", "delta", "objective", "voting", "holdout", "n_candidates", "prior", "loss", "racing"),
    "warm_start",
)

# Settings of how to compute, which change no result: they take effect at once.
_COMPUTING = ("block_size", "n_jobs", "verbose")

# Settings that hypotheses and their validation losses come from: a warm start cannot change them.
_FINGERPRINTED = ("estimator", "subsample_size", "subsamples", "loss", "holdout")

# Rows that hypotheses predict at once when they are probed, as they do when they are tested.
_PROBED_TOGETHER = 4096

# A checkpoint keeps results that depend on these as well.
_CHECKPOINTED = (*_FINGERPRINTED, "n_hypotheses", "delta", "objective", "voting", "n_candidates", "prior", "racing")


class PACBayesClassifier(ClassifierMixin, BaseEstimator):
    """Many weak classifiers, weighted by minimising a PAC-Bayesian bound, with a certificate.

    Each of m hypotheses is trained on a small subsample that is chosen without looking at the data, and validated
    on the other points. The posterior over hypotheses minimises a PAC-Bayesian bound (Theorem PBaggregation): there is
    nothing to cross-validate, and the certificate bounds the true error.

    Parameters
    ----------
    estimator : Pool, classifier, list of fitted classifiers or None, default=None
        The hypothesis space. None takes `RBFSVMPool()`, the paper's RBF-kernel SVMs. Any scikit-learn classifier,
        pipelines included, is trained on each subsample (`EstimatorPool`). A list of classifiers that were trained on
        other data is validated and weighted as it is (`PrefitPool`). Settings of the hypotheses are settings of the
        pool: ``RBFSVMPool(C=..., scaler=...)``, ``EstimatorPool(tree, param_distributions=...)``.
    n_hypotheses : int or "auto", default="auto"
        Number m of hypotheses. "auto" takes 45 for each subsample size.
    subsample_size : int, float, "auto", "paper" or sequence of int and float, default="auto"
        Number r of training points of a hypothesis: a number of points, a fraction of the sample, or several
        of them, taken in turn. "paper" is d + 1, or sqrt(n) where d <= 3. "auto" is a ladder of 1/8, 1/4, 1/2, 0.65 and
        0.8 of the sample, or of 2500 points where there are more: the posterior chooses among its rungs.
    subsamples : splitter, sequence of index arrays or None, default=None
        Training sets instead of random ones: the training folds of a scikit-learn splitter (not a stratified one:
        they must be chosen without labels), or row numbers. `n_hypotheses` and `subsample_size` must be "auto" then.
    delta : float, default=0.05
        Probability with which the certificate may fail, in (0, 1).
    objective : {"auto", "lambda", "kl", "dual"}, default="auto"
        The bound that the posterior minimises: the paper's PAC-Bayes-lambda, PAC-Bayes-kl itself, or the dual bound,
        which takes every hypothesis by its own number of validation points. "auto" is "dual" for the randomised
        classifier, whose bound it makes smallest, and "lambda" otherwise, whose weights vote better.
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        What `predict` does: the weighted majority vote; a hypothesis drawn from the posterior for every point, anew
        in every call; the hypothesis with the smallest bound; the unweighted vote (weighted by the prior).
    holdout : float, int, sequence of these, "auto" or None, default="auto"
        Share or number of rows that are reserved for nothing but the certificate of what `predict` does: it is then the
        exact bound of a test set (Clopper-Pearson). With several shares, as many votes are made, each from its own
        draw of the other rows, and compete under one delta: the one with the smallest bound predicts. "auto" is
        (0.5, 0.35), but None for the best hypothesis, whose bound is smaller without, and where subsamples are given as
        row numbers or the loss is one of probabilities. None is the paper: one vote, all rows, PAC-Bayesian bounds.
    n_candidates : int, default=1
        Number of classifiers with different settings, this one included, of which the one with the smallest bound will
        be taken. Decided beforehand, they share `delta`, and the choice is covered by the certificate.
        `CertifiedGridSearch` does this for a grid.
    prior : array-like of shape (m,), optional
        Prior over the hypotheses of a vote, as probabilities or log-probabilities, chosen without looking at the data.
        Uniform by default; without held-out rows, proportional to the number of validation points, unless voting is
        "uniform".
    loss : {"zero_one", "absolute", "brier"}, callable or array-like, default="zero_one"
        What the certificate bounds: a loss in [0, 1] of the predicted label, of the predicted probabilities, a
        function of (true, predicted) labels, or a matrix of costs by true and predicted class, which is divided by the
        largest cost. Weights and certificate are about it; `predict` is the majority vote all the same. Without
        held-out rows, the vote is bounded for "zero_one" only.
    racing : bool or "training", default=True
        Whether to drop hypotheses before they are validated on all points, once they will hardly get weight any more:
        wherever that was measured, less than 1e-9 of the posterior's mass. "training" also trains from small
        subsamples to large ones, and leaves out those whose kind (kernel width, C, scaler) lost on smaller ones: about
        twice as fast on the paper's datasets, but what is left out would have had 39% to 91% of the mass. The
        certificate is as true as without: what is dropped has weight 0, and keeps its share of the prior. False trains
        and validates every one in full.
        Without effect for ``voting="uniform"``, which gives weight to all, and with `warm_start`, so that a fit that is
        continued equals one at once.
    warm_start : bool, default=False
        Whether `fit` keeps the hypotheses of the last call, on the same data, and trains only the missing ones. To add
        until the bound looks good is to choose the prior by the data: decide on `n_hypotheses` beforehand. Settings
        that hold functions are refused, since it cannot be told whether a function is still the same.
    block_size : int, default=65536
        Rows that are validated or predicted at a time.
    n_jobs : int, optional
        Workers for training and validation, by joblib: threads for SVMs, which release the interpreter's lock, and
        its current backend for other base learners. Threads also predict with SVMs, where there are many points.
    client : dask.distributed.Client, str or None, default=None
        A Dask cluster that does the work, or the address of its scheduler. None takes the active client where X is read
        from files or is a dask collection, and this machine for arrays. Results are the same. It is no part of a model:
        saving and loading leave it out.
    checkpoint : path-like or None, default=None
        Folder in which finished parts of a fit are kept: a fit that was stopped goes on where it was. A folder belongs
        to one fit, of the same data with the same settings, and can be deleted when it is done. Base learners other
        than SVMs are trained again; what is kept of them are their validation losses.
    random_state : int, RandomState instance or None, default=None
        Seed of subsamples, hypotheses and randomised prediction.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved about the classifier.
    votes_ : list of Ensemble
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
        Their training sets: ``subsamples_[h]`` is drawn again from the seed.
    classes_ : ndarray
        The class labels.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Where rows are held out, the bound on what `predict` does is the exact bound of a test set, and the posterior has
    nothing to do but to weight: so the ladder goes up to 0.8 of the other rows. Two votes compete, each trained on its
    own draw of rows, which smooths the luck of one split for the price of half of delta. On the paper's eight datasets
    and on others, this has a smaller bound and a smaller test loss than a cross-validated SVM that is trained on one
    half of the sample and tested on the other. The figures are in `benchmarks/RESULTS.md`.

    With ``holdout=None`` a hypothesis with few validation points has a loose bound of its own. The bound on the
    randomised classifier takes each hypothesis by its own number of points, and so does the prior.

    References
    ----------
    .. [1] N. Thiemann, C. Igel, O. Wintenberger, Y. Seldin. A strongly quasiconvex PAC-Bayesian bound. ALT, 2017.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=100, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98, model.certificate_.bound < 0.05
    (True, True)
    """

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "n_hypotheses": Whole(1, ("auto",)),
        "subsample_size": Rule(
            "'auto', 'paper', a number of points, a share, or a sequence of these",
            lambda value: value in ("auto", "paper") if isinstance(value, str) else are_sizes(value),
        ),
        "subsamples": Rule(
            "a splitter, a sequence of index arrays, or None",
            lambda value: value is None or hasattr(value, "split") or hasattr(value, "__len__"),
        ),
        "delta": Number(0, 1),
        "objective": Choice("auto", "lambda", "kl", "dual"),
        "voting": Choice("majority", "gibbs", "best", "uniform"),
        "holdout": Rule(
            "'auto', None, a share or number of rows, or a sequence of these",
            lambda value: value is None or (value == "auto" if isinstance(value, str) else are_sizes(value)),
        ),
        "n_candidates": Whole(1),
        "racing": Choice(True, False, "training"),
        "warm_start": Choice(True, False),
        "block_size": Whole(1),
        "n_jobs": Rule(
            "a whole number other than 0, or None", lambda value: value is None or (is_whole(value) and value != 0)
        ),
        "checkpoint": Rule("a path or None", lambda value: value is None or isinstance(value, (str, os.PathLike))),
        "random_state": Rule(
            "a whole number, at least 0, a RandomState, or None",
            lambda value: (
                value is None or isinstance(value, np.random.RandomState) or (is_whole(value) and int(value) >= 0)
            ),
        ),
        "verbose": Rule(
            "a whole number, at least 0", lambda value: is_flag(value) or (is_whole(value) and int(value) >= 0)
        ),
    }

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
        n_candidates: int = 1,
        prior: ArrayLike | None = None,
        loss: Any = "zero_one",
        racing: bool | Literal["training"] = True,
        warm_start: bool = False,
        block_size: int = 65536,
        n_jobs: int | None = None,
        client: Any = None,
        checkpoint: Any = None,
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
        self.n_candidates = n_candidates
        self.prior = prior
        self.loss = loss
        self.racing = racing
        self.warm_start = warm_start
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_prefit(cls, estimators: Iterable[Any], X: Any, y: ArrayLike, **parameters: Any) -> PACBayesClassifier:
        """Aggregate classifiers that were trained elsewhere, by their losses on a validation set.

        Parameters
        ----------
        estimators : iterable of fitted classifiers
            The hypotheses, none of which has seen the validation points. Copies of them vote: whoever trains the
            originals again changes neither predictions nor the certificate.
        X, y : array-like
            Validation points and labels.
        **parameters
            Parameters of the classifier, such as `delta`, `objective`, `prior` or `voting`. No rows are held out unless
            `holdout` says so: all of them validate.

        Returns
        -------
        PACBayesClassifier
            The certified ensemble.
        """
        return cls(PrefitPool(list(estimators)), **{"holdout": None, **parameters}).fit(X, y)

    # -----------------------------------------------------------------------------------------------
    # Training
    # -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> PACBayesClassifier:
        """Train the hypotheses, validate them, and weight them by minimising the bound.

        Parameters
        ----------
        X : array-like of shape (n, d), str, path-like, dask collection or Source
            Training points: in memory; or in Parquet files, mapped or Zarr arrays and dask collections, which are read
            in blocks and may be larger than the memory. See `pacbayes.rows.open_source`.
        y : array-like of shape (n,) or str
            Labels; the name of their column where X is a path or a dask data frame.
        **fit_params
            None are accepted. `sample_weight` in particular is refused: the theorem is about the average loss of
            identically distributed points, and weights would change whose error is bounded.

        Returns
        -------
        PACBayesClassifier
            The fitted classifier.
        """
        _refuse_fit_params(fit_params)
        features = {name: value for name, value in self.__dict__.items() if name in _FEATURES}
        try:
            return self._fit(X, y)
        except BaseException as error:
            # `validate_data` has noted the features of data that no fit came of.
            for name in _FEATURES:
                self.__dict__.pop(name, None)
            self.__dict__.update(features)
            if isinstance(error, ValueError | HypothesisError):
                _explain_missing_values(X, error)
            raise
        finally:
            release()

    def _fit(self, X: Any, y: Any) -> PACBayesClassifier:
        self._check_settings(as_pool(self.estimator))
        fitted, setting_digests = self._copy_settings(), self._digest_settings()
        pool = as_pool(fitted["estimator"])
        streamed = self._stream_fit(pool, X, y)
        sample = self._validate_sample(pool, X, y) if streamed is None else streamed.read_labels()
        loss = resolve_loss(fitted["loss"], sample.classes)
        pool.check_classes(sample.classes)
        pool.check_loss(loss)
        holdout = self._resolved_holdout(loss, self.subsamples is not None and not hasattr(self.subsamples, "split"))
        fingerprints = self._fingerprints(pool, sample, holdout)
        entropy, kept = self._continue(fingerprints)
        if streamed is not None:
            streamed = replace(streamed, block_size=rows_per_block(self.block_size, sample.classes.size))
            settings = {name: getattr(self, name) for name in _CHECKPOINTED} | {"estimator": pool, "holdout": holdout}
            seeded = self.random_state is not None
            streamed = streamed.with_checkpoint(self.checkpoint, sample, settings, entropy if seeded else None)
            entropy = streamed.begin(entropy)
        splits = split_holdouts(holdout, len(sample), entropy)
        plans: Iterable[VotePlan] = (self._plan_vote(pool, sample, split) for split in splits)
        training_rows = None
        if streamed is not None:
            plans, training_rows = streamed.load(plans)
        n_votes = len(splits) * self.n_candidates
        trainers = self._trainers(pool, loss, plans, streamed)
        first = next(trainers)
        with self._beside(pool, first[0], streamed) as call:
            futures = []
            for k, (plan, trainer) in enumerate(chain([first], trainers)):
                trained = self._train_vote(pool, trainer, plan, n_votes, kept[k] if kept else None)
                # Certified while the next one is trained.
                digests = call(self._digests, pool, sample.classes, trained, plan.subsamples)
                blocks = replace(self._voting_blocks(pool, sample.classes.size), size=trainer.block_rows)
                given = (pool, sample, loss, plan, trained, n_votes, k, streamed, blocks)
                futures.append(call(self._certify_vote, *given, digests))
            rows = TrainingRows(sample.X) if training_rows is None else training_rows
            votes = [future.result() for future in futures]
        # Their bounds hold all at once: the smallest is a bound as well.
        winner = min(range(len(votes)), key=lambda k: votes[k].bound)
        # Nothing is set before everything has succeeded: no half-fitted state.
        self.classes_ = sample.classes
        self._adopt(votes, winner)
        self._fitted_settings, self._setting_digests = fitted, setting_digests
        self._entropy = entropy
        self._fingerprints_ = fingerprints
        self._code_book = sample.code_book
        self._training_rows = rows
        self._prediction_stream = stream(entropy, 0, PREDICTION)
        return self

    def _adopt(self, votes: list[Ensemble], winner: int) -> None:
        """Take the parts of one of the votes for those of the classifier."""
        vote = votes[winner]
        self.votes_ = votes
        self._winner = winner
        self.hypotheses_ = vote.hypotheses
        self.subsamples_ = vote.subsamples
        self.losses_ = vote.losses
        self.n_validation_ = vote.seen
        self.prior_ = vote.prior
        self.posterior_ = vote.posterior
        self.certificate_ = vote.certificate
        self.lambda_ = vote.certificate.lam

    def _resolved_holdout(self, loss: Loss, given: bool) -> Any:
        """Return the rows to hold out, None for none; `given` says whether subsamples are given as row numbers."""
        holdout = self.holdout
        impossible = loss.on_probabilities or given
        if isinstance(holdout, str) and holdout == "auto" and (impossible or self.voting == "best"):
            return None
        if holdout is not None and loss.on_probabilities:
            # What the vote's probabilities would be is not defined.
            raise ValueError(f"holdout must be None for the loss {loss.name!r}, which is not a loss of labels")
        if holdout is not None and given:
            raise ValueError(f"holdout must be None where subsamples are row numbers of all rows, got {holdout!r}")
        return holdout

    def _stream_fit(self, pool: Pool, X: Any, y: Any) -> Stream | None:
        """Return rows that are read in blocks, and note their features; None for rows in memory."""
        streamed = self._open_stream(pool, X, y)
        if streamed is None and (self.client is not None or self.checkpoint is not None):
            table = pool.make_code_book(to_host(X)) is not None
            if not table:
                X, y = validate_data(self, to_host(X), to_host(y), **pool.validation_kwargs(X))
            if table or not isinstance(X, np.ndarray):
                raise ValueError("client and checkpoint must be None unless X is a dense array or read in blocks")
            return self._open_stream(pool, ArraySource(X, y), None)
        if streamed is not None:
            if self.warm_start:
                raise ValueError("warm_start must be False where X is read in blocks")
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = streamed.source.n_columns
            if streamed.source.columns is not None:
                self.feature_names_in_ = np.array(streamed.source.columns, dtype=object)
        return streamed

    def _open_stream(
        self, pool: Pool, X: Any, y: Any = None, columns: Any = None, n_classes: int | None = None
    ) -> Stream | None:
        return open_stream(
            X,
            y,
            pool,
            columns=columns,
            client=self.client,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            block_size=self.block_size if n_classes is None else rows_per_block(self.block_size, n_classes),
        )

    def _plan_vote(self, pool: Pool, sample: Sample, split: Split) -> VotePlan:
        """Choose the rows of one vote, and the training sets of its hypotheses."""
        rest, shared = pool.prepare(split.take_rows(sample), split.entropy)
        subsamples = self._draw_subsamples(pool, rest, len(sample), split)
        if subsamples.n != len(rest):
            raise ValueError(f"subsamples must be of the {len(rest)} rows of the sample, got {subsamples.n}")
        return VotePlan(split, rest, shared, subsamples)

    def _beside(self, pool: Pool, plan: VotePlan, streamed: Stream | None) -> Any:
        """Return threads to certify a vote in while the next one is trained, given the plan of one of them."""
        if not pool.shares_rows or streamed is not None or self.verbose:  # bars of progress come one after another
            return beside(threads=0)
        if pool.uses_device(plan.rest, plan.subsamples):  # and cores have nothing else to do
            return beside(threads=2, prepare=keep_device())
        return beside(threads=1 if count_threads(self.n_jobs) > 1 else 0)

    def _trainers(
        self, pool: Pool, loss: Loss, plans: Iterable[VotePlan], streamed: Stream | None
    ) -> Iterator[tuple[VotePlan, Trainer]]:
        """Yield the plan of each vote, and what trains it. A device begins with the next one before this is yielded."""
        begun: deque[tuple[VotePlan, Trainer]] = deque()
        for k, plan in enumerate(plans):
            if streamed is not None:
                yield plan, streamed.trainer(plan, loss, k)
                continue
            split, rest, shared, subsamples = plan
            size = rows_per_block(self.block_size, rest.classes.size)
            settings = (loss, split.entropy, size, self.n_jobs, self.verbose)
            trainer = Trainer(pool, rest, shared, subsamples.kept(), *settings)
            trains_all = self.racing != "training" and not self.warm_start
            on_device = trains_all and pool.uses_device(rest, subsamples)
            begun.append((plan, trainer.start() if on_device else trainer))
            if len(begun) > 1 or not on_device:
                yield begun.popleft()
        yield from begun

    def _train_vote(self, pool: Pool, trainer: Trainer, plan: VotePlan, n_votes: int, kept: Ensemble | None) -> Trained:
        """Train and validate the hypotheses of one vote."""
        split, rest, _, subsamples = plan
        n_kept = 0 if kept is None else len(kept.hypotheses)
        if len(subsamples) < n_kept:
            raise ValueError(f"n_hypotheses must be at least the {n_kept} that warm_start keeps, got {len(subsamples)}")
        prior = self._prior_over(subsamples, split)
        if prior is not None:
            GibbsCurve(np.zeros(len(subsamples)), 1.0, prior)  # says what is wrong with a prior
        if self.racing and self.voting != "uniform" and not self.warm_start:
            log_prior = GibbsCurve(np.zeros(len(subsamples)), 1.0, prior).log_prior
            rule = DropRule(log_prior, subsamples.n_validation, self.delta / n_votes)
            trained = trainer.race(rule, leave_out_kinds=self.racing == "training")
        else:
            new = trainer.run(range(n_kept, len(subsamples)))
            trained = Trained.join([part for part in (None if kept is None else kept.trained, new) if part is not None])
        hypotheses = trained.hypotheses.keep_training_points(rest)
        if len(hypotheses) != len(subsamples):
            raise HypothesisError(f"{type(pool).__name__} trained {len(hypotheses)} of {len(subsamples)} hypotheses")
        pool.check_hypotheses(hypotheses)
        return trained._replace(hypotheses=hypotheses)

    def _certify_vote(
        self,
        pool: Pool,
        sample: Sample,
        loss: Loss,
        plan: VotePlan,
        trained: Trained,
        n_votes: int,
        k: int,
        streamed: Stream | None,
        blocks: VotingBlocks,
        digests: Future[Mapping[str, str]],
    ) -> Ensemble:
        """Weight the hypotheses of one vote, and test it on its held-out rows."""
        split, rest, _, subsamples = plan
        prior = self._prior_over(subsamples, split)
        certificate, rho = self._certify(pool, loss, trained, subsamples, prior, n_votes)
        certificate = replace(certificate, digests={**certificate.digests, **digests.result()})
        points, most = _rows_to_probe(sample, plan), rows_per_block(_PROBED_TOGETHER, sample.classes.size)
        probe_hypotheses(trained.hypotheses, rho, *points, most, loss, stream(split.entropy, 0, PROBE))
        vote = Ensemble(trained.hypotheses, subsamples, trained.totals, trained.seen, rho, prior, certificate, split)
        vote = (
            vote.with_points(sample, rest, loss, blocks)
            if streamed is None
            else streamed.with_points(vote, sample, rest, loss, k)
        )
        vote.hypotheses.leave_device()
        return vote

    def _draw_subsamples(self, pool: Pool, rest: Sample, n: int, split: Split) -> Subsamples:
        try:
            return pool.draw_subsamples(self._sampling_plan(split.entropy), rest)
        except ValueError as error:
            if split.rows is None:
                raise
            raise ValueError(f"{error} (holdout={self.holdout!r} leaves {split.rows.size} of {n} rows)") from error

    def _prior_over(self, subsamples: Subsamples, split: Split) -> ArrayLike | None:
        """Return the prior over hypotheses, None if it is uniform.

        A hypothesis with few validation points has a loose bound. Where nothing but the bound decides, hypotheses on
        larger subsamples therefore get less of the prior.
        """
        if self.prior is not None:
            return copy.deepcopy(self.prior)  # which its owner may change
        equal = subsamples.sizes.min() == subsamples.sizes.max()
        if equal or split.held_out is not None or self.voting == "uniform":
            return None
        return np.asarray(subsamples.n_validation / subsamples.n_validation.sum())

    def _check_settings(self, pool: Pool) -> None:
        """Refuse what no data could make right, before anything is trained; the rest is checked where it is used."""
        validate_constraints(self, self._CONSTRAINTS)
        pool.check_settings()
        if self.warm_start and self.subsamples is not None:
            raise ValueError("warm_start must be False where subsamples are given: there are none to add")

    def _copy_settings(self) -> dict[str, Any]:
        """Return copies of the settings that a certificate is about, which nobody else can change.

        Copies of a function share its variables: `_digest_settings` tells whether these were changed.
        """
        copies = {}
        for name in _CERTIFIED:
            try:
                copies[name] = copy.deepcopy(getattr(self, name))
            except Exception as error:
                raise ValueError(
                    f"{name} must be something that can be copied, since a certificate is about what it is now: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return copies

    def _digest_settings(self) -> dict[str, str]:
        return {name: digest(getattr(self, name), code=True) for name in _CERTIFIED}

    def _restore_settings(self) -> None:
        """Take the settings of a classifier that comes out of a file for those of its fit."""
        copies = self._copy_settings()
        self._fitted_settings = {name: getattr(self, name) for name in _CERTIFIED}
        self.__dict__.update(copies)
        self._setting_digests = self._digest_settings()

    @property
    def _pool(self) -> Pool:
        """The pool of the fit."""
        return as_pool(self._fitted_settings["estimator"])

    @property
    def _loss(self) -> Loss:
        """The loss of the fit."""
        return resolve_loss(self._fitted_settings["loss"], self.classes_)

    def _refuse_changed_settings(self) -> None:
        """Raise CertificateError if settings that a certificate is about are not those of the fit."""
        changed = [name for name, now in self._digest_settings().items() if now != self._setting_digests[name]]
        if changed:
            raise CertificateError(
                f"the settings of the classifier were changed after the fit: {', '.join(changed)}. Set them back, or "
                "fit again"
            )

    @property
    def _resolved_objective(self) -> Objective:
        if self.objective == "auto":
            return "dual" if self.voting == "gibbs" else "lambda"
        return self.objective

    def _validate_sample(self, pool: Pool, X: Any, y: ArrayLike) -> Sample:
        given = X
        X = to_host(X)
        code_book = pool.make_code_book(X)
        X, y = validate_data(self, X, to_host(y), **_validation_kwargs(pool, X, code_book))
        X = X if code_book is None else code_book.encode(X)
        labels = _check_labels(X, y)
        pool.check_points(X)
        try:
            check_classification_targets(labels)
            classes = np.unique(labels)
            codes = np.searchsorted(classes, labels)  # faster than to ask `unique` for them, which sorts all labels
        except TypeError as error:  # they cannot be sorted
            kinds = sorted({type(label).__name__ for label in labels.tolist()})
            raise ValueError(
                f"y must hold labels of one type, none of them missing, got {' and '.join(kinds)}"
            ) from error
        if classes.size < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {classes.tolist()[0]!r}")
        return Sample(X, codes, classes, code_book).keep_on_device(given)

    def _sampling_plan(self, entropy: int) -> SamplingPlan:
        return SamplingPlan(self.n_hypotheses, self.subsample_size, self.subsamples, entropy)

    def _fingerprints(self, pool: Pool, sample: Sample, holdout: Any) -> dict[str, str] | None:
        """Return digests of what hypotheses and their losses come from, if a later fit may continue this one.

        Of the rows that are held out in fact: "auto" may be others if another setting changes.
        """
        if not self.warm_start:
            return None
        values = {"X": [sample.X, sample.code_book], "y": [sample.codes, sample.classes]}
        values |= {name: getattr(self, name) for name in _FINGERPRINTED} | {"estimator": pool, "holdout": holdout}
        digests = {}
        for name, value in values.items():
            try:
                digests[name] = digest(value)
            except IncomparableError as error:
                raise ValueError(
                    f"warm_start must be False with this {name}: {error}, so hypotheses and losses of different "
                    "settings could be mixed"
                ) from error
        return digests

    def _continue(self, fingerprints: dict[str, str] | None) -> tuple[int, list[Ensemble] | None]:
        """Return the seed of all streams, and the votes that a warm start continues."""
        if fingerprints is not None and hasattr(self, "hypotheses_"):
            if self._fingerprints_ is None:
                raise ValueError("warm_start continues a fit that had warm_start=True too: set it before the first fit")
            changed = [name for name in fingerprints if fingerprints[name] != self._fingerprints_[name]]
            if changed:
                raise ValueError(
                    f"warm_start continues on the same data with the same settings, but {', '.join(changed)} changed "
                    "since the last fit: the losses of the hypotheses it keeps would be wrong"
                )
            for vote in self.votes_:
                if _digest_hypotheses(vote.trained, vote.subsamples) != vote.certificate.digests["hypotheses"]:
                    raise ValueError(
                        "warm_start keeps hypotheses with their losses, but hypotheses_ changed since the last fit: "
                        "the losses would be wrong"
                    )
            return self._entropy, self.votes_
        if self.random_state is None:
            entropy = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        elif is_whole(self.random_state):
            entropy = int(self.random_state)
        else:
            entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
        return entropy, None

    # -----------------------------------------------------------------------------------------------
    # The certificate
    # -----------------------------------------------------------------------------------------------

    def _certify(
        self,
        pool: Pool,
        loss: Loss,
        trained: Trained,
        subsamples: Subsamples,
        prior: ArrayLike | None,
        n_votes: int,
    ) -> tuple[Certificate, Array]:
        return certify(
            trained.losses(subsamples),
            subsamples.n_validation,
            n_votes=n_votes,
            dropped_loss=trained.dropped_loss(subsamples),
            delta=self.delta,
            prior=prior,
            objective=self._resolved_objective,
            voting=self.voting,
            loss=loss.name,
            strict=pool.is_strict,
            assumptions=self._assumptions(pool, subsamples) + trained.hypotheses.assumptions(),
        )

    def _assumptions(self, pool: Pool, subsamples: Subsamples) -> list[str]:
        """Return what has to be true for the certificate to hold, as codes or in words."""
        assumptions = [*FIT_ASSUMPTIONS, subsamples.assumption, *pool.assumptions()]
        if self.prior is not None:
            assumptions.append("own-prior")
        if self.n_candidates > 1:
            assumptions.append(f"candidates:{self.n_candidates}")
        if self.warm_start:
            assumptions.append("size-decided")
        return assumptions

    def _digests(self, pool: Pool, classes: NDArray[Any], trained: Trained, subsamples: Subsamples) -> dict[str, str]:
        """Return digests of the hypotheses, and of the settings that turn them into a certified predictor."""
        own = [self.voting, self.objective, self.delta, self.holdout, self.n_candidates, self.prior, self.loss]
        settings = [*own, self.racing, pool, classes, subsamples]
        return {"hypotheses": _digest_hypotheses(trained, subsamples), "settings": digest(settings, code=True)}

    def verify_certificate(self, certificate: Certificate, X: Any = None, y: ArrayLike | None = None) -> str:
        """Recompute a certificate from this classifier, and from its training sample if that is given.

        Parameters
        ----------
        certificate : Certificate
            The certificate to verify.
        X, y : array-like, optional
            The training sample, in the same order: the validation losses are then computed anew.

        Returns
        -------
        str
            What was verified: "arithmetic and model", or "arithmetic, model and data".

        Raises
        ------
        CertificateError
            If the certificate is not the one of this classifier, naming the first thing that differs.
        """
        check_is_fitted(self)
        if "new-points" in certificate.assumption_codes:
            raise CertificateError(
                "the certificate is about new points, which the classifier does not know: give them to certify again, "
                "and compare"
            )
        self._refuse_changed_settings()
        pool, loss = self._pool, self._loss
        # With what the user sees, and could have changed.
        vote = replace(
            self.votes_[self._winner],
            hypotheses=self.hypotheses_,
            subsamples=self.subsamples_,
            seen=self.n_validation_,
            posterior=self.posterior_,
        )
        if not np.array_equal(vote.losses, self.losses_, equal_nan=True):
            raise CertificateError("losses_ are not those of the fit")
        n_votes = len(self.votes_) * self.n_candidates
        again, rho = self._certify(pool, loss, vote.trained, self.subsamples_, self.prior_, n_votes)
        digests = {**again.digests, **self._digests(pool, self.classes_, vote.trained, self.subsamples_)}
        missing = sorted(set(self.certificate_.digests) - set(certificate.digests))
        if missing:
            raise CertificateError(
                f"digests must say what the certificate is about, and lack {', '.join(missing)}: a certificate without "
                "them can be verified by losses only"
            )
        if digests["settings"] != self.certificate_.digests["settings"]:
            raise CertificateError("the settings of the classifier are not those that it was fitted with: fit again")
        holdout = self._resolved_holdout(loss, type(self.subsamples_) is GivenSubsamples)
        verify_splits([one.split for one in self.votes_], holdout, self._entropy)
        expect("voting", certificate.voting, self.certificate_.voting)
        certificate.verify(self.losses_, self.prior_, self.n_validation_)
        names = ("objective", "loss", "delta", "n_validation", "n_validation_max", "n_votes", "strict", "dropped_loss")
        for name in names:
            expect(name, getattr(certificate, name), getattr(again, name))
        verify_test(certificate, vote)
        expect_classes(certificate, vote.certificate)
        if certificate.labels:
            expect("labels", certificate.labels, label_names(self.classes_))
        for code in again.assumption_codes:
            if code not in certificate.assumption_codes:
                raise CertificateError(
                    f"assumptions do not state what this classifier rests on: {describe_assumption(code)}"
                )
        expect("assumptions", certificate.assumption_codes, self.certificate_.assumption_codes)
        for name, stated in certificate.digests.items():
            actual = digest(self.posterior_) if name == "posterior" else digests[name]
            expect(f"digests[{name!r}]", stated, actual)
        if not np.allclose(self.posterior_, rho, rtol=1e-6, atol=1e-12):
            raise CertificateError("the weights of the classifier are not those that the certificate is about")
        if X is None:
            return "arithmetic and model"
        sample, streamed = self._known_sample(pool, X, y)
        rest, _ = pool.prepare(vote.split.take_rows(sample), vote.split.entropy)
        verify_losses(certificate, vote, sample, rest, loss, streamed, self._voting_blocks(pool, self.classes_.size))
        return "arithmetic, model and data"

    def _known_sample(self, pool: Pool, X: Any, y: Any) -> tuple[Sample, Stream | None]:
        """Return rows with labels that the classifier knows, and where they are read from if not from memory."""
        streamed = self._open_known(pool, X, y)
        if streamed is not None and self._code_book is None:
            sample = streamed.read_labels()
            if not np.array_equal(sample.classes, self.classes_):
                raise CertificateError("y holds other labels than those of the classifier: it is another sample")
            return sample, streamed
        X = self._features_of(pool, X)
        labels = _check_labels(X, y)
        codes = self._encode(labels)
        unknown = codes == self.classes_.size
        if unknown.any():
            raise CertificateError(
                f"y holds the label {labels[unknown].tolist()[0]!r}, which the classifier does not know: it is another "
                "sample"
            )
        return Sample(X, codes, self.classes_, self._code_book), None

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the positions of labels in `classes_`, and the number of classes for a label that is not there."""
        positions = {label: k for k, label in enumerate(self.classes_.tolist())}
        return np.array([positions.get(label, self.classes_.size) for label in labels.tolist()], dtype=np.intp)

    def certify(self, X: Any, y: ArrayLike | None = None, *, delta: float | None = None) -> Certificate:
        """Certify what `predict` does by new points, that had no part in making the classifier.

        Parameters
        ----------
        X : array-like of shape (n, d)
            New points. Rows of the training sample are refused, in part and in any order, if there are more of them
            than new points would have in common with it by chance.
        y : array-like of shape (n,), optional
            Their labels. A label that the classifier does not know counts as an error.
        delta : float, optional
            Probability with which the certificate may fail; by default that of the fit. Only with labels.

        Returns
        -------
        Certificate
            With labels, the exact bound of a test set (Clopper-Pearson), or Chernoff's for other losses of labels, and
            bounds on the misses and false alarms of each class. Without, a bound on the vote from how often it
            disagrees with a single hypothesis, whose own error is bounded by its validation points
            (`pacbayes.votes.disagreement_bound`).
        """
        X = self._check_unseen(self._validate_points(X, y))
        self._refuse_changed_settings()
        loss = self._loss
        if loss.on_probabilities or (y is None and not loss.is_zero_one):
            needed = "the zero-one loss" if y is None else "a loss of labels"
            raise ValueError(f"certify needs {needed}, and the classifier has {self.certificate_.loss!r}")
        assumptions = (*self.certificate_.assumption_codes, "new-points")
        certificate = replace(self.certificate_, assumption_codes=assumptions, statements=(), confusion=None)
        if y is None:
            if delta is not None:
                raise ValueError("delta must be None without labels: the bounds on hypotheses are those of the fit")
            return self._certify_unlabelled(certificate, X)
        level = certificate.delta if delta is None else validate_delta(delta)
        predicted, doubtful = self._predict_codes(X)
        codes = self._codes_of(X, y)
        unknown = codes == self.classes_.size
        # An unknown label has the largest loss, as a doubtful prediction has.
        total = loss.total_with_doubts(codes, predicted, doubtful | unknown)
        counts = tabulate_classes(codes, predicted, doubtful, self.classes_.size)
        certificate = replace(certificate, n_votes=1, delta=level, **count_labels(codes, self.classes_))
        return with_test(certificate, total, codes.size, counts)

    def count_errors(self, X: Any, y: ArrayLike) -> int:
        """Count the errors of what `predict` does, for a bound on its error.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : array-like of shape (n,)
            Their labels. A label that the classifier does not know counts as an error.

        Returns
        -------
        int
            Number of errors. A prediction that could differ on another engine, for rounding, counts as one.
        """
        X = self._validate_points(X, y)
        codes = self._codes_of(X, y)
        predicted, doubtful = self._predict_codes(X)
        return int(np.count_nonzero((predicted != codes) | doubtful))

    def _codes_of(self, X: Any, y: Any) -> NDArray[np.intp]:
        """Return labels as `_encode` does: those of a stream, or y."""
        return X.known_codes(self.classes_) if isinstance(X, Stream) else self._encode(_check_labels(X, to_host(y)))

    def count_seen(self, X: Any) -> int:
        """Count rows of the training sample among others, in part and in any order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        int
            Their number; 0 if they are no more than new rows would have in common with the sample by chance.
        """
        X = self._validate_points(X)
        if isinstance(X, Stream):
            return self._training_rows.count_in_summary(X.summarize(self._training_rows.shift)[0])
        return self._training_rows.count_seen(X)

    def check_unseen(self, X: Any) -> Any:
        """Raise ValueError if there are rows of the training sample among others, in part and in any order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        array
            The rows as the hypotheses take them.
        """
        return self._check_unseen(self._validate_points(X))

    def _check_unseen(self, X: Any) -> Any:
        if X.shape[0] == 0:
            raise ValueError("X must hold at least one point, got none")
        if isinstance(X, Stream):
            summary, X = X.summarize(self._training_rows.shift)
            self._training_rows.check_summary(summary)
        else:
            self._training_rows.check_unseen(X)
        return X

    def _certify_unlabelled(self, certificate: Certificate, X: Any) -> Certificate:
        if certificate.voting == "gibbs":
            raise ValueError("y must be given for voting='gibbs': without labels only a vote can be certified")
        kl_divs = GibbsCurve(np.zeros(self.losses_.size), 1.0, self.prior_).point_mass_kls()
        validated = np.flatnonzero(~np.isnan(self.losses_))
        chosen = choose_voters(
            self.posterior_[validated],
            self.losses_[validated],
            self.n_validation_[validated],
            kl_divs[validated],
            certificate.delta,
        )
        voters = validated[chosen]
        asked = self.hypotheses_.take(voters)
        disagreements = np.zeros(voters.size, dtype=np.intp)
        for block in self._blocks(X):
            vote, doubtful = predict_codes(
                self.hypotheses_, self.posterior_, certificate.voting, block, self._prediction_stream
            )
            votes, doubts = asked.votes_and_doubts(block)
            disagreements += np.count_nonzero((votes != vote) | doubts | doubtful, axis=1)
        return with_unlabelled(
            certificate,
            self.losses_[voters],
            self.n_validation_[voters],
            kl_divs[voters],
            disagreements,
            X.shape[0],
        )

    # -----------------------------------------------------------------------------------------------
    # Prediction
    # -----------------------------------------------------------------------------------------------

    def _validate_points(self, X: Any, y: Any = None) -> Any:
        """Return rows as the hypotheses take them: an array, or a stream that validates what it reads."""
        check_is_fitted(self)
        pool = self._pool
        streamed = self._open_known(pool, X, y)
        if streamed is not None:
            if streamed.shape[1] != self.n_features_in_:
                raise ValueError(f"X must have {self.n_features_in_} features, as in training, got {streamed.shape[1]}")
            if self._code_book is not None:
                raise ValueError("X must be a data frame: the sample had text or gaps, which are not read in blocks")
            known, names = getattr(self, "feature_names_in_", None), streamed.source.columns
            if known is not None and names is not None and tuple(known) != names:
                raise ValueError(f"X must have the columns of training, in their order: {format_names(known)}")
            return streamed
        X = self._features_of(pool, X)
        pool.check_points(X)
        return X

    def _open_known(self, pool: Pool, X: Any, y: Any = None) -> Stream | None:
        """Return rows that are read in blocks, with the columns and for the classes that the classifier knows."""
        validate_constraints(self, {name: self._CONSTRAINTS[name] for name in _COMPUTING})
        return self._open_stream(pool, X, y, getattr(self, "feature_names_in_", None), self.classes_.size)

    def _features_of(self, pool: Pool, X: Any) -> Any:
        """Return points as the hypotheses take them, after they are checked to have the features of the sample."""
        X = validate_data(self, to_host(X), reset=False, **_validation_kwargs(pool, X, self._code_book))
        return X if self._code_book is None else self._code_book.encode(X)

    def _blocks(self, X: Any) -> Iterable[Any]:
        if isinstance(X, Stream):
            yield from X.read()
            return
        size = rows_per_block(self.block_size, self.classes_.size)
        for start in range(0, X.shape[0], size):
            yield take_rows(X, np.arange(start, min(start + size, X.shape[0])))

    def _voting_blocks(self, pool: Pool, n_classes: int) -> VotingBlocks:
        workers = count_threads(self.n_jobs) if pool.shares_rows else 1
        return VotingBlocks(rows_per_block(self.block_size, n_classes), workers)

    def _predict_codes(self, X: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return class codes, and which of them could differ on another engine."""
        # As certified: a change of `voting` takes effect with the next fit.
        voting, rng = self.certificate_.voting, self._prediction_stream
        if isinstance(X, Stream):
            found = list(X.predict(self.hypotheses_, self.posterior_, voting, rng))
            return np.concatenate([one["codes"] for one in found]), np.concatenate([one["doubtful"] for one in found])
        blocks = self._voting_blocks(self._pool, self.classes_.size)
        return predict_codes(self.hypotheses_, self.posterior_, voting, X, rng, blocks)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, in the way that `voting` says.

        The vote asks hypotheses in order of falling weight, and stops for each point once the remaining weight
        cannot change its label: the result is that of asking all of them.

        With ``voting="gibbs"`` every point of every call gets a hypothesis of its own, drawn afresh: the stream of
        draws begins with `fit`, from `random_state`, and goes on from call to call. A model that comes out of a file
        begins a stream of its own, from the system's entropy, since a stream that began again with every loading
        would ask the same hypothesis every time.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels.
        """
        codes, _ = self._predict_codes(self._validate_points(X))
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> Array:
        """Return shares of the vote: the posterior weight of the hypotheses that predict each class.

        Not calibrated probabilities: a share of 0.9 says that hypotheses with 90% of the weight agree. The lightest
        hypotheses, of a total weight of at most 1e-12, are not asked: a share is off by at most 1e-12.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Shares, summing to one.
        """
        return self._share_votes(self._validate_points(X))

    def _share_votes(self, X: Any) -> Array:
        if isinstance(X, Stream):
            parts = [result["tallies"] for result in X.predict(self.hypotheses_, self.posterior_, None)]
        else:
            parts = self._voting_blocks(self._pool, self.classes_.size).map(
                lambda rows, _: tally_votes(self.hypotheses_, self.posterior_, rows, stop_early=False), X
            )
        tallies = np.concatenate(parts)
        tallies /= tallies.sum(axis=1, keepdims=True)
        return tallies

    def predict_batches(self, X: Any, method: str = "predict") -> Iterator[NDArray[Any]]:
        """Predict rows that may be more than the memory holds, and yield the results block by block, in order.

        Parameters
        ----------
        X : str, path-like, dask collection, Source or array-like
            Points, as in `fit`. Columns of a table are found by their names, and others ignored.
        method : {"predict", "predict_proba"}, default="predict"
            What to yield: labels, or shares of the vote.

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
        >>> model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(X, y)
        >>> sum(labels.size for labels in model.predict_batches(X))
        500
        """
        if method not in ("predict", "predict_proba"):
            raise ValueError(f"method must be 'predict' or 'predict_proba', got {method!r}")
        points = self._validate_points(X)
        if isinstance(points, np.ndarray) and self._code_book is None:
            points = self._open_known(self._pool, ArraySource(points))
        if isinstance(points, Stream):
            return self._predict_stream(points, method)
        # Sparse rows, and tables with text, gaps or columns that hypotheses know by their names.
        if method == "predict":
            return (np.asarray(self.classes_[self._predict_codes(rows)[0]]) for rows in self._blocks(points))
        return map(self._share_votes, self._blocks(points))

    def _predict_stream(self, points: Stream, method: str) -> Iterator[NDArray[Any]]:
        voting = self.certificate_.voting if method == "predict" else None
        for found in points.predict(self.hypotheses_, self.posterior_, voting, self._prediction_stream):
            if method == "predict":
                yield np.asarray(self.classes_[found["codes"]])
            else:
                yield np.asarray(found["tallies"] / found["tallies"].sum(axis=1, keepdims=True))

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
        X = self._validate_points(X)
        votes = [self.hypotheses_.votes(block) for block in self._blocks(X)]
        return np.asarray(self.classes_[np.concatenate(votes, axis=1)])

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_prediction_stream", None)
        return {**state, "client": None, "checkpoint": None if self.checkpoint is None else os.fspath(self.checkpoint)}

    def __sklearn_clone__(self) -> PACBayesClassifier:
        settings = self.get_params(deep=False)
        # A client cannot be copied.
        copies = {name: value if name == "client" else clone(value, safe=False) for name, value in settings.items()}
        return type(self)(**copies)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "certificate_" in state:
            self._prediction_stream = np.random.default_rng()

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
        tags.input_tags = get_tags(as_pool(self.estimator)).input_tags
        return tags


def _digest_hypotheses(trained: Trained, subsamples: Subsamples) -> str:
    """Return the digest of hypotheses without those that were dropped, which have no part in what is certified."""
    dropped, hypotheses = np.isnan(trained.losses(subsamples)), trained.hypotheses
    if dropped.any():
        hypotheses = hypotheses.take(np.flatnonzero(~dropped))
    return digest(hypotheses.fingerprint(), code=True)


def _validation_kwargs(pool: Pool, X: Any, code_book: CodeBook | None) -> dict[str, Any]:
    """Return what `validate_data` has to check in X; a code book checks the columns of a table itself."""
    return pool.validation_kwargs(X) if code_book is None else {"skip_check_array": True}


def _rows_to_probe(sample: Sample, plan: VotePlan) -> tuple[Any, NDArray[Any]]:
    """Return features, and which rows of them hypotheses can be probed with: all that are in memory.

    Also where few are held out, or one: a row alone has no company to depend on. No label is looked at.
    """
    rest = plan.rest.X
    if hasattr(rest, "numbers"):  # rows that are read in blocks: those that were gathered
        return rest, rest.numbers
    return sample.X, np.arange(len(sample))


def _refuse_fit_params(fit_params: dict[str, Any]) -> None:
    if "sample_weight" in fit_params:
        raise ValueError(
            "sample_weight is not supported: the certificate bounds the expected loss of points drawn like the "
            "sample, and a weighted average of losses is not what the theorem is about. Resample the data "
            "to the distribution of interest beforehand, or put the weights into `loss` as a cost matrix."
        )
    if fit_params:
        raise TypeError(f"fit takes no parameters besides X and y, got {sorted(fit_params)}")


def _check_labels(X: Any, y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"y must hold one label for each of the {X.shape[0]} rows of X, got shape {labels.shape}")
    return labels


def _explain_missing_values(X: Any, error: ValueError | HypothesisError) -> None:
    """Raise ValueError with the safe way if missing values are what a fit failed of.

    scikit-learn's own message recommends an imputer in a pipeline. Around this classifier, it would see the validation
    points.
    """
    n_missing = count_missing(X) if "Input X contains NaN" in str(error) else 0
    if n_missing:
        raise ValueError(
            f"X must not hold missing values with this base learner, got NaN in {n_missing} places. Impute within each "
            "hypothesis, EstimatorPool(make_pipeline(SimpleImputer(), ...)), give RBFSVMPool() a data frame, gaps "
            "in which it fills for each hypothesis, or take a base learner that accepts NaN, such as "
            "HistGradientBoostingClassifier(). An imputer that is fitted to the whole sample would break the "
            "certificate: it sees the points that validate."
        ) from error
