"""Displays of predicted numbers, and the page of a regressor."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from report.outline import check_sound, check_stands_alone
from scipy import stats
from sklearn.datasets import make_friedman1, make_moons
from sklearn.linear_model import LinearRegression, Ridge

from pacbayes import PACBayesClassifier, PACBayesRegressor
from pacbayes._formatting import format_number
from pacbayes.display import CertificateDisplay, ErrorCurveDisplay, IntervalDisplay, PoolSizeDisplay
from pacbayes.pools import LinearPool
from pacbayes.report import fit_page

X, y = make_friedman1(500, n_features=6, noise=1.0, random_state=0)
TRAIN, NEW = slice(0, 400), slice(400, 500)


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return PACBayesRegressor(Ridge(), n_hypotheses=5, holdout=0.5, random_state=0).fit(X[TRAIN], y[TRAIN])


@pytest.fixture(scope="module")
def classifier():
    return PACBayesClassifier(LinearPool(n_hypotheses=2), random_state=0).fit(*make_moons(200, random_state=0))


def test_error_curve_is_that_of_clopper_and_pearson(model):
    display = ErrorCurveDisplay.from_certificate(model.certificate_)
    held_out = model.fitted_votes_.best.split.held_out
    errors = np.abs(model.predict(X[TRAIN][held_out]) - y[TRAIN][held_out])
    n, k = errors.size, display.error.size
    for error, measured, proved in zip(display.error, display.measured, display.proved, strict=True):
        assert measured == pytest.approx((errors <= error).mean(), abs=1e-12)
        misses = round(n * (1 - measured))
        bound = stats.beta.ppf(1 - 0.05 / k, misses + 1, n - misses) if misses < n else 1.0
        assert proved == pytest.approx(1 - bound, abs=1e-9)
    np.testing.assert_array_equal(display.proved_.get_ydata()[1:], display.proved)
    assert display.ax_.get_xlabel() == "error, in the unit of the target"


def test_points_inside_and_outside_of_intervals(model):
    display = IntervalDisplay.from_estimator(model, X[NEW], y[NEW], coverage=0.8, color="green")
    lower, upper = model.predict_interval(X[NEW], 0.8).T
    inside = (lower <= y[NEW]) & (y[NEW] <= upper)
    np.testing.assert_array_equal(display.inside, inside)
    assert display.inside_.get_xdata().size == inside.sum()
    assert display.inside_.get_color() == "green"
    assert display.outside_.get_xdata().size == 100 - inside.sum()
    assert len(display.intervals_.get_segments()) == 100
    widths = display.plot(kind="widths")
    assert widths.intervals_ is None
    np.testing.assert_allclose(widths.inside_.get_xdata(), ((upper - lower) / 2)[inside])
    np.testing.assert_allclose(widths.inside_.get_ydata(), np.abs(y[NEW] - model.predict(X[NEW]))[inside])


def test_the_certificate_of_numbers_is_in_their_unit(model):
    display = CertificateDisplay.from_estimator(model, X[NEW], y[NEW])
    values = {row.label: row.value for row in display.rows}
    assert values["betting on held-out points"] == model.certificate_.error_bound
    assert values["mean absolute error, 100 test points"] > 1
    assert display.ax_.get_xlim()[1] > max(values.values())
    assert display.loss_label == "mean absolute error"
    assert [text.get_text() for text in display.values_] == [row.shown for row in display.rows]


def test_what_is_refused(model, classifier):
    with pytest.raises(ValueError, match="the curve of errors rest on held-out points and predicted numbers"):
        ErrorCurveDisplay.from_certificate(classifier.certificate_)
    with pytest.raises(TypeError, match="certificate must be a Certificate, got PACBayesRegressor"):
        ErrorCurveDisplay.from_certificate(model)
    with pytest.raises(TypeError, match="estimator must be a PACBayesRegressor, got PACBayesClassifier"):
        IntervalDisplay.from_estimator(classifier, X[:, :2], y)
    with pytest.raises(TypeError, match="estimator must be a PACBayesClassifier, got PACBayesRegressor"):
        PoolSizeDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="kind must be 'predicted' or 'widths', got 'x'"):
        IntervalDisplay.from_estimator(model, X[NEW], y[NEW], kind="x")
    with pytest.raises(ValueError, match="y_test must hold one label"):
        IntervalDisplay.from_estimator(model, X[NEW], y[:3])


def test_page_of_a_regressor(model):
    frame = pd.DataFrame(X, columns=[f"<b>{k}" for k in range(6)])
    fitted = PACBayesRegressor(LinearPool(n_hypotheses=2), holdout=0.5, random_state=0).fit(frame[TRAIN], y[TRAIN])
    page = fit_page(fitted, X=frame[TRAIN], y=y[TRAIN], X_test=frame[NEW], y_test=y[NEW])
    check_sound(page)
    check_stands_alone(page)
    assert fitted.certificate_.summary() in page
    for name in ("intervals", "errors", "columns", "plot-errors", "plot-predicted", "plot-widths"):
        assert f'id="{name}"' in page
    for name in ("classes", "abstention", "sets", "plot-pool"):
        assert f'id="{name}"' not in page
    assert "<h1>A regressor with a certificate</h1>" in page
    assert format_number(fitted.certificate_.error_bound, "up") in page
    assert "randomised classifier" not in page


def test_page_of_a_regressor_without_held_out_rows():
    settings = {"n_hypotheses": 5, "y_range": (-30.0, 60.0), "holdout": None, "random_state": 0}
    fitted = PACBayesRegressor(LinearRegression(), **settings).fit(X[TRAIN], y[TRAIN])
    page = fit_page(fitted, X=X[TRAIN], y=y[TRAIN])
    check_sound(page)
    assert 'id="intervals"' not in page
    assert fitted.certificate_.summary() in page
    assert "(-30.0, 60.0)" in page


def test_importance_of_numbers_is_in_their_unit(model):
    from pacbayes.report._importance import choose_judged_rows, tabulate_importances

    judged = choose_judged_rows(model, X[TRAIN], y[TRAIN], None, None)
    table = tabulate_importances(model, judged)
    assert table.header == ["Column", "Mean absolute error grows by"]
    # Of Friedman's first problem, the sixth feature has no part in the target, and the fourth the largest.
    assert table.rows[0][0] == "feature 3"
    assert {row[0] for row in table.rows[-2:]} >= {"feature 5"}
    assert float(table.rows[0][1]) > 1
