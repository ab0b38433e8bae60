"""A certificate as an HTML fragment, for notebooks. Colours are the notebook's, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pacbayes._formatting import escape_control

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate
    from pacbayes.certificate._words import Section

# Classes up to which the confusion matrix is part of the table.
_MOST_PREDICTED = 12

_STYLE = """
.pacbayes-certificate { max-width: 48rem; margin: 0.5rem 0; padding: 0.8rem 1.1rem; border: 1px solid #8886;
  border-left: 5px solid #0072b2; border-radius: 6px; font-family: system-ui, sans-serif; line-height: 1.5; }
.pacbayes-certificate.not-strict { border-left-color: #d55e00; }
.pacbayes-certificate p { margin: 0 0 0.6rem; }
.pacbayes-certificate .proved { font-size: 1.08em; font-weight: 600; }
.pacbayes-certificate .scroll { max-width: 100%; margin: 0 0 0.6rem; overflow-x: auto; }
.pacbayes-certificate table { margin: 0; border-collapse: collapse; font-variant-numeric: tabular-nums; }
.pacbayes-certificate th, .pacbayes-certificate td { padding: 0.15rem 1.2rem 0.15rem 0; text-align: left;
  font-weight: 400; background: none; }
.pacbayes-certificate thead th { border-bottom: 1px solid #8886; opacity: 0.75; }
.pacbayes-certificate .number { text-align: right; }
.pacbayes-certificate ul { margin: 0.2rem 0 0; padding-left: 1.3rem; }
.pacbayes-certificate details { margin: 0 0 0.6rem; }
.pacbayes-certificate summary { cursor: pointer; }
"""


def render(certificate: Certificate) -> str:
    """Return an element that brings its own style."""
    proved, *others = certificate.sections(most_predicted=_MOST_PREDICTED)
    # The assumptions, which come last, are to be read by all.
    parts = "".join(
        f"<details{' open' if section is others[-1] else ''}><summary>{_text(section.title)}</summary>"
        f"{_render(section)}</details>"
        for section in others
    )
    return (
        f'<div class="pacbayes-certificate{"" if certificate.strict else " not-strict"}"><style>{_STYLE}</style>'
        f'<p class="proved">{_text(proved.title)}</p>{_render(proved)}{parts}</div>'
    )


def _render(section: Section) -> str:
    """Return warnings, the table and notes of a section."""
    warnings = "".join(f"<p><strong>{_text(line)}</strong></p>" for line in section.warnings)
    numeric = section.numeric
    head = f"<thead>{_render_row(section.header, 'th', numeric)}</thead>" if section.header else ""
    body = "".join(_render_row(row, "td", numeric) for row in section.rows)
    table = f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>' if section.rows else ""
    notes = "".join(f"<li>{_text(note)}</li>" for note in section.notes)
    return f"{warnings}{table}{f'<ul>{notes}</ul>' if notes else ''}"


def _render_row(cells: Sequence[str], tag: str, numeric: Sequence[bool]) -> str:
    kinds = (f'{tag} class="number"' if number else tag for number in numeric)
    return f"<tr>{''.join(f'<{kind}>{_text(cell)}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))}</tr>"


def _text(value: str) -> str:
    return escape(escape_control(value))
