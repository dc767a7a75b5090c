"""The state directory's files and locks after a failure half-way."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from penstock.home import Home, open_below, sizes_below, write_atomically, write_once


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


LEADS_ELSEWHERE = [
    "",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    ".",
    "../credentials",
    "../../lake/credentials",
    "events/../../credentials",
    "events/..",
    "events/./log",
    "./log",
    "events//log",
    "events/",
    "log\0",
    "log\n",
    "..\\credentials",
    "C:\\credentials",
    "\x1b[2Jlog",
    "a" * 256,
    "ß" * 128,
    "a/" * 600 + "a",
]
"""Names that do not stay below the directory they are joined to."""


@pytest.mark.parametrize("name", LEADS_ELSEWHERE)
@pytest.mark.parametrize("write", [False, True])
def test_no_name_leads_elsewhere(tmp_path: Path, name: str, *, write: bool) -> None:
    root = tmp_path / "home" / "root"
    (root / "events").mkdir(parents=True)
    (tmp_path / "home" / "credentials").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileNotFoundError), open_below(root, name, write=write):
        pass
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["log", "events/log", "events/deeper/log", "..log", "a b", "events/ü~1", "a" * 255])
def test_every_other_name_is_that_of_a_file_below(tmp_path: Path, name: str) -> None:
    with open_below(tmp_path, name, write=True) as file:
        file.write(b"content")
    with open_below(tmp_path, name) as file:
        assert file.read() == b"content"
    assert sizes_below(tmp_path) == {name: 7}


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("link", ["file", "directory", "nothing", "itself", "pipe"])
def test_no_link_leads_elsewhere(tmp_path: Path, link: str, *, write: bool) -> None:
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    root.mkdir()
    secrets.mkdir()
    (secrets / "log").write_text("secret")
    name = "log"
    if link == "file":
        (root / "log").symlink_to(secrets / "log")
    elif link == "directory":
        name = "events/log"
        (root / "events").symlink_to(secrets)
    elif link == "nothing":
        (root / "log").symlink_to(secrets / "new")
    elif link == "itself":
        (root / "log").symlink_to(root / "log")
    else:
        os.mkfifo(root / "log")
    with pytest.raises(FileNotFoundError), open_below(root, name, write=write):
        pass
    assert sizes_below(root) == {}
    assert [path.name for path in secrets.iterdir()] == ["log"]
    assert (secrets / "log").read_text() == "secret"
