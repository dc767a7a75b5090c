"""Logs kept during a store's outage, on a real PostgreSQL: they survive a service pod and its state directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.engine import artifacts
from penstock.engine.dispatcher import Housekeeping
from penstock.engine.policy import lifecycle
from penstock.engine.repository import pending_artifacts, schema
from penstock.engine.repository.applications import now
from penstock.engine.repository.retention import Retention
from penstock.errors import LakeError, NotFound
from penstock.home import Home
from penstock.lake.model import Lake, ObjectInfo, ObjectStore, artifact_key, artifact_prefix, attempt_prefix
from penstock.lake.registry import Lakes
from penstock.model import Application, Reason, State
from tests.support.fake_engine import FakeEngine, specification
from tests.unit.lab.lab_fakes import MemoryStore

LAKE = Lake("sales", ("http://127.0.0.1:9",), "sales", "environment")


class Store(MemoryStore):
    away = True

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._answer()
        return super().list(prefix)

    def put(self, key: str, content: bytes | Path) -> None:
        self._answer()
        super().put(key, content)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._answer()
        return super().get(key, start=start, length=length)

    def _answer(self) -> None:
        if self.away:
            raise LakeError("The store does not answer")


class Service(FakeEngine):
    """A service pod with a new state directory, on a store that may be unavailable."""

    def __init__(self, home: Home, store: Store) -> None:
        shutil.rmtree(home.root, ignore_errors=True)
        home.create()
        Lakes(home).add(LAKE)
        super().__init__(home)
        self._store = store

    def store(self, lake: str | None) -> ObjectStore:
        assert lake == LAKE.name
        return self._store


@pytest.fixture
def home(shared_records: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setattr(artifacts, "_PAUSE_SECONDS", 0.0)
    yield Home(tmp_path / "home")
    with shared_records.begin() as connection:
        connection.execute(sa.text("DELETE FROM pending_artefacts"))


def left(directory: Path) -> Path:
    """Write the files that a cluster left behind."""
    (directory / "events").mkdir(parents=True)
    (directory / "summary.json").write_text('{"tasks_done": 3}')
    (directory / "driver.log").write_bytes(b"line\n")
    (directory / "driver.out").touch()
    (directory / "events" / "spark-1").write_bytes(bytes(range(256)) * 5000)  # more than one part
    return directory


def ended(engine: FakeEngine, directory: Path, *, attempt: int | None = None) -> Application:
    """Return an ended application of the records, after an attempt to upload its logs."""
    application = engine.enqueue(specification(engine.home, 1, lake=LAKE.name))
    engine.request_stop(application.id)
    within = attempt_prefix(attempt) if attempt else ""
    summary = engine.artifacts.store(application, directory, within=within)
    with engine.repositories.database.begin() as connection:
        table = schema.applications
        connection.execute(sa.update(table).where(table.c.id == application.id).values(summary=dict(summary)))
    return engine.get(application.id)


def test_a_log_survives_the_pod_that_kept_it_and_is_in_the_lake_when_the_store_is_back(
    home: Home, tmp_path: Path
) -> None:
    store = Store()
    application = ended(Service(home, store), left(tmp_path / "left"))
    assert application.state is State.STOPPED
    assert application.summary is not None
    assert application.summary["artefacts"] == pending_artifacts.PENDING_PLACE
    assert "does not answer" in application.summary["artefacts_problem"]

    another = Service(home, store)  # the first service's directory is gone
    assert another.artifacts.load(application.id, "driver.log") == b"line\n"
    assert another.artifacts.load(application.id, "driver.out") == b""
    assert another.artifacts.piece(application.id, "events/spark-1", (1 << 20) - 2, 4) == b"\xfe\xff\x00\x01"
    assert another.artifacts.sizes(application.id)["events/spark-1"] == 1280000
    with pytest.raises(NotFound):
        another.artifacts.load(application.id, "executor-9.log")
    housekeeping = Housekeeping(another, Retention())
    assert housekeeping.upload_pending() == []

    store.away = False
    assert housekeeping.upload_pending() == [application.id]
    assert store.objects[artifact_key(application.id, "driver.log")] == b"line\n"
    assert len(store.objects[artifact_key(application.id, "events/spark-1")]) == 1280000
    assert another.repositories.pending.sizes(application.id) == {}
    assert another.artifacts.load(application.id, "driver.log") == b"line\n"
    summary = another.get(application.id).summary
    assert summary == {"tasks_done": 3, "artefacts": f"{LAKE.root}/{artifact_prefix(application.id)}"}
    assert housekeeping.upload_pending() == []


def test_the_database_takes_no_more_than_its_bounds_and_the_rest_stays_in_the_state_directory(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_artifacts, "MOST_OF_APPLICATION", 1000)
    store = Store()
    engine = Service(home, store)
    application = ended(engine, left(tmp_path / "left"))
    assert set(engine.repositories.pending.sizes(application.id)) == {"driver.log", "driver.out", "summary.json"}
    assert len(engine.artifacts.load(application.id, "events/spark-1")) == 1280000
    assert engine.artifacts.load(application.id, "driver.log") == b"line\n"
    store.away = False
    Housekeeping(engine, Retention()).upload_pending()
    assert engine.artifacts.load(application.id, "driver.log") == b"line\n"
    assert len(engine.artifacts.load(application.id, "events/spark-1")) == 1280000
    assert set(engine.artifacts.sizes(application.id)) == {"driver.log", "driver.out", "summary.json", "events/spark-1"}


def test_an_attempt_s_log_goes_where_that_attempt_s_logs_are(home: Home, tmp_path: Path) -> None:
    store = Store()
    engine = Service(home, store)
    application = ended(engine, left(tmp_path / "left"), attempt=1)
    assert engine.artifacts.load(application.id, "attempts/1/driver.log") == b"line\n"
    store.away = False
    assert Housekeeping(engine, Retention()).upload_pending() == [application.id]
    assert store.objects[artifact_key(application.id, "attempts/1/driver.log")] == b"line\n"


def test_a_failed_attempt_s_log_reaches_the_lake_when_the_application_ended_before_the_next(
    home: Home, tmp_path: Path
) -> None:
    store = Store()
    engine = Service(home, store)
    transitions, summary = engine.repositories.transitions, left(tmp_path / "left")
    application = engine.enqueue(specification(home, 1, lake=LAKE.name, retries=1))
    transitions.apply(application.id, lifecycle.Admitted(now(), engine.backend.handle(application.id)))
    transitions.apply(application.id, lifecycle.DriverEnded(now(), 1, Reason(lifecycle.DRIVER_LOST, "it is gone")))
    transitions.apply(application.id, lifecycle.Stopped(now(), 1))
    kept = engine.artifacts.store(application, summary, within=attempt_prefix(1))
    transitions.apply(application.id, lifecycle.ArtifactsCollected(now(), kept))
    transitions.apply(application.id, lifecycle.Released(now()))
    store.away = False
    assert Housekeeping(engine, Retention()).upload_pending() == [], "the next attempt may store more"
    assert engine.artifacts.load(application.id, "attempts/1/driver.log") == b"line\n"

    assert engine.request_stop(application.id).state is State.STOPPED
    assert engine.get(application.id).summary is None
    names = {f"attempts/1/{name}" for name in ("driver.log", "driver.out", "events/spark-1", "summary.json")}
    assert engine.artifacts.sizes(application.id).keys() == names
    assert Housekeeping(engine, Retention()).upload_pending() == [application.id]
    assert store.objects[artifact_key(application.id, "attempts/1/driver.log")] == b"line\n"
    assert engine.repositories.pending.sizes(application.id) == {}
    assert engine.artifacts.sizes(application.id).keys() == names
    assert engine.artifacts.load(application.id, "attempts/1/driver.log") == b"line\n"
    assert engine.get(application.id).summary is None


def test_what_is_kept_again_replaces_what_was_kept_before(home: Home, tmp_path: Path) -> None:
    """A supervisor is killed after it kept the logs, and before it recorded that."""
    engine = Service(home, Store())
    directory = left(tmp_path / "left")
    application = ended(engine, directory)
    (directory / "driver.log").write_bytes(b"a longer line\n")
    engine.artifacts.store(application, directory)
    assert engine.artifacts.load(application.id, "driver.log") == b"a longer line\n"


def test_a_state_directory_that_lasts_keeps_them_itself(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_SECRETS_KEY_FILE")
    engine = Service(home, Store())
    application = ended(engine, left(tmp_path / "left"))
    assert application.summary is not None
    assert application.summary["artefacts"].startswith("file://")
    assert engine.artifacts.load(application.id, "driver.log") == b"line\n"
    assert engine.repositories.pending.sizes(application.id) == {}
