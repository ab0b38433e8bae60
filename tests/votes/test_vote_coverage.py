"""The promise of the bounds on the vote; `python tests/vote_simulation.py` is the long version."""

import pytest
from vote_simulation import BROKEN, SCENARIOS, failures


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_bounds_fail_at_most_as_often_as_delta(scenario):
    for (name, delta), fraction in failures(scenario, 12).items():
        if name != BROKEN:
            assert fraction <= delta, name


def test_the_simulation_sees_a_broken_method():
    """Without a limit on the mean over the unlabelled points the bound fails more often than it may."""
    few = next(scenario for scenario in SCENARIOS if scenario.name == "few unlabelled points")
    assert failures(few, 40)[BROKEN, 0.05] > 0.3
