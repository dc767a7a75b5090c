"""Tokens, scopes and page grants: issued, checked and stored with the applications, for all services of a database.

A secret is shown once; only its hash is stored. Commands of the same home find the service's first token in a file.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from penstock.catalog.connection import autocommit_engine
from penstock.engine.repository import schema
from penstock.engine.repository.applications import now
from penstock.errors import Forbidden, InvalidInput, NotFound, Unauthenticated
from penstock.home import Home

PREFIX = "penstock"
"""The prefix by which people, and scanners for leaked secrets, recognise a token."""
_LONGEST = 200


@dataclass(frozen=True)
class Token:
    """A client's token. `secret_hash` is a plain SHA-256: a secret of 256 random bits needs no salt."""

    id: str
    name: str
    grants: Mapping[str, Scope]
    secret_hash: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """The token without its hash. `scopes` and `instances` repeat `grants` in a form for people."""
        return {
            "id": self.id,
            "name": self.name,
            "grants": {instance: scope.value for instance, scope in self.grants.items()},
            "scopes": sorted({scope.value for scope in self.grants.values()}),
            "instances": None if EVERY_INSTANCE in self.grants else sorted(self.grants),
            "created_at": self.created_at.isoformat(),
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "last_used_at": self.last_used_at.isoformat() if self.last_used_at else None,
        }


def new_id() -> str:
    return secrets.token_hex(6)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def format_token(token_id: str, secret: str) -> str:
    """The text form of the token, for its client."""
    return f"{PREFIX}_{token_id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Id and secret; None where the text is not a Penstock token."""
    if len(text) > _LONGEST:
        return None
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    return (token_id, secret) if prefix == PREFIX and token_id.isalnum() and secret else None


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def verify_token(token: Token | None, secret: str, *, at: datetime) -> Caller:
    """The caller, if the secret is the token's and the token has not expired. Raises `Unauthenticated`.

    Only a caller with the right secret learns that a token has expired.
    """
    known = token.secret_hash if token is not None else hash_secret("")
    if not hmac.compare_digest(known, hash_secret(secret)) or token is None:
        raise invalid_token()
    if token.expires_at is not None and token.expires_at <= at:
        raise Unauthenticated(
            f"The token “{token.name}” has expired",
            why=f"it was valid until {token.expires_at.isoformat()}",
            fix="penstock token create NAME makes a new one",
        )
    return Caller(token.id, token.name, token.grants, token.secret_hash)


def is_current(token: Token, secret_hash: str, *, at: datetime) -> bool:
    """Return whether the secret is still valid, so that a connection opened with it may stay open."""
    return token.secret_hash == secret_hash and (token.expires_at is None or at < token.expires_at)


def invalid_token() -> Unauthenticated:
    return Unauthenticated(
        "The token is not valid",
        why="it was not created here, or it was revoked or replaced",
        fix="penstock token create NAME makes a new one",
    )


EVERY_INSTANCE = "*"


class Scope(str, enum.Enum):
    """The permission of a token; each scope includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMINISTER = "administer"

    def includes(self, other: Scope) -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = tuple(Scope)


@dataclass(frozen=True)
class Caller:
    """An authenticated client. `grants` maps an instance's name, or `*` for all present and future ones, to a scope.

    `secret_hash` is that of the verified secret. Grants and streams are bound to it, not to the token's present one: a
    request that was open while the token was rotated must get nothing that outlives the old secret.
    """

    token_id: str
    name: str
    grants: Mapping[str, Scope]
    secret_hash: str = field(default="", repr=False)

    def may(self, scope: Scope, instance: str = EVERY_INSTANCE) -> bool:
        """Return whether the caller has the scope on that instance, or on all instances by default."""
        given = (self.grants.get(instance), self.grants.get(EVERY_INSTANCE))
        return any(grant is not None and grant.includes(scope) for grant in given)

    def may_anywhere(self, scope: Scope) -> bool:
        return any(grant.includes(scope) for grant in self.grants.values())

    def sees(self, instance: str) -> bool:
        return self.may(Scope.READ, instance)

    @property
    def instances(self) -> frozenset[str] | None:
        """The instances that the caller may read; None for all."""
        return None if EVERY_INSTANCE in self.grants else frozenset(self.grants)

    def require(self, scope: Scope, instance: str = EVERY_INSTANCE) -> None:
        """Raise `Forbidden` unless the caller has the scope."""
        if not self.may(scope, instance):
            where = "all instances" if instance == EVERY_INSTANCE else f"instance “{instance}”"
            raise forbidden(self.name, scope, f" on {where}")


def widest(scopes: Iterable[Scope]) -> Scope:
    return max(scopes, key=_ORDER.index)


def grants(scope: Scope, instances: Iterable[str] | None) -> dict[str, Scope]:
    """The scope on those instances, or on all present and future ones for None."""
    return dict.fromkeys([EVERY_INSTANCE] if instances is None else instances, scope)


def forbidden(name: str, scope: Scope, where: str) -> Forbidden:
    return Forbidden(
        "Your token does not permit this",
        why=f"this requires the scope “{scope.value}”{where}, which “{name}” does not have",
        fix="ask an administrator of this service for it",
    )


@dataclass(frozen=True)
class PageGrant:
    """Permission to open a page, or all pages below it, with the token's rights while the token has that secret."""

    root: str
    token_id: str
    token_hash: str
    ends_at: datetime


