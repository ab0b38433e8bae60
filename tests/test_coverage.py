"""The promise itself, at a size that fits a test run.

The long versions are `python tests/coverage_simulation.py`, of fits, and `python benchmarks/coverage.py`, of every
kind of statement.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
from coverage_simulation import BROKEN, CHOSEN_BY_THE_TEST, SCENARIOS, UNIONS, UNTESTED, failures, failures_of_tests
from scipy.stats import binom

from pacbayes.certificate import METHODS


def load_benchmark():
    """Load benchmarks/coverage.py, under a name that no package has."""
    path = Path(__file__).parents[1] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("statement_coverage", path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIMULATION = load_benchmark()

# Cases with few distinct data sets, which together have every kind of statement.
QUICK = [
    "one hypothesis",
    "one hypothesis, best",
    "one hypothesis, best, other loss",
    "tie, unequal sets",
    "two of three err together",
    "one heavy voter",
    "few unlabelled and labelled points",
    "tested vote, one hypothesis",
    "tested vote, other loss",
    "10 votes, equal truth",
    "default, one sample, few unlabelled",
]


@pytest.mark.parametrize(
    ("scenario", "repetitions"),
    [
        # Noise in the place of a signal is slow.
        *[(scenario, 25) for scenario in (*SCENARIOS, UNTESTED) if scenario.name != "labels are noise"],
        *[pytest.param(scenario, 200, marks=pytest.mark.slow) for scenario in (*SCENARIOS, UNTESTED)],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_certificates_fail_at_most_as_often_as_delta(scenario, repetitions):
    for (_, delta), fraction in failures(scenario, repetitions).items():
        assert fraction <= delta


@pytest.mark.parametrize(
    ("scenario", "repetitions"),
    [(UNIONS[0], 20), *(pytest.param(scenario, 200, marks=pytest.mark.slow) for scenario in UNIONS)],
    ids=lambda value: getattr(value, "name", value),
)
def test_tested_unions_fail_at_most_as_often_as_delta(scenario, repetitions):
    for (_, delta), fraction in failures_of_tests(scenario, repetitions).items():
        assert binom.sf(fraction * repetitions - 1, repetitions, delta) > 1e-3


@pytest.mark.slow
def test_the_simulation_sees_a_family_chosen_by_the_test():
    """The best of several families on held-out points is not tested by these: that fails more often than it may."""
    assert failures_of_tests(CHOSEN_BY_THE_TEST, 80)["vote", 0.3] > 0.4


def test_the_simulation_sees_a_broken_method():
    """Redrawing subsamples by their labels breaks the theorem: the certificate fails more often than it may."""
    assert failures(BROKEN, 40)["randomised", 0.3] > 0.4


@pytest.mark.parametrize(
    ("case", "repetitions"),
    [
        *[(case, 100) for case in SIMULATION.CASES if case.name in QUICK],
        *[pytest.param(case, 300, marks=pytest.mark.slow) for case in SIMULATION.CASES],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_statements_fail_at_most_as_often_as_delta(case, repetitions):
    for row in SIMULATION.simulate(case, repetitions):
        # More violations than a method that fails with probability delta would have in one of a thousand tests.
        assert row.violations <= binom.ppf(0.999, repetitions, row.delta), row


def test_the_quick_cases_have_every_kind_of_statement():
    cases = [case for case in SIMULATION.CASES if case.name in QUICK]
    assert len(cases) == len(QUICK)
    # Those of earlier versions, of which one is for sizes that are known by their range alone.
    replaced = {"pac-bayes-kl", "pac-bayes-dual"}
    by_enumeration = {"test-set-randomised"}  # tests/certificate/test_randomised_tail.py
    of_numbers = {"unproved", "test-set-betting"}  # tests/number_simulation.py
    simulated = {row.method for case in cases for row in SIMULATION.simulate(case, 3)}
    assert simulated == set(METHODS) - replaced - by_enumeration - of_numbers


def test_the_simulation_sees_votes_that_do_not_share_delta():
    """The smallest of ten bounds, each with the whole of delta, fails far more often than delta."""
    rows = [row for row in SIMULATION.simulate(SIMULATION.BROKEN, 100) if row.method == "test-set"]
    assert [row.delta for row in rows] == list(SIMULATION.DELTAS)
    assert all(row.p_value < 1e-6 for row in rows)


@pytest.mark.parametrize(
    ("case", "repetitions"),
    [
        *[(case, 60) for case in SIMULATION.CLASS_CASES[2:4]],
        *[pytest.param(case, 1000, marks=pytest.mark.slow) for case in SIMULATION.CLASS_CASES],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_rates_by_class_fail_jointly_at_most_as_often_as_delta(case, repetitions):
    for row in SIMULATION.simulate(case, repetitions):
        assert row.violations <= binom.ppf(0.999, repetitions, row.delta), row


@pytest.mark.parametrize("case", SIMULATION.BROKEN_CLASS_CASES, ids=lambda case: case.name)
def test_the_simulation_sees_rates_that_do_not_share_delta(case):
    assert SIMULATION.simulate(case, 200)[-1].p_value < 1e-6


@pytest.mark.parametrize(
    ("case", "repetitions"),
    [
        *[(case, 50) for case in (*SIMULATION.GROUP_CASES[3::4], *SIMULATION.SHIFT_CASES[1:3])],
        *[
            pytest.param(case, 300, marks=pytest.mark.slow)
            for case in (*SIMULATION.GROUP_CASES, *SIMULATION.SHIFT_CASES)
        ],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_groups_and_shifts_fail_at_most_as_often_as_delta(case, repetitions):
    for row in SIMULATION.simulate(case, repetitions):
        assert row.violations <= binom.ppf(0.999, repetitions, row.delta), row


@pytest.mark.parametrize(
    "case", [*SIMULATION.BROKEN_GROUP_CASES, *SIMULATION.BROKEN_SHIFT_CASES], ids=lambda case: case.name
)
def test_the_simulation_sees_groups_that_were_found_and_weights_that_are_wrong(case):
    assert all(row.p_value < 1e-3 for row in SIMULATION.simulate(case, 40))
