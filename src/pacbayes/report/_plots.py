"""The plots of a fit, for its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import (
    format_confidence,
    format_lower,
    format_nearest,
    format_number,
    format_percent,
    format_percent_lower,
    format_upper,
)
from pacbayes._losses import is_of_numbers
from pacbayes.certificate import Certificate, Statement
from pacbayes.display import (
    AbstentionDisplay,
    BoundDisplay,
    CertificateDisplay,
    ErrorCurveDisplay,
    IntervalDisplay,
    PoolSizeDisplay,
    PosteriorDisplay,
    ReliabilityDisplay,
)
from pacbayes.display.svg import page_style, svg_element
from pacbayes.report._importance import JudgedRows
from pacbayes.sampling import RandomSubsamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Narrow enough for its text to be readable on a phone.
_WIDTH = 4.4
_HEIGHT = 3.3

# Coverages of intervals that are drawn: the first that is proved.
_COVERAGES = (0.9, 0.8, 0.5)

# With more hypotheses, certifying thirty pools of them would take longer than the rest of the page.
_MOST_CERTIFIED = 3000


@dataclass(frozen=True)
class Plot:
    """A plot of a page."""

    name: str  # anchor on the page, and prefix of the ids in the picture
    title: str
    caption: str
    description: str  # in words, for screen readers
    svg: str


def certificate_plot(model: Any, tested: Statement | None) -> Plot:
    """Plot losses and bounds as bars."""

    def draw(ax: Axes) -> CertificateDisplay:
        n_classes = model.fitted_votes_.task.classes.size if certificate.is_zero_one else None
        display = CertificateDisplay.from_certificate(certificate, n_classes=n_classes, tested=tested, ax=ax)
        for text in ax.texts:
            text.set_fontsize("medium")  # readable on a phone
        # The banner and the caption say the rest, and have room for it.
        ax.set_title("", loc="left")
        ax.set_xlabel(display.loss_label, parse_math=False)
        return display

    certificate = model.certificate_
    display, svg = _draw("plot-certificate", draw, height=0.7 + 0.46 * len(certificate.rows(tested)))
    each = "Each" if display.covered else "Hatched: the theorem does not cover these bounds. Each other"
    caption = f"{each} bound alone holds with probability {format_confidence(certificate.delta)}."
    values = [f"{row.label}, {row.predictor} {row.shown}" for row in display.rows]
    return Plot("plot-certificate", "Loss and bounds", caption, f"Bars: {'; '.join(values)}.", svg)


def abstention_plots(certificate: Certificate) -> Iterator[Plot]:
    """Plot the error among answered points."""
    display, svg = _draw("plot-abstention", lambda ax: AbstentionDisplay.from_certificate(certificate, ax=ax))
    values = [
        f"{format_nearest(share)} answered, error at most {format_upper(bound)}"
        for share, bound in zip(display.share, display.proved, strict=True)
    ]
    caption = "The surer the vote has to be, the fewer points it answers."
    yield Plot("plot-abstention", "Error among answered points", caption, f"Line: {'; '.join(values)}.", svg)


def error_plots(certificate: Certificate) -> Iterator[Plot]:
    """Plot the share of points that are off by no more than an error."""
    display, svg = _draw("plot-errors", lambda ax: ErrorCurveDisplay.from_certificate(certificate, ax=ax))
    some = slice(3, None, 4)
    values = [
        f"{format_percent_lower(share)} off by at most {format_number(error, 'up')}"
        for error, share in zip(display.error[some], display.proved[some], strict=True)
    ]
    caption = "How many predictions are off by no more than an error: never fewer than the line, as far as is proved."
    yield Plot("plot-errors", "Share of errors below", caption, f"Line: at least {'; '.join(values)}.", svg)


def interval_plots(model: Any, judged: JudgedRows | None) -> Iterator[Plot]:
    """Plot true against predicted numbers, and errors against widths, where there are rows to do so."""
    if judged is None:
        return
    for coverage in _COVERAGES:
        with suppress(ValueError):  # not by so few points
            model.certificate_.choose_interval(coverage)
            break
    else:
        return

    def draw(ax: Axes) -> IntervalDisplay:
        return IntervalDisplay.from_estimator(model, judged.X, judged.y, coverage=coverage, ax=ax)

    display, svg = _draw("plot-predicted", draw)
    held = format_percent(float(display.inside.mean()))
    measured = f"measured on {display.inside.size} {judged.where}, {held} of which are inside their intervals"
    caption = f"Intervals are proved to hold {coverage:.0%} of new points; {measured}."
    yield Plot("plot-predicted", "True against predicted", caption, f"Points with intervals: {measured}.", svg)
    _, svg = _draw("plot-widths", lambda ax: display.plot(ax, kind="widths"))
    widths = [format_number(float(width)) for width in np.quantile(display.upper - display.lower, [0.1, 0.5, 0.9])]
    caption = "Intervals are wide where hypotheses disagree: is that where predictions err?"
    description = f"Errors against half the widths of intervals; widths have the deciles {', '.join(widths)}."
    yield Plot("plot-widths", "Errors against widths", caption, description, svg)


def reliability_plots(certificate: Certificate) -> Iterator[Plot]:
    """Plot how often predictions of some probability are right."""
    display, svg = _draw("plot-reliability", lambda ax: ReliabilityDisplay.from_certificate(certificate, ax=ax))
    values = [
        f"probability {format_nearest(mean)}, right {format_nearest(measured)}, between {format_lower(low)} and "
        f"{format_upper(high)}"
        for mean, measured, low, high in zip(display.mean, display.measured, display.low, display.high, strict=True)
    ]
    caption = "Probabilities are calibrated where limits hold the dashed line."
    yield Plot("plot-reliability", "How often predictions are right", caption, f"Points: {'; '.join(values)}.", svg)


def _plot_bound(model: Any, of_test: bool) -> Plot:
    """Plot F(lambda)."""
    certificate = model.certificate_
    bound, svg = _draw("plot-bound", lambda ax: BoundDisplay.from_estimator(model, ax=ax))
    where = "those at the minimum" if certificate.minimizes_lambda_bound else "not chosen by this curve"
    caption = f"The weights are {where}: {certificate.figures()['Posterior']}."
    if of_test:
        caption += " It proves nothing by itself: the cap of the errors comes from the rows that they were measured on."
    description = (
        f"F(lambda) for lambda from {bound.lam[0]:.3g} to {bound.lam[-1]:.3g}: its minimum is "
        f"{format_upper(bound.minimum)} at lambda = {bound.minimum_lam:.3g}."
    )
    return Plot("plot-bound", "PAC-Bayes-lambda bound as a function of lambda", caption, description, svg)


def posterior_plots(model: Any) -> Iterator[Plot]:
    """Plot F(lambda), the mass of the posterior, and the bound of smaller pools."""
    certificate = model.certificate_
    # Whether nothing is proved about predicted numbers but by held-out points.
    of_test = is_of_numbers(certificate.loss) and all(one.is_test for one in certificate.statements)
    if certificate.minimizes_lambda_bound or not of_test:
        yield _plot_bound(model, of_test)
    n_dropped = certificate.n_dropped
    dropped = f" The {n_dropped} that were dropped have none, and are not shown." if n_dropped else ""
    mass, svg = _draw("plot-mass", lambda ax: PosteriorDisplay.from_estimator(model, ax=ax))
    lowest, highest, mean = map(format_nearest, (mass.losses[0], mass.losses[-1], mass.loss))
    caption = f"Mass is summed over hypotheses with the same validation loss.{dropped}"
    description = (
        f"Posterior mass of hypotheses with validation losses from {lowest} to {highest}; the validation loss of the "
        f"posterior is {mean}."
    )
    yield Plot("plot-mass", "Posterior mass by validation loss", caption, description, svg)
    _, svg = _draw("plot-cumulative", lambda ax: mass.plot(ax, kind="cumulative"))
    caption = f"The mass of the heaviest hypotheses, against their number.{dropped}"
    description = f"Cumulative posterior mass: {mass.n_half} of {mass.cumulative_mass.size} hypotheses hold half of it."
    yield Plot("plot-cumulative", "Cumulative posterior mass", caption, description, svg)
    # The first hypotheses of others than random pools say nothing about smaller pools.
    whole = n_dropped == 0 and isinstance(model.subsamples_, RandomSubsamples) and certificate.follows_from_losses
    if whole and not is_of_numbers(certificate.loss) and 1 < model.losses_.size <= _MOST_CERTIFIED:
        pool, svg = _draw("plot-pool", lambda ax: PoolSizeDisplay.from_estimator(model, ax=ax))
        caption = (
            "Bound and loss of the first hypotheses alone. Choosing their number by this plot is not covered by the "
            "bound."
        )
        description = (
            f"Bound ({' '.join(pool.bound_label.split())}) and validation loss for the first {pool.sizes[0]} to "
            f"{pool.sizes[-1]} hypotheses: the bound goes from {format_upper(pool.bound[0])} to "
            f"{format_upper(pool.bound[-1])}."
        )
        yield Plot("plot-pool", "Bound and loss as the pool grows", caption, description, svg)


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
            lines = sum(1 + text.count("\n") for text in (*labels, title) if text)
            figure.set_figheight(height + 0.2 * lines)
            figure.legend(handles, labels, title=title, loc="outside lower left", alignment="left")
        return display, svg_element(figure, f"{prefix}-")
