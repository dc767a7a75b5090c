"""Secrets that the services of one external database share, sealed with a key that the database never sees.

A state directory may be short-lived, as in a pod. Where `$PENSTOCK_SECRETS_KEY_FILE` names a key, the keys of
credential-scoped lakes and the secret that signs webhooks are in the engine's records, in the table `secrets`, which
only the engine's own login can read. Otherwise they are in the state directory only.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.catalog.connection import DATABASE_VARIABLE
from penstock.errors import CatalogError, InvalidInput, StateError
from penstock.home import Home

if TYPE_CHECKING:
    from psycopg import Connection


KEY_FILE_VARIABLE = "PENSTOCK_SECRETS_KEY_FILE"

_KEY_BYTES = 32
_KEY_FIX = (
    "create one: head -c 32 /dev/urandom | base64. Each line is a key: the first one seals secrets, and each opens them"
)


@dataclass(frozen=True)
class Secret:
    """A secret with public `metadata`. `content` is None where the secret was forgotten."""

    metadata: Mapping[str, Any]
    content: Mapping[str, Any] | None


class SecretStore(Protocol):
    """Secrets by name.

    Every method raises `CatalogError` where the database does not answer, and `InvalidInput` where it needs a key and
    `$PENSTOCK_SECRETS_KEY_FILE` does not name one.
    """

    def get(self, name: str) -> Secret | None:
        """Return the secret; None where there is none. Raises `StateError` where no key opens it."""

    def put(self, name: str, metadata: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Store the secret; replace one of the same name."""

    def put_if_absent(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store the content unless there is a secret of that name; return the stored one.

        Raises the errors of `get`.
        """

    def forget(self, name: str) -> None:
        """Remove the content; the metadata stays."""

    def remove(self, *names: str) -> None: ...

    def names(self, prefix: str, *, forgotten: bool = False) -> list[str]:
        """Return the names with that prefix whose secrets have content or, with `forgotten`, have none."""


def secret_store(home: Home) -> SecretStore | None:
    """Return the store that this home's services share, without opening it; None where they share none."""
    named = os.environ.get(KEY_FILE_VARIABLE)
    return DatabaseSecrets(home, Path(named)) if named and os.environ.get(DATABASE_VARIABLE) else None


class Sealer:
    """Authenticated encryption (Fernet: AES-128-CBC and HMAC-SHA256). A sealed text opens only under its own name."""

    def __init__(self, *keys: bytes) -> None:
        """Use the first key to seal, and all of them to open. Each has 32 bytes."""
        # This import takes 50 ms, and only services that share secrets need it.
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet  # noqa: PLC0415

        self._fernet = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])
        self._invalid = InvalidToken

    @staticmethod
    def of_file(path: Path) -> Sealer:
        """Read the keys from a file. Raises `InvalidInput`, which never quotes the file."""
        try:
            lines = path.read_text(encoding="ascii").split()
            keys = [base64.b64decode(line.translate({45: "+", 95: "/"}), validate=True) for line in lines]
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror}"
        except (ValueError, binascii.Error):
            why = f"{path} is not base64"
        else:
            if keys and all(len(key) == _KEY_BYTES for key in keys):
                return Sealer(*keys)
            why = f"{path} does not have {_KEY_BYTES} bytes in base64 on each line"
        raise InvalidInput(f"{KEY_FILE_VARIABLE} cannot be used", why=why, fix=_KEY_FIX)

    def seal(self, name: str, content: Mapping[str, Any]) -> str:
        # The sealed name prevents a writer of the table from swapping secrets.
        return self._fernet.encrypt(json.dumps([name, content]).encode()).decode("ascii")

    def open(self, name: str, sealed: str) -> Mapping[str, Any]:
        """Decrypt a sealed text. Raises `StateError` where its key or name is another one, or it was changed."""
        try:
            own, content = json.loads(self._fernet.decrypt(sealed.encode()))
        except self._invalid:
            own, content = None, None
        if own != name or not isinstance(content, dict):
            raise StateError(
                f"The secret “{name}” in the database cannot be opened",
                why=f"it was not sealed with a key in the file that {KEY_FILE_VARIABLE} names",
                fix="append that key to the file on a line of its own: services of one database share it",
            )
        return content


class DatabaseSecrets:
    """The table `secrets` of the engine's records, which a migration creates. Each call opens a connection."""

    def __init__(self, home: Home, key_file: Path) -> None:
        self._home = home
        self._key_file = key_file

    @cached_property
    def _sealer(self) -> Sealer:
        return Sealer.of_file(self._key_file)

    def get(self, name: str) -> Secret | None:
        rows = self._query("SELECT about, sealed FROM secrets WHERE name = %s", name)
        if not rows:
            return None
        about, sealed = rows[0]
        return Secret(about, None if sealed is None else self._sealer.open(name, sealed))

    def put(self, name: str, metadata: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        self._query(
            "INSERT INTO secrets (name, about, sealed) VALUES (%s, %s, %s) ON CONFLICT (name) "
            "DO UPDATE SET about = excluded.about, sealed = excluded.sealed",
            name,
            json.dumps(metadata),
            self._sealer.seal(name, content),
        )

    def put_if_absent(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        sealed = self._sealer.seal(name, content)
        self._query(
            "INSERT INTO secrets (name, about, sealed) VALUES (%s, '{}', %s) ON CONFLICT DO NOTHING", name, sealed
        )
        found = self.get(name)
        return content if found is None or found.content is None else found.content

    def forget(self, name: str) -> None:
        self._query("UPDATE secrets SET sealed = NULL WHERE name = %s", name)

    def remove(self, *names: str) -> None:
        self._query("DELETE FROM secrets WHERE name = ANY(%s)", list(names))

    def names(self, prefix: str, *, forgotten: bool = False) -> list[str]:
        condition = "sealed IS NULL" if forgotten else "sealed IS NOT NULL"
        query = f"SELECT name FROM secrets WHERE starts_with(name, %s) AND {condition} ORDER BY name"  # noqa: S608
        return [name for (name,) in self._query(query, prefix)]

    def _query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        import psycopg  # noqa: PLC0415

        try:
            with self._connection() as connection:
                cursor = connection.execute(statement.encode(), values)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            if isinstance(error, psycopg.errors.UndefinedTable) and statement.startswith("SELECT"):
                # No engine of this release has opened these records yet.
                return []
            raise CatalogError(
                "The shared secrets cannot be reached",
                why=(str(error).strip().splitlines() or [type(error).__name__])[0],
                fix=f"check {DATABASE_VARIABLE} and that the server runs",
            ) from error

    def _connection(self) -> AbstractContextManager[Connection]:
        from penstock.catalog.database import Database  # noqa: PLC0415  commands that read lakes do not need it

        return Database(self._home).connection()
