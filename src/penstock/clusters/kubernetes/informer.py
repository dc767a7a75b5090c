"""The watch of one application's pods: listed once, then updated by every change, for as long as it is used.

Each watch costs a thread and a connection, and a service reports on many applications over years, so a watch that has
not been used for a while ends.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from penstock.clusters.kubernetes.client import Api, RequestRejected
from penstock.errors import PenstockError
from penstock.recovery import PODS, Failures, Kind, as_problem, kind_of

_GONE = 410
_FIRST_SECONDS = 30.0
_STALE_SECONDS = 60.0
"""The time that the last known state is served while the API server is unreachable: longer than its restart takes."""
_POLICY = PODS
_WATCH = "watch"

_log = logging.getLogger(__name__)


class PodWatch:
    """The pods that a selector matches, kept current by a thread that runs until `close`.

    The thread survives every error. The state is the latest that the API server sent; where that is too old, `pods`
    raises.
    """

    def __init__(self, api: Api, namespace: str, selector: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._pods: dict[str, Any] = {}
        self._problem: PenstockError | None = None
        self._changing = threading.Condition()
        self._listed = False
        self._closed = threading.Event()
        self._failures = Failures({_WATCH: _POLICY})
        self._troubled_since: float | None = None
        threading.Thread(target=self._run, name="pod-watch", daemon=True).start()

    @property
    def failures(self) -> int:
        """The number of consecutive failures to reach the API server."""
        return self._failures.count(_WATCH)

    def pods(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the pods by name; wait for the first answer.

        Raises the error that prevents the first answer, or that has prevented updates for a minute.
        """
        with self._changing:
            self._changing.wait_for(lambda: self._listed or self._problem is not None, _FIRST_SECONDS)
            if not self._listed:
                raise self._problem or RequestRejected(504, "The Kubernetes API server does not answer in time")
            since = self._troubled_since
            if self._problem is not None and since is not None and time.monotonic() - since >= _STALE_SECONDS:
                raise self._problem
            return dict(self._pods)

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        with self._changing:
            self._changing.wait(seconds)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                version = self._list()
                while not self._closed.is_set():
                    version = self._follow(version)
                    self._failures.succeeded(_WATCH)
            except Exception as error:  # noqa: PERF203  followed by a pause
                pause = self._failures.failed(_WATCH, error) or _POLICY.longest_seconds
                # An expired resource version is normal: list again at once. Twice in a row it is a failure.
                if isinstance(error, RequestRejected) and error.status == _GONE and self.failures == 1:
                    continue
                if kind_of(error) is Kind.DEFECT:
                    _log.exception("the watch of pods restarts after an unexpected error")
                with self._changing:
                    self._problem = as_problem(error, "watch the pods of the application")
                    self._troubled_since = self._troubled_since or time.monotonic()
                    self._changing.notify_all()
                self._closed.wait(pause)

    def _list(self) -> str:
        found = self._api.get(self._path, labelSelector=self._selector)
        with self._changing:
            self._pods = {pod["metadata"]["name"]: pod for pod in found.get("items") or []}
            self._listed, self._problem, self._troubled_since = True, None, None
            self._changing.notify_all()
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        changes = self._api.watch(self._path, version, labelSelector=self._selector, allowWatchBookmarks="true")
        with contextlib.closing(changes):  # type: ignore[type-var]
            for change in changes:
                found = change["object"]
                version = str(found["metadata"]["resourceVersion"])
                if change["type"] != "BOOKMARK":
                    self._apply(change["type"], found)
                if self._closed.is_set():
                    break
        return version

    def _apply(self, kind: str, pod: dict[str, Any]) -> None:
        with self._changing:
            if kind == "DELETED":
                self._pods.pop(pod["metadata"]["name"], None)
            else:
                self._pods[pod["metadata"]["name"]] = pod
            self._changing.notify_all()


_UNUSED_SECONDS = 300.0


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class WatchCache(Generic[T]):
    """A cache of watches by name. Every method may be called by several threads at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changing = threading.Lock()
        self._known: dict[str, tuple[T, float]] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """Return the cached watch of that name or a new one; close those that have not been used for five minutes."""
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
