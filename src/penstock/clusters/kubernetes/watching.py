"""The pods of one application as they are now: listed once, then told of every change."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from penstock.clusters.kubernetes.api import Api, Refused
from penstock.errors import PenstockError

_GONE = 410
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_FIRST_SECONDS = 30.0


class PodWatch:
    """A thread of its own until `close`. What it knows is never older than the API server's last word to it."""

    def __init__(self, api: Api, namespace: str, selector: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._pods: dict[str, Any] = {}
        self._problem: PenstockError | None = None
        self._changing = threading.Condition()
        self._listed = False
        self._closed = threading.Event()
        self._pause = _PAUSE_SECONDS
        """Before asking anew, where something stood in the way; longer the longer that lasts."""
        threading.Thread(target=self._run, name="pod-watch", daemon=True).start()

    def pods(self) -> Mapping[str, Mapping[str, Any]]:
        """By name. Waits for the first answer; raises what stood in its way."""
        with self._changing:
            self._changing.wait_for(lambda: self._listed or self._problem is not None, _FIRST_SECONDS)
            if not self._listed:
                raise self._problem or Refused(504, "The Kubernetes API server does not answer in time")
            return dict(self._pods)

    def wait(self, seconds: float) -> None:
        """Until something changes, at most so long."""
        with self._changing:
            self._changing.wait(seconds)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            problem = self._list_and_follow()
            # History the server has forgotten is what listing again is for; nothing is wrong.
            if isinstance(problem, Refused) and problem.status == _GONE:
                continue
            with self._changing:
                self._problem = problem
                self._changing.notify_all()
            self._closed.wait(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _list_and_follow(self) -> PenstockError | None:
        """Until it is closed, or something stands in the way."""
        try:
            version = self._list()
            while not self._closed.is_set():
                version = self._follow(version)
                self._pause = _PAUSE_SECONDS
        except PenstockError as error:
            return error
        return None

    def _list(self) -> str:
        found = self._api.get(self._path, labelSelector=self._selector)
        with self._changing:
            self._pods = {pod["metadata"]["name"]: pod for pod in found.get("items") or []}
            self._listed, self._problem = True, None
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
