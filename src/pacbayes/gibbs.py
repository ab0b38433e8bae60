r"""The curve of Gibbs posteriors :math:`\rho_t(h) \propto \pi(h) e^{-t \hat L(h, S)}`, in log space.

Every minimiser of the package moves along this curve (t = lambda n in eq. rho). Losses enter it only
through their distinct values, so they are grouped once and each step costs the number of values, not m:
zero-one losses on n points take at most n + 1 of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pacbayes._validation import Array, loss_vector, numbers

# What an exponential, its exponent's last operation and a pairwise sum may lose, relative to their size.
_EPS = float(np.finfo(np.float64).eps)
SLACK = 32 * _EPS

# A prior may miss one by this much before it is an error rather than rounding; more if it came in single precision.
_PRIOR_TOLERANCE = {"float32": 1e-5, "float16": 1e-2}
_PRIOR_TOLERANCE_DOUBLE = 1e-8

# Values held at once when many temperatures are evaluated over many distinct losses: 32 MiB of floats.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Point:
    r"""Figures of :math:`\rho_t`, one entry per temperature; x = L - min L over the prior's support.

    Attributes
    ----------
    t : ndarray
        Inverse temperatures, 0 (the prior) to inf (the prior restricted to the smallest loss).
    minus_log_z : ndarray
        :math:`-\ln E_\pi[e^{-t x}] \ge 0`; concave in t with slope `mean_x`.
    mean_x : ndarray
        :math:`E_{\rho_t}[x]`, which falls with t.
    var : ndarray
        :math:`Var_{\rho_t}[\hat L]`.
    log_error, mean_error, var_error : ndarray
        More than rounding can have moved `minus_log_z`, `mean_x` and `var`.
    min_loss : float
        Smallest loss with positive prior.
    """

    t: Array
    minus_log_z: Array
    mean_x: Array
    var: Array
    log_error: Array
    mean_error: Array
    var_error: Array
    min_loss: float

    @property
    def loss(self) -> Array:
        r""":math:`E_{\rho_t}[\hat L]`, which falls with t."""
        return np.minimum(self.min_loss + self.mean_x, 1.0)

    @property
    def kl_div(self) -> Array:
        r""":math:`KL(\rho_t \| \pi)` by eq. KL, which grows with t."""
        # The terms cancel for small t, where only rounding can make the difference negative.
        return np.maximum(self.minus_log_z - _product(self.t, self.mean_x), 0.0)

    @property
    def loss_up(self) -> Array:
        """`loss`, rounded up."""
        return np.minimum(self.loss * (1 + 2 * _EPS) + self.mean_error, 1.0)

    @property
    def loss_down(self) -> Array:
        """`loss`, rounded down."""
        return np.maximum(self.loss * (1 - 2 * _EPS) - self.mean_error, self.min_loss * (1 - 2 * _EPS))

    @property
    def kl_div_up(self) -> Array:
        """`kl_div`, rounded up; exactly zero where the posterior is the prior."""
        return self.kl_div + self._kl_div_error

    @property
    def kl_div_down(self) -> Array:
        """`kl_div`, rounded down."""
        return np.maximum(self.kl_div - self._kl_div_error, 0.0)

    @property
    def _kl_div_error(self) -> Array:
        return self.log_error + _product(self.t, self.mean_error) + _EPS * self.minus_log_z

    def __getitem__(self, index: slice | NDArray[np.bool_]) -> Point:
        return replace(self, **{name: getattr(self, name)[index] for name in _COLUMNS})

    def joined(self, other: Point) -> Point:
        """Temperatures of this point followed by those of another, on the same curve."""
        columns: dict[str, Any] = {
            name: np.concatenate((getattr(self, name), getattr(other, name))) for name in _COLUMNS
        }
        return replace(self, **columns)


_COLUMNS = ("t", "minus_log_z", "mean_x", "var", "log_error", "mean_error", "var_error")


def _product(t: Array, x: Array) -> Array:
    """t * x, with inf * 0 = 0: at t = inf only the smallest loss, x = 0, keeps its mass."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(x > 0, t * x, 0.0)


