import multiprocessing
import operator
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from scipy.stats import beta
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris, make_classification, make_moons
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from sweeps import sweep

import pacbayes.fitting._evaluation
from pacbayes import PACBayesClassifier, bounds
from pacbayes._validation import count_missing
from pacbayes.exceptions import CertificateError, HypothesisError
from pacbayes.pools import Constant, EstimatorPool, Pool, PrefitPool, RBFSVMPool
from pacbayes.sampling import split_reserved, subsample_sizes

X, Y = make_moons(300, noise=0.15, random_state=0)
VOTING = ("majority", "gibbs", "best", "uniform")


def small(**parameters):
    """Few hypotheses on small subsamples of all rows: the paper's setting, where training takes no time."""
    settings = {"n_hypotheses": 20, "subsample_size": [8, 30], "holdout": None, "random_state": 0}
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), **settings, **parameters})


# ---------------------------------------------------------------------------------------------------
# scikit-learn's own checks
# ---------------------------------------------------------------------------------------------------


def expected_failures(estimator):
    if estimator.voting == "gibbs":
        reason = "a randomised classifier does not predict the class with the largest share of the vote at every point"
        loaded = "a randomised classifier that comes out of a file draws anew"
        return {"check_classifiers_train": reason, "check_estimators_pickle": loaded}
    return {}


def checked(**parameters):
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), "n_hypotheses": 10, "random_state": 0, **parameters})


@parametrize_with_checks([checked()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        checked(voting="best"),
        checked(voting="uniform", n_hypotheses=30),  # many widths of the grid are useless: it takes more to agree
        checked(estimator=RBFSVMPool(gamma_source="reserved", scaler="standard"), objective="kl"),
        checked(estimator=RBFSVMPool(gamma_source="sample", scaler="minmax")),
        checked(estimator=LogisticRegression()),
        checked(estimator=DecisionTreeClassifier(max_depth=4)),
        checked(estimator=None),
        checked(voting="gibbs"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_with_other_settings(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------------------------------------
# The construction
# ---------------------------------------------------------------------------------------------------


def test_losses_posterior_and_certificate_fit_together():
    model = small().fit(X, Y)
    for h, hypothesis in enumerate(model.hypotheses_):
        rest = np.setdiff1d(np.arange(300), model.subsamples_[h])
        assert model.n_validation_[h] == rest.size
        assert model.losses_[h] == np.mean(hypothesis.predict(X[rest]) != Y[rest])
    certificate = model.certificate_
    certificate.verify(model.losses_, model.prior_, model.n_validation_)
    assert certificate.empirical_loss == pytest.approx(model.posterior_ @ model.losses_, rel=1e-10)
    assert certificate.n_validation == model.n_validation_.min()
    assert certificate.n_validation_max == model.n_validation_.max()
    assert certificate.lam == model.lambda_
    assert certificate.strict
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("paper", [17]),
        ("auto", [37, 75, 150, 195, 240]),
        (10, [10]),
        (0.1, [30]),
        ([5, 0.5], [5, 150]),
        (np.array([5, 7]), [5, 7]),
    ],
)
def test_subsample_sizes(size, expected):
    model = small(subsample_size=size).fit(X, Y)
    assert sorted(set(model.subsamples_.sizes)) == expected
    assert subsample_sizes(size, 300, 2) == expected


def test_sizes_follow_the_number_of_features():
    assert subsample_sizes("paper", 2000, 40) == [41]
    assert subsample_sizes("auto", 200, 34) == [25, 50, 100, 130, 160]
    assert subsample_sizes("auto", 10**6, 34) == [312, 625, 1250, 1625, 2000]


def folded(**parameters):
    """Subsamples that are given, so that there are no sizes to choose."""
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), "random_state": 0, "holdout": None, **parameters})


def test_folds_and_given_subsamples():
    folds = folded(subsamples=KFold(5), estimator=DecisionTreeClassifier()).fit(X, Y)
    assert len(folds.hypotheses_) == 5
    assert folds.n_validation_.tolist() == [60] * 5
    assert "the caller made the splitter" in folds.certificate_.assumptions[3]
    given = folded(subsamples=[range(50), range(100, 200)], estimator=DecisionTreeClassifier()).fit(X, Y)
    assert given.n_validation_.tolist() == [250, 200]
    assert "the caller chose" in given.certificate_.assumptions[3]
    random = folded(subsamples=ShuffleSplit(7, train_size=20, random_state=0)).fit(X, Y)
    assert random.subsamples_.sizes.tolist() == [20] * 7


def test_reserved_points_validate_and_train_nothing():
    model = small(estimator=RBFSVMPool(gamma_source="reserved", reserved_size=50)).fit(X, Y)
    assert model.subsamples_.n == 250
    assert np.all(model.n_validation_ == 250 - model.subsamples_.sizes)
    assert model.certificate_.strict
    assert any("reserved points" in line for line in model.certificate_.assumptions)


def test_only_the_whole_sample_as_source_is_not_strict():
    certificate = small(estimator=RBFSVMPool(gamma_source="sample")).fit(X, Y).certificate_
    assert not certificate.strict
    assert "NOT STRICT" in str(certificate)


