"""Where tokens are kept, and the passes that were given for them: tables beside the engine's records, so that every
service on them knows the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from penstock.catalog.pooling import reading
from penstock.engine import schema
from penstock.engine.rows import now
from penstock.errors import InvalidInput, NotFound
from penstock.service import tokens
from penstock.service.tokens import Caller, PageGrant, Scope, Token

_USE_TOLD_EVERY = timedelta(minutes=1)
_LONGEST_NAME = 100
_MOST_PASSES = 1000
"""Of one token."""
_table = schema.tokens
_BY_ID = _table.select().where(_table.c.id == sa.bindparam("id"))
_passes = schema.passes


class TokenStore:
    """Every method may be called by several threads at once. A revoked token is refused from the next request on."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._reading = reading(engine)
        schema.ensure(engine)

    def authenticate(self, text: str) -> Caller:
        """Whose token it is. Raises `Unauthenticated`."""
        found = tokens.parsed(text)
        if found is None:
            raise tokens.not_valid()
        token_id, secret = found
        token = self._find(token_id)
        at = now()
        caller = tokens.verified(token, secret, at=at)
        if token is not None and (token.last_used_at is None or at - token.last_used_at > _USE_TOLD_EVERY):
            self._change(token_id, last_used_at=at)
        return caller

    def create(
        self, name: str, grants: Mapping[str, Scope], *, expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        """The token, and what its holder needs: the only time that is known. Raises `InvalidInput`."""
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise InvalidInput(
                "The token needs a name",
                why=f"lists and the audit log tell whose it is by it; at most {_LONGEST_NAME} characters in one line",
                fix="name it after its user",
            )
        secret = tokens.new_secret()
        token = Token(tokens.new_id(), name, dict(grants), tokens.hashed(secret), now(), expires_at)
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
        return token, tokens.written(token.id, secret)

    def list(self) -> list[Token]:
        """The newest first, expired ones too."""
        with self._reading.connect() as connection:
            return [_token(row) for row in connection.execute(_table.select().order_by(_table.c.created_at.desc()))]

    def get(self, token_id: str) -> Token:
        if (token := self._find(token_id)) is None:
            raise _unknown(token_id)
        return token

    def rotate(self, token_id: str) -> tuple[Token, str]:
        """A new secret for the same token; the old one is refused from now on."""
        secret = tokens.new_secret()
        self._change(token_id, secret_hash=tokens.hashed(secret))
        return self.get(token_id), tokens.written(token_id, secret)

    def revoke(self, token_id: str) -> Token:
        token = self.get(token_id)
        with self._engine.begin() as connection:
            connection.execute(_table.delete().where(_table.c.id == token_id))
        return token

    def add_pass(self, digest: str, added: PageGrant, *, at: datetime) -> None:
        """Also forgets those that had ended by `at`, and those of the token that would end first where it has many."""
        of_token = sa.select(_passes.c.digest).where(_passes.c.token_id == added.token_id)
        too_many = of_token.order_by(_passes.c.ends_at.desc()).offset(_MOST_PASSES - 1)
        with self._engine.begin() as connection:
            connection.execute(_passes.delete().where(sa.or_(_passes.c.ends_at <= at, _passes.c.digest.in_(too_many))))
            connection.execute(_passes.insert().values(digest=digest, **asdict(added)))

    def take_pass(self, digest: str) -> PageGrant | None:
        with self._engine.begin() as connection:
            row = connection.execute(
                _passes.delete().where(_passes.c.digest == digest).returning(*_passes.c)
            ).one_or_none()
        return _pass(row) if row is not None else None

    def find_pass(self, digest: str) -> PageGrant | None:
        with self._reading.connect() as connection:
            row = connection.execute(_passes.select().where(_passes.c.digest == digest)).one_or_none()
        return _pass(row) if row is not None else None

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


def _pass(row: sa.Row[Any]) -> PageGrant:
    return PageGrant(row.root, row.token_id, row.token_hash, row.ends_at)


def _unknown(token_id: str) -> NotFound:
    return NotFound(f"There is no token “{token_id}”", fix="penstock token list shows them")
