"""Verify that a certificate states what fitted votes show, and what their training sample shows about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._fingerprint import digest
from pacbayes._validation import Array
from pacbayes.certificate import Certificate, Event, describe_assumption
from pacbayes.certificate.assumptions import is_covered
from pacbayes.exceptions import CertificateError
from pacbayes.fitting._evaluation import evaluate_shares, evaluate_vote, stack_vote, total_losses
from pacbayes.fitting._fit import (
    FitContext,
    choose_prior,
    describe_families,
    digest_vote,
    make_sampling_plan,
    resolve_holdout,
    weigh,
)
from pacbayes.fitting._groups import Groups
from pacbayes.fitting._rows import SampleRows
from pacbayes.fitting._votes import FittedVotes, Vote
from pacbayes.sampling import RandomSubsamples, Split, Subsamples, split_holdouts

# Fields of a certificate that follow from losses, settings and the pool.
_DERIVED = ("loss", "delta", "n_validation", "n_validation_max", "n_votes", "strict", "dropped_loss")

# What is counted by class, and at thresholds on shares of the vote.
_COUNTED = (
    *("labels", "label_counts", "confusion", "abstention", "prediction_sets"),
    *("declared", "calibration", "probabilities", "numbers"),
)


def verify_certificate(
    fitted: FittedVotes, certificate: Certificate, rows: SampleRows | None = None, groups: Groups | None = None
) -> str:
    """Recompute a certificate from fitted votes, and from their training sample with its target, if that is given.

    Where the certificate bounds errors by group, the sample comes with its `groups`.
    Returns what was verified. Raises CertificateError naming the first thing that differs.
    """
    if "new-points" in certificate.assumption_codes:
        raise CertificateError(
            "the certificate is about new points, which the classifier does not know: give them to certify again, and "
            "compare"
        )
    vote, settings, loss = fitted.best, fitted.settings, fitted.loss
    own = vote.certificate
    continued = "size-decided" in own.assumption_codes
    fit = FitContext(fitted.pool, fitted.task, loss, settings, fitted.n_votes, continued)
    about = _digest_fitted(fit, vote, certificate)
    _verify_draws(fitted)
    # Not the one that the vote states: after a look at the losses, another one would make the bound smaller.
    prior = choose_prior(fit.pool, settings, vote.subsamples, vote.split)
    if (prior is None) != (vote.prior is None) or (prior is not None and not np.array_equal(prior, vote.prior)):
        raise CertificateError("the prior of the classifier is not the one that its settings choose")
    if settings.objective == "auto" and (own.voting, own.objective) == ("mean", "relative"):
        # What "auto" stood for before there was stacking.
        fit = replace(fit, settings=replace(settings, objective="relative"))
    tested = vote.split.held_out is not None
    # Weights that do not follow from losses are computed again where the sample is given.
    chosen = vote.posterior if fit.stacks(tested=tested) else None
    again, rho = weigh(fit, vote.trained, prior, loss, tested=tested, posterior=chosen)
    digests = {**again.digests, **about}
    _expect("voting", certificate.voting, own.voting)
    _expect("objective", certificate.objective, again.objective)
    certificate.verify(vote.losses, prior, vote.seen, chosen)
    derived = {name: getattr(again, name) for name in _DERIVED}
    derived["strict"] = again.strict and is_covered(own.assumption_codes)  # what the caller stated may depart as well
    for name, value in derived.items():
        _expect(name, getattr(certificate, name), value)
    _verify_test(certificate, vote)
    _expect_counts(certificate, own)
    _expect("families", certificate.families, describe_families(vote.hypotheses, vote.subsamples, vote.posterior))
    if certificate.labels:
        _expect("labels", certificate.labels, fitted.task.describe_target(np.zeros(0, dtype=np.intp))["labels"])
    for code in again.assumption_codes:
        if code not in certificate.assumption_codes:
            raise CertificateError(
                f"assumptions do not state what this classifier rests on: {describe_assumption(code)}"
            )
    _expect("assumptions", certificate.assumption_codes, own.assumption_codes)
    for name, stated in certificate.digests.items():
        actual = digest(vote.posterior) if name == "posterior" else digests[name]
        _expect(f"digests[{name!r}]", stated, actual)
    _expect_weights(vote.posterior, rho)
    if rows is None:
        return "arithmetic and model"
    rest = _find_rest(fitted, certificate, rows)
    if chosen is not None:
        _, start = weigh(fit, vote.trained, prior, loss, tested=tested)
        _expect_weights(vote.posterior, stack_vote(replace(vote, posterior=start), rest))
    _verify_on_rows(fitted, certificate, rows, rest, groups)
    return "arithmetic, model and data"


def _digest_fitted(fit: FitContext, vote: Vote, certificate: Certificate) -> dict[str, str]:
    """Return digests of what was fitted, if the certificate has all of them, and the settings are those of the fit."""
    about, own = digest_vote(fit, vote.trained), vote.certificate.digests
    missing = sorted({*about, *own} - set(certificate.digests))
    if missing:
        raise CertificateError(
            f"digests must say what the certificate is about, and lack {', '.join(missing)}: a certificate without "
            "them can be verified by losses only"
        )
    if about["settings"] != own.get("settings"):
        raise CertificateError("the settings of the classifier are not those that it was fitted with: fit again")
    return about


def _expect(name: str, stated: Any, actual: Any) -> None:
    """Raise CertificateError if something is stated otherwise than it is."""
    if stated != actual:
        raise CertificateError(f"{name} is stated as {stated!r}, and that of the classifier is {actual!r}")


def _expect_weights(stated: Array, actual: Array) -> None:
    """Raise CertificateError if weights are others than those that come out."""
    if not np.allclose(stated, actual, rtol=1e-6, atol=1e-12):
        raise CertificateError("the weights of the classifier are not those that the certificate is about")


def _expect_counts(certificate: Certificate, actual: Certificate) -> None:
    """Raise CertificateError if points are counted otherwise, by class, by group or at thresholds."""
    for name in _COUNTED:
        _expect(name, getattr(certificate, name), getattr(actual, name))
    stated, counted = certificate.groups, actual.groups
    if stated is None or counted is None:
        _expect("groups", stated, counted)
        return
    for name in ("name", "overlapping", "labels"):
        _expect(f"groups.{name}", getattr(stated, name), getattr(counted, name))
    for label, *counts in zip(stated.labels, stated.counts, counted.counts, strict=True):
        _expect(f"groups.counts of {label!r}", *counts)
    _expect("groups.bounds", stated.bounds, counted.bounds)


def _verify_test(certificate: Certificate, vote: Vote) -> None:
    """Raise CertificateError if a certificate states another result on held-out rows than that of the vote."""
    if any("n_unlabelled" in statement.figures for statement in certificate.statements):
        raise CertificateError("statements about unlabelled points cannot be verified without these points")
    stated, actual = (
        [(s.predictor, dict(s.figures)) for s in c.statements if s.event == Event.TEST_SET]
        for c in (certificate, vote.certificate)
    )
    _expect("the test on held-out rows", stated, actual)
    for _, figures in stated:
        _expect("the number of held-out rows", figures["n"], vote.n_held_out)


def _verify_draws(fitted: FittedVotes) -> None:
    """Raise CertificateError if votes are not those that `holdout` makes compete, on rows that the seed draws."""
    votes, first = fitted.votes, fitted.votes[0].split
    n = 0 if first.rows is None or first.held_out is None else first.rows.size + first.held_out.size
    holdout = resolve_holdout(fitted.pool, fitted.settings, fitted.loss, n)
    if (holdout is None) != (n == 0):
        raise CertificateError(f"holdout is {holdout!r}, but rows were {'not ' if n == 0 else ''}held out")
    expected = split_holdouts(holdout, n, fitted.entropy)
    _expect("the number of votes", len(votes), len(expected))
    for k, (vote, drawn) in enumerate(zip(votes, expected, strict=True)):
        actual, own = vote.split, vote.subsamples
        parts = ((actual.rows, drawn.rows), (actual.held_out, drawn.held_out), (actual.entropy, drawn.entropy))
        if not all(np.array_equal(*part) for part in parts) or not _are_drawn(fitted, own, drawn):
            raise CertificateError(f"the rows of vote {k} are not those that its seed draws")


def _are_drawn(fitted: FittedVotes, subsamples: Subsamples, split: Split) -> bool:
    """Return whether random subsamples are those that settings and seed draw; others are the caller's."""
    parts = subsamples.by_family()
    random = [name for name, part in parts.items() if isinstance(part, RandomSubsamples)]
    if not random:
        return True
    plan = make_sampling_plan(fitted.settings, split)
    try:
        expected = fitted.pool.draw_subsamples(plan, subsamples.n, fitted.n_features).by_family()
    except ValueError:
        return False
    return list(expected) == list(parts) and all(digest(expected[name]) == digest(parts[name]) for name in random)


