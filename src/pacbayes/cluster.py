"""Tasks on a Dask cluster: named, small to send, and computed again if a worker is lost."""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from pacbayes.exceptions import ClusterError
from pacbayes.sources import require

__all__ = ["find_client", "run_on_cluster"]

# How often a task may lose its worker, or an input or output error may come up, before the fit gives up.
_MOST_LOSSES = 5

# Clients of schedulers that were named by their address.
_CLIENTS: dict[str, Any] = {}

# What is sent with a task besides its block is sent once for all tasks. It may be large.
_LARGE_GRAPH = "10GB"


def find_client(client: Any, *, needed_for: str | None = None) -> Any:
    """Return a Dask client: the one that is given, the active one, or None.

    Parameters
    ----------
    client : Client, str or None
        A client, the address of a scheduler, or None for the active client.
    needed_for : str, optional
        What cannot do without.
    """
    if isinstance(client, str):
        client = _connect(client)
    elif client is not None and not hasattr(client, "run_on_scheduler"):
        raise ValueError(f"client must be a Dask client, the address of a scheduler or None, got {client!r}")
    if client is None and "distributed" in sys.modules:
        try:
            client = _distributed().default_client()
        except ValueError:
            client = None
    if client is None and needed_for is not None:
        raise ClusterError(
            f"{needed_for} needs a Dask client, and there is none: make one first, `dask.distributed.Client()`"
        )
    if client is not None:
        _check_package(client)
    return client


def _connect(address: str) -> Any:
    """Return a client of the scheduler at an address, the same one for all calls."""
    known = _CLIENTS.get(address)
    if known is None or known.status != "running":
        _CLIENTS[address] = known = _distributed().Client(address, set_as_default=False)
    return known


def _distributed() -> Any:
    return require("distributed", "dask")


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
    """Return what a part of the cluster answers, or what it failed of: it may be lost at any time."""
    try:
        return ask(eval, question, **settings)
    except Exception as error:
        return error


def keep(*values: Any) -> tuple[Any, ...]:
    """Return what tasks share: a task like others, so that it is done again if the worker that holds it is lost."""
    return values


def run_on_cluster(
    client: Any, function: Callable[..., Any], common: tuple[Any, ...], tasks: list[tuple[Any, ...]], name: str
) -> Iterator[tuple[int, Any]]:
    """Call ``function(common, *task)`` for each task on a cluster, and yield position and result as they complete.

    Parameters
    ----------
    client : Client
        The cluster.
    function : callable
        What to call.
    common : tuple
        What all tasks share: sent once.
    tasks : list of tuple
        Arguments. The first may have an attribute `chunk`, a dask object that is computed and given as ``chunk=``.
    name : str
        How Dask's dashboard calls the tasks.
    """
    dask, distributed = importlib.import_module("dask"), _distributed()
    token = uuid.uuid4().hex[:8]
    losses = [0] * len(tasks)

    def submit(i: int) -> Any:
        key = f"pacbayes-{name}-{token}-{i}-{losses[i]}"
        chunk = getattr(tasks[i][0], "chunk", None)
        if chunk is None:
            return client.submit(function, shared, *tasks[i], key=key, pure=False)
        delayed = dask.delayed(function, pure=False)(shared, *tasks[i], chunk=chunk, dask_key_name=key)
        return client.compute(delayed)

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE_GRAPH}):
        shared = client.submit(keep, *common, key=f"pacbayes-{name}-shared-{token}", pure=False)
        waiting = {submit(i): i for i in range(len(tasks))}
        completed = distributed.as_completed(list(waiting))
        try:
            for future in completed:
                i = waiting.pop(future)
                result, failure = _outcome(future)
                if failure is None:
                    future.release()
                    yield i, result
                    continue
                losses[i] += 1
                if not isinstance(failure, _Lost | OSError) or losses[i] > _MOST_LOSSES:
                    raise _explain(failure, name, losses[i])
                again = submit(i)
                waiting[again] = i
                completed.add(again)
        finally:
            client.cancel(list(waiting))


class _Lost(Exception):  # noqa: N818
    """What a task comes to whose worker is gone."""


def _outcome(future: Any) -> tuple[Any, BaseException | None]:
    """Return the result of a future, or what it failed of."""
    try:
        if future.status == "finished":
            return future.result(), None
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
            f"a task ({name}) lost its worker {losses} times: is the memory of the workers sufficient? Their logs say"
        )
    return failure
