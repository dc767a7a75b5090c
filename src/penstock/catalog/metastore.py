"""The Hive metastore: its tables in PostgreSQL, and the `hive-site.xml` with which Spark's drivers open them.

The object layer that uses the tables creates them once. Each driver contains a Hive client of its own, so Spark has no
metastore service to run, to size, or to wait for; other engines have one (`engine.catalog_service`).
"""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from penstock.catalog.connection import DatabaseUrl
from penstock.catalog.database import METASTORE, Database
from penstock.catalog.tables import Table, matches_table, read_owners, read_partition_locations, read_tables
from penstock.errors import CatalogError, MissingRequirement, NotFound
from penstock.formats import as_properties, configuration_xml
from penstock.runtime import tool

# The metastore layout of the Hive client built into Spark 4.
SCHEMA_VERSION = "2.3.0"

# The object layer's names and ids; the client has to use those with which the tables were created.
OBJECT_LAYER_SETTINGS = {
    # Hive's own names, in upper case. DataNucleus 4 has other defaults.
    "datanucleus.identifierFactory": "datanucleus1",
    # Ids from SEQUENCE_TABLE, as in every Hive metastore, so that other engines can share it.
    "datanucleus.rdbms.useLegacyNativeValueStrategy": "true",
}

_CLIENT = {
    # Creating tables lazily would deadlock on PostgreSQL: an open INSERT blocks DDL on a second connection.
    "datanucleus.schema.autoCreateAll": "false",
    "datanucleus.schema.validateTables": "false",
    "datanucleus.schema.validateColumns": "false",
    "datanucleus.schema.validateConstraints": "false",
    "datanucleus.rdbms.checkExistTablesOrViews": "false",
    # A database of another layout is rejected, never upgraded or overwritten.
    "hive.metastore.schema.verification": "true",
    "hive.metastore.schema.verification.record.version": "false",
    # Creating, filling and dropping one table takes 2 logins with DBCP, 6 with HikariCP and 43 with NONE. Each login
    # starts a server process and takes thousands of rounds of SCRAM; those of NONE together took 0.2 s of CPU.
    # Connections beyond the second are rarely opened. DataNucleus' own copy, “dbcp-builtin”, is no alternative: Hive's
    # TxnHandler, which each DROP DATABASE uses, does not support it.
    "datanucleus.connectionPoolingType": "DBCP",
    "datanucleus.connectionPool.maxPoolSize": "4",
    # Reads partitions and statistics of large tables in one query each instead of thousands.
    "hive.metastore.try.direct.sql": "true",
    # Private to the application. The default, /tmp/hive, belongs to its first user and excludes others.
    "hive.exec.scratchdir": "file://${system:java.io.tmpdir}/hive",
    # Spark collects its own statistics; Hive would list the files of every new partition in the driver.
    "hive.stats.autogather": "false",
}


_SERVICE = {
    # It reads and writes for many clients at once.
    "datanucleus.connectionPool.maxPoolSize": "16",
    # As Spark's drivers have it, by their settings.
    "hive.metastore.fs.handler.class": "io.penstock.catalog.WarehouseFiles",
}


def hive_site(url: DatabaseUrl, *, loopback: bool, also: Mapping[str, str] | None = None) -> str:
    """Return the content of `hive-site.xml`, which contains the password: for a private file on the class path only.

    `loopback`: the server is the embedded one, without TLS; not requesting TLS saves each connection a round trip.
    `also` are more settings, which win over these.
    """
    jdbc = url.jdbc(sslmode="disable", gssEncMode="disable") if loopback else url.jdbc()
    return configuration_xml(
        {
            "javax.jdo.option.ConnectionURL": jdbc,
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": url.user,
            "javax.jdo.option.ConnectionPassword": url.password,
            **OBJECT_LAYER_SETTINGS,
            **_CLIENT,
            **(also or {}),
        }
    )


# The same number in every release: one process at a time creates the schema, across machines.
_ADVISORY_LOCK = 0x70656E73746F636B >> 8

