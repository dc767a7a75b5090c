"""Authentication and authorization of requests: callers and scopes, page grants, and the audit.

The lab's reports are pages that a browser opens by address. The cookie that opens one is valid for that page's path
alone: cookies are not bound to ports, so one for the whole API would be sent to every other server on this machine that
the same browser visits.

Every request that may change state is audited in one place for all routes and dialects. Entries are written after the
response, several in one transaction. None is dropped: failed writes are retried, and while entries are unwritten all
further changes are refused.
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
from penstock.model import DEFAULT_INSTANCE
from penstock.service.access_log import AnsweredRequest


def authenticated(request: Request) -> Caller:
    """Return the caller of this request. Raises `Unauthenticated`.

    No address is trusted, not even loopback: every account of this machine can connect from it, and so can any web page
    in a browser there.
    """
    # Set by `Guard` where the request has a token.
    identity = getattr(request.state, "identity", None)
    if isinstance(identity, Exception):
        raise identity
    caller: Caller = identity or _by_grant(request)
    request.state.caller = caller
    return caller


def presented_token(header: str) -> str | None:
    """Return the token in an `Authorization` header, or None.

    The schemes are `Bearer TOKEN` and that of IBM's on-premises clients, `ZenApiKey` with base64 of `USER:TOKEN`.
    """
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
    """Return the caller of a page that a browser opens by address, which carries a grant instead of a token."""
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
    """Return whether the browser sent the request for the user or for one of this service's own pages.

    Pages of another server on this machine are “same site” to a browser, which sends even strict cookies with their
    requests.
    """
    return request.method in ("GET", "HEAD") and request.headers.get("sec-fetch-site", "none") in (
        "none",
        "same-origin",
    )


def _needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    # Async, so that it runs on the event loop: it does not block, and needs no thread.
    async def check(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
        if not caller.may_anywhere(scope):
            raise forbidden(caller.name, scope, "")
        return caller

    return check


Reader = Annotated[Caller, Depends(_needs(Scope.READ))]
"""A caller with the scope read somewhere; the route checks the instance (`sees`, `require`)."""
Submitter = Annotated[Caller, Depends(_needs(Scope.SUBMIT))]
Administrator = Annotated[Caller, Depends(_needs(Scope.ADMINISTER))]


def usual_instance(caller: Caller) -> str:
    """The instance of a request that names none: the caller's only one, else the default one."""
    instances = caller.instances or frozenset()
    return next(iter(instances)) if len(instances) == 1 else DEFAULT_INSTANCE


GRANT_LIFETIME = timedelta(hours=1)
COOKIE_PREFIX = "penstock_access_"

_PAGE = re.compile(r"/v1/lab/reports/[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class BrowserGrant:
    """The grant of one page; `cookie` and `secret` are the cookie's name and value."""

    cookie: str
    secret: str
    path: str


class GrantStore(Protocol):
    """Store of tokens and page grants. It has digests of the grants only, so a reader of the store can open nothing."""

    def get(self, token_id: str) -> Token:
        """Raises `NotFound`."""

    def add_grant(self, digest: str, added: PageGrant, *, at: datetime) -> None:
        """Store the grant, and delete those that had expired by `at`."""

    def take_grant(self, digest: str) -> PageGrant | None:
        """Delete and return the grant, atomically: one of several concurrent calls gets it."""

    def find_grant(self, digest: str) -> PageGrant | None: ...


class BrowserGrants:
    """Page grants. Services that share `store` accept each other's.

    A grant ends with the token it was requested with: by expiry, revocation and rotation alike.
    """

    def __init__(self, store: GrantStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def grant(self, caller: Caller, path: str) -> BrowserGrant:
        """Grant the page at `path`. Raises `InvalidInput` for a path that is not such a page's."""
        if not _PAGE.fullmatch(path):
            raise InvalidInput(
                f"Access to {path[:200]} cannot be granted to a browser",
                why="only lab reports are opened by address",
                fix="send the token with the request instead",
            )
        secret, at = secrets.token_urlsafe(32), self._clock()
        added = PageGrant(path, caller.token_id, caller.secret_hash, at + GRANT_LIFETIME)
        self._store.add_grant(grant_digest("page", secret), added, at=at)
        return BrowserGrant(cookie_name(path), secret, path)

    def caller(self, path: str, cookies: Mapping[str, str]) -> Caller | None:
        """Return the caller whom the request's cookies let open `path`, if any."""
        secret = cookies.get(cookie_name(path))
        found = None if secret is None else self._store.find_grant(grant_digest("page", secret))
        if found is None or found.root != path:
            return None
        return grant_caller(found, self._store.get, at=self._clock())


def grant_caller(held: PageGrant, current: Callable[[str], Token], *, at: datetime) -> Caller | None:
    """Return the caller whose token the grant was issued with; None once either has ended.

    `current` returns a token by its id, or raises `NotFound`.
    """
    try:
        token = current(held.token_id)
    except NotFound:
        return None
    if held.ends_at <= at or not is_current(token, held.token_hash, at=at):
        return None
    return Caller(token.id, token.name, token.grants, token.secret_hash)


def cookie_name(path: str, prefix: str = COOKIE_PREFIX) -> str:
    return prefix + hashlib.sha256(path.encode()).hexdigest()[:12]


READING = frozenset({"GET", "HEAD", "OPTIONS"})
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
        """Raise `ServiceError` for a request that may change state while the audit cannot be written."""
        if self._behind and method not in READING:
            raise ServiceError(
                "Changes are refused at the moment",
                why="the audit cannot be written: the database is down, or busy",
                fix="try again later; requests that only read are answered",
            )

    def add(self, seen: AnsweredRequest) -> None:
        """Queue an entry for a request that may have changed state.

        Requests without a valid token are in the access log only, so that they cannot fill the database.
        """
        if seen.method in READING or seen.caller is None:
            return
        if self._writer is None:
            # One thread keeps the order, and keeps the writes off the event loop.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._waiting.append(_entry(seen, seen.caller))
        self._writer.submit(self._write)

    def close(self) -> None:
        """Write the remaining entries; those of a failed last attempt go to the service's log, one by one."""
        self._closing.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()
        self._closing.clear()
        for entry in self._waiting:
            _log.error("not in the audit: %s", entry.to_json())
        self._waiting.clear()

    def _write(self) -> None:
        # Entries that arrived during the last write share the next transaction.
        while entries := [self._waiting.popleft() for _ in range(len(self._waiting))]:
            if not self._stored(entries):
                self._waiting.extendleft(reversed(entries))
                if self._closing.wait(self._retry_seconds):
                    return

    def _stored(self, entries: Sequence[Audit]) -> bool:
        try:
            self._record(entries)
        except Exception:
            if not self._behind:
                _log.exception("the audit cannot be written; changes are refused until it can")
            self._behind = True
        else:
            self._behind = False
        return not self._behind


_log = logging.getLogger("penstock.service")


def _entry(seen: AnsweredRequest, actor: str) -> Audit:
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
