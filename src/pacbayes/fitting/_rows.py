"""Rows of a sample, wherever they are: in memory, or read in blocks from a source.

A fit, a test and a prediction ask for blocks of rows, in whatever order these validate, and do not know where they come
from. Rows in memory are a source of one block, which is divided among workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from pacbayes._compat import take_rows
from pacbayes._formatting import format_names
from pacbayes._parallel import chunks, rows_per_block
from pacbayes.exceptions import SourceError
from pacbayes.fitting._checkpoint import Arrays
from pacbayes.fitting._cluster import SentArray, connected, find_client
from pacbayes.fitting._workers import Workers
from pacbayes.pools import Hypotheses, Pool, Sample
from pacbayes.rows import (
    ArraySource,
    CodeBook,
    ColumnRanges,
    Labels,
    RowSummary,
    Source,
    Sums,
    TrainingRows,
    add_sums,
    find_source,
    is_dask,
    shift_for,
    sum_rows,
)
from pacbayes.sampling import ChosenSubsamples, Subsamples, validation_order
from pacbayes.tasks import Task

if TYPE_CHECKING:
    from pacbayes.fitting._votes import FittedVotes

# Rows that are in memory for the first rounds of validation take at most so many bytes, for each vote.
_EARLY_BYTES = 1 << 25


class Block(ABC):
    """Some rows of a sample with their targets: what one task computes on."""

    place: range  # where they are in the source, or in a round
    n_rows: int
    chunk: Any = None  # what Dask has to compute for the block; None if its task reads the rows, or has them

    @abstractmethod
    def samples(self, chunk: Any = None) -> Iterator[tuple[Sample, NDArray[Any]]]:
        """Yield samples, and the numbers in them of the rows of this block, in batches; `chunk` as computed by Dask."""

    def batches(self, chunk: Any = None) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any]]]:
        """Yield numbers in the sample, features and targets of the rows, in batches."""
        for sample, numbers in self.samples(chunk):
            # Without a copy, if these are all rows.
            everything = numbers.size == len(sample) and not isinstance(sample.X, GatheredRows)
            X = sample.X if everything else take_rows(sample.X, numbers)
            yield numbers, X, sample.codes if everything else sample.codes[numbers]


@dataclass(frozen=True, eq=False)
class MemoryBlock(Block):
    """Some rows of a sample in memory, by their numbers, rising."""

    sample: Sample
    rows: NDArray[Any]
    place: range
    size: int  # rows to compute on at a time

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.rows.size)

    def detach(self) -> MemoryBlock:
        """Return this block without its sample, to be sent beside it."""
        return replace(self, sample=None)  # type: ignore[arg-type]

    def attach(self, sample: Sample) -> MemoryBlock:
        """Return this block with the sample that it was taken from."""
        return replace(self, sample=sample)

    def samples(self, chunk: Any = None) -> Iterator[tuple[Sample, NDArray[Any]]]:
        for part in chunks(range(self.rows.size), max(1, -(-self.rows.size // self.size))) or [range(0)]:
            yield self.sample, self.rows[part.start : part.stop]


@dataclass(eq=False)
class SampleRows(ABC):
    """The rows of a sample, all or some of them, with their targets, and who computes on them.

    By default, methods do what rows in memory need.
    """

    in_memory: ClassVar[bool]  # all of them

    sample: Sample  # what pools see of them
    pool: Pool  # what hypotheses they are for
    workers: Workers
    columns: Sequence[str] | None = None  # names of the features, if they have some
    # Whose fit they were opened for: to another one, features and targets would mean something else.
    opened_for: TrainingRows | None = field(default=None, kw_only=True)
    has_target: bool = field(default=False, kw_only=True)  # whether they were opened with targets

    def __len__(self) -> int:
        return int(self.sample.X.shape[0])

    @property
    def block_rows(self) -> int:
        """Rows to compute on at a time."""
        return rows_per_block(max(self.sample.classes.size, self.sample.X.shape[1]))

    def with_target(self, task: Task, encoded: NDArray[Any]) -> SampleRows:
        """Return these rows with an encoded target."""
        return self.with_sample(replace(self.sample, codes=encoded, classes=task.classes))

    def column_ranges(self) -> ColumnRanges | None:
        """Return what the columns of a table hold, if that is known without reading all rows again."""
        return None

    def labels(self) -> Labels:
        """Return the labels that a source holds."""
        raise SourceError("y must be given: rows in memory have no column of labels")

    @abstractmethod
    def with_sample(self, sample: Any) -> SampleRows:
        """Return other rows of the same origin: those that a pool prepared, for example."""

    def take(self, rows: NDArray[Any]) -> SampleRows:
        """Return some of the rows, by their numbers, rising."""
        return self.with_sample(self.sample.take(rows))

    @abstractmethod
    def arrange(self, entropy: int) -> SampleRows:
        """Return these rows with an order of validation."""

    def load(self, plans: Iterable[Any]) -> tuple[Iterable[Any], SampleRows, RowSummary | None]:
        """Return plans whose `rest` has what they need at hand, all rows, and their summary if they had to be read."""
        return plans, self, None

    @abstractmethod
    def numbers(self, start: int, end: int) -> NDArray[Any]:
        """Return the rows in a part of the order of validation, by their numbers, rising."""

    @abstractmethod
    def blocks(self, start: int, end: int, most_rows: int, batch_rows: int | None = None) -> list[Block]:
        """Return the rows in a part of the order of validation, in blocks of at most so many if they are in memory.

        `batch_rows` are computed on at a time, by default `block_rows`.
        """

    def batches(self) -> Iterator[Any]:
        """Yield the features of all rows, in their order, some at a time."""
        for block in self.blocks(0, len(self), self.block_rows):
            for _, X, _ in block.batches():
                yield X

    def training_sample(self, subsamples: Subsamples, part: NDArray[np.intp]) -> Sample:
        """Return a sample that holds the training rows of some hypotheses."""
        return self.sample

    def complete(self, hypotheses: Hypotheses) -> Hypotheses:
        """Return hypotheses with what they need to predict the blocks of these rows."""
        return hypotheses

    def probe_points(self) -> tuple[Any, NDArray[Any]]:
        """Return features, and the numbers of rows that hypotheses can be probed with: all that are in memory.

        Also where few are held out, or one: a row alone has no company to depend on. No target is looked at.
        """
        return self.sample.X, np.arange(len(self))

    @abstractmethod
    def summarize(self, shift: int | None = None) -> tuple[RowSummary, SampleRows]:
        """Return hashes of all rows, and the rows that must be found again. The default shift is that of a fit."""


@dataclass(eq=False)
class MemoryRows(SampleRows):
    """Rows of an array, a sparse matrix or a data frame. Their order of validation is drawn when it is asked for."""

    in_memory = True

    given: Any = None  # what the features were made from: an array on a device, for example
    entropy: int = 0  # of the order of validation
    _order: NDArray[Any] | None = field(default=None, init=False)

    @classmethod
    def of(
        cls, X: Any, pool: Pool, workers: Workers, *, code_book: CodeBook | None = None, **origin: Any
    ) -> MemoryRows:
        """Return all rows of X, without targets; `origin` are the `columns` and what X was made from, `given`."""
        codes = np.zeros(X.shape[0], dtype=np.intp)
        return cls(Sample(X, codes, np.empty(0), code_book), pool, workers, **origin)

    def column_ranges(self) -> ColumnRanges | None:
        is_coded = self.sample.code_book is not None or self.pool.takes_code_books
        if self.columns is None or not is_coded or not isinstance(self.sample.X, np.ndarray):
            return None
        return ColumnRanges.of(self.sample.X, self.columns, self.sample.code_book)

    def with_sample(self, sample: Sample) -> MemoryRows:
        return MemoryRows(sample, self.pool, self.workers, columns=self.columns)

    def with_target(self, task: Task, encoded: NDArray[Any]) -> MemoryRows:
        labelled = replace(self.sample, codes=encoded, classes=task.classes)
        return self.with_sample(labelled.keep_on_device(self.given))

    def arrange(self, entropy: int) -> MemoryRows:
        # What was drawn need not be drawn again.
        return self if entropy == self.entropy else replace(self, entropy=entropy)

    def numbers(self, start: int, end: int) -> NDArray[Any]:
        n = len(self)
        if start == 0 and end >= n:
            return np.arange(n)
        if self._order is None:
            self._order = validation_order(n, self.entropy)
        return np.sort(self._order[start:end])

    def blocks(self, start: int, end: int, most_rows: int, batch_rows: int | None = None) -> list[Block]:
        return list(_divide(self.sample, self.numbers(start, end), most_rows, batch_rows or self.block_rows))

    def summarize(self, shift: int | None = None) -> tuple[RowSummary, MemoryRows]:
        return RowSummary.of(self.sample.X, 0, shift_for(len(self)) if shift is None else shift), self


def _divide(sample: Sample, rows: NDArray[Any], most_rows: int, size: int) -> list[MemoryBlock]:
    return [
        MemoryBlock(sample, rows[i : i + most_rows], range(i, min(i + most_rows, rows.size)), size)
        for i in range(0, max(1, rows.size), most_rows)  # one of no rows, if there are none
    ]


class GatheredRows:
    """Some of `n_rows` rows, looked up by their numbers (rising) like those of an array."""

    # There is no copy of all rows that a device could hold.
    nbytes = float("inf")

    def __init__(self, numbers: NDArray[Any], values: NDArray[Any], n_rows: int) -> None:
        self.numbers = numbers
        self.values = values
        self.shape = (n_rows, *values.shape[1:])
        self.dtype = values.dtype
        self.ndim = values.ndim
        self.size = int(np.prod(self.shape))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __sizeof__(self) -> int:
        return self.numbers.nbytes + self.values.nbytes

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if isinstance(rows, tuple):  # scikit-learn asks for all of the other dimensions
            rows = rows[0]
        if rows is self.numbers:
            return self.values
        positions = np.minimum(np.searchsorted(self.numbers, rows), self.numbers.size - 1)
        if not np.array_equal(self.numbers[positions], rows):
            raise SourceError("rows were asked for that are not in memory")
        return np.asarray(self.values[positions])


def _gather_none(like: NDArray[Any], n_rows: int) -> GatheredRows:
    return GatheredRows(np.empty(0, dtype=np.int64), like[:0].copy(), n_rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceSample(Sample):
    """Rows of a source with their targets, all or some: what of them is in memory is in `X`."""

    source: Source
    mask: NDArray[np.bool_] | None = None  # which rows of the source these are; None for all

    @classmethod
    def of(cls, source: Source) -> SourceSample:
        """Return all rows of a source, none of them in memory and without targets."""
        X = _gather_none(np.empty((0, source.n_columns), dtype=source.dtype), source.n_rows)
        codes: Any = np.zeros(source.n_rows, dtype=np.uint8)
        return cls(X, codes, np.empty(0), source.code_book, source=source)

    def take(self, rows: NDArray[Any]) -> SourceSample:
        """Return some of the rows, by their numbers, rising. None of them is read."""
        mask = np.zeros(self.source.n_rows, dtype=bool)
        mask[rows if self.mask is None else np.flatnonzero(self.mask)[rows]] = True
        return replace(self, X=_gather_none(self.X.values, len(rows)), codes=self.codes[rows], mask=mask)

    def gather(self, rows: NDArray[Any]) -> Sample:
        numbers = rows if self.mask is None else np.flatnonzero(self.mask)[rows]
        return Sample(self.source.take(numbers), self.codes[rows], self.classes, self.code_book)

    def knowing(self, numbers: NDArray[Any], X: NDArray[Any], codes: NDArray[Any]) -> Sample:
        """Return a sample of as many rows that knows only some of them, by their numbers, rising."""
        n_rows = int(self.X.shape[0])
        known: Any = GatheredRows(numbers, codes, n_rows)
        return Sample(GatheredRows(numbers, X, n_rows), known, self.classes, self.code_book)

    def part(self, numbers: NDArray[Any]) -> Sample:
        """Return a sample of as many rows that knows only some of those that are in memory."""
        return self.knowing(numbers, self.X[numbers], self.codes[numbers])

    def without_rows(self) -> SourceSample:
        """Return this sample without rows and targets, as small as it can be sent."""
        return replace(self, X=_gather_none(self.X.values, len(self)), codes=self.codes[:0].copy(), mask=None)


@dataclass(eq=False)
class SourceRows(SampleRows):
    """Rows of a source, of which a fit has some in memory."""

    in_memory = False

    sample: SourceSample
    rank: NDArray[np.int32] | None = None  # place of each row in the order of validation; None for their own order
    n_early: int = 0  # so many of the first of that order are in memory
    # What the first reading found, by the first row of each block; empty before.
    sums: Mapping[int, Sums] = field(default_factory=dict)

    def labels(self) -> Labels:
        with connected(self.workers.client):
            return self.sample.source.labels()

    def with_sample(self, sample: SourceSample) -> SourceRows:
        return replace(self, sample=sample, rank=None, n_early=0)

    def arrange(self, entropy: int) -> SourceRows:
        if self.rank is not None:
            return self
        n = len(self)
        rank = np.empty(n, dtype=np.int32)
        rank[validation_order(n, entropy)] = np.arange(n, dtype=np.int32)
        return replace(self, rank=rank)

    def load(self, plans: Iterable[Any]) -> tuple[Iterable[Any], SourceRows, RowSummary]:
        drawn = list(plans)
        summary, rows = self.scan([plan.rest.needed(plan.subsamples) for plan in drawn])
        loaded = [replace(plan, rest=rest) for plan, rest in zip(drawn, rows[:-1], strict=True)]
        everything = rows[-1]
        del rows, drawn
        # Rows of a vote are released when the next one is asked for.
        return (loaded.pop(0) for _ in range(len(loaded))), everything, summary

    def needed(self, subsamples: Subsamples) -> tuple[SourceRows, NDArray[Any]]:
        """Return these rows, and the numbers of those that have to be in memory to train and for the first rounds."""
        assert self.rank is not None
        n, source = len(self), self.sample.source
        # Rows that workers hold need not come back, and be sent again.
        row_bytes = source.n_columns * np.dtype(source.dtype).itemsize
        n_early = 0 if source.is_sent else min(n, max(1, _EARLY_BYTES // row_bytes))
        training = subsamples.concatenated(range(len(subsamples)))
        early = np.flatnonzero(self.rank < n_early)
        return replace(self, n_early=n_early), np.unique(np.concatenate([training, early]))

    def numbers(self, start: int, end: int) -> NDArray[Any]:
        if self.rank is None:
            return np.arange(len(self))
        return np.flatnonzero((self.rank >= start) & (self.rank < end))

    def blocks(self, start: int, end: int, most_rows: int, batch_rows: int | None = None) -> list[Block]:
        if end <= self.n_early:
            # Each with its own rows: they may be sent.
            blocks = _divide(self.sample, self.numbers(start, end), most_rows, self.block_rows)
            return [block.attach(self.sample.part(block.rows)) for block in blocks]
        sample, found = self.sample.without_rows(), list[Block]()
        for place, first, mask in self._places():
            count = len(place) if mask is None else int(np.count_nonzero(mask))
            chosen = np.ones(count, dtype=bool)
            if self.rank is not None:
                rank = self.rank[first : first + count]
                chosen = (rank >= start) & (rank < end)
            if chosen.any():
                codes, sums = self.sample.codes[first : first + count][chosen], self.sums.get(place.start)
                read = (sample, self.pool, self.block_rows, place)
                found.append(SourceBlock(*read, _pack(mask), _pack(chosen), first, codes, sums))
        return found

    def _places(self) -> Iterator[tuple[range, int, NDArray[np.bool_] | None]]:
        """Yield the blocks of the source, the number of these rows before each, and which rows of it these are."""
        first = 0
        for block in self.sample.source.blocks():
            mask = None if self.sample.mask is None else self.sample.mask[block.start : block.stop]
            yield block, first, mask
            first += len(block) if mask is None else int(np.count_nonzero(mask))

    def positions(self, numbers: NDArray[Any]) -> list[NDArray[np.int64]]:
        """Return where some rows, by their numbers, rising, are in each block of the source."""
        inside = np.split(numbers, np.searchsorted(numbers, [first for _, first, _ in self._places()][1:]))
        return [
            np.asarray((here - first) if mask is None else np.flatnonzero(mask)[here - first], dtype=np.int64)
            for here, (_, first, mask) in zip(inside, self._places(), strict=True)
        ]

    def training_sample(self, subsamples: Subsamples, part: NDArray[np.intp]) -> Sample:
        return self.sample.part(np.unique(ChosenSubsamples(subsamples, part).concatenated(range(part.size))))

    def complete(self, hypotheses: Hypotheses) -> Hypotheses:
        return hypotheses.keep_training_points(self.sample)

    def probe_points(self) -> tuple[Any, NDArray[Any]]:
        return self.sample.X, self.sample.X.numbers

    def summarize(self, shift: int | None = None) -> tuple[RowSummary, SourceRows]:
        summary, rows = self.scan([], shift)
        return summary, rows[-1]

    def scan(
        self, needed: list[tuple[SourceRows, NDArray[Any]]], shift: int | None = None
    ) -> tuple[RowSummary, list[SourceRows]]:
        """Read all rows once; return their summary, those of `needed` with these rows in memory, and then all."""
        source = self.sample.source
        shift = shift_for(source.n_rows) if shift is None else shift
        everything = self.with_sample(SourceSample.of(source))
        blocks = everything.blocks(0, source.n_rows, 0)
        wanted = [rows.positions(numbers) for rows, numbers in needed]
        tasks = [(block, [positions[i] for positions in wanted]) for i, block in enumerate(blocks)]
        places = [block.place for block in blocks]

        def about() -> list[Any]:
            return [[numbers for _, numbers in needed], shift]

        results = self.workers.run(scan_block, (shift,), tasks, "reading", threads=True, stored_as="scan", about=about)
        parts = [RowSummary.from_arrays(result) for result in results]
        sums = {place.start: (part.exact or part).sums for place, part in zip(places, parts, strict=True)}
        loaded = []
        for k, (rows, numbers) in enumerate(needed):
            values = np.concatenate([result.pop(f"rows{k}") for result in results])
            sample = replace(rows.sample, X=GatheredRows(numbers, values, len(rows)))
            loaded.append(replace(rows, sample=sample, sums=sums))
        return RowSummary.join(parts), [*loaded, replace(self, sums=sums)]


@dataclass(frozen=True, eq=False)
class SourceBlock(Block):
    """Some rows of a range of a source, with their targets: small to send, read where the task runs."""

    sample: SourceSample  # what they are of, with nothing in memory
    pool: Pool
    size: int  # rows to read at a time
    place: range  # rows of the source that are read
    mask: NDArray[np.uint8] | None  # bits: which rows of the range belong to the sample; None for all
    chosen: NDArray[np.uint8] | None  # bits: which of those belong to the block; None for all
    first: int  # number, in the sample, of the first row that belongs to it
    codes: NDArray[Any]
    sums: Sums | None  # what the first reading found in the range; None if this is the first

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.codes.size)

    @property
    def chunk(self) -> Any:
        """What Dask has to compute."""
        return self.sample.source.piece(self.place)

    def read(self, chunk: Any = None) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Yield all rows of the range, in batches: the number of the first, as they are stored, and as hypotheses take.

        They are validated in the first reading. Later ones raise SourceError at the end if they are not the same: what
        was made of them does not count.
        """
        found = []
        for first, rows in self._read(chunk):
            if self.sums is None:
                yield first, rows, self._validate(rows, first)
            else:
                found.append(sum_rows(rows, first))
                yield first, rows, rows.astype(self.sample.X.dtype, copy=False)
        if self.sums is not None and add_sums(found) != self.sums:
            raise SourceError(
                f"rows {self.place.start} to {self.place.stop - 1} of X are not what they were when they were first "
                "read: X must give the same rows, in the same order, each time"
            )

    def _read(self, chunk: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the rows of the range as they are stored, in batches, each with the number of its first row."""
        source, place = self.sample.source, self.place
        if chunk is None:
            yield from source.batches(place.start, place.stop, self.size)
            return
        rows = source.to_rows(chunk, place)
        for start in range(0, len(rows), self.size):
            yield place.start + start, rows[start : start + self.size]

    def _validate(self, X: NDArray[Any], first: int) -> NDArray[Any]:
        """Return rows as hypotheses take them, or raise SourceError naming the first that is wrong."""
        if self.sample.code_book is None:  # otherwise it has checked them, and numbers may be missing
            settings, columns = self.pool.validation_kwargs(X), self.sample.source.columns
            if settings.get("ensure_all_finite", True) is True and not np.isfinite(X).all():
                row, j = (int(one) for one in np.argwhere(~np.isfinite(X))[0])
                what = "a missing value (NaN or null)" if np.isnan(X[row, j]) else "an infinite value"
                name = f"column {columns[j]!r}" if columns else f"column {j}"
                raise SourceError(
                    f"X must hold finite numbers, got {what} in {name}, row {first + row}: leave such rows out, or "
                    "impute within each hypothesis, EstimatorPool(make_pipeline(SimpleImputer(), ...))"
                )
            X = check_array(X, **settings)
        self.pool.check_points(X)
        return X

    def samples(self, chunk: Any = None) -> Iterator[tuple[Sample, NDArray[Any]]]:
        for numbers, X, codes in self.batches(chunk):
            yield self.sample.knowing(numbers, X, codes), numbers

    def batches(self, chunk: Any = None) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        wanted = _unpack(self.mask, len(self.place))
        among = _unpack(self.chosen, int(np.count_nonzero(wanted)))
        numbers = self.first + np.flatnonzero(among)
        wanted = wanted.copy()
        wanted[wanted] = among
        done = 0
        for first, _, X in self.read(chunk):
            here = wanted[first - self.place.start : first - self.place.start + len(X)]
            count = int(np.count_nonzero(here))
            part = slice(done, done + count)
            done += count
            if count:
                yield numbers[part], X if count == len(X) else X[here], self.codes[part]


def scan_block(common: Iterable[Any], block: SourceBlock, wanted: list[NDArray[np.int64]], chunk: Any = None) -> Arrays:
    """Hash all rows of a block, keep as many hashes as the shift says, and return the rows at wanted positions."""
    (shift,) = common
    parts: list[RowSummary] = []
    taken: list[list[NDArray[Any]]] = [[] for _ in wanted]
    for first, rows, X in block.read(chunk):
        parts.append(RowSummary.of(rows, first, shift))
        begin = first - block.place.start
        for k, positions in enumerate(wanted):
            low, high = np.searchsorted(positions, [begin, begin + len(X)])
            taken[k].append(X[positions[low:high] - begin])
    result = {f"rows{k}": np.concatenate(part) for k, part in enumerate(taken)}
    return result | RowSummary.join(parts).to_arrays()


def _pack(mask: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
    return None if mask is None or mask.all() else np.packbits(mask)


def _unpack(bits: NDArray[np.uint8] | None, n: int) -> NDArray[np.bool_]:
    return np.ones(n, dtype=bool) if bits is None else np.unpackbits(bits, count=n).view(bool)


def open_source_rows(
    X: Any, y: Any, pool: Pool, workers: Workers, *, fitted: FittedVotes | None = None, local: bool = False
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
