"""fio's report becomes samples, and impossible options are refused before it starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, MissingRequirement
from penstock.lab.workloads.blocks import PATTERNS, Blocks, points, samples
from penstock.lake.ceph import rbd as rados
from penstock.lake.ceph.rbd import Image
from penstock.lake.model import Lake

READ = PATTERNS[3]
REPORT = {
    "jobs": [
        {
            "read": {
                "io_bytes": 49057792,
                "runtime": 799,
                "total_ios": 11983,
                "clat_ns": {"mean": 66328.6, "max": 423408, "bins": {"53504": 358, "28800": 2, "99999": 0}},
            },
            "write": {"total_ios": 0},
        }
    ]
}


def test_a_report_becomes_a_rate_and_a_histogram_in_microseconds() -> None:
    measure, latency = samples(READ, REPORT)
    assert (measure["bytes"], measure["operations"], measure["elapsed_ms"]) == (49057792, 11983, 799)
    assert measure["mean_latency_us"] == pytest.approx(66.3286)
    assert latency["histogram"] == [[28.928, 2], [53.76, 358]], "fio names a bucket by its middle, we by its end"


def test_a_device_that_did_nothing_is_no_sample_of_zero() -> None:
    with pytest.raises(ValueError, match="made no request"):
        list(samples(PATTERNS[2], REPORT))


def test_the_bandwidth_log_becomes_points_by_the_second() -> None:
    found = list(points(READ, "1000, 400, 0, 4096, 0\n2001, 800, 0, 4096, 0\n"))
    assert [(point["second"], point["bytes"], point["operations"]) for point in found] == [
        (0, 409600, 100),
        (1, 819200, 200),
    ]


def test_a_colon_in_the_path_does_not_divide_it() -> None:
    blocks, place = Blocks(), Path("/data/a:b")
    assert "--directory=/data/a\\:b" in blocks.arguments(READ, blocks.files(place), place)


def test_workers_share_a_device_by_parts_and_files_are_their_own() -> None:
    blocks, place = Blocks(size_bytes=2 << 20, workers=3, depth=8), Path("/x")
    shared = blocks.arguments(READ, blocks.in_store(Image(place, "pool", "image")), place)
    assert {"--ioengine=rbd", "--pool=pool", "--rbdname=image", "--offset_increment=2097152"} <= set(shared)
    assert not any(argument.startswith(("--direct", "--directory")) for argument in shared), "there is no kernel in it"
    files = blocks.arguments(READ, blocks.files(place), place)
    assert {"--ioengine=libaio", "--direct=1", "--filename_format=file-$jobnum"} <= set(files)


def test_what_a_device_of_the_store_never_held_is_written_before_it_is_read() -> None:
    blocks, place = Blocks(), Path("/x")
    target = blocks.in_store(Image(place, "pool", "image"))
    assert target.empty
    assert not blocks.files(place).empty, "fio itself writes a file before it reads it"
    filling = blocks.filling(target)
    assert "--rw=write" in filling
    assert "--time_based" not in filling, "all of it"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"device": "nbd"}, "no device nbd"),
        ({"device": "rbd", "directory": "/"}, "--directory and --device rbd exclude each other"),
    ],
)
def test_a_device_that_cannot_be_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Blocks(**options).check_options()  # type: ignore[arg-type]


def test_a_kernel_without_rados_devices_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: "/usr/bin/fio" if name == "fio" else None)
    monkeypatch.setattr(rados, "_KERNEL", tmp_path / "nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(MissingRequirement, match="does not support RADOS block devices") as refused:
        Blocks(device="krbd").check_options()
    assert "--device rbd" in refused.value.fix


def test_a_lake_that_is_no_ceph_of_this_home_has_no_block_devices() -> None:
    lake = Lake("far", ("http://127.0.0.1:1",), "bucket", "environment")
    with pytest.raises(InvalidInput, match="no RADOS block devices"):
        Blocks(device="rbd").check_lake(lake)
    Blocks().check_lake(lake)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no directory"):
        Blocks(directory=str(tmp_path / "nowhere")).check_options()


def test_without_fio_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingRequirement, match="apt-get install fio"):
        Blocks().check_options()