def same_hypothesis(one, other):
    return (
        one.gamma == other.gamma
        and np.array_equal(one.classes, other.classes)
        and np.array_equal(one.support, other.support)
        and np.array_equal(one.dual_coef, other.dual_coef)
        and np.array_equal(one.intercept, other.intercept)
        and np.array_equal(one.scale, other.scale)
    )


@pytest.mark.parametrize(
    "strict",
    [
        {},
        {"estimator": RBFSVMPool(scaler="standard")},
        {"subsample_size": "paper"},
        {"estimator": RBFSVMPool(gamma_source="reserved", scaler="minmax")},
        {"subsamples": KFold(4), "n_hypotheses": "auto", "subsample_size": "auto"},
    ],
)
def test_no_leak_validation_points_do_not_shape_a_hypothesis(strict):
    """Replace every point outside S_h (and outside the reserved ones): h stays the same to the bit."""
    rng = np.random.default_rng(0)
    model = small(**strict).fit(X, Y)
    rows = np.arange(300)
    if "estimator" in strict and strict["estimator"].gamma_source == "reserved":
        _, rows = split_reserved(300, 30, 0)
    for h in range(0, len(model.hypotheses_), 3):
        outside = np.setdiff1d(np.arange(rows.size), model.subsamples_[h])
        changed_X, changed_Y = X.copy(), Y.copy()
        changed_X[rows[outside]] = rng.normal(size=(outside.size, 2)) * 100
        changed_Y[rows[outside]] = rng.integers(0, 2, outside.size)
        changed = small(**strict).fit(changed_X, changed_Y)
        assert same_hypothesis(model.hypotheses_[h], changed.hypotheses_[h])
        assert not all(map(same_hypothesis, model.hypotheses_, changed.hypotheses_))


def test_the_leak_test_sees_the_papers_leak():
    pool = RBFSVMPool(gamma_source="sample")
    model = small(estimator=pool).fit(X, Y)
    outside = np.setdiff1d(np.arange(300), model.subsamples_[0])
    changed_X = X.copy()
    changed_X[outside] *= 100
    assert not same_hypothesis(model.hypotheses_[0], small(estimator=pool).fit(changed_X, Y).hypotheses_[0])


# ---------------------------------------------------------------------------------------------------
# Same seed, same result
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    return small().fit(X, Y)


@pytest.mark.parametrize("backend", ["threading", "loky", pytest.param("multiprocessing", marks=pytest.mark.slow)])
def test_workers_do_not_matter(reference, backend):
    with joblib.parallel_config(backend):
        model = small(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(model.losses_, reference.losses_)
    np.testing.assert_array_equal(model.posterior_, reference.posterior_)
    assert model.certificate_ == reference.certificate_


@pytest.mark.parametrize("backend", ["threading", "loky", pytest.param("multiprocessing", marks=pytest.mark.slow)])
@pytest.mark.parametrize("voting", sweep(["majority", "gibbs"], quick=[0]))
def test_workers_do_not_change_predictions(monkeypatch, set_block_rows, voting, backend):
    monkeypatch.setattr(pacbayes.fitting._evaluation, "_LEAST_ROWS", 10)
    labels, shares = [], []
    # Processes that are there already are asked again where their number does not change.
    n_workers = 3 if backend == "threading" else 2
    for n_jobs, block_size in ((None, 10**6), (n_workers, 10**6), (2, 7)):
        set_block_rows(block_size)
        model = small(voting=voting, n_jobs=n_jobs, random_state=0)
        with joblib.parallel_config(backend):
            labels.append(model.fit(X, Y).predict(X[:50]))
            shares.append(model.predict_proba(X[:50]))
        assert model.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"
    for k in (1, 2):
        np.testing.assert_array_equal(labels[k], labels[0])
        np.testing.assert_array_equal(shares[k], shares[0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"estimator": DecisionTreeClassifier(max_depth=2), "n_hypotheses": 6},
        {"estimator": DecisionTreeClassifier(max_depth=2), "n_hypotheses": 6, "loss": "brier"},
        {},
        {"estimator": RBFSVMPool(scaler="minmax"), "n_jobs": 2},
        {"estimator": RBFSVMPool(gamma_source="sample", working_memory=1e-3), "loss": [[0, 1], [0.3, 0]]},
    ],
)
def test_blocks_do_not_matter(parameters, set_block_rows):
    points, labels = X[:150], Y[:150]
    whole = small(**parameters).fit(points, labels)
    shares = whole.predict_proba(X[:50])
    for block_size in (1, 37, 10**6):
        set_block_rows(block_size)
        blocked = small(**parameters).fit(points, labels)
        np.testing.assert_array_equal(blocked.posterior_, whole.posterior_)
        np.testing.assert_array_equal(blocked.predict_proba(X[:50]), shares)


def ten_classes():
    return load_digits(return_X_y=True)


def fit_losses(seed):
    points, labels = ten_classes()
    return small(random_state=seed, n_jobs=2).fit(points[:400], labels[:400]).losses_


