"""Errors by class: the confusion matrix, its bounds, and what certificates say and refuse about them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import beta, binom
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import confusion_matrix
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._json_fields import checksum
from pacbayes.certificate import Confusion, tabulate_predictions, with_test
from pacbayes.pools import RBFSVMPool

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW_X, NEW_Y = make_moons(400, noise=0.25, random_state=1)


def small(**parameters):
    return PACBayesClassifier(
        **{"estimator": RBFSVMPool(), "n_hypotheses": 20, "subsample_size": [8, 30], "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def moons():
    return small().fit(X, np.where(Y == 1, "yes", "no"))


def upper(errors, n, level):
    """Clopper-Pearson's bound by SciPy's quantiles."""
    return 1.0 if errors >= n else float(beta.ppf(1 - level, errors + 1, n - errors))


@st.composite
def matrices(draw):
    width = draw(st.integers(2, 5)) + 1
    counts = draw(arrays(np.int64, (width, width), elements=st.integers(0, 30)))
    counts[0, 0] += 1
    return counts


# ---------------------------------------------------------------------------------------------------
# Bounds
# ---------------------------------------------------------------------------------------------------


@given(matrices(), st.floats(0.001, 0.5), st.integers(1, 10))
def test_bounds_are_those_of_the_binomial(counts, delta, n_votes):
    confusion = Confusion.of("held-out", counts, float(np.log(n_votes)), delta)
    confusion.check(delta, counts.shape[0] - 1)
    n_classes = counts.shape[0] - 1
    level = delta / (2 * n_classes * n_votes)
    labels = [str(k) for k in range(n_classes)]
    for c, rates in enumerate(confusion.rates(labels)):
        # Point by point: true class, and the predicted one, None if it is in doubt.
        points = [
            (i, j if j < n_classes else None)
            for i in range(n_classes + 1)
            for j in range(n_classes + 1)
            for _ in range(counts[i, j])
        ]
        missed = [predicted != c for true, predicted in points if true == c]
        alarms = [true != c for true, predicted in points if predicted == c or (predicted is None and true != c)]
        for rate, wrong in ((rates.misses, missed), (rates.false_alarms, alarms)):
            assert (rate.errors, rate.n) == (sum(wrong), len(wrong))
            expected = upper(rate.errors, rate.n, level)
            assert rate.bound == pytest.approx(expected, rel=1e-6)
            assert rate.bound >= expected * (1 - 1e-9)
    assert confusion.balanced_error >= np.mean([rates.misses.bound for rates in confusion.rates(labels)])


@given(matrices(), st.data())
def test_no_engine_does_worse_than_what_is_counted(counts, data):
    """Doubtful predictions may fall on any class: no choice of theirs makes a measured rate larger."""
    n_classes = counts.shape[0] - 1
    confusion = Confusion.of("held-out", counts, 0.0, 0.05)
    settled = counts.copy()
    settled[:, -1] = 0
    for i in range(n_classes + 1):
        for _ in range(counts[i, -1]):
            settled[i, data.draw(st.integers(0, n_classes - 1))] += 1
    labels = [str(k) for k in range(n_classes)]
    on_one_engine = Confusion.of("held-out", settled, 0.0, 0.05).rates(labels)
    for counted, actual in zip(confusion.rates(labels), on_one_engine, strict=True):
        for name in ("misses", "false_alarms"):
            if getattr(actual, name).measured is not None:
                assert getattr(counted, name).measured >= getattr(actual, name).measured


def test_a_class_without_points_has_no_bound():
    counts = np.array([[7, 0, 0], [0, 0, 0], [0, 0, 0]])
    _, absent = Confusion.of("held-out", counts, 0.0, 0.05).rates(["a", "b"])
    assert absent.misses == absent.false_alarms == (0, 0, 1.0)
    assert absent.misses.measured is None


@given(st.data())
def test_predictions_are_counted_by_class(data):
    n_classes, n = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 40))
    codes = data.draw(arrays(np.intp, n, elements=st.integers(0, n_classes)))
    predicted = data.draw(arrays(np.intp, n, elements=st.integers(0, n_classes - 1)))
    doubtful = data.draw(arrays(bool, n))
    counts = tabulate_predictions(codes, predicted, doubtful, n_classes)
    expected = confusion_matrix(codes, np.where(doubtful, n_classes, predicted), labels=range(n_classes + 1))
    np.testing.assert_array_equal(counts, expected)


# ---------------------------------------------------------------------------------------------------
# Certificates of fits
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["majority", "gibbs", "best", "uniform"])
def test_held_out_rows_by_class(voting):
    model = small(voting=voting, holdout=(0.5, 0.4)).fit(X, Y)
    certificate, held_out = model.certificate_, model.votes_[model.fitted_votes_.winner].split.held_out
    confusion = certificate.confusion
    assert certificate.labels == ("0", "1")
    assert certificate.label_counts == tuple(np.bincount(Y).tolist())
    assert (confusion.points, confusion.n) == ("held-out", held_out.size)
    assert confusion.errors == certificate.statements[0].figures["errors"]
    if voting != "gibbs":
        expected = confusion_matrix(Y[held_out], model.predict(X[held_out]))
        np.testing.assert_array_equal(np.array(confusion.counts)[:2, :2], expected)
    missed, n = confusion.counts[1][0], sum(confusion.counts[1])
    # Two votes, and two rates for each of two classes.
    assert certificate.class_rates()[1].misses.bound == pytest.approx(upper(missed, n, 0.05 / 8), rel=1e-6)
    assert model.verify_certificate(certificate, X, Y) == "arithmetic, model and data"


@pytest.mark.parametrize("estimator", [RBFSVMPool(), DecisionTreeClassifier(max_depth=3)])
@pytest.mark.parametrize("voting", ["majority", "uniform"])
def test_a_vote_without_held_out_rows_is_measured_out_of_bag(voting, estimator):
    features, labels = load_iris(return_X_y=True)
    prior = np.random.default_rng(0).dirichlet(np.ones(20))  # of equal weights, many votes would be tied
    model = small(estimator=estimator, voting=voting, prior=prior, holdout=None).fit(features, labels)
    shares = np.zeros((150, 3))
    for h in np.flatnonzero(model.posterior_):
        outside = np.setdiff1d(np.arange(150), model.subsamples_[h])
        predicted = model.hypotheses_[h].predict(features[outside])
        shares[outside, predicted] += model.posterior_[h]
    # Sums in another order may settle ties otherwise.
    ranked = np.sort(shares, axis=1)
    assert (ranked[:, -1] - ranked[:, -2] > 1e-9).all()
    confusion = model.certificate_.confusion
    assert confusion.points == "out-of-bag"
    assert not confusion.is_certified
    assert confusion.bounds == ()
    expected = confusion_matrix(labels, np.argmax(shares, axis=1))
    np.testing.assert_array_equal(np.array(confusion.counts)[:3, :3], expected)
    assert "Measured, not certified" in str(model.certificate_)
    model.verify_certificate(model.certificate_, features, labels)


def test_the_best_hypothesis_by_class():
    model = small(voting="best", holdout=None).fit(X, Y)
    h = int(np.argmax(model.posterior_))
    outside = np.setdiff1d(np.arange(300), model.subsamples_[h])
    confusion = model.certificate_.confusion
    assert confusion.points == "validation"
    expected = confusion_matrix(Y[outside], model.hypotheses_[h].predict(X[outside]))
    np.testing.assert_array_equal(np.array(confusion.counts)[:2, :2], expected)
    level = 0.05 * model.prior_[h] / 4
    missed, n = confusion.counts[0][1], sum(confusion.counts[0])
    assert model.certificate_.class_rates()[0].misses.bound == pytest.approx(upper(missed, n, level), rel=1e-6)
    model.verify_certificate(model.certificate_, X, Y)


def test_the_randomised_classifier_without_held_out_rows_has_no_matrix():
    assert small(voting="gibbs", holdout=None).fit(X, Y).certificate_.confusion is None


def test_too_many_classes_are_not_tabulated():
    rng = np.random.default_rng(0)
    labels = np.arange(720) % 60
    tree = DecisionTreeClassifier(max_depth=3)
    model = small(estimator=tree, n_hypotheses=3, subsample_size=200).fit(rng.normal(size=(720, 2)), labels)
    assert model.certificate_.confusion is None
    assert len(model.certificate_.label_counts) == 60
    assert "always predicting '0'" in str(model.certificate_)


# ---------------------------------------------------------------------------------------------------
# New points
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [3, 60])
def test_always_predicting_the_commonest_class_errs_on_unknown_labels(n_classes):
    rng = np.random.default_rng(0)
    labels = np.arange(720) % n_classes
    tree = DecisionTreeClassifier(max_depth=2)
    model = small(estimator=tree, n_hypotheses=3, subsample_size=200).fit(rng.normal(size=(720, 2)), labels)
    points = rng.normal(size=(40, 2))
    certificate = model.certify(points, np.repeat([0, 1, n_classes], [20, 10, 10]))
    assert certificate.commonest_class == ("0", 0.5)
    certificate = model.certify(points, np.full(40, n_classes))
    assert certificate.commonest_class[1] == 1
    assert certificate.bound == 1
    forged = replace(model.certificate_, statements=(), label_counts=(0,) * n_classes)
    assert forged.commonest_class is None


def test_new_points_by_class(moons):
    labels = np.where(NEW_Y == 1, "yes", "no").astype(object)
    labels[:9] = "perhaps"
    certificate = moons.certify(NEW_X, labels, delta=0.1)
    predicted = moons.predict(NEW_X)
    assert certificate.delta == 0.1
    assert certificate.confusion.n_unknown == 9
    assert (
        certificate.confusion.errors
        == np.count_nonzero(predicted != labels)
        == certificate.statements[0].figures["errors"]
    )
    counts = {label: np.count_nonzero(labels == label) for label in ("no", "yes")}
    assert certificate.label_counts == (counts["no"], counts["yes"])
    assert certificate.commonest_class == (
        max(counts, key=counts.get),
        pytest.approx(1 - max(counts.values()) / 400, abs=1e-15),
    )
    yes = certificate.class_rates()[1]
    alarms = np.count_nonzero((predicted == "yes") & (labels != "yes"))
    assert (yes.false_alarms.errors, yes.false_alarms.n) == (alarms, np.count_nonzero(predicted == "yes"))
    assert yes.false_alarms.bound == pytest.approx(upper(alarms, yes.false_alarms.n, 0.1 / 4), rel=1e-6)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert "other labels" in str(certificate)


def test_costs_of_new_points():
    model = small(loss=[[0, 1], [5, 0]]).fit(X, Y)
    certificate = model.certify(NEW_X, NEW_Y)
    predicted = model.predict(NEW_X)
    cost = np.mean(np.where(NEW_Y == 1, 5 * (predicted == 0), predicted == 1)) / 5
    assert certificate.statements[0].figures["loss"] == pytest.approx(cost, abs=1e-8)
    assert "mean cost of the vote by expected cost" in certificate.summary()
    assert "of the largest cost, 5" in certificate.summary()
    np.testing.assert_array_equal(np.array(certificate.confusion.counts)[:2, :2], confusion_matrix(NEW_Y, predicted))


# ---------------------------------------------------------------------------------------------------
# Files, and who edits them
# ---------------------------------------------------------------------------------------------------


def edited(certificate, change):
    """A certificate that was changed by somebody who knows how its checksum is made."""
    values = json.loads(certificate.to_json())
    change(values)
    values["checksum"] = checksum({name: value for name, value in values.items() if name != "checksum"})
    return json.dumps(values)


def move_a_point(values):
    counts = values["confusion"]["counts"]
    counts[0][0], counts[1][1] = counts[0][0] + 1, counts[1][1] - 1


def lose_points(values):
    values["confusion"]["counts"][0][0] = 0
    values["confusion"]["bounds"] = [[1.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["confusion"]["counts"][0].__setitem__(0, 9999), r"points of class 'no', of 150 in all"),
        (lose_points, "the number of points in confusion.counts"),
        (lambda values: values["confusion"]["counts"].pop(), "confusion.counts must have 3 rows and columns"),
        (lambda values: values["confusion"]["counts"][0].__setitem__(0, -1), r"confusion.counts\[0\]\[0\] must be"),
        (
            lambda values: values["confusion"]["bounds"][0].__setitem__(0, 0.001),
            r"confusion.bounds\[0\], misses, is stated as 0.001",
        ),
        (
            lambda values: values["confusion"]["bounds"][1].__setitem__(1, 0.0),
            r"confusion.bounds\[1\], false alarms, is stated",
        ),
        (lambda values: values["confusion"]["bounds"].pop(), "confusion.bounds must hold 2 pairs"),
        (lambda values: values["confusion"]["bounds"][0].pop(), "must hold 2 entries"),
        (lambda values: values["confusion"].update(kl_div=0.0), "confusion.kl_div is stated as 0.0"),
        (lambda values: values["confusion"].update(kl_div=None, bounds=[]), "if and only if the points are out-of-bag"),
        (lambda values: values["confusion"].update(points="validation"), "confusion.points must be those"),
        (lambda values: values["confusion"].update(points="all"), "confusion.points must be one of"),
        (lambda values: values.update(labels=["no"]), "label_counts must hold one number"),
        (lambda values: values.update(labels=[1, 2]), r"labels\[0\] must be text"),
    ],
)
def test_edited_matrices_are_refused(moons, change, message):
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(edited(moons.certificate_, change))


def test_a_matrix_that_is_not_the_models_is_refused(moons):
    """Arithmetic cannot tell a matrix from another one with as many errors: the model and the data can."""
    labels = np.where(Y == 1, "yes", "no")
    values = json.loads(moons.certificate_.to_json())
    move_a_point(values)
    counts = np.array(values["confusion"]["counts"])
    other = Confusion.of("held-out", counts, moons.certificate_.confusion.kl_div, 0.05)
    forged = replace(moons.certificate_, confusion=other)
    forged.check()
    with pytest.raises(CertificateError, match="confusion is stated as"):
        moons.verify_certificate(forged)
    for changes in ({"label_counts": (150, 150)}, {"label_counts": (149, 151)}, {"labels": ("maybe", "yes")}):
        name = next(iter(changes))
        if getattr(moons.certificate_, name) != changes[name]:
            with pytest.raises(CertificateError, match=f"{name} is stated as"):
                moons.verify_certificate(replace(moons.certificate_, **changes))
    # A model that agrees with the forged certificate is found out by the data.
    fitted = moons.fitted_votes_
    others = [forged if k == fitted.winner else vote.certificate for k, vote in enumerate(fitted.votes)]
    accomplice = PACBayesClassifier.from_fitted_votes(fitted.with_certificates(others))
    assert accomplice.verify_certificate(forged) == "arithmetic and model"
    with pytest.raises(CertificateError, match="confusion is stated as"):
        accomplice.verify_certificate(forged, X, labels)


# ---------------------------------------------------------------------------------------------------
# In words
# ---------------------------------------------------------------------------------------------------


def test_the_bound_beside_the_commonest_class(moons):
    certificate = moons.certificate_
    label, error = certificate.commonest_class
    assert error == pytest.approx(1 - max(certificate.label_counts) / 300)
    bound, measured, constant = certificate.answers()
    assert bound.title == "the majority vote errs on at most"
    assert measured.remark.startswith("measured: ")
    assert constant.title == f"always predicting {label!r} errs on"
    assert certificate.compare_with_commonest() is None
    assert re.search(f"always predicting {label!r} errs on +{error:.2%} +measured", str(certificate).splitlines()[3])


def test_a_bound_that_is_not_below_the_commonest_class_is_said():
    """One of 60 is positive: a bound of 2.1% reads well, and is worse than always saying no."""
    certificate, _ = certify([0.02], 300)
    rare = replace(with_test(certificate, 2, 300), labels=("no", "yes"), label_counts=(295, 5))
    assert rare.bound < 0.03
    assert "always predicting 'no', which errs on 1.67% (measured)" in rare.compare_with_commonest()
    assert rare.compare_with_commonest() in str(rare)
    assert rare.compare_with_commonest().replace("'", "&#x27;") in rare._repr_html_()
    common = replace(rare, label_counts=(150, 150))
    assert common.compare_with_commonest() is None


def test_labels_are_escaped_and_cut():
    labels = np.where(Y == 1, "<b>\x1b[2K", "x" * 5000)
    certificate = small().fit(X, labels).certificate_
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert "\x1b" not in str(certificate)
    assert "<b>" not in certificate._repr_html_()
    assert max(map(len, str(certificate).splitlines())) < 400


# ---------------------------------------------------------------------------------------------------
# The promise, on whole fits
# ---------------------------------------------------------------------------------------------------

# Probabilities of cells, and of three classes in each.
CELLS = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
CLASSES = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.0, 0.5, 0.5]])


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"holdout": (0.5, 0.35)}, {"voting": "best"}, {"voting": "gibbs"}], ids=str)
def test_rates_of_fits_hold_jointly_as_often_as_stated(parameters):
    rng = np.random.default_rng(0)
    joint = CELLS[:, np.newaxis] * CLASSES
    tree = DecisionTreeClassifier(max_depth=2)
    violations, repetitions, delta = 0, 200, 0.3
    for seed in range(repetitions):
        drawn = rng.choice(15, 80, p=joint.ravel())
        points, labels = (drawn // 3)[:, np.newaxis].astype(float), drawn % 3
        settings = {"n_hypotheses": 6, "subsample_size": [8, 16], "delta": delta, "random_state": seed}
        model = PACBayesClassifier(tree, **settings, **parameters).fit(points, labels)
        # Shares of predictions by cell: the vote's, or those of the randomised classifier.
        votes = model.predict_hypotheses(np.arange(5.0)[:, np.newaxis])
        shares = np.stack([model.posterior_ @ (votes == c) for c in range(3)], axis=1)
        if model.voting != "gibbs":
            shares = np.eye(3)[model.predict(np.arange(5.0)[:, np.newaxis])]
        table = joint.T @ shares
        failed = False
        for c, rates in enumerate(model.certificate_.class_rates()):
            failed |= rates.misses.bound < 1 - table[c, c] / table[c].sum() - 1e-12
            if table[:, c].sum() > 0:
                failed |= rates.false_alarms.bound < 1 - table[c, c] / table[:, c].sum() - 1e-12
        violations += failed
    assert violations <= binom.ppf(0.999, repetitions, delta)
    assert violations > 0  # not so loose that nothing is tested
