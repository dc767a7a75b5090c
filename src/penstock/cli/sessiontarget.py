"""Where `penstock session` has its sessions: in the engine of this home, or behind a service (`--server`)."""

from __future__ import annotations

from typing import Protocol

from penstock.cli.server import server
from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import Session, Sessions, Wanted
from penstock.home import Home


class SessionTarget(Protocol):
    """`AnySessions` says what each means and raises."""

    def start(self, wanted: Wanted) -> Session: ...
    def get(self, session_id: str) -> Session: ...
    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]: ...
    def address(self, session_id: str) -> str: ...
    def wait(self, session_id: str) -> Session: ...


class LocalSessions(Sessions):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def start(self, wanted: Wanted) -> Session:
        """Have a process of its own look after it; raises what `Engine.submit` does."""
        submitted = self._engine.submit(wanted.specification())
        self._engine.detach(submitted.id)
        return self.get(submitted.id)


def sessions() -> SessionTarget:
    if url := server():
        from penstock.cli.remotesessions import RemoteSessions
        from penstock.client.client import Client

        return RemoteSessions(Client(url))
    return LocalSessions(Engine(Home.default()))
