"""The supervisor of a running application renews its credentials in time, and only while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clusters.backend import ClusterBackend
from penstock.engine.preparation import CredentialRenewal, credentials_for, renewing_credentials
from penstock.errors import LakeError, PenstockError
from penstock.home import Home
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.lake.settings import parse_lease, private_credentials_file
from penstock.lake.sts import Lease
from penstock.model import State
from tests.unit.engine.engine_making import application, spec

OWN = Credentials("AKOWN", "own-secret")


class Clock:
    """The clock of the renewal thread, which the test advances."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._wakes_at: float | None = None
        self._changed = threading.Condition()

    def __call__(self) -> float:
        return self._now

    def wait(self, closed: threading.Event, seconds: float) -> None:
        with self._changed:
            self._wakes_at = wakes_at = self._now + seconds
            self._changed.notify_all()
            while self._now < wakes_at and not closed.is_set():
                self._changed.wait(0.02)
            self._wakes_at = None

    def rests(self) -> bool:
        """Return whether the thread waits and its wait is not over."""
        with self._changed:
            return self._wakes_at is not None and self._now < self._wakes_at

    def let_pass(self, seconds: float) -> None:
        """Advance the clock, stopping at each wake-up of the thread so that each step happens at its own time."""
        ends_at = self._now + seconds
        while self._now < ends_at:
            within(self.rests)
            with self._changed:
                self._now = min(ends_at, self._wakes_at or ends_at)
                self._changed.notify_all()
        within(self.rests)

    def let_one_end(self) -> None:
        """Let the time of the current wait pass, without waiting for the thread's next step."""
        within(self.rests)
        with self._changed:
            self._now = self._wakes_at or self._now
            self._changed.notify_all()


class Store:
    """A store that issues leases of `seconds`, and fails while `failing` is set."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self.clock = clock
        self.asked = 0
        self.issued = 0
        self.issued_at: list[float] = []
        self.failing = False
        self.failure: Exception = LakeError("The store refuses", why="it was told to", fix="tell it otherwise")
        self.hold = threading.Event()
        self.hold.set()

    def issue(self) -> Lease:
        self.asked += 1
        self.hold.wait(60)
        if self.failing:
            raise self.failure
        self.issued += 1
        now = self.clock()
        self.issued_at.append(now)
        return Lease(Credentials(f"AK{self.issued}", "s", "t"), now, now + self.seconds)


class World:
    def __init__(self, seconds: float) -> None:
        self.clock = Clock()
        self.store = store = Store(seconds, self.clock)
        self.written: list[str] = []
        self.given_up: list[PenstockError] = []
        self.leasing = CredentialRenewal(
            "app-1",
            store.issue(),
            issue=store.issue,
            write=self.written.append,
            give_up=self.given_up.append,
            clock=self.clock,
            wait=self.clock.wait,
        )

    def keys(self) -> list[str]:
        return [lease.credentials.access_key for text in self.written if (lease := parse_lease(text))]


def within(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_each_lease_is_replaced_at_half_time_by_the_next() -> None:
    world = World(seconds=900)
    world.clock.let_pass(3 * 450)
    world.leasing.close()
    assert world.keys() == ["AK2", "AK3", "AK4"]
    assert world.store.issued_at == [1000, 1450, 1900, 2350]
    assert world.given_up == []


@pytest.mark.parametrize("failure", [LakeError("The store refuses"), OSError("no descriptors"), RuntimeError("x")])
def test_a_store_that_fails_for_a_while_costs_nothing(failure: Exception) -> None:
    world = World(seconds=900)
    world.store.failure = failure
    world.store.failing = True
    world.clock.let_pass(800)
    assert world.written == []
    world.store.failing = False
    world.clock.let_pass(99)
    world.leasing.close()
    assert world.keys()[0] == "AK2"
    assert world.given_up == []


def test_a_store_that_fails_to_the_end_ends_the_application_with_its_reason() -> None:
    world = World(seconds=900)
    world.store.failing = True
    while not world.given_up:
        within(lambda: world.clock.rests() or world.given_up)
        if not world.given_up:
            world.clock.let_one_end()
    assert world.clock() >= 1900
    (error,) = world.given_up
    assert error.code == "lake_error"  # another attempt may succeed
    assert "ended and could not be renewed" in error.problem
    assert "it was told to" in error.why
    assert error.fix == "tell it otherwise"
    assert world.written == []


def test_what_arrives_after_the_end_is_not_written() -> None:
    world = World(seconds=40)
    world.store.hold.clear()
    world.clock.let_one_end()
    within(lambda: world.store.asked == 2)
    world.leasing.close()
    world.store.hold.set()
    within(lambda: world.store.issued == 2)
    within(lambda: "leasing-app-1" not in {thread.name for thread in threading.enumerate()})
    assert world.written == []


class Files:
    """A stand-in for a backend: the private files of one cluster."""

    def __init__(self, content: str | None) -> None:
        self.content = content

    def handle(self, application_id: str) -> dict[str, Any]:
        return {"application_id": application_id}

    def private_file(self, handle: object, name: str) -> str | None:
        return self.content

    def replace_private_file(self, handle: object, name: str, content: str) -> None:
        self.content = content


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    return home


def test_a_successor_continues_from_the_clusters_credentials(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Lakes(home).add(Lake("sales", ("http://a:1",), "data", "file:sales", sts=Sts("http://a:1", None, 900)), OWN)
    store = Store(900, time.time)
    monkeypatch.setattr("penstock.lake.sts.issue", lambda *_: store.issue())
    at = time.time()
    files = Files(private_credentials_file(Lease(Credentials("AKOLD", "s", "t"), at - 500, at + 400)))
    beside = renewing_credentials(home, cast(ClusterBackend, files))
    with beside(application(State.RUNNING, spec=spec(lake="sales")), lambda _: None):
        within(lambda: "AKOLD" not in (files.content or ""))
    renewed = parse_lease(files.content or "")
    assert renewed is not None
    assert renewed.credentials.access_key == "AK1"


def test_nothing_goes_on_beside_an_application_with_the_lakes_own_credentials(home: Home) -> None:
    before = threading.active_count()
    for content in (private_credentials_file(OWN), None):
        files = Files(content)
        with renewing_credentials(home, cast(ClusterBackend, files))(application(State.RUNNING), lambda _: None):
            assert threading.active_count() == before
        assert files.content == content


def test_where_the_store_should_issue_credentials_the_lakes_own_are_never_given_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The client pauses before it retries an unreachable store.
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    lake = Lake("sales", ("http://127.0.0.1:1",), "data", "file:sales")
    assert credentials_for(lake, OWN, "app-1") == OWN
    asks = Lake("sales", ("http://127.0.0.1:1",), "data", "file:sales", sts=Sts("http://127.0.0.1:1"))
    with pytest.raises(LakeError):
        credentials_for(asks, OWN, "app-1")
