r"""Plots of bounds, posteriors, pools, certificates, abstention, probabilities, predicted numbers and monitors.

As in scikit-learn, a display is made by one of its ``from_...`` methods, which compute what is plotted and plot it,
or from numbers that are known already, to be drawn by `plot`. Axes, figure and artists are kept in attributes that end
with an underscore: `ax_`, `figure_` and so on.

Matplotlib is imported when something is drawn: ``pip install "pacbayes[plots]"``.
"""

from pacbayes.display._bound import BoundDisplay
from pacbayes.display._certificate import CertificateDisplay
from pacbayes.display._held_out import AbstentionDisplay, ErrorCurveDisplay, ReliabilityDisplay
from pacbayes.display._intervals import IntervalDisplay
from pacbayes.display._monitor import MonitorDisplay
from pacbayes.display._pool_size import PoolSizeDisplay
from pacbayes.display._posterior import PosteriorDisplay

__all__ = [
    "AbstentionDisplay",
    "BoundDisplay",
    "CertificateDisplay",
    "ErrorCurveDisplay",
    "IntervalDisplay",
    "MonitorDisplay",
    "PoolSizeDisplay",
    "PosteriorDisplay",
    "ReliabilityDisplay",
]
