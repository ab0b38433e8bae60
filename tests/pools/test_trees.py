"""Trees that are trained and asked without scikit-learn's checks, beside the same trees by `fit` and `predict`."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils import check_random_state

from pacbayes import PACBayesClassifier
from pacbayes._losses import resolve_loss
from pacbayes.exceptions import HypothesisError
from pacbayes.pools import EstimatorPool, HypothesisList, PrefitPool, Sample
from pacbayes.pools._trees import RowBlock, TreePoints, fit_tree
from pacbayes.sampling import LEARNER, GivenSubsamples, RandomSubsamples, stream

X, CODES = load_iris(return_X_y=True)
CLASSES = np.array(["setosa", "versicolor", "virginica"])
Y = CLASSES[CODES]
SAMPLE = Sample(X, CODES, CLASSES)
TREES = [DecisionTreeClassifier, ExtraTreeClassifier]

PARAMETERS = st.fixed_dictionaries(
    {"random_state": st.integers(0, 100)},
    optional={
        "max_depth": st.integers(1, 4),
        "max_leaf_nodes": st.integers(2, 5),
        "max_features": st.sampled_from(["sqrt", 1, 0.5]),
        "min_samples_leaf": st.sampled_from([1, 3, 0.3]),
        "splitter": st.sampled_from(["best", "random"]),
        "criterion": st.sampled_from(["gini", "entropy"]),
        "class_weight": st.just("balanced"),
        "ccp_alpha": st.sampled_from([0.01, 0.05, 10.0]),
    },
)

LARGEST, SMALLEST = X.max() == X, X.min() == X

LABELS = {
    "text": CLASSES,
    "objects": CLASSES.astype(object),
    "numbers": np.array([-1, 3, 7]),
    "floats": np.array([-1.0, 0.0, 2.0]),
    "booleans": np.array([False, True]),
}


@st.composite
def problems(draw):
    """Draw a tree, points with few distinct values in some type and order, and labels of which some may be missing."""
    n, d = draw(st.integers(2, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tree = draw(st.sampled_from(TREES))(**draw(PARAMETERS))
    kind = draw(st.sampled_from(["f4", "f8", ">f8", "f2", "i8", "u1", "?"]))
    points = np.asarray(rng.integers(0, 4, (n, d)) * (0.1 if "f" in kind else 1)).astype(kind)
    takes_nan = type(tree) is DecisionTreeClassifier or tree.splitter == "random"
    if "f" in kind and takes_nan and draw(st.booleans()):
        points[rng.random((n, d)) < 0.2] = np.nan
    classes = LABELS[draw(st.sampled_from(sorted(LABELS)))]
    seen = rng.permutation(classes.size)[: draw(st.integers(1, classes.size))]
    codes = rng.choice(seen, n)
    order = draw(st.sampled_from("CF"))
    return tree, np.asarray(points, order=order), classes, codes


def state(tree):
    """Return all attributes of a trained tree, its nodes as bytes."""
    inner = tree.tree_.__getstate__()
    rest = {name: value for name, value in vars(tree).items() if name != "tree_"}
    arrays = {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in inner.items()}
    return {**{name: repr(value) for name, value in rest.items()}, **arrays}


def refusal(function, *arguments):
    """Return the type and the words of the error that a call raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of values too large for float32
            function(*arguments)
    except ValueError as error:
        return type(error), str(error)
    pytest.fail("nothing is refused")


@settings(max_examples=150, deadline=None)
@given(problems())
def test_trees_are_those_of_fit_and_predict(problem):
    tree, points, classes, codes = problem
    labels = classes[codes]
    trained = fit_tree(clone(tree), points, labels)
    expected = clone(tree).fit(points, labels)
    assert state(trained) == state(expected)
    predicted = TreePoints.convert(points).predict_codes(trained, classes)
    np.testing.assert_array_equal(classes[predicted], expected.predict(points))
    np.testing.assert_array_equal(HypothesisList([trained], classes).votes(points)[0], predicted)


