"""Rows that are held out for the certificate, votes that compete, and new points."""

import re

import numpy as np
import pandas as pd
import pytest
from binomial_oracle import binomial_upper
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacbayes import Certificate, CertificateError, CertifiedGridSearch, PACBayesClassifier
from pacbayes.certificate import FIT_ASSUMPTIONS, Event
from pacbayes.pools import RBFSVMPool, make_union
from pacbayes.sampling import Partition, split_holdouts

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW_X, NEW_Y = make_moons(500, noise=0.25, random_state=1)


def small(**parameters):
    return PACBayesClassifier(
        **{"estimator": RBFSVMPool(), "n_hypotheses": 20, "subsample_size": [8, 30], "random_state": 0, **parameters}
    )


# ---------------------------------------------------------------------------------------------------
# Held-out rows
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["majority", "best", "uniform"])
@pytest.mark.parametrize("estimator", [RBFSVMPool(), DecisionTreeClassifier(max_depth=3)])
def test_the_bound_is_that_of_a_test_set(voting, estimator):
    model = small(holdout=0.4, voting=voting, estimator=estimator).fit(X, Y)
    (vote,) = model.votes_
    assert vote.split.held_out.size == 120 == vote.n_held_out
    np.testing.assert_array_equal(np.union1d(vote.split.rows, vote.split.held_out), np.arange(300))
    errors = np.count_nonzero(model.predict(X[vote.split.held_out]) != Y[vote.split.held_out])
    assert model.certificate_.bound == pytest.approx(binomial_upper(errors, 120, 0.05), rel=1e-9)
    assert model.certificate_.statements[0].event == Event.TEST_SET


def test_validation_losses_are_of_the_other_rows():
    model = small(holdout=0.4).fit(X, Y)
    rows = model.votes_[0].split.rows
    for h in range(20):
        rest = np.delete(rows, model.subsamples_[h])
        assert model.losses_[h] == np.mean(model.hypotheses_[h].predict(X[rest]) != Y[rest])


def test_of_several_votes_the_smallest_bound_predicts():
    model = small(holdout=(0.5, 0.35, 0.2)).fit(X, Y)
    bounds = [vote.bound for vote in model.votes_]
    assert model.certificate_.bound == min(bounds)
    assert model.certificate_.n_votes == 3
    winner = model.votes_[bounds.index(min(bounds))]
    np.testing.assert_array_equal(model.predict(NEW_X), winner.predict(NEW_X))
    for vote in model.votes_:
        held_out = vote.split.held_out
        errors = np.count_nonzero(vote.predict(X[held_out]) != Y[held_out])
        assert vote.bound == pytest.approx(binomial_upper(errors, held_out.size, 0.05 / 3), rel=1e-9)
    assert [vote.n_held_out for vote in model.votes_] == [150, 105, 60]


@pytest.mark.parametrize("holdout", [0.3, (0.5, 0.35)])
def test_held_out_rows_shape_nothing_but_the_test(holdout):
    """Replace every held-out row: hypotheses, losses and weights stay the same to the bit."""
    model = small(holdout=holdout).fit(X, Y)
    rng = np.random.default_rng(0)
    for k, vote in enumerate(model.votes_):
        changed_X, changed_Y = X.copy(), Y.copy()
        held_out = vote.split.held_out
        changed_X[held_out] = rng.normal(size=(held_out.size, 2)) * 100
        changed_Y[held_out] = rng.integers(0, 2, held_out.size)
        changed = small(holdout=holdout).fit(changed_X, changed_Y).votes_[k]
        np.testing.assert_array_equal(changed.posterior, vote.posterior)
        np.testing.assert_array_equal(changed.losses, vote.losses)
        np.testing.assert_array_equal(changed.predict(NEW_X), vote.predict(NEW_X))
        assert changed.bound != vote.bound


