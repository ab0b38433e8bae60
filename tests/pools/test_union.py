"""Unions of families: one prior, one vote, and what each family brings of its own."""

from dataclasses import replace
from html import escape

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from pacbayes import CertifiedGridSearch, PACBayesClassifier
from pacbayes.certificate import MAJORITY, Certificate, Statement, name_family
from pacbayes.exceptions import CertificateError, HypothesisError
from pacbayes.io import load_model, save_model
from pacbayes.pools import (
    BoostingPool,
    EstimatorPool,
    ForestPool,
    HypothesisList,
    LinearPool,
    PrefitPool,
    RBFSVMPool,
    UnionPool,
)
from pacbayes.sampling import GivenSubsamples, RandomSubsamples, SamplingPlan, UnionSubsamples, divide_in_proportion
from pacbayes.tasks import Classification


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)


def save_and_load(model, tmp_path):
    save_model(model, tmp_path / "model.pacbayes")
    return load_model(tmp_path / "model.pacbayes")[0]


def small_svms(**settings):
    return RBFSVMPool(**{"n_hypotheses": 12, "subsample_size": (0.3, 0.6), **settings})


def bayes(**settings):
    return EstimatorPool(GaussianNB(), n_hypotheses=4, subsample_size=0.7, vote_by="probabilities", **settings)


def trees(**settings):
    return EstimatorPool(DecisionTreeClassifier(max_depth=4), n_hypotheses=5, subsample_size=(0.5, 0.8), **settings)


def make_union(**settings):
    return UnionPool([("svm", small_svms()), ("bayes", bayes()), ("tree", trees())], **settings)


@pytest.fixture(scope="module")
def model(data):
    return PACBayesClassifier(make_union(), random_state=0).fit(*data)


# ---------------------------------------------------------------------------------------------------
# Settings
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ([], "families must be a list of"),
        ("svm", "families must be a list of"),
        ([("a", RBFSVMPool()), ("a", RBFSVMPool())], "got 'a' twice"),
        ([("a__b", RBFSVMPool())], "a family must be named"),
        ([("a/b", RBFSVMPool())], "a family must be named"),
        ([("", RBFSVMPool())], "a family must be named"),
        ([("a\0", RBFSVMPool())], "a family must be named"),
        ([("a\nBound: 0", RBFSVMPool())], "a family must be named"),
        ([("a" * 51, RBFSVMPool())], "a family must be named"),
        ([(f"a{k}", RBFSVMPool()) for k in range(101)], "families must be at most 100, got 101"),
        ([("weights", RBFSVMPool())], "a family must be named"),
        ([(3, RBFSVMPool())], "a family must be named"),
        ([("a", GaussianNB())], "family 'a' must be a pool"),
        ([("a", UnionPool([("b", RBFSVMPool())]))], "and no union"),
        ([("a", RBFSVMPool(C=-1.0))], "family 'a': C must be"),
        ([("a", RBFSVMPool(n_hypotheses=0))], "family 'a': n_hypotheses must be"),
        ([("a", EstimatorPool(LinearSVC(), vote_by="probabilities"))], "family 'a': vote_by must be 'labels'"),
    ],
)
def test_families_that_cannot_be(data, families, message):
    with pytest.raises(ValueError, match=message):
        PACBayesClassifier(UnionPool(families)).fit(*data)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], "abc"])
def test_weights_that_cannot_be(data, weights):
    with pytest.raises(ValueError, match="weights must be a positive number for each of 3 families"):
        PACBayesClassifier(make_union(weights=weights)).fit(*data)


def test_weights_whose_sum_overflows(data):
    pool = make_union(weights=[1e308, 1e308, 5e307])
    assert_allclose(PACBayesClassifier(pool, random_state=0).fit(*data).prior_[[0, 12, 16]], [0.4 / 12, 0.1, 0.2 / 5])


