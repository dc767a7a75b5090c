"""A real Ceph cluster: an object store like the others, with its protection's overhead, that survives lost daemons."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import LakeError
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.ceph import bootstrap
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.ceph.configuration import GATEWAY
from penstock.lake.ceph.status import CephStatus, PlacementUsage, read_status
from penstock.lake.checks.verdicts import LakeCheck, usable
from penstock.lake.model import Lake, ObjectStore
from penstock.lake.registry import Lakes
from penstock.lake.s3 import S3ObjectStore, open_store, s3_client
from penstock.processes import processes_in, wait_until
from penstock.units import MIB
from tests.support.object_store_contract import ObjectStoreContract

pytestmark = pytest.mark.root


def emptied(home: Home, name: str) -> ObjectStore:
    store = open_store(home, Lakes(home).get(name))
    store.delete(*[found.key for found in store.list("")])
    return store


@pytest.fixture
def home(ceph: Ceph) -> Home:
    return Home(ceph.directory.parent.parent)


@pytest.fixture
def store(home: Home) -> ObjectStore:
    return emptied(home, "ceph")


@pytest.fixture
def erasure(home: Home) -> ObjectStore:
    return emptied(home, "ceph-erasure")


@pytest.fixture
def whole(ceph: Ceph) -> Iterator[Ceph]:
    """Restart all daemons after a test that ends some."""
    yield ceph
    for daemon in ceph.daemons():
        if daemon.process:
            os.kill(daemon.process.pid, signal.SIGCONT)
    ceph.up()


class TestOnCeph(ObjectStoreContract):
    """The contract, through Ceph's gateways."""


def test_its_gateways_count_the_requests_of_all_clients(home: Home, store: ObjectStore) -> None:
    lake = Lakes(home).get("ceph")
    before = stores.requests(home, lake)
    store.put("counted", b"content")
    assert store.get("counted") == b"content"
    assert len(list(store.list("counted"))) == 1
    after = stores.requests(home, lake)
    assert before is not None
    assert after is not None
    assert {kind: count - before[kind] for kind, count in after.items()} == {"GET": 1, "PUT": 1, "other": 1}


def test_both_lakes_do_what_spark_needs_of_a_store(home: Home, ceph: Ceph) -> None:
    for name in ("ceph", "ceph-erasure"):
        lake = Lakes(home).get(name)
        assert lake.endpoints == ceph.gateways()
        assert usable(LakeCheck(lake, Lakes(home).credentials_of(lake)).run())


def test_a_large_object_is_whole_behind_an_erasure_code(erasure: ObjectStore, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(20_000_001))
    erasure.put("big", source)
    erasure.download("big", target)
    assert target.read_bytes() == source.read_bytes()
    assert erasure.get("big", start=19_000_000, length=7) == source.read_bytes()[19_000_000:19_000_007]


def test_a_stored_byte_takes_three_replicated_and_one_and_a_half_behind_four_and_two(
    ceph: Ceph, store: ObjectStore, erasure: ObjectStore
) -> None:
    content = os.urandom(64 * MIB)
    for each in (store, erasure):
        each.put("measured", content)

    def measured() -> dict[str, float]:
        return {
            name: round(kept.raw_bytes / kept.stored_bytes, 1)
            for name, kept in stored(ceph).items()
            if kept.stored_bytes >= len(content)
        }

    # The OSDs report to the manager every five seconds.
    assert wait_until(lambda: measured() == {"ceph": 3.0, "ceph-erasure": 1.5}, 30), measured()


def test_data_and_addresses_survive_the_death_of_everything_at_once(whole: Ceph, home: Home) -> None:
    content = os.urandom(5 * MIB)
    for name in ("ceph", "ceph-erasure"):
        emptied(home, name).put("folder/kept", content)
    lakes = Lakes(home).all()
    for daemon in whole.daemons():
        assert daemon.process
        os.kill(daemon.process.pid, signal.SIGKILL)
    assert wait_until(lambda: not processes_in(whole.directory), 10)
    assert whole.up() == lakes
    for lake in lakes:
        assert open_store(home, lake).get("folder/kept") == content


