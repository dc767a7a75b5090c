"""The Hive metastore: its tables in PostgreSQL, and the `hive-site.xml` with which Spark's drivers open them.

The tables are made once, by the object layer that will use them, then only opened. Each application holds its own Hive
client inside its driver: no metastore service to run, to size, or to wait for.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from penstock.catalog.connection import DatabaseUrl
from penstock.catalog.database import METASTORE, Database
from penstock.catalog.tables import Table, read_partition_locations, read_tables
from penstock.errors import CatalogError, MissingRequirement, NotFound
from penstock.formats import configuration_xml

# The metastore layout of the Hive client built into Spark 4.
SCHEMA_VERSION = "2.3.0"

# How the object layer names and numbers things; the client must agree with whoever made the tables.
LAYOUT = {
    # Hive's own names in upper case. DataNucleus 4 by itself would choose others.
    "datanucleus.identifierFactory": "datanucleus1",
    # Numbers from SEQUENCE_TABLE, as in every Hive metastore, so other engines can share it.
    "datanucleus.rdbms.useLegacyNativeValueStrategy": "true",
}

_CLIENT = {
    # The tables exist. Making them lazily deadlocks on PostgreSQL: an open INSERT blocks DDL on a second connection.
    "datanucleus.schema.autoCreateAll": "false",
    "datanucleus.schema.validateTables": "false",
    "datanucleus.schema.validateColumns": "false",
    "datanucleus.schema.validateConstraints": "false",
    "datanucleus.rdbms.checkExistTablesOrViews": "false",
    # A database of another layout is refused, never adapted or written over.
    "hive.metastore.schema.verification": "true",
    "hive.metastore.schema.verification.record.version": "false",
    # To create, fill and drop one table: 2 logins. With HikariCP 6; with NONE 43, each a process of the server's and
    # thousands of rounds of SCRAM, together 0.2 s of CPU. Connections beyond the second are rarely opened.
    # Not DataNucleus' own copy of it, “dbcp-builtin”: Hive's TxnHandler, which each DROP DATABASE asks, knows none.
    "datanucleus.connectionPoolingType": "DBCP",
    "datanucleus.connectionPool.maxPoolSize": "4",
    # Partitions and statistics of large tables in one query each instead of thousands.
    "hive.metastore.try.direct.sql": "true",
    # Private to the application. The default, /tmp/hive, belongs to whoever came first and locks others out.
    "hive.exec.scratchdir": "file://${system:java.io.tmpdir}/hive",
    # Spark collects its own statistics; Hive's would list every new partition's files in the driver.
    "hive.stats.autogather": "false",
}


def hive_site(url: DatabaseUrl, *, loopback: bool) -> str:
    """The content of `hive-site.xml`. It holds the password: for a private file on the driver's class path only.

    `loopback`: the server is the embedded one, without TLS; not asking it for TLS saves a round trip each connection.
    """
    jdbc = url.jdbc(sslmode="disable", gssEncMode="disable") if loopback else url.jdbc()
    return configuration_xml(
        {
            "javax.jdo.option.ConnectionURL": jdbc,
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": url.user,
            "javax.jdo.option.ConnectionPassword": url.password,
            **LAYOUT,
            **_CLIENT,
        }
    )


# Any number, the same in every Penstock: one process at a time makes the schema, also from several machines.
_ADVISORY_LOCK = 0x70656E73746F636B >> 8

# All that SchemaTool loads. With Spark's whole class path it takes half as long again, most of it for logging.
_NEEDED = ("datanucleus-", "hive-metastore-", "jdo-api-", "javax.jdo-", "jta-", "transaction-api-", "postgresql-")


class Metastore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure_schema(self, java: Path | str, classpath: Sequence[Path]) -> None:
        """Make the metastore's tables where they are not; a query of a few ms where they are.

        `classpath` holds Spark's jars and PostgreSQL's JDBC driver. Making takes one JVM, 2 to 4 s. Several callers at
        once: one makes, the others wait. A caller killed half-way leaves nothing, or what the next one completes:
        the row that names the schema's version is written last. Raises `CatalogError` (another schema is there;
        SchemaTool failed) or `MissingRequirement` (a jar is not on the class path).
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
        """The content of the driver's `hive-site.xml`; holds a password (see `catalog.hive.hive_site`)."""
        return hive_site(self._database.url(METASTORE), loopback=self._database.embedded)

    def tables(self, pattern: str | None = None) -> list[Table]:
        """The tables and views, ordered by database and name; empty where no application ever used the catalog.

        `pattern` is a shell pattern of `DATABASE.TABLE`, or of `TABLE` in any database, in any case: `tpcds*.store_*`.
        Read by SQL, without a JVM, in tens of ms.
        """
        engine = self._database.engine(METASTORE)
        try:
            with engine.connect() as connection:
                return read_tables(connection, pattern) if _has_schema(connection) else []
        finally:
            engine.dispose()

    def table(self, name: str) -> Table:
        """The one table of this `DATABASE.TABLE` (`default` where no database is given); `NotFound` otherwise."""
        database, _, table = name.rpartition(".")
        full = f"{database or 'default'}.{table}".lower()
        # A name is no pattern: its own brackets and stars are looked for as they are.
        found = self.tables(re.sub(r"([*?\[])", r"[\1]", full))
        if not found:
            raise NotFound(f"There is no table {full}", why="the catalog does not list it", fix="penstock tables")
        return found[0]

    def locations(self, name: str) -> list[str]:
        """Where the data of this `DATABASE.TABLE` is: the table's place, and those of partitions that lie elsewhere.

        Raises `NotFound` where there is no such table, or it is a view.
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
            **LAYOUT,
        }
        # mkdtemp's directory is private (0700): the properties hold the password.
        with tempfile.TemporaryDirectory(prefix="penstock-schema-") as name:
            directory = Path(name)
            mapping = directory / "package.jdo"
            metastore_jar = next(jar for jar in jars if jar.name.startswith("hive-metastore-"))
            mapping.write_bytes(zipfile.ZipFile(metastore_jar).read("package.jdo"))
            options = directory / "schema.properties"
            options.write_text("".join(f"{key}={_escape(value)}\n" for key, value in properties.items()), "ascii")
            # A short run: the quick compiler alone, one collector thread.
            flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
            tool = ["org.datanucleus.store.schema.SchemaTool", "-create", "-api", "JDO", "-props", str(options)]
            result = subprocess.run(
                [str(java), *flags, "-cp", os.pathsep.join(map(str, jars)), *tool, str(mapping)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=directory,
                check=False,
            )
        # SchemaTool's exit code is 0 for some failures.
        if result.returncode != 0 or "completed successfully" not in result.stdout:
            tail = "\n".join(result.stdout.strip().splitlines()[-8:]).replace(url.password or "\0", "…")
            raise CatalogError(
                f"The metastore's tables cannot be made in {url}",
                why=f"DataNucleus SchemaTool ended with {result.returncode}:\n{tail}",
                fix="mend the cause and run the command again; it completes what is there",
            )


def _has_schema(connection: Connection) -> bool:
    """Whether the schema is complete; raises `CatalogError` where it is another one than Spark's client can use."""
    if connection.execute(text("""SELECT to_regclass('"VERSION"')""")).scalar() is None:
        return False
    versions = connection.execute(text('SELECT "SCHEMA_VERSION" FROM "VERSION"')).scalars().all()
    if versions and versions != [SCHEMA_VERSION]:
        raise CatalogError(
            "The metastore's database holds another schema",
            why=f"it is version {', '.join(versions)}; the Hive client of Spark 4 needs {SCHEMA_VERSION}",
            fix="name another server with PENSTOCK_DATABASE_URL, or keep that metastore under another database name",
        )
    return bool(versions)


@contextmanager
def _advisory_lock(connection: Connection) -> Iterator[None]:
    """Held by the session, so it ends with this process, however it ends."""
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY_LOCK})
    # The lock outlives this commit; without it our open transaction would block SchemaTool's DDL.
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _ADVISORY_LOCK})
        connection.commit()


def _complete(connection: Connection) -> None:
    """What Hive's own schema has beyond the mapped classes, and the version that says it is complete."""
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
            "The metastore's tables cannot be made",
            why=f"no jar {', '.join(prefix + '*.jar' for prefix in missing)} on Spark's class path",
            fix="install penstock again with its jars (make jars)",
        )
    return jars


def _escape(value: str) -> str:
    """A value of a Java properties file, which is read as Latin-1 with `\\` as its escape."""
    return "".join(c if " " < c < "\x7f" and c != "\\" else f"\\u{ord(c):04x}" for c in value)