def test_threads_that_fit_at_once_do_not_disturb_each_other():
    alone = [fit_losses(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as executor:
        together = list(executor.map(fit_losses, range(4)))
    np.testing.assert_array_equal(together, alone)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fitting_after_a_fork():
    before = fit_losses(0)  # threads have come and gone
    with multiprocessing.get_context("fork").Pool(2) as pool:
        after = pool.map_async(fit_losses, [0, 0]).get(timeout=60)
    np.testing.assert_array_equal(after, [before, before])


def test_inside_a_grid_search_with_workers():
    search = GridSearchCV(small(n_jobs=2), {"subsample_size": [10, 30]}, cv=2, n_jobs=2).fit(X, Y)
    alone = GridSearchCV(small(), {"subsample_size": [10, 30]}, cv=2).fit(X, Y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_pickling_does_not_matter(reference):
    again = pickle.loads(pickle.dumps(reference))
    np.testing.assert_array_equal(again.predict_proba(X), reference.predict_proba(X))
    assert again.certificate_ == reference.certificate_
    np.testing.assert_array_equal(again.subsamples_[3], reference.subsamples_[3])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"estimator": RBFSVMPool(gamma_source="reserved", scaler="minmax")},
        {"estimator": DecisionTreeClassifier(splitter="random")},
    ],
)
def test_adding_hypotheses_equals_fitting_all_at_once(parameters):
    grown = small(n_hypotheses=7, racing=False, **parameters).fit(X, Y)
    first = list(grown.hypotheses_)
    assert grown.add_hypotheses(X, Y, 20).n_hypotheses == 20
    same = operator.is_ if isinstance(parameters.get("estimator"), DecisionTreeClassifier) else same_hypothesis
    assert all(same(one, other) for one, other in zip(first, grown.hypotheses_, strict=False))
    whole = small(racing=False, **parameters).fit(X, Y)
    np.testing.assert_array_equal(grown.losses_, whole.losses_)
    np.testing.assert_array_equal(grown.posterior_, whole.posterior_)
    np.testing.assert_array_equal(grown.predict_proba(X), whole.predict_proba(X))


def test_hypotheses_without_a_seed_are_added_with_the_seed_that_was_drawn():
    model = small(random_state=None, n_hypotheses=5, racing=False).fit(X, Y)
    assert "size-decided" not in model.certificate_.assumption_codes
    before = model.losses_
    model.add_hypotheses(X, Y, 8)
    assert "not chosen by looking at the bound" in model.certificate_.assumptions[-1]
    assert model.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"
    np.testing.assert_array_equal(model.losses_[:5], before)
    model.add_hypotheses(X, Y, 8)  # nothing to add


def test_hypotheses_are_added_on_the_same_sample_with_the_same_settings():
    model = small(racing=False).fit(X, Y)
    with pytest.raises(ValueError, match="n_hypotheses must be a whole number, at least 20, got 5"):
        model.add_hypotheses(X, Y, 5)
    samples = (((X[:200], Y[:200]), "X and y"), ((X + 1e-9, Y), "X"), ((X, 1 - Y), "y"), ((X, Y + 1), "y"))
    for sample, differs in (*samples, ((X, np.where(Y, "b", "a")), "y")):
        with pytest.raises(ValueError, match=f"added on the same sample, but {differs} differ"):
            model.add_hypotheses(*sample, 30)
    for name, value in {"estimator": RBFSVMPool(scaler="minmax"), "loss": [[0, 1], [0.5, 0]]}.items():
        with pytest.raises(CertificateError, match=f"changed after the fit: {name}"):
            clone_fitted(model).set_params(**{name: value}).add_hypotheses(X, Y, 30)
    # Those of the fit, not those that were set since.
    grown = clone_fitted(model).set_params(subsample_size=12).add_hypotheses(X, Y, 30)
    np.testing.assert_array_equal(grown.losses_, small(racing=False, n_hypotheses=30).fit(X, Y).losses_)
    with pytest.raises(ValueError, match="racing must be False"):
        small().fit(X, Y).add_hypotheses(X, Y, 30)
    assert len(model.hypotheses_) == 20


def test_hypotheses_that_were_trained_again_are_not_added_to():
    model = small(estimator=DecisionTreeClassifier(max_depth=3), holdout=None, racing=False).fit(X, Y)
    for tree in model.hypotheses_:
        tree.fit(X, 1 - Y)
    with pytest.raises(CertificateError, match="hypotheses"):
        model.add_hypotheses(X, Y, 30)


def test_a_subclass_with_settings_of_its_own_is_cloned():
    class Careful(PACBayesClassifier):
        def __init__(self, delta=0.01):
            super().__init__(delta=delta, n_hypotheses=10)

    assert clone(Careful(0.02)).delta == 0.02


def test_a_subclass_that_takes_fewer_settings_or_others_is_fitted_with_its_own():
    class Careful(PACBayesClassifier):
        def __init__(self, n_hypotheses=20, *, patience=3):
            super().__init__(RBFSVMPool(), n_hypotheses=n_hypotheses, delta=0.01, holdout=0.3, random_state=0)
            self.patience = patience

    careful = Careful().fit(X, Y)
    plain = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, delta=0.01, holdout=0.3, random_state=0)
    assert (careful.certificate_.delta, len(careful.votes_)) == (0.01, 1)
    assert careful.certificate_ == plain.fit(X, Y).certificate_


def make_frame():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.where(np.arange(len(X)) % 3, "x", "y")})
    frame.loc[::7, "a"] = np.nan
    return frame


