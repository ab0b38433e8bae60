import math
import re

import mp_oracle
import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_posterior import two_minima

from pacbayes.posterior import lambda_bound, lambda_bound_derivatives, minimize_lambda_bound
from pacbayes.posterior.gibbs import GibbsCurve, GibbsProblem
from pacbayes.quasiconvexity import (
    CONDITIONS,
    THEOREM_VAR_CONDITIONS,
    _Intervals,
    check_quasiconvexity,
    first_condition,
)

FEW, VAR, VAR_TUNED, VAR_REFINED, VAR_TUNED_REFINED, ALL_LAMBDA, STATIONARY = CONDITIONS


class Paper:
    """Theorem var and appendix thm-var, term by term as printed."""

    def __init__(self, losses, n, delta):
        self.x = np.asarray(losses) - np.min(losses)
        self.m, self.n = self.x.size, n
        self.tail, self.ln = math.log(2 * math.sqrt(n) / delta), math.log(4 * n / delta**2)

    def count(self, a, b):
        return np.count_nonzero((self.x > a) & (self.x < b))

    def a(self, alpha):
        return math.sqrt(alpha * self.ln) / self.n

    def b(self, beta):
        return math.log(self.m * self.n**2 / beta) / math.sqrt(self.n * self.tail)

    def k(self, alpha, beta):
        return math.e**2 * (1 - alpha - beta) / 4 * self.ln

    def b_refined(self, beta):
        y = self.m * self.n / beta
        inside = math.log(4 * y * math.log(y) ** 2 / (self.tail * self.ln))
        return inside / math.sqrt(self.n * self.tail) if inside >= 2 else math.inf


def random_losses(rng):
    """A few levels or many, close or far, so that every condition sometimes holds and sometimes fails."""
    n = int(rng.choice([10, 40, 100, 200, 1000, 5000]))
    m = int(rng.choice([2, 10, 30, 60, 200, 1000]))
    kind = rng.integers(4)
    if kind == 0:
        losses = rng.binomial(n, rng.beta(1, 3), m) / n
    elif kind == 1:
        losses = rng.binomial(n, rng.beta(2, 6, m)) / n
    elif kind == 2:
        losses = np.where(rng.random(m) < 0.05, rng.random(), rng.random())
    else:
        losses = rng.random(m) ** rng.choice([0.5, 1, 4])
    return losses, n, float(rng.choice([0.01, 0.05, 0.25]))


def random_log_prior(rng, m):
    log_prior = rng.uniform(-1, 0, m) * rng.choice([0.1, 10, 60])
    return log_prior - np.logaddexp.reduce(log_prior)


def slope_changes(losses, n, delta, prior=None):
    """Sign changes of F' on a dense grid of (0, 1)."""
    grid = np.unique(np.concatenate((np.geomspace(1e-3, 1, 300), np.linspace(0.01, 1, 200))))[:-1]
    first, _ = lambda_bound_derivatives(losses, grid, n, delta, prior)
    scale = lambda_bound(losses, grid, n, delta, prior) / grid
    signs = np.sign(first[np.abs(first) > 1e-10 * scale])
    return np.count_nonzero(np.diff(signs))


def test_the_papers_example_with_two_local_minima_is_not_guaranteed():
    report = check_quasiconvexity(two_minima(), 200, delta=0.25)
    assert not report.guaranteed
    assert report.condition is None
    assert tuple(report.details) == CONDITIONS
    assert not any(condition.holds for condition in report.details.values())
    assert report.details[STATIONARY].figures["reason"] == "F increases and decreases again"


