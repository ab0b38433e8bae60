"""Trained hypotheses as plain arrays, which a checkpoint can keep without pickle."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes.pools import (
    Hypotheses,
    HypothesisGroups,
    LinearArrays,
    LinearModels,
    RBFSVMs,
    Sample,
    ScoreModels,
    TreeArrays,
    TreeEnsembles,
)

Arrays = dict[str, NDArray[Any]]

_SETTINGS = ("working_memory", "engine")

# Models that are arrays already, by the name of their type.
_MODELS: dict[str, Any] = {"TreeEnsembles": (TreeEnsembles, TreeArrays), "LinearModels": (LinearModels, LinearArrays)}


def to_arrays(hypotheses: Hypotheses) -> Arrays | None:
    """Return hypotheses as arrays by name; None for those that are Python objects: they are trained again."""
    if isinstance(hypotheses, HypothesisGroups):
        arrays: Arrays = {"kind": hypotheses.kind}
        for name, group in hypotheses.groups.items():
            part = to_arrays(group)
            if part is None:
                return None
            arrays |= {f"{name}.{key}": value for key, value in part.items()}
        return arrays
    if isinstance(hypotheses, ScoreModels):
        stored = {"type": type(hypotheses).__name__, "vote_by": hypotheses.vote_by}
        parts = stored | hypotheses.compact().models.arrays()
        return {name: np.asarray(value) for name, value in parts.items()}
    if not isinstance(hypotheses, RBFSVMs) or issparse(hypotheses.scale) or hypotheses.code_book is not None:
        return None
    values = {field.name: getattr(hypotheses, field.name) for field in fields(hypotheses)}
    del values["classes"]  # those of the sample
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def from_arrays(arrays: Arrays, sample: Sample) -> Hypotheses:
    """Return hypotheses trained on a sample from what `to_arrays` made of them."""
    if "type" in arrays:
        kind, of_arrays = _MODELS[arrays["type"].item()]
        parts: dict[str, Any] = {name: arrays[name] for name in arrays if name not in ("type", "vote_by")}
        # Text is a single value.
        models = of_arrays(**{name: part.item() if part.ndim == 0 else part for name, part in parts.items()})
        everyone = np.arange(len(models))
        return kind(sample.classes, models, everyone, sample.code_book, arrays["vote_by"].item())  # type: ignore[no-any-return]
    if "kind" in arrays:
        names = sorted({key.rpartition(".")[0] for key in arrays if key != "kind"})
        groups = {}
        for name in names:
            own = {key.removeprefix(f"{name}."): arrays[key] for key in arrays if key.startswith(f"{name}.")}
            groups[name] = from_arrays(own, sample)
        return HypothesisGroups(groups, arrays["kind"])
    values: dict[str, Any] = {"scale": None, "shared_scale": None, **arrays}
    values |= {name: arrays[name].item() for name in _SETTINGS}
    return RBFSVMs(classes=sample.classes, **values)
