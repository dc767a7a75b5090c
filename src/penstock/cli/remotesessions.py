"""The sessions of a service as the commands' target."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from penstock.client.client import Client
from penstock.engine.interactive.sessions import AnySessions, Session, Wanted


class RemoteSessions(AnySessions):
    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self, wanted: Wanted) -> Session:
        return self.get(self._client.call("POST", "/v1/sessions", _body(wanted))["id"])

    def get(self, session_id: str) -> Session:
        shown = self._client.get(f"/v1/sessions/{session_id}")
        port = urlsplit(shown["address"]).port if shown["address"] else None
        return Session(self._client.application(shown["id"]), port)

    def list(self, *, ended: bool = False, limit: int | None = None) -> list[Session]:
        found = self._client.get("/v1/sessions", ended=ended, **({} if limit is None else {"limit": limit}))
        return [self.get(shown["id"]) for shown in found["items"]]

    def address(self, session_id: str) -> str:
        """On the service's machine; from elsewhere through `ssh -L PORT:localhost:PORT`."""
        return str(self._client.get(f"/v1/sessions/{session_id}/address")["address"])


def _body(wanted: Wanted) -> dict[str, Any]:
    size = wanted.size

    def process(cores: int, memory_bytes: int) -> dict[str, int]:
        return {"cores": cores, "memory_bytes": memory_bytes}

    return {
        "name": wanted.name,
        "size": {
            "driver": process(size.driver.cores, size.driver.memory_bytes),
            "executor": process(size.executor.cores, size.executor.memory_bytes),
            "executors": size.executors,
        },
        "idle_seconds": wanted.idle_seconds,
        "profile": wanted.profile,
        "lake": wanted.lake,
        "settings": dict(wanted.settings),
        "tags": list(wanted.tags),
        "time_limit_seconds": wanted.time_limit_seconds,
        "instance": wanted.instance,
        "priority": wanted.priority,
    }
