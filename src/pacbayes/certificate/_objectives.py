"""How hypotheses are weighted by their losses: objectives that a posterior minimises, and votings.

An objective is added here: its name in `Objective`, an entry of `OBJECTIVES`, the method of its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._losses import is_of_numbers
from pacbayes._validation import Array
from pacbayes.bounds import clopper_pearson, kl_inverse_upper
from pacbayes.bounds.direct import direct_bound_of
from pacbayes.bounds.dual import dual_bound_of
from pacbayes.bounds.grouping import describe_posterior
from pacbayes.bounds.prior import restrict_prior
from pacbayes.certificate._statements import BEST, MAJORITY, MEAN, RANDOMISED, Statement
from pacbayes.posterior import (
    DirectResult,
    DualResult,
    PosteriorResult,
    minimize_direct_bound,
    minimize_dual_bound,
    minimize_kl_bound,
    minimize_lambda_bound,
)
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.quasiconvexity import first_condition
from pacbayes.votes import heavy_voter, subset_sum_constant

Objective = Literal["direct", "dual", "lambda", "kl", "relative", "stacking"]
Voting = Literal["majority", "gibbs", "best", "uniform", "mean"]

# Bounds of single hypotheses that differ by less are taken for equal: their noise is larger.
_CLOSE = 0.03

# Different hypotheses whose exact bounds are computed to find the best: at most so many, with Chernoff bounds that
# exceed the smallest by at most this share.
_NEAR = 64
_FAR = 0.1

# By how much the logarithm of a weight falls where the loss is twice the smallest: measured on regression problems.
_RELATIVE = 8.0

# A prior of zero, as a divergence that is a number.
_LARGEST_KL = 1e300


@dataclass(frozen=True)
class Settings:
    """What is to be certified, and how: fields of a `Certificate`."""

    delta: float
    objective: Objective
    voting: Voting
    loss: str
    strict: bool
    n_votes: int
    assumption_codes: tuple[str, ...]

    @property
    def proves_losses(self) -> bool:
        """Whether validation losses prove something: not those of numbers, if their cap came from the same points."""
        return not is_of_numbers(self.loss) or any(code.startswith("range-declared:") for code in self.assumption_codes)

    @property
    def share(self) -> float:
        """The delta of one vote: to divide the prior of a hypothesis by their number is as good as dividing delta."""
        return self.delta / self.n_votes


@dataclass(frozen=True)
class Problem:
    """Hypotheses to be weighted by their losses, and what is to be stated about the result."""

    settings: Settings
    losses: Array
    n: NDArray[np.int64]  # points that each loss was measured on; if the sizes are not known, the smallest number
    n_min: int  # of all hypotheses, dropped ones included
    n_max: int
    sizes_known: bool
    prior: ArrayLike | None
    delta: float  # what is left of it for these hypotheses
    earlier: bool = False  # whether the randomised classifier is bounded as it was before the direct bound
    posterior: Array | None = None  # weights that do not follow from the losses, for an objective of answers

    @property
    def curve(self) -> GibbsCurve:
        """The Gibbs posteriors of these losses."""
        return GibbsCurve(self.losses, float(self.n_min), self.prior)

    @property
    def theorem(self) -> dict[str, Any]:
        """What the paper's theorem is about: the smallest validation set stands for all."""
        return {"n": self.n_min, "n_max": self.n_max, **self._given}

    @property
    def _given(self) -> dict[str, Any]:
        return {"losses": self.losses, "delta": self.delta, "prior": self.prior}

    @property
    def mixture(self) -> dict[str, Any]:
        """What the dual and the direct bound are about.

        The comparator and its grid must be chosen before the losses are seen, which `delta` may depend on.
        """
        return {"n": self.n, "comparator": "mixture", "grid_delta": self.settings.share, **self._given}

    @property
    def bounded(self) -> str:
        """Whose loss a bound on the posterior is about.

        Errors of numbers, and their squares, are convex: by Jensen's inequality that of the mean is no larger than the
        mean loss of the hypotheses, which a randomised predictor has.
        """
        return MEAN if VOTINGS[self.settings.voting].predictor == MEAN else RANDOMISED

    @property
    def objective(self) -> PosteriorObjective:
        """The bound that a posterior minimises."""
        return OBJECTIVES[self.settings.objective]

    def restrict(self, chosen: NDArray[np.bool_]) -> tuple[Problem, float]:
        """Return the problem of some hypotheses, with delta times their prior mass, and the logarithm of that mass."""
        if chosen.all():
            return self, 0.0
        prior, log_mass = restrict_prior(self.prior, chosen)
        delta = self.delta * math.exp(log_mass)
        if delta == 0:
            raise ValueError(
                f"delta must be larger, got {self.settings.delta!r}: times the prior mass of hypotheses with a loss, "
                "it is too small for a float"
            )
        posterior = None if self.posterior is None else self.posterior[chosen]
        losses, n = self.losses[chosen], self.n[chosen]
        return replace(self, losses=losses, n=n, prior=prior, delta=delta, posterior=posterior), log_mass

    def state(self, method: str, predictor: str, **figures: float) -> Statement:
        """Make a statement by a method."""
        settings = self.settings
        return Statement.by(method, predictor, settings.loss, self.delta, figures, settings.assumption_codes)


