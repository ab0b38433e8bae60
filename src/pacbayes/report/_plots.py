"""The plots of a fit, for its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes.certificate import Row
from pacbayes.display import BoundDisplay, CertificateDisplay, PoolSizeDisplay, PosteriorDisplay
from pacbayes.display.svg import page_style, svg_element
from pacbayes.formatting import format_confidence, format_upper
from pacbayes.sampling import RandomSubsamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pacbayes.classifier import PACBayesClassifier

# Narrow enough for its text to be readable on a phone.
_WIDTH = 4.4
_HEIGHT = 3.3

# With more hypotheses, certifying thirty pools of them would take longer than the rest of the page.
_MOST_CERTIFIED = 3000


@dataclass(frozen=True)
class Plot:
    """A plot with its title, caption and description.

    Attributes
    ----------
    name : str
        Anchor on the page, and prefix of the ids in the picture.
    title : str
        Title.
    caption : str
        Explanation of the plot.
    description : str
        Description of the picture in words, for screen readers.
    svg : str
        The picture, an ``<svg>`` element.
    """

    name: str
    title: str
    caption: str
    description: str
    svg: str


def certificate_plot(model: PACBayesClassifier, X_test: Any = None, y_test: Any = None) -> tuple[Plot, list[Row]]:
    """Plot losses and bounds as bars, and return the plot with its rows."""
    n_rows = len(model.certificate_.rows()) + (0 if y_test is None else 2)

    def draw(ax: Axes) -> CertificateDisplay:
        display = CertificateDisplay.from_estimator(model, X_test, y_test, ax=ax)
        for text in ax.texts:
            text.set_fontsize("medium")  # readable on a phone
        # The banner and the caption say the rest, and have room for it.
        ax.set_title("", loc="left")
        ax.set_xlabel(f"{display.loss} loss", parse_math=False)
        return display

    display, svg = _draw("plot-certificate", draw, height=0.7 + 0.46 * n_rows)
    caption = f"Each bound alone holds with probability {format_confidence(model.certificate_.delta)}."
    if not model.certificate_.strict:
        caption += " Hatched: the theorem does not cover these bounds."
    values = [f"{row.label}, {row.predictor} {row.shown}" for row in display.rows]
    plot = Plot("plot-certificate", "Loss and bounds", caption, f"Bars: {'; '.join(values)}.", svg)
    return plot, list(display.rows)


def posterior_plots(model: PACBayesClassifier) -> list[Plot]:
    """Plot the bound that was minimised, the mass of the posterior, and the bound of smaller pools."""
    plots = [_plot_bound(model), *_plot_posterior(model)]
    m = model.losses_.size
    # The first hypotheses of others than random pools say nothing about smaller pools.
    whole = not np.isnan(model.losses_).any()
    if whole and 1 < m <= _MOST_CERTIFIED and isinstance(model.subsamples_, RandomSubsamples):
        plots.append(_plot_pool_size(model))
    return plots


def _plot_bound(model: PACBayesClassifier) -> Plot:
    display, svg = _draw("plot-bound", lambda ax: BoundDisplay.from_estimator(model, ax=ax))
    if model.voting in ("best", "uniform"):
        caption = f"The bound of the Gibbs posterior. Here nothing was minimised (voting={model.voting!r})."
    elif model.objective == "kl":
        caption = "The posterior minimises PAC-Bayes-kl instead, and need not be at the minimum of this curve."
    else:
        caption = (
            "The weights are those at the minimum. No posterior has a PAC-Bayes-lambda bound below the dashed line."
        )
    description = (
        f"F(lambda) for lambda from {display.lam[0]:.3g} to {display.lam[-1]:.3g}: its minimum is "
        f"{format_upper(display.minimum)} at lambda = {display.minimum_lam:.3g}."
    )
    return Plot("plot-bound", "The bound as a function of lambda", caption, description, svg)


def _plot_posterior(model: PACBayesClassifier) -> list[Plot]:
    mass, mass_svg = _draw("plot-mass", lambda ax: PosteriorDisplay.from_estimator(model, ax=ax))
    half, half_svg = _draw(
        "plot-cumulative", lambda ax: PosteriorDisplay.from_estimator(model, kind="cumulative", ax=ax)
    )
    return [
        Plot(
            "plot-mass",
            "Posterior mass by validation loss",
            "Mass is summed over hypotheses with the same validation loss.",
            f"Posterior mass of hypotheses with validation losses from {mass.losses[0]:.4f} to {mass.losses[-1]:.4f}; "
            f"the validation loss of the posterior is {mass.loss:.4f}.",
            mass_svg,
        ),
        Plot(
            "plot-cumulative",
            "Cumulative posterior mass",
            "The mass of the heaviest hypotheses, against their number.",
            f"Cumulative posterior mass: {half.n_half} of {half.cumulative_mass.size} hypotheses hold half of it.",
            half_svg,
        ),
    ]


def _plot_pool_size(model: PACBayesClassifier) -> Plot:
    display, svg = _draw("plot-pool", lambda ax: PoolSizeDisplay.from_estimator(model, ax=ax))
    description = (
        f"PAC-Bayes-kl bound and validation loss for the first {display.sizes[0]} to {display.sizes[-1]} hypotheses: "
        f"the bound goes from {format_upper(display.bound[0])} to {format_upper(display.bound[-1])}."
    )
    caption = (
        "Bound and loss of the first hypotheses alone. To choose their number by this plot is not covered by the bound."
    )
    return Plot("plot-pool", "Bound and loss as the pool grows", caption, description, svg)


def _draw(prefix: str, draw: Callable[[Axes], Any], height: float = _HEIGHT) -> tuple[Any, str]:
    """Draw a display with its legend below the axes, since there is no room inside on a narrow screen."""
    from matplotlib.figure import Figure

    with page_style():
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        display = draw(figure.subplots())
        legend = getattr(display, "legend_", None)
        if legend is not None:
            title = legend.get_title().get_text()
            legend.remove()
            handles, labels = display.ax_.get_legend_handles_labels()
            figure.set_figheight(height + 0.2 * (len(labels) + bool(title)))
            figure.legend(handles, labels, title=title, loc="outside lower left", alignment="left")
        return display, svg_element(figure, f"{prefix}-")
