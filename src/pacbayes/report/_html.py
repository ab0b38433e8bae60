"""Render HTML pages from templates, and write them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacbayes._atomic import write_atomic


@dataclass(frozen=True)
class PageTable:
    """A table of results.

    Attributes
    ----------
    name, title : str
        Name, unique on a page, and title.
    header : list of str
        Names of the columns. The first column names the rows.
    rows : list of list of str
        Cells.
    note : str
        Explanation of the table.
    """

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    note: str


def render_page(template: str, *, package: str = "pacbayes.report", **values: Any) -> str:
    """Render a page from a template, which may extend and import the templates of `pacbayes.report`.

    Parameters
    ----------
    template : str
        File name of the template.
    package : str, default="pacbayes.report"
        Package that the template is a resource of.
    **values
        Variables of the template. They are escaped unless the template marks them as safe.

    Returns
    -------
    str
        HTML.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, "") for name in (package, "pacbayes.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"capital": capitalize, "numeric": _find_numeric, "python": repr}
    environment.tests["words"] = lambda value: isinstance(value, list | tuple)
    html: str = environment.get_template(template).render(**values)
    return html


def capitalize(text: str) -> str:
    """Return a text with a capital at its beginning, and the rest as it is."""
    return f"{text[:1].upper()}{text[1:]}"


def _find_numeric(table: Any) -> list[bool]:
    """Return whether each column of a table holds numbers, which are aligned at the right."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    # The first letter or digit, if there is one, is a digit: 0.06 ± 0.01, > 2000, a dash.
    return [all(re.match(r"\W*(\d|$)", cell) for cell in column) for column in columns]


def write_page(path: str | os.PathLike[str], html: str) -> Path:
    """Write a page, or replace it, and return its path. A reader never finds part of a page."""
    write_atomic({Path(path): html.encode("utf-8")})
    return Path(path)