class Weighted(NamedTuple):
    """A posterior, with what is proved about it."""

    rho: Array
    statements: tuple[Statement, ...]
    empirical_loss: float
    kl_div: float
    minimum: Mapping[str, Any] = {}  # fields of a certificate about what was minimised


# -- objectives --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorObjective:
    """A bound on the randomised classifier that a posterior may minimise."""

    title: str  # in words
    minimize: Callable[[Problem], PosteriorResult | DualResult | DirectResult | RelativeResult]
    has_lambda: bool = False  # whether the minimum is a Gibbs posterior, that of F(lambda) for some lambda
    minimizes_f: bool = False  # whether it is the minimum of F(lambda) itself
    needs_sizes: bool = False  # whether the number of points of every hypothesis must be known
    of_losses: bool = True  # whether the posterior follows from the losses of the hypotheses


def state_randomised(problem: Problem, rho: Array, loss: float, kl_div: float, minimum: Any = None) -> Statement:
    """Bound the randomised classifier of any posterior, by a method that does not depend on the losses.

    The direct bound, for whatever the weights minimise, if the number of points of every hypothesis is known. The
    earlier methods are for certificates that state them, by the rule of that time.
    """
    equal = problem.n_min == problem.n_max and problem.settings.objective in ("lambda", "kl")
    if not problem.sizes_known or (problem.earlier and equal):
        figures = {"loss": loss, "kl_div": kl_div, "n": problem.n_min, "n_max": problem.n_max}
        return problem.state("pac-bayes-kl", problem.bounded, **figures)
    if problem.earlier:
        dual = minimum if isinstance(minimum, DualResult) else dual_bound_of(rho, **problem.mixture)
        method, bound = "pac-bayes-dual", dual.fun
        # What is left of the bound is E_rho[psi_h(mu)], which is at least the loss, also where it is cut off at 1.
        adjusted = max(loss, bound - dual.mu * (dual.kl_div - math.log(problem.delta)))
        figures = {"adjusted_loss": float(adjusted), "kl_div": dual.kl_div, "mu": dual.mu}
    else:
        method, (bound, log_nu) = "pac-bayes-direct", direct_bound_of(rho, **problem.mixture)
        # What is left of the bound is the sum of the maxima. Where nothing is proved, all losses may be one.
        adjusted = bound - math.exp(log_nu - math.log(problem.delta)) if bound < 1 else 1.0
        log_nu = log_nu - kl_div if bound < 1 else -kl_div
        figures = {"loss": loss, "kl_div": kl_div, "adjusted_loss": adjusted, "log_nu": log_nu}
    statement = problem.state(method, problem.bounded, **figures)
    return replace(statement, bound=max(statement.bound, bound))


class RelativeResult(NamedTuple):
    """The posterior that minimises mean loss plus KL / t, with fields as in `PosteriorResult`."""

    rho: Array
    loss: float
    kl_div: float
    lam: float
    lower: float
    converged: bool = True


def _minimize_relative(problem: Problem) -> RelativeResult:
    """Minimise mean loss plus KL / t by the Gibbs posterior of inverse temperature t = 8 / smallest loss.

    Bounds for losses in [0, 1] do not tell small losses apart that differ by a factor. Weights by this one do not
    change with the unit of the losses. It bounds nothing: it is for predictors that are tested.
    """
    t = min(_RELATIVE / max(float(problem.losses.min()), 1e-300), 1e300)
    at = problem.curve.at([t])
    lower = max(0.0, float(at.loss_down[0] + at.kl_div_down[0] / t))
    moments = float(at.loss_up[0]), float(at.kl_div_up[0])
    return RelativeResult(problem.curve.rho(t), *moments, t / problem.n_min, lower)


