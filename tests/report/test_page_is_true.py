"""Every caption, label and number of the page of a fit, against the certificate: for each way to fit."""

import itertools
import re
from html import unescape

import numpy as np
import pytest
from report.outline import Outline
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier, certify
from pacbayes._formatting import format_nearest, format_percent, format_percent_upper, format_upper
from pacbayes.certificate import METHODS
from pacbayes.datasets import waveform
from pacbayes.pools import RBFSVMPool
from pacbayes.posterior import minimize_lambda_bound
from pacbayes.report import fit_page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

COSTS = [[0, 1, 2], [1, 0, 5], [2, 1, 0]]
RANDOMISED, MAJORITY, BEST = "randomised classifier", "majority vote", "best hypothesis"
PREDICTORS = {"majority": MAJORITY, "uniform": MAJORITY, "gibbs": RANDOMISED, "best": BEST}


def combinations():
    every = itertools.product(
        ("lambda", "kl", "dual", "direct"),
        ("majority", "gibbs", "best", "uniform"),
        (None, 0.5, "auto"),
        ("zero_one", "cost"),
    )
    for objective, voting, holdout, loss in every:
        plain = holdout is None and loss == "zero_one" and voting == "majority"
        untested = voting == "best" and holdout == "auto" and loss == "zero_one"
        quick = (plain and objective != "dual") or (objective == "dual" and (holdout == 0.5 or untested))
        yield pytest.param(objective, voting, holdout, loss, marks=[] if quick else [pytest.mark.slow])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return train_test_split(X, names[y], test_size=0.4, random_state=0)


@pytest.fixture
def figures(monkeypatch):
    """The figures that the next page is made of, by name, as Matplotlib has them: to render them takes long."""
    drawn = {}

    def keep(figure, prefix):
        drawn[prefix.strip("-")] = figure
        return "<svg></svg>"

    monkeypatch.setattr("pacbayes.report._plots.svg_element", keep)
    return drawn


class Page:
    """What a page says, piece by piece."""

    def __init__(self, html):
        self.html = html
        self.text = Outline(html).text
        self.tiles = [
            tuple(
                unescape(re.search(rf'class="{part}[^"]*">(.*?)</span>', tile)[1])
                for part in ("who", "value", "remark")
            )
            for tile in re.findall(r"<li>(<span class=\"who\">.*?)</li>", html)
        ]

    def rows(self, section):
        part = self.html[self.html.index(f'<section id="{section}"') :]
        body = part[part.index("<tbody>") : part.index("</tbody>")]
        return [
            [unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        ]

    def plot(self, name):
        """Title, description for screen readers, and caption."""
        part = self.html[self.html.index(f'<figure id="{name}"') :]
        part = part[: part.index("</figure>")]
        found = re.search(r"<h3[^>]*>(.*?)</h3>.*aria-label=\"(.*?)\".*<figcaption>(.*?)</figcaption>", part, re.DOTALL)
        return [unescape(words) for words in found.groups()]


def legend(figure):
    """Labels by kind of line, and the title."""
    (box,) = figure.legends
    return [text.get_text() for text in box.get_texts()], box.get_title().get_text()


def capitalized(text):
    return text[:1].upper() + text[1:]


def with_unit(loss, value, rounded):
    """A loss as the page writes it: errors in percent, costs as a share of the largest."""
    return (
        {format_upper: format_percent_upper, format_nearest: format_percent}[rounded](value)
        if (loss == "zero_one")
        else f"{rounded(value)} of the largest cost, 5"
    )


# ---------------------------------------------------------------------------------------------------
# Each objective, voting, holdout and loss
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "voting", "holdout", "loss"), list(combinations()))
def test_page_of_every_kind_of_fit(iris, figures, objective, voting, holdout, loss):
    X, X_test, y, y_test = iris
    model = PACBayesClassifier(
        RBFSVMPool(),
        objective=objective,
        voting=voting,
        holdout=holdout,
        loss=COSTS if loss == "cost" else loss,
        n_hypotheses=8,
        racing=False,
        random_state=0,
    ).fit(X, y)
    page = Page(fit_page(model, X_test=X_test, y_test=y_test))
    certificate = model.certificate_
    assert (certificate.objective, certificate.voting) == (objective, voting)
    tested = certificate.statements[0] if certificate.statements[0].method.startswith("test-set") else None
    assert (tested is None) == (holdout is None or (voting == "best" and holdout == "auto"))
    rows = check_tiles(page, certificate, loss, tested, y_test)
    check_bounds(page, figures["plot-certificate"], certificate, loss, tested, rows)
    check_bound_curve(page, figures["plot-bound"], model)
    check_posterior(page, figures["plot-mass"], figures["plot-cumulative"], model)
    check_pool_size(page, figures["plot-pool"], model)
    check_sentences(page, certificate, tested)


