"""Applications for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from penstock.engine.policy import lifecycle
from penstock.engine.policy.lifecycle import Event, Step
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State

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


class Memory:
    """One application's records, in memory."""

    def __init__(self, kept: Application) -> None:
        self.kept = kept

    def get(self, _: str) -> Application:
        return self.kept

    def apply(self, _: str, event: Event) -> Step:
        self.kept, more = lifecycle.step(self.kept, event)
        return self.kept, more

    def admit(self, application_id: str, admitted: Event, **_: Any) -> Step:
        self.kept = replace(self.kept, not_before=None)
        return self.apply(application_id, admitted)

    def requested_end(self, _: str) -> None:
        return None

    @contextlib.contextmanager
    def claim(self, *_: Any, **__: Any) -> Iterator[Any]:
        class Claim:
            wait = wait_for_any = staticmethod(lambda _: False)

        yield Claim()
