"""Statements: who errs at most how often, by which method, and on which event that rests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pacbayes.bounds import clopper_pearson, kl_inverse_upper, majority_vote, pac_bayes_kl
from pacbayes.exceptions import CertificateError

__all__ = [
    "BEST",
    "MAJORITY",
    "MAX_TEXT",
    "METHODS",
    "RANDOMISED",
    "Event",
    "Figure",
    "Method",
    "Statement",
    "bound_count",
    "shorten",
]

# Names of predictors.
MAJORITY = "majority vote"
RANDOMISED = "randomised classifier"
BEST = "best hypothesis"

# What the code of an event ends with that is not proved, since the setting departs from the theorem.
_NOT_PROVED = ":not-proved"

# Characters of the longest text in a certificate.
MAX_TEXT = 2000

# More than the last operations of a bound can lose.
_ROUND_UP = 1 + 8 * float(np.finfo(np.float64).eps)


class Event:
    """Codes of the events that statements rest on. Statements of the same event hold jointly."""

    PAC_BAYES = "pac-bayes"  # the PAC-Bayes inequality holds for all posteriors
    SINGLE = "single-hypotheses"  # no hypothesis errs exceptionally seldom on its validation points
    # No hypothesis errs exceptionally seldom, nor do voters and vote disagree exceptionally seldom.
    UNLABELLED = "unlabelled-points"
    TEST_SET = "held-out-points"  # no tested predictor errs exceptionally seldom on its held-out points


@dataclass(frozen=True)
class Statement:
    """An upper bound on the expected loss of one predictor.

    Attributes
    ----------
    predictor : str
        Who is bounded: "majority vote", "randomised classifier" or "best hypothesis".
    loss : str
        Name of the loss, as in `Certificate`.
    bound : float
        Upper bound on its expectation, rounded up. 1 means that nothing is proved.
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

    predictor: str
    loss: str
    bound: float
    method: str
    delta: float
    event: str
    figures: Mapping[str, float]

    @classmethod
    def by(
        cls, method: str, predictor: str, loss: str, delta: float, figures: Mapping[str, float], *, strict: bool = True
    ) -> Statement:
        """Make a statement with the bound that a method computes from figures."""
        bound = _compute(method, delta, **figures)
        return cls(predictor, loss, bound, method, delta, METHODS[method].event_if(strict), figures)

    @property
    def title(self) -> str:
        """How a reader knows the method."""
        return METHODS[self.method].title

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is proved."""
        return self.bound >= 1

    def check(self, name: str, *, strict: bool) -> None:
        """Raise CertificateError, naming the field, if this is no statement that its method can make."""
        method = METHODS[self.method]
        if self.predictor not in method.predictors:
            raise CertificateError(f"{name}.predictor must be {' or '.join(method.predictors)}, got {self.predictor!r}")
        if method.zero_one and self.loss != "zero_one":
            raise CertificateError(f"{name}.loss must be 'zero_one' for this method, got {self.loss!r}")
        for key, allowed in method.figures.items():
            allowed.check(f"{name}.figures[{key!r}]", self.figures[key])
        for part, whole in (("errors", "n"), ("disagreements", "n_unlabelled"), ("n", "n_max")):
            if {part, whole} <= set(self.figures) and self.figures[part] > self.figures[whole]:
                raise CertificateError(
                    f"{name}.figures[{part!r}] must be at most {whole}, {self.figures[whole]!r}, got "
                    f"{self.figures[part]!r}"
                )
        if self.method == "heavy-voter" and not self.figures["weight"] > 0.5:
            raise CertificateError(f"{name}.figures['weight'] must be above 0.5, got {self.figures['weight']!r}")
        if self.event != method.event_if(strict):
            raise CertificateError(f"{name}.event is stated as {self.event!r}, and is {method.event_if(strict)!r}")
        recomputed = _compute(self.method, self.delta, **self.figures)
        if not self.bound >= recomputed:
            raise CertificateError(f"{name}.bound is stated as {self.bound!r} but comes out as {recomputed!r}")


@dataclass(frozen=True)
class Figure:
    """What a number in a certificate may be."""

    low: float
    high: float = math.inf
    whole: bool = False
    open_ends: bool = False  # whether the ends of the range are left out

    def check(self, name: str, value: Any) -> Any:
        """Return a number, or raise CertificateError with its name if it is none that this allows."""
        right = isinstance(value, int if self.whole else (int, float)) and not isinstance(value, bool)
        # Comparisons of integers with floats are exact, whatever their size.
        inside = right and (self.low < value < self.high if self.open_ends else self.low <= value <= self.high)
        if not (inside and value < 2**1023):
            kind = "a whole number" if self.whole else "a number"
            limits = f"({self.low:g}, {self.high:g})" if self.open_ends else f"[{self.low:g}, {self.high:g}]"
            raise CertificateError(f"{name} must be {kind} in {limits}, got {shorten(value)}")
        return value


def shorten(value: Any) -> str:
    """Return the repr of a value, cut if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


@dataclass(frozen=True)
class Method:
    """A way to compute a bound."""

    title: str  # how a reader knows it
    compute: Callable[..., float]  # ``compute(delta, **figures)`` returns the bound, rounded up
    figures: Mapping[str, Figure]
    predictors: tuple[str, ...]  # whom it can bound
    event: str  # what it rests on
    zero_one: bool = False  # whether it is for the zero-one loss only

    def event_if(self, strict: bool) -> str:
        """Return the event, with the remark that it is not proved if the setting departs from the theorem."""
        # Points that were held out from everything owe nothing to the theorem about subsamples.
        return self.event if strict or self.event == Event.TEST_SET else f"{self.event}{_NOT_PROVED}"