def test_settings_are_nested():
    pool = make_union()
    assert pool.get_params()["tree__estimator__max_depth"] == 4
    changed = clone(pool).set_params(svm__C=3.0, tree__estimator__max_depth=2, bayes=trees())
    assert dict(changed.families)["svm"].C == 3.0
    assert dict(changed.families)["tree"].estimator.max_depth == 2
    assert dict(changed.families)["bayes"].estimator.max_depth == 4
    assert dict(pool.families)["tree"].estimator.max_depth == 4


def test_a_grid_search_reaches_families(data):
    search = CertifiedGridSearch(
        PACBayesClassifier(make_union(), random_state=0), {"estimator__tree__estimator__max_depth": [1, 5]}
    ).fit(*data)
    chosen = dict(search.best_estimator_.estimator.families)["tree"].estimator.max_depth
    depths = {tree.max_depth for tree in search.best_estimator_.hypotheses_[16:] if hasattr(tree, "max_depth")}
    assert depths == {chosen}


# ---------------------------------------------------------------------------------------------------
# Subsamples and the prior
# ---------------------------------------------------------------------------------------------------


def test_each_family_has_its_own_numbers_and_sizes(model):
    families = model.subsamples_.families
    assert families == {"svm": range(12), "bayes": range(12, 16), "tree": range(16, 21)}
    n = model.subsamples_.n
    sizes = model.subsamples_.sizes
    assert set(sizes[:12]) == {round(0.3 * n), round(0.6 * n)}
    assert set(sizes[12:16]) == {round(0.7 * n)}
    assert set(sizes[16:]) == {round(0.5 * n), round(0.8 * n)}


def test_the_prior_has_a_share_for_each_family(data):
    model = PACBayesClassifier(make_union(weights=[2.0, 1.0, 1.0]), random_state=0).fit(*data)
    expected = np.repeat([0.5 / 12, 0.25 / 4, 0.25 / 5], [12, 4, 5])
    assert_allclose(model.prior_, expected, rtol=1e-14)
    without = PACBayesClassifier(make_union(), holdout=None, random_state=0).fit(*data)
    shares = [without.prior_[own.start : own.stop].sum() for own in without.subsamples_.families.values()]
    assert_allclose(shares, 1 / 3, rtol=1e-14)
    # Within a family, those with more validation points have more of it.
    assert without.prior_[0] > without.prior_[1]


def test_numbers_are_divided_in_proportion(data):
    model = PACBayesClassifier(make_union(), n_hypotheses=42, random_state=0).fit(*data)
    assert [len(own) for own in model.subsamples_.families.values()] == divide_in_proportion(42, [12, 4, 5])
    assert model.posterior_.size == 42
    sized = PACBayesClassifier(make_union(), subsample_size=50, random_state=0).fit(*data)
    assert set(sized.subsamples_.sizes) == {50}
    with pytest.raises(ValueError, match="n_hypotheses must be at least the number of families, 3, got 2"):
        PACBayesClassifier(make_union(), n_hypotheses=2).fit(*data)


def test_given_subsamples_train_every_family(data):
    sets = [range(0, 50), range(50, 150)]
    model = PACBayesClassifier(make_union(), subsamples=sets, holdout=None, random_state=0).fit(*data)
    assert [len(own) for own in model.subsamples_.families.values()] == [2, 2, 2]
    assert_array_equal(model.subsamples_[4], np.arange(0, 50))


def test_a_family_does_not_depend_on_the_others(data):
    whole = PACBayesClassifier(make_union(), racing=False, random_state=0).fit(*data)
    alone = PACBayesClassifier(UnionPool([("tree", trees())]), racing=False, random_state=0).fit(*data)
    for one, other in zip(whole.votes_, alone.votes_, strict=True):
        assert_array_equal(one.losses[16:], other.losses)