def test_the_papers_two_hypotheses():
    report = check_quasiconvexity([0.0, 0.5], 100, delta=0.01)
    assert report.guaranteed
    assert all(condition.holds for condition in report.details.values())


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_every_guarantee_is_confirmed_by_the_global_search(count):
    rng = np.random.default_rng(0)
    held = dict.fromkeys(CONDITIONS, 0)
    refuted = 0
    for i in range(count):
        losses, n, delta = random_losses(rng)
        prior = random_log_prior(rng, losses.size) if i % 3 == 0 else None
        report = check_quasiconvexity(losses, n, delta=delta, prior=prior)
        assert first_condition(losses, n, delta, prior) == report.condition
        for name, condition in report.details.items():
            held[name] += condition.holds
        best = minimize_lambda_bound(losses, n, delta=delta, prior=prior, method="global")
        if report.guaranteed:
            assert slope_changes(losses, n, delta, prior) <= 1
            for lam0 in (1.0, 0.05):
                local = minimize_lambda_bound(losses, n, delta=delta, prior=prior, lam0=lam0)
                assert local.fun <= best.fun * (1 + 1e-7)
        else:
            refuted += report.details[STATIONARY].figures["reason"] == "F increases and decreases again"
    assert min(held.values()) > count / 20, held
    # A single best hypothesis with a tiny prior makes for several minima: those were among the cases.
    assert refuted > 0


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_guaranteed_wherever_the_grid_sees_one_stationary_point(count):
    """The last condition is close to necessary: it fails only where F is not quasiconvex."""
    rng = np.random.default_rng(1)
    for i in range(count):
        losses, n, delta = random_losses(rng)
        prior = random_log_prior(rng, losses.size) if i % 2 else None
        report = check_quasiconvexity(losses, n, delta=delta, prior=prior)
        assert report.details[STATIONARY].holds == (slope_changes(losses, n, delta, prior) <= 1)


def test_figures_are_those_of_the_paper():
    rng = np.random.default_rng(2)
    for _ in range(200):
        losses, n, delta = random_losses(rng)
        paper = Paper(losses, n, delta)
        details = check_quasiconvexity(losses, n, delta=delta).details
        assert details[FEW].figures["K(0,0) + 1"] == pytest.approx(paper.k(0, 0) + 1, rel=1e-12)
        assert details[FEW].holds == (paper.m <= paper.k(0, 0) + 1)
        if n < 4 * paper.tail:
            assert not details[VAR].holds
            assert not details[VAR_REFINED].holds
            continue
        third = 1 / 3
        for name, b in ((VAR, paper.b(third)), (VAR_REFINED, paper.b_refined(third))):
            figures = details[name].figures
            assert figures["a"] == pytest.approx(paper.a(third), rel=1e-12)
            assert figures["b"] == pytest.approx(b, rel=1e-12)
            assert figures["K"] == pytest.approx(paper.k(third, third), rel=1e-12)
            assert figures["mediocre"] == paper.count(figures["a"], figures["b"])
            assert details[name].holds == (figures["mediocre"] <= figures["K"])


@pytest.mark.parametrize(("name", "b"), [(VAR_TUNED, Paper.b), (VAR_TUNED_REFINED, Paper.b_refined)])
def test_tuned_intervals_against_a_grid_search(name, b):
    """What is found satisfies the paper's condition; where nothing is, nothing on a grid does either."""
    rng = np.random.default_rng(3)
    outcomes = {True: 0, False: 0}
    for _ in range(150):
        losses, n, delta = random_losses(rng)
        paper = Paper(losses, n, delta)
        if n < 4 * paper.tail:
            continue
        condition = check_quasiconvexity(losses, n, delta=delta).details[name]
        figures = condition.figures
        outcomes[condition.holds] += 1
        if condition.holds:
            assert figures["alpha"] + figures["beta"] <= 1
            a_end = paper.a(figures["alpha"]) * (1 + 1e-9)
            b_end = b(paper, figures["beta"]) * (1 - 1e-9) if figures["beta"] > 0 else math.inf
            assert paper.count(a_end, b_end) <= paper.k(figures["alpha"], figures["beta"])
        else:
            for alpha in np.linspace(0, 1, 41):
                for beta in (0.0, *np.geomspace(1e-12, 1, 49)):
                    if alpha + beta <= 1:
                        b_end = b(paper, beta) if beta > 0 else math.inf
                        assert paper.count(paper.a(alpha), b_end) > paper.k(alpha, beta) * (1 - 1e-9)
    assert min(outcomes.values()) >= 10


