"""What every request passes before a route sees it: bounds on its body, its time and its bytes; a name for the journal.

Plain ASGI, around the whole application: a body that is too large or too deep is refused before anything parses it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.engine.tokens import Caller
from penstock.errors import InvalidInput, PenstockError, QuotaExceeded, ServiceError
from penstock.service.access import presented
from penstock.service.journal import Seen
from penstock.service.problems import defect, problem
from penstock.service.underway import Bounds, Slot, UnderWay

UPLOADS = "/v1/files/"
"""Below it bodies are streamed, and bounded by the route."""

_HEALTH = "/health/"
"""Answered without asking the database, also where a token is sent along."""
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
class Limits:
    """`send_seconds` is how long a client may leave an answer unread before it is hung up on.

    `bodies_bytes` is the most that all bodies under way may have together: who they are from is not known yet.
    """

    body_bytes: int = 1 << 20
    bodies_bytes: int = 64 << 20
    body_seconds: float = 30.0
    nesting: int = 32
    send_seconds: float = 60.0


_noted: ContextVar[MutableMapping[str, Any]] = ContextVar("noted")


def note(*, application_id: str) -> None:
    """Say which application the present request is about, where its address does not."""
    if (state := _noted.get(None)) is not None:
        state["application_id"] = application_id


class Guard:
    """`admit` is given a request's method, and raises a `ServiceError` where nothing may be asked in this way now.
    `identify` tells whose a token is, and raises what the route is to tell; it may block. Without it none is looked at.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        tell: Callable[[Seen], None],
        admit: Callable[[str], None] = lambda _: None,
        under_way: UnderWay | None = None,
        identify: Callable[[str], Caller] | None = None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._tell = tell
        self._admit = admit
        self._under_way = under_way or UnderWay(Bounds())
        self._identify = identify
        # Of their own: what is slow must not keep everybody else from being known.
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
                given = {name.lower() for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in given]
                message["headers"] = [*message["headers"], *more, (b"x-request-id", request_id.encode())]
            # A task for each message is worth it only where there can be many.
            if message.get("more_body"):
                await asyncio.wait_for(send(message), self._limits.send_seconds)
            else:
                await send(message)

        try:
            await self._answered(scope, receive, answer, request_id)
        except (TimeoutError, asyncio.TimeoutError):
            status = 499  # the client stopped reading; ending here closes its connection
        except PenstockError:
            status = 499  # amid an answer: it is cut off, so that its end is not taken for all there was
        except Exception as error:
            response = defect(error, request_id)
            if not answering:
                await response(scope, receive, answer)
        finally:
            self._tell(_seen(scope, status, time.monotonic() - began))

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
                response = problem(
                    refused.error, refused.status, request_id=request_id, headers={"Connection": "close"}
                )
                await response(scope, receive, send)
                return
            await self._app(scope, receive, send)
        finally:
            # Not before: the route still has it.
            self._held_bytes -= len(body)
            if slot is not None:
                slot.end()

    async def _slot(self, scope: Scope) -> Slot:
        caller = await self._identified(scope)
        try:
            return self._under_way.begin((scope.get("client") or ("",))[0], caller.token_id if caller else None)
        except QuotaExceeded as error:
            raise _Refused(429, error) from None

    async def _identified(self, scope: Scope) -> Caller | None:
        """Who asks, by the token: before the body is waited for, so that no stranger makes others wait with him.

        What is wrong with a token, or with finding it, is for the route to tell, where it needs one.
        """
        text = presented(dict(scope["headers"]).get(b"authorization", b"").decode("latin-1"))
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
                told = InvalidInput("The body did not arrive", why=f"it had {self._limits.body_seconds:.0f} s")
                raise _Refused(408, told) from None
            body += (piece := message.get("body", b""))
            self._held_bytes += len(piece)
            if self._held_bytes > self._limits.bodies_bytes:
                raise _Refused(503, ServiceError("The service has too much to do", fix="ask again in a while"))
            if len(body) > self._limits.body_bytes:
                raise _too_large(self._limits)
            if not message.get("more_body"):
                break
        if nesting(bytes(body), self._limits.nesting) > self._limits.nesting:
            told = InvalidInput("The body is nested too deeply", why=f"{self._limits.nesting} levels are the most")
            raise _Refused(400, told)
        return bytes(body)


class _Refused(Exception):
    def __init__(self, status: int, error: PenstockError) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error


def require_plain_address(scope: Scope) -> None:
    """No control characters: neither records, logs nor files can hold each of them, and no client means one."""
    path, query = scope["path"], scope.get("query_string", b"")
    if any(character < " " or character == "\x7f" for character in path) or re.search(
        rb"%[01][0-9a-fA-F]|%7[fF]", query
    ):
        raise _Refused(400, InvalidInput("The address holds a control character", fix="leave it out"))


def nesting(body: bytes, enough: int) -> int:
    """How deep the brackets of a JSON text go, counted no further than just beyond `enough`.

    Strings may hold any bracket. Parsers recurse, so this has to be known before one is let at it.
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


def _too_large(limits: Limits) -> _Refused:
    return _Refused(
        413,
        InvalidInput(
            "The body is too large",
            why=f"it may have {limits.body_bytes >> 10} KiB",
            fix="keep data in the lake, and files in PUT /v1/files",
        ),
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()  # what is left to come is the end of the connection
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _seen(scope: Scope, status: int, seconds: float) -> Seen:
    state, route = scope["state"], scope.get("route")
    caller = state.get("caller")
    return Seen(
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
