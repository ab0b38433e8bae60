"""What was proved, with what was assumed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import Array, loss_vector, open_interval, scalar, whole_number
from pacbayes._wording import confidence, rounded_up
from pacbayes.bounds import majority_vote, pac_bayes_kl, pac_bayes_sqrt, single_hypothesis_kl
from pacbayes.gibbs import GibbsCurve
from pacbayes.posterior import PosteriorResult, minimize_kl_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity

__all__ = ["Certificate", "CertificateError", "certify"]

Objective = Literal["lambda", "kl"]
Voting = Literal["majority", "gibbs", "best", "uniform"]

_FORMAT = 1


class CertificateError(ValueError):
    """A certificate that does not follow from its own figures, or from the losses it is checked against."""


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the true error of a randomised classifier and of its majority vote.

    With probability at least 1 - `delta` over the draw of the sample, the expected loss of the randomised
    classifier, which draws a hypothesis from the posterior for every prediction, is at most `gibbs_bound`, and
    the zero-one loss of the weighted majority vote at most `vote_bound`, if the `assumptions` hold.

    Attributes
    ----------
    gibbs_bound : float
        Bound on the expected loss of the randomised classifier (Theorem PBkl). 1 means nothing is proved.
    vote_bound : float
        Bound on the majority vote: twice as much, at most 1. Equal to `gibbs_bound` if one hypothesis has all the
        weight; 1 for losses other than the zero-one loss, for which nothing is proved.
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
        How the posterior was chosen: by minimising the objective, all weight on the smallest validation loss,
        or the prior itself.
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
    assumptions : list of str
        What the bound rests on.
    """

    gibbs_bound: float
    vote_bound: float
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
    assumptions: list[str]

    @property
    def _delta_min(self) -> float:
        return delta_for_smallest(self.delta, self.n_validation, self.n_validation_max)

    def held_out_bound(self, loss: float | None = None) -> float:
        """Bound from holding out as many points: a single classifier, tested on `n_validation` points.

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

    def comparison(self) -> dict[str, float]:
        """Bounds on the randomised classifier by name, with what a held-out set would have proved."""
        arguments = (self.empirical_loss, self.kl_div, self.n_validation, self._delta_min)
        return {
            "PAC-Bayes-kl": self.gibbs_bound,
            "PAC-Bayes-lambda at its best": float(pac_bayes_sqrt(*arguments)),
            "validation loss alone": self.empirical_loss,
            "single classifier, held-out set": self.held_out_bound(),
        }

    def __str__(self) -> str:
        vacuous = " (nothing is proved)" if self.gibbs_bound >= 1 else ""
        sizes = f"{self.n_validation}"
        if self.n_validation_max > self.n_validation:
            sizes += f" to {self.n_validation_max}"
        if self.voting in ("best", "uniform"):
            minimum = f"not minimised: {self.voting}"
        elif self.global_minimum:
            minimum = f"global minimum of the {self.objective} bound, proved"
        else:
            minimum = f"the {self.objective} bound minimised; its minimum is at least {self.minimum_lower_bound:.6f}"
        lines = [
            f"With probability {confidence(self.delta)} over the sample, on new points from the same distribution:",
            f"  randomised classifier  {self.loss} loss at most {rounded_up(self.gibbs_bound)}{vacuous}",
            f"  majority vote          error at most {rounded_up(self.vote_bound)}"
            + (" (nothing is proved)" if self.vote_bound >= 1 else ""),
            f"  validation loss {self.empirical_loss:.4f}, KL {self.kl_div:.4f}, {self.n_hypotheses} hypotheses, "
            f"{sizes} validation points each",
            f"  posterior: {minimum}",
            f"  {'strict' if self.strict else 'NOT STRICT'}, assuming:",
            *(f"    - {assumption}" for assumption in self.assumptions),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from pacbayes.report import certificate_html

        return certificate_html(self)

    def to_json(self) -> str:
        """Write the certificate as JSON text."""
        values = asdict(self)
        if self.lam == math.inf:
            values["lam"] = "Infinity"  # JSON has no number for it
        return json.dumps({"pacbayes_certificate": _FORMAT, **values}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate, and refuse it if its bounds do not follow from its own figures."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise CertificateError(f"not a certificate: not JSON ({error})") from error
        if not isinstance(values, dict) or values.pop("pacbayes_certificate", None) != _FORMAT:
            raise CertificateError('not a certificate: no "pacbayes_certificate": 1')
        names = {field.name for field in fields(cls)}
        if names != set(values):
            odd = sorted(names ^ set(values))
            raise CertificateError(f"not a certificate: fields missing or unknown: {', '.join(odd)}")
        try:
            if values["lam"] is not None:
                values["lam"] = float(values["lam"])
            certificate = cls(**values)
            certificate._check_consistent()
        except CertificateError:
            raise
        except (TypeError, ValueError) as error:
            raise CertificateError(f"not a certificate: {error}") from error
        return certificate

    def _check_consistent(self) -> None:
        bound = pac_bayes_kl(self.empirical_loss, self.kl_div, self.n_validation, self._delta_min)
        _expect("gibbs_bound", self.gibbs_bound, float(bound))
        _expect("vote_bound", self.vote_bound, _vote_bound(self.gibbs_bound, self.voting, self.loss))

    def verify(self, losses: ArrayLike, prior: ArrayLike | None = None) -> None:
        """Recompute everything from the validation losses, and raise `CertificateError` on a mismatch.

        Parameters
        ----------
        losses : array_like of shape (m,)
            Validation losses of the hypotheses.
        prior : array_like of shape (m,), optional
            The prior that was used; uniform by default.
        """
        self._check_consistent()
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
        for field in fields(self):
            _expect(field.name, getattr(self, field.name), getattr(again, field.name))


def _expect(name: str, stated: Any, recomputed: Any) -> None:
    same = stated == recomputed
    if isinstance(stated, float) and isinstance(recomputed, float):
        # Bounds come out the same to rounding on any machine; lambda only as sharply as its minimum is.
        same = math.isclose(stated, recomputed, rel_tol=1e-3 if name == "lam" else 1e-6, abs_tol=1e-12)
    if not same:
        raise CertificateError(f"{name} is stated as {stated!r} but comes out as {recomputed!r}")


def delta_for_smallest(delta: float, n_min: int, n_max: int) -> float:
    r"""The delta at which :math:`\ln(2 \sqrt{n_{min}} / \delta')` is :math:`\ln(2 \sqrt{n_{max}} / \delta)`.

    With unequal validation sets, E_rho[n_h kl(L_hat_h || L_h)] <= KL + ln(2 sqrt(n_max) / delta), hence
    kl(E_rho[L_hat] || E_rho[L]) <= (KL + ln(2 sqrt(n_max) / delta)) / n_min: the theorem for n_min and this delta.
    """
    return delta * math.sqrt(n_min / n_max)


def _vote_bound(gibbs_bound: float, voting: Voting, loss: str) -> float:
    if loss != "zero_one":
        return 1.0
    return gibbs_bound if voting == "best" else float(majority_vote(gibbs_bound))


def checked_settings(delta: float, objective: str, voting: str) -> float:
    """Return delta as a float, or say which of the settings is wrong."""
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
    assumptions: list[str] | None = None,
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
        in both cases.
    voting : {"majority", "gibbs", "best", "uniform"}, default="majority"
        "best" puts all weight on the smallest loss, "uniform" keeps the prior; the others minimise.
    loss : str, default="zero_one"
        Name of the loss. The majority vote is bounded for the zero-one loss only.
    strict : bool, default=True
        Whether the assumptions hold to the letter.
    assumptions : list of str, optional
        What the certificate rests on; by default, what has to be true of the losses.

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
    delta_value = checked_settings(delta, objective, voting)
    delta_min = delta_for_smallest(delta_value, n_min, n_largest)
    minimised: PosteriorResult | None = None
    if voting in ("majority", "gibbs"):
        if objective == "lambda":
            minimised = minimize_lambda_bound(loss_array, n_min, delta=delta_min, prior=prior, method="global")
        else:
            minimised = minimize_kl_bound(loss_array, n_min, delta=delta_min, prior=prior)
        rho, empirical_loss, kl_div = minimised.rho, minimised.loss, minimised.kl_div
    else:
        rho, empirical_loss, kl_div = _fixed_posterior(loss_array, n_min, prior, voting)
    gibbs_bound = float(pac_bayes_kl(empirical_loss, kl_div, n_min, delta_min))
    report = check_quasiconvexity(loss_array, n_min, delta=delta_min, prior=prior)
    certificate = Certificate(
        gibbs_bound=gibbs_bound,
        vote_bound=_vote_bound(gibbs_bound, voting, loss),
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
        quasiconvex=report.condition,
        strict=strict,
        assumptions=list(_LOSSES_GIVEN if assumptions is None else assumptions),
    )
    return certificate, rho


_LOSSES_GIVEN = (
    "each loss was measured on independent, identically distributed points that did not shape its hypothesis",
    "the prior was chosen without looking at those points",
)


def _fixed_posterior(losses: Array, n: int, prior: ArrayLike | None, voting: Voting) -> tuple[Array, float, float]:
    """The posterior of "uniform", the prior itself, or of "best", one hypothesis; its loss and divergence."""
    pi = GibbsCurve(losses, n, prior).rho(0.0)
    if voting == "uniform":
        return pi, min(1.0, float(np.sum(pi * losses)) * (1 + 1e-12)), 0.0
    best = int(np.flatnonzero(pi > 0)[np.argmin(losses[pi > 0])])
    rho = np.zeros_like(pi)
    rho[best] = 1.0
    return rho, float(losses[best]), float(-np.log(pi[best])) * (1 + 1e-12)
