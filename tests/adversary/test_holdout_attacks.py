"""Attacks on held-out rows, competing votes and new points: what must not pass for a certificate."""

import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertifiedGridSearch, PACBayesClassifier
from pacbayes.certificate import with_test
from pacbayes.certificate._statements import Statement
from pacbayes.cli._tables import test_model as count_on_table
from pacbayes.exceptions import CertificateError, ModelFileError
from pacbayes.fitting._evaluation import evaluate_vote, total_losses
from pacbayes.fitting._fit import FitContext, digest_vote, weigh
from pacbayes.io import load_model, save_model
from pacbayes.pools import RBFSVMPool, RBFSVMs
from pacbayes.rows._recognition import TrainingRows, hash_rows
from pacbayes.sampling import RandomSubsamples

X, Y = make_moons(200, noise=0.3, random_state=0)
NEW_X, NEW_Y = make_moons(100, noise=0.3, random_state=1)


def make(**parameters):
    pool = parameters.pop("pool", DecisionTreeClassifier(max_depth=2))
    return PACBayesClassifier(pool, **{"n_hypotheses": 8, "random_state": 0, **parameters})


def fitted(**parameters):
    return make(**parameters).fit(X, Y)


def disagreement(certificate, **figures):
    some = {"errors": 0, "n": 10**9, "kl_div": 0.0, "disagreements": 0, "n_unlabelled": 10**9, "kl_unlabelled": 0.0}
    return Statement.by("disagreement", certificate.predictor, certificate.loss, certificate.delta, {**some, **figures})


# ---------------------------------------------------------------------------------------------------
# Rows that were opened before
# ---------------------------------------------------------------------------------------------------


def test_opened_rows_have_the_targets_that_they_were_opened_with():
    """Targets that were given with opened rows were ignored: the error on the first class was certified."""
    model = fitted()
    rows, labelled = model.open_rows(NEW_X), model.open_rows(NEW_X, NEW_Y)
    assert model.certify(labelled) == model.certify(NEW_X, NEW_Y)
    assert model.certify(rows) == model.certify(NEW_X)
    assert model.count_errors(labelled, None) == model.count_errors(NEW_X, NEW_Y)
    sample = model.open_rows(X, Y)
    assert model.verify_certificate(model.certificate_, sample) == "arithmetic, model and data"
    for call in (model.certify, model.count_errors, lambda *rows: model.verify_certificate(model.certificate_, *rows)):
        for opened in (rows, labelled):
            with pytest.raises(ValueError, match="y must be left out where X are rows that were opened"):
                call(opened, NEW_Y)


def test_rows_that_another_fit_opened_are_refused():
    """Of another model, their codes are those of other classes, or of other categories."""
    model, other = fitted(), make().fit(X, np.where(Y, "a", "b"))
    rows = model.open_rows(NEW_X, NEW_Y)
    for call in (other.predict, other.predict_proba, other.certify, other.check_unseen, other.predict_batches):
        with pytest.raises(ValueError, match="X must be rows that were opened by this fit"):
            call(rows)
    with pytest.raises(NotFittedError):
        make().predict(rows)
    # Still this fit, with one more assumption.
    np.testing.assert_array_equal(model.add_assumption("Nobody looked.").predict(rows), model.predict(NEW_X))
    with pytest.raises(ValueError, match="opened by this fit"):
        model.fit(X, Y).predict(rows)


def test_predictions_that_were_begun_are_those_of_the_fit_that_began_them():
    model = fitted()
    expected, begun = model.predict(NEW_X), model.predict_batches(NEW_X)
    model.fit(X, np.where(Y, "a", "b"))
    np.testing.assert_array_equal(np.concatenate(list(begun)), expected)


# ---------------------------------------------------------------------------------------------------
# Added hypotheses
# ---------------------------------------------------------------------------------------------------


