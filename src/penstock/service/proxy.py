"""Showing the pages of a Spark web server on loopback below a path of another origin, and locked in there.

Those pages come from a process that runs users' code. So nothing of the visitor's reaches it (no token, no cookie), and
what it answers may use nothing of the origin but its own path, since other applications' pages are there too: the
policy below sees to that in the visitor's browser, whatever the page's scripts try.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import unquote, urlsplit

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from penstock.errors import InvalidInput, ServiceError

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
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16)


@dataclass(frozen=True)
class Upstream:
    """A web server on this machine, shown below `prefix` (which has no slash at its end)."""

    host: str
    port: int
    prefix: str
    key: str | None = field(default=None, repr=False)
    """What it demands of those who ask."""


def content_policy(origin: str, prefix: str) -> str:
    """Scripts of the page reach this path and nothing else, open no window, and leave nothing behind.

    The page keeps the origin that Spark's pages have: from an opaque one, its scripts could not fetch their own data.
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


def origin_of(scheme: str, host: str) -> str:
    """As the visitor's browser sees this service. `InvalidInput` where the header is no host: it goes into a header."""
    if not _HOST.fullmatch(host):
        raise InvalidInput("The header Host is no host", fix="give the service's own name and port")
    return f"{scheme}://{host}"


def path_below(raw_path: bytes, prefix: str) -> str:
    """The part of the request's path that is Spark's, still encoded as it came. `InvalidInput` where it climbs out."""
    path = raw_path.decode("ascii", "replace")
    below = "/" + path.removeprefix(prefix).lstrip("/")
    if not path.startswith(prefix) or _climbs(below):
        raise InvalidInput("There is no such page", why="its path leaves the place it is in")
    return below


def location(value: str, upstream: Upstream) -> str | None:
    """Spark's redirection as one within the prefix; None for one to anywhere else.

    Browsers ignore the paths of a content security policy after a redirection: with “..” in it, a page could fetch the
    pages of another application, or post to them.
    """
    target = urlsplit(value)
    if (target.netloc and target.netloc != f"{upstream.host}:{upstream.port}") or _climbs(target.path):
        return None
    within = target.path == upstream.prefix or target.path.startswith(f"{upstream.prefix}/")
    path = target.path if within else f"{upstream.prefix}/{target.path.lstrip('/')}"
    return f"{path}?{target.query}" if target.query else path


def segments(path: str) -> list[str]:
    """The parts of a path as Spark's server takes them: decoded, and without what follows a semicolon in each."""
    return [part.partition(";")[0] for part in unquote(path).replace("\\", "/").removeprefix("/").split("/")]


def _climbs(path: str) -> bool:
    """Whether a browser or a server may take a part of the path for the directory above."""
    return ".." in segments(path)


class Proxy:
    """One client for all that is shown; its connections are few and reused."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # What the environment says of proxies is not for loopback.
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, transport=transport)

    async def show(self, request: Request, upstream: Upstream, *, origin: str) -> StreamingResponse:
        """The page the request asks for. `origin` is this server's, as the visitor's browser sees it.

        Raises `InvalidInput`, or `ServiceError` where Spark does not answer."""
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
            # What Spark's pages put before their links.
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
        if (moved := answer.headers.get("location")) and (within := location(moved, upstream)):
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
        # A visitor who leaves half-way ends this here, and no background task is run then.
        await answer.aclose()


def _target(path: str, query: str) -> bytes:
    return (f"{path}?{query}" if query else path).encode("ascii")


def _chosen(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


@asynccontextmanager
async def closing_proxy(app: FastAPI) -> AsyncIterator[None]:
    """The lifespan of routers that show Spark's pages."""
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


ProxyOf = Annotated[Proxy, Depends(_proxy)]
"""The application's one proxy, made when it is first needed."""
