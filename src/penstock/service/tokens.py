"""Tokens: what a client proves itself with. The secret is shown once; only its hash is kept. Pure but for chance."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.errors import Unauthenticated
from penstock.service.access import EVERY_INSTANCE, Caller, Scope

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
