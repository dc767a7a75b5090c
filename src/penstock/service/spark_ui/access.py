"""Access to Spark's own pages, which run users' code and have an origin of their own: tickets, cookies, and the proxy.

The console's origin issues a ticket for the pages of one application, or for those of one lake's history server. It is
valid once, for a minute. The pages' origin exchanges it for a cookie that is valid below that one path, for an hour.
Both end with the token they were requested with: by expiry, revocation and rotation alike. No token is ever sent to the
pages' origin.

The proxy forwards no credential of the visitor (no token, no cookie) to a page's server. Other applications' pages
share the origin, so a content security policy confines each page to its own path, whatever its scripts try.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import unquote, urlsplit

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from penstock.engine.tokens import Caller, PageGrant, grant_digest
from penstock.errors import InvalidInput, ServiceError, Unauthenticated
from penstock.service import auth
from penstock.service.auth import GrantStore, grant_caller

_TO_SPARK = ("accept", "accept-encoding", "accept-language", "if-none-match", "if-modified-since", "range")
_FROM_SPARK = (
    "content-type",
    "content-encoding",
    "content-length",
    "content-range",
    "content-disposition",
    "cache-control",
    "etag",
    "last-modified",
)
_KEY = "x-penstock-key"
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# A limit of all connections would be one token's to use up; that of its requests is in `guards.ConcurrencyLimits`.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=16)


@dataclass(frozen=True)
class Upstream:
    """A web server on this machine, served below `prefix` (without a trailing slash)."""

    host: str
    port: int
    prefix: str
    key: str | None = field(default=None, repr=False)
    """The key that its requests need, if any."""


def content_policy(origin: str, prefix: str) -> str:
    """Return the policy that confines a page's scripts to this path, without new windows.

    The page keeps the origin of Spark's pages: with an opaque one its scripts could not fetch their own data.
    """
    own = f"{origin}{prefix}/"
    return "; ".join(
        [
            "sandbox allow-scripts allow-same-origin allow-forms allow-modals allow-downloads",
            f"default-src {own}",
            f"script-src {own} 'unsafe-inline'",
            f"style-src {own} 'unsafe-inline'",
            f"img-src {own} data:",
            f"font-src {own} data:",
            f"connect-src {own}",
            f"form-action {own}",
            "worker-src 'none'",
            "frame-src 'none'",
            "object-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )


def request_origin(scheme: str, host: str) -> str:
    """Return the service's origin for the visitor's browser.

    Raises `InvalidInput` for a malformed host: it goes into response headers.
    """
    if not _HOST.fullmatch(host):
        raise InvalidInput("The header Host is malformed", fix="send the service's own name and port")
    return f"{scheme}://{host}"


def path_below(raw_path: bytes, prefix: str) -> str:
    """Return the path below `prefix`, still percent-encoded. Raises `InvalidInput` for one that leaves the prefix."""
    path = raw_path.decode("ascii", "replace")
    below = "/" + path.removeprefix(prefix).lstrip("/")
    if not path.startswith(prefix) or _climbs(below):
        raise InvalidInput("There is no such page", why="its path leaves the application's pages")
    return below


def confined_location(value: str, upstream: Upstream) -> str | None:
    """Return Spark's redirection as one within the prefix; None for one that leads out of it.

    Browsers ignore the paths of a content security policy after a redirection: with “..” in it, a page could fetch the
    pages of another application, or post to them.
    """
    target = urlsplit(value)
    if (target.netloc and target.netloc != f"{upstream.host}:{upstream.port}") or _climbs(target.path):
        return None
    within = target.path == upstream.prefix or target.path.startswith(f"{upstream.prefix}/")
    path = target.path if within else f"{upstream.prefix}/{target.path.lstrip('/')}"
    return f"{path}?{target.query}" if target.query else path


def path_segments(path: str) -> list[str]:
    """Split a path as Spark's server does: decoded, and each part without its parameters after a semicolon."""
    return [part.partition(";")[0] for part in unquote(path).replace("\\", "/").removeprefix("/").split("/")]


def _climbs(path: str) -> bool:
    """Return whether a browser or a server may read a part of the path as the parent directory."""
    return ".." in path_segments(path)


class Proxy:
    """A reverse proxy to Spark's pages, with one pool of connections."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # The environment's proxies are not for loopback.
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, transport=transport)

    async def show(self, request: Request, upstream: Upstream, *, origin: str) -> StreamingResponse:
        """Return the requested page. `origin` is this server's, as the visitor's browser sees it.

        Raises `InvalidInput`, or `ServiceError` where Spark does not answer.
        """
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        address = httpx.URL(
            scheme="http",
            host=upstream.host,
            port=upstream.port,
            raw_path=_target(path_below(raw_path, upstream.prefix), request.url.query),
        )
        headers = {
            "accept-encoding": "identity",
            **_chosen(request.headers, _TO_SPARK),
            # Spark's pages prefix their links with it.
            "x-forwarded-context": upstream.prefix,
            **({} if upstream.key is None else {_KEY: upstream.key}),
        }
        try:
            answer = await self._client.send(
                self._client.build_request(request.method, address, headers=headers), stream=True
            )
        except httpx.HTTPError as error:
            raise ServiceError(
                "Spark's web interface does not answer", why=type(error).__name__, fix="try again in a moment"
            ) from error
        shown = _chosen(answer.headers, _FROM_SPARK)
        if (moved := answer.headers.get("location")) and (within := confined_location(moved, upstream)):
            shown["location"] = within
        shown["content-security-policy"] = content_policy(origin, upstream.prefix)
        shown["x-content-type-options"] = "nosniff"
        shown["referrer-policy"] = "same-origin"
        return StreamingResponse(
            _pieces(answer), answer.status_code, headers=shown, background=BackgroundTask(answer.aclose)
        )

    async def close(self) -> None:
        await self._client.aclose()


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        # If the visitor disconnects, no background task runs.
        await answer.aclose()


def _target(path: str, query: str) -> bytes:
    return (f"{path}?{query}" if query else path).encode("ascii")


def _chosen(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


@asynccontextmanager
async def closing_proxy(app: FastAPI) -> AsyncIterator[None]:
    """The lifespan of routers that use the proxy: closes it at the end."""
    try:
        yield
    finally:
        if isinstance(made := getattr(app.state, "proxy", None), Proxy):
            await made.close()


def _proxy(request: Request) -> Proxy:
    state = request.app.state
    if not hasattr(state, "proxy"):
        state.proxy = Proxy()
    made: Proxy = state.proxy
    return made


CurrentProxy = Annotated[Proxy, Depends(_proxy)]
"""The application's proxy, created at its first use."""