BY_NAME = make_pipeline(make_column_transformer((StandardScaler(), ["b"])), LogisticRegression())


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize(
    ("estimator", "rows"), [(RBFSVMPool(), make_frame()), (BY_NAME, make_frame()), (RBFSVMPool(), sparse.csr_array(X))]
)
def test_rows_of_every_kind_are_predicted_in_batches(estimator, rows, method, set_block_rows):
    set_block_rows(100)
    model = small(estimator=estimator).fit(rows, Y)
    batches = list(model.predict_batches(rows, method))
    assert len(batches) > 1
    np.testing.assert_array_equal(np.concatenate(batches), getattr(model, method)(rows))


def clone_fitted(model):
    return pickle.loads(pickle.dumps(model))


def test_random_state_instances_are_drawn_from():
    one = small(random_state=np.random.RandomState(3)).fit(X, Y)
    other = small(random_state=np.random.RandomState(3)).fit(X, Y)
    np.testing.assert_array_equal(one.losses_, other.losses_)


# ---------------------------------------------------------------------------------------------------
# Prediction
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["majority", "best", "uniform"])
@pytest.mark.parametrize("data", ["two", "ten"])
@pytest.mark.parametrize("estimator", [RBFSVMPool(), DecisionTreeClassifier(max_depth=3)])
def test_stopping_early_is_exact(voting, data, estimator):
    points, labels = (X, Y) if data == "two" else ten_classes()
    model = small(estimator=estimator, voting=voting, n_hypotheses=60, subsample_size=40)
    model.fit(points, labels)
    votes = np.stack([np.searchsorted(model.classes_, h.predict(points)) for h in model.hypotheses_])
    full = np.zeros((points.shape[0], model.classes_.size))
    for h in np.argsort(-model.posterior_, kind="stable"):
        full[np.arange(points.shape[0]), votes[h]] += model.posterior_[h]
    np.testing.assert_array_equal(model.predict(points), model.classes_[np.argmax(full, axis=1)])
    np.testing.assert_allclose(model.predict_shares(points), full, atol=1e-12)


@pytest.mark.parametrize("estimator", [RBFSVMPool(), LogisticRegression()])
def test_what_every_hypothesis_predicts(estimator, set_block_rows):
    set_block_rows(100)
    labels = np.array(["no", "yes"])[Y]
    model = small(estimator=estimator).fit(X, labels)
    predicted = model.predict_hypotheses(X)
    assert predicted.shape == (20, 300)
    for h, hypothesis in enumerate(model.hypotheses_):
        np.testing.assert_array_equal(predicted[h], hypothesis.predict(X))
        rest = np.setdiff1d(np.arange(300), model.subsamples_[h])
        assert np.mean(predicted[h, rest] != labels[rest]) == model.losses_[h]


def test_voters_that_cannot_matter_are_not_asked(monkeypatch):
    model = small(n_hypotheses=200, subsample_size=30).fit(X, Y)
    asked = []
    votes = type(model.hypotheses_).votes

    def counting(voters, points):
        asked.append(len(voters) * points.shape[0])
        return votes(voters, points)

    monkeypatch.setattr(type(model.hypotheses_), "votes", counting)
    model.predict(X)
    assert sum(asked) < 0.2 * 200 * 300


def test_gibbs_draws_hypotheses_by_their_weight():
    model = small(estimator=DecisionTreeClassifier(max_depth=1), voting="gibbs", subsample_size=4).fit(X, Y)
    point = np.repeat(X[:1], 20_000, axis=0)
    share = np.mean(model.predict(point) == 1)
    assert share == pytest.approx(model.predict_shares(X[:1])[0, 1], abs=0.02)
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.predict(point), clone(model).fit(X, Y).predict(point))


def test_gibbs_draws_anew_in_every_call():
    """Over many calls of one row the classifier is the certified one: it does not ask the same hypothesis again."""
    model = small(estimator=DecisionTreeClassifier(max_depth=1), voting="gibbs", subsample_size=4).fit(X, Y)
    shares = model.predict_shares(X)[:, 1]
    row = X[np.argmin(np.abs(shares - 0.5))][np.newaxis]
    for served in (model, clone_fitted(model)):
        answers = np.array([served.predict(row)[0] for _ in range(600)])
        # Five standard deviations of the mean of 600 answers.
        assert np.mean(answers == 1) == pytest.approx(model.predict_shares(row)[0, 1], abs=0.1)
    first_answers = [clone_fitted(model).predict(row)[0] for _ in range(30)]
    assert len(set(first_answers)) == 2


def test_a_change_of_voting_needs_a_new_fit():
    model = small(voting="best").fit(X, Y)
    before = model.predict(X)
    model.set_params(voting="uniform")
    np.testing.assert_array_equal(model.predict(X), before)


