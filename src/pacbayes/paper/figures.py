"""The figures of the paper, drawn from the records of its experiments.

Figures have the names of the labels in the paper's source; those of the appendix that continue another one are part of
it (appheatmap of heatmap_kernel, appruntime of runtime_kernel, appprediction_max of appprediction). There is one panel
for each dataset. `draw_figure` draws all panels in one figure, `draw_panels` each on its own.

Matplotlib is imported when something is drawn, and its global settings are left unchanged.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pacbayes._atomic import write_atomic
from pacbayes.display.svg import page_style, svg_element
from pacbayes.paper import _panels as panels
from pacbayes.paper._panels import LegendEntry
from pacbayes.paper.records import Record, Results, dataset_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "LegendEntry", "Panel", "PaperFigure", "draw_figure", "draw_panels", "save_figures"]

# Labels come from records: a dollar sign is a dollar sign.
_CHANGES = {"text.parse_math": False}

_PANEL_SIZE = (3.1, 2.6)
_COLUMNS = 4


class Panel(NamedTuple):
    """One panel of a figure, drawn on its own."""

    description: str  # the picture in words
    svg: str  # an ``<svg>`` element whose ids occur in no other panel


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper."""

    title: str
    source: str  # numbers of the figures in the paper
    caption: str
    experiment: str
    draw: Callable[..., str]  # ``draw(axes, results, *datasets)`` draws one panel and returns its description
    legend: tuple[LegendEntry, ...] = ()
    shared: bool = False  # whether all datasets share one panel


FIGURES: dict[str, PaperFigure] = {
    "heatmap_kernel": PaperFigure(
        "Accuracy across m and r",
        "figures 1 and 4",
        "Test loss of the rho-weighted majority vote minus that of the cross-validated SVM (CV SVM), for different "
        "numbers m of weak SVMs and r of points that each is trained on; mean over the splits. The palest cells match "
        "the cross-validated SVM to within 0.01, blue ones beat it, red ones fall behind.",
        "accuracy",
        panels.draw_accuracy,
        panels.DIFFERENCES,
    ),
    "runtime_kernel": PaperFigure(
        "Loss, bound and training time as m grows",
        "figures 2 and 5",
        "Solid lines, left axis: test loss of the cross-validated SVM (red) and of the rho-weighted majority vote "
        "(black), and the PAC-Bayes-kl bound on the randomised classifier (blue). Dashed lines, right axis, "
        "logarithmic: training time of both. Means over the splits; the bands are one standard deviation either way.",
        "runtime",
        panels.draw_runtime,
        (panels.CV_LOSS, panels.VOTE_LOSS, panels.BOUND, panels.CV_TIME, panels.VOTE_TIME),
    ),
    "appprediction": PaperFigure(
        "Weighted vote, uniform vote and best hypothesis",
        "figures 6 and 7",
        "Test loss of the rho-weighted majority vote, of the vote with equal weights, of the hypothesis with the "
        "largest weight and of the cross-validated SVM, with the PAC-Bayes-kl bound on the randomised classifier. "
        "Means over the splits; the bands are one standard deviation either way.",
        "weighting",
        panels.draw_weighting,
        (panels.CV_LOSS, panels.VOTE_LOSS, panels.UNIFORM_LOSS, panels.BEST_LOSS, panels.BOUND),
    ),
    "f_lambda_convex": PaperFigure(
        "The shape of F(lambda)",
        "figure 3",
        "The bound as a function of lambda, one curve for each split, with the lambda that alternating minimisation "
        "returns (red cross) and the proved global minimum (circle). The line above each panel counts the splits in "
        "which F is convex on the grid, and in which it is guaranteed to be quasiconvex. Steep ends of the curves are "
        "cut off.",
        "f_lambda",
        panels.draw_f_lambda,
        (panels.F_CURVE, panels.F_ALTERNATING, panels.F_GLOBAL),
    ),
    "direct_vs_validate": PaperFigure(
        "Lambda chosen by the bound and by validation",
        "figure 8",
        "Test loss of the rho-weighted majority vote with lambda from alternating minimisation of the bound (direct), "
        "and with lambda from a grid by the loss on an additional validation set (validate). Means over the splits; "
        "the bars are one standard deviation either way.",
        "validation",
        panels.draw_validation,
        (panels.DIRECT, panels.VALIDATE),
        shared=True,
    ),
    "mjv_vs_rnd": PaperFigure(
        "Vote, randomised classifier and best hypothesis at m = n",
        "figure 9",
        "Test loss of the cross-validated SVM, of the rho-weighted majority vote, of the randomised classifier and of "
        "the best weak classifier by validation loss (best h), with the PAC-Bayes-kl bound on the randomised "
        "classifier. Means over the splits; the bars are one standard deviation either way.",
        "comparison",
        panels.draw_comparison,
    ),
}


