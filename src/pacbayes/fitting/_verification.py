"""Verify that a certificate states what a fitted vote shows, and what its training sample shows about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.certificate import Certificate, Event
from pacbayes.exceptions import CertificateError
from pacbayes.fitting._ensemble import Ensemble
from pacbayes.fitting._stream import Stream
from pacbayes.fitting._training import validation_totals
from pacbayes.fitting._voting import VotingBlocks
from pacbayes.sampling import ChosenSubsamples, Split, split_holdouts
from pacbayes.tasks import Loss

__all__ = ["expect", "expect_classes", "verify_losses", "verify_splits", "verify_test"]


def expect(name: str, stated: Any, actual: Any) -> None:
    """Raise CertificateError if something is stated otherwise than it is."""
    if stated != actual:
        raise CertificateError(f"{name} is stated as {stated!r}, and that of the classifier is {actual!r}")


def expect_classes(stated: Certificate, actual: Certificate) -> None:
    """Raise CertificateError if a certificate states other numbers by class than another."""
    for name in ("labels", "label_counts", "confusion"):
        expect(name, getattr(stated, name), getattr(actual, name))


def verify_test(certificate: Certificate, vote: Ensemble) -> None:
    """Raise CertificateError if a certificate states another result on held-out rows than that of the vote."""
    if any("n_unlabelled" in statement.figures for statement in certificate.statements):
        raise CertificateError("statements about unlabelled points cannot be verified without these points")
    stated, actual = (
        [(s.predictor, dict(s.figures)) for s in c.statements if s.event == Event.TEST_SET]
        for c in (certificate, vote.certificate)
    )
    expect("the test on held-out rows", stated, actual)
    for _, figures in stated:
        expect("the number of held-out rows", figures["n"], vote.n_held_out)


def verify_splits(splits: Sequence[Split], holdout: Any, entropy: int) -> None:
    """Raise CertificateError if votes are not those that `holdout` makes compete, on rows that the seed draws."""
    first = splits[0]
    n = 0 if first.rows is None or first.held_out is None else first.rows.size + first.held_out.size
    if (holdout is None) != (n == 0):
        raise CertificateError(f"holdout is {holdout!r}, but rows were {'not ' if n == 0 else ''}held out")
    expected = split_holdouts(holdout, n, entropy)
    expect("the number of votes", len(splits), len(expected))
    for k, (actual, drawn) in enumerate(zip(splits, expected, strict=True)):
        same = all(
            np.array_equal(*parts)
            for parts in (
                (actual.rows, drawn.rows),
                (actual.held_out, drawn.held_out),
                (actual.entropy, drawn.entropy),
            )
        )
        if not same:
            raise CertificateError(f"the rows of vote {k} are not those that its seed draws")


def verify_losses(
    certificate: Certificate,
    vote: Ensemble,
    sample: Any,
    rest: Any,
    loss: Loss,
    streamed: Stream | None,
    blocks: VotingBlocks,
) -> None:
    """Raise CertificateError if losses and errors on the training sample are not those of the fit.

    `rest` are those rows of `sample` that train and validate; `streamed` is where rows are read from, if not from
    memory.
    """
    if len(rest) != vote.subsamples.n:
        raise CertificateError(f"the sample leaves {len(rest)} rows, and the fit was on {vote.subsamples.n}")

    def totals_of(chosen: NDArray[np.intp]) -> Array:
        """Return the total losses of some hypotheses on all their validation points."""
        hypotheses, subsamples = vote.hypotheses.take(chosen), ChosenSubsamples(vote.subsamples, chosen)
        if streamed is not None:
            return streamed.total_losses(hypotheses, subsamples, rest, loss)
        return validation_totals(hypotheses, rest, subsamples, loss, np.arange(len(rest)), blocks.size)

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
    blank = replace(vote, certificate=replace(certificate, labels=(), label_counts=(), confusion=None))
    again = (
        blank.with_points(sample, rest, loss, blocks)
        if streamed is None
        else streamed.with_points(blank, sample, rest, loss)
    )
    stated, actual = (dict(c.statements[0].figures) for c in (certificate, again.certificate))
    expect("the test on held-out rows", stated, actual)
    expect_classes(certificate, again.certificate)
