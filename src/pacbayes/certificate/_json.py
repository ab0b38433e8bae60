"""Certificates as JSON, with a checksum against accidental edits.

The checksum is no signature: who edits a certificate on purpose can compute it anew. That the bounds follow from the
figures is checked by `Certificate.check`, that the figures follow from a model or its data by verification with those.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pacbayes._json_fields import dump_checked, load_checked, raising, read_object
from pacbayes.exceptions import CertificateError

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

_FIELD, _FORMAT = "pacbayes_certificate", 4
# Longer than any certificate: what is larger is not read. A thousand labels and as many groups, all with names of 200
# characters, each of which may take 12 in JSON, are 5 million.
_MAX_CHARACTERS = 10_000_000

# Fields that are written only where they say something, and what they are otherwise: files from before have none.
_LATER: dict[str, Any] = {
    **{name: [] for name in ("families", "abstention", "prediction_sets")},
    **dict.fromkeys(("groups", "shift", "declared", "calibration", "probabilities", "numbers")),
}

# JSON has no number for it.
_INFINITY = "Infinity"


def dump(certificate: Certificate) -> str:
    """Return a certificate as JSON text."""
    values = asdict(certificate)
    values["assumptions"] = values.pop("assumption_codes")
    if certificate.lam == math.inf:
        values["lam"] = _INFINITY
    for name in _LATER:
        if not values[name]:
            del values[name]
    return dump_checked(_FIELD, _FORMAT, values)


def load(text: str, kind: type[Certificate]) -> Certificate:
    """Return a certificate, each field of the right type and in its range."""
    with raising(CertificateError):
        values = load_checked(text, "certificate", _FIELD, _FORMAT, longest=_MAX_CHARACTERS)
        values = _LATER | values
        infinite = values.get("lam") == _INFINITY
        certificate: Certificate = read_object(kind, values | {"lam": None} if infinite else values)
    return replace(certificate, lam=math.inf) if infinite else certificate
