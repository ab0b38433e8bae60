"""Weighted votes of trained hypotheses, asked in order of falling weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._compat import take_rows
from pacbayes._validation import Array
from pacbayes.pools import Hypotheses
from pacbayes.sampling import ChosenSubsamples, Subsamples
from pacbayes.tasks._task import find_outside

# Weight of voters that are not asked for shares of the vote: it moves a share by less than this.
_IGNORED_WEIGHT = 1e-12

# The same for shares on training rows, which nothing that is proved depends on.
_IGNORED_IN_TRAINING = 1e-3

# Classes up to which the two with the most weight are found by partitioning.
_FEW_CLASSES = 32

# Voters asked together when the vote is not decided yet: few at first, since a handful usually decides.
_FIRST_VOTERS, _MOST_VOTERS = 4, 256


def tally_votes(
    hypotheses: Hypotheses,
    weights: Array,
    X: Any,
    *,
    stop_early: bool,
    uncertain_weight: Array | None = None,
    costs: Array | None = None,
    outside: tuple[Subsamples, NDArray[Any]] | None = None,
) -> Array:
    """Add up the weight behind each class at each point, an array of shape (n, n_classes).

    With `stop_early`, a point is left as soon as the remaining weight cannot change its winner, the class with the
    largest entry or, with `costs`, the smallest expected cost; otherwise the lightest voters, of a total weight of at
    most 1e-12, are not asked. The winner is the same in any case.
    Adds to `uncertain_weight` that of voters whose votes could differ on another engine; these delay the early stop.
    With training sets and the numbers of the points, `outside`, voters count on points that they were not trained on,
    and give all their weight to a label.
    """
    tallies = np.zeros((X.shape[0], hypotheses.classes.size))
    order, remaining = _order_by_weight(weights)
    if not stop_early:
        order = order[: max(1, int(np.count_nonzero(remaining[:-1] > _IGNORED_WEIGHT)))]
    open_rows = np.arange(X.shape[0])
    done, width = 0, _FIRST_VOTERS
    while done < order.size and open_rows.size:
        voters = order[done : done + width]
        rows = X if open_rows.size == X.shape[0] else take_rows(X, open_rows)
        sums = tallies[open_rows]
        doubts = None if uncertain_weight is None else uncertain_weight[open_rows]
        if outside is None:
            hypotheses.take(voters).add_votes(rows, weights[voters], sums, doubts)
        else:
            voters = np.sort(voters)
            votes, uncertain = hypotheses.take(voters).votes_and_uncertain(rows)
            weight = _weigh_outside(weights, outside[0], voters, outside[1][open_rows])
            sums += _tally_weights(votes, weight, sums.shape[1])
            doubts = None if doubts is None else doubts + (weight * uncertain).sum(axis=0)
        tallies[open_rows] = sums
        if uncertain_weight is not None:
            uncertain_weight[open_rows] = doubts
        done, width = done + voters.size, min(2 * width, _MOST_VOTERS)
        if stop_early and done < order.size:
            doubt = 0.0 if uncertain_weight is None else _spread(costs) * uncertain_weight[open_rows]
            open_rows = open_rows[~_are_decided(_score(tallies[open_rows], costs), remaining[done] + doubt)]
    return tallies


def vote(
    hypotheses: Hypotheses, weights: Array, X: Any, costs: Array | None = None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the codes that the vote decides for, as in `tally_votes`, and where another engine could differ."""
    uncertain_weight = np.zeros(X.shape[0])
    tallies = tally_votes(hypotheses, weights, X, stop_early=True, uncertain_weight=uncertain_weight, costs=costs)
    scores = _score(tallies, costs)
    return np.argmax(scores, axis=1), _are_uncertain(scores, uncertain_weight, _spread(costs))


def _score(tallies: Array, costs: Array | None) -> Array:
    """Return what the winner has most of: weight or, with costs, which are in [0, 1], weight minus expected cost."""
    if costs is None:
        return tallies
    scores = np.zeros_like(tallies)
    for weight, cost in zip(tallies.T, costs, strict=True):  # not a matrix product, whose rounding depends on the batch
        scores += weight[:, np.newaxis] * (1 - cost)
    return scores


def _spread(costs: Array | None) -> int:
    """Return how much a difference of two scores moves if the weight of each class does by one."""
    return 2 if costs is None else costs.shape[0]


def vote_out_of_bag(
    hypotheses: Hypotheses, weights: Array, subsamples: Subsamples, X: Any, rows: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.bool_]]:
    """Let those hypotheses vote on points, given by rising `rows` of the sample, that were not trained on them."""
    doubts = np.zeros(rows.size)
    how: dict[str, Any] = {"uncertain_weight": doubts, "outside": (subsamples, rows)}
    tallies = tally_votes(hypotheses, weights, X, stop_early=True, **how)
    return np.argmax(tallies, axis=1), _are_uncertain(tallies, doubts), np.asarray(tallies.any(axis=1))


