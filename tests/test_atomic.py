from pathlib import Path

import pytest

from pacbayes.io import check_writable, write_atomic


def test_writing_is_all_or_nothing(tmp_path):
    places = {tmp_path / "a": b"1", tmp_path / "none" / "b": b"2"}
    with pytest.raises(OSError, match="No such file"):
        write_atomic(places)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def fail(self, target):
        raise OSError("no rename")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no rename"):
        write_atomic({tmp_path / "a": b"new"})
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_places_that_cannot_be_written(tmp_path):
    check_writable(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(NotADirectoryError, match="there is no folder"):
        check_writable(tmp_path / "none" / "a")
