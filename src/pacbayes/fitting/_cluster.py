"""Tasks on a Dask cluster: named, small to send, and computed again if a worker is lost."""

from __future__ import annotations

import importlib
import sys
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from pacbayes._extras import require
from pacbayes.exceptions import ClusterError
from pacbayes.rows import ArraySource

# How often a task may lose its worker, or an input or output error may come up, before the fit gives up.
_MOST_LOSSES = 5

# Seconds: between looks at the connection to the scheduler; without a result until the scheduler is asked whether there
# are workers; for its answer.
_LOOK, _SILENCE, _ANSWER = 0.5, 10.0, 60.0

# Clients of clusters that have this version of the package.
_CHECKED: weakref.WeakSet[Any] = weakref.WeakSet()

# What is sent with a task besides its block is sent once for all tasks. It may be large.
_LARGE_GRAPH = "10GB"


def find_client(*, needed_for: str | None = None) -> Any:
    """Return the active Dask client, or None; raise ClusterError if something, `needed_for`, cannot do without."""
    client = None
    if "distributed" in sys.modules:
        with suppress(ValueError):
            client = require("distributed", "dask").default_client()
    if client is None and needed_for is not None:
        raise ClusterError(
            f"{needed_for} needs a Dask client, and there is none: make one first, `dask.distributed.Client()`"
        )
    if client is not None and client not in _CHECKED:
        with connected(client):
            _count_workers(client)
            _check_package(client)
        _CHECKED.add(client)
    return client


@contextmanager
def connected(client: Any) -> Iterator[None]:
    """Raise ClusterError instead of what comes up in a ``with`` block once the scheduler of a client is gone."""
    if client is None:
        yield
        return
    scheduler = getattr(client.scheduler, "address", "an unknown address")
    try:
        if client.status != "running":
            raise OSError("not connected")
        yield
    except Exception as error:
        if client.status == "running" and not isinstance(error, _SchedulerGone):
            raise
        raise ClusterError(
            f"lost the scheduler of the cluster at {scheduler}: try again when it is back; a fit with a checkpoint "
            "resumes where it stopped"
        ) from error


class _SchedulerGone(Exception):  # noqa: N818
    """The scheduler forgot what it was asked, or does not answer."""


def _count_workers(client: Any) -> int:
    """Return the number of workers, if the scheduler answers."""
    try:
        return len(client.sync(client.scheduler.ncores, callback_timeout=_ANSWER))
    except TimeoutError as error:
        raise _SchedulerGone from error


def _check_package(client: Any) -> None:
    """Raise ClusterError if the workers cannot run tasks of this version."""
    from pacbayes import __version__

    # Nothing of this package may be needed to ask.
    question = "__import__('pacbayes').__version__"
    answers = {"the scheduler": _answer(client.run_on_scheduler, question)}
    workers = _answer(client.run, question, on_error="return")
    answers |= workers if isinstance(workers, dict) else {}
    for address, answer in answers.items():
        if isinstance(answer, ModuleNotFoundError):
            raise ClusterError(
                f"the workers of the cluster have no {answer.name}: install pacbayes {__version__} there"
            ) from answer
        if isinstance(answer, str) and answer != __version__:
            raise ClusterError(f"{address} of the cluster has pacbayes {answer}, and {__version__} is needed")


def _answer(ask: Any, question: str, **settings: Any) -> Any:
    """Return what a part of the cluster answers, or the error it failed with: it may be lost at any time."""
    try:
        return ask(eval, question, **settings)
    except Exception as error:
        return error


class SentArray(ArraySource):
    """Rows of an array of which each block is sent to a cluster once, when it is first needed there.

    A block is a task like others: done again if the worker that holds it is lost.
    """

    is_sent = True

    def __init__(self, source: ArraySource, client: Any) -> None:
        super().__init__(source.X, source.y)
        self._client = client
        self._name = f"pacbayes-rows-{uuid.uuid4().hex[:8]}"
        self._sent: dict[range, Any] = {}

    def piece(self, block: range) -> Any:
        if block not in self._sent:
            rows = self.X[block.start : block.stop]
            self._sent[block] = self._client.submit(np.asarray, rows, key=f"{self._name}-{block.start}", pure=False)
        return self._sent[block]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "X": None, "_client": None, "_sent": {}}


