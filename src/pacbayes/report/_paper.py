"""The page of the reproduction: one HTML file with all findings, tables and figures in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pacbayes.paper.figures import FIGURES, datasets_of, panels
from pacbayes.paper.tables import BASELINE_LOSS, TITLES
from pacbayes.report._html import Table, render

# Experiments by name, with what the paper shows of them.
_EXPERIMENTS = {
    "baseline": "the cross-validated SVM that everything is compared with",
    "accuracy": "figures heatmap_kernel and appheatmap",
    "runtime": "figures runtime_kernel and appruntime",
    "weighting": "figures appprediction and appprediction_max",
    "quasiconvexity": "table quasiconvexity",
    "f_lambda": "figure f_lambda_convex",
    "validation": "figure direct_vs_validate",
    "comparison": "figure mjv-vs-rnd and table 50-pcnt",
}

# Text, class and symbol: the badge of a finding is never colour alone.
_BADGES = {
    True: {"text": "holds", "name": "holds", "symbol": "✓"},
    False: {"text": "does not hold", "name": "fails", "symbol": "✗"},
    None: {"text": "not measured", "name": "open", "symbol": "?"},
}


@dataclass(frozen=True)
class Finding:
    """What the results say about one claim of the paper.

    Attributes
    ----------
    claim : str
        The claim.
    holds : bool or None
        Whether it holds; None if it was not measured.
    sentence : str
        What was measured.
    """

    claim: str
    holds: bool | None
    sentence: str


def paper_page(
    records: Sequence[Mapping[str, Any]],
    *,
    settings: Mapping[str, str],
    versions: Mapping[str, str],
    findings: Sequence[Finding],
    tables: Sequence[Table],
    quick: bool,
) -> str:
    """Page of the reproduction: findings, tables, figures, and what it takes to get them again.

    Parameters
    ----------
    records : sequence of mapping
        Finished units of work, see `pacbayes.paper.figures`. Any may be missing; the page says which.
    settings : mapping of str to str
        Settings of the run. The entry "command", if there is one, is shown as the way to reproduce the page.
    versions : mapping of str to str
        Versions of the software, and what else is needed to understand the times: machine, number of cores.
    findings : sequence of Finding
        The paper's claims and what became of them.
    tables : sequence of Table
        Tables to show.
    quick : bool
        Whether this was the quick run, on smaller data than the paper's.

    Returns
    -------
    str
        HTML without scripts and without references to other files. The same arguments give the same page.
    """
    shown = [
        {
            "name": name,
            "figure": figure,
            "panels": [(panel.description, panel.svg) for panel in panels(name, records)],
        }
        for name, figure in FIGURES.items()
    ]
    return render(
        "paper.html.jinja",
        quick=quick,
        summary=_summary(records, findings),
        missing=_missing(records, quick),
        findings=[(finding, _BADGES[finding.holds]) for finding in findings],
        tables=tables,
        figures=shown,
        command=settings.get("command", "pacbayes paper --quick" if quick else "pacbayes paper"),
        settings={name: value for name, value in settings.items() if name != "command"},
        versions=versions,
    )


def _summary(records: Sequence[Mapping[str, Any]], findings: Sequence[Finding]) -> str:
    """How many claims hold, and from what."""
    said = "No claims were checked."
    if findings:
        hold, fail, unmeasured = (sum(f.holds is verdict for f in findings) for verdict in (True, False, None))
        rest = [f"{fail} {'does' if fail == 1 else 'do'} not"] if fail else []
        rest += [f"{unmeasured} {'was' if unmeasured == 1 else 'were'} not measured"] if unmeasured else []
        claims = "claim" if len(findings) == 1 else "claims"
        said = f"Of {len(findings)} {claims} of the paper, {hold} {'holds' if hold == 1 else 'hold'}"
        said += f" ({', '.join(rest)})." if rest else "."
    datasets = len(datasets_of(records))
    splits = len({record["split"] for record in records})
    work = _duration(sum(float(record["seconds"]) for record in records))
    said += (
        f" The results come from {_count(datasets, 'dataset')} and {_count(splits, 'random split')} of the data into "
    )
    return f"{said}training and test set, in {_count(len(records), 'unit')} of work that took {work} altogether."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _duration(seconds: float) -> str:
    """Length of time in the unit that suits it.

    Examples
    --------
    >>> _duration(0.04), _duration(42), _duration(600), _duration(9000)
    ('0.04 seconds', '42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.3g} seconds" if seconds < 100 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _missing(records: Sequence[Mapping[str, Any]], quick: bool) -> list[str]:
    """Say which experiments and datasets there are no records of. The quick run makes do with some datasets."""
    expected = list(dict.fromkeys([*([] if quick else BASELINE_LOSS), *datasets_of(records)]))
    absent = [name for name in expected if name not in datasets_of(records)]
    said = [f"{TITLES[name]}: nothing was run on this dataset." for name in absent]
    for experiment, shows in _EXPERIMENTS.items():
        have = datasets_of(records, experiment)
        lacking = [TITLES.get(name, name) for name in expected if name not in have and name not in absent]
        if not have:
            said.append(f"{experiment} ({shows}): not run.")
        elif lacking:
            said.append(f"{experiment} ({shows}): not run on {', '.join(lacking)}.")
    return said
