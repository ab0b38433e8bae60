r"""Pictures of a bound, a posterior, a pool and a certificate, in the style of scikit-learn's displays.

A display is made by one of its ``from_...`` methods, which compute what is to be seen and draw it, or from figures that
are known already, to be drawn by `plot`. What was drawn is kept in attributes that end with an underscore: `ax_`,
`figure_` and the artists. Labels such as ``Theorem global-min`` are those of Thiemann, Igel, Wintenberger, Seldin, "A
Strongly Quasiconvex PAC-Bayesian Bound" (ALT 2017).

Matplotlib is imported where something is drawn: ``pip install "pacbayes[plots]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._validation import (
    Array,
    finite_nonnegative,
    loss_vector,
    n_and_delta,
    open_interval,
    scalar,
    whole_number,
)
from pacbayes.bounds import clopper_pearson, pac_bayes_lambda, pac_bayes_sqrt, tail
from pacbayes.certificate import Certificate, _delta_for_smallest, certify
from pacbayes.gibbs import GibbsCurve
from pacbayes.posterior import lambda_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import QuasiconvexityReport, check_quasiconvexity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    from pacbayes.classifier import PACBayesClassifier

__all__ = ["Bar", "BoundDisplay", "CertificateDisplay", "PoolSizeDisplay", "PosteriorDisplay"]

Kind = Literal["mass", "cumulative"]

# Okabe and Ito's colours, which colour-blind readers can tell apart. Dashes and markers differ as well, for greyscale.
_BLACK, _BLUE, _RED, _GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
_GREY, _LIGHT_GREY, _SHADE = "#666666", "#bbbbbb", "#d0e3f1"

# Near lambda = 0, F grows without limit: by default the curve begins where F is this many times its minimum.
_HIGHEST = 2.0

# Numbers that differ by more than these factors are drawn on a logarithmic axis.
_LOG_LAMBDA, _LOG_RANKS = 50, 20


class BoundDisplay:
    r"""The PAC-Bayes-lambda bound of the Gibbs posterior as a function of lambda, its minimum, and its shape.

    Use `from_estimator` or `from_losses`.

    Parameters
    ----------
    lam : ndarray of shape (k,)
        Values of lambda, rising.
    bound : ndarray of shape (k,)
        :math:`F(\lambda)` at each of them.
    minimum_lam : float
        The lambda of the global minimum.
    minimum : float
        The global minimum.
    lower : float
        A proved lower bound on :math:`F(\lambda)` for all lambda.
    condition_holds : ndarray of bool of shape (k,)
        Whether eq. KL-cond or eq. E-cond of Theorem global-min holds, at each lambda.
    report : QuasiconvexityReport
        What is proved about the shape of F.
    posterior_lam : float, optional
        The lambda of a posterior that minimises another bound.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it was drawn.
    line_ : Line2D
        The curve.
    minimum_ : Line2D or None
        Marker of the minimum; None if it is out of the range of `lam`.
    posterior_ : Line2D or None
        Marker of `posterior_lam`; None if there is none in the range of `lam`.
    lower_ : Line2D
        Line of the lower bound.
    condition_ : PolyCollection
        Shade where a condition holds.
    vacuous_ : Line2D or None
        Line at 1, where nothing is proved; None if the curve stays below.
    legend_ : Legend
        Legend, with the verdict of `report` for a title.

    Notes
    -----
    The shade tells where the conditions hold, lambda by lambda. The proof for all lambda at once is the report's, and
    may rest on other conditions of the paper: the legend says on which.

    Examples
    --------
    >>> from pacbayes.display import BoundDisplay
    >>> display = BoundDisplay.from_losses([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> round(display.minimum, 4), round(display.minimum_lam, 4), display.report.condition
    (0.1771, 0.4339, 'trivial')
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    minimum_: Line2D | None
    posterior_: Line2D | None
    lower_: Line2D
    condition_: PolyCollection
    vacuous_: Line2D | None
    legend_: Legend

    def __init__(
        self,
        lam: Array,
        bound: Array,
        *,
        minimum_lam: float,
        minimum: float,
        lower: float,
        condition_holds: NDArray[np.bool_],
        report: QuasiconvexityReport,
        posterior_lam: float | None = None,
    ) -> None:
        self.lam = lam
        self.bound = bound
        self.minimum_lam = minimum_lam
        self.minimum = minimum
        self.lower = lower
        self.condition_holds = condition_holds
        self.report = report
        self.posterior_lam = posterior_lam

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        n: int,
        *,
        n_max: int | None = None,
        delta: float = 0.05,
        prior: ArrayLike | None = None,
        lam_range: tuple[float, float] | None = None,
        grid_resolution: int = 300,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        r"""Draw the bound for the losses of hypotheses.

        Parameters
        ----------
        losses : array_like of shape (m,)
            Empirical losses in [0, 1].
        n : int
            Number of points each loss was measured on; the smallest, if they differ.
        n_max : int, optional
            The largest such number; `n` by default. As in a certificate, F is then that of the smallest number, with
            :math:`\ln(2 \sqrt{n_{max}} / \delta)`.
        delta : float, default=0.05
            Probability with which the bound may fail, in (0, 1).
        prior : array_like of shape (m,), optional
            Prior as probabilities or log-probabilities; uniform by default.
        lam_range : (float, float), optional
            Smallest and largest lambda, in (0, 2). By default, (0, 1] without its beginning, where F is more than
            twice its minimum, and than F(1).
        grid_resolution : int, default=300
            Number of values of lambda, at least 2. The minimum and 1 are added to them.
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the curve, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        BoundDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        n_min = int(n_and_delta(n, delta)[0])
        n_largest = n_min if n_max is None else int(scalar("n_max", whole_number("n_max", n_max, n_min)))
        display = cls._of(losses, n_min, n_largest, delta, prior, lam_range, grid_resolution, None)
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: PACBayesClassifier,
        *,
        lam_range: tuple[float, float] | None = None,
        grid_resolution: int = 300,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> BoundDisplay:
        """Draw the bound that a classifier has minimised, or would have minimised.

        With validation sets of different sizes, F is that of the certificate: of the smallest of them, with the price
        in delta of the largest. A posterior that minimises the kl bound, ``objective="kl"``, is not at the minimum of
        F: its lambda is marked too.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        lam_range, grid_resolution, ax, **kwargs
            As in `from_losses`. By default the range ends with the lambda of the posterior, if that is above 1.

        Returns
        -------
        BoundDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        model = _fitted(estimator)
        proved = model.certificate_
        other_lam = proved.lam if proved.objective == "kl" else None
        display = cls._of(
            model.losses_,
            proved.n_validation,
            proved.n_validation_max,
            proved.delta,
            model.prior,
            lam_range,
            grid_resolution,
            other_lam,
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def _of(
        cls,
        losses: ArrayLike,
        n: int,
        n_max: int,
        delta: float,
        prior: ArrayLike | None,
        lam_range: tuple[float, float] | None,
        grid_resolution: int,
        posterior_lam: float | None,
    ) -> BoundDisplay:
        # With unequal validation sets the theorem holds for the smallest of them, at this delta.
        delta_min = _delta_for_smallest(delta, n, n_max)
        best = minimize_lambda_bound(losses, n, delta=delta_min, prior=prior, method="global")
        assert best.lower is not None
        resolution = int(scalar("grid_resolution", whole_number("grid_resolution", grid_resolution, 2)))
        if lam_range is None:
            begin = np.geomspace(best.lam / 1000, best.lam, 200)
            highest = max(_HIGHEST * best.fun, lambda_bound(losses, 1.0, n, delta_min, prior))
            low_enough = lambda_bound(losses, begin, n, delta_min, prior) <= highest * (1 + 1e-9)
            low, high = float(begin[np.argmax(low_enough)]), 1.0
            if posterior_lam is not None and 1 < posterior_lam < 2:
                high = posterior_lam
        else:
            ends = open_interval("lam_range", lam_range, 0, 2)
            if ends.shape != (2,) or not ends[0] < ends[1]:
                raise ValueError(f"lam_range must be two numbers, the smaller one first, got {lam_range!r}")
            low, high = map(float, ends)
        lam = np.geomspace(low, high, resolution)
        lam[[0, -1]] = low, high  # to the last digit
        lam = np.union1d(lam, [at for at in (1.0, best.lam, posterior_lam) if at is not None and low <= at <= high])
        point = GibbsCurve(losses, n, prior).at(n * lam)
        # eq. KL-cond, with ln(4 n / delta^2) = 2 ln(2 sqrt(n) / delta), and eq. E-cond.
        kl_cond = 2 * (point.kl_div + tail(n, delta_min)) > (lam * n) ** 2 * point.var
        e_cond = point.loss > (1 - lam) * n * point.var
        return cls(
            lam,
            lambda_bound(losses, lam, n, delta_min, prior),
            minimum_lam=best.lam,
            minimum=best.fun,
            lower=best.lower,
            # The theorem is about lambda up to 1, where all stationary points are.
            condition_holds=(kl_cond | e_cond) & (lam <= 1),
            report=check_quasiconvexity(losses, n, delta=delta_min, prior=prior),
            posterior_lam=posterior_lam,
        )

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> BoundDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the curve, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        BoundDisplay
            This display, with what was drawn.
        """
        ax = self.ax_ = _axes(self, ax)
        self.figure_ = ax.figure
        self.condition_ = ax.fill_between(
            self.lam,
            0,
            1,
            where=self.condition_holds,
            transform=ax.get_xaxis_transform(),
            facecolor=_SHADE,
            edgecolor="none",
            zorder=0,
            label="a condition of Theorem global-min holds",
        )
        style = {"color": _BLUE, "linewidth": 2, "label": r"PAC-Bayes-$\lambda$ bound $F(\lambda)$"}
        (self.line_,) = ax.plot(self.lam, self.bound, **_line_style(style, kwargs))
        self.lower_ = ax.axhline(
            self.lower, color=_BLACK, linestyle="--", linewidth=1, label=f"proved lower bound {self.lower:.4g}"
        )
        self.minimum_ = self._marker(
            self.minimum_lam, rf"minimum {self.minimum:.4g} at $\lambda$ = {self.minimum_lam:.3g}", "o", _RED
        )
        self.posterior_ = None
        if self.posterior_lam is not None:
            label = rf"posterior of the kl bound, $\lambda$ = {self.posterior_lam:.3g}"
            self.posterior_ = self._marker(self.posterior_lam, label, "D", _GREEN)
        self.vacuous_ = None
        if np.max(self.bound) >= 1:
            self.vacuous_ = ax.axhline(
                1, color=_GREY, linestyle=":", linewidth=1, label="nothing is proved from here up"
            )
        if self.lam[-1] / self.lam[0] > _LOG_LAMBDA:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel(r"trade-off $\lambda$")
        ax.set_ylabel("bound on the expected loss")
        # The shade ends with the range: beside it nothing was looked at.
        ax.margins(x=0)
        self.legend_ = ax.legend(title=self._verdict())
        return self

    def _marker(self, lam: float, label: str, marker: str, colour: str) -> Line2D | None:
        if not self.lam[0] <= lam <= self.lam[-1]:
            return None
        height = self.bound[np.searchsorted(self.lam, lam)]
        return self.ax_.plot(
            [lam],
            [height],
            linestyle="none",
            marker=marker,
            markersize=8,
            color=colour,
            markeredgecolor=_BLACK,
            zorder=3,
            clip_on=False,
            label=label,
        )[0]

    def _verdict(self) -> str:
        if self.report.guaranteed:
            return rf"$F(\lambda)$ is strongly quasiconvex: {self.report.condition}"
        return r"$F(\lambda)$ is not proved quasiconvex"


class PosteriorDisplay:
    r"""Where the mass of a posterior lies: against validation loss, or by rank.

    Use `from_estimator` or `from_posterior`.

    Parameters
    ----------
    losses : ndarray of shape (k,)
        Distinct validation losses, rising.
    mass : ndarray of shape (k,)
        Posterior mass of all hypotheses with each of these losses.
    cumulative_mass : ndarray of shape (m,)
        Mass of the first, the first two, ... hypotheses, in order of falling mass.
    n_half : int
        Number of hypotheses, in that order, that hold half of the mass.
    loss : float
        Validation loss of the posterior, :math:`E_\rho[\hat L]`.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it was drawn.
    stems_ : LineCollection or None
        Lines from zero to the mass of each loss; None for ``kind="cumulative"``.
    line_ : Line2D
        Points of the mass of each loss, or the line of the cumulative mass.
    loss_ : Line2D or None
        Line at the validation loss of the posterior; None for ``kind="cumulative"``.
    half_ : Line2D or None
        Marker of the hypotheses that hold half of the mass; None for ``kind="mass"``, where the legend tells.
    legend_ : Legend
        Legend.

    Examples
    --------
    >>> from pacbayes.display import PosteriorDisplay
    >>> display = PosteriorDisplay.from_posterior([0.4, 0.2, 0.2, 0.2], [0.1, 0.2, 0.2, 0.3], kind="cumulative")
    >>> display.losses.tolist(), display.mass.tolist(), display.n_half
    ([0.1, 0.2, 0.3], [0.4, 0.4, 0.2], 2)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    stems_: LineCollection | None
    line_: Line2D
    loss_: Line2D | None
    half_: Line2D | None
    legend_: Legend

    def __init__(
        self,
        losses: Array,
        mass: Array,
        cumulative_mass: Array,
        *,
        n_half: int,
        loss: float,
    ) -> None:
        self.losses = losses
        self.mass = mass
        self.cumulative_mass = cumulative_mass
        self.n_half = n_half
        self.loss = loss

    @classmethod
    def from_posterior(
        cls, rho: ArrayLike, losses: ArrayLike, *, kind: Kind = "mass", ax: Axes | None = None, **kwargs: Any
    ) -> PosteriorDisplay:
        """Draw a posterior over hypotheses with known losses.

        Parameters
        ----------
        rho : array_like of shape (m,)
            Posterior weights, summing to one.
        losses : array_like of shape (m,)
            Empirical losses in [0, 1].
        kind : {"mass", "cumulative"}, default="mass"
            Mass against loss, equal losses together; or the mass of the heaviest hypotheses against their number.
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the points or the line, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PosteriorDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        loss_array = loss_vector("losses", losses)
        weights = finite_nonnegative("rho", rho)
        if weights.shape != loss_array.shape:
            raise ValueError(
                f"rho must have one weight per hypothesis: there are {loss_array.size} losses, "
                f"got shape {weights.shape}"
            )
        total = float(weights.sum())
        if not abs(total - 1) <= 1e-6:
            raise ValueError(f"rho must sum to one, got a sum of {total!s}")
        values, group = np.unique(loss_array, return_inverse=True)
        cumulative = np.cumsum(np.sort(weights)[::-1])
        # Equal weights may add up to half only up to rounding.
        half = 0.5 * cumulative[-1] * (1 - 1e-12)
        display = cls(
            values,
            np.bincount(group, weights).astype(np.float64),
            cumulative,
            n_half=int(np.searchsorted(cumulative, half)) + 1,
            loss=float(weights @ loss_array),
        )
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: PACBayesClassifier, *, kind: Kind = "mass", ax: Axes | None = None, **kwargs: Any
    ) -> PosteriorDisplay:
        """Draw the posterior of a classifier.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        kind, ax, **kwargs
            As in `from_posterior`.

        Returns
        -------
        PosteriorDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        model = _fitted(estimator)
        return cls.from_posterior(model.posterior_, model.losses_, kind=kind, ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, kind: Kind = "mass", **kwargs: Any) -> PosteriorDisplay:
        """Draw the posterior.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        kind : {"mass", "cumulative"}, default="mass"
            Mass against loss, equal losses together; or the mass of the heaviest hypotheses against their number.
        **kwargs
            Properties of the points or the line, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PosteriorDisplay
            This display, with what was drawn.
        """
        if kind not in ("mass", "cumulative"):
            raise ValueError(f"kind must be 'mass' or 'cumulative', got {kind!r}")
        ax = self.ax_ = _axes(self, ax)
        self.figure_ = ax.figure
        self.stems_ = self.loss_ = self.half_ = None
        if kind == "mass":
            self._plot_mass(ax, kwargs)
        else:
            self._plot_cumulative(ax, kwargs)
        return self

    def _half(self) -> str:
        holds = "holds" if self.n_half == 1 else "hold"
        return f"{self.n_half:,} of {self.cumulative_mass.size:,} {holds} half of the mass"

    def _plot_mass(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        grouped = self.losses.size < self.cumulative_mass.size
        style = {
            "color": _BLUE,
            "linestyle": "none",
            "marker": "o",
            "markersize": 4,
            "label": r"mass $\rho(h)$" + (" of all hypotheses with this loss" if grouped else ""),
        }
        (self.line_,) = ax.plot(self.losses, self.mass, **_line_style(style, kwargs))
        self.stems_ = ax.vlines(self.losses, 0, self.mass, colors=self.line_.get_color(), linewidth=1)
        label = rf"validation loss $E_\rho[\hat L]$ = {self.loss:.4f}"
        self.loss_ = ax.axvline(self.loss, color=_RED, linestyle="--", linewidth=1.2, zorder=1, label=label)
        ax.set_xlabel("validation loss of a hypothesis")
        ax.set_ylabel("posterior mass")
        # To look for the best place takes long among many points. Posteriors put their mass on the left.
        self.legend_ = ax.legend(title=self._half(), loc="best" if self.losses.size < 5000 else "upper right")

    def _plot_cumulative(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        m = self.cumulative_mass.size
        style = {
            "color": _BLUE,
            "linewidth": 2,
            "drawstyle": "steps-post",
            "marker": "o" if m <= _LOG_RANKS else "none",
            "markersize": 4,
            "label": "mass of the heaviest hypotheses",
        }
        (self.line_,) = ax.plot(np.arange(1, m + 1), self.cumulative_mass, **_line_style(style, kwargs))
        self.half_ = ax.plot(
            [self.n_half],
            [self.cumulative_mass[self.n_half - 1]],
            linestyle="none",
            marker="o",
            markersize=8,
            color=_RED,
            markeredgecolor=_BLACK,
            zorder=3,
            label=self._half(),
        )[0]
        _count_axis(ax, log=m > _LOG_RANKS)
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("number of hypotheses, heaviest first")
        ax.set_ylabel("cumulative posterior mass")
        # Beyond the square root of m, the curve rises in the right half of a logarithmic axis.
        rises_late = m > _LOG_RANKS and self.n_half**2 > m
        self.legend_ = ax.legend(loc="upper left" if rises_late else "lower right")


class PoolSizeDisplay:
    r"""Bound, validation loss and test error as the pool grows.

    Hypothesis h is the same whatever the number of the others, so the first k hypotheses of a pool are what a fit
    with ``n_hypotheses=k`` would have trained. Each of these pools is weighted and certified anew, from the
    validation losses at hand. Use `from_estimator`.

    Parameters
    ----------
    sizes : ndarray of int of shape (k,)
        Numbers of hypotheses m, rising.
    bound : ndarray of shape (k,)
        PAC-Bayes-kl bound on the randomised classifier, for each m.
    validation_loss : ndarray of shape (k,)
        Validation loss of the posterior, :math:`E_\rho[\hat L]`, for each m.
    test_error : ndarray of shape (k,), optional
        Share of test points on which the majority vote errs, for each m.
    delta : float
        Probability with which each of the bounds may fail.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it was drawn.
    bound_, validation_loss_ : Line2D
        Lines of the bound and of the validation loss.
    test_error_ : Line2D or None
        Line of the test error of the vote; None without test points.
    legend_ : Legend
        Legend.

    Notes
    -----
    The bound at each m holds if m was chosen without looking at the data. To choose m by this picture is to choose
    it by the data, which no certificate here covers. To choose among k values of m by their bounds, certify each of
    them with delta / k.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bound_: Line2D
    validation_loss_: Line2D
    test_error_: Line2D | None
    legend_: Legend

    def __init__(
        self,
        sizes: NDArray[np.intp],
        bound: Array,
        validation_loss: Array,
        test_error: Array | None = None,
        *,
        delta: float,
    ) -> None:
        self.sizes = sizes
        self.bound = bound
        self.validation_loss = validation_loss
        self.test_error = test_error
        self.delta = delta

    @classmethod
    def from_estimator(
        cls,
        estimator: PACBayesClassifier,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PoolSizeDisplay:
        """Draw the curves for the first hypotheses of a classifier, for several numbers of them.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        X_test, y_test : array-like, optional
            Points and labels that were not used in training, for the test error of the vote.
        sizes : array_like of int, optional
            Numbers of hypotheses m, rising; by default some thirty of them, from 1 to all, evenly spaced on a
            logarithmic axis. A prior that is not uniform is restricted to the first m and scaled to sum to one.
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of all lines, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PoolSizeDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        model = _fitted(estimator)
        labels = _test_labels(X_test, y_test)
        losses, n_validation, proved = model.losses_, model.n_validation_, model.certificate_
        prior = None if model.prior is None else GibbsCurve(losses, 1.0, model.prior).rho(0.0)
        counts = _pool_sizes(sizes, losses.size, prior)
        bound, validation_loss, posteriors = np.empty(counts.size), np.empty(counts.size), []
        for i, m in enumerate(counts):
            certificate, rho = certify(
                losses[:m],
                int(n_validation[:m].min()),
                n_max=int(n_validation[:m].max()),
                delta=proved.delta,
                prior=None if prior is None else prior[:m] / prior[:m].sum(),
                objective=proved.objective,
                voting=proved.voting,
                loss=proved.loss,
            )
            bound[i], validation_loss[i] = certificate.gibbs_bound, certificate.empirical_loss
            posteriors.append(rho)
        test_error = None
        if labels is not None:
            votes = np.searchsorted(model.classes_, model.predict_hypotheses(X_test))
            winners = [model.classes_[_vote(votes, rho, model.classes_.size)] for rho in posteriors]
            test_error = np.array([_count_errors(labels, winner) for winner in winners]) / labels.size
        display = cls(counts, bound, validation_loss, test_error, delta=proved.delta)
        return display.plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> PoolSizeDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of all lines, as in `matplotlib.lines.Line2D`.

        Returns
        -------
        PoolSizeDisplay
            This display, with what was drawn.
        """
        ax = self.ax_ = _axes(self, ax)
        self.figure_ = ax.figure

        def line(values: Array, colour: str, dashes: str, marker: str, label: str) -> Line2D:
            style = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 4, "label": label}
            return ax.plot(self.sizes, values, **_line_style(style, kwargs))[0]

        self.bound_ = line(self.bound, _RED, "-", "s", "PAC-Bayes-kl bound, randomised classifier")
        self.validation_loss_ = line(self.validation_loss, _BLUE, "--", "o", r"validation loss $E_\rho[\hat L]$")
        self.test_error_ = None
        if self.test_error is not None:
            self.test_error_ = line(self.test_error, _BLACK, ":", "^", "test error of the majority vote")
        _count_axis(ax, log=self.sizes[-1] / self.sizes[0] > _LOG_RANKS)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("number of hypotheses $m$")
        ax.set_ylabel("loss")
        self.legend_ = ax.legend(title=f"each bound alone holds with probability {1 - self.delta:g}")
        return self


@dataclass(frozen=True)
class Bar:
    """One bar of a certificate's picture.

    Attributes
    ----------
    label : str
        What it is.
    value : float
        Its length.
    is_bound : bool
        Whether it is an upper bound, rather than a loss that was measured.
    strict : bool
        Whether the theorem behind the bound applies to the letter.
    """

    label: str
    value: float
    is_bound: bool
    strict: bool = True


class CertificateDisplay:
    """What a certificate proves: losses and bounds as bars on one axis.

    Use `from_estimator` or `from_certificate`. Bounds of a certificate that is not strict are hatched, and the title
    says so.

    Parameters
    ----------
    bars : sequence of Bar
        The bars, from top to bottom.
    loss : str
        Name of the loss.
    delta : float
        Probability with which each bound may fail.
    chance : float, optional
        Error of guessing at random.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it was drawn.
    bars_ : BarContainer
        The bars.
    values_ : list of Text
        Their values, written beside them.
    chance_ : Line2D or None
        Line at the error of guessing; None if it is not known, or far beyond the largest bar.

    Examples
    --------
    >>> from pacbayes import certify
    >>> from pacbayes.display import CertificateDisplay
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> display = CertificateDisplay.from_certificate(certificate)
    >>> for text in display.values_:
    ...     print(text.get_text())
    0.1003
    0.1638
    0.1771
    0.1771
    0.3276
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer
    values_: list[Text]
    chance_: Line2D | None

    def __init__(self, bars: Sequence[Bar], *, loss: str, delta: float, chance: float | None = None) -> None:
        self.bars = bars
        self.loss = loss
        self.delta = delta
        self.chance = chance

    @classmethod
    def from_certificate(
        cls, certificate: Certificate, *, n_classes: int | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> CertificateDisplay:
        """Draw a certificate.

        Parameters
        ----------
        certificate : Certificate
            What is proved.
        n_classes : int, optional
            Number of classes, at least 2, which gives the error of guessing at random; not drawn by default.
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        display = cls(
            _bars(certificate), loss=certificate.loss, delta=certificate.delta, chance=_chance(certificate, n_classes)
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: PACBayesClassifier,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertificateDisplay:
        """Draw the certificate of a classifier, and what a test set proves about its predictions.

        The test-set bound (Clopper-Pearson) holds with the same probability as the certificate, but not both at once
        with that probability: each may fail with probability delta.

        Parameters
        ----------
        estimator : PACBayesClassifier
            Fitted classifier.
        X_test, y_test : array-like, optional
            Independent points and labels that were not used in training.
        ax, **kwargs
            As in `from_certificate`.

        Returns
        -------
        CertificateDisplay
            What was drawn.
        """
        _require_matplotlib(cls)
        model = _fitted(estimator)
        labels = _test_labels(X_test, y_test)
        certificate = model.certificate_
        bars = _bars(certificate)
        if labels is not None:
            errors, n_test = _count_errors(labels, model.predict(X_test)), labels.size
            who = {"gibbs": "randomised classifier", "best": "best hypothesis"}.get(model.voting, "majority vote")
            bars += [
                Bar(f"test error, {n_test} points\n{who}", errors / n_test, is_bound=False),
                Bar(
                    f"Clopper-Pearson, test set\n{who}",
                    float(clopper_pearson(errors, n_test, certificate.delta)),
                    is_bound=True,
                ),
            ]
        chance = _chance(certificate, model.classes_.size)
        return cls(bars, loss=certificate.loss, delta=certificate.delta, chance=chance).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> CertificateDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Properties of the bars, as in `matplotlib.patches.Rectangle`.

        Returns
        -------
        CertificateDisplay
            This display, with what was drawn.
        """
        ax = self.ax_ = _axes(self, ax, figsize=(6.4, 1.0 + 0.5 * len(self.bars)))
        self.figure_ = ax.figure
        values = [bar.value for bar in self.bars]
        style = {
            "height": 0.6,
            "linewidth": 1,
            "edgecolor": [_BLUE if bar.is_bound else _GREY for bar in self.bars],
            "color": [("white" if not bar.strict else _BLUE) if bar.is_bound else _LIGHT_GREY for bar in self.bars],
            "hatch": ["" if bar.strict else "////" for bar in self.bars],
        }
        self.bars_ = ax.barh(range(len(values)), values, **{**style, **kwargs})
        self.values_ = [self._write(ax, height, bar) for height, bar in enumerate(self.bars)]
        end = _end_of_axis(ax, values)
        self.chance_ = None
        if self.chance is not None and self.chance <= end:
            self.chance_ = ax.axvline(self.chance, color=_BLACK, linestyle=":", linewidth=1.2, zorder=0)
            ax.annotate(
                f"guessing {self.chance:.2g}",
                (self.chance, 1),
                xycoords=ax.get_xaxis_transform(),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize="small",
            )
        ax.set_xlim(0, end)
        ax.set_ylim(len(values) - 0.4, -0.6)
        ax.set_yticks(range(len(values)), [bar.label for bar in self.bars])
        ax.set_xlabel(f"{self.loss} loss; each bound holds with probability {1 - self.delta:g}")
        if not all(bar.strict for bar in self.bars):
            pad = None if self.chance_ is None else 18.0  # above the word on guessing
            title = "NOT STRICT: the theorem does not cover the hatched bounds"
            ax.set_title(title, loc="left", fontsize="medium", pad=pad)
        return self

    def _write(self, ax: Axes, height: int, bar: Bar) -> Text:
        """The value of a bar: beside it, or in it if it reaches the end of the axis."""
        inside = bar.value >= 1
        return ax.annotate(
            f"{bar.value:.4f}" + (", nothing is proved" if inside and bar.is_bound else ""),
            (min(bar.value, 1), height),
            xytext=(-4 if inside else 4, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )


# ---------------------------------------------------------------------------------------------------
# What the displays share
# ---------------------------------------------------------------------------------------------------


def _require_matplotlib(display: type) -> None:
    """Say what to install, before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{display.__name__} needs Matplotlib: pip install "pacbayes[plots]"') from error


def _axes(display: object, ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """The given axes, or those of a new figure."""
    _require_matplotlib(type(display))
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def _line_style(style: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Properties of a line, with those that were given, under whichever of their names, in place of ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**style, **normalize_kwargs(given, Line2D)}


def _count_axis(ax: Axes, *, log: bool) -> None:
    """Whole numbers from left to right."""
    from matplotlib.ticker import MaxNLocator

    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _fitted(estimator: Any) -> PACBayesClassifier:
    from sklearn.utils.validation import check_is_fitted

    from pacbayes.classifier import PACBayesClassifier

    if not isinstance(estimator, PACBayesClassifier):
        raise TypeError(
            f"estimator must be a PACBayesClassifier, got {type(estimator).__name__}; of a pipeline, give the last "
            "step, and test points as they arrive there"
        )
    check_is_fitted(estimator)
    return estimator


def _test_labels(X_test: Any, y_test: ArrayLike | None) -> NDArray[Any] | None:
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


def _count_errors(labels: NDArray[Any], predicted: NDArray[Any]) -> int:
    from sklearn.metrics import accuracy_score

    return labels.size - int(accuracy_score(labels, predicted, normalize=False))


def _pool_sizes(sizes: ArrayLike | None, m: int, prior: Array | None) -> NDArray[np.intp]:
    """Numbers of hypotheses, such that the first of them have some prior mass."""
    smallest = 1 if prior is None else 1 + int(np.flatnonzero(prior)[0])
    if sizes is None:
        return np.unique(np.rint(np.geomspace(smallest, m, 30)).astype(np.intp))
    counts = whole_number("sizes", sizes)
    if counts.ndim != 1 or counts.size == 0 or np.any(np.diff(counts) <= 0):
        raise ValueError(f"sizes must be a rising sequence of whole numbers, got {sizes!r}")
    if counts[-1] > m:
        raise ValueError(f"sizes must be at most the number of hypotheses, {m}, got {counts[-1]:g}")
    if counts[0] < smallest:
        raise ValueError(f"sizes must be at least {smallest}: earlier hypotheses have no prior mass, got {counts[0]:g}")
    return counts.astype(np.intp)


def _vote(votes: NDArray[np.intp], rho: Array, n_classes: int) -> NDArray[np.intp]:
    """The class with the most weight at each point, from the votes of the first hypotheses.

    Weights are added in the order in which the classifier does it, so that ties fall the same way.
    """
    points = np.arange(votes.shape[1])
    tallies = np.zeros((votes.shape[1], n_classes))
    for h in np.argsort(-rho, kind="stable")[: np.count_nonzero(rho)]:
        tallies[points, votes[h]] += rho[h]
    return np.asarray(np.argmax(tallies, axis=1))


def _bars(certificate: Certificate) -> list[Bar]:
    """The certificate's own loss and bounds."""
    delta_min = _delta_for_smallest(certificate.delta, certificate.n_validation, certificate.n_validation_max)
    loss, kl_div, n = certificate.empirical_loss, certificate.kl_div, certificate.n_validation
    if certificate.loss != "zero_one":
        vote = "no bound for this loss"
    else:
        vote = "PAC-Bayes-kl" if certificate.voting == "best" else "twice PAC-Bayes-kl"
    rows = [
        ("PAC-Bayes-kl\nrandomised classifier", certificate.gibbs_bound),
        ("square-root relaxation\nrandomised classifier", float(pac_bayes_sqrt(loss, kl_div, n, delta_min))),
        (f"{vote}\nmajority vote", certificate.vote_bound),
    ]
    # The kl bound's posterior may be sharper than any lambda of the theorem.
    if certificate.lam is not None and 0 < certificate.lam < 2:
        label = rf"PAC-Bayes-$\lambda$, $\lambda$ = {certificate.lam:.3g}" + "\nrandomised classifier"
        rows.insert(1, (label, float(pac_bayes_lambda(loss, kl_div, n, certificate.lam, delta_min))))
    measured = Bar("validation loss\nrandomised classifier", loss, is_bound=False)
    return [measured, *(Bar(label, value, is_bound=True, strict=certificate.strict) for label, value in rows)]


def _chance(certificate: Certificate, n_classes: int | None) -> float | None:
    """Zero-one loss of guessing one of the classes at random."""
    if n_classes is None:
        return None
    count = scalar("n_classes", whole_number("n_classes", n_classes, 2))
    return 1 - 1 / count if certificate.loss == "zero_one" else None


def _end_of_axis(ax: Axes, values: Sequence[float]) -> float:
    """Where the axis has to end for the text beside each bar to fit; bars that prove nothing may run out of it."""
    from matplotlib import rcParams

    # Six digits and the space around them; a digit is 0.6 of its height wide.
    text = 7 * 0.6 * rcParams["font.size"] * ax.figure.dpi / 72
    # Of new axes, labels on the left will take a third.
    share = min(0.5, text / (0.65 * ax.get_window_extent().width))
    return max(1.05 if value >= 1 else value / (1 - share) for value in values) or 1.0