_SCHEMA_TOOL = "org.datanucleus.store.schema.SchemaTool"
# The jars that SchemaTool loads. With Spark's full class path it takes half as long again, mostly for logging.
_NEEDED = ("datanucleus-", "hive-metastore-", "jdo-api-", "javax.jdo-", "jta-", "transaction-api-", "postgresql-")


class Metastore:
    """The Hive metastore in a home's database. Raises the errors of `Database.up`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure_schema(self, java: Path | str, classpath: Sequence[Path]) -> None:
        """Create the metastore's tables if they are missing; existing ones cost a query of a few ms.

        `classpath` holds Spark's jars and PostgreSQL's JDBC driver. The creation takes one JVM, 2 to 4 s; of several
        simultaneous callers, one creates and the others wait. A caller killed half-way leaves nothing, or a state that
        the next one completes: the row with the schema's version is written last. Raises `CatalogError` (another
        schema exists; SchemaTool failed) or `MissingRequirement` (a jar is not on the class path).
        """
        engine = self._database.engine(METASTORE)
        try:
            with engine.connect() as connection:
                if _has_schema(connection):
                    return
            with engine.connect() as connection, _advisory_lock(connection):
                if not _has_schema(connection):
                    self._run_schema_tool(java, _jars(classpath))
                    _complete(connection)
        finally:
            engine.dispose()

    def hive_site(self) -> str:
        """Return the content of the driver's `hive-site.xml`, which contains a password (see `hive_site` above)."""
        return hive_site(self._database.url(METASTORE), loopback=self._database.embedded)

    def url(self) -> DatabaseUrl:
        """Return the address of the metastore's database, with the applications' login and its password."""
        return self._database.url(METASTORE)

    def service_site(self, warehouse: str) -> str:
        """As `hive_site`, for a metastore service; new databases and managed tables are below `warehouse`."""
        also = {**_SERVICE, "hive.metastore.warehouse.dir": warehouse}
        return hive_site(self._database.url(METASTORE), loopback=self._database.embedded, also=also)

    def tables(self, pattern: str | None = None) -> list[Table]:
        """Return the tables and views, ordered by database and name; none where no application ever used the catalog.

        `pattern` is a case-insensitive shell pattern of `DATABASE.TABLE`, or of `TABLE` in any database:
        `tpcds*.store_*`. It reads by SQL, without a JVM, in tens of ms.
        """
        engine = self._database.engine(METASTORE)
        try:
            with engine.connect() as connection:
                return read_tables(connection, partial(matches_table, pattern)) if _has_schema(connection) else []
        finally:
            engine.dispose()

    def table(self, name: str) -> Table:
        """Return the table `DATABASE.TABLE`, or `TABLE` in the database `default`. Raises `NotFound`."""
        database, _, table = name.rpartition(".")
        full = f"{database or 'default'}.{table}".lower()
        # A name is not a pattern: brackets and stars in it are literal.
        found = self.tables(re.sub(r"([*?\[])", r"[\1]", full))
        if not found:
            raise no_such_table(full)
        return found[0]

    def locations(self, name: str) -> list[str]:
        """Return the locations of a table's data: its own, and those of partitions outside of it.

        Raises `NotFound` where the table does not exist, or is a view.
        """
        table = self.table(name)
        if not table.location:
            raise NotFound(f"{table.full_name} has no data of its own", why="it is a view", fix="name its tables")
        engine = self._database.engine(METASTORE)
        try:
            with engine.connect() as connection:
                partitions = read_partition_locations(connection, table)
        finally:
            engine.dispose()
        inside = table.location.rstrip("/") + "/"
        return [table.location, *(place for place in partitions if not place.startswith(inside))]

    def _run_schema_tool(self, java: Path | str, jars: list[Path]) -> None:
        url = self._database.url(METASTORE)
        properties = {
            "javax.jdo.PersistenceManagerFactoryClass": "org.datanucleus.api.jdo.JDOPersistenceManagerFactory",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionURL": url.jdbc(),
            "javax.jdo.option.ConnectionUserName": url.user,
            "javax.jdo.option.ConnectionPassword": url.password,
            "datanucleus.connectionPoolingType": "NONE",
            **OBJECT_LAYER_SETTINGS,
        }
        metastore_jar = next(jar for jar in jars if jar.name.startswith("hive-metastore-"))
        files = {
            "package.jdo": zipfile.ZipFile(metastore_jar).read("package.jdo").decode(),
            "schema.properties": as_properties({key: value or "" for key, value in properties.items()}),
        }
        arguments = ["-create", "-api", "JDO", "-props", "{private}/schema.properties", "{private}/package.jdo"]
        with tool.run(_SCHEMA_TOOL, arguments, files=files, java=java, jars=jars) as making:
            output = list(making.lines())
            # SchemaTool's exit code is 0 for some failures.
            if making.code != 0 or "completed successfully" not in "".join(output):
                last = "\n".join([*(line.rstrip() for line in output), *making.last_errors(8)][-8:])
                last = last.replace(url.password or "\0", "…")
                raise CatalogError(
                    f"The metastore's tables cannot be created in {url}",
                    why=f"DataNucleus SchemaTool ended with {making.ending}:\n{last}",
                    fix="fix the cause and run the command again; it completes the existing tables",
                )


