"""Signals that end a long piece of work: it unwinds, so that what it started is ended too."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from penstock.processes import handled, not_ignored


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Make a request to terminate end what is inside as Ctrl-C does, by unwinding."""

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with handled(unwind, *not_ignored(signal.SIGTERM, signal.SIGHUP)):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C inside: ending what was started takes seconds, and must not be cut short."""
    with handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield
