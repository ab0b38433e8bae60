"""Certificates as JSON: a schema with types and ranges, and a checksum against accidental edits.

The checksum is no signature: who edits a certificate on purpose can compute it anew. That the bounds follow from the
figures is checked by `Certificate.check`, that the figures follow from a model or its data by verification with those.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pacbayes.certificate._classes import MOST_CLASSES, MOST_LABELS, Confusion
from pacbayes.certificate._statements import MAX_TEXT, METHODS, Figure, Statement
from pacbayes.certificate._statements import shorten as _short
from pacbayes.exceptions import CertificateError

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

__all__ = ["dump", "load"]

_FORMAT = 4
# Longer than any certificate: what is larger is not read.
_MAX_CHARACTERS = 1_000_000


def dump(certificate: Certificate) -> str:
    """Return a certificate as JSON text."""
    values: dict[str, Any] = {item.name: getattr(certificate, item.name) for item in fields(certificate)}
    values["statements"] = [
        {item.name: getattr(statement, item.name) for item in fields(statement)} | {"figures": dict(statement.figures)}
        for statement in certificate.statements
    ]
    values["assumptions"] = list(values.pop("assumption_codes"))
    values["digests"] = dict(certificate.digests)
    if certificate.confusion is not None:
        values["confusion"] = {item.name: getattr(certificate.confusion, item.name) for item in fields(Confusion)}
    if certificate.lam == math.inf:
        values["lam"] = "Infinity"  # JSON has no number for it
    content = {"pacbayes_certificate": _FORMAT, **values}
    return json.dumps({**content, "checksum": _checksum(content)}, indent=2, allow_nan=False)


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load(text: str) -> dict[str, Any]:
    """Return the fields of a certificate, each of the right type and in its range."""
    values = _parse(text)
    version = values.pop("pacbayes_certificate", None)
    if version != _FORMAT or type(version) is not int:
        raise CertificateError(f'not a certificate: no "pacbayes_certificate": {_FORMAT}')
    checksum = values.pop("checksum", None)
    try:
        expected = _checksum({"pacbayes_certificate": version, **values})
    except ValueError as error:
        raise CertificateError(f"not a certificate: {error}") from error
    if checksum != expected:
        raise CertificateError("checksum does not match: the certificate was changed after it was written")
    checked = _validated(values, _FIELDS, "certificate")
    codes = checked.pop("assumptions")
    return {**checked, "assumption_codes": codes}


def _parse(text: str) -> dict[str, Any]:
    if len(text) > _MAX_CHARACTERS:
        raise CertificateError(f"not a certificate: longer than {_MAX_CHARACTERS} characters")
    try:
        values = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except CertificateError:
        raise
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"not a certificate: not JSON ({error})") from error
    if not isinstance(values, dict):
        raise CertificateError("not a certificate: no JSON object")
    return values


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise CertificateError("not a certificate: a field is given twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise CertificateError(f"not a certificate: {name} is no number")


# ---------------------------------------------------------------------------------------------------
# The schema
# ---------------------------------------------------------------------------------------------------

Check = Callable[[str, Any], Any]


def _validated(values: Any, schema: dict[str, Check], name: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise CertificateError(f"{name} must be an object, got {_short(values)}")
    if set(values) != set(schema):
        odd = ", ".join(sorted(_short(key) for key in set(values) ^ set(schema)))
        raise CertificateError(f"not a certificate: fields of {name} missing or unknown: {odd}")
    prefix = "" if name == "certificate" else f"{name}."
    return {key: check(f"{prefix}{key}", values[key]) for key, check in schema.items()}


def _number(low: float, high: float, *, open_ends: bool = False, whole: bool = False) -> Check:
    allowed = Figure(low, high, whole, open_ends)
    return lambda name, value: allowed.check(name, value) if whole else float(allowed.check(name, value))


def _one_of(*allowed: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not (isinstance(value, str) and value in allowed):
            raise CertificateError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {_short(value)}")
        return value

    return check


def _text(name: str, value: Any) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= MAX_TEXT):
        raise CertificateError(f"{name} must be text of 1 to {MAX_TEXT} characters, got {_short(value)}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise CertificateError(f"{name} must be true or false, got {_short(value)}")
    return value


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _lambda(name: str, value: Any) -> float:
    return math.inf if value == "Infinity" else float(_number(0, math.inf)(name, value))


def _assumptions(name: str, value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and value):
        raise CertificateError(f"{name} must be a list with at least one line, got {_short(value)}")
    return tuple(_text(f"{name}[{i}]", line) for i, line in enumerate(value))


def _digests(name: str, value: Any) -> dict[str, str]:
    known = {"losses", "posterior", "hypotheses", "settings"}
    if not (isinstance(value, dict) and set(value) <= known):
        raise CertificateError(f"{name} must hold digests of {', '.join(sorted(known))}, got {_short(value)}")
    for key, text in value.items():
        if not (isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text)):
            raise CertificateError(f"{name}.{key} must be 64 hexadecimal digits, got {_short(text)}")
    return dict(value)


def _statements(name: str, value: Any) -> tuple[Statement, ...]:
    if not (isinstance(value, list) and value):
        raise CertificateError(f"{name} must be a list with at least one statement, got {_short(value)}")
    return tuple(_statement(f"{name}[{i}]", item) for i, item in enumerate(value))


def _statement(name: str, value: Any) -> Statement:
    checked = _validated(value, _STATEMENT, name)
    allowed = METHODS[checked["method"]].figures
    schema = {key: _number(limit.low, limit.high, whole=limit.whole) for key, limit in allowed.items()}
    checked["figures"] = _validated(value["figures"], schema, f"{name}.figures")
    return Statement(**checked)


def _label(name: str, value: Any) -> str:
    if not (isinstance(value, str) and len(value) <= MAX_TEXT):
        raise CertificateError(f"{name} must be text of at most {MAX_TEXT} characters, got {_short(value)}")
    return value


def _tuple_of(check: Check, most: int) -> Check:
    def check_all(name: str, value: Any) -> tuple[Any, ...]:
        if not (isinstance(value, list) and len(value) <= most):
            raise CertificateError(f"{name} must be a list of at most {most}, got {_short(value)}")
        return tuple(check(f"{name}[{i}]", item) for i, item in enumerate(value))

    return check_all


def _pair(name: str, value: Any) -> tuple[Any, ...]:
    pair: tuple[Any, ...] = _tuple_of(_unit, 2)(name, value)
    if len(pair) != 2:
        raise CertificateError(f"{name} must hold two bounds, on misses and false alarms, got {_short(value)}")
    return pair


def _confusion(name: str, value: Any) -> Confusion:
    return Confusion(**_validated(value, _CONFUSION, name))


_unit, _inner = _number(0, 1), _number(0, 1, open_ends=True)
_count, _whole = _number(1, 10**15, whole=True), _number(0, 10**15, whole=True)

_STATEMENT: dict[str, Check] = {
    "predictor": _text,
    "loss": _text,
    "bound": _unit,
    "method": _one_of(*METHODS),
    "delta": _inner,
    "event": _text,
    "figures": lambda name, value: value,
}

_CONFUSION: dict[str, Check] = {
    "points": _one_of("held-out", "validation", "out-of-bag"),
    "counts": _tuple_of(_tuple_of(_whole, MOST_CLASSES + 1), MOST_CLASSES + 1),
    "kl_div": _optional(_number(0, math.inf)),
    "bounds": _tuple_of(_pair, MOST_CLASSES),
}

_FIELDS: dict[str, Check] = {
    "statements": _statements,
    "empirical_loss": _unit,
    "kl_div": _number(0, math.inf),
    "n_validation": _count,
    "n_validation_max": _count,
    "n_hypotheses": _count,
    "n_dropped": _whole,
    "dropped_loss": _optional(_unit),
    "n_votes": _count,
    "delta": _inner,
    "lam": _optional(_lambda),
    "objective": _one_of("dual", "lambda", "kl"),
    "voting": _one_of("majority", "gibbs", "best", "uniform"),
    "loss": _text,
    "minimum_lower_bound": _optional(_number(0, math.inf)),
    "minimum_over": _count,
    "global_minimum": _flag,
    "quasiconvex": _optional(_text),
    "strict": _flag,
    "assumptions": _assumptions,
    "digests": _digests,
    "labels": _tuple_of(_label, MOST_LABELS),
    "label_counts": _tuple_of(_whole, MOST_LABELS),
    "confusion": _optional(_confusion),
}
