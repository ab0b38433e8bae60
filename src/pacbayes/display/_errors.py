"""Plot how many predicted numbers are off by no more than an error."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import format_confidence
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.display._base import BLUE, GREY, SHADE, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ErrorCurveDisplay(Display):
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
    def from_certificate(cls, certificate: Certificate, *, ax: Axes | None = None, **kwargs: Any) -> ErrorCurveDisplay:
        """Plot what a certificate proves about the errors of predicted numbers.

        Parameters
        ----------
        certificate : Certificate
            A certificate with `numbers`: that of a regressor that was tested on held-out points.
        ax, **kwargs
            As in `plot`.

        Returns
        -------
        ErrorCurveDisplay
        """
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        error, measured, proved = np.array(certificate.error_curve()).T
        return cls(error, proved, measured, delta=certificate.delta).plot(ax, **kwargs)

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
