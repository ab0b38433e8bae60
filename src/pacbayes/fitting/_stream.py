"""A fit to rows that are read in blocks: what the classifier asks for instead of looking at an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from pacbayes import __version__
from pacbayes._fingerprint import IncomparableError, digest, package_versions
from pacbayes._validation import Array
from pacbayes.certificate import MOST_CLASSES, Certificate, with_confusion, with_test
from pacbayes.fitting._blocks import Block, GatheredRows, SourceSample
from pacbayes.fitting._checkpoint import Arrays, Checkpoint
from pacbayes.fitting._cluster import SentArray, connected, find_client
from pacbayes.fitting._ensemble import Ensemble, VotePlan, count_labels, out_of_bag_rows
from pacbayes.fitting._stream_training import StreamTrainer
from pacbayes.fitting._tasks import (
    count_losses,
    predict_block,
    scan_block,
    sum_test_losses,
    tabulate_out_of_bag,
    validate_rows,
)
from pacbayes.fitting._voting import draw_voters, tally_votes
from pacbayes.fitting._workers import Workers
from pacbayes.pools import Hypotheses, Pool, Sample
from pacbayes.rows import ArraySource, CodeBook, RowSummary, Source, Sums, TrainingRows, find_source, is_dask, shift_for
from pacbayes.sampling import TEST, ChosenSubsamples, Subsamples, stream
from pacbayes.tasks import Loss

__all__ = ["Stream", "open_stream"]

# Blocks that are predicted before their results are handed over, fewer if their shares of the vote are more numbers
# than this.
_WINDOW = 16
_MOST_SHARES = 1 << 26


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that are read in blocks of `block_size`, and who reads them."""

    source: Source
    pool: Pool
    workers: Workers
    block_size: int
    # What the first reading found, by the first row of each block; empty before.
    sums: Mapping[int, Sums] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return self.source.shape

    # -- the sample ----------------------------------------------------------------------------------

    def learn_code_book(self) -> CodeBook | None:
        """Read a table once, and return how its columns become features; None if the pool takes them as they are."""
        with connected(self.workers.client):
            return self.pool.make_code_book(self.source)

    def encoded(self, code_book: CodeBook | None) -> Stream:
        """Return this stream with rows as a code book encodes them; without one, as they are, if they are numbers."""
        return replace(self, source=self.source.encoded(code_book))

    def read_labels(self) -> SourceSample:
        """Read the labels, and return a sample of which no row is in memory."""
        if self.pool.needs_all_rows:
            raise ValueError(
                f"{type(self.pool).__name__} must not look at all rows at once where they are read in blocks: "
                "gamma_source must be 'subsample' or 'reserved'"
            )
        with connected(self.workers.client):
            labels = self.source.labels()
        kind = type_of_target(labels.classes) if labels.classes.size > 1 else "binary"
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {kind}. y must hold classes, not a quantity")
        if labels.classes.size < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {labels.classes.tolist()[0]!r}")
        return SourceSample.of(self.source, labels.codes, labels.classes)

    def with_checkpoint(self, folder: Any, sample: Sample, settings: Mapping[str, Any], seed: int | None) -> Stream:
        """Return this stream with a checkpoint, if there is to be one."""
        if folder is None:
            return self
        fingerprints = {"X": self.source.fingerprint, "y": digest([sample.codes, sample.classes])}
        fingerprints["the version of pacbayes"] = __version__
        for name, value in settings.items():
            try:
                fingerprints[name] = digest(value)
            except IncomparableError as error:
                raise ValueError(f"checkpoint must be None with this {name}: {error}") from error
        checkpoint = Checkpoint(Path(folder), fingerprints, seed, package_versions(settings))
        return replace(self, workers=replace(self.workers, checkpoint=checkpoint))

    def begin(self, entropy: int) -> int:
        """Return the seed of the fit: that of the fit that goes on, if any will do."""
        checkpoint = self.workers.checkpoint
        return entropy if checkpoint is None else checkpoint.begin(entropy)

    def load(self, plans: Iterable[VotePlan]) -> tuple[Iterator[VotePlan], TrainingRows]:
        """Read all rows once: validate and hash them, and gather those that the votes need at hand.

        Rows of a vote are released when the next one is asked for.
        """
        drawn = list(plans)
        prepared = [plan.rest.plan(plan.subsamples, plan.split.entropy) for plan in drawn]
        shift = shift_for(self.source.n_rows)
        results = self._scan([sample for sample, _ in prepared], [numbers for _, numbers in prepared], shift)
        summary, sums = self._join(results)
        loaded = []
        for k, (plan, (sample, numbers)) in enumerate(zip(drawn, prepared, strict=True)):
            values = np.concatenate([result.pop(f"rows{k}") for result in results])
            rest = replace(sample, X=GatheredRows(numbers, values, len(sample)), sums=sums)
            loaded.append(plan._replace(rest=rest))
        released = (loaded.pop(0) for _ in range(len(loaded)))
        return released, TrainingRows.from_summary(summary)

    def summarize(self, shift: int) -> tuple[RowSummary, Stream]:
        """Validate and hash all rows; return their summary, and the stream that has to find them again."""
        summary, sums = self._join(self._scan([], [], shift))
        return summary, replace(self, sums=sums)

    def _join(self, results: list[Arrays]) -> tuple[RowSummary, dict[int, Sums]]:
        """Return the summary of all rows, and what tells each block from others, from the results of a scan."""
        parts = [RowSummary.from_arrays(result) for result in results]
        sums = {block.start: (part.exact or part).sums for block, part in zip(self.source.blocks(), parts, strict=True)}
        return RowSummary.join(parts), sums

    def _scan(self, samples: list[SourceSample], numbers: list[NDArray[Any]], shift: int) -> list[Arrays]:
        blocks = self.source.blocks()
        tasks = []
        for i, block in enumerate(blocks):
            wanted = [
                sample.positions(*sample.block_starts[i], rows) for sample, rows in zip(samples, numbers, strict=True)
            ]
            tasks.append((self._whole(block), wanted))
        names = self.workers.name_parts("scan", blocks, [numbers, shift])
        common = (self.pool, shift)
        return self.workers.run(scan_block, common, tasks, names, "reading", threads=True)

    def _whole(self, block: range) -> Block:
        nothing = np.empty(0, dtype=np.uint8)
        sums = self.sums.get(block.start)
        return Block.of(self.source, block, None, None, 0, nothing, self.block_size, self.source.dtype, sums)

    def known_codes(self, classes: NDArray[Any]) -> NDArray[np.int64]:
        """Return the labels of all rows as positions in `classes`, and their number for labels that are not there."""
        with connected(self.workers.client):
            labels = self.source.labels()
        position = np.minimum(np.searchsorted(classes, labels.classes), classes.size - 1)
        known = np.where(classes[position] == labels.classes, position, classes.size)
        return np.asarray(known[labels.codes])

    def read(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, validated, in batches."""
        for block in self.source.blocks():
            for first, rows in self._whole(block).read():
                yield validate_rows(self.pool, rows, first, self.source)

    # -- votes ---------------------------------------------------------------------------------------

    def trainer(self, plan: VotePlan, loss: Loss, vote: int) -> StreamTrainer:
        """Return who trains and validates the hypotheses of a vote."""
        workers = self.workers
        return StreamTrainer(
            self.pool,
            plan.rest,
            plan.shared,
            plan.subsamples,
            loss,
            plan.split.entropy,
            self.block_size,
            workers.n_jobs,
            workers.verbose,
            workers=workers,
            vote=vote,
        )

    def total_losses(self, hypotheses: Hypotheses, subsamples: Subsamples, rest: SourceSample, loss: Loss) -> Array:
        """Return the total losses of hypotheses that hold all they need, on all their validation points."""
        sample = replace(rest, rank=np.zeros(len(rest), dtype=np.int32))
        blocks = sample.validation_blocks(0, 1, self.block_size, self.source.dtype)
        common = (hypotheses, subsamples, loss, sample.classes)
        tasks = [(block,) for block in blocks]
        results = self._run(count_losses, common, tasks, "validation")
        return sum((result["totals"] for result in results), np.zeros(len(hypotheses)))

    def with_points(self, vote: Ensemble, sample: Sample, rest: Sample, loss: Loss, k: int | None = None) -> Ensemble:
        """Do what `Ensemble.with_points` does, for rows that are read in blocks; `k` is the number of the vote."""
        assert isinstance(sample, SourceSample)
        assert isinstance(rest, SourceSample)
        split = vote.split
        certificate = vote.certificate.revise(**count_labels(sample.codes, sample.classes))
        if split.held_out is None:
            return replace(vote, certificate=self._with_validation(vote, certificate, rest, k))
        everyone = np.zeros(split.held_out.size, dtype=np.int32)
        tested = replace(sample.take(split.held_out), rank=everyone, sums=rest.sums)
        blocks = tested.validation_blocks(0, 1, self.block_size, self.source.dtype)
        voters = np.flatnonzero(vote.posterior > 0)
        rng = stream(split.entropy, 0, TEST)
        tasks: list[tuple[Any, ...]] = [(block,) for block in blocks]
        if certificate.voting == "gibbs":
            tasks = _with_draws(tasks, [block.codes.size for block in blocks], vote.posterior, rng)
        common = (vote.hypotheses.take(voters), vote.posterior[voters], certificate.voting, loss, len(tested))
        # Where training is not repeatable, a fit that goes on may come to another vote than the one that was tested
        # before the stop. That result is not used for it. Its own is an honest test: it was made without the held-out
        # rows, and that it takes the place of the other one does not depend on what either did on them.
        names = self._name_tests(k, "test", blocks, [common[0].fingerprint(), *common[1:3]])
        results = self._run(sum_test_losses, common, tasks, "testing", names)
        total = sum(float(result["total"]) for result in results)
        counts = np.sum([result["counts"] for result in results], axis=0) if "counts" in results[0] else None
        return replace(vote, certificate=with_test(certificate, total, len(tested), counts))

    def _with_validation(
        self, vote: Ensemble, certificate: Certificate, rest: SourceSample, k: int | None
    ) -> Certificate:
        """Add the confusion matrix of validation points, as an `Ensemble` does."""
        if certificate.voting == "gibbs" or rest.classes.size > MOST_CLASSES:
            return certificate
        if rest.rank is None:
            rest, _ = rest.plan(vote.subsamples, vote.split.entropy)
        most = out_of_bag_rows(certificate, len(rest))
        blocks = rest.validation_blocks(0, most, self.block_size, self.source.dtype)
        voters = np.flatnonzero(vote.posterior > 0)
        chosen = ChosenSubsamples(vote.subsamples, voters)
        common = (vote.hypotheses.take(voters), vote.posterior[voters], chosen)
        about = [common[0].fingerprint(), common[1], vote.subsamples, voters]
        names = self._name_tests(k, "confusion", blocks, about)
        tasks = [(block,) for block in blocks]
        results = self._run(tabulate_out_of_bag, common, tasks, "testing", names)
        counts = np.sum([result["counts"] for result in results], axis=0)
        return with_confusion(certificate, counts) if counts.any() else certificate

    def _name_tests(self, k: int | None, kind: str, blocks: list[Block], about: Any) -> list[str] | None:
        """Return what to call results about vote k in a checkpoint; None if they belong to no fit."""
        return None if k is None else self.workers.name_parts(f"vote{k}-{kind}", [b.place for b in blocks], about)

    def _run(
        self, function: Any, common: tuple[Any, ...], tasks: list[tuple[Any, ...]], what: str, names: Any = None
    ) -> list[Arrays]:
        workers = self.workers if names is not None else replace(self.workers, checkpoint=None)
        return workers.run(function, common, tasks, names or [""] * len(tasks), what, threads=self.pool.shares_rows)

    # -- prediction ----------------------------------------------------------------------------------

    def predict(
        self, hypotheses: Hypotheses, posterior: Array, voting: str | None, rng: np.random.Generator | None = None
    ) -> Iterator[Arrays]:
        """Yield what the weighted hypotheses predict, block by block, in order.

        A `voting` of None yields the weight behind each class. Only "gibbs" draws from `rng`.
        """
        voters = np.flatnonzero(posterior > 0)
        common = (hypotheses.take(voters), posterior[voters], voting, self.pool)
        blocks, window = self.source.blocks(), _WINDOW
        if voting is None:
            window = min(_WINDOW, _MOST_SHARES // (max(map(len, blocks), default=1) * hypotheses.classes.size))
        if window == 0:  # the shares of one block are too many
            for rows in self.read():
                yield {"tallies": tally_votes(*common[:2], rows, stop_early=False)}
            return
        for i in range(0, len(blocks), window):
            tasks: list[tuple[Any, ...]] = [(self._whole(block),) for block in blocks[i : i + window]]
            if voting == "gibbs":
                assert rng is not None
                tasks = _with_draws(tasks, [len(block) for block in blocks[i : i + window]], posterior, rng)
            yield from self._run(predict_block, common, tasks, "predicting")


def _with_draws(
    tasks: list[tuple[Any, ...]], sizes: list[int], posterior: Array, rng: np.random.Generator
) -> list[tuple[Any, ...]]:
    """Add a voter for each of its points to every task, as a position among those that have weight."""
    voters = np.flatnonzero(posterior > 0)
    draws = (draw_voters(posterior, size, rng) for size in sizes)
    return [(*task, np.searchsorted(voters, drawn)) for task, drawn in zip(tasks, draws, strict=True)]


def open_stream(
    X: Any,
    y: Any,
    pool: Pool,
    *,
    columns: Any = None,
    client: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    block_size: int = 65536,
) -> Stream | None:
    """Return rows that are read in blocks, None for arrays and data frames in memory.

    Without a `client`, the active one is taken, if there is one, for rows that are not in memory.
    """
    needed_for = "a dask collection" if is_dask(X) else None
    if needed_for is not None:
        client = find_client(client, needed_for=needed_for)
    if isinstance(X, Source) and y is not None:
        raise ValueError("y must be left out where X is a source, which has its labels")
    with connected(client if needed_for is not None else None):
        source = find_source(X, y, columns=columns)
    if source is None:
        return None
    if client is not None or not isinstance(source, ArraySource):
        client = find_client(client)
    if client is not None and type(source) is ArraySource:
        source = SentArray(source, client)
    return Stream(source, pool, Workers(n_jobs, client, None, verbose), block_size)
