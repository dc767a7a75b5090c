"""Interactive sessions: dedicated clusters that speak Spark Connect or JDBC, used from any notebook or BI tool.

A session is an ordinary application, with queue, quotas, cost, logs and history. This module adds the address, whose
token exists in the cluster's private directory alone and ends with the cluster; for drivers on other machines, a tunnel
from a port of this machine's loopback; and the application that runs SQL statements.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.clusters.backend import ClusterBackend
from penstock.engine import uploads
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.interactive import session_server
from penstock.errors import ClusterError, InvalidInput, NotFound, PenstockError, StateError
from penstock.home import Home, read_json, write_atomically, write_json
from penstock.lake.model import Lake, ObjectStore, artifact_prefix
from penstock.model import DEFAULT_INSTANCE, Application, ApplicationSpec, ClusterSize, State
from penstock.processes import ProcessId
from penstock.recovery import keep_going

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

TAG = "session"
IDLE_SECONDS = 1800.0
LONGEST_IDLE_SECONDS = 7 * 86400.0

_FILE = "session.json"
_PROTOCOL = "--protocol"
_IDLE = "--idle-seconds"
_LOOK_SECONDS = 0.1
_OWN_SETTINGS = (
    "spark.connect.grpc.binding.",
    "spark.connect.authenticate.",
    "spark.connect.session.manager.defaultSessionTimeout",
    "spark.hadoop.hive.server2.",
    "spark.hive.server2.",
)


class SessionProtocol(str, enum.Enum):
    """The protocol of a session's clients."""

    CONNECT = "connect"
    JDBC = "jdbc"

    def address(self, port: int) -> str:
        """The address without the token.

        Clients of Spark Connect send a token over an unencrypted connection to `localhost` only, by that name.
        """
        return f"sc://localhost:{port}" if self is SessionProtocol.CONNECT else f"jdbc:hive2://localhost:{port}/"

    def address_with(self, port: int, token: str) -> str:
        added = f"/;token={token}" if self is SessionProtocol.CONNECT else f";user={TAG};password={token}"
        return self.address(port) + added


@dataclass(frozen=True)
class SessionRequest:
    """A request for a session; all fields but `protocol` and `idle_seconds` are those of any application."""

    size: ClusterSize
    name: str = "session"
    protocol: SessionProtocol = SessionProtocol.CONNECT
    idle_seconds: float = IDLE_SECONDS
    profile: str = "sql"
    lake: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    instance: str = DEFAULT_INSTANCE
    priority: int = 0

    def specification(self) -> ApplicationSpec:
        """The specification of the application that serves the session. Raises `InvalidInput`."""
        if not 0 < self.idle_seconds <= LONGEST_IDLE_SECONDS:
            raise InvalidInput(
                f"A session cannot be idle for {self.idle_seconds:g} s",
                why="its cluster holds capacity that others may wait for",
                fix=f"--idle-timeout 30m, at most {LONGEST_IDLE_SECONDS / 86400:g} days",
            )
        for key in self.settings:
            if key.startswith(_OWN_SETTINGS):
                raise InvalidInput(
                    f"{key} cannot be set",
                    why="it controls who can reach the session and see its token",
                    fix=f"leave out {key}",
                )
        return ApplicationSpec(
            application=session_server.__file__,
            arguments=(_PROTOCOL, self.protocol.value, _IDLE, f"{self.idle_seconds:g}"),
            size=self.size,
            name=self.name,
            profile=self.profile,
            lake=self.lake,
            # Interactive users look at Spark's pages, and the delay that these add to the start goes unnoticed.
            settings={"spark.ui.enabled": "true", **self.settings},
            environment={session_server.FILE_VARIABLE: f"{{published}}/{_FILE}"},
            tags=(TAG, *(tag for tag in self.tags if tag != TAG)),
            time_limit_seconds=self.time_limit_seconds,
            instance=self.instance,
            priority=self.priority,
        )


@dataclass(frozen=True)
class Session:
    """An application that serves a session.

    `port` is on the engine's machine, and None before it can be reached there and after the session's end.
    """

    application: Application
    port: int | None

    @property
    def id(self) -> str:
        return self.application.id

    @property
    def idle_seconds(self) -> float:
        return float(argument(self.application.spec, _IDLE) or 0)

    @property
    def protocol(self) -> SessionProtocol:
        # Sessions of earlier versions name none.
        return SessionProtocol(argument(self.application.spec, _PROTOCOL) or SessionProtocol.CONNECT)

    @property
    def address(self) -> str | None:
        """The session's address without the token."""
        return None if self.port is None else self.protocol.address(self.port)

    def to_json(self) -> dict[str, Any]:
        """The session for lists, without its token."""
        application = self.application.to_json()
        kept = ("id", "name", "state", "reason", "submitted_at", "started_at", "ended_at")
        return {
            **{name: application[name] for name in kept},
            "instance": self.application.spec.instance,
            "protocol": self.protocol.value,
            "idle_seconds": self.idle_seconds,
            "address": self.address,
            "size": application["spec"]["size"],
        }


