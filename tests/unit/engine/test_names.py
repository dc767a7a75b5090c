"""An engine keeps its name, and so its records, whatever becomes of its machine and directory; a copy has another."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.connection import DATABASE_VARIABLE
from penstock.engine import names, uploads
from penstock.engine.engine import Engine
from penstock.engine.names import FILE, Place, is_copy, name_of
from penstock.home import Home

LAST = Place("machine", "/state", "id:1")


@pytest.mark.parametrize(
    ("here", "original_exists", "copied"),
    [
        (LAST, True, False),
        (replace(LAST, host="renamed"), True, False),
        (replace(LAST, path="/moved"), False, False),
        # Another directory has been created at the former path.
        (replace(LAST, path="/moved"), True, False),
        (replace(LAST, host="renamed", path="/moved"), True, False),
        # Moved to another file system, and restored in place.
        (replace(LAST, path="/moved", identity="id:2"), False, False),
        (replace(LAST, identity="id:2"), True, False),
        (replace(LAST, path="/copy", identity="id:2"), True, True),
        (replace(LAST, host="other", identity="other:1"), True, True),
        (replace(LAST, host="other", path="/copy", identity="other:2"), False, True),
    ],
)
def test_only_a_directory_of_another_identity_is_a_copy(here: Place, original_exists: bool, copied: bool) -> None:
    assert is_copy(LAST, here, original_exists) is copied


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(DATABASE_VARIABLE, raising=False)
    monkeypatch.setattr(names.socket, "gethostname", lambda: "before")
    return monkeypatch


def test_a_renamed_machine_and_a_moved_directory_keep_the_name_and_a_copy_gets_its_own(
    tmp_path: Path, host: pytest.MonkeyPatch
) -> None:
    first = name_of(Home(tmp_path / "a"))
    assert first == f"before:{tmp_path}/a"
    host.setattr(names.socket, "gethostname", lambda: "after")
    assert name_of(Home(tmp_path / "a")) == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert name_of(Home(tmp_path / "b")) == first
    # A command that names no directory makes a new one at the old path.
    assert name_of(Home(tmp_path / "a")) == f"after:{tmp_path}/a"
    assert name_of(Home(tmp_path / "b")) == first
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    assert name_of(Home(tmp_path / "copy")) == f"after:{tmp_path}/copy"
    assert name_of(Home(tmp_path / "b")) == first
    assert uploads.prefix_of(first) == Engine(Home(tmp_path / "b")).uploads


@pytest.mark.parametrize("damaged", ["", "\n", "one:/place\n", "one:/place\nhost\n"])
def test_a_damaged_file_loses_no_more_than_it_lacks(tmp_path: Path, host: pytest.MonkeyPatch, damaged: str) -> None:
    (tmp_path / FILE).write_text(damaged, encoding="utf-8")
    expected = damaged.partition("\n")[0] or f"before:{tmp_path}"
    assert [name_of(Home(tmp_path)) for _ in range(2)] == [expected] * 2
    assert len((tmp_path / FILE).read_text(encoding="utf-8").splitlines()) == 4


def test_records_in_a_shared_database_are_those_of_the_machine(tmp_path: Path, host: pytest.MonkeyPatch) -> None:
    host.setenv(DATABASE_VARIABLE, "postgresql://penstock:secret@db.example/")
    assert Engine(Home(tmp_path)).name == f"before:{tmp_path}"
    assert not (tmp_path / FILE).exists()


def test_a_former_place_that_cannot_be_looked_at_has_no_original(tmp_path: Path, host: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "here")
    first = name_of(home)
    moved = names.place_of(home)
    # A name that is too long stands for a directory that another user keeps to himself: root may enter any.
    place = replace(moved, path="/" + "x" * 5000, identity="another")
    (home.root / FILE).write_text(names._text(first, place), encoding="utf-8")
    assert name_of(home) == first
