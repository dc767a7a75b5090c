"""Pages that a browser opens by their address, where it sends no token: each is granted by itself, for an hour.

The lab's reports are whole pages of their own. The cookie that opens one is sent for that page's path alone, and is
worth nothing anywhere else: cookies do not know ports, so one for the whole API would be shown to every other server on
this machine that the same browser visits.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from penstock.engine.tokens import Caller, PageGrant, Token, grant_digest, holds
from penstock.errors import InvalidInput, NotFound

LASTS = timedelta(hours=1)
COOKIE = "penstock_access_"

_PAGE = re.compile(r"/v1/lab/reports/[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class Grant:
    """`cookie` and `secret` are the cookie's name and value."""

    cookie: str
    secret: str
    path: str


class PassStore(Protocol):
    """Store of tokens and passes. Passes are found by a digest: whoever reads the store can open nothing."""

    def get(self, token_id: str) -> Token:
        """Raises `NotFound`."""

    def add_pass(self, digest: str, added: PageGrant, *, at: datetime) -> None:
        """Keep it, and forget those that had ended by `at`."""

    def take_pass(self, digest: str) -> PageGrant | None:
        """Forget it and return it: of several who ask, one gets it."""

    def find_pass(self, digest: str) -> PageGrant | None: ...


class BrowserGrants:
    """Any number of services that share `store` know each other's grants.

    A grant ends with the token it was asked for with: by expiry, revocation and rotation alike.
    """

    def __init__(self, store: PassStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def grant(self, caller: Caller, path: str) -> Grant:
        """For the page at `path`. Raises `InvalidInput` where that is no such page."""
        if not _PAGE.fullmatch(path):
            raise InvalidInput(
                f"Access to {path[:200]} cannot be granted to a browser",
                why="only a lab report is opened by its address",
                fix="send the token with the request instead",
            )
        secret, at = secrets.token_urlsafe(32), self._clock()
        added = PageGrant(path, caller.token_id, self._store.get(caller.token_id).secret_hash, at + LASTS)
        self._store.add_pass(grant_digest("page", secret), added, at=at)
        return Grant(cookie_name(path), secret, path)

    def caller(self, path: str, cookies: Mapping[str, str]) -> Caller | None:
        """Who may open `path`, by the cookies that came with the request."""
        secret = cookies.get(cookie_name(path))
        found = None if secret is None else self._store.find_pass(grant_digest("page", secret))
        if found is None or found.root != path:
            return None
        return caller_of(found, self._store.get, at=self._clock())


def caller_of(held: PageGrant, current: Callable[[str], Token], *, at: datetime) -> Caller | None:
    """The caller whose token the pass was given for; None once either has ended. `current` finds a token by its id, or
    raises `NotFound`."""
    try:
        token = current(held.token_id)
    except NotFound:
        return None
    if held.ends_at <= at or not holds(token, held.token_hash, at=at):
        return None
    return Caller(token.id, token.name, token.grants)


def cookie_name(path: str, prefix: str = COOKIE) -> str:
    return prefix + hashlib.sha256(path.encode()).hexdigest()[:12]
