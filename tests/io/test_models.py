import contextlib
import itertools
import json
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from objects import assert_same
from sklearn import ensemble, linear_model, naive_bayes, neighbors, preprocessing, svm, tree
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sweeps import sweep

from pacbayes import PACBayesClassifier, PACBayesRegressor, io
from pacbayes.exceptions import CertificateError, HypothesisError, ModelFileError
from pacbayes.io import _archive, _fitted, _sklearn_rules, models
from pacbayes.io._limits import Budget
from pacbayes.pools import BoostingPool, Constant, EstimatorPool, ForestPool, LinearPool, RBFRidgePool, RBFSVMPool
from pacbayes.sampling import Partition
from pacbayes.tasks import Classification

rng = np.random.default_rng(0)
X = np.abs(rng.normal(size=(120, 3)))
y = np.where(X[:, 0] + 0.1 * rng.normal(size=120) > 0.7, "yes", "no").astype(object)
LABELS = {"text": y, "integers": np.digitize(X[:, 0], [0.4, 0.9])}
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": rng.choice(["u", "v"], 120)})
ENCODER = io.ColumnEncoder(["a", "b"], ["c"], "standard")
COLUMNS = ColumnTransformer(
    [("numbers", preprocessing.StandardScaler(), ["a"]), ("text", preprocessing.OneHotEncoder(), ["c"])],
    remainder="passthrough",
)

# Every classifier and transformer that a model file may hold.
LEARNERS = [
    SVC(),
    SVC(kernel="poly"),
    svm.NuSVC(nu=0.1),
    svm.LinearSVC(),
    svm.LinearSVC(fit_intercept=False),
    linear_model.LogisticRegression(),
    linear_model.RidgeClassifier(),
    LinearDiscriminantAnalysis(),
    naive_bayes.GaussianNB(),
    naive_bayes.BernoulliNB(binarize=0.5),
    naive_bayes.ComplementNB(),
    naive_bayes.MultinomialNB(),
    neighbors.KNeighborsClassifier(1, algorithm="brute"),
    neighbors.KNeighborsClassifier(1, algorithm="brute", p=3, weights="distance"),
    tree.DecisionTreeClassifier(),
    tree.ExtraTreeClassifier(),
    ensemble.RandomForestClassifier(3),
    ensemble.ExtraTreesClassifier(3),
    ensemble.BaggingClassifier(n_estimators=2),
    ensemble.AdaBoostClassifier(n_estimators=2),
    make_pipeline(preprocessing.StandardScaler(), PCA(2), SVC()),
    make_pipeline(SimpleImputer(), preprocessing.MinMaxScaler(), preprocessing.Normalizer(), SVC()),
    make_pipeline(preprocessing.RobustScaler(), preprocessing.MaxAbsScaler(), SVC()),
]
# Every regressor.
REGRESSORS = [
    linear_model.LinearRegression(),
    linear_model.Ridge(fit_intercept=False),
    linear_model.Lasso(0.01),
    linear_model.ElasticNet(0.01),
    linear_model.HuberRegressor(),
    tree.DecisionTreeRegressor(),
    tree.ExtraTreeRegressor(),
    ensemble.RandomForestRegressor(3),
    ensemble.ExtraTreesRegressor(3),
    ensemble.BaggingRegressor(n_estimators=2),
    make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()),
]
SETTINGS = {"n_hypotheses": 5, "subsample_size": 30, "random_state": 0}