def is_session(spec: ApplicationSpec) -> bool:
    """Return whether `Wanted.specification` created it; the tag alone proves nothing, since any user may set it."""
    return session_server.FILE_VARIABLE in spec.environment and _IDLE in spec.arguments


def published_port(read: Callable[[str], str | None]) -> int | None:
    """The port on the driver's loopback where a session listens; None until it listens.

    `read` returns the content of a private file of the driver.
    """
    content = read(_FILE)
    return None if content is None else int(json.loads(content)["port"])


class Applications(Protocol):
    """The part of the engine that sessions use."""

    def submit(self, spec: ApplicationSpec) -> Application: ...
    def detach(self, application_id: str) -> None: ...
    def get(self, application_id: str) -> Application: ...
    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[Application]: ...


class Clusters(Protocol):
    """The part of the live clusters that sessions use."""

    def private_file(self, application: Application, name: str) -> str | None: ...
    def forwarded_port(self, application: Application, port: int) -> int | None: ...


class SessionClient(ABC):
    """The sessions of a local or remote engine."""

    @abstractmethod
    def start(self, wanted: SessionRequest) -> Session:
        """Start a session, which the engine then supervises. Raises the errors of `Engine.submit`."""

    @abstractmethod
    def get(self, session_id: str) -> Session:
        """Raises `NotFound` where there is no such application, or it is not a session."""

    @abstractmethod
    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]:
        """Sessions, newest first; ended ones only with `ended`."""

    @abstractmethod
    def address(self, session_id: str) -> str:
        """The address with its token, which gives full access and must never be listed, logged or stored.

        It is `sc://localhost:PORT/;token=…` or `jdbc:hive2://localhost:PORT/;user=session;password=…`. Raises
        `NotFound`, or `StateError` where the session does not listen (any more).
        """

    def wait(self, session_id: str, *, timeout_seconds: float | None = None) -> Session:
        """Wait until the session listens. Raises `ClusterError` where it ends first, `StateError` after the timeout."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while (session := self.get(session_id)).port is None:
            if session.application.state.final:
                raise _not_listening(session.application)
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(
                    f"{session_id} does not listen yet",
                    why=_why(session.application),
                    fix=f"try penstock session address {session_id} later",
                )
            time.sleep(_LOOK_SECONDS)
        return session


class Sessions(SessionClient):
    """The sessions of a local engine, which runs them as ordinary applications: see `SessionRequest.specification`."""

    def __init__(self, applications: Applications, clusters: Clusters) -> None:
        self._applications = applications
        self._clusters = clusters

    def start(self, wanted: SessionRequest) -> Session:
        submitted = self._applications.submit(wanted.specification())
        self._applications.detach(submitted.id)
        return self.get(submitted.id)

    def get(self, session_id: str) -> Session:
        application = self._applications.get(session_id)
        if not is_session(application.spec):
            raise NotFound(f"{application.id} is not a session", fix="penstock session list shows the sessions")
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
        if published is None or session.port is None:
            raise _not_listening(session.application)
        return session.protocol.address_with(session.port, str(published["token"]))

    def _session(self, application: Application) -> Session:
        published = self._published(application)
        if published is None:
            return Session(application, None)
        return Session(application, self._clusters.forwarded_port(application, int(published["port"])))

    def _published(self, application: Application) -> Mapping[str, Any] | None:
        if application.state not in (State.STARTING, State.RUNNING):
            return None
        content = self._clusters.private_file(application, _FILE)
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
    state = f"it is {application.state.value}"
    return f"{state}: {application.reason.message}" if application.reason else state


_TUNNEL_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


def tunnel_port(home: Home, application_id: str) -> int | None:
    """The local port of the session's tunnel; None where no process keeps one open (yet, or any more)."""
    kept = read_json(_file(home, application_id))
    return int(kept["port"]) if kept and ProcessId.from_json(kept["keeper"]).alive() else None


def session_tunnels(
    home: Home, backend: ClusterBackend
) -> Callable[[Application], contextlib.AbstractContextManager[None]]:
    """A context manager that keeps a tunnel to a supervised session's driver; other applications get none."""

    @contextlib.contextmanager
    def companions(application: Application) -> Iterator[None]:
        if backend.shares_files or not is_session(application.spec):
            yield
            return
        ended = threading.Event()
        threading.Thread(
            target=keep_going,
            args=("the tunnel to a session", lambda: _keep(home, backend, application, ended), ended),
            kwargs={"log": _log},
            daemon=True,
        ).start()
        try:
            yield
        finally:
            ended.set()

    return companions


def _keep(home: Home, backend: ClusterBackend, application: Application, ended: threading.Event) -> None:
    handle, file = application.cluster or backend.handle(application.id), _file(home, application.id)
    port = None
    while port is None and not ended.wait(_TUNNEL_LOOK_SECONDS):
        with contextlib.suppress(PenstockError):
            port = published_port(lambda name: backend.private_file(handle, name))
    if port is None:
        return
    me = ProcessId.of(os.getpid()) or ProcessId(os.getpid(), -1)
    with backend.forward_port(handle, port) as here:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            write_json(file, {"port": here, "keeper": me.to_json()})
            ended.wait()
        finally:
            file.unlink(missing_ok=True)