def perform(version: str, function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a function where this is the version of the package that wants it called."""
    from pacbayes import __version__

    if version != __version__:
        raise ClusterError(f"a worker of the cluster has pacbayes {__version__}, and {version} is needed")
    return function(*arguments, **settings)


def keep(*values: Any) -> tuple[Any, ...]:
    """Return what tasks share: a task like others, so that it is done again if the worker that holds it is lost."""
    return values


def run_on_cluster(
    client: Any, function: Callable[..., Any], common: tuple[Any, ...], tasks: list[tuple[Any, ...]], name: str
) -> Iterator[tuple[int, Any]]:
    """Call ``function(common, *task)`` for each task on a cluster, and yield position and result as they complete.

    `common` is sent once. The first argument of a task may have an attribute `chunk`, a dask object that is computed
    and given as ``chunk=``. `name` is how Dask's dashboard calls the tasks. Raises ClusterError if the scheduler is
    gone, within seconds, or does not answer for a minute.
    """
    from pacbayes import __version__

    dask = importlib.import_module("dask")
    token = uuid.uuid4().hex[:8]
    losses = [0] * len(tasks)
    waiting: dict[Any, int] = {}
    finished: SimpleQueue[Any] = SimpleQueue()

    def submit(i: int) -> None:
        key = f"pacbayes-{name}-{token}-{i}-{losses[i]}"
        chunk = getattr(tasks[i][0], "chunk", None)
        arguments = (__version__, function, shared, *tasks[i])
        if chunk is None:
            future = client.submit(perform, *arguments, key=key, pure=False)
        else:
            delayed = dask.delayed(perform, pure=False)(*arguments, chunk=chunk, dask_key_name=key)
            future = client.compute(delayed)
        waiting[future] = i
        future.add_done_callback(finished.put)

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE_GRAPH}), connected(client):
        shared = client.submit(keep, *common, key=f"pacbayes-{name}-shared-{token}", pure=False)
        try:
            for i in range(len(tasks)):
                submit(i)
            while waiting:
                future = _wait(client, shared, finished)
                i = waiting.pop(future)
                result, failure = _outcome(future)
                if failure is None:
                    future.release()
                    yield i, result
                    continue
                losses[i] += 1
                if not isinstance(failure, _Lost | OSError) or losses[i] > _MOST_LOSSES:
                    raise _explain(failure, name, losses[i])
                submit(i)
        finally:
            if client.status == "running":
                client.cancel(list(waiting))


def _wait(client: Any, shared: Any, finished: SimpleQueue[Any]) -> Any:
    """Return the next future that is done, and watch the scheduler and whether there are workers in the meantime."""
    asked = time.monotonic()
    while client.status == "running" and not shared.cancelled():
        try:
            return finished.get(timeout=_LOOK)
        except Empty:
            if time.monotonic() - asked < _SILENCE:
                continue
        if not _count_workers(client):
            # Those of a batch system may still be queueing.
            message = f"the cluster at {client.scheduler.address} has no workers: waiting for some to join"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        asked = time.monotonic()
    raise _SchedulerGone


class _Lost(Exception):  # noqa: N818
    """What a task comes to whose worker is gone."""


def _outcome(future: Any) -> tuple[Any, BaseException | None]:
    """Return the result of a future, or the error it failed with."""
    try:
        if future.status == "finished":
            return future.result(timeout=_ANSWER), None
        failure = None if future.status in ("cancelled", "lost") else future.exception()
    except Exception as error:  # the worker that held the result is gone
        failure = error
    gone = failure is None or type(failure).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError")
    return None, _Lost() if gone else failure


def _explain(failure: BaseException, name: str, losses: int) -> BaseException:
    if isinstance(failure, ModuleNotFoundError):
        return ClusterError(f"the workers of the cluster have no {failure.name}: install what this process has there")
    if isinstance(failure, _Lost):
        return ClusterError(
            f"a task ({name}) lost its worker {losses} times: do the workers have enough memory? See their logs"
        )
    return failure
