"""The experiments of the paper, on one small split."""

import numpy as np
import pytest
from sklearn.svm import SVC

from pacbayes.bounds import pac_bayes_kl
from pacbayes.paper.aggregation import Aggregation, grid, paper_classifier
from pacbayes.paper.experiments import EXPERIMENTS, cross_validated_svm
from pacbayes.paper.splits import ExperimentSample, load_sample, split
from pacbayes.paper.tables import (
    BASELINE_LOSS,
    DELTA,
    HALF_MASS,
    LARGEST_GUARANTEED_M,
    PAPER_DATASETS,
    SIZES,
    TITLES,
    VALIDATION_SIZES,
)
from pacbayes.posterior import gibbs_posterior, lambda_bound
from pacbayes.quasiconvexity import THEOREM_VAR_CONDITIONS, check_quasiconvexity
from pacbayes.sampling import subsample_sizes

SAMPLE = load_sample("breast-cancer-sklearn")
SPLIT = split(SAMPLE, 0)


def run(experiment, part, values=3):
    return EXPERIMENTS[experiment].run(part, None, values)


# ---------------------------------------------------------------------------------------------------
# Splits
# ---------------------------------------------------------------------------------------------------


def test_tables_cover_the_same_datasets():
    assert set(BASELINE_LOSS) == set(LARGEST_GUARANTEED_M) == set(HALF_MASS) == set(PAPER_DATASETS)
    assert set(SIZES) == set(VALIDATION_SIZES) == set(TITLES)


def test_parts_of_a_split_are_disjoint_and_of_the_papers_sizes():
    sizes = VALIDATION_SIZES["breast-cancer"]
    sample = ExperimentSample("breast-cancer", np.tile(np.arange(683.0)[:, None], 3), np.arange(683) % 2)
    parts = split(sample, 3, with_validation=True)
    assert [len(part) for part in (parts.X, parts.X_test, parts.X_validation)] == list(sizes)
    everything = np.concatenate([parts.X[:, 0], parts.X_test[:, 0], parts.X_validation[:, 0]])
    assert np.unique(everything).size == everything.size
    np.testing.assert_array_equal(parts.y, parts.X[:, 0] % 2)
    again = split(sample, 3, with_validation=True)
    np.testing.assert_array_equal(again.X, parts.X)
    assert not np.array_equal(split(sample, 4, with_validation=True).X, parts.X)


def test_samples_are_scaled():
    for name in ("waveform-generated", "breast-cancer-sklearn"):
        sample = load_sample(name)
        np.testing.assert_allclose(sample.X.min(axis=0), -1)
        np.testing.assert_allclose(sample.X.max(axis=0), 1)
        assert set(sample.y) == {0, 1}
        assert sample.y.size >= max(sum(sizes[name]) for sizes in (SIZES, VALIDATION_SIZES))


# ---------------------------------------------------------------------------------------------------
# Experiments
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool():
    return Aggregation(SPLIT, 60, 31, n_jobs=None)


@pytest.mark.parametrize("m", [1, 25, 60])
def test_the_first_hypotheses_of_a_pool_are_a_pool(pool, m):
    """What is read off a large pool is what the estimator gives when it trains m hypotheses."""
    model = paper_classifier(m, 31, SPLIT.seed, None).fit(SPLIT.X, SPLIT.y)
    metrics = pool.evaluate(m)
    np.testing.assert_array_equal(model.losses_, pool.losses[:m])
    np.testing.assert_allclose(pool.posterior(m).rho, model.posterior_, atol=1e-4)
    assert metrics["vote"] == pytest.approx(1 - model.score(SPLIT.X_test, SPLIT.y_test))
    certificate = model.certificate_
    figures = (certificate.empirical_loss, certificate.kl_div, certificate.n_validation, certificate.delta)
    assert metrics["bound"] == pytest.approx(pac_bayes_kl(*figures), rel=1e-6)
    assert certificate.gibbs_bound < metrics["bound"]


def test_losses_of_the_aggregate(pool):
    metrics, posterior = pool.evaluate(60), pool.posterior(60)
    losses = [np.mean(hypothesis.predict(SPLIT.X_test) != SPLIT.y_test) for hypothesis in pool.model.hypotheses_]
    assert metrics["randomised"] == pytest.approx(posterior.rho @ losses)
    assert metrics["best"] == losses[np.argmin(pool.losses)]
    uniform = paper_classifier(60, 31, SPLIT.seed, None).set_params(voting="uniform").fit(SPLIT.X, SPLIT.y)
    assert metrics["uniform"] == pytest.approx(1 - uniform.score(SPLIT.X_test, SPLIT.y_test))
    expected = pac_bayes_kl(posterior.loss, posterior.kl_div, SPLIT.y.size - 31, DELTA)
    assert metrics["bound"] == expected


