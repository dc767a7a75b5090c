"""Secrets shared by services of one database, on a real PostgreSQL: a new state directory finds accepted ones."""

from __future__ import annotations

import base64
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from penstock.catalog.connection import CATALOG_VARIABLE, DATABASE_VARIABLE
from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.catalog.metastore import Metastore
from penstock.catalog.secrets import KEY_FILE_VARIABLE
from penstock.engine.dispatcher import Housekeeping
from penstock.engine.engine import Engine
from penstock.engine.preparation import Preparation, lake_name
from penstock.engine.repository import backup
from penstock.engine.repository.retention import Retention
from penstock.engine.webhooks import KEY_FILE, shown_secret
from penstock.errors import CatalogError, NotFound, StateError
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.lake.settings import CREDENTIALS_FILE
from tests.support.fake_engine import FakeEngine, specification

SALES = Lake("sales", ("http://127.0.0.1:9",), "sales", "file:sales")
OWN, KEYS = Credentials("own", "own-secret"), Credentials("submitted", "submitted-s3cret")


def new_home(directory: Path) -> Home:
    """Return a home as the chart prepares it, with only the administrator's lake."""
    home = Home(directory)
    home.create()
    Lakes(home).add(SALES, OWN)
    return home


@pytest.fixture
def homes(shared_records: sa.Engine, tmp_path: Path) -> tuple[Home, Home]:
    return new_home(tmp_path / "a"), new_home(tmp_path / "b")


def test_a_lake_of_submitted_keys_is_found_by_an_engine_of_another_home(homes: tuple[Home, Home]) -> None:
    first, second = homes
    made = Lakes(first).add(registry.credential_scoped(SALES, KEYS, "team"), KEYS)
    assert lake_name(second, made.name) == made.name
    lakes = Lakes(second)
    assert lakes.get(made.name) == made
    assert lakes.credentials_of(made) == KEYS
    lakes.require_usable(made.name, lambda queue: queue == "team")
    with pytest.raises(NotFound):
        Lakes(new_home(second.root.parent / "c")).require_usable(made.name, lambda queue: queue == "other")


def test_the_other_engine_launches_with_those_keys(homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = homes
    made = Lakes(first).add(registry.credential_scoped(SALES, KEYS, "default"), KEYS)
    monkeypatch.setattr("penstock.engine.preparation._open_catalog", Metastore)  # its tables are not needed
    launch = Preparation(second, Database(second), made.name).launch("app", specification(second, 1, lake=made.name))
    assert KEYS.secret_key in launch.private_files[CREDENTIALS_FILE]


def test_the_database_holds_no_key_that_can_be_read_and_shows_applications_nothing(
    shared_records: sa.Engine, homes: tuple[Home, Home]
) -> None:
    made = Lakes(homes[0]).add(registry.credential_scoped(SALES, KEYS, "team"), KEYS)
    shown = shown_secret(homes[0], "team")
    with shared_records.connect() as connection:
        rows = str(connection.execute(sa.text("SELECT * FROM secrets")).all())
    assert made.name in rows
    assert not [secret for secret in (KEYS.access_key, KEYS.secret_key, shown) if f"'{secret}'" in rows]
    assert KEYS.secret_key not in rows
    applications = Database(homes[0]).url(METASTORE).with_database(RECORDS)
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(applications.libpq(), password=applications.password)


def test_an_ended_lake_s_logs_are_found_in_the_original_from_every_home(
    shared_records: sa.Engine, homes: tuple[Home, Home]
) -> None:
    first, second = homes
    made = Lakes(first).add(registry.credential_scoped(SALES, KEYS, "default"), KEYS)
    engine = FakeEngine(first)
    application = engine.enqueue(specification(first, 1, lake=made.name))
    # An engine of another home that has never seen the lake also cleans it up, and sees its users.
    keeping = Housekeeping(Engine(second), Retention())
    assert [made.name in keeping.sweep_lakes() for _ in range(2)] == [False, False]
    engine.request_stop(application.id)
    assert [made.name in keeping.sweep_lakes() for _ in range(2)] == [False, True]
    third = new_home(first.root.parent / "c")
    assert Lakes(third).artifact_lake(made.name) == "sales"
    with pytest.raises(NotFound, match="no longer exists"):
        Lakes(third).get(made.name)
    with shared_records.begin() as connection:
        sealed = connection.execute(sa.text("SELECT sealed FROM secrets WHERE name = :n"), {"n": f"lake:{made.name}"})
        assert sealed.scalar_one() is None
        connection.execute(sa.text("DELETE FROM applications WHERE id = :id"), {"id": application.id})
    keeping.sweep_lakes()
    assert Lakes(third).artifact_lake(made.name) == made.name


def test_a_new_home_signs_webhooks_as_the_last_one_did(homes: tuple[Home, Home]) -> None:
    assert shown_secret(homes[0], "sales") == shown_secret(homes[1], "sales")
    assert not [home for home in homes if (home.root / KEY_FILE).exists()]


def test_receivers_keep_the_secret_that_they_were_given_before_secrets_were_shared(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delenv(KEY_FILE_VARIABLE)
        known = shown_secret(homes[0], "sales")
    assert shown_secret(homes[0], "sales") == known == shown_secret(homes[1], "sales")


def test_a_backup_has_secrets_sealed_and_another_key_opens_none(
    homes: tuple[Home, Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = homes
    made = Lakes(first).add(registry.credential_scoped(SALES, KEYS, "team"), KEYS)
    known = shown_secret(first, "sales")
    engine = FakeEngine(first)
    assert backup.write(engine.repositories, tmp_path / "records.zip").sealed == 2
    Lakes(first).remove(made.name)
    restored = backup.read(engine.repositories, tmp_path / "records.zip", replace=True)
    assert restored.contents.sealed == 2
    third = new_home(tmp_path / "c")
    assert Lakes(third).credentials_of(Lakes(third).get(made.name)) == KEYS
    assert shown_secret(third, "sales") == known
    other = tmp_path / "other-key"
    other.write_bytes(base64.b64encode(b"x" * 32))
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(other))
    fourth = new_home(tmp_path / "d")
    with pytest.raises(StateError, match="cannot be opened"):
        Lakes(fourth).get(made.name)
    with pytest.raises(StateError, match="cannot be opened"):
        shown_secret(fourth, "sales")


def test_an_unreachable_database_is_reported_and_administrators_lakes_stay_usable(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE_VARIABLE, "postgresql://nobody:x@127.0.0.1:9/")
    monkeypatch.setenv(CATALOG_VARIABLE, "postgresql://nobody:x@127.0.0.1:9/")
    lakes = Lakes(homes[0])
    assert lakes.get("sales").name == "sales"
    with pytest.raises(CatalogError):
        lakes.add(registry.credential_scoped(SALES, KEYS, "team"), KEYS)
    assert [lake.name for lake in lakes.all()] == ["sales"]
