"""Plot the mass of a posterior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._formatting import format_nearest, format_percent
from pacbayes._validation import Array, loss_vector
from pacbayes.bounds.prior import posterior_weights
from pacbayes.certificate import name_family
from pacbayes.display._base import BLACK, BLUE, FAMILY_COLORS, RED, Display
from pacbayes.display.checks import check_fitted
from pacbayes.votes import count_half_mass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

Kind = Literal["mass", "cumulative"]


@dataclass(eq=False, repr=False)
class PosteriorDisplay(Display):
    r"""Plot of the mass of a posterior: against validation loss, or cumulated by rank.

    Use `from_estimator` or `from_posterior`.

    Parameters
    ----------
    losses, mass : ndarray of shape (k,)
        Distinct validation losses, increasing, and the posterior mass of all hypotheses with each of them.
    cumulative_mass : ndarray of shape (m,)
        Mass of the heaviest hypothesis, of the two heaviest, and so on.
    n_half : int
        Smallest number of heaviest hypotheses that hold at least half of the mass.
    loss : float
        Validation loss of the posterior, :math:`E_\rho[\hat L]`.
    families : dict of str to tuple of ndarray
        Parts of `mass` and of `cumulative_mass` that each of several families of hypotheses has, by its name.

    Attributes
    ----------
    line_ : Line2D
        Points of the mass of each loss, or the line of the cumulative mass.
    stems_, loss_ : LineCollection, Line2D or None
        Lines from zero to the mass of each loss, and the line at `loss`; None for ``kind="cumulative"``. Where there
        are families, the lines are theirs.
    families_ : dict of str to LineCollection or FillBetweenPolyCollection
        What each family adds, in its colour: its part of every stem, or of the area below the line.
    half_ : Line2D or None
        Marker of the hypotheses that hold half of the mass; None for ``kind="mass"``.

    Examples
    --------
    >>> from pacbayes.display import PosteriorDisplay
    >>> display = PosteriorDisplay.from_posterior([0.4, 0.2, 0.2, 0.2], [0.1, 0.2, 0.2, 0.3], kind="cumulative")
    >>> display.losses.tolist(), display.mass.tolist(), display.n_half
    ([0.1, 0.2, 0.3], [0.4, 0.4, 0.2], 2)
    """

    _KINDS = ("mass", "cumulative")

    losses: Array
    mass: Array
    cumulative_mass: Array
    _: KW_ONLY
    n_half: int
    loss: float
    families: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    @classmethod
    def from_posterior(
        cls,
        rho: ArrayLike,
        losses: ArrayLike,
        *,
        families: Mapping[str, Sequence[int]] | None = None,
        kind: Kind = "mass",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PosteriorDisplay:
        """Plot a posterior over hypotheses with known losses.

        Parameters
        ----------
        rho : array_like of shape (m,)
            Posterior weights, summing to one.
        losses : array_like of shape (m,)
            Empirical losses in [0, 1].
        families : mapping of str to sequence of int, optional
            Which hypotheses are of which family, to be told apart by colours.
        kind : {"mass", "cumulative"}, default="mass"
            Mass against loss, summed over equal losses; or the mass of the heaviest hypotheses against their number.
        ax, **kwargs
            As in `plot`.
        """
        loss_array = loss_vector("losses", losses)
        weights = posterior_weights(rho, loss_array.size, tolerance=1e-6)
        values, group = np.unique(loss_array, return_inverse=True)
        mass = np.bincount(group, weights).astype(np.float64)
        order = np.argsort(-weights, kind="stable")
        cumulative = np.cumsum(weights[order])
        parts = {}
        for name, members in (families or {}).items():
            own = np.where(np.isin(np.arange(weights.size), members), weights, 0.0)
            parts[name] = np.bincount(group, own).astype(np.float64), np.cumsum(own[order])
        n_half, loss = count_half_mass(weights), float(weights @ loss_array)
        display = cls(values, mass, cumulative, n_half=n_half, loss=loss, families=parts)
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, kind: Kind = "mass", ax: Axes | None = None, **kwargs: Any
    ) -> PosteriorDisplay:
        """Plot the posterior of a classifier, over the hypotheses that were validated in full.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        kind, ax, **kwargs
            As in `from_posterior`.
        """
        model = check_fitted(estimator)
        validated = np.flatnonzero(~np.isnan(model.losses_))
        families = model.subsamples_.families if len(model.certificate_.families) > 1 else {}
        places = {name: np.flatnonzero(np.isin(validated, own)).tolist() for name, own in families.items()}
        rho, losses = model.posterior_[validated], model.losses_[validated]
        return cls.from_posterior(rho, losses, families=places, kind=kind, ax=ax, **kwargs)

    def _draw(self, ax: Axes, *, kind: Kind = "mass", **kwargs: Any) -> None:
        self.stems_: LineCollection | None = None
        self.loss_: Line2D | None = None
        self.half_: Line2D | None = None
        self.families_: dict[str, Any] = {}
        holds = "holds" if self.n_half == 1 else "hold"
        half = f"{self.n_half:,} of {self.cumulative_mass.size:,} {holds} half of the mass"
        draw = self._draw_mass if kind == "mass" else self._draw_cumulative
        draw(ax, half, kwargs)

    def _stack_families(self, part: int) -> Iterator[tuple[str, str, str, Array, Array]]:
        """Yield name, words and colour of each family, and where its part of the mass begins and ends."""
        bottom = np.zeros(1)
        for k, (name, masses) in enumerate(self.families.items()):
            label = f"{name_family(name)}: {format_percent(min(float(masses[1][-1]), 1.0))}"
            top = bottom + masses[part]
            yield name, label, FAMILY_COLORS[k % len(FAMILY_COLORS)], np.broadcast_to(bottom, top.shape), top
            bottom = top

    def _draw_mass(self, ax: Axes, half: str, kwargs: dict[str, Any]) -> None:
        grouped = self.losses.size < self.cumulative_mass.size
        label = r"mass $\rho(h)$" + (" of all hypotheses with this loss" if grouped else "")
        color, size = (BLACK, 3) if self.families else (BLUE, 4)
        style = {"color": color, "linestyle": "none", "marker": "o", "markersize": size, "label": label}
        self.line_ = self._plot_line(self.losses, self.mass, kwargs, **style)
        if not self.families:
            self.stems_ = ax.vlines(self.losses, 0, self.mass, colors=self.line_.get_color(), linewidth=1)
        thick: dict[str, Any] = {"linewidth": 3, "zorder": 1.5}
        for name, label, color, low, high in self._stack_families(0):
            drawn = self.families[name][0] > 0
            ends = low[drawn], high[drawn]
            self.families_[name] = ax.vlines(self.losses[drawn], *ends, colors=color, label=label, **thick)
        label = rf"validation loss $E_\rho[\hat L]$ = {format_nearest(self.loss)}"
        self.loss_ = ax.axvline(self.loss, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=label)
        ax.set(xlabel="validation loss of a hypothesis", ylabel="posterior mass")
        # "best" is slow with many points. A posterior has its mass on the left, so there is room on the right.
        self.legend_ = ax.legend(title=half, loc="best" if self.losses.size < 5000 else "upper right")

    def _draw_cumulative(self, ax: Axes, half: str, kwargs: dict[str, Any]) -> None:
        m = self.cumulative_mass.size
        color = BLACK if self.families else BLUE
        style = {"color": color, "linewidth": 2, "drawstyle": "steps-post", "label": "mass of the heaviest hypotheses"}
        is_log = self._show_counts(1, m)
        style |= {"marker": "none" if is_log else "o", "markersize": 4}
        ranks = np.arange(1, m + 1)
        self.line_ = self._plot_line(ranks, self.cumulative_mass, kwargs, **style)
        area: dict[str, Any] = {"step": "post", "alpha": 0.6, "linewidth": 0, "zorder": 0.5}
        for name, label, color, low, high in self._stack_families(1):
            self.families_[name] = ax.fill_between(ranks, low, high, color=color, label=label, **area)
        self.half_ = self._plot_marker(self.n_half, float(self.cumulative_mass[self.n_half - 1]), half)
        ax.set(ylim=(0, 1.05), xlabel="number of hypotheses, heaviest first", ylabel="cumulative posterior mass")
        if self.families:  # the area leaves no room
            self.legend_ = ax.legend(loc="upper left", bbox_to_anchor=(0, -0.15), ncols=2)
            return
        # If n_half is above the square root of m, the curve rises in the right half of a logarithmic axis.
        self.legend_ = ax.legend(loc="upper left" if is_log and self.n_half**2 > m else "lower right")
