"""Limits on reading a file: whether it can be opened, and the memory that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pacbayes.exceptions import PACBayesError, TableError
from pacbayes.rows import ANY_SIZE, MOST_GROWTH

# Memory that a column takes besides its cells, in Arrow's and pandas' objects and buffers: 16.5 KiB were measured.
_PER_COLUMN = 2**14


@contextmanager
def explain_unreadable(error: type[PACBayesError]) -> Iterator[None]:
    """Raise `error`, saying what is wrong with a file, where the system cannot open or read it."""
    try:
        yield
    except OSError as cause:
        known = {FileNotFoundError: "there is no such file", IsADirectoryError: "this is a folder, not a file"}
        raise error(known.get(type(cause), f"cannot be read: {cause.strerror}")) from cause


@contextmanager
def explain_damage(message: str) -> Iterator[None]:
    """Raise TableError for damage, which packages that unpack a file report by exceptions of many kinds."""
    try:
        yield
    except (PACBayesError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise TableError(f"{message}: {error}") from error


def undamaged(chunks: Iterator[bytes], message: str) -> Iterator[bytes]:
    """Yield chunks of what is unpacked, with damage explained."""
    with explain_damage(message):
        yield from chunks


class Budget:
    """Bytes of memory that reading a file may still take; raises `error` when they are exceeded.

    What is counted is what is materialised, not what the file's own header says about it.
    """

    def __init__(self, max_bytes: int, error: type[PACBayesError]) -> None:
        self.max_bytes = max_bytes
        self.left = max_bytes
        self.needed = 0  # the limit that would have done
        self._error = error

    def admit(self, n_bytes: int, reason: str = "") -> None:
        """Count bytes, and raise if they exceed what is left."""
        self.check(n_bytes, reason)
        self.left -= n_bytes

    def check(self, n_bytes: int, reason: str = "") -> None:
        """Raise if bytes that are counted later, or elsewhere, exceed what is left."""
        self.needed = max(self.needed, self.max_bytes - self.left + n_bytes)
        if n_bytes > self.left:
            raise self._error(
                f"it takes more than {format_bytes(self.max_bytes)} of memory, the limit that max_bytes (--max-bytes) "
                f"sets{reason}"
            )

    def admit_columns(self, count: int) -> None:
        """Count what columns take besides their cells."""
        self.admit(count * _PER_COLUMN, f": each of its {count} columns takes {format_bytes(_PER_COLUMN)}")

    def check_growth(self, n_bytes: int, file_size: int, *, most: int = MOST_GROWTH, always: int = ANY_SIZE) -> None:
        """Raise if bytes exceed what is left, or what a file holds: `most` for each of its own, `always` besides."""
        self.check(n_bytes)
        if n_bytes > always + most * file_size:
            raise self._error(f"a file of {format_bytes(file_size)} cannot hold a table of {format_bytes(n_bytes)}")

    def count(self, n_bytes: int, *, kept: bool) -> None:
        """Count the bytes of rows that are kept with others; compare those of rows that are read by themselves."""
        (self.admit if kept else self.check)(n_bytes)


def format_bytes(size: float) -> str:
    """Format a number of bytes in binary units.

    >>> format_bytes(3.2 * 2**30), format_bytes(1536)
    ('3.2 GiB', '1.5 KiB')
    """
    if size < 1024:
        return f"{size:.0f} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.3g} {unit}"
    return f"{size / 1024:.3g} GiB"
