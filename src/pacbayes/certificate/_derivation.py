"""From losses to a posterior and statements about it: what `certify` states, and what verification recomputes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._fingerprint import digest
from pacbayes._validation import Array, loss_vector, open_interval, scalar, whole_number
from pacbayes.bounds import clopper_pearson, kl_inverse_upper
from pacbayes.bounds.dual import dual_bound_of
from pacbayes.bounds.prior import restrict_prior
from pacbayes.certificate._statements import BEST, MAJORITY, RANDOMISED, Statement
from pacbayes.posterior import PosteriorResult, minimize_dual_bound, minimize_kl_bound, minimize_lambda_bound
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.quasiconvexity import first_condition
from pacbayes.votes import heavy_voter, split_delta, subset_sum_constant

__all__ = ["Derivation", "Objective", "Voting", "derive", "validate_settings"]

Objective = Literal["dual", "lambda", "kl"]
Voting = Literal["majority", "gibbs", "best", "uniform"]

# The comparator of the dual bound: fixed here, since it must be chosen before the losses are seen.
COMPARATOR: Literal["mixture"] = "mixture"

# Relative gap at which a minimum counts as proved, as in the minimisers.
_PROVED_GAP = 1e-8

# Bounds of single hypotheses that differ by less are taken for equal: their noise is larger.
_CLOSE = 0.03

# Different hypotheses whose exact bounds are computed to find the best: at most so many, with Chernoff bounds that
# exceed the smallest by at most this share.
_NEAR = 64
_FAR = 0.1

# A prior of zero, as a divergence that is a number.
_LARGEST_KL = 1e300


@dataclass(frozen=True)
class Settings:
    """What is to be certified, and how."""

    delta: float  # probability with which the event may fail
    prior: ArrayLike | None
    objective: Objective  # the bound that the posterior minimises
    voting: Voting  # what `predict` does
    loss: str
    strict: bool  # whether the theorem applies to the letter
    n_votes: int = 1  # votes that compete, each with its own pool; the prior is uniform over them
    grid_delta: float | None = None  # the comparator's grid is made for it, if `delta` depends on the losses


class Derivation(NamedTuple):
    """A posterior with what is proved about it; all but `rho` are fields of a `Certificate`."""

    rho: Array
    statements: tuple[Statement, ...]
    empirical_loss: float
    kl_div: float
    n_validation: int
    n_validation_max: int
    n_hypotheses: int
    n_dropped: int
    lam: float | None
    minimum_lower_bound: float | None
    minimum_over: int
    global_minimum: bool
    quasiconvex: str | None
    losses_digest: str


def validate_settings(delta: float, objective: str, voting: str) -> float:
    """Return delta as a float, or raise ValueError naming the setting that is wrong."""
    if objective not in ("dual", "lambda", "kl"):
        raise ValueError(f"objective must be 'dual', 'lambda' or 'kl', got {objective!r}")
    if voting not in ("majority", "gibbs", "best", "uniform"):
        raise ValueError(f"voting must be 'majority', 'gibbs', 'best' or 'uniform', got {voting!r}")
    return scalar("delta", open_interval("delta", delta, 0, 1))


def derive(
    losses: ArrayLike,
    n: ArrayLike,
    settings: Settings,
    *,
    n_min: int | None = None,
    n_max: int | None = None,
    dropped_loss: float | None = None,
) -> Derivation:
    """Weight hypotheses by their losses, and state what is proved about the result.

    The bounds hold for all posteriors at once, hence for those that give no weight to hypotheses without a loss (NaN).
    Their share of the prior is lost: it must not depend on the losses. `n_min` is the smallest number of validation
    points, if less than all in `n`; `n_max` the largest, if `n` is the smallest and the others are not known;
    `dropped_loss` a lower bound on the losses that are NaN.
    """
    given = loss_vector("losses", losses, partial=True)
    points, largest = _points_per_hypothesis(n, n_max, given.size)
    sizes_known = largest == points.max()
    if not sizes_known and (settings.voting == "best" or settings.objective == "dual"):
        raise ValueError("n must hold the number of points of every hypothesis for this objective or voting, not n_max")
    chosen = ~np.isnan(given)
    if settings.voting == "uniform" and not chosen.all():
        raise ValueError("losses must not hold NaN for voting='uniform', which gives weight to all hypotheses")
    smallest = int(points.min()) if n_min is None else min(int(points.min()), n_min)
    validated = _Validated(given[chosen], points[chosen], smallest, largest, sizes_known)
    restricted, log_mass = (settings.prior, 0.0) if chosen.all() else restrict_prior(settings.prior, chosen)
    # The prior of a hypothesis is divided by the number of votes, which is as good as dividing delta. To leave
    # hypotheses out is as good as multiplying delta by the prior mass of the others.
    share = settings.delta / settings.n_votes
    alone = replace(settings, delta=share * math.exp(log_mass), prior=restricted, grid_delta=share)
    derivation = _DERIVE[settings.voting](validated, alone)
    m, rho = given.size, np.zeros(given.size)
    rho[chosen] = derivation.rho
    derivation = derivation._replace(
        rho=rho,
        kl_div=_with_lost_mass(derivation.kl_div, log_mass),
        n_hypotheses=m,
        n_dropped=m - validated.losses.size,
        losses_digest=_digest_losses(given, points, chosen),
    )
    if derivation.n_dropped and settings.objective != "dual" and settings.voting in ("majority", "gibbs"):
        at_least = 0.0 if dropped_loss is None else dropped_loss
        if at_least > derivation.empirical_loss:  # otherwise the dropped hypotheses might get weight
            everyone = _Validated(np.where(chosen, given, at_least), points, smallest, largest, sizes_known)
            derivation = _extend_minimum(derivation, everyone, replace(settings, delta=share))
    return derivation._replace(statements=_with_shared_delta(derivation.statements, settings, log_mass))


def _with_lost_mass(kl_div: float, log_mass: float) -> float:
    """Return the divergence from the prior, given that from the prior conditioned on a mass of it, rounded up."""
    return kl_div if log_mass == 0 else (kl_div - log_mass) * (1 + 1e-15)


def _digest_losses(losses: Array, n: NDArray[np.int64], chosen: NDArray[np.bool_]) -> str:
    """Return a digest of the losses and of the numbers of points that they were measured on."""
    known = n[chosen]
    return digest([np.where(chosen, losses, np.nan), np.where(chosen, n, 0) if np.ptp(known) else int(known[0])])


def _extend_minimum(derivation: Derivation, everyone: _Validated, settings: Settings) -> Derivation:
    """State the minimum over all hypotheses, if lower bounds on the losses of dropped ones prove that it is the same.

    The objectives do not decrease in any loss: their minimum with lower bounds in place of losses is a lower bound.
    """
    lower, over_validated = _minimize(everyone, settings).lower, derivation.minimum_lower_bound
    if lower is None or over_validated is None or over_validated - lower > _PROVED_GAP * over_validated:
        return derivation
    return derivation._replace(minimum_lower_bound=lower, minimum_over=derivation.n_hypotheses)


def divided_prior(kl_div: float, n_votes: int) -> float:
    """Return the divergence from a prior that is divided by the number of competing votes, rounded up."""
    return kl_div if n_votes == 1 else (kl_div + math.log(n_votes)) * (1 + 1e-15)


def unlabelled_prices(delta: float, n_votes: int, n_validation: int, n_unlabelled: int) -> tuple[float, float]:
    """Return what a division of delta adds to the divergences of labelled and unlabelled points.

    The division is decided before anything is known but the numbers of points, and in the same way for all votes that
    compete.
    """
    n_labelled = n_validation if n_votes == 1 else n_unlabelled
    labelled, unlabelled = split_delta(delta, n_labelled, n_unlabelled)
    return -math.log(labelled / delta), -math.log(unlabelled / delta)


def _with_shared_delta(statements: Sequence[Statement], settings: Settings, log_mass: float) -> tuple[Statement, ...]:
    """Turn statements with a delta for each vote, and for a mass of its prior, into statements with one delta."""
    if settings.n_votes == 1 and log_mass == 0:
        return tuple(statements)
    shared: dict[str, Statement] = {}
    # The randomised classifier's first: the vote's may be computed from it.
    for statement in sorted(statements, key=lambda statement: "gibbs_bound" in statement.figures):
        figures = dict(statement.figures)
        if "kl_div" in figures:
            figures["kl_div"] = divided_prior(_with_lost_mass(figures["kl_div"], log_mass), settings.n_votes)
        if "gibbs_bound" in figures:
            figures["gibbs_bound"] = shared[RANDOMISED].bound
        again = Statement.by(
            statement.method, statement.predictor, settings.loss, settings.delta, figures, strict=settings.strict
        )
        shared[statement.predictor] = replace(again, bound=max(again.bound, statement.bound))
    return tuple(shared[statement.predictor] for statement in statements)


class _Validated(NamedTuple):
    """Losses of hypotheses, with the numbers of points that they were measured on.

    The smallest and the largest number are those of all hypotheses, dropped ones included. If the sizes are not known,
    `n` is the smallest for all.
    """

    losses: Array
    n: NDArray[np.int64]
    n_min: int
    n_max: int
    sizes_known: bool


def _points_per_hypothesis(n: ArrayLike, n_max: int | None, m: int) -> tuple[NDArray[np.int64], int]:
    """Return the number of validation points of each hypothesis, and the largest."""
    sizes = whole_number("n", n)
    if sizes.ndim and sizes.shape != (m,):
        raise ValueError(
            f"n must be a single number or have one entry per hypothesis: there are {m} losses, got shape {sizes.shape}"
        )
    points = np.broadcast_to(sizes.astype(np.int64), (m,))
    largest = int(points.max())
    return points, largest if n_max is None else int(scalar("n_max", whole_number("n_max", n_max, largest)))


# ---------------------------------------------------------------------------------------------------
# One hypothesis
# ---------------------------------------------------------------------------------------------------


def _derive_best(data: _Validated, settings: Settings) -> Derivation:
    """Put all weight on the hypothesis with the smallest bound."""
    best, statement = _best_hypothesis(data, settings)
    rho = np.zeros(data.losses.size)
    rho[best] = 1.0
    return _derivation(rho, (statement,), float(data.losses[best]), statement.figures["kl_div"], data)


def _best_hypothesis(data: _Validated, settings: Settings) -> tuple[int, Statement]:
    """Return the hypothesis with the smallest bound, and what is proved about it.

    All bounds hold at once, so the choice is free: of bounds that differ by less than is known about them, the one with
    the smallest loss is taken.
    """
    curve = GibbsCurve(data.losses, float(data.n_min), settings.prior)
    divergences = np.minimum(curve.point_mass_kls(), _LARGEST_KL)
    candidates = _smallest_losses(data.losses, data.n, divergences)
    figures = (data.losses[candidates], data.n[candidates], divergences[candidates])
    best = int(candidates[0 if candidates.size == 1 else _choose_by_bound(*figures, settings)])
    return best, _single_statement(float(data.losses[best]), int(data.n[best]), float(divergences[best]), settings)


def _smallest_losses(losses: Array, n: NDArray[np.int64], kl_div: Array) -> NDArray[np.intp]:
    """Return the hypotheses with the smallest loss of all with as many points and the same prior, rising.

    No other hypothesis has a smaller bound than these. Of equal losses, the first is taken.
    """
    order = np.lexsort((losses, kl_div, n))
    is_first = np.ones(order.size, dtype=bool)
    is_first[1:] = (np.diff(n[order]) != 0) | (np.diff(kl_div[order]) != 0)
    return np.sort(order[is_first])


def _choose_by_bound(losses: Array, n: NDArray[np.int64], kl_div: Array, settings: Settings) -> int:
    """Return which hypothesis has the smallest bound, or the smallest loss of those with almost the same bound."""
    bounds = np.asarray(kl_inverse_upper(losses, (kl_div - math.log(settings.delta)) / n))
    if settings.loss == "zero_one":
        # Where errors are whole numbers the binomial tail is known exactly. Chernoff's bounds tell who comes near.
        near = np.argsort(np.argsort(bounds, kind="stable"), kind="stable") < _NEAR
        near &= bounds <= bounds.min() * (1 + _FAR)
        mass = np.exp(-kl_div)
        exact = near & _are_whole(losses, n) & (mass * settings.delta > 1e-300)
        errors = np.rint(losses * n)
        tails = clopper_pearson(errors[exact], n[exact], settings.delta, prior_mass=mass[exact])
        bounds[exact] = np.minimum(bounds[exact], tails)
    close = np.flatnonzero(bounds <= bounds.min() * (1 + _CLOSE))
    return int(close[np.lexsort((bounds[close], losses[close]))[0]])


def _are_whole(losses: Array, n: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether losses on n points are whole numbers of errors."""
    return np.asarray(np.rint(losses * n) / n == losses)


