"""The records in one file, and back: what a database's own dump would do, for any release and any home.

A zip archive of `manifest.json` and, for each table, PostgreSQL's own text form of its rows. It is read back into the
schema it was written from and then migrated, so an older release's archive is as good as one of today. It holds no
secret that can be read: tokens' hashes, and the secrets that services share as they are in the database, sealed. The
key that opens them is in neither. Clusters, tables and logs are in the lake and not in the archive, but for logs that
wait for their lake.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from penstock.engine.repository import schema
from penstock.engine.repository.applications import now
from penstock.engine.repository.migrations import HEAD
from penstock.errors import Conflict, InvalidInput

_FORMAT = 1
_MANIFEST = "manifest.json"
_MOST_MANIFEST_BYTES = 1 << 20
_PIECE = 1 << 20
_SEALED = sa.select(sa.func.count()).where(schema.secrets.c.sealed.is_not(None))


@dataclass(frozen=True)
class Contents:
    """`tables` are the columns of each, in the order in which rows can be brought back. `sealed` is the number of
    secrets that only the key in use at that moment opens."""

    version: str
    engine: str
    at: str
    applications: int
    tables: Mapping[str, Sequence[str]]
    sealed: int = 0


@dataclass(frozen=True)
class Restored:
    """`replaced` are the tables that were dropped for those of the archive."""

    contents: Contents
    replaced: tuple[str, ...]


def write(engine: sa.Engine, owner: str, path: Path) -> Contents:
    """All records of the database as they are at one moment, while everything goes on.

    The file is only its owner's to read, and is there whole or not at all. Raises `InvalidInput` where there is one of
    that name, or none can be made.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                contents = _copy_out(engine, owner, archive)
            os.link(unfinished, path)
        finally:
            unfinished.unlink()
    except OSError as error:
        raise InvalidInput(
            f"The backup {path} cannot be written", why=str(error.strerror or error), fix="choose another file"
        ) from error
    return contents


def read(engine: sa.Engine, owner: str, path: Path, *, replace: bool = False) -> Restored:
    """Make the records what they were when the archive was written; all of it or nothing.

    Only the engine's own tables and functions are replaced; others of the same schema stay.

    Those of the engine that wrote it are `owner`'s then. What was waiting waits again, and what was running is found
    to be lost unless its cluster is still there. Raises `Conflict` where there are applications already and they are
    not to be replaced, or objects of others depend on them, `InvalidInput` for what is no archive,
    `StateError` for one of a newer release.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            contents = _contents(archive)
            with engine.begin() as connection:
                schema.hold_migrations(connection)
                _require_empty(connection, replace=replace)
                replaced = schema.drop(connection)
                schema.migrate(connection, contents.version)
                _copy_in(connection, archive, contents)
                _hand_over(connection, contents, owner)
                if contents.version != HEAD:
                    schema.migrate(connection)
    except (OSError, zipfile.BadZipFile, psycopg.DataError) as error:
        raise InvalidInput(
            f"{path} is not a backup that can be read", why=str(error).splitlines()[0], fix="name another file"
        ) from error
    return Restored(contents, tuple(replaced))


def _copy_out(engine: sa.Engine, owner: str, archive: zipfile.ZipFile) -> Contents:
    tables = {table.name: [column.name for column in table.columns] for table in schema.metadata.tables.values()}
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        count = connection.execute(sa.select(sa.func.count()).select_from(schema.applications)).scalar_one()
        sealed = connection.execute(_SEALED).scalar_one() if schema.secrets.name in tables else 0
        contents = Contents(HEAD, owner, now().isoformat(), count, tables, sealed)
        archive.writestr(_MANIFEST, json.dumps({"format": _FORMAT, **vars(contents)}, indent=2))
        for name, columns in tables.items():
            with (
                _cursor(connection) as cursor,
                cursor.copy(_statement("COPY {} ({}) TO STDOUT", name, columns)) as rows,
                archive.open(_member(name), "w", force_zip64=True) as member,
            ):
                for piece in rows:
                    member.write(piece)
    return contents


def _contents(archive: zipfile.ZipFile) -> Contents:
    try:
        with archive.open(_MANIFEST) as member:
            value = json.loads(member.read(_MOST_MANIFEST_BYTES))
    except (KeyError, ValueError) as error:
        raise zipfile.BadZipFile(f"it holds no manifest of a backup ({error})") from error
    if not isinstance(value, dict) or value.pop("format", None) != _FORMAT:
        raise zipfile.BadZipFile("its manifest is of a format that this release does not know")
    try:
        return Contents(**value)
    except TypeError as error:
        raise zipfile.BadZipFile(f"its manifest is not a backup's ({error})") from error


def _require_empty(connection: sa.Connection, *, replace: bool) -> None:
    count = connection.execute(sa.select(sa.func.count()).select_from(schema.applications)).scalar_one()
    if count and not replace:
        raise Conflict(
            "There are records already",
            why=f"{count} applications are in them",
            fix="stop every service and add --replace to lose them, or choose another state directory",
        )


def _copy_in(connection: sa.Connection, archive: zipfile.ZipFile, contents: Contents) -> None:
    for name, columns in contents.tables.items():
        with (
            _cursor(connection) as cursor,
            archive.open(_member(name)) as member,
            cursor.copy(_statement("COPY {} ({}) FROM STDIN", name, columns)) as rows,
        ):
            while piece := member.read(_PIECE):
                rows.write(piece)
        if "id" in columns:
            _continue_numbers(connection, name)


def _continue_numbers(connection: sa.Connection, table: str) -> None:
    """Where the database numbers the rows: after the last one that came back."""
    with _cursor(connection) as cursor:
        found = cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", (table,)).fetchone()
        if found and found[0]:
            query = sql.SQL("SELECT setval(%s, coalesce(max(id), 0) + 1, false) FROM {}")
            cursor.execute(query.format(sql.Identifier(table)), (found[0],))


def _hand_over(connection: sa.Connection, contents: Contents, owner: str) -> None:
    with _cursor(connection) as cursor:
        for name, columns in contents.tables.items():
            if "engine" not in columns:
                continue
            table = sql.Identifier(name)
            # The rows are the same, only whose they are changes: what guards them is not meant against this.
            cursor.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
            cursor.execute(
                sql.SQL("UPDATE {} SET engine = %s WHERE engine = %s").format(table), (owner, contents.engine)
            )
            cursor.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(table))


def _cursor(connection: sa.Connection) -> psycopg.Cursor[Any]:
    driver: Any = connection.connection.dbapi_connection
    cursor: psycopg.Cursor[Any] = driver.cursor()
    return cursor


def _statement(text: str, table: str, columns: Sequence[str]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(text).format(sql.Identifier(table), names)


def _member(table: str) -> str:
    return f"{table}.copy"