def test_rows_are_drawn_without_looking():
    one = split_holdouts((0.5, 0.35), 300, 7)
    np.testing.assert_array_equal(one[1].held_out, split_holdouts((0.5, 0.35), 300, 7)[1].held_out)
    assert len({split.entropy for split in one}) == 2
    assert not np.array_equal(one[0].held_out, split_holdouts(0.5, 300, 8)[0].held_out)
    # Each row is as likely as any other.
    counts = sum(np.bincount(split_holdouts(0.5, 40, seed)[0].held_out, minlength=40) for seed in range(400))
    assert np.abs(counts - 200).max() < 5 * np.sqrt(400) / 2


@pytest.mark.parametrize(("n", "sizes"), [(300, [100, 100, 100]), (440, [220, 110, 110]), (5, [1, 1, 1])])
def test_by_default_the_votes_of_families_hold_out_parts_that_have_no_row_in_common(n, sizes):
    drawn = split_holdouts(make_union().default_holdout(n), n, 7)
    assert [split.held_out.size for split in drawn] == sizes
    assert np.unique(np.concatenate([split.held_out for split in drawn])).size == sum(sizes)
    assert all(np.array_equal(np.setdiff1d(np.arange(n), split.held_out), split.rows) for split in drawn)


def test_by_default_the_votes_of_families_are_tested():
    model = PACBayesClassifier(random_state=0).fit(X, Y)
    assert [vote.n_held_out for vote in model.votes_] == [100, 100, 100]
    assert f"100 rows held out, bound {model.votes_[0].bound:.4f}" in repr(model.votes_[0])
    assert "holdout-splitter" not in model.certificate_.assumption_codes
    assert model.certificate_.bound < PACBayesClassifier(random_state=0, holdout=None).fit(X, Y).certificate_.bound


def test_the_default_of_svms_is_two_votes():
    model = PACBayesClassifier(RBFSVMPool(), random_state=0).fit(X, Y)
    assert [vote.n_held_out for vote in model.votes_] == [150, 105]
    assert model.certificate_.bound < small(holdout=None).fit(X, Y).certificate_.bound


def test_a_splitter_holds_out_its_test_folds():
    model = small(holdout=KFold(5)).fit(X, Y)
    assert [vote.split.held_out.tolist() for vote in model.votes_] == [
        list(range(first, first + 60)) for first in range(0, 300, 60)
    ]
    assert model.certificate_.n_votes == 5
    assert "holdout-splitter" in model.certificate_.assumption_codes
    assert model.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"
    shuffled = small(holdout=ShuffleSplit(2, test_size=0.3, random_state=np.random.RandomState(0))).fit(X, Y)
    assert shuffled.verify_certificate(shuffled.certificate_) == "arithmetic and model"


@pytest.mark.parametrize("splitter", [StratifiedKFold(3), GroupKFold(3), KFold(301)])
def test_splitters_that_need_more_than_the_number_of_rows(splitter):
    with pytest.raises(ValueError, match=r"holdout cannot be .*without seeing labels or groups"):
        small(holdout=splitter).fit(X, Y)


def test_a_partition_draws_each_row_as_often_as_any_other():
    seeds = range(400)
    counts = sum(
        np.bincount(split_holdouts(Partition((0.5, 0.3)), 40, seed)[1].held_out, minlength=40) for seed in seeds
    )
    assert np.abs(counts - 120).max() < 5 * np.sqrt(400 * 0.3 * 0.7)
    assert Partition((0.5, 0.3)).get_n_splits() == 2


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.6, 0.5), "shares must be positive and at most 1 together, got (0.6, 0.5)"),
        ((0.5, 0.0), "shares must be positive"),
        ((), "shares must be positive"),
        ((float("nan"),), "shares must be positive"),
        ("half", "shares must be positive"),
        ((0.01,) * 100, "50 rows cannot be divided into 100 parts"),
    ],
)
def test_partitions_that_cannot_be(shares, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small(holdout=Partition(shares)).fit(X[:50], Y[:50])


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([], "holdout must hold out at least one fold"),
        ([[]], "holdout must hold out at least one row"),
        ([[300]], "holdout must give row numbers from 0 to 299"),
        ([[0, -1]], "holdout must give row numbers from 0 to 299"),
        ([[0.5]], "holdout must give row numbers from 0 to 299"),
        ([[True, False]], "holdout must give row numbers from 0 to 299"),
        ([range(300)], "holdout must leave at least 2 of the 300 rows"),
    ],
)
def test_splitters_whose_folds_are_no_rows(folds, message):
    class Splitter:
        def split(self, X, y=None, groups=None):
            return ((None, np.array(fold)) for fold in folds)

    with pytest.raises(ValueError, match=message):
        small(holdout=Splitter()).fit(X, Y)


