"""A supervisor survives a database outage as long as a server's restart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.supervision import supervisor as module
from penstock.engine.supervision.supervisor import Supervisor
from penstock.errors import CatalogError, MissingRequirement
from penstock.model import Application, State
from tests.unit.engine.engine_making import Memory, application
from tests.unit.engine.supervision.test_supervisor_companions import Cluster


class Away(Memory):
    """Records whose database is unavailable once, in the middle."""

    lost = False

    @contextlib.contextmanager
    def claim(self, *arguments: Any, **more: Any) -> Iterator[Any]:
        if not self.lost:
            self.lost = True
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        with super().claim(*arguments, **more) as claim:
            yield claim


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def supervised(tmp_path: Path, restore: Any) -> Application:
    supervisor = Supervisor(
        cast(ApplicationRepository, Away(application(State.ACCEPTED))),
        cast(ClusterBackend, Cluster(tmp_path, [], good_attempt=1)),
        prepare=lambda _: cast(Launch, None),
        store_artifacts=lambda *_: {},
        restore=restore,
    )
    return supervisor.run("app-1", lambda *_: None)


def test_an_external_server_that_is_away_for_half_a_minute_ends_no_supervision(tmp_path: Path, clock: Clock) -> None:
    def restore() -> None:
        if clock.seconds < 30:
            raise CatalogError("The catalog's database cannot be used", why="Connection refused")

    assert supervised(tmp_path, restore).state is State.FINISHED


def test_a_server_that_stays_away_is_given_up_after_a_minute_with_its_reason(tmp_path: Path, clock: Clock) -> None:
    def restore() -> None:
        raise CatalogError("The catalog's database cannot be used", why="Connection refused")

    with pytest.raises(CatalogError, match="Connection refused"):
        supervised(tmp_path, restore)
    assert 60 <= clock.seconds <= 70


def test_a_permanent_failure_is_reported_at_once(tmp_path: Path, clock: Clock) -> None:
    def restore() -> None:
        raise MissingRequirement("The catalog's database cannot be started", why="the disk is full")

    with pytest.raises(MissingRequirement):
        supervised(tmp_path, restore)
    assert clock.seconds <= 1