def _file(home: Home, application_id: str) -> Path:
    return home.application(application_id) / "session-way.json"


RESULTS = "penstock/results/"
"""The prefix in the lake below which a driver writes the results of statements, until the client takes them."""


def application(
    engine: QueryEngine, *, name: str, lake: str, size: ClusterSize, limit: int, settings: Mapping[str, str] | None
) -> ApplicationSpec:
    """The specification of an application that runs statements; `limit` is the largest number of rows per result."""
    return ApplicationSpec(
        application=engine.program,
        main_class=engine.main_class,
        name=name,
        profile=engine.profile,
        lake=lake,
        size=size,
        settings=settings or {},
        arguments=("--limit", str(limit)),
    )


def arguments(*, output: str, limit: int, source: str) -> tuple[str, ...]:
    """Arguments of the driver, which writes results to the address `output` and reads the statements from `source`."""
    return ("--output", output, "--limit", str(limit), "--statements-file", source)


def limit_of(spec: ApplicationSpec) -> int:
    return int(argument(spec, "--limit") or 0)


def argument(spec: ApplicationSpec, option: str) -> str | None:
    """The value of the option, if given."""
    following = dict(zip(spec.arguments, spec.arguments[1:], strict=False))
    return following.get(option)


class Exchange(Protocol):
    """The transport of statements to a driver, and of their results back."""

    def send_statements(self, text: str) -> AbstractContextManager[str]:
        """The address of the statements for the driver, valid within the block."""

    def take_results(self, application: Application, key: str, text: str) -> list[dict[str, Any]]:
        """Take the results, which are stored nowhere else afterwards; none where the driver ended before it wrote any.

        The statements are stored for a later rerun.
        """

    def stored_statements(self, application: Application) -> str:
        """The statements of an earlier run. Raises `NotFound` where they were not stored."""


_STATEMENTS = "statements.sql"
"""Name of the statements among an application's artifacts."""


class LocalExchange:
    """The transport of an engine of this machine."""

    def __init__(self, engine: Engine, lake: Lake) -> None:
        self._engine = engine
        self._lake = lake

    @contextlib.contextmanager
    def send_statements(self, text: str) -> Iterator[str]:
        """Pass statements in a private file or an object: they may hold secrets, which process lists would show."""
        if not self._engine.backend.shares_files:
            store, key = self._engine.store(self._lake.name), f"{RESULTS}{secrets.token_hex(8)}.sql"
            store.put(key, text.encode())
            try:
                yield f"{self._lake.root}/{key}"
            finally:
                store.delete(key)
            return
        home = self._engine.home
        home.create()
        path = home.cache / f"statements-{secrets.token_hex(8)}.sql"
        write_atomically(path, text)
        try:
            yield str(path)
        finally:
            path.unlink(missing_ok=True)

    def take_results(self, application: Application, key: str, text: str) -> list[dict[str, Any]]:
        store = self._engine.store(self._lake.name)
        # The private file is gone, and arguments of the application would expose the statements.
        store.put(artifact_prefix(application.id) + _STATEMENTS, text.encode())
        return _take(store, key)

    def stored_statements(self, application: Application) -> str:
        store = self._engine.store(self._lake.name)
        return statements_text(application, stored_statements(store, self._lake, application))


def statements_text(application: Application, content: bytes) -> str:
    """Decode stored statements. Raises `InvalidInput` where they are not UTF-8: a client uploads any bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The statements of {application.id} are not text in UTF-8",
            why=f"byte {error.start + 1} is invalid ({error.reason})",
            fix="convert the file (iconv -t UTF-8), and submit it again: penstock sql -f FILE",
        ) from error


def stored_statements(store: ObjectStore, lake: Lake, application: Application, *, length: int | None = None) -> bytes:
    """The statements of an earlier run, or their first `length` bytes. Raises `NotFound` where they were not stored.

    A command on the engine's machine stores them among the artifacts, and a client of a service uploads them. An
    argument, which is the user's, names an upload, so nothing but an upload is read.
    """
    address = argument(application.spec, "--statements-file") or ""
    uploaded = address.removeprefix(f"{lake.root}/")
    keys = [artifact_prefix(application.id) + _STATEMENTS]
    if uploaded.startswith(uploads.PREFIX) and ".." not in uploaded.split("/"):
        keys.append(uploaded)
    for key in keys:
        with contextlib.suppress(NotFound):
            return store.get(key, length=length)
    why = "its command ended before it had stored them" if len(keys) == 1 else f"{address} no longer exists"
    raise NotFound(
        f"The lake “{lake.name}” does not have the statements of {application.id}",
        why=why,
        fix="submit the statements: penstock sql, or penstock sql -f FILE",
    )


def _take(store: ObjectStore, key: str) -> list[dict[str, Any]]:
    try:
        content = store.get(key)
    except NotFound:
        return []
    # The bytes are split, since text would also be split at separators inside of JSON strings, such as U+2028.
    results = [json.loads(line) for line in content.splitlines()]
    store.delete(key)
    return results
