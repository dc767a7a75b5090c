"""Backup and restore of the records, on a real PostgreSQL with databases of their own."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.catalog.database import Database
from penstock.engine.policy.scheduling import Instance, Quota
from penstock.engine.repository import backup, schema
from penstock.engine.repository.applications import now
from penstock.engine.repository.audit import Audit
from penstock.errors import Conflict, InvalidInput
from penstock.home import Home
from penstock.model import State
from tests.support.fake_engine import FakeEngine, specification


class Elsewhere(FakeEngine):
    """An engine with its own database on the shared server."""

    def __init__(self, home: Home, server: Home) -> None:
        super().__init__(home)
        home.create()
        name = f"records_{uuid.uuid4().hex[:8]}"
        everything = Database(server).engine("postgres")
        with everything.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        everything.dispose()
        self.database.engine = lambda _="": Database(server).engine(name)  # type: ignore[method-assign]


@pytest.fixture
def engines(records_home: Home, tmp_path: Path) -> Iterator[tuple[Elsewhere, Elsewhere]]:
    made = Elsewhere(Home(tmp_path / "a"), records_home), Elsewhere(Home(tmp_path / "b"), records_home)
    yield made
    for engine in made:
        engine.repositories.database.dispose()


def filled(engine: Elsewhere) -> None:
    engine.queues.put(Instance("v", 2.0, Quota(running=1), {"k": ["\\", "\t", "\n", None]}))
    for number in range(3):
        application = engine.enqueue(
            specification(engine.home, number, instance="v", arguments=("ß\t\\N",), webhooks=("https://a.example/",))
        )
    engine.request_stop(application.id)
    engine.audit.add([Audit(now(), "token:a", "test", detail={"x": 1})])


def known(engine: Elsewhere) -> object:
    applications = engine.list()
    return (
        applications,
        [list(engine.applications.events(one.id)) for one in applications],
        [list(engine.applications.deliveries(one.id)) for one in applications],
        engine.queues.instances(),
        engine.audit.page(),
    )


def backed_up(engines: tuple[Elsewhere, Elsewhere], directory: Path) -> tuple[Elsewhere, Elsewhere]:
    """Return both engines, after the first has written records and a backup of them."""
    first, second = engines
    filled(first)
    backup.write(first.repositories, directory / "records.zip")
    return first, second


def test_what_comes_back_elsewhere_is_what_was_there_and_goes_on(
    engines: tuple[Elsewhere, Elsewhere], tmp_path: Path
) -> None:
    first, second = engines
    filled(first)
    file = tmp_path / "records.zip"
    assert backup.write(first.repositories, file).applications == 3
    assert file.stat().st_mode & 0o777 == 0o600
    backup.read(second.repositories, file)
    assert known(second) == known(first)
    later = second.enqueue(specification(second.home, 9, instance="v"))
    second.audit.add([Audit(now(), "token:a", "later")])
    assert [event["event"] for event in second.applications.events(later.id)] == ["Submitted"]
    with pytest.raises(sa.exc.DBAPIError, match="final"), second.repositories.database.begin() as connection:
        connection.execute(sa.text("UPDATE applications SET state = 'running' WHERE state = 'stopped'"))


def test_no_number_of_a_delivery_since_the_backup_is_given_again(
    engines: tuple[Elsewhere, Elsewhere], tmp_path: Path
) -> None:
    """A receiver takes a delivery with a known id for a repetition."""
    first, _ = backed_up(engines, tmp_path)

    def numbers(count: int) -> set[int]:
        applications = [
            first.enqueue(specification(first.home, 10 + number, webhooks=("https://a.example/",)))
            for number in range(count)
        ]
        return {delivery["id"] for one in applications for delivery in first.applications.deliveries(one.id)}

    known = numbers(3)
    for _ in range(2):
        backup.read(first.repositories, tmp_path / "records.zip", replace=True)
        later = numbers(3)
        assert len(later) == 3
        assert not later & known
        known |= later


def test_records_are_only_replaced_when_that_is_meant(engines: tuple[Elsewhere, Elsewhere], tmp_path: Path) -> None:
    first, second = backed_up(engines, tmp_path)
    kept = second.enqueue(specification(second.home, 1))
    with pytest.raises(Conflict):
        backup.read(second.repositories, tmp_path / "records.zip")
    assert [one.id for one in second.list()] == [kept.id]
    backup.read(second.repositories, tmp_path / "records.zip", replace=True)
    assert known(second) == known(first)


def test_tables_and_functions_of_others_in_the_same_schema_survive_a_restore(
    engines: tuple[Elsewhere, Elsewhere], tmp_path: Path
) -> None:
    first, second = backed_up(engines, tmp_path)
    assert second.list() == []
    theirs = second.database.engine("")
    with theirs.begin() as connection:
        connection.execute(sa.text("CREATE TABLE invoices AS SELECT 1 AS number"))
        connection.execute(sa.text("CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'"))
    restored = backup.read(second.repositories, tmp_path / "records.zip")
    with theirs.begin() as connection:
        assert connection.execute(sa.text("SELECT one() FROM invoices")).scalar_one() == 1
    assert known(second) == known(first)
    assert set(restored.replaced) == {*schema.metadata.tables, "alembic_version"}


def test_a_restore_that_would_take_a_view_of_others_along_changes_nothing_and_names_it(
    engines: tuple[Elsewhere, Elsewhere], tmp_path: Path
) -> None:
    _, second = backed_up(engines, tmp_path)
    kept = second.enqueue(specification(second.home, 1))
    with second.database.engine("").begin() as connection:
        connection.execute(sa.text("CREATE VIEW usage_report AS SELECT id FROM applications"))
    with pytest.raises(Conflict, match="usage_report"):
        backup.read(second.repositories, tmp_path / "records.zip", replace=True)
    assert [one.id for one in second.list()] == [kept.id]


def test_an_archive_of_the_first_release_comes_back_migrated(
    engines: tuple[Elsewhere, Elsewhere], tmp_path: Path
) -> None:
    first, second = engines
    database = first.database.engine("")
    with database.begin() as connection:
        schema.migrate(connection, "0001")
        connection.execute(
            sa.text(
                "INSERT INTO applications (id, engine, state, name, tags, spec, submitted_at)"
                " VALUES ('app-1', 'old', 'stopped', 'n', '[]', :spec, now())"
            ),
            {"spec": json.dumps(specification(first.home, 1).to_json())},
        )
    columns = [column["name"] for column in sa.inspect(database).get_columns("applications")]
    with pytest.MonkeyPatch.context() as patch, zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        patch.setattr(backup, "HEAD", "0001")
        table = sa.Table("applications", sa.MetaData(), *(sa.Column(name) for name in columns))
        patch.setattr(backup.schema, "metadata", table.metadata)
        backup._copy_out(database, "old", archive)
    backup.read(second.repositories, tmp_path / "x.zip")
    (application,) = second.list()
    assert (application.id, application.state, application.attempt) == ("app-1", State.STOPPED, 1)


def test_what_is_no_backup_changes_nothing(engines: tuple[Elsewhere, Elsewhere], tmp_path: Path) -> None:
    engine, _ = engines
    filled(engine)
    before = known(engine)
    file = tmp_path / "records.zip"
    backup.write(engine.repositories, file)
    with pytest.raises(InvalidInput, match="cannot be written"):
        backup.write(engine.repositories, file)
    (tmp_path / "text").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("manifest.json", "{}")
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(tmp_path / "damaged.zip", "w") as archive:
        for name in whole.namelist():
            content = whole.read(name)
            archive.writestr(name, content.replace(b"\t", b" ") if name == "applications.copy" else content)
    for name in ("text", "other.zip", "damaged.zip", "absent"):
        with pytest.raises(InvalidInput, match="not a readable backup"):
            backup.read(engine.repositories, tmp_path / name, replace=True)
    assert known(engine) == before
