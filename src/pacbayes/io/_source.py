"""Open a table wherever it is: a file, a pipe or standard input, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from pacbayes._formatting import format_names
from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget, explain_damage, explain_unreadable, undamaged

_CHUNK_SIZE = 2**20
# Honest text does not shrink to less than a fiftieth, except for small files.
_MOST_GROWTH, _ANY_SIZE = 50, 2**24
# `xz -9` takes 65 MiB to unpack. A file may ask for gigabytes.
_XZ_MEMORY = 2**27
# The index of a zip archive of one table takes a few hundred bytes.
_ZIP_INDEX = 2**16
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)

_EXTENSIONS = (".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd", ".zip")


@dataclass(frozen=True)
class Content:
    """The content of a file, unpacked."""

    file: BinaryIO  # at its beginning; can be read from any position
    name: str  # of the file or the member of an archive, without the extension of a compression
    digest: str  # SHA-256 of the file as it is stored


def is_standard_input(path: Path) -> bool:
    """Return whether a path stands for standard input."""
    return str(path) == "-"


def name_of(path: Path) -> str:
    """Return what to call a file."""
    return "standard input" if is_standard_input(path) else path.name


@contextmanager
def open_content(path: Path, budget: Budget, *, unpack: bool = True) -> Iterator[Content]:
    """Open a file, ``-`` for standard input, and unpack it if its first bytes say that it is compressed."""
    with ExitStack() as stack:
        file = stack.enter_context(_open_seekable(path, budget))
        digest = hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
        stored = file.tell()
        name, start = name_of(path), _read_start(file)
        unpacker = next((unpacker for magic, unpacker in _MAGIC if magic.match(start)), None)
        if unpack and unpacker is not None:
            check = partial(budget.check_growth, file_size=stored, most=_MOST_GROWTH, always=_ANY_SIZE)
            own = Path(name).suffix.lower() in _EXTENSIONS
            name, chunks = unpacker(file, name.removesuffix(Path(name).suffix) if own else name)
            file = stack.enter_context(copied(undamaged(chunks, "the compressed file is damaged"), check))
            if not _read_start(file):
                raise TableError("the file is empty, once it is unpacked")
        yield Content(file, name, digest)


def _read_start(file: BinaryIO) -> bytes:
    """Return the first bytes of a file, and leave it at its beginning."""
    file.seek(0)
    start = file.read(16)
    file.seek(0)
    return start


@contextmanager
def _open_seekable(path: Path, budget: Budget) -> Iterator[BinaryIO]:
    """Open a file for reading at any position. What comes through a pipe is copied first."""
    with ExitStack() as stack:
        if is_standard_input(path):
            # Also where that is a file: it has no name to open it again by.
            file = stack.enter_context(copied(_read_chunks(sys.stdin.buffer), budget.check))
        else:
            with explain_unreadable(TableError):
                file = stack.enter_context(path.open("rb"))
            status = os.fstat(file.fileno())
            if stat.S_ISFIFO(status.st_mode):
                file = stack.enter_context(copied(_read_chunks(file), budget.check))
            elif not stat.S_ISREG(status.st_mode):
                raise TableError("this is no regular file")
            budget.check(status.st_size)
        if not _read_start(file):
            raise TableError("nothing came in" if is_standard_input(path) else "the file is empty")
        yield file


@contextmanager
def copied(chunks: Iterator[bytes], check: Callable[[int], None]) -> Iterator[BinaryIO]:
    """Copy what comes to a temporary file, as long as its size is accepted."""
    with tempfile.NamedTemporaryFile() as copy:
        for chunk in chunks:
            check(copy.tell() + len(chunk))
            copy.write(chunk)
        copy.seek(0)
        yield cast(BinaryIO, copy)


# -- Compressions: each returns the name of what is compressed, and its bytes in chunks --------------

Unpacker = Callable[[BinaryIO, str], tuple[str, Iterator[bytes]]]


def _read_chunks(file: Any) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_SIZE), b"")


def _unpack_by(reader: Callable[[BinaryIO], Any]) -> Unpacker:
    return lambda file, name: (name, _read_chunks(reader(file)))


def _unpack_xz(file: BinaryIO, name: str) -> tuple[str, Iterator[bytes]]:
    def chunks() -> Iterator[bytes]:
        rest = b""
        while rest := rest or file.read(_CHUNK_SIZE):
            stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            while not stream.eof:
                given = (rest or file.read(_CHUNK_SIZE)) if stream.needs_input else b""
                if stream.needs_input and not given:
                    raise EOFError("it ends too early")
                rest = b""
                yield stream.decompress(given, _CHUNK_SIZE)
            rest = stream.unused_data.lstrip(b"\0")

    return name, chunks()


def _open_zstd(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _unpack_zip(file: BinaryIO, name: str) -> tuple[str, Iterator[bytes]]:
    _check_zip_index(file)
    with explain_damage("not a zip archive that can be read"):
        archive = zipfile.ZipFile(file)
    members = [one for one in archive.infolist() if not (one.is_dir() or one.filename.startswith("__MACOSX/"))]
    if len(members) != 1:
        names = format_names([one.filename for one in members], most=4) or "no file"
        hint = ": an Excel workbook has a name that ends in .xlsx, or needs its format (format=, --format xlsx)"
        is_workbook = any(one.filename == "[Content_Types].xml" for one in members)
        raise TableError(f"a zip archive of one table is needed, and this one holds {names}{hint * is_workbook}")
    if members[0].compress_type not in _ZIP_METHODS or members[0].flag_bits & 1:
        raise TableError("the zip archive is encrypted, or compressed in an unusual way: unpack it first")

    def chunks() -> Iterator[bytes]:
        yield from _read_chunks(archive.open(members[0]))

    return PurePosixPath(members[0].filename).name, chunks()


def _check_zip_index(file: BinaryIO) -> None:
    """Raise if the index at the end of a zip archive, which is held in memory, is longer than one file needs."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 2**17))
    tail = file.read()
    end = tail.rfind(b"PK\5\6")
    index = int.from_bytes(tail[end + 12 : end + 16], "little") if 0 <= end <= len(tail) - 22 else 0
    if index > _ZIP_INDEX or b"PK\6\7" in tail:
        raise TableError("a zip archive of one table is needed, and this one holds many files or is too large")
    file.seek(0)


_MAGIC: tuple[tuple[re.Pattern[bytes], Unpacker], ...] = (
    (re.compile(rb"\x1f\x8b\x08"), _unpack_by(lambda file: gzip.GzipFile(fileobj=file, mode="rb"))),
    (re.compile(rb"BZh[1-9]1AY&SY"), _unpack_by(bz2.BZ2File)),
    (re.compile(rb"\xfd7zXZ\0"), _unpack_xz),
    (re.compile(rb"\x28\xb5\x2f\xfd"), _unpack_by(_open_zstd)),
    (re.compile(rb"PK\x03\x04"), _unpack_zip),
)
