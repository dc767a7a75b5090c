"""The target of commands: the engine of this home, or a service (`--server`)."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.options import server
from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import RESULTS, Exchange, Session, SessionRequest, Sessions
from penstock.errors import NotFound
from penstock.home import Home, write_atomically
from penstock.lake.model import Lake, ObjectStore, artifact_prefix
from penstock.model import Application, ApplicationSpec, ClusterSize, Reason, State

if TYPE_CHECKING:
    from penstock.engine.supervisor import OnChange


class Attendant(Protocol):
    """Follows one application until it ends; `Supervisor` implements it locally.

    `stop` and `insist` are safe to call from a signal handler.
    """

    def run(self, application_id: str, on_change: OnChange) -> Application: ...

    def stop(self, reason: Reason) -> None: ...

    def insist(self) -> None: ...


class Target(Protocol):
    """The operations that commands on applications need; `Engine` documents them and their errors."""

    def submit(self, spec: ApplicationSpec) -> Application: ...

    def warnings(self, spec: ApplicationSpec) -> Sequence[str]: ...

    def usual_size(self) -> ClusterSize:
        """The size of a cluster for which the user gives none."""

    def detach(self, application_id: str) -> None: ...

    def supervisor(self, application_id: str) -> Attendant: ...

    def reconcile(self) -> Iterable[str]: ...

    def get(self, application_id: str) -> Application: ...

    def list(
        self, *, states: Iterable[State] = (), tags: Iterable[str] = (), limit: int | None = None
    ) -> Sequence[Application]: ...

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]: ...

    def artefact(self, application_id: str, name: str) -> bytes: ...

    def follow(self, application_id: str, name: str, *, start: int = 0) -> Iterator[bytes]: ...

    def read(self, application: Application, name: str, start: int) -> bytes: ...

    def stop(self, application_id: str) -> Application: ...

    def lake(self, name: str | None = None) -> Lake: ...

    def exchange(self, lake: Lake) -> Exchange: ...


def target() -> Target:
    if url := server():
        from penstock.client.remote import RemoteEngine

        return RemoteEngine(url)

    return LocalEngine(Home.default())


STATEMENTS = "statements.sql"
"""Name of the statements among an application's artifacts."""


class LocalEngine(Engine):
    def exchange(self, lake: Lake) -> Exchange:
        return LocalExchange(self, lake)


class LocalExchange:
    def __init__(self, engine: Engine, lake: Lake) -> None:
        self._engine = engine
        self._lake = lake

    @contextlib.contextmanager
    def given(self, text: str) -> Iterator[str]:
        """Pass statements in a private file or an object: they may hold secrets, which process lists would show."""
        if not self._engine.shares_files:
            store, key = self._engine.store(self._lake.name), f"{RESULTS}{secrets.token_hex(8)}.sql"
            store.put(key, text.encode())
            try:
                yield f"{self._lake.root}/{key}"
            finally:
                store.delete(key)
            return
        home: Home = self._engine.home
        home.create()
        path = home.cache / f"statements-{secrets.token_hex(8)}.sql"
        write_atomically(path, text)
        try:
            yield str(path)
        finally:
            path.unlink(missing_ok=True)

    def taken(self, application: Application, key: str, text: str) -> list[dict[str, Any]]:
        store = self._engine.store(self._lake.name)
        # The private file is gone, and arguments of the application would expose the statements.
        store.put(artifact_prefix(application.id) + STATEMENTS, text.encode())
        return _take(store, key)

    def kept(self, application: Application) -> str:
        return self._engine.artefact(application.id, STATEMENTS).decode()


def _take(store: ObjectStore, key: str) -> list[dict[str, Any]]:
    try:
        lines = store.get(key).decode().splitlines()
    except NotFound:
        return []
    store.delete(key)
    return [json.loads(line) for line in lines]


class SessionTarget(Protocol):
    """The operations that session commands need; `AnySessions` documents them and their errors."""

    def start(self, wanted: SessionRequest) -> Session: ...
    def get(self, session_id: str) -> Session: ...
    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]: ...
    def address(self, session_id: str) -> str: ...
    def wait(self, session_id: str) -> Session: ...


class LocalSessions(Sessions):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def start(self, wanted: SessionRequest) -> Session:
        """Start a session under a detached supervisor. Raises the errors of `Engine.submit`."""
        submitted = self._engine.submit(wanted.specification())
        self._engine.detach(submitted.id)
        return self.get(submitted.id)


def sessions() -> SessionTarget:
    if url := server():
        from penstock.client.client import Client
        from penstock.client.remote import RemoteSessions

        return RemoteSessions(Client(url))
    return LocalSessions(Engine(Home.default()))
