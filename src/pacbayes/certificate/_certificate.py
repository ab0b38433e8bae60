"""What was proved, with what was assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._losses import is_of_probabilities
from pacbayes.bounds import single_hypothesis_kl
from pacbayes.certificate import _answers, _html, _json, _words
from pacbayes.certificate._classes import ClassRates, Confusion
from pacbayes.certificate._derivation import Objective, Settings, Voting, derive, divided_prior, unlabelled_prices
from pacbayes.certificate._statements import BEST, MAJORITY, MAX_TEXT, METHODS, RANDOMISED, Event, Statement, shorten
from pacbayes.certificate.assumptions import describe_assumption, find_missing, is_code, is_covered
from pacbayes.exceptions import CertificateError

__all__ = ["Certificate"]

# Figures are recomputed to rounding on any machine; lambda only as sharply as its minimum is.
_FIGURE_TOLERANCE = 1e-9
_LAMBDA_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Certificate:
    """Upper bounds on the true error of a classifier, with all that they rest on.

    With probability at least 1 - `delta` over the draw of the sample, each statement holds, if the `assumptions` do.
    Statements that rest on the same event hold jointly.

    Attributes
    ----------
    statements : tuple of Statement
        What is proved: first about what `predict` does, then about others.
    empirical_loss : float
        Validation loss of the posterior, rounded up.
    kl_div : float
        Divergence of the posterior from the prior, rounded up.
    n_validation : int
        Smallest number of validation points of any hypothesis.
    n_validation_max : int
        Largest number of validation points of any hypothesis.
    n_hypotheses : int
        Number of hypotheses m.
    n_dropped : int
        Number of hypotheses that were not validated in full: they have no weight.
    dropped_loss : float or None
        Lower bound on the validation losses of these; None if there are none.
    n_votes : int
        Number of votes that competed, each with a pool of its own, under one delta; of all candidates of a search.
    delta : float
        Probability with which the bound may fail.
    lam : float or None
        Trade-off lambda of the Gibbs posterior; None if the posterior is not one that minimises a bound.
    objective : {"dual", "lambda", "kl"}
        The bound that the posterior minimises.
    voting : {"majority", "gibbs", "best", "uniform"}
        What `predict` does, and how the posterior was chosen: by minimising the objective, all weight on the hypothesis
        with the smallest bound, or the prior itself.
    loss : str
        Name of the loss: "zero_one", "absolute", "brier" or one of the caller's; "cost:20" for a cost matrix with this
        largest cost, "function:NAME" for a function of labels, "probabilities:NAME" for another loss of probabilities.
    minimum_lower_bound : float or None
        Proved lower bound on the minimum of the objective over posteriors on `minimum_over` hypotheses; None if nothing
        was minimised.
    minimum_over : int
        Number of hypotheses that the minimum is about: all, or those that were validated in full.
    global_minimum : bool
        Whether the posterior is proved to minimise the objective over all posteriors on `minimum_over` hypotheses, to
        a relative gap of 2e-8.
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
    labels : tuple of str
        The class labels, as text; empty if they are not known or more than 1000.
    label_counts : tuple of int
        How many points of the sample have each label; for a certificate from new labelled points, of these.
    confusion : Confusion or None
        What the predictor said about points of each class, and bounds on misses and false alarms, which hold all at
        once, with probability 1 - delta. None if the labels are not known, or more than 50.
    """

    statements: tuple[Statement, ...]
    empirical_loss: float
    kl_div: float
    n_validation: int
    n_validation_max: int
    n_hypotheses: int
    n_dropped: int
    dropped_loss: float | None
    n_votes: int
    delta: float
    lam: float | None
    objective: Objective
    voting: Voting
    loss: str
    minimum_lower_bound: float | None
    minimum_over: int
    global_minimum: bool
    quasiconvex: str | None
    strict: bool
    assumption_codes: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)
    labels: tuple[str, ...] = ()
    label_counts: tuple[int, ...] = ()
    confusion: Confusion | None = None

    # -- bounds by name ------------------------------------------------------------------------------

    @property
    def predictor(self) -> str:
        """Who makes the predictions: the majority vote, the randomised classifier or the best hypothesis."""
        return {"gibbs": RANDOMISED, "best": BEST}.get(self.voting, MAJORITY)

    @property
    def bound(self) -> float:
        """Bound on what `predict` does. 1 means that nothing is proved.

        A loss of probabilities is that of the hypotheses' own, which `predict` does not output: nothing is proved then.
        """
        return 1.0 if is_of_probabilities(self.loss) else self._bound_on(self.predictor)

    @property
    def unproved(self) -> str | None:
        """What nothing is proved about, of what `predict` does; None if its bound is below 1."""
        if self.bound < 1:
            return None
        return "labels that are predicted" if is_of_probabilities(self.loss) else self.predictor

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
        alike = self.voting == "best" and (self.is_zero_one or predictor != MAJORITY)
        names = (predictor, BEST) if alike else (predictor,)
        return min((statement.bound for statement in self.statements if statement.predictor in names), default=1.0)

    @property
    def is_tested(self) -> bool:
        """Whether the bound on what `predict` does rests on held-out points."""
        return self.statements[0].event == Event.TEST_SET

    @property
    def is_zero_one(self) -> bool:
        """Whether the loss is the share of wrong labels."""
        return self.loss == "zero_one"

    # -- by class ------------------------------------------------------------------------------------

    @property
    def commonest_class(self) -> tuple[str, float] | None:
        """The most frequent label, and the share of points that always predicting it errs on; None if not known."""
        # Of new points, those with labels that the classifier does not know are counted nowhere else.
        tested = (int(s.figures["n"]) for s in self.statements if s.event == Event.TEST_SET)
        n = max(sum(self.label_counts), *tested, 0)
        if not self.label_counts or n == 0:
            return None
        most = max(self.label_counts)
        return self.labels[self.label_counts.index(most)], 1 - most / n

    def class_rates(self) -> list[ClassRates]:
        """Return misses and false alarms of each class, measured and bounded; empty if there is no confusion matrix."""
        return [] if self.confusion is None else self.confusion.rates(self.labels)

    def held_out_bound(self, loss: float | None = None) -> float:
        """Return the bound from holding out as many points: one classifier, tested on `n_validation` points.

        What a test set of the same size would have proved for one classifier with this test loss, trained without
        those points (Chernoff's bound in kl form). The ensemble pays KL and ln(2 sqrt(n)) for having been
        chosen on its validation points, and uses the rest of the sample for training all the same.

        Parameters
        ----------
        loss : float, optional
            Test loss of the classifier; by default the validation loss of the posterior.
        """
        tested = self.empirical_loss if loss is None else loss
        return float(single_hypothesis_kl(tested, self.n_validation, self.delta))

    def revise(self, **changes: Any) -> Certificate:
        """Return this certificate with other values of some fields, after it has passed its own `check`."""
        revised = replace(self, **changes)
        revised.check()
        return revised

    # -- in words ------------------------------------------------------------------------------------

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the bounds rest on, in words."""
        return tuple(map(describe_assumption, self.assumption_codes))

    def summary(self) -> str:
        """Return what is proved, in one plain sentence."""
        return _words.summary(self)

    def answers(self, tested: Statement | None = None) -> list[_answers.Answer]:
        """Return the bound on what `predict` does, its error on held-out points, and that of the commonest class.

        Parameters
        ----------
        tested : Statement, optional
            What other test points prove about what `predict` does, as the first statement of `certify(X, y)`.
        """
        return _answers.answers(self, tested)

    def compare_with_commonest(self) -> str | None:
        """Return a sentence if the bound is not below the error of always predicting the commonest class, else None."""
        return _answers.compare_with_commonest(self)

    def class_table(self, most_predicted: int = 50) -> _answers.ClassTable | None:
        """Return errors by class as a table of text, with the confusion matrix of up to `most_predicted` classes."""
        return _answers.class_table(self, most_predicted)

    def rows(self, tested: Statement | None = None) -> list[_words.Row]:
        """Return the measured loss, the certified bounds and bounds to compare them with, for tables and plots.

        Parameters
        ----------
        tested : Statement, optional
            What other test points prove about what `predict` does; shown if it is about the same loss.
        """
        return _words.rows(self, tested)

    def figures(self) -> dict[str, str]:
        """Return what the bounds are made of, by name."""
        return _words.figures(self)

    def __str__(self) -> str:
        return _words.text(self)

    def _repr_html_(self) -> str:
        return _html.render(self)

    # -- in files, and checked -----------------------------------------------------------------------

    def to_json(self) -> str:
        """Write the certificate as JSON text."""
        return _json.dump(self)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; raise CertificateError, naming the field, if it does not follow from its own figures."""
        certificate = cls(**_json.load(text))
        certificate.check()
        return certificate

    def check(self) -> None:
        """Recompute the bounds from the certificate's own figures, and raise `CertificateError` on a mismatch."""
        if not 0 < len(self.loss) <= MAX_TEXT:
            raise CertificateError(f"loss must have a name of 1 to {MAX_TEXT} characters, got {shorten(self.loss)}")
        self._check_assumptions()
        self._check_hypotheses()
        if not self.statements:
            raise CertificateError("statements must hold at least one statement, got none")
        for i, statement in enumerate(self.statements):
            name = f"statements[{i}]"
            statement.check(name, strict=self.strict)
            _expect(f"{name}.loss", statement.loss, self.loss)
            _expect(f"{name}.delta", statement.delta, self.delta)
            self._check_figures(name, statement)
        who = [statement.predictor for statement in self.statements]
        if len(set(who)) < len(who):
            raise CertificateError("statements must be about different predictors")
        if self.predictor in who and who[0] != self.predictor:
            raise CertificateError(f"statements[0].predictor must be {self.predictor!r}, got {who[0]!r}")
        if len(self.labels) != len(self.label_counts):
            raise CertificateError(f"label_counts must hold one number for each of {len(self.labels)} labels")
        if self.confusion is not None:
            self._check_confusion(self.confusion)

    def _check_assumptions(self) -> None:
        """Check that assumptions are known, that none is missing, and that they agree with `strict`."""
        for i, code in enumerate(self.assumption_codes):
            if not (is_code(code) and len(code) <= MAX_TEXT):
                raise CertificateError(
                    f"assumptions[{i}] must be a code of `pacbayes.certificate.assumptions`, or 'stated:' and up to "
                    f"{MAX_TEXT} characters, got {shorten(code)}"
                )
        missing = find_missing(self.assumption_codes, of_fit="hypotheses" in self.digests)
        if missing:
            raise CertificateError(f"assumptions must state: {'; '.join(missing)}")
        if self.strict != is_covered(self.assumption_codes):
            raise CertificateError(
                f"strict is stated as {self.strict!r}, but the assumptions "
                f"{'say' if self.strict else 'do not say'} that the theorem does not cover the setting"
            )

    def _check_hypotheses(self) -> None:
        """Check numbers of hypotheses and of their validation points, and what was minimised over them."""
        m, dropped = self.n_hypotheses, self.n_dropped
        if self.n_validation_max < self.n_validation:
            raise CertificateError(
                f"n_validation_max must be at least n_validation, {self.n_validation}, got {self.n_validation_max}"
            )
        if dropped >= m or (dropped and self.voting == "uniform"):
            raise CertificateError(f"n_dropped must leave hypotheses with weight, got {dropped} of {m}")
        if (self.dropped_loss is None) != (dropped == 0):
            raise CertificateError("dropped_loss must be null if and only if no hypotheses were dropped")
        if self.minimum_over not in (m, m - dropped):
            allowed = f"{m} or {m - dropped}" if dropped else m
            raise CertificateError(f"minimum_over must be {allowed}, got {self.minimum_over}")
        minimised = self.voting in ("majority", "gibbs")
        for name, given in (("lam", minimised and self.objective != "dual"), ("minimum_lower_bound", minimised)):
            if (getattr(self, name) is None) == given:
                raise CertificateError(
                    f"{name} must {'not ' if given else ''}be null for voting {self.voting!r} and objective "
                    f"{self.objective!r}"
                )
        if self.global_minimum and not minimised:
            raise CertificateError(f"global_minimum must be false for voting {self.voting!r}")

    def _check_confusion(self, confusion: Confusion) -> None:
        """Check the confusion matrix against what the certificate states elsewhere, and its bounds."""
        confusion.check(self.delta, len(self.labels))
        for label, whole, row in zip(self.labels, self.label_counts, confusion.counts[:-1], strict=True):
            if sum(row) > whole:
                raise CertificateError(f"confusion.counts has {sum(row)} points of class {label!r}, of {whole} in all")
        if confusion.points == "out-of-bag":
            return
        first = self.statements[0]
        if confusion.points == "held-out":
            fits = first.event == Event.TEST_SET
        else:
            fits = first.event != Event.TEST_SET and first.predictor == BEST and self.voting == "best"
        if not fits:
            raise CertificateError(f"confusion.points must be those of statements[0], got {confusion.points!r}")
        _expect("confusion.kl_div", confusion.kl_div, first.figures["kl_div"])
        _expect("the number of points in confusion.counts", confusion.n, first.figures["n"])
        if "errors" in first.figures:
            _expect("the number of errors in confusion.counts", confusion.errors, first.figures["errors"])

    def _check_figures(self, name: str, statement: Statement) -> None:
        """Check figures of a statement that the certificate gives elsewhere, too."""
        known: dict[str, Any] = {}
        others = (Event.TEST_SET, METHODS["disagreement"].event_if(self.strict))
        if statement.event not in others and (statement.predictor != BEST or self.voting == "best"):
            known = {"loss": self.empirical_loss, "kl_div": divided_prior(self.kl_div, self.n_votes)}
        if statement.event in others and statement.predictor != self.predictor:
            raise CertificateError(f"{name}.predictor must be {self.predictor!r}, which new points are about")
        if statement.method in ("clopper-pearson", "chernoff", "disagreement"):
            n = statement.figures["n"]
            if not self.n_validation <= n <= self.n_validation_max:
                raise CertificateError(f"{name}.figures['n'] is the number of no hypothesis's validation points, {n}")
        if statement.method == "disagreement":
            self._check_division(name, statement.figures)
        if not known and statement.figures["kl_div"] < divided_prior(0.0, self.n_votes):
            raise CertificateError(f"{name}.figures['kl_div'] is less than what {self.n_votes} competing votes cost")
        if statement.method == "pac-bayes-kl":
            known |= {"n": self.n_validation, "n_max": self.n_validation_max}
        for key, value in known.items():
            if key in statement.figures:
                _expect(f"{name}.figures[{key!r}]", statement.figures[key], value)
        if statement.method == "clopper-pearson" and known:
            _expect(
                f"{name}.figures['errors'] / n", statement.figures["errors"] / statement.figures["n"], known["loss"]
            )
        if statement.method == "pac-bayes-dual" and not statement.is_vacuous:
            least = _least_conjugate(statement.figures["mu"], self.empirical_loss, self.n_validation_max)
            if statement.figures["adjusted_loss"] < least * (1 - _FIGURE_TOLERANCE):
                raise CertificateError(f"{name}.figures['adjusted_loss'] must be at least {least!r} for this mu")
        if "gibbs_bound" in statement.figures:
            same = [other for other in self.statements if other.event == statement.event]
            gibbs = [other.bound for other in same if other.predictor == RANDOMISED]
            if len(gibbs) != 1 or statement.figures["gibbs_bound"] < gibbs[0]:
                raise CertificateError(f"{name}.figures['gibbs_bound'] is below the randomised classifier's bound")

    def _check_division(self, name: str, figures: Mapping[str, float]) -> None:
        """Check that bounds from labelled and from unlabelled points do not take more than delta together."""
        n_unlabelled = int(figures["n_unlabelled"])
        labelled, unlabelled = unlabelled_prices(self.delta, self.n_votes, self.n_validation, n_unlabelled)
        least = {"kl_div": divided_prior(0.0, self.n_votes) + labelled, "kl_unlabelled": unlabelled}
        for key, value in least.items():
            if figures[key] < value * (1 - _FIGURE_TOLERANCE):
                raise CertificateError(f"{name}.figures[{key!r}] is less than what its share of delta costs")

    def verify(self, losses: ArrayLike, prior: ArrayLike | None = None, n: ArrayLike | None = None) -> None:
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
        """
        self.check()
        settings = Settings(self.delta, prior, self.objective, self.voting, self.loss, self.strict, self.n_votes)
        if n is None:
            again = derive(
                losses, self.n_validation, settings, n_max=self.n_validation_max, dropped_loss=self.dropped_loss
            )
        else:
            given = np.asarray(losses, dtype=np.float64)
            n_min, points = None, n
            if np.isnan(given).any():
                # For posteriors on some hypotheses, any numbers below the smallest and above the largest will do.
                n_min, points = self.n_validation, np.where(np.isnan(given), self.n_validation_max, n)
            again = derive(losses, points, settings, n_min=n_min, dropped_loss=self.dropped_loss)
        self._verify_statements(again.statements)
        counts = ("n_validation", "n_validation_max", "n_hypotheses", "n_dropped", "minimum_over")
        for name in (*counts, "global_minimum", "quasiconvex"):
            _expect(name, getattr(self, name), getattr(again, name))
        for name in ("empirical_loss", "kl_div"):
            _expect(name, getattr(self, name), getattr(again, name), _FIGURE_TOLERANCE)
        _expect("lam", self.lam, again.lam, _LAMBDA_TOLERANCE)
        stated, proved = self.minimum_lower_bound, again.minimum_lower_bound
        if (stated is None) != (proved is None) or (stated or 0.0) > (proved or 0.0) * (1 + _FIGURE_TOLERANCE):
            raise CertificateError(f"minimum_lower_bound is stated as {stated!r} but comes out as {proved!r}")
        _expect("digests['losses']", self.digests.get("losses", again.losses_digest), again.losses_digest)

    def _verify_statements(self, expected: Sequence[Statement]) -> None:
        """Check the statements that follow from validation losses against those recomputed."""
        by_predictor = {statement.predictor: statement for statement in expected}
        for i, stated in enumerate(self.statements):
            if "n_unlabelled" in stated.figures or stated.event == Event.TEST_SET:
                continue
            right = by_predictor.get(stated.predictor)
            if right is None:
                raise CertificateError(f"statements[{i}].predictor is stated as {stated.predictor!r}, without a proof")
            if not stated.bound >= right.bound:
                raise CertificateError(
                    f"statements[{i}].bound is stated as {stated.bound!r} but comes out as {right.bound!r}"
                )
            # A bound by another method that is not smaller is true as well; its figures are its own.
            for name, value in stated.figures.items() if stated.method == right.method else ():
                _expect(f"statements[{i}].figures[{name!r}]", value, right.figures[name], _FIGURE_TOLERANCE)


def _least_conjugate(mu: float, loss: float, n_max: int) -> float:
    """Return a lower bound on E[psi_h(mu)] for hypotheses of a mean empirical loss, on at most `n_max` points each.

    psi_h(mu) is at least max_L {L - mu n_max kl(loss_h || L)} (docs/dual.md), which is concave in the loss: its mean is
    smallest if all losses are 0 or 1.
    """
    x = mu * n_max
    at_zero = 0.0 if x >= 1 else 1.0 - x + (x * math.log(x) if x > 0 else 0.0)
    return loss + (1 - loss) * at_zero


def _expect(name: str, stated: Any, recomputed: Any, tolerance: float = 0.0) -> None:
    same = stated == recomputed
    if isinstance(stated, float) and isinstance(recomputed, (int, float)):
        same = math.isclose(stated, recomputed, rel_tol=tolerance)
    if not same:
        raise CertificateError(f"{name} is stated as {stated!r} but comes out as {recomputed!r}")
