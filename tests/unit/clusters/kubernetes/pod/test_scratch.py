"""Pods of a node that share a directory of it do not see each other's files there, and nothing of a dead one stays."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

import pytest

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.pod import scratch
from penstock.clusters.kubernetes.pod.scratch import process_environment, sweep, working_directory

SHARED = {layout.SHARED_SCRATCH: "true", "PENSTOCK_APPLICATION": "app-1", "TMPDIR": str(layout.SCRATCH)}
HOUR = 3600.0


def test_a_volume_of_the_pods_own_is_its_working_directory(tmp_path: Path) -> None:
    with working_directory({"PENSTOCK_APPLICATION": "app-1"}, tmp_path) as directory:
        assert directory == tmp_path
    assert tmp_path.is_dir()


def test_each_pod_on_a_shared_directory_has_its_own_and_removes_it(tmp_path: Path) -> None:
    (tmp_path / "lib.zip").write_text("of somebody else")
    with working_directory(SHARED, tmp_path) as one, working_directory(SHARED, tmp_path) as other:
        assert one.parent == other.parent == tmp_path
        assert one != other
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
        assert list(one.iterdir()) == []
        (one / "blockmgr-1").mkdir()
        (one / "blockmgr-1" / "shuffle.data").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["lib.zip"]


def test_a_failure_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), working_directory(SHARED, tmp_path):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"), working_directory(SHARED, tmp_path / "missing"):
        pass


def dead(volume: Path, name: str) -> Path:
    directory = volume / name
    (directory / "blockmgr-1").mkdir(parents=True)
    (directory / "blockmgr-1" / "shuffle.data").write_text("x")
    os.utime(directory, (time.time() - HOUR, time.time() - HOUR))
    return directory


def test_the_directory_of_a_killed_pod_is_removed_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_beat", lambda *_: None)
    volume = tmp_path / "volume"
    killed, foreign, elsewhere = dead(volume, "penstock-a"), dead(volume, "b"), dead(tmp_path, "elsewhere")
    (volume / "penstock-link").symlink_to(elsewhere)
    locked = dead(volume, "penstock-c")
    lock = os.open(locked, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with working_directory(SHARED, volume) as alive:
        sweep(volume, now=time.time())
        assert alive.is_dir()
        # A pod that could not lock its directory, or has just made it, is protected by its age.
        (volume / "penstock-new").mkdir()
        sweep(volume, now=time.time() + 600)
    os.close(lock)
    assert not killed.exists()
    assert (locked.exists(), foreign.exists(), (elsewhere / "blockmgr-1" / "shuffle.data").exists()) == (True,) * 3
    assert (volume / "penstock-new").exists()
    sweep(volume, now=time.time() + HOUR)
    assert sorted(path.name for path in volume.iterdir()) == ["b", "penstock-link"]


def test_a_running_pod_sweeps(tmp_path: Path) -> None:
    killed = dead(tmp_path, "penstock-a")
    with working_directory(SHARED, tmp_path):
        deadline = time.monotonic() + 20
        while killed.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not killed.exists()


def test_programs_find_the_private_directory_by_their_environment() -> None:
    own = Path("/var/penstock/scratch/penstock-app-1-x")
    found = process_environment({**SHARED, "SPARK_LOCAL_DIRS": str(layout.SCRATCH)}, own)
    assert (found["TMPDIR"], found["SPARK_LOCAL_DIRS"]) == (str(own), str(own))
    assert process_environment({**SHARED, "TMPDIR": "/tmp"}, own)["TMPDIR"] == "/tmp"  # noqa: S108
    assert process_environment(SHARED, layout.SCRATCH) == SHARED
