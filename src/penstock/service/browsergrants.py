"""Pages that a browser opens by their address, where it sends no token: each is granted by itself, for an hour.

The lab's reports are whole pages of their own. The cookie that opens one is sent for that page's path alone, and is
worth nothing anywhere else: cookies do not know ports, so one for the whole API would be shown to every other server on
this machine that the same browser visits.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.errors import InvalidInput, NotFound
from penstock.service.access import Caller
from penstock.service.tokens import Token, holds

LASTS = timedelta(hours=1)
COOKIE = "penstock_access_"

_MOST_GRANTS = 10_000
_PAGE = re.compile(r"/v1/lab/reports/[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class Grant:
    """`cookie` and `secret` are the cookie's name and value."""

    cookie: str
    secret: str
    path: str


@dataclass(frozen=True)
class Pass:
    """Leave to open a page, or all pages below one, with the rights of the token while it has that secret."""

    root: str
    token_id: str
    token_hash: str
    ends_at: datetime


class BrowserGrants:
    """Kept by this process alone: after a restart a page is simply opened again. `token` finds one by its id, or raises
    `NotFound`.

    A grant ends with the token it was asked for with: by expiry, revocation and rotation alike.
    """

    def __init__(self, token: Callable[[str], Token], clock: Callable[[], datetime]) -> None:
        self._token = token
        self._clock = clock
        self._held: dict[str, Pass] = {}
        self._turn = threading.Lock()

    def grant(self, caller: Caller, path: str) -> Grant:
        """For the page at `path`. Raises `InvalidInput` where that is no such page."""
        if not _PAGE.fullmatch(path):
            raise InvalidInput(
                f"Access to {path[:200]} cannot be granted to a browser",
                why="only a lab report is opened by its address",
                fix="send the token with the request instead",
            )
        secret_hash = self._token(caller.token_id).secret_hash
        secret = secrets.token_urlsafe(32)
        now = self._clock()
        with self._turn:
            self._forget(now)
            self._held[secret] = Pass(path, caller.token_id, secret_hash, now + LASTS)
        return Grant(cookie_name(path), secret, path)

    def caller(self, path: str, cookies: Mapping[str, str]) -> Caller | None:
        """Who may open `path`, by the cookies that came with the request."""
        for name, secret in cookies.items():
            held = self._held.get(secret) if name.startswith(COOKIE) else None
            if held is not None and path == held.root and (found := caller_of(held, self._token, at=self._clock())):
                return found
        return None

    def _forget(self, now: datetime) -> None:
        """What has ended; and the oldest, where there are too many."""
        self._held = {secret: held for secret, held in self._held.items() if held.ends_at > now}
        while len(self._held) >= _MOST_GRANTS:
            del self._held[next(iter(self._held))]


def caller_of(held: Pass, current: Callable[[str], Token], *, at: datetime) -> Caller | None:
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
