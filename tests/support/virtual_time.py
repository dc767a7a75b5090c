"""An event loop whose clock jumps to the next timer as soon as nothing else is ready.

A test under it takes no time however long its coroutines wait, and runs the same on every machine. An endless wait
fails instead of hanging. There are no threads: `Inline` stands for anyio's `to_thread`.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """A selector that returns ready descriptors, and advances the clock where there are none."""

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
    """A stand-in for the module `time` in tests of a coroutine."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()


class Inline:
    """A stand-in for `anyio.to_thread` that runs the function at once."""

    @staticmethod
    async def run_sync(function: Callable[..., T], *arguments: object, **_: object) -> T:
        await asyncio.sleep(0)
        return function(*arguments)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end on a virtual clock."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
