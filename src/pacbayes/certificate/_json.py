"""Certificates as JSON, with a checksum against accidental edits.

The checksum is no signature: who edits a certificate on purpose can compute it anew. That the bounds follow from the
figures is checked by `Certificate.check`, that the figures follow from a model or its data by verification with those.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pacbayes._json_fields import parse_object, raising, read_object
from pacbayes.exceptions import CertificateError

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

_FORMAT = 4
# Longer than any certificate: what is larger is not read.
_MAX_CHARACTERS = 1_000_000

# JSON has no number for it.
_INFINITY = "Infinity"


def dump(certificate: Certificate) -> str:
    """Return a certificate as JSON text."""
    values = asdict(certificate)
    values["assumptions"] = values.pop("assumption_codes")
    if certificate.lam == math.inf:
        values["lam"] = _INFINITY
    if not certificate.families:
        del values["families"]
    content = {"pacbayes_certificate": _FORMAT, **values}
    return json.dumps({**content, "checksum": _checksum(content)}, indent=2, allow_nan=False)


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load(text: str, kind: type[Certificate]) -> Certificate:
    """Return a certificate, each field of the right type and in its range."""
    with raising(CertificateError, "not a certificate: "):
        values = parse_object(text, longest=_MAX_CHARACTERS)
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
    values.setdefault("families", [])  # that of one family, or from before there were several
    infinite = values.get("lam") == _INFINITY
    with raising(CertificateError):
        certificate: Certificate = read_object(kind, values | {"lam": None} if infinite else values)
    return replace(certificate, lam=math.inf) if infinite else certificate
