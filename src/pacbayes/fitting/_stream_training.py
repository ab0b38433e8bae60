"""Train hypotheses on rows that were gathered, and validate them on rows that are read block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.fitting._blocks import Block, SourceSample, partial_sample
from pacbayes.fitting._hypotheses import from_arrays, to_arrays
from pacbayes.fitting._tasks import count_losses, train_part
from pacbayes.fitting._training import Trained, Trainer
from pacbayes.fitting._workers import Workers
from pacbayes.pools import Hypotheses
from pacbayes.sampling import ChosenSubsamples, Subsamples

__all__ = ["StreamTrainer"]

# Hypotheses that a task trains, and kernel values that one computes on rows in memory. The parts are always the same,
# whoever does them: a fit that goes on finds what was done.
_PART = 8
_KERNEL_VALUES = 500_000_000
_LEAST_ROWS = 64


@dataclass(frozen=True)
class StreamTrainer(Trainer):
    """A trainer whose sample is mostly not in memory."""

    workers: Workers = field(default_factory=Workers)
    vote: int = 0  # which of several votes this is

    def run(self, hypotheses: range) -> Trained | None:
        chosen = np.asarray(hypotheses)
        trained = self._train(chosen)
        everyone = ChosenSubsamples(self.subsamples, chosen)
        totals, seen = self._validate_round(trained, everyone, self._draw_order(), 0, len(self.sample))
        return Trained(trained, totals, seen.astype(np.intp))

    @property
    def _rows(self) -> SourceSample:
        assert isinstance(self.sample, SourceSample)
        return self.sample

    def _draw_order(self) -> Any:
        return self._rows.rank

    def _train(self, chosen: NDArray[np.intp]) -> Hypotheses:
        places = [range(i, min(i + _PART, chosen.size)) for i in range(0, chosen.size, _PART)]
        parts = [chosen[place.start : place.stop] for place in places]
        common = (self.pool, self.subsamples, self.entropy, self.shared)
        tasks = [(self._sample_of(part), part) for part in parts]
        names = self.workers.name_parts(f"vote{self.vote}-train", places, [self.subsamples, chosen])
        trained = self.workers.run(
            train_part,
            common,
            tasks,
            names,
            "training",
            threads=self.pool.shares_rows,
            encode=to_arrays,
            decode=lambda arrays: from_arrays(arrays, self.sample.classes),
        )
        first: Hypotheses = trained[0]
        return first if len(trained) == 1 else first.concatenate(trained)

    def _sample_of(self, part: NDArray[np.intp]) -> Any:
        """Return the training rows of some hypotheses: all that a task needs."""
        subsamples = ChosenSubsamples(self.subsamples, part)
        rows = np.unique(subsamples.concatenated(range(part.size)))
        sample = self._rows
        return partial_sample(rows, sample.X[rows], sample.codes[rows], len(sample), sample.classes, sample.code_book)

    def _validate_round(
        self, trained: Hypotheses, subsamples: Subsamples, order: Any, start: int, end: int
    ) -> tuple[Array, NDArray[np.int64]]:
        m, rank = len(subsamples), order
        common = (trained.keep_training_points(self.sample), subsamples, self.loss, self.sample.classes)
        blocks = self._blocks(subsamples, start, end)
        training_rows = subsamples.concatenated(range(m))
        about = [trained.fingerprint(), training_rows, subsamples.sizes]
        places = [block.place for block in blocks]
        where = "memory" if blocks and blocks[0].source is None else "source"
        names = self.workers.name_parts(f"vote{self.vote}-validate-{start}-{end}-{where}", places, about)
        tasks = [(block,) for block in blocks]
        results = self.workers.run(count_losses, common, tasks, names, "validation", threads=self.pool.shares_rows)
        inside = rank[training_rows]
        owner = np.repeat(np.arange(m), subsamples.sizes)
        training = np.bincount(owner[(inside >= start) & (inside < end)], minlength=m)
        return sum((result["totals"] for result in results), np.zeros(m)), (end - start) - training

    def _blocks(self, subsamples: Subsamples, start: int, end: int) -> list[Block]:
        """Return the rows of a round: from memory, if they are there."""
        sample = self._rows
        if end > sample.n_early:
            return sample.validation_blocks(start, end, self.block_size, sample.X.dtype)
        assert sample.rank is not None
        among = sample.rank[sample.X.numbers]
        numbers = sample.X.numbers[(among >= start) & (among < end)]
        size = int(np.clip(_KERNEL_VALUES // max(1, int(subsamples.sizes.sum())), _LEAST_ROWS, self.block_size))
        size = min(size, max(_LEAST_ROWS, math.ceil(numbers.size / 8)))
        blocks = []
        for i in range(0, numbers.size, size):
            rows = numbers[i : i + size]
            place = range(i, i + rows.size)
            blocks.append(Block.in_memory(place, rows, sample.X[rows], sample.codes[rows], self.block_size))
        return blocks
