"""The promise itself, at a size that fits a test run; `python tests/coverage_simulation.py` is the long version."""

import pytest
from coverage_simulation import BROKEN, SCENARIOS, failures


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_certificates_fail_at_most_as_often_as_delta(scenario):
    for (_, delta), fraction in failures(scenario, 200).items():
        assert fraction <= delta


def test_the_simulation_sees_a_broken_method():
    """Redrawing subsamples by their labels breaks the theorem: the certificate fails more often than it may."""
    assert failures(BROKEN, 200)["randomised", 0.3] > 0.4
