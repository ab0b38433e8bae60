from decimal import Decimal

import pytest

from pacbayes._formatting import (
    escape_control,
    format_confidence,
    format_count,
    format_counts,
    format_lower,
    format_names,
    format_nearest,
    format_number,
    format_percent,
    format_percent_upper,
    format_upper,
    join_names,
)


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


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([format_upper(value) for value in (0.09381, 0.25, 1e-9, -0.0)], ["0.0939", "0.2500", "0.0001", "0.0000"]),
        ([format_nearest(value) for value in (0.09381, 0.09389)], ["0.0938", "0.0939"]),
        ([format_number(value, "up") for value in (12345.6, 2.0)], ["12350", "2.000"]),
        ([format_number(value) for value in (0.00123449, 0.0)], ["0.001234", "0.000"]),
        (format_percent(0.09381), "9.38%"),
        ([format_confidence(delta) for delta in (0.05, 0.3, 1e-30)], ["0.95", "0.7", "1 - 1e-30"]),
        (
            [format_count(1, "error"), format_count(0, "error"), format_count(12, "row")],
            ["1 error", "0 errors", "12 rows"],
        ),
        (format_names(["age", "city", "income"], most=2), "'age', 'city' and 1 more"),
        (join_names(["age", "city", "income"], most=2), "age, city and 1 more"),
        (format_counts({"age": 3, "city": 1}), "'age' (3), 'city' (1)"),
        (escape_control("zero\x1b[2K\rone"), r"zero\x1b[2K\rone"),
    ],
)
def test_examples(found, expected):
    assert found == expected
