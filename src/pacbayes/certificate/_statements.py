"""Statements: who errs at most how often, by which method, and on which event that rests."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from pacbayes._json_fields import Length, Range, raising, read_value
from pacbayes._validation import EPS
from pacbayes.bounds import clopper_pearson, kl_inverse_upper, majority_vote, pac_bayes_kl
from pacbayes.certificate.assumptions import is_covered, is_test_covered
from pacbayes.exceptions import CertificateError
from pacbayes.votes import split_delta

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

Formula = TypeVar("Formula", bound=Callable[..., float])

# Names of predictors.
MAJORITY = "majority vote"
RANDOMISED = "randomised classifier"
MEAN = "weighted mean"
BEST = "best hypothesis"

# What the code of an event ends with that is not proved, since the setting departs from the theorem.
_NOT_PROVED = ":not-proved"

# Characters of the longest text in a certificate.
MAX_TEXT = 2000

# More than the last operations of a bound can lose.
ROUND_UP = 1 + 8 * EPS

# More than adding up the weights of a vote can lose: who has half of them within this may win.
_TIE = 1 + 1e-12

# Figures are recomputed to rounding on any machine.
FIGURE_TOLERANCE = 1e-9

# What a value in a certificate may be.
Text = Annotated[str, Length(1, MAX_TEXT)]
Unit = Annotated[float, Range(0, 1)]
Level = Annotated[float, Range(0, 1, open_low=True, open_high=True)]
NonNegative = Annotated[float, Range(0)]
Count = Annotated[int, Range(1, 10**15)]
Whole = Annotated[int, Range(0, 10**15)]
Signed = Annotated[float, Range(-1e15, 1e15)]


def require(condition: bool, message: str) -> None:
    """Raise CertificateError with a message unless a condition holds."""
    if not condition:
        raise CertificateError(message)


def expect(name: str, stated: Any, recomputed: Any, tolerance: float = 0.0) -> None:
    """Raise CertificateError if a value is stated otherwise than it comes out."""
    same = stated == recomputed
    if tolerance and stated is not None and recomputed is not None:
        same = math.isclose(stated, recomputed, rel_tol=tolerance)
    require(same, f"{name} is stated as {stated!r} but comes out as {recomputed!r}")


def expect_at_least(name: str, stated: float, recomputed: float) -> None:
    """Raise CertificateError if a bound is stated as smaller than it comes out, at all."""
    require(stated >= recomputed, f"{name} is stated as {stated!r} but comes out as {recomputed!r}")


class Event:
    """Codes of the events that statements rest on. Statements of the same event hold jointly."""

    PAC_BAYES = "pac-bayes"  # the PAC-Bayes inequality holds for all posteriors
    SINGLE = "single-hypotheses"  # no hypothesis errs exceptionally seldom on its validation points
    # No hypothesis errs exceptionally seldom, nor do voters and vote disagree exceptionally seldom.
    UNLABELLED = "unlabelled-points"
    TEST_SET = "held-out-points"  # no tested predictor errs exceptionally seldom on its held-out points


@dataclass(frozen=True)
class Method:
    """A way to compute a bound: its words, its formula, and what has to be true of its figures."""

    title: str  # how a reader knows it
    compute: Callable[..., float]  # ``compute(delta, **figures)`` returns the bound, rounded up
    predictors: tuple[str, ...]  # whom it can bound
    event: str  # what it rests on
    zero_one: bool = False  # whether it is for the zero-one loss only
    # ``check(name, statement, certificate)`` compares a statement with what else its certificate states.
    check: Callable[[str, Statement, Certificate], None] | None = None

    @cached_property
    def figures(self) -> Mapping[str, Any]:
        """Kinds of the figures, by name: those of the formula's arguments besides delta."""
        hints = get_type_hints(self.compute, include_extras=True)
        return {name: kind for name, kind in hints.items() if name not in ("delta", "return")}

    def event_if(self, assumptions: Collection[str]) -> str:
        """Return the event, with the remark that it is not proved if an assumption departs from the theorem."""
        covered = is_test_covered(assumptions) if self.event == Event.TEST_SET else is_covered(assumptions)
        return self.event if covered else f"{self.event}{_NOT_PROVED}"


