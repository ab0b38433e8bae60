"""Write files that appear complete or not at all, and lock folders that one process at a time may write to."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

# A file in a locked folder.
LOCK_NAME = "lock"

# What the process has open.
_STREAMS = ("stdin", "stdout", "stderr")
_DESCRIPTOR = re.compile(r"/dev/(stdin|stdout|stderr)|(?:/dev|/proc/self)/fd/(\d+)")

# Files that are being written.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]+\.partial", re.DOTALL)


class _Destination(NamedTuple):
    """What is found at a path that is to be written."""

    path: Path  # with a symbolic link followed
    is_special: bool  # there is something to be written to as it is
    descriptor: int | None  # number by which the process has it open


def _find_destination(path: Path) -> _Destination:
    # Opened by its name, a file that standard output goes to would be cut, and written from its beginning.
    found = _DESCRIPTOR.fullmatch(os.path.abspath(path))
    descriptor = None if found is None else _STREAMS.index(found[1]) if found[1] else int(found[2])
    exists = path.exists() and not path.is_dir()
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    return _Destination(target, exists and not (descriptor is None and path.is_file()), descriptor)


def is_special(path: Path) -> bool:
    """Return whether a path is a device or a pipe, or what the process has open already, such as ``/dev/stdout``."""
    return _find_destination(path).is_special


def write_atomic(contents: Mapping[Path, bytes]) -> None:
    """Write files under temporary names, and rename them once all are complete and on disk.

    Parameters
    ----------
    contents : mapping of Path to bytes
        Content of each file. Files that exist are replaced, see `open_atomic`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     write_atomic({path: b"done"})
    ...     path.read_bytes()
    b'done'
    """
    with ExitStack() as stack:
        files = [(stack.enter_context(open_atomic(path)), content) for path, content in contents.items()]
        for file, content in files:
            file.write(content)
        for file, _ in files[:-1]:  # the last one is the first that is synced and renamed
            _sync(file)


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write that appears at its place when the block ends, complete and on disk, or not at all.

    A file that exists keeps its mode and, where the system allows it, its owner. A symbolic link stays, and what it
    points to is replaced. A device, a pipe, or what is open already, such as ``/dev/stdout``, is written to as it is.
    """
    path, special, descriptor = _find_destination(path)
    if special:
        with path.open("wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb") as opened:
            yield opened
        return
    with suppress(OSError):
        remove_leftovers(path.parent, path.name)
    with _partial_file(path) as (partial, file):
        _copy_permissions(path, file)
        yield file
        _sync(file)
        if sys.platform == "win32":  # where an open file cannot be renamed
            file.close()
        partial.replace(path)


def create_atomic(path: Path, content: bytes) -> None:
    """Create a file with its content at once, unless there is one: of several that try, one does."""
    with _partial_file(path) as (partial, file):
        file.write(content)
        _sync(file)
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            with suppress(FileExistsError), path.open("xb") as created:
                created.write(content)
                _sync(created)


def check_writable(path: Path) -> None:
    """Raise OSError if a file cannot be written here. Called before the work whose result it is to hold."""
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, give the name of a file")
    target, special, _ = _find_destination(path)
    if not special and not target.parent.is_dir():
        raise NotADirectoryError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
    try:
        if special and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not special:
            with _partial_file(target):
                pass
    except OSError as error:
        raise PermissionError(f"cannot write {str(path)!r}: {error.strerror}") from error


@contextmanager
def _partial_file(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Open a new file beside another one, which is removed at the end unless it was renamed."""
    partial, file = _open_partial(path)
    try:
        with file:
            yield partial, file
    finally:
        partial.unlink(missing_ok=True)
    if sys.platform != "win32":  # write the names of the folder to disk, where the system can
        descriptor = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(descriptor)
        os.close(descriptor)


def _open_partial(path: Path) -> tuple[Path, BinaryIO]:
    """Open a new file beside another one, and lock it, so that `remove_leftovers` can tell that it is in use."""
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        file = partial.open("xb")
        _try_lock(file, wait=True)
        if partial.exists():
            return partial, file
        file.close()  # before it was locked, another process took it for a leftover


def is_partial(name: str) -> bool:
    """Return whether a file of this name is one that is being written, or was when its process was killed."""
    return _PARTIAL.fullmatch(name) is not None


def remove_leftovers(folder: Path, of: str | None = None) -> None:
    """Remove what killed processes left of a file that they were writing; by default, of all files in the folder."""
    for name in os.listdir(folder):
        partial = _PARTIAL.fullmatch(name)
        if partial is not None and of in (None, partial[1]):
            with suppress(OSError), (folder / name).open("rb") as file:
                if _try_lock(file):
                    (folder / name).unlink()


def _copy_permissions(path: Path, file: BinaryIO) -> None:
    """Give a new file the owner and the mode of the one that it is to replace, if there is one."""
    if sys.platform != "win32":
        with suppress(FileNotFoundError):
            status = path.stat()
            with suppress(PermissionError):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), status.st_mode & 0o777)


def _sync(file: BinaryIO) -> None:
    """Write a file to disk. Otherwise its new name may be there before its content."""
    file.flush()
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fsync(file.fileno())


# -- Locks, which the system releases when a process ends, however it does ---------------------------


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep others out of a folder, made if there is none and removed if empty; BlockingIOError if it is locked."""
    lock = folder / LOCK_NAME
    with _open_locked(lock):
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()
                folder.rmdir()


def _open_locked(lock: Path) -> BinaryIO:
    while True:
        lock.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError), ExitStack() as stack:
            file = stack.enter_context(lock.open("ab"))
            if _try_lock(file) is False:
                raise BlockingIOError(f"another process is writing to {str(lock.parent)!r}")
            # The one that had locked it before may have removed it.
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                stack.pop_all()
                return file


def _try_lock(file: BinaryIO, *, wait: bool = False) -> bool | None:
    """Lock a file for as long as it is open, and return whether no other process has; None if there are no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK) else None
    return True
