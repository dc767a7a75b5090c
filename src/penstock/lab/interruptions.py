"""Signals that end a long piece of work: it unwinds, so that what it started is ended too."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Make a request to terminate end what is inside as Ctrl-C does, by unwinding.

    A signal that whoever started us had ignored, as nohup does with SIGHUP, stays ignored.
    """

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, unwind) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C inside: ending what was started takes seconds, and must not be cut short."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
