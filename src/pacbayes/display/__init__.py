r"""Pictures of a bound, a posterior, a pool and a certificate, in the style of scikit-learn's displays.

A display is made by one of its ``from_...`` methods, which compute what is to be seen and draw it, or from figures that
are known already, to be drawn by `plot`. What was drawn is kept in attributes that end with an underscore: `ax_`,
`figure_` and the artists. Labels such as ``Theorem global-min`` are those of Thiemann, Igel, Wintenberger, Seldin, "A
Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017).

Matplotlib is imported where something is drawn: ``pip install "pacbayes[plots]"``.
"""

from pacbayes.display._bound import BoundDisplay
from pacbayes.display._certificate import Bar, CertificateDisplay
from pacbayes.display._pool_size import PoolSizeDisplay
from pacbayes.display._posterior import PosteriorDisplay

__all__ = ["Bar", "BoundDisplay", "CertificateDisplay", "PoolSizeDisplay", "PosteriorDisplay"]
