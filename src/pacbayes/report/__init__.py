"""Self-contained HTML pages: one for a fit, one for the reproduction of the paper."""

from pacbayes.report._certificate import certificate_html
from pacbayes.report._fit import fit_page
from pacbayes.report._html import Table, write_page
from pacbayes.report._paper import Finding, paper_page

__all__ = ["Finding", "Table", "certificate_html", "fit_page", "paper_page", "write_page"]
