"""What estimators with a certificate have in common: settings in, `fit_votes`, attributes out."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from pacbayes._compat import take_rows
from pacbayes._fingerprint import IncomparableError, digest
from pacbayes._settings import (
    SAMPLING,
    Choice,
    Constraint,
    Number,
    Whole,
    are_sizes,
    is_flag,
    is_whole,
    validate_settings,
)
from pacbayes._validation import Array, count_missing, open_interval, row_numbers, scalar
from pacbayes.certificate import MEAN, OBJECTIVES, VOTINGS, Certificate, validate_delta
from pacbayes.exceptions import CertificateError, HypothesisError
from pacbayes.fitting import (
    FitSettings,
    FittedVotes,
    Groups,
    MemoryRows,
    SampleRows,
    Vote,
    Weighting,
    Workers,
    evaluate_on_rows,
    fit_votes,
    importance_score,
    open_source_rows,
    predict_rows,
    verify_certificate,
)
from pacbayes.pools import Hypotheses, Pool, PrefitPool, as_pool, to_host
from pacbayes.rows import ArraySource, CodeBook, Labels, describe_gaps, is_table
from pacbayes.sampling import PREDICTION, Subsamples, stream
from pacbayes.tasks import Task

# Settings that a certificate is about. A fitted estimator keeps their values, and certifies nothing while they differ.
CERTIFIED = ("estimator", "delta", "objective", "voting", "holdout", "prior", "loss", "racing")

# Settings of how to compute, which change no result: they take effect at once.
_COMPUTING = ("n_jobs", "verbose")

CONSTRAINTS: dict[str, Constraint] = {
    **SAMPLING,
    "subsamples": Constraint(
        "a splitter, a sequence of index arrays, or None",
        lambda value: value is None or hasattr(value, "split") or hasattr(value, "__len__"),
    ),
    "delta": Number(0, 1),
    "objective": Choice("auto", *OBJECTIVES),
    "voting": Choice(*(name for name, rule in VOTINGS.items() if rule.predictor != MEAN)),
    "holdout": Constraint(
        "'auto', None, a share or number of rows, a sequence of these, or a splitter",
        lambda value: (
            value == "auto" if isinstance(value, str) else value is None or hasattr(value, "split") or are_sizes(value)
        ),
    ),
    "racing": Choice(True, False, "training"),
    "checkpoint": Constraint("a path or None", lambda value: value is None or isinstance(value, (str, os.PathLike))),
    "n_jobs": Constraint(
        "a whole number other than 0, or None", lambda value: value is None or (is_whole(value) and value != 0)
    ),
    "random_state": Constraint(
        "a whole number, at least 0, a RandomState, or None",
        lambda value: (
            value is None or isinstance(value, np.random.RandomState) or (is_whole(value) and int(value) >= 0)
        ),
    ),
    "verbose": Constraint(
        "a whole number, at least 0", lambda value: is_flag(value) or (is_whole(value) and int(value) >= 0)
    ),
}


def _of_the_vote(name: str, kind: Any, description: str) -> Any:
    """Return a read-only attribute of a fitted estimator: that of the vote that predicts."""

    def read(self: CertifiedEstimator) -> Any:
        return getattr(self.fitted_votes_.best, name)

    read.__doc__, read.__annotations__ = description, {"return": kind}
    return property(read)


class CertifiedEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator around `fit_votes`. What it is fitted to is a value, `fitted_votes_`."""

    fitted_votes_: FittedVotes
    n_features_in_: int
    n_hypotheses: Any

    certificate_ = _of_the_vote("certificate", Certificate, "What is proved about the estimator.")
    hypotheses_ = _of_the_vote("hypotheses", Hypotheses, "The trained hypotheses.")
    subsamples_ = _of_the_vote("subsamples", Subsamples, "Their training sets.")
    losses_ = _of_the_vote("losses", Array, "Their validation losses; NaN for hypotheses that were dropped.")
    n_validation_ = _of_the_vote("seen", NDArray[np.intp], "Number of points each was validated on.")
    prior_ = _of_the_vote("prior", Any, "Their prior; None if it is uniform.")
    posterior_ = _of_the_vote("posterior", Array, "Their weights.")

    @property
    def votes_(self) -> list[Vote]:
        """The votes that competed."""
        return list(self.fitted_votes_.votes)

    @property
    def lambda_(self) -> float | None:
        """Trade-off lambda of the posterior."""
        return self.fitted_votes_.best.certificate.lam

    # -- what a kind of estimator says ---------------------------------------------------------------

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = CONSTRAINTS
    _CERTIFIED: ClassVar[tuple[str, ...]] = CERTIFIED

    def _find_pool(self) -> Pool:
        """Return the pool that the `estimator` parameter stands for."""
        return as_pool(self.estimator)

    def _check_target(self, y: Any) -> None:
        """Raise ValueError that names what is wrong with a target, where scikit-learn's message would say less."""

    def _learn_task(self, target: NDArray[Any] | Labels) -> tuple[Task, NDArray[Any]]:
        """Return the task of a sample, and its encoded target."""
        raise NotImplementedError

    # -- fitting -------------------------------------------------------------------------------------

    @classmethod
    def from_prefit(cls, estimators: Iterable[Any], X: Any, y: ArrayLike, **parameters: Any) -> Self:
        """Aggregate models that were trained elsewhere, by their losses on a validation set.

        Parameters
        ----------
        estimators : iterable of fitted models
            The hypotheses, none of which has seen the validation points. Copies of them vote: whoever trains the
            originals again changes neither predictions nor the certificate.
        X, y : array-like
            Validation points and their targets.
        **parameters
            Parameters of the estimator, such as `delta`, `objective`, `prior` or `voting`. No rows are held out unless
            `holdout` says so: all of them validate. One model alone is tested on them, ``voting="best"``: the
            certificate states the exact binomial tail (Clopper-Pearson).
        """
        models = list(estimators)
        # One hypothesis has all of the prior: nothing is chosen, and what it does is tested.
        alone = {"voting": "best"} if len(models) == 1 and parameters.get("holdout") is None else {}
        return cls(PrefitPool(models), **{"holdout": None, **alone, **parameters}).fit(X, y)

    @classmethod
    def from_fitted_votes(cls, fitted: FittedVotes) -> Self:
        """Return an estimator with the settings and the result of a fit, such as one that comes out of a file.

        Parameters
        ----------
        fitted : FittedVotes
            What a fit came to.
        """
        values = {field.name: getattr(fitted.settings, field.name) for field in fields(fitted.settings)}
        del values["n_candidates"]
        values |= fitted.task.parameters()
        # A function shares its variables with its copies: `_setting_digests` tells whether these were changed.
        model = cls(**{name: copy.deepcopy(value) for name, value in values.items()})
        model._check_settings()
        return model._adopt(fitted, np.random.default_rng())

    def fit(
        self, X: Any, y: Any = None, *, groups: Any = None, max_error: float | None = None, **fit_params: Any
    ) -> Self:
        """Train the hypotheses, validate them, and weight them by minimising the bound.

        Parameters
        ----------
        X : array-like of shape (n, d), str, path-like, dask collection or Source
            Training points: in memory; or in Parquet files, mapped or Zarr arrays and dask collections, which are read
            in blocks and may be larger than the memory. See `pacbayes.rows.open_source`.
        y : array-like of shape (n,) or str
            Targets; the name of their column where X is a path or a dask data frame.
        groups : array-like of shape (n,), mapping of str to mask, data frame of masks or str, optional
            Groups whose errors are to be bounded, all at once: a label for each row; or, where groups may overlap, a
            mask of True and False for each group by its name; or the name of a column of the data frame X. They need
            not be features, and have no influence on the vote.
        max_error : float, optional
            An error among answered points that is declared before the held-out rows are seen: these test it alone, at
            full delta, so that ``predict_selective(X)`` answers more points than with a table of thresholds.
        **fit_params
            `sample_weight`, and nothing else: how much each row counts in training, an array of shape (n,) of numbers
            that are not negative. Boosted trees, forests and logistic regressions repeat rows in proportion, SVMs
            multiply C by the weights, relative to their mean in a subsample, other learners are given them, and
            families that take none, such as kernel ridge regressions, are left out of the default. The certificate is
            about new points as they come, unweighted: so are validation, tests and the weights of the vote. The weight
            of a row must not depend on other rows of the sample.
        """
        declared: dict[str, Any] = {"n_candidates": 1, "groups": groups, "max_error": max_error}
        return self.fit_candidate(X, y, **declared, sample_weight=read_fit_params(**fit_params))

    def fit_candidate(
        self,
        X: Any,
        y: Any = None,
        *,
        n_candidates: int,
        groups: Any = None,
        max_error: float | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit as one of several candidates of which the one with the smallest bound will be taken.

        Parameters
        ----------
        X, y : array-like
            As in `fit`.
        n_candidates : int
            Number of candidates with different settings, this one included. Decided beforehand, they share `delta`, and
            the choice is covered by the certificate. `CertifiedGridSearch` does this for a grid.
        groups, max_error, sample_weight : optional
            As in `fit`.
        """
        if not (is_whole(n_candidates) and n_candidates >= 1):
            raise ValueError(f"n_candidates must be a whole number, at least 1, got {n_candidates!r}")
        self._check_settings()
        settings = self._copy_settings(n_candidates=int(n_candidates))
        return self._fit(X, y, settings, groups=groups, weights=sample_weight, max_error=max_error)

    def add_hypotheses(
        self, X: Any, y: Any, n_hypotheses: int, *, groups: Any = None, max_error: float | None = None
    ) -> Self:
        """Add hypotheses to a fitted estimator, on the same sample: the result is that of fitting them at once.

        To add until the bound looks good is to choose the prior by the data: decide on the number beforehand. The
        certificate states that.

        Parameters
        ----------
        X, y : array-like
            The training sample, in the same order.
        n_hypotheses : int
            Number of hypotheses that there will be, for each vote. The first fit must have had ``racing=False``, so
            that none was dropped, and no `prior` of its own. Its `checkpoint` stays what it is.
        groups, max_error : optional
            As in `fit`: without them, the new certificate bounds no errors by group, and proves no declared error.
        """
        check_is_fitted(self)
        fitted = self.fitted_votes_
        self._refuse_changed_settings()
        obstacles = {
            "racing must be False{}: fit again without": fitted.settings.racing,
            "subsamples must be None{}: there are none to add": fitted.settings.subsamples is not None,
            "prior must be None{}: it is that of the others": fitted.settings.prior is not None,
            "estimator must be of one family{}, got UnionPool": len(fitted.pool.members()) > 1,
            "sample_weight must be None{}: fit again": "training-weighted" in fitted.best.certificate.assumption_codes,
        }
        for obstacle in (what for what, is_there in obstacles.items() if is_there):
            raise ValueError(obstacle.format(" for a fit that hypotheses are added to"))
        for name in ("estimator", "loss"):
            try:
                digest(getattr(fitted.settings, name))
            except IncomparableError as error:
                raise ValueError(
                    f"hypotheses cannot be added with this {name}: {error}, so that losses of different settings could "
                    "be mixed"
                ) from error
        settings = replace(fitted.settings, n_hypotheses=n_hypotheses, checkpoint=None)
        validate_settings(settings, {"n_hypotheses": Whole(max(len(vote.hypotheses) for vote in fitted.votes))})
        self._fit(X, y, settings, continued=fitted, groups=groups, max_error=max_error)
        self.n_hypotheses = n_hypotheses
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        settings: FitSettings,
        continued: FittedVotes | None = None,
        groups: Any = None,
        weights: Any = None,
        max_error: float | None = None,
    ) -> Self:
        pool, digests = as_pool(settings.estimator), self._digest_settings()
        if max_error is not None:
            max_error = scalar("max_error", open_interval("max_error", max_error, 0, 1))
        try:
            if continued is None:
                rows, labels = self._open_sample(pool, X, y, settings)
                task, target = self._learn_task(labels)
            else:
                for k, vote in enumerate(continued.votes):  # any of them may win
                    verify_certificate(replace(continued, winner=k), vote.certificate)
                rows, task = self._open_labelled(X, y), continued.task
                target = rows.sample.codes
            declared = None if groups is None else Groups.of(groups, len(rows), X)
            rows = rows if weights is None else _weigh_rows(rows, weights)
            fitted = fit_votes(rows, target, pool, task, settings, continued, declared, max_error)
        except (ValueError, HypothesisError) as error:
            _explain_missing_values(X, error)
            raise
        if weights is not None:
            fitted = fitted.add_assumption("training-weighted")
        # Nothing is set before everything has succeeded: no half-fitted state.
        return self._adopt(fitted, stream(fitted.entropy, 0, PREDICTION), digests)

    def _adopt(self, fitted: FittedVotes, rng: np.random.Generator, digests: dict[str, str] | None = None) -> Self:
        """Take the result of a fit for that of this estimator."""
        self.fitted_votes_ = fitted
        self.n_features_in_ = fitted.n_features
        self.__dict__.pop("feature_names_in_", None)
        if fitted.feature_names is not None:
            self.feature_names_in_ = fitted.feature_names
        self._setting_digests = digests or self._digest_settings()
        self._prediction_stream = rng
        return self

    def _check_settings(self) -> None:
        """Refuse what no data could make right, before anything is trained; the rest is checked where it is used."""
        validate_settings(self, self._CONSTRAINTS)
        self._find_pool().check_settings()

    def _copy_settings(self, n_candidates: int) -> FitSettings:
        """Return copies of the settings, which nobody else can change."""
        copies = {}
        # Not those of `get_params`: a subclass may take fewer of them, or others as well.
        for name in (field.name for field in fields(FitSettings) if field.name != "n_candidates"):
            value = getattr(self, name)
            try:
                # A generator is drawn from, as scikit-learn's estimators do.
                copies[name] = value if name == "random_state" else copy.deepcopy(value)
            except Exception as error:
                raise ValueError(
                    f"{name} must be something that can be copied, since a certificate is about what it is now: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if copies["estimator"] is None:  # what it stands for may be something else in another version
            copies["estimator"] = self._find_pool()
        return FitSettings(**copies, n_candidates=n_candidates)

    def _digest_settings(self) -> dict[str, str]:
        return {name: digest(getattr(self, name), code=True) for name in self._CERTIFIED}

    def _refuse_changed_settings(self) -> None:
        """Raise CertificateError if settings that a certificate is about are not those of the fit."""
        changed = [name for name, now in self._digest_settings().items() if now != self._setting_digests[name]]
        if changed:
            raise CertificateError(
                f"the settings of the estimator were changed after the fit: {', '.join(changed)}. Set them back, or "
                "fit again"
            )

    # -- rows ----------------------------------------------------------------------------------------

    def _open_sample(self, pool: Pool, X: Any, y: Any, settings: FitSettings) -> tuple[SampleRows, Any]:
        """Return the rows of a training sample, and their targets as they are given."""
        workers = Workers(settings.n_jobs, verbose=settings.verbose)
        rows = open_source_rows(X, y, pool, workers)
        if rows is None:
            code_book = pool.make_code_book(to_host(X))
            # On a copy: what it notes about the features belongs to a fit that succeeds.
            noted = copy.copy(self)
            features, labels = noted._read(pool, code_book, X, y, reset=True)
            if settings.checkpoint is None:
                columns = getattr(noted, "feature_names_in_", None)
                return MemoryRows.of(features, pool, workers, code_book=code_book, columns=columns, given=X), labels
            if code_book is not None or not isinstance(features, np.ndarray):
                raise ValueError("checkpoint must be None unless X is a dense array or read in blocks")
            rows = open_source_rows(ArraySource(features, labels), None, pool, workers, local=True)
            assert rows is not None
        return rows, rows.labels()

    def _read(self, pool: Pool, code_book: CodeBook | None, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        """Return rows in memory as the hypotheses take them, and their targets, None if there are none.

        With `reset`, they are those of a sample, with targets; otherwise they must have its features.
        """
        X, y = to_host(X), to_host(y)
        if np.ma.is_masked(y):  # what is under the mask is no label
            masked = f"{np.count_nonzero(np.ma.getmaskarray(y))} masked ones"
            raise ValueError(f"y must hold no missing labels, got {masked}: leave these rows out")
        if y is not None:
            self._check_target(y)
        # A code book checks the columns of a table itself.
        checks = pool.validation_kwargs(X) if code_book is None else {"skip_check_array": True}
        ranges = None if reset or not is_table(X) else self.fitted_votes_.ranges
        # Where a code book encodes the table, or a learner takes gaps, these fill them.
        fills = ranges is not None and code_book is None and checks.get("ensure_all_finite", True) is True
        with _explain_text(X):
            if reset:
                X, y = validate_data(self, X, y, **checks)
            else:
                allowed = {"ensure_all_finite": "allow-nan"} if fills else {}
                X = validate_data(self, X, reset=False, **checks | allowed)
        X = X if code_book is None else code_book.encode(X)
        if ranges is not None and (gaps := ranges.count_gaps(X)):
            warnings.warn(describe_gaps(gaps), UserWarning, stacklevel=1)
            X = ranges.fill(X) if fills else X
        labels = None if y is None else np.asarray(y)
        if labels is not None and labels.shape != (X.shape[0],):
            raise ValueError(f"y must hold one label for each of the {X.shape[0]} rows of X, got shape {labels.shape}")
        pool.check_points(X)
        return X, labels

    def open_rows(self, X: Any, y: Any = None) -> SampleRows:
        """Return rows as the hypotheses take them, after they are checked to have the features of the sample.

        Parameters
        ----------
        X, y : array-like, str, path-like, dask collection or Source
            Rows and, if they are given, targets, as in `fit`.

        Returns
        -------
        SampleRows
            Rows in memory, or of a source: what `predict` and `certify` read in blocks. All methods of this fit that
            take X take these as well, with the targets that they were opened with, and do not check them again.
        """
        check_is_fitted(self)
        if isinstance(X, SampleRows):
            if y is not None:
                raise ValueError("y must be left out where X are rows that were opened: open them with y")
            if X.opened_for is not self.fitted_votes_.training_rows:
                raise ValueError("X must be rows that were opened by this fit: others have other features and targets")
            return X
        validate_settings(self, {name: self._CONSTRAINTS[name] for name in _COMPUTING})
        fitted, workers = self.fitted_votes_, Workers(self.n_jobs, verbose=self.verbose)
        pool, code_book = fitted.pool, fitted.code_book
        labels: Any
        rows: SampleRows | None = open_source_rows(X, y, pool, workers, fitted=fitted)
        if rows is None:
            X, labels = self._read(pool, code_book, X, y, reset=False)
            rows = MemoryRows.of(X, pool, workers, code_book=code_book, columns=fitted.feature_names)
        else:
            labels = None if y is None else rows.labels()
        nothing = np.zeros(len(rows), dtype=np.float64 if fitted.task.numeric else np.intp)
        encoded = nothing if labels is None else fitted.task.encode(labels)
        opened = rows.with_target(fitted.task, encoded)
        return replace(opened, opened_for=fitted.training_rows, has_target=labels is not None)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels or numbers, in the way that `voting` says.

        With ``voting="gibbs"`` every point of every call gets a hypothesis of its own, drawn afresh: the stream of
        draws begins with `fit`, from `random_state`, and goes on from call to call. A model that comes out of a file
        begins a stream of its own, from the system's entropy, since a stream that began again with every loading
        would ask the same hypothesis every time.
        """
        return np.concatenate(list(self._predict(self.open_rows(X))))

    def _predict(self, rows: SampleRows, *, aggregated: bool = False) -> Iterator[NDArray[Any]]:
        """Return what the vote of now, not of a later fit, predicts, block by block, or its aggregated answers."""
        fitted = self.fitted_votes_
        # As certified: a change of `voting` takes effect with the next fit.
        found = predict_rows(fitted.best, rows, self._prediction_stream, aggregated=aggregated)
        return (one["predicted"] if aggregated else fitted.task.decode(one["predicted"]) for one in found)

    # -- the certificate -----------------------------------------------------------------------------

    def verify_certificate(
        self, certificate: Certificate, X: Any = None, y: ArrayLike | None = None, *, groups: Any = None
    ) -> str:
        """Recompute a certificate from this estimator, and from its training sample if that is given.

        Parameters
        ----------
        certificate : Certificate
            The certificate to verify.
        X, y : array-like, optional
            The training sample, in the same order: the validation losses are then computed anew.
        groups : optional
            Its groups, as in `fit`: needed with X if the certificate bounds errors by group.

        Returns
        -------
        str
            What was verified: "arithmetic and model", or "arithmetic, model and data".

        Raises
        ------
        CertificateError
            If the certificate is not the one of this estimator, naming the first thing that differs.
        """
        check_is_fitted(self)
        self._refuse_changed_settings()
        fitted = self.fitted_votes_
        if X is None:
            if groups is not None:
                raise ValueError("groups must be given together with X and y")
            return verify_certificate(fitted, certificate)
        if groups is None and certificate.groups is not None:
            raise ValueError("groups must be given, as in fit: the certificate bounds errors by group")
        if groups is not None and certificate.groups is None:
            raise ValueError("groups must be left out: the certificate bounds no errors by group")
        rows = self._open_labelled(X, y)
        declared = None if groups is None else Groups.of(groups, len(rows), X)
        unknown = np.flatnonzero(~fitted.task.is_known(rows.sample.codes))
        if unknown.size:
            label = (
                "a label" if y is None or isinstance(y, str) else f"the label {np.asarray(y).tolist()[unknown[0]]!r}"
            )
            raise CertificateError(
                f"y holds {label}, in row {unknown[0]}, which the classifier does not know: it is a different sample"
            )
        return verify_certificate(fitted, certificate, rows, declared)

    def _open_labelled(self, X: Any, y: Any) -> SampleRows:
        """Return rows with targets: those that are given, or those of a source."""
        rows = self.open_rows(X, y)
        if not rows.has_target:
            rows = rows.with_target(self.fitted_votes_.task, self.fitted_votes_.task.encode(rows.labels()))
        return rows

    def certify(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        delta: float | None = None,
        groups: Any = None,
        weights: ArrayLike | None = None,
        max_weight: float | None = None,
        weights_estimated: bool = False,
        tail: Literal["exact", "randomised"] = "exact",
        random_state: int | None = None,
    ) -> Certificate:
        """Certify what `predict` does by new points, that had no part in making the estimator.

        With `weights`, the certificate is about points from another distribution Q than the new points come from: each
        of these is kept with probability weight / max_weight, whatever its label, and those kept are a sample of Q.

        Parameters
        ----------
        X : array-like of shape (n, d)
            New points. Rows of the training sample are refused, in part and in any order, if there are more of them
            than new points would have in common with it by chance.
        y : array-like of shape (n,), optional
            Their targets. A label that the classifier does not know counts as an error.
        delta : float, optional
            Probability with which the certificate may fail; by default that of the fit. Only with targets.
        groups : optional
            Groups of the new points whose errors are to be bounded, all at once, as in `fit`. They need not be those of
            the fit: the bounds rest on the new points alone, also for groups that the fit has not seen.
        weights : array-like of shape (n,), optional
            Density of Q relative to the distribution of the new points, at each of them, or a multiple of it. Labels
            given the features have to be as likely in Q, unless the weights are about both.
        max_weight : float, optional
            Largest weight that any point can have, declared without looking at the new points; needed with `weights`.
        weights_estimated : bool, default=False
            Whether the weights are estimates of the ratio of densities rather than known: the certificate is then not
            strict, and says so.
        tail : {"exact", "randomised"}, default="exact"
            Which tail of the binomial distribution bounds the number of errors. The exact one fails less often than
            delta, since errors are whole. The randomised one (Stevens 1950, `bounds.clopper_pearson` with `u`) fails
            exactly as often, and is smaller: by chance, which `random_state` decides before the points are seen.
        random_state : int, optional
            Seed of which points are kept, by default that of the fit, and of a randomised tail, which needs one that is
            given here. Decide on it before you see the points, and without a look at what it leads to: the best of
            several seeds proves less, and so does one that is known for a small bound.

        Returns
        -------
        Certificate
            With labels, the exact bound of a test set (Clopper-Pearson), or Chernoff's for other losses of labels, and
            bounds on the misses and false alarms of each class, and what a vote may answer (`abstention`). Without, a
            bound on the vote from how often it disagrees with a single hypothesis, whose own error is bounded by its
            validation points (`pacbayes.votes.disagreement_bound`).
        """
        rows = self.open_rows(X, y)
        has_target, rows = rows.has_target, self._check_unseen(rows)
        fitted, loss = self.fitted_votes_, self.fitted_votes_.loss
        certificate, n = fitted.best.certificate, len(rows)
        tail_seed = _check_tail(tail, random_state, certificate)
        seed = fitted.entropy if random_state is None else int(random_state)
        weighting = Weighting.of(weights, max_weight, weights_estimated, seed, n)
        declared = None if groups is None else Groups.of(groups, n, X)
        self._refuse_changed_settings()
        if fitted.task.numeric and not has_target:
            raise ValueError("y must be given: without targets, only votes of classifiers can be certified")
        if loss.on_probabilities or not (has_target or loss.is_zero_one):
            needed = "a loss of labels" if has_target else "the zero-one loss"
            raise ValueError(f"certify needs {needed}, and the classifier has {certificate.loss!r}")
        certificate = certificate.without_test()
        codes = [*(code for code in certificate.assumption_codes if code != "groups-declared"), "new-points"]
        certificate = replace(certificate, assumption_codes=tuple(codes), statements=())
        if not has_target:
            given = {"delta": delta, "groups": groups, "weights": weights, "tail": None if tail == "exact" else tail}
            for name in (name for name, value in given.items() if value is not None):
                raise ValueError(f"{name} must be None without labels: the bounds on hypotheses are those of the fit")
            return self._certify_unlabelled(certificate, rows)
        level = certificate.delta if delta is None else validate_delta(delta)
        certificate = replace(certificate, n_votes=1, delta=level)
        if weighting is not None:
            rows, certificate = rows.take(weighting.kept), weighting.describe(certificate)
            declared = None if declared is None else declared.take(weighting.kept)
        result = evaluate_on_rows(fitted.best, rows, loss, self._prediction_stream, shares=True)
        if declared is not None:
            codes = [*certificate.assumption_codes, "groups-declared"]
            certificate = replace(certificate, assumption_codes=tuple(codes))
        return result.certify(
            replace(certificate, **fitted.task.describe_target(rows.sample.codes)), declared, tail_seed
        )

    def feature_importances(
        self, X: Any, y: ArrayLike, *, n_repeats: int = 5, max_rows: int = 1000, random_state: int = 0
    ) -> Any:
        """Measure by how much the loss grows if a feature is permuted, on rows that had no part in training.

        The estimator does not keep the rows it was fitted to, so that they have to be given: there is no attribute
        `feature_importances_`. Importances are measured, and no part of the certificate.

        Parameters
        ----------
        X, y : array-like
            The training sample, in the same order: of it, those rows are used that were held out or, if none were, all
            of them, each predicted by those hypotheses that were not trained on it. Or new points, all of which are
            used; other rows of the training sample among them are refused.
        n_repeats : int, default=5
            How often a feature is permuted.
        max_rows : int, default=1000
            Number of rows that are used, at most, drawn at random.
        random_state : int, default=0
            Seed of draws and permutations.

        Returns
        -------
        Bunch
            As `sklearn.inspection.permutation_importance` returns: `importances_mean`, `importances_std` and
            `importances` of shape (n_features, n_repeats). A mean of 0.1 says that 10% more points are predicted
            wrongly without the feature, if the loss counts errors.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from pacbayes import PACBayesClassifier
        >>> X, y = make_moons(400, noise=0.1, random_state=0)
        >>> X = np.column_stack((X, X[::-1, 0]))
        >>> model = PACBayesClassifier(n_hypotheses=12, random_state=0).fit(X, y)
        >>> model.feature_importances(X, y).importances_mean.argmin()
        np.int64(2)
        """
        from sklearn.inspection import permutation_importance

        check_is_fitted(self)
        labelled = self._open_labelled(X, y)
        chosen, score = importance_score(self.fitted_votes_, labelled, self.open_rows, max_rows, random_state)
        rows = take_rows(X if hasattr(X, "shape") else np.asarray(X), chosen)
        how = {"scoring": score, "n_repeats": n_repeats, "random_state": random_state}
        return permutation_importance(self, rows, np.asarray(y)[chosen], **how)

    def _certify_unlabelled(self, certificate: Certificate, rows: SampleRows) -> Certificate:
        raise NotImplementedError

    def add_assumption(self, assumption: str) -> Self:
        """State one more assumption in the certificates of all votes.

        Parameters
        ----------
        assumption : str
            A code of `pacbayes.certificate.assumptions`, or a sentence.
        """
        check_is_fitted(self)
        self.fitted_votes_ = self.fitted_votes_.add_assumption(assumption)
        return self

    def count_seen(self, X: Any) -> int:
        """Count rows of the training sample among others, in part and in any order; 0 if no more than by chance."""
        known = self.fitted_votes_.training_rows
        return known.count_seen(self.open_rows(X).summarize(known.shift)[0])

    def check_unseen(self, X: Any) -> None:
        """Raise ValueError if there are rows of the training sample among others, in part and in any order."""
        self._check_unseen(self.open_rows(X))

    def _check_unseen(self, rows: SampleRows) -> SampleRows:
        if len(rows) == 0:
            raise ValueError("X must hold at least one point, got none")
        known = self.fitted_votes_.training_rows
        summary, rows = rows.summarize(known.shift)
        known.check_unseen(summary)
        return rows

    # -- copies, and what a notebook shows: scikit-learn's diagram, and the certificate below it ----------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_prediction_stream", None)
        return {**state, "checkpoint": None if self.checkpoint is None else os.fspath(self.checkpoint)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "fitted_votes_" in state:
            self._prediction_stream = np.random.default_rng()

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._certificate_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._certificate_html()
        return bundle

    def _certificate_html(self) -> str:
        return self.certificate_._repr_html_() if hasattr(self, "fitted_votes_") else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.voting == "gibbs"
        tags.input_tags = get_tags(self._find_pool()).input_tags
        return tags


def read_fit_params(*, sample_weight: Any = None, **others: Any) -> Any:
    """Return the weights of rows in training; raise TypeError if there is anything else."""
    if others:
        allowed = "X, y, groups, max_error and sample_weight"
        raise TypeError(f"fit takes no parameters besides {allowed}, got {sorted(others)}")
    return sample_weight


def _weigh_rows(rows: SampleRows, weights: Any) -> SampleRows:
    """Return rows that count differently in training, or raise ValueError for weights that cannot be."""
    given = row_numbers("sample_weight", weights, len(rows))
    wrong = ~((given >= 0) & (given < np.inf))
    if wrong.any() or not given.any():
        found = f"{given[wrong][0]!s} in row {int(np.argmax(wrong))}" if wrong.any() else "zeros only"
        raise ValueError(f"sample_weight must hold finite numbers that are not negative, got {found}")
    with np.errstate(over="ignore"):
        if np.isinf(given.sum()):
            raise ValueError(f"sample_weight must have a finite sum, got numbers up to {given.max():g}: scale them")
    if not isinstance(rows, MemoryRows):
        raise ValueError("sample_weight must be None unless all rows are in memory, and checkpoint is None")
    return rows.with_sample(replace(rows.sample, weights=given))


def _check_tail(tail: Any, random_state: Any, certificate: Certificate) -> int | None:
    """Return the seed of a randomised tail, None for the exact one; raise ValueError for what is no seed."""
    if tail not in ("exact", "randomised"):
        raise ValueError(f"tail must be 'exact' or 'randomised', got {tail!r}")
    if tail == "exact":
        if not (random_state is None or (is_whole(random_state) and int(random_state) >= 0)):
            raise ValueError(f"random_state must be a whole number, at least 0, or None, got {random_state!r}")
        return None
    if not certificate.is_zero_one:
        raise ValueError(f"tail must be 'exact' for the loss {certificate.loss!r}, which does not count errors")
    if not (is_whole(random_state) and 0 <= int(random_state) <= 10**15):
        raise ValueError(
            f"random_state must be a whole number from 0 to 10**15 for tail='randomised', decided on before the points "
            f"are seen, got {random_state!r}"
        )
    return int(random_state)


@contextmanager
def _explain_text(X: Any) -> Iterator[None]:
    """Raise ValueError that says what to do about text in an array, which NumPy cannot turn into numbers."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error) or is_table(X):
            raise
        word = str(error).partition(": ")[2].removeprefix("np.str_(").removesuffix(")")
        raise ValueError(
            f"X must hold numbers, got text, {word}: give a data frame, whose columns may hold text, such as "
            "pandas.DataFrame(X).infer_objects(), or encode text within the base learner"
        ) from error


def _explain_missing_values(X: Any, error: ValueError | HypothesisError) -> None:
    """Raise ValueError with the safe way if missing values are why a fit failed.

    scikit-learn's own message recommends an imputer in a pipeline. Around this estimator, it would see the validation
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
