"""The status computed from the monitor's answers and the kernel's counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.lake.ceph.configuration import Daemon
from penstock.lake.ceph.layout import CephState, Layout
from penstock.lake.ceph.status import daemon_status, overall_state, parse_cluster
from penstock.processes import Process, ProcessId
from penstock.units import GIB, MIB

STATE = CephState.new(Layout.validated(), None)


def process(core_seconds: float) -> Process:
    return Process(
        pid=7,
        parent=1,
        session=7,
        started=100,
        core_seconds=core_seconds,
        ended_children_core_seconds=0,
        resident_bytes=5,
    )


def answers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Answers of Ceph 16.2 with 100 MiB in each placement and an OSD down, cut to the fields that are read."""
    status = {
        "health": {"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {"summary": {"message": "1 osds down"}}}},
        "osdmap": {"num_osds": 6, "num_up_osds": 5, "num_in_osds": 6},
        "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 100}]},
    }
    usage = {
        "stats": {"total_bytes": 48 * GIB, "total_used_raw_bytes": GIB},
        "pools": [
            {
                "name": placement.pool,
                "stats": {
                    "stored": 100 * MIB,
                    "bytes_used": int(100 * MIB * placement.raw_factor),
                    "objects": 25,
                },
            }
            for placement in STATE.layout.placements().values()
        ],
    }
    return status, usage


def test_stored_and_raw_bytes_are_shown_by_lake() -> None:
    cluster = parse_cluster(STATE, *answers())
    assert {kept.lake: kept.raw_bytes / kept.stored_bytes for kept in cluster.stored} == {
        "ceph": 3.0,
        "ceph-erasure": 1.5,
    }
    assert cluster.findings == ("1 osds down",)
    assert (cluster.osds_up, cluster.osds_in) == (5, 6)


def test_a_cluster_without_placement_groups_has_a_status() -> None:
    status, usage = answers()
    status["pgmap"] = {}
    assert parse_cluster(STATE, status, usage).groups == {}


def test_a_daemon_uses_what_it_used_while_it_was_watched() -> None:
    daemon = Daemon("osd.0", ProcessId(7, 100))
    seen = daemon_status(daemon, {"osd.0": process(10.0)}, {"osd.0": process(10.25)}, 0.5, serves=True)
    assert (seen.cores, seen.core_seconds, seen.state) == (0.5, 10.25, "serves")


def test_one_that_ended_while_it_was_watched_does_not_run() -> None:
    seen = daemon_status(Daemon("osd.0", ProcessId(7, 100)), {"osd.0": process(1)}, {}, 0.5, serves=False)
    assert seen.state == "not running"


def test_one_that_hangs_is_neither_serving_nor_gone() -> None:
    seen = daemon_status(
        Daemon("osd.0", ProcessId(7, 100)), {"osd.0": process(1)}, {"osd.0": process(1)}, 0.5, serves=False
    )
    assert seen.state == "does not answer"


@pytest.mark.parametrize(
    ("serving", "running", "monitor_answers", "expected"),
    [
        (2, 2, True, "up"),
        (1, 2, True, "degraded"),
        (2, 2, False, "degraded"),
        (0, 1, True, "degraded"),
        (0, 0, False, "down"),
    ],
)
def test_it_is_up_only_where_everything_serves(
    serving: int, running: int, monitor_answers: bool, expected: str
) -> None:
    one = daemon_status(
        Daemon("osd.0", ProcessId(7, 100)), {"osd.0": process(1)}, {"osd.0": process(1)}, 1, serves=True
    )
    daemons = tuple(
        replace(one, name=f"osd.{number}", pid=7 if number < running else None, serves=number < serving)
        for number in range(2)
    )
    assert overall_state(daemons, parse_cluster(STATE, *answers()) if monitor_answers else None) == expected