def no_such_table(full_name: str) -> NotFound:
    return NotFound(f"There is no table {full_name}", why="the catalog does not list it", fix="penstock tables")


class DatabaseOwners:
    """The instances to which databases belong, read over connections that are kept. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()
        self._engine: Engine | None = None

    def __call__(self) -> dict[str, str]:
        """Return the instance of each database that belongs to one, by the database's name in lower case."""
        with self._turn:
            self._engine = self._engine or self._database.engine(METASTORE)
        with self._engine.connect() as connection:
            return read_owners(connection) if _has_schema(connection) else {}


def _has_schema(connection: Connection) -> bool:
    """Return whether the schema is complete. Raises `CatalogError` where Spark's client cannot use it."""
    if connection.execute(text("""SELECT to_regclass('"VERSION"')""")).scalar() is None:
        return False
    versions = connection.execute(text('SELECT "SCHEMA_VERSION" FROM "VERSION"')).scalars().all()
    if versions and versions != [SCHEMA_VERSION]:
        raise CatalogError(
            "The metastore's database has another schema",
            why=f"it is version {', '.join(versions)}; the Hive client of Spark 4 needs {SCHEMA_VERSION}",
            fix="choose another server with PENSTOCK_DATABASE_URL, or move that metastore to another database name",
        )
    return bool(versions)


@contextmanager
def _advisory_lock(connection: Connection) -> Iterator[None]:
    """Hold a lock of the session, which the server releases when this process ends, however it ends."""
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY_LOCK})
    # The lock survives this commit; an open transaction would block SchemaTool's DDL.
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _ADVISORY_LOCK})
        connection.commit()


def _complete(connection: Connection) -> None:
    """Add the parts of Hive's own schema that no class maps, and the version, which marks the schema as complete."""
    connection.execute(
        text(
            'CREATE TABLE IF NOT EXISTS "SEQUENCE_TABLE" '
            '("SEQUENCE_NAME" varchar(255) NOT NULL PRIMARY KEY, "NEXT_VAL" bigint NOT NULL)'
        )
    )
    connection.execute(
        text('INSERT INTO "VERSION" ("VER_ID", "SCHEMA_VERSION", "VERSION_COMMENT") VALUES (1, :version, :comment)'),
        {"version": SCHEMA_VERSION, "comment": "made by Penstock"},
    )
    connection.commit()


def _jars(classpath: Sequence[Path]) -> list[Path]:
    jars = [jar for jar in classpath if jar.name.startswith(_NEEDED) and jar.suffix == ".jar"]
    missing = [prefix for prefix in _NEEDED if not any(jar.name.startswith(prefix) for jar in jars)]
    if missing:
        raise MissingRequirement(
            "The metastore's tables cannot be created",
            why=f"no jar {', '.join(prefix + '*.jar' for prefix in missing)} on Spark's class path",
            fix="install penstock again with its jars (make jars)",
        )
    return jars
