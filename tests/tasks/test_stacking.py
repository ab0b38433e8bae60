"""Weights by the loss of the vote itself: its gradient and minimum against oracles, and what must not change them."""

from dataclasses import replace

import numpy as np
import pytest
from number_simulation import most_failures
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_friedman1, make_moons
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pacbayes import CertificateError, PACBayesClassifier, PACBayesRegressor, certify
from pacbayes.bounds import direct_bound
from pacbayes.display import PoolSizeDisplay
from pacbayes.fitting import _fit, _verification
from pacbayes.fitting._evaluation import stack_vote
from pacbayes.pools import EstimatorPool, LinearPool, PrefitPool, RBFSVMPool, UnionPool
from pacbayes.report import fit_page
from pacbayes.tasks._stacking import stack
from pacbayes.tasks._voting import find_shares

M, N = 6, 300


def problem(seed=0, width=1):
    rng = np.random.default_rng(seed)
    residuals = rng.standard_t(3, (M, N, width)) + rng.normal(size=(1, N, width)) + rng.normal(0, 0.3, (M, 1, width))
    return residuals, rng.random((M, N)) < 0.6, rng.dirichlet(np.ones(M))


def mean_residuals(weights, residuals, outside):
    weight = weights[:, np.newaxis] * outside
    asked = weight.any(axis=0)
    return np.einsum("hr,hrc->rc", weight, residuals)[asked] / weight.sum(axis=0)[asked, np.newaxis]


def loss(weights, residuals, outside, scale, is_robust):
    size = np.linalg.norm(mean_residuals(weights, residuals, outside), axis=1) / scale
    return np.mean(np.where((size <= 1) | (not is_robust), size**2 / 2, size - 0.5))


def scale_of(start, residuals, outside, is_robust):
    sizes = np.linalg.norm(mean_residuals(start, residuals, outside), axis=1)
    return 1.48 * np.median(sizes) if is_robust else np.sqrt(np.mean(sizes**2) / 2)


@pytest.mark.parametrize(("is_robust", "width"), [(True, 1), (False, 3)])
def test_a_step_is_that_of_the_gradient(is_robust, width):
    residuals, outside, start = problem(1, width)
    scale, rate = scale_of(start, residuals, outside, is_robust), 0.01
    weights = stack(residuals, outside, start, rate=rate, steps=1, is_robust=is_robust)
    # By central differences: the mean, hence the loss, does not depend on the sum of the weights.
    steps = 1e-6 * np.eye(M)
    ends = [[loss(start + sign * step, residuals, outside, scale, is_robust) for sign in (1, -1)] for step in steps]
    gradient = np.diff(ends, axis=1)[:, 0] / -2e-6
    expected = start * np.exp(-rate * (gradient - start @ gradient))
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-7)


@pytest.mark.parametrize("is_robust", [True, False])
def test_many_steps_come_near_the_minimum(is_robust):
    residuals, outside, start = problem(2)
    outside = np.ones_like(outside)  # where the loss is convex
    scale = scale_of(start, residuals, outside, is_robust)

    def at(weights):
        return loss(weights, residuals, outside, scale, is_robust)

    simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
    best = minimize(at, start, method="SLSQP", bounds=[(0, 1)] * M, constraints=simplex, options={"ftol": 1e-12}).fun
    found = at(stack(residuals, outside, start, rate=3.0, steps=3000, is_robust=is_robust))
    assert best * (1 - 1e-9) <= found < best + 0.02 * (at(start) - best)
    few = at(stack(residuals, outside, start, rate=3.0, steps=30, is_robust=is_robust))
    assert found < few < at(start)