def between(left: Point, right: Point) -> Array:
    """A temperature inside each interval; temperatures differ by orders of magnitude, so do the splits."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.where(right.t > 4 * left.t, np.sqrt(left.t) * np.sqrt(right.t), (left.t + right.t) / 2)
    middle = np.where(left.t == 0, right.t / 16, middle)
    return np.where(np.isinf(right.t), 4 * left.t, middle)


class GibbsCurve:
    """Losses and prior of m hypotheses, grouped by loss.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Empirical losses in [0, 1].
    n : float
        Number of validation points. Only a hint: losses that are counts divided by n group faster.
    prior : array_like of shape (m,), optional
        Probabilities, or log-probabilities (recognised by having no entry above zero). Zeros
        (-inf as log) are allowed. Uniform by default.

    Attributes
    ----------
    m : int
        Number of hypotheses with positive prior.
    is_uniform : bool
        Whether the prior is uniform over those.
    x : ndarray
        Distinct losses of those hypotheses minus their smallest, rising from 0.
    counts : ndarray
        How many of those hypotheses have each loss.
    log_mass : ndarray
        Logarithm of the prior mass of each loss.
    min_loss : float
        Their smallest loss.
    """

    def __init__(self, losses: ArrayLike, n: float, prior: ArrayLike | None = None) -> None:
        loss_array = loss_vector("losses", losses)
        self._size = loss_array.size
        self._log_prior = None if prior is None else _log_prior(prior, self._size)
        self._support: NDArray[np.intp] | slice = slice(None)
        if self._log_prior is not None:
            self._support = np.flatnonzero(self._log_prior > -np.inf)
            self._log_prior = self._log_prior[self._support]
            loss_array = loss_array[self._support]
        self.m = loss_array.size
        self._groups = _group(loss_array, n)
        self.counts = self._groups.counts
        self.min_loss = float(self._groups.values[0])
        self.x = self._groups.values - self.min_loss
        self.is_uniform = self._log_prior is None or bool(np.ptp(self._log_prior) == 0)
        if self.x.size == 1:
            self.log_mass = np.zeros(1)
        elif self._log_prior is None:
            self.log_mass = np.log(self.counts) - np.log(self.m)
        else:
            self.log_mass = self._group_log_sum(self._log_prior)

    def _group_log_sum(self, log_values: Array) -> Array:
        """ln of the sum of exp(log_values) over each group, of whatever magnitude, at most ln 1."""
        order = np.argsort(self._groups.slot, kind="stable")
        starts = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        ordered = log_values[order]
        top = np.maximum.reduceat(ordered, starts)
        scaled = np.exp(ordered - np.repeat(top, self.counts))
        return np.asarray(np.minimum(top + np.log(np.add.reduceat(scaled, starts)), 0.0))

    def at(self, t: ArrayLike) -> Point:
        """Figures of the Gibbs posteriors at inverse temperatures t in [0, inf]."""
        t_array = np.atleast_1d(np.asarray(t, dtype=np.float64))
        rows = max(1, _BLOCK // self.x.size)
        blocks = [self._moments(t_array[i : i + rows]) for i in range(0, t_array.size, rows)]
        figures = np.concatenate(blocks, axis=1) if blocks else np.empty((6, 0))
        minus_log_z, mean_x, var, log_error, mean_error, var_error = figures
        return Point(t_array, minus_log_z, mean_x, var, log_error, mean_error, var_error, self.min_loss)

    @property
    def affordable(self) -> int:
        """Most temperatures that a search should evaluate: some seconds' worth."""
        return max(500, min(20_000, 200_000_000 // self.x.size))

    def _moments(self, t: Array) -> Array:
        """Rows `minus_log_z`, `mean_x`, `var`, `log_error`, `mean_error` and `var_error`."""
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
        # Both parts of an exponent carry a relative error, hence the weight one in proportion to them.
        size = weight * np.where(weight > 0, exponent - self.log_mass, 0.0)
        mean_size = size.sum(axis=1)
        # Where the posterior is the prior, its divergence is exactly zero.
        moved = (t > 0) & (self.x.size > 1)
        log_error = np.where(moved, 4 * _EPS * mean_size + SLACK, 0.0)
        mean_error = 4 * _EPS * ((size * self.x).sum(axis=1) + mean_size * mean_x) + SLACK * mean_x
        var_error = 4 * _EPS * ((size * square).sum(axis=1) + mean_size * var) + SLACK * var
        return np.stack((minus_log_z, mean_x, var, log_error, mean_error, var_error))

    def rho(self, t: float) -> Array:
        """The Gibbs posterior itself: one weight per hypothesis (eq. rho)."""
        groups = self._groups
        log_ratio = np.full(groups.n_slots, -np.inf)  # of rho to the prior, for each loss
        log_ratio[groups.used] = self.at(t).minus_log_z - _product(np.asarray(t), self.x)
        if self._log_prior is None:
            per_slot = np.exp(log_ratio - np.log(self.m))
            per_slot /= np.dot(per_slot[groups.used], self.counts)
            return np.asarray(per_slot[groups.slot])
        rho = np.zeros(self._size)
        rho[self._support] = np.exp(log_ratio[groups.slot] + self._log_prior)
        return np.asarray(rho / rho.sum())


def _log_prior(prior: ArrayLike, m: int) -> Array:
    """Normalised log-probabilities, from probabilities or log-probabilities."""
    given = numbers("prior", prior, "an array of numbers")
    if given.shape != (m,):
        raise ValueError(f"prior must have one entry per hypothesis: there are {m} losses, got shape {given.shape}")
    if np.isnan(given).any() or (given == np.inf).any():
        raise ValueError(f"prior must not contain NaN or inf, got {given[~(given < np.inf)][0]!s}")
    if (given > 0).any():
        if (given < 0).any():
            raise ValueError(f"prior must be non-negative, got {given[given < 0][0]!s}")
        total = float(given.sum())
        reading = ""
        with np.errstate(divide="ignore"):
            log_prior = np.log(given)
    else:
        log_prior = given
        with np.errstate(over="ignore"):
            total = float(np.exp(special.logsumexp(given)))
        reading = ", read as log-probabilities because no entry is above zero"
    tolerance = _PRIOR_TOLERANCE.get(str(getattr(prior, "dtype", "")), _PRIOR_TOLERANCE_DOUBLE)
    if not abs(total - 1) <= tolerance:
        raise ValueError(f"prior must sum to one, got a sum of {total!s}{reading}")
    normalised: Array = log_prior - special.logsumexp(log_prior)
    return normalised


class _Groups(NamedTuple):
    """Distinct losses in rising order, how many hypotheses have each, and where each hypothesis is."""

    values: Array
    counts: NDArray[np.intp]
    slot: NDArray[np.intp]  # of each hypothesis, among n_slots
    used: NDArray[np.intp]  # the slot of each distinct loss
    n_slots: int


def _group(losses: Array, n: float) -> _Groups:
    errors = np.rint(losses * n)
    # Zero-one losses are whole numbers of errors over n: counting them is much faster than sorting.
    if errors.max() <= 4 * losses.size + 1024 and np.array_equal(errors / n, losses):
        slot = errors.astype(np.intp)
        counts = np.bincount(slot)
        used = np.flatnonzero(counts)
        return _Groups(used / n, counts[used], slot, used, counts.size)
    values, slot, counts = np.unique(losses, return_inverse=True, return_counts=True)
    return _Groups(values, counts, slot, np.arange(values.size), values.size)
