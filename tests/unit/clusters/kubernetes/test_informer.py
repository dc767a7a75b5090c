"""A watch holds the listed pods and their changes, and lists again where the server has lost the history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.clusters.kubernetes import informer as kubernetes_watching
from penstock.clusters.kubernetes.client import RequestRejected
from penstock.clusters.kubernetes.informer import PodWatch
from penstock.errors import ClusterError
from penstock.recovery import PODS


def a_pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Server:
    """A server that returns given lists, and replays one script of changes after each list."""

    def __init__(self, lists: list[list[str]], scripts: list[list[Any]]) -> None:
        self.lists = lists
        self.scripts = scripts
        self.versions: list[str] = []
        self.down = False
        self.over = threading.Event()

    def get(self, _: str, **__: str) -> dict[str, Any]:
        if self.down:
            raise ClusterError("The Kubernetes API server does not answer")
        names = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return {"items": [a_pod(name, 1) for name in names], "metadata": {"resourceVersion": "10"}}

    def watch(self, _: str, version: str, **__: str) -> Iterator[dict[str, Any]]:
        self.versions.append(version)
        if not self.scripts:
            self.over.wait(5)
            if self.down:
                raise ClusterError("The Kubernetes API server does not answer")
            return
        for change in self.scripts.pop(0):
            if isinstance(change, Exception):
                raise change
            yield change


@pytest.fixture
def watching() -> Iterator[Callable[[Server], PodWatch]]:
    made: list[tuple[PodWatch, Server]] = []

    def watch(server: Server) -> PodWatch:
        made.append((PodWatch(server, "lake", "a=b"), server))  # type: ignore[arg-type]
        return made[-1][0]

    yield watch
    for one, server in made:
        one.close()
        server.over.set()


def within(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_what_was_listed_and_every_change_since(watching: Callable[[Server], PodWatch]) -> None:
    changes = [
        {"type": "ADDED", "object": a_pod("c", 11)},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}},
        {"type": "DELETED", "object": a_pod("a", 13)},
    ]
    server = Server([["a", "b"]], [changes])
    watch = watching(server)
    within(lambda: set(watch.pods()) == {"b", "c"})
    # A watch that ended continues at its last resource version.
    within(lambda: server.versions == ["10", "13"])


def test_history_that_is_forgotten_is_listed_anew(watching: Callable[[Server], PodWatch]) -> None:
    server = Server([["a"], ["b"]], [[RequestRejected(410, "too old")]])
    watch = watching(server)
    within(lambda: set(watch.pods()) == {"b"})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watching, "_POLICY", replace(PODS, first_seconds=0.001, longest_seconds=0.01))


@pytest.mark.usefixtures("quick")
def test_after_a_watch_that_went_well_the_next_trouble_is_met_without_delay(
    watching: Callable[[Server], PodWatch],
) -> None:
    broken = ClusterError("The Kubernetes API server does not answer")
    server = Server([["a"]], [[broken], [broken], [broken], []])
    watch = watching(server)
    within(lambda: len(server.versions) == 5)
    within(lambda: watch.failures == 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [RuntimeError("x"), OSError("x"), KeyError("metadata"), ValueError("x")])
def test_a_watch_outlives_what_nobody_expected(watching: Callable[[Server], PodWatch], error: Exception) -> None:
    server = Server([["a"], ["b"]], [[error]])
    watch = watching(server)
    within(lambda: set(watch.pods()) == {"b"})


@pytest.mark.usefixtures("quick")
def test_what_was_seen_last_is_not_shown_for_ever(
    watching: Callable[[Server], PodWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([["a"]], [])
    monkeypatch.setattr(kubernetes_watching, "_STALE_SECONDS", 0.2)
    watch = watching(server)
    within(lambda: set(watch.pods()) == {"a"})
    server.down = True
    server.over.set()  # the current watch fails, and so does every list after it

    def complains() -> bool:
        try:
            watch.pods()
        except ClusterError:
            return True
        return False

    within(complains)
    server.down = False
    within(lambda: not complains())


@pytest.mark.usefixtures("quick")
def test_a_server_that_forgets_all_history_at_once_is_not_asked_without_pause(
    watching: Callable[[Server], PodWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watching, "_POLICY", replace(PODS, first_seconds=30.0, longest_seconds=30.0))
    server = Server([["a"]], [[RequestRejected(410, "too old")] for _ in range(1000)])
    watching(server)
    within(lambda: len(server.versions) >= 2)
    time.sleep(0.05)
    assert len(server.versions) < 5


def test_a_server_that_comes_back_is_asked_again_and_before_that_is_complained_of(
    watching: Callable[[Server], PodWatch],
) -> None:
    server = Server([["a"]], [])
    server.down = True
    watch = watching(server)
    with pytest.raises(ClusterError):
        watch.pods()
    server.down = False

    def there() -> bool:
        try:
            return set(watch.pods()) == {"a"}
        except ClusterError:
            return False

    within(there)
