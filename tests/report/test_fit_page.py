"""The page of a fit: what it says, that it stands alone, and how it looks in a browser."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
from report.browsing import opened
from report.outline import Outline, check_sound, check_stands_alone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sweeps import sweep

from pacbayes import Certificate, PACBayesClassifier, bounds
from pacbayes._formatting import format_nearest, format_percent, format_percent_upper, format_upper
from pacbayes.pools import EstimatorPool, LinearPool, RBFSVMPool, UnionPool
from pacbayes.report import fit_page, write_page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer(as_frame=True)
    labels = data.target_names[data.target]
    return data.data[:400], labels[:400], data.data[400:], labels[400:]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def svms(cancer):
    X, y, _, _ = cancer
    return PACBayesClassifier(RBFSVMPool(scaler="standard"), n_hypotheses=40, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def svm_page(svms):
    return fit_page(svms)


@pytest.fixture(scope="module")
def pipelines(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=[EVIL, "b", "c", "d"])
    learner = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    drawn = {"decisiontreeclassifier__max_depth": [1, 2, 3]}
    pool = EstimatorPool(learner, param_distributions=drawn)
    model = PACBayesClassifier(pool, n_hypotheses=30, random_state=0)
    groups = {"&wide": X[:, 1] > 3, f"{EVIL} long": X[:, 0] > 5.5}
    return model.fit(frame, np.array([EVIL, "versicolor", "virginica"])[y], groups=groups)


@pytest.fixture(scope="module")
def prefit(cancer):
    X, y, X_val, y_val = cancer
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y) for depth in (1, 2, 3)]
    return PACBayesClassifier.from_prefit(trees, X_val, y_val)


@pytest.fixture(scope="module")
def always_wrong():
    """A fit with a bound of 1: the classifiers have learned the opposite."""
    X = np.arange(20.0)[:, np.newaxis]
    y = (X[:, 0] > 9).astype(int)
    return PACBayesClassifier.from_prefit([DecisionTreeClassifier().fit(X, 1 - y)], X, y, voting="majority")


@pytest.fixture(scope="module")
def not_strict(iris):
    settings = {"n_hypotheses": 40, "holdout": None, "random_state": 0}
    return PACBayesClassifier(RBFSVMPool(gamma_source="sample"), **settings).fit(*iris)


@pytest.fixture(scope="module")
def brier(iris):
    return PACBayesClassifier(
        LogisticRegression(max_iter=1000), n_hypotheses=20, loss="brier", objective="kl", random_state=0
    ).fit(*iris)


@pytest.fixture(scope="module")
def costs(iris):
    settings = {"n_hypotheses": 20, "loss": [[0, 1, 2], [1, 0, 7.25], [2, 1, 0]], "random_state": 0}
    return PACBayesClassifier(RBFSVMPool(), objective="dual", **settings).fit(*iris)


@pytest.fixture
def few_plots(no_pictures, monkeypatch):
    """Pages without the plots of the posterior, for tests of the rest."""
    monkeypatch.setattr("pacbayes.report._plots.posterior_plots", lambda model: [])


def cells(page, section):
    """Rows of the table in a section."""
    part = page[page.index(f'<section id="{section}"') :]
    body = part[part.index("<tbody>") : part.index("</tbody>")]
    return [
        [unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


# ---------------------------------------------------------------------------------------------------
# Content
# ---------------------------------------------------------------------------------------------------


def test_settings_are_split_by_whether_they_were_changed():
    from pacbayes.report._fit import _split_settings

    settings = {"max_depth": 3, "min_samples_leaf": 1}
    changed, defaults = _split_settings([("tree__", DecisionTreeClassifier, settings)])
    assert (changed, defaults) == ({"tree__max_depth": "3"}, {"tree__min_samples_leaf": "1"})


def test_page_of_default_svms(svms, cancer):
    _, y, _, _ = cancer
    counts = dict(zip(*np.unique(y, return_counts=True), strict=True))
    page = fit_page(svms, title="Breast cancer", data={"File": "cancer.csv"}, class_counts=counts)
    check_sound(page)
    check_stands_alone(page)
    text = Outline(page).text
    proved = svms.certificate_
    assert proved.summary() in text
    assert "? strict, if all of this is true" in text
    for assumption in proved.assumptions:
        assert assumption in text
    assert "Not strict" not in text
    for shown in ("Breast cancer", "cancer.csv", "malignant (173)", "benign (227)", "mean radius"):
        assert shown in text
    vote = svms.fitted_votes_.best
    for shown in (f"validate{400 - vote.n_held_out}", f"certificate{vote.n_held_out}"):
        assert shown in text
    assert "<dt>estimator__scaler</dt><dd>&#39;standard&#39;</dd>" in page
    # What was changed comes before what was not, of the classifier and of its pool.
    defaults = page.index("left at their defaults")
    assert page.index("<dt>random_state</dt>") < defaults < page.index("<dt>objective</dt>")
    assert defaults < page.index("<dt>estimator__gamma_source</dt>")
    for name in ("pacbayes", "python", "numpy", "scipy", "scikit-learn"):
        assert f"<dt>{name}</dt>" in page
    assert len(Outline(page).all("figure")) == 7
    assert json.loads(unescape(re.findall(r"<code>({.*?})</code>", page, re.DOTALL)[0])) == json.loads(proved.to_json())


def test_bounds_are_the_rows_of_the_certificate(svms, svm_page):
    rows = svms.certificate_.rows()
    shown = cells(svm_page, "bounds")
    kinds = {"measured": ", measured", "certified": ", certified", "comparison": ""}
    assert [row[0].lower() for row in shown] == [f"{row.label}{kinds[row.kind]}".lower() for row in rows]
    rounding = {"measured": format_nearest}
    assert [row[1] for row in shown] == [rounding.get(row.kind, format_upper)(row.value) for row in rows]
    assert [row[2] for row in shown] == [row.predictor for row in rows]
    # The tiles on top, and the picture, show the same numbers.
    first = svms.certificate_.statements[0]
    error = first.figures["errors"] / first.figures["n"]
    tiles = [format_percent_upper(first.bound), format_percent(error)]
    assert [rows[0].shown, format_upper(first.bound)] == [format_nearest(error), shown[2][1]]
    tiles.append(format_percent(svms.certificate_.commonest_class[1]))
    assert re.findall(r'<span class="value">(.*?)</span>', svm_page) == tiles
    start = svm_page.index('<figure id="plot-certificate"')
    picture = svm_page[start : svm_page.index("</figure>", start)]
    assert re.findall(r">(\d\.\d{4})<", picture) == [row[1] for row in shown]
    for name, value in svms.certificate_.figures().items():
        assert f"{name}{value}" in Outline(svm_page).text


def test_test_set(svms, cancer, few_plots):
    X_test, y_test = cancer[2][:60], cancer[3][:60]
    shown = cells(fit_page(svms, X_test=X_test, y_test=y_test), "bounds")
    errors = int((svms.predict(X_test) != y_test).sum())
    assert shown[-2] == [
        f"Test error, {y_test.size} points, measured",
        format_nearest(errors / y_test.size),
        "majority vote",
    ]
    bound = format_upper(float(bounds.clopper_pearson(errors, y_test.size, 0.05)))
    assert shown[-1] == ["Clopper-Pearson, test set", bound, "majority vote"]


def test_heaviest_voters(svms, few_plots):
    shown = cells(fit_page(svms, heaviest=4), "voters")
    order = np.argsort(-svms.posterior_, kind="stable")[:4]
    assert [row[0] for row in shown] == ["1", "2", "3", "4"]
    assert [row[5] for row in shown] == [str(h) for h in order]
    for row, h in zip(shown, order, strict=True):
        svm = svms.hypotheses_[h]
        assert float(row[1]) == pytest.approx(svms.posterior_[h], abs=1e-4)
        assert row[3] == format_nearest(svms.losses_[h])
        assert row[4] == str(svms.subsamples_.sizes[h])
        assert row[6] == f"RBF-SVM, gamma = {svm.gamma:.3g}, C = {svm.C:g}, {svm.support.size} support vectors"
        assert row[6] == svms.hypotheses_.describe(h)
    assert float(shown[-1][2]) == pytest.approx(svms.posterior_[order].sum(), abs=1e-4)


def test_families_of_voters(iris, few_plots):
    families = [("svm", RBFSVMPool(n_hypotheses=6)), ("<b>", LinearPool(n_hypotheses=2))]
    model = PACBayesClassifier(UnionPool(families), random_state=0).fit(*iris)
    page = fit_page(model)
    check_sound(page)
    assert "<b>" not in page
    assert model.certificate_.describe_weights() in unescape(page)
    for row in cells(page, "voters"):
        family, kind = ("svm", "RBF-SVM") if int(row[5]) < 6 else ("<b>", "logistic regression")
        assert row[6] == family
        assert row[7].startswith(kind)


def test_drawn_parameters_of_voters(pipelines, few_plots):
    """A pipeline is described by its repr, cut if it is long."""
    for *_, h, description in cells(fit_page(pipelines), "voters"):
        depth = pipelines.hypotheses_[int(h)].get_params()["decisiontreeclassifier__max_depth"]
        assert f"DecisionTreeClassifier(max_depth={depth}" in description
        assert len(description) <= 160


def test_errors_by_group(pipelines, few_plots):
    page, certificate = fit_page(pipelines), pipelines.certificate_
    names = [row[0] for row in cells(page, "groups")]
    assert sorted(names) == sorted(certificate.groups.labels)
    shown = unescape(page)
    assert f"The worst group is {certificate.groups.worst.label!r}" in shown
    assert certificate.group_table().title in shown
    assert '<a href="#groups">Groups</a>' in page


def test_prefit(prefit, no_pictures):
    page = fit_page(prefit)
    shown = cells(page, "voters")
    assert sorted(row[6] for row in shown) == [
        f"DecisionTreeClassifier(max_depth={depth}, random_state=0)" for depth in (1, 2, 3)
    ]
    assert {row[4] for row in shown} == {"-"}
    assert "They were trained on other data" in page
    # Smaller pools are not what the first of these would have been.
    assert "plot-pool" not in page


def test_constants_and_failures(iris, few_plots):
    class FailsOnSome(DecisionTreeClassifier):
        def fit(self, X, y):
            if len(y) == 2:
                raise ValueError("too few points")
            return super().fit(X, y)

    X, y = iris
    pool = EstimatorPool(FailsOnSome(), on_error="drop")
    model = PACBayesClassifier(pool, subsamples=[[0, 50], [0, 1], [0, 50, 100]], voting="uniform").fit(X, y)
    assert [row[6] for row in cells(fit_page(model), "voters")] == [
        "could not be trained: its loss counts as 1",
        "constant: always 0",
        f"FailsOnSome(random_state={model.hypotheses_[2].random_state})",
    ]
    model = PACBayesClassifier(RBFSVMPool(), subsamples=[[0, 1], [0, 50]], voting="uniform", random_state=0).fit(X, y)
    assert cells(fit_page(model), "voters")[0][6] == "constant: always 0"


@pytest.mark.parametrize(
    ("voting", "objective"),
    [("majority", "kl"), ("gibbs", "lambda"), ("best", "lambda"), ("uniform", "lambda")],
)
def test_votings_and_objectives(iris, no_pictures, voting, objective):
    model = PACBayesClassifier(RBFSVMPool(), voting=voting, objective=objective, n_hypotheses=12, random_state=0).fit(
        *iris
    )
    page = fit_page(model)
    check_sound(page)
    text = Outline(page).text
    assert model.certificate_.summary() in text
    shown = [row for row in cells(page, "bounds") if row[0].endswith(", certified")]
    stated = [[format_upper(statement.bound), statement.predictor] for statement in model.certificate_.statements]
    assert [[row[1].split(",")[0], row[2]] for row in shown] == stated
    assert shown[0][2] == model.certificate_.predictor
    if voting == "best":
        assert "all weight on the best hypothesis" in text
        assert len(cells(page, "voters")) == 1


@pytest.mark.parametrize("prior", [None, [1.0]])
def test_one_hypothesis(iris, no_pictures, prior):
    """No plot of smaller pools, of which there are none."""
    page = fit_page(PACBayesClassifier(RBFSVMPool(), n_hypotheses=1, prior=prior, random_state=0).fit(*iris))
    check_sound(page)
    assert len(cells(page, "voters")) == 1
    assert "plot-pool" not in page


def test_reserved_points_and_folds(iris, no_pictures):
    X, y = iris
    settings = {"holdout": None, "random_state": 0}
    reserved = PACBayesClassifier(RBFSVMPool(gamma_source="reserved"), n_hypotheses=10, **settings).fit(X, y)
    text = Outline(fit_page(reserved)).text
    assert "Points that train and validate135" in text
    assert "estimator__gamma_source'reserved'" in text
    splitter = KFold(3, shuffle=True, random_state=0)
    folds = PACBayesClassifier(DecisionTreeClassifier(), subsamples=splitter, **settings).fit(X, y)
    page = fit_page(folds)
    check_sound(page)
    assert {row[4] for row in cells(page, "voters")} == {"100"}
    assert "plot-pool" not in page


def test_not_strict_is_said_first(not_strict, no_pictures):
    page = fit_page(not_strict)
    text = Outline(page).text
    assert "Not strict: the theorem does not cover this fit." in text
    assert text.index("Not strict") < text.index("If it did: with probability at least 0.95")
    assert "✗ not strict" in text
    assert "? strict" not in text
    assert "Hatched: the theorem does not cover these bounds." in text


def test_held_out_points_do_not_need_the_theorem(iris, no_pictures):
    model = PACBayesClassifier(RBFSVMPool(gamma_source="sample"), n_hypotheses=20, random_state=0).fit(*iris)
    text = Outline(fit_page(model)).text
    assert "the theorem does not cover bounds from validation points" in text
    assert "If it did" not in text


def test_bound_of_one_proves_nothing(always_wrong, few_plots):
    assert always_wrong.certificate_.gibbs_bound == 1
    page = fit_page(always_wrong)
    text = Outline(page).text
    assert "Nothing is proved about the majority vote, which makes the predictions." in text
    assert "Nothing is proved: the bound on the majority vote is 1.0000 (delta = 0.05)" in text
    assert "errs on at most" not in text
    assert "The majority vote nothing is proved" in text
    assert ["Direct PAC-Bayes bound, certified", "1.0000, nothing is proved", "randomised classifier"] in cells(
        page, "bounds"
    )


def test_bound_no_better_than_a_constant(few_plots):
    rng = np.random.default_rng(0)
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, voting="gibbs", random_state=0)
    model.fit(rng.normal(size=(40, 2)), np.arange(40) % 4 == 0)
    assert 0.25 <= model.certificate_.bound < 1
    text = Outline(fit_page(model)).text
    assert (
        "Not shown to be better than a constant. This does not show that the classifier is any better than always "
        "predicting 'False', which errs on 25.00% (measured)." in text
    )


def test_which_columns_matter(few_plots):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dull & <b>": rng.normal(size=300), "telling": rng.normal(size=300)})
    y = np.where(X["telling"] > 0, "up", "down")
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, random_state=0).fit(X, y)
    page = fit_page(model, X=X, y=y)
    (first, gain), (second, _) = cells(page, "columns")
    assert (first, second) == ("telling", "dull & <b>")
    assert float(gain.rstrip("%")) > 30
    # Without rows that had no part in the vote there is nothing to measure on.
    assert 'id="columns"' not in fit_page(model)
    paper = PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, holdout=None, random_state=0).fit(X[:150], y[:150])
    assert 'id="columns"' not in fit_page(paper, X=X[:150], y=y[:150])
    assert cells(fit_page(paper, X_test=X[150:], y_test=y[150:]), "columns")[0][0] == "telling"
    with pytest.raises(ValueError, match="X and y must be given together, got no y"):
        fit_page(model, X=X)


def test_loss_without_a_bound_on_the_vote(brier, no_pictures):
    page = fit_page(brier)
    text = Outline(page).text
    assert "; about the labels that are predicted nothing is proved." in text
    assert "Nothing is proved about the labels that are predicted." in text
    assert "majority vote" not in [row[2] for row in cells(page, "bounds")]
    assert (
        "brier loss of the probabilities of the randomised classifier on new points from the same distribution is"
        in text
    )


def test_many_names_are_cut_short(few_plots):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 60)), columns=[f"feature {i}" for i in range(60)])
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=5, subsample_size=10, random_state=0).fit(
        X, np.arange(80) % 2
    )
    text = Outline(fit_page(model)).text
    assert "feature 39 and 20 more" in text
    assert "feature 40" not in text


def test_lines_for_verification_run(svms, tmp_path, monkeypatch, capsys, few_plots):
    pytest.importorskip("skops")
    from pacbayes.io import save_model

    monkeypatch.chdir(tmp_path)
    names = {"model_path": "a 'model'.skops", "certificate_path": "a <proof>.json"}
    save_model(svms, names["model_path"])
    (tmp_path / names["certificate_path"]).write_text(svms.certificate_.to_json(), encoding="utf-8")
    page = fit_page(svms, **names)
    command, lines, _ = (unescape(code) for code in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL))
    assert shlex.split(command) == ["pacbayes", "verify", names["certificate_path"], "--model", names["model_path"]]
    exec(lines, {})
    assert capsys.readouterr().out == "arithmetic and model\n"


def test_same_model_gives_the_same_page(svms, svm_page):
    assert fit_page(svms) == svm_page


def test_what_is_refused(svms):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        fit_page(PACBayesClassifier())
    with pytest.raises(TypeError, match="must have a certificate, as a PACBayesClassifier has, got LogisticRegression"):
        fit_page(LogisticRegression())
    with pytest.raises(ValueError, match="heaviest must be at least 1, got 0"):
        fit_page(svms, heaviest=0)


def test_everything_is_escaped(pipelines):
    model = PACBayesClassifier(**pipelines.get_params(deep=False))
    model.__dict__.update(pipelines.__dict__)
    evil = replace(pipelines.certificate_, loss=EVIL, assumption_codes=(f"stated:{EVIL}",))
    model.fitted_votes_ = pipelines.fitted_votes_.with_certificates([evil] * len(pipelines.votes_))
    page = fit_page(
        model,
        title=EVIL,
        data={EVIL: EVIL, "many": [EVIL, EVIL]},
        settings={EVIL: EVIL},
        class_counts={EVIL: 50},
        model_path=EVIL,
        certificate_path=EVIL,
    )
    check_sound(page)
    check_stands_alone(page)
    text = Outline(page).text
    assert f"{EVIL} (50)" in text
    # Title twice, loss, assumption, data, settings, feature, class, files.
    assert text.count("alert(1)") >= 15
    assert EVIL not in page


# ---------------------------------------------------------------------------------------------------
# In a browser
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", sweep(["svms", "pipelines", "not_strict", "prefit", "always_wrong", "brier", "costs"], quick=[0])
)
def test_page_in_a_browser(browser, request, cancer, tmp_path, name):
    model = request.getfixturevalue(name)
    tested = {"X_test": cancer[2], "y_test": cancer[3]} if name == "svms" else {}
    html = fit_page(model, title=EVIL, data={EVIL: EVIL * 20}, settings={"file": "long-name-" * 40}, **tested)
    path = write_page(tmp_path / "report.html", html)
    for width in (1280, 390):
        with opened(browser, path, width, "dark" if name == "pipelines" else "light") as page:
            check_shown(page, model, width)
            assert page.get_by_text("Not strict: the theorem does not cover this fit").count() == (name == "not_strict")
            assert page.get_by_text("Clopper-Pearson, test set").count() == (2 if tested else 0)


def check_shown(page, model, width):
    assert page.get_by_role("heading", level=1).inner_text() == EVIL
    by_class, *others = page.get_by_role("heading", level=2).all_inner_texts()
    assert by_class == model.certificate_.class_table().title
    assert others[-7:] == [
        "What was assumed",
        "Data",
        "How it is proved: bounds",
        "How the weights were chosen",
        "Heaviest voters",
        "Settings and versions",
        "How to verify",
    ]
    assert page.get_by_text(model.certificate_.summary()).is_visible()
    for assumption in model.certificate_.assumptions:
        assert page.locator(".assumptions").get_by_text(assumption).is_visible()
    assert page.locator("figure svg").count() >= 4
    # The bounds themselves are to be seen without scrolling sideways.
    values = page.locator("#bounds td.number")
    assert values.count() >= 5
    assert all(box["x"] + box["width"] <= width for box in (cell.bounding_box() for cell in values.all()))
    page.get_by_text("The certificate", exact=True).click()
    shown = page.locator("details pre").inner_text()
    assert Certificate.from_json(shown) == model.certificate_


@pytest.mark.slow
def test_the_demos_page_in_a_browser(browser, tmp_path):
    subprocess.run([sys.executable, "-m", "pacbayes", "demo", "-o", tmp_path], check=True, capture_output=True)
    for width in (1280, 390):
        with opened(browser, tmp_path / "report.html", width) as page:
            assert page.locator("figure").count() >= 3
            assert page.get_by_text("What was assumed").is_visible()
            assert page.locator("#assumptions").get_by_text("independent and identically distributed").is_visible()


@pytest.mark.slow
def test_a_column_that_is_a_script_in_a_browser(browser, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    lines = [f"{a:.3f},{'<b>yes</b>' if a > 0 else 'no'}" for a in x]
    (tmp_path / "data.csv").write_text("<script>alert(1)</script>,kind\n" + "\n".join(lines) + "\n")
    for arguments in (
        ["fit", "data.csv", "--target", "kind", "--estimator", "svm"],
        ["report", "model.skops", "-o", "report.html"],
    ):
        command = [sys.executable, "-m", "pacbayes", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for width in (1280, 390):
        with opened(browser, tmp_path / "report.html", width) as page:
            assert page.locator("script").count() == 0
            assert "<script>alert(1)</script>" in page.locator("body").inner_text()
