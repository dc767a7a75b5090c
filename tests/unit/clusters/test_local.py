"""The local backend without its processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clusters import shim
from penstock.clusters.backend import Launch, Phase, WebInterface
from penstock.clusters.local import LocalBackend
from penstock.errors import MissingRequirement
from penstock.home import Home, write_json
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.processes import ProcessId, free_ports

SPEC = ApplicationSpec("/a.py", ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "a")
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def recorded(home: Home, **status: object) -> None:
    (home.application("app-1") / "cluster").mkdir(parents=True, exist_ok=True)
    known = {"lost_executors": 0, "executors_failed": False, "ended": False, "driver": None, "executors": {}}
    write_json(home.application("app-1") / "cluster" / "status.json", {**known, **status})


def test_a_full_disk_is_seen_before_anything_starts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 1 << 20))
    with pytest.raises(MissingRequirement, match="disk is full") as refused:
        LocalBackend(home).launch(Launch("app-1", SPEC, {}))
    assert "PENSTOCK_HOME" in refused.value.fix


def test_a_cluster_without_its_supervisor_is_lost_even_when_the_process_id_is_reused(home: Home) -> None:
    recorded(home, keeper={"pid": os.getpid(), "started": 1})
    assert LocalBackend(home).observe(LocalBackend(home).handle("app-1")).phase is Phase.LOST


def test_a_recorded_end_needs_no_supervisor(home: Home) -> None:
    recorded(home, keeper={"pid": 1, "started": 1}, ended=True, driver={"exit_code": 7})
    seen = LocalBackend(home).observe(LocalBackend(home).handle("app-1"))
    assert (seen.phase, seen.exit_code) == (Phase.ENDED, 7)


def test_a_process_belongs_to_an_application_by_what_it_inherited() -> None:
    assert shim.application_processes("app-nobody's") == []
    assert shim.start_ticks(os.getpid()) > 0
    assert shim.start_ticks(2**22 + 1) == -1


def test_exit_codes_are_those_of_a_shell() -> None:
    assert shim.exit_code(3 << 8) == 3
    assert shim.exit_code(9) == 137


def interface(home: Home, port: int | None, driver: ProcessId) -> WebInterface | None:
    """Return the backend's answer for a driver that publishes `port` for its Spark UI, or no port."""
    recorded(home, keeper={"pid": 1, "started": 1}, driver=driver.to_json())
    content = f"spark://driver\napp-spark\n{f'http://127.0.0.1:{port}' if port else ''}\n"
    (home.application("app-1") / "cluster" / "endpoint").write_text(content, encoding="utf-8")
    return LocalBackend(home).web_interface(LocalBackend(home).handle("app-1"))


def test_the_web_interface_is_where_the_driver_itself_listens(home: Home) -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    with socket.create_server(("127.0.0.1", 0)) as mine:
        assert interface(home, mine.getsockname()[1], me) == WebInterface("127.0.0.1", mine.getsockname()[1])


def test_a_driver_without_web_interface_is_asked_for_one_with_the_same_key_by_all(home: Home) -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert interface(home, None, me) is None
    wanted = home.application("app-1") / "cluster" / "ui.wanted"
    key = wanted.read_text(encoding="ascii")
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o600
    assert interface(home, None, me) is None
    with socket.create_server(("127.0.0.1", 0)) as mine:
        opened = interface(home, mine.getsockname()[1], me)
    assert opened is not None
    assert opened.key == key
    assert key not in repr(opened)


def test_a_driver_cannot_pass_another_process_s_port_off_as_its_web_interface(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine, sleeping() as other:
        assert interface(home, mine.getsockname()[1], other) is None


def test_a_port_nobody_listens_on_any_more_is_no_web_interface(home: Home) -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert interface(home, free_ports(1)[0], me) is None


def test_a_private_file_is_read_while_the_cluster_lives(home: Home) -> None:
    backend = LocalBackend(home)
    handle = backend.handle("app-1")
    assert backend.private_file(handle, "session.json") is None
    (home.application("app-1") / "private").mkdir(parents=True)
    (home.application("app-1") / "private" / "session.json").write_text("{}", encoding="utf-8")
    assert backend.private_file(handle, "session.json") == "{}"


@contextlib.contextmanager
def sleeping() -> Iterator[ProcessId]:
    process = subprocess.Popen(["sleep", "60"])
    try:
        found = ProcessId.of(process.pid)
        assert found is not None
        yield found
    finally:
        process.kill()
        process.wait()