def test_down_leaves_no_process_and_the_next_use_of_a_lake_brings_it_back(
    whole: Ceph, home: Home, store: ObjectStore
) -> None:
    store.put("kept", b"content")
    lake = Lakes(home).get("ceph")
    assert whole.down()
    assert not processes_in(whole.directory)
    assert not whole.down()
    seen = read_status(whole)
    assert seen is not None
    assert seen.state == "down"
    assert stores.ensure_running(home, lake) == lake
    assert open_store(home, lake).get("kept") == b"content"


def test_while_a_gateway_is_dead_the_other_serves_and_status_tells(whole: Ceph, store: ObjectStore) -> None:
    store.put("before", b"1")
    assert whole.kill("rgw.0")
    store.put("meanwhile", b"2")
    assert [found.key for found in store.list("")] == ["before", "meanwhile"]
    assert {name for name, daemon in status(whole).items() if daemon != "serves"} == {"rgw.0"}
    whole.start("rgw.0")
    assert status(whole)["rgw.0"] == "serves"


def test_an_osd_that_is_dead_costs_no_object(whole: Ceph, store: ObjectStore, erasure: ObjectStore) -> None:
    assert whole.kill("osd.0")
    for each in (store, erasure):
        each.put("meanwhile", b"x" * MIB)
        assert len(each.get("meanwhile")) == MIB
    assert wait_until(lambda: seen(whole).cluster.osds_up == 5, 30)  # type: ignore[union-attr]
    assert seen(whole).state == "degraded"
    whole.start("osd.0")
    assert wait_until(lambda: seen(whole).state == "up", 60)


def test_a_daemon_that_is_stopped_by_a_signal_runs_and_does_not_answer(whole: Ceph) -> None:
    process = {daemon.name: daemon.process for daemon in whole.daemons()}["rgw.1"]
    assert process
    os.kill(process.pid, signal.SIGSTOP)
    assert status(whole)["rgw.1"] == "does not answer"


def test_ports_taken_by_strangers_are_left_to_them_and_the_data_are_found(
    whole: Ceph, home: Home, store: ObjectStore
) -> None:
    store.put("kept", b"content")
    state = whole.state()
    assert state
    whole.down()
    with taken(state.ports.monitor), taken(state.ports.gateways[0]):
        lakes = whole.up()
    assert lakes == Lakes(home).all()
    assert lakes[0].endpoints != state.ports.endpoints()
    assert lakes[0].endpoints[1] == state.ports.endpoints()[1]
    assert open_store(home, lakes[0]).get("kept") == b"content"


def test_a_third_gateway_can_be_added_and_taken_away(whole: Ceph, home: Home, store: ObjectStore) -> None:
    store.put("kept", b"content")
    more = whole.up({"gateways": 3})[0]
    last = Lake(more.name, more.endpoints[2:], more.bucket, more.credentials, kind=more.kind)
    assert open_store(home, last).get("kept") == b"content"
    assert len(whole.up({"gateways": 2})[0].endpoints) == 2
    assert len([daemon for daemon in whole.daemons() if daemon.kind == GATEWAY]) == 2
    assert len([name for name in running(whole) if "radosgw" in name]) == 2


def test_more_than_its_quota_does_not_go_into_a_bucket(ceph: Ceph, home: Home) -> None:
    lake = Lakes(home).get("ceph")
    small = Lake("small", lake.endpoints, "small", lake.credentials)
    credentials = Lakes(home).credentials_of(lake)
    bootstrap.make_bucket(ceph.directory, small, credentials, "default-placement", 3 * MIB)
    store = S3ObjectStore(small, credentials)
    store.put("fits", bytes(MIB))
    with pytest.raises(LakeError) as caught:
        store.put("too much", bytes(4 * MIB))
    assert "full" in caught.value.problem
    s3_client(lake, credentials, lake.endpoints[0]).delete_object(Bucket="small", Key="fits")
    s3_client(lake, credentials, lake.endpoints[0]).delete_bucket(Bucket="small")