MODELS = {
    "scaled": (PACBayesClassifier(RBFSVMPool(scaler="standard"), n_hypotheses=5, random_state=2**127 + 1), X),
    "reserved": (PACBayesClassifier(RBFSVMPool(gamma_source="reserved", scaler="minmax"), **SETTINGS), X),
    "no seed": (PACBayesClassifier(n_hypotheses=8), X),
    "a random state": (PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, random_state=np.random.RandomState(1)), X),
    "tiny subsamples": (PACBayesClassifier(SVC(), n_hypotheses=5, subsample_size=1, random_state=0), X),
    "a prior": (PACBayesClassifier(SVC(), n_hypotheses=3, subsample_size=30, prior=[0.5, 0.25, 0.25]), X),
    "folds": (PACBayesClassifier(SVC(), subsamples=KFold(3), random_state=0), X),
    "repeated folds": (PACBayesClassifier(SVC(), subsamples=RepeatedKFold(n_splits=3, n_repeats=2)), X),
    "shuffles": (PACBayesClassifier(SVC(), subsamples=ShuffleSplit(3, random_state=0)), X),
    "parts": (PACBayesClassifier(SVC(), holdout=Partition((0.3, 0.2)), **SETTINGS), X),
    "given subsamples": (PACBayesClassifier(SVC(), subsamples=[list(range(20)), list(range(30, 70))]), X),
    "sparse rows": (
        PACBayesClassifier(RBFSVMPool(), **SETTINGS),
        sp.hstack([sp.csr_matrix(X), sp.eye(120, 500)], format="csr"),
    ),
    "scaled sparse rows": (
        PACBayesClassifier(RBFSVMPool(scaler="standard"), **SETTINGS),
        sp.hstack([sp.csr_matrix(X), sp.eye(120, 500)], format="csr"),
    ),
    "table": (PACBayesClassifier(**SETTINGS), TABLE.mask(rng.random(TABLE.shape) < 0.1)),
    "scaled table": (PACBayesClassifier(RBFSVMPool(scaler="minmax"), **SETTINGS), TABLE),
    "boosted trees": (PACBayesClassifier(BoostingPool(max_iter=3, max_leaf_nodes=4), **SETTINGS), X),
    "boosted trees of a table": (
        PACBayesClassifier(BoostingPool(max_iter=3, max_leaf_nodes=4), n_hypotheses=3, subsample_size=0.8),
        TABLE.mask(rng.random(TABLE.shape) < 0.1),
    ),
    "forests of a table": (PACBayesClassifier(ForestPool(n_estimators=3), **SETTINGS), TABLE),
    "linear models": (PACBayesClassifier(LinearPool(), **SETTINGS), TABLE),
    "columns": (PACBayesClassifier(make_pipeline(COLUMNS, SVC()), **SETTINGS), TABLE),
    "encoder": (
        PACBayesClassifier(
            EstimatorPool(make_pipeline(ENCODER, SVC()), param_distributions={"svc__C": [1.0, 10.0]}), **SETTINGS
        ),
        TABLE,
    ),
} | {str(learner): (PACBayesClassifier(learner, **SETTINGS), X) for learner in LEARNERS}


def models_and_labels():
    """Every model with labels of both kinds; those of one kind, in turn, of every second model are quick."""
    cases = [*itertools.product(MODELS, LABELS)]
    return sweep(cases, quick=[k for k in range(len(cases)) if k % 8 in (0, 5)])


@pytest.mark.parametrize(("name", "labels"), models_and_labels())
def test_round_trip(tmp_path, name, labels):
    model, data = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, LABELS[labels])
    io.save_model(model, tmp_path / "model.skops")
    again, schema = io.load_model(tmp_path / "model.skops")
    assert schema is None
    assert again.certificate_ == model.certificate_
    assert again.fitted_votes_.entropy == model.fitted_votes_.entropy
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    np.testing.assert_array_equal(again.predict_proba(data), model.predict_proba(data))
    np.testing.assert_array_equal(again.predict_hypotheses(data), model.predict_hypotheses(data))
    np.testing.assert_array_equal(again.losses_, model.losses_)
    np.testing.assert_array_equal(again.posterior_, model.posterior_)
    for h in range(len(model.hypotheses_)):
        np.testing.assert_array_equal(again.subsamples_[h], model.subsamples_[h])
    assert again.verify_certificate(model.certificate_, data, LABELS[labels]) == "arithmetic, model and data"
    assert [path.name for path in tmp_path.iterdir()] == ["model.skops"]


NUMBERS = X[:, 0] ** 2 + X[:, 1] + 0.1 * rng.normal(size=120)

