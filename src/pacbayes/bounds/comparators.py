r"""Comparators: how far a true loss can lie from an empirical one, as functions with a bounded exponential moment.

A comparator D of a hypothesis is a convex function of its true loss L that also depends on its empirical loss and on
the number n of points it was measured on, such that :math:`E[e^{D(L)}] \le 1` for losses in [0, 1].
`pacbayes.bounds.dual` and `pacbayes.bounds.direct` turn comparators into bounds. All that the former needs is the
convex conjugate

.. math:: \varphi(\beta) = \max_{0 \le L \le 1} \{\beta L - D(L)\}, \qquad \beta > 0,

which is convex and does not decrease; its slope is the maximiser L. Any L in [0, 1] gives the lower bound
:math:`\beta L - D(L)` on it for all :math:`\beta` at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pacbayes._validation import EPS, Array
from pacbayes.bounds._binomial import log_binomial_tail
from pacbayes.bounds._kl import kl_of, scaled_f, xi
from pacbayes.bounds.prior import SLACK

ComparatorName = Literal["kl", "mixture"]
DirectComparatorName = Literal["kl", "mixture", "p-value"]

# Relative errors granted to the maximiser and to the divergence at it; tests/bounds/test_comparators.py measures them.
_MAXIMIZER_ERROR = 16 * EPS
_DIVERGENCE_ERROR = 64 * EPS

# More than `xi` exceeds the exact constant by, relatively.
_XI_EXCESS = 1e-12

# Numbers worked on at once: arrays that stay in the processor's cache.
_COLUMNS = 1 << 14

# Beyond this n / beta the maximiser is the empirical loss to double precision.
_LARGEST_RATIO = 1e100


class Conjugate(NamedTuple):
    r"""The conjugates :math:`\varphi` of k comparators at r values of beta: arrays of shape (r, k)."""

    maximizer: Array  # the maximiser L, or a number close to it, rounded down
    # D at that L, rounded up: `beta * maximizer - deviation` bounds the conjugate from below for every beta.
    deviation: Array
    upper: Array  # the conjugate, rounded up
    curvature: Array  # its second derivative in beta, 1 / D''(L)


class Curve(NamedTuple):
    """Comparators of some hypotheses at a true loss of each: arrays of one shape."""

    value: Array  # D
    slope: Array  # D'
    curvature: Array  # D''
    error: Array  # absolute, granted to `value`


class Comparator(ABC):
    """Comparators of k hypotheses, by their empirical losses and numbers of points."""

    least: Array  # (k,): the true losses at which they are smallest, and from which on they do not fall

    @abstractmethod
    def at(self, which: NDArray[np.intp], loss: Array) -> Curve:
        """Evaluate the comparators of the given hypotheses at the given true losses, not below `least`."""


class ConjugateComparator(Comparator):
    """Comparators whose conjugates are known, too."""

    width: int  # floats of working memory per hypothesis and beta
    minimum: Array  # (k,): the conjugates at beta = 0, rounded down

    @abstractmethod
    def conjugate(self, beta: Array, is_relevant: Callable[[Array], NDArray[np.bool_]]) -> Conjugate:
        """Conjugates at each of the given beta, positive and at most 1e290.

        Where they are costly, lower bounds on them are passed to `is_relevant`, and those that it says no to are left
        with rough bounds.
        """


class KlComparator(ConjugateComparator):
    r"""The comparator :math:`D(L) = n\, kl(\hat L \| L) - \ln \xi(n)`, with its conjugate in closed form."""

    width = 1

    def __init__(self, loss: Array, n: Array) -> None:
        self._loss = self.least = loss
        self._n = n
        self._log_xi = np.log(np.asarray(xi(n))) * (1 + 2 * EPS)
        self.minimum = self._log_xi * (1 - 8 * EPS) - _XI_EXCESS

    def at(self, which: NDArray[np.intp], loss: Array) -> Curve:
        p, n, log_xi = self._loss[which], self._n[which], self._log_xi[which]
        divergence = n * kl_of(p, loss)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(p > 0, n * (loss - p) / (loss * (1 - loss)), n / (1 - loss))
            curvature = n * (np.where(p > 0, p / loss**2, 0.0) + np.where(p < 1, (1 - p) / (1 - loss) ** 2, 0.0))
        slope = np.where(loss > p, slope, np.where(p > 0, 0.0, n))
        return Curve(divergence - log_xi, slope, curvature, 16 * EPS * divergence + 4 * EPS * log_xi)

    def conjugate(self, beta: Array, is_relevant: Callable[[Array], NDArray[np.bool_]]) -> Conjugate:
        columns = [self._columns(beta, slice(i, i + _COLUMNS)) for i in range(0, self._n.size, _COLUMNS)]
        return Conjugate(*(np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)))

    def _columns(self, beta: Array, part: slice) -> Conjugate:
        """The conjugates of some of the hypotheses."""
        p, n, log_xi, column = self._loss[part], self._n[part], self._log_xi[part], beta[:, np.newaxis]
        # The conjugate grows as s = n / beta falls, hence s is rounded down.
        with np.errstate(over="ignore"):
            s = np.minimum(n / column * (1 - 2 * EPS), _LARGEST_RATIO)
        root, maximizer, rest = _maximize(p, s)
        with np.errstate(all="ignore"):
            gain = maximizer * rest / s  # L - p by the equation for L, without cancellation
            divergence = scaled_f(p, gain, maximizer) + scaled_f(1 - p, -gain, rest)
            curvature = np.where(maximizer > 0, maximizer * rest / (column * root), 0.0)
        psi = maximizer * (1 + _MAXIMIZER_ERROR) - s * divergence * (1 - _DIVERGENCE_ERROR)
        deviation = n * divergence * (1 + _DIVERGENCE_ERROR) - self.minimum[part]
        return Conjugate(maximizer * (1 - _MAXIMIZER_ERROR), deviation, column * np.maximum(psi, p) + log_xi, curvature)


def _maximize(p: Array, s: Array) -> tuple[Array, Array, Array]:
    """Maximise L - s kl(p || L): the discriminant's root, L, and 1 - L, each to a few units in the last place.

    The derivative vanishes where L (1 - L) = s (L - p), a quadratic equation for L, and one for 1 - L.
    """
    root = np.sqrt((1 - s) ** 2 + 4 * s * p)
    with np.errstate(invalid="ignore", divide="ignore"):
        conjugate_form = np.where(p > 0, 2 * s * p / (s - 1 + root), 0.0)
    maximizer = np.where(s < 1, (1 - s + root) / 2, conjugate_form)
    return root, np.minimum(maximizer, 1.0), 2 * s * (1 - p) / (1 + s + root)


# The grid of the mixture: from 4 sqrt(ln(1 / delta) / n), the best parameter where the loss is 1/2 and the
# complexity KL + ln(1 / delta) is twice ln(1 / delta), to 4, where a single error is left; neighbours differ by
# a factor of exp(1/2) at most. The bound depends little on it: a parameter that is off by a factor f costs
# about (1 - f)^2 of the complexity, and there are few neighbours to share the mass with.
_LARGEST_PARAMETER = 4.0
_LOG_STEP = 0.5

# Weight of the parameter 0, whose term is the constant 1. It keeps D above the logarithm of this weight, so that
# hypotheses whose best parameter lies below the grid cost little: those with many points among others with few.
_CONSTANT_SHARE = 0.02

# Least second derivative of a mixture that is told from zero.
_FLAT = 1e-200

# Residual of the stationarity condition, relative to beta, at which the search for a maximiser stops.
_STATIONARY = 1e-10


class CatoniMixture(ConjugateComparator):
    r"""The comparator :math:`D(L) = \ln \sum_k q_k e^{-n \ln(1 - a_k L) - n c_k \hat L}`, :math:`a_k = 1 - e^{-c_k}`.

    Each term is Catoni's inequality with the parameter :math:`c_k`; the grid and its weights depend on n and delta
    alone. The mixture is at least as large as each of its terms on its own, :math:`n (-\ln(1 - a_k L) - c_k \hat L) +
    \ln q_k`: the bound is at most that of the best parameter of the grid, each at its share :math:`q_k` of delta.
    """

    def __init__(self, loss: Array, n: Array, delta: float) -> None:
        self._loss = loss
        self._n = n
        sizes, place = np.unique(n, return_inverse=True)
        smallest = np.minimum(4 * np.sqrt(-np.log(delta) / sizes), _LARGEST_PARAMETER)
        log_range = np.log(_LARGEST_PARAMETER / smallest)
        steps = np.maximum(np.ceil(log_range / _LOG_STEP), 1)[:, np.newaxis]
        index = np.arange(int(steps.max()) + 1)
        log_c = np.log(_LARGEST_PARAMETER) - np.minimum(index / steps, 1.0) * log_range[:, np.newaxis]
        log_q = np.where(index <= steps, np.log1p(-_CONSTANT_SHARE) - np.log1p(steps), -np.inf)
        # The floats a_k are exact by definition, and c_k follows. The first term is the constant.
        self._a = np.pad(-np.expm1(-np.exp(log_c)), ((0, 0), (1, 0)))[place]
        self._log_q = np.pad(log_q, ((0, 0), (1, 0)), constant_values=np.log(_CONSTANT_SHARE))[place]
        self._shift = -n[:, np.newaxis] * np.log1p(-self._a) * loss[:, np.newaxis]  # n c_k L_hat
        self.width = index.size + 1
        self.least = np.zeros_like(loss)
        at_zero = special.logsumexp(self._log_q - self._shift, axis=1)
        self.minimum = np.maximum(-at_zero * (1 - 64 * EPS) - SLACK, 0.0)

    def conjugate(self, beta: Array, is_relevant: Callable[[Array], NDArray[np.bool_]]) -> Conjugate:
        shape = (beta.size, self._n.size)
        slope, which = np.repeat(beta, self._n.size), np.tile(np.arange(self._n.size), beta.size)
        # Begin with the maximiser of the kl comparator, which is not far.
        with np.errstate(over="ignore"):
            s = np.minimum(self._n / beta[:, np.newaxis], _LARGEST_RATIO)
        loss = _maximize(self._loss, s)[1].ravel()
        figures = self._derivatives(which, loss)
        active = np.flatnonzero(is_relevant((slope * loss - figures[0]).reshape(shape)))
        loss[active], figures[:, active] = self._newton(which[active], slope[active], loss[active], figures[:, active])
        d, d1, d2, size = figures
        missing = np.abs(slope - d1) + 64 * EPS * slope
        missing[active] = self._missing(which[active], slope[active], loss[active], d1[active], d2[active])
        error = 32 * EPS * size + SLACK
        upper = slope * loss * (1 + 4 * EPS) - d + error + missing
        curvature = np.where((loss > 0) & (loss < 1), 1 / d2, 0.0)
        return Conjugate(*(x.reshape(shape) for x in (loss * (1 - 4 * EPS), d + error, upper, curvature)))

    def at(self, which: NDArray[np.intp], loss: Array) -> Curve:
        value, slope, curvature, size = self._derivatives(which, loss)
        return Curve(value, slope, np.where(curvature > _FLAT, curvature, 0.0), 32 * EPS * size + SLACK)

    def _newton(self, which: NDArray[np.intp], slope: Array, loss: Array, figures: Array) -> tuple[Array, Array]:
        """Solve D'(L) = slope on [0, 1], where D' rises, from a first L and its `_derivatives`."""
        low, high = np.zeros_like(loss), np.ones_like(loss)
        going = np.arange(loss.size)
        for _ in range(100):
            at, residual = loss[going], slope[going] - figures[1, going]
            low[going] = np.where(residual > 0, at, low[going])
            high[going] = np.where(residual < 0, at, high[going])
            # Outside [0, 1] stands for the end of it; elsewhere, and at the second attempt, the interval is halved.
            following = np.clip(at + residual / figures[2, going], 0.0, 1.0)
            inside = (following > low[going]) & (following < high[going])
            at_new_end = (following != at) & (
                (following == 0) & (low[going] == 0) | (following == 1) & (high[going] == 1)
            )
            following = np.where(inside | at_new_end, following, (low[going] + high[going]) / 2)
            solved = (np.abs(residual) <= _STATIONARY * slope[going]) | (at == 1) & (residual > 0)
            solved |= (at == 0) & (residual < 0) | (following == at)
            going, following = going[~solved], following[~solved]
            if going.size == 0:
                break
            loss[going] = following
            figures[:, going] = self._derivatives(which[going], following)
        return loss, figures

    def _missing(self, which: NDArray[np.intp], slope: Array, loss: Array, d1: Array, d2: Array) -> Array:
        """How much more than at `loss` the concave function slope * L - D(L) can be elsewhere, at most."""
        granted = 64 * EPS * slope
        residual = np.abs(slope - d1) + granted
        # The maximum is between two points where the derivatives have opposite signs for certain, and at most the
        # tangent's value there; ends of [0, 1] need no sign.
        step = np.maximum(4 * residual / d2, 4 * np.spacing(loss))
        below, above = np.maximum(loss - step, 0.0), np.minimum(loss + step, 1.0)
        rises = (below == 0) | (self._derivatives(which, below)[1] + granted < slope)
        falls = (above == 1) | (self._derivatives(which, above)[1] - granted > slope)
        room = np.where(rises & falls, above - below, 1.0)
        is_end = ((loss == 1) & (d1 + granted < slope)) | ((loss == 0) & (d1 - granted > slope))
        return np.where(is_end, 0.0, residual * room)

    def _derivatives(self, which: NDArray[np.intp], loss: Array) -> Array:
        """Rows D, D', D'' of the given hypotheses at the given true losses, and the mean size of the exponents."""
        step = max(1, _COLUMNS // self.width)
        parts = [self._block(which[i : i + step], loss[i : i + step]) for i in range(0, loss.size, step)]
        return np.concatenate(parts, axis=1) if parts else np.empty((4, 0))

    def _block(self, which: NDArray[np.intp], loss: Array) -> Array:
        n, a, shift = self._n[which, np.newaxis], self._a[which], self._shift[which]
        scaled = a * loss[:, np.newaxis]
        growth = -n * np.log1p(-scaled)
        exponent = self._log_q[which] + growth - shift
        log_sum, weight = log_sum_exp(exponent)
        slope = n * a / (1 - scaled)
        d1 = (weight * slope).sum(axis=1)
        d2 = (weight * (slope**2 / n + (slope - d1[:, np.newaxis]) ** 2)).sum(axis=1)
        # Where only the constant is left, D is flat to double precision.
        d2 = np.maximum(d2, _FLAT)
        return np.stack((log_sum, d1, d2, (weight * (growth + shift)).sum(axis=1)))


# The power of the p-values, chosen on the paper's datasets at delta = 0.05 (benchmarks/direct.py).
KAPPA = 0.1

# Largest number of points, all of which have to be counted in a float.
_LARGEST_COUNT = 1e15


class TailPower(Comparator):
    r"""The comparator :math:`D(L) = \ln \kappa - (1 - \kappa) \ln p(L)`, p the probability of as few errors or fewer.

    For the zero-one loss :math:`p(L) = P(Bin(n, L) \le n \hat L)` is a p-value of the true loss, exactly, and
    :math:`\kappa p^{\kappa - 1}` has an expectation of at most one. It is the upper tail of a Beta law at L, whose
    density is log-concave, and so is the tail: D is convex.
    """

    def __init__(self, loss: Array, n: Array) -> None:
        self._errors, self._n = np.rint(loss * n), n
        whole = (self._errors / n == loss) & (n <= _LARGEST_COUNT)
        if not whole.all():
            raise ValueError(
                "losses must be numbers of errors divided by n, which is at most 1e15, for the comparator 'p-value', "
                f"got {loss[~whole][0]!s} with n = {n[~whole][0]:.16g}"
            )
        self.least = np.zeros_like(loss)

    def at(self, which: NDArray[np.intp], loss: Array) -> Curve:
        k, n = self._errors[which], self._n[which]
        value, slope, curvature = np.full(loss.shape, np.log(KAPPA)), np.zeros(loss.shape), np.zeros(loss.shape)
        error = np.full(loss.shape, SLACK)
        inside = np.flatnonzero((k < n) & (loss > 0))  # elsewhere p is 1
        k, n, q = k[inside], n[inside], loss[inside]
        log_tail, log_pmf, tail_error = log_binomial_tail(k, n, q)
        value[inside] -= (1 - KAPPA) * log_tail
        error[inside] += tail_error + 2 * EPS * np.abs(log_tail)
        with np.errstate(all="ignore"):
            hazard = np.exp(log_pmf - log_tail) * (n - k) / (1 - q)  # of the Beta law
            bend = hazard * (k / q - (n - k - 1) / (1 - q) + hazard)
        slope[inside] = (1 - KAPPA) * hazard
        curvature[inside] = (1 - KAPPA) * np.maximum(bend, 0.0)
        at_zero = (loss == 0) & (self._errors[which] == 0)
        slope[at_zero] = (1 - KAPPA) * self._n[which][at_zero]
        return Curve(value, slope, curvature, error)


def log_sum_exp(exponent: Array) -> tuple[Array, Array]:
    """Logarithms of the rows' sums of exponentials, and the shares of their terms."""
    top = exponent.max(axis=1)
    weight = np.exp(exponent - top[:, np.newaxis])
    total = weight.sum(axis=1)
    return top + np.log(total), weight / total[:, np.newaxis]


def make_comparator(name: Any, loss: Array, n: Array, delta: float, names: Any = ComparatorName) -> Any:
    """Build the comparator of this name, of several `names`, for hypotheses with these losses and numbers of points."""
    if name not in get_args(names):
        raise ValueError(f"comparator must be one of {', '.join(map(repr, get_args(names)))}, got {name!r}")
    if name == "mixture":
        return CatoniMixture(loss, n, delta)
    return KlComparator(loss, n) if name == "kl" else TailPower(loss, n)
