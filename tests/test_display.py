import math
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sweeps import sweep

from pacbayes import Monitor, PACBayesClassifier, bounds, certify
from pacbayes.certificate import Row
from pacbayes.display import BoundDisplay, CertificateDisplay, MonitorDisplay, PoolSizeDisplay, PosteriorDisplay
from pacbayes.pools import LinearPool, RBFSVMPool, UnionPool
from pacbayes.posterior import gibbs_posterior, lambda_bound, minimize_kl_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity
from pacbayes.votes import count_half_mass

LOSSES = np.array([30, 33, 40, 40, 60, 100, 180]) / 400
DISPLAYS = [BoundDisplay, PosteriorDisplay, PoolSizeDisplay, CertificateDisplay]


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(400, noise=0.25, random_state=0)
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def svms(moons):
    X, _, y, _ = moons
    return PACBayesClassifier(RBFSVMPool(), n_hypotheses=60, holdout=None, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return train_test_split(X, names[y], test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def trees(iris):
    X, _, y, _ = iris
    return PACBayesClassifier(DecisionTreeClassifier(max_depth=2), n_hypotheses=25, random_state=0).fit(X, y)


def two_minima():
    """The paper's artificial example: F has two local minima."""
    losses = np.full(round(math.exp(0.74 * 200 * 0.1)) + 1, 0.1)
    losses[0] = 0.0
    return losses


def drawn(display):
    """Draw for good: what cannot be rendered fails here."""
    display.figure_.canvas.draw()
    return display


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


# ---------------------------------------------------------------------------------------------------
# All displays
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize("model", sweep(["svms", "trees"], quick=[0]))
def test_draws_on_new_axes_and_on_given_ones(display, model, request):
    estimator = request.getfixturevalue(model)
    fresh = drawn(display.from_estimator(estimator))
    assert fresh.figure_ is fresh.ax_.figure
    figure, ax = plt.subplots()
    given = drawn(display.from_estimator(estimator, ax=ax))
    assert given.ax_ is ax
    assert given.figure_ is figure
    assert ax.get_xlabel()
    again = given.plot()
    assert again is given
    assert given.ax_ is not ax


@pytest.mark.parametrize("display", DISPLAYS)
def test_not_fitted(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(PACBayesClassifier())


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize(
    "other", [LogisticRegression(), make_pipeline(StandardScaler(), PACBayesClassifier()), "model"]
)
def test_other_estimators(display, other):
    with pytest.raises(TypeError, match=r"estimator must have a certificate, as a PACBayesClassifier has, got"):
        display.from_estimator(other)


@pytest.mark.parametrize("display", DISPLAYS)
def test_any_estimator_with_a_certificate(display, svms):
    """Displays ask for what they need, not for a class."""

    class Other:
        def __getattr__(self, name):
            return getattr(svms, name)

    assert drawn(display.from_estimator(Other())).ax_.get_xlabel()


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib(display, svms, monkeypatch):
    shown = display.from_estimator(svms)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (lambda: display.from_estimator(svms), shown.plot):
        with pytest.raises(
            ImportError, match=rf'{display.__name__} needs matplotlib: python -m pip install "pacbayes\[plots\]"'
        ):
            draw()


def test_nothing_is_drawn_outside_plot():
    BoundDisplay(
        np.array([0.5, 1.0]),
        np.array([0.3, 0.4]),
        minimum_lam=0.5,
        minimum=0.3,
        lower=0.3,
        condition_holds=np.array([True, True]),
        report=check_quasiconvexity([0.1], 100),
    )
    PosteriorDisplay(np.array([0.1]), np.array([1.0]), np.array([1.0]), n_half=1, loss=0.1)
    PoolSizeDisplay(np.array([1, 2]), np.array([0.3, 0.2]), np.array([0.2, 0.1]), delta=0.05)
    CertificateDisplay([Row("loss", "vote", 0.1, "measured")], loss="zero_one", delta=0.05)
    assert plt.get_fignums() == []


def test_keywords_reach_the_artists_under_any_of_their_names(svms):
    assert BoundDisplay.from_estimator(svms, c="red", lw=5).line_.get_linewidth() == 5
    assert PosteriorDisplay.from_estimator(svms, color="red").line_.get_color() == "red"
    assert PosteriorDisplay.from_estimator(svms, kind="cumulative", ls=":").line_.get_linestyle() == ":"
    assert PoolSizeDisplay.from_estimator(svms, marker="x").bound_.get_marker() == "x"
    assert CertificateDisplay.from_estimator(svms, height=0.3).bars_[0].get_height() == pytest.approx(0.3)


@pytest.mark.parametrize("display", [PoolSizeDisplay, CertificateDisplay])
def test_test_points_and_labels_belong_together(display, svms, moons):
    _, X_test, _, y_test = moons
    with pytest.raises(ValueError, match="X_test and y_test must be given together, got no y_test"):
        display.from_estimator(svms, X_test)
    with pytest.raises(ValueError, match="X_test and y_test must be given together, got no X_test"):
        display.from_estimator(svms, y_test=y_test)
    with pytest.raises(ValueError, match=r"y_test must hold one label for each of the 160 rows .* got shape \(159,\)"):
        display.from_estimator(svms, X_test, y_test[1:])
    with pytest.raises(ValueError, match="y_test must hold one label for each of the 0 rows"):
        display.from_estimator(svms, X_test[:0], y_test[:0])
    drawn(display.from_estimator(svms, X_test.tolist(), y_test.tolist()))


# ---------------------------------------------------------------------------------------------------
# BoundDisplay
# ---------------------------------------------------------------------------------------------------


class TestBoundDisplay:
    @pytest.mark.parametrize("prior", [None, [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]])
    def test_curve_minimum_and_lower_bound(self, prior):
        display = drawn(BoundDisplay.from_losses(LOSSES, 400, delta=0.1, prior=prior))
        lam, bound = display.line_.get_data()
        np.testing.assert_array_equal(bound, lambda_bound(LOSSES, lam, 400, 0.1, prior))
        best = minimize_lambda_bound(LOSSES, 400, delta=0.1, prior=prior, method="global")
        np.testing.assert_array_equal(
            display.minimum_.get_data(), [[best.lam], [lambda_bound(LOSSES, best.lam, 400, 0.1, prior)]]
        )
        assert best.lam in lam
        assert lam[-1] == 1
        np.testing.assert_array_equal(display.lower_.get_ydata(), best.lower)
        assert np.all(display.lower <= bound)
        assert display.minimum == best.fun <= bound.min() * (1 + 1e-12)
        assert display.posterior_ is None

    def test_curve_begins_where_it_is_twice_its_minimum(self):
        display = BoundDisplay.from_losses(LOSSES, 400)
        assert 1.9 * display.minimum < display.bound[0] <= 2 * display.minimum * (1 + 1e-9)
        assert display.bound.max() == display.bound[0]

    def test_given_range(self):
        display = drawn(BoundDisplay.from_losses(LOSSES, 400, lam_range=(0.001, 1.5), grid_resolution=50))
        assert (display.lam[0], display.lam[-1], display.lam.size) == (0.001, 1.5, 52)
        assert display.ax_.get_xscale() == "log"
        assert not display.condition_holds[display.lam > 1].any()
        beside = drawn(BoundDisplay.from_losses(LOSSES, 400, lam_range=(0.9, 1.0), grid_resolution=50))
        assert beside.minimum_ is None
        assert beside.lam.size == 50
        assert beside.ax_.get_xscale() == "linear"

    def test_conditions_by_hand(self):
        """eq. KL-cond and eq. E-cond, from the Gibbs posteriors themselves."""
        losses = np.concatenate(([0.0], np.full(400, 0.1), np.full(10_000, 0.3)))
        display = BoundDisplay.from_losses(losses, 200, delta=0.25)
        for lam, holds in zip(display.lam[::10], display.condition_holds[::10], strict=True):
            rho = gibbs_posterior(losses, lam, 200)
            mean = rho @ losses
            var = rho @ (losses - mean) ** 2
            kl_div = rho @ np.log(rho * losses.size)
            kl_cond = 2 * kl_div + math.log(4 * 200 / 0.25**2) > lam**2 * 200**2 * var
            assert holds == (kl_cond or mean > (1 - lam) * 200 * var)

    def test_shade_where_the_conditions_hold(self):
        """Two minima: the conditions fail around the maximum between them, and nothing is guaranteed."""
        display = drawn(BoundDisplay.from_losses(two_minima(), 200, delta=0.25))
        assert display.minimum_lam == pytest.approx(0.99702, abs=5e-6)
        assert display.legend_.get_title().get_text() == r"$F(\lambda)$ is not proved quasiconvex"
        fails = display.lam[~display.condition_holds]
        assert 0.6 < fails.min() < 0.7 < 0.8 < fails.max() < 0.9
        assert len(display.condition_.get_paths()) == 2
        for path in display.condition_.get_paths():
            assert not np.any((path.vertices[:, 0] >= fails.min()) & (path.vertices[:, 0] <= fails.max()))

    def test_the_legend_says_what_is_proved(self):
        display = BoundDisplay.from_losses(LOSSES, 400)
        report = check_quasiconvexity(LOSSES, 400)
        assert display.report == report
        assert report.guaranteed
        assert display.legend_.get_title().get_text() == r"$F(\lambda)$ is proved strongly quasiconvex"

    def test_vacuous_bounds_are_marked(self):
        assert drawn(BoundDisplay.from_losses([0.3, 0.4], 12)).vacuous_.get_ydata()[0] == 1
        assert BoundDisplay.from_losses(LOSSES, 400).vacuous_ is None

    @pytest.mark.parametrize(("losses", "n"), [([0.0], 1), ([1.0, 1.0], 5), ([0.2, 0.7], 10**12), ([0.0, 1.0], 10**6)])
    def test_extremes(self, losses, n):
        display = drawn(BoundDisplay.from_losses(losses, n))
        assert np.isfinite(display.bound).all()
        assert np.all(display.lower <= display.bound)

    def test_unequal_validation_sets(self, svms):
        """F as in the certificate: (KL + ln(2 sqrt(n_max) / delta)) / n_min."""
        display = drawn(BoundDisplay.from_estimator(svms))
        proved = svms.certificate_
        assert proved.n_validation < proved.n_validation_max
        assert display.minimum_lam == proved.lam
        assert display.lower == proved.minimum_lower_bound
        assert display.report.condition == proved.quasiconvex
        n, lam = proved.n_validation, display.lam
        partition = np.exp(-n * lam[:, np.newaxis] * svms.losses_) @ svms.prior_
        price = math.log(2 * math.sqrt(proved.n_validation_max) / 0.05)
        by_hand = (price - np.log(partition)) / (n * lam * (1 - lam / 2))
        np.testing.assert_allclose(display.bound, by_hand, rtol=1e-10)
        same = BoundDisplay.from_losses(svms.losses_, n, n_max=proved.n_validation_max, prior=svms.prior_)
        np.testing.assert_array_equal(same.bound, display.bound)

    @pytest.mark.parametrize(("r", "m", "beyond_1"), [(30, 20, False), (60, 50, True)])
    def test_posterior_of_the_kl_bound(self, r, m, beyond_1, moons):
        X, _, y, _ = moons
        settings = {"objective": "kl", "subsample_size": r, "holdout": None, "random_state": 0}
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=m, **settings).fit(X, y)
        display = drawn(BoundDisplay.from_estimator(model))
        losses, n = model.losses_, 240 - r
        lam = minimize_kl_bound(losses, n).lam
        assert model.lambda_ == lam
        assert (1 < lam < 2) == beyond_1
        assert display.lam[-1] == max(1, lam)
        np.testing.assert_array_equal(display.posterior_.get_data(), [[lam], [lambda_bound(losses, lam, n)]])
        assert display.minimum_lam == minimize_lambda_bound(losses, n, method="global").lam
        assert BoundDisplay.from_estimator(model, lam_range=(0.01, 0.02)).posterior_ is None

    def test_no_lambda_no_marker(self, iris):
        X, _, y, _ = iris
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, voting="uniform", random_state=0).fit(X, y)
        assert drawn(BoundDisplay.from_estimator(model)).posterior_ is None

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"losses": [0.5, 1.5]}, r"losses must be in \[0, 1\], got 1.5"),
            ({"n": 0}, "n must be a whole number"),
            ({"n_max": 399}, "n_max must be at least n, got 399"),
            ({"delta": 1.5}, r"delta must be in \(0, 1\), got 1.5"),
            ({"prior": [1.0]}, "prior must have one entry per hypothesis"),
            ({"lam_range": (0, 1)}, r"lam_range must be in \(0, 2\), got 0"),
            ({"lam_range": (0.5, 0.1)}, "lam_range must be two numbers, the smaller one first"),
            ({"lam_range": 0.5}, "lam_range must be two numbers, the smaller one first"),
            ({"lam_range": "all"}, "lam_range must be"),
            ({"grid_resolution": 1}, "grid_resolution must be a whole number, at least 2, got 1"),
        ],
    )
    def test_wrong_arguments(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            BoundDisplay.from_losses(**{"losses": LOSSES, "n": 400, **wrong})
        assert plt.get_fignums() == []


# ---------------------------------------------------------------------------------------------------
# PosteriorDisplay
# ---------------------------------------------------------------------------------------------------


class TestPosteriorDisplay:
    def test_equal_losses_together(self):
        rho = gibbs_posterior(LOSSES, 0.3, 400)
        display = drawn(PosteriorDisplay.from_posterior(rho, LOSSES))
        values, mass = display.line_.get_data()
        assert values.tolist() == sorted(set(LOSSES))
        np.testing.assert_allclose(mass, [sum(rho[np.equal(LOSSES, value)]) for value in values], rtol=1e-14)
        segments = display.stems_.get_segments()
        np.testing.assert_array_equal([segment[1] for segment in segments], np.column_stack((values, mass)))
        assert display.loss_.get_xdata()[0] == pytest.approx(sum(rho * LOSSES), rel=1e-14)
        assert "of all hypotheses with this loss" in texts(display.legend_)[0]
        assert display.half_ is None

    def test_cumulative_mass_by_rank(self):
        rho = np.array([0.1, 0.45, 0.05, 0.3, 0.1])
        display = drawn(PosteriorDisplay.from_posterior(rho, np.linspace(0, 1, 5), kind="cumulative"))
        rank, cumulative = display.line_.get_data()
        assert rank.tolist() == [1, 2, 3, 4, 5]
        np.testing.assert_allclose(cumulative, [0.45, 0.75, 0.85, 0.95, 1.0], rtol=1e-14)
        np.testing.assert_allclose(np.ravel(display.half_.get_data()), [2, 0.75])
        assert texts(display.legend_)[1] == "2 of 5 hold half of the mass"
        assert display.stems_ is display.loss_ is None

    @pytest.mark.parametrize("kind", ["mass", "cumulative"])
    def test_families_are_stacked(self, kind):
        rho, losses = np.array([0.1, 0.45, 0.05, 0.3, 0.1]), [0.2, 0.1, 0.1, 0.1, 0.3]
        families = {"svm": range(2), "mine": [2, 4, 3]}
        display = drawn(PosteriorDisplay.from_posterior(rho, losses, families=families, kind=kind))
        np.testing.assert_allclose(sum(mass for mass, _ in display.families.values()), display.mass)
        np.testing.assert_allclose(sum(mass for _, mass in display.families.values()), display.cumulative_mass)
        np.testing.assert_allclose(display.families["svm"][0], [0.45, 0.1, 0.0])
        np.testing.assert_allclose(display.families["svm"][1], [0.45, 0.45, 0.55, 0.55, 0.55])
        assert list(display.families_) == ["svm", "mine"]
        assert {"SVMs: 55.00%", "'mine' hypotheses: 45.00%"} <= set(texts(display.legend_))
        if kind == "mass":
            tops = {segment[1][0]: segment[1][1] for segment in display.families_["mine"].get_segments()}
            assert tops == pytest.approx({0.1: 0.8, 0.3: 0.1})

    def test_families_of_a_union(self, iris):
        X, _, y, _ = iris
        union = UnionPool([("svm", RBFSVMPool(n_hypotheses=6)), ("linear", LinearPool(n_hypotheses=2))])
        model = PACBayesClassifier(union, random_state=0).fit(X, y)
        display = drawn(PosteriorDisplay.from_estimator(model))
        shown = {name: mass[-1] for name, (_, mass) in display.families.items()}
        assert shown == pytest.approx({family.name: family.weight for family in model.certificate_.families})

    @pytest.mark.parametrize("m", sweep([1, 2, 12, 1000, 99_998], quick=range(4)))
    def test_uniform(self, m):
        display = drawn(PosteriorDisplay.from_posterior(np.full(m, 1 / m), np.linspace(0, 1, m), kind="cumulative"))
        assert display.n_half == (m + 1) // 2
        assert display.ax_.get_xscale() == ("log" if m > 20 else "linear")
        if m <= 1000:
            drawn(display.plot(kind="mass"))

    @pytest.mark.parametrize("kind", ["mass", "cumulative"])
    def test_from_estimator(self, kind, trees):
        display = drawn(PosteriorDisplay.from_estimator(trees, kind=kind))
        assert display.loss == pytest.approx(trees.certificate_.empirical_loss, rel=1e-9)
        assert display.mass.sum() == pytest.approx(1)
        assert display.n_half == count_half_mass(trees.posterior_)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"rho": [0.5, 0.6]}, "rho must sum to one, got a sum of 1.1"),
            ({"rho": [-0.5, 1.5]}, "rho must be non-negative, got -0.5"),
            ({"rho": [1.0]}, r"rho must have one entry per hypothesis: there are 2 losses, got shape \(1,\)"),
            ({"losses": [0.1, np.nan]}, "losses must be in"),
            ({"losses": []}, "losses must be a one-dimensional, non-empty array"),
            ({"kind": "both"}, "kind must be 'mass' or 'cumulative', got 'both'"),
        ],
    )
    def test_wrong_arguments(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            PosteriorDisplay.from_posterior(**{"rho": [0.5, 0.5], "losses": [0.1, 0.2], **wrong})
        assert plt.get_fignums() == []


# ---------------------------------------------------------------------------------------------------
# PoolSizeDisplay
# ---------------------------------------------------------------------------------------------------

PRIOR = np.arange(1, 31) / np.arange(1, 31).sum()


class TestPoolSizeDisplay:
    @pytest.mark.parametrize(
        ("data", "parameters"),
        sweep(
            [
                ("moons", {}),
                ("iris", {}),
                ("iris", {"objective": "kl", "delta": 0.2}),
                ("moons", {"voting": "uniform"}),
                ("iris", {"voting": "best"}),
                ("moons", {"prior": PRIOR}),
                ("iris", {"estimator": DecisionTreeClassifier(max_depth=3)}),
                ("moons", {"estimator": DecisionTreeClassifier(max_depth=3), "voting": "uniform"}),
                ("moons", {"holdout": 0.3, "objective": "dual"}),
            ],
            quick=[2, 4, 5, 8],
        ),
    )
    def test_prefixes_are_refits_with_fewer_hypotheses(self, data, parameters, request):
        X, X_test, y, y_test = request.getfixturevalue(data)
        parameters = {"estimator": RBFSVMPool(), "random_state": 1, "holdout": None, **parameters}
        whole = PACBayesClassifier(n_hypotheses=30, **parameters).fit(X, y)
        sizes = [1, 6, 30]
        display = drawn(PoolSizeDisplay.from_estimator(whole, X_test, y_test, sizes=sizes))
        assert display.sizes.tolist() == sizes
        for i, m in enumerate(sizes):
            prior = parameters.get("prior")
            fewer = {**parameters, "prior": None if prior is None else prior[:m] / prior[:m].sum()}
            refit = PACBayesClassifier(n_hypotheses=m, **fewer).fit(X, y)
            assert display.bound[i] == pytest.approx(refit.certificate_.gibbs_bound, rel=1e-9)
            assert display.validation_loss[i] == pytest.approx(refit.certificate_.empirical_loss, rel=1e-12)
            assert display.test_error[i] == pytest.approx(1 - refit.score(X_test, y_test), abs=1e-12)
        for line, values in [
            (display.bound_, display.bound),
            (display.validation_loss_, display.validation_loss),
            (display.test_error_, display.test_error),
        ]:
            np.testing.assert_array_equal(line.get_data(), (sizes, values))

    @pytest.mark.parametrize(
        ("parameters", "label"),
        [
            ({"subsample_size": 20}, "direct PAC-Bayes bound,\nrandomised classifier"),
            ({}, "direct PAC-Bayes bound,\nrandomised classifier"),
            ({"objective": "dual"}, "direct PAC-Bayes bound,\nrandomised classifier"),
            ({"voting": "gibbs"}, "direct PAC-Bayes bound,\nrandomised classifier"),
            ({"voting": "best"}, "Clopper-Pearson for all hypotheses,\nbest hypothesis"),
            ({"voting": "best", "loss": [[0, 1], [2, 0]]}, "Chernoff's bound for all hypotheses,\nbest hypothesis"),
        ],
    )
    def test_the_legend_names_the_bound_and_who_is_tested(self, moons, parameters, label):
        X, X_test, y, y_test = moons
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=6, random_state=0, **parameters).fit(X, y)
        display = drawn(PoolSizeDisplay.from_estimator(model, X_test, y_test))
        who = "best hypothesis" if model.voting == "best" else "majority vote"
        shown = texts(display.legend_)
        assert (shown[0], shown[2]) == (label, f"test error of the {who}")

    def test_default_sizes(self, svms):
        display = drawn(PoolSizeDisplay.from_estimator(svms))
        assert (display.sizes[0], display.sizes[-1]) == (1, 60)
        assert np.all(np.diff(display.sizes) > 0)
        assert display.bound[-1] == svms.certificate_.gibbs_bound
        assert display.test_error is display.test_error_ is None
        assert display.ax_.get_xscale() == "log"

    def test_one_hypothesis(self, iris):
        X, X_test, y, y_test = iris
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=1, random_state=0).fit(X, y)
        display = drawn(PoolSizeDisplay.from_estimator(model, X_test, y_test))
        assert display.sizes.tolist() == [1]
        assert display.test_error[0] == pytest.approx(1 - model.score(X_test, y_test))

    def test_prior_without_mass_at_the_beginning(self, iris):
        X, _, y, _ = iris
        prior = [0, 0, 0, 0.5, 0, 0.5]
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=6, prior=prior, random_state=0).fit(X, y)
        assert drawn(PoolSizeDisplay.from_estimator(model)).sizes.tolist() == [4, 5, 6]
        with pytest.raises(ValueError, match=r"from 4 to 6, got \[2, 6\]; the first 3 hypotheses have no prior mass"):
            PoolSizeDisplay.from_estimator(model, sizes=[2, 6])

    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ([0, 5], "sizes must be a whole number, at least 1, got 0"),
            ([5, 61], r"sizes must be an increasing sequence of numbers from 1 to 60, got \[5, 61\]$"),
            ([5, 5], "sizes must be an increasing sequence"),
            ([], "sizes must be an increasing sequence"),
            (5, "sizes must be an increasing sequence"),
        ],
    )
    def test_wrong_sizes(self, sizes, message, svms):
        with pytest.raises(ValueError, match=message):
            PoolSizeDisplay.from_estimator(svms, sizes=sizes)

    def test_rule_three_is_in_the_docstring(self):
        assert "by\n    the data, which no certificate here covers" in PoolSizeDisplay.__doc__


