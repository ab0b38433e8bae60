"""Draw the panels of the paper's figures. Each function draws on given axes and describes in words what it drew.

Matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import format_count
from pacbayes._validation import Array
from pacbayes.paper.records import Results, dataset_title, mean_sd

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can tell apart. Red, black and blue are the paper's.
_RED, _BLACK, _BLUE, _GREEN, _ORANGE = "#d55e00", "#000000", "#0072b2", "#009e73", "#e69f00"
_GREY = "#555555"

# Edges of the bins of loss minus baseline loss; the colours are Brewer's diverging RdBu.
_EDGES = (-0.1, -0.03, -0.01, 0.01, 0.03, 0.1)
_BINS = {
    "below -0.10": "#2166ac",
    "-0.10 to -0.03": "#67a9cf",
    "-0.03 to -0.01": "#d1e5f0",
    "within 0.01": "#f7f7f7",
    "+0.01 to +0.03": "#fddbc7",
    "+0.03 to +0.10": "#ef8a62",
    "above +0.10": "#b2182b",
}

# Symbols as characters, and their names in Matplotlib.
_SYMBOLS = {"●": "o", "■": "s", "○": "o", "✕": "x"}


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend, for Matplotlib and for HTML."""

    label: str
    colour: str  # as #rrggbb
    kind: str = "line"  # "line", "symbol" or "area"
    dashes: tuple[float, ...] = ()  # lengths of the dashes and gaps of a line; solid if empty
    symbol: str = ""  # a character

    def line_style(self) -> dict[str, Any]:
        """Return the properties of a `matplotlib.lines.Line2D` that looks like the entry."""
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

    def handle(self) -> Artist:
        """Make the handle of a Matplotlib legend."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        if self.kind == "area":
            return Patch(facecolor=self.colour, edgecolor="#888888", linewidth=0.5, label=self.label)
        return Line2D([], [], label=self.label, **self.line_style())


CV_LOSS = LegendEntry("loss of the cross-validated SVM", _RED)
VOTE_LOSS = LegendEntry("loss of the rho-weighted vote", _BLACK)
BOUND = LegendEntry("PAC-Bayes-kl bound, randomised classifier", _BLUE)
CV_TIME = LegendEntry("training time of the cross-validated SVM", _RED, dashes=(4, 2))
VOTE_TIME = LegendEntry("training time of the aggregation", _BLACK, dashes=(4, 2))
UNIFORM_LOSS = LegendEntry("loss of the uniform vote", _GREEN, dashes=(6, 1.5, 1, 1.5))
BEST_LOSS = LegendEntry("loss of the best hypothesis (best h)", _ORANGE, dashes=(1.5, 1.5))
F_CURVE = LegendEntry("F(lambda), one curve for each split", _BLUE)
F_GLOBAL = LegendEntry("global minimum, proved", _BLACK, "symbol", symbol="○")
F_ALTERNATING = LegendEntry("lambda of alternating minimisation", _RED, "symbol", symbol="✕")
DIRECT = LegendEntry("direct: lambda by minimising the bound", _BLACK, "symbol", symbol="●")
VALIDATE = LegendEntry("validate: lambda from a grid, on a validation set", _RED, "symbol", symbol="■")
DIFFERENCES = tuple(LegendEntry(label, colour, "area") for label, colour in _BINS.items())


def draw_accuracy(axes: Axes, results: Results, name: str) -> str:
    """Draw the loss of the vote minus that of the baseline over m and r, for one dataset."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    m, r = results.shared("accuracy", name, "m"), results.shared("accuracy", name, "r")
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    axes.set(xlabel="m, hypotheses", ylabel="r, points for each", xlim=(-0.5, len(m) - 0.5), ylim=(-0.5, len(r) - 0.5))
    for axis, values in ((axes.xaxis, m), (axes.yaxis, r)):
        places = np.unique(np.linspace(0, len(values) - 1, min(len(values), 5)).round().astype(int))
        axis.set_ticks(places, [str(values[place]) for place in places])
    accuracy, baseline = results.by_split("accuracy", name), results.by_split("baseline", name)
    # A loss is compared with the baseline of its own split.
    both = [split for split in accuracy if split in baseline]
    if not both:
        _set_titles(axes, name, "no baseline to compare with")
        return "not shown, because the baseline has not been run."
    difference, _ = mean_sd([np.asarray(accuracy[split]["loss"]) - baseline[split]["loss"] for split in both])
    # Differences of losses that are equal on paper leave a rounding error at the edge of a bin.
    difference = difference.round(9)
    level, _ = mean_sd([baseline[split]["loss"] for split in both])
    _set_titles(axes, name, f"CV SVM {level:.3f}", format_count(len(both), "split"))
    colours, norm = ListedColormap(list(_BINS.values())), BoundaryNorm([-1, *_EDGES, 1], len(_BINS))
    axes.imshow(difference, colours, norm, origin="lower", aspect="auto", interpolation="none")
    matched = int(np.sum(difference < _EDGES[3]))
    return (
        f"loss of the cross-validated SVM {level:.3f}. The vote comes within {_EDGES[3]} of it or below for {matched} "
        f"of {difference.size} pairs of m and r. Difference for the largest m and r: {difference[-1, -1]:+.3f}."
    )


