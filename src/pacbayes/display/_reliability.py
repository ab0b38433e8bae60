"""Plot how often predictions are right against their probability."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import format_confidence, format_upper
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.display._base import BLUE, GREY, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
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
    def from_certificate(cls, certificate: Certificate, *, ax: Axes | None = None, **kwargs: Any) -> ReliabilityDisplay:
        """Plot what a certificate proves about probabilities.

        Parameters
        ----------
        certificate : Certificate
            A certificate with `probabilities`: that of a vote that was tested on held-out points.
        ax, **kwargs
            As in `plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        proved = certificate.probabilities
        if proved is None:
            raise ValueError("certificate must have `probabilities`, which need a vote and held-out points")
        values = np.array([[one.mean, one.measured, *one.limits] for one in proved.bins if one.n])
        return cls(*values.T, delta=certificate.delta, bound=proved.bound).plot(ax, **kwargs)

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
