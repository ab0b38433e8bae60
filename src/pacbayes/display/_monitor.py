"""Plot what a monitor has seen: the error so far, its interval, and the threshold."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._formatting import format_confidence, format_upper
from pacbayes._validation import Array
from pacbayes.bounds import anytime_lower, anytime_upper
from pacbayes.certificate.monitor import Monitor
from pacbayes.display._base import BLACK, BLUE, GREY, RED, SHADE, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More are not told apart on the page.
_MOST_BATCHES = 400

# Points of which the share of errors is worth a mark of its own.
_FEWEST = 10


@dataclass(eq=False, repr=False)
class MonitorDisplay(Display):
    """Plot of the error that a monitor has counted, with its interval at all times, and of the threshold.

    Use `from_monitor`.

    Parameters
    ----------
    n : ndarray of int of shape (k,)
        Numbers of points, increasing.
    error : ndarray of shape (k,)
        Share of errors among the first n points. How many came since the n before is drawn as well, where it says
        something: of at least ten points each.
    lower, upper : ndarray of shape (k,)
        Limits of the mean error of these points, which hold for all n at once.
    threshold : float
        What the error may rise to.
    delta : float
        Probability with which the interval may ever fail.
    alarm_at : int, optional
        Number of points after which the alarm was raised.

    Attributes
    ----------
    error_, threshold_ : Line2D
        The lines.
    recent_ : Line2D or None
        Marks of the share of errors since the n before.
    interval_ : PolyCollection
        The interval.
    alarm_ : Line2D or None
        Line at the alarm; None if there was none.

    Examples
    --------
    >>> from pacbayes import Monitor, PACBayesClassifier
    >>> from pacbayes.display import MonitorDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(X[:300], y[:300])
    >>> monitor = Monitor(model.certificate_).update(y[300:], model.predict(X[300:]))
    >>> MonitorDisplay.from_monitor(monitor).alarm_ is None
    True
    """

    n: NDArray[np.int64]
    error: Array
    lower: Array
    upper: Array
    _: KW_ONLY
    threshold: float
    delta: float
    alarm_at: int | None = None

    @classmethod
    def from_monitor(cls, monitor: Monitor, *, ax: Axes | None = None, **kwargs: Any) -> MonitorDisplay:
        """Plot what a monitor has counted.

        Parameters
        ----------
        monitor : Monitor
            A monitor that has counted a batch. Of very many, some are drawn.
        ax, **kwargs
            As in `plot`.
        """
        if not isinstance(monitor, Monitor):
            raise TypeError(f"monitor must be a Monitor, got {type(monitor).__name__}")
        if not monitor.batches:
            raise ValueError("monitor must have counted a batch: there is nothing to draw")
        counts = np.cumsum([(one.n, one.errors) for one in monitor.batches], axis=0, dtype=np.int64)
        some = np.unique(np.linspace(0, len(counts) - 1, _MOST_BATCHES).round().astype(np.intp))
        n, errors = counts[some].T
        delta = monitor.delta / 2
        lower, upper = (bound(errors, n, delta / 2) for bound in (anytime_lower, anytime_upper))
        display = cls(n, errors / n, lower, upper, threshold=monitor.threshold, delta=delta, alarm_at=monitor.alarm_at)
        return display.plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        holds = f"its mean, at all times at once\nwith probability {format_confidence(self.delta)}"
        # One batch is a point, and its interval a bar.
        style: dict[str, Any] = {"color": SHADE, "linewidth": 6 if self.n.size == 1 else 0}
        self.interval_ = ax.fill_between(self.n, self.lower, self.upper, label=holds, **style)
        style = {"color": BLUE, "marker": "o", "markersize": 3, "label": "error so far, measured"}
        self.error_ = self._plot_line(self.n, self.error, kwargs, **style)
        size, wrong = np.diff(self.n, prepend=0), np.diff(self.n * self.error, prepend=0)
        recent = wrong / size if size.min() >= _FEWEST else self.error
        self.recent_ = None
        if self.n.size > 1 and size.min() >= _FEWEST:
            style = {"linestyle": "none", "marker": "x", "markersize": 5}
            self.recent_ = ax.plot(self.n, recent, color=GREY, label="error since the point before", **style)[0]
        label = f"certified, and tolerance: {format_upper(self.threshold)}"
        self.threshold_ = ax.axhline(self.threshold, color=BLACK, linestyle="--", label=label)
        self.alarm_ = None
        if self.alarm_at is not None:
            label = f"alarm, after {self.alarm_at} points"
            self.alarm_ = ax.axvline(self.alarm_at, color=RED, linestyle=":", label=label)
        ax.set(xlabel="labelled points", ylabel="error")
        ax.set_ylim(0, min(1.0, 1.3 * max(self.threshold, float(recent.max()), float(self.upper[-1]))))
        self.legend_ = ax.legend()
