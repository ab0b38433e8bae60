"""What tasks do with a block of rows. They return arrays by name, which a checkpoint can keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from pacbayes.certificate import tabulate_predictions
from pacbayes.exceptions import SourceError
from pacbayes.fitting._blocks import Block, partial_sample
from pacbayes.fitting._checkpoint import Arrays
from pacbayes.fitting._ensemble import tabulate_classes
from pacbayes.fitting._voting import predict_codes, predict_drawn, tally_votes, vote_out_of_bag
from pacbayes.pools import Pool
from pacbayes.rows import RowSummary, Source

__all__ = [
    "count_losses",
    "predict_block",
    "scan_block",
    "sum_test_losses",
    "tabulate_out_of_bag",
    "train_part",
    "validate_rows",
]


def validate_rows(pool: Pool, X: NDArray[Any], first: int, source: Source | None) -> NDArray[Any]:
    """Return rows as the hypotheses of a pool take them, or raise SourceError naming the first that is wrong."""
    if source is not None and source.code_book is not None:  # which has checked them, and numbers may be missing
        pool.check_points(X)
        return X
    columns = None if source is None else source.columns
    settings = pool.validation_kwargs(X)
    if settings.get("ensure_all_finite", True) is True and not np.isfinite(X).all():
        row, j = (int(one) for one in np.argwhere(~np.isfinite(X))[0])
        what = "a missing value (NaN or null)" if np.isnan(X[row, j]) else "an infinite value"
        name = f"column {columns[j]!r}" if columns else f"column {j}"
        raise SourceError(
            f"X must hold finite numbers, got {what} in {name}, row {first + row}: leave such rows out, or impute "
            "within each hypothesis, EstimatorPool(make_pipeline(SimpleImputer(), ...))"
        )
    X = check_array(X, **settings)
    pool.check_points(X)
    return X


def scan_block(common: tuple[Any, ...], block: Block, wanted: list[NDArray[np.int64]], chunk: Any = None) -> Arrays:
    """Read a block for the first time: validate and hash all rows, and return those that are wanted.

    `common` holds the pool, and how many hashes to keep (`recognition.shift_for`); `wanted`, for each vote, positions
    in the block's range, rising; `chunk` the rows, if Dask computed them.
    """
    pool, shift = common
    parts: list[RowSummary] = []
    taken: list[list[NDArray[Any]]] = [[] for _ in wanted]
    for first, rows in block.read(chunk):
        X = validate_rows(pool, rows, first, block.source)
        parts.append(RowSummary.of(rows, first, shift))
        begin = first - block.place.start
        for k, positions in enumerate(wanted):
            low, high = np.searchsorted(positions, [begin, begin + len(X)])
            taken[k].append(X[positions[low:high] - begin])
    result = {f"rows{k}": np.concatenate(part) for k, part in enumerate(taken)}
    return result | RowSummary.join(parts).to_arrays()


def train_part(common: tuple[Any, ...], sample: Any, chosen: NDArray[np.intp]) -> Any:
    """Train some hypotheses on rows that are in memory."""
    pool, subsamples, entropy, shared = common
    return pool.train(sample, subsamples, chosen, entropy, shared)


def count_losses(common: tuple[Any, ...], block: Block, chunk: Any = None) -> Arrays:
    """Return the total losses of hypotheses on a block."""
    trained, subsamples, loss, classes = common
    totals = np.zeros(len(trained))
    for numbers, X, codes in block.batches(chunk):
        sample = partial_sample(numbers, X, codes, subsamples.n, classes)
        totals += trained.loss_totals(sample, subsamples, range(len(trained)), numbers, loss)
    return {"totals": totals}


def sum_test_losses(
    common: tuple[Any, ...], block: Block, drawn: NDArray[Any] | None = None, chunk: Any = None
) -> Arrays:
    """Return the total loss of what the weighted hypotheses predict on a block."""
    hypotheses, weights, voting, loss, n_rows = common
    total, done, tables = 0.0, 0, []
    for _, X, codes in block.batches(chunk):
        here = None if drawn is None else drawn[done : done + len(X)]
        predicted, doubtful = _predict(hypotheses, weights, voting, X, here)
        total += loss.total_with_doubts(codes, predicted, doubtful, n_rows)
        tables.append(tabulate_classes(codes.astype(np.intp), predicted, doubtful, hypotheses.classes.size))
        done += len(X)
    counts = [table for table in tables if table is not None]
    return {"total": np.array(total)} | ({"counts": np.sum(counts, axis=0)} if counts else {})


def tabulate_out_of_bag(common: tuple[Any, ...], block: Block, chunk: Any = None) -> Arrays:
    """Count points of a block by true class and by what those hypotheses vote for that were not trained on them."""
    hypotheses, weights, subsamples = common
    counts = []
    for numbers, X, codes in block.batches(chunk):
        votes, doubtful, voted = vote_out_of_bag(hypotheses, weights, subsamples, X, numbers)
        classes = codes.astype(np.intp)[voted]
        counts.append(tabulate_predictions(classes, votes[voted], doubtful[voted], hypotheses.classes.size))
    return {"counts": np.sum(counts, axis=0)}


def predict_block(
    common: tuple[Any, ...], block: Block, drawn: NDArray[Any] | None = None, chunk: Any = None
) -> Arrays:
    """Return what the weighted hypotheses predict on a block: codes and which are in doubt, or shares of the vote."""
    hypotheses, weights, voting, pool = common
    parts: list[tuple[NDArray[Any], ...]] = []
    for first, rows in block.read(chunk):
        X = validate_rows(pool, rows, first, block.source)
        begin = first - block.place.start
        if voting is None:
            parts.append((tally_votes(hypotheses, weights, X, stop_early=False),))
        else:
            here = None if drawn is None else drawn[begin : begin + len(X)]
            codes, doubtful = _predict(hypotheses, weights, voting, X, here)
            parts.append((codes.astype(np.uint16 if hypotheses.classes.size <= 2**16 else np.int64), doubtful))
    joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return {"tallies": joined[0]} if voting is None else {"codes": joined[0], "doubtful": joined[1]}


def _predict(hypotheses: Any, weights: Any, voting: str, X: Any, drawn: NDArray[Any] | None) -> Any:
    if drawn is not None:
        return predict_drawn(hypotheses, drawn, X)
    return predict_codes(hypotheses, weights, voting, X, np.random.default_rng(0))