def draw_figure(name: str, records: Sequence[Record]) -> Figure:
    """Draw a figure of `FIGURES` with all its panels and its legend, from those of the records that it needs."""
    figure, results = FIGURES[name], Results(records)
    groups = _group_datasets(figure, results)
    if not groups:
        raise ValueError(f"{name} shows the experiment {figure.experiment!r}, of which there are no records")
    with page_style(_CHANGES):
        columns = min(_COLUMNS, len(groups))
        canvas, axes = _make_axes(figure, groups, columns, legend_rows=math.ceil(len(figure.legend) / columns))
        for panel, (_, datasets) in zip(axes, groups, strict=True):
            figure.draw(panel, results, *datasets)
        if figure.legend:
            handles = [entry.handle() for entry in figure.legend]
            canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
    return canvas


def draw_panels(name: str, records: Sequence[Record]) -> list[Panel]:
    """Draw the panels of a figure of `FIGURES` one by one, without its legend; none if it has no records."""
    figure, results = FIGURES[name], Results(records)
    drawn = []
    with page_style(_CHANGES):
        for number, (title, datasets) in enumerate(_group_datasets(figure, results)):
            canvas, (axes,) = _make_axes(figure, [(title, datasets)], 1)
            description = f"{title}: {figure.draw(axes, results, *datasets)}"
            drawn.append(Panel(description, svg_element(canvas, f"{name}-{number}-")))
    return drawn


def save_figures(records: Sequence[Record], folder: str | os.PathLike[str]) -> list[Path]:
    """Save every figure for which there are records as PDF and PNG, all at once, and return the files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    measured = {record["experiment"] for record in records}
    contents = {}
    for name in [name for name, figure in FIGURES.items() if figure.experiment in measured]:
        canvas = draw_figure(name, records)
        for suffix, metadata in (("pdf", {"CreationDate": None}), ("png", None)):
            content = io.BytesIO()
            with page_style(_CHANGES):
                canvas.savefig(content, format=suffix, dpi=200, metadata=metadata)
            contents[folder / f"{name}.{suffix}"] = content.getvalue()
    write_atomic(contents)
    return list(contents)


def _group_datasets(figure: PaperFigure, results: Results) -> list[tuple[str, list[str]]]:
    """Return title and datasets of each panel."""
    names = results.datasets(figure.experiment)
    if figure.shared:
        return [(figure.title, names)] if names else []
    return [(dataset_title(name), [name]) for name in names]


def _make_axes(
    figure: PaperFigure, groups: Sequence[tuple[str, Sequence[str]]], columns: int, legend_rows: int = 0
) -> tuple[Figure, list[Axes]]:
    """Make a figure with empty axes for each panel, each in a subfigure of its own."""
    from matplotlib.figure import Figure

    width, height = _PANEL_SIZE if not figure.shared else (3.9, 0.8 + 0.33 * len(groups[0][1]))
    rows = math.ceil(len(groups) / columns)
    canvas = Figure(figsize=(columns * width, rows * height + 0.22 * legend_rows), layout="constrained")
    places = list(canvas.subfigures(rows, columns, squeeze=False).flat)
    return canvas, [place.subplots() for place in places[: len(groups)]]
