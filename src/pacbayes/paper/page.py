"""The page of the reproduction: one HTML file with all findings, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pacbayes._formatting import format_count
from pacbayes._versions import collect_versions
from pacbayes.paper.experiments import EXPERIMENTS
from pacbayes.paper.figures import FIGURES, draw_panels, save_figures
from pacbayes.paper.findings import PaperFinding, check_claims, make_tables
from pacbayes.paper.records import Record, Results, dataset_title
from pacbayes.paper.runner import Plan, Store
from pacbayes.paper.tables import PAPER_DATASETS
from pacbayes.report import PageTable, render_page, write_page

__all__ = ["paper_page", "write_results"]

# Text, class and symbol: the verdict is never shown by colour alone.
_BADGES = {
    True: {"text": "holds", "name": "holds", "symbol": "✓"},
    False: {"text": "does not hold", "name": "fails", "symbol": "✗"},
    None: {"text": "not measured", "name": "open", "symbol": "?"},
}


def write_results(plan: Plan, store: Store) -> Path:
    """Write the figures of a run as files to the folder of its store, and its page; return the page's path."""
    records = [r for r in store.records if r["experiment"] in plan.experiments and r["dataset"] in plan.datasets]
    save_figures(records, store.folder / "figures")
    settings = {name: str(value) for name, value in store.settings.items() if name != "sizes"}
    for name, sizes in store.settings["sizes"].items():
        settings[f"|S| and |T| of {name}"] = f"{sizes['train']} and {sizes['test']}"
    html = paper_page(
        records,
        settings=settings,
        versions=collect_versions(),
        findings=check_claims(records),
        tables=make_tables(records),
        quick=plan.quick,
    )
    return write_page(store.folder / "index.html", html)


def paper_page(
    records: Sequence[Record],
    *,
    settings: Mapping[str, str],
    versions: Mapping[str, str],
    findings: Sequence[PaperFinding],
    tables: Sequence[PageTable],
    quick: bool,
) -> str:
    """Render the page of the reproduction: findings, tables, figures, and how to reproduce them.

    Any of the records may be missing; the page says which. The entry "command" of the settings is shown as the way to
    reproduce the page. The HTML has no scripts and no references to other files, and depends on the arguments only.
    """
    figures = [
        {"name": name, "figure": figure, "panels": draw_panels(name, records)} for name, figure in FIGURES.items()
    ]
    return render_page(
        "paper.html.jinja",
        package=__package__,
        quick=quick,
        summary=_summarize(records, findings),
        missing=_list_missing(records, quick),
        findings=[(finding, _BADGES[finding.holds]) for finding in findings],
        tables=tables,
        figures=figures,
        command=settings.get("command", "pacbayes paper --quick" if quick else "pacbayes paper"),
        settings={name: value for name, value in settings.items() if name != "command"},
        versions=versions,
    )


def _summarize(records: Sequence[Record], findings: Sequence[PaperFinding]) -> str:
    """Say how many claims hold, and on how many results that rests."""
    summary = "No claims were checked."
    if findings:
        hold, fail, unmeasured = (sum(f.holds is verdict for f in findings) for verdict in (True, False, None))
        rest = [f"{fail} {'does' if fail == 1 else 'do'} not"] if fail else []
        rest += [f"{unmeasured} {'was' if unmeasured == 1 else 'were'} not measured"] if unmeasured else []
        summary = f"Of {format_count(len(findings), 'claim')} of the paper, {hold} {'holds' if hold == 1 else 'hold'}"
        summary += f" ({', '.join(rest)})." if rest else "."
    datasets = format_count(len(Results(records).datasets()), "dataset")
    splits = format_count(len({record["split"] for record in records}), "random split")
    duration = _format_duration(sum(float(record["seconds"]) for record in records))
    return (
        f"{summary} The results come from {datasets} and {splits} of the data into training and test set, in "
        f"{format_count(len(records), 'unit')} of work that took {duration} altogether."
    )


def _format_duration(seconds: float) -> str:
    """Format a length of time in seconds, minutes or hours.

    >>> _format_duration(0.04), _format_duration(42), _format_duration(600), _format_duration(9000)
    ('0.04 seconds', '42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.3g} seconds" if seconds < 100 else f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _list_missing(records: Sequence[Record], quick: bool) -> list[str]:
    """Say which experiments and datasets have no records. The quick run is not expected to use the paper's datasets."""
    results = Results(records)
    found = results.datasets()
    expected = list(dict.fromkeys([*([] if quick else PAPER_DATASETS), *found]))
    missing = [f"{dataset_title(name)}: nothing was run on this dataset." for name in expected if name not in found]
    for name, experiment in EXPERIMENTS.items():
        measured = results.datasets(name)
        lacking = [dataset_title(dataset) for dataset in found if dataset not in measured]
        if lacking or not measured:
            where = f" on {', '.join(lacking)}" if measured else ""
            missing.append(f"{name} ({experiment.shown_in}): not run{where}.")
    return missing