def _single_statement(loss: float, n: int, kl_div: float, settings: Settings) -> Statement:
    """Bound one of many hypotheses, whose prior is exp(-kl_div): exactly for zero-one losses, else by Chernoff."""
    if settings.loss == "zero_one" and _are_whole(np.array(loss), np.array(n)):
        figures = {"errors": round(loss * n), "n": n, "kl_div": kl_div}
        return Statement.by("clopper-pearson", BEST, settings.loss, settings.delta, figures, strict=settings.strict)
    figures = {"loss": loss, "n": n, "kl_div": kl_div}
    return Statement.by("chernoff", BEST, settings.loss, settings.delta, figures, strict=settings.strict)


# ---------------------------------------------------------------------------------------------------
# A posterior
# ---------------------------------------------------------------------------------------------------


def _derive_uniform(data: _Validated, settings: Settings) -> Derivation:
    pi = GibbsCurve(data.losses, float(data.n_min), settings.prior).rho(0.0)
    empirical_loss = min(1.0, float(np.sum(pi * data.losses)) * (1 + 1e-12))
    gibbs = _gibbs_statement(pi, empirical_loss, 0.0, data, settings)
    statements = _with_vote(gibbs, pi, data, settings)
    return _derivation(pi, statements, empirical_loss, gibbs.figures["kl_div"], data)


