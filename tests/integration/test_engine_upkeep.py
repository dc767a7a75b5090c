"""Pruning of the records, and their references to data outside of them; on a real PostgreSQL."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from penstock.engine import uploads
from penstock.engine.policy import lifecycle
from penstock.engine.repository.applications import ApplicationRepository, now
from penstock.engine.repository.audit import Audit, AuditLog, Outbox
from penstock.engine.repository.listing import ApplicationReader
from penstock.engine.repository.retention import Pruned, Pruner, Retention
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, Reason, State, new_id

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
STOP = Reason(lifecycle.STOPPED_BY_USER, "asked")
LATER = timedelta(days=100)
"""Longer than the retention of webhook deliveries, shorter than that of events."""


@pytest.fixture
def upkeep(database: sa.Engine, records: ApplicationRepository) -> Pruner:
    return Pruner(database, records.owner)


def submitted(records: ApplicationRepository, application: str = "s3a://lake/a.py", **more: object) -> Application:
    spec = ApplicationSpec(application=application, size=SIZE, name="a", webhooks=("https://a.example/x",), **more)  # type: ignore[arg-type]
    at = now()
    return records.add(Application(new_id(at), spec, State.ACCEPTED, submitted_at=at))


def deliver_all(outbox: Outbox) -> None:
    while due := outbox.take(now() + timedelta(days=1), limit=10):
        for delivery in due:
            outbox.delivered(delivery, now())


def test_events_and_deliveries_go_some_time_after_the_end_and_the_application_stays(
    database: sa.Engine, records: ApplicationRepository, reader: ApplicationReader, upkeep: Pruner
) -> None:
    ended, waits = submitted(records), submitted(records)
    records.request_end(ended.id, STOP)
    outbox = Outbox(database, records.owner)
    assert upkeep.prune(Retention(), now() + LATER) == Pruned()  # nothing is delivered yet
    deliver_all(outbox)
    assert upkeep.prune(Retention(), now()) == Pruned()
    assert upkeep.prune(Retention(), now() + LATER) == Pruned(deliveries=2)
    assert upkeep.prune(Retention(), now() + 2 * LATER) == Pruned(events=2)
    assert (reader.events(ended.id), reader.deliveries(ended.id)) == ([], [])
    assert records.get(ended.id).state is State.STOPPED
    # It is kept at any age, since it has not ended.
    assert (len(reader.events(waits.id)), len(reader.deliveries(waits.id))) == (1, 1)


def audited(database: sa.Engine, owner: str, *at: datetime) -> None:
    AuditLog(database, owner).add([Audit(one, "token:a", "test") for one in at])


def test_the_audit_is_shortened_at_its_old_end_alone(
    database: sa.Engine, records: ApplicationRepository, upkeep: Pruner
) -> None:
    owner, day = records.owner, timedelta(days=1)
    audited(database, owner, now() - 500 * day, now() - 399 * day, now() - 29 * day)
    assert upkeep.prune(Retention(), now()) == Pruned(audit=1)
    for statement in ("DELETE FROM audit WHERE engine = :owner", "UPDATE audit SET actor = 'x'", "TRUNCATE audit"):
        with pytest.raises(DBAPIError, match="only added to"), database.begin() as connection:
            connection.execute(sa.text(statement), {"owner": owner} if ":owner" in statement else {})
    assert len(AuditLog(database, owner).page(limit=10, before=None).items) == 2


def test_it_is_known_which_uploads_and_lakes_applications_use(records: ApplicationRepository, upkeep: Pruner) -> None:
    place = uploads.prefix_of(records.owner)
    first, second, third = (uploads.upload_key(place, "0" * 64, name) for name in ("a.py", "b.jar", "c_1.sql"))
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    submitted(records, f"s3a://lake/{first}", lake=one, jars=(f"s3a://lake/{second}",))
    ended = submitted(records, lake=two, arguments=("--statements-file", f"s3a://lake/{third}"))
    records.request_end(ended.id, STOP)
    assert upkeep.referenced_uploads(uploads.upload_pattern(place)) == {first, second, third}
    assert {one, two} <= upkeep.lakes_in_use(now() - timedelta(minutes=1))
    assert upkeep.lakes_in_use(now()) & {one, two} == {one}
    assert {one, two} <= upkeep.lakes_in_use(datetime.min.replace(tzinfo=timezone.utc))
    # Engines of one database may share lakes.
    of_another = Pruner(records._engine, "another")
    assert of_another.lakes_in_use(now()) & {one, two} == {one}
