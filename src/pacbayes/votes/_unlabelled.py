"""Bounds that look at unlabelled points: where the vote disagrees with a voter, and where its margins are small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import (
    EPS,
    Array,
    as_real_array,
    finite_nonnegative,
    half_open_interval,
    numbers,
    unit_interval,
)
from pacbayes.bounds import clopper_pearson
from pacbayes.votes._means import choose_bet, mean_upper_bound
from pacbayes.votes._weights import first_order

# Shares of the vote are sums over voters: granted the rounding error that a million voters could cause.
_SHARE_ERROR = 1e-10

# Margins to try at once. The first needs the fewest points; 1/2 alone is never worse than the first-order bound.
_GAMMAS = (1.0, 0.75, 0.5, 0.3, 0.15, 0.05)


def split_delta(delta: float, n: int, n_unlabelled: int) -> tuple[float, float]:
    r"""Divide delta between bounds from n labelled points and a mean over unlabelled ones.

    The unlabelled points get the share s / (1 + s) with :math:`s = \frac12 \sqrt{n / u}`, which nearly minimises
    the sum of both deviations for a disagreement of some hundredths. The rule depends on numbers of points only,
    as it must: delta is divided before the bounds are known.

    Parameters
    ----------
    delta : float
        Probability with which the certificate may fail, in (0, 1).
    n, n_unlabelled : int
        Numbers of labelled and of unlabelled points.

    Returns
    -------
    labelled, unlabelled : float
        Two parts that sum to at most `delta`.

    Examples
    --------
    >>> labelled, unlabelled = split_delta(0.05, n=2000, n_unlabelled=2000)
    >>> round(labelled, 4), round(unlabelled, 4)
    (0.0333, 0.0167)
    """
    total, labelled, unlabelled = numbers(delta=delta, n=n, n_unlabelled=n_unlabelled)
    ratio = 0.5 * math.sqrt(labelled / unlabelled)
    part = total * ratio / (1 + ratio)
    # Rounding must not make the parts exceed the whole.
    return (total - part) * (1 - EPS), part * (1 - EPS)


def disagreement_bound(voter_bound: float, n_disagreements: int, n_points: int, delta: float = 0.05) -> float:
    r"""Bound any classifier by the bound of one voter and how often the two disagree.

    The vote V errs only where the voter h errs or where they disagree,

    .. math:: L(V) \le L(h) + P(V(x) \ne h(x)),

    and the second term needs no labels: on u unlabelled points the number of disagreements is binomial, and
    its probability is bounded by Clopper-Pearson [1]_. Any number of classes. Often the tightest bound of a vote
    of strong, similar voters.

    Parameters
    ----------
    voter_bound : float
        Upper bound on L(h), zero-one loss. If h was chosen after seeing the losses of m voters, a
        simultaneous one, such as ``clopper_pearson(errors, n, delta, prior_mass=1 / m)``.
    n_disagreements, n_points : int
        At how many of u unlabelled points the vote and the voter predict different classes, and u. The points are
        drawn from the distribution of the sample and used neither for the vote nor for the choice of h.
    delta : float, default=0.05
        Probability with which the bound on the disagreement may fail, on top of that of `voter_bound`.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    References
    ----------
    .. [1] M. Kääriäinen. Generalization error bounds using unlabeled data. COLT, 2005.

    Examples
    --------
    >>> round(disagreement_bound(0.08, n_disagreements=10, n_points=1000, delta=0.01), 6)
    0.100043
    """
    bound, points, level = numbers(voter_bound=voter_bound, n_points=n_points, delta=delta)
    (disagreements,) = numbers(n_disagreements=n_disagreements)
    if disagreements > points:
        raise ValueError(f"n_disagreements must be at most n_points, got {disagreements:g} of {points:g}")
    return min(1.0, (bound + float(clopper_pearson(disagreements, points, level))) * (1 + 2 * EPS))


def choose_voter(voter_bounds: ArrayLike, disagreement_rate: ArrayLike, n_points: int, delta: float = 0.05) -> int:
    """Choose the voter for `disagreement_bound`, for points that are yet to come.

    Parameters
    ----------
    voter_bounds : array_like of shape (m,)
        Simultaneous upper bounds on the zero-one losses of the voters.
    disagreement_rate : array_like of shape (m,)
        How often each voter and the vote disagree at points other than those that `disagreement_bound` will be
        given, best at the voter's own validation points. Bad rates make a loose bound, not a wrong one.
    n_points : int
        Number of unlabelled points that `disagreement_bound` will be given.
    delta : float, default=0.05
        As in `disagreement_bound`.

    Returns
    -------
    int
        The voter whose bound would be smallest on points with these rates.

    Examples
    --------
    >>> choose_voter([0.08, 0.09, 0.2], [0.05, 0.01, 0.0], n_points=1000)
    1
    """
    bounds_ = finite_nonnegative("voter_bounds", voter_bounds)
    rates = unit_interval("disagreement_rate", disagreement_rate)
    if bounds_.ndim != 1 or bounds_.size == 0 or bounds_.shape != rates.shape:
        raise ValueError(
            "voter_bounds and disagreement_rate must be one-dimensional with one entry per voter, "
            f"got shapes {bounds_.shape} and {rates.shape}"
        )
    points, level = numbers(n_points=n_points, delta=delta)
    return int(np.argmin(bounds_ + np.asarray(clopper_pearson(np.rint(rates * points), points, level))))


@dataclass(frozen=True)
class MarginChoice:
    """A margin and a bet for `margin_bound`.

    Attributes
    ----------
    gamma, bet : float
        The margin, and the bet for `mean_upper_bound`.
    expected : float
        What the bound would be on points with the same shares.
    """

    gamma: float
    bet: float
    expected: float


def margin_bound(
    gibbs_bound: float,
    winner_share: ArrayLike,
    runner_up_share: ArrayLike,
    delta: float = 0.05,
    *,
    gamma: float | Sequence[float] = _GAMMAS,
    bet: float | None = None,
) -> float:
    r"""Bound the vote by the randomised classifier's bound and the margins at unlabelled points.

    Let the winner of the vote at x have the share s1 of the weight and the runner-up s2. The voters that err
    have the weight 1 - s1 where the vote is right and at least 1 - s2 where it errs. For every gamma in (0, 1]

    .. math::
        L(V) \le \frac{E_\rho[L(h)]}{\gamma}
        + E_x\left[\left(1 - \frac{s_1 - s_2}{\gamma}\right)_+ - \frac{1 - s_1}{\gamma}\right],

    for any number of classes and however ties are broken [1]_. The second term needs inputs only: the mean of a
    variable that is at most :math:`\max(0, 1 - \frac{1}{2 \gamma})`, bounded by `mean_upper_bound`.

    Parameters
    ----------
    gibbs_bound : float
        Upper bound on :math:`E_\rho[L(h)]`, zero-one loss, for the weights of the vote.
    winner_share, runner_up_share : array_like of shape (u,)
        Largest and second largest share of the vote at each unlabelled point. The points are drawn from the
        distribution of the sample and used neither for the voters nor for the weights.
    delta : float, default=0.05
        Probability with which the mean over the points may fail, on top of that of `gibbs_bound`. Several gamma get
        equal parts of it.
    gamma : float or sequence of float
        Margins to try, in (0, 1], chosen without looking at these points. One that `choose_margin` found on
        other points, such as the training inputs, is better than the default of six.
    bet : float, optional
        As in `mean_upper_bound`.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1 and at most `first_order`.

    References
    ----------
    .. [1] M.-R. Amini, F. Laviolette, N. Usunier. A transductive bound for the voted classifier. NIPS, 2008.

    Examples
    --------
    >>> winner = np.repeat([1.0, 0.9, 0.6], [900, 80, 20])
    >>> round(margin_bound(0.05, winner, 1 - winner, delta=0.01), 6)
    0.066166
    """
    bound, level = numbers(gibbs_bound=gibbs_bound, delta=delta)
    first, second = _shares(winner_share, runner_up_share)
    gammas = _margins("gamma", gamma)
    part = level / gammas.size * (1 - EPS)
    limits = []
    for margin in gammas:
        mean = mean_upper_bound(_margin_values(first, second, margin), part, high=_largest_value(margin), bet=bet)
        limits.append(_margin_total(bound, mean, margin))
    # Below zero the bounds contradict each other, which happens with probability at most delta.
    return float(max(0.0, min(1.0, first_order(bound), *limits)))


def choose_margin(
    gibbs_bound: float,
    winner_share: ArrayLike,
    runner_up_share: ArrayLike,
    n_points: int,
    delta: float = 0.05,
    *,
    gammas: Sequence[float] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01),
) -> MarginChoice:
    """Choose the margin and the bet of `margin_bound` for points that are yet to come.

    Parameters
    ----------
    gibbs_bound, delta
        As in `margin_bound`.
    winner_share, runner_up_share : array_like
        Shares of the vote at points other than those that `margin_bound` will be given, for instance at the
        training inputs. A bad choice makes a loose bound, not a wrong one.
    n_points : int
        Number of unlabelled points that `margin_bound` will be given.
    gammas : sequence of float
        Candidates.

    Returns
    -------
    MarginChoice
        The candidate with the smallest expected bound.

    Examples
    --------
    >>> winner = np.repeat([1.0, 0.9, 0.6], [900, 80, 20])
    >>> choose_margin(0.05, winner, 1 - winner, n_points=1000, delta=0.01).gamma
    0.8
    """
    bound, points, level = numbers(gibbs_bound=gibbs_bound, n_points=n_points, delta=delta)
    first, second = _shares(winner_share, runner_up_share)
    choices = []
    for margin in _margins("gammas", gammas):
        bet, mean = choose_bet(_margin_values(first, second, margin), int(points), level, _largest_value(margin))
        choices.append(MarginChoice(float(margin), bet, float(_margin_total(bound, mean, margin))))
    return min(choices, key=lambda choice: choice.expected)


def _margins(name: str, value: float | Sequence[float]) -> Array:
    """Validate one or several margins."""
    margins = np.atleast_1d(half_open_interval(name, value, 0, 1))
    if margins.ndim != 1 or margins.size == 0:
        raise ValueError(f"{name} must be a number or a non-empty sequence of numbers, got shape {margins.shape}")
    return margins


def _shares(winner_share: ArrayLike, runner_up_share: ArrayLike) -> tuple[Array, Array]:
    """Shares of winner and runner-up at each point, in [0, 1] as sums over voters are up to rounding."""
    shares = []
    for name, share in (("winner_share", winner_share), ("runner_up_share", runner_up_share)):
        given = as_real_array(name, share, "in [0, 1]")
        rounded = np.clip(given, 0.0, 1.0)
        shares.append(unit_interval(name, np.where(np.abs(given - rounded) <= _SHARE_ERROR, rounded, given)))
    first, second = shares
    if first.ndim != 1 or first.size == 0 or first.shape != second.shape:
        raise ValueError(
            "winner_share and runner_up_share must be one-dimensional with one entry per point, "
            f"got shapes {first.shape} and {second.shape}"
        )
    if np.any(second > first + _SHARE_ERROR):
        raise ValueError("runner_up_share must be at most winner_share at every point: swap the arguments?")
    if np.any(first + second > 1 + 2 * _SHARE_ERROR):
        raise ValueError("winner_share and runner_up_share must sum to at most 1 at every point")
    return first, second


def _largest_value(gamma: float) -> float:
    """Largest value of the variable in `margin_bound`: at a tie, where both shares are at most 1/2."""
    return max(0.0, 1 - 0.5 / gamma)


def _margin_values(first: Array, second: Array, gamma: float) -> Array:
    """The variable whose mean `margin_bound` takes, max(1 - (1 - s2) / gamma, -(1 - s1) / gamma)."""
    values = np.maximum(1 - (1 - second) / gamma, -(1 - first) / gamma)
    # Rounded shares may exceed one half by as much.
    return np.asarray(np.minimum(values, _largest_value(gamma)))


def _margin_total(bound: float, mean: float, gamma: float) -> float:
    """The bound, rounded up by what rounded shares may have cost: the variable changes by at most that / gamma."""
    return (bound / gamma + mean) + 4 * (_SHARE_ERROR + EPS * bound) / gamma