def test_answers_on_training_rows_do_not_count():
    residuals, outside, start = problem(3)
    settings = {"rate": 3.0, "steps": 50, "is_robust": True}
    weights = stack(residuals, outside, start, **settings)
    known = np.where(outside[:, :, np.newaxis], residuals, 1e9)
    np.testing.assert_array_equal(weights, stack(known, outside, start, **settings))
    # A hypothesis that knows its training rows by heart, and nothing else, gets all weight if they count.
    by_heart = np.where(outside[:, :, np.newaxis], 5 * residuals, 0.0) * (np.arange(M) == 0)[:, None, None]
    by_heart += residuals * (np.arange(M) > 0)[:, None, None]
    assert stack(by_heart, outside, start, **settings)[0] < start[0] / 2
    outside[0] = False
    everywhere = np.concatenate((np.zeros((1, N, 1)), residuals[1:]))
    assert stack(everywhere, np.ones_like(outside), start, **settings)[0] > 0.9


def test_units_and_order_change_nothing():
    residuals, outside, start = problem(4)
    settings = {"rate": 3.0, "steps": 50, "is_robust": True}
    weights = stack(residuals, outside, start, **settings)
    np.testing.assert_allclose(stack(1e-140 * residuals, outside, start, **settings), weights, rtol=1e-9)
    np.testing.assert_allclose(stack(1e140 * residuals, outside, start, **settings), weights, rtol=1e-9)
    order = np.random.default_rng(0).permutation(M)
    shuffled = stack(residuals[order], outside[order], start[order], **settings)
    np.testing.assert_allclose(shuffled, weights[order], rtol=1e-9)


@pytest.mark.parametrize("residuals", [np.zeros((M, N, 1)), np.ones((M, 0, 1))])
def test_weights_stay_where_nothing_can_be_learned(residuals):
    start = np.full(M, 1 / M)
    outside = np.ones(residuals.shape[:2], dtype=bool)
    kept = stack(residuals, outside, start, rate=3.0, steps=10, is_robust=True)
    np.testing.assert_array_equal(kept, start)
    # Or where all rows are training rows.
    everywhere = stack(np.ones((M, N, 1)), np.zeros((M, N), dtype=bool), start, rate=3.0, steps=10, is_robust=True)
    np.testing.assert_array_equal(everywhere, start)


def test_one_wild_hypothesis_does_no_harm():
    rng = np.random.default_rng(5)
    residuals, outside, start = problem(5)
    residuals[0, rng.random(N) < 0.02] = 1e12
    weights = stack(residuals, outside, start, rate=3.0, steps=100, is_robust=True)
    errors = np.abs(mean_residuals(weights, residuals, outside))
    assert np.median(errors) < 1.2 * np.median(np.abs(mean_residuals(start, residuals, outside)))
    assert weights[0] < 0.01


# -- in a fit ---------------------------------------------------------------------------------------

X, Y = make_friedman1(300, noise=1.0, random_state=0)
POINTS, LABELS = make_moons(300, noise=0.3, random_state=0)


def regressor(**settings):
    trees = EstimatorPool(DecisionTreeRegressor(max_depth=5), n_hypotheses=6, subsample_size=0.7)
    return PACBayesRegressor(
        UnionPool([("tree", trees), ("linear", LinearPool(n_hypotheses=4))]), random_state=0, **settings
    ).fit(X, Y)


def classifier(objective="stacking", **settings):
    trees = EstimatorPool(DecisionTreeClassifier(max_depth=4), n_hypotheses=6, subsample_size=0.7)
    return PACBayesClassifier(
        UnionPool([("tree", trees), ("linear", LinearPool(n_hypotheses=4))]),
        objective=objective,
        random_state=0,
        **settings,
    ).fit(POINTS, LABELS)


