"""Plot the error among answered points against the share that is answered."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import format_confidence, format_upper
from pacbayes._validation import Array
from pacbayes.certificate import Certificate
from pacbayes.display._base import BLACK, BLUE, GREY, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class AbstentionDisplay(Display):
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
    def from_certificate(cls, certificate: Certificate, *, ax: Axes | None = None, **kwargs: Any) -> AbstentionDisplay:
        """Plot what a certificate proves where the vote abstains.

        Parameters
        ----------
        certificate : Certificate
            A certificate with `abstention`: that of a vote that was tested on held-out points.
        ax, **kwargs
            As in `plot`.

        Returns
        -------
        AbstentionDisplay
        """
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        rows = certificate.abstention
        if not rows:
            raise ValueError("certificate must have `abstention`, which needs a vote and held-out points")
        share = np.array([row.answered[0] / rows[0].n for row in rows])
        measured = [np.nan if row.measured_error is None else row.measured_error for row in rows]
        proved = np.array([row.bound for row in rows])
        # Of a loss other than the share of errors, the bound on all points is not one of errors.
        bound = certificate.bound if certificate.is_zero_one else rows[0].bound
        return cls(share, proved, np.array(measured), delta=certificate.delta, bound=bound).plot(ax, **kwargs)

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
