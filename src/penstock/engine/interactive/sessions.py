"""Interactive sessions: a dedicated cluster that speaks Spark Connect, used from any notebook until nobody uses it.

A session is an application like any other: queue, quotas, cost, logs and history are its own without another word. It
adds the address, whose token lives in the cluster's private directory alone and is gone with the cluster; on other
machines' drivers a tunnel to it, on a port of this machine's loopback; and the application that runs SQL statements.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.clusters.backend import ClusterBackend
from penstock.clusters.launch import BUILT_IN
from penstock.engine.interactive import connect_server
from penstock.errors import ClusterError, InvalidInput, NotFound, PenstockError, StateError
from penstock.home import Home, read_json, write_json
from penstock.model import DEFAULT_INSTANCE, Application, ApplicationSpec, ClusterSize, State
from penstock.processes import ProcessId
from penstock.recovery import keep_going

TAG = "session"
IDLE_SECONDS = 1800.0
LONGEST_IDLE_SECONDS = 7 * 86400.0

_FILE = "session.json"
_IDLE = "--idle-seconds"
_LOOK_SECONDS = 0.1
_OWN_SETTINGS = (
    "spark.connect.grpc.binding.",
    "spark.connect.authenticate.",
    "spark.connect.session.manager.defaultSessionTimeout",
)


@dataclass(frozen=True)
class Wanted:
    """What a user asks for; the fields beyond `idle_seconds` mean what they mean for any application."""

    size: ClusterSize
    name: str = "session"
    idle_seconds: float = IDLE_SECONDS
    profile: str = "sql"
    lake: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    instance: str = DEFAULT_INSTANCE
    priority: int = 0

    def specification(self) -> ApplicationSpec:
        """The application that serves it. Raises `InvalidInput`."""
        if not 0 < self.idle_seconds <= LONGEST_IDLE_SECONDS:
            raise InvalidInput(
                f"A session cannot be idle for {self.idle_seconds:g} s",
                why="its cluster keeps what others may wait for",
                fix=f"--idle-timeout 30m, at most {LONGEST_IDLE_SECONDS / 86400:g} days",
            )
        for key in self.settings:
            if key.startswith(_OWN_SETTINGS):
                raise InvalidInput(
                    f"{key} cannot be set",
                    why="it decides who can reach the session, and see its token",
                    fix=f"leave out {key}",
                )
        return ApplicationSpec(
            application=connect_server.__file__,
            arguments=(_IDLE, f"{self.idle_seconds:g}"),
            size=self.size,
            name=self.name,
            profile=self.profile,
            lake=self.lake,
            # Whoever works with a cluster for an hour looks at it; what the pages cost its start is not noticed.
            settings={"spark.ui.enabled": "true", **self.settings},
            environment={connect_server.FILE_VARIABLE: f"{{published}}/{_FILE}"},
            tags=(TAG, *(tag for tag in self.tags if tag != TAG)),
            time_limit_seconds=self.time_limit_seconds,
            instance=self.instance,
            priority=self.priority,
        )


@dataclass(frozen=True)
class Session:
    """An application that serves a session. `port`, of the engine's machine: None before it can be reached there, and
    after its end."""

    application: Application
    port: int | None

    @property
    def id(self) -> str:
        return self.application.id

    @property
    def idle_seconds(self) -> float:
        arguments = self.application.spec.arguments
        return float(arguments[arguments.index(_IDLE) + 1])

    @property
    def address(self) -> str | None:
        """Where it listens, without the token."""
        return None if self.port is None else f"sc://localhost:{self.port}"

    def to_json(self) -> dict[str, Any]:
        """For lists: holds no token."""
        application = self.application.to_json()
        kept = ("id", "name", "state", "reason", "submitted_at", "started_at", "ended_at")
        return {
            **{name: application[name] for name in kept},
            "instance": self.application.spec.instance,
            "idle_seconds": self.idle_seconds,
            "address": self.address,
            "size": application["spec"]["size"],
        }


def is_session(spec: ApplicationSpec) -> bool:
    """Whether it was made by `Wanted.specification`: anybody may use the tag."""
    return connect_server.FILE_VARIABLE in spec.environment and _IDLE in spec.arguments


def published_port(read: Callable[[str], str | None]) -> int | None:
    """The port of its driver's loopback that a session listens on; None where it does not yet. `read` gives what is in
    a private file of the driver's."""
    content = read(_FILE)
    return None if content is None else int(json.loads(content)["port"])


