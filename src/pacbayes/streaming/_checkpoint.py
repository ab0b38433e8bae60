"""Results of finished tasks in a folder, so that a fit that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.atomic import write_atomic
from pacbayes.exceptions import SourceError

__all__ = ["Arrays", "Checkpoint"]

Arrays = dict[str, NDArray[Any]]

_FORMAT = 1
_MANIFEST = "checkpoint.json"


class Checkpoint:
    """A folder of results, which belong to one fit: of the same data, with the same settings and seed.

    Parameters
    ----------
    folder : Path
        The folder; made if there is none.
    fingerprints : mapping of str to str
        Digests of what the results depend on, by name.
    seed : int or None
        Seed of the fit; None if any will do.

    Attributes
    ----------
    seed : int or None
        Seed of the fit whose results are here; None if there are none yet and any will do.
    """

    def __init__(self, folder: Path, fingerprints: Mapping[str, str], seed: int | None) -> None:
        self.folder = Path(folder)
        self._fingerprints = dict(fingerprints)
        manifest = self.folder / _MANIFEST
        if self.folder.exists() and not self.folder.is_dir():
            raise SourceError(f"checkpoint must be a folder, and {str(folder)!r} is a file")
        if not manifest.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise SourceError(f"checkpoint must be a new folder or one of a fit, and {str(folder)!r} holds others")
            self.seed = seed
            return
        try:
            stored = json.loads(manifest.read_text())
            known, self.seed = dict(stored["fingerprints"]), int(stored["seed"])
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(f"{str(manifest)!r} is damaged: give another folder, or delete this one") from error
        changed = [name for name in self._fingerprints if known.get(name) != self._fingerprints[name]]
        if stored.get("format") != _FORMAT:
            changed = ["the version of the library"]
        elif seed is not None and seed != self.seed:
            changed.append("random_state")
        if changed:
            raise SourceError(
                f"the checkpoint in {str(folder)!r} belongs to another fit, {', '.join(changed)} differ: give another "
                "folder, or delete this one"
            )

    def begin(self, seed: int) -> None:
        """Note whose results these are going to be."""
        self.seed = seed
        manifest = {"format": _FORMAT, "fingerprints": self._fingerprints, "seed": seed}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SourceError(f"cannot make the checkpoint folder {str(self.folder)!r}: {error.strerror}") from error
        self._write(self.folder / _MANIFEST, json.dumps(manifest, indent=1).encode())

    def save(self, name: str, result: Arrays) -> None:
        """Keep the result of a task."""
        content = io.BytesIO()
        np.savez(content, **result)  # type: ignore[arg-type]
        self._write(self._path(name), content.getvalue())

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_atomic({path: content})
        except OSError as error:
            raise SourceError(f"cannot write the checkpoint {str(path)!r}: {error.strerror}") from error

    def load(self, name: str) -> Arrays | None:
        """Return the result of a task, None if it is not there, or damaged."""
        try:
            with np.load(io.BytesIO(self._path(name).read_bytes()), allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError):
            return None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.npz"