def draw_runtime(axes: Axes, results: Results, name: str) -> str:
    """Draw loss, bound and training time over m, for one dataset."""
    curves = {"bound": BOUND, "baseline": CV_LOSS, "vote": VOTE_LOSS}
    m, last, baseline = _plot_losses(axes, results, "runtime", name, curves)
    seconds, baseline_seconds = _plot_times(axes.twinx(), m, results, name)
    return (
        f"at m = {m[-1]} the weighted vote has loss {last['vote']:.3f}, the bound on the randomised classifier is "
        f"{last['bound']:.3f}, and training took {seconds:.3g} s. {baseline}"
        + (f" Its training took {baseline_seconds:.3g} s." if baseline_seconds is not None else "")
    )


def draw_weighting(axes: Axes, results: Results, name: str) -> str:
    """Draw the losses of the weighted vote, the uniform vote and the best hypothesis over m, for one dataset."""
    # The best hypothesis is drawn last: its dots remain visible on the line of the vote, which often coincides.
    curves = {"baseline": CV_LOSS, "bound": BOUND, "uniform": UNIFORM_LOSS, "vote": VOTE_LOSS, "best": BEST_LOSS}
    m, last, baseline = _plot_losses(axes, results, "weighting", name, curves)
    return (
        f"at m = {m[-1]} the weighted vote has loss {last['vote']:.3f}, the uniform vote {last['uniform']:.3f}, the "
        f"best hypothesis {last['best']:.3f}; the bound is {last['bound']:.3f}. {baseline}"
    )


def draw_f_lambda(axes: Axes, results: Results, name: str) -> str:
    """Draw F(lambda) of every split with both minima, for one dataset."""
    splits = list(results.by_split("f_lambda", name).values())
    for result in splits:
        axes.plot(result["lam"], result["F"], alpha=1 if len(splits) == 1 else 0.6, **F_CURVE.line_style())
    for lam, fun, entry in (("lam_global", "F_global", F_GLOBAL), ("lam_alternating", "F_alternating", F_ALTERNATING)):
        axes.plot([r[lam] for r in splits], [r[fun] for r in splits], zorder=3, **entry.line_style())
    # F grows without limit as lambda goes to 0, and the shape near the minimum is what matters.
    values = np.concatenate([np.asarray(result["F"], dtype=float) for result in splits])
    low, middle, high = (float(value) for value in np.quantile(values, [0, 0.5, 1]))
    top = min(high, low + 4 * (middle - low)) if middle > low else high
    margin = 0.08 * (top - low) or 0.01
    axes.set(xlabel="lambda", ylabel="F(lambda)", ylim=(low - margin, top + margin))
    count = {key: sum(bool(r[key]) for r in splits) for key in ("convex", "quasiconvex", "guaranteed")}
    n_splits = format_count(len(splits), "split")
    _set_titles(axes, name, n_splits, f"{count['convex']} convex", f"{count['guaranteed']} guaranteed")
    gap = max(abs(r["F_alternating"] - r["F_global"]) for r in splits)
    return (
        f"F is convex on the grid in {count['convex']}, quasiconvex in {count['quasiconvex']} and guaranteed to be "
        f"quasiconvex in {count['guaranteed']} of {n_splits}. Alternating minimisation ends within {gap:.1g} of the "
        "global minimum."
    )


def draw_validation(axes: Axes, results: Results, *names: str) -> str:
    """Draw the test losses of both choices of lambda, one row for each dataset."""
    losses = []
    for row, name in enumerate(names):
        direct, validate = (
            _plot_mean(axes, row + offset, results.values("validation", name, method), **entry.line_style())
            for method, entry, offset in (("direct", DIRECT, -0.14), ("validate", VALIDATE, 0.14))
        )
        losses.append(f"{dataset_title(name)} {direct:.3f} and {validate:.3f}")
    _label_rows(axes, [dataset_title(name) for name in names])
    axes.set_xlabel("test loss")
    return f"test losses, direct and validate: {', '.join(losses)}."


