r"""Second-order bounds: they look at how often two voters err at the same point.

With W the weight of the voters that err at a random point, the vote errs only where W >= 1/2. Written for two
voters h, h' drawn from rho independently, :math:`E[W] = E_\rho[L(h)]` is the Gibbs loss G,
:math:`E[W^2] = E_{\rho^2}[L(h, h')]` the tandem loss T (both err), and :math:`2 E[W (1 - W)] = 2 (G - T)` the
probability U that exactly one of them errs. Both moments bound P(W >= 1/2).

Each takes empirical losses (`pair_losses`) and bounds their expectations by PAC-Bayes-kl (`_limits`). They pay for
pools of weak, diverse voters such as trees; for strong voters that err at the same points they are above `first_order`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import EPS, largest_size, numbers, scalar, unit_interval
from pacbayes.bounds import kl_inverse_lower, kl_inverse_upper
from pacbayes.votes._weights import check_voters_by_points, normalized_weights

_ROUND_UP = 1 + 64 * EPS


class PairLosses(NamedTuple):
    """Empirical losses of one and of two voters drawn from rho, and numbers of points behind them.

    Attributes
    ----------
    gibbs : float
        Expected loss of one voter.
    tandem, one_errs : float
        Expected shares of the points shared by two voters at which both err, and at which exactly one of them errs.
        With two classes the latter is their disagreement.
    n, n_max : int
        Smallest and largest number of validation points of a voter.
    n_pair, n_pair_max : int
        Smallest and largest number of validation points that two voters share.
    """

    gibbs: float
    tandem: float
    one_errs: float
    n: int
    n_max: int
    n_pair: int
    n_pair_max: int


def pair_losses(errors: ArrayLike, rho: ArrayLike, validated: ArrayLike | None = None) -> PairLosses:
    """Return the empirical losses that the second-order bounds take.

    Parameters
    ----------
    errors : array_like of shape (m, n)
        Whether voter h errs at each point.
    rho : array_like of shape (m,)
        Weights of the voters, which sum to one.
    validated : array_like of shape (m, n), optional
        Whether a point is a validation point of voter h, outside of its training set. All by default. Any two
        voters must share at least one, also those without weight: the bounds hold for all weights at once.

    Returns
    -------
    PairLosses
        The losses, and the numbers of points.

    Examples
    --------
    >>> losses = pair_losses([[1, 0, 0, 0], [0, 1, 0, 0]], rho=[0.5, 0.5])
    >>> losses.gibbs, losses.tandem, losses.one_errs, losses.n_pair
    (0.25, 0.125, 0.25, 4)
    """
    weights = normalized_weights(rho)
    wrong = unit_interval("errors", errors)
    inside = np.ones(wrong.shape) if validated is None else unit_interval("validated", validated)
    for name, array in (("errors", wrong), ("validated", inside)):
        check_voters_by_points(name, array, weights.size, wrong.shape)
        if not np.all((array == 0) | (array == 1)):
            raise ValueError(f"{name} must be 0 or 1, got {array[(array != 0) & (array != 1)].flat[0]!s}")
    wrong = wrong * inside
    shared = inside @ inside.T
    if shared.min() < 1:
        h, other = np.unravel_index(int(np.argmin(shared)), shared.shape)
        raise ValueError(f"validated must leave a point that any two voters share, got none for voters {h} and {other}")
    both = wrong @ wrong.T
    one = wrong @ inside.T
    exactly_one = one + one.T - 2 * both
    sizes = np.diag(shared)
    return PairLosses(
        gibbs=float(weights @ (np.diag(both) / sizes)),
        tandem=float(weights @ (both / shared) @ weights),
        one_errs=float(weights @ (exactly_one / shared) @ weights),
        n=int(sizes.min()),
        n_max=int(sizes.max()),
        n_pair=int(shared.min()),
        n_pair_max=int(shared.max()),
    )


# -- the bounds: limits on the moments of W, put into an inequality ----------------------------------


def tandem(
    tandem_loss: float, kl_div: float, n_pair: int, delta: float = 0.05, *, n_pair_max: int | None = None
) -> float:
    r"""Bound the vote by four times the expected tandem loss; any number of classes [1]_.

    By Markov's inequality for :math:`W^2`, :math:`L(V) \le 4 E_{\rho^2}[L(h, h')]`, and with probability at least
    1 - delta, for all rho simultaneously,

    .. math::
        kl\left(E_{\rho^2}[\hat L(h, h')] \,\middle\|\, E_{\rho^2}[L(h, h')]\right)
        \le \frac{2 KL(\rho \| \pi) + \ln \frac{2 \sqrt{n}}{\delta}}{n}.

    Parameters
    ----------
    tandem_loss : float
        Empirical tandem loss :math:`E_{\rho^2}[\hat L(h, h')]`, in [0, 1], see `pair_losses`.
    kl_div : float
        :math:`KL(\rho \| \pi)`, non-negative.
    n_pair, n_pair_max : int
        Smallest number n of validation points that two voters share and, if they differ, the largest.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    References
    ----------
    .. [1] A. R. Masegosa, S. S. Lorenzen, C. Igel, Y. Seldin. Second order PAC-Bayesian bounds for the weighted
       majority vote. NeurIPS, 2020.

    Examples
    --------
    >>> round(tandem(0.02, kl_div=1.0, n_pair=1000), 6)
    0.180254
    """
    ((_, both),) = _limits(kl_div, delta, {"n_pair": (n_pair, n_pair_max)}, tandem_loss=tandem_loss)
    return min(1.0, 4 * both)


def c_bound(
    gibbs_loss: float,
    disagreement: float,
    kl_div: float,
    n: int,
    delta: float = 0.05,
    *,
    n_max: int | None = None,
    n_pair: int | None = None,
    n_pair_max: int | None = None,
) -> float:
    r"""Bound the vote by the C-bound, from Gibbs loss and disagreement; two classes [1]_ [2]_.

    By Cantelli's inequality for W, with G the Gibbs loss and D the expected disagreement,

    .. math:: L(V) \le 1 - \frac{(1 - 2 G)^2}{1 - 2 D} \quad\text{if } G < \tfrac12,

    which grows with G and falls with D: G is bounded from above and D from below, each with half of delta. D may
    be taken from unlabelled points.

    Parameters
    ----------
    gibbs_loss, disagreement : float
        Empirical loss :math:`E_\rho[\hat L(h)]` and disagreement :math:`E_{\rho^2}[\hat D(h, h')]`, in [0, 1].
    kl_div, delta
        As in `tandem`.
    n, n_max, n_pair, n_pair_max : int
        As in `PairLosses`. Those of pairs are n and n_max by default, which is right if all voters have the same
        validation points.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    References
    ----------
    .. [1] A. Lacasse, F. Laviolette, M. Marchand, P. Germain, N. Usunier. PAC-Bayes bounds for the risk of the majority
       vote and the variance of the Gibbs classifier. NIPS, 2006.
    .. [2] P. Germain, A. Lacasse, F. Laviolette, M. Marchand, J.-F. Roy. Risk bounds for the majority vote: from a
       PAC-Bayesian analysis to a learning algorithm. JMLR, 2015.

    Examples
    --------
    >>> round(c_bound(0.2, 0.28, kl_div=1.0, n=10000), 6)
    0.340532
    """
    sizes = {"n": (n, n_max), "n_pair": (n, n_max) if n_pair is None else (n_pair, n_pair_max)}
    (_, gibbs), (apart, _) = _limits(kl_div, delta, sizes, gibbs_loss=gibbs_loss, disagreement=disagreement)
    return _c_bound(gibbs, apart)


def chebyshev_cantelli(
    gibbs_loss: float,
    tandem_loss: float,
    kl_div: float,
    n: int,
    delta: float = 0.05,
    *,
    n_max: int | None = None,
    n_pair: int | None = None,
    n_pair_max: int | None = None,
) -> float:
    r"""Bound the vote by the Chebyshev-Cantelli bound, from Gibbs and tandem loss; any number of classes [1]_.

    For every mu < 1/2, by Markov's inequality for :math:`(W - \mu)^2`, with G and T the Gibbs and the tandem loss,

    .. math:: L(V) \le \frac{T - 2 \mu G + \mu^2}{(\tfrac12 - \mu)^2}.

    T is bounded from above and G from both sides, each with half of delta; the best mu costs nothing.

    Parameters
    ----------
    gibbs_loss, n, n_max, n_pair, n_pair_max
        As in `c_bound`.
    tandem_loss, kl_div, delta
        As in `tandem`.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    References
    ----------
    .. [1] Y.-S. Wu, A. R. Masegosa, S. S. Lorenzen, C. Igel, Y. Seldin. Chebyshev-Cantelli PAC-Bayes-Bennett inequality
       for the weighted majority vote. NeurIPS, 2021.

    Examples
    --------
    >>> round(chebyshev_cantelli(0.2, 0.06, kl_div=1.0, n=10000), 6)
    0.276214
    """
    sizes = {"n": (n, n_max), "n_pair": (n, n_max) if n_pair is None else (n_pair, n_pair_max)}
    (low, high), (_, both) = _limits(kl_div, delta, sizes, gibbs_loss=gibbs_loss, tandem_loss=tandem_loss)
    return _chebyshev_cantelli(low, high, both)


def split_kl(
    tandem_loss: float,
    one_errs: float,
    kl_div: float,
    n_pair: int,
    delta: float = 0.05,
    *,
    n_pair_max: int | None = None,
) -> float:
    r"""Bound the vote by Chebyshev-Cantelli with the PAC-Bayes-split-kl inequality; any number of classes [1]_.

    For every mu < 1/2, with T the tandem loss and U the probability that exactly one of two voters errs,

    .. math:: L(V) \le \frac{(1 - 2 \mu) T - \mu U + \mu^2}{(\tfrac12 - \mu)^2}.

    T is bounded from above and U from both sides, each with half of delta; the best mu costs nothing.

    Parameters
    ----------
    tandem_loss, kl_div, n_pair, delta, n_pair_max
        As in `tandem`.
    one_errs : float
        Empirical share of points at which exactly one of two voters errs, in [0, 1], see `pair_losses`.

    Returns
    -------
    float
        Upper bound on the loss of the vote, at most 1.

    References
    ----------
    .. [1] Y.-S. Wu, Y. Seldin. Split-kl and PAC-Bayes-split-kl inequalities for ternary random variables.
       NeurIPS, 2022.

    Examples
    --------
    >>> round(split_kl(0.06, 0.28, kl_div=1.0, n_pair=10000), 6)
    0.259301
    """
    sizes = {"n_pair": (n_pair, n_pair_max)}
    (_, both), (low, high) = _limits(kl_div, delta, sizes, tandem_loss=tandem_loss, one_errs=one_errs)
    # G = T + U / 2, and for a fixed U the bound grows with T.
    return _chebyshev_cantelli((both + low / 2) * (1 - EPS), (both + high / 2) * (1 + EPS), both)


def _limits(
    kl_div: float, delta: float, sizes: dict[str, tuple[int, int | None]], **losses: float
) -> list[tuple[float, float]]:
    """Limits on the expectations of the given empirical losses, by PAC-Bayes-kl (Theorem PBkl), delta shared equally.

    The Gibbs loss is that of one voter, all others are of two drawn together: KL(rho^2 || pi^2) = 2 KL(rho || pi).
    The smallest number of points divides, the largest is inside of the logarithm.
    """
    divergence, level = numbers(kl_div=kl_div, delta=delta)
    limits = []
    for name, loss in losses.items():
        voters, size = (1, "n") if name == "gibbs_loss" else (2, "n_pair")
        empirical, smallest = numbers(**{name: loss, size: sizes[size][0]})
        largest = scalar(f"{size}_max", largest_size(smallest, sizes[size][1], size))
        logarithm = np.log(2.0) - np.log(level / len(losses)) + 0.5 * np.log(largest)
        complexity = (voters * divergence + logarithm) / smallest * _ROUND_UP
        limits.append((float(kl_inverse_lower(empirical, complexity)), float(kl_inverse_upper(empirical, complexity))))
    return limits


def _c_bound(gibbs: float, disagreement: float) -> float:
    """C-bound for an upper bound on the Gibbs loss and a lower bound on the disagreement."""
    if gibbs >= 0.5:
        return 1.0
    # D = 2 E[W (1 - W)] <= 2 G (1 - G): a larger one would contradict the bound on the Gibbs loss.
    variance = max(gibbs * (1 - gibbs) - disagreement / 2, 0.0) + 4 * EPS * gibbs
    # Cantelli's inequality, which is 1 - (1 - 2 G)^2 / (1 - 2 D) without its cancellation.
    return min(1.0, variance / (variance + (0.5 - gibbs) ** 2) * _ROUND_UP)


def _chebyshev_cantelli(low: float, high: float, both: float) -> float:
    """Chebyshev-Cantelli bound for limits on the Gibbs loss and an upper bound on the tandem loss."""
    # For a given T the bound at its best mu is largest where G = 2 T, mu = 0, and falls to both sides.
    gibbs = min(max(2 * both, low), high)
    if gibbs >= 0.5:
        return min(1.0, 4 * both)
    mu = (gibbs / 2 - both) / (0.5 - gibbs)
    # Any mu is valid; for each, the worst Gibbs loss is at one of its limits.
    worst = high if mu < 0 else low
    numerator = both - 2 * mu * worst + mu * mu
    error = 8 * EPS * (both + 2 * abs(mu) * worst + mu * mu)
    return min(1.0, 4 * both, (numerator + error) / (0.5 - mu) ** 2 * _ROUND_UP)