REGRESSIONS = {
    "default": (PACBayesRegressor(random_state=0, n_jobs=1), X),
    "a declared range": (PACBayesRegressor(linear_model.Ridge(), y_range=(-2.0, 30.0), holdout=None, **SETTINGS), X),
    "squared errors": (PACBayesRegressor(linear_model.Ridge(), loss="squared_error", **SETTINGS), X),
    "the best": (PACBayesRegressor(tree.DecisionTreeRegressor(), voting="best", holdout=0.3, **SETTINGS), X),
    "constants": (PACBayesRegressor(tree.DecisionTreeRegressor(), n_hypotheses=5, subsample_size=1), X),
    "a table": (PACBayesRegressor(make_pipeline(ENCODER, linear_model.Ridge()), **SETTINGS), TABLE),
    "kernel ridge regressions": (PACBayesRegressor(RBFRidgePool(), **SETTINGS), X),
    "without scaling": (PACBayesRegressor(RBFRidgePool(scaler=None), holdout=None, y_range=(-9, 40), **SETTINGS), X),
    "sparse rows": (
        PACBayesRegressor(RBFRidgePool(), **SETTINGS),
        sp.hstack([sp.csr_matrix(X), sp.eye(120, 500)], format="csr"),
    ),
    "a table for kernels": (
        PACBayesRegressor(RBFRidgePool(scaler=(None, "minmax")), **SETTINGS),
        TABLE.mask(rng.random(TABLE.shape) < 0.1),
    ),
} | {str(learner): (PACBayesRegressor(learner, **SETTINGS), X) for learner in REGRESSORS}


QUICK_REGRESSIONS = {"default", "a declared range", "the best", "a table", "ExtraTreesRegressor(n_estimators=3)"}


@pytest.mark.parametrize(
    "name", sweep(REGRESSIONS, quick=[k for k, name in enumerate(REGRESSIONS) if name in QUICK_REGRESSIONS])
)
def test_regressors_come_back(tmp_path, name):
    model, data = REGRESSIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, NUMBERS)
    io.save_model(model, tmp_path / "model.skops")
    again, _ = io.load_model(tmp_path / "model.skops")
    assert type(again) is PACBayesRegressor
    assert (again.y_range, again.loss, again.voting) == (model.y_range, model.loss, model.voting)
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    np.testing.assert_array_equal(again.predict_hypotheses(data), model.predict_hypotheses(data))
    if model.certificate_.numbers is not None:
        np.testing.assert_array_equal(again.predict_interval(data, 0.5), model.predict_interval(data, 0.5))
    assert again.verify_certificate(model.certificate_) == "arithmetic and model"
    assert again.verify_certificate(model.certificate_, data, NUMBERS) == "arithmetic, model and data"


def forge_limits(fitted, limits):
    task = replace(fitted.task, limits=np.array(limits, dtype=float))
    return replace(fitted, task=task)


def forge_votes(fitted, **changes):
    votes = (replace(vote, **{key: change(vote) for key, change in changes.items()}) for vote in fitted.votes)
    return replace(fitted, votes=tuple(votes))


def forge_constant(fitted, label):
    def change(vote):
        members = [Constant(label, False), *vote.hypotheses.members[1:]]
        return replace(vote.hypotheses, members=members)

    return forge_votes(fitted, hypotheses=change)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda fitted: forge_limits(fitted, [-1e9, 1e9]), "another range of the target"),
        (lambda fitted: forge_limits(fitted, []), "another range of the target|holdout must not be None"),
        (lambda fitted: forge_limits(fitted, [-2.0]), "a range of the target has 1 ends|IndexError"),
        (lambda fitted: forge_limits(fitted, [-2.0, 30.0, 31.0]), "a range of the target has 3 ends"),
        (lambda fitted: forge_limits(fitted, [30.0, -2.0]), "not sorted|another range"),
        (lambda fitted: forge_limits(fitted, [-2.0, np.nan]), "holds NaN|another range"),
        (lambda fitted: forge_votes(fitted, totals=lambda vote: vote.totals + 1000), "not in \\[0, 1\\]"),
        (lambda fitted: forge_votes(fitted, posterior=lambda vote: vote.posterior / 2), "posterior is no distribution"),
        (lambda fitted: forge_constant(fitted, np.inf), "a constant hypothesis predicts no number"),
        (lambda fitted: forge_constant(fitted, "many"), "a constant hypothesis predicts no number"),
        (lambda fitted: replace(fitted, task=Classification(np.array([0, 1]))), "other classes|loss must be"),
    ],
)
def test_edited_regressors_are_refused(tmp_path, forge, message):
    settings = {"y_range": (-2.0, 30.0), "holdout": None, "n_hypotheses": 4, "random_state": 0}
    model = PACBayesRegressor(linear_model.Ridge(), **settings).fit(X, NUMBERS)
    model.fitted_votes_ = forge(model.fitted_votes_)
    (tmp_path / "model.skops").write_bytes(io.dumps_model(model))
    with pytest.raises(ModelFileError, match=message):
        io.load_model(tmp_path / "model.skops")