def _refuse_losses(problem: Problem) -> RelativeResult:
    """Refuse to choose weights by losses of hypotheses, which do not tell the loss of their vote."""
    raise ValueError("objective must not be 'stacking' without a posterior: it does not follow from losses")


OBJECTIVES: dict[Objective, PosteriorObjective] = {
    "direct": PosteriorObjective(
        "direct bound", lambda problem: minimize_direct_bound(**problem.mixture), needs_sizes=True
    ),
    "dual": PosteriorObjective("dual bound", lambda problem: minimize_dual_bound(**problem.mixture), needs_sizes=True),
    "lambda": PosteriorObjective(
        "lambda bound",
        lambda problem: minimize_lambda_bound(**problem.theorem, method="global"),
        has_lambda=True,
        minimizes_f=True,
    ),
    "kl": PosteriorObjective("kl bound", lambda problem: minimize_kl_bound(**problem.theorem), has_lambda=True),
    "relative": PosteriorObjective(
        "mean loss plus KL, in units of an eighth of the smallest loss", _minimize_relative, has_lambda=True
    ),
    "stacking": PosteriorObjective(
        "stacking: a small error of the vote on rows outside of subsamples", _refuse_losses, of_losses=False
    ),
}


def follows_from_losses(objective: Objective, voting: Voting) -> bool:
    """Return whether the weights of hypotheses follow from their losses, by the objective or by the rule of voting."""
    return OBJECTIVES[objective].of_losses or VOTINGS[voting].posterior is not None


def resolve_objective(objective: Objective | Literal["auto"], voting: Voting, *, tested: bool = True) -> Objective:
    """Return the objective that "auto" stands for: the one whose bound on the predictor, or whose vote, is best."""
    if objective == "auto":
        if voting == "mean" and tested:
            return "stacking"
        return "direct" if voting == "gibbs" else "lambda"
    return objective


# -- votings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VotingRule:
    """What `predict` does, and how the posterior is chosen."""

    predictor: str
    weigh: Callable[[Problem], Weighted]
    posterior: str | None = None  # in words; None if it minimises the objective
    needs_sizes: bool = False  # whether the number of points of every hypothesis must be known
    needs_losses: bool = False  # whether every hypothesis must have a loss, since it has weight


def _minimize(problem: Problem) -> Weighted:
    """Weight hypotheses by minimising the objective."""
    if problem.posterior is not None:
        _, kl_div = describe_posterior(problem.posterior, problem.losses, problem.curve.log_prior)
        if math.isinf(kl_div):
            raise ValueError("posterior must be zero where the prior is: nothing is proved about such hypotheses")
        return _keep(problem, problem.posterior, kl_div)
    minimum = problem.objective.minimize(problem)
    proved = {
        "lam": minimum.lam,
        "minimum_lower_bound": minimum.lower,
        "global_minimum": minimum.converged,
        "quasiconvex": first_condition(**problem.theorem) if problem.objective.has_lambda else None,
    }
    gibbs = state_randomised(problem, minimum.rho, minimum.loss, minimum.kl_div, minimum)
    statements = _with_vote(gibbs, minimum.rho, problem)
    return Weighted(minimum.rho, statements, minimum.loss, gibbs.figures.get("kl_div", minimum.kl_div), proved)


def _keep(problem: Problem, rho: Array, kl_div: float) -> Weighted:
    """State what is proved about given weights."""
    loss = min(1.0, float(np.sum(rho * problem.losses)) * (1 + 1e-12))
    gibbs = state_randomised(problem, rho, loss, kl_div)
    return Weighted(rho, _with_vote(gibbs, rho, problem), loss, gibbs.figures.get("kl_div", kl_div))


def _choose_best(problem: Problem) -> Weighted:
    """Put all weight on the hypothesis with the smallest bound."""
    best, statement = _best_hypothesis(problem)
    stated = statement if problem.settings.proves_losses else problem.state("unproved", BEST)
    rho = np.eye(1, problem.losses.size, best)[0]
    return Weighted(rho, (stated,), float(problem.losses[best]), statement.figures["kl_div"])


VOTINGS: dict[Voting, VotingRule] = {
    "majority": VotingRule(MAJORITY, _minimize),
    "gibbs": VotingRule(RANDOMISED, _minimize),
    "best": VotingRule(BEST, _choose_best, "all weight on the best hypothesis", needs_sizes=True),
    "uniform": VotingRule(
        MAJORITY, lambda problem: _keep(problem, problem.curve.rho(0.0), 0.0), "the prior itself", needs_losses=True
    ),
    "mean": VotingRule(MEAN, _minimize),
}


