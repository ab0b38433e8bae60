"""Hypotheses of several kinds, each stored in its own way, as one sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._base import Codes, Hypotheses, Numbers, Sample
from pacbayes.sampling import ChosenSubsamples, Subsamples

# Name of the group of hypotheses that were not trained.
_UNTRAINED = "untrained"


class HypothesisGroups(Hypotheses):
    """Hypotheses of several kinds.

    Parameters
    ----------
    groups : mapping of str to Hypotheses
        The hypotheses of each kind.
    kind : ndarray of shape (m,)
        Kind of each hypothesis, as a position in the sorted names of `groups`. Hypotheses of the same kind have the
        same order here and in their group.
    """

    def __init__(self, groups: Mapping[str, Hypotheses], kind: NDArray[np.intp]) -> None:
        self.groups = {name: groups[name] for name in sorted(groups)}
        self.kind = kind
        self.classes = next(iter(self.groups.values())).classes

    def _members(self) -> list[tuple[Hypotheses, NDArray[np.intp]]]:
        """Return each group with the positions of its hypotheses."""
        return [(group, np.flatnonzero(self.kind == k)) for k, group in enumerate(self.groups.values())]

    @property
    def predict_by_row(self) -> bool:
        return all(group.predict_by_row for group in self.groups.values())

    def __sizeof__(self) -> int:
        return super().__sizeof__() + sum(group.__sizeof__() for group in self.groups.values())

    def __len__(self) -> int:
        return self.kind.size

    def __getitem__(self, h: Any) -> Any:
        if isinstance(h, slice):
            return self.take(np.arange(len(self))[h])
        group, position = self._locate(range(len(self))[h])
        return group[position]

    def _locate(self, h: int) -> tuple[Hypotheses, int]:
        group = list(self.groups.values())[self.kind[h]]
        return group, int(np.count_nonzero(self.kind[:h] == self.kind[h]))

    def take(self, chosen: Codes) -> HypothesisGroups:
        within = np.empty(len(self), dtype=np.intp)
        for _, positions in self._members():
            within[positions] = np.arange(positions.size)
        kept = np.unique(self.kind[chosen])
        names = list(self.groups)
        groups = {names[k]: self.groups[names[k]].take(within[chosen[self.kind[chosen] == k]]) for k in kept}
        return HypothesisGroups(groups, np.searchsorted(kept, self.kind[chosen]))

    @classmethod
    def concatenate(cls, parts: Sequence[HypothesisGroups]) -> HypothesisGroups:
        names = sorted({name for part in parts for name in part.groups})
        groups = {}
        for name in names:
            members = [part.groups[name] for part in parts if name in part.groups]
            groups[name] = members[0].concatenate(members)
        kinds = [np.array([names.index(name) for name in part.groups], dtype=np.intp)[part.kind] for part in parts]
        return cls(groups, np.concatenate(kinds))

    def keep_training_points(self, sample: Sample) -> HypothesisGroups:
        return HypothesisGroups(
            {name: group.keep_training_points(sample) for name, group in self.groups.items()}, self.kind
        )

    def leave_device(self) -> None:
        for group in self.groups.values():
            group.leave_device()

    def votes(self, X: Any) -> NDArray[Any]:
        return self.votes_and_doubts(X)[0]

    def votes_and_doubts(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        votes = np.empty((len(self), X.shape[0]), dtype=np.intp)
        doubts = np.empty(votes.shape, dtype=bool)
        for group, positions in self._members():
            votes[positions], doubts[positions] = group.votes_and_doubts(X)
        return votes, doubts

    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        totals = np.empty(len(self))
        started = []
        for group, positions in self._members():
            own = ChosenSubsamples(subsamples, positions + hypotheses.start)
            started.append((positions, group.start_loss_totals(sample, own, range(positions.size), rows, loss)))
        for positions, finish in started:
            totals[positions] = finish()
        return totals

    def assumptions(self) -> list[str]:
        return next(iter(self.groups.values())).assumptions()

    def describe(self, h: int) -> str:
        group, position = self._locate(h)
        return group.describe(position)

    def fingerprint(self) -> Any:
        return [self.kind, {name: group.fingerprint() for name, group in self.groups.items()}]


class NotTrained:
    """A hypothesis that was not trained, since those of its kind lost on smaller subsamples. It has no weight."""

    def __repr__(self) -> str:
        return "NotTrained()"

    def predict(self, X: Any) -> NDArray[Any]:
        """Raise HypothesisError."""
        raise HypothesisError(
            "this hypothesis was not trained, since those of its kind lost on smaller subsamples: fit with "
            "racing=False to train all"
        )


class Untrained(Hypotheses):
    """Hypotheses that were not trained and have no weight.

    Parameters
    ----------
    size : int
        How many.
    classes : ndarray
        All class labels, sorted.
    """

    def __init__(self, size: int, classes: NDArray[Any]) -> None:
        self.size = size
        self.classes = classes

    @property
    def predict_by_row(self) -> bool:
        return True

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, h: Any) -> Any:
        positions = range(self.size)[h]
        return Untrained(len(positions), self.classes) if isinstance(positions, range) else NotTrained()

    def take(self, chosen: Codes) -> Untrained:
        return Untrained(len(chosen), self.classes)

    @classmethod
    def concatenate(cls, parts: Sequence[Untrained]) -> Untrained:
        return cls(sum(len(part) for part in parts), parts[0].classes)

    def votes(self, X: Any) -> NDArray[Any]:
        return NotTrained().predict(X)

    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        return np.asarray(NotTrained().predict(sample.X))

    def describe(self, h: int) -> str:
        return "not trained: its kind lost on smaller subsamples"

    def fingerprint(self) -> Any:
        return ["untrained", self.size, self.classes]


def with_untrained(parts: Sequence[Hypotheses], numbers: Sequence[Codes], m: int) -> Hypotheses:
    """Put hypotheses that were trained in parts in order, with `Untrained` ones in place of those that are missing.

    `numbers` says which hypotheses each part holds, rising.
    """
    trained, together = np.concatenate(numbers), parts[0]
    if len(parts) > 1:
        together = together.concatenate(parts).take(np.argsort(trained))
    if trained.size == m:
        return together
    whole = together if isinstance(together, HypothesisGroups) else None
    groups = {"trained": together} if whole is None else dict(whole.groups)
    names = sorted([*groups, _UNTRAINED])
    kind = np.full(m, names.index(_UNTRAINED), dtype=np.intp)
    of_group = np.array([names.index(name) for name in sorted(groups)], dtype=np.intp)
    kind[np.sort(trained)] = of_group[0] if whole is None else of_group[whole.kind]
    return HypothesisGroups({**groups, _UNTRAINED: Untrained(m - trained.size, together.classes)}, kind)