def test_families_of_many_rows_are_validated_on_the_same_points():
    families = [("boosting", BoostingPool()), ("linear", LinearPool()), ("svm", RBFSVMPool(n_hypotheses=3))]
    own_sizes = ("sizes", LinearPool(subsample_size=0.95, n_hypotheses=2))
    union = UnionPool([*families, own_sizes])
    plan = SamplingPlan("auto", "auto", None, entropy=5)
    many, few = (union.draw_subsamples(plan, n, 4).by_family() for n in (8000, 4000))
    for h in range(2):
        assert_array_equal(many["boosting"][h], many["linear"][h])
        assert many["sizes"][h].size == many["linear"][h].size == 7600
        assert not np.array_equal(many["sizes"][h], many["linear"][h])
        assert not np.array_equal(few["boosting"][h], few["linear"][h])
    assert not np.array_equal(many["boosting"][0], many["boosting"][1])


def test_subsamples_of_a_union_are_those_of_its_parts():
    parts = {"a": RandomSubsamples(30, [4, 9], 5, 1), "b": GivenSubsamples(30, [[1, 2], [29]])}
    union = UnionSubsamples(parts)
    everything = [*parts["a"], *parts["b"]]
    for h, expected in enumerate(everything):
        assert_array_equal(union[h], expected)
    assert_array_equal(union.concatenated(range(3, 7)), np.concatenate(everything[3:7]))
    rows = np.arange(1, 30, 2)
    assert_array_equal(union.count_among(rows), [np.isin(s, rows).sum() for s in everything])
    assert union.assumptions == ["subsamples-random", "subsamples-given"]


# ---------------------------------------------------------------------------------------------------
# The vote
# ---------------------------------------------------------------------------------------------------


def test_the_vote_is_the_weighted_mean_of_labels_and_probabilities(data, model):
    X, _ = data
    expected = np.zeros((X.shape[0], 3))
    for h, (hypothesis, weight) in enumerate(zip(model.hypotheses_, model.posterior_, strict=True)):
        if 12 <= h < 16:
            expected += weight * hypothesis.predict_proba(X)
        else:
            expected += weight * (hypothesis.predict(X)[:, np.newaxis] == model.classes_)
    assert_allclose(model.predict_shares(X), expected, atol=1e-12)
    assert_array_equal(model.predict(X), np.argmax(expected, axis=1))


def test_without_a_test_the_vote_is_about_labels(data):
    X, y = data
    model = PACBayesClassifier(make_union(), holdout=None, random_state=0).fit(X, y)
    shares = sum(
        w * (h.predict(X)[:, None] == [0, 1, 2]) for h, w in zip(model.hypotheses_, model.posterior_, strict=True)
    )
    assert_allclose(model.predict_shares(X), shares, atol=1e-12)
    assert {family.vote_by for family in model.certificate_.families} == {"labels"}


def test_equal_shares_count_as_an_error():
    class Undecided:
        classes_ = np.array([0, 1])

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    task = Classification(np.array([0, 1]))
    codes, uncertain = task.predict(
        HypothesisList([Undecided()], task.classes, "probabilities"), np.ones(1), np.zeros((3, 1))
    )
    assert_array_equal(codes, 0)
    assert uncertain.all()
    _, certain = task.predict(HypothesisList([Undecided()], task.classes), np.ones(1), np.zeros((3, 1)))
    assert not certain.any()


@pytest.mark.parametrize(("dtype", "in_doubt"), [(np.float64, False), (np.float32, True), (np.float16, True)])
def test_probabilities_in_single_precision_are_in_doubt_by_as_much(dtype, in_doubt):
    class Close:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([np.full(len(X), 0.5 - 2.0**-22), np.full(len(X), 0.5 + 2.0**-22)]).astype(dtype)

    hypotheses = HypothesisList([Close()], np.array([0, 1]), "probabilities")
    codes, uncertain = Classification(np.array([0, 1])).predict(hypotheses, np.ones(1), np.zeros((3, 1)))
    assert_array_equal(codes, 0 if dtype == np.float16 else 1)  # where both round to one half
    assert_array_equal(uncertain, in_doubt)