@pytest.mark.parametrize("fit", [regressor, classifier])
def test_a_fit_stacks_the_answers_of_hypotheses_outside_of_their_subsamples(fit):
    model = fit()
    vote = model.fitted_votes_.best
    start = fit(objective="relative" if fit is regressor else "lambda").fitted_votes_.votes[model.fitted_votes_.winner]
    rows, target = (X, Y) if fit is regressor else (POINTS, LABELS)
    rows, target = rows[vote.split.rows], target[vote.split.rows]
    outside = np.array([~np.isin(np.arange(len(rows)), vote.subsamples[h]) for h in range(len(vote.hypotheses))])
    if fit is regressor:
        residuals = np.array([one.predict(rows) - target for one in vote.hypotheses])[:, :, np.newaxis]
        settings = {"rate": 3.0, "steps": 100, "is_robust": True}
    else:
        shares = np.zeros((len(vote.hypotheses), len(rows), 2))
        for h in range(len(shares)):
            vote.hypotheses.take(np.array([h])).add_votes(rows, np.ones(1), shares[h])
        residuals = shares - np.eye(2)[target]
        settings = {"rate": 1.0, "steps": 40, "is_robust": False}
    heavy = start.posterior >= 1e-6 * start.posterior.max()
    begun = np.where(heavy, start.posterior, 0) / start.posterior[heavy].sum()
    np.testing.assert_allclose(vote.posterior, stack(residuals, outside, begun, **settings), rtol=1e-6)
    assert model.certificate_.objective == "stacking"
    assert model.certificate_.lam is None
    assert "stacking" in str(model.certificate_)


@pytest.mark.parametrize("fit", [regressor, classifier])
def test_other_weights_are_found_with_the_training_sample(fit, monkeypatch):
    """All that is stated about them is true, and the vote is tested: but they are not the ones of the objective."""

    def uniform(vote, rest, k=None):
        return np.full(vote.posterior.size, 1 / vote.posterior.size)

    monkeypatch.setattr(_fit, "stack_vote", uniform)
    model = fit(racing=False)
    monkeypatch.undo()
    assert model.verify_certificate(model.certificate_) == "arithmetic and model"
    sample = (X, Y) if fit is regressor else (POINTS, LABELS)
    with pytest.raises(CertificateError, match="the weights of the classifier are not those"):
        model.verify_certificate(model.certificate_, *sample)
    monkeypatch.setattr(_verification, "stack_vote", uniform)
    assert model.verify_certificate(model.certificate_, *sample) == "arithmetic, model and data"


def test_weights_of_a_model_that_are_not_those_of_its_certificate_are_found():
    model = regressor()
    fitted = model.fitted_votes_
    others = list(fitted.votes)
    others[fitted.winner] = replace(fitted.best, posterior=np.roll(fitted.best.posterior, 1))
    model.fitted_votes_ = replace(fitted, votes=tuple(others))
    with pytest.raises(CertificateError):
        model.verify_certificate(fitted.best.certificate)


@pytest.mark.parametrize("objective", ["relative", "lambda", "direct"])
def test_a_certificate_of_another_objective_is_found(objective):
    model, other = regressor(), regressor(objective=objective)
    for one, stated in ((model, other), (other, model)):
        with pytest.raises(CertificateError, match="objective is stated as"):
            one.verify_certificate(stated.certificate_)
    lam = None if objective == "direct" else 1.0
    edited = replace(model.certificate_, objective=objective, lam=lam, minimum_lower_bound=0.0)
    edited.check()
    with pytest.raises(CertificateError, match="objective is stated as"):
        model.verify_certificate(edited)


def test_pages_leave_out_what_smaller_pools_would_do(no_pictures):
    pool = EstimatorPool(DecisionTreeClassifier(max_depth=4), n_hypotheses=6, subsample_size=0.7)
    model = PACBayesClassifier(pool, objective="stacking", racing=False, random_state=0).fit(POINTS, LABELS)
    with pytest.raises(ValueError, match=r"estimator must weigh hypotheses by their losses, .* 'stacking'"):
        PoolSizeDisplay.from_estimator(model)
    page = fit_page(model)
    assert "plot-mass" in page
    assert "plot-pool" not in page
    assert "plot-pool" in fit_page(model.set_params(objective="lambda").fit(POINTS, LABELS))


@pytest.mark.parametrize("wild", [1e200, -1e300])
def test_numbers_whose_squares_overflow_do_no_harm(wild):
    class Wild(DecisionTreeRegressor):
        def predict(self, X):
            return np.where(X[:, 0] < 0.1, wild, super().predict(X))

    pools = [("wild", EstimatorPool(Wild(max_depth=3), n_hypotheses=3)), ("linear", LinearPool(n_hypotheses=3))]
    model = PACBayesRegressor(UnionPool(pools), random_state=0).fit(X, Y)
    assert np.isfinite(model.predict_interval(X, coverage=0.8)).all()
    assert model.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"


