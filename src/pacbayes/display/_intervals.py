"""Plot predicted numbers and their intervals beside the true ones."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._formatting import format_percent
from pacbayes._validation import Array
from pacbayes.display._base import BLACK, BLUE, LIGHT_GREY, RED, Display
from pacbayes.display.checks import check_fitted, check_test_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More are not told apart on the page.
_MOST_POINTS = 300


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Plot of true against predicted numbers with their intervals, or of errors against the widths of intervals.

    Use `from_estimator`. Points outside of their intervals are red crosses.

    Parameters
    ----------
    target, predicted : ndarray of shape (n,)
        True and predicted numbers.
    lower, upper : ndarray of shape (n,)
        Ends of the intervals.
    coverage : float
        Share of new points that the intervals are proved to hold.

    Attributes
    ----------
    inside_, outside_ : Line2D
        Points inside and outside of their intervals.
    intervals_ : LineCollection or None
        The intervals; None where widths are on an axis.
    line_ : Line2D
        Where predictions are right; or where errors reach the ends of intervals.

    Examples
    --------
    >>> from pacbayes import PACBayesRegressor
    >>> from pacbayes.display import IntervalDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> X, y = make_friedman1(400, random_state=0)
    >>> model = PACBayesRegressor(Ridge(), n_hypotheses=4, random_state=0).fit(X[:300], y[:300])
    >>> display = IntervalDisplay.from_estimator(model, X[300:], y[300:], coverage=0.8)
    >>> bool(display.inside.mean() > 0.7)
    True
    """

    _KINDS = ("predicted", "widths")

    target: Array
    predicted: Array
    lower: Array
    upper: Array
    _: KW_ONLY
    coverage: float

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether each point is inside its interval."""
        return (self.lower <= self.target) & (self.target <= self.upper)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        coverage: float = 0.9,
        kind: Literal["predicted", "widths"] = "predicted",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> IntervalDisplay:
        """Plot predictions of a regressor and their intervals for points with known targets.

        Parameters
        ----------
        estimator : PACBayesRegressor
            Fitted regressor, tested on held-out points.
        X, y : array-like
            Points and their targets. Those that the regressor was trained on look better than new ones.
        coverage : float, default=0.9
            As in `PACBayesRegressor.predict_interval`.
        kind : {"predicted", "widths"}, default="predicted"
            Whether to plot true against predicted numbers, or errors against widths. Of very many points, some are
            drawn.
        ax, **kwargs
            As in `plot`.
        """
        model = check_fitted(estimator)
        if not hasattr(model, "predict_interval"):
            raise TypeError(f"estimator must be a PACBayesRegressor, got {type(model).__name__}")
        target = check_test_labels(X, y)
        if target is None:
            raise ValueError("X and y must be given: there is nothing to draw")
        rows = model.open_rows(X, target)
        lower, upper = model.predict_interval(rows, coverage).T
        display = cls(rows.sample.codes, model.predict(rows), lower, upper, coverage=float(coverage))
        return display.plot(ax, kind=kind, **kwargs)

    def _draw(self, ax: Axes, *, kind: Literal["predicted", "widths"] = "predicted", **kwargs: Any) -> None:
        inside, held = self.inside, format_percent(float(self.inside.mean()))
        # Points come in no order that matters, but files may be sorted.
        some = np.sort(np.random.default_rng(0).permutation(inside.size)[:_MOST_POINTS])
        self.intervals_ = None
        if kind == "predicted":
            x, y = self.predicted[some], self.target[some]
            color, label = LIGHT_GREY, f"interval: {self.coverage:.0%} or more, proved"
            self.intervals_ = ax.vlines(x, self.lower[some], self.upper[some], color=color, linewidth=1, label=label)
            ends = (float(min(x.min(), y.min())), float(max(x.max(), y.max())))
            names = {"xlabel": "predicted", "ylabel": "true"}
        else:
            x, y = (self.upper - self.lower)[some] / 2, np.abs(self.target - self.predicted)[some]
            ends = (0.0, float(x.max()))
            names = {"xlabel": "half the width of the interval", "ylabel": "error"}
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 3, "linestyle": "none"}
        label = f"inside, {held} of {inside.size} points"
        self.inside_ = self._plot_line(x[inside[some]], y[inside[some]], kwargs, label=label, **style)
        style = {"color": RED, "marker": "x", "markersize": 5, "linestyle": "none"}
        self.outside_ = ax.plot(x[~inside[some]], y[~inside[some]], label="outside", **style)[0]
        right = "prediction = truth" if kind == "predicted" else "end of the interval"
        self.line_ = ax.plot(ends, ends, color=BLACK, linestyle=":", linewidth=1, label=right)[0]
        ax.set(**names)
        self.legend_ = ax.legend()