@settings(max_examples=50, deadline=None)
@given(problems(), st.integers(0, 2**32 - 1), st.booleans())
def test_totals_are_losses_of_predict_outside_the_subsample(problem, seed, is_stretch):
    tree, points, classes, codes = problem
    n = codes.size
    rng = np.random.default_rng(seed)
    subsamples = GivenSubsamples(n, [rng.choice(n, rng.integers(1, n), replace=False) for _ in range(4)])
    trees = [clone(tree).fit(points[rows], classes[codes[rows]]) for rows in subsamples]
    rows = np.arange(n // 3, n) if is_stretch else np.flatnonzero(rng.random(n) < 0.7)
    for loss in (resolve_loss("zero_one", classes), resolve_loss(lambda y, p: 0.3 * (y != p), classes)):
        sample = Sample(points, codes, classes)
        totals = HypothesisList(trees, classes).loss_totals(sample, subsamples, range(4), rows, loss)
        for total, member, inside in zip(totals, trees, subsamples, strict=True):
            outside = np.setdiff1d(rows, inside)
            errors = np.count_nonzero(member.predict(points[outside]) != classes[codes[outside]]) if outside.size else 0
            assert total == pytest.approx(errors if loss.is_zero_one else 0.3 * errors, abs=1e-6)


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("distributions", [None, {"max_depth": [1, 2, None]}])
@pytest.mark.parametrize("settings", [{}, {"class_weight": dict.fromkeys(CLASSES, 2.0), "random_state": 5}])
def test_the_pool_trains_the_trees_of_clone_set_params_and_fit(kind, distributions, settings):
    subsamples = RandomSubsamples(150, [20, 60], 8, entropy=0)
    pool = EstimatorPool(kind(max_features="sqrt", **settings), param_distributions=distributions)
    for h, tree in enumerate(pool.train(SAMPLE, subsamples, range(8), 3, None)):
        rng = stream(3, h, LEARNER)
        expected = clone(pool.estimator)
        seed = int(rng.integers(2**31))
        if distributions:
            expected.set_params(
                **next(iter(sklearn.model_selection.ParameterSampler(distributions, 1, random_state=seed)))
            )
        expected.set_params(random_state=int(rng.integers(2**31)))
        assert state(tree) == state(expected.fit(X[subsamples[h]], Y[subsamples[h]]))


def test_hypotheses_have_all_that_clone_keeps():
    weights = {label: 1.0 + i for i, label in enumerate(CLASSES.tolist())}
    with sklearn.config_context(enable_metadata_routing=True):
        routed = DecisionTreeClassifier(max_depth=3).set_fit_request(sample_weight=True)
    for tree in (
        DecisionTreeClassifier(max_depth=3),
        ExtraTreeClassifier(class_weight=weights),
        DecisionTreeClassifier(max_depth=2).fit(X, Y),
        routed,
    ):
        trained = vars(EstimatorPool(tree).train_one(X, Y, np.random.default_rng(0)))
        expected = {**vars(clone(tree)), "random_state": trained["random_state"]}
        assert repr({name: trained[name] for name in expected}) == repr(expected)
        assert trained["class_weight"] is None or trained["class_weight"] is not weights


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize(
    "points",
    [
        X[:0],
        X[:, :3],
        X[:, 0],
        np.where(LARGEST, np.inf, X),
        np.where(LARGEST, 1e300, X),
        np.where(LARGEST, -np.inf, np.where(SMALLEST, np.nan, X)),
    ],
    ids=["empty", "columns", "one dimension", "infinite", "too large for float32", "infinite and missing"],
)
def test_points_that_predict_refuses_are_refused_in_its_words(kind, points):
    tree = kind(random_state=0).fit(X, Y)
    assert refusal(HypothesisList([tree], CLASSES).votes, points) == refusal(tree.predict, points)


def test_points_that_fit_refuses_are_refused_in_its_words():
    for points, labels in ((np.where(LARGEST, np.inf, X), Y), (X[:9], Y[:8]), (X * 1e300, Y), (X, Y[:, None][:9])):
        tree = DecisionTreeClassifier(random_state=0)
        assert refusal(fit_tree, tree, points, labels) == refusal(tree.fit, points, labels)


def test_missing_values_are_taken_exactly_where_the_tree_takes_them():
    gaps = np.where(LARGEST, np.nan, X)
    best = ExtraTreeClassifier(splitter="best", random_state=0).fit(X, Y)
    assert refusal(HypothesisList([best], CLASSES).votes, gaps) == refusal(best.predict, gaps)
    tree = DecisionTreeClassifier(random_state=0).fit(gaps, Y)
    np.testing.assert_array_equal(CLASSES[HypothesisList([tree], CLASSES).votes(gaps)[0]], tree.predict(gaps))


def test_large_finite_values_are_not_taken_for_infinite_ones():
    points = np.where(X > 2, 3e38, X)  # the sum of which is infinite in float32
    tree = fit_tree(DecisionTreeClassifier(random_state=0), points, Y)
    assert state(tree) == state(DecisionTreeClassifier(random_state=0).fit(points, Y))
    converted = TreePoints.convert(points)
    assert not converted.has_nan
    np.testing.assert_array_equal(CLASSES[converted.predict_codes(tree, CLASSES)], tree.predict(points))


def test_arrays_are_checked_once_for_all_trees(monkeypatch):
    subsamples = RandomSubsamples(150, [20, 60], 6, entropy=0)
    checks = []
    fit = DecisionTreeClassifier.fit

    def record(self, X, y, sample_weight=None, check_input=True):
        checks.append(check_input)
        return fit(self, X, y, sample_weight, check_input)

    pool = EstimatorPool(DecisionTreeClassifier())
    with monkeypatch.context() as patch:
        patch.setattr(DecisionTreeClassifier, "fit", record)
        trained = pool.train(SAMPLE, subsamples, range(6), 0, None)
    assert checks == [True] + [False] * 6  # the first, on two points, validates the parameters
    expected = np.stack([tree.predict(X) for tree in trained])
    monkeypatch.setattr(DecisionTreeClassifier, "predict", None, raising=False)
    np.testing.assert_array_equal(CLASSES[trained.votes(X)], expected)
    totals = trained.loss_totals(SAMPLE, subsamples, range(6), range(150), resolve_loss("zero_one", CLASSES))
    wrong = expected != Y
    assert totals.tolist() == [np.delete(wrong[h], subsamples[h]).sum() for h in range(6)]


@pytest.mark.parametrize("convert", [pd.DataFrame, csr_array, lambda X: X.astype(object), lambda X: X.tolist()])
def test_other_tables_are_left_to_predict(convert):
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    assert RowBlock(convert(X)).predict_by_tree(tree, CLASSES) is None


def test_a_tree_that_knows_names_of_columns_still_warns_of_points_without():
    tree = DecisionTreeClassifier(random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        votes = HypothesisList([tree], CLASSES).votes(X)
    np.testing.assert_array_equal(CLASSES[votes[0]], tree.predict(pd.DataFrame(X, columns=list("abcd"))))


class Opposite(DecisionTreeClassifier):
    """Trains on, and predicts, other labels than a tree."""

    def fit(self, X, y, sample_weight=None, check_input=True):
        self.checks_input = check_input
        return super().fit(X, y)

    def predict(self, X, check_input=True):
        return CLASSES[2 - np.searchsorted(CLASSES, super().predict(X))]


def test_a_subclass_trains_and_predicts_by_its_own_methods():
    subsamples = RandomSubsamples(150, [40], 3, entropy=0)
    trained = EstimatorPool(Opposite()).train(SAMPLE, subsamples, range(3), 0, None)
    for tree, votes in zip(trained, trained.votes(X), strict=True):
        assert tree.checks_input
        np.testing.assert_array_equal(CLASSES[votes], tree.predict(X))
    own = DecisionTreeClassifier().fit(X, Y)
    own.predict = lambda X: np.full(len(X), "setosa")
    assert np.all(HypothesisList([own], CLASSES).votes(X) == 0)


def test_several_outputs_are_refused():
    tree = DecisionTreeClassifier().fit(X, np.column_stack((CODES, CODES)))
    with pytest.raises(HypothesisError, match="must return one label per row"):
        HypothesisList([tree], np.arange(3)).votes(X)


def test_a_tree_that_is_not_trained_is_told_by_scikit_learn():
    with pytest.raises(NotFittedError):
        HypothesisList([DecisionTreeClassifier()], CLASSES).votes(X)


def test_a_class_that_is_never_predicted_may_be_unknown():
    labels = np.where(np.arange(150) == 0, "rose", Y)
    stump = DecisionTreeClassifier(max_depth=1).fit(X, labels)
    votes = HypothesisList([stump], CLASSES).votes(X)
    np.testing.assert_array_equal(CLASSES[votes[0]], stump.predict(X))


def test_wrong_parameters_are_told_by_scikit_learn():
    subsamples = RandomSubsamples(150, [40], 3, entropy=0)
    with pytest.raises(HypothesisError, match="'max_depth' parameter of DecisionTreeClassifier must be"):
        EstimatorPool(DecisionTreeClassifier(max_depth=-1)).train(SAMPLE, subsamples, range(3), 0, None)
    drawn = EstimatorPool(DecisionTreeClassifier(), param_distributions={"max_depth": [-1]})
    with pytest.raises(HypothesisError, match="'max_depth' parameter of DecisionTreeClassifier must be"):
        drawn.train(SAMPLE, subsamples, range(3), 0, None)


class Checked(EstimatorPool):
    """Trains in its own way."""

    def train_one(self, X, y, rng):
        assert not sklearn.get_config()["skip_parameter_validation"]
        return super().train_one(X, y, rng).set_params(max_depth=77)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_the_global_generator_is_left_alone(kind):
    X, y = load_iris(return_X_y=True)
    state = check_random_state(None).get_state(legacy=False)  # NumPy's global generator
    PACBayesClassifier(kind(max_depth=2), n_hypotheses=4, random_state=0, n_jobs=1).fit(X, y)
    np.testing.assert_equal(check_random_state(None).get_state(legacy=False), state)


def test_a_pool_may_train_trees_in_its_own_way():
    subsamples = RandomSubsamples(150, [40], 3, entropy=0)
    trained = Checked(DecisionTreeClassifier()).train(SAMPLE, subsamples, range(3), 0, None)
    assert [tree.max_depth for tree in trained] == [77] * 3
    EstimatorPool(DecisionTreeClassifier()).train(SAMPLE, subsamples, range(3), 0, None)
    assert not sklearn.get_config()["skip_parameter_validation"]


class Tree(DecisionTreeClassifier):
    """A tree that is not recognised as one, so that all is done by `fit` and `predict`."""


@cache  # trees that are not recognised take long, and only racing makes a difference to them
def fit_trees(kind, of_classifiers, **settings):
    """Fit, and return the points as well."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 5))
    labels = CLASSES[np.digitize(points[:, 0] + rng.normal(size=3000) / 2, [-0.5, 0.5])]
    if of_classifiers == "pool":
        pool, sizes = EstimatorPool(kind(max_features="sqrt")), {"n_hypotheses": 30, "subsample_size": [20, 80, 1500]}
    else:
        trees = [kind(max_depth=depth, random_state=0).fit(points[:500], labels[:500]) for depth in range(1, 9)]
        pool, sizes = PrefitPool(trees), {}
    model = PACBayesClassifier(pool, holdout=None, random_state=0, **sizes, **settings)
    return model.fit(points[500:], labels[500:]), points


@pytest.mark.parametrize("settings", [{"racing": False}, {"n_jobs": 2}, {"verbose": 1}, {"rows": 700}])
@pytest.mark.parametrize("of_classifiers", ["pool", "prefit"])
def test_fits_are_the_same_as_by_predict(settings, of_classifiers, set_block_rows):
    settings = dict(settings)
    slow, points = fit_trees(Tree, of_classifiers, racing=settings.get("racing", True))
    set_block_rows(settings.pop("rows", 65536))
    fast, _ = fit_trees.__wrapped__(DecisionTreeClassifier, of_classifiers, **settings)
    np.testing.assert_array_equal(fast.losses_, slow.losses_)
    np.testing.assert_array_equal(fast.n_validation_, slow.n_validation_)
    np.testing.assert_array_equal(fast.posterior_, slow.posterior_)
    np.testing.assert_array_equal(fast.certificate_.confusion, slow.certificate_.confusion)
    assert fast.certificate_.statements == slow.certificate_.statements
    np.testing.assert_array_equal(fast.predict(points), slow.predict(points))
