"""How much memory there is, so that a file that does not fit is refused before it is read."""

from __future__ import annotations

from pathlib import Path


def available() -> int | None:
    """Bytes that this process may still take, as far as Linux tells: of the machine, and of the container."""
    left = [amount for amount in (_of_machine(), _of_container()) if amount is not None]
    return min(left) if left else None


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kibibytes) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _of_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text())  # "max", where there is none, is no number
        used = int((folder / "memory.current").read_text())
        return max(0, limit - used)
    except (OSError, ValueError):
        return None


def readable(size: float) -> str:
    """A number of bytes, for people.

    Examples
    --------
    >>> readable(3.2 * 2**30), readable(1536)
    ('3.2 GiB', '1.5 KiB')
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