def _derive_minimum(data: _Validated, settings: Settings) -> Derivation:
    delta, prior = settings.delta, settings.prior
    if settings.objective == "dual":
        dual = minimize_dual_bound(
            data.losses, data.n, delta=delta, prior=prior, comparator=COMPARATOR, grid_delta=settings.grid_delta
        )
        gibbs = _dual_statement(dual.fun, dual.mu, dual.kl_div, dual.loss, settings)
        statements = _with_vote(gibbs, dual.rho, data, settings)
        return _derivation(dual.rho, statements, dual.loss, dual.kl_div, data, lower=dual.lower, proved=dual.converged)
    result = _minimize(data, settings)
    gibbs = _gibbs_statement(result.rho, result.loss, result.kl_div, data, settings)
    statements = _with_vote(gibbs, result.rho, data, settings)
    derivation = _derivation(
        result.rho,
        statements,
        result.loss,
        gibbs.figures["kl_div"],
        data,
        lower=result.lower,
        proved=result.converged,
    )
    condition = first_condition(data.losses, data.n_min, delta, prior, data.n_max)
    return derivation._replace(lam=result.lam, quasiconvex=condition)


def _minimize(data: _Validated, settings: Settings) -> PosteriorResult:
    """Minimise the objective over all Gibbs posteriors."""
    n, n_max, delta, prior = data.n_min, data.n_max, settings.delta, settings.prior
    if settings.objective == "lambda":
        return minimize_lambda_bound(data.losses, n, n_max=n_max, delta=delta, prior=prior, method="global")
    return minimize_kl_bound(data.losses, n, n_max=n_max, delta=delta, prior=prior)


