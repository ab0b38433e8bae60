"""Does every statement of a certificate hold as often as it says? Worlds in which the truth is known exactly.

Points fall into a few cells with known probabilities of cell and label, and hypotheses are tables of labels: the true
loss of any predictor is a finite sum. For every data set the hypotheses are validated, weighted and certified by
`pacbayes.certificate`, with held-out and unlabelled points where a statement needs them, and every bound is compared
with the truth. A row of the table is a kind of statement in one case at one delta:

    stated      share of data sets on which the statement was made; which one is made may depend on the losses
    violations  number of data sets on which it was made and false
    p           probability of at least as many violations if a statement were false with probability delta
    bound       mean bound, where it was made
    truth       mean true loss, where it was made

In the last of these cases the best of several votes is certified as if there were only one, and the statements fail.

Then the rates by class, misses and false alarms, which are stated jointly: a violation is a data set on which any of
them is above its bound, and bound and truth are those of the rate that comes nearest to its bound or is farthest above
it. In the last cases the price for several votes or for several rates is not paid, and they fail.

Errors by group are stated jointly as well. Groups are labels, of which a sample may lack some, or masks that overlap.
In the last cases the group with the fewest errors is found on the held-out points and declared alone, and fails.

A known shift: points of P are kept by their weights, and the bound is compared with the loss under Q. In the last cases
weights are clipped, or the largest weight is that of the sample instead of one declared beforehand, and they fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from pacbayes.certificate import (
    FIT_ASSUMPTIONS,
    Certificate,
    Confusion,
    GroupCounts,
    Statement,
    certify,
    choose_voters,
    with_confusion,
    with_test,
    with_unlabelled,
)
from pacbayes.fitting import Groups, Weighting

DELTAS = (0.05, 0.3)

# A bound may touch the truth; the truth is a sum of floats.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class World:
    """Cells with their probabilities and P(label = 1), and hypotheses as labels by cell."""

    cells: list[float]
    ones: list[float]
    hypotheses: list[list[int]]

    @property
    def outcomes(self) -> np.ndarray:
        """Probability of each pair of cell and label."""
        ones = np.array(self.ones)
        return (np.array(self.cells)[:, np.newaxis] * np.stack((1 - ones, ones), axis=1)).ravel()

    def loss(self, predicted: np.ndarray) -> np.ndarray:
        """Loss of predictions, whose last axis is the cells, by outcome."""
        wrong = np.stack((predicted == 1, predicted == 0), axis=-1).astype(float)
        return wrong.reshape(*predicted.shape[:-1], -1)


@dataclass(frozen=True)
class Case:
    """A world, numbers of points, and what is certified."""

    name: str
    world: World
    n: Any  # validation points of each hypothesis
    settings: dict[str, Any] = field(default_factory=dict)  # of `certify`
    apart: bool = False  # whether every hypothesis has validation points of its own; otherwise they share the first
    n_test: int = 0
    n_unlabelled: int = 0
    n_votes: int = 1  # which compete, each with a sample of its own and the same truth: the smallest bound wins
    # If given, all votes share one sample of `n` points, and vote k is made of this share of it and tested on the rest,
    # as the classifier does.
    shares: tuple[float, ...] = ()
    declared_votes: int | None = None  # that the certificate is told, if it is not the true number


def alike(loss: float, m: int) -> World:
    """Return a world with m hypotheses of the same true loss."""
    return World([1.0], [loss], [[0]] * m)


# (1 - L)^20 + 20 L (1 - L)^19 is just below 0.05: one error or none on 20 points is as rare as Clopper-Pearson allows.
TIGHT = 0.2162
# Half of the weight errs in the second cell, and ties go to the first class: the vote errs twice as often as a voter.
TIE = World([0.85, 0.15], [0, 1], [[0, 0], [0, 1]])
# Two of three err together: the vote errs 3/2 times as often as a voter.
TWO_OF_THREE = World([0.85, 0.15], [0, 1], [[0, 0], [0, 0], [0, 1]])
HEAVY = World([0.7, 0.3], [0.1, 0.9], [[0, 0], [1, 1], [1, 0]])
CORRELATED = World(
    [0.6, 0.28, 0.04, 0.04, 0.04],
    [0.05, 0.95, 1, 1, 1],
    [[0, 1, 0, 1, 1]] * 4 + [[0, 1, 1, 0, 1]] * 4 + [[0, 1, 1, 1, 0]] * 4,
)
NOISE = World([0.5, 0.5], [0.5, 0.5], [[0, 0], [0, 1]])
# The vote errs where the one good voter disagrees with it.
DISSENT = World([0.55, 0.45], [0, 1], [[0, 1], [0, 0], [0, 0]])
# Weights move around one half with the errors, and so does the vote.
NEAR_TIE = World([0.5, 0.3, 0.2], [0.1, 0.8, 0.55], [[0, 1, 1], [0, 0, 1], [0, 1, 0]])

DUAL = {"objective": "dual"}
KL = {"objective": "kl"}
UNIFORM = {"voting": "uniform"}
BEST = {"voting": "best"}
GIBBS = {"voting": "gibbs"}
# Not called zero-one: no counts of errors are assumed, nor is anything said about a majority.
OTHER_LOSS = {"loss": "other"}

CASES = [
    Case("one hypothesis", alike(TIGHT, 1), 20),
    Case("one hypothesis, dual", alike(TIGHT, 1), 20, DUAL),
    Case("one hypothesis, best", alike(TIGHT, 1), 20, BEST),
    Case("one hypothesis, best, other loss", alike(TIGHT, 1), 20, BEST | OTHER_LOSS),
    Case("best of 3 alike, apart", alike(0.3, 3), 15, BEST, apart=True),
    Case("best of 3 alike, apart, other loss", alike(0.3, 3), 15, BEST | OTHER_LOSS, apart=True),
    Case("best of 3 alike, apart, unequal sets", alike(0.25, 3), [6, 12, 24], BEST, apart=True),
    Case("3 alike, apart, unequal sets, dual", alike(0.25, 3), [4, 8, 16], DUAL, apart=True),
    Case("3 alike, apart, unequal sets, lambda", alike(0.25, 3), [4, 8, 16], apart=True),
    Case("3 alike, apart, kl", alike(0.3, 3), 6, KL, apart=True),
    Case("strongly correlated, lambda", CORRELATED, 25),
    Case("strongly correlated, dual", CORRELATED, 25, DUAL),
    Case("labels are noise, kl", NOISE, 12, KL),
    Case("labels are noise, dual, randomised", NOISE, [10, 20], DUAL | GIBBS),
    Case("tie", TIE, 30, UNIFORM),
    Case("tie, unequal sets", TIE, [15, 60], UNIFORM),
    Case("two of three err together", TWO_OF_THREE, 30, UNIFORM),
    Case("two of three err together, unequal sets", TWO_OF_THREE, [15, 30, 60], UNIFORM),
    Case("one heavy voter", HEAVY, 30, UNIFORM | {"prior": [0.8, 0.1, 0.1]}),
    Case("one heavy voter, unequal sets", HEAVY, [8, 16, 24], UNIFORM | {"prior": [0.8, 0.1, 0.1]}),
    Case("near a tie, dual", NEAR_TIE, 12, DUAL),
    Case("few unlabelled points", DISSENT, 2000, UNIFORM, n_unlabelled=8),
    Case("few unlabelled and labelled points", DISSENT, 60, UNIFORM, n_unlabelled=20),
    Case("near a tie, few unlabelled points", NEAR_TIE, 6, n_unlabelled=5),
    Case("tested vote near a tie", NEAR_TIE, 12, UNIFORM, n_test=20),
    Case("tested vote, one hypothesis", alike(TIGHT, 1), 5, UNIFORM, n_test=20),
    Case("tested randomised classifier", NOISE, 12, GIBBS, n_test=20),
    Case("tested best hypothesis", alike(TIGHT, 2), 5, BEST, apart=True, n_test=20),
    Case("tested vote, other loss", alike(TIGHT, 1), 5, UNIFORM | OTHER_LOSS, n_test=20),
    Case("2 votes, equal truth", alike(TIGHT, 1), 5, UNIFORM, n_test=20, n_votes=2),
    Case("10 votes, equal truth", alike(0.3, 1), 5, UNIFORM, n_test=20, n_votes=10),
    Case("10 votes, equal truth, other loss", alike(0.3, 1), 5, UNIFORM | OTHER_LOSS, n_test=20, n_votes=10),
    Case("default, one sample", NEAR_TIE, 30, DUAL, n_votes=2, shares=(0.5, 0.65)),
    Case(
        "default, one sample, few unlabelled",
        DISSENT,
        60,
        DUAL | UNIFORM,
        n_votes=2,
        shares=(0.5, 0.65),
        n_unlabelled=8,
    ),
]
BROKEN = Case("10 votes, declared as one", alike(0.3, 1), 5, UNIFORM, n_test=20, n_votes=10, declared_votes=1)


class Row(NamedTuple):
    """What happened to one kind of statement in one case at one delta."""

    method: str
    case: str
    delta: float
    repetitions: int
    stated: int
    violations: int
    mean_bound: float
    mean_truth: float

    @classmethod
    def of(cls, method: str, case: str, delta: float, found: list[tuple[float, float]], repetitions: int) -> Row:
        """Return a row of bounds and truths, one of each for every data set on which the statement was made."""
        bound, truth = np.array(found).T
        violations = int(np.count_nonzero(bound < truth - TOLERANCE))
        return cls(method, case, delta, repetitions, bound.size, violations, float(bound.mean()), float(truth.mean()))

    @property
    def p_value(self) -> float:
        """Probability of at least as many violations if the statement were false with probability delta."""
        return float(stats.binom.sf(self.violations - 1, self.repetitions, self.delta))


# ---------------------------------------------------------------------------------------------------
# Data sets
# ---------------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """What one vote is made of and tested on, in many data sets."""

    n: np.ndarray  # (m,): validation points
    totals: np.ndarray  # (repetitions, m): validation losses, summed
    test: np.ndarray  # (repetitions, outcomes): numbers of held-out points


def draw(case: Case, repetitions: int, rng: np.random.Generator) -> list[Data]:
    """Draw data sets: one entry for each of the votes that compete."""
    outcomes = case.world.outcomes
    tables = np.array(case.world.hypotheses)
    losses = case.world.loss(tables)
    if case.shares:
        return _draw_from_one_sample(case, repetitions, rng)
    n = np.broadcast_to(np.array(case.n), tables.shape[:1])
    votes = []
    for _ in range(case.n_votes):
        if case.apart:
            counts = np.stack([rng.multinomial(size, outcomes, repetitions) for size in n], axis=1)
        else:
            sizes, place = np.unique(n, return_inverse=True)
            blocks = [rng.multinomial(size, outcomes, repetitions) for size in np.diff(sizes, prepend=0)]
            counts = np.cumsum(np.stack(blocks, axis=1), axis=1)[:, place]
        totals = (counts * losses).sum(axis=2)
        votes.append(Data(n, totals, rng.multinomial(case.n_test, outcomes, repetitions)))
    return votes


def _draw_from_one_sample(case: Case, repetitions: int, rng: np.random.Generator) -> list[Data]:
    """Two votes from label-blind parts of one sample, each tested on the rows that it is not made of."""
    first, second = (round(share * case.n) for share in case.shares)
    both = round(first * second / case.n)
    sizes = {(1, 1): both, (1, 0): first - both, (0, 1): second - both, (0, 0): case.n - first - second + both}
    parts = {key: rng.multinomial(size, case.world.outcomes, repetitions) for key, size in sizes.items()}
    losses = case.world.loss(np.array(case.world.hypotheses))
    votes = []
    for k, size in enumerate((first, second)):
        made_of = sum(counts for key, counts in parts.items() if key[k])
        tested = sum(counts for key, counts in parts.items() if not key[k])
        votes.append(Data(np.full(losses.shape[0], size), made_of @ losses.T, tested))
    return votes


# ---------------------------------------------------------------------------------------------------
# Certificates
# ---------------------------------------------------------------------------------------------------


class Certified(NamedTuple):
    """A certificate from validation losses, with the truth about what it bounds."""

    certificate: Certificate
    rho: np.ndarray
    predicted: np.ndarray  # by cell, what the vote says
    truth: dict[str, float]


def certify_losses(case: Case, n: np.ndarray, totals: np.ndarray, delta: float) -> Certified:
    world = case.world
    tables = np.array(world.hypotheses)
    n_votes = case.n_votes if case.declared_votes is None else case.declared_votes
    size = int(n[0]) if np.ptp(n) == 0 else n
    certificate, rho = certify(totals / n, size, delta=delta, n_votes=n_votes, **case.settings)
    # Of equal shares the first class wins, as in the classifier.
    predicted = np.argmax(np.stack([rho @ (tables == label) for label in (0, 1)]), axis=0)
    risks = world.loss(tables) @ world.outcomes
    truth = {
        "randomised classifier": float(rho @ risks),
        "majority vote": float(world.loss(predicted) @ world.outcomes),
    }
    for statement in certificate.statements:
        if statement.predictor == "best hypothesis":
            figures = statement.figures
            total = figures["errors"] if "errors" in figures else figures["loss"] * figures["n"]
            # The worst of those that it can be about.
            truth["best hypothesis"] = float(risks[(n == figures["n"]) & np.isclose(totals, total)].max())
    return Certified(certificate, rho, predicted, truth)


def held_out_total(case: Case, made: Certified, counts: np.ndarray, rng: np.random.Generator) -> float:
    """Sum the losses of what `predict` does over held-out points."""
    if made.certificate.predictor == "randomised classifier":
        return float(rng.binomial(counts.sum(), made.truth["randomised classifier"]))
    # The best hypothesis has all the weight, and is the vote.
    return float(counts @ case.world.loss(made.predicted))


def compared(case: Case, made: Certified, data: Data, totals: np.ndarray, cells: np.ndarray) -> Certificate:
    """State what unlabelled points prove about the vote."""
    losses, m = totals / data.n, data.n.size
    divergences = -np.log(np.array(case.settings.get("prior", np.full(m, 1 / m))))
    voters = choose_voters(made.rho, losses, data.n, divergences, made.certificate.delta)
    apart = np.array(case.world.hypotheses)[voters] != made.predicted
    return with_unlabelled(
        made.certificate, losses[voters], data.n[voters], divergences[voters], apart @ cells, int(cells.sum())
    )


def statements(
    case: Case, votes: list[Data], delta: float, rng: np.random.Generator
) -> Iterator[tuple[Statement, float]]:
    """Yield every statement about the vote that wins, and the truth, data set by data set."""
    # Few distinct data sets: each is certified once.
    known: dict[Any, Certified] = {}
    repetitions = votes[0].totals.shape[0]
    unlabelled = rng.multinomial(case.n_unlabelled, case.world.cells, repetitions)
    further: dict[Any, Certificate] = {}
    for i in range(repetitions):
        best: tuple[float, Certified, Certificate, int] | None = None
        for k, data in enumerate(votes):
            key = (int(data.n[0]), data.totals[i].tobytes())
            if key not in known:
                known[key] = certify_losses(case, data.n, data.totals[i], delta)
            made = known[key]
            certificate = made.certificate
            if data.test[i].any():
                seen = (key, held_out_total(case, made, data.test[i], rng))
                if seen not in further:
                    further[seen] = with_test(certificate, seen[1], int(data.test[i].sum()))
                certificate = further[seen]
            if best is None or certificate.bound < best[0]:
                best = certificate.bound, made, certificate, k
        assert best is not None
        _, made, certificate, k = best
        for statement in certificate.statements:
            yield statement, made.truth[statement.predictor]
        if case.n_unlabelled:
            points = (k, votes[k].totals[i].tobytes(), unlabelled[i].tobytes())
            if points not in further:
                further[points] = compared(case, made, votes[k], votes[k].totals[i], unlabelled[i])
            for statement in further[points].statements:
                yield statement, made.truth[statement.predictor]


Found = dict[str, list[tuple[float, float]]]  # bounds and truths by kind of statement, of every data set that has one


def try_statements(case: Case, repetitions: int, delta: float, rng: np.random.Generator) -> Found:
    """Return the bounds and truths of every kind of statement."""
    found: Found = {}
    for statement, truth in statements(case, draw(case, repetitions, rng), delta, rng):
        found.setdefault(statement.method, []).append((statement.bound, truth))
    return found


# ---------------------------------------------------------------------------------------------------
# Rates by class
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassCase:
    """A distribution of true and predicted classes, the same for all votes that compete or hypotheses to choose from.

    Those have points of their own, and the one with the fewest errors wins.
    """

    name: str
    joint: list[list[float]]  # probability of true class i and predicted class j
    n: int  # points that each of them is tested on
    n_votes: int = 1
    voting: str = "majority"  # of votes with held-out points; "best" of hypotheses with validation points
    declared_votes: int | None = None  # that the certificate is told, if it is not the true number
    declared_rates: int | None = None  # that share delta, if it is not the true number


EVEN = [[0.36, 0.14], [0.14, 0.36]]
RARE = [[0.93, 0.02], [0.03, 0.02]]
THREE = [[0.3, 0.1, 0.0], [0.05, 0.25, 0.1], [0.05, 0.0, 0.15]]

CLASS_CASES = [
    ClassCase("by class, even", EVEN, 30),
    ClassCase("by class, rare class", RARE, 40),
    ClassCase("by class, three classes", THREE, 40),
    ClassCase("by class, three classes, 2 votes", THREE, 40, n_votes=2),
    ClassCase("by class, even, 10 votes", EVEN, 30, n_votes=10),
    ClassCase("by class, even, best of 3", EVEN, 30, n_votes=3, voting="best"),
    ClassCase("by class, rare class, best of 10", RARE, 60, n_votes=10, voting="best"),
]
BROKEN_CLASS_CASES = [
    ClassCase("by class, 30 votes declared as one", EVEN, 30, n_votes=30, declared_votes=1),
    ClassCase("by class, six rates declared as one", THREE, 40, declared_rates=1),
]


@cache
def price_of_winning(voting: str, n_votes: int, delta: float) -> float:
    """Return the price of having chosen the winner by its errors, as certificates of its points by class state it."""
    counts = np.pad(np.eye(2, dtype=np.intp), (0, 1))
    labels = {"labels": ("0", "1"), "label_counts": (1, 1)}
    if voting == "best":
        certificate = certify(np.zeros(n_votes), 2, delta=delta, voting="best")[0]
        certificate = with_confusion(certificate.revise(**labels), counts)
    else:
        certificate = certify([0.5], 5, delta=delta, n_votes=n_votes)[0]
        certificate = with_test(certificate.revise(**labels), 0, 2, counts)
    assert certificate.confusion is not None
    assert certificate.confusion.kl_div is not None
    return certificate.confusion.kl_div


def certify_classes(case: ClassCase, counts: np.ndarray, delta: float) -> Confusion:
    """State misses and false alarms of the winner, given its points by true and predicted class."""
    n_votes = case.n_votes if case.declared_votes is None else case.declared_votes
    price = price_of_winning(case.voting, n_votes, delta)
    if case.declared_rates is not None:
        price += float(np.log(case.declared_rates / (2 * counts.shape[0])))
    return Confusion.of("validation" if case.voting == "best" else "held-out", np.pad(counts, (0, 1)), price, delta)


def try_classes(case: ClassCase, repetitions: int, delta: float, rng: np.random.Generator) -> Found:
    """Return, of every data set, the rate of a class that is farthest above its bound, or nearest to it."""
    joint = np.array(case.joint)
    of_class, as_class, right = joint.sum(axis=1), joint.sum(axis=0), np.diag(joint)
    truth = np.stack((1 - right / of_class, 1 - right / as_class), axis=1)
    wrong = 1.0 - np.eye(joint.shape[0])
    votes = rng.multinomial(case.n, joint.ravel(), (repetitions, case.n_votes)).reshape(-1, case.n_votes, *joint.shape)
    winners = np.argmin((votes * wrong).sum(axis=(2, 3)), axis=1)
    known: dict[bytes, np.ndarray] = {}
    found = []
    for counts in votes[np.arange(repetitions), winners]:
        if counts.tobytes() not in known:
            known[counts.tobytes()] = np.array(certify_classes(case, counts, delta).bounds)
        bounds = known[counts.tobytes()]
        nearest = np.unravel_index(np.argmax(truth - bounds), truth.shape)
        found.append((bounds[nearest], truth[nearest]))
    return {"classes": found}


# ---------------------------------------------------------------------------------------------------
# Errors by group, and a known shift
# ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupCase:
    """Cells with known errors, and groups of them; all votes that compete are alike, and have points of their own."""

    name: str
    cells: list[float]
    errors: list[float]
    n: int  # points that each vote is tested on
    masks: list[list[int]] | None = None  # cells of each group; None if the cells are the groups
    n_votes: int = 1
    found: bool = False  # whether the group with the fewest errors is found on the winner's points, and declared alone

    def declare(self, cells: np.ndarray) -> Groups:
        """Return the groups of points, by their cells."""
        if self.masks is None:
            return Groups.of(cells, cells.size)
        return Groups.of({str(k): np.isin(cells, own) for k, own in enumerate(self.masks)}, cells.size)

    def truth(self, label: str) -> float:
        """Return the probability of an error in a group."""
        own = [int(label)] if self.masks is None else self.masks[int(label)]
        share = np.array(self.cells)[own]
        return float(share @ np.array(self.errors)[own] / share.sum())


_SIX = [0.3, 0.25, 0.2, 0.15, 0.08, 0.02]
_SIX_ERRORS = [0.1, 0.2, 0.05, 0.3, 0.4, 0.6]
_OVERLAP = [[0, 1, 2], [2, 3], [3, 4, 5], [0, 1, 2, 3, 4, 5]]

GROUP_CASES = [
    GroupCase("by group, one group", [1.0], [TIGHT], 20),
    GroupCase("by group, one group, 2 votes", [1.0], [TIGHT], 20, n_votes=2),
    GroupCase("by group, two even", [0.5, 0.5], [0.2, 0.2], 40),
    GroupCase("by group, two even, 2 votes", [0.5, 0.5], [0.2, 0.2], 40, n_votes=2),
    GroupCase("by group, rare ones may be missing", _SIX, _SIX_ERRORS, 30),
    GroupCase("by group, rare ones may be missing, 2 votes", _SIX, _SIX_ERRORS, 30, n_votes=2),
    GroupCase("by group, overlapping", _SIX, _SIX_ERRORS, 40, _OVERLAP),
    GroupCase("by group, overlapping, 2 votes", _SIX, _SIX_ERRORS, 40, _OVERLAP, n_votes=2),
]
BROKEN_GROUP_CASES = [
    GroupCase("by group, found by its errors", [0.04] * 25, [0.3] * 25, 500, found=True),
    GroupCase("by group, found by its errors, 2 votes", [0.04] * 25, [0.3] * 25, 500, n_votes=2, found=True),
]


def try_groups(case: GroupCase, repetitions: int, delta: float, rng: np.random.Generator) -> Found:
    """Return, of every data set, the error of a group that is farthest above its bound, or nearest to it."""
    errors, found = np.array(case.errors), []
    certificate = certify([0.5], 5, delta=delta, n_votes=case.n_votes, assumptions=["groups-declared"])[0]
    for _ in range(repetitions):
        cells = rng.choice(errors.size, size=case.n_votes * case.n, p=case.cells)
        wrong = rng.random(cells.size) < errors[cells]
        votes = np.arange(cells.size).reshape(case.n_votes, case.n)
        winner = votes[np.argmin(wrong[votes].sum(axis=1))]
        groups = case.declare(cells)
        if case.found:
            groups = _find_best(groups.take(winner).count(wrong[winner]), cells)
        counted = groups.take(winner).count(wrong[winner])
        by_group = with_test(certificate, np.count_nonzero(wrong[winner]), case.n, groups=counted).groups
        pairs = [(bound, case.truth(label)) for label, bound in zip(by_group.labels, by_group.bounds, strict=True)]
        found.append(max(pairs, key=lambda pair: pair[1] - pair[0]))
    return {"groups": found}


def _find_best(counted: GroupCounts, cells: np.ndarray) -> Groups:
    """Return the group with the fewest errors for its points, as the only one."""
    rates = [errors / n if n else 1.0 for errors, n in counted.counts]
    best = counted.labels[int(np.argmin(rates))]
    return Groups.of({best: cells == int(best)}, cells.size)


@dataclass(frozen=True)
class ShiftCase:
    """Cells with known errors and weights: points are drawn from P, and the statement is about Q."""

    name: str
    cells: list[float]  # probabilities under P
    errors: list[float]
    weights: list[float]  # density of Q relative to P
    n: int  # points that each vote is tested on, before some are kept
    max_weight: float | None = 2.0  # what weights are clipped at; None for the largest weight in the sample
    n_votes: int = 1  # which compete, each with points of its own: the smallest bound wins


_SHIFTED = ([0.6, 0.4], [0.1, 0.4], [1 / 3, 2.0])
_RARE = ([0.95, 0.05], [0.02, 0.5], [0.5, 10.5])

SHIFT_CASES = [
    ShiftCase("shift, none", [1.0], [TIGHT], [1.0], 40),
    ShiftCase("shift, two cells", *_SHIFTED, 40),
    ShiftCase("shift, two cells, 2 votes", *_SHIFTED, 40, n_votes=2),
    ShiftCase("shift, a multiple of the density", [0.6, 0.4], [0.1, 0.4], [1.0, 6.0], 40, 6.0),
    ShiftCase("shift, to a rare cell", *_RARE, 150, 10.5),
    ShiftCase("shift, to a rare cell, 2 votes", *_RARE, 150, 12.0, n_votes=2),
]
BROKEN_SHIFT_CASES = [
    ShiftCase("shift, weights clipped", *_RARE, 150, 2.0),
    ShiftCase("shift, weights clipped, 2 votes", *_RARE, 150, 2.0, n_votes=2),
    ShiftCase("shift, largest weight of the sample", *_RARE, 12, None),
]


def try_shift(case: ShiftCase, repetitions: int, delta: float, rng: np.random.Generator) -> Found:
    """Return bounds on the loss under Q, and that loss."""
    of_q = np.array(case.cells) * case.weights
    truth = float(of_q @ case.errors / of_q.sum())
    codes = [*FIT_ASSUMPTIONS, "subsamples-random", "new-points"]
    certificate = certify([0.5], 5, delta=delta, n_votes=case.n_votes, assumptions=codes)[0]
    certificate = replace(certificate, statements=())
    bounds = (_bound_shifted(case, certificate, rng, seed) for seed in itertools.count())
    return {"shift": [(min(itertools.islice(bounds, case.n_votes)), truth) for _ in range(repetitions)]}


def _bound_shifted(case: ShiftCase, certificate: Certificate, rng: np.random.Generator, seed: int) -> float:
    """Draw points of P, keep some of them, and return the bound on the loss under Q."""
    cells = rng.choice(len(case.cells), size=case.n, p=case.cells)
    wrong, weights = rng.random(case.n) < np.array(case.errors)[cells], np.array(case.weights)[cells]
    most = float(weights.max()) if case.max_weight is None else case.max_weight
    try:
        weighting = Weighting.of(np.minimum(weights, most), most, False, seed, case.n)
    except ValueError:  # no point is kept, and nothing is stated
        return 1.0
    errors = np.count_nonzero(wrong[weighting.kept])
    return with_test(weighting.describe(certificate), errors, weighting.kept.size).bound


COLUMNS = ("statement", "case", "delta", "stated", "violations", "p", "bound", "truth")


SIMULATIONS: dict[type, Any] = {
    Case: try_statements,
    ClassCase: try_classes,
    GroupCase: try_groups,
    ShiftCase: try_shift,
}


def simulate(case: Any, repetitions: int, seed: int = 0) -> list[Row]:
    """Count the data sets on which any statement of a kind is false, at every delta."""
    return [
        Row.of(method, case.name, delta, found, repetitions)
        for delta in DELTAS
        for method, found in SIMULATIONS[type(case)](case, repetitions, delta, np.random.default_rng(seed)).items()
    ]


def measure(cases: Sequence[Any], repetitions: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each kind of statement, case and delta."""
    for case in cases:
        for row in simulate(case, repetitions):
            stated, p = f"{row.stated / row.repetitions:.2f}", f"{row.p_value:.2g}"
            means = f"{row.mean_bound:.3f}", f"{row.mean_truth:.3f}"
            yield row.method, row.case, row.delta, stated, row.violations, p, *means


def main() -> None:
    # Here, since a test loads this file from elsewhere.
    from _results import make_parser, show

    parser = make_parser(__doc__, only=[""])
    parser.add_argument("--repetitions", type=int, default=10_000)
    arguments = parser.parse_args()
    for kind, cases in (
        ("statements", [*CASES, BROKEN]),
        ("rates by class", [*CLASS_CASES, *BROKEN_CLASS_CASES]),
        ("errors by group", [*GROUP_CASES, *BROKEN_GROUP_CASES]),
        ("bounds after a shift", [*SHIFT_CASES, *BROKEN_SHIFT_CASES]),
    ):
        chosen = [case for case in cases if any(part in case.name for part in arguments.only)]
        title = f"How often {kind} are false, {arguments.repetitions:,} data sets for each case and delta"
        if chosen:
            show(f"coverage, {kind}", title, COLUMNS, measure(chosen, arguments.repetitions))


if __name__ == "__main__":
    main()
