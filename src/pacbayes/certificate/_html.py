"""A certificate as an HTML fragment, for notebooks. Colours are the notebook's, light or dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pacbayes._formatting import escape_control

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

__all__ = ["render"]

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
.pacbayes-certificate dl { margin: 0.4rem 0 0.6rem; }
.pacbayes-certificate dl > div { display: grid; grid-template-columns: 14rem 1fr; }
.pacbayes-certificate dt { opacity: 0.75; font-weight: 400; }
.pacbayes-certificate dd { margin: 0; }
.pacbayes-certificate ul { margin: 0.2rem 0 0; padding-left: 1.3rem; }
.pacbayes-certificate details { margin: 0 0 0.6rem; }
.pacbayes-certificate summary { cursor: pointer; }
"""


def render(certificate: Certificate) -> str:
    """Return an element that brings its own style."""
    table = "".join(
        f'<tr><td>{_text(row.label)}</td><td class="number">{_text(row.shown)}</td><td>{_text(row.predictor)}</td></tr>'
        for row in certificate.rows()
    )
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in certificate.figures().items()
    )
    assumptions = "".join(f"<li>{_text(line)}</li>" for line in certificate.assumptions)
    strict = "Strict" if certificate.strict else "<strong>NOT STRICT</strong>"
    return (
        f'<div class="pacbayes-certificate{"" if certificate.strict else " not-strict"}"><style>{_STYLE}</style>'
        f'<p class="proved">{_text(certificate.summary())}</p>'
        f"{_answers(certificate)}{_by_class(certificate)}"
        '<div class="scroll"><table><thead><tr><th>Loss or bound</th><th class="number">Value</th><th>Whose loss</th>'
        f"</tr></thead><tbody>{table}</tbody></table></div>"
        f"<details><summary>The figures behind it</summary><dl>{facts}</dl></details>"
        f"<p>{strict}, assuming that:</p><ul>{assumptions}</ul></div>"
    )


def _answers(certificate: Certificate) -> str:
    """Return what `predict` does beside what it compares with."""
    cells = [
        [_text(words) for words in (answer.title, answer.value, answer.remark)] for answer in certificate.answers()
    ]
    rows = "".join(
        f'<tr><td>{who}</td><td class="number">{value}</td><td>{what}</td></tr>' for who, value, what in cells
    )
    beaten = certificate.compare_with_commonest()
    remark = "" if beaten is None else f"<p><strong>{_text(beaten)}</strong></p>"
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>{remark}'


def _by_class(certificate: Certificate) -> str:
    """Return errors by class, folded away."""
    table = certificate.class_table(_MOST_PREDICTED)
    if table is None:
        return ""
    head, *body = (
        "".join(f"<{tag}{' class=number' if k else ''}>{_text(cell)}</{tag}>" for k, cell in enumerate(row))
        for tag, row in [("th", table.header), *(("td", row) for row in table.rows)]
    )
    rows = "".join(f"<tr>{row}</tr>" for row in body)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    return (
        f"<details><summary>{_text(table.title)}</summary>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<ul>{notes}</ul></details>"
    )


def _text(value: str) -> str:
    return escape(escape_control(value))
