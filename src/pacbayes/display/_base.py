"""What the displays share: colours, axes, lines, and the classifier and the test points that they are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

# Okabe and Ito's colours, which colour-blind readers can tell apart. Dashes and markers differ as well, for greyscale.
BLACK, BLUE, RED, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
GREY, LIGHT_GREY, SHADE = "#666666", "#bbbbbb", "#d0e3f1"

# Numbers of hypotheses that differ by more than this factor are drawn on a logarithmic axis.
LOG_RANKS = 20


@dataclass(eq=False, repr=False)
class Display:
    """Base class: what is to be drawn, and the axes that it was drawn on."""

    ax_: Axes = field(init=False)
    figure_: Figure | SubFigure = field(init=False)

    @classmethod
    def _require_matplotlib(cls) -> None:
        try:
            import matplotlib  # noqa: F401
        except ImportError as error:
            raise ImportError(f'{cls.__name__} needs Matplotlib: pip install "pacbayes[plots]"') from error

    def _start(self, ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
        """Take the given axes, or those of a new figure."""
        self._require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=figsize, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _plot_line(self, x: Any, y: Any, given: dict[str, Any], **style: Any) -> Line2D:
        """Plot a line, with properties that the user gave, under any of their names, in place of ours."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        return self.ax_.plot(x, y, **{**style, **normalize_kwargs(given, Line2D)})[0]

    def _plot_marker(self, x: float, y: float, label: str, *, marker: str = "o", color: str = RED) -> Line2D:
        """Mark a point of a curve."""
        style: dict[str, Any] = {"linestyle": "none", "markersize": 8, "markeredgecolor": BLACK, "clip_on": False}
        return self.ax_.plot([x], [y], label=label, marker=marker, color=color, zorder=3, **style)[0]

    def _show_counts(self, *, log: bool) -> None:
        """Show whole numbers on the horizontal axis."""
        from matplotlib.ticker import MaxNLocator

        if log:
            self.ax_.set_xscale("log")
            self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        else:
            self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True))

    def _mark_not_strict(self, bounds: str, pad: float | None = None) -> None:
        """Say above the axes that the theorem does not cover the bounds."""
        title = f"NOT STRICT: the theorem does not cover {bounds}"
        self.ax_.set_title(title, loc="left", fontsize="medium", pad=pad)
