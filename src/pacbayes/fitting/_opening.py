"""Open rows that are not in memory, and find who is going to read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pacbayes._formatting import format_names
from pacbayes.fitting._cluster import SentArray, connected, find_client
from pacbayes.fitting._rows import SourceRows, SourceSample
from pacbayes.fitting._votes import FittedVotes
from pacbayes.fitting._workers import Workers
from pacbayes.pools import Pool
from pacbayes.rows import ArraySource, Source, find_source, is_dask


def open_source_rows(
    X: Any,
    y: Any,
    pool: Pool,
    workers: Workers,
    *,
    fitted: FittedVotes | None = None,
    local: bool = False,
) -> SourceRows | None:
    """Return rows that are read in blocks, None for arrays and data frames in memory.

    They have the columns of a fit, if one is given. The active Dask client does the work, if there is one, unless they
    are `local`.
    """
    known = None if fitted is None else fitted.feature_names
    if isinstance(X, Source) and y is not None:
        raise ValueError("y must be left out where X is a source, which has its labels")
    client = find_client(needed_for="a dask collection") if is_dask(X) else None
    with connected(client):
        source = find_source(X, y, columns=None if known is None else list(known))
    if source is None:
        return None
    if pool.needs_all_rows:
        raise ValueError(
            f"{type(pool).__name__} must not look at all rows at once where they are read in blocks: gamma_source must "
            "be 'subsample' or 'reserved'"
        )
    client = None if local else client or find_client()
    if client is not None and type(source) is ArraySource:
        source = SentArray(source, client)
    if fitted is None:
        with connected(client):
            code_book = pool.make_code_book(source)
    else:
        code_book = fitted.code_book
        if source.n_columns != fitted.n_features:
            raise ValueError(f"X must have {fitted.n_features} features, as in training, got {source.n_columns}")
        if known is not None and source.columns is not None and tuple(known) != source.columns:
            raise ValueError(f"X must have the columns of training, in their order: {format_names(known)}")
    sample = SourceSample.of(source.encoded(code_book))
    return SourceRows(sample, pool, replace(workers, client=client), source.columns)
