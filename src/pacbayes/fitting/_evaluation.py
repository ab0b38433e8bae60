"""What a weighted pool of hypotheses does on rows: its test on held-out ones, and its predictions of new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import ZERO_ONE, Loss
from pacbayes._parallel import count_threads
from pacbayes._settings import is_whole
from pacbayes._validation import Array
from pacbayes.certificate import (
    MAJORITY,
    MOST_CLASSES,
    Certificate,
    NumberTest,
    ProbabilityCounts,
    ThresholdCounts,
    plan_thresholds,
    with_confusion,
    with_numbers,
    with_shares,
    with_test,
)
from pacbayes.fitting._checkpoint import Arrays
from pacbayes.fitting._groups import Groups
from pacbayes.fitting._rows import Block, SampleRows
from pacbayes.fitting._votes import FittedVotes, Vote
from pacbayes.fitting._work import (
    answer_rows_out_of_bag,
    join_results,
    measure_errors,
    predict_block,
    sum_losses,
    sum_test_losses,
    tabulate_out_of_bag,
    tabulate_shares,
    tally_rows_out_of_bag,
)
from pacbayes.fitting._workers import Workers
from pacbayes.pools import Hypotheses
from pacbayes.sampling import TEST, ChosenSubsamples, stream
from pacbayes.tasks import calibrate

# Rows that a worker predicts at least: fewer are not worth the overhead.
_LEAST_ROWS = 4096

# Rows that a vote is stacked on or, without held-out ones, measured on by class: it takes as long as predicting them.
_MOST_OUT_OF_BAG = 2000

# Hypotheses that are weighted by the error of their mean: so many, with so much weight of the heaviest by their losses.
# Others have no weight.
_MOST_STACKED, _LEAST_STACKED = 200, 1e-6
_MOST_STACKED_ANSWERS = 1 << 23

# Training rows that a vote is calibrated on; fewer, if its shares are more numbers than this.
_MOST_CALIBRATED = 1000
_MOST_TALLIES = 1 << 20

# Blocks that are predicted before their results are handed over, fewer if their aggregated answers are more numbers
# than this.
_WINDOW = 16
_MOST_ANSWERS = 1 << 26


def total_losses(vote: Vote, chosen: NDArray[np.intp], rest: SampleRows, loss: Loss) -> Array:
    """Return the total losses of some hypotheses of a vote on all their validation points."""
    subsamples = ChosenSubsamples(vote.subsamples, chosen)
    blocks = rest.blocks(0, len(rest), rest.block_rows)
    common = (loss, vote.hypotheses.take(chosen), subsamples)
    found = join_results(_run(rest, sum_losses, common, [(block,) for block in blocks], "validation"))
    return found["totals"]


def evaluate_vote(
    vote: Vote,
    rows: SampleRows,
    rest: SampleRows,
    loss: Loss,
    k: int | None = None,
    batch_rows: int | None = None,
    groups: Groups | None = None,
    max_error: float | None = None,
    calibrates: bool = True,
) -> tuple[Vote, TestResult | None]:
    """Add to the certificate what held-out rows, or otherwise validation rows, say about the predictor.

    `rest` are those of `rows` that train and validate the hypotheses, and `k` is the number of the vote in a fit, whose
    results a checkpoint may hold. `max_error` was declared for answered points, and `calibrates` says whether shares
    become calibrated probabilities. Returns what the vote did on the held-out rows, too.
    """
    certificate = vote.certificate.revise(**vote.task.describe_target(rows.sample.codes))
    declared = None
    if certificate.predictor == MAJORITY and (calibrates or max_error is not None):
        most = min(_MOST_CALIBRATED, max(1, _MOST_TALLIES // vote.task.width))
        tallied = _ask_out_of_bag(vote, rest, tally_rows_out_of_bag, most, _name(k, "calibration"))
        tallies, codes = tallied["tallies"], tallied["codes"]
        if calibrates:
            certificate = certificate.revise(calibration=calibrate(tallies, codes))
        if max_error is not None:
            mass = np.maximum(tallies.sum(axis=1), np.finfo(np.float64).tiny)
            declared = max_error, plan_thresholds(tallies.max(axis=1) / mass, mass)
    if vote.split.held_out is None:
        return replace(vote, certificate=_tabulate_validation(vote, certificate, rest, k)), None
    tested = rows.take(vote.split.held_out)
    rng = stream(vote.split.entropy, 0, TEST)
    result = evaluate_on_rows(vote, tested, loss, rng, _name(k, "test"), batch_rows)
    held_out_groups = None if groups is None else groups.take(vote.split.held_out)
    found = result._replace(declared=declared) if isinstance(result, TestResult) else None
    return replace(vote, certificate=result.certify(certificate, held_out_groups)), found


def _name(k: int | None, what: str) -> str:
    """Return what results about a vote of a fit are called in a checkpoint."""
    return "" if k is None else f"vote{k}-{what}"


def _ask_out_of_bag(
    vote: Vote, rest: SampleRows, function: Any, most: int, name: str, voters: NDArray[np.intp] | None = None
) -> Arrays:
    """Return what voters, by default those with weight, do on training rows, on which each counts if they were not its.

    These are so many rows at most, drawn without looking at them. What a function is given begins with the task, the
    voters, their weights and their training sets.
    """
    voters = np.flatnonzero(vote.posterior > 0) if voters is None else voters
    hypotheses, weights, subsamples = vote.hypotheses, vote.posterior[voters], vote.subsamples
    if voters.size < len(hypotheses):  # a copy of all of them, and of their training sets, would take time
        hypotheses, subsamples = hypotheses.take(voters), ChosenSubsamples(subsamples, voters)
    rest = rest.arrange(vote.split.entropy)
    tasks = [(block,) for block in rest.blocks(0, min(most, len(rest)), rest.block_rows)]
    common, about = (vote.task, hypotheses, weights, subsamples), [weights, voters, vote.subsamples]
    return join_results(_run(rest, function, common, tasks, "weighting", name, about))


def stack_vote(vote: Vote, rest: SampleRows, k: int | None = None) -> Array:
    """Return weights by which a vote errs little on rows outside of subsamples, starting from those that it has."""
    heaviest = np.argsort(-vote.posterior, kind="stable")[:_MOST_STACKED]
    chosen = np.sort(heaviest[vote.posterior[heaviest] >= _LEAST_STACKED * vote.posterior.max()])
    most = min(_MOST_OUT_OF_BAG, max(1, _MOST_STACKED_ANSWERS // (chosen.size * vote.task.width)))
    found = _ask_out_of_bag(vote, rest, answer_rows_out_of_bag, most, _name(k, "stacking"), chosen)
    weights, start = np.zeros(vote.posterior.size), vote.posterior[chosen] / vote.posterior[chosen].sum()
    weights[chosen] = vote.task.stack(found["answers"], found["outside"], found["target"], start)
    return weights


def evaluate_shares(vote: Vote, rows: SampleRows, tested: TestResult | None, k: int | None = None) -> Vote:
    """Add to the certificate of a vote that was tested what its held-out rows prove at thresholds on its shares.

    For the vote that predicts, alone: all its hypotheses are asked about each row, where labels take few of them.
    `tested` is what it did on these rows.
    """
    if tested is None or vote.split.held_out is None or vote.certificate.predictor != MAJORITY:
        return vote
    rows = rows.take(vote.split.held_out)
    hypotheses, weights, tasks = _with_draws(vote, rows, _prediction_blocks(rows), None)
    ends = np.cumsum([block.n_rows for block, *_ in tasks])[:-1]
    known = zip(np.split(tested.predicted, ends), np.split(tested.wrong, ends), strict=True)
    tasks = [(*task, *found) for task, found in zip(tasks, known, strict=True)]
    common = (vote.task, hypotheses, weights, vote.certificate.calibration)
    about = [weights, tested.predicted, tested.wrong, str(vote.certificate.calibration)]
    found = join_results(_run(rows, tabulate_shares, common, tasks, "testing", _name(k, "shares"), about))
    return replace(vote, certificate=with_shares(vote.certificate, *_read_counts(found), tested.declared))


def _read_counts(found: Arrays) -> tuple[ThresholdCounts, ProbabilityCounts]:
    """Return the counts at thresholds on shares, and by probabilities, among results."""
    by_share, by_probability = ([found[name] for name in kind._fields] for kind in (ThresholdCounts, ProbabilityCounts))
    return ThresholdCounts(*by_share), ProbabilityCounts(*by_probability)


# An error that was declared for answered points, and the thresholds for its test with their parts of delta.
Declared = tuple[float, Sequence[tuple[float, float]]]


class TestResult(NamedTuple):
    """What a vote did on rows that test it."""

    total: float  # loss
    counts: NDArray[np.intp] | None  # by target and prediction; None if there are too many classes
    predicted: NDArray[Any]  # as the task encodes it
    wrong: NDArray[np.bool_]  # where its prediction is wrong, or could be on another engine
    by_share: tuple[ThresholdCounts, ProbabilityCounts] | None  # of a majority vote, if asked for
    declared: Declared | None = None

    def certify(self, certificate: Certificate, groups: Groups | None = None, seed: int | None = None) -> Certificate:
        """Add to a certificate what the rows prove, about their groups as well; with `seed`, by a randomised tail."""
        by_group = None if groups is None else groups.count(self.wrong)
        tested = with_test(certificate, self.total, self.wrong.size, self.counts, by_group, seed)
        return tested if self.by_share is None else with_shares(tested, *self.by_share)


class NumberResult(NamedTuple):
    """What predicted numbers did on rows that test them."""

    test: NumberTest
    total: float  # loss
    median_total: float  # that of always predicting the median

    def certify(self, certificate: Certificate, groups: Groups | None = None, seed: int | None = None) -> Certificate:
        """Add to a certificate what the rows prove."""
        by_group = None if groups is None else groups.count(self.test.errors > certificate.large_error)
        return with_numbers(certificate, self.test, self.total, self.median_total, by_group)


def _measure_numbers(vote: Vote, rows: SampleRows, loss: Loss, name: str) -> NumberResult:
    """Test what a weighted mean predicts for rows."""
    hypotheses, weights, tasks = _with_draws(vote, rows, _prediction_blocks(rows), None)
    common = (vote.task, hypotheses, weights)
    about = [weights, vote.certificate.voting]
    found = join_results(_run(rows, measure_errors, common, tasks, "testing", name, about))
    target, predicted = found["target"], found["mean"]
    test = NumberTest(target, predicted, found["spread"] + vote.certificate.scale_floor)
    median = np.full(target.shape, np.median(target))
    return NumberResult(test, loss.total(target, predicted), loss.total(target, median))


def evaluate_on_rows(
    vote: Vote,
    rows: SampleRows,
    loss: Loss,
    rng: np.random.Generator,
    name: str = "",
    batch_rows: int | None = None,
    *,
    shares: bool = False,
) -> TestResult | NumberResult:
    """Test what a vote predicts for rows, under a `name` in a checkpoint; with `shares`, at thresholds as well."""
    if vote.task.numeric:
        return _measure_numbers(vote, rows, loss, name)
    hypotheses, weights, tasks = _with_draws(vote, rows, _prediction_blocks(rows, batch_rows), rng)
    shares = shares and vote.certificate.predictor == MAJORITY
    common = (vote.task, hypotheses, weights, loss, len(rows), shares, vote.certificate.calibration)
    # Where training is not repeatable, a fit that goes on may come to another vote than the one that was tested before
    # the stop. That result is not used for it. Its own is an honest test: it was made without the held-out rows, and
    # that it takes the place of the other one does not depend on what either did on them.
    about = [weights, vote.certificate.voting, shares]
    found = join_results(_run(rows, sum_test_losses, common, tasks, "testing", name, about))
    by_share = _read_counts(found) if shares else None
    return TestResult(float(found["total"]), found.get("counts"), found["predicted"], found["wrong"], by_share)


def _tabulate_validation(vote: Vote, certificate: Certificate, rest: SampleRows, k: int | None) -> Certificate:
    """Add the confusion matrix of validation rows: all of one hypothesis, some of a vote, none of a drawn one."""
    if certificate.voting == "gibbs" or vote.task.numeric or vote.task.width > MOST_CLASSES:
        return certificate
    most = len(rest) if certificate.voting == "best" else _MOST_OUT_OF_BAG
    counts = _ask_out_of_bag(vote, rest, tabulate_out_of_bag, most, _name(k, "confusion"))["counts"]
    return with_confusion(certificate, counts) if counts.any() else certificate


def predict_rows(
    vote: Vote, rows: SampleRows, rng: np.random.Generator, *, aggregated: bool = False
) -> Iterator[Arrays]:
    """Yield what a vote predicts, block by block, in order, or its aggregated answers; Gibbs votes draw from `rng`."""
    blocks, window = _prediction_blocks(rows), _WINDOW
    if aggregated:
        most_rows = max(1, *(len(block.place) for block in blocks))
        window = min(_WINDOW, _MOST_ANSWERS // (most_rows * vote.task.width))
    if window == 0:  # the answers of one block are too many
        for block in blocks:
            for _, X, _ in block.batches():
                yield {"predicted": vote.task.aggregate(vote.hypotheses, vote.posterior, X)}
        return
    for i in range(0, len(blocks), window):
        part = blocks[i : i + window]
        drawn_by = None if aggregated else rng
        hypotheses, weights, tasks = _with_draws(vote, rows, part, drawn_by)
        yield from _run(rows, predict_block, (vote.task, hypotheses, weights, aggregated), tasks, "predicting")


def _prediction_blocks(rows: SampleRows, batch_rows: int | None = None) -> list[Block]:
    """Return all rows; those in memory divided among threads, if there are many."""
    n, size = len(rows), batch_rows or rows.block_rows
    threads = count_threads(rows.workers.n_jobs) if rows.pool.shares_rows else 1
    count = max(math.ceil(n / size), min(threads, n // _LEAST_ROWS), 1)
    return rows.blocks(0, n, max(1, math.ceil(n / count)), size)


def _with_draws(
    vote: Vote, rows: SampleRows, blocks: list[Block], rng: np.random.Generator | None
) -> tuple[Hypotheses, Array, list[tuple[Any, ...]]]:
    """Return the hypotheses to ask, with their weights, and a task for each block, with draws for its rows if any."""
    hypotheses, weights = vote.hypotheses, vote.posterior
    voters = np.flatnonzero(weights > 0)
    if not rows.in_memory:  # they are sent
        hypotheses, weights = hypotheses.take(voters), weights[voters]
    if rng is None or vote.certificate.voting != "gibbs":
        return hypotheses, weights, [(block,) for block in blocks]
    p = vote.posterior / vote.posterior.sum()  # block by block, draws are the same as for all rows
    draws = [rng.choice(p.size, size=block.n_rows, p=p) for block in blocks]
    if not rows.in_memory:
        draws = [np.searchsorted(voters, drawn) for drawn in draws]
    return hypotheses, weights, list(zip(blocks, draws, strict=True))


def _run(
    rows: SampleRows,
    function: Any,
    common: tuple[Any, ...],
    tasks: list[tuple[Any, ...]],
    description: str,
    stored_as: str = "",
    about: Sequence[Any] = (),
) -> list[Arrays]:
    """Let workers do tasks, as in `Workers.run`, about hypotheses, which are second in `common`."""
    threads, workers = rows.pool.shares_rows, rows.workers
    if rows.in_memory:  # without the others, who would have to be sent all of it
        workers = Workers(workers.n_jobs if threads else 1)
    stored: dict[str, Any] = {"stored_as": stored_as, "about": lambda: [common[1].fingerprint(), *about]}
    return workers.run(function, common, tasks, description, threads=threads, **stored)


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