def test_losses_are_about_labels(data, model):
    X, y = data
    vote = model.votes_[0]
    rest = vote.split.rows
    for h in (3, 13, 18):
        outside = np.setdiff1d(np.arange(rest.size), vote.subsamples[h])
        wrong = vote.hypotheses[h].predict(X[rest[outside]]) != y[rest[outside]]
        assert vote.losses[h] == wrong.mean()


# ---------------------------------------------------------------------------------------------------
# The certificate
# ---------------------------------------------------------------------------------------------------


def test_the_certificate_says_what_each_family_has(model):
    families = model.certificate_.families
    assert [(family.name, family.n_hypotheses, family.vote_by) for family in families] == [
        ("svm", 12, "labels"),
        ("bayes", 4, "probabilities"),
        ("tree", 5, "labels"),
    ]
    assert_allclose([one.weight for one in families], np.add.reduceat(model.posterior_, [0, 12, 16]), rtol=1e-12)
    heaviest = max(families, key=lambda family: family.weight)
    assert model.certificate_.describe_families().startswith(name_family(heaviest.name))
    assert "Weight by family" in str(model.certificate_)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ((0.1, 0.71, 0.19), "'bayes' hypotheses hold 71% of the weight, 'tree' hypotheses 19%, SVMs 10%."),
        ((0.0, 0.0, 1.0), "'tree' hypotheses hold all of the weight."),
        (
            (1.0, 1e-12, 0.0),
            "SVMs hold more than 99% of the weight, 'bayes' hypotheses less than 1%, 'tree' hypotheses none.",
        ),
    ],
)
def test_a_sentence_says_which_family_won(model, weights, sentence):
    families = zip(model.certificate_.families, weights, strict=True)
    certificate = model.certificate_.revise(families=tuple(replace(one, weight=weight) for one, weight in families))
    assert certificate.describe_weights() == sentence
    assert f"  - {sentence}\n" in str(certificate)
    assert escape(sentence) in certificate._repr_html_()
    assert model.certificate_.revise(families=()).describe_weights() == ""


def test_hypotheses_say_what_they_are(data):
    pool = UnionPool(
        [
            ("svm", small_svms()),
            ("boosting", BoostingPool(max_iter=5, n_hypotheses=1)),
            ("forest", ForestPool(n_estimators=3, n_hypotheses=1)),
            ("linear", LinearPool(n_hypotheses=1)),
        ]
    )
    model = PACBayesClassifier(pool, racing=False, random_state=0).fit(*data)
    starts = {"svm": "RBF-SVM, gamma = ", "boosting": "boosted trees: 5 rounds", "forest": "forest: 3 trees of"}
    for name, own in model.subsamples_.families.items():
        assert str(model.hypotheses_[own[0]]).startswith(starts.get(name, "logistic regression of 6 features, C = "))
        assert model.hypotheses_.describe(own[0]) == str(model.hypotheses_[own[0]])
    assert repr(model.hypotheses_[-1]).startswith("<logistic regression")
    assert repr(model.hypotheses_) == "<HypothesisGroups of 15>"


def test_a_certificate_of_a_union_is_read_and_verified(data, model):
    again = Certificate.from_json(model.certificate_.to_json())
    assert again == model.certificate_
    assert model.verify_certificate(again) == "arithmetic and model"
    assert model.verify_certificate(again, *data) == "arithmetic, model and data"


def test_a_certificate_that_states_other_families_is_refused(model):
    own = model.certificate_
    first, second, *others = own.families
    swapped = [replace(first, weight=second.weight), replace(second, weight=first.weight), *others]
    with pytest.raises(CertificateError, match="families is stated"):
        model.verify_certificate(own.revise(families=tuple(swapped)))
    with pytest.raises(CertificateError, match="weights of families must add up to 1"):
        own.revise(families=(replace(first, weight=1.0), second, *others))
    with pytest.raises(CertificateError, match="number of hypotheses in families"):
        own.revise(families=(replace(first, n_hypotheses=11), second, *others))


