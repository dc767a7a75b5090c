"""A body on its way through a faulty gateway."""

from __future__ import annotations

import asyncio

from benchmarks.chaos.faults import Fault, Flip, Throttle
from benchmarks.chaos.messages import PIECE


class CorruptedBody:
    """A body that is slowed down by a `Throttle`, or corrupted or cut by a fault of the types `flip` and `cut`."""

    def __init__(self, fault: Fault | None, length: int | None, flip: type[Flip], cut: type[Fault]) -> None:
        self._rate = fault.bytes_per_second if isinstance(fault, Throttle) else None
        self._flips = isinstance(fault, flip)
        share = fault.place if isinstance(fault, Flip) else 0.5
        # A body of unknown length counts as one piece of the largest size.
        self._place = int((PIECE if length is None else length) * share)
        self._cuts = isinstance(fault, cut)
        self._passed = 0
        self.cut = False

    async def by_fault(self, piece: bytes) -> bytes:
        if self._rate:
            await asyncio.sleep(len(piece) / self._rate)
        at = self._place - self._passed
        self._passed += len(piece)
        if not 0 <= at < len(piece):
            return piece
        if self._cuts:
            self.cut = True
            return piece[:at]
        if self._flips:
            return piece[:at] + bytes([piece[at] ^ 0x10]) + piece[at + 1 :]
        return piece