def _gibbs_statement(rho: Array, loss: float, kl_div: float, data: _Validated, settings: Settings) -> Statement:
    """Bound the randomised classifier: by PAC-Bayes-kl for equal validation sets, otherwise without their minimum."""
    if settings.objective != "dual" and (data.n_min == data.n_max or not data.sizes_known):
        return _kl_statement(loss, kl_div, data, settings)
    bound = dual_bound_of(
        rho,
        data.losses,
        data.n,
        delta=settings.delta,
        prior=settings.prior,
        comparator=COMPARATOR,
        grid_delta=settings.grid_delta,
    )
    return _dual_statement(bound.fun, bound.mu, bound.kl_div, loss, settings)


def _kl_statement(loss: float, kl_div: float, data: _Validated, settings: Settings) -> Statement:
    figures = {"loss": loss, "kl_div": kl_div, "n": data.n_min, "n_max": data.n_max}
    return Statement.by("pac-bayes-kl", RANDOMISED, settings.loss, settings.delta, figures, strict=settings.strict)


def _dual_statement(bound: float, mu: float, kl_div: float, loss: float, settings: Settings) -> Statement:
    # What is left of the bound is E_rho[psi_h(mu)], which is at least the loss, also where the bound is cut off at 1.
    adjusted = max(loss, bound - mu * (kl_div - math.log(settings.delta)))
    figures = {"adjusted_loss": float(adjusted), "kl_div": kl_div, "mu": mu}
    delta, strict = settings.delta, settings.strict
    statement = Statement.by("pac-bayes-dual", RANDOMISED, settings.loss, delta, figures, strict=strict)
    return replace(statement, bound=max(statement.bound, bound))