def draw_comparison(axes: Axes, results: Results, name: str) -> str:
    """Draw the losses of all classifiers and the bound at m = n, one row each, for one dataset."""
    rows = {
        "CV SVM": (_RED, results.values("baseline", name, "loss")),
        "Vote": (_BLACK, results.values("comparison", name, "vote")),
        "Randomised": (_GREEN, results.values("comparison", name, "randomised")),
        "Best h": (_ORANGE, results.values("comparison", name, "best")),
        "Bound": (_BLUE, results.values("comparison", name, "bound")),
    }
    means = [
        f"{label} {_plot_mean(axes, row, values, marker='o', markersize=5, color=colour):.3f}"
        if values.size
        else f"{label} not run"
        for row, (label, (colour, values)) in enumerate(rows.items())
    ]
    _label_rows(axes, list(rows))
    axes.set_xlabel("loss")
    m = results.shared("comparison", name, "m")
    _set_titles(axes, name, f"m = {m}", *_describe_run(results, "comparison", name))
    return f"{', '.join(means)}."


def _set_titles(axes: Axes, name: str, *subtitle: str) -> None:
    """Write the name of the dataset above a panel, and the subtitle under it."""
    axes.figure.suptitle(dataset_title(name), x=0.02, ha="left", fontsize=10, fontweight="bold")
    axes.set_title(", ".join(subtitle), fontsize=8, color=_GREY, loc="left")


def _describe_run(results: Results, experiment: str, name: str) -> list[str]:
    """Return the subsample size and the number of splits, for a subtitle."""
    n_splits = len(results.by_split(experiment, name))
    description = [f"r = {results.shared(experiment, name, 'r')}", format_count(n_splits, "split")]
    return description if results.by_split("baseline", name) else [*description, "no baseline"]


def _plot_losses(
    axes: Axes, results: Results, experiment: str, name: str, curves: Mapping[str, LegendEntry]
) -> tuple[Sequence[int], dict[str, float], str]:
    """Plot losses over m in this order; return m, the loss of each at the largest m, and a sentence on the baseline."""
    m: Sequence[int] = results.shared(experiment, name, "m")
    last = {}
    for key, entry in curves.items():
        is_baseline = key == "baseline"
        values = results.values("baseline", name, "loss") if is_baseline else results.values(experiment, name, key)
        if values.size:
            last[key] = _plot_curve(axes, m, values, entry)
    axes.set(xlabel="m, hypotheses", ylabel="loss", ylim=(0, 1.05 * min(1.0, max(axes.dataLim.ymax, 0.01))))
    _set_titles(axes, name, *_describe_run(results, experiment, name))
    loss = last.get("baseline")
    return (
        m,
        last,
        "The baseline has not been run." if loss is None else f"The cross-validated SVM has loss {loss:.3f}.",
    )


def _plot_curve(axes: Axes, m: Sequence[int], values: Array, entry: LegendEntry, *, band: bool = True) -> float:
    """Plot the mean over splits, with a band of one standard deviation either way, and return its last value."""
    if values.ndim == 1:
        m, values = [m[0], m[-1]], np.column_stack([values, values])
    mean, sd = mean_sd(values)
    axes.plot(m, mean, marker="" if m[-1] > m[0] else "o", **entry.line_style())
    if band and sd.any():
        axes.fill_between(m, np.maximum(mean - sd, 0), mean + sd, color=entry.colour, alpha=0.13, linewidth=0)
    return float(mean[-1])


def _plot_times(axes: Axes, m: Sequence[int], results: Results, name: str) -> tuple[float, float | None]:
    """Plot the training times of the aggregation and of the baseline, and return the means of the last ones."""
    from matplotlib.ticker import LogLocator

    baseline = results.values("baseline", name, "seconds")
    seconds = _plot_curve(axes, m, results.values("runtime", name, "seconds"), VOTE_TIME, band=False)
    baseline_seconds = _plot_curve(axes, m, baseline, CV_TIME, band=False) if baseline.size else None
    times = [float(time) for line in axes.lines for time in np.asarray(line.get_ydata())]
    # The clock may be too coarse for the training time of the smallest pool.
    shortest, longest = max(min(times), 1e-6), max(*times, 1e-6)
    axes.set(yscale="log", ylim=(shortest / 2, longest * 2), ylabel="seconds (dashed)")
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3) if longest < 30 * shortest else (1,), numticks=7))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(visible=False)
    return seconds, baseline_seconds


def _plot_mean(axes: Axes, row: float, values: Array, **style: Any) -> float:
    """Plot a mean with one standard deviation either way, but not below 0, and return the mean."""
    mean, sd = (float(value) for value in mean_sd(values))
    spread = [[min(sd, mean)], [sd]] if sd > 0 else None
    axes.errorbar(mean, row, xerr=spread, capsize=2.5, elinewidth=1.2, **style)
    return mean


def _label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Name the rows, from top to bottom, and let the axis of losses begin at 0."""
    axes.set_yticks(range(len(labels)), list(labels))
    right = max(axes.dataLim.xmax, 0.01)
    axes.set(ylim=(len(labels) - 0.5, -0.5), xlim=(-0.03 * right, 1.06 * right))
    axes.grid(visible=False, axis="y")