class Applications(Protocol):
    """What sessions need of the engine."""

    def get(self, application_id: str) -> Application: ...
    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[Application]: ...
    def private_file(self, application: Application, name: str) -> str | None: ...
    def reached(self, application: Application, port: int) -> int | None: ...


class AnySessions(ABC):
    """Sessions, wherever the engine that has them is."""

    @abstractmethod
    def get(self, session_id: str) -> Session:
        """`NotFound` where there is no such application, or it is no session."""

    @abstractmethod
    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]:
        """Newest first; those that have ended only where they are asked for."""

    @abstractmethod
    def address(self, session_id: str) -> str:
        """`sc://localhost:PORT/;token=…`, which is all a client needs: never to be listed, logged or kept.

        PySpark's client sends a token over an unencrypted connection to `localhost` only, by that name. Raises
        `NotFound`, or `StateError` where the session does not listen (any more).
        """

    def wait(self, session_id: str, *, timeout_seconds: float | None = None) -> Session:
        """Until it listens. Raises `ClusterError` where it ends before that, `StateError` when the time is over."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while (session := self.get(session_id)).port is None:
            if session.application.state.final:
                raise _not_listening(session.application)
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(
                    f"{session_id} does not listen yet",
                    why=_why(session.application),
                    fix=f"penstock session address {session_id}, later",
                )
            time.sleep(_LOOK_SECONDS)
        return session


class Sessions(AnySessions):
    """Those of an engine, which starts and ends them as it does any application: see `Wanted.specification`."""

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def get(self, session_id: str) -> Session:
        application = self._applications.get(session_id)
        if not is_session(application.spec):
            raise NotFound(f"{application.id} is no session", fix="penstock session list shows them")
        return self._session(application)

    def list(
        self, *, ended: bool = False, limit: int | None = None, instances: Iterable[str] | None = None
    ) -> list[Session]:
        states = () if ended else [state for state in State if not state.final]
        found = self._applications.list(states=states, tags=[TAG], instances=instances, limit=limit)
        return [self._session(application) for application in found if is_session(application.spec)]

    def address(self, session_id: str) -> str:
        session = self.get(session_id)
        published = self._published(session.application)
        if published is None or session.address is None:
            raise _not_listening(session.application)
        return f"{session.address}/;token={published['token']}"

    def _session(self, application: Application) -> Session:
        published = self._published(application)
        if published is None:
            return Session(application, None)
        return Session(application, self._applications.reached(application, int(published["port"])))

    def _published(self, application: Application) -> Mapping[str, Any] | None:
        if application.state not in (State.STARTING, State.RUNNING):
            return None
        content = self._applications.private_file(application, _FILE)
        return None if content is None else json.loads(content)


def _not_listening(application: Application) -> ClusterError | StateError:
    if application.state.final:
        return ClusterError(
            f"The session {application.id} has ended", why=_why(application), fix="penstock session start"
        )
    return StateError(
        f"{application.id} does not listen yet", why=_why(application), fix=f"penstock show {application.id}"
    )


def _why(application: Application) -> str:
    told = f"it is {application.state.value}"
    return f"{told}: {application.reason.message}" if application.reason else told


_TUNNEL_LOOK_SECONDS = 0.5

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
    while port is None and not ended.wait(_TUNNEL_LOOK_SECONDS):
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


_RUNNER = "io.penstock.sql.SqlRunner"
RESULTS = "penstock/results/"
"""Below it in the lake a driver writes what its statements answer, until whoever asked takes it."""


def application(
    *, name: str, lake: str, size: ClusterSize, limit: int, settings: Mapping[str, str] | None
) -> ApplicationSpec:
    """`limit` is the most rows of each result."""
    return ApplicationSpec(
        application=BUILT_IN,
        main_class=_RUNNER,
        name=name,
        profile="sql",
        lake=lake,
        size=size,
        settings=settings or {},
        arguments=("--limit", str(limit)),
    )


def arguments(*, output: str, limit: int, source: str) -> tuple[str, ...]:
    """`output` and `source` are addresses a driver can write to, and read the statements from."""
    return ("--output", output, "--limit", str(limit), "--statements-file", source)


def is_statements(spec: ApplicationSpec) -> bool:
    return spec.application == BUILT_IN and spec.main_class == _RUNNER


def limit_of(spec: ApplicationSpec) -> int:
    return int(argument(spec, "--limit") or 0)


def argument(spec: ApplicationSpec, option: str) -> str | None:
    """What follows the option, where it was given."""
    following = dict(zip(spec.arguments, spec.arguments[1:], strict=False))
    return following.get(option)
