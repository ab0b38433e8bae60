r"""Evaluate the curve of Gibbs posteriors :math:`\rho_t(h) \propto \pi(h) e^{-t \hat L(h, S)}` in log space.

The minimisers of the paper's bounds search this curve (t = lambda n in eq. rho). Equal losses are grouped once, so
that an evaluation costs the number of distinct losses, not m: zero-one losses on n points take at most n + 1 values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import EPS, Array, largest_size, loss_vector, numbers, scalar
from pacbayes.bounds import confidence_term
from pacbayes.bounds.prior import SLACK, normalise_log_prior

# Relative error granted to an exponent t x - ln(mass): half an ulp each for x, t x, the logarithm, their difference,
# the normalisation of the prior and the subtraction of the largest exponent. The rest covers terms of second order.
_EXPONENT_ERROR = 4 * EPS

# Absolute error of the largest exponent up to which terms of second order are negligible.
_LARGEST_EXPONENT_ERROR = 0.1

# Exponentials that a search may compute, if that leaves enough evaluations: about ten seconds.
_MAX_EXPONENTIALS = 200_000_000

# Smaller positive differences of losses are replaced by it: products of weights with them would underflow to zero.
_SMALLEST_DIFFERENCE = 1e-280

# exp(-746) is zero in double precision.
_UNDERFLOW = 746.0

# Entries of the matrix of temperatures by distinct losses that are held in memory at once: 32 MiB.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class GibbsMoments:
    r"""Moments of :math:`\rho_t`, one entry per temperature; x = L - min L over the prior's support."""

    min_loss: float  # smallest loss with positive prior
    t: Array  # inverse temperatures, from 0 (the prior) to inf (the prior restricted to the smallest loss)
    minus_log_z: Array  # -ln E_pi[exp(-t x)] >= 0; concave in t with slope `mean_x`
    mean_x: Array  # E_rho_t[x], which falls with t
    var: Array
    log_error: Array  # this and the next two bound the rounding errors of `minus_log_z`, `mean_x` and `var`
    mean_error: Array
    var_error: Array

    @property
    def loss(self) -> Array:
        r""":math:`E_{\rho_t}[\hat L]`, which falls with t."""
        return np.minimum(self.min_loss + self.mean_x, 1.0)

    @property
    def kl_div(self) -> Array:
        r""":math:`KL(\rho_t \| \pi)` by eq. KL, which grows with t."""
        # The terms cancel for small t, where the difference may be negative by rounding. Adding zero avoids -0.0.
        return np.maximum(self.minus_log_z - _product(self.t, self.mean_x), 0.0) + 0.0

    @property
    def loss_up(self) -> Array:
        """Upper bound on the exact `loss`."""
        return np.minimum(self.loss * (1 + 2 * EPS) + self.mean_error, 1.0)

    @property
    def loss_down(self) -> Array:
        """Lower bound on the exact `loss`."""
        return np.maximum(self.loss * (1 - 2 * EPS) - self.mean_error, self.min_loss * (1 - 2 * EPS))

    @property
    def kl_div_up(self) -> Array:
        """Upper bound on the exact `kl_div`; zero where the posterior is the prior."""
        # KL = -ln Z - t E[x] is at most -ln Z: the better bound where the error of E[x] exceeds E[x].
        at_most = self.minus_log_z + (self.log_error + EPS * self.minus_log_z)
        return np.minimum(self.kl_div + self._kl_div_error, at_most)

    @property
    def kl_div_down(self) -> Array:
        """Lower bound on the exact `kl_div`."""
        return np.maximum(self.kl_div - self._kl_div_error, 0.0)

    @property
    def _kl_div_error(self) -> Array:
        return self.log_error + _product(self.t, self.mean_error) + EPS * self.minus_log_z

    def __getitem__(self, index: slice | NDArray[np.bool_] | NDArray[np.intp]) -> GibbsMoments:
        return replace(self, **{name: getattr(self, name)[index] for name in _COLUMNS})

    def concatenate(self, other: GibbsMoments) -> GibbsMoments:
        """Append the temperatures of `other`, which are on the same curve."""
        columns: dict[str, Any] = {name: np.append(getattr(self, name), getattr(other, name)) for name in _COLUMNS}
        return replace(self, **columns)


_COLUMNS = ("t", "minus_log_z", "mean_x", "var", "log_error", "mean_error", "var_error")


def _product(t: Array, x: Array) -> Array:
    """Return t * x, with inf * 0 = 0: at t = inf only the smallest loss, x = 0, has positive mass."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(x > 0, t * x, 0.0)


def split_interval(left: GibbsMoments, right: GibbsMoments) -> Array:
    """Return a temperature inside each interval: the geometric mean where the ends differ by orders of magnitude."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.where(right.t > 4 * left.t, np.sqrt(left.t) * np.sqrt(right.t), (left.t + right.t) / 2)
    middle = np.where(left.t == 0, right.t / 16, middle)
    return np.where(np.isinf(right.t), 4 * left.t, middle)


