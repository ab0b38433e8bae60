"""Hypotheses of several kinds, each stored in its own way, as one sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.losses import Loss
from pacbayes.pools._base import Codes, Hypotheses, Sample
from pacbayes.sampling import ChosenSubsamples, Subsamples


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

    def votes(self, X: Any) -> NDArray[Any]:
        return self.votes_and_doubts(X)[0]

    def votes_and_doubts(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        votes = np.empty((len(self), X.shape[0]), dtype=np.intp)
        doubts = np.empty(votes.shape, dtype=bool)
        for group, positions in self._members():
            votes[positions], doubts[positions] = group.votes_and_doubts(X)
        return votes, doubts

    def loss_totals(self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: range, loss: Loss) -> Array:
        totals = np.empty(len(self))
        for group, positions in self._members():
            own = ChosenSubsamples(subsamples, positions + hypotheses.start)
            totals[positions] = group.loss_totals(sample, own, range(positions.size), rows, loss)
        return totals

    def describe(self, h: int) -> str:
        group, position = self._locate(h)
        return group.describe(position)

    def fingerprint(self) -> Any:
        return [self.kind, {name: group.fingerprint() for name, group in self.groups.items()}]