def _with_vote(gibbs: Statement, rho: Array, data: _Validated, settings: Settings) -> tuple[Statement, ...]:
    """Add the best bound on the majority vote that follows from the same event, and what the best hypothesis has.

    In the order of what `predict` does: the vote or the randomised classifier first.
    """
    # Its bound needs the number of points of every hypothesis.
    alternative = (_best_hypothesis(data, settings)[1],) if data.sizes_known else ()
    if settings.loss != "zero_one":
        return (gibbs, *alternative)
    candidates = [_vote_statement("first-order", settings, {"gibbs_bound": gibbs.bound})]
    constant = subset_sum_constant(rho)
    if constant > 0.5 * (1 + 1e-4):  # less is not worth a method of its own
        figures = {"gibbs_bound": gibbs.bound, "constant": constant}
        candidates.append(_vote_statement("subset-sum", settings, figures))
    voter = heavy_voter(rho)
    if voter is not None:
        figures = {"voter_bound": _point_mass_bound(voter, data, settings), "weight": float(rho[voter])}
        candidates.append(_vote_statement("heavy-voter", settings, figures))
    vote = min(candidates, key=lambda statement: statement.bound)
    return ((gibbs, vote) if settings.voting == "gibbs" else (vote, gibbs)) + alternative


def _vote_statement(method: str, settings: Settings, figures: dict[str, float]) -> Statement:
    return Statement.by(method, MAJORITY, settings.loss, settings.delta, figures, strict=settings.strict)


def _point_mass_bound(h: int, data: _Validated, settings: Settings) -> float:
    """Return the bound of the same event on one hypothesis: a point mass is a posterior, too."""
    rho = np.zeros(data.losses.size)
    rho[h] = 1.0
    kl_div = GibbsCurve(data.losses, float(data.n_min), settings.prior).point_mass_kl(h)
    return _gibbs_statement(rho, float(data.losses[h]), kl_div, data, settings).bound


def _derivation(
    rho: Array,
    statements: Sequence[Statement],
    empirical_loss: float,
    kl_div: float,
    data: _Validated,
    *,
    lower: float | None = None,
    proved: bool = False,
) -> Derivation:
    return Derivation(
        rho=rho,
        statements=tuple(statements),
        empirical_loss=empirical_loss,
        kl_div=kl_div,
        n_validation=data.n_min,
        n_validation_max=data.n_max,
        n_hypotheses=data.losses.size,
        n_dropped=0,
        lam=None,
        minimum_lower_bound=lower,
        minimum_over=data.losses.size,
        global_minimum=proved,
        quasiconvex=None,
        losses_digest="",
    )


_DERIVE: dict[str, Callable[[_Validated, Settings], Derivation]] = {
    "majority": _derive_minimum,
    "gibbs": _derive_minimum,
    "uniform": _derive_uniform,
    "best": _derive_best,
}
