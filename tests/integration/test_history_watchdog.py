"""The history-server watchdog, over a sleeping process that it ends when it is unused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.interactive import history_watchdog
from penstock.engine.interactive.history import HistoryServers
from penstock.engine.interactive.history_watchdog import PLAN, STATE, USED
from penstock.home import Home, read_json, write_json
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.processes import ProcessId, listening_ports


@dataclass
class Engine:
    home: Home


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The state directory of a history server over the lake `lake`."""
    home = Home(tmp_path)
    home.create()
    Lakes(home).add(Lake("lake", ("http://127.0.0.1:9",), "bucket", "file:lake"), Credentials("access", "secret"))
    place = tmp_path / "history" / "lake"
    place.mkdir(parents=True)
    (place / USED).touch()
    return place


@pytest.fixture
def keep(directory: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """`keep(idle_seconds)` starts a watchdog, and returns its state once it is written."""
    started = []

    def start(idle_seconds: float, command: list[str] | None = None) -> dict[str, Any]:
        plan = {"command": command or ["sleep", "60"], "environment": dict(os.environ), "private": ["aws-credentials"]}
        write_json(directory / PLAN, {**plan, "idle_seconds": idle_seconds})
        (directory / "aws-credentials").write_text("secret", encoding="utf-8")
        started.append(
            subprocess.Popen([sys.executable, "-m", "penstock.engine.interactive.history_watchdog", str(directory)])
        )
        until((directory / STATE).exists)
        state: dict[str, Any] = read_json(directory / STATE)
        return state

    yield start
    for process in started:
        process.kill()
        process.wait()


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def server_of(state: dict[str, Any]) -> ProcessId:
    return ProcessId.from_json(state["server"])


def history(directory: Path) -> HistoryServers:
    return HistoryServers(Engine(Home(directory.parent.parent)))  # type: ignore[arg-type]  what is asked here needs its home only


def test_a_server_nobody_looks_at_is_ended_and_its_secrets_removed(
    directory: Path, keep: Callable[..., dict[str, Any]]
) -> None:
    state = keep(idle_seconds=3600.0)
    assert server_of(state).alive()
    an_hour_ago = time.time() - 3600
    os.utime(directory / USED, (an_hour_ago, an_hour_ago))
    until(lambda: not server_of(state).alive())
    until(lambda: read_json(directory / STATE)["ended_at"] is not None)
    assert not (directory / "aws-credentials").exists()


def test_the_time_before_its_start_is_no_idle_time(directory: Path, keep: Callable[..., dict[str, Any]]) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(directory / USED, (an_hour_ago, an_hour_ago))
    state = keep(idle_seconds=60.0)
    assert (directory / USED).stat().st_mtime == pytest.approx(state["started_at"], abs=0.001)
    assert server_of(state).alive()


class Clock:
    """The watchdog's clock: each wait takes its full time, after which `during` is called with the new time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, during: Callable[[float], None]) -> None:
        self.now = 1000.0
        self._during = during
        monkeypatch.setattr(history_watchdog.time, "time", lambda: self.now)
        monkeypatch.setattr(history_watchdog.signal, "sigtimedwait", self._wait)

    def _wait(self, _: object, seconds: float) -> None:
        self.now += seconds
        self._during(self.now)


def test_a_look_keeps_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog runs in this process, on the test's clock."""
    alive: list[float] = []

    def look(now: float) -> None:
        if now <= 1006.0:
            os.utime(directory / USED, (now, now))
        if server_of(read_json(directory / STATE)).alive():
            alive.append(now)

    clock = Clock(monkeypatch, look)
    monkeypatch.setattr(history_watchdog, "_LOOK_SECONDS_AT_START", 1.0)
    write_json(
        directory / PLAN,
        {"command": ["sleep", "60"], "environment": dict(os.environ), "private": [], "idle_seconds": 3.0},
    )
    os.utime(directory / USED, (clock.now, clock.now))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        history_watchdog.main(directory)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    state = read_json(directory / STATE)
    assert not server_of(state).alive()
    assert state["ended_at"] == 1009.0
    assert alive == [1000.0 + second for second in range(1, 10)]


def test_a_killed_watchdog_leaves_no_server(keep: Callable[..., dict[str, Any]]) -> None:
    state = keep(idle_seconds=60.0)
    os.kill(state["keeper"]["pid"], signal.SIGKILL)
    until(lambda: not server_of(state).alive())


def test_stopping_ends_every_server_of_the_home_and_its_secrets(
    directory: Path, keep: Callable[..., dict[str, Any]]
) -> None:
    state = keep(idle_seconds=60.0)
    assert list(history(directory).stop_all()) == ["lake"]
    assert not server_of(state).alive()
    assert sorted(path.name for path in directory.iterdir()) == [STATE, USED]
    assert list(history(directory).stop_all()) == []


def test_a_server_that_cannot_run_is_seen_to_have_ended(directory: Path, keep: Callable[..., dict[str, Any]]) -> None:
    keep(idle_seconds=60.0, command=["false"])
    until(lambda: read_json(directory / STATE)["ended_at"] is not None)
    assert not history(directory).status("lake").running


def test_its_pages_are_there_when_all_of_them_are(
    directory: Path, keep: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    state = keep(60.0, [sys.executable, "-c", _ONE_PAGE_FOR_ALL, str(tmp_path / "all pages")])
    until(lambda: bool(listening_ports(server_of(state))))
    until((tmp_path / "all pages.asked").exists)
    assert history(directory).status("lake").address is None

    (tmp_path / "all pages").touch()
    until(lambda: history(directory).status("lake").address is not None)
    assert history(directory).status("lake").address == ("127.0.0.1", *listening_ports(server_of(state)))


_ONE_PAGE_FOR_ALL = """
import http.server, pathlib, sys
complete = pathlib.Path(sys.argv[1])
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path(f"{complete}.asked").touch()
        self.send_response(302 if complete.exists() and self.path == "/history/" else 200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 0), Pages).serve_forever()
"""
"""A stand-in for a starting history server, until the file in its argument exists."""


def test_after_the_machine_was_restarted_nothing_runs(directory: Path) -> None:
    stranger = {"pid": os.getpid(), "started": 1}
    write_json(directory / STATE, {"keeper": stranger, "server": stranger, "started_at": 1.0, "ended_at": None})
    assert not history(directory).status("lake").running
    assert list(history(directory).stop_all()) == []
