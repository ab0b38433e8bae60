"""Plot the mass of a posterior."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._formatting import format_nearest
from pacbayes._validation import Array, finite_nonnegative, loss_vector
from pacbayes.display._base import BLUE, LOG_RANKS, RED, Display
from pacbayes.display.checks import check_fitted
from pacbayes.votes import count_half_mass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

    from pacbayes.classifier import PACBayesClassifier

Kind = Literal["mass", "cumulative"]


@dataclass(eq=False, repr=False)
class PosteriorDisplay(Display):
    r"""Plot of the mass of a posterior: against validation loss, or cumulated by rank.

    Use `from_estimator` or `from_posterior`.

    Parameters
    ----------
    losses : ndarray of shape (k,)
        Distinct validation losses, increasing.
    mass : ndarray of shape (k,)
        Posterior mass of all hypotheses with each of these losses.
    cumulative_mass : ndarray of shape (m,)
        Mass of the heaviest hypothesis, of the two heaviest, and so on.
    n_half : int
        Smallest number of heaviest hypotheses that hold at least half of the mass.
    loss : float
        Validation loss of the posterior, :math:`E_\rho[\hat L]`.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Axes and figure of the plot.
    stems_ : LineCollection or None
        Lines from zero to the mass of each loss; None for ``kind="cumulative"``.
    line_ : Line2D
        Points of the mass of each loss, or the line of the cumulative mass.
    loss_ : Line2D or None
        Line at the validation loss of the posterior; None for ``kind="cumulative"``.
    half_ : Line2D or None
        Marker of the hypotheses that hold half of the mass; None for ``kind="mass"``.
    legend_ : Legend
        Legend.

    Examples
    --------
    >>> from pacbayes.display import PosteriorDisplay
    >>> display = PosteriorDisplay.from_posterior([0.4, 0.2, 0.2, 0.2], [0.1, 0.2, 0.2, 0.3], kind="cumulative")
    >>> display.losses.tolist(), display.mass.tolist(), display.n_half
    ([0.1, 0.2, 0.3], [0.4, 0.4, 0.2], 2)
    """

    losses: Array
    mass: Array
    cumulative_mass: Array
    _: KW_ONLY
    n_half: int
    loss: float
    stems_: LineCollection | None = field(init=False)
    line_: Line2D = field(init=False)
    loss_: Line2D | None = field(init=False)
    half_: Line2D | None = field(init=False)
    legend_: Legend = field(init=False)

    @classmethod
    def from_posterior(
        cls, rho: ArrayLike, losses: ArrayLike, *, kind: Kind = "mass", ax: Axes | None = None, **kwargs: Any
    ) -> PosteriorDisplay:
        """Plot a posterior over hypotheses with known losses.

        Parameters
        ----------
        rho : array_like of shape (m,)
            Posterior weights, summing to one.
        losses : array_like of shape (m,)
            Empirical losses in [0, 1].
        kind : {"mass", "cumulative"}, default="mass"
            Mass against loss, summed over equal losses; or the mass of the heaviest hypotheses against their number.
        ax : Axes, optional
            Axes to plot on; a new figure by default.
        **kwargs
            Properties of the points or the line, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PosteriorDisplay
            The display.
        """
        cls._require_matplotlib()
        loss_array = loss_vector("losses", losses)
        weights = finite_nonnegative("rho", rho)
        if weights.shape != loss_array.shape:
            raise ValueError(
                f"rho must have one weight per hypothesis: there are {loss_array.size} losses, "
                f"got shape {weights.shape}"
            )
        total = float(weights.sum())
        if not abs(total - 1) <= 1e-6:
            raise ValueError(f"rho must sum to one, got a sum of {total!s}")
        values, group = np.unique(loss_array, return_inverse=True)
        cumulative = np.cumsum(np.sort(weights)[::-1])
        display = cls(
            values,
            np.bincount(group, weights).astype(np.float64),
            cumulative,
            n_half=count_half_mass(weights),
            loss=float(weights @ loss_array),
        )
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: PACBayesClassifier, *, kind: Kind = "mass", ax: Axes | None = None, **kwargs: Any
    ) -> PosteriorDisplay:
        """Plot the posterior of a classifier, over the hypotheses that were validated in full.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        kind, ax, **kwargs
            As in `from_posterior`.

        Returns
        -------
        PosteriorDisplay
            The display.
        """
        cls._require_matplotlib()
        model = check_fitted(estimator)
        validated = ~np.isnan(model.losses_)
        return cls.from_posterior(model.posterior_[validated], model.losses_[validated], kind=kind, ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, kind: Kind = "mass", **kwargs: Any) -> PosteriorDisplay:
        """Plot the posterior.

        Parameters
        ----------
        ax : Axes, optional
            Axes to plot on; a new figure by default.
        kind : {"mass", "cumulative"}, default="mass"
            Mass against loss, summed over equal losses; or the mass of the heaviest hypotheses against their number.
        **kwargs
            Properties of the points or the line, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PosteriorDisplay
            This display.
        """
        if kind not in ("mass", "cumulative"):
            raise ValueError(f"kind must be 'mass' or 'cumulative', got {kind!r}")
        ax = self._start(ax)
        self.stems_ = self.loss_ = self.half_ = None
        if kind == "mass":
            self._plot_mass(ax, kwargs)
        else:
            self._plot_cumulative(ax, kwargs)
        return self

    def _describe_half(self) -> str:
        holds = "holds" if self.n_half == 1 else "hold"
        return f"{self.n_half:,} of {self.cumulative_mass.size:,} {holds} half of the mass"

    def _plot_mass(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        grouped = self.losses.size < self.cumulative_mass.size
        style = {
            "color": BLUE,
            "linestyle": "none",
            "marker": "o",
            "markersize": 4,
            "label": r"mass $\rho(h)$" + (" of all hypotheses with this loss" if grouped else ""),
        }
        self.line_ = self._plot_line(self.losses, self.mass, kwargs, **style)
        self.stems_ = ax.vlines(self.losses, 0, self.mass, colors=self.line_.get_color(), linewidth=1)
        label = rf"validation loss $E_\rho[\hat L]$ = {format_nearest(self.loss)}"
        self.loss_ = ax.axvline(self.loss, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=label)
        ax.set_xlabel("validation loss of a hypothesis")
        ax.set_ylabel("posterior mass")
        # "best" is slow with many points. A posterior has its mass on the left, so there is room on the right.
        self.legend_ = ax.legend(title=self._describe_half(), loc="best" if self.losses.size < 5000 else "upper right")

    def _plot_cumulative(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        m = self.cumulative_mass.size
        style = {
            "color": BLUE,
            "linewidth": 2,
            "drawstyle": "steps-post",
            "marker": "o" if m <= LOG_RANKS else "none",
            "markersize": 4,
            "label": "mass of the heaviest hypotheses",
        }
        self.line_ = self._plot_line(np.arange(1, m + 1), self.cumulative_mass, kwargs, **style)
        height = float(self.cumulative_mass[self.n_half - 1])
        self.half_ = self._plot_marker(self.n_half, height, self._describe_half())
        self._show_counts(log=m > LOG_RANKS)
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("number of hypotheses, heaviest first")
        ax.set_ylabel("cumulative posterior mass")
        # If n_half is above the square root of m, the curve rises in the right half of a logarithmic axis.
        rises_late = m > LOG_RANKS and self.n_half**2 > m
        self.legend_ = ax.legend(loc="upper left" if rises_late else "lower right")
