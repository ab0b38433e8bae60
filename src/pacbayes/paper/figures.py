"""The figures of the paper, from the records of its experiments.

A record is one finished unit of work: a mapping with the keys "experiment", "dataset", "split", "seconds" and "result".
Each figure is a function of the same name as in the paper (figures of the appendix that continue another are part of
that one: appheatmap of `heatmap_kernel`, appruntime of `runtime_kernel`, appprediction_max of `appprediction`). It
takes all records, uses those it needs, and draws one panel for each dataset. `panels` draws them one by one.

Matplotlib is imported where it is used, and its global state is left as it was.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._pictures import page_style, svg_element
from pacbayes._validation import Array
from pacbayes.io.atomic import write_atomic
from pacbayes.paper.tables import TITLES

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as MatplotlibPath

__all__ = [
    "FIGURES",
    "Mark",
    "Panel",
    "PaperFigure",
    "appprediction",
    "datasets_of",
    "direct_vs_validate",
    "f_lambda_convex",
    "heatmap_kernel",
    "mjv_vs_rnd",
    "panels",
    "runtime_kernel",
    "save_figures",
]

Record = Mapping[str, Any]

# Okabe and Ito's colours, which colour-blind readers can tell apart. Red, black and blue are the paper's.
_RED, _BLACK, _BLUE, _GREEN, _ORANGE = "#d55e00", "#000000", "#0072b2", "#009e73", "#e69f00"
_GREY = "#555555"

# Labels come from records: a dollar sign is a dollar sign.
_CHANGES = {"text.parse_math": False}

_PANEL_SIZE = (3.1, 2.6)
_COLUMNS = 4

# Bins of loss minus baseline loss, and the diverging colours of Brewer's RdBu for them.
_EDGES = (-0.1, -0.03, -0.01, 0.01, 0.03, 0.1)
_BIN_COLOURS = ("#2166ac", "#67a9cf", "#d1e5f0", "#f7f7f7", "#fddbc7", "#ef8a62", "#b2182b")
_BIN_LABELS = (
    "below -0.10",
    "-0.10 to -0.03",
    "-0.03 to -0.01",
    "within 0.01",
    "+0.01 to +0.03",
    "+0.03 to +0.10",
    "above +0.10",
)

# Symbols of the legend as characters, and as Matplotlib calls them.
_SYMBOLS = {"●": "o", "■": "s", "○": "o", "✕": "x"}


@dataclass(frozen=True)
class Mark:
    """One entry of a legend.

    Attributes
    ----------
    label : str
        What it stands for.
    colour : str
        Its colour, as #rrggbb.
    kind : {"line", "symbol", "area"}
        A line, a single symbol or a filled area.
    dashes : tuple of float
        Lengths of dashes and gaps of a line; solid if empty.
    symbol : str
        The symbol, as a character.
    """

    label: str
    colour: str
    kind: str = "line"
    dashes: tuple[float, ...] = ()
    symbol: str = ""

    def style(self) -> dict[str, Any]:
        """Keywords of a Matplotlib line that looks like the mark."""
        if self.kind == "line":
            return {"color": self.colour, "linestyle": (0, self.dashes) if self.dashes else "-"}
        return {
            "color": self.colour,
            "linestyle": "none",
            "marker": _SYMBOLS[self.symbol],
            "markerfacecolor": "none" if self.symbol == "○" else self.colour,
            "markersize": 7 if self.symbol in "○✕" else 5,
            "markeredgewidth": 1.6 if self.symbol == "✕" else 1.2,
        }

    def artist(self) -> Artist:
        """The mark in a Matplotlib legend."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        if self.kind == "area":
            return Patch(facecolor=self.colour, edgecolor="#888888", linewidth=0.5, label=self.label)
        return Line2D([], [], label=self.label, **self.style())