def test_margins_and_shares():
    model = small().fit(X, Y)
    shares = model.predict_shares(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(model.decision_function(X), shares[:, 1] - shares[:, 0])
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    three = small(estimator=DecisionTreeClassifier()).fit(*load_iris(return_X_y=True))
    assert three.decision_function(load_iris().data).shape == (150, 3)


@pytest.mark.parametrize("voting", VOTING)
def test_certificate_is_about_what_predict_does(voting):
    model = small(voting=voting).fit(X, Y)
    certificate = model.certificate_
    assert certificate.voting == voting
    if voting == "best":
        assert model.posterior_.max() == 1
        assert certificate.vote_bound == certificate.gibbs_bound
    if voting == "uniform":
        np.testing.assert_allclose(model.posterior_, 1 / 20)
        assert certificate.kl_div == pytest.approx(0, abs=1e-12)


# ---------------------------------------------------------------------------------------------------
# Any base learner, any data
# ---------------------------------------------------------------------------------------------------

LEARNERS = {
    "tree": DecisionTreeClassifier(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "neighbours": KNeighborsClassifier(1),
}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("data", [load_iris, load_digits])
def test_many_classes(learner, data):
    points, labels = data(return_X_y=True)
    names = np.array([f"class {k}" for k in range(10)])[labels]
    train, test, y_train, y_test = train_test_split(points, names, random_state=0)
    model = PACBayesClassifier(LEARNERS[learner], n_hypotheses=40, n_jobs=2, random_state=0).fit(train, y_train)
    accuracy = model.score(test, y_test)
    assert accuracy > (0.7 if (learner, data) == ("tree", load_digits) else 0.8)
    # The test loss is within three standard errors of the true one.
    assert 1 - accuracy - 3 * np.sqrt(accuracy * (1 - accuracy) / y_test.size) <= model.certificate_.vote_bound
    if data is load_digits:
        assert model.certificate_.vote_bound < 1


def test_losses_on_probabilities_and_cost_matrices():
    tree = DecisionTreeClassifier(max_depth=2)
    brier = small(estimator=tree, loss="brier").fit(X, Y)
    assert brier.certificate_.loss == "brier"
    assert brier.certificate_.vote_bound == 1
    h = int(brier.posterior_.argmax())
    rest = np.setdiff1d(np.arange(300), brier.subsamples_[h])
    expected = np.mean((brier.hypotheses_[h].predict_proba(X[rest])[:, 1] - Y[rest]) ** 2)
    assert brier.losses_[h] == pytest.approx(expected, abs=1e-8)
    costly = small(estimator=tree, loss=[[0, 1], [10, 0]]).fit(X, Y)
    plain = small(estimator=tree).fit(X, Y)
    assert np.all(costly.losses_ <= plain.losses_)


def test_pandas_and_polars_reach_the_base_learner():
    rng = np.random.default_rng(0)
    colour = np.where(Y == 1, "red", rng.choice(["red", "blue"], 300))
    columns = {"a": X[:, 0], "b": X[:, 1], "colour": colour.tolist()}
    frame, polars_frame = pd.DataFrame(columns), pl.DataFrame(columns)
    # Dense, as scikit-learn 1.7 cannot join sparse columns with those of polars.
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encode = make_column_transformer((one_hot, ["colour"]), remainder="passthrough")
    pipeline = make_pipeline(encode, DecisionTreeClassifier(random_state=0))
    models = [small(estimator=pipeline).fit(data, Y) for data in (frame, polars_frame)]
    assert models[0].score(frame, Y) > 0.9
    assert models[0].feature_names_in_.tolist() == ["a", "b", "colour"]
    np.testing.assert_array_equal(models[0].losses_, models[1].losses_)
    np.testing.assert_array_equal(models[0].predict(frame), models[1].predict(polars_frame))
    with pytest.raises(ValueError, match="feature names"):
        models[0].predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("estimator", [RBFSVMPool(), LogisticRegression()])
def test_sparse_and_dense_agree(estimator):
    points, labels = make_classification(200, 30, random_state=0)
    points[np.abs(points) < 1] = 0
    dense = small(estimator=estimator).fit(points, labels)
    for container in (sparse.csr_matrix, sparse.csc_array):
        model = small(estimator=estimator).fit(container(points), labels)
        np.testing.assert_allclose(model.losses_, dense.losses_, atol=0.02)
        np.testing.assert_array_equal(model.predict(container(points)), model.predict(points))


def test_missing_values_are_up_to_the_base_learner():
    points = X.copy()
    points[::7, 0] = np.nan
    model = small(estimator=HistGradientBoostingClassifier(max_iter=5), n_hypotheses=4, subsample_size=0.5)
    assert model.fit(points, Y).score(points, Y) > 0.8
    imputing = make_pipeline(SimpleImputer(), LogisticRegression())
    by_column = make_pipeline(make_column_transformer((SimpleImputer(), [0]), remainder="passthrough"), imputing)
    for estimator in (imputing, by_column):
        for container in (np.asarray, pd.DataFrame):
            model = small(estimator=estimator, subsample_size=0.5).fit(container(points), Y)
            assert model.score(container(points), Y) > 0.8


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, pl.DataFrame, sparse.csr_matrix])
@pytest.mark.parametrize(
    "estimator",
    [RBFSVMPool(), LogisticRegression(), make_pipeline(StandardScaler(with_mean=False), LogisticRegression())],
)
def test_missing_values_are_refused_with_the_safe_way(container, estimator):
    points = X.copy()
    points[::7, 0] = np.nan
    model = small(estimator=estimator)
    if isinstance(estimator, RBFSVMPool) and container in (pd.DataFrame, pl.DataFrame):
        assert model.fit(container(points), Y).certificate_.strict  # gaps in data frames are filled
        return
    with pytest.raises(ValueError, match=r"^X must not .* NaN in 43 places.*EstimatorPool\(make_pipeline\(Simple"):
        model.fit(container(points), Y)
    assert not hasattr(model, "n_features_in_")


def test_missing_values_among_others_than_numbers_are_counted():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": ["x", None, "y"]})
    assert count_missing(frame) == 2
    assert count_missing(frame.astype(object).where(frame.notna(), None).to_numpy()) == 2
    assert count_missing(np.arange(3)) == 0


