"""The embedded lake under faults: kills, lost ports, damage, a full disk, two commands at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.errors import LakeError, MissingRequirement, NotFound, StateError
from penstock.home import Home
from penstock.lake import embedded as seaweed
from penstock.lake.embedded import EmbeddedLake, Ports
from penstock.lake.registry import Lakes
from penstock.lake.s3 import open_store
from penstock.processes import ProcessId, processes_in, wait_until
from penstock.units import MIB
from tests.support.waiting import within

UP = (
    "from penstock.home import Home; from penstock.lake.embedded import EmbeddedLake; EmbeddedLake(Home.default()).up()"
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a home, with “quotes” and 'ü'")


@pytest.fixture
def embedded(home: Home) -> Iterator[EmbeddedLake]:
    lake = EmbeddedLake(home)
    yield lake
    lake.down()
    assert not lake.status().running


@pytest.fixture(scope="module")
def running_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose lake runs, for tests that change nothing but their own objects."""
    home = Home(tmp_path_factory.mktemp("running") / "a home, with “quotes” and 'ü'")
    EmbeddedLake(home).up()
    yield home
    EmbeddedLake(home).down()


def started_elsewhere(home: Home) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, "-c", UP], env=environment)


def kill(pid: int) -> None:
    process = ProcessId.of(pid)
    assert process is not None
    os.kill(pid, signal.SIGKILL)
    while process.alive():
        time.sleep(0.01)


def test_data_and_address_survive_a_restart_and_a_second_up_changes_nothing(home: Home, embedded: EmbeddedLake) -> None:
    lake = embedded.up()
    open_store(home, lake).put("folder/kept", b"content")
    before = embedded.status()
    assert embedded.up() == lake
    assert embedded.status().process_id == before.process_id
    assert embedded.down()
    assert not embedded.down()
    assert embedded.up() == lake == Lakes(home).get()
    assert open_store(home, lake).get("folder/kept") == b"content"


def test_it_counts_every_request_by_kind(home: Home, running_home: Home) -> None:
    assert EmbeddedLake(home).requests() is None, "it does not run"
    embedded = EmbeddedLake(running_home)
    store = open_store(running_home, Lakes(running_home).get())
    before = embedded.requests()
    store.put("a", b"content")
    assert store.get("a") == b"content"
    assert store.get("a", start=1, length=2) == b"on"
    with pytest.raises(NotFound):
        store.get("missing")
    assert len(list(store.list(""))) == 1
    after = embedded.requests()
    assert before is not None
    assert after is not None
    grown = {kind: count - before.get(kind, 0) for kind, count in after.items()}
    assert {kind: count for kind, count in grown.items() if count} == {"PUT": 1, "GET": 3, "LIST": 1}


def test_it_listens_on_the_loopback_address_alone(running_home: Home) -> None:
    pid = EmbeddedLake(running_home).status().process_id
    sockets = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                listening.append(fields[1].split(":")[0])
    assert listening
    assert set(listening) == {"0100007F"}


def test_its_secrets_are_in_private_files_and_not_in_its_arguments_environment_or_log(running_home: Home) -> None:
    home, embedded = running_home, EmbeddedLake(running_home)
    secret = Lakes(home).credentials_of(Lakes(home).get()).secret_key
    pid = embedded.status().process_id
    for public in (Path(f"/proc/{pid}/cmdline"), Path(f"/proc/{pid}/environ"), embedded.log, home.lake / "lakes.json"):
        assert secret.encode() not in public.read_bytes()
    for path in home.root.rglob("*"):
        if path.is_file() and secret.encode() in path.read_bytes():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_killed_at_any_moment_of_starting_the_next_up_succeeds_and_one_server_runs(
    home: Home, embedded: EmbeddedLake
) -> None:
    moments: tuple[Callable[[], object], ...] = (
        home.lake.exists,
        (home.lake / "credentials").exists,
        (embedded.directory / "security.toml").exists,
        lambda: servers_of(embedded),
        (embedded.data / "filerldb2").exists,
        lambda: embedded.status().ready,
    )
    for moment in moments:
        command = started_elsewhere(home)
        within(lambda: bool(moment()), pause_seconds=0.001)  # noqa: B023
        command.kill()
        command.wait()
    lake = embedded.up()
    open_store(home, lake).put("k", b"v")
    assert len(servers_of(embedded)) == 1


def test_a_killed_server_is_started_again_with_all_that_was_acknowledged(home: Home, embedded: EmbeddedLake) -> None:
    store = open_store(home, embedded.up())
    for number in range(50):
        store.put(f"acknowledged/{number}", str(number).encode() * 1000)
    pid = embedded.status().process_id
    assert pid is not None
    kill(pid)
    store = open_store(home, embedded.up())
    for number in range(50):
        assert store.get(f"acknowledged/{number}") == str(number).encode() * 1000


