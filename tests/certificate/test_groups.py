"""Errors by group: who is in which, their bounds, and what certificates say and refuse about them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.datasets import make_moons

from pacbayes import Certificate, CertificateError, CertifiedGridSearch, PACBayesClassifier
from pacbayes._json_fields import checksum
from pacbayes.certificate import MOST_GROUPS, GroupCounts, GroupErrors
from pacbayes.fitting import Groups
from pacbayes.pools import RBFSVMPool

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW_X, NEW_Y = make_moons(400, noise=0.25, random_state=1)
SIDE = np.where(X[:, 0] > 0.5, "right", "left").astype(object)
SIDE[:3] = "rare"


def small(**parameters):
    return PACBayesClassifier(
        **{"estimator": RBFSVMPool(), "n_hypotheses": 20, "subsample_size": [8, 30], "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def moons():
    return small().fit(X, Y, groups=SIDE)


def upper(errors, n, level):
    """Clopper-Pearson's bound by SciPy's quantiles."""
    return 1.0 if errors >= n else float(beta.ppf(1 - level, errors + 1, n - errors))


# ---------------------------------------------------------------------------------------------------
# Bounds and counts
# ---------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=5),
    st.floats(1e-3, 0.5),
    st.integers(1, 9),
)
def test_bounds_are_those_of_the_binomial(pairs, delta, n_votes):
    counts = tuple((errors, errors + right) for errors, right in pairs)
    labels = tuple(map(str, range(len(counts))))
    groups = GroupErrors.of(GroupCounts("", False, labels, counts), float(np.log(n_votes)), delta)
    level = delta / (len(counts) * n_votes)
    for (errors, n), bound in zip(counts, groups.bounds, strict=True):
        assert bound == pytest.approx(upper(errors, n, level), rel=1e-6)
        assert bound >= upper(errors, n, level) * (1 - 1e-9)
    assert groups.worst.errors.bound == max(groups.bounds)
    alone = [1 - level ** (1 / n) if n else 1.0 for _, n in counts]
    assert {rate.label for rate in groups.find_small(delta)} == {
        label for label, bound in zip(labels, alone, strict=True) if bound > 0.5
    }
    groups.check(delta, sum(n for _, n in counts), sum(errors for errors, _ in counts))


@given(st.data())
def test_errors_are_counted_by_group(data):
    n = data.draw(st.integers(1, 30))
    labels = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    wrong = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    rows = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    masks = {name: labels != name for name in "abc"}
    by_label, by_mask = (Groups.of(one, n).take(rows).count(wrong[rows]) for one in (labels, masks))
    # Groups that labels declare are those of all rows, also where none of the chosen ones is in them.
    assert by_label.labels == tuple(sorted(set(labels.tolist())))
    expected = [np.count_nonzero(wrong[rows][labels[rows] == name]) for name in by_label.labels]
    assert [errors for errors, _ in by_label.counts] == expected
    assert by_mask.counts == tuple(
        (np.count_nonzero(wrong[rows][masks[name][rows]]), np.count_nonzero(masks[name][rows])) for name in "abc"
    )


@pytest.mark.parametrize(
    ("groups", "name", "labels"),
    [
        (["b", "a", "b"], "", ("a", "b")),
        (np.array([2.0, 1.0, 2.0]), "", ("1", "2")),
        ([True, False, True], "", ("False", "True")),
        (pd.Series([1, 2, 1], name="site"), "site", ("1", "2")),
        (pd.Series(["x", "y", "x"], dtype="category", name="c"), "c", ("x", "y")),
        ("s", "s", ("u", "v")),
        (pd.DataFrame({"old": [True, False, True], "none": [False] * 3}), "", ("old", "none")),
    ],
)
def test_groups_in_other_forms(groups, name, labels):
    declared = Groups.of(groups, 3, pd.DataFrame({"s": list("uvu")}))
    assert (declared.name, declared.labels, len(declared)) == (name, labels, 3)
    assert declared.overlapping == hasattr(groups, "columns")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "b"], r"one label for each of the 3 rows, or masks .*, got shape \(2,\)"),
        (np.ones((3, 2), dtype=bool), r"got shape \(3, 2\)"),
        (["a", None, "b"], "got none for 1 of 3 rows, first row 1: give these rows a group"),
        ([1.0, np.nan, np.nan], "got none for 2 of 3 rows, first row 1"),
        (pd.Series(["a", pd.NA, "b"]), "got none for 1 of 3 rows"),
        (np.array(["a", pd.NA, "b"], dtype=object), "got none for 1 of 3 rows"),
        (np.ma.array([1, 2, 1], mask=[False, True, False]), "got none for 1 of 3 rows, first row 1"),
        ({"a": np.ma.array([True] * 3, mask=[False, True, False])}, r"groups\['a'\] .*, got masked ones"),
        (["a", 1, "b"], None),  # NumPy makes text of it
        (np.array(["a", 1, "b"], dtype=object), "labels of one type, none of them missing, got int and str"),
        ({"a": [True, False, True], "b": [0.0, 1.0, 0.0]}, r"groups\['b'\] must be True or False for each of the 3"),
        ({"a": [True, False]}, r"groups\['a'\] must be True or False for each of the 3 rows, got bool of shape \(2,\)"),
        ({}, "at least one group"),
        ({1: [True] * 3, "1": [False] * 3}, "different names in their first 200 characters, got '1' twice"),
        ("town", "there is no column 'town'"),
    ],
)
def test_groups_that_are_none(groups, message):
    table = pd.DataFrame({"city": list("uvu")})
    if message is None:
        assert Groups.of(groups, 3).labels == ("1", "a", "b")
        return
    with pytest.raises(ValueError, match=message):
        Groups.of(groups, 3, table)


def test_too_many_groups():
    with pytest.raises(ValueError, match="groups must be at most 1000, got 1001"):
        Groups.of(np.arange(MOST_GROUPS + 1), MOST_GROUPS + 1)
    assert len(Groups.of(np.arange(MOST_GROUPS), MOST_GROUPS).labels) == MOST_GROUPS


def test_names_of_columns_are_for_data_frames():
    with pytest.raises(ValueError, match="must be an array unless X is a data frame in memory, got the name"):
        small().fit(X, Y, groups="side")


# ---------------------------------------------------------------------------------------------------
# Certificates
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["majority", "gibbs", "best", "uniform"])
def test_held_out_rows_by_group(voting):
    model = small(voting=voting, holdout=(0.5, 0.4)).fit(X, Y, groups=SIDE)
    certificate, held_out = model.certificate_, model.fitted_votes_.best.split.held_out
    groups = certificate.groups
    assert groups.labels == ("left", "rare", "right")
    assert sum(n for _, n in groups.counts) == held_out.size
    assert sum(errors for errors, _ in groups.counts) == certificate.statements[0].figures["errors"]
    if voting != "gibbs":
        wrong = model.predict(X[held_out]) != Y[held_out]
        for label, (errors, n), bound in zip(groups.labels, groups.counts, groups.bounds, strict=True):
            own = SIDE[held_out] == label
            assert (errors, n) == (np.count_nonzero(wrong[own]), np.count_nonzero(own))
            assert bound == pytest.approx(upper(errors, n, 0.05 / (3 * 2)), rel=1e-6)
    assert model.verify_certificate(certificate, X, Y, groups=SIDE) == "arithmetic, model and data"


def test_groups_change_nothing_else(moons):
    plain = small().fit(X, Y)
    np.testing.assert_array_equal(plain.posterior_, moons.posterior_)
    codes = tuple(code for code in moons.certificate_.assumption_codes if code != "groups-declared")
    assert replace(moons.certificate_, groups=None, assumption_codes=codes) == plain.certificate_
    assert "groups" not in json.loads(plain.certificate_.to_json())


def test_what_is_said(moons):
    certificate = moons.certificate_
    worst = certificate.groups.worst
    assert worst.label == "rare"
    text = str(certificate)
    assert f"By group, on {certificate.statements[0].figures['n']} held-out points" in text
    assert "The worst group is 'rare'" in text
    assert f"Too few points to prove much, even if none were an error: 'rare' ({worst.errors.n})." in text
    assert "the groups were declared without looking at errors" in text
    html = certificate._repr_html_()
    assert "The worst group is &#x27;rare&#x27;" in html
    assert certificate.group_table().rows[0][0] == "rare"
    assert small().fit(X, Y).certificate_.group_table() is None


def test_many_groups_are_cut():
    certificate = small().fit(X, Y, groups=np.arange(300) % 60).certificate_
    table = certificate.group_table()
    assert len(table.rows) == 50
    assert table.notes[-1] == "10 more groups, with smaller bounds, are not shown."
    assert " and 52 more." in table.notes[-2]
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_new_points_by_group(moons):
    """Groups that the fit has not seen are bounded as others are: the bounds rest on the new points alone."""
    masks = pd.DataFrame({"up": NEW_X[:, 1] > 0, "all": np.full(400, True), "nobody": np.full(400, False)})
    certificate = moons.certify(NEW_X, NEW_Y, groups=masks, delta=0.1)
    wrong = moons.predict(NEW_X) != NEW_Y
    for rate in certificate.groups.rates():
        own = masks[rate.label].to_numpy()
        assert rate.errors[:2] == (np.count_nonzero(wrong[own]), np.count_nonzero(own))
        assert rate.errors.bound == pytest.approx(upper(*rate.errors[:2], 0.1 / 3), rel=1e-6)
    assert certificate.groups.worst.label == "nobody"
    assert certificate.groups.worst.errors.measured is None
    assert "A point may be in several groups, or in none." in str(certificate)
    assert Certificate.from_json(certificate.to_json()) == certificate
    without = moons.certify(NEW_X, NEW_Y)
    assert without.groups is None
    assert "groups-declared" not in without.assumption_codes


def test_labels_that_are_not_known_are_errors_of_their_group(moons):
    labels = NEW_Y.copy()
    labels[:10] = 7
    certificate = moons.certify(NEW_X, labels, groups=labels == 7)
    assert certificate.groups.counts[1] == (10, 10)
    assert certificate.groups.worst.label == "True"


def test_groups_of_other_losses_count_errors():
    model = small(loss=[[0, 1], [5, 0]]).fit(X, Y, groups=SIDE)
    certificate = model.certificate_
    assert sum(errors for errors, _ in certificate.groups.counts) == certificate.confusion.errors
    model.verify_certificate(certificate, X, Y, groups=SIDE)


def test_candidates_and_votes_share_delta():
    search = CertifiedGridSearch(small(), {"estimator__C": [1.0, 10.0]}).fit(X, Y, groups=SIDE)
    groups = search.certificate_.groups
    (errors, n), bound = groups.counts[0], groups.bounds[0]
    assert bound == pytest.approx(upper(errors, n, 0.05 / (3 * 4)), rel=1e-6)


def test_hypotheses_that_are_added():
    model = small(racing=False, n_hypotheses=10).fit(X, Y, groups=SIDE)
    model.add_hypotheses(X, Y, 20, groups=SIDE)
    whole = small(racing=False).fit(X, Y, groups=SIDE)
    assert model.certificate_.groups == whole.certificate_.groups
    assert model.add_hypotheses(X, Y, 22).certificate_.groups is None


def test_groups_need_held_out_rows():
    for settings in ({"holdout": None}, {"voting": "best"}):
        with pytest.raises(ValueError, match="groups need held-out rows, and this fit has none"):
            small(**settings).fit(X, Y, groups=SIDE)


def test_groups_need_labels(moons):
    with pytest.raises(ValueError, match="groups must be None without labels"):
        moons.certify(NEW_X, groups=NEW_Y)


def test_rows_of_a_source_by_group(tmp_path, moons):
    np.save(tmp_path / "rows.npy", X)
    model = small().fit(np.load(tmp_path / "rows.npy", mmap_mode="r"), Y, groups=SIDE)
    assert model.certificate_.groups == moons.certificate_.groups


# ---------------------------------------------------------------------------------------------------
# Verification, and who edits files
# ---------------------------------------------------------------------------------------------------


def test_verification_needs_the_groups(moons):
    certificate = moons.certificate_
    with pytest.raises(ValueError, match="groups must be given, as in fit"):
        moons.verify_certificate(certificate, X, Y)
    with pytest.raises(ValueError, match="groups must be given together with X and y"):
        moons.verify_certificate(certificate, groups=SIDE)
    assert moons.verify_certificate(certificate) == "arithmetic and model"
    for wrong, message in (
        (SIDE[::-1], r"groups\.counts of 'left' is stated as \(\d+, \d+\), and that of the classifier is"),
        (pd.Series(SIDE, name="other"), r"groups\.name is stated as '', and that of the classifier is 'other'"),
        ({"left": SIDE == "left"}, r"groups\.overlapping is stated as False"),
        (np.where(SIDE == "left", "l", SIDE), r"groups\.labels is stated as \('left', 'rare', 'right'\)"),
    ):
        with pytest.raises(CertificateError, match=message):
            moons.verify_certificate(certificate, X, Y, groups=wrong)
    named = small().fit(X, Y, groups=pd.Series(SIDE, name="side"))
    assert named.verify_certificate(named.certificate_, X, Y, groups=SIDE) == "arithmetic, model and data"
    plain = small().fit(X, Y)
    with pytest.raises(ValueError, match="groups must be left out"):
        plain.verify_certificate(plain.certificate_, X, Y, groups=SIDE)


def edited(certificate, change):
    """A certificate that was changed by somebody who knows how its checksum is made."""
    values = json.loads(certificate.to_json())
    change(values["groups"], values)
    values["checksum"] = checksum({name: value for name, value in values.items() if name != "checksum"})
    return json.dumps(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda groups, _: groups["bounds"].__setitem__(0, 0.001), r"groups.bounds\[0\] is stated as 0.001"),
        (lambda groups, _: groups["counts"].__setitem__(0, [0, 9]), "the number of points in groups.counts"),
        (lambda groups, _: groups["counts"][2].__setitem__(0, 0), "the number of errors in groups.counts"),
        (lambda groups, _: groups["counts"].__setitem__(0, [9, 3]), "9 errors on 3 points of 'left', which is imposs"),
        (lambda groups, _: groups["counts"].pop(), "groups.counts must hold one entry for each of 3 groups"),
        (lambda groups, _: groups["bounds"].pop(), "groups.bounds must hold one entry for each of 3 groups"),
        (lambda groups, _: groups["labels"].__setitem__(0, "rare"), "groups.labels must be different"),
        (lambda groups, _: groups["labels"].__setitem__(0, 5), r"groups.labels\[0\] must be text"),
        (lambda groups, _: groups.update(kl_div=0.0), "groups.kl_div is stated as 0.0"),
        (lambda groups, _: groups.pop("name"), "groups must be an object with the fields"),
        (lambda _, values: values["assumptions"].remove("groups-declared"), "must state 'groups-declared'"),
    ],
)
def test_edited_groups_are_refused(moons, change, message):
    with pytest.raises(CertificateError, match=message):
        Certificate.from_json(edited(moons.certificate_, change))


def test_groups_that_are_not_the_models_are_refused(moons):
    """Arithmetic cannot tell groups from others with as many errors: the model and the data can."""
    groups = moons.certificate_.groups
    forged = replace(moons.certificate_, groups=replace(groups, labels=("a", "b", "c")))
    forged.check()
    with pytest.raises(CertificateError, match=r"groups\.labels is stated as"):
        moons.verify_certificate(forged)
    codes = tuple(code for code in forged.assumption_codes if code != "groups-declared")
    with pytest.raises(CertificateError, match="groups is stated as None"):
        moons.verify_certificate(replace(forged, groups=None, assumption_codes=codes))


def test_names_of_many_groups_fit_into_a_file(moons):
    labels = tuple(f"{i:03}" + "\N{GRINNING FACE}" * 197 for i in range(MOST_GROUPS))
    certificate, price = moons.certificate_, moons.certificate_.groups.kl_div
    many = GroupErrors.of(GroupCounts("", True, labels, ((0, 1),) * MOST_GROUPS), price, certificate.delta)
    long = certificate.revise(groups=many)
    assert Certificate.from_json(long.to_json()) == long