# ---------------------------------------------------------------------------------------------------
# CertificateDisplay
# ---------------------------------------------------------------------------------------------------


def named(display):
    return {(row.label, row.predictor): row.value for row in display.rows}


RANDOMISED, MAJORITY = "randomised classifier", "majority vote"


class TestCertificateDisplay:
    @pytest.mark.parametrize("n_max", [400, 450])
    def test_bars_by_hand(self, n_max):
        prior = [0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]
        certificate, rho = certify(LOSSES, 400, n_max=n_max, delta=0.1, prior=prior)
        display = drawn(CertificateDisplay.from_certificate(certificate))
        loss, kl_div, lam = certificate.empirical_loss, certificate.kl_div, certificate.lam
        c = (kl_div + math.log(2 * math.sqrt(n_max) / 0.1)) / 400
        kl_bound = bounds.kl_inverse_upper(loss, c)
        direct = bounds.direct_bound(rho, LOSSES, 400, delta=0.1, prior=prior)
        vote, best = certificate.statements[0], certificate.statements[2:]
        kl = ("PAC-Bayes-kl", RANDOMISED)
        expected = {
            ("validation loss", RANDOMISED): loss,
            (vote.title, MAJORITY): certificate.vote_bound,
            **({("direct PAC-Bayes bound", RANDOMISED): direct} if n_max == 400 else {kl: kl_bound}),
            **{(statement.title, statement.predictor): statement.bound for statement in best},
            (f"PAC-Bayes-lambda, lambda = {lam:.3g}", RANDOMISED): (loss + c / lam) / (1 - lam / 2),
            kl: kl_bound,  # once
            ("square-root relaxation", RANDOMISED): loss + c + math.sqrt(c**2 + 2 * c * loss),
            ("Chernoff, if tested on 400 points", "one classifier with this loss"): bounds.kl_inverse_upper(
                loss, math.log(1 / 0.1) / 400
            ),
        }
        assert named(display) == pytest.approx(expected, rel=1e-9)
        assert [bar.get_width() for bar in display.bars_] == list(named(display).values())
        for text, value, row in zip(display.values_, expected.values(), display.rows, strict=True):
            excess = float(text.get_text()) - value
            if row.kind == "measured":  # rounded to the nearest
                assert abs(excess) < 0.51e-4
            else:  # rounded up
                assert -1e-12 <= excess < 1.01e-4
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels == ["\n".join(label) for label in expected]
        assert display.ax_.get_xlabel() == "share of errors; each bound holds with probability 0.9"
        assert display.ax_.get_title(loc="left") == ""
        assert display.chance_ is None

    @pytest.mark.parametrize("data", ["moons", "iris"])
    def test_test_set_bound(self, data, request):
        X, X_test, y, y_test = request.getfixturevalue(data)
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, delta=0.1, random_state=0).fit(X, y)
        display = drawn(CertificateDisplay.from_estimator(model, X_test, y_test))
        wrong, n_test = int(np.sum(model.predict(X_test) != y_test)), len(y_test)
        values = named(display)
        assert values[f"test error, {n_test} points", MAJORITY] == wrong / n_test
        exact = stats.beta.ppf(0.9, wrong + 1, n_test - wrong)
        assert values["Clopper-Pearson, test set", MAJORITY] == pytest.approx(exact, rel=1e-7)

    @pytest.mark.parametrize(
        ("voting", "who"),
        [("gibbs", "randomised classifier"), ("best", "best hypothesis"), ("uniform", "majority vote")],
    )
    def test_who_was_tested(self, voting, who, iris):
        X, X_test, y, y_test = iris
        model = PACBayesClassifier(
            RBFSVMPool(), n_hypotheses=20, voting=voting, objective="kl", holdout=None, random_state=0
        ).fit(X, y)
        display = drawn(CertificateDisplay.from_estimator(model, X_test, y_test))
        error = 1 - model.score(X_test, y_test)
        if voting != "gibbs":  # which draws other hypotheses in every call
            assert named(display)["test error, 60 points", who] == pytest.approx(error, abs=1e-12)
        for statement in model.certificate_.statements:
            assert statement.bound in named(display).values()
        assert any("lambda" in label for label, _ in named(display)) == (voting == "gibbs" and model.lambda_ < 2)

    def test_not_strict_is_marked(self, moons):
        X, X_test, y, y_test = moons
        settings = {"n_hypotheses": 20, "holdout": None, "random_state": 0}
        model = PACBayesClassifier(RBFSVMPool(gamma_source="sample"), **settings).fit(X, y)
        display = drawn(CertificateDisplay.from_estimator(model, X_test, y_test))
        assert "NOT STRICT" in display.ax_.get_title(loc="left")
        assert display.ax_.get_xlabel() == "share of errors; other bounds hold with probability 0.95"
        # Measured losses and test-set bounds do not depend on the theorem.
        hatched = {row.label: bool(patch.get_hatch()) for row, patch in zip(display.rows, display.bars_, strict=True)}
        covered = {label for label, is_hatched in hatched.items() if not is_hatched}
        n = model.certificate_.n_validation
        test = {f"test error, {len(y_test)} points", "Clopper-Pearson, test set"}
        assert covered == {"validation loss", f"Chernoff, if tested on {n} points", *test}
        held_out = PACBayesClassifier(RBFSVMPool(gamma_source="sample"), n_hypotheses=20, random_state=0).fit(X, y)
        shown = drawn(CertificateDisplay.from_estimator(held_out))
        for row, patch in zip(shown.rows, shown.bars_, strict=True):
            is_covered = row.kind == "measured" or row.label == "Clopper-Pearson on held-out points"
            assert bool(patch.get_hatch()) != is_covered
        strict = drawn(CertificateDisplay.from_estimator(PACBayesClassifier(RBFSVMPool(), **settings).fit(X, y)))
        assert not any(patch.get_hatch() for patch in strict.bars_)

    def test_lambda_beyond_the_theorem(self):
        certificate, _ = certify([0.0, 0.5, 0.5], 100, objective="kl")
        assert certificate.lam == math.inf
        assert not any("lambda" in label for label, _ in named(CertificateDisplay.from_certificate(certificate)))

    def test_vacuous_bounds_say_so(self):
        certificate, _ = certify([0.3, 0.4, 0.5], 3, loss="brier")
        display = drawn(CertificateDisplay.from_certificate(certificate, n_classes=2))
        assert MAJORITY not in {predictor for _, predictor in named(display)}
        written = [text.get_text() for text in display.values_]
        assert [text.endswith(", nothing is proved") for text in written] == [
            value >= 1 for value in named(display).values()
        ]
        assert sum(value >= 1 for value in named(display).values()) >= 2
        assert max(named(display).values()) > 2
        assert 1.05 <= display.ax_.get_xlim()[1] < 1.4
        assert display.chance_ is None  # of another loss

    def test_guessing(self, moons):
        certificate, _ = certify([0.3, 0.4, 0.5], 100)
        for n_classes, chance in [(2, 0.5), (4, 0.75)]:
            display = drawn(CertificateDisplay.from_certificate(certificate, n_classes=n_classes))
            assert display.chance_.get_xdata()[0] == chance
        # Far beyond the largest bar it would only squeeze the bars.
        certificate, _ = certify([0.0], 10_000)
        assert CertificateDisplay.from_certificate(certificate, n_classes=2).chance_ is None

    def test_values_and_bars_fit(self, trees, iris):
        """No text leaves the axes, runs into the next row, or into the names on the left."""
        _, X_test, _, y_test = iris
        X, y = load_breast_cancer(return_X_y=True)
        wide = PACBayesClassifier(DecisionTreeClassifier(), n_hypotheses=9).fit(X[:400], y[:400])
        _, axes = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
        for display in (
            CertificateDisplay.from_estimator(trees, X_test, y_test),
            CertificateDisplay.from_estimator(wide),
            CertificateDisplay.from_estimator(wide, X[400:], y[400:], ax=axes[0]),
            CertificateDisplay.from_certificate(certify([0.3, 0.4, 0.5], 12)[0], ax=axes[1]),
            CertificateDisplay.from_certificate(certify([0.3, 0.4, 0.5], 100)[0], n_classes=2),
        ):
            drawn(display)
            frame = display.ax_.get_window_extent()
            boxes = [text.get_window_extent() for text in display.values_]
            assert all(frame.x0 < box.x0 and box.x1 < frame.x1 for box in boxes)
            assert all(not a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
            labels = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
            assert all(not a.overlaps(b) for i, a in enumerate(labels) for b in labels[:i])
            assert all(label.x0 >= 0 for label in labels)

    def test_nothing_but_zeros(self):
        display = drawn(CertificateDisplay([Row("loss", "vote", 0.0, "measured")], loss="zero_one", delta=0.05).plot())
        assert display.ax_.get_xlim() == (0, 1)

    def test_a_loss_of_one_is_a_loss(self):
        rows = [Row("loss", "vote", 1.0, "measured"), Row("bound", "vote", 1.0, "certified")]
        display = drawn(CertificateDisplay(rows, loss="zero_one", delta=0.05).plot())
        assert [text.get_text() for text in display.values_] == ["1.0000", "1.0000, nothing is proved"]

    def test_wrong_arguments(self):
        certificate, _ = certify(LOSSES, 400)
        with pytest.raises(TypeError, match="certificate must be a Certificate, got dict"):
            CertificateDisplay.from_certificate({})
        with pytest.raises(ValueError, match="n_classes must be a whole number, at least 2, got 1"):
            CertificateDisplay.from_certificate(certificate, n_classes=1)


def test_a_monitor(svms, moons):
    _, X_test, _, y_test = moons
    monitor = Monitor(svms.certify(X_test, y_test), tolerance=0.05)
    with pytest.raises(ValueError, match="monitor must have counted a batch"):
        MonitorDisplay.from_monitor(monitor)
    with pytest.raises(TypeError, match="monitor must be a Monitor, got Certificate"):
        MonitorDisplay.from_monitor(monitor.certificate)
    for size in [1] * 500 + [300]:
        monitor.update(np.zeros(size, dtype=int), np.full(size, int(size > 1)))
    display = drawn(MonitorDisplay.from_monitor(monitor, color="red"))
    assert display.n.size <= 400
    assert (display.n[-1], display.error[-1]) == (800, 300 / 800)
    assert (display.lower[-1], display.upper[-1]) == monitor.interval
    assert display.error_.get_color() == "red"
    assert display.threshold_.get_ydata()[0] == monitor.threshold
    assert display.alarm_.get_xdata()[0] == monitor.alarm_at == 800
    assert "alarm, after 800 points" in [text.get_text() for text in display.legend_.get_texts()]
    one = MonitorDisplay.from_monitor(Monitor(monitor.certificate, 0.05).update([0, 1], [0, 1]))
    assert one.alarm_ is None
    assert one.recent_ is display.recent_ is None
    batches = Monitor(monitor.certificate, 0.05).update([0] * 20, [0] * 20).update([0] * 20, [1] * 5 + [0] * 15)
    assert MonitorDisplay.from_monitor(batches).recent_.get_ydata() == pytest.approx([0, 0.25])
    assert one.n.tolist() == [2]
