"""Fitting as a function: what it is given stays as it is, and a task decides what is predicted and how it is judged."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier, bounds
from pacbayes._fingerprint import digest
from pacbayes.exceptions import HypothesisError
from pacbayes.fitting import FitSettings, MemoryRows, Workers, fit_votes
from pacbayes.pools import EstimatorPool, RBFSVMPool
from pacbayes.tasks import Classification

X, LABELS = make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)
SETTINGS = FitSettings(n_hypotheses=20, subsample_size=[10, 40], random_state=0)


def open_rows(pool):
    return MemoryRows.of(X, pool, Workers())


def fit(pool, settings=SETTINGS, task=None):
    learned, target = Classification.learn(LABELS)
    return fit_votes(open_rows(pool), target, pool, task or learned, settings)


@pytest.mark.parametrize("pool", [RBFSVMPool(), EstimatorPool(DecisionTreeClassifier(max_depth=3))])
def test_nothing_that_is_given_changes(pool):
    rows, (task, target) = open_rows(pool), Classification.learn(LABELS)
    given = [rows.sample.X, target, pool, task.classes, vars(SETTINGS)]
    before, state = digest(given), copy.deepcopy(vars(pool))
    first, second = (fit_votes(rows, target, pool, task, SETTINGS) for _ in range(2))
    assert digest(given) == before
    assert vars(pool).keys() == state.keys()
    assert rows.sample.classes.size == 0  # those of the fit are another sample
    for one, other in zip(first.votes, second.votes, strict=True):
        assert one.certificate == other.certificate
        np.testing.assert_array_equal(one.posterior, other.posterior)


def test_a_fit_is_continued_on_its_own_sample_only():
    pool, settings = RBFSVMPool(), replace(SETTINGS, racing=False)
    (task, target), first = Classification.learn(LABELS), fit(pool, settings)
    more = replace(settings, n_hypotheses=30)
    continued = fit_votes(open_rows(pool), target.astype(np.uint8), pool, task, more, first)
    np.testing.assert_array_equal(continued.best.losses, fit(pool, more).best.losses)
    with pytest.raises(ValueError, match="but y differ"):
        fit_votes(open_rows(pool), np.roll(target, 1), pool, task, more, first)
    rows = open_rows(pool)
    with pytest.raises(ValueError, match="but X differ"):
        fit_votes(rows.with_sample(replace(rows.sample, X=X * (1 + 1e-12))), target, pool, task, more, first)


def test_the_pool_is_known_to_the_result():
    fitted = fit(RBFSVMPool(C=10.0))
    assert fitted.pool.C == 10.0
    assert not any(code.startswith("left-out") for code in fitted.best.certificate.assumption_codes)


@pytest.mark.parametrize("racing", [True, False])
def test_a_pool_that_trains_too_few_is_refused(racing):
    class Lazy(EstimatorPool):
        def train(self, sample, subsamples, hypotheses, entropy, shared):
            return super().train(sample, subsamples, hypotheses[:1], entropy, shared)

    with pytest.raises(HypothesisError, match=r"Lazy trained [0-9]+ of 20 hypotheses"):
        fit(Lazy(DecisionTreeClassifier(max_depth=3)), replace(SETTINGS, racing=racing))


def test_an_estimator_only_shows_what_the_function_returns():
    fitted = fit(RBFSVMPool())
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, subsample_size=[10, 40], random_state=0).fit(X, LABELS)
    assert model.certificate_.statements == fitted.best.certificate.statements
    again = PACBayesClassifier.from_fitted_votes(model.fitted_votes_)
    assert str(again.get_params()) == str(model.get_params())
    assert again.fitted_votes_ is model.fitted_votes_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.verify_certificate(model.certificate_, X, LABELS) == "arithmetic, model and data"


def test_what_a_fit_came_to_is_a_value():
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, random_state=0).fit(X, LABELS)
    with pytest.raises(FrozenInstanceError):
        model.fitted_votes_.winner = 0
    with pytest.raises(FrozenInstanceError):
        model.votes_[0].posterior = np.ones(10) / 10
    for name in ("certificate_", "posterior_", "losses_", "hypotheses_", "votes_", "classes_", "lambda_"):
        with pytest.raises(AttributeError):
            setattr(model, name, None)
    state = set(vars(model.fitted_votes_))
    model.predict(X)
    model.certify(X + 0.01, LABELS)
    model.verify_certificate(model.certificate_, X, LABELS)
    assert set(vars(model.fitted_votes_)) == state
    unfitted = PACBayesClassifier()
    assert not any(hasattr(unfitted, name) for name in ("certificate_", "votes_", "posterior_", "lambda_"))


def test_settings_of_a_fit_are_copies():
    costs, pool = [[0, 1, 1], [1, 0, 1], [1, 1, 0.5]], RBFSVMPool(C=[1.0, 10.0])
    model = PACBayesClassifier(pool, loss=costs, n_hypotheses=10, random_state=0).fit(X, LABELS)
    costs[0][1] = 0.0
    pool.C.append(100.0)
    settings = model.fitted_votes_.settings
    assert settings.loss[0][1] == 1
    assert settings.estimator.C == [1.0, 10.0]


def test_an_assumption_is_stated_by_all_votes_and_files_keep_it():
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, random_state=0).fit(X, LABELS)
    before = model.certificate_
    assert model.add_assumption("the rows were shuffled") is model
    assert [vote.certificate.assumptions[-1] for vote in model.votes_] == ["the rows were shuffled"] * 2
    assert model.certificate_.bound == before.bound
    assert model.verify_certificate(model.certificate_) == "arithmetic and model"
    assert pickle.loads(pickle.dumps(model)).certificate_ == model.certificate_


@dataclass(frozen=True, eq=False)
class Ordinal(Classification):
    """Classes in an order, of which the weighted median of the votes is predicted."""

    def predict(self, hypotheses, weights, X, drawn=None):
        votes, uncertain = hypotheses.votes_and_uncertain(X)
        order = np.argsort(votes, axis=0, kind="stable")
        share = np.cumsum(weights[order], axis=0)
        middle = np.argmax(share >= 0.5, axis=0)
        return np.take_along_axis(votes, np.take_along_axis(order, middle[np.newaxis], 0), 0)[0], uncertain.any(axis=0)


def test_a_task_that_fitting_does_not_know():
    pool, (known, target) = EstimatorPool(DecisionTreeClassifier(max_depth=3)), Classification.learn(LABELS)
    fitted = fit(pool, replace(SETTINGS, holdout=0.5, voting="uniform"), Ordinal(known.classes))
    vote = fitted.best
    held_out = vote.split.held_out
    errors = np.count_nonzero(vote.predict(X[held_out]) != LABELS[held_out])
    assert vote.certificate.bound == pytest.approx(bounds.clopper_pearson(errors, held_out.size, 0.05), rel=1e-12)
    majority = fit(pool, replace(SETTINGS, holdout=0.5, voting="uniform")).best
    np.testing.assert_array_equal(vote.posterior, majority.posterior)
    assert (vote.predict(X) != majority.predict(X)).any()
    assert target.dtype == np.intp