# What is stated is checked soon after, in memory, in files and in verification.
@lru_cache(maxsize=4096)
def _compute(method: str, delta: float, **figures: float) -> float:
    return METHODS[method].compute(delta, **figures)


def _pac_bayes_kl(delta: float, loss: float, kl_div: float, n: int, n_max: int) -> float:
    return float(pac_bayes_kl(loss, kl_div, n, delta, n_max=n_max))


def _dual(delta: float, adjusted_loss: float, kl_div: float, mu: float) -> float:
    # E_rho[psi_h(mu)] + mu (KL + ln(1 / delta)), docs/dual.md. That psi_h is 1 at mu = 0, whatever is stated.
    return 1.0 if mu == 0 else min(1.0, (adjusted_loss + mu * (kl_div - math.log(delta))) * _ROUND_UP)


# More than adding up the weights of a vote can lose: who has half of them within this may win.
_TIE = 1 + 1e-12


def _first_order(delta: float, gibbs_bound: float) -> float:
    return min(1.0, float(majority_vote(gibbs_bound)) * _TIE)


def _subset_sum(delta: float, gibbs_bound: float, constant: float) -> float:
    return min(1.0, gibbs_bound / constant * _ROUND_UP)


def _heavy_voter(delta: float, voter_bound: float, weight: float) -> float:
    return voter_bound


def _chernoff(delta: float, loss: float, n: int, kl_div: float) -> float:
    # In logarithms: neither the prior nor its product with delta needs to be a float.
    return float(kl_inverse_upper(loss, (kl_div - math.log(delta)) / n * _ROUND_UP))


def bound_count(delta: float, errors: int, n: int, kl_div: float) -> float:
    """Bound the rate of errors by their number among n points, at the level delta exp(-kl_div)."""
    mass = math.exp(-kl_div) / _ROUND_UP
    exact = float(clopper_pearson(errors, n, delta, prior_mass=mass)) if mass * delta >= 1e-300 else 1.0
    # Chernoff's bound is larger but where there is no error: there, the two are equal up to rounding.
    is_larger = exact < 1 and errors > 0
    return exact if is_larger else min(exact, _chernoff(delta, min(1.0, errors / n * _ROUND_UP), n, kl_div))


def _disagreement(
    delta: float, errors: int, n: int, kl_div: float, disagreements: int, n_unlabelled: int, kl_unlabelled: float
) -> float:
    # L(vote) <= L(h) + P(vote and h disagree): docs/votes.md.
    voter = bound_count(delta, errors, n, kl_div)
    apart = bound_count(delta, disagreements, n_unlabelled, kl_unlabelled)
    return min(1.0, (voter + apart) * _ROUND_UP)


_COUNT, _UNIT, _ANY = Figure(1, 10**15, whole=True), Figure(0, 1), Figure(0)
_ERRORS = Figure(0, 10**15, whole=True)
_COUNTED = {"errors": _ERRORS, "n": _COUNT, "kl_div": _ANY}
_MEASURED = {"loss": _UNIT, "n": _COUNT, "kl_div": _ANY}

METHODS: dict[str, Method] = {
    "pac-bayes-kl": Method(
        "PAC-Bayes-kl",
        _pac_bayes_kl,
        {"loss": _UNIT, "kl_div": _ANY, "n": _COUNT, "n_max": _COUNT},
        (RANDOMISED, BEST),
        Event.PAC_BAYES,
    ),
    "pac-bayes-dual": Method(
        "dual PAC-Bayes bound",
        _dual,
        {"adjusted_loss": _ANY, "kl_div": _ANY, "mu": _ANY},
        (RANDOMISED,),
        Event.PAC_BAYES,
    ),
    "first-order": Method(
        "twice the randomised classifier's",
        _first_order,
        {"gibbs_bound": _UNIT},
        (MAJORITY,),
        Event.PAC_BAYES,
        zero_one=True,
    ),
    "subset-sum": Method(
        "randomised classifier's, over the smallest majority",
        _subset_sum,
        {"gibbs_bound": _UNIT, "constant": Figure(0.5, 1)},
        (MAJORITY,),
        Event.PAC_BAYES,
        zero_one=True,
    ),
    "heavy-voter": Method(
        "bound of the voter that outweighs all others",
        _heavy_voter,
        {"voter_bound": _UNIT, "weight": Figure(0.5, 1)},
        (MAJORITY,),
        Event.PAC_BAYES,
        zero_one=True,
    ),
    "clopper-pearson": Method(
        "Clopper-Pearson for all hypotheses",
        bound_count,
        _COUNTED,
        (BEST,),
        Event.SINGLE,
        zero_one=True,
    ),
    "chernoff": Method(
        "Chernoff's bound for all hypotheses",
        _chernoff,
        _MEASURED,
        (BEST,),
        Event.SINGLE,
    ),
    "disagreement": Method(
        "a voter's bound, and its disagreement with the vote",
        _disagreement,
        {**_COUNTED, "disagreements": _ERRORS, "n_unlabelled": _COUNT, "kl_unlabelled": _ANY},
        (MAJORITY, BEST),
        Event.UNLABELLED,
        zero_one=True,
    ),
    "test-set": Method(
        "Clopper-Pearson on held-out points",
        bound_count,
        _COUNTED,
        (MAJORITY, RANDOMISED, BEST),
        Event.TEST_SET,
        zero_one=True,
    ),
    "test-set-chernoff": Method(
        "Chernoff's bound on held-out points",
        _chernoff,
        _MEASURED,
        (MAJORITY, RANDOMISED, BEST),
        Event.TEST_SET,
    ),
}
