"""Train a pool of hypotheses and validate each on the rows outside its subsample, in parts that any worker may take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.fitting._parallel import chunks, count_workers, run_tasks
from pacbayes.fitting._racing import DropRule, round_ends
from pacbayes.pools import Hypotheses, Numbers, Pool, Sample, with_untrained
from pacbayes.sampling import ChosenSubsamples, Subsamples, validation_order
from pacbayes.tasks import Loss

__all__ = ["Trained", "Trainer", "validation_totals"]

# What a kernel value takes in validation, roughly.
_SECONDS_PER_KERNEL_VALUE = 1e-9

# What a worker trains on at a time, in entries of kernel matrices.
_KERNEL_VALUES_PER_PART = 1e7

# Training points of the hypotheses that one worker takes at a time where its progress is not shown: they are located
# together.
_POINTS_PER_PART = 1 << 22

# Rows to validate on at a time on a device.
_DEVICE_ROWS = 1 << 20

# Rows that a worker validates at least: fewer are not worth the overhead.
_LEAST_ROWS = 64


class Trained(NamedTuple):
    """Hypotheses with their losses so far."""

    hypotheses: Hypotheses  # some of them may not be trained
    totals: Array  # (m,): sums of the validation losses over the points seen
    seen: NDArray[np.intp]  # (m,): numbers of these points

    def losses(self, subsamples: Subsamples) -> Array:
        """Return the validation losses; NaN for hypotheses that were dropped."""
        n = subsamples.n_validation
        return np.where(self.seen == n, self.totals / n, np.nan)

    def dropped_loss(self, subsamples: Subsamples) -> float | None:
        """Return a lower bound on the validation losses of dropped hypotheses; None if there are none."""
        n = subsamples.n_validation
        dropped = self.seen < n
        # Rounded down, so that it is a bound.
        return float((self.totals[dropped] / n[dropped]).min() * (1 - 1e-15)) if dropped.any() else None

    @classmethod
    def join(cls, parts: Sequence[Trained]) -> Trained:
        """Return the hypotheses of several parts as one."""
        hypotheses, totals, seen = zip(*parts, strict=True)
        together = hypotheses[0] if len(parts) == 1 else hypotheses[0].concatenate(hypotheses)
        return cls(together, np.concatenate(totals), np.concatenate(seen))


@dataclass(frozen=True)
class Trainer:
    """A pool, the sample and subsamples that it is trained and validated on, and how to share the work."""

    pool: Pool
    sample: Sample
    shared: Any  # what all hypotheses share, as `Pool.prepare` computed it
    subsamples: Subsamples
    loss: Loss
    entropy: int  # seed of all streams
    block_size: int  # rows to validate at a time
    n_jobs: int | None
    verbose: int
    started: Callable[[], Hypotheses] | None = None  # finishes the training of all hypotheses, if it has begun

    def start(self) -> Trainer:
        """Let a device begin to train all hypotheses, beside what it does for others."""
        everyone = np.arange(len(self.subsamples))
        started = self.pool.start_training(self.sample, self.subsamples, everyone, self.entropy, self.shared)
        return replace(self, started=started)

    def run(self, hypotheses: range) -> Trained | None:
        """Train a range of hypotheses and validate each on all its rows; None if the range is empty."""
        if not hypotheses:
            return None
        chosen = np.asarray(hypotheses)
        seen = self.subsamples.n_validation[chosen]
        if self.pool.shares_rows:
            trained = self._train(chosen)
            everyone = ChosenSubsamples(self.subsamples, chosen)
            return Trained(trained, self._validate(trained, everyone, np.arange(len(self.sample))), seen)
        tasks = [
            (self.pool, self.sample, self.subsamples, self.loss, part, self.entropy, self.shared, self.block_size)
            for part in self._parts(chosen)
        ]
        results = list(self._run(_train_and_validate, tasks, "hypotheses", threads=False))
        trained_parts = [part for part, _ in results]
        totals = np.concatenate([totals for _, totals in results])
        return Trained(trained_parts[0].concatenate(trained_parts), totals, seen)

    def race(self, rule: DropRule, *, leave_out_kinds: bool) -> Trained:
        """Train hypotheses and validate them in rounds, without those that the rule drops.

        The result does not depend on workers or the block size. With `leave_out_kinds`, training begins on small
        subsamples, and only the kinds that did not lose on them are trained on larger ones.
        """
        m, sizes = len(self.subsamples), self.subsamples.sizes
        totals, seen = np.zeros(m), np.zeros(m, dtype=np.intp)
        order = self._draw_order()
        kinds = self.pool.kinds(self.subsamples, range(m), self.entropy) if leave_out_kinds else None
        # Where kinds do not matter or are not known, all sizes are one rung.
        rung = np.zeros(m, dtype=np.intp) if kinds is None else sizes
        runs = np.ones(m, dtype=bool)
        parts, numbers = [], []
        for size in np.unique(rung):
            chosen = np.flatnonzero((rung == size) & runs)
            if chosen.size == 0:
                continue  # kinds that were drawn, rather than dealt, may all have lost
            parts.append(self._train(chosen))
            numbers.append(chosen)
            self._race(parts[-1], chosen, order, rule, totals, seen)
            if kinds is not None:
                runs &= ~np.isin(kinds, rule.lost_kinds(chosen, kinds[chosen], totals, seen))
                runs[rule.heaviest] = True
        return Trained(with_untrained(parts, numbers, m), totals, seen)

    def _race(
        self,
        trained: Hypotheses,
        chosen: NDArray[np.intp],
        order: Any,
        rule: DropRule,
        totals: Array,
        seen: NDArray[np.intp],
    ) -> None:
        """Validate hypotheses in rounds, and add to their totals and to the numbers of points seen."""
        start, subsamples = 0, ChosenSubsamples(self.subsamples, chosen)
        for end in round_ends(order.size, int(subsamples.sizes.sum())):
            losses, points = self._validate_round(trained, subsamples, order, start, end)
            totals[chosen] += losses
            seen[chosen] += points
            if end < order.size:
                stays = rule.survivors(chosen, totals, seen)
                if not stays.any():
                    return  # those of an earlier rung won
                if not stays.all():
                    left = np.flatnonzero(stays)
                    trained, subsamples, chosen = trained.take(left), ChosenSubsamples(subsamples, left), chosen[left]
            start = end

    def _draw_order(self) -> Any:
        return validation_order(len(self.sample), self.entropy)

    def _validate_round(
        self, trained: Hypotheses, subsamples: Subsamples, order: Any, start: int, end: int
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the total losses of hypotheses on a part of the order, and on how many points these are."""
        rows = np.sort(order[start:end])
        return self._validate(trained, subsamples, rows), rows.size - subsamples.count_among(rows)

    def _train(self, chosen: NDArray[np.intp]) -> Hypotheses:
        """Let workers train some hypotheses each."""
        if self.started is not None and chosen.size == len(self.subsamples):
            return self.started()
        tasks = [(self.sample, self.subsamples, part, self.entropy, self.shared) for part in self._parts(chosen)]
        parts: list[Hypotheses] = list(self._run(self.pool.train, tasks, "training", threads=self.pool.shares_rows))
        return parts[0] if len(parts) == 1 else parts[0].concatenate(parts)

    def _validate(self, trained: Hypotheses, subsamples: Subsamples, rows: NDArray[np.intp]) -> Array:
        """Let workers validate hypotheses, on some rows each or some of the hypotheses each; return total losses."""
        m = len(subsamples)
        if self.pool.shares_rows:
            blocks = [rows[part.start : part.stop] for part in self._row_blocks(subsamples, rows.size)]
            work = [(trained, self.sample, subsamples, block, self.loss) for block in blocks]
            return sum(self._run(_loss_totals, work, "validation", threads=True), np.zeros(m))
        tasks = [
            (trained.take(part), self.sample, ChosenSubsamples(subsamples, part), self.loss, rows, self.block_size)
            for part in self._parts(np.arange(m))
        ]
        return np.concatenate(list(self._run(validation_totals, tasks, "validation", threads=False)))

    @cached_property
    def _on_device(self) -> bool:
        """Whether a device does the work: it takes all hypotheses at once, and many rows."""
        return self.pool.computes_on_device(self.sample, self.subsamples)

    @property
    def block_rows(self) -> int:
        """Rows to compute on at a time, at most."""
        return _DEVICE_ROWS if self._on_device else self.block_size

    def _row_blocks(self, subsamples: Subsamples, n: int) -> list[range]:
        blocks = math.ceil(n / self.block_rows)
        if self._on_device:
            return chunks(range(n), blocks)
        workers = count_workers(self.n_jobs, threads=True)
        # One block per worker, and more where they would take long: half a second each, so that interrupts are heard.
        seconds = subsamples.sizes.sum() * n * _SECONDS_PER_KERNEL_VALUE
        count = max(workers, blocks, math.ceil(seconds / 0.5))
        # As many for each worker: the last should not work alone.
        return chunks(range(n), max(1, min(math.ceil(count / workers) * workers, n // _LEAST_ROWS)))

    def _parts(self, chosen: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        if self._on_device:
            return [chosen]
        workers = count_workers(self.n_jobs, threads=self.pool.shares_rows)
        sizes = self.subsamples.sizes[chosen].astype(np.float64)
        if workers == 1 and not (self.pool.shares_rows or self.verbose):
            # Python hears interrupts by itself, and a block of rows is taken once per part.
            count = max(1, math.ceil(sizes.sum() / _POINTS_PER_PART))
        else:
            # More parts than workers need where they take long: so that progress is seen and interrupts are heard.
            work = int((sizes**2).sum() / _KERNEL_VALUES_PER_PART)
            count = max(4 * workers, min(20, chosen.size // 16, work if self.pool.shares_rows else 20))
        return [chosen[part.start : part.stop] for part in chunks(range(chosen.size), count)]

    def _run(self, function: Any, tasks: list[tuple[Any, ...]], description: str, *, threads: bool) -> Any:
        return run_tasks(
            function, tasks, n_jobs=self.n_jobs, threads=threads, verbose=self.verbose, description=description
        )


def _loss_totals(
    trained: Hypotheses, sample: Sample, subsamples: Subsamples, rows: NDArray[np.intp], loss: Loss
) -> Array:
    # The hypotheses are an argument, which joblib's Dask backend sends once: a method would be sent with every task.
    return trained.loss_totals(sample, subsamples, range(len(trained)), rows, loss)


def _train_and_validate(
    pool: Pool,
    sample: Sample,
    subsamples: Subsamples,
    loss: Loss,
    hypotheses: NDArray[np.intp],
    entropy: int,
    shared: Any,
    block_size: int,
) -> tuple[Hypotheses, Array]:
    trained = pool.train(sample, subsamples, hypotheses, entropy, shared)
    own = ChosenSubsamples(subsamples, hypotheses)
    return trained, validation_totals(trained, sample, own, loss, np.arange(len(sample)), block_size)


def validation_totals(
    trained: Hypotheses, sample: Sample, subsamples: Subsamples, loss: Loss, rows: Numbers, block_size: int
) -> Array:
    """Return the total losses of trained hypotheses on those of some rows, rising, that validate them."""
    totals = np.zeros(len(trained))
    for block in chunks(range(len(rows)), math.ceil(len(rows) / block_size)):
        totals += trained.loss_totals(sample, subsamples, range(len(trained)), rows[block.start : block.stop], loss)
    return totals
