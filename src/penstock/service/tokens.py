"""Tokens: what a client proves itself with. The secret is shown once; only its hash is kept. Pure but for chance."""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.errors import Forbidden, Unauthenticated

PREFIX = "penstock"
"""So that people, and scanners for leaked secrets, recognise one."""
_LONGEST = 200


@dataclass(frozen=True)
class Token:
    """`secret_hash` is a plain SHA-256: the secret has 256 random bits, so there is nothing to guess or to salt."""

    id: str
    name: str
    grants: Mapping[str, Scope]
    secret_hash: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """Without the hash. `scopes` and `instances` say the same as `grants`, for people."""
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


def written(token_id: str, secret: str) -> str:
    """The token as a client holds it."""
    return f"{PREFIX}_{token_id}_{secret}"


def parsed(text: str) -> tuple[str, str] | None:
    """Id and secret; None where it is none of ours."""
    if len(text) > _LONGEST:
        return None
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    return (token_id, secret) if prefix == PREFIX and token_id.isalnum() and secret else None


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def verified(token: Token | None, secret: str, *, at: datetime) -> Caller:
    """The caller, where the secret is the token's and it has not expired. Raises `Unauthenticated`.

    That a token has expired is told only to who has its secret.
    """
    known = token.secret_hash if token is not None else hashed("")
    if not hmac.compare_digest(known, hashed(secret)) or token is None:
        raise not_valid()
    if token.expires_at is not None and token.expires_at <= at:
        raise Unauthenticated(
            f"The token “{token.name}” has expired",
            why=f"it was valid until {token.expires_at.isoformat()}",
            fix="penstock token create NAME makes a new one",
        )
    return Caller(token.id, token.name, token.grants)


def holds(token: Token, secret_hash: str, *, at: datetime) -> bool:
    """Whether what was opened with this secret may stay open: the token was neither rotated nor has it expired."""
    return token.secret_hash == secret_hash and (token.expires_at is None or at < token.expires_at)


def not_valid() -> Unauthenticated:
    return Unauthenticated(
        "The token is not valid",
        why="it was never made here, or was revoked or replaced",
        fix="penstock token create NAME makes a new one",
    )


EVERY_INSTANCE = "*"


class Scope(str, enum.Enum):
    """Each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMINISTER = "administer"

    def includes(self, other: Scope) -> bool:
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = tuple(Scope)


@dataclass(frozen=True)
class Caller:
    """One authenticated client. `grants` maps an instance's name, or `*` for all there will ever be, to a scope."""

    token_id: str
    name: str
    grants: Mapping[str, Scope]

    def may(self, scope: Scope, instance: str = EVERY_INSTANCE) -> bool:
        """On that instance; on all of them where none is named."""
        given = (self.grants.get(instance), self.grants.get(EVERY_INSTANCE))
        return any(grant is not None and grant.includes(scope) for grant in given)

    def may_anywhere(self, scope: Scope) -> bool:
        return any(grant.includes(scope) for grant in self.grants.values())

    def sees(self, instance: str) -> bool:
        return self.may(Scope.READ, instance)

    @property
    def instances(self) -> frozenset[str] | None:
        """Those it may read; None for all."""
        return None if EVERY_INSTANCE in self.grants else frozenset(self.grants)

    def require(self, scope: Scope, instance: str = EVERY_INSTANCE) -> None:
        """Raise `Forbidden` unless it may."""
        if not self.may(scope, instance):
            where = "all instances" if instance == EVERY_INSTANCE else f"instance “{instance}”"
            raise forbidden(self.name, scope, f" on {where}")


def widest(scopes: Iterable[Scope]) -> Scope:
    return max(scopes, key=_ORDER.index)


def grants(scope: Scope, instances: Iterable[str] | None) -> dict[str, Scope]:
    """That scope on those instances; on all there will ever be for None."""
    return dict.fromkeys([EVERY_INSTANCE] if instances is None else instances, scope)


def forbidden(name: str, scope: Scope, where: str) -> Forbidden:
    return Forbidden(
        "Your token does not permit this",
        why=f"it takes the scope “{scope.value}”{where}, which “{name}” does not have",
        fix="ask an administrator of this service for it",
    )


@dataclass(frozen=True)
class PageGrant:
    """Leave to open a page, or all pages below one, with the rights of the token while it has that secret."""

    root: str
    token_id: str
    token_hash: str
    ends_at: datetime


def grant_digest(kind: str, secret: str) -> str:
    """Key of a pass in the store. The kind is part of it: a pass for a page is no ticket, and a ticket is no cookie."""
    return hashlib.sha256(f"{kind} {secret}".encode()).hexdigest()
