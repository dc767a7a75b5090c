"""The lake and the catalog for an engine's own process, with the credentials of its application."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import sqlalchemy as sa

from penstock.catalog import tables as catalog
from penstock.catalog.connection import LIVENESS
from penstock.catalog.tables import Table
from penstock.engine.engines.table_files import Listing
from penstock.errors import CatalogError, InvalidInput, LakeError, NotFound
from penstock.lake.clients.configuration import addresses
from penstock.lake.credentials import parse_ini
from penstock.lake.model import Credentials, Lake, ObjectStore
from penstock.lake.s3 import S3ObjectStore
from penstock.lake.settings import AUTHORITIES_VARIABLE

_LOOK_SECONDS = 0.25
_COMMIT_SECONDS = 30.0
"""The time that the job which commits to a table has to carry its commit out."""


class LakeAccess:
    """Access to the lake with the application's own credentials, which its supervisor may renew.

    `lake.ca_file` is the application's private copy of the authorities' file: every client of the lake reads that one,
    since the registered file may change under the application.
    """

    def __init__(self, lake: Lake) -> None:
        copy = None if lake.ca_file is None else os.environ.get(AUTHORITIES_VARIABLE, lake.ca_file)
        self.lake = replace(lake, ca_file=copy)
        self._file = Path(os.environ["AWS_SHARED_CREDENTIALS_FILE"])
        self._profile = os.environ["AWS_PROFILE"]
        # Applications spread over the gateways; a process takes one.
        self.endpoint = random.choice(lake.endpoints)  # noqa: S311
        self._opened: tuple[int, ObjectStore] | None = None

    @property
    def store(self) -> ObjectStore:
        """A client with the credentials of now."""
        version = self.version
        if self._opened is None or self._opened[0] != version:
            self._opened = version, S3ObjectStore(self.lake, self.credentials)
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

    @property
    def credentials(self) -> Credentials:
        """The credentials of now."""
        return parse_ini(self._file.read_text(encoding="utf-8"))[self._profile][0]

    @property
    def version(self) -> int:
        """Changes with the credentials."""
        return self._file.stat().st_mtime_ns

    def require_here(self, table: Table, place: str, *, reader: str) -> None:
        """Raise `InvalidInput` where the table, or what it consists of, is not in the lake."""
        if not place.startswith(tuple(addresses(self.lake))):
            raise InvalidInput(
                f"{table.full_name} cannot be read by {reader}",
                why=f"it is in {place}, not in the lake “{self.lake.name}”",
                fix="name its lake (--lake), or use --engine spark",
            )


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
