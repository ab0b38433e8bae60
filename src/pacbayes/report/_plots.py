"""The plots of a fit, for its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pacbayes._wording import confidence, rounded_up
from pacbayes.display import BoundDisplay, CertificateDisplay, PoolSizeDisplay, PosteriorDisplay
from pacbayes.display.svg import page_style, svg_element
from pacbayes.sampling import RandomSubsamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pacbayes.classifier import PACBayesClassifier

# Narrow enough for its text to be readable on a phone.
_WIDTH = 4.4
_HEIGHT = 3.3

# Beyond so many hypotheses, certifying thirty pools of them takes longer than one waits for a page.
_MOST_CERTIFIED = 3000


@dataclass(frozen=True)
class Plot:
    """A picture with words.

    Attributes
    ----------
    name : str
        Its anchor, and what its ids begin with.
    title : str
        What it shows.
    caption : str
        How to read it.
    description : str
        What is to be seen, for those who cannot see it.
    svg : str
        The picture: an ``<svg>`` element.
    """

    name: str
    title: str
    caption: str
    description: str
    svg: str


def certificate_plot(
    model: PACBayesClassifier, X_test: Any = None, y_test: Any = None
) -> tuple[Plot, CertificateDisplay]:
    """Losses and bounds as bars, and the display they come from."""
    n_bars = 5 if y_test is None else 7

    def draw(ax: Axes) -> CertificateDisplay:
        display = CertificateDisplay.from_estimator(model, X_test, y_test, ax=ax)
        for text, bar in zip(display.values_, display.bars, strict=True):
            # As in the table: rounded up.
            text.set_text(text.get_text().replace(f"{bar.value:.4f}", rounded_up(bar.value)))
        for text in ax.texts:
            text.set_fontsize("medium")  # the word on guessing too is to be read on a phone
        # The banner and the caption say the rest, and have room for it.
        ax.set_title("", loc="left")
        ax.set_xlabel(f"{display.loss} loss", parse_math=False)
        return display

    display, svg = _picture("plot-certificate", draw, height=0.7 + 0.46 * n_bars)
    certainty = confidence(model.certificate_.delta)
    caption = f"Each bound alone holds with probability {certainty}."
    if not model.certificate_.strict:
        caption += " Hatched: the theorem does not cover these bounds."
    values = [f"{bar.label.replace(chr(10), ', ')} {rounded_up(bar.value)}" for bar in display.bars]
    description = f"Bars: {'; '.join(values)}."
    return Plot(
        "plot-certificate", "Loss and bounds", caption, description.replace("$", "").replace("\\", ""), svg
    ), display


def posterior_plots(model: PACBayesClassifier) -> list[Plot]:
    """Where the posterior comes from and where its mass lies."""
    plots = [_bound(model), *_posterior(model)]
    m = model.losses_.size
    # The first hypotheses of others than random pools say nothing about smaller pools.
    if 1 < m <= _MOST_CERTIFIED and isinstance(model.subsamples_, RandomSubsamples):
        plots.append(_pool_size(model))
    return plots


def _bound(model: PACBayesClassifier) -> Plot:
    display, svg = _picture("plot-bound", lambda ax: BoundDisplay.from_estimator(model, ax=ax))
    if model.voting in ("best", "uniform"):
        caption = f"What weights by minimising would have given: here nothing was minimised (voting={model.voting!r})."
    elif model.objective == "kl":
        caption = "The posterior minimises PAC-Bayes-kl instead, and need not be at the minimum of this curve."
    else:
        caption = (
            "The weights are those of the minimum. No posterior has a PAC-Bayes-lambda bound below the dashed line."
        )
    description = (
        f"F(lambda) for lambda from {display.lam[0]:.3g} to {display.lam[-1]:.3g}: its minimum is "
        f"{display.minimum:.4g} at lambda = {display.minimum_lam:.3g}."
    )
    return Plot("plot-bound", "The bound as a function of lambda", caption, description, svg)


def _posterior(model: PACBayesClassifier) -> list[Plot]:
    mass, mass_svg = _picture("plot-mass", lambda ax: PosteriorDisplay.from_estimator(model, ax=ax))
    half, half_svg = _picture(
        "plot-cumulative", lambda ax: PosteriorDisplay.from_estimator(model, kind="cumulative", ax=ax)
    )
    return [
        Plot(
            "plot-mass",
            "Posterior mass by validation loss",
            "Hypotheses with the same validation loss are taken together.",
            f"Posterior mass of hypotheses with validation losses from {mass.losses[0]:.4f} to {mass.losses[-1]:.4f}; "
            f"the validation loss of the posterior is {mass.loss:.4f}.",
            mass_svg,
        ),
        Plot(
            "plot-cumulative",
            "How many voters matter",
            "The mass of the heaviest hypotheses, against their number.",
            f"Cumulative posterior mass: {half.n_half} of {half.cumulative_mass.size} hypotheses hold half of it.",
            half_svg,
        ),
    ]


def _pool_size(model: PACBayesClassifier) -> Plot:
    display, svg = _picture("plot-pool", lambda ax: PoolSizeDisplay.from_estimator(model, ax=ax))
    description = (
        f"PAC-Bayes-kl bound and validation loss for the first {display.sizes[0]} to {display.sizes[-1]} hypotheses: "
        f"the bound goes from {rounded_up(display.bound[0])} to {rounded_up(display.bound[-1])}."
    )
    caption = (
        "What fewer hypotheses would have given. To choose their number by this picture is not covered by the bound."
    )
    return Plot("plot-pool", "Bound and loss as the pool grows", caption, description, svg)


def _picture(prefix: str, draw: Callable[[Axes], Any], height: float = _HEIGHT) -> tuple[Any, str]:
    """Draw a display, with its legend below: there is no room in it on a narrow screen."""
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
