"""Recognition of daemons among processes, and the order in which they start and end."""

from __future__ import annotations

import pytest

from penstock.errors import NotFound
from penstock.lake.ceph import configuration

ALL = configuration.daemon_names(osds=3, gateways=2)


def test_names_are_in_the_order_of_what_needs_what() -> None:
    assert ALL == ["mon.a", "mgr.a", "osd.0", "osd.1", "osd.2", "rgw.0", "rgw.1"]


@pytest.mark.parametrize("name", ALL)
def test_a_process_is_known_by_the_arguments_it_was_started_with(name: str) -> None:
    program, *rest = configuration.command(name)
    assert configuration.daemon_of_command([f"/usr/bin/{program}", *rest]) == name


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["ceph-osd"],
        ["/usr/bin/ceph-osd", "-f", "--cluster", "ceph", "--id", "0"],
        ["/usr/bin/vim", "--foreground", "--conf", "ceph.conf", "--name", "osd.0"],
        ["/usr/bin/ceph-osd", "--foreground", "--conf", "/etc/ceph/ceph.conf", "--name", "osd.0"],
        ["/usr/bin/ceph-osd", "--foreground", "--conf", "ceph.conf", "--name", "osd.../../0"],
        ["/usr/bin/ceph-osd", "--mkfs", "--no-mon-config", "--conf", "ceph.conf", "--name", "osd.0"],
    ],
)
def test_another_programs_process_is_no_daemon(arguments: list[str]) -> None:
    assert configuration.daemon_of_command(arguments) is None


def test_the_monitor_starts_first_and_gateways_last_and_they_end_the_other_way_round() -> None:
    assert configuration.start_stages(ALL) == [["mon.a"], ["mgr.a", "osd.0", "osd.1", "osd.2"], ["rgw.0", "rgw.1"]]
    assert configuration.stop_stages(ALL)[0] == ["rgw.0", "rgw.1"]
    assert configuration.stop_stages(ALL)[-1] == ["mon.a"]


def test_what_is_started_together_is_counted_by_kind() -> None:
    assert [configuration.describe(stage) for stage in configuration.start_stages(ALL)] == [
        "monitor",
        "manager, 3 OSDs",
        "2 gateways",
    ]
    assert configuration.describe(["osd.1"]) == "OSD"


def test_only_what_is_missing_is_started() -> None:
    assert configuration.start_stages(["osd.1", "rgw.0"]) == [["osd.1"], ["rgw.0"]]
    assert configuration.start_stages([]) == []


def test_an_unknown_name_is_refused_with_the_known_names() -> None:
    assert configuration.require_daemon("osd.2", ALL) == "osd.2"
    with pytest.raises(NotFound) as caught:
        configuration.require_daemon("osd.3", ALL)
    assert "osd.2" in caught.value.why
