"""The facts about a lake's store are those that this machine can know, without guesses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lake import stores
from penstock.lake.ceph import daemons
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.layout import CephState, Layout
from penstock.lake.model import Lake

FOREIGN = Lake("far", ("https://s3.example.com",), "bucket", "environment")
EMBEDDED = Lake("embedded", ("http://127.0.0.1:1",), "bucket", "environment", kind="embedded")


def test_an_external_store_has_no_known_protection_and_no_process_here(tmp_path: Path) -> None:
    found = stores.store_facts(Home(tmp_path), FOREIGN)
    assert (found.software, found.protection, found.raw_factor) == ("external", "", None)
    assert stores.daemons(Home(tmp_path), FOREIGN) == {}


def test_the_embedded_store_keeps_everything_once(tmp_path: Path) -> None:
    found = stores.store_facts(Home(tmp_path), EMBEDDED)
    assert (found.software, found.protection, found.raw_factor) == ("SeaweedFS", "1x", 1.0)
    assert found.layout["data"] == stores.medium(tmp_path), "where it is not there yet, where it would be"


def test_an_embedded_store_that_does_not_run_has_no_daemon(tmp_path: Path) -> None:
    assert stores.daemons(Home(tmp_path), EMBEDDED) == {}


@pytest.mark.parametrize(("lake", "protection", "factor"), [("ceph", "3x", 3.0), ("ceph-erasure", "4+2", 1.5)])
def test_the_two_lakes_of_a_ceph_differ_in_how_they_are_kept(
    tmp_path: Path, lake: str, protection: str, factor: float
) -> None:
    home, metadata = Home(tmp_path / "home"), tmp_path / "fast"
    ceph = Ceph(home)
    ceph.directory.mkdir(parents=True)
    replace(CephState.new(Layout.validated(metadata_directory=metadata), None), made=True).store(ceph.directory)
    found = stores.store_facts(home, replace(FOREIGN, name=lake, kind="ceph"))
    assert (found.software, found.protection, found.raw_factor) == ("Ceph", protection, factor)
    assert found.layout["OSDs"] == "6 of 8 GiB"
    assert found.layout["metadata"] == stores.medium(tmp_path)
    assert stores.daemons(home, replace(FOREIGN, name=lake, kind="ceph")) == {}, "none of them runs"


def test_a_ceph_that_is_not_there_any_more_is_no_reason_to_fail(tmp_path: Path) -> None:
    gone = replace(FOREIGN, name="ceph", kind="ceph")
    assert stores.store_facts(Home(tmp_path), gone).protection == ""
    assert stores.daemons(Home(tmp_path), gone) == {}


def test_requests_are_counted_by_stores_of_this_home_alone(tmp_path: Path) -> None:
    for lake in (FOREIGN, EMBEDDED, replace(FOREIGN, name="ceph", kind="ceph")):
        assert stores.requests(Home(tmp_path), lake) is None, "no such store runs here"


def test_the_requests_at_a_ceph_are_those_of_all_gateways_or_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, answers = Home(tmp_path / "home"), {"client.rgw.0": {"rgw": {"req": 20, "get": 12, "put": 3}}}
    ceph = Ceph(home)
    ceph.directory.mkdir(parents=True)
    replace(CephState.new(Layout.validated(gateways=2), None), made=True).store(ceph.directory)
    monkeypatch.setattr(daemons, "ask", lambda _, entity, __: answers.get(entity))
    lake = replace(FOREIGN, name="ceph", kind="ceph")
    assert stores.requests(home, lake) is None, "the second gateway does not answer"
    answers["client.rgw.1"] = {"rgw": {"req": 5, "get": 1, "put": 0}}
    assert stores.requests(home, lake) == {"GET": 13, "PUT": 3, "other": 9}


def test_what_is_recorded_of_a_store_is_plain_data(tmp_path: Path) -> None:
    facts = stores.store_facts(Home(tmp_path), EMBEDDED).to_json()
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize(
    ("mounts", "medium"),
    [
        ("/dev/vda / ext4 rw 0 0\n", "/dev/vda, ext4"),
        ("/dev/vda / ext4 rw 0 0\ntmpfs {place} tmpfs rw 0 0\n", "tmpfs"),
        ("/dev/vda / ext4 rw 0 0\n/dev/sdb {place} xfs rw 0 0\n/dev/sdc {place} btrfs rw 0 0\n", "/dev/sdc, btrfs"),
        ("/dev/sdb {place}/deeper xfs rw 0 0\n/dev/vda / ext4 rw 0 0\n", "/dev/vda, ext4"),
    ],
)
def test_a_directorys_medium_is_the_mount_that_is_seen_there(tmp_path: Path, mounts: str, medium: str) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    assert stores.medium_among(mounts.format(place=str(place).replace(" ", "\\040")), place) == medium
