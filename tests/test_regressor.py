"""PACBayesRegressor: what it proves against oracles and in worlds of known truth, same bits, and bad input."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import number_simulation as simulation
import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pacbayes import Certificate, CertificateError, PACBayesClassifier, PACBayesRegressor, certify
from pacbayes._json_fields import checksum
from pacbayes.certificate import NumberTest, with_numbers
from pacbayes.exceptions import HypothesisError, SourceError
from pacbayes.pools import EstimatorPool, LinearPool, PrefitPool, RBFSVMPool, UnionPool
from pacbayes.votes import mean_upper_bound

X, Y = make_friedman1(500, noise=1.0, random_state=0)
NEW_X, NEW_Y = make_friedman1(400, noise=1.0, random_state=1)


def small(**parameters):
    trees = EstimatorPool(DecisionTreeRegressor(max_depth=5), n_hypotheses=6, subsample_size=0.7)
    union = UnionPool([("tree", trees), ("linear", LinearPool(n_hypotheses=4))])
    return PACBayesRegressor(**{"estimator": union, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def model():
    return small().fit(X, Y)


def held_out_errors(model):
    """Absolute errors and scales on the held-out rows of the winner, by its hypotheses one by one."""
    vote = model.fitted_votes_.best
    rows = vote.split.held_out
    answers = np.array([one.predict(X[rows]) for one in vote.hypotheses])
    mean = vote.posterior @ answers
    spread = np.sqrt(vote.posterior @ (answers - mean) ** 2)
    return np.abs(Y[rows] - mean), spread + vote.certificate.scale_floor


# -- what is proved, against oracles -----------------------------------------------------------------


def test_predicts_the_weighted_mean(model):
    vote = model.fitted_votes_.best
    answers = np.array([one.predict(NEW_X) for one in vote.hypotheses])
    np.testing.assert_allclose(model.predict(NEW_X), vote.posterior @ answers, rtol=1e-12)
    np.testing.assert_allclose(model.predict_hypotheses(NEW_X), answers, rtol=0)
    assert model.score(NEW_X, NEW_Y) > 0.6
    np.testing.assert_allclose(vote.predict(NEW_X), model.predict(NEW_X), rtol=0)


@pytest.mark.parametrize("far", [1e6, 1e10, 1e17])
def test_hypotheses_without_weight_leave_no_rounding_errors(far):
    y, new_y = X[:, 0] + 0.01 * Y, NEW_X[:, 0] + 0.01 * NEW_Y
    models = [LinearRegression().fit(NEW_X[i::2], new_y[i::2]) for i in range(2)]
    wild = DummyRegressor(strategy="constant", constant=far).fit(NEW_X, new_y)
    settings = {"holdout": 0.5, "objective": "relative", "random_state": 0}
    model = PACBayesRegressor(PrefitPool([wild, *models]), **settings).fit(X, y)
    vote = model.fitted_votes_.best
    assert 0 < vote.posterior[0] < 1e-60
    answers = np.array([one.predict(X) for one in models])
    mean = vote.posterior[1:] @ answers
    spread = np.sqrt(vote.posterior[1:] @ (answers - mean) ** 2)
    np.testing.assert_allclose(vote.task.aggregate(vote.hypotheses, vote.posterior, X), np.c_[mean, spread], atol=1e-9)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_intervals_are_those_of_the_order_statistic(model, coverage):
    errors, scale = held_out_errors(model)
    n, level = errors.size, 0.05 / 3
    # k = min{k : P(Bin(n, c) >= k) <= delta / K} [Wilks]: the k-th smallest score.
    k = next(k for k in range(n + 1) if binom.sf(k - 1, n, coverage) <= level)
    exact = np.sort(errors / scale)[k - 1]
    chosen = model.certificate_.choose_interval(coverage)
    assert chosen.threshold >= exact * (1 - 1e-12)
    # Beyond 64 misses, only some thresholds are kept.
    nearest = np.sort(errors / scale)[min(n - 1, k + int(0.03 * n))]
    assert chosen.threshold <= nearest * (1 + 1e-9)
    assert chosen.misses == np.count_nonzero(errors / scale > chosen.threshold)
    assert chosen.mean_width == pytest.approx(2 * chosen.threshold * scale.mean(), rel=1e-9)
    assert Fraction(float(beta.ppf(1 - level, chosen.misses + 1, n - chosen.misses))) <= 1 - Fraction(coverage)
    ends = model.predict_interval(NEW_X, coverage)
    middle, half = ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2
    np.testing.assert_allclose(middle, model.predict(NEW_X), rtol=1e-9)
    assert np.mean(np.abs(NEW_Y - middle) <= half) > coverage - 0.1


def test_several_levels_at_once(model):
    ends = model.predict_interval(NEW_X[:50], (0.8, 0.9))
    assert ends.shape == (50, 2, 2)
    np.testing.assert_array_equal(ends[:, :, 1], model.predict_interval(NEW_X[:50], 0.9))
    assert (np.diff(ends[:, 1] - ends[:, 0], axis=1) > 0).all()


@pytest.mark.parametrize(("kind", "power"), [("absolute", 1), ("squared", 2)])
def test_mean_errors_are_bounded_by_betting_on_all_errors(model, kind, power):
    errors, _ = held_out_errors(model)
    cap = float(model.certificate_.loss.partition(":")[2])
    exact = mean_upper_bound(np.minimum(errors / cap, 1) ** power, 0.05 / 3) ** (1 / power) * cap
    bound = model.certificate_.bound_error(kind)
    assert exact * (1 - 1e-9) <= bound <= exact * 1.02  # errors are rounded up to levels
    if kind == "absolute":
        assert bound == pytest.approx(model.certificate_.error_bound, rel=1e-12)


def test_the_curve_is_clopper_pearsons_at_fixed_errors(model):
    errors, _ = held_out_errors(model)
    curve, n = model.certificate_.error_curve(), errors.size
    for point in curve:
        k = np.count_nonzero(errors <= point.error)
        assert point.measured == pytest.approx(k / n)
        exact = beta.ppf(0.05 / 3 / len(curve), k, n - k + 1) if k else 0.0
        assert point.share == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert point.share <= exact


def test_the_narrowest_intervals_or_the_smallest_bound_win(model):
    assert model.fitted_votes_.winner == min(
        range(3), key=lambda k: model.votes_[k].certificate.choose_interval(0.9).mean_width
    )
    other = small(compete_by="error").fit(X, Y)
    assert other.fitted_votes_.winner == min(range(3), key=lambda k: other.votes_[k].certificate.error_bound)


def test_weights_fall_with_the_error_relative_to_the_smallest():
    model = small(objective="relative").fit(X, Y)
    losses, prior = model.losses_, model.prior_
    kept = ~np.isnan(losses)
    weights = np.where(kept, prior * np.exp(-8 * np.where(kept, losses, 0) / losses[kept].min()), 0)
    np.testing.assert_allclose(model.posterior_, weights / weights.sum(), rtol=1e-9)
    # In whatever unit the target is.
    scaled = small(objective="relative").fit(X, 1024 * Y)
    np.testing.assert_allclose(scaled.posterior_, model.posterior_, rtol=1e-6)


def test_squared_errors(model):
    squared = small(loss="squared_error").fit(X, Y)
    assert squared.certificate_.loss.startswith("squared_error:")
    assert squared.certificate_.error_bound == pytest.approx(squared.certificate_.bound_error("squared"), rel=1e-9)
    assert "root mean squared error" in squared.certificate_.summary()
    assert squared.verify_certificate(squared.certificate_, X, Y) == "arithmetic, model and data"


# -- statistical promises ----------------------------------------------------------------------------


@pytest.mark.parametrize("statement", simulation.STATEMENTS)
@pytest.mark.parametrize("world", simulation.WORLDS)
def test_promises_hold(world, statement):
    failures = simulation.count_failures(world, statement, 0.3, 20, n_votes=2)
    assert failures <= simulation.most_failures(0.3, 20)


@pytest.mark.slow
@pytest.mark.parametrize("statement", simulation.STATEMENTS)
@pytest.mark.parametrize("world", ["heavy tails", "ties"])
def test_promises_hold_often(world, statement):
    failures = simulation.count_failures(world, statement, 0.3, 300, n_votes=2)
    assert failures <= simulation.most_failures(0.3, 300)


@pytest.mark.parametrize(("control", "least"), [("measured", 0.35), ("conformal", 0.35), ("curve alone", 0.25)])
def test_controls_fail(control, least):
    # As certain as may be, these fail: at a delta of 0.05 a bound would do so in less than 9 of 60.
    assert simulation.count_failures("skewed", control, 0.05, 60, n_votes=2) > least * 60
    assert least * 60 > simulation.most_failures(0.05, 60)


# -- a range that is known ----------------------------------------------------------------------------


def test_without_held_out_rows_the_bound_is_the_hypotheses_mean():
    model = small(holdout=None, y_range=(-5, 35)).fit(X, Y)
    certificate = model.certificate_
    assert certificate.statements[0].predictor == "weighted mean"
    assert certificate.loss == "absolute_error:40.0"
    assert not certificate.is_tested
    # The direct bound of the same posterior, for losses in [0, 1].
    same, _ = certify(model.losses_, model.n_validation_, prior=model.prior_, loss="absolute", objective="lambda")
    assert certificate.bound == pytest.approx(same.gibbs_bound, rel=1e-9)
    assert np.abs(NEW_Y - model.predict(NEW_X)).mean() < certificate.error_bound
    assert model.verify_certificate(certificate, X, Y) == "arithmetic, model and data"
    with pytest.raises(ValueError, match="intervals rest on held-out points"):
        model.predict_interval(NEW_X)


def test_predictions_and_intervals_stay_in_the_range():
    clipped = small(y_range=(10.0, 12.0)).fit(X, np.clip(Y, 10, 12))
    alone = clipped.predict_hypotheses(NEW_X)
    assert 10 <= alone.min() <= alone.max() <= 12
    assert 10 <= clipped.predict(NEW_X).min() <= clipped.predict(NEW_X).max() <= 12
    assert 10 <= clipped.predict_interval(NEW_X).min() <= clipped.predict_interval(NEW_X).max() <= 12


def test_a_cap_from_the_sample_proves_nothing_by_validation():
    certificate, _ = certify([0.1, 0.2], n=100, voting="mean", loss="absolute_error:2.0")
    assert certificate.bound == 1.0
    assert certificate.error_bound == np.inf
    declared = ["range-declared:0.0 to 2.0"]
    proved, _ = certify([0.1, 0.2], n=100, voting="mean", loss="absolute_error:2.0", assumptions=declared)
    assert 0.1 < proved.bound < 0.5
    with pytest.raises(CertificateError, match="prove nothing without 'range-declared'"):
        replace(proved, assumption_codes=certificate.assumption_codes).check()


# -- certificates in files and verified --------------------------------------------------------------


def test_certificate_is_verified_at_all_levels(model):
    certificate = model.certificate_
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert model.verify_certificate(again) == "arithmetic and model"
    assert model.verify_certificate(again, X, Y) == "arithmetic, model and data"
    moved = Y.copy()
    moved[model.fitted_votes_.best.split.held_out[0]] += 3.0
    with pytest.raises(CertificateError):
        model.verify_certificate(again, X, moved)


def test_certificates_from_before_stacking_are_verified(model, monkeypatch):
    """The settings of a model say "auto", which stood for another objective when it was fitted."""
    with monkeypatch.context() as before:
        before.setattr("pacbayes.fitting._fit.resolve_objective", lambda *_, **__: "relative")
        earlier = small().fit(X, Y)
    assert (earlier.fitted_votes_.settings.objective, earlier.certificate_.objective) == ("auto", "relative")
    assert earlier.verify_certificate(earlier.certificate_, X, Y) == "arithmetic, model and data"
    for one, other in ((model, earlier), (earlier, model)):
        with pytest.raises(CertificateError, match="objective is stated as"):
            one.verify_certificate(other.certificate_)


EDITS = {
    "a smaller bound": lambda c: c["statements"][0].update(bound=c["statements"][0]["bound"] * 0.99),
    "smaller errors": lambda c: move_counts(c["statements"][0]["figures"]["counts"]),
    "a smaller loss": lambda c: c["statements"][0]["figures"].update(loss=0.0),
    "another power": lambda c: c["statements"][0]["figures"].update(power=2),
    "fewer misses": lambda c: c["numbers"]["intervals"][3].update(misses=2),
    "a smaller cap": lambda c: [one.update(loss="absolute_error:1.0") for one in [c, *c["statements"]]],
    "no cap": lambda c: [one.update(loss="absolute_error:nan") for one in [c, *c["statements"]]],
    "narrower intervals": lambda c: [row.update(threshold=row["threshold"] / 2) for row in c["numbers"]["intervals"]],
    "a smaller scale": lambda c: c["numbers"].update(mean_scale=c["numbers"]["mean_scale"] / 2),
    "all votes alone": lambda c: c.update(n_votes=1),
    "a price of nothing": lambda c: c["statements"][0]["figures"].update(kl_div=0.0),
    "a worse median": lambda c: c["numbers"].update(median_loss=1.0),
    "no numbers": lambda c: c.pop("numbers"),
    "another voting": lambda c: c.update(voting="majority"),
}


def move_counts(counts):
    """Say that errors were smaller: all of them at the first level."""
    counts[:] = [sum(counts), *[0] * (len(counts) - 1)]


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_edited_certificates_are_refused(model, edit):
    content = json.loads(model.certificate_.to_json())
    edit(content)
    del content["checksum"]
    content["checksum"] = checksum(content)
    with pytest.raises(CertificateError):
        model.verify_certificate(Certificate.from_json(json.dumps(content)), X, Y)


def test_a_cap_that_is_not_the_width_of_the_range_is_refused():
    declared = ["range-declared:-1.0 to 1.0"]
    proved, _ = certify([0.1, 0.2], n=100, voting="mean", loss="absolute_error:2.0", assumptions=declared)
    smaller = tuple(replace(one, loss="absolute_error:0.5") for one in proved.statements)
    with pytest.raises(CertificateError, match=r"the cap in loss is stated as 0\.5 but comes out as 2\.0"):
        replace(proved, loss="absolute_error:0.5", statements=smaller).check()
    others = [code for code in proved.assumption_codes if code not in declared]
    for wrong in (["range-declared:cow"], ["range-declared:1.0 to -1.0"], [*declared, "range-declared:0.0 to 2.0"]):
        with pytest.raises(CertificateError, match="must declare one range, 'range-declared:LOW to HIGH', got"):
            replace(proved, assumption_codes=(*others, *wrong)).check()


def test_another_range_is_another_setting():
    declared = small(y_range=(0, 40)).fit(X, np.clip(Y, 0, 40))
    moved = replace(declared.fitted_votes_.task, limits=np.array([-5.0, 35.0]))
    declared.fitted_votes_ = replace(declared.fitted_votes_, task=moved)
    with pytest.raises(CertificateError, match="settings of the classifier are not those that it was fitted with"):
        declared.verify_certificate(declared.certificate_)


def test_new_points_outside_of_the_range_are_refused():
    # Their intervals, which end at those of the range, would hold none of them.
    declared = small(y_range=(0, 40)).fit(X, np.clip(Y, 0, 40))
    with pytest.raises(ValueError, match=r"^y must be in the declared range, y_range=\(0.0, 40.0\), got .* in row 0"):
        declared.certify(NEW_X, NEW_Y + 100)


def test_new_points_certify(model):
    certificate = model.certify(NEW_X, NEW_Y)
    assert certificate.n_votes == 1
    errors = np.abs(NEW_Y - model.predict(NEW_X))
    assert errors.mean() < certificate.error_bound < model.certificate_.error_bound * 1.2
    assert certificate.choose_interval(0.9).n == 400
    with pytest.raises(ValueError, match="rows of the training sample"):
        model.certify(X, Y)
    with pytest.raises(ValueError, match="y must be given"):
        model.certify(NEW_X)


def test_errors_by_group():
    rng = np.random.default_rng(0)
    group = np.where(X[:, 0] > 0.5, "high", "low")
    noisy = Y + np.where(group == "high", 6.0, 0.0) * rng.normal(size=500)
    model = small().fit(X, noisy, groups=group)
    certificate, vote = model.certificate_, model.fitted_votes_.best
    rows, groups = vote.split.held_out, certificate.groups
    wrong = np.abs(noisy[rows] - model.predict(X[rows])) > certificate.large_error
    for label, (errors, n), bound in zip(groups.labels, groups.counts, groups.bounds, strict=True):
        inside = group[rows] == label
        assert (errors, n) == (np.count_nonzero(wrong & inside), np.count_nonzero(inside))
        assert bound == pytest.approx(float(beta.ppf(1 - 0.05 / 3 / 2, errors + 1, n - errors)), rel=1e-9)
    assert groups.worst[0] == "high"
    assert "off by more than" in str(certificate)
    assert model.verify_certificate(certificate, X, noisy, groups=group) == "arithmetic, model and data"
    assert model.certify(NEW_X, NEW_Y, groups=NEW_X[:, 0] > 0.5).groups is not None


def test_changed_settings_are_refused(model):
    changed = small().fit(X, Y)
    for name, value in (("y_range", (-5, 40)), ("compete_by", "error"), ("loss", "squared_error"), ("delta", 0.1)):
        before = getattr(changed, name)
        setattr(changed, name, value)
        with pytest.raises(CertificateError, match=f"changed after the fit: {name}"):
            changed.verify_certificate(model.certificate_)
        setattr(changed, name, before)
    assert changed.verify_certificate(model.certificate_)


# -- same bits ---------------------------------------------------------------------------------------


def assert_same(one, other):
    assert one.certificate_.to_json() == other.certificate_.to_json()
    np.testing.assert_array_equal(one.posterior_, other.posterior_)
    np.testing.assert_array_equal(one.predict(NEW_X), other.predict(NEW_X))
    np.testing.assert_array_equal(one.predict_interval(NEW_X), other.predict_interval(NEW_X))


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(None, id="default", marks=pytest.mark.slow), pytest.param(LinearPool(n_hypotheses=4), id="linear")],
)
def test_workers_and_blocks_change_nothing(estimator, set_block_rows):
    one = PACBayesRegressor(estimator, random_state=0).fit(X, Y)
    two = PACBayesRegressor(estimator, random_state=0, n_jobs=2).fit(X, Y)
    assert_same(one, two)
    set_block_rows(97)
    assert_same(one, PACBayesRegressor(estimator, random_state=0).fit(X, Y))
    np.testing.assert_array_equal(one.predict(NEW_X)[5], one.predict(NEW_X[5:6])[0])


def test_parquet_and_checkpoint_give_the_bits_of_an_array(tmp_path, model):
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame.assign(price=Y).to_parquet(tmp_path / "rows.parquet")
    read = PACBayesRegressor(LinearPool(n_hypotheses=4), random_state=0).fit(tmp_path / "rows.parquet", "price")
    kept = PACBayesRegressor(LinearPool(n_hypotheses=4), random_state=0).fit(frame, Y)
    assert read.certificate_.statements == kept.certificate_.statements
    np.testing.assert_array_equal(read.posterior_, kept.posterior_)
    stored = clone(kept).set_params(checkpoint=tmp_path / "parts").fit(X, Y)
    again = clone(kept).set_params(checkpoint=tmp_path / "parts").fit(X, Y)
    assert stored.certificate_.to_json() == again.certificate_.to_json()
    assert stored.certificate_.statements == kept.certificate_.statements


def test_a_checkpoint_belongs_to_its_range(tmp_path):
    inside, wide = small(y_range=(0, 40), holdout=None), small(y_range=(-5000, 5000), holdout=None)
    wide.set_params(checkpoint=tmp_path / "parts").fit(X, np.clip(Y, 0, 40))
    # Losses in units of 10000 for those in units of 40 would make a bound that is 250 times too small.
    with pytest.raises(SourceError, match="belongs to another fit, y_range differ"):
        inside.set_params(checkpoint=tmp_path / "parts").fit(X, np.clip(Y, 0, 40))


@pytest.mark.parametrize("shift", [1e9, 1e12, 1e14])
def test_targets_far_from_zero(shift):
    # Errors are counted by more than they are, since numbers are rounded: what is proved is weak, and true.
    far = PACBayesRegressor(LinearPool(n_hypotheses=4), random_state=0).fit(X, Y + shift)
    assert far.certificate_.error_bound > np.abs(far.predict(NEW_X) - (NEW_Y + shift)).mean()
    lower, upper = far.predict_interval(NEW_X).T
    assert np.mean((lower <= NEW_Y + shift) & (NEW_Y + shift <= upper)) > 0.85
    assert far.verify_certificate(far.certificate_, X, Y + shift) == "arithmetic, model and data"


def test_tables_with_text_and_gaps():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "kind": rng.choice(["a", "b", "c"], 400)})
    y = frame["x"] + frame["kind"].map({"a": 0.0, "b": 3.0, "c": -2.0}) + rng.normal(size=400) * 0.3
    frame.loc[::17, "x"] = np.nan
    model = PACBayesRegressor(random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.8
    assert model.verify_certificate(model.certificate_, frame, y) == "arithmetic, model and data"


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(np.arange(500) == 7, np.nan, Y), "y must hold finite numbers, got nan in row 7"),
        (np.where(np.arange(500) == 9, np.inf, Y), "y must hold finite numbers, got inf in row 9"),
        (np.where(np.arange(500) == 5, -1e200, Y), r"y must hold numbers up to 1e\+150, .* got -1e\+200 in row 5"),
        (np.arange(500).astype("datetime64[ns]"), r"y must hold numbers, got datetime64\[ns\] such as 1970-01-01"),
        (np.where(Y > 14, "high", "low"), "y must hold numbers, got '.*': for classes there is PACBayesClassifier"),
        (np.full(500, 3.0), "y must hold different numbers, got .*3.0.* in all rows"),
    ],
)
def test_targets_that_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        small().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"y_range": (0, 20)}, r"y must be in the declared range, y_range=\(0.0, 20.0\), got .* in row"),
        (
            {"y_range": (3, 1)},
            r"y_range must be None or two finite numbers \(low, high\), low below high, got \(3, 1\)",
        ),
        ({"y_range": "12"}, "y_range must be None or two finite numbers"),
        ({"y_range": 5}, "y_range must be None or two finite numbers"),
        ({"y_range": (0, np.inf)}, "y_range must be None or two finite numbers"),
        ({"y_range": (-1e308, 1e308)}, r"y_range must be None or two finite numbers .* and none beyond 1e\+150"),
        ({"holdout": None}, r"holdout must not be None without y_range=\(low, high\)"),
        ({"loss": "zero_one"}, "loss must be 'absolute_error' or 'squared_error', got 'zero_one'"),
        ({"voting": "majority"}, "voting must be 'mean' or 'best', got 'majority'"),
        ({"compete_by": "luck"}, "compete_by must be 'width' or 'error', got 'luck'"),
        ({"estimator": RBFSVMPool()}, "RBFSVMPool predicts classes, not numbers"),
        ({"estimator": DecisionTreeClassifier()}, "EstimatorPool predicts classes, not numbers"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(X, Y)


def test_a_regressor_is_no_classifier():
    with pytest.raises(ValueError, match="max_error must be None where numbers are predicted"):
        small().fit(X, Y, max_error=0.1)
    with pytest.raises(ValueError, match="classif"):
        PACBayesClassifier(DecisionTreeRegressor()).fit(X, Y > 14)
    with pytest.raises(ValueError, match="Unknown label type"):
        PACBayesClassifier().fit(X, Y)


@pytest.mark.parametrize(
    ("coverage", "message"),
    [
        (1.0, r"coverage must be in \(0, 1\)"),
        (0.0, r"coverage must be in \(0, 1\)"),
        (np.nan, "coverage must be"),
        (0.999, "needs at least 4093 held-out points to be proved at this delta, and there are"),
        ([], "coverage must be a number or a sequence of numbers"),
    ],
)
def test_coverages_that_are_refused(model, coverage, message):
    with pytest.raises(ValueError, match=message):
        model.predict_interval(NEW_X, coverage)


class Odd(LinearRegression):
    """A regressor that answers what it should not."""

    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer

    def predict(self, X):
        return np.full(self.answer[0], self.answer[1])


@pytest.mark.parametrize(
    ("answer", "message"),
    [((1, 0.0), "must return one number per row"), ((None, np.nan), "finite numbers"), ((None, "a"), "one number")],
)
def test_answers_that_are_refused(answer, message):
    class Answers(Odd):
        def predict(self, X):
            return np.full(len(X) if answer[0] is None else answer[0], answer[1])

    with pytest.raises(HypothesisError, match=message):
        PACBayesRegressor(EstimatorPool(Answers(), n_hypotheses=2, subsample_size=0.5)).fit(X, Y)


# -- other pools, and what scikit-learn expects ------------------------------------------------------


class CompanyRegressor(RegressorMixin, BaseEstimator):
    """Predict by the other rows as well, as FunctionTransformer(scale) makes a pipeline do."""

    def __init__(self, share=0.01):
        self.share = share

    def fit(self, X, y):
        self.model_, self.scale_ = LinearRegression().fit(X, y), np.std(y)
        return self

    def predict(self, X):
        return self.model_.predict(X) + self.share * self.scale_ * X[:, 0].mean()


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("y_range", [None, (-1e6, 1e6)])
def test_predictions_by_other_rows_are_refused_in_any_unit(unit, y_range):
    limits = None if y_range is None else tuple(unit * end for end in y_range)
    settings = {"n_hypotheses": 3, "subsample_size": 0.5, "random_state": 0, "y_range": limits}
    with pytest.raises(HypothesisError, match="a prediction must be a function of its row"):
        PACBayesRegressor(CompanyRegressor(), **settings).fit(X, Y * unit)
    # What differs by rounding alone does not.
    PACBayesRegressor(LinearRegression(), **settings).fit(X, Y * unit)


def test_regressors_that_were_trained_elsewhere():
    models = [Ridge(alpha).fit(NEW_X, NEW_Y) for alpha in (0.1, 10.0)]
    model = PACBayesRegressor.from_prefit(models, X, Y, holdout=0.5)
    assert np.abs(Y - model.predict(X)).mean() < model.certificate_.error_bound
    alone = PACBayesRegressor.from_prefit(models[:1], X, Y, y_range=(-5, 40))
    assert alone.certificate_.voting == "best"
    assert alone.certificate_.error_bound < 40
    with pytest.raises(ValueError, match="PrefitPool predicts classes, not numbers"):
        PACBayesRegressor(PrefitPool([DecisionTreeClassifier().fit(NEW_X, NEW_Y > 14)]), holdout=0.5).fit(X, Y)


def test_pipelines_and_the_best_hypothesis():
    pipeline = make_pipeline(StandardScaler(), Ridge())
    pool = EstimatorPool(pipeline, param_distributions={"ridge__alpha": [0.1, 1.0, 10.0]})
    model = PACBayesRegressor(pool, n_hypotheses=5, subsample_size=0.5, voting="best", random_state=0).fit(X, Y)
    assert np.count_nonzero(model.posterior_) == 1
    widths = np.diff(model.predict_interval(NEW_X), axis=1)
    np.testing.assert_allclose(widths[:, 0], widths[0, 0], rtol=1e-9)  # one hypothesis has no spread


def test_words(model):
    text = str(model.certificate_)
    assert re.search(r"the mean absolute error of the weighted mean on new points .* is at most \d", text)
    assert "always predicting the median" in text
    assert "Intervals that hold the target" in text
    assert "How far predictions are off" in text
    assert "classifier" not in text
    useless = PACBayesRegressor(LinearPool(n_hypotheses=2), random_state=0).fit(
        X, np.random.default_rng(0).normal(size=500)
    )
    assert "any better than always predicting the median" in str(useless.certificate_)


def test_a_test_without_room_for_a_level():
    test = NumberTest(np.arange(5.0), np.zeros(5), np.ones(5))
    certificate, _ = certify([0.1], n=10, voting="mean", loss="absolute_error:2.0")
    few = with_numbers(certificate, test, 4.0, 4.0)
    assert few.numbers.intervals[0].misses == 0
    with pytest.raises(ValueError, match="needs at least 29 held-out points"):
        few.choose_interval(0.9)
    assert few.interval_table() is None or "90%" not in str(few.interval_table())
