"""What one worker does with hypotheses and a block of rows. Results are arrays by name, which a checkpoint can keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificate import tabulate_probabilities, tabulate_thresholds
from pacbayes.fitting._checkpoint import Arrays
from pacbayes.fitting._rows import Block
from pacbayes.pools import Hypotheses, Sample
from pacbayes.tasks import find_outside, tally_out_of_bag


def train_part(common: Iterable[Any], sample: Sample, chosen: NDArray[np.intp]) -> Hypotheses:
    """Train some hypotheses on rows that are in memory."""
    pool, subsamples, entropy, shared = common
    trained: Hypotheses = pool.train(sample, subsamples, chosen, entropy, shared)
    return trained


def sum_losses(common: Iterable[Any], block: Block, *own: Any, chunk: Any = None) -> Arrays:
    """Return total validation losses of hypotheses, with training sets, that tasks share, or of the task's own."""
    loss, *shared = common
    hypotheses, subsamples = own or shared
    totals = np.zeros(len(hypotheses))
    for sample, numbers in block.samples(chunk):
        totals += hypotheses.loss_totals(sample, subsamples, range(len(hypotheses)), numbers, loss)
    return {"totals": totals}


# Along which axis results of some rows are joined to those of more rows; all others add up.
_AXES = dict.fromkeys(("predicted", "uncertain", "wrong", "tallies", "codes", "target", "mean", "spread"), 0)
_AXES |= {"answers": 1, "outside": 1}


def join_results(parts: Sequence[Arrays]) -> Arrays:
    """Return the results of several batches, or blocks, as those of all their rows."""
    together = {name: [part[name] for part in parts] for name in parts[0]}
    return {
        name: np.concatenate(arrays, _AXES[name]) if name in _AXES else np.asarray(np.sum(arrays, axis=0))
        for name, arrays in together.items()
    }


def _by_batches(compute: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Return a function of a block from one of its batches; further arguments have an entry for each row."""

    @wraps(compute)
    def compute_block(common: Iterable[Any], block: Block, *by_row: NDArray[Any], chunk: Any = None) -> Arrays:
        parts, done = [], 0
        for numbers, X, target in block.batches(chunk):
            here = slice(done, done + numbers.size)
            parts.append(compute(common, numbers, X, target, *(entries[here] for entries in by_row)))
            done += numbers.size
        return join_results(parts)

    return compute_block


@_by_batches
def sum_test_losses(
    common: Iterable[Any], _: NDArray[Any], X: Any, target: NDArray[Any], drawn: NDArray[Any] | None = None
) -> Arrays:
    """Return the total loss of what weighted hypotheses predict, counts by target and prediction, and the predictions.

    Also which of them are wrong or could be on another engine; with `by_shares`, counts at thresholds on shares of the
    vote.
    """
    task, hypotheses, weights, loss, n_rows, by_shares, calibration = common
    predicted, uncertain = task.predict(hypotheses, weights, X, drawn)
    # A target that the sample does not have has the largest loss, as an uncertain prediction has.
    lost, codes = uncertain | ~task.is_known(target), target.astype(np.intp)
    result = {
        "total": np.asarray(loss.total_with_uncertain(target, predicted, lost, n_rows)),
        "predicted": predicted.astype(np.min_scalar_type(task.width)),
        "wrong": lost | (predicted != target),
    }
    counts = task.tabulate(codes, predicted, uncertain)
    if counts is not None:
        result["counts"] = counts
    if by_shares:
        result |= _count_shares((task, hypotheses, weights, calibration), X, codes, predicted, result["wrong"])
    return result


@_by_batches
def tabulate_shares(
    common: Iterable[Any], _: NDArray[Any], X: Any, target: NDArray[Any], predicted: NDArray[Any], wrong: NDArray[Any]
) -> Arrays:
    """Count rows at thresholds on shares, and by probabilities, given what the vote predicts and where it errs."""
    return _count_shares(common, X, target.astype(np.intp), predicted.astype(np.intp), wrong)


def _count_shares(
    common: Iterable[Any], X: Any, codes: NDArray[np.intp], predicted: NDArray[np.intp], wrong: NDArray[np.bool_]
) -> Arrays:
    task, hypotheses, weights, calibration = common
    doubt = np.zeros(codes.size)
    known = (codes, predicted, wrong, task.aggregate(hypotheses, weights, X, doubt), doubt)
    return tabulate_thresholds(*known)._asdict() | tabulate_probabilities(*known, calibration)._asdict()


@_by_batches
def tally_rows_out_of_bag(common: Iterable[Any], numbers: NDArray[Any], X: Any, target: NDArray[Any]) -> Arrays:
    """Return the weight behind each class on rows, of voters that were not trained on them."""
    _, hypotheses, weights, subsamples = common
    return {"tallies": tally_out_of_bag(hypotheses, weights, subsamples, X, numbers), "codes": target.astype(np.intp)}


@_by_batches
def answer_rows_out_of_bag(common: Iterable[Any], numbers: NDArray[Any], X: Any, target: NDArray[Any]) -> Arrays:
    """Return what hypotheses answer on rows, where they were not trained on them, and the targets."""
    task, hypotheses, _, subsamples = common
    return {"answers": task.answer(hypotheses, X), "outside": find_outside(subsamples, numbers), "target": target}


@_by_batches
def tabulate_out_of_bag(common: Iterable[Any], numbers: NDArray[Any], X: Any, target: NDArray[Any]) -> Arrays:
    """Count rows by target and by what those hypotheses predict that were not trained on them."""
    task, *voters = common
    predicted, uncertain, voted = task.predict_out_of_bag(*voters, X, numbers)
    return {"counts": task.tabulate(target.astype(np.intp)[voted], predicted[voted], uncertain[voted])}


@_by_batches
def measure_errors(common: Iterable[Any], _: NDArray[Any], X: Any, target: NDArray[Any]) -> Arrays:
    """Return the numbers to be predicted, what weighted hypotheses predict, and their spread."""
    task, hypotheses, weights = common
    mean, spread = task.aggregate(hypotheses, weights, X).T
    return {"target": target, "mean": mean, "spread": spread}


@_by_batches
def predict_block(
    common: Iterable[Any], _: NDArray[Any], X: Any, target: NDArray[Any], drawn: NDArray[Any] | None = None
) -> Arrays:
    """Return predictions of weighted hypotheses on rows and which are uncertain, or their aggregated answers."""
    task, hypotheses, weights, aggregated = common
    if aggregated:
        return {"predicted": task.aggregate(hypotheses, weights, X)}
    return dict(zip(("predicted", "uncertain"), task.predict(hypotheses, weights, X, drawn), strict=True))
