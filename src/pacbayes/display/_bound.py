"""Plot F(lambda) with its minimum, and where it is known to be quasiconvex."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._formatting import format_lower, format_upper
from pacbayes._validation import Array, open_interval, scalar, whole_number
from pacbayes.bounds.prior import restrict_prior
from pacbayes.display._base import BLACK, BLUE, GREEN, GREY, SHADE, Display
from pacbayes.display.checks import check_fitted
from pacbayes.posterior import lambda_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import QuasiconvexityReport, check_quasiconvexity, conditions_hold

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Range = tuple[float, float] | None

# Near lambda = 0, F grows without limit: by default the curve begins where F is this many times its minimum.
_HIGHEST = 2.0

# Values of lambda that differ by more than this factor are drawn on a logarithmic axis.
_LOG_LAMBDA = 50


@dataclass(eq=False, repr=False)
class BoundDisplay(Display):
    r"""Plot of the PAC-Bayes-lambda bound of the Gibbs posterior as a function of lambda.

    Use `from_estimator` or `from_losses`.

    Parameters
    ----------
    lam, bound : ndarray of shape (k,)
        Values of lambda, increasing, and :math:`F(\lambda)` at each of them.
    minimum_lam, minimum : float
        The lambda of the global minimum, and the minimum.
    lower : float
        A proved lower bound on :math:`F(\lambda)` for all lambda.
    condition_holds : ndarray of bool of shape (k,)
        Whether one of the paper's two sufficient conditions for quasiconvexity holds, at each lambda.
    report : QuasiconvexityReport
        Whether F is proved to be quasiconvex for all lambda. The proof may rest on other conditions than those two:
        ``report.condition`` names the one.
    posterior_lam : float, optional
        The lambda of a posterior that minimises the kl bound.
    strict : bool, default=True
        Whether the theorem covers the bound; the title says if it does not.

    Attributes
    ----------
    line_, lower_ : Line2D
        The curve, and the line of the lower bound.
    minimum_, posterior_ : Line2D or None
        Markers of the minimum and of `posterior_lam`; None if there is none in the range of `lam`.
    condition_ : PolyCollection
        Shade where a condition holds.
    vacuous_ : Line2D or None
        Line at 1, where nothing is proved; None if the curve stays below.

    Examples
    --------
    >>> from pacbayes.display import BoundDisplay
    >>> display = BoundDisplay.from_losses([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> round(display.minimum, 4), round(display.minimum_lam, 4), display.report.condition
    (0.1771, 0.4339, 'few hypotheses')
    """

    lam: Array
    bound: Array
    _: KW_ONLY
    minimum_lam: float
    minimum: float
    lower: float
    condition_holds: NDArray[np.bool_]
    report: QuasiconvexityReport
    posterior_lam: float | None = None
    strict: bool = True

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        n: int,
        *,
        n_max: int | None = None,
        delta: float = 0.05,
        prior: ArrayLike | None = None,
        lam_range: Range = None,
        grid_resolution: int = 300,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        """Plot the bound for the losses of hypotheses.

        Parameters
        ----------
        losses, n, n_max, delta, prior
            As in `pacbayes.posterior.minimize_lambda_bound`.
        lam_range : (float, float), optional
            Smallest and largest lambda, in (0, 2). By default, (0, 1] without the small values of lambda at which F is
            larger than twice its minimum and than F(1).
        grid_resolution : int, default=300
            Number of values of lambda, at least 2. The minimum and 1 are added to them.
        ax, **kwargs
            As in `plot`.
        """
        theorem = {"n": n, "n_max": n_max, "delta": delta, "prior": prior}
        return cls._compute(losses, theorem, lam_range, grid_resolution).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        lam_range: Range = None,
        grid_resolution: int = 300,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        """Plot the bound for the losses of a classifier's hypotheses, as it is in the certificate.

        The weights are those at the minimum of F for ``objective="lambda"`` only. For ``objective="kl"`` their lambda
        is marked too; others have none.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        lam_range, grid_resolution
            As in `from_losses`. The default range is extended to the lambda of the posterior if that is above 1.
        ax, **kwargs
            As in `plot`.
        """
        model = check_fitted(estimator)
        proved = model.certificate_
        # As in the certificate: dropped hypotheses have no weight, and their share of the prior is lost; competing
        # votes share delta.
        validated = ~np.isnan(model.losses_)
        prior, log_mass = restrict_prior(model.prior_, validated)
        delta = proved.delta / proved.n_votes * math.exp(log_mass)
        theorem = {"n": proved.n_validation, "n_max": proved.n_validation_max, "delta": delta, "prior": prior}
        posterior = None if proved.minimizes_lambda_bound else proved.lam
        display = cls._compute(model.losses_[validated], theorem, lam_range, grid_resolution, posterior)
        display.strict = proved.strict
        return display.plot(ax, **kwargs)

    @classmethod
    def _compute(
        cls,
        losses: ArrayLike,
        theorem: dict[str, Any],
        lam_range: Range,
        resolution: int,
        posterior: float | None = None,
    ) -> BoundDisplay:
        """Compute what is to be drawn: `theorem` holds n, n_max, delta and the prior, `posterior` is a lambda."""
        best = minimize_lambda_bound(losses, method="global", **theorem)
        assert best.lower is not None
        resolution = int(scalar("grid_resolution", whole_number("grid_resolution", resolution, 2)))
        if lam_range is not None:
            ends = open_interval("lam_range", lam_range, 0, 2)
            if ends.shape != (2,) or not ends[0] < ends[1]:
                raise ValueError(f"lam_range must be two numbers, the smaller one first, got {lam_range!r}")
            low, high = ends.tolist()
        else:
            begin = np.geomspace(best.lam / 1000, best.lam, 200)
            highest = max(_HIGHEST * best.fun, lambda_bound(losses, 1.0, **theorem))
            low_enough = lambda_bound(losses, begin, **theorem) <= highest * (1 + 1e-9)
            low = float(begin[np.argmax(low_enough)])
            high = posterior if posterior is not None and 1 < posterior < 2 else 1.0
        lam = np.geomspace(low, high, resolution)
        lam[[0, -1]] = low, high  # exactly, without rounding errors
        lam = np.union1d(lam, [at for at in (1.0, best.lam, posterior) if at is not None and low <= at <= high])
        return cls(
            lam,
            lambda_bound(losses, lam, **theorem),
            minimum_lam=best.lam,
            minimum=best.fun,
            lower=best.lower,
            condition_holds=conditions_hold(losses, lam, **theorem),
            report=check_quasiconvexity(losses, **theorem),
            posterior_lam=posterior,
        )

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        shade: dict[str, Any] = {"where": self.condition_holds, "transform": ax.get_xaxis_transform(), "zorder": 0}
        label = "sufficient condition for quasiconvexity"
        self.condition_ = ax.fill_between(self.lam, 0, 1, **shade, facecolor=SHADE, edgecolor="none", label=label)
        label = r"PAC-Bayes-$\lambda$ bound $F(\lambda)$"
        self.line_ = self._plot_line(self.lam, self.bound, kwargs, color=BLUE, linewidth=2, label=label)
        label = f"proved lower bound {format_lower(self.lower)}"
        self.lower_ = ax.axhline(self.lower, color=BLACK, linestyle="--", linewidth=1, label=label)
        self.vacuous_ = None
        if np.max(self.bound) >= 1:
            label = "nothing is proved from here up"
            self.vacuous_ = ax.axhline(1, color=GREY, linestyle=":", linewidth=1, label=label)
        self.minimum_ = self._mark(self.minimum_lam, f"minimum {format_upper(self.minimum)} at")
        self.posterior_ = self._mark(self.posterior_lam, "posterior of the kl bound,", marker="D", color=GREEN)
        if self.lam[-1] / self.lam[0] > _LOG_LAMBDA:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
        ax.set(xlabel=r"trade-off $\lambda$", ylabel="bound on the expected loss")
        # No margins: nothing is known about the shape beyond the range.
        ax.margins(x=0)
        proved = "proved strongly" if self.report.guaranteed else "not proved"
        self.legend_ = ax.legend(title=rf"$F(\lambda)$ is {proved} quasiconvex")
        if not self.strict:
            self._mark_not_strict("this bound")

    def _mark(self, lam: float | None, label: str, **style: str) -> Line2D | None:
        """Mark the curve at a lambda, if that is in its range."""
        if lam is None or not self.lam[0] <= lam <= self.lam[-1]:
            return None
        height = float(self.bound[np.searchsorted(self.lam, lam)])
        return self._plot_marker(lam, height, rf"{label} $\lambda$ = {lam:.3g}", **style)