def tally_out_of_bag(
    hypotheses: Hypotheses, weights: Array, subsamples: Subsamples, X: Any, rows: NDArray[Any]
) -> Array:
    """Add up the weight behind each class at each point, as `tally_votes`, of voters that were not trained on it.

    `rows` as in `vote_out_of_bag`. Who votes by probabilities divides its weight by these. The lightest voters, of a
    total weight of at most 1e-3, are not asked.
    """
    tallies = np.zeros((rows.size, hypotheses.classes.size))
    order, remaining = _order_by_weight(weights)
    order = order[: max(1, int(np.count_nonzero(remaining[:-1] > _IGNORED_IN_TRAINING)))]
    for voters, by_labels in _group(hypotheses, order):
        weight, own = _weigh_outside(weights, subsamples, voters, rows), hypotheses.take(voters)
        if by_labels:
            tallies += _tally_weights(own.votes(X), weight, tallies.shape[1])
        elif (outside := np.flatnonzero(weight[0])).size:
            sums = tallies[outside]
            own.add_votes(take_rows(X, outside), weights[voters], sums)
            tallies[outside] = sums
    return tallies


def find_shares(hypotheses: Hypotheses, X: Any) -> Array:
    """Return how each voter divides its weight among the classes, (m, n, n_classes); a label in doubt has no share."""
    shares = np.zeros((len(hypotheses), X.shape[0], hypotheses.classes.size))
    for voters, by_labels in _group(hypotheses, np.arange(len(hypotheses))):
        own = hypotheses.take(voters)
        if by_labels:
            votes, uncertain = own.votes_and_uncertain(X)
            shares[voters] = np.where(uncertain, -1, votes)[:, :, np.newaxis] == np.arange(shares.shape[2])
        else:
            own.add_votes(X, np.ones(1), shares[voters[0]])
    return shares


def _group(hypotheses: Hypotheses, voters: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], bool]]:
    """Yield voters that are asked together, rising, and whether by labels: who votes by probabilities is alone."""
    by_labels = np.array([hypotheses.take(voters[k : k + 1]).vote_by == "labels" for k in range(voters.size)])
    together = voters[by_labels]
    for first in range(0, together.size, _MOST_VOTERS):
        yield np.sort(together[first : first + _MOST_VOTERS]), True
    for alone in voters[~by_labels]:
        yield np.array([alone]), False


def _weigh_outside(weights: Array, subsamples: Subsamples, voters: NDArray[np.intp], rows: NDArray[Any]) -> Array:
    """Return the weight of each of some voters, rising, at each point: none where it was trained on it."""
    return np.asarray(weights[voters][:, np.newaxis] * find_outside(ChosenSubsamples(subsamples, voters), rows))


def _tally_weights(votes: NDArray[Any], weight: Array, n_classes: int) -> Array:
    """Add up weights of votes, one for each voter and point, by class."""
    n = weight.shape[1]
    cells = votes.astype(np.intp) + n_classes * np.arange(n)
    added = np.bincount(cells.ravel(), weights=weight.ravel(), minlength=n * n_classes)
    return np.asarray(added, dtype=np.float64).reshape(-1, n_classes)


def _order_by_weight(weights: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the voters with weight, the heaviest first, and the weight that is still to come after the first k."""
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    return order, np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)


def _are_decided(scores: Array, to_come: Any) -> NDArray[np.bool_]:
    """Return where the winner is ahead by strictly more than the weight to come, and than rounding of the sums."""
    if scores.shape[1] <= _FEW_CLASSES:
        ranked = np.partition(scores, -2, axis=1)
        lead = ranked[:, -1] - ranked[:, -2]
    else:  # of many classes most have no votes, and to partition equal numbers takes long
        points, winner = np.arange(scores.shape[0]), np.argmax(scores, axis=1)
        others = scores.copy()
        others[points, winner] = 0.0
        lead = scores[points, winner] - others.max(axis=1)
    return np.asarray(lead > to_come * (1 + 1e-9) + 1e-12)


def _are_uncertain(scores: Array, uncertain_weight: Array, spread: int = 2) -> NDArray[np.bool_]:
    """Return where voters in doubt have enough weight, which each may move from the winner to another class."""
    uncertain = uncertain_weight > 0
    uncertain[uncertain] = ~_are_decided(scores[uncertain], spread * uncertain_weight[uncertain])
    return np.asarray(uncertain)


def predict_drawn(hypotheses: Hypotheses, drawn: NDArray[Any], X: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Predict every point with the hypothesis drawn for it (the randomised classifier), as `vote`."""
    codes = np.empty(X.shape[0], dtype=np.intp)
    uncertain = np.empty(X.shape[0], dtype=bool)
    for h in np.unique(drawn):
        rows = np.flatnonzero(drawn == h)
        (codes[rows],), (uncertain[rows],) = hypotheses.take(np.array([h])).votes_and_uncertain(take_rows(X, rows))
    return codes, uncertain
