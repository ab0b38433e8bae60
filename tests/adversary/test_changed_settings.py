"""Settings that are changed after a fit: predictions stay what was certified, and nothing false is certified."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertificateError, CertifiedGridSearch, PACBayesClassifier, certify
from pacbayes.certificate import with_test
from pacbayes.io import load_model, save_model
from pacbayes.pools import PrefitPool, RBFSVMPool

X, Y = make_moons(300, noise=0.15, random_state=0)
NEW_X, NEW_Y = make_moons(200, noise=0.15, random_state=1)


def small(**parameters):
    settings = {"n_hypotheses": 12, "subsample_size": [8, 30], "random_state": 0}
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), **settings, **parameters})


def answers(model):
    """What a fitted model says about new points: either an answer, or the error that refuses it."""
    results = {}
    for name, ask in {
        "predict": lambda: model.predict(NEW_X).tolist(),
        "predict_proba": lambda: model.predict_proba(NEW_X).tolist(),
        "predict_batches": lambda: [part.tolist() for part in model.predict_batches(NEW_X)],
        "predict_hypotheses": lambda: model.predict_hypotheses(NEW_X).tolist(),
        "count_errors": lambda: model.count_errors(NEW_X, NEW_Y),
        "count_seen": lambda: model.count_seen(X[:50]),
        "certify": lambda: model.certify(NEW_X, NEW_Y),
        "certify unlabelled": lambda: model.certify(NEW_X),
        "verify": lambda: model.verify_certificate(model.certificate_),
        "verify with data": lambda: model.verify_certificate(model.certificate_, X, Y),
    }.items():
        try:
            results[name] = ask()
        except ValueError as error:
            results[name] = error
    return results


CERTIFYING = {"certify", "certify unlabelled", "verify", "verify with data"}

# What is about the certificate: refused by name. What is for the next fit, or how to compute: no effect.
REFUSED = {
    "estimator": lambda model: model.set_params(estimator=DecisionTreeClassifier()),
    "estimator__C": lambda model: model.set_params(estimator__C=3.0),
    "estimator in place": lambda model: setattr(model.estimator, "scaler", None),
    "estimator list in place": lambda model: model.estimator.C.append(7.0),
    "delta": lambda model: model.set_params(delta=0.3),
    "objective": lambda model: model.set_params(objective="kl"),
    "voting": lambda model: model.set_params(voting="gibbs"),
    "holdout": lambda model: model.set_params(holdout=0.4),
    "prior": lambda model: model.set_params(prior=None),
    "prior in place": lambda model: model.prior.__setitem__(slice(None), np.eye(12)[0]),
    "estimator by a number": lambda model: model.set_params(estimator=5),
    "loss": lambda model: model.set_params(loss=[[0, 1], [0.5, 0]]),
    "racing": lambda model: model.set_params(racing=False),
}
WITHOUT_EFFECT = {
    "n_hypotheses": lambda model: model.set_params(n_hypotheses=7),
    "subsample_size": lambda model: model.set_params(subsample_size=50),
    "subsamples": lambda model: model.set_params(subsamples=[[0, 1]]),
    "random_state": lambda model: model.set_params(random_state=99),
    "checkpoint": lambda model: model.set_params(checkpoint="nowhere"),
    "n_jobs": lambda model: model.set_params(n_jobs=2),
    "verbose": lambda model: model.set_params(verbose=False),
}


@pytest.fixture(scope="module")
def fitted():
    pool = RBFSVMPool(C=[10.0, 100.0])
    return small(estimator=pool, holdout=0.5, prior=np.full(12, 1 / 12)).fit(X, Y)


@pytest.fixture(scope="module")
def before(fitted):
    found = answers(fitted)
    assert not any(isinstance(answer, Exception) for answer in found.values())
    return found


def test_every_setting_is_changed_below(fitted):
    names = {name.split()[0].split("__")[0] for name in (*REFUSED, *WITHOUT_EFFECT)}
    assert names == set(fitted.get_params(deep=False))


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_certified_while_a_setting_of_the_certificate_differs(fitted, before, name):
    model = copy.deepcopy(fitted)
    REFUSED[name](model)
    for question, answer in answers(model).items():
        if question in CERTIFYING:
            assert isinstance(answer, CertificateError), question
            assert f"changed after the fit: {name.split()[0].split('__')[0]}." in str(answer)
        else:
            assert answer == before[question], question


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_other_settings_change_no_answer(fitted, before, name):
    model = copy.deepcopy(fitted)
    WITHOUT_EFFECT[name](model)
    assert answers(model) == before


@pytest.mark.parametrize(("name", "value"), [("n_jobs", "two"), ("n_jobs", 0), ("verbose", "yes")])
def test_a_wrong_way_to_compute_is_refused_by_name(fitted, name, value):
    model = copy.deepcopy(fitted).set_params(**{name: value})
    for question, answer in answers(model).items():
        if question != "verify":
            assert f"{name} must be" in str(answer), question


def test_a_setting_that_is_set_back_is_no_change(fitted, before):
    model = copy.deepcopy(fitted).set_params(delta=0.3, loss="absolute").set_params(delta=0.05, loss="zero_one")
    assert answers(model) == before


# ---------------------------------------------------------------------------------------------------
# Losses
# ---------------------------------------------------------------------------------------------------


def costs_of(n):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


@pytest.fixture(scope="module")
def many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 60, 2400)
    points = np.column_stack([y + rng.normal(scale=2.0, size=y.size), rng.normal(size=y.size)])
    model = PACBayesClassifier(DecisionTreeClassifier(max_depth=6), n_hypotheses=5, subsample_size=300, random_state=0)
    return model.fit(points[:1200], y[:1200]), points[1200:], y[1200:]


def test_costs_are_not_stated_as_numbers_of_errors(many_classes):
    model, points, labels = many_classes
    honest = model.certify(points, labels).bound
    assert honest > 0.5
    changed = copy.deepcopy(model).set_params(loss=costs_of(60))
    with pytest.raises(CertificateError, match="changed after the fit: loss"):
        changed.certify(points, labels)
    assert changed.set_params(loss="zero_one").certify(points, labels).bound == honest


def test_a_cost_matrix_that_its_owner_changes():
    costs = np.array([[0.0, 1.0], [0.5, 0.0]])
    model = small(loss=costs).fit(X, Y)
    statement = model.certify(NEW_X, NEW_Y).statements[0]
    costs *= [[1.0, 0.01], [1.0, 1.0]]
    with pytest.raises(CertificateError, match="changed after the fit: loss"):
        model.certify(NEW_X, NEW_Y)
    with pytest.raises(CertificateError, match="changed after the fit: loss"):
        model.verify_certificate(model.certificate_)
    costs[0, 1] = 1.0
    assert model.certify(NEW_X, NEW_Y).statements[0] == statement


def test_a_function_whose_costs_are_changed():
    costs = np.array([[0.0, 1.0], [0.5, 0.0]])

    def loss(true, predicted):
        return costs[true, predicted]

    model = small(loss=loss).fit(X, Y)
    model.certify(NEW_X, NEW_Y)
    costs /= 10
    with pytest.raises(CertificateError, match="changed after the fit: loss"):
        model.certify(NEW_X, NEW_Y)


def test_unlabelled_points_after_going_from_costs_to_errors():
    model = small(loss=[[0, 1], [0.01, 0]]).fit(X, Y).set_params(loss="zero_one")
    with pytest.raises(CertificateError, match="changed after the fit: loss"):
        model.certify(NEW_X)


@pytest.mark.parametrize("total", [12.5, -1, 201, np.nan])
def test_a_total_that_is_no_number_of_errors_is_refused(total):
    with pytest.raises(ValueError, match="total must be"):
        with_test(certify([0.1, 0.2], 100)[0], total, 200)


def test_a_file_keeps_what_was_fitted(tmp_path):
    costs = [[0.0, 1.0], [0.5, 0.0]]
    model = small(loss=costs, estimator=RBFSVMPool(C=[10.0])).fit(X, Y)
    certificate = model.certify(NEW_X, NEW_Y)
    model.set_params(loss="zero_one", estimator__C=1.0, voting="best", n_jobs=2)
    save_model(model, tmp_path / "model.skops")
    for again in (load_model(tmp_path / "model.skops")[0], pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(NEW_X), model.predict(NEW_X))
    again, _ = load_model(tmp_path / "model.skops")
    assert (again.loss, again.estimator.C) == (costs, [10.0])
    assert again.certify(NEW_X, NEW_Y) == certificate
    assert again.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"
    with pytest.raises(CertificateError, match=r"changed after the fit: estimator, voting, loss\."):
        pickle.loads(pickle.dumps(model)).certify(NEW_X, NEW_Y)


# ---------------------------------------------------------------------------------------------------
# Models of others
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_file", [False, True])
def test_classifiers_that_their_owner_trains_again_do_not_change_the_ensemble(from_file, tmp_path):
    trees = [DecisionTreeClassifier(max_depth=depth).fit(X[:150], Y[:150]) for depth in (2, 4, 6)]
    model = PACBayesClassifier.from_prefit(trees, X[150:], Y[150:])
    if from_file:
        save_model(model, tmp_path / "model.skops")
        model, _ = load_model(tmp_path / "model.skops")
        trees = model.estimator.estimators
    predicted = model.predict(NEW_X)
    shares = model.predict_proba(NEW_X)
    for tree in trees:
        tree.fit(X[:150], 1 - Y[:150])
    np.testing.assert_array_equal(model.predict(NEW_X), predicted)
    np.testing.assert_array_equal(model.predict_proba(NEW_X), shares)
    assert np.mean(model.predict(NEW_X) != NEW_Y) <= model.certificate_.bound
    with pytest.raises(CertificateError, match="changed after the fit: estimator"):
        model.certify(NEW_X, NEW_Y)


def test_what_cannot_be_copied_is_refused_by_name():
    class Stubborn(DecisionTreeClassifier):
        def __deepcopy__(self, memo):
            raise TypeError("cannot pickle '_thread.lock' object")

    pool = PrefitPool([Stubborn(max_depth=2).fit(X[:150], Y[:150])])
    with pytest.raises(ValueError, match=r"estimator must be something that can be copied.*_thread\.lock"):
        PACBayesClassifier(pool, holdout=None).fit(X[150:], Y[150:])


# ---------------------------------------------------------------------------------------------------
# Every certificate is checked before it is handed out
# ---------------------------------------------------------------------------------------------------


def from_fit(**parameters):
    return lambda: [vote.certificate for vote in small(**parameters).fit(X, Y).votes_]


def from_new_points(*labels):
    return lambda: [small(holdout=0.5).fit(X, Y).certify(NEW_X, *labels)]


def from_search():
    search = CertifiedGridSearch(small(), {"estimator__C": [1.0, 10.0]})
    return [search.set_params(classifier__estimator=RBFSVMPool()).fit(X, Y).certificate_]


@pytest.mark.parametrize(
    "make",
    [
        from_fit(),
        from_fit(holdout=None),
        from_fit(holdout=None, voting="gibbs"),
        from_fit(holdout=None, voting="best"),
        from_fit(loss=[[0, 1], [0.5, 0]]),
        from_new_points(NEW_Y),
        from_new_points(),
        from_search,
        lambda: [certify([0.1, 0.2], 100)[0]],
        lambda: [with_test(certify([0.1, 0.2], 100)[0], 3, 200)],
        lambda: [certify([0.1, 0.2], 100, assumptions=["the moon is round"], strict=False)[0]],
    ],
)
def test_no_certificate_is_handed_out_unchecked(make, monkeypatch):
    checked, check = [], Certificate.check

    def record(certificate):
        check(certificate)
        checked.append(certificate)

    monkeypatch.setattr(Certificate, "check", record)
    certificates = make()
    assert certificates
    for certificate in certificates:
        assert any(one is certificate for one in checked)
        assert Certificate.from_json(certificate.to_json()) == certificate
