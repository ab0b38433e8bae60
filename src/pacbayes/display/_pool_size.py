"""Plot bound, validation loss and test error as functions of the number of hypotheses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from pacbayes._formatting import format_confidence
from pacbayes._validation import Array, whole_number
from pacbayes.bounds.prior import normalise_log_prior
from pacbayes.certificate import MAJORITY, certify
from pacbayes.display._base import BLACK, BLUE, RED, Display
from pacbayes.display.checks import check_fitted, check_test_labels
from pacbayes.votes import weighted_vote

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(eq=False, repr=False)
class PoolSizeDisplay(Display):
    r"""Plot of bound, validation loss and test error as functions of the number of hypotheses.

    Hypothesis h does not depend on the number of the others, so the first k hypotheses of a pool are those that a fit
    with ``n_hypotheses=k`` would have trained. Each of these smaller pools is weighted and certified from its
    validation losses. Use `from_estimator`.

    Parameters
    ----------
    sizes : ndarray of int of shape (k,)
        Numbers of hypotheses m, increasing.
    bound : ndarray of shape (k,)
        Bound for each m: on the randomised classifier, or on the best hypothesis where that predicts.
    validation_loss : ndarray of shape (k,)
        Validation loss of the posterior, :math:`E_\rho[\hat L]`, for each m.
    test_error : ndarray of shape (k,), optional
        Share of test points on which the majority vote errs, for each m.
    delta : float
        Probability with which each of the bounds may fail.
    bound_label : str, default="bound"
        By which method the bound was proved, and about whom.
    voter : str, default="majority vote"
        Whose test error it is.
    strict : bool, default=True
        Whether the theorem covers the bounds; the title says if it does not.

    Attributes
    ----------
    bound_, validation_loss_, test_error_ : Line2D
        The lines; `test_error_` is None without test points.

    Notes
    -----
    The bound at each m holds if m was chosen without looking at the data. To choose m by this plot is to choose it by
    the data, which no certificate here covers. To choose among k values of m by their bounds, certify each of them with
    delta / k.
    """

    sizes: NDArray[np.intp]
    bound: Array
    validation_loss: Array
    test_error: Array | None = None
    _: KW_ONLY
    delta: float
    bound_label: str = "bound"
    voter: str = MAJORITY
    strict: bool = True

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PoolSizeDisplay:
        """Plot the curves for the first m hypotheses of a classifier, for several numbers m.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        X_test, y_test : array-like, optional
            Points and labels that were not used in training, for the test error of the vote.
        sizes : array_like of int, optional
            Numbers of hypotheses m, increasing; by default about thirty, from 1 to all, evenly spaced on a logarithmic
            axis. A prior that is not uniform is restricted to the first m hypotheses and normalised.
        ax, **kwargs
            As in `plot`.
        """
        model = check_fitted(estimator)
        if model.fitted_votes_.task.numeric:
            raise TypeError(f"estimator must be a PACBayesClassifier, got {type(model).__name__}")
        labels = check_test_labels(X_test, y_test)
        losses, proved = model.losses_, model.certificate_
        if proved.n_dropped:
            raise ValueError(
                f"estimator must have validated all hypotheses: {proved.n_dropped} were dropped, fit with racing=False"
            )
        if not proved.follows_from_losses:
            raise ValueError(
                f"estimator must weigh hypotheses by their losses, and the objective is {proved.objective!r}: weights "
                "of the first ones alone are not known"
            )
        log_prior = None if model.prior_ is None else normalise_log_prior(model.prior_, losses.size)
        counts = _check_sizes(sizes, losses.size, log_prior)
        settings = {name: getattr(proved, name) for name in ("delta", "n_votes", "objective", "voting", "loss")}
        priors = (None if log_prior is None else log_prior[:m] - logsumexp(log_prior[:m]) for m in counts)
        fits = [
            certify(losses[:m], model.n_validation_[:m], prior=prior, **settings)
            for m, prior in zip(counts, priors, strict=True)
        ]
        # Of the randomised classifier, or of the best hypothesis where nothing else is certified.
        stated = [next(s for s in certificate.statements if s.predictor != MAJORITY) for certificate, _ in fits]
        # With validation sets of different sizes, small pools may be bounded by another method than large ones.
        methods = " or ".join(dict.fromkeys(statement.title for statement in stated))
        display = cls(
            counts,
            np.array([statement.bound for statement in stated]),
            np.array([certificate.empirical_loss for certificate, _ in fits]),
            None if labels is None else _test_votes(model, [rho for _, rho in fits], X_test, labels),
            delta=proved.delta,
            bound_label=f"{methods},\n{stated[-1].predictor}",
            voter=MAJORITY if proved.voting == "gibbs" else proved.predictor,
            strict=proved.strict,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        def line(values: Array | None, color: str, linestyle: str, marker: str, label: str) -> Line2D | None:
            style = {"color": color, "linestyle": linestyle, "marker": marker, "markersize": 4, "label": label}
            return None if values is None else self._plot_line(self.sizes, values, kwargs, **style)

        self.bound_ = line(self.bound, RED, "-", "s", self.bound_label)
        self.validation_loss_ = line(self.validation_loss, BLUE, "--", "o", r"validation loss $E_\rho[\hat L]$")
        self.test_error_ = line(self.test_error, BLACK, ":", "^", f"test error of the {self.voter}")
        self._show_counts(self.sizes[0], self.sizes[-1])
        ax.set_ylim(bottom=0)
        ax.set(xlabel="number of hypotheses $m$", ylabel="loss")
        each = f"each bound alone holds with probability {format_confidence(self.delta)}"
        self.legend_ = ax.legend(title=each if self.strict else None)
        if not self.strict:
            self._mark_not_strict("these bounds")


def _check_sizes(sizes: ArrayLike | None, m: int, log_prior: Array | None) -> NDArray[np.intp]:
    """Return the numbers of hypotheses; the smallest must include a hypothesis with prior mass."""
    smallest = 1 if log_prior is None else 1 + int(np.flatnonzero(log_prior > -np.inf)[0])
    if sizes is None:
        return np.unique(np.rint(np.geomspace(smallest, m, 30)).astype(np.intp))
    counts = whole_number("sizes", sizes)
    increases = counts.ndim == 1 and counts.size > 0 and np.all(np.diff(counts) > 0)
    if not increases or counts[0] < smallest or counts[-1] > m:
        why = f"; the first {smallest - 1} hypotheses have no prior mass" if smallest > 1 else ""
        raise ValueError(f"sizes must be an increasing sequence of numbers from {smallest} to {m}, got {sizes!r}{why}")
    return counts.astype(np.intp)


def _test_votes(model: Any, posteriors: list[Array], X_test: Any, labels: NDArray[Any]) -> Array:
    """Return the test error of the vote of the first hypotheses with each of the posteriors."""
    from sklearn.metrics import zero_one_loss

    classes = model.classes_
    votes = np.searchsorted(classes, model.predict_hypotheses(X_test))
    winners = [classes[weighted_vote(votes[: rho.size], rho, classes.size)] for rho in posteriors]
    return np.array([zero_one_loss(labels, winner) for winner in winners])
