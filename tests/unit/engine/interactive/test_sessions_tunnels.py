"""Sessions on other machines: the supervisor keeps their tunnel open, and every process of the home finds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clusters.backend import ClusterBackend
from penstock.engine.interactive import sessions
from penstock.engine.interactive.sessions import SessionRequest
from penstock.errors import ClusterError
from penstock.home import Home, write_json
from penstock.model import State
from penstock.processes import wait_until
from penstock.recovery import keep_going
from tests.unit.engine.engine_making import application, size, spec


class Elsewhere:
    """A backend whose driver has published its port by the third query."""

    shares_files = False

    def __init__(self) -> None:
        self.asked = 0
        self.open: list[int] = []

    def private_file(self, _: Any, name: str) -> str | None:
        self.asked += 1
        if self.asked == 1:
            raise ClusterError("The Kubernetes API server does not answer")
        return json.dumps({"port": 4711, "token": "t0ken"}) if self.asked > 2 and name == "session.json" else None

    @contextlib.contextmanager
    def forward_port(self, _: Any, port: int) -> Iterator[int]:
        self.open.append(port)
        yield 40000 + port
        self.open.remove(port)


def kept_open(home: Home, backend: Elsewhere) -> Any:
    return sessions.session_tunnels(home, cast(ClusterBackend, backend))


def test_it_is_found_once_the_driver_listens_and_closed_with_the_cluster(tmp_path: Path) -> None:
    home, backend = Home(tmp_path), Elsewhere()
    session = application(State.STARTING, spec=SessionRequest(size=size()).specification())
    with kept_open(home, backend)(session):
        assert wait_until(lambda: sessions.tunnel_port(home, session.id) == 44711, 20)
        assert backend.open == [4711]
        # Only the driver reveals the token; no file here contains it.
        assert not [file for file in tmp_path.rglob("*") if file.is_file() and "t0ken" in file.read_text()]
    assert wait_until(lambda: not backend.open and sessions.tunnel_port(home, session.id) is None, 20)


def test_an_application_that_is_no_session_has_none(tmp_path: Path) -> None:
    backend = Elsewhere()
    with kept_open(Home(tmp_path), backend)(application(State.STARTING, spec=spec())):
        pass
    assert backend.asked == 0


def test_a_tunnel_whose_process_was_killed_has_no_port(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.application("app-1").mkdir(parents=True)
    write_json(home.application("app-1") / "session-way.json", {"port": 1, "keeper": {"pid": 1, "started": -5}})
    assert sessions.tunnel_port(home, "app-1") is None


def test_a_way_that_cannot_be_opened_at_first_is_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, backend = Home(tmp_path), Elsewhere()
    opened = backend.forward_port
    refused = [ClusterError("The Kubernetes API server does not answer"), OSError("no port"), RuntimeError("x")]

    def forward_port(handle: Any, port: int) -> contextlib.AbstractContextManager[int]:
        if refused:
            raise refused.pop()
        return opened(handle, port)

    def at_once(*arguments: Any, **more: Any) -> None:
        keep_going(*arguments, **more, wait=lambda ended, _: ended.wait(0.01))

    monkeypatch.setattr(backend, "forward_port", forward_port)
    monkeypatch.setattr(sessions, "keep_going", at_once, raising=False)
    monkeypatch.setattr(sessions, "_LOOK_SECONDS", 0.01)
    session = application(State.STARTING, spec=SessionRequest(size=size()).specification())
    with kept_open(home, backend)(session):
        assert wait_until(lambda: sessions.tunnel_port(home, session.id) == 44711, 5)
    assert wait_until(lambda: sessions.tunnel_port(home, session.id) is None, 5)
