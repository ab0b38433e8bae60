"""Plots of what held-out points prove: by the share that is answered, by the size of errors, by probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pacbayes._formatting import format_confidence, format_upper
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.display._base import BLACK, BLUE, GREY, SHADE, Display
from pacbayes.display.checks import check_certificate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class HeldOutDisplay(Display):
    """Base class of displays of what a certificate proves by held-out points."""

    @classmethod
    def from_certificate(cls, certificate: Certificate, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot what a certificate proves.

        Parameters
        ----------
        certificate : Certificate
            That of a vote, or of a regressor for errors of numbers, which was tested on held-out points.
        ax, **kwargs
            As in `plot`.
        """
        return cls._read(check_certificate(certificate)).plot(ax, **kwargs)

    @classmethod
    def _read(cls, certificate: Certificate) -> Self:
        """Return the display of a certificate, not drawn yet."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class AbstentionDisplay(HeldOutDisplay):
    """Plot of the error among answered points, proved and measured, against the share of points that is answered.

    Use `from_certificate`.

    Parameters
    ----------
    share : ndarray of shape (k,)
        Share of the held-out points that is answered at each threshold.
    proved : ndarray of shape (k,)
        Bounds on the error among answered points, which hold all at once.
    measured : ndarray of shape (k,)
        Error among the held-out points that are answered; NaN where there are none.
    delta : float
        Probability with which the bounds may fail.
    bound : float
        Bound on the error among all points, alone.

    Attributes
    ----------
    proved_, measured_, bound_ : Line2D
        The lines.

    Examples
    --------
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.display import AbstentionDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.3, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(X, y)
    >>> display = AbstentionDisplay.from_certificate(model.certificate_)
    >>> bool((display.proved >= display.measured).all())
    True
    """

    share: Array
    proved: Array
    measured: Array
    _: KW_ONLY
    delta: float
    bound: float

    @classmethod
    def _read(cls, certificate: Certificate) -> Self:
        rows = certificate.abstention
        if not rows:
            raise ValueError("certificate must have `abstention`, which needs a vote and held-out points")
        share = np.array([row.answered[0] / rows[0].n for row in rows])
        measured = [np.nan if row.measured_error is None else row.measured_error for row in rows]
        proved = np.array([row.bound for row in rows])
        # Of a loss other than the share of errors, the bound on all points is not one of errors.
        bound = certificate.bound if certificate.is_zero_one else rows[0].bound
        return cls(share, proved, np.array(measured), delta=certificate.delta, bound=bound)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        label = f"proved, all at once\nwith probability {format_confidence(self.delta)}"
        self.proved_ = self._plot_line(self.share, self.proved, kwargs, color=BLUE, marker="o", label=label)
        style: dict[str, Any] = {"color": GREY, "linestyle": "--", "marker": "x"}
        self.measured_ = ax.plot(self.share, self.measured, label="measured on held-out points", **style)[0]
        label = f"proved for all points alone: {format_upper(self.bound)}"
        self.bound_ = ax.axhline(self.bound, color=BLACK, linestyle=":", label=label)
        ax.set(xlabel="share of points that is answered", ylabel="error among answered points")
        # Where hardly any points are answered, next to nothing is proved: that would leave no room for the rest.
        shown = [self.bound, *self.proved[self.share >= 0.25]]
        ax.set_ylim(0, min(1.0, 1.15 * max(shown)))
        self.legend_ = ax.legend()


@dataclass(eq=False, repr=False)
class ErrorCurveDisplay(HeldOutDisplay):
    """Plot of the share of points that are off by no more than an error, proved and measured, against the error.

    Use `from_certificate`.

    Parameters
    ----------
    error : ndarray of shape (k,)
        Errors in the unit of the target, rising.
    proved : ndarray of shape (k,)
        Lower bounds on the share of new points that are off by no more than each, which hold all at once.
    measured : ndarray of shape (k,)
        Share of the held-out points.
    delta : float
        Probability with which the bounds may fail.

    Attributes
    ----------
    proved_, measured_ : Line2D
        The lines.
    band_ : PolyCollection
        What is not excluded: all above the bounds.

    Examples
    --------
    >>> from pacbayes import PACBayesRegressor
    >>> from pacbayes.display import ErrorCurveDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> X, y = make_friedman1(300, random_state=0)
    >>> model = PACBayesRegressor(Ridge(), n_hypotheses=4, random_state=0).fit(X, y)
    >>> display = ErrorCurveDisplay.from_certificate(model.certificate_)
    >>> bool((display.proved <= display.measured).all())
    True
    """

    error: Array
    proved: Array
    measured: Array
    _: KW_ONLY
    delta: float

    @classmethod
    def _read(cls, certificate: Certificate) -> Self:
        error, measured, proved = np.array(certificate.error_curve()).T
        return cls(error, proved, measured, delta=certificate.delta)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        # Between two errors, at least as many points are below as at the smaller one.
        step: dict[str, Any] = {"step": "post", "color": SHADE, "linewidth": 0}
        error, proved = np.append(0.0, self.error), np.append(0.0, self.proved)
        self.band_ = ax.fill_between(error, proved, 1.0, **step)
        label = f"at least, all at once\nwith probability {format_confidence(self.delta)}"
        self.proved_ = self._plot_line(error, proved, kwargs, color=BLUE, drawstyle="steps-post", label=label)
        measured = np.append(0.0, self.measured)
        self.measured_ = ax.plot(error, measured, color=GREY, linestyle="--", label="measured on held-out points")[0]
        # Beyond the error that no held-out point exceeds, nothing changes.
        all_below = self.error[self.measured >= 1]
        end = float(all_below[0]) * 1.25 if all_below.size else float(self.error[-1])
        ax.set(xlabel="error, in the unit of the target", ylabel="share of points off by no more")
        ax.set(xlim=(0, min(end, float(self.error[-1]))), ylim=(0, 1.02))
        self.legend_ = ax.legend(loc="lower right")


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(HeldOutDisplay):
    """Plot of the share of predictions that are right, measured and with proved limits, against their probability.

    Use `from_certificate`.

    Parameters
    ----------
    mean : ndarray of shape (k,)
        Mean of the winner's probability at the held-out points of each bin that has some.
    measured : ndarray of shape (k,)
        Share of these points at which the prediction is right.
    low, high : ndarray of shape (k,)
        Limits of the share that is right, which hold for all bins at once.
    delta : float
        Probability with which the limits may fail.
    bound : float
        Bound on the Brier score, a statement of its own.

    Attributes
    ----------
    measured_, diagonal_ : Line2D
        The lines.
    limits_ : LineCollection
        The limits.

    Examples
    --------
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.display import ReliabilityDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.3, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(X, y)
    >>> display = ReliabilityDisplay.from_certificate(model.certificate_)
    >>> bool((display.low <= display.measured).all() and (display.measured <= display.high).all())
    True
    """

    mean: Array
    measured: Array
    low: Array
    high: Array
    _: KW_ONLY
    delta: float
    bound: float

    @classmethod
    def _read(cls, certificate: Certificate) -> Self:
        proved = certificate.probabilities
        if proved is None:
            raise ValueError("certificate must have `probabilities`, which need a vote and held-out points")
        values = np.array([[one.mean, one.measured, *one.limits] for one in proved.bins if one.n])
        return cls(*values.T, delta=certificate.delta, bound=proved.bound)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        label = f"limits, all at once\nwith probability {format_confidence(self.delta)}"
        self.limits_ = ax.vlines(self.mean, self.low, self.high, color=BLUE, alpha=0.5, linewidth=3, label=label)
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "linestyle": "none"}
        self.measured_ = self._plot_line(self.mean, self.measured, kwargs, label="measured on held-out points", **style)
        label = f"calibrated; Brier score at most {format_upper(self.bound)}"
        start = min(self.low.min(), self.mean.min())
        self.diagonal_ = ax.plot([start, 1], [start, 1], color=GREY, linestyle="--", label=label)[0]
        ax.set(xlabel="probability of the prediction", ylabel="share that is right")
        self.legend_ = ax.legend()