@dataclass(frozen=True)
class Panel:
    """One panel of a figure, on its own.

    Attributes
    ----------
    title : str
        What it shows: a dataset, or the figure's title if all datasets share the panel.
    description : str
        What there is to see, in words.
    svg : str
        The picture: an ``<svg>`` element whose ids are found in no other panel.
    """

    title: str
    description: str
    svg: str


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes
    ----------
    title : str
        What it shows, in a few words.
    caption : str
        How to read it.
    draw : callable
        Function of the records that draws it.
    experiment : str
        Experiment that it shows.
    panel : callable
        Function that draws one panel on given axes and returns its description.
    key : tuple of Mark
        Its legend.
    shared : bool
        Whether all datasets share one panel.
    """

    title: str
    caption: str
    draw: Callable[[Sequence[Record]], Figure]
    experiment: str
    panel: Callable[[Axes, Sequence[Record]], str]
    key: tuple[Mark, ...] = ()
    shared: bool = False


def heatmap_kernel(records: Sequence[Record]) -> Figure:
    """Draw figures heatmap_kernel and appheatmap: accuracy across m and r, against the cross-validated SVM."""
    return _draw("heatmap_kernel", records)


def runtime_kernel(records: Sequence[Record]) -> Figure:
    """Draw figures runtime_kernel and appruntime: losses, bound and training time as functions of m."""
    return _draw("runtime_kernel", records)


def appprediction(records: Sequence[Record]) -> Figure:
    """Draw figures appprediction and appprediction_max: weighted vote, uniform vote and best hypothesis."""
    return _draw("appprediction", records)


def f_lambda_convex(records: Sequence[Record]) -> Figure:
    """Draw figure f_lambda_convex: the shape of F(lambda)."""
    return _draw("f_lambda_convex", records)


def direct_vs_validate(records: Sequence[Record]) -> Figure:
    """Draw figure direct_vs_validate: lambda by alternating minimisation, and by validation."""
    return _draw("direct_vs_validate", records)


def mjv_vs_rnd(records: Sequence[Record]) -> Figure:
    """Draw figure mjv-vs-rnd: cross-validated SVM, vote, randomised classifier, best hypothesis and bound."""
    return _draw("mjv_vs_rnd", records)


def datasets_of(records: Sequence[Record], experiment: str | None = None) -> list[str]:
    """Datasets with a record of the experiment, or of any: the paper's in its order, then others by name.

    Examples
    --------
    >>> records = [{"experiment": "runtime", "dataset": name} for name in ("zoo", "skin", "mushrooms", "skin")]
    >>> datasets_of(records, "runtime"), datasets_of(records, "accuracy")
    (['mushrooms', 'skin', 'zoo'], [])
    """
    found = {record["dataset"] for record in records if experiment in (None, record["experiment"])}
    return [name for name in TITLES if name in found] + sorted(found - set(TITLES))


def panels(name: str, records: Sequence[Record]) -> list[Panel]:
    """Draw the panels of a figure one by one, without its legend.

    Parameters
    ----------
    name : str
        Name of the figure in `FIGURES`.
    records : sequence of mapping
        All records. The same records give the same panels, to the byte.

    Returns
    -------
    list of Panel
        One for each dataset, or one for all; none if there are no records of the experiment.
    """
    figure = FIGURES[name]
    drawn = []
    with page_style(_CHANGES):
        for number, (title, share) in enumerate(_shares(figure, records)):
            canvas, (axes,) = _canvas(figure, records, 1, alone=True)
            description = f"{title}: {figure.panel(axes, share)}"
            drawn.append(Panel(title, description, svg_element(canvas, f"{name}-{number}-")))
    return drawn


def save_figures(records: Sequence[Record], folder: str | os.PathLike[str]) -> list[Path]:
    """Save every figure for which there are records as PDF and PNG.

    Parameters
    ----------
    records : sequence of mapping
        All records.
    folder : path-like
        Where to; made if it is not there.

    Returns
    -------
    list of Path
        The files. They appear under their names when all are complete.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {}
    for name, figure in FIGURES.items():
        if not datasets_of(records, figure.experiment):
            continue
        canvas = figure.draw(records)
        for suffix, metadata in (("pdf", {"CreationDate": None}), ("png", None)):
            content = io.BytesIO()
            with page_style(_CHANGES):
                canvas.savefig(content, format=suffix, dpi=200, metadata=metadata)
            contents[folder / f"{name}.{suffix}"] = content.getvalue()
    write_atomic(contents)
    return list(contents)


