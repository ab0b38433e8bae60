"""Train a pool of hypotheses and validate each on the rows outside its subsample, in parts that any worker may take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._parallel import chunks, count_workers
from pacbayes._validation import Array
from pacbayes.certificate import name_family
from pacbayes.exceptions import HypothesisError
from pacbayes.fitting._checkpoint import from_arrays
from pacbayes.fitting._racing import DropRule, round_ends
from pacbayes.fitting._rows import MemoryBlock, SampleRows
from pacbayes.fitting._work import sum_losses, train_part
from pacbayes.pools import Hypotheses, Pool, with_untrained
from pacbayes.sampling import ChosenSubsamples, Subsamples

# What a kernel value takes in validation, roughly.
_SECONDS_PER_KERNEL_VALUE = 1e-9

# What a worker trains on at a time, in entries of kernel matrices.
_KERNEL_VALUES_PER_PART = 1e7

# Training points of the hypotheses that one worker takes at a time where its progress is not shown: they are located
# together.
_POINTS_PER_PART = 1 << 22

# What a task trains, and kernel values that one computes on rows in memory, where results are stored.
_HYPOTHESES_STORED = 8
_KERNEL_VALUES_STORED = 500_000_000

# Rows to validate on at a time on a device.
_DEVICE_ROWS = 1 << 20

# Rows that a worker validates at least: fewer are not worth the overhead.
_LEAST_ROWS = 64


class Trained(NamedTuple):
    """Hypotheses with their losses so far."""

    hypotheses: Hypotheses  # some of them may not be trained
    subsamples: Subsamples
    totals: Array  # (m,): sums of the validation losses over the points seen
    seen: NDArray[np.intp]  # (m,): numbers of these points

    @property
    def losses(self) -> Array:
        """Validation losses; NaN for hypotheses that were dropped."""
        n = self.subsamples.n_validation
        return np.where(self.seen == n, self.totals / n, np.nan)

    @property
    def dropped_loss(self) -> float | None:
        """A lower bound on the validation losses of dropped hypotheses; None if there are none."""
        n = self.subsamples.n_validation
        dropped = self.seen < n
        # Rounded down, so that it is a bound.
        return float((self.totals[dropped] / n[dropped]).min() * (1 - 1e-15)) if dropped.any() else None


@dataclass
class Trainer:
    """A pool, the rows and subsamples that it is trained and validated on, and which of several votes this is."""

    pool: Pool
    rows: SampleRows
    shared: Any  # what all hypotheses share, as `Pool.prepare` computed it
    subsamples: Subsamples
    loss: Loss
    entropy: int  # seed of all streams
    vote: int = 0
    family: str = ""
    first: int = 0  # number of its first hypothesis among those of all families
    started: Callable[[], Hypotheses] | None = None  # finishes the training of all hypotheses, if it has begun

    def start(self) -> Trainer:
        """Let a device begin to train all hypotheses, while it does something for others."""
        everyone = np.arange(len(self.subsamples))
        started = self.pool.start_training(self.rows.sample, self.subsamples, everyone, self.entropy, self.shared)
        return replace(self, started=started)

    def run(
        self,
        totals: Array,
        seen: NDArray[np.intp],
        rule: DropRule | None = None,
        *,
        leave_out_kinds: bool = False,
        n_known: int = 0,
    ) -> Hypotheses:
        """Train all hypotheses but the first `n_known`, and validate them, in rounds without those that a rule drops.

        Adds to the totals and numbers of points of all families, by whose numbers the rule knows them. With
        `leave_out_kinds`, training begins on small subsamples, and only the kinds that did not lose on them are trained
        on larger ones.
        """
        m, sizes = len(self.subsamples), self.subsamples.sizes
        kinds = self.pool.kinds(self.subsamples, range(m), self.entropy) if leave_out_kinds else None
        # Where kinds do not matter or are not known, all sizes are one rung.
        rung = np.zeros(m, dtype=np.intp) if kinds is None else sizes
        runs = np.arange(m) >= n_known
        parts, numbers = [], []
        for size in np.unique(rung):
            chosen = np.flatnonzero((rung == size) & runs)
            if chosen.size == 0:
                continue  # kinds that were drawn, rather than dealt, may all have lost
            parts.append(self._train(chosen))
            numbers.append(chosen)
            self._race(parts[-1], chosen, rule, totals, seen)
            if rule is not None and kinds is not None:
                runs &= ~np.isin(kinds, rule.lost_kinds(chosen + self.first, kinds[chosen], totals, seen))
                runs[np.arange(m) + self.first == rule.heaviest] = True
        return with_untrained(parts, numbers, m - n_known)

    def _race(
        self,
        trained: Hypotheses,
        chosen: NDArray[np.intp],
        rule: DropRule | None,
        totals: Array,
        seen: NDArray[np.intp],
    ) -> None:
        """Validate hypotheses, in rounds if there is a rule, and add to their totals and numbers of points seen."""
        n, start, subsamples = len(self.rows), 0, ChosenSubsamples(self.subsamples, chosen)
        for end in [n] if rule is None else round_ends(n, int(subsamples.sizes.sum())):
            losses, points = self._validate(trained, subsamples, start, end)
            totals[chosen + self.first] += losses
            seen[chosen + self.first] += points
            if rule is not None and end < n:
                stays = rule.survivors(chosen + self.first, totals, seen)
                if not stays.any():
                    return  # those of an earlier rung won
                if not stays.all():
                    left = np.flatnonzero(stays)
                    trained, subsamples, chosen = trained.take(left), ChosenSubsamples(subsamples, left), chosen[left]
            start = end

    def _train(self, chosen: NDArray[np.intp]) -> Hypotheses:
        """Let workers train some hypotheses each, unless a device has begun to."""
        trained = self._train_parts(chosen) if self.started is None else self.started()
        if len(trained) != chosen.size:
            raise HypothesisError(f"{type(self.pool).__name__} trained {len(trained)} of {chosen.size} hypotheses")
        return trained

    @property
    def _place(self) -> str:
        return f" for vote {self.vote + 1}"

    def _describe(self, start: int, end: int) -> str:
        """Name a round of validation as no other one is named."""
        whom = f" of {name_family(self.family)}" if self.family else ""
        return f"validation{whom}{self._place}, rows {start + 1} to {min(end, len(self.rows))}"

    def _train_parts(self, chosen: NDArray[np.intp]) -> Hypotheses:
        places = self._divide_hypotheses(chosen)
        parts = [chosen[place.start : place.stop] for place in places]
        trained = self.rows.workers.run(
            train_part,
            (self.pool, self.subsamples, self.entropy, self.shared),
            [(self.rows.training_sample(self.subsamples, part), part) for part in parts],
            f"training {name_family(self.family)}{self._place}" if self.family else f"training{self._place}",
            threads=self.pool.shares_rows,
            stored_as=f"{self._name}-train",
            places=places,
            about=lambda: [self.subsamples, chosen],
        )
        # What comes out of a checkpoint are arrays.
        return concatenate([from_arrays(one, self.rows.sample) if isinstance(one, dict) else one for one in trained])

    def _validate(
        self, trained: Hypotheses, subsamples: Subsamples, start: int, end: int
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the total losses of hypotheses on a part of the order of validation, and on how many rows these are.

        Workers take some of the rows each or, of hypotheses that do not share work on a row, some of these.
        """
        numbers = self.rows.numbers(start, end)
        seen = numbers.size - subsamples.count_among(numbers)
        shares_rows, workers = self.pool.shares_rows, self.rows.workers
        if self.rows.in_memory and not shares_rows:
            chosen = np.arange(len(subsamples))
            parts = [chosen[place.start : place.stop] for place in self._divide_hypotheses(chosen, subsamples)]
            (block,) = self.rows.blocks(start, end, numbers.size)
            tasks = [(block, trained.take(part), ChosenSubsamples(subsamples, part)) for part in parts]
            totals = workers.run(sum_losses, (self.loss,), tasks, self._describe(start, end), threads=False)
            return np.concatenate([result["totals"] for result in totals]), seen
        batch_rows = _DEVICE_ROWS if self._on_device else None
        blocks = self.rows.blocks(start, end, self._rows_per_task(subsamples, numbers.size), batch_rows)
        complete = self.rows.complete(trained)
        where = "memory" if isinstance(blocks[0], MemoryBlock) else "source"
        results = workers.run(
            sum_losses,
            (self.loss, complete, subsamples),
            [(block,) for block in blocks],
            self._describe(start, end),
            threads=shares_rows,
            stored_as=f"{self._name}-validate-{start}-{end}-{where}",
            about=lambda: [complete.fingerprint(), subsamples.concatenated(range(len(subsamples))), subsamples.sizes],
        )
        return sum((result["totals"] for result in results), np.zeros(len(complete))), seen

    @property
    def _name(self) -> str:
        """What results are called in a checkpoint."""
        return "-".join(filter(None, (f"vote{self.vote}", self.family)))

    @cached_property
    def _on_device(self) -> bool:
        """Whether a device does the work: it takes all hypotheses at once, and many rows."""
        return self.pool.computes_on_device(self.rows.sample, self.subsamples)

    @property
    def batch_rows(self) -> int:
        """Rows to compute on at a time."""
        return _DEVICE_ROWS if self._on_device else self.rows.block_rows

    def _rows_per_task(self, subsamples: Subsamples, n: int) -> int:
        """Return how many rows in memory a task validates hypotheses on."""
        most, points = self.batch_rows, max(1, int(subsamples.sizes.sum()))
        if not self.rows.in_memory:
            # The same whoever does them: a fit that goes on finds what was done.
            size = int(np.clip(_KERNEL_VALUES_STORED // points, _LEAST_ROWS, most))
            return min(size, max(_LEAST_ROWS, math.ceil(n / 8)))
        blocks = math.ceil(n / most)
        if not self._on_device:
            workers = count_workers(self.rows.workers.n_jobs, threads=True)
            # One block per worker, and more where they would take long: half a second each, so that interrupts are
            # heard. As many for each worker: the last should not work alone.
            blocks = max(workers, blocks, math.ceil(points * n * _SECONDS_PER_KERNEL_VALUE / 0.5))
            blocks = max(1, min(math.ceil(blocks / workers) * workers, n // _LEAST_ROWS))
        return max(1, math.ceil(n / blocks))

    def _divide_hypotheses(self, chosen: NDArray[np.intp], subsamples: Subsamples | None = None) -> list[range]:
        """Divide chosen hypotheses among tasks, by their places in `chosen`."""
        count, workers = chosen.size, self.rows.workers
        if self._on_device:
            return [range(count)]
        if not self.rows.in_memory:
            return [range(i, min(i + _HYPOTHESES_STORED, count)) for i in range(0, count, _HYPOTHESES_STORED)]
        n_workers = count_workers(workers.n_jobs, threads=self.pool.shares_rows)
        sizes = (subsamples or self.subsamples).sizes[chosen].astype(np.float64)
        if n_workers == 1 and not (self.pool.shares_rows or workers.verbose):
            # Python hears interrupts by itself, and a block of rows is taken once per part.
            n_parts = max(1, math.ceil(sizes.sum() / _POINTS_PER_PART))
        else:
            # More parts than workers need where they take long: so that progress is seen and interrupts are heard.
            work = int((sizes**2).sum() / _KERNEL_VALUES_PER_PART)
            n_parts = max(4 * n_workers, min(20, count // 16, work if self.pool.shares_rows else 20))
        return chunks(range(count), n_parts)


def concatenate(parts: Sequence[Hypotheses]) -> Hypotheses:
    """Return the hypotheses of several parts as one."""
    return parts[0] if len(parts) == 1 else parts[0].concatenate(parts)