def test_masked_labels_are_none():
    X, y = make_moons(60, noise=0.3, random_state=0)
    masked = np.ma.array(y, mask=np.arange(60) < 3)
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=3, random_state=0).fit(X, np.ma.array(y, mask=False))
    for call in (model.fit, model.certify, model.count_errors):
        with pytest.raises(ValueError, match="y must hold no missing labels, got 3 masked ones"):
            call(X, masked)


def test_errors_that_are_not_about_missing_values_stay_as_they_are():
    points = X.copy()
    points[0, 0] = np.nan
    with pytest.raises(ValueError, match="Input y contains NaN"):
        small(estimator=HistGradientBoostingClassifier()).fit(points, np.where(Y == 0, np.nan, 1.0))
    with pytest.raises(ValueError, match="infinity"):
        small().fit(np.where(np.isnan(points), np.inf, points), Y)


def test_float32_stays_float32():
    assert small().fit(X.astype(np.float32), Y).score(X.astype(np.float32), Y) > 0.9


def test_prefit_classifiers():
    trees = [DecisionTreeClassifier(max_depth=d).fit(X[:150], Y[:150]) for d in (1, 2, 5)]
    model = PACBayesClassifier.from_prefit(trees, X[150:], Y[150:], delta=0.1)
    for tree, loss in zip(trees, model.losses_, strict=True):
        assert loss == np.mean(tree.predict(X[150:]) != Y[150:])
    assert model.n_validation_.tolist() == [150] * 3
    assert "without the validation points" in model.certificate_.assumptions[3]
    assert clone(model).fit(X[150:], Y[150:]).certificate_ == model.certificate_  # frozen: clone keeps them trained
    assert model.certificate_.gibbs_bound == pytest.approx(
        bounds.direct_bound(model.posterior_, model.losses_, 150, delta=0.1), rel=1e-9
    )


def test_one_prefit_classifier_is_tested():
    tree = DecisionTreeClassifier(max_depth=2).fit(X[:150], Y[:150])
    model = PACBayesClassifier.from_prefit([tree], X[150:], Y[150:])
    errors = int(np.sum(tree.predict(X[150:]) != Y[150:]))
    assert 0 < errors < 150
    exact = float(beta.ppf(0.95, errors + 1, 150 - errors))  # Clopper-Pearson
    assert exact <= model.certificate_.bound <= exact * (1 + 1e-9)
    np.testing.assert_array_equal(model.predict(X), tree.predict(X))
    assert model.verify_certificate(model.certificate_, X[150:], Y[150:]) == "arithmetic, model and data"
    assert "Did any of these rows train the models, or choose them?" in str(model.certificate_)
    # Asked for otherwise, the vote of one is bounded as a vote.
    vote = PACBayesClassifier.from_prefit([tree], X[150:], Y[150:], voting="majority")
    assert vote.certificate_.bound > model.certificate_.bound
    assert "Did any of these rows" not in str(small().fit(X, Y).certificate_)


# ---------------------------------------------------------------------------------------------------
# A good scikit-learn citizen
# ---------------------------------------------------------------------------------------------------


def test_pipelines_searches_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), small(n_hypotheses=10))
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.85
    search = GridSearchCV(pipeline, {"pacbayesclassifier__objective": ["lambda", "kl"]}, cv=2).fit(X, Y)
    assert search.best_estimator_[-1].certificate_.gibbs_bound < 1
    nested = GridSearchCV(small(estimator=DecisionTreeClassifier()), {"estimator__max_depth": [1, 4]}, cv=2).fit(X, Y)
    assert nested.best_params_ == {"estimator__max_depth": 4}


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        assert cross_val_score(make_pipeline(StandardScaler(), small(n_hypotheses=5)), X, Y, cv=2).mean() > 0.8
        model = small(n_hypotheses=5).fit(X, Y)
        assert model.get_metadata_routing() is not None


def test_progress_is_shown_when_asked(capsys):
    small(verbose=2, n_hypotheses=4).fit(X, Y)
    shown = capsys.readouterr().err
    assert "training for vote 1: 100%" in shown
    assert "validation for vote 1, rows 1 to " in shown
    lines = [line.partition(" after ")[0] for line in shown.splitlines()]
    assert len(set(lines)) == len(lines)  # each is printed once


def test_one_worker_trains_all_at_once_unless_progress_is_shown(monkeypatch):
    sizes = []
    train = Pool.train

    def record(self, sample, subsamples, hypotheses, entropy, shared):
        sizes.append(len(hypotheses))
        return train(self, sample, subsamples, hypotheses, entropy, shared)

    monkeypatch.setattr(Pool, "train", record)
    for racing in (True, False):
        model = small(estimator=DecisionTreeClassifier(), n_hypotheses=40, racing=racing)
        quiet = clone(model).fit(X, Y)
        assert sizes == [40]
        shown = clone(model).set_params(verbose=1).fit(X, Y)
        assert len(sizes) > 2
        np.testing.assert_array_equal(quiet.losses_, shown.losses_)
        sizes.clear()


# ---------------------------------------------------------------------------------------------------
# Pools
# ---------------------------------------------------------------------------------------------------