def grant_digest(kind: str, secret: str) -> str:
    """The key of a grant in the store, which includes the kind, so that a ticket cannot serve as a cookie."""
    return hashlib.sha256(f"{kind} {secret}".encode()).hexdigest()


_USE_TOLD_EVERY = timedelta(minutes=1)
_LONGEST_NAME = 100
_MOST_GRANTS = 1000
"""The limit for one token."""
_table = schema.tokens
_BY_ID = _table.select().where(_table.c.id == sa.bindparam("id"))
_page_grants = schema.passes


class TokenStore:
    """The tokens and page grants in the database. Thread-safe. A revoked token is refused from the next request on."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._reading = autocommit_engine(engine)
        schema.ensure(engine)

    def authenticate(self, text: str) -> Caller:
        """The caller to whom the token belongs. Raises `Unauthenticated`."""
        found = parse_token(text)
        if found is None:
            raise invalid_token()
        token_id, secret = found
        token = self._find(token_id)
        at = now()
        caller = verify_token(token, secret, at=at)
        if token is not None and (token.last_used_at is None or at - token.last_used_at > _USE_TOLD_EVERY):
            self._change(token_id, last_used_at=at)
        return caller

    def create(
        self, name: str, grants: Mapping[str, Scope], *, expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        """A new token and its text form, which is never shown again. Raises `InvalidInput`."""
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise InvalidInput(
                "The token needs a name",
                why=f"lists and the audit log show it; at most {_LONGEST_NAME} characters in one line",
                fix="name it after its user",
            )
        secret = new_secret()
        token = Token(new_id(), name, dict(grants), hash_secret(secret), now(), expires_at)
        with self._engine.begin() as connection:
            connection.execute(
                _table.insert().values(
                    id=token.id,
                    name=token.name,
                    grants={instance: scope.value for instance, scope in grants.items()},
                    secret_hash=token.secret_hash,
                    created_at=token.created_at,
                    expires_at=expires_at,
                )
            )
        return token, format_token(token.id, secret)

    def list(self) -> list[Token]:
        """All tokens, newest first, including expired ones."""
        with self._reading.connect() as connection:
            return [_token(row) for row in connection.execute(_table.select().order_by(_table.c.created_at.desc()))]

    def get(self, token_id: str) -> Token:
        if (token := self._find(token_id)) is None:
            raise _unknown(token_id)
        return token

    def rotate(self, token_id: str) -> tuple[Token, str]:
        """Give the token a new secret; the old one is refused from now on."""
        secret = new_secret()
        self._change(token_id, secret_hash=hash_secret(secret))
        return self.get(token_id), format_token(token_id, secret)

    def revoke(self, token_id: str) -> Token:
        token = self.get(token_id)
        with self._engine.begin() as connection:
            connection.execute(_table.delete().where(_table.c.id == token_id))
        return token

    def add_grant(self, digest: str, added: PageGrant, *, at: datetime) -> None:
        """Store a grant; remove the grants that ended by `at` and, beyond the token's limit, those that end first."""
        of_token = sa.select(_page_grants.c.digest).where(_page_grants.c.token_id == added.token_id)
        too_many = of_token.order_by(_page_grants.c.ends_at.desc()).offset(_MOST_GRANTS - 1)
        with self._engine.begin() as connection:
            connection.execute(
                _page_grants.delete().where(sa.or_(_page_grants.c.ends_at <= at, _page_grants.c.digest.in_(too_many)))
            )
            connection.execute(_page_grants.insert().values(digest=digest, **asdict(added)))

    def take_grant(self, digest: str) -> PageGrant | None:
        with self._engine.begin() as connection:
            row = connection.execute(
                _page_grants.delete().where(_page_grants.c.digest == digest).returning(*_page_grants.c)
            ).one_or_none()
        return _grant(row) if row is not None else None

    def find_grant(self, digest: str) -> PageGrant | None:
        with self._reading.connect() as connection:
            row = connection.execute(_page_grants.select().where(_page_grants.c.digest == digest)).one_or_none()
        return _grant(row) if row is not None else None

    def _find(self, token_id: str) -> Token | None:
        with self._reading.connect() as connection:
            row = connection.execute(_BY_ID, {"id": token_id}).one_or_none()
        return _token(row) if row is not None else None

    def _change(self, token_id: str, **values: Any) -> None:
        with self._engine.begin() as connection:
            if connection.execute(_table.update().where(_table.c.id == token_id).values(**values)).rowcount != 1:
                raise _unknown(token_id)


def _token(row: sa.Row[Any]) -> Token:
    grants = {instance: Scope(scope) for instance, scope in row.grants.items()}
    return Token(row.id, row.name, grants, row.secret_hash, row.created_at, row.expires_at, row.last_used_at)


def _grant(row: sa.Row[Any]) -> PageGrant:
    return PageGrant(row.root, row.token_id, row.token_hash, row.ends_at)


def _unknown(token_id: str) -> NotFound:
    return NotFound(f"There is no token “{token_id}”", fix="penstock token list shows them")


def first_token_file(home: Home) -> Path:
    return home.root / "service" / "admin.token"
