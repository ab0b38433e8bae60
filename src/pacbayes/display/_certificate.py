"""The certificate as a bar chart of losses and bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from pacbayes._formatting import format_confidence, format_nearest
from pacbayes._losses import describe_loss, largest_cost
from pacbayes._validation import scalar, whole_number
from pacbayes.certificate import Certificate, Row, Statement, name_class
from pacbayes.display._base import BLACK, BLUE, GREY, LIGHT_GREY, Display
from pacbayes.display.checks import check_fitted, state_test

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    from pacbayes.classifier import PACBayesClassifier

# Share of the axis that the value beside the longest bar takes.
_VALUE_SHARE = 0.26

# Letters of a class label that are shown.
_LONGEST_NAME = 20


@dataclass(eq=False, repr=False)
class CertificateDisplay(Display):
    """Bar chart of a certificate: measured losses and bounds on one axis.

    Use `from_estimator` or `from_certificate`. Bounds that the theorem does not cover are hatched, and the title says
    so.

    Parameters
    ----------
    rows : sequence of Row
        Losses and bounds, from top to bottom.
    loss : str
        Name of the loss.
    delta : float
        Probability with which each bound may fail.
    not_covered : collection of int, default=()
        Positions of the rows with bounds that the theorem does not cover.
    chance : float, optional
        Error to compare with: of always predicting the commonest class, or of guessing at random.
    chance_label : str, default="guessing"
        What `chance` is the error of.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Axes and figure of the plot.
    bars_ : BarContainer
        The bars.
    values_ : list of Text
        Their values, written beside them.
    chance_ : Line2D or None
        Line at the error to compare with; None if it is not known, or far beyond the largest bar.

    Examples
    --------
    >>> from pacbayes import certify
    >>> from pacbayes.display import CertificateDisplay
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> display = CertificateDisplay.from_certificate(certificate)
    >>> [text.get_text() for text in display.values_[:3]]
    ['0.1003', '0.1638', '0.1638']
    """

    rows: Sequence[Row]
    _: KW_ONLY
    loss: str
    delta: float
    not_covered: Collection[int] = ()
    chance: float | None = None
    chance_label: str = "guessing"
    bars_: BarContainer = field(init=False)
    values_: list[Text] = field(init=False)
    chance_: Line2D | None = field(init=False)

    @classmethod
    def from_certificate(
        cls,
        certificate: Certificate,
        *,
        n_classes: int | None = None,
        tested: Statement | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertificateDisplay:
        """Plot a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate.
        n_classes : int, optional
            Number of classes, at least 2, to mark the error of guessing at random where the certificate does not know
            which class is the commonest; not marked by default.
        tested : Statement, optional
            What test points prove about the same predictor, the first statement of `PACBayesClassifier.certify`. Shown
            if it is about the same loss.
        ax : Axes, optional
            Axes to plot on; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            The display.
        """
        cls._require_matplotlib()
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        return cls._of(certificate, tested, n_classes).plot(ax, **kwargs)

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
        """Plot the certificate of a classifier, and what a test set proves about its predictions.

        The test-set bound, that of `PACBayesClassifier.certify`, holds with the same probability as the certificate,
        but not both at once with that probability: each may fail with probability delta. There is none for losses of
        probabilities, which are not losses of what `predict` does.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        X_test, y_test : array-like, optional
            Independent points and labels that were not used in training: rows of the training sample are refused.
        ax, **kwargs
            As in `from_certificate`.

        Returns
        -------
        CertificateDisplay
            The display.
        """
        cls._require_matplotlib()
        model = check_fitted(estimator)
        tested = state_test(model, X_test, y_test)
        return cls._of(model.certificate_, tested, model.classes_.size).plot(ax, **kwargs)

    @classmethod
    def _of(cls, certificate: Certificate, tested: Statement | None, n_classes: int | None) -> CertificateDisplay:
        rows = certificate.rows(tested)
        chance, label = _error_of_guessing(certificate, n_classes), "guessing"
        if certificate.is_zero_one and certificate.commonest_class is not None:
            name, chance = certificate.commonest_class
            label = f"always {name_class(name, _LONGEST_NAME)}"
        return cls(
            rows,
            loss=certificate.loss,
            delta=certificate.delta,
            not_covered=[i for i, row in enumerate(rows) if not row.covered],
            chance=chance,
            chance_label=label,
        )

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> CertificateDisplay:
        """Plot the bars.

        Parameters
        ----------
        ax : Axes, optional
            Axes to plot on; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            This display.
        """
        ax = self._start(ax, figsize=(6.4, 1.0 + 0.5 * len(self.rows)))
        values = [row.value for row in self.rows]
        fill = [LIGHT_GREY if row.kind == "measured" else BLUE for row in self.rows]
        style = {
            "height": 0.6,
            "linewidth": 1,
            "edgecolor": [GREY if row.kind == "measured" else BLUE for row in self.rows],
            "color": ["white" if i in self.not_covered else colour for i, colour in enumerate(fill)],
            "hatch": ["////" if i in self.not_covered else "" for i in range(len(fill))],
        }
        self.bars_ = ax.barh(range(len(values)), values, **{**style, **kwargs})
        self.values_ = [_write_value(ax, height, row) for height, row in enumerate(self.rows)]
        # Bars that prove nothing may run out of the axis.
        end = max(1.05 if value >= 1 else value / (1 - _VALUE_SHARE) for value in values) or 1.0
        self._mark_guessing(ax, end)
        ax.set_xlim(0, end)
        ax.set_ylim(len(values) - 0.4, -0.6)
        ax.set_yticks(range(len(values)), [f"{row.label}\n{row.predictor}" for row in self.rows], parse_math=False)
        which = "other bounds hold" if self.not_covered else "each bound holds"
        confidence = format_confidence(self.delta)
        ax.set_xlabel(f"{self.loss_label}; {which} with probability {confidence}", parse_math=False)
        if self.not_covered:
            # Above the label of guessing.
            self._mark_not_strict("the hatched bounds", pad=None if self.chance_ is None else 18.0)
        return self

    @property
    def loss_label(self) -> str:
        """What the axis shows."""
        unit = largest_cost(self.loss)
        return f"{describe_loss(self.loss)} loss" if unit is None else f"mean cost, in units of {unit}"

    def _mark_guessing(self, ax: Axes, end: float) -> None:
        self.chance_ = None
        if self.chance is None or self.chance > end:
            return
        self.chance_ = ax.axvline(self.chance, color=BLACK, linestyle=":", linewidth=1.2, zorder=0)
        ax.annotate(
            f"{self.chance_label} {format_nearest(self.chance)}",
            (self.chance, 1),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
            parse_math=False,
        )


def _write_value(ax: Axes, height: int, row: Row) -> Text:
    """Write the value of a bar beside it, or inside if the bar reaches the end of the axis."""
    inside = row.value >= 1
    return ax.annotate(
        row.shown,
        (min(row.value, 1), height),
        xytext=(-4 if inside else 4, 0),
        textcoords="offset points",
        ha="right" if inside else "left",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


def _error_of_guessing(certificate: Certificate, n_classes: int | None) -> float | None:
    """Return the zero-one loss of guessing one of the classes at random; None for other losses."""
    if n_classes is None:
        return None
    count = scalar("n_classes", whole_number("n_classes", n_classes, 2))
    return 1 - 1 / count if certificate.is_zero_one else None
