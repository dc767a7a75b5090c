"""Guards around the whole application, in plain ASGI: limits on bodies and time, and a budget for each caller.

A body that is too large or too deeply nested is refused before it is parsed. A request counts against its token, or
without a valid token against its client's address, so that no single client can take all connections and threads.
A streamed response ends with the validity of its token.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Caller, Token, invalid_token, is_current
from penstock.errors import InvalidInput, NotFound, PenstockError, QuotaExceeded, ServiceError
from penstock.service.access_log import AnsweredRequest
from penstock.service.auth import presented_token
from penstock.service.problems import internal_error_response, problem_response

_LOOK_AT_TOKEN_SECONDS = 5.0
_NEIGHBOURS = 64
"""The prefix length of the IPv6 network that counts as one client."""

_Holder = tuple[str, str]

UPLOAD, CATALOG, PREVIEW, RESULTS = "uploads", "requests to the catalog", "previews", "requests for results"
"""Kinds of requests with a limit of their own, as an error names them."""


@dataclass(frozen=True)
class ConcurrencyLimits:
    """Limits on concurrent requests. `threads` is the service's pool, larger than one token's requests can occupy.

    Requests that hold much more than a thread, such as files, memory or connections that all tokens share, have lower
    limits of their own. The catalog's process answers 16 at a time.
    """

    per_token: int = 256
    per_address: int = 64
    uploads_per_token: int = 8
    catalog_per_token: int = 6
    previews_per_token: int = 2
    results_per_token: int = 4
    threads: int = 320


class RequestCounts:
    """Counts of the requests in progress. Thread-safe."""

    def __init__(self, bounds: ConcurrencyLimits) -> None:
        self._bounds = bounds
        self._held: Counter[_Holder] = Counter()
        self._turn = threading.Lock()

    def begin(self, address: str, token_id: str | None) -> Slot:
        """Count a request for its valid token, or without one for its address. Raises `QuotaExceeded`."""
        holder = ("address", _network(address)) if token_id is None else ("token", token_id)
        with self._turn:
            self._take(holder)
        return Slot(self, holder)

    def move(self, slot: Slot, token_id: str) -> None:
        """Count the slot for the token instead. Raises `QuotaExceeded`."""
        holder = ("token", token_id)
        with self._turn:
            self._take(holder)
            self._give_back(slot.holder)
            slot.holder = holder

    def end(self, slot: Slot) -> None:
        with self._turn:
            self._give_back(slot.holder)

    @contextlib.contextmanager
    def counting(self, kind: str, token_id: str) -> Iterator[None]:
        """Count a request of the token that is one of a kind with a limit of its own. Raises `QuotaExceeded`."""
        holder = (kind, token_id)
        with self._turn:
            self._take(holder)
        try:
            yield
        finally:
            with self._turn:
                self._give_back(holder)

    def _take(self, holder: _Holder) -> None:
        kind, _ = holder
        most = {
            "token": self._bounds.per_token,
            "address": self._bounds.per_address,
            UPLOAD: self._bounds.uploads_per_token,
            CATALOG: self._bounds.catalog_per_token,
            PREVIEW: self._bounds.previews_per_token,
            RESULTS: self._bounds.results_per_token,
        }[kind]
        if self._held[holder] >= most:
            raise _too_many(kind, most)
        self._held[holder] += 1

    def _give_back(self, holder: _Holder) -> None:
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]


class Slot:
    """The place of one request in the counts. `holder` is the token or address it counts for."""

    def __init__(self, request_counts: RequestCounts, holder: _Holder) -> None:
        self._request_counts = request_counts
        self.holder = holder

    def belongs_to(self, token_id: str) -> None:
        """Count the request for the token that its cookie belongs to. Raises `QuotaExceeded`."""
        self._request_counts.move(self, token_id)

    def end(self) -> None:
        self._request_counts.end(self)


async def while_valid(
    pieces: AsyncGenerator[bytes, None], caller: Caller, current: Callable[[str], Token]
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces while the token that the caller presented is valid.

    Raises `Unauthenticated` some seconds after the token was revoked, rotated or has expired, also while no piece
    arrives.
    """
    clock = asyncio.get_running_loop().time
    coming = asyncio.ensure_future(_next(pieces))
    look_at = clock() + _LOOK_AT_TOKEN_SECONDS
    try:
        while True:
            await asyncio.wait([coming], timeout=max(0.0, look_at - clock()))
            if clock() >= look_at:
                await to_thread.run_sync(_require_valid, caller, current)
                look_at = clock() + _LOOK_AT_TOKEN_SECONDS
            if coming.done():
                if (piece := coming.result()) is None:
                    return
                yield piece
                coming = asyncio.ensure_future(_next(pieces))
    finally:
        if coming.done():
            await pieces.aclose()
        else:
            # Cancellation also closes the generator that it waits for.
            coming.cancel()


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    """Return the next piece; None at the end."""
    async for piece in pieces:
        return piece
    return None


