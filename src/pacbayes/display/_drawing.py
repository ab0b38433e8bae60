"""Colours, axes and line styles that the displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can tell apart. Dashes and markers differ as well, for greyscale.
BLACK, BLUE, RED, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
GREY, LIGHT_GREY, SHADE = "#666666", "#bbbbbb", "#d0e3f1"

# Numbers of hypotheses that differ by more than this factor are drawn on a logarithmic axis.
LOG_RANKS = 20


def require_matplotlib(display: type) -> None:
    """Raise ImportError, naming what to install, if Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{display.__name__} needs Matplotlib: pip install "pacbayes[plots]"') from error


def get_axes(display: object, ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """Return the given axes, or those of a new figure."""
    require_matplotlib(type(display))
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def mark_not_strict(ax: Axes, bounds: str, pad: float | None = None) -> None:
    """Say above the axes that the theorem does not cover the bounds."""
    ax.set_title(f"NOT STRICT: the theorem does not cover {bounds}", loc="left", fontsize="medium", pad=pad)


def merge_line_style(style: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a line with those that the user gave, under any of their names, in place of ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**style, **normalize_kwargs(given, Line2D)}


def format_count_axis(ax: Axes, *, log: bool) -> None:
    """Show whole numbers on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
