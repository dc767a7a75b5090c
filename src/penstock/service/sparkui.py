"""Leave to look at Spark's own pages, which run users' code and have an origin of their own: policy alone.

The console's origin gives a ticket for the pages of one application, or for those of one lake's history server. It is
good once, and for a minute. The pages' origin exchanges it for a cookie that is good below that one path, for an hour.
Both end with the token that they were asked for with: by expiry, revocation and rotation alike. No token is sent to the
pages' origin, which would not know what to do with one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from penstock.engine.tokens import Caller, PageGrant, grant_digest
from penstock.errors import InvalidInput, ServiceError, Unauthenticated
from penstock.service import browsergrants
from penstock.service.browsergrants import PassStore, caller_of
from penstock.service.proxy import origin_of

TICKET_LASTS = timedelta(minutes=1)
COOKIE_LASTS = timedelta(hours=1)
COOKIE = "penstock_spark_"
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Ticket:
    secret: str
    ends_at: datetime


@dataclass(frozen=True)
class Cookie:
    """`root` is the path that it is for."""

    name: str
    secret: str
    root: str


class SparkUi:
    """Any number of services that share `store` know each other's tickets and cookies."""

    def __init__(self, store: PassStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def ticket(self, caller: Caller, root: str) -> Ticket:
        """For the pages below `root`, which the caller was found to be allowed to see."""
        added = PageGrant(
            root, caller.token_id, self._store.get(caller.token_id).secret_hash, self._clock() + TICKET_LASTS
        )
        return Ticket(self._add("ticket", added), added.ends_at)

    def cookie(self, ticket: str) -> Cookie:
        """In exchange for a ticket, which is void then. Raises `Unauthenticated`."""
        taken = self._store.take_pass(grant_digest("ticket", ticket))
        if taken is None or self._caller(taken) is None:
            raise Unauthenticated(
                "This link opens nothing any more",
                why="each opens Spark's pages once, within a minute, and while the token that asked for it is valid",
                fix="open the pages from the console again, or ask for another link: POST /v1/applications/ID/ui",
            )
        renewed = PageGrant(taken.root, taken.token_id, taken.token_hash, self._clock() + COOKIE_LASTS)
        return Cookie(cookie_name(taken.root), self._add("cookie", renewed), taken.root)

    def caller(self, root: str, cookies: Mapping[str, str]) -> Caller:
        """Who may look at the pages below `root`, by the cookies of the request. Raises `Unauthenticated`.

        The rights are those that the token has now: what it may see is looked at for each page.
        """
        secret = cookies.get(cookie_name(root), "")
        found = self._store.find_pass(grant_digest("cookie", secret))
        if found is not None and found.root == root and (caller := self._caller(found)) is not None:
            return caller
        raise Unauthenticated(
            "These pages are not open to this browser",
            why="they are opened one application at a time, for an hour, and while the token is valid",
            fix="open them from the console again",
        )

    def _add(self, kind: str, added: PageGrant) -> str:
        secret = secrets.token_urlsafe(32)
        self._store.add_pass(grant_digest(kind, secret), added, at=self._clock())
        return secret

    def _caller(self, found: PageGrant) -> Caller | None:
        return caller_of(found, self._store.get, at=self._clock())


@dataclass(frozen=True)
class SparkOrigin:
    """Where the pages are: a port of the service's own host, or `url`, what is in front of that port."""

    port: int
    url: str | None = None

    def seen_from(self, scheme: str, host: str) -> str:
        """The pages' origin for a browser that has the console at `scheme://host`. Raises `InvalidInput` where the host
        is none, and `ServiceError` where both would be one origin: the pages could read the console's token then."""
        console = origin_of(scheme, host)
        found = self.url or f"{scheme}://{_without_port(host)}:{self.port}"
        if _compared(found) == _compared(console):
            raise ServiceError(
                "Spark's pages are not shown",
                why=f"{found} is the console's own origin, and pages that run users' code could read its token there",
                fix="penstock serve --spark-ui-url https://ANOTHER-HOST names what is in front of --spark-ui-port",
            )
        return found


def checked_url(text: str) -> str:
    """The origin that an administrator names. Raises `InvalidInput` where the text is more, or less, than one."""
    scheme, _, host = text.rstrip("/").partition("://")
    try:
        if scheme in _DEFAULT_PORTS and urlsplit(text).port != 0:
            return origin_of(scheme, host)
    except (ValueError, InvalidInput):
        pass
    raise InvalidInput(
        f"--spark-ui-url {text} is no origin",
        why="it is a scheme, a host and at most a port: a path would not keep Spark's pages apart from others",
        fix="--spark-ui-url https://spark.example.com",
    )


def application_root(application_id: str) -> str:
    return f"/applications/{application_id}/"


def lake_root(lake: str) -> str:
    """Of the history server over a lake, with the applications of all instances."""
    return f"/lakes/{lake}/"


def cookie_name(root: str) -> str:
    return browsergrants.cookie_name(root, COOKIE)


def _without_port(host: str) -> str:
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _compared(origin: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(origin)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