def test_uniform_votes_by_counting(pool):
    """Ties go to the first class: decided in whole numbers, not by rounding errors of 1 / m."""
    for m in range(1, 61):
        counts = pool.votes[:m].sum(axis=0)
        assert pool.evaluate(m)["uniform"] == np.mean((2 * counts > m) != SPLIT.y_test)


def test_accuracy_is_that_of_pools_of_every_size():
    result = run("accuracy", SPLIT, 3)
    assert (result["m"], result["r"]) == (grid(1, 340, 3), grid(2, 31, 3))
    for r, losses in zip(result["r"], result["loss"], strict=True):
        pool = Aggregation(SPLIT, 340, r, None)
        assert losses == [pool.evaluate(m)["vote"] for m in result["m"]]


@pytest.mark.parametrize(("d", "n", "r"), [(40, 2000, 41), (3, 2000, 45), (3, 150, 12)])
def test_subsample_sizes_are_the_papers(d, n, r):
    assert subsample_sizes("paper", n, d) == [r]


def test_grids():
    assert grid(1, 2000, 20)[0] == 1
    assert grid(1, 2000, 20)[-1] == 2000
    assert len(grid(1, 2000, 20)) == 20
    assert grid(2, 12, 20) == list(range(2, 13))


def test_the_baseline_refits_its_best_choice():
    search = cross_validated_svm(SPLIT.X, SPLIT.y)
    assert len(search.cv_results_["params"]) == 35
    alone = SVC(**search.best_params_).fit(SPLIT.X, SPLIT.y)
    np.testing.assert_array_equal(search.predict(SPLIT.X_test), alone.predict(SPLIT.X_test))


def test_series_over_m_agree_between_experiments():
    timed, weighed, last = run("runtime", SPLIT, 4), run("weighting", SPLIT, 4), run("comparison", SPLIT)
    assert timed["m"] == weighed["m"] == grid(1, 340, 4)
    assert timed["r"] == weighed["r"] == last["r"] == SPLIT.subsample_size == 31
    np.testing.assert_allclose(timed["vote"], weighed["vote"])
    np.testing.assert_allclose(timed["bound"], weighed["bound"], rtol=1e-6)
    assert last["vote"] == weighed["vote"][-1]
    assert last["bound"] == weighed["bound"][-1]
    assert last["vote_bound"] == 2 * last["bound"]
    assert last["direct_bound"] < last["bound"]
    assert all(seconds > 0 for seconds in timed["seconds"])


def test_largest_guaranteed_m_is_where_the_conditions_end():
    result = run("quasiconvexity", SPLIT)
    pool = Aggregation(SPLIT, 340, 31, None)

    def by_var(m):
        details = check_quasiconvexity(pool.losses[:m], pool.n_validation, delta=DELTA).details
        return any(details[name].holds for name in THEOREM_VAR_CONDITIONS)

    assert result["floor"] <= result["theorem_var"] <= result["stronger"] <= result["largest"] == 340
    assert all(by_var(m) for m in range(10, result["theorem_var"] + 1, 10))
    beyond = result["theorem_var"] // 10 * 10 + 10
    assert beyond > 340 or not by_var(beyond)
    assert by_var(result["floor"])
    # The largest that is always guaranteed: one more is not, by the count alone.
    details = check_quasiconvexity(np.linspace(0, 1, result["floor"] + 1), pool.n_validation, delta=DELTA).details
    assert not details[THEOREM_VAR_CONDITIONS[0]].holds


def test_the_shape_of_f():
    result = run("f_lambda", SPLIT)
    pool = Aggregation(SPLIT, 340, 31, None)
    np.testing.assert_allclose(
        result["F"], lambda_bound(pool.losses, np.array(result["lam"]), pool.n_validation, DELTA)
    )
    values = np.array(result["F"])
    assert result["quasiconvex"] == bool(np.all(np.diff(np.sign(np.diff(values))) >= 0))
    assert result["F_global"] <= result["F_alternating"] <= values.min() + 1e-9
    assert result["guaranteed"]


def test_lambda_by_validation():
    parts = split(SAMPLE, 0, with_validation=True)
    result = run("validation", parts)
    pool = Aggregation(parts, parts.y.size, 31, None)
    votes = pool.model.predict_hypotheses(parts.X_validation)
    losses = {}
    for lam in np.linspace(0.05, 1.9, 9):
        share = gibbs_posterior(pool.losses, lam, pool.n_validation) @ votes
        losses[lam] = np.mean((share > 0.5) != parts.y_validation)
    assert losses[result["lam_validate"]] == min(losses.values())
    assert result["lam_direct"] == pool.posterior(parts.n).lam
    assert result["direct"] == pool.evaluate(parts.n)["vote"]
