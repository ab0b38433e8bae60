from decimal import Decimal

import pytest

from pacbayes._formatting import format_confidence, format_lower, format_percent_upper, format_upper


@pytest.mark.parametrize("value", [0.0, 0.09380001, 0.25, 0.1 + 0.2, 1 / 3, 0.07, 1e-12, 0.99999, 1.2345])
def test_bounds_are_rounded_outwards(value):
    step = Decimal("1e-4")
    assert Decimal(value) <= Decimal(format_upper(value)) < Decimal(value) + step
    assert Decimal(value) - step < Decimal(format_lower(value)) <= Decimal(value)
    share = Decimal(format_percent_upper(value).removesuffix("%"))
    assert 100 * Decimal(value) <= share < 100 * (Decimal(value) + step)


def test_values_that_are_not_finite():
    assert [format_upper(value) for value in (float("inf"), float("-inf"), float("nan"))] == ["∞", "-∞", "NaN"]


@pytest.mark.parametrize("delta", [0.05, 0.3, 0.1, 1e-9, 0.049999999999, 1e-300])
def test_confidence_is_never_overstated(delta):
    stated = format_confidence(delta)
    assert stated == f"1 - {delta}" or 1 - Decimal(stated) >= Decimal(str(delta))
