"""Votes of many classes, in memory that is bounded by blocks, whatever the number of rows. Votes by expected cost."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes import _parallel as parallel
from pacbayes._losses import resolve_loss
from pacbayes.exceptions import CertificateError
from pacbayes.fitting import _evaluation
from pacbayes.io import load_model, save_model
from pacbayes.pools import EstimatorPool, HypothesisList, join_families
from pacbayes.rows import ArraySource
from pacbayes.sampling import RandomSubsamples
from pacbayes.tasks import tally_out_of_bag
from pacbayes.tasks._voting import vote, vote_out_of_bag

CLASSES = np.arange(10_000)


class Floor(ClassifierMixin, BaseEstimator):
    """Predict a number, rounded down."""

    def predict(self, X):
        return X[:, 0].astype(int)


def test_votes_out_of_bag_are_those_of_parts():
    rng = np.random.default_rng(0)
    points, rows = rng.uniform(0, 50, size=(500, 1)), np.arange(0, 1000, 2)
    hypotheses, weights = HypothesisList([Floor()] * 6, np.arange(50)), rng.dirichlet(np.ones(6))
    subsamples = RandomSubsamples(1000, [300], 6, 0)
    whole = vote_out_of_bag(hypotheses, weights, subsamples, points, rows)
    parts = [
        vote_out_of_bag(hypotheses, weights, subsamples, points[i : i + 64], rows[i : i + 64])
        for i in range(0, 500, 64)
    ]
    for found, expected in zip(zip(*parts, strict=True), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), expected)


class Fixed(ClassifierMixin, BaseEstimator):
    """Give probabilities that depend on the point and on the hypothesis."""

    classes_ = np.arange(3)

    def __init__(self, shift):
        self.shift = shift

    def predict_proba(self, X):
        weights = np.exp(np.sin(X[:, :1] + self.shift + self.classes_))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("n_labels", [0, 3, 6])
def test_weight_of_voters_that_were_not_trained_on_a_row(n_labels):
    """As a loop over rows and voters, some of which vote by labels, and others by probabilities."""
    rng = np.random.default_rng(0)
    points, rows, weights = rng.uniform(0, 50, size=(100, 1)), np.arange(0, 200, 2), rng.dirichlet(np.ones(6))
    members = [Fixed(float(h)) for h in range(6)]
    parts = {
        "labels": HypothesisList(members[:n_labels], np.arange(3)),
        "shares": HypothesisList(members[n_labels:], np.arange(3), "probabilities"),
    }
    hypotheses = join_families({name: part for name, part in parts.items() if len(part)})
    subsamples = RandomSubsamples(200, [60], 6, 0)
    expected = np.zeros((100, 3))
    for i, row in enumerate(rows):
        for h in range(6):
            if row not in subsamples[h]:
                shares = members[h].predict_proba(points[i : i + 1])[0]
                expected[i] += weights[h] * (np.eye(3)[shares.argmax()] if h < n_labels else shares)
    np.testing.assert_allclose(tally_out_of_bag(hypotheses, weights, subsamples, points, rows), expected, atol=1e-12)
    assert (expected.sum(axis=1) < 1).any()


class Recording(KNeighborsClassifier):
    """Remember how many rows were predicted at a time, by label or by probability."""

    rows: ClassVar[list[int]] = []

    def predict(self, X):
        self.rows.append(len(X))
        return super().predict(X)

    def predict_proba(self, X):
        self.rows.append(len(X))
        return super().predict_proba(X)


@pytest.fixture
def few_cells(monkeypatch):
    """Blocks of at most 40 rows x 30 classes, and shares of the vote of at most 100 x 30 at a time."""
    monkeypatch.setattr(parallel, "_MOST_ROWS", 40)
    monkeypatch.setattr(_evaluation, "_MOST_ANSWERS", 3000)
    monkeypatch.setattr(Recording, "rows", [])


@pytest.mark.parametrize("loss", ["zero_one", "brier"])
@pytest.mark.parametrize("streamed", [False, True])
def test_no_block_has_more_rows_than_its_classes_allow(few_cells, monkeypatch, streamed, loss):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(30), 20)
    X = np.column_stack([y + rng.normal(scale=0.3, size=y.size), rng.normal(size=y.size)])
    settings = {"n_hypotheses": 3, "subsample_size": 200, "racing": False, "random_state": 0}
    if loss == "brier":
        settings["holdout"] = None
    read = ArraySource if streamed else lambda X, y=None: X

    def fit():
        data = (ArraySource(X, y),) if streamed else (X, y)
        return PACBayesClassifier(Recording(1), loss=loss, **settings).fit(*data)

    def ask(model):
        new = read(X + 0.01)
        found = [model.predict(new), model.predict_proba(new), *model.predict_batches(new, method="predict_proba")]
        if loss == "zero_one":
            found.append(model.certify(new).bound)
        return np.concatenate([np.ravel(one) for one in found])

    model = fit()
    bounded = ask(model)
    assert 0 < max(Recording.rows) <= 40
    assert sum(Recording.rows) > 600
    monkeypatch.undo()
    whole = fit()
    assert whole.certificate_ == model.certificate_
    np.testing.assert_array_equal(ask(whole), bounded)
    assert max(Recording.rows) > 40


# ---------------------------------------------------------------------------------------------------
# Votes by expected cost
# ---------------------------------------------------------------------------------------------------


class Sure(ClassifierMixin, BaseEstimator):
    """Give fixed probabilities to rows, which hold their own numbers."""

    def __init__(self, table):
        self.table = table
        self.classes_ = np.arange(table.shape[1])

    def predict_proba(self, X):
        return self.table[X[:, 0].astype(int)]

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("vote_by", ["labels", "probabilities"])
@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_votes_by_expected_cost(vote_by, n_classes):
    rng = np.random.default_rng(n_classes)
    tables = rng.dirichlet(np.full(n_classes, 0.3), size=(30, 400))
    hypotheses = HypothesisList([Sure(table) for table in tables], np.arange(n_classes), vote_by=vote_by)
    weights = rng.dirichlet(np.full(30, 0.4))
    points = np.arange(400.0)[:, np.newaxis]
    costs = rng.random((n_classes, n_classes)) ** 2
    np.fill_diagonal(costs, 0.0)
    costs /= costs.max()
    predicted, uncertain = vote(hypotheses, weights, points, costs)
    answers = tables if vote_by == "probabilities" else np.eye(n_classes)[tables.argmax(axis=2)]
    expected = np.einsum("h,hnk->nk", weights, answers) @ costs
    assert np.array_equal(predicted, expected.argmin(axis=1))
    assert not uncertain.any()
    # A row by itself, and in any company.
    alone = [vote(hypotheses, weights, points[i : i + 1], costs)[0][0] for i in range(0, 400, 23)]
    assert alone == predicted[::23].tolist()
    plain = vote(hypotheses, weights, points)[0]
    assert np.mean(plain != predicted) > 0.05
    np.testing.assert_array_equal(vote(hypotheses, weights, points, 1 - np.eye(n_classes))[0], plain)


def test_expected_costs_within_rounding_count_as_the_largest_cost():
    shares = np.array([[5 / 6, 1 / 6], [5 / 6 - 1e-3, 1 / 6 + 1e-3], [0.5, 0.5]], dtype=np.float32)
    hypotheses = HypothesisList([Sure(shares)], np.arange(2), vote_by="probabilities")
    loss = resolve_loss([[0, 1], [5, 0]], np.arange(2))
    points = np.arange(3.0)[:, np.newaxis]
    predicted, uncertain = vote(hypotheses, np.ones(1), points, loss.costs)
    # With one share in six, both predictions cost the same: in single precision, who knows.
    assert uncertain.tolist() == [True, False, False]
    assert predicted[1:].tolist() == [1, 1]
    assert loss.total_with_uncertain(np.array([0, 1, 0]), predicted, uncertain) == pytest.approx(1 + 0 + 0.2)


def test_costs_decide_for_votes_that_are_tested_alone(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 1.2).astype(int)
    settings = {"n_hypotheses": 12, "subsample_size": 60, "random_state": 0, "loss": [[0, 1], [6, 0]]}
    tree = DecisionTreeClassifier(max_depth=2)
    model = PACBayesClassifier(EstimatorPool(tree, vote_by="probabilities"), **settings).fit(X, y)
    shares = model.predict_shares(X)
    by_cost = (shares[:, 1] * 6 > shares[:, 0]).astype(int)
    assert np.array_equal(model.predict(X), by_cost)
    assert np.any(by_cost != shares.argmax(axis=1))
    assert "expected-costs" in model.certificate_.assumption_codes
    # What is proved, and what is found again with the sample, is about this predictor.
    vote = model.votes_[model.fitted_votes_.winner]
    tested, truth = by_cost[vote.split.held_out], y[vote.split.held_out]
    lost = np.where(truth == 1, (tested == 0).astype(float), (tested == 1) / 6)
    assert model.certificate_.statements[0].figures["loss"] == pytest.approx(lost.mean(), abs=1e-8)
    assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"
    save_model(model, tmp_path / "model.skops")
    loaded, _ = load_model(tmp_path / "model.skops")
    assert np.array_equal(loaded.predict(X), by_cost)
    assert loaded.verify_certificate(model.certificate_) == "arithmetic and model"
    # Other costs make another predictor.
    task = replace(loaded.fitted_votes_.task, costs=np.array([[0.0, 1.0], [1.0, 0.0]]))
    loaded.fitted_votes_ = replace(loaded.fitted_votes_, task=task)
    with pytest.raises(CertificateError, match="settings of the classifier are not those"):
        loaded.verify_certificate(model.certificate_)
    # Bounds that rest on single hypotheses are about their own labels.
    for other in ({"voting": "best"}, {"voting": "gibbs"}, {"holdout": None}):
        fitted = PACBayesClassifier(tree, **settings, **other).fit(X, y)
        assert fitted.fitted_votes_.task.costs is None
        assert "expected-costs" not in fitted.certificate_.assumption_codes
