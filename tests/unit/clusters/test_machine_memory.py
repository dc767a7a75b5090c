"""The scratch directory in memory is private, is found again, and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.clusters.backend import Launch
from penstock.clusters.local import LocalBackend
from penstock.errors import MissingRequirement
from penstock.home import Home, read_json
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "memory"
    root.mkdir()
    monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", str(root))
    return root


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    for name in ("app-1", "app-2"):
        home.application(name).mkdir(parents=True)
    return home


def test_it_is_private_and_one_for_each_application(root: Path, home: Home) -> None:
    one, other = machine.prepare_scratch_memory(home, "app-1"), machine.prepare_scratch_memory(home, "app-2")
    assert one is not None
    assert other is not None
    assert one != other
    for directory in (one, one.parent, one.parent.parent):
        assert directory.stat().st_mode & 0o077 == 0
    assert machine.prepare_scratch_memory(home, "app-1") == one


def test_it_is_removed_wherever_it_was_made_and_the_last_tidies_up(
    root: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = machine.prepare_scratch_memory(home, "app-1"), machine.prepare_scratch_memory(home, "app-2")
    monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", "/elsewhere")
    assert one is not None
    assert other is not None
    (one / "1").mkdir()
    (one / "1" / "temp_local_1").write_bytes(b"spilt")
    machine.remove_scratch_memory(home.application("app-1"))
    assert not one.exists()
    assert other.exists()
    machine.remove_scratch_memory(home.application("app-1"))
    machine.remove_scratch_memory(home.application("app-2"))
    assert list(root.iterdir()) == []


def test_what_is_left_of_applications_that_are_no_more_goes_with_the_next(root: Path, home: Home) -> None:
    one = machine.prepare_scratch_memory(home, "app-1")
    assert one is not None
    (home.application("app-1") / "scratch-memory").unlink()
    home.application("app-1").rmdir()
    assert machine.prepare_scratch_memory(home, "app-2") is not None
    assert not one.exists()


def test_a_strangers_directory_of_our_name_is_not_used(root: Path, home: Home, tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    (root / f"penstock-{os.getuid()}-scratch").symlink_to(tmp_path / "stranger")
    assert machine.prepare_scratch_memory(home, "app-1") is None
    assert list((tmp_path / "stranger").iterdir()) == []


def test_without_memory_the_disk_is_used_and_the_summary_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", str(tmp_path / "not there"))
    monkeypatch.setattr(machine, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(LocalBackend, "_start_shim", lambda *_: None)
    backend = LocalBackend(Home(tmp_path / "home"))
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1, scratch_memory_bytes=1 << 30)
    try:
        backend.launch(Launch("app-1", ApplicationSpec("/a.py", size, "a"), {}))
    except MissingRequirement as missing:
        pytest.skip(missing.problem)
    summary = read_json(backend.collect(backend.handle("app-1")) / "summary.json")
    assert summary["scratch_memory_bytes"] == 0
    assert "no memory file system" in summary["scratch_fell_over"]
    conf = (tmp_path / "home" / "applications" / "app-1" / "private" / "spark.conf").read_text(encoding="ascii")
    assert "ScratchPlugin" not in conf