def test_hypotheses_are_not_added_on_rows_that_single_precision_cannot_tell_from_the_sample():
    """Their losses would be mixed with those on other rows."""
    first, second = 1.6e9 + X, 1.6e9 + np.roll(X, 7, axis=0)
    assert np.array_equal(first.astype(np.float32), second.astype(np.float32))
    model = make(racing=False).fit(first, Y)
    with pytest.raises(ValueError, match="but X differ"):
        model.add_hypotheses(second, Y, 9)
    assert len(model.add_hypotheses(first, Y, 9).hypotheses_) == 9


def test_hypotheses_are_not_added_to_a_vote_that_lost_and_was_changed():
    """It may win with the new ones."""
    model = make(racing=False).fit(X, Y)
    loser = model.votes_[1 - model.fitted_votes_.winner]
    loser.totals[:] = 0
    with pytest.raises(CertificateError):
        model.add_hypotheses(X, Y, 9)


def test_hypotheses_are_added_to_votes_of_different_numbers():
    """The ladder of sizes has fewer rungs on few rows, which are enough for the vote that wins here."""
    apart = X + 9 * Y[:, np.newaxis]
    model = make(racing=False, n_hypotheses="auto", holdout=[0.2, 194]).fit(apart, Y)
    most = max(len(vote.hypotheses) for vote in model.votes_)
    assert len(model.hypotheses_) < most
    with pytest.raises(ValueError, match=f"at least {most}"):
        model.add_hypotheses(apart, Y, most - 1)
    assert {len(vote.hypotheses) for vote in model.add_hypotheses(apart, Y, most).votes_} == {most}


def test_hypotheses_are_added_to_a_fit_with_a_checkpoint_but_not_to_a_prior(tmp_path):
    settings = {"pool": RBFSVMPool(), "racing": False, "subsample_size": 10}
    model, plain = make(checkpoint=tmp_path / "fit", **settings).fit(X, Y), make(**settings).fit(X, Y)
    np.testing.assert_array_equal(model.add_hypotheses(X, Y, 9).losses_, plain.add_hypotheses(X, Y, 9).losses_)
    with pytest.raises(ValueError, match="prior must be None"):
        make(prior=np.full(8, 1 / 8), **settings).fit(X, Y).add_hypotheses(X, Y, 9)


@pytest.mark.parametrize(("before", "after"), [("majority", "best"), ("best", "majority")])
def test_added_hypotheses_do_not_mix_losses_of_different_rows(before, after):
    """holdout="auto" holds out no rows for the best hypothesis: losses that are kept would be of other rows."""
    model = fitted(pool=RBFSVMPool(), racing=False, voting=before)
    with pytest.raises(CertificateError, match="changed after the fit: voting"):
        model.set_params(voting=after).add_hypotheses(X, Y, 9)
    model.set_params(voting=before).add_hypotheses(X, Y, 9)
    assert model.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"


# ---------------------------------------------------------------------------------------------------
# Statements about new points
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holdout", [None, "auto"])
def test_a_made_up_result_on_unlabelled_points_is_not_verified(holdout):
    model = fitted(holdout=holdout)
    certificate = model.certificate_
    n = certificate.n_validation_max
    made_up = disagreement(certificate, n=n, kl_div=20.0, kl_unlabelled=20.0)
    forged = replace(certificate.without_test(), statements=(made_up,))
    forged.check()
    with pytest.raises(CertificateError, match="no hypothesis's validation points"):
        replace(forged, statements=(disagreement(certificate, n=n + 1, kl_div=20.0, kl_unlabelled=20.0),)).check()
    for data in ((), (X, Y)):
        with pytest.raises(CertificateError, match="cannot be verified without these points"):
            model.verify_certificate(forged, *data)
    honest = replace(model.certify(NEW_X), assumption_codes=certificate.assumption_codes)
    with pytest.raises(CertificateError, match="cannot be verified without these points"):
        model.verify_certificate(honest)


