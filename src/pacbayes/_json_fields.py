"""Read dataclasses from JSON that somebody else may have written: their annotations are the table of what is allowed.

A kind is an annotation: ``str``, ``bool``, ``int``, ``float``, ``Any``, ``X | None``, ``Literal["a", "b"]``,
``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, X]``, another dataclass, or ``Annotated[X, rule]`` with a `Range`, a
`Length`, a `Pattern` or another constraint, whose description has places for words for the type and for its unit.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pacbayes._formatting import format_names, join_names
from pacbayes._settings import Constraint


class FieldError(ValueError):
    """A value that its field does not allow."""


@contextmanager
def raising(error: type[Exception], prefix: str = "") -> Iterator[None]:
    """Turn a `FieldError` into an exception of the caller."""
    try:
        yield
    except FieldError as wrong:
        raise error(f"{prefix}{wrong}") from wrong


class Range(Constraint):
    """A number in a range. Its ends belong to it, unless they are open."""

    def __init__(self, low: float, high: float = math.inf, *, open_low: bool = False, open_high: bool = False) -> None:
        def allows(value: Any) -> bool:
            # Comparisons of integers with floats are exact, whatever their size.
            above = low < value if open_low else low <= value
            return bool(above and (value < high if open_high else value <= high))

        super().__init__(f"{{}} in {'[('[open_low]}{low:g}, {high:g}{'])'[open_high]}", allows)


class Length(Constraint):
    """Text or a list of some length."""

    def __init__(self, low: int, high: float = math.inf) -> None:
        length = f"{low} to {high}" if low else f"at most {high}"
        length = f"{low} or more" if high == math.inf else length
        super().__init__(f"{{}} of {length} {{unit}}", lambda value: low <= len(value) <= high)


class Pattern(Constraint):
    """Text that matches an expression in full."""

    def __init__(self, expression: str, description: str) -> None:
        super().__init__(description, lambda value: re.fullmatch(expression, value) is not None)


def shorten(value: Any) -> str:
    """Return the repr of a value, cut if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def parse_object(text: str, *, longest: int) -> dict[str, Any]:
    """Parse a JSON object without repeated fields, NaN or infinity; raise FieldError for anything else."""
    if len(text) > longest:
        raise FieldError(f"longer than {longest} characters")
    try:
        values = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except FieldError:
        raise
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON ({error})") from error
    if not isinstance(values, dict):
        raise FieldError("no JSON object")
    return values


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, whatever the order of its fields."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def dump_checked(field: str, version: int, values: Mapping[str, Any]) -> str:
    """Return values as JSON text with a checksum; the first field says what they are, and in which version."""
    content = {field: version, **values}
    return json.dumps({**content, "checksum": checksum(content)}, indent=2, allow_nan=False)


def load_checked(text: str, what: str, field: str, version: int, *, longest: int) -> dict[str, Any]:
    """Return values that `dump_checked` wrote, and raise FieldError, which says `what` it should be, for others."""
    with raising(FieldError, f"not a {what}: "):
        values = parse_object(text, longest=longest)
    found = values.pop(field, None)
    if found != version or type(found) is not int:
        raise FieldError(f'not a {what}: no "{field}": {version}')
    stated = values.pop("checksum", None)
    try:
        expected = checksum({field: version, **values})
    except ValueError as error:
        raise FieldError(f"not a {what}: {error}") from error
    if stated != expected:
        raise FieldError(f"checksum does not match: the {what} was changed after it was written")
    return values


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise FieldError("a field is given twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise FieldError(f"{name} is not a number")


def read_object(kind: Any, values: Any, name: str = "") -> Any:
    """Return a dataclass made from a JSON object found at `name`; a field may have another name there ("json")."""
    table = _kinds_by_field(kind)
    if not isinstance(values, dict) or set(values) != set(table):
        odd = sorted(map(shorten, set(values) ^ set(table))) if isinstance(values, dict) else []
        wrong = f"; missing or unknown: {join_names(odd)}" if odd else ""
        raise FieldError(f"{name or kind.__name__} must be an object with the fields {format_names(table)}{wrong}")
    prefix = f"{name}." if name else ""
    return kind(**{own: read_value(of, f"{prefix}{key}", values[key]) for key, (own, of) in table.items()})


@cache
def _kinds_by_field(kind: Any) -> dict[str, tuple[str, Any]]:
    """Return names in the class and kinds of a dataclass's fields, by their names in JSON."""
    hints = get_type_hints(kind, include_extras=True)
    return {item.metadata.get("json", item.name): (item.name, hints[item.name]) for item in fields(kind)}


def read_value(kind: Any, name: str, value: Any) -> Any:
    """Return a JSON value as a kind; raise FieldError, with its name, if it is none that the kind allows."""
    optional = get_origin(kind) in (Union, UnionType)
    if optional:
        if value is None:
            return None
        (kind,) = (option for option in get_args(kind) if option is not type(None))
    base, rule = get_args(kind)[:2] if get_origin(kind) is Annotated else (kind, None)
    origin, parts = get_origin(base) or base, get_args(base)
    if is_dataclass(origin):
        return read_object(origin, value, name)
    of_type, words = _TYPES[origin]
    if origin is Literal:
        of_type, words = parts.__contains__, f"one of {', '.join(map(repr, parts))}"
    if not (of_type(value) and (rule is None or rule.allows(value))):
        unit = "characters" if words == "text" else "entries"
        described = words if rule is None else rule.description.format(words, unit=unit)
        raise FieldError(f"{name} must be {described}{' or null' if optional else ''}, got {shorten(value)}")
    if origin is tuple:
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        if len(kinds) != len(value):
            raise FieldError(f"{name} must hold {len(kinds)} entries, got {shorten(value)}")
        return tuple(read_value(kinds[i], f"{name}[{i}]", item) for i, item in enumerate(value))
    if origin in (dict, Mapping):
        keys = [read_value(parts[0], f"a name in {name}", key) for key in value]
        return {key: read_value(parts[1], f"{name}.{key}", value[key]) for key in keys}
    if origin is Any and isinstance(value, list):  # JSON has no other sequences
        return tuple(value)
    return float(value) if origin is float else value


def _is_number(value: Any) -> bool:
    # Whatever is larger than any float is not a number to calculate with; a comparison with NaN is false.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -(2**1023) < value < 2**1023


# Whether a value is of a type, and the type in words.
_TYPES: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    Any: (lambda value: True, "anything"),
    Literal: (lambda value: True, "anything"),
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: _is_number(value) and isinstance(value, int), "a whole number"),
    float: (_is_number, "a number"),
    tuple: (lambda value: isinstance(value, (list, tuple)), "a list"),
    dict: (lambda value: isinstance(value, dict), "an object"),
    Mapping: (lambda value: isinstance(value, dict), "an object"),
}
