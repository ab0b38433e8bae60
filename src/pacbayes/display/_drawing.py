"""What the displays share: colours, axes, and checks of what is to be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pacbayes.classifier import PACBayesClassifier

# Okabe and Ito's colours, which colour-blind readers can tell apart. Dashes and markers differ as well, for greyscale.
BLACK, BLUE, RED, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
GREY, LIGHT_GREY, SHADE = "#666666", "#bbbbbb", "#d0e3f1"

# Numbers of hypotheses that differ by more than this factor are drawn on a logarithmic axis.
LOG_RANKS = 20


def require_matplotlib(display: type) -> None:
    """Say what to install, before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{display.__name__} needs Matplotlib: pip install "pacbayes[plots]"') from error


def axes(display: object, ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """The given axes, or those of a new figure."""
    require_matplotlib(type(display))
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def line_style(style: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Properties of a line, with those that were given, under whichever of their names, in place of ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**style, **normalize_kwargs(given, Line2D)}


def count_axis(ax: Axes, *, log: bool) -> None:
    """Whole numbers from left to right."""
    from matplotlib.ticker import MaxNLocator

    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def fitted(estimator: Any) -> PACBayesClassifier:
    from sklearn.utils.validation import check_is_fitted

    from pacbayes.classifier import PACBayesClassifier

    if not isinstance(estimator, PACBayesClassifier):
        raise TypeError(
            f"estimator must be a PACBayesClassifier, got {type(estimator).__name__}; of a pipeline, give the last "
            "step, and test points as they arrive there"
        )
    check_is_fitted(estimator)
    return estimator


def test_labels(X_test: Any, y_test: ArrayLike | None) -> NDArray[Any] | None:
    """Labels of the test points, or None if there are no test points."""
    if (X_test is None) != (y_test is None):
        missing = "X_test" if X_test is None else "y_test"
        raise ValueError(f"X_test and y_test must be given together, got no {missing}")
    if y_test is None:
        return None
    labels = np.asarray(y_test)
    n_points = X_test.shape[0] if hasattr(X_test, "shape") else len(X_test)
    if labels.shape != (n_points,) or n_points == 0:
        raise ValueError(
            f"y_test must hold one label for each of the {n_points} rows of X_test, and at least one, "
            f"got shape {labels.shape}"
        )
    return labels


def count_errors(labels: NDArray[Any], predicted: NDArray[Any]) -> int:
    from sklearn.metrics import accuracy_score

    return labels.size - int(accuracy_score(labels, predicted, normalize=False))
