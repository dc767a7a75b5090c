"""The state directory's files and locks, when something fails half-way."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from penstock.home import Home, write_atomically, write_once


@pytest.mark.parametrize("write", [write_atomically, write_once])
@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_write_that_fails_leaves_no_secret_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, failing: str
) -> None:
    def disk_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", disk_full)
    else:
        monkeypatch.setattr(Path, "replace", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "credentials", "secret")  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_was_wiped_while_it_was_waited_for_is_taken_where_others_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    lock = fcntl.flock

    def after_a_wipe(file: object, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        shutil.rmtree(home.root)
        lock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", after_a_wipe)
    with home.lock("lake", busy="busy"):
        assert home.locked("lake")
    assert not home.locked("lake")


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", "before")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"
