"""libcurl's multi interface over epoll(7): the cost of a request does not grow with how many others are in flight."""

from __future__ import annotations

import contextlib
import select
import time
from dataclasses import dataclass
from typing import Any

import pycurl


@dataclass(frozen=True)
class Ended:
    """A transfer that is over. `broken` is libcurl's error number where it gave up, None where an answer came."""

    curl: Any
    broken: int | None = None
    why: str = ""


class Multi:
    """Transfers that go on at the same time. Not for several threads."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        self._timer: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)

    def add(self, curl: Any) -> None:
        """Begin a transfer; it moves in `step` only."""
        self._multi.add_handle(curl)

    def remove(self, curl: Any) -> None:
        """End a transfer, or take one away that has ended; its connection is kept where it can be used again."""
        self._multi.remove_handle(curl)

    def step(self, seconds: float) -> list[Ended]:
        """Move what can be moved; waits up to that long where nothing can. Returns what has ended, to be removed."""
        now = time.monotonic()
        if self._timer is not None:
            seconds = min(seconds, self._timer - now)
        for descriptor, events in self._epoll.poll(max(0.0, seconds)):
            self._multi.socket_action(descriptor, _as_curl_has_it(events))
        if self._timer is not None and self._timer <= time.monotonic():
            self._timer = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return self._ended()

    def close(self) -> None:
        self._multi.close()
        self._epoll.close()

    def _ended(self) -> list[Ended]:
        found: list[Ended] = []
        while True:
            left, well, broken = self._multi.info_read()
            found += [Ended(curl) for curl in well]
            found += [Ended(curl, number, why) for curl, number, why in broken]
            if not left:
                return found

    def _on_socket(self, wanted: int, descriptor: int, *_: object) -> None:
        if wanted == pycurl.POLL_REMOVE:
            self._watched.discard(descriptor)
            with contextlib.suppress(OSError):  # closed already, and so forgotten by the kernel
                self._epoll.unregister(descriptor)
            return
        events = (select.EPOLLIN if wanted & pycurl.POLL_IN else 0) | (
            select.EPOLLOUT if wanted & pycurl.POLL_OUT else 0
        )
        if descriptor in self._watched:
            self._epoll.modify(descriptor, events)
        else:
            self._watched.add(descriptor)
            self._epoll.register(descriptor, events)

    def _on_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


def _as_curl_has_it(events: int) -> int:
    return (
        (pycurl.CSELECT_IN if events & select.EPOLLIN else 0)
        | (pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0)
        | (pycurl.CSELECT_ERR if events & (select.EPOLLERR | select.EPOLLHUP) else 0)
    )