def _draw(name: str, records: Sequence[Record]) -> Figure:
    figure = FIGURES[name]
    shares = _shares(figure, records)
    if not shares:
        raise ValueError(f"{name} shows the experiment {figure.experiment!r}, of which there are no records")
    with page_style(_CHANGES):
        canvas, axes = _canvas(figure, records, len(shares))
        for panel, (_, share) in zip(axes, shares, strict=True):
            figure.panel(panel, share)
        if figure.key:
            columns = _legend_columns(figure.key, canvas.get_figwidth())
            canvas.legend(handles=[mark.artist() for mark in figure.key], loc="outside lower center", ncols=columns)
    return canvas


def _shares(figure: PaperFigure, records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Title and records of each panel."""
    names = datasets_of(records, figure.experiment)
    if figure.shared and names:
        return [(figure.title, list(records))]
    return [(TITLES.get(name, name), [r for r in records if r["dataset"] == name]) for name in names]


def _canvas(
    figure: PaperFigure, records: Sequence[Record], count: int, *, alone: bool = False
) -> tuple[Figure, list[Axes]]:
    """Empty axes for a number of panels, with room for the legend unless a panel is to stand alone."""
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, count)
    rows = _ceil_divide(count, columns)
    width, height = _PANEL_SIZE
    if figure.shared:
        width, height = 3.9, 0.8 + 0.33 * len(datasets_of(records, figure.experiment))
    # Below the panels.
    legend = 0.0 if alone else 0.22 * _ceil_divide(len(figure.key), _legend_columns(figure.key, columns * width))
    canvas = Figure(figsize=(columns * width, rows * height + legend), layout="constrained")
    places = list(canvas.subfigures(rows, columns, squeeze=False).flat)
    return canvas, [place.subplots() for place in places[:count]]


def _legend_columns(key: Sequence[Mark], width: float) -> int:
    """Number of marks side by side in so many inches: a handle, and 0.075 inches for a letter."""
    longest = max((len(mark.label) for mark in key), default=0)
    return max(1, min(len(key), int(width / (0.7 + 0.075 * longest))))


def _ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


def _results(records: Sequence[Record], experiment: str) -> dict[int, Mapping[str, Any]]:
    """Results of an experiment by split."""
    return {r["split"]: r["result"] for r in sorted(records, key=_split) if r["experiment"] == experiment}


def _split(record: Record) -> int:
    return int(record["split"])


def _common(results: Mapping[int, Mapping[str, Any]], name: str) -> Any:
    """What all splits must agree on, such as the values of m."""
    values = [result[name] for result in results.values()]
    if any(value != values[0] for value in values):
        raise ValueError(f"splits {sorted(results)} of one dataset were run with different values of {name}")
    return values[0]


def _mean_sd(values: ArrayLike) -> tuple[Array, Array]:
    """Mean and standard deviation over splits, the first axis; no deviation for one split."""
    values = np.asarray(values, dtype=float)
    sd = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), sd


def _baseline(records: Sequence[Record], name: str = "loss") -> tuple[float, float] | None:
    """Mean and standard deviation of the cross-validated SVM, if it was run."""
    values = [result[name] for result in _results(records, "baseline").values()]
    if not values:
        return None
    mean, sd = _mean_sd(values)
    return float(mean), float(sd)


def _splits(count: int) -> str:
    return "1 split" if count == 1 else f"{count} splits"


def _name_panel(axes: Axes, records: Sequence[Record], *subtitle: str) -> None:
    """Name of the dataset above a panel, and under it what else to know, both from the panel's left border."""
    from matplotlib.transforms import blended_transform_factory

    name = str(records[0]["dataset"])
    corner = blended_transform_factory(axes.figure.transSubfigure, axes.transAxes)
    # Room is made by a blank title: text that begins left of the axes would push them to the right.
    axes.set_title("\n", fontsize=10)
    lines: list[tuple[str, float, dict[str, Any]]] = [
        (TITLES.get(name, name), 20, {"fontsize": 10, "fontweight": "bold"}),
        (", ".join(subtitle), 8, {"fontsize": 8, "color": _GREY}),
    ]
    for text, height, style in lines:
        axes.annotate(text, (0.02, 1), (0, height), corner, "offset points", in_layout=False, **style)


def _curve(axes: Axes, m: Sequence[int], values: ArrayLike, mark: Mark) -> Array:
    """Mean over splits as a line, one standard deviation either way as a band; the mean."""
    mean, sd = _mean_sd(values)
    axes.plot(m, mean, marker="" if len(m) > 1 else "o", **mark.style())
    if sd.any():
        axes.fill_between(m, np.maximum(mean - sd, 0), mean + sd, color=mark.colour, alpha=0.13, linewidth=0)
    return mean


def _heatmap(axes: Axes, records: Sequence[Record]) -> str:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    accuracy, baseline = _results(records, "accuracy"), _results(records, "baseline")
    m, r = _common(accuracy, "m"), _common(accuracy, "r")
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    axes.set_xlabel("m, hypotheses")
    axes.set_ylabel("r, points for each")
    for axis, values in ((axes.xaxis, m), (axes.yaxis, r)):
        places = np.unique(np.linspace(0, len(values) - 1, min(len(values), 5)).round().astype(int))
        axis.set_ticks(places + 0.5, [str(values[place]) for place in places])
    axes.set_xlim(0, len(m))
    axes.set_ylim(0, len(r))
    # A loss is compared with the baseline of its own split.
    both = [split for split in accuracy if split in baseline]
    if not both:
        _name_panel(axes, records, "no baseline to compare with")
        return "not shown, because the baseline has not been run."
    difference, _ = _mean_sd([np.asarray(accuracy[split]["loss"]) - baseline[split]["loss"] for split in both])
    level, _ = _mean_sd([baseline[split]["loss"] for split in both])
    _name_panel(axes, records, f"CV SVM {level:.3f}", _splits(len(both)))
    # Differences of losses that are equal on paper leave a rounding error at the edge of a bin.
    bins = np.digitize(difference.round(9), _EDGES)
    for number, colour in enumerate(_BIN_COLOURS):
        # All cells of a colour are one shape: drawn one by one, their borders would show.
        cells = [_cell(row, column) for row, column in np.argwhere(bins == number).tolist()]
        if cells:
            axes.add_patch(PathPatch(Path.make_compound_path(*cells), color=colour, linewidth=0.6))
    matched = int(np.sum(bins <= 3))
    return (
        f"loss of the cross-validated SVM {level:.3f}. The vote comes within {_EDGES[3]} of it or below for {matched} "
        f"of {difference.size} pairs of m and r. Difference for the largest m and r: {difference[-1, -1]:+.3f}."
    )


def _cell(row: int, column: int) -> MatplotlibPath:
    from matplotlib.path import Path

    corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1), (column, row)]
    return Path(corners, closed=True)


