"""The cost of a repetition is read from the kernel's counters, and never exceeds the real use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from penstock import processes
from penstock.home import Home
from penstock.lab import metering
from penstock.lab.metering import CounterSnapshot, DaemonCounters, Peaks
from penstock.lake.model import Lake
from penstock.processes import ProcessId

DISK = processes.Disk("sda", read_bytes=1000, written_bytes=2000, busy_ms=100, queued_ms=300)
OSD_0, OSD_1, CATALOG = ("store", "osd.0"), ("store", "osd.1"), ("catalog", "postgres")
DAEMONS = {OSD_0: DaemonCounters(5.0, 100, 1000), OSD_1: DaemonCounters(2.0, 0, 500), CATALOG: DaemonCounters(1.0)}
START = CounterSnapshot(10.0, 50.0, 20.0, DAEMONS, DISK, 700)
FOREIGN = Lake("far", ("https://s3.example.com",), "bucket", "environment", kind="s3")
BUSY_CHILD = """
import os, sys, time
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    os._exit(0)
os.wait()
print("ended", flush=True)
sys.stdin.read()
"""


def test_usage_is_the_difference_of_two_readings() -> None:
    disk = processes.Disk("sda", read_bytes=1500, written_bytes=2750, busy_ms=600, queued_ms=3300)
    daemons = {
        OSD_0: DaemonCounters(6.0, 400, 1600),
        OSD_1: DaemonCounters(2.25, 50, 500),
        CATALOG: DaemonCounters(1.5),
    }
    used = metering.usage_between(START, CounterSnapshot(12.0, 53.5, 21.0, daemons, disk, 1000))
    assert used == {
        "elapsed_ms": 2000,
        "machine_core_seconds": 3.5,
        "store_core_seconds": 1.25,
        "store_read_bytes": 350,
        "store_written_bytes": 600,
        "daemons": {
            "osd.0": {"core_seconds": 1.0, "read_bytes": 300, "written_bytes": 600},
            "osd.1": {"core_seconds": 0.25, "read_bytes": 50, "written_bytes": 0},
        },
        "catalog_core_seconds": 0.5,
        "other_core_seconds": 0.75,
        "disk": "sda",
        "disk_busy_share": 0.25,
        "disk_queue": 1.5,
        "disk_read_bytes": 500,
        "disk_written_bytes": 750,
        "devices": {},
        "loopback_bytes": 300,
    }


def test_a_daemon_that_ended_in_between_leaves_the_sum_out_rather_than_guessed() -> None:
    left = {name: effort for name, effort in DAEMONS.items() if name != OSD_0}
    used = metering.usage_between(START, replace(START, seconds=12.0, daemons=left))
    assert "store_core_seconds" not in used
    assert "other_core_seconds" not in used
    assert list(used["daemons"]) == ["osd.1"], "the counters of the other daemons remain"
    assert used["catalog_core_seconds"] == 0


def test_a_daemon_whose_traffic_nobody_may_read_has_processor_time_all_the_same() -> None:
    daemons = {**DAEMONS, OSD_1: DaemonCounters(2.0)}
    used = metering.usage_between(replace(START, daemons=daemons), replace(START, seconds=12.0, daemons=daemons))
    assert used["store_core_seconds"] == 0
    assert "store_read_bytes" not in used


def test_daemons_that_do_not_peak_at_once_need_less_together() -> None:
    peaks = Peaks()
    peaks.add({OSD_0: 10, OSD_1: 3})
    peaks.add({OSD_0: 4, OSD_1: 5})
    assert peaks.daemons == {OSD_0: 10, OSD_1: 5}
    assert peaks.servers == {"store": 13}


def test_a_device_is_never_busier_than_always() -> None:
    """The kernel counts in ticks, which may extend beyond the end of a short repetition."""
    used = metering.usage_between(START, replace(START, seconds=10.1, disk=replace(DISK, busy_ms=210)))
    assert used["disk_busy_share"] == 1.0


def test_what_is_on_no_device_has_no_utilisation() -> None:
    assert "disk_busy_share" not in metering.usage_between(
        replace(START, disk=None), replace(START, seconds=11.0, disk=None)
    )


@pytest.mark.parametrize(
    ("other", "warning"), [(0.0, None), (0.3, None), (1.0, "Other programs used 0.5 of 4 cores meanwhile")]
)
def test_a_time_is_called_doubtful_where_others_took_the_cores(other: float, warning: str | None) -> None:
    found = metering.disturbance_warning({"elapsed_ms": 2000, "other_core_seconds": other}, cores=4)
    assert (warning is None and found is None) or (warning and found and warning in found)


def test_a_repetition_too_short_for_the_kernels_clock_is_not_judged() -> None:
    assert metering.disturbance_warning({"elapsed_ms": 20, "other_core_seconds": 0.06}, cores=2) is None


def test_where_it_is_not_known_what_others_took_nothing_is_said() -> None:
    assert metering.disturbance_warning({"elapsed_ms": 2000}, cores=4) is None


def test_a_process_is_read_whatever_it_calls_itself() -> None:
    stat = "42 (a) b) (c) S 7 42 41 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 99 1000 25 18446744073709551615"
    found = processes.Process.parse(stat)
    assert (found.pid, found.parent, found.session, found.started) == (42, 7, 41, 99)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.core_seconds, found.ended_children_core_seconds) == (200 / ticks, 50 / ticks)
    assert found.resident_bytes == 25 * os.sysconf("SC_PAGE_SIZE")


def test_a_family_is_a_process_and_all_its_descendants() -> None:
    def process(pid: int, parent: int) -> processes.Process:
        return processes.Process(pid, parent, 1, 1, 1.0, 0.0, 0)

    running = [process(4, 3), process(3, 2), process(2, 1), process(1, 0), process(5, 2)]
    assert sorted(member.pid for member in processes.process_tree(2, running)) == [2, 3, 4, 5]
    assert processes.process_tree(9, running) == []


def test_what_a_child_used_is_not_lost_when_it_ends() -> None:
    command = [sys.executable, "-c", BUSY_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = processes.process_tree(parent.pid, processes.processes())
        parent.communicate()
    assert len(found) == 1, "the child has ended"
    assert processes.core_seconds(found) >= 0.25


def test_the_machine_worked_at_least_as_much_as_this_process(tmp_path: Path) -> None:
    with metering.metering(Home(tmp_path), FOREIGN) as usage:
        own = time.process_time()
        while time.process_time() - own < 0.3:
            pass
    assert usage.values["machine_core_seconds"] >= 0.25
    assert usage.values["other_core_seconds"] <= usage.values["machine_core_seconds"] - 0.25, (
        "this process is not another program"
    )
    assert "store_core_seconds" not in usage.values, "the foreign store is not on this machine"


def test_a_servers_memory_is_sampled_for_while_the_block_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = threading.Semaphore(0)

    class Noted(metering.Peaks):
        def add(self, seen: Mapping[metering.Daemon, int]) -> None:
            super().add(seen)
            sampled.release()

    this = ProcessId.of(os.getpid())
    monkeypatch.setattr(metering, "_daemons", lambda *_: {("store", "this"): this})
    monkeypatch.setattr(metering, "_SAMPLE_PEAKS_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(metering, "Peaks", Noted)
    with metering.metering(Home(tmp_path), FOREIGN) as usage:
        before = processes.memory_bytes(processes.process_tree(os.getpid(), processes.processes()))
        held = bytearray(os.urandom(1)) * (64 << 20)
        while sampled.acquire(blocking=False):
            pass
        # The first sample may have begun before the allocation.
        assert sampled.acquire(timeout=60)
        assert sampled.acquire(timeout=60)
        del held
    assert usage.values["store_peak_memory_bytes"] >= before + (60 << 20)
    assert usage.values["daemons"]["this"]["peak_memory_bytes"] >= before + (60 << 20)


def test_the_block_may_fail_and_is_metered_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(KeyError), metering.metering(Home(tmp_path), FOREIGN) as usage:
        raise KeyError
    assert "elapsed_ms" in usage.values


class CountingStore:
    """A store whose counter each client advances; None while it does not answer."""

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = {"GET": 100}

    def get(self, number: int) -> None:
        assert self.counts is not None
        self.counts = {**self.counts, "GET": self.counts["GET"] + number}

    def read(self) -> dict[str, int] | None:
        return self.counts


def test_requests_count_while_applications_run_and_once_where_these_overlap() -> None:
    store = CountingStore()
    counter = metering.RequestCounter(store.read)
    store.get(1)
    with counter.counting():
        store.get(10)
        with counter.counting():
            store.get(100)
        store.get(1000)
    store.get(2)
    with counter.counting():
        store.get(10_000)
        store.counts = {**(store.counts or {}), "PUT": 3}
    assert counter.counts() == {"GET": 11_110, "PUT": 3}


@pytest.mark.parametrize("after", [None, {"GET": 5}], ids=["does not answer", "restarted"])
def test_requests_that_a_store_forgot_are_unknown_and_not_few(after: dict[str, int] | None) -> None:
    store = CountingStore()
    counter = metering.RequestCounter(store.read)
    with counter.counting():
        store.counts = after
    assert counter.counts() is None


def test_without_an_application_there_are_no_requests() -> None:
    assert metering.RequestCounter(CountingStore().read).counts() is None
    assert metering.RequestCounter().foreign() is None


def test_requests_while_nothing_of_the_lab_runs_are_another_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore()
    monkeypatch.setattr(time, "sleep", lambda _: store.get(7))
    assert metering.RequestCounter(store.read).foreign() == 7
