"""Text in any encoding, as UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pacbayes.exceptions import TableError
from pacbayes.io._limits import Budget
from pacbayes.io._source import copied

# Windows-1252 holds all that Latin-1 has, and is what files without a name for their encoding usually are in.
_FALLBACK = "cp1252"
_CHUNK_SIZE = 2**20
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Characters that text does not hold.
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")


class _NotDecodedError(TableError):
    """A byte that is not text in an encoding."""


@contextmanager
def decoded(file: BinaryIO, encoding: str | None, budget: Budget) -> Iterator[tuple[BinaryIO, str]]:
    """Yield a text file in UTF-8, at its beginning, and the encoding that it was in.

    By default that is what a byte order mark says, otherwise UTF-8, otherwise Windows-1252, if all of it is printable
    text in that.
    """
    start, unread = file.read(4), None
    file.seek(0)
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), "utf-8")
    name = _look_up(marked if encoding is None else encoding)
    if name == "utf-8":
        unread = _first_undecodable(file)
        if unread is None:
            yield file, name
            return
        if encoding is not None:
            raise unread
        name = _FALLBACK
    with copied(_transcode(file, name, unread), budget.check) as copy:
        yield copy, name


def _transcode(file: BinaryIO, encoding: str, unread: _NotDecodedError | None) -> Iterator[bytes]:
    """Yield a text file in UTF-8. If `unread` says that it is not, its encoding is a guess."""
    try:
        for text in _decode(file, encoding):
            if unread is not None and _CONTROL.search(text):
                raise _NotDecodedError("a control character")
            yield text.encode("utf-8", errors="replace")
    except _NotDecodedError as error:
        raise (TableError(f"{unread}; give its encoding (encoding=, --encoding)") if unread else error) from error


def _first_undecodable(file: BinaryIO) -> _NotDecodedError | None:
    """Return what is wrong with a file that is not UTF-8, and leave the file at its beginning."""
    try:
        for _ in _decode(file, "utf-8"):
            pass
    except _NotDecodedError as error:
        return error
    finally:
        file.seek(0)
    return None


def _look_up(encoding: str) -> str:
    """Return the usual name of an encoding of text."""
    try:
        name = codecs.lookup(encoding).name
        codecs.getincrementaldecoder(name)
        b"a".decode(name, errors="ignore")  # refuses what does not decode to text
    except (LookupError, ValueError) as error:
        raise TableError(f"there is no encoding {encoding!r}: 'utf-8', 'latin-1' or 'cp1252' would be right") from error
    return {"utf-8-sig": "utf-8"}.get(name, name)


def _decode(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield the text of a file in chunks, or raise _NotDecodedError, with the line and the byte that is wrong."""
    decoder, line, ended = codecs.getincrementaldecoder(encoding)(), 1, False
    while not ended:
        chunk = file.read(_CHUNK_SIZE)
        ended = not chunk
        try:
            text = decoder.decode(chunk, final=ended)
        except UnicodeError as error:
            raise _NotDecodedError(_describe(error, line, encoding)) from error
        zero = text.find("\0")
        if zero >= 0:
            raise TableError(f"line {line + _count_lines(text[:zero])}: a zero byte, so this is not a text file")
        line += _count_lines(text)
        yield text


def _describe(error: UnicodeError, line: int, encoding: str) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return f"not {encoding.upper()} text: {error}"
    line += _count_lines(error.object[: error.start].decode("latin-1"))
    return f"line {line}: not {encoding.upper()} text (byte 0x{error.object[error.start]:02x})"


def _count_lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
