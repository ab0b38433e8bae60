"""The proof that the minimum of a dual bound over its multiplier is global.

The bound is F(beta) = G(beta) / beta for beta > 0, where G does not decrease. At any beta G has a lower bound for all
other beta that touches it and is concave (`DualProblem.above`). Concave minus linear is concave: what such a bound
proves at two values of beta, it proves between them. The proof covers all beta by such intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbayes._validation import EPS, Array
from pacbayes.bounds.dual import DualProblem, Nodes


def _reach(problem: DualProblem, nodes: Nodes, limit: Array, level: float) -> Array:
    """How far from each node towards `limit` the bound is proved to be at least `level`.

    The distance above the level is concave. Outside its zero, Newton's method approaches the zero from outside; the
    chord from there to the node meets zero inside.
    """
    outside = limit.copy()
    at_node, _ = problem.above(nodes, nodes.beta, level)
    distance, slope = problem.above(nodes, outside, level)
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
        distance, slope = problem.above(nodes, outside, level)
        open_ &= distance < 0
    # In exact arithmetic the chord's zero is inside; what rounding has put outside is given up.
    return np.where(problem.above(nodes, reached, level)[0] >= 0, reached, nodes.beta)


class Proof(NamedTuple):
    """What a proof came to."""

    lower: float  # on the bound, for every beta
    better: float | None  # a beta with a bound below the level, if there is one
    nfev: int


def prove(problem: DualProblem, level: float, max_iter: int) -> Proof:
    """Show that the bound is at least `level` for every beta, or find a beta where it is not."""
    # G does not decrease, so F >= level up to G(0) / level. From `last` on the lines rise at least as fast as
    # level * beta: a node there reaches to infinity.
    last = problem.last(level)
    first = problem.value_at_zero() / level * (1 - 2 * EPS)
    gaps = [(min(first, last), last, last)]  # left end, right end, where to evaluate
    nfev = 0
    while gaps:
        taken, gaps = gaps[: problem.rows], gaps[problem.rows :]
        if nfev + len(taken) > max_iter:
            # G is at least level * beta at the left end of a gap, and does not decrease.
            ratio = min(left / right for left, right, _ in taken + gaps)
            return Proof(level * ratio * (1 - 4 * EPS), None, nfev)
        left, right, beta = np.array(taken).T
        nodes = problem.at(beta)
        nfev += beta.size
        if nodes.value.min() < level:
            return Proof(0.0, float(beta[nodes.value.argmin()]), nfev)
        # Where rounding hides that the bound is above the level, the level gives way.
        shortfall = float((problem.above(nodes, beta, level)[0] / beta).min())
        if nfev == 1:
            level = min(level, float(nodes.maximizer.min()))
        if shortfall < 0:
            level = (level + 2 * shortfall) * (1 - 4 * EPS)
            if level <= 0:
                return Proof(0.0, None, nfev)
        lefts, rights = _reach(problem, nodes, left, level), _reach(problem, nodes, right, level)
        for low, high in [*zip(left, lefts, strict=True), *zip(rights, right, strict=True)]:
            middle = np.sqrt(low) * np.sqrt(high)
            if low < middle < high:
                gaps.append((float(low), float(high), float(middle)))
            elif low < high:  # no float lies inside
                level *= low / high * (1 - 4 * EPS)
    return Proof(level, None, nfev)