def test_a_certificate_of_new_points_says_so_where_it_cannot_be_verified():
    model = fitted()
    for certificate in (model.certify(NEW_X), model.certify(NEW_X, NEW_Y)):
        with pytest.raises(CertificateError, match="is about new points"):
            model.verify_certificate(certificate)


@pytest.mark.parametrize("n_candidates", [1, 5])
@pytest.mark.parametrize("holdout", [None, "auto"])
@pytest.mark.parametrize("voting", ["majority", "best"])
def test_labelled_and_unlabelled_points_share_delta(holdout, voting, n_candidates):
    model = make(holdout=holdout, voting=voting).fit_candidate(X, Y, n_candidates=n_candidates)
    certificate = model.certify(NEW_X)
    figures = certificate.statements[0].figures
    spent = certificate.n_votes * np.exp(-figures["kl_div"]) + np.exp(-figures["kl_unlabelled"])
    assert 0 < spent <= 1
    for name in ("kl_div", "kl_unlabelled"):
        # As if this part had the whole of delta.
        whole = np.log(certificate.n_votes) * (1 + 1e-14) if name == "kl_div" else 0.0
        forged = replace(certificate, statements=(disagreement(certificate, **{**figures, name: float(whole)}),))
        with pytest.raises(CertificateError, match="share of delta"):
            Certificate.from_json(forged.to_json())


def test_a_test_is_about_who_was_tested():
    model = fitted()
    tested = model.certificate_.statements[0]
    other = replace(model.certificate_, statements=(replace(tested, predictor="randomised classifier"),))
    with pytest.raises(CertificateError, match="predictor must be 'majority vote'"):
        Certificate.from_json(other.to_json())
    with pytest.raises(CertificateError, match="predictor must be 'majority vote'"):
        model.verify_certificate(other, X, Y)
    unlabelled = model.certify(NEW_X)
    other = replace(unlabelled, statements=(replace(unlabelled.statements[0], predictor="best hypothesis"),))
    with pytest.raises(CertificateError, match="predictor must be 'majority vote'"):
        other.check()


def test_a_bound_on_the_vote_does_not_borrow_another_event():
    """Twice the tested bound of the randomised classifier is no statement of the PAC-Bayesian event."""
    certificate = fitted(voting="gibbs").certificate_
    figures = {"gibbs_bound": certificate.bound}
    borrowed = Statement.by("first-order", "majority vote", "zero_one", certificate.delta, figures)
    with pytest.raises(CertificateError, match="gibbs_bound"):
        replace(certificate, statements=(certificate.statements[0], borrowed)).check()


# ---------------------------------------------------------------------------------------------------
# Votes of a model that somebody changed
# ---------------------------------------------------------------------------------------------------


def changed(model, vote, others=None):
    """Return a model whose winner is another vote."""
    forged = copy.deepcopy(model)
    votes = list(forged.votes_) if others is None else others
    winner = min(forged.fitted_votes_.winner, len(votes) - 1) if others is None else 0
    votes[winner:] = [vote] if others is not None else [vote, *votes[winner + 1 :]]
    forged.fitted_votes_ = replace(forged.fitted_votes_, votes=tuple(votes), winner=winner)
    return forged


def test_a_test_has_as_many_points_as_were_held_out():
    model = fitted()
    vote = model.votes_[model.fitted_votes_.winner]
    forged = changed(model, replace(vote, certificate=with_test(vote.certificate, 0, 10**6)))
    with pytest.raises(CertificateError, match="number of held-out rows is stated as 1000000"):
        forged.verify_certificate(forged.certificate_)


def test_a_vote_that_lost_still_counts():
    model = fitted()
    alone = changed(model, model.votes_[model.fitted_votes_.winner], others=[])
    with pytest.raises(CertificateError, match="number of votes"):
        alone.verify_certificate(alone.certificate_)


