"""The lake and the catalog in DuckDB: its credentials, and a view of each table that a statement names."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from penstock.catalog.tables import Table
from penstock.engine.engines.access import Catalog, LakeAccess
from penstock.engine.engines.duckdb import tables as views
from penstock.engine.engines.duckdb.tables import PhysicalColumn, sql_name
from penstock.engine.engines.table_files import data_files
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.formats import sql_text
from penstock.lake.clients.configuration import duckdb_secret
from penstock.processes import calling_periodically

CATALOG = "spark_catalog"
"""Spark's name of the catalog, in which DuckDB has its databases as schemas."""

_DEFAULT_DATABASE = "default"
_LOOK_SECONDS = 0.25

_log = logging.getLogger("penstock.duckdb")


def secret(lake: LakeAccess) -> str:
    """The statement that gives DuckDB the credentials of now."""
    keys = lake.credentials
    options = {"KEY_ID": keys.access_key, "SECRET": keys.secret_key, "SESSION_TOKEN": keys.session_token}
    given = {name: sql_text(value) for name, value in options.items() if value is not None}
    return duckdb_secret("lake", lake.lake, lake.endpoint, given)


@contextmanager
def renewed(lake: LakeAccess, database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Give DuckDB the credentials whenever the supervisor has renewed them."""
    known = lake.version
    with database.cursor() as own:

        def look() -> None:
            nonlocal known
            if known != (known := lake.version):
                own.execute(secret(lake))

        with calling_periodically(look, every_seconds=_LOOK_SECONDS):
            yield


class Tables:
    """The tables of the catalog as views in DuckDB."""

    def __init__(self, metastore: Catalog, lake: LakeAccess) -> None:
        self._metastore = metastore
        self._lake = lake
        self._views: list[str] = []

    def define(self, database: duckdb.DuckDBPyConnection, words: Sequence[str]) -> dict[str, PenstockError | None]:
        """Make a view of each table that these words may name (see `words_of`), as it is now, and of no other.

        Returns the tables' names, with the errors about those that cannot be read: a word may mean something else.
        """
        for view in self._views:
            database.execute(f"DROP VIEW {view}")
        self._views = []
        names = self._metastore.names()
        for name in names:
            database.execute(f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.{sql_name(name)}")
        if _schema(database) == "main":
            database.execute(f"USE {CATALOG}.{sql_name(_DEFAULT_DATABASE)}")
        problems: dict[str, PenstockError | None] = {}
        for of, name in views.named_tables(words, names, _schema(database)):
            view, problems[name] = f"{CATALOG}.{sql_name(of)}.{sql_name(name)}", None
            try:
                database.execute(f"CREATE VIEW {view} AS {self._query(database, self._metastore.table(of, name))}")
            except PenstockError as error:
                problems[name] = error
            except duckdb.Error as error:
                problems[name] = LakeError(f"{of}.{name} cannot be read", why=str(error).strip())
            else:
                self._views.append(view)
        return problems

    def listed(self, database: duckdb.DuckDBPyConnection, of: str | None = None) -> list[str]:
        """The names of the tables in a database of the catalog, in the current one unless it is named.

        DuckDB has views of those alone that a statement has named. Raises `NotFound`.
        """
        names, chosen = self._metastore.names(), of or _schema(database)
        if chosen not in names:
            raise NotFound(f"There is no database {chosen}", fix=f"one of {', '.join(sorted(names))}")
        return sorted(names[chosen])

    def _query(self, database: duckdb.DuckDBPyConnection, table: Table) -> str:
        views.check_readable(table)
        if table.format == "iceberg":
            metadata = self._metastore.metadata_location(table)
            self._lake.require_here(table, metadata, reader="DuckDB")
            return views.iceberg_view(metadata)
        root = table.location.rstrip("/") + "/"
        self._lake.require_here(table, root, reader="DuckDB")
        partitions = self._metastore.partitions(table) if table.partitions is not None else []
        files = list(data_files(table, partitions, self._lake.listing(root), reader="DuckDB"))
        _log.info("%s has %d files", table.full_name, len(files))
        bare = views.bare_files(table, _footers(database, root, files)) if views.needs_footers(table) else set()
        return views.parquet_view(table, root, files, bare)


def _footers(database: duckdb.DuckDBPyConnection, root: str, files: Sequence[str]) -> list[PhysicalColumn]:
    """The columns of the files whose physical types do not say what they mean."""
    if not files:
        return []
    listed = ", ".join(sql_text(root + file) for file in files)
    found = database.execute(
        f"SELECT DISTINCT file_name, name, type FROM parquet_schema([{listed}]) "
        "WHERE type = 'INT96' OR (type = 'BYTE_ARRAY' AND converted_type IS NULL AND logical_type IS NULL)"
    )
    return [PhysicalColumn(file.removeprefix(root), name, kind) for file, name, kind in found.fetchall()]


def _schema(database: duckdb.DuckDBPyConnection) -> str:
    (name,) = database.execute("SELECT current_schema()").fetchone() or ("main",)
    return str(name)


_WORD = re.compile(r'"(?:[^"]|"")*"|\w+|\.')


def words_of(statement: str) -> list[str]:
    """The names, keywords and dots of a statement, in their order."""
    kinds = (duckdb.token_type.identifier, duckdb.token_type.keyword, duckdb.token_type.operator)
    text = statement.encode()
    starts = [start for start, kind in duckdb.tokenize(statement) if kind in kinds]
    found = (_WORD.match(text[start:end].decode()) for start, end in zip(starts, [*starts[1:], None], strict=True))
    return [word[0] for word in found if word]
