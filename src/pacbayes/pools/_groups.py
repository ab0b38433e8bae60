"""Hypotheses of several kinds, each stored in its own way, as one sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._base import Codes, Hypotheses, Sample, ValidationBlock, VoteBy

# Name of the group of hypotheses that were not trained.
_UNTRAINED = "untrained"


class HypothesisGroups(Hypotheses):
    """Hypotheses of several kinds: a group of each kind, by its name, in which they have the same order as here.

    `kind`, of shape (m,), is the kind of each hypothesis, as a position in the sorted names of the groups.
    """

    def __init__(self, groups: Mapping[str, Hypotheses], kind: NDArray[np.intp]) -> None:
        self.groups = {name: groups[name] for name in sorted(groups)}
        self.kind = kind
        self.classes = next(iter(self.groups.values())).classes

    @classmethod
    def of(cls, groups: Mapping[str, Hypotheses], names: Sequence[str]) -> HypothesisGroups:
        """Return hypotheses of groups in the order of the name of the group of each."""
        place = {name: k for k, name in enumerate(sorted(groups))}
        return cls(groups, np.array([place[name] for name in names], dtype=np.intp))

    @property
    def names(self) -> list[str]:
        """Name of the group of each hypothesis."""
        known = list(self.groups)
        return [known[k] for k in self.kind]

    def _members(self) -> list[tuple[Hypotheses, NDArray[np.intp]]]:
        """Return each group with the positions of its hypotheses."""
        return [(group, np.flatnonzero(self.kind == k)) for k, group in enumerate(self.groups.values())]

    @property
    def predict_by_row(self) -> bool:  # type: ignore[override]
        """Whether all groups are known to predict a row by itself."""
        return all(group.predict_by_row for group in self.groups.values())

    def __sizeof__(self) -> int:
        return super().__sizeof__() + sum(group.__sizeof__() for group in self.groups.values())

    def __len__(self) -> int:
        return self.kind.size

    def get_one(self, h: int) -> Any:
        kind = self.kind[h]
        return list(self.groups.values())[kind][int(np.count_nonzero(self.kind[:h] == kind))]

    def take(self, chosen: Codes) -> HypothesisGroups:
        within = np.empty(len(self), dtype=np.intp)
        for _, positions in self._members():
            within[positions] = np.arange(positions.size)
        left, kind = np.unique(self.kind[chosen], return_inverse=True)
        names = [list(self.groups)[k] for k in left]
        groups = {name: self.groups[name].take(within[chosen[kind == k]]) for k, name in enumerate(names)}
        return HypothesisGroups(groups, kind)

    @classmethod
    def concatenate(cls, parts: Sequence[HypothesisGroups]) -> HypothesisGroups:
        names = sorted({name for part in parts for name in part.groups})
        groups = {}
        for name in names:
            of_kind = [part.groups[name] for part in parts if name in part.groups]
            groups[name] = of_kind[0].concatenate(of_kind)
        return cls.of(groups, [name for part in parts for name in part.names])

    def keep_training_points(self, sample: Sample) -> HypothesisGroups:
        groups = {name: group.keep_training_points(sample) for name, group in self.groups.items()}
        return HypothesisGroups(groups, self.kind)

    def leave_device(self) -> None:
        for group in self.groups.values():
            group.leave_device()

    def _in_order(self, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
        """Put what groups give, a row for each of their hypotheses, in the order of all hypotheses."""
        given = list(parts)
        together = np.empty((len(self), *given[0].shape[1:]), dtype=np.result_type(*given))
        for k, own in enumerate(given):
            together[self.kind == k] = own
        return together

    def votes_and_uncertain(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        votes, uncertain = zip(*(group.votes_and_uncertain(X) for group in self.groups.values()), strict=True)
        together = self._in_order(votes)
        return together if self.is_numeric else together.astype(np.intp, copy=False), self._in_order(uncertain)

    @property
    def vote_by(self) -> VoteBy:  # type: ignore[override]
        """How they vote: by probabilities, if a group does."""
        return "probabilities" if any(one.vote_by == "probabilities" for one in self.groups.values()) else "labels"

    def by_labels(self) -> HypothesisGroups:
        return HypothesisGroups({name: group.by_labels() for name, group in self.groups.items()}, self.kind)

    def add_votes(self, X: Any, weights: Array, tallies: Array, uncertain_weight: Array | None = None) -> None:
        if self.vote_by == "labels":  # in their own order, in which equal weights give equal sums
            super().add_votes(X, weights, tallies, uncertain_weight)
            return
        for group, positions in self._members():
            group.add_votes(X, weights[positions], tallies, uncertain_weight)

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        return self._in_order(group.responses(X, loss) for group in self.groups.values())

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        started = [group.start_loss_totals(block.take(positions)) for group, positions in self._members()]
        return lambda: self._in_order(finish() for finish in started)

    def assumptions(self) -> list[str]:
        return list(dict.fromkeys(code for group in self.groups.values() for code in group.assumptions()))

    def fingerprint(self) -> Any:
        return [self.kind, {name: group.fingerprint() for name, group in self.groups.items()}]


class NotTrained:
    """A hypothesis that was not trained, since its kind lost on smaller subsamples, or that a file does not keep."""

    def __repr__(self) -> str:
        return "NotTrained()"

    def __str__(self) -> str:
        return "not trained: its kind lost on smaller subsamples"

    def predict(self, X: Any) -> NDArray[Any]:
        """Raise HypothesisError."""
        raise HypothesisError(
            "this hypothesis was not trained, since those of its kind lost on smaller subsamples: fit with "
            "racing=False to train all. Or its vote lost, and the model comes from a file, which keeps the "
            "hypotheses of the vote that predicts"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Untrained(Hypotheses):
    """Hypotheses that were not trained and have no weight, or those of a vote that lost, which files do not keep."""

    size: int
    classes: NDArray[Any]

    predict_by_row = True

    def __len__(self) -> int:
        return self.size

    def get_one(self, h: int) -> NotTrained:
        return NotTrained()

    def take(self, chosen: Codes) -> Untrained:
        return Untrained(len(chosen), self.classes)

    @classmethod
    def concatenate(cls, parts: Sequence[Untrained]) -> Untrained:
        return cls(sum(len(part) for part in parts), parts[0].classes)

    def votes_and_uncertain(self, X: Any) -> Any:
        return NotTrained().predict(X)

    def start_loss_totals(self, block: ValidationBlock) -> Any:
        return NotTrained().predict(block.sample.X)

    def fingerprint(self) -> Any:
        return ["untrained", self.size, self.classes]


def with_untrained(parts: Sequence[Hypotheses], numbers: Sequence[Codes], m: int) -> Hypotheses:
    """Put hypotheses of parts in the order of their rising `numbers`, with `Untrained` ones in the place of others."""
    trained, together = np.concatenate(numbers), parts[0]
    if len(parts) > 1:
        together = together.concatenate(parts).take(np.argsort(trained))
    if trained.size == m:
        return together
    groups, own = {"trained": together}, ["trained"] * trained.size
    if isinstance(together, HypothesisGroups):
        groups, own = together.groups, together.names
    names = np.full(m, _UNTRAINED, dtype=object)
    names[np.sort(trained)] = own
    return HypothesisGroups.of({**groups, _UNTRAINED: Untrained(m - trained.size, together.classes)}, names.tolist())


def join_families(families: Mapping[str, Hypotheses]) -> Hypotheses:
    """Return the hypotheses of families in groups, each called by its family, or by that and its own name."""
    if list(families) == [""]:
        return families[""]
    groups: dict[str, Hypotheses] = {}
    names: list[str] = []  # of the group of each hypothesis
    for family, hypotheses in families.items():
        if isinstance(hypotheses, HypothesisGroups):
            groups |= {f"{family}/{name}": group for name, group in hypotheses.groups.items()}
            names += [f"{family}/{name}" for name in hypotheses.names]
        else:
            groups[family] = hypotheses
            names += [family] * len(hypotheses)
    return HypothesisGroups.of(groups, names)
