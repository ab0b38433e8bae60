"""Votes of many classes: memory is bounded by blocks, whatever the number of rows and classes."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier

from pacbayes import PACBayesClassifier
from pacbayes import _parallel as parallel
from pacbayes.fitting import _evaluation
from pacbayes.pools import HypothesisList, join_families
from pacbayes.rows import ArraySource
from pacbayes.sampling import RandomSubsamples
from pacbayes.tasks import tally_out_of_bag
from pacbayes.tasks._voting import vote_out_of_bag

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
