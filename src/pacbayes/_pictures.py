"""Pictures for pages: one style, and SVG elements that can stand in a page among others.

Matplotlib is imported where it is used, and its global state is left as it was.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    # Text can be read, searched and copied; layout assumes a font that is wider than what stands in for it.
    "svg.fonttype": "none",
    "svg.hashsalt": "pacbayes",
}


@contextmanager
def page_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw in the style of the pages, whatever settings the user has, and leave those as they were.

    Parameters
    ----------
    changes : mapping, optional
        Settings of Matplotlib to draw with instead of the style's.
    """
    import matplotlib.style

    with matplotlib.style.context(["default", {**_STYLE, **(changes or {})}]):
        yield


def svg_element(figure: Figure, prefix: str) -> str:
    """Picture as an element that can stand in a page among others: no date, no style sheet, ids of its own.

    Parameters
    ----------
    figure : Figure
        What to draw. Call this in the same `page_style` that it was made in.
    prefix : str
        What the ids of the picture begin with, on this page only.

    Returns
    -------
    str
        An ``<svg>`` element. The same figure gives the same element, to the byte.
    """
    content = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(content, format="svg", metadata=nothing, transparent=True)
    element = content.getvalue()
    element = element[element.index("<svg") :].strip()
    # Matplotlib's rule for all elements would reach beyond the picture.
    element = re.sub(r"<style type=\"text/css\">.*?</style>", "", element, count=1, flags=re.DOTALL)
    # Within tags only: text may say anything.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r'(?<=\sid=")|(?<=href="#)|(?<=url\(#)', prefix, tag[0]), element)