def test_trivial_case_is_the_first_to_be_named():
    report = check_quasiconvexity(np.linspace(0.2, 0.4, 20), 1000)
    assert (report.guaranteed, report.condition) == (True, FEW)


def test_paper_sized_pools_are_guaranteed_by_theorem_global_min_alone():
    """Hundreds of mediocre hypotheses: Theorem var is silent, yet F is proved quasiconvex."""
    losses = np.random.default_rng(0).binomial(1959, 0.3, 2000) / 1959
    report = check_quasiconvexity(losses, 1959)
    assert report.condition == ALL_LAMBDA
    assert report.details[ALL_LAMBDA].figures["lambda from"] == pytest.approx(
        math.sqrt(math.log(2 * math.sqrt(1959) / 0.05) / 1959), rel=1e-12
    )


def test_other_priors_leave_only_theorem_global_min():
    losses = [0.1, 0.2, 0.4]
    report = check_quasiconvexity(losses, 100, prior=[0.2, 0.3, 0.5])
    for name in THEOREM_VAR_CONDITIONS:
        assert report.details[name].figures == {"reason": "the prior is not uniform"}
    assert report.condition == ALL_LAMBDA


def test_hypotheses_without_prior_do_not_count():
    losses = np.concatenate((np.full(5, 0.2), np.linspace(0, 0.1, 500)))
    prior = np.concatenate((np.full(5, 0.2), np.zeros(500)))
    report = check_quasiconvexity(losses, 200, prior=prior)
    assert report.details == check_quasiconvexity(losses[:5], 200).details
    assert report.details[FEW].figures["m"] == 5


@pytest.mark.parametrize("n", [1, 2, 7, 18])
def test_samples_too_small_for_the_proof_of_theorem_var(n):
    """n < 4 ln(2 sqrt(n) / delta): stationary points may lie below sqrt(ln(2 sqrt(n) / delta) / n)."""
    losses = np.concatenate(([0.0], np.ones(100)))
    details = check_quasiconvexity(losses, n).details
    for name in (VAR, VAR_REFINED):
        assert details[name].figures["reason"].startswith("needs n >= 4")
    for name in (VAR_TUNED, VAR_TUNED_REFINED):
        assert details[name].figures["beta"] == 0
    start = details[ALL_LAMBDA].figures["lambda from"]
    first, _ = lambda_bound_derivatives(losses, np.linspace(0.001, start, 200)[:-1], n)
    assert np.all(first < 0)


def test_refined_b_needs_its_side_condition():
    """Only where ln(2 sqrt(n) / delta) is in the hundreds does the logarithm in b fall below 2."""
    details = check_quasiconvexity([0.3], 2900, delta=1e-300).details
    assert details[VAR_REFINED].figures["reason"] == "needs ln(...) >= 2 in b"


def test_prior_mass_too_small_for_a_float_is_not_overlooked():
    """Weights that underflow at small lambda take over at large lambda: two minima."""
    losses, log_prior = np.array([0.0, 0.1]), np.array([-800.0, 0.0])
    report = check_quasiconvexity(losses, 10_000, prior=log_prior)
    assert not report.guaranteed
    assert slope_changes(losses, 10_000, 0.05, log_prior) > 1


def test_rounding_is_not_taken_for_proof():
    """At n = 1e16 the divergence of a posterior far above the smallest loss is all rounding: nothing is claimed."""
    close = 1 - np.arange(1, 9) * 1.1e-16
    losses = np.concatenate(([0.0], close, [1.0]))
    log_prior = np.concatenate(([-664974606.0], np.full(9, -np.log(9))))
    assert not check_quasiconvexity(losses, 10**16, prior=log_prior).details[STATIONARY].holds


