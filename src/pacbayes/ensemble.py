"""A weighted pool of hypotheses: made from some rows of a sample, and tested on rows that were held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.certificate import Certificate, with_test
from pacbayes.losses import Loss
from pacbayes.pools import Hypotheses, Sample
from pacbayes.sampling import HOLDOUT, TEST, Subsamples, derive_entropy, resolve_size, stream
from pacbayes.training import Trained
from pacbayes.voting import predict_codes, tally_votes

__all__ = ["Ensemble", "Split", "VotePlan", "add_test", "split_holdouts"]

# Shares of the sample to hold out, one for each competing vote. Measured in benchmarks/RESULTS.md.
_SHARES = (0.5, 0.35)


@dataclass(frozen=True)
class Split:
    """Rows that make a vote, and rows that test it.

    Attributes
    ----------
    rows : ndarray or None
        Rows that hypotheses are trained and weighted on; None for all.
    held_out : ndarray or None
        Rows that are used for nothing but the test.
    entropy : int
        Seed of all that is random in making the vote.
    """

    rows: NDArray[Any] | None
    held_out: NDArray[Any] | None
    entropy: int

    def take_rows(self, sample: Sample) -> Sample:
        """Return the rows of a sample that make the vote."""
        return sample if self.rows is None else sample.take(self.rows)


class VotePlan(NamedTuple):
    """What a vote is going to be made from.

    Attributes
    ----------
    split : Split
        Rows that make it, and rows that test it.
    rest : Sample
        The rows that make it, without those that the pool reserved.
    shared : object
        What all its hypotheses share, as `Pool.prepare` computed it.
    subsamples : Subsamples
        Their training sets.
    """

    split: Split
    rest: Any
    shared: Any
    subsamples: Subsamples


def split_holdouts(holdout: Any, n: int, entropy: int) -> list[Split]:
    """Draw the held-out rows of each competing vote, without looking at the sample.

    Parameters
    ----------
    holdout : float, int, sequence of these, "auto" or None
        As in `PACBayesClassifier`.
    n : int
        Sample size.
    entropy : int
        Seed of all streams.

    Returns
    -------
    list of Split
        One for each vote.

    Examples
    --------
    >>> [(split.rows.size, split.held_out.size) for split in split_holdouts((0.5, 0.3), n=100, entropy=0)]
    [(50, 50), (70, 30)]
    >>> split_holdouts(None, n=100, entropy=0)
    [Split(rows=None, held_out=None, entropy=0)]
    """
    if holdout is None:
        return [Split(None, None, entropy)]
    if isinstance(holdout, np.ndarray):
        holdout = holdout.tolist()
    shares: Sequence[Any]
    if isinstance(holdout, str) and holdout == "auto":
        shares = _SHARES
    elif isinstance(holdout, Real):
        shares = [holdout]
    elif isinstance(holdout, Iterable) and not isinstance(holdout, str):
        shares = list(holdout)
    else:
        raise ValueError(f"holdout must be 'auto', None, a share or several, got {holdout!r}")
    if not shares:
        raise ValueError("holdout must name at least one share, got none: give None for no held-out rows")
    splits = []
    for k, share in enumerate(shares):
        size = resolve_size("holdout", share, n)
        if n - size < 2:
            raise ValueError(f"holdout must leave at least 2 of the {n} rows to train and validate on, got {share!r}")
        # In four bytes each: they are kept with the vote, and there may be many.
        order = stream(entropy, k, HOLDOUT).permutation(np.arange(n, dtype=np.int32 if n < 2**31 else np.int64))
        splits.append(Split(np.sort(order[size:]), np.sort(order[:size]), derive_entropy(entropy, k)))
    return splits


@dataclass(frozen=True)
class Ensemble:
    """Trained hypotheses with their weights, and what is proved about the predictor they make.

    Attributes
    ----------
    hypotheses : Hypotheses
        The hypotheses.
    subsamples : Subsamples
        Their training sets, as row numbers of the rows that make this ensemble.
    totals : ndarray of shape (m,)
        Sums of their validation losses, over the points that they were seen on.
    seen : ndarray of shape (m,)
        Numbers of these points: all validation points of a hypothesis, or fewer if it was dropped.
    posterior : ndarray of shape (m,)
        Their weights.
    prior : ndarray of shape (m,) or None
        Their prior, None if it is uniform.
    certificate : Certificate
        What is proved.
    split : Split
        Rows that made the ensemble, and rows that tested it.
    """

    hypotheses: Hypotheses
    subsamples: Subsamples
    totals: Array
    seen: NDArray[np.intp]
    posterior: Array
    prior: Any
    certificate: Certificate
    split: Split

    @property
    def trained(self) -> Trained:
        """The hypotheses with their losses so far."""
        return Trained(self.hypotheses, self.totals, self.seen)

    @property
    def losses(self) -> Array:
        """Validation losses of the hypotheses; NaN for those that were dropped."""
        return self.trained.losses(self.subsamples)

    @property
    def bound(self) -> float:
        """Bound on what the ensemble predicts."""
        return self.certificate.bound

    @property
    def n_held_out(self) -> int:
        """Number of rows that tested it."""
        return 0 if self.split.held_out is None else self.split.held_out.size

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels by the weighted majority vote of this ensemble.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        tallies = tally_votes(self.hypotheses, self.posterior, X, stop_early=True)
        return np.asarray(self.hypotheses.classes[np.argmax(tallies, axis=1)])


def add_test(
    certificate: Certificate, hypotheses: Hypotheses, posterior: Array, sample: Sample, split: Split, loss: Loss
) -> Certificate:
    """Add what the held-out rows of a sample prove about the predictor that hypotheses and weights make, if there are.

    A prediction that could differ on another engine has the largest loss, 1.

    Parameters
    ----------
    certificate : Certificate
        What is proved without them; its `voting` says what the predictor does.
    hypotheses : Hypotheses
        The hypotheses.
    posterior : ndarray of shape (m,)
        Their weights.
    sample : Sample
        All rows.
    split : Split
        Which of them are held out, and the seed of the draws of the randomised classifier.
    loss : Loss
        A loss of labels.

    Returns
    -------
    Certificate
        With the result of the test first.
    """
    if split.held_out is None:
        return certificate
    tested = sample.take(split.held_out)
    rng = stream(split.entropy, 0, TEST)
    codes, doubtful = predict_codes(hypotheses, posterior, certificate.voting, tested.X, rng)
    return with_test(certificate, loss.total_with_doubts(tested.codes, codes, doubtful), len(tested))
