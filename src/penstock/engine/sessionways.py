"""Ways to sessions whose drivers are on other machines: kept open by whoever looks after the session, on a port of this
machine's loopback that everybody of the home finds here."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.clusters.base import ClusterBackend
from penstock.engine.application import Application
from penstock.engine.sessions import is_session, published_port
from penstock.errors import PenstockError
from penstock.home import Home, read_json, write_json
from penstock.processes import ProcessId
from penstock.recovery import keep_going

_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


def port_here(home: Home, application_id: str) -> int | None:
    """None where nobody keeps a way open (yet, or any more)."""
    kept = read_json(_file(home, application_id))
    return int(kept["port"]) if kept and ProcessId.from_json(kept["keeper"]).alive() else None


def keeping_open(
    home: Home, backend: ClusterBackend
) -> Callable[[Application], contextlib.AbstractContextManager[None]]:
    """For a supervisor: what goes on beside a session's cluster as long as it lives. Nothing beside others."""

    @contextlib.contextmanager
    def beside(application: Application) -> Iterator[None]:
        if backend.shares_files or not is_session(application.spec):
            yield
            return
        ended = threading.Event()
        threading.Thread(
            target=keep_going,
            args=("the way to a session", lambda: _keep(home, backend, application, ended), ended),
            kwargs={"log": _log},
            daemon=True,
        ).start()
        try:
            yield
        finally:
            ended.set()

    return beside


def _keep(home: Home, backend: ClusterBackend, application: Application, ended: threading.Event) -> None:
    handle, file = application.cluster or backend.handle(application.id), _file(home, application.id)
    port = None
    while port is None and not ended.wait(_LOOK_SECONDS):
        with contextlib.suppress(PenstockError):
            port = published_port(lambda name: backend.private_file(handle, name))
    if port is None:
        return
    me = ProcessId.of(os.getpid()) or ProcessId(os.getpid(), -1)
    with backend.reach(handle, port) as here:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            write_json(file, {"port": here, "keeper": me.as_json()})
            ended.wait()
        finally:
            file.unlink(missing_ok=True)


def _file(home: Home, application_id: str) -> Path:
    return home.application(application_id) / "session-way.json"
