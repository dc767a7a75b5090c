"""Applications for tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from penstock.engine.application import Application, ApplicationSpec, ClusterSize, ProcessSize, State

START = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)
GIB = 1 << 30
HANDLE = {"backend": "pretended", "application_id": "app-1"}


def size(executors: int = 1, *, cores: int = 1, memory: int = GIB) -> ClusterSize:
    return ClusterSize(ProcessSize(1, memory), ProcessSize(cores, memory), executors)


def spec(**more: Any) -> ApplicationSpec:
    return ApplicationSpec(**{"application": "/a.py", "size": size(), "name": "a", **more})


def application(state: State = State.ACCEPTED, **more: Any) -> Application:
    given = {"id": "app-1", "spec": spec(), "state": state, "submitted_at": START, **more}
    if state not in (State.ACCEPTED, State.WAITING):
        given.setdefault("cluster", HANDLE)
    return Application(**given)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)