def test_a_row_that_a_splitter_repeats_is_tested_once():
    class Splitter:
        def split(self, X, y=None, groups=None):
            yield np.arange(300), np.repeat(np.arange(40), 3)

    (split,) = split_holdouts(Splitter(), 300, 0)
    np.testing.assert_array_equal(split.held_out, np.arange(40))
    np.testing.assert_array_equal(split.rows, np.arange(40, 300))


def test_the_paper_is_one_vote_of_all_rows():
    model = small(holdout=None).fit(X, Y)
    (vote,) = model.votes_
    assert vote.split.rows is None
    assert model.subsamples_.n == 300
    assert all(statement.event != Event.TEST_SET for statement in model.certificate_.statements)


@pytest.mark.parametrize(
    "parameters", [{"loss": "brier", "estimator": LogisticRegression()}, {"subsamples": [range(9)]}]
)
def test_where_rows_cannot_be_held_out_all_are_used(parameters):
    auto = {"n_hypotheses": "auto", "subsample_size": "auto"}
    model = small(**{**auto, **parameters}).fit(X, Y)
    assert model.votes_[0].split.held_out is None
    with pytest.raises(ValueError, match="holdout must be None"):
        small(**{**auto, **parameters}, holdout=0.5).fit(X, Y)


def test_cost_matrices_are_tested_by_chernoff():
    model = small(loss=[[0, 1], [0.25, 0]], holdout=0.4).fit(X, Y)
    assert model.certificate_.statements[0].method == "test-set-chernoff"
    held_out = model.votes_[0].split.held_out
    predicted = model.predict(X[held_out])
    loss = np.mean(np.where(Y[held_out] == 0, predicted == 1, 0.25 * (predicted == 0)))
    assert model.certificate_.statements[0].figures["loss"] == pytest.approx(loss)
    assert loss < model.certificate_.bound < 1


def test_the_randomised_classifier_is_tested_by_its_own_draws():
    model = small(voting="gibbs", holdout=0.4).fit(X, Y)
    assert model.certificate_.objective == "direct"
    figures = model.certificate_.statements[0].figures
    shares = model.predict_shares(X[model.votes_[0].split.held_out])
    expected = 1 - shares[np.arange(120), Y[model.votes_[0].split.held_out]]
    deviation = np.sqrt(np.sum(expected * (1 - expected)))
    assert abs(figures["errors"] - expected.sum()) <= 5 * deviation


@pytest.mark.parametrize("holdout", ["auto", 0.4, 60, (0.5, 0.2), None])
@pytest.mark.parametrize("voting", ["majority", "gibbs", "best", "uniform"])
def test_certificates_are_verified_by_model_and_data(holdout, voting):
    model = small(holdout=holdout, voting=voting).fit(X, Y)
    certificate = Certificate.from_json(model.certificate_.to_json())
    assert model.verify_certificate(certificate, X, Y) == "arithmetic, model and data"
    held_out = model.votes_[model.fitted_votes_.winner].split.held_out
    if held_out is not None:
        flipped = Y.copy()
        flipped[held_out] = 1 - flipped[held_out]
        with pytest.raises(CertificateError, match="the test on held-out rows"):
            model.verify_certificate(certificate, X, flipped)


def test_the_certificate_of_another_vote_is_refused():
    model = small(holdout=(0.5, 0.35)).fit(X, Y)
    loser = model.votes_[1 - model.fitted_votes_.winner]
    with pytest.raises(CertificateError):
        model.verify_certificate(loser.certificate)


