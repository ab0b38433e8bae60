"""Tasks by as many workers as asked for: plain threads for compiled code, joblib's current backend for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn import get_config

__all__ = ["chunks", "count_threads", "count_workers", "rows_per_block", "run_in_background", "run_tasks"]

# Rows that are computed on at a time, at most.
_MOST_ROWS = 65536


def count_workers(n_jobs: int | None, *, threads: bool) -> int:
    """Return the number of workers that `run_tasks` takes."""
    return _thread_workers(n_jobs)[0] if threads else int(effective_n_jobs(n_jobs))


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads `run_tasks` takes for code that releases the lock; 1 if its workers are no threads."""
    workers, shared_memory = _thread_workers(n_jobs)
    return workers if shared_memory else 1


def _thread_workers(n_jobs: int | None) -> tuple[int, bool]:
    """Return the workers of joblib's backend for code that releases the lock, and whether they share memory."""
    backend, default = get_active_backend(prefer="threads")
    workers = backend.effective_n_jobs(default if n_jobs is None else n_jobs)
    return workers, getattr(backend, "supports_sharedmem", False)


def rows_per_block(width: int) -> int:
    """Return how many rows to compute on at a time, if each of them takes up to `width` numbers.

    It follows scikit-learn's `working_memory`: what is computed at a time takes about a thirtieth of it.

    >>> rows_per_block(2), rows_per_block(10_000)
    (65536, 419)
    """
    cells = int(get_config()["working_memory"] * 2**20 / 8 / 32)
    return max(1, min(_MOST_ROWS, cells // max(1, width)))


def chunks(numbers: range, count: int) -> list[range]:
    """Split a range into `count` chunks of the same size, or fewer if it is short.

    >>> chunks(range(7), 3)
    [range(0, 3), range(3, 6), range(6, 7)]
    """
    size = max(1, math.ceil(len(numbers) / count))
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


@contextmanager
def run_in_background(threads: int, prepare: Callable[[], None] | None = None) -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that calls others on threads while a ``with`` block runs, in order, and returns their futures.

    With 0 threads, each is called where it is given. `prepare` is what a thread calls first.
    """
    if threads == 0:
        yield _call
        return
    executor = ThreadPoolExecutor(threads, initializer=prepare)
    try:
        yield executor.submit
    finally:  # what has begun is waited for, the rest is given up
        executor.shutdown(cancel_futures=True)


def _call(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def run_tasks(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]], *, n_jobs: int | None, threads: bool
) -> Iterator[Any]:
    """Call a function with each task, and yield results in order; `threads` are enough if it releases the lock."""
    workers, shared_memory = _thread_workers(n_jobs)
    if threads and workers > 1 and shared_memory:
        # Plain threads: joblib waits for its own in steps of 10 ms, which is a tenth of a fit.
        with ThreadPoolExecutor(workers) as executor:
            yield from executor.map(lambda task: function(*task), tasks)
        return
    backend, _ = get_active_backend()
    can_stream = getattr(backend, "supports_return_generator", False)
    parallel = Parallel(n_jobs=n_jobs, return_as="generator" if can_stream else "list")
    yield from parallel(delayed(function)(*task) for task in tasks)