def test_a_server_that_hangs_is_replaced(home: Home, embedded: EmbeddedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = embedded.up()
    pid = embedded.status().process_id
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr("penstock.lake.embedded._HUNG_SECONDS", 3.0)
    assert embedded.up() == lake
    assert embedded.status().process_id != pid
    assert ProcessId.of(pid) is None


def test_two_ups_at_once_start_one_server(home: Home, embedded: EmbeddedLake) -> None:
    commands = [started_elsewhere(home) for _ in range(3)]
    assert [command.wait(120) for command in commands] == [0, 0, 0]
    assert len(servers_of(embedded)) == 1
    assert embedded.status().ready


def test_a_port_taken_since_the_last_start_is_left_to_its_new_owner(home: Home, embedded: EmbeddedLake) -> None:
    lake = embedded.up()
    open_store(home, lake).put("kept", b"content")
    embedded.down()
    taken = int(lake.endpoints[0].rpartition(":")[2])
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", taken))
        stranger.listen()
        moved = embedded.up()
    assert moved.endpoints != lake.endpoints
    assert Lakes(home).get("embedded") == moved
    assert open_store(home, moved).get("kept") == b"content"


def test_a_port_lost_between_choosing_and_starting_is_chosen_anew(
    embedded: EmbeddedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        lost = stranger.getsockname()[1]
        embedded.directory.mkdir(parents=True)
        monkeypatch.setattr("penstock.lake.embedded.is_free", lambda _: True)
        ports = dict.fromkeys(
            ("master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc", "s3", "s3_grpc")
        )
        (embedded.directory / "ports.json").write_text(
            json.dumps({name: lost if name == "s3" else 30100 + number for number, name in enumerate(ports)})
        )
        assert not embedded.up().endpoints[0].endswith(f":{lost}")


def test_damaged_ports_are_chosen_anew(embedded: EmbeddedLake) -> None:
    embedded.directory.mkdir(parents=True)
    (embedded.directory / "ports.json").write_text("{")
    assert embedded.up().kind == "embedded"


def test_lost_credentials_are_made_anew_and_the_data_stays(home: Home, embedded: EmbeddedLake) -> None:
    open_store(home, embedded.up()).put("kept", b"content")
    embedded.down()
    (home.lake / "credentials").unlink()
    assert open_store(home, embedded.up()).get("kept") == b"content"


def test_a_damaged_metadata_store_is_recovered(home: Home, embedded: EmbeddedLake) -> None:
    open_store(home, embedded.up()).put("folder/kept", b"content")
    embedded.down()
    for current in embedded.data.glob("filerldb2/*/CURRENT"):
        current.write_bytes(b"\xff\xfenot a manifest\n")
    assert open_store(home, embedded.up()).get("folder/kept") == b"content"


def test_data_beyond_recovery_is_reported_with_the_log_and_left_as_it_is(embedded: EmbeddedLake) -> None:
    metadata = embedded.data / "filerldb2"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("not a directory")
    with pytest.raises(LakeError) as caught:
        embedded.up()
    assert "filerldb2" in caught.value.why
    assert str(embedded.data) in caught.value.fix
    assert metadata.read_text() == "not a directory"
    assert not servers_of(embedded)


def test_a_full_disk_is_reported_before_anything_starts(
    embedded: EmbeddedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        free = 10 << 20

    monkeypatch.setattr("shutil.disk_usage", lambda _: Nothing)
    with pytest.raises(MissingRequirement) as caught:
        embedded.up()
    assert "10 MiB" in caught.value.why
    assert not servers_of(embedded)


def test_a_state_directory_that_is_a_file_is_an_error(home: Home) -> None:
    home.root.parent.mkdir(exist_ok=True)
    home.root.write_text("")
    with pytest.raises(StateError):
        EmbeddedLake(home).up()


def test_stopping_leaves_no_socket_behind(embedded: EmbeddedLake) -> None:
    embedded.up()
    ports = Ports.from_json(json.loads((embedded.directory / "ports.json").read_text()))
    assert ports is not None
    assert all(path.exists() for path in ports.sockets())
    embedded.down()
    assert not any(path.exists() for path in ports.sockets())
    assert not list(embedded.directory.glob("*.sock"))


def test_what_is_deleted_gives_its_room_back(
    home: Home, embedded: EmbeddedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server vacuums without a pause: it counts whole minutes, and takes less than one for none."""
    monkeypatch.setattr(seaweed, "_VACUUM_MINUTES", 0.5)
    store = open_store(home, embedded.up())
    for number in range(8):
        store.put(f"deleted/{number}", os.urandom(8 * MIB))
        store.put(f"kept/{number}", str(number).encode())
    assert taken(embedded.data) > 64 * MIB
    for number in range(8):
        store.delete(f"deleted/{number}")
    assert wait_until(lambda: taken(embedded.data) < 16 * MIB, 120)
    assert [store.get(f"kept/{number}") for number in range(8)] == [str(number).encode() for number in range(8)]


def taken(directory: Path) -> int:
    """Return the bytes on the disk, without the holes of sparse files. Volumes come and go meanwhile."""
    found = 0
    for file in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += file.stat().st_blocks * 512
    return found


def servers_of(embedded: EmbeddedLake) -> list[int]:
    """Return the processes that serve this lake; one that ends meanwhile is none of them."""
    found = []
    for process in processes_in(embedded.directory):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"weed" in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                found.append(process.pid)
    return found
