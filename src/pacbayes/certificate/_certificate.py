"""What was proved, with what was assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import Array, loss_vector, open_interval, scalar, whole_number
from pacbayes.bounds import single_hypothesis_kl
from pacbayes.certificate import _html, _json, _words
from pacbayes.certificate._assumptions import LOSS_ASSUMPTIONS, NOT_COVERED, says_not_covered
from pacbayes.certificate._statements import (
    BEST,
    MAJORITY,
    RANDOMISED,
    Statement,
    pac_bayes_statements,
)
from pacbayes.exceptions import CertificateError
from pacbayes.fingerprint import digest
from pacbayes.gibbs import GibbsCurve
from pacbayes.losses import is_of_probabilities
from pacbayes.posterior import PosteriorResult, minimize_kl_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity

__all__ = ["Certificate", "certify"]

Objective = Literal["lambda", "kl"]
Voting = Literal["majority", "gibbs", "best", "uniform"]

# Figures are recomputed to rounding on any machine; lambda only as sharply as its minimum is.
_FIGURE_TOLERANCE = 1e-9
_LAMBDA_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Certificate:
    """Upper bounds on the true error of a classifier, with all that they rest on.

    With probability at least 1 - `delta` over the draw of the sample, each statement holds, if the `assumptions` do.
    Statements that rest on the same event hold jointly.

    Attributes
    ----------
    statements : tuple of Statement
        What is proved: first about what `predict` does, then about others.
    empirical_loss : float
        Validation loss of the posterior, rounded up.
    kl_div : float
        Divergence of the posterior from the prior, rounded up.
    n_validation : int
        Smallest number of validation points of any hypothesis.
    n_validation_max : int
        Largest number of validation points of any hypothesis.
    n_hypotheses : int
        Number of hypotheses m.
    delta : float
        Probability with which the bound may fail.
    lam : float or None
        Trade-off lambda of the Gibbs posterior; None if the posterior is not one that minimises a bound.
    objective : {"lambda", "kl"}
        The bound that the posterior minimises.
    voting : {"majority", "gibbs", "best", "uniform"}
        What `predict` does, and how the posterior was chosen: by minimising the objective, all weight on the smallest
        validation loss, or the prior itself.
    loss : str
        Name of the loss.
    minimum_lower_bound : float or None
        Proved lower bound on the minimum of the objective; None if nothing was minimised.
    global_minimum : bool
        Whether the posterior is proved to minimise the objective over all posteriors, to eight digits.
    quasiconvex : str or None
        Condition of the paper under which alternating minimisation is guaranteed to find the same minimum.
    strict : bool
        Whether everything that shaped a hypothesis came from its own subsample or from reserved points, so that the
        theorem applies to the letter.
    assumptions : tuple of str
        What the bounds rest on.
    digests : mapping of str to str
        SHA-256 digests of what the certificate is about: "losses" and "posterior"; of a fit, also "hypotheses" and
        "settings".
    """

    statements: tuple[Statement, ...]
    empirical_loss: float
    kl_div: float
    n_validation: int
    n_validation_max: int
    n_hypotheses: int
    delta: float
    lam: float | None
    objective: Objective
    voting: Voting
    loss: str
    minimum_lower_bound: float | None
    global_minimum: bool
    quasiconvex: str | None
    strict: bool
    assumptions: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)

    # -- bounds by name ------------------------------------------------------------------------------

    @property
    def predictor(self) -> str:
        """Who makes the predictions: the majority vote, the randomised classifier or the best hypothesis."""
        return {"gibbs": RANDOMISED, "best": BEST}.get(self.voting, MAJORITY)

    @property
    def bound(self) -> float:
        """Bound on what `predict` does. 1 means that nothing is proved.

        A loss of probabilities is that of the hypotheses' own, which `predict` does not output: nothing is proved then.
        """
        return 1.0 if is_of_probabilities(self.loss) else self._bound_on(self.predictor)

    @property
    def gibbs_bound(self) -> float:
        """Bound on the expected loss of the randomised classifier, which draws a hypothesis for every prediction."""
        return self._bound_on(RANDOMISED)

    @property
    def vote_bound(self) -> float:
        """Bound on the zero-one loss of the majority vote; 1 for other losses, for which nothing is proved."""
        return self._bound_on(MAJORITY)

    def _bound_on(self, predictor: str) -> float:
        # A single hypothesis with all the weight is the vote and the randomised classifier alike.
        names = (predictor, BEST) if self.loss == "zero_one" or predictor != MAJORITY else (predictor,)
        return min((s.bound for s in self.statements if s.predictor in names), default=1.0)

    @property
    def is_zero_one(self) -> bool:
        """Whether the loss is the share of wrong labels."""
        return self.loss == "zero_one"

    def held_out_bound(self, loss: float | None = None) -> float:
        """Return the bound from holding out as many points: one classifier, tested on `n_validation` points.

        What a test set of the same size would have proved for one classifier with this test loss, trained without
        those points (Chernoff's bound in kl form). The ensemble pays KL and ln(2 sqrt(n)) for having been
        chosen on its validation points, and uses the rest of the sample for training all the same.

        Parameters
        ----------
        loss : float, optional
            Test loss of the classifier; by default the validation loss of the posterior.
        """
        tested = self.empirical_loss if loss is None else loss
        return float(single_hypothesis_kl(tested, self.n_validation, self.delta))

    # -- in words ------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Return what is proved, in one plain sentence."""
        return _words.summary(self)

    def rows(self) -> list[_words.Row]:
        """Return the measured loss, the certified bounds and bounds to compare them with, for tables and plots."""
        return _words.rows(self)

    def figures(self) -> dict[str, str]:
        """Return what the bounds are made of, by name."""
        return _words.figures(self)

    def __str__(self) -> str:
        return _words.text(self)

    def _repr_html_(self) -> str:
        return _html.render(self)

    # -- in files, and checked -----------------------------------------------------------------------

    def to_json(self) -> str:
        """Write the certificate as JSON text."""
        return _json.dump(self)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; raise CertificateError, naming the field, if it does not follow from its own figures."""
        certificate = cls(**_json.load(text))
        certificate.check()
        return certificate

    def check(self) -> None:
        """Recompute the bounds from the certificate's own figures, and raise `CertificateError` on a mismatch."""
        figures = {
            "loss": self.empirical_loss,
            "kl_div": self.kl_div,
            "n": self.n_validation,
            "n_max": self.n_validation_max,
        }
        expected = pac_bayes_statements(self.voting, self.loss, self.delta, strict=self.strict, figures=figures)
        self._check_statements(expected, tolerance=0.0)
        for i, statement in enumerate(self.statements):
            statement.check(f"statements[{i}].bound")
        if self.strict == says_not_covered(self.assumptions):
            raise CertificateError(
                f"strict is stated as {self.strict!r}, but the assumptions "
                f"{'say' if self.strict else 'do not say'} that the theorem does not cover the setting"
            )

    def verify(self, losses: ArrayLike, prior: ArrayLike | None = None) -> None:
        """Recompute everything from the validation losses, and raise `CertificateError` on a mismatch.

        A bound must not be below the recomputed one, at all.

        Parameters
        ----------
        losses : array_like of shape (m,)
            Validation losses of the hypotheses.
        prior : array_like of shape (m,), optional
            The prior that was used; uniform by default.
        """
        self.check()
        again, _ = certify(
            losses,
            self.n_validation,
            n_max=self.n_validation_max,
            delta=self.delta,
            prior=prior,
            objective=self.objective,
            voting=self.voting,
            loss=self.loss,
            strict=self.strict,
            assumptions=self.assumptions,
        )
        for name in (item.name for item in fields(self)):
            stated, recomputed = getattr(self, name), getattr(again, name)
            if name == "statements":
                self._check_statements(recomputed, tolerance=_FIGURE_TOLERANCE)
            elif name == "digests":
                _expect("digests['losses']", stated.get("losses", recomputed["losses"]), recomputed["losses"])
            elif name == "minimum_lower_bound" and stated is not None and recomputed is not None:
                if stated > recomputed * (1 + _FIGURE_TOLERANCE):
                    raise CertificateError(f"{name} is stated as {stated!r} but comes out as {recomputed!r}")
            else:
                _expect(name, stated, recomputed, _LAMBDA_TOLERANCE if name == "lam" else _FIGURE_TOLERANCE)

    def _check_statements(self, expected: Sequence[Statement], tolerance: float) -> None:
        """Check that the statements are those expected, on the same figures, with bounds that are not smaller."""
        _expect("statements, by their number,", len(self.statements), len(expected))
        for i, (stated, right) in enumerate(zip(self.statements, expected, strict=True)):
            for name in ("predictor", "loss", "method", "delta", "event"):
                _expect(f"statements[{i}].{name}", getattr(stated, name), getattr(right, name))
            _expect(f"statements[{i}].figures", sorted(stated.figures), sorted(right.figures))
            if not stated.bound >= right.bound:
                raise CertificateError(
                    f"statements[{i}].bound is stated as {stated.bound!r} but comes out as {right.bound!r}"
                )
            for name, value in stated.figures.items():
                if name != "gibbs_bound":  # a bound itself, checked as such
                    _expect(f"statements[{i}].figures[{name!r}]", value, right.figures[name], tolerance)
                elif not value >= right.figures[name]:
                    raise CertificateError(
                        f"statements[{i}].figures[{name!r}] is stated as {value!r} but comes out as "
                        f"{right.figures[name]!r}"
                    )


def _expect(name: str, stated: Any, recomputed: Any, tolerance: float = 0.0) -> None:
    same = stated == recomputed
    if isinstance(stated, float) and isinstance(recomputed, (int, float)):
        same = math.isclose(stated, recomputed, rel_tol=tolerance)
    if not same:
        raise CertificateError(f"{name} is stated as {stated!r} but comes out as {recomputed!r}")


def validate_settings(delta: float, objective: str, voting: str) -> float:
    """Return delta as a float, or raise ValueError naming the setting that is wrong."""
    if objective not in ("lambda", "kl"):
        raise ValueError(f"objective must be 'lambda' or 'kl', got {objective!r}")
    if voting not in ("majority", "gibbs", "best", "uniform"):
        raise ValueError(f"voting must be 'majority', 'gibbs', 'best' or 'uniform', got {voting!r}")
    return scalar("delta", open_interval("delta", delta, 0, 1))


def certify(
    losses: ArrayLike,
    n: int,
    *,
    n_max: int | None = None,
    delta: float = 0.05,
    prior: ArrayLike | None = None,
    objective: Objective = "lambda",
    voting: Voting = "majority",
    loss: str = "zero_one",
    strict: bool = True,
    assumptions: Sequence[str] | None = None,
    digests: Mapping[str, str] | None = None,
) -> tuple[Certificate, Array]:
    """Weight hypotheses by their validation losses alone, and certify the result.

    Parameters
    ----------
    losses : array_like of shape (m,)
        Validation losses in [0, 1], each measured on points that did not shape the hypothesis.
    n : int
        Number of points that each loss was measured on; the smallest, if they differ.
    n_max : int, optional
        The largest such number; `n` by default.
    delta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    prior : array_like of shape (m,), optional
        Prior as probabilities or log-probabilities, chosen without the validation points; uniform by default.
    objective : {"lambda", "kl"}, default="lambda"
        The bound to minimise: the paper's, or the tighter kl bound itself. The certificate states the kl bound
        in both cases. Without effect for "best" and "uniform", which minimise nothing.
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        "best" puts all weight on the smallest loss, "uniform" keeps the prior; the others minimise.
    loss : str, default="zero_one"
        Name of the loss. The majority vote is bounded for "zero_one" only: the share of wrong labels.
    strict : bool, default=True
        Whether the assumptions hold to the letter.
    assumptions : sequence of str, optional
        What the certificate rests on; by default, what has to be true of the losses.
    digests : mapping of str to str, optional
        Digests of what else the certificate is about.

    Returns
    -------
    certificate : Certificate
        What is proved.
    rho : ndarray of shape (m,)
        The posterior.

    Examples
    --------
    >>> certificate, rho = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> round(certificate.gibbs_bound, 4), round(certificate.vote_bound, 4)
    (0.1638, 0.3276)
    """
    loss_array = loss_vector("losses", losses)
    n_min = int(scalar("n", whole_number("n", n)))
    n_largest = n_min if n_max is None else int(scalar("n_max", whole_number("n_max", n_max, n_min)))
    delta_value = validate_settings(delta, objective, voting)
    minimised: PosteriorResult | None = None
    if voting in ("majority", "gibbs"):
        if objective == "lambda":
            minimised = minimize_lambda_bound(
                loss_array, n_min, n_max=n_largest, delta=delta_value, prior=prior, method="global"
            )
        else:
            minimised = minimize_kl_bound(loss_array, n_min, n_max=n_largest, delta=delta_value, prior=prior)
        rho, empirical_loss, kl_div = minimised.rho, minimised.loss, minimised.kl_div
    else:
        rho, empirical_loss, kl_div = _fixed_posterior(loss_array, n_min, prior, voting)
    lines = list(LOSS_ASSUMPTIONS if assumptions is None else assumptions)
    if not strict and not says_not_covered(lines):
        lines.append(f"the caller declared the setting not strict: {NOT_COVERED}")
    figures = {"loss": empirical_loss, "kl_div": kl_div, "n": n_min, "n_max": n_largest}
    certificate = Certificate(
        statements=pac_bayes_statements(voting, loss, delta_value, strict=strict, figures=figures),
        empirical_loss=empirical_loss,
        kl_div=kl_div,
        n_validation=n_min,
        n_validation_max=n_largest,
        n_hypotheses=loss_array.size,
        delta=delta_value,
        lam=None if minimised is None else minimised.lam,
        objective=objective,
        voting=voting,
        loss=loss,
        minimum_lower_bound=None if minimised is None else minimised.lower,
        global_minimum=minimised is not None and minimised.converged,
        quasiconvex=_quasiconvexity(loss_array, n_min, n_largest, delta_value, prior),
        strict=strict,
        assumptions=tuple(lines),
        digests={"losses": digest(loss_array), "posterior": digest(rho), **(digests or {})},
    )
    return certificate, rho


def _fixed_posterior(losses: Array, n: int, prior: ArrayLike | None, voting: Voting) -> tuple[Array, float, float]:
    """Return the posterior of "uniform", the prior itself, or of "best", one hypothesis; its loss and divergence."""
    curve = GibbsCurve(losses, n, prior)
    if voting == "uniform":
        pi = curve.rho(0.0)
        return pi, min(1.0, float(np.sum(pi * losses)) * (1 + 1e-12)), 0.0
    # In logarithms: a prior may be too small for a float and still be no zero.
    possible = np.flatnonzero(curve.log_prior > -np.inf)
    best = int(possible[np.argmin(losses[possible])])
    rho = np.zeros(losses.size)
    rho[best] = 1.0
    return rho, float(losses[best]), curve.point_mass_kl(best)


def _quasiconvexity(losses: Array, n: int, n_max: int, delta: float, prior: ArrayLike | None) -> str | None:
    """Return the condition of the paper that guarantees strong quasiconvexity, if one does."""
    return check_quasiconvexity(losses, n, n_max=n_max, delta=delta, prior=prior).condition
