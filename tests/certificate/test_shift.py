"""Known shift: which points are kept, what is proved about the others' distribution, and what is refused."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binomtest
from sklearn.datasets import make_moons

from pacbayes import Certificate, CertificateError, Monitor, PACBayesClassifier
from pacbayes._json_fields import checksum
from pacbayes.fitting import Weighting
from pacbayes.pools import RBFSVMPool

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW_X, NEW_Y = make_moons(400, noise=0.25, random_state=1)
WEIGHTS = np.where(NEW_X[:, 0] > 0.5, 1.5, 0.5)


@pytest.fixture(scope="module")
def moons():
    return PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, subsample_size=[8, 30], random_state=0).fit(X, Y)


def test_rows_are_kept_by_their_weights():
    weights = np.tile([0.0, 0.5, 1.5, 2.0], 5000)
    kept = Weighting.of(weights, 2.0, False, 3, 20_000).kept
    counts = np.bincount(kept % 4, minlength=4)
    assert counts[0] == 0
    assert counts[3] == 5000
    for count, share in zip(counts[1:3], (0.25, 0.75), strict=True):
        assert binomtest(int(count), 5000, share).pvalue > 1e-3
    np.testing.assert_array_equal(kept, Weighting.of(weights, 2.0, False, 3, 20_000).kept)
    assert kept.size != Weighting.of(weights, 2.0, False, 4, 20_000).kept.size
    # A multiple of the weights keeps the same rows, and a row is kept or not whatever comes after it.
    np.testing.assert_array_equal(kept, Weighting.of(3 * weights, 6.0, False, 3, 20_000).kept)
    np.testing.assert_array_equal(kept[kept < 100], Weighting.of(weights[:100], 2.0, False, 3, 100).kept)


def test_the_bound_is_that_of_the_rows_that_are_kept(moons):
    certificate = moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2, delta=0.1)
    kept = Weighting.of(WEIGHTS, 2.0, False, moons.fitted_votes_.entropy, 400).kept
    errors = np.count_nonzero(moons.predict(NEW_X[kept]) != NEW_Y[kept])
    assert certificate.statements[0].figures == {"errors": errors, "n": kept.size, "kl_div": 0.0}
    assert certificate.bound == pytest.approx(beta.ppf(0.9, errors + 1, kept.size - errors), rel=1e-6)
    assert certificate.strict
    assert len(certificate.statements) == 1
    assert (certificate.shift.n, certificate.shift.n_kept, certificate.shift.max_weight) == (400, kept.size, 2.0)
    assert certificate.confusion.n == sum(certificate.label_counts) == kept.size
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_what_is_said(moons):
    certificate = moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2, random_state=5)
    kept = certificate.shift.n_kept
    assert "of new points from the shifted distribution that the weights describe." in certificate.summary()
    assert (
        f"of 400 new points, {kept} were kept, each with probability weight / 2, whatever its label (seed 5)."
        in str(certificate)
    )
    assert "over the draw of the sample and of the seed" in certificate.summary()
    assert "no point has a weight above 2.0 was declared, and the seed of which points are kept" in str(certificate)
    assert "the weights are known, and not estimated from the new points" in str(certificate)
    assert "NOT STRICT" not in str(certificate)
    assert "were kept, each with" in certificate._repr_html_()


def test_estimated_weights_are_not_strict(moons):
    certificate = moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2, weights_estimated=True)
    assert not certificate.strict
    assert certificate.statements[0].event == "held-out-points:not-proved"
    assert certificate.summary().startswith("The weights were estimated. If they were the true ones: with probability")
    text = str(certificate)
    assert "NOT STRICT: the weights were estimated, and nothing is proved unless they are the true ones." in text
    assert "known, and not estimated" not in text
    assert "not covered by the theorem" in text
    assert certificate.bound == moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2).bound
    assert Certificate.from_json(certificate.to_json()) == certificate
    with pytest.raises(ValueError, match="the theorem does not cover the certificate, which is not strict"):
        Monitor(certificate)


def test_a_fit_that_is_not_strict_can_be_tested_after_a_known_shift():
    pool = RBFSVMPool(gamma_source="sample")
    model = PACBayesClassifier(pool, n_hypotheses=20, subsample_size=30, random_state=0).fit(X, Y)
    certificate = model.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2)
    assert not certificate.strict
    assert certificate.statements[0].event == "held-out-points"


def test_groups_of_rows_that_are_kept(moons):
    side = np.where(NEW_X[:, 0] > 0.5, "right", "left")
    certificate = moons.certify(NEW_X, NEW_Y, weights=np.where(side == "left", 0.0, 1.0), max_weight=1, groups=side)
    assert certificate.groups.labels == ("left", "right")
    assert certificate.groups.counts[0] == (0, 0)
    assert certificate.groups.bounds[0] == 1
    assert certificate.groups.counts[1][1] == np.count_nonzero(side == "right") == certificate.shift.n_kept


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": WEIGHTS}, "max_weight must be given with weights"),
        ({"max_weight": 2}, "weights must be given where max_weight or weights_estimated is"),
        ({"weights_estimated": True}, "weights must be given where"),
        (
            {"weights": WEIGHTS, "max_weight": 1},
            r"in \[0, max_weight\], \[0, 1\], got 1.5 in row \d+: a clipped weight",
        ),
        ({"weights": -WEIGHTS, "max_weight": 2}, r"got -\S+ in row 0"),
        ({"weights": WEIGHTS * np.nan, "max_weight": 2}, "got nan in row 0"),
        ({"weights": WEIGHTS[1:], "max_weight": 2}, r"weights must hold a number for each of the 400 rows, got shape"),
        ({"weights": ["a"] * 400, "max_weight": 2}, "weights must be a number for each of the 400 rows"),
        ({"weights": WEIGHTS, "max_weight": 0}, r"max_weight must be in \(0, inf\), got 0"),
        ({"weights": WEIGHTS, "max_weight": np.inf}, r"max_weight must be in \(0, inf\), got inf"),
        ({"weights": WEIGHTS, "max_weight": [2, 2]}, "max_weight must be a single number"),
        ({"weights": WEIGHTS, "max_weight": 2, "random_state": -1}, "random_state must be a whole number, at least 0"),
        ({"weights": WEIGHTS, "max_weight": 2, "weights_estimated": "no"}, "weights_estimated must be True or False"),
        ({"weights": np.zeros(400), "max_weight": 2}, "they keep none: nothing can be proved"),
    ],
)
def test_weights_that_are_none(moons, settings, message):
    with pytest.raises(ValueError, match=message):
        moons.certify(NEW_X, NEW_Y, **settings)


def test_weights_need_labels(moons):
    with pytest.raises(ValueError, match="weights must be None without labels"):
        moons.certify(NEW_X, weights=WEIGHTS, max_weight=2)


def edited(certificate, change):
    """A certificate that was changed by somebody who knows how its checksum is made."""
    values = json.loads(certificate.to_json())
    change(values)
    values["checksum"] = checksum({name: value for name, value in values.items() if name != "checksum"})
    return json.dumps(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["shift"].update(n_kept=3), "shift.n_kept must be the"),
        (lambda values: values["shift"].update(n=3), "shift.n_kept must be at most n, 3"),
        (lambda values: values["shift"].update(max_weight=1.0), "assumptions must state 'shifted:1.0'"),
        (lambda values: values["shift"].update(max_weight=0), "shift.max_weight must be a number in"),
        (lambda values: values["assumptions"].remove("weights-known"), "assumptions must state 'weights-known'"),
        (lambda values: values["assumptions"].remove("new-points"), "assumptions must state 'new-points'"),
        (lambda values: values["assumptions"].append("weights-estimated"), "strict is stated as True"),
        (
            lambda values: values.update(shift=None),
            "shift must not be null where assumptions state shifted:2.0, weights",
        ),
    ],
)
def test_edited_shifts_are_refused(moons, change, message):
    certificate = moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2)
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(edited(certificate, change))


def test_estimates_are_not_made_known_by_an_edit(moons):
    certificate = moons.certify(NEW_X, NEW_Y, weights=WEIGHTS, max_weight=2, weights_estimated=True)

    def change(values):
        values["statements"][0]["event"] = "held-out-points"

    with pytest.raises(CertificateError, match=re.escape("statements[0].event is stated as 'held-out-points'")):
        Certificate.from_json(edited(certificate, change))
    with pytest.raises(CertificateError, match="strict is stated as True"):
        replace(certificate, strict=True).check()