def test_a_mean_that_lost_cannot_be_made_the_winner(tmp_path):
    model = PACBayesRegressor(linear_model.Ridge(), n_hypotheses=4, holdout=[0.2, 0.6], random_state=0).fit(X, NUMBERS)
    fitted = model.fitted_votes_
    model.fitted_votes_ = replace(fitted, winner=1 - fitted.winner)
    (tmp_path / "model.skops").write_bytes(io.dumps_model(model))
    with pytest.raises(ModelFileError, match="the winner is not the vote with the smallest bound"):
        io.load_model(tmp_path / "model.skops")


@pytest.mark.parametrize(
    "forge",
    [
        lambda fitted: forge_votes(fitted, totals=lambda vote: vote.totals * 0.9),
        lambda fitted: forge_votes(fitted, posterior=lambda vote: vote.posterior[::-1].copy()),
    ],
)
def test_edited_losses_and_weights_of_regressors_fail_verification(tmp_path, forge):
    model = PACBayesRegressor(linear_model.Ridge(), n_hypotheses=4, random_state=0).fit(X, NUMBERS)
    certificate = model.certificate_
    model.fitted_votes_ = forge(model.fitted_votes_)
    io.save_model(model, tmp_path / "model.skops")
    again, _ = io.load_model(tmp_path / "model.skops")
    with pytest.raises(CertificateError):
        again.verify_certificate(certificate)


def test_own_objects_are_what_skops_would_make():
    for name in ("no seed", "boosted trees of a table", "linear models", "a prior", "sparse rows"):
        model, data = MODELS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = io.dumps_model(clone(model).fit(data, y))
        archive = _archive.examine(content, models._types_of, (), Budget(2**31, ModelFileError))
        own = {_archive.type_name(kind): kind for kind in _fitted.RULES}
        # Support vectors of sparse rows, and scikit-learn's estimators, are left to skops.
        assert _archive.can_build(archive, own) == (name not in ("a prior", "sparse rows"))
        if _archive.can_build(archive, own):
            made = _archive.build(archive, own)
            assert_same(made, skops.io.loads(archive.pack(), trusted=archive.names))
            assert made["fitted"].votes[0].task is made["fitted"].votes[-1].task  # one object for each identity


