r"""Which points train each hypothesis: index sets, label-blind by construction.

Theorem PBaggregation holds because the training set S_h of each hypothesis is selected independently of the
composition of S: nothing here is ever given data, only its size n. A subsample may turn out to hold one class only;
redrawing it would make the selection depend on labels and break the theorem.

Hypothesis h has random streams of its own: its subsample does not depend on how many other hypotheses there are, nor
on which worker draws it, and is drawn again when it is needed rather than stored. The streams are those of a
counter-based generator, Philox: one key for all, made from the seed, and a counter that begins with the hypothesis and
the purpose. `stream` gives one of them as a NumPy generator; `_streams` reads many at once, in compiled code.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._settings import is_auto, is_several
from pacbayes.sampling import _streams

# Measured on the paper's datasets and on others (benchmarks/RESULTS.md): ladders that end earlier lose, longer ones and
# more hypotheses gain little.
_LADDER = (1 / 8, 1 / 4, 0.5, 0.65, 0.8)
_HYPOTHESES_PER_SIZE = 45
# A hypothesis on r points needs its r x r kernel matrix: shares are of this many rows at most.
_MOST_ROWS = 2500

# What a stream is for.
SUBSAMPLE, LEARNER, RESERVE, PREDICTION, HOLDOUT, TEST, DEAL, ORDER, PROBE, THIN, TAIL = range(11)


@lru_cache(maxsize=16)  # a vote draws one by one from the subsamples of hundreds of hypotheses
def _key(entropy: int) -> NDArray[np.uint64]:
    """The key of all streams of a seed."""
    key = np.asarray(np.random.SeedSequence(entropy).generate_state(2, np.uint64), dtype=np.uint64)
    key.flags.writeable = False
    return key


def stream(entropy: int, hypothesis: int, purpose: int) -> np.random.Generator:
    """Return the random stream of one hypothesis for one purpose."""
    return np.random.Generator(np.random.Philox(key=_key(entropy), counter=[0, hypothesis, purpose, 0]))


def seed_nested(value: Any, rng: np.random.Generator) -> None:
    """Seed in place what a value holds with a `random_state` of None: splitters, and estimators in lists and grids.

    The parameters of scikit-learn's estimators do not reach these, and without a seed training cannot be repeated.

    >>> from sklearn.model_selection import GridSearchCV, ShuffleSplit
    >>> from sklearn.svm import SVC
    >>> search = GridSearchCV(SVC(), {"C": [1, 10]}, cv=ShuffleSplit(3))
    >>> seed_nested(search, np.random.default_rng(0))
    >>> search.cv.random_state is None
    False
    """
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        for item in value:
            seed_nested(item, rng)
        return
    settings: dict[str, Any] = {}
    if hasattr(value, "get_params") and not isinstance(value, type):
        settings = value.get_params(deep=False)
    elif "random_state" in getattr(value, "__dict__", {}):
        settings = vars(value)
    # A splitter that does not shuffle draws nothing.
    is_random = not hasattr(value, "split") or settings.get("shuffle", True)
    if is_random and settings.get("random_state", 0) is None:
        value.random_state = int(rng.integers(2**31))
    for name in sorted(settings):
        seed_nested(settings[name], rng)


def derive_entropy(entropy: int, part: int | str) -> int:
    """Return the seed of one of several independent parts of a fit, by its number or name."""
    key = (part,) if isinstance(part, int) else tuple(hashlib.sha256(part.encode()).digest())
    return int(np.random.SeedSequence(entropy, spawn_key=key).generate_state(1, np.uint64)[0])


def draw_positions(entropy: int, hypotheses: range, purpose: int, lengths: Sequence[int]) -> NDArray[np.intp]:
    """Draw positions in lists of the given lengths uniformly from the streams of hypotheses, a row for each.

    >>> draw_positions(0, range(3), LEARNER, [5, 3])
    array([[0, 0],
           [3, 0],
           [0, 1]])
    """
    words = np.empty((len(hypotheses), len(lengths)), dtype=np.uint64)
    _streams.words(_key(entropy), purpose, hypotheses.start, words)
    # The upper half of each word as a fraction of 2^32: uniform to 2^-32, far below what lists of this kind could show.
    fractions = words >> np.uint64(32)
    return np.asarray((fractions * np.asarray(lengths, dtype=np.uint64)) >> np.uint64(32), dtype=np.intp)


def permutations(entropy: int, numbers: NDArray[np.int64], purpose: int, count: int) -> NDArray[np.int64]:
    """Return random orders of the numbers below `count`, as `Generator.permutation` gives them for each stream."""
    orders = np.empty((numbers.size, count), dtype=np.int64)
    _streams.permutations(_key(entropy), purpose, numbers, orders)
    return orders


class Subsamples:
    """Training sets S_0, S_1, ... of the hypotheses, as sorted arrays of row numbers below n."""

    # What has to be true of the choice of these training sets: codes of `pacbayes.certificate.assumptions`.
    assumptions: Sequence[str]

    n: int  # sample size
    sizes: NDArray[np.intp]  # training points r of each hypothesis; it is validated on the other n - r

    def __len__(self) -> int:
        return self.sizes.size

    # A subclass has one of the next two methods of its own.

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        """Return the training set of one hypothesis."""
        h = range(len(self))[hypothesis]
        return self.concatenated(range(h, h + 1)).astype(np.intp)

    def concatenated(self, hypotheses: range) -> NDArray[np.int32]:
        """Return the training sets of a range of hypotheses, concatenated."""
        return np.concatenate([np.empty(0, dtype=np.intp), *(self[h] for h in hypotheses)]).astype(np.int32)

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        return (self[h] for h in range(len(self)))

    def locate(self, hypotheses: range, rows: NDArray[np.intp]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Find the training points of a range of hypotheses among some rows, by their numbers, rising.

        Returns the positions in `rows` of those that are there, rising for each hypothesis, one hypothesis after
        another, and how many each of them has.

        >>> subsamples = GivenSubsamples(6, [[0, 3, 5], [1]])
        >>> [part.tolist() for part in subsamples.locate(range(2), np.array([2, 3, 5]))]
        [[1, 2], [2, 0]]
        """
        inside = self.concatenated(hypotheses)
        sizes = self.sizes[hypotheses.start : hypotheses.stop]
        if rows.size == self.n:  # all rows, at their own numbers
            return inside, sizes.astype(np.int64)
        if rows.size == 0:
            return np.empty(0, dtype=np.int32), np.zeros(len(hypotheses), dtype=np.int64)
        first, last = int(rows[0]), int(rows[-1])
        ends = np.concatenate(([0], np.cumsum(sizes)))
        if 2 * (last - first) < self.n:  # a block, of which there may be many
            near = np.flatnonzero((inside >= first) & (inside <= last))
            inside, ends = inside[near], np.searchsorted(near, ends)
        else:
            first, last = 0, self.n - 1
        position = np.full(last - first + 1, -1, dtype=np.int32)
        position[rows - first] = np.arange(rows.size, dtype=np.int32)
        found = position[inside - first]
        present = found >= 0
        return found[present], np.diff(np.concatenate(([0], np.cumsum(present)))[ends])

    def count_among(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Count the training points of every hypothesis that are among some rows, distinct ones.

        >>> GivenSubsamples(6, [[0, 3, 5], [1]]).count_among(np.array([2, 3, 5])).tolist()
        [2, 0]
        """
        return self.locate(range(len(self)), np.sort(rows))[1]

    def rank_within_size(self, hypotheses: range) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which size of several each hypothesis has, and how many of that size come before it."""
        h = np.arange(hypotheses.start, hypotheses.stop)
        return np.zeros_like(h), h

    def cached(self) -> Subsamples:
        """Return these training sets for many uses: what would be drawn anew for each is kept, unless it is large."""
        return self

    def by_family(self) -> Mapping[str, Subsamples]:
        """Return the training sets of each family, by its name; of one family without a name, if there is only one."""
        return {"": self}

    @property
    def families(self) -> dict[str, range]:
        """The hypotheses of each family, by its name."""
        parts = self.by_family()
        ends = np.cumsum([len(part) for part in parts.values()]).tolist()
        return {name: range(end - len(part), end) for (name, part), end in zip(parts.items(), ends, strict=True)}

    @property
    def n_validation(self) -> NDArray[np.intp]:
        """Number n - r of validation points of each hypothesis."""
        return self.n - self.sizes

    def _check_validation(self) -> None:
        """Refuse subsamples that train on nothing or leave nothing to validate on."""
        if self.n >= 2**31:
            raise ValueError(f"samples must have fewer than 2^31 points, got {self.n}")
        if self.sizes.size == 0:
            raise ValueError("there must be at least one subsample, got none")
        if self.sizes.min() < 1:
            raise ValueError(f"subsamples must hold at least 1 point, got a size of {self.sizes.min()}")
        if self.sizes.max() >= self.n:
            raise ValueError(
                f"subsamples must leave points to validate on: sizes must be below n = {self.n}, got {self.sizes.max()}"
            )


class RandomSubsamples(Subsamples):
    """Subsamples of m hypotheses, drawn uniformly without replacement from n rows: the paper's construction.

    Hypotheses take the sizes in turn: hypothesis h has ``sizes[h % len(sizes)]`` points. `entropy` seeds all streams.

    Examples
    --------
    >>> subsamples = RandomSubsamples(n=10, sizes=[2, 4], m=3, entropy=0)
    >>> [s.tolist() for s in subsamples]
    [[1, 5], [1, 2, 4, 9], [1, 2]]
    >>> RandomSubsamples(n=10, sizes=[2, 4], m=1000, entropy=0)[2].tolist()
    [1, 2]
    """

    assumptions = ("subsamples-random",)

    def __init__(self, n: int, sizes: Sequence[int], m: int, entropy: int) -> None:
        self.n = n
        self.entropy = entropy
        self.sizes = np.resize(np.asarray(sizes, dtype=np.intp), m)
        self.n_sizes = len(sizes)
        self._check_validation()

    def rank_within_size(self, hypotheses: range) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        h = np.arange(hypotheses.start, hypotheses.stop)
        return h % self.n_sizes, h // self.n_sizes

    def cached(self) -> Subsamples:
        return ChosenSubsamples(self, np.arange(len(self)))

    def concatenated(self, hypotheses: range) -> NDArray[np.int32]:
        sizes = self.sizes[hypotheses.start : hypotheses.stop].astype(np.int64)
        drawn = np.empty(sizes.sum(), dtype=np.int32)
        _streams.subsamples(_key(self.entropy), SUBSAMPLE, hypotheses.start, self.n, sizes, drawn)
        return drawn


class ChosenSubsamples(Subsamples):
    """Some of the training sets of others, in rising order."""

    def __init__(self, subsamples: Subsamples, chosen: NDArray[np.intp]) -> None:
        self.n = subsamples.n
        self.sizes = subsamples.sizes[chosen]
        self.subsamples = subsamples
        self.chosen = chosen

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        return self.subsamples[int(self.chosen[hypothesis])]

    def rank_within_size(self, hypotheses: range) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        chosen = self.chosen[hypotheses.start : hypotheses.stop]
        size, turn = self.subsamples.rank_within_size(range(len(self.subsamples)))
        return size[chosen], turn[chosen]

    def concatenated(self, hypotheses: range) -> NDArray[np.int32]:
        if not self._is_kept:
            return self._draw(self.chosen[hypotheses.start : hypotheses.stop])
        ends = np.cumsum(self.sizes)
        first = ends[hypotheses.start] - self.sizes[hypotheses.start] if hypotheses else 0
        return self._drawn[first : ends[hypotheses.stop - 1] if hypotheses else 0]

    @property
    def _is_kept(self) -> bool:
        """Whether all of them are drawn at once and kept."""
        return bool(self.sizes.sum() <= _MOST_DRAWN)

    @cached_property
    def _drawn(self) -> NDArray[np.int32]:
        """All of them, drawn once: many blocks of rows ask for them."""
        return self._draw(self.chosen)

    def _draw(self, chosen: NDArray[np.intp]) -> NDArray[np.int32]:
        if not chosen.size:
            return np.empty(0, dtype=np.int32)
        first, last = int(chosen[0]), int(chosen[-1]) + 1
        others = self.subsamples.sizes[first:last].sum() - self.subsamples.sizes[chosen].sum()
        are_kept = isinstance(self.subsamples, ChosenSubsamples) and self.subsamples._is_kept
        if others > _SPARSE_CHOICE * chosen.size and not are_kept:
            return np.concatenate([self.subsamples.concatenated(range(h, h + 1)) for h in chosen.tolist()])
        # Drawing a whole range is faster than drawing one by one.
        wanted = np.zeros(last - first, dtype=bool)
        wanted[chosen - first] = True
        drawn = self.subsamples.concatenated(range(first, last))
        return np.asarray(drawn[np.repeat(wanted, self.subsamples.sizes[first:last])])


# Points of others in a range for each chosen one, from which on drawing one by one is faster.
_SPARSE_CHOICE = 150

# Row numbers that are kept once they are drawn: 64 MiB.
_MOST_DRAWN = 1 << 24


class NoSubsamples(Subsamples):
    """No training sets, of m hypotheses that were trained elsewhere: every point validates."""

    assumptions = ("trained-elsewhere",)

    def __init__(self, n: int, m: int) -> None:
        self.n = n
        self.sizes = np.zeros(m, dtype=np.intp)

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        return np.empty(0, dtype=np.intp)


class GivenSubsamples(Subsamples):
    """Index sets chosen by the caller, who vouches that no label or feature was looked at.

    Each holds the row numbers of a hypothesis's training set, below n and without repetition.

    Examples
    --------
    >>> GivenSubsamples(5, [[3, 0], [4]])[0].tolist()
    [0, 3]
    """

    assumptions = ("subsamples-given",)

    def __init__(self, n: int, index_sets: Sequence[ArrayLike]) -> None:
        self.n = n
        self._index_sets = [self._checked(h, index_set) for h, index_set in enumerate(index_sets)]
        self.sizes = np.array([s.size for s in self._index_sets], dtype=np.intp)
        self._check_validation()

    def _checked(self, hypothesis: int, index_set: ArrayLike) -> NDArray[np.intp]:
        indices = np.asarray(index_set)
        if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                f"index set {hypothesis} must be a one-dimensional array of whole numbers, "
                f"got {indices.dtype} of shape {indices.shape}"
            )
        outside = (indices < 0) | (indices >= self.n)
        if outside.any():
            raise ValueError(
                f"index set {hypothesis} must hold row numbers from 0 to {self.n - 1}, got {indices[outside][0]}"
            )
        ordered = np.unique(indices).astype(np.intp)
        if ordered.size < indices.size:
            raise ValueError(f"index set {hypothesis} must not repeat a row number")
        return ordered

    def __getitem__(self, hypothesis: int) -> NDArray[np.intp]:
        return self._index_sets[hypothesis]


