"""Codes of assumptions, and that no certificate depends on the words that are made from them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertificateError, PACBayesClassifier, _losses, certify
from pacbayes.certificate import METHODS, assumptions
from pacbayes.certificate.assumptions import describe_assumption, encode_assumption, find_missing, is_code
from pacbayes.io import load_model, save_model
from pacbayes.pools import EstimatorPool, RBFSVMPool

X, Y = make_moons(200, noise=0.2, random_state=0)
NEW_X, NEW_Y = make_moons(100, noise=0.2, random_state=1)


class Polite(EstimatorPool):
    """A pool of a user, who states in own words what has to be true."""

    def assumptions(self):
        return ["the trees: were {grown} in good soil"]


def asymmetric(true, predicted):
    return np.where(true == predicted, 0.0, np.where(true == 1, 1.0, 0.25))


def small(pool=None, **parameters):
    settings = {"n_hypotheses": 6, "subsample_size": [8, 30], "random_state": 0}
    return PACBayesClassifier(RBFSVMPool() if pool is None else pool, **{**settings, **parameters})


MODELS = {
    "default": small(),
    "paper": small(RBFSVMPool(gamma_source="sample", scaler=None), holdout=None),
    "dual": small(holdout=None, voting="gibbs"),
    "best": small(RBFSVMPool(gamma_source="reserved"), holdout=None, voting="best"),
    "costs": small(loss=[[0, 1], [0.5, 0]]),
    "function": small(loss=asymmetric, prior=np.full(6, 1 / 6)),
    "probabilities": small(DecisionTreeClassifier(max_depth=3), loss="brier", holdout=None),
    "own words": small(Polite(DecisionTreeClassifier(max_depth=3)), subsample_size=30),
}


@pytest.mark.parametrize("name", MODELS)
def test_rewording_everything_breaks_nothing(name, monkeypatch, tmp_path):
    model = MODELS[name].fit(X, Y)
    certificates = [model.certificate_, certify([0.1, 0.2, 0.4], 300, strict=False)[0]]
    if name in ("default", "costs"):
        certificates.append(model.certify(NEW_X, NEW_Y))
    if name == "default":
        certificates.append(model.certify(NEW_X))
    files = [certificate.to_json() for certificate in certificates]
    if name not in ("function", "own words"):  # whose types are not ours to trust
        save_model(model, tmp_path / "model.skops")
    shown = str(model.certificate_)

    for code, sentence in assumptions.ASSUMPTIONS.items():
        monkeypatch.setitem(assumptions.ASSUMPTIONS, code, "Other words" + " {}" * ("{}" in sentence))
    monkeypatch.setattr(_losses, "_WORDS", dict.fromkeys(_losses._WORDS, "Other words {}"))
    for method, entry in METHODS.items():
        monkeypatch.setitem(METHODS, method, replace(entry, title="Another method"))

    assert str(model.certificate_) != shown
    for certificate, text in zip(certificates, files, strict=True):
        certificate.check()
        again = Certificate.from_json(text)
        assert again == certificate
        assert again.to_json() == text
    model.verify_certificate(Certificate.from_json(files[0]), X, Y)
    if (tmp_path / "model.skops").exists():
        loaded, _ = load_model(tmp_path / "model.skops")
        loaded.verify_certificate(Certificate.from_json(files[0]), X, Y)
    certificates[1].verify([0.1, 0.2, 0.4])


def test_files_hold_codes_and_no_sentences():
    text = small().fit_candidate(X, Y, n_candidates=2).certificate_.to_json()
    assert '"independent-sample"' in text
    assert '"candidates:2"' in text
    for sentence in assumptions.ASSUMPTIONS.values():
        assert sentence == "{}" or sentence.split("{}")[0] + sentence.split("{}")[-1] not in text
    assert '"held-out-points"' in text


def test_words_of_a_user_are_kept_as_they_are():
    certificate = MODELS["own words"].fit(X, Y).certificate_
    assert "stated:the trees: were {grown} in good soil" in certificate.assumption_codes
    assert "the trees: were {grown} in good soil" in certificate.assumptions
    assert "were {grown} in good soil" in str(Certificate.from_json(certificate.to_json()))


def test_codes_are_told_from_words():
    for code, sentence in assumptions.ASSUMPTIONS.items():
        assert is_code(code + ":4" * ("{}" in sentence))
    for text in ("", "candidates", "candidates:", "own-prior:", "own-prior:4", "stated:", "no-such-code"):
        assert not is_code(text)
        assert describe_assumption(encode_assumption(text)) == text
    assert describe_assumption("candidates:4").startswith("of 4 settings")


def test_what_has_to_be_stated():
    assert not find_missing([*assumptions.FIT_ASSUMPTIONS, "subsamples-random"], of_fit=True)
    assert not find_missing(assumptions.LOSS_ASSUMPTIONS, of_fit=False)
    assert find_missing(assumptions.FIT_ASSUMPTIONS, of_fit=True) == ["how the subsamples were chosen"]
    assert find_missing(assumptions.LOSS_ASSUMPTIONS, of_fit=True)
    # Whoever certifies losses may add to what has to be true of them, but not leave it out.
    certificate, _ = certify([0.1, 0.2], 100, assumptions=["the points were drawn in May"])
    assert certificate.assumption_codes == (*assumptions.LOSS_ASSUMPTIONS, "stated:the points were drawn in May")


def test_words_about_the_theorem_decide_nothing():
    certificate, _ = certify([0.1, 0.2], 100, assumptions=["the theorem does not cover this"])
    assert certificate.strict
    with pytest.raises(CertificateError, match="strict is stated as True"):
        replace(certificate, assumption_codes=(*certificate.assumption_codes, "declared-not-strict")).check()
    with pytest.raises(CertificateError, match=r"assumptions\[2\] must be a code"):
        certify([0.1, 0.2], 100, assumptions=["x" * 3000])


def test_what_another_assumption_says_is_said_once():
    """In a union, SVMs say of a table what the other families say, and more."""
    codes = ("table-columns-known", "columns-known", "own-prior")
    certificate, _ = certify([0.1, 0.2], 100, assumptions=codes)
    assert certificate.assumption_codes[-3:] == codes
    assert certificate.assumptions[-2:] == tuple(map(describe_assumption, codes[1:]))
    assert describe_assumption("table-columns-known") not in certificate.assumptions
    alone, _ = certify([0.1, 0.2], 100, assumptions=codes[:1])
    assert alone.assumptions[-1] == describe_assumption("table-columns-known")


def test_nobodys_own_words_take_the_place_of_an_assumption():
    sentence = describe_assumption("own-prior")
    certificate, _ = certify([0.1, 0.2], 100, assumptions=["own-prior", f"{sentence}; this is not quite so"])
    assert sentence in certificate.assumptions