def test_a_bound_on_a_vote_by_labels_is_not_one_by_probabilities(data, model):
    untested = PACBayesClassifier(make_union(), holdout=None, random_state=0).fit(*data).certificate_
    assert untested.statements[0].predictor == MAJORITY
    wrong = "about a vote by labels, and families vote by probabilities"
    by_probabilities = tuple(replace(one, vote_by="probabilities") for one in untested.families)
    with pytest.raises(CertificateError, match=wrong):
        untested.revise(families=by_probabilities)
    own = model.certificate_
    gibbs = own.gibbs_bound
    vote = Statement.by("first-order", MAJORITY, own.loss, own.delta, {"gibbs_bound": gibbs}, own.assumption_codes)
    labels = tuple(replace(one, vote_by="labels") for one in own.families)
    doctored = replace(own.without_test(), statements=(vote, *own.statements[1:]))
    replace(doctored, families=labels).check()
    with pytest.raises(CertificateError, match=wrong):
        doctored.check()


def test_a_family_that_lost_cannot_be_taken_out_afterwards(data, model):
    fitted = model.fitted_votes_
    fewer = UnionPool([one for one in make_union().families if one[0] != "bayes"])
    edited = PACBayesClassifier.from_fitted_votes(replace(fitted, settings=replace(fitted.settings, estimator=fewer)))
    with pytest.raises(CertificateError):
        edited.verify_certificate(model.certificate_)


@pytest.mark.parametrize("settings", [{"n_jobs": 2}, {"racing": False, "n_jobs": 2}])
def test_same_bits_with_any_workers(data, settings):
    fits = [
        PACBayesClassifier(make_union(), random_state=3, **{**settings, "n_jobs": n_jobs}).fit(*data)
        for n_jobs in (1, settings["n_jobs"])
    ]
    assert_array_equal(fits[0].posterior_, fits[1].posterior_)
    assert_array_equal(fits[0].predict_proba(data[0]), fits[1].predict_proba(data[0]))
    assert fits[0].certificate_ == fits[1].certificate_


def test_a_checkpoint_goes_on(data, tmp_path):
    settings = {"random_state": 0, "checkpoint": tmp_path / "fit"}
    first = PACBayesClassifier(make_union(), **settings).fit(*data)
    again = PACBayesClassifier(make_union(), **settings).fit(*data)
    plain = PACBayesClassifier(make_union(), random_state=0).fit(*data)
    for model in (first, again):
        assert_array_equal(model.predict_proba(data[0]), plain.predict_proba(data[0]))
        assert model.certificate_.bound == plain.certificate_.bound


def test_saved_and_loaded(data, model, tmp_path):
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict_proba(data[0]), model.predict_proba(data[0]))
    assert loaded.verify_certificate(model.certificate_, *data) == "arithmetic, model and data"


def test_training_race_and_unions(data):
    model = PACBayesClassifier(make_union(), racing="training", random_state=0).fit(*data)
    assert model.verify_certificate(model.certificate_, *data) == "arithmetic, model and data"


def test_prefit_classifiers_beside_others(data):
    X, y = data
    prefit = PrefitPool([LogisticRegression().fit(X[:100], y[:100])])
    union = UnionPool([("prefit", prefit), ("tree", trees())])
    model = PACBayesClassifier(union, random_state=0).fit(X[100:], y[100:])
    assert model.subsamples_.sizes[0] == 0
    assert {"trained-elsewhere", "subsamples-random"} <= set(model.certificate_.assumption_codes)


def test_hypotheses_cannot_be_added(data):
    model = PACBayesClassifier(make_union(), racing=False, random_state=0).fit(*data)
    with pytest.raises(ValueError, match="estimator must be of one family"):
        model.add_hypotheses(*data, 100)


