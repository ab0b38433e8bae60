"""From losses to a posterior with its certificate, and verification, which derives it again and compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._fingerprint import digest
from pacbayes._settings import Choice
from pacbayes._validation import Array, loss_vector, open_interval, scalar, sizes_of, unit_interval, whole_number
from pacbayes.bounds.prior import posterior_weights
from pacbayes.certificate._certificate import Certificate
from pacbayes.certificate._objectives import (
    OBJECTIVES,
    VOTINGS,
    Objective,
    Problem,
    Settings,
    Voting,
    follows_from_losses,
)
from pacbayes.certificate._statements import (
    FIGURE_TOLERANCE,
    RANDOMISED,
    Statement,
    divided_prior,
    expect,
    expect_at_least,
)
from pacbayes.certificate.assumptions import LOSS_ASSUMPTIONS, encode_assumption, find_missing, is_covered
from pacbayes.exceptions import CertificateError

# By how much weights that add up to one may miss it; others are divided by their sum.
_ROUNDING = 1e-13

# Relative gap at which a minimum counts as proved, as in the minimisers.
_PROVED_GAP = 1e-8


def certify(
    losses: ArrayLike,
    n: ArrayLike,
    *,
    n_max: int | None = None,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    objective: Objective = "lambda",
    voting: Voting = "majority",
    loss: str = "zero_one",
    strict: bool = True,
    n_votes: int = 1,
    dropped_loss: float | None = None,
    assumptions: Sequence[str] | None = None,
    digests: Mapping[str, str] | None = None,
    posterior: ArrayLike | None = None,
) -> tuple[Certificate, Array]:
    """Weight hypotheses by their validation losses alone, and certify the result.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Validation losses in [0, 1], each measured on points that did not shape the hypothesis. NaN for a hypothesis
        that was not validated in full: it gets no weight, and its share of the prior is lost. Which ones these are may
        depend on the data in any way, since the bounds hold for all posteriors at once.
    n, n_max : int or array_like of shape (m,), int
        Number of points that each loss was measured on; or the smallest and the largest such number, if the others are
        not known, for the objectives "lambda" and "kl" only.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities, chosen without the validation points; uniform by default.
    objective : {"lambda", "kl", "dual", "direct", "relative", "stacking"}, default="lambda"
        The bound to minimise: the paper's, PAC-Bayes-kl itself, or the dual or direct bound, which take every
        hypothesis by its own number of points; the direct bound is the smallest. Without effect for "best". Whatever
        the objective, the direct bound is what is stated about the randomised classifier. "relative" bounds nothing:
        it is the mean loss plus KL in units of an eighth of the smallest loss. "stacking" keeps `posterior`.
    voting : {"majority", "gibbs", "best", "uniform", "mean"}, default="majority"
        "best" puts all weight on the hypothesis with the smallest bound, "uniform" keeps the prior; the others
        minimise.
    loss, strict, n_votes
        As in `Certificate`. The majority vote is bounded for the loss "zero_one" only.
    dropped_loss : float, optional
        A lower bound on the losses that are NaN, such as the errors made so far divided by `n`. If it is large enough,
        the minimum is proved over all hypotheses instead of those with a loss ("lambda" and "kl" only).
    assumptions, digests : sequence of str, mapping of str to str, optional
        What the certificate rests on besides what has to be true of the losses, codes of
        `pacbayes.certificate.assumptions` or words of your own, and digests of what else it is about.
    posterior : array_like of shape (m,), optional
        For the objective "stacking": weights of hypotheses with a loss, which may depend on the validation points in
        any way, since the bounds hold for all posteriors at once.

    Returns
    -------
    certificate, rho : Certificate and ndarray of shape (m,)
        What is proved, and the posterior.

    Examples
    --------
    >>> losses = [0.10, 0.12, 0.15, 0.30, 0.45]
    >>> certificate, rho = certify(losses, n=500)
    >>> round(certificate.gibbs_bound, 4), round(certificate.vote_bound, 4)
    (0.1527, 0.1527)
    >>> round(certify(losses, n=500, voting="best")[0].bound, 4)
    0.1355
    """
    for name, value, allowed in (("objective", objective, Objective), ("voting", voting, Voting)):
        choice = Choice(*get_args(allowed))
        if not choice.allows(value):
            raise ValueError(f"{name} must be {choice}, got {value!r}")
    n_votes = int(scalar("n_votes", whole_number("n_votes", n_votes)))
    if dropped_loss is not None:
        dropped_loss = scalar("dropped_loss", unit_interval("dropped_loss", dropped_loss))
    codes = [encode_assumption(line) for line in assumptions or ()]
    if find_missing(codes, of_fit=False):
        codes = [*LOSS_ASSUMPTIONS, *(code for code in codes if code not in LOSS_ASSUMPTIONS)]
    if not strict and is_covered(codes):
        codes.append("declared-not-strict")
    settings = Settings(validate_delta(delta, n_votes), objective, voting, loss, strict, n_votes, tuple(codes))
    certificate, rho = _derive(_pose(losses, n, prior, settings, posterior, n_max=n_max), dropped_loss)
    return certificate.revise(digests={**certificate.digests, **(digests or {})}), rho


def validate_delta(delta: float, n_votes: int = 1) -> float:
    """Return delta as a float; raise ValueError if it is not in (0, 1), or too small to be divided by `n_votes`."""
    value = scalar("delta", open_interval("delta", delta, 0, 1))
    if value / n_votes == 0:
        raise ValueError(
            f"delta must be larger, got {delta!r}: divided by {n_votes} votes that compete, it is too small for a float"
        )
    return value


def _derive(everyone: Problem, dropped_loss: float | None) -> tuple[Certificate, Array]:
    """Weight hypotheses by their losses, those with NaN not at all, and certify the result: see `certify`."""
    settings, given = everyone.settings, everyone.losses
    chosen = ~np.isnan(given)
    rule = VOTINGS[settings.voting]
    if rule.needs_losses and not chosen.all():
        raise ValueError(
            f"losses must not hold NaN for voting={settings.voting!r}, which gives weight to all hypotheses"
        )
    validated, log_mass = everyone.restrict(chosen)
    weighted = rule.weigh(validated)
    n_dropped, at_least = int(np.count_nonzero(~chosen)), dropped_loss or 0.0
    rho = np.zeros(given.size)
    rho[chosen] = weighted.rho
    # The numbers of points that the losses were measured on are one number where they are the same.
    sizes = np.where(chosen, everyone.n, 0) if np.ptp(validated.n) else int(validated.n[0])
    certificate = Certificate(
        **vars(settings),
        statements=_with_shared_delta(weighted.statements, settings, log_mass),
        empirical_loss=weighted.empirical_loss,
        kl_div=_with_lost_mass(weighted.kl_div, log_mass),
        n_validation=everyone.n_min,
        n_validation_max=everyone.n_max,
        n_hypotheses=given.size,
        n_dropped=n_dropped,
        dropped_loss=at_least if n_dropped else None,
        minimum_over=validated.losses.size,
        digests={"losses": digest([np.where(chosen, given, np.nan), sizes]), "posterior": digest(rho)},
        **weighted.minimum,
    )
    # If their losses are not larger, the dropped hypotheses might get weight.
    if n_dropped and validated.objective.has_lambda and weighted.minimum and at_least > weighted.empirical_loss:
        # The objectives do not decrease in any loss: their minimum with lower bounds in place of losses is a lower
        # bound. It may prove that the minimum over all hypotheses is the same.
        bounded = replace(everyone, losses=np.where(chosen, given, at_least))
        lower, stated = bounded.objective.minimize(bounded).lower, certificate.minimum_lower_bound
        if lower is not None and stated is not None and stated - lower <= _PROVED_GAP * stated:
            certificate = replace(certificate, minimum_lower_bound=lower, minimum_over=given.size)
    return certificate, rho


def _pose(
    losses: ArrayLike,
    n: ArrayLike,
    prior: ArrayLike | None,
    settings: Settings,
    posterior: ArrayLike | None = None,
    *,
    n_min: int | None = None,
    n_max: int | None = None,
    earlier: bool = False,
) -> Problem:
    """Return the problem of weighting all hypotheses; NaN is the loss of those that were not validated in full.

    `n_min` is the smallest number of validation points, if less than all in `n`; `n_max` the largest, if `n` is the
    smallest and the others are not known.
    """
    given = loss_vector("losses", losses, partial=True)
    points = sizes_of(n, given.size).astype(np.int64)
    smallest, largest = int(points.min()), int(points.max())
    n_max = largest if n_max is None else int(scalar("n_max", whole_number("n_max", n_max, largest)))
    if n_max > largest and (VOTINGS[settings.voting].needs_sizes or OBJECTIVES[settings.objective].needs_sizes):
        raise ValueError("n must hold the number of points of every hypothesis for this objective or voting, not n_max")
    n_min = smallest if n_min is None else min(smallest, n_min)
    sizes_known = n_max == largest
    weights = _read_posterior(posterior, given, settings)
    return Problem(settings, given, points, n_min, n_max, sizes_known, prior, settings.share, earlier, weights)


def _read_posterior(posterior: ArrayLike | None, losses: Array, settings: Settings) -> Array | None:
    """Return given weights, on hypotheses with a loss, that add up to one but for rounding; None if there are none."""
    if posterior is None:
        return None
    if OBJECTIVES[settings.objective].of_losses:
        raise ValueError(f"posterior must be None for the objective {settings.objective!r}, which chooses the weights")
    if follows_from_losses(settings.objective, settings.voting):
        raise ValueError(f"posterior must be None for voting={settings.voting!r}, which chooses the weights")
    rho = posterior_weights(posterior, losses.size, name="posterior")
    if rho[np.isnan(losses)].any():
        raise ValueError("posterior must be zero where a loss is NaN: what is not validated in full gets no weight")
    total = float(rho.sum())
    return rho if abs(total - 1) <= _ROUNDING else rho / total


def _with_lost_mass(kl_div: float, log_mass: float) -> float:
    """Return the divergence from the prior, given that from the prior conditioned on a mass of it, rounded up."""
    return kl_div if log_mass == 0 else (kl_div - log_mass) * (1 + 1e-15)


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
        method, who = statement.method, statement.predictor
        again = Statement.by(method, who, settings.loss, settings.delta, figures, settings.assumption_codes)
        shared[who] = replace(again, bound=max(again.bound, statement.bound))
    return tuple(shared[statement.predictor] for statement in statements)


# -- verification ------------------------------------------------------------------------------------

# How near a figure has to come to the recomputed one, by field. Lambda is known only as sharply as its minimum is.
_SIZES = ("n_validation", "n_validation_max", "n_hypotheses", "n_dropped", "minimum_over")
_TOLERANCES = dict.fromkeys((*_SIZES, "global_minimum", "quasiconvex"), 0.0)
_TOLERANCES |= {"empirical_loss": FIGURE_TOLERANCE, "kl_div": FIGURE_TOLERANCE, "lam": 1e-3}

# How the randomised classifier was bounded before the direct bound.
_EARLIER = ("pac-bayes-kl", "pac-bayes-dual")


def verify(
    certificate: Certificate,
    losses: ArrayLike,
    prior: ArrayLike | None,
    n: ArrayLike | None,
    posterior: ArrayLike | None = None,
) -> None:
    """Derive a certificate again, and raise CertificateError for the first thing that is stated otherwise."""
    settings = Settings(**{item.name: getattr(certificate, item.name) for item in fields(Settings)})
    n_min, n_max = certificate.n_validation, certificate.n_validation_max
    if posterior is None and not certificate.follows_from_losses:
        raise CertificateError(
            f"the objective {certificate.objective!r} does not follow from losses: give the posterior as well, or let "
            "`verify_certificate` of the model compute it again from the training sample"
        )
    sizes: dict[str, int] = {}
    if n is None:
        n, sizes = n_min, {"n_max": n_max}
    elif np.isnan(given := loss_vector("losses", losses, partial=True)).any():
        # For posteriors on some hypotheses, any numbers below the smallest and above the largest will do.
        n, sizes = np.where(np.isnan(given), n_max, n), {"n_min": n_min}
    earlier = any(statement.method in _EARLIER for statement in certificate.statements)
    problem = _pose(losses, n, prior, settings, posterior, **sizes, earlier=earlier)
    again, _ = _derive(problem, certificate.dropped_loss)
    _verify_statements(certificate.statements, again.statements)
    for name, tolerance in _TOLERANCES.items():
        expect(name, getattr(certificate, name), getattr(again, name), tolerance)
    stated, proved = certificate.minimum_lower_bound, again.minimum_lower_bound
    if (stated is None) != (proved is None) or (stated or 0.0) > (proved or 0.0) * (1 + FIGURE_TOLERANCE):
        raise CertificateError(f"minimum_lower_bound is stated as {stated!r} but comes out as {proved!r}")
    for part in ("losses",) if posterior is None else ("losses", "posterior"):
        if part in certificate.digests:
            expect(f"digests[{part!r}]", certificate.digests[part], again.digests[part])


def _verify_statements(statements: Sequence[Statement], expected: Sequence[Statement]) -> None:
    """Check the statements that follow from validation losses against those recomputed."""
    by_predictor = {statement.predictor: statement for statement in expected}
    for i, stated in enumerate(statements):
        if "n_unlabelled" in stated.figures or stated.is_test:
            continue
        right = by_predictor.get(stated.predictor)
        if right is None:
            raise CertificateError(f"statements[{i}].predictor is stated as {stated.predictor!r}, without a proof")
        expect_at_least(f"statements[{i}].bound", stated.bound, right.bound)
        # A bound by another method that is not smaller is true as well; its figures are its own.
        for name, value in stated.figures.items() if stated.method == right.method else ():
            expect(f"statements[{i}].figures[{name!r}]", value, right.figures[name], FIGURE_TOLERANCE)
