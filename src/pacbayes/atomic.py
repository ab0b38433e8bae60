"""Write files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["check_writable", "write_atomic"]


def write_atomic(contents: Mapping[Path, bytes]) -> None:
    """Write files under temporary names, and rename them once all are complete.

    Parameters
    ----------
    contents : mapping of Path to bytes
        Content of each file. Files that exist are replaced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     write_atomic({path: b"done"})
    ...     path.read_bytes()
    b'done'
    """
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in contents}
    try:
        for path, content in contents.items():
            partial[path].write_bytes(content)
        for path in contents:
            partial[path].replace(path)
    finally:
        for temporary in partial.values():
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise OSError if a file cannot be written here. Called before the work whose result it is to hold.

    Parameters
    ----------
    path : Path
        The file to be written.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, give the name of a file")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    trial = path.with_name(f".{path.name}.{os.getpid()}.trial")
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise PermissionError(f"cannot write {str(path)!r}: {error.strerror}") from error
