"""The lake and the catalog for a DuckDB process: its credentials, and a view of each table that a statement names."""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa

from penstock.catalog import tables as catalog
from penstock.catalog.connection import LIVENESS
from penstock.catalog.tables import Table
from penstock.engine.engines import duckdb_tables as views
from penstock.engine.engines.duckdb_tables import Listing, PhysicalColumn, sql_name
from penstock.errors import CatalogError, InvalidInput, LakeError, NotFound, PenstockError
from penstock.formats import sql_text
from penstock.lake.clients import duckdb_roots, duckdb_secret
from penstock.lake.credentials import parse_ini
from penstock.lake.model import Credentials, Lake, ObjectStore
from penstock.lake.s3 import S3ObjectStore
from penstock.processes import calling_periodically

CATALOG = "spark_catalog"
"""Spark's name of the catalog, in which DuckDB has its databases as schemas."""

_DEFAULT_DATABASE = "default"
_LOOK_SECONDS = 0.25
_COMMIT_SECONDS = 30.0
"""The time that the job which commits to a table has to carry its commit out."""

_log = logging.getLogger("penstock.duckdb")


class LakeAccess:
    """Access to the lake with the application's own credentials, which its supervisor may renew."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._file = Path(os.environ["AWS_SHARED_CREDENTIALS_FILE"])
        self._profile = os.environ["AWS_PROFILE"]
        # Applications spread over the gateways; DuckDB takes one.
        self._endpoint = random.choice(lake.endpoints)  # noqa: S311
        self._opened: tuple[int, ObjectStore] | None = None

    @property
    def store(self) -> ObjectStore:
        """A client with the credentials of now."""
        version = self._file.stat().st_mtime_ns
        if self._opened is None or self._opened[0] != version:
            self._opened = version, S3ObjectStore(self.lake, self._credentials())
        return self._opened[1]

    def read_text(self, place: str) -> str:
        """The text of a file, or of an object of the lake."""
        if "://" in place:
            return self.store.get(self.lake.key(place)).decode()
        return Path(place).read_text(encoding="utf-8")

    def listing(self, location: str) -> Listing:
        """List a directory, whose address ends with a slash.

        Raises `LakeError` while a commit is being carried out there for longer than half a minute.
        """
        prefix = self.lake.key(location)
        deadline = time.monotonic() + _COMMIT_SECONDS
        while True:
            found = Listing.of(self.store.list(prefix), prefix)
            if not found.unfinished:
                return found
            if time.monotonic() > deadline:
                raise LakeError(
                    f"A commit to {location} is not carried out yet",
                    why="the job that made it has stopped half-way, so the files are those of no version of the table",
                    fix="any write to the table by Spark completes it; then run the statement again",
                )
            time.sleep(_LOOK_SECONDS)

    def secret(self) -> str:
        """The statement that gives DuckDB the credentials of now."""
        keys = self._credentials()
        options = {"KEY_ID": keys.access_key, "SECRET": keys.secret_key, "SESSION_TOKEN": keys.session_token}
        given = {name: sql_text(value) for name, value in options.items() if value is not None}
        return duckdb_secret("lake", self.lake, self._endpoint, given)

    @property
    def roots(self) -> list[str]:
        return duckdb_roots(self.lake)

    @contextmanager
    def renewed(self, database: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Give DuckDB the credentials whenever the supervisor has renewed them."""
        known = self._file.stat().st_mtime_ns
        with database.cursor() as own:

            def look() -> None:
                nonlocal known
                if known != (known := self._file.stat().st_mtime_ns):
                    own.execute(self.secret())

            with calling_periodically(look, every_seconds=_LOOK_SECONDS):
                yield

    def _credentials(self) -> Credentials:
        return parse_ini(self._file.read_text(encoding="utf-8"))[self._profile][0]


class Catalog:
    """The metastore's tables, read from its database. Raises `CatalogError` where that is away."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _engine(self) -> sa.Engine:
        return sa.create_engine(self._url, connect_args=LIVENESS.client(), pool_pre_ping=True)

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.OperationalError as error:
            raise CatalogError(
                "The catalog's database does not answer",
                why=str(error.orig).strip().splitlines()[0],
                fix="penstock status shows the database; then run the statements again",
            ) from error

    def names(self) -> dict[str, set[str]]:
        """The tables of each database."""
        with self._connection() as connection:
            return catalog.read_names(connection)

    def table(self, database: str, name: str) -> Table:
        with self._connection() as connection:
            found = catalog.read_tables(connection, lambda *named: named == (database, name))
        if not found:
            raise NotFound(
                f"There is no table {database}.{name}", why="it was dropped meanwhile", fix="penstock tables"
            )
        return found[0]

    def partitions(self, table: Table) -> list[catalog.Partition]:
        with self._connection() as connection:
            return catalog.read_partitions(connection, table)

    def metadata_location(self, table: Table) -> str:
        with self._connection() as connection:
            return catalog.read_metadata_location(connection, table)


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

    def listed(self, database: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        """The tables of the current database: DuckDB has views of those alone that a statement has named."""
        return {"rows": [[name] for name in sorted(self._metastore.names()[_schema(database)])], "truncated": False}

    def _query(self, database: duckdb.DuckDBPyConnection, table: Table) -> str:
        views.check_readable(table)
        if table.format == "iceberg":
            metadata = self._metastore.metadata_location(table)
            self._require_here(table, metadata)
            return views.iceberg_view(metadata)
        root = table.location.rstrip("/") + "/"
        self._require_here(table, root)
        partitions = self._metastore.partitions(table) if table.partitions is not None else []
        files = views.data_files(table, partitions, self._lake.listing(root))
        _log.info("%s has %d files", table.full_name, len(files))
        bare = views.bare_files(table, _footers(database, root, files)) if views.needs_footers(table) else set()
        return views.parquet_view(table, root, files, bare)

    def _require_here(self, table: Table, place: str) -> None:
        if not place.startswith(tuple(self._lake.roots)):
            raise InvalidInput(
                f"{table.full_name} cannot be read by DuckDB",
                why=f"it is in {place}, not in the lake “{self._lake.lake.name}”",
                fix="name its lake (--lake), or use --engine spark",
            )


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
