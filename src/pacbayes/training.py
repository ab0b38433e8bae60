"""Train a pool of hypotheses and validate each on the rows outside its subsample, in parts that any worker may take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbayes._validation import Array
from pacbayes.losses import Loss
from pacbayes.parallel import chunks, count_workers, run_tasks
from pacbayes.pools import Hypotheses, Pool, Sample
from pacbayes.sampling import Subsamples

__all__ = ["Trainer", "validation_totals"]

# What a kernel value takes in validation, roughly.
_SECONDS_PER_KERNEL_VALUE = 1e-9

# Rows to validate on at a time on a device.
_DEVICE_ROWS = 1 << 20


@dataclass(frozen=True)
class Trainer:
    """A pool, the sample and subsamples that it is trained and validated on, and how to share the work.

    Attributes
    ----------
    pool : Pool
        The hypothesis space.
    sample : Sample
        Rows that train and validate hypotheses.
    shared : object
        What all hypotheses share, as `Pool.prepare` computed it.
    subsamples : Subsamples
        Training sets of all hypotheses.
    loss : Loss
        Loss to validate by.
    entropy : int
        Seed of all streams.
    block_size : int
        Rows to validate at a time.
    n_jobs : int or None
        Workers.
    verbose : int
        Whether to show progress.
    """

    pool: Pool
    sample: Sample
    shared: Any
    subsamples: Subsamples
    loss: Loss
    entropy: int
    block_size: int
    n_jobs: int | None
    verbose: int

    def run(self, hypotheses: range) -> tuple[Hypotheses | None, Array]:
        """Train a range of hypotheses; return them, None if the range is empty, and the totals of their losses."""
        if not hypotheses:
            return None, np.zeros(0)
        if self.pool.computes_on_device(self.sample, self.subsamples):
            return self._run_on_device(hypotheses)
        workers = count_workers(self.n_jobs, threads=self.pool.shares_rows)
        parts = chunks(hypotheses, max(20, 4 * workers))
        if self.pool.shares_rows:
            return self._run_by_rows(hypotheses, parts, workers)
        return self._run_by_hypotheses(parts)

    def _run_on_device(self, hypotheses: range) -> tuple[Hypotheses, Array]:
        """Train all hypotheses at once, and validate them on as many rows at a time as the device takes by itself."""
        trained = self.pool.train(self.sample, self.subsamples, hypotheses, self.entropy, self.shared)
        blocks = chunks(range(len(self.sample)), math.ceil(len(self.sample) / _DEVICE_ROWS))
        work = [(self.sample, self.subsamples, hypotheses, rows, self.loss) for rows in blocks]
        totals = sum(self._run(trained.loss_totals, work, "validation", threads=True), np.zeros(len(hypotheses)))
        return trained, totals

    def _run_by_hypotheses(self, parts: list[range]) -> tuple[Hypotheses, Array]:
        """Let each worker train some hypotheses and validate them on all rows."""
        tasks = [
            (self.pool, self.sample, self.subsamples, self.loss, part, self.entropy, self.shared, self.block_size)
            for part in parts
        ]
        results = list(self._run(_train_and_validate, tasks, "hypotheses", threads=False))
        trained = [part for part, _ in results]
        return trained[0].concatenate(trained), np.concatenate([totals for _, totals in results])

    def _run_by_rows(self, hypotheses: range, parts: list[range], workers: int) -> tuple[Hypotheses, Array]:
        """Let workers train some hypotheses each, then validate all of them on some rows each."""
        tasks = [(self.sample, self.subsamples, part, self.entropy, self.shared) for part in parts]
        trained_parts = list(self._run(self.pool.train, tasks, "training", threads=True))
        trained = trained_parts[0].concatenate(trained_parts)
        n = len(self.sample)
        # Two parts per worker, and more where they would take long: half a second each, so that interrupts are heard.
        seconds = self.subsamples.sizes.sum() * n * _SECONDS_PER_KERNEL_VALUE
        count = max(2 * workers, math.ceil(n / self.block_size), math.ceil(seconds / 0.5))
        # As many for each worker: the last should not work alone.
        blocks = chunks(range(n), math.ceil(count / workers) * workers)
        work = [(self.sample, self.subsamples, hypotheses, rows, self.loss) for rows in blocks]
        totals = sum(self._run(trained.loss_totals, work, "validation", threads=True), np.zeros(len(hypotheses)))
        return trained, totals

    def _run(self, function: Any, tasks: list[tuple[Any, ...]], description: str, *, threads: bool) -> Any:
        return run_tasks(
            function, tasks, n_jobs=self.n_jobs, threads=threads, verbose=self.verbose, description=description
        )


def _train_and_validate(
    pool: Pool,
    sample: Sample,
    subsamples: Subsamples,
    loss: Loss,
    hypotheses: range,
    entropy: int,
    shared: Any,
    block_size: int,
) -> tuple[Hypotheses, Array]:
    trained = pool.train(sample, subsamples, hypotheses, entropy, shared)
    return trained, validation_totals(trained, sample, subsamples, loss, hypotheses, block_size)


def validation_totals(
    trained: Hypotheses, sample: Sample, subsamples: Subsamples, loss: Loss, hypotheses: range, block_size: int
) -> Array:
    """Return the total validation losses of trained hypotheses, added up over blocks of rows."""
    totals = np.zeros(len(hypotheses))
    for rows in chunks(range(len(sample)), math.ceil(len(sample) / block_size)):
        totals += trained.loss_totals(sample, subsamples, hypotheses, rows, loss)
    return totals
