"""What one worker does with hypotheses and a block of rows. Results are arrays by name, which a checkpoint can keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificate import tabulate_probabilities, tabulate_thresholds
from pacbayes.fitting._hypotheses import Arrays
from pacbayes.fitting._rows import Block
from pacbayes.pools import Hypotheses, Sample
from pacbayes.tasks import tally_out_of_bag


def train_part(common: Iterable[Any], sample: Sample, chosen: NDArray[np.intp]) -> Hypotheses:
    """Train some hypotheses on rows that are in memory."""
    pool, subsamples, entropy, shared = common
    trained: Hypotheses = pool.train(sample, subsamples, chosen, entropy, shared)
    return trained


def sum_losses(common: Iterable[Any], block: Block, *own: Any, chunk: Any = None) -> Arrays:
    """Return the total validation losses on a block, of hypotheses that all tasks share, or of the task's own.

    Hypotheses come with their training sets.
    """
    loss, *shared = common
    hypotheses, subsamples = own or shared
    totals = np.zeros(len(hypotheses))
    for sample, numbers in block.samples(chunk):
        totals += hypotheses.loss_totals(sample, subsamples, range(len(hypotheses)), numbers, loss)
    return {"totals": totals}


def sum_test_losses(
    common: Iterable[Any], block: Block, drawn: NDArray[Any] | None = None, chunk: Any = None
) -> Arrays:
    """Return the total loss of what weighted hypotheses predict on a block, and counts by target and prediction.

    Also the predictions and, as bits, which of them are wrong or could be on another engine; with `by_shares`, counts
    at thresholds on shares of the vote.
    """
    task, hypotheses, weights, loss, n_rows, by_shares, calibration = common
    total, tables, predictions, wrong, by_share = 0.0, [], [], [], []
    for X, target, here in _batches_with_drawn(block, drawn, chunk):
        predicted, uncertain = task.predict(hypotheses, weights, X, here)
        # A target that the sample does not have has the largest loss, as an uncertain prediction has.
        lost = uncertain | ~task.is_known(target)
        total += loss.total_with_uncertain(target, predicted, lost, n_rows)
        predictions.append(
            predicted.astype(np.min_scalar_type(task.width)) if predicted.dtype.kind == "i" else predicted
        )
        wrong.append(lost | (predicted != target))
        codes = target.astype(np.intp)
        tables.append(task.tabulate(codes, predicted, uncertain))
        if by_shares:
            asked = (task, hypotheses, weights, calibration)
            by_share.append(_count_shares(asked, X, codes, predicted, wrong[-1]))
    counts = [table for table in tables if table is not None]
    result = {"total": np.array(total), "predicted": np.concatenate(predictions)}
    result |= {"wrong": np.packbits(np.concatenate(wrong))}
    result |= {"counts": np.sum(counts, axis=0)} if counts else {}
    return result | _sum_counts(by_share)


def tabulate_shares(
    common: Iterable[Any], block: Block, predicted: NDArray[Any], wrong: NDArray[np.bool_], chunk: Any = None
) -> Arrays:
    """Count rows of a block at thresholds on shares of the vote, and by probabilities.

    `predicted` is what it predicts there, and `wrong` where it errs.
    """
    asked, counts, done = tuple(common), [], 0
    for numbers, X, target in block.batches(chunk):
        here = slice(done, done + numbers.size)
        known = (target.astype(np.intp), predicted[here].astype(np.intp), wrong[here])
        counts.append(_count_shares(asked, X, *known))
        done += numbers.size
    return _sum_counts(counts)


def _count_shares(
    asked: tuple[Any, ...], X: Any, codes: NDArray[np.intp], predicted: NDArray[np.intp], wrong: NDArray[np.bool_]
) -> Arrays:
    """Count some rows at thresholds on shares of the vote, and by probabilities."""
    task, hypotheses, weights, calibration = asked
    doubt = np.zeros(codes.size)
    known = (codes, predicted, wrong, task.aggregate(hypotheses, weights, X, doubt), doubt)
    return tabulate_thresholds(*known)._asdict() | tabulate_probabilities(*known, calibration)._asdict()


def _sum_counts(counts: list[Arrays]) -> Arrays:
    """Add up counts of batches by their names; none if there are none."""
    return {name: np.sum([one[name] for one in counts], axis=0) for name in (counts[0] if counts else ())}


def tally_rows_out_of_bag(common: Iterable[Any], block: Block, chunk: Any = None) -> Arrays:
    """Return the weight behind each class on rows of a block, of voters that were not trained on them."""
    hypotheses, weights, subsamples = common
    parts = [
        (tally_out_of_bag(hypotheses, weights, subsamples, X, numbers), target.astype(np.intp))
        for numbers, X, target in block.batches(chunk)
    ]
    return dict(zip(("tallies", "codes"), map(np.concatenate, zip(*parts, strict=True)), strict=True))


def answer_rows_out_of_bag(common: Iterable[Any], block: Block, chunk: Any = None) -> Arrays:
    """Return what hypotheses answer on rows of a block, where they were not trained on them, and the targets."""
    task, hypotheses, subsamples = common
    parts = [
        (*task.answer_out_of_bag(hypotheses, subsamples, X, numbers), target)
        for numbers, X, target in block.batches(chunk)
    ]
    answers, outside, target = zip(*parts, strict=True)
    joined = {"answers": np.concatenate(answers, axis=1), "outside": np.concatenate(outside, axis=1)}
    return {**joined, "target": np.concatenate(target)}


def measure_errors(common: Iterable[Any], block: Block, chunk: Any = None) -> Arrays:
    """Return the numbers to be predicted on a block, what weighted hypotheses predict, and their spread."""
    task, hypotheses, weights = common
    parts = [(target, task.aggregate(hypotheses, weights, X)) for _, X, target in block.batches(chunk)]
    target, answers = (np.concatenate(found) for found in zip(*parts, strict=True))
    return {"target": target, "mean": answers[:, 0], "spread": answers[:, 1]}


def tabulate_out_of_bag(common: Iterable[Any], block: Block, chunk: Any = None) -> Arrays:
    """Count rows of a block by target and by what those hypotheses predict that were not trained on them."""
    task, hypotheses, weights, subsamples = common
    counts = []
    for numbers, X, target in block.batches(chunk):
        predicted, uncertain, voted = task.predict_out_of_bag(hypotheses, weights, subsamples, X, numbers)
        counts.append(task.tabulate(target.astype(np.intp)[voted], predicted[voted], uncertain[voted]))
    return {"counts": np.sum(counts, axis=0)}


def predict_block(common: Iterable[Any], block: Block, drawn: NDArray[Any] | None = None, chunk: Any = None) -> Arrays:
    """Return predictions of weighted hypotheses on a block and which are uncertain, or their aggregated answers."""
    task, hypotheses, weights, aggregated = common
    parts: list[tuple[NDArray[Any], ...]] = []
    for X, _, here in _batches_with_drawn(block, drawn, chunk):
        if aggregated:
            parts.append((task.aggregate(hypotheses, weights, X),))
        else:
            parts.append(task.predict(hypotheses, weights, X, here))
    return dict(zip(("predicted", "uncertain"), map(np.concatenate, zip(*parts, strict=True)), strict=False))


def _batches_with_drawn(
    block: Block, drawn: NDArray[Any] | None, chunk: Any
) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any] | None]]:
    """Yield features and targets of the rows of a block, in batches, and the hypotheses that were drawn for them."""
    done = 0
    for numbers, X, target in block.batches(chunk):
        yield X, target, None if drawn is None else drawn[done : done + numbers.size]
        done += numbers.size
