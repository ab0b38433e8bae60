"""What was proved, with what was assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import dropwhile
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike

from pacbayes._json_fields import (
    Length,
    Pattern,
    Range,
    dump_checked,
    load_checked,
    raising,
    read_object,
    read_value,
    shorten,
)
from pacbayes._losses import find_cap, is_of_numbers, is_of_probabilities, to_error
from pacbayes._validation import numbers
from pacbayes.bounds import single_hypothesis_kl
from pacbayes.certificate import _html, _numbers, _thresholds, _words
from pacbayes.certificate._numbers import ErrorShare, IntervalCoverage, NumberErrors
from pacbayes.certificate._objectives import OBJECTIVES, VOTINGS, Objective, Voting, follows_from_losses
from pacbayes.certificate._probabilities import Calibration, Probabilities
from pacbayes.certificate._rates import MOST_LABELS, ClassRates, Confusion, GroupErrors
from pacbayes.certificate._statements import (
    BEST,
    MAJORITY,
    MAX_TEXT,
    MEAN,
    METHODS,
    RANDOMISED,
    Count,
    Event,
    Level,
    NonNegative,
    Statement,
    Text,
    Unit,
    Whole,
    expect,
    require,
)
from pacbayes.certificate._thresholds import Abstention, Coverage, DeclaredError, SetCounts
from pacbayes.certificate.assumptions import (
    SHIFT_ASSUMPTIONS,
    STATED,
    describe_assumption,
    encode_assumption,
    find_missing,
    is_code,
    is_covered,
    is_test_covered,
)
from pacbayes.exceptions import CertificateError

# What a digest may be of, and what it looks like.
_Part = Annotated[str, Pattern("hypotheses|losses|posterior|settings", "hypotheses, losses, posterior or settings")]
_Digest = Annotated[str, Pattern("[0-9a-f]{64}", "64 hexadecimal digits")]
_Label = Annotated[str, Length(0, MAX_TEXT)]

MOST_FAMILIES = 100

_FIELD, _FORMAT = "pacbayes_certificate", 4
# Longer than any certificate: what is larger is not read. A thousand labels and as many groups, all with names of 200
# characters, each of which may take 12 in JSON, are 5 million.
_MAX_CHARACTERS = 10_000_000

# JSON has no number for it.
_INFINITY = "Infinity"


@dataclass(frozen=True)
class FamilyWeight:
    """What a family of hypotheses has in a vote."""

    name: Text
    n_hypotheses: Count
    weight: Unit  # of all of them in the posterior
    vote_by: Literal["labels", "probabilities"]  # whether a weight goes to the class predicted, or is divided


@dataclass(frozen=True)
class Shift:
    """What the points of a test were thinned by, so that they follow another distribution.

    A point with weight w was kept with probability w / `max_weight`, without looking at its label. Points kept from
    a sample of P are a sample of Q, where dQ/dP is proportional to w (rejection sampling, von Neumann 1951).

    Attributes
    ----------
    max_weight : float
        Bound on the weights of all points, declared beforehand.
    n, n_kept : int
        Number of points before, and of those that were kept.
    seed : int
        Seed of the draws.
    """

    max_weight: Annotated[float, Range(0, open_low=True)]
    n: Count
    n_kept: Count
    seed: Annotated[int, Range(0)]


# The order of the fields is that of files.
@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Upper bounds on the true error of a classifier or regressor, with all that they rest on.

    With probability at least 1 - `delta` over the draw of the sample, each statement holds, if the `assumptions` do.
    Statements that rest on the same event hold jointly.

    Attributes
    ----------
    statements : tuple of Statement
        What is proved: first about what `predict` does, then about others.
    empirical_loss, kl_div : float
        Validation loss of the posterior, and its divergence from the prior, rounded up.
    n_validation, n_validation_max : int
        Smallest and largest number of validation points of any hypothesis.
    n_hypotheses, n_dropped : int
        Number of hypotheses m, and of those that were not validated in full: they have no weight.
    dropped_loss : float or None
        Lower bound on the validation losses of dropped hypotheses; None if there are none.
    n_votes : int
        Number of votes that competed, each with a pool of its own, under one delta; of all candidates of a search.
    delta : float
        Probability with which the bound may fail.
    lam : float or None
        Trade-off lambda of the Gibbs posterior; None if the posterior is not one that minimises a bound.
    objective : {"direct", "dual", "lambda", "kl", "relative", "stacking"}
        The bound that the posterior minimises.
    voting : {"majority", "gibbs", "best", "uniform", "mean"}
        What `predict` does, and how the posterior was chosen: by minimising the objective, all weight on the hypothesis
        with the smallest bound, or the prior itself.
    loss : str
        Name of the loss: "zero_one", "absolute", "brier" or one of the caller's; "cost:20" for a cost matrix with this
        largest cost, "function:NAME" for a function of labels, "probabilities:NAME" for another loss of probabilities;
        for predicted numbers "absolute_error:3.5" or "squared_error:3.5", capped at this error and in units of it.
    minimum_lower_bound : float or None
        Proved lower bound on the minimum of the objective over posteriors on `minimum_over` hypotheses; None if nothing
        was minimised.
    minimum_over : int
        Number of hypotheses that the minimum is about: all, or those that were validated in full.
    global_minimum : bool
        Whether the posterior is proved to minimise the objective over all these posteriors, to a relative gap of 2e-8.
    quasiconvex : str or None
        Condition of the paper under which alternating minimisation is guaranteed to find the same minimum, over the
        hypotheses that were validated in full.
    strict : bool
        Whether everything that shaped a hypothesis came from its own subsample or from reserved points, so that the
        theorem applies to the letter.
    assumption_codes : tuple of str
        What the bounds rest on, as codes of `pacbayes.certificate.assumptions`; `assumptions` has it in words.
    digests : mapping of str to str
        SHA-256 digests of what the certificate is about: "losses" and "posterior"; of a fit, also "hypotheses",
        those that were validated in full, and "settings".
    labels, label_counts : tuple of str and of int
        The class labels as text, and how many points of the sample have each; for a certificate from new labelled
        points, of these. Empty if they are not known or more than 1000.
    confusion : Confusion or None
        What the predictor said about points of each class; None if the labels are not known, or more than 50.
    families : tuple of FamilyWeight
        The families of a `UnionPool` with their weights; empty if there is one only.
    groups : GroupErrors or None
        Errors of each declared group on held-out points; of predicted numbers, those off by more than `large_error`.
    shift : Shift or None
        How new points were thinned to those of a shifted distribution, which the test is then about.
    abstention : tuple of Abstention
        What held-out points prove if the vote answers only where its winner has a large enough share, by rising
        threshold; all bounds on errors hold at once, with probability 1 - delta.
    prediction_sets : tuple of SetCounts
        Counts of held-out points from which `choose_sets` proves a coverage of sets of classes.
    declared : DeclaredError or None
        The error among answered points that was declared at the fit, and the thresholds at which it is proved.
    calibration : Calibration or None
        How shares of the vote become the probabilities of `predict_proba`; None if they are these shares.
    probabilities : Probabilities or None
        What held-out points prove about these probabilities.
    numbers : NumberErrors or None
        What held-out points say about predicted numbers, from which `choose_interval` proves a coverage of intervals.
    """

    statements: Annotated[tuple[Statement, ...], Length(1)]
    empirical_loss: Unit
    kl_div: NonNegative
    n_validation: Count
    n_validation_max: Count
    n_hypotheses: Count
    n_dropped: Whole
    dropped_loss: Unit | None
    n_votes: Count
    delta: Level
    lam: NonNegative | None = None
    objective: Objective
    voting: Voting
    loss: Text
    minimum_lower_bound: NonNegative | None = None
    minimum_over: Count
    global_minimum: bool = False
    quasiconvex: Text | None = None
    strict: bool
    assumption_codes: Annotated[tuple[Text, ...], Length(1)] = field(metadata={"json": "assumptions"})
    digests: Mapping[_Part, _Digest] = field(default_factory=dict, hash=False)
    labels: Annotated[tuple[_Label, ...], Length(0, MOST_LABELS)] = ()
    label_counts: Annotated[tuple[Whole, ...], Length(0, MOST_LABELS)] = ()
    confusion: Confusion | None = None
    families: Annotated[tuple[FamilyWeight, ...], Length(0, MOST_FAMILIES)] = ()
    groups: GroupErrors | None = None
    shift: Shift | None = None
    abstention: Annotated[tuple[Abstention, ...], Length(0, _thresholds.MOST_THRESHOLDS)] = ()
    prediction_sets: Annotated[tuple[SetCounts, ...], Length(0, _thresholds.SET_THRESHOLDS.size)] = ()
    declared: DeclaredError | None = None
    calibration: Calibration | None = None
    probabilities: Probabilities | None = None
    numbers: NumberErrors | None = None

    # -- bounds by name ------------------------------------------------------------------------------

    @property
    def predictor(self) -> str:
        """Who makes the predictions: the majority vote, the randomised classifier or the best hypothesis."""
        return VOTINGS[self.voting].predictor

    @property
    def bound(self) -> float:
        """Bound on what `predict` does. 1 means that nothing is proved.

        A loss of probabilities is that of the hypotheses' own, which `predict` does not output: nothing is proved then.
        """
        return 1.0 if is_of_probabilities(self.loss) else self._bound_on(self.predictor)

    @property
    def error_bound(self) -> float:
        """Bound on what `predict` does, in the unit of the target where it predicts numbers.

        On the mean absolute error, or on the root of the mean squared error; infinite if nothing is proved. Errors
        beyond the cap count as much as the cap. For classes, this is `bound`.
        """
        if not is_of_numbers(self.loss):
            return self.bound
        return float("inf") if self.bound >= 1 else self.to_error(self.bound)

    def to_error(self, loss: float) -> float:
        """Return a mean loss of predicted numbers in the unit of the target."""
        return to_error(self.loss, loss)

    @property
    def unproved(self) -> str | None:
        """What nothing is proved about, of what `predict` does; None if its bound is below 1."""
        if self.bound < 1:
            return None
        return "labels that are predicted" if is_of_probabilities(self.loss) else _words.name_predictor(self, self)

    @property
    def gibbs_bound(self) -> float:
        """Bound on the expected loss of the randomised classifier, which draws a hypothesis for every prediction."""
        return self._bound_on(RANDOMISED)

    @property
    def vote_bound(self) -> float:
        """Bound on the zero-one loss of the majority vote; 1 for other losses, for which nothing is proved."""
        return self._bound_on(MAJORITY)

    def _bound_on(self, predictor: str) -> float:
        # A single hypothesis with all the weight is the vote and the randomised classifier alike.
        alike = self.predictor == BEST and (self.is_zero_one or predictor != MAJORITY)
        names = (predictor, BEST) if alike else (predictor,)
        return min((statement.bound for statement in self.statements if statement.predictor in names), default=1.0)

    @property
    def is_tested(self) -> bool:
        """Whether the bound on what `predict` does rests on held-out points."""
        return self.statements[0].is_test

    @property
    def test_covered(self) -> bool:
        """Whether held-out points come from the distribution that the certificate is about, as far as is assumed."""
        return is_test_covered(self.assumption_codes)

    @property
    def is_covered(self) -> bool:
        """Whether the theorem, or that of a test set, covers the bound on what `predict` does."""
        return self.statements[0].is_covered

    @property
    def minimizes_lambda_bound(self) -> bool:
        """Whether the posterior is the one at the minimum of F(lambda)."""
        return self.lam is not None and OBJECTIVES[self.objective].minimizes_f

    @property
    def follows_from_losses(self) -> bool:
        """Whether the posterior follows from the validation losses: not that of the objective "stacking"."""
        return follows_from_losses(self.objective, self.voting)

    @property
    def is_zero_one(self) -> bool:
        """Whether the loss is the share of wrong labels."""
        return self.loss == "zero_one"

    # -- by class ------------------------------------------------------------------------------------

    @property
    def commonest_class(self) -> tuple[str, float] | None:
        """The most frequent label, and the share of points that always predicting it errs on; None if not known."""
        # Of new points, those with labels that the classifier does not know are counted nowhere else.
        tested = (int(s.figures["n"]) for s in self.statements if s.is_test)
        n = max(sum(self.label_counts), *tested, 0)
        if not self.label_counts or n == 0:
            return None
        most = max(self.label_counts)
        return self.labels[self.label_counts.index(most)], 1 - most / n

    def class_rates(self) -> list[ClassRates]:
        """Return misses and false alarms of each class, measured and bounded; empty if there is no confusion matrix."""
        return [] if self.confusion is None else self.confusion.rates(self.labels)

    # -- by the shares of the vote -------------------------------------------------------------------

    def choose_abstention(self, max_error: float | None = None) -> Abstention:
        """Return the smallest threshold at which the error among answered points is proved to be at most `max_error`.

        Parameters
        ----------
        max_error : float, optional
            Largest error among points that are answered. All rows of `abstention` hold at once, so that it may be
            chosen after a look at them. The one that was declared at the fit by default, or if it is given: its
            own threshold, `declared.proved`, holds then, which answers at least as many points as a rule.
        """
        self._require_shares("abstention")
        if self.declared is not None and max_error in (None, self.declared.max_error):
            return self.declared.require()
        if max_error is None:
            raise ValueError("max_error must be given: none was declared at the fit")
        return _thresholds.choose_abstention(self.abstention, *numbers(max_error=max_error))

    def choose_sets(self, coverage: float) -> Coverage:
        """Return the largest threshold at which sets of classes are proved to have a coverage.

        Parameters
        ----------
        coverage : float
            Share of new points that must have their class in their set, in (0, 1), chosen without a look at what it
            leads to. Each level holds with probability 1 - delta; several do not all hold at once.
        """
        self._require_shares("prediction sets")
        return _thresholds.choose_sets(self.prediction_sets, *self._test, *numbers(coverage=coverage))

    @property
    def _test(self) -> tuple[int, float, float]:
        """Number of held-out points, price of having chosen what was tested on them, and delta."""
        figures = self.statements[0].figures
        return int(figures["n"]), figures["kl_div"], self.delta

    # -- predicted numbers ---------------------------------------------------------------------------

    @property
    def scale_floor(self) -> float:
        """The least scale of a point, to which the spread of the hypotheses is added: their mean validation error."""
        _, cap = find_cap(self.loss)
        return max(self.to_error(self.empirical_loss), 1e-9 * cap)

    @property
    def large_error(self) -> float:
        """The error beyond which predicted numbers are counted as wrong, by group: twice the mean validation error."""
        return 2 * self.scale_floor

    def choose_interval(self, coverage: float) -> IntervalCoverage:
        """Return the narrowest intervals around predicted numbers that are proved to have a coverage.

        Parameters
        ----------
        coverage : float
            Share of new points whose target must be in its interval, in (0, 1), chosen without a look at what it leads
            to. Each level holds with probability 1 - delta; several do not all hold at once.
        """
        (level,) = numbers(coverage=coverage)
        return _numbers.choose_interval(self._require_numbers("intervals"), *self._test, level)

    def error_curve(self) -> list[ErrorShare]:
        """Return how many new points are off by no more than an error, at least, for several errors at once."""
        self._require_numbers("the curve of errors")
        return _numbers.error_curve(self.statements[0])

    def bound_error(self, kind: Literal["absolute", "squared"] = "absolute") -> float:
        """Return what held-out points prove about the mean absolute or root mean squared error, capped.

        Parameters
        ----------
        kind : {"absolute", "squared"}, default="absolute"
            Which mean. Each of the two holds with probability 1 - delta, and not both at once. The bound is in the unit
            of the target; infinite if nothing is proved.
        """
        if kind not in ("absolute", "squared"):
            raise ValueError(f"kind must be 'absolute' or 'squared', got {kind!r}")
        self._require_numbers("mean errors")
        figures = dict(self.statements[0].figures) | {"power": 1 if kind == "absolute" else 2}
        bound = _numbers.bound_mean_error(self.delta, **figures)
        _, cap = find_cap(self.loss)
        return float("inf") if bound >= 1 else to_error(f"{kind}_error:{cap!r}", bound)

    def _require_numbers(self, what: str) -> NumberErrors:
        if self.numbers is None:
            raise ValueError(
                f"{what} rest on held-out points and predicted numbers, and the certificate has none: fit a "
                "PACBayesRegressor with holdout, 'auto' or a share of the rows"
            )
        return self.numbers

    def _require_shares(self, what: str) -> None:
        if not self.abstention:
            raise ValueError(
                f"{what} rest on held-out points and a vote, and the certificate has none: fit with "
                "voting='majority' or 'uniform', and with holdout, 'auto' or a share of the rows"
            )

    def held_out_bound(self, loss: float | None = None) -> float:
        """Return the bound from holding out as many points: one classifier, tested on `n_validation` points.

        What a test set of the same size would have proved for one classifier with this test `loss`, by default the
        validation loss of the posterior, trained without those points (Chernoff's bound in kl form). The ensemble pays
        KL and ln(2 sqrt(n)) for having been chosen on its validation points, and uses the rest of the sample for
        training all the same.
        """
        tested = self.empirical_loss if loss is None else loss
        return float(single_hypothesis_kl(tested, self.n_validation, self.delta))

    def revise(self, **changes: Any) -> Certificate:
        """Return this certificate with other values of some fields, after it has passed its own `check`."""
        revised = replace(self, **changes)
        revised.check()
        return revised

    def without_test(self) -> Certificate:
        """Return this certificate without what was counted on points by class, by group or by shares of the vote."""
        codes = tuple(code for code in self.assumption_codes if code != "max-error-declared")
        counted: dict[str, Any] = dict.fromkeys(("confusion", "groups", "declared", "probabilities", "numbers"))
        return replace(self, assumption_codes=codes, abstention=(), prediction_sets=(), **counted)

    def with_assumption(self, assumption: str) -> Certificate:
        """Return this certificate with one more assumption, a code or in words; a departure makes it not strict."""
        codes = (*self.assumption_codes, encode_assumption(assumption))
        statements = tuple(replace(one, event=METHODS[one.method].event_if(codes)) for one in self.statements)
        return self.revise(assumption_codes=codes, strict=is_covered(codes), statements=statements)

    # -- in words ------------------------------------------------------------------------------------

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the bounds rest on, in words."""
        sentences = {code: describe_assumption(code) for code in self.assumption_codes}
        # What another one begins with need not be said twice; nobody's own words take the place of a sentence.
        others = [sentence for code, sentence in sentences.items() if not code.startswith(STATED)]
        return tuple(said for said in sentences.values() if not any(one.startswith(f"{said}; ") for one in others))

    summary = _words.summary
    answers = _words.answers
    compare_with_commonest = _words.compare_with_commonest
    class_table = _words.class_table
    group_table = _words.group_table
    abstention_table = _words.abstention_table
    set_table = _words.set_table
    interval_table = _words.interval_table
    error_table = _words.error_table
    probability_table = _words.probability_table
    rows = _words.rows
    figures = _words.figures
    describe_families = _words.describe_families
    describe_weights = _words.describe_weights
    sections = _words.sections
    __str__ = _words.text
    _repr_html_ = _html.render

    # -- in files, and checked -----------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the certificate as JSON text, with a checksum against accidental edits.

        The checksum is no signature: who edits a certificate on purpose can compute it anew. That the bounds follow
        from the figures is checked by `check`, that these follow from a model or its data by verification with those.
        """
        values = asdict(self)
        values["assumptions"] = values.pop("assumption_codes")
        if self.lam == math.inf:
            values["lam"] = _INFINITY
        later = self._later_fields()
        said = {name: value for name, value in values.items() if value or name not in later}
        return dump_checked(_FIELD, _FORMAT, said)

    @classmethod
    def _later_fields(cls) -> dict[str, Any]:
        """Return what fields are by default that are written only where they say something: once, there were none."""
        return {item.name: item.default for item in dropwhile(lambda item: item.name != "families", fields(cls))}

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; raise CertificateError, naming the field, if it does not follow from its own figures."""
        with raising(CertificateError):
            values = cls._later_fields() | load_checked(text, "certificate", _FIELD, _FORMAT, longest=_MAX_CHARACTERS)
            infinite = values.get("lam") == _INFINITY
            certificate: Certificate = read_object(cls, values | {"lam": None} if infinite else values)
        certificate = replace(certificate, lam=math.inf) if infinite else certificate
        certificate.check()
        return certificate

    def verify(
        self,
        losses: ArrayLike,
        prior: ArrayLike | None = None,
        n: ArrayLike | None = None,
        posterior: ArrayLike | None = None,
    ) -> None:
        """Recompute everything from the validation losses, and raise `CertificateError` on a mismatch.

        A bound must not be below the recomputed one, at all. Statements that rest on held-out or unlabelled points do
        not follow from validation losses, and are checked by their own figures only.

        Parameters
        ----------
        losses : array_like of shape (m,)
            Validation losses of the hypotheses; NaN for those that were not validated in full. That `dropped_loss` is a
            lower bound on these cannot be told from losses: `PACBayesClassifier.verify_certificate` checks it.
        prior : array_like of shape (m,), optional
            The prior that was used; uniform by default.
        n : int or array_like of shape (m,), optional
            Number of validation points of each hypothesis; not needed if it is the same for all, nor for the
            objectives "lambda" and "kl". Entries of hypotheses without a loss are ignored.
        posterior : array_like of shape (m,), optional
            The weights, which do not follow from losses where the objective is "stacking".
        """
        from pacbayes.certificate._derivation import verify  # which makes certificates

        self.check()
        verify(self, losses, prior, n, posterior)

    def check(self) -> None:
        """Recompute the bounds from the certificate's own figures, and raise `CertificateError` on a mismatch."""
        with raising(CertificateError):
            read_value(Text, "loss", self.loss)
        if is_of_numbers(self.loss):
            try:
                find_cap(self.loss)
            except ValueError as error:
                raise CertificateError(f"loss must have a cap that is a number: {error}") from error
        self._check_assumptions()
        self._check_hypotheses()
        require(bool(self.statements), "statements must hold at least one statement, got none")
        for i, statement in enumerate(self.statements):
            statement.check(f"statements[{i}]", self)
        who = [statement.predictor for statement in self.statements]
        require(len(set(who)) == len(who), "statements must be about different predictors")
        in_order = self.predictor not in who or who[0] == self.predictor
        require(in_order, f"statements[0].predictor must be {self.predictor!r}, got {who[0]!r}")
        n_labels = len(self.labels)
        require(len(self.label_counts) == n_labels, f"label_counts must hold one number for each of {n_labels} labels")
        if self.confusion is not None:
            self._check_confusion(self.confusion)
        if self.families:
            self._check_families()
        if self.groups is not None:
            self._check_groups(self.groups)
        self._check_shift(self.shift)
        if self.abstention or self.prediction_sets or self.declared or self.probabilities:
            self._check_shares()
        self._check_numbers()
        voted = self.calibration is None or self.predictor == MAJORITY
        require(voted, f"calibration must be null for the {self.predictor}")

    def _check_assumptions(self) -> None:
        """Check that assumptions are known, that none is missing, and that they agree with `strict`."""
        for i, code in enumerate(self.assumption_codes):
            known = f"a code of `pacbayes.certificate.assumptions`, or 'stated:' and up to {MAX_TEXT} characters"
            is_known = is_code(code) and len(code) <= MAX_TEXT
            require(is_known, f"assumptions[{i}] must be {known}, got {shorten(code)}")
        missing = find_missing(self.assumption_codes, of_fit="hypotheses" in self.digests)
        require(not missing, f"assumptions must state: {'; '.join(missing)}")
        say = f"the assumptions {'say' if self.strict else 'do not say'} that the theorem does not cover the setting"
        agree = self.strict == is_covered(self.assumption_codes)
        require(agree, f"strict is stated as {self.strict!r}, but {say}")

    def _check_hypotheses(self) -> None:
        """Check numbers of hypotheses and of their validation points, and what was minimised over them."""
        m, dropped, least, most = self.n_hypotheses, self.n_dropped, self.n_validation, self.n_validation_max
        require(most >= least, f"n_validation_max must be at least n_validation, {least}, got {most}")
        rule = VOTINGS[self.voting]
        left = dropped < m and not (dropped and rule.needs_losses)
        require(left, f"n_dropped must leave hypotheses with weight, got {dropped} of {m}")
        given = (self.dropped_loss is None) == (dropped == 0)
        require(given, "dropped_loss must be null if and only if no hypotheses were dropped")
        allowed = f"{m} or {m - dropped}" if dropped else m
        require(self.minimum_over in (m, m - dropped), f"minimum_over must be {allowed}, got {self.minimum_over}")
        objective = OBJECTIVES[self.objective]
        minimized = rule.posterior is None and objective.of_losses
        has_lambda = minimized and objective.has_lambda
        how = f"for voting {self.voting!r} and objective {self.objective!r}"
        for name, given in (("lam", has_lambda), ("minimum_lower_bound", minimized)):
            require((getattr(self, name) is not None) == given, f"{name} must {'not ' if given else ''}be null {how}")
        require(minimized or not self.global_minimum, f"global_minimum must be false {how}")

    def _check_numbers(self) -> None:
        """Check what is stated about predicted numbers against the test on the same points."""
        of_numbers = is_of_numbers(self.loss)
        mean = VOTINGS[self.voting].predictor == MEAN
        require(of_numbers or not mean, f"voting must not be 'mean' for {self.loss!r}, which is no loss of numbers")
        require(not of_numbers or mean or self.predictor == BEST, f"voting cannot be {self.voting!r} for numbers")
        first = self.statements[0]
        proved = [one for one in self.statements if not (one.is_test or one.method == "unproved")]
        declared = [code for code in self.assumption_codes if code.startswith("range-declared:")]
        require(
            not of_numbers or bool(declared) or not proved, "validation losses prove nothing without 'range-declared'"
        )
        if of_numbers and declared:
            expect("the cap in loss", find_cap(self.loss)[1], _read_width(declared))
        if self.numbers is not None:
            require(of_numbers and first.is_test, "numbers must be null unless they were tested on held-out points")
            _numbers.check_numbers(self.numbers, int(first.figures["n"]))

    def _check_families(self) -> None:
        """Check what families have in the vote, and that its bound is about the way in which they vote."""
        families = self.families
        require(len({one.name for one in families}) == len(families), "families must have different names")
        expect("the number of hypotheses in families", sum(one.n_hypotheses for one in families), self.n_hypotheses)
        together = sum(one.weight for one in families)
        require(abs(together - 1) <= 1e-6, f"the weights of families must add up to 1, got {together!r}")
        by_probabilities = any(one.vote_by == "probabilities" for one in families)
        for i, one in enumerate(self.statements):
            of_labels = one.predictor == MAJORITY and METHODS[one.method].event == Event.PAC_BAYES
            wrong = f"statements[{i}] is about a vote by labels, and families vote by probabilities"
            require(not (of_labels and by_probabilities), wrong)

    def _check_groups(self, groups: GroupErrors) -> None:
        """Check errors by group against the test, and their bounds."""
        require("groups-declared" in self.assumption_codes, "assumptions must state 'groups-declared'")
        first = self.statements[0]
        require(first.is_test, "groups must be null unless statements[0] rests on held-out points")
        expect("groups.kl_div", groups.kl_div, first.figures["kl_div"])
        n, errors = first.figures["n"], first.figures.get("errors")
        if errors is None and self.confusion is not None:  # of another loss, whose errors are counted by class
            errors = self.confusion.errors
        groups.check(self.delta, n, errors)

    def _check_shift(self, shift: Shift | None) -> None:
        """Check that the test is on the points that were kept, and what this rests on."""
        if shift is None:
            # A certificate that is about a shifted distribution must not pass for one about the same distribution.
            of_shift = [code for code in self.assumption_codes if code.partition(":")[0] in SHIFT_ASSUMPTIONS]
            require(not of_shift, f"shift must not be null where assumptions state {', '.join(of_shift)}")
            return
        known = "weights-known" if self.test_covered else "weights-estimated"
        for code in ("new-points", f"shifted:{shift.max_weight!r}", known):
            require(code in self.assumption_codes, f"assumptions must state {code!r}")
        tested = len(self.statements) == 1 and self.statements[0].is_test
        require(tested, "shift must be null unless the only statement rests on new points")
        n = self.statements[0].figures["n"]
        require(shift.n_kept <= shift.n, f"shift.n_kept must be at most n, {shift.n}, got {shift.n_kept}")
        require(shift.n_kept == n, f"shift.n_kept must be the {n} points of statements[0], got {shift.n_kept}")

    def _check_confusion(self, confusion: Confusion) -> None:
        """Check the confusion matrix against what the certificate states elsewhere, and its bounds."""
        confusion.check(self.delta, len(self.labels))
        for label, whole, row in zip(self.labels, self.label_counts, confusion.counts[:-1], strict=True):
            n = sum(row)
            require(n <= whole, f"confusion.counts has {n} points of class {label!r}, of {whole} in all")
        if confusion.points == "out-of-bag":
            return
        first = self.statements[0]
        of_best = not first.is_test and first.predictor == self.predictor == BEST
        fits = first.is_test if confusion.points == "held-out" else of_best
        require(fits, f"confusion.points must be those of statements[0], got {confusion.points!r}")
        expect("confusion.kl_div", confusion.kl_div, first.figures["kl_div"])
        expect("the number of points in confusion.counts", confusion.n, first.figures["n"])
        if "errors" in first.figures:
            expect("the number of errors in confusion.counts", confusion.errors, first.figures["errors"])

    def _check_shares(self) -> None:
        """Check what is stated about shares of the vote against the test on the same points."""
        first = self.statements[0]
        fits = first.is_test and first.predictor == self.predictor == MAJORITY
        require(fits, "abstention and prediction_sets must be about a majority vote that was tested on held-out points")
        complete = bool(self.abstention) and bool(self.prediction_sets)
        require(complete, "abstention and prediction_sets must be given together")
        _thresholds.check_abstention(self.abstention, *self._test)
        _thresholds.check_sets(self.prediction_sets, self._test[0], self.abstention[0].errors)
        if "errors" in first.figures:
            expect("the number of errors in abstention[0]", self.abstention[0].errors, first.figures["errors"])
        if self.probabilities is not None:
            by_share = "expected-costs" not in self.assumption_codes
            require(by_share, "probabilities must be null where the vote predicts by expected costs")
            self.probabilities.check(*self._test)
        if self.declared is not None:
            require("max-error-declared" in self.assumption_codes, "assumptions must state 'max-error-declared'")
            _thresholds.check_declared(self.declared, *self._test)


def _read_width(declared: list[str]) -> float:
    """Return the width of a range of the target, by the codes that declare it."""
    ends = declared[0].partition(":")[2].split(" to ")
    try:
        low, high = map(float, ends)
    except ValueError:
        low = high = 0.0
    wrong = f"assumptions must declare one range, 'range-declared:LOW to HIGH', got {', '.join(map(shorten, declared))}"
    require(len(declared) == 1 and low < high, wrong)
    return high - low
