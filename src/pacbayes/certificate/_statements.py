"""Statements: who errs at most how often, by which method, and on which event that rests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pacbayes.bounds import majority_vote, pac_bayes_kl
from pacbayes.exceptions import CertificateError

__all__ = ["METHODS", "Figure", "Method", "Statement", "pac_bayes_statements"]

# Names of predictors.
MAJORITY = "majority vote"
RANDOMISED = "randomised classifier"
BEST = "best hypothesis"

# The event that all PAC-Bayesian statements of a certificate rest on: one inequality for all posteriors at once.
PAC_BAYES = "the PAC-Bayes inequality holds for all posteriors"
PAC_BAYES_NOT_STRICT = f"{PAC_BAYES}, which is not proved for this setting"


@dataclass(frozen=True)
class Statement:
    """An upper bound on the expected loss of one predictor.

    Attributes
    ----------
    predictor : str
        Who is bounded: "majority vote", "randomised classifier" or "best hypothesis".
    loss : str
        Name of the loss.
    bound : float
        Upper bound on its expectation, rounded up. 1 means that nothing is proved.
    method : str
        Name of the method, a key of `METHODS`.
    delta : float
        Probability with which the event may fail.
    event : str
        What the bound rests on. Statements of the same event hold jointly.
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
        cls, method: str, predictor: str, loss: str, delta: float, event: str, figures: Mapping[str, float]
    ) -> Statement:
        """Make a statement with the bound that a method computes from figures."""
        return cls(predictor, loss, METHODS[method].compute(delta, **figures), method, delta, event, figures)

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing is proved."""
        return self.bound >= 1

    def check(self, name: str) -> None:
        """Raise CertificateError, naming the field, if the bound is below what its method computes."""
        recomputed = METHODS[self.method].compute(self.delta, **self.figures)
        if not self.bound >= recomputed:
            raise CertificateError(f"{name} is stated as {self.bound!r} but comes out as {recomputed!r}")


@dataclass(frozen=True)
class Figure:
    """What a figure of a method may be.

    Attributes
    ----------
    low, high : float
        Its range, both ends included.
    whole : bool
        Whether it is a whole number.
    """

    low: float
    high: float = math.inf
    whole: bool = False


@dataclass(frozen=True)
class Method:
    """A way to compute a bound.

    Attributes
    ----------
    title : str
        How a reader knows it.
    compute : callable
        ``compute(delta, **figures)`` returns the bound, rounded up.
    figures : mapping of str to Figure
        The figures it needs.
    """

    title: str
    compute: Callable[..., float]
    figures: Mapping[str, Figure]


def _pac_bayes_kl(delta: float, loss: float, kl_div: float, n: int, n_max: int) -> float:
    return float(pac_bayes_kl(loss, kl_div, n, delta, n_max=n_max))


def _first_order(delta: float, gibbs_bound: float) -> float:
    return float(majority_vote(gibbs_bound))


METHODS: dict[str, Method] = {
    "pac-bayes-kl": Method(
        "PAC-Bayes-kl",
        _pac_bayes_kl,
        {"loss": Figure(0, 1), "kl_div": Figure(0), "n": Figure(1, whole=True), "n_max": Figure(1, whole=True)},
    ),
    "first-order": Method("twice the randomised classifier's", _first_order, {"gibbs_bound": Figure(0, 1)}),
}


def pac_bayes_statements(
    voting: str, loss: str, delta: float, *, strict: bool, figures: Mapping[str, Any]
) -> tuple[Statement, ...]:
    """Return what PAC-Bayes-kl proves, the statement about what `predict` does first.

    Parameters
    ----------
    voting : {"majority", "gibbs", "best", "uniform"}
        What `predict` does.
    loss : str
        Name of the loss. The vote is bounded for "zero_one" only.
    delta : float
        Probability with which the event may fail.
    strict : bool
        Whether the theorem applies to the letter.
    figures : mapping
        Figures of the method "pac-bayes-kl".
    """
    event = PAC_BAYES if strict else PAC_BAYES_NOT_STRICT
    if voting == "best":
        return (Statement.by("pac-bayes-kl", BEST, loss, delta, event, figures),)
    gibbs = Statement.by("pac-bayes-kl", RANDOMISED, loss, delta, event, figures)
    if loss != "zero_one":
        return (gibbs,)
    vote = Statement.by("first-order", MAJORITY, loss, delta, event, {"gibbs_bound": gibbs.bound})
    return (gibbs, vote) if voting == "gibbs" else (vote, gibbs)
