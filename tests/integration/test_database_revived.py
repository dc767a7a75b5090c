"""An embedded database that dies under a service is there again, and what was to be done is done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.database import Database
from penstock.engine.application import State
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.records import CONNECTION_LOST
from penstock.home import Home
from tests.support.fake_engine import PretendingEngine, specification


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    home.create()
    yield home
    Database(home).down()


@pytest.fixture
def engine(home: Home) -> Iterator[PretendingEngine]:
    """With a dispatcher."""
    engine, stop = PretendingEngine(home), threading.Event()
    dispatcher = threading.Thread(target=Dispatcher(engine).run, args=[stop])
    dispatcher.start()
    yield engine
    stop.set()
    dispatcher.join()


def finished(engine: PretendingEngine, application_id: str) -> bool:
    try:
        return engine.get(application_id).state is State.FINISHED
    except CONNECTION_LOST:
        return False


def until_finished(engine: PretendingEngine, application_id: str) -> None:
    deadline = time.monotonic() + 60
    while not finished(engine, application_id):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_database_that_was_killed_is_started_again_and_one_that_was_stopped_is_not(
    home: Home, engine: PretendingEngine
) -> None:
    until_finished(engine, engine.enqueue(specification(home, 1)).id)
    server = Database(home).process()
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while Database(home).status().state != "up":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    until_finished(engine, engine.enqueue(specification(home, 2)).id)

    Database(home).down()
    time.sleep(3)
    assert Database(home).status().state == "down"
