"""Credentials of running applications are renewed in time, by whoever looks after them, and only while they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clusters.base import ClusterBackend
from penstock.engine.application import State
from penstock.engine.leasing import Leasing, credentials_for, leasing
from penstock.errors import LakeError, PenstockError
from penstock.home import Home
from penstock.lake.base import Credentials, Lake, Sts
from penstock.lake.leases import Lease
from penstock.lake.registry import Lakes
from penstock.lake.settings import lease_in, private_credentials_file
from tests.unit.engine.engine_making import application, spec

OWN = Credentials("AKOWN", "own-secret")


class Store:
    """Issues leases of `seconds`; fails as long as `failing`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.issued = 0
        self.failing = False
        self.hold = threading.Event()
        self.hold.set()

    def issue(self) -> Lease:
        self.hold.wait(5)
        if self.failing:
            raise LakeError("The store refuses", why="it was told to", fix="tell it otherwise")
        self.issued += 1
        now = time.time()
        return Lease(Credentials(f"AK{self.issued}", "s", "t"), now, now + self.seconds)


class World:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.written: list[str] = []
        self.given_up: list[PenstockError] = []
        self.leasing = Leasing(
            "app-1", store.issue(), issue=store.issue, write=self.written.append, give_up=self.given_up.append
        )

    def keys(self) -> list[str]:
        return [lease.credentials.access_key for text in self.written if (lease := lease_in(text))]


def within(holds: Callable[[], object], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_each_lease_is_replaced_at_half_time_by_the_next() -> None:
    world = World(Store(seconds=0.2))
    within(lambda: len(world.written) >= 3)
    world.leasing.close()
    assert world.keys()[:3] == ["AK2", "AK3", "AK4"]
    assert world.given_up == []


def test_a_store_that_fails_for_a_while_costs_nothing() -> None:
    world = World(store := Store(seconds=2.0))
    store.failing = True
    time.sleep(1.1)
    assert world.written == []
    store.failing = False
    within(lambda: world.written)
    world.leasing.close()
    assert world.given_up == []


def test_a_store_that_fails_to_the_end_ends_the_application_with_its_reason() -> None:
    world = World(store := Store(seconds=0.3))
    store.failing = True
    within(lambda: world.given_up)
    (error,) = world.given_up
    assert error.code == "lake_error"  # what another attempt may mend
    assert "ended and could not be renewed" in error.problem
    assert "it was told to" in error.why
    assert error.fix == "tell it otherwise"
    assert world.written == []


def test_what_arrives_after_the_end_is_not_written() -> None:
    world = World(store := Store(seconds=0.2))
    store.hold.clear()
    time.sleep(0.15)
    world.leasing.close()
    store.hold.set()
    within(lambda: store.issued == 2)
    time.sleep(0.05)
    assert world.written == []


class Files:
    """The private files of one cluster, in place of a backend."""

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


def test_whoever_takes_over_goes_on_from_what_the_cluster_holds(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Lakes(home).add(Lake("sales", ("http://a:1",), "data", "file:sales", sts=Sts("http://a:1", None, 900)), OWN)
    store = Store(seconds=900)
    monkeypatch.setattr("penstock.lake.sts.issue", lambda *_: store.issue())
    at = time.time()
    files = Files(private_credentials_file(Lease(Credentials("AKOLD", "s", "t"), at - 500, at + 400)))
    beside = leasing(home, cast(ClusterBackend, files))
    with beside(application(State.RUNNING, spec=spec(lake="sales")), lambda _: None):
        within(lambda: "AKOLD" not in (files.content or ""))
    renewed = lease_in(files.content or "")
    assert renewed is not None
    assert renewed.credentials.access_key == "AK1"


def test_nothing_goes_on_beside_an_application_with_the_lakes_own_credentials(home: Home) -> None:
    before = threading.active_count()
    for content in (private_credentials_file(OWN), None):
        files = Files(content)
        with leasing(home, cast(ClusterBackend, files))(application(State.RUNNING), lambda _: None):
            assert threading.active_count() == before
        assert files.content == content


def test_where_the_store_should_issue_credentials_the_lakes_own_are_never_given_instead() -> None:
    lake = Lake("sales", ("http://127.0.0.1:1",), "data", "file:sales")
    assert credentials_for(lake, OWN, "app-1") == OWN
    asks = Lake("sales", ("http://127.0.0.1:1",), "data", "file:sales", sts=Sts("http://127.0.0.1:1"))
    with pytest.raises(LakeError):
        credentials_for(asks, OWN, "app-1")
