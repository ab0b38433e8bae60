"""Dataclasses from JSON: what is read as it stands, and what is refused, by the name of its field."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import pytest

from pacbayes._json_fields import (
    FieldError,
    Length,
    Pattern,
    Range,
    parse_object,
    raising,
    read_object,
    read_value,
)

Unit = Annotated[float, Range(0, 1)]


@dataclass(frozen=True)
class Inner:
    name: Annotated[str, Length(1, 5)]
    pair: tuple[Unit, Unit]


@dataclass(frozen=True)
class Outer:
    count: Annotated[int, Range(1, 10**15)]
    share: Annotated[float, Range(0, 1, open_low=True, open_high=True)] | None
    flag: bool
    kind: Literal["csv", "libsvm"] | None
    inner: tuple[Inner, ...]
    digests: dict[Literal["x", "y"], Annotated[str, Pattern("[0-9a-f]{4}", "4 hexadecimal digits")]]
    labels: Annotated[tuple[str, ...], Length(0, 2)] = field(metadata={"json": "names"})
    free: dict[str, Any] = field(default_factory=dict)


GOOD = {
    "count": 3,
    "share": 0.25,
    "flag": True,
    "kind": None,
    "inner": [{"name": "n", "pair": [0, 1]}],
    "digests": {"x": "00ff"},
    "names": ["one"],
    "free": {"n": 3, "loss": 0.5},
}


def test_values_come_as_the_class_has_them():
    read = read_object(Outer, json.loads(json.dumps(GOOD)))
    assert read.inner == (Inner("n", (0.0, 1.0)),)
    assert type(read.inner[0].pair[0]) is float
    assert read.labels == ("one",)
    assert read.share == 0.25
    assert read.kind is None
    assert type(read.free["n"]) is int
    assert set(asdict(read)) == {"labels" if name == "names" else name for name in GOOD}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, r"count must be a whole number in \[1, 1e\+15\], got 0"),
        ({"count": 1.0}, "count must be a whole number"),
        ({"count": True}, "count must be a whole number"),
        ({"count": 10**400}, r"count must be a whole number in .*got 1000.*\.\.\."),
        ({"share": 1}, r"share must be a number in \(0, 1\) or null, got 1"),
        ({"share": float("nan")}, "share must be a number"),
        ({"share": "0.5"}, "share must be a number"),
        ({"flag": 1}, "flag must be true or false, got 1"),
        ({"kind": "xlsx"}, "kind must be one of 'csv', 'libsvm' or null, got 'xlsx'"),
        ({"kind": []}, "kind must be one of"),
        ({"kind": {}}, "kind must be one of"),
        ({"inner": None}, "inner must be a list, got None"),
        ({"inner": [{"name": "n"}]}, r"inner\[0\] must be an object with the fields 'name', 'pair'.*unknown: 'pair'"),
        ({"inner": [7]}, r"inner\[0\] must be an object with the fields"),
        ({"inner": [{"name": "", "pair": [0, 1]}]}, r"inner\[0\]\.name must be text of 1 to 5 characters, got ''"),
        ({"inner": [{"name": "n", "pair": [0, 1, 1]}]}, r"inner\[0\]\.pair must hold 2 entries"),
        ({"inner": [{"name": "n", "pair": [0, 2]}]}, r"inner\[0\]\.pair\[1\] must be a number in \[0, 1\], got 2"),
        ({"digests": {"z": "00ff"}}, "a name in digests must be one of 'x', 'y', got 'z'"),
        ({"digests": {"x": "00fg"}}, "digests.x must be 4 hexadecimal digits, got '00fg'"),
        ({"names": ["a", "b", "c"]}, "names must be a list of at most 2 entries"),
        ({"names": [1]}, r"names\[0\] must be text, got 1"),
        ({"more": 1}, "Outer must be an object with the fields .*; missing or unknown: 'more'"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(FieldError, match=message):
        read_object(Outer, GOOD | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no JSON object"),
        ('{"a": 1, "a": 2}', "a field is given twice"),
        ('{"a": {"b": 1, "b": 1}}', "a field is given twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1}' + " " * 100, "longer than 100 characters"),
    ],
)
def test_what_is_no_object(text, message):
    with pytest.raises(FieldError, match=message):
        parse_object(text, longest=100 if len(text) < 1000 else 10**6)


def test_errors_become_those_of_the_caller():
    assert parse_object('{"a": 1e999}', longest=100) == {"a": float("inf")}
    with pytest.raises(KeyError, match="the file: a must be a number"), raising(KeyError, "the file: "):
        read_value(float, "a", float("inf"))


def test_an_optional_number_in_a_range():
    @dataclass
    class Test:
        errors: Annotated[int, Range(0)]
        delta: Annotated[float, Range(0, 1, open_low=True)] | None

    assert read_object(Test, {"errors": 3, "delta": None}) == Test(errors=3, delta=None)
    with pytest.raises(FieldError, match=r"^delta must be a number in \(0, 1\] or null, got 1\.5$"):
        read_object(Test, {"errors": 3, "delta": 1.5})