def test_a_fit_that_stops_when_it_has_stacked_goes_on(tmp_path, monkeypatch):
    def stop(*arguments):
        stack_vote(*arguments)
        raise KeyboardInterrupt

    undisturbed = regressor()
    with monkeypatch.context() as patch:
        patch.setattr(_fit, "stack_vote", stop)
        with pytest.raises(KeyboardInterrupt):
            regressor(checkpoint=tmp_path / "fit")
    assert any("stacking" in path.name for path in (tmp_path / "fit").rglob("*"))
    again = regressor(checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(again.posterior_, undisturbed.posterior_)
    assert again.certificate_ == undisturbed.certificate_


def test_votes_that_differ_between_engines_have_no_share(monkeypatch):
    """Or a fit on a device would not be verified without one: its weights would be others."""
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, subsample_size=30, random_state=0).fit(POINTS, LABELS)
    hypotheses, near = model.hypotheses_, np.random.default_rng(0).random((5, 300)) < 0.1
    votes, known = hypotheses.votes(POINTS).astype(int), find_shares(hypotheses, POINTS)
    for other in (votes, np.where(near, 1 - votes, votes)):
        monkeypatch.setattr(type(hypotheses), "votes_and_uncertain", lambda _, points, other=other: (other, near))
        np.testing.assert_array_equal(find_shares(hypotheses, POINTS), np.where(near[:, :, np.newaxis], 0.0, known))


def test_a_randomised_classifier_has_no_vote_to_stack():
    with pytest.raises(ValueError, match="objective must not be 'stacking' for voting='gibbs'"):
        classifier(voting="gibbs")


def test_without_held_out_rows_the_bound_is_that_of_the_stacked_weights():
    y = np.clip(Y, 0, 30)
    models = [LinearRegression().fit(X[i::3] + 0.1, Y[i::3]) for i in range(3)]
    model = PACBayesRegressor(
        PrefitPool(models), y_range=(0, 30), holdout=None, objective="stacking", random_state=0
    ).fit(X, y)
    certificate = model.certificate_
    expected = direct_bound(model.posterior_, model.losses_, model.n_validation_, delta=0.05)
    assert certificate.statements[0].bound == pytest.approx(expected, rel=1e-9)
    assert certificate.statements[0].bound >= expected * (1 - 1e-12)


def test_votes_on_classes_minimise_the_bound_by_default():
    assert classifier(objective="auto").certificate_.objective == "lambda"


@pytest.mark.parametrize("voting", ["best", "uniform"])
def test_votings_that_choose_weights_need_no_posterior(voting):
    certificate, _ = certify([0.1, 0.2], 500, objective="stacking", voting=voting)
    certificate.verify([0.1, 0.2], n=500)