TICKET_LIFETIME = timedelta(minutes=1)
COOKIE_LIFETIME = timedelta(hours=1)
COOKIE = "penstock_spark_"
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class SparkTicket:
    secret: str
    ends_at: datetime


@dataclass(frozen=True)
class SparkCookie:
    """A cookie for the pages below the path `root`."""

    name: str
    secret: str
    root: str


class SparkUi:
    """Tickets and cookies. Services that share `store` accept each other's."""

    def __init__(self, store: GrantStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def ticket(self, caller: Caller, root: str) -> SparkTicket:
        """Issue a ticket for the pages below `root`, after the caller's right to see them was checked."""
        added = PageGrant(root, caller.token_id, caller.secret_hash, self._clock() + TICKET_LIFETIME)
        return SparkTicket(self._add("ticket", added), added.ends_at)

    def cookie(self, ticket: str) -> SparkCookie:
        """Exchange a ticket, which is void afterwards, for a cookie. Raises `Unauthenticated`."""
        taken = self._store.take_grant(grant_digest("ticket", ticket))
        if taken is None or self._caller(taken) is None:
            raise Unauthenticated(
                "This link is no longer valid",
                why="a link opens Spark's pages once, within a minute, while the token that requested it is valid",
                fix="open the pages from the console again, or request another link: POST /v1/applications/ID/ui",
            )
        renewed = PageGrant(taken.root, taken.token_id, taken.token_hash, self._clock() + COOKIE_LIFETIME)
        return SparkCookie(cookie_name(taken.root), self._add("cookie", renewed), taken.root)

    def caller(self, root: str, cookies: Mapping[str, str]) -> Caller:
        """Return the caller whom the request's cookies let see the pages below `root`. Raises `Unauthenticated`.

        The caller has the token's present rights, which are checked for every page.
        """
        secret = cookies.get(cookie_name(root), "")
        found = self._store.find_grant(grant_digest("cookie", secret))
        if found is not None and found.root == root and (caller := self._caller(found)) is not None:
            return caller
        raise Unauthenticated(
            "These pages are not open to this browser",
            why="each application's pages are opened separately, for an hour, while the token is valid",
            fix="open them from the console again",
        )

    def _add(self, kind: str, added: PageGrant) -> str:
        secret = secrets.token_urlsafe(32)
        self._store.add_grant(grant_digest(kind, secret), added, at=self._clock())
        return secret

    def _caller(self, found: PageGrant) -> Caller | None:
        return grant_caller(found, self._store.get, at=self._clock())


@dataclass(frozen=True)
class SparkOrigin:
    """The origin of the pages: a port of the service's own host, or `url`, the origin in front of that port."""

    port: int
    url: str | None = None

    def for_console(self, scheme: str, host: str) -> str:
        """Return the pages' origin for a browser that has the console at `scheme://host`.

        Raises `InvalidInput` for a malformed host, and `ServiceError` where both are one origin: the pages could read
        the console's token.
        """
        console = request_origin(scheme, host)
        found = self.url or f"{scheme}://{_without_port(host)}:{self.port}"
        if _compared(found) == _compared(console):
            raise ServiceError(
                "Spark's pages are not available",
                why=f"{found} is the console's own origin, where pages that run users' code could read its token",
                fix="name the origin in front of --spark-ui-port: penstock serve --spark-ui-url https://ANOTHER-HOST",
            )
        return found


def validate_url(text: str) -> str:
    """Return the origin in an administrator's setting. Raises `InvalidInput` for any other text."""
    scheme, _, host = text.rstrip("/").partition("://")
    try:
        if scheme in _DEFAULT_PORTS and urlsplit(text).port != 0:
            return request_origin(scheme, host)
    except (ValueError, InvalidInput):
        pass
    raise InvalidInput(
        f"--spark-ui-url {text} is not an origin",
        why="an origin is a scheme, a host and at most a port: a path would not isolate Spark's pages from others",
        fix="--spark-ui-url https://spark.example.com",
    )


def application_root(application_id: str) -> str:
    return f"/applications/{application_id}/"


def lake_root(lake: str) -> str:
    """Return the path of a lake's history server, which shows the applications of all instances."""
    return f"/lakes/{lake}/"


def cookie_name(root: str) -> str:
    return auth.cookie_name(root, COOKIE)


def _without_port(host: str) -> str:
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _compared(origin: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(origin)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
