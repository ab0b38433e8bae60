"""Run tasks in threads, processes or on a cluster, without those whose results are in a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pacbayes._fingerprint import digest
from pacbayes._parallel import run_tasks
from pacbayes._progress import show_progress
from pacbayes.fitting._checkpoint import Checkpoint
from pacbayes.fitting._cluster import run_on_cluster


class Shared:
    """What all tasks have in common: Dask, behind joblib, sends a large object to a worker once, but not a tuple."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __sizeof__(self) -> int:
        return sum(map(sys.getsizeof, self.values))


@dataclass(frozen=True)
class Workers:
    """Who does the tasks: workers on this machine, as in joblib, or a Dask cluster."""

    n_jobs: int | None = None
    client: Any = None
    checkpoint: Checkpoint | None = None  # where results are stored
    verbose: int = 0

    def run(
        self,
        function: Callable[..., Any],
        common: tuple[Any, ...],
        tasks: list[tuple[Any, ...]],
        description: str,
        *,
        threads: bool,
        stored_as: str = "",
        places: list[range] | None = None,
        about: Callable[[], list[Any]] = list,
    ) -> list[Any]:
        """Call ``function(common, *task)`` for each task, and return the results in the order of the tasks.

        A checkpoint keeps results that have a name, `stored_as`, by the places of their tasks, by default those of the
        blocks that they begin with, and by a digest of what `about` returns: all that they depend on besides settings,
        seed and data. Hypotheses that differ when they are trained again are validated and tested again. `threads` says
        that the function releases the interpreter's lock.
        """
        results: list[Any] = [None] * len(tasks)
        names, checkpoint = [""] * len(tasks), self.checkpoint if stored_as else None
        if checkpoint is not None:
            what = digest(about(), code=True)[:32]
            ranges = [task[0].place for task in tasks] if places is None else places
            names = [f"{stored_as}-{what}-{place.start}-{place.stop}" for place in ranges]
            results = [checkpoint.load(name) for name in names]
        missing = [i for i, result in enumerate(results) if result is None]
        if not missing:
            return results
        if self.client is None:
            shared = Shared(common)
            work = [(function, checkpoint, names[i], shared, *_without_sample(*tasks[i])) for i in missing]
            done: Iterable[tuple[int, Any]] = zip(
                missing, run_tasks(_run_and_save, work, n_jobs=self.n_jobs, threads=threads), strict=True
            )
        else:
            left = [tasks[i] for i in missing]
            found = run_on_cluster(self.client, function, common, left, description.split()[0])
            done = ((missing[k], result) for k, result in found)
        with show_progress(description, len(missing), enabled=self.verbose > 0, announce=self.verbose > 1) as bar:
            for i, result in done:
                if self.client is not None and checkpoint is not None:
                    checkpoint.save(names[i], result)
                results[i] = result
                bar.advance()
        return results


def _without_sample(block: Any, *task: Any) -> tuple[Any, ...]:
    """Return the arguments of a task after the sample that its block is of, which is sent once, too."""
    return (block.sample, block.detach(), *task) if hasattr(block, "detach") else (None, block, *task)


def _run_and_save(
    function: Any, checkpoint: Checkpoint | None, name: str, common: Any, sample: Any, block: Any, *task: Any
) -> Any:
    """Do a task and store its result at once, whichever tasks are done before."""
    result = function(common, block if sample is None else block.attach(sample), *task)
    if checkpoint is not None:
        checkpoint.save(name, result)
    return result