def _find_rest(fitted: FittedVotes, certificate: Certificate, rows: SampleRows) -> SampleRows:
    """Return the rows of the training sample that made the vote, or raise CertificateError if they did not."""
    vote = fitted.best
    sample, _ = fitted.pool.prepare(vote.split.take_rows(rows.sample), vote.split.entropy)
    rest = rows.with_sample(sample)
    if len(rest) != vote.subsamples.n:
        raise CertificateError(f"the sample leaves {len(rest)} rows, and the fit was on {vote.subsamples.n}")
    _expect("loss", certificate.loss, fitted.loss.adapt(sample.codes).name)
    return rest


def _verify_on_rows(
    fitted: FittedVotes, certificate: Certificate, rows: SampleRows, rest: SampleRows, groups: Groups | None
) -> None:
    """Raise CertificateError if losses and errors on the training sample are not those of the fit."""
    vote, loss = fitted.best, fitted.loss

    def totals_of(chosen: NDArray[np.intp]) -> Array:
        return total_losses(vote, chosen, rest, loss)

    losses = vote.losses
    validated = np.flatnonzero(~np.isnan(losses))
    recomputed = totals_of(validated) / vote.subsamples.n_validation[validated]
    wrong = np.flatnonzero(recomputed != losses[validated])
    if wrong.size:
        h = int(validated[wrong[0]])
        raise CertificateError(
            f"losses[{h}] is stated as {losses[h]!r} but comes out as {recomputed[wrong[0]]!r} on these data"
        )
    dropped = np.flatnonzero(np.isnan(losses) & (vote.seen > 0))
    # Only a minimum over all hypotheses rests on what the dropped ones did.
    if certificate.minimum_over == certificate.n_hypotheses and dropped.size:
        too_large = totals_of(dropped) < vote.totals[dropped]
        if too_large.any():
            h = int(dropped[too_large][0])
            raise CertificateError(f"hypothesis {h} has a smaller loss on these data than when it was dropped")
    if groups is not None and certificate.groups is not None and not groups.name:
        groups = replace(groups, name=certificate.groups.name)  # an array has none
    blank = replace(vote, certificate=replace(certificate.without_test(), labels=(), label_counts=()))
    max_error = None if certificate.declared is None else certificate.declared.max_error
    calibrates = certificate.calibration is not None
    tested, result = evaluate_vote(blank, rows, rest, loss, None, None, groups, max_error, calibrates)
    again = (evaluate_shares(tested, rows, result) if certificate.abstention else tested).certificate
    if certificate.probabilities is None:  # as in files from before
        again = replace(again, probabilities=None)
    stated, actual = (dict(c.statements[0].figures) for c in (certificate, again))
    _expect("the test on held-out rows", stated, actual)
    _expect_counts(certificate, again)