def assert_true_on_the_interval(losses, log_prior, n, confidence, left, right):
    """Whatever is claimed about F on [left, right] (in t = n lambda) is true, by mpmath."""
    curve = GibbsCurve(losses, n, log_prior)
    intervals = _Intervals(curve.at(left), curve.at(right), GibbsProblem(curve, n, confidence))
    with mp.workdps(120):
        points = [mp.mpf(left) + (mp.mpf(right) - mp.mpf(left)) * k / 4 for k in range(5)]
        for t in {float(t) for t in points}:
            loss, var, kl_div = mp_oracle.gibbs_moments(losses, t, log_prior)
            lam = mp.mpf(t) / mp.mpf(n)
            slope = lam**2 * n * loss - 2 * (1 - lam) * (kl_div + confidence)
            assert var <= intervals.largest_variance[0]
            assert slope > 0 or not intervals.increasing()[0]
            assert slope < 0 or not intervals.decreasing()[0]
            by_kl, by_loss = 2 * (kl_div + confidence) > t**2 * var, loss > (1 - lam) * n * var
            assert by_kl or by_loss or not intervals.conditions_hold()[0]


@st.composite
def close_decisions(draw):
    """Intervals on which a condition of Theorem global-min, or F' = 0, nearly holds with equality."""
    m = draw(st.integers(2, 4))
    least = draw(st.sampled_from([0.0, 1e-11, 0.2]))
    excess = [0.0, *(10.0**e for e in draw(st.lists(st.floats(-12, -0.5), min_size=m - 1, max_size=m - 1)))]
    losses = [least + x for x in excess]
    scale = 10.0 ** draw(st.floats(0, 18))
    log_prior = [-scale * share for share in draw(st.lists(st.floats(0, 1), min_size=m, max_size=m))]
    log_prior[draw(st.integers(0, m - 1))] = 0.0
    log_prior = np.array(log_prior) - np.logaddexp.reduce(log_prior)
    # Two hypotheses weigh about the same at t, and lambda is often close to 1, where 1 - lambda cancels.
    i, j = draw(st.permutations(range(m)))[:2]
    assume(losses[i] != losses[j])
    t = abs(log_prior[i] - log_prior[j]) / abs(losses[i] - losses[j]) + 1
    n = math.floor(t / (1 - 10.0 ** draw(st.floats(-15, -0.5)))) if t < 1e17 else t
    assume(1 <= n < 1e18)
    t = min(t, n)
    loss, var, kl_div = mp_oracle.gibbs_moments(losses, t, log_prior)
    equality = t**2 * var / 2 - kl_div
    if draw(st.booleans()) and t < n:
        lam = mp.mpf(t) / n
        equality = lam**2 * n * loss / (2 * (1 - lam)) - kl_div
    assume(1e-3 < equality < 1e300)
    confidence = float(equality) * (1 + draw(st.sampled_from([-1e-6, -1e-9, -1e-11, 0.0, 1e-11, 1e-9, 1e-6])))
    right = min(t * (1 + draw(st.sampled_from([0.0, 1e-15, 1e-9, 1e-3]))), n)
    return losses, log_prior, float(n), confidence, t, right


@given(close_decisions())
def test_nothing_false_is_claimed_about_an_interval(case):
    assert_true_on_the_interval(*case)


