"""Figures for HTML pages: one style, and SVG elements that can be embedded in a page together.

Matplotlib is imported when something is drawn, and its global settings are left unchanged.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["page_style", "svg_element"]

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
    # Text stays text, to be searched and copied. The layout assumes a font that is wider than those of browsers.
    "svg.fonttype": "none",
    "svg.hashsalt": "pacbayes",
}


@contextmanager
def page_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Use the style of the pages inside a ``with`` block, whatever the user's settings of Matplotlib are."""
    import matplotlib.style

    with matplotlib.style.context(["default", {**_STYLE, **(changes or {})}]):
        yield


def svg_element(figure: Figure, prefix: str) -> str:
    """Render a figure as an ``<svg>`` element that can be embedded in a page together with others.

    Call this in the same `page_style` that the figure was made in. `prefix` begins all ids in the element and is to be
    unique on the page. Without a date and a style sheet, the same figure gives the same bytes.
    """
    content = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(content, format="svg", metadata=no_metadata, transparent=True)
    element = content.getvalue()
    element = element[element.index("<svg") :].strip()
    # Matplotlib's style rule for all elements would also apply to the rest of the page.
    element = re.sub(r"<style type=\"text/css\">.*?</style>", "", element, count=1, flags=re.DOTALL)
    # Within tags only: text is arbitrary.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r'(?<=\sid=")|(?<=href="#)|(?<=url\(#)', prefix, tag[0]), element)