class FoldSubsamples(GivenSubsamples):
    """Training folds of a scikit-learn splitter: the models of a cross-validation, aggregated.

    The splitter is shown n rows of zeros and no labels, so a stratified or grouped one cannot be used. One that was
    made from labels, such as a `PredefinedSplit`, cannot be recognised: the certificate asks the reader.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> [s.tolist() for s in FoldSubsamples(4, KFold(2))]
    [[2, 3], [0, 1]]
    """

    assumptions = ("subsamples-splitter",)

    def __init__(self, n: int, splitter: Any) -> None:
        super().__init__(n, [train for train, _ in split_blindly("subsamples", splitter, n)])


def split_blindly(name: str, splitter: Any, n: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the folds of a splitter, which is shown no data, or raise ValueError naming the parameter."""
    try:
        return list(splitter.split(np.zeros((n, 1))))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be {splitter!r}, which cannot split {n} rows without seeing labels or groups: {error}"
        ) from error


class UnionSubsamples(Subsamples):
    """Training sets of several families of hypotheses, by their names, one family after another.

    >>> union = UnionSubsamples({"a": GivenSubsamples(6, [[0, 3], [1]]), "b": GivenSubsamples(6, [[5]])})
    >>> [s.tolist() for s in union], union.families
    ([[0, 3], [1], [5]], {'a': range(0, 2), 'b': range(2, 3)})
    """

    def __init__(self, parts: Mapping[str, Subsamples]) -> None:
        self.parts = dict(parts)
        self.n = next(iter(self.parts.values())).n
        self.sizes = np.concatenate([part.sizes for part in self.parts.values()])

    @property
    def assumptions(self) -> list[str]:  # type: ignore[override]
        return list(dict.fromkeys(code for part in self.parts.values() for code in part.assumptions))

    def by_family(self) -> Mapping[str, Subsamples]:
        return self.parts

    def concatenated(self, hypotheses: range) -> NDArray[np.int32]:
        drawn = [np.empty(0, dtype=np.int32)]
        for name, own in self.families.items():
            inside = range(max(own.start, hypotheses.start), min(own.stop, hypotheses.stop))
            if inside:
                drawn.append(self.parts[name].concatenated(range(inside.start - own.start, inside.stop - own.start)))
        return np.concatenate(drawn)


def split_reserved(n: int, size: int, entropy: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw rows to be reserved for choices that shape all hypotheses; return them and the rows that are left.

    Examples
    --------
    >>> reserved, rest = split_reserved(n=10, size=2, entropy=0)
    >>> reserved.size, rest.size, np.intersect1d(reserved, rest).size
    (2, 8, 0)
    """
    order = stream(entropy, 0, RESERVE).permutation(n)
    return np.sort(order[:size]), np.sort(order[size:])


def validation_order(n: int, entropy: int) -> NDArray[np.int32]:
    """Draw the order in which rows validate hypotheses, the same for all of them."""
    return stream(entropy, 0, ORDER).permutation(np.arange(n, dtype=np.int32))


def resolve_size(name: str, size: Any, n: int) -> int:
    """Return a number of points, given as such or as a fraction of n, or raise ValueError naming the parameter."""
    if isinstance(size, Integral) and not isinstance(size, bool):
        points = int(size)
    elif isinstance(size, Real) and 0 < float(size) < 1:
        points = max(1, round(float(size) * n))
    else:
        raise ValueError(f"{name} must be a number of points or a fraction in (0, 1), got {size!r}")
    if not 1 <= points < n:
        raise ValueError(f"{name} must be at least 1 and leave points to validate on: below n = {n}, got {size!r}")
    return points


def subsample_sizes(subsample_size: Any, n: int, d: int) -> list[int]:
    """Return the sizes r that the hypotheses take in turn.

    Parameters
    ----------
    subsample_size : int, float, "auto", "paper" or sequence of int and float
        As in `PACBayesClassifier`.
    n, d : int
        Number of points and of features.

    Examples
    --------
    >>> subsample_sizes("auto", n=2000, d=40)
    [250, 500, 1000, 1300, 1600]
    >>> subsample_sizes("paper", n=2000, d=3)
    [45]
    """
    if isinstance(subsample_size, str):
        smallest = d + 1 if d > 3 else round(math.sqrt(n))
        if subsample_size == "paper":
            if smallest >= n:
                raise ValueError(
                    f"subsample_size='paper' takes {smallest} points and leaves none of n = {n} to validate on: "
                    "give a smaller number"
                )
            return [smallest]
        if subsample_size == "auto":
            return sorted({max(1, int(share * min(n, _MOST_ROWS))) for share in _LADDER})
        raise ValueError(f"subsample_size must be 'auto', 'paper' or sizes, got {subsample_size!r}")
    sizes = list(subsample_size) if is_several(subsample_size) else [subsample_size]
    if not sizes:
        raise ValueError("subsample_size must name at least one size, got an empty sequence")
    return [resolve_size("subsample_size", size, n) for size in sizes]


def default_sampling(n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
    """Return the subsample sizes that SVMs take in turn, and their number, where nothing is set."""
    sizes = subsample_sizes("auto", n, d)
    return sizes, _HYPOTHESES_PER_SIZE * len(sizes)


def divide_in_proportion(total: int, parts: Sequence[int]) -> list[int]:
    """Divide a number in proportion to others, at least 1 each, by largest remainders.

    >>> divide_in_proportion(100, [225, 8, 8]), divide_in_proportion(3, [225, 8, 8])
    ([92, 4, 4], [1, 1, 1])
    """
    if total < len(parts):
        raise ValueError(f"n_hypotheses must be at least the number of families, {len(parts)}, got {total}")
    quotas = np.asarray(parts) / np.sum(parts) * (total - len(parts))
    shares = np.floor(quotas).astype(int)
    first = np.argsort(-(quotas - shares), kind="stable")[: total - len(parts) - shares.sum()]
    shares[first] += 1
    return [int(share) + 1 for share in shares]


@dataclass(frozen=True)
class SamplingPlan:
    """The user's choice of training sets, before the number of rows is known: settings of `PACBayesClassifier`."""

    n_hypotheses: int | Literal["auto"]
    subsample_size: Any
    subsamples: Any  # training sets instead of random ones
    entropy: int  # seed of all streams
    tested: bool = True  # whether held-out rows test the vote, or its bounds rest on the rows outside the subsamples
    in_union: bool = False  # whether hypotheses are those of one of several families

    def draw(self, n: int, d: int, default: Callable[..., tuple[list[int], int]] = default_sampling) -> Subsamples:
        """Return the training sets of all hypotheses over n rows of d features.

        `default` gives the sizes and the number of hypotheses that "auto" stands for. Where sizes are set and the
        number is not, there are as many for each size as by default.
        """
        if self.subsamples is not None:
            self.refuse_sizes("subsamples are given")
            if hasattr(self.subsamples, "split"):
                splitter = copy.copy(self.subsamples)
                seed_nested(splitter, stream(self.entropy, 0, SUBSAMPLE))
                return FoldSubsamples(n, splitter)
            return GivenSubsamples(n, list(self.subsamples))
        auto_sizes, auto_number = default(n, d, tested=self.tested)
        sizes = auto_sizes if is_auto(self.subsample_size) else subsample_sizes(self.subsample_size, n, d)
        per_size = math.ceil(auto_number / len(auto_sizes))
        m = auto_number if sizes is auto_sizes else per_size * len(sizes)
        return RandomSubsamples(n, sizes, m if is_auto(self.n_hypotheses) else int(self.n_hypotheses), self.entropy)

    def fill(self, n_hypotheses: Any, subsample_size: Any) -> SamplingPlan:
        """Return the plan with other settings for what is left at "auto"."""
        numbers = n_hypotheses if is_auto(self.n_hypotheses) else self.n_hypotheses
        sizes = subsample_size if is_auto(self.subsample_size) else self.subsample_size
        return self if self.subsamples is not None else replace(self, n_hypotheses=numbers, subsample_size=sizes)

    def refuse_sizes(self, reason: str) -> None:
        """Raise ValueError if the number or the sizes of subsamples are set although they cannot be chosen."""
        for name in ("n_hypotheses", "subsample_size"):
            value = getattr(self, name)
            if not is_auto(value):
                raise ValueError(f"{name} must be left at 'auto' where {reason}, got {value!r}")