def called(predictor, certificate):
    by_cost = predictor == MAJORITY and "expected-costs" in certificate.assumption_codes
    return "vote by expected cost" if by_cost else predictor


def check_tiles(page, certificate, loss, tested, y_test):
    """What is said first; return the rows of the table that repeat it: measured on test points, and proved by these."""
    who = called(PREDICTORS[certificate.voting], certificate)
    first = certificate.statements[0]
    errs, costs = f"The {who} errs on at most", f"Mean cost of the {who}, at most"
    expected = [
        (
            errs if loss == "zero_one" else costs,
            with_unit(loss, first.bound, format_upper),
            f"Certified, with probability 0.95; {METHODS[first.method].title}",
        )
    ]
    if called(first.predictor, certificate) != who:
        assert loss == "cost"
        expected = [(f"The {who}", "nothing is proved", "There is no bound below 1")]
    if tested is not None:
        expected.append(measured_tile(loss, "held-out", tested.figures))
    if loss == "zero_one":
        largest = max(certificate.label_counts)
        label = certificate.labels[certificate.label_counts.index(largest)]
        share = format_percent(1 - largest / sum(certificate.label_counts))
        expected.append((f"Always predicting {label!r} errs on", share, "Measured: the share of all other classes"))
    assert page.tiles[:-1] == expected
    # What was tested is not known from the certificate. All places must agree about it.
    *_, (measured, value, test_who), (method, bound, bound_who) = page.rows("bounds")
    assert test_who == bound_who == who
    n = y_test.size
    if loss == "zero_one":
        errors = round(float(value) * n)
        assert value == format_nearest(errors / n)
        figures = {"errors": errors, "n": n, "kl_div": 0.0}
        names = (f"Test error, {n} points, measured", "Clopper-Pearson, test set")
        proved = METHODS["test-set"].compute(0.05, **figures)
        claim = format_percent_upper(proved)
        assert bound == format_upper(proved)
    else:
        figures = {"loss": float(value), "n": n, "kl_div": 0.0}
        names = (f"Test loss, {n} points, measured", "Chernoff, test set")
        claim = f"{bound} of the largest cost, 5"
        assert float(bound) == pytest.approx(METHODS["test-set-chernoff"].compute(0.05, **figures), abs=5e-4)
    assert (measured, method) == names
    title, shown, remark = measured_tile(loss, "test", figures)
    assert page.tiles[-1] == (title, shown, f"{remark}, which alone prove at most {claim}")
    return [(measured, value, who), (method, bound, who)]


def measured_tile(loss, where, figures):
    n = figures["n"]
    if loss == "zero_one":
        errors = figures["errors"]
        count = f"{errors} error{'' if errors == 1 else 's'}"
        return f"On {where} points it erred on", format_percent(errors / n), f"Measured: {count} on {n} points"
    value = with_unit(loss, figures["loss"], format_nearest)
    return f"On {where} points", value, f"Measured: loss {format_nearest(figures['loss'])} on {n} points"


def check_bounds(page, figure, certificate, loss, tested, of_test):
    """The table and the bars: what is called certified are the statements, by their own methods and predictors."""
    shown = [tuple(row) for row in page.rows("bounds")]
    stated = [
        (f"{capitalized(METHODS[s.method].title)}, certified", format_upper(s.bound), called(s.predictor, certificate))
        for s in certificate.statements
    ]
    assert [(label, value.split(",")[0], who) for label, value, who in shown if label.endswith(", certified")] == stated
    assert shown[-2:] == of_test
    weighted = BEST if certificate.voting == "best" else RANDOMISED
    measured = [("Validation loss, measured", format_nearest(certificate.empirical_loss), weighted)]
    if tested is not None:
        figures = tested.figures
        share = figures["errors"] / figures["n"] if loss == "zero_one" else figures["loss"]
        who = called(tested.predictor, certificate)
        measured.insert(0, (f"Loss on {figures['n']} held-out points, measured", format_nearest(share), who))
    assert [row for row in shown[:-2] if row[0].endswith(", measured")] == measured
    others = [row for row in shown[:-2] if not row[0].endswith((", measured", ", certified"))]
    assert bool(others) == (tested is None)
    # The picture has the same rows.
    (ax,) = figure.axes
    names = [tick.get_text().split("\n") for tick in ax.get_yticklabels()]
    plain = [(re.sub(", (measured|certified)$", "", label), who) for label, _, who in shown]
    assert [(capitalized(label), who) for label, who in names] == plain
    values = [text.get_text() for text in ax.texts][: len(shown)]
    assert values == [value for _, value, _ in shown]
    assert ax.get_xlabel() == {"zero_one": "share of errors", "cost": "mean cost, in units of 5"}[loss]
    _, description, caption = page.plot("plot-certificate")
    bars = "; ".join(f"{label}, {who} {value}" for (label, who), value in zip(names, values, strict=True))
    assert description == f"Bars: {bars}."
    assert caption == "Each bound alone holds with probability 0.95."