def test_hypotheses_are_added_to_every_vote():
    grown = small(n_hypotheses=6, racing=False).fit(X, Y).add_hypotheses(X, Y, 20)
    whole = small().fit(X, Y)
    assert [vote.bound for vote in grown.votes_] == [vote.bound for vote in whole.votes_]
    np.testing.assert_array_equal(grown.posterior_, whole.posterior_)
    with pytest.raises(CertificateError, match="changed after the fit: holdout"):
        grown.set_params(holdout=0.5).add_hypotheses(X, Y, 30)


def test_folds_split_the_other_rows():
    model = PACBayesClassifier(DecisionTreeClassifier(), subsamples=KFold(4), holdout=0.2, random_state=0).fit(X, Y)
    assert model.n_validation_.tolist() == [60] * 4


@pytest.mark.parametrize(
    ("holdout", "message"),
    [
        (299, "holdout must leave at least 2 of the 300 rows to train and validate on, got 299"),
        (300, "holdout must .*300"),
        (0, "holdout must be at least 1"),
        (1.5, "holdout must be a number of points or a fraction"),
        (-0.5, "holdout must"),
        ([], "holdout must name at least one share, got none"),
        (
            "half",
            "holdout must be 'auto', None, a share or number of rows, a sequence of these, or a splitter, got 'half'",
        ),
        ((0.5, "x"), "holdout must"),
        (object(), "holdout must be 'auto', None, a share or number"),
        (float("nan"), "holdout must"),
        (True, "holdout must"),
    ],
)
def test_bad_shares(holdout, message):
    with pytest.raises(ValueError, match=message):
        small(holdout=holdout).fit(X, Y)


def test_sizes_that_do_not_fit_say_what_is_held_out():
    with pytest.raises(ValueError, match=r"below n = 150, got 200 \(holdout=0.5 leaves 150 of 300 rows\)"):
        small(holdout=0.5, subsample_size=200).fit(X, Y)


def test_classes_that_only_held_out_rows_have():
    points, labels = load_iris(return_X_y=True)
    rare = labels.copy()
    rare[rare == 2] = 1
    rare[0] = 2
    for seed in range(4):
        model = small(random_state=seed, holdout=0.5).fit(points, rare)
        assert model.predict_proba(points).shape == (150, 3)
        model.verify_certificate(model.certificate_, points, rare)


def test_sparse_rows_and_data_frames():
    frame = pd.DataFrame(X, columns=["a", "b"])
    one = small(estimator=DecisionTreeClassifier(max_depth=2)).fit(frame, Y)
    other = small(estimator=DecisionTreeClassifier(max_depth=2)).fit(X, Y)
    assert one.certificate_.bound == other.certificate_.bound
    assert small().fit(sparse.csr_array(X), Y).certificate_.bound == small().fit(X, Y).certificate_.bound


# ---------------------------------------------------------------------------------------------------
# New points
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holdout", ["auto", None])
def test_new_labels_give_a_test_set(holdout):
    model = small(holdout=holdout).fit(X, Y)
    certificate = model.certify(NEW_X, NEW_Y)
    errors = np.count_nonzero(model.predict(NEW_X) != NEW_Y)
    assert certificate.bound == pytest.approx(binomial_upper(errors, 500, 0.05), rel=1e-9)
    assert "had no part in making or choosing" in certificate.assumptions[-1]
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_labels_that_the_classifier_does_not_know_are_errors():
    model = small().fit(X, Y)
    some = NEW_Y.copy()
    some[:50] = 7
    errors = np.count_nonzero(model.predict(NEW_X[50:]) != NEW_Y[50:]) + 50
    assert model.certify(NEW_X, some).statements[0].figures["errors"] == errors


@pytest.mark.parametrize("holdout", ["auto", None])
@pytest.mark.parametrize("voting", ["majority", "uniform", "best"])
def test_new_points_without_labels_bound_the_vote(holdout, voting):
    model = small(holdout=holdout, voting=voting).fit(X, Y)
    certificate = model.certify(NEW_X)
    figures = certificate.statements[0].figures
    assert certificate.statements[0].method == "disagreement"
    vote = model.predict(NEW_X)
    disagreements = np.count_nonzero(model.predict_hypotheses(NEW_X) != vote, axis=1)
    matching = (disagreements == figures["disagreements"]) & (
        np.rint(model.losses_ * model.n_validation_) == figures["errors"]
    )
    assert matching.any()
    assert np.mean(vote != NEW_Y) <= certificate.bound
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_unlabelled_points_need_a_vote():
    with pytest.raises(ValueError, match="y must be given for voting='gibbs'"):
        small(voting="gibbs").fit(X, Y).certify(NEW_X)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda rows: rows.astype(np.float32).astype(float)])