_CV_LOSS = Mark("loss of the cross-validated SVM", _RED)
_VOTE_LOSS = Mark("loss of the rho-weighted vote", _BLACK)
_BOUND = Mark("PAC-Bayes-kl bound, randomised classifier", _BLUE)
_CV_TIME = Mark("training time of the cross-validated SVM", _RED, dashes=(4, 2))
_VOTE_TIME = Mark("training time of the aggregation", _BLACK, dashes=(4, 2))


def _runtime(axes: Axes, records: Sequence[Record]) -> str:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    results = _results(records, "runtime")
    m = _common(results, "m")
    bound = _curve(axes, m, [result["bound"] for result in results.values()], _BOUND)
    description = _levels(axes, records, m)
    vote = _curve(axes, m, [result["vote"] for result in results.values()], _VOTE_LOSS)
    axes.set_xlabel("m, hypotheses")
    axes.set_ylabel("loss")
    axes.set_ylim(0, 1.05 * min(1.0, max(axes.dataLim.ymax, 0.01)))

    time_axes = axes.twinx()
    seconds = _curve_of_times(time_axes, m, [result["seconds"] for result in results.values()])
    times = seconds.tolist()
    baseline_time = _baseline(records, "seconds")
    if baseline_time is not None:
        time_axes.plot([m[0], m[-1]], [baseline_time[0]] * 2, **_CV_TIME.style())
        times.append(baseline_time[0])
        description += f" Its training took {baseline_time[0]:.3g} s."
    time_axes.set_yscale("log")
    # A clock may be too coarse to see the smallest pool trained.
    shortest, longest = max(min(times), 1e-6), max(*times, 1e-6)
    time_axes.set_ylim(shortest / 2, longest * 2)
    time_axes.yaxis.set_major_locator(LogLocator(subs=(1, 3) if longest < 30 * shortest else (1,), numticks=7))
    time_axes.yaxis.set_minor_locator(NullLocator())
    time_axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    time_axes.set_ylabel("seconds (dashed)")
    time_axes.grid(visible=False)
    _name_panel(axes, records, *_shown(records, results))
    return (
        f"at m = {m[-1]} the weighted vote has loss {vote[-1]:.3f}, the bound on the randomised classifier is "
        f"{bound[-1]:.3f}, and training took {seconds[-1]:.3g} s. {description}"
    )


