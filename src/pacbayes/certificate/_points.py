"""What points add to a certificate: held-out ones, validation points by class, and ones without labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array, scalar, whole_number
from pacbayes.bounds import kl_inverse_upper
from pacbayes.certificate._certificate import Certificate
from pacbayes.certificate._numbers import NumberTest, state_numbers, test_figures
from pacbayes.certificate._probabilities import ProbabilityCounts, state_probabilities
from pacbayes.certificate._rates import Confusion, GroupCounts, GroupErrors
from pacbayes.certificate._statements import BEST, RANDOMISED, Statement, divided_prior, unlabelled_prices
from pacbayes.certificate._thresholds import ThresholdCounts, state_abstention, state_declared, state_sets


def _state(certificate: Certificate, method: str, figures: Mapping[str, float]) -> Statement:
    """State something about what `predict` does."""
    about = (certificate.predictor, certificate.loss, certificate.delta)
    return Statement.by(method, *about, figures, certificate.assumption_codes)


def _with_tested(
    certificate: Certificate, method: str, figures: Mapping[str, Any], groups: GroupCounts | None, **counted: Any
) -> Certificate:
    """State the result of a test first, in place of all that was stated and counted about the same predictor."""
    tested = _state(certificate, method, figures)
    others = [statement for statement in certificate.statements if statement.predictor != certificate.predictor]
    # A bound on the vote may be computed from that on the randomised classifier, and has no place without it.
    others = [s for s in others if "gibbs_bound" not in s.figures or certificate.predictor != RANDOMISED]
    by_group = None if groups is None else GroupErrors.of(groups, figures["kl_div"], certificate.delta)
    return certificate.without_test().revise(statements=(tested, *others), groups=by_group, **counted)


def with_test(
    certificate: Certificate,
    total: float,
    n: int,
    counts: NDArray[np.intp] | None = None,
    groups: GroupCounts | None = None,
    seed: int | None = None,
) -> Certificate:
    """Add what `n` held-out points, which had no part in making the predictor, prove about what `predict` does.

    The statement comes first, in place of another about the same predictor. `total` is the predictor's total loss.
    `counts`, as from `tabulate_predictions` and in the order of the certificate's labels, adds bounds on the misses and
    false alarms of each class, and `groups` bounds on the error of each group. With a `seed`, decided beforehand, the
    bound on the errors is that of the randomised tail.
    """
    divergence = divided_prior(0.0, certificate.n_votes)
    if not 0 <= total <= n:
        raise ValueError(f"total must be a loss of {n} points, in [0, {n}], got {total!r}")
    if certificate.is_zero_one:
        errors = int(scalar("total", whole_number("total", total, 0)))
        method, figures = "test-set", {"errors": errors, "n": n, "kl_div": divergence}
        if seed is not None:
            method, figures = "test-set-randomised", {**figures, "seed": seed}
            certificate = replace(certificate, assumption_codes=(*certificate.assumption_codes, "seed-decided"))
    else:
        method, figures = "test-set-chernoff", {"loss": total / n, "n": n, "kl_div": divergence}
    confusion = None if counts is None else Confusion.of("held-out", counts, divergence, certificate.delta)
    return _with_tested(certificate, method, figures, groups, confusion=confusion)


def with_numbers(
    certificate: Certificate, test: NumberTest, total: float, median_total: float, groups: GroupCounts | None = None
) -> Certificate:
    """Add what held-out points prove about predicted numbers, in place of other statements about the same predictor.

    `total` is the predictor's total loss, and `median_total` that of always predicting the median of the targets.
    `groups` counts errors beyond `large_error`, and adds bounds on their share in each group.
    """
    figures = test_figures(test, certificate.loss, total, divided_prior(0.0, certificate.n_votes))
    numbers = state_numbers(test, median_total / test.target.size)
    return _with_tested(certificate, "test-set-betting", figures, groups, numbers=numbers)


def with_shares(
    certificate: Certificate,
    counts: ThresholdCounts,
    probabilities: ProbabilityCounts | None = None,
    declared: tuple[float, Sequence[tuple[float, float]]] | None = None,
) -> Certificate:
    """Add what the held-out points of the test prove at thresholds on shares of the vote, and about probabilities.

    `counts` as from `tabulate_thresholds`, and `probabilities` from `tabulate_probabilities`. `declared` is an error
    that was declared beforehand, with the thresholds at which to test it, as from `plan_thresholds`.
    """
    test = certificate._test
    added: dict[str, Any] = {"abstention": state_abstention(counts.answered, *test)}
    # Which probability is the winner's is known where the largest share wins.
    if probabilities is not None and "expected-costs" not in certificate.assumption_codes:
        added["probabilities"] = state_probabilities(probabilities, *test[1:])
    if declared is not None:
        max_error, plan = declared
        added["declared"] = state_declared(max_error, plan, counts.answered, *test)
        added["assumption_codes"] = (*certificate.assumption_codes, "max-error-declared")
    return certificate.revise(prediction_sets=state_sets(counts.sets), **added)


def with_confusion(certificate: Certificate, counts: NDArray[np.intp]) -> Certificate:
    """Add a confusion matrix of validation points, where none are held out.

    All validation points of the best hypothesis, which has all the weight, prove bounds at its share of delta. Those of
    a vote, by the hypotheses that were not trained on them, prove none: its weights were chosen by them.
    """
    if certificate.predictor == BEST:
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
    delta, n_votes = certificate.delta, certificate.n_votes
    labelled, unlabelled = unlabelled_prices(delta, n_votes, certificate.n_validation, n_unlabelled)
    figures = (
        {
            "errors": math.ceil(float(losses[k] * n[k]) * (1 - 1e-12)),
            "n": int(n[k]),
            "kl_div": divided_prior(float(kl_divs[k]), n_votes) + labelled,
            "disagreements": int(disagreements[k]),
            "n_unlabelled": n_unlabelled,
            "kl_unlabelled": unlabelled + math.log(losses.size),
        }
        for k in range(losses.size)
    )
    statements = [_state(certificate, "disagreement", of_voter) for of_voter in figures]
    return certificate.revise(statements=(min(statements, key=lambda statement: statement.bound),))