def test_a_model_file_says_how_many_votes_competed(tmp_path):
    model = fitted()
    vote = model.votes_[model.fitted_votes_.winner]
    alone = changed(model, vote, others=[])
    save_model(alone, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="a certificate is about 2 competing votes"):
        load_model(tmp_path / "model.skops")


def test_held_out_rows_are_those_of_the_seed():
    model = fitted(holdout=0.5)
    vote = model.votes_[0]
    split = vote.split
    swapped = replace(split, held_out=np.sort(np.append(split.held_out[1:], split.rows[0])))
    swapped = replace(swapped, rows=np.sort(np.append(split.rows[1:], split.held_out[0])))
    for other in (swapped, replace(split, entropy=split.entropy + 1), replace(split, rows=None, held_out=None)):
        forged = changed(model, replace(vote, split=other))
        with pytest.raises(CertificateError, match=r"rows of vote 0|rows were not held out"):
            forged.verify_certificate(forged.certificate_)


def forge(model, **parts):
    """The model with other parts of its vote, and whatever follows from them as a careful forger would write it."""
    votes = model.fitted_votes_
    vote = replace(votes.best, **parts)
    rows = model.open_rows(X, Y)
    totals = total_losses(vote, np.arange(len(vote.hypotheses)), rows, votes.loss)
    vote = replace(vote, totals=totals, seen=vote.subsamples.n_validation)
    fit = FitContext(votes.pool, votes.task, votes.loss, votes.settings, 1, continued=False)
    certificate, rho = weigh(fit, vote.trained, vote.prior, fit.loss, tested=True)
    about = digest_vote(fit, vote.trained)
    certificate = replace(certificate, digests={**certificate.digests, **about})
    vote, _ = evaluate_vote(replace(vote, certificate=certificate, posterior=rho), rows, rows, votes.loss)
    return PACBayesClassifier.from_fitted_votes(replace(votes, votes=(vote,)))


@pytest.mark.parametrize("voting", ["majority", "gibbs", "best"])
@pytest.mark.parametrize("sizes", [20, [10, 40]])
def test_the_prior_is_that_of_the_settings(voting, sizes, tmp_path):
    model = fitted(voting=voting, subsample_size=sizes, holdout=None, racing=False)
    honest = forge(model)
    assert honest.certificate_ == model.certificate_
    assert honest.verify_certificate(model.certificate_, X, Y) == "arithmetic, model and data"
    # After a look at the losses, nearly all of it on the best.
    prior = np.where(np.arange(8) == np.argmin(model.losses_), 0.993, 0.001)
    save_model(forge(model, prior=prior), tmp_path / "model.skops")
    forged, _ = load_model(tmp_path / "model.skops")
    assert forged.certificate_.bound < model.certificate_.bound
    assert "own-prior" not in forged.certificate_.assumption_codes
    for data in ((), (X, Y)):
        with pytest.raises(CertificateError, match="the prior of the classifier is not the one"):
            forged.verify_certificate(forged.certificate_, *data)


def test_a_model_says_what_its_certificate_is_about():
    model = fitted()
    vote = model.fitted_votes_.best
    digests = {name: vote.certificate.digests[name] for name in ("hypotheses", "losses", "posterior")}
    forged = changed(model, replace(vote, certificate=replace(vote.certificate, digests=digests)))
    with pytest.raises(CertificateError, match="and lack settings"):
        forged.verify_certificate(forged.certificate_)
    with pytest.raises(CertificateError, match="settings of the classifier are not those"):
        forged.verify_certificate(model.certificate_)


def test_subsamples_are_those_of_the_seed():
    # Which says that rows validate hypotheses that were trained on them.
    model = fitted(subsample_size=60, holdout=None, racing=False)
    forged = forge(model, subsamples=RandomSubsamples(200, [60], 8, entropy=1))
    assert forged.certificate_.strict
    for data in ((), (X, Y)):
        with pytest.raises(CertificateError, match="rows of vote 0 are not those that its seed draws"):
            forged.verify_certificate(forged.certificate_, *data)


