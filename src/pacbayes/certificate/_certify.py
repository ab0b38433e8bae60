"""Certificates from losses, and from held-out points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._fingerprint import digest
from pacbayes._validation import Array, scalar, unit_interval, whole_number
from pacbayes.bounds import kl_inverse_upper
from pacbayes.certificate._certificate import Certificate
from pacbayes.certificate._classes import Confusion
from pacbayes.certificate._derivation import (
    Derivation,
    Objective,
    Settings,
    Voting,
    derive,
    divided_prior,
    unlabelled_prices,
    validate_settings,
)
from pacbayes.certificate._statements import RANDOMISED, Statement
from pacbayes.certificate.assumptions import LOSS_ASSUMPTIONS, encode_assumption, find_missing, is_covered

__all__ = ["certify", "choose_voters", "with_confusion", "with_test", "with_unlabelled"]


def certify(
    losses: ArrayLike,
    n: ArrayLike,
    *,
    n_max: int | None = None,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    objective: Objective = "lambda",
    voting: Voting = "majority",
    loss: str = "zero_one",
    strict: bool = True,
    n_votes: int = 1,
    dropped_loss: float | None = None,
    assumptions: Sequence[str] | None = None,
    digests: Mapping[str, str] | None = None,
) -> tuple[Certificate, Array]:
    """Weight hypotheses by their validation losses alone, and certify the result.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Validation losses in [0, 1], each measured on points that did not shape the hypothesis. NaN for a hypothesis
        that was not validated in full: it gets no weight, and its share of the prior is lost. Which ones these are may
        depend on the data in any way, since the bounds hold for all posteriors at once.
    n : int or array_like of shape (m,)
        Number of points that each loss was measured on.
    n_max : int, optional
        The largest such number, if `n` is the smallest and the others are not known: for the objectives "lambda" and
        "kl" only.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities, chosen without the validation points; uniform by default.
    objective : {"lambda", "kl", "dual"}, default="lambda"
        The bound to minimise: the paper's, PAC-Bayes-kl itself, or the dual bound, which is tighter and takes every
        hypothesis by its own number of points. Without effect for "best".
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        "best" puts all weight on the hypothesis with the smallest bound, "uniform" keeps the prior; the others
        minimise.
    loss : str, default="zero_one"
        Name of the loss. The majority vote is bounded for "zero_one" only: the share of wrong labels.
    strict : bool, default=True
        Whether the assumptions hold to the letter.
    n_votes : int, default=1
        Number of votes that compete, each with a pool of its own, under this delta.
    dropped_loss : float, optional
        A lower bound on the losses that are NaN, such as the errors made so far divided by `n`. If it is large enough,
        the minimum is proved over all hypotheses instead of those with a loss ("lambda" and "kl" only).
    assumptions : sequence of str, optional
        What the certificate rests on besides what has to be true of the losses: codes of
        `pacbayes.certificate.assumptions`, or words of your own.
    digests : mapping of str to str, optional
        Digests of what else the certificate is about.

    Returns
    -------
    certificate : Certificate
        What is proved.
    rho : ndarray of shape (m,)
        The posterior.

    Examples
    --------
    >>> losses = [0.10, 0.12, 0.15, 0.30, 0.45]
    >>> certificate, rho = certify(losses, n=500)
    >>> round(certificate.gibbs_bound, 4), round(certificate.vote_bound, 4)
    (0.1638, 0.1638)
    >>> round(certify(losses, n=500, voting="best")[0].bound, 4)
    0.1355
    """
    delta_value = validate_settings(delta, objective, voting)
    n_votes = int(scalar("n_votes", whole_number("n_votes", n_votes)))
    settings = Settings(delta_value, prior, objective, voting, loss, strict, n_votes)
    if dropped_loss is not None:
        dropped_loss = scalar("dropped_loss", unit_interval("dropped_loss", dropped_loss))
    derivation = derive(losses, n, settings, n_max=n_max, dropped_loss=dropped_loss)
    codes = [encode_assumption(line) for line in assumptions or ()]
    if find_missing(codes, of_fit=False):
        codes = [*LOSS_ASSUMPTIONS, *(code for code in codes if code not in LOSS_ASSUMPTIONS)]
    if not strict and is_covered(codes):
        codes.append("declared-not-strict")
    certificate = Certificate(
        statements=derivation.statements,
        empirical_loss=derivation.empirical_loss,
        kl_div=derivation.kl_div,
        n_validation=derivation.n_validation,
        n_validation_max=derivation.n_validation_max,
        n_hypotheses=derivation.n_hypotheses,
        n_dropped=derivation.n_dropped,
        dropped_loss=_least_loss(derivation, dropped_loss),
        n_votes=n_votes,
        delta=delta_value,
        lam=derivation.lam,
        objective=objective,
        voting=voting,
        loss=loss,
        minimum_lower_bound=derivation.minimum_lower_bound,
        minimum_over=derivation.minimum_over,
        global_minimum=derivation.global_minimum,
        quasiconvex=derivation.quasiconvex,
        strict=strict,
        assumption_codes=tuple(codes),
        digests={"losses": derivation.losses_digest, "posterior": digest(derivation.rho), **(digests or {})},
    )
    certificate.check()
    return certificate, derivation.rho


def _least_loss(derivation: Derivation, dropped_loss: float | None) -> float | None:
    """Return the lower bound on the losses of dropped hypotheses, None if there are none."""
    if derivation.n_dropped == 0:
        return None
    return 0.0 if dropped_loss is None else dropped_loss


def with_test(certificate: Certificate, total: float, n: int, counts: NDArray[np.intp] | None = None) -> Certificate:
    """Add what `n` held-out points, which had no part in making the predictor, prove about what `predict` does.

    The statement comes first, in place of another about the same predictor. `total` is the predictor's total loss.
    `counts`, as from `tabulate_predictions` and in the order of the certificate's labels, adds bounds on the misses and
    false alarms of each class.
    """
    divergence = divided_prior(0.0, certificate.n_votes)
    if not 0 <= total <= n:
        raise ValueError(f"total must be a loss of {n} points, in [0, {n}], got {total!r}")
    if certificate.is_zero_one:
        errors = int(scalar("total", whole_number("total", total, 0)))
        method, figures = "test-set", {"errors": errors, "n": n, "kl_div": divergence}
    else:
        method, figures = "test-set-chernoff", {"loss": total / n, "n": n, "kl_div": divergence}
    tested = Statement.by(method, certificate.predictor, certificate.loss, certificate.delta, figures)
    others = [statement for statement in certificate.statements if statement.predictor != certificate.predictor]
    # A bound on the vote may be computed from that on the randomised classifier, and has no place without it.
    others = [s for s in others if "gibbs_bound" not in s.figures or certificate.predictor != RANDOMISED]
    confusion = None if counts is None else Confusion.of("held-out", counts, divergence, certificate.delta)
    return certificate.revise(statements=(tested, *others), confusion=confusion)


def with_confusion(certificate: Certificate, counts: NDArray[np.intp]) -> Certificate:
    """Add a confusion matrix of validation points, where none are held out.

    All validation points of the best hypothesis, which has all the weight, prove bounds at its share of delta. Those of
    a vote, by the hypotheses that were not trained on them, prove none: its weights were chosen by them.
    """
    if certificate.voting == "best":
        confusion = Confusion.of("validation", counts, certificate.statements[0].figures["kl_div"], certificate.delta)
    else:
        confusion = Confusion.of("out-of-bag", counts, None, certificate.delta)
    return certificate.revise(confusion=confusion)


# Voters that a vote is compared with on unlabelled points: few, since each has its share of delta.
_MOST_VOTERS = 8


def choose_voters(rho: Array, losses: Array, n: NDArray[Any], kl_divs: Array, delta: float) -> NDArray[np.intp]:
    """Choose the voters that a vote is compared with: the heaviest and those with the smallest bounds, rising.

    Unlabelled points have no say in it. `kl_divs` are the divergences of the point masses from the prior.
    """
    half = _MOST_VOTERS // 2
    bounds = kl_inverse_upper(losses, (np.minimum(kl_divs, 1e300) - math.log(delta)) / n)
    heaviest, best = np.argsort(-rho, kind="stable")[:half], np.argsort(bounds, kind="stable")[:half]
    return np.union1d(heaviest, best)


def with_unlabelled(
    certificate: Certificate,
    losses: Array,
    n: NDArray[Any],
    kl_divs: Array,
    disagreements: NDArray[Any],
    n_unlabelled: int,
) -> Certificate:
    """State what unlabelled points prove about the vote: L(vote) <= L(h) + P(vote and h disagree).

    The arrays have an entry per voter h. The bounds on all hypotheses hold at once, so that the voter with the smallest
    may be chosen. `disagreements` counts the unlabelled points at which it and the vote predict different classes.
    """
    labelled, unlabelled = unlabelled_prices(
        certificate.delta, certificate.n_votes, certificate.n_validation, n_unlabelled
    )
    statements = [
        Statement.by(
            "disagreement",
            certificate.predictor,
            certificate.loss,
            certificate.delta,
            {
                "errors": math.ceil(float(losses[k] * n[k]) * (1 - 1e-12)),
                "n": int(n[k]),
                "kl_div": divided_prior(float(kl_divs[k]), certificate.n_votes) + labelled,
                "disagreements": int(disagreements[k]),
                "n_unlabelled": n_unlabelled,
                "kl_unlabelled": unlabelled + math.log(losses.size),
            },
            strict=certificate.strict,
        )
        for k in range(losses.size)
    ]
    return certificate.revise(statements=(min(statements, key=lambda statement: statement.bound),))
