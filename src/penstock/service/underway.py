"""Requests under way, by who asks: no token, and no stranger, takes the connections and threads of all others.

A request counts for its token, or where it has none that is valid, for the address it comes from.
What is answered for as long as somebody listens ends with the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

from anyio import to_thread

from penstock.engine.repository.applications import now
from penstock.engine.tokens import Token, holds, not_valid
from penstock.errors import NotFound, QuotaExceeded

_LOOK_AT_TOKEN_SECONDS = 5.0
_NEIGHBOURS = 64
"""The prefix of IPv6 addresses that one machine may have all of."""

_Holder = tuple[str, str]


@dataclass(frozen=True)
class Bounds:
    """Requests at the same time. `threads` is of the service: more than one token's requests can hold."""

    per_token: int = 256
    per_address: int = 64
    uploads_per_token: int = 8
    threads: int = 320


class UnderWay:
    """May be called by several threads at once."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held: Counter[_Holder] = Counter()
        self._turn = threading.Lock()

    def begin(self, address: str, token_id: str | None) -> Slot:
        """For a request with that valid token, or with none from that address. Raises `QuotaExceeded`."""
        holder = ("address", _network(address)) if token_id is None else ("token", token_id)
        with self._turn:
            self._take(holder)
        return Slot(self, holder)

    def move(self, slot: Slot, token_id: str) -> None:
        """Raises `QuotaExceeded`."""
        holder = ("token", token_id)
        with self._turn:
            self._take(holder)
            self._give_back(slot.holder)
            slot.holder = holder

    def end(self, slot: Slot) -> None:
        with self._turn:
            self._give_back(slot.holder)

    @contextlib.contextmanager
    def uploading(self, token_id: str) -> Iterator[None]:
        """Raises `QuotaExceeded`."""
        holder = ("upload", token_id)
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
            "upload": self._bounds.uploads_per_token,
        }[kind]
        if self._held[holder] >= most:
            raise _too_many(kind, most)
        self._held[holder] += 1

    def _give_back(self, holder: _Holder) -> None:
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]


class Slot:
    """One request's. `holder` is who it counts for."""

    def __init__(self, under_way: UnderWay, holder: _Holder) -> None:
        self._under_way = under_way
        self.holder = holder

    def belongs_to(self, token_id: str) -> None:
        """The request was found to be of this token, by a cookie. Raises `QuotaExceeded` where that has too many."""
        self._under_way.move(self, token_id)

    def end(self) -> None:
        self._under_way.end(self)


async def while_valid(
    pieces: AsyncGenerator[bytes, None], token: Token, current: Callable[[str], Token]
) -> AsyncGenerator[bytes, None]:
    """The pieces. Raises `Unauthenticated` some seconds after the token was revoked, replaced or has expired.

    It does so also where no piece comes."""
    clock = asyncio.get_running_loop().time
    coming = asyncio.ensure_future(_next(pieces))
    look_at = clock() + _LOOK_AT_TOKEN_SECONDS
    try:
        while True:
            await asyncio.wait([coming], timeout=max(0.0, look_at - clock()))
            if clock() >= look_at:
                await to_thread.run_sync(_require_valid, token, current)
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
            # It ends what it waits in, and with it the pieces.
            coming.cancel()


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    """None at the end."""
    async for piece in pieces:
        return piece
    return None


def _require_valid(token: Token, current: Callable[[str], Token]) -> None:
    try:
        found = current(token.id)
    except NotFound:
        raise not_valid() from None
    if not holds(found, token.secret_hash, at=now()):
        raise not_valid()


def _network(address: str) -> str:
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if known.version == 4 else str(ipaddress.ip_network((known, _NEIGHBOURS), strict=False))


def _too_many(kind: str, most: int) -> QuotaExceeded:
    if kind == "address":
        return QuotaExceeded(
            "Too many requests without a valid token are under way from your address",
            why=f"{most} at the same time are the most, so that others are answered too",
            fix="ask again in a moment, with a token: requests with one count for it alone",
        )
    what = "uploads" if kind == "upload" else "requests"
    return QuotaExceeded(
        f"Too many {what} of your token are under way",
        why=f"{most} at the same time are the most, so that others are answered too",
        fix="ask again when some have ended, or give each program a token of its own",
    )
