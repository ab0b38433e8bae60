"""The promise of the bounds on the vote; `python tests/vote_simulation.py` is the long version."""

import pytest
from scipy.stats import binom
from vote_simulation import BROKEN, SCENARIOS, failures

# Every scenario has every bound; these are weighted by errors, by a prior, and with too few points.
QUICK = ("few unlabelled points", "near a tie", "one heavy voter", "strongly correlated voters")


@pytest.mark.parametrize(
    ("scenario", "repetitions"),
    [
        *[(scenario, 8) for scenario in SCENARIOS if scenario.name in QUICK],
        *[pytest.param(scenario, 150, marks=pytest.mark.slow) for scenario in SCENARIOS],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_bounds_fail_at_most_as_often_as_delta(scenario, repetitions):
    for (name, delta), fraction in failures(scenario, repetitions).items():
        if name != BROKEN:
            # More failures than a method that fails with probability delta would have in one of a thousand tests.
            assert fraction * repetitions <= binom.ppf(0.999, repetitions, delta), name


def test_the_simulation_sees_a_broken_method():
    """Without a limit on the mean over the unlabelled points the bound fails more often than it may."""
    few = next(scenario for scenario in SCENARIOS if scenario.name == "few unlabelled points")
    assert failures(few, 20)[BROKEN, 0.05] > 0.3