# ---------------------------------------------------------------------------------------------------
# Families that cannot take the sample
# ---------------------------------------------------------------------------------------------------


def text_table(data):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(data[0], columns=list("abcdef"))
    table["text"] = np.where(data[0][:, 0] > 0, "high", "low")
    return table


def test_a_family_that_cannot_take_the_table(data, tmp_path):
    table = text_table(data)
    with pytest.raises(ValueError, match="family 'bayes' cannot be trained on this sample: it takes no tables"):
        PACBayesClassifier(make_union(), random_state=0).fit(table, data[1])
    model = PACBayesClassifier(make_union(unusable="drop"), random_state=0).fit(table, data[1])
    assert list(model.subsamples_.families) == ["svm"]
    assert_allclose(model.prior_, 1 / 12)
    assert {"left-out:bayes", "left-out:tree"} <= set(model.certificate_.assumption_codes)
    assert model.verify_certificate(model.certificate_, table, data[1]) == "arithmetic, model and data"
    loaded = save_and_load(model, tmp_path)
    assert loaded.verify_certificate(model.certificate_) == "arithmetic and model"


def test_errors_name_the_family(data):
    class Fails(GaussianNB):
        def fit(self, X, y):
            raise RuntimeError("no luck")

    too_large = UnionPool([("svm", small_svms()), ("tree", trees().set_params(subsample_size=900))])
    with pytest.raises(ValueError, match=r"family 'tree': subsample_size must be .* got 900 \(holdout="):
        PACBayesClassifier(too_large, random_state=0).fit(*data)
    failing = UnionPool([("svm", small_svms()), ("own", EstimatorPool(Fails(), n_hypotheses=2))])
    for racing in (True, False):
        with pytest.raises(HypothesisError, match=r"family 'own': hypothesis 0 could not be trained .* no luck"):
            PACBayesClassifier(failing, racing=racing, random_state=0).fit(*data)


def test_sparse_rows(data):
    sparse = csr_array(data[0])
    model = PACBayesClassifier(make_union(unusable="drop"), random_state=0).fit(sparse, data[1])
    assert list(model.subsamples_.families) == ["svm", "tree"]
    with pytest.raises((ValueError, TypeError), match=r"[Ss]parse"):
        PACBayesClassifier(make_union(), random_state=0).fit(sparse, data[1])


def test_gaps_in_arrays_are_for_families_that_take_them(data):
    X = data[0].copy()
    X[::7, 1] = np.nan
    pools = [("boosting", BoostingPool(max_iter=3)), ("linear", LinearPool(C=1.0, splines=False))]
    model = PACBayesClassifier(UnionPool(pools), random_state=0).fit(X, data[1])
    assert model.verify_certificate(model.certificate_, X, data[1]) == "arithmetic, model and data"
    with pytest.raises(ValueError, match="X must not hold missing values"):
        PACBayesClassifier(UnionPool([*pools, ("svm", small_svms())]), random_state=0).fit(X, data[1])


def test_all_families_left_out(data):
    union = UnionPool([("svm", small_svms())], unusable="drop")
    with pytest.raises(ValueError, match="family 'svm' cannot be trained on this sample: loss 'brier' needs"):
        PACBayesClassifier(union, loss="brier").fit(*data)


def test_a_loss_of_probabilities_is_for_those_who_have_them(data):
    union = UnionPool([("svm", small_svms()), ("bayes", bayes())], unusable="drop")
    model = PACBayesClassifier(union, loss="brier", random_state=0).fit(*data)
    assert list(model.subsamples_.families) == ["bayes"]
    assert "left-out:svm" in model.certificate_.assumption_codes


def test_tables_of_numbers_are_for_all(data):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(data[0], columns=list("abcdef"))
    model = PACBayesClassifier(make_union(), random_state=0).fit(table, data[1])
    plain = PACBayesClassifier(make_union(), random_state=0).fit(*data)
    assert_array_equal(model.predict_proba(table), plain.predict_proba(data[0]))