class GibbsCurve:
    """Gibbs posteriors of m hypotheses at any temperature, from their losses and prior.

    The prior holds probabilities, or log-probabilities (recognised by having no entry above zero); `n` only makes
    grouping faster where losses are counts divided by n. Of the hypotheses with positive prior, `m` is the number,
    `min_loss` the smallest loss, `x` the distinct losses minus that, rising, `counts` how many hypotheses have each,
    and `log_mass` the logarithm of the prior mass of each.
    """

    def __init__(self, losses: ArrayLike, n: float, prior: ArrayLike | None = None) -> None:
        loss_array = loss_vector("losses", losses)
        self._size = loss_array.size
        # Log-probabilities of the hypotheses in the prior's support; None for the uniform prior.
        self._log_prior = None if prior is None else normalise_log_prior(prior, self._size)
        self._support: NDArray[np.intp] | slice = slice(None)
        if self._log_prior is not None:
            self._support = np.flatnonzero(self._log_prior > -np.inf)
            self._log_prior = self._log_prior[self._support]
            loss_array = loss_array[self._support]
        self.m = loss_array.size
        values, self.counts, self._slot, self._used = _group(loss_array, n)
        self.min_loss = float(values[0])
        x = values - self.min_loss
        self.x = np.where(x > 0, np.maximum(x, _SMALLEST_DIFFERENCE), 0.0)
        self.is_uniform = self._log_prior is None or bool(np.ptp(self._log_prior) == 0)
        if self.x.size == 1:
            self.log_mass = np.zeros(1)
        elif self._log_prior is None:
            self.log_mass = np.log(self.counts) - np.log(self.m)
        else:
            self.log_mass = self._group_log_sum(self._log_prior)

    def _group_log_sum(self, log_values: Array) -> Array:
        """Return ln of the sum of exp(log_values) over each group, at most 0, without over- or underflow."""
        order = np.argsort(self._slot, kind="stable")
        starts = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        ordered = log_values[order]
        top = np.maximum.reduceat(ordered, starts)
        scaled = np.exp(ordered - np.repeat(top, self.counts))
        return np.asarray(np.minimum(top + np.log(np.add.reduceat(scaled, starts)), 0.0))

    @cached_property
    def log_prior(self) -> Array:
        """Normalised logarithm of the prior, one entry per hypothesis; -inf outside its support."""
        if self._log_prior is None:
            return np.full(self._size, -np.log(self.m))
        log_prior = np.full(self._size, -np.inf)
        log_prior[self._support] = self._log_prior
        return log_prior

    def point_mass_kls(self) -> Array:
        r"""Compute :math:`KL(\rho \| \pi) = -\ln \pi(h)` of the posterior with all mass on h, for every h, rounded up.

        The logarithm is never exponentiated: it is exact to rounding also where pi(h) is too small for a float.
        """
        kl_div = -self.log_prior
        # The errors of the logarithm, of the normalising sum and of their difference are relative to 1 + KL, since the
        # largest log-probability lies between -KL and 0. The prior of a single hypothesis is exactly one.
        return np.asarray(kl_div + SLACK * (1 + kl_div) if self.m > 1 else kl_div + 0.0)

    def at(self, t: ArrayLike) -> GibbsMoments:
        """Compute the moments of the Gibbs posteriors at inverse temperatures t in [0, inf]."""
        t_array = np.atleast_1d(np.asarray(t, dtype=np.float64))
        rows = max(1, _BLOCK // self.x.size)
        blocks = [self._moments(t_array[i : i + rows]) for i in range(0, t_array.size, rows)]
        moments = np.concatenate(blocks, axis=1) if blocks else np.empty((6, 0))
        return GibbsMoments(self.min_loss, t_array, *moments)

    @property
    def max_evaluations(self) -> int:
        """Number of temperatures that a search may evaluate: 20,000, or fewer where there are many distinct losses."""
        return max(200, min(20_000, _MAX_EXPONENTIALS // self.x.size))

    def _moments(self, t: Array) -> Array:
        """Compute rows of `minus_log_z`, `mean_x`, `var`, `log_error`, `mean_error` and `var_error`."""
        exponent = _product(t[:, np.newaxis], self.x)
        weight = self.log_mass - exponent
        top = weight.max(axis=1)
        np.exp(weight - top[:, np.newaxis], out=weight)
        total = weight.sum(axis=1)
        weight /= total[:, np.newaxis]
        mean_x = (weight * self.x).sum(axis=1)
        square = (self.x - mean_x[:, np.newaxis]) ** 2
        var = (weight * square).sum(axis=1)
        minus_log_z = np.where(t > 0, np.maximum(-(top + np.log(total)), 0.0), 0.0)
        # An error of e in an exponent is a relative error of e in its weight, to first order. Exponents are differences
        # of terms of opposite sign, so their errors are relative to the exponents themselves.
        size = weight * np.where(weight > 0, exponent - self.log_mass, 0.0)
        mean_size = size.sum(axis=1)
        # Where the posterior is the prior, its divergence is exactly zero.
        is_prior = (t == 0) | (self.x.size == 1)
        log_error = np.where(is_prior, 0.0, _EXPONENT_ERROR * mean_size + SLACK)
        mean_error = _EXPONENT_ERROR * ((size * self.x).sum(axis=1) + mean_size * mean_x) + SLACK * mean_x
        var_error = _EXPONENT_ERROR * ((size * square).sum(axis=1) + mean_size * var) + SLACK * var
        # The analysis to first order holds for ln Z, a 1-Lipschitz function of the exponents, whatever their size. For
        # the other moments it ends where the errors of exponents are no longer small.
        lost = np.flatnonzero(-_EXPONENT_ERROR * top > _LARGEST_EXPONENT_ERROR)
        if lost.size:
            width = self._width_of_support(exponent[lost], top[lost])
            mean_error[lost], var_error[lost] = width + SLACK * mean_x[lost], width**2
        return np.stack((minus_log_z, mean_x, var, log_error, mean_error, var_error))

    def _width_of_support(self, exponent: Array, top: Array) -> Array:
        """Return max x - min x over the losses whose weight is not certain to underflow, for each temperature."""
        distance = top[:, np.newaxis] - (self.log_mass - exponent)
        error = _EXPONENT_ERROR * (distance - 2 * top[:, np.newaxis])
        with np.errstate(invalid="ignore"):  # inf - inf at t = inf
            may_count = distance - error <= _UNDERFLOW
        return np.asarray(
            np.where(may_count, self.x, -np.inf).max(axis=1) - np.where(may_count, self.x, np.inf).min(axis=1)
        )

    def rho(self, t: float) -> Array:
        """Compute the Gibbs posterior at inverse temperature t, one weight per hypothesis (eq. rho)."""
        log_ratio = np.full(self._used[-1] + 1, -np.inf)  # of rho to the prior, for each loss
        log_ratio[self._used] = self.at(t).minus_log_z - _product(np.asarray(t), self.x)
        if self._log_prior is None:
            per_slot = np.exp(log_ratio - np.log(self.m))
            per_slot /= np.dot(per_slot[self._used], self.counts)
            return np.asarray(per_slot[self._slot])
        rho = np.zeros(self._size)
        rho[self._support] = np.exp(log_ratio[self._slot] + self._log_prior)
        return np.asarray(rho / rho.sum())


def _group(losses: Array, n: float) -> tuple[Array, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return distinct losses, rising, their numbers of hypotheses, the slot of each hypothesis, and of each loss."""
    errors = np.rint(losses * n)
    # Zero-one losses are whole numbers of errors divided by n: counting them is much faster than sorting.
    if errors.max() <= 4 * losses.size + 1024 and np.array_equal(errors / n, losses):
        slot = errors.astype(np.intp)
        counts = np.bincount(slot)
        used = np.flatnonzero(counts)
        return used / n, counts[used], slot, used
    values, slot, counts = np.unique(losses, return_inverse=True, return_counts=True)
    return values, counts, slot, np.arange(values.size)


@dataclass(frozen=True)
class GibbsProblem:
    """What the paper's bounds depend on: Gibbs posteriors, the number of points n, and the confidence term."""

    curve: GibbsCurve
    n: float
    confidence: float  # ln(2 sqrt(n_max) / delta)

    @classmethod
    def validated(
        cls, losses: ArrayLike, n: int, delta: float, prior: ArrayLike | None, n_max: int | None
    ) -> GibbsProblem:
        """Validate the arguments that the functions of `pacbayes.posterior` share."""
        n_points, level = numbers(n=n, delta=delta)
        largest = scalar("n_max", largest_size(n_points, n_max))
        confidence = float(confidence_term(n_points, level, n_max=largest))
        return cls(GibbsCurve(losses, n_points, prior), n_points, confidence)


def optimal_lambda_of(loss: Array, kl_div: Array, n: float | Array, confidence: float | Array) -> Array:
    """Compute the lambda that minimises the PAC-Bayes-lambda bound (eq. lambda), from valid arguments."""
    ratio = loss / (kl_div + confidence) * n
    return np.asarray(2 / (np.sqrt(2 * ratio + 1) + 1))
