"""Self-contained HTML pages: the page of a fit, and what other pages share with it."""

from pacbayes.report._fit import fit_page
from pacbayes.report._html import PageTable, render_page, write_page

__all__ = ["PageTable", "fit_page", "render_page", "write_page"]