@pytest.mark.slow
def test_every_type_is_in_a_round_trip():
    """A type that can be loaded and is in no model above has a check that was never run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [clone(model).fit(data, y) for model, data in MODELS.values()]
        models += [clone(model).fit(data, NUMBERS) for model, data in REGRESSIONS.values()]
    reached = {type(part) for model in models for part in _fitted.reachable(model)}
    reached |= {type(part) for learner in LEARNERS for part in _fitted.reachable(learner.fit(X, y))}
    reached |= {type(part) for learner in REGRESSORS for part in _fitted.reachable(learner.fit(X, NUMBERS))}
    reached |= {type(part) for part in _fitted.reachable(make_pipeline(COLUMNS, SVC()).fit(TABLE, y))}
    elsewhere = {"Constant", "HypothesisList", "RBFRidges", "RBFSVMs", "PrefitPool", "FrozenEstimator"}
    elsewhere |= {"RandomSubsamples", "FoldSubsamples", "GivenSubsamples", "NoSubsamples", "Untrained"}
    assert {kind.__name__ for kind in (*_fitted.RULES, *_sklearn_rules.RULES)} <= {
        kind.__name__ for kind in reached
    } | elsewhere


RACED = np.abs(np.random.default_rng(1).normal(size=(6000, 3)))
RACED_LABELS = (RACED[:, 0] > 0.7).astype(int)


@pytest.mark.parametrize(
    "parameters",
    sweep(
        [
            {},
            {"holdout": "auto"},
            {"estimator": EstimatorPool(tree.DecisionTreeClassifier(max_depth=3))},
            {"voting": "best"},
            {"racing": "training", "n_hypotheses": 135, "subsample_size": [10, 20, 100]},
        ],
        quick=[1, 2, 4],
    ),
)
def test_models_with_dropped_hypotheses(tmp_path, parameters):
    settings = {"n_hypotheses": 24, "subsample_size": [2, 12, 60], "holdout": None, "random_state": 0}
    model = PACBayesClassifier(**{"estimator": RBFSVMPool(), **settings, **parameters}).fit(RACED, RACED_LABELS)
    assert np.isnan(model.losses_).any()
    assert (model.n_validation_ == 0).any() == (model.racing == "training")
    io.save_model(model, tmp_path / "model.skops")
    again, _ = io.load_model(tmp_path / "model.skops")
    assert again.certificate_ == model.certificate_
    for name in ("losses_", "n_validation_", "posterior_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.predict(RACED), model.predict(RACED))
    np.testing.assert_array_equal(again.predict_proba(RACED), model.predict_proba(RACED))
    certificate = model.certificate_
    assert again.verify_certificate(certificate, RACED, RACED_LABELS) == "arithmetic, model and data"


# Where types of this library were in files that were written before modules were moved.
FORMER_MODULES = {
    "Split": "pacbayes.ensemble",
    "TrainingRows": "pacbayes.recognition",
    "RandomSubsamples": "pacbayes.sampling",
}


def test_types_are_found_wherever_they_were_when_a_file_was_written(tmp_path):
    model = PACBayesClassifier(RBFSVMPool(), **SETTINGS).fit(TABLE, y)
    path = tmp_path / "model.skops"
    io.save_model(model, path)
    moved = set()

    def move(node):
        if node.get("__class__") in FORMER_MODULES:
            node["__module__"] = FORMER_MODULES[node["__class__"]]
            moved.add(node["__class__"])
        return node

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["schema.json"] = json.dumps(json.loads(members["schema.json"], object_hook=move))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert moved == set(FORMER_MODULES)
    again, _ = io.load_model(path)
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    assert again.verify_certificate(model.certificate_, TABLE, y) == "arithmetic, model and data"


def forge_weight(vote):
    h = int(np.flatnonzero(vote.seen < vote.subsamples.n_validation)[0])
    rho = vote.posterior.copy()
    rho[[h, np.argmax(rho)]] = rho.max() / 2
    return {"posterior": rho}


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (forge_weight, "a hypothesis that was dropped has weight"),
        (lambda vote: {"seen": vote.subsamples.n_validation}, "a hypothesis that was not trained has a loss"),
        (lambda vote: {"seen": vote.subsamples.n_validation + 1}, "more points were seen than there are"),
        (lambda vote: {"seen": -vote.seen}, "seen of a Vote is out of range"),
        (lambda vote: {"totals": vote.totals + 2000}, r"losses are not in \[0, 1\]"),
        (lambda vote: {"seen": vote.seen.astype(float)}, "seen"),
        (lambda vote: {"seen": vote.seen[1:]}, "do not fit together"),
        (lambda vote: {"prior": vote.posterior[:1]}, "prior must have one entry per hypothesis"),
        (lambda vote: {"prior": vote.posterior * 2}, "prior must sum to one"),
    ],
)
def test_dropped_hypotheses_that_make_no_sense_are_refused(tmp_path, forge, message):
    settings = {"n_hypotheses": 135, "subsample_size": [10, 20, 100], "holdout": None, "racing": "training"}
    model = PACBayesClassifier(RBFSVMPool(), **settings, random_state=0).fit(RACED, RACED_LABELS)
    assert (model.n_validation_ == 0).any()
    content = skops.io.loads(io.dumps_model(model), trusted=[_archive.type_name(kind) for kind in _fitted.RULES])
    fitted = content["fitted"]
    content["fitted"] = replace(fitted, votes=tuple(replace(vote, **forge(vote)) for vote in fitted.votes))
    (tmp_path / "model.skops").write_bytes(skops.io.dumps(content))
    with pytest.raises(ModelFileError, match=message):
        io.load_model(tmp_path / "model.skops")


def test_a_prefit_ensemble(tmp_path):
    estimators = [linear_model.LogisticRegression(C=c).fit(X[:60], y[:60]) for c in (0.1, 1.0, 10.0)]
    model = PACBayesClassifier.from_prefit([*estimators[:2], FrozenEstimator(estimators[2])], X[60:], y[60:])
    io.save_model(model, tmp_path / "model.skops")
    again, _ = io.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda book: replace(book, names=("a", "b")), "code book"),
        (lambda book: replace(book, gaps=(False, False, 1)), r"gaps\[2\] must be true or false"),
        (lambda book: replace(book, categories=(None, None, ("u", "u"))), "a category is there twice"),
        (lambda book: replace(book, categories=(None, None, ("u", 1))), r"categories\[2\]\[1\] must be text"),
        (lambda book: replace(book, categories=(None, ("u",), ("u", "v"))), "the code book has other features|fill"),
        (lambda book: replace(book, texts=(True, False, False)), "a text has no categories"),
        (lambda book: replace(book, texts=(False, True)), "texts of a code book is no tuple"),
        (lambda book: replace(book, texts=(False, False, 1)), r"texts\[2\] must be true or false"),
        (lambda book: None, "code book|features"),
    ],
)
def test_a_code_book_that_does_not_fit_is_refused(tmp_path, change, message):
    model = PACBayesClassifier(RBFSVMPool(scaler="minmax"), **SETTINGS).fit(TABLE.mask(TABLE == "u"), y)
    book = change(model.fitted_votes_.code_book)
    votes = [replace(vote, hypotheses=replace(vote.hypotheses, code_book=book)) for vote in model.votes_]
    model.fitted_votes_ = replace(model.fitted_votes_, code_book=book, votes=tuple(votes))
    io.save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=message):
        io.load_model(tmp_path / "model.skops")


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("boosted trees", "feature", 3),
        ("boosted trees", "leaf", 120),
        ("boosted trees", "class_codes", 2),
        ("boosted trees", "tree_sizes", 1),
        ("boosted trees of a table", "columns", 100),
        ("boosted trees of a table", "table_sizes", 120),
        ("linear models", "table_sizes", 0),
        ("linear models", "sizes", 5),
    ],
)
def test_models_that_would_be_read_beyond_their_arrays_are_refused(tmp_path, name, array, value):
    model, data = MODELS[name]
    forged = clone(model).fit(data, y)
    fitted = forged.fitted_votes_
    vote = fitted.best
    values = getattr(vote.hypotheses.models, array).copy()
    values.flat[0] = value
    hypotheses = replace(vote.hypotheses, models=replace(vote.hypotheses.models, **{array: values}))
    votes = [replace(vote, hypotheses=hypotheses) if one is vote else one for one in fitted.votes]
    forged.fitted_votes_ = replace(fitted, votes=tuple(votes))
    io.save_model(forged, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=r"must|range"):
        io.load_model(tmp_path / "model.skops")


def test_the_schema_comes_back(tmp_path):
    table = io.Table.from_frame(TABLE.assign(y=y), "y")
    model = PACBayesClassifier(make_pipeline(ENCODER, SVC()), **SETTINGS).fit(table.X, table.y)
    io.save_model(model, tmp_path / "model.skops", table.schema)
    again, schema = io.load_model(tmp_path / "model.skops")
    assert schema == table.schema
    np.testing.assert_array_equal(again.predict(schema.apply(TABLE)), model.predict(table.X))


@pytest.mark.parametrize(
    "learner",
    [
        neighbors.KNeighborsClassifier(1, algorithm="kd_tree"),
        linear_model.SGDClassifier(),
        ensemble.GradientBoostingClassifier(n_estimators=2),
    ],
)
def test_types_that_have_to_be_trusted_by_name(tmp_path, learner):
    model = PACBayesClassifier(learner, **SETTINGS).fit(X, y)
    path = tmp_path / "model.skops"
    io.save_model(model, path)
    message = refused(path, "holds types that are not trusted: ")
    again, _ = io.load_model(path, trusted=message.partition("not trusted: ")[2].split(", "))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_sparse_machines_have_to_be_trusted_by_name(tmp_path):
    model = PACBayesClassifier(SVC(), **SETTINGS).fit(sp.csr_matrix(X), y)
    io.save_model(model, tmp_path / "model.skops")
    refused(tmp_path / "model.skops", "trained on sparse data")
    again, _ = io.load_model(tmp_path / "model.skops", trusted=["sklearn.svm._classes.SVC"])
    np.testing.assert_array_equal(again.predict(sp.csr_matrix(X)), model.predict(sp.csr_matrix(X)))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.skops"
    io.save_model(PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, random_state=0).fit(X, y), path)
    return path


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        io.load_model(path)
    assert str(caught.value).startswith(f"'{path}' is not a model that can be loaded: ")
    return str(caught.value)


def test_only_fitted_classifiers_are_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        io.save_model(PACBayesClassifier(), tmp_path / "model.skops")
    with pytest.raises(ValueError, match="SVC is not fitted, or has no certificate"):
        io.save_model(SVC(), tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_models(tmp_path):
    refused(tmp_path / "none.skops", "there is no such file")
    refused(tmp_path, "this is a folder")
    path = tmp_path / "other.skops"
    for content in (b"", b"just some text"):
        path.write_bytes(content)
        refused(path, "not a zip file")
    skops.io.dump(SVC().fit(X, y), path)
    refused(path, "there is something else in it")
    for version in (4, 10**9):
        skops.io.dump({"pacbayes_model": version}, path)
        refused(path, f"it has format {version}, and this version reads 5 to 7: fit again")
    model = {"pacbayes_model": 7, "code_book": None, "certificates": ["{}"], "schema": None}
    skops.io.dump({**model, "fitted": SVC().fit(X, y)}, path)
    refused(path, "holds a SVC, not the votes of a model")
    skops.io.dump(model, path)
    refused(path, "KeyError: 'fitted'")


def test_every_truncation_is_refused(saved):
    data = saved.read_bytes()
    for size in np.linspace(0, len(data) - 1, 40).astype(int):
        saved.write_bytes(data[:size])
        refused(saved, "not a zip file|Truncated|truncated|Bad|EOF")


def test_damage_is_refused_or_harmless(saved):
    data, model = saved.read_bytes(), io.load_model(saved)[0]
    harmless = 0
    for position in np.linspace(0, len(data) - 1, 60).astype(int):
        saved.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        with contextlib.suppress(ModelFileError):
            again, _ = io.load_model(saved)
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            harmless += 1
    assert harmless < 30


def test_the_limit(saved):
    model, _ = io.load_model(saved, max_bytes=10**7)
    assert model.score(X, y) > 0.5
    with pytest.raises(ModelFileError, match=r"it takes more than 97\.7 KiB of memory, the limit that max_bytes"):
        io.load_model(saved, max_bytes=10**5)


def test_a_code_book_is_kept_once_and_losing_hypotheses_are_not(tmp_path):
    path, fresh = tmp_path / "model.skops", TABLE.sample(40, random_state=1)
    model = PACBayesClassifier(holdout=[0.3, 0.5], n_hypotheses=40, random_state=0).fit(TABLE, y)
    io.save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        schema = archive.read("schema.json").decode()
    assert schema.count("categories") == 1
    again, _ = io.load_model(path)
    np.testing.assert_array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
    assert again.verify_certificate(model.certificate_, TABLE, y) == "arithmetic, model and data"
    loser = again.votes_[1 - again.fitted_votes_.winner]
    assert [vote.bound for vote in again.votes_] == [vote.bound for vote in model.votes_]
    with pytest.raises(HypothesisError, match="keeps the hypotheses of the vote that predicts"):
        loser.predict(TABLE)
    # A model that was loaded can be saved.
    io.save_model(again, tmp_path / "again.skops")
    np.testing.assert_array_equal(io.load_model(tmp_path / "again.skops")[0].predict(fresh), model.predict(fresh))


def test_format_6_has_the_code_book_with_every_group(tmp_path):
    path = tmp_path / "model.skops"
    model = PACBayesClassifier(n_hypotheses=20, random_state=0).fit(TABLE, y)
    fitted = model.fitted_votes_
    content = {
        "pacbayes_model": 6,
        "certificates": [vote.certificate.to_json() for vote in fitted.votes],
        "schema": None,
        "fitted": fitted.with_certificates([None] * len(fitted.votes)),
    }
    skops.io.dump(content, path)
    again, _ = io.load_model(path)
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    assert again.verify_certificate(model.certificate_, TABLE, y) == "arithmetic, model and data"


def test_what_is_to_be_saved_is_tried(saved, monkeypatch):
    data = saved.read_bytes()
    io.try_loading(data)
    monkeypatch.setattr(models, "MAX_MODEL_BYTES", 10**5)
    with pytest.warns(UserWarning, match=r"takes .* the limit is 97\.7 KiB .* \(--max-bytes \d+\)") as found:
        io.try_loading(data)
    needed = int(str(found[0].message).rsplit(" ", 1)[1].rstrip(")"))
    io.load_model(saved, max_bytes=needed)
    with pytest.raises(ModelFileError, match="it takes more than"):
        io.load_model(saved, max_bytes=needed - 1)
    monkeypatch.setattr(models, "check_objects", lambda *_: (_ for _ in ()).throw(ValueError("a bad part")))
    with pytest.raises(ModelFileError, match="the model could not be loaded if it was saved: a bad part"):
        io.try_loading(data)
