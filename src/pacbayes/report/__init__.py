"""Self-contained HTML pages: one for the reproduction of the paper."""

from pacbayes.report._page import Finding, Table, paper_page, write_page

__all__ = ["Finding", "Table", "paper_page", "write_page"]
