"""Block devices on a real Ceph cluster have its lakes' protection, are verified by fio, and are gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from penstock.home import Home
from penstock.lab.conditions import mounted_filesystem
from penstock.lab.environment import Environment
from penstock.lab.progress import TerminalProgress
from penstock.lab.records import Description, Recorder
from penstock.lab.session import Session
from penstock.lab.workloads import blocks
from penstock.lab.workloads.blocks import Blocks
from penstock.lake.ceph import rbd
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.daemons import run
from penstock.lake.registry import Lakes

pytestmark = pytest.mark.root

MIB = 1 << 20


def images(ceph: Ceph) -> list[str]:
    listed = run(ceph.directory, "rbd", "--conf", "ceph.conf", "list", rbd.POOL, activity="listing devices")
    return listed.split()


@pytest.mark.parametrize("lake", ["ceph", "ceph-erasure"])
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_device_kept_as_the_lake_is_measured_and_removed(ceph: Ceph, lake: str) -> None:
    home = Home(ceph.directory.parent.parent)
    recorder = Recorder.begin(home, Description(f"blocks-{lake}", "blocks", lake, "", ""))
    bench = Environment(home, Lakes(home).get(lake), None, None)  # type: ignore[arg-type] # neither objects nor Spark
    session = Session(bench, recorder, None, TerminalProgress(Console()), None, "default", {}, 1)  # type: ignore[arg-type]
    suite = Blocks(device="rbd", size_bytes=8 * MIB, seconds=1, depth=4)
    suite.check_options()
    suite.check_lake(bench.lake)
    suite.repetition(session)
    found = recorder.run()
    assert [sample["name"] for sample in found.of_kind("measure")] == [pattern.name for pattern in blocks.PATTERNS]
    assert len(found.of_kind("latency")) == len(blocks.PATTERNS)
    assert [sample["right"] for sample in found.of_kind("check")] == [True]
    assert images(ceph) == []


def test_the_device_of_a_command_that_was_killed_goes_with_the_next(ceph: Ceph) -> None:
    gone = f"{rbd.POOL}/lab-4194304-00000000"  # no process has an id so large
    with rbd.image(ceph, "ceph", MIB) as image:
        run(ceph.directory, "rbd", "--conf", "ceph.conf", "create", "--size", "1M", gone, activity="making a device")
    assert len(images(ceph)) == 1
    with rbd.image(ceph, "ceph", MIB) as image:
        assert images(ceph) == [image.name]
    assert images(ceph) == []


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A block device of this machine, or a file where the kernel has no RADOS devices."""
    file = tmp_path / "device"
    with file.open("wb") as content:
        content.truncate(64 * MIB)
    made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop devices here: {made.stderr.strip()}")
    yield Path(made.stdout.strip())
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def test_a_device_to_shuffle_on_has_a_file_system_of_its_own_for_the_time(device: Path, tmp_path: Path) -> None:
    with mounted_filesystem(device, tmp_path) as directory:
        assert directory.stat().st_dev != tmp_path.stat().st_dev
        (directory / "spilt").write_bytes(b"rows")
    assert not directory.exists()
    with mounted_filesystem(device, tmp_path) as directory:
        assert not (directory / "spilt").exists(), "nobody's data are on it"