def test_rows_of_the_training_sample_are_refused(labelled, make):
    points, labels = make_classification(300, random_state=0)
    points = points.astype(np.float32).astype(float)
    model = small().fit(points, labels)
    order = np.random.default_rng(0).permutation(300)
    fresh = np.random.default_rng(1).normal(size=(200, 20))
    for rows in (points, points[order], points[order[:20]], np.vstack((fresh, points[order[:5]]))):
        y = np.zeros(len(rows)) if labelled else None
        with pytest.raises(ValueError, match=r"of [0-9]+ rows are rows of the training sample"):
            model.certify(make(rows), y)
    model.certify(make(fresh), np.zeros(200) if labelled else None)


def test_bad_new_points():
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="3 features, but PACBayesClassifier is expecting 2 features"):
        model.certify(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="one label for each of the 500 rows of X"):
        model.certify(NEW_X, NEW_Y[:20])
    with pytest.raises(ValueError, match="certify needs the zero-one loss"):
        small(loss=[[0, 1], [0.5, 0]]).fit(X, Y).certify(NEW_X)
    with pytest.raises(ValueError, match="certify needs a loss of labels, and the classifier has 'brier'"):
        small(estimator=LogisticRegression(), loss="brier").fit(X, Y).certify(NEW_X, NEW_Y)
    with pytest.raises(ValueError, match="delta must be None without labels"):
        model.certify(NEW_X, delta=0.1)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        model.certify(NEW_X, NEW_Y, delta=1.5)


# ---------------------------------------------------------------------------------------------------
# A search that is covered by the certificate
# ---------------------------------------------------------------------------------------------------


def test_candidates_share_delta():
    grid = {"estimator__C": [1.0, 100.0], "holdout": [0.4, (0.5, 0.35)]}
    search = CertifiedGridSearch(small(estimator=RBFSVMPool()), grid).fit(X, Y)
    assert len(search.results_) == 4
    assert search.certificate_.bound == min(result["bound"] for result in search.results_)
    votes = 4 * len(search.best_estimator_.votes_)
    assert search.certificate_.n_votes == votes
    first = search.certificate_.statements[0].figures
    expected = binomial_upper(first["errors"], first["n"], 0.05 / votes)
    assert search.certificate_.bound == pytest.approx(expected, rel=1e-9)
    assert any("of 4 settings" in line for line in search.certificate_.assumptions)
    assert set(FIT_ASSUMPTIONS) <= set(search.certificate_.assumption_codes)
    np.testing.assert_array_equal(search.predict(NEW_X), search.best_estimator_.predict(NEW_X))
    proved = search.certificate_.abstention[-1].bound
    for found, expected in zip(
        search.predict_selective(NEW_X, proved), search.best_estimator_.predict_selective(NEW_X, proved), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(search.predict_set(NEW_X, 0.6), search.best_estimator_.predict_set(NEW_X, 0.6))
    search.best_estimator_.verify_certificate(search.certificate_, X, Y)
    assert clone(search).fit(X, Y).certificate_ == search.certificate_


@pytest.mark.parametrize("name", ["delta", "loss"])
def test_settings_that_candidates_have_in_common(name):
    with pytest.raises(ValueError, match=f"param_grid must not hold {name}"):
        CertifiedGridSearch(small(), {name: [0.1, 0.2]}).fit(X, Y)


@pytest.mark.slow
@parametrize_with_checks(
    [CertifiedGridSearch(PACBayesClassifier(RBFSVMPool(), n_hypotheses=10, random_state=0), {"holdout": [0.3, 0.5]})]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
