"""The durable records on a real PostgreSQL: the database's own guarantees."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from penstock.engine.policy import lifecycle
from penstock.engine.repository.applications import CONNECTION_LOST, ApplicationRepository, now
from penstock.engine.repository.listing import ApplicationReader
from penstock.engine.repository.migrations import HEAD
from penstock.errors import InvalidInput, NotFound, StateError
from penstock.model import Application, ApplicationSpec, Capacity, ClusterSize, ProcessSize, Reason, State, new_id

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
HANDLE = {"backend": "pretended"}
STOP = Reason(lifecycle.STOPPED_BY_USER, "asked")


def submitted(records: ApplicationRepository, **more: object) -> Application:
    spec = ApplicationSpec(application="/ä.py", size=SIZE, name="a", arguments=("ß",), **more)  # type: ignore[arg-type]
    at = now()
    return records.add(Application(new_id(at), spec, State.ACCEPTED, submitted_at=at))


def test_what_is_read_is_what_was_written(records: ApplicationRepository) -> None:
    application = submitted(records, tags=("x",), settings={"spark.a": "1"}, time_limit_seconds=1.5)
    assert records.get(application.id) == application


def test_the_database_itself_refuses_to_change_a_final_state(
    records: ApplicationRepository, database: sa.Engine
) -> None:
    application = submitted(records)
    records.apply(application.id, lifecycle.EndRequested(now(), STOP))
    with pytest.raises(DBAPIError, match="final"), database.begin() as connection:
        connection.execute(sa.text("UPDATE applications SET state = 'running' WHERE id = :id"), {"id": application.id})
    assert records.get(application.id).state is State.STOPPED


def test_of_many_who_admit_at_once_one_launches(records: ApplicationRepository, reader: ApplicationReader) -> None:
    application = submitted(records)
    with ThreadPoolExecutor(5) as pool:
        steps = pool.map(lambda _: records.apply(application.id, lifecycle.Admitted(now(), HANDLE)), range(5))
    assert [instructions for _, instructions in steps if instructions] == [(lifecycle.Launch(),)]
    assert [event["event"] for event in reader.events(application.id)] == ["Submitted", "Admitted"]


def test_one_idempotency_key_is_one_application_however_many_submit_it_at_once(
    records: ApplicationRepository, reader: ApplicationReader
) -> None:
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda _: submitted(records, idempotency_key="k").id, range(5)))
    assert len(set(found)) == 1
    assert len(reader.list()) == 1


def test_an_application_has_one_supervisor_at_a_time(records: ApplicationRepository, reader: ApplicationReader) -> None:
    application = submitted(records)
    assert reader.unsupervised() == [application.id]
    with records.claim(application.id):
        assert reader.unsupervised() == []
        with pytest.raises(StateError), records.claim(application.id):
            pass
    assert reader.unsupervised() == [application.id]


def test_a_claim_is_free_before_the_server_sees_that_its_connection_has_ended(
    records: ApplicationRepository, reader: ApplicationReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = submitted(records)
    close, paused = psycopg.Connection.close, []

    def close_while_the_server_pauses(connection: psycopg.Connection) -> None:
        paused.append(connection.info.backend_pid)
        os.kill(paused[-1], signal.SIGSTOP)
        close(connection)

    try:
        with records.claim(application.id):
            monkeypatch.setattr(psycopg.Connection, "close", close_while_the_server_pauses)
        assert reader.unsupervised() == [application.id]
        assert paused
    finally:
        for process in paused:
            os.kill(process, signal.SIGCONT)


def admit(records: ApplicationRepository, application: Application) -> Application:
    admitted = lifecycle.Admitted(now(), HANDLE)
    return records.admit(application.id, admitted, capacity=Capacity(4, 4 << 30))[0]


def test_only_applications_somebody_looks_after_are_ahead_in_the_queue(records: ApplicationRepository) -> None:
    first, second = submitted(records), submitted(records)
    with records.claim(first.id):
        waiting = admit(records, second)
    assert (waiting.state, waiting.reason) == (State.WAITING, Reason("queue", "1 application is ahead of it"))
    assert admit(records, second).state is State.STARTING


def test_a_promise_holds_until_the_cluster_is_released(records: ApplicationRepository) -> None:
    first, second = submitted(records), submitted(records)
    states = []
    for event in (
        lifecycle.Admitted(now(), HANDLE),
        lifecycle.DriverEnded(now(), 0),
        lifecycle.Stopped(now(), 0),
        lifecycle.ArtifactsCollected(now(), {}),
        lifecycle.Released(now()),
    ):
        records.apply(first.id, event)
        states.append(admit(records, second).state)
    assert states == [State.WAITING] * 4 + [State.STARTING]


def test_a_request_to_end_wakes_the_supervisor(records: ApplicationRepository) -> None:
    application = submitted(records)
    records.apply(application.id, lifecycle.Admitted(now(), HANDLE))
    with records.claim(application.id) as claim:
        assert not claim.wait(0.01)
        records.request_end(application.id, STOP)
        records.request_end(application.id, replace(STOP, message="too late"))
        assert claim.wait(2)
    assert records.requested_end(application.id) == STOP


def test_changes_of_others_wake_no_supervisor(records: ApplicationRepository) -> None:
    mine, other = submitted(records), submitted(records)
    with records.claim(mine.id) as claim:
        records.apply(other.id, lifecycle.Admitted(now(), HANDLE))
        assert not claim.wait(0.2)
        records.apply(other.id, lifecycle.ContextStarted(now(), "spark-1"))
        assert claim.wait_for_any(2)
        records.apply(mine.id, lifecycle.Admitted(now(), HANDLE))
        assert claim.wait(2)


def test_what_waits_has_ended_as_soon_as_that_is_asked_for(records: ApplicationRepository) -> None:
    application = submitted(records)
    assert records.request_end(application.id, STOP).state is State.STOPPED
    assert records.request_end(application.id, replace(STOP, message="again")).reason == STOP


def test_a_stop_while_a_failed_attempt_ends_is_carried_out_before_the_next_one(
    records: ApplicationRepository, reader: ApplicationReader
) -> None:
    stopped, retried = submitted(records, retries=1), submitted(records, retries=1)
    for application in (stopped, retried):
        records.apply(application.id, lifecycle.Admitted(now(), HANDLE))
        records.apply(application.id, lifecycle.DriverEnded(now(), 1, Reason(lifecycle.DRIVER_LOST, "it is gone")))
        if application is stopped:
            assert records.request_end(application.id, STOP).state is State.STOPPING
        records.apply(application.id, lifecycle.Stopped(now(), 1))
        records.apply(application.id, lifecycle.ArtifactsCollected(now(), {}))
        records.apply(application.id, lifecycle.Released(now()))
    found = records.get(stopped.id)
    assert (found.state, found.reason, found.cluster) == (State.STOPPED, STOP, None)
    assert [event["event"] for event in reader.events(stopped.id)][-2:] == ["Released", "EndRequested"]
    assert records.get(retried.id).state is State.WAITING


def test_an_id_is_found_by_its_beginning_and_by_last(records: ApplicationRepository, reader: ApplicationReader) -> None:
    first, second = submitted(records), submitted(records)
    assert reader.get(second.id[:-1]).id == second.id
    assert reader.get("last").id == max(first, second, key=lambda one: (one.submitted_at, one.id)).id
    with pytest.raises(InvalidInput):
        reader.get("app-")
    with pytest.raises(NotFound):
        reader.get("app_")


def test_records_of_a_newer_release_are_left_alone(database: sa.Engine, records: ApplicationRepository) -> None:
    from penstock.engine.repository import schema

    with database.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        with pytest.raises(StateError, match="newer Penstock"):
            schema.ensure(database)
    finally:
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :head"), {"head": HEAD})


@pytest.mark.parametrize("last", ["SELECT 1", "COMMIT"])
def test_a_process_that_was_suspended_in_a_transaction_has_lost_its_connection(database: sa.Engine, last: str) -> None:
    with pytest.raises(CONNECTION_LOST), database.begin() as connection:
        connection.execute(sa.text("SELECT set_config('idle_in_transaction_session_timeout', '50ms', true)"))
        time.sleep(0.5)
        if last != "COMMIT":
            connection.execute(sa.text(last))
    with database.begin() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
