"""Disks over time: sparse sampling loses no work, and reports show which device was busy, by arm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab import metering
from penstock.lab.analysis.resources import disk_tracks
from penstock.lab.records import Run
from penstock.lab.report import report
from penstock.lab.report.elements.render import Document, Plot, Table
from penstock.processes import Disk
from tests.unit.lab import lab_runs

MB = 1_000_000


def disk(written: int, busy_ms: int = 0) -> Disk:
    return Disk("sda", read_bytes=0, written_bytes=written, busy_ms=busy_ms, queued_ms=2 * busy_ms)


@given(st.lists(st.tuples(st.floats(0.5, 2), st.integers(0, 9 * MB)), min_size=1, max_size=5000))
def test_a_track_of_any_length_is_short_and_loses_no_byte(looks: list[tuple[float, int]]) -> None:
    track, at, written = metering.DiskHistory(), 0.0, 0
    track.add(at, disk(written))
    for number, (seconds, amount) in enumerate(looks, start=1):
        at, written = at + seconds, written + amount
        track.add(at, disk(written), last=number == len(looks))
    found = track.over_time()
    assert len(found["second"]) <= 1024
    assert sum(found["written_bytes"]) == written
    assert found["second"][-1] == pytest.approx(at, abs=0.01)


def test_a_last_look_that_follows_another_at_once_takes_its_place() -> None:
    track = metering.DiskHistory()
    for at, written in ((0.0, 0), (1.0, MB), (2.0, 2 * MB)):
        track.add(at, disk(written))
    track.add(2.004, disk(3 * MB), last=True)
    found = track.over_time()
    assert found["second"] == [1.0, 2.0]
    assert found["written_bytes"] == [MB, 2 * MB]


def test_a_record_whose_last_interval_has_no_width_is_read() -> None:
    recorded = sorted_on("arm", 0.5)
    for sample in recorded.samples:
        if track := sample.get("disk_over_time"):
            for values in track.values():
                values.append(values[-1])
    tracks = disk_tracks(recorded)
    assert [len(track.seconds) for track in tracks] == [4, 5, 6]
    assert {rate for track in tracks for rate in track.written_rates} == {5 * MB}


def test_where_no_device_can_be_read_there_is_no_track() -> None:
    track = metering.DiskHistory()
    track.add(0.0, None)
    track.add(1.0, None, last=True)
    assert track.over_time() == {}


def test_queue_and_busy_share_are_those_of_iostat() -> None:
    used = metering.disk_use(disk(0), disk(0, busy_ms=500), 2000)
    assert used == {"busy_share": 0.25, "queue": 0.5, "read_bytes": 0, "written_bytes": 0}


def test_an_idle_device_is_not_reported() -> None:
    idle = Disk("sdb", 5, 5, 5)
    found = metering.disk_uses({"sda": disk(0), "sdb": idle}, {"sda": disk(MB, 10), "sdb": idle}, 1000)
    assert list(found) == ["sda"]


def sorted_on(arm: str, share: float, *, memory: int | None = None) -> Run:
    """Three repetitions with that busy share of the shuffle disk, each a second longer than the one before."""
    samples: list[dict[str, object]] = []
    for repetition in (1, 2, 3):
        seconds = [float(second) for second in range(1, 4 + repetition)]
        track = {
            "second": seconds,
            "busy_share": [share] * len(seconds),
            "queue": [1.0] * len(seconds),
            "read_bytes": [0] * len(seconds),
            "written_bytes": [5 * MB] * len(seconds),
        }
        used = {"busy_share": share, "queue": 1.0, "read_bytes": 0, "written_bytes": 5 * MB * len(seconds)}
        usage = {
            "kind": "usage",
            "disk": "sda",
            "disk_over_time": track,
            "devices": {"sda": used, "sdb": {**used, "busy_share": 0.0}},
            **{f"disk_{key}": value for key, value in used.items()},
        }
        scratch = {} if memory is None else {"scratch_memory_bytes": memory, "scratch_disk_bytes": 0}
        application = lab_runs.application("sort", core_seconds=2, **scratch)
        samples += lab_runs.repetition(repetition, [lab_runs.measure("sort", 10), application, usage])
    return lab_runs.run("terasort", samples, arm=arm)


def parts(document: Document, title: str) -> tuple[Table, dict[str, Plot]]:
    section = next(section for section in document.sections if section.title == title)
    (table,) = (part for part in section.parts if isinstance(part, Table))
    return table, {part.name: part for part in section.parts if isinstance(part, Plot)}


def test_a_report_shows_the_disk_over_time_and_every_device() -> None:
    document = report.document([sorted_on("disk", 0.6)])
    table, plots = parts(document, "Devices")
    assert table.rows[0] == ("sda, shuffle", "60 %", "1", "0 B", "25.0 MB")
    assert table.rows[1][0] == "sdb"
    busy = plots["disk-busy"].figure["data"]
    assert [line["y"][0] for line in busy] == [60.0, 60.0, 60.0]
    assert "busy 60 % of the time" in plots["disk-busy"].summary
    assert "at most 0 B/s read and 5.00 MB/s written" in plots["disk-rates"].summary


def test_arms_are_compared_by_how_busy_they_kept_the_disk_and_what_memory_took() -> None:
    runs = [sorted_on("disk", 0.6), sorted_on("memory", 0.3, memory=25 * MB)]
    for compared in (runs, [*runs, sorted_on("half", 0.4, memory=MB)]):
        table, plots = parts(report.document(compared), "Shuffle disk")
        cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        assert [(cell["arm"], cell["disk busy"]) for cell in cells][:2] == [("disk", "60 %"), ("memory", "30 %")]
        assert [cell["scratch in memory"] for cell in cells][:2] == ["", "25.0 MB"]
        assert len(plots["disk-busy"].figure["data"]) == 3 * len(compared)


def test_older_records_have_the_same_report_as_before() -> None:
    usage = {"kind": "usage", "disk": "sda", "disk_busy_share": 0.4}
    old = lab_runs.run("terasort", lab_runs.repetition(1, [lab_runs.measure("sort", 1), usage]))
    assert disk_tracks(old) == []
    assert all(section.title != "Devices" for section in report.document([old]).sections)
