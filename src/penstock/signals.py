"""Signals to this process, handled for a while."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

Handler = Callable[[int, FrameType | None], None] | signal.Handlers


@contextlib.contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Have `handler` answer these signals inside; afterwards, what did before does again. For the main thread."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Those that whoever started us did not have ignored, as nohup does with SIGHUP."""
    return tuple(number for number in numbers if signal.getsignal(number) != signal.SIG_IGN)
