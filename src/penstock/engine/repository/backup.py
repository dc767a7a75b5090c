"""Backup and restore of the records: like a database dump, but for any release and any home.

A backup is a zip archive of `manifest.json` and, for each table, its rows in PostgreSQL's text format. A restore reads
the rows into the schema they were written from and then migrates it, so archives of older releases stay usable. An
archive holds no readable secret: only hashes of tokens, and shared secrets sealed as in the database. The key that
opens them is in neither. Tables and logs are in the lake and not in the archive, except for pending logs.
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
from penstock.engine.repository.repositories import Repositories
from penstock.errors import Conflict, InvalidInput

_FORMAT = 1
_MANIFEST = "manifest.json"
_MOST_MANIFEST_BYTES = 1 << 20
_PIECE = 1 << 20
_SEALED = sa.select(sa.func.count()).where(schema.secrets.c.sealed.is_not(None))


@dataclass(frozen=True)
class Contents:
    """The manifest.

    `tables` maps tables to columns, in the order in which rows can be restored; `sealed` is the number of secrets that
    only the key in use at that moment opens.
    """

    version: str
    engine: str
    at: str
    applications: int
    tables: Mapping[str, Sequence[str]]
    sealed: int = 0


@dataclass(frozen=True)
class Restored:
    """The result of a restore. `replaced` are the tables that were dropped for those of the archive."""

    contents: Contents
    replaced: tuple[str, ...]


def write(records: Repositories, path: Path) -> Contents:
    """Write a consistent snapshot of all records of the database, during normal operation.

    The file is readable by its owner only and appears complete or not at all. Raises `InvalidInput` where it exists
    already or cannot be created.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                contents = _copy_out(records.database, records.owner, archive)
            os.link(unfinished, path)
        finally:
            unfinished.unlink()
    except OSError as error:
        raise InvalidInput(
            f"The backup {path} cannot be written", why=str(error.strerror or error), fix="choose another file"
        ) from error
    return contents


def read(records: Repositories, path: Path, *, replace: bool = False) -> Restored:
    """Restore the records as they were when the archive was written, in one transaction.

    Only the engine's own tables and functions are replaced; others of the same schema stay.

    The rows of the engine that wrote the archive then belong to the engine of `records`. Waiting applications wait
    again, and running ones are found to be lost unless their cluster still exists. Raises `Conflict` where there are
    applications already and `replace` is not set, or where foreign objects depend on the tables, `InvalidInput` where
    the file is not a backup, and `StateError` for an archive of a newer release.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            contents = _contents(archive)
            with records.database.begin() as connection:
                schema.hold_migrations(connection)
                _require_empty(connection, replace=replace)
                replaced = schema.drop(connection)
                schema.migrate(connection, contents.version)
                _copy_in(connection, archive, contents)
                _hand_over(connection, contents, records.owner)
                if contents.version != HEAD:
                    schema.migrate(connection)
    except (OSError, zipfile.BadZipFile, psycopg.DataError) as error:
        raise InvalidInput(
            f"{path} is not a readable backup", why=str(error).splitlines()[0], fix="name another file"
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
        raise zipfile.BadZipFile("its manifest has a format that this release does not know")
    try:
        return Contents(**value)
    except TypeError as error:
        raise zipfile.BadZipFile(f"its manifest is not a backup's ({error})") from error


def _require_empty(connection: sa.Connection, *, replace: bool) -> None:
    count = connection.execute(sa.select(sa.func.count()).select_from(schema.applications)).scalar_one()
    if count and not replace:
        raise Conflict(
            "There are records already",
            why=f"they contain {count} applications",
            fix="stop every service and add --replace to discard them, or choose another state directory",
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
    """Set a numbered table's sequence to continue after every number that was ever given.

    Rows that were added since the backup are lost, but a webhook's receiver may know their numbers: it would drop
    another delivery with one of them. Milliseconds since 1970 are ahead of any sequence, also of one that an earlier
    restore has set, as long as fewer than a thousand rows are added each second.
    """
    with _cursor(connection) as cursor:
        found = cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", (table,)).fetchone()
        if found and found[0]:
            query = sql.SQL(
                "SELECT setval(%s, greatest(coalesce(max(id), 0) + 1, (extract(epoch FROM clock_timestamp()) * 1000)"
                "::bigint), false) FROM {}"
            )
            cursor.execute(query.format(sql.Identifier(table)), (found[0],))


def _hand_over(connection: sa.Connection, contents: Contents, owner: str) -> None:
    with _cursor(connection) as cursor:
        for name, columns in contents.tables.items():
            if "engine" not in columns:
                continue
            table = sql.Identifier(name)
            # Only the owner of the rows changes, which the triggers are not meant to prevent.
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