# ---------------------------------------------------------------------------------------------------
# Rows of the training sample
# ---------------------------------------------------------------------------------------------------


def test_rows_that_were_saved_in_single_precision_are_recognised():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3)) * np.array([1e-20, 1.0, 1e20])
    np.testing.assert_array_equal(hash_rows(rows), hash_rows(rows.astype(np.float32)))
    assert np.unique(hash_rows(rows)).size == 2000
    extremes = np.array([[1e-300], [2e-300], [1e300], [2e300], [np.inf], [-np.inf], [np.nan], [0.0], [-1e-300]])
    assert np.unique(hash_rows(extremes)).size == 9
    with pytest.raises(ValueError, match="rows of the training sample"):
        fitted().certify(X.astype(np.float32), Y)


@pytest.mark.parametrize("dtype", [object, str, "string", "Float64"])
def test_numbers_are_recognised_in_columns_of_any_kind(dtype):
    frame = pd.DataFrame({"a": X[:, 0], "b": np.arange(200)})
    np.testing.assert_array_equal(hash_rows(frame.astype({"a": dtype, "b": dtype})), hash_rows(frame))
    with pytest.raises(ValueError, match="rows of the training sample"):
        TrainingRows(frame).check_unseen(frame.astype(dtype))


def test_the_sample_itself_is_recognised_even_if_all_rows_repeat():
    coarse = np.random.default_rng(0).integers(0, 3, size=(1000, 2)).astype(float)
    rows = TrainingRows(coarse[:500])
    rows.check_unseen(coarse[500:])
    with pytest.raises(ValueError, match="500 of 500 rows are rows of the training sample"):
        rows.check_unseen(coarse[:500])
    TrainingRows(np.ones((20, 2))).check_unseen(np.ones((20, 2)))  # what else could new rows be?


SECONDS = 1.7e9 + np.arange(1000.0)[:, None]
CLOSE = {
    "Unix seconds": SECONDS,
    "a large offset": 1e5 + 1e-3 * np.random.default_rng(0).normal(size=(1000, 2)),
    "sparse": sparse.csr_array(SECONDS),
    "nanoseconds": (np.int64(1_700_000_000_000_000_000) + np.arange(1000))[:, None],
    "dates": pd.DataFrame({"at": pd.to_datetime(SECONDS[:, 0], unit="s"), "word": ["a", "b"] * 500}),
    "words": pd.DataFrame({"at": SECONDS[:, 0].astype(int).astype(str), "word": ["a", "b"] * 500}),
}


@pytest.mark.parametrize("kind", CLOSE)
def test_rows_that_single_precision_cannot_tell_apart_are_recognised(kind):
    """All of these are a few rows that repeat, once rounded: that they come again could be by chance."""
    data = CLOSE[kind]
    rows, order = TrainingRows(data), np.random.default_rng(1).permutation(999)
    chosen = data.iloc[order] if hasattr(data, "iloc") else data[order]
    with pytest.raises(ValueError, match="999 of 999 rows are rows of the training sample"):
        rows.check_unseen(chosen)
    half = data.iloc[:500] if hasattr(data, "iloc") else data[:500]
    new = data.iloc[500:] if hasattr(data, "iloc") else data[500:]
    TrainingRows(half).check_unseen(new)


def test_a_model_recognises_close_rows_after_it_was_saved(tmp_path):
    y = np.random.default_rng(0).integers(0, 2, size=1000)
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, random_state=0).fit(SECONDS, y)
    save_model(model, tmp_path / "model.skops")
    for one in (model, load_model(tmp_path / "model.skops")[0]):
        with pytest.raises(ValueError, match="999 of 999 rows are rows of the training sample"):
            one.certify(SECONDS[1:], y[1:])
        one.certify(SECONDS + 1000, y)