# By code, which files hold.
METHODS: dict[str, Method] = {}


def method(code: str, title: str, *arguments: Any, **options: Any) -> Callable[[Formula], Formula]:
    """Make a formula a method of this code: the kinds of its arguments are those of its figures."""

    def add(compute: Formula) -> Formula:
        METHODS[code] = Method(title, compute, *arguments, **options)
        return compute

    return add


@dataclass(frozen=True)
class Statement:
    """An upper bound on the expected loss of one predictor.

    Attributes
    ----------
    predictor, loss : str
        Who is bounded, "majority vote", "randomised classifier", "weighted mean" or "best hypothesis", and for which
        loss, as in `Certificate`.
    bound : float
        Upper bound on the expected loss, rounded up. 1 means that nothing is proved.
    method : str
        Name of the method, a key of `METHODS`.
    delta : float
        Probability with which the event may fail.
    event : str
        What the bound rests on: a code of `Event`, which ends with ":not-proved" if the setting departs from the
        theorem. Statements of the same event hold jointly.
    figures : mapping of str to number
        What the method computes the bound from.
    """

    predictor: Text
    loss: Text
    bound: Unit
    method: Text
    delta: Level
    event: Text
    figures: Mapping[str, Any]

    @classmethod
    def by(
        cls,
        method: str,
        predictor: str,
        loss: str,
        delta: float,
        figures: Mapping[str, float],
        assumptions: Collection[str] = (),
    ) -> Statement:
        """Make a statement with the bound that a method computes from figures."""
        bound = _compute(method, delta, **figures)
        return cls(predictor, loss, bound, method, delta, METHODS[method].event_if(assumptions), figures)

    @property
    def title(self) -> str:
        """How a reader knows the method."""
        return METHODS[self.method].title

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is proved."""
        return self.bound >= 1

    @property
    def is_test(self) -> bool:
        """Whether it rests on held-out points."""
        return self.event.removesuffix(_NOT_PROVED) == Event.TEST_SET

    @property
    def is_covered(self) -> bool:
        """Whether the theorem covers it."""
        return not self.event.endswith(_NOT_PROVED)

    @property
    def measured_loss(self) -> float:
        """The loss that was measured on the points of a test."""
        figures = self.figures
        return float(figures["errors"] / figures["n"] if "errors" in figures else figures["loss"])

    def check(self, name: str, certificate: Certificate) -> None:
        """Raise CertificateError, naming the field, if the method cannot make this statement in a certificate."""
        require(self.method in METHODS, f"{name}.method must be one of {', '.join(METHODS)}, got {self.method!r}")
        method, figures = METHODS[self.method], self.figures
        whom = " or ".join(method.predictors)
        require(self.predictor in method.predictors, f"{name}.predictor must be {whom}, got {self.predictor!r}")
        right_loss = self.loss == "zero_one" or not method.zero_one
        require(right_loss, f"{name}.loss must be 'zero_one' for this method, got {self.loss!r}")
        require(set(figures) == set(method.figures), f"{name}.figures must be {', '.join(method.figures)}")
        with raising(CertificateError):
            for key, kind in method.figures.items():
                read_value(kind, f"{name}.figures[{key!r}]", figures[key])
        for part, whole in (("errors", "n"), ("disagreements", "n_unlabelled"), ("n", "n_max")):
            if {part, whole} <= set(figures):
                limit = f"{name}.figures[{part!r}] must be at most {whole}, {figures[whole]!r}, got {figures[part]!r}"
                require(figures[part] <= figures[whole], limit)
        expect(f"{name}.event", self.event, method.event_if(certificate.assumption_codes))
        expect(f"{name}.loss", self.loss, certificate.loss)
        expect(f"{name}.delta", self.delta, certificate.delta)
        recomputed = _compute(self.method, self.delta, **figures)
        expect_at_least(f"{name}.bound", self.bound, recomputed)
        self._check_shared_figures(name, certificate)
        if method.check is not None:
            method.check(name, self, certificate)

    def _check_shared_figures(self, name: str, certificate: Certificate) -> None:
        """Check figures that the certificate gives elsewhere, too, and that choosing the predictor was paid for."""
        event, figures = METHODS[self.method].event, self.figures
        known = {}
        if event in (Event.TEST_SET, Event.UNLABELLED):
            whose = f"{name}.predictor must be {certificate.predictor!r}, which new points are about"
            require(self.predictor == certificate.predictor, whose)
        elif self.predictor != BEST or certificate.predictor == BEST:
            paid = divided_prior(certificate.kl_div, certificate.n_votes)
            known = {"loss": certificate.empirical_loss, "kl_div": paid}
        if event in (Event.SINGLE, Event.UNLABELLED):
            known_size = certificate.n_validation <= figures["n"] <= certificate.n_validation_max
            what = "is the number of no hypothesis's validation points"
            require(known_size, f"{name}.figures['n'] {what}, {figures['n']}")
        if not known:
            enough = figures["kl_div"] >= divided_prior(0.0, certificate.n_votes)
            cost = f"is less than what {certificate.n_votes} competing votes cost"
            require(enough, f"{name}.figures['kl_div'] {cost}")
        for key in known.keys() & figures.keys():
            expect(f"{name}.figures[{key!r}]", figures[key], known[key])
        if known and "errors" in figures:
            expect(f"{name}.figures['errors'] / n", figures["errors"] / figures["n"], known["loss"])


# What is stated is checked soon after, in memory, in files and in verification.
@lru_cache(maxsize=4096)
def _compute(method: str, delta: float, **figures: float) -> float:
    return METHODS[method].compute(delta, **figures)


# -- what choosing costs -----------------------------------------------------------------------------


def divided_prior(kl_div: float, n_votes: int) -> float:
    """Return the divergence from a prior that is divided by the number of competing votes, rounded up."""
    return kl_div if n_votes == 1 else (kl_div + math.log(n_votes)) * (1 + 1e-15)


def unlabelled_prices(delta: float, n_votes: int, n_validation: int, n_unlabelled: int) -> tuple[float, float]:
    """Return what a division of delta, by numbers of points alone, adds to the divergences of either kind of points."""
    n_labelled = n_validation if n_votes == 1 else n_unlabelled
    labelled, unlabelled = split_delta(delta, n_labelled, n_unlabelled)
    return -math.log(labelled / delta), -math.log(unlabelled / delta)


# -- the majority vote, from bounds on the randomised classifier or on a voter -----------------------

_OF_VOTE = {"predictors": (MAJORITY,), "event": Event.PAC_BAYES, "zero_one": True}


def _check_gibbs_bound(name: str, statement: Statement, certificate: Certificate) -> None:
    """Check that a vote's bound does not take the randomised classifier's for smaller than it is stated."""
    same = (other for other in certificate.statements if other.event == statement.event)
    gibbs = [other.bound for other in same if other.predictor == RANDOMISED]
    enough = len(gibbs) == 1 and statement.figures["gibbs_bound"] >= gibbs[0]
    require(enough, f"{name}.figures['gibbs_bound'] is below the randomised classifier's bound")


@method("first-order", "twice the randomised classifier's", **_OF_VOTE, check=_check_gibbs_bound)
def _first_order(delta: float, gibbs_bound: Unit) -> float:
    return min(1.0, float(majority_vote(gibbs_bound)) * _TIE)


@method("subset-sum", "randomised classifier's, over the smallest majority", **_OF_VOTE, check=_check_gibbs_bound)
def _subset_sum(delta: float, gibbs_bound: Unit, constant: Annotated[float, Range(0.5, 1)]) -> float:
    return min(1.0, gibbs_bound / constant * ROUND_UP)


@method("heavy-voter", "bound of the voter that outweighs all others", **_OF_VOTE)
def _heavy_voter(delta: float, voter_bound: Unit, weight: Annotated[float, Range(0.5, 1, open_low=True)]) -> float:
    return voter_bound


# -- the posterior, on the event of a PAC-Bayes inequality --------------------------------------------


def _check_sizes(name: str, statement: Statement, certificate: Certificate) -> None:
    expect(f"{name}.figures['n']", statement.figures["n"], certificate.n_validation)
    expect(f"{name}.figures['n_max']", statement.figures["n_max"], certificate.n_validation_max)


@method("pac-bayes-kl", "PAC-Bayes-kl", (RANDOMISED, BEST, MEAN), Event.PAC_BAYES, check=_check_sizes)
def _pac_bayes_kl(delta: float, loss: Unit, kl_div: NonNegative, n: Count, n_max: Count) -> float:
    return float(pac_bayes_kl(loss, kl_div, n, delta, n_max=n_max))


def least_conjugate(mu: float, loss: float, n_max: int) -> float:
    """Return a lower bound on E[psi_h(mu)] for hypotheses of a mean empirical loss, on at most `n_max` points each.

    psi_h(mu) is at least max_L {L - mu n_max kl(loss_h || L)} (docs/dual.md), which is concave in the loss: its mean is
    smallest if all losses are 0 or 1.
    """
    x = mu * n_max
    at_zero = 0.0 if x >= 1 else 1.0 - x + (x * math.log(x) if x > 0 else 0.0)
    return loss + (1 - loss) * at_zero


def _check_adjusted_loss(name: str, statement: Statement, certificate: Certificate) -> None:
    least = least_conjugate(statement.figures["mu"], certificate.empirical_loss, certificate.n_validation_max)
    enough = statement.is_vacuous or statement.figures["adjusted_loss"] >= least * (1 - FIGURE_TOLERANCE)
    require(enough, f"{name}.figures['adjusted_loss'] must be at least {least!r} for this mu")


@method("pac-bayes-dual", "dual PAC-Bayes bound", (RANDOMISED, MEAN), Event.PAC_BAYES, check=_check_adjusted_loss)
def _dual(delta: float, adjusted_loss: NonNegative, kl_div: NonNegative, mu: NonNegative) -> float:
    # E_rho[psi_h(mu)] + mu (KL + ln(1 / delta)), docs/dual.md. That psi_h is 1 at mu = 0, whatever is stated.
    return 1.0 if mu == 0 else min(1.0, (adjusted_loss + mu * (kl_div - math.log(delta))) * ROUND_UP)


def least_direct_bound(loss: float, n_max: int, level: float) -> float:
    """Return a lower bound on the direct bound of any posterior with this empirical loss, on at most `n_max` points.

    True losses with kl(loss_h || L_h) = ln(1 / level) / n_max comply with the constraint. Such an L_h is a concave
    function of loss_h (docs/direct.md): its mean is smallest if all losses are 0 or 1.
    """
    return loss - (1 - loss) * math.expm1(math.log(level) / n_max)


def _check_direct(name: str, statement: Statement, certificate: Certificate) -> None:
    level = certificate.delta / certificate.n_votes
    least = least_direct_bound(certificate.empirical_loss, certificate.n_validation_max, level)
    enough = statement.bound >= least * (1 - FIGURE_TOLERANCE)
    require(enough, f"{name}.bound must be at least {least!r} for this validation loss")


@method("pac-bayes-direct", "direct PAC-Bayes bound", (RANDOMISED, MEAN), Event.PAC_BAYES, check=_check_direct)
def _direct(delta: float, loss: Unit, kl_div: NonNegative, adjusted_loss: Signed, log_nu: Signed) -> float:
    # nu / delta + sum_h max_L {rho_h L - nu pi_h exp(D_h(L))}, docs/direct.md. nu is stated relative to exp(KL): what a
    # prior is divided by, or has lost, multiplies both.
    log_part = kl_div + log_nu - math.log(delta)
    part = math.exp(log_part + 4 * EPS * (kl_div + abs(log_nu))) if log_part < 0 else 1.0
    return min(1.0, max(loss, adjusted_loss + part * ROUND_UP) * ROUND_UP)


# -- counted errors and measured losses: of single hypotheses, of held-out and of unlabelled points --

_ANYBODY = (MAJORITY, RANDOMISED, BEST)
_OF_TAIL = {"predictors": _ANYBODY, "event": Event.TEST_SET, "zero_one": True}


@method("unproved", "nothing is proved before a test", (MEAN, BEST), Event.PAC_BAYES)
def _unproved(delta: float) -> float:
    return 1.0


@method("chernoff", "Chernoff's bound for all hypotheses", (BEST,), Event.SINGLE)
@method("test-set-chernoff", "Chernoff's bound on held-out points", _ANYBODY, Event.TEST_SET)
def _chernoff(delta: float, loss: Unit, n: Count, kl_div: NonNegative) -> float:
    # In logarithms: neither the prior nor its product with delta needs to be a float.
    return float(kl_inverse_upper(loss, (kl_div - math.log(delta)) / n * ROUND_UP))


@method("clopper-pearson", "Clopper-Pearson for all hypotheses", (BEST,), Event.SINGLE, zero_one=True)
@method("test-set", "Clopper-Pearson on held-out points", **_OF_TAIL)
def bound_count(delta: float, errors: Whole, n: Count, kl_div: NonNegative) -> float:
    """Bound the rate of errors by their number among n points, at the level delta exp(-kl_div)."""
    mass = math.exp(-kl_div) / ROUND_UP
    exact = float(clopper_pearson(errors, n, delta, prior_mass=mass)) if mass * delta >= 1e-300 else 1.0
    # Chernoff's bound is larger but where there is no error: there, the two are equal up to rounding.
    is_larger = exact < 1 and errors > 0
    return exact if is_larger else min(exact, _chernoff(delta, min(1.0, errors / n * ROUND_UP), n, kl_div))


def _check_seed(name: str, statement: Statement, certificate: Certificate) -> None:
    """Check that a certificate says what a randomised tail rests on."""
    why = "a seed that is chosen by its bound proves less"
    stated = "seed-decided" in certificate.assumption_codes
    require(stated, f"{name} must come with the assumption 'seed-decided': {why}")


@method("test-set-randomised", "randomised exact tail on held-out points", **_OF_TAIL, check=_check_seed)
def _randomised(delta: float, errors: Whole, n: Count, kl_div: NonNegative, seed: Whole) -> float:
    from pacbayes.sampling import TAIL, stream  # with scikit-learn, which certificates do without

    # P(X < k) + u P(X = k) = delta exp(-kl_div) with u from the seed [Stevens 1950]. It is drawn again for every check.
    u = 1.0 - float(stream(int(seed), 0, TAIL).random())
    mass = math.exp(-kl_div) / ROUND_UP
    return float(clopper_pearson(errors, n, delta, prior_mass=mass, u=u)) if mass * delta >= 1e-300 else 1.0


def _check_division(name: str, statement: Statement, certificate: Certificate) -> None:
    """Check that bounds from labelled and from unlabelled points do not take more than delta together."""
    figures, n_votes = statement.figures, certificate.n_votes
    n_validation, n_unlabelled = certificate.n_validation, int(figures["n_unlabelled"])
    labelled, unlabelled = unlabelled_prices(certificate.delta, n_votes, n_validation, n_unlabelled)
    for key, least in (("kl_div", divided_prior(0.0, n_votes) + labelled), ("kl_unlabelled", unlabelled)):
        enough = figures[key] >= least * (1 - FIGURE_TOLERANCE)
        require(enough, f"{name}.figures[{key!r}] is less than what its share of delta costs")


_OF_BOTH = {"predictors": (MAJORITY, BEST), "event": Event.UNLABELLED, "zero_one": True}


@method("disagreement", "a voter's bound, and its disagreement with the vote", **_OF_BOTH, check=_check_division)
def _disagreement(
    delta: float,
    errors: Whole,
    n: Count,
    kl_div: NonNegative,
    disagreements: Whole,
    n_unlabelled: Count,
    kl_unlabelled: NonNegative,
) -> float:
    # L(vote) <= L(h) + P(vote and h disagree): docs/votes.md.
    voter = bound_count(delta, errors, n, kl_div)
    apart = bound_count(delta, disagreements, n_unlabelled, kl_unlabelled)
    return min(1.0, (voter + apart) * ROUND_UP)