def check_bound_curve(page, figure, model):
    """The weights are at the minimum of F(lambda) if the page says so, and elsewhere if it does not."""
    certificate = model.certificate_
    n = {"n": certificate.n_validation, "n_max": certificate.n_validation_max}
    delta = certificate.delta / certificate.n_votes
    best = minimize_lambda_bound(model.losses_, **n, delta=delta, prior=model.prior_, method="global")
    title, description, caption = page.plot("plot-bound")
    assert f"its minimum is {format_upper(best.fun)} at lambda = {best.lam:.3g}" in description
    minimised = certificate.voting in ("majority", "gibbs")
    says_so = "The weights are those at the minimum" in caption
    assert says_so == np.allclose(model.posterior_, best.rho, rtol=1e-6)
    assert says_so == (minimised and certificate.objective == "lambda")
    assert says_so or caption.startswith("The weights are not chosen by this curve: ")
    assert title == "PAC-Bayes-lambda bound as a function of lambda"
    words = {"best": "all weight on the best hypothesis", "uniform": "the prior itself"}
    expected = words.get(certificate.voting, f"global minimum of the {certificate.objective} bound, proved")
    assert caption.endswith(f": {expected}.")
    assert certificate.global_minimum == minimised
    labels, proved = legend(figure)
    assert f"minimum {format_upper(best.fun)} at $\\lambda$ = {best.lam:.3g}" in labels
    of_kl = [label for label in labels if "posterior" in label]
    in_range = minimised and certificate.objective == "kl" and certificate.lam < 2
    assert of_kl == ([f"posterior of the kl bound, $\\lambda$ = {certificate.lam:.3g}"] if in_range else [])
    assert ("proved strongly" in proved) == ("not proved" not in proved)


def check_posterior(page, mass, cumulative, model):
    rho, losses = model.posterior_, model.losses_
    falling = np.sort(rho)[::-1]
    half = 1 + int(np.flatnonzero(np.cumsum(falling) >= 0.5 - 1e-12)[0])
    holds = f"{half} of {rho.size} {'holds' if half == 1 else 'hold'} half of the mass"
    labels, title = legend(mass)
    assert title == holds
    loss = format_nearest(float(rho @ losses))
    assert loss == format_nearest(model.certificate_.empirical_loss)
    assert any(label.endswith(f"= {loss}") for label in labels)
    assert page.plot("plot-mass")[1] == (
        f"Posterior mass of hypotheses with validation losses from {format_nearest(losses.min())} to "
        f"{format_nearest(losses.max())}; the validation loss of the posterior is {loss}."
    )
    assert legend(cumulative)[0][-1] == holds
    assert (
        page.plot("plot-cumulative")[1]
        == f"Cumulative posterior mass: {half} of {rho.size} hypotheses hold half of it."
    )
    heaviest = page.rows("voters")
    assert [row[1] for row in heaviest] == [f"{w:.4f}" if w >= 1e-4 else f"{w:.1e}" for w in falling if w > 0]
    assert f"{np.count_nonzero(rho)} of {rho.size} hypotheses have weight." in page.text


