"""The certificate as a bar chart of losses and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from pacbayes._formatting import format_confidence, format_nearest
from pacbayes._losses import MEANS, ZERO_ONE, describe_loss, find_cap, is_of_numbers, largest_cost
from pacbayes._validation import scalar, whole_number
from pacbayes.certificate import Certificate, Row, Statement, name_class
from pacbayes.display._base import BLACK, BLUE, GREY, LIGHT_GREY, Display
from pacbayes.display.checks import check_certificate, check_fitted, state_test

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Share of the axis that the value next to the longest bar takes.
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
    chance : float, optional
        Error to compare with: of always predicting the commonest class, or of guessing at random.
    chance_label : str, default="guessing"
        What `chance` is the error of.

    Attributes
    ----------
    bars_ : BarContainer
        The bars.
    values_ : list of Text
        Their values, written next to them.
    chance_ : Line2D or None
        Line at the error to compare with; None if it is not known, or far beyond the largest bar.

    Examples
    --------
    >>> from pacbayes import certify
    >>> from pacbayes.display import CertificateDisplay
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> display = CertificateDisplay.from_certificate(certificate)
    >>> [text.get_text() for text in display.values_[:3]]
    ['0.1003', '0.1528', '0.1527']
    """

    rows: Sequence[Row]
    _: KW_ONLY
    loss: str
    delta: float
    chance: float | None = None
    chance_label: str = "guessing"

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
        ax, **kwargs
            As in `plot`.
        """
        check_certificate(certificate)
        count = None if n_classes is None else scalar("n_classes", whole_number("n_classes", n_classes, 2))
        chance, label = None, "guessing"
        if certificate.is_zero_one and certificate.commonest_class is not None:
            name, chance = certificate.commonest_class
            label = f"always {name_class(name, _LONGEST_NAME)}"
        elif certificate.is_zero_one and count is not None:
            chance = 1 - 1 / count
        rows = certificate.rows(tested)
        display = cls(rows, loss=certificate.loss, delta=certificate.delta, chance=chance, chance_label=label)
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X_test: Any = None, y_test: Any = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> CertificateDisplay:
        """Plot the certificate of a classifier or regressor, and what a test set proves about its predictions.

        The test-set bound, that of `PACBayesClassifier.certify`, holds with the same probability as the certificate,
        but not both at once with that probability: each may fail with probability delta. There is none for losses of
        probabilities, which are not losses of what `predict` does.

        Parameters
        ----------
        estimator : PACBayesClassifier or PACBayesRegressor
            Fitted estimator.
        X_test, y_test : array-like, optional
            Independent points and targets that were not used in training: rows of the training sample are refused.
        ax, **kwargs
            As in `plot`.
        """
        model = check_fitted(estimator)
        tested = state_test(model, X_test, y_test)
        n_classes = model.fitted_votes_.task.classes.size if model.certificate_.is_zero_one else None
        return cls.from_certificate(model.certificate_, n_classes=n_classes, tested=tested, ax=ax, **kwargs)

    @property
    def covered(self) -> bool:
        """Whether the theorem covers all of the bounds."""
        return all(row.covered for row in self.rows)

    @property
    def loss_label(self) -> str:
        """What the axis shows."""
        if is_of_numbers(self.loss):
            return MEANS[find_cap(self.loss)[0]]
        if self.loss == ZERO_ONE.name:
            return "share of errors"
        unit = largest_cost(self.loss)
        return f"{describe_loss(self.loss)} loss" if unit is None else f"mean cost, in units of {unit}"

    @property
    def _figsize(self) -> tuple[float, float]:
        return 6.4, 1.0 + 0.5 * len(self.rows)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        fill, edge = {"measured": LIGHT_GREY}, {"measured": GREY}
        style = {
            "height": 0.6,
            "linewidth": 1,
            "edgecolor": [edge.get(row.kind, BLUE) for row in self.rows],
            "color": [fill.get(row.kind, BLUE) if row.covered else "white" for row in self.rows],
            "hatch": ["" if row.covered else "////" for row in self.rows],
        }
        heights, values = range(len(self.rows)), [row.value for row in self.rows]
        self.bars_ = ax.barh(heights, values, **{**style, **kwargs})
        self.values_ = [self._write_value(height, row) for height, row in enumerate(self.rows)]
        # Bars that prove nothing may run out of the axis.
        end = max(1.05 if _is_whole(row) else row.value / (1 - _VALUE_SHARE) for row in self.rows) or 1.0
        self._mark_chance(ax, end)
        ax.set(xlim=(0, end), ylim=(len(values) - 0.4, -0.6))
        ax.set_yticks(heights, [f"{row.label}\n{row.predictor}" for row in self.rows], parse_math=False)
        which = "each bound holds" if self.covered else "other bounds hold"
        confidence = format_confidence(self.delta)
        ax.set_xlabel(f"{self.loss_label}; {which} with probability {confidence}", parse_math=False)
        if not self.covered:
            # Above the label of chance.
            self._mark_not_strict("the hatched bounds", pad=None if self.chance_ is None else 18.0)

    def _mark_chance(self, ax: Axes, end: float) -> None:
        self.chance_ = None
        if self.chance is None or self.chance > end:
            return
        self.chance_ = ax.axvline(self.chance, color=BLACK, linestyle=":", linewidth=1.2, zorder=0)
        # To the left, where the labels of the bars leave room for it on narrow figures.
        words, style = f"{self.chance_label} {format_nearest(self.chance)}", {"ha": "right", "va": "bottom"}
        above = ax.get_xaxis_transform()
        self._write(words, (self.chance, 1), (0, 3), xycoords=above, **style, fontsize="small", parse_math=False)

    def _write_value(self, height: int, row: Row) -> Text:
        """Write the value of a bar next to it, or inside if the bar reaches the end of the axis."""
        offset, side = (-4, "right") if _is_whole(row) else (4, "left")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        place = 1.0 if _is_whole(row) else row.value
        return self._write(row.shown, (place, height), (offset, 0), ha=side, va="center", bbox=box)

    def _write(self, words: str, at: tuple[float, float], offset: tuple[int, int], **style: Any) -> Text:
        """Write some words at an offset, in points, from a place."""
        return self.ax_.annotate(words, at, xytext=offset, textcoords="offset points", **style)


def _is_whole(row: Row) -> bool:
    """Return whether a bar has the length of all losses in [0, 1], or more."""
    return row.value >= 1 and not row.unit
