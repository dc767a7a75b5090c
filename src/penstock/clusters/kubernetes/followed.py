"""The clusters that somebody asks about, each followed until nobody has asked for a while: a service is asked about
many, for years, and each costs a thread and a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_UNUSED_SECONDS = 300.0


class Closing(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closing)


class Followed(Generic[T]):
    """By name. Every method may be called by several threads at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changing = threading.Lock()
        self._known: dict[str, tuple[T, float]] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The one that is known, or a new one; others that nobody wants any more are closed."""
        now = self._clock()
        with self._changing:
            found = self._known[name][0] if name in self._known else make()
            self._known[name] = found, now
            unused = [other for other, (_, at) in self._known.items() if now - at > _UNUSED_SECONDS]
            closing = [self._known.pop(other)[0] for other in unused]
        for one in closing:
            one.close()
        return found

    def forget(self, name: str) -> None:
        with self._changing:
            found = self._known.pop(name, None)
        if found is not None:
            found[0].close()
