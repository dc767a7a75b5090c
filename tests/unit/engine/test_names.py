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
    ("here", "original", "copied"),
    [
        (LAST, None, False),
        (replace(LAST, host="renamed"), None, False),
        (replace(LAST, path="/moved"), None, False),
        # Another directory has been created at the former path.
        (replace(LAST, path="/moved"), False, False),
        (replace(LAST, host="renamed", path="/moved"), False, False),
        # A snapshot of the file system: the directory at the former path has the same name.
        (replace(LAST, path="/snapshot"), True, True),
        # Moved to another file system, and restored in place.
        (replace(LAST, path="/moved", identity="id:2"), None, False),
        (replace(LAST, identity="id:2"), None, False),
        (replace(LAST, path="/copy", identity="id:2"), True, True),
        (replace(LAST, path="/copy", identity="id:2"), False, True),
        (replace(LAST, host="other", identity="other:1"), None, True),
        (replace(LAST, host="other", path="/copy", identity="other:2"), None, True),
    ],
)
def test_only_a_directory_of_another_identity_or_beside_its_original_is_a_copy(
    here: Place, original: bool | None, copied: bool
) -> None:
    assert is_copy(LAST, here, original=original) is copied


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(DATABASE_VARIABLE, raising=False)
    monkeypatch.setattr(names.socket, "gethostname", lambda: "before")
    return monkeypatch


def plain(name: str) -> str:
    """Return the name without its random number."""
    return name.partition("#")[0]


def test_a_renamed_machine_and_a_moved_directory_keep_the_name_and_a_copy_gets_its_own(
    tmp_path: Path, host: pytest.MonkeyPatch
) -> None:
    first = name_of(Home(tmp_path / "a"))
    assert plain(first) == f"before:{tmp_path}/a" != first
    (tmp_path / "a").rename(tmp_path / "b")
    assert name_of(Home(tmp_path / "b")) == first
    # A command that names no directory makes a new one at the old path.
    second = name_of(Home(tmp_path / "a"))
    assert plain(second) == plain(first) != second != first
    assert name_of(Home(tmp_path / "b")) == first
    host.setattr(names.socket, "gethostname", lambda: "after")
    assert [name_of(Home(tmp_path / name)) for name in ("a", "b")] == [second, first]
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    assert plain(name_of(Home(tmp_path / "copy"))) == f"after:{tmp_path}/copy"
    assert name_of(Home(tmp_path / "b")) == first
    assert uploads.prefix_of(first) == Engine(Home(tmp_path / "b")).uploads


def test_a_snapshot_beside_its_original_is_a_copy_although_its_directory_has_the_same_number(
    tmp_path: Path, host: pytest.MonkeyPatch
) -> None:
    first = name_of(Home(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "snapshot")
    host.setattr(names, "place_of", lambda home: Place("before", str(home.root), "same"))
    (tmp_path / "snapshot" / FILE).write_text(f"{first}\nbefore\n{tmp_path}/a\nsame\n", encoding="utf-8")
    assert plain(name_of(Home(tmp_path / "snapshot"))) == f"before:{tmp_path}/snapshot"


def test_the_database_of_an_earlier_version_keeps_its_records(tmp_path: Path, host: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    home.create()
    home.database.mkdir()
    assert [name_of(home) for _ in range(2)] == [f"before:{tmp_path}"] * 2


@pytest.mark.parametrize("damaged", ["", "\n", "one:/place\n", "one:/place\nhost\n"])
def test_a_damaged_file_loses_no_more_than_it_lacks(tmp_path: Path, host: pytest.MonkeyPatch, damaged: str) -> None:
    (tmp_path / FILE).write_text(damaged, encoding="utf-8")
    expected = damaged.partition("\n")[0] or f"before:{tmp_path}"
    first = name_of(Home(tmp_path))
    assert plain(first) == expected
    assert name_of(Home(tmp_path)) == first
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