def test_pools_follow_scikit_learns_conventions():
    pool = RBFSVMPool(C=[1.0, 5.0], scaler="minmax")
    model = small(estimator=pool)
    assert model.get_params()["estimator__C"] == [1.0, 5.0]
    copy = clone(model)
    assert copy.estimator is not pool
    assert copy.estimator.get_params() == pool.get_params()
    copy.set_params(estimator__scaler=None)
    assert (copy.estimator.scaler, pool.scaler) == (None, "minmax")
    assert repr(pool) == "RBFSVMPool(C=[1.0, 5.0], scaler='minmax')"
    assert "RBFSVMPool" in model._repr_html_()
    tree_pool = small(estimator=EstimatorPool(DecisionTreeClassifier(), param_distributions={"max_depth": [1, 2]}))
    assert tree_pool.get_params()["estimator__estimator__max_depth"] is None


def test_grid_search_over_settings_of_a_pool_and_over_pools():
    search = GridSearchCV(small(estimator=RBFSVMPool()), {"estimator__C": [1e-6, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"estimator__C": 10.0}
    pools = [EstimatorPool(DummyClassifier()), RBFSVMPool(scaler="standard")]
    assert GridSearchCV(small(), {"estimator": pools}, cv=2).fit(X, Y).best_params_["estimator"] == pools[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: PACBayesClassifier(DecisionTreeClassifier(), scaler="standard"),
        lambda: PACBayesClassifier(param_distributions={"C": [1]}),
        lambda: EstimatorPool(DecisionTreeClassifier(), C=10.0),
        lambda: RBFSVMPool(param_distributions={"C": [1]}),
        lambda: PrefitPool([], on_error="drop"),
    ],
)
def test_a_setting_of_another_pool_is_refused_at_once(make):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        make()


class Stump:
    """Predicts by one feature and a threshold."""

    def __init__(self, feature, threshold, labels):
        self.feature, self.threshold, self.labels = feature, threshold, labels

    def predict(self, X):
        return self.labels[(X[:, self.feature] > self.threshold).astype(int)]


class StumpPool(Pool):
    """A pool of one's own: random thresholds, labelled by the majority on each side."""

    def train_one(self, X, y, rng):
        feature = rng.integers(X.shape[1])
        threshold = rng.choice(X[:, feature])
        labels = [pd.Series(y[side]).mode()[0] if side.any() else y[0] for side in _sides(X[:, feature], threshold)]
        return Stump(feature, threshold, np.array(labels))


def _sides(values, threshold):
    return values <= threshold, values > threshold


def test_a_pool_of_ones_own():
    labels = np.array(["no", "yes"])[Y]
    model = small(estimator=StumpPool(), n_hypotheses=60, n_jobs=2).fit(X, labels)
    for h in range(60):
        rest = np.setdiff1d(np.arange(300), model.subsamples_[h])
        assert model.losses_[h] == np.mean(model.hypotheses_[h].predict(X[rest]) != labels[rest])
    assert model.score(X, labels) > 0.75
    assert model.certificate_.strict
    model.verify_certificate(model.certificate_, X, labels)
    alone = small(estimator=StumpPool(), n_hypotheses=60).fit(X, labels)
    assert alone.certificate_ == model.certificate_
    assert clone(model).fit(X, labels).certificate_ == model.certificate_


def test_a_pool_without_training_is_told():
    class Nothing(Pool):
        pass

    with pytest.raises(HypothesisError, match="Nothing must define train_one or train"):
        small(estimator=Nothing()).fit(X, Y)


# ---------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_hypotheses": 0}, "n_hypotheses must be a whole number, at least 1, or 'auto', got 0"),
        ({"n_hypotheses": 2.5}, "n_hypotheses must be .*got 2.5"),
        ({"subsample_size": 0}, "subsample_size must be at least 1 .*got 0"),
        ({"subsample_size": 300}, "below n = 300, got 300"),
        ({"subsample_size": 1.5}, "subsample_size must be a number of points or a fraction"),
        ({"subsample_size": []}, "at least one size"),
        (
            {"subsample_size": "half"},
            "subsample_size must be 'auto', 'paper', a number of points, a share, or a sequence of these, got 'half'",
        ),
        ({"delta": 0}, r"delta must be in \(0, 1\), got 0"),
        (
            {"objective": "hinge"},
            "objective must be 'auto', 'direct', 'dual', 'lambda', 'kl', 'relative' or 'stacking', got 'hinge'",
        ),
        ({"voting": "loud"}, "voting must be .*got 'loud'"),
        ({"estimator": RBFSVMPool(gamma_source="all")}, "gamma_source must be .*got 'all'"),
        (
            {"estimator": RBFSVMPool(scaler="robust")},
            "scaler must be None, 'minmax' or 'standard', or several of these, got 'robust'",
        ),
        ({"estimator": RBFSVMPool(on_error="ignore")}, "on_error must be 'raise' or 'drop', got 'ignore'"),
        ({"estimator": RBFSVMPool(engine="abacus")}, "engine must be 'auto', 'cpu' or 'cuda', got 'abacus'"),
        ({"estimator": RBFSVMPool(reserved_size=5)}, "reserved_size must be None unless gamma_source is 'reserved'"),
        ({"estimator": RBFSVMPool(C=-1)}, "C must be one or several positive, finite numbers, got -1"),
        ({"estimator": RBFSVMPool(C=[])}, r"C must be one or several positive, finite numbers, got \[\]"),
        ({"estimator": RBFSVMPool(C="soft")}, "C must be one or several positive, finite numbers, got 'soft'"),
        ({"subsamples": KFold(3)}, "n_hypotheses must be left at 'auto' where subsamples are given, got 20"),
        ({"estimator": [DecisionTreeClassifier()]}, "left at 'auto' where the classifiers are already trained"),
        ({"holdout": (share for share in (0.5, 0.3))}, "holdout must be 'auto', None, .*got <generator"),
        ({"holdout": "half"}, "holdout must be 'auto', None, a share or number of rows.*got 'half'"),
        ({"holdout": [0.5, [0.3]]}, "holdout must be .*a sequence of these, or a splitter, got"),
        ({"subsample_size": (size for size in (5, 9))}, "subsample_size must be 'auto', .*got <generator"),
        ({"subsamples": (rows for rows in ([0, 1], [2, 3]))}, "subsamples must be a splitter, .*got <generator"),
        ({"n_jobs": "two"}, "n_jobs must be a whole number other than 0, or None, got 'two'"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0, or None, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number other than 0, or None, got 1.5"),
        ({"verbose": "yes"}, "verbose must be a whole number, at least 0, got 'yes'"),
        ({"racing": "maybe"}, "racing must be True, False or 'training', got 'maybe'"),
        ({"racing": 1}, "racing must be True, False or 'training', got 1"),
        ({"checkpoint": 5}, "checkpoint must be a path or None, got 5"),
        ({"random_state": "seed"}, "random_state must be a whole number, .*got 'seed'"),
        ({"random_state": -1}, "random_state must be a whole number, at least 0, .*got -1"),
        ({"delta": "small"}, r"delta must be in \(0, 1\), got 'small'"),
        ({"prior": [0.5, 0.5]}, "one entry per hypothesis: there are 20 losses"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": lambda true, predicted: 2.0 * (true != predicted)}, r"must be in \[0, 1\], got 2.0"),
        (
            {"estimator": RBFSVMPool(gamma_source="reserved", reserved_size=2.0)},
            "reserved_size must be a number of points or a fraction",
        ),
    ],
)
def test_bad_parameters(parameters, message):
    model = small(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "certificate_")


def test_settings_may_be_numbers_and_flags_of_numpy():
    by_numpy = {"racing": np.True_, "verbose": np.int64(0), "delta": np.float32(0.125)}
    plain = {"racing": True, "verbose": False, "delta": 0.125}
    one, other = (small(**settings).fit(X, Y).certificate_ for settings in (by_numpy, plain))
    assert one == other


def test_a_wrong_method_is_refused_before_anything_is_predicted():
    with pytest.raises(ValueError, match="method must be 'predict', 'predict_proba' or 'predict_shares', got 'typo'"):
        small().fit(X, Y).predict_batches(X, method="typo")


@pytest.mark.parametrize("estimator", [RBFSVMPool(), DecisionTreeClassifier(max_depth=3)])
def test_a_vote_predicts_lists(estimator):
    model = small(estimator=estimator).fit(X, Y)
    vote = model.votes_[model.fitted_votes_.winner]
    assert vote.predict(X.tolist()).tolist() == vote.predict(X).tolist() == model.predict(X).tolist()
    with pytest.raises(ValueError, match=r"X must have two dimensions, points and features, got shape \(2,\)"):
        vote.predict([1.0, 2.0])


def test_bad_data():
    with pytest.raises(ValueError, match="at least two classes, got one class only: 1"):
        small().fit(X, np.ones(300))
    with pytest.raises(ValueError, match="NaN"):
        small().fit(np.full_like(X, np.nan), Y)
    with pytest.raises(ValueError, match="Unknown label type"):
        small().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="one label for each of the 300 rows"):
        small(estimator=DecisionTreeClassifier()).fit(pd.DataFrame(X), Y[:20])
    with pytest.raises(ValueError, match="takes 41 points and leaves none of n = 30"):
        small(subsample_size="paper").fit(np.zeros((30, 40)), np.arange(30) % 2)
    with pytest.raises(NotFittedError):
        small().predict(X)
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="3 features, but PACBayesClassifier is expecting 2 features"):
        model.predict(np.zeros((5, 3)))


class Fussy(DummyClassifier):
    def fit(self, X, y):
        if X[0, 0] < 0:
            raise RuntimeError("too far left")
        return super().fit(X, y)


def test_failing_learners():
    model = small(estimator=Fussy())
    with pytest.raises(HypothesisError, match="too far left"):
        model.fit(X, Y)
    assert not hasattr(model, "certificate_")
    dropped = small(estimator=EstimatorPool(Fussy(), on_error="drop")).fit(X, Y)
    failed = np.array([isinstance(h, Constant) and h.failed for h in dropped.hypotheses_])
    assert failed.any()
    assert np.all(dropped.losses_[failed] == 1)


def test_a_loss_of_probabilities_needs_them():
    with pytest.raises(HypothesisError, match="needs a base learner with predict_proba, and SVMs have none"):
        small(loss="brier").fit(X, Y)


def test_a_failed_refit_leaves_the_old_fit_alone():
    model = small().fit(X, Y)
    certificate = model.certificate_
    with pytest.raises(ValueError, match="delta"):
        model.set_params(delta=3).fit(X, Y)
    assert model.certificate_ is certificate
