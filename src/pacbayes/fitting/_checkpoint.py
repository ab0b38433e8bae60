"""Results of finished tasks in a folder, so that a fit that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes._atomic import create_atomic, is_partial, remove_leftovers, write_atomic
from pacbayes._fingerprint import digest
from pacbayes.exceptions import SourceError
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

_FORMAT = 4
_MANIFEST = "checkpoint.json"

# The array of a part that says what the others are.
_SEAL = "seal"


class Checkpoint:
    """A folder of results, which belong to one fit: of the same data, with the same settings and seed.

    Every result is sealed by a digest of its content, its name and the fit that it belongs to. One that is damaged, of
    another fit or of other versions is not used: it is computed again. `fingerprints` are digests of what the fit is,
    by name; `seed` is None if any will do, and becomes that of the fit whose results are here.
    """

    def __init__(
        self, folder: Path, fingerprints: Mapping[str, str], seed: int | None, versions: Mapping[str, str]
    ) -> None:
        self.folder = Path(folder)
        self.seed = seed
        self._fingerprints = dict(fingerprints)
        self._versions = dict(versions)
        if self.folder.exists() and not self.folder.is_dir():
            raise SourceError(f"checkpoint must be a folder, and {str(folder)!r} is a file")
        # Listed before the manifest is looked for, which another fit may create at any time.
        found = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        if not self._read_manifest() and not all(map(is_partial, found)):
            raise SourceError(f"checkpoint must be a new folder or one of a fit, and {str(folder)!r} holds others")

    def begin(self, seed: int) -> int:
        """Note whose results these are going to be, unless that is noted; return the fit's seed, by default `seed`."""
        if not self._read_manifest():
            content = {"format": _FORMAT, "fingerprints": self._fingerprints}
            content["seed"] = seed if self.seed is None else self.seed
            with _explain("make the checkpoint folder", self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            with _explain("write the checkpoint", self.folder / _MANIFEST):
                create_atomic(self.folder / _MANIFEST, json.dumps(content, indent=1).encode())
            # Another fit may have created it in the meantime: it is read in any case.
            if not self._read_manifest():
                raise SourceError(f"{str(self.folder / _MANIFEST)!r} was deleted while the fit began")
        remove_leftovers(self.folder)
        assert self.seed is not None
        return self.seed

    def _read_manifest(self) -> bool:
        """Take the seed of the fit whose results are here, if it is this one; return whether there is any."""
        manifest = self.folder / _MANIFEST
        try:
            stored = json.loads(manifest.read_bytes())
            known, seed = dict(stored["fingerprints"]), int(stored["seed"])
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise SourceError(f"cannot read the checkpoint {str(manifest)!r}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise SourceError(f"{str(manifest)!r} is damaged: give another folder, or delete this one") from error
        changed = [name for name in self._fingerprints if known.get(name) != self._fingerprints[name]]
        if stored.get("format") != _FORMAT:
            changed = ["the version of the library"]
        elif self.seed is not None and seed != self.seed:
            changed.append("random_state")
        if changed:
            raise SourceError(
                f"the checkpoint in {str(self.folder)!r} belongs to another fit, {', '.join(changed)} differ: give "
                "another folder, or delete this one"
            )
        self.seed = seed
        return True

    def save(self, name: str, result: Arrays | Hypotheses) -> None:
        """Keep the result of a task, unless it cannot be stored."""
        arrays = to_arrays(result) if isinstance(result, Hypotheses) else result
        if arrays is None:
            return
        content = io.BytesIO()
        np.savez(content, **arrays, **{_SEAL: np.array(self._seal(name, arrays))})  # type: ignore[arg-type]
        with _explain("write the checkpoint", self._path(name)):
            write_atomic({self._path(name): content.getvalue()})

    def load(self, name: str) -> Arrays | None:
        """Return the result of a task, None if it is not there or not what `save` wrote for this fit."""
        try:
            with np.load(io.BytesIO(self._path(name).read_bytes()), allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
            seal = str(arrays.pop(_SEAL))
        except Exception:  # whatever is wrong with it, it is computed again
            return None
        return arrays if seal == self._seal(name, arrays) else None

    def _seal(self, name: str, arrays: Arrays) -> str:
        return digest([self._fingerprints, self.seed, self._versions, name, arrays])

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.npz"


@contextmanager
def _explain(attempt: str, path: Path) -> Iterator[None]:
    """Raise SourceError that says what was attempted where the system refuses it."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot {attempt} {str(path)!r}: {error.strerror}") from error


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