def check_pool_size(page, figure, model):
    """Each point is the bound of a method that the legend names, and the legend names no other."""
    certificate, m = model.certificate_, model.losses_.size
    who = BEST if certificate.voting == "best" else RANDOMISED
    stated = []
    for k in range(1, m + 1):
        prior = None if model.prior_ is None else model.prior_[:k] / model.prior_[:k].sum()
        settings = {
            "delta": certificate.delta,
            "n_votes": certificate.n_votes,
            "loss": certificate.loss,
            "prior": prior,
        }
        fewer, _ = certify(
            model.losses_[:k],
            model.n_validation_[:k],
            objective=certificate.objective,
            voting=certificate.voting,
            **settings,
        )
        stated.append(next(statement for statement in fewer.statements if statement.predictor == who))
    (ax,) = figure.axes
    (label, _), title = legend(figure)
    methods = {METHODS[statement.method].title for statement in stated}
    assert {method.title for method in METHODS.values() if method.title in label} == methods
    assert label.endswith(f",\n{who}")
    assert title == "each bound alone holds with probability 0.95"
    sizes, bound = ax.lines[0].get_data()
    # The minimum of the dual bound is found as sharply as it is flat there.
    np.testing.assert_allclose(bound, [stated[size - 1].bound for size in sizes], rtol=1e-9)
    assert page.plot("plot-pool")[1] == (
        f"Bound ({' '.join(label.split())}) and validation loss for the first 1 to {m} hypotheses: the bound goes from "
        f"{format_upper(stated[0].bound)} to {format_upper(stated[-1].bound)}."
    )


def check_sentences(page, certificate, tested):
    text = page.text
    assert certificate.summary() in text
    for name, value in certificate.figures().items():
        assert f"{name}{value}" in text
    who = called(certificate.predictor, certificate)
    unproved = f"Nothing is proved about the {who}, which makes the predictions." in text
    assert unproved == (certificate.bound == 1)
    assert ("Points held out for the certificate" in text) == (tested is not None)
    assert ("validation losses and the result on held-out points that the model holds" in text) == (tested is not None)
    assert ("The randomised classifier draws a hypothesis" in text) == (certificate.voting != "best")
    for sentence in ("the weights of the vote were chosen by these points", "relaxations of", "At most On the"):
        assert sentence not in text
    # A method is named outside of the plot of smaller pools only where a statement is made by it.
    outside = text[: text.index("How the weights were chosen")].lower()
    for code, method in METHODS.items():
        if code != "pac-bayes-kl":  # which is there to compare with, too
            assert (method.title.lower() in outside) == any(s.method == code for s in certificate.statements)


# ---------------------------------------------------------------------------------------------------
# The randomised classifier
# ---------------------------------------------------------------------------------------------------


