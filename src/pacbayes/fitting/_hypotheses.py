"""Trained SVMs as plain arrays, which a checkpoint can keep without pickle."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes.fitting._checkpoint import Arrays
from pacbayes.pools import Hypotheses, HypothesisGroups, RBFSVMs

__all__ = ["from_arrays", "to_arrays"]

_SETTINGS = ("working_memory", "engine")


def to_arrays(hypotheses: Hypotheses) -> Arrays | None:
    """Return trained SVMs as arrays by name; None for hypotheses that are Python objects: they are trained again."""
    if isinstance(hypotheses, HypothesisGroups):
        arrays: Arrays = {"kind": hypotheses.kind}
        for name, group in hypotheses.groups.items():
            part = to_arrays(group)
            if part is None:
                return None
            arrays |= {f"{name}.{key}": value for key, value in part.items()}
        return arrays
    if not isinstance(hypotheses, RBFSVMs) or issparse(hypotheses.scale) or hypotheses.code_book is not None:
        return None
    values = {field.name: getattr(hypotheses, field.name) for field in fields(hypotheses)}
    del values["classes"]  # those of the sample
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def from_arrays(arrays: Arrays, classes: NDArray[Any]) -> Hypotheses:
    """Return trained SVMs from what `to_arrays` made of them."""
    if "kind" in arrays:
        names = sorted({key.rpartition(".")[0] for key in arrays if key != "kind"})
        groups = {}
        for name in names:
            own = {key.removeprefix(f"{name}."): arrays[key] for key in arrays if key.startswith(f"{name}.")}
            groups[name] = from_arrays(own, classes)
        return HypothesisGroups(groups, arrays["kind"])
    values: dict[str, Any] = {"scale": None, "shared_scale": None, **arrays}
    values |= {name: arrays[name].item() for name in _SETTINGS}
    return RBFSVMs(classes=classes, **values)
