"""What the pages share: templates, the style sheet, tables, and how a page is written."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pacbayes.io.atomic import write_atomic


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes
    ----------
    name : str
        Its name in the paper, or one of ours.
    title : str
        What it shows.
    header : list of str
        Names of the columns. The first column names the rows.
    rows : list of list of str
        Cells.
    note : str
        How to read it.
    """

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    note: str

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which are aligned at the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        # The first letter or digit, if there is one, is a digit: 0.06 ± 0.01, > 2000, a dash.
        return [all(re.match(r"\W*(\d|$)", cell) for cell in column) for column in columns]


def render(template: str, **values: Any) -> str:
    """Fill a template of this package. Everything is escaped but what the template calls safe.

    Parameters
    ----------
    template : str
        Its file name.
    **values
        What it shows.

    Returns
    -------
    str
        HTML.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html: str = environment.get_template(template).render(style=_text("style.css"), **values)
    return html


def _text(name: str) -> str:
    return files("pacbayes.report").joinpath(name).read_text(encoding="utf-8")


def write_page(path: str | os.PathLike[str], html: str) -> Path:
    """Write a page under a temporary name and rename it, so that nobody sees half of it."""
    write_atomic({Path(path): html.encode("utf-8")})
    return Path(path)