def test_certify_keeps_the_weights_that_it_is_given():
    losses, rho = [0.1, 0.2, 0.3, np.nan], [0.5, 0.25, 0.25, 0.0]
    certificate, kept = certify(losses, 500, objective="stacking", posterior=rho)
    np.testing.assert_array_equal(kept, rho)
    assert certificate.empirical_loss == pytest.approx(0.175, rel=1e-9)
    certificate.verify(losses, n=500, posterior=rho)
    with pytest.raises(CertificateError, match="does not follow from losses: give the posterior"):
        certificate.verify(losses, n=500)
    with pytest.raises(CertificateError, match="bound is stated as"):
        certificate.verify(losses, n=500, posterior=[0.25, 0.5, 0.25, 0.0])
    # Weights that miss one are those of their shares, and none is more than one.
    for sum_of_weights in (1 - 9e-9, 1 + 9e-9, 1 + 1e-14):
        one, kept = certify([0.1, 0.2], 500, objective="stacking", posterior=[sum_of_weights, 0.0])
        exact, _ = certify([0.1, 0.2], 500, objective="stacking", posterior=[1.0, 0.0])
        assert kept[0] == pytest.approx(1, abs=1e-13)
        assert one.vote_bound == pytest.approx(exact.vote_bound, rel=1e-12)
        one.verify([0.1, 0.2], n=500, posterior=[sum_of_weights, 0.0])
    equal, _ = certify([0.1, 0.1], 500, objective="stacking", posterior=[0.25, 0.75])
    with pytest.raises(CertificateError, match=r"digests\['posterior'\]"):
        equal.verify([0.1, 0.1], n=500, posterior=[0.75, 0.25])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "stacking"}, "objective must not be 'stacking' without a posterior"),
        ({"posterior": [0.5, 0.5]}, "posterior must be None for the objective 'lambda'"),
        ({"objective": "stacking", "posterior": [0.5, 0.6]}, "posterior must sum to one, got a sum of 1.1"),
        ({"objective": "stacking", "posterior": [1.5, -0.5]}, "posterior must be non-negative, got -0.5"),
        ({"objective": "stacking", "posterior": [1.0]}, "posterior must"),
        ({"objective": "stacking", "posterior": [0.5, 0.5], "prior": [1.0, 0.0]}, "zero where the prior is"),
        ({"objective": "stacking", "posterior": [0.5, 0.5], "voting": "best"}, "None for voting='best'"),
        ({"objective": "stacking", "posterior": [0.5, 0.5], "voting": "uniform"}, "None for voting='uniform'"),
        (
            {"losses": [0.1, np.nan], "objective": "stacking", "posterior": [0.5, 0.5]},
            "must be zero where a loss is NaN",
        ),
    ],
)
def test_weights_that_cannot_be_certified(settings, message):
    with pytest.raises(ValueError, match=message):
        certify(**{"losses": [0.1, 0.2], "n": 100, **settings})


# -- what is stated about stacked means is true -------------------------------------------------------


class Noise(RegressorMixin, BaseEstimator):
    """Predict what has nothing to do with the target."""

    def __init__(self, number=0):
        self.number = number

    def fit(self, X, y):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return np.sin(1000 * (self.number + 1) * X[:, 0] + self.number)


def count_false(repetitions, monkeypatch, *, cheats):
    """Count means, and intervals, that are stated falsely about a target that nothing can be learned of."""
    noise = [Noise(number).fit(None, None) for number in range(30)]
    new, targets = np.random.default_rng(0).random((2000, 1)), np.random.default_rng(1).normal(size=2000)
    false = np.zeros(2, dtype=int)
    for seed in range(1, repetitions + 1):
        rng = np.random.default_rng(seed)
        rows, y = rng.random((60, 1)), rng.normal(size=60)

        def stack_on_held_out(vote, rest, k=None, rows=rows, y=y):
            tested = vote.split.held_out
            return stack_vote(vote, rest.with_sample(replace(rest.sample, X=rows[tested], codes=y[tested])))

        if cheats:
            monkeypatch.setattr(_fit, "stack_vote", stack_on_held_out)
        model = PACBayesRegressor(PrefitPool(noise), delta=0.2, holdout=0.5, random_state=seed).fit(rows, y)
        monkeypatch.undo()
        certificate, predicted = model.certificate_, model.predict(new)
        error = np.minimum(np.abs(targets - predicted), certificate.large_error).mean()
        low, high = model.predict_interval(new, coverage=0.8).T
        false += error > certificate.error_bound, (norm.cdf(high) - norm.cdf(low)).mean() < 0.8
    return false


@pytest.mark.slow
def test_stacked_means_keep_what_their_certificates_state(monkeypatch):
    repetitions = 90
    most = most_failures(0.2, repetitions)
    assert (count_false(repetitions, monkeypatch, cheats=False) <= most).all()
    # To stack on the held-out rows instead: intervals miss too many points.
    assert count_false(repetitions, monkeypatch, cheats=True)[1] > most