def _require_valid(caller: Caller, current: Callable[[str], Token]) -> None:
    try:
        found = current(caller.token_id)
    except NotFound:
        raise invalid_token() from None
    if not is_current(found, caller.secret_hash, at=now()):
        raise invalid_token()


def _network(address: str) -> str:
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if known.version == 4 else str(ipaddress.ip_network((known, _NEIGHBOURS), strict=False))


def _too_many(kind: str, most: int) -> QuotaExceeded:
    if kind == "address":
        return QuotaExceeded(
            "Too many requests without a valid token are in progress from your address",
            why=f"the limit is {most} at a time, so that other clients are served, too",
            fix="try again in a moment, with a token: such requests count against the token alone",
        )
    counted = "requests" if kind == "token" else kind
    return QuotaExceeded(
        f"Too many {counted} of your token are in progress",
        why=f"the limit is {most} at a time, so that other clients are served, too",
        fix="try again when some have ended, or give each program a token of its own",
    )


UPLOADS = "/v1/files/"
"""The prefix of routes that read their bodies as streams and limit them themselves."""

_HEALTH = "/health/"
"""The prefix of routes that need no lookup of a token in the database, even if one is sent."""
_IDENTIFIED_AT_ONCE = 40
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


@dataclass(frozen=True)
class RequestLimits:
    """Limits on each request.

    A client that leaves a response unread for `send_seconds` is disconnected. `bodies_bytes` limits all bodies in
    memory together.
    """

    body_bytes: int = 1 << 20
    bodies_bytes: int = 64 << 20
    body_seconds: float = 30.0
    nesting: int = 32
    send_seconds: float = 60.0


_noted: ContextVar[MutableMapping[str, Any]] = ContextVar("noted")


def note_application(*, application_id: str) -> None:
    """Record the application that the present request is about, for requests whose address does not name it."""
    if (state := _noted.get(None)) is not None:
        state["application_id"] = application_id


