"""What the displays share: colours, axes and lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pacbayes._extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# Okabe and Ito's colours, which colour-blind readers can tell apart. Dashes and markers differ as well, for greyscale.
BLACK, BLUE, RED, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
GREY, LIGHT_GREY, SHADE = "#666666", "#bbbbbb", "#d0e3f1"
FAMILY_COLORS = (BLUE, "#e69f00", GREEN, "#cc79a7", "#56b4e9", "#f0e442")

# Numbers of hypotheses that differ by more than this factor are drawn on a logarithmic axis.
_LOG_COUNTS = 20


@dataclass(eq=False, repr=False)
class Display:
    """Base class: values to draw, and the axes and figure that they were drawn on."""

    _KINDS: ClassVar[tuple[str, ...]] = ()  # what `kind` may be in `plot`

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; a new figure by default.
        **kwargs
            Properties of the lines, as in `matplotlib.lines.Line2D`, or of the bars, as in
            `matplotlib.patches.Rectangle`; for a posterior and for intervals also their `kind`.

        Returns
        -------
        Display
            This display, with `ax_`, `figure_` and, unless it has bars, `legend_`.
        """
        if "kind" in kwargs and self._KINDS and kwargs["kind"] not in self._KINDS:
            raise ValueError(f"kind must be {' or '.join(map(repr, self._KINDS))}, got {kwargs['kind']!r}")
        require("matplotlib", "plots", f"{type(self).__name__} needs")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=self._figsize, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax, **kwargs)
        return self

    @property
    def _figsize(self) -> tuple[float, float] | None:
        """Width and height of a new figure, in inches; None for Matplotlib's default."""
        return None

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        raise NotImplementedError

    def _plot_line(self, x: Any, y: Any, given: dict[str, Any], **style: Any) -> Line2D:
        """Plot a line, with properties that the user gave, under any of their names, in place of ours."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        return self.ax_.plot(x, y, **{**style, **normalize_kwargs(given, Line2D)})[0]

    def _plot_marker(self, x: float, y: float, label: str, *, marker: str = "o", color: str = RED) -> Line2D:
        """Mark a point of a curve."""
        style: dict[str, Any] = {"linestyle": "none", "markersize": 8, "markeredgecolor": BLACK, "clip_on": False}
        return self.ax_.plot([x], [y], label=label, marker=marker, color=color, zorder=3, **style)[0]

    def _show_counts(self, first: int, last: int) -> bool:
        """Show whole numbers on the horizontal axis; return whether that is logarithmic."""
        from matplotlib.ticker import MaxNLocator

        is_log = last / first > _LOG_COUNTS
        if is_log:
            self.ax_.set_xscale("log")
            self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        else:
            self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True))
        return is_log

    def _mark_not_strict(self, bounds: str, pad: float | None = None) -> None:
        """Say above the axes that the theorem does not cover the bounds."""
        self.ax_.set_title(f"NOT STRICT: the theorem does not cover {bounds}", loc="left", fontsize="medium", pad=pad)