def noisy(n, seed):
    """Points with labels that no column explains: the randomised classifier errs on many."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


@pytest.fixture(scope="module")
def randomised():
    return PACBayesClassifier(RBFSVMPool(), voting="gibbs", n_hypotheses=8, random_state=0).fit(*noisy(120, 0))


def test_randomised_classifier_is_tested_once(randomised, figures):
    """It predicts otherwise in every call: with 400 points, two calls hardly ever err equally often."""
    X_test, y_test = noisy(400, 1)
    for _ in range(3):
        page = Page(fit_page(randomised, X_test=X_test, y_test=y_test))
        (_, shown, remark) = page.tiles[-1]
        errors = int(re.match(r"Measured: (\d+) errors on 400 points", remark)[1])
        assert shown == format_percent(errors / 400)
        assert page.rows("bounds")[-2][1] == format_nearest(errors / 400)
        assert [text.get_text() for text in figures["plot-certificate"].axes[0].texts][:-1][-2] == format_nearest(
            errors / 400
        )


def test_a_test_that_was_made_before_is_not_made_again(randomised, figures):
    X_test, y_test = noisy(400, 1)
    pages = {
        fit_page(randomised, X_test=X_test, y_test=y_test, test=(177, 400), data={"Held-out test": "177 errors"})
        for _ in range(2)
    }
    (html,) = pages
    page = Page(html)
    assert page.tiles[-1][1] == "44.25%"
    assert page.rows("bounds")[-2] == ["Test error, 400 points, measured", "0.4425", RANDOMISED]
    # Which columns matter is measured without drawing hypotheses.
    assert len(page.rows("columns")) == 3
    assert Page(fit_page(randomised, test=(177, 400))).rows("bounds")[-2:] == page.rows("bounds")[-2:]


# ---------------------------------------------------------------------------------------------------
# What else could be false
# ---------------------------------------------------------------------------------------------------


def test_settings_that_were_changed_after_the_fit_change_no_caption(iris, figures):
    X, _, y, _ = iris
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=8, objective="dual", random_state=0).fit(X, y)
    before = fit_page(model)
    model.set_params(objective="lambda", voting="uniform", delta=0.5, estimator=DecisionTreeClassifier())
    after = fit_page(model)
    assert Page(after).plot("plot-bound")[2] == (
        "The weights are not chosen by this curve: global minimum of the dual bound, proved."
    )
    settings = re.compile(r'id="settings".*?id="verify"', re.DOTALL)
    assert settings.search(after)[0] == settings.search(before)[0]


def test_curves_that_the_theorem_does_not_cover_say_so(iris, figures):
    X, _, y, _ = iris
    model = PACBayesClassifier(RBFSVMPool(gamma_source="sample"), n_hypotheses=8, holdout=None, random_state=0)
    page = fit_page(model.fit(X, y))
    assert "each bound alone holds" not in page.lower()
    assert "the theorem does not cover these bounds. Each other bound alone holds with probability 0.95." in page
    assert "ertified, with probability" not in page
    assert "NOT STRICT: the theorem does not cover this; " in Page(page).tiles[0][2]
    labels = [label for label, _, _ in Page(page).rows("bounds")]
    for statement in model.certificate_.statements:
        assert f"{capitalized(METHODS[statement.method].title)}, not covered by the theorem" in labels
    for name, bounds in (("plot-bound", "this bound"), ("plot-pool", "these bounds")):
        title = figures[name].axes[0].get_title(loc="left")
        assert title == f"NOT STRICT: the theorem does not cover {bounds}"
    assert legend(figures["plot-pool"])[1] == ""


def test_dropped_hypotheses_are_not_in_the_plots(figures):
    data = waveform(4000, random_state=0)
    settings = {"n_hypotheses": 60, "subsample_size": 41, "holdout": None, "random_state": 0}
    model = PACBayesClassifier(RBFSVMPool(scaler=None), **settings).fit(data.X / 4, data.y)
    certificate = model.certificate_
    assert certificate.n_dropped > 0
    page = Page(fit_page(model))
    for name in ("plot-mass", "plot-cumulative"):
        assert f"The {certificate.n_dropped} that were dropped have none, and are not shown." in page.plot(name)[2]
    over = "all hypotheses" if certificate.minimum_over == 60 else f"the {certificate.minimum_over} hypotheses"
    assert f"minimum: global minimum of the lambda bound over {over}" in page.plot("plot-bound")[2]


@pytest.mark.parametrize("voting", ["majority", "gibbs"])
def test_loss_of_probabilities(iris, figures, voting):
    """About labels nothing is proved; about the randomised classifier's probabilities, something is."""
    X, X_test, y, y_test = iris
    learner = LogisticRegression(max_iter=1000)
    model = PACBayesClassifier(learner, n_hypotheses=4, loss="brier", voting=voting, random_state=0).fit(X, y)
    assert model.certificate_.gibbs_bound < 1
    page = Page(fit_page(model, X_test=X_test[:40], y_test=y_test[:40]))
    assert "Nothing is proved about the labels that are predicted." in page.text
    assert f"Nothing is proved about the {model.certificate_.predictor}" not in page.text
    assert page.tiles[0] == ("The labels that are predicted", "nothing is proved", "There is no bound below 1")
    # Errors are no Brier losses: they have a tile, and no bar on this axis.
    assert page.tiles[-1][0] == "On test points it erred on"
    assert not any("test" in label for label, _, _ in page.rows("bounds") if not label.startswith("Chernoff, if"))


def test_hypotheses_that_were_trained_elsewhere(iris, figures):
    X, X_val, y, y_val = iris
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y) for depth in (1, 2, 3)]
    text = Page(fit_page(PACBayesClassifier.from_prefit(trees, X_val, y_val, holdout=0.5))).text
    assert "Points that validate30 Points held out for the certificate30" in text
    assert "They were trained on other data. " in text


def test_rows_of_the_training_sample_test_nothing(iris, figures):
    X, _, y, _ = iris
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=8, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X must hold rows that were not used in training: 90 of 90 rows"):
        fit_page(model, X_test=X, y_test=y)


def test_notebooks_do_not_call_measured_losses_bounds(iris):
    X, _, y, _ = iris
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=8, random_state=0).fit(X, y)
    head = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", model.certificate_._repr_html_())
    assert head[-4:] == ["Loss or bound", "Value", "Whose loss", "Kind"]
