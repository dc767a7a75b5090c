"""The state file of a home's Ceph cluster, and the changes that an existing cluster allows."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Conflict, InvalidInput, StateError
from penstock.lake.ceph.layout import CephState, Layout
from penstock.units import GIB


def made(**asked: Any) -> CephState:
    return CephState.new(Layout.validated(**asked), None)


def test_it_is_read_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    state = made(osds=4, erasure="2+2", metadata_directory=Path("/fast"))
    state.store(tmp_path)
    assert CephState.load(tmp_path) == state
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600
    assert state.sts_key not in repr(state)


def test_there_is_none_where_none_was_stored(tmp_path: Path) -> None:
    assert CephState.load(tmp_path) is None


def test_a_damaged_state_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"fsid": "x"}')
    with pytest.raises(StateError):
        CephState.load(tmp_path)


def test_the_default_placement_is_simply_ceph_and_the_other_has_its_kind_in_its_name() -> None:
    assert made().lakes() == {"ceph": "replicated", "ceph-erasure": "erasure"}
    assert made(erasure="4+2").lakes() == {"ceph": "erasure", "ceph-replicated": "replicated"}


def test_quotas_follow_from_what_each_protection_costs_unless_they_are_given() -> None:
    quotas = made().quotas
    assert quotas["erasure"] == pytest.approx(2 * quotas["replicated"], abs=1)
    assert set(CephState.new(Layout.validated(), GIB).quotas.values()) == {GIB}


def test_nothing_asked_for_changes_nothing() -> None:
    state = made(osds=7)
    assert state.resumed({}) == state
    assert state.resumed({"osds": 7, "erasure": None}) == state


def test_gateways_can_be_more_or_fewer_and_those_that_stay_keep_their_ports() -> None:
    state = made(gateways=2)
    more = state.resumed({"gateways": 4})
    assert more.ports.gateways[:2] == state.ports.gateways
    assert len(more.ports.gateways) == len(set(more.ports.gateways)) == more.layout.gateways == 4
    assert more.resumed({"gateways": 1}).ports.gateways == state.ports.gateways[:1]
    with pytest.raises(InvalidInput):
        state.resumed({"gateways": 0})


@pytest.mark.parametrize("asked", [{"osds": 7}, {"osd_bytes": 9 * GIB}, {"erasure": "4+2"}])
def test_what_was_settled_when_it_was_made_is_not_changed_silently(asked: dict[str, Any]) -> None:
    with pytest.raises(Conflict) as caught:
        made().resumed(asked)
    assert str(next(iter(asked.values()))) in caught.value.why
    assert "wipe" in caught.value.fix


def test_files_elsewhere_are_below_a_name_no_other_ceph_has(tmp_path: Path) -> None:
    places = {"data_directory": Path("/data"), "metadata_directory": Path("/fast")}
    first, second = made(**places), made(**places)
    devices = first.device_directories(tmp_path)
    assert devices["block"].parent == Path("/data")
    assert devices["block.db"] == devices["block.wal"]
    assert devices["block.db"].parent == Path("/fast")
    assert not set(devices.values()) & set(second.device_directories(tmp_path).values())


def test_files_are_in_the_home_where_no_other_place_is_named(tmp_path: Path) -> None:
    assert made().device_directories(tmp_path) == {"block": tmp_path / "devices"}
