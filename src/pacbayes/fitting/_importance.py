"""What a vote loses on rows that had no part in its training, for permuted features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import ZERO_ONE
from pacbayes._settings import is_whole
from pacbayes.fitting._evaluation import evaluate_on_rows
from pacbayes.fitting._rows import SampleRows
from pacbayes.fitting._votes import FittedVotes
from pacbayes.sampling import TEST, stream


def importance_score(
    fitted: FittedVotes, rows: SampleRows, open_rows: Callable[[Any], SampleRows], max_rows: int, seed: int
) -> tuple[NDArray[np.intp], Callable[..., float]]:
    """Return numbers of rows that test a vote fairly, and a score of their features as scikit-learn calls it.

    The score is minus the mean loss. Of the training sample, these are held-out rows or, if there are none, all rows,
    on each of which those hypotheses vote that were not trained on it.
    """
    if not (is_whole(max_rows) and max_rows >= 1):
        raise ValueError(f"max_rows must be a whole number, at least 1, got {max_rows!r}")
    vote, known = fitted.best, fitted.training_rows
    loss = ZERO_ONE if fitted.loss.on_probabilities else fitted.loss
    summary, rows = rows.summarize(known.shift)
    is_sample = summary.exact_digest == fitted.row_digest
    if not is_sample:
        known.check_unseen(summary)
    candidates = vote.split.held_out if is_sample and vote.split.held_out is not None else np.arange(len(rows))
    order = np.random.default_rng(seed).permutation(candidates.size)[:max_rows]
    chosen = np.sort(candidates[order])
    target = rows.sample.codes[chosen]
    out_of_bag = is_sample and vote.split.held_out is None
    if out_of_bag and vote.subsamples.n != len(rows):
        raise ValueError("X must be new points where points are reserved for kernel widths")

    def score(_: Any, X: Any, __: Any) -> float:
        permuted = open_rows(X)
        if out_of_bag:
            parts = (vote.hypotheses, vote.posterior, vote.subsamples, permuted.sample.X, chosen)
            predicted, uncertain, voted = vote.task.predict_out_of_bag(*parts)
            total = loss.total_with_uncertain(target[voted], predicted[voted], uncertain[voted])
            return -total / max(1, int(voted.sum()))
        rng = stream(vote.split.entropy, 0, TEST)  # the same draws for every feature, where hypotheses are drawn
        return -evaluate_on_rows(vote, permuted.with_target(vote.task, target), loss, rng).total / chosen.size

    return chosen, score
