"""A dispatcher restarts dead supervisors, with growing delays where they die early.

It ends an application that no supervisor survives.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.engine import dispatcher as module
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.engine import Engine
from penstock.model import Reason


class Clock:
    """A clock that advances while the dispatcher waits for changes."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Deadly:
    """An engine with one application whose supervisors live for `lives` seconds each.

    The queue is checked every `looks` seconds.
    """

    def __init__(self, clock: Clock, stop: threading.Event, *, ends_at: float, lives: float, looks: float) -> None:
        self.clock, self.stop, self.ends_at = clock, stop, ends_at
        self.lives, self.looks = lives, looks
        self.started: list[float] = []
        self.asked_to_end: list[Reason] = []
        self.applications = self
        self.supervisors = SimpleNamespace(keep_ready=lambda: None, close=lambda: None)

    @contextlib.contextmanager
    def changes(self, *, dispatching: bool) -> Iterator[Any]:
        assert dispatching

        def wait(_: float) -> set[str]:
            self.clock.now += self.looks
            if self.clock.now >= self.ends_at:
                self.stop.set()
            return set()

        yield SimpleNamespace(wait=wait)

    def admit_next(self) -> None:
        return None

    def unsupervised(self) -> list[str]:
        alive = bool(self.started) and self.clock.now - self.started[-1] < self.lives
        return [] if alive else ["app-1"]

    def detach(self, _: str) -> None:
        self.started.append(self.clock.now)

    def request_stop(self, _: str, reason: Reason) -> None:
        self.asked_to_end.append(reason)


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Deadly]:
    def run(*, ends_at: float, lives: float, looks: float) -> Deadly:
        clock, stop = Clock(), threading.Event()
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(stop, "wait", lambda _: stop.is_set())
        engine = Deadly(clock, stop, ends_at=ends_at, lives=lives, looks=looks)
        Dispatcher(cast(Engine, engine)).run(stop)
        return engine

    return run


@pytest.fixture
def deadly(dispatched: Callable[..., Deadly]) -> Deadly:
    """An engine whose supervisors are dead before the next check."""
    return dispatched(ends_at=7200, lives=0, looks=5)


def test_a_supervisor_that_is_killed_in_its_first_seconds_is_followed_by_another_at_the_next_patrol(
    dispatched: Callable[..., Deadly],
) -> None:
    engine = dispatched(ends_at=25, lives=2.5, looks=0.5)
    assert engine.started[:4] == [0, 6, 12, 18]


def test_supervisors_that_die_at_once_are_started_again_a_bounded_number_of_times(deadly: Deadly) -> None:
    assert len(deadly.started) < 25


def test_an_application_that_no_supervisor_survives_is_ended_with_its_reason(deadly: Deadly) -> None:
    assert deadly.asked_to_end
    reason = deadly.asked_to_end[0]
    assert reason.code == "supervisor_lost"
    assert "supervisors.log" in reason.fix