@pytest.mark.parametrize(
    ("losses", "log_prior", "n", "confidence", "t"),
    [
        (
            [0.0, 4.0303455744952636e-09, 2.2035989332501714e-09, 5.719592053822116e-08],
            [-1.1120352351797727, -17.7733333349283, -1.1129387096912087, -1.0714276721291502],
            9120254691.0,
            33.12578353959937,
            9120254685.999249,
        ),
        (
            [1.1069944287634616e-11, 2.4739247640244688e-09],
            [-0.46011856736826556, -0.9975246495790753],
            56208302377.0,
            20718348.539730728,
            56208301532.96352,
        ),
    ],
)
def test_the_slope_near_lambda_1_is_not_rounded_away(losses, log_prior, n, confidence, t):
    """1 - lambda is some 1e-9 here: taken from a rounded lambda it is wrong by 1e-7 of itself, a thousand margins."""
    assert_true_on_the_interval(losses, log_prior, n, confidence, t, t)


@pytest.mark.parametrize("log_prior", [-1e3, -1e6, -1e9, -1e12, -1e15])
def test_a_second_minimum_is_found_whatever_the_prior(log_prior):
    """Losses 0 and 0.1 with equal weight at lambda = 0.75: F has two minima, however small the prior of the better."""
    n = -log_prior / 0.1 / 0.75
    report = check_quasiconvexity([0.0, 0.1], round(n), prior=[log_prior, np.log1p(-np.exp(log_prior))])
    assert not report.guaranteed


def test_unequal_validation_sets():
    losses, prior = np.linspace(0.1, 0.4, 30), np.full(30, 1 / 30)
    report = check_quasiconvexity(losses, 300, n_max=400, prior=prior)
    same = check_quasiconvexity(losses, 300, delta=0.05 * math.sqrt(300 / 400), prior=prior)
    for condition, other in zip(report.details.values(), same.details.values(), strict=True):
        assert condition.holds == other.holds
        assert condition.figures == pytest.approx(other.figures, rel=1e-12)
    with pytest.raises(ValueError, match="n_max must be at least n, got 299"):
        check_quasiconvexity(losses, 300, n_max=299)


def test_names_of_conditions_are_words():
    for name in CONDITIONS:
        assert re.fullmatch(r"few hypotheses|few mediocre losses[a-z, ]*|small variance( where F' = 0)?", name)
    assert set(THEOREM_VAR_CONDITIONS) < set(CONDITIONS)


@pytest.mark.parametrize("n", [1e100, 1e200, 1e300])
def test_enormous_samples_do_not_warn(n):
    assert check_quasiconvexity([0.1, 0.2], n).guaranteed


@pytest.mark.parametrize("n", [1, 5, 200, 10**6, 10**12])
@pytest.mark.parametrize("losses", [np.zeros(50), np.ones(50), np.full(50, 0.3), np.arange(50) % 2.0])
def test_degenerate_losses(losses, n):
    assert check_quasiconvexity(losses, n).guaranteed


@pytest.mark.parametrize(("log_prior", "name"), [(-8.0, ALL_LAMBDA), (-13.0, STATIONARY)])
def test_undecided_is_not_guaranteed(monkeypatch, log_prior, name):
    monkeypatch.setattr("pacbayes.posterior.gibbs.GibbsCurve.max_evaluations", 17)
    prior = [log_prior, np.log1p(-np.exp(log_prior))]
    condition = check_quasiconvexity([0.0, 0.1], 200, delta=0.25, prior=prior).details[name]
    assert not condition.holds
    assert condition.figures["reason"] == "undecided"


def test_report_reads_well():
    text = str(check_quasiconvexity([0.0, 0.5], 100, delta=0.01))
    assert text.startswith("F(lambda) is strongly quasiconvex and its alternating minimum is global: few hypotheses")
    assert "few mediocre losses: a = 0.0225106, b = 0.399064, K = 9.36058, mediocre = 0" in text
    text = str(check_quasiconvexity(two_minima(), 200, delta=0.25))
    assert text.startswith("F(lambda) is not proved quasiconvex")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, 1.2], 10), r"losses must be in \[0, 1\], got 1.2"),
        (([], 10), "losses must be a one-dimensional"),
        (([0.1], 0), "n must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_quasiconvexity(*arguments)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 2"):
        check_quasiconvexity([0.1], 10, delta=2)
