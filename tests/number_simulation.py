"""How often what is proved about predicted numbers is not true, in worlds whose truth is known.

    python tests/number_simulation.py [10000]

Two constants are tested on rows of their own, and the one with the narrower intervals is kept, as votes that
compete are. Targets are skewed, have heavy tails without a variance, are whole numbers with many ties, few, or
nearly all the same. The controls state what was measured, take the quantile that conformal prediction takes, or bound
each point of the curve as if it were the only one.
"""

import sys
from functools import cache

import numpy as np
from scipy import stats
from scipy.stats import binom

from pacbayes.certificate import NumberTest, Statement
from pacbayes.certificate._numbers import bound_mean_error, choose_interval, error_curve, state_numbers, test_figures
from pacbayes.certificate._statements import divided_prior

STATEMENTS = ("absolute", "squared", "curve", "interval")
CONTROLS = ("measured", "conformal", "curve alone")
COVERAGE = 0.9
PREDICTED = (0.0, 0.3)
SCALES = np.array([1.0, 2.0])

# By name, the distribution of the target and the number of held-out points of each competitor.
WORLDS = {
    "skewed": (stats.lognorm(1.0, loc=-1.0), 200),
    "heavy tails": (stats.t(1.0), 200),
    "ties": (stats.rv_discrete(values=([0, 1, 2, 5], [0.5, 0.3, 0.15, 0.05])), 150),
    "few points": (stats.expon(loc=-0.7), 30),
    "nearly constant": (stats.rv_discrete(values=([0, 7], [0.985, 0.015])), 100),
}


@cache
def quantiles(world):
    """Return targets that stand for the distribution, each for the same share of it."""
    return WORLDS[world][0].ppf((np.arange(200_000) + 0.5) / 200_000).astype(float)


def distribution(world, predicted, error):
    """Return the probability of an absolute error of at most this much."""
    law = WORLDS[world][0]
    below = law.cdf(predicted + error) - law.cdf(predicted - error)
    if hasattr(law, "pmf"):
        below = below + (law.pmf(predicted - error) if float(predicted - error).is_integer() else 0.0)
    return below


def draw_test(world, k, rng):
    law, n = WORLDS[world]
    target = np.asarray(law.rvs(size=n, random_state=rng), dtype=float)
    return NumberTest(target, np.full(n, PREDICTED[k]), rng.choice(SCALES, n))


class Stated:
    """What held-out points prove about one competitor: what its certificate computes when it is asked."""

    def __init__(self, test, cap, n_votes, delta):
        self.delta, self.kl_div, self.cap = delta, divided_prior(0.0, n_votes), cap
        self.figures = test_figures(
            test, f"absolute_error:{cap!r}", np.minimum(test.errors / cap, 1).sum(), self.kl_div
        )
        self.numbers = state_numbers(test, 0.0)

    def bound_error(self, kind):
        power = 1 if kind == "absolute" else 2
        return bound_mean_error(self.delta, **(self.figures | {"power": power})) ** (1 / power) * self.cap

    def error_curve(self):
        made = ("weighted mean", f"absolute_error:{self.cap!r}", 1.0, "test-set-betting", self.delta, "held-out-points")
        return error_curve(Statement(*made, self.figures))

    def choose_interval(self, coverage):
        return choose_interval(self.numbers, self.figures["n"], self.kl_div, self.delta, coverage)

    @property
    def width(self):
        """By what they compete."""
        return self.numbers.intervals[len(self.numbers.intervals) // 10].threshold * self.numbers.mean_scale


def is_false(world, statement, certificate, test, cap):
    """Return whether something that a certificate states, or a control, is not true."""
    predicted = float(test.predicted[0])
    capped = np.minimum(np.abs(quantiles(world) - predicted), cap)
    if statement == "absolute":
        return capped.mean() > certificate.bound_error("absolute")
    if statement == "measured":
        return capped.mean() > np.minimum(test.errors, cap).mean()
    if statement == "squared":
        return (capped**2).mean() ** 0.5 > certificate.bound_error("squared")
    if statement in ("curve", "curve alone"):
        curve, n = certificate.error_curve(), test.target.size
        if statement == "curve":
            return any(distribution(world, predicted, one.error) < one.share for one in curve)
        counts = [round(one.measured * n) for one in curve]
        alone = [stats.beta.ppf(certificate.delta, k, n - k + 1) if k else 0.0 for k in counts]
        return any(distribution(world, predicted, one.error) < share for one, share in zip(curve, alone, strict=True))
    if statement == "conformal":
        scores = np.sort(test.errors / test.scale)
        threshold = scores[min(int(np.ceil((scores.size + 1) * COVERAGE)), scores.size) - 1]
    else:
        try:
            threshold = certificate.choose_interval(COVERAGE).threshold
        except ValueError:  # too few points: nothing is stated
            return False
    return np.mean([distribution(world, predicted, threshold * scale) for scale in SCALES]) < COVERAGE


def count_all(world, statements, delta, repetitions, n_votes=1, seed=0):
    """Return in how many worlds each statement about the competitor that is kept is false."""
    rng, failures = np.random.default_rng(seed), dict.fromkeys(statements, 0)
    for _ in range(repetitions):
        # As from the rows that train hypotheses.
        trained = np.asarray(WORLDS[world][0].rvs(size=100, random_state=rng), dtype=float)
        far = np.abs(trained - np.median(trained))
        cap = float(np.quantile(far, 0.99)) or float(far.max()) or 1.0
        tests = [draw_test(world, k, rng) for k in range(n_votes)]
        stated = [Stated(test, cap, n_votes, delta) for test in tests]
        best = min(range(n_votes), key=lambda k: stated[k].width)
        for statement in statements:
            failures[statement] += bool(is_false(world, statement, stated[best], tests[best], cap))
    return failures


def count_failures(world, statement, delta, repetitions, n_votes=1):
    """Return in how many worlds a statement about the competitor that is kept is false."""
    return count_all(world, [statement], delta, repetitions, n_votes)[statement]


def most_failures(delta, repetitions):
    """Return how many failures a valid bound exceeds with a probability of 1e-6 at most."""
    return int(binom.ppf(1 - 1e-6, repetitions, delta))


if __name__ == "__main__":
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for delta in (0.05, 0.3):
        for world in WORLDS:
            for n_votes in (1, 2):
                told = STATEMENTS if world != "skewed" else (*STATEMENTS, *CONTROLS)
                failures = count_all(world, told, delta, repetitions, n_votes)
                shares = ", ".join(f"{name} {count / repetitions:.4f}" for name, count in failures.items())
                print(f"delta {delta}, {world}, {n_votes} competing: {shares}", flush=True)