def test_no_points_certify_nothing():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = PACBayesClassifier(DecisionTreeClassifier(), n_hypotheses=3, random_state=0).fit(frame, Y)
    for labels in (None, Y[:0]):
        with pytest.raises(ValueError, match="at least one point"):
            model.certify(frame[:0], labels)


@dataclass
class Described:
    """What the command line knows of a model besides."""

    task: str = "classification"
    test: object = None


def test_every_test_counts_doubtful_predictions_as_errors(monkeypatch):
    """Whoever counts errors for a bound: a certificate of new points, or the command line."""
    model = fitted(pool=RBFSVMPool())
    right = model.predict(NEW_X)
    assert model.count_errors(NEW_X, right) == 0
    votes_and_uncertain = RBFSVMs.votes_and_uncertain

    def doubt(self, X):
        votes, doubts = votes_and_uncertain(self, X)
        return votes, np.ones_like(doubts)

    monkeypatch.setattr(RBFSVMs, "votes_and_uncertain", doubt)
    np.testing.assert_array_equal(model.predict(NEW_X), right)
    assert model.count_errors(NEW_X, right) == NEW_X.shape[0]
    assert model.certify(NEW_X, right).bound == 1
    table = SimpleNamespace(X=NEW_X, y=right)
    assert count_on_table(model, Described(), table, 0.05).test.errors == NEW_X.shape[0]


# ---------------------------------------------------------------------------------------------------
# Searches
# ---------------------------------------------------------------------------------------------------


def test_the_shares_of_delta_of_all_candidates_add_up_to_delta():
    """Candidates with different numbers of votes: every vote has an equal part of its candidate's equal part."""
    grid = [{"holdout": [None, 0.5, (0.5, 0.4, 0.3)]}, {"voting": ["gibbs", "best"], "random_state": [1, 1]}]
    base = PACBayesClassifier(DecisionTreeClassifier(max_depth=1), n_hypotheses=3, random_state=0)
    seen = []

    class Recording(PACBayesClassifier):
        def fit_candidate(self, X, y, **settings):
            super().fit_candidate(X, y, **settings)
            seen.append([vote.certificate.n_votes for vote in self.votes_])
            return self

    search = CertifiedGridSearch(Recording(**base.get_params(deep=False)), grid, n_candidates=14).fit(X, Y)
    assert len(search.results_) == len(seen) == 7
    # Half of delta is for the candidates of another search.
    assert sum(1 / n_votes for votes in seen for n_votes in votes) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("classifier", "grid", "message"),
    [
        (CertifiedGridSearch(PACBayesClassifier(), {"holdout": [None]}), {}, "classifier must be a PACBayesClassifier"),
        (PACBayesClassifier(), [], "param_grid must hold at least one setting"),
    ],
)
def test_searches_that_make_no_sense(classifier, grid, message):
    with pytest.raises(ValueError, match=message):
        CertifiedGridSearch(classifier, grid).fit(X, Y)


@pytest.mark.parametrize("n_candidates", [0, 1, 2.5, "two"])
def test_numbers_of_candidates(n_candidates):
    """Fewer than the grid has would make each share of delta too large."""
    with pytest.raises(ValueError, match="n_candidates must be a whole number, at least 2"):
        CertifiedGridSearch(PACBayesClassifier(), {"holdout": [None, 0.5]}, n_candidates=n_candidates).fit(X, Y)
    if n_candidates != 1:
        with pytest.raises(ValueError, match="n_candidates must be a whole number, at least 1"):
            PACBayesClassifier().fit_candidate(X, Y, n_candidates=n_candidates)


def test_bounds_to_compare_with_pay_for_the_candidates():
    one, many = (
        {row.label: row.value for row in model.certificate_.rows()}
        for model in (make(holdout=None, subsample_size=20).fit_candidate(X, Y, n_candidates=k) for k in (1, 50))
    )
    label = "square-root relaxation"
    assert many[label] > one[label]
