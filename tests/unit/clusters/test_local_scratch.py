"""Scratch on a device of its own is private, found by the cluster in its usual place, and removed with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.clusters.backend import Launch
from penstock.clusters.local import LocalBackend
from penstock.errors import MissingRequirement
from penstock.home import Home
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.profiles.base import SCRATCH_DISK

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setattr(LocalBackend, "_start_shim", lambda *_: None)
    monkeypatch.setattr(machine, "_SHARED_MEMORY", tmp_path)
    return LocalBackend(Home(tmp_path / "home"))


def launch(backend: LocalBackend, disk: str) -> None:
    try:
        backend.launch(Launch("app-1", ApplicationSpec("/a.py", SIZE, "a"), {SCRATCH_DISK: disk} if disk else {}))
    except MissingRequirement as missing:
        if "Scratch" in missing.problem:
            raise
        pytest.skip(missing.problem)


def test_it_is_where_the_settings_say_and_goes_with_the_cluster(tmp_path: Path, backend: LocalBackend) -> None:
    device = tmp_path / "device"
    device.mkdir()
    launch(backend, str(device))
    scratch = tmp_path / "home" / "applications" / "app-1" / "scratch"
    (scratch / "blockmgr").mkdir()
    assert scratch.resolve().is_relative_to(device)
    assert scratch.resolve().stat().st_mode & 0o077 == 0
    assert f"spark.local.dir={scratch}" in (scratch.parent / "private" / "spark.conf").read_text().replace(" ", "=")
    backend.release(backend.handle("app-1"))
    assert list(device.iterdir()) == []


def test_without_the_setting_it_is_in_the_home(tmp_path: Path, backend: LocalBackend) -> None:
    launch(backend, "")
    scratch = tmp_path / "home" / "applications" / "app-1" / "scratch"
    assert scratch.is_dir()
    assert not scratch.is_symlink()


@pytest.mark.parametrize("disk", ["{tmp}/nowhere", "relative/path"])
def test_a_place_that_cannot_be_is_refused_with_the_setting(tmp_path: Path, backend: LocalBackend, disk: str) -> None:
    with pytest.raises(MissingRequirement, match="Scratch cannot be in") as refused:
        launch(backend, disk.format(tmp=tmp_path))
    assert SCRATCH_DISK in refused.value.why
