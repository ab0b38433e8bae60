"""The randomised tail of `certify`: smaller on average, drawn from a seed that the certificate states."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import make_moons

from pacbayes import Certificate, PACBayesClassifier
from pacbayes.bounds import clopper_pearson
from pacbayes.certificate import METHODS
from pacbayes.exceptions import CertificateError
from pacbayes.pools import RBFSVMPool


@pytest.fixture(scope="module")
def model():
    return PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, random_state=0).fit(
        *make_moons(300, noise=0.3, random_state=0)
    )


@pytest.fixture(scope="module")
def fresh():
    return make_moons(200, noise=0.3, random_state=1)


def test_the_seed_decides_and_is_stated(model, fresh):
    exact = model.certify(*fresh)
    certificates = [model.certify(*fresh, tail="randomised", random_state=seed) for seed in range(40)]
    bounds = [one.bound for one in certificates]
    assert max(bounds) <= exact.bound
    assert np.mean(bounds) < exact.bound - 0.002
    assert model.certify(*fresh, tail="randomised", random_state=7) == certificates[7]
    figures = certificates[7].statements[0].figures
    assert figures == {**exact.statements[0].figures, "seed": 7}
    # All are bounds at some u of the same counts.
    k, n = figures["errors"], figures["n"]
    assert clopper_pearson(k, n, u=1e-9) <= min(bounds)
    assert "the seed of the randomised tail was decided on before" in str(certificates[0])
    assert "and not by the random number that it leads to" in str(certificates[0])
    assert "over the draw of the sample and of the seed" in certificates[0].summary()
    assert "over the draw of the sample (delta" in exact.summary()
    assert "randomised exact tail on held-out points" in str(certificates[0])
    assert exact.abstention == certificates[0].abstention


def test_files_hold_the_seed(model, fresh):
    certificate = model.certify(*fresh, tail="randomised", random_state=3)
    assert Certificate.from_json(certificate.to_json()) == certificate
    first, *others = certificate.statements
    for seed in range(20):
        edited = replace(first, figures={**first.figures, "seed": seed})
        doctored = replace(certificate, statements=(edited, *others))
        if edited.bound < METHODS[first.method].compute(first.delta, **edited.figures):
            with pytest.raises(CertificateError):
                doctored.check()
    silent = tuple(code for code in certificate.assumption_codes if code != "seed-decided")
    with pytest.raises(CertificateError, match="must come with the assumption 'seed-decided'"):
        replace(certificate, assumption_codes=silent).check()


@pytest.mark.parametrize("seeds", [40, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("delta", "rate"), [(0.05, 0.13), (0.3, 0.12)])
def test_fails_as_often_as_delta_and_more_often_if_the_seed_is_chosen(delta, rate, seeds):
    n = 60
    compute = METHODS["test-set-randomised"].compute
    pmf = binom.pmf(np.arange(n + 1), n, rate)
    relevant = np.flatnonzero(pmf > 1e-3)
    bounds = np.array([[compute(delta, k, n, 0.0, seed) for seed in range(seeds)] for k in relevant.tolist()])
    fails = pmf[relevant] @ (bounds < rate)
    assert fails.mean() == pytest.approx(delta, abs=4 * pmf.max() / np.sqrt(12 * seeds) + 0.01)
    assert pmf[relevant] @ (bounds.min(axis=1) < rate) > 1.2 * delta
    assert fails.max() > 1.2 * delta  # a seed that is taken for its random number, even before any point is seen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tail": "normal"}, "tail must be 'exact' or 'randomised', got 'normal'"),
        (
            {"tail": "randomised"},
            "random_state must be a whole number from 0 to 10\\*\\*15 for tail='randomised'.*got None",
        ),
        ({"tail": "randomised", "random_state": -1}, "random_state must be a whole number from 0 to"),
        ({"random_state": "abc"}, "random_state must be a whole number, at least 0, or None, got 'abc'"),
    ],
)
def test_bad_input(model, fresh, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.certify(*fresh, **arguments)


def test_is_for_errors_of_labelled_points(model, fresh):
    with pytest.raises(ValueError, match="tail must be None without labels"):
        model.certify(fresh[0], tail="randomised", random_state=0)
    costly = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, loss=[[0, 1], [5, 0]], random_state=0)
    costly.fit(*make_moons(100, noise=0.3, random_state=0))
    with pytest.raises(ValueError, match="tail must be 'exact' for the loss 'cost:5'"):
        costly.certify(*fresh, tail="randomised", random_state=0)
