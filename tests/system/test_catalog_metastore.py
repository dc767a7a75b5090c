"""One metastore under several Spark applications at once, and its creation killed, raced and refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.catalog.database import METASTORE, RECORDS, Database
from penstock.catalog.metastore import Metastore
from penstock.catalog.server import PostgresServer, ServerAccount
from penstock.catalog.tables import Column, Table
from penstock.engine.engines.access import Catalog
from penstock.errors import CatalogError, MissingRequirement, NotFound
from penstock.formats import as_properties
from penstock.home import Home, write_atomically
from penstock.model import ProcessSize
from penstock.runtime.jvm import Jvm, class_path, driver_command, find_java, spark_jars
from tests.support.database_template import DatabaseTemplate
from tests.support.programs import PROGRAMS


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.delenv("PENSTOCK_DATABASE_URL", raising=False)
    database = Database(Home(tmp_path / "home"))
    yield database
    database.down()


def make_schema(database: Database, java: Path | str | None = None) -> None:
    Metastore(database).ensure_schema(java or find_java().executable, class_path())


def layout(database: Database) -> list[tuple[object, ...]]:
    """Return every column, index and constraint of the schema, in a fixed order."""
    with database.engine(METASTORE).connect() as connection:
        columns = connection.execute(
            text("SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
                 " WHERE table_schema = 'public' ORDER BY 1, 2")
        )  # fmt: skip
        constraints = connection.execute(
            text("SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid) FROM pg_constraint"
                 " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2, 3")
        )  # fmt: skip
        indexes = connection.execute(
            text("SELECT tablename, count(*) FROM pg_indexes WHERE schemaname = 'public' GROUP BY 1 ORDER BY 1")
        )
        return [tuple(row) for rows in (columns, constraints, indexes) for row in rows]


@dataclass(frozen=True)
class Warehouse:
    metastore: Metastore
    sums: list[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, database_template: DatabaseTemplate) -> Iterator[Database]:
    """A database with the metastore's schema, made without interruption."""
    home = Home(tmp_path_factory.mktemp("a catalog") / "home")
    database_template.copy_to(home, metastore=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PENSTOCK_DATABASE_URL", raising=False)
        database = Database(home)
        database.up()
        yield database
        database.down()


@pytest.fixture(scope="module")
def warehouse(whole: Database, class_archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The output of two Spark applications that ran at the same time."""
    root = tmp_path_factory.mktemp("a warehouse")
    metastore = Metastore(whole)
    private, scratch = root / "private", root / "scratch"
    private.mkdir(mode=0o700)
    scratch.mkdir()
    write_atomically(private / "hive-site.xml", metastore.hive_site())
    write_atomically(private / "spark.conf", as_properties({"spark.master": "local[1]"}))
    java = Jvm(find_java(), class_path(), private, scratch, archives=class_archives.parent)
    program = str(PROGRAMS / "catalog_application.py")
    environment = {
        "SPARK_HOME": str(spark_jars().parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }
    applications = [
        subprocess.Popen(
            driver_command(
                java,
                size=ProcessSize(cores=1, memory_bytes=512 << 20),
                log=root / f"{me}.log",
                properties=private / "spark.conf",
                application=[program, me, other, f"file:{root}/tables"],
            ),
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for me, other in (("one", "two"), ("two", "one"))
    ]
    outputs = [application.communicate(timeout=300)[0] for application in applications]
    assert [application.returncode for application in applications] == [0, 0]
    return Warehouse(metastore, [output.strip().splitlines()[-1] for output in outputs])


def test_two_applications_at_once_make_fill_and_read_each_other_s_tables(warehouse: Warehouse) -> None:
    assert warehouse.sums == ["3", "3"]


def test_tables_are_listed_with_format_partitions_statistics_and_columns(warehouse: Warehouse) -> None:
    found = warehouse.metastore.tables()
    assert [table.full_name for table in found] == [
        "shared.one",
        "shared.one_ready",
        "shared.two",
        "shared.two_ready",
    ]
    one = found[0]
    assert isinstance(one, Table)
    assert (one.kind, one.format, one.partitions, one.rows, one.statistics) == ("managed", "parquet", 3, 3, "columns")
    assert one.size_bytes is not None
    assert one.size_bytes > 1000
    assert one.location.startswith("file:")
    assert one.location.endswith("/tables/shared.db/one")
    assert one.columns == (
        Column("Amount", "bigint", analyzed=True),
        Column("Label", "char(3)", analyzed=True),
        Column("Day", "date", partition=True, analyzed=True),
    )
    assert (found[1].kind, found[1].format, found[1].location) == ("view", "", "")


def test_a_program_of_its_own_reads_names_and_partitions_with_their_values(warehouse: Warehouse) -> None:
    catalog = Catalog(warehouse.metastore.url().sqlalchemy().render_as_string(hide_password=False))
    assert catalog.names() == {"default": set(), "shared": {"one", "one_ready", "two", "two_ready"}}
    one = catalog.table("shared", "one")
    (partition, *_) = found = catalog.partitions(one)
    assert len(found) == one.partitions
    (column,) = [column.name for column in one.columns if column.partition]
    assert partition.location == f"{one.location}/{column}={partition.values[0]}"
    for missing in (lambda: catalog.table("shared", "none"), lambda: catalog.metadata_location(one)):
        with pytest.raises(NotFound):
            missing()


def test_a_pattern_chooses_and_a_name_is_found_in_any_case(warehouse: Warehouse) -> None:
    assert [table.name for table in warehouse.metastore.tables("shared.*_ready")] == ["one_ready", "two_ready"]
    assert [table.name for table in warehouse.metastore.tables("ONE")] == ["one"]
    assert warehouse.metastore.tables("other.*") == []
    assert warehouse.metastore.table("Shared.TWO").name == "two"
    with pytest.raises(NotFound):
        warehouse.metastore.table("shared.t*")


def test_the_listing_is_empty_where_no_application_ever_ran(database: Database) -> None:
    assert Metastore(database).tables() == []


def test_callers_at_once_make_one_schema_and_later_ones_start_no_jvm(database: Database) -> None:
    with ThreadPoolExecutor(3) as threads:
        for made in [threads.submit(make_schema, database) for _ in range(3)]:
            made.result()
    with database.engine(METASTORE).connect() as connection:
        assert connection.execute(text('SELECT "SCHEMA_VERSION" FROM "VERSION"')).scalars().all() == ["2.3.0"]
    make_schema(database, java="/no/java/is/needed")


# The creation stops at one table out of 44, so that a kill hits it half-way on a machine of any speed.
_SLEEP_AT_TBLS = """
    CREATE FUNCTION sleep_at_tbls() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = 'public."TBLS"') THEN
            PERFORM pg_sleep(60);
        END IF;
    END $$;
    CREATE EVENT TRIGGER sleep_at_tbls ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION sleep_at_tbls()
"""


def test_a_schema_whose_making_was_killed_is_completed_to_the_same_layout(
    database: Database, whole: Database, tmp_path: Path
) -> None:
    expected = layout(whole)
    database.up()
    database_home = tmp_path / "home"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    maker = (
        "import sys; from pathlib import Path; from penstock.home import Home;"
        "from penstock.catalog.database import Database; from penstock.catalog.metastore import Metastore;"
        "from penstock.runtime.jvm import class_path, find_java;"
        "Metastore(Database(Home(Path(sys.argv[1])))).ensure_schema(find_java().executable, class_path())"
    )
    command = [sys.executable, "-c", maker, str(database_home)]
    server = PostgresServer(database_home / "database", ServerAccount.caller())
    with server.connect(METASTORE) as connection:
        connection.execute(_SLEEP_AT_TBLS)
        making = subprocess.Popen(command, env=environment, start_new_session=True)
        asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        deadline = time.monotonic() + 60
        while (sleeper := connection.execute(asleep).fetchone()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(making.pid, signal.SIGKILL)
        making.wait()
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", sleeper)
        connection.execute("DROP EVENT TRIGGER sleep_at_tbls; DROP FUNCTION sleep_at_tbls")
    assert layout(database) == []  # SchemaTool works in one transaction
    make_schema(database)
    assert layout(database) == expected

    # This kill is later: after SchemaTool's commit, before ours.
    with database.engine(METASTORE).begin() as open_connection:
        open_connection.execute(text('DROP TABLE "SEQUENCE_TABLE"; DELETE FROM "VERSION"'))
    make_schema(database)
    assert layout(database) == expected


def test_another_engine_s_metastore_is_refused_and_left_alone(whole: Database) -> None:
    def set_version(version: str) -> None:
        with whole.engine(METASTORE).begin() as connection:
            connection.execute(text("""UPDATE "VERSION" SET "SCHEMA_VERSION" = :version"""), {"version": version})

    set_version("4.0.0")
    try:
        with pytest.raises(CatalogError, match="another schema"):
            make_schema(whole)
    finally:
        set_version("2.3.0")


def test_a_failing_schema_tool_is_reported_in_its_own_words_without_the_password(
    database: Database, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nfor last; do :; done; cat "$(dirname "$last")/schema.properties"; exit 1\n')
    java.chmod(0o700)
    with pytest.raises(CatalogError) as raised:
        make_schema(database, java=java)
    assert "org.postgresql.Driver" in raised.value.why or "datanucleus" in raised.value.why
    assert database.url(METASTORE).password not in str(raised.value)


def test_a_missing_jar_is_named(database: Database) -> None:
    with pytest.raises(MissingRequirement, match="tables cannot be created") as raised:
        Metastore(database).ensure_schema("java", [])
    assert "postgresql-*.jar" in raised.value.why


def test_applications_know_no_login_but_the_metastore_s(database: Database) -> None:
    assert database.url(RECORDS).password not in Metastore(database).hive_site()
