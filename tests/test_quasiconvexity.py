import math

import numpy as np
import pytest
from test_posterior import two_minima

from pacbayes.posterior import lambda_bound, lambda_bound_derivatives, minimize_lambda_bound
from pacbayes.quasiconvexity import CONDITIONS, THEOREM_VAR_CONDITIONS, check_quasiconvexity

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


def test_every_guarantee_is_confirmed_by_the_global_search():
    rng = np.random.default_rng(0)
    held = dict.fromkeys(CONDITIONS, 0)
    refuted = 0
    for i in range(2000):
        losses, n, delta = random_losses(rng)
        prior = random_log_prior(rng, losses.size) if i % 3 == 0 else None
        report = check_quasiconvexity(losses, n, delta=delta, prior=prior)
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
    assert min(held.values()) > 100, held
    # A single best hypothesis with a tiny prior makes for several minima: those were among the cases.
    assert refuted > 0


def test_guaranteed_wherever_the_grid_sees_one_stationary_point():
    """The last condition is close to necessary: it fails only where F is not quasiconvex."""
    rng = np.random.default_rng(1)
    for i in range(300):
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


@pytest.mark.parametrize("n", [1, 5, 200, 10**6, 10**12])
@pytest.mark.parametrize("losses", [np.zeros(50), np.ones(50), np.full(50, 0.3), np.arange(50) % 2.0])
def test_degenerate_losses(losses, n):
    assert check_quasiconvexity(losses, n).guaranteed


@pytest.mark.parametrize(("log_prior", "name"), [(-8.0, ALL_LAMBDA), (-13.0, STATIONARY)])
def test_undecided_is_not_guaranteed(monkeypatch, log_prior, name):
    monkeypatch.setattr("pacbayes.gibbs.GibbsCurve.max_evaluations", 17)
    prior = [log_prior, np.log1p(-np.exp(log_prior))]
    condition = check_quasiconvexity([0.0, 0.1], 200, delta=0.25, prior=prior).details[name]
    assert not condition.holds
    assert condition.figures["reason"] == "undecided"


def test_report_reads_well():
    text = str(check_quasiconvexity([0.0, 0.5], 100, delta=0.01))
    assert text.startswith("F(lambda) is strongly quasiconvex and its alternating minimum is global: few hypotheses")
    assert "few mediocre losses (Theorem var): a = 0.0225106, b = 0.399064, K = 9.36058, mediocre = 0" in text
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
