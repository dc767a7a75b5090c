"""The settings with which a Spark driver opens the metastore's database itself, as `hive-site.xml`. Pure.

Each application holds its own Hive client inside its driver: no metastore service to run, to size, or to wait for.
"""

from __future__ import annotations

from penstock.catalog.address import DatabaseUrl
from penstock.hadoopconf import configuration_xml

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