def _curve_of_times(axes: Axes, m: Sequence[int], values: ArrayLike) -> Array:
    mean, _ = _mean_sd(values)
    axes.plot(m, mean, marker="" if len(m) > 1 else "o", **_VOTE_TIME.style())
    return mean


def _levels(axes: Axes, records: Sequence[Record], m: Sequence[int]) -> str:
    """The cross-validated SVM, which does not depend on m, as a level line."""
    level = _baseline(records)
    if level is None:
        return "The baseline has not been run."
    mean, sd = level
    ends = [m[0], m[-1]]
    axes.plot(ends, [mean, mean], marker="" if len(m) > 1 else "o", **_CV_LOSS.style())
    if sd > 0:
        axes.fill_between(ends, max(mean - sd, 0), mean + sd, color=_RED, alpha=0.13, linewidth=0)
    return f"The cross-validated SVM has loss {mean:.3f}."


def _shown(records: Sequence[Record], results: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """What the subtitle of a curve says."""
    said = [f"r = {_common(results, 'r')}", _splits(len(results))]
    return said if _results(records, "baseline") else [*said, "no baseline"]


_UNIFORM_LOSS = Mark("loss of the uniform vote", _GREEN, dashes=(6, 1.5, 1, 1.5))
_BEST_LOSS = Mark("loss of the best hypothesis (best h)", _ORANGE, dashes=(1.5, 1.5))


def _weighting(axes: Axes, records: Sequence[Record]) -> str:
    results = _results(records, "weighting")
    m = _common(results, "m")
    description = _levels(axes, records, m)
    last = {}
    # The best hypothesis comes last: its dots are seen on the vote, with which it often coincides.
    for name, mark in (("bound", _BOUND), ("uniform", _UNIFORM_LOSS), ("vote", _VOTE_LOSS), ("best", _BEST_LOSS)):
        last[name] = _curve(axes, m, [result[name] for result in results.values()], mark)[-1]
    axes.set_xlabel("m, hypotheses")
    axes.set_ylabel("loss")
    axes.set_ylim(0, 1.05 * min(1.0, max(axes.dataLim.ymax, 0.01)))
    _name_panel(axes, records, *_shown(records, results))
    return (
        f"at m = {m[-1]} the weighted vote has loss {last['vote']:.3f}, the uniform vote {last['uniform']:.3f}, the "
        f"best hypothesis {last['best']:.3f}; the bound is {last['bound']:.3f}. {description}"
    )


_F_CURVE = Mark("F(lambda), one curve for each split", _BLUE)
_F_GLOBAL = Mark("global minimum, proved", _BLACK, "symbol", symbol="○")
_F_ALTERNATING = Mark("lambda of alternating minimisation", _RED, "symbol", symbol="✕")


def _f_lambda(axes: Axes, records: Sequence[Record]) -> str:
    results = list(_results(records, "f_lambda").values())
    values = np.concatenate([np.asarray(result["F"], dtype=float) for result in results])
    for result in results:
        axes.plot(result["lam"], result["F"], alpha=1 if len(results) == 1 else 0.6, **_F_CURVE.style())
    for lam, fun, mark in (
        ("lam_global", "F_global", _F_GLOBAL),
        ("lam_alternating", "F_alternating", _F_ALTERNATING),
    ):
        axes.plot([r[lam] for r in results], [r[fun] for r in results], zorder=3, **mark.style())
    # F grows without limit as lambda goes to 0, and the shape near the minimum is what matters.
    low, middle, high = (float(value) for value in np.quantile(values, [0, 0.5, 1]))
    top = min(high, low + 4 * (middle - low)) if middle > low else high
    margin = 0.08 * (top - low) or 0.01
    axes.set_ylim(low - margin, top + margin)
    axes.set_xlabel("lambda")
    axes.set_ylabel("F(lambda)")
    count = {name: sum(bool(r[name]) for r in results) for name in ("convex", "quasiconvex", "guaranteed")}
    _name_panel(axes, records, _splits(len(results)), f"{count['convex']} convex", f"{count['guaranteed']} guaranteed")
    gap = max(abs(r["F_alternating"] - r["F_global"]) for r in results)
    return (
        f"F is convex on the grid in {count['convex']}, quasiconvex in {count['quasiconvex']} and guaranteed to be "
        f"quasiconvex in {count['guaranteed']} of {_splits(len(results))}. Alternating minimisation ends within "
        f"{gap:.1g} of the global minimum."
    )


_DIRECT = Mark("direct: lambda by minimising the bound", _BLACK, "symbol", symbol="●")
_VALIDATE = Mark("validate: lambda from a grid, on a validation set", _RED, "symbol", symbol="■")


def _direct_vs_validate(axes: Axes, records: Sequence[Record]) -> str:
    names = datasets_of(records, "validation")
    said = []
    for row, name in enumerate(names):
        results = _results([r for r in records if r["dataset"] == name], "validation")
        means = []
        for method, mark, offset in (("direct", _DIRECT, -0.14), ("validate", _VALIDATE, 0.14)):
            mean, sd = _mean_sd([result[method] for result in results.values()])
            _bar(axes, float(mean), float(sd), row + offset, **mark.style())
            means.append(f"{mean:.3f}")
        said.append(f"{TITLES.get(name, name)} {' and '.join(means)}")
    _label_rows(axes, [TITLES.get(name, name) for name in names])
    axes.set_xlabel("test loss")
    return f"test losses, direct and validate: {', '.join(said)}."


def _bar(axes: Axes, mean: float, sd: float, row: float, **style: Any) -> None:
    """A mean with one standard deviation either way, but no loss below 0."""
    spread = [[min(sd, mean)], [sd]] if sd > 0 else None
    axes.errorbar(mean, row, xerr=spread, capsize=2.5, elinewidth=1.2, **style)


def _label_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), list(labels))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    right = max(axes.dataLim.xmax, 0.01)
    axes.set_xlim(-0.03 * right, 1.06 * right)
    axes.grid(visible=False, axis="y")


