"""Run tasks in threads, processes or on a cluster, without those whose results are in a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pacbayes._fingerprint import digest
from pacbayes._parallel import run_tasks
from pacbayes._progress import show_progress
from pacbayes.fitting._checkpoint import Arrays, Checkpoint
from pacbayes.fitting._cluster import run_on_cluster

__all__ = ["Workers"]


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

    def without_checkpoint(self) -> Workers:
        """Return the same workers for results that belong to no fit."""
        return replace(self, checkpoint=None)

    def name_parts(self, kind: str, places: list[range], about: Any) -> list[str]:
        """Return what to call results in a checkpoint: by where they are of, and by a digest of what they are about.

        `about` is what they depend on besides settings, seed and data. A result of anything else has another name, and
        is not found: hypotheses that come out otherwise when they are trained again are validated and tested again.
        """
        if self.checkpoint is None:
            return [""] * len(places)
        what = digest(about, code=True)[:32]
        return [f"{kind}-{what}-{place.start}-{place.stop}" for place in places]

    def run(
        self,
        function: Callable[..., Any],
        common: tuple[Any, ...],
        tasks: list[tuple[Any, ...]],
        names: list[str],
        description: str,
        *,
        threads: bool,
        encode: Callable[[Any], Arrays | None] | None = None,
        decode: Callable[[Arrays], Any] | None = None,
    ) -> list[Any]:
        """Call ``function(common, *task)`` for each task, and return the results in the order of the tasks.

        `names` are what the results are called in a checkpoint. `encode` turns a result into arrays by name, or None if
        it cannot be stored, and `decode` back. `threads` says that the function releases the interpreter's lock.
        """
        results: list[Any] = [None] * len(tasks)
        if self.checkpoint is not None:
            stored = [self.checkpoint.load(name) for name in names]
            results = [arrays if arrays is None or decode is None else decode(arrays) for arrays in stored]
        missing = [i for i, result in enumerate(results) if result is None]
        if not missing:
            return results
        if self.client is None:
            shared = Shared(common)
            work = [(function, self.checkpoint, encode, names[i], shared, *_without_sample(*tasks[i])) for i in missing]
            settings: dict[str, Any] = {"verbose": self.verbose, "description": description}
            computed = run_tasks(_run_and_save, work, n_jobs=self.n_jobs, threads=threads, **settings)
            for i, result in zip(missing, computed, strict=True):
                results[i] = result
            return results
        with show_progress(description, len(missing), enabled=self.verbose > 0, announce=self.verbose > 1) as bar:
            left = [tasks[i] for i in missing]
            for k, result in run_on_cluster(self.client, function, common, left, description.split()[0]):
                i = missing[k]
                _save(self.checkpoint, encode, names[i], result)
                results[i] = result
                bar.advance()
        return results


def _without_sample(block: Any, *task: Any) -> tuple[Any, ...]:
    """Return the arguments of a task after the sample that its block is of, which is sent once, too."""
    return (block.sample, block.detach(), *task) if hasattr(block, "detach") else (None, block, *task)


def _run_and_save(
    function: Any,
    checkpoint: Checkpoint | None,
    encode: Any,
    name: str,
    common: Iterable[Any],
    sample: Any,
    block: Any,
    *task: Any,
) -> Any:
    """Do a task and store its result at once, whichever tasks are done before."""
    result = function(common, block if sample is None else block.attach(sample), *task)
    _save(checkpoint, encode, name, result)
    return result


def _save(checkpoint: Checkpoint | None, encode: Any, name: str, result: Any) -> None:
    if checkpoint is not None:
        arrays = result if encode is None else encode(result)
        if arrays is not None:
            checkpoint.save(name, arrays)
