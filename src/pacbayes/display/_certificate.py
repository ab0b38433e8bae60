"""The certificate as a picture: losses and bounds as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from pacbayes._validation import scalar, whole_number
from pacbayes._wording import confidence, rounded_up
from pacbayes.bounds import clopper_pearson, pac_bayes_lambda, pac_bayes_sqrt
from pacbayes.certificate import Certificate, delta_for_smallest
from pacbayes.display._drawing import (
    BLACK,
    BLUE,
    GREY,
    LIGHT_GREY,
    axes,
    count_errors,
    fitted,
    require_matplotlib,
    test_labels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    from pacbayes.classifier import PACBayesClassifier


@dataclass(frozen=True)
class Bar:
    """One bar of a certificate's picture.

    Attributes
    ----------
    label : str
        What it is.
    value : float
        Its length.
    is_bound : bool
        Whether it is an upper bound, rather than a loss that was measured.
    strict : bool
        Whether the theorem behind the bound applies to the letter.
    """

    label: str
    value: float
    is_bound: bool
    strict: bool = True


class CertificateDisplay:
    """What a certificate proves: losses and bounds as bars on one axis.

    Use `from_estimator` or `from_certificate`. Bounds of a certificate that is not strict are hatched, and the title
    says so.

    Parameters
    ----------
    bars : sequence of Bar
        The bars, from top to bottom.
    loss : str
        Name of the loss.
    delta : float
        Probability with which each bound may fail.
    chance : float, optional
        Error of guessing at random.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it was drawn.
    bars_ : BarContainer
        The bars.
    values_ : list of Text
        Their values, written beside them.
    chance_ : Line2D or None
        Line at the error of guessing; None if it is not known, or far beyond the largest bar.

    Examples
    --------
    >>> from pacbayes import certify
    >>> from pacbayes.display import CertificateDisplay
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> display = CertificateDisplay.from_certificate(certificate)
    >>> for text in display.values_:
    ...     print(text.get_text())
    0.1003
    0.1638
    0.1772
    0.1772
    0.3276
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer
    values_: list[Text]
    chance_: Line2D | None

    def __init__(self, bars: Sequence[Bar], *, loss: str, delta: float, chance: float | None = None) -> None:
        self.bars = bars
        self.loss = loss
        self.delta = delta
        self.chance = chance

    @classmethod
    def from_certificate(
        cls, certificate: Certificate, *, n_classes: int | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> CertificateDisplay:
        """Draw a certificate.

        Parameters
        ----------
        certificate : Certificate
            What is proved.
        n_classes : int, optional
            Number of classes, at least 2, which gives the error of guessing at random; not drawn by default.
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            What was drawn.
        """
        require_matplotlib(cls)
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        display = cls(
            _bars(certificate), loss=certificate.loss, delta=certificate.delta, chance=_chance(certificate, n_classes)
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: PACBayesClassifier,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertificateDisplay:
        """Draw the certificate of a classifier, and what a test set proves about its predictions.

        The test-set bound (Clopper-Pearson) holds with the same probability as the certificate, but not both at once
        with that probability: each may fail with probability delta.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        X_test, y_test : array-like, optional
            Independent points and labels that were not used in training.
        ax, **kwargs
            As in `from_certificate`.

        Returns
        -------
        CertificateDisplay
            What was drawn.
        """
        require_matplotlib(cls)
        model = fitted(estimator)
        labels = test_labels(X_test, y_test)
        certificate = model.certificate_
        bars = _bars(certificate)
        if labels is not None:
            errors, n_test = count_errors(labels, model.predict(X_test)), labels.size
            who = {"gibbs": "randomised classifier", "best": "best hypothesis"}.get(model.voting, "majority vote")
            bars += [
                Bar(f"test error, {n_test} points\n{who}", errors / n_test, is_bound=False),
                Bar(
                    f"Clopper-Pearson, test set\n{who}",
                    float(clopper_pearson(errors, n_test, certificate.delta)),
                    is_bound=True,
                ),
            ]
        chance = _chance(certificate, model.classes_.size)
        return cls(bars, loss=certificate.loss, delta=certificate.delta, chance=chance).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> CertificateDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            This display, with what was drawn.
        """
        ax = self.ax_ = axes(self, ax, figsize=(6.4, 1.0 + 0.5 * len(self.bars)))
        self.figure_ = ax.figure
        values = [bar.value for bar in self.bars]
        style = {
            "height": 0.6,
            "linewidth": 1,
            "edgecolor": [BLUE if bar.is_bound else GREY for bar in self.bars],
            "color": [("white" if not bar.strict else BLUE) if bar.is_bound else LIGHT_GREY for bar in self.bars],
            "hatch": ["" if bar.strict else "////" for bar in self.bars],
        }
        self.bars_ = ax.barh(range(len(values)), values, **{**style, **kwargs})
        self.values_ = [self._write(ax, height, bar) for height, bar in enumerate(self.bars)]
        end = _end_of_axis(ax, values)
        self.chance_ = None
        if self.chance is not None and self.chance <= end:
            self.chance_ = ax.axvline(self.chance, color=BLACK, linestyle=":", linewidth=1.2, zorder=0)
            ax.annotate(
                f"guessing {self.chance:.2g}",
                (self.chance, 1),
                xycoords=ax.get_xaxis_transform(),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize="small",
            )
        ax.set_xlim(0, end)
        ax.set_ylim(len(values) - 0.4, -0.6)
        ax.set_yticks(range(len(values)), [bar.label for bar in self.bars])
        ax.set_xlabel(f"{self.loss} loss; each bound holds with probability {confidence(self.delta)}")
        if not all(bar.strict for bar in self.bars):
            pad = None if self.chance_ is None else 18.0  # above the word on guessing
            title = "NOT STRICT: the theorem does not cover the hatched bounds"
            ax.set_title(title, loc="left", fontsize="medium", pad=pad)
        return self

    def _write(self, ax: Axes, height: int, bar: Bar) -> Text:
        """The value of a bar: beside it, or in it if it reaches the end of the axis."""
        inside = bar.value >= 1
        return ax.annotate(
            (rounded_up(bar.value) if bar.is_bound else f"{bar.value:.4f}")
            + (", nothing is proved" if inside and bar.is_bound else ""),
            (min(bar.value, 1), height),
            xytext=(-4 if inside else 4, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )


def _bars(certificate: Certificate) -> list[Bar]:
    """The certificate's own loss and bounds."""
    delta_min = delta_for_smallest(certificate.delta, certificate.n_validation, certificate.n_validation_max)
    loss, kl_div, n = certificate.empirical_loss, certificate.kl_div, certificate.n_validation
    if certificate.loss != "zero_one":
        vote = "no bound for this loss"
    else:
        vote = "PAC-Bayes-kl" if certificate.voting == "best" else "twice PAC-Bayes-kl"
    rows = [
        ("PAC-Bayes-kl\nrandomised classifier", certificate.gibbs_bound),
        ("square-root relaxation\nrandomised classifier", float(pac_bayes_sqrt(loss, kl_div, n, delta_min))),
        (f"{vote}\nmajority vote", certificate.vote_bound),
    ]
    # The kl bound's posterior may be sharper than any lambda of the theorem.
    if certificate.lam is not None and 0 < certificate.lam < 2:
        label = rf"PAC-Bayes-$\lambda$, $\lambda$ = {certificate.lam:.3g}" + "\nrandomised classifier"
        rows.insert(1, (label, float(pac_bayes_lambda(loss, kl_div, n, certificate.lam, delta_min))))
    measured = Bar("validation loss\nrandomised classifier", loss, is_bound=False)
    return [measured, *(Bar(label, value, is_bound=True, strict=certificate.strict) for label, value in rows)]


def _chance(certificate: Certificate, n_classes: int | None) -> float | None:
    """Zero-one loss of guessing one of the classes at random."""
    if n_classes is None:
        return None
    count = scalar("n_classes", whole_number("n_classes", n_classes, 2))
    return 1 - 1 / count if certificate.loss == "zero_one" else None


def _end_of_axis(ax: Axes, values: Sequence[float]) -> float:
    """Where the axis has to end for the text beside each bar to fit; bars that prove nothing may run out of it."""
    from matplotlib import rcParams

    # Six digits and the space around them; a digit is 0.6 of its height wide.
    text = 7 * 0.6 * rcParams["font.size"] * ax.figure.dpi / 72
    # Of new axes, labels on the left will take a third.
    share = min(0.5, text / (0.65 * ax.get_window_extent().width))
    return max(1.05 if value >= 1 else value / (1 - share) for value in values) or 1.0
