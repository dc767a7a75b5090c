"""A unit test that starts a server or sleeps longer than 50 ms fails: it belongs to tests/integration."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
import uvicorn

MOST_SECONDS = 0.05


@contextmanager
def _without_servers_and_sleep() -> Iterator[None]:
    found: list[str] = []
    sleep = time.sleep
    # A daemon thread that an earlier test of this process left must not fail this one.
    others = set(threading.enumerate()) - {threading.current_thread()}

    def noted_sleep(seconds: float) -> None:
        if seconds > MOST_SECONDS and threading.current_thread() not in others:
            found.append(f"slept for {seconds:g} s")
        sleep(min(seconds, MOST_SECONDS))

    def no_server(self: object, *_: object, **__: object) -> None:
        found.append(f"started a server, {type(self).__name__}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", noted_sleep)
        patch.setattr(socketserver.BaseServer, "serve_forever", no_server)
        patch.setattr(uvicorn.Server, "run", no_server)
        yield
    if found:
        pytest.fail(f"this unit test {found[0]}: it needs a clock of its own, or belongs to tests/integration")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    with _without_servers_and_sleep():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with _without_servers_and_sleep():
        yield
