"""Minimisation of a bound over its multiplier, and the proof that the minimum is global.

The bound is F(beta) = G(beta) / beta for beta > 0, where G does not decrease. At any beta G has a lower bound for all
other beta that touches it and is concave (`Curve.above`). Concave minus linear is concave: what such a bound proves at
two values of beta, it proves between them. The proof covers all beta by such intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from pacbayes._validation import Array

__all__ = ["BETA_RANGE", "Curve", "Nodes", "Proof", "Step", "descend", "prove"]

_EPS = float(np.finfo(np.float64).eps)

# Values of beta that are evaluated; the bounds are vacuous beyond.
BETA_RANGE = (1e-290, 1e290)


class Nodes(NamedTuple):
    """The bound at several values of beta, with lower bounds on all conjugates that are linear in beta."""

    beta: Array
    value: Array  # F, rounded up; G is beta F
    mean: Array  # of the maximisers under the best posterior: the derivative of G
    curvature: Array  # second derivative of G
    maximizer: Array
    deviation: Array


class Curve(Protocol):
    """What `prove` needs to know of a bound."""

    rows: int  # how many values of beta may be evaluated at once

    def at(self, beta: Array) -> Nodes:
        """Evaluate the bound at each beta."""

    def above(self, nodes: Nodes, beta: Array, level: float) -> tuple[Array, Array]:
        """How far G(beta) lies above level * beta at least, by the lines of each node, and the slope of that.

        One beta for each node. Rounded down, and concave in beta.
        """

    def value_at_zero(self) -> float:
        """G(0), rounded down, positive."""

    def last(self, level: float) -> float:
        """Return a beta from which on all maximisers are at least `level`."""


class Step(NamedTuple):
    """A bound at some beta, with the first and second derivative of beta times the bound."""

    beta: float
    value: float
    mean: float
    curvature: float


def descend(evaluate: Callable[[float], Step], beta: float, low: float, high: float, max_iter: int) -> list[Step]:
    """Follow Newton's method in ln(beta) to a stationary point between `low` and `high`."""
    lower, upper = np.log(low), np.log(high)
    u = float(np.clip(np.log(beta), lower, upper))
    steps: list[Step] = []
    while len(steps) < max_iter:
        step = evaluate(float(np.exp(u)))
        steps.append(step)
        slope = step.mean - step.value
        if slope < 0:
            lower = u
        else:
            upper = u
        curvature = step.beta * step.curvature - slope
        # What a step can still gain, slope^2 / (2 curvature), is less than a float can tell.
        if slope == 0 or (curvature > 0 and slope**2 <= _EPS / 16 * curvature * step.value):
            break
        following = u - slope / curvature if curvature > 0 else np.nan
        if not lower < following < upper:
            following = (lower + upper) / 2
        if following in (lower, upper, u):
            break
        u = float(following)
    return steps


def _reach(curve: Curve, nodes: Nodes, limit: Array, level: float) -> Array:
    """How far from each node towards `limit` the bound is proved to be at least `level`.

    The distance above the level is concave. Outside its zero, Newton's method approaches the zero from outside; the
    chord from there to the node meets zero inside.
    """
    outside = limit.copy()
    at_node, _ = curve.above(nodes, nodes.beta, level)
    distance, slope = curve.above(nodes, outside, level)
    reached = np.where(distance >= 0, limit, nodes.beta)
    open_ = (distance < 0) & (at_node > 0)
    for _ in range(6):
        if not open_.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            chord = nodes.beta + (outside - nodes.beta) * (at_node / (at_node - distance))
            newton = outside - distance / slope
        reached = np.where(open_, chord, reached)
        open_ &= np.abs(newton - chord) > 0.1 * np.abs(newton - nodes.beta)
        between = (newton - outside) * (nodes.beta - newton) > 0
        open_ &= between
        outside = np.where(open_, newton, outside)
        distance, slope = curve.above(nodes, outside, level)
        open_ &= distance < 0
    # In exact arithmetic the chord's zero is inside; what rounding has put outside is given up.
    return np.where(curve.above(nodes, reached, level)[0] >= 0, reached, nodes.beta)


class Proof(NamedTuple):
    """What a proof came to."""

    lower: float  # on the bound, for every beta
    better: float | None  # a beta with a bound below the level, if there is one
    nfev: int


def prove(curve: Curve, level: float, max_iter: int) -> Proof:
    """Show that the bound is at least `level` for every beta, or find a beta where it is not."""
    # G does not decrease, so F >= level up to G(0) / level. From `last` on the lines rise at least as fast as
    # level * beta: a node there reaches to infinity.
    last = curve.last(level)
    first = curve.value_at_zero() / level * (1 - 2 * _EPS)
    gaps = [(min(first, last), last, last)]  # left end, right end, where to evaluate
    nfev = 0
    while gaps:
        taken, gaps = gaps[: curve.rows], gaps[curve.rows :]
        if nfev + len(taken) > max_iter:
            # G is at least level * beta at the left end of a gap, and does not decrease.
            ratio = min(left / right for left, right, _ in taken + gaps)
            return Proof(level * ratio * (1 - 4 * _EPS), None, nfev)
        left, right, beta = np.array(taken).T
        nodes = curve.at(beta)
        nfev += beta.size
        if nodes.value.min() < level:
            return Proof(0.0, float(beta[nodes.value.argmin()]), nfev)
        # Where rounding hides that the bound is above the level, the level gives way.
        shortfall = float((curve.above(nodes, beta, level)[0] / beta).min())
        if nfev == 1:
            level = min(level, float(nodes.maximizer.min()))
        if shortfall < 0:
            level = (level + 2 * shortfall) * (1 - 4 * _EPS)
            if level <= 0:
                return Proof(0.0, None, nfev)
        lefts, rights = _reach(curve, nodes, left, level), _reach(curve, nodes, right, level)
        for low, high in [*zip(left, lefts, strict=True), *zip(rights, right, strict=True)]:
            middle = np.sqrt(low) * np.sqrt(high)
            if low < middle < high:
                gaps.append((float(low), float(high), float(middle)))
            elif low < high:  # no float lies inside
                level *= low / high * (1 - 4 * _EPS)
    return Proof(level, None, nfev)
