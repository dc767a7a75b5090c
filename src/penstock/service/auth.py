"""Authentication and authorization of requests: callers and scopes, page grants, and the audit.

The lab's reports are whole pages of their own. The cookie that opens one is sent for that page's path alone, and is
worth nothing anywhere else: cookies do not know ports, so one for the whole API would be shown to every other server on
this machine that the same browser visits.

Every request that may change something is audited in one place for all routes and dialects. Entries are written behind
the answer, several in one transaction. None is dropped: those that could not be written are kept and tried again, and
until they are written nothing more may be changed.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Protocol

from fastapi import Depends, Request

from penstock.engine.repository.applications import now
from penstock.engine.repository.audit import Audit
from penstock.engine.tokens import Caller, PageGrant, Scope, Token, forbidden, grant_digest, is_current
from penstock.errors import InvalidInput, NotFound, ServiceError, Unauthenticated
from penstock.service.access_log import Seen


def authenticated(request: Request) -> Caller:
    """The caller of this request. Raises `Unauthenticated`.

    Nothing is trusted because of where it comes from: every account of a machine can reach its loopback addresses,
    and so can any web page in a browser on it.
    """
    # What `Guard` found by the token; nothing where none was sent.
    identity = getattr(request.state, "identity", None)
    if isinstance(identity, Exception):
        raise identity
    caller: Caller = identity or _by_grant(request)
    request.state.caller = caller
    return caller


def presented(header: str) -> str | None:
    """The token in an `Authorization` header: `Bearer TOKEN`, or as IBM's clients on premises write it,
    `ZenApiKey` with base64 of `USER:TOKEN`. None where there is none."""
    kind, _, text = header.partition(" ")
    if kind.lower() == "bearer":
        return text.strip() or None
    if kind.lower() == "zenapikey":
        try:
            return base64.b64decode(text.strip(), validate=True).decode("ascii").partition(":")[2] or None
        except ValueError:
            return None
    return None


def _by_grant(request: Request) -> Caller:
    """What a browser opens by address carries no token: it may have been granted that one path."""
    grants = request.app.state.service.browser_grants
    if _is_own(request):
        found: Caller | None = grants.caller(request.url.path, request.cookies)
        if found is not None:
            request.state.slot.belongs_to(found.token_id)
            return found
    raise Unauthenticated(
        "This needs a token",
        why="the request has no header “Authorization: Bearer TOKEN”",
        fix="penstock token create NAME makes one; with the CLI, PENSTOCK_TOKEN_FILE names the file it is in",
    )


def _is_own(request: Request) -> bool:
    """Whether no other page than this service's own made the browser ask.

    Another server on this machine is the “same site” to a browser, which sends it strict cookies too.
    """
    return request.method in ("GET", "HEAD") and request.headers.get("sec-fetch-site", "none") in (
        "none",
        "same-origin",
    )


def _needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    # On the event loop, as it asks nobody: a thread would have to be waited for.
    async def check(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
        if not caller.may_anywhere(scope):
            raise forbidden(caller.name, scope, "")
        return caller

    return check


Reader = Annotated[Caller, Depends(_needs(Scope.READ))]
"""May read something; the route asks about the instance (`sees`, `require`)."""
Submitter = Annotated[Caller, Depends(_needs(Scope.SUBMIT))]
Administrator = Annotated[Caller, Depends(_needs(Scope.ADMINISTER))]


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
    if held.ends_at <= at or not is_current(token, held.token_hash, at=at):
        return None
    return Caller(token.id, token.name, token.grants)


def cookie_name(path: str, prefix: str = COOKIE) -> str:
    return prefix + hashlib.sha256(path.encode()).hexdigest()[:12]


_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_RETRY_SECONDS = 1.0


class Auditor:
    """Writes audit entries with `record`, in order and apart from the requests; what fails is retried."""

    def __init__(self, record: Callable[[Sequence[Audit]], None], retry_seconds: float = _RETRY_SECONDS) -> None:
        self._record = record
        self._retry_seconds = retry_seconds
        self._waiting: deque[Audit] = deque()
        self._writer: ThreadPoolExecutor | None = None
        self._behind = False
        self._closing = threading.Event()

    def admit(self, method: str) -> None:
        """Raise `ServiceError` where a request would change something that could not be audited now."""
        if self._behind and method not in _READING:
            raise ServiceError(
                "Nothing can be changed at the moment",
                why="the audit cannot be written: its database is away, or busy",
                fix="ask again in a while; reading goes on",
            )

    def add(self, seen: Seen) -> None:
        """Who has no valid token is nobody: such requests are in the journal, where they cost no record."""
        if seen.method in _READING or seen.caller is None:
            return
        if self._writer is None:
            # One thread: in order, and beside the event loop.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._waiting.append(_entry(seen, seen.caller))
        self._writer.submit(self._write)

    def close(self) -> None:
        """Returns when all is written, or the last try has failed; then the journal has each entry."""
        self._closing.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()
        self._closing.clear()
        for entry in self._waiting:
            _log.error("not in the audit: %s", entry.to_json())
        self._waiting.clear()

    def _write(self) -> None:
        # What came while the last ones were written goes together: one transaction for as many as there are.
        while entries := [self._waiting.popleft() for _ in range(len(self._waiting))]:
            if not self._written(entries):
                self._waiting.extendleft(reversed(entries))
                if self._closing.wait(self._retry_seconds):
                    return

    def _written(self, entries: Sequence[Audit]) -> bool:
        try:
            self._record(entries)
        except Exception:
            if not self._behind:
                _log.exception("the audit cannot be written; until it is, nothing may be changed")
            self._behind = True
        else:
            self._behind = False
        return not self._behind


_log = logging.getLogger("penstock.service")


def _entry(seen: Seen, actor: str) -> Audit:
    return Audit(
        now(),
        actor,
        f"{seen.method} {seen.route}",
        subject=seen.application_id or seen.path,
        outcome=outcome(seen.status),
        address=seen.client,
        detail={"status": seen.status, "request": seen.request_id, "token": seen.token_id},
    )


def outcome(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"
