import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pacbayes import _atomic as atomic
from pacbayes.io import check_writable, write_atomic

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links, pipes and locks are those of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writing_is_all_or_nothing(tmp_path):
    places = {tmp_path / "a": b"1", tmp_path / "none" / "b": b"2"}
    with pytest.raises(OSError, match="No such file"):
        write_atomic(places)
    assert names(tmp_path) == []


def test_a_failure_keeps_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def fail(self, target):
        raise OSError("no rename")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no rename"):
        write_atomic({tmp_path / "a": b"new"})
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_two_threads_write_one_file(tmp_path, monkeypatch):
    replace, both_wrote, errors = Path.replace, threading.Barrier(2), []

    def wait(self, target):
        both_wrote.wait(timeout=30)
        return replace(self, target)

    def write(content):
        try:
            write_atomic({tmp_path / "a": content})
        except OSError as error:
            errors.append(error)

    monkeypatch.setattr(Path, "replace", wait)
    contents = [b"1" * 9000, b"2" * 5000]
    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (tmp_path / "a").read_bytes() in contents
    assert names(tmp_path) == ["a"]


@posix
def test_content_is_on_disk_before_the_name_is(tmp_path, monkeypatch):
    fsync, replace, done = os.fsync, Path.replace, []

    def record_sync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("folder" if is_folder else os.fstat(descriptor).st_size)
        fsync(descriptor)

    def record_replace(self, target):
        done.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_replace)
    write_atomic({tmp_path / "a": b"x" * 100_000})
    assert list(dict.fromkeys(done)) == [100_000, "name", "folder"]


@posix
def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path):
    (tmp_path / ".a.123456.partial").write_bytes(b"half")
    (tmp_path / ".b.123456.partial").write_bytes(b"half")
    (tmp_path / ".a.mine.partial").write_bytes(b"mine")
    write_atomic({tmp_path / "a": b"new"})
    assert names(tmp_path) == [".a.mine.partial", ".b.123456.partial", "a"]
    # What another one is writing is not.
    with atomic.open_atomic(tmp_path / "a") as file:
        file.write(b"slow")
        write_atomic({tmp_path / "a": b"quick"})
        assert (tmp_path / "a").read_bytes() == b"quick"
    assert (tmp_path / "a").read_bytes() == b"slow"


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_mode(tmp_path, mode):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(mode)
    write_atomic({tmp_path / "a": b"new"})
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@posix
def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    write_atomic({tmp_path / "a": b"new"})
    (tmp_path / "b").write_bytes(b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    os.chown(tmp_path / "a", 1234, 2345)
    write_atomic({tmp_path / "a": b"new"})
    assert ((tmp_path / "a").stat().st_uid, (tmp_path / "a").stat().st_gid) == (1234, 2345)


@posix
def test_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, target in (("link", "a"), ("other", tmp_path / "folder" / "new")):
        (tmp_path / name).symlink_to(target)
        check_writable(tmp_path / name)
        write_atomic({tmp_path / name: b"new"})
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"
    assert names(tmp_path) == ["a", "folder", "link", "other"]
    assert names(tmp_path / "folder") == ["new"]


@posix
def test_pipes_and_devices_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check_writable(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    write_atomic({tmp_path / "pipe": b"new"})
    assert (tmp_path / "pipe").is_fifo()
    reader.join(timeout=30)
    assert read == [b"new"]
    assert names(tmp_path) == ["pipe"]
    (tmp_path / "null").symlink_to(os.devnull)
    check_writable(tmp_path / "null")
    write_atomic({tmp_path / "null": b"new"})
    assert (tmp_path / "null").is_char_device()


def test_places_that_cannot_be_written(tmp_path):
    check_writable(tmp_path / "a")
    assert names(tmp_path) == []
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(NotADirectoryError, match="there is no folder"):
        check_writable(tmp_path / "none" / "a")


@posix
def test_one_at_a_time_in_a_folder(tmp_path):
    folder = tmp_path / "parts"
    with atomic.locked_folder(folder):
        with pytest.raises(BlockingIOError, match="another process is writing to"), atomic.locked_folder(folder):
            pass
        assert names(folder) == ["lock"]
    assert names(tmp_path) == []
    with atomic.locked_folder(folder):
        (folder / "part").touch()
    assert names(folder) == ["part"]
    with pytest.raises(FileNotFoundError, match="none"), atomic.locked_folder(folder):
        (folder / "none").read_bytes()
    assert names(folder) == ["part"]


@posix
def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    folder, try_lock, calls = tmp_path / "parts", atomic._try_lock, []

    def finish_first(file):
        if not calls:  # the one that had the lock removes it, after it was opened here
            calls.append((folder / "lock").unlink())
            folder.rmdir()
        return try_lock(file)

    monkeypatch.setattr(atomic, "_try_lock", finish_first)
    with atomic.locked_folder(folder):
        assert names(folder) == ["lock"]


@posix
@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_what_standard_output_goes_to_is_written_to_as_it_is(tmp_path, mode):
    """Opened by its name, the file would be replaced, or cut and written from its beginning."""
    script = "from pathlib import Path; from pacbayes.io import write_atomic; print('before', flush=True); "
    script += "write_atomic({Path('/dev/stdout'): b'written\\n'}); print('after')"
    (tmp_path / "log").write_bytes(b"old\n")
    with (tmp_path / "log").open(mode) as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True)
    old = b"old\n" if mode == "ab" else b""
    assert (tmp_path / "log").read_bytes() == old + b"before\nwritten\nafter\n"
