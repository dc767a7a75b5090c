"""An event loop whose clock jumps to the next timer as soon as nothing else can be done.

A test under it takes no time however long its coroutines wait, and runs the same on every machine. A wait without an
end fails instead of hanging. There are no threads: `Inline` stands for anyio's `to_thread`.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Finds what is ready, and lets the clock pass where that is nothing."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing will ever happen: every coroutine waits without an end")
        if not ready and timeout is not None:
            self.loop.now += max(timeout, 0.0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class Clock:
    """In place of the module `time` where a coroutine is tested."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()


class Inline:
    """In place of `anyio.to_thread`: runs the function at once."""

    @staticmethod
    async def run_sync(function: Callable[..., T], *arguments: object, **_: object) -> T:
        await asyncio.sleep(0)
        return function(*arguments)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end on a clock of its own."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
