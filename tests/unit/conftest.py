"""A unit test starts no server and sleeps no longer than 50 ms: what does belongs to tests/integration.

A server fails the test; a longer sleep is a warning in the summary.
"""

from __future__ import annotations

import socketserver
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
import uvicorn

MOST_SECONDS = 0.05


@contextmanager
def _without_servers_and_sleep() -> Iterator[None]:
    found: list[str] = []
    sleep = time.sleep

    def noted_sleep(seconds: float) -> None:
        if seconds > MOST_SECONDS:
            warnings.warn(f"this unit test slept for {seconds:g} s; it may need a clock of its own", stacklevel=2)
        sleep(seconds)

    def no_server(self: object, *_: object, **__: object) -> None:
        found.append(type(self).__name__)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", noted_sleep)
        patch.setattr(socketserver.BaseServer, "serve_forever", no_server)
        patch.setattr(uvicorn.Server, "run", no_server)
        yield
    if found:
        pytest.fail(f"this unit test started a server, {found[0]}: it belongs to tests/integration")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    with _without_servers_and_sleep():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with _without_servers_and_sleep():
        yield