def _comparison(axes: Axes, records: Sequence[Record]) -> str:
    results = _results(records, "comparison")
    rows: list[tuple[str, str, list[float]]] = [
        ("CV SVM", _RED, [result["loss"] for result in _results(records, "baseline").values()]),
        ("Vote", _BLACK, [result["vote"] for result in results.values()]),
        ("Randomised", _GREEN, [result["randomised"] for result in results.values()]),
        ("Best h", _ORANGE, [result["best"] for result in results.values()]),
        ("Bound", _BLUE, [result["bound"] for result in results.values()]),
    ]
    said = []
    for row, (label, colour, values) in enumerate(rows):
        if not values:
            said.append(f"{label} not run")
            continue
        mean, sd = _mean_sd(values)
        _bar(axes, float(mean), float(sd), row, marker="o", markersize=5, color=colour)
        said.append(f"{label} {mean:.3f}")
    _label_rows(axes, [label for label, _, _ in rows])
    axes.set_xlabel("loss")
    _name_panel(axes, records, f"m = {_common(results, 'm')}", *_shown(records, results))
    return f"{', '.join(said)}."


FIGURES: dict[str, PaperFigure] = {
    "heatmap_kernel": PaperFigure(
        "Accuracy across m and r",
        "Test loss of the rho-weighted majority vote minus that of the cross-validated SVM (CV SVM), for different "
        "numbers m of weak SVMs and r of points that each is trained on; mean over the splits. The palest cells match "
        "the cross-validated SVM to within 0.01, blue ones beat it, red ones fall behind. Figures heatmap_kernel and "
        "appheatmap of the paper.",
        heatmap_kernel,
        "accuracy",
        _heatmap,
        tuple(Mark(*pair, kind="area") for pair in zip(_BIN_LABELS, _BIN_COLOURS, strict=True)),
    ),
    "runtime_kernel": PaperFigure(
        "Loss, bound and training time as m grows",
        "Solid lines, left axis: test loss of the cross-validated SVM (red) and of the rho-weighted majority vote "
        "(black), and the PAC-Bayes-kl bound on the randomised classifier (blue). Dashed lines, right axis, "
        "logarithmic: training time of both. Means over the splits; the bands are one standard deviation either way. "
        "Figures runtime_kernel and appruntime of the paper.",
        runtime_kernel,
        "runtime",
        _runtime,
        (_CV_LOSS, _VOTE_LOSS, _BOUND, _CV_TIME, _VOTE_TIME),
    ),
    "appprediction": PaperFigure(
        "Weighted vote, uniform vote and best hypothesis",
        "Test loss of the rho-weighted majority vote, of the vote with equal weights, of the hypothesis with the "
        "largest weight and of the cross-validated SVM, with the PAC-Bayes-kl bound on the randomised classifier. "
        "Means over the splits; the bands are one standard deviation either way. Figures appprediction and "
        "appprediction_max of the paper.",
        appprediction,
        "weighting",
        _weighting,
        (_CV_LOSS, _VOTE_LOSS, _UNIFORM_LOSS, _BEST_LOSS, _BOUND),
    ),
    "f_lambda_convex": PaperFigure(
        "The shape of F(lambda)",
        "The bound as a function of lambda, one curve for each split, with the lambda that alternating minimisation "
        "returns (red cross) and the proved global minimum (circle). The line above each panel counts the splits in "
        "which F is convex on the grid, and in which it is guaranteed to be quasiconvex. Steep ends of the curves are "
        "cut off. Figure f_lambda_convex of the paper.",
        f_lambda_convex,
        "f_lambda",
        _f_lambda,
        (_F_CURVE, _F_ALTERNATING, _F_GLOBAL),
    ),
    "direct_vs_validate": PaperFigure(
        "Choosing lambda by the bound, or by validation",
        "Test loss of the rho-weighted majority vote with lambda from alternating minimisation of the bound (direct) "
        "and from a grid, by the loss on a validation set that the other does not get to see (validate). Means over "
        "the splits; the bars are one standard deviation either way. Figure direct_vs_validate of the paper.",
        direct_vs_validate,
        "validation",
        _direct_vs_validate,
        (_DIRECT, _VALIDATE),
        shared=True,
    ),
    "mjv_vs_rnd": PaperFigure(
        "Vote, randomised classifier and best hypothesis at m = n",
        "Test loss of the cross-validated SVM, of the rho-weighted majority vote, of the randomised classifier and of "
        "the best weak classifier by validation loss (best h), with the PAC-Bayes-kl bound on the randomised "
        "classifier. Means over the splits; the bars are one standard deviation either way. Figure mjv-vs-rnd of the "
        "paper.",
        mjv_vs_rnd,
        "comparison",
        _comparison,
    ),
}