class Guard:
    """The outermost middleware.

    `admit` gets a request's method, and raises `ServiceError` to refuse it. `identify` returns a token's caller; it may
    block, and what it raises is raised again in routes that need a caller. Without it tokens are ignored.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: RequestLimits,
        report: Callable[[AnsweredRequest], None],
        admit: Callable[[str], None] = lambda _: None,
        request_counts: RequestCounts | None = None,
        identify: Callable[[str], Caller] | None = None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._report = report
        self._admit = admit
        self._request_counts = request_counts or RequestCounts(ConcurrencyLimits())
        self._identify = identify
        # A pool of its own, so that slow routes do not delay the identification of other callers.
        self._threads = CapacityLimiter(_IDENTIFIED_AT_ONCE)
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        _noted.set(scope["state"])
        began = time.monotonic()
        status, answering = 500, False

        async def answer(message: Message) -> None:
            nonlocal status, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                present = {name.lower() for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in present]
                message["headers"] = [*message["headers"], *more, (b"x-request-id", request_id.encode())]
            # The first message waits, too: for the client to read the previous answer of a pipeline.
            with fail_after(self._limits.send_seconds):
                await send(message)

        try:
            await self._answered(scope, receive, answer, request_id)
        except (TimeoutError, asyncio.TimeoutError):
            status = 499  # the client stopped reading; returning closes its connection, which `TimeoutProtocol` aborts
        except PenstockError:
            status = 499  # raised by a stream: the response is cut off, so that the client notices
        except Exception as error:
            response = internal_error_response(error, request_id)
            if not answering:
                with contextlib.suppress(TimeoutError):
                    await response(scope, receive, answer)
        finally:
            self._report(_seen(scope, status, time.monotonic() - began))

    async def _answered(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        body = bytearray()
        slot: Slot | None = None
        try:
            try:
                slot = scope["state"]["slot"] = await self._slot(scope)
                require_plain_address(scope)
                self._require_admission(scope)
                if not scope["path"].startswith(UPLOADS):
                    receive = _replayed(await self._body(scope, receive, body), receive)
            except _Refused as refused:
                response = problem_response(
                    refused.error, refused.status, request_id=request_id, headers={"Connection": "close"}
                )
                await response(scope, receive, send)
                return
            await self._app(scope, receive, send)
        finally:
            # Only now: the route kept the body in memory until it returned.
            self._held_bytes -= len(body)
            if slot is not None:
                slot.end()

    async def _slot(self, scope: Scope) -> Slot:
        caller = await self._identified(scope)
        try:
            return self._request_counts.begin((scope.get("client") or ("",))[0], caller.token_id if caller else None)
        except QuotaExceeded as error:
            raise _Refused(429, error) from None

    async def _identified(self, scope: Scope) -> Caller | None:
        """Return the token's caller, before the body is read, so that a slow body counts against the right budget.

        An error is stored for the route to raise, if it needs a caller.
        """
        text = presented_token(dict(scope["headers"]).get(b"authorization", b"").decode("latin-1"))
        if text is None or self._identify is None or scope["path"].startswith(_HEALTH):
            return None
        try:
            found = await to_thread.run_sync(self._identify, text, limiter=self._threads)
        except Exception as error:
            scope["state"]["identity"] = error
            return None
        scope["state"]["identity"] = found
        return found

    def _require_admission(self, scope: Scope) -> None:
        try:
            self._admit(scope["method"])
        except ServiceError as error:
            raise _Refused(503, error) from None

    async def _body(self, scope: Scope, receive: Receive, body: bytearray) -> bytes:
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self._limits.body_bytes:
            raise _too_large(self._limits)
        deadline = time.monotonic() + self._limits.body_seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except (TimeoutError, asyncio.TimeoutError):
                late = InvalidInput("The body did not arrive", why=f"the limit is {self._limits.body_seconds:.0f} s")
                raise _Refused(408, late) from None
            body += (piece := message.get("body", b""))
            self._held_bytes += len(piece)
            if self._held_bytes > self._limits.bodies_bytes:
                raise _Refused(503, ServiceError("The service is overloaded", fix="try again later"))
            if len(body) > self._limits.body_bytes:
                raise _too_large(self._limits)
            if not message.get("more_body"):
                break
        if nesting_depth(bytes(body), self._limits.nesting) > self._limits.nesting:
            deep = InvalidInput("The body is nested too deeply", why=f"the limit is {self._limits.nesting} levels")
            raise _Refused(400, deep)
        return bytes(body)


class _Refused(Exception):
    def __init__(self, status: int, error: PenstockError) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error


def require_plain_address(scope: Scope) -> None:
    """Refuse control characters, which neither the database nor logs nor files can store."""
    path, query = scope["path"], scope.get("query_string", b"")
    if any(character < " " or character == "\x7f" for character in path) or re.search(
        rb"%[01][0-9a-fA-F]|%7[fF]", query
    ):
        raise _Refused(400, InvalidInput("The address contains a control character", fix="remove it"))


def nesting_depth(body: bytes, enough: int) -> int:
    """Return the nesting depth of a JSON text, counted no further than just beyond `enough`.

    Parsers recurse, so the depth has to be known before the text is parsed. Brackets inside strings do not count.
    """
    if body.count(b"[") + body.count(b"{") <= enough:
        return 0
    depth = deepest = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", body)):
        depth += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > enough:
            break
    return deepest


def _too_large(limits: RequestLimits) -> _Refused:
    return _Refused(
        413,
        InvalidInput(
            "The body is too large",
            why=f"the limit is {limits.body_bytes >> 10} KiB",
            fix="put data into the lake, and upload files with PUT /v1/files",
        ),
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()  # only the disconnect can still arrive
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _seen(scope: Scope, status: int, seconds: float) -> AnsweredRequest:
    state, route = scope["state"], scope.get("route")
    caller = state.get("caller")
    return AnsweredRequest(
        state["request_id"],
        scope["method"],
        scope["path"],
        getattr(route, "path", "none"),
        status,
        seconds,
        (scope.get("client") or ("",))[0],
        caller.name if caller is not None else None,
        caller.token_id if caller is not None else None,
        state.get("application_id") or scope.get("path_params", {}).get("application_id"),
    )
