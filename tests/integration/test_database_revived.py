"""An embedded database that dies under a service is restarted, and pending work is completed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.database import Database
from penstock.engine import dispatcher
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.home import Home
from penstock.model import State
from tests.support.database_template import DatabaseTemplate
from tests.support.fake_engine import FakeEngine, specification
from tests.support.waiting import within


@pytest.fixture
def home(tmp_path: Path, database_template: DatabaseTemplate) -> Iterator[Home]:
    home = Home(tmp_path)
    database_template.copy_to(home)
    yield home
    Database(home).down()


@pytest.fixture
def engine(home: Home) -> Iterator[FakeEngine]:
    """An engine with a dispatcher."""
    engine, stop = FakeEngine(home), threading.Event()
    thread = threading.Thread(target=Dispatcher(engine).run, args=[stop])
    thread.start()
    yield engine
    stop.set()
    thread.join()


def finished(engine: FakeEngine, application_id: str) -> bool:
    """Return whether the application finished and its supervisor's thread has no work left."""
    try:
        application = engine.get(application_id)
    except CONNECTION_LOST:
        return False
    return application.state is State.FINISHED and application.cluster is None


def test_a_database_that_was_killed_is_started_again_and_one_that_was_stopped_is_not(
    home: Home, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_PAUSE_SECONDS", 0.05)
    first = engine.enqueue(specification(home, 1)).id
    within(lambda: finished(engine, first))
    server = Database(home).process()
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    within(lambda: Database(home).status().state == "up")
    second = engine.enqueue(specification(home, 2)).id
    within(lambda: finished(engine, second))

    looks: list[bool] = []
    restart_if_dead = engine.database.restart_if_dead

    def noted() -> bool:
        looks.append(restart_if_dead())
        return looks[-1]

    monkeypatch.setattr(engine.database, "restart_if_dead", noted)
    Database(home).down()
    within(lambda: len(looks) >= 3)
    assert not any(looks)
    assert Database(home).status().state == "down"
