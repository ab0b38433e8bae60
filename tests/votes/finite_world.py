"""Distributions over finitely many inputs and labels, in exact arithmetic: every expectation is a finite sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st


@dataclass(frozen=True)
class World:
    """P(x, y) for inputs and labels, what voter h predicts at x, and the weights of the vote."""

    joint: list[list[Fraction]]
    voters: list[list[int]]
    rho: list[Fraction]

    @property
    def inputs(self) -> range:
        return range(len(self.joint))

    @property
    def classes(self) -> range:
        return range(len(self.joint[0]))

    def probability(self, x: int) -> Fraction:
        return sum(self.joint[x], Fraction(0))

    def shares(self, x: int) -> list[Fraction]:
        """Weight behind each class at x."""
        return [
            sum((r for r, table in zip(self.rho, self.voters, strict=True) if table[x] == c), Fraction(0))
            for c in self.classes
        ]

    def vote(self) -> list[int]:
        """The vote, with ties broken in the worst way."""
        predicted = []
        for x in self.inputs:
            shares = self.shares(x)
            winners = [c for c in self.classes if shares[c] == max(shares)]
            predicted.append(min(winners, key=lambda c, x=x: self.joint[x][c]))
        return predicted

    def error(self, predicted: list[int]) -> Fraction:
        return sum((self.probability(x) - self.joint[x][predicted[x]] for x in self.inputs), Fraction(0))

    def wrong_weight_moment(self, power: int) -> Fraction:
        """E[W^power] for the weight W of the voters that err: Gibbs loss for 1, tandem loss for 2."""
        return sum(
            (self.joint[x][y] * (1 - self.shares(x)[y]) ** power for x in self.inputs for y in self.classes),
            Fraction(0),
        )

    def mean(self, values: list[Fraction]) -> Fraction:
        """Expectation of a function of the input."""
        return sum((self.probability(x) * values[x] for x in self.inputs), Fraction(0))


def _normalised(counts: list[int]) -> list[Fraction]:
    total = sum(counts)
    return [Fraction(count, total) for count in counts]


@st.composite
def worlds(draw: st.DrawFn, classes: tuple[int, int] = (2, 3), most_voters: int = 5) -> World:
    n_classes = draw(st.integers(*classes))
    n_inputs = draw(st.integers(1, 4))
    m = draw(st.integers(1, most_voters))
    label = st.integers(0, n_classes - 1)
    voters = draw(st.lists(st.lists(label, min_size=n_inputs, max_size=n_inputs), min_size=m, max_size=m))
    size = n_inputs * n_classes
    # Zeros are frequent, as are labels that are certain: that is where the inequalities are tight.
    count = st.one_of(st.just(0), st.integers(0, 12))
    flat = _normalised(draw(st.lists(count, min_size=size, max_size=size).filter(any)))
    rho = _normalised(draw(st.lists(st.integers(0, 6), min_size=m, max_size=m).filter(any)))
    joint = [flat[x * n_classes : (x + 1) * n_classes] for x in range(n_inputs)]
    return World(joint, voters, rho)