def test_it_listens_on_the_loopback_address_alone(ceph: Ceph) -> None:
    for daemon in ceph.daemons():
        assert daemon.process
        assert listening(daemon.process.pid) == {"0100007F"}, daemon


def test_its_secrets_are_in_private_files_and_in_no_argument_environment_or_log(ceph: Ceph, home: Home) -> None:
    state = ceph.state()
    assert state
    keys = [
        line.split("= ")[1]
        for path in (ceph.directory / "keys").iterdir()
        for line in path.read_text().splitlines()
        if "key = " in line
    ]
    credentials = Lakes(home).credentials_of(Lakes(home).get("ceph"))
    secrets = [secret.encode() for secret in (*keys, credentials.secret_key, state.sts_key)]
    for daemon in ceph.daemons():
        assert daemon.process
        for part in ("cmdline", "environ"):
            content = Path(f"/proc/{daemon.process.pid}/{part}").read_bytes()
            assert not any(secret in content for secret in secrets)
    for path in home.root.rglob("*"):
        if path.is_file() and not path.is_symlink() and "devices" not in path.parts:
            content = path.read_bytes()
            found = [secret for secret in secrets if secret in content]
            if found and not path.is_relative_to(ceph.directory / "mon.a"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert not (found and path.is_relative_to(ceph.directory / "log")), path
    assert stat.S_IMODE(ceph.directory.stat().st_mode) == 0o700


def test_two_of_them_do_not_meet_and_what_is_elsewhere_is_removed_too(
    ceph: Ceph, store: ObjectStore, tmp_path: Path
) -> None:
    """The second OSD keeps metadata on another medium, and is killed during its first creation."""
    home, metadata = Home(tmp_path / "other"), tmp_path / "fast medium"
    second = Ceph(home)
    asked = {"osds": 3, "gateways": 1, "erasure": "2+1", "metadata_directory": metadata}
    store.put("mine", b"first")
    try:
        interrupted_while_making(second, asked)
        lakes = second.up(asked)
        assert [lake.name for lake in lakes] == ["ceph", "ceph-replicated"]
        assert second.placement("ceph").protection == "2+1"
        other = open_store(home, lakes[0])
        assert list(other.list("")) == []
        other.put("mine", b"second")
        assert (store.get("mine"), other.get("mine")) == (b"first", b"second")
        assert {file.name for file in metadata.rglob("osd.0.*")} == {"osd.0.block.db", "osd.0.block.wal"}
        assert all(daemon.process for daemon in ceph.daemons())
    finally:
        second.wipe()
    assert not processes_in(second.directory)
    assert list(metadata.iterdir()) == []
    assert Lakes(home).all() == []
    assert not second.directory.exists()


class Interrupted(BaseException):
    pass


def interrupted_while_making(ceph: Ceph, asked: dict[str, object]) -> None:
    @contextlib.contextmanager
    def step(title: str) -> Iterator[list[str]]:
        if title.startswith("pools"):
            raise Interrupted
        yield []

    with pytest.raises(Interrupted):
        ceph.up(asked, step=step)
    assert len([daemon for daemon in running(ceph) if "ceph-osd" in daemon]) == 3


def seen(ceph: Ceph) -> CephStatus:
    found = read_status(ceph)
    assert found is not None
    return found


def status(ceph: Ceph) -> dict[str, str]:
    return {daemon.name: daemon.state for daemon in seen(ceph).daemons}


def stored(ceph: Ceph) -> dict[str, PlacementUsage]:
    cluster = seen(ceph).cluster
    assert cluster is not None
    return {kept.lake: kept for kept in cluster.stored}


def running(ceph: Ceph) -> list[str]:
    return [
        Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")[0]
        for process in processes_in(ceph.directory)
    ]


def listening(pid: int) -> set[str]:
    """Return the IPv4 addresses on which the process listens, in the notation of proc(5)."""
    sockets = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].split(":")[0])
    return found


@contextlib.contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        yield