def _with_vote(gibbs: Statement, rho: Array, problem: Problem) -> tuple[Statement, ...]:
    """Add the best bound on the vote by the same event, and the best hypothesis's: first who makes the predictions."""
    if not problem.settings.proves_losses:
        return (problem.state("unproved", gibbs.predictor),)
    # Its bound needs the number of points of every hypothesis.
    alternative = (_best_hypothesis(problem)[1],) if problem.sizes_known else ()
    if problem.settings.loss != "zero_one":
        return (gibbs, *alternative)
    candidates = [problem.state("first-order", MAJORITY, gibbs_bound=gibbs.bound)]
    constant = subset_sum_constant(rho)
    if constant > 0.5 * (1 + 1e-4):  # less is not worth a method of its own
        candidates.append(problem.state("subset-sum", MAJORITY, gibbs_bound=gibbs.bound, constant=constant))
    voter = heavy_voter(rho)
    if voter is not None:
        # A point mass is a posterior, too: the same event bounds it.
        alone = np.eye(1, rho.size, voter)[0]
        voter_loss, kl_div = float(problem.losses[voter]), float(problem.curve.point_mass_kls()[voter])
        figures = {"voter_bound": state_randomised(problem, alone, voter_loss, kl_div).bound}
        candidates.append(problem.state("heavy-voter", MAJORITY, **figures, weight=min(1.0, float(rho[voter]))))
    vote = min(candidates, key=lambda statement: statement.bound)
    first = (gibbs, vote) if VOTINGS[problem.settings.voting].predictor == RANDOMISED else (vote, gibbs)
    return first + alternative


def _best_hypothesis(problem: Problem) -> tuple[int, Statement]:
    """Return the hypothesis with the smallest bound, and what is proved about it.

    All bounds hold at once, so the choice is free: of bounds that differ by less than is known about them, the one with
    the smallest loss is taken.
    """
    divergences = np.minimum(problem.curve.point_mass_kls(), _LARGEST_KL)
    # No other hypothesis has a smaller bound than those with the smallest loss of all with as many points and the same
    # prior, rising. Of equal losses, the first is taken.
    order = np.lexsort((problem.losses, divergences, problem.n))
    is_first = np.ones(order.size, dtype=bool)
    is_first[1:] = (np.diff(problem.n[order]) != 0) | (np.diff(divergences[order]) != 0)
    candidates = np.sort(order[is_first])
    figures = (problem.losses[candidates], problem.n[candidates], divergences[candidates])
    best = int(candidates[0 if candidates.size == 1 else _choose_by_bound(*figures, problem)])
    loss, n, kl_div = float(problem.losses[best]), int(problem.n[best]), float(divergences[best])
    if problem.settings.loss == "zero_one" and _are_whole(np.array(loss), np.array(n)):
        return best, problem.state("clopper-pearson", BEST, errors=round(loss * n), n=n, kl_div=kl_div)
    return best, problem.state("chernoff", BEST, loss=loss, n=n, kl_div=kl_div)


def _choose_by_bound(losses: Array, n: NDArray[np.int64], kl_div: Array, problem: Problem) -> int:
    """Return which hypothesis has the smallest bound, or the smallest loss of those with almost the same bound."""
    bounds = np.asarray(kl_inverse_upper(losses, (kl_div - math.log(problem.delta)) / n))
    if problem.settings.loss == "zero_one":
        # Where errors are whole numbers the binomial tail is known exactly. Chernoff's bounds tell who comes near.
        near = np.argsort(np.argsort(bounds, kind="stable"), kind="stable") < _NEAR
        near &= bounds <= bounds.min() * (1 + _FAR)
        mass = np.exp(-kl_div)
        exact = near & _are_whole(losses, n) & (mass * problem.delta > 1e-300)
        errors = np.rint(losses * n)
        tails = clopper_pearson(errors[exact], n[exact], problem.delta, prior_mass=mass[exact])
        bounds[exact] = np.minimum(bounds[exact], tails)
    close = np.flatnonzero(bounds <= bounds.min() * (1 + _CLOSE))
    return int(close[np.lexsort((bounds[close], losses[close]))[0]])


def _are_whole(losses: Array, n: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether losses on n points are whole numbers of errors."""
    return np.asarray(np.rint(losses * n) / n == losses)
