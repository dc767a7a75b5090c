"""A cluster's companions start with it, end with its processes, and end it when they fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from penstock.clusters.backend import ClusterBackend, Launch, Observation, Phase
from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.supervision.supervisor import Supervisor
from penstock.errors import LakeError, PenstockError
from penstock.model import Application, State
from tests.unit.engine.engine_making import HANDLE, Memory, application, spec

GiveUp = Callable[[PenstockError], None]


class Cluster:
    """A cluster that runs until it is stopped; from attempt `good_attempt` on it succeeds at once."""

    def __init__(self, tmp_path: Path, steps: list[str], good_attempt: int) -> None:
        self.directory, self.steps, self.good_attempt = tmp_path, steps, good_attempt
        self.launches = 0
        self.stopped = True

    def capacity(self) -> None:
        return None

    def handle(self, _: str) -> dict[str, Any]:
        return HANDLE

    def launch(self, _: Launch) -> None:
        self.launches += 1
        self.stopped = False
        self.steps.append("launched")

    def observe(self, _: Any) -> Observation:
        if self.launches >= self.good_attempt:
            return Observation(Phase.ENDED, exit_code=0)
        return Observation(Phase.ENDED, exit_code=143) if self.stopped else Observation(Phase.RUNNING)

    def read(self, *_: Any, **__: Any) -> bytes:
        return b""

    def stop(self, _: Any, *, grace_seconds: float) -> None:
        self.stopped = True
        self.steps.append("processes gone")

    def collect(self, _: Any, *, incomplete: bool = False) -> Path:
        return self.directory

    def release(self, _: Any) -> None:
        self.steps.append("released")


def supervised(tmp_path: Path, *, retries: int, good_attempt: int, fails: int = 0) -> tuple[Application, list[str]]:
    """Return the ended application and the events; the companions of the first `fails` clusters give up."""
    steps: list[str] = []
    begun = 0

    @contextlib.contextmanager
    def companions(_: Application, give_up: GiveUp) -> Iterator[None]:
        nonlocal begun
        begun += 1
        steps.append("companions")
        if begun <= fails:
            give_up(LakeError("The lake credentials ended", why="nobody renewed them", fix="look at the store"))
        yield
        steps.append("no more")

    supervisor = Supervisor(
        cast(ApplicationRepository, Memory(application(State.ACCEPTED, spec=spec(retries=retries)))),
        cast(ClusterBackend, Cluster(tmp_path, steps, good_attempt)),
        prepare=lambda _: cast(Launch, None),
        store_artifacts=lambda *_: {},
        companions=companions,
    )
    return supervisor.run("app-1", lambda *_: None), steps


def test_it_begins_when_the_cluster_was_launched_and_is_over_when_its_processes_are_gone(tmp_path: Path) -> None:
    ended, steps = supervised(tmp_path, retries=0, good_attempt=1)
    assert ended.state is State.FINISHED
    assert steps == ["launched", "companions", "processes gone", "no more", "released"]


def test_where_it_fails_the_application_ends_with_its_reason(tmp_path: Path) -> None:
    ended, steps = supervised(tmp_path, retries=0, good_attempt=9, fails=1)
    assert ended.state is State.FAILED
    assert ended.reason is not None
    assert ended.reason.code == "lake_error"
    assert ended.reason.message == "The lake credentials ended: nobody renewed them"
    assert steps.count("no more") == 1


def test_another_attempt_is_not_ended_by_what_ended_the_first(tmp_path: Path) -> None:
    ended, steps = supervised(tmp_path, retries=1, good_attempt=2, fails=1)
    assert ended.state is State.FINISHED, ended.reason
    assert [attempt.reason.code for attempt in ended.attempts] == ["lake_error"]
    assert steps.count("companions") == steps.count("no more") == 2
